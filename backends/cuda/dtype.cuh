/// From a talc_dtype to the C type of its elements. Private to backends/cuda.
#ifndef TALC_BACKENDS_CUDA_DTYPE_CUH
#define TALC_BACKENDS_CUDA_DTYPE_CUH

#include "tensor/tensor.h"

namespace talc
{

/// A type as a value.
template <typename T> struct tag {
    using type = T;
};

/// Calls f(tag<T>{}) with the C type of `dtype`, one of the table's.
template <typename F> void with_element(talc_dtype dtype, F &&f)
{
    switch (dtype) {
#define TALC_CASE(constant, name, T, safetensors)                                                  \
    case constant:                                                                                 \
        f(tag<T>{});                                                                               \
        break;
        TALC_DTYPE_TABLE(TALC_CASE)
#undef TALC_CASE
    default:
        break;
    }
}

} // namespace talc

#endif
