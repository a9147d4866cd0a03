/// The input gradient of batch normalisation, with those of weight and bias.
///
///     dbias[c] = sum g,    dweight[c] = sum g x^,    x^ = (x - mean[c]) rstd[c],    g = dy
///     dx = weight[c] rstd[c] (g - (dbias[c] + x^ dweight[c]) / M) in training, weight[c] rstd[c] g otherwise
///
/// dy, x, dx [N, C, H, W], the rest [C], contiguous; M = N H W.
///
///   blocks     The sums of a channel are taken block by block in f64 and added in the blocks' order; then dx is arithmetic in
///              the data's type. Threads share the blocks.
///   reference  the formula, channel by channel, in f64.
#include "backends/cpu/batch_norm2d_blocks.h"

/* Sums of g and of g (x - mean). */
typedef struct gradient_sums {
    double g, product;
} gradient_sums;

/* dx = g * by_g + (x - mean) * by_x + shift; outside training by_g alone. */
typedef struct gradient_affine {
    double mean, by_g, by_x, shift;
} gradient_affine;

typedef struct gradient_context {
    const talc_batch_norm2d_problem *problem;
    const talc_batch_norm2d_arguments *arguments;
    talc_cpu_blocks plan;
    gradient_affine *affine; /* [C] */
    gradient_sums *sums;     /* [C][blocks] */
} gradient_context;

static gradient_affine affine_of(const talc_batch_norm2d_problem *p,
                                 const talc_batch_norm2d_arguments *a, int64_t c, double dweight,
                                 double dbias)
{
    const double M = (double)p->N * (double)p->H * (double)p->W;
    const double rstd = talc_cpu_load(p->dtype, a->rstd, c);
    const double scale = talc_cpu_weight(p->dtype, a->weight, c) * rstd;
    return (gradient_affine){ talc_cpu_load(p->dtype, a->mean, c), scale,
                              -scale * rstd * (dweight / M), -scale * (dbias / M) };
}

// ---- blocks -------------------------------------------------------------------------------------------------

#define ADD_TERM(lane, i)                                                                          \
    do {                                                                                           \
        const double g = (double)dy_row[i];                                                        \
        sums[lane] += g;                                                                           \
        products[lane] += g * ((double)x_row[i] - mean);                                           \
    } while (0)

#define TYPED_FUNCTIONS(suffix, T)                                                                 \
    static gradient_sums sums_##suffix(talc_cpu_block b, const T *x, const T *dy, double mean)     \
    {                                                                                              \
        double sums[LANES] = { 0 }, products[LANES] = { 0 };                                       \
        for (int64_t row = 0; row < b.rows; row++) {                                               \
            const T *x_row = x + row * b.row_stride, *dy_row = dy + row * b.row_stride;            \
            int64_t i = 0;                                                                         \
            for (; i + LANES <= b.length; i += LANES)                                              \
                for (int j = 0; j < LANES; j++)                                                    \
                    ADD_TERM(j, i + j);                                                            \
            for (int j = 0; i < b.length; i++, j++)                                                \
                ADD_TERM(j, i);                                                                    \
        }                                                                                          \
        return (gradient_sums){ talc_cpu_lanes_sum(sums), talc_cpu_lanes_sum(products) };          \
    }                                                                                              \
                                                                                                   \
    static void input_##suffix(int64_t n, bool training, const T *x, const T *dy, T *restrict dx,  \
                               gradient_affine by)                                                 \
    {                                                                                              \
        const T mean = (T)by.mean, by_g = (T)by.by_g, by_x = (T)by.by_x, shift = (T)by.shift;      \
        if (training)                                                                              \
            for (int64_t i = 0; i < n; i++)                                                        \
                dx[i] = dy[i] * by_g + ((x[i] - mean) * by_x + shift);                             \
        else                                                                                       \
            for (int64_t i = 0; i < n; i++)                                                        \
                dx[i] = dy[i] * by_g;                                                              \
    }

TYPED_FUNCTIONS(f32, float)
TYPED_FUNCTIONS(f64, double)

static void sums_task(void *pointer, int64_t task, int worker)
{
    (void)worker;
    const gradient_context *context = pointer;
    const talc_dtype dtype = context->problem->dtype;
    const talc_batch_norm2d_arguments *a = context->arguments;
    const talc_cpu_block b = talc_cpu_block_of(context->problem, &context->plan, task);
    const void *x = talc_cpu_at(dtype, a->x, b.offset), *dy = talc_cpu_at(dtype, a->dy, b.offset);
    const double mean = talc_cpu_load(dtype, a->mean, b.c);
    context->sums[task] = TALC_CPU_VALUE(dtype, sums, (b, x, dy, mean));
}

static void input_task(void *pointer, int64_t task, int worker)
{
    (void)worker;
    const gradient_context *context = pointer;
    const talc_batch_norm2d_problem *p = context->problem;
    const talc_batch_norm2d_arguments *a = context->arguments;
    const talc_cpu_block b = talc_cpu_block_of(p, &context->plan, task);
    for (int64_t row = 0; row < b.rows; row++) {
        const int64_t at = b.offset + row * b.row_stride;
        const void *x = talc_cpu_at(p->dtype, a->x, at), *dy = talc_cpu_at(p->dtype, a->dy, at);
        void *dx = (char *)a->dx + at * (int64_t)talc_dtype_size(p->dtype);
        TALC_CPU_CALL(p->dtype, input, (b.length, p->training, x, dy, dx, context->affine[b.c]));
    }
}

size_t talc_cpu_batch_norm2d_gradient_workspace(const talc_batch_norm2d_problem *p)
{
    if (p->N == 0 || p->H * p->W == 0)
        return 0;
    const size_t blocks = (size_t)talc_cpu_blocks_of(p).blocks;
    return (size_t)p->C * (sizeof(gradient_affine) + blocks * sizeof(gradient_sums));
}

talc_status talc_cpu_batch_norm2d_gradient(const talc_batch_norm2d_problem *p,
                                           const talc_batch_norm2d_arguments *a)
{
    gradient_context context = { p, a, talc_cpu_blocks_of(p), a->base.workspace, NULL };
    const int64_t blocks = context.plan.blocks;
    context.sums = (gradient_sums *)(context.affine + p->C);
    const talc_status status = talc_cpu_parallel(p->C * blocks, sums_task, &context);
    if (status != TALC_OK)
        return status;
    for (int64_t c = 0; c < p->C; c++) {
        gradient_sums all = { 0, 0 };
        for (int64_t i = 0; i < blocks; i++) {
            all.g += context.sums[c * blocks + i].g;
            all.product += context.sums[c * blocks + i].product;
        }
        const double dweight = all.product * talc_cpu_load(p->dtype, a->rstd, c);
        talc_cpu_store(p->dtype, a->dweight, c, dweight);
        talc_cpu_store(p->dtype, a->dbias, c, all.g);
        context.affine[c] = affine_of(p, a, c, dweight, all.g);
    }
    return talc_cpu_parallel(p->C * blocks, input_task, &context);
}

// ---- reference ----------------------------------------------------------------------------------------------

static void reference_channel(const talc_batch_norm2d_problem *p,
                              const talc_batch_norm2d_arguments *a, int64_t c)
{
    const int64_t N = p->N, C = p->C, HW = p->H * p->W;
    const double M = (double)N * (double)HW;
    const double mean = talc_cpu_load(p->dtype, a->mean, c);
    const double rstd = talc_cpu_load(p->dtype, a->rstd, c);
    double dweight = 0, dbias = 0;
    for (int64_t n = 0; n < N; n++)
        for (int64_t at = (n * C + c) * HW; at < (n * C + c + 1) * HW; at++) {
            const double g = talc_cpu_load(p->dtype, a->dy, at);
            dbias += g;
            dweight += g * ((talc_cpu_load(p->dtype, a->x, at) - mean) * rstd);
        }
    for (int64_t n = 0; n < N; n++)
        for (int64_t at = (n * C + c) * HW; at < (n * C + c + 1) * HW; at++) {
            double g = talc_cpu_load(p->dtype, a->dy, at);
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
