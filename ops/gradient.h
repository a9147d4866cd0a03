/// What gradient rules share. Private to ops.
#ifndef TALC_OPS_GRADIENT_H
#define TALC_OPS_GRADIENT_H

#include "ops/activation.h"
#include "ops/elementwise.h"
#include "tensor/tape.h"

/// dx from dy and what the row of the elementwise table saves, NULL where it saves nothing.
talc_tensor *talc_unary_gradient(talc_unary_function function, const talc_tensor *dy,
                                 const talc_tensor *saved);

/// The gradient before an op's last step, from that after it and y; dy itself where there was no activation.
talc_tensor *talc_activation_gradient(talc_activation activation, const talc_tensor *dy,
                                      const talc_tensor *y);

#endif
