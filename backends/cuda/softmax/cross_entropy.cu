/// Cross entropy of classes.
///
///     l = log(sum_j exp(x_j - m)) - (x_t - m),  m = max_j x_j;
///     with smoothing (1 - e) l + e (log(sum) - mean_j (x_j - m))
///
/// Memory-bound where there are many samples; x is read once for m and once more, from the caches,
/// for the sum.
///
///   rows   Where the classes of a sample lie closer together than the samples, 8 neighbouring
///          threads have a sample of up to 64 classes, a warp one of up to 2048, a block a longer
///          one. Where samples lie side by side a thread has one, up to 1024 classes. A block adds
///          its losses and notes its first wrong label; the block that is done last, whichever it
///          is, adds those of all blocks in a tree of fixed shape, writes the result and, with a
///          wrong label, the device's record (fault.h). So there is one launch.
///
/// The input gradient (entropy_gradient.cuh) shares samples out in the same way; with the loss, for
/// dy = 1, it costs no other launch than one before for the labels of many samples.
///
/// A label is compared before anything is read by it. Exponentials are in the data's type, and so
/// are the sums of a few of them; those are added in f64. No term goes through more than 2 sqrt(C)
/// roundings.
#include "backends/cuda/primitives/algorithm.cuh"
#include "backends/cuda/primitives/dtype.cuh"
#include "backends/cuda/device/counter.h"
#include "backends/cuda/device/fault.cuh"
#include "backends/cuda/softmax/entropy_gradient.cuh"

namespace /* other kernels have types of the same names */
{

/* The maximum of blocks per multiprocessor, four times those resident at once in f32: few enough
 * that the end of a block, which waits until its partial result is written, is a small share of its
 * time, and enough that the last wave is one too. */
constexpr int64_t MAX_ALONG = 16, MAX_ACROSS = 20;

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

// ---- A loss -------------------------------------------------------------------------------------

template <typename T>
__device__ double loss_of(const entropy_plan<T> &plan, const T *x, T m, totals all, int64_t label,
                          double mean_weight)
{
    const double log_sum = log(all.exponentials), e = plan.smoothing;
    const double loss =
        plan.weight_of(label) * (log_sum - ((double)x[label * plan.x_stride] - (double)m));
    /* Without smoothing a class of -infinity has no part in it. */
    return e == 0 ? loss
                  : (1 - e) * loss + e * (log_sum * mean_weight - all.differences / (double)plan.C);
}

/* What becomes of sample i; false when its loss has to be worked out. */
template <typename T>
__device__ bool decided(const entropy_plan<T> &plan, uint64_t i, int64_t label, part &mine,
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

// ---- All samples --------------------------------------------------------------------------------

/* Where the last block finds the partial results of all blocks. */
struct gathering {
    part *parts;    /* of each block */
    unsigned *done; /* blocks; 0 before the launch and after it */
    talc_reduction reduction;
    talc_cuda_fault *fault;
};

/* What all threads of all blocks end with. A wrong label's loss is NaN, and so is a sum that it is
 * in. Source: the sum of an array in "Memory Fence Functions", CUDA C++ Programming Guide. */
template <typename T>
__device__ void gather(T *y, part mine, const entropy_plan<T> &plan, const gathering &to)
{
    __shared__ part shared[BLOCK / WARP];
    __shared__ bool last;
    mine = join_group(mine, BLOCK, shared);
    if (threadIdx.x == 0) {
        to.parts[blockIdx.x] = mine;
        last = is_last_block(to.done);
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
        tell(to.fault, NULL, all.wrong_at, all.wrong, plan.C);
}

// ---- Kernels ------------------------------------------------------------------------------------

/* THREADS neighbours have a sample: one, part of a warp, a warp or the block. All threads of a
 * block loop together. Writes losses, or with GRADIENTS gradients and, unless y is NULL, losses. */
template <typename T, int THREADS, bool GRADIENTS>
__global__ void __launch_bounds__(BLOCK)
    entropy(T *y, T *__restrict__ dx, const T *__restrict__ x, const T *dy, const label_weights of,
            const gathering to, const entropy_plan<T> plan)
{
    constexpr int GROUPS = BLOCK / THREADS;
    __shared__ largest<T> shared_max[BLOCK / WARP];
    __shared__ totals shared_totals[BLOCK / WARP];
    const int group = threadIdx.x / THREADS, thread = threadIdx.x % THREADS;
    const bool losses = !GRADIENTS || y != NULL;
    const double mean_weight = mean_weight_of(plan);
    const double divisor = GRADIENTS ? divisor_of(of, plan) : 1;
    part mine;
    for (uint64_t first = (uint64_t)blockIdx.x * GROUPS; first < plan.samples;
         first += (uint64_t)gridDim.x * GROUPS) {
        const uint64_t i = first + group;
        const bool real = i < plan.samples;
        const int64_t label = real ? of.labels[i] : plan.ignore_index;
        int64_t at[1] = { 0 };
        double loss;
        part here;
        const bool open = !decided(plan, i, label, here, loss);
        largest<T> max;
        totals all;
        if (open || (GRADIENTS && real))
            plan.at.offsets(i, at);
        if (open)
            max.value = largest_of(plan, x + at[0], thread, THREADS);
        max = share_group(max, THREADS, shared_max);
        if (open)
            all = totals_of(plan, x + at[0], max.value, thread, THREADS);
        all = GRADIENTS ? share_group(all, THREADS, shared_totals)
                        : join_group(all, THREADS, shared_totals);
        if (losses && thread == 0 && real) {
            if (open)
                loss = loss_of(plan, x + at[0], max.value, all, label, mean_weight);
            here.sum = loss;
            mine.join(here);
            if (plan.whole)
                y[i] = (T)loss;
        }
        if (!GRADIENTS)
            continue;
        if (open)
            write_classes(plan, dx + at[0], x + at[0], label, max.value, all.exponentials,
                          dl_of(losses ? NULL : dy, plan.whole ? i : 0, divisor), mean_weight,
                          thread, THREADS);
        else if (real)
            fill_classes(plan, dx + at[0], label == plan.ignore_index ? 0 : (T)nan(""), thread,
                         THREADS);
    }
    if (losses)
        gather(y, mine, plan, to);
}

// ---- Launches -----------------------------------------------------------------------------------

unsigned blocks_for_parts(const talc_device *device, const talc_cross_entropy_problem *p)
{
    const shape by = shape_of(p);
    const int64_t all = talc_ceil_div(p->samples, BLOCK / threads_of(by));
    const int64_t max =
        talc_cuda_state_of(device)->multiprocessors * (by == BY_THREAD ? MAX_ACROSS : MAX_ALONG);
    return (unsigned)(all < max ? all : max);
}

/* The workspace: what the blocks gather, then the sums of labels' weights. */
size_t gathered_bytes(const talc_device *device, const talc_cross_entropy_problem *p)
{
    return p->direction == TALC_FORWARD ? blocks_for_parts(device, p) * sizeof(part) : 0;
}

int64_t weight_parts(const talc_cross_entropy_problem *p)
{
    return p->direction == TALC_FORWARD && !p->gradient ? 0 : parts_of(p);
}

template <typename T, bool GRADIENTS>
void launch(talc_device *device, const talc_cross_entropy_problem *p,
            const talc_cross_entropy_arguments *a, const gathering &to)
{
    const cudaStream_t stream = talc_cuda_stream(device);
    const entropy_plan<T> plan(p, a);
    const int64_t parts = weight_parts(p);
    const label_weights of = {
        p->reduction == TALC_REDUCTION_MEAN, a->labels,
        parts == 0 ? NULL : (double *)((char *)a->base.workspace + gathered_bytes(device, p)),
        parts, parts == 0 ? 0 : talc_ceil_div(p->samples, parts)
    };
    if constexpr (GRADIENTS)
        if (parts > 0)
            add_label_weights<<<(unsigned)parts, BLOCK, 0, stream>>>(of, plan);
    const bool forward = p->direction == TALC_FORWARD;
    const shape by = shape_of(p);
    auto kernel = entropy<T, WARP, GRADIENTS>;
    if constexpr (std::is_same_v<T, float>)
        kernel = by == BY_THREAD  ? entropy<T, 1, GRADIENTS>
                 : by == BY_FEW   ? entropy<T, FEW, GRADIENTS>
                 : by == BY_BLOCK ? entropy<T, BLOCK, GRADIENTS>
                                  : kernel;
    const unsigned blocks =
        forward ? blocks_for_parts(device, p)
                : grid_for_blocks(device, talc_ceil_div(p->samples, BLOCK / threads_of(by)));
    kernel<<<blocks, BLOCK, 0, stream>>>(forward ? (T *)a->y : NULL, (T *)a->dx, (const T *)a->x,
                                         (const T *)a->dy, of, to, plan);
}

} // namespace

// ---- The algorithms -----------------------------------------------------------------------------

static const char *plan_rows(const talc_device *device, const talc_cross_entropy_problem *p, size_t,
                             talc_plan *plan)
{
    if (p->direction == TALC_GRAD_WEIGHT)
        return "cross entropy has no weights";
    if (p->samples > 0)
        plan->workspace = gathered_bytes(device, p) + (size_t)weight_parts(p) * sizeof(double);
    return NULL;
}

static talc_status run(talc_device *device, const talc_cross_entropy_problem *problem,
                       const talc_plan *, const talc_cross_entropy_arguments *arguments)
{
    const bool forward = problem->direction == TALC_FORWARD;
    talc_cuda_fault *fault = forward ? talc_cuda_fault_of(device, "cross_entropy") : NULL;
    if (forward && fault == NULL)
        return TALC_NO_MEMORY; /* whose failure stands */
    const gathering to = { (part *)arguments->base.workspace,
                           forward ? talc_cuda_counter(device) : NULL, problem->reduction, fault };
    return with_float(problem->dtype, [&](auto element) {
        using T = typename decltype(element)::type;
        if (forward && !problem->gradient)
            launch<T, false>(device, problem, arguments, to);
        else
            launch<T, true>(device, problem, arguments, to);
        return talc_cuda_launched(device, "cross_entropy");
    });
}

const talc_algorithm talc_cuda_cross_entropy[] = {
    talc_cuda_algorithm<plan_rows, run>("rows",
                                        { "the data's own type, sums in f64", TALC_STRICT, false }),
    { NULL, NULL, { NULL, TALC_STRICT, false }, NULL, NULL },
};
