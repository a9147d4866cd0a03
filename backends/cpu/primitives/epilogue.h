/// The last steps of a convolution, y = act(y + bias + residual), by the formulas of
/// ops/elementwise_table.h. Private to backends/cpu.
#ifndef TALC_BACKENDS_CPU_PRIMITIVES_EPILOGUE_H
#define TALC_BACKENDS_CPU_PRIMITIVES_EPILOGUE_H

#include "ops/conv2d.h"

#include <math.h>

/// Applies them to contiguous elements of one output plane while they are in cache, in the data's
/// own type: `count` elements of channel `oc` from `y` on. `bias` has OC elements, `residual`
/// starts with what is added to y[0]; both may be NULL.
void talc_cpu_conv2d_epilogue(const talc_conv2d_problem *problem, int64_t oc, int64_t count,
                              void *y, const void *bias, const void *residual);

/// The same of `rows` times `columns` outputs of y, which begin `pixel` elements into plane
/// n * OC + oc; whole rows at once.
void talc_cpu_conv2d_epilogue_rows(const talc_conv2d_problem *problem,
                                   const talc_conv2d_arguments *arguments, int64_t plane,
                                   int64_t pixel, int64_t rows, int64_t columns);

/// Whether there is anything for it to do.
static inline bool talc_cpu_conv2d_has_epilogue(const talc_conv2d_problem *problem)
{
    return problem->bias || problem->residual || problem->activation != TALC_ACTIVATION_NONE;
}

/// Whether what follows is no more than bias and an activation that holds y between two numbers,
/// what a tile does with `epilogue` (microkernel.h).
static inline bool talc_cpu_conv2d_clamps(const talc_conv2d_problem *problem, double *low,
                                          double *high)
{
    const talc_activation activation = problem->activation;
    *low = activation == TALC_ACTIVATION_NONE ? -HUGE_VAL : 0;
    *high = activation == TALC_ACTIVATION_RELU6 ? 6 : HUGE_VAL;
    return problem->direction == TALC_FORWARD && !problem->residual &&
           talc_cpu_conv2d_has_epilogue(problem) &&
           (activation == TALC_ACTIVATION_NONE || activation == TALC_ACTIVATION_RELU ||
            activation == TALC_ACTIVATION_RELU6);
}

#endif
