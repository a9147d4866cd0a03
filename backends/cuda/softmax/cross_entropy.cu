/// Cross entropy of classes.
///
///     l = log(sum_j exp(x_j - m)) - (x_t - m),  m = max_j x_j;    with smoothing (1 - e) l + e (log(sum) - mean_j (x_j - m))
///
/// Memory-bound where there are many samples; x is read once for m and once more, from the caches, for the sum.
///
///   rows   Where the classes of a sample lie closer together than the samples, 8 neighbouring threads have a sample of up to 64
///          classes, a warp one of up to 2048, a block a longer one. Where samples lie side by side a thread has one, up to
///          1024 classes. A block adds its losses and notes its first wrong label; the block that is done last, whichever it
///          is, adds those of all blocks in a tree of fixed shape, writes the result and, with a wrong label, the device's
///          record (fault.h). So there is one launch.
///
/// The input gradient is in cross_entropy_gradient.cu.
///
/// A label is compared before anything is read by it. Exponentials are in the data's type, and so are the sums of a few of
/// them; those are added in f64. No term goes through more than 2 sqrt(C) roundings.
#include "backends/cuda/row.cuh"
#include "backends/cuda/dtype.cuh"
#include "backends/cuda/device/counter.h"
#include "backends/cuda/device/fault.h"
#include "backends/cuda/softmax/entropy.cuh"

namespace /* other kernels have types of the same names */
{

/* The most blocks per multiprocessor, four times those resident at once in f32: few enough that the end of a block, which waits until
 * its partial result is written, is a small share of its time, and enough that the last wave is one too. */
constexpr int64_t MOST_ALONG = 16, MOST_ACROSS = 20;

constexpr int64_t NOWHERE = INT64_MAX;

/* Losses of some samples, what their mean divides by, and the first label that is no class. */
struct part {
    double sum = 0, weight = 0;
    int64_t wrong_at = NOWHERE, wrong = 0;

    __device__ void join(part other)
    {
        sum += other.sum;
        weight += other.weight;
        if (other.wrong_at < wrong_at) {
            wrong_at = other.wrong_at;
            wrong = other.wrong;
        }
    }
};

// ---- A loss -------------------------------------------------------------------------------------------------

template <typename T, typename Index>
__device__ double loss_of(const entropy_plan<T, Index> &plan, const T *x, T m, totals all,
                          int64_t label, double mean_weight)
{
    const double log_sum = log(all.exponentials), e = plan.smoothing;
    const double loss =
        plan.weight_of(label) * (log_sum - ((double)x[label * plan.x_stride] - (double)m));
    /* Without smoothing a class of -infinity has no part in it. */
    return e == 0 ? loss
                  : (1 - e) * loss + e * (log_sum * mean_weight - all.differences / (double)plan.C);
}

/* What becomes of sample i; false when its loss has to be worked out. */
template <typename T, typename Index>
__device__ bool decided(const entropy_plan<T, Index> &plan, Index i, int64_t label, part &mine,
                        double &loss)
{
    loss = 0;
    if (label == plan.ignore_index)
        return true;
    if (plan.is_class(label)) {
        mine.weight += plan.weight_of(label);
        return false;
    }
    mine.join({ 0, 1, (int64_t)i, label });
    loss = nan("");
    return true;
}

// ---- All samples --------------------------------------------------------------------------------------------

/* Where the last block finds the partial results of all blocks. */
struct gathering {
    part *parts;    /* of each block */
    unsigned *done; /* blocks; 0 before the launch and after it */
    talc_reduction reduction;
    talc_cuda_fault *fault;
};

__device__ void tell(volatile talc_cuda_fault *fault, part wrong, int64_t classes)
{
    if (atomicCAS((unsigned *)&fault->claimed, 0u, 1u) != 0)
        return;
    fault->element = wrong.wrong_at;
    fault->label = wrong.wrong;
    fault->classes = classes;
    __threadfence_system();
    fault->complete = 1;
}

/* Counts the block and tells whether it is the last of its launch, which sees all that the others wrote before they were counted.
 * By release and acquire: atomicInc between two fences would also empty the caches of blocks that still run. */
__device__ bool is_last(unsigned *done)
{
    unsigned before;
    asm volatile("atom.release.gpu.global.inc.u32 %0, [%1], %2;"
                 : "=r"(before)
                 : "l"(__cvta_generic_to_global(done)), "r"(gridDim.x - 1)
                 : "memory");
    const bool last = before == gridDim.x - 1;
    if (last)
        __threadfence();
    return last;
}

/* What all threads of all blocks end with. A wrong label's loss is NaN, and so is a sum that it is in.
 * Source: the sum of an array in "Memory Fence Functions", CUDA C++ Programming Guide. */
template <typename T, typename Index>
__device__ void gather(T *y, part mine, const entropy_plan<T, Index> &plan, const gathering &to)
{
    __shared__ part shared[BLOCK / WARP];
    __shared__ bool last;
    mine = join_group(mine, BLOCK, shared);
    if (threadIdx.x == 0) {
        to.parts[blockIdx.x] = mine;
        last = is_last(to.done);
    }
    __syncthreads();
    if (!last)
        return;
    part all;
    for (unsigned i = threadIdx.x; i < gridDim.x; i += BLOCK)
        all.join(to.parts[i]);
    all = join_group(all, BLOCK, shared);
    if (threadIdx.x != 0)
        return;
    if (to.reduction != TALC_REDUCTION_NONE)
        *y = (T)(to.reduction == TALC_REDUCTION_SUM ? all.sum
                                                    : all.sum / plan.divisor_of(all.weight));
    if (all.wrong_at != NOWHERE)
        tell(to.fault, all, plan.C);
}

// ---- Kernels ------------------------------------------------------------------------------------------------

/* THREADS neighbouring threads have a sample: part of a warp, a warp or the block. All threads of a block loop together. */
template <typename T, int THREADS, typename Index>
__global__ void __launch_bounds__(BLOCK)
    entropy_along(T *y, const T *x, const int64_t *labels, const gathering to,
                  const entropy_plan<T, Index> plan)
{
    constexpr int GROUPS = BLOCK / THREADS;
    __shared__ largest<T> shared_most[BLOCK / WARP];
    __shared__ totals shared_totals[BLOCK / WARP];
    __shared__ T whole;
    const int group = threadIdx.x / THREADS, thread = threadIdx.x % THREADS;
    const int leader = threadIdx.x % WARP / THREADS * THREADS;
    const double mean_weight = mean_weight_of(plan);
    part mine;
    for (Index first = (Index)blockIdx.x * GROUPS; first < plan.samples;
         first += (Index)gridDim.x * GROUPS) {
        const Index i = first + group;
        const bool real = i < plan.samples;
        const int64_t label = real ? labels[i] : plan.ignore_index;
        int64_t at[1] = { 0 };
        double loss;
        part here;
        const bool open = !decided(plan, i, label, here, loss);
        largest<T> most;
        totals all;
        if (open) {
            plan.at.offsets(i, at);
            most.value = largest_of(plan, x + at[0], thread, THREADS);
        }
        most = join_group(most, THREADS, shared_most);
        if (THREADS > WARP) {
            if (threadIdx.x == 0)
                whole = most.value;
            __syncthreads();
            most.value = whole;
        } else
            most.value = __shfl_sync(~0u, most.value, leader);
        if (open)
            all = totals_of(plan, x + at[0], most.value, thread, THREADS);
        all = join_group(all, THREADS, shared_totals);
        if (thread == 0 && real) {
            if (open)
                loss = loss_of(plan, x + at[0], most.value, all, label, mean_weight);
            here.sum = loss;
            mine.join(here);
            if (plan.whole)
                y[i] = (T)loss;
        }
    }
    gather(y, mine, plan, to);
}

/* A thread has a sample. */
template <typename T, typename Index>
__global__ void __launch_bounds__(BLOCK)
    entropy_across(T *y, const T *x, const int64_t *labels, const gathering to,
                   const entropy_plan<T, Index> plan)
{
    const double mean_weight = mean_weight_of(plan);
    part mine;
    TALC_GRID_LOOP(Index, i, plan.samples)
    {
        const int64_t label = labels[i];
        int64_t at[1];
        double loss;
        part here;
        if (!decided(plan, i, label, here, loss)) {
            plan.at.offsets(i, at);
            const T m = largest_of(plan, x + at[0], 0, 1);
            loss = loss_of(plan, x + at[0], m, totals_of(plan, x + at[0], m, 0, 1), label,
                           mean_weight);
        }
        here.sum = loss;
        mine.join(here);
        if (plan.whole)
            y[i] = (T)loss;
    }
    gather(y, mine, plan, to);
}

// ---- Launches -----------------------------------------------------------------------------------------------

unsigned blocks_for_parts(const talc_device *device, const talc_cross_entropy_problem *p)
{
    const shape by = shape_of(p);
    const int64_t all = talc_ceil_div(p->samples, BLOCK / threads_of(by));
    const int64_t most =
        talc_cuda_state_of(device)->multiprocessors * (by == BY_THREAD ? MOST_ACROSS : MOST_ALONG);
    return (unsigned)(all < most ? all : most);
}

template <typename T>
void launch(talc_device *device, const talc_cross_entropy_problem *p,
            const talc_cross_entropy_arguments *a, const gathering &to)
{
    T *y = (T *)a->y;
    const T *x = (const T *)a->x;
    const cudaStream_t stream = talc_cuda_stream(device);
    const unsigned blocks = blocks_for_parts(device, p);
    with_index(p->samples, [&](auto zero) {
        using Index = decltype(zero);
        const shape by = shape_of(p);
        const auto kernel = by == BY_THREAD ? entropy_across<T, Index>
                            : by == BY_FEW  ? entropy_along<T, FEW, Index>
                            : by == BY_WARP ? entropy_along<T, WARP, Index>
                                            : entropy_along<T, BLOCK, Index>;
        kernel<<<blocks, BLOCK, 0, stream>>>(y, x, a->labels, to, entropy_plan<T, Index>(p, a));
    });
}

} // namespace

// ---- Rows ---------------------------------------------------------------------------------------------------

static const char *plan_rows(const talc_device *device, const talc_cross_entropy_problem *p, size_t,
                             talc_plan *plan)
{
    if (p->direction == TALC_GRAD_WEIGHT)
        return "cross entropy has no weights";
    if (p->samples > 0)
        plan->workspace = p->direction == TALC_GRAD_INPUT
                              ? talc_cuda_cross_entropy_gradient_workspace(p)
                              : blocks_for_parts(device, p) * sizeof(part);
    return NULL;
}

static talc_status run(talc_device *device, const talc_cross_entropy_problem *problem,
                       const talc_plan *, const talc_cross_entropy_arguments *arguments)
{
    const talc_status status = talc_cuda_enter(device, "cross_entropy");
    if (status != TALC_OK)
        return status;
    if (problem->direction == TALC_GRAD_INPUT)
        return talc_cuda_cross_entropy_gradient(device, problem, arguments);
    talc_cuda_fault *fault = talc_cuda_fault_of(device, "cross_entropy");
    if (fault == NULL)
        return TALC_NO_MEMORY; /* whose failure stands */
    const gathering to = { (part *)arguments->base.workspace, talc_cuda_counter(device),
                           problem->reduction, fault };
    return with_float(problem->dtype, [&](auto element) {
        launch<typename decltype(element)::type>(device, problem, arguments, to);
        return talc_cuda_launched(device, "cross_entropy");
    });
}

const talc_algorithm talc_cuda_cross_entropy[] = {
    talc_cuda_row<plan_rows, run>("rows",
                                  { "the data's own type, sums in f64", TALC_STRICT, false }),
    { NULL, { NULL, TALC_STRICT, false }, NULL, NULL },
};
