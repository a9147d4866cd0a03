/// The weight gradient by FFMA with its sums in registers: for small convolutions, which by matrix
/// products take longer to be laid out and launched than to be computed. Included by
/// direct_gradient.cu.
///
///     a thread    CHANNELS output channels, an input channel, TAPS x TAPS taps; every splits-th
///                 row of a stage
///     a block     threads_oc x threads_ic such threads, `splits` times: a tile of dw, of a share
///                 of the stages
///     a stage     dy and the halo tile of x under it: some rows, up to 32 wide, of one image, or
///                 all rows of some images
///
/// A stage is in shared memory while the next one is being copied. For 4 neighbouring outputs and
/// 3x3 taps a thread's 18 words of x and 4 vectors of dy feed 144 FFMA. A warp reads up to 8
/// channels of x, in banks of their own, so halo tiles are copied as vectors wherever the image
/// begins, and are read by words. A kernel's STEP is the stride; where there is none for a stride
/// or dilation, the halo tile has the columns of each window side by side, and so it does with rows
/// where these are fewer then.
///
/// At the end the splits' sums are added in shared memory, in their order; those of shares are in
/// the workspace, [share][dw], and a second kernel adds them in theirs (split_k.h). Products of
/// positions that no output has are left out, those with padding are products with zero.
#ifndef TALC_BACKENDS_CUDA_CONV2D_DIRECT_WEIGHTS_CUH
#define TALC_BACKENDS_CUDA_CONV2D_DIRECT_WEIGHTS_CUH

#include "backends/cuda/conv2d/split_k.h"
#include "backends/cuda/device/estimate.h"
#include "backends/cuda/primitives/dtype.cuh"
#include "backends/cuda/primitives/group.cuh"

#include <cuda_pipeline_primitives.h>

#include <climits>
#include <cmath>

namespace talc
{

/// What the algorithm keeps of its plan of a weight gradient.
struct weights_plan {
    int taps, step;                     /* of the kernel; taps 0: the general form */
    int threads_ic, threads_oc, splits; /* threads of a block */
    int images, rows, columns;          /* of a stage */
    int x_rows;                         /* of an image's halo tile */
    int x_pitch, x_plane;               /* elements of a row of it, and of a channel of a stage */
    int dy_pitch, dy_plane;             /* the same of dy */
    int stages, each;                   /* in all, and of a share */
    int64_t shares, tiles;
    size_t shared;
};

template <typename T> struct weights_problem {
    weights_plan plan;
    const T *x, *dy;
    T *sums;
    int N, C, OC, H, W, OH, OW, KH, KW, top, left, stride_h, stride_w, dilation_h, dilation_w;
    int IC, group_oc;      /* of a group */
    bool rows_apart;       /* the rows of each window by themselves, not once for all windows */
    bool x_vec, dy_vec;    /* copied as vectors */
    int x_shift, dy_shift; /* of the threads that copy a channel together, the binary logarithm */
    divisor<uint32_t> tiles, ic_tiles, oc_tiles, taps_w, taps_h; /* tile of dw */
    divisor<uint32_t> column_tiles, row_tiles;                   /* stage */
    divisor<uint32_t> by_x_line, by_dy_line, by_x_rows, by_rows, by_threads_ic, by_threads_oc;
};

/// Outputs of a row that a thread takes at a time, and the output channels of its own.
constexpr int WEIGHTS_RUN = 4;
/// Blocks of a multiprocessor, as many as its registers allow.
constexpr int WEIGHTS_BLOCKS = 2;
__host__ __device__ constexpr int weights_channels(int taps, int64_t size)
{
    return (taps == 5 ? 8 : 16) / (int)size;
}
/// A thread's place for its sums in shared memory: odd, so that a warp's are in different banks.
__host__ __device__ constexpr int sums_pitch(int taps, int64_t size)
{
    return (weights_channels(taps, size) * taps * taps) | 1;
}

/// A stage's place in dy; its first column in x, and what that is off a vector where columns are
/// copied as such.
struct weights_stage {
    int n, oh, ow, images, rows, columns, left, off;
};

template <typename T>
static __device__ weights_stage stage_of(const weights_problem<T> &p, uint32_t stage, int first_kw)
{
    const uint32_t row = p.column_tiles.quotient(stage), image = p.row_tiles.quotient(row);
    weights_stage s;
    s.n = (int)image * p.plan.images;
    s.oh = (int)(row - image * p.row_tiles.by) * p.plan.rows;
    s.ow = (int)(stage - row * p.column_tiles.by) * p.plan.columns;
    s.images = min(p.plan.images, p.N - s.n);
    s.rows = min(p.plan.rows, p.OH - s.oh);
    s.columns = min(p.plan.columns, p.OW - s.ow);
    s.left = s.ow * p.stride_w - p.left + first_kw * p.dilation_w;
    s.off = p.x_vec ? s.left & (int)(VECTOR_BYTES / sizeof(T) - 1) : 0;
    return s;
}

/* To every part-th channel: `bytes` each, or zeros. */
template <int BYTES, typename T>
static __device__ __forceinline__ void copy_channels(T *to, int to_step, const T *from,
                                                     int64_t from_step, bool inside, int part,
                                                     int parts, int channels)
{
    to += part * to_step, from += part * from_step;
#pragma unroll 4
    for (int c = part; c < channels; c += parts) {
        __pipeline_memcpy_async(to, from, BYTES, inside ? 0 : BYTES);
        to += parts * to_step, from += parts * from_step;
    }
}

/* Begins to copy the halo tile of x, whose first column is `left` in x, of so many channels from
 * `x` on. */
template <int TAPS, int STEP, typename T>
static __device__ void begin_halo_tile(const weights_problem<T> &p, const weights_stage &s,
                                       const T *x, int channels, int top, int left, T *to)
{
    constexpr int V = VECTOR_BYTES / sizeof(T);
    const weights_plan &plan = p.plan;
    const int part = (int)threadIdx.x >> p.x_shift, parts = BLOCK >> p.x_shift;
    const int rows =
        p.rows_apart ? s.rows * TAPS : (s.rows - 1) * p.stride_h + (TAPS - 1) * p.dilation_h + 1;
    const int count = (s.images - 1) * plan.x_rows + rows, line = (int)p.by_x_line.by;
    const int64_t plane = (int64_t)p.H * p.W;
    for (int i = (int)threadIdx.x - (part << p.x_shift); i < count * line; i += 1 << p.x_shift) {
        const int row = (int)p.by_x_line.quotient((uint32_t)i), column = i - row * line;
        const int image = (int)p.by_x_rows.quotient((uint32_t)row), r = row - image * plan.x_rows;
        const int h = top + (p.rows_apart ? r / TAPS * p.stride_h + r % TAPS * p.dilation_h : r);
        const int at = p.x_vec ? column * V : column;
        const int w =
            left + (STEP == TAPS ? at / TAPS * p.stride_w + at % TAPS * p.dilation_w : at);
        const bool inside = (unsigned)h < (unsigned)p.H && (unsigned)w < (unsigned)p.W;
        const T *from = inside ? x + image * (p.C * plane) + (h * p.W + w) : p.x;
        T *const target = to + row * plan.x_pitch + at;
        const int64_t step = inside ? plane : 0;
        if (p.x_vec)
            copy_channels<VECTOR_BYTES>(target, plan.x_plane, from, step, inside, part, parts,
                                        channels);
        else
            copy_channels<sizeof(T)>(target, plan.x_plane, from, step, inside, part, parts,
                                     channels);
    }
}

/* Begins to copy the stage of dy, of so many channels from `dy` on. */
template <typename T>
static __device__ void begin_outputs(const weights_problem<T> &p, const weights_stage &s,
                                     const T *dy, int channels, T *to)
{
    constexpr int V = VECTOR_BYTES / sizeof(T);
    const int part = (int)threadIdx.x >> p.dy_shift, parts = BLOCK >> p.dy_shift;
    const int count = s.images * s.rows, line = (int)p.by_dy_line.by;
    const int64_t plane = (int64_t)p.OH * p.OW;
    for (int i = (int)threadIdx.x - (part << p.dy_shift); i < count * line; i += 1 << p.dy_shift) {
        const int row = (int)p.by_dy_line.quotient((uint32_t)i), column = i - row * line;
        const int image = (int)p.by_rows.quotient((uint32_t)row);
        const int oh = s.oh + row - image * p.plan.rows, at = p.dy_vec ? column * V : column;
        if (at >= s.columns)
            continue;
        const T *from = dy + image * (p.OC * plane) + (oh * p.OW + s.ow + at);
        T *const target = to + row * p.plan.dy_pitch + at;
        if (p.dy_vec)
            copy_channels<VECTOR_BYTES>(target, p.plan.dy_plane, from, plane, true, part, parts,
                                        channels);
        else
            copy_channels<sizeof(T)>(target, p.plan.dy_plane, from, plane, true, part, parts,
                                     channels);
    }
}

/* The products of RUN neighbouring outputs. x and dy are the thread's, in shared memory. */
template <int TAPS, int STEP, int RUN, int CHANNELS, typename T>
static __device__ __forceinline__ void add_products(T (&sums)[CHANNELS][TAPS][TAPS], const T *x,
                                                    int tap_rows, const T *dy, int channel)
{
    constexpr int V = RUN * sizeof(T) < VECTOR_BYTES ? RUN : VECTOR_BYTES / sizeof(T);
    T outputs[CHANNELS][RUN];
#pragma unroll
    for (int k = 0; k < CHANNELS; k++)
#pragma unroll
        for (int i = 0; i < RUN; i += V) {
            const vec<T, V> some = *(const vec<T, V> *)(dy + k * channel + i);
#pragma unroll
            for (int v = 0; v < V; v++)
                outputs[k][i + v] = some.of[v];
        }
#pragma unroll
    for (int kh = 0; kh < TAPS; kh++) {
        T window[(RUN - 1) * STEP + TAPS];
#pragma unroll
        for (int i = 0; i < (RUN - 1) * STEP + TAPS; i++)
            window[i] = x[kh * tap_rows + i];
#pragma unroll
        for (int i = 0; i < RUN; i++)
#pragma unroll
            for (int kw = 0; kw < TAPS; kw++)
#pragma unroll
                for (int k = 0; k < CHANNELS; k++)
                    sums[k][kh][kw] += outputs[k][i] * window[i * STEP + kw];
    }
}

template <typename T, int TAPS, int STEP>
static __global__ void __launch_bounds__(BLOCK, WEIGHTS_BLOCKS)
    sum_stages(const __grid_constant__ weights_problem<T> p)
{
    constexpr int CHANNELS = weights_channels(TAPS, sizeof(T)),
                  SUMS_PITCH = sums_pitch(TAPS, sizeof(T));
    extern __shared__ __align__(16) char weights_shared[];
    const weights_plan &plan = p.plan;
    const int split_threads = plan.threads_ic * plan.threads_oc,
              of_block = plan.threads_oc * CHANNELS;
    const int split = (int)threadIdx.x / split_threads,
              thread = (int)threadIdx.x - split * split_threads;
    const int own_oc = thread / plan.threads_ic, own_ic = thread - own_oc * plan.threads_ic;

    const uint32_t share = p.tiles.quotient(blockIdx.x);
    uint32_t tile = blockIdx.x - share * p.tiles.by;
    const auto digit = [&](const divisor<uint32_t> &d) {
        const uint32_t whole = tile, rest = d.quotient(whole);
        tile = rest;
        return (int)(whole - rest * d.by);
    };
    const int first_ic = digit(p.ic_tiles) * plan.threads_ic,
              first_oc = digit(p.oc_tiles) * of_block;
    const int first_kw = digit(p.taps_w) * TAPS, first_kh = digit(p.taps_h) * TAPS;
    const int64_t g = tile;
    const int ics = min(plan.threads_ic, p.IC - first_ic),
              ocs = min(of_block, p.group_oc - first_oc);

    const uint32_t first = share * (uint32_t)plan.each;
    const uint32_t end = min(first + (uint32_t)plan.each, (uint32_t)plan.stages);
    const int x_elements = plan.x_plane * plan.threads_ic;
    const int stage_elements = x_elements + plan.dy_plane * of_block;
    T *const stages = (T *)weights_shared;
    const auto begin = [&](const weights_stage &s, T *to) {
        begin_halo_tile<TAPS, STEP>(
            p, s, p.x + (s.n * (int64_t)p.C + g * p.IC + first_ic) * ((int64_t)p.H * p.W), ics,
            s.oh * p.stride_h - p.top + first_kh * p.dilation_h, s.left - s.off, to);
        begin_outputs(
            p, s, p.dy + (s.n * (int64_t)p.OC + g * p.group_oc + first_oc) * ((int64_t)p.OH * p.OW),
            ocs, to + x_elements);
        __pipeline_commit();
    };

    const int window_rows = (p.rows_apart ? TAPS : p.stride_h) * plan.x_pitch;
    const int tap_rows = (p.rows_apart ? 1 : p.dilation_h) * plan.x_pitch;
    T sums[CHANNELS][TAPS][TAPS] = {};
    weights_stage next = {};
    for (uint32_t index = first;; index++) {
        __pipeline_wait_prior(0);
        __syncthreads(); /* the stage before this one is there, and the one before that is done with
                          */
        const weights_stage s = next;
        const T *const now = stages + (index + 1 - first) % 2 * stage_elements;
        if (index < end) {
            next = stage_of(p, index, first_kw);
            begin(next, stages + (index - first) % 2 * stage_elements);
        }
        const T *const xs = now + own_ic * plan.x_plane + s.off;
        const T *const dys = now + x_elements + own_oc * plan.dy_plane;
        for (int row = split < plan.splits ? split : INT_MAX; row < s.images * s.rows;
             row += plan.splits) {
            const int image = (int)p.by_rows.quotient((uint32_t)row);
            const T *x =
                xs + image * plan.x_rows * plan.x_pitch + (row - image * plan.rows) * window_rows;
            const T *dy = dys + row * plan.dy_pitch;
            int rest = s.columns;
#pragma unroll 2
            for (; rest >= WEIGHTS_RUN; rest -= WEIGHTS_RUN) {
                add_products<TAPS, STEP, WEIGHTS_RUN>(sums, x, tap_rows, dy,
                                                      plan.threads_oc * plan.dy_plane);
                x += WEIGHTS_RUN * STEP, dy += WEIGHTS_RUN;
            }
#pragma unroll 1
            for (; rest > 0; rest--) {
                add_products<TAPS, STEP, 1>(sums, x, tap_rows, dy, plan.threads_oc * plan.dy_plane);
                x += STEP, dy++;
            }
        }
        if (index == end)
            break;
    }

    __syncthreads(); /* the last stage is done with: the sums take its place */
    if (split < plan.splits) {
        T *const target = stages + (int)threadIdx.x * SUMS_PITCH;
#pragma unroll
        for (int k = 0; k < CHANNELS; k++)
#pragma unroll
            for (int kh = 0; kh < TAPS; kh++)
#pragma unroll
                for (int kw = 0; kw < TAPS; kw++)
                    target[(k * TAPS + kh) * TAPS + kw] = sums[k][kh][kw];
    }
    __syncthreads();
    for (int i = (int)threadIdx.x; i < split_threads * SUMS_PITCH; i += BLOCK) {
        T sum = stages[i];
#pragma unroll 4
        for (int k = 1; k < plan.splits; k++)
            sum += stages[k * split_threads * SUMS_PITCH + i];
        stages[i] = sum;
    }
    __syncthreads();
    const int window = p.KH * p.KW;
    T *const out = p.sums + (int64_t)share * (p.OC * (int64_t)p.IC * window) +
                   ((g * p.group_oc + first_oc) * p.IC + first_ic) * window +
                   (first_kh * p.KW + first_kw);
    for (int e = (int)threadIdx.x; e < of_block * plan.threads_ic * TAPS * TAPS; e += BLOCK) {
        const int pair = e / (TAPS * TAPS), tap = e % (TAPS * TAPS);
        const int oc = (int)p.by_threads_ic.quotient((uint32_t)pair),
                  ic = pair - oc * plan.threads_ic;
        const int k = (int)p.by_threads_oc.quotient((uint32_t)oc);
        const int kh = tap / TAPS, kw = tap % TAPS;
        if (oc < ocs && ic < ics && kh < p.KH - first_kh && kw < p.KW - first_kw)
            out[(oc * p.IC + ic) * window + kh * p.KW + kw] =
                stages[((oc - k * plan.threads_oc) * plan.threads_ic + ic) * SUMS_PITCH +
                       k * TAPS * TAPS + tap];
    }
}

// ---- The plan -----------------------------------------------------------------------------------

/* Extents above this, whose sums might not fit an int, are the general form's. */
constexpr int64_t WEIGHTS_MAX = 1 << 24;
/* What every GPU of compute capability 8.0 or more has for a block, and an H100 for two. */
constexpr int64_t WEIGHTS_SHARED = 96 << 10;
constexpr int WEIGHTS_THREADS_IC = 8; /* whose words of x are in banks of their own, as their planes
                                       are an odd number of vectors */

/* Without strides and dilations that never count; false where the extents are not the kernel's. */
static bool weights_normal(talc_conv2d_problem &p)
{
    p.stride_h = p.OH == 1 ? 1 : p.stride_h, p.stride_w = p.OW == 1 ? 1 : p.stride_w;
    p.dilation_h = p.KH == 1 ? 1 : p.dilation_h, p.dilation_w = p.KW == 1 ? 1 : p.dilation_w;
    const int64_t extents[] = { p.N, p.C, p.OC, p.H, p.W, p.OH, p.OW };
    for (int64_t extent : extents)
        if (extent < 1 || extent > WEIGHTS_MAX)
            return false;
    const int64_t others[] = { p.KH,         p.KW,      p.stride_h, p.stride_w,   p.dilation_h,
                               p.dilation_w, p.pad_top, p.pad_left, p.pad_bottom, p.pad_right };
    for (int64_t other : others)
        if (other > WEIGHTS_MAX)
            return false;
    /* Offsets in a plane, and in a tile of dw. */
    return p.H * p.W <= INT_MAX / 4 && p.OH * p.OW <= INT_MAX / 4 && p.KH * p.KW <= INT_MAX / 4 &&
           p.C / p.groups * (p.KH * p.KW) <= INT_MAX / 256;
}

/* The binary logarithm of the threads that copy one of `channels` channels, of `entries` elements
 * or vectors. */
static int weights_copiers(int64_t entries, int64_t channels)
{
    int shift = 8;
    while (shift > 5 && 1 << (shift - 1) >= entries && BLOCK >> shift < channels)
        shift--;
    return shift;
}

/* Stages of so many columns and about so many rows; false where they are too large. */
static bool weights_cut(const talc_conv2d_problem *p, int64_t columns, int64_t rows,
                        weights_plan &plan)
{
    const int64_t size = (int64_t)talc_dtype_size(p->dtype), V = VECTOR_BYTES / size;
    columns = talc_even(p->OW, columns);
    if (columns < p->OW) /* so that all begin with a vector if the first does */
        columns = talc_ceil_div(columns, WEIGHTS_RUN) * WEIGHTS_RUN;
    plan.columns = (int)columns;
    plan.rows = (int)talc_even(p->OH, rows);
    plan.images = plan.rows < p->OH ? 1 : (int)talc_even(p->N, rows / plan.rows);
    const int64_t x_rows = talc_smaller(
        plan.rows * plan.taps, (plan.rows - 1) * p->stride_h + (plan.taps - 1) * p->dilation_h + 1);
    const int64_t span = (columns - 1) * plan.step + plan.taps;
    const int64_t x_pitch = talc_ceil_div(span + V - 1, V) * V;
    const int64_t dy_pitch = talc_ceil_div(columns, V) * V;
    const int64_t x_plane = (plan.images * x_rows * x_pitch / V | 1) * V;
    const int64_t dy_plane = (plan.images * plan.rows * dy_pitch / V | 1) * V;
    const int64_t stage = size * (x_plane * plan.threads_ic +
                                  dy_plane * plan.threads_oc * weights_channels(plan.taps, size));
    const int64_t stages = talc_ceil_div(p->N, plan.images) * talc_ceil_div(p->OH, plan.rows) *
                           talc_ceil_div(p->OW, columns);
    if (stage > WEIGHTS_SHARED || stages > INT_MAX / 2)
        return false;
    plan.x_rows = (int)x_rows, plan.x_pitch = (int)x_pitch, plan.x_plane = (int)x_plane;
    plan.dy_pitch = (int)dy_pitch, plan.dy_plane = (int)dy_plane;
    plan.stages = (int)stages, plan.shared = (size_t)stage;
    return true;
}

/* Of so many shares at most. False where the stages of a block do not fit shared memory, or the
 * blocks a grid. */
static bool weights_share(const talc_conv2d_problem *p, int64_t shares, weights_plan &plan)
{
    const int64_t size = (int64_t)talc_dtype_size(p->dtype);
    plan.each = (int)talc_ceil_div(plan.stages, talc_larger(shares, 1));
    plan.shares = talc_ceil_div(plan.stages, plan.each);
    const int64_t sums_bytes = BLOCK * sums_pitch(plan.taps, size) * size;
    const int64_t stages = (int64_t)plan.shared * (plan.each > 1 ? 2 : 1);
    plan.shared = (size_t)talc_larger(sums_bytes, stages);
    return stages <= WEIGHTS_SHARED && plan.shares <= INT_MAX / 2 / plan.tiles;
}

/* A thread's instructions for a stage, counted in the code of the loops: copies, then products. */
static double weights_instructions(const talc_conv2d_problem *p, const weights_plan &plan)
{
    constexpr double RUN = WEIGHTS_RUN, LINE = 45, COPY = 12, ROW = 25, STAGE = 200;
    const double size = (double)talc_dtype_size(p->dtype), V = VECTOR_BYTES / size;
    const double channels = weights_channels(plan.taps, (int64_t)size);
    const double taps = plan.taps, fma = size / 4; /* f64 at half the rate */
    const bool as_x = p->dilation_w == 1 && p->stride_w == plan.step;
    const double x_vector = as_x && p->W % (int64_t)V == 0 ? V : 1;
    const double dy_vector = p->OW % (int64_t)V == 0 ? V : 1;
    const double rows = (double)plan.images * plan.rows;
    const double x = (double)plan.images * plan.x_rows * plan.x_pitch / x_vector;
    const double dy = rows * plan.columns / dy_vector;
    const double copies = x + dy, each = x * plan.threads_ic + dy * plan.threads_oc * channels;
    const double runs = plan.columns / WEIGHTS_RUN, rest = plan.columns % WEIGHTS_RUN;
    const double x_loads = taps * ((RUN - 1) * plan.step + taps), dy_loads = channels * RUN / V;
    const double issued = taps * taps * channels * RUN * fma + x_loads + dy_loads + 6;
    /* Shared memory serves a word of each thread, or a quarter of a vector, in the time of 3
     * instructions. */
    const double loaded = 3 * (x_loads * size / 4 + dy_loads * 4);
    const double run = issued > loaded ? issued : loaded;
    const double one = taps * taps * (channels * fma + 1) + channels + 10;
    return STAGE + (copies * LINE + each * COPY) / BLOCK +
           ceil(rows / plan.splits) * (ROW + runs * run + rest * one);
}

/* What blocks wait for before their first stage is there and to end, then instructions at the rate
 * of so many blocks, or copies at theirs, and launches. */
static double weights_seconds(const talc_device *device, const talc_conv2d_problem *p,
                              const weights_plan &plan)
{
    static const double rates[WEIGHTS_BLOCKS] = { 2.2, 3.2 }; /* a cycle */
    constexpr double CLOCK = 1.7e9, WAIT = 2500, COPIED = 30, ADDED = 1.5e12;
    constexpr int64_t SHARED = 220 << 10; /* bytes of a multiprocessor */
    const double size = (double)talc_dtype_size(p->dtype);
    const double blocks = (double)talc_ceil_div(plan.shares * plan.tiles,
                                                talc_cuda_state_of(device)->multiprocessors);
    const int resident = blocks < 2 || 2 * (int64_t)plan.shared > SHARED ? 1 : WEIGHTS_BLOCKS;
    const double sums = weights_channels(plan.taps, (int64_t)size) * plan.taps * plan.taps;
    const double bytes = size * ((double)plan.x_plane * plan.threads_ic +
                                 (double)plan.dy_plane * plan.threads_oc *
                                     weights_channels(plan.taps, (int64_t)size));
    const double products = weights_instructions(p, plan) * (BLOCK / WARP) / rates[resident - 1];
    const double loads = bytes / COPIED, stage = products > loads ? products : loads;
    const double end = (sums * 5 + sums / plan.splits * 60) * (BLOCK / WARP) / rates[resident - 1];
    const double cycles = ceil(blocks / resident) * (WAIT + resident * loads) +
                          blocks * ((plan.each - 1) * stage + products + end);
    const double dw = (double)p->OC * (double)(p->C / p->groups) * (double)(p->KH * p->KW) * size;
    const double adding = plan.shares > 1 ? TALC_CUDA_LAUNCH + dw * (double)plan.shares / ADDED : 0;
    return TALC_CUDA_LAUNCH + cycles / CLOCK + adding;
}

/* Kernels' strides of columns: those of x, or TAPS, where the halo tile has the windows side by
 * side. */
static int weights_step(const talc_conv2d_problem *p, int taps)
{
    return p->dilation_w == 1 && (p->stride_w == 1 || (p->stride_w == 2 && taps == 3))
               ? (int)p->stride_w
               : taps;
}

/// The best plan and how long it takes; INFINITY, and taps 0, where there is none.
static double weights_plan_of(const talc_device *device, const talc_conv2d_problem *given,
                              size_t limit, weights_plan &best)
{
    best = {};
    talc_conv2d_problem p = *given;
    if (!weights_normal(p))
        return INFINITY;
    const int64_t size = (int64_t)talc_dtype_size(p.dtype), IC = p.C / p.groups,
                  OC = p.OC / p.groups;
    const double dw = (double)(OC * p.groups) * (double)IC * (double)(p.KH * p.KW * size);
    const int64_t fit = (double)limit / dw < 2 ? 1 : (int64_t)((double)limit / dw);
    const int64_t multiprocessors = talc_cuda_state_of(device)->multiprocessors;
    double smallest = INFINITY;
    for (int taps = 1; taps <= 5; taps += 2) {
        if (taps - 2 >= talc_larger(p.KH, p.KW))
            break;
        weights_plan plan = {};
        plan.taps = taps, plan.step = weights_step(&p, taps);
        const int64_t oc_threads = talc_ceil_div(OC, weights_channels(taps, size));
        plan.threads_ic = (int)talc_even(IC, WEIGHTS_THREADS_IC);
        plan.threads_oc = (int)talc_even(oc_threads, WARP / plan.threads_ic);
        plan.splits = BLOCK / (plan.threads_ic * plan.threads_oc);
        const double tiles = (double)p.groups * (double)talc_ceil_div(IC, plan.threads_ic) *
                             (double)talc_ceil_div(oc_threads, plan.threads_oc) *
                             (double)talc_ceil_div(p.KH, taps) * (double)talc_ceil_div(p.KW, taps);
        if (tiles > INT_MAX / 2)
            continue;
        plan.tiles = (int64_t)tiles;
        for (int columns = 16; columns <= 32; columns *= 2) {
            bool fits = false;
            /* Fewer rows than splits only where more are too large. */
            for (int rows = 4 * plan.splits; rows > 0 && (rows >= plan.splits || !fits); rows /= 2)
                for (int each = 1; each <= WEIGHTS_BLOCKS; each++) {
                    weights_plan of = plan;
                    const int64_t shares = talc_smaller(each * multiprocessors / plan.tiles, fit);
                    if (!weights_cut(&p, columns, rows, of) || !weights_share(&p, shares, of))
                        continue;
                    fits = true;
                    const double seconds = weights_seconds(device, &p, of);
                    if (seconds < smallest)
                        smallest = seconds, best = of;
                }
        }
    }
    return smallest;
}

static const char *plan_weights(const talc_device *device, const talc_conv2d_problem *p,
                                size_t limit, talc_plan *plan)
{
    weights_plan own;
    if (p->direction == TALC_GRAD_INPUT)
        return "it has no input gradient";
    plan->seconds = weights_plan_of(device, p, limit, own);
    if (!(plan->seconds < INFINITY))
        return "no stage fits shared memory";
    if (own.shares > 1) /* their sums */
        plan->workspace = (size_t)(own.shares * p->OC * (p->C / p->groups) * p->KH * p->KW) *
                          talc_dtype_size(p->dtype);
    talc_plan_store(plan, &own, sizeof own);
    return NULL;
}

// ---- The run ------------------------------------------------------------------------------------

template <typename T> static auto weights_kernel(const weights_plan &plan)
{
    return plan.taps == 1   ? &sum_stages<T, 1, 1>
           : plan.taps == 5 ? plan.step == 1 ? &sum_stages<T, 5, 1> : &sum_stages<T, 5, 5>
           : plan.step == 1 ? &sum_stages<T, 3, 1>
           : plan.step == 2 ? &sum_stages<T, 3, 2>
                            : &sum_stages<T, 3, 3>;
}

template <typename T>
static weights_problem<T> weights_problem_of(const talc_conv2d_problem *given,
                                             const weights_plan &plan,
                                             const talc_conv2d_arguments *a)
{
    constexpr int64_t V = VECTOR_BYTES / sizeof(T);
    talc_conv2d_problem p = *given;
    (void)weights_normal(p);
    weights_problem<T> s = {};
    s.plan = plan;
    s.x = (const T *)a->x, s.dy = (const T *)a->dy;
    s.sums = (T *)(plan.shares > 1 ? a->base.workspace : a->dw);
    s.N = (int)p.N, s.C = (int)p.C, s.OC = (int)p.OC, s.KH = (int)p.KH, s.KW = (int)p.KW;
    s.H = (int)p.H, s.W = (int)p.W, s.OH = (int)p.OH, s.OW = (int)p.OW;
    s.top = (int)p.pad_top, s.left = (int)p.pad_left;
    s.stride_h = (int)p.stride_h, s.stride_w = (int)p.stride_w;
    s.dilation_h = (int)p.dilation_h, s.dilation_w = (int)p.dilation_w;
    s.IC = (int)(p.C / p.groups), s.group_oc = (int)(p.OC / p.groups);
    const int64_t of_block = (int64_t)plan.threads_oc * weights_channels(plan.taps, sizeof(T));
    s.rows_apart = plan.x_rows == plan.rows * plan.taps;
    const bool as_x = p.dilation_w == 1 && p.stride_w == plan.step;
    s.x_vec = as_x && p.W % V == 0 && is_aligned(a->x);
    s.dy_vec = p.OW % V == 0 && is_aligned(a->dy);
    const int64_t x_line = s.x_vec ? plan.x_pitch / V : (plan.columns - 1) * plan.step + plan.taps;
    const int64_t dy_line = s.dy_vec ? plan.dy_pitch / V : plan.columns;
    s.x_shift = weights_copiers(x_line * plan.x_rows * plan.images, plan.threads_ic);
    s.dy_shift = weights_copiers(dy_line * plan.rows * plan.images, of_block);
    s.tiles.set(plan.tiles);
    s.ic_tiles.set(talc_ceil_div(s.IC, plan.threads_ic));
    s.oc_tiles.set(talc_ceil_div(s.group_oc, of_block));
    s.taps_w.set(talc_ceil_div(p.KW, plan.taps)), s.taps_h.set(talc_ceil_div(p.KH, plan.taps));
    s.column_tiles.set(talc_ceil_div(p.OW, plan.columns));
    s.row_tiles.set(talc_ceil_div(p.OH, plan.rows));
    s.by_x_line.set(x_line), s.by_dy_line.set(dy_line);
    s.by_x_rows.set(plan.x_rows), s.by_rows.set(plan.rows);
    s.by_threads_ic.set(plan.threads_ic), s.by_threads_oc.set(plan.threads_oc);
    return s;
}

template <typename T>
static talc_status weights_run(talc_device *device, const talc_conv2d_problem *p,
                               const weights_plan &plan, const talc_conv2d_arguments *a)
{
    const auto kernel = weights_kernel<T>(plan);
    const cudaError_t error = allow_shared(kernel, WEIGHTS_SHARED);
    if (error != cudaSuccess)
        return talc_cuda_not_launched(device, "conv2d.grad_weight", error);
    kernel<<<(unsigned)(plan.tiles * plan.shares), BLOCK, plan.shared, talc_cuda_stream(device)>>>(
        weights_problem_of<T>(p, plan, a));
    const talc_status status = talc_cuda_launched(device, "conv2d.grad_weight");
    return status != TALC_OK || plan.shares == 1
               ? status
               : talc_cuda_conv2d_add_shares(device, p, a, plan.shares);
}

} // namespace talc

#endif
