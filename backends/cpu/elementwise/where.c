/// One of two elements, as a third says.
///
///     y[i...] = condition[i...] != 0 ? a[i...] : b[i...]
///
/// y is contiguous, the operands have any strides, 0 where they are broadcast. Rows run on threads
/// in tasks that depend on the shape alone. Elements are moved as unsigned integers of their size,
/// so NaN keeps its bits.
#include "backends/cpu/cpu.h"
#include "backends/cpu/device/threads.h"
#include "backends/cpu/primitives/walk.h"
#include "ops/compare.h"

typedef struct where_context {
    const talc_where_problem *problem;
    const talc_where_arguments *arguments;
    talc_walk walk;
} where_context;

/* Strides of a row, in elements. */
typedef struct steps {
    int64_t condition, a, b;
} steps;

#define WHERE_ROW(suffix, T)                                                                       \
    static void where_row_##suffix(const where_context *c, const talc_walk_position *at,           \
                                   steps step)                                                     \
    {                                                                                              \
        T *y = (T *)c->arguments->y + at->offset[0];                                               \
        const uint8_t *condition = c->arguments->condition + at->offset[1];                        \
        const T *a = (const T *)c->arguments->a + at->offset[2];                                   \
        const T *b = (const T *)c->arguments->b + at->offset[3];                                   \
        for (int64_t i = 0; i < at->length; i++)                                                   \
            y[i] = condition[i * step.condition] != 0 ? a[i * step.a] : b[i * step.b];             \
    }

WHERE_ROW(bytes, uint8_t)
WHERE_ROW(words, uint32_t)
WHERE_ROW(doubles, uint64_t)

static void where_task(void *context, int64_t task, int worker)
{
    (void)worker;
    const where_context *c = context;
    const talc_where_problem *p = c->problem;
    const size_t size = talc_dtype_size(p->dtype);
    const int64_t *const strides[] = { p->y_strides, p->condition_strides, p->a_strides,
                                       p->b_strides };
    const steps step = { talc_walk_row_stride(&c->walk, p->condition_strides),
                         talc_walk_row_stride(&c->walk, p->a_strides),
                         talc_walk_row_stride(&c->walk, p->b_strides) };
    talc_walk_position at;
    for (bool more = talc_walk_start(&c->walk, task, strides, 4, &at); more;
         more = talc_walk_next(&c->walk, strides, 4, &at)) {
        if (size == 1)
            where_row_bytes(c, &at, step);
        else if (size == 4)
            where_row_words(c, &at, step);
        else
            where_row_doubles(c, &at, step);
    }
}

static talc_status where_run(talc_device *device, const void *problem, const talc_plan *planned,
                             const void *arguments)
{
    (void)device, (void)planned;
    const talc_where_problem *p = problem;
    where_context context = { p, arguments, talc_walk_of(p->rank, p->dims) };
    return talc_cpu_parallel(context.walk.tasks, where_task, &context);
}

const talc_algorithm talc_cpu_where[] = {
    { "reference", NULL, { "the data's own type", TALC_STRICT, false }, talc_plan_any, where_run },
    { .name = NULL },
};
