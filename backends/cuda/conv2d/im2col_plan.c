#include "backends/cuda/conv2d/im2col.h"

#include "tensor/extent.h"

/* cuBLAS's tiles of outputs are 128 channels by up to 256 columns: blocks of columns are whole
 * waves of tiles over the multiprocessors where the workspace is large enough, so that none idles
 * at the end. With fewer than MIN_COLUMNS columns a product is slower than one whose sum is split
 * into chunks of rows. */
enum { TILE_CHANNELS = 128, TILE_COLUMNS = 256, MIN_COLUMNS = 2048 };

/* The columns of a plan where not even four fit the limit. Fewer would do, but launches would take
 * longer than the work. */
enum { FEWEST = MIN_COLUMNS };

/* Rows of B are aligned to 16 bytes. */
static int64_t aligned(int64_t columns)
{
    return talc_round_up(columns, 4);
}

/* The columns of a chunk are a multiple of this: whole waves of tiles if that many fit, else tiles,
 * else 16 bytes. Waves do not take the columns below MIN_COLUMNS where more fit: the plan for
 * exactly the bytes of a plan would then be another, with fewer channels. */
static int64_t unit_of(int multiprocessors, const talc_conv2d_problem *p, int64_t fit)
{
    const int64_t tiles = multiprocessors / talc_ceil_div(p->OC / p->groups, TILE_CHANNELS),
                  round = tiles * TILE_COLUMNS;
    if (tiles > 1 && fit >= round && (fit < MIN_COLUMNS || fit / round * round >= MIN_COLUMNS))
        return round;
    return fit >= TILE_COLUMNS ? TILE_COLUMNS : 4;
}

static int64_t columns_of(int multiprocessors, const talc_conv2d_problem *p, int64_t fit)
{
    const int64_t P = p->OH * p->OW;
    if (aligned(P) <= fit)
        return P;
    if (fit < 4)
        return talc_smaller(FEWEST, P);
    const int64_t unit = unit_of(multiprocessors, p, fit);
    return fit / unit * unit;
}

talc_cuda_im2col_plan talc_cuda_im2col_cut(int multiprocessors, const talc_conv2d_problem *p,
                                           size_t limit)
{
    const int64_t size = (int64_t)talc_dtype_size(p->dtype),
                  capacity = (int64_t)(limit / (size_t)size);
    const int64_t C = p->C / p->groups, taps = p->KH * p->KW, P = p->OH * p->OW;
    talc_cuda_im2col_plan plan = { 1, P, C, aligned(P), 0, 0, 0 };
    if (C * taps <= capacity / plan.ld) {
        plan.slices = talc_even(p->N * p->groups, capacity / (C * taps * plan.ld));
    } else {
        const int64_t min = aligned(talc_smaller(P, MIN_COLUMNS));
        plan.channels = talc_even(C, talc_smaller(C, capacity / taps / min));
        plan.columns = columns_of(multiprocessors, p, capacity / (plan.channels * taps));
        plan.ld = aligned(plan.columns);
    }
    plan.bytes = (size_t)(plan.slices * plan.channels * taps * plan.ld * size);
    return plan;
}
