/// Integer arithmetic on extents and indices that C has no operator for. Private to talc.
#ifndef TALC_TENSOR_EXTENT_H
#define TALC_TENSOR_EXTENT_H

#include <stdint.h>

static inline int64_t talc_smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t talc_larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/// The nearest number in low .. high; low where the two cross.
static inline int64_t talc_between(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : talc_smaller(value, high);
}

/// total / step, rounded up; no sum overflows. For total >= 0 and step > 0.
static inline int64_t talc_ceil_div(int64_t total, int64_t step)
{
    return total / step + (total % step != 0);
}

/// The least multiple of step that is not below count. For count >= 0 and step > 0.
static inline int64_t talc_round_up(int64_t count, int64_t step)
{
    return talc_ceil_div(count, step) * step;
}

/// The size of equal blocks of at most `max`, at least 1 each.
static inline int64_t talc_even(int64_t total, int64_t max)
{
    const int64_t blocks = talc_ceil_div(total, max > 1 ? max : 1);
    return blocks > 1 ? talc_ceil_div(total, blocks) : total > 1 ? total : 1;
}

/// The greatest common divisor of numbers above 0.
static inline int64_t talc_gcd(int64_t a, int64_t b)
{
    while (b != 0) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

#endif
