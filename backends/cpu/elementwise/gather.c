/// Elements picked by indices, and the sums of what was picked.
///
///     y[i...] = x[i... with index[i...] in place of i_dim],
///     dx[j...] = sum of dy[i...] over the i that picked j
///
/// Forward, rows of y run on threads in tasks that depend on the shape alone; elements are moved as
/// unsigned integers of their size. In the gradient a task has lines of dy along the index's
/// dimension to itself, so that no two write one element of dx; it goes through the index in
/// ascending order, with neighbouring lines side by side where they are neighbours in memory.
#include "backends/cpu/cpu.h"
#include "backends/cpu/primitives/element.h"
#include "backends/cpu/device/threads.h"
#include "backends/cpu/primitives/walk.h"
#include "ops/gather.h"
#include "tensor/extent.h"

#include <string.h>

enum {
    LINES = 256,          /* neighbouring lines of a task: a row of dx fits the L1 cache */
    TASK_ELEMENTS = 32768 /* elements of dy a task at least, where lines are short */
};

typedef struct gather_context {
    const talc_gather_problem *problem;
    const talc_gather_arguments *arguments;
    talc_walk walk; /* forward */
    int64_t blocks, width,
        inner;           /* gradient: blocks of `width` of the `inner` lines side by side */
    int64_t tasks_lines; /* and how many blocks a task takes */
} gather_context;

// ---- Forward ------------------------------------------------------------------------------------

#define PICK(suffix, T)                                                                            \
    static void pick_##suffix(const gather_context *c, const talc_walk_position *at,               \
                              int64_t x_step, int64_t index_step)                                  \
    {                                                                                              \
        const int64_t x_stride = c->problem->x_stride;                                             \
        T *y = (T *)c->arguments->y + at->offset[0];                                               \
        const T *x = (const T *)c->arguments->x + at->offset[1];                                   \
        const int64_t *index = c->arguments->index + at->offset[2];                                \
        for (int64_t i = 0; i < at->length; i++)                                                   \
            y[i] = x[i * x_step + index[i * index_step] * x_stride];                               \
    }

PICK(bytes, uint8_t)
PICK(words, uint32_t)
PICK(doubles, uint64_t)

static void pick_task(void *context, int64_t task, int worker)
{
    (void)worker;
    const gather_context *c = context;
    const talc_gather_problem *p = c->problem;
    const size_t size = talc_dtype_size(p->dtype);
    const int64_t *const strides[] = { p->y_strides, p->x_strides, p->index_strides };
    const int64_t x_step = talc_walk_row_stride(&c->walk, p->x_strides);
    const int64_t index_step = talc_walk_row_stride(&c->walk, p->index_strides);
    talc_walk_position at;
    for (bool more = talc_walk_start(&c->walk, task, strides, 3, &at); more;
         more = talc_walk_next(&c->walk, strides, 3, &at)) {
        if (size == 1)
            pick_bytes(c, &at, x_step, index_step);
        else if (size == 4)
            pick_words(c, &at, x_step, index_step);
        else
            pick_doubles(c, &at, x_step, index_step);
    }
}

static talc_status check_index(const talc_gather_problem *p, const int64_t *index)
{
    for (int64_t i = 0; i < p->index_count; i++)
        if (index[i] < 0 || index[i] >= p->extent)
            return talc_gather_bad_index(p->function, i, index[i], p->extent);
    return TALC_OK;
}

// ---- Gradient -----------------------------------------------------------------------------------

/* Lines first .. first + width - 1 of those that the dimensions before and behind `along` make.
 * Indices that the forward pass has refused were never recorded. */
#define ADD_UP(constant, suffix, T, A)                                                             \
    static void add_up_##suffix(const gather_context *c, int64_t outer, int64_t first,             \
                                int64_t width)                                                     \
    {                                                                                              \
        const talc_gather_problem *p = c->problem;                                                 \
        const int along = p->along, behind = p->rank - along - 1;                                  \
        int64_t x_at[LINES], y_at[LINES], index_at[LINES];                                         \
        const int64_t *strides[] = { p->x_strides, p->y_strides, p->index_strides };               \
        int64_t *at[] = { x_at, y_at, index_at };                                                  \
        for (int o = 0; o < 3; o++)                                                                \
            for (int64_t l = 0; l < width; l++)                                                    \
                at[o][l] = talc_walk_offset(along, p->dims, strides[o], outer) +                   \
                           talc_walk_offset(behind, p->dims + along + 1, strides[o] + along + 1,   \
                                            first + l);                                            \
        for (int64_t i = 0; i < p->dims[along]; i++) {                                             \
            const T *dy = (const T *)c->arguments->dy + i * p->y_strides[along];                   \
            const int64_t *index = c->arguments->index + i * p->index_strides[along];              \
            for (int64_t l = 0; l < width; l++)                                                    \
                ((T *)c->arguments->dx)[x_at[l] + index[index_at[l]] * p->x_stride] +=             \
                    dy[y_at[l]];                                                                   \
        }                                                                                          \
    }

TALC_CPU_FLOATS(ADD_UP)

static void gradient_task(void *context, int64_t task, int worker)
{
    (void)worker;
    const gather_context *c = context;
    const int64_t across = talc_ceil_div(c->inner, c->width);
    const int64_t end = talc_smaller(c->blocks, (task + 1) * c->tasks_lines);
    for (int64_t block = task * c->tasks_lines; block < end; block++) {
        const int64_t first = block % across * c->width;
        TALC_CPU_CALL(c->problem->dtype, add_up,
                      (c, block / across, first, talc_smaller(c->width, c->inner - first)));
    }
}

static talc_status run_gradient(gather_context *c)
{
    const talc_gather_problem *p = c->problem;
    int64_t lines = 1;
    c->inner = 1;
    for (int i = 0; i < p->rank; i++) {
        lines *= i == p->along ? 1 : p->dims[i];
        c->inner *= i > p->along ? p->dims[i] : 1;
    }
    c->width = talc_smaller(LINES, c->inner);
    c->blocks = lines / c->inner * talc_ceil_div(c->inner, c->width);
    c->tasks_lines = talc_larger(1, TASK_ELEMENTS / (p->dims[p->along] * c->width));
    memset(c->arguments->dx, 0, (size_t)p->x_count * talc_dtype_size(p->dtype));
    return talc_cpu_parallel(talc_ceil_div(c->blocks, c->tasks_lines), gradient_task, c);
}

// ---- The algorithm ------------------------------------------------------------------------------

static const char *gather_plan(const talc_device *device, const void *problem, size_t limit,
                               talc_plan *plan)
{
    (void)device, (void)limit, (void)plan;
    const talc_gather_problem *p = problem;
    return p->direction == TALC_GRAD_INPUT ? talc_cpu_refuses(p->dtype) : NULL;
}

static talc_status gather_run(talc_device *device, const void *problem, const talc_plan *planned,
                              const void *arguments)
{
    (void)device, (void)planned;
    const talc_gather_problem *p = problem;
    gather_context context = { .problem = p, .arguments = arguments };
    if (p->direction == TALC_GRAD_INPUT)
        return run_gradient(&context);
    const talc_status status = check_index(p, context.arguments->index);
    if (status != TALC_OK)
        return status;
    context.walk = talc_walk_of(p->rank, p->dims);
    return talc_cpu_parallel(context.walk.tasks, pick_task, &context);
}

const talc_algorithm talc_cpu_gather[] = {
    { "reference", NULL, { "the data's own type", TALC_STRICT, false }, gather_plan, gather_run },
    { .name = NULL },
};
