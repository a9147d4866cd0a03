/// What gradient rules share. Private to ops.
#ifndef TALC_OPS_GRADIENT_H
#define TALC_OPS_GRADIENT_H

#include "ops/activation.h"
#include "ops/elementwise.h"
#include "tensor/tape.h"

/// A row of the table of one operand with its numbers, 0 for those that it does not take, recorded.
talc_tensor *talc_unary(talc_unary_function function, const talc_tensor *x, double p, double q);

/// Whether a row of the table takes these numbers; else an error says why not.
bool talc_unary_numbers_fit(talc_unary_function function, const double numbers[2]);

/// dx from dy and what the row of the table saves, NULL where it saves nothing.
talc_tensor *talc_unary_gradient(talc_unary_function function, const double numbers[2],
                                 const talc_tensor *dy, const talc_tensor *saved);

/// A row of the table of two operands on tensors, recorded where it has a gradient; a NULL b is the
/// scalar. binary_tensors refuses it.
talc_tensor *talc_binary(talc_binary_function function, const talc_tensor *a, const talc_tensor *b,
                         double scalar);
talc_tensor *talc_binary_tensors(talc_binary_function function, const talc_tensor *a,
                                 const talc_tensor *b);

/// What rows of the table of two operands give for da and db. The larger of a and b gets dy, and
/// half of it where they are equal; so does the smaller. NULL while a failure stands.
talc_tensor *talc_pow_base_gradient(const talc_tensor *dy, const talc_tensor *a,
                                    const talc_tensor *b);
talc_tensor *talc_pow_exponent_gradient(const talc_tensor *dy, const talc_tensor *a,
                                        const talc_tensor *b, const talc_tensor *y);
talc_tensor *talc_prelu_input_gradient(const talc_tensor *dy, const talc_tensor *a,
                                       const talc_tensor *b);
talc_tensor *talc_prelu_weight_gradient(const talc_tensor *dy, const talc_tensor *a);
talc_tensor *talc_squared_difference_gradient(const talc_tensor *dy, const talc_tensor *a,
                                              const talc_tensor *b);
talc_tensor *talc_larger_gradient(const talc_tensor *dy, const talc_tensor *a,
                                  const talc_tensor *b);
talc_tensor *talc_smaller_gradient(const talc_tensor *dy, const talc_tensor *a,
                                   const talc_tensor *b);

/// dy where the condition holds, or where it does not, else 0. NULL while a failure stands.
talc_tensor *talc_keep_where(const talc_tensor *condition, const talc_tensor *dy, bool holds);

/// The activation of x by itself; x where there is none, and NULL of NULL.
talc_tensor *talc_activated(talc_activation activation, talc_tensor *x);

/// The gradient before an op's last step, from that after it and y, where it follows from these; dy
/// itself where there was no activation.
talc_tensor *talc_activation_gradient(talc_activation activation, const talc_tensor *dy,
                                      const talc_tensor *y);

#endif
