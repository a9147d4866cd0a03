/// Elements picked by indices.
///
///     gather         y[i...] = x[i... with index[i...] in place of i_dim]
///     index_select   y[..., j, ...] = x[..., index[j], ...]
///     one_hot        y[i..., c] = 1 where c = labels[i...], else 0
///
/// gather: index has x's rank and y its shape, which may be smaller than x's, and in dimension
/// `dim` larger. index_select: index is [n] or a scalar, y has x's shape with n in dimension `dim`.
/// A scalar x has one dimension, of extent 1. one_hot: y is i64, with the classes in a last
/// dimension. x has any dtype and any strides; index and labels are i64, any strides. y is
/// contiguous.
///
/// Gradients, of gather and index_select by x: dx[j...] = the sum of dy over all elements that were
/// picked there, 0 where none was. It is added in ascending order of the index's elements, on the
/// CPU in the data's type, on GPUs in f64: within n u sum |dy| for n of them.
///
/// Errors: NULL, x and index on different devices, an index that is not i64, a dimension out of
/// range, an index of another rank or beyond x in another dimension, classes below 1, no memory. An
/// index or a label that is negative or too large is an error too: on the CPU at once, on a GPU of
/// the next call that waits, and what was picked is 0. Source: textbook; semantics as torch.gather,
/// torch.index_select, torch.nn.functional.one_hot with the number of classes given.
#ifndef TALC_OPS_GATHER_H
#define TALC_OPS_GATHER_H

#include "algorithm.h"

TALC_BEGIN_DECLARATIONS

TALC_API talc_tensor *talc_gather(const talc_tensor *x, int dim, const talc_tensor *index);
TALC_API talc_tensor *talc_index_select(const talc_tensor *x, int dim, const talc_tensor *index);
TALC_API talc_tensor *talc_one_hot(const talc_tensor *labels, int64_t classes);

// ---- What backends implement --------------------------------------------------------------------

typedef enum talc_gather_function {
    TALC_GATHER,
    TALC_INDEX_SELECT,
    TALC_ONE_HOT,
} talc_gather_function;

/// y[i...] = x[sum i x_strides + index[sum i index_strides] x_stride], over y's dimensions;
/// x_strides are 0 where the index counts, index_strides where it does not. y is contiguous and so
/// is the index, of index_count elements, each from 0 to extent - 1. Forward, dimensions are merged
/// where one stride of each serves two, and no extent is 0.
///
/// TALC_GRAD_INPUT: dx, contiguous, of x_count elements, in x's place, and dy in y's. Dimension
/// `along` is the one that the index counts; dimensions before and behind it are merged among
/// themselves.
typedef struct talc_gather_problem {
    talc_gather_function function;
    talc_direction direction;
    talc_dtype dtype;
    int rank;
    int64_t dims[TALC_MAX_RANK];
    int64_t y_strides[TALC_MAX_RANK];
    int64_t x_strides[TALC_MAX_RANK];
    int64_t index_strides[TALC_MAX_RANK];
    int64_t extent, x_stride;
    int64_t index_count;
    int along;       ///< gradient; forward, of the dimensions before they were merged
    int64_t x_count; ///< gradient
} talc_gather_problem;

typedef struct talc_gather_arguments {
    talc_arguments base;
    void *y;       ///< forward
    const void *x; ///< forward
    const int64_t *index;
    const void *dy; ///< gradient
    void *dx;       ///< gradient
} talc_gather_arguments;

/// Raises an algorithm's failure about element `element` of the index or the labels. Returns its
/// status.
talc_status talc_gather_bad_index(talc_gather_function function, int64_t element, int64_t index,
                                  int64_t extent);

TALC_END_DECLARATIONS

#endif
