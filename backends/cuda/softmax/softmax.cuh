/// What the softmax kernels share. Private to backends/cuda/softmax.
#ifndef TALC_BACKENDS_CUDA_SOFTMAX_SOFTMAX_CUH
#define TALC_BACKENDS_CUDA_SOFTMAX_SOFTMAX_CUH

#include "backends/cuda/primitives/dtype.cuh"
#include "backends/cuda/primitives/group.cuh"
#include "ops/softmax.h"

#include <cuda_pipeline.h>

namespace talc
{

/// Where the softmaxes are, and how the elements of one follow each other.
struct softmax_plan {
    int64_t extent, outer, y_stride, x_stride;
    bool log;
    strided_index<2, uint64_t> at; /* y and x */

    softmax_plan(const talc_softmax_problem *p)
        : extent(p->extent), outer(p->outer), y_stride(p->y_stride), x_stride(p->x_stride),
          log(p->log), at(p->outer_rank, p->outer_dims, { p->y_strides, p->x_strides })
    {
    }
};

/// The larger of two. A NaN is not larger than anything and may leave a maximum finite; exp then
/// carries it into the sum and so into every result, as (+infinity) - (+infinity) and (-infinity) -
/// (-infinity) do.
struct larger {
    template <typename T> __device__ T operator()(T a, T b) const
    {
        if constexpr (std::is_same_v<T, float>)
            return fmaxf(a, b);
        else
            return b > a ? b : a;
    }
};

struct sum_of {
    template <typename T> __device__ T operator()(T a, T b) const
    {
        return a + b;
    }
};

/// Reduces a value over `lanes` lanes, a power of two, that are `step` apart, by warp shuffles. All
/// of these lanes get the result.
template <typename T, typename Join>
static __device__ T join_lanes(T value, int lanes, int step, Join join)
{
    for (int mask = lanes / 2 * step; mask >= step; mask /= 2)
        value = join(value, __shfl_xor_sync(~0u, value, mask));
    return value;
}

/// The sum of N terms, a power of two, in a tree. Added in order, equal terms would have rounding
/// errors of one sign, which add up.
template <int N, typename T> static __device__ T tree_sum(const T *terms)
{
    if constexpr (N == 1)
        return terms[0];
    else
        return tree_sum<N / 2>(terms) + tree_sum<N / 2>(terms + N / 2);
}

/// What turns the elements of a softmax into results. A multiplication by 1 / sum is one rounding
/// more than a division, and a tenth of its instructions.
template <typename T> struct softmax_of {
    bool is_log;
    T m, scale, log_sum;

    template <typename Sum>
    __device__ softmax_of(bool is_log_, T m_, Sum sum)
        : is_log(is_log_), m(m_), scale(1 / (T)sum), log_sum(is_log_ ? (T)log(sum) : 0)
    {
    }
    __device__ T of_element(T x) const
    {
        return is_log ? x - m - log_sum : exp(x - m) * scale;
    }
    /// Where exp(x - m) has taken the place of x, but for the logarithm.
    __device__ T of_held(T held) const
    {
        return is_log ? held - m - log_sum : held * scale;
    }
};

/// Stores a vector by one access: the compiler takes an assignment of its type apart, element by
/// element.
template <typename T, int COUNT>
static __device__ void store_vector(T *to, const vec<T, COUNT> &values)
{
    if constexpr (sizeof values == VECTOR_BYTES) {
        int4 bits;
        memcpy(&bits, &values, sizeof bits);
        asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)),
                     "r"(bits.x), "r"(bits.y), "r"(bits.z), "r"(bits.w)
                     : "memory");
    } else
        *(vec<T, COUNT> *)to = values;
}

} // namespace talc

#endif
