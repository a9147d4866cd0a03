/// Loops that norms share: mean and variance of some values, what normalises them, and its
/// gradient. Private to backends/cpu.
#ifndef TALC_BACKENDS_CPU_NORM_NORM_H
#define TALC_BACKENDS_CPU_NORM_NORM_H

#include "backends/cpu/primitives/element.h"
#include "ops/norm.h"

#include <string.h>

static inline double talc_cpu_weight(talc_dtype dtype, const void *weight, int64_t c)
{
    return weight == NULL ? 1 : talc_cpu_load(dtype, weight, c);
}

static inline double talc_cpu_bias(talc_dtype dtype, const void *bias, int64_t c)
{
    return bias == NULL ? 0 : talc_cpu_load(dtype, bias, c);
}

/* Count, mean and sum of squared deviations of some values. */
typedef struct talc_cpu_moments {
    double count, mean, squares;
} talc_cpu_moments;

/* By Chan's formula, in their order. */
static inline talc_cpu_moments talc_cpu_join_moments(const talc_cpu_moments *parts, int64_t count)
{
    talc_cpu_moments all = { 0 };
    for (int64_t i = 0; i < count; i++) {
        const double joined = all.count + parts[i].count;
        const double delta = parts[i].mean - all.mean;
        all.mean += delta * (parts[i].count / joined);
        all.squares += parts[i].squares + delta * delta * (all.count * parts[i].count / joined);
        all.count = joined;
    }
    return all;
}

/* y = (x - mean) * scale + shift, as ops/norm.h says. */
typedef struct talc_cpu_affine {
    double mean, scale, shift;
    bool wide;
} talc_cpu_affine;

/* What the mean loses when it is rounded to the data's type goes into the shift. */
static inline talc_cpu_affine talc_cpu_affine_of(talc_dtype dtype, double mean, double scale,
                                                 double bias)
{
    const double rounded = talc_cpu_rounded(dtype, mean);
    const double lost = rounded == mean ? 0 : (rounded - mean) * scale;
    return (talc_cpu_affine){ rounded, scale, bias + lost,
                              !(talc_norm_has_digits(scale) && talc_norm_has_deviations(rounded)) };
}

/* Sums of g and of g (x - from), in f64. */
typedef struct talc_cpu_sums {
    double g, product;
} talc_cpu_sums;

/* Where values stand. */
typedef struct talc_cpu_stretches {
    int64_t rows, length, step; /* from a row's first value to the next row's */
} talc_cpu_stretches;

/* Of all values that mean and rstd belong to, M of them. */
static inline talc_norm_gradient talc_cpu_norm_gradient_of(talc_dtype dtype, double mean,
                                                           double rstd, double by_g,
                                                           const talc_cpu_sums *all, double M)
{
    return talc_norm_gradient_of(mean, talc_cpu_rounded(dtype, mean), rstd, by_g, all->g,
                                 all->product, M);
}

/* Of each type. A table, because a function that is compiled for several vector units would be
 * exported.
 *
 *   add_sums        adds the sums of g = dy, times weight where there is one a value; of g = x -
 *                   from where dy is NULL
 *   add_columns     adds the sums of dy and of dy x^ of each of n columns of rows that are step
 *                   values apart; their mean and rstd are groups apart
 *   normalise       has a weight and a bias, or residual, a value; NULL: 1 and 0. Where y streams,
 *                   the caller ends that
 *   input_gradient  has weight and dx as above
 *   scale           dx = g * by */
#define NORM_FUNCTIONS(constant, suffix, T, A)                                                     \
    extern const struct talc_cpu_norm_##suffix {                                                   \
        void (*add_sums)(const talc_cpu_stretches *at, const T *x, const T *dy, const T *weight,   \
                         double from, talc_cpu_sums *to);                                          \
        void (*add_columns)(int64_t rows, int64_t n, int64_t step, int64_t groups, const T *x,     \
                            const T *dy, const double *mean, const double *rstd,                   \
                            talc_cpu_sums *to);                                                    \
        void (*normalise)(int64_t n, bool streams, const T *restrict x, const T *restrict weight,  \
                          const T *restrict bias, T *restrict y, const talc_cpu_affine *by);       \
        void (*input_gradient)(int64_t n, bool streams, const T *x, const T *dy, const T *weight,  \
                               T *restrict dx, const talc_norm_gradient *by);                      \
        void (*scale)(int64_t n, const T *g, T *restrict dx, double by);                           \
    } talc_cpu_norm_##suffix;

TALC_CPU_FLOATS(NORM_FUNCTIONS)

#undef NORM_FUNCTIONS

/* Of n values the squares lose at most the last log2(n) bits when they are taken from any of the
 * values instead of from the mean. For f64 data, which has none to spare, they are taken again. */
static inline talc_cpu_moments talc_cpu_moments_of(talc_dtype dtype, const talc_cpu_stretches *at,
                                                   const void *x)
{
    talc_cpu_moments m = { .count = (double)at->rows * (double)at->length,
                           .mean = talc_cpu_load(dtype, x, 0) };
    m.mean = isfinite(m.mean) ? m.mean : 0;
    for (int pass = talc_cpu_is_narrow(dtype); pass < 2; pass++) {
        talc_cpu_sums sums = { 0, 0 };
        TALC_CPU_CALL(dtype, talc_cpu_norm, .add_sums(at, x, NULL, NULL, m.mean, &sums));
        m.squares = sums.product - sums.g * (sums.g / m.count);
        m.mean += sums.g / m.count;
    }
    return m;
}

#endif
