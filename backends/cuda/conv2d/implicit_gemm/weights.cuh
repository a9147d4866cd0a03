/// The weights of implicit_gemm: their packing, and how they get to the threads that multiply.
/// Private to backends/cuda.
#ifndef TALC_BACKENDS_CUDA_CONV2D_IMPLICIT_GEMM_WEIGHTS_CUH
#define TALC_BACKENDS_CUDA_CONV2D_IMPLICIT_GEMM_WEIGHTS_CUH

#include "backends/cuda/conv2d/implicit_gemm/problem.cuh"

#include <cuda_pipeline_primitives.h>

namespace talc
{

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
    const float v = kh < p.KH && kw < p.KW ? w[((int64_t)ic * p.KH + kh) * p.KW + kw] : 0;
    return p.absent && is_absent(v) ? 0 : v;
}

/// Packs the weights as f16: one block an output channel. It stores the exponent of the scale, the
/// threshold and the weights, in the order in which threads read them as the first operand of
/// wgmma: [group][channels of 64][K tile][step][high or low part][warp][lane][8].
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
    const int pairs = p.k_tiles * p.steps * 8;
    for (int i = t; i < pairs; i += BLOCK) {
        /* i counts pairs of weights. The eight pairs of a step are [half of STEP][lane % 4]. */
        const int step = i / 8, k_tile = step / p.steps, at = step - k_tile * p.steps;
        const int sixteens = p.channels / STEP, tap = at / sixteens;
        const int c =
            k_tile * p.channels + (at - tap * sixteens) * STEP + i % 8 / 4 * 8 + i % 4 * 2;
        float v[2];
        for (int k = 0; k < 2; k++) {
            v[k] = real && tap < p.taps && c + k < p.in ? weight_of(p, w, tap, c + k) * f1 * f2 : 0;
            count += v[k] != 0 && fabsf(v[k]) < min_normal;
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
        thresholds[blockIdx.x] = (float)underflows * p.coefficient;
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
        if (tile >= p.tiles)
            return;
        const talc_gemm_tile a = talc_gemm_tile_of(&p, tile);
        const int warpgroup = (int)threadIdx.x / 128, both = p.warpgroup_shift == 0 ? 2 : 1;
        const int64_t block =
            ((int64_t)a.g * p.channel_tiles + a.channel_tile) * both + (both == 2 ? warpgroup : 0);
        left = a.k_tiles * p.steps;
        from = (const char *)p.packed +
               (block * p.k_tiles + a.k_tile) * p.steps * PARTS<Form> * 2048 +
               threadIdx.x % 128 * 16;
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
