/// Products of f32 on tensor cores where memory for the halves of their operands is at hand, else
/// by cuBLAS. Private to backends/cuda.
#ifndef TALC_BACKENDS_CUDA_MATMUL_F32_PRODUCT_H
#define TALC_BACKENDS_CUDA_MATMUL_F32_PRODUCT_H

#include "backends/cuda/device/blas.h"

TALC_BEGIN_DECLARATIONS

/// Bytes, at most `limit`, with which tensor cores are estimated to be faster than cuBLAS, and how
/// long they take, in `seconds`. 0 where they are not, or cannot: sums that go on from what C
/// holds, rows of C with gaps.
size_t talc_cuda_product_workspace(const talc_device *device, const talc_cuda_product *product,
                                   size_t limit, double *seconds);

/// Puts the products on the device's stream. `workspace`, of `bytes` and aligned to 256, may be
/// NULL: then cuBLAS multiplies.
talc_status talc_cuda_product_run(talc_device *device, const char *who,
                                  const talc_cuda_product *product, void *workspace, size_t bytes);

TALC_END_DECLARATIONS

#endif
