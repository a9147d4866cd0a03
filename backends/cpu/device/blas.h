/// Products by OpenBLAS, single-threaded, from several threads at once. Private to backends/cpu.
///
/// A task calls it between talc_openblas_enter and talc_openblas_leave (openblas.h), and only where
/// talc_openblas_refuses returned NULL.
#ifndef TALC_BACKENDS_CPU_DEVICE_BLAS_H
#define TALC_BACKENDS_CPU_DEVICE_BLAS_H

#include "tensor/tensor.h"

/// C = alpha * op(A) * op(B) + beta * C, row-major, for f32 or f64; op(A) is M x K, op(B) is K x N,
/// C is M x N. With transpose_a A is stored K x M, with transpose_b B is stored N x K. lda, ldb,
/// ldc are the elements from one stored row to the next. beta 0 does not read C. Sizes past
/// OpenBLAS's 32-bit integers are done in parts.
void talc_blas_gemm(talc_dtype dtype, bool transpose_a, bool transpose_b, int64_t M, int64_t N,
                    int64_t K, double alpha, const void *A, int64_t lda, const void *B, int64_t ldb,
                    double beta, void *C, int64_t ldc);

/// y = op(A) x for f32 or f64, A row-major and stored [rows, columns]: a matrix times a vector,
/// without the packing that talc_blas_gemm does. lda counts the elements between rows, step those
/// between x's elements; y is packed and not read. An empty sum is 0. False, with nothing done,
/// when a size passes 32 bits.
bool talc_blas_gemv(talc_dtype dtype, bool transpose, int64_t rows, int64_t columns, const void *A,
                    int64_t lda, const void *x, int64_t step, void *y);

#endif
