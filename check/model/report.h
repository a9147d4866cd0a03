/// The passes that make a report. Private to check/.
#ifndef TALC_CHECK_MODEL_REPORT_H
#define TALC_CHECK_MODEL_REPORT_H

#include "check/model/verdict.h"
#include "check/model/trace.h"
#include "check/model/walk.h"
#include "tensor/safetensors.h"

struct talc_check_model_report {
    talc_check_model_layer *layers;
    int count;
    size_t tolerance;
    char **skipped; ///< names of saved tensors that no module gave
    int skipped_count;
};

/// An op of the reference run.
typedef struct check_reference {
    char path[CHECK_PATH];
    char op[CHECK_NAME];
    talc_dims dims;
    talc_arithmetic arithmetic;
    double *elements;
} check_reference;

/// The reference run.
typedef struct check_recording {
    check_walk walk; /* first, so that the two pointers are one */
    check_reference *list;
    int count;
    size_t tolerance;
} check_recording;

/// Saved activations.
typedef struct check_activations {
    const char *path;
    talc_safetensors *file;
    bool *used; ///< each tensor of the file: some layer gave it
} check_activations;

bool talc_check_activations_open(const char *path, check_activations *activations);
void talc_check_activations_close(check_activations *activations);

/// The saved output of a module's call into *elements, to be freed by talc_memory_free; NULL when
/// there is none. False with a failure: one of another shape, one that cannot be read.
bool talc_check_activations_find(check_activations *activations, const talc_module *root,
                                 const char *path, int call, talc_dims dims, double **elements);

/// Notes in the report the tensors that no module gave. False with a failure: there is no other.
bool talc_check_activations_used(const check_activations *activations,
                                 talc_check_model_report *report);

/// The run that is checked, against a recording or saved activations.
typedef struct check_comparison {
    check_walk walk;                  /* first */
    const check_recording *recording; ///< NULL: activations
    check_activations *activations;
    int next; ///< op of the recording
    check_trace trace;
    check_open open;    ///< of the last op
    talc_tensor opened; ///< its output: a copy of the fields, whose storage the trace holds
    double before;      ///< what its inputs have accumulated
    talc_check_model_report *report;
} check_comparison;

void talc_check_record_op(check_walk *walk, const char *path, const talc_observation *observation);
void talc_check_compare_op(check_walk *walk, const char *path, const talc_observation *observation);
void talc_check_compare_module(check_walk *walk, const char *path, int call, talc_tensor *y);

void talc_check_recording_free(check_recording *recording);
void talc_check_comparison_free(check_comparison *comparison); ///< all but the report

#endif
