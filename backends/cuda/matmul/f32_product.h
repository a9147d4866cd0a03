/// Products by cuBLAS or, of f32, on tensor cores with memory for the halves of their operands.
/// Private to backends/cuda.
#ifndef TALC_BACKENDS_CUDA_MATMUL_F32_PRODUCT_H
#define TALC_BACKENDS_CUDA_MATMUL_F32_PRODUCT_H

#include "backends/cuda/device/blas.h"

TALC_BEGIN_DECLARATIONS

/// Why tensor cores cannot make the products with at most `limit` bytes; NULL where they can, with
/// the bytes and how long they take in `plan`.
const char *talc_cuda_product_plan(const talc_device *device, const talc_cuda_product *product,
                                   size_t limit, talc_plan *plan);

/// Puts the products on the device's stream: by cuBLAS where `workspace` is NULL, else on tensor
/// cores with these `bytes`, aligned to 256, which are those of a plan for as many products or
/// more.
talc_status talc_cuda_product_run(talc_device *device, const char *who,
                                  const talc_cuda_product *product, void *workspace, size_t bytes);

TALC_END_DECLARATIONS

#endif
