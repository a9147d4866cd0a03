/// cuBLAS as GPU kernels use it. Private to backends/cuda.
///
/// The library is opened when an op first asks for it, never linked, so that programs which need no
/// product run without it. Each stream of a GPU has a handle with a workspace of its own, as a
/// handle serves one thread at a time: with one stream and a fixed workspace cuBLAS gives the same
/// bits on every run. Arithmetic is that of the data's type (pedantic), whatever the environment
/// says, but where a product asks for TF32.
#ifndef TALC_BACKENDS_CUDA_DEVICE_BLAS_H
#define TALC_BACKENDS_CUDA_DEVICE_BLAS_H

#include "backends/cuda/cuda.h"

TALC_BEGIN_DECLARATIONS

/// NULL when cuBLAS can be used, else what is missing, for a plan's `missing`. Opens the library.
const char *talc_cuda_blas_refuses(void);

/// Why a device has no TF32 for elements of `dtype`; NULL.
const char *talc_cuda_blas_refuses_tf32(const talc_device *device, talc_dtype dtype);

/// Products of a batch, all row-major: C = op(A) op(B), or C += op(A) op(B); op(A) is M x K, op(B)
/// K x N, C M x N. A transposed A is stored K x M, a transposed B N x K.
typedef struct talc_cuda_product {
    talc_dtype dtype;
    int64_t M, N, K; ///< at least 1
    const void *a, *b;
    void *c;
    int64_t lda, ldb, ldc; ///< elements from one stored row to the next
    bool transpose_a, transpose_b;
    bool add;      ///< to what C holds; otherwise C is not read
    bool tf32;     ///< of f32: the operands are rounded to 10 bits of fraction, for tensor cores
    int64_t batch; ///< number of products, at least 1
    int64_t a_stride, b_stride, c_stride; ///< elements from one matrix to the next; 0: the same one
} talc_cuda_product;

/// Puts the products on the device's stream. `who` names the op in failures.
talc_status talc_cuda_multiply(talc_device *device, const char *who,
                               const talc_cuda_product *product);

TALC_END_DECLARATIONS

#endif
