#include "backends/cpu/norm/norm.h"

#include "backends/cpu/primitives/stream.h"
#include "backends/cpu/primitives/target.h"

/* Sums are vector code of a fixed order: each of LANES sums takes every LANES-th value, and a last
 * one what is behind the last LANES of a stretch. They stand in PARTS vectors, as one of all would
 * not stay in registers. */
enum { LANES = 16, PARTS = 4, WIDTH = LANES / PARTS };

typedef double wide __attribute__((vector_size(WIDTH * sizeof(double))));
typedef double pairs __attribute__((vector_size(WIDTH * sizeof(double)), aligned(8), may_alias));

/* By address, because how such a vector is passed depends on the vector units. */
static inline double lanes_sum(const wide v[PARTS])
{
    const wide sum = (v[0] + v[2]) + (v[1] + v[3]);
    return (sum[0] + sum[2]) + (sum[1] + sum[3]);
}

/* Of each stretch: g, made of d = x - from or of dy, and g d. */
#define ADD(g_of_vector, g_of_value)                                                               \
    for (int64_t row = 0; row < at->rows; row++, first += at->step) {                              \
        int64_t i = first;                                                                         \
        const int64_t end = first + at->length;                                                    \
        while (i + LANES <= end)                                                                   \
            for (int part = 0; part < PARTS; part++, i += WIDTH) {                                 \
                const wide d = WIDE(x + i) - from, g = g_of_vector;                                \
                gs[part] += g;                                                                     \
                products[part] += g * d;                                                           \
            }                                                                                      \
        for (; i < end; i++) {                                                                     \
            const double d = (double)x[i] - from, g = g_of_value;                                  \
            sum += g;                                                                              \
            product += g * d;                                                                      \
        }                                                                                          \
    }

/* Value by value: gcc 12 makes one instruction of this, and four of __builtin_convertvector. */
#define WIDE(address)                                                                              \
    ((wide){ (double)(address)[0], (double)(address)[1], (double)(address)[2],                     \
             (double)(address)[3] })

/* Formulas of x[i] and so on, or, where results stream, of a cache line of each. */
#define NORMALISED(AT)          ((AT(x) - mean) * scale + shift)
#define WEIGHTED(AT)            (NORMALISED(AT) * AT(weight))
#define BIASED(AT)              (NORMALISED(AT) + AT(bias))
#define WEIGHTED_BIASED(AT)     (NORMALISED(AT) * AT(weight) + AT(bias))
#define GRADIENT(AT)            (AT(dy) * by_g + ((AT(x) - mean) * by_x + shift))
#define WEIGHTED_GRADIENT(AT)   (AT(dy) * AT(weight) * by_g + ((AT(x) - mean) * by_x + shift))

/* Value i of a wide step. */
#define VALUE(array, otherwise) ((array) == NULL ? (otherwise) : (double)(array)[i])
#define WIDE_NORMALISED                                                                            \
    ((((double)x[i] - by->mean) * by->scale + by->shift) * VALUE(weight, 1) + VALUE(bias, 0))
#define WIDE_GRADIENT                                                                              \
    ((double)dy[i] * VALUE(weight, 1) * by->by_g +                                                 \
     (((double)x[i] - by->mean) * by->rstd * by->slope + by->shift))

#define NORM_FUNCTIONS(constant, suffix, T, A)                                                     \
    TALC_TARGET_CLONES static void add_sums_##suffix(const talc_cpu_stretches *at, const T *x,     \
                                                     const T *dy, const T *weight, double from,    \
                                                     talc_cpu_sums *to)                            \
    {                                                                                              \
        wide gs[PARTS] = { 0 }, products[PARTS] = { 0 };                                           \
        int64_t first = 0;                                                                         \
        double sum = 0, product = 0;                                                               \
        if (dy == NULL)                                                                            \
            ADD(d, d)                                                                              \
        else if (weight == NULL)                                                                   \
            ADD(WIDE(dy + i), (double)dy[i])                                                       \
        else                                                                                       \
            ADD(WIDE(dy + i) * WIDE(weight + i), (double)dy[i] * (double)weight[i])                \
        to->g += sum + lanes_sum(gs);                                                              \
        to->product += product + lanes_sum(products);                                              \
    }                                                                                              \
                                                                                                   \
    TALC_TARGET_CLONES static void add_columns_##suffix(                                           \
        int64_t rows, int64_t n, int64_t step, int64_t groups, const T *x, const T *dy,            \
        const double *mean, const double *rstd, talc_cpu_sums *to)                                 \
    {                                                                                              \
        int64_t i = 0;                                                                             \
        for (; i + LANES <= n; i += LANES) {                                                       \
            wide gs[PARTS] = { 0 }, products[PARTS] = { 0 };                                       \
            for (int64_t row = 0; row < rows; row++)                                               \
                for (int part = 0; part < PARTS; part++) {                                         \
                    const int64_t at = row * step + i + part * WIDTH;                              \
                    const wide g = WIDE(dy + at);                                                  \
                    gs[part] += g;                                                                 \
                    products[part] +=                                                              \
                        g * ((WIDE(x + at) - mean[row * groups]) * rstd[row * groups]);            \
                }                                                                                  \
            for (int part = 0; part < PARTS; part++) {                                             \
                pairs *of = (pairs *)(to + i + part * WIDTH);                                      \
                of[0] += __builtin_shufflevector(gs[part], products[part], 0, 4, 1, 5);            \
                of[1] += __builtin_shufflevector(gs[part], products[part], 2, 6, 3, 7);            \
            }                                                                                      \
        }                                                                                          \
        for (; i < n; i++)                                                                         \
            for (int64_t row = 0; row < rows; row++) {                                             \
                const double g = dy[row * step + i];                                               \
                to[i].g += g;                                                                      \
                to[i].product +=                                                                   \
                    g * (((double)x[row * step + i] - mean[row * groups]) * rstd[row * groups]);   \
            }                                                                                      \
    }                                                                                              \
                                                                                                   \
    TALC_TARGET_CLONES static void normalise_##suffix(                                             \
        int64_t n, bool streams, const T *restrict x, const T *restrict weight,                    \
        const T *restrict bias, T *restrict y, const talc_cpu_affine *by)                          \
    {                                                                                              \
        const A mean = (A)by->mean, scale = (A)by->scale, shift = (A)by->shift;                    \
        if (by->wide)                                                                              \
            for (int64_t i = 0; i < n; i++)                                                        \
                y[i] = (T)WIDE_NORMALISED;                                                         \
        else if (weight == NULL && bias == NULL)                                                   \
            TALC_CPU_WRITE(streams, n, y, T, NORMALISED)                                           \
        else if (bias == NULL)                                                                     \
            TALC_CPU_WRITE(streams, n, y, T, WEIGHTED)                                             \
        else if (weight == NULL)                                                                   \
            TALC_CPU_WRITE(streams, n, y, T, BIASED)                                               \
        else                                                                                       \
            TALC_CPU_WRITE(streams, n, y, T, WEIGHTED_BIASED)                                      \
    }                                                                                              \
                                                                                                   \
    TALC_TARGET_CLONES static void input_gradient_##suffix(                                        \
        int64_t n, bool streams, const T *x, const T *dy, const T *weight, T *restrict dx,         \
        const talc_norm_gradient *by)                                                              \
    {                                                                                              \
        const T by_g = (T)by->by_g, mean = (T)by->mean;                                            \
        const T by_x = (T)(by->rstd * by->slope), shift = (T)by->shift;                            \
        if (by->wide)                                                                              \
            for (int64_t i = 0; i < n; i++)                                                        \
                dx[i] = (T)WIDE_GRADIENT;                                                          \
        else if (weight == NULL)                                                                   \
            TALC_CPU_WRITE(streams, n, dx, T, GRADIENT)                                            \
        else                                                                                       \
            TALC_CPU_WRITE(streams, n, dx, T, WEIGHTED_GRADIENT)                                   \
    }                                                                                              \
                                                                                                   \
    TALC_TARGET_CLONES static void scale_##suffix(int64_t n, const T *g, T *restrict dx,           \
                                                  double by)                                       \
    {                                                                                              \
        const T by_g = (T)by;                                                                      \
        if (talc_norm_has_digits(by))                                                              \
            for (int64_t i = 0; i < n; i++)                                                        \
                dx[i] = g[i] * by_g;                                                               \
        else                                                                                       \
            for (int64_t i = 0; i < n; i++)                                                        \
                dx[i] = (T)((double)g[i] * by);                                                    \
    }                                                                                              \
                                                                                                   \
    const struct talc_cpu_norm_##suffix talc_cpu_norm_##suffix = {                                 \
        add_sums_##suffix, add_columns_##suffix, normalise_##suffix, input_gradient_##suffix,      \
        scale_##suffix                                                                             \
    };

TALC_CPU_FLOATS(NORM_FUNCTIONS)
