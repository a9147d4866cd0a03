#include "backends/cpu/conv2d/gemm.h"

#include "backends/cpu/primitives/epilogue.h"
#include "backends/cpu/conv2d/algorithms.h"
#include "backends/cpu/primitives/element.h"
#include "backends/cpu/primitives/short_copy.h"
#include "backends/cpu/primitives/target.h"
#include "backends/cpu/device/threads.h"
#include "tensor/extent.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// ---- Blocks -------------------------------------------------------------------------------------

/* A block's halo tile of up to TERMS terms takes at most half of the L2 cache, and so do its sums;
 * the rows of w that a tile reads come from the L1 cache, or stream into it, while they meet all
 * columns of the block. So a block has the columns for which loading those rows costs little, fewer
 * of each phase where sums of several are kept. Blocks become smaller, in outputs or in the planes
 * that they make, whichever costs less, while the last of the threads ends sooner, and there are
 * fewer than TASKS for each. Blocks of planes share the halo tiles where filling one for each would
 * cost more than 1/FILLS of the products, if these take no more than SHARED such caches. Filling
 * a row takes as long as ROW_PRODUCTS multiplications of vectors, and one for two columns, and
 * gathering it GATHERS times that; beginning and ending a tile TILE_PRODUCTS, a task
 * TASK_PRODUCTS, and waking a thread WAKING. Products with more than one slot take 1/SLOT_PRODUCTS
 * longer. */
enum {
    COLUMNS = 512,
    MIN_COLUMNS = 64,
    CANDIDATES = 16, /* numbers of rows that are tried */
    TERMS = 2048,
    MIN_MADE = 8,
    TASKS = 4,
    CACHE_SHARE = 2,
    SHARED = 4,
    FILLS = 10,
    LINE = 16,             /* elements of a cache line of f32 */
    GATHERED_STEP = 8,     /* elements, of which rows are gathered */
    GATHERED_VECTORS = 96, /* of which runs are found */
    ROW_PRODUCTS = 2,
    GATHERS = 2,
    TILE_PRODUCTS = 200,
    SLOT_PRODUCTS = 16,
    TASK_PRODUCTS = 2000,
    WAKING = 400,
    FOLDED = 8,  /* columns of a group at least */
    RANGED = 3,  /* taps of an axis at most */
    FILLED = 16, /* channels of a shared halo tile that a task fills */
};

static int64_t block_count(const talc_cpu_gemm *g, const talc_cpu_gemm_plan *plan)
{
    return plan->image_blocks * g->groups * plan->row_blocks * plan->column_blocks;
}

static int64_t phases_of(const talc_cpu_gemm *g)
{
    return g->h_phases * g->w_phases;
}

/* Taps of all phases. */
static int64_t taps_of(const talc_cpu_gemm *g)
{
    int64_t h = 0, w = 0;
    for (int64_t i = 0; i < g->h_phases; i++)
        h += g->h_phase[i].taps;
    for (int64_t i = 0; i < g->w_phases; i++)
        w += g->w_phase[i].taps;
    return h * w;
}

static int64_t tasks_of(const talc_cpu_gemm *g, const talc_cpu_gemm_plan *plan)
{
    return block_count(g, plan) * plan->made_blocks;
}

/* Elements of a plane that a block computes, of whole vectors. They are counted through all outputs
 * if the halo tile is gathered, else through the rows of an image's slot of the halo tile, each
 * image's, and each group's of folded columns, from a vector of its own. Rows of a group are whole,
 * even in a block of fewer columns. */
static int64_t width_of(const talc_cpu_gemm *g, const talc_cpu_gemm_plan *plan, int64_t images,
                        int64_t rows, int64_t columns)
{
    const int64_t lanes = g->kernels->lanes, row = plan->halo_tile.w.size;
    const int64_t last = plan->folds > 1 ? row : columns; /* row */
    return plan->gathered ? talc_round_up(images * rows * columns, lanes)
                          : images * plan->folds * talc_round_up((rows - 1) * row + last, lanes);
}

static talc_cpu_halo_tile halo_tile_of(const talc_cpu_gemm *g, const talc_cpu_gemm_plan *plan,
                                       int64_t rows, int64_t images)
{
    return talc_cpu_halo_tile_of(&g->h, &g->w, g->padding_mode, rows, plan->columns, images,
                                 plan->folds > 1);
}

/* Which part of an axis' products is with zeros around the image. */
static double outside_of(const talc_cpu_axis *axis)
{
    int64_t inside = 0;
    for (int64_t k = 0; k < axis->taps; k++) {
        const talc_range range = talc_window_outputs(k, axis->stride, -axis->start, axis->dilation,
                                                     axis->outputs, axis->extent);
        inside += range.hi - range.lo;
    }
    return 1 - (double)inside / (double)talc_larger(axis->taps * axis->outputs, 1);
}

/* Outputs at an end of an axis for which a tap reads nothing but zeros. */
static int64_t outside_end_of(const talc_cpu_axis *axis)
{
    const talc_range first = talc_window_outputs(0, axis->stride, -axis->start, axis->dilation,
                                                 axis->outputs, axis->extent),
                     last = talc_window_outputs(axis->taps - 1, axis->stride, -axis->start,
                                                axis->dilation, axis->outputs, axis->extent);
    return talc_larger(first.lo, axis->outputs - last.hi);
}

/* Ranges of taps that tables are made for: all, and those that begin later or end sooner. `across`:
 * outputs at a place of the axis. Those at an end have to fill a tile. */
static int64_t ranges_of(const talc_cpu_gemm *g, const talc_cpu_axis *axis, int64_t across)
{
    /* An input gradient of one phase may have none. */
    return g->padding_mode == TALC_PADDING_ZEROS && phases_of(g) == 1 && taps_of(g) > 0 &&
                   axis->taps <= RANGED && outside_of(axis) > 0.03 &&
                   outside_end_of(axis) * across >= TALC_CPU_VECTORS * g->kernels->lanes
               ? talc_larger(2 * axis->taps - 1, 1)
               : 1;
}

/* Ranges of columns' taps: where zeros around the image are many columns. */
static int64_t w_ranges_of(const talc_cpu_gemm *g)
{
    return g->w.stride == 1 && g->w.dilation >= FOLDED ? ranges_of(g, &g->w, g->h.outputs) : 1;
}

static int64_t h_ranges_of(const talc_cpu_gemm *g)
{
    return ranges_of(g, &g->h, g->w.outputs);
}

/* Rows of a block: those with which the threads end first, of blocks from half of the outputs that
 * are asked for up to them; an image that is one block stays whole. Blocks of fewer rows, at the
 * end, go to threads that have nothing else to do. `others`: blocks of the same rows. */
static int64_t rows_of(const talc_cpu_gemm *g, int64_t outputs, int64_t others,
                       talc_cpu_gemm_plan *plan)
{
    const int64_t max = talc_ceil_div(outputs, plan->columns);
    int64_t best = 0, min = 0;
    plan->gathered = false;
    const int64_t first = talc_even(g->h.outputs, max);
    const int64_t last =
        first == g->h.outputs ? first : talc_larger(talc_ceil_div(first, 2), first - CANDIDATES);
    for (int64_t rows = first; rows >= last; rows--) {
        plan->halo_tile = halo_tile_of(g, plan, rows, 1);
        const int64_t rest = g->h.outputs % rows, tasks = g->h.outputs / rows * others;
        const int64_t rounds = talc_ceil_div(tasks, g->threads);
        const int64_t idle = rounds * g->threads - tasks;
        const int64_t more = talc_ceil_div(talc_larger(others - idle, 0), g->threads);
        const int64_t end = rounds * width_of(g, plan, 1, rows, plan->columns) +
                            (rest > 0 ? more * width_of(g, plan, 1, rest, plan->columns) : 0);
        if (best == 0 || end < min) {
            best = rows;
            min = end;
        }
    }
    return best;
}

/* What filling a halo tile costs: a gathered one is filled once more for each tap. */
static int64_t filling_of(const talc_cpu_gemm *g, const talc_cpu_gemm_plan *plan)
{
    const int64_t rows = plan->gathered ? g->h.taps * g->w.taps * plan->rows
                                        : plan->halo_tile.h.count * plan->halo_tile.h.size;
    return plan->images * rows * (ROW_PRODUCTS + plan->columns / 2);
}

/* Multiplications of vectors for a plane of x, and what loading w for each block costs. */
static double multiplications_of(const talc_cpu_gemm *g, const talc_cpu_gemm_plan *plan)
{
    const int64_t lanes = g->kernels->lanes, rest = g->h.outputs % plan->rows;
    const int64_t width =
        g->h.outputs / plan->rows *
            (width_of(g, plan, plan->images, plan->rows, plan->columns) + lanes / 4) +
        (rest > 0 ? width_of(g, plan, plan->images, rest, plan->columns) + lanes / 4 : 0);
    return (double)(plan->image_blocks * plan->column_blocks) *
           (double)(width * g->made * taps_of(g)) / (double)lanes;
}

/* The multiplications that cost as much as filling all halo tiles of a plane of x once. */
static double fills_once(const talc_cpu_gemm *g, const talc_cpu_gemm_plan *plan)
{
    return (double)(plan->image_blocks * plan->row_blocks * plan->column_blocks) *
           (double)filling_of(g, plan);
}

/* Bytes of the halo tiles that blocks share; 0 where each has its own. */
static int64_t shared_of(const talc_cpu_gemm *g, const talc_cpu_gemm_plan *plan)
{
    if (plan->made_blocks == 1 ||
        fills_once(g, plan) * (double)(FILLS * plan->made_blocks) <= multiplications_of(g, plan))
        return 0;
    const int64_t size = (int64_t)talc_dtype_size(g->dtype);
    const double elements =
        (double)block_count(g, plan) * (double)g->summed * (double)plan->channel + LINE;
    const bool few = elements * (double)size <= (double)(SHARED * g->cache_bytes);
    return few ? (int64_t)elements * size : 0;
}

/* What a plane of x costs in all, in multiplications. */
static double products_of(const talc_cpu_gemm *g, const talc_cpu_gemm_plan *plan)
{
    const int64_t fills = shared_of(g, plan) > 0 ? 1 : plan->made_blocks;
    return multiplications_of(g, plan) + (double)fills * fills_once(g, plan);
}

/* When the last thread ends; other work holds one up by a quarter of a task. */
static double end_of(const talc_cpu_gemm *g, const talc_cpu_gemm_plan *plan)
{
    const int64_t tasks = tasks_of(g, plan), rounds = talc_ceil_div(tasks, g->threads);
    const double all = products_of(g, plan) * (double)g->summed * (double)g->groups;
    return ((double)rounds + 0.25) * (all / (double)tasks + TASK_PRODUCTS) +
           (double)talc_smaller(tasks, g->threads) * WAKING;
}

/* Blocks of equal size, of at most as many outputs and planes as asked for, and their halo tile. In
 * a `roomy` workspace it is gathered where the outputs without use would cost more, and terms have
 * tables for ranges of taps; columns that have these are folded. */
static void cut(const talc_cpu_gemm *g, int64_t outputs, int64_t made, bool roomy,
                talc_cpu_gemm_plan *plan)
{
    const int64_t lanes = g->kernels->lanes;
    plan->columns = talc_even(g->w.outputs, talc_larger(outputs, MIN_COLUMNS));
    plan->h_ranges = roomy ? h_ranges_of(g) : 1;
    plan->w_ranges = roomy ? w_ranges_of(g) : 1;
    plan->folds = plan->w_ranges > 1 ? talc_ceil_div(plan->columns, g->w.dilation) : 1;
    const int64_t plane = talc_larger(g->h.outputs * g->w.outputs, 1);
    plan->images = 2 * plane <= outputs ? talc_even(g->N, outputs / plane) : 1;
    plan->made = talc_even(g->made, made);
    plan->column_blocks = talc_ceil_div(g->w.outputs, plan->columns);
    plan->image_blocks = talc_ceil_div(g->N, plan->images);
    plan->made_blocks = talc_ceil_div(g->made, plan->made);
    plan->row_blocks = 1;
    plan->rows = rows_of(g, outputs, tasks_of(g, plan), plan);
    plan->row_blocks = talc_ceil_div(g->h.outputs, plan->rows);
    plan->halo_tile = halo_tile_of(g, plan, plan->rows, plan->images);
    plan->gathered = false;
    const int64_t all = width_of(g, plan, plan->images, plan->rows, plan->columns);
    plan->gathered = true;
    const int64_t used = width_of(g, plan, plan->images, plan->rows, plan->columns);
    plan->channel = g->h.taps * g->w.taps * talc_round_up(used, TALC_CPU_VECTORS * lanes);
    const int64_t shared = shared_of(g, plan);
    const int64_t bytes = plan->channel * (int64_t)talc_dtype_size(g->dtype);
    /* What is gathered and shared comes from other cores, once for each panel of a few planes. */
    const int64_t planes = shared > 0 ? g->made : plan->made, products = planes * taps_of(g);
    const int64_t loads = shared > 0 ? used * products / 2 : 0;
    /* Tiles of fewer channels are more; the slots of a stride are in more cache lines. Vectors of
     * 64 bytes fill and multiply at other rates. */
    const bool wide = lanes * (int64_t)talc_dtype_size(g->dtype) == 64;
    const int64_t slots = plan->halo_tile.h.count * plan->halo_tile.w.count;
    const int64_t lines = slots > 1 && !wide ? used * products / SLOT_PRODUCTS : 0;
    const int64_t capacity = g->cache_bytes / CACHE_SHARE;
    const double tiles = (double)used * (double)planes /
                         (double)(TALC_CPU_VECTORS * g->kernels->rows[TALC_CPU_VECTORS]);
    double gathering = (double)(lanes * filling_of(g, plan));
    if (!wide)
        gathering = GATHERS * gathering + tiles * TILE_PRODUCTS * (double)bytes / (double)capacity;
    plan->gathered = roomy && plan->folds == 1 && bytes <= capacity &&
                     (double)((all - used) * products + lines) > gathering + (double)loads;
    if (!plan->gathered)
        plan->channel = plan->halo_tile.channel;
}

/* Elements of a channel that is yet to be gathered, and of its rows under each tap. Steps and tiles
 * may run over the end of both. */
static int64_t one_of(const talc_cpu_gemm *g, const talc_cpu_gemm_plan *plan)
{
    const int64_t steps = (1 + g->h.taps * g->w.taps) * GATHERED_STEP;
    return plan->gathered
               ? plan->halo_tile.channel + plan->channel + steps + TALC_CPU_VECTORS * LINE
               : 0;
}

/* The workspace for all workers and for each. */
static void add_sizes(const talc_cpu_gemm *g, size_t capacity, size_t limit,
                      talc_cpu_gemm_plan *plan)
{
    const talc_cpu_kernels *kernels = g->kernels;
    const int64_t size = (int64_t)talc_dtype_size(g->dtype), taps = talc_larger(taps_of(g), 1);
    /* Terms' distances in w have 32 bits. */
    const int64_t fitting = talc_smaller((int64_t)capacity / size / plan->channel,
                                         INT32_MAX / 2 / talc_larger(g->weight.summed, taps));
    plan->summed = talc_even(g->summed, talc_smaller(fitting, talc_ceil_div(TERMS, taps)));
    plan->terms_bytes = talc_cpu_aligned(
        (size_t)(plan->h_ranges * plan->w_ranges * plan->summed * taps) * sizeof(talc_cpu_term));
    plan->phase = width_of(g, plan, plan->images, plan->rows, plan->columns);
    plan->sums =
        plan->phase * phases_of(g) *
        (plan->summed < g->summed ? plan->made
                                  : talc_smaller(plan->made, kernels->rows[TALC_CPU_VECTORS]));
    plan->direct = !plan->gathered && plan->folds == 1 && phases_of(g) == 1 &&
                   plan->summed == g->summed && plan->columns == g->w.outputs &&
                   plan->columns % kernels->lanes == 0;
    const int64_t one = one_of(g, plan);
    const size_t shared = (size_t)shared_of(g, plan);
    plan->shared_bytes = 0;
    plan->slice = talc_cpu_aligned((size_t)((plan->sums + one) * size));
    if (shared > 0 && shared + plan->terms_bytes + plan->slice < limit)
        plan->shared_bytes = talc_cpu_aligned(shared);
    else
        plan->slice += talc_cpu_aligned((size_t)((plan->summed * plan->channel + LINE) * size));
}

void talc_cpu_gemm_plan_of(const talc_cpu_gemm *gemm, size_t limit, talc_cpu_gemm_plan *plan)
{
    const int64_t size = (int64_t)talc_dtype_size(gemm->dtype);
    const int64_t share = talc_smaller(gemm->cache_bytes / CACHE_SHARE, (int64_t)(limit / 2));
    const int64_t plane = talc_larger(gemm->H * gemm->W, MIN_COLUMNS);
    int64_t outputs =
        talc_smaller(talc_larger(2 * COLUMNS / phases_of(gemm), MIN_COLUMNS), COLUMNS);
    int64_t made =
        talc_larger(share / size / talc_smaller(plane, outputs * phases_of(gemm)), MIN_MADE);
    cut(gemm, outputs, made, true, plan);
    talc_cpu_gemm_plan at = *plan;
    double end = end_of(gemm, plan);
    while (gemm->threads > 1 && tasks_of(gemm, &at) < TASKS * gemm->threads &&
           (at.made > MIN_MADE || outputs > MIN_COLUMNS)) {
        talc_cpu_gemm_plan fewer = at, smaller = at;
        cut(gemm, outputs, talc_larger(at.made / 2, 1), true, &fewer);
        cut(gemm, talc_larger(outputs / 2, MIN_COLUMNS), made, true, &smaller);
        if (at.made > MIN_MADE &&
            (outputs <= MIN_COLUMNS || products_of(gemm, &fewer) <= products_of(gemm, &smaller))) {
            made = at.made / 2;
            at = fewer;
        } else {
            outputs = talc_larger(outputs / 2, MIN_COLUMNS);
            at = smaller;
        }
        const double then = end_of(gemm, &at);
        if (then < end) {
            end = then;
            *plan = at;
        }
    }
    add_sizes(gemm, (size_t)share, limit, plan);
    for (; plan->terms_bytes + plan->slice > limit && outputs > 1; outputs /= 2) {
        cut(gemm, outputs, made, false, plan);
        add_sizes(gemm, (size_t)share, limit, plan);
    }
}

size_t talc_cpu_gemm_workspace(const talc_cpu_gemm *gemm, const talc_cpu_gemm_plan *plan,
                               size_t limit)
{
    return talc_cpu_workspace(tasks_of(gemm, plan), plan->terms_bytes + plan->shared_bytes,
                              plan->slice, limit);
}

// ---- One task -----------------------------------------------------------------------------------

typedef struct gemm_context {
    const talc_cpu_gemm *gemm;
    const talc_cpu_gemm_plan *plan;
    const talc_cpu_term *terms;
    const void *x, *w;
    void *y;
    char *shared, *slices;
    const talc_conv2d_problem *problem;
    const talc_conv2d_arguments *arguments;
    bool has_ranges; /* of taps, where the workspace has room; bits do not depend on that */
} gemm_context;

/* A block of y. */
typedef struct gemm_block {
    int64_t n, images;
    int64_t g;
    int64_t made, made_count; /* first plane of the group, how many */
    int64_t row, rows;
    int64_t column, columns;
} gemm_block;

static gemm_block block_of(const talc_cpu_gemm *gemm, const talc_cpu_gemm_plan *plan,
                           int64_t block_index, int64_t made_block)
{
    gemm_block b = { .made = made_block * plan->made };
    b.column = block_index % plan->column_blocks * plan->columns;
    block_index /= plan->column_blocks;
    b.row = block_index % plan->row_blocks * plan->rows;
    block_index /= plan->row_blocks;
    b.g = block_index % gemm->groups;
    b.n = block_index / gemm->groups * plan->images;
    b.images = talc_smaller(plan->images, gemm->N - b.n);
    b.made_count = talc_smaller(plan->made, gemm->made - b.made);
    b.rows = talc_smaller(plan->rows, gemm->h.outputs - b.row);
    b.columns = talc_smaller(plan->columns, gemm->w.outputs - b.column);
    return b;
}

/* The first element of row `row` of y that a block writes in plane `made` of the group of an
 * image. */
static int64_t element_at(const talc_cpu_gemm *g, const gemm_block *b, int64_t n, int64_t made,
                          int64_t row)
{
    const int64_t plane = (n * g->groups + b->g) * g->made + made;
    return (plane * g->H + row) * g->W + b->column * g->w_phases;
}

static char *y_at(const gemm_context *c, const gemm_block *b, int64_t n, int64_t made, int64_t row)
{
    return (char *)c->y +
           element_at(c->gemm, b, n, made, row) * (int64_t)talc_dtype_size(c->gemm->dtype);
}

/* A block's planes are made in panels of as many as a tile of the microkernel has rows. */
static int64_t panels_of(const talc_cpu_gemm *g, int64_t planes)
{
    return talc_ceil_div(planes, g->kernels->rows[TALC_CPU_VECTORS]);
}

static talc_range panel_at(const talc_cpu_gemm *g, const gemm_block *b, int64_t panel)
{
    const int64_t panels = panels_of(g, b->made_count);
    return (talc_range){ panel * b->made_count / panels, (panel + 1) * b->made_count / panels };
}

/* Where the sums of a plane of a block have the outputs of an image, or of a group of its columns,
 * and of a row. */
typedef struct sums_layout {
    int64_t all, image, row; /* sums; from one image or group to the next, from one row */
} sums_layout;

static sums_layout layout_of(const talc_cpu_gemm *g, const talc_cpu_gemm_plan *plan,
                             const gemm_block *b)
{
    const int64_t used = b->rows * b->columns;
    if (plan->direct)
        return (sums_layout){ b->images * used, used, b->columns };
    const int64_t all = width_of(g, plan, b->images, b->rows, b->columns);
    return plan->gathered
               ? (sums_layout){ all, used, b->columns }
               : (sums_layout){ all, all / (b->images * plan->folds), plan->halo_tile.w.size };
}

/* The first element of w for plane `from` of x and the first plane that a block makes. */
static const char *w_at(const gemm_context *c, const gemm_block *b, int64_t from)
{
    const talc_cpu_gemm *g = c->gemm;
    const int64_t at = b->g * g->weight.group + b->made * g->weight.made + from * g->weight.summed;
    return talc_cpu_at(g->dtype, c->w, at);
}

/* The width of a tile with `rest` elements from its first one on: TALC_CPU_VECTORS vectors or all
 * that is left. Instead of one vector alone at the end, for which w would not come fast enough,
 * there are two times two. */
static inline int64_t tile_width(int64_t rest, int64_t lanes)
{
    return rest == 4 * lanes ? 2 * lanes : talc_smaller(rest, TALC_CPU_VECTORS * lanes);
}

/* Where the tiles from sum `at` on end: of tiles that go to y itself, with its plane, else with a
 * group of columns that has more than one vector. */
static inline int64_t end_at(const talc_cpu_gemm *g, const talc_cpu_gemm_plan *plan,
                             const sums_layout *layout, int64_t at)
{
    return plan->direct || (plan->folds > 1 && layout->image > g->kernels->lanes)
               ? at - at % layout->image + layout->image
               : layout->all;
}

/* The width of the tile at sum `at`. */
static inline int64_t width_at(const talc_cpu_gemm *g, const talc_cpu_gemm_plan *plan,
                               const sums_layout *layout, int64_t at)
{
    return tile_width(end_at(g, plan, layout, at) - at, g->kernels->lanes);
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

/* Elements 0 .. count - 1 of `ways` rows of sums in turn, which stand `apart`. */
#define INTERLEAVE(constant, suffix, T, A)                                                         \
    static void interleave_##suffix(int64_t count, int64_t ways, const T *restrict sums,           \
                                    int64_t apart, T *restrict y)                                  \
    {                                                                                              \
        if (ways == 2) {                                                                           \
            for (int64_t i = 0; i < count / 2; i++) {                                              \
                y[2 * i] = sums[i];                                                                \
                y[2 * i + 1] = sums[apart + i];                                                    \
            }                                                                                      \
            if (count % 2 > 0)                                                                     \
                y[count - 1] = sums[count / 2];                                                    \
            return;                                                                                \
        }                                                                                          \
        for (int64_t way = 0; way < ways; way++)                                                   \
            for (int64_t i = 0; i * ways + way < count; i++)                                       \
                y[i * ways + way] = sums[way * apart + i];                                         \
    }

TALC_CPU_FLOATS(INTERLEAVE)

/* Writes the outputs of plane i of a panel of `count`, plane `made` of the group, to y. */
TALC_TARGET_CLONES
static void store_plane(const gemm_context *c, const gemm_block *b, int64_t i, int64_t count,
                        const char *sums, int64_t made)
{
    const talc_cpu_gemm *g = c->gemm;
    const int64_t size = (int64_t)talc_dtype_size(g->dtype), lanes = g->kernels->lanes;
    const bool gathered = c->plan->gathered;
    const bool adjoining = gathered && phases_of(g) == 1 && g->W == b->columns;
    const int64_t rows = adjoining ? 1 : b->rows, columns = b->columns * (adjoining ? b->rows : 1);
    const int64_t last =
        adjoining ? columns : talc_smaller(columns * g->w_phases, g->W - b->column * g->w_phases);
    const sums_layout layout = layout_of(g, c->plan, b);
    const int64_t apart = c->plan->phase * count;
    int64_t first_tile = 0; /* of the row */
    for (int64_t image = 0; image < b->images; image++) {
        char *to = y_at(c, b, b->n + image, made, b->row * g->h_phases);
        for (int64_t row = 0; row < rows; row++) {
            const int64_t first = image * layout.image + row * layout.row;
            for (int64_t width;
                 first >= first_tile + (width = tile_width(layout.all - first_tile, lanes));)
                first_tile += width;
            const int64_t ways = talc_smaller(g->h_phases, g->H - (b->row + row) * g->h_phases);
            for (int64_t way = 0; way < ways; way++, to += g->W * size) {
                const char *of_row = sums + way * g->w_phases * apart * size;
                for (int64_t column = 0, tile = first_tile; column < columns;) {
                    const int64_t width = tile_width(layout.all - tile, lanes);
                    const int64_t at = first + column - tile;
                    const int64_t adjacent = talc_smaller(width - at, columns - column);
                    const char *from = of_row + (tile * count + i * width + at) * size;
                    if (g->w_phases == 1)
                        talc_cpu_short_copy(to + column * size, from, (size_t)(adjacent * size));
                    else
                        TALC_CPU_CALL(
                            g->dtype, interleave,
                            (talc_smaller(adjacent * g->w_phases, last - column * g->w_phases),
                             g->w_phases, (const void *)from, apart,
                             (void *)(to + column * g->w_phases * size)));
                    column += adjacent;
                    tile += width;
                }
            }
        }
    }
}

/* The same of folded columns. */
TALC_TARGET_CLONES
static void store_folded(const gemm_context *c, const gemm_block *b, int64_t i, int64_t count,
                         const char *sums, int64_t made)
{
    const talc_cpu_gemm *g = c->gemm;
    const int64_t size = (int64_t)talc_dtype_size(g->dtype), lanes = g->kernels->lanes;
    const sums_layout layout = layout_of(g, c->plan, b);
    int64_t tile = 0;
    for (int64_t part = 0; part < b->images * c->plan->folds; part++) {
        const int64_t group = part % c->plan->folds * layout.row, first = part * layout.image;
        const int64_t columns = talc_smaller(layout.row, b->columns - group);
        const int64_t end = end_at(g, c->plan, &layout, first);
        char *to = y_at(c, b, b->n + part / c->plan->folds, made, b->row) + group * size;
        if (layout.image > lanes)
            tile = first;
        for (int64_t row = 0, column = 0; row < b->rows;) {
            const int64_t width = tile_width(end - tile, lanes);
            const char *from = sums + (tile * count + i * width) * size;
            for (int64_t at = talc_larger(first - tile, 0), adjacent; at < width && row < b->rows;
                 at += adjacent) {
                adjacent = talc_smaller(width - at, layout.row - column);
                if (column < columns)
                    talc_cpu_short_copy(to + column * size, from + at * size,
                                        (size_t)(talc_smaller(adjacent, columns - column) * size));
                column += adjacent;
                if (column == layout.row) {
                    column = 0;
                    row++;
                    to += g->W * size;
                }
            }
            if (row < b->rows || tile + width == first + layout.image)
                tile += width;
        }
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

/* The planes of x from `from` on, of which the block reads a part. */
static talc_cpu_halo_tile_source source_of(const gemm_context *c, const gemm_block *b, int64_t from,
                                           int64_t summed)
{
    const talc_cpu_gemm *g = c->gemm;
    const int64_t plane = g->h.extent * g->w.extent;
    return (talc_cpu_halo_tile_source){
        .dtype = g->dtype,
        .padding_mode = g->padding_mode,
        .h = g->h,
        .w = g->w,
        .x = talc_cpu_at(g->dtype, c->x, ((b->n * g->groups + b->g) * g->summed + from) * plane),
        .x_channel = plane,
        .x_image = g->groups * g->summed * plane,
        .channels = summed,
        .images = b->images,
        .row = b->row,
        .column = b->column,
    };
}

/* Where the outputs of a block stand in the halo tile, from its first one on, as runs for the
 * microkernels' gather. Returns how many tiles they fill; 0 where a vector has too many runs. */
static int64_t find_runs(const talc_cpu_gemm *g, const talc_cpu_gemm_plan *plan,
                         const gemm_block *b, talc_cpu_runs runs[GATHERED_VECTORS])
{
    const int64_t lanes = g->kernels->lanes, count = b->images * b->rows * b->columns;
    const int64_t tiles = talc_ceil_div(count, TALC_CPU_VECTORS * lanes);
    if (g->kernels->gather == NULL || tiles * TALC_CPU_VECTORS > GATHERED_VECTORS ||
        (lanes - 2) / b->columns + 2 > TALC_CPU_RUNS)
        return 0;
    memset(runs, 0, (size_t)(tiles * TALC_CPU_VECTORS) * sizeof *runs);
    for (int64_t first = 0, row = 0; first < count; first += b->columns, row++) {
        const int64_t at =
            row / b->rows * plan->halo_tile.image + row % b->rows * plan->halo_tile.w.size - first;
        const int64_t end = first + b->columns;
        for (int64_t vector = first / lanes; vector * lanes < end; vector++) {
            const int64_t lo = talc_larger(first - vector * lanes, 0);
            const int64_t hi = talc_smaller(end - vector * lanes, lanes);
            int i = 0;
            while (runs[vector].lanes[i] != 0)
                i++;
            runs[vector].at[i] = (int32_t)(at + vector * lanes);
            runs[vector].lanes[i] = (uint16_t)((1 << hi) - (1 << lo));
        }
    }
    return tiles;
}

/* Copies the outputs' elements under each tap of a channel of the halo tile, side by side, in steps
 * that may run over the end of a row: the next one follows, or room. They go to
 * [tile][channel][tap][element of the tile], which the microkernel reads from one end to the other;
 * tiles are `apart`. */
#define GATHER(constant, suffix, T, A)                                                             \
    TALC_TARGET_CLONES                                                                             \
    static void gather_##suffix(const talc_cpu_gemm *g, const talc_cpu_gemm_plan *plan,            \
                                const gemm_block *b, const T *halo_tile, T *row, T *to,            \
                                int64_t full, int64_t apart)                                       \
    {                                                                                              \
        const int64_t count = b->images * b->rows * b->columns, step = count + GATHERED_STEP;      \
        T *row_to = row;                                                                           \
        for (int64_t kh = 0; kh < g->h.taps; kh++)                                                 \
            for (int64_t kw = 0; kw < g->w.taps; kw++, row_to += GATHERED_STEP) {                  \
                const T *from = halo_tile + talc_cpu_halo_tile_tap(&plan->halo_tile, kh, kw);      \
                for (int64_t image = 0; image < b->images; image++)                                \
                    for (int64_t i = 0; i < b->rows; i++, row_to += b->columns) {                  \
                        const T *row_from =                                                        \
                            from + image * plan->halo_tile.image + i * plan->halo_tile.w.size;     \
                        for (int64_t j = 0; j < b->columns; j += GATHERED_STEP)                    \
                            memcpy(row_to + j, row_from + j, GATHERED_STEP * sizeof(T));           \
                    }                                                                              \
            }                                                                                      \
        for (int64_t first = 0; first < count; first += full)                                      \
            for (int64_t tap = 0; tap < g->h.taps * g->w.taps; tap++)                              \
                for (int64_t i = 0; i < full; i++)                                                 \
                    to[first / full * apart + tap * full + i] = row[first + tap * step + i];       \
    }

TALC_CPU_FLOATS(GATHER)

/* Fills some channels of the halo tile of a block that has `summed` planes of x from plane `from`
 * on. `one` has room for a channel that is still to be gathered. */
static void fill(const gemm_context *c, const gemm_block *b, int64_t from, int64_t summed,
                 talc_range channels, char *one, char *halo_tile)
{
    const talc_cpu_gemm *g = c->gemm;
    const talc_cpu_gemm_plan *plan = c->plan;
    const int64_t size = (int64_t)talc_dtype_size(g->dtype);
    if (!plan->gathered) {
        const talc_cpu_halo_tile_source source =
            source_of(c, b, from + channels.lo, channels.hi - channels.lo);
        talc_cpu_halo_tile_fill(&plan->halo_tile, &source,
                                halo_tile + channels.lo * plan->channel * size);
        return;
    }
    const int64_t full = TALC_CPU_VECTORS * c->gemm->kernels->lanes;
    const int64_t taps = g->h.taps * g->w.taps * full;
    talc_cpu_runs runs[GATHERED_VECTORS];
    const int64_t tiles = find_runs(g, plan, b, runs);
    char *row = one + (plan->halo_tile.channel + GATHERED_STEP) * size;
    for (int64_t channel = channels.lo; channel < channels.hi; channel++) {
        const talc_cpu_halo_tile_source source = source_of(c, b, from + channel, 1);
        talc_cpu_halo_tile_fill(&plan->halo_tile, &source, one);
        char *to = halo_tile + channel * taps * size;
        for (int64_t tap = 0; tiles > 0 && tap < g->h.taps * g->w.taps; tap++) {
            const int64_t at =
                talc_cpu_halo_tile_tap(&plan->halo_tile, tap / g->w.taps, tap % g->w.taps);
            g->kernels->gather(runs, tiles, one + at * size, to + tap * full * size, summed * taps);
        }
        if (tiles == 0)
            TALC_CPU_CALL(
                g->dtype, gather,
                (g, plan, b, (const void *)one, (void *)row, (void *)to, full, summed * taps));
    }
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
        fill(c, &b, from, summed, (talc_range){ lo, talc_smaller(lo + FILLED, summed) },
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

static void gemm_task(void *context, int64_t task, int worker)
{
    const gemm_context *c = context;
    const talc_cpu_gemm *g = c->gemm;
    const talc_cpu_gemm_plan *plan = c->plan;
    const int64_t block_index = task / plan->made_blocks;
    const gemm_block b = block_of(c->gemm, c->plan, block_index, task % plan->made_blocks);
    const int64_t size = (int64_t)talc_dtype_size(g->dtype), phases = phases_of(g);
    const bool input = c->problem->direction == TALC_GRAD_INPUT;
    const int64_t panels = panels_of(g, b.made_count);
    char *sums = c->slices + (size_t)worker * plan->slice, *one = sums + plan->sums * size;
    char *own = one + one_of(g, plan) * size;

    for (int64_t from = 0; from < g->summed; from += plan->summed) {
        const int64_t summed = talc_smaller(plan->summed, g->summed - from);
        char *halo_tile = plan->shared_bytes > 0 ? shared_at(c, block_index, from) : own;
        if (plan->shared_bytes == 0)
            fill(c, &b, from, summed, (talc_range){ 0, summed }, one, halo_tile);
        const char *w = w_at(c, &b, from);
        for (int64_t panel = 0; panel < panels; panel++) {
            const talc_range of = panel_at(g, &b, panel);
            const int64_t first = of.lo, count = of.hi - of.lo;
            const int64_t made = b.made + first;
            talc_cpu_tile tile = { .terms = c->terms,
                                   .add = from > 0,
                                   .next = plan->gathered ? 0 : plan->channel };
            /* Sums of ranges of taps get + 0, so that -0 does not depend on the range. */
            static const double zeros[TALC_CPU_ROWS];
            const bool ends =
                !c->has_ranges && talc_cpu_conv2d_clamps(c->problem, &tile.low, &tile.high);
            if (c->has_ranges) {
                tile.low = -INFINITY;
                tile.high = INFINITY;
            }
            for (int64_t i = 0; i < count; i++)
                tile.w[i] = w + (first + i) * g->weight.made * size;
            /* What comes next: a panel, or the first one of the next planes of x. */
            const bool more = panel + 1 < panels;
            const int64_t after = talc_smaller(plan->summed, g->summed - from - summed);
            const int64_t next = more ? summed : after;
            const char *of_next =
                w + (more ? (first + count) * g->weight.made : summed * g->weight.summed) * size;
            char *of_panel =
                sums + (plan->summed < g->summed ? first * phases * plan->phase * size : 0);
            const bool ranged =
                plan->h_ranges * plan->w_ranges > 1 && are_finite(g, &tile, count, summed);
            bool recompute = false;
            for (int64_t phase = 0; phase < phases; phase++) {
                const int64_t taps =
                    g->h_phase[phase / g->w_phases].taps * g->w_phase[phase % g->w_phases].taps;
                tile.count = summed * taps;
                tile.ends = (ends || c->has_ranges) && from + summed == g->summed;
                tile.bias = c->has_ranges
                                ? zeros
                                : talc_cpu_at(g->dtype, c->arguments->bias, b.g * g->made + made);
                fetch_panel(c, of_next, count,
                            (talc_range){ phase * next / phases, (phase + 1) * next / phases });
                char *of_phase = of_panel + phase * count * plan->phase * size;
                add_products(c, &b, made, summed, count, ranged, &tile, halo_tile, of_phase);
                tile.terms += plan->summed * taps;
                if (input && taps > 0 && from + summed == g->summed && !plan->direct)
                    recompute = TALC_CPU_VALUE(g->dtype, has_nan,
                                               ((const void *)of_phase, count * plan->phase)) ||
                                recompute;
            }
            for (int64_t i = 0; i < count && from + summed == g->summed; i++) {
                if (plan->folds > 1)
                    store_folded(c, &b, i, count, of_panel, made + i);
                else if (!plan->direct)
                    store_plane(c, &b, i, count, of_panel, made + i);
                for (int64_t image = 0; image < b.images && plan->direct && input; image++)
                    recompute =
                        TALC_CPU_VALUE(g->dtype, has_nan,
                                       ((const void *)y_at(c, &b, b.n + image, made + i, b.row),
                                        b.rows * b.columns)) ||
                        recompute;
                if (recompute)
                    mend_plane(c, &b, made + i);
                else if (!input && !ends && talc_cpu_conv2d_has_epilogue(c->problem))
                    finish_plane(c, &b, made + i);
            }
        }
    }
}

// ---- The map ------------------------------------------------------------------------------------

enum { TASK, PANEL, PLANE, TILE, VECTOR, LANE, PHASE, LEVELS };

typedef struct gemm_map {
    talc_cpu_gemm gemm; /* without its phases */
    talc_cpu_gemm_plan plan;
} gemm_map;

static int64_t map_element(const talc_owner_map *map, const int64_t numbers[])
{
    const gemm_map *m = (const gemm_map *)map->data.bytes;
    const talc_cpu_gemm *g = &m->gemm;
    const int64_t lanes = g->kernels->lanes, made_blocks = m->plan.made_blocks;
    const gemm_block b =
        block_of(g, &m->plan, numbers[TASK] / made_blocks, numbers[TASK] % made_blocks);
    if (numbers[PANEL] >= panels_of(g, b.made_count))
        return -1;
    const talc_range panel = panel_at(g, &b, numbers[PANEL]);
    const sums_layout layout = layout_of(g, &m->plan, &b);
    int64_t at = 0, width = width_at(g, &m->plan, &layout, 0);
    for (int64_t tile = 0; tile < numbers[TILE] && at < layout.all; tile++) {
        at += width;
        width = at < layout.all ? width_at(g, &m->plan, &layout, at) : 0;
    }
    if (panel.lo + numbers[PLANE] >= panel.hi || numbers[VECTOR] * lanes >= width)
        return -1;
    at += numbers[VECTOR] * lanes + numbers[LANE];
    const int64_t folds = m->plan.folds, part = at / layout.image, image = part / folds;
    const int64_t phase = numbers[PHASE], row = at % layout.image / layout.row;
    const int64_t column = part % folds * layout.row + at % layout.image % layout.row;
    const int64_t h = (b.row + row) * g->h_phases + phase / g->w_phases;
    const int64_t w = column * g->w_phases + phase % g->w_phases;
    if (image >= b.images || row >= b.rows || column >= b.columns || h >= g->H ||
        b.column * g->w_phases + w >= g->W)
        return -1;
    return element_at(g, &b, b.n + image, b.made + panel.lo + numbers[PLANE], h) + w;
}

void talc_cpu_gemm_map(const talc_cpu_gemm *gemm, const talc_cpu_gemm_plan *plan,
                       talc_owner_map *map)
{
    _Static_assert(sizeof(gemm_map) <= sizeof map->data, "a map keeps it");
    const talc_cpu_kernels *kernels = gemm->kernels;
    const int64_t all = width_of(gemm, plan, plan->images, plan->rows, plan->columns);
    const int64_t taps = taps_of(gemm), halo_tiles = talc_ceil_div(gemm->summed, plan->summed);
    const int64_t full = TALC_CPU_VECTORS * kernels->lanes;
    const int64_t parts = plan->images * plan->folds;
    const int64_t tiles = plan->direct
                              ? plan->images * talc_ceil_div(plan->rows * plan->columns, full)
                          : plan->folds > 1 ? parts * talc_ceil_div(all / parts, full)
                                            : talc_ceil_div(all, full) + 1;
    *map = (talc_owner_map){
        .levels = LEVELS,
        .level = { [TASK] = { "task", TALC_LEVEL_TASK, tasks_of(gemm, plan) },
                   [PANEL] = { "panel", TALC_LEVEL_TILE, panels_of(gemm, plan->made) },
                   [PLANE] = { "row", TALC_LEVEL_REGISTER, kernels->rows[TALC_CPU_VECTORS] },
                   [TILE] = { "tile", TALC_LEVEL_TILE, tiles },
                   [VECTOR] = { "vector", TALC_LEVEL_VECTOR, TALC_CPU_VECTORS },
                   [LANE] = { "lane", TALC_LEVEL_LANE, kernels->lanes },
                   [PHASE] = { "phase", TALC_LEVEL_SEQUENCE, phases_of(gemm) } },
        .loops = 2,
        .loop = { { "halo tile", TALC_LOOP_CHANNEL, plan->summed, halo_tiles, TALC_LEVEL_SEQUENCE },
                  { "channel", TALC_LOOP_CHANNEL, 1, plan->summed, TALC_LEVEL_SEQUENCE } },
        .element = map_element,
    };
    if (phases_of(gemm) == 1 && gemm->h_phase->weight_step > 0)
        map->loop[map->loops++] = (talc_loop){ "tap", TALC_LOOP_TAP, 1, taps, TALC_LEVEL_SEQUENCE };
    snprintf(map->text, sizeof map->text,
             "blocks of %lld x %lld outputs, images: %lld, channels: %lld; %s of %lld x %lld",
             (long long)plan->rows, (long long)plan->columns, (long long)plan->images,
             (long long)plan->made, plan->gathered ? "gathered from a halo tile" : "halo tile",
             (long long)(plan->halo_tile.h.count * plan->halo_tile.h.size),
             (long long)(plan->halo_tile.w.count * plan->halo_tile.w.size));
    gemm_map own = { *gemm, *plan };
    own.gemm.h_phase = own.gemm.w_phase = NULL;
    memcpy(map->data.bytes, &own, sizeof own);
}

// ---- Running ------------------------------------------------------------------------------------

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
        .has_ranges = h_ranges_of(gemm) * w_ranges_of(gemm) > 1,
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
