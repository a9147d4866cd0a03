#include "tests/support/fake_backend.h"

#include "backends/cpu/cpu.h"
#include "tests/support/hooks.h"

enum { MAX_ROWS = 12 };

/* A row's `run` does not know which row it is, so there is one for each place in the list. */
#define FAKE_RUN(op, index)                                                                        \
    static talc_status op##_run_##index(talc_device *device, const talc_##op##_problem *problem,   \
                                        const talc_##op##_arguments *arguments)                    \
    {                                                                                              \
        return fake_device_enqueue(device, op##_execute, &talc_cpu_backend.op[index], problem,     \
                                   sizeof *problem, arguments, sizeof *arguments);                 \
    }

#define FAKE_OP(op)                                                                                \
    static talc_status op##_execute(talc_device *device, const void *row, const void *problem,     \
                                    const void *arguments)                                         \
    {                                                                                              \
        return ((const talc_##op##_algorithm *)row)->run(device, problem, arguments);              \
    }                                                                                              \
    FAKE_RUN(op, 0)                                                                                \
    FAKE_RUN(op, 1)                                                                                \
    FAKE_RUN(op, 2)                                                                                \
    FAKE_RUN(op, 3)                                                                                \
    FAKE_RUN(op, 4)                                                                                \
    FAKE_RUN(op, 5)                                                                                \
    FAKE_RUN(op, 6)                                                                                \
    FAKE_RUN(op, 7)                                                                                \
    FAKE_RUN(op, 8)                                                                                \
    FAKE_RUN(op, 9)                                                                                \
    FAKE_RUN(op, 10)                                                                               \
    FAKE_RUN(op, 11)                                                                               \
    static talc_##op##_algorithm fake_##op[MAX_ROWS + 1];                                          \
    static const talc_##op##_algorithm *op##_rows(void)                                            \
    {                                                                                              \
        talc_status (*const runs[MAX_ROWS])(talc_device *, const talc_##op##_problem *,            \
                                            const talc_##op##_arguments *) = {                     \
            op##_run_0, op##_run_1, op##_run_2, op##_run_3, op##_run_4,  op##_run_5,               \
            op##_run_6, op##_run_7, op##_run_8, op##_run_9, op##_run_10, op##_run_11               \
        };                                                                                         \
        const talc_##op##_algorithm *cpu = talc_cpu_backend.op;                                    \
        for (int i = 0; cpu != NULL && cpu[i].algorithm.name != NULL; i++) {                       \
            cr_assert(i < MAX_ROWS, "fake device: the CPU has more rows of " #op);                 \
            fake_##op[i] = cpu[i];                                                                 \
            fake_##op[i].run = runs[i];                                                            \
        }                                                                                          \
        return cpu == NULL ? NULL : fake_##op;                                                     \
    }

// clang-format off
#define FAKE_OPS(X)                                                                                \
    X(batch_norm2d)                                                                                \
    X(binary)                                                                                      \
    X(conv2d)                                                                                      \
    X(cross_entropy)                                                                               \
    X(matmul)                                                                                      \
    X(pool2d)                                                                                      \
    X(reduce)                                                                                      \
    X(softmax)                                                                                     \
    X(unary)
// clang-format on

FAKE_OPS(FAKE_OP)

const struct talc_backend *fake_backend(void)
{
    static struct talc_backend fake;
#define FAKE_ROWS(op) .op = op##_rows(),
    fake = (struct talc_backend){ .name = "fake", FAKE_OPS(FAKE_ROWS) };
#undef FAKE_ROWS
    return &fake;
}
