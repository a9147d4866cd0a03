/// Convolutions that are linear layers, as their kernel covers the image: with K = C * KH * KW,
///
///     y [N, OC] = x [N, K] w^T,  dx [N, K] = dy [N, OC] w [OC, K],  dw [OC, K] = dy^T x [N, K]
///
/// Private to backends/cuda.
#ifndef TALC_BACKENDS_CUDA_CONV2D_LINEAR_H
#define TALC_BACKENDS_CUDA_CONV2D_LINEAR_H

#include "ops/conv2d.h"
#include "ops/matmul.h"

TALC_BEGIN_DECLARATIONS

bool talc_cuda_conv2d_is_linear(const talc_conv2d_problem *problem);

/// The product that such a convolution, or its gradient, is.
talc_matmul_problem talc_cuda_conv2d_linear(const talc_conv2d_problem *problem);

TALC_END_DECLARATIONS

#endif
