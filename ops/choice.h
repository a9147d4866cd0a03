/// The choice among an op's rows, and the frame around running one. Private to talc.
///
/// Every op chooses the same way, so that forcing, precision, workspace limits, messages and TALC_VERBOSE mean the
/// same everywhere:
///
///     talc_choice choice = talc_choice_begin("softmax", device, NULL, 0);
///     const talc_softmax_algorithm *row = device->backend->softmax;
///     for (; row != NULL && row->algorithm.name != NULL; row++)
///         if (talc_choice_admits(&choice, &row->algorithm, row->refuses(problem), 0))
///             return row;
///     talc_choice_fail(&choice);
///     return NULL;
#ifndef TALC_OPS_CHOICE_H
#define TALC_OPS_CHOICE_H

#include "ops/algorithm.h"
#include "tensor/storage.h"

typedef struct talc_choice {
    const char *op;
    talc_device *device;
    const char *forced; ///< NULL: the list's order decides
    unsigned precision; ///< admitted classes
    size_t limit;       ///< workspace bytes
    bool forced_seen;
    char reasons[640]; ///< "name: reason; ..." of the rows refused so far
} talc_choice;

/// `forced` is the caller's own choice, NULL for the thread's; classes 0 for the thread's.
talc_choice talc_choice_begin(const char *op, talc_device *device, const char *forced,
                              unsigned precision);

/// Why this row may not run; NULL when it may: another is forced, its own `refusal` (NULL for none), its precision
/// class, or the `workspace` it would use under the limit. Notes nothing.
const char *talc_choice_refusal(const talc_choice *choice, const talc_algorithm *row,
                                const char *refusal, size_t workspace, char text[96]);

/// Whether the row runs. Notes the reason when it does not.
bool talc_choice_admits(talc_choice *choice, const talc_algorithm *row, const char *refusal,
                        size_t workspace);

/// Raises TALC_UNSUPPORTED with every row's reason.
talc_status talc_choice_fail(const talc_choice *choice);

/// What a run needs to be timed, named in a fault, and traced.
typedef struct talc_run {
    const char *op;
    const char *algorithm;
    talc_device *device;
    double started; ///< seconds; only with TALC_VERBOSE=exec
} talc_run;

talc_run talc_run_begin(const char *op, talc_device *device, const talc_algorithm *row);

/// Ends a run: waits under TALC_SYNC or TALC_VERBOSE=exec and prints the line `talc,exec,device,op,algorithm,problem,ms`.
/// Returns `status`, or what waiting showed. `problem` is printed with x for each comma.
talc_status talc_run_end(const talc_run *run, talc_status status, const char *problem);

#endif
