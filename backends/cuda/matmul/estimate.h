/// How long the algorithms of matrix products take, as estimated. Private to backends/cuda.
///
/// All move the same bytes, so each adds their time to that of its own steps:
///
///     dot      nothing for up to four rows, which are bound by memory, else its loads from the
///              L2 cache
///     cublas   the host's time to choose and to launch, or its products at cuBLAS's rate,
///              whichever is longer
///     direct   a wait, and the steps of k, one after the other, or the products at the rate of
///              small ones, whichever is longer
///
/// So `dot` is the least where B is a few MB or there are many of them, and for up to some millions
/// of products; else `direct` is before `cublas` for sums of up to 256 in up to 2^22 products,
/// which are done before cuBLAS has launched. The small tiles of `direct` have an estimate of their
/// own (small.cuh).
#ifndef TALC_BACKENDS_CUDA_MATMUL_ESTIMATE_H
#define TALC_BACKENDS_CUDA_MATMUL_ESTIMATE_H

#include "backends/cuda/cuda.h"

TALC_BEGIN_DECLARATIONS

double talc_cuda_matmul_dot_seconds(const talc_matmul_problem *problem);
double talc_cuda_matmul_cublas_seconds(const talc_device *device,
                                       const talc_matmul_problem *problem);

/// cuBLAS's time for a step of k of a batch of products of TF32, on an H100.
#define TALC_CUDA_TF32_STEP 6e-9

/// The same as talc_cuda_matmul_cublas_seconds, with operands rounded to TF32.
double talc_cuda_matmul_tf32_seconds(const talc_matmul_problem *problem);

double talc_cuda_matmul_direct_seconds(const talc_matmul_problem *problem);

TALC_END_DECLARATIONS

#endif
