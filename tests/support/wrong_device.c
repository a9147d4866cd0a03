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

static void corrupt(const char *op, float *y)
{
    if (strcmp(op, wrong.op) == 0 && --wrong.calls_left == 0)
        y[wrong.index] += (float)wrong.error;
}

/* The CPU's first algorithm that can do the problem, with its plan. */
static const talc_algorithm *row_of(const talc_algorithm *algorithm, const talc_device *device,
                                    const void *problem, size_t limit, talc_plan *plan)
{
    while (algorithm->plan(device, problem, limit, plan) != NULL)
        algorithm++;
    return algorithm;
}

#define WRONG_OP(op)                                                                               \
    static const char *op##_plan(const talc_device *device, const void *problem, size_t limit,     \
                                 talc_plan *plan)                                                  \
    {                                                                                              \
        (void)row_of(talc_cpu_backend.algorithms[TALC_OP_##op], device, problem, limit, plan);     \
        return NULL;                                                                               \
    }                                                                                              \
    static talc_status op##_run(talc_device *device, const void *problem, const talc_plan *plan,   \
                                const void *arguments)                                             \
    {                                                                                              \
        talc_plan again;                                                                           \
        const talc_algorithm *algorithm =                                                          \
            row_of(talc_cpu_backend.algorithms[TALC_OP_##op], device, problem,                     \
                   talc_workspace_limit(device), &again);                                          \
        const talc_status status = algorithm->run(device, problem, plan, arguments);               \
        corrupt(#op, ((const talc_##op##_arguments *)arguments)->y);                               \
        return status;                                                                             \
    }                                                                                              \
    static const talc_algorithm op##_algorithms[] = {                                              \
        { "reference", NULL, { "as the CPU's", TALC_STRICT, false }, op##_plan, op##_run },        \
        { .name = NULL },                                                                          \
    };

WRONG_OP(conv2d)
WRONG_OP(batch_norm2d)
WRONG_OP(unary)
WRONG_OP(binary)

talc_device *wrong_device(const char *op, int call, int64_t index, double error)
{
    static struct talc_backend backend;
    static talc_device device;
    device = *cpu_device();
    backend = *device.backend;
    backend.algorithms[TALC_OP_conv2d] = conv2d_algorithms;
    backend.algorithms[TALC_OP_batch_norm2d] = batch_norm2d_algorithms;
    backend.algorithms[TALC_OP_unary] = unary_algorithms;
    backend.algorithms[TALC_OP_binary] = binary_algorithms;
    memcpy(device.name, "wrong", sizeof "wrong");
    device.backend = &backend;
    wrong.op = op;
    wrong.calls_left = call;
    wrong.index = index;
    wrong.error = error;
    return &device;
}
