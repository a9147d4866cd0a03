/// Softmax over one dimension, and its logarithm.
///
///     softmax:      y[..., i, ...] = exp(x_i - m) / sum over j of exp(x_j - m)
///     log_softmax:  y[..., i, ...] = x_i - m - log(sum over j of exp(x_j - m))
///
/// where m = max over j of x_j.
///
/// Subtracting m changes nothing but the range: logits of any size are safe. y has x's shape; dim
/// may be negative; x may have any strides; an extent of 0 gives an empty result. A scalar counts
/// as one element of dimension 0. A NaN, an infinite m, and so also a row that is all -infinity,
/// give NaN in the whole row. Types: f32 or f64.
///
/// Gradients: softmax: dx = y (dy - sum over j of dy_j y_j); log_softmax: dx = dy - exp(y) sum over
/// j of dy_j.
///
/// Accuracy, with n the extent of dim: softmax within (4 + |x_i - m| + min(n + 1, 32 + 2 sqrt(n)))
/// u of the exact value, relatively, plus the smallest subnormal; log_softmax within that much
/// absolutely, plus u |y|.
///
/// Errors: NULL x, another dtype, dim out of range, no memory. Source: textbook; semantics as
/// torch.softmax, torch.log_softmax.
#ifndef TALC_OPS_SOFTMAX_H
#define TALC_OPS_SOFTMAX_H

#include "lines.h"

TALC_BEGIN_DECLARATIONS

/// y, contiguous.
TALC_API talc_tensor *talc_softmax(const talc_tensor *x, int dim);
TALC_API talc_tensor *talc_log_softmax(const talc_tensor *x, int dim);

// ---- What backends implement --------------------------------------------------------------------

/// A softmax of each line. y is contiguous; no extent is 0.
typedef talc_lines_problem talc_softmax_problem;

typedef struct talc_softmax_arguments {
    talc_arguments base;
    void *y;
    const void *x;
} talc_softmax_arguments;

TALC_END_DECLARATIONS

#endif
