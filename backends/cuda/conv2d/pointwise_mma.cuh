/// A 1x1 convolution on tensor cores. Its input goes from memory into the registers of the threads
/// that multiply. Private to backends/cuda; pointwise_mma.cu has the method.
#ifndef TALC_BACKENDS_CUDA_CONV2D_POINTWISE_MMA_CUH
#define TALC_BACKENDS_CUDA_CONV2D_POINTWISE_MMA_CUH

#include "backends/cuda/gemm/gemm.h"
#include "backends/cuda/gemm/high_low.cuh"
#include "backends/cuda/gemm/positions.cuh"
#include "backends/cuda/primitives/mma.cuh"

namespace talc
{

constexpr int STEP = 16; ///< channels of a step

/// For long sums: the blocks of EIGHT output channels whose sums stay in registers while all K
/// tiles go by, and the steps of a K tile.
constexpr int LONG_BLOCKS = 8, LONG_STEPS = 4;

/// Threads of a block. They follow from the registers that each needs.
template <int STEPS, bool LONG>
constexpr int POINTWISE_THREADS = LONG || STEPS > 4 ? 256
                                  : STEPS == 4      ? 384
                                                    : 512;

template <typename SOURCE> struct pointwise_problem : positions_problem<SOURCE> {
    int steps;         ///< steps of the whole sum, a multiple of those of a K tile
    int range;         ///< output channels of a block, a multiple of EIGHT
    float coefficient; ///< error bound of a sum, per underflow
};

/// Bytes of a block's weights: the halves of 32 threads for each product and step, and an
/// output_channel for each.
template <int PRODUCTS> __host__ __device__ constexpr int pointwise_bytes(int range, int steps)
{
    return range / EIGHT * steps * WARP * (PRODUCTS == 3 ? 16 : 8) +
           range * (int)sizeof(output_channel);
}

/// Shared memory that a block may ask for, beside what the kernel declares.
inline int max_shared(const talc_device *device)
{
    return talc_cuda_state_of(device)->block_shared - 64;
}

// ---- The weights, in the order of threads -------------------------------------------------------

/// Packs the weights of a block, one warp an output channel, as [product][step][lane][four high
/// parts, four low parts]. Sets max_limit_bits to the largest limit of all channels.
template <int PRODUCTS, typename SOURCE>
static __device__ __forceinline__ void pack_weights(const pointwise_problem<SOURCE> &p, int first,
                                                    int channels, char *packed,
                                                    output_channel *outputs,
                                                    unsigned *max_limit_bits)
{
    const int lane = (int)threadIdx.x % WARP;
    for (int i = (int)threadIdx.x / WARP; i < p.range; i += (int)blockDim.x / WARP) {
        const int oc = first + i, quads = p.steps * (STEP / 4);
        const bool real = i < channels;
        const float *w = p.w + (int64_t)oc * p.group_in;
        float largest = 0;
        for (int c = lane; real && c < p.group_in; c += WARP)
            if (!isinf(w[c]))
                largest = fmaxf(largest, fabsf(w[c]));
        largest = __uint_as_float(__reduce_max_sync(~0u, __float_as_uint(largest)));
        const int e = exponent_for(largest);
        const float scale = power_of_two(e);
        int underflows = 0;
        for (int q = lane; q < quads; q += WARP) {
            float v[4];
            for (int k = 0; k < 4; k++) {
                v[k] = real && 4 * q + k < p.group_in ? w[4 * q + k] * scale : 0;
                underflows += tininess(v[k]) < TINY<PRODUCTS>;
            }
            const __half2 high[2] = { __floats2half2_rn(v[0], v[1]),
                                      __floats2half2_rn(v[2], v[3]) };
            uint32_t *to = (uint32_t *)packed +
                           ((i / EIGHT * p.steps + q / 4) * WARP + i % EIGHT * 4 + q % 4) *
                               (PRODUCTS == 3 ? 4 : 2);
            for (int k = 0; k < 2; k++) {
                to[k] = bits_of(high[k]);
                if (PRODUCTS == 3)
                    to[2 + k] = bits_of(__floats2half2_rn(v[2 * k] - __low2float(high[k]),
                                                          v[2 * k + 1] - __high2float(high[k])));
            }
        }
        underflows = __reduce_add_sync(~0u, underflows);
        if (lane == 0 && underflows > 0)
            atomicMax(max_limit_bits, __float_as_uint((float)underflows * p.coefficient));
        if (lane == 0)
            outputs[i] = { power_of_two(-e), real && p.last.bias != nullptr ? p.last.bias[oc] : 0,
                           (float)underflows * p.coefficient, 0 };
    }
}

// ---- The input, in registers --------------------------------------------------------------------

/// The channels of four positions as the first operand. In step s, lane % 4 = i has channels 4 i to
/// 4 i + 3. Rows lane / 4 and lane / 4 + 8 of the first product are the first two positions.
template <int PRODUCTS, int STEPS> struct pointwise_operand {
    uint4 high[STEPS][2], rest[PRODUCTS == 3 ? STEPS : 1][2];
    float inverse[FOUR]; ///< takes the sums of a position back to the scale of the data
};

/// Scales each position by a power of two of its own, splits it into high and low parts, and adds
/// its underflows to the limits. v[channel][position].
template <int PRODUCTS, int STEPS>
static __device__ __forceinline__ void split_positions(float (&v)[STEPS * 4][FOUR],
                                                       float coefficient,
                                                       pointwise_operand<PRODUCTS, STEPS> &a,
                                                       sums_limits &limits)
{
    float largest[FOUR] = {}, scale[FOUR];
#pragma unroll
    for (int c = 0; c < STEPS * 4; c++)
#pragma unroll
        for (int q = 0; q < FOUR; q++)
            largest[q] = fmaxf(largest[q], fabsf(v[c][q]));
#pragma unroll
    for (int q = 0; q < FOUR; q++) {
        largest[q] = fmaxf(largest[q], __shfl_xor_sync(~0u, largest[q], 1));
        largest[q] = fmaxf(largest[q], __shfl_xor_sync(~0u, largest[q], 2));
        const int e = exponent_for(largest[q]);
        scale[q] = power_of_two(e);
        a.inverse[q] = largest[q] == 0 ? 0 : power_of_two(-e);
    }
    /* `underflows` has 8 bits for each position, whose count is at most STEPS * STEP. */
    unsigned smallest = ~0u, underflows = 0;
#pragma unroll
    for (int c = 0; c < STEPS * 4; c++)
#pragma unroll
        for (int q = 0; q < FOUR; q++) {
            v[c][q] *= scale[q];
            smallest = min(smallest, tininess(v[c][q]));
        }
    if (smallest < TINY<PRODUCTS>)
#pragma unroll
        for (int c = 0; c < STEPS * 4; c++)
#pragma unroll
            for (int q = 0; q < FOUR; q++)
                underflows += tininess(v[c][q]) < TINY<PRODUCTS> ? 1u << 8 * q : 0;
    underflows += __shfl_xor_sync(~0u, underflows, 1);
    underflows += __shfl_xor_sync(~0u, underflows, 2);
#pragma unroll
    for (int q = 0; q < FOUR; q++) {
        const bool far = !(largest[q] < 0x1p80f && (largest[q] > 0x1p-80f || largest[q] == 0));
        limits.base[q] +=
            far ? NAN : (float)(underflows >> 8 * q & 0xff) * coefficient * a.inverse[q];
        limits.factor[q] = fmaxf(limits.factor[q], a.inverse[q]);
    }
#pragma unroll
    for (int s = 0; s < STEPS; s++)
#pragma unroll
        for (int m = 0; m < 2; m++) {
            uint32_t high[4], rest[4];
#pragma unroll
            for (int r = 0; r < 4; r++) {
                const int c = s * 4 + r / 2 * 2, q = m * 2 + r % 2;
                const __half2 h = __floats2half2_rn(v[c][q], v[c + 1][q]);
                high[r] = bits_of(h);
                rest[r] = bits_of(
                    __floats2half2_rn(v[c][q] - __low2float(h), v[c + 1][q] - __high2float(h)));
            }
            a.high[s][m] = make_uint4(high[0], high[1], high[2], high[3]);
            if (PRODUCTS == 3)
                a.rest[s][m] = make_uint4(rest[0], rest[1], rest[2], rest[3]);
        }
}

/// Adds STEPS steps of the products of four positions and eight output channels. sums[m][r] is of
/// position 2 m + r / 2 and channel lane % 4 * 2 + r % 2.
template <int PRODUCTS, int STEPS>
static __device__ __forceinline__ void multiply(const pointwise_operand<PRODUCTS, STEPS> &a,
                                                const char *weights, float (&sums)[2][4])
{
    constexpr int BYTES = PRODUCTS == 3 ? 16 : 8;
    const char *mine = weights + (int)threadIdx.x % WARP * BYTES;
#pragma unroll
    for (int from = 0; from < STEPS; from += 4) {
        /* Tensor cores truncate sums, f32 registers round them. */
        float partial[2][4] = {};
#pragma unroll
        for (int s = from; s < STEPS && s < from + 4; s++) {
            uint4 b;
            if (PRODUCTS == 3)
                b = *(const uint4 *)(mine + s * WARP * BYTES);
            else
                *(uint2 *)&b = *(const uint2 *)(mine + s * WARP * BYTES);
#pragma unroll
            for (int m = 0; m < 2; m++) {
                if (PRODUCTS == 3) {
                    mma(partial[m], a.rest[s][m], b.x, b.y);
                    mma(partial[m], a.high[s][m], b.z, b.w);
                }
                mma(partial[m], a.high[s][m], b.x, b.y);
            }
        }
#pragma unroll
        for (int m = 0; m < 2; m++)
#pragma unroll
            for (int r = 0; r < 4; r++)
                sums[m][r] += partial[m][r] * a.inverse[m * 2 + r / 2];
    }
}

// ---- The kernel ---------------------------------------------------------------------------------

template <int PRODUCTS, int STEPS, bool LONG, typename SOURCE>
static __global__ void __launch_bounds__((POINTWISE_THREADS<STEPS, LONG>), 1)
    pointwise_mma_kernel(const __grid_constant__ pointwise_problem<SOURCE> p)
{
    constexpr bool VECTORS = SOURCE::VECTORS;
    constexpr int WARPS = POINTWISE_THREADS<STEPS, LONG> / WARP, BYTES = PRODUCTS == 3 ? 16 : 8;
    extern __shared__ __align__(16) char shared[];
    output_channel *outputs = (output_channel *)shared;
    char *weights = shared + p.range * sizeof(output_channel);
    const talc_pointwise_channels own =
        talc_pointwise_channels_of(p.group_out, p.range, p.ranges, (int)blockIdx.y);
    const int g = own.g, first = g * p.group_out + own.first, channels = own.count;
    const int lane = (int)threadIdx.x % WARP;
    __shared__ unsigned max_limit_bits;
    if (threadIdx.x == 0)
        max_limit_bits = 0;
    __syncthreads();
    pack_weights<PRODUCTS>(p, first, channels, weights, outputs, &max_limit_bits);
    __syncthreads();
    const float max_channel_limit = __uint_as_float(max_limit_bits);
    const int tiles = (p.positions + POSITIONS - 1) / POSITIONS;
    const int warp = (int)threadIdx.x / WARP;
    for (int t = talc_pointwise_first_tile((int)blockIdx.x, WARPS, warp); t - warp % 4 < tiles;
         t += (int)gridDim.x * WARPS) {
        four_positions<VECTORS> at;
        at.at = t * POSITIONS + talc_pointwise_first_position(VECTORS, lane);
        at.count = p.positions - at.at;
        typename SOURCE::pointers from;
#pragma unroll
        for (int q = 0; q < (VECTORS ? 1 : FOUR); q++) {
            const int position =
                min(at.at + talc_pointwise_behind(false, q), p.positions - (VECTORS ? FOUR : 1));
            const int n = (int)p.by_plane.quotient((uint32_t)position),
                      pixel = position - n * p.plane;
            at.y[q] = (int64_t)n * p.OC * p.plane + pixel;
            p.source.find(from, q, n, pixel, g * p.group_in + lane % 4 * 4);
        }
        float v[STEPS * 4][FOUR];
        pointwise_operand<PRODUCTS, STEPS> a;
        if constexpr (!LONG) {
            p.source.load(v, from, p.group_in - lane % 4 * 4);
            sums_limits limits = {};
            split_positions<PRODUCTS, STEPS>(v, p.coefficient, a, limits);
            set_any(limits, max_channel_limit);
#pragma unroll 1
            for (int i = 0; i < channels; i += EIGHT) {
                /* Four warps that write at the same time write 512 bytes of a channel. Memory takes
                 * those at a better rate. */
                asm volatile("bar.sync %0, 128;" ::"r"(1 + warp / 4) : "memory");
                float sums[2][4] = {}, added[2][FOUR] = {};
                load_residual(p, at, first, i, channels, added);
                multiply(a, weights + i / EIGHT * (STEPS * WARP * BYTES), sums);
                store_eight(p, at, first, i, channels, outputs, sums, added, limits);
            }
        } else {
#pragma unroll 1
            for (int i = 0; i < channels; i += LONG_BLOCKS * EIGHT) {
                float sums[LONG_BLOCKS][2][4] = {};
                sums_limits limits = {};
                typename SOURCE::pointers next = from;
#pragma unroll 1
                for (int s = 0; s < p.steps; s += STEPS) {
                    p.source.load(v, next, p.group_in - s * STEP - lane % 4 * 4);
                    split_positions<PRODUCTS, STEPS>(v, p.coefficient, a, limits);
#pragma unroll
                    for (int b = 0; b < LONG_BLOCKS; b++)
                        if (i + b * EIGHT < channels)
                            multiply(a, weights + ((i / EIGHT + b) * p.steps + s) * (WARP * BYTES),
                                     sums[b]);
                }
                set_any(limits, max_channel_limit);
#pragma unroll
                for (int b = 0; b < LONG_BLOCKS; b++)
                    if (i + b * EIGHT < channels) {
                        float added[2][FOUR] = {};
                        load_residual(p, at, first, i + b * EIGHT, channels, added);
                        store_eight(p, at, first, i + b * EIGHT, channels, outputs, sums[b], added,
                                    limits);
                    }
            }
        }
    }
}

} // namespace talc

#endif
