/// Running one algorithm once, between guard bands. Private to check/.
#ifndef TALC_CHECK_ENGINE_CASE_H
#define TALC_CHECK_ENGINE_CASE_H

#include "check/engine/family.h"

/// What may be varied from run to run.
typedef struct check_run_options {
    int shift_bytes; ///< how far the first operand is off 64-byte alignment, a multiple of the
                     ///< element's size being used; each further one is off by an element more; 0:
                     ///< none is
    size_t workspace_limit; ///< SIZE_MAX: the device's
    bool foreign;           ///< the caller flushes denormals and rounds upwards
    bool finite;            ///< outputs and workspace hold finite numbers beforehand, not NaN
} check_run_options;

/// Host memory that a run works in, kept for the next one: zeroed before the first, given back by
/// talc_check_buffers_free.
typedef struct check_buffers {
    unsigned char *image; ///< what the device's buffer holds before the run
    unsigned char *after; ///< and after it
    size_t bytes;         ///< of each
} check_buffers;

void talc_check_buffers_free(check_buffers *buffers);

typedef struct check_run_report {
    talc_status status;
    char failure[200];   ///< the algorithm's message when it failed
    const char *written; ///< operand or workspace whose guard band changed; NULL
    const char *changed; ///< input that changed; NULL
    bool left_fenv;    ///< the floating-point environment behind it was another one than before it
    int64_t unwritten; ///< elements of outputs that still hold the fill
} check_run_report;

/// Uploads the values, each operand with 4096 bytes of NaN before and behind, fills outputs and
/// workspace with NaN or finite numbers, runs the algorithm, and downloads what is written or
/// updated into `results`, which has room for those operands. False with a failure when the check
/// could not be made (no memory).
///
/// All lies in one buffer of the device, which costs one transfer each way. The inside of a large
/// workspace never travels.
bool talc_check_run(const check_direction *direction, const talc_algorithm *algorithm,
                    talc_device *device, const check_problem *problem, const check_values *values,
                    const check_run_options *options, check_buffers *buffers,
                    const check_values *results, check_run_report *report);

/// Arrays of double for all operands of a problem, zeroed; freed by talc_check_values_free. False
/// with a failure.
bool talc_check_values_new(const check_direction *direction, const check_problem *problem,
                           check_values *values);
void talc_check_values_free(check_values *values);

#endif
