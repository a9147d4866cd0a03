/// The tasks of implicit_gemm's product, which fill shared halo tiles, multiply and finish panels;
/// its table of terms.
#include "backends/cpu/conv2d/algorithms.h"
#include "backends/cpu/conv2d/implicit_gemm_block.h"
#include "backends/cpu/device/threads.h"
#include "backends/cpu/primitives/element.h"
#include "backends/cpu/primitives/epilogue.h"
#include "backends/cpu/primitives/finite.h"

#include <math.h>

enum {
    FILLED = 16, /* channels of a shared halo tile that a task fills */
    LINE = 16,   /* elements of a cache line of f32 */
};

static bool is_input_gradient(const gemm_context *c)
{
    return c->problem->direction == TALC_GRAD_INPUT;
}

/* The first element of w for plane `from` of x and the first plane that a block makes. */
static const char *w_at(const gemm_context *c, const gemm_block *b, int64_t from)
{
    const talc_cpu_gemm *g = c->gemm;
    const int64_t at = b->g * g->weight.group_stride + b->out_channel * g->weight.out_stride +
                       from * g->weight.in_stride;
    return talc_cpu_at(g->dtype, c->w, at);
}

/* Range 0 has all taps; 1 .. taps - 1 leave out the first i, for outputs at the start of the axis;
 * from `taps` on only the first i - taps + 1 remain, for outputs at its end. */
static talc_range range_at(int64_t taps, int64_t i)
{
    return i < taps ? (talc_range){ i, taps } : (talc_range){ 0, i - taps + 1 };
}

/* The number of the range of taps with which some of the outputs from `first` to `last` read the
 * image. */
static int64_t range_of(const talc_cpu_axis *axis, int64_t first, int64_t last)
{
    const int64_t from = axis->start + first * axis->stride, to = axis->start + last * axis->stride;
    int64_t lo = 0, taps = axis->taps;
    while (lo + 1 < taps && to + lo * axis->dilation < 0)
        lo++;
    while (taps > 1 && from + (taps - 1) * axis->dilation >= axis->extent)
        taps--;
    return lo > 0 ? lo : taps < axis->taps ? axis->taps + taps - 1 : 0;
}

/* Has the tile at sum `at` take the terms alone that reach the image. */
static void set_range(const gemm_context *c, const gemm_block *b, const sums_layout *layout,
                      int64_t at, int64_t width, int64_t in_channels, talc_cpu_tile *tile)
{
    const talc_cpu_gemm *g = c->gemm;
    const talc_cpu_gemm_plan *plan = c->plan;
    const int64_t part = at / layout->part_stride, end = at + width - 1,
                  to = end / layout->part_stride;
    const bool same_image = part / plan->segments == to / plan->segments;
    const int64_t first = part == to ? at % layout->part_stride / layout->row_stride : 0;
    const int64_t last = part == to ? end % layout->part_stride / layout->row_stride : b->rows;
    const int64_t column = part % plan->segments * layout->row_stride;
    const int64_t columns_end = (to % plan->segments + 1) * layout->row_stride;
    const int64_t h =
        same_image && plan->h_ranges > 1
            ? range_of(&g->h, b->row + first, b->row + talc_smaller(last, b->rows - 1))
            : 0;
    const int64_t w = same_image && plan->w_ranges > 1
                          ? range_of(&g->w, b->column + column,
                                     b->column + talc_smaller(columns_end, b->columns) - 1)
                          : 0;
    const talc_range rows = range_at(g->h.taps, h), columns = range_at(g->w.taps, w);
    tile->terms = c->terms + (h * plan->w_ranges + w) * plan->in_channels * g->h.taps * g->w.taps;
    tile->count = in_channels * (rows.hi - rows.lo) * (columns.hi - columns.lo);
}

/* Adds the products with `in_channels` planes of x in the halo tile to the sums of a panel of
 * `count` planes from `out_channel` on: [tile][plane][vectors of the tile], or y. */
static void add_products(const gemm_context *c, const gemm_block *b, int64_t out_channel,
                         int64_t in_channels, int64_t count, bool ranged, talc_cpu_tile *tile,
                         const char *halo_tile, char *sums)
{
    const talc_cpu_gemm *g = c->gemm;
    const talc_cpu_gemm_plan *plan = c->plan;
    const int64_t size = (int64_t)talc_dtype_size(g->dtype), lanes = g->kernels->lanes;
    const int64_t full = TALC_CPU_VECTORS * lanes;
    const sums_layout layout = layout_of(g, plan, b);
    const int64_t each = plan->gathered ? full : layout.part_stride;
    const int64_t source_stride = plan->gathered ? in_channels * g->h.taps * g->w.taps * full
                                  : plan->segments > 1
                                      ? plan->halo_tile.h.size * plan->halo_tile.w.size
                                      : plan->halo_tile.image_stride;
    const int64_t between_images = plan->halo_tile.image_stride - plan->segments * source_stride;
    for (int64_t at = 0, width; at < layout.all; at += width, sums += width * count * size) {
        width = width_at(g, plan, &layout, at);
        for (int64_t v = 0; v * lanes < width; v++) {
            const int64_t vector = at + v * lanes, of_image = vector % each;
            const int64_t in = plan->stores_to_y
                                   ? of_image / layout.row_stride * plan->halo_tile.w.size +
                                         of_image % layout.row_stride
                                   : of_image;
            const int64_t further =
                plan->segments > 1 ? vector / each / plan->segments * between_images : 0;
            tile->b[v] = halo_tile + (vector / each * source_stride + further + in) * size;
        }
        tile->c = sums;
        tile->ldc = width;
        if (plan->stores_to_y) {
            tile->c = y_at(c, b, b->n + at / layout.part_stride, out_channel, b->row) +
                      at % layout.part_stride * size;
            tile->ldc = g->H * g->W;
        }
        if (ranged)
            set_range(c, b, &layout, at, width, in_channels, tile);
        g->kernels->tile[width / lanes][count](tile);
    }
}

/* Bias, residual and activation of a plane of the block. */
static void finish_plane(const gemm_context *c, const gemm_block *b, int64_t out_channel)
{
    const talc_cpu_gemm *g = c->gemm;
    for (int64_t image = b->n; image < b->n + b->images; image++)
        talc_cpu_conv2d_epilogue_rows(c->problem, c->arguments, plane_at(g, b, image, out_channel),
                                      b->row * g->W + b->column, b->rows, b->columns);
}

/* Whether a panel's weights are all finite, so that taps over padding may be left out. Otherwise
 * infinity times zero has to give NaN: forward that is the result, and in an input gradient every
 * block has to find the same NaN and recompute it. */
static bool are_finite(const gemm_context *c, const talc_cpu_tile *tile, int64_t count,
                       int64_t in_channels)
{
    const talc_cpu_gemm *g = c->gemm;
    const bool input = is_input_gradient(c);
    const int64_t runs = input ? in_channels : count,
                  run_stride = input ? g->weight.in_stride : g->weight.out_stride;
    const int64_t run = input ? count * g->weight.out_stride : in_channels * g->weight.in_stride;
    bool finite = true;
    for (int64_t i = 0; i < runs && finite; i++)
        finite =
            talc_cpu_all_finite(g->dtype, talc_cpu_at(g->dtype, tile->a[0], i * run_stride), run);
    return finite;
}

/* Recomputes the NaN in the block's part of a plane of dx. */
static void recompute_nan_plane(const gemm_context *c, const gemm_block *b, int64_t out_channel)
{
    const talc_cpu_gemm *g = c->gemm;
    const int64_t row = b->row * g->h_phases, column = b->column * g->w_phases;
    const talc_range rows = { row, talc_smaller(row + b->rows * g->h_phases, g->H) },
                     columns = { column, talc_smaller(column + b->columns * g->w_phases, g->W) };
    for (int64_t image = 0; image < b->images; image++)
        talc_cpu_conv2d_recompute_nan(c->problem, c->arguments,
                                      plane_at(g, b, b->n + image, out_channel), rows, columns);
}

/* The shared halo tile of a place, from plane `from` of x on. */
static char *shared_at(const gemm_context *c, int64_t block_index, int64_t from)
{
    return c->shared + (block_index * c->gemm->in_channels + from) * c->plan->channel_stride *
                           (int64_t)talc_dtype_size(c->gemm->dtype);
}

/* Tasks that fill one halo tile. */
static int64_t fills_of(const talc_cpu_gemm_plan *plan)
{
    return talc_ceil_div(plan->in_channels, FILLED);
}

static void fill_task(void *context, int64_t task, int worker)
{
    const gemm_context *c = context;
    const int64_t step = c->plan->in_channels,
                  halo_tiles = talc_ceil_div(c->gemm->in_channels, step);
    const int64_t fills = fills_of(c->plan), lo = task % fills * FILLED;
    const int64_t block_index = task / fills / halo_tiles, from = task / fills % halo_tiles * step;
    const gemm_block b = block_of(c->gemm, c->plan, block_index, 0);
    const int64_t in_channels = talc_smaller(step, c->gemm->in_channels - from);
    if (lo < in_channels)
        talc_cpu_gemm_fill(
            c, &b, from, in_channels, (talc_range){ lo, talc_smaller(lo + FILLED, in_channels) },
            c->slices + (size_t)worker * c->plan->slice, shared_at(c, block_index, from));
}

/* Has w for some planes of x and a panel of `count` planes fetched into the L2 cache where the
 * processor would not see it coming: in an input gradient, whose terms lie far apart, of more
 * weights than that cache holds. */
static void fetch_panel(const gemm_context *c, const char *w, int64_t count, talc_range planes)
{
    const talc_cpu_gemm *g = c->gemm;
    const int64_t size = (int64_t)talc_dtype_size(g->dtype);
    const int64_t elements = count * g->weight.out_stride;
    if (!is_input_gradient(c) ||
        g->out_channels * g->in_channels * g->weight.out_stride * size < g->cache_bytes)
        return;
    for (int64_t plane = planes.lo; plane < planes.hi; plane++)
        for (int64_t i = 0; i < elements + LINE; i += LINE)
            __builtin_prefetch(w + (plane * g->weight.in_stride + i) * size, 0, 2);
}

/* Whether the microkernel does all that follows the sums: adds the bias and clamps. */
static bool clamps_in_tile(const gemm_context *c, double *low, double *high)
{
    return !c->plan->has_ranges && talc_cpu_conv2d_clamps(c->problem, low, high);
}

/* Adds the products with some planes of x, in the halo tile, to the sums of a panel of the block.
 * Returns whether complete sums of an input gradient that are not in y yet have a NaN. */
static bool multiply_panel(const gemm_context *c, const gemm_block *b, int64_t panel,
                           talc_range planes, const char *halo_tile, char *sums)
{
    static const double zeros[TALC_CPU_ROWS];
    const talc_cpu_gemm *g = c->gemm;
    const talc_cpu_gemm_plan *plan = c->plan;
    const int64_t size = (int64_t)talc_dtype_size(g->dtype), phases = phases_of(g);
    const int64_t in_channels = planes.hi - planes.lo;
    const talc_range of = panel_at(g, b, panel);
    const int64_t first = of.lo, count = of.hi - of.lo, out_channel = b->out_channel + first;
    const bool last = planes.hi == g->in_channels;
    talc_cpu_tile tile = { .terms = c->terms,
                           .accumulate = planes.lo > 0,
                           .prefetch_distance = plan->gathered ? 0 : plan->channel_stride };
    const bool clamps = clamps_in_tile(c, &tile.low, &tile.high);
    tile.epilogue = last && (clamps || plan->has_ranges);
    tile.bias = talc_cpu_at(g->dtype, c->arguments->bias, b->g * g->out_channels + out_channel);
    if (plan->has_ranges) { /* + 0, so that -0 does not depend on the range */
        tile.bias = zeros;
        tile.low = -INFINITY;
        tile.high = INFINITY;
    }
    const char *w = w_at(c, b, planes.lo);
    for (int64_t i = 0; i < count; i++)
        tile.a[i] = w + (first + i) * g->weight.out_stride * size;
    /* What comes next: a panel, or the first one of the next planes of x. */
    const bool more = panel + 1 < panels_of(g, b->out_channels);
    const int64_t next =
        more ? in_channels : talc_smaller(plan->in_channels, g->in_channels - planes.hi);
    const char *of_next =
        w +
        (more ? (first + count) * g->weight.out_stride : in_channels * g->weight.in_stride) * size;
    const bool ranged =
        plan->h_ranges * plan->w_ranges > 1 && are_finite(c, &tile, count, in_channels);
    bool recompute = false;
    for (int64_t phase = 0; phase < phases; phase++, sums += count * plan->phase_elements * size) {
        const int64_t taps =
            g->h_phase[phase / g->w_phases].taps * g->w_phase[phase % g->w_phases].taps;
        tile.count = in_channels * taps;
        fetch_panel(c, of_next, count,
                    (talc_range){ phase * next / phases, (phase + 1) * next / phases });
        add_products(c, b, out_channel, in_channels, count, ranged, &tile, halo_tile, sums);
        tile.terms += plan->in_channels * taps;
        /* Unused sums may hold an old NaN, which only costs time. */
        if (is_input_gradient(c) && taps > 0 && last && !plan->stores_to_y)
            recompute = talc_cpu_has_nan(g->dtype, sums, count * plan->phase_elements) || recompute;
    }
    return recompute;
}

/* Brings the complete sums of a panel to y, with what follows them. */
static void finish_panel(const gemm_context *c, const gemm_block *b, int64_t panel, bool recompute,
                         const char *sums)
{
    const talc_cpu_gemm *g = c->gemm;
    const bool in_y = c->plan->stores_to_y, input = is_input_gradient(c);
    const talc_range of = panel_at(g, b, panel);
    double low, high;
    const bool finishes =
        !input && !clamps_in_tile(c, &low, &high) && talc_cpu_conv2d_has_epilogue(c->problem);
    for (int64_t i = of.lo; i < of.hi; i++) {
        const int64_t out_channel = b->out_channel + i;
        if (!in_y)
            talc_cpu_gemm_store(c, b, i - of.lo, of.hi - of.lo, sums, out_channel);
        for (int64_t image = 0; image < b->images && in_y && input; image++)
            recompute = talc_cpu_has_nan(g->dtype, y_at(c, b, b->n + image, out_channel, b->row),
                                         b->rows * b->columns) ||
                        recompute;
        if (recompute)
            recompute_nan_plane(c, b, out_channel);
        else if (finishes)
            finish_plane(c, b, out_channel);
    }
}

static void gemm_task(void *context, int64_t task, int worker)
{
    const gemm_context *c = context;
    const talc_cpu_gemm *g = c->gemm;
    const talc_cpu_gemm_plan *plan = c->plan;
    const int64_t block_index = task / plan->out_blocks;
    const gemm_block b = block_of(g, plan, block_index, task % plan->out_blocks);
    const int64_t size = (int64_t)talc_dtype_size(g->dtype);
    char *sums = c->slices + (size_t)worker * plan->slice,
         *staging = sums + plan->sums_elements * size;
    char *own = staging + plan->staging_elements * size;

    talc_range planes = { 0, 0 };
    for (; planes.lo < g->in_channels; planes.lo = planes.hi) {
        planes.hi = talc_smaller(planes.lo + plan->in_channels, g->in_channels);
        const int64_t in_channels = planes.hi - planes.lo;
        char *halo_tile = plan->shared_bytes > 0 ? shared_at(c, block_index, planes.lo) : own;
        if (plan->shared_bytes == 0)
            talc_cpu_gemm_fill(c, &b, planes.lo, in_channels, (talc_range){ 0, in_channels },
                               staging, halo_tile);
        for (int64_t panel = 0; panel < panels_of(g, b.out_channels); panel++) {
            /* Sums that are not complete yet are kept, of all panels. */
            const int64_t before =
                plan->in_channels < g->in_channels ? panel_at(g, &b, panel).lo : 0;
            char *of_panel = sums + before * phases_of(g) * plan->phase_elements * size;
            const bool recompute = multiply_panel(c, &b, panel, planes, halo_tile, of_panel);
            if (planes.hi == g->in_channels)
                finish_panel(c, &b, panel, recompute, of_panel);
        }
    }
}

/* The terms of a halo tile, each phase's in the order of channels and taps; of one phase, for each
 * range of taps. */
static void write_terms(const talc_cpu_gemm *g, const talc_cpu_gemm_plan *plan,
                        talc_cpu_term *terms)
{
    const int64_t full = TALC_CPU_VECTORS * g->kernels->lanes;
    const int64_t of_channel = plan->gathered ? g->h.taps * g->w.taps * full : plan->channel_stride;
    const int64_t ranges = plan->h_ranges * plan->w_ranges;
    for (int64_t i = 0; i < ranges * phases_of(g); i++) {
        const int64_t phase = ranges > 1 ? 0 : i;
        const talc_range rows = range_at(g->h.taps, ranges > 1 ? i / plan->w_ranges : 0);
        const talc_range columns = range_at(g->w.taps, ranges > 1 ? i % plan->w_ranges : 0);
        const talc_cpu_phase *h = &g->h_phase[phase / g->w_phases];
        const talc_cpu_phase *w = &g->w_phase[phase % g->w_phases];
        talc_cpu_term *term =
            ranges > 1 ? terms + i * plan->in_channels * h->taps * w->taps : terms;
        const talc_cpu_term *const first = term;
        for (int64_t kh = 0; kh < h->taps; kh++)
            for (int64_t kw = 0; kw < w->taps; kw++) {
                const int64_t at_h = h->first + kh * h->step, at_w = w->first + kw * w->step;
                const int64_t x = plan->gathered
                                      ? (at_h * g->w.taps + at_w) * full
                                      : talc_cpu_halo_tile_tap(&plan->halo_tile, at_h, at_w);
                const bool in =
                    at_h >= rows.lo && at_h < rows.hi && at_w >= columns.lo && at_w < columns.hi;
                if (ranges == 1 || in)
                    *term++ = (talc_cpu_term){ (int32_t)(h->weight + kh * h->weight_step +
                                                         w->weight + kw * w->weight_step),
                                               (int32_t)x };
            }
        const int64_t taps = term - first;
        for (int64_t more = (plan->in_channels - 1) * taps; more > 0; more--, term++)
            *term = (talc_cpu_term){ (int32_t)(term[-taps].a + g->weight.in_stride),
                                     (int32_t)(term[-taps].b + of_channel) };
        terms = ranges > 1 ? terms : term;
    }
}

talc_status talc_cpu_gemm_run(const talc_cpu_gemm *gemm, const talc_cpu_gemm_plan *plan,
                              const void *x, const void *w, void *y, void *workspace,
                              size_t workspace_bytes, const talc_conv2d_problem *problem,
                              const talc_conv2d_arguments *arguments)
{
    write_terms(gemm, plan, workspace);
    gemm_context context = {
        .gemm = gemm,
        .plan = plan,
        .terms = workspace,
        .x = x,
        .w = w,
        .y = y,
        .shared = (char *)workspace + plan->terms_bytes,
        .slices = (char *)workspace + plan->terms_bytes + plan->shared_bytes,
        .problem = problem,
        .arguments = arguments,
    };
    const size_t all = plan->terms_bytes + plan->shared_bytes;
    const int workers = (int)((workspace_bytes - all) / plan->slice);
    const int64_t halo_tiles = talc_ceil_div(gemm->in_channels, plan->in_channels);
    if (plan->shared_bytes > 0 &&
        talc_cpu_parallel_limited(block_count(gemm, plan) * halo_tiles * fills_of(plan), workers,
                                  fill_task, &context) != TALC_OK)
        return talc_error_status();
    return talc_cpu_parallel_limited(tasks_of(gemm, plan), workers, gemm_task, &context);
}
