/// Depthwise convolution: every group is one input channel, so that every output plane reads one
/// input plane.
///
///     y[n, oc, oh, ow] = act( b[oc] + r[n, oc, oh, ow] + sum over kh, kw of
///                             x'[n, oc / M, oh*stride_h - top + kh*dilation_h,
///                                ow*stride_w - left + kw*dilation_w]
///                             * w[oc, 0, kh, kw] ),   M = OC / C,   x' is x with zeros around it
///
/// There is little arithmetic and much memory traffic, so a task is a tile of one output plane that
/// stays in the L1 cache. The part of x' that it reads is copied to the worker's slice of the
/// workspace with its columns sorted by their remainder modulo stride_w. Then every tap reads
/// adjacent elements for adjacent outputs, whatever the stride, dilation and padding: tap t of
/// output (oh, ow) stands at oh * row_step + ow + offset[t], and one loop serves all problems, a
/// row of outputs after the other: the form "rows". The form "columns" is for the common problem, a
/// 3x3 kernel of stride 1 without dilation: it reads x itself, down columns of outputs whose sums
/// stay in registers. The loops stand in depthwise_loops.h. Sums are in the data's type, taps in
/// order; a weight over padding is multiplied by zero. Tiles follow from the problem alone, so
/// every number of threads gives the same bits. The gradients, of the form "rows" alone, stand in
/// depthwise_gradient.c.
#include "backends/cpu/primitives/epilogue.h"
#include "backends/cpu/conv2d/algorithms.h"
#include "backends/cpu/primitives/element.h"
#include "backends/cpu/primitives/stream.h"
#include "backends/cpu/primitives/target.h"
#include "backends/cpu/device/threads.h"
#include "tensor/extent.h"

#include <string.h>

/* Measured on processors with 32 KiB and 1 MiB of cache a core. */
enum {
    TILE_BYTES = 64 << 10, /* of input */
    BAND_BYTES = 16 << 10, /* of outputs: together with their input in the L1 cache */
    TILE_COLUMNS = 1024,
    TASK_OUTPUTS = 16 << 10, /* small planes share a task */
    PREFETCH_BYTES = 4 << 10,
    CACHE_LINE = 64,     /* of the cache, and of the widest vector register */
    COPIED_COLUMNS = 32, /* elements of a row of copied columns, at least VECTOR + 2 */
    VECTOR = 16,         /* f32 elements of a line */
};

typedef struct depthwise_plan {
    int64_t rows, columns; /* outputs of a tile */
    int64_t band;          /* rows of outputs at a time */
    bool by_columns;       /* the form */
    int64_t row_blocks, column_blocks;
    int64_t planes; /* output planes of a task; more than 1 only when a tile is a whole plane */
    int64_t tasks;
    int64_t slots;               /* different remainders of kw * dilation_w modulo stride_w */
    int64_t width;               /* elements that a slot of an input row has */
    int64_t in, out;             /* elements of the two buffers of a worker */
    size_t offsets_bytes, slice; /* the taps' offsets, for all workers; one worker's buffers */
} depthwise_plan;

static int64_t rounded(int64_t count, int64_t step)
{
    return talc_ceil_div(count, step) * step;
}

/* Input rows under `rows` output rows. */
static int64_t input_rows(const talc_conv2d_problem *p, int64_t rows)
{
    return (rows - 1) * p->stride_h + (p->KH - 1) * p->dilation_h + 1;
}

/* How many different remainders kw * dilation_w has modulo stride_w: they repeat with this
 * period. */
static int64_t remainders(const talc_conv2d_problem *p)
{
    return p->stride_w / talc_gcd(p->stride_w, p->dilation_w);
}

static depthwise_plan plan_of(const talc_conv2d_problem *p, bool by_columns)
{
    const int64_t size = (int64_t)talc_dtype_size(p->dtype);
    depthwise_plan plan = { .by_columns = by_columns,
                            .column_blocks = talc_ceil_div(p->OW, TILE_COLUMNS) };
    plan.columns = talc_ceil_div(p->OW, plan.column_blocks);
    plan.slots = talc_smaller(p->KW, remainders(p));
    plan.width =
        rounded(plan.columns, VECTOR) + rounded((p->KW - 1) * p->dilation_w / p->stride_w, VECTOR);

    const int64_t row = p->stride_h * plan.slots * plan.width * size;
    const int64_t halo = (input_rows(p, 1) - p->stride_h) * plan.slots * plan.width * size;
    const int64_t fitting = (TILE_BYTES - halo) / row;
    plan.row_blocks = talc_ceil_div(p->OH, fitting < 1 ? 1 : fitting);
    plan.rows = talc_ceil_div(p->OH, plan.row_blocks);
    plan.row_blocks = talc_ceil_div(p->OH, plan.rows);

    const int64_t tiles = plan.row_blocks * plan.column_blocks, planes = p->N * p->OC;
    plan.planes = tiles == 1 ? TASK_OUTPUTS / (p->OH * p->OW) + 1 : 1;
    plan.tasks = talc_ceil_div(planes, plan.planes) * tiles;

    plan.in = rounded(input_rows(p, plan.rows) * plan.slots * plan.width, VECTOR);
    plan.band = talc_smaller(plan.rows, rounded(BAND_BYTES / (plan.columns * size) + 1, 4));
    if (by_columns)
        plan.in = (plan.band + 3) * COPIED_COLUMNS; /* a row of zeros, copied columns */
    plan.out = rounded(plan.band * plan.columns, VECTOR);
    plan.offsets_bytes = (size_t)rounded(p->KH * p->KW, 8) * sizeof(int64_t);
    plan.slice = (size_t)((plan.in + plan.out) * size);
    return plan;
}

// ---- One tile -----------------------------------------------------------------------------------

/* One tile: outputs first_row .., first_column .. of an output plane. */
typedef struct depthwise_tile {
    int64_t row, column;
    int64_t rows, columns;
} depthwise_tile;

/* How outputs get to y. One larger than the caches is written with non-temporal stores: a cache
 * line at a time where every row of y is whole lines and there is no epilogue, else from a band of
 * rows that stays in cache. */
typedef enum { IN_PLACE, STREAM_BAND, STREAM_CACHE_LINES } depthwise_stores;

static depthwise_stores stores_of(const talc_conv2d_problem *p, const void *y)
{
    const int64_t row_bytes = p->OW * (int64_t)talc_dtype_size(p->dtype);
    if (p->N * p->OC * p->OH * row_bytes < TALC_CPU_STREAM_BYTES)
        return IN_PLACE;
    const bool lines = row_bytes % CACHE_LINE == 0 && (uintptr_t)y % CACHE_LINE == 0;
    return lines && !talc_cpu_conv2d_has_epilogue(p) ? STREAM_CACHE_LINES : STREAM_BAND;
}

typedef struct depthwise_context {
    const talc_conv2d_problem *problem;
    const talc_conv2d_arguments *arguments;
    depthwise_plan plan;
    const int64_t *offsets; /* KH * KW */
    depthwise_stores stores;
} depthwise_context;

/* Prefetches the cache line `ahead` bytes after `at`, which may be outside the image and need not
 * be mapped. */
static inline void prefetch(const void *at, int64_t ahead)
{
    __builtin_prefetch((const void *)((uintptr_t)at + (uintptr_t)ahead), 0, 2);
}

enum { NO_BORDER, LEFT_BORDER, RIGHT_BORDER };

#define ALWAYS_INLINE inline __attribute__((always_inline))

#define real          float
#define NAME(x)       x##_f32
#define ZERO_BEFORE(v)                                                                             \
    __builtin_shufflevector(v, (vector){ 0 }, 16, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14)
#define ZERO_AFTER(v)                                                                              \
    __builtin_shufflevector(v, (vector){ 0 }, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16)
#include "backends/cpu/conv2d/depthwise_loops.h"

#define real           double
#define NAME(x)        x##_f64
#define ZERO_BEFORE(v) __builtin_shufflevector(v, (vector){ 0 }, 8, 0, 1, 2, 3, 4, 5, 6)
#define ZERO_AFTER(v)  __builtin_shufflevector(v, (vector){ 0 }, 1, 2, 3, 4, 5, 6, 7, 8)
#include "backends/cpu/conv2d/depthwise_loops.h"

/* Bias, residual and activation of a band that stands at `out`, rows out_step apart. */
static void finish_band(const depthwise_context *c, const depthwise_tile *tile, int64_t first,
                        int64_t rows, int64_t plane, char *out, int64_t out_step)
{
    const talc_conv2d_problem *p = c->problem;
    const int64_t size = (int64_t)talc_dtype_size(p->dtype);
    const bool whole = tile->columns == p->OW;
    const int64_t segments = whole ? 1 : rows, count = whole ? rows * p->OW : tile->columns;
    for (int64_t i = 0; i < segments; i++, out += out_step * size) {
        const int64_t at = (plane * p->OH + tile->row + first + i) * p->OW + tile->column;
        if (talc_cpu_conv2d_has_epilogue(p))
            talc_cpu_conv2d_epilogue(p, plane % p->OC, count, out, c->arguments->bias,
                                     talc_cpu_at(p->dtype, c->arguments->residual, at));
        if (c->stores == STREAM_BAND)
            talc_cpu_stream_copy((char *)c->arguments->y + at * size, out, (size_t)(count * size),
                                 out);
    }
}

/* `plane` is n * OC + oc. */
static void depthwise_plane(const depthwise_context *c, const depthwise_tile *tile, int64_t plane,
                            void *in, void *band)
{
    const talc_conv2d_problem *p = c->problem;
    const int64_t n = plane / p->OC, oc = plane % p->OC, ic = oc / (p->OC / p->C);
    const void *x = talc_cpu_at(p->dtype, c->arguments->x, (n * p->C + ic) * p->H * p->W);
    const void *w = talc_cpu_at(p->dtype, c->arguments->w, oc * p->KH * p->KW);
    const int64_t size = (int64_t)talc_dtype_size(p->dtype);
    for (int64_t first = 0; first < tile->rows; first += c->plan.band) {
        const int64_t rows = talc_smaller(c->plan.band, tile->rows - first);
        const int64_t at = (plane * p->OH + tile->row + first) * p->OW + tile->column;
        const bool in_band = c->stores == STREAM_BAND;
        const int64_t step = in_band ? tile->columns : p->OW;
        void *out = in_band ? band : (char *)c->arguments->y + at * size;
        if (c->plan.by_columns)
            TALC_CPU_CALL(p->dtype, band_3x3, (c, tile, first, rows, x, w, in, out, step));
        else
            TALC_CPU_CALL(p->dtype, band_sums, (c, tile, first, rows, x, w, in, out, step));
        finish_band(c, tile, first, rows, plane, out, step);
    }
}

static void depthwise_task(void *context, int64_t task, int worker)
{
    const depthwise_context *c = context;
    const talc_conv2d_problem *p = c->problem;
    const depthwise_plan *plan = &c->plan;
    char *in =
        (char *)c->arguments->base.workspace + plan->offsets_bytes + (size_t)worker * plan->slice;
    char *out = in + plan->in * (int64_t)talc_dtype_size(p->dtype);

    const int64_t tiles = plan->row_blocks * plan->column_blocks, i = task % tiles;
    depthwise_tile tile = { .row = i / plan->column_blocks * plan->rows,
                            .column = i % plan->column_blocks * plan->columns };
    tile.rows = talc_smaller(plan->rows, p->OH - tile.row);
    tile.columns = talc_smaller(plan->columns, p->OW - tile.column);
    const int64_t first = task / tiles * plan->planes,
                  end = talc_smaller(first + plan->planes, p->N * p->OC);
    for (int64_t plane = first; plane < end; plane++)
        depthwise_plane(c, &tile, plane, in, out);
    if (c->stores != IN_PLACE)
        talc_cpu_stream_end();
}

// ---- The forms ----------------------------------------------------------------------------------

static const char *refusal_of(const talc_conv2d_problem *p)
{
    if (talc_cpu_refuses(p->dtype) != NULL)
        return talc_cpu_refuses(p->dtype);
    if (p->groups != p->C)
        return "groups is not the number of input channels";
    if (p->padding_mode != TALC_PADDING_ZEROS)
        return "the padding is not zeros";
    return talc_cpu_conv2d_reaches_far(p);
}

static void store_plan(const talc_conv2d_problem *p, bool by_columns, size_t limit, talc_plan *plan)
{
    const depthwise_plan planned = plan_of(p, by_columns);
    plan->workspace =
        talc_cpu_workspace(planned.tasks, planned.offsets_bytes, planned.slice, limit);
    talc_plan_store(plan, &planned, sizeof planned);
}

static talc_status run_forward(const talc_conv2d_problem *p, const talc_plan *plan,
                               const talc_conv2d_arguments *a)
{
    const depthwise_plan *planned = talc_plan_data(plan);
    int64_t *offsets = a->base.workspace;
    depthwise_context context = { p, a, *planned, offsets, stores_of(p, a->y) };
    const int64_t width = planned->width, in_row = planned->slots * width;
    for (int64_t kh = 0; kh < p->KH; kh++)
        for (int64_t kw = 0; kw < p->KW; kw++)
            offsets[kh * p->KW + kw] = kh * p->dilation_h * in_row + kw % planned->slots * width +
                                       kw * p->dilation_w / p->stride_w;
    const size_t slices = (plan->workspace - planned->offsets_bytes) / planned->slice;
    return talc_cpu_parallel_limited(planned->tasks, (int)slices, depthwise_task, &context);
}

const char *talc_cpu_conv2d_depthwise_columns_plan(const talc_device *device, const void *problem,
                                                   size_t limit, talc_plan *plan)
{
    (void)device;
    const talc_conv2d_problem *p = problem;
    if (p->direction != TALC_FORWARD)
        return "it has no gradients";
    if (refusal_of(p) != NULL)
        return refusal_of(p);
    if (p->KH != 3 || p->KW != 3)
        return "the kernel is not 3x3";
    if (p->stride_h != 1 || p->stride_w != 1)
        return "the stride is not 1";
    if (p->dilation_h != 1 || p->dilation_w != 1)
        return "the dilation is not 1";
    store_plan(p, true, limit, plan);
    return NULL;
}

talc_status talc_cpu_conv2d_depthwise_columns_run(talc_device *device, const void *problem,
                                                  const talc_plan *plan, const void *arguments)
{
    (void)device;
    return run_forward(problem, plan, arguments);
}

const char *talc_cpu_conv2d_depthwise_rows_plan(const talc_device *device, const void *problem,
                                                size_t limit, talc_plan *plan)
{
    (void)device;
    const talc_conv2d_problem *p = problem;
    if (refusal_of(p) != NULL)
        return refusal_of(p);
    if (p->direction != TALC_FORWARD)
        return talc_cpu_conv2d_depthwise_gradient_plan(p, limit, plan);
    store_plan(p, false, limit, plan);
    return NULL;
}

talc_status talc_cpu_conv2d_depthwise_rows_run(talc_device *device, const void *problem,
                                               const talc_plan *plan, const void *arguments)
{
    (void)device;
    const talc_conv2d_problem *p = problem;
    return p->direction == TALC_FORWARD
               ? run_forward(p, plan, arguments)
               : talc_cpu_conv2d_depthwise_gradient_run(p, plan, arguments);
}
