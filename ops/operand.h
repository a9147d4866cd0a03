/// Checks that ops share. Private to talc. Each raises a failure that names the op and the operand.
#ifndef TALC_OPS_OPERAND_H
#define TALC_OPS_OPERAND_H

#include "ops/activation.h"
#include "tensor/shape.h"
#include "tensor/storage.h"

/// False when a failure stands, `tensor` is NULL, or its dtype is not f32 or f64.
bool talc_operand_float(const char *op, const char *name, const talc_tensor *tensor);

/// False when `b` is NULL or lives on another device or has another dtype than `a`, which was
/// checked before.
bool talc_operand_like(const char *op, const char *name_a, const talc_tensor *a, const char *name_b,
                       const talc_tensor *b);

/// False unless the tensor's rank is `rank`; `form` shows what is wanted: "[N,C,H,W]".
bool talc_operand_rank(const char *op, const char *name, const talc_tensor *tensor, int rank,
                       const char *form);

/// False unless the tensor's shape is `expected`.
bool talc_operand_shape(const char *op, const char *name, const talc_tensor *tensor,
                        talc_dims expected);

/// False unless `activation` is one.
bool talc_operand_activation(const char *op, talc_activation activation);

/// A contiguous handle on an operand: the tensor itself, retained, where it is contiguous (a view
/// would cost as much as the rest of a call), else a copy. And its device address. Both give NULL
/// for NULL, an operand that is left out.
talc_tensor *talc_operand_contiguous(const char *op, const talc_tensor *tensor);
void *talc_operand_data(const talc_tensor *tensor);

/// What an op returns after its run: the result, or NULL after releasing it when the status is a
/// failure.
talc_tensor *talc_result(talc_tensor *result, talc_status status);

#endif
