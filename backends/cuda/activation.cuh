/// Activations and their gradients, by the formulas of ops/elementwise_table.h. Private to backends/cuda.
#ifndef TALC_BACKENDS_CUDA_ACTIVATION_CUH
#define TALC_BACKENDS_CUDA_ACTIVATION_CUH

#include "ops/activation.h"
#include "ops/elementwise.h"

namespace talc
{

/* The activations have the names of elementwise ops. */
#define TALC_ACTIVATION_FUNCTIONS(constant, name, numbers, with, value, saves, gradient)           \
    template <typename T> static __device__ T activation_##name(T x)                               \
    {                                                                                              \
        [[maybe_unused]] const T t = (T)(with), p = (T)TALC_ACTIVATION_NUMBER;                     \
        return (T)(value);                                                                         \
    }                                                                                              \
    template <typename T>                                                                          \
    static __device__ T activation_gradient_##name(T dy, [[maybe_unused]] T s)                     \
    {                                                                                              \
        [[maybe_unused]] const T x = s, t = (T)(with), p = (T)TALC_ACTIVATION_NUMBER;              \
        return (T)(gradient);                                                                      \
    }
TALC_ACTIVATION_TABLE(TALC_ACTIVATION_FUNCTIONS)
#undef TALC_ACTIVATION_FUNCTIONS

/// By a call, for kernels that end many sums a thread, and for the activations behind tanh, which would cost all kernels registers.
#define TALC_ACTIVATION_CASE(constant, name, ...)                                                  \
    case constant:                                                                                 \
        return activation_##name(x);
template <typename T>
static __device__ __noinline__ T activate_apart(talc_activation activation, T x)
{
    switch ((int)activation - 1) {
        TALC_ACTIVATION_TABLE(TALC_ACTIVATION_CASE)
    default:
        return x;
    }
}
#undef TALC_ACTIVATION_CASE

/// Those that a kernel can have in place.
static inline __host__ __device__ bool is_activated_in_place(talc_activation activation)
{
    return activation <= TALC_ACTIVATION_TANH;
}

template <typename T> __device__ T activate_in_place(talc_activation activation, T x)
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

template <typename T> __device__ T talc_activate(talc_activation activation, T x)
{
    return is_activated_in_place(activation) ? activate_in_place(activation, x)
                                             : activate_apart(activation, x);
}

/// dy act'(x) from y = act(x), of an activation whose gradient follows from y.
#define TALC_ACTIVATION_CASE(constant, name, numbers, with, value, saves, gradient)                \
    case constant:                                                                                 \
        if constexpr (saves != TALC_SAVES_A)                                                       \
            return activation_gradient_##name(dy, y);                                              \
        return dy;
template <typename T> __device__ T talc_activation_gradient(talc_activation activation, T dy, T y)
{
    switch ((int)activation - 1) {
        TALC_ACTIVATION_TABLE(TALC_ACTIVATION_CASE)
    default:
        return dy;
    }
}
#undef TALC_ACTIVATION_CASE

} // namespace talc

#endif
