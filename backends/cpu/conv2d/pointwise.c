/// 1x1 convolution as a matrix product that reads the images where they stand. For each image n and
/// group g,
///
///     y[n, g, oc, j] = sum over ic of w[g, oc, ic] * x[n, g, ic, j],        j = oh * OW + ow
///     dx[n, g, ic, j] = sum over oc of w[g, oc, ic] * dy[n, g, oc, j]
///     dw[g, oc, ic] = sum over n, j of dy[n, g, oc, j] * x[n, g, ic, j]
///
/// since an image's planes [C/groups, H*W] are the matrix already. One factor gives the rows of the
/// microkernel's tiles (microkernel.h), which reads it in place; the other gives their columns, and
/// is packed into panels as wide as a tile. Columns are pixels, of dw input channels; or, turned,
/// channels, of dw output channels, where these fill the vectors better: a tile's sums are then
/// transposed on their way to the result, and y's weights are packed once for all images and kept
/// with w for calls to come. A task is a block of rows times a block of columns, of dw for a split
/// of the images and pixels (split_k.h); y's bias, residual and activation follow while it is in
/// cache.
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
#include "backends/cpu/conv2d/gemm.h"
#include "backends/cpu/device/threads.h"
#include "backends/cpu/primitives/epilogue.h"
#include "backends/cpu/primitives/short_copy.h"
#include "backends/cpu/primitives/target.h"
#include "backends/cpu/primitives/transpose.h"

#include <string.h>

enum {
    LINE = 48 /* bytes, of which panels are multiples */,
    ROUND = 128 /* terms */,
    PACKED = 8 /* panels */,
    TRANSPOSED = 64 /* output channels */,
    COMPACT_SHARE = 8 /* of the workspace limit */,
    MAX_COMPACT = 16 << 20 /* bytes */
};

/* A factor: element i of its rows or columns and term k stand at i*step + k*term, of an image and
 * group that begin `plane` elements from the ones before, of a group alone for w. */
typedef struct factor {
    const void *at;
    int64_t step, term, plane;
} factor;

typedef struct product_context {
    const talc_conv2d_problem *problem;
    const talc_conv2d_arguments *arguments;
    const pointwise_plan *plan;
    const talc_cpu_kernels *kernels;
    factor row, column;
    char *packed;     /* weights, [group][panel][term][column]; NULL: tasks pack their columns */
    char *transposed; /* weights, [group][row][term]; NULL: read where they stand */
    talc_cpu_term *terms;
    char *slices;
} product_context;

/* The factors of y or dx are w and the image, of dw dy and x. */
static void add_factors(product_context *c)
{
    const talc_conv2d_problem *p = c->problem;
    const talc_conv2d_arguments *a = c->arguments;
    const int64_t IC = p->C / p->groups, OC = p->OC / p->groups, P = p->OH * p->OW;
    factor channels = { a->w, IC, 1, OC * IC }, others = { a->x, 1, P, IC * P };
    if (p->direction == TALC_GRAD_INPUT) {
        channels = c->transposed != NULL ? (factor){ c->transposed, OC, 1, OC * IC }
                                         : (factor){ a->w, 1, IC, OC * IC };
        others = (factor){ a->dy, 1, P, OC * P };
    } else if (is_weight(p)) {
        channels = (factor){ a->dy, P, 1, OC * P };
        others = (factor){ a->x, P, 1, IC * P };
    }
    c->row = c->plan->turned ? others : channels;
    c->column = c->plan->turned ? channels : others;
}

static int64_t tasks_of(const talc_conv2d_problem *p, const pointwise_plan *plan)
{
    return (is_weight(p) ? plan->split_k.splits : p->N) * p->groups * plan->column_blocks *
           plan->row_blocks;
}

// ---- Panels -------------------------------------------------------------------------------------

/* Terms 0 .. count - 1 of `columns` columns to panels of `width`. Whole panels may be several, as a
 * term of one is few bytes far from the next. Columns that there are not are zeros. */
#define PACK(constant, suffix, T, A)                                                               \
    TALC_TARGET_CLONES                                                                             \
    static void pack_##suffix(const T *from, int64_t step, int64_t term, int64_t columns,          \
                              int64_t count, int64_t width, T *to)                                 \
    {                                                                                              \
        if (step == 1 && columns % width == 0) {                                                   \
            for (int64_t k = 0; k < count; k++, from += term, to += width)                         \
                for (int64_t i = 0; i < columns; i += width)                                       \
                    for (int64_t j = 0; j < width; j += LINE / (int64_t)sizeof(T))                 \
                        memcpy(to + i * count + j, from + i + j, LINE);                            \
            return;                                                                                \
        }                                                                                          \
        if (columns < width)                                                                       \
            memset(to, 0, (size_t)(count * width) * sizeof(T));                                    \
        if (step != 1)                                                                             \
            talc_cpu_transpose_##suffix(columns, count, from, step, to, width);                    \
        for (int64_t k = 0; step == 1 && k < count; k++, from += term, to += width)                \
            talc_cpu_short_copy((char *)to, (const char *)from, (size_t)columns * sizeof(T));      \
    }

TALC_CPU_FLOATS(PACK)

/* The panels whose first column and term are element `at` of the factor. */
static void pack(const product_context *c, talc_range panels, int64_t at, int64_t count, void *to)
{
    const talc_dtype dtype = c->problem->dtype;
    const int64_t width = width_of(dtype);
    const int64_t columns =
        column_at(c->plan, width, panels.hi) - column_at(c->plan, width, panels.lo);
    const void *from = talc_cpu_at(dtype, c->column.at, at);
    TALC_CPU_CALL(dtype, pack, (from, c->column.step, c->column.term, columns, count, width, to));
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
         g * c->column.plane + column_at(plan, width, panel) * c->column.step, plan->terms,
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
    const char *from;   /* the factor of the rows */
    const char *packed; /* that of the columns */
    int64_t apart;      /* bytes from one panel to the next */
    int64_t count;      /* of terms */
    bool add;           /* to those before */
    char *to;           /* the first sum */
    int64_t to_channel; /* elements from one channel's sums to the next, of dw output channels */
    char *sums;         /* room for some */
} product_block;

/* The factors of a tile: rows lo .. hi - 1, and a panel of columns. */
static void set_rows(const product_context *c, const product_block *b, talc_range rows,
                     talc_cpu_tile *tile)
{
    const int64_t step = c->row.step * (int64_t)talc_dtype_size(c->problem->dtype);
    tile->count = b->count;
    tile->terms = c->terms;
    tile->next = 0;
    tile->add = b->add;
    tile->ends = false;
    for (int64_t i = rows.lo; i < rows.hi; i++)
        tile->w[i - rows.lo] = b->from + i * step;
}

static void set_columns(const char *columns, int64_t step, talc_cpu_tile *tile)
{
    for (int64_t v = 0; v < TALC_CPU_VECTORS; v++)
        tile->x[v] = columns + v * step;
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
                          talc_range rows, bool ends)
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
    tile.y_step = b->to_channel;
    set_rows(c, b, rows, &tile);
    tile.ends = talc_cpu_conv2d_clamps(c->problem, &tile.low, &tile.high) && ends;
    tile.bias = talc_cpu_at(c->problem->dtype, c->arguments->bias, oc + rows.lo);
    talc_cpu_tile_function *const multiply = c->kernels->tile[TALC_CPU_VECTORS][count];
    int64_t panel = panels.lo;
    for (; panel < whole; panel++, x += b->apart, y += width * size) {
        set_columns(x, step, &tile);
        tile.y = y;
        multiply(&tile);
    }
    for (int64_t columns; panel < panels.hi; panel++, y += columns * size) {
        columns = column_at(c->plan, width, panel + 1) - column_at(c->plan, width, panel);
        const int64_t vectors = talc_ceil_div(columns, lanes);
        const bool partial = columns < vectors * lanes;
        set_columns(x, step, &tile);
        tile.y = partial ? b->sums : y;
        tile.y_step = partial ? width : b->to_channel;
        if (partial && b->add)
            copy_rows(b->sums, width * size, y, y_step, count, columns * size);
        c->kernels->tile[vectors][count](&tile);
        if (partial)
            copy_rows(y, y_step, b->sums, width * size, count, columns * size);
        x += c->plan->in_place ? columns * size : b->apart;
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
    tile.y_step = width;
    set_columns(b->packed + (panel - b->panels.lo) * b->apart, c->kernels->lanes * size, &tile);
    /* Tiles of few rows read a panel too often for the L2 cache: so all of them meet some terms
     * while these are in the L1 cache. */
    const int64_t round = c->kernels->rows[TALC_CPU_VECTORS] < 8 ? ROUND : b->count;
    for (int64_t k = 0; k < b->count; k += round)
        for (int64_t i = 0; i < row_panels; i++) {
            const talc_range rows = rows_at(b, i, row_panels);
            set_rows(c, b, rows, &tile);
            tile.terms += k;
            tile.count = talc_smaller(round, b->count - k);
            tile.add = b->add || k > 0;
            tile.y = b->sums + rows.lo * width * size;
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
    const int64_t oc = c->plan->turned ? b->column : b->row;
    const int64_t pixel = c->plan->turned ? b->row : b->column;
    const int64_t pixels = c->plan->turned ? b->rows : b->columns;
    if (p->direction == TALC_FORWARD && talc_cpu_conv2d_has_epilogue(p))
        for (int64_t i = channels.lo; i < channels.hi; i++)
            talc_cpu_conv2d_epilogue_rows(p, c->arguments, plane * OC + oc + i, pixel, 1, pixels);
}

static void multiply_block(const product_context *c, const product_block *b, int64_t plane,
                           bool last)
{
    const int64_t row_panels = row_panels_of(c, b), width = width_of(c->problem->dtype);
    double low, high;
    for (int64_t i = 0; !c->plan->turned && i < row_panels; i++) {
        const talc_range rows = rows_at(b, i, row_panels);
        multiply_rows(c, b, plane % c->problem->groups * c->plan->rows + b->row, rows, last);
        if (last && !talc_cpu_conv2d_clamps(c->problem, &low, &high))
            finish(c, b, plane, rows);
    }
    for (int64_t i = b->panels.lo; c->plan->turned && i < b->panels.hi; i++) {
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
    const int64_t from = plane * c->column.plane + k * c->column.term;
    int64_t *packed_key = (int64_t *)slice;
    if (plan->packed > 0) {
        const int64_t g = plane % c->problem->groups;
        b->apart = plan->terms * width * size;
        b->packed = c->packed + (g * plan->panels + b->panels.lo) * b->apart + k * width * size;
        return;
    }
    if (plan->in_place) {
        b->apart = width * size;
        b->packed = talc_cpu_at(dtype, c->column.at, from + b->column);
        return;
    }
    b->apart = b->count * width * size;
    b->packed = own;
    if (key >= 0 && *packed_key == key)
        return;
    /* Of all panels but the last two the columns are known to be `width`. */
    for (int64_t i = b->panels.lo, end; i < b->panels.hi; i = end) {
        const int64_t whole =
            c->column.step == 1 ? talc_smaller(b->panels.hi, plan->panels - 2) : 0;
        end = talc_between(whole, i + 1, i + PACKED);
        pack(c, (talc_range){ i, end }, from + column_at(plan, width, i) * c->column.step, b->count,
             own + (i - b->panels.lo) * b->apart);
    }
    *packed_key = key;
}

static void product_task(void *context, int64_t task, int worker)
{
    const product_context *c = context;
    const talc_conv2d_problem *p = c->problem;
    const pointwise_plan *plan = c->plan;
    const int64_t size = (int64_t)talc_dtype_size(p->dtype), width = width_of(p->dtype);
    const int64_t steps = steps_of(plan);
    char *slice = c->slices + (size_t)worker * plan->slice;
    product_block b = { .row = task % plan->row_blocks * plan->row_block,
                        .to_channel = is_weight(p) ? p->C / p->groups : p->OH * p->OW,
                        .sums = slice + TALC_CPU_POINTWISE_HEADER };
    task /= plan->row_blocks;
    char *own = b.sums + (plan->turned ? plan->row_block : TALC_CPU_ROWS) * width * size;
    const int64_t key = task;
    b.panels.lo = task % plan->column_blocks * plan->panel_block;
    b.panels.hi = talc_smaller(b.panels.lo + plan->panel_block, plan->panels);
    task /= plan->column_blocks;
    b.rows = talc_smaller(plan->row_block, plan->rows - b.row);
    b.column = column_at(plan, width, b.panels.lo);
    b.columns = column_at(plan, width, b.panels.hi) - b.column;
    const int64_t channel = plan->turned ? b.column : b.row;
    const int64_t other = plan->turned ? b.row : b.column;
    const int64_t g = task % p->groups;

    /* A term of dw is a step of an image. */
    talc_range terms = { 0, steps };
    if (is_weight(p)) {
        const int64_t OC = p->OC / p->groups, split = task / p->groups;
        terms = talc_cpu_split_k_terms(&plan->split_k, split);
        b.to = talc_cpu_split_k_at(&plan->split_k, p, c->arguments, split,
                                   (g * OC + channel) * b.to_channel + other);
    } else {
        const bool forward = p->direction == TALC_FORWARD;
        const int64_t made = (forward ? p->OC : p->C) / p->groups;
        b.to = (char *)(forward ? c->arguments->y : c->arguments->dx) +
               ((task * made + channel) * b.to_channel + other) * size;
    }
    for (int64_t term = terms.lo; term < terms.hi; term++) {
        const int64_t plane = is_weight(p) ? term / steps * p->groups + g : task;
        const int64_t k = term % steps * plan->step;
        b.count = talc_smaller(plan->step, plan->terms - k);
        b.add = term > terms.lo;
        const int64_t row_plane = is_weight(p) || plan->turned ? plane : g;
        b.from = talc_cpu_at(p->dtype, c->row.at,
                             row_plane * c->row.plane + b.row * c->row.step + k * c->row.term);
        find_columns(c, &b, plane, k, steps == 1 && !is_weight(p) ? key : -1, slice, own);
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

/* All products of the images at hand, whose factors are set. */
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

talc_status talc_cpu_conv2d_pointwise_run(talc_device *device, const void *problem,
                                          const talc_plan *plan, const void *arguments)
{
    (void)device;
    const talc_conv2d_problem *whole = problem;
    const talc_conv2d_arguments *all = arguments;
    const pointwise_plan *planned = talc_plan_data(plan);
    const bool is_dx = whole->direction == TALC_GRAD_INPUT;
    const int64_t size = (int64_t)talc_dtype_size(whole->dtype);
    char *compact = all->base.workspace, *rest = compact + planned->compact;
    talc_conv2d_problem p = compact_problem(whole, planned->images);
    talc_conv2d_arguments a = *all;
    a.base.workspace = rest;
    if (planned->compact > 0 && is_dx)
        a.dx = compact;
    else if (planned->compact > 0)
        a.x = compact;
    product_context c = {
        .problem = &p, .arguments = &a, .plan = planned, .kernels = talc_cpu_kernels_of(p.dtype)
    };
    if (planned->packed > 0 && a.base.cached != NULL) {
        c.packed = a.base.cached;
    } else if (planned->packed > 0) {
        c.packed = rest;
        rest += planned->packed;
    }
    if (planned->transposed > 0) {
        c.transposed = rest;
        rest += planned->transposed;
    }
    add_factors(&c);
    c.terms = (talc_cpu_term *)(rest + talc_cpu_split_k_bytes(&planned->split_k));
    c.slices = (char *)c.terms + planned->terms_bytes;
    const int64_t term = planned->in_place ? c.column.term : width_of(p.dtype);
    for (int64_t k = 0; k < planned->step; k++)
        c.terms[k] = (talc_cpu_term){ (int32_t)(k * c.row.term), (int32_t)(k * term) };
    if (planned->packed > 0 && !a.base.cached_ready &&
        talc_cpu_parallel(p.groups * planned->panels, pack_task, &c) != TALC_OK)
        return talc_error_status();
    if (planned->transposed > 0 &&
        talc_cpu_parallel(p.groups * talc_ceil_div(p.OC / p.groups, TRANSPOSED), transpose_task,
                          &c) != TALC_OK)
        return talc_error_status();
    if (planned->compact == 0)
        return multiply_images(&c, plan->workspace);

    for (int64_t n = 0; n < whole->N; n += p.N) {
        p.N = talc_smaller(planned->images, whole->N - n);
        const int64_t outputs = n * p.OC * p.OH * p.OW, inputs = n * p.C * whole->H * whole->W;
        strided_planes planes = { whole, compact, behind(all->dx, inputs * size) };
        a.dy = talc_cpu_at(p.dtype, all->dy, outputs);
        a.y = behind(all->y, outputs * size);
        a.residual = talc_cpu_at(p.dtype, all->residual, outputs);
        add_factors(&c);
        if (!is_dx) {
            planes = (strided_planes){ whole, talc_cpu_at(p.dtype, all->x, inputs), compact };
            if (talc_cpu_parallel(p.N * p.C, gather_task, &planes) != TALC_OK)
                return talc_error_status();
        }
        if (multiply_images(&c, plan->workspace) != TALC_OK)
            return talc_error_status();
        if (is_dx && talc_cpu_parallel(p.N * p.C, scatter_task, &planes) != TALC_OK)
            return talc_error_status();
    }
    return TALC_OK;
}
