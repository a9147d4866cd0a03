#include "backends/cuda/conv2d/implicit_gemm/plan.h"

#include "tensor/extent.h"

#include <limits.h>
#include <math.h>

// ---- Memory -------------------------------------------------------------------------------------

/* Numbers that an element has in shared memory: its high part and, for three products, its low
 * part. */
static int parts_of(const talc_gemm_form *form)
{
    return form->products == 3 ? 2 : 1;
}

/* Bytes of the ring of weights in shared memory. */
static int ring_bytes(const talc_gemm_form *form)
{
    return form->depth * parts_of(form) * TALC_GEMM_MULTIPLIERS * 2048;
}

/* Shared memory of all warps that store. */
static int64_t all_store_bytes(const talc_gemm_layout *g)
{
    return (int64_t)TALC_GEMM_MULTIPLIERS * 4 * g->store_bytes;
}

int64_t talc_gemm_max_shared(talc_gemm_gpu gpu)
{
    return gpu.block_shared - 1024;
}

int64_t talc_gemm_shared_capacity(const talc_gemm_form *form, talc_gemm_gpu gpu)
{
    return talc_gemm_max_shared(gpu) -
           (form->staged ? TALC_GEMM_MAX_STAGED_POSITIONS * (int)sizeof(int) : 0);
}

size_t talc_gemm_shared_bytes(const talc_gemm_layout *g, const talc_gemm_form *form)
{
    return (size_t)(g->buffers * g->halo_tile_bytes + g->stages * g->stage_bytes +
                    ring_bytes(form) + all_store_bytes(g));
}

int64_t talc_gemm_channel_rows(const talc_gemm_layout *g)
{
    return (int64_t)g->groups * g->channel_tiles * talc_gemm_channel_warpgroups(g) *
           TALC_GEMM_CHANNELS;
}

size_t talc_gemm_packed_bytes(const talc_gemm_layout *g, const talc_gemm_form *form)
{
    return (size_t)talc_gemm_channel_rows(g) * g->k_tiles * g->steps * TALC_GEMM_STEP *
           parts_of(form) * 2;
}

size_t talc_gemm_cached_bytes(const talc_gemm_layout *g, const talc_gemm_form *form)
{
    return talc_gemm_packed_bytes(g, form) +
           (size_t)talc_gemm_channel_rows(g) * (sizeof(int) + sizeof(float));
}

size_t talc_gemm_limits_bytes(const talc_gemm_layout *g)
{
    return g->splits == 1 ? 0 : (size_t)g->tiles * 2 * TALC_GEMM_CHANNELS * sizeof(float);
}

size_t talc_gemm_workspace(const talc_gemm_layout *g, const talc_gemm_form *form)
{
    const size_t sums = g->splits == 1 ? 0 : (size_t)(g->splits * g->outputs) * sizeof(float);
    return talc_gemm_cached_bytes(g, form) + talc_gemm_limits_bytes(g) + sums;
}

// ---- Tiles --------------------------------------------------------------------------------------

bool talc_gemm_layout_of(const talc_conv2d_problem *p, talc_gemm_layout *g)
{
    static const int64_t MAX_EXTENT = 1 << 20;
    const int64_t extents[] = { p->N,        p->C,          p->H,         p->W,  p->OC,
                                p->OH,       p->OW,         p->KH,        p->KW, p->stride_h,
                                p->stride_w, p->dilation_h, p->dilation_w };
    for (size_t i = 0; i < sizeof extents / sizeof *extents; i++)
        if (extents[i] < 0 || extents[i] > MAX_EXTENT)
            return false;
    /* The padding of a phase of an input gradient may be negative (input_gradient.h). */
    const int64_t pads[] = { p->pad_top, p->pad_bottom, p->pad_left, p->pad_right };
    for (int i = 0; i < 4; i++)
        if (pads[i] < -MAX_EXTENT || pads[i] > MAX_EXTENT)
            return false;
    if (p->N * p->C * p->OC == 0 || p->H * p->W == 0 || p->OH * p->OW == 0)
        return false;
    const int64_t group_in = p->C / p->groups;
    if (p->H * p->W > MAX_EXTENT * 512 || p->OH * p->OW > INT_MAX / 32 ||
        (p->KH - 1) * p->dilation_h > MAX_EXTENT || (p->KW - 1) * p->dilation_w > MAX_EXTENT ||
        p->KH * p->KW > TALC_GEMM_MAX_STEPS || group_in * p->KH * p->KW > MAX_EXTENT * 1024)
        return false;
    *g = (talc_gemm_layout){ .N = (int)p->N };
    g->C = (int)p->C, g->H = (int)p->H, g->W = (int)p->W, g->OC = (int)p->OC;
    g->OH = (int)p->OH, g->OW = (int)p->OW, g->KH = (int)p->KH, g->KW = (int)p->KW,
    g->groups = (int)p->groups;
    g->group_in = (int)group_in, g->group_out = (int)(p->OC / p->groups);
    g->stride_h = (int)p->stride_h, g->stride_w = (int)p->stride_w;
    g->dilation_h = (int)p->dilation_h, g->dilation_w = (int)p->dilation_w;
    g->top = (int)p->pad_top, g->left = (int)p->pad_left;
    g->mode = p->padding_mode;
    g->only_inside = p->only_inside, g->absent = p->absent;
    g->outputs = p->N * p->OC * p->OH * p->OW;
    g->by_kernel = talc_divisor_of(g->KH * g->KW);
    return true;
}

/* The phases of a stride along one axis. */
typedef struct phase_axis {
    int64_t count, step; ///< phases that taps reach; elements from one to the next
    int64_t reach;       ///< positions from the first of a window to the last
    /// positions of an image; the last ones may be the first of the next image
    int64_t extent;
} phase_axis;

static phase_axis phase_axis_of(int64_t extent, int64_t O, int64_t K, int64_t stride,
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

/* What a warp stores its outputs by (store.cuh checks it): scales, a row of 16 channels and the
 * bits of what is recomputed; with carry also what is carried over from one tile to the next. */
static int store_bytes(const talc_gemm_form *form, bool carry)
{
    return 16 * 16 + 16 * TALC_GEMM_STORE_PITCH * 4 + form->rows * 32 * 2 +
           (carry ? form->rows * 16 * TALC_GEMM_SECTOR * 4 : 0);
}

int talc_gemm_shift_of(const talc_gemm_layout *g, int step)
{
    const int sixteens = g->channels / TALC_GEMM_STEP;
    const int tap = step / sixteens, kh = tap / g->taps_w, kw = tap - kh * g->taps_w;
    const int h = kh * (g->folded ? g->stride_h : g->dilation_h);
    const int w = kw * (g->folded ? g->stride_w : g->dilation_w);
    const int row = h / g->stride_h, column = w / g->stride_w;
    const int phase = (h - row * g->stride_h) / g->phase_h_step * g->phases_w +
                      (w - column * g->stride_w) / g->phase_w_step;
    const int plane = 2 * (step - tap * sixteens);
    return tap >= g->taps ? 0
                          : (plane * g->phases + phase) * g->positions + row * g->pitch + column;
}

/* Divides the K tiles of each tile into splits. */
static void set_splits(talc_gemm_layout *g, int split_k_tiles)
{
    g->tiles /= g->splits;
    g->split_k_tiles = split_k_tiles;
    g->splits = (int)talc_ceil_div(g->k_tiles, split_k_tiles);
    g->tiles *= g->splits;
    g->by_splits = talc_divisor_of(g->splits);
    const int last = g->k_tiles - (g->splits - 1) * split_k_tiles;
    g->lag = last < g->buffers - 1 ? last : g->buffers - 1;
}

/* Sets the stages of a flat tile (staged.cuh). Returns false where rows cannot be staged. */
static bool set_stages(talc_gemm_layout *g, const talc_conv2d_problem *p, int channels)
{
    if (!g->flat || g->folded || g->phases > 1 || p->stride_h * p->stride_w != 1 ||
        p->padding_mode != TALC_PADDING_ZEROS || channels != TALC_GEMM_STEP ||
        g->group_in % TALC_GEMM_STEP != 0 || g->positions > TALC_GEMM_MAX_STAGED_POSITIONS)
        return false;
    const int64_t plane = p->H * p->W, image = (int64_t)g->pitch * g->image_rows;
    const int64_t images = talc_ceil_div(g->positions - 1, image) + 1;
    /* With negative padding an image has more rows than positions need, and those lie between the
     * rows of two images. */
    const int64_t between = p->H > g->image_rows ? p->H - g->image_rows : 0;
    const int64_t rows = talc_ceil_div(g->positions - 1, g->pitch) + 1 + (images - 1) * between;
    g->stage_rows = p->W % 4 == 0;
    const int64_t bytes = TALC_GEMM_STEP * 4 * (g->stage_rows ? rows * p->W : images * plane);
    if (bytes > 1 << 20)
        return false;
    g->stage_step = (int)(g->stage_rows ? rows * p->W : plane);
    g->stage_bytes = (int)talc_ceil_div(bytes, 128) * 128;
    g->stages = TALC_GEMM_STAGES;
    return true;
}

bool talc_gemm_set_tiles(talc_gemm_layout *g, const talc_gemm_form *form,
                         const talc_conv2d_problem *p, talc_gemm_gpu gpu, talc_gemm_choice choice)
{
    const int arrangement = choice.arrangement, channels = choice.channels;
    const bool zeros = p->padding_mode == TALC_PADDING_ZEROS;
    phase_axis h = phase_axis_of(p->H, p->OH, p->KH, p->stride_h, p->dilation_h, p->pad_top, zeros);
    phase_axis w =
        phase_axis_of(p->W, p->OW, p->KW, p->stride_w, p->dilation_w, p->pad_left, zeros);
    g->folded = choice.folded;
    g->fold_h = g->fold_w = 1;
    g->taps_h = g->KH, g->taps_w = g->KW;
    if (g->folded) {
        g->fold_h = (int)h.count, g->fold_w = (int)w.count;
        g->taps_h = (int)h.reach + 1, g->taps_w = (int)w.reach + 1;
        h.count = w.count = 1;
    }
    g->taps = g->taps_h * g->taps_w;
    g->in = g->group_in * g->fold_h * g->fold_w;
    const bool same = arrangement == TALC_GEMM_SAME || arrangement == TALC_GEMM_FLAT_SAME ||
                      arrangement == TALC_GEMM_SAME_CARRY;
    const bool below = arrangement == TALC_GEMM_BELOW || arrangement == TALC_GEMM_BELOW_CARRY;
    g->carry = arrangement == TALC_GEMM_SAME_CARRY || arrangement == TALC_GEMM_BELOW_CARRY;
    g->flat = arrangement == TALC_GEMM_FLAT_SAME || arrangement == TALC_GEMM_FLAT_BEHIND;
    int64_t positions, pitch;
    if (g->flat) {
        g->tile_rows = 1;
        g->tile_columns = form->rows * form->columns * (same ? 1 : TALC_GEMM_MULTIPLIERS);
        pitch = w.extent;
        positions = g->tile_columns + h.reach * pitch + w.reach;
        const int64_t all = ((p->N - 1) * h.extent + p->OH - 1) * pitch + p->OW;
        if (all + positions > INT_MAX)
            return false;
        g->row_shift = TALC_GEMM_COLUMNS;
        g->warpgroup_shift = same ? 0 : form->rows * TALC_GEMM_COLUMNS;
        g->row_tiles = 1;
        g->column_tiles = (int)talc_ceil_div(all, g->tile_columns);
        g->pixel_tiles = g->column_tiles;
    } else {
        g->tile_rows = below ? TALC_GEMM_MULTIPLIERS * form->rows : form->rows;
        g->tile_columns =
            (arrangement == TALC_GEMM_BESIDE ? TALC_GEMM_MULTIPLIERS : 1) * form->columns;
        pitch = g->tile_columns + w.reach;
        positions = (g->tile_rows + h.reach) * pitch;
        g->row_shift = (int)pitch;
        g->warpgroup_shift = same ? 0 : below ? form->rows * (int)pitch : TALC_GEMM_COLUMNS;
        g->row_tiles = (int)talc_ceil_div(p->OH, g->tile_rows);
        g->column_tiles = (int)talc_ceil_div(p->OW, g->tile_columns);
        const int64_t tiles = p->N * g->row_tiles * g->column_tiles;
        if (tiles > INT_MAX)
            return false;
        g->pixel_tiles = (int)tiles;
    }
    const int64_t units = h.count * w.count * positions;
    if (units > 16383 || pitch > 16383 ||
        (g->carry && (g->column_tiles == 1 || p->OW % TALC_GEMM_SECTOR == 0 || p->OW % 2 != 0)))
        return false;
    g->pitch = (int)pitch;
    g->image_rows = (int)h.extent;
    g->positions = (int)positions;
    g->phases = (int)(h.count * w.count), g->phases_w = (int)w.count;
    g->phase_h_step = (int)h.step, g->phase_w_step = (int)w.step;
    g->channels = channels;
    g->k_tiles = (int)talc_ceil_div(g->in, channels);
    const int64_t steps = (int64_t)g->taps * (channels / TALC_GEMM_STEP);
    g->steps = (int)(talc_ceil_div(steps, form->run) * form->run);
    if (g->steps > TALC_GEMM_MAX_STEPS)
        return false;
    g->halo_tile_bytes = (int)((parts_of(form) * channels * 2 * units + 127) / 128 * 128);
    g->store_bytes = store_bytes(form, g->carry);
    int64_t capacity = talc_gemm_shared_capacity(form, gpu) - ring_bytes(form) - all_store_bytes(g);
    if (form->staged) {
        if (!set_stages(g, p, channels))
            return false;
        capacity -= g->stages * g->stage_bytes;
    }
    const int64_t buffers = capacity / g->halo_tile_bytes;
    g->buffers = (int)(buffers < TALC_GEMM_MAX_BUFFERS ? buffers : TALC_GEMM_MAX_BUFFERS);
    g->channel_tiles = (int)talc_ceil_div(g->group_out, TALC_GEMM_CHANNELS * (same ? 2 : 1));
    const int64_t tiles = (int64_t)g->pixel_tiles * g->groups * g->channel_tiles;
    if (tiles > INT_MAX / 4)
        return false;
    g->tiles = (int)tiles;
    g->splits = 1;
    set_splits(g, choice.split_k_tiles > 0 ? choice.split_k_tiles : g->k_tiles);
    g->by_inner = talc_divisor_of(g->carry ? g->column_tiles : g->channel_tiles),
    g->by_outer = talc_divisor_of(g->carry ? g->channel_tiles : g->column_tiles);
    g->by_row_tiles = talc_divisor_of(g->row_tiles), g->by_N = talc_divisor_of(g->N);
    g->by_pitch = talc_divisor_of(g->pitch), g->by_image_rows = talc_divisor_of(g->image_rows),
    g->by_positions = talc_divisor_of(g->positions);
    return g->buffers >= 1;
}

// ---- Choice -------------------------------------------------------------------------------------

/* Clock cycles of the products of a step. Of mma.sync it is the longer of the products, at the rate
 * of the multiprocessor, and the accesses to shared memory, 128 bytes a cycle. */
static double step_cycles(const talc_gemm_form *form, int capability)
{
    if (form->wgmma)
        return TALC_GEMM_BLOCKS * 32 * form->products * TALC_GEMM_MULTIPLIERS;
    const double rate = capability == 90                          ? 1270
                        : capability / 10 == 8 && capability > 80 ? 512
                                                                  : 1024;
    const double products = TALC_GEMM_MULTIPLIERS * TALC_GEMM_CHANNELS * form->rows *
                            TALC_GEMM_COLUMNS * TALC_GEMM_STEP * form->products / rate;
    const double reading = TALC_GEMM_MULTIPLIERS * 4 *
                           (form->rows * TALC_GEMM_BLOCKS * 256 + 1024) * parts_of(form) / 128.;
    return products > reading ? products : reading;
}

static double seconds_of(const talc_gemm_layout *g, const talc_gemm_form *form, talc_gemm_gpu gpu)
{
    static const double CLOCK = 1.75e9, MEMORY = 4e12;
    /* Clock cycles of a tile. The two warpgroups multiply in turn. Storing is for 8 rows. Loads
     * overlap both where there are two halo tiles. */
    const double steps = (double)g->split_k_tiles * g->steps * step_cycles(form, gpu.capability);
    const int positions = g->phases * g->positions;
    const double loaded = (positions + talc_ceil_div(positions, form->loaders) * form->loaders) /
                          2. * g->split_k_tiles * g->channels * (g->taps == 1 ? 0.72 : 1);
    const double storing = g->flat                         ? 13000
                           : g->OW % TALC_GEMM_SECTOR == 0 ? 11500
                           : g->carry                      ? 12000 + 12000. / g->column_tiles
                                                           : 18000;
    const double products = steps * 1.1 + storing * form->rows / 8,
                 loads = form->staged
                             ? g->split_k_tiles *
                                   (350. + 500 * (double)talc_ceil_div(g->positions, form->loaders))
                             : loaded / form->loads + 1500. * g->split_k_tiles;
    const double longer = products > loads ? products : loads;
    const double tile = longer + (g->buffers == 1 ? 0.5 : 0.15) * (products + loads - longer) + 500;
    const int64_t run = talc_gemm_run_of(g);
    const double waves = ceil((double)(g->tiles / run) / gpu.multiprocessors) * (double)run;
    const double computing = (waves * tile + loads / g->split_k_tiles) / CLOCK;
    /* Rows that may begin anywhere in a sector are slow to write, unless the L2 cache holds them
     * all. */
    const double written = (double)g->N * g->OC * g->OH * g->OW * 4,
                 read = (double)g->N * g->C * g->H * g->W * 4;
    const bool slow = !g->carry && g->OW % TALC_GEMM_SECTOR != 0 && written > 40e6;
    const double moving = (read + written * (slow ? g->flat ? 1.7 : 3.3 : 1)) / MEMORY;
    /* The splits are written to the L2 cache and read from there. */
    const double adding = g->splits == 1 ? 0 : 4e-6 + g->splits * written / MEMORY;
    return (computing > moving ? computing : moving) + adding + 10e-6;
}

bool talc_gemm_choose(talc_gemm_layout *g, const talc_gemm_form *form, const talc_conv2d_problem *p,
                      talc_gemm_gpu gpu, size_t limit, talc_gemm_choice *choice, double *seconds)
{
    *seconds = (double)INFINITY;
    const bool folds = g->group_in < TALC_GEMM_STEP && p->stride_h * p->stride_w > 1 &&
                       (g->KH == 1 || g->dilation_h == 1) && (g->KW == 1 || g->dilation_w == 1);
    for (int folded = 0; folded <= (folds ? 1 : 0); folded++) {
        const int64_t phases = folded ? (p->stride_h < p->KH ? p->stride_h : p->KH) *
                                            (p->stride_w < p->KW ? p->stride_w : p->KW)
                                      : 1;
        const int64_t all = talc_ceil_div(g->group_in * phases, TALC_GEMM_STEP) * TALC_GEMM_STEP;
        if (folded && (all > TALC_GEMM_MAX_FOLDED || p->H * p->W * g->group_in > INT_MAX))
            break;
        for (int arrangement = 0; arrangement < TALC_GEMM_ARRANGEMENTS; arrangement++)
            for (int64_t channels = form->staged ? TALC_GEMM_STEP
                                    : all < 64   ? all
                                                 : 64;
                 channels >= TALC_GEMM_STEP; channels -= TALC_GEMM_STEP) {
                talc_gemm_choice tried = { arrangement, (int)channels, 0, folded != 0 };
                if (!talc_gemm_set_tiles(g, form, p, gpu, tried))
                    continue;
                const int max_splits =
                    g->carry || g->tiles > 2 * gpu.multiprocessors ? 1 : g->k_tiles;
                for (int splits = 1; splits <= max_splits; splits++) {
                    tried.split_k_tiles = (int)talc_ceil_div(g->k_tiles, splits);
                    set_splits(g, tried.split_k_tiles);
                    /* Longer sums are faster with more channels in a halo tile, unless their splits
                     * run at once. */
                    if (form->staged && (tried.split_k_tiles > TALC_GEMM_MAX_STAGED_K_TILES ||
                                         (g->splits > 1 && g->tiles > gpu.multiprocessors)))
                        continue;
                    if (splits > 1 && talc_gemm_workspace(g, form) > limit)
                        break;
                    const double time = seconds_of(g, form, gpu);
                    if (time < *seconds) {
                        *seconds = time;
                        *choice = tried;
                    }
                }
            }
    }
    return *seconds < (double)INFINITY && talc_gemm_set_tiles(g, form, p, gpu, *choice);
}

// ---- The plan -----------------------------------------------------------------------------------

/* The fewest taps of an axis that lie inside the image for any output, but at least one. */
static int64_t fewest_taps(int64_t extent, int64_t O, int64_t K, int64_t stride, int64_t dilation,
                           int64_t pad)
{
    int64_t fewest = K;
    for (int64_t o = 0; o < O; o++) {
        const int64_t begin = o * stride - pad, end = begin + (K - 1) * dilation;
        if (begin >= 0 && end < extent) {
            /* The last output of which that is true. */
            o = (extent - 1 - (end - begin) + pad) / stride;
            continue;
        }
        const int64_t outside = begin < 0 ? talc_ceil_div(-begin, dilation) : 0;
        const int64_t taps = begin >= extent ? 0 : (extent - 1 - begin) / dilation + 1;
        const int64_t inside = (taps < K ? taps : K) - outside;
        if (inside > 0 && inside < fewest)
            fewest = inside;
    }
    return fewest;
}

int64_t talc_gemm_fewest_products(const talc_conv2d_problem *p)
{
    const int64_t channels = p->C / p->groups;
    if (p->absent) /* one tap at least */
        return channels;
    if (p->padding_mode != TALC_PADDING_ZEROS)
        return channels * p->KH * p->KW;
    return channels * fewest_taps(p->H, p->OH, p->KH, p->stride_h, p->dilation_h, p->pad_top) *
           fewest_taps(p->W, p->OW, p->KW, p->stride_w, p->dilation_w, p->pad_left);
}

const char *talc_gemm_plan(talc_gemm_layout *g, const talc_gemm_form *form,
                           const talc_conv2d_problem *p, talc_gemm_gpu gpu, size_t limit,
                           talc_gemm_choice *choice, double *seconds)
{
    if (p->dtype != TALC_F32)
        return "the data is not f32";
    if (form->wgmma && gpu.capability != 90)
        return "the GPU is not of compute capability 9.0";
    if (gpu.capability < 80)
        return "the GPU is older than compute capability 8.0";
    if (!talc_gemm_layout_of(p, g))
        return "it is empty, or an extent is too large";
    if (form->products == 3 && talc_gemm_fewest_products(p) < TALC_GEMM_MIN_PRODUCTS)
        return "sums of fewer than 16 products";
    if (!talc_gemm_choose(g, form, p, gpu, limit, choice, seconds))
        return "the patch under a tile does not fit shared memory";
    return NULL;
}
