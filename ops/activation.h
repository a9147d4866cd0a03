/// Activations: the functions that an op can apply to its result as its last step.
///
/// They are the elementwise ops of the same names (ops/elementwise.h), applied before the result is
/// written; leaky_relu with the slope 0.01, PyTorch's default. With another slope it is an op of
/// its own, and so is the layer after another.
#ifndef TALC_OPS_ACTIVATION_H
#define TALC_OPS_ACTIVATION_H

#include "../tensor/api.h"

TALC_BEGIN_DECLARATIONS

/// In the order of the rows of ops/elementwise_table.h.
typedef enum talc_activation {
    TALC_ACTIVATION_NONE,
    TALC_ACTIVATION_RELU,
    TALC_ACTIVATION_SIGMOID,
    TALC_ACTIVATION_TANH,
    TALC_ACTIVATION_RELU6,
    TALC_ACTIVATION_HARDSIGMOID,
    TALC_ACTIVATION_HARDSWISH,
    TALC_ACTIVATION_SILU,
    TALC_ACTIVATION_GELU,
    TALC_ACTIVATION_LEAKY_RELU,
    TALC_ACTIVATION_COUNT
} talc_activation;

/// "none", "relu", "sigmoid", ...; "?" for another number.
TALC_API const char *talc_activation_name(talc_activation activation);

/// Whether its gradient follows from its result. Where one is recorded and it does not, as
/// hardswish's and those behind it, the op runs without the activation, and the elementwise op
/// after it.
TALC_API bool talc_activation_gradient_from_result(talc_activation activation);

TALC_END_DECLARATIONS

#endif
