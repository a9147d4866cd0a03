/// Plans of the forward problems that an input gradient poses. Private to backends/cuda.
#ifndef TALC_BACKENDS_CUDA_CONV2D_FORWARD_PLAN_H
#define TALC_BACKENDS_CUDA_CONV2D_FORWARD_PLAN_H

#include "backends/cuda/conv2d/input_gradient.h"

TALC_BEGIN_DECLARATIONS

/// The plan of a forward problem without split-K, which an algorithm is known to have: remembered
/// as decisions are (ops/decisions.h), since making it takes longer than a launch.
void talc_cuda_conv2d_forward_plan(talc_cuda_forward_plan make, talc_device *device,
                                   const talc_conv2d_problem *problem, talc_plan *plan);

TALC_END_DECLARATIONS

#endif
