/// Sums of the elements so far, along one dimension of a strided array.
///
///     y_i = sum over j <= i of x_j,    of a gradient over j >= i
///
/// A task has whole lines to itself, in blocks of one row of the outer dimensions: where
/// neighbouring lines are neighbours in memory, LINES side by side, so that it is read in order;
/// where each line lies in order, a few, whose additions need not wait for each other. Sums are
/// f64, in the order of the elements. Tasks depend on the problem alone.
#include "backends/cpu/cpu.h"
#include "backends/cpu/primitives/element.h"
#include "backends/cpu/device/threads.h"
#include "backends/cpu/primitives/walk.h"
#include "ops/cumsum.h"
#include "tensor/extent.h"

enum { LINES = 128, FEW_LINES = 4, TASK_ELEMENTS = 32768 };

typedef struct cumsum_context {
    const talc_cumsum_problem *problem;
    const talc_cumsum_arguments *arguments;
    int64_t row, x_step, y_step; /* of the last outer dimension: extent and strides */
    int64_t width;               /* lines a block */
    int64_t blocks_per_row, blocks, per_task;
} cumsum_context;

#define ADD_UP(constant, suffix, T, A)                                                             \
    static void add_up_##suffix(const cumsum_context *c, int64_t block)                            \
    {                                                                                              \
        const talc_cumsum_problem *p = c->problem;                                                 \
        const int64_t column = block % c->blocks_per_row * c->width;                               \
        const int64_t row = block / c->blocks_per_row,                                             \
                      width = talc_smaller(c->width, c->row - column);                             \
        const int64_t first = p->direction == TALC_FORWARD ? 0 : p->extent - 1;                    \
        const int64_t step = first == 0 ? 1 : -1;                                                  \
        const int rank = p->outer_rank - 1;                                                        \
        const T *x = (const T *)c->arguments->x + first * p->x_stride + column * c->x_step +       \
                     talc_walk_offset(rank, p->outer_dims, p->x_strides, row);                     \
        T *y = (T *)c->arguments->y + first * p->y_stride + column * c->y_step +                   \
               talc_walk_offset(rank, p->outer_dims, p->y_strides, row);                           \
        double sums[LINES];                                                                        \
        for (int64_t l = 0; l < width; l++)                                                        \
            sums[l] = 0;                                                                           \
        for (int64_t i = 0; i < p->extent; i++)                                                    \
            for (int64_t l = 0; l < width; l++) {                                                  \
                sums[l] += (double)x[i * step * p->x_stride + l * c->x_step];                      \
                y[i * step * p->y_stride + l * c->y_step] = (T)sums[l];                            \
            }                                                                                      \
    }

TALC_CPU_FLOATS(ADD_UP)

static void cumsum_task(void *context, int64_t task, int worker)
{
    (void)worker;
    const cumsum_context *c = context;
    const int64_t end = talc_smaller(c->blocks, (task + 1) * c->per_task);
    for (int64_t block = task * c->per_task; block < end; block++)
        TALC_CPU_CALL(c->problem->dtype, add_up, (c, block));
}

static const char *cumsum_plan(const talc_device *device, const void *problem, size_t limit,
                               talc_plan *plan)
{
    (void)device, (void)limit, (void)plan;
    return talc_cpu_refuses(((const talc_cumsum_problem *)problem)->dtype);
}

static talc_status cumsum_run(talc_device *device, const void *problem, const talc_plan *planned,
                              const void *arguments)
{
    (void)device, (void)planned;
    const talc_cumsum_problem *p = problem;
    cumsum_context c = { .problem = p, .arguments = arguments, .row = 1 };
    if (p->outer_rank > 0) {
        c.row = p->outer_dims[p->outer_rank - 1];
        c.x_step = p->x_strides[p->outer_rank - 1];
        c.y_step = p->y_strides[p->outer_rank - 1];
    }
    c.width = talc_smaller(c.y_step < p->y_stride ? LINES : FEW_LINES, c.row);
    c.blocks_per_row = talc_ceil_div(c.row, c.width);
    c.blocks = p->outer / c.row * c.blocks_per_row;
    c.per_task = talc_larger(1, TASK_ELEMENTS / (c.width * p->extent));
    return talc_cpu_parallel(talc_ceil_div(c.blocks, c.per_task), cumsum_task, &c);
}

const talc_algorithm talc_cpu_cumsum[] = {
    { "reference", NULL, { "f64 accumulation", TALC_STRICT, true }, cumsum_plan, cumsum_run },
    { .name = NULL },
};
