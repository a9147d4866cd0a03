#include "backends/cuda/conv2d/slice_products.h"

#include "backends/cuda/conv2d/algorithms.h"
#include "backends/cuda/device/estimate.h"
#include "backends/cuda/matmul/f32_product.h"
#include "tensor/extent.h"

#include <math.h>

/* Of cuBLAS, fitted to 1,150 layers of networks and their gradients on an H200: terms below which
 * it splits no sum; seconds to add splits, and of a call beside its launch; bytes a second, and of
 * the weights of products with vectors. */
enum { SPLIT = 160 };
static const double ADDING = 2.5e-6, WAITS = 1.4e-6, MEMORY = 2.1e12, VECTORS = 3e12;

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

/* A tile of outputs of cuBLAS's kernels, and its share of the rate of FMA. */
typedef struct blas_tile {
    int rows, columns;
    double share;
} blas_tile;

/* A batch is waves of tiles; of a single product the sums may be split. */
static double seconds_of_waves(const talc_device *device, talc_dtype dtype, const blas_tile *tile,
                               double rows, double columns, double terms, double batch)
{
    const double multiprocessors = talc_cuda_state_of(device)->multiprocessors;
    const double tiles = ceil(rows / tile->rows) * ceil(columns / tile->columns) * batch;
    const double wanted = batch > 1 || tiles > multiprocessors / 2 ? 1 : multiprocessors / tiles;
    const double splits = floor(fmax(1, fmin(wanted, terms / SPLIT)));
    const double rate = talc_cuda_flops_a_second(device, dtype) * tile->share *
                        talc_cuda_blas_share(dtype) / talc_cuda_blas_share(TALC_F32);
    return ceil(tiles / multiprocessors) * multiprocessors * 2 * tile->rows * tile->columns *
               terms / splits / rate +
           (splits > 1 ? ADDING : 0);
}

double talc_cuda_conv2d_call_seconds(const talc_device *device, talc_dtype dtype, double rows,
                                     double columns, double terms, double batch)
{
    static const blas_tile tiles[] = {
        { 128, 128, 0.91 }, { 128, 64, 0.84 }, { 64, 64, 0.78 }, { 32, 32, 0.53 }
    };
    const double size = (double)talc_dtype_size(dtype);
    /* Of a batch whose products a tile of 64 x 64 holds, smaller tiles are not taken. */
    const bool held = batch > 1 && rows <= 64 && columns <= 64 && fmax(rows, columns) > 32;
    const size_t count = sizeof tiles / sizeof *tiles - (held ? 1 : 0);
    double computing = INFINITY;
    for (size_t i = 0; i < count; i++)
        computing = fmin(computing,
                         seconds_of_waves(device, dtype, &tiles[i], rows, columns, terms, batch));
    /* Of single columns products with vectors, which read the weights each. */
    if (columns == 1)
        computing = batch * rows * terms * size / VECTORS;
    const double columns_bytes = batch * (rows + terms) * columns * size;
    return TALC_CUDA_LAUNCH + fmax(computing + WAITS, columns_bytes / MEMORY);
}

double talc_cuda_conv2d_blas_seconds(const talc_device *device, const talc_conv2d_problem *p,
                                     double rows, double columns, double terms)
{
    /* As talc_cuda_conv2d_multiply calls it. */
    const double calls = fmin((double)p->groups, (double)p->N),
                 batch = fmax((double)p->groups, (double)p->N);
    return calls * talc_cuda_conv2d_call_seconds(device, p->dtype, rows, columns, terms, batch);
}
