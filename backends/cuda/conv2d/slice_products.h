/// The products that convolutions are made of. Private to backends/cuda.
///
/// A slice is one group of one image, number n * groups + g: its inputs follow those of the slice
/// before it in x, and so do its outputs in y. As matrices, with OC and K those of a group,
///
///     y_s [OC, OH*OW] = w_g [OC, K] B_s [K, OH*OW]
///
/// so y is written in place, without a transposition. The input gradient goes the other way,
///
///     B_s [K, OH*OW] = w_g^T [K, OC] dy_s [OC, OH*OW]
#ifndef TALC_BACKENDS_CUDA_CONV2D_SLICE_PRODUCTS_H
#define TALC_BACKENDS_CUDA_CONV2D_SLICE_PRODUCTS_H

#include "ops/conv2d.h"

TALC_BEGIN_DECLARATIONS

/// A chunk of the products: some slices, some columns of y, some rows of B.
typedef struct talc_cuda_conv2d_chunk {
    int64_t slice, slices; ///< first, count
    int64_t column, columns;
    int64_t row, rows;     ///< after the first chunk of rows, sums are added to y
    void *b;               ///< B's chunk of the first slice
    int64_t ldb, b_stride; ///< elements from row to row, from slice to slice
    void *packing;         ///< for the operands of tensor cores; NULL: cuBLAS multiplies
    size_t packing_bytes;
    bool tf32; ///< cuBLAS rounds the operands
} talc_cuda_conv2d_chunk;

/// Why tensor cores cannot multiply chunks like this one with at most `limit` bytes of packing;
/// NULL where they can, with the bytes and how long one takes in `plan`. Its addresses are not
/// looked at.
const char *talc_cuda_conv2d_packing(const talc_device *device, const talc_conv2d_problem *problem,
                                     const talc_cuda_conv2d_chunk *chunk, size_t limit,
                                     talc_plan *plan);

/// Multiplies the chunk: forward B into arguments->y, for the input gradient arguments->dy into B.
talc_status talc_cuda_conv2d_multiply(talc_device *device, const talc_conv2d_problem *problem,
                                      const talc_conv2d_arguments *arguments,
                                      const talc_cuda_conv2d_chunk *chunk);

/// The time of one call of cuBLAS in the data's type: `batch` products of rows by columns, of sums
/// of `terms`.
double talc_cuda_conv2d_call_seconds(const talc_device *device, talc_dtype dtype, double rows,
                                     double columns, double terms, double batch);

TALC_END_DECLARATIONS

#endif
