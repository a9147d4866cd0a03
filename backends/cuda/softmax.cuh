/// What the softmax kernels have in common. Private to backends/cuda.
#ifndef TALC_BACKENDS_CUDA_SOFTMAX_CUH
#define TALC_BACKENDS_CUDA_SOFTMAX_CUH

#include "backends/cuda/group.cuh"
#include "ops/softmax.h"

namespace talc
{

/// Bytes of neighbours that a row of threads reads across softmaxes which lie side by side: a line of the caches.
constexpr int LINE = 128;

/// Where the softmaxes are, and how their elements follow each other.
struct softmax_plan {
    int64_t extent, outer, y_stride, x_stride;
    bool log;
    walk<2, uint64_t> at; /* y and x */

    softmax_plan(const talc_softmax_problem *p)
        : extent(p->extent), outer(p->outer), y_stride(p->y_stride), x_stride(p->x_stride),
          log(p->log), at(p->outer_rank, p->outer_dims, { p->y_strides, p->x_strides })
    {
    }
};

/// A NaN is not larger than anything and may leave m finite; exp then carries it into the sum and so into every result,
/// as (+infinity) - (+infinity) and (-infinity) - (-infinity) do.
template <typename T> struct largest {
    T value = -(T)INFINITY;
    __device__ void join(largest other)
    {
        value = other.value > value ? other.value : value;
    }
};

/// What turns the elements of a softmax into results. A multiplication by 1 / sum is one rounding more than a division, and
/// a tenth of its instructions.
template <typename T> struct softmax_of {
    T m, scale, log_sum;

    __device__ softmax_of(bool log_, T m_, T sum)
        : m(m_), scale(1 / sum), log_sum(log_ ? log(sum) : 0)
    {
    }
    __device__ T of_element(bool log, T x) const
    {
        return log ? x - m - log_sum : exp(x - m) * scale;
    }
};

} // namespace talc

#endif
