/// 1x1 convolution as a matrix product that reads the images where they stand. For each image n and
/// group g,
///
///     y[n, g, oc, j] = sum over ic of w[g, oc, ic] * x[n, g, ic, j],        j = oh * OW + ow
///     dx[n, g, ic, j] = sum over oc of w[g, oc, ic] * dy[n, g, oc, j]
///     dw[g, oc, ic] = sum over n, j of dy[n, g, oc, j] * x[n, g, ic, j]
///
/// since an image's planes [C/groups, H*W] are the matrix already. One operand gives the rows of
/// the microkernel's tiles (microkernel.h), which reads it in place; the other gives their columns,
/// and is packed into panels as wide as a tile. Columns are pixels, of dw input channels. Where
/// channels, of dw output channels, fill the vectors better, the operands are swapped: a tile's
/// sums are then transposed on their way to the result, and y's weights are packed once for all
/// images and kept with w for calls to come. A task is a block of rows times a block of columns, of
/// dw for a split of the images and pixels (split_k.h); y's bias, residual and activation follow
/// while it is in cache.
///
/// Sums are in the data's type, of y and dx in the order of channels, whatever the blocks. These
/// follow from the problem, the workspace limit and the cache: every number of threads gives the
/// same bits, another cache or limit may give others of dw.
///
/// With a stride the workspace has the pixels of x or dx that windows meet, as images of OH x OW, a
/// few at a time.
///
/// Source: Goto and van de Geijn, "Anatomy of high-performance matrix multiplication", ACM TOMS
/// 34(3), 2008.
#include "backends/cpu/conv2d/pointwise.h"

#include "backends/cpu/conv2d/algorithms.h"
#include "backends/cpu/device/threads.h"
#include "backends/cpu/primitives/epilogue.h"
#include "backends/cpu/primitives/short_copy.h"
#include "backends/cpu/primitives/target.h"
#include "backends/cpu/primitives/transpose.h"

#include <string.h>

enum {
    COPIED = 48 /* bytes at a time, of which panels are multiples */,
    ROUND = 128 /* terms */,
    PACKED = 8 /* panels */,
    TRANSPOSED = 64 /* output channels */,
    COMPACT_SHARE = 8 /* of the workspace limit */,
    MAX_COMPACT = 16 << 20 /* bytes */
};

/* The rows or the columns of the products: element i of term k stands at i*stride + k*term_stride;
 * images and groups, of w groups alone, are plane_stride elements apart. */
typedef struct operand {
    const void *at;
    int64_t stride, term_stride, plane_stride;
} operand;

typedef struct product_context {
    const talc_conv2d_problem *problem;
    const talc_conv2d_arguments *arguments;
    const pointwise_plan *plan;
    const talc_cpu_kernels *kernels;
    operand row, column;
    char *packed;     /* weights, [group][panel][term][column]; NULL: tasks pack their columns */
    char *transposed; /* weights, [group][row][term]; NULL: read where they stand */
    talc_cpu_term *terms;
    char *slices;
} product_context;

/* The operands of y or dx are w and the image, of dw dy and x. */
static void set_operands(product_context *c)
{
    const talc_conv2d_problem *p = c->problem;
    const talc_conv2d_arguments *a = c->arguments;
    const int64_t IC = p->C / p->groups, OC = p->OC / p->groups, P = p->OH * p->OW;
    operand channels = { a->w, IC, 1, OC * IC }, others = { a->x, 1, P, IC * P };
    if (p->direction == TALC_GRAD_INPUT) {
        channels = c->transposed != NULL ? (operand){ c->transposed, OC, 1, OC * IC }
                                         : (operand){ a->w, 1, IC, OC * IC };
        others = (operand){ a->dy, 1, P, OC * P };
    } else if (is_weight(p)) {
        channels = (operand){ a->dy, P, 1, OC * P };
        others = (operand){ a->x, P, 1, IC * P };
    }
    c->row = c->plan->swapped ? others : channels;
    c->column = c->plan->swapped ? channels : others;
}

static int64_t tasks_of(const talc_conv2d_problem *p, const pointwise_plan *plan)
{
    return (is_weight(p) ? plan->split_k.splits : p->N) * p->groups * plan->column_blocks *
           plan->row_blocks;
}

// ---- Panels -------------------------------------------------------------------------------------

/* Packs `count` terms of `columns` columns into panels of `width`. Several whole panels go in one
 * pass, to read longer runs. A partial panel is filled up with zeros. */
#define PACK(constant, suffix, T, A)                                                               \
    TALC_TARGET_CLONES                                                                             \
    static void pack_##suffix(const T *from, int64_t stride, int64_t term_stride, int64_t columns, \
                              int64_t count, int64_t width, T *to)                                 \
    {                                                                                              \
        if (stride == 1 && columns % width == 0) {                                                 \
            for (int64_t k = 0; k < count; k++, from += term_stride, to += width)                  \
                for (int64_t i = 0; i < columns; i += width)                                       \
                    for (int64_t j = 0; j < width; j += COPIED / (int64_t)sizeof(T))               \
                        memcpy(to + i * count + j, from + i + j, COPIED);                          \
            return;                                                                                \
        }                                                                                          \
        if (columns < width)                                                                       \
            memset(to, 0, (size_t)(count * width) * sizeof(T));                                    \
        if (stride != 1)                                                                           \
            talc_cpu_transpose_##suffix(columns, count, from, stride, to, width);                  \
        for (int64_t k = 0; stride == 1 && k < count; k++, from += term_stride, to += width)       \
            talc_cpu_short_copy((char *)to, (const char *)from, (size_t)columns * sizeof(T));      \
    }

TALC_CPU_FLOATS(PACK)

/* The panels whose first column and term are element `at` of the operand. */
static void pack(const product_context *c, talc_range panels, int64_t at, int64_t count, void *to)
{
    const talc_dtype dtype = c->problem->dtype;
    const int64_t width = width_of(dtype);
    const int64_t columns =
        column_at(c->plan, width, panels.hi) - column_at(c->plan, width, panels.lo);
    const void *from = talc_cpu_at(dtype, c->column.at, at);
    TALC_CPU_CALL(dtype, pack,
                  (from, c->column.stride, c->column.term_stride, columns, count, width, to));
}

/* A panel of a group's weights. */
static void pack_task(void *context, int64_t task, int worker)
{
    (void)worker;
    const product_context *c = context;
    const pointwise_plan *plan = c->plan;
    const int64_t width = width_of(c->problem->dtype);
    const int64_t panel = task % plan->panels, g = task / plan->panels;
    const int64_t size = (int64_t)talc_dtype_size(c->problem->dtype);
    pack(c, (talc_range){ panel, panel + 1 },
         g * c->column.plane_stride + column_at(plan, width, panel) * c->column.stride, plan->terms,
         c->packed + task * plan->terms * width * size);
}

/* Some output channels of a group's weights. */
static void transpose_task(void *context, int64_t task, int worker)
{
    (void)worker;
    const product_context *c = context;
    const talc_conv2d_problem *p = c->problem;
    const int64_t IC = p->C / p->groups, OC = p->OC / p->groups;
    const int64_t blocks = talc_ceil_div(OC, TRANSPOSED), first = task % blocks * TRANSPOSED;
    const int64_t g = task / blocks, rows = talc_smaller(TRANSPOSED, OC - first);
    const void *from = talc_cpu_at(p->dtype, c->arguments->w, (g * OC + first) * IC);
    void *to = c->transposed + (g * IC * OC + first) * (int64_t)talc_dtype_size(p->dtype);
    TALC_CPU_CALL(p->dtype, talc_cpu_transpose, (rows, IC, from, IC, to, OC));
}

// ---- One task -----------------------------------------------------------------------------------

/* A block of the result, and some of its terms. */
typedef struct product_block {
    int64_t row, rows;
    talc_range panels;
    int64_t column, columns;
    const char *from;     /* the operand of the rows */
    const char *packed;   /* that of the columns */
    int64_t panel_stride; /* bytes from one panel to the next */
    int64_t count;        /* of terms */
    bool add;             /* to those before */
    char *to;             /* the first sum */
    int64_t to_channel;   /* elements from one channel's sums to the next, of dw output channels */
    char *sums;           /* room for some */
} product_block;

/* The operands of a tile: rows lo .. hi - 1, and a panel of columns. */
static void set_rows(const product_context *c, const product_block *b, talc_range rows,
                     talc_cpu_tile *tile)
{
    const int64_t stride = c->row.stride * (int64_t)talc_dtype_size(c->problem->dtype);
    tile->count = b->count;
    tile->terms = c->terms;
    tile->prefetch_distance = 0;
    tile->accumulate = b->add;
    tile->epilogue = false;
    for (int64_t i = rows.lo; i < rows.hi; i++)
        tile->a[i - rows.lo] = b->from + i * stride;
}

static void set_columns(const char *columns, int64_t step, talc_cpu_tile *tile)
{
    for (int64_t v = 0; v < TALC_CPU_VECTORS; v++)
        tile->b[v] = columns + v * step;
}

/* Copies `columns` sums of each of `count` rows. */
static void copy_rows(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t count,
                      int64_t bytes)
{
    for (int64_t i = 0; i < count; i++)
        talc_cpu_short_copy(to + i * to_step, from + i * from_step, (size_t)bytes);
}

/* The sums of one row panel, in place but for a part of a vector at the end. */
static void multiply_rows(const product_context *c, const product_block *b, int64_t oc,
                          talc_range rows, bool last)
{
    const int64_t size = (int64_t)talc_dtype_size(c->problem->dtype), lanes = c->kernels->lanes;
    const int64_t width = TALC_CPU_VECTORS * lanes, count = rows.hi - rows.lo;
    const int64_t y_step = b->to_channel * size, step = lanes * size;
    const talc_range panels = b->panels;
    /* Of these the columns are known to be `width`. */
    const int64_t whole = talc_smaller(panels.hi, c->plan->panels - 2);
    const char *x = b->packed;
    char *y = b->to + rows.lo * y_step;
    talc_cpu_tile tile;
    tile.ldc = b->to_channel;
    set_rows(c, b, rows, &tile);
    tile.epilogue = talc_cpu_conv2d_clamps(c->problem, &tile.low, &tile.high) && last;
    tile.bias = talc_cpu_at(c->problem->dtype, c->arguments->bias, oc + rows.lo);
    talc_cpu_tile_function *const multiply = c->kernels->tile[TALC_CPU_VECTORS][count];
    int64_t panel = panels.lo;
    for (; panel < whole; panel++, x += b->panel_stride, y += width * size) {
        set_columns(x, step, &tile);
        tile.c = y;
        multiply(&tile);
    }
    for (int64_t columns; panel < panels.hi; panel++, y += columns * size) {
        columns = column_at(c->plan, width, panel + 1) - column_at(c->plan, width, panel);
        const int64_t vectors = talc_ceil_div(columns, lanes);
        const bool partial = columns < vectors * lanes;
        set_columns(x, step, &tile);
        tile.c = partial ? b->sums : y;
        tile.ldc = partial ? width : b->to_channel;
        if (partial && b->add)
            copy_rows(b->sums, width * size, y, y_step, count, columns * size);
        c->kernels->tile[vectors][count](&tile);
        if (partial)
            copy_rows(y, y_step, b->sums, width * size, count, columns * size);
        x += c->plan->in_place ? columns * size : b->panel_stride;
    }
}

static talc_range rows_at(const product_block *b, int64_t panel, int64_t panels)
{
    return (talc_range){ panel * b->rows / panels, (panel + 1) * b->rows / panels };
}

/* Panels of the rows, of as many as fit a tile. */
static int64_t row_panels_of(const product_context *c, const product_block *b)
{
    const int64_t vectors = talc_ceil_div(b->columns, c->kernels->lanes);
    return talc_ceil_div(b->rows, c->kernels->rows[talc_smaller(vectors, TALC_CPU_VECTORS)]);
}

/* The sums of all rows for a panel of columns, transposed. */
static void multiply_panel(const product_context *c, const product_block *b, int64_t panel,
                           talc_range channels)
{
    const talc_dtype dtype = c->problem->dtype;
    const int64_t size = (int64_t)talc_dtype_size(dtype), row_panels = row_panels_of(c, b);
    const int64_t width = width_of(dtype), columns = channels.hi - channels.lo;
    void *to = b->to + channels.lo * b->to_channel * size, *sums = b->sums;
    if (b->add)
        TALC_CPU_CALL(dtype, talc_cpu_transpose,
                      (columns, b->rows, to, b->to_channel, sums, width));
    talc_cpu_tile tile;
    tile.ldc = width;
    set_columns(b->packed + (panel - b->panels.lo) * b->panel_stride, c->kernels->lanes * size,
                &tile);
    /* Tiles of few rows read a panel too often for the L2 cache: so all of them meet some terms
     * while these are in the L1 cache. */
    const int64_t round = c->kernels->rows[TALC_CPU_VECTORS] < 8 ? ROUND : b->count;
    for (int64_t k = 0; k < b->count; k += round)
        for (int64_t i = 0; i < row_panels; i++) {
            const talc_range rows = rows_at(b, i, row_panels);
            set_rows(c, b, rows, &tile);
            tile.terms += k;
            tile.count = talc_smaller(round, b->count - k);
            tile.accumulate = b->add || k > 0;
            tile.c = b->sums + rows.lo * width * size;
            c->kernels->tile[talc_ceil_div(columns, c->kernels->lanes)][rows.hi - rows.lo](&tile);
        }
    TALC_CPU_CALL(dtype, talc_cpu_transpose, (b->rows, columns, sums, width, to, b->to_channel));
}

/* Bias, residual and activation of some of the block's channels of an image. */
static void finish(const product_context *c, const product_block *b, int64_t plane,
                   talc_range channels)
{
    const talc_conv2d_problem *p = c->problem;
    const int64_t OC = p->OC / p->groups;
    const int64_t oc = c->plan->swapped ? b->column : b->row;
    const int64_t pixel = c->plan->swapped ? b->row : b->column;
    const int64_t pixels = c->plan->swapped ? b->rows : b->columns;
    if (p->direction == TALC_FORWARD && talc_cpu_conv2d_has_epilogue(p))
        for (int64_t i = channels.lo; i < channels.hi; i++)
            talc_cpu_conv2d_epilogue_rows(p, c->arguments, plane * OC + oc + i, pixel, 1, pixels);
}

static void multiply_block(const product_context *c, const product_block *b, int64_t plane,
                           bool last)
{
    const int64_t row_panels = row_panels_of(c, b), width = width_of(c->problem->dtype);
    double low, high;
    for (int64_t i = 0; !c->plan->swapped && i < row_panels; i++) {
        const talc_range rows = rows_at(b, i, row_panels);
        multiply_rows(c, b, plane % c->problem->groups * c->plan->rows + b->row, rows, last);
        if (last && !talc_cpu_conv2d_clamps(c->problem, &low, &high))
            finish(c, b, plane, rows);
    }
    for (int64_t i = b->panels.lo; c->plan->swapped && i < b->panels.hi; i++) {
        const talc_range channels = { column_at(c->plan, width, i) - b->column,
                                      column_at(c->plan, width, i + 1) - b->column };
        multiply_panel(c, b, i, channels);
        if (last)
            finish(c, b, plane, channels);
    }
}

/* The columns that a block's terms k and following meet, of image and group `plane`. A worker's
 * next block may have the same: `key` tells. */
static void find_columns(const product_context *c, product_block *b, int64_t plane, int64_t k,
                         int64_t key, char *slice, char *own)
{
    const pointwise_plan *plan = c->plan;
    const talc_dtype dtype = c->problem->dtype;
    const int64_t size = (int64_t)talc_dtype_size(dtype), width = width_of(dtype);
    const int64_t from = plane * c->column.plane_stride + k * c->column.term_stride;
    int64_t *packed_key = (int64_t *)slice;
    if (plan->packed > 0) {
        const int64_t g = plane % c->problem->groups;
        b->panel_stride = plan->terms * width * size;
        b->packed =
            c->packed + (g * plan->panels + b->panels.lo) * b->panel_stride + k * width * size;
        return;
    }
    if (plan->in_place) {
        b->panel_stride = width * size;
        b->packed = talc_cpu_at(dtype, c->column.at, from + b->column);
        return;
    }
    b->panel_stride = b->count * width * size;
    b->packed = own;
    if (key >= 0 && *packed_key == key)
        return;
    /* Of all panels but the last two the columns are known to be `width`. */
    for (int64_t i = b->panels.lo, end; i < b->panels.hi; i = end) {
        const int64_t whole =
            c->column.stride == 1 ? talc_smaller(b->panels.hi, plan->panels - 2) : 0;
        end = talc_between(whole, i + 1, i + PACKED);
        pack(c, (talc_range){ i, end }, from + column_at(plan, width, i) * c->column.stride,
             b->count, own + (i - b->panels.lo) * b->panel_stride);
    }
    *packed_key = key;
}

static void product_task(void *context, int64_t task, int worker)
{
    const product_context *c = context;
    const talc_conv2d_problem *p = c->problem;
    const pointwise_plan *plan = c->plan;
    const int64_t size = (int64_t)talc_dtype_size(p->dtype), width = width_of(p->dtype);
    const int64_t k_blocks = k_blocks_of(plan);
    char *slice = c->slices + (size_t)worker * plan->slice;
    product_block b = { .row = task % plan->row_blocks * plan->row_block,
                        .to_channel = is_weight(p) ? p->C / p->groups : p->OH * p->OW,
                        .sums = slice + TALC_CPU_POINTWISE_HEADER };
    task /= plan->row_blocks;
    char *own = b.sums + (plan->swapped ? plan->row_block : TALC_CPU_ROWS) * width * size;
    const int64_t key = task;
    b.panels.lo = task % plan->column_blocks * plan->panel_block;
    b.panels.hi = talc_smaller(b.panels.lo + plan->panel_block, plan->panels);
    task /= plan->column_blocks;
    b.rows = talc_smaller(plan->row_block, plan->rows - b.row);
    b.column = column_at(plan, width, b.panels.lo);
    b.columns = column_at(plan, width, b.panels.hi) - b.column;
    const int64_t channel = plan->swapped ? b.column : b.row;
    const int64_t other = plan->swapped ? b.row : b.column;
    const int64_t g = task % p->groups;

    /* A term of dw is a block of an image's pixels. */
    talc_range terms = { 0, k_blocks };
    if (is_weight(p)) {
        const int64_t OC = p->OC / p->groups, split = task / p->groups;
        terms = talc_cpu_split_k_terms(&plan->split_k, split);
        b.to = talc_cpu_split_k_at(&plan->split_k, p, c->arguments, split,
                                   (g * OC + channel) * b.to_channel + other);
    } else {
        const bool forward = p->direction == TALC_FORWARD;
        const int64_t channels = (forward ? p->OC : p->C) / p->groups;
        b.to = (char *)(forward ? c->arguments->y : c->arguments->dx) +
               ((task * channels + channel) * b.to_channel + other) * size;
    }
    for (int64_t term = terms.lo; term < terms.hi; term++) {
        const int64_t plane = is_weight(p) ? term / k_blocks * p->groups + g : task;
        const int64_t k = term % k_blocks * plan->k_block;
        b.count = talc_smaller(plan->k_block, plan->terms - k);
        b.add = term > terms.lo;
        const int64_t row_plane = is_weight(p) || plan->swapped ? plane : g;
        b.from = talc_cpu_at(p->dtype, c->row.at,
                             row_plane * c->row.plane_stride + b.row * c->row.stride +
                                 k * c->row.term_stride);
        find_columns(c, &b, plane, k, k_blocks == 1 && !is_weight(p) ? key : -1, slice, own);
        multiply_block(c, &b, plane, term + 1 == terms.hi);
    }
}

// ---- Strides ------------------------------------------------------------------------------------

/* Some images of the pixels that windows meet. */
static talc_conv2d_problem compact_problem(const talc_conv2d_problem *p, int64_t images)
{
    talc_conv2d_problem compact = *p;
    compact.N = images;
    compact.H = p->OH, compact.W = p->OW;
    compact.stride_h = compact.stride_w = 1;
    return compact;
}

typedef struct strided_planes {
    const talc_conv2d_problem *problem;
    const char *from;
    char *to;
} strided_planes;

/* One plane of x, of the pixels that windows meet. */
static void gather_task(void *context, int64_t plane, int worker)
{
    (void)worker;
    const strided_planes *s = context;
    const talc_conv2d_problem *p = s->problem;
    const int64_t size = (int64_t)talc_dtype_size(p->dtype);
    const int64_t from_row = p->OH > 1 ? p->stride_h * p->W : 0;
    talc_cpu_kernels_of(p->dtype)->strided(
        p->OH, p->OW, 1, s->from + plane * p->H * p->W * size, from_row, p->stride_w,
        s->to + plane * p->OH * p->OW * size, p->OW, 0, p->H * p->W);
}

/* One plane of dx. */
#define SCATTER(constant, suffix, T, A)                                                            \
    static void scatter_##suffix(const talc_conv2d_problem *p, const T *from, T *to)               \
    {                                                                                              \
        for (int64_t h = 0; h < p->H; h++, to += p->W) {                                           \
            memset(to, 0, (size_t)p->W * sizeof(T));                                               \
            if (h % p->stride_h != 0 || h / p->stride_h >= p->OH)                                  \
                continue;                                                                          \
            for (int64_t w = 0; w < p->OW; w++)                                                    \
                to[w * p->stride_w] = *from++;                                                     \
        }                                                                                          \
    }

TALC_CPU_FLOATS(SCATTER)

static void scatter_task(void *context, int64_t plane, int worker)
{
    (void)worker;
    const strided_planes *s = context;
    const talc_conv2d_problem *p = s->problem;
    const int64_t size = (int64_t)talc_dtype_size(p->dtype);
    const void *from = s->from + plane * p->OH * p->OW * size;
    void *to = s->to + plane * p->H * p->W * size;
    TALC_CPU_CALL(p->dtype, scatter, (p, from, to));
}

// ---- The algorithm ------------------------------------------------------------------------------

_Static_assert(sizeof(pointwise_plan) <= sizeof((talc_plan *)NULL)->data, "a plan keeps it");

/* Bytes at the start of the workspace that all workers share. */
static size_t shared_bytes(const pointwise_plan *plan)
{
    return plan->compact + plan->packed + plan->transposed +
           talc_cpu_split_k_bytes(&plan->split_k) + plan->terms_bytes;
}

const char *talc_cpu_conv2d_pointwise_plan(const talc_device *device, const void *problem,
                                           size_t limit, talc_plan *plan)
{
    (void)device;
    const talc_conv2d_problem *p = problem;
    if (talc_cpu_refuses(p->dtype) != NULL)
        return talc_cpu_refuses(p->dtype);
    if (p->KH != 1 || p->KW != 1)
        return "the kernel is not 1x1";
    if (p->pad_top != 0 || p->pad_left != 0 || p->pad_bottom != 0 || p->pad_right != 0)
        return "there is padding";
    const bool strided = p->stride_h != 1 || p->stride_w != 1;
    const size_t of_image = (size_t)(p->C * p->OH * p->OW) * talc_dtype_size(p->dtype);
    const size_t share = limit / COMPACT_SHARE < MAX_COMPACT ? limit / COMPACT_SHARE : MAX_COMPACT;
    const int64_t fitting = (int64_t)(share / (of_image > 0 ? of_image : 1));
    /* A sum of dw is over all images. */
    const int64_t images = strided && !is_weight(p) ? talc_even(p->N, fitting) : p->N;
    const size_t compact = strided ? talc_cpu_aligned((size_t)images * of_image) : 0;
    if (compact > 0 && (compact >= limit || (is_weight(p) && compact > MAX_COMPACT)))
        return "the pixels that the stride meets take too much memory";
    const talc_conv2d_problem of_pixels = compact_problem(p, images);
    pointwise_plan planned = talc_cpu_pointwise_plan_of(&of_pixels, limit - compact);
    planned.images = images;
    planned.compact = compact;
    plan->workspace = talc_cpu_workspace(tasks_of(&of_pixels, &planned), shared_bytes(&planned),
                                         planned.slice, limit);
    if (p->direction == TALC_FORWARD)
        plan->cached = planned.packed;
    talc_plan_store(plan, &planned, sizeof planned);
    return NULL;
}

static char *behind(void *at, int64_t bytes)
{
    return at == NULL ? NULL : (char *)at + bytes;
}

/* All products of the images at hand, whose operands are set. */
static talc_status multiply_images(product_context *c, size_t workspace)
{
    const talc_conv2d_problem *p = c->problem;
    const pointwise_plan *plan = c->plan;
    const size_t workers = (workspace - shared_bytes(plan)) / plan->slice;
    for (size_t i = 0; i < workers; i++)
        *(int64_t *)(c->slices + i * plan->slice) = -1;
    const talc_status status =
        talc_cpu_parallel_limited(tasks_of(p, plan), (int)workers, product_task, c);
    return status != TALC_OK || !is_weight(p)
               ? status
               : talc_cpu_split_k_sum(&plan->split_k, p, c->arguments);
}

/* Where the workspace has what all workers share. */
static void place_workspace(product_context *c, char *workspace)
{
    const talc_conv2d_arguments *a = c->arguments;
    const pointwise_plan *plan = c->plan;
    if (plan->packed > 0 && a->base.cached != NULL) {
        c->packed = a->base.cached;
    } else if (plan->packed > 0) {
        c->packed = workspace;
        workspace += plan->packed;
    }
    if (plan->transposed > 0) {
        c->transposed = workspace;
        workspace += plan->transposed;
    }
    c->terms = (talc_cpu_term *)(workspace + talc_cpu_split_k_bytes(&plan->split_k));
    c->slices = (char *)c->terms + plan->terms_bytes;
}

static talc_status prepare_weights(product_context *c)
{
    const talc_conv2d_problem *p = c->problem;
    talc_status status = TALC_OK;
    if (c->plan->packed > 0 && !c->arguments->base.cached_ready)
        status = talc_cpu_parallel(p->groups * c->plan->panels, pack_task, c);
    if (status == TALC_OK && c->plan->transposed > 0)
        status = talc_cpu_parallel(p->groups * talc_ceil_div(p->OC / p->groups, TRANSPOSED),
                                   transpose_task, c);
    return status;
}

/* Some images of a strided problem from image n on; `p` and `a`, which c refers to, become those of
 * their pixels. */
static talc_status multiply_strided(product_context *c, size_t workspace,
                                    const talc_conv2d_problem *whole,
                                    const talc_conv2d_arguments *all, int64_t n,
                                    talc_conv2d_problem *p, talc_conv2d_arguments *a)
{
    const bool is_dx = whole->direction == TALC_GRAD_INPUT;
    const int64_t size = (int64_t)talc_dtype_size(p->dtype);
    char *compact = all->base.workspace;
    p->N = talc_smaller(c->plan->images, whole->N - n);
    const int64_t outputs = n * p->OC * p->OH * p->OW, inputs = n * p->C * whole->H * whole->W;
    a->dy = talc_cpu_at(p->dtype, all->dy, outputs);
    a->y = behind(all->y, outputs * size);
    a->residual = talc_cpu_at(p->dtype, all->residual, outputs);
    set_operands(c);
    strided_planes planes =
        is_dx ? (strided_planes){ whole, compact, behind(all->dx, inputs * size) }
              : (strided_planes){ whole, talc_cpu_at(p->dtype, all->x, inputs), compact };
    talc_status status = TALC_OK;
    if (!is_dx)
        status = talc_cpu_parallel(p->N * p->C, gather_task, &planes);
    if (status == TALC_OK)
        status = multiply_images(c, workspace);
    if (status == TALC_OK && is_dx)
        status = talc_cpu_parallel(p->N * p->C, scatter_task, &planes);
    return status;
}

talc_status talc_cpu_conv2d_pointwise_run(talc_device *device, const void *problem,
                                          const talc_plan *plan, const void *arguments)
{
    (void)device;
    const talc_conv2d_problem *whole = problem;
    const talc_conv2d_arguments *all = arguments;
    const pointwise_plan *planned = talc_plan_data(plan);
    char *compact = all->base.workspace;
    talc_conv2d_problem p = compact_problem(whole, planned->images);
    talc_conv2d_arguments a = *all;
    a.base.workspace = compact + planned->compact;
    if (planned->compact > 0 && whole->direction == TALC_GRAD_INPUT)
        a.dx = compact;
    else if (planned->compact > 0)
        a.x = compact;
    product_context c = {
        .problem = &p, .arguments = &a, .plan = planned, .kernels = talc_cpu_kernels_of(p.dtype)
    };
    place_workspace(&c, a.base.workspace);
    set_operands(&c);
    const int64_t term_stride = planned->in_place ? c.column.term_stride : width_of(p.dtype);
    for (int64_t k = 0; k < planned->k_block; k++)
        c.terms[k] =
            (talc_cpu_term){ (int32_t)(k * c.row.term_stride), (int32_t)(k * term_stride) };
    talc_status status = prepare_weights(&c);
    if (status == TALC_OK && planned->compact == 0)
        return multiply_images(&c, plan->workspace);
    for (int64_t n = 0; n < whole->N && status == TALC_OK; n += planned->images)
        status = multiply_strided(&c, plan->workspace, whole, all, n, &p, &a);
    return status;
}
