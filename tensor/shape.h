/// Arithmetic on shapes and strides. Private to talc; no function here touches elements.
#ifndef TALC_TENSOR_SHAPE_H
#define TALC_TENSOR_SHAPE_H

#include "tensor/tensor.h"

/// Checks a shape for `who`: rank 0..8, no negative dimension, and the bytes of `dtype` elements
/// fit in int64. Gives the number of elements.
talc_status talc_shape_check(const char *who, talc_dtype dtype, talc_dims dims, int64_t *numel);

/// Row-major strides. The extents 0 and 1 both count as 1, so that strides stay positive.
void talc_shape_strides(talc_dims dims, int64_t strides[TALC_MAX_RANK]);

int64_t talc_shape_numel(talc_dims dims); ///< of a checked shape

bool talc_shape_equal(talc_dims a, talc_dims b);

/// The shape that a and b broadcast to, by NumPy's rule (aligned at the last dimension, extent 1
/// stretches).
bool talc_shape_broadcast(talc_dims a, talc_dims b, talc_dims *result);

/// Strides with which `tensor` is walked over `dims`, a shape it broadcasts to: 0 in the stretched
/// dimensions.
void talc_shape_broadcast_strides(const talc_tensor *tensor, talc_dims dims,
                                  int64_t strides[TALC_MAX_RANK]);

/// Turns a dimension counted from the end into one counted from the start and checks it against
/// rank.
talc_status talc_shape_dim(const char *who, int dim, int rank, int *result);

/// Merges neighbouring dimensions that each of `count` stride lists walks as one, and drops those
/// of extent 1. Returns the new rank; an all-ones shape becomes rank 0.
int talc_shape_coalesce(int rank, int64_t dims[TALC_MAX_RANK], int64_t *const strides[], int count);

#endif
