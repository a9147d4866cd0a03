/// Depthwise convolution: every group is one input channel, so that every output plane reads one input plane.
///
///     y[n, oc, oh, ow] = act( b[oc] + r[n, oc, oh, ow] + sum over kh, kw of
///                             x'[n, oc / M, oh*stride_h - top + kh*dilation_h, ow*stride_w - left + kw*dilation_w]
///                             * w[oc, 0, kh, kw] ),      M = OC / C,   x' is x with zeros around it
///
/// There is little arithmetic and much memory traffic, so a piece of work is a tile of one output plane that stays in
/// the first-level cache. The part of x' that it reads is copied to the worker's slice of the workspace with its columns
/// sorted by their remainder modulo stride_w. Then every tap reads adjacent elements for adjacent outputs, whatever
/// the stride, dilation and padding: tap t of output (oh, ow) stands at oh * row_step + ow + offset[t], and one loop
/// serves all problems. Sums are in the data's type, taps in order; a weight over padding is multiplied by zero.
/// Tiles follow from the problem alone, so every number of threads gives the same bits.
#include "backends/cpu/conv2d_epilogue.h"
#include "backends/cpu/conv2d_rows.h"
#include "backends/cpu/element.h"
#include "backends/cpu/stream.h"
#include "backends/cpu/target.h"
#include "backends/cpu/threads.h"
#include "tensor/extent.h"

#include <string.h>

/* Measured on processors with 32 KiB and 1 MiB of cache a core. */
enum {
    TILE_BYTES = 64 << 10, /* of input */
    BAND_BYTES = 2 << 10,  /* of outputs, which go to y together */
    TILE_COLUMNS = 1024,
    PIECE_OUTPUTS = 16 << 10, /* small planes share a piece */
    STREAM_BYTES = 8 << 20,   /* a larger y leaves the caches before anyone reads it */
    PREFETCH_BYTES = 4 << 10,
    CACHE_LINE = 64,
    VECTOR = 16,         /* elements of the widest vector register, of f32 */
    FARTHEST = 64 << 10, /* the longest kernel and stride, so that no size below overflows */
};

typedef struct depthwise_plan {
    int64_t rows, columns; /* outputs of a tile */
    int64_t band;          /* rows of outputs at a time */
    bool dense_3x3;        /* 3x3, stride 1, dilation 1 */
    int64_t row_blocks, column_blocks;
    int64_t planes; /* output planes of a piece; more than 1 only when a tile is a whole plane */
    int64_t pieces;
    int64_t slots;               /* different remainders of kw * dilation_w modulo stride_w */
    int64_t width;               /* elements that a slot of an input row has */
    int64_t in, out;             /* elements of the two buffers of a worker */
    size_t offsets_bytes, slice; /* the taps' offsets, for all workers; one worker's buffers */
} depthwise_plan;

static int64_t rounded(int64_t count, int64_t step)
{
    return talc_cpu_pieces(count, step) * step;
}

/* Input rows under `rows` output rows. */
static int64_t input_rows(const talc_conv2d_problem *p, int64_t rows)
{
    return (rows - 1) * p->stride_h + (p->KH - 1) * p->dilation_h + 1;
}

/* How many different remainders kw * dilation_w has modulo stride_w: they repeat with this period. */
static int64_t remainders(const talc_conv2d_problem *p)
{
    int64_t a = p->stride_w, b = p->dilation_w;
    while (b != 0) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return p->stride_w / a;
}

static depthwise_plan plan_of(const talc_conv2d_problem *p)
{
    const int64_t size = (int64_t)talc_dtype_size(p->dtype);
    depthwise_plan plan = { .column_blocks = talc_cpu_pieces(p->OW, TILE_COLUMNS) };
    plan.columns = talc_cpu_pieces(p->OW, plan.column_blocks);
    plan.slots = talc_smaller(p->KW, remainders(p));
    plan.width =
        rounded(plan.columns, VECTOR) + rounded((p->KW - 1) * p->dilation_w / p->stride_w, VECTOR);

    const int64_t row = p->stride_h * plan.slots * plan.width * size;
    const int64_t halo = (input_rows(p, 1) - p->stride_h) * plan.slots * plan.width * size;
    const int64_t fitting = (TILE_BYTES - halo) / row;
    plan.row_blocks = talc_cpu_pieces(p->OH, fitting < 1 ? 1 : fitting);
    plan.rows = talc_cpu_pieces(p->OH, plan.row_blocks);
    plan.row_blocks = talc_cpu_pieces(p->OH, plan.rows);

    plan.dense_3x3 = p->KH == 3 && p->KW == 3 && p->stride_h == 1 && p->stride_w == 1 &&
                     p->dilation_h == 1 && p->dilation_w == 1;
    const int64_t tiles = plan.row_blocks * plan.column_blocks, planes = p->N * p->OC;
    plan.planes = tiles == 1 ? PIECE_OUTPUTS / (p->OH * p->OW) + 1 : 1;
    plan.pieces = talc_cpu_pieces(planes, plan.planes) * tiles;

    plan.in = rounded(input_rows(p, plan.rows) * plan.slots * plan.width, VECTOR);
    plan.band = talc_smaller(plan.rows, rounded(BAND_BYTES / (plan.columns * size) + 1, 4));
    plan.out = rounded(plan.band * plan.columns, VECTOR);
    plan.offsets_bytes = (size_t)rounded(p->KH * p->KW, 8) * sizeof(int64_t);
    plan.slice = (size_t)((plan.in + plan.out) * size);
    return plan;
}

// ---- One tile -----------------------------------------------------------------------------------------------

/* One tile: outputs first_row .., first_column .. of an output plane. */
typedef struct depthwise_tile {
    int64_t row, column;
    int64_t rows, columns;
} depthwise_tile;

typedef struct depthwise_context {
    const talc_conv2d_problem *problem;
    const talc_conv2d_arguments *arguments;
    depthwise_plan plan;
    const int64_t *offsets; /* KH * KW */
    bool streams;           /* y is larger than what caches hold */
} depthwise_context;

/* Asks for what is read a few rows later: a row at a time is too little for the processor to foresee it. */
static inline void prefetch(const char *row, int64_t bytes)
{
    for (int64_t i = 0; i < bytes; i += CACHE_LINE)
        __builtin_prefetch((const void *)((uintptr_t)row + (uintptr_t)(i + PREFETCH_BYTES)));
}

/* The columns iw, iw + stride, ... of one image row, zero where they are outside: `width` of them. */
#define COPY_SLOT(suffix, type)                                                                    \
    static void copy_slot_##suffix(const type *row, int64_t iw, int64_t stride, int64_t W,         \
                                   int64_t width, type *dst)                                       \
    {                                                                                              \
        const talc_range inside = talc_window_inside(iw, stride, width, W);                        \
        for (int64_t i = 0; i < inside.lo; i++)                                                    \
            dst[i] = 0;                                                                            \
        if (stride == 1)                                                                           \
            memcpy(dst + inside.lo, row + iw + inside.lo,                                          \
                   (size_t)(inside.hi - inside.lo) * sizeof(type));                                \
        else if (stride == 2)                                                                      \
            for (int64_t i = inside.lo; i < inside.hi; i++)                                        \
                dst[i] = row[iw + i * 2];                                                          \
        else                                                                                       \
            for (int64_t i = inside.lo; i < inside.hi; i++)                                        \
                dst[i] = row[iw + i * stride];                                                     \
        for (int64_t i = inside.hi; i < width; i++)                                                \
            dst[i] = 0;                                                                            \
    }

/* Rows first .. end - 1 of the input of a tile, [input rows, slots, width]. */
#define COPY_INPUT(suffix, type)                                                                   \
    static inline __attribute__((always_inline)) void copy_input_##suffix(                         \
        const talc_conv2d_problem *p, const depthwise_plan *plan, const depthwise_tile *tile,      \
        int64_t first, int64_t end, const type *plane, type *in)                                   \
    {                                                                                              \
        for (int64_t i = first; i < end; i++)                                                      \
            for (int64_t slot = 0; slot < plan->slots; slot++) {                                   \
                const int64_t ih = tile->row * p->stride_h - p->pad_top + i;                       \
                const int64_t iw =                                                                 \
                    tile->column * p->stride_w - p->pad_left + slot * p->dilation_w % p->stride_w; \
                const bool inside = ih >= 0 && ih < p->H;                                          \
                if (inside && slot == 0)                                                           \
                    prefetch((const char *)(plane + ih * p->W), p->W *(int64_t)sizeof(type));      \
                copy_slot_##suffix(plane + (inside ? ih : 0) * p->W, iw, p->stride_w,              \
                                   inside ? p->W : 0, plan->width,                                 \
                                   in + (i * plan->slots + slot) * plan->width);                   \
            }                                                                                      \
    }

/* One vector register of the widest kind, at any address; compilers make several narrower ones of it. */
typedef float vector_f32 __attribute__((vector_size(64), aligned(4), may_alias));
typedef double vector_f64 __attribute__((vector_size(64), aligned(8), may_alias));

/* Where the vector at column q of a row starts: the last one of a row overlaps the one before. */
static inline int64_t vector_start(int64_t q, int64_t lanes, int64_t columns)
{
    return q + lanes <= columns || columns < lanes ? q : columns - lanes;
}

#define STORE(suffix, type)                                                                        \
    static inline __attribute__((always_inline)) void store_##suffix(                              \
        type *out, const vector_##suffix *sum, int64_t columns)                                    \
    {                                                                                              \
        if (columns >= (int64_t)(sizeof *sum / sizeof(type)))                                      \
            *(vector_##suffix *)out = *sum;                                                        \
        else                                                                                       \
            memcpy(out, sum, (size_t)columns * sizeof(type));                                      \
    }

/* One row of outputs, `taps` a constant where this is inlined. */
#define ROW_SUMS(suffix, type)                                                                     \
    static inline __attribute__((always_inline)) void row_sums_##suffix(                           \
        int64_t taps, const int64_t *restrict offsets, const type *restrict w,                     \
        const type *restrict in, int64_t columns, type *restrict out)                              \
    {                                                                                              \
        const int64_t lanes = (int64_t)(sizeof(vector_##suffix) / sizeof(type));                   \
        for (int64_t q = 0; q < columns; q += lanes) {                                             \
            const int64_t at = vector_start(q, lanes, columns);                                    \
            vector_##suffix sum = { 0 };                                                           \
            for (int64_t t = 0; t < taps; t++)                                                     \
                sum += w[t] * *(const vector_##suffix *)(in + offsets[t] + at);                    \
            store_##suffix(out + at, &sum, columns);                                               \
        }                                                                                          \
    }

/* Four rows of outputs of a dense 3x3 kernel of stride 1, which share their six input rows' loads. The taps of each
 * output are summed in the same order as in one row. */
#define ROWS_3X3(suffix, type)                                                                     \
    static inline __attribute__((always_inline)) void rows_3x3_##suffix(                           \
        const type *restrict w, const type *restrict in, int64_t width, int64_t columns,           \
        type *restrict out)                                                                        \
    {                                                                                              \
        typedef vector_##suffix vector;                                                            \
        const int64_t lanes = (int64_t)(sizeof(vector) / sizeof(type));                            \
        for (int64_t q = 0; q < columns; q += lanes) {                                             \
            const int64_t at = vector_start(q, lanes, columns);                                    \
            const type *x = in + at;                                                               \
            vector sum0 = { 0 }, sum1 = { 0 }, sum2 = { 0 }, sum3 = { 0 };                         \
            for (int kw = 0; kw < 3; kw++)                                                         \
                sum0 += w[kw] * *(const vector *)(x + kw);                                         \
            for (int kw = 0; kw < 3; kw++) {                                                       \
                const vector v = *(const vector *)(x + width + kw);                                \
                sum0 += w[3 + kw] * v;                                                             \
                sum1 += w[kw] * v;                                                                 \
            }                                                                                      \
            for (int kw = 0; kw < 3; kw++) {                                                       \
                const vector v = *(const vector *)(x + 2 * width + kw);                            \
                sum0 += w[6 + kw] * v;                                                             \
                sum1 += w[3 + kw] * v;                                                             \
                sum2 += w[kw] * v;                                                                 \
            }                                                                                      \
            for (int kw = 0; kw < 3; kw++) {                                                       \
                const vector v = *(const vector *)(x + 3 * width + kw);                            \
                sum1 += w[6 + kw] * v;                                                             \
                sum2 += w[3 + kw] * v;                                                             \
                sum3 += w[kw] * v;                                                                 \
            }                                                                                      \
            for (int kw = 0; kw < 3; kw++) {                                                       \
                const vector v = *(const vector *)(x + 4 * width + kw);                            \
                sum2 += w[6 + kw] * v;                                                             \
                sum3 += w[3 + kw] * v;                                                             \
            }                                                                                      \
            for (int kw = 0; kw < 3; kw++)                                                         \
                sum3 += w[6 + kw] * *(const vector *)(x + 5 * width + kw);                         \
            store_##suffix(out + at, &sum0, columns);                                              \
            store_##suffix(out + columns + at, &sum1, columns);                                    \
            store_##suffix(out + 2 * columns + at, &sum2, columns);                                \
            store_##suffix(out + 3 * columns + at, &sum3, columns);                                \
        }                                                                                          \
    }

/* Rows first .. first + rows - 1 of a tile. Each input row is copied just before it is needed, so that reading from
 * memory and computing overlap. */
#define BAND_SUMS(suffix, type)                                                                    \
    TALC_TARGET_CLONES static void band_sums_##suffix(                                             \
        const depthwise_context *c, const depthwise_tile *tile, int64_t first, int64_t rows,       \
        const type *plane, const type *w, type *in, type *out)                                     \
    {                                                                                              \
        const talc_conv2d_problem *p = c->problem;                                                 \
        const int64_t taps = p->KH * p->KW;                                                        \
        const int64_t step = p->stride_h * c->plan.slots * c->plan.width;                          \
        int64_t done;                                                                              \
        for (int64_t r = first; r < first + rows; r += done, out += done * tile->columns) {        \
            const type *x = in + r * step;                                                         \
            done = c->plan.dense_3x3 && r + 4 <= first + rows ? 4 : 1;                             \
            copy_input_##suffix(p, &c->plan, tile, r == 0 ? 0 : input_rows(p, r),                  \
                                input_rows(p, r + done), plane, in);                               \
            if (done == 4)                                                                         \
                rows_3x3_##suffix(w, x, c->plan.width, tile->columns, out);                        \
            else if (taps == 9)                                                                    \
                row_sums_##suffix(9, c->offsets, w, x, tile->columns, out);                        \
            else if (taps == 25)                                                                   \
                row_sums_##suffix(25, c->offsets, w, x, tile->columns, out);                       \
            else                                                                                   \
                row_sums_##suffix(taps, c->offsets, w, x, tile->columns, out);                     \
        }                                                                                          \
    }

COPY_SLOT(f32, float)
COPY_SLOT(f64, double)
COPY_INPUT(f32, float)
COPY_INPUT(f64, double)
STORE(f32, float)
STORE(f64, double)
ROW_SUMS(f32, float)
ROW_SUMS(f64, double)
ROWS_3X3(f32, float)
ROWS_3X3(f64, double)
BAND_SUMS(f32, float)
BAND_SUMS(f64, double)

/* Bias, residual and activation of a band, and its way into y: in one stretch when it has whole rows of y. */
static void finish_band(const depthwise_context *c, const depthwise_tile *tile, int64_t first,
                        int64_t rows, int64_t plane, char *out)
{
    const talc_conv2d_problem *p = c->problem;
    const talc_conv2d_arguments *a = c->arguments;
    const int64_t size = (int64_t)talc_dtype_size(p->dtype);
    const bool whole = tile->columns == p->OW;
    const int64_t stretches = whole ? 1 : rows, count = whole ? rows * p->OW : tile->columns;
    for (int64_t i = 0; i < stretches; i++, out += count * size) {
        const int64_t at = (plane * p->OH + tile->row + first + i) * p->OW + tile->column;
        if (talc_cpu_conv2d_has_epilogue(p))
            talc_cpu_conv2d_epilogue(p, plane % p->OC, count, out, a->bias,
                                     talc_cpu_at(p->dtype, a->residual, at));
        if (c->streams)
            talc_cpu_stream_copy((char *)a->y + at * size, out, (size_t)(count * size));
        else
            memcpy((char *)a->y + at * size, out, (size_t)(count * size));
    }
}

/* `plane` is n * OC + oc. */
static void depthwise_plane(const depthwise_context *c, const depthwise_tile *tile, int64_t plane,
                            void *in, void *out)
{
    const talc_conv2d_problem *p = c->problem;
    const int64_t n = plane / p->OC, oc = plane % p->OC, ic = oc / (p->OC / p->C);
    const void *x = talc_cpu_at(p->dtype, c->arguments->x, (n * p->C + ic) * p->H * p->W);
    const void *w = talc_cpu_at(p->dtype, c->arguments->w, oc * p->KH * p->KW);
    for (int64_t first = 0; first < tile->rows; first += c->plan.band) {
        const int64_t rows = talc_smaller(c->plan.band, tile->rows - first);
        if (p->dtype == TALC_F32)
            band_sums_f32(c, tile, first, rows, x, w, in, out);
        else
            band_sums_f64(c, tile, first, rows, x, w, in, out);
        finish_band(c, tile, first, rows, plane, out);
    }
}

static void depthwise_piece(void *context, int64_t piece, int worker)
{
    const depthwise_context *c = context;
    const talc_conv2d_problem *p = c->problem;
    const depthwise_plan *plan = &c->plan;
    char *in = (char *)c->arguments->workspace + plan->offsets_bytes + (size_t)worker * plan->slice;
    char *out = in + plan->in * (int64_t)talc_dtype_size(p->dtype);

    const int64_t tiles = plan->row_blocks * plan->column_blocks, i = piece % tiles;
    depthwise_tile tile = { .row = i / plan->column_blocks * plan->rows,
                            .column = i % plan->column_blocks * plan->columns };
    tile.rows = talc_smaller(plan->rows, p->OH - tile.row);
    tile.columns = talc_smaller(plan->columns, p->OW - tile.column);
    const int64_t first = piece / tiles * plan->planes,
                  end = talc_smaller(first + plan->planes, p->N * p->OC);
    for (int64_t plane = first; plane < end; plane++)
        depthwise_plane(c, &tile, plane, in, out);
    if (c->streams)
        talc_cpu_stream_end();
}

// ---- The row ------------------------------------------------------------------------------------------------

const char *talc_cpu_conv2d_depthwise_refuses(const talc_conv2d_problem *p)
{
    if (p->direction != TALC_FORWARD)
        return "only the forward direction";
    if (p->groups != p->C)
        return "groups are not the input channels";
    if (p->padding_mode != TALC_PADDING_ZEROS)
        return "the padding is not zeros";
    if ((p->KH - 1) * p->dilation_h >= FARTHEST || (p->KW - 1) * p->dilation_w >= FARTHEST ||
        p->stride_h > FARTHEST || p->stride_w > FARTHEST)
        return "the dilated kernel or the stride is longer than 65536";
    return NULL;
}

size_t talc_cpu_conv2d_depthwise_workspace(const talc_device *device,
                                           const talc_conv2d_problem *problem, size_t limit)
{
    (void)device;
    const depthwise_plan plan = plan_of(problem);
    int64_t workers = talc_smaller(talc_cpu_threads(), plan.pieces);
    if (limit > plan.offsets_bytes)
        workers = talc_smaller(workers, (int64_t)((limit - plan.offsets_bytes) / plan.slice));
    return plan.offsets_bytes + plan.slice * (size_t)(workers > 1 ? workers : 1);
}

talc_status talc_cpu_conv2d_depthwise_run(talc_device *device, const talc_conv2d_problem *p,
                                          const talc_conv2d_arguments *arguments)
{
    (void)device;
    int64_t *offsets = arguments->workspace;
    const int64_t bytes = p->N * p->OC * p->OH * p->OW * (int64_t)talc_dtype_size(p->dtype);
    depthwise_context context = { p, arguments, plan_of(p), offsets, bytes >= STREAM_BYTES };
    const int64_t width = context.plan.width, in_row = context.plan.slots * width;
    for (int64_t kh = 0; kh < p->KH; kh++)
        for (int64_t kw = 0; kw < p->KW; kw++)
            offsets[kh * p->KW + kw] = kh * p->dilation_h * in_row +
                                       kw % context.plan.slots * width +
                                       kw * p->dilation_w / p->stride_w;
    const size_t slices =
        (arguments->workspace_bytes - context.plan.offsets_bytes) / context.plan.slice;
    return talc_cpu_parallel_limited(context.plan.pieces, (int)slices, depthwise_piece, &context);
}
