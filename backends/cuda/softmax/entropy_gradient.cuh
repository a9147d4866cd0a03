/// The input gradient of cross entropy: what a mean divides by, and a sample's classes. Private to
/// backends/cuda/softmax.
///
///     dx_j = dl (A softmax(x)_j - (1 - e) w_t [j = t] - e w_j / C),    A = (1 - e) w_t + e mean w,
///     dl = dy, or dy / sum of w_t over the samples that count, for the mean
///
/// What a mean divides by is added up on the device: by each block itself where there are few
/// labels, else by a kernel that goes before, in parts that every block adds in one order.
///
/// A label is compared before anything is read by it. One that is no class gives NaN, to its own
/// sample, or in a mean to all.
#ifndef TALC_BACKENDS_CUDA_SOFTMAX_ENTROPY_GRADIENT_CUH
#define TALC_BACKENDS_CUDA_SOFTMAX_ENTROPY_GRADIENT_CUH

#include "backends/cuda/softmax/entropy.cuh"

namespace /* other kernels have types of the same names */
{

/* Labels that a block adds up on its own, that a part has at least, and parts at most. */
constexpr int64_t FEW_LABELS = 1024, PART_LABELS = 4096, MAX_PARTS = BLOCK;

/* What a mean divides by; none: 1. */
struct label_weights {
    bool mean;
    const int64_t *labels;
    double *parts; /* their sums; NULL: not added up yet */
    int64_t count; /* of parts */
    int64_t samples_of_part;
};

template <typename T> __device__ double weight_of_label(const entropy_plan<T> &plan, int64_t label)
{
    if (label == plan.ignore_index)
        return 0;
    return plan.is_class(label) ? plan.weight_of(label) : nan("");
}

/* A block a part. */
template <typename T>
__global__ void __launch_bounds__(BLOCK)
    add_label_weights(const label_weights of, const entropy_plan<T> plan)
{
    const int64_t begin = (int64_t)blockIdx.x * of.samples_of_part;
    const int64_t end = min(begin + of.samples_of_part, (int64_t)plan.samples);
    double sum = 0;
    for (int64_t i = begin + threadIdx.x; i < end; i += BLOCK)
        sum += weight_of_label(plan, of.labels[i]);
    sum = sum_of_block(sum);
    if (threadIdx.x == 0)
        of.parts[blockIdx.x] = sum;
}

/* All threads of the block come here, and leave with the same. */
template <typename T>
__device__ double divisor_of(const label_weights &of, const entropy_plan<T> &plan)
{
    if (!of.mean)
        return 1;
    double sum = 0;
    if (of.parts == NULL)
        for (int64_t i = threadIdx.x; i < (int64_t)plan.samples; i += BLOCK)
            sum += weight_of_label(plan, of.labels[i]);
    else
        for (int64_t i = threadIdx.x; i < of.count; i += BLOCK)
            sum += of.parts[i];
    return plan.divisor_of(sum_of_block(sum));
}

/* What a sample's gradient is multiplied by. dy is NULL for 1. */
template <typename T> __device__ double dl_of(const T *dy, uint64_t i, double divisor)
{
    return (dy == NULL ? 1 : (double)dy[i]) / divisor;
}

/* Classes first, first + step, ... of a sample whose gradient is worked out. */
template <typename T>
__device__ void write_classes(const entropy_plan<T> &plan, T *__restrict__ dx,
                              const T *__restrict__ x, int64_t label, T m, double exponentials,
                              double dl, double mean_weight, int first, int step)
{
    const double e = plan.smoothing, of_label = (1 - e) * plan.weight_of(label);
    const T scale = (T)(dl * (of_label + (e == 0 ? 0 : e * mean_weight)) / exponentials);
    const T even = (T)(dl * e / (double)plan.C), at_label = (T)(dl * of_label);
#pragma unroll 4
    for (int64_t j = first; j < plan.C; j += step) {
        T value = exp(x[j * plan.x_stride] - m) * scale;
        if (e != 0)
            value -= plan.weights == NULL ? even : even * plan.weights[j];
        if (j == label)
            value -= at_label;
        dx[j * plan.x_stride] = value;
    }
}

/* Those of one that is ignored, or whose label is no class. */
template <typename T>
__device__ void fill_classes(const entropy_plan<T> &plan, T *dx, T value, int first, int step)
{
    for (int64_t j = first; j < plan.C; j += step)
        dx[j * plan.x_stride] = value;
}

/* How many parts the labels are added up in; 0: each block does it. */
int64_t parts_of(const talc_cross_entropy_problem *p)
{
    if (p->reduction != TALC_REDUCTION_MEAN || p->samples <= FEW_LABELS)
        return 0;
    const int64_t parts = talc_ceil_div(p->samples, PART_LABELS);
    return parts < MAX_PARTS ? parts : MAX_PARTS;
}

} // namespace

#endif
