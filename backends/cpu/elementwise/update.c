/// Optimizer steps by the formulas of ops/update.h, in the data's own type. Threads take stretches
/// of the tensors, which follow from their sizes alone.
#include "tensor/extent.h"
#include "backends/cpu/cpu.h"
#include "backends/cpu/primitives/element.h"
#include "backends/cpu/device/threads.h"
#include "ops/update.h"

#include <math.h>

TALC_UPDATE_IN(float, sqrtf)
TALC_UPDATE_IN(double, sqrt)

enum { STRETCH = 16384 }; /* elements of a task */

typedef struct update_context {
    const talc_update_problem *problem;
    const talc_update_arguments *arguments;
} update_context;

/* Elements lo .. hi - 1 of one tensor. A state that the rule has not is one element that nobody
 * looks at. */
#define STRETCH_IN(constant, suffix, T, A)                                                         \
    static void stretch_##suffix(const update_context *c, int tensor, int64_t lo, int64_t hi)      \
    {                                                                                              \
        const talc_update_##T *given = c->arguments->numbers;                                      \
        const talc_update_##T u = given == NULL ? talc_update_in_##T(c->problem) : *given;         \
        T *p = c->arguments->tensors[tensor].parameter;                                            \
        const T *g = c->arguments->tensors[tensor].gradient;                                       \
        const T scale = c->arguments->scale == NULL ? 1 : *(const T *)c->arguments->scale;         \
        T *const *states = (T *const *)c->arguments->tensors[tensor].states;                       \
        for (int64_t i = lo; i < hi; i++)                                                          \
            talc_update_element_##T(&u, scale, p + i, g == NULL ? 0 : g[i],                        \
                                    states[0] == NULL ? NULL : states[0] + i,                      \
                                    states[1] == NULL ? NULL : states[1] + i,                      \
                                    states[2] == NULL ? NULL : states[2] + i);                     \
    }

TALC_CPU_FLOATS(STRETCH_IN)

/* The sum of squares of elements lo .. hi - 1, in lanes that a processor adds side by side. */
#define SQUARES_IN(constant, suffix, T, A)                                                         \
    static double squares_##suffix(const T *p, int64_t lo, int64_t hi)                             \
    {                                                                                              \
        enum { LANES = 8 };                                                                        \
        double lanes[LANES] = { 0 }, sum = 0;                                                      \
        for (; lo + LANES <= hi; lo += LANES)                                                      \
            for (int k = 0; k < LANES; k++)                                                        \
                lanes[k] += (double)p[lo + k] * (double)p[lo + k];                                 \
        for (; lo < hi; lo++)                                                                      \
            lanes[0] += (double)p[lo] * (double)p[lo];                                             \
        for (int k = 0; k < LANES; k++)                                                            \
            sum += lanes[k];                                                                       \
        return sum;                                                                                \
    }                                                                                              \
                                                                                                   \
    static void norm_##suffix(const update_context *c, double squares)                             \
    {                                                                                              \
        talc_update_norm_##T(squares, (T)c->problem->max_norm, c->arguments->y);                   \
    }

TALC_CPU_FLOATS(SQUARES_IN)

static int64_t stretch_of(const talc_update_problem *p)
{
    return p->rule == TALC_UPDATE_NORM ? TALC_UPDATE_PART : STRETCH;
}

static void update_task(void *context, int64_t task, int worker)
{
    (void)worker;
    const update_context *c = context;
    const talc_update_problem *p = c->problem;
    const int64_t stretch = stretch_of(p);
    const int64_t part = p->parts_before + task;
    int tensor = 0;
    for (; task >= talc_ceil_div(p->numel[tensor], stretch); tensor++)
        task -= talc_ceil_div(p->numel[tensor], stretch);
    const int64_t lo = task * stretch, end = p->numel[tensor];
    const int64_t hi = talc_smaller(lo + stretch, end);
    if (p->rule == TALC_UPDATE_NORM)
        c->arguments->parts[part] =
            TALC_CPU_VALUE(p->dtype, squares, (c->arguments->tensors[tensor].parameter, lo, hi));
    else
        TALC_CPU_CALL(p->dtype, stretch, (c, tensor, lo, hi));
}

static talc_status update_run(talc_device *device, const void *problem, const talc_plan *plan,
                              const void *arguments)
{
    (void)device, (void)plan;
    const update_context context = { problem, arguments };
    const talc_update_problem *p = problem;
    int64_t tasks = 0;
    for (int i = 0; i < p->count; i++)
        tasks += talc_ceil_div(p->numel[i], stretch_of(p));
    const talc_status status = talc_cpu_parallel(tasks, update_task, (void *)&context);
    if (status != TALC_OK || p->rule != TALC_UPDATE_NORM || !p->last)
        return status;
    double squares = 0;
    for (int64_t i = 0; i < p->parts_before + tasks; i++)
        squares += context.arguments->parts[i];
    TALC_CPU_CALL(p->dtype, norm, (&context, squares));
    return TALC_OK;
}

const talc_algorithm talc_cpu_update[] = {
    { "reference", NULL, { "the data's own type", TALC_STRICT, false }, talc_plan_any, update_run },
    { .name = NULL },
};
