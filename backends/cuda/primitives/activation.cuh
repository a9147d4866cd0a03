/// Activations and their gradients, by the formulas of ops/elementwise_table.h. Private to
/// backends/cuda.
#ifndef TALC_BACKENDS_CUDA_PRIMITIVES_ACTIVATION_CUH
#define TALC_BACKENDS_CUDA_PRIMITIVES_ACTIVATION_CUH

#include "backends/cuda/primitives/group.cuh"
#include "ops/activation.h"
#include "ops/elementwise.h"

#include <cmath>

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

/// Those that take many instructions, so that f32 has them by a call; f64 has sigmoid and silu so
/// too.
static inline bool is_called(talc_activation activation)
{
    return activation == TALC_ACTIVATION_TANH || activation == TALC_ACTIVATION_GELU;
}

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

/// Those that are max(low, min(x, high)), of one pair of numbers each: none, relu and relu6.
static inline __host__ __device__ bool is_clamp(talc_activation activation)
{
    return activation <= TALC_ACTIVATION_RELU || activation == TALC_ACTIVATION_RELU6;
}

template <typename T> struct clamp {
    T low, high;

    __device__ explicit clamp(talc_activation activation)
        : low(activation == TALC_ACTIVATION_NONE ? -(T)INFINITY : 0),
          high(activation == TALC_ACTIVATION_RELU6 ? 6 : (T)INFINITY)
    {
    }
    __device__ T operator()(T x) const
    {
        return larger_or_nan(smaller_or_nan(x, high), low);
    }
};

/// sigmoid, or silu, which is that times x. The exponential is an ulp off, and so is the
/// reciprocal, of one instruction, as 1 + t is from 1 to 2: with three roundings, a sigmoid is less
/// than 4 ulp off. The exponential of silu is a square, so that a tail, which x times it is, keeps
/// its digits; that is less than 7 ulp off.
static __device__ __forceinline__ float sigmoid_or_silu(bool is_silu, float x)
{
    const float root = expf((is_silu ? -0.5f : -1) * fabsf(x)), t = is_silu ? root * root : root;
    float reciprocal;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(reciprocal) : "f"(1 + t));
    return (is_silu ? x * (x < 0 ? root : 1) : 1) * (x < 0 ? root : 1) * reciprocal;
}

/// Calls use(f), where f(x) is the activation, which all threads have alike: it is asked for once,
/// not for each x. Without CALLS, which cost a kernel registers, those that is_called are missing.
template <typename T, bool CALLS = true, typename Use>
static __device__ __forceinline__ void with_activation(talc_activation activation, Use use)
{
    constexpr bool F32 = std::is_same_v<T, float>;
    const bool is_silu = activation == TALC_ACTIVATION_SILU,
               is_hardswish = activation == TALC_ACTIVATION_HARDSWISH;
    const clamp<T> six(TALC_ACTIVATION_RELU6);
    if (is_clamp(activation))
        use(clamp<T>(activation));
    else if (F32 && (is_silu || activation == TALC_ACTIVATION_SIGMOID))
        use([=](T x) { return (T)sigmoid_or_silu(is_silu, (float)x); });
    else if (is_hardswish || activation == TALC_ACTIVATION_HARDSIGMOID)
        use([=](T x) { return (is_hardswish ? x : 1) * (six(x + 3) * (T)(1 / 6.)); });
    else if (!CALLS || activation == TALC_ACTIVATION_LEAKY_RELU)
        use([](T x) { return activation_leaky_relu(x); });
    else
        use([=](T x) { return activate_apart(activation, x); });
}

/// Of N results in registers.
template <bool CALLS = true, int N, typename T>
static __device__ __forceinline__ void activate_all(talc_activation activation, T (&v)[N])
{
    with_activation<T, CALLS>(activation, [&](auto activate) {
#pragma unroll
        for (int i = 0; i < N; i++)
            v[i] = activate(v[i]);
    });
}

template <bool CALLS = true, typename T> __device__ T talc_activate(talc_activation activation, T x)
{
    T v[1] = { x };
    activate_all<CALLS>(activation, v);
    return v[0];
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
