/// Group, instance and layer normalisation.
///
///     y[n, c, p] = act( (x[n, c, p] - mu[n, g]) * rstd[n, g] * weight[c] + bias[c] ),
///     rstd = 1 / sqrt(var + eps)
///
/// and its gradient: dbias[c] = sum dy, dweight[c] = sum dy x^, x^ = (x - mu) rstd, and with g = dy
/// weight and M values a row dx = rstd (g - (sum g + x^ sum g x^) / M), the sums over the row.
///
/// x, y, dx [N, C, plane], weight, bias [C], mean, rstd [N * groups], contiguous. A row is a group
/// of a sample, and contiguous too.
///
///   rows       Rows of up to 65536 values, which stay cached, are done at once, several a task;
///              longer ones in parts of 16384, in two passes: moments of each part, joined in their
///              order by Chan's formula, then the normalisation. All sums are taken in f64; the
///              last step is that of ops/norm.h. The sums of dweight and dbias are taken by blocks
///              of samples and channels, of rows done at once while they are cached, and added in
///              the samples' order.
///   reference  the formulas, row by row, in f64.
///
/// Source: Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing
/// sample variances", 1979.
#include "ops/group_norm.h"

#include "backends/cpu/primitives/activation.h"
#include "backends/cpu/cpu.h"
#include "backends/cpu/norm/norm.h"
#include "backends/cpu/primitives/stream.h"
#include "backends/cpu/primitives/target.h"
#include "backends/cpu/device/threads.h"
#include "tensor/extent.h"

enum { ROW_VALUES = 65536, PART_VALUES = 16384, TASK_VALUES = 16384, MAX_SAMPLE_BLOCKS = 64 };

typedef struct norm_context {
    const talc_group_norm_problem *problem;
    const talc_group_norm_arguments *arguments;
    int64_t rows, inner;
    int64_t parts, length;     /* of a row */
    int64_t rows_per_task;     /* where a row is one part */
    bool streams;              /* y and dx, past the caches */
    talc_cpu_moments *moments; /* [rows][parts] */
    talc_cpu_sums *sums;       /* likewise */
} norm_context;

static norm_context context_of(const talc_group_norm_problem *p, const talc_group_norm_arguments *a)
{
    norm_context context = { .problem = p,
                             .arguments = a,
                             .rows = p->N * p->groups,
                             .inner = p->groups == 0 ? 0 : p->C / p->groups * p->plane };
    context.length = context.inner <= ROW_VALUES ? context.inner : PART_VALUES;
    context.parts = context.length == 0 ? 0 : talc_ceil_div(context.inner, context.length);
    context.rows_per_task = talc_larger(1, TASK_VALUES / talc_larger(1, context.inner));
    context.streams = talc_cpu_streams(
        context.rows * context.inner * (int64_t)talc_dtype_size(p->dtype),
        (p->plane == 1 ? context.inner : p->plane) * (int64_t)talc_dtype_size(p->dtype));
    if (a != NULL) {
        context.moments = a->base.workspace;
        context.sums = a->base.workspace;
    }
    return context;
}

/* Some values of a row whose weights are apart: in a plane there is one. `at` is their place in x,
 * `affine` that of weight. */
typedef struct run_of_values {
    int64_t at, affine, length;
} run_of_values;

/* Those that begin with value `first` of the row, none past `end`. */
static run_of_values run_at(const norm_context *context, int64_t row, int64_t first, int64_t end)
{
    const talc_group_norm_problem *p = context->problem;
    const int64_t c = first / p->plane, plane_end = p->plane == 1 ? end : (c + 1) * p->plane;
    return (run_of_values){ .at = row * context->inner + first,
                            .affine = row % p->groups * (p->C / p->groups) + c,
                            .length = talc_smaller(end, plane_end) - first };
}

#define FOR_RUNS(run, context, row, first, end)                                                    \
    for (run_of_values run = run_at(context, row, first, end);                                     \
         run.at < (row) * (context)->inner + (end);                                                \
         run = run_at(context, row, run.at + run.length - (row) * (context)->inner, end))

static void *writable_at(talc_dtype dtype, void *y, int64_t at)
{
    return (char *)y + at * (int64_t)talc_dtype_size(dtype);
}

// ---- Forward ------------------------------------------------------------------------------------

static talc_cpu_moments moments_of(const norm_context *context, int64_t row, int64_t first,
                                   int64_t length)
{
    const talc_dtype dtype = context->problem->dtype;
    return talc_cpu_moments_of(
        dtype, &(talc_cpu_stretches){ 1, length, 0 },
        talc_cpu_at(dtype, context->arguments->x, row * context->inner + first));
}

static void normalise(const norm_context *context, const talc_cpu_moments *m, int64_t row,
                      int64_t first, int64_t end)
{
    const talc_group_norm_problem *p = context->problem;
    const talc_group_norm_arguments *a = context->arguments;
    const double rstd = 1 / sqrt(m->squares / m->count + p->eps);
    const bool streams = p->activation == TALC_ACTIVATION_NONE && context->streams;
    FOR_RUNS(run, context, row, first, end)
    {
        const void *x = talc_cpu_at(p->dtype, a->x, run.at);
        void *y = writable_at(p->dtype, a->y, run.at);
        const bool values = p->plane == 1; /* have weights of their own */
        const void *weight = talc_cpu_at(p->dtype, a->weight, run.affine),
                   *bias = talc_cpu_at(p->dtype, a->bias, run.affine);
        const talc_cpu_affine by = talc_cpu_affine_of(
            p->dtype, m->mean, values ? rstd : rstd * talc_cpu_weight(p->dtype, weight, 0),
            values ? 0 : talc_cpu_bias(p->dtype, bias, 0));
        TALC_CPU_CALL(p->dtype, talc_cpu_norm,
                      .normalise(run.length, streams, x, values ? weight : NULL,
                                 values ? bias : NULL, y, &by));
    }
    if (streams)
        talc_cpu_stream_end();
    talc_cpu_activate(p->dtype, p->activation, end - first,
                      writable_at(p->dtype, a->y, row * context->inner + first));
}

static void keep_statistics(const norm_context *context, int64_t row, const talc_cpu_moments *m)
{
    const talc_group_norm_problem *p = context->problem;
    const talc_group_norm_arguments *a = context->arguments;
    if (a->mean != NULL)
        a->mean[row] = m->mean;
    if (a->rstd != NULL)
        a->rstd[row] = 1 / sqrt(m->squares / m->count + p->eps);
}

static void rows_task(void *pointer, int64_t task, int worker)
{
    (void)worker;
    const norm_context *context = pointer;
    const int64_t end = talc_smaller(context->rows, (task + 1) * context->rows_per_task);
    for (int64_t row = task * context->rows_per_task; row < end; row++) {
        const talc_cpu_moments m = moments_of(context, row, 0, context->inner);
        normalise(context, &m, row, 0, context->inner);
        keep_statistics(context, row, &m);
    }
}

static void part_moments_task(void *pointer, int64_t task, int worker)
{
    (void)worker;
    const norm_context *context = pointer;
    const int64_t first = task % context->parts * context->length;
    context->moments[task] = moments_of(context, task / context->parts, first,
                                        talc_smaller(context->length, context->inner - first));
}

static void part_normalise_task(void *pointer, int64_t task, int worker)
{
    (void)worker;
    const norm_context *context = pointer;
    const int64_t row = task / context->parts, first = task % context->parts * context->length;
    normalise(context, &context->moments[row * context->parts], row, first,
              talc_smaller(context->inner, first + context->length));
}

static talc_status forward(norm_context *context)
{
    if (context->parts == 1)
        return talc_cpu_parallel(talc_ceil_div(context->rows, context->rows_per_task), rows_task,
                                 context);
    const int64_t tasks = context->rows * context->parts;
    const talc_status status = talc_cpu_parallel(tasks, part_moments_task, context);
    for (int64_t row = 0; row < context->rows && status == TALC_OK; row++) {
        talc_cpu_moments *of_row = &context->moments[row * context->parts];
        *of_row = talc_cpu_join_moments(of_row, context->parts);
        keep_statistics(context, row, of_row);
    }
    return status == TALC_OK ? talc_cpu_parallel(tasks, part_normalise_task, context) : status;
}

// ---- Input gradient -----------------------------------------------------------------------------

/* The weights of a run's values, which have one each only where a plane is a value; NULL: they have
 * one together, or 1. */
static const void *weights_of(const norm_context *context, const run_of_values *run)
{
    const talc_group_norm_problem *p = context->problem;
    return p->plane == 1 ? talc_cpu_at(p->dtype, context->arguments->weight, run->affine) : NULL;
}

/* Those of planes are added to `channels` too, with x^, where that is not NULL. */
static talc_cpu_sums sums_of(const norm_context *context, int64_t row, int64_t first, int64_t end,
                             talc_cpu_sums *channels)
{
    const talc_group_norm_problem *p = context->problem;
    const talc_group_norm_arguments *a = context->arguments;
    const double mean = a->mean[row];
    talc_cpu_sums all = { 0, 0 };
    FOR_RUNS(run, context, row, first, end)
    {
        const void *x = talc_cpu_at(p->dtype, a->x, run.at);
        const void *dy = talc_cpu_at(p->dtype, a->dy, run.at);
        const void *weights = weights_of(context, &run);
        talc_cpu_sums sums = { 0, 0 };
        TALC_CPU_CALL(
            p->dtype, talc_cpu_norm,
            .add_sums(&(talc_cpu_stretches){ 1, run.length, 0 }, x, dy, weights, mean, &sums));
        const double weight =
            weights != NULL ? 1 : talc_cpu_weight(p->dtype, a->weight, run.affine);
        all.g += weight * sums.g;
        all.product += weight * sums.product;
        if (channels != NULL && p->plane > 1) {
            channels[run.affine].g += sums.g;
            channels[run.affine].product += sums.product * a->rstd[row];
        }
    }
    return all;
}

static void write_input(const norm_context *context, const talc_cpu_sums *all, int64_t row,
                        int64_t first, int64_t end)
{
    const talc_group_norm_problem *p = context->problem;
    const talc_group_norm_arguments *a = context->arguments;
    const double M = (double)context->inner, rstd = a->rstd[row];
    talc_norm_gradient by = talc_cpu_norm_gradient_of(p->dtype, a->mean[row], rstd, rstd, all, M);
    const bool wide = by.wide;
    FOR_RUNS(run, context, row, first, end)
    {
        const void *x = talc_cpu_at(p->dtype, a->x, run.at);
        const void *dy = talc_cpu_at(p->dtype, a->dy, run.at);
        void *dx = writable_at(p->dtype, a->dx, run.at);
        const void *weights = weights_of(context, &run);
        by.by_g = weights != NULL ? rstd : rstd * talc_cpu_weight(p->dtype, a->weight, run.affine);
        by.wide = wide || !(weights != NULL ? talc_norm_takes_weights(rstd)
                                            : talc_norm_has_digits(by.by_g));
        TALC_CPU_CALL(p->dtype, talc_cpu_norm,
                      .input_gradient(run.length, context->streams, x, dy, weights, dx, &by));
    }
    if (context->streams)
        talc_cpu_stream_end();
}

static void part_sums_task(void *pointer, int64_t task, int worker)
{
    (void)worker;
    const norm_context *context = pointer;
    const int64_t first = task % context->parts * context->length;
    context->sums[task] = sums_of(context, task / context->parts, first,
                                  talc_smaller(context->inner, first + context->length), NULL);
}

static void part_input_task(void *pointer, int64_t task, int worker)
{
    (void)worker;
    const norm_context *context = pointer;
    const int64_t row = task / context->parts, first = task % context->parts * context->length;
    write_input(context, &context->sums[row * context->parts], row, first,
                talc_smaller(context->inner, first + context->length));
}

static talc_status part_input_gradient(norm_context *context)
{
    const int64_t tasks = context->rows * context->parts;
    const talc_status status = talc_cpu_parallel(tasks, part_sums_task, context);
    for (int64_t row = 0; row < context->rows && status == TALC_OK; row++) {
        talc_cpu_sums *of_row = &context->sums[row * context->parts];
        for (int64_t i = 1; i < context->parts; i++) {
            of_row->g += of_row[i].g;
            of_row->product += of_row[i].product;
        }
    }
    return status == TALC_OK ? talc_cpu_parallel(tasks, part_input_task, context) : status;
}

// ---- Gradients of weight and bias, and rows at once ---------------------------------------------

/* Blocks of `samples` samples and `channels` channels; of whole groups where rows are done at
 * once. */
typedef struct affine_blocks {
    int64_t samples, channels;
    int64_t of_samples, of_channels; /* blocks */
} affine_blocks;

static affine_blocks affine_blocks_of(const norm_context *context)
{
    const talc_group_norm_problem *p = context->problem;
    affine_blocks blocks = { 0 };
    if (context->parts == 0 || context->rows == 0)
        return blocks;
    const int64_t unit = context->parts == 1 ? p->C / p->groups : 1;
    blocks.channels = talc_smaller(p->C, talc_larger(1, TASK_VALUES / (unit * p->plane)) * unit);
    blocks.samples = talc_larger(talc_larger(1, TASK_VALUES / (blocks.channels * p->plane)),
                                 talc_ceil_div(p->N, MAX_SAMPLE_BLOCKS));
    blocks.of_samples = talc_ceil_div(p->N, blocks.samples);
    blocks.of_channels = talc_ceil_div(p->C, blocks.channels);
    return blocks;
}

/* Of samples [first, last) and channels [begin, end), which have no planes. */
static void add_columns(const norm_context *context, int64_t first, int64_t last, int64_t begin,
                        int64_t end, talc_cpu_sums *sums)
{
    const talc_group_norm_problem *p = context->problem;
    const talc_group_norm_arguments *a = context->arguments;
    const int64_t of_group = p->C / p->groups;
    for (int64_t c = begin, next; c < end; c = next) {
        next = talc_smaller(end, (c / of_group + 1) * of_group);
        const int64_t at = first * p->C + c, row = first * p->groups + c / of_group;
        TALC_CPU_CALL(
            p->dtype, talc_cpu_norm,
            .add_columns(last - first, next - c, p->C, p->groups, talc_cpu_at(p->dtype, a->x, at),
                         talc_cpu_at(p->dtype, a->dy, at), a->mean + row, a->rstd + row, &sums[c]));
    }
}

/* dx too where rows are done at once: dy and x of some samples stay cached then. */
static void affine_task(void *pointer, int64_t task, int worker)
{
    (void)worker;
    const norm_context *context = pointer;
    const talc_group_norm_problem *p = context->problem;
    const affine_blocks blocks = affine_blocks_of(context);
    const int64_t begin = task % blocks.of_channels * blocks.channels,
                  end = talc_smaller(p->C, begin + blocks.channels);
    const int64_t block = task / blocks.of_channels, of_group = p->C / p->groups,
                  last = talc_smaller(p->N, (block + 1) * blocks.samples);
    const bool affine = context->arguments->dweight != NULL, rows = context->parts == 1;
    talc_cpu_sums *sums = affine ? context->sums + block * p->C : NULL;
    for (int64_t c = begin; c < end && affine; c++)
        sums[c] = (talc_cpu_sums){ 0, 0 };
    const int64_t step = talc_larger(1, TASK_VALUES / ((end - begin) * p->plane));
    for (int64_t first = block * blocks.samples, next; first < last; first = next) {
        next = talc_smaller(last, first + step);
        for (int64_t n = first; n < next && (rows || p->plane > 1); n++)
            for (int64_t c = begin; c < end; c += rows ? of_group : 1) {
                const int64_t row = n * p->groups + c / of_group, at = c % of_group * p->plane;
                const talc_cpu_sums all =
                    sums_of(context, row, at, rows ? context->inner : at + p->plane, sums);
                if (rows)
                    write_input(context, &all, row, 0, context->inner);
            }
        if (affine && p->plane == 1)
            add_columns(context, first, next, begin, end, sums);
    }
}

static talc_status affine_gradient(norm_context *context)
{
    const talc_group_norm_problem *p = context->problem;
    const talc_group_norm_arguments *a = context->arguments;
    const affine_blocks blocks = affine_blocks_of(context);
    const talc_status status =
        talc_cpu_parallel(blocks.of_samples * blocks.of_channels, affine_task, context);
    if (status != TALC_OK || a->dweight == NULL)
        return status;
    for (int64_t i = 1; i < blocks.of_samples; i++)
        for (int64_t c = 0; c < p->C; c++) {
            context->sums[c].g += context->sums[i * p->C + c].g;
            context->sums[c].product += context->sums[i * p->C + c].product;
        }
    for (int64_t c = 0; c < p->C; c++) {
        talc_cpu_store(p->dtype, a->dweight, c, context->sums[c].product);
        talc_cpu_store(p->dtype, a->dbias, c, context->sums[c].g);
    }
    return TALC_OK;
}

// ---- rows ---------------------------------------------------------------------------------------

static const char *reference_plan(const talc_device *device, const void *problem, size_t limit,
                                  talc_plan *plan)
{
    (void)device, (void)limit, (void)plan;
    const talc_group_norm_problem *p = problem;
    return p->direction == TALC_GRAD_WEIGHT ? "the input gradient has that of the weight too"
                                            : talc_cpu_refuses(p->dtype);
}

static const char *rows_plan(const talc_device *device, const void *problem, size_t limit,
                             talc_plan *plan)
{
    const talc_group_norm_problem *p = problem;
    const norm_context context = context_of(p, NULL);
    const size_t parts = context.parts > 1 ? (size_t)context.rows * (size_t)context.parts : 0;
    const size_t sums = (size_t)affine_blocks_of(&context).of_samples * (size_t)p->C;
    plan->workspace = p->direction == TALC_FORWARD
                          ? parts * sizeof(talc_cpu_moments)
                          : (parts > sums ? parts : sums) * sizeof(talc_cpu_sums);
    return reference_plan(device, problem, limit, plan);
}

static talc_status rows_run(talc_device *device, const void *problem, const talc_plan *planned,
                            const void *arguments)
{
    (void)device, (void)planned;
    const talc_group_norm_arguments *a = arguments;
    norm_context context = context_of(problem, a);
    if (context.problem->direction == TALC_FORWARD)
        return forward(&context);
    const bool parts = context.parts > 1;
    const talc_status status = parts ? part_input_gradient(&context) : TALC_OK;
    return status != TALC_OK || (parts && a->dweight == NULL) ? status : affine_gradient(&context);
}

// ---- reference ----------------------------------------------------------------------------------

static void reference_row(const norm_context *context, int64_t row)
{
    const talc_group_norm_problem *p = context->problem;
    const talc_group_norm_arguments *a = context->arguments;
    const int64_t begin = row * context->inner, end = begin + context->inner;
    const double M = (double)context->inner;
    double mean = 0, var = 0;
    for (int64_t i = begin; i < end; i++)
        mean += talc_cpu_load(p->dtype, a->x, i) / M;
    for (int64_t i = begin; i < end; i++) {
        const double deviation = talc_cpu_load(p->dtype, a->x, i) - mean;
        var += deviation * deviation / M;
    }
    for (int64_t i = begin; i < end; i++) {
        const int64_t c = i / p->plane % p->C;
        const double y = (talc_cpu_load(p->dtype, a->x, i) - mean) / sqrt(var + p->eps) *
                             talc_cpu_weight(p->dtype, a->weight, c) +
                         talc_cpu_bias(p->dtype, a->bias, c);
        talc_cpu_store(p->dtype, a->y, i, talc_cpu_activation(p->activation, y));
    }
    keep_statistics(context, row, &(talc_cpu_moments){ M, mean, var * M });
}

static void reference_input(const norm_context *context, int64_t row)
{
    const talc_group_norm_problem *p = context->problem;
    const talc_group_norm_arguments *a = context->arguments;
    const int64_t begin = row * context->inner, end = begin + context->inner;
    const double M = (double)context->inner, mean = a->mean[row], rstd = a->rstd[row];
    double sum = 0, product = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t i = begin; i < end; i++) {
            const double g = talc_cpu_load(p->dtype, a->dy, i) *
                             talc_cpu_weight(p->dtype, a->weight, i / p->plane % p->C);
            const double x = (talc_cpu_load(p->dtype, a->x, i) - mean) * rstd;
            if (pass == 0) {
                sum += g;
                product += g * x;
            } else {
                talc_cpu_store(p->dtype, a->dx, i, rstd * (g - (sum + x * product) / M));
            }
        }
}

static void reference_channel(const norm_context *context, int64_t c)
{
    const talc_group_norm_problem *p = context->problem;
    const talc_group_norm_arguments *a = context->arguments;
    double dweight = 0, dbias = 0;
    for (int64_t n = 0; n < p->N; n++)
        for (int64_t i = (n * p->C + c) * p->plane; i < (n * p->C + c + 1) * p->plane; i++) {
            const int64_t row = i / context->inner;
            const double dy = talc_cpu_load(p->dtype, a->dy, i);
            dbias += dy;
            dweight += dy * ((talc_cpu_load(p->dtype, a->x, i) - a->mean[row]) * a->rstd[row]);
        }
    talc_cpu_store(p->dtype, a->dweight, c, dweight);
    talc_cpu_store(p->dtype, a->dbias, c, dbias);
}

static talc_status reference_run(talc_device *device, const void *problem, const talc_plan *planned,
                                 const void *arguments)
{
    (void)device, (void)planned;
    const norm_context context = context_of(problem, arguments);
    const bool forwards = context.problem->direction == TALC_FORWARD;
    for (int64_t row = 0; row < context.rows; row++)
        (forwards ? reference_row : reference_input)(&context, row);
    for (int64_t c = 0; c < context.problem->C && context.arguments->dweight != NULL; c++)
        reference_channel(&context, c);
    return TALC_OK;
}

const talc_algorithm talc_cpu_group_norm[] = {
    { "rows",
      NULL,
      { "f64 statistics, then the data's own type", TALC_STRICT, false },
      rows_plan,
      rows_run },
    { "reference", NULL, { "f64 accumulation", TALC_STRICT, true }, reference_plan, reference_run },
    { .name = NULL },
};
