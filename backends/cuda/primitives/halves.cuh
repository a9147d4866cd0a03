/// f32 numbers as halves for tensor cores: scaled by powers of two into the range of f16, where
/// products of three halves keep f32's accuracy, and which of them are too small for that. Private
/// to backends/cuda. Source: Ootomo and Yokota, Recovering single precision accuracy from Tensor
/// Cores while surpassing the FP32 theoretical peak performance, 2022.
#ifndef TALC_BACKENDS_CUDA_PRIMITIVES_HALVES_CUH
#define TALC_BACKENDS_CUDA_PRIMITIVES_HALVES_CUH

#include <cuda_fp16.h>
#include <stdint.h>
#include <string.h>

namespace talc
{

/// Shorter sums use up the strict bound by the splitting alone.
constexpr int64_t MIN_PRODUCTS = 16;

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

/// Below this the halves of an element underflow: they lose bits.
template <int PRODUCTS>
constexpr unsigned TINY = 2 * (PRODUCTS == 3 ? 0x3e000000u : 0x38800000u) - 1;

/// The same for three products and sums of a known length, whose error may grow with it: an
/// element's two halves are off by at most 2^-25, here products u / 8 of the element.
static inline unsigned min_of_sum(double products)
{
    const float smallest = (float)(4 / products);
    unsigned bits;
    memcpy(&bits, &smallest, sizeof bits);
    return 2 * bits - 1;
}

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

} // namespace talc

#endif
