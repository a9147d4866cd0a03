/// Gradients of convolutions with one mistake each, which a cross-check has to reject.
///
/// The algorithm beneath is plain and, with GRADIENT_RIGHT, right: each product is added where it
/// belongs, and the sum rounded to the data's type after every step. It takes every direction, the
/// forward one without bias, residual and activation.
#ifndef TALC_TESTS_CONV2D_GRADIENT_MUTANTS_H
#define TALC_TESTS_CONV2D_GRADIENT_MUTANTS_H

#include "check/check.h"

typedef enum gradient_mistake {
    GRADIENT_RIGHT,
    GRADIENT_BORDER_TAP,
    GRADIENT_PHASE,
    GRADIENT_GROUP,
    GRADIENT_DILATION,
    GRADIENT_LAST_ROWS,
    GRADIENT_ROTATED,
    GRADIENT_EXCHANGED,
    GRADIENT_ZERO_WEIGHTS,
    GRADIENT_HALF_SUM,
    GRADIENT_F64_NARROW,
    GRADIENT_ACCUMULATES,
    GRADIENT_WRITES_DY,
    GRADIENT_LAST_IMAGE,
    GRADIENT_PAD_AXES,
    GRADIENT_TAIL,
    GRADIENT_NAN_ZERO,
    GRADIENT_CLAMPED,
    GRADIENT_THREADS,
    GRADIENT_WRITES_PAST,
    GRADIENT_SPREADS,
    GRADIENT_SKIPS_PADDING,
    GRADIENT_MISTAKES
} gradient_mistake;

/// A mistake, the problem on which it is rejected, and a kind of check that does it.
typedef struct conv2d_gradient_mutant {
    gradient_mistake mistake;
    const char *name, *description, *problem;
    talc_check_kind kind;
} conv2d_gradient_mutant;

extern const conv2d_gradient_mutant conv2d_gradient_mutants[];
extern const int conv2d_gradient_mutant_count;

/// The algorithm that makes a mistake. One at a time: a call changes what the algorithm of the call
/// before does.
const talc_algorithm *conv2d_gradient_mutant_algorithm(gradient_mistake mistake);

#endif
