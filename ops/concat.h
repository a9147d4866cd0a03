/// Joining tensors along a dimension, and taking one apart.
///
///     y[..., i, ...] = tensors[t][..., i - start_t, ...]   for start_t <= i < start_t + extent_t
///
/// start_t is the sum of the extents before. The tensors agree in rank (1 to 8), dtype, device, and
/// every extent but that of `dim`, which may be negative and may have extent 0 in some; they may
/// have any strides. Every dtype.
///
/// Gradients: each tensor receives its slice of dy; what is taken apart receives the parts'
/// gradients in their places.
///
/// Errors, naming the tensor by its index: count below 1, NULL list or tensor, rank 0, ranks,
/// extents, dtypes or devices that differ, dim out of range, sizes past int64, no memory; stack:
/// rank 8; split: a size below 0, sizes that do not add up to the extent; chunk: chunks below 1;
/// channel_shuffle: rank below 3, groups that do not divide the channels.
///
/// Source: textbook; semantics as torch.cat, stack, split, chunk, and
/// torch.nn.functional.channel_shuffle.
#ifndef TALC_OPS_CONCAT_H
#define TALC_OPS_CONCAT_H

#include "../tensor/tensor.h"

TALC_BEGIN_DECLARATIONS

/// y, contiguous, of `count` tensors.
TALC_API talc_tensor *talc_concat(const talc_tensor *const *tensors, int count, int dim);

/// y, contiguous, with a new dimension `dim` of extent `count`, along which the tensors, of one
/// shape and any rank below 8, stand.
TALC_API talc_tensor *talc_stack(const talc_tensor *const *tensors, int count, int dim);

/// parts[i]: views of x, sizes[i] along `dim`, one after the other. They belong to the scope, as
/// every result. On failure it is false, and all `count` parts are NULL.
TALC_API bool talc_split(const talc_tensor *x, const int64_t *sizes, int count, int dim,
                         talc_tensor **parts);

/// talc_split into at most `chunks` parts of ceil(extent / chunks), but for the last, which may be
/// shorter; `chunks` empty ones of an extent 0. Returns their number, 0 on failure; the rest of
/// parts, which has room for `chunks`, is NULL.
TALC_API int talc_chunk(const talc_tensor *x, int chunks, int dim, talc_tensor **parts);

/// x [N, C, ...] with the channels of `groups` groups taken in turns:
///
///     y[n, j * groups + g] = x[n, g * C/groups + j]
///
/// A view where one describes that, else contiguous.
TALC_API talc_tensor *talc_channel_shuffle(const talc_tensor *x, int64_t groups);

TALC_END_DECLARATIONS

#endif
