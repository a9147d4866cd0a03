/// Softmax over one dimension, and its logarithm.
///
///     softmax:      y[..., i, ...] = exp(x_i - m) / sum over j of exp(x_j - m)
///     log_softmax:  y[..., i, ...] = x_i - m - log(sum over j of exp(x_j - m)),      m = max over j of x_j
///
/// Subtracting m changes nothing but the range: logits of any size are safe. y has x's shape; dim may be negative; x may
/// have any strides; an extent of 0 gives an empty result. A scalar counts as one element of dimension 0. A NaN, an
/// infinite m, and so also a row that is all -infinity, give NaN in the whole row. Types: f32 or f64.
///
/// Gradients: softmax: dx = y (dy - sum over j of dy_j y_j); log_softmax: dx = dy - exp(y) sum over j of dy_j.
///
/// Accuracy, with n the extent of dim: softmax within (4 + |x_i - m| + min(n + 1, 32 + 2 sqrt(n))) u of the exact value,
/// relatively, plus the smallest subnormal; log_softmax within that much absolutely, plus u |y|.
///
/// Errors: NULL x, another dtype, dim out of range, no memory. Source: textbook; semantics as torch.softmax,
/// torch.log_softmax.
#ifndef TALC_OPS_SOFTMAX_H
#define TALC_OPS_SOFTMAX_H

#include "algorithm.h"

TALC_BEGIN_DECLARATIONS

/// y, contiguous.
TALC_API talc_tensor *talc_softmax(const talc_tensor *x, int dim);
TALC_API talc_tensor *talc_log_softmax(const talc_tensor *x, int dim);

// ---- What backends implement --------------------------------------------------------------------------------

/// One softmax of `extent` elements for every index of the outer dimensions. y has x's shape and is contiguous, so its
/// strides differ from x's. Outer dimensions are merged where one stride serves two; no extent is 0.
typedef struct talc_softmax_problem {
    talc_dtype dtype;
    bool log; ///< log_softmax
    int64_t extent;
    int64_t y_stride, x_stride; ///< elements between neighbours of one softmax
    int64_t outer;              ///< how many there are: product of outer_dims
    int outer_rank;
    int64_t outer_dims[TALC_MAX_RANK];
    int64_t y_strides[TALC_MAX_RANK];
    int64_t x_strides[TALC_MAX_RANK];
} talc_softmax_problem;

typedef struct talc_softmax_arguments {
    talc_arguments base;
    void *y;
    const void *x;
} talc_softmax_arguments;

TALC_END_DECLARATIONS

#endif
