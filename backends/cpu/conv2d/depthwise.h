/// What the files of `depthwise` share: passes, tiles, and copies of what a tile reads. Private to
/// backends/cpu.
///
/// A pass is a convolution of planes with a stride, a dilation and padding along each axis: the
/// problem itself, whose x dw reads too, or a phase of dx, over dy. depthwise.c says how they are
/// computed.
#ifndef TALC_BACKENDS_CPU_CONV2D_DEPTHWISE_H
#define TALC_BACKENDS_CPU_CONV2D_DEPTHWISE_H

#include "backends/cpu/conv2d/split_k.h"
#include "backends/cpu/primitives/element.h"
#include "backends/cpu/primitives/processor.h"
#include "tensor/extent.h"

enum {
    TALC_CPU_DEPTHWISE_LINE = 64, ///< bytes of the cache's lines, and of the widest vector register
    TALC_CPU_DEPTHWISE_VECTOR = 16, ///< f32 elements of a line
    TALC_CPU_DEPTHWISE_COPIED = 32 ///< elements of a row of copied columns, at least a vector and 2
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

/* One tile: outputs first_row .., first_column .. of an output plane, or of every phase of dx. */
typedef struct depthwise_tile {
    int64_t row, column;
    int64_t rows, columns;
} depthwise_tile;

/* How outputs get to y. One larger than the caches is written with non-temporal stores: a cache
 * line at a time where every row of y is whole lines and there is no epilogue, else from a band of
 * rows that stays in cache. */
typedef enum { IN_PLACE, STREAM_BAND, STREAM_CACHE_LINES } depthwise_stores;

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

/* A worker's copy of the part of a plane that a tile reads. */
typedef struct depthwise_copy {
    char *rows;
    const void *plane; /* whose first `copied` rows it has */
    int64_t copied;
    bool zeroed; /* the padding is there, of another plane */
} depthwise_copy;

/* Phases of dx that have pixels. */
static inline int64_t phases_of(const depthwise_axis *forward)
{
    return talc_smaller(forward->stride, forward->in);
}

/* Padding on the left in columns of a slot. */
static inline int64_t slot_pad(const depthwise_axis *w)
{
    return w->pad > 0 ? talc_ceil_div(w->pad, w->stride) : -(-w->pad / w->stride);
}

/* Columns that a row of copied input has before those that are read, so that its first pixel stands
 * at the start of a vector. */
static inline int64_t lead_of(const depthwise_axis *w, int64_t column)
{
    return ((column - slot_pad(w)) % TALC_CPU_DEPTHWISE_VECTOR + TALC_CPU_DEPTHWISE_VECTOR) %
           TALC_CPU_DEPTHWISE_VECTOR;
}

/* Input rows under `rows` output rows. */
static inline int64_t input_rows(const depthwise_axis *h, int64_t rows)
{
    return (rows - 1) * h->stride + (h->taps - 1) * h->dilation + 1 + h->spread;
}

/* Tile i of a plane. */
static inline depthwise_tile tile_of(const depthwise_context *c, int64_t i)
{
    const depthwise_plan *plan = &c->plan;
    depthwise_tile tile = { .row = i / plan->column_blocks * plan->rows,
                            .column = i % plan->column_blocks * plan->columns };
    tile.rows = talc_smaller(plan->rows, c->window.h.out - tile.row);
    tile.columns = talc_smaller(plan->columns, c->window.w.out - tile.column);
    return tile;
}

/* The pass of the problem itself. */
depthwise_pass talc_cpu_depthwise_forward(const talc_conv2d_problem *problem);

/* Pixels phase, phase + stride, ... of dx: sums over dy at stride 1, last tap first. */
depthwise_axis talc_cpu_depthwise_phase(const depthwise_axis *forward, int64_t phase);

/* What holds for the input of every pass: of dx the largest extents of all phases. */
depthwise_axis talc_cpu_depthwise_window(const depthwise_axis *forward, bool to_input);

/* Whether phases of dx are joined, or filters added up, behind the passes. */
bool talc_cpu_depthwise_joins(const talc_conv2d_problem *problem);

depthwise_plan talc_cpu_depthwise_plan_of(const talc_conv2d_problem *problem, bool by_columns,
                                          size_t limit);

/* Whether all of some weights are. */
bool talc_cpu_depthwise_is_finite(talc_dtype dtype, const void *w, int64_t count);

/* Sees to it that the first `rows` rows of what a tile reads of a plane are in the copy. */
void talc_cpu_depthwise_copy_rows(const depthwise_context *context, const depthwise_tile *tile,
                                  const void *plane, int64_t rows, depthwise_copy *copy);

/* Rows first .. first + rows - 1 of a tile of a pass, from a plane of its input and one filter, to
 * what `sums` says. `inside`: rows of padding are left out. */
void talc_cpu_depthwise_sum_band(const depthwise_context *context, const depthwise_pass *pass,
                                 const depthwise_tile *tile, int64_t first, int64_t rows,
                                 const void *plane, const void *w, bool inside,
                                 depthwise_copy *copy, talc_cpu_depthwise_sums *sums);

/* A tile of all phases of a plane of dx, n * C + channel. */
void talc_cpu_depthwise_input_tile(const depthwise_context *context, const depthwise_tile *tile,
                                   int64_t plane, depthwise_copy *copy, char *bands);

/* A filter over a split of the tiles of all images. */
void talc_cpu_depthwise_weight_task(void *context, int64_t task, int worker);

#endif
