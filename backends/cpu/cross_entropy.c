/// Cross entropy of classes.
///
///     l = log(sum_j exp(x_j - m)) - (x_t - m),  m = max_j x_j;    with smoothing (1 - e) l + e (log(sum) - mean_j (x_j - m))
///
/// Labels are looked at first, so that a wrong one leaves y as it is. Then threads share tasks of sqrt(n) samples, each with a
/// sum of losses and a count of its own, in f64, which are added in their order: no loss goes through more than 2 sqrt(n)
/// roundings. Terms within a sample are added by blocked summation, sqrt(C) at a time, where f64 has no digits to spare.
///
///   rows       exponentials in the data's type
///   reference  all in f64
#include "backends/cpu/cpu.h"
#include "backends/cpu/element.h"
#include "backends/cpu/threads.h"
#include "backends/cpu/walk.h"
#include "ops/cross_entropy.h"
#include "ops/cross_entropy_label.h"
#include "tensor/extent.h"

#include <tgmath.h>

/* The partial result of a task. */
typedef struct part {
    double sum;
    int64_t count;
} part;

typedef double loss_function(const talc_cross_entropy_problem *p, const void *x, int64_t at,
                             int64_t label);

typedef struct entropy_plan {
    const talc_cross_entropy_problem *problem;
    const talc_cross_entropy_arguments *arguments;
    loss_function *loss;
    int64_t per_task;
    part *parts; /* of the tasks */
} entropy_plan;

static int64_t per_task_of(const talc_cross_entropy_problem *p)
{
    return (int64_t)ceil(sqrt((double)p->samples));
}

/* Terms of a sum that are added one after the other. */
static int64_t terms_per_sum(const talc_cross_entropy_problem *p)
{
    return talc_cpu_is_narrow(p->dtype) ? p->C : (int64_t)ceil(sqrt((double)p->C));
}

static double smoothed(const talc_cross_entropy_problem *p, double log_sum, double from_most,
                       double all)
{
    const double e = p->label_smoothing, loss = log_sum - from_most;
    /* Without smoothing a class of -infinity has no part in it. */
    return e == 0 ? loss : (1 - e) * loss + e * (log_sum - all / (double)p->C);
}

/* A NaN is not larger than anything and may leave m finite; exp then carries it into the sum and so into the loss, as
 * (+infinity) - (+infinity) and (-infinity) - (-infinity) do. */
#define LOSS(name, T, E, load)                                                                     \
    static double name(const talc_cross_entropy_problem *p, const void *pointer, int64_t at,       \
                       int64_t label)                                                              \
    {                                                                                              \
        const T *x = pointer;                                                                      \
        E m = load(0);                                                                             \
        for (int64_t j = 1; j < p->C; j++)                                                         \
            m = load(j) > m ? load(j) : m;                                                         \
        double sum = 0, all = 0;                                                                   \
        const int64_t terms = terms_per_sum(p);                                                    \
        for (int64_t begin = 0; begin < p->C; begin += terms) {                                    \
            double part_sum = 0, part_all = 0;                                                     \
            for (int64_t j = begin; j < talc_smaller(begin + terms, p->C); j++) {                  \
                part_sum += (double)exp(load(j) - m);                                              \
                part_all += (double)load(j) - (double)m;                                           \
            }                                                                                      \
            sum += part_sum;                                                                       \
            all += part_all;                                                                       \
        }                                                                                          \
        return smoothed(p, log(sum), (double)load(label) - (double)m, all);                        \
    }

#define LOAD(j)      (x[at + (j)*p->x_stride])
#define LOAD_WIDE(j) ((double)x[at + (j)*p->x_stride])
#define LOSSES(constant, suffix, T, A)                                                             \
    LOSS(rows_##suffix, T, A, LOAD)                                                                \
    LOSS(wide_##suffix, T, double, LOAD_WIDE)
TALC_CPU_FLOATS(LOSSES)

#define ROWS(constant, suffix, T, A) [constant] = rows_##suffix,
#define WIDE(constant, suffix, T, A) [constant] = wide_##suffix,
static loss_function *const rows[TALC_DTYPE_COUNT] = { TALC_CPU_FLOATS(ROWS) };
static loss_function *const wide[TALC_DTYPE_COUNT] = { TALC_CPU_FLOATS(WIDE) };

// ---- Tasks -------------------------------------------------------------------------------------------------

static void entropy_task(void *context, int64_t task, int worker)
{
    (void)worker;
    const entropy_plan *plan = context;
    const talc_cross_entropy_problem *p = plan->problem;
    const talc_cross_entropy_arguments *a = plan->arguments;
    const int64_t end = talc_smaller(p->samples, (task + 1) * plan->per_task);
    part mine = { 0, 0 };
    for (int64_t i = task * plan->per_task; i < end; i++) {
        double loss = 0;
        if (a->labels[i] != p->ignore_index) {
            loss =
                plan->loss(p, a->x, talc_walk_offset(p->outer_rank, p->outer_dims, p->x_strides, i),
                           a->labels[i]);
            mine.count++;
        }
        mine.sum += loss;
        if (p->reduction == TALC_REDUCTION_NONE)
            talc_cpu_store(p->dtype, a->y, i, loss);
    }
    plan->parts[task] = mine;
}

static talc_status check_labels(const talc_cross_entropy_problem *p, const int64_t *labels)
{
    for (int64_t i = 0; i < p->samples; i++)
        if (labels[i] != p->ignore_index && (labels[i] < 0 || labels[i] >= p->C))
            return talc_cross_entropy_bad_label(i, labels[i], p->C);
    return TALC_OK;
}

static talc_status run(const talc_cross_entropy_problem *p, const talc_cross_entropy_arguments *a,
                       loss_function *loss)
{
    entropy_plan plan = { p, a, loss, per_task_of(p), a->base.workspace };
    const int64_t tasks = talc_ceil_div(p->samples, plan.per_task);
    talc_status status = check_labels(p, a->labels);
    if (status == TALC_OK)
        status = talc_cpu_parallel(tasks, entropy_task, &plan);
    if (status != TALC_OK || p->reduction == TALC_REDUCTION_NONE)
        return status;
    part whole = { 0, 0 };
    for (int64_t i = 0; i < tasks; i++) {
        whole.sum += plan.parts[i].sum;
        whole.count += plan.parts[i].count;
    }
    talc_cpu_store(p->dtype, a->y, 0,
                   p->reduction == TALC_REDUCTION_SUM ? whole.sum
                                                      : whole.sum / (double)whole.count);
    return TALC_OK;
}

// ---- Rows ---------------------------------------------------------------------------------------------------

static const char *forward_plan(const talc_device *device, const void *problem, size_t limit,
                                talc_plan *plan)
{
    (void)device, (void)limit;
    const talc_cross_entropy_problem *p = problem;
    if (p->samples > 0)
        plan->workspace = (size_t)talc_ceil_div(p->samples, per_task_of(p)) * sizeof(part);
    return p->direction == TALC_FORWARD ? talc_cpu_refuses(p->dtype) : "only the forward direction";
}

static talc_status rows_run(talc_device *device, const void *problem, const talc_plan *planned,
                            const void *arguments)
{
    (void)device, (void)planned;
    const talc_cross_entropy_problem *p = problem;
    return run(p, arguments, rows[p->dtype]);
}

static talc_status reference_run(talc_device *device, const void *problem, const talc_plan *planned,
                                 const void *arguments)
{
    (void)device, (void)planned;
    const talc_cross_entropy_problem *p = problem;
    return run(p, arguments, wide[p->dtype]);
}

// clang-format off
const talc_algorithm talc_cpu_cross_entropy[] = {
    { "rows", { "the data's own type, sums in f64", TALC_STRICT, false }, forward_plan, rows_run },
    { "reference", { "f64",                              TALC_STRICT, true },  forward_plan, reference_run },
    { .name = NULL },
};
// clang-format on
