#include "backends/cpu/activation.h"

#include "backends/cpu/element.h"
#include "ops/elementwise.h"

#include <tgmath.h>

/* The elementwise op that an activation is; there is none for no activation. */
static talc_unary_function function_of(talc_activation activation)
{
    return (talc_unary_function)(activation - 1);
}

#define ACTIVATE_CASE(constant, name, numbers, with, value, ...)                                   \
    case constant:                                                                                 \
        for (int64_t i = 0; i < count; i++) {                                                      \
            const T x = y[i], t = (T)(with);                                                       \
            (void)t;                                                                               \
            y[i] = (T)(value);                                                                     \
        }                                                                                          \
        break;

#define ACTIVATE(constant, suffix, type, A)                                                        \
    static void activate_##suffix(talc_activation activation, int64_t count, type *y)              \
    {                                                                                              \
        typedef type T;                                                                            \
        const T p = (T)TALC_ACTIVATION_NUMBER;                                                     \
        switch (function_of(activation)) {                                                         \
            TALC_ACTIVATION_TABLE(ACTIVATE_CASE)                                                   \
        default:                                                                                   \
            break;                                                                                 \
        }                                                                                          \
    }

TALC_CPU_FLOATS(ACTIVATE)

/* Those whose gradient does not follow from y are not asked for it. */
#define GRADIENT_CASE(constant, name, numbers, with, value, saves, gradient)                       \
    case constant:                                                                                 \
        for (int64_t i = 0; i < count; i++) {                                                      \
            const T dy = dys[i], s = y[i], x = s, t = (T)(with);                                   \
            (void)s, (void)x, (void)t;                                                             \
            g[i] = (T)(gradient);                                                                  \
        }                                                                                          \
        break;

#define GRADIENT(constant, suffix, type, A)                                                        \
    static void gradient_##suffix(talc_activation activation, int64_t count, type *g,              \
                                  const type *dys, const type *y)                                  \
    {                                                                                              \
        typedef type T;                                                                            \
        const T p = (T)TALC_ACTIVATION_NUMBER;                                                     \
        switch (function_of(activation)) {                                                         \
            TALC_ACTIVATION_TABLE(GRADIENT_CASE)                                                   \
        default:                                                                                   \
            break;                                                                                 \
        }                                                                                          \
    }

TALC_CPU_FLOATS(GRADIENT)

void talc_cpu_activation_gradient(talc_dtype dtype, talc_activation activation, int64_t count,
                                  void *g, const void *dy, const void *y)
{
    TALC_CPU_CALL(dtype, gradient, (activation, count, g, dy, y));
}

void talc_cpu_activate(talc_dtype dtype, talc_activation activation, int64_t count, void *y)
{
    if (activation == TALC_ACTIVATION_NONE)
        return;
    TALC_CPU_CALL(dtype, activate, (activation, count, y));
}

double talc_cpu_activation(talc_activation activation, double x)
{
    talc_cpu_activate(TALC_F64, activation, 1, &x);
    return x;
}
