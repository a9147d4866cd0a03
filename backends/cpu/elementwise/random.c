/// Random elements, as tensor/philox.h defines them.
///
///     y[i] = distribution(philox(seed, call, i))
///
/// Threads take tasks of whole Philox blocks; nothing depends on where a task starts.
#include "backends/cpu/cpu.h"
#include "backends/cpu/primitives/element.h"
#include "backends/cpu/device/threads.h"
#include "tensor/extent.h"
#include "tensor/philox.h"

/* Elements of a task, and those whose words are drawn at once: multiples of a block's four. */
enum { TASK_ELEMENTS = 32768, BATCH = 256 };

typedef struct random_context {
    const talc_random_problem *problem;
    void *y;
} random_context;

/* The words of `blocks` blocks from number `first` on. A loop of its own, so that compilers can
 * vectorise it. */
static void draw_blocks(const talc_random_problem *p, int64_t first, int64_t blocks,
                        talc_philox_block *drawn)
{
    for (int64_t b = 0; b < blocks; b++)
        drawn[b] = talc_philox(p->seed, p->call, (uint64_t)(first + b));
}

static double clamp(const talc_random_problem *p, double value)
{
    return value < p->lowest ? p->lowest : value > p->highest ? p->highest : value;
}

/* One batch each: elements first .. first + n - 1, where first is a multiple of the batch's
 * size. */

static void uniform_f32(const talc_random_problem *p, int64_t first, int64_t n, float *y)
{
    talc_philox_block drawn[BATCH / 4];
    draw_blocks(p, first / 4, (n + 3) / 4, drawn);
    const double width = p->b - p->a;
    for (int64_t i = 0; i < n; i++)
        y[i] = (float)clamp(
            p, (double)(float)(p->a + width * talc_uniform24(drawn[i / 4].word[i % 4])));
}

static void uniform_f64(const talc_random_problem *p, int64_t first, int64_t n, double *y)
{
    talc_philox_block drawn[BATCH / 2];
    draw_blocks(p, first / 2, (n + 1) / 2, drawn);
    const double width = p->b - p->a;
    for (int64_t i = 0; i < n; i++)
        y[i] =
            clamp(p, p->a + width * talc_uniform53(talc_philox_pair(drawn[i / 2], (int)(i % 2))));
}

static void normal_f32(const talc_random_problem *p, int64_t first, int64_t n, float *y)
{
    talc_philox_block drawn[BATCH / 4];
    draw_blocks(p, first / 4, (n + 3) / 4, drawn);
    for (int64_t i = 0; i < n; i += 2) {
        const uint32_t *words = &drawn[i / 4].word[i % 4];
        double z[2];
        talc_normal_pair32(words[0], words[1], &z[0], &z[1]);
        y[i] = (float)(p->a + p->b * z[0]);
        if (i + 1 < n)
            y[i + 1] = (float)(p->a + p->b * z[1]);
    }
}

static void normal_f64(const talc_random_problem *p, int64_t first, int64_t n, double *y)
{
    talc_philox_block drawn[BATCH / 2];
    draw_blocks(p, first / 2, (n + 1) / 2, drawn);
    for (int64_t i = 0; i < n; i += 2) {
        const talc_philox_block block = drawn[i / 2];
        double z[2];
        talc_normal_pair53(talc_philox_pair(block, 0), talc_philox_pair(block, 1), &z[0], &z[1]);
        y[i] = p->a + p->b * z[0];
        if (i + 1 < n)
            y[i + 1] = p->a + p->b * z[1];
    }
}

#define INTEGERS(constant, name, T, U)                                                             \
    static void integers_##name(const talc_random_problem *p, int64_t first, int64_t n, T *y)      \
    {                                                                                              \
        talc_philox_block drawn[BATCH / 2];                                                        \
        draw_blocks(p, first / 2, (n + 1) / 2, drawn);                                             \
        for (int64_t i = 0; i < n; i++) {                                                          \
            const uint64_t words = talc_philox_pair(drawn[i / 2], (int)(i % 2));                   \
            y[i] = (T)((uint64_t)p->low + talc_integer_below(words, p->range));                    \
        }                                                                                          \
    }
TALC_CPU_INTEGERS(INTEGERS)

static void integers(const talc_random_problem *p, int64_t first, int64_t n, void *y)
{
    switch (p->dtype) {
#define CASE(constant, name, T, U)                                                                 \
    case constant:                                                                                 \
        integers_##name(p, first, n, y);                                                           \
        break;
        TALC_CPU_INTEGERS(CASE)
#undef CASE
    default: /* tensor/random.c lets no other through */
        break;
    }
}

static void random_task(void *context, int64_t task, int worker)
{
    (void)worker;
    const random_context *c = context;
    const talc_random_problem *p = c->problem;
    const int64_t end =
        p->count - task * TASK_ELEMENTS < TASK_ELEMENTS ? p->count : (task + 1) * TASK_ELEMENTS;
    for (int64_t i = task * TASK_ELEMENTS; i < end; i += BATCH) {
        const int64_t n = talc_smaller(BATCH, end - i);
        void *y = (char *)c->y + i * (int64_t)talc_dtype_size(p->dtype);
        if (p->distribution == TALC_UNIFORM)
            TALC_CPU_CALL(p->dtype, uniform, (p, i, n, y));
        else if (p->distribution == TALC_NORMAL)
            TALC_CPU_CALL(p->dtype, normal, (p, i, n, y));
        else
            integers(p, i, n, y);
    }
}

talc_status talc_cpu_random(talc_device *device, const talc_random_problem *problem, void *dst)
{
    (void)device;
    if (problem->distribution != TALC_INTEGERS && talc_cpu_refuses(problem->dtype) != NULL)
        return talc_fail(TALC_BAD_DTYPE, "random: %s", talc_cpu_refuses(problem->dtype));
    talc_random_problem own = *problem;
    if (own.counter != NULL)
        own.seed = own.counter[0], own.call = own.counter[1];
    random_context context = { &own, dst };
    return talc_cpu_parallel(talc_ceil_div(problem->count, TASK_ELEMENTS), random_task, &context);
}
