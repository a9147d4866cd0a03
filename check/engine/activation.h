/// The last step of an oracle: the activation. Private to check/.
#ifndef TALC_CHECK_ENGINE_ACTIVATION_H
#define TALC_CHECK_ENGINE_ACTIVATION_H

#include "ops/activation.h"
#include "check/engine/family.h"

/// The activation of v, by its formula.
long double talc_check_activated(talc_activation activation, long double v);

/// The gradient before it, from that after it and y, by its formula.
long double talc_check_activated_gradient(talc_activation activation, long double dy,
                                          long double y);

/// Its steepest slope, and whether its result has roundings of its own.
double talc_check_activation_slope(talc_activation activation);
bool talc_check_activation_rounds(talc_activation activation);

/// Makes *due, which says what the sum before the activation must be, say what the result must be.
///
/// What the sum may be off, the result may be, times the steepest slope where that is over 1. Those
/// that are no choice among numbers may be 4 ulp off on top, silu 8, in the tail of gelu as many
/// more as its exponent x^2 / 2 has roundings, a sigmoid also by the smallest normal number, as 1 /
/// (1 + exp(-x)) is 0 where the exponential overflows, and gelu by x times that. A sum that is not
/// finite has no error: its result is due as it is.
void talc_check_activate(check_expected *expected, talc_activation activation, talc_dtype dtype);

#endif
