/// Negative log likelihood of classes.
///
///     l[i] = -w[t] x[i, t],    dx[i, j] = -w[t] dl[i] [j = t],    t = labels[i]
///
/// Memory-bound. A thread has a sample, or of the gradient an element: neighbouring threads write
/// neighbouring elements. A label is compared before anything is read by it; the first thread to
/// find a wrong one writes the device's record (fault.h).
#include "backends/cuda/device/fault.cuh"
#include "backends/cuda/primitives/dtype.cuh"
#include "backends/cuda/primitives/index.cuh"
#include "backends/cuda/primitives/algorithm.cuh"
#include "ops/nll_loss.h"

using namespace talc;

namespace /* other kernels have types of the same names */
{

template <typename Index> struct loss_plan {
    int64_t C, x_stride, ignore_index;
    Index samples;
    divisor<Index> inner, classes;
    strided_index<1, Index> at;
    const char *op; /* a string of the host, for the record */

    explicit loss_plan(const talc_nll_loss_problem *p)
        : C(p->C), x_stride(p->x_stride), ignore_index(p->ignore_index), samples((Index)p->samples),
          at(p->outer_rank, p->outer_dims, { p->x_strides }), op("nll_loss")
    {
        inner.set(p->inner);
        classes.set(p->C);
    }
};

template <typename T, typename Index>
__global__ void __launch_bounds__(BLOCK)
    nll_forward(T *losses, T *weights, const T *x, const int64_t *labels, const T *weight,
                talc_cuda_fault *fault, const loss_plan<Index> plan)
{
    TALC_GRID_LOOP(Index, i, plan.samples)
    {
        const int64_t label = labels[i];
        T loss = 0, mine = 0;
        if (label != plan.ignore_index && label >= 0 && label < plan.C) {
            int64_t at[1];
            plan.at.offsets(i, at);
            mine = weight == NULL ? (T)1 : weight[label];
            loss = -(mine * x[at[0] + label * plan.x_stride]);
        } else if (label != plan.ignore_index) {
            tell(fault, plan.op, (int64_t)i, label, plan.C);
            loss = (T)nan("");
        }
        losses[i] = loss;
        if (weights != NULL)
            weights[i] = mine;
    }
}

template <typename T, typename Index>
__global__ void __launch_bounds__(BLOCK) nll_gradient(T *dx, const T *dy, const int64_t *labels,
                                                      const T *weight, const loss_plan<Index> plan)
{
    const Index count = plan.samples * (Index)plan.C;
    TALC_GRID_LOOP(Index, e, count)
    {
        const Index row = plan.inner.quotient(e), batch = plan.classes.quotient(row);
        const Index i = batch * plan.inner.by + (e - row * plan.inner.by);
        const int64_t label = labels[i], j = (int64_t)(row - batch * plan.classes.by);
        const bool is_label = label == j && label != plan.ignore_index;
        dx[e] = is_label ? -((weight == NULL ? (T)1 : weight[label]) * dy[i]) : (T)0;
    }
}

/* Indices of 32 bits have room for a step of the largest grid past the end. */
constexpr int64_t CAPACITY = (int64_t)1 << 30;

template <typename T>
void launch(talc_device *device, const talc_nll_loss_problem *p, const talc_nll_loss_arguments *a,
            talc_cuda_fault *fault)
{
    const cudaStream_t stream = talc_cuda_stream(device);
    const T *weight = (const T *)a->weight;
    with_index(p->samples * p->C + CAPACITY, [&](auto zero) {
        using Index = decltype(zero);
        const loss_plan<Index> plan(p);
        if (p->direction == TALC_GRAD_INPUT)
            nll_gradient<T, Index>
                <<<grid_for_threads(device, p->samples * p->C), BLOCK, 0, stream>>>(
                    (T *)a->dx, (const T *)a->dy, a->labels, weight, plan);
        else
            nll_forward<T, Index><<<grid_for_threads(device, p->samples), BLOCK, 0, stream>>>(
                (T *)a->losses, (T *)a->weights, (const T *)a->x, a->labels, weight, fault, plan);
    });
}

} // namespace

// ---- The algorithms -----------------------------------------------------------------------------

static talc_status run(talc_device *device, const talc_nll_loss_problem *problem, const talc_plan *,
                       const talc_nll_loss_arguments *arguments)
{
    talc_cuda_fault *fault = talc_cuda_fault_of(device, "nll_loss");
    if (fault == NULL)
        return TALC_NO_MEMORY; /* whose failure stands */
    return with_float(problem->dtype, [&](auto element) {
        launch<typename decltype(element)::type>(device, problem, arguments, fault);
        return talc_cuda_launched(device, "nll_loss");
    });
}

const talc_algorithm talc_cuda_nll_loss[] = {
    talc_cuda_algorithm<talc_plan_any, run>("direct",
                                            { "the data's own type", TALC_STRICT, false }),
    { NULL, NULL, { NULL, TALC_STRICT, false }, NULL, NULL },
};
