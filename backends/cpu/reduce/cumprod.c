/// Products of the elements so far, along one dimension of a strided array, and their gradient.
///
///     y_i  = product over j <= i of x_j
///     dx_j = y_(j-1) s_j,    s_j = dy_j + x_(j+1) s_(j+1)
///
/// A task is a line. The gradient goes along it twice: back for s, which stands in the workspace,
/// and forth for the products. Arithmetic: f64, in the order of the elements, whatever the task.
#include "backends/cpu/cpu.h"
#include "backends/cpu/device/threads.h"
#include "backends/cpu/primitives/element.h"
#include "backends/cpu/primitives/walk.h"
#include "tensor/extent.h"

typedef struct cumprod_context {
    const talc_cumprod_problem *problem;
    const talc_cumprod_arguments *arguments;
    int64_t per_task; /* lines */
} cumprod_context;

#define MULTIPLY(constant, suffix, T, A)                                                           \
    static void multiply_##suffix(const cumprod_context *c, int64_t line)                          \
    {                                                                                              \
        const talc_cumprod_problem *p = c->problem;                                                \
        const T *x = (const T *)c->arguments->x +                                                  \
                     talc_walk_offset(p->outer_rank, p->outer_dims, p->x_strides, line);           \
        T *y = (T *)c->arguments->y +                                                              \
               talc_walk_offset(p->outer_rank, p->outer_dims, p->y_strides, line);                 \
        double product = 1;                                                                        \
        for (int64_t i = 0; i < p->extent; i++) {                                                  \
            product *= (double)x[i * p->x_stride];                                                 \
            y[i * p->y_stride] = (T)product;                                                       \
        }                                                                                          \
    }                                                                                              \
    static void differentiate_##suffix(const cumprod_context *c, int64_t line, double *s)          \
    {                                                                                              \
        const talc_cumprod_problem *p = c->problem;                                                \
        const int64_t at = talc_walk_offset(p->outer_rank, p->outer_dims, p->x_strides, line);     \
        const int64_t step = p->x_stride, n = p->extent;                                           \
        const T *x = (const T *)c->arguments->x + at, *dy = (const T *)c->arguments->dy + at;      \
        T *dx = (T *)c->arguments->dx + at;                                                        \
        s[n - 1] = (double)dy[(n - 1) * step];                                                     \
        for (int64_t j = n - 2; j >= 0; j--)                                                       \
            s[j] = (double)dy[j * step] + (double)x[(j + 1) * step] * s[j + 1];                    \
        double product = 1;                                                                        \
        for (int64_t j = 0; j < n; j++) {                                                          \
            dx[j * step] = (T)(product * s[j]);                                                    \
            product *= (double)x[j * step];                                                        \
        }                                                                                          \
    }

TALC_CPU_FLOATS(MULTIPLY)

enum { TASK_ELEMENTS = 32768 };

static void cumprod_task(void *context, int64_t task, int worker)
{
    const cumprod_context *c = context;
    const talc_cumprod_problem *p = c->problem;
    const int64_t end = talc_smaller(p->outer, (task + 1) * c->per_task);
    double *const workspace = c->arguments->base.workspace;
    for (int64_t line = task * c->per_task; line < end; line++)
        if (p->direction == TALC_FORWARD)
            TALC_CPU_CALL(p->dtype, multiply, (c, line));
        else
            TALC_CPU_CALL(p->dtype, differentiate, (c, line, workspace + worker * p->extent));
}

static int64_t lines_of_a_task(const talc_cumprod_problem *p)
{
    return talc_larger(1, TASK_ELEMENTS / p->extent);
}

/* Bytes of a worker's s. */
static size_t slice(const talc_cumprod_problem *p)
{
    return p->direction == TALC_FORWARD ? 0 : (size_t)p->extent * sizeof(double);
}

static const char *cumprod_plan(const talc_device *device, const void *problem, size_t limit,
                                talc_plan *plan)
{
    (void)device;
    const talc_cumprod_problem *p = problem;
    if (slice(p) > 0)
        plan->workspace =
            talc_cpu_workspace(talc_ceil_div(p->outer, lines_of_a_task(p)), 0, slice(p), limit);
    return talc_cpu_refuses(p->dtype);
}

static talc_status cumprod_run(talc_device *device, const void *problem, const talc_plan *plan,
                               const void *arguments)
{
    (void)device;
    const talc_cumprod_problem *p = problem;
    cumprod_context c = { p, arguments, lines_of_a_task(p) };
    const int64_t tasks = talc_ceil_div(p->outer, c.per_task);
    if (slice(p) == 0)
        return talc_cpu_parallel(tasks, cumprod_task, &c);
    return talc_cpu_parallel_limited(tasks, (int)(plan->workspace / slice(p)), cumprod_task, &c);
}

const talc_algorithm talc_cpu_cumprod[] = {
    { .name = "reference",
      .arithmetic = { "f64 accumulation", TALC_STRICT, true },
      .plan = cumprod_plan,
      .run = cumprod_run },
    { .name = NULL },
};
