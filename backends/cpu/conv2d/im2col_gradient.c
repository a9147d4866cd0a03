/// The gradients of a convolution as matrix products. For each image n and group g, with B and K as
/// in im2col.c,
///
///     dB[k, j] = sum over oc of w[g, oc, k] * dy[n, g, oc, j]
///     dx: dB added to the pixels that B was read from
///     dw[g, oc, k] = sum over n, j of dy[n, g, oc, j] * B[k, j]
///
/// Input: a task is a block of input channels of one image, or of several images when planes are
/// small. It makes dB a block at a time in the worker's slice of the workspace and adds it to the
/// planes, which no other task writes. Weight: a task is a block of rows k times a part of the
/// images and columns (split_k.h). It builds B a block at a time, and OpenBLAS adds the products
/// up.
///
/// Where a block has several images, their dy is copied side by side, so that one product serves
/// them all. Sums are in the data's type. The blocks follow from the problem and the workspace
/// limit alone, so every number of threads gives the same bits.
#include "backends/cpu/device/blas.h"
#include "backends/cpu/conv2d/im2col.h"
#include "backends/cpu/conv2d/split_k.h"
#include "backends/cpu/primitives/element.h"
#include "backends/cpu/device/openblas.h"
#include "tensor/extent.h"

#include <string.h>

/* As in the forward pass: a block and its operands are to stay in a core's caches, and few tasks
 * get smaller blocks. */
enum {
    ROWS = 256,
    COLUMNS = 1024,
    MIN_COLUMNS = 256,
    TASKS = 16,
    SLICE_BYTES = 2 << 20,
};

typedef struct gradient_plan {
    int64_t K;        /* rows of B */
    int64_t P;        /* outputs of one plane */
    int64_t rows;     /* of B in a block */
    int64_t columns;  /* of B in a block */
    int64_t images;   /* in a block; more than 1 only when it holds whole planes */
    int64_t channels; /* input channels in a task of the input's gradient */
    int64_t column_blocks, image_blocks, channel_blocks, row_blocks;
    talc_cpu_partial partial; /* of the weight's gradient */
    size_t slice;             /* bytes of workspace for each worker */
} gradient_plan;

static void cut(const talc_conv2d_problem *p, gradient_plan *plan)
{
    plan->images = plan->P <= plan->columns / 2 ? talc_even(p->N, plan->columns / plan->P) : 1;
    plan->columns = plan->images > 1 ? plan->images * plan->P
                                     : talc_cpu_im2col_aligned(talc_even(plan->P, plan->columns));
    plan->image_blocks = talc_ceil_div(p->N, plan->images);
    plan->column_blocks = plan->images > 1 ? 1 : talc_ceil_div(plan->P, plan->columns);
    plan->channel_blocks = talc_ceil_div(p->C / p->groups, plan->channels);
    plan->row_blocks = talc_ceil_div(plan->K, plan->rows);
}

/* How many tasks there can be: the weight's gradient can have a part for each block of columns. */
static int64_t pieces_at_most(const talc_conv2d_problem *p, const gradient_plan *plan)
{
    return plan->image_blocks * p->groups *
           (p->direction == TALC_GRAD_INPUT ? plan->channel_blocks
                                            : plan->column_blocks * plan->row_blocks);
}

static int64_t elements_of(const talc_conv2d_problem *p, const gradient_plan *plan)
{
    return plan->columns * (plan->rows + (plan->images > 1 ? p->OC / p->groups : 0));
}

/* Fewer columns and channels while there are few tasks. */
static void cut_finer(const talc_conv2d_problem *p, gradient_plan *plan)
{
    const bool input = p->direction == TALC_GRAD_INPUT;
    while (pieces_at_most(p, plan) < TASKS &&
           ((plan->images > 1 && plan->columns > MIN_COLUMNS) || (input && plan->channels > 1) ||
            (!input && plan->columns > MIN_COLUMNS))) {
        if (plan->columns > MIN_COLUMNS && (plan->images > 1 || !input))
            plan->columns = (plan->columns + 1) / 2;
        else
            plan->channels = (plan->channels + 1) / 2;
        cut(p, plan);
    }
}

static gradient_plan plan_of(const talc_conv2d_problem *p, size_t limit)
{
    const int64_t size = (int64_t)talc_dtype_size(p->dtype), taps = p->KH * p->KW;
    const int64_t room = (int64_t)(limit / 4 < SLICE_BYTES ? limit / 4 : SLICE_BYTES) / size;
    gradient_plan plan = { .K = p->C / p->groups * taps, .P = p->OH * p->OW };
    plan.rows = talc_even(plan.K, ROWS);
    plan.columns = COLUMNS;
    plan.channels = p->C / p->groups;
    cut(p, &plan);
    cut_finer(p, &plan);
    while (elements_of(p, &plan) > room && plan.columns * plan.rows > 1) {
        if (plan.images > 1 || plan.columns >= plan.rows)
            plan.columns = (plan.columns + 1) / 2;
        else
            plan.rows = (plan.rows + 1) / 2;
        cut(p, &plan);
    }
    plan.partial = talc_cpu_partial_of(p, p->groups * plan.row_blocks,
                                       plan.image_blocks * plan.column_blocks, limit);
    plan.slice = ((size_t)(elements_of(p, &plan) * size) + 63) / 64 * 64;
    return plan;
}

static int64_t tasks_of(const talc_conv2d_problem *p, const gradient_plan *plan)
{
    return p->groups * (p->direction == TALC_GRAD_INPUT ? plan->image_blocks * plan->channel_blocks
                                                        : plan->partial.parts * plan->row_blocks);
}

// ---- Blocks -------------------------------------------------------------------------------------

typedef struct gradient_context {
    const talc_conv2d_problem *problem;
    const talc_conv2d_arguments *arguments;
    gradient_plan plan;
    char *slices; /* of the workspace */
} gradient_context;

/* Some columns of B in some images, and their dy [OC/groups, columns]. */
typedef struct gradient_block {
    talc_cpu_im2col_block columns;
    int64_t n, images;
    int64_t total; /* columns of all the images together */
    const void *dy;
    int64_t dy_ld;
} gradient_block;

/* `staged` has room for the dy of several images. */
static gradient_block block_of(const gradient_context *c, int64_t g, int64_t image_block,
                               int64_t column_block, char *staged)
{
    const talc_conv2d_problem *p = c->problem;
    const gradient_plan *plan = &c->plan;
    const int64_t OC = p->OC / p->groups, P = plan->P, size = (int64_t)talc_dtype_size(p->dtype);
    const int64_t j = column_block * plan->columns;
    gradient_block b = { .n = image_block * plan->images, .dy_ld = P };
    b.images = talc_smaller(plan->images, p->N - b.n);
    b.columns =
        (talc_cpu_im2col_block){ p, j, plan->images > 1 ? P : talc_smaller(plan->columns, P - j),
                                 plan->columns };
    b.total = b.images * b.columns.count;
    b.dy = talc_cpu_at(p->dtype, c->arguments->dy, (b.n * p->OC + g * OC) * P + j);
    if (b.images == 1)
        return b;
    for (int64_t oc = 0; oc < OC; oc++)
        for (int64_t i = 0; i < b.images; i++)
            memcpy(staged + (oc * b.total + i * P) * size,
                   talc_cpu_at(p->dtype, b.dy, (i * p->OC + oc) * P), (size_t)(P * size));
    b.dy = staged;
    b.dy_ld = b.total;
    return b;
}

/* The first plane of an image and group, in x or dx. */
static const void *planes_at(const talc_conv2d_problem *p, const void *x, int64_t n, int64_t g)
{
    return talc_cpu_at(p->dtype, x, (n * p->C + g * (p->C / p->groups)) * p->H * p->W);
}

static void input_task(void *context, int64_t task, int worker)
{
    const gradient_context *c = context;
    const talc_conv2d_problem *p = c->problem;
    const gradient_plan *plan = &c->plan;
    const int64_t size = (int64_t)talc_dtype_size(p->dtype), taps = p->KH * p->KW;
    const int64_t OC = p->OC / p->groups, plane = p->H * p->W;
    const int64_t channel = task % plan->channel_blocks * plan->channels;
    const int64_t g = task / plan->channel_blocks % p->groups;
    const int64_t image_block = task / plan->channel_blocks / p->groups;
    const int64_t channels = talc_smaller(plan->channels, p->C / p->groups - channel);
    char *dB = c->slices + (size_t)worker * plan->slice;
    char *staged = dB + plan->rows * plan->columns * size;

    talc_openblas_enter();
    for (int64_t j = 0; j < plan->column_blocks; j++) {
        const gradient_block b = block_of(c, g, image_block, j, staged);
        for (int64_t i = 0; j == 0 && i < b.images; i++)
            memset((char *)planes_at(p, c->arguments->dx, b.n + i, g) + channel * plane * size, 0,
                   (size_t)(channels * plane * size));
        const int64_t end = (channel + channels) * taps;
        for (int64_t k = channel * taps; k < end; k += plan->rows) {
            const int64_t rows = talc_smaller(plan->rows, end - k);
            talc_blas_gemm(p->dtype, true, false, rows, b.total, OC, 1,
                           talc_cpu_at(p->dtype, c->arguments->w, g * OC * plan->K + k), plan->K,
                           b.dy, b.dy_ld, 0, dB, plan->columns);
            for (int64_t i = 0; i < b.images; i++)
                talc_cpu_im2col_add(&b.columns, dB + i * plan->P * size, k, rows,
                                    (void *)planes_at(p, c->arguments->dx, b.n + i, g));
        }
    }
    talc_openblas_leave();
}

static void weight_task(void *context, int64_t task, int worker)
{
    const gradient_context *c = context;
    const talc_conv2d_problem *p = c->problem;
    const gradient_plan *plan = &c->plan;
    const int64_t size = (int64_t)talc_dtype_size(p->dtype), OC = p->OC / p->groups;
    const int64_t k = task % plan->row_blocks * plan->rows;
    const int64_t g = task / plan->row_blocks % p->groups;
    const int64_t part = task / plan->row_blocks / p->groups;
    const int64_t rows = talc_smaller(plan->rows, plan->K - k);
    const talc_range terms = talc_cpu_partial_terms(&plan->partial, part);
    char *B = c->slices + (size_t)worker * plan->slice;
    char *staged = B + plan->rows * plan->columns * size;
    void *dw = talc_cpu_partial_at(&plan->partial, p, c->arguments, part, g * OC * plan->K + k);

    talc_openblas_enter();
    for (int64_t term = terms.lo; term < terms.hi; term++) {
        const gradient_block b =
            block_of(c, g, term / plan->column_blocks, term % plan->column_blocks, staged);
        for (int64_t i = 0; i < b.images; i++)
            talc_cpu_im2col_fill(&b.columns, planes_at(p, c->arguments->x, b.n + i, g), k, rows,
                                 B + i * plan->P * size);
        talc_blas_gemm(p->dtype, false, true, OC, rows, b.total, 1, b.dy, b.dy_ld, B, plan->columns,
                       term == terms.lo ? 0 : 1, dw, plan->K);
    }
    talc_openblas_leave();
}

// ---- The row ------------------------------------------------------------------------------------

/* Of the workspace: a part's dw comes before the workers' slices. */
static size_t shared_bytes(const talc_conv2d_problem *p, const gradient_plan *plan)
{
    return p->direction == TALC_GRAD_WEIGHT ? talc_cpu_partial_bytes(&plan->partial) : 0;
}

const char *talc_cpu_im2col_gradient_plan(const talc_conv2d_problem *problem, size_t limit,
                                          talc_plan *plan)
{
    const gradient_plan own = plan_of(problem, limit);
    const size_t shared = shared_bytes(problem, &own);
    plan->workspace = talc_cpu_workspace(tasks_of(problem, &own), shared, own.slice, limit);
    talc_plan_keep(plan, &own, sizeof own);
    return talc_openblas_refuses();
}

talc_status talc_cpu_im2col_gradient_run(const talc_conv2d_problem *problem, const talc_plan *plan,
                                         const talc_conv2d_arguments *arguments)
{
    const gradient_plan *own = talc_plan_own(plan);
    const size_t shared = shared_bytes(problem, own);
    gradient_context c = { problem, arguments, *own, (char *)arguments->base.workspace + shared };
    const bool input = problem->direction == TALC_GRAD_INPUT;
    const talc_status status = talc_cpu_parallel_limited(
        tasks_of(problem, own), (int)((plan->workspace - shared) / own->slice),
        input ? input_task : weight_task, &c);
    return status != TALC_OK || input ? status
                                      : talc_cpu_partial_sum(&own->partial, problem, arguments);
}
