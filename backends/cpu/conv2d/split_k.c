#include "backends/cpu/conv2d/split_k.h"
#include "backends/cpu/primitives/element.h"

#include "backends/cpu/device/threads.h"
#include "tensor/extent.h"

enum { TASKS = 16, SUM_ELEMENTS = 8 << 10 };

static int64_t elements_of(const talc_conv2d_problem *p)
{
    return p->OC * (p->C / p->groups) * p->KH * p->KW;
}

talc_cpu_partial talc_cpu_partial_of(const talc_conv2d_problem *problem, int64_t others,
                                     int64_t terms, size_t limit)
{
    const size_t bytes = (size_t)elements_of(problem) * talc_dtype_size(problem->dtype);
    talc_cpu_partial partial = { .terms = terms, .bytes = (bytes + 63) / 64 * 64 };
    const int64_t wanted = talc_smaller(talc_ceil_div(TASKS, others), terms);
    const int64_t fitting = talc_smaller((int64_t)(limit / 2 / partial.bytes), TASKS);
    partial.parts = talc_larger(1, talc_smaller(wanted, fitting));
    return partial;
}

size_t talc_cpu_partial_bytes(const talc_cpu_partial *partial)
{
    return partial->parts == 1 ? 0 : (size_t)partial->parts * partial->bytes;
}

talc_range talc_cpu_partial_terms(const talc_cpu_partial *partial, int64_t part)
{
    const int64_t each = partial->terms / partial->parts, rest = partial->terms % partial->parts;
    const int64_t first = part * each + talc_smaller(part, rest);
    return (talc_range){ first, first + each + (part < rest ? 1 : 0) };
}

void *talc_cpu_partial_at(const talc_cpu_partial *partial, const talc_conv2d_problem *problem,
                          const talc_conv2d_arguments *arguments, int64_t part, int64_t offset)
{
    char *base = partial->parts == 1
                     ? arguments->dw
                     : (char *)arguments->base.workspace + (size_t)part * partial->bytes;
    return base + offset * (int64_t)talc_dtype_size(problem->dtype);
}

// ---- The sum ------------------------------------------------------------------------------------

typedef struct sum_context {
    const talc_cpu_partial *partial;
    const talc_conv2d_problem *problem;
    const talc_conv2d_arguments *arguments;
} sum_context;

#define ADD_PART(suffix, type)                                                                     \
    static void add_part_##suffix(int64_t count, type *restrict dw, const type *restrict part,     \
                                  bool first)                                                      \
    {                                                                                              \
        for (int64_t i = 0; i < count; i++)                                                        \
            dw[i] = first ? part[i] : dw[i] + part[i];                                             \
    }

ADD_PART(f32, float)
ADD_PART(f64, double)

static void sum_task(void *context, int64_t task, int worker)
{
    (void)worker;
    const sum_context *c = context;
    const talc_conv2d_problem *p = c->problem;
    const int64_t first = task * SUM_ELEMENTS;
    const int64_t count = talc_smaller(SUM_ELEMENTS, elements_of(p) - first);
    for (int64_t part = 0; part < c->partial->parts; part++) {
        const void *from = talc_cpu_partial_at(c->partial, p, c->arguments, part, first);
        void *to = (char *)c->arguments->dw + first * (int64_t)talc_dtype_size(p->dtype);
        TALC_CPU_CALL(p->dtype, add_part, (count, to, from, part == 0));
    }
}

talc_status talc_cpu_partial_sum(const talc_cpu_partial *partial,
                                 const talc_conv2d_problem *problem,
                                 const talc_conv2d_arguments *arguments)
{
    sum_context context = { partial, problem, arguments };
    const int64_t tasks = talc_ceil_div(elements_of(problem), SUM_ELEMENTS);
    return partial->parts == 1 ? TALC_OK : talc_cpu_parallel(tasks, sum_task, &context);
}
