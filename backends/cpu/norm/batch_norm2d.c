/// Batch normalisation of images.
///
///     y[n, c, h, w] = act( (x[n, c, h, w] - mu[c]) * rstd[c] * weight[c] + bias[c]
///                          + residual[n, c, h, w] ),      rstd = 1 / sqrt(var + eps)
///
/// x, residual, y [N, C, H, W], the rest [C], contiguous; outside training x may have gaps between
/// its images. The running statistics are written, and the batch is counted, when everything else
/// is done. The input gradient of both algorithms is in batch_norm2d_gradient.c.
///
///   blocks     The images are cut into blocks of about 16384 values: some channels of some images,
///              or part of a plane. Each block gives the mean and the sum of squared deviations of
///              its part of each channel, in f64; Chan's formula joins a channel's parts in their
///              order. Threads share the blocks. The last step is that of ops/norm.h.
///   reference  the formula, channel by channel, in f64.
///
/// Source: Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing
/// sample variances", 1979.
#include "backends/cpu/primitives/activation.h"
#include "backends/cpu/norm/batch_norm2d_blocks.h"
#include "backends/cpu/cpu.h"
#include "backends/cpu/primitives/element.h"
#include "backends/cpu/primitives/stream.h"
#include "backends/cpu/device/threads.h"
#include "tensor/extent.h"

#include <math.h>

/* Writes the mean, rstd and running statistics of one channel. */
static void keep_statistics(const talc_batch_norm2d_problem *p,
                            const talc_batch_norm2d_arguments *a, int64_t c, double mean,
                            double var)
{
    if (a->mean != NULL)
        a->mean[c] = mean;
    if (a->rstd != NULL)
        a->rstd[c] = 1 / sqrt(var + p->eps);
    if (a->running_mean == NULL || p->momentum == 0)
        return;
    const double M = (double)p->N * (double)p->H * (double)p->W;
    const double m = p->momentum;
    const double old_mean = talc_cpu_load(p->dtype, a->running_mean, c);
    const double old_var = talc_cpu_load(p->dtype, a->running_var, c);
    talc_cpu_store(p->dtype, a->running_mean, c, (1 - m) * old_mean + m * mean);
    talc_cpu_store(p->dtype, a->running_var, c, (1 - m) * old_var + m * (var * M / (M - 1)));
}

static void count_batch(const talc_batch_norm2d_problem *p, const talc_batch_norm2d_arguments *a)
{
    if (p->training && a->num_batches_tracked != NULL)
        ++*a->num_batches_tracked;
}

static const char *reference_plan(const talc_device *device, const void *problem, size_t limit,
                                  talc_plan *plan)
{
    (void)device, (void)limit, (void)plan;
    const talc_batch_norm2d_problem *p = problem;
    return p->direction == TALC_GRAD_WEIGHT ? "the input gradient has that of the weight too"
                                            : talc_cpu_refuses(p->dtype);
}

// ---- blocks -------------------------------------------------------------------------------------

typedef struct norm_context {
    const talc_batch_norm2d_problem *problem;
    const talc_batch_norm2d_arguments *arguments;
    talc_cpu_blocks cut;
    talc_cpu_moments *moments; /* [C][parts] */
    talc_cpu_affine *affine;   /* [C] */
} norm_context;

static void moments_task(void *pointer, int64_t task, int worker)
{
    (void)worker;
    const norm_context *context = pointer;
    const talc_cpu_block b = talc_cpu_block_of(context->problem, &context->cut, task);
    const talc_dtype dtype = context->problem->dtype;
    for (int64_t c = b.c, at = b.offset; c < b.end; c++, at += b.c_step)
        context->moments[c * context->cut.parts + b.part] =
            talc_cpu_moments_of(dtype, &b.at, talc_cpu_at(dtype, context->arguments->x, at));
}

static void normalise_task(void *pointer, int64_t task, int worker)
{
    (void)worker;
    const norm_context *context = pointer;
    const talc_batch_norm2d_problem *p = context->problem;
    const talc_cpu_block b = talc_cpu_block_of(p, &context->cut, task);
    const int64_t size = (int64_t)talc_dtype_size(p->dtype);
    const bool streams = p->activation == TALC_ACTIVATION_NONE &&
                         talc_cpu_streams(p->N * p->C * p->H * p->W * size, b.at.length * size);
    for (int64_t n = 0; n < b.at.rows; n++) {
        int64_t at = b.offset + n * b.at.step;
        const int64_t gaps = at / b.at.step * context->arguments->x_gap;
        for (int64_t c = b.c; c < b.end; c++, at += b.c_step) {
            const void *x = talc_cpu_at(p->dtype, context->arguments->x, at + gaps);
            const void *residual = talc_cpu_at(p->dtype, context->arguments->residual, at);
            void *y = (char *)context->arguments->y + at * (int64_t)talc_dtype_size(p->dtype);
            TALC_CPU_CALL(
                p->dtype, talc_cpu_norm,
                .normalise(b.at.length, streams, x, NULL, residual, y, &context->affine[c]));
            talc_cpu_activate(p->dtype, p->activation, b.at.length, y);
        }
    }
    if (streams)
        talc_cpu_stream_end();
}

static talc_cpu_affine affine_of(const talc_batch_norm2d_problem *p,
                                 const talc_batch_norm2d_arguments *a, int64_t c, double mean,
                                 double var)
{
    return talc_cpu_affine_of(p->dtype, mean,
                              talc_cpu_weight(p->dtype, a->weight, c) / sqrt(var + p->eps),
                              talc_cpu_bias(p->dtype, a->bias, c));
}

static size_t blocks_workspace(const talc_batch_norm2d_problem *p)
{
    const size_t C = (size_t)p->C;
    if (p->N == 0 || p->H * p->W == 0)
        return 0;
    const size_t parts = p->training ? C * (size_t)talc_cpu_blocks_of(p, PART_VALUES).parts : 0;
    return parts * sizeof(talc_cpu_moments) + C * sizeof(talc_cpu_affine);
}

static const char *blocks_plan(const talc_device *device, const void *problem, size_t limit,
                               talc_plan *plan)
{
    const talc_batch_norm2d_problem *p = problem;
    plan->workspace = p->direction == TALC_FORWARD ? blocks_workspace(p)
                                                   : talc_cpu_batch_norm2d_gradient_workspace(p);
    return reference_plan(device, problem, limit, plan);
}

static talc_status blocks_run(talc_device *device, const void *problem, const talc_plan *planned,
                              const void *arguments)
{
    (void)device, (void)planned;
    const talc_batch_norm2d_problem *p = problem;
    const talc_batch_norm2d_arguments *a = arguments;
    if (p->direction == TALC_GRAD_INPUT)
        return talc_cpu_batch_norm2d_gradient(p, a);
    norm_context context = { p, a, talc_cpu_blocks_of(p, PART_VALUES), NULL, a->base.workspace };
    const int64_t parts = context.cut.parts;
    context.moments = (talc_cpu_moments *)(context.affine + p->C);
    talc_status status = TALC_OK;
    if (p->training)
        status = talc_cpu_parallel(context.cut.blocks, moments_task, &context);
    for (int64_t c = 0; c < p->C && status == TALC_OK; c++) {
        talc_cpu_moments *of_channel = context.moments + c * parts;
        if (p->training)
            *of_channel = talc_cpu_join_moments(of_channel, parts);
        const double mean =
            p->training ? of_channel->mean : talc_cpu_load(p->dtype, a->running_mean, c);
        const double var = p->training ? of_channel->squares / of_channel->count
                                       : talc_cpu_load(p->dtype, a->running_var, c);
        context.affine[c] = affine_of(p, a, c, mean, var);
    }
    context.cut = talc_cpu_blocks_of(p, 1);
    if (status == TALC_OK)
        status = talc_cpu_parallel(context.cut.blocks, normalise_task, &context);
    for (int64_t c = 0; c < p->C && status == TALC_OK && p->training; c++) {
        const talc_cpu_moments *all = context.moments + c * parts;
        keep_statistics(p, a, c, all->mean, all->squares / all->count);
    }
    if (status == TALC_OK)
        count_batch(p, a);
    return status;
}

// ---- reference ----------------------------------------------------------------------------------

static void reference_channel(const talc_batch_norm2d_problem *p,
                              const talc_batch_norm2d_arguments *a, int64_t c)
{
    const int64_t N = p->N, C = p->C, HW = p->H * p->W;
    const double M = (double)N * (double)HW;
    double mean = 0, var = 0;
    if (p->training) {
        for (int64_t n = 0; n < N; n++)
            for (int64_t hw = 0; hw < HW; hw++)
                mean += talc_cpu_load(p->dtype, a->x, (n * C + c) * HW + hw) / M;
        for (int64_t n = 0; n < N; n++)
            for (int64_t hw = 0; hw < HW; hw++) {
                const double deviation =
                    talc_cpu_load(p->dtype, a->x, (n * C + c) * HW + hw) - mean;
                var += deviation * deviation / M;
            }
    } else {
        mean = talc_cpu_load(p->dtype, a->running_mean, c);
        var = talc_cpu_load(p->dtype, a->running_var, c);
    }
    const double weight = talc_cpu_weight(p->dtype, a->weight, c),
                 bias = talc_cpu_bias(p->dtype, a->bias, c);
    for (int64_t n = 0; n < N; n++)
        for (int64_t hw = 0; hw < HW; hw++) {
            const int64_t at = (n * C + c) * HW + hw;
            const double x = talc_cpu_load(p->dtype, a->x, at + n * a->x_gap);
            const double residual =
                a->residual == NULL ? 0 : talc_cpu_load(p->dtype, a->residual, at);
            const double y = (x - mean) / sqrt(var + p->eps) * weight + bias + residual;
            talc_cpu_store(p->dtype, a->y, at, talc_cpu_activation(p->activation, y));
        }
    if (p->training)
        keep_statistics(p, a, c, mean, var);
}

static talc_status reference_run(talc_device *device, const void *problem, const talc_plan *planned,
                                 const void *arguments)
{
    (void)device, (void)planned;
    const talc_batch_norm2d_problem *p = problem;
    if (p->direction == TALC_GRAD_INPUT)
        return talc_cpu_batch_norm2d_gradient_reference(p, arguments);
    for (int64_t c = 0; c < p->C; c++)
        reference_channel(p, arguments, c);
    count_batch(p, arguments);
    return TALC_OK;
}

// clang-format off
const talc_algorithm talc_cpu_batch_norm2d[] = {
    { "blocks", NULL, { "f64 statistics, then the data's own type", TALC_STRICT, false }, blocks_plan,  blocks_run },
    { "reference", NULL, { "f64 accumulation",                         TALC_STRICT, true },  reference_plan, reference_run },
    { .name = NULL },
};
// clang-format on
