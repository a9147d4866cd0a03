#include "backends/cuda/conv2d/implicit_gemm/plan.h"

#include "backends/cuda/conv2d/phases.h"
#include "backends/cuda/gemm/costs.h"
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

int64_t talc_gemm_packed_halo_tiles(const talc_gemm_layout *g)
{
    return g->packs ? (int64_t)g->groups * g->pixel_tiles * g->k_tiles : 0;
}

size_t talc_gemm_packed_halo_bytes(const talc_gemm_layout *g)
{
    return (size_t)talc_ceil_div(
               talc_gemm_packed_halo_tiles(g) * (g->halo_tile_bytes + TALC_GEMM_HALO_INFO), 128) *
           128;
}

size_t talc_gemm_limits_bytes(const talc_gemm_layout *g)
{
    return g->splits == 1 ? 0 : (size_t)g->tiles * 2 * TALC_GEMM_CHANNELS * sizeof(float);
}

/* Bytes of the transposed weights of dx. */
static size_t transposed_bytes(const talc_gemm_layout *g)
{
    return g->interleaves ? (size_t)g->groups * (size_t)g->dx.group_channels * (size_t)g->group_in *
                                (size_t)(g->dx.KH * g->dx.KW) * sizeof(float)
                          : 0;
}

size_t talc_gemm_workspace(const talc_gemm_layout *g, const talc_gemm_form *form)
{
    const size_t sums = g->splits == 1 ? 0 : (size_t)(g->splits * g->outputs) * sizeof(float);
    return talc_gemm_cached_bytes(g, form) + talc_gemm_packed_halo_bytes(g) + transposed_bytes(g) +
           talc_gemm_limits_bytes(g) + sums;
}

// ---- Tiles --------------------------------------------------------------------------------------

/* An axis of the forward problem of an input gradient: its taps are those of all phases, which lie
 * `dilation` apart in dy for one phase, but anywhere for several. */
static void forward_axis(int64_t dx, int64_t dy, int64_t stride, int64_t *K, int64_t *dilation,
                         int64_t *before, int64_t *behind)
{
    int64_t first = INT_MAX, last = -INT_MAX;
    for (int64_t i = 0; i < stride; i++) {
        const talc_phase_axis a = talc_phase_axis_of(dx, *K, stride, *dilation, *before, i);
        if (a.taps > 0) {
            first = talc_smaller(first, -a.before);
            last = talc_larger(last, (a.taps - 1) * a.dilation - a.before);
        }
    }
    const int64_t count = talc_ceil_div(dx, stride);
    *dilation = stride == 1 ? *dilation : 1;
    *K = first > last ? 0 : (last - first) / *dilation + 1;
    *before = -first, *behind = count - dy + last;
}

const char *talc_gemm_forward_of(const talc_conv2d_problem *p, talc_conv2d_problem *forward)
{
    *forward = *p;
    if (p->direction != TALC_GRAD_INPUT)
        return NULL;
    if (p->stride_h > TALC_GEMM_MAX_STRIDE || p->stride_w > TALC_GEMM_MAX_STRIDE)
        return "a stride of dx is above 16";
    talc_conv2d_problem *t = forward;
    forward_axis(p->H, p->OH, p->stride_h, &t->KH, &t->dilation_h, &t->pad_top, &t->pad_bottom);
    forward_axis(p->W, p->OW, p->stride_w, &t->KW, &t->dilation_w, &t->pad_left, &t->pad_right);
    t->only_inside = true;
    t->C = p->OC, t->H = p->OH, t->W = p->OW;
    t->OC = p->C;
    t->OH = talc_ceil_div(p->H, p->stride_h), t->OW = talc_ceil_div(p->W, p->stride_w);
    t->stride_h = t->stride_w = 1;
    if (p->stride_h * p->stride_w == 1 && talc_smaller(talc_smaller(t->pad_top, t->pad_bottom),
                                                       talc_smaller(t->pad_left, t->pad_right)) < 0)
        return "the padding is wider than the kernel reaches";
    return t->KH * t->KW == 0 ? "no element of dx has a tap" : NULL;
}

/* Sets the rows of the product and the phases of h, which have many taps or few. */
static void set_dx(talc_gemm_layout *g, const talc_conv2d_problem *p)
{
    talc_gemm_dx *dx = &g->dx;
    *dx = (talc_gemm_dx){ .group_channels = (int)(p->C / p->groups) };
    dx->H = (int)p->H, dx->W = (int)p->W, dx->KH = (int)p->KH, dx->KW = (int)p->KW;
    dx->stride_h = (int)p->stride_h, dx->stride_w = (int)p->stride_w;
    dx->dilation_h = (int)p->dilation_h, dx->dilation_w = (int)p->dilation_w;
    dx->top = (int)p->pad_top, dx->left = (int)p->pad_left;
    dx->channels = TALC_GEMM_ROWS / dx->stride_w;
    dx->sixteens = (int)talc_ceil_div(dx->group_channels, dx->channels);
    /* A warpgroup has the rows of one phase of h, unless that wastes most of them. */
    const int each = TALC_GEMM_CHANNELS / TALC_GEMM_ROWS;
    if (dx->sixteens >= each)
        dx->sixteens = (int)talc_ceil_div(dx->sixteens, each) * each;
    for (int h = 0; h < dx->stride_h; h++) {
        const talc_phase_axis a =
            talc_phase_axis_of(p->H, p->KH, p->stride_h, p->dilation_h, p->pad_top, h);
        const int64_t first = a.taps == 0 ? 0 : (g->top - a.before) / g->dilation_h,
                      taps = a.taps == 0 ? 0 : (a.taps - 1) * a.dilation / g->dilation_h + 1;
        int i = h;
        for (; i > 0 && dx->phase_h[i - 1].end - dx->phase_h[i - 1].first < taps; i--)
            dx->phase_h[i] = dx->phase_h[i - 1];
        dx->phase_h[i].phase = (short)h;
        dx->phase_h[i].first = (short)first, dx->phase_h[i].end = (short)(first + taps);
        dx->with_taps += taps > 0;
    }
    dx->by_taps = talc_divisor_of(p->KH * p->KW);
    dx->by_stride_h = talc_divisor_of(dx->stride_h);
    dx->by_stride_w = talc_divisor_of(dx->stride_w);
}

static const int64_t MAX_EXTENT = 1 << 20;

static bool extents_fit(const talc_conv2d_problem *p)
{
    const int64_t extents[] = { p->N,        p->C,          p->H,         p->W,  p->OC,
                                p->OH,       p->OW,         p->KH,        p->KW, p->stride_h,
                                p->stride_w, p->dilation_h, p->dilation_w };
    for (size_t i = 0; i < sizeof extents / sizeof *extents; i++)
        if (extents[i] < 0 || extents[i] > MAX_EXTENT)
            return false;
    /* The padding of a forward problem may be negative. */
    const int64_t pads[] = { p->pad_top, p->pad_bottom, p->pad_left, p->pad_right };
    for (int i = 0; i < 4; i++)
        if (pads[i] < -MAX_EXTENT || pads[i] > MAX_EXTENT)
            return false;
    return true;
}

bool talc_gemm_layout_of(const talc_conv2d_problem *given, talc_gemm_layout *g)
{
    talc_conv2d_problem forward;
    if (!extents_fit(given) || talc_gemm_forward_of(given, &forward) != NULL ||
        !extents_fit(&forward))
        return false;
    const talc_conv2d_problem *p = &forward;
    if (p->N * p->C * p->OC == 0 || p->H * p->W == 0 || p->OH * p->OW == 0)
        return false;
    const int64_t group_in = p->C / p->groups;
    if (p->H * p->W > MAX_EXTENT * 512 || p->OH * p->OW > INT_MAX / 32 ||
        (p->KH - 1) * p->dilation_h > MAX_EXTENT || (p->KW - 1) * p->dilation_w > MAX_EXTENT ||
        p->KH * p->KW > TALC_GEMM_MAX_STEPS || group_in * p->KH * p->KW > MAX_EXTENT * 1024 ||
        given->KH * given->KW > SHRT_MAX) /* weights.cuh, row_taps */
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
    g->only_inside = p->only_inside;
    g->gradient = given->direction == TALC_GRAD_INPUT;
    g->outputs = p->N * p->OC * p->OH * p->OW;
    if (g->gradient) {
        if (group_in * (given->C / given->groups) > INT_MAX / (given->KH * given->KW))
            return false;
        set_dx(g, given);
        g->interleaves = given->stride_h * given->stride_w > 1;
        g->outputs = given->N * given->C * given->H * given->W;
    }
    if (g->interleaves)
        g->group_out = g->dx.stride_h * g->dx.sixteens * TALC_GEMM_ROWS;
    g->by_groups = talc_divisor_of(g->groups);
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
    if (g->interleaves && g->tiles_with_taps < g->channel_tiles)
        g->lag = 0; /* a block may have no K tile */
}

/* Why rows cannot be staged (staged.cuh), whatever the tile; NULL. */
static const char *staged_refuses(const talc_gemm_layout *g, const talc_conv2d_problem *p)
{
    if (g->interleaves || p->stride_h * p->stride_w != 1)
        return "the stride is not 1";
    if (p->padding_mode != TALC_PADDING_ZEROS)
        return "the padding is not zeros";
    if (g->group_in % TALC_GEMM_STEP != 0)
        return "the input channels of a group are no multiple of 16";
    return NULL;
}

/* Sets the stages of a flat tile. Returns false where they do not fit. */
static bool set_stages(talc_gemm_layout *g, const talc_conv2d_problem *p, int channels)
{
    if (!g->flat || channels != TALC_GEMM_STEP || g->positions > TALC_GEMM_MAX_STAGED_POSITIONS ||
        staged_refuses(g, p) != NULL)
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

/* Of a forward problem, here and below. */
static bool set_tiles(talc_gemm_layout *g, const talc_gemm_form *form, const talc_conv2d_problem *p,
                      talc_gemm_gpu gpu, talc_gemm_choice choice)
{
    const int arrangement = choice.arrangement, channels = choice.channels;
    const bool zeros = p->padding_mode == TALC_PADDING_ZEROS;
    g->bands = choice.bands > 1 ? choice.bands : 1;
    g->taps_h = (int)talc_ceil_div(p->KH, g->bands), g->taps_w = g->KW;
    g->bands = (int)talc_ceil_div(p->KH, g->taps_h);
    g->by_bands = talc_divisor_of(g->bands);
    g->by_sixteens = talc_divisor_of(channels / TALC_GEMM_STEP);
    phase_axis h =
        phase_axis_of(p->H, p->OH, g->taps_h, p->stride_h, p->dilation_h, p->pad_top, zeros);
    phase_axis w =
        phase_axis_of(p->W, p->OW, p->KW, p->stride_w, p->dilation_w, p->pad_left, zeros);
    g->folded = choice.folded;
    g->fold_h = g->fold_w = 1;
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
    /* The rows of a flat tile end in the padding between images, and phases begin anew. */
    if (g->bands > 1 && (g->flat || g->folded || g->interleaves || choice.packs || p->stride_h > 1))
        return false;
    const int64_t units = h.count * w.count * positions;
    if (units > 16383 || pitch > 16383 ||
        (g->carry && (choice.packs || g->interleaves || g->column_tiles == 1 ||
                      p->OW % TALC_GEMM_SECTOR == 0 || p->OW % 2 != 0)))
        return false;
    g->pitch = (int)pitch;
    g->image_rows = (int)h.extent;
    g->positions = (int)positions;
    g->phases = (int)(h.count * w.count), g->phases_w = (int)w.count;
    g->phase_h_step = (int)h.step, g->phase_w_step = (int)w.step;
    g->packs = choice.packs;
    g->channels = channels;
    g->k_tiles = (int)talc_ceil_div(g->in, channels) * g->bands;
    /* The steps of a phase begin anywhere. */
    const int64_t steps =
        (int64_t)g->taps * (channels / TALC_GEMM_STEP) + (g->interleaves ? form->run - 1 : 0);
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
    const int channel_tile = TALC_GEMM_CHANNELS * (same ? 2 : 1);
    g->channel_tiles = (int)talc_ceil_div(g->group_out, channel_tile);
    /* A tile of two phases has as many taps as any other. */
    const int each = TALC_GEMM_CHANNELS / TALC_GEMM_ROWS;
    const bool alike =
        g->interleaves && same && g->dx.stride_h == 2 && g->dx.with_taps == 2 &&
        g->dx.sixteens % each == 0 &&
        (int64_t)g->pixel_tiles * g->groups * g->channel_tiles <= gpu.multiprocessors;
    g->dx.run = alike ? each : g->dx.sixteens;
    g->dx.by_run = talc_divisor_of(g->interleaves ? g->dx.run : 1);
    g->tiles_with_taps =
        g->interleaves
            ? (int)talc_ceil_div(g->dx.with_taps * g->dx.sixteens * TALC_GEMM_ROWS, channel_tile)
            : g->channel_tiles;
    const int64_t tiles = (int64_t)g->pixel_tiles * g->groups * g->channel_tiles;
    if (tiles > INT_MAX / 4 || talc_gemm_packed_halo_tiles(g) > INT_MAX)
        return false;
    g->tiles = (int)tiles;
    g->splits = 1;
    set_splits(g, choice.split_k_tiles > 0 ? choice.split_k_tiles : g->k_tiles);
    g->by_inner = talc_divisor_of(g->carry         ? g->column_tiles
                                  : g->interleaves ? 1
                                                   : g->channel_tiles),
    g->by_outer = talc_divisor_of(g->carry ? g->channel_tiles : g->column_tiles);
    g->by_row_tiles = talc_divisor_of(g->row_tiles), g->by_N = talc_divisor_of(g->N);
    g->by_pitch = talc_divisor_of(g->pitch), g->by_image_rows = talc_divisor_of(g->image_rows),
    g->by_positions = talc_divisor_of(g->positions);
    return g->buffers >= 1;
}

bool talc_gemm_set_tiles(talc_gemm_layout *g, const talc_gemm_form *form,
                         const talc_conv2d_problem *p, talc_gemm_gpu gpu, talc_gemm_choice choice)
{
    talc_conv2d_problem forward;
    return talc_gemm_forward_of(p, &forward) == NULL && set_tiles(g, form, &forward, gpu, choice);
}

// ---- Choice -------------------------------------------------------------------------------------

/* Clock cycles of the products of a step. Of mma.sync it is the longer of the products, at the rate
 * of the multiprocessor, and the accesses to shared memory. */
static double step_cycles(const talc_gemm_form *form, int capability)
{
    if (form->wgmma)
        return TALC_GEMM_BLOCKS * IMPLICIT_WGMMA * form->products * TALC_GEMM_MULTIPLIERS;
    const double rate = capability == 90                          ? IMPLICIT_RATE_MMA
                        : capability / 10 == 8 && capability > 80 ? IMPLICIT_RATE_MMA_8X
                                                                  : IMPLICIT_RATE_MMA_80;
    const double products = TALC_GEMM_MULTIPLIERS * TALC_GEMM_CHANNELS * form->rows *
                            TALC_GEMM_COLUMNS * TALC_GEMM_STEP * form->products / rate;
    const double reading = TALC_GEMM_MULTIPLIERS * 4 *
                           (form->rows * TALC_GEMM_BLOCKS * 256 + 1024) * parts_of(form) /
                           IMPLICIT_SHARED;
    return products > reading ? products : reading;
}

/* Clock cycles of a tile whose K tiles have so many steps, and of its loads. The two warpgroups
 * multiply in turn. Storing is for 8 rows. Loads overlap both where there are two halo tiles. */
static double tile_cycles(const talc_gemm_layout *g, const talc_gemm_form *form, int capability,
                          double steps_of_k_tile, double *loading)
{
    const double steps = (double)g->split_k_tiles * steps_of_k_tile * step_cycles(form, capability);
    const int positions = g->phases * g->positions;
    const double loaded = (positions + talc_ceil_div(positions, form->loaders) * form->loaders) /
                          2. * g->split_k_tiles * g->channels *
                          (g->taps == 1 ? IMPLICIT_ONE_TAP : 1);
    const double storing = g->flat || g->interleaves       ? IMPLICIT_STORE_FLAT
                           : g->OW % TALC_GEMM_SECTOR == 0 ? IMPLICIT_STORE_WHOLE
                           : g->carry
                               ? IMPLICIT_STORE_CARRY + IMPLICIT_STORE_CARRY / g->column_tiles
                               : IMPLICIT_STORE_OTHER;
    const double staging = IMPLICIT_STAGED + IMPLICIT_STAGED_ROUND *
                                                 (double)talc_ceil_div(g->positions, form->loaders),
                 products = steps * IMPLICIT_BUSY + storing * form->rows / 8,
                 loads = (g->packs ? g->split_k_tiles *
                                         (IMPLICIT_COPY + g->halo_tile_bytes / IMPLICIT_COPIED)
                          : form->staged ? g->split_k_tiles * staging
                                         : loaded / form->loads + IMPLICIT_LOAD * g->split_k_tiles);
    *loading = loads;
    if (steps_of_k_tile == 0)
        return products + IMPLICIT_TILE;
    const double longer = products > loads ? products : loads;
    const double rest = g->buffers == 1 ? IMPLICIT_REST_1 : IMPLICIT_REST;
    return longer + rest * (products + loads - longer) + IMPLICIT_TILE;
}

/* Seconds to pack halo tiles: each block of a multiprocessor's converts at its rate, unless memory
 * is slower. */
static double packing_seconds(const talc_gemm_layout *g, const talc_gemm_form *form,
                              talc_gemm_gpu gpu)
{
    if (!g->packs)
        return 0;
    const double image = (double)g->groups * g->group_in * g->N * g->H * g->W * 4,
                 packed = (double)talc_gemm_packed_halo_bytes(g),
                 blocks = ceil((double)talc_gemm_packed_halo_tiles(g) /
                               (IMPLICIT_PACKERS * gpu.multiprocessors)),
                 elements = g->halo_tile_bytes / (2. * parts_of(form)),
                 converting =
                     blocks * (IMPLICIT_PACK + elements / IMPLICIT_PACKED) / IMPLICIT_CLOCK,
                 moving = (image + packed) / IMPLICIT_PACKING_MEMORY;
    return IMPLICIT_PACKING + (converting > moving ? converting : moving);
}

/* Kernels of fewer taps fit shared memory whole. */
enum { MIN_BANDED_TAPS = 128, MAX_BANDS = 16 };

static double seconds_of(const talc_gemm_layout *g, const talc_gemm_form *form, talc_gemm_gpu gpu)
{
    const int64_t run = talc_gemm_run_of(g);
    double cycles = 0, loads = 0;
    if (!g->interleaves)
        cycles = ceil((double)(g->tiles / run) / gpu.multiprocessors) * (double)run *
                 tile_cycles(g, form, gpu.capability, g->steps, &loads);
    /* Channel tiles have more steps or fewer. The first block has the most. */
    const int64_t each = g->tiles / g->channel_tiles;
    for (int64_t c = 0, t = 0; g->interleaves && t < g->tiles; c++, t += each) {
        double steps = 0;
        for (int i = 0; i < TALC_GEMM_MULTIPLIERS; i++)
            steps += talc_gemm_steps_of(g, talc_gemm_block_of(g, (int)c, i), form->run).count / 2.;
        cycles += (double)(talc_ceil_div(t + each, gpu.multiprocessors) -
                           talc_ceil_div(t, gpu.multiprocessors)) *
                  tile_cycles(g, form, gpu.capability, steps, &loads);
    }
    const double computing = (cycles + loads / g->split_k_tiles) / IMPLICIT_CLOCK;
    /* Rows that may begin anywhere in a sector are slow to write, unless the L2 cache holds them
     * all. */
    const double written = (double)g->outputs * 4, read = (double)g->N * g->C * g->H * g->W * 4;
    const int columns = g->interleaves ? g->dx.W : g->OW;
    const bool slow = !g->carry && columns % TALC_GEMM_SECTOR != 0 && written > IMPLICIT_CACHED;
    const double stores = slow ? g->flat ? IMPLICIT_UNALIGNED_FLAT : IMPLICIT_UNALIGNED : 1;
    const double moving = (read + written * stores) / IMPLICIT_MEMORY;
    /* The splits are written to the L2 cache and read from there. */
    const double adding = g->splits == 1 ? 0
                                         : (g->interleaves ? IMPLICIT_ADDING_DX : IMPLICIT_ADDING) +
                                               g->splits * written / IMPLICIT_MEMORY;
    /* The weights of dx are written once more, and read by two passes. */
    const double transposing =
        g->interleaves ? IMPLICIT_TRANSPOSING + (2. * (double)transposed_bytes(g) +
                                                 (double)talc_gemm_packed_bytes(g, form)) /
                                                    IMPLICIT_TRANSPOSING_MEMORY
                       : 0;
    const double all = (computing > moving ? computing : moving) + adding + transposing +
                       packing_seconds(g, form, gpu) + IMPLICIT_LAUNCHES;
    return g->packs ? all * IMPLICIT_PACKS : all;
}

/* Keeps the fastest splits of a choice if they are faster than what was found before. */
static void try_splits(talc_gemm_layout *g, const talc_gemm_form *form,
                       const talc_conv2d_problem *p, talc_gemm_gpu gpu, size_t limit,
                       talc_gemm_choice tried, talc_gemm_choice *choice, double *seconds)
{
    if (!set_tiles(g, form, p, gpu, tried))
        return;
    const int max_splits = g->carry || g->tiles > 2 * gpu.multiprocessors ? 1 : g->k_tiles;
    for (int splits = 1; splits <= max_splits; splits++) {
        const int before = tried.split_k_tiles;
        tried.split_k_tiles = (int)talc_ceil_div(g->k_tiles, splits);
        if (tried.split_k_tiles % g->bands != 0 || tried.split_k_tiles == before)
            continue;
        set_splits(g, tried.split_k_tiles);
        /* An estimate of dx looks at every channel tile. */
        if (g->interleaves && splits > 1 && g->tiles > 2 * gpu.multiprocessors)
            break;
        /* Longer sums are faster with more channels in a halo tile, unless their splits run at
         * once. */
        if (form->staged && (tried.split_k_tiles > TALC_GEMM_MAX_STAGED_K_TILES ||
                             (g->splits > 1 && g->tiles > gpu.multiprocessors)))
            continue;
        if ((splits > 1 || g->packs) && talc_gemm_workspace(g, form) > limit)
            break;
        const double time = seconds_of(g, form, gpu);
        if (time < *seconds) {
            *seconds = time;
            *choice = tried;
        }
    }
}

/* The channels that x has with those of its phases. */
static int64_t folded_channels(const talc_gemm_layout *g, const talc_conv2d_problem *p)
{
    return g->group_in * talc_smaller(p->stride_h, p->KH) * talc_smaller(p->stride_w, p->KW);
}

bool talc_gemm_folds(const talc_gemm_layout *g, const talc_conv2d_problem *p)
{
    return g->group_in < TALC_GEMM_STEP && p->stride_h * p->stride_w > 1 &&
           (g->KH == 1 || g->dilation_h == 1) && (g->KW == 1 || g->dilation_w == 1) &&
           folded_channels(g, p) <= TALC_GEMM_MAX_FOLDED && p->H * p->W * g->group_in <= INT_MAX;
}

bool talc_gemm_choose(talc_gemm_layout *g, const talc_gemm_form *form, const talc_conv2d_problem *p,
                      talc_gemm_gpu gpu, size_t limit, talc_gemm_choice *choice, double *seconds)
{
    *seconds = (double)INFINITY;
    talc_conv2d_problem forward;
    if (talc_gemm_forward_of(p, &forward) != NULL)
        return false;
    p = &forward;
    for (int folded = 0; folded <= talc_gemm_folds(g, p); folded++) {
        const int64_t in = folded ? folded_channels(g, p) : g->group_in,
                      all = talc_ceil_div(in, TALC_GEMM_STEP) * TALC_GEMM_STEP;
        for (int arrangement = 0; arrangement < TALC_GEMM_ARRANGEMENTS; arrangement++)
            for (int64_t channels = form->staged ? TALC_GEMM_STEP
                                    : all < 64   ? all
                                                 : 64;
                 channels >= TALC_GEMM_STEP; channels -= TALC_GEMM_STEP) {
                talc_gemm_choice tried = { .arrangement = arrangement,
                                           .channels = (int)channels,
                                           .folded = folded != 0 };
                try_splits(g, form, p, gpu, limit, tried, choice, seconds);
                /* The products of dx by high and low parts take longer than loads. */
                tried.packs = form->packs && !(g->interleaves && form->products == 3);
                if (tried.packs)
                    try_splits(g, form, p, gpu, limit, tried, choice, seconds);
                tried.packs = false;
                for (tried.bands = 2; g->KH * g->KW >= MIN_BANDED_TAPS && tried.bands <= MAX_BANDS;
                     tried.bands *= 2)
                    try_splits(g, form, p, gpu, limit, tried, choice, seconds);
            }
    }
    return *seconds < (double)INFINITY && set_tiles(g, form, p, gpu, *choice);
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

int64_t talc_gemm_fewest_products(const talc_conv2d_problem *given)
{
    talc_conv2d_problem forward;
    if (talc_gemm_forward_of(given, &forward) != NULL)
        return 0;
    const talc_conv2d_problem *p = &forward;
    const int64_t channels = p->C / p->groups;
    if (given->direction == TALC_GRAD_INPUT && given->stride_h * given->stride_w > 1)
        return channels; /* one tap at least */
    if (p->padding_mode != TALC_PADDING_ZEROS)
        return channels * p->KH * p->KW;
    return channels * fewest_taps(p->H, p->OH, p->KH, p->stride_h, p->dilation_h, p->pad_top) *
           fewest_taps(p->W, p->OW, p->KW, p->stride_w, p->dilation_w, p->pad_left);
}

const char *talc_gemm_plan(talc_gemm_layout *g, const talc_gemm_form *form,
                           const talc_conv2d_problem *p, talc_gemm_gpu gpu, size_t limit,
                           talc_gemm_choice *choice, double *seconds)
{
    talc_conv2d_problem forward;
    const char *refusal = talc_gemm_refuses(p->dtype, gpu.capability, form->wgmma);
    if (refusal == NULL)
        refusal = talc_gemm_forward_of(p, &forward);
    if (refusal == NULL && !talc_gemm_layout_of(p, g))
        refusal = "it is empty, or an extent is too large";
    if (refusal == NULL && form->products == 3)
        refusal = talc_gemm_refuses_sums(talc_gemm_fewest_products(p));
    if (refusal == NULL && form->staged)
        refusal = staged_refuses(g, &forward);
    if (refusal != NULL || talc_gemm_choose(g, form, p, gpu, limit, choice, seconds))
        return refusal;
    /* Where a tile of staged rows fits, the sums are too long. */
    for (int i = 0; form->staged && i < TALC_GEMM_ARRANGEMENTS; i++) {
        const talc_gemm_choice tried = { .arrangement = i, .channels = TALC_GEMM_STEP };
        if (set_tiles(g, form, &forward, gpu, tried))
            return "sums of more than 128 channels";
    }
    return "the input under a tile does not fit shared memory";
}
