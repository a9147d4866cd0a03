/// From an element type as a value to the C type that kernels are instantiated with. Private to backends/cuda.
#ifndef TALC_BACKENDS_CUDA_DTYPE_CUH
#define TALC_BACKENDS_CUDA_DTYPE_CUH

#include "tensor/tensor.h"
#include "tensor/error.h"

namespace talc
{

/// A type as a value.
template <typename T> struct tag {
    using type = T;
};

/// Calls f(tag<T>()) with the C type of `dtype`.
template <typename F> void with_element(talc_dtype dtype, F &&f)
{
    switch (dtype) {
#define TALC_CASE(constant, name, T, safetensors)                                                  \
    case constant:                                                                                 \
        f(tag<T>());                                                                               \
        break;
        TALC_DTYPE_TABLE(TALC_CASE)
#undef TALC_CASE
    default:
        break;
    }
}

/// f(tag<T>()), which returns a talc_status, for a floating-point element type; a failure for any other.
template <typename F> talc_status talc_cuda_with_dtype(talc_dtype dtype, F &&f)
{
    switch (dtype) {
    case TALC_F32:
        return f(tag<float>());
    case TALC_F64:
        return f(tag<double>());
    default:
        return talc_fail(TALC_BAD_DTYPE, "there is no CUDA kernel for %s", talc_dtype_name(dtype));
    }
}

} // namespace talc

#endif
