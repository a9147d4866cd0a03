/// 2-D pooling: maximum, average and adaptive average.
///
///     y[n, c, oh, ow] = max or 1/D * sum over ih, iw in the window of (oh, ow) of x[n, c, ih, iw]
///
/// x is [N, C, H, W], y is [N, C, OH, OW], both contiguous. ops/pool2d_window.h defines the windows
/// and the divisor D. All kernels are bound by memory bandwidth. The algorithms:
///
///   tiled      For small square windows, which are read from shared memory. A thread computes some
///              consecutive outputs of a column (small_windows.cuh).
///   separable  For windows of any size. The columns of each window are reduced first, then their
///              results (separable.cuh).
///   window     For any window. One thread computes an output or, where windows are large and far
///              apart, a group of 4 to 256 threads does (window.cuh). It also computes the input
///              gradient (gradient.cuh).
///
/// Sums are in the data's own type, and their order follows from the problem alone. `tiled` sums
/// each row of a window and adds these sums from top to bottom. `separable` sums each column and
/// adds these sums from left to right. In `window`, the threads of a group reduce their sums in a
/// tree.
#include "backends/cuda/primitives/algorithm.cuh"
#include "backends/cuda/primitives/dtype.cuh"
#include "backends/cuda/pool2d/gradient.cuh"
#include "backends/cuda/pool2d/separable.cuh"
#include "backends/cuda/pool2d/small_windows.cuh"
#include "backends/cuda/pool2d/window.cuh"
#include "backends/cuda/device/estimate.h"

namespace
{

/* The same problem as ordinary pooling, where the windows of an adaptive one have the same size and
 * do not overlap: the extents of x are multiples of those of y. Else the problem as it is. */
static talc_pool2d_problem without_adaptive(talc_pool2d_problem p)
{
    if (talc_pool2d_is_adaptive(&p) && p.H % p.OH == 0 && p.W % p.OW == 0) {
        p.kind = talc_pool2d_is_max(&p) ? TALC_POOL2D_MAX : TALC_POOL2D_AVG;
        p.KH = p.stride_h = p.H / p.OH;
        p.KW = p.stride_w = p.W / p.OW;
        p.dilation_h = p.dilation_w = 1;
    }
    return p;
}

/* Whether `separable` is as fast as the others. It is not where the stride is more than about four
 * times the window: its threads read the columns between the windows too. Nor is it where one
 * window is the whole image, which `window` reads contiguously. */
static bool suits_separable(const talc_pool2d_problem *p)
{
    const bool far_apart =
        !talc_pool2d_is_adaptive(p) && (p->stride_w - 1) / 4 > (p->KW - 1) * p->dilation_w;
    const bool whole_image = p->OH == 1 && p->OW == 1 && (p->H * p->W >= 32 || are_few_planes(p));
    return !far_apart && !whole_image;
}

/* Algorithm is a struct with launch<State, T>(), which runs the forward direction, and refuses(),
 * which says why it cannot do a problem. State is what a window is reduced to (state.cuh). */
template <typename Algorithm>
static talc_status run(talc_device *device, const talc_pool2d_problem *problem, const talc_plan *,
                       const talc_pool2d_arguments *arguments)
{
    const talc_pool2d_problem p = without_adaptive(*problem);
    return with_float(p.dtype, [&](auto element) {
        using T = typename decltype(element)::type;
        if (p.direction == TALC_GRAD_INPUT)
            launch_gradient<T>(device, &p, arguments);
        else if (!talc_pool2d_is_max(&p))
            Algorithm::template launch<total, T>(device, &p, arguments);
        else if (p.indices)
            Algorithm::template launch<located_maximum, T>(device, &p, arguments);
        else
            Algorithm::template launch<maximum, T>(device, &p, arguments);
        return talc_cuda_launched(device, "pool2d");
    });
}

template <typename Algorithm>
static const char *plan(const talc_device *device, const talc_pool2d_problem *problem, size_t,
                        talc_plan *plan)
{
    /* The estimate is the time of a copy, since x is read once and y written once, or dy and dx in
     * the gradient. Of equal estimates the first is chosen, so the list is sorted by speed. */
    constexpr double UNSUITED = 2;
    const double planes = (double)problem->N * (double)problem->C;
    const double elements = planes * ((double)problem->H * (double)problem->W +
                                      (double)problem->OH * (double)problem->OW);
    plan->seconds = talc_cuda_seconds(device, problem->dtype, 0, 1,
                                      elements * (double)talc_dtype_size(problem->dtype), 1);
    if (problem->direction == TALC_GRAD_WEIGHT)
        return "pooling has no weights";
    if (problem->direction == TALC_GRAD_INPUT)
        return std::is_same_v<Algorithm, window_algorithm> ? NULL : "only the forward direction";
    if (problem->OH == 0 || problem->OW == 0)
        return NULL; /* nothing to run */
    const talc_pool2d_problem p = without_adaptive(*problem);
    if (std::is_same_v<Algorithm, separable_algorithm> && !suits_separable(&p))
        plan->seconds *= UNSUITED;
    return Algorithm::refuses(&p);
}

template <typename Algorithm> constexpr talc_algorithm algorithm(const char *name)
{
    return talc_cuda_algorithm<plan<Algorithm>, run<Algorithm>>(
        name, { "the data's own type", TALC_STRICT, false });
}

} // namespace

/// Of those that can do a problem, the first of the smallest estimate runs. An element without a
/// name ends the list.
const talc_algorithm talc_cuda_pool2d[] = {
    algorithm<tiled_algorithm>("tiled"),
    algorithm<separable_algorithm>("separable"),
    algorithm<window_algorithm>("window"),
    { NULL, NULL, { NULL, TALC_STRICT, false }, NULL, NULL },
};
