/// Activations: the functions that an op can apply to its result as its last step.
///
/// They are the elementwise ops of the same names (ops/elementwise.h), applied before the result is written.
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
    TALC_ACTIVATION_COUNT
} talc_activation;

/// "none", "relu", "sigmoid", "tanh"; "?" for another number.
TALC_API const char *talc_activation_name(talc_activation activation);

TALC_END_DECLARATIONS

#endif
