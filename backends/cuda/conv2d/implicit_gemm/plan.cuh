/// How implicit_gemm divides a problem into tiles, patches and steps. Private to backends/cuda.
#ifndef TALC_BACKENDS_CUDA_CONV2D_IMPLICIT_GEMM_PLAN_CUH
#define TALC_BACKENDS_CUDA_CONV2D_IMPLICIT_GEMM_PLAN_CUH

#include "backends/cuda/conv2d/implicit_gemm/results.cuh"
#include "backends/cuda/conv2d/implicit_gemm/staged.cuh"
#include "tensor/extent.h"

#include <cmath>
#include <initializer_list>

namespace talc
{

/// Shared memory of a block: what the GPU lends, less what the kernel declares.
inline int64_t gemm_shared_most(const talc_cuda_state &gpu)
{
    return gpu.block_shared - 1024;
}
/// What is left of it where each position's place is noted.
template <typename Form> inline int64_t gemm_shared_room(const talc_cuda_state &gpu)
{
    return gemm_shared_most(gpu) - (Form::STAGED ? STAGED_POSITIONS * (int)sizeof(int) : 0);
}

/// Columns of a tile that does not run on over the ends of rows.
template <typename Form> constexpr int TILE_COLUMNS = COLUMNS;

inline int64_t gemm_result_bytes(const gemm_problem &g)
{
    return (int64_t)MULTIPLIERS * 4 * g.result_bytes;
}

template <typename Form> inline size_t gemm_shared_bytes(const gemm_problem &g)
{
    return (size_t)(g.buffers * g.patch_bytes + g.stages * g.stage_bytes + RING<Form> +
                    gemm_result_bytes(g));
}

inline int64_t gemm_channel_rows(const gemm_problem &g)
{
    return (int64_t)g.groups * g.channel_tiles * (g.part_shift == 0 ? 2 : 1) * CHANNELS;
}

template <typename Form> inline size_t gemm_packed_bytes(const gemm_problem &g)
{
    return (size_t)gemm_channel_rows(g) * g.chunks * g.steps * STEP * PARTS<Form> * 2;
}

/// One axis of the phases of a stride.
struct phase_axis {
    int64_t count, step; ///< phases that taps reach, and elements from one to the next
    int64_t reach;       ///< positions from a window's first to its last
    int64_t
        extent; ///< positions of an image, of which those at its end may be the first of the next
};

inline phase_axis phase_axis_of(int64_t extent, int64_t O, int64_t K, int64_t stride,
                                int64_t dilation, int64_t pad, bool zeros)
{
    phase_axis axis;
    axis.step = talc_gcd(stride, dilation);
    const int64_t phases = stride / axis.step;
    const int64_t last = (K - 1) * dilation;
    axis.count = phases < last / axis.step + 1 ? phases : last / axis.step + 1;
    axis.reach = last / stride;
    const int64_t needed = O + axis.reach, before = pad - (axis.count - 1) * axis.step;
    const int64_t shared = zeros && before > 0 ? (before - 1) / stride + 1 : 0;
    const int64_t end = (extent + pad + stride - 1) / stride;
    axis.extent = needed - shared > end ? needed - shared : end;
    axis.extent = axis.extent > O ? axis.extent : O;
    axis.extent = axis.extent < needed ? axis.extent : needed;
    return axis;
}

/// Arrangements of the two warpgroups: other channels of the same positions; or positions below, beside or, flat, behind.
/// SAME and BELOW can carry parts of sectors along a row.
enum gemm_arrangement {
    SAME,
    BELOW,
    BESIDE,
    FLAT_SAME,
    FLAT_BEHIND,
    SAME_CARRY,
    BELOW_CARRY,
    ARRANGEMENTS
};

/// What a plan keeps: the arrangement, the channels of a patch, the patches of a part of a tile (0: all), whether the phases of the
/// stride are channels, and whether patches are made from staged rows.
struct gemm_choice {
    int arrangement, channels, part_chunks;
    bool folded;
};

/// Divides each tile's chunks into parts.
inline void gemm_split(gemm_problem &g, int part_chunks)
{
    g.tiles /= g.splits;
    g.part_chunks = part_chunks;
    g.splits = (int)talc_ceil_div(g.chunks, part_chunks);
    g.tiles *= g.splits;
    g.by_splits.set(g.splits);
    const int last = g.chunks - (g.splits - 1) * part_chunks;
    g.lag = last < g.buffers - 1 ? last : g.buffers - 1;
}

/// Of each channel row: the exponent of its weights' scale and the threshold of its sums.
inline size_t gemm_scales_bytes(const gemm_problem &g)
{
    return (size_t)gemm_channel_rows(g) * (sizeof(int) + sizeof(float));
}

/// Of a split reduction: the magnitudes below which sums are doubtful, and the sums.
inline size_t gemm_doubts_bytes(const gemm_problem &g)
{
    return g.splits == 1 ? 0 : (size_t)g.tiles * 2 * CHANNELS * sizeof(float);
}

inline size_t gemm_parts_bytes(const gemm_problem &g)
{
    return g.splits == 1 ? 0 : (size_t)(g.splits * g.outputs) * sizeof(float);
}

/// What follows from the weights alone.
template <typename Form> inline size_t gemm_cached_bytes(const gemm_problem &g)
{
    return gemm_packed_bytes<Form>(g) + gemm_scales_bytes(g);
}

template <typename Form> inline size_t gemm_workspace(const gemm_problem &g)
{
    return gemm_cached_bytes<Form>(g) + gemm_doubts_bytes(g) + gemm_parts_bytes(g);
}

/// Fills in the stages of a flat tile's patches (staged.cuh); false where there are none.
template <typename Form>
inline bool gemm_stage(gemm_problem &g, const talc_conv2d_problem *p, int channels)
{
    if (!g.flat || g.folded || g.phases > 1 || p->stride_h * p->stride_w != 1 ||
        p->padding_mode != TALC_PADDING_ZEROS || channels != STEP || g.group_in % STEP != 0 ||
        g.positions > STAGED_POSITIONS)
        return false;
    const int64_t plane = p->H * p->W, image = (int64_t)g.pitch * g.image_rows;
    const int64_t rows = talc_ceil_div(g.positions - 1, g.pitch) + 1,
                  images = talc_ceil_div(g.positions - 1, image) + 1;
    g.stage_rows = p->W % 4 == 0;
    const int64_t bytes = STEP * 4 * (g.stage_rows ? rows * p->W : images * plane);
    if (bytes > 1 << 20)
        return false;
    g.stage_step = (int)(g.stage_rows ? rows * p->W : plane);
    g.stage_bytes = (int)talc_ceil_div(bytes, 128) * 128;
    g.stages = STAGES;
    return true;
}

/// Fills in the tiles and patches of a choice; false when they do not fit.
template <typename Form>
inline bool gemm_shape(gemm_problem &g, const talc_conv2d_problem *p, const talc_cuda_state &gpu,
                       gemm_choice choice)
{
    const int arrangement = choice.arrangement, channels = choice.channels;
    const bool zeros = p->padding_mode == TALC_PADDING_ZEROS;
    phase_axis h = phase_axis_of(p->H, p->OH, p->KH, p->stride_h, p->dilation_h, p->pad_top, zeros);
    phase_axis w =
        phase_axis_of(p->W, p->OW, p->KW, p->stride_w, p->dilation_w, p->pad_left, zeros);
    g.folded = choice.folded;
    g.fold_h = g.fold_w = 1;
    g.taps_h = g.KH, g.taps_w = g.KW;
    if (g.folded) {
        g.fold_h = (int)h.count, g.fold_w = (int)w.count;
        g.taps_h = (int)h.reach + 1, g.taps_w = (int)w.reach + 1;
        h.count = w.count = 1;
    }
    g.taps = g.taps_h * g.taps_w;
    g.in = g.group_in * g.fold_h * g.fold_w;
    const bool same = arrangement == SAME || arrangement == FLAT_SAME || arrangement == SAME_CARRY;
    const bool below = arrangement == BELOW || arrangement == BELOW_CARRY;
    g.carry = arrangement == SAME_CARRY || arrangement == BELOW_CARRY;
    g.flat = arrangement == FLAT_SAME || arrangement == FLAT_BEHIND;
    int64_t positions, pitch;
    if (g.flat) {
        g.tile_rows = 1;
        g.tile_columns = Form::ROWS * TILE_COLUMNS<Form> * (same ? 1 : MULTIPLIERS);
        pitch = w.extent;
        positions = g.tile_columns + h.reach * pitch + w.reach;
        const int64_t all = ((p->N - 1) * h.extent + p->OH - 1) * pitch + p->OW;
        if (all + positions > INT_MAX)
            return false;
        g.row_shift = COLUMNS;
        g.part_shift = same ? 0 : Form::ROWS * COLUMNS;
        g.row_tiles = 1;
        g.column_tiles = (int)talc_ceil_div(all, g.tile_columns);
        g.pixel_tiles = g.column_tiles;
    } else {
        g.tile_rows = below ? MULTIPLIERS * Form::ROWS : Form::ROWS;
        g.tile_columns = (arrangement == BESIDE ? MULTIPLIERS : 1) * TILE_COLUMNS<Form>;
        pitch = g.tile_columns + w.reach;
        positions = (g.tile_rows + h.reach) * pitch;
        g.row_shift = (int)pitch;
        g.part_shift = same ? 0 : below ? Form::ROWS * (int)pitch : COLUMNS;
        g.row_tiles = (int)talc_ceil_div(p->OH, g.tile_rows);
        g.column_tiles = (int)talc_ceil_div(p->OW, g.tile_columns);
        const int64_t tiles = p->N * g.row_tiles * g.column_tiles;
        if (tiles > INT_MAX)
            return false;
        g.pixel_tiles = (int)tiles;
    }
    const int64_t units = h.count * w.count * positions;
    if (units > 16383 || pitch > 16383 ||
        (g.carry && (g.column_tiles == 1 || p->OW % SECTOR == 0 || p->OW % 2 != 0)))
        return false;
    g.pitch = (int)pitch;
    g.image_rows = (int)h.extent;
    g.positions = (int)positions;
    g.phases = (int)(h.count * w.count), g.phases_w = (int)w.count;
    g.phase_h_step = (int)h.step, g.phase_w_step = (int)w.step;
    g.channels = channels;
    g.chunks = (int)talc_ceil_div(g.in, channels);
    const int64_t steps = (int64_t)g.taps * (channels / STEP);
    g.steps = (int)(talc_ceil_div(steps, Form::RUN) * Form::RUN);
    if (g.steps > MAX_STEPS)
        return false;
    g.patch_bytes = (int)((PARTS<Form> * channels * 2 * units + 127) / 128 * 128);
    g.result_bytes = (int)sizeof(warp_results<Form::ROWS>) + (g.carry ? CARRIED_BYTES<Form> : 0);
    int64_t room = gemm_shared_room<Form>(gpu) - RING<Form> - gemm_result_bytes(g);
    if (Form::STAGED) {
        if (!gemm_stage<Form>(g, p, channels))
            return false;
        room -= g.stages * g.stage_bytes;
    }
    const int64_t buffers = room / g.patch_bytes;
    g.buffers = (int)(buffers < MAX_BUFFERS ? buffers : MAX_BUFFERS);
    g.channel_tiles = (int)talc_ceil_div(g.group_out, CHANNELS * (same ? 2 : 1));
    const int64_t tiles = (int64_t)g.pixel_tiles * g.groups * g.channel_tiles;
    if (tiles > INT_MAX / 4)
        return false;
    g.tiles = (int)tiles;
    g.splits = 1;
    gemm_split(g, choice.part_chunks > 0 ? choice.part_chunks : g.chunks);
    g.by_inner.set(g.carry ? g.column_tiles : g.channel_tiles),
        g.by_outer.set(g.carry ? g.channel_tiles : g.column_tiles);
    g.by_row_tiles.set(g.row_tiles), g.by_N.set(g.N);
    g.by_pitch.set(g.pitch), g.by_image_rows.set(g.image_rows), g.by_positions.set(g.positions);
    return g.buffers >= 1;
}

/// Fills in where each step's operand begins in the patch; steps beyond the last, of zero weights, read the first. And what the channels of
/// folded patches are.
inline void gemm_fill_shifts(gemm_problem &g)
{
    for (int c = 0; g.folded && c < g.in; c++) {
        const int phase = c / g.group_in;
        g.fold[c] = { (c - phase * g.group_in) * g.H * g.W, (short)(phase / g.fold_w),
                      (short)(phase % g.fold_w) };
    }
    const int sixteens = g.channels / STEP;
    for (int s = 0; s < g.steps; s++) {
        const int tap = s / sixteens, kh = tap / g.taps_w, kw = tap - kh * g.taps_w;
        const int h = kh * (g.folded ? g.stride_h : g.dilation_h);
        const int w = kw * (g.folded ? g.stride_w : g.dilation_w);
        const int row = h / g.stride_h, column = w / g.stride_w;
        const int phase = (h - row * g.stride_h) / g.phase_h_step * g.phases_w +
                          (w - column * g.stride_w) / g.phase_w_step;
        const int plane = 2 * (s - tap * sixteens);
        g.shifts[s] = (uint16_t)(tap >= g.taps ? 0
                                               : (plane * g.phases + phase) * g.positions +
                                                     row * g.pitch + column);
    }
}

/// Seconds that the kernel takes, as measured on an H200.
template <typename Form>
inline double gemm_seconds(const gemm_problem &g, const talc_cuda_state &gpu)
{
    constexpr double CLOCK = 1.75e9, MEMORY = 4e12;
    /* Clock cycles of a tile: products, by two warpgroups in turn; results, here of 8 rows; loads, which overlap both if there are two patches. */
    const double steps = (double)g.part_chunks * g.steps * Form::cycles(gpu.capability);
    const int positions = g.phases * g.positions;
    const double loaded = (positions + talc_ceil_div(positions, Form::LOADERS) * Form::LOADERS) /
                          2. * g.part_chunks * g.channels * (g.taps == 1 ? 0.72 : 1);
    const double results = g.flat               ? 13000
                           : g.OW % SECTOR == 0 ? 11500
                           : g.carry            ? 12000 + 12000. / g.column_tiles
                                                : 18000;
    const double products = steps * 1.1 + results * Form::ROWS / 8,
                 loads = Form::STAGED
                             ? g.part_chunks *
                                   (350. + 500 * (double)talc_ceil_div(g.positions, Form::LOADERS))
                             : loaded / Form::LOADS + 1500. * g.part_chunks;
    const double most = products > loads ? products : loads;
    const double tile = most + (g.buffers == 1 ? 0.5 : 0.15) * (products + loads - most) + 500;
    const int64_t run = tiles_of_run(g);
    const double waves = ceil((double)(g.tiles / run) / gpu.multiprocessors) * (double)run;
    const double computing = (waves * tile + loads / g.part_chunks) / CLOCK;
    /* Rows that begin anywhere in a sector are slow to write, unless the second-level cache holds them all. */
    const double written = (double)g.N * g.OC * g.OH * g.OW * 4,
                 read = (double)g.N * g.C * g.H * g.W * 4;
    const bool slow = !g.carry && g.OW % SECTOR != 0 && written > 40e6;
    const double moving = (read + written * (slow ? g.flat ? 1.7 : 3.3 : 1)) / MEMORY;
    /* Parts are written to the second-level cache and read from there. */
    const double adding = g.splits == 1 ? 0 : 4e-6 + g.splits * written / MEMORY;
    return (computing > moving ? computing : moving) + adding + 10e-6;
}

/// The problem in 32 bits, without tiles; false when it is empty or does not fit.
template <typename Form> inline bool gemm_problem_of(const talc_conv2d_problem *p, gemm_problem &g)
{
    constexpr int64_t MOST = 1 << 20;
    const int64_t extents[] = { p->N,        p->C,          p->H,         p->W,  p->OC,
                                p->OH,       p->OW,         p->KH,        p->KW, p->stride_h,
                                p->stride_w, p->dilation_h, p->dilation_w };
    for (int64_t extent : extents)
        if (extent < 0 || extent > MOST)
            return false;
    /* Padding is negative in the phases of an input gradient (input_gradient.h). */
    for (int64_t pad : { p->pad_top, p->pad_bottom, p->pad_left, p->pad_right })
        if (pad < -MOST || pad > MOST)
            return false;
    if (p->N * p->C * p->OC == 0 || p->H * p->W == 0 || p->OH * p->OW == 0)
        return false;
    const int64_t group_in = p->C / p->groups;
    if (p->H * p->W > MOST * 512 || p->OH * p->OW > INT_MAX / 32 ||
        (p->KH - 1) * p->dilation_h > MOST || (p->KW - 1) * p->dilation_w > MOST ||
        p->KH * p->KW > MAX_STEPS || group_in * p->KH * p->KW > MOST * 1024)
        return false;
    g = {};
    g.N = (int)p->N, g.C = (int)p->C, g.H = (int)p->H, g.W = (int)p->W, g.OC = (int)p->OC;
    g.OH = (int)p->OH, g.OW = (int)p->OW, g.KH = (int)p->KH, g.KW = (int)p->KW,
    g.groups = (int)p->groups;
    g.group_in = (int)group_in, g.group_out = (int)(p->OC / p->groups);
    g.stride_h = (int)p->stride_h, g.stride_w = (int)p->stride_w;
    g.dilation_h = (int)p->dilation_h, g.dilation_w = (int)p->dilation_w;
    g.top = (int)p->pad_top, g.left = (int)p->pad_left;
    g.mode = p->padding_mode;
    g.only_inside = p->only_inside;
    g.outputs = p->N * p->OC * p->OH * p->OW;
    g.by_kernel.set(g.KH * g.KW);
    g.least = TINY<Form::PRODUCTS>;
    g.coefficient = Form::PRODUCTS == 3 ? 0x1p14f / (float)(g.group_in * g.KH * g.KW / 4 + 2) : 4;
    return true;
}

/// The best tiles of a problem (gemm_problem_of) and the time that they take; false when none fit. A reduction is split only where
/// the workspace stays under the limit.
template <typename Form>
inline bool gemm_choose(const talc_conv2d_problem *p, const talc_cuda_state &gpu, gemm_problem &g,
                        size_t limit, gemm_choice &choice, double &seconds)
{
    seconds = INFINITY;
    const bool folds = g.group_in < STEP && p->stride_h * p->stride_w > 1 &&
                       (g.KH == 1 || g.dilation_h == 1) && (g.KW == 1 || g.dilation_w == 1);
    for (int folded = 0; folded <= (folds ? 1 : 0); folded++) {
        const int64_t phases = folded ? (p->stride_h < p->KH ? p->stride_h : p->KH) *
                                            (p->stride_w < p->KW ? p->stride_w : p->KW)
                                      : 1;
        const int64_t all = talc_ceil_div(g.group_in * phases, STEP) * STEP;
        if (folded && (all > MAX_FOLDED || p->H * p->W * g.group_in > INT_MAX))
            break;
        for (int arrangement = 0; arrangement < ARRANGEMENTS; arrangement++)
            for (int64_t channels = Form::STAGED ? STEP
                                    : all < 64   ? all
                                                 : 64;
                 channels >= STEP; channels -= STEP) {
                gemm_choice tried = { arrangement, (int)channels, 0, folded != 0 };
                if (!gemm_shape<Form>(g, p, gpu, tried))
                    continue;
                const int most = g.carry || g.tiles > 2 * gpu.multiprocessors ? 1 : g.chunks;
                for (int splits = 1; splits <= most; splits++) {
                    tried.part_chunks = (int)talc_ceil_div(g.chunks, splits);
                    gemm_split(g, tried.part_chunks);
                    /* In longer reductions patches of more channels pay, unless parts of them run at once. */
                    if (Form::STAGED && (tried.part_chunks > STAGED_CHUNKS ||
                                         (g.splits > 1 && g.tiles > gpu.multiprocessors)))
                        continue;
                    if (splits > 1 && gemm_workspace<Form>(g) > limit)
                        break;
                    const double time = gemm_seconds<Form>(g, gpu);
                    if (time < seconds) {
                        seconds = time;
                        choice = tried;
                    }
                }
            }
    }
    return seconds < INFINITY && gemm_shape<Form>(g, p, gpu, choice);
}

} // namespace talc

#endif
