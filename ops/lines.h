/// The problem of an op along one dimension: softmax, log_softmax, cumsum and cumprod.
#ifndef TALC_OPS_LINES_H
#define TALC_OPS_LINES_H

#include "algorithm.h"

TALC_BEGIN_DECLARATIONS

/// One line of `extent` elements for every index of the outer dimensions, of x and of y, which has
/// x's shape and strides of its own. Outer dimensions are merged where one stride serves two.
typedef struct talc_lines_problem {
    talc_direction direction; ///< of running sums and products either
    bool log;                 ///< log_softmax
    talc_dtype dtype;
    int64_t extent;
    int64_t y_stride, x_stride; ///< elements between neighbours of one line
    int64_t outer;              ///< how many lines there are: product of outer_dims
    int outer_rank;
    int64_t outer_dims[TALC_MAX_RANK];
    int64_t y_strides[TALC_MAX_RANK];
    int64_t x_strides[TALC_MAX_RANK];
} talc_lines_problem;

/// Forward, without `log`. A scalar is one line of one element.
talc_lines_problem talc_lines_of(const talc_tensor *x, const talc_tensor *y, int dim);

TALC_END_DECLARATIONS

#endif
