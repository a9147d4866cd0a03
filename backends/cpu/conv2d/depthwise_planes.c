/// Depthwise convolution: every group is one input channel, so that every output plane reads one
/// input plane.
///
///     y[n, oc, oh, ow] = act( b[oc] + r[n, oc, oh, ow] + sum over kh, kw of
///                             x'[n, oc / M, oh*stride_h - top + kh*dilation_h,
///                                ow*stride_w - left + kw*dilation_w]
///                             * w[oc, 0, kh, kw] ),   M = OC / C,   x' is x with zeros around it
///     dx[n, c, ih, iw] = sum over m, kh, kw of w[c*M + m, 0, kh, kw] * dy[n, c*M + m, oh, ow]
///     dw[oc, 0, kh, kw] = sum over n, oh, ow of x'[n, oc / M, ih, iw] * dy[n, oc, oh, ow]
///
/// where ih = oh*stride_h - top + kh*dilation_h and iw = ow*stride_w - left + kw*dilation_w.
///
/// This file is the form "planes". Every lane of a vector has a plane of its own, or a block of
/// rows of one where there are few: so no kernel, stride, dilation or padding leaves lanes without
/// use, and a weight is a vector of those of all lanes. Rows of x' are transposed to vectors, one a
/// column, when they are first read; the last ones stay in a ring of as many rows as a window
/// spans. The microkernels (primitives/depthwise_microkernel.h) have the sums of up to 28 columns
/// in registers, and rows of y are transposed back. Rows of padding are left out, unless a weight
/// is not finite.
///
/// dx is the same over dy: pixels that are stride_h and stride_w apart, a phase, meet the same
/// taps, and are a convolution at stride 1 with these, last first. Columns around dy are multiplied
/// as zeros; pixels that become NaN because a weight is not finite are recomputed, by the
/// formula. dw has vectors of sums for up to 12 taps at a time; a lane sums a filter over a split
/// of the images and blocks of rows, and f64 adds up what it has after about TERMS terms.
///
/// Sums of y and dx are in the data's type, taps in order. The lanes' shares follow from the
/// problem and the vectors' length alone, so every number of threads gives the same bits.
#include "backends/cpu/conv2d/algorithms.h"
#include "backends/cpu/conv2d/depthwise.h"
#include "backends/cpu/conv2d/split_k.h"
#include "backends/cpu/device/threads.h"
#include "backends/cpu/primitives/element.h"
#include "backends/cpu/primitives/epilogue.h"
#include "backends/cpu/primitives/finite.h"
#include "backends/cpu/primitives/processor.h"
#include "backends/cpu/primitives/target.h"
#include "tensor/extent.h"

#include <string.h>

/* The rows of x under a row of outputs stay in the L1 cache. Planes are divided into blocks of rows
 * until there are TASKS tasks, or blocks of MIN_ROWS, which read rows of x twice. */
enum {
    ROW_BYTES = 32 << 10,
    MIN_COLUMNS = 16,
    MIN_ROWS = 8,
    OUT_COLUMNS = 48,
    TASKS = 16,
    TERMS = 256,
    MAX_COLUMN_BLOCKS = 31, /* of a plan that leaves most lanes empty */
    LINE = 64
};

// ---- The plan -----------------------------------------------------------------------------------

/* Sizes are vectors where nothing else is said. */
typedef struct planes_plan {
    int64_t planes, row_blocks; /* what lanes have: a block of rows of a plane, or a split of dw */
    int64_t column_blocks;
    int64_t rows, columns; /* outputs of a block, of dx in each phase */
    int64_t sources;       /* planes of the input under one of the outputs */
    int64_t ring, width;   /* rows of the input at a time, and their length */
    int64_t out;           /* length of a row of outputs, or of dy */
    int64_t out_rows;      /* that are kept, where they stand side by side in y */
    int64_t weights;       /* of a lane */
    int64_t tasks;
    size_t zeros; /* bytes of a lane's row of zeros, behind what dw has for its splits */
    size_t axes;  /* of the phases */
    size_t slice; /* of a worker */
    talc_cpu_split_k split_k;
} planes_plan;

static planes_plan plan_of(const talc_conv2d_problem *p, size_t limit)
{
    const talc_cpu_kernels *kernels = talc_cpu_kernels_of(p->dtype);
    const int64_t lanes = kernels->lanes, size = (int64_t)talc_dtype_size(p->dtype);
    const bool to_input = p->direction == TALC_GRAD_INPUT, to_weight = !to_input && p->direction;
    const depthwise_pass forward = talc_cpu_depthwise_forward(p);
    const depthwise_axis h = talc_cpu_depthwise_window(&forward.h, to_input);
    const depthwise_axis w = talc_cpu_depthwise_window(&forward.w, to_input);
    const int64_t outputs_h = talc_larger(h.out, 1), outputs_w = talc_larger(w.out, 1);
    const int64_t h_phases = talc_cpu_depthwise_phases(&forward.h, to_input);
    const int64_t w_phases = talc_cpu_depthwise_phases(&forward.w, to_input);
    planes_plan plan = { .sources = to_input ? p->OC / p->C : 1 };
    plan.planes = to_weight ? p->OC : p->N * (to_input ? p->C : p->OC);
    if (!to_weight && h.out * w.out == 0)
        plan.planes = 0;

    const int64_t wanted =
        to_weight ? talc_ceil_div(talc_ceil_div(TASKS * lanes, p->OC), talc_larger(p->N, 1))
                  : talc_ceil_div(TASKS * lanes, talc_larger(plan.planes, 1));
    const int64_t span = (h.taps - 1) * h.dilation + 1 + h.spread;
    const int64_t max_blocks = span < h.in ? talc_ceil_div(outputs_h, MIN_ROWS) : 1;
    plan.rows = talc_ceil_div(outputs_h, talc_smaller(wanted, max_blocks));
    plan.row_blocks = talc_ceil_div(outputs_h, plan.rows);
    plan.ring = talc_between(plan.row_blocks > 1 ? span : talc_smaller(span, h.in), 1, span);
    const int64_t line = lanes * size;
    plan.columns =
        talc_even(outputs_w,
                  talc_larger(ROW_BYTES / (talc_larger(h.taps, 1) * line * w.stride), MIN_COLUMNS));
    plan.column_blocks = talc_ceil_div(outputs_w, plan.columns);
    plan.width = (plan.columns - 1) * w.stride + (w.taps - 1) * w.dilation + 1 + w.spread;
    plan.width = talc_larger(plan.width, 1);
    plan.out = plan.columns * w_phases;
    plan.out_rows =
        plan.column_blocks == 1 && !to_weight ? talc_ceil_div(OUT_COLUMNS, plan.out) : 1;
    plan.weights = plan.sources * p->KH * p->KW;

    int64_t items = plan.planes * plan.row_blocks;
    plan.zeros = (size_t)talc_round_up(talc_larger(plan.width, plan.out) * size, LINE);
    plan.axes = talc_cpu_aligned((size_t)(h_phases + w_phases) * sizeof(depthwise_axis));
    const int64_t vectors = (plan.sources * plan.ring + 1) * plan.width + plan.out_rows * plan.out +
                            plan.weights + 1 +
                            (to_weight ? plan.weights * (int64_t)sizeof(double) / size : 0);
    const int64_t words = plan.ring + 2 * plan.sources * talc_larger(h.taps, 1);
    plan.slice = (size_t)(talc_round_up(vectors * line, LINE) + talc_round_up(8 * words, LINE) +
                          talc_round_up(plan.out_rows * plan.out * size, LINE));
    if (to_weight) {
        plan.split_k =
            talc_cpu_split_k_of(p, talc_ceil_div(p->OC, lanes), p->N * plan.row_blocks, limit);
        items = p->OC * plan.split_k.splits;
    }
    plan.tasks = talc_ceil_div(items, lanes) * (to_weight ? 1 : plan.column_blocks);
    return plan;
}

static size_t shared_bytes(const planes_plan *plan)
{
    return talc_cpu_split_k_bytes(&plan->split_k) + plan->zeros + plan->axes;
}

// ---- Rows of the input --------------------------------------------------------------------------

typedef struct planes_context {
    const talc_conv2d_problem *problem;
    const talc_conv2d_arguments *arguments;
    const planes_plan *plan;
    const talc_cpu_kernels *kernels;
    int64_t size, line; /* bytes of an element, of a vector */
    depthwise_pass window;
    int64_t h_phases, w_phases;
    const depthwise_axis *h, *w; /* of the phases */
    const void *x;               /* the input */
    char *y;                     /* the result: y or dx */
    int64_t H, W;                /* extents of its planes */
    const char *zeros;
    char *slices;
} planes_context;

/* What lanes compute: `rows` rows from row `row` on of a plane of outputs, from that plane of the
 * input; of dw a filter. A lane without outputs has no rows. */
typedef struct planes_lane {
    int64_t plane, row, rows, in;
} planes_lane;

typedef struct planes_group {
    const planes_context *c;
    planes_lane lane[TALC_CPU_LANES];
    int64_t rows;            /* of the longest */
    int64_t row, row_to;     /* the first ones of all lanes lie between these */
    bool alike;              /* they are the same, and all lanes have as many */
    int64_t column, columns; /* outputs of a block */
    talc_range inside;       /* the part of a row of the input that the image has */
    int64_t image;           /* the column of the image where that begins */
    char *ring, *zero, *out, *w, *bias, *spare;
    double *sums;
    int64_t *held;        /* the rows that the ring has */
    int64_t window, slot; /* the first row under a row of outputs, and where the ring has it */
    const void **rows_of_x, **rows_of_w;
    const char *from[TALC_CPU_LANES]; /* the input of lanes, from `image` and their first row on */
    const char *dy[TALC_CPU_LANES];   /* of dw, from their first outputs on */
} planes_group;

static void open_group(const planes_context *c, int worker, planes_group *g)
{
    const planes_plan *plan = c->plan;
    const int64_t taps = talc_larger(c->window.h.taps, 1);
    char *at = c->slices + (size_t)worker * plan->slice;
    *g = (planes_group){ .c = c, .ring = at };
    g->zero = g->ring + plan->sources * plan->ring * plan->width * c->line;
    g->out = g->zero + plan->width * c->line;
    g->w = g->out + plan->out_rows * plan->out * c->line;
    g->bias = g->w + plan->weights * c->line;
    g->sums = (double *)(void *)(g->bias + c->line);
    g->held = (int64_t *)(void *)g->sums;
    if (c->problem->direction == TALC_GRAD_WEIGHT)
        g->held += plan->weights * c->kernels->lanes;
    g->rows_of_x = (const void **)(g->held + plan->ring);
    g->rows_of_w = g->rows_of_x + plan->sources * taps;
    g->spare = (char *)(g->rows_of_w + plan->sources * taps);
}

/* Columns of a block, and zeros where no row is in the image. */
static void start_columns(planes_group *g, int64_t block)
{
    const planes_context *c = g->c;
    const depthwise_axis *w = &c->window.w;
    const planes_plan *plan = c->plan;
    g->column = block * plan->columns;
    g->columns = talc_smaller(plan->columns, w->out - g->column);
    const int64_t start = g->column * w->stride - w->pad;
    g->inside = talc_window_inside(start, 1, plan->width, w->in);
    g->image = start + g->inside.lo;
    for (int64_t row = 0; row <= plan->sources * plan->ring; row++) {
        const talc_range in = row < plan->sources * plan->ring ? g->inside : (talc_range){ 0, 0 };
        char *to = g->ring + row * plan->width * c->line;
        memset(to, 0, (size_t)(in.lo * c->line));
        memset(to + in.hi * c->line, 0, (size_t)((plan->width - in.hi) * c->line));
    }
}

/* The lanes' shares and columns are known. */
static void start_rows(planes_group *g)
{
    const planes_context *c = g->c;
    const int64_t plane = c->window.h.in * c->window.w.in;
    g->rows = 0;
    g->row = INT64_MAX;
    g->row_to = 0;
    g->alike = true;
    for (int64_t i = 0; i < c->kernels->lanes; i++) {
        const planes_lane *lane = &g->lane[i];
        g->alike = g->alike && lane->row == g->lane->row && lane->rows == g->lane->rows;
        if (lane->rows == 0)
            continue;
        const int64_t at = lane->row * c->window.h.stride * c->window.w.in + g->image;
        g->from[i] = (const char *)c->x + (lane->in * c->plan->sources * plane + at) * c->size;
        g->rows = talc_larger(g->rows, lane->rows);
        g->row = talc_smaller(g->row, lane->row);
        g->row_to = talc_larger(g->row_to, lane->row);
    }
    for (int64_t i = 0; i < c->plan->ring; i++)
        g->held[i] = INT64_MIN;
}

/* What a row of outputs reads comes next. */
static void start_window(planes_group *g, int64_t row)
{
    const depthwise_axis *h = &g->c->window.h;
    const int64_t ring = g->c->plan->ring;
    g->window = row * h->stride - h->pad;
    g->slot = (g->window % ring + ring) % ring;
}

/* Row `row` of the input of each lane, counted from its block's first one without its padding: the
 * first of those of its planes, which are a ring apart. */
static const char *row_of(planes_group *g, int64_t row)
{
    const planes_context *c = g->c;
    const depthwise_axis *h = &c->window.h;
    const planes_plan *plan = c->plan;
    const int64_t step = plan->width * c->line;
    if (row + g->row_to * h->stride < 0 || row + g->row * h->stride >= h->in)
        return g->zero;
    int64_t slot = g->slot + row - g->window;
    while (slot >= plan->ring)
        slot -= plan->ring;
    char *to = g->ring + slot * step;
    if (g->held[slot] == row)
        return to;
    g->held[slot] = row;
    const void *from[TALC_CPU_LANES];
    for (int64_t source = 0; source < plan->sources; source++) {
        const int64_t at = (source * h->in + row) * c->window.w.in * c->size;
        for (int64_t i = 0; i < c->kernels->lanes && g->alike; i++)
            from[i] = g->from[i] + at;
        for (int64_t i = 0; i < c->kernels->lanes && !g->alike; i++) {
            const int64_t ih = g->lane[i].row * h->stride + row;
            const bool inside = g->lane[i].rows > 0 && ih >= 0 && ih < h->in;
            from[i] = inside ? g->from[i] + at : c->zeros;
        }
        c->kernels->to_lanes(from, g->inside.hi - g->inside.lo,
                             to + source * plan->ring * step + g->inside.lo * c->line);
    }
    return to;
}

// ---- y and dx -----------------------------------------------------------------------------------

/* Row `row` of a phase of the lanes' blocks, to y. */
static void sum_row(planes_group *g, int64_t row, const depthwise_axis *h, bool inside,
                    talc_cpu_depthwise_sums *sums, char *y)
{
    const planes_context *c = g->c;
    const planes_plan *plan = c->plan;
    const int64_t KH = c->problem->KH, KW = c->problem->KW;
    sums->rows = 0;
    start_window(g, row);
    for (int64_t source = 0; source < plan->sources; source++)
        for (int64_t k = 0; k < h->taps; k++) {
            const char *x = row_of(g, row * h->stride - h->pad + k * h->dilation);
            if (x == g->zero && inside)
                continue;
            g->rows_of_x[sums->rows] =
                x == g->zero ? x : x + source * plan->ring * plan->width * c->line;
            g->rows_of_w[sums->rows++] =
                g->w + ((source * KH + h->w + k * h->w_step) * KW) * c->line;
        }
    for (int64_t phase = 0; phase < c->w_phases; phase++) {
        const depthwise_axis *w = &c->w[phase];
        const int64_t lanes = c->kernels->lanes;
        sums->outputs = talc_smaller(plan->columns, w->out - g->column);
        sums->taps = w->taps;
        sums->x_first = (c->window.w.pad - w->pad) * lanes;
        sums->x_tap = w->dilation * lanes;
        sums->w_first = w->w * lanes;
        sums->w_tap = w->w_step * lanes;
        sums->y = y + phase * c->line;
        if (sums->outputs > 0)
            c->kernels->depthwise_sums(sums);
    }
}

/* Gives each lane a block of rows of a plane, from `item` on, and its weights and bias. */
static void assign_planes(planes_group *g, int64_t item)
{
    const planes_context *c = g->c;
    const talc_conv2d_problem *p = c->problem;
    const talc_conv2d_arguments *a = c->arguments;
    const planes_plan *plan = c->plan;
    const bool to_input = p->direction == TALC_GRAD_INPUT;
    const int64_t M = p->OC / p->C, filters = to_input ? p->C : p->OC;
    int64_t plane = item % plan->planes, block = item / plan->planes, filter = plane % filters;
    const void *from[TALC_CPU_LANES];
    for (int64_t i = 0; i < c->kernels->lanes; i++) {
        const int64_t row = block * plan->rows;
        g->lane[i] = (planes_lane){ plane, row, talc_smaller(plan->rows, c->h->out - row),
                                    to_input || M == 1 ? plane : plane / M };
        if (block >= plan->row_blocks)
            g->lane[i] = (planes_lane){ 0 };
        from[i] = talc_cpu_at(p->dtype, a->w, filter * plan->weights);
        talc_cpu_store(p->dtype, g->bias, i,
                       a->bias != NULL ? talc_cpu_load(p->dtype, a->bias, filter) : -0.0);
        filter = filter + 1 < filters ? filter + 1 : 0;
        plane++;
        if (plane == plan->planes) {
            plane = filter = 0;
            block++;
        }
    }
    c->kernels->to_lanes(from, plan->weights, g->w);
}

/* Brings the last `kept` rows up to row `row` of each lane's result to y or dx. */
static void store_rows(const planes_group *g, int64_t row, int64_t kept, talc_range columns)
{
    const planes_context *c = g->c;
    void *to[TALC_CPU_LANES];
    for (int64_t i = 0; i < c->kernels->lanes; i++) {
        const planes_lane *lane = &g->lane[i];
        const int64_t first = lane->row * c->h_phases;
        const bool exists = g->alike || (row < lane->rows * c->h_phases && first + row < c->H);
        const int64_t at = (lane->plane * c->H + first + row + 1 - kept) * c->W + columns.lo;
        to[i] = exists ? c->y + at * c->size : g->spare;
    }
    c->kernels->from_lanes(g->out, kept * (columns.hi - columns.lo), to);
}

/* Bias, residual and activation of y where the microkernel has not applied them; the NaN of dx
 * recomputed. */
static void finish_lanes(const planes_group *g, talc_range columns)
{
    const planes_context *c = g->c;
    const talc_conv2d_problem *p = c->problem;
    const bool to_input = p->direction == TALC_GRAD_INPUT;
    for (int64_t i = 0; i < c->kernels->lanes; i++) {
        const planes_lane *lane = &g->lane[i];
        const int64_t first = lane->row * c->h_phases;
        const int64_t end = talc_smaller((lane->row + lane->rows) * c->h_phases, c->H);
        if (to_input)
            talc_cpu_conv2d_recompute_nan(p, c->arguments, lane->plane, (talc_range){ first, end },
                                          columns);
        else
            talc_cpu_conv2d_epilogue_rows(p, c->arguments, lane->plane, first * c->W + columns.lo,
                                          lane->rows, columns.hi - columns.lo);
    }
}

static void sums_task(void *context, int64_t task, int worker)
{
    const planes_context *c = context;
    const talc_conv2d_problem *p = c->problem;
    const planes_plan *plan = c->plan;
    const bool to_input = p->direction == TALC_GRAD_INPUT;
    planes_group g;
    open_group(c, worker, &g);
    assign_planes(&g, task / plan->column_blocks * c->kernels->lanes);
    const bool finite = talc_cpu_all_finite(p->dtype, g.w, plan->weights * c->kernels->lanes);
    start_columns(&g, task % plan->column_blocks);
    start_rows(&g);
    talc_cpu_depthwise_sums sums = { .x = g.rows_of_x,
                                     .w = g.rows_of_w,
                                     .x_step = c->window.w.stride,
                                     .y_step = c->w_phases,
                                     .bias = g.bias };
    sums.epilogue = talc_cpu_conv2d_clamps(p, &sums.low, &sums.high);
    talc_range columns = { g.column * c->w_phases, 0 };
    columns.hi = talc_smaller(columns.lo + plan->columns * c->w_phases, c->W);
    const int64_t row_bytes = (columns.hi - columns.lo) * c->line;
    /* Rows of the result, of which some are kept while all lanes have the same. */
    const int64_t rows = talc_smaller(g.rows * c->h_phases, c->H - g.row * c->h_phases);
    for (int64_t row = 0, kept = 0; row < rows; row++) {
        sum_row(&g, row / c->h_phases, &c->h[row % c->h_phases], finite || to_input, &sums,
                g.out + kept++ * row_bytes);
        if (g.alike && kept < plan->out_rows && row + 1 < rows)
            continue;
        store_rows(&g, row, kept, columns);
        kept = 0;
    }
    if (to_input ? !finite : !sums.epilogue && talc_cpu_conv2d_has_epilogue(p))
        finish_lanes(&g, columns);
}

// ---- dw -----------------------------------------------------------------------------------------

/* Moves sums to those in f64. */
#define FLUSH(constant, suffix, T, A)                                                              \
    TALC_TARGET_CLONES static void flush_##suffix(int64_t count, T *restrict sums,                 \
                                                  double *restrict to)                             \
    {                                                                                              \
        for (int64_t i = 0; i < count; i++) {                                                      \
            to[i] += (double)sums[i];                                                              \
            sums[i] = 0;                                                                           \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    static void store_##suffix(int64_t taps, const double *sums, int64_t lanes, T *dw)             \
    {                                                                                              \
        for (int64_t tap = 0; tap < taps; tap++)                                                   \
            dw[tap] = (T)sums[tap * lanes];                                                        \
    }

TALC_CPU_FLOATS(FLUSH)

/* Adds a row of dy times the rows of x under it. */
static void add_row(planes_group *g, int64_t row)
{
    const planes_context *c = g->c;
    const talc_conv2d_problem *p = c->problem;
    const int64_t lanes = c->kernels->lanes, taps = p->KH * p->KW;
    const void *from[TALC_CPU_LANES];
    bool ended = false;
    for (int64_t i = 0; i < lanes; i++) {
        planes_lane *lane = &g->lane[i];
        /* A lane whose rows are over multiplies zeros: what x has there may not be finite. */
        if (row == lane->rows) {
            lane->rows = 0;
            ended = true;
        }
        from[i] = lane->rows > 0 ? g->dy[i] + row * p->OW * c->size : c->zeros;
    }
    if (ended)
        start_rows(g);
    c->kernels->to_lanes(from, g->columns, g->out);
    const depthwise_axis *h = &c->window.h;
    start_window(g, row);
    for (int64_t k = 0; k < p->KH; k++)
        g->rows_of_x[k] = row_of(g, row * h->stride - h->pad + k * h->dilation);
    talc_cpu_depthwise_products products = { .outputs = g->columns,
                                             .x_step = p->stride_w,
                                             .dy = g->out };
    const int64_t width = talc_even(taps, TALC_CPU_DEPTHWISE_TAPS);
    for (int64_t tap = 0, kh = 0, kw = 0; tap < taps; tap += width) {
        const int64_t count = talc_smaller(width, taps - tap);
        for (int64_t i = 0; i < count; i++) {
            products.x[i] = (const char *)g->rows_of_x[kh] + kw * c->window.w.dilation * c->line;
            kw = kw + 1 < p->KW ? kw + 1 : 0;
            kh += kw == 0;
        }
        products.sums = g->w + tap * c->line;
        c->kernels->depthwise_products((int)count, &products);
    }
}

/* The filters of the lanes of dw, and the terms of their splits; no terms for a lane
 * without one. */
typedef struct planes_filters {
    int64_t oc[TALC_CPU_LANES];
    talc_range terms[TALC_CPU_LANES];
} planes_filters;

static planes_filters filters_of(const planes_context *c, int64_t item)
{
    const talc_cpu_split_k *split_k = &c->plan->split_k;
    const int64_t OC = c->problem->OC;
    planes_filters f;
    for (int64_t i = 0, oc = item % OC, split = item / OC; i < c->kernels->lanes; i++) {
        f.oc[i] = oc;
        f.terms[i] =
            split < split_k->splits ? talc_cpu_split_k_terms(split_k, split) : (talc_range){ 0, 0 };
        oc = oc + 1 < OC ? oc + 1 : 0;
        split += oc == 0;
    }
    return f;
}

/* Gives each lane the block of dy of its split's term `step`. */
static void start_term(planes_group *g, const planes_filters *f, int64_t step)
{
    const planes_context *c = g->c;
    const talc_conv2d_problem *p = c->problem;
    const planes_plan *plan = c->plan;
    const int64_t M = p->OC / p->C;
    for (int64_t i = 0; i < c->kernels->lanes; i++) {
        const int64_t term = f->terms[i].lo + step, oc = f->oc[i];
        const int64_t n = plan->row_blocks == 1 ? term : term / plan->row_blocks;
        const int64_t row = (term - n * plan->row_blocks) * plan->rows;
        const int64_t rows = talc_smaller(plan->rows, p->OH - row);
        g->lane[i] = (planes_lane){ n * p->OC + oc, row, term < f->terms[i].hi ? rows : 0,
                                    n * p->C + (M == 1 ? oc : oc / M) };
        const int64_t at = (g->lane[i].plane * p->OH + row) * p->OW + g->column;
        g->dy[i] = (const char *)c->arguments->dy + at * c->size;
    }
    start_rows(g);
}

static void products_task(void *context, int64_t task, int worker)
{
    const planes_context *c = context;
    const talc_conv2d_problem *p = c->problem;
    const planes_plan *plan = c->plan;
    const int64_t lanes = c->kernels->lanes, taps = p->KH * p->KW;
    const int64_t first = task * lanes, items = p->OC * plan->split_k.splits;
    planes_group g;
    open_group(c, worker, &g);
    memset(g.w, 0, (size_t)(taps * c->line));
    memset(g.sums, 0, (size_t)(taps * lanes) * sizeof *g.sums);
    const planes_filters filters = filters_of(c, first);
    /* No split has more than those before. */
    const int64_t max_terms = filters.terms[0].hi - filters.terms[0].lo;
    int64_t summed = 0;
    for (int64_t block = 0; block < plan->column_blocks; block++) {
        start_columns(&g, block);
        for (int64_t step = 0; step < max_terms; step++) {
            start_term(&g, &filters, step);
            for (int64_t row = 0; row < g.rows; row++) {
                summed += g.columns;
                if (summed > TERMS) {
                    TALC_CPU_CALL(p->dtype, flush, (taps * lanes, (void *)g.w, g.sums));
                    summed = g.columns;
                }
                add_row(&g, row);
            }
        }
    }
    TALC_CPU_CALL(p->dtype, flush, (taps * lanes, (void *)g.w, g.sums));
    for (int64_t i = 0; i < talc_smaller(lanes, items - first); i++) {
        const int64_t item = first + i;
        void *dw =
            talc_cpu_split_k_at(&plan->split_k, p, c->arguments, item / p->OC, item % p->OC * taps);
        TALC_CPU_CALL(p->dtype, store, (taps, g.sums + i, lanes, dw));
    }
}

// ---- The algorithm ------------------------------------------------------------------------------

const char *talc_cpu_depthwise_refusal(const talc_conv2d_problem *p)
{
    if (talc_cpu_refuses(p->dtype) != NULL)
        return talc_cpu_refuses(p->dtype);
    if (p->groups != p->C)
        return "groups is not the number of input channels";
    return p->padding_mode != TALC_PADDING_ZEROS ? "the padding is not zeros" : NULL;
}

_Static_assert(sizeof(planes_plan) <= sizeof((talc_plan *)NULL)->data, "a plan keeps it");

const char *talc_cpu_conv2d_depthwise_planes_plan(const talc_device *device, const void *problem,
                                                  size_t limit, talc_plan *plan)
{
    (void)device;
    const talc_conv2d_problem *p = problem;
    if (talc_cpu_depthwise_refusal(p) != NULL)
        return talc_cpu_depthwise_refusal(p);
    if (talc_cpu_conv2d_reaches_far(p) != NULL)
        return talc_cpu_conv2d_reaches_far(p);
    const planes_plan planned = plan_of(p, limit);
    if (p->direction != TALC_GRAD_WEIGHT && planned.column_blocks > MAX_COLUMN_BLOCKS &&
        planned.planes * planned.row_blocks * 4 <= talc_cpu_kernels_of(p->dtype)->lanes)
        return "rows are long, and most lanes would have none";
    plan->workspace =
        talc_cpu_workspace(planned.tasks, shared_bytes(&planned), planned.slice, limit);
    talc_plan_store(plan, &planned, sizeof planned);
    return NULL;
}

talc_status talc_cpu_conv2d_depthwise_planes_run(talc_device *device, const void *problem,
                                                 const talc_plan *plan, const void *arguments)
{
    (void)device;
    const talc_conv2d_problem *p = problem;
    const talc_conv2d_arguments *a = arguments;
    const planes_plan *planned = talc_plan_data(plan);
    const bool to_input = p->direction == TALC_GRAD_INPUT;
    const bool to_weight = p->direction == TALC_GRAD_WEIGHT;
    const depthwise_pass forward = talc_cpu_depthwise_forward(p);
    char *zeros = (char *)a->base.workspace + talc_cpu_split_k_bytes(&planned->split_k);
    depthwise_axis *axes = (depthwise_axis *)(void *)(zeros + planned->zeros);
    planes_context context = {
        .problem = p,
        .arguments = a,
        .plan = planned,
        .kernels = talc_cpu_kernels_of(p->dtype),
        .size = (int64_t)talc_dtype_size(p->dtype),
        .window = { talc_cpu_depthwise_window(&forward.h, to_input),
                    talc_cpu_depthwise_window(&forward.w, to_input) },
        .h_phases = talc_cpu_depthwise_phases(&forward.h, to_input),
        .w_phases = talc_cpu_depthwise_phases(&forward.w, to_input),
        .h = axes,
        .x = to_input ? a->dy : a->x,
        .y = to_input ? a->dx : a->y,
        .H = to_input ? p->H : p->OH,
        .W = to_input ? p->W : p->OW,
        .zeros = zeros,
        .slices = zeros + planned->zeros + planned->axes,
    };
    context.line = context.kernels->lanes * context.size;
    context.w = axes + context.h_phases;
    for (int64_t i = 0; i < context.h_phases; i++)
        axes[i] = talc_cpu_depthwise_phase(&forward.h, to_input, i);
    for (int64_t i = 0; i < context.w_phases; i++)
        axes[context.h_phases + i] = talc_cpu_depthwise_phase(&forward.w, to_input, i);
    memset(zeros, 0, planned->zeros);
    const int slices = (int)((plan->workspace - shared_bytes(planned)) / planned->slice);
    const talc_status status = talc_cpu_parallel_limited(
        planned->tasks, slices, to_weight ? products_task : sums_task, &context);
    return status == TALC_OK && to_weight ? talc_cpu_split_k_sum(&planned->split_k, p, a) : status;
}
