#include "backends/cpu/norm.h"

#include "backends/cpu/target.h"

/* Sums are vector code of a fixed order: each of LANES sums takes every LANES-th value, and a last one what is behind the last LANES of a
 * stretch. */
enum { LANES = 16 };

typedef double wide __attribute__((vector_size(LANES * sizeof(double))));

#define EVERY_FOURTH(v, j) (((*v)[j] + (*v)[(j) + 8]) + ((*v)[(j) + 4] + (*v)[(j) + 12]))

/* By address, because how such a vector is passed depends on the vector units. */
static inline double lanes_sum(const wide *v)
{
    return (EVERY_FOURTH(v, 0) + EVERY_FOURTH(v, 2)) + (EVERY_FOURTH(v, 1) + EVERY_FOURTH(v, 3));
}

/* Of each stretch: g, made of d = x - from or of dy, and g d. */
#define ADD(g_of_vector, g_of_value)                                                               \
    for (int64_t row = 0; row < at->rows; row++, first += at->step) {                              \
        int64_t i = first;                                                                         \
        const int64_t end = first + at->length;                                                    \
        for (; i + LANES <= end; i += LANES) {                                                     \
            const wide d = WIDE(x + i) - from, g = g_of_vector;                                    \
            gs += g;                                                                               \
            products += g * d;                                                                     \
        }                                                                                          \
        for (; i < end; i++) {                                                                     \
            const double d = (double)x[i] - from, g = g_of_value;                                  \
            sum += g;                                                                              \
            product += g * d;                                                                      \
        }                                                                                          \
    }

#define WIDE(address) __builtin_convertvector(*(const stored *)(address), wide)

#define NORM_FUNCTIONS(constant, suffix, T, A)                                                     \
    TALC_TARGET_CLONES static void add_sums_##suffix(const talc_cpu_stretches *at, const T *x,     \
                                                     const T *dy, const T *weight, double from,    \
                                                     talc_cpu_sums *to)                            \
    {                                                                                              \
        typedef T stored                                                                           \
            __attribute__((vector_size(LANES * sizeof(T)), aligned(sizeof(T)), may_alias));        \
        wide gs = { 0 }, products = { 0 };                                                         \
        int64_t first = 0;                                                                         \
        double sum = 0, product = 0;                                                               \
        if (dy == NULL)                                                                            \
            ADD(d, d)                                                                              \
        else if (weight == NULL)                                                                   \
            ADD(WIDE(dy + i), (double)dy[i])                                                       \
        else                                                                                       \
            ADD(WIDE(dy + i) * WIDE(weight + i), (double)dy[i] * (double)weight[i])                \
        to->g += sum + lanes_sum(&gs);                                                             \
        to->product += product + lanes_sum(&products);                                             \
    }                                                                                              \
                                                                                                   \
    TALC_TARGET_CLONES static void normalise_##suffix(int64_t n, const T *restrict x,              \
                                                      const T *restrict residual, T *restrict y,   \
                                                      const talc_cpu_affine *by)                   \
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
    TALC_TARGET_CLONES static void normalise_values_##suffix(                                      \
        int64_t n, const T *restrict x, const T *restrict weight, const T *restrict bias,          \
        T *restrict y, const talc_cpu_affine *by)                                                  \
    {                                                                                              \
        const A mean = (A)by->mean, scale = (A)by->scale, shift = (A)by->shift;                    \
        for (int64_t i = 0; i < n; i++) {                                                          \
            A value = (x[i] - mean) * scale + shift;                                               \
            if (weight != NULL)                                                                    \
                value *= weight[i];                                                                \
            if (bias != NULL)                                                                      \
                value += bias[i];                                                                  \
            y[i] = (T)value;                                                                       \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    TALC_TARGET_CLONES static void input_gradient_##suffix(int64_t n, const T *x, const T *dy,     \
                                                           const T *weight, T *restrict dx,        \
                                                           const talc_cpu_gradient_affine *by)     \
    {                                                                                              \
        const T mean = (T)by->mean, by_g = (T)by->by_g, by_x = (T)by->by_x, shift = (T)by->shift;  \
        if (weight == NULL)                                                                        \
            for (int64_t i = 0; i < n; i++)                                                        \
                dx[i] = dy[i] * by_g + ((x[i] - mean) * by_x + shift);                             \
        else                                                                                       \
            for (int64_t i = 0; i < n; i++)                                                        \
                dx[i] = dy[i] * (weight[i] * by_g) + ((x[i] - mean) * by_x + shift);               \
    }                                                                                              \
                                                                                                   \
    TALC_TARGET_CLONES static void scale_##suffix(int64_t n, const T *g, T *restrict dx,           \
                                                  double by)                                       \
    {                                                                                              \
        const T by_g = (T)by;                                                                      \
        for (int64_t i = 0; i < n; i++)                                                            \
            dx[i] = g[i] * by_g;                                                                   \
    }                                                                                              \
                                                                                                   \
    const struct talc_cpu_norm_##suffix talc_cpu_norm_##suffix = {                                 \
        add_sums_##suffix, normalise_##suffix, normalise_values_##suffix, input_gradient_##suffix, \
        scale_##suffix                                                                             \
    };

TALC_CPU_FLOATS(NORM_FUNCTIONS)
