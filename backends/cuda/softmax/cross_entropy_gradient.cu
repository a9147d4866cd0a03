/// The input gradient of cross entropy.
///
///     dx_j = dl (A softmax(x)_j - (1 - e) w_t [j = t] - e w_j / C),    A = (1 - e) w_t + e mean w,
///     dl = dy, or dy / sum of w_t over the samples that count, for the mean
///
/// Memory-bound where there are many samples; x is read for the maximum, and twice more from the caches. Samples are shared out as in
/// the forward direction (entropy.cuh). What a mean divides by is added up on the device: by each block itself where there are few
/// labels, else by a kernel that goes before, in parts that every block adds in one order.
///
/// A label is compared before anything is read by it. One that is no class gives NaN, to its own sample, or in a mean to all.
#include "backends/cuda/dtype.cuh"
#include "backends/cuda/softmax/entropy.cuh"

namespace
{

/* Labels that a block adds up on its own, that a part has at least, and parts at most. */
constexpr int64_t FEW_LABELS = 1024, PART_LABELS = 4096, MOST_PARTS = BLOCK;

/* What a mean divides by; none: 1. */
struct label_weights {
    bool mean;
    const int64_t *labels;
    double *parts; /* their sums; NULL: not added up yet */
    int64_t count; /* of parts */
    int64_t samples_of_part;
};

template <typename T>
__device__ double weight_of_label(const entropy_plan<T, uint64_t> &plan, int64_t label)
{
    if (label == plan.ignore_index)
        return 0;
    return plan.is_class(label) ? plan.weight_of(label) : nan("");
}

/* A block a part. */
template <typename T>
__global__ void __launch_bounds__(BLOCK)
    add_label_weights(const label_weights of, const entropy_plan<T, uint64_t> plan)
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
__device__ double divisor_of(const label_weights &of, const entropy_plan<T, uint64_t> &plan)
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

/* Classes first, first + step, ... of a sample whose gradient is worked out. */
template <typename T>
__device__ void write_classes(const entropy_plan<T, uint64_t> &plan, T *__restrict__ dx,
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
__device__ void fill_classes(const entropy_plan<T, uint64_t> &plan, T *dx, T value, int first,
                             int step)
{
    for (int64_t j = first; j < plan.C; j += step)
        dx[j * plan.x_stride] = value;
}

// ---- Kernels ------------------------------------------------------------------------------------------------

/* THREADS neighbours have a sample: a part of a warp, a warp or the block. All threads of a block go round together. */
template <typename T, int THREADS>
__global__ void __launch_bounds__(BLOCK)
    gradient_along(T *__restrict__ dx, const T *__restrict__ x, const T *dy, const label_weights of,
                   const entropy_plan<T, uint64_t> plan)
{
    constexpr int GROUPS = BLOCK / THREADS;
    __shared__ largest<T> shared_most[BLOCK / WARP];
    __shared__ totals shared_totals[BLOCK / WARP];
    __shared__ T whole_most;
    __shared__ double whole_sum;
    const int group = threadIdx.x / THREADS, thread = threadIdx.x % THREADS;
    const int leader = threadIdx.x % WARP / THREADS * THREADS;
    const double mean_weight = mean_weight_of(plan), divisor = divisor_of(of, plan);
    for (uint64_t begin = (uint64_t)blockIdx.x * GROUPS; begin < plan.samples;
         begin += (uint64_t)gridDim.x * GROUPS) {
        const uint64_t i = begin + group;
        const bool real = i < plan.samples;
        const int64_t label = real ? of.labels[i] : plan.ignore_index;
        const bool open = label != plan.ignore_index && plan.is_class(label);
        int64_t at[1] = { 0 };
        largest<T> most;
        totals all;
        if (real)
            plan.at.offsets(i, at);
        if (open)
            most.value = largest_of(plan, x + at[0], thread, THREADS);
        most = join_group(most, THREADS, shared_most);
        if (THREADS > WARP) {
            if (threadIdx.x == 0)
                whole_most = most.value;
            __syncthreads();
            most.value = whole_most;
        } else
            most.value = __shfl_sync(~0u, most.value, leader);
        if (open)
            all = totals_of(plan, x + at[0], most.value, thread, THREADS);
        all = join_group(all, THREADS, shared_totals);
        if (THREADS > WARP) {
            if (threadIdx.x == 0)
                whole_sum = all.exponentials;
            __syncthreads();
            all.exponentials = whole_sum;
        } else
            all.exponentials = __shfl_sync(~0u, all.exponentials, leader);
        if (open)
            write_classes(plan, dx + at[0], x + at[0], label, most.value, all.exponentials,
                          (double)dy[plan.whole ? i : 0] / divisor, mean_weight, thread, THREADS);
        else if (real)
            fill_classes(plan, dx + at[0], label == plan.ignore_index ? 0 : (T)nan(""), thread,
                         THREADS);
    }
}

/* A thread has a sample. */
template <typename T>
__global__ void __launch_bounds__(BLOCK)
    gradient_across(T *__restrict__ dx, const T *__restrict__ x, const T *dy,
                    const label_weights of, const entropy_plan<T, uint64_t> plan)
{
    const double mean_weight = mean_weight_of(plan), divisor = divisor_of(of, plan);
    TALC_GRID_LOOP(uint64_t, i, plan.samples)
    {
        const int64_t label = of.labels[i];
        int64_t at[1];
        plan.at.offsets(i, at);
        if (label == plan.ignore_index || !plan.is_class(label)) {
            fill_classes(plan, dx + at[0], label == plan.ignore_index ? 0 : (T)nan(""), 0, 1);
            continue;
        }
        const T m = largest_of(plan, x + at[0], 0, 1);
        const totals all = totals_of(plan, x + at[0], m, 0, 1);
        write_classes(plan, dx + at[0], x + at[0], label, m, all.exponentials,
                      (double)dy[plan.whole ? i : 0] / divisor, mean_weight, 0, 1);
    }
}

// ---- Launches -----------------------------------------------------------------------------------------------

/* How many parts the labels are added up in; 0: each block does it. */
int64_t parts_of(const talc_cross_entropy_problem *p)
{
    if (p->reduction != TALC_REDUCTION_MEAN || p->samples <= FEW_LABELS)
        return 0;
    const int64_t parts = talc_ceil_div(p->samples, PART_LABELS);
    return parts < MOST_PARTS ? parts : MOST_PARTS;
}

template <typename T>
void launch(talc_device *device, const talc_cross_entropy_problem *p,
            const talc_cross_entropy_arguments *a)
{
    const cudaStream_t stream = talc_cuda_stream(device);
    const entropy_plan<T, uint64_t> plan(p, a);
    const int64_t parts = parts_of(p);
    const label_weights of = { p->reduction == TALC_REDUCTION_MEAN, a->labels,
                               parts == 0 ? NULL : (double *)a->base.workspace, parts,
                               parts == 0 ? 0 : talc_ceil_div(p->samples, parts) };
    if (parts > 0)
        add_label_weights<T><<<(unsigned)parts, BLOCK, 0, stream>>>(of, plan);
    const shape by = shape_of(p);
    const auto kernel = by == BY_THREAD ? gradient_across<T>
                        : by == BY_FEW  ? gradient_along<T, FEW>
                        : by == BY_WARP ? gradient_along<T, WARP>
                                        : gradient_along<T, BLOCK>;
    const unsigned blocks =
        grid_for_blocks(device, talc_ceil_div(p->samples, BLOCK / threads_of(by)));
    kernel<<<blocks, BLOCK, 0, stream>>>((T *)a->dx, (const T *)a->x, (const T *)a->dy, of, plan);
}

} // namespace

talc_status talc_cuda_cross_entropy_gradient(talc_device *device,
                                             const talc_cross_entropy_problem *p,
                                             const talc_cross_entropy_arguments *a)
{
    return with_float(p->dtype, [&](auto element) {
        launch<typename decltype(element)::type>(device, p, a);
        return talc_cuda_launched(device, "cross_entropy");
    });
}

size_t talc_cuda_cross_entropy_gradient_workspace(const talc_cross_entropy_problem *p)
{
    return (size_t)parts_of(p) * sizeof(double);
}
