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
/// A task is a tile of one plane, whose input stays near in the caches. The part of x' that it reads
/// is copied to the worker's slice of the workspace with its columns sorted by their remainder
/// modulo stride_w. Then every tap reads adjacent elements for adjacent outputs, whatever the
/// stride, dilation and padding: tap t of output (oh, ow) stands at oh * row_step + ow + offset[t].
/// The microkernels (primitives/depthwise_microkernel.h) have the sums of a few rows in registers,
/// of outputs whose rows of x' are the same, dilation_h / gcd(stride_h, dilation_h) apart: each of
/// these is loaded once for all of them. Rows of padding are left out, unless a weight is not
/// finite.
///
/// dx is the same loop over dy: pixels that are stride_h and stride_w apart, a phase, meet the same
/// taps, and are a convolution at stride 1 with these, last first; phases of columns are joined
/// behind it. Columns around dy are multiplied as zeros; pixels that weights that are not finite
/// make NaN of them are summed again, by the formula. dw has a vector of sums for each of up to 12
/// taps, f64 adds them up after TERMS terms at most, and over the tiles and images of a split.
///
/// The form "rows" is all this. The form "columns" is for the common problem, a 3x3 kernel of
/// stride 1 without dilation, forward: it reads x itself, down columns of outputs whose sums stay in
/// registers (depthwise_loops.h); a weight over padding is multiplied by zero. Sums of y and dx are
/// in the data's type, taps in order. Tiles follow from the problem alone, so every number of
/// threads gives the same bits.
#include "backends/cpu/primitives/epilogue.h"
#include "backends/cpu/conv2d/algorithms.h"
#include "backends/cpu/conv2d/split_k.h"
#include "backends/cpu/primitives/element.h"
#include "backends/cpu/primitives/processor.h"
#include "backends/cpu/primitives/short_copy.h"
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
    TASKS = 16,              /* where there are planes enough */
    TERMS = 256,             /* of dw that a lane sums in the data's type */
    PREFETCH_BYTES = 4 << 10,
    CACHE_LINE = 64,     /* of the cache, and of the widest vector register */
    COPIED_COLUMNS = 32, /* elements of a row of copied columns, at least VECTOR + 2 */
    VECTOR = 16,         /* f32 elements of a line */
};

/* What one pass reads and writes along one axis: output o sums taps k of position
 * o * stride - pad + k * dilation. */
typedef struct depthwise_axis {
    int64_t in, out; /* extents */
    int64_t taps, stride, dilation, pad;
    int64_t w, w_step; /* the first tap's weight, and how far the next one stands, along the axis */
    int64_t spread;    /* of all phases, how far their paddings differ */
} depthwise_axis;

typedef struct depthwise_pass {
    depthwise_axis h, w;
} depthwise_pass;

typedef struct depthwise_plan {
    int64_t rows, columns; /* outputs of a tile */
    int64_t band;          /* rows of outputs at a time */
    bool by_columns;       /* the form */
    bool ahead;            /* the input does not stay in the caches, and is prefetched */
    int64_t row_blocks, column_blocks;
    int64_t planes; /* output planes of a task; more than 1 only when a tile is a whole plane */
    int64_t tasks;
    int64_t slots;          /* different remainders of kw * dilation_w modulo stride_w */
    int64_t width;          /* elements that a slot of an input row has */
    int64_t in;             /* elements of the buffer of a worker's input */
    int64_t pitch;          /* elements of a row of its band */
    size_t in_bytes, slice; /* of a worker's slice */
    size_t shared;          /* the taps' offsets, behind what dw has for its splits */
    talc_cpu_split_k split_k;
} depthwise_plan;

static int64_t rounded(int64_t count, int64_t step)
{
    return talc_ceil_div(count, step) * step;
}

// ---- Passes -------------------------------------------------------------------------------------

/* A single tap has no dilation, which may be of any size. */
static depthwise_axis axis_of(int64_t in, int64_t out, int64_t taps, int64_t stride,
                              int64_t dilation, int64_t pad)
{
    return (depthwise_axis){ in, out, taps, stride, taps == 1 ? 1 : dilation, pad, 0, 1, 0 };
}

static depthwise_pass forward_of(const talc_conv2d_problem *p)
{
    return (depthwise_pass){
        axis_of(p->H, p->OH, p->KH, p->stride_h, p->dilation_h, p->pad_top),
        axis_of(p->W, p->OW, p->KW, p->stride_w, p->dilation_w, p->pad_left),
    };
}

/* Phases of dx that have pixels. */
static int64_t phases_of(const depthwise_axis *forward)
{
    return talc_smaller(forward->stride, forward->in);
}

/* Pixels phase, phase + stride, ... of dx: sums over dy at stride 1, last tap first. */
static depthwise_axis phase_of(const depthwise_axis *forward, int64_t phase)
{
    const int64_t stride = forward->stride, common = talc_gcd(stride, forward->dilation);
    const int64_t period = stride / common, different = talc_smaller(forward->taps, period);
    int64_t k = 0;
    while (k < different && (phase + forward->pad - k * forward->dilation) % stride != 0)
        k++;
    depthwise_axis axis = { .in = forward->out,
                            .out = talc_ceil_div(forward->in - phase, stride),
                            .stride = 1,
                            .dilation = forward->dilation / common,
                            .w_step = -period };
    if (k < different) {
        axis.taps = (forward->taps - 1 - k) / period + 1;
        axis.w = k + (axis.taps - 1) * period;
        axis.pad = (axis.w * forward->dilation - phase - forward->pad) / stride;
    }
    return axis;
}

/* What holds for the input of every pass: of dx the largest extents of all phases. */
static depthwise_axis window_of(const depthwise_axis *forward, bool to_input)
{
    if (!to_input)
        return *forward;
    depthwise_axis axis = phase_of(forward, 0);
    int64_t low = axis.pad, high = axis.pad;
    bool met = axis.taps > 0;
    for (int64_t phase = 1; phase < phases_of(forward); phase++) {
        const depthwise_axis one = phase_of(forward, phase);
        if (one.taps == 0)
            continue;
        axis.taps = talc_larger(axis.taps, one.taps);
        low = met ? talc_smaller(low, one.pad) : one.pad;
        high = met ? talc_larger(high, one.pad) : one.pad;
        met = true;
    }
    axis.pad = high;
    axis.spread = high - low;
    return axis;
}

/* Padding on the left in columns of a slot. */
static int64_t slot_pad(const depthwise_axis *w)
{
    return w->pad > 0 ? talc_ceil_div(w->pad, w->stride) : -(-w->pad / w->stride);
}

/* Columns that a row of copied input has before those that are read, so that its first pixel stands
 * at the start of a vector. */
static int64_t lead_of(const depthwise_axis *w, int64_t column)
{
    return ((column - slot_pad(w)) % VECTOR + VECTOR) % VECTOR;
}

/* Input rows under `rows` output rows. */
static int64_t input_rows(const depthwise_axis *h, int64_t rows)
{
    return (rows - 1) * h->stride + (h->taps - 1) * h->dilation + 1 + h->spread;
}

/* How many different remainders kw * dilation_w has modulo stride_w: they repeat with this
 * period. */
static int64_t remainders(const depthwise_axis *w)
{
    return w->stride / talc_gcd(w->stride, w->dilation);
}

/* Whether phases of dx are joined, or filters added up, behind the passes. */
static bool is_joined(const talc_conv2d_problem *p)
{
    return p->direction == TALC_GRAD_INPUT && (p->stride_w > 1 || p->OC > p->C);
}

static depthwise_plan plan_of(const talc_conv2d_problem *p, bool by_columns, size_t limit)
{
    const int64_t size = (int64_t)talc_dtype_size(p->dtype);
    const bool to_input = p->direction == TALC_GRAD_INPUT;
    const depthwise_pass forward = forward_of(p);
    const depthwise_axis h = window_of(&forward.h, to_input), w = window_of(&forward.w, to_input);
    const int64_t bands = is_joined(p) ? phases_of(&forward.w) : 1;
    depthwise_plan plan = { .by_columns = by_columns,
                            .column_blocks = talc_ceil_div(w.out * bands, TILE_COLUMNS) };
    plan.columns = talc_ceil_div(w.out, plan.column_blocks);
    plan.column_blocks = talc_ceil_div(w.out, plan.columns);
    plan.slots = talc_smaller(w.taps, remainders(&w));
    plan.width = rounded(plan.columns, VECTOR) +
                 rounded((w.taps - 1) * w.dilation / w.stride + w.spread + VECTOR, VECTOR);
    plan.pitch = rounded(plan.columns, VECTOR);

    const int64_t row = talc_larger(h.stride * plan.slots * plan.width, bands * plan.pitch) * size;
    const int64_t halo = (input_rows(&h, 1) - h.stride) * plan.slots * plan.width * size;
    const int64_t fitting = (TILE_BYTES - halo) / row;
    plan.row_blocks = talc_ceil_div(h.out, fitting < 1 ? 1 : fitting);
    plan.rows = talc_ceil_div(h.out, plan.row_blocks);
    plan.row_blocks = talc_ceil_div(h.out, plan.rows);

    plan.ahead = p->N * p->OC * h.in * w.in * size >= TALC_CPU_STREAM_BYTES;
    const int64_t tiles = plan.row_blocks * plan.column_blocks;
    const int64_t planes = p->N * (to_input ? p->C : p->OC);
    plan.planes =
        tiles > 1 ? 1
                  : talc_smaller(TASK_OUTPUTS / (h.out * w.out) + 1, talc_ceil_div(planes, TASKS));
    plan.tasks = talc_ceil_div(planes, plan.planes) * tiles;

    plan.in = rounded(input_rows(&h, plan.rows) * plan.slots * plan.width, VECTOR);
    plan.band = p->direction == TALC_GRAD_WEIGHT || is_joined(p)
                    ? plan.rows
                    : talc_smaller(plan.rows, rounded(BAND_BYTES / (plan.columns * size) + 1, 28));
    if (by_columns)
        plan.in = (plan.band + 3) * COPIED_COLUMNS; /* a row of zeros, copied columns */
    plan.in_bytes = (size_t)(plan.in * size);
    plan.slice = plan.in_bytes + (size_t)(bands * plan.band * plan.pitch * size);
    plan.shared = (size_t)rounded(w.taps, 8) * sizeof(int64_t);
    if (p->direction == TALC_GRAD_WEIGHT) {
        const size_t taps = (size_t)rounded(p->KH * p->KW, 8) * sizeof(double);
        plan.split_k = talc_cpu_split_k_of(p, p->OC, p->N * tiles, limit);
        plan.tasks = plan.split_k.splits * p->OC;
        plan.shared = taps + talc_cpu_split_k_bytes(&plan.split_k);
        plan.slice += taps;
    }
    return plan;
}

// ---- One tile -----------------------------------------------------------------------------------

/* One tile: outputs first_row .., first_column .. of an output plane, or of every phase of dx. */
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
    depthwise_pass forward, window;
    const talc_cpu_kernels *kernels;
    const int64_t *offsets; /* of a row's taps; for dw, of all */
    char *slices;
    depthwise_stores stores;
    int64_t apart, shift; /* of outputs that share rows: how far they are, and their first rows */
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
#define EVEN(a, b)                                                                                 \
    __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)
#define ODD(a, b)                                                                                  \
    __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31)
#include "backends/cpu/conv2d/depthwise_loops.h"

#define real           double
#define NAME(x)        x##_f64
#define ZERO_BEFORE(v) __builtin_shufflevector(v, (vector){ 0 }, 8, 0, 1, 2, 3, 4, 5, 6)
#define ZERO_AFTER(v)  __builtin_shufflevector(v, (vector){ 0 }, 1, 2, 3, 4, 5, 6, 7, 8)
#define EVEN(a, b)     __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14)
#define ODD(a, b)      __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15)
#include "backends/cpu/conv2d/depthwise_loops.h"

/* Tile i of a plane. */
static depthwise_tile tile_of(const depthwise_context *c, int64_t i)
{
    const depthwise_plan *plan = &c->plan;
    depthwise_tile tile = { .row = i / plan->column_blocks * plan->rows,
                            .column = i % plan->column_blocks * plan->columns };
    tile.rows = talc_smaller(plan->rows, c->window.h.out - tile.row);
    tile.columns = talc_smaller(plan->columns, c->window.w.out - tile.column);
    return tile;
}

/* The element of a plane of a tensor. */
static void *at_plane(talc_dtype dtype, const void *tensor, int64_t plane, int64_t elements)
{
    return (char *)(uintptr_t)tensor + plane * elements * (int64_t)talc_dtype_size(dtype);
}

static bool is_finite(talc_dtype dtype, const void *w, int64_t count)
{
    double zeros = 0;
    for (int64_t i = 0; i < count; i++)
        zeros += 0 * talc_cpu_load(dtype, w, i);
    return zeros == 0;
}

/* A worker's copy of the part of a plane that a tile reads. */
typedef struct depthwise_copy {
    char *rows;
    const void *plane; /* whose first `copied` rows it has */
    int64_t copied;
    bool zeroed; /* the padding is there, of another plane */
} depthwise_copy;

static void copy_rows(const depthwise_context *c, const depthwise_tile *tile, const void *plane,
                      int64_t rows, depthwise_copy *copy)
{
    if (copy->plane != plane) {
        copy->zeroed = copy->plane != NULL;
        copy->plane = plane;
        copy->copied = 0;
    }
    if (rows > copy->copied) {
        TALC_CPU_CALL(c->problem->dtype, copy_input,
                      (&c->window, &c->plan, tile, copy->copied, rows, plane, copy->zeroed,
                       (void *)copy->rows));
        copy->copied = rows;
    }
}

/* Rows first .. first + rows - 1 of a tile of a pass, from a plane of its input and one filter. Each
 * input row is copied just before it is needed, so that reading from memory and computing overlap.
 * `inside`: rows of padding are left out. */
static void sum_band(const depthwise_context *c, const depthwise_pass *pass,
                     const depthwise_tile *tile, int64_t first, int64_t rows, const void *plane,
                     const void *w, bool inside, depthwise_copy *copy,
                     talc_cpu_depthwise_sums *sums)
{
    const talc_conv2d_problem *p = c->problem;
    const depthwise_axis *h = &pass->h;
    const int64_t size = (int64_t)talc_dtype_size(p->dtype);
    const int64_t row = c->plan.slots * c->plan.width;
    const int64_t apart = c->apart;
    const int64_t column = lead_of(&c->window.w, tile->column) + c->window.w.pad - pass->w.pad;
    const char *x = copy->rows + ((c->window.h.pad - h->pad) * row + column) * size;
    char *y = sums->y;
    const int64_t y_step = sums->y_step;
    if (c->plan.by_columns) {
        TALC_CPU_CALL(
            p->dtype, band_3x3,
            (c, pass, tile, first, rows, plane, w, (void *)copy->rows, (void *)y, y_step));
        return;
    }
    sums->shift = c->shift;
    sums->KH = h->taps;
    sums->KW = pass->w.taps;
    sums->offsets = c->offsets;
    sums->w = (const char *)w + (h->w * p->KW + pass->w.w) * size;
    sums->w_row = h->w_step * p->KW;
    sums->w_column = pass->w.w_step;
    sums->w_shift = sums->shift * sums->w_row;
    sums->x_step = h->dilation * row;
    sums->y_step = apart * y_step;
    for (int64_t r = first, end = first + rows, next; r < end; r = next) {
        next = talc_smaller(end, r + c->kernels->depthwise_rows * apart);
        copy_rows(c, tile, plane, input_rows(&c->window.h, next), copy);
        for (int64_t i = r; i < talc_smaller(r + apart, next); i++) {
            sums->outputs = talc_ceil_div(next - i, apart);
            sums->x = x + i * h->stride * row * size;
            sums->y = y + (i - first) * y_step * size;
            sums->rows = (talc_range){ 0, (sums->outputs - 1) * sums->shift + h->taps };
            if (inside)
                sums->rows = talc_window_inside((tile->row + i) * h->stride - h->pad, h->dilation,
                                                sums->rows.hi, h->in);
            c->kernels->depthwise_sums(sums);
        }
    }
}

// ---- Forward ------------------------------------------------------------------------------------

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
static void forward_tile(const depthwise_context *c, const depthwise_tile *tile, int64_t plane,
                         depthwise_copy *copy, char *band)
{
    const talc_conv2d_problem *p = c->problem;
    const int64_t oc = plane % p->OC, M = p->OC / p->C;
    const void *x = at_plane(p->dtype, c->arguments->x, plane / M, p->H * p->W);
    const void *w = at_plane(p->dtype, c->arguments->w, oc, p->KH * p->KW);
    const bool inside = !c->plan.by_columns && is_finite(p->dtype, w, p->KH * p->KW);
    const int64_t size = (int64_t)talc_dtype_size(p->dtype);
    for (int64_t first = 0; first < tile->rows; first += c->plan.band) {
        const int64_t rows = talc_smaller(c->plan.band, tile->rows - first);
        const int64_t at = (plane * p->OH + tile->row + first) * p->OW + tile->column;
        const bool in_band = c->stores == STREAM_BAND;
        const int64_t step = in_band ? tile->columns : p->OW;
        char *out = in_band ? band : (char *)c->arguments->y + at * size;
        talc_cpu_depthwise_sums sums = { .columns = tile->columns, .y = out, .y_step = step };
        sum_band(c, &c->forward, tile, first, rows, x, w, inside, copy, &sums);
        finish_band(c, tile, first, rows, plane, out, step);
    }
}

// ---- Input gradient -----------------------------------------------------------------------------

/* Makes what is NaN in `rows` rows of dx again. */
static void mend_rows(const depthwise_context *c, int64_t plane, int64_t row, int64_t rows,
                      int64_t column, int64_t columns)
{
    const talc_conv2d_problem *p = c->problem;
    void *dx = at_plane(p->dtype, c->arguments->dx, plane, p->H * p->W);
    for (int64_t ih = row; ih < row + rows; ih++)
        for (int64_t iw = column; iw < column + columns; iw++)
            if (isnan(talc_cpu_load(p->dtype, dx, ih * p->W + iw)))
                talc_cpu_store(p->dtype, dx, ih * p->W + iw,
                               talc_cpu_conv2d_grad_pixel(p, c->arguments, plane, ih, iw));
}

/* `plane` is n * C + channel. */
static void input_tile(const depthwise_context *c, const depthwise_tile *tile, int64_t plane,
                       depthwise_copy *copy, char *bands)
{
    const talc_conv2d_problem *p = c->problem;
    const int64_t size = (int64_t)talc_dtype_size(p->dtype), M = p->OC / p->C;
    const int64_t w_phases = phases_of(&c->forward.w), pitch = c->plan.pitch;
    const bool joined = is_joined(p);
    const void *w = at_plane(p->dtype, c->arguments->w, plane % p->C, M * p->KH * p->KW);
    const int64_t column = tile->column * p->stride_w;
    const int64_t columns = talc_smaller(tile->columns * p->stride_w, p->W - column);
    char *dx = at_plane(p->dtype, c->arguments->dx, plane, p->H * p->W);
    dx += column * size;
    for (int64_t a = 0; a < phases_of(&c->forward.h); a++) {
        depthwise_pass pass = { .h = phase_of(&c->forward.h, a) };
        const int64_t rows = talc_smaller(tile->rows, pass.h.out - tile->row);
        char *to = dx + (tile->row * p->stride_h + a) * p->W * size;
        for (int64_t b = 0; b < w_phases && rows > 0; b++) {
            pass.w = phase_of(&c->forward.w, b);
            for (int64_t m = 0; m < M; m++) {
                const void *dy = at_plane(p->dtype, c->arguments->dy, plane * M + m, p->OH * p->OW);
                for (int64_t first = 0; first < rows; first += c->plan.band) {
                    char *y = joined ? bands + b * tile->rows * pitch * size
                                     : to + first * p->stride_h * p->W * size;
                    talc_cpu_depthwise_sums sums = {
                        .columns = joined ? rounded(tile->columns, VECTOR) : tile->columns,
                        .y = y,
                        .y_step = joined ? pitch : p->stride_h * p->W,
                        .add = m > 0,
                    };
                    sum_band(c, &pass, tile, first, talc_smaller(c->plan.band, rows - first), dy,
                             at_plane(p->dtype, w, m, p->KH * p->KW), true, copy, &sums);
                }
            }
        }
        for (int64_t r = 0; r < rows && joined; r++)
            TALC_CPU_CALL(p->dtype, join_phases,
                          (w_phases, columns, (const void *)(bands + r * pitch * size),
                           tile->rows * pitch, (void *)(to + r * p->stride_h * p->W * size)));
    }
    if (!is_finite(p->dtype, w, M * p->KH * p->KW)) {
        const int64_t row = tile->row * p->stride_h;
        mend_rows(c, plane, row, talc_smaller(tile->rows * p->stride_h, p->H - row), column,
                  columns);
    }
}

static void tile_task(void *context, int64_t task, int worker)
{
    const depthwise_context *c = context;
    const talc_conv2d_problem *p = c->problem;
    const depthwise_plan *plan = &c->plan;
    const bool forward = p->direction == TALC_FORWARD;
    char *in = c->slices + (size_t)worker * plan->slice, *band = in + plan->in_bytes;
    depthwise_copy copy = { .rows = in };
    const int64_t tiles = plan->row_blocks * plan->column_blocks;
    const depthwise_tile tile = tile_of(c, task % tiles);
    const int64_t first = task / tiles * plan->planes;
    const int64_t end = talc_smaller(first + plan->planes, p->N * (forward ? p->OC : p->C));
    for (int64_t plane = first; plane < end; plane++)
        (forward ? forward_tile : input_tile)(c, &tile, plane, &copy, band);
    if (c->stores != IN_PLACE)
        talc_cpu_stream_end();
}

// ---- Weight gradient ----------------------------------------------------------------------------

/* Adds one tile's products to the sums of all taps. */
static void weight_tile(const depthwise_context *c, const depthwise_tile *tile, const void *x,
                        const void *dy, char *in, char *band, double *taps)
{
    const talc_conv2d_problem *p = c->problem;
    const depthwise_plan *plan = &c->plan;
    const int64_t size = (int64_t)talc_dtype_size(p->dtype), count = p->KH * p->KW;
    depthwise_copy copy = { .rows = in };
    copy_rows(c, tile, x, input_rows(&c->window.h, tile->rows), &copy);
    in += lead_of(&c->window.w, tile->column) * size;
    for (int64_t r = 0; r < tile->rows; r++)
        talc_cpu_short_copy(band + r * plan->pitch * size,
                            (const char *)dy + ((tile->row + r) * p->OW + tile->column) * size,
                            (size_t)(tile->columns * size));
    talc_cpu_depthwise_products t = { .columns = tile->columns, .dy_step = plan->pitch };
    t.x_step = p->stride_h * plan->slots * plan->width;
    const int64_t fitting = TERMS / talc_ceil_div(tile->columns, c->kernels->lanes);
    const int64_t step = talc_even(tile->rows, fitting);
    const int64_t width = talc_even(count, TALC_CPU_DEPTHWISE_TAPS);
    for (int64_t r = 0; r < tile->rows; r += step) {
        t.rows = talc_smaller(step, tile->rows - r);
        t.x = in + r * t.x_step * size;
        t.dy = band + r * t.dy_step * size;
        for (int64_t tap = 0; tap < count; tap += width) {
            t.offsets = c->offsets + tap;
            t.sums = taps + tap;
            c->kernels->depthwise_products((int)talc_smaller(width, count - tap), &t);
        }
    }
}

static void weight_task(void *context, int64_t task, int worker)
{
    const depthwise_context *c = context;
    const talc_conv2d_problem *p = c->problem;
    const depthwise_plan *plan = &c->plan;
    const int64_t M = p->OC / p->C, count = p->KH * p->KW;
    const int64_t oc = task % p->OC, split = task / p->OC;
    const int64_t tiles = plan->row_blocks * plan->column_blocks;
    const talc_range terms = talc_cpu_split_k_terms(&plan->split_k, split);
    double *taps = (double *)(void *)(c->slices + (size_t)worker * plan->slice);
    char *in = (char *)(taps + rounded(count, 8)), *band = in + plan->in_bytes;
    memset(taps, 0, (size_t)count * sizeof *taps);
    for (int64_t term = terms.lo; term < terms.hi; term++) {
        const int64_t n = term / tiles;
        const depthwise_tile tile = tile_of(c, term % tiles);
        weight_tile(c, &tile, at_plane(p->dtype, c->arguments->x, n * p->C + oc / M, p->H * p->W),
                    at_plane(p->dtype, c->arguments->dy, n * p->OC + oc, p->OH * p->OW), in, band,
                    taps);
    }
    void *dw = talc_cpu_split_k_at(&plan->split_k, p, c->arguments, split, oc * count);
    for (int64_t tap = 0; tap < count; tap++)
        talc_cpu_store(p->dtype, dw, tap, taps[tap]);
}

// ---- The forms ----------------------------------------------------------------------------------

static const char *plan_form(const talc_conv2d_problem *p, bool by_columns, size_t limit,
                             talc_plan *plan)
{
    const char *far = talc_cpu_conv2d_reaches_far(p);
    if (far != NULL)
        return far;
    const depthwise_plan planned = plan_of(p, by_columns, limit);
    plan->workspace = talc_cpu_workspace(planned.tasks, planned.shared, planned.slice, limit);
    talc_plan_store(plan, &planned, sizeof planned);
    return NULL;
}

static const char *refusal_of(const talc_conv2d_problem *p)
{
    if (talc_cpu_refuses(p->dtype) != NULL)
        return talc_cpu_refuses(p->dtype);
    if (p->groups != p->C)
        return "groups is not the number of input channels";
    return p->padding_mode != TALC_PADDING_ZEROS ? "the padding is not zeros" : NULL;
}

static talc_status run(const talc_conv2d_problem *p, const talc_plan *plan,
                       const talc_conv2d_arguments *a)
{
    const depthwise_plan *planned = talc_plan_data(plan);
    const bool to_weight = p->direction == TALC_GRAD_WEIGHT;
    char *workspace = a->base.workspace;
    int64_t *offsets = (int64_t *)(void *)(workspace + talc_cpu_split_k_bytes(&planned->split_k));
    const depthwise_pass forward = forward_of(p);
    const bool to_input = p->direction == TALC_GRAD_INPUT;
    const depthwise_pass window = { window_of(&forward.h, to_input),
                                    window_of(&forward.w, to_input) };
    const int64_t common = talc_gcd(window.h.stride, window.h.dilation);
    depthwise_context context = {
        p,
        a,
        *planned,
        forward,
        window,
        talc_cpu_kernels_of(p->dtype),
        offsets,
        workspace + planned->shared,
        p->direction == TALC_FORWARD ? stores_of(p, a->y) : IN_PLACE,
        window.h.dilation / common,
        window.h.stride / common,
    };
    const depthwise_axis *w = &window.w;
    const int64_t row = window.h.dilation * planned->slots * planned->width, pad = slot_pad(w);
    for (int64_t kh = 0; kh < (to_weight ? p->KH : 1); kh++)
        for (int64_t kw = 0; kw < w->taps; kw++)
            offsets[kh * w->taps + kw] = kh * row + kw % planned->slots * planned->width +
                                         (kw * w->dilation - w->pad + pad * w->stride) / w->stride;
    const int slices = (int)((plan->workspace - planned->shared) / planned->slice);
    const talc_status status = talc_cpu_parallel_limited(
        planned->tasks, slices, to_weight ? weight_task : tile_task, &context);
    return status == TALC_OK && to_weight ? talc_cpu_split_k_sum(&planned->split_k, p, a) : status;
}

const char *talc_cpu_conv2d_depthwise_columns_plan(const talc_device *device, const void *problem,
                                                   size_t limit, talc_plan *plan)
{
    (void)device;
    const talc_conv2d_problem *p = problem;
    if (p->direction == TALC_GRAD_WEIGHT)
        return "it has no weight gradient";
    if (refusal_of(p) != NULL)
        return refusal_of(p);
    if (p->KH != 3 || p->KW != 3)
        return "the kernel is not 3x3";
    if (p->stride_h != 1 || p->stride_w != 1)
        return "the stride is not 1";
    if (p->dilation_h != 1 || p->dilation_w != 1)
        return "the dilation is not 1";
    if (p->direction == TALC_GRAD_INPUT && p->OC > p->C)
        return "an input channel has several filters";
    return plan_form(p, true, limit, plan);
}

talc_status talc_cpu_conv2d_depthwise_columns_run(talc_device *device, const void *problem,
                                                  const talc_plan *plan, const void *arguments)
{
    (void)device;
    return run(problem, plan, arguments);
}

const char *talc_cpu_conv2d_depthwise_rows_plan(const talc_device *device, const void *problem,
                                                size_t limit, talc_plan *plan)
{
    (void)device;
    const char *refusal = refusal_of(problem);
    return refusal != NULL ? refusal : plan_form(problem, false, limit, plan);
}

talc_status talc_cpu_conv2d_depthwise_rows_run(talc_device *device, const void *problem,
                                               const talc_plan *plan, const void *arguments)
{
    (void)device;
    return run(problem, plan, arguments);
}
