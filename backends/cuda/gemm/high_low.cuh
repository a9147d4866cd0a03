/// Splitting f32 for tensor cores into high and low parts, whose products high * high, high * low
/// and low * high keep f32's accuracy. Parts of f16 are of numbers that a power of two has scaled
/// into its range, and those that are too small there are counted. TF32 has the exponents of f32.
/// Private to backends/cuda. Source: Ootomo and Yokota, Recovering single precision accuracy from
/// Tensor Cores while surpassing the FP32 theoretical peak performance, 2022.
#ifndef TALC_BACKENDS_CUDA_GEMM_HIGH_LOW_CUH
#define TALC_BACKENDS_CUDA_GEMM_HIGH_LOW_CUH

#include "backends/cuda/primitives/launch.cuh"

#include <cuda_fp16.h>
#include <stdint.h>

namespace talc
{

// ---- Scales -------------------------------------------------------------------------------------

/// Scaled maxima lie in [2^13, 2^14), or a little around it.
constexpr int TOP = 14;

static __device__ __forceinline__ float power_of_two(int e)
{
    return __int_as_float((e + 127) << 23);
}

/// Exponent of the power of two that scales numbers up to `largest` to TOP.
static __device__ __forceinline__ int exponent_for(float largest)
{
    return TOP + 126 - max(TOP, (int)(__float_as_uint(largest) >> 23 & 0xff));
}

/// Orders magnitudes, 0 last.
static __device__ __forceinline__ unsigned tininess(float v)
{
    return 2 * __float_as_uint(v) - 1;
}

/// The largest finite magnitude of a thread's elements. fmaxf() ignores NaN.
template <int COUNT> static __device__ __forceinline__ float largest_of(const float (&v)[COUNT])
{
    float largest = 0;
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        largest = fmaxf(largest, fabsf(v[i]));
    if (isinf(largest)) {
        largest = 0;
        for (int i = 0; i < COUNT; i++)
            largest = fmaxf(largest, isinf(v[i]) ? 0 : fabsf(v[i]));
    }
    return largest;
}

/// The maximum over a warp of numbers that are not negative: their bits are in the same order.
static __device__ __forceinline__ float larger_of_warp(float v)
{
    return __uint_as_float(__reduce_max_sync(~0u, __float_as_uint(v)));
}

// ---- Underflow ----------------------------------------------------------------------------------

/// The halves of a scaled element of smaller magnitude underflow: they lose bits.
template <int PRODUCTS> constexpr float TINY = PRODUCTS == 3 ? 0x1p-3f : 0x1p-14f;

/// The same for three products and sums of a known length, whose error may grow with it: an
/// element's two halves are off by at most 2^-25, here products u / 8 of the element.
static inline float min_of_sum(double products)
{
    return (float)(4 / products);
}

/// The tininess() below which an element underflows once `scale`, a power of two, scales it: that
/// of `tiny` / `scale`, rounded up so that it is not 0. Elements are compared before they are
/// scaled, as a scale below 1 can make them 0.
static __device__ __forceinline__ unsigned tininess_before(float scale, float tiny)
{
    const float twice_inverse = __uint_as_float(0x7f800000 - __float_as_uint(scale));
    return tininess(__fmul_ru(tiny / 2, twice_inverse));
}

/// Scales a thread's elements. Returns how many of them underflow.
template <int COUNT> static __device__ __forceinline__ int scale_by(float scale, float (&v)[COUNT])
{
    const unsigned least = tininess_before(scale, TINY<3>);
    unsigned smallest = ~0u;
    int tiny = 0;
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        smallest = min(smallest, tininess(v[i]));
    if (smallest < least)
#pragma unroll
        for (int i = 0; i < COUNT; i++)
            tiny += tininess(v[i]) < least;
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        v[i] *= scale;
    return tiny;
}

// ---- Parts of f16 -------------------------------------------------------------------------------

static __device__ __forceinline__ uint32_t bits_of(__half2 pair)
{
    return *(uint32_t *)&pair;
}

/// Four neighbours, scaled, as halves, and what these leave.
static __device__ __forceinline__ void split_four(const float *v, uint2 &high, uint2 &rest)
{
    const __half2 h0 = __floats2half2_rn(v[0], v[1]), h1 = __floats2half2_rn(v[2], v[3]);
    high = make_uint2(bits_of(h0), bits_of(h1));
    rest = make_uint2(bits_of(__floats2half2_rn(v[0] - __low2float(h0), v[1] - __high2float(h0))),
                      bits_of(__floats2half2_rn(v[2] - __low2float(h1), v[3] - __high2float(h1))));
}

static __device__ __forceinline__ void split_eight(const float *v, uint4 &high, uint4 &rest)
{
    uint2 h[2], r[2];
    split_four(v, h[0], r[0]);
    split_four(v + 4, h[1], r[1]);
    high = make_uint4(h[0].x, h[0].y, h[1].x, h[1].y);
    rest = make_uint4(r[0].x, r[0].y, r[1].x, r[1].y);
}

// ---- Parts of TF32 ------------------------------------------------------------------------------

/// The nearest number of TF32, 10 bits of fraction.
static __device__ __forceinline__ float tf32(float v)
{
    uint32_t bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(v));
    return __uint_as_float(bits);
}

/// High and, with PARTS 2, low part of an element as tensor cores take them, which ignore the last
/// 13 bits. Where there is a low part, the high part is rounded to the other bits, and the low
/// part, of at most 12 bits, loses the last. Where there is none, the element becomes a little
/// larger in magnitude, so that truncation rounds it. NaN stays NaN: in the low part, or in the
/// high part where that is all.
template <int PARTS>
static __device__ __forceinline__ void split_tf32(float v, uint32_t &high, uint32_t &low)
{
    if (PARTS == 2) {
        high = (__float_as_uint(v) + 0x1000) & 0xffffe000;
        low = __float_as_uint(v - __uint_as_float(high));
    } else {
        high = __float_as_uint(v * (1 + 0x1p-12f));
    }
}

} // namespace talc

#endif
