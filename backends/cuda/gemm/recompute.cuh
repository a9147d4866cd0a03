/// Recompute: the outputs that a narrow range may have spoilt are computed again by FFMA. Private
/// to backends/cuda.
///
/// Elements that underflow when they are scaled are counted as operands are split (high_low.cuh). A
/// sum is safe where it is well above the error that they can cause, and is finite. The others are
/// few. So the check is cheap and made of every sum, and a whole warp computes one that fails it.
#ifndef TALC_BACKENDS_CUDA_GEMM_RECOMPUTE_CUH
#define TALC_BACKENDS_CUDA_GEMM_RECOMPUTE_CUH

#include "backends/cuda/primitives/launch.cuh"

#include <stdint.h>

namespace talc
{

/// What the error bound of an output takes from its row of A or column of B. An unscale factor is
/// 1 / scale. `tiny` adds up the unscale factor of every element that underflows. `largest` is the
/// largest unscale factor; all magnitudes of the row are below 2^TOP times this.
struct row_bound {
    float tiny, largest;
};

/// Whether an output is recomputed: it is not finite, or its magnitude is below the limit that the
/// elements of a and b which underflow set. `coefficient` scales the limit.
static __device__ __forceinline__ bool needs_recompute(float sum, row_bound a, row_bound b,
                                                       float coefficient)
{
    const float limit = (a.tiny * b.largest + a.largest * b.tiny) * coefficient;
    return !(fabsf(sum) >= limit && fabsf(sum) < INFINITY);
}

/// The smaller of two magnitudes, or NaN.
static __device__ __forceinline__ float smaller_magnitude(float a, float b)
{
    float smaller;
    asm("{\n.reg .f32 x, y;\nabs.f32 x, %1;\nabs.f32 y, %2;\nmin.NaN.f32 %0, x, y;\n}"
        : "=f"(smaller)
        : "f"(a), "f"(b));
    return smaller;
}

/// The sum over the lanes of a warp, as a tree of fixed shape.
static __device__ __forceinline__ float sum_of_warp(float sum)
{
#pragma unroll
    for (int apart = WARP / 2; apart > 0; apart /= 2)
        sum += __shfl_xor_sync(~0u, sum, apart);
    return sum;
}

/// The sum over k of a[k * a_step] * b[k * b_step], by a warp and in the order of its lanes.
static __device__ __forceinline__ float dot_by_warp(const float *a, int64_t a_step, const float *b,
                                                    int64_t b_step, int64_t K)
{
    float sum = 0;
    for (int64_t k = threadIdx.x % WARP; k < K; k += WARP)
        sum += a[k * a_step] * b[k * b_step];
    return sum_of_warp(sum);
}

/// Computes again what lanes of a warp ask for, each one output or none, by calls of again(lane) by
/// the whole warp, and counts them. Returns a lane's new sum, or `sum` where it did not ask.
template <typename Again>
static __device__ __forceinline__ float recompute_by_warp(bool asked, float sum,
                                                          unsigned long long *count, Again again)
{
    const int lane = (int)threadIdx.x % WARP;
    unsigned lanes = __ballot_sync(~0u, asked);
    if (lanes != 0 && lane == 0)
        atomicAdd(count, __popc(lanes));
    for (; lanes != 0; lanes &= lanes - 1) {
        const int of = __ffs((int)lanes) - 1;
        const float exact = again(of);
        if (lane == of)
            sum = exact;
    }
    return sum;
}

} // namespace talc

#endif
