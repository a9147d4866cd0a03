/// The input gradient of batch normalisation, with those of weight, bias and residual.
///
///     dbias[c] = sum g,    dweight[c] = sum g x^,    x^ = (x - mean[c]) rstd[c],
///     dresidual = g = dy act'
///     dx = weight[c] rstd[c] (g - (dbias[c] + x^ dweight[c]) / M) in training,
///          weight[c] rstd[c] g otherwise
///
/// dy, x, y, dx, dresidual [N, C, H, W], the rest [C], contiguous; M = N H W. act' is worked out
/// from y.
///
///   blocks     The sums of a channel are taken block by block in f64 and added in the blocks'
///              order; then dx is worked out as ops/norm.h says. Threads share the blocks. Behind
///              an activation g is made a stretch at a time, in both passes; where the residual has
///              a gradient, the first writes it there and the second reads it.
///   reference  the formula, channel by channel, in f64.
#include "backends/cpu/primitives/activation.h"
#include "backends/cpu/norm/batch_norm2d_blocks.h"
#include "backends/cpu/primitives/stream.h"

typedef struct gradient_context {
    const talc_batch_norm2d_problem *problem;
    const talc_batch_norm2d_arguments *arguments;
    talc_cpu_blocks cut;
    talc_norm_gradient *affine; /* [C] */
    talc_cpu_sums *sums;        /* [C][parts] */
} gradient_context;

static talc_norm_gradient affine_of(const talc_batch_norm2d_problem *p,
                                    const talc_batch_norm2d_arguments *a, int64_t c,
                                    const talc_cpu_sums *all)
{
    const double M = (double)p->N * (double)p->H * (double)p->W;
    return talc_cpu_norm_gradient_of(p->dtype, a->mean[c], a->rstd[c],
                                     talc_cpu_weight(p->dtype, a->weight, c) * a->rstd[c], all, M);
}

// ---- blocks -------------------------------------------------------------------------------------

/* Values of g that are worked out at once. */
enum { G_VALUES = 1024 };

/* g of the next `count` values: dy, or made of dy and y, where the gradient of the residual is
 * wanted in its place. */
static const void *g_of(const gradient_context *context, int64_t at, int64_t count, void *capacity)
{
    const talc_dtype dtype = context->problem->dtype;
    const talc_batch_norm2d_arguments *a = context->arguments;
    const void *dy = talc_cpu_at(dtype, a->dy, at);
    if (context->problem->activation == TALC_ACTIVATION_NONE)
        return dy;
    void *g = a->dresidual == NULL ? capacity
                                   : (char *)a->dresidual + at * (int64_t)talc_dtype_size(dtype);
    talc_cpu_activation_gradient(dtype, context->problem->activation, count, g, dy,
                                 talc_cpu_at(dtype, a->y, at));
    return g;
}

static void sums_task(void *pointer, int64_t task, int worker)
{
    (void)worker;
    const gradient_context *context = pointer;
    const talc_dtype dtype = context->problem->dtype;
    const talc_batch_norm2d_arguments *a = context->arguments;
    const talc_cpu_block b = talc_cpu_block_of(context->problem, &context->cut, task);
    double capacity[G_VALUES];
    for (int64_t c = b.c; c < b.end; c++) {
        const double mean = a->mean[c];
        talc_cpu_sums *sums = &context->sums[c * context->cut.parts + b.part];
        int64_t at = b.offset + (c - b.c) * b.c_step;
        *sums = (talc_cpu_sums){ 0, 0 };
        if (context->problem->activation == TALC_ACTIVATION_NONE)
            TALC_CPU_CALL(dtype, talc_cpu_norm,
                          .add_sums(&b.at, talc_cpu_at(dtype, a->x, at),
                                    talc_cpu_at(dtype, a->dy, at), NULL, mean, sums));
        else
            for (int64_t image = 0; image < b.at.rows; image++, at += b.at.step)
                for (int64_t first = 0; first < b.at.length; first += G_VALUES) {
                    const int64_t n = talc_smaller(G_VALUES, b.at.length - first);
                    const void *g = g_of(context, at + first, n, capacity);
                    TALC_CPU_CALL(dtype, talc_cpu_norm,
                                  .add_sums(&(talc_cpu_stretches){ 1, n, 0 },
                                            talc_cpu_at(dtype, a->x, at + first), g, NULL, mean,
                                            sums));
                }
    }
}

/* dx of n values of channel c. */
static void write_input(const gradient_context *context, int64_t c, int64_t at, int64_t n,
                        bool streams)
{
    const talc_batch_norm2d_problem *p = context->problem;
    const talc_batch_norm2d_arguments *a = context->arguments;
    const talc_norm_gradient *by = &context->affine[c];
    double capacity[G_VALUES];
    const void *g = a->dresidual != NULL ? talc_cpu_at(p->dtype, a->dresidual, at)
                                         : g_of(context, at, n, capacity);
    void *dx = (char *)a->dx + at * (int64_t)talc_dtype_size(p->dtype);
    if (p->training)
        TALC_CPU_CALL(
            p->dtype, talc_cpu_norm,
            .input_gradient(n, streams, talc_cpu_at(p->dtype, a->x, at), g, NULL, dx, by));
    else /* an infinite x has no part in dx */
        TALC_CPU_CALL(p->dtype, talc_cpu_norm, .scale(n, g, dx, by->by_g));
}

static void input_task(void *pointer, int64_t task, int worker)
{
    (void)worker;
    const gradient_context *context = pointer;
    const talc_batch_norm2d_problem *p = context->problem;
    const talc_cpu_block b = talc_cpu_block_of(p, &context->cut, task);
    const int64_t size = (int64_t)talc_dtype_size(p->dtype);
    const bool streams = talc_cpu_streams(p->N * p->C * p->H * p->W * size, b.at.length * size);
    for (int64_t image = 0; image < b.at.rows; image++)
        for (int64_t c = b.c; c < b.end; c++)
            for (int64_t first = 0; first < b.at.length; first += G_VALUES)
                write_input(context, c, b.offset + image * b.at.step + (c - b.c) * b.c_step + first,
                            talc_smaller(G_VALUES, b.at.length - first), streams);
    if (streams)
        talc_cpu_stream_end();
}

size_t talc_cpu_batch_norm2d_gradient_workspace(const talc_batch_norm2d_problem *p)
{
    if (p->N == 0 || p->H * p->W == 0)
        return 0;
    const size_t parts = (size_t)talc_cpu_blocks_of(p, PART_VALUES).parts;
    return (size_t)p->C * (sizeof(talc_norm_gradient) + parts * sizeof(talc_cpu_sums));
}

talc_status talc_cpu_batch_norm2d_gradient(const talc_batch_norm2d_problem *p,
                                           const talc_batch_norm2d_arguments *a)
{
    gradient_context context = { p, a, talc_cpu_blocks_of(p, PART_VALUES), a->base.workspace,
                                 NULL };
    const int64_t parts = context.cut.parts;
    context.sums = (talc_cpu_sums *)(context.affine + p->C);
    const talc_status status = talc_cpu_parallel(context.cut.blocks, sums_task, &context);
    if (status != TALC_OK)
        return status;
    for (int64_t c = 0; c < p->C; c++) {
        talc_cpu_sums all = { 0, 0 };
        for (int64_t i = 0; i < parts; i++) {
            all.g += context.sums[c * parts + i].g;
            all.product += context.sums[c * parts + i].product;
        }
        talc_cpu_store(p->dtype, a->dweight, c, all.product * a->rstd[c]);
        talc_cpu_store(p->dtype, a->dbias, c, all.g);
        context.affine[c] = affine_of(p, a, c, &all);
    }
    context.cut = talc_cpu_blocks_of(p, 1);
    return talc_cpu_parallel(context.cut.blocks, input_task, &context);
}

// ---- reference ----------------------------------------------------------------------------------

static double reference_g(const talc_batch_norm2d_problem *p, const talc_batch_norm2d_arguments *a,
                          int64_t at)
{
    double g = talc_cpu_load(p->dtype, a->dy, at);
    if (p->activation == TALC_ACTIVATION_NONE)
        return g;
    const double y = talc_cpu_load(p->dtype, a->y, at);
    talc_cpu_activation_gradient(TALC_F64, p->activation, 1, &g, &g, &y);
    return g;
}

static void reference_channel(const talc_batch_norm2d_problem *p,
                              const talc_batch_norm2d_arguments *a, int64_t c)
{
    const int64_t N = p->N, C = p->C, HW = p->H * p->W;
    const double M = (double)N * (double)HW;
    const double mean = a->mean[c], rstd = a->rstd[c];
    double dweight = 0, dbias = 0;
    for (int64_t n = 0; n < N; n++)
        for (int64_t at = (n * C + c) * HW; at < (n * C + c + 1) * HW; at++) {
            const double g = reference_g(p, a, at);
            if (a->dresidual != NULL)
                talc_cpu_store(p->dtype, a->dresidual, at, g);
            dbias += g;
            dweight += g * ((talc_cpu_load(p->dtype, a->x, at) - mean) * rstd);
        }
    for (int64_t n = 0; n < N; n++)
        for (int64_t at = (n * C + c) * HW; at < (n * C + c + 1) * HW; at++) {
            double g = reference_g(p, a, at);
            const double normalised = (talc_cpu_load(p->dtype, a->x, at) - mean) * rstd;
            if (p->training)
                g -= (dbias + normalised * dweight) / M;
            talc_cpu_store(p->dtype, a->dx, at, talc_cpu_weight(p->dtype, a->weight, c) * rstd * g);
        }
    talc_cpu_store(p->dtype, a->dweight, c, dweight);
    talc_cpu_store(p->dtype, a->dbias, c, dbias);
}

talc_status talc_cpu_batch_norm2d_gradient_reference(const talc_batch_norm2d_problem *p,
                                                     const talc_batch_norm2d_arguments *a)
{
    for (int64_t c = 0; c < p->C; c++)
        reference_channel(p, a, c);
    return TALC_OK;
}
