/// Optimizer steps by the formulas of ops/update.h, in the data's own type. Threads take stretches of the tensors, which
/// follow from their sizes alone.
#include "tensor/extent.h"
#include "backends/cpu/cpu.h"
#include "backends/cpu/element.h"
#include "backends/cpu/threads.h"
#include "ops/update.h"

#include <math.h>

TALC_UPDATE_IN(float, sqrtf)
TALC_UPDATE_IN(double, sqrt)

enum { STRETCH = 16384 }; /* elements of a task */

typedef struct update_context {
    const talc_update_problem *problem;
    const talc_update_arguments *arguments;
} update_context;

/* Elements lo .. hi - 1 of one tensor. A state that the rule has not is one element that nobody looks at. */
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

static void update_task(void *context, int64_t task, int worker)
{
    (void)worker;
    const update_context *c = context;
    const talc_update_problem *p = c->problem;
    int tensor = 0;
    for (; task >= talc_ceil_div(p->numel[tensor], STRETCH); tensor++)
        task -= talc_ceil_div(p->numel[tensor], STRETCH);
    const int64_t lo = task * STRETCH, end = p->numel[tensor];
    const int64_t hi = lo + STRETCH < end ? lo + STRETCH : end;
    TALC_CPU_CALL(p->dtype, stretch, (c, tensor, lo, hi));
}

static talc_status update_run(talc_device *device, const void *problem, const talc_plan *plan,
                              const void *arguments)
{
    (void)device, (void)plan;
    const update_context context = { problem, arguments };
    int64_t tasks = 0;
    for (int i = 0; i < context.problem->count; i++)
        tasks += talc_ceil_div(context.problem->numel[i], STRETCH);
    return talc_cpu_parallel(tasks, update_task, (void *)&context);
}

const talc_algorithm talc_cpu_update[] = {
    { "reference", { "the data's own type", TALC_STRICT, false }, talc_plan_any, update_run },
    { .name = NULL },
};
