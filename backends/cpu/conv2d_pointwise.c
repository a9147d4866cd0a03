/// 1x1 convolution as a matrix product without any copy. For each image n and group g,
///
///     y[n, g, oc, j] = sum over ic of w[g, oc, ic] * x[n, g, ic, j],        j = oh * OW + ow
///
/// since an image's planes [C/groups, H*W] are the matrix already. A task is a block of columns j times a block
/// of output channels, whose bias, residual and activation follow while it is in cache. Sums are in the data's type, by
/// OpenBLAS. The blocks follow from the problem alone, so every number of threads gives the same bits.
#include "backends/cpu/blas.h"
#include "backends/cpu/conv2d_epilogue.h"
#include "backends/cpu/conv2d_rows.h"
#include "backends/cpu/element.h"
#include "backends/cpu/openblas.h"
#include "backends/cpu/threads.h"
#include "tensor/extent.h"

/* OpenBLAS multiplies blocks of COLUMNS within a few percent of the rate of wider ones. With fewer tasks than TASKS some threads
 * wait for the last one, so then blocks are narrower, and divided by output channels too. */
enum { COLUMNS = 2048, NARROW = 512, CHANNELS = 128, TASKS = 8 };

typedef struct pointwise_context {
    const talc_conv2d_problem *problem;
    const talc_conv2d_arguments *arguments;
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

    const int64_t channel = task % c->channel_blocks * c->channels;
    const int64_t j = task / c->channel_blocks % c->column_blocks * c->columns;
    const int64_t plane = task / c->channel_blocks / c->column_blocks; /* n * groups + g */
    const int64_t n = plane / p->groups, g = plane % p->groups, first = g * OC + channel;
    const int64_t channels = talc_smaller(c->channels, OC - channel),
                  columns = talc_smaller(c->columns, P - j);

    const void *x = talc_cpu_at(p->dtype, a->x, (n * p->C + g * IC) * P + j);
    const int64_t at = (n * p->OC + first) * P + j;
    char *y = (char *)a->y + at * (int64_t)talc_dtype_size(p->dtype);
    talc_openblas_enter();
    talc_blas_gemm(p->dtype, false, false, channels, columns, IC, 1,
                   talc_cpu_at(p->dtype, a->w, first * IC), IC, x, P, 0, y, P);
    talc_openblas_leave();
    if (!talc_cpu_conv2d_has_epilogue(p))
        return;
    for (int64_t oc = 0; oc < channels; oc++)
        talc_cpu_conv2d_epilogue(p, first + oc, columns,
                                 y + oc * P * (int64_t)talc_dtype_size(p->dtype), a->bias,
                                 talc_cpu_at(p->dtype, a->residual, at + oc * P));
}

const char *talc_cpu_conv2d_pointwise_plan(const talc_device *device, const void *problem,
                                           size_t limit, talc_plan *plan)
{
    (void)device, (void)limit, (void)plan;
    const talc_conv2d_problem *p = problem;
    if (p->direction != TALC_FORWARD)
        return "only the forward direction";
    if (talc_cpu_refuses(p->dtype) != NULL)
        return talc_cpu_refuses(p->dtype);
    if (p->KH != 1 || p->KW != 1)
        return "the kernel is not 1x1";
    if (p->stride_h != 1 || p->stride_w != 1)
        return "the stride is not 1";
    if (p->pad_top != 0 || p->pad_left != 0 || p->pad_bottom != 0 || p->pad_right != 0)
        return "there is padding";
    return talc_openblas_refuses();
}

talc_status talc_cpu_conv2d_pointwise_run(talc_device *device, const void *problem,
                                          const talc_plan *plan, const void *arguments)
{
    (void)device, (void)plan;
    const talc_conv2d_problem *p = problem;
    const int64_t OC = p->OC / p->groups, P = p->OH * p->OW;
    pointwise_context c = { .problem = p, .arguments = arguments };
    const int64_t wanted = talc_ceil_div(TASKS, p->N * p->groups);
    c.column_blocks = talc_larger(talc_ceil_div(P, COLUMNS), talc_smaller(wanted, P / NARROW));
    c.columns = talc_ceil_div(talc_ceil_div(P, c.column_blocks), 16) * 16;
    c.column_blocks = talc_ceil_div(P, c.columns);
    const int64_t planes = p->N * p->groups * c.column_blocks;
    const int64_t most = talc_smaller(talc_ceil_div(TASKS, planes), talc_ceil_div(OC, CHANNELS));
    c.channels = talc_ceil_div(OC, most);
    c.channel_blocks = talc_ceil_div(OC, c.channels);
    return talc_cpu_parallel(planes * c.channel_blocks, pointwise_task, &c);
}
