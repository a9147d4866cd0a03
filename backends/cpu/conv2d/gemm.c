/// Multiplying: the tasks of implicit_gemm's product.
#include "backends/cpu/conv2d/algorithms.h"
#include "backends/cpu/conv2d/gemm_block.h"
#include "backends/cpu/device/threads.h"
#include "backends/cpu/primitives/epilogue.h"
#include "backends/cpu/primitives/target.h"

#include <math.h>

enum {
    FILLED = 16, /* channels of a shared halo tile that a task fills */
    LINE = 16,   /* elements of a cache line of f32 */
};

/* The first element of w for plane `from` of x and the first plane that a block makes. */
static const char *w_at(const gemm_context *c, const gemm_block *b, int64_t from)
{
    const talc_cpu_gemm *g = c->gemm;
    const int64_t at = b->g * g->weight.group + b->made * g->weight.made + from * g->weight.summed;
    return talc_cpu_at(g->dtype, c->w, at);
}

/* Range `i` of `taps`. */
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
                      int64_t at, int64_t width, int64_t summed, talc_cpu_tile *tile)
{
    const talc_cpu_gemm *g = c->gemm;
    const talc_cpu_gemm_plan *plan = c->plan;
    const int64_t part = at / layout->image, end = at + width - 1, to = end / layout->image;
    const bool one = part / plan->folds == to / plan->folds; /* image */
    const int64_t first = part == to ? at % layout->image / layout->row : 0;
    const int64_t last = part == to ? end % layout->image / layout->row : b->rows;
    const int64_t column = part % plan->folds * layout->row;
    const int64_t columns_end = (to % plan->folds + 1) * layout->row;
    const int64_t h = one && plan->h_ranges > 1 ? range_of(&g->h, b->row + first,
                                                           b->row + talc_smaller(last, b->rows - 1))
                                                : 0;
    const int64_t w = one && plan->w_ranges > 1
                          ? range_of(&g->w, b->column + column,
                                     b->column + talc_smaller(columns_end, b->columns) - 1)
                          : 0;
    const talc_range rows = range_at(g->h.taps, h), columns = range_at(g->w.taps, w);
    tile->terms = c->terms + (h * plan->w_ranges + w) * plan->summed * g->h.taps * g->w.taps;
    tile->count = summed * (rows.hi - rows.lo) * (columns.hi - columns.lo);
}

/* Adds the products with `summed` planes of x in the halo tile to the sums of a panel of `count`
 * planes, the first of which is `made`: [tile][plane][vectors of the tile], or y. */
static void add_products(const gemm_context *c, const gemm_block *b, int64_t made, int64_t summed,
                         int64_t count, bool ranged, talc_cpu_tile *tile, const char *halo_tile,
                         char *sums)
{
    const talc_cpu_gemm *g = c->gemm;
    const talc_cpu_gemm_plan *plan = c->plan;
    const int64_t size = (int64_t)talc_dtype_size(g->dtype), lanes = g->kernels->lanes;
    const int64_t full = TALC_CPU_VECTORS * lanes;
    const sums_layout layout = layout_of(g, plan, b);
    const int64_t each = plan->gathered ? full : layout.image;
    const int64_t apart = plan->gathered    ? summed * g->h.taps * g->w.taps * full
                          : plan->folds > 1 ? plan->halo_tile.h.size * plan->halo_tile.w.size
                                            : plan->halo_tile.image;
    const int64_t skipped = plan->halo_tile.image - plan->folds * apart; /* from image to image */
    for (int64_t at = 0, width; at < layout.all; at += width, sums += width * count * size) {
        width = width_at(g, plan, &layout, at);
        for (int64_t v = 0; v * lanes < width; v++) {
            const int64_t vector = at + v * lanes, of_image = vector % each;
            const int64_t in = plan->direct ? of_image / layout.row * plan->halo_tile.w.size +
                                                  of_image % layout.row
                                            : of_image;
            const int64_t further = plan->folds > 1 ? vector / each / plan->folds * skipped : 0;
            tile->x[v] = halo_tile + (vector / each * apart + further + in) * size;
        }
        tile->y = sums;
        tile->y_step = width;
        if (plan->direct) {
            tile->y = y_at(c, b, b->n + at / layout.image, made, b->row) + at % layout.image * size;
            tile->y_step = g->H * g->W;
        }
        if (ranged)
            set_range(c, b, &layout, at, width, summed, tile);
        g->kernels->tile[width / lanes][count](tile);
    }
}

/* Bias, residual and activation of a plane of the block. */
static void finish_plane(const gemm_context *c, const gemm_block *b, int64_t made)
{
    const talc_cpu_gemm *g = c->gemm;
    for (int64_t image = b->n; image < b->n + b->images; image++)
        talc_cpu_conv2d_epilogue_rows(c->problem, c->arguments,
                                      (image * g->groups + b->g) * g->made + made,
                                      b->row * g->W + b->column, b->rows, b->columns);
}

/* Whether some of the sums of a panel are NaN; what was in the workspace before may be, behind
 * them. */
#define HAS_NAN(constant, suffix, T, A)                                                            \
    TALC_TARGET_CLONES                                                                             \
    static bool has_nan_##suffix(const T *sums, int64_t count)                                     \
    {                                                                                              \
        int found = 0;                                                                             \
        for (int64_t i = 0; i < count; i++)                                                        \
            found |= sums[i] != sums[i];                                                           \
        return found != 0;                                                                         \
    }

TALC_CPU_FLOATS(HAS_NAN)

#define ARE_FINITE(constant, suffix, T, A)                                                         \
    TALC_TARGET_CLONES                                                                             \
    static bool are_finite_##suffix(const T *x, int64_t count)                                     \
    {                                                                                              \
        int found = 0;                                                                             \
        for (int64_t i = 0; i < count; i++)                                                        \
            found |= x[i] - x[i] != 0;                                                             \
        return found == 0;                                                                         \
    }

TALC_CPU_FLOATS(ARE_FINITE)

/* Whether products of a panel's weights and zeros are zeros. If not, no sum leaves any out: they
 * belong to the forward pass, and in an input gradient what they make NaN is made again in f64,
 * which tiles of other blocks have to do alike. */
static bool are_finite(const talc_cpu_gemm *g, const talc_cpu_tile *tile, int64_t count,
                       int64_t summed)
{
    const bool input = g->weight.made < g->weight.summed;
    const int64_t runs = input ? summed : count, apart = input ? g->weight.summed : g->weight.made;
    const int64_t run = input ? count * g->weight.made : summed * g->weight.summed;
    bool finite = true;
    for (int64_t i = 0; i < runs && finite; i++)
        finite = TALC_CPU_VALUE(g->dtype, are_finite,
                                (talc_cpu_at(g->dtype, tile->w[0], i * apart), run));
    return finite;
}

/* Makes what is NaN in the block's part of a plane of dx again. */
static void mend_plane(const gemm_context *c, const gemm_block *b, int64_t made)
{
    const talc_cpu_gemm *g = c->gemm;
    const int64_t row = b->row * g->h_phases, column = b->column * g->w_phases;
    const talc_range rows = { row, talc_smaller(row + b->rows * g->h_phases, g->H) },
                     columns = { column, talc_smaller(column + b->columns * g->w_phases, g->W) };
    for (int64_t image = 0; image < b->images; image++)
        talc_cpu_conv2d_mend(c->problem, c->arguments,
                             ((b->n + image) * g->groups + b->g) * g->made + made, rows, columns);
}

/* The shared halo tile of a place, from plane `from` of x on. */
static char *shared_at(const gemm_context *c, int64_t block_index, int64_t from)
{
    return c->shared + (block_index * c->gemm->summed + from) * c->plan->channel *
                           (int64_t)talc_dtype_size(c->gemm->dtype);
}

/* Tasks that fill one halo tile. */
static int64_t fills_of(const talc_cpu_gemm_plan *plan)
{
    return talc_ceil_div(plan->summed, FILLED);
}

static void fill_task(void *context, int64_t task, int worker)
{
    const gemm_context *c = context;
    const int64_t step = c->plan->summed, parts = talc_ceil_div(c->gemm->summed, step);
    const int64_t fills = fills_of(c->plan), lo = task % fills * FILLED;
    const int64_t block_index = task / fills / parts, from = task / fills % parts * step;
    const gemm_block b = block_of(c->gemm, c->plan, block_index, 0);
    const int64_t summed = talc_smaller(step, c->gemm->summed - from);
    if (lo < summed)
        talc_cpu_gemm_fill(
            c, &b, from, summed, (talc_range){ lo, talc_smaller(lo + FILLED, summed) },
            c->slices + (size_t)worker * c->plan->slice, shared_at(c, block_index, from));
}

/* Has w for some planes of x and a panel of `count` planes fetched into the L2 cache where the
 * processor would not see it coming: in an input gradient, whose terms lie far apart, of more
 * weights than that cache holds. */
static void fetch_panel(const gemm_context *c, const char *w, int64_t count, talc_range planes)
{
    const talc_cpu_gemm *g = c->gemm;
    const int64_t size = (int64_t)talc_dtype_size(g->dtype);
    const int64_t elements = count * g->weight.made;
    if (g->weight.made > g->weight.summed ||
        g->made * g->summed * g->weight.made * size < g->cache_bytes)
        return;
    for (int64_t plane = planes.lo; plane < planes.hi; plane++)
        for (int64_t i = 0; i < elements + LINE; i += LINE)
            __builtin_prefetch(w + (plane * g->weight.summed + i) * size, 0, 2);
}

/* Whether the microkernel adds the bias and clamps; `tile` then has the limits. Sums of ranges of
 * taps get + 0 instead, so that -0 does not depend on the range. */
static bool ends_in_tile(const gemm_context *c, talc_cpu_tile *tile)
{
    if (!c->plan->has_ranges)
        return talc_cpu_conv2d_clamps(c->problem, &tile->low, &tile->high);
    tile->low = -INFINITY;
    tile->high = INFINITY;
    return false;
}

/* Adds the products with some planes of x, in the halo tile, to the sums of a panel of the block.
 * Returns whether complete sums of an input gradient are NaN. */
static bool multiply_panel(const gemm_context *c, const gemm_block *b, int64_t panel,
                           talc_range planes, const char *halo_tile, char *sums)
{
    static const double zeros[TALC_CPU_ROWS];
    const talc_cpu_gemm *g = c->gemm;
    const talc_cpu_gemm_plan *plan = c->plan;
    const int64_t size = (int64_t)talc_dtype_size(g->dtype), phases = phases_of(g);
    const int64_t summed = planes.hi - planes.lo;
    const talc_range of = panel_at(g, b, panel);
    const int64_t first = of.lo, count = of.hi - of.lo, made = b->made + first;
    const bool last = planes.hi == g->summed;
    talc_cpu_tile tile = { .terms = c->terms,
                           .add = planes.lo > 0,
                           .next = plan->gathered ? 0 : plan->channel };
    tile.ends = (ends_in_tile(c, &tile) || plan->has_ranges) && last;
    tile.bias =
        plan->has_ranges ? zeros : talc_cpu_at(g->dtype, c->arguments->bias, b->g * g->made + made);
    const char *w = w_at(c, b, planes.lo);
    for (int64_t i = 0; i < count; i++)
        tile.w[i] = w + (first + i) * g->weight.made * size;
    /* What comes next: a panel, or the first one of the next planes of x. */
    const bool more = panel + 1 < panels_of(g, b->made_count);
    const int64_t next = more ? summed : talc_smaller(plan->summed, g->summed - planes.hi);
    const char *of_next =
        w + (more ? (first + count) * g->weight.made : summed * g->weight.summed) * size;
    const bool ranged = plan->h_ranges * plan->w_ranges > 1 && are_finite(g, &tile, count, summed);
    bool has_nan = false;
    for (int64_t phase = 0; phase < phases; phase++, sums += count * plan->phase * size) {
        const int64_t taps =
            g->h_phase[phase / g->w_phases].taps * g->w_phase[phase % g->w_phases].taps;
        tile.count = summed * taps;
        fetch_panel(c, of_next, count,
                    (talc_range){ phase * next / phases, (phase + 1) * next / phases });
        add_products(c, b, made, summed, count, ranged, &tile, halo_tile, sums);
        tile.terms += plan->summed * taps;
        if (c->problem->direction == TALC_GRAD_INPUT && taps > 0 && last && !plan->direct)
            has_nan =
                TALC_CPU_VALUE(g->dtype, has_nan, ((const void *)sums, count * plan->phase)) ||
                has_nan;
    }
    return has_nan;
}

/* Brings the complete sums of a panel to y, with what follows them. */
static void end_panel(const gemm_context *c, const gemm_block *b, int64_t panel, bool has_nan,
                      const char *sums)
{
    const talc_cpu_gemm *g = c->gemm;
    const bool direct = c->plan->direct, input = c->problem->direction == TALC_GRAD_INPUT;
    const talc_range of = panel_at(g, b, panel);
    talc_cpu_tile tile;
    const bool finishes =
        !input && !ends_in_tile(c, &tile) && talc_cpu_conv2d_has_epilogue(c->problem);
    for (int64_t i = of.lo; i < of.hi; i++) {
        const int64_t made = b->made + i;
        if (!direct)
            talc_cpu_gemm_store(c, b, i - of.lo, of.hi - of.lo, sums, made);
        for (int64_t image = 0; image < b->images && direct && input; image++)
            has_nan = TALC_CPU_VALUE(g->dtype, has_nan,
                                     ((const void *)y_at(c, b, b->n + image, made, b->row),
                                      b->rows * b->columns)) ||
                      has_nan;
        if (has_nan)
            mend_plane(c, b, made);
        else if (finishes)
            finish_plane(c, b, made);
    }
}

static void gemm_task(void *context, int64_t task, int worker)
{
    const gemm_context *c = context;
    const talc_cpu_gemm *g = c->gemm;
    const talc_cpu_gemm_plan *plan = c->plan;
    const int64_t block_index = task / plan->made_blocks;
    const gemm_block b = block_of(g, plan, block_index, task % plan->made_blocks);
    const int64_t size = (int64_t)talc_dtype_size(g->dtype);
    char *sums = c->slices + (size_t)worker * plan->slice, *one = sums + plan->sums * size;
    char *own = one + plan->one * size;

    talc_range planes = { 0, 0 };
    for (; planes.lo < g->summed; planes.lo = planes.hi) {
        planes.hi = talc_smaller(planes.lo + plan->summed, g->summed);
        const int64_t summed = planes.hi - planes.lo;
        char *halo_tile = plan->shared_bytes > 0 ? shared_at(c, block_index, planes.lo) : own;
        if (plan->shared_bytes == 0)
            talc_cpu_gemm_fill(c, &b, planes.lo, summed, (talc_range){ 0, summed }, one, halo_tile);
        for (int64_t panel = 0; panel < panels_of(g, b.made_count); panel++) {
            const int64_t kept = plan->summed < g->summed ? panel_at(g, &b, panel).lo : 0;
            char *of_panel = sums + kept * phases_of(g) * plan->phase * size;
            const bool has_nan = multiply_panel(c, &b, panel, planes, halo_tile, of_panel);
            if (planes.hi == g->summed)
                end_panel(c, &b, panel, has_nan, of_panel);
        }
    }
}

/* The terms of a halo tile, each phase's in the order of channels and taps; of one phase, for each
 * range of taps. */
static void write_terms(const talc_cpu_gemm *g, const talc_cpu_gemm_plan *plan,
                        talc_cpu_term *terms)
{
    const int64_t full = TALC_CPU_VECTORS * g->kernels->lanes;
    const int64_t of_channel = plan->gathered ? g->h.taps * g->w.taps * full : plan->channel;
    const int64_t ranges = plan->h_ranges * plan->w_ranges;
    for (int64_t i = 0; i < ranges * phases_of(g); i++) {
        const int64_t phase = ranges > 1 ? 0 : i;
        const talc_range rows = range_at(g->h.taps, ranges > 1 ? i / plan->w_ranges : 0);
        const talc_range columns = range_at(g->w.taps, ranges > 1 ? i % plan->w_ranges : 0);
        const talc_cpu_phase *h = &g->h_phase[phase / g->w_phases];
        const talc_cpu_phase *w = &g->w_phase[phase % g->w_phases];
        talc_cpu_term *term = ranges > 1 ? terms + i * plan->summed * h->taps * w->taps : terms;
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
        for (int64_t more = (plan->summed - 1) * taps; more > 0; more--, term++)
            *term = (talc_cpu_term){ (int32_t)(term[-taps].w + g->weight.summed),
                                     (int32_t)(term[-taps].x + of_channel) };
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
    const int64_t parts = talc_ceil_div(gemm->summed, plan->summed);
    if (plan->shared_bytes > 0 &&
        talc_cpu_parallel_limited(block_count(gemm, plan) * parts * fills_of(plan), workers,
                                  fill_task, &context) != TALC_OK)
        return talc_error_status();
    return talc_cpu_parallel_limited(tasks_of(gemm, plan), workers, gemm_task, &context);
}
