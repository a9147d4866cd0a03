/// Input gradients by forward kernels. Private to backends/cuda.
///
/// At stride 1, dx is a convolution of dy with t, the kernel rotated by 180 degrees with its
/// channels exchanged:
///
///     dx[n, g*IC + ic, h, w] = sum over oc, kh, kw of
///                                  dy'[n, g*OC + oc, h - top' + kh*dilation_h,
///                                                    w - left' + kw*dilation_w]
///                                  * t[g*IC + ic, oc, kh, kw]
///     t[g*IC + ic, oc, kh, kw] = w[g*OC + oc, ic, KH-1 - kh, KW-1 - kw]
///     top' = dilation_h * (KH-1) - top,  left' = dilation_w * (KW-1) - left
///
/// IC and OC are the channels of a group. dy' is dy with zeros around it. The workspace begins with
/// t. The workspace of the forward kernels follows.
///
/// At a stride, a phase is the elements of dx whose coordinates are congruent modulo the stride.
/// Each phase is such a convolution with some of the taps: those for which h + top - kh*dilation_h
/// is a multiple of the stride. So no zeros are inserted into dy, and no product with such a zero
/// is computed. Phases are computed one after the other, for as many images as the workspace holds,
/// and then joined. implicit_gemm has a way of its own (implicit_gemm/tile_map.h).
#ifndef TALC_BACKENDS_CUDA_CONV2D_INPUT_GRADIENT_H
#define TALC_BACKENDS_CUDA_CONV2D_INPUT_GRADIENT_H

#include "ops/conv2d.h"

TALC_BEGIN_DECLARATIONS

/// The functions of an algorithm for the forward direction.
typedef const char *(*talc_cuda_forward_plan)(const talc_device *, const void *, size_t,
                                              talc_plan *);
typedef talc_status (*talc_cuda_forward_run)(talc_device *, const void *, const talc_plan *,
                                             const void *);

/// The plan of an input gradient at stride 1, by the forward plan of the algorithm.
const char *talc_cuda_conv2d_rotated_plan(talc_cuda_forward_plan forward, const talc_device *device,
                                          const talc_conv2d_problem *problem, size_t limit,
                                          talc_plan *plan);

/// Rotates the weights, then runs the forward direction of the algorithm.
talc_status talc_cuda_conv2d_rotated_run(talc_cuda_forward_run forward, talc_device *device,
                                         const talc_conv2d_problem *problem, const talc_plan *plan,
                                         const talc_conv2d_arguments *arguments);

/// The same for any stride. A stride other than 1 needs f32.
const char *talc_cuda_conv2d_phases_plan(talc_cuda_forward_plan forward, const talc_device *device,
                                         const talc_conv2d_problem *problem, size_t limit,
                                         talc_plan *plan);
talc_status talc_cuda_conv2d_phases_run(talc_cuda_forward_plan forward_plan,
                                        talc_cuda_forward_run forward, talc_device *device,
                                        const talc_conv2d_problem *problem, const talc_plan *plan,
                                        const talc_conv2d_arguments *arguments);

/// The weight gradient on tensor cores (weight_gradient.cu). `products` is how many products of f16
/// make one of f32, or 0 where the algorithm has no weight gradient. It uses mma.sync or, with
/// TALC_BY_WGMMA added, wgmma.
enum { TALC_BY_WGMMA = 16 };
const char *talc_cuda_conv2d_weight_plan(int products, const talc_device *device,
                                         const talc_conv2d_problem *problem, size_t limit,
                                         talc_plan *plan);
talc_status talc_cuda_conv2d_weight_run(int products, talc_device *device,
                                        const talc_conv2d_problem *problem, const talc_plan *plan,
                                        const talc_conv2d_arguments *arguments);

TALC_END_DECLARATIONS

#endif
