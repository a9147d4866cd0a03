/// Sums of the elements so far, along one dimension.
///
///     y[..., i, ...] = sum over j <= i of x[..., j, ...]
///
/// y has x's shape; dim may be negative; x may have any strides; an extent of 0 gives an empty result. A scalar counts as one element
/// of dimension 0. A NaN or an infinity is in the sums that it belongs to and in no other. Types: f32 or f64.
///
/// Gradient: dx[..., j, ...] = sum over i >= j of dy[..., i, ...].
///
/// Accuracy, with S = sum over j <= i of |x_j|: f32 is added in f64 and rounded once, within u |y_i| + 2^-53 i S; f64 within i u S.
///
/// Errors: NULL x, another dtype, dim out of range, no memory. Source: textbook; semantics as torch.cumsum.
#ifndef TALC_OPS_CUMSUM_H
#define TALC_OPS_CUMSUM_H

#include "algorithm.h"

TALC_BEGIN_DECLARATIONS

/// y, contiguous.
TALC_API talc_tensor *talc_cumsum(const talc_tensor *x, int dim);

// ---- What backends implement --------------------------------------------------------------------------------

/// One line of `extent` elements for every index of the outer dimensions, added from its first element on, or, for TALC_GRAD_INPUT,
/// from its last one back: x is dy then, and y dx. y has x's shape and is contiguous, so its strides differ from x's. Outer dimensions
/// are merged where one stride serves two; no extent is 0.
typedef struct talc_cumsum_problem {
    talc_direction direction;
    talc_dtype dtype;
    int64_t extent;
    int64_t y_stride, x_stride; ///< elements between neighbours of one line
    int64_t outer;              ///< how many lines there are: product of outer_dims
    int outer_rank;
    int64_t outer_dims[TALC_MAX_RANK];
    int64_t y_strides[TALC_MAX_RANK];
    int64_t x_strides[TALC_MAX_RANK];
} talc_cumsum_problem;

typedef struct talc_cumsum_arguments {
    talc_arguments base;
    void *y;
    const void *x;
} talc_cumsum_arguments;

TALC_END_DECLARATIONS

#endif
