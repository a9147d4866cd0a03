/// Checks that ops share. Private to talc. Each raises a failure that names the op and the operand.
#ifndef TALC_OPS_OPERAND_H
#define TALC_OPS_OPERAND_H

#include "ops/activation.h"
#include "tensor/shape.h"
#include "tensor/storage.h"

/// False when a failure stands, `tensor` is NULL, or its dtype is not f32 or f64.
bool talc_operand_float(const char *op, const char *name, const talc_tensor *tensor);

/// False when `b` is NULL or lives on another device or has another dtype than `a`, which was checked before.
bool talc_operand_like(const char *op, const char *name_a, const talc_tensor *a, const char *name_b,
                       const talc_tensor *b);

/// False unless the tensor's rank is `rank`; `form` shows what is wanted: "[N,C,H,W]".
bool talc_operand_rank(const char *op, const char *name, const talc_tensor *tensor, int rank,
                       const char *form);

/// False unless the tensor's shape is `due`.
bool talc_operand_shape(const char *op, const char *name, const talc_tensor *tensor, talc_dims due);

/// False unless `activation` is one.
bool talc_operand_activation(const char *op, talc_activation activation);

/// An operand's elements without gaps, in the tensor itself, retained, where it has none: a view costs as much as the rest of
/// a call. And the device address. Of an operand that may be absent: NULL stays NULL.
talc_tensor *talc_operand_contiguous(const char *op, const talc_tensor *tensor);
void *talc_operand_data(const talc_tensor *tensor);

/// What an op returns after its run: the result, or NULL after releasing it when the status is a failure.
talc_tensor *talc_result(talc_tensor *result, talc_status status);

#endif
