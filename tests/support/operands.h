/// Operands for tests, and access to the elements of any view.
#ifndef TALC_TESTS_OPERANDS_H
#define TALC_TESTS_OPERANDS_H

#include "talc.h"

/// u, the unit roundoff of a float type.
double unit_roundoff(talc_dtype dtype);

/// The distance of a result from `expected` in units of a float type's last place at `expected`; at
/// 0 only 0 is near.
double ulps(talc_dtype dtype, double got, long double expected);

/// A contiguous CPU tensor of pseudo-random elements, the same for the same seed: floats in [-1, 1)
/// with all bits of the type used, integers of the type's whole range.
talc_tensor *random_operand(talc_dtype dtype, talc_dims dims, uint64_t seed);

/// The kinds of view that operand_view makes, VIEW_PACKED first.
enum { VIEW_PACKED, VIEW_TRANSPOSED, VIEW_STEPPED, VIEW_OFFSET, VIEW_COUNT };

/// A random tensor of shape `dims` seen in one of these ways: packed; with its dimensions stored in
/// reverse order; every second element of each dimension of a larger tensor; the inner part of a
/// larger tensor.
talc_tensor *random_view(int kind, talc_dtype dtype, talc_dims dims, uint64_t seed);

/// A copy on the CPU.
talc_tensor *on_host(const talc_tensor *x);

/// Element number `element`, in row-major order of the tensor's dimensions, whatever its strides.
double element_at(const talc_tensor *tensor, int64_t element);
int64_t integer_at(const talc_tensor *tensor, int64_t element);

/// Whether two tensors have the same dims, dtype and, to the bit, elements.
bool same_bits(const talc_tensor *a, const talc_tensor *b);

/// A sum of the bytes of the tensor's elements that changes when one does.
uint64_t fingerprint(const talc_tensor *tensor);

#endif
