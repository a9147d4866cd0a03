#include "backends/cuda/conv2d/slice_products.h"

#include "backends/cuda/matmul/f32_product.h"
#include "tensor/extent.h"

/* Of a chunk of `slices` slices that are `step` apart, and whose weights are `groups` apart; the
 * operands' addresses are missing. */
static talc_cuda_product product_of(const talc_conv2d_problem *p,
                                    const talc_cuda_conv2d_chunk *chunk, int64_t slices,
                                    int64_t step, int64_t groups)
{
    const int64_t OC = p->OC / p->groups, P = p->OH * p->OW, K = p->C / p->groups * p->KH * p->KW;
    talc_cuda_product product = {
        .dtype = p->dtype,
        .tf32 = chunk->tf32,
        .M = OC,
        .N = chunk->columns,
        .K = chunk->rows,
        .lda = K,
        .ldb = chunk->ldb,
        .ldc = P,
        .add = chunk->row > 0,
        .batch = slices,
        .a_stride = groups * OC * K,
        .b_stride = step * chunk->b_stride,
        .c_stride = step * OC * P,
    };
    if (p->direction == TALC_GRAD_INPUT) {
        product.M = chunk->rows;
        product.K = OC;
        product.transpose_a = true;
        product.ldb = P;
        product.ldc = chunk->ldb;
        product.add = false;
        product.b_stride = step * OC * P;
        product.c_stride = step * chunk->b_stride;
    }
    return product;
}

const char *talc_cuda_conv2d_packing(const talc_device *device, const talc_conv2d_problem *p,
                                     const talc_cuda_conv2d_chunk *chunk, size_t limit,
                                     talc_plan *plan)
{
    const talc_cuda_product product = product_of(p, chunk, chunk->slices, 1, 0);
    const int64_t P = p->OH * p->OW, K = p->C / p->groups * p->KH * p->KW;
    if (p->groups != 1)
        return "groups is not 1";
    if (chunk->columns < P || (p->direction == TALC_FORWARD && chunk->rows < K))
        return "the workspace does not hold a whole image's matrix";
    return talc_cuda_product_plan(device, &product, limit, plan);
}

static talc_status multiply(talc_device *device, const talc_conv2d_problem *p,
                            const talc_conv2d_arguments *arguments,
                            const talc_cuda_conv2d_chunk *chunk, int64_t slice, int64_t slices,
                            int64_t step, int64_t groups)
{
    const int64_t size = (int64_t)talc_dtype_size(p->dtype);
    const int64_t OC = p->OC / p->groups, P = p->OH * p->OW, K = p->C / p->groups * p->KH * p->KW;
    const int64_t w = slice % p->groups * OC * K + chunk->row, y = slice * OC * P + chunk->column;
    char *b = (char *)chunk->b + (slice - chunk->slice) * chunk->b_stride * size;
    talc_cuda_product product = product_of(p, chunk, slices, step, groups);
    product.a = (const char *)arguments->w + w * size;
    if (p->direction == TALC_GRAD_INPUT) {
        product.b = (const char *)arguments->dy + y * size;
        product.c = b;
    } else {
        product.b = b;
        product.c = (char *)arguments->y + y * size;
    }
    return talc_cuda_product_run(device, "conv2d", &product, chunk->packing, chunk->packing_bytes);
}

/* The strides of a batch are regular along the images of one group and along the groups of one
 * image: whole images go whichever way takes fewer calls, what is left group by group of one
 * image. */
talc_status talc_cuda_conv2d_multiply(talc_device *device, const talc_conv2d_problem *p,
                                      const talc_conv2d_arguments *arguments,
                                      const talc_cuda_conv2d_chunk *chunk)
{
    const int64_t end = chunk->slice + chunk->slices, groups = p->groups;
    int64_t slice = chunk->slice;
    talc_status status = TALC_OK;
    while (slice < end && status == TALC_OK) {
        const int64_t images = slice % groups == 0 ? (end - slice) / groups : 0;
        if (images >= groups) {
            for (int64_t g = 0; g < groups && status == TALC_OK; g++)
                status = multiply(device, p, arguments, chunk, slice + g, images, groups, 0);
            slice += images * groups;
        } else {
            const int64_t left = talc_smaller(end - slice, groups - slice % groups);
            status = multiply(device, p, arguments, chunk, slice, left, 1, 1);
            slice += left;
        }
    }
    return status;
}
