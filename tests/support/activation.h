/// The activations by their formulas. For oracles.
#ifndef TALC_TESTS_ACTIVATION_H
#define TALC_TESTS_ACTIVATION_H

#include "talc.h"

#include <math.h>

static inline double activated(talc_activation activation, double x)
{
    switch (activation) {
    case TALC_ACTIVATION_RELU:
        return x < 0 ? 0 : x;
    case TALC_ACTIVATION_SIGMOID:
        return 1 / (1 + exp(-x));
    case TALC_ACTIVATION_TANH:
        return tanh(x);
    case TALC_ACTIVATION_RELU6:
        return fmin(fmax(x, 0), 6);
    case TALC_ACTIVATION_HARDSIGMOID:
        return fmin(fmax(x + 3, 0), 6) / 6;
    case TALC_ACTIVATION_HARDSWISH:
        return x * fmin(fmax(x + 3, 0), 6) / 6;
    case TALC_ACTIVATION_SILU:
        return x / (1 + exp(-x));
    case TALC_ACTIVATION_GELU:
        return x / 2 * erfc(-x / sqrt(2));
    case TALC_ACTIVATION_LEAKY_RELU:
        return x > 0 ? x : 0.01 * x;
    default:
        return x;
    }
}

#endif
