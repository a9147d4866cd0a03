/// Numbers to fill operands with. Private to check/.
#ifndef TALC_CHECK_DATA_H
#define TALC_CHECK_DATA_H

#include "check/check.h"

/// A random number that depends on its arguments alone.
uint64_t talc_check_bits(uint64_t seed, uint64_t index);

/// One of low .. high; moves *state.
int64_t talc_check_draw(uint64_t *state, int64_t low, int64_t high);

/// `value` as an element of `dtype` holds it.
double talc_check_rounded(talc_dtype dtype, double value);

/// A NaN without its sign, for messages; anything else as it is.
double talc_check_shown(double value);

/// Fills `count` elements with data of a kind:
///     EXACT      integers of -largest .. largest
///     RANDOM     uniform in [-scale, scale)
///     CONSTANT   scale / 3
///     WIDE       either sign, sizes spread over 20 binades below `scale`
///     HUGE       RANDOM with one element of 2^30 scale
///     TINY       RANDOM with the first half of every 64 elements 2^-30 times as large, and of every other 64 so small that
///                they are denormal
///     NAN, INFINITY   RANDOM with that in one element
void talc_check_fill(double *values, int64_t count, talc_dtype dtype, talc_check_kind kind,
                     double largest, double scale, uint64_t seed);

/// The largest integer a <= most such that K products of two of them sum below 2^24 (2^53 for f64).
double talc_check_exact_largest(talc_dtype dtype, double K, double most);

#endif
