/// Numbers to fill operands with. Private to check/.
#ifndef TALC_CHECK_ENGINE_DATA_H
#define TALC_CHECK_ENGINE_DATA_H

#include "check/check.h"

/// A random number that depends on its arguments alone.
uint64_t talc_check_bits(uint64_t seed, uint64_t index);

/// One of low .. high; moves *state.
int64_t talc_check_draw(uint64_t *state, int64_t low, int64_t high);

/// One of a list of numbers.
int64_t talc_check_pick(uint64_t *state, const int64_t *list, int64_t count);
#define CHECK_PICK(state, ...)                                                                     \
    talc_check_pick((state), (const int64_t[]){ __VA_ARGS__ },                                     \
                    (int64_t)(sizeof((const int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)))

/// f32 three times of four, else f64.
talc_dtype talc_check_draw_float(uint64_t *state);

/// Mostly none.
talc_activation talc_check_draw_activation(uint64_t *state);

/// What a type of floating-point numbers can hold; zeros for integers.
typedef struct check_format {
    double unit;     ///< u, half the distance from 1 to the next number
    double smallest; ///< the smallest number above 0
    double normal;   ///< the smallest one that has all digits
    double integers; ///< integers up to here, and so their sums, are exact
} check_format;

/// Of a type that check/ does not know all are NaN, so that no result is right.
check_format talc_check_format(talc_dtype dtype);

/// Whether f64 has digits to spare for sums of the type's elements.
bool talc_check_is_narrow(talc_dtype dtype);

/// `value` as an element of `dtype` holds it.
double talc_check_rounded(talc_dtype dtype, double value);

/// An element of `from` as one of `to`: to an integer type a number is truncated, NaN is 0, and
/// what is too large becomes the largest.
double talc_check_cast(talc_dtype from, talc_dtype to, double value);

/// A NaN without its sign, for messages; anything else as it is.
double talc_check_shown(double value);

/// Fills `count` elements with data of a kind:
///     EXACT      integers of -largest .. largest
///     RANDOM     uniform in [-scale, scale)
///     CONSTANT   scale / 3
///     WIDE       either sign, sizes spread over 20 binades below `scale`
///     HUGE       RANDOM with one element of 2^30 scale
///     TINY       RANDOM with the first half of every 64 elements 2^-30 times as large, and of
///                every other 64 so small that they are denormal
///     NAN, INFINITY   RANDOM with that in one element
void talc_check_fill(double *values, int64_t count, talc_dtype dtype, talc_check_kind kind,
                     double largest, double scale, uint64_t seed);

/// Multiplies them by a power of two, `factors` times, so small that the product of two such
/// numbers is little above the denormal ones; those that are denormal stay.
void talc_check_make_small(double *values, int64_t count, talc_dtype dtype, int factors);

/// What the operands of a product or a convolution are that is checked with TINY data: as these are
/// filled, all small, or apart: of one operand some elements are about 2^64 and others 2^-118,
/// maybe with some between them, of the other all 2^40, and what is added 2^-78. A power of two
/// that scales the largest to 2^14 makes the smallest 0, though they alone may make an output, and
/// it is not denormal.
typedef enum check_tiny { CHECK_TINY_FILLED, CHECK_TINY_SMALL, CHECK_TINY_APART } check_tiny;
extern const double talc_check_apart_large, talc_check_apart_small, talc_check_apart_second,
    talc_check_apart_added;

/// One of the three. Types of a narrow range cannot be APART.
check_tiny talc_check_draw_tiny(talc_dtype dtype, uint64_t seed);

/// Moves numbers in (-1, 1) to magnitudes of 1/2 to 1. Scaled to the smallest of APART they are not
/// denormal then, which cuBLAS takes for zeros.
void talc_check_leave_zero(double *values, int64_t count, talc_dtype dtype);

/// Multiplies them by a power of two or 0.
void talc_check_scale(double *values, int64_t count, talc_dtype dtype, double scale);

/// Makes a quarter of them zeros, of those below 2^20 in magnitude.
void talc_check_put_zeros(double *values, int64_t count, uint64_t seed);

/// Integers. EXACT: few numbers, many of them equal. HUGE: over the whole range of the type; of i64
/// multiples of 2^40, whose sums have few enough digits, also after they wrapped around, for a
/// double to hold.
void talc_check_fill_integers(double *values, int64_t count, talc_dtype dtype, talc_check_kind kind,
                              uint64_t seed);

/// Makes every sixteenth of the elements a NaN, for ops in which it matters where the first one is.
void talc_check_add_nans(double *values, int64_t count, uint64_t seed);

/// Class labels 0 .. classes - 1, of which about every seventh is `ignored`; and weights of
/// classes, multiples of 1/128 from 0 to 2.
void talc_check_fill_labels(double *labels, int64_t count, int64_t classes, int64_t ignored,
                            uint64_t seed);
void talc_check_fill_class_weights(double *weights, int64_t classes, uint64_t seed);

/// The largest integer a <= most such that K products of two of them sum below 2^24 (2^53 for f64).
double talc_check_exact_largest(talc_dtype dtype, double K, double max);

#endif
