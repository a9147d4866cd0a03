#include "backends/cpu/conv2d/split_k.h"
#include "backends/cpu/primitives/element.h"

#include "backends/cpu/device/threads.h"
#include "tensor/extent.h"

enum { TASKS = 16, SUM_ELEMENTS = 8 << 10 };

static int64_t elements_of(const talc_conv2d_problem *p)
{
    return p->OC * (p->C / p->groups) * p->KH * p->KW;
}

talc_cpu_split_k talc_cpu_split_k_of(const talc_conv2d_problem *problem, int64_t others,
                                     int64_t terms, size_t limit)
{
    const size_t bytes = (size_t)elements_of(problem) * talc_dtype_size(problem->dtype);
    talc_cpu_split_k split_k = { .terms = terms, .bytes = talc_cpu_aligned(bytes) };
    const int64_t wanted = talc_smaller(talc_ceil_div(TASKS, others), terms);
    const int64_t fitting = talc_smaller((int64_t)(limit / 2 / split_k.bytes), TASKS);
    split_k.splits = talc_larger(1, talc_smaller(wanted, fitting));
    return split_k;
}

size_t talc_cpu_split_k_bytes(const talc_cpu_split_k *split_k)
{
    return split_k->splits == 1 ? 0 : (size_t)split_k->splits * split_k->bytes;
}

talc_range talc_cpu_split_k_terms(const talc_cpu_split_k *split_k, int64_t split)
{
    const int64_t each = split_k->terms / split_k->splits, rest = split_k->terms % split_k->splits;
    const int64_t first = split * each + talc_smaller(split, rest);
    return (talc_range){ first, first + each + (split < rest ? 1 : 0) };
}

void *talc_cpu_split_k_at(const talc_cpu_split_k *split_k, const talc_conv2d_problem *problem,
                          const talc_conv2d_arguments *arguments, int64_t split, int64_t offset)
{
    char *base = split_k->splits == 1
                     ? arguments->dw
                     : (char *)arguments->base.workspace + (size_t)split * split_k->bytes;
    return base + offset * (int64_t)talc_dtype_size(problem->dtype);
}

// ---- The sum ------------------------------------------------------------------------------------

typedef struct sum_context {
    const talc_cpu_split_k *split_k;
    const talc_conv2d_problem *problem;
    const talc_conv2d_arguments *arguments;
} sum_context;

#define ADD_SPLIT(constant, suffix, T, A)                                                          \
    static void add_split_##suffix(int64_t count, T *restrict dw, const T *restrict split,         \
                                   bool first)                                                     \
    {                                                                                              \
        for (int64_t i = 0; i < count; i++)                                                        \
            dw[i] = first ? split[i] : dw[i] + split[i];                                           \
    }

TALC_CPU_FLOATS(ADD_SPLIT)

static void sum_task(void *context, int64_t task, int worker)
{
    (void)worker;
    const sum_context *c = context;
    const talc_conv2d_problem *p = c->problem;
    const int64_t first = task * SUM_ELEMENTS;
    const int64_t count = talc_smaller(SUM_ELEMENTS, elements_of(p) - first);
    for (int64_t split = 0; split < c->split_k->splits; split++) {
        const void *from = talc_cpu_split_k_at(c->split_k, p, c->arguments, split, first);
        void *to = (char *)c->arguments->dw + first * (int64_t)talc_dtype_size(p->dtype);
        TALC_CPU_CALL(p->dtype, add_split, (count, to, from, split == 0));
    }
}

talc_status talc_cpu_split_k_sum(const talc_cpu_split_k *split_k,
                                 const talc_conv2d_problem *problem,
                                 const talc_conv2d_arguments *arguments)
{
    sum_context context = { split_k, problem, arguments };
    const int64_t tasks = talc_ceil_div(elements_of(problem), SUM_ELEMENTS);
    return split_k->splits == 1 ? TALC_OK : talc_cpu_parallel(tasks, sum_task, &context);
}
