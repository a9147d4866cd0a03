/// Loops that norms share: mean and variance of some values, what normalises them, and its gradient. Private to backends/cpu.
#ifndef TALC_BACKENDS_CPU_NORM_H
#define TALC_BACKENDS_CPU_NORM_H

#include "backends/cpu/element.h"

#include <string.h>

/* Sums run in LANES separate ones, so that they are vector code with a fixed order. */
enum { LANES = 8 };

static inline double talc_cpu_lanes_sum(const double lanes[LANES])
{
    return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) +
           ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

static inline double talc_cpu_weight(talc_dtype dtype, const void *weight, int64_t c)
{
    return weight == NULL ? 1 : talc_cpu_load(dtype, weight, c);
}

static inline double talc_cpu_bias(talc_dtype dtype, const void *bias, int64_t c)
{
    return bias == NULL ? 0 : talc_cpu_load(dtype, bias, c);
}

/* `rows` stretches of `length` values. */
typedef struct talc_cpu_block {
    int64_t c;
    int64_t offset; /* of the first value */
    int64_t rows, length, row_stride;
} talc_cpu_block;

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

/* y = (x - mean) * scale + shift, in the data's type. */
typedef struct talc_cpu_affine {
    double mean, scale, shift;
} talc_cpu_affine;

/* What the mean loses when it is rounded to the data's type goes into the shift. */
static inline talc_cpu_affine talc_cpu_affine_of(talc_dtype dtype, double mean, double scale,
                                                 double bias)
{
    const double rounded = talc_cpu_rounded(dtype, mean);
    const double lost = rounded == mean ? 0 : (rounded - mean) * scale;
    return (talc_cpu_affine){ rounded, scale, bias + lost };
}

/* Sums of g and of g (x - mean). */
typedef struct talc_cpu_gradient_lanes {
    double sums[LANES], products[LANES];
} talc_cpu_gradient_lanes;

/* dx = g * by_g + (x - mean) * by_x + shift. */
typedef struct talc_cpu_gradient_affine {
    double mean, by_g, by_x, shift;
} talc_cpu_gradient_affine;

#define SUM_ROWS(T, term)                                                                          \
    double lanes[LANES] = { 0 };                                                                   \
    for (int64_t row = 0; row < b->rows; row++) {                                                  \
        const T *x_row = x + row * b->row_stride;                                                  \
        int64_t i = 0;                                                                             \
        for (; i + LANES <= b->length; i += LANES)                                                 \
            for (int j = 0; j < LANES; j++) {                                                      \
                const double value = (double)x_row[i + j];                                         \
                lanes[j] += (term);                                                                \
            }                                                                                      \
        for (int j = 0; i < b->length; i++, j++) {                                                 \
            const double value = (double)x_row[i];                                                 \
            lanes[j] += (term);                                                                    \
        }                                                                                          \
    }                                                                                              \
    return talc_cpu_lanes_sum(lanes);

#define ADD_TERM(g, lane, i)                                                                       \
    do {                                                                                           \
        const double value = g;                                                                    \
        sums[lane] += value;                                                                       \
        products[lane] += value * ((double)x[i] - mean);                                           \
    } while (0)

#define ADD_TERMS(g)                                                                               \
    double sums[LANES], products[LANES];                                                           \
    int64_t i = 0;                                                                                 \
    memcpy(sums, to->sums, sizeof sums);                                                           \
    memcpy(products, to->products, sizeof products);                                               \
    for (; i + LANES <= n; i += LANES)                                                             \
        for (int j = 0; j < LANES; j++)                                                            \
            ADD_TERM(g(i + j), j, i + j);                                                          \
    for (int j = 0; i < n; i++, j++)                                                               \
        ADD_TERM(g(i), j, i);                                                                      \
    memcpy(to->sums, sums, sizeof sums);                                                           \
    memcpy(to->products, products, sizeof products);

#define PLAIN(i)    (double)dy[i]
#define WEIGHTED(i) (double)dy[i] * (double)weight[i]

#define NORM_FUNCTIONS(constant, suffix, T, A)                                                     \
    static inline double talc_cpu_sum_##suffix(const talc_cpu_block *b, const T *x)                \
    {                                                                                              \
        SUM_ROWS(T, value)                                                                         \
    }                                                                                              \
                                                                                                   \
    static inline double talc_cpu_sum_squares_##suffix(const talc_cpu_block *b, const T *x,        \
                                                       double mean)                                \
    {                                                                                              \
        SUM_ROWS(T, (value - mean) * (value - mean))                                               \
    }                                                                                              \
                                                                                                   \
    /* In two passes over cached values. */                                                        \
    static inline void talc_cpu_moments_##suffix(const talc_cpu_block *b, const T *x,              \
                                                 talc_cpu_moments *m)                              \
    {                                                                                              \
        m->count = (double)b->rows * (double)b->length;                                            \
        m->mean = talc_cpu_sum_##suffix(b, x) / m->count;                                          \
        m->squares = talc_cpu_sum_squares_##suffix(b, x, m->mean);                                 \
    }                                                                                              \
                                                                                                   \
    /* residual may be NULL. */                                                                    \
    static inline void talc_cpu_normalise_##suffix(int64_t n, const T *restrict x,                 \
                                                   const T *restrict residual, T *restrict y,      \
                                                   const talc_cpu_affine *by)                      \
    {                                                                                              \
        const A mean = (A)by->mean, scale = (A)by->scale, shift = (A)by->shift;                    \
        if (residual == NULL)                                                                      \
            for (int64_t i = 0; i < n; i++)                                                        \
                y[i] = (T)((x[i] - mean) * scale + shift);                                         \
        else                                                                                       \
            for (int64_t i = 0; i < n; i++)                                                        \
                y[i] = (T)((x[i] - mean) * scale + shift + residual[i]);                           \
    }                                                                                              \
                                                                                                   \
    static inline void talc_cpu_add_gradient_##suffix(int64_t n, const T *x, const T *dy,          \
                                                      double mean, talc_cpu_gradient_lanes *to)    \
    {                                                                                              \
        ADD_TERMS(PLAIN)                                                                           \
    }                                                                                              \
                                                                                                   \
    static inline void talc_cpu_add_weighted_##suffix(int64_t n, const T *x, const T *dy,          \
                                                      const T *weight, double mean,                \
                                                      talc_cpu_gradient_lanes *to)                 \
    {                                                                                              \
        ADD_TERMS(WEIGHTED)                                                                        \
    }                                                                                              \
                                                                                                   \
    static inline void talc_cpu_input_gradient_##suffix(                                           \
        int64_t n, const T *x, const T *g, T *restrict dx, const talc_cpu_gradient_affine *by)     \
    {                                                                                              \
        const T mean = (T)by->mean, by_g = (T)by->by_g, by_x = (T)by->by_x, shift = (T)by->shift;  \
        for (int64_t i = 0; i < n; i++)                                                            \
            dx[i] = g[i] * by_g + ((x[i] - mean) * by_x + shift);                                  \
    }

TALC_CPU_FLOATS(NORM_FUNCTIONS)

#undef SUM_ROWS
#undef ADD_TERM
#undef ADD_TERMS
#undef PLAIN
#undef WEIGHTED
#undef NORM_FUNCTIONS

#endif
