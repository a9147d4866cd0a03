/// Products of the elements so far, along one dimension.
///
///     y[..., i, ...] = product over j <= i of x[..., j, ...]
///
/// y has x's shape; dim may be negative; x may have any strides; an extent of 0 gives an empty
/// result. A scalar counts as one element of dimension 0. Products are taken in the order of the
/// elements: one that is infinite, 0 or NaN decides those behind it as in IEEE 754. Types: f32 or
/// f64.
///
/// Gradient, without a division, so that zeros need no case of their own:
///
///     dx[..., j, ...] = y[..., j - 1, ...] s_j,   s_j = dy_j + x_(j+1) s_(j+1)
///
/// with y_(-1) = 1 and s = 0 behind the last element. It is worked out along contiguous copies.
///
/// Accuracy, with u the unit roundoff of the type: f32 is multiplied in f64 and rounded once,
/// within u |y_i| + i 2^-53 |y_i|; f64 within i u |y_i|, where no product so far leaves the normal
/// numbers of f64. The gradient within u |dx_j| + 3 n 2^-53 S, and 3 n u S of f64, where S has the
/// sizes of the terms in place of the terms.
///
/// Errors: NULL x, another dtype, dim out of range, no memory. Source: textbook; semantics as
/// torch.cumprod.
#ifndef TALC_OPS_CUMPROD_H
#define TALC_OPS_CUMPROD_H

#include "lines.h"

TALC_BEGIN_DECLARATIONS

/// y, contiguous.
TALC_API talc_tensor *talc_cumprod(const talc_tensor *x, int dim);

// ---- What backends implement --------------------------------------------------------------------

/// y is contiguous; no extent is 0. TALC_GRAD_INPUT: x, dy and dx are contiguous, and lie as y.
typedef talc_lines_problem talc_cumprod_problem;

typedef struct talc_cumprod_arguments {
    talc_arguments base;
    void *y;
    const void *x;
    const void *dy; ///< gradient
    void *dx;       ///< gradient
} talc_cumprod_arguments;

TALC_END_DECLARATIONS

#endif
