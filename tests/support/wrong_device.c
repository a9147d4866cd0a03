#include "tests/support/wrong_device.h"

#include "backends/cpu/cpu.h"
#include "tests/support/hooks.h"

#include <string.h>

static struct {
    const char *op;
    int calls_left;
    int64_t index;
    double error;
} wrong;

static void spoil(const char *op, float *y)
{
    if (strcmp(op, wrong.op) == 0 && --wrong.calls_left == 0)
        y[wrong.index] += (float)wrong.error;
}

/* One row of an op, by the CPU's first row that takes the problem. */
#define WRONG_OP(op)                                                                               \
    static const talc_##op##_algorithm *op##_row(const talc_##op##_problem *problem)               \
    {                                                                                              \
        const talc_##op##_algorithm *row = talc_cpu_backend.op;                                    \
        while (row->refuses(problem) != NULL)                                                      \
            row++;                                                                                 \
        return row;                                                                                \
    }                                                                                              \
    static const char *op##_refuses(const talc_##op##_problem *problem)                            \
    {                                                                                              \
        (void)problem;                                                                             \
        return NULL;                                                                               \
    }                                                                                              \
    static talc_status op##_run(talc_device *device, const talc_##op##_problem *problem,           \
                                const talc_##op##_arguments *arguments)                            \
    {                                                                                              \
        talc_status status = op##_row(problem)->run(device, problem, arguments);                   \
        spoil(#op, arguments->y);                                                                  \
        return status;                                                                             \
    }

WRONG_OP(conv2d)
WRONG_OP(batch_norm2d)
WRONG_OP(unary)
WRONG_OP(binary)

static size_t conv2d_workspace(const talc_device *device, const talc_conv2d_problem *problem,
                               size_t limit)
{
    const talc_conv2d_algorithm *row = conv2d_row(problem);
    return row->workspace == NULL ? 0 : row->workspace(device, problem, limit);
}

static size_t batch_norm2d_workspace(const talc_batch_norm2d_problem *problem)
{
    const talc_batch_norm2d_algorithm *row = batch_norm2d_row(problem);
    return row->workspace == NULL ? 0 : row->workspace(problem);
}

#define ROW                                                                                        \
    {                                                                                              \
        "reference",                                                                               \
        {                                                                                          \
            "as the CPU's", TALC_STRICT, false                                                     \
        }                                                                                          \
    }

talc_device *wrong_device(const char *op, int call, int64_t index, double error)
{
    static const talc_conv2d_algorithm conv2d[] = { { .algorithm = ROW,
                                                      .refuses = conv2d_refuses,
                                                      .workspace = conv2d_workspace,
                                                      .run = conv2d_run },
                                                    { .algorithm = { .name = NULL } } };
    static const talc_batch_norm2d_algorithm batch_norm2d[] = {
        { ROW, batch_norm2d_refuses, batch_norm2d_workspace, batch_norm2d_run },
        { { NULL, { 0 } }, NULL, NULL, NULL }
    };
    static const talc_unary_algorithm unary[] = { { ROW, unary_refuses, unary_run },
                                                  { { NULL, { 0 } }, NULL, NULL } };
    static const talc_binary_algorithm binary[] = { { ROW, binary_refuses, binary_run },
                                                    { { NULL, { 0 } }, NULL, NULL } };
    static struct talc_backend backend;
    static talc_device device;
    device = *cpu_device();
    backend = *device.backend;
    backend.conv2d = conv2d;
    backend.batch_norm2d = batch_norm2d;
    backend.unary = unary;
    backend.binary = binary;
    memcpy(device.name, "wrong", sizeof "wrong");
    device.backend = &backend;
    wrong.op = op;
    wrong.calls_left = call;
    wrong.index = index;
    wrong.error = error;
    return &device;
}
