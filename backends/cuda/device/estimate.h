/// How long a GPU takes, for the estimates of plans: closed formulas of work and device, as
/// measured on an H200. Private to backends/cuda.
#ifndef TALC_BACKENDS_CUDA_DEVICE_ESTIMATE_H
#define TALC_BACKENDS_CUDA_DEVICE_ESTIMATE_H

#include "backends/cuda/cuda.h"

TALC_BEGIN_DECLARATIONS

/// Seconds from one launch to the next of a kernel that does nothing.
#define TALC_CUDA_LAUNCH 3e-6

/// Seconds until cuBLAS has chosen a kernel, beside its launch.
#define TALC_CUDA_CUBLAS 6.5e-6

/// Floating-point operations a second of FMA on elements of `dtype`; 0 for a type that is not
/// multiplied.
double talc_cuda_flops_a_second(const talc_device *device, talc_dtype dtype);

/// The share of that rate that cuBLAS makes of large products, which for f64 are made on tensor
/// cores.
double talc_cuda_blas_share(talc_dtype dtype);

/// Bytes a second of a copy, read and written.
double talc_cuda_bytes_a_second(void);

/// The time for `flops` at a share of the rate of FMA or for `bytes` at the rate of a copy,
/// whichever is longer, and for the launches.
double talc_cuda_seconds(const talc_device *device, talc_dtype dtype, double flops, double share,
                         double bytes, int launches);

TALC_END_DECLARATIONS

#endif
