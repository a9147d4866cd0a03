/// The weights of implicit_gemm: their packing, and how they get to the threads that multiply.
/// Private to backends/cuda.
#ifndef TALC_BACKENDS_CUDA_CONV2D_IMPLICIT_GEMM_WEIGHTS_CUH
#define TALC_BACKENDS_CUDA_CONV2D_IMPLICIT_GEMM_WEIGHTS_CUH

#include "backends/cuda/conv2d/implicit_gemm/problem.cuh"

#include <cuda_pipeline_primitives.h>

namespace talc
{

constexpr int TRANSPOSED_ROWS = 16;   ///< channels of dx that a block of transpose_weights has
constexpr int TRANSPOSED_COLUMNS = 8; ///< and of dy

/// Writes the weights of dx by its channels and taps, [group][channel of dx][tap][channel of dy].
/// Neighbours in w are read by one block, so they come from its L1 cache.
static __global__ void __launch_bounds__(BLOCK)
    transpose_weights(const __grid_constant__ gemm_problem p, float *transposed)
{
    const int taps = p.dx.KH * p.dx.KW, rows = p.dx.group_channels, columns = p.group_in;
    const int across = (columns + TRANSPOSED_COLUMNS - 1) / TRANSPOSED_COLUMNS,
              down = (rows + TRANSPOSED_ROWS - 1) / TRANSPOSED_ROWS;
    const int part = (int)blockIdx.x / across, g = part / down,
              first_row = (part - g * down) * TRANSPOSED_ROWS,
              first_column = ((int)blockIdx.x - part * across) * TRANSPOSED_COLUMNS;
    const int64_t of_group = (int64_t)g * rows * columns * taps;
#pragma unroll 4
    for (int i = (int)threadIdx.x; i < TRANSPOSED_ROWS * TRANSPOSED_COLUMNS * taps; i += BLOCK) {
        const int pair = i / TRANSPOSED_COLUMNS,
                  of_block = (int)talc_quotient(p.dx.by_taps, (uint32_t)pair),
                  tap = pair - of_block * taps, row = first_row + of_block,
                  column = first_column + i % TRANSPOSED_COLUMNS;
        if (row < rows && column < columns)
            transposed[of_group + ((int64_t)row * taps + tap) * columns + column] =
                p.w[of_group + ((int64_t)column * rows + row) * taps + tap];
    }
}

/// The weight of a tap and a channel of the halo tile, 0 outside of the kernel.
static __device__ __forceinline__ float weight_of(const gemm_problem &p, const float *w, int tap,
                                                  int channel)
{
    const talc_gemm_weight of = talc_gemm_weight_of(&p, tap, channel);
    return of.kh < p.KH && of.kw < p.KW ? w[((int64_t)of.ic * p.KH + of.kh) * p.KW + of.kw] : 0;
}

/// Which taps of the kernel a row of the product has. Tap i of the halo tile is tap `source`; -1
/// where it is 0. `taps` are those that there are.
struct row_taps {
    int count;
    short source[TALC_GEMM_MAX_STEPS], taps[TALC_GEMM_MAX_STEPS];
};

/// Finds the taps of a row of dx. All threads of a block call it.
static __device__ __forceinline__ void find_taps(const gemm_problem &p, int row, row_taps &found)
{
    const dx_weights w(p, 0, row);
    for (int tap = (int)threadIdx.x; tap < p.taps; tap += BLOCK) {
        const int kh = tap / p.KW, h = w.tap_h(p, kh), v = w.tap_w(p, tap - kh * p.KW);
        found.source[tap] = (short)(w.of.exists && h >= 0 && v >= 0 ? h * p.dx.KW + v : -1);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        found.count = 0;
        for (int tap = 0; tap < p.taps; tap++)
            if (found.source[tap] >= 0)
                found.taps[found.count++] = found.source[tap];
    }
    __syncthreads();
}

/// The magnitude of a weight if it is finite.
static __device__ __forceinline__ unsigned finite_bits(float w)
{
    const unsigned bits = __float_as_uint(w) & 0x7fffffff;
    return bits < 0x7f800000 ? bits : 0;
}

/// Packs the weights of an output channel as f16; a block calls it. It stores the exponent of the
/// scale, the threshold and the weights, in the order in which threads read them as the first
/// operand of wgmma: [group][channels of 64][K tile][step][high or low part][warp][lane][8]. With
/// PHASES a channel is a row of the product, `w` has the transposed weights of dx, and the steps
/// are those that any of the 64 rows needs.
template <typename Form>
static __device__ __forceinline__ void pack_channel(const gemm_problem &p, const float *w,
                                                    int index, __half *packed, int *exponents,
                                                    float *thresholds)
{
    __shared__ unsigned max_bits, underflows;
    const int rows = p.channel_tiles * (p.warpgroup_shift == 0 ? 2 : 1) * CHANNELS;
    const int g = index / rows, oc = index - g * rows, t = (int)threadIdx.x;
    const bool real = oc < p.group_out;
    /* Taps of w, which a channel of x has after each other. */
    const int taps = Form::PHASES ? p.dx.KH * p.dx.KW : p.KH * p.KW, K = p.group_in * taps;
    int from = g * p.group_out + oc;
    const row_taps *of_row = nullptr;
    if constexpr (Form::PHASES) {
        __shared__ row_taps found;
        find_taps(p, oc, found);
        of_row = &found;
        from = g * p.dx.group_channels + talc_gemm_dx_row_of(&p.dx, oc).channel;
    }
    w += (int64_t)from * K;
    if (t == 0)
        max_bits = underflows = 0;
    __syncthreads();
    unsigned largest = 0;
    if constexpr (Form::PHASES) {
        for (int i = 0; i < of_row->count; i++)
#pragma unroll 4
            for (int c = t; c < p.group_in; c += BLOCK)
                largest = max(largest, finite_bits(w[of_row->taps[i] * p.group_in + c]));
    } else if (real) {
#pragma unroll 8
        for (int i = t; i < K; i += BLOCK)
            largest = max(largest, finite_bits(w[i]));
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
    const int64_t block = (int64_t)g * (rows / CHANNELS) + oc / CHANNELS;
    __half2 *to =
        (__half2 *)packed +
        ((block * p.k_tiles * p.steps * PARTS<Form> * 4 + warp) * WARP + lane + t % 4) * 4 +
        t % 8 / 4 * 2 + upper;
    /* The eight pairs of weights of a step are [half of STEP][lane % 4]: a thread has one, of every
     * so many steps, SOME at a time. */
    constexpr int EACH = BLOCK / 8, SOME = 4;
    const int all = p.k_tiles * steps.count, pair = t % 8 / 4 * 8 + t % 4 * 2;
    int k_tile = 0, of_k_tile = t / 8;
    for (int step = t / 8; step < all; step += SOME * EACH) {
        float v[SOME][2];
#pragma unroll
        for (int i = 0; i < SOME; i++) {
            for (; of_k_tile >= steps.count && steps.count > 0; of_k_tile -= steps.count)
                k_tile++;
            const int at = steps.first + of_k_tile,
                      tap = (int)talc_quotient(p.by_sixteens, (uint32_t)at);
            const talc_gemm_k_tile k = talc_gemm_k_tile_of(&p, k_tile);
            const int c = k.of_band * p.channels + (at - tap * (p.channels / STEP)) * STEP + pair;
            const int of_kernel = k.band * p.taps + tap;
            int source = of_kernel < taps ? of_kernel : -1;
            if constexpr (Form::PHASES)
                source = tap < p.taps ? of_row->source[tap] : -1;
            const bool exists = real && tap < p.taps && step + i * EACH < all;
#pragma unroll
            for (int j = 0; j < 2; j++)
                v[i][j] = !exists || c + j >= p.in ? 0
                          : p.folded               ? weight_of(p, w, tap, c + j)
                          : source < 0             ? 0
                          : Form::PHASES           ? w[source * p.group_in + c + j]
                                                   : w[(c + j) * taps + source];
            of_k_tile += EACH;
        }
#pragma unroll
        for (int i = 0; i < SOME; i++) {
#pragma unroll
            for (int j = 0; j < 2; j++) {
                const bool is_zero = v[i][j] == 0;
                v[i][j] = v[i][j] * f1 * f2;
                count += !is_zero && fabsf(v[i][j]) < min_normal;
            }
            const __half2 high = __floats2half2_rn(v[i][0], v[i][1]);
            __half2 *there = to + (int64_t)(step + i * EACH) * (PARTS<Form> * 4 * WARP * 4);
            if (step + i * EACH >= all)
                break;
            *there = high;
            if (Form::PRODUCTS == 3)
                there[4 * WARP * 4] =
                    __floats2half2_rn(v[i][0] - __low2float(high), v[i][1] - __high2float(high));
        }
    }
    count = __reduce_add_sync(~0u, count);
    if (t % WARP == 0)
        atomicAdd(&underflows, count);
    __syncthreads();
    if (t == 0) {
        exponents[index] = e;
        /* With PHASES a row may have no taps. Zeros are right however many elements underflow. */
        thresholds[index] =
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
