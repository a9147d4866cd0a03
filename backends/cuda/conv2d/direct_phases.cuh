/// The input gradient at a stride by FFMA, with all phases of a tile in one block (phases.h): dx
/// is written once, in whole rows, and no zeros are multiplied. For few channels, where products on
/// tensor cores cost less than moving dx; included by direct_gradient.cu.
///
///     a thread    CHANNELS channels of dx, ROWS elements of a phase, one below the other
///     a warp      32 elements of each phase beside each other, and so 32 * stride_w columns of dx
///     a block     8 warps: 1 or 2 groups of channels, as much of a row of dx as it can have, and
///                 rows below
///
/// The columns of all phases come together in shared memory, so that a row is written in long runs:
/// what begins or ends within a sector of 32 bytes costs memory as much as a whole one more.
///
/// The weights are in shared memory, [tap][channel of dy][channel of dx]: of all channels of dy, or
/// a stage of them after the other; dy comes from the L1 cache. A sum takes its products in the
/// order of stages, taps, channels of dy.
#ifndef TALC_BACKENDS_CUDA_CONV2D_DIRECT_PHASES_CUH
#define TALC_BACKENDS_CUDA_CONV2D_DIRECT_PHASES_CUH

#include "backends/cuda/conv2d/form.cuh"
#include "backends/cuda/conv2d/phases.h"
#include "backends/cuda/conv2d/window_sum.cuh"
#include "backends/cuda/device/estimate.h"
#include "backends/cuda/primitives/shared_copy.cuh"

#include <cmath>

namespace talc
{

constexpr int PHASES = 8; /* of an axis, at most */
constexpr int CHANNELS = 8, ROWS = 2, WARPS = BLOCK / WARP;
constexpr int WEIGHT_BYTES = 24 << 10, SHARED_BYTES = 160 << 10;

/* talc_phase_axis in 32 bits. */
struct phase_taps {
    int count, tap, taps, apart, dilation, before;
};

struct phases_axis {
    phase_taps phases[PHASES];
    int stride, O, extent;
};

struct phases_plan {
    int channel_warps, column_warps;
    int stage_channels; /* channels of dy whose weights a block holds */
    int64_t channel_tiles, row_tiles, column_tiles, blocks;
    size_t shared;
};

template <typename T> struct phases_problem {
    const T *dy, *w;
    T *dx;
    phases_axis down, across;
    int KW, IC, OC, channel_warps, column_warps, stage_channels;
    divisor<uint32_t> channel_tiles, column_tiles, row_tiles, groups, by_taps;
};

/* False where the phases are too many, their weights too large, or the extents. */
inline bool phases_plan_of(const talc_device *device, const talc_conv2d_problem *p,
                           phases_plan &plan)
{
    const int64_t size = (int64_t)talc_dtype_size(p->dtype), IC = p->C / p->groups;
    if (p->stride_h > PHASES || p->stride_w > PHASES || p->H * p->W > INT_MAX / 2 ||
        p->OH * p->OW > INT_MAX / 2 || p->KH * p->KW > INT_MAX / 2 ||
        IC * p->KH * p->KW > INT_MAX || p->dilation_h > INT_MAX / 2 / p->KH ||
        p->dilation_w > INT_MAX / 2 / p->KW || p->pad_top > INT_MAX / 4 ||
        p->pad_left > INT_MAX / 4)
        return false;
    plan.channel_warps = IC > CHANNELS ? 2 : 1;
    const int64_t weights = p->KH * p->KW * plan.channel_warps * CHANNELS * size;
    if (weights > WEIGHT_BYTES)
        return false;
    plan.stage_channels = (int)talc_smaller(p->OC / p->groups, WEIGHT_BYTES / weights);
    plan.channel_tiles = talc_ceil_div(IC, CHANNELS * plan.channel_warps);
    const int64_t rows = talc_ceil_div(p->H, p->stride_h),
                  columns = talc_ceil_div(p->W, p->stride_w);
    plan.column_warps = 1;
    while (plan.column_warps < WARPS / plan.channel_warps && plan.column_warps * WARP < columns)
        plan.column_warps *= 2;
    plan.row_tiles = talc_ceil_div(rows, ROWS * WARPS / plan.channel_warps / plan.column_warps);
    plan.column_tiles = talc_ceil_div(columns, WARP * plan.column_warps);
    plan.blocks = p->N * p->groups * plan.channel_tiles * plan.row_tiles * plan.column_tiles;
    plan.shared =
        (size_t)(plan.stage_channels * weights + BLOCK * CHANNELS * ROWS * p->stride_w * size);
    return plan.blocks <= INT_MAX && plan.shared <= (size_t)shared_up_to(device, SHARED_BYTES);
}

/* Of memory's rate what it makes, and the clock cycles of a block for each tap of a channel of dy,
 * alone on its multiprocessor and beside another, as measured on an H200: lanes and channels that
 * there are not take as long as those that there are. */
inline double phases_seconds(const talc_device *device, const talc_conv2d_problem *p,
                             const phases_plan &plan)
{
    constexpr double MOVING = 0.5, CLOCK = 1.7e9, ALONE = 180, TWO = 300;
    const double channels =
        (double)(p->C / p->groups) / (double)(plan.channel_tiles * plan.channel_warps * CHANNELS);
    const double lanes = (double)talc_ceil_div(p->W, p->stride_w) /
                         (double)(plan.column_tiles * plan.column_warps * WARP);
    const double multiprocessors = talc_cuda_state_of(device)->multiprocessors,
                 blocks = (double)plan.blocks;
    const double tap = blocks <= multiprocessors ? ALONE : TWO * ceil(blocks / 2 / multiprocessors),
                 taps = (double)(p->OC / p->groups * p->KH * p->KW),
                 size = (double)talc_dtype_size(p->dtype) / sizeof(float);
    const double moving = talc_cuda_conv2d_seconds(
        device, p, INFINITY, talc_conv2d_bytes(p) / (MOVING * channels * lanes), 0);
    return fmax(moving, taps * tap * size / CLOCK) + TALC_CUDA_LAUNCH;
}

inline const char *plan_phases(const talc_device *device, const talc_conv2d_problem *p,
                               talc_plan *plan)
{
    phases_plan own = {};
    if (p->direction == TALC_GRAD_WEIGHT)
        return "it has no weight gradient";
    if (p->stride_h == 1 && p->stride_w == 1)
        return "no stride is above 1";
    if (!phases_plan_of(device, p, own))
        return "its phases are too many or too large";
    plan->seconds = phases_seconds(device, p, own);
    talc_plan_store(plan, &own, sizeof own);
    return NULL;
}

template <typename T>
static __global__ void __launch_bounds__(BLOCK, 2)
    sum_phases(const __grid_constant__ phases_problem<T> p)
{
    constexpr int V = VECTOR_BYTES / sizeof(T);
    using pair = vec<T, 2>;
    extern __shared__ __align__(16) char shared[];
    const int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP;
    const int of_block = p.channel_warps * CHANNELS;
    const int across_warps = p.column_warps, row_warps = WARPS / p.channel_warps / across_warps;
    const int own_column = warp % across_warps, rest_warps = warp / across_warps;
    const int own_row = rest_warps % row_warps * ROWS, own = rest_warps / row_warps * CHANNELS;
    const int rows = row_warps * ROWS, run = across_warps * WARP * p.across.stride;
    T *const results = (T *)shared; /* [channel][row][run] */
    T *const weights = results + of_block * rows * run;
    const uint32_t row_tile = p.column_tiles.quotient(blockIdx.x),
                   channel_tile = p.row_tiles.quotient(row_tile),
                   slice = p.channel_tiles.quotient(channel_tile);
    const int block_c = (int)(channel_tile - slice * p.channel_tiles.by) * of_block;
    const int block_w = (int)(blockIdx.x - row_tile * p.column_tiles.by) * across_warps * WARP;
    const int block_h = (int)(row_tile - channel_tile * p.row_tiles.by) * rows;
    const int q_w = block_w + own_column * WARP + lane, q_h = block_h + own_row;
    const int g = (int)(slice - p.groups.quotient(slice) * p.groups.by);
    const int64_t plane = (int64_t)p.down.O * p.across.O;
    const T *const dy = p.dy + (int64_t)slice * p.OC * plane;
    const T *const w = p.w + (int64_t)g * p.OC * p.IC * (int64_t)p.by_taps.by;
    T *const dx = p.dx + ((int64_t)slice * p.IC + block_c) * p.down.extent * p.across.extent;
    const int columns = min(run, p.across.extent - block_w * p.across.stride);

    auto load_weights = [&](int first, int channels) {
        const int taps = (int)p.by_taps.by, count = channels * of_block * taps;
        for (int e = (int)threadIdx.x; e < count; e += BLOCK) {
            const int pair = (int)p.by_taps.quotient((uint32_t)e), tap = e - pair * taps;
            const int oc = pair / of_block, c = pair % of_block; /* of_block: 8 or 16 */
            weights[(tap * channels + oc) * of_block + c] =
                block_c + c < p.IC ? w[((int64_t)(first + oc) * p.IC + block_c + c) * taps + tap]
                                   : (T)0;
        }
        __syncthreads();
    };
    const bool once = p.stage_channels == p.OC;
    if (once)
        load_weights(0, p.OC);

    for (int i = 0; i < p.down.stride; i++) {
        const phase_taps down = p.down.phases[i];
        for (int j = 0; j < p.across.stride; j++) {
            const phase_taps across = p.across.phases[j];
            accumulator_of<T> sums[ROWS][CHANNELS] = {};
            for (int first = 0; down.taps * across.taps > 0 && first < p.OC;
                 first += p.stage_channels) {
                const int channels = min(p.stage_channels, p.OC - first);
                if (!once) {
                    __syncthreads();
                    load_weights(first, channels);
                }
                for (int kh = 0; kh < down.taps; kh++) {
                    const T *rows_from[ROWS];
                    bool row_inside[ROWS];
#pragma unroll
                    for (int r = 0; r < ROWS; r++) {
                        const int oh = q_h + r - down.before + kh * down.dilation;
                        row_inside[r] = (unsigned)oh < (unsigned)p.down.O;
                        rows_from[r] = dy + first * plane + (row_inside[r] ? oh : 0) * p.across.O;
                    }
                    const int tap_row =
                        (down.tap + (down.taps - 1 - kh) * down.apart) * p.KW + across.tap;
                    for (int kw = 0; kw < across.taps; kw++) {
                        const int tap = tap_row + (across.taps - 1 - kw) * across.apart;
                        const T *tap_weights = weights + tap * channels * of_block + own;
                        const int column = q_w - across.before + kw * across.dilation;
                        const bool column_inside = (unsigned)column < (unsigned)p.across.O;
                        const T *from[ROWS];
                        bool inside[ROWS];
#pragma unroll
                        for (int r = 0; r < ROWS; r++) {
                            inside[r] = row_inside[r] && column_inside;
                            from[r] = rows_from[r] + (column_inside ? column : 0);
                        }
#pragma unroll 4
                        for (int oc = 0; oc < channels; oc++, tap_weights += of_block) {
                            T value[ROWS];
#pragma unroll
                            for (int r = 0; r < ROWS; r++) {
                                value[r] = inside[r] ? __ldg(from[r]) : (T)0;
                                from[r] += plane;
                            }
#pragma unroll
                            for (int c = 0; c < CHANNELS; c += V) {
                                const vec<T, V> some = *(const vec<T, V> *)(tap_weights + c);
#pragma unroll
                                for (int r = 0; r < ROWS; r++)
#pragma unroll
                                    for (int k = 0; k < V; k++)
                                        sums[r][c + k] += (accumulator_of<T>)value[r] * some.of[k];
                            }
                        }
                    }
                }
            }
            T *const own_results =
                results + own_row * run + (own_column * WARP + lane) * p.across.stride + j;
            accumulator_of<T> not_finite = 0;
#pragma unroll
            for (int r = 0; r < ROWS; r++)
#pragma unroll
                for (int c = 0; c < CHANNELS; c++) {
                    own_results[((own + c) * rows + r) * run] = (T)sums[r][c];
                    not_finite += sums[r][c] * 0;
                }
            if (not_finite != 0) { /* those that are NaN again, only of outputs that exist */
                const T *const tap = w + ((down.tap + (down.taps - 1) * down.apart) * p.KW +
                                          across.tap + (across.taps - 1) * across.apart);
                const int64_t taps = p.by_taps.by;
#pragma unroll 1
                for (int e = 0; e < ROWS * CHANNELS; e++) {
                    const int r = e / CHANNELS, c = own + e % CHANNELS;
                    T *const result = own_results + (c * rows + r) * run;
                    if (block_c + c < p.IC && *result != *result)
                        *result = (T)sum_of_window<T>(
                            { dy, tap + (block_c + c) * taps, p.OC, plane, p.IC * taps, p.down.O,
                              p.across.O, q_h + r - down.before, q_w - across.before, down.taps,
                              across.taps, down.dilation, across.dilation, -down.apart * p.KW,
                              -across.apart, true });
                }
            }
        }
        __syncthreads();
        for (int e = warp; e < of_block * rows; e += WARPS) {
            const int c = e / rows, q = block_h + e % rows;
            if (block_c + c >= p.IC || q >= down.count)
                continue;
            T *const to = dx +
                          ((int64_t)c * p.down.extent + i + q * p.down.stride) * p.across.extent +
                          block_w * p.across.stride;
            const T *const from = results + e * run;
            if ((uintptr_t)to % sizeof(pair) == 0) {
                for (int k = 2 * lane - offset_in_line(to); k < columns; k += 2 * WARP)
                    if (k >= 0 && k + 1 < columns)
                        *(pair *)(to + k) = *(const pair *)(from + k);
                if (columns % 2 != 0 && lane == 0)
                    to[columns - 1] = from[columns - 1];
            } else {
                for (int k = lane - offset_in_line(to); k < columns; k += WARP)
                    if (k >= 0)
                        to[k] = from[k];
            }
        }
        __syncthreads();
    }
}

static void set_phases(phases_axis &a, int64_t extent, int64_t O, int64_t K, int64_t stride,
                       int64_t dilation, int64_t pad)
{
    a.stride = (int)stride, a.O = (int)O, a.extent = (int)extent;
    for (int i = 0; i < stride; i++) {
        const talc_phase_axis of = talc_phase_axis_of(extent, K, stride, dilation, pad, i);
        a.phases[i] = { (int)of.count, (int)of.tap,      (int)of.taps,
                        (int)of.apart, (int)of.dilation, (int)of.before };
    }
}

template <typename T>
static talc_status phases_run(talc_device *device, const talc_conv2d_problem *p,
                              const phases_plan &plan, const talc_conv2d_arguments *a)
{
    phases_problem<T> s = {};
    s.dy = (const T *)a->dy, s.w = (const T *)a->w, s.dx = (T *)a->dx;
    set_phases(s.down, p->H, p->OH, p->KH, p->stride_h, p->dilation_h, p->pad_top);
    set_phases(s.across, p->W, p->OW, p->KW, p->stride_w, p->dilation_w, p->pad_left);
    s.KW = (int)p->KW, s.by_taps.set(p->KH * p->KW);
    s.IC = (int)(p->C / p->groups), s.OC = (int)(p->OC / p->groups);
    s.channel_warps = plan.channel_warps, s.column_warps = plan.column_warps;
    s.stage_channels = plan.stage_channels;
    s.channel_tiles.set(plan.channel_tiles), s.column_tiles.set(plan.column_tiles);
    s.row_tiles.set(plan.row_tiles), s.groups.set(p->groups);
    const cudaError_t error = allow_shared(&sum_phases<T>, shared_up_to(device, SHARED_BYTES));
    if (error == cudaSuccess)
        sum_phases<T><<<(unsigned)plan.blocks, BLOCK, plan.shared, talc_cuda_stream(device)>>>(s);
    return error != cudaSuccess ? talc_cuda_not_launched(device, "conv2d.grad_input", error)
                                : talc_cuda_launched(device, "conv2d");
}

} // namespace talc

#endif
