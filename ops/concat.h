/// Concatenation along a dimension that the tensors have.
///
///     y[..., i, ...] = tensors[t][..., i - start_t, ...]   for start_t <= i < start_t + extent_t
///
/// start_t is the sum of the extents before. The tensors agree in rank (1 to 8), dtype, device, and every extent but
/// that of `dim`, which may be negative and may have extent 0 in some; they may have any strides. Every dtype.
///
/// Gradients: each tensor receives its slice of dy.
///
/// Errors, naming the tensor by its index: count below 1, NULL list or tensor, rank 0, ranks, extents, dtypes or
/// devices that differ, dim out of range, sizes past int64, no memory. Source: textbook; semantics as torch.cat.
#ifndef TALC_OPS_CONCAT_H
#define TALC_OPS_CONCAT_H

#include "../tensor/tensor.h"

TALC_BEGIN_DECLARATIONS

/// y, contiguous, of `count` tensors.
TALC_API talc_tensor *talc_concat(const talc_tensor *const *tensors, int count, int dim);

TALC_END_DECLARATIONS

#endif
