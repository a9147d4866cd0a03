/// Rows of bytes from several arrays, side by side.
///
///     dst[r * pitch + start_i + b] = from_i[r * bytes_i + b]
///
/// A task is a few rows of one part, or a segment of a long row.
#include "backends/cpu/cpu.h"
#include "backends/cpu/device/threads.h"
#include "tensor/extent.h"

#include <string.h>

/* Bytes a task: as long as a task of a copy. */
enum { TASK_BYTES = 131072 };

typedef struct join_context {
    const talc_join_problem *problem;
    char *dst;
} join_context;

/* How a part is divided: a row into segments, rows into groups. */
typedef struct cut {
    int64_t segments, rows, tasks;
} cut;

static cut cut_of(const talc_join_problem *p, int part)
{
    const int64_t bytes = (int64_t)p->parts[part].bytes;
    cut c = { .segments = talc_ceil_div(bytes, TASK_BYTES),
              .rows = talc_larger(1, TASK_BYTES / bytes) };
    c.tasks = c.segments * talc_ceil_div(p->rows, c.rows);
    return c;
}

static void join_task(void *context, int64_t task, int worker)
{
    (void)worker;
    const join_context *c = context;
    const talc_join_problem *p = c->problem;
    int part = 0;
    cut at = cut_of(p, part);
    for (; task >= at.tasks; at = cut_of(p, ++part))
        task -= at.tasks;

    const size_t bytes = p->parts[part].bytes, skip = (size_t)(task % at.segments) * TASK_BYTES;
    const size_t length = at.segments == 1 || bytes - skip < TASK_BYTES ? bytes - skip : TASK_BYTES;
    const int64_t first = task / at.segments * at.rows;
    const int64_t end = talc_smaller(first + at.rows, p->rows);
    for (int64_t r = first; r < end; r++)
        memcpy(c->dst + (size_t)r * p->pitch + p->parts[part].start + skip,
               (const char *)p->parts[part].from + (size_t)r * bytes + skip, length);
}

talc_status talc_cpu_join(talc_device *device, const talc_join_problem *problem, void *dst)
{
    (void)device;
    join_context context = { problem, dst };
    int64_t tasks = 0;
    for (int i = 0; i < problem->count; i++)
        tasks += cut_of(problem, i).tasks;
    if ((size_t)problem->rows * problem->pitch > TASK_BYTES)
        return talc_cpu_parallel(tasks, join_task, &context);
    /* Threads take longer to wake than to copy so little. */
    for (int64_t i = 0; i < tasks; i++)
        join_task(&context, i, 0);
    return TALC_OK;
}
