/// The gradients of a convolution as implicit matrix products. With x' and g as in implicit_gemm.c,
///
///     dx[n, ic, i, j] = sum over oc, kh, kw of w[oc, ic, kh, kw] * dy[n, oc, oh, ow],
///                       i = oh*stride_h - top + kh*dilation_h, ...
///     dw[oc, ic, kh, kw] = sum over n, oh, ow of dy[n, oc, oh, ow]
///                          * x'[n, ic, oh*stride_h - top + kh*dilation_h, ...]
///
/// Input: inputs whose coordinates have the same remainders modulo the strides meet the same taps,
/// at neighbouring outputs. So each pair of remainders, a phase, is a convolution of dy of stride 1
/// with some of the taps in reverse order. The forward pass's product makes all phases of a block
/// from one halo tile of dy.
///
/// Weight: a task is a block of input channels and one of output channels times a split of the
/// images and outputs (split_k.h). It copies x to a halo tile and dy, transposed, to rows of
/// vectors. For each output, a row of the tile broadcasts the element of the halo tile under its
/// tap, and the vectors of dy are multiplied by it; so sums run over outputs in order. A kernel
/// that reaches too far for one halo tile is divided into blocks of taps, which are kernels with a
/// padding of their own.
///
/// Sums are in the data's type. Blocks follow from the problem, the workspace limit and the cache,
/// and so do the splits of dw: every number of threads gives the same bits, another cache or limit
/// may give others of dw.
#include "backends/cpu/conv2d/implicit_gemm.h"
#include "backends/cpu/conv2d/split_k.h"
#include "backends/cpu/conv2d/algorithms.h"
#include "backends/cpu/primitives/element.h"
#include "backends/cpu/primitives/transpose.h"
#include "backends/cpu/device/threads.h"
#include "tensor/extent.h"

#include <string.h>

// ---- Input --------------------------------------------------------------------------------------

/* The windows of dy along an axis, and their phases: inputs first, first + stride, ... meet taps
 * tap, tap + step, ..., each `dilation` outputs from the next, the last one first. Weights of taps
 * stand `weight` apart. Returns how many phases there are. */
static int64_t phases_of(const talc_cpu_axis *forward, int64_t weight, talc_cpu_axis *axis,
                         talc_cpu_phase *phases)
{
    const int64_t stride = forward->stride, common = talc_gcd(stride, forward->dilation);
    const int64_t step = stride / common, dilation = forward->dilation / common;
    const int64_t count = talc_smaller(stride, forward->extent);
    const int64_t unit = count == 1 ? dilation : 1;
    int64_t start = INT64_MAX, end = INT64_MIN;
    for (int64_t i = 0; i < count; i++) {
        talc_cpu_phase *phase = &phases[i];
        *phase = (talc_cpu_phase){ .step = dilation / unit, .weight_step = -step * weight };
        const int64_t end_tap = talc_smaller(step, forward->taps);
        int64_t tap = 0;
        while (tap < end_tap && (i - forward->start - tap * forward->dilation) % stride != 0)
            tap++;
        if (tap == end_tap)
            continue;
        phase->taps = (forward->taps - 1 - tap) / step + 1;
        const int64_t last = tap + (phase->taps - 1) * step;
        phase->weight = last * weight;
        phase->first = (i - forward->start - last * forward->dilation) / stride;
        start = talc_smaller(start, phase->first);
        end = talc_larger(end, phase->first + (phase->taps - 1) * dilation);
    }
    *axis =
        (talc_cpu_axis){ forward->outputs, talc_ceil_div(forward->extent, stride), 1, 1, unit, 0 };
    if (start <= end) {
        axis->start = start;
        axis->taps = (end - start) / unit + 1;
    }
    for (int64_t i = 0; i < count; i++)
        phases[i].first = (phases[i].first - start) / unit;
    return count;
}

talc_cpu_gemm talc_cpu_implicit_gemm_input_of(const talc_conv2d_problem *p,
                                              talc_cpu_input_phases *phases)
{
    const int64_t IC = p->C / p->groups, OC = p->OC / p->groups, taps = p->KH * p->KW;
    const talc_cpu_axis h = talc_cpu_rows_of(p), w = talc_cpu_columns_of(p);
    talc_cpu_gemm gemm = {
        .kernels = talc_cpu_kernels_of(p->dtype),
        .cache_bytes = talc_cpu_cache_bytes(),
        .threads = talc_cpu_threads(),
        .dtype = p->dtype,
        .N = p->N,
        .groups = p->groups,
        .out_channels = IC,
        .in_channels = OC,
        .H = p->H,
        .W = p->W,
        .h_phase = phases->h,
        .w_phase = phases->w,
        .weight = { OC * IC * taps, taps, IC * taps },
    };
    gemm.h_phases = phases_of(&h, p->KW, &gemm.h, phases->h);
    gemm.w_phases = phases_of(&w, 1, &gemm.w, phases->w);
    return gemm;
}

// ---- Weight -------------------------------------------------------------------------------------

/* A halo tile and the dy under it take a quarter of the L2 cache each. Where a stride or a dilation
 * is above FAR, each tap has a halo tile of its own: along that axis next to nothing is read by two
 * taps, and sizes cannot overflow. */
enum {
    OUTPUTS = 256,
    MIN_OUTPUTS = 16,
    TERMS = 512,
    MIN_CHANNELS = 32,
    FILL_CHANNELS = 4,
    MAX_PARTS = 4,
    CACHE_SHARE = 4,
    STORED = 64,
    FAR = 64 << 10,
    LARGEST_HALO_TILE = 1 << 20, /* elements */
};

typedef struct weight_plan {
    int64_t rows, columns; /* outputs of a block */
    int64_t row_blocks, column_blocks;
    int64_t kh, kw; /* taps of a task: whole rows of a kernel, or some of one row */
    int64_t ic, oc; /* channels of a task */
    int64_t ic_blocks, oc_blocks;
    int64_t vectors;  /* of output channels in a panel: one if that is enough for all, else two */
    int64_t width;    /* elements of these */
    int64_t panels;   /* of a task */
    int64_t sums, dy; /* elements of a worker's sums, of its dy */
    talc_cpu_halo_tile halo_tile;
    talc_cpu_split_k split_k;
    size_t taps_bytes;         /* of the table of taps */
    size_t terms_bytes, slice; /* of a worker's table of outputs, of all that it has */
} weight_plan;

/* Blocks of taps in a kernel. */
static int64_t tap_blocks_of(const talc_conv2d_problem *p, const weight_plan *plan)
{
    return talc_ceil_div(p->KH, plan->kh) * talc_ceil_div(p->KW, plan->kw);
}

static int64_t tasks_of(const talc_conv2d_problem *p, const weight_plan *plan)
{
    return plan->split_k.splits * p->groups * plan->ic_blocks * plan->oc_blocks *
           tap_blocks_of(p, plan);
}

/* The halo tile of a block of outputs under a block of taps. Rows share their zeros where all tasks
 * have them. */
static void cut(const talc_conv2d_problem *p, int64_t outputs, weight_plan *plan)
{
    talc_cpu_axis h = talc_cpu_rows_of(p), w = talc_cpu_columns_of(p);
    h.taps = plan->kh;
    w.taps = plan->kw;
    if (plan->kw < p->KW)
        w.start = 0;
    plan->columns = talc_even(p->OW, outputs);
    plan->rows = talc_even(p->OH, outputs / plan->columns);
    plan->row_blocks = talc_ceil_div(p->OH, plan->rows);
    plan->column_blocks = talc_ceil_div(p->OW, plan->columns);
    plan->halo_tile =
        talc_cpu_halo_tile_of(&h, &w, p->padding_mode, plan->rows, plan->columns, 1, false);
}

/* Fewer output channels for each task, in whole panels, where the last of the threads then ends
 * sooner. A halo tile takes as long to fill as FILL_CHANNELS to multiply with it. No sum depends on
 * who makes others, unlike on the splits. */
static void divide_channels(const talc_conv2d_problem *p, weight_plan *plan)
{
    const int64_t OC = p->OC / p->groups, threads = talc_cpu_threads();
    const int64_t width = 2 * talc_cpu_kernels_of(p->dtype)->lanes, channels = plan->oc;
    int64_t best = 0;
    for (int64_t parts = 1; threads > 1 && parts <= MAX_PARTS; parts++) {
        weight_plan fewer = *plan;
        fewer.oc = talc_smaller(talc_round_up(talc_ceil_div(channels, parts), width), channels);
        fewer.oc_blocks = talc_ceil_div(OC, fewer.oc);
        const int64_t end =
            talc_ceil_div(tasks_of(p, &fewer), threads) * (fewer.oc + FILL_CHANNELS);
        if (parts == 1 || end < best) {
            best = end;
            plan->oc = fewer.oc;
            plan->oc_blocks = fewer.oc_blocks;
        }
    }
}

/* Channels of a task, of at least `channels` output channels. */
static void add_channels(const talc_conv2d_problem *p, int64_t capacity, int64_t channels,
                         size_t limit, weight_plan *plan)
{
    const int64_t taps = plan->kh * plan->kw;
    const int64_t outputs = plan->rows * plan->columns, tap_blocks = tap_blocks_of(p, plan);
    plan->oc =
        talc_even(p->OC / p->groups, talc_larger(capacity / talc_larger(outputs, TERMS), channels));
    plan->ic = tap_blocks > 1 ? 1
                              : talc_even(p->C / p->groups,
                                          talc_smaller(capacity / plan->halo_tile.channel_stride,
                                                       talc_ceil_div(TERMS, taps)));
    plan->ic_blocks = talc_ceil_div(p->C / p->groups, plan->ic);
    plan->oc_blocks = talc_ceil_div(p->OC / p->groups, plan->oc);
    plan->split_k =
        talc_cpu_split_k_of(p, p->groups * plan->ic_blocks * plan->oc_blocks * tap_blocks,
                            p->N * plan->row_blocks * plan->column_blocks, limit);
}

/* What it all takes. */
static void add_bytes(const talc_conv2d_problem *p, weight_plan *plan)
{
    const talc_cpu_kernels *kernels = talc_cpu_kernels_of(p->dtype);
    const int64_t size = (int64_t)talc_dtype_size(p->dtype), taps = plan->kh * plan->kw;
    const int64_t outputs = plan->rows * plan->columns;
    plan->vectors = plan->oc <= kernels->lanes ? 1 : 2;
    plan->width = plan->vectors * kernels->lanes;
    plan->panels = talc_ceil_div(plan->oc, plan->width);
    plan->sums = plan->panels * plan->ic * taps * plan->width;
    plan->dy = plan->panels * outputs * plan->width;
    plan->taps_bytes = talc_cpu_aligned((size_t)(plan->ic * taps) * sizeof(int64_t));
    plan->terms_bytes = talc_cpu_aligned((size_t)outputs * sizeof(talc_cpu_term));
    plan->slice =
        plan->terms_bytes +
        talc_cpu_aligned((size_t)((plan->sums + plan->dy +
                                   talc_cpu_halo_tile_elements(&plan->halo_tile, plan->ic, 0)) *
                                  size));
}

static size_t shared_bytes(const weight_plan *plan)
{
    return talc_cpu_split_k_bytes(&plan->split_k) + plan->taps_bytes;
}

/* Fewer outputs, then taps, then channels, until they fit the limit; fewer taps under a halo tile
 * that is too large for a cache. */
static weight_plan weight_plan_of(const talc_conv2d_problem *p, size_t limit)
{
    const int64_t size = (int64_t)talc_dtype_size(p->dtype);
    const int64_t capacity =
        talc_smaller(talc_cpu_cache_bytes() / CACHE_SHARE, (int64_t)(limit / 4)) / size;
    const bool far =
        p->stride_h > FAR || p->stride_w > FAR || p->dilation_h > FAR || p->dilation_w > FAR;
    weight_plan plan = { .kh = far ? 1 : p->KH, .kw = far ? 1 : p->KW };
    int64_t outputs = OUTPUTS, channels = MIN_CHANNELS;
    for (;;) {
        cut(p, outputs, &plan);
        add_channels(p, capacity, channels, limit, &plan);
        add_bytes(p, &plan);
        const bool small = plan.halo_tile.channel_stride <= LARGEST_HALO_TILE;
        if (small && shared_bytes(&plan) + plan.slice <= limit)
            break;
        if (small && outputs > MIN_OUTPUTS)
            outputs /= 2;
        else if (plan.kh > 1)
            plan.kh = (plan.kh + 1) / 2;
        else if (plan.kw > 1)
            plan.kw = (plan.kw + 1) / 2;
        else if (channels > 1)
            channels /= 2;
        else if (outputs > 1)
            outputs /= 2;
        else
            break;
    }
    /* Last, because the number of threads may choose who computes a channel, but not how its sum is
     * split. It only makes a slice smaller. */
    divide_channels(p, &plan);
    add_bytes(p, &plan);
    return plan;
}

typedef struct weight_context {
    const talc_conv2d_problem *problem;
    const talc_conv2d_arguments *arguments;
    const weight_plan *plan;
    const talc_cpu_kernels *kernels;
    const int64_t *taps; /* where the halo tile has them, of all channels */
    char *slices;
} weight_context;

/* A block of outputs of an image, times the channels of a task. */
typedef struct weight_block {
    int64_t n, g;
    int64_t ic, ic_count, oc, oc_count;
    int64_t kh, kw, taps; /* the first tap and how many */
    int64_t row, rows, column, columns;
} weight_block;

/* dy of a block, [vector of output channels][output][channel]. Lanes without a channel have the
 * last one, and nobody reads what becomes of them. */
static void arrange(const weight_context *c, const weight_block *b, char *to)
{
    const talc_conv2d_problem *p = c->problem;
    const int64_t lanes = c->kernels->lanes, size = (int64_t)talc_dtype_size(p->dtype);
    const int64_t oc = (b->n * p->groups + b->g) * (p->OC / p->groups) + b->oc;
    for (int64_t first = 0; first < talc_round_up(b->oc_count, c->plan->width); first += lanes)
        for (int64_t row = b->row; row < b->row + b->rows; row++) {
            const void *from[TALC_CPU_LANES];
            for (int64_t i = 0; i < lanes; i++) {
                const int64_t channel = oc + talc_smaller(first + i, b->oc_count - 1);
                from[i] = talc_cpu_at(p->dtype, c->arguments->dy,
                                      (channel * p->OH + row) * p->OW + b->column);
            }
            c->kernels->to_lanes(from, b->columns, to);
            to += b->columns * lanes * size;
        }
}

/* Sums, [panel of output channels][tap][channel], to a split of dw. */
#define STORE(constant, suffix, T, A)                                                              \
    static void store_##suffix(const weight_block *b, int64_t width, int64_t K, const T *sums,     \
                               T *dw)                                                              \
    {                                                                                              \
        const int64_t count = b->ic_count * b->taps;                                               \
        for (int64_t first = 0; first < b->oc_count; first += width, sums += count * width)        \
            for (int64_t k = 0; k < count; k += STORED)                                            \
                talc_cpu_transpose_##suffix(talc_smaller(STORED, count - k),                       \
                                            talc_smaller(width, b->oc_count - first),              \
                                            sums + k * width, width, dw + first * K + k, K);       \
    }

TALC_CPU_FLOATS(STORE)

/* `first_block`: the sums begin with it. */
static void add_block(const weight_context *c, const weight_block *b, bool first_block,
                      talc_cpu_term *terms, char *sums, char *dy, char *halo_tile)
{
    const talc_conv2d_problem *p = c->problem;
    const int64_t size = (int64_t)talc_dtype_size(p->dtype), plane = p->H * p->W;
    const int64_t width = c->plan->width, K = b->ic_count * b->taps;
    talc_cpu_halo_tile_source source = {
        .dtype = p->dtype,
        .padding_mode = p->padding_mode,
        .h = talc_cpu_rows_of(p),
        .w = talc_cpu_columns_of(p),
        .x = talc_cpu_at(p->dtype, c->arguments->x,
                         (b->n * p->C + b->g * (p->C / p->groups) + b->ic) * plane),
        .x_channel = plane,
        .channels = b->ic_count,
        .images = 1,
        .row = b->row,
        .column = b->column,
    };
    source.h.start += b->kh * p->dilation_h;
    source.w.start += b->kw * p->dilation_w;
    talc_cpu_halo_tile_fill(&c->plan->halo_tile, &source, halo_tile);
    arrange(c, b, dy);
    int32_t outputs = 0;
    for (int64_t row = 0; row < b->rows; row++)
        for (int64_t column = 0; column < b->columns; column++, outputs++)
            terms[outputs] = (talc_cpu_term){ (int32_t)(row * c->plan->halo_tile.w.size + column),
                                              outputs * (int32_t)c->kernels->lanes };
    const int64_t tiles = talc_ceil_div(K, c->kernels->rows[c->plan->vectors]);
    for (int64_t panel = 0; panel * width < b->oc_count; panel++)
        for (int64_t i = 0; i < tiles; i++) {
            const int64_t first = i * K / tiles, count = (i + 1) * K / tiles - first;
            const char *vectors = dy + panel * outputs * width * size;
            talc_cpu_tile tile = { .count = outputs,
                                   .terms = terms,
                                   .b = { vectors, vectors + outputs * c->kernels->lanes * size },
                                   .c = sums + (panel * K + first) * width * size,
                                   .ldc = width,
                                   .accumulate = !first_block };
            for (int64_t k = 0; k < count; k++)
                tile.a[k] = halo_tile + c->taps[first + k] * size;
            c->kernels->tile[c->plan->vectors][count](&tile);
        }
}

static void weight_task(void *context, int64_t task, int worker)
{
    const weight_context *c = context;
    const talc_conv2d_problem *p = c->problem;
    const weight_plan *plan = c->plan;
    const int64_t size = (int64_t)talc_dtype_size(p->dtype), taps = p->KH * p->KW;
    const int64_t IC = p->C / p->groups, OC = p->OC / p->groups;
    weight_block b = { .ic = task % plan->ic_blocks * plan->ic };
    task /= plan->ic_blocks;
    b.oc = task % plan->oc_blocks * plan->oc;
    task /= plan->oc_blocks;
    const int64_t tap_blocks = tap_blocks_of(p, plan), in_row = talc_ceil_div(p->KW, plan->kw);
    b.kh = task % tap_blocks / in_row * plan->kh;
    b.kw = task % in_row * plan->kw;
    b.taps = talc_smaller(plan->kh, p->KH - b.kh) * talc_smaller(plan->kw, p->KW - b.kw);
    task /= tap_blocks;
    b.g = task % p->groups;
    const int64_t split = task / p->groups;
    b.ic_count = talc_smaller(plan->ic, IC - b.ic);
    b.oc_count = talc_smaller(plan->oc, OC - b.oc);

    char *slice = c->slices + (size_t)worker * plan->slice, *sums = slice + plan->terms_bytes;
    char *dy = sums + plan->sums * size, *halo_tile = dy + plan->dy * size;
    const talc_range terms = talc_cpu_split_k_terms(&plan->split_k, split);
    if (terms.lo == terms.hi)
        memset(sums, 0, (size_t)(plan->sums * size));
    for (int64_t term = terms.lo; term < terms.hi; term++) {
        b.column = term % plan->column_blocks * plan->columns;
        b.row = term / plan->column_blocks % plan->row_blocks * plan->rows;
        b.n = term / plan->column_blocks / plan->row_blocks;
        b.columns = talc_smaller(plan->columns, p->OW - b.column);
        b.rows = talc_smaller(plan->rows, p->OH - b.row);
        add_block(c, &b, term == terms.lo, (talc_cpu_term *)slice, sums, dy, halo_tile);
    }
    void *dw = talc_cpu_split_k_at(&plan->split_k, p, c->arguments, split,
                                   ((b.g * OC + b.oc) * IC + b.ic) * taps + b.kh * p->KW + b.kw);
    TALC_CPU_CALL(p->dtype, store, (&b, plan->width, IC * taps, (const void *)sums, dw));
}

// ---- The algorithm ------------------------------------------------------------------------------

_Static_assert(sizeof(weight_plan) <= sizeof((talc_plan *)NULL)->data, "a plan keeps it");

const char *talc_cpu_implicit_gemm_gradient_plan(const talc_conv2d_problem *problem, size_t limit,
                                                 talc_plan *plan)
{
    const talc_conv2d_problem *p = problem;
    if (p->direction == TALC_GRAD_INPUT) {
        talc_cpu_input_phases phases;
        const talc_cpu_gemm gemm = talc_cpu_implicit_gemm_input_of(p, &phases);
        talc_cpu_gemm_plan planned;
        talc_cpu_gemm_plan_of(&gemm, limit, &planned);
        plan->workspace = talc_cpu_gemm_workspace(&gemm, &planned, limit);
        talc_plan_store(plan, &planned, sizeof planned);
        return NULL;
    }
    const weight_plan planned = weight_plan_of(p, limit);
    plan->workspace =
        talc_cpu_workspace(tasks_of(p, &planned), shared_bytes(&planned), planned.slice, limit);
    talc_plan_store(plan, &planned, sizeof planned);
    return NULL;
}

talc_status talc_cpu_implicit_gemm_gradient_run(const talc_conv2d_problem *problem,
                                                const talc_plan *plan,
                                                const talc_conv2d_arguments *arguments)
{
    const talc_conv2d_problem *p = problem;
    if (p->direction == TALC_GRAD_INPUT) {
        talc_cpu_input_phases phases;
        const talc_cpu_gemm gemm = talc_cpu_implicit_gemm_input_of(p, &phases);
        return talc_cpu_gemm_run(&gemm, talc_plan_data(plan), arguments->dy, arguments->w,
                                 arguments->dx, arguments->base.workspace, plan->workspace, p,
                                 arguments);
    }
    const weight_plan *planned = talc_plan_data(plan);
    const size_t splits_bytes = talc_cpu_split_k_bytes(&planned->split_k);
    int64_t *taps = (int64_t *)((char *)arguments->base.workspace + splits_bytes);
    weight_context c = { p,       arguments,
                         planned, talc_cpu_kernels_of(p->dtype),
                         taps,    (char *)taps + planned->taps_bytes };
    for (int64_t ic = 0; ic < planned->ic; ic++)
        for (int64_t kh = 0; kh < planned->kh; kh++)
            for (int64_t kw = 0; kw < planned->kw; kw++)
                *taps++ = ic * planned->halo_tile.channel_stride +
                          talc_cpu_halo_tile_tap(&planned->halo_tile, kh, kw);
    const size_t slices = (plan->workspace - shared_bytes(planned)) / planned->slice;
    const talc_status status =
        talc_cpu_parallel_limited(tasks_of(p, planned), (int)slices, weight_task, &c);
    return status != TALC_OK ? status : talc_cpu_split_k_sum(&planned->split_k, p, arguments);
}
