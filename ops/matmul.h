/// Matrix products.
///
///     y[..., m, n] = sum over k of a[..., m, k] * b[..., k, n]
///
/// Shapes: a [..., M, K], b [..., K, N], y [..., M, N]; the leading (batch) dimensions broadcast by
/// NumPy's rule. A vector a [K] is a row, [1, K], and its dimension is dropped from y; a vector b
/// [K] is a column, [K, 1], likewise; so two vectors give a scalar. Ranks 1 to 8. K = 0 gives
/// zeros. Types: f32 or f64, both alike, on one device. Transposed views are multiplied as they
/// are; a matrix of which neither rows nor columns are contiguous is copied first.
///
/// Gradients: da = dy b^T, db = a^T dy, each summed over the batch dimensions in which the operand
/// was stretched.
///
/// Accuracy: the classes of tensor/precision.h. Errors: NULL operand, rank 0, K that differ, batch
/// dimensions that do not broadcast, dtype or device mismatch, a result past int64, no algorithm,
/// no memory. Source: textbook; semantics as torch.matmul.
#ifndef TALC_OPS_MATMUL_H
#define TALC_OPS_MATMUL_H

#include "activation.h"
#include "algorithm.h"

TALC_BEGIN_DECLARATIONS

/// y = a b.
TALC_API talc_tensor *talc_matmul(const talc_tensor *a, const talc_tensor *b);

// ---- What backends implement --------------------------------------------------------------------

/// For every index of the batch dimensions: y = act( op(A) op(B) + bias + residual ), all
/// row-major, with op(A) [M, K], op(B) [K, N], y [M, N], bias [N] and residual as y. A transposed A
/// is stored [K, M], a transposed B [N, K]. The matrices of y and residual follow each other
/// without gaps, in the order of the batch dimensions.
typedef struct talc_matmul_problem {
    talc_dtype dtype;
    int64_t M, N, K;
    bool transpose_a, transpose_b;
    int64_t lda, ldb; ///< elements from one stored row of A, of B, to the next
    int64_t batch;    ///< number of products: product of batch_dims
    int batch_rank;   ///< dimensions are merged where one stride serves two
    int64_t batch_dims[TALC_MAX_RANK];
    int64_t a_strides[TALC_MAX_RANK]; ///< elements; 0 where A is the same
    int64_t b_strides[TALC_MAX_RANK];
    bool bias;
    bool residual;
    talc_activation activation;
} talc_matmul_problem;

typedef struct talc_matmul_arguments {
    talc_arguments base;
    void *y;
    const void *a, *b;
    const void *bias, *residual; ///< NULL when there is none
} talc_matmul_arguments;

TALC_END_DECLARATIONS

#endif
