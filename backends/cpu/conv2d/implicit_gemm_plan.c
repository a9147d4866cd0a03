/// How the product of implicit_gemm is divided: blocks of outputs, halo tiles and workspace.
#include "backends/cpu/conv2d/implicit_gemm_block.h"
#include "backends/cpu/device/threads.h"

/* A block's halo tile takes at most half of the L2 cache, and so do its sums; the rows of w that a
 * tile reads come from the L1 cache, or stream into it, while they meet all columns of the block.
 * So a block has the columns for which loading those rows costs little, fewer of each phase where
 * sums of several are kept. Blocks are then halved, in outputs or in output channels, whichever
 * costs less, until each thread has TASKS of them, and of all these plans the one is taken whose
 * last thread ends first. */
enum {
    CACHE_SHARE = 2,  /* of the L2 cache a half is for the halo tile */
    MAX_TERMS = 2048, /* of the sums, in a halo tile */
    MAX_COLUMNS = 512,
    MIN_COLUMNS = 64,
    MIN_OUT_CHANNELS = 8,
    TASKS = 4,
    CANDIDATES = 16, /* numbers of rows that are tried */
    /* Blocks of output channels share halo tiles where filling one for each would cost more than
     * a tenth of the products, if they all fit so many L2 caches. */
    PRODUCTS_PER_FILL = 10,
    MAX_SHARED_CACHES = 4,
    MIN_SEGMENT = 8,     /* columns */
    MAX_RANGED_TAPS = 3, /* of an axis */
    /* What else costs time, in multiplications of vectors. */
    ROW_PRODUCTS = 2,     /* filling a row, beside one for two columns */
    GATHERS = 2,          /* gathering it: so many times that */
    TILE_PRODUCTS = 200,  /* beginning and ending a tile */
    TASK_PRODUCTS = 2000, /* a task */
    WAKING = 400,         /* a thread */
    SLOT_PRODUCTS = 16,   /* with more than one slot products take 1/16 longer */
};

static talc_cpu_halo_tile halo_tile_of(const talc_cpu_gemm *g, const talc_cpu_gemm_plan *plan,
                                       int64_t rows, int64_t images)
{
    return talc_cpu_halo_tile_of(&g->h, &g->w, g->padding_mode, rows, plan->columns, images,
                                 plan->segments > 1);
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
                   axis->taps <= MAX_RANGED_TAPS && outside_of(axis) > 0.03 &&
                   outside_end_of(axis) * across >= TALC_CPU_VECTORS * g->kernels->lanes
               ? talc_larger(2 * axis->taps - 1, 1)
               : 1;
}

/* Ranges of columns' taps: where zeros around the image are many columns. */
static int64_t w_ranges_of(const talc_cpu_gemm *g)
{
    return g->w.stride == 1 && g->w.dilation >= MIN_SEGMENT ? ranges_of(g, &g->w, g->h.outputs) : 1;
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
           (double)(width * g->out_channels * taps_of(g)) / (double)lanes;
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
    if (plan->out_blocks == 1 ||
        fills_once(g, plan) * (double)(PRODUCTS_PER_FILL * plan->out_blocks) <=
            multiplications_of(g, plan))
        return 0;
    const int64_t size = (int64_t)talc_dtype_size(g->dtype);
    const double elements =
        (double)block_count(g, plan) * (double)g->in_channels * (double)plan->channel_stride +
        TALC_CPU_LANES;
    const bool few = elements * (double)size <= (double)(MAX_SHARED_CACHES * g->cache_bytes);
    return few ? (int64_t)elements * size : 0;
}

/* What a plane of x costs in all, in multiplications. */
static double products_of(const talc_cpu_gemm *g, const talc_cpu_gemm_plan *plan)
{
    const int64_t fills = shared_of(g, plan) > 0 ? 1 : plan->out_blocks;
    return multiplications_of(g, plan) + (double)fills * fills_once(g, plan);
}

/* When the last thread ends; other work holds one up by a quarter of a task. */
static double end_of(const talc_cpu_gemm *g, const talc_cpu_gemm_plan *plan)
{
    const int64_t tasks = tasks_of(g, plan), rounds = talc_ceil_div(tasks, g->threads);
    const double all = products_of(g, plan) * (double)g->in_channels * (double)g->groups;
    return ((double)rounds + 0.25) * (all / (double)tasks + TASK_PRODUCTS) +
           (double)talc_smaller(tasks, g->threads) * WAKING;
}

/* Whether outputs without use would cost more than gathering them; *gathered is then the plan that
 * gathers. */
static bool gathering_pays(const talc_cpu_gemm *g, const talc_cpu_gemm_plan *plan,
                           talc_cpu_gemm_plan *gathered)
{
    const int64_t lanes = g->kernels->lanes, size = (int64_t)talc_dtype_size(g->dtype);
    *gathered = *plan;
    gathered->gathered = true;
    const int64_t all = width_of(g, plan, plan->images, plan->rows, plan->columns);
    const int64_t used = width_of(g, gathered, plan->images, plan->rows, plan->columns);
    gathered->channel_stride =
        g->h.taps * g->w.taps * talc_round_up(used, TALC_CPU_VECTORS * lanes);
    const int64_t bytes = gathered->channel_stride * size, capacity = g->cache_bytes / CACHE_SHARE;
    if (plan->segments > 1 || bytes > capacity)
        return false;
    /* What is gathered and shared comes from other cores, once for each panel of a few planes. */
    const bool shared = shared_of(g, gathered) > 0;
    const int64_t planes = shared ? g->out_channels : plan->out_channels;
    const int64_t products = planes * taps_of(g), loads = shared ? used * products / 2 : 0;
    /* Tiles of fewer channels are more; the slots of a stride are in more cache lines. Vectors of
     * 64 bytes fill and multiply at other rates. */
    const bool wide = lanes * size == 64;
    const int64_t slots = plan->halo_tile.h.count * plan->halo_tile.w.count;
    const int64_t lines = slots > 1 && !wide ? used * products / SLOT_PRODUCTS : 0;
    const double tiles = (double)used * (double)planes /
                         (double)(TALC_CPU_VECTORS * g->kernels->rows[TALC_CPU_VECTORS]);
    double gathering = (double)(lanes * filling_of(g, gathered));
    if (!wide)
        gathering = GATHERS * gathering + tiles * TILE_PRODUCTS * (double)bytes / (double)capacity;
    return (double)((all - used) * products + lines) > gathering + (double)loads;
}

/* Blocks of equal size, of at most as many outputs and channels as asked for, and their halo tile.
 * In a `roomy` workspace it may be gathered, and terms have tables for ranges of taps; columns that
 * have these are segmented. */
static void cut(const talc_cpu_gemm *g, int64_t outputs, int64_t out_channels, bool roomy,
                talc_cpu_gemm_plan *plan)
{
    plan->columns = talc_even(g->w.outputs, talc_larger(outputs, MIN_COLUMNS));
    plan->h_ranges = h_ranges_of(g);
    plan->w_ranges = w_ranges_of(g);
    plan->has_ranges = plan->h_ranges * plan->w_ranges > 1;
    if (!roomy)
        plan->h_ranges = plan->w_ranges = 1;
    plan->segments = plan->w_ranges > 1 ? talc_ceil_div(plan->columns, g->w.dilation) : 1;
    const int64_t plane = talc_larger(g->h.outputs * g->w.outputs, 1);
    plan->images = 2 * plane <= outputs ? talc_even(g->N, outputs / plane) : 1;
    plan->out_channels = talc_even(g->out_channels, out_channels);
    plan->column_blocks = talc_ceil_div(g->w.outputs, plan->columns);
    plan->image_blocks = talc_ceil_div(g->N, plan->images);
    plan->out_blocks = talc_ceil_div(g->out_channels, plan->out_channels);
    plan->row_blocks = 1;
    plan->gathered = false;
    plan->rows = rows_of(g, outputs, tasks_of(g, plan), plan);
    plan->row_blocks = talc_ceil_div(g->h.outputs, plan->rows);
    plan->halo_tile = halo_tile_of(g, plan, plan->rows, plan->images);
    plan->channel_stride = plan->halo_tile.channel_stride;
    talc_cpu_gemm_plan gathered;
    if (roomy && gathering_pays(g, plan, &gathered))
        *plan = gathered;
}

/* Elements of a channel that is yet to be gathered, and of its rows under each tap. Steps and tiles
 * may run over the end of both. */
static int64_t staging_elements_of(const talc_cpu_gemm *g, const talc_cpu_gemm_plan *plan)
{
    const int64_t steps = (1 + g->h.taps * g->w.taps) * TALC_CPU_GATHERED_STEP;
    return plan->gathered ? plan->halo_tile.channel_stride + plan->channel_stride + steps +
                                TALC_CPU_VECTORS * TALC_CPU_LANES
                          : 0;
}

/* The workspace for all workers and for each. */
static void add_sizes(const talc_cpu_gemm *g, size_t capacity, size_t limit,
                      talc_cpu_gemm_plan *plan)
{
    const talc_cpu_kernels *kernels = g->kernels;
    const int64_t size = (int64_t)talc_dtype_size(g->dtype), taps = talc_larger(taps_of(g), 1);
    /* A term's distances have 32 bits. */
    const int64_t fitting = talc_smaller((int64_t)capacity / size / plan->channel_stride,
                                         INT32_MAX / 2 / talc_larger(g->weight.in_stride, taps));
    plan->in_channels =
        talc_even(g->in_channels, talc_smaller(fitting, talc_ceil_div(MAX_TERMS, taps)));
    plan->terms_bytes =
        talc_cpu_aligned((size_t)(plan->h_ranges * plan->w_ranges * plan->in_channels * taps) *
                         sizeof(talc_cpu_term));
    plan->phase_elements = width_of(g, plan, plan->images, plan->rows, plan->columns);
    plan->sums_elements = plan->phase_elements * phases_of(g) *
                          (plan->in_channels < g->in_channels
                               ? plan->out_channels
                               : talc_smaller(plan->out_channels, kernels->rows[TALC_CPU_VECTORS]));
    plan->stores_to_y = !plan->gathered && plan->segments == 1 && phases_of(g) == 1 &&
                        plan->in_channels == g->in_channels && plan->columns == g->w.outputs &&
                        plan->columns % kernels->lanes == 0;
    plan->staging_elements = staging_elements_of(g, plan);
    const size_t shared = (size_t)shared_of(g, plan);
    plan->shared_bytes = 0;
    plan->slice = talc_cpu_aligned((size_t)((plan->sums_elements + plan->staging_elements) * size));
    if (shared > 0 && shared + plan->terms_bytes + plan->slice < limit)
        plan->shared_bytes = talc_cpu_aligned(shared);
    else
        plan->slice += talc_cpu_aligned(
            (size_t)((plan->in_channels * plan->channel_stride + TALC_CPU_LANES) * size));
}

void talc_cpu_gemm_plan_of(const talc_cpu_gemm *gemm, size_t limit, talc_cpu_gemm_plan *plan)
{
    const int64_t size = (int64_t)talc_dtype_size(gemm->dtype);
    const int64_t share = talc_smaller(gemm->cache_bytes / CACHE_SHARE, (int64_t)(limit / 2));
    const int64_t plane = talc_larger(gemm->H * gemm->W, MIN_COLUMNS);
    int64_t outputs =
        talc_smaller(talc_larger(2 * MAX_COLUMNS / phases_of(gemm), MIN_COLUMNS), MAX_COLUMNS);
    int64_t out_channels = talc_larger(
        share / size / talc_smaller(plane, outputs * phases_of(gemm)), MIN_OUT_CHANNELS);
    cut(gemm, outputs, out_channels, true, plan);
    talc_cpu_gemm_plan candidate = *plan;
    double end = end_of(gemm, plan);
    while (gemm->threads > 1 && tasks_of(gemm, &candidate) < TASKS * gemm->threads &&
           (candidate.out_channels > MIN_OUT_CHANNELS || outputs > MIN_COLUMNS)) {
        talc_cpu_gemm_plan fewer_channels = candidate, fewer_outputs = candidate;
        cut(gemm, outputs, talc_larger(candidate.out_channels / 2, 1), true, &fewer_channels);
        cut(gemm, talc_larger(outputs / 2, MIN_COLUMNS), out_channels, true, &fewer_outputs);
        if (candidate.out_channels > MIN_OUT_CHANNELS &&
            (outputs <= MIN_COLUMNS ||
             products_of(gemm, &fewer_channels) <= products_of(gemm, &fewer_outputs))) {
            out_channels = candidate.out_channels / 2;
            candidate = fewer_channels;
        } else {
            outputs = talc_larger(outputs / 2, MIN_COLUMNS);
            candidate = fewer_outputs;
        }
        const double candidate_end = end_of(gemm, &candidate);
        if (candidate_end < end) {
            end = candidate_end;
            *plan = candidate;
        }
    }
    add_sizes(gemm, (size_t)share, limit, plan);
    for (; plan->terms_bytes + plan->slice > limit && outputs > 1; outputs /= 2) {
        cut(gemm, outputs, out_channels, false, plan);
        add_sizes(gemm, (size_t)share, limit, plan);
    }
}

size_t talc_cpu_gemm_workspace(const talc_cpu_gemm *gemm, const talc_cpu_gemm_plan *plan,
                               size_t limit)
{
    return talc_cpu_workspace(tasks_of(gemm, plan), plan->terms_bytes + plan->shared_bytes,
                              plan->slice, limit);
}
