/// Direct convolution of small images. Tiles of the other forms would be mostly empty there, and a
/// launch costs as much as the work. So this form has one launch and no workspace.
///
/// The input gradient is the same kernel, with the weights read in rotated order. At a stride it
/// falls into phases (phases.h). Each phase has blocks of its own, so no zeros are multiplied.
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
#include "backends/cuda/primitives/witness.h"
#include "backends/cuda/conv2d/form.cuh"
#include "backends/cuda/conv2d/window_sum.cuh"
#include "backends/cuda/device/estimate.h"
#include "ops/window.h"

#include <cuda_pipeline_primitives.h>

#include <cmath>

using namespace talc;

constexpr int CHANNELS = TALC_SMALL_CHANNELS, COLUMNS = TALC_SMALL_COLUMNS,
              WARPS = TALC_SMALL_WARPS, V = TALC_SMALL_VECTOR;
static_assert(WARPS == BLOCK / WARP && V * sizeof(float) == VECTOR_BYTES, "direct_small.h");

/* Columns of a halo tile that a unit reads, rounded up to whole vectors. */
template <int TAPS, int STEP> constexpr int WINDOW = ((COLUMNS - 1) * STEP + TAPS + V - 1) / V *V;

struct small_problem : talc_small_layout {
    const float *x, *w;
    float *y;
    epilogue<float> last{ nullptr, nullptr, TALC_ACTIVATION_NONE };
};

// ---- The kernel ---------------------------------------------------------------------------------

/* Begins to copy the weights of `count` input channels from `first` on. Taps that a phase lacks are
 * not written, and nothing reads them. */
template <int TAPS>
static __device__ __forceinline__ void load_weights(const small_problem &p,
                                                    const talc_small_block &at, int first,
                                                    int count, float *to)
{
    const talc_small_shape &s = p.s;
    const talc_small_phase &f = s.phases[at.phase];
    const int channels = p.t.channel_groups * CHANNELS, pitch = talc_small_weights_pitch(channels);
    const int oc = (int)threadIdx.x % channels;
    const bool exists = at.channel + oc < s.OC;
    const float *w = p.w + (int64_t)at.group * s.OC * s.IC * (s.w_in < s.w_out ? s.w_in : s.w_out) +
                     (at.channel + oc) * s.w_out + first * s.w_in + f.tap;
    for (int row = (int)threadIdx.x / channels; row < count * f.taps_h; row += BLOCK / channels) {
        const int c = (int)talc_quotient(f.by_taps_h, (uint32_t)row), kh = row - c * f.taps_h;
        const float *from = w + c * s.w_in + kh * f.tap_h;
#pragma unroll
        for (int kw = 0; kw < TAPS; kw++, from += f.tap_w)
            if (kw < f.taps_w)
                begin_copy<sizeof(float)>(&to[(row * TAPS + kw) * pitch + oc], exists ? from : p.w,
                                          exists ? (int)sizeof(float) : 0);
    }
}

/* Begins to copy the halo tiles of `count` input channels from `first` on. Padding becomes
 * zeros. */
template <int STEP>
static __device__ __forceinline__ void load_halo_tiles(const small_problem &p,
                                                       const talc_small_block &at, int first,
                                                       int count, float *to)
{
    const talc_small_shape &s = p.s;
    const talc_small_tiles &t = p.t;
    const talc_small_phase &f = s.phases[at.phase];
    /* The last coordinates that an output reads. Those behind them may be farther outside than
     * padding reaches, where talc_window_source has no answer. */
    const int last_h = (f.count_h - 1) * s.step_h + (f.taps_h - 1) * s.dilation_h,
              last_w = (f.count_w - 1) * s.step_w + (f.taps_w - 1) * s.dilation_w;
    constexpr int APART = COLUMNS * STEP, GAP = talc_small_hole(STEP);
    const int plane = s.H * s.W;
    const int64_t an_image = (int64_t)s.groups * s.IC * plane;
    const float *const x = p.x + at.image * an_image + ((int64_t)at.group * s.IC + first) * plane;
    for (int e = (int)threadIdx.x; e < t.halo_tile; e += BLOCK) {
        const int line = (int)talc_quotient(p.by_pitch, (uint32_t)e), offset = e - line * t.pitch;
        const int gaps = offset / (APART + GAP), column = offset - gaps * GAP;
        if (GAP > 0 && column >= (gaps + 1) * APART)
            continue;
        const int image = (int)talc_quotient(p.by_halo_tile_rows, (uint32_t)line);
        const int row = at.row * s.step_h + line - image * t.halo_tile_rows;
        int h = -1, w = -1;
        if (row <= last_h && column <= last_w && at.image + image < s.N) {
            h = (int)talc_window_source(s.mode, row - f.before_h, s.H);
            w = (int)talc_window_source(s.mode, column - f.before_w, s.W);
        }
        float *into = to + e;
        if (h < 0 || w < 0) {
            for (int c = 0; c < count; c++, into += t.halo_tile)
                *into = 0;
            continue;
        }
        const float *from = x + image * an_image + (h * s.W + w);
#pragma unroll 8
        for (int c = 0; c < count; c++, into += t.halo_tile, from += plane)
            __pipeline_memcpy_async(into, from, sizeof(float));
    }
}

/* Applies the epilogue to a unit's sums of one channel, and stores the `columns` of them that
 * exist. */
static __device__ __forceinline__ void finish(const small_problem &p, vec<float, COLUMNS> &sum,
                                              int channel, int64_t at, int columns)
{
    const int apart = p.s.out_column;
    const float bias = p.last.bias == nullptr ? 0 : p.last.bias[channel];
#pragma unroll
    for (int j = 0; j < COLUMNS; j++) {
        sum.of[j] += bias;
        if (p.last.residual != nullptr && j < columns)
            sum.of[j] += p.last.residual[at + j * apart];
    }
    activate_all(p.last.activation, sum.of);
    float *const y = p.y + at;
    if (columns == COLUMNS && apart == 1 && (uintptr_t)y % VECTOR_BYTES == 0) {
#pragma unroll
        for (int j = 0; j < COLUMNS; j += V) {
            vec<float, V> some;
#pragma unroll
            for (int v = 0; v < V; v++)
                some.of[v] = sum.of[j + v];
            *(vec<float, V> *)(y + j) = some;
        }
    } else {
#pragma unroll
        for (int j = 0; j < COLUMNS; j++)
            if (j < columns)
                y[j * apart] = sum.of[j];
    }
}

/* Recomputes the NaN among a unit's results of one channel without products with padding. These
 * results have no epilogue. */
static __device__ __forceinline__ void recompute_nans(const small_problem &p,
                                                      const talc_small_block &at,
                                                      const talc_small_unit &unit, int channel,
                                                      float *y, int columns)
{
    const talc_small_shape &s = p.s;
    const talc_small_phase &f = s.phases[at.phase];
    const int64_t plane = (int64_t)s.H * s.W;
    const float *const x =
        p.x + ((int64_t)(at.image + unit.image) * s.groups + at.group) * s.IC * plane;
    const float *const w = p.w +
                           (int64_t)at.group * s.OC * s.IC * (s.w_in < s.w_out ? s.w_in : s.w_out) +
                           channel * s.w_out + f.tap;
#pragma unroll 1
    for (int j = 0; j < columns; j++, y += s.out_column)
        if (*y != *y)
            *y = sum_of_window<float>(
                { x, w, s.IC, plane, s.w_in, s.H, s.W, (at.row + unit.row) * s.step_h - f.before_h,
                  (unit.column + j) * s.step_w - f.before_w, f.taps_h, f.taps_w, s.dilation_h,
                  s.dilation_w, f.tap_h, f.tap_w, true });
}

template <int TAPS, int STEP>
static __global__ void __launch_bounds__(BLOCK, 2)
    small_kernel(const __grid_constant__ small_problem p)
{
    constexpr int WARP_WIDTH = WARP * COLUMNS; /* columns of a warp's units */
    constexpr int APART = COLUMNS * STEP, GAP = talc_small_hole(STEP);
    extern __shared__ __align__(16) unsigned char shared[];
    const talc_small_shape &s = p.s;
    const talc_small_tiles &t = p.t;
    const int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP;
    const talc_small_warp own = talc_small_warp_of(&t, warp);
    const talc_small_block at = talc_small_block_of(&p, blockIdx.x);
    const talc_small_unit unit = talc_small_unit_of(&p, own.unit + lane);
    const talc_small_phase &f = s.phases[at.phase];
    float *const halo_tiles = (float *)shared;
    float *const weights = halo_tiles + t.stage_channels * t.halo_tile;
    const int pitch = talc_small_weights_pitch(t.channel_groups * CHANNELS);
    const int window_offset =
        unit.image < t.images ? (unit.image * t.halo_tile_rows + unit.row * s.step_h) * t.pitch +
                                    unit.column / COLUMNS * (APART + GAP)
                              : 0;

    float sums[CHANNELS][COLUMNS] = {};
    for (int first = 0; f.taps_h * f.taps_w > 0 && first < s.IC; first += t.stage_channels) {
        const int count = min(t.stage_channels, s.IC - first);
        __syncthreads();
        load_weights<TAPS>(p, at, first, count, weights);
        load_halo_tiles<STEP>(p, at, first, count, halo_tiles);
        __pipeline_commit();
        __pipeline_wait_prior(0);
        __syncthreads();
        for (int c = own.split; c < count; c += t.splits) {
            const float *x = halo_tiles + c * t.halo_tile + window_offset;
            const float *w = weights + c * f.taps_h * TAPS * pitch + own.channel;
#pragma unroll 1
            for (int kh = 0; kh < f.taps_h; kh++, x += s.dilation_h * t.pitch) {
                float window[WINDOW<TAPS, STEP>];
#pragma unroll
                for (int i = 0; i < WINDOW<TAPS, STEP>; i += V) {
                    const vec<float, V> some = *(const vec<float, V> *)(x + i + i / APART * GAP);
#pragma unroll
                    for (int v = 0; v < V; v++)
                        window[i + v] = some.of[v];
                }
#pragma unroll
                for (int kw = 0; kw < TAPS; kw++, w += pitch) {
                    if (kw >=
                        f.taps_w) /* no weights were written beyond, and what is there may be NaN */
                        continue;
#pragma unroll
                    for (int k = 0; k < CHANNELS; k += V) {
                        const vec<float, V> some = *(const vec<float, V> *)(w + k);
#pragma unroll
                        for (int v = 0; v < V; v++)
#pragma unroll
                            for (int j = 0; j < COLUMNS; j++)
                                sums[k + v][j] += window[j * STEP + kw] * (float)some.of[v];
                    }
                }
            }
        }
    }

    witness(sums, blockIdx.x, own.split);
    /* [split][group of channels and units][channel][vector of a unit][unit] */
    float *const split_sums = (float *)shared;
    __syncthreads();
#pragma unroll
    for (int c = 0; c < CHANNELS; c++)
#pragma unroll
        for (int j = 0; j < COLUMNS; j += V) {
            vec<float, V> some;
#pragma unroll
            for (int v = 0; v < V; v++)
                some.of[v] = sums[c][j + v];
            *(vec<float, V> *)(split_sums + (warp * CHANNELS + c) * WARP_WIDTH + j * WARP +
                               lane * V) = some;
        }
    __syncthreads();
    /* Each split adds up some of the channels of every unit. */
    const int columns = talc_small_outputs_of(&p, &at, &unit);
    if (columns == 0)
        return;
    const int groups = t.channel_groups * t.unit_groups, stored = talc_small_stored_channels(&t);
    const int64_t offset = talc_small_first_of(&p, &at, &unit, 0);
    for (int c = own.split * stored;
         c < (own.split + 1) * stored && at.channel + own.channel + c < s.OC; c++) {
        vec<float, COLUMNS> sum = {};
        const float *split_sum = split_sums + (own.number * CHANNELS + c) * WARP_WIDTH + lane * V;
        for (int other = 0; other < t.splits; other++, split_sum += groups * CHANNELS * WARP_WIDTH)
#pragma unroll
            for (int j = 0; j < COLUMNS; j += V) {
                const vec<float, V> some = *(const vec<float, V> *)(split_sum + j * WARP);
#pragma unroll
                for (int v = 0; v < V; v++)
                    sum.of[j + v] += some.of[v];
            }
        const int oc = at.group * s.OC + at.channel + own.channel + c;
        const int64_t to = offset + (int64_t)oc * s.plane;
        float not_finite = 0;
#pragma unroll
        for (int j = 0; j < COLUMNS; j++)
            not_finite += sum.of[j] * 0;
        finish(p, sum, oc, to, columns);
        if (s.only_inside && not_finite != 0)
            recompute_nans(p, at, unit, at.channel + own.channel + c, p.y + to, columns);
    }
}

// ---- The plan -----------------------------------------------------------------------------------

static const char *plan_small(const talc_device *device, const talc_conv2d_problem *p,
                              talc_plan *plan)
{
    const talc_cuda_state *state = talc_cuda_state_of(device);
    talc_small_shape s;
    talc_small_tiles tiles;
    plan->seconds = INFINITY;
    if (talc_small_shape_of(p, &s))
        plan->seconds = TALC_CUDA_LAUNCH +
                        talc_small_choose(&s, state->multiprocessors, state->block_shared, &tiles);
    if (!(plan->seconds < INFINITY))
        return "the problem has no tiles of whole images";
    talc_plan_store(plan, &tiles, sizeof tiles);
    return NULL;
}

using small_kernel_type = void (*)(const small_problem);

static small_kernel_type kernel_of(const talc_small_shape &s)
{
    const int taps = talc_small_taps(&s);
    if (s.step_w == 2)
        return taps == 1 ? small_kernel<1, 2> : small_kernel<3, 2>;
    return taps == 1   ? small_kernel<1, 1>
           : taps == 2 ? small_kernel<2, 1>
           : taps == 3 ? small_kernel<3, 1>
                       : small_kernel<5, 1>;
}

static talc_status launch(talc_device *device, const talc_conv2d_problem *p,
                          const talc_small_tiles &tiles, const talc_conv2d_arguments *a)
{
    const bool input = p->direction == TALC_GRAD_INPUT;
    talc_small_shape s;
    (void)talc_small_shape_of(p, &s);
    small_problem q;
    (talc_small_layout &)q = talc_small_layout_of(&s, &tiles);
    q.x = (const float *)(input ? a->dy : a->x), q.w = (const float *)a->w;
    q.y = (float *)(input ? a->dx : a->y);
    if (!input)
        q.last = epilogue<float>(a->bias, a->residual, p->activation);
    const auto kernel = kernel_of(s);
    const cudaError_t error = allow_shared(kernel, shared_up_to(device, TALC_SMALL_SHARED_BYTES));
    if (error != cudaSuccess)
        return talc_cuda_not_launched(device, "conv2d", error);
    kernel<<<(unsigned)tiles.blocks, BLOCK, tiles.shared, talc_cuda_stream(device)>>>(q);
    return talc_cuda_launched(device, "conv2d");
}

TALC_CUDA_FORM_F32(direct_small, plan_small(device, p, plan),
                   launch(device, p, own_plan<talc_small_tiles>(plan), a))
TALC_CUDA_FORM_F32(direct_small_gradient,
                   p->direction == TALC_GRAD_WEIGHT ? "it has no weight gradient"
                                                    : plan_small(device, p, plan),
                   launch(device, p, own_plan<talc_small_tiles>(plan), a))
