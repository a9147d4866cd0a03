/// Activations and their gradients, by the formulas of ops/elementwise_table.h. Private to backends/cuda.
#ifndef TALC_BACKENDS_CUDA_ACTIVATION_CUH
#define TALC_BACKENDS_CUDA_ACTIVATION_CUH

#include "ops/activation.h"
#include "ops/elementwise_table.h"

namespace talc
{

/* The activations have the names of elementwise ops. */
#define TALC_ACTIVATION_FUNCTIONS(constant, name, numbers, with, value, saves, gradient)           \
    template <typename T> static __device__ T activation_##name(T x, [[maybe_unused]] T p = 0)     \
    {                                                                                              \
        [[maybe_unused]] const T t = (T)(with);                                                    \
        return (T)(value);                                                                         \
    }                                                                                              \
    template <typename T>                                                                          \
    static __device__ T activation_gradient_##name(T dy, [[maybe_unused]] T s,                     \
                                                   [[maybe_unused]] T p = 0)                       \
    {                                                                                              \
        [[maybe_unused]] const T x = s, t = (T)(with);                                             \
        return (T)(gradient);                                                                      \
    }
TALC_ACTIVATION_TABLE(TALC_ACTIVATION_FUNCTIONS)
#undef TALC_ACTIVATION_FUNCTIONS

template <typename T> __device__ T talc_activate(talc_activation activation, T x)
{
    switch (activation) {
    case TALC_ACTIVATION_RELU:
        return activation_relu(x);
    case TALC_ACTIVATION_SIGMOID:
        return activation_sigmoid(x);
    case TALC_ACTIVATION_TANH:
        return activation_tanh(x);
    default:
        return x;
    }
}

/// dy act'(x) from y = act(x).
template <typename T> __device__ T talc_activation_gradient(talc_activation activation, T dy, T y)
{
    switch (activation) {
    case TALC_ACTIVATION_RELU:
        return activation_gradient_relu(dy, y);
    case TALC_ACTIVATION_SIGMOID:
        return activation_gradient_sigmoid(dy, y);
    case TALC_ACTIVATION_TANH:
        return activation_gradient_tanh(dy, y);
    default:
        return dy;
    }
}

} // namespace talc

#endif
