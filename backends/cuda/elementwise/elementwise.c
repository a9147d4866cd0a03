/// Elementwise ops, from the table in ops/elementwise_table.h.
///
///     y[i...] = f(x[i...])        y[i...] = f(a[i...], b[i...])
///
/// Memory-bound; map.cu has the kernels.
#include "backends/cuda/elementwise/map.h"

#include <string.h>

// ---- One operand --------------------------------------------------------------------------------------------

static talc_status unary_run(talc_device *device, const talc_unary_problem *p,
                             const talc_unary_arguments *arguments)
{
    const talc_status status = talc_cuda_enter(device, "elementwise");
    if (status != TALC_OK)
        return status;
    talc_cuda_map map = { .function = (int)p->function,
                          .dtype = p->dtype,
                          .rank = p->rank,
                          .y = arguments->y,
                          .a = arguments->x };
    memcpy(map.dims, p->dims, sizeof map.dims);
    memcpy(map.strides[0], p->y_strides, sizeof map.dims);
    memcpy(map.strides[1], p->x_strides, sizeof map.dims);
    return talc_cuda_map_run(device, "elementwise", &map);
}

static const char *unary_refuses(const talc_unary_problem *problem)
{
    (void)problem;
    return NULL;
}

const talc_unary_algorithm talc_cuda_unary[] = {
    { { "direct", { "the data's own type", TALC_STRICT, false } }, unary_refuses, unary_run },
    { { NULL, { NULL, TALC_STRICT, false } }, NULL, NULL },
};

// ---- Two operands -------------------------------------------------------------------------------------------

static talc_status binary_run(talc_device *device, const talc_binary_problem *p,
                              const talc_binary_arguments *arguments)
{
    const talc_status status = talc_cuda_enter(device, "elementwise");
    if (status != TALC_OK)
        return status;
    talc_cuda_map map = { .function = TALC_CUDA_BINARY + (int)p->function,
                          .dtype = p->dtype,
                          .rank = p->rank,
                          .y = arguments->y,
                          .a = arguments->a,
                          .b = p->b_is_scalar ? NULL : arguments->b,
                          .scalar = p->scalar };
    memcpy(map.dims, p->dims, sizeof map.dims);
    memcpy(map.strides[0], p->y_strides, sizeof map.dims);
    memcpy(map.strides[1], p->a_strides, sizeof map.dims);
    memcpy(map.strides[2], p->b_strides, sizeof map.dims);
    return talc_cuda_map_run(device, "elementwise", &map);
}

static const char *binary_refuses(const talc_binary_problem *problem)
{
    (void)problem;
    return NULL;
}

const talc_binary_algorithm talc_cuda_binary[] = {
    { { "direct", { "the data's own type", TALC_STRICT, false } }, binary_refuses, binary_run },
    { { NULL, { NULL, TALC_STRICT, false } }, NULL, NULL },
};
