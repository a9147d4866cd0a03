/// The weights of implicit_gemm: their packing, and how they get to the threads that multiply.
/// Private to backends/cuda.
#ifndef TALC_BACKENDS_CUDA_CONV2D_IMPLICIT_GEMM_WEIGHTS_CUH
#define TALC_BACKENDS_CUDA_CONV2D_IMPLICIT_GEMM_WEIGHTS_CUH

#include "backends/cuda/conv2d/implicit_gemm/problem.cuh"

#include <cuda_pipeline_primitives.h>

namespace talc
{

constexpr int MERGED_CHANNELS = 64; ///< of x, whose weights a block merges

/// Writes the weights of dx by the rows of the product, [group][row][channel of dy][tap], with a
/// zero for a tap that a row does not have. A block has 16 rows, which are neighbours in w.
static __global__ void __launch_bounds__(BLOCK)
    merge_weights(const __grid_constant__ gemm_problem p, float *merged)
{
    const int parts = (p.group_in + MERGED_CHANNELS - 1) / MERGED_CHANNELS,
              sixteen = (int)blockIdx.x / parts, g = sixteen * TALC_GEMM_ROWS / p.group_out,
              first = ((int)blockIdx.x - sixteen * parts) * MERGED_CHANNELS,
              count = min(MERGED_CHANNELS, p.group_in - first) * p.taps;
#pragma unroll 4
    for (int i = (int)threadIdx.x; i < TALC_GEMM_ROWS * count; i += BLOCK) {
        const int row = i / count, from = first * p.taps + i - row * count,
                  index = sixteen * TALC_GEMM_ROWS + row,
                  channel = (int)talc_quotient(p.by_kernel, (uint32_t)from),
                  tap = from - channel * p.taps, kh = tap / p.KW;
        const dx_weights w(p, g, index - g * p.group_out);
        const int at = w.at(p, channel, kh, tap - kh * p.KW);
        merged[(int64_t)index * p.group_in * p.taps + from] = at < 0 ? 0 : w.from[at];
    }
}

/// The weight of a tap and a channel of the halo tile. Where the problem is folded, these are a tap
/// and a channel of x at a phase. The weight is 0 outside of the kernel.
static __device__ __forceinline__ float weight_of(const gemm_problem &p, const float *w, int tap,
                                                  int channel)
{
    int kh = tap / p.taps_w, kw = tap - kh * p.taps_w, phase = 0;
    if (p.folded) {
        phase = channel / p.group_in;
        const int phase_h = phase / p.fold_w;
        kh = kh * p.stride_h + phase_h;
        kw = kw * p.stride_w + phase - phase_h * p.fold_w;
    }
    const int ic = channel - phase * p.group_in;
    return kh < p.KH && kw < p.KW ? w[((int64_t)ic * p.KH + kh) * p.KW + kw] : 0;
}

/// Packs the weights as f16: one block an output channel. It stores the exponent of the scale, the
/// threshold and the weights, in the order in which threads read them as the first operand of
/// wgmma: [group][channels of 64][K tile][step][high or low part][warp][lane][8]. With PHASES the
/// steps are those that any of the 64 channels needs.
template <typename Form>
static __global__ void __launch_bounds__(BLOCK)
    pack_halves(const gemm_problem p, __half *packed, int *exponents, float *thresholds)
{
    __shared__ unsigned max_bits, underflows;
    const int rows = p.channel_tiles * (p.warpgroup_shift == 0 ? 2 : 1) * CHANNELS;
    const int oc = (int)blockIdx.x % rows, g = (int)blockIdx.x / rows, t = (int)threadIdx.x;
    const int K = p.group_in * p.KH * p.KW;
    const bool real = oc < p.group_out;
    const float *w = p.w + ((int64_t)g * p.group_out + oc) * K;
    if (t == 0)
        max_bits = underflows = 0;
    __syncthreads();
    unsigned largest = 0;
    if (real)
        for (int i = t; i < K; i += BLOCK) {
            const unsigned bits = __float_as_uint(w[i]) & 0x7fffffff;
            if (bits < 0x7f800000)
                largest = max(largest, bits);
        }
    largest = __reduce_max_sync(~0u, largest);
    if (t % WARP == 0)
        atomicMax(&max_bits, largest);
    __syncthreads();
    int e = 0;
    if (max_bits != 0)
        frexpf(__uint_as_float(max_bits), &e), e = TOP - e;
    const int e1 = e > 127 ? 127 : e;
    const float f1 = power_of_two(e1), f2 = power_of_two(e - e1);
    const float min_normal = Form::PRODUCTS == 3 ? 0x1p-4f : 0x1p-14f;
    unsigned count = 0;
    const int row = oc % CHANNELS, lane = row % 8 * 4, warp = row / 16, upper = row / 8 % 2;
    const talc_gemm_steps steps = steps_of<Form>(p, oc / CHANNELS);
    const int pairs = p.k_tiles * steps.count * 8;
    for (int i = t; i < pairs; i += BLOCK) {
        /* i counts pairs of weights. The eight pairs of a step are [half of STEP][lane % 4]. */
        const int step = i / 8, k_tile = step / steps.count,
                  at = steps.first + step - k_tile * steps.count;
        const int sixteens = p.channels / STEP, tap = at / sixteens;
        const talc_gemm_k_tile k = talc_gemm_k_tile_of(&p, k_tile);
        const int c =
            k.of_band * p.channels + (at - tap * sixteens) * STEP + i % 8 / 4 * 8 + i % 4 * 2;
        float v[2];
        for (int j = 0; j < 2; j++) {
            v[j] = real && tap < p.taps && c + j < p.in
                       ? weight_of(p, w, k.band * p.taps + tap, c + j) * f1 * f2
                       : 0;
            count += v[j] != 0 && fabsf(v[j]) < min_normal;
        }
        const __half2 high = __floats2half2_rn(v[0], v[1]);
        const int64_t block = (int64_t)g * (rows / CHANNELS) + oc / CHANNELS;
        const int64_t first =
            ((block * p.k_tiles * p.steps + step) * PARTS<Form> * 4 + warp) * WARP;
        __half2 *to = (__half2 *)packed + (first + lane + i % 4) * 4 + i % 8 / 4 * 2 + upper;
        *to = high;
        if (Form::PRODUCTS == 3)
            to[4 * WARP * 4] =
                __floats2half2_rn(v[0] - __low2float(high), v[1] - __high2float(high));
    }
    count = __reduce_add_sync(~0u, count);
    if (t % WARP == 0)
        atomicAdd(&underflows, count);
    __syncthreads();
    if (t == 0) {
        exponents[blockIdx.x] = e;
        /* With PHASES a row may have no taps. Zeros are right however many elements underflow. */
        thresholds[blockIdx.x] =
            Form::PHASES && max_bits == 0 ? -INFINITY : (float)underflows * p.coefficient;
    }
}

/// A thread's own weights of the next steps, in flight from global to shared memory.
template <typename Form> struct weight_stream {
    const gemm_problem &p;
    char *const ring;
    const char *from;
    int tile, left; ///< the tile whose steps are fetched, and its steps not fetched yet
    int slot;       ///< the slot that is read next, then filled again

    __device__ weight_stream(const gemm_problem &p_, char *ring_)
        : p(p_), ring(ring_ + threadIdx.x * 16), slot(0)
    {
        tile = first_tile(p);
        begin();
#pragma unroll 1
        for (int i = 0; i < Form::DEPTH; i += Form::RUN)
            fetch();
    }
    __device__ void begin()
    {
        left = 0;
        do {
            if (tile >= p.tiles)
                return;
            const talc_gemm_tile a = tile_of<Form>(p, tile);
            const int warpgroup = (int)threadIdx.x / 128, both = p.warpgroup_shift == 0 ? 2 : 1;
            const int64_t block = ((int64_t)a.g * p.channel_tiles + a.channel_tile) * both +
                                  (both == 2 ? warpgroup : 0);
            const int steps =
                steps_of<Form>(p, talc_gemm_block_of(&p, a.channel_tile, warpgroup)).count;
            left = a.k_tiles * steps;
            from = (const char *)p.packed +
                   (block * p.k_tiles * p.steps + a.k_tile * steps) * PARTS<Form> * 2048 +
                   threadIdx.x % 128 * 16;
            if (Form::PHASES && left == 0)
                tile = next_tile(p, tile);
        } while (Form::PHASES && left == 0);
    }
    __device__ static int bytes()
    {
        return PARTS<Form> * (MULTIPLIERS * 2048);
    }
    /// Fills the slots of a run again. The steps of a tile are a multiple of RUN, and so is DEPTH.
    __device__ void fetch()
    {
        constexpr int COUNT = Form::RUN;
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            if (left > 0) {
                char *to = ring + (slot + i) * bytes();
#pragma unroll
                for (int part = 0; part < PARTS<Form>; part++)
                    __pipeline_memcpy_async(to + part * (MULTIPLIERS * 2048),
                                            from + (i * PARTS<Form> + part) * 2048, 16);
            }
            __pipeline_commit();
        }
        slot = slot == Form::DEPTH - COUNT ? 0 : slot + COUNT;
        from += COUNT * PARTS<Form> * 2048;
        left -= COUNT;
        if (left == 0) {
            tile = next_tile(p, tile);
            begin();
        }
    }
    __device__ void read(uint4 (&a)[Form::RUN][PARTS<Form>]) const
    {
#pragma unroll
        for (int i = 0; i < Form::RUN; i++)
#pragma unroll
            for (int part = 0; part < PARTS<Form>; part++)
                a[i][part] =
                    *(const uint4 *)(ring + (slot + i) * bytes() + part * (MULTIPLIERS * 2048));
    }
};

} // namespace talc

#endif
