/// The form "columns" of `depthwise` (depthwise_planes.c): 3x3 kernels of stride 1 or 2 without
/// dilation. It reads x itself, down columns of outputs as wide as a vector, whose sums stay in
/// registers (depthwise_columns_loops.h); a weight over padding is multiplied by zero. dx at stride
/// 1 is the same over dy; at stride 2 pixels with an even number of rows or columns before them
/// have other taps than the next ones, and a vector of each is interleaved. dw sums the products of
/// columns of dy with x in nine vectors.
///
/// A task is a tile of one plane, or some small planes; of dw a filter over a split of the tiles of
/// all images. A result larger than the caches is written with non-temporal stores: a cache line at
/// a time where every row of y is whole lines and there is no epilogue, else from a band of rows
/// that stays in cache.
#include "backends/cpu/conv2d/algorithms.h"
#include "backends/cpu/conv2d/depthwise.h"
#include "backends/cpu/conv2d/split_k.h"
#include "backends/cpu/device/threads.h"
#include "backends/cpu/primitives/element.h"
#include "backends/cpu/primitives/epilogue.h"
#include "backends/cpu/primitives/finite.h"
#include "backends/cpu/primitives/stream.h"
#include "backends/cpu/primitives/target.h"
#include "tensor/extent.h"

#include <string.h>

/* Measured on processors with 32 KiB and 1 MiB of cache a core. */
enum {
    TILE_BYTES = 64 << 10, /* of input */
    BAND_BYTES = 16 << 10, /* of outputs: together with their input in the L1 cache */
    BAND_ROWS = 28,        /* of which bands are made */
    TILE_COLUMNS = 1024,
    TASK_OUTPUTS = 16 << 10, /* small planes share a task */
    TASKS = 16,              /* where there are planes enough */
    TERMS = 256,             /* of dw that a lane sums in the data's type */
    CACHE_LINE = 64,         /* and the widest vector register */
};

typedef struct columns_plan {
    int64_t rows, columns; /* outputs of a tile, at most */
    int64_t band;          /* rows of outputs at a time */
    int64_t row_blocks, column_blocks;
    int64_t planes; /* output planes of a task; more than 1 only when a tile is a whole plane */
    int64_t tasks;
    size_t zeros, slice; /* bytes of a row of zeros, behind dw's splits; of a worker */
    talc_cpu_split_k split_k;
} columns_plan;

typedef enum { IN_PLACE, STREAM_BAND, STREAM_CACHE_LINES } columns_stores;

typedef struct columns_context {
    const talc_conv2d_problem *problem;
    const talc_conv2d_arguments *arguments;
    const columns_plan *plan;
    depthwise_pass pass;
    const void *x, *zeros;
    void *y;
    char *slices;
    columns_stores stores;
} columns_context;

static int64_t lanes_of(const talc_conv2d_problem *p)
{
    return CACHE_LINE / (int64_t)talc_dtype_size(p->dtype);
}

/* Outputs row .. row + rows - 1, column .. column + columns - 1 of a plane; of dx at stride 2 rows
 * of it and columns of dy. */
typedef struct columns_tile {
    int64_t row, rows, column, columns;
} columns_tile;

enum { NO_BORDER, LEFT_BORDER, RIGHT_BORDER };

/* Prefetches the cache line `ahead` bytes after `at`, which may be outside the image and need not
 * be mapped. */
static inline void prefetch(const void *at, int64_t ahead)
{
    __builtin_prefetch((const void *)((uintptr_t)at + (uintptr_t)ahead), 0, 2);
}

#define real    float
#define NAME(x) x##_f32
#define BEFORE(v, e)                                                                               \
    __builtin_shufflevector(v, e, 16, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14)
#define AFTER(v, e)                                                                                \
    __builtin_shufflevector(v, e, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16)
#define EVEN(a, b)                                                                                 \
    __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)
#define ODD(a, b)                                                                                  \
    __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31)
#define LOW(a, b)                                                                                  \
    __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define HIGH(a, b)                                                                                 \
    __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#include "backends/cpu/conv2d/depthwise_columns_loops.h"

#define real         double
#define NAME(x)      x##_f64
#define BEFORE(v, e) __builtin_shufflevector(v, e, 8, 0, 1, 2, 3, 4, 5, 6)
#define AFTER(v, e)  __builtin_shufflevector(v, e, 1, 2, 3, 4, 5, 6, 7, 8)
#define EVEN(a, b)   __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14)
#define ODD(a, b)    __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15)
#define LOW(a, b)    __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define HIGH(a, b)   __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#include "backends/cpu/conv2d/depthwise_columns_loops.h"

// ---- One tile -----------------------------------------------------------------------------------

static columns_stores stores_of(const talc_conv2d_problem *p, const void *y)
{
    const int64_t row_bytes = p->OW * (int64_t)talc_dtype_size(p->dtype);
    if (p->direction != TALC_FORWARD || p->N * p->OC * p->OH * row_bytes < TALC_CPU_STREAM_BYTES)
        return IN_PLACE;
    const bool lines = row_bytes % CACHE_LINE == 0 && (uintptr_t)y % CACHE_LINE == 0;
    return lines && !talc_cpu_conv2d_has_epilogue(p) ? STREAM_CACHE_LINES : STREAM_BAND;
}

/* Bias, residual and activation of a band that stands at `out`, rows out_step apart. */
static void finish_band(const columns_context *c, const columns_tile *band, int64_t plane,
                        char *out, int64_t out_step)
{
    const talc_conv2d_problem *p = c->problem;
    const int64_t size = (int64_t)talc_dtype_size(p->dtype);
    const bool whole = band->columns == p->OW;
    const int64_t pieces = whole ? 1 : band->rows;
    const int64_t count = whole ? band->rows * p->OW : band->columns;
    for (int64_t i = 0; i < pieces; i++, out += out_step * size) {
        const int64_t at = (plane * p->OH + band->row + i) * p->OW + band->column;
        if (talc_cpu_conv2d_has_epilogue(p))
            talc_cpu_conv2d_epilogue(p, plane % p->OC, count, out, c->arguments->bias,
                                     talc_cpu_at(p->dtype, c->arguments->residual, at));
        if (c->stores == STREAM_BAND)
            talc_cpu_stream_copy((char *)c->arguments->y + at * size, out, (size_t)(count * size),
                                 out);
    }
}

/* `plane` is n * OC + oc, of dx n * C + channel. */
static void plane_tile(const columns_context *c, const columns_tile *tile, int64_t plane, char *own)
{
    const talc_conv2d_problem *p = c->problem;
    const depthwise_pass *pass = &c->pass;
    const bool forward = p->direction == TALC_FORWARD;
    const int64_t size = (int64_t)talc_dtype_size(p->dtype), filters = forward ? p->OC : p->C;
    const void *x = talc_cpu_at(p->dtype, c->x, plane / (p->OC / p->C) * pass->h.in * pass->w.in);
    const void *w = talc_cpu_at(p->dtype, c->arguments->w, plane % filters * 9);
    const bool phases = !forward && p->stride_w == 2;
    if (phases)
        TALC_CPU_CALL(p->dtype, rows_3x3,
                      (c, tile, x, w, (void *)((char *)c->y + plane * p->H * p->W * size)));
    for (int64_t first = 0; first < tile->rows && !phases; first += c->plan->band) {
        columns_tile band = *tile;
        band.row += first;
        band.rows = talc_smaller(c->plan->band, tile->rows - first);
        const int64_t at = (plane * pass->h.out + band.row) * pass->w.out + band.column;
        const bool apart = c->stores == STREAM_BAND;
        const int64_t step = apart ? band.columns : pass->w.out;
        char *out = apart ? own : (char *)c->y + at * size;
        TALC_CPU_CALL(p->dtype, band_3x3, (c, &band, x, w, (void *)out, step));
        if (forward)
            finish_band(c, &band, plane, out, step);
    }
    if (!forward && !talc_cpu_all_finite(p->dtype, w, 9))
        talc_cpu_conv2d_recompute_nan(p, c->arguments, plane,
                                      (talc_range){ tile->row, tile->row + tile->rows },
                                      (talc_range){ tile->column * p->stride_w,
                                                    (tile->column + tile->columns) * p->stride_w });
}

/* Tile i of a plane. Tiles begin at whole vectors, as cache lines that are stored past the caches
 * must, and none has less than one. */
static columns_tile tile_of(const columns_context *c, int64_t i)
{
    const columns_plan *plan = c->plan;
    const int64_t lanes = lanes_of(c->problem), vectors = c->pass.w.out / lanes;
    const int64_t block = i % plan->column_blocks;
    columns_tile tile = { .row = i / plan->column_blocks * plan->rows,
                          .column = block * vectors / plan->column_blocks * lanes };
    tile.rows = talc_smaller(plan->rows, c->pass.h.out - tile.row);
    tile.columns =
        (block + 1 < plan->column_blocks ? (block + 1) * vectors / plan->column_blocks * lanes
                                         : c->pass.w.out) -
        tile.column;
    return tile;
}

static void tile_task(void *context, int64_t task, int worker)
{
    const columns_context *c = context;
    const columns_plan *plan = c->plan;
    const int64_t tiles = plan->row_blocks * plan->column_blocks;
    const columns_tile tile = tile_of(c, task % tiles);
    const int64_t first = task / tiles * plan->planes;
    const int64_t planes =
        c->problem->N * (c->problem->direction == TALC_FORWARD ? c->problem->OC : c->problem->C);
    for (int64_t plane = first; plane < talc_smaller(first + plan->planes, planes); plane++)
        plane_tile(c, &tile, plane, c->slices + (size_t)worker * plan->slice);
    if (c->stores != IN_PLACE)
        talc_cpu_stream_end();
}

static void weight_task(void *context, int64_t task, int worker)
{
    (void)worker;
    const columns_context *c = context;
    const talc_conv2d_problem *p = c->problem;
    const int64_t tiles = c->plan->row_blocks * c->plan->column_blocks;
    const int64_t oc = task % p->OC, split = task / p->OC;
    const talc_range terms = talc_cpu_split_k_terms(&c->plan->split_k, split);
    double taps[9] = { 0 };
    for (int64_t term = terms.lo; term < terms.hi; term++) {
        const columns_tile tile = tile_of(c, term % tiles);
        const int64_t plane = term / tiles * p->OC + oc;
        const int64_t at = (plane * p->OH + tile.row) * p->OW + tile.column;
        TALC_CPU_CALL(p->dtype, tile_3x3,
                      (c, &tile, talc_cpu_at(p->dtype, c->x, plane / (p->OC / p->C) * p->H * p->W),
                       talc_cpu_at(p->dtype, c->arguments->dy, at), taps));
    }
    void *dw = talc_cpu_split_k_at(&c->plan->split_k, p, c->arguments, split, oc * 9);
    for (int64_t tap = 0; tap < 9; tap++)
        talc_cpu_store(p->dtype, dw, tap, taps[tap]);
}

// ---- The algorithm ------------------------------------------------------------------------------

/* All of dx at stride 2 is one: its rows, and pairs of its columns. */
static depthwise_pass pass_of(const talc_conv2d_problem *p)
{
    const bool to_input = p->direction == TALC_GRAD_INPUT;
    const depthwise_pass forward = talc_cpu_depthwise_forward(p);
    depthwise_pass pass = { talc_cpu_depthwise_phase(&forward.h, to_input, 0),
                            talc_cpu_depthwise_phase(&forward.w, to_input, 0) };
    if (to_input)
        pass.h.out = p->H;
    return pass;
}

static columns_plan plan_of(const talc_conv2d_problem *p, size_t limit)
{
    const int64_t size = (int64_t)talc_dtype_size(p->dtype);
    const depthwise_pass pass = pass_of(p);
    const int64_t planes = p->N * (p->direction == TALC_FORWARD ? p->OC : p->C);
    const int64_t lanes = lanes_of(p);
    columns_plan plan = { .column_blocks = talc_ceil_div(pass.w.out, TILE_COLUMNS) };
    plan.columns = talc_smaller(
        pass.w.out, talc_ceil_div(pass.w.out / lanes, plan.column_blocks) * lanes + lanes - 1);
    const int64_t row = pass.h.stride * pass.w.stride * plan.columns * size;
    plan.rows = talc_even(pass.h.out, talc_smaller(TILE_BYTES / row, TERMS));
    plan.row_blocks = talc_ceil_div(pass.h.out, plan.rows);
    const int64_t tiles = plan.row_blocks * plan.column_blocks;
    plan.planes = tiles > 1 ? 1
                            : talc_between(talc_ceil_div(planes, TASKS), 1,
                                           TASK_OUTPUTS / (pass.h.out * pass.w.out) + 1);
    plan.tasks = talc_ceil_div(planes, plan.planes) * tiles;
    plan.band =
        talc_smaller(plan.rows, talc_round_up(BAND_BYTES / (plan.columns * size) + 1, BAND_ROWS));
    plan.zeros = (2 + (size_t)pass.w.stride) * CACHE_LINE;
    plan.slice = (size_t)talc_round_up(plan.band * plan.columns * size, CACHE_LINE);
    if (p->direction == TALC_GRAD_WEIGHT) {
        plan.split_k = talc_cpu_split_k_of(p, p->OC, p->N * tiles, limit);
        plan.tasks = p->OC * plan.split_k.splits;
    }
    return plan;
}

static size_t shared_bytes(const columns_plan *plan)
{
    return talc_cpu_split_k_bytes(&plan->split_k) + plan->zeros;
}

const char *talc_cpu_conv2d_depthwise_columns_plan(const talc_device *device, const void *problem,
                                                   size_t limit, talc_plan *plan)
{
    (void)device;
    const talc_conv2d_problem *p = problem;
    const bool to_input = p->direction == TALC_GRAD_INPUT;
    if (talc_cpu_depthwise_refusal(p) != NULL)
        return talc_cpu_depthwise_refusal(p);
    if (p->KH != 3 || p->KW != 3)
        return "the kernel is not 3x3";
    if (p->stride_h != p->stride_w || p->stride_w > 2)
        return "the stride is not 1 or 2 along both axes";
    if (p->dilation_h != 1 || p->dilation_w != 1)
        return "the dilation is not 1";
    if (to_input && p->OC > p->C)
        return "an input channel has several filters";
    const bool phases = to_input && p->stride_w == 2;
    if (phases && (p->pad_left > 1 || p->W != 2 * p->OW))
        return "a row of dx is not two of dy";
    const depthwise_axis w = pass_of(p).w;
    const int64_t lanes = lanes_of(p);
    if (!phases && (w.pad > 1 || (w.out - 1) * w.stride - w.pad + 2 > w.in))
        return "more than one column of padding is on a side";
    if (w.out < lanes || (!phases && w.in < lanes * w.stride + 2))
        return "the rows are short";
    const columns_plan planned = plan_of(p, limit);
    plan->workspace =
        talc_cpu_workspace(planned.tasks, shared_bytes(&planned), planned.slice, limit);
    talc_plan_store(plan, &planned, sizeof planned);
    return NULL;
}

talc_status talc_cpu_conv2d_depthwise_columns_run(talc_device *device, const void *problem,
                                                  const talc_plan *plan, const void *arguments)
{
    (void)device;
    const talc_conv2d_problem *p = problem;
    const talc_conv2d_arguments *a = arguments;
    const columns_plan *planned = talc_plan_data(plan);
    const bool to_weight = p->direction == TALC_GRAD_WEIGHT;
    char *zeros = (char *)a->base.workspace + talc_cpu_split_k_bytes(&planned->split_k);
    columns_context context = {
        .problem = p,
        .arguments = a,
        .plan = planned,
        .pass = pass_of(p),
        .x = p->direction == TALC_GRAD_INPUT ? a->dy : a->x,
        .zeros = zeros + CACHE_LINE,
        .y = p->direction == TALC_FORWARD ? a->y : a->dx,
        .slices = zeros + planned->zeros,
        .stores = stores_of(p, a->y),
    };
    memset(zeros, 0, planned->zeros);
    const int slices = (int)((plan->workspace - shared_bytes(planned)) / planned->slice);
    const talc_status status = talc_cpu_parallel_limited(
        planned->tasks, slices, to_weight ? weight_task : tile_task, &context);
    return status == TALC_OK && to_weight ? talc_cpu_split_k_sum(&planned->split_k, p, a) : status;
}
