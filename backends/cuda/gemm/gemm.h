/// What all products on tensor cores ask of a problem and of a GPU. Plain C without CUDA. Private
/// to backends/cuda.
#ifndef TALC_BACKENDS_CUDA_GEMM_GEMM_H
#define TALC_BACKENDS_CUDA_GEMM_GEMM_H

#include "tensor/tensor.h"

TALC_BEGIN_DECLARATIONS

enum {
    /// Products of a sum, below which the splitting into high and low parts alone uses up the bound
    /// of the strict class.
    TALC_GEMM_MIN_PRODUCTS = 16
};

/// Why a GPU of compute capability `capability` (90: 9.0) does not multiply elements of `dtype`: by
/// wgmma or, else, by mma.sync. NULL: it does.
static inline const char *talc_gemm_refuses(talc_dtype dtype, int capability, bool wgmma)
{
    if (dtype != TALC_F32)
        return "the data is not f32";
    if (wgmma && capability != 90)
        return "the GPU is not of compute capability 9.0";
    if (capability < 80)
        return "the GPU is older than compute capability 8.0";
    return NULL;
}

/// Why high and low parts do not do for sums of so few products; NULL.
static inline const char *talc_gemm_refuses_sums(int64_t products)
{
    return products < TALC_GEMM_MIN_PRODUCTS ? "sums of fewer than 16 products" : NULL;
}

TALC_END_DECLARATIONS

#endif
