/// Direct convolution by tiles in shared memory. Private to backends/cuda.
///
/// `tiled` is bound by the rate of FMA. A block computes a tile of output channels x rows x
/// columns. It loops over the input channels, some a step: patches of the image, with their halo,
/// and weights are in shared memory, while those of the next step are being copied (double
/// buffering):
///
///     a thread    2 V channels x 8 columns of one row: 64 sums in registers for f32, 32 for f64
///                 (V elements are 16 bytes)
///     a warp      8 threads down the channels x 4 across: 16 V channels x 32 columns
///     a block     8 warps: 4 rows, and 32 V channels x 32 columns or 16 V channels x 64 columns
///
/// For one row of the kernel a thread reads its 8 + KW - 1 columns of the patch once and slides
/// along them, tap by tap: with KW = 7, 18 reads of 16 bytes feed 448 FMAs. The number of taps in a
/// row is a constant of the kernel, the number of rows is not: it is the bound of a loop whose body
/// is long already. Padding in every mode, strides down, dilation and groups only decide which
/// element of x is copied to which element of the patch; a dilated kernel's tile has every
/// dilation_w-th column of y. A kernel of its own first packs the weights in the order of the
/// tiles.
#ifndef TALC_BACKENDS_CUDA_CONV2D_DIRECT_TILED_CUH
#define TALC_BACKENDS_CUDA_CONV2D_DIRECT_TILED_CUH

#include "backends/cuda/primitives/epilogue.cuh"
#include "backends/cuda/conv2d/plane_sizes.cuh"
#include "backends/cuda/conv2d/window_sum.cuh"

#include <cuda_pipeline_primitives.h>

namespace talc
{

constexpr int WARPS = 8, THREADS = 32 * WARPS, ROWS = 4;
constexpr int ACROSS = 4, COLUMNS = 8; /* threads of a warp, and columns of a thread */

/* Blocks of a multiprocessor: as many as its registers have room for. */
template <typename T> constexpr int OCCUPANCY = sizeof(accumulator_of<T>) == 4 ? 2 : 1;

template <typename T> using vector = vec<T, VECTOR_BYTES / sizeof(T)>;

/* The shape of a tile: WIDE ones have half the channels and twice the columns. */
template <typename T, int KW, int STRIDE, bool WIDE> struct tile {
    static constexpr int V = VECTOR_BYTES / sizeof(T);
    static constexpr int PER_THREAD = 2 * V, PER_WARP = 8 * PER_THREAD;
    static constexpr int CHANNELS = WIDE ? PER_WARP : 2 * PER_WARP;
    static constexpr int WIDTH = ACROSS * COLUMNS * (WIDE ? 2 : 1);
    static constexpr int WINDOW = ((COLUMNS - 1) * STRIDE + KW + V - 1) / V * V;
    static constexpr int PITCH = (WIDTH - COLUMNS) * STRIDE + WINDOW;
    static_assert(COLUMNS * STRIDE % V == 0 && PITCH % V == 0, "windows begin at 16 bytes");
};

struct tiled_plan {
    int channels, width; /* of a tile */
    int step;            /* input channels at a time */
    int patch;           /* elements of one input channel's */
    int weights;         /* elements of one input channel */
    int64_t steps, channel_tiles, row_tiles, column_tiles, tiles;
    size_t shared, packed; /* bytes */
};

template <typename T> struct tiled_problem : plane_sizes {
    const T *x, *w; ///< w in the order of tiles
    T *y;
    epilogue<T> last;
    int64_t planes, C, OC; ///< planes: C / groups
    int group_channels;    ///< OC / groups
    int KH, stride_h, dilation_h, dilation_w;
    int64_t groups;
    talc_padding_mode mode;
    tiled_plan plan;
    const T *unpacked; ///< w as it is, where sums multiply no padding (ops/conv2d.h); else NULL
};

/* Where a block's tile begins. Its columns are dilation_w apart. */
struct tile_place {
    int64_t n, group;
    int channel, row, column;
};

template <typename T, typename Tile>
static __device__ tile_place place_of(const tiled_problem<T> &p, int64_t tile)
{
    const tiled_plan &plan = p.plan;
    tile_place place;
    int64_t rest = tile / plan.channel_tiles;
    place.channel = (int)(tile - rest * plan.channel_tiles) * Tile::CHANNELS;
    tile = rest, rest = tile / plan.column_tiles;
    const int across = (int)(tile - rest * plan.column_tiles);
    place.column = across / p.dilation_w * p.dilation_w * Tile::WIDTH + across % p.dilation_w;
    tile = rest, rest = tile / plan.row_tiles;
    place.row = (int)(tile - rest * plan.row_tiles) * ROWS;
    place.n = rest / p.groups;
    place.group = rest - place.n * p.groups;
    return place;
}

/* The offsets in a plane of x of a patch's elements; -1: zero. */
template <typename T, int KW, int STRIDE, typename Tile>
static __device__ void find_sources(const tiled_problem<T> &p, const tile_place &place,
                                    int *sources)
{
    for (int i = (int)threadIdx.x; i < p.plan.patch; i += THREADS) {
        const int row = i / Tile::PITCH, column = i - row * Tile::PITCH;
        const int64_t ih = (int64_t)place.row * p.stride_h - p.pad_top + row;
        const int64_t iw =
            (int64_t)place.column * STRIDE - p.pad_left + (int64_t)column * p.dilation_w;
        /* No output needs what is farther, and padding need not reach there. */
        const int64_t last_h =
            (int64_t)(p.OH - 1) * p.stride_h - p.pad_top + (int64_t)(p.KH - 1) * p.dilation_h;
        const int64_t last_w =
            (int64_t)(p.OW - 1) * STRIDE - p.pad_left + (int64_t)(KW - 1) * p.dilation_w;
        const int64_t h = ih > last_h ? -1 : talc_window_source(p.mode, ih, p.H);
        const int64_t w = iw > last_w ? -1 : talc_window_source(p.mode, iw, p.W);
        sources[i] = h < 0 || w < 0 ? -1 : (int)(h * p.W + w);
    }
}

/* Begins the copies of a step, from its first input channel on: weights, which are contiguous
 * already, and patches. */
template <typename T>
static __device__ void begin_step(const tiled_problem<T> &p, const T *x, const T *w, int64_t first,
                                  const int *sources, T *to)
{
    const tiled_plan &plan = p.plan;
    const int vectors = plan.step * plan.weights / (int)(VECTOR_BYTES / sizeof(T));
    w += first * plan.weights;
    for (int i = (int)threadIdx.x; i < vectors; i += THREADS)
        __pipeline_memcpy_async((vector<T> *)to + i, (const vector<T> *)w + i, 16);
    to += plan.step * plan.weights;
    for (int c = 0; c < plan.step; c++, to += plan.patch) {
        const bool exists = first + c < p.planes;
        const T *plane = exists ? x + (first + c) * ((int64_t)p.H * p.W) : x;
        for (int i = (int)threadIdx.x; i < plan.patch; i += THREADS) {
            const int source = sources[i];
            const bool zero = !exists || source < 0;
            __pipeline_memcpy_async(to + i, plane + (zero ? 0 : source), sizeof(T),
                                    zero ? sizeof(T) : 0);
        }
    }
    __pipeline_commit();
}

/* One row of the kernel, one input channel: from 16-byte boundaries of the patch and of the
 * weights. */
template <typename T, int KW, int STRIDE, typename Tile>
static __device__ __forceinline__ void add_row(accumulator_of<T> (&sums)[Tile::PER_THREAD][COLUMNS],
                                               const T *x, const T *w)
{
    constexpr int V = Tile::V;
    accumulator_of<T> window[Tile::WINDOW];
#pragma unroll
    for (int i = 0; i < Tile::WINDOW; i += V) {
        const vector<T> some = *(const vector<T> *)(x + i);
#pragma unroll
        for (int k = 0; k < V; k++)
            window[i + k] = some.of[k];
    }
#pragma unroll
    for (int kw = 0; kw < KW; kw++) {
        const vector<T> low = *(const vector<T> *)(w + kw * Tile::CHANNELS);
        const vector<T> high = *(const vector<T> *)(w + kw * Tile::CHANNELS + Tile::PER_WARP / 2);
#pragma unroll
        for (int i = 0; i < Tile::PER_THREAD; i++)
#pragma unroll
            for (int j = 0; j < COLUMNS; j++)
                sums[i][j] +=
                    window[j * STRIDE + kw] * (accumulator_of<T>)(i < V ? low : high).of[i % V];
    }
}

/* `count` of a thread's columns, `apart` elements from each other: as wide as they are aligned. */
template <typename T>
static __device__ __forceinline__ void store_columns(T *y, const accumulator_of<T> (&sums)[COLUMNS],
                                                     int count, int64_t apart)
{
    struct alignas(2 * sizeof(T)) pair {
        T of[2];
    };
    if (count == COLUMNS && apart == 1 && (uintptr_t)y % sizeof(pair) == 0) {
#pragma unroll
        for (int j = 0; j < COLUMNS; j += 2)
            *(pair *)(y + j) = { { (T)sums[j], (T)sums[j + 1] } };
    } else {
#pragma unroll
        for (int j = 0; j < COLUMNS; j++)
            if (j < count)
                y[j * apart] = (T)sums[j];
    }
}

/* Of the results that a thread has written, which have no last step, those that are NaN again,
 * without products with padding. */
template <typename T, int KW, int STRIDE, typename Tile>
static __device__ __forceinline__ void sum_again(const tiled_problem<T> &p, const tile_place &place,
                                                 int channel, int row, int column)
{
    const int apart = p.dilation_w, oh = place.row + row;
    const int64_t plane = (int64_t)p.H * p.W, K = p.planes * p.KH * KW;
#pragma unroll 1
    for (int e = 0; e < Tile::PER_THREAD * COLUMNS; e++) {
        const int i = e / COLUMNS, ow = place.column + (column + e % COLUMNS) * apart;
        const int oc = place.channel + channel + i % Tile::V + i / Tile::V * (Tile::PER_WARP / 2);
        if (oc >= p.group_channels || oh >= p.OH || ow >= p.OW)
            continue;
        const int64_t own = place.group * p.group_channels + oc;
        T *const y = p.y + ((place.n * p.OC + own) * p.OH + oh) * p.OW + ow;
        if (*y != *y)
            *y = (T)sum_of_window<T>(
                { p.x + (place.n * p.C + place.group * p.planes) * plane, p.unpacked + own * K,
                  (int)p.planes, plane, (int64_t)p.KH * KW, p.H, p.W, oh * p.stride_h - p.pad_top,
                  ow * STRIDE - p.pad_left, p.KH, KW, p.dilation_h, p.dilation_w, KW, 1, true });
    }
}

/* The last step. A thread's channels are `channel` .. and V more from half a warp's channels later
 * on. */
template <typename T, typename Tile>
static __device__ __forceinline__ void finish(const tiled_problem<T> &p, const tile_place &place,
                                              accumulator_of<T> (&sums)[Tile::PER_THREAD][COLUMNS],
                                              int channel, int row, int column)
{
    const int apart = p.dilation_w;
    const int oh = place.row + row, ow = place.column + column * apart;
    if (oh >= p.OH || ow >= p.OW)
        return;
    const int room = (p.OW - ow + apart - 1) / apart, count = room < COLUMNS ? room : COLUMNS;
    const int64_t plane = (int64_t)p.OH * p.OW;
    channel += place.channel;
    const int64_t group = place.group * p.group_channels;
    const int64_t begin = (place.n * p.OC + group) * plane + (int64_t)oh * p.OW + ow;
#pragma unroll
    for (int i = 0; i < Tile::PER_THREAD; i++) {
        const int oc = channel + i % Tile::V + i / Tile::V * (Tile::PER_WARP / 2);
        if (oc >= p.group_channels)
            continue;
        const T bias = p.last.bias == nullptr ? (T)0 : p.last.bias[group + oc];
        const int64_t at = begin + oc * plane;
#pragma unroll
        for (int j = 0; j < COLUMNS; j++) {
            sums[i][j] += bias;
            if (p.last.residual != nullptr && j < count)
                sums[i][j] += p.last.residual[at + j * apart];
        }
        activate_all(p.last.activation, sums[i]);
        store_columns(p.y + at, sums[i], count, apart);
    }
}

extern __shared__ __align__(16) unsigned char tiled_shared[];

template <typename T, int KW, int STRIDE, bool WIDE>
static __global__ void __launch_bounds__(THREADS, OCCUPANCY<T>) tiled(const tiled_problem<T> p)
{
    using Tile = tile<T, KW, STRIDE, WIDE>;
    const tiled_plan &plan = p.plan;
    const int stage = plan.step * (plan.weights + plan.patch);
    T *stages = (T *)tiled_shared;
    int *sources = (int *)(stages + 2 * stage);

    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int row = warp % ROWS;
    const int channel = (WIDE ? 0 : warp / ROWS * Tile::PER_WARP) + lane / ACROSS * Tile::V;
    const int column = (WIDE ? warp / ROWS * ACROSS * COLUMNS : 0) + lane % ACROSS * COLUMNS;
    const int x_at = plan.step * plan.weights + row * p.stride_h * Tile::PITCH + column * STRIDE;

    for (int64_t tile = blockIdx.x; tile < plan.tiles; tile += gridDim.x) {
        const tile_place place = place_of<T, Tile>(p, tile);
        const T *x = p.x + (place.n * p.C + place.group * p.planes) * ((int64_t)p.H * p.W);
        const T *w = p.w + (place.group * plan.channel_tiles + place.channel / Tile::CHANNELS) *
                               (plan.steps * plan.step * plan.weights);
        accumulator_of<T> sums[Tile::PER_THREAD][COLUMNS];
#pragma unroll
        for (int i = 0; i < Tile::PER_THREAD; i++)
#pragma unroll
            for (int j = 0; j < COLUMNS; j++)
                sums[i][j] = 0;

        __syncthreads(); /* the previous tile's last step and sources are done with */
        find_sources<T, KW, STRIDE, Tile>(p, place, sources);
        __syncthreads();
        begin_step(p, x, w, 0, sources, stages);
        for (int64_t step = 0; step < plan.steps; step++) {
            const T *now = stages + (step % 2) * stage;
            __pipeline_wait_prior(0);
            __syncthreads();
            if (step + 1 < plan.steps)
                begin_step(p, x, w, (step + 1) * plan.step, sources,
                           stages + ((step + 1) % 2) * stage);
            const T *weights = now + channel;
            for (int c = 0; c < plan.step; c++) {
                const T *rows = now + x_at + c * plan.patch;
#pragma unroll 1
                for (int kh = 0; kh < p.KH; kh++) {
                    add_row<T, KW, STRIDE, Tile>(sums, rows, weights);
                    rows += p.dilation_h * Tile::PITCH;
                    weights += KW * Tile::CHANNELS;
                }
            }
        }
        accumulator_of<T> not_finite = 0;
#pragma unroll
        for (int i = 0; i < Tile::PER_THREAD * COLUMNS; i++)
            not_finite += sums[i / COLUMNS][i % COLUMNS] * 0;
        finish<T, Tile>(p, place, sums, channel, row, column);
        if (p.unpacked != nullptr && not_finite != 0)
            sum_again<T, KW, STRIDE, Tile>(p, place, channel, row, column);
    }
}

/* w [OC, IC, taps] in the order of tiles: [groups, tiles, IC up to whole steps, taps, channels],
 * zeros where there is no such weight. */
template <typename T, typename Index>
static __global__ void __launch_bounds__(BLOCK)
    pack_weights(T *packed, const T *w, const divisor<Index> channels, const divisor<Index> taps,
                 const divisor<Index> planes, const divisor<Index> tiles, int64_t IC, int64_t OC,
                 Index count)
{
    TALC_GRID_LOOP(Index, i, count)
    {
        const Index tap_at = channels.quotient(i), ic_at = taps.quotient(tap_at);
        const Index tile_at = planes.quotient(ic_at), g = tiles.quotient(tile_at);
        const int64_t tap = (int64_t)(tap_at - ic_at * taps.by);
        const int64_t ic = (int64_t)(ic_at - tile_at * planes.by);
        const int64_t oc =
            (int64_t)((tile_at - g * tiles.by) * channels.by) + (int64_t)(i - tap_at * channels.by);
        packed[i] =
            ic < IC && oc < OC ? w[(((int64_t)g * OC + oc) * IC + ic) * taps.by + tap] : (T)0;
    }
}

} // namespace talc

#endif
