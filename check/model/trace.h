/// How far the elements of a model's tensors may be from the reference's, storage by storage, so
/// that views see it too. Private to check/.
#ifndef TALC_CHECK_MODEL_TRACE_H
#define TALC_CHECK_MODEL_TRACE_H

#include "check/engine/expected.h"

typedef struct check_trace_entry {
    const talc_storage *storage;
    talc_tensor *held; ///< a view, so that no other storage takes this one's place
    int64_t count;     ///< elements of `off`
    double *off;
    double accumulated; ///< the worst step so far
} check_trace_entry;

/// Storages that are not listed hold what the reference has too: the model's input and parameters.
typedef struct check_trace {
    check_trace_entry *list;
    int count;
    size_t tolerance;
} check_trace;

void talc_check_trace_free(check_trace *trace);

/// The elements of a tensor as an array, row-major, for talc_check_array_free; NULL gives an empty
/// one. `trace` may be NULL.
/// *accumulated becomes the storage's, if that is more. False with a failure.
bool talc_check_array_of(const check_trace *trace, const talc_tensor *tensor, check_array *array,
                         double *accumulated);
void talc_check_array_free(check_array *array);

/// Notes `off`, one number for each element of `tensor`, and the worst step.
bool talc_check_trace_write(check_trace *trace, talc_tensor *tensor, const double *off,
                            double accumulated);

#endif
