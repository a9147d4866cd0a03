/// Samples of a cross entropy: where they are, who does them, and the sums over their classes.
/// Private to backends/cuda/softmax.
#ifndef TALC_BACKENDS_CUDA_SOFTMAX_ENTROPY_CUH
#define TALC_BACKENDS_CUDA_SOFTMAX_ENTROPY_CUH

#include "backends/cuda/primitives/group.cuh"
#include "ops/cross_entropy.h"

#include <cmath>

namespace /* other kernels have types of the same names */
{

using namespace talc;

// ---- Who does a sample --------------------------------------------------------------------------

constexpr int FEW = 8;
constexpr int64_t FEW_CLASSES = 64;
constexpr int64_t WARP_CLASSES = 2048;
constexpr int64_t THREAD_CLASSES = 1024;

enum shape { BY_THREAD, BY_FEW, BY_WARP, BY_BLOCK };

/* Doubles, which networks do not have, have one kernel. */
static shape shape_of(const talc_cross_entropy_problem *p)
{
    if (p->dtype == TALC_F64)
        return BY_WARP;
    const int64_t step = p->outer_rank > 0 ? p->x_strides[p->outer_rank - 1] : 0;
    const bool across = step > 0 && step < p->x_stride;
    return across && p->C <= THREAD_CLASSES ? BY_THREAD
           : p->C <= FEW_CLASSES            ? BY_FEW
           : p->C <= WARP_CLASSES           ? BY_WARP
                                            : BY_BLOCK;
}

/* Threads of a sample. */
static int threads_of(shape by)
{
    static const int threads[] = { 1, FEW, WARP, BLOCK };
    return threads[by];
}

/* Terms that a thread adds one after the other before it goes on with a new sum. */
template <typename T> int64_t terms_per_sum(int64_t C)
{
    const int64_t root = (int64_t)std::ceil(std::sqrt((double)C)), max = sizeof(T) == 4 ? 16 : 64;
    return root < max ? root : max;
}

template <typename T> struct entropy_plan {
    int64_t C, x_stride, ignore_index, run;
    uint64_t samples;
    double smoothing;
    bool whole;       /* a loss for each sample is written */
    const T *weights; /* of the classes; NULL: 1 */
    strided_index<1, uint64_t> at;

    entropy_plan(const talc_cross_entropy_problem *p, const talc_cross_entropy_arguments *a)
        : C(p->C), x_stride(p->x_stride), ignore_index(p->ignore_index),
          run(terms_per_sum<T>(p->C)), samples((uint64_t)p->samples), smoothing(p->label_smoothing),
          whole(p->reduction == TALC_REDUCTION_NONE), weights((const T *)a->class_weights),
          at(p->outer_rank, p->outer_dims, { p->x_strides })
    {
    }
    __device__ bool is_class(int64_t label) const
    {
        return label >= 0 && label < C;
    }
    __device__ double weight_of(int64_t j) const
    {
        return weights == NULL ? 1 : (double)weights[j];
    }
    /* What a mean divides by. With smoothing, which adds a quotient of its own to the labels' 0 /
     * 0, no weight gives NaN, not infinity. */
    __device__ double divisor_of(double weight) const
    {
        return smoothing != 0 && weight == 0 ? nan("") : weight;
    }
};

// ---- A sample -----------------------------------------------------------------------------------

template <typename T> struct largest {
    T value = -(T)INFINITY;
    __device__ void join(largest other)
    {
        value = other.value > value ? other.value : value;
    }
};

struct totals {
    double exponentials = 0, differences = 0;
    __device__ void join(totals other)
    {
        exponentials += other.exponentials;
        differences += other.differences;
    }
};

/* Its classes first, first + step, ...: a NaN is not larger than anything, and gets into the sum by
 * exp. */
template <typename T>
__device__ T largest_of(const entropy_plan<T> &plan, const T *x, int first, int step)
{
    T m = -(T)INFINITY;
#pragma unroll 4
    for (int64_t j = first; j < plan.C; j += step)
        m = x[j * plan.x_stride] > m ? x[j * plan.x_stride] : m;
    return m;
}

template <typename T>
__device__ totals totals_of(const entropy_plan<T> &plan, const T *x, T m, int first, int step)
{
    totals all;
    for (int64_t j = first; j < plan.C;) {
        const int64_t end = j + plan.run * step < plan.C ? j + plan.run * step : plan.C;
        T exponentials = 0;
        double differences = 0;
#pragma unroll 4
        for (; j < end; j += step) {
            const T value = x[j * plan.x_stride];
            exponentials += exp(value - m);
            if (plan.smoothing != 0)
                differences += ((double)value - (double)m) * plan.weight_of(j);
        }
        all.join({ (double)exponentials, differences });
    }
    return all;
}

struct weight_sum {
    double value = 0;
    __device__ void join(weight_sum other)
    {
        value += other.value;
    }
};

/* The sum of what the threads of the block have, in all of them. They come here together. */
static __device__ double sum_of_block(double mine)
{
    __shared__ weight_sum shared[BLOCK / WARP];
    weight_sum sum;
    sum.value = mine;
    return share_group(sum, BLOCK, shared).value;
}

/* The weights' mean where smoothing needs it, else 1. All threads of the block come here. */
template <typename T> __device__ double mean_weight_of(const entropy_plan<T> &plan)
{
    if (plan.weights == NULL || plan.smoothing == 0)
        return 1;
    double sum = 0;
    for (int64_t j = threadIdx.x; j < plan.C; j += BLOCK)
        sum += (double)plan.weights[j];
    return sum_of_block(sum) / (double)plan.C;
}

} // namespace

#endif
