/// Sums of the elements so far, along one dimension.
///
///     y[..., i, ...] = sum over j <= i of x[..., j, ...]
///
/// y has x's shape; dim may be negative; x may have any strides; an extent of 0 gives an empty
/// result. A scalar counts as one element of dimension 0. A NaN or an infinity is in the sums that
/// it belongs to and in no other. Types: f32 or f64.
///
/// Gradient: dx[..., j, ...] = sum over i >= j of dy[..., i, ...].
///
/// Accuracy, with S = sum over j <= i of |x_j|: f32 is added in f64 and rounded once, within u
/// |y_i| + 2^-53 i S; f64 within i u S.
///
/// Errors: NULL x, another dtype, dim out of range, no memory. Source: textbook; semantics as
/// torch.cumsum.
#ifndef TALC_OPS_CUMSUM_H
#define TALC_OPS_CUMSUM_H

#include "lines.h"

TALC_BEGIN_DECLARATIONS

/// y, contiguous.
TALC_API talc_tensor *talc_cumsum(const talc_tensor *x, int dim);

// ---- What backends implement --------------------------------------------------------------------

/// Each line is added from its first element on, or, for TALC_GRAD_INPUT, from its last one back: x
/// is dy then, and y dx. y is contiguous; no extent is 0.
typedef talc_lines_problem talc_cumsum_problem;

typedef struct talc_cumsum_arguments {
    talc_arguments base;
    void *y;
    const void *x;
} talc_cumsum_arguments;

TALC_END_DECLARATIONS

#endif
