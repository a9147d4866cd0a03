/// How implicit_gemm divides a problem into tiles, halo tiles and steps. Private to backends/cuda.
#ifndef TALC_BACKENDS_CUDA_CONV2D_IMPLICIT_GEMM_PLAN_CUH
#define TALC_BACKENDS_CUDA_CONV2D_IMPLICIT_GEMM_PLAN_CUH

#include "backends/cuda/conv2d/implicit_gemm/store.cuh"
#include "backends/cuda/conv2d/implicit_gemm/staged.cuh"
#include "tensor/extent.h"

#include <cmath>
#include <initializer_list>

namespace talc
{

/// Shared memory that a block may ask for: what the GPU has, less what the kernel declares.
inline int64_t gemm_max_shared(const talc_cuda_state &gpu)
{
    return gpu.block_shared - 1024;
}
/// The same, less the offsets of positions that the STAGED kernel declares.
template <typename Form> inline int64_t gemm_shared_capacity(const talc_cuda_state &gpu)
{
    return gemm_max_shared(gpu) - (Form::STAGED ? MAX_STAGED_POSITIONS * (int)sizeof(int) : 0);
}

/// Columns of a tile that does not run on over the ends of rows.
template <typename Form> constexpr int TILE_COLUMNS = COLUMNS;

inline int64_t gemm_store_bytes(const gemm_problem &g)
{
    return (int64_t)MULTIPLIERS * 4 * g.store_bytes;
}

template <typename Form> inline size_t gemm_shared_bytes(const gemm_problem &g)
{
    return (size_t)(g.buffers * g.halo_tile_bytes + g.stages * g.stage_bytes + RING<Form> +
                    gemm_store_bytes(g));
}

inline int64_t gemm_channel_rows(const gemm_problem &g)
{
    return (int64_t)g.groups * g.channel_tiles * (g.warpgroup_shift == 0 ? 2 : 1) * CHANNELS;
}

template <typename Form> inline size_t gemm_packed_bytes(const gemm_problem &g)
{
    return (size_t)gemm_channel_rows(g) * g.k_tiles * g.steps * STEP * PARTS<Form> * 2;
}

/// The phases of a stride along one axis.
struct phase_axis {
    int64_t count, step; ///< phases that taps reach; elements from one to the next
    int64_t reach;       ///< positions from the first of a window to the last
    /// positions of an image; the last ones may be the first of the next image
    int64_t extent;
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

/// How the two warpgroups share a tile. SAME: the same positions, other channels. BELOW and BESIDE:
/// positions below or beside. FLAT_SAME and FLAT_BEHIND: flat tiles, with the same positions or
/// those behind. SAME_CARRY and BELOW_CARRY carry sectors over along a row.
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

/// What a plan stores: the arrangement, the channels of a K tile, the K tiles of a split (0: all),
/// and whether the phases of the stride are folded into channels.
struct gemm_choice {
    int arrangement, channels, split_k_tiles;
    bool folded;
};

/// Divides the K tiles of each tile into splits.
inline void gemm_split(gemm_problem &g, int split_k_tiles)
{
    g.tiles /= g.splits;
    g.split_k_tiles = split_k_tiles;
    g.splits = (int)talc_ceil_div(g.k_tiles, split_k_tiles);
    g.tiles *= g.splits;
    g.by_splits.set(g.splits);
    const int last = g.k_tiles - (g.splits - 1) * split_k_tiles;
    g.lag = last < g.buffers - 1 ? last : g.buffers - 1;
}

/// Bytes of the exponents and thresholds of the weights.
inline size_t gemm_scales_bytes(const gemm_problem &g)
{
    return (size_t)gemm_channel_rows(g) * (sizeof(int) + sizeof(float));
}

/// Bytes of the limits below which the sums of split-K are recomputed.
inline size_t gemm_limits_bytes(const gemm_problem &g)
{
    return g.splits == 1 ? 0 : (size_t)g.tiles * 2 * CHANNELS * sizeof(float);
}

inline size_t gemm_split_sums_bytes(const gemm_problem &g)
{
    return g.splits == 1 ? 0 : (size_t)(g.splits * g.outputs) * sizeof(float);
}

/// Bytes of what depends on the weights alone.
template <typename Form> inline size_t gemm_cached_bytes(const gemm_problem &g)
{
    return gemm_packed_bytes<Form>(g) + gemm_scales_bytes(g);
}

template <typename Form> inline size_t gemm_workspace(const gemm_problem &g)
{
    return gemm_cached_bytes<Form>(g) + gemm_limits_bytes(g) + gemm_split_sums_bytes(g);
}

/// Sets the stages of a flat tile (staged.cuh). Returns false where rows cannot be staged.
template <typename Form>
inline bool gemm_stage(gemm_problem &g, const talc_conv2d_problem *p, int channels)
{
    if (!g.flat || g.folded || g.phases > 1 || p->stride_h * p->stride_w != 1 ||
        p->padding_mode != TALC_PADDING_ZEROS || channels != STEP || g.group_in % STEP != 0 ||
        g.positions > MAX_STAGED_POSITIONS)
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

/// Sets the tiles and halo tiles of a choice. Returns false where they do not fit.
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
        g.warpgroup_shift = same ? 0 : Form::ROWS * COLUMNS;
        g.row_tiles = 1;
        g.column_tiles = (int)talc_ceil_div(all, g.tile_columns);
        g.pixel_tiles = g.column_tiles;
    } else {
        g.tile_rows = below ? MULTIPLIERS * Form::ROWS : Form::ROWS;
        g.tile_columns = (arrangement == BESIDE ? MULTIPLIERS : 1) * TILE_COLUMNS<Form>;
        pitch = g.tile_columns + w.reach;
        positions = (g.tile_rows + h.reach) * pitch;
        g.row_shift = (int)pitch;
        g.warpgroup_shift = same ? 0 : below ? Form::ROWS * (int)pitch : COLUMNS;
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
    g.k_tiles = (int)talc_ceil_div(g.in, channels);
    const int64_t steps = (int64_t)g.taps * (channels / STEP);
    g.steps = (int)(talc_ceil_div(steps, Form::RUN) * Form::RUN);
    if (g.steps > MAX_STEPS)
        return false;
    g.halo_tile_bytes = (int)((PARTS<Form> * channels * 2 * units + 127) / 128 * 128);
    g.store_bytes = (int)sizeof(store_buffer<Form::ROWS>) + (g.carry ? CARRIED_BYTES<Form> : 0);
    int64_t capacity = gemm_shared_capacity<Form>(gpu) - RING<Form> - gemm_store_bytes(g);
    if (Form::STAGED) {
        if (!gemm_stage<Form>(g, p, channels))
            return false;
        capacity -= g.stages * g.stage_bytes;
    }
    const int64_t buffers = capacity / g.halo_tile_bytes;
    g.buffers = (int)(buffers < MAX_BUFFERS ? buffers : MAX_BUFFERS);
    g.channel_tiles = (int)talc_ceil_div(g.group_out, CHANNELS * (same ? 2 : 1));
    const int64_t tiles = (int64_t)g.pixel_tiles * g.groups * g.channel_tiles;
    if (tiles > INT_MAX / 4)
        return false;
    g.tiles = (int)tiles;
    g.splits = 1;
    gemm_split(g, choice.split_k_tiles > 0 ? choice.split_k_tiles : g.k_tiles);
    g.by_inner.set(g.carry ? g.column_tiles : g.channel_tiles),
        g.by_outer.set(g.carry ? g.channel_tiles : g.column_tiles);
    g.by_row_tiles.set(g.row_tiles), g.by_N.set(g.N);
    g.by_pitch.set(g.pitch), g.by_image_rows.set(g.image_rows), g.by_positions.set(g.positions);
    return g.buffers >= 1;
}

/// Sets where each step's operand begins in the halo tile, and what the folded channels are. Steps
/// beyond the last have zero weights and read the first operand.
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

/// Seconds that the kernel takes, by a model that was measured on an H200.
template <typename Form>
inline double gemm_seconds(const gemm_problem &g, const talc_cuda_state &gpu)
{
    constexpr double CLOCK = 1.75e9, MEMORY = 4e12;
    /* Clock cycles of a tile. The two warpgroups multiply in turn. Storing is for 8 rows. Loads
     * overlap both where there are two halo tiles. */
    const double steps = (double)g.split_k_tiles * g.steps * Form::cycles(gpu.capability);
    const int positions = g.phases * g.positions;
    const double loaded = (positions + talc_ceil_div(positions, Form::LOADERS) * Form::LOADERS) /
                          2. * g.split_k_tiles * g.channels * (g.taps == 1 ? 0.72 : 1);
    const double storing = g.flat               ? 13000
                           : g.OW % SECTOR == 0 ? 11500
                           : g.carry            ? 12000 + 12000. / g.column_tiles
                                                : 18000;
    const double products = steps * 1.1 + storing * Form::ROWS / 8,
                 loads = Form::STAGED
                             ? g.split_k_tiles *
                                   (350. + 500 * (double)talc_ceil_div(g.positions, Form::LOADERS))
                             : loaded / Form::LOADS + 1500. * g.split_k_tiles;
    const double longer = products > loads ? products : loads;
    const double tile = longer + (g.buffers == 1 ? 0.5 : 0.15) * (products + loads - longer) + 500;
    const int64_t run = tiles_of_run(g);
    const double waves = ceil((double)(g.tiles / run) / gpu.multiprocessors) * (double)run;
    const double computing = (waves * tile + loads / g.split_k_tiles) / CLOCK;
    /* Rows that may begin anywhere in a sector are slow to write, unless the L2 cache holds them
     * all. */
    const double written = (double)g.N * g.OC * g.OH * g.OW * 4,
                 read = (double)g.N * g.C * g.H * g.W * 4;
    const bool slow = !g.carry && g.OW % SECTOR != 0 && written > 40e6;
    const double moving = (read + written * (slow ? g.flat ? 1.7 : 3.3 : 1)) / MEMORY;
    /* The splits are written to the L2 cache and read from there. */
    const double adding = g.splits == 1 ? 0 : 4e-6 + g.splits * written / MEMORY;
    return (computing > moving ? computing : moving) + adding + 10e-6;
}

/// Sets the problem in 32 bits, without tiles. Returns false where it is empty or does not fit.
template <typename Form> inline bool gemm_problem_of(const talc_conv2d_problem *p, gemm_problem &g)
{
    constexpr int64_t MAX_EXTENT = 1 << 20;
    const int64_t extents[] = { p->N,        p->C,          p->H,         p->W,  p->OC,
                                p->OH,       p->OW,         p->KH,        p->KW, p->stride_h,
                                p->stride_w, p->dilation_h, p->dilation_w };
    for (int64_t extent : extents)
        if (extent < 0 || extent > MAX_EXTENT)
            return false;
    /* The padding of a phase of an input gradient may be negative (input_gradient.h). */
    for (int64_t pad : { p->pad_top, p->pad_bottom, p->pad_left, p->pad_right })
        if (pad < -MAX_EXTENT || pad > MAX_EXTENT)
            return false;
    if (p->N * p->C * p->OC == 0 || p->H * p->W == 0 || p->OH * p->OW == 0)
        return false;
    const int64_t group_in = p->C / p->groups;
    if (p->H * p->W > MAX_EXTENT * 512 || p->OH * p->OW > INT_MAX / 32 ||
        (p->KH - 1) * p->dilation_h > MAX_EXTENT || (p->KW - 1) * p->dilation_w > MAX_EXTENT ||
        p->KH * p->KW > MAX_STEPS || group_in * p->KH * p->KW > MAX_EXTENT * 1024)
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
    g.min_tininess = TINY<Form::PRODUCTS>;
    g.coefficient = Form::PRODUCTS == 3 ? 0x1p14f / (float)(g.group_in * g.KH * g.KW / 4 + 2) : 4;
    return true;
}

/// Finds the fastest tiles of a problem that gemm_problem_of has set, and their time. Returns false
/// where none fit. Split-K is chosen only where the workspace stays below the limit.
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
                const int max_splits = g.carry || g.tiles > 2 * gpu.multiprocessors ? 1 : g.k_tiles;
                for (int splits = 1; splits <= max_splits; splits++) {
                    tried.split_k_tiles = (int)talc_ceil_div(g.k_tiles, splits);
                    gemm_split(g, tried.split_k_tiles);
                    /* Longer sums are faster with more channels in a halo tile, unless their splits
                     * run at once. */
                    if (Form::STAGED && (tried.split_k_tiles > MAX_STAGED_K_TILES ||
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
