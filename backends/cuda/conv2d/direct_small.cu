/// Direct convolution of small images. Tiles of the other forms would be mostly empty there, and a
/// launch costs as much as the work. So this form has one launch and no workspace.
///
/// The input gradient is the same kernel, with the weights read in rotated order. At a stride it
/// falls into phases (phases.cuh). Each phase has blocks of its own, so no zeros are multiplied.
///
///     a thread    CHANNELS output channels at COLUMNS neighbouring columns of a row: a unit
///     a warp      32 units: rows of an image, or of several
///     a block     8 warps: groups of output channels, times groups of units, times splits of the
///                 input channels
///
/// Input channels pass through shared memory in stages. A stage has the halo tiles under the
/// block's units, and the weights as [channel][row][column][output channel]. For each row of the
/// kernel a thread loads its window of the halo tile once, and slides along it: with three taps, 9
/// loads of 16 bytes feed 192 FFMA. At the end the splits put their sums into shared memory, where
/// they are added in order.
#include "backends/cuda/conv2d/direct_small.h"

#include "backends/cuda/primitives/epilogue.cuh"
#include "backends/cuda/conv2d/form.cuh"
#include "backends/cuda/conv2d/phases.cuh"
#include "backends/cuda/conv2d/window_sum.cuh"
#include "backends/cuda/device/estimate.h"
#include "ops/window.h"

#include <cuda_pipeline_primitives.h>

#include <cmath>

using namespace talc;

constexpr int CHANNELS = 8, WARPS = BLOCK / WARP, PHASES = 16;
/* Of a block, so that two of them fit a multiprocessor. */
constexpr int64_t SHARED_BYTES = 110 << 10;
constexpr int64_t MAX = 1 << 24;

template <typename T> constexpr int V = VECTOR_BYTES / sizeof(T);
template <typename T> constexpr int COLUMNS = 2 * V<T>;
/* At stride 2 a row of a halo tile has a gap of HOLE elements after the columns from one unit to
 * the next. Without it the vectors of neighbouring lanes would be 64 bytes apart, and their loads
 * would have bank conflicts. */
template <typename T, int STEP> constexpr int HOLE = STEP == 2 ? V<T> : 0;
/* Columns of a halo tile that a unit reads, rounded up to whole vectors. */
template <typename T, int TAPS, int STEP>
constexpr int WINDOW = ((COLUMNS<T> - 1) * STEP + TAPS + V<T> - 1) / V<T> *V<T>;

/// The outputs first + stride * q along each axis, of which there are `count`. Tap j of output q
/// reads the input at q * step - before + j * dilation.
struct small_phase {
    int count_h, count_w, taps_h, taps_w, before_h, before_w;
    int tap, tap_h, tap_w; ///< offset in w of the first tap, and strides of its rows and columns
    int out;               ///< offset of the first output in its plane
    divisor<uint32_t> by_taps_h;
};

struct small_shape {
    int N, groups, IC, OC, H, W, plane; ///< plane: elements of a plane of the output
    int step_h, step_w, dilation_h, dilation_w, out_row, out_column;
    int64_t w_out, w_in; ///< elements of w from channel to channel
    talc_padding_mode mode;
    bool only_inside; ///< sums leave out products with padding (ops/conv2d.h)
    int phase_count, count_h, count_w, taps_h, taps_w; ///< the maxima over the phases
    small_phase phases[PHASES];
};

using small_tiles = talc_cuda_small_tiles;

template <typename T> struct small_problem {
    small_shape s;
    small_tiles t;
    const T *x, *w;
    T *y;
    epilogue<T> last{ nullptr, nullptr, TALC_ACTIVATION_NONE };
    divisor<uint32_t> channel_tiles{}, row_tiles{}, image_tiles{}, by_groups{}, by_row_units{},
        by_rows{}, by_pitch{}, by_halo_tile_rows{};
};

/* Elements from the weights of one tap to the next in shared memory. A vector of padding avoids
 * bank conflicts when they are written. */
template <typename T> static __host__ __device__ int weights_pitch(int channels)
{
    return channels + V<T>;
}

// ---- The kernel ---------------------------------------------------------------------------------

/* A block's first output channel, row and image, with its group and phase. */
struct block_origin {
    int channel, row, image, group, phase;
};

/* A unit's position in its block. A thread that has no unit gets an image past the block's last. */
struct unit_origin {
    int image, row, column;
};

template <typename T>
static __device__ __forceinline__ unit_origin unit_of(const small_problem<T> &p, int unit)
{
    const int line = (int)p.by_row_units.quotient((uint32_t)unit);
    const int image = (int)p.by_rows.quotient((uint32_t)line);
    return { image, line - image * p.t.rows, (unit - line * (int)p.by_row_units.by) * COLUMNS<T> };
}

/* Begins to copy the weights of `count` input channels from `first` on. Taps that a phase lacks are
 * not written, and nothing reads them. */
template <typename T, int TAPS>
static __device__ __forceinline__ void load_weights(const small_problem<T> &p,
                                                    const block_origin &at, int first, int count,
                                                    T *to)
{
    const small_shape &s = p.s;
    const small_phase &f = s.phases[at.phase];
    const int channels = p.t.channel_groups * CHANNELS, pitch = weights_pitch<T>(channels);
    const int oc = (int)threadIdx.x % channels;
    const bool exists = at.channel + oc < s.OC;
    const T *w = p.w + (int64_t)at.group * s.OC * s.IC * (s.w_in < s.w_out ? s.w_in : s.w_out) +
                 (at.channel + oc) * s.w_out + first * s.w_in + f.tap;
    for (int row = (int)threadIdx.x / channels; row < count * f.taps_h; row += BLOCK / channels) {
        const int c = (int)f.by_taps_h.quotient((uint32_t)row), kh = row - c * f.taps_h;
        const T *from = w + c * s.w_in + kh * f.tap_h;
#pragma unroll
        for (int kw = 0; kw < TAPS; kw++, from += f.tap_w)
            if (kw < f.taps_w)
                begin_copy<sizeof(T)>(&to[(row * TAPS + kw) * pitch + oc], exists ? from : p.w,
                                      exists ? (int)sizeof(T) : 0);
    }
}

/* Begins to copy the halo tiles of `count` input channels from `first` on. Padding becomes
 * zeros. */
template <typename T, int STEP>
static __device__ __forceinline__ void load_halo_tiles(const small_problem<T> &p,
                                                       const block_origin &at, int first, int count,
                                                       T *to)
{
    const small_shape &s = p.s;
    const small_tiles &t = p.t;
    const small_phase &f = s.phases[at.phase];
    /* The last coordinates that an output reads. Those behind them may be farther outside than
     * padding reaches, where talc_window_source has no answer. */
    const int last_h = (f.count_h - 1) * s.step_h + (f.taps_h - 1) * s.dilation_h,
              last_w = (f.count_w - 1) * s.step_w + (f.taps_w - 1) * s.dilation_w;
    constexpr int APART = COLUMNS<T> * STEP, GAP = HOLE<T, STEP>;
    const int plane = s.H * s.W;
    const int64_t an_image = (int64_t)s.groups * s.IC * plane;
    const T *const x = p.x + at.image * an_image + ((int64_t)at.group * s.IC + first) * plane;
    for (int e = (int)threadIdx.x; e < t.halo_tile; e += BLOCK) {
        const int line = (int)p.by_pitch.quotient((uint32_t)e), offset = e - line * t.pitch;
        const int gaps = offset / (APART + GAP), column = offset - gaps * GAP;
        if (GAP > 0 && column >= (gaps + 1) * APART)
            continue;
        const int image = (int)p.by_halo_tile_rows.quotient((uint32_t)line);
        const int row = at.row * s.step_h + line - image * t.halo_tile_rows;
        int h = -1, w = -1;
        if (row <= last_h && column <= last_w && at.image + image < s.N) {
            h = (int)talc_window_source(s.mode, row - f.before_h, s.H);
            w = (int)talc_window_source(s.mode, column - f.before_w, s.W);
        }
        T *into = to + e;
        if (h < 0 || w < 0) {
            for (int c = 0; c < count; c++, into += t.halo_tile)
                *into = 0;
            continue;
        }
        const T *from = x + image * an_image + (h * s.W + w);
#pragma unroll 8
        for (int c = 0; c < count; c++, into += t.halo_tile, from += plane)
            __pipeline_memcpy_async(into, from, sizeof(T));
    }
}

/* Applies the epilogue to a unit's sums of one channel, and stores the `columns` of them that
 * exist. */
template <typename T>
static __device__ __forceinline__ void finish(const small_problem<T> &p,
                                              vec<accumulator_of<T>, COLUMNS<T>> &sum, int channel,
                                              int64_t at, int columns)
{
    const int apart = p.s.out_column;
    const accumulator_of<T> bias = p.last.bias == nullptr ? (T)0 : p.last.bias[channel];
#pragma unroll
    for (int j = 0; j < COLUMNS<T>; j++) {
        sum.of[j] += bias;
        if (p.last.residual != nullptr && j < columns)
            sum.of[j] += p.last.residual[at + j * apart];
    }
    activate_all(p.last.activation, sum.of);
    T *const y = p.y + at;
    if (columns == COLUMNS<T> && apart == 1 && (uintptr_t)y % VECTOR_BYTES == 0) {
#pragma unroll
        for (int j = 0; j < COLUMNS<T>; j += V<T>) {
            vec<T, V<T>> some;
#pragma unroll
            for (int v = 0; v < V<T>; v++)
                some.of[v] = (T)sum.of[j + v];
            *(vec<T, V<T>> *)(y + j) = some;
        }
    } else {
#pragma unroll
        for (int j = 0; j < COLUMNS<T>; j++)
            if (j < columns)
                y[j * apart] = (T)sum.of[j];
    }
}

/* Recomputes the NaN among a unit's results of one channel without products with padding. These
 * results have no epilogue. */
template <typename T>
static __device__ __forceinline__ void recompute_nans(const small_problem<T> &p,
                                                      const block_origin &at,
                                                      const unit_origin &unit, int channel, T *y,
                                                      int columns)
{
    const small_shape &s = p.s;
    const small_phase &f = s.phases[at.phase];
    const int64_t plane = (int64_t)s.H * s.W;
    const T *const x =
        p.x + ((int64_t)(at.image + unit.image) * s.groups + at.group) * s.IC * plane;
    const T *const w = p.w +
                       (int64_t)at.group * s.OC * s.IC * (s.w_in < s.w_out ? s.w_in : s.w_out) +
                       channel * s.w_out + f.tap;
#pragma unroll 1
    for (int j = 0; j < columns; j++, y += s.out_column)
        if (*y != *y)
            *y = (T)sum_of_window<T>(
                { x, w, s.IC, plane, s.w_in, s.H, s.W, (at.row + unit.row) * s.step_h - f.before_h,
                  (unit.column + j) * s.step_w - f.before_w, f.taps_h, f.taps_w, s.dilation_h,
                  s.dilation_w, f.tap_h, f.tap_w, true });
}

template <typename T, int TAPS, int STEP>
static __global__ void __launch_bounds__(BLOCK, 2)
    small_kernel(const __grid_constant__ small_problem<T> p)
{
    using sum_type = accumulator_of<T>;
    constexpr int WIDTH = COLUMNS<T>,
                  WARP_WIDTH = WARP * WIDTH; /* columns of a unit, and of a warp's units */
    constexpr int APART = WIDTH * STEP, GAP = HOLE<T, STEP>;
    extern __shared__ __align__(16) unsigned char shared[];
    const small_shape &s = p.s;
    const small_tiles &t = p.t;
    const int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP;
    const int groups = t.channel_groups * t.unit_groups;
    const int split = warp / groups, warp_channel = warp % t.channel_groups * CHANNELS;
    const int unit_group = warp % groups / t.channel_groups;
    const uint32_t row_tile = p.channel_tiles.quotient(blockIdx.x),
                   image_tile = p.row_tiles.quotient(row_tile),
                   group = p.image_tiles.quotient(image_tile), phase = p.by_groups.quotient(group);
    const block_origin at = { (int)(blockIdx.x - row_tile * p.channel_tiles.by) * t.channel_groups *
                                  CHANNELS,
                              (int)(row_tile - image_tile * p.row_tiles.by) * t.rows,
                              (int)(image_tile - group * p.image_tiles.by) * t.images,
                              (int)(group - phase * p.by_groups.by), (int)phase };
    const small_phase &f = s.phases[phase];
    T *const halo_tiles = (T *)shared, *const weights = halo_tiles + t.stage_channels * t.halo_tile;
    const int pitch = weights_pitch<T>(t.channel_groups * CHANNELS);
    const unit_origin unit = unit_of(p, unit_group * WARP + lane);
    const int window_offset =
        unit.image < t.images ? (unit.image * t.halo_tile_rows + unit.row * s.step_h) * t.pitch +
                                    unit.column / WIDTH * (APART + GAP)
                              : 0;

    sum_type sums[CHANNELS][WIDTH] = {};
    for (int first = 0; f.taps_h * f.taps_w > 0 && first < s.IC; first += t.stage_channels) {
        const int count = min(t.stage_channels, s.IC - first);
        __syncthreads();
        load_weights<T, TAPS>(p, at, first, count, weights);
        load_halo_tiles<T, STEP>(p, at, first, count, halo_tiles);
        __pipeline_commit();
        __pipeline_wait_prior(0);
        __syncthreads();
        for (int c = split; c < count; c += t.splits) {
            const T *x = halo_tiles + c * t.halo_tile + window_offset;
            const T *w = weights + c * f.taps_h * TAPS * pitch + warp_channel;
#pragma unroll 1
            for (int kh = 0; kh < f.taps_h; kh++, x += s.dilation_h * t.pitch) {
                sum_type window[WINDOW<T, TAPS, STEP>];
#pragma unroll
                for (int i = 0; i < WINDOW<T, TAPS, STEP>; i += V<T>) {
                    const vec<T, V<T>> some = *(const vec<T, V<T>> *)(x + i + i / APART * GAP);
#pragma unroll
                    for (int v = 0; v < V<T>; v++)
                        window[i + v] = some.of[v];
                }
#pragma unroll
                for (int kw = 0; kw < TAPS; kw++, w += pitch) {
                    if (kw >=
                        f.taps_w) /* no weights were written beyond, and what is there may be NaN */
                        continue;
#pragma unroll
                    for (int k = 0; k < CHANNELS; k += V<T>) {
                        const vec<T, V<T>> some = *(const vec<T, V<T>> *)(w + k);
#pragma unroll
                        for (int v = 0; v < V<T>; v++)
#pragma unroll
                            for (int j = 0; j < WIDTH; j++)
                                sums[k + v][j] += window[j * STEP + kw] * (sum_type)some.of[v];
                    }
                }
            }
        }
    }

    /* [split][group of channels and units][channel][vector of a unit][unit] */
    sum_type *const split_sums = (sum_type *)shared;
    __syncthreads();
#pragma unroll
    for (int c = 0; c < CHANNELS; c++)
#pragma unroll
        for (int j = 0; j < WIDTH; j += V<T>) {
            vec<sum_type, V<T>> some;
#pragma unroll
            for (int v = 0; v < V<T>; v++)
                some.of[v] = sums[c][j + v];
            *(vec<sum_type, V<T>> *)(split_sums + (warp * CHANNELS + c) * WARP_WIDTH + j * WARP +
                                     lane * V<T>) = some;
        }
    __syncthreads();
    /* Each split adds up some of the channels of every unit. */
    const int columns = min(WIDTH, f.count_w - unit.column);
    if (unit.image >= t.images || at.image + unit.image >= s.N || at.row + unit.row >= f.count_h ||
        columns <= 0)
        return;
    const int channels_of_split = CHANNELS / t.splits;
    const int64_t offset = (at.image + unit.image) * (int64_t)s.groups * s.OC * s.plane + f.out +
                           (at.row + unit.row) * s.out_row + unit.column * s.out_column;
    for (int c = split * channels_of_split;
         c < (split + 1) * channels_of_split && at.channel + warp_channel + c < s.OC; c++) {
        vec<sum_type, WIDTH> sum = {};
        const sum_type *split_sum =
            split_sums + (warp % groups * CHANNELS + c) * WARP_WIDTH + lane * V<T>;
        for (int other = 0; other < t.splits; other++, split_sum += groups * CHANNELS * WARP_WIDTH)
#pragma unroll
            for (int j = 0; j < WIDTH; j += V<T>) {
                const vec<sum_type, V<T>> some =
                    *(const vec<sum_type, V<T>> *)(split_sum + j * WARP);
#pragma unroll
                for (int v = 0; v < V<T>; v++)
                    sum.of[j + v] += some.of[v];
            }
        const int oc = at.group * s.OC + at.channel + warp_channel + c;
        const int64_t to = offset + (int64_t)oc * s.plane;
        sum_type not_finite = 0;
#pragma unroll
        for (int j = 0; j < WIDTH; j++)
            not_finite += sum.of[j] * 0;
        finish(p, sum, oc, to, columns);
        if (s.only_inside && not_finite != 0)
            recompute_nans(p, at, unit, at.channel + warp_channel + c, p.y + to, columns);
    }
}

// ---- The plan -----------------------------------------------------------------------------------

static void add_phase(small_shape &s, const phase_axis_taps<int64_t> &h,
                      const phase_axis_taps<int64_t> &w, int KW, int out, bool rotated)
{
    small_phase &f = s.phases[s.phase_count++];
    f.count_h = (int)h.count, f.count_w = (int)w.count;
    f.taps_h = (int)h.taps, f.taps_w = (int)w.taps;
    f.before_h = (int)h.before, f.before_w = (int)w.before;
    const int last_h = rotated ? (int)(h.taps - 1) : 0, last_w = rotated ? (int)(w.taps - 1) : 0;
    const int sign = rotated ? -1 : 1;
    f.tap = ((int)h.tap + last_h * (int)h.apart) * KW + (int)w.tap + last_w * (int)w.apart;
    f.tap_h = sign * (int)h.apart * KW, f.tap_w = sign * (int)w.apart;
    f.out = out;
    f.by_taps_h.set(f.taps_h > 0 ? f.taps_h : 1);
    s.count_h = s.count_h > f.count_h ? s.count_h : f.count_h;
    s.count_w = s.count_w > f.count_w ? s.count_w : f.count_w;
    s.taps_h = s.taps_h > f.taps_h ? s.taps_h : f.taps_h;
    s.taps_w = s.taps_w > f.taps_w ? s.taps_w : f.taps_w;
}

/* Returns false where an extent is too large for 32-bit arithmetic, or there are too many taps or
 * phases. */
static bool small_shape_of(const talc_conv2d_problem *p, small_shape &s)
{
    const bool input = p->direction == TALC_GRAD_INPUT;
    const int64_t extents[] = {
        p->N,        p->C,          p->OC,         p->H * p->W,           p->OH * p->OW,
        p->stride_h, p->stride_w,   p->KH * p->KW, p->KH * p->dilation_h, p->KW * p->dilation_w,
        p->pad_top,  p->pad_bottom, p->pad_left,   p->pad_right
    };
    for (int64_t extent : extents)
        if (extent > MAX)
            return false;
    const int64_t outputs = input ? p->C * p->H * p->W : p->OC * p->OH * p->OW;
    if (p->direction == TALC_GRAD_WEIGHT || outputs > INT_MAX / 256 || p->N == 0 ||
        (input && p->stride_h * p->stride_w > PHASES))
        return false;
    s = {};
    const int64_t IC = p->C / p->groups, OC = p->OC / p->groups, taps = p->KH * p->KW;
    s.N = (int)p->N, s.groups = (int)p->groups;
    s.mode = p->padding_mode;
    s.only_inside = input || p->only_inside;
    if (!input) {
        s.IC = (int)IC, s.OC = (int)OC, s.H = (int)p->H, s.W = (int)p->W;
        s.plane = (int)(p->OH * p->OW), s.out_row = (int)p->OW, s.out_column = 1;
        s.step_h = (int)p->stride_h, s.step_w = (int)p->stride_w;
        s.dilation_h = (int)p->dilation_h, s.dilation_w = (int)p->dilation_w;
        s.w_out = IC * taps, s.w_in = taps;
        add_phase(s, { p->OH, 0, p->KH, 1, p->dilation_h, p->pad_top },
                  { p->OW, 0, p->KW, 1, p->dilation_w, p->pad_left }, (int)p->KW, 0, false);
        return true;
    }
    s.IC = (int)OC, s.OC = (int)IC, s.H = (int)p->OH, s.W = (int)p->OW;
    s.plane = (int)(p->H * p->W);
    s.out_row = (int)(p->stride_h * p->W), s.out_column = (int)p->stride_w;
    s.step_h = s.step_w = 1;
    s.w_out = taps, s.w_in = IC * taps;
    for (int64_t i = 0; i < p->stride_h; i++)
        for (int64_t j = 0; j < p->stride_w; j++) {
            const phase_axis_taps<int64_t> h = phase_axis_taps_of(p->H, p->KH, p->stride_h,
                                                                  p->dilation_h, p->pad_top, i),
                                           w = phase_axis_taps_of(p->W, p->KW, p->stride_w,
                                                                  p->dilation_w, p->pad_left, j);
            s.dilation_h = (int)h.dilation, s.dilation_w = (int)w.dilation;
            if (h.count * w.count > 0)
                add_phase(s, h, w, (int)p->KW, (int)(i * p->W + j), true);
        }
    return true;
}

/* Calls `use` with the kernel that is compiled for these taps per row, or for the next larger
 * number, and with its number of taps. Returns false where there is no such kernel. */
template <typename T, typename Use> static bool with_kernel(const small_shape &s, Use use)
{
    if (s.step_w == 1 && s.taps_w <= 1)
        return use(&small_kernel<T, 1, 1>, 1);
    if (s.dilation_w != 1 && s.taps_w > 1)
        return false;
    if (s.step_w == 2)
        return s.taps_w <= 1   ? use(&small_kernel<T, 1, 2>, 1)
               : s.taps_w <= 3 ? use(&small_kernel<T, 3, 2>, 3)
                               : false;
    if (s.step_w != 1)
        return false;
    return s.taps_w == 2   ? use(&small_kernel<T, 2, 1>, 2)
           : s.taps_w == 3 ? use(&small_kernel<T, 3, 1>, 3)
           : s.taps_w <= 5 ? use(&small_kernel<T, 5, 1>, 5)
                           : false;
}

/* Completes tiles whose groups of channels, groups of units and splits are given. Returns false
 * where they do not fit shared memory. */
template <typename T>
static bool complete(const small_shape &s, int taps_w, int64_t max_shared, small_tiles &t)
{
    const int64_t row_units = talc_ceil_div(s.count_w, COLUMNS<T>), max = WARP * t.unit_groups;
    if (row_units > max)
        return false;
    t.rows = (int)talc_even(s.count_h, max / row_units);
    t.images = t.rows < s.count_h ? 1 : (int)talc_even(s.N, max / (t.rows * row_units));
    /* At least one tap, as all phases of an input gradient may be without any. */
    const int64_t taps_h = talc_larger(s.taps_h, 1);
    const int64_t down = (int64_t)(t.rows - 1) * s.step_h + (taps_h - 1) * s.dilation_h + 1;
    const int64_t columns = (row_units * COLUMNS<T> - 1) * s.step_w + taps_w;
    const int64_t across =
        columns + (columns - 1) / (COLUMNS<T> * s.step_w) * (s.step_w == 2 ? HOLE<T, 2> : 0);
    if (down > MAX || across > MAX || down * across * t.images > MAX)
        return false;
    /* An odd number of vectors from row to row: neighbouring lanes read neighbouring rows, and so
     * have no bank conflicts. */
    const int64_t vectors = talc_ceil_div(across, V<T>);
    t.halo_tile_rows = (int)down, t.pitch = (int)(vectors + 1 - vectors % 2) * V<T>;
    t.halo_tile = t.halo_tile_rows * t.pitch * t.images;
    const int64_t size = (int64_t)sizeof(T);
    const int64_t sums_bytes =
        (int64_t)WARPS * CHANNELS * WARP * COLUMNS<T> * (int64_t)sizeof(accumulator_of<T>);
    const int64_t channel_bytes =
        (t.halo_tile + taps_h * taps_w * weights_pitch<T>(t.channel_groups * CHANNELS)) * size;
    int64_t stage_channels = talc_smaller(s.IC, max_shared / channel_bytes);
    if (stage_channels < s.IC) {
        stage_channels = stage_channels / t.splits * t.splits;
        stage_channels = stage_channels > 0
                             ? talc_ceil_div(talc_even(s.IC, stage_channels), t.splits) * t.splits
                             : 0;
    }
    t.stage_channels = (int)stage_channels;
    t.shared = (size_t)talc_larger(stage_channels * channel_bytes, sums_bytes);
    t.blocks = s.phase_count * s.groups * talc_ceil_div(s.N, t.images) *
               talc_ceil_div(s.count_h, t.rows) * talc_ceil_div(s.OC, t.channel_groups * CHANNELS);
    return stage_channels >= 1 && t.shared <= (size_t)max_shared && t.blocks <= INT_MAX;
}

/* The constants were measured on an H200. A multiprocessor issues about 3 warp instructions a clock
 * cycle. A block waits for 6000 cycles, and for 1000 more in each stage. */
template <typename T>
static double seconds_of(const talc_device *device, const small_shape &s, int taps_w,
                         const small_tiles &t)
{
    constexpr double CLOCK = 1.7e9, RATE = 3;
    const double blocks_per_sm = (double)t.blocks / talc_cuda_state_of(device)->multiprocessors;
    const double waves = ceil(blocks_per_sm / 2);
    /* In a single wave, the blocks of the phase with the most taps end last. */
    double rows = waves > 1 ? 0 : s.taps_h;
    for (int i = 0; i < s.phase_count && waves > 1; i++)
        rows += (double)s.phases[i].taps_h / s.phase_count;
    const double fma = sizeof(T) == 4 ? 1 : 2;
    const double row = (COLUMNS<T> * s.step_w + taps_w) / (double)V<T> + 8 +
                       taps_w * (CHANNELS / V<T> + 1 + CHANNELS * COLUMNS<T> * fma);
    const double halo_tile =
        s.step_w == 2 ? t.halo_tile * 0.8 : t.halo_tile; /* without the holes */
    const double loads =
        (double)s.IC * (halo_tile * 5 + rows * taps_w * t.channel_groups * CHANNELS * 13) / BLOCK +
        halo_tile / BLOCK * 60;
    const double results = 400 + CHANNELS * COLUMNS<T> * 1.5;
    const double instructions =
        (double)talc_ceil_div(s.IC, t.splits) * rows * row + loads + results;
    const double stages = (double)talc_ceil_div(s.IC, t.stage_channels);
    const double resident = blocks_per_sm < 1 ? 1 : blocks_per_sm < 2 ? blocks_per_sm : 2;
    return TALC_CUDA_LAUNCH +
           waves * (6000 + 1000 * stages + resident * instructions * WARPS / RATE) / CLOCK;
}

/* Finds the tiles of the least estimate. Returns that estimate, or INFINITY where there are no
 * tiles. */
template <typename T>
static double choose(const talc_device *device, const small_shape &s, small_tiles &best)
{
    double smallest = INFINITY;
    with_kernel<T>(s, [&](auto, int taps_w) {
        for (int channels = 1; channels <= WARPS; channels *= 2)
            for (int units = 1; units <= WARPS / channels; units *= 2) {
                small_tiles t = {};
                t.channel_groups = channels, t.unit_groups = units;
                t.splits = WARPS / channels / units;
                if ((channels > 1 && channels / 2 * CHANNELS >= s.OC) ||
                    !complete<T>(s, taps_w, shared_up_to(device, SHARED_BYTES), t))
                    continue;
                const double seconds = seconds_of<T>(device, s, taps_w, t);
                if (seconds < smallest)
                    smallest = seconds, best = t;
            }
        return true;
    });
    return smallest;
}

template <typename T>
static const char *plan_small(const talc_device *device, const talc_conv2d_problem *p,
                              talc_plan *plan)
{
    small_shape s;
    small_tiles tiles;
    plan->seconds = small_shape_of(p, s) ? choose<T>(device, s, tiles) : INFINITY;
    if (!(plan->seconds < INFINITY))
        return "the problem has no tiles of whole images";
    talc_plan_store(plan, &tiles, sizeof tiles);
    return NULL;
}

template <typename T>
static talc_status launch(talc_device *device, const talc_conv2d_problem *p,
                          const small_tiles &tiles, const talc_conv2d_arguments *a)
{
    const bool input = p->direction == TALC_GRAD_INPUT;
    small_problem<T> q;
    (void)small_shape_of(p, q.s);
    q.t = tiles;
    q.x = (const T *)(input ? a->dy : a->x), q.w = (const T *)a->w;
    q.y = (T *)(input ? a->dx : a->y);
    if (!input)
        q.last = epilogue<T>(a->bias, a->residual, p->activation);
    q.channel_tiles.set(talc_ceil_div(q.s.OC, tiles.channel_groups * CHANNELS));
    q.row_tiles.set(talc_ceil_div(q.s.count_h, tiles.rows));
    q.image_tiles.set(talc_ceil_div(q.s.N, tiles.images)), q.by_groups.set(q.s.groups);
    q.by_row_units.set(talc_ceil_div(q.s.count_w, COLUMNS<T>)), q.by_rows.set(tiles.rows);
    q.by_pitch.set(tiles.pitch), q.by_halo_tile_rows.set(tiles.halo_tile_rows);
    cudaError_t error = cudaErrorInvalidValue;
    with_kernel<T>(q.s, [&](auto kernel, int) {
        error = allow_shared(kernel, shared_up_to(device, SHARED_BYTES));
        if (error == cudaSuccess)
            kernel<<<(unsigned)tiles.blocks, BLOCK, tiles.shared, talc_cuda_stream(device)>>>(q);
        return true;
    });
    return error != cudaSuccess ? talc_cuda_not_launched(device, "conv2d", error)
                                : talc_cuda_launched(device, "conv2d");
}

TALC_CUDA_FORM(direct_small, plan_small<T>(device, p, plan),
               launch<T>(device, p, own_plan<small_tiles>(plan), a))
TALC_CUDA_FORM(direct_small_gradient,
               p->direction == TALC_GRAD_WEIGHT ? "it has no weight gradient"
                                                : plan_small<T>(device, p, plan),
               launch<T>(device, p, own_plan<small_tiles>(plan), a))
