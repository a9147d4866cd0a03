/// The input gradient of batch normalisation, with those of weight and bias. Private to
/// backends/cuda/norm.
#ifndef TALC_BACKENDS_CUDA_NORM_GRADIENT_H
#define TALC_BACKENDS_CUDA_NORM_GRADIENT_H

#include "ops/batch_norm2d.h"

/// Values of a part; channels of no more are for `channels`.
constexpr int64_t TALC_CUDA_NORM_PART = 16384;

/// A block a channel, without workspace.
talc_status talc_cuda_norm_gradient_channels(talc_device *device,
                                             const talc_batch_norm2d_problem *p,
                                             const talc_batch_norm2d_arguments *a);

/// Channels in parts, and the workspace for them.
talc_status talc_cuda_norm_gradient_parts(talc_device *device, const talc_batch_norm2d_problem *p,
                                          const talc_batch_norm2d_arguments *a);
size_t talc_cuda_norm_gradient_workspace(const talc_batch_norm2d_problem *p);

#endif
