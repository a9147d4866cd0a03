/// Random elements, as tensor/philox.h defines them.
///
///     y[i] = distribution(philox(seed, call, i))
///
/// Threads take tasks of whole Philox blocks; nothing depends on where a task starts.
#include "backends/cpu/cpu.h"
#include "backends/cpu/threads.h"
#include "tensor/extent.h"
#include "tensor/philox.h"

/* Elements of a task, and those whose words are drawn at once: multiples of a block's four. */
enum { TASK_ELEMENTS = 32768, BATCH = 256 };

typedef struct random_context {
    const talc_random_problem *problem;
    void *y;
} random_context;

/* The words of `blocks` blocks from number `first` on. A loop of its own, so that compilers can vectorise it. */
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

/* One batch each: elements first .. first + n - 1, where first is a multiple of the batch's size. */

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

#define INTEGERS(T, name)                                                                          \
    static void integers_##name(const talc_random_problem *p, int64_t first, int64_t n, T *y)      \
    {                                                                                              \
        talc_philox_block drawn[BATCH / 2];                                                        \
        draw_blocks(p, first / 2, (n + 1) / 2, drawn);                                             \
        for (int64_t i = 0; i < n; i++) {                                                          \
            const uint64_t words = talc_philox_pair(drawn[i / 2], (int)(i % 2));                   \
            y[i] = (T)((uint64_t)p->low + talc_integer_below(words, p->range));                    \
        }                                                                                          \
    }
INTEGERS(int64_t, i64)
INTEGERS(int32_t, i32)
INTEGERS(uint8_t, u8)

static void random_task(void *context, int64_t task, int worker)
{
    (void)worker;
    const random_context *c = context;
    const talc_random_problem *p = c->problem;
    const int64_t end =
        p->count - task * TASK_ELEMENTS < TASK_ELEMENTS ? p->count : (task + 1) * TASK_ELEMENTS;
    for (int64_t i = task * TASK_ELEMENTS; i < end; i += BATCH) {
        const int64_t n = talc_smaller(BATCH, end - i);
        if (p->distribution == TALC_UNIFORM && p->dtype == TALC_F32)
            uniform_f32(p, i, n, (float *)c->y + i);
        else if (p->distribution == TALC_UNIFORM)
            uniform_f64(p, i, n, (double *)c->y + i);
        else if (p->distribution == TALC_NORMAL && p->dtype == TALC_F32)
            normal_f32(p, i, n, (float *)c->y + i);
        else if (p->distribution == TALC_NORMAL)
            normal_f64(p, i, n, (double *)c->y + i);
        else if (p->dtype == TALC_I64)
            integers_i64(p, i, n, (int64_t *)c->y + i);
        else if (p->dtype == TALC_I32)
            integers_i32(p, i, n, (int32_t *)c->y + i);
        else
            integers_u8(p, i, n, (uint8_t *)c->y + i);
    }
}

talc_status talc_cpu_random(talc_device *device, const talc_random_problem *problem, void *dst)
{
    (void)device;
    random_context context = { problem, dst };
    return talc_cpu_parallel(talc_ceil_div(problem->count, TASK_ELEMENTS), random_task, &context);
}
