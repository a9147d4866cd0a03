/// Convolution as a matrix product. For each image n and group g, with K = C/groups * KH * KW,
///
///     y[n, g, oc, j] = sum over k of w[g, oc, k] * B[k, j],        j = oh * OW + ow
///     B[(ic * KH + kh) * KW + kw, j] = x'[n, g*C/groups + ic, oh*stride_h - top + kh*dilation_h,
///                                         ow*stride_w - left + kw*dilation_w]
///
/// B, the im2col matrix, is never whole: a task is a block of columns j of one image, or of several
/// images when images are small, times a block of output channels. It builds B a few rows at a
/// time, in the worker's slice of the workspace and small enough to stay in cache, and OpenBLAS
/// adds their product to y: sums are in the data's type. The blocks follow from the problem and the
/// workspace limit alone, so every number of threads gives the same bits.
///
/// The gradient by the input goes back the same way, col2im:
///
///     dB[k, j] = sum over oc of w[g, oc, k] * dy[n, g, oc, j]
///     dx: dB added to the pixels that B was read from
///
/// A task is some input channels of one image. It makes dB a block at a time, in place of B, and
/// adds it to their planes, which no other task writes.
///
/// im2col_matrix.c builds B and adds dB.
///
/// Source: Chellapilla, Puri and Simard, "High performance convolutional neural networks for
/// document processing", 2006.
#include "backends/cpu/device/blas.h"
#include "backends/cpu/primitives/epilogue.h"
#include "backends/cpu/conv2d/im2col.h"
#include "backends/cpu/conv2d/algorithms.h"
#include "backends/cpu/primitives/element.h"
#include "backends/cpu/device/openblas.h"
#include "backends/cpu/device/threads.h"
#include "tensor/extent.h"

#include <stdio.h>
#include <string.h>

/* A block of B, 1 MiB of f32, stays in a core's L2 cache, and 32 MiB of workspace are enough for 16
 * threads and more. A problem of few tasks gets smaller blocks, down to the size at which OpenBLAS
 * takes as long to pack its operands as to multiply them. */
enum {
    ROWS = 256,
    COLUMNS = 1024,
    MIN_COLUMNS = 384,
    MIN_CHANNELS = 128,
    TASKS = 16,
    SLICE_BYTES = 2 << 20,
};

typedef struct im2col_plan {
    int64_t K;        /* rows of B */
    int64_t P;        /* outputs of one plane */
    int64_t rows;     /* of B at a time */
    int64_t columns;  /* of B in a block */
    int64_t channels; /* in a block: output channels, of dx input channels */
    int64_t images;   /* in a block; more than 1 only when it holds whole planes */
    int64_t column_blocks, channel_blocks, image_blocks;
    size_t slice; /* bytes of workspace for each worker */
} im2col_plan;

static bool is_input(const talc_conv2d_problem *p)
{
    return p->direction == TALC_GRAD_INPUT;
}

/* Channels of a group that are made. */
static int64_t made_of(const talc_conv2d_problem *p)
{
    return (is_input(p) ? p->C : p->OC) / p->groups;
}

/* Blocks of columns and images. */
static void cut(const talc_conv2d_problem *p, im2col_plan *plan)
{
    const bool several = !is_input(p) && plan->P <= plan->columns / 2;
    plan->images = several ? talc_even(p->N, plan->columns / plan->P) : 1;
    plan->columns = plan->images > 1 ? plan->images * plan->P
                                     : talc_cpu_im2col_aligned(talc_even(plan->P, plan->columns));
    plan->image_blocks = talc_ceil_div(p->N, plan->images);
    plan->column_blocks = plan->images > 1 ? 1 : talc_ceil_div(plan->P, plan->columns);
    plan->channel_blocks = talc_ceil_div(made_of(p), plan->channels);
}

static int64_t tasks_of(const talc_conv2d_problem *p, const im2col_plan *plan)
{
    return plan->image_blocks * p->groups * plan->channel_blocks *
           (is_input(p) ? 1 : plan->column_blocks);
}

static int64_t elements_of(const im2col_plan *plan)
{
    return plan->columns * (plan->rows + (plan->images > 1 ? plan->channels : 0));
}

static im2col_plan plan_of(const talc_conv2d_problem *p, size_t limit)
{
    const int64_t size = (int64_t)talc_dtype_size(p->dtype);
    const int64_t capacity = (int64_t)(limit / 4 < SLICE_BYTES ? limit / 4 : SLICE_BYTES) / size;
    im2col_plan plan = { .K = p->C / p->groups * p->KH * p->KW, .P = p->OH * p->OW };
    plan.rows = talc_even(plan.K, ROWS);
    plan.columns = COLUMNS;
    plan.channels = made_of(p);
    cut(p, &plan);
    const int64_t min_columns = is_input(p) ? COLUMNS : MIN_COLUMNS;
    const int64_t min_channels = is_input(p) ? 1 : MIN_CHANNELS;
    while (tasks_of(p, &plan) < TASKS &&
           (plan.columns > min_columns || plan.channels > min_channels)) {
        if (plan.columns > min_columns)
            plan.columns = (plan.columns + 1) / 2;
        else
            plan.channels = (plan.channels + 1) / 2;
        cut(p, &plan);
    }
    while (elements_of(&plan) > capacity && plan.columns * plan.rows > 1) {
        if (plan.images > 1 && plan.channels > MIN_CHANNELS)
            plan.channels = (plan.channels + 1) / 2;
        else if (plan.columns >= plan.rows)
            plan.columns = (plan.columns + 1) / 2;
        else
            plan.rows = (plan.rows + 1) / 2;
        cut(p, &plan);
    }
    plan.slice = talc_cpu_aligned((size_t)(elements_of(&plan) * size));
    return plan;
}

// ---- Running ------------------------------------------------------------------------------------

typedef struct im2col_context {
    const talc_conv2d_problem *problem;
    const talc_conv2d_arguments *arguments;
    im2col_plan plan;
} im2col_context;

/* The part of y that a task computes. */
typedef struct im2col_target {
    int64_t n, images;    /* first image, how many */
    int64_t g;            /* group */
    int64_t oc, channels; /* first output channel of all, how many */
    int64_t j, columns;   /* first output of a plane, how many */
} im2col_target;

static im2col_target target_of(const talc_conv2d_problem *p, const im2col_plan *plan, int64_t task)
{
    const int64_t OC = p->OC / p->groups;
    const int64_t channel = task % plan->channel_blocks * plan->channels;
    task /= plan->channel_blocks;
    im2col_target t = { .j = plan->images > 1 ? 0 : task % plan->column_blocks * plan->columns };
    task /= plan->column_blocks;
    t.g = task % p->groups;
    t.n = task / p->groups * plan->images;
    t.images = talc_smaller(plan->images, p->N - t.n);
    t.oc = t.g * OC + channel;
    t.channels = talc_smaller(plan->channels, OC - channel);
    t.columns = plan->images > 1 ? plan->P : talc_smaller(plan->columns, plan->P - t.j);
    return t;
}

/* The first element that a task computes of a row of its product, of one of its images. */
static int64_t element_at(const talc_conv2d_problem *p, const im2col_target *t, int64_t image,
                          int64_t oc)
{
    return ((t->n + image) * p->OC + t->oc + oc) * p->OH * p->OW + t->j;
}

/* The input channels that a task of the gradient computes. */
typedef struct im2col_planes {
    int64_t image; /* and group: n * groups + g */
    int64_t channel, channels;
} im2col_planes;

static im2col_planes planes_of(const talc_conv2d_problem *p, const im2col_plan *plan, int64_t task)
{
    const int64_t channel = task % plan->channel_blocks * plan->channels;
    return (im2col_planes){ task / plan->channel_blocks, channel,
                            talc_smaller(plan->channels, made_of(p) - channel) };
}

static void im2col_task(void *context, int64_t task, int worker)
{
    const im2col_context *c = context;
    const talc_conv2d_problem *p = c->problem;
    const talc_conv2d_arguments *a = c->arguments;
    const im2col_plan *plan = &c->plan;
    const im2col_target t = target_of(p, plan, task);
    const int64_t size = (int64_t)talc_dtype_size(p->dtype), plane = p->H * p->W;
    const talc_cpu_im2col_block block = { p, t.j, t.columns, plan->columns };
    const bool buffered = plan->images > 1;

    char *B = (char *)a->base.workspace + (size_t)worker * plan->slice;
    char *y = (char *)a->y + element_at(p, &t, 0, 0) * size;
    char *C = buffered ? B + plan->rows * plan->columns * size : y;
    const int64_t ldc = buffered ? plan->columns : plan->P;

    talc_openblas_enter();
    for (int64_t k = 0; k < plan->K; k += plan->rows) {
        const int64_t rows = talc_smaller(plan->rows, plan->K - k);
        for (int64_t i = 0; i < t.images; i++)
            talc_cpu_im2col_fill(
                &block,
                talc_cpu_at(p->dtype, a->x, ((t.n + i) * p->C + t.g * (p->C / p->groups)) * plane),
                k, rows, B + i * plan->P * size);
        talc_blas_gemm(p->dtype, false, false, t.channels, t.images * t.columns, rows, 1,
                       talc_cpu_at(p->dtype, a->w, t.oc * plan->K + k), plan->K, B, plan->columns,
                       k == 0 ? 0 : 1, C, ldc);
    }
    talc_openblas_leave();
    if (!buffered && !talc_cpu_conv2d_has_epilogue(p))
        return;
    for (int64_t i = 0; i < t.images; i++)
        for (int64_t oc = 0; oc < t.channels; oc++) {
            const int64_t at = element_at(p, &t, i, oc);
            char *row = (char *)a->y + at * size;
            if (buffered)
                memcpy(row, C + (oc * ldc + i * plan->P) * size, (size_t)(plan->P * size));
            talc_cpu_conv2d_epilogue(p, t.oc + oc, t.columns, row, a->bias,
                                     talc_cpu_at(p->dtype, a->residual, at));
        }
}

/* The gradient by the input: columns of dB, a few rows at a time, to planes that begin as zeros. */
static void input_task(void *context, int64_t task, int worker)
{
    const im2col_context *c = context;
    const talc_conv2d_problem *p = c->problem;
    const talc_conv2d_arguments *a = c->arguments;
    const im2col_plan *plan = &c->plan;
    const int64_t size = (int64_t)talc_dtype_size(p->dtype), taps = p->KH * p->KW;
    const int64_t IC = p->C / p->groups, OC = p->OC / p->groups, plane = p->H * p->W;
    const im2col_planes of = planes_of(p, plan, task);
    const int64_t channel = of.channel, channels = of.channels, image = of.image;
    const int64_t end = (channel + channels) * taps;
    const void *w = talc_cpu_at(p->dtype, a->w, image % p->groups * OC * plan->K);
    char *dB = (char *)a->base.workspace + (size_t)worker * plan->slice;
    char *dx = (char *)a->dx + image * IC * plane * size;

    memset(dx + channel * plane * size, 0, (size_t)(channels * plane * size));
    talc_openblas_enter();
    for (int64_t j = 0; j < plan->P; j += plan->columns) {
        const talc_cpu_im2col_block block = { p, j, talc_smaller(plan->columns, plan->P - j),
                                              plan->columns };
        for (int64_t k = channel * taps; k < end; k += plan->rows) {
            const int64_t rows = talc_smaller(plan->rows, end - k);
            talc_blas_gemm(p->dtype, true, false, rows, block.count, OC, 1,
                           talc_cpu_at(p->dtype, w, k), plan->K,
                           talc_cpu_at(p->dtype, a->dy, image * OC * plan->P + j), plan->P, 0, dB,
                           plan->columns);
            talc_cpu_im2col_add(&block, dB, k, rows, dx);
        }
    }
    talc_openblas_leave();
}

const char *talc_cpu_conv2d_im2col_plan(const talc_device *device, const void *problem,
                                        size_t limit, talc_plan *plan)
{
    (void)device;
    const talc_conv2d_problem *p = problem;
    if (talc_cpu_refuses(p->dtype) != NULL)
        return talc_cpu_refuses(p->dtype);
    if (p->direction == TALC_GRAD_WEIGHT)
        return "it has no gradient by the weights";
    const im2col_plan planned = plan_of(p, limit);
    plan->workspace = talc_cpu_workspace(tasks_of(p, &planned), 0, planned.slice, limit);
    talc_plan_store(plan, &planned, sizeof planned);
    return talc_openblas_refuses();
}

talc_status talc_cpu_conv2d_im2col_run(talc_device *device, const void *problem,
                                       const talc_plan *plan, const void *arguments)
{
    (void)device;
    const im2col_plan *planned = talc_plan_data(plan);
    im2col_context context = { problem, arguments, *planned };
    return talc_cpu_parallel_limited(tasks_of(problem, planned),
                                     (int)(plan->workspace / planned->slice),
                                     is_input(problem) ? input_task : im2col_task, &context);
}

// ---- The map ------------------------------------------------------------------------------------

enum { TASK, IMAGE, ROW, COLUMN, LEVELS };

typedef struct im2col_map {
    talc_conv2d_problem problem;
    im2col_plan plan;
} im2col_map;

static int64_t map_element(const talc_owner_map *map, const int64_t numbers[])
{
    const im2col_map *m = (const im2col_map *)map->data.bytes;
    const talc_conv2d_problem *p = &m->problem;
    if (is_input(p)) {
        const im2col_planes of = planes_of(p, &m->plan, numbers[TASK]);
        if (numbers[ROW] >= of.channels)
            return -1;
        return (of.image * made_of(p) + of.channel + numbers[ROW]) * p->H * p->W + numbers[COLUMN];
    }
    const im2col_target t = target_of(p, &m->plan, numbers[TASK]);
    return numbers[IMAGE] < t.images && numbers[ROW] < t.channels && numbers[COLUMN] < t.columns
               ? element_at(p, &t, numbers[IMAGE], numbers[ROW]) + numbers[COLUMN]
               : -1;
}

const char *talc_cpu_conv2d_im2col_map(const talc_map_target *target, const void *problem,
                                       size_t limit, talc_owner_map *map)
{
    (void)target;
    const talc_conv2d_problem *p = problem;
    if (p->direction == TALC_GRAD_WEIGHT)
        return "it has no gradient by the weights";
    const im2col_map own = { *p, plan_of(p, limit) };
    const im2col_plan *plan = &own.plan;
    const bool several = plan->images > 1;
    *map = (talc_owner_map){
        .levels = LEVELS,
        .level = { [TASK] = { "task", TALC_LEVEL_TASK, tasks_of(p, plan) },
                   [IMAGE] = { "image", TALC_LEVEL_TILE, plan->images },
                   [ROW] = { is_input(p) ? "plane" : "row of the product", TALC_LEVEL_TILE,
                             plan->channels },
                   [COLUMN] = { is_input(p) ? "pixel" : "column of the product", TALC_LEVEL_TILE,
                                is_input(p) ? p->H * p->W
                                : several   ? plan->P
                                            : plan->columns } },
        .element = map_element,
    };
    if (!is_input(p)) {
        map->loops = 2;
        map->loop[0] = (talc_loop){ "rows of B", TALC_LOOP_TERM, plan->rows,
                                    talc_ceil_div(plan->K, plan->rows), TALC_LEVEL_SEQUENCE };
        map->loop[1] = (talc_loop){ "row of B, in OpenBLAS", TALC_LOOP_TERM, 1, plan->rows,
                                    TALC_LEVEL_SEQUENCE };
    }
    snprintf(map->text, sizeof map->text, "%s of %lld rows x %lld columns, then OpenBLAS",
             is_input(p) ? "blocks of dB" : "blocks of B", (long long)plan->rows,
             (long long)plan->columns);
    memcpy(map->data.bytes, &own, sizeof own);
    return NULL;
}
