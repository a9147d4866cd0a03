/// Implicit matrix product on tensor cores: the plan and the kernel. Private to backends/cuda; implicit_gemm.cu tells the method.
#ifndef TALC_BACKENDS_CUDA_CONV2D_IMPLICIT_GEMM_CUH
#define TALC_BACKENDS_CUDA_CONV2D_IMPLICIT_GEMM_CUH

#include "backends/cuda/conv2d/epilogue.cuh"
#include "backends/cuda/index.cuh"
#include "backends/cuda/wgmma.cuh"
#include "ops/conv2d.h"

#include <cuda_fp16.h>

namespace talc
{

/// A tile of one warpgroup: 64 output channels of ROWS rows of COLUMNS output positions, as BLOCKS products 8 positions wide.
constexpr int CHANNELS = 64, ROWS = 8, COLUMNS = 32, BLOCKS = COLUMNS / 8;
/// Warpgroups that multiply, and threads that load patches.
constexpr int MULTIPLIERS = 2;
template <int PRODUCTS> constexpr int LOADERS = PRODUCTS == 3 ? 128 : 256;
template <int PRODUCTS> constexpr int GEMM_THREADS = MULTIPLIERS * 128 + LOADERS<PRODUCTS>;
/// Channels of a product's step, and of a plane of the patch in shared memory.
constexpr int STEP = 16, PLANE = 8;
/// Steps whose products follow one another on the same sums: switching sums costs the tensor cores time.
template <int PRODUCTS> constexpr int RUN = PRODUCTS == 3 ? 3 : 2;
/// Steps of weights that are on their way to each thread.
template <int PRODUCTS> constexpr int DEPTH = PRODUCTS == 3 ? 6 : 8;
template <int PRODUCTS> constexpr int PARTS = PRODUCTS == 3 ? 2 : 1;
constexpr int MAX_BUFFERS = 4, MAX_STEPS = 1024;
/// Floats of a sector of memory, the most that a tile may leave to the one beside it; of a row of results in shared memory, 10 banks
/// from the next; and of a warp's rows.
constexpr int CARRIED = 8, RESULT_PITCH = CARRIED + COLUMNS + 2,
              STAGING = 16 * RESULT_PITCH + ROWS * WARP, CARRY = ROWS * 16 * CARRIED;

struct gemm_problem {
    const float *x, *w;
    float *y;
    const __half *packed;
    const int *exponents; ///< of each output channel's weights
    const float
        *thresholds; ///< magnitude of a scaled sum below which the products of tiny weights matter
    epilogue<float> last{ nullptr, nullptr, TALC_ACTIVATION_NONE };

    int N, C, H, W, OC, OH, OW, KH, KW, groups;
    int group_in, group_out; ///< channels of a group
    int stride_h, stride_w, dilation_h, dilation_w, top, left;
    talc_padding_mode mode;
    int taps, channels, chunks,
        steps; ///< of a chunk: channels, and products of STEP channels, a multiple of RUN

    /* The patch: for each phase of the stride, the positions that the tile's windows begin at, row by row. */
    int phases, phases_w, phase_h_step, phase_w_step;
    int pitch,
        image_rows; ///< positions of a row; rows of an image, where images follow one another
    int positions;  ///< of a phase
    int row_shift;  ///< positions from one row of the tile to the next
    int part_shift; ///< positions from one warpgroup's part of the tile to the other's; 0: they have channels of their own
    bool flat;      ///< tiles run on over the ends of rows and images
    bool
        carry; ///< a block takes the tiles of a row one after the other, and carries parts of sectors over

    int channel_tiles, row_tiles, column_tiles, pixel_tiles, tiles;
    int tile_rows, tile_columns;
    int patch_bytes, buffers;
    float coefficient; ///< of the count of tiny elements
    divisor<uint32_t> by_pitch, by_image_rows, by_positions;
    divisor<uint32_t> by_inner, by_outer, by_row_tiles,
        by_N; ///< a tile's number is [group][n][row][outer][inner]: columns and channels, with carry
    /// Where in the patch each step begins, in units of 16 bytes: in constant memory, so that addresses are formed by the uniform datapath.
    uint16_t shifts[MAX_STEPS];
};

// ---- Weights ------------------------------------------------------------------------------------------------

/// Scaled maxima lie in [2^13, 2^14).
constexpr int TOP = 14;

static __device__ __forceinline__ float power_of_two(int e)
{
    return __int_as_float((e + 127) << 23);
}

/// A block an output channel: its scale, then its halves, in the order in which threads read them as wgmma's first operand:
/// [group][channels of 64][chunk][step][part][warp][lane][8].
template <int PRODUCTS>
static __global__ void __launch_bounds__(BLOCK)
    pack_halves(const gemm_problem p, __half *packed, int *exponents, float *thresholds)
{
    __shared__ unsigned most, tiny;
    const int rows = p.channel_tiles * (p.part_shift == 0 ? 2 : 1) * CHANNELS;
    const int oc = (int)blockIdx.x % rows, g = (int)blockIdx.x / rows, t = (int)threadIdx.x;
    const int K = p.group_in * p.taps;
    const bool real = oc < p.group_out;
    const float *w = p.w + ((int64_t)g * p.group_out + oc) * K;
    if (t == 0)
        most = tiny = 0;
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
        atomicMax(&most, largest);
    __syncthreads();
    int e = 0;
    if (most != 0)
        frexpf(__uint_as_float(most), &e), e = TOP - e;
    const int e1 = e > 127 ? 127 : e;
    const float f1 = power_of_two(e1), f2 = power_of_two(e - e1);
    const float least = PRODUCTS == 3 ? 0x1p-4f : 0x1p-14f;
    unsigned count = 0;
    const int row = oc % CHANNELS, lane = row % 8 * 4, warp = row / 16, upper = row / 8 % 2;
    const int pairs = p.chunks * p.steps * 8;
    for (int i = t; i < pairs; i += BLOCK) {
        /* In a step: lane % 4, then the halves of STEP. */
        const int step = i / 8, chunk = step / p.steps, at = step - chunk * p.steps;
        const int sixteens = p.channels / STEP, tap = at / sixteens;
        const int c = chunk * p.channels + (at - tap * sixteens) * STEP + i % 8 / 4 * 8 + i % 4 * 2;
        float v[2];
        for (int k = 0; k < 2; k++) {
            v[k] = real && tap < p.taps && c + k < p.group_in
                       ? w[(int64_t)(c + k) * p.taps + tap] * f1 * f2
                       : 0;
            count += v[k] != 0 && fabsf(v[k]) < least;
        }
        const __half2 high = __floats2half2_rn(v[0], v[1]);
        const int64_t block = (int64_t)g * (rows / CHANNELS) + oc / CHANNELS;
        const int64_t first =
            ((block * p.chunks * p.steps + step) * PARTS<PRODUCTS> * 4 + warp) * WARP;
        __half2 *to = (__half2 *)packed + (first + lane + i % 4) * 4 + i % 8 / 4 * 2 + upper;
        *to = high;
        if (PRODUCTS == 3)
            to[4 * WARP * 4] =
                __floats2half2_rn(v[0] - __low2float(high), v[1] - __high2float(high));
    }
    count = __reduce_add_sync(~0u, count);
    if (t % WARP == 0)
        atomicAdd(&tiny, count);
    __syncthreads();
    if (t == 0) {
        exponents[blockIdx.x] = e;
        thresholds[blockIdx.x] = (float)tiny * p.coefficient;
    }
}

// ---- Tiles --------------------------------------------------------------------------------------------------

struct gemm_tile {
    int g, channel_tile;
    int first;          ///< position at which a flat tile begins
    int n, row, column; ///< at which another does
    bool before, after; ///< with carry: whether the row has a tile before it, and one behind
};

static __device__ __forceinline__ gemm_tile tile_of(const gemm_problem &p, int t)
{
    gemm_tile a = {};
    const int rest = (int)p.by_inner.quotient((uint32_t)t),
              rows = (int)p.by_outer.quotient((uint32_t)rest);
    const int inner = t - rest * (int)p.by_inner.by, outer = rest - rows * (int)p.by_outer.by;
    const int column = p.carry ? inner : outer;
    a.channel_tile = p.carry ? outer : inner;
    a.before = p.carry && column > 0, a.after = p.carry && column + 1 < p.column_tiles;
    if (p.flat) {
        a.g = rows;
        a.first = column * p.tile_columns;
        return a;
    }
    a.column = column * p.tile_columns;
    const int images = (int)p.by_row_tiles.quotient((uint32_t)rows);
    a.row = (rows - images * p.row_tiles) * p.tile_rows;
    a.g = (int)p.by_N.quotient((uint32_t)images);
    a.n = images - a.g * p.N;
    return a;
}

/// The tiles that a block computes.
static __device__ __forceinline__ int first_tile(const gemm_problem &p)
{
    return (int)blockIdx.x * (p.carry ? p.column_tiles : 1);
}

static __device__ __forceinline__ int next_tile(const gemm_problem &p, int t)
{
    if (!p.carry)
        return t + (int)gridDim.x;
    t++;
    const bool ends = t == (int)(p.by_inner.quotient((uint32_t)t) * p.by_inner.by);
    return ends ? t + ((int)gridDim.x - 1) * p.column_tiles : t;
}

/// Where position `at` of a phase of the tile's patch lies.
struct gemm_place {
    int n, row, column;
};

static __device__ __forceinline__ gemm_place place_of(const gemm_problem &p, const gemm_tile &a,
                                                      int at)
{
    const int f = a.first + at;
    gemm_place place;
    place.n = a.n;
    place.row = (int)p.by_pitch.quotient((uint32_t)f);
    place.column = a.column + f - place.row * p.pitch;
    place.row += a.row;
    if (p.flat) {
        place.n = (int)p.by_image_rows.quotient((uint32_t)place.row);
        place.row -= place.n * p.image_rows;
    }
    return place;
}

// ---- Patches ------------------------------------------------------------------------------------------------

struct patch_note {
    int exponent;
    unsigned tiny;
};

struct patch_item {
    const float *from;
    char *to;
    int position, channel;
    bool inside;
};

/// Writes one chunk of a patch in halves, scaled. `most` is the largest magnitude before, `tiny` counts what is too small after
/// scaling. With CAREFUL infinities are written as NaN and do not count, and channels may end inside the chunk.
template <int PRODUCTS, bool CAREFUL>
static __device__ __forceinline__ void load_patch(const gemm_problem &p, const gemm_tile &a,
                                                  int chunk, char *patch, float scale, float &most,
                                                  unsigned &tiny)
{
    const int count = p.phases * p.positions, channels = p.group_in - chunk * p.channels;
    const int64_t plane = (int64_t)p.H * p.W;
    const float *x = p.x + ((int64_t)a.g * p.group_in + (int64_t)chunk * p.channels) * plane;
    const unsigned plane_bytes = (unsigned)count * 16,
                   low = (unsigned)(p.channels / PLANE) * plane_bytes;
    constexpr unsigned least = 2 * (PRODUCTS == 3 ? 0x3d800000u : 0x38800000u) - 1;
    float largest = 0;
    unsigned few = 0;
    auto find = [&](patch_item &item) {
        int phase = 0, at = item.position;
        if (p.phases > 1) {
            phase = (int)p.by_positions.quotient((uint32_t)at);
            at -= phase * p.positions;
        }
        const gemm_place place = place_of(p, a, at);
        int h = place.row * p.stride_h - p.top, w = place.column * p.stride_w - p.left;
        if (p.phases > 1) {
            const int phase_h = phase / p.phases_w;
            h += phase_h * p.phase_h_step;
            w += (phase - phase_h * p.phases_w) * p.phase_w_step;
        }
        item.inside = item.position < count && place.n < p.N;
        if (p.mode != TALC_PADDING_ZEROS && item.inside) {
            h = (int)talc_window_source(p.mode, h, p.H);
            w = (int)talc_window_source(p.mode, w, p.W);
        }
        item.inside = item.inside && (unsigned)h < (unsigned)p.H && (unsigned)w < (unsigned)p.W;
        item.from = x + (item.inside ? place.n * (int64_t)p.C * plane + h * p.W + w : 0);
        item.to = patch + item.position * 16;
    };
    auto next = [&](const patch_item &item) {
        patch_item after = item;
        after.channel += STEP;
        after.from += STEP * plane;
        after.to += 2 * plane_bytes;
        if (after.channel >= p.channels) {
            after.channel = 0;
            after.position += LOADERS<PRODUCTS>;
            find(after);
        }
        return after;
    };
    auto load = [&](float(&v)[STEP], const patch_item &item) {
        const float *from = item.from;
#pragma unroll
        for (int i = 0; i < STEP; i++, from += plane)
            v[i] = item.inside && (!CAREFUL || item.channel + i < channels) ? __ldg(from) : 0;
    };
    auto store = [&](float(&v)[STEP], const patch_item &item) {
        unsigned smallest = ~0u;
#pragma unroll
        for (int i = 0; i < STEP; i++) {
            if (CAREFUL && isinf(v[i]))
                v[i] = __int_as_float(0x7fffffff);
            largest = fmaxf(largest, fabsf(v[i]));
            v[i] *= scale;
            smallest = min(smallest, 2 * __float_as_uint(v[i]) - 1);
        }
        if (smallest < least)
#pragma unroll
            for (int i = 0; i < STEP; i++)
                few += 2 * __float_as_uint(v[i]) - 1 < least;
        char *to = item.to;
#pragma unroll
        for (int k = 0; k < STEP; k += PLANE, to += plane_bytes) {
            __half2 high[4], rest[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float v0 = v[k + 2 * i], v1 = v[k + 2 * i + 1];
                high[i] = __floats2half2_rn(v0, v1);
                if (PRODUCTS == 3)
                    rest[i] =
                        __floats2half2_rn(v0 - __low2float(high[i]), v1 - __high2float(high[i]));
            }
            *(int4 *)to = *(int4 *)high;
            if (PRODUCTS == 3)
                *(int4 *)(to + low) = *(int4 *)rest;
        }
    };
    patch_item item = {};
    item.position = (int)threadIdx.x - MULTIPLIERS * 128;
    find(item);
#pragma unroll 1
    while (item.position < count) {
        float v[STEP];
        load(v, item);
        store(v, item);
        item = next(item);
    }
    most = largest;
    tiny = few;
}

// ---- One output, by FFMA ------------------------------------------------------------------------------------

/// The sum of one output, by a warp, in the order of its lanes.
static __device__ __forceinline__ float sum_by_warp(const gemm_problem &p, int g, int oc,
                                                    gemm_place place)
{
    const int K = p.group_in * p.taps;
    const float *w = p.w + ((int64_t)g * p.group_out + oc) * K;
    const float *x = p.x + ((int64_t)place.n * p.C + (int64_t)g * p.group_in) * p.H * p.W;
    float sum = 0;
    for (int k = (int)threadIdx.x % WARP; k < K; k += WARP) {
        const int c = k / p.taps, tap = k - c * p.taps, kh = tap / p.KW, kw = tap - kh * p.KW;
        int64_t h = (int64_t)place.row * p.stride_h - p.top + kh * p.dilation_h;
        int64_t v = (int64_t)place.column * p.stride_w - p.left + kw * p.dilation_w;
        h = talc_window_source(p.mode, h, p.H), v = talc_window_source(p.mode, v, p.W);
        sum += (h < 0 || v < 0 ? 0 : x[((int64_t)c * p.H + h) * p.W + v]) * w[k];
    }
#pragma unroll
    for (int apart = WARP / 2; apart > 0; apart /= 2)
        sum += __shfl_xor_sync(~0u, sum, apart);
    return sum;
}

// ---- The kernel ---------------------------------------------------------------------------------------------

/// The next steps of weights, each thread's own, on their way from global to shared memory.
template <int PRODUCTS> struct weight_stream {
    const gemm_problem &p;
    char *const ring;
    const char *from;
    int tile, left; ///< whose steps are fetched, and how many of them are still to be
    int slot, next; ///< to be filled, and to be read

    __device__ weight_stream(const gemm_problem &p_, char *ring_)
        : p(p_), ring(ring_ + threadIdx.x * 16), slot(0), next(0)
    {
        tile = first_tile(p);
        begin();
#pragma unroll 1
        for (int i = 0; i < DEPTH<PRODUCTS>; i += RUN<PRODUCTS>)
            fetch();
    }
    __device__ void begin()
    {
        left = 0;
        if (tile >= p.tiles)
            return;
        const gemm_tile a = tile_of(p, tile);
        const int warpgroup = (int)threadIdx.x / 128, both = p.part_shift == 0 ? 2 : 1;
        const int64_t block =
            ((int64_t)a.g * p.channel_tiles + a.channel_tile) * both + (both == 2 ? warpgroup : 0);
        left = p.chunks * p.steps;
        from =
            (const char *)p.packed + block * left * PARTS<PRODUCTS> * 2048 + threadIdx.x % 128 * 16;
    }
    /// The next steps of a run; a tile's are a multiple of it.
    __device__ void fetch()
    {
        constexpr int COUNT = RUN<PRODUCTS>;
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            if (left > 0) {
                char *to = ring + slot * PARTS<PRODUCTS> * (MULTIPLIERS * 2048);
#pragma unroll
                for (int part = 0; part < PARTS<PRODUCTS>; part++)
                    __pipeline_memcpy_async(to + part * (MULTIPLIERS * 2048),
                                            from + (i * PARTS<PRODUCTS> + part) * 2048, 16);
            }
            __pipeline_commit();
            slot = slot == DEPTH<PRODUCTS> - 1 ? 0 : slot + 1;
        }
        from += COUNT * PARTS<PRODUCTS> * 2048;
        left -= COUNT;
        if (left == 0) {
            tile = next_tile(p, tile);
            begin();
        }
    }
    __device__ void read(uint4 (&a)[PARTS<PRODUCTS>])
    {
        const char *at = ring + next * PARTS<PRODUCTS> * (MULTIPLIERS * 2048);
#pragma unroll
        for (int part = 0; part < PARTS<PRODUCTS>; part++)
            a[part] = *(const uint4 *)(at + part * (MULTIPLIERS * 2048));
        next = next == DEPTH<PRODUCTS> - 1 ? 0 : next + 1;
    }
};

template <int PRODUCTS>
static __device__ __forceinline__ void load_patches(const gemm_problem &p, char *patches,
                                                    patch_note *notes, unsigned (*measured)[2],
                                                    uint32_t full, uint32_t empty)
{
    int buffer = 0, exponent = 0;
    uint32_t parity = 1;
    for (int t = first_tile(p); t < p.tiles; t = next_tile(p, t)) {
        const gemm_tile a = tile_of(p, t);
        for (int chunk = 0; chunk < p.chunks; chunk++) {
            barrier_wait(empty + 8 * buffer, parity);
            bool careful = (chunk + 1) * p.channels > p.group_in;
            for (;;) {
                if (threadIdx.x - MULTIPLIERS * 128 == 0)
                    measured[buffer][0] = measured[buffer][1] = 0;
                const float scale = ldexpf(1, exponent);
                char *patch = patches + buffer * p.patch_bytes;
                float largest;
                unsigned tiny;
                if (careful)
                    load_patch<PRODUCTS, true>(p, a, chunk, patch, scale, largest, tiny);
                else
                    load_patch<PRODUCTS, false>(p, a, chunk, patch, scale, largest, tiny);
                const unsigned most = __reduce_max_sync(~0u, __float_as_uint(largest));
                tiny = __reduce_add_sync(~0u, tiny);
                barrier_sync<1, LOADERS<PRODUCTS>>();
                if (threadIdx.x % WARP == 0) {
                    atomicMax(&measured[buffer][0], most);
                    atomicAdd(&measured[buffer][1], tiny);
                }
                barrier_sync<1, LOADERS<PRODUCTS>>();
                largest = __uint_as_float(measured[buffer][0]);
                int e;
                frexpf(largest, &e);
                if (largest == 0 ||
                    (e + exponent <= TOP + 1 && (e + exponent > TOP - 3 || exponent == 127)))
                    break;
                if (isinf(largest))
                    careful = true;
                else
                    exponent = min(TOP - e, 127);
                barrier_sync<1, LOADERS<PRODUCTS>>();
            }
            if (threadIdx.x - MULTIPLIERS * 128 == 0)
                notes[buffer] = { exponent, measured[buffer][1] };
            fence_async_shared();
            barrier_arrive(full + 8 * buffer);
            if (++buffer == p.buffers)
                buffer = 0, parity ^= 1;
        }
    }
}

/// The larger one, or NaN.
static __device__ __forceinline__ float at_least(float v, float floor)
{
    float larger;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(v), "f"(floor));
    return larger;
}

/// The smaller magnitude, or NaN.
static __device__ __forceinline__ float smaller_magnitude(float a, float b)
{
    float smaller;
    asm("{\n.reg .f32 x, y;\nabs.f32 x, %1;\nabs.f32 y, %2;\nmin.NaN.f32 %0, x, y;\n}"
        : "=f"(smaller)
        : "f"(a), "f"(b));
    return smaller;
}

static __device__ __forceinline__ void copy_four(float *to, const float *from)
{
    *(float2 *)to = *(const float2 *)from;
    *(float2 *)(to + 2) = *(const float2 *)(from + 2);
}

/// Writes a result of each of `count` channels, the first to y[lane].
static __device__ __forceinline__ void store_elements(float *y, int plane, int count, float floor,
                                                      const float *staging)
{
    y += (int)threadIdx.x % WARP;
#pragma unroll 1
    for (int from = 0; from < count; from += 8) {
        float v[8];
#pragma unroll
        for (int c = 0; c < 8; c++)
            v[c] = at_least(staging[(from + c) * RESULT_PITCH], floor);
#pragma unroll
        for (int c = 0; c < 8; c++, y += plane)
            if (from + c < count)
                *y = v[c];
    }
}

/// Writes columns begin .. end - 1 of a row of results of a warp's channels, whose first belongs at y and stands in shared memory behind
/// CARRIED others, beginning with the column `from` rounded down to a sector of 32 bytes of y: memory takes parts of sectors at a third
/// of its rate. By vectors of 4, 8 threads a channel.
static __device__ __forceinline__ void store_sectors(float *y, int plane, int channels, float floor,
                                                     const float *staging, int lane, int from,
                                                     int begin, int end)
{
    const int misaligned = (int)((uintptr_t)y / 4);
#pragma unroll 1
    for (int c = lane / 8; c < channels; c += 8) {
        float4 v[2];
        int column[2];
#pragma unroll
        for (int k = 0; k < 2; k++) {
            column[k] = from + lane % 8 * 4 - ((misaligned + (c + k * 4) * plane) & (CARRIED - 1));
            const float *at = staging + (c + k * 4) * RESULT_PITCH + CARRIED + column[k];
            v[k] = make_float4(at_least(at[0], floor), at_least(at[1], floor),
                               at_least(at[2], floor), at_least(at[3], floor));
        }
#pragma unroll
        for (int k = 0; k < 2; k++) {
            float *to = y + ((c + k * 4) * plane + column[k]);
            const int before = begin - column[k], behind = end - column[k];
            if (c + k * 4 >= channels)
                continue;
            if (before <= 0 && behind >= 4) {
                *(float4 *)to = v[k];
            } else {
                if (before <= 0 && behind > 0)
                    to[0] = v[k].x;
                if (before <= 1 && behind > 1)
                    to[1] = v[k].y;
                if (before <= 2 && behind > 2)
                    to[2] = v[k].z;
                if (before <= 3 && behind > 3)
                    to[3] = v[k].w;
            }
        }
    }
}

/// Ends a warp's sums and writes them, row by row through shared memory, so that they leave in whole rows of the tile. Those that may
/// have lost the products of tiny elements, and NaN, are computed again. `carried` [ROWS][16][CARRIED] are the ends of rows for the
/// tile behind.
static __device__ __forceinline__ void store_results(const gemm_problem &p, const gemm_tile &a,
                                                     float (&sums)[BLOCKS][ROWS * 4], int exponent,
                                                     unsigned tiny, float *staging, float *carried)
{
    /* Asked for anew: what follows from it would else take registers from the sums while they are formed. */
    int thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    const int lane = thread % WARP, warp = thread / WARP % 4, warpgroup = thread / 128;
    staging += thread / WARP * STAGING;
    carried += thread / WARP * CARRY;
    const int both = p.part_shift == 0 ? 2 : 1;
    const int block = a.channel_tile * both + (both == 2 ? warpgroup : 0),
              part = both == 2 ? 0 : warpgroup * p.part_shift;
    const int first = block * CHANNELS + warp * 16; /* channel of the group */
    const int oc0 = a.g * p.group_out + first, plane = p.OH * p.OW;
    const int channels = max(0, min(16, p.group_out - first));
    unsigned *marks = (unsigned *)(staging + 16 * RESULT_PITCH); /* [ROWS][WARP] */
    float back[2], least[2], bias[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int c = lane / 4 + half * 8, at = a.g * p.channel_tiles * both * CHANNELS + first + c;
        const int e = -(exponent + p.exponents[at]);
        back[half] = power_of_two(max(-126, min(127, e)));
        least[half] =
            (float)min(tiny, (unsigned)(p.group_in * p.taps)) * p.coefficient + p.thresholds[at];
        if (e < -126 || e > 127)
            least[half] = INFINITY;
        bias[half] = p.last.bias != nullptr && c < channels ? p.last.bias[oc0 + c] : 0;
    }
    const bool simple =
        p.last.activation == TALC_ACTIVATION_NONE || p.last.activation == TALC_ACTIVATION_RELU;
    const float floor = p.last.activation == TALC_ACTIVATION_RELU ? 0 : -INFINITY;
    unsigned rows = 0; /* that have doubtful sums */
#pragma unroll 1
    for (int j = 0; j < ROWS; j++) {
        /* Keeps the compiler from scaling all sums before the loop, for which there are no registers. */
        asm volatile("" : "+f"(back[0]), "+f"(back[1]), "+f"(least[0]), "+f"(least[1]));
        /* With carry a row's results are of one row of y, else each may be anywhere. */
        const int own = p.carry ? 0 : lane;
        const gemm_place at = place_of(p, a, part + j * p.row_shift + own);
        const int64_t first_at =
            ((int64_t)at.n * p.OC + oc0) * plane + at.row * p.OW + at.column - own;
        const int end = at.n < p.N && at.row < p.OH ? p.OW - at.column + own : -CARRIED;
        const bool inside = lane < end;
        const unsigned real = __ballot_sync(~0u, inside); /* columns */
        unsigned doubtful = 0;
        float *to = staging + lane / 4 * RESULT_PITCH + CARRIED + lane % 4 * 2;
#pragma unroll
        for (int k = 0; k < ROWS; k++)
            if (k == j) {
                float smallest[2] = { INFINITY, INFINITY };
#pragma unroll
                for (int half = 0; half < 2; half++)
#pragma unroll
                    for (int b = 0; b < BLOCKS; b++) {
                        const float s0 = sums[b][k * 4 + half * 2],
                                    s1 = sums[b][k * 4 + half * 2 + 1];
                        smallest[half] =
                            smaller_magnitude(smallest[half], smaller_magnitude(s0, s1));
                        *(float2 *)(to + half * 8 * RESULT_PITCH + b * 8) =
                            make_float2(s0 * back[half] + bias[half], s1 * back[half] + bias[half]);
                    }
                if (!(smallest[0] >= least[0] && smallest[1] >= least[1]))
#pragma unroll
                    for (int half = 0; half < 2; half++)
#pragma unroll
                        for (int b = 0; b < BLOCKS; b++) {
                            const float s0 = sums[b][k * 4 + half * 2],
                                        s1 = sums[b][k * 4 + half * 2 + 1];
                            unsigned two = (fabsf(s0) >= least[half] ? 0 : 1) |
                                           (fabsf(s1) >= least[half] ? 0 : 2);
                            two &=
                                lane / 4 + half * 8 < channels ? real >> (b * 8 + lane % 4 * 2) : 0;
                            doubtful |= two << (half * BLOCKS + b) * 2;
                        }
            }
        if (__any_sync(~0u, doubtful != 0)) {
            marks[j * WARP + lane] = doubtful;
            rows |= 1u << j;
        }
        if (a.before) /* two lanes a channel */
            copy_four(staging + lane / 2 * RESULT_PITCH + lane % 2 * 4,
                      carried + j * 16 * CARRIED + lane * 4);
        __syncwarp();
        if (p.last.residual != nullptr && inside) {
            const float *residual = p.last.residual + first_at + lane;
#pragma unroll 1
            for (int from = 0; from < channels; from += 8) {
                float added[8];
#pragma unroll
                for (int c = 0; c < 8; c++)
                    added[c] = from + c < channels ? residual[(from + c) * plane] : 0;
#pragma unroll
                for (int c = 0; c < 8; c++)
                    staging[(from + c) * RESULT_PITCH + CARRIED + lane] += added[c];
            }
        }
        if (!simple) /* takes many instructions */
#pragma unroll 1
            for (int c = 0; c < channels; c++) {
                float &v = staging[c * RESULT_PITCH + CARRIED + lane];
                v = talc_activate(p.last.activation, v);
            }
        if (p.last.residual != nullptr || !simple)
            __syncwarp();
        float *y = p.y + first_at;
        if (!p.carry)
            store_elements(y, plane, inside ? channels : 0, floor, staging + CARRIED + lane);
        else
            for (int from = 0; from < (a.after ? COLUMNS : 2 * COLUMNS); from += COLUMNS)
                store_sectors(y, plane, channels, floor, staging, lane, from,
                              a.before ? -CARRIED : 0, min(end, COLUMNS));
        if (a.after)
            copy_four(carried + j * 16 * CARRIED + lane * 4,
                      staging + lane / 2 * RESULT_PITCH + COLUMNS + lane % 2 * 4);
        __syncwarp();
    }
#pragma unroll 1
    for (; rows != 0; rows &= rows - 1) {
        const int j = __ffs((int)rows) - 1;
        const unsigned doubtful = marks[j * WARP + lane];
#pragma unroll 1
        for (int l = 0; l < WARP; l++)
            for (unsigned rest = __shfl_sync(~0u, doubtful, l); rest != 0; rest &= rest - 1) {
                const int bit = __ffs((int)rest) - 1;
                const int c = bit / (2 * BLOCKS) * 8 + l / 4,
                          column = bit / 2 % BLOCKS * 8 + l % 4 * 2 + bit % 2;
                const gemm_place at = place_of(p, a, part + j * p.row_shift + column);
                const float sum = sum_by_warp(p, a.g, first + c, at);
                const int64_t to =
                    ((int64_t)at.n * p.OC + oc0 + c) * plane + at.row * p.OW + at.column;
                if (lane == 0) {
                    const float y = talc_epilogue(p.last, sum, oc0 + c, to);
                    p.y[to] = y;
                    if (a.after &&
                        column >= COLUMNS - CARRIED) /* which the tile behind writes too */
                        carried[(j * 16 + c) * CARRIED + column - (COLUMNS - CARRIED)] = y;
                }
            }
    }
    __syncwarp();
}

template <int PRODUCTS>
static __device__ __forceinline__ void multiply(const gemm_problem &p, const char *patches,
                                                const patch_note *notes, char *ring, float *staging,
                                                float *carried, uint32_t full, uint32_t empty)
{
    const int warpgroup =
        __shfl_sync(~0u, (int)threadIdx.x / 128, 0); /* which the compiler knows to be uniform */
    const shared_matrix first =
        shared_matrix_of(shared_address(patches) + warpgroup * p.part_shift * 16,
                         p.phases * p.positions, p.row_shift);
    const uint32_t low = (uint32_t)(p.channels / PLANE * p.phases * p.positions);
    int buffer = 0;
    uint32_t parity = 0;
    weight_stream<PRODUCTS> weights(p, ring);
    constexpr int RUNS = RUN<PRODUCTS>;
    float part[ROWS * 4]; /* declared here, the sums of all blocks share their registers */
    for (int t = first_tile(p); t < p.tiles; t = next_tile(p, t)) {
        float sums[BLOCKS][ROWS * 4];
#pragma unroll
        for (int b = 0; b < BLOCKS; b++)
#pragma unroll
            for (int k = 0; k < ROWS * 4; k++)
                sums[b][k] = 0;
        int exponent = 0;
        unsigned tiny = 0;
        for (int chunk = 0; chunk < p.chunks; chunk++) {
            barrier_wait(full + 8 * buffer, parity);
            const patch_note note = notes[buffer];
            tiny += note.tiny;
            if (chunk > 0 && note.exponent != exponent) {
                wgmma_wait<0>(); /* for the compiler, which else waits after every product */
                const int e = note.exponent - exponent, e1 = max(-126, min(127, e));
                const float f = power_of_two(e1), rest = power_of_two(max(-126, min(127, e - e1)));
#pragma unroll
                for (int b = 0; b < BLOCKS; b++)
#pragma unroll
                    for (int k = 0; k < ROWS * 4; k++)
                        sums[b][k] = sums[b][k] * f * rest;
            }
            exponent = note.exponent;
            const uint32_t patch = first.at + (uint32_t)(buffer * p.patch_bytes / 16);
            auto matrix_of = [&](int s, int b) {
                return shared_matrix{ patch + p.shifts[s] + b * 8, first.stride };
            };
            for (int s = 0; s < p.steps; s += RUNS) {
                uint4 a[RUNS][PARTS<PRODUCTS>];
                __pipeline_wait_prior(DEPTH<PRODUCTS> - RUNS);
#pragma unroll
                for (int k = 0; k < RUNS; k++)
                    weights.read(a[k]);
                if constexpr (PRODUCTS == 1) {
                    wgmma_fence();
#pragma unroll
                    for (int b = 0; b < BLOCKS; b++)
#pragma unroll
                        for (int k = 0; k < RUNS; k++)
                            wgmma(sums[b], a[k][0], matrix_of(s + k, b), 1);
                    wgmma_commit();
                    weights.fetch();
                    wgmma_wait<0>();
                } else {
                    weights.fetch();
#pragma unroll
                    for (int b = 0; b < BLOCKS; b++) {
                        wgmma_fence();
#pragma unroll
                        for (int k = 0; k < RUNS; k++) {
                            const shared_matrix high = matrix_of(s + k, b),
                                                rest = { high.at + low, high.stride };
                            wgmma(part, a[k][PARTS<PRODUCTS> - 1], high, k);
                            wgmma(part, a[k][0], rest, 1);
                            wgmma(part, a[k][0], high, 1);
                        }
                        wgmma_commit();
                        wgmma_wait<0>();
#pragma unroll
                        for (int k = 0; k < ROWS * 4; k++)
                            sums[b][k] += part[k];
                    }
                }
            }
            if (threadIdx.x % 128 % WARP == 0)
                barrier_arrive(empty + 8 * buffer);
            if (++buffer == p.buffers)
                buffer = 0, parity ^= 1;
        }
        store_results(p, tile_of(p, t), sums, exponent, tiny, staging, carried);
    }
    __pipeline_wait_prior(0);
}

template <int PRODUCTS>
static __global__ void __launch_bounds__(GEMM_THREADS<PRODUCTS>, 1)
    implicit_gemm(const __grid_constant__ gemm_problem p)
{
    extern __shared__ __align__(128) char shared[];
    __shared__ __align__(8) uint64_t barriers[2 * MAX_BUFFERS];
    __shared__ patch_note notes[MAX_BUFFERS];
    __shared__ unsigned measured[MAX_BUFFERS][2];
    constexpr int RING = DEPTH<PRODUCTS> * PARTS<PRODUCTS> * MULTIPLIERS * 2048;
    char *patches = shared, *ring = patches + p.buffers * p.patch_bytes;
    float *staging = (float *)(ring + RING);
    float *carried = staging + MULTIPLIERS * 4 * STAGING;
    const uint32_t full = shared_address(barriers), empty = full + 8 * MAX_BUFFERS;
    if (threadIdx.x == 0) {
        for (int i = 0; i < p.buffers; i++) {
            barrier_init(full + 8 * i, LOADERS<PRODUCTS>);
            barrier_init(empty + 8 * i, MULTIPLIERS * 4);
        }
        fence_barrier_init();
    }
    __syncthreads();
    if (threadIdx.x >= MULTIPLIERS * 128) {
        registers_down<PRODUCTS == 3 ? 72 : 48>();
        load_patches<PRODUCTS>(p, patches, notes, measured, full, empty);
    } else {
        registers_up<PRODUCTS == 3 ? 216 : 208>();
        multiply<PRODUCTS>(p, patches, notes, ring, staging, carried, full, empty);
    }
}

} // namespace talc

#endif
