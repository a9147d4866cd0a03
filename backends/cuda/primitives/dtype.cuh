/// From an element type as a value to the C types of kernels: the one place of the backend that
/// knows which types there are. Private to backends/cuda.
///
/// A type is given by what it is stored as, T; what kernels sum it in follows from T. A kernel for
/// a type that has no `element_sums` does not compile, and a call with a type that has no kernel
/// fails by the type's name.
#ifndef TALC_BACKENDS_CUDA_PRIMITIVES_DTYPE_CUH
#define TALC_BACKENDS_CUDA_PRIMITIVES_DTYPE_CUH

#include "tensor/tensor.h"
#include "tensor/error.h"

#include <type_traits>

namespace talc
{

/// What elements stored as T are summed in. `accumulator`: products, windows and everything that is
/// said to be computed in the data's own type. `total`: sums of any length, as reductions have;
/// integers wrap around.
template <typename T> struct element_sums;

template <> struct element_sums<float> {
    using accumulator = float;
    using total = double;
};
template <> struct element_sums<double> {
    using accumulator = double;
    using total = double;
};
template <> struct element_sums<int64_t> {
    using total = uint64_t;
};
template <> struct element_sums<int32_t> {
    using total = uint64_t;
};
template <> struct element_sums<uint8_t> {
    using total = uint64_t;
};

template <typename T> using accumulator_of = typename element_sums<T>::accumulator;
template <typename T> using total_of = typename element_sums<T>::total;

/// The unsigned integer of a type's size, as which its elements are moved.
template <typename T>
using unsigned_of = std::conditional_t<sizeof(T) == 1, uint8_t,
                                       std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>;

/// A type as a value.
template <typename T> struct tag {
    using type = T;
};

/// What is returned for a type without a kernel: a failure by a run, a refusal by a plan.
template <typename Result> static Result no_kernel(talc_dtype dtype)
{
    if constexpr (std::is_same_v<Result, talc_status>)
        return talc_fail(TALC_BAD_DTYPE, "there is no CUDA kernel for %s", talc_dtype_name(dtype));
    else
        switch (dtype) {
#define TALC_CASE(constant, name, T, safetensors)                                                  \
    case constant:                                                                                 \
        return "there is no CUDA kernel for " #name;
            TALC_DTYPE_TABLE(TALC_CASE)
#undef TALC_CASE
        default:
            return "there is no such element type";
        }
}

#ifdef __CUDACC__
/* For kernels that are the same for several types, as a variable. Number is what they compute in:
 * double for floating-point types, int64_t for integers. */
#define TALC_CASE(constant, name, T, safetensors)                                                  \
    case constant:                                                                                 \
        if constexpr (std::is_floating_point_v<T> == std::is_floating_point_v<Number>)             \
            TALC_OF_TYPE(T);                                                                       \
        break;

/// Element `at` of x.
template <typename Number>
static __device__ __forceinline__ Number load_as(const void *x, talc_dtype dtype, int64_t at)
{
    Number number = 0;
#define TALC_OF_TYPE(T) number = (Number)((const T *)x)[at]
    switch (dtype) {
        TALC_DTYPE_TABLE(TALC_CASE)
    default:
        break;
    }
#undef TALC_OF_TYPE
    return number;
}

template <typename Number>
static __device__ __forceinline__ void store_as(void *y, talc_dtype dtype, int64_t at,
                                                Number number)
{
#define TALC_OF_TYPE(T) ((T *)y)[at] = (T)number
    switch (dtype) {
        TALC_DTYPE_TABLE(TALC_CASE)
    default:
        break;
    }
#undef TALC_OF_TYPE
}
#undef TALC_CASE
#endif

/// f(tag<T>()), which returns a talc_status or a refusal, for any element type.
template <typename F> auto with_element(talc_dtype dtype, F &&f) -> decltype(f(tag<float>()))
{
    switch (dtype) {
#define TALC_CASE(constant, name, T, safetensors)                                                  \
    case constant:                                                                                 \
        return f(tag<T>());
        TALC_DTYPE_TABLE(TALC_CASE)
#undef TALC_CASE
    default:
        return no_kernel<decltype(f(tag<float>()))>(dtype);
    }
}

/// The same for a floating-point type; there is no kernel for others.
template <typename F> auto with_float(talc_dtype dtype, F &&f) -> decltype(f(tag<float>()))
{
    switch (dtype) {
    case TALC_F32:
        return f(tag<float>());
    case TALC_F64:
        return f(tag<double>());
    default:
        return no_kernel<decltype(f(tag<float>()))>(dtype);
    }
}

/// The same for f32, of kernels that are there for what networks run; f64 has the general ones.
template <typename F> auto with_f32(talc_dtype dtype, F &&f) -> decltype(f(tag<float>()))
{
    return dtype == TALC_F32 ? f(tag<float>()) : no_kernel<decltype(f(tag<float>()))>(dtype);
}

} // namespace talc

#endif
