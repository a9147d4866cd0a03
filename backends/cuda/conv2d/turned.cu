/// Input gradients by the forward kernels (turned.h), and the row split, which has no other gradient.
#include "backends/cuda/conv2d/turned.h"
#include "backends/cuda/conv2d/rows.h"
#include "backends/cuda/dtype.cuh"
#include "backends/cuda/index.cuh"

#include <cmath>

using namespace talc;

/* Where the forward kernels' workspace begins, behind the weights. */
constexpr size_t ALIGNMENT = 256;

// ---- The problem --------------------------------------------------------------------------------------------

const char *talc_cuda_conv2d_turned_refuses(const talc_conv2d_problem *p)
{
    const int64_t down = p->dilation_h * (p->KH - 1), across = p->dilation_w * (p->KW - 1);
    if (p->stride_h != 1 || p->stride_w != 1)
        return "the stride is not 1";
    if (p->pad_top > down || p->pad_bottom > down || p->pad_left > across || p->pad_right > across)
        return "the padding is wider than the kernel reaches";
    return NULL;
}

static talc_conv2d_problem turned(const talc_conv2d_problem *p)
{
    const int64_t down = p->dilation_h * (p->KH - 1), across = p->dilation_w * (p->KW - 1);
    talc_conv2d_problem t = *p;
    t.direction = TALC_FORWARD;
    t.C = p->OC, t.H = p->OH, t.W = p->OW;
    t.OC = p->C, t.OH = p->H, t.OW = p->W;
    t.pad_top = down - p->pad_top, t.pad_bottom = down - p->pad_bottom;
    t.pad_left = across - p->pad_left, t.pad_right = across - p->pad_right;
    return t;
}

static int64_t weights_of(const talc_conv2d_problem *p)
{
    return p->OC * (p->C / p->groups) * p->KH * p->KW;
}

static size_t bytes_of(const talc_conv2d_problem *p)
{
    const size_t bytes = (size_t)weights_of(p) * talc_dtype_size(p->dtype);
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

const char *talc_cuda_conv2d_turned_plan(const char *(*forward)(const talc_device *, const void *,
                                                                size_t, talc_plan *),
                                         const talc_device *device, const talc_conv2d_problem *p,
                                         size_t limit, talc_plan *plan)
{
    const char *refuses = talc_cuda_conv2d_turned_refuses(p);
    if (refuses != NULL)
        return refuses;
    const talc_conv2d_problem t = turned(p);
    const size_t bytes = bytes_of(p);
    refuses = forward(device, &t, limit > bytes ? limit - bytes : 0, plan);
    if (refuses != NULL)
        return refuses;
    plan->workspace += bytes;
    plan->seconds += talc_cuda_conv2d_seconds(device, p, INFINITY, 2 * (double)bytes, 1);
    return NULL;
}

// ---- The weights --------------------------------------------------------------------------------------------

/* t's element i, in channel ic of group g, is w's of output channel oc. */
template <typename T, typename Index>
static __global__ void __launch_bounds__(BLOCK)
    turn_weights(T *t, const T *w, const divisor<Index> taps, const divisor<Index> OC,
                 const divisor<Index> IC, Index count)
{
    TALC_GRID_LOOP(Index, i, count)
    {
        const Index pair = taps.quotient(i), tap = i - pair * taps.by;
        const Index channel = OC.quotient(pair), oc = pair - channel * OC.by;
        const Index g = IC.quotient(channel), ic = channel - g * IC.by;
        t[i] = w[((g * OC.by + oc) * IC.by + ic) * taps.by + (taps.by - 1 - tap)];
    }
}

template <typename T>
static void turn(talc_device *device, const talc_conv2d_problem *p, void *t, const void *w)
{
    const int64_t count = weights_of(p);
    with_index(count, [&](auto zero) {
        using Index = decltype(zero);
        divisor<Index> taps, OC, IC;
        taps.set(p->KH * p->KW);
        OC.set(p->OC / p->groups);
        IC.set(p->C / p->groups);
        turn_weights<T, Index>
            <<<grid_for_threads(device, count), BLOCK, 0, talc_cuda_stream(device)>>>(
                (T *)t, (const T *)w, taps, OC, IC, (Index)count);
    });
}

talc_status talc_cuda_conv2d_turned_run(talc_status (*forward)(talc_device *, const void *,
                                                               const talc_plan *, const void *),
                                        talc_device *device, const talc_conv2d_problem *p,
                                        const talc_plan *plan, const talc_conv2d_arguments *given)
{
    talc_status status = talc_cuda_enter(device, "conv2d.grad_input");
    if (status != TALC_OK)
        return status;
    void *weights = given->base.workspace;
    status = with_float(p->dtype, [&](auto element) {
        turn<typename decltype(element)::type>(device, p, weights, given->w);
        return talc_cuda_launched(device, "conv2d.grad_input");
    });
    if (status != TALC_OK)
        return status;
    const talc_conv2d_problem t = turned(p);
    const size_t bytes = bytes_of(p);
    talc_plan rest = *plan;
    rest.workspace -= bytes;
    talc_conv2d_arguments arguments = {};
    arguments.base.workspace = (char *)weights + bytes;
    arguments.x = given->dy;
    arguments.w = weights;
    arguments.y = given->dx;
    return forward(device, &t, &rest, &arguments);
}

// ---- The row ---------------------------------------------------------------------------------------------------

const char *talc_cuda_conv2d_split_gradient_plan(const talc_device *device, const void *problem,
                                                 size_t limit, talc_plan *plan)
{
    const talc_conv2d_problem *p = (const talc_conv2d_problem *)problem;
    if (p->direction == TALC_GRAD_WEIGHT)
        return "it has no weight gradient";
    return talc_cuda_conv2d_turned_plan(talc_cuda_conv2d_split_plan, device, p, limit, plan);
}

talc_status talc_cuda_conv2d_split_gradient_run(talc_device *device, const void *problem,
                                                const talc_plan *plan, const void *arguments)
{
    return talc_cuda_conv2d_turned_run(talc_cuda_conv2d_split_run, device,
                                       (const talc_conv2d_problem *)problem, plan,
                                       (const talc_conv2d_arguments *)arguments);
}
