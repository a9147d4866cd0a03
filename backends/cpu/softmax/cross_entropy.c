/// Cross entropy of classes.
///
///     l = log(sum_j exp(x_j - m)) - (x_t - m),  m = max_j x_j;
///     with smoothing (1 - e) l + e (log(sum) - mean_j (x_j - m))
///
/// With class weights each l times that of its class; the gradient as ops/cross_entropy.h has it.
///
/// Labels are looked at first, so that a wrong one leaves y as it is. Then threads share tasks of
/// sqrt(n) samples, each with a sum of losses and a count of its own, in f64, which are added in
/// their order: no loss goes through more than 2 sqrt(n) roundings. Terms within a sample are added
/// in runs of sqrt(C) where f64 has no digits to spare.
///
///   rows       exponentials in the data's type
///   reference  all in f64
#include "backends/cpu/cpu.h"
#include "backends/cpu/primitives/element.h"
#include "backends/cpu/device/threads.h"
#include "backends/cpu/primitives/walk.h"
#include "ops/cross_entropy.h"
#include "ops/labels.h"
#include "tensor/extent.h"

#include <tgmath.h>

/* The largest logit of a sample, and sums over its classes. */
typedef struct row_sums {
    double max;
    double exponentials; /* of x_j - max */
    double differences;  /* x_j - max, times the weight of j */
} row_sums;

typedef struct entropy_plan entropy_plan;
typedef row_sums sums_function(const entropy_plan *plan, int64_t at);

/* dx_j = exp(x_j - max) * scale - w_j * smoothing - [j = label] * of_label */
typedef struct row_gradient {
    double max, scale, smoothing, of_label;
} row_gradient;

typedef void gradient_function(const entropy_plan *plan, int64_t at, int64_t label,
                               row_gradient by);

/* What a task gives: its losses and what their mean divides by. */
typedef struct part {
    double sum, weight;
} part;

struct entropy_plan {
    const talc_cross_entropy_problem *problem;
    const talc_cross_entropy_arguments *arguments;
    sums_function *sums;
    gradient_function *gradient;
    double mean_weight; /* of a class */
    int64_t per_task;
    part *parts;        /* of the tasks */
    double denominator; /* of a mean; for the gradient */
};

static int64_t per_task_of(const talc_cross_entropy_problem *p)
{
    return (int64_t)ceil(sqrt((double)p->samples));
}

/* Terms of a sum that are added one after the other. */
static int64_t terms_per_sum(const talc_cross_entropy_problem *p)
{
    return talc_cpu_is_narrow(p->dtype) ? p->C : (int64_t)ceil(sqrt((double)p->C));
}

/* A NaN is not larger than anything and may leave m finite; exp then carries it into the sum and so
 * into the loss, as (+infinity) - (+infinity) and (-infinity) - (-infinity) do. */
#define SUMS(name, T, E)                                                                           \
    static row_sums name(const entropy_plan *plan, int64_t at)                                     \
    {                                                                                              \
        const talc_cross_entropy_problem *p = plan->problem;                                       \
        const T *x = (const T *)plan->arguments->x + at, *w = plan->arguments->class_weights;      \
        const int64_t run = terms_per_sum(p), step = p->x_stride;                                  \
        E m = x[0];                                                                                \
        for (int64_t j = 1; j < p->C; j++)                                                         \
            m = (E)x[j * step] > m ? (E)x[j * step] : m;                                           \
        row_sums all = { m, 0, 0 };                                                                \
        for (int64_t begin = 0; begin < p->C; begin += run) {                                      \
            double exponentials = 0, differences = 0;                                              \
            for (int64_t j = begin; j < talc_smaller(begin + run, p->C); j++) {                    \
                const double difference = (double)x[j * step] - (double)m;                         \
                exponentials += (double)exp((E)x[j * step] - m);                                   \
                differences += w == NULL ? difference : difference * (double)w[j];                 \
            }                                                                                      \
            all.exponentials += exponentials;                                                      \
            all.differences += differences;                                                        \
        }                                                                                          \
        return all;                                                                                \
    }

#define GRADIENT(name, T, E)                                                                       \
    static void name(const entropy_plan *plan, int64_t at, int64_t label, row_gradient by)         \
    {                                                                                              \
        const talc_cross_entropy_problem *p = plan->problem;                                       \
        const T *x = (const T *)plan->arguments->x + at, *w = plan->arguments->class_weights;      \
        T *dx = (T *)plan->arguments->dx + at;                                                     \
        const int64_t step = p->x_stride;                                                          \
        const E m = (E)by.max, scale = (E)by.scale, even = (E)by.smoothing;                        \
        for (int64_t j = 0; j < p->C; j++) {                                                       \
            E value = exp((E)x[j * step] - m) * scale;                                             \
            if (by.smoothing != 0)                                                                 \
                value -= w == NULL ? even : even * (E)w[j];                                        \
            if (j == label)                                                                        \
                value -= (E)by.of_label;                                                           \
            dx[j * step] = (T)value;                                                               \
        }                                                                                          \
    }

SUMS(sums_f32, float, float)
SUMS(sums_f64, double, double)
SUMS(sums_wide_f32, float, double)
SUMS(sums_wide_f64, double, double)
GRADIENT(gradient_f32, float, float)
GRADIENT(gradient_f64, double, double)
GRADIENT(gradient_wide_f32, float, double)
GRADIENT(gradient_wide_f64, double, double)

/* Element j of class_weights. */
static double weight_of(const entropy_plan *plan, int64_t j)
{
    const void *weights = plan->arguments->class_weights;
    return weights == NULL ? 1 : talc_cpu_load(plan->problem->dtype, weights, j);
}

/* Of count terms, in runs of sqrt(count). */
static double sum_of(const entropy_plan *plan, int64_t count,
                     double (*term)(const entropy_plan *plan, int64_t i))
{
    const int64_t run = (int64_t)ceil(sqrt((double)count));
    double sum = 0;
    for (int64_t begin = 0; begin < count; begin += run) {
        double part_sum = 0;
        for (int64_t i = begin; i < talc_smaller(begin + run, count); i++)
            part_sum += term(plan, i);
        sum += part_sum;
    }
    return sum;
}

static bool is_class(const talc_cross_entropy_problem *p, int64_t label)
{
    return label >= 0 && label < p->C;
}

/* What a mean divides by. With smoothing, which adds a quotient of its own to the labels' 0 / 0, no
 * weight gives NaN, not infinity. */
static double divisor_of(const talc_cross_entropy_problem *p, double weight)
{
    return p->label_smoothing != 0 && weight == 0 ? NAN : weight;
}

// ---- Losses -------------------------------------------------------------------------------------

static double loss_of(const entropy_plan *plan, row_sums sums, int64_t at, int64_t label)
{
    const talc_cross_entropy_problem *p = plan->problem;
    const double log_sum = log(sums.exponentials), e = p->label_smoothing;
    const double x = talc_cpu_load(p->dtype, plan->arguments->x, at + label * p->x_stride);
    const double loss = weight_of(plan, label) * (log_sum - (x - sums.max));
    /* Without smoothing a class of -infinity has no part in it. */
    return e == 0 ? loss
                  : (1 - e) * loss +
                        e * (log_sum * plan->mean_weight - sums.differences / (double)p->C);
}

// ---- Gradient -----------------------------------------------------------------------------------

/* What sample i adds to what a mean divides by. */
static double label_weight(const entropy_plan *plan, int64_t i)
{
    const int64_t label = plan->arguments->labels[i];
    if (label == plan->problem->ignore_index)
        return 0;
    return is_class(plan->problem, label) ? weight_of(plan, label) : NAN;
}

/* `sums` are looked at where the label is a class. */
static void gradient_of(const entropy_plan *plan, row_sums sums, int64_t at, int64_t label,
                        double dl)
{
    const talc_cross_entropy_problem *p = plan->problem;
    const double e = p->label_smoothing;
    if (label == p->ignore_index || !is_class(p, label)) {
        for (int64_t j = 0; j < p->C; j++)
            talc_cpu_store(p->dtype, plan->arguments->dx, at + j * p->x_stride,
                           label == p->ignore_index ? 0 : NAN);
        return;
    }
    const double of_label = (1 - e) * weight_of(plan, label);
    plan->gradient(
        plan, at, label,
        (row_gradient){ sums.max,
                        dl * (of_label + (e == 0 ? 0 : e * plan->mean_weight)) / sums.exponentials,
                        e == 0 ? 0 : dl * e / (double)p->C, dl * of_label });
}

// ---- Tasks --------------------------------------------------------------------------------------

/* Losses, gradients or both. */
static void entropy_task(void *context, int64_t task, int worker)
{
    (void)worker;
    const entropy_plan *plan = context;
    const talc_cross_entropy_problem *p = plan->problem;
    const talc_cross_entropy_arguments *a = plan->arguments;
    const bool whole = p->reduction == TALC_REDUCTION_NONE;
    const int64_t end = talc_smaller(p->samples, (task + 1) * plan->per_task);
    part mine = { 0, 0 };
    for (int64_t i = task * plan->per_task; i < end; i++) {
        const int64_t label = a->labels[i];
        const int64_t at = talc_walk_offset(p->outer_rank, p->outer_dims, p->x_strides, i);
        const bool counts = label != p->ignore_index && is_class(p, label);
        const row_sums sums = counts ? plan->sums(plan, at) : (row_sums){ 0 };
        if (a->y != NULL) {
            const double loss = counts ? loss_of(plan, sums, at, label) : 0;
            mine.weight += counts ? weight_of(plan, label) : 0;
            mine.sum += loss;
            if (whole)
                talc_cpu_store(p->dtype, a->y, i, loss);
        }
        if (a->dx != NULL) {
            const double dy = a->dy == NULL ? 1 : talc_cpu_load(p->dtype, a->dy, whole ? i : 0);
            gradient_of(plan, sums, at, label, dy / plan->denominator);
        }
    }
    if (a->y != NULL)
        plan->parts[task] = mine;
}

static talc_status check_labels(const talc_cross_entropy_problem *p, const int64_t *labels)
{
    for (int64_t i = 0; i < p->samples; i++)
        if (labels[i] != p->ignore_index && !is_class(p, labels[i]))
            return talc_bad_label("cross_entropy", i, labels[i], p->C);
    return TALC_OK;
}

static talc_status run_plan(entropy_plan *plan)
{
    const talc_cross_entropy_problem *p = plan->problem;
    const talc_cross_entropy_arguments *a = plan->arguments;
    const int64_t tasks = talc_ceil_div(p->samples, plan->per_task);
    talc_status status = a->y == NULL ? TALC_OK : check_labels(p, a->labels);
    plan->denominator = a->dx != NULL && p->reduction == TALC_REDUCTION_MEAN
                            ? divisor_of(p, sum_of(plan, p->samples, label_weight))
                            : 1;
    if (status == TALC_OK)
        status = talc_cpu_parallel(tasks, entropy_task, plan);
    if (status != TALC_OK || a->y == NULL || p->reduction == TALC_REDUCTION_NONE)
        return status;
    part whole = { 0, 0 };
    for (int64_t i = 0; i < tasks; i++) {
        whole.sum += plan->parts[i].sum;
        whole.weight += plan->parts[i].weight;
    }
    talc_cpu_store(p->dtype, a->y, 0,
                   p->reduction == TALC_REDUCTION_SUM ? whole.sum
                                                      : whole.sum / divisor_of(p, whole.weight));
    return TALC_OK;
}

// ---- The algorithms -----------------------------------------------------------------------------

static const char *plan_any(const talc_device *device, const void *problem, size_t limit,
                            talc_plan *plan)
{
    (void)device, (void)limit;
    const talc_cross_entropy_problem *p = problem;
    if (p->direction == TALC_FORWARD && p->samples > 0)
        plan->workspace = (size_t)talc_ceil_div(p->samples, per_task_of(p)) * sizeof(part);
    return p->direction == TALC_GRAD_WEIGHT ? "cross entropy has no weights" : NULL;
}

static talc_status run(const talc_cross_entropy_problem *p, const talc_cross_entropy_arguments *a,
                       sums_function *sums, gradient_function *gradient)
{
    entropy_plan plan = { .problem = p,
                          .arguments = a,
                          .sums = sums,
                          .gradient = gradient,
                          .mean_weight = 1,
                          .per_task = per_task_of(p),
                          .parts = a->base.workspace };
    if (a->class_weights != NULL)
        plan.mean_weight = sum_of(&plan, p->C, weight_of) / (double)p->C;
    return run_plan(&plan);
}

static talc_status rows_run(talc_device *device, const void *problem, const talc_plan *planned,
                            const void *arguments)
{
    (void)device, (void)planned;
    const talc_cross_entropy_problem *p = problem;
    return run(p, arguments, TALC_CPU_VALUE(p->dtype, sums, ),
               TALC_CPU_VALUE(p->dtype, gradient, ));
}

static talc_status reference_run(talc_device *device, const void *problem, const talc_plan *planned,
                                 const void *arguments)
{
    (void)device, (void)planned;
    const talc_cross_entropy_problem *p = problem;
    return run(p, arguments, TALC_CPU_VALUE(p->dtype, sums_wide, ),
               TALC_CPU_VALUE(p->dtype, gradient_wide, ));
}

// clang-format off
const talc_algorithm talc_cpu_cross_entropy[] = {
    { "rows", NULL, { "the data's own type, sums in f64", TALC_STRICT, false }, plan_any, rows_run },
    { "reference", NULL, { "f64",                              TALC_STRICT, true },  plan_any, reference_run },
    { .name = NULL },
};
// clang-format on
