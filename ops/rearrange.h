/// Elements in another order, more than once, or not at all.
///
///     flip   y[..., i, ...] = x[..., extent - 1 - i, ...]   along each dimension of a list
///     tile   y[i...] = x[i mod extent...]
///     tril   y[..., i, j] = x[..., i, j] where j - i <= diagonal, else 0
///     triu   y[..., i, j] = x[..., i, j] where j - i >= diagonal, else 0
///
/// x has any dtype and any strides; y is contiguous. tril and triu take matrices in the last two
/// dimensions, and what they leave out is 0 where x is NaN, too. They are made of other ops.
///
/// Gradients: of flip dy flipped, of tile the sum of dy over the copies, of tril and triu tril and
/// triu of dy.
///
/// Errors: NULL, a dimension out of range or named twice, a repeat below 0, a rank above 8, tril
/// and triu: a rank below 2, extents past int64, no memory. Source: textbook; semantics as
/// torch.flip, torch.tile, torch.tril and torch.triu.
#ifndef TALC_OPS_REARRANGE_H
#define TALC_OPS_REARRANGE_H

#include "../tensor/tensor.h"

TALC_BEGIN_DECLARATIONS

/// dims.dim has the dimensions, in any order, negative ones count from the end; of none y is a
/// copy.
TALC_API talc_tensor *talc_flip(const talc_tensor *x, talc_dims dims);

/// Where x has more dimensions than there are repeats, those of the first are 1; where it has
/// fewer, it gets dimensions of extent 1 in front.
TALC_API talc_tensor *talc_tile(const talc_tensor *x, talc_dims repeats);

/// Diagonal 0 is the main one; a positive one lies above it.
TALC_API talc_tensor *talc_tril(const talc_tensor *x, int64_t diagonal);
TALC_API talc_tensor *talc_triu(const talc_tensor *x, int64_t diagonal);

TALC_END_DECLARATIONS

#endif
