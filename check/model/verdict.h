/// Holding one op's output against what is due and against the reference. Private to check/.
#ifndef TALC_CHECK_MODEL_VERDICT_H
#define TALC_CHECK_MODEL_VERDICT_H

#include "check/model.h"
#include "check/engine/expected.h"

/// An output that is not yet compared with the reference, and may be, once that is known.
typedef struct check_open {
    int64_t count;
    talc_dims dims;
    double *got;       ///< elements
    double *spread;    ///< what the inputs' difference explains
    double *tolerance; ///< what rounding in both runs adds
} check_open;

void talc_check_open_free(check_open *open);

/// Works out `own` of a layer from an op that ran, and what is left open. `reference` is the other
/// run's arithmetic; NULL: what is saved is another library's, by a formula of its own
/// (check_due.foreign).
bool talc_check_verdict_of_layer(const check_ran *ran, const talc_arithmetic *reference,
                                 talc_check_model_layer *layer, check_open *open);

/// Compares with the reference's elements: step, accumulated (`before` is the inputs'), difference,
/// worst element. `spread` becomes the difference that was found, and `tolerance` nothing.
void talc_check_verdict_of_step(check_open *open, const double *reference, double before,
                                talc_check_model_layer *layer);

/// Whether own and accumulated are at most 1, where they are known.
void talc_check_verdict_at_end(talc_check_model_layer *layer);

#endif
