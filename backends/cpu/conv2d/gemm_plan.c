/// How the product of implicit_gemm is divided: blocks of outputs, halo tiles and workspace.
#include "backends/cpu/conv2d/gemm_block.h"
#include "backends/cpu/device/threads.h"

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
    LINE = 16, /* elements of a cache line of f32 */
    ROW_PRODUCTS = 2,
    GATHERS = 2,
    TILE_PRODUCTS = 200,
    SLOT_PRODUCTS = 16,
    TASK_PRODUCTS = 2000,
    WAKING = 400,
    FOLDED = 8, /* columns of a group at least */
    RANGED = 3, /* taps of an axis at most */
};

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
    plan->h_ranges = h_ranges_of(g);
    plan->w_ranges = w_ranges_of(g);
    plan->has_ranges = plan->h_ranges * plan->w_ranges > 1;
    if (!roomy)
        plan->h_ranges = plan->w_ranges = 1;
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
    const int64_t steps = (1 + g->h.taps * g->w.taps) * TALC_CPU_GATHERED_STEP;
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
    plan->one = one_of(g, plan);
    const size_t shared = (size_t)shared_of(g, plan);
    plan->shared_bytes = 0;
    plan->slice = talc_cpu_aligned((size_t)((plan->sums + plan->one) * size));
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
