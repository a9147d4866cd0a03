/// How the products of `pointwise` are divided: which operand has the columns, blocks, workspace.
#include "backends/cpu/conv2d/pointwise.h"
#include "backends/cpu/device/threads.h"

/* A block's panels take half of the L2 cache, and a row of its sums MAX_COLUMNS at most, so that
 * what follows finds them in the L1 cache. Blocks are halved until there are TASKS of them for each
 * thread, or one takes no longer than PRODUCTS multiplications of vectors. */
enum {
    CACHE_SHARE = 2,
    MAX_COLUMNS = 512,
    MAX_TERMS = 2048,
    MAX_WEIGHT_TERMS = 512, /* of dw */
    MIN_WEIGHT_ROWS = 128,
    MAX_SWAPPED_ROWS = 256, /* of a block */
    MAX_IN_PLACE_ROWS = 16, /* that read columns which are not packed */
    TASKS = 4,
    /* Of dw, for any number of threads, as the splits of its sums reach its bits. */
    WEIGHT_TASKS = 32,
    PRODUCTS = 16 << 10,
    TRANSPOSES = 2, /* elements transposed in the time of a product */
    /* dx's weights are transposed where so many pixels or more meet them: as they stand, each term
     * of a row is in another cache line. */
    MIN_READS = 64,
};

static void cut(const talc_conv2d_problem *p, size_t limit, pointwise_plan *plan)
{
    const talc_cpu_kernels *kernels = talc_cpu_kernels_of(p->dtype);
    const int64_t size = (int64_t)talc_dtype_size(p->dtype), width = width_of(p->dtype);
    const int64_t lanes = kernels->lanes, vectors = talc_ceil_div(plan->columns, lanes);
    const int64_t share =
        talc_smaller(talc_cpu_cache_bytes() / CACHE_SHARE, (int64_t)(limit / 4)) / size;
    const int64_t rows = kernels->rows[TALC_CPU_VECTORS]; /* of a tile */
    const int64_t term = is_weight(p) ? 1 : plan->swapped ? p->OH * p->OW : p->C / p->groups;
    /* Terms' distances have 32 bits. */
    const int64_t distance = talc_larger(talc_larger(term, 1), p->OH * p->OW);
    const int64_t max_terms =
        talc_larger(1, talc_smaller(talc_smaller(MAX_TERMS, share / width), INT32_MAX / distance));
    plan->k_block = talc_even(plan->terms,
                              is_weight(p) ? talc_smaller(max_terms, MAX_WEIGHT_TERMS) : max_terms);
    plan->panels = talc_ceil_div(plan->columns, width);
    plan->last = (plan->panels - 1) * width -
                 (vectors % TALC_CPU_VECTORS == 1 && plan->panels > 1 ? lanes : 0);
    plan->in_place = !is_weight(p) && !plan->swapped && plan->rows <= MAX_IN_PLACE_ROWS &&
                     plan->columns % lanes == 0;
    const int64_t fitting = talc_smaller(share / (width * plan->k_block), MAX_COLUMNS / width);
    plan->column_blocks =
        plan->packed > 0 ? 1 : talc_ceil_div(plan->panels, talc_larger(1, fitting));
    plan->row_blocks = plan->swapped ? talc_ceil_div(plan->rows, MAX_SWAPPED_ROWS) : 1;
    /* Images and groups are tasks of their own, of dw groups. */
    const double others = (double)(is_weight(p) ? 1 : p->N) * (double)p->groups;
    const double products = others * (double)plan->rows * (double)vectors * (double)plan->terms;
    const double enough = is_weight(p) ? WEIGHT_TASKS : TASKS * talc_cpu_threads();
    const double wanted = products / PRODUCTS < enough ? products / PRODUCTS : enough;
    const int64_t max_row_blocks = is_weight(p) ? talc_ceil_div(plan->rows, MIN_WEIGHT_ROWS)
                                                : talc_larger(talc_ceil_div(plan->rows, rows), 1);
    while (others * (double)(plan->column_blocks * plan->row_blocks) < wanted) {
        const bool more_columns = plan->column_blocks < plan->panels;
        const bool more_rows = plan->row_blocks < max_row_blocks;
        if (!more_columns && !more_rows)
            break;
        /* Of either operand the larger one is divided. */
        if (more_columns && (!more_rows || plan->swapped || plan->columns >= plan->rows))
            plan->column_blocks = talc_smaller(2 * plan->column_blocks, plan->panels);
        else
            plan->row_blocks = talc_smaller(2 * plan->row_blocks, max_row_blocks);
    }
    plan->panel_block = talc_larger(1, talc_ceil_div(plan->panels, plan->column_blocks));
    plan->column_blocks = talc_ceil_div(plan->panels, plan->panel_block);
    plan->row_block =
        talc_round_up(talc_larger(1, talc_ceil_div(plan->rows, plan->row_blocks)), rows);
    plan->row_blocks = talc_ceil_div(plan->rows, plan->row_block);
}

/* Channels as columns, of dw output channels, may take fewer vectors than pixels, of dw input
 * channels, but sums have to be transposed then and, for y, weights packed. */
static bool swapping_pays(const talc_conv2d_problem *p, const pointwise_plan *plan)
{
    const int64_t lanes = talc_cpu_kernels_of(p->dtype)->lanes;
    const double rows = (double)plan->rows, columns = (double)plan->columns;
    const double terms = (double)plan->terms * (double)(is_weight(p) ? p->N : 1);
    const double packing =
        p->direction == TALC_FORWARD ? rows * terms / TRANSPOSES / (double)p->N : 0;
    const double sums = rows * columns * (is_weight(p) ? terms / MAX_WEIGHT_TERMS : 1);
    return columns * (double)talc_ceil_div(plan->rows, lanes) * terms + sums + packing <
           rows * (double)talc_ceil_div(plan->columns, lanes) * terms;
}

pointwise_plan talc_cpu_pointwise_plan_of(const talc_conv2d_problem *p, size_t limit)
{
    const int64_t IC = p->C / p->groups, OC = p->OC / p->groups, P = p->OH * p->OW;
    const int64_t width = width_of(p->dtype), size = (int64_t)talc_dtype_size(p->dtype);
    pointwise_plan plan = { .rows = p->direction == TALC_GRAD_INPUT ? IC : OC,
                            .columns = is_weight(p) ? IC : P,
                            .terms = is_weight(p)                   ? P
                                     : p->direction == TALC_FORWARD ? IC
                                                                    : OC };
    const size_t packed = (size_t)(p->groups * talc_round_up(plan.rows, width) * plan.terms * size);
    plan.swapped = swapping_pays(p, &plan) && (is_weight(p) || packed <= limit / 2);
    if (plan.swapped) {
        const int64_t rows = plan.rows;
        plan.rows = plan.columns;
        plan.columns = rows;
        plan.packed = is_weight(p) ? 0 : talc_cpu_aligned(packed);
    }
    cut(p, limit, &plan);
    const size_t weights = (size_t)(p->groups * IC * OC * size);
    if (p->direction == TALC_GRAD_INPUT && !plan.swapped && p->N * P >= MIN_READS &&
        weights <= limit / 4)
        plan.transposed = talc_cpu_aligned(weights);
    plan.terms_bytes = talc_cpu_aligned((size_t)plan.k_block * sizeof(talc_cpu_term));
    const int64_t sums = plan.swapped ? plan.row_block : TALC_CPU_ROWS;
    plan.slice =
        talc_cpu_aligned((size_t)((sums * width + (plan.packed > 0 || plan.in_place
                                                       ? 0
                                                       : plan.panel_block * width * plan.k_block)) *
                                  size) +
                         TALC_CPU_POINTWISE_HEADER);
    if (is_weight(p))
        plan.split_k = talc_cpu_split_k_of(p, p->groups * plan.column_blocks * plan.row_blocks,
                                           p->N * k_blocks_of(&plan), limit);
    return plan;
}
