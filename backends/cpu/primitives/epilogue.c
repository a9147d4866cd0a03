#include "backends/cpu/primitives/epilogue.h"

#include "backends/cpu/primitives/activation.h"
#include "backends/cpu/primitives/element.h"
#include "backends/cpu/primitives/target.h"
#include "tensor/extent.h"

/* y = value of each x = y + b + residual. */
#define EACH(value)                                                                                \
    TALC_INDEPENDENT for (int64_t i = 0; i < count && residual != NULL; i++)                       \
    {                                                                                              \
        const T x = y[i] + b + residual[i];                                                        \
        y[i] = value;                                                                              \
    }                                                                                              \
    TALC_INDEPENDENT for (int64_t i = 0; i < count && residual == NULL; i++)                       \
    {                                                                                              \
        const T x = y[i] + b;                                                                      \
        y[i] = value;                                                                              \
    }

/* The sum, and the activation where it is a comparison or two: in one pass. */
#define FINISH(constant, suffix, type, A)                                                          \
    TALC_TARGET_CLONES                                                                             \
    static void finish_##suffix(talc_activation activation, int64_t count, type *y,                \
                                const type *bias, const type *residual)                            \
    {                                                                                              \
        typedef type T;                                                                            \
        const T b = bias == NULL ? -(T)0 : *bias; /* -0 changes nothing, not even -0 */            \
        if (activation == TALC_ACTIVATION_RELU) {                                                  \
            EACH((x < 0) ? 0 : x)                                                                  \
        } else if (activation == TALC_ACTIVATION_RELU6) {                                          \
            EACH((x < 0) ? 0 : (x > 6) ? 6 : x)                                                    \
        } else if (bias != NULL || residual != NULL) {                                             \
            EACH(x)                                                                                \
        }                                                                                          \
    }

TALC_CPU_FLOATS(FINISH)

void talc_cpu_conv2d_epilogue(const talc_conv2d_problem *problem, int64_t oc, int64_t count,
                              void *y, const void *bias, const void *residual)
{
    const talc_activation activation = problem->activation;
    const void *b = talc_cpu_at(problem->dtype, bias, oc);
    TALC_CPU_CALL(problem->dtype, finish, (activation, count, y, b, residual));
    if (activation != TALC_ACTIVATION_RELU && activation != TALC_ACTIVATION_RELU6)
        talc_cpu_activate(problem->dtype, activation, count, y);
}

void talc_cpu_conv2d_epilogue_rows(const talc_conv2d_problem *problem,
                                   const talc_conv2d_arguments *arguments, int64_t plane,
                                   int64_t pixel, int64_t rows, int64_t columns)
{
    const talc_conv2d_problem *p = problem;
    const bool whole = columns == p->OW;
    const int64_t pieces = whole ? talc_smaller(rows, 1) : rows,
                  size = (int64_t)talc_dtype_size(p->dtype);
    for (int64_t row = 0; row < pieces; row++) {
        const int64_t at = (plane * p->OH + row) * p->OW + pixel;
        talc_cpu_conv2d_epilogue(p, plane % p->OC, whole ? rows * columns : columns,
                                 (char *)arguments->y + at * size, arguments->bias,
                                 talc_cpu_at(p->dtype, arguments->residual, at));
    }
}
