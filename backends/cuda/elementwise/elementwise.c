/// Elementwise ops, from the table in ops/elementwise_table.h.
///
///     y[i...] = f(x[i...])        y[i...] = f(a[i...], b[i...])
///
/// Memory-bound; map.cu has the kernels.
#include "backends/cuda/elementwise/map.h"

// ---- One operand --------------------------------------------------------------------------------

static talc_status run_unary(talc_device *device, const void *problem, const talc_plan *plan,
                             const void *given)
{
    const talc_unary_problem *p = problem;
    const talc_unary_arguments *arguments = given;
    (void)plan;
    const talc_cuda_map map = { .function = (int)p->function,
                                .dtype = p->dtype,
                                .rank = p->rank,
                                .y = arguments->y,
                                .a = arguments->x,
                                .numbers = { p->numbers[0], p->numbers[1] } };
    return talc_cuda_map_run(device, "elementwise", map, p->dims, p->y_strides, p->x_strides, NULL);
}

const talc_algorithm talc_cuda_unary[] = {
    { "direct", NULL, { "the data's own type", TALC_STRICT, false }, talc_plan_any, run_unary },
    { NULL, NULL, { NULL, TALC_STRICT, false }, NULL, NULL },
};

// ---- Two operands -------------------------------------------------------------------------------

static talc_status run_binary(talc_device *device, const void *problem, const talc_plan *plan,
                              const void *given)
{
    const talc_binary_problem *p = problem;
    const talc_binary_arguments *arguments = given;
    (void)plan;
    const talc_cuda_map map = { .function = TALC_CUDA_BINARY + (int)p->function,
                                .dtype = p->dtype,
                                .rank = p->rank,
                                .y = arguments->y,
                                .a = arguments->a,
                                .b = p->b_is_scalar ? NULL : arguments->b,
                                .scalar = p->scalar,
                                .numbers = { p->numbers[0], p->numbers[1] } };
    return talc_cuda_map_run(device, "elementwise", map, p->dims, p->y_strides, p->a_strides,
                             p->b_strides);
}

const talc_algorithm talc_cuda_binary[] = {
    { "direct", NULL, { "the data's own type", TALC_STRICT, false }, talc_plan_any, run_binary },
    { NULL, NULL, { NULL, TALC_STRICT, false }, NULL, NULL },
};
