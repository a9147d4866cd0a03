/// Negative log likelihood of classes.
///
///     l[i] = -w[t] x[i, t],    dx[i, j] = -w[t] dl[i] [j = t],    t = labels[i]
///
/// One product a sample, in the data's type. Labels are looked at first, so that a wrong one leaves
/// everything as it is. Threads share tasks of samples, or, of the gradient, of elements.
#include "backends/cpu/cpu.h"
#include "backends/cpu/primitives/element.h"
#include "backends/cpu/device/threads.h"
#include "backends/cpu/primitives/walk.h"
#include "ops/labels.h"
#include "tensor/extent.h"

/* Elements or samples of a task. */
enum { PIECE = 32768 };

typedef struct loss_context {
    const talc_nll_loss_problem *problem;
    const talc_nll_loss_arguments *arguments;
} loss_context;

static double weight_of(const talc_nll_loss_problem *p, const talc_nll_loss_arguments *a,
                        int64_t label)
{
    return label == p->ignore_index ? 0
           : a->weight == NULL      ? 1
                                    : talc_cpu_load(p->dtype, a->weight, label);
}

/* A product of two f32 numbers is exact in f64, so its one rounding is that to the data's type. */
static void forward_task(void *context, int64_t task, int worker)
{
    (void)worker;
    const loss_context *c = context;
    const talc_nll_loss_problem *p = c->problem;
    const talc_nll_loss_arguments *a = c->arguments;
    const int64_t end = talc_smaller(p->samples, (task + 1) * PIECE);
    for (int64_t i = task * PIECE; i < end; i++) {
        const int64_t label = a->labels[i];
        const double weight = weight_of(p, a, label);
        double loss = 0;
        if (label != p->ignore_index) {
            const int64_t at = talc_walk_offset(p->outer_rank, p->outer_dims, p->x_strides, i);
            loss = -(weight * talc_cpu_load(p->dtype, a->x, at + label * p->x_stride));
        }
        talc_cpu_store(p->dtype, a->losses, i, loss);
        if (a->weights != NULL)
            talc_cpu_store(p->dtype, a->weights, i, weight);
    }
}

static void gradient_task(void *context, int64_t task, int worker)
{
    (void)worker;
    const loss_context *c = context;
    const talc_nll_loss_problem *p = c->problem;
    const talc_nll_loss_arguments *a = c->arguments;
    const int64_t end = talc_smaller(p->samples * p->C, (task + 1) * PIECE);
    for (int64_t e = task * PIECE; e < end; e++) {
        const int64_t row = e / p->inner;
        const int64_t i = row / p->C * p->inner + e % p->inner, label = a->labels[i];
        const bool is_label = label == row % p->C && label != p->ignore_index;
        talc_cpu_store(p->dtype, a->dx, e,
                       is_label ? -(weight_of(p, a, label) * talc_cpu_load(p->dtype, a->dy, i))
                                : 0);
    }
}

static talc_status check_labels(const talc_nll_loss_problem *p, const int64_t *labels)
{
    for (int64_t i = 0; i < p->samples; i++)
        if (labels[i] != p->ignore_index && (labels[i] < 0 || labels[i] >= p->C))
            return talc_bad_label("nll_loss", i, labels[i], p->C);
    return TALC_OK;
}

static talc_status nll_loss_run(talc_device *device, const void *problem, const talc_plan *planned,
                                const void *arguments)
{
    (void)device, (void)planned;
    const talc_nll_loss_problem *p = problem;
    loss_context context = { p, arguments };
    if (p->direction == TALC_GRAD_INPUT)
        return talc_cpu_parallel(talc_ceil_div(p->samples * p->C, PIECE), gradient_task, &context);
    const talc_status status = check_labels(p, context.arguments->labels);
    return status != TALC_OK
               ? status
               : talc_cpu_parallel(talc_ceil_div(p->samples, PIECE), forward_task, &context);
}

const talc_algorithm talc_cpu_nll_loss[] = {
    { "reference", NULL, { "f64", TALC_STRICT, true }, talc_plan_any, nll_loss_run },
    { .name = NULL },
};
