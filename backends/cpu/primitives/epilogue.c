#include "backends/cpu/primitives/epilogue.h"

#include "backends/cpu/primitives/activation.h"
#include "backends/cpu/primitives/element.h"

#define ADD_TO_PLANE(constant, suffix, type, A)                                                    \
    static void add_to_plane_##suffix(int64_t count, type *y, const type *bias,                    \
                                      const type *residual)                                        \
    {                                                                                              \
        const type b = bias == NULL ? 0 : *bias;                                                   \
        if (residual != NULL)                                                                      \
            for (int64_t i = 0; i < count; i++)                                                    \
                y[i] = y[i] + b + residual[i];                                                     \
        else if (bias != NULL)                                                                     \
            for (int64_t i = 0; i < count; i++)                                                    \
                y[i] += b;                                                                         \
    }

TALC_CPU_FLOATS(ADD_TO_PLANE)

void talc_cpu_conv2d_epilogue(const talc_conv2d_problem *problem, int64_t oc, int64_t count,
                              void *y, const void *bias, const void *residual)
{
    const void *b = talc_cpu_at(problem->dtype, bias, oc);
    TALC_CPU_CALL(problem->dtype, add_to_plane, (count, y, b, residual));
    talc_cpu_activate(problem->dtype, problem->activation, count, y);
}
