/// 1x1 convolution as a matrix product without any copy. For each image n and group g,
///
///     y[n, g, oc, j] = sum over ic of w[g, oc, ic] * x[n, g, ic, j],        j = oh * OW + ow
///     dx[n, g, ic, j] = sum over oc of w[g, oc, ic] * dy[n, g, oc, j]
///     dw[g, oc, ic] = sum over n, j of dy[n, g, oc, j] * x[n, g, ic, j]
///
/// since an image's planes [C/groups, H*W] are the matrix already. A task of y or dx is a block of
/// columns j times a block of channels; y's bias, residual and activation follow while it is in
/// cache. One of dw is a block of output channels times a split of the images and columns
/// (split_k.h). Sums are in the data's type, by OpenBLAS. The blocks follow from the problem alone,
/// dw's from the workspace limit too, so every number of threads gives the same bits.
#include "backends/cpu/device/blas.h"
#include "backends/cpu/primitives/epilogue.h"
#include "backends/cpu/conv2d/split_k.h"
#include "backends/cpu/conv2d/algorithms.h"
#include "backends/cpu/primitives/element.h"
#include "backends/cpu/device/openblas.h"
#include "backends/cpu/device/threads.h"
#include "tensor/extent.h"

/* OpenBLAS multiplies blocks of COLUMNS within a few percent of the rate of wider ones. With fewer
 * tasks than TASKS some threads wait for the last one, so then blocks are narrower, and divided by
 * output channels too. */
enum { COLUMNS = 2048, NARROW = 512, CHANNELS = 128, TASKS = 8 };

// ---- y and dx: one channel exchanged for the other ----------------------------------------------

typedef struct pointwise_context {
    const talc_conv2d_problem *problem;
    const talc_conv2d_arguments *arguments;
    const void *from;          /* x or dy */
    char *to;                  /* y or dx */
    int64_t made;              /* channels of `to` in a group */
    int64_t summed;            /* channels of `from` in a group */
    int64_t columns, channels; /* of a block */
    int64_t column_blocks, channel_blocks;
} pointwise_context;

static void pointwise_task(void *context, int64_t task, int worker)
{
    (void)worker;
    const pointwise_context *c = context;
    const talc_conv2d_problem *p = c->problem;
    const talc_conv2d_arguments *a = c->arguments;
    const int64_t IC = p->C / p->groups, OC = p->OC / p->groups, P = p->OH * p->OW;
    const bool forward = p->direction == TALC_FORWARD;

    const int64_t channel = task % c->channel_blocks * c->channels;
    const int64_t j = task / c->channel_blocks % c->column_blocks * c->columns;
    const int64_t plane = task / c->channel_blocks / c->column_blocks; /* n * groups + g */
    const int64_t g = plane % p->groups;
    const int64_t channels = talc_smaller(c->channels, c->made - channel),
                  columns = talc_smaller(c->columns, P - j);

    const int64_t at = (plane * c->made + channel) * P + j;
    char *to = c->to + at * (int64_t)talc_dtype_size(p->dtype);
    talc_openblas_enter();
    talc_blas_gemm(p->dtype, !forward, false, channels, columns, c->summed, 1,
                   talc_cpu_at(p->dtype, a->w, g * OC * IC + channel * (forward ? IC : 1)), IC,
                   talc_cpu_at(p->dtype, c->from, plane * c->summed * P + j), P, 0, to, P);
    talc_openblas_leave();
    if (!talc_cpu_conv2d_has_epilogue(p))
        return;
    for (int64_t oc = 0; oc < channels; oc++)
        talc_cpu_conv2d_epilogue(p, g * OC + channel + oc, columns,
                                 to + oc * P * (int64_t)talc_dtype_size(p->dtype), a->bias,
                                 talc_cpu_at(p->dtype, a->residual, at + oc * P));
}

static talc_status exchange_channels(const talc_conv2d_problem *p, const talc_conv2d_arguments *a)
{
    const int64_t IC = p->C / p->groups, OC = p->OC / p->groups, P = p->OH * p->OW;
    const bool forward = p->direction == TALC_FORWARD;
    pointwise_context c = { .problem = p,
                            .arguments = a,
                            .from = forward ? a->x : a->dy,
                            .to = forward ? a->y : a->dx,
                            .made = forward ? OC : IC,
                            .summed = forward ? IC : OC };
    const int64_t wanted = talc_ceil_div(TASKS, p->N * p->groups);
    c.column_blocks = talc_larger(talc_ceil_div(P, COLUMNS), talc_smaller(wanted, P / NARROW));
    c.columns = talc_round_up(talc_ceil_div(P, c.column_blocks), 16);
    c.column_blocks = talc_ceil_div(P, c.columns);
    const int64_t planes = p->N * p->groups * c.column_blocks;
    const int64_t max = talc_smaller(talc_ceil_div(TASKS, planes), talc_ceil_div(c.made, CHANNELS));
    c.channels = talc_ceil_div(c.made, max);
    c.channel_blocks = talc_ceil_div(c.made, c.channels);
    return talc_cpu_parallel(planes * c.channel_blocks, pointwise_task, &c);
}

// ---- dw -----------------------------------------------------------------------------------------

typedef struct weight_plan {
    int64_t column_blocks;            /* of an image */
    int64_t channels, channel_blocks; /* output channels */
    talc_cpu_split_k split_k;
} weight_plan;

typedef struct weight_context {
    const talc_conv2d_problem *problem;
    const talc_conv2d_arguments *arguments;
    weight_plan plan;
} weight_context;

static weight_plan weight_plan_of(const talc_conv2d_problem *p, size_t limit)
{
    const int64_t OC = p->OC / p->groups;
    weight_plan plan = { .column_blocks = talc_ceil_div(p->OH * p->OW, COLUMNS) };
    plan.channel_blocks = talc_ceil_div(OC, CHANNELS);
    plan.channels = talc_ceil_div(OC, plan.channel_blocks);
    plan.channel_blocks = talc_ceil_div(OC, plan.channels);
    plan.split_k =
        talc_cpu_split_k_of(p, p->groups * plan.channel_blocks, p->N * plan.column_blocks, limit);
    return plan;
}

static void weight_task(void *context, int64_t task, int worker)
{
    (void)worker;
    const weight_context *c = context;
    const talc_conv2d_problem *p = c->problem;
    const talc_conv2d_arguments *a = c->arguments;
    const int64_t IC = p->C / p->groups, OC = p->OC / p->groups, P = p->OH * p->OW;
    const int64_t channel = task % c->plan.channel_blocks * c->plan.channels;
    const int64_t g = task / c->plan.channel_blocks % p->groups;
    const int64_t split = task / c->plan.channel_blocks / p->groups;
    const int64_t channels = talc_smaller(c->plan.channels, OC - channel);
    const talc_range terms = talc_cpu_split_k_terms(&c->plan.split_k, split);
    void *dw = talc_cpu_split_k_at(&c->plan.split_k, p, a, split, (g * OC + channel) * IC);
    talc_openblas_enter();
    for (int64_t term = terms.lo; term < terms.hi; term++) {
        const int64_t plane = term / c->plan.column_blocks * p->groups + g;
        const int64_t j = term % c->plan.column_blocks * COLUMNS;
        talc_blas_gemm(p->dtype, false, true, channels, IC, talc_smaller(COLUMNS, P - j), 1,
                       talc_cpu_at(p->dtype, a->dy, (plane * OC + channel) * P + j), P,
                       talc_cpu_at(p->dtype, a->x, plane * IC * P + j), P, term == terms.lo ? 0 : 1,
                       dw, IC);
    }
    talc_openblas_leave();
}

// ---- The algorithm ------------------------------------------------------------------------------

const char *talc_cpu_conv2d_pointwise_plan(const talc_device *device, const void *problem,
                                           size_t limit, talc_plan *plan)
{
    (void)device;
    const talc_conv2d_problem *p = problem;
    if (talc_cpu_refuses(p->dtype) != NULL)
        return talc_cpu_refuses(p->dtype);
    if (p->KH != 1 || p->KW != 1)
        return "the kernel is not 1x1";
    if (p->stride_h != 1 || p->stride_w != 1)
        return "the stride is not 1";
    if (p->pad_top != 0 || p->pad_left != 0 || p->pad_bottom != 0 || p->pad_right != 0)
        return "there is padding";
    if (p->direction == TALC_GRAD_WEIGHT) {
        const weight_plan planned = weight_plan_of(p, limit);
        plan->workspace = talc_cpu_split_k_bytes(&planned.split_k);
        talc_plan_store(plan, &planned, sizeof planned);
    }
    return talc_openblas_refuses();
}

talc_status talc_cpu_conv2d_pointwise_run(talc_device *device, const void *problem,
                                          const talc_plan *plan, const void *arguments)
{
    (void)device;
    const talc_conv2d_problem *p = problem;
    if (p->direction != TALC_GRAD_WEIGHT)
        return exchange_channels(p, arguments);
    weight_context c = { p, arguments, *(const weight_plan *)talc_plan_data(plan) };
    const talc_cpu_split_k *split_k = &c.plan.split_k;
    const int64_t tasks = split_k->splits * p->groups * c.plan.channel_blocks;
    const talc_status status = talc_cpu_parallel(tasks, weight_task, &c);
    return status != TALC_OK ? status : talc_cpu_split_k_sum(split_k, p, arguments);
}
