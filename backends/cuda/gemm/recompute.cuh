/// Which sums of halves a narrow range may have made wrong, so that they are computed again from
/// f32. Private to backends/cuda.
#ifndef TALC_BACKENDS_CUDA_GEMM_RECOMPUTE_CUH
#define TALC_BACKENDS_CUDA_GEMM_RECOMPUTE_CUH

#include <cuda_runtime.h>

#include <cmath>

namespace talc
{

/// Of a row: what its tiny elements can do to a product with 1, and what 1 is after scaling.
struct row_bound {
    float tiny, largest;
};

/// Whether a sum is not well above what tiny elements can do.
static __device__ __forceinline__ bool needs_recompute(float sum, row_bound a, row_bound b,
                                                       float coefficient)
{
    const float least = (a.tiny * b.largest + a.largest * b.tiny) * coefficient;
    return !(fabsf(sum) >= least && fabsf(sum) < INFINITY);
}

} // namespace talc

#endif
