/// The input gradient of pooling. Private to backends/cuda/pool2d.
///
///     max: dx[i] = sum of dy[o] over the windows o whose index is i
///     avg: dx[i] = sum of dy[o] / D over the windows o that hold i
///
/// A thread has some neighbouring elements of dx and looks at the windows that may hold them, in
/// their order: nothing is added up by several threads, and dx is written once. What neighbours
/// read in common comes from the caches.
#ifndef TALC_BACKENDS_CUDA_POOL2D_GRADIENT_CUH
#define TALC_BACKENDS_CUDA_POOL2D_GRADIENT_CUH

#include "backends/cuda/pool2d/state.cuh"

namespace
{

/* The outputs whose windows may hold an element, along one axis, as talc_pool2d_outputs_at gives
 * them. */
template <typename Index> struct holders {
    using Unsigned = typename axis<Index>::Unsigned;
    Index kernel, pad, reach, out; ///< kernel 0: adaptive
    Index whole, rest;             ///< of out / extent
    divisor<Unsigned> stride, extent;

    explicit holders(talc_pool2d_axis a)
        : kernel((Index)a.kernel), pad((Index)a.pad_begin),
          reach((Index)((a.kernel - 1) * a.dilation)), out((Index)a.out),
          whole((Index)(a.out / a.extent)), rest((Index)(a.out % a.extent))
    {
        stride.set(a.kernel == 0 ? 1 : a.stride);
        extent.set(a.extent);
    }

    /* lo .. hi - 1 of element i. */
    __device__ void find(Index i, Index &lo, Index &hi) const
    {
        if (kernel == 0) {
            lo = i * whole + (Index)extent.quotient((Unsigned)(i * rest));
            hi = (i + 1) * whole +
                 (Index)extent.quotient((Unsigned)((i + 1) * rest) + extent.by - 1);
            return;
        }
        const Index last = i + pad, first = last - reach;
        lo = first > 0 ? (Index)stride.quotient((Unsigned)first - 1) + 1 : 0;
        hi = min((Index)stride.quotient((Unsigned)last) + 1, out);
    }
};

template <typename Index> struct gradient_plan {
    window_plan<Index> window;
    holders<Index> h, w;

    explicit gradient_plan(const talc_pool2d_problem *p)
        : window(p), h(talc_pool2d_axis_h(p)), w(talc_pool2d_axis_w(p))
    {
    }
};

/* What element [ih, iw] gets; dy and indices are those of its plane. */
template <bool MAX, typename T, typename Index>
static __device__ T gathered(const gradient_plan<Index> &plan, const T *dy, const int64_t *indices,
                             Index oh_begin, Index oh_end, Index ih, Index iw)
{
    const Index OW = plan.w.out;
    const int64_t element = (int64_t)ih * plan.window.w.extent + iw;
    Index ow_begin, ow_end;
    plan.w.find(iw, ow_begin, ow_end);
    T sum = 0;
    for (Index oh = oh_begin; oh < oh_end; oh++) {
        const Index row = oh * OW;
        if constexpr (MAX) {
            for (Index ow = ow_begin; ow < ow_end; ow++)
                if (indices[row + ow] == element)
                    sum += dy[row + ow];
        } else {
            const taps<Index> along_h = plan.window.h.window(oh);
            for (Index ow = ow_begin; ow < ow_end; ow++)
                sum +=
                    dy[row + ow] / plan.window.template size<T>(along_h, plan.window.w.window(ow));
        }
    }
    return sum;
}

/* `count` times V neighbours of a row, of planes one after the other. */
template <bool MAX, typename T, typename Index, int V>
static __global__ void __launch_bounds__(BLOCK)
    pool_gradient(T *dx, const T *dy, const int64_t *indices, typename axis<Index>::Unsigned count,
                  const gradient_plan<Index> plan)
{
    using Unsigned = typename axis<Index>::Unsigned;
    const int64_t outputs = (int64_t)plan.h.out * plan.w.out;
    TALC_GRID_LOOP(Unsigned, i, count)
    {
        const Unsigned at = i * V, row = plan.w.extent.quotient(at);
        const Unsigned plane = plan.h.extent.quotient(row);
        const Index ih = (Index)(row - plane * plan.h.extent.by);
        const Index iw = (Index)(at - row * plan.w.extent.by);
        Index oh_begin, oh_end;
        plan.h.find(ih, oh_begin, oh_end);
        vec<T, V> sums;
#pragma unroll
        for (int k = 0; k < V; k++)
            sums.of[k] =
                gathered<MAX>(plan, dy + plane * outputs, MAX ? indices + plane * outputs : NULL,
                              oh_begin, oh_end, ih, iw + k);
        *(vec<T, V> *)(dx + at) = sums;
    }
}

template <bool MAX, typename T, typename Index>
static void launch_gather(talc_device *device, const talc_pool2d_problem *p,
                          const talc_pool2d_arguments *arguments)
{
    using Unsigned = typename axis<Index>::Unsigned;
    constexpr int V = sizeof(Index) == 4 ? VECTOR_BYTES / sizeof(T) : 1;
    const gradient_plan<Index> plan(p);
    const int64_t planes = p->N * p->C, size = p->H * p->W, outputs = p->OH * p->OW;
    const int64_t largest = sizeof(Index) == 4 ? INT_MAX / size : planes;
    const bool packed = p->W % V == 0 && is_aligned(arguments->dx);
    for (int64_t first = 0; first < planes; first += largest) {
        const int64_t count = talc_smaller(largest, planes - first) * size / (packed ? V : 1);
        T *dx = (T *)arguments->dx + first * size;
        const T *dy = (const T *)arguments->dy + first * outputs;
        const int64_t *indices = MAX ? arguments->indices + first * outputs : NULL;
        const auto kernel =
            packed ? pool_gradient<MAX, T, Index, V> : pool_gradient<MAX, T, Index, 1>;
        kernel<<<grid_for_threads(device, count), BLOCK, 0, talc_cuda_stream(device)>>>(
            dx, dy, indices, (Unsigned)count, plan);
    }
}

/* Whether 32 bits hold what `find` works out, too. */
static bool is_narrow_backwards(const talc_pool2d_problem *p)
{
    constexpr int64_t MAX_SOLUTIONS = 1 << 15;
    return is_narrow(p) &&
           (!talc_pool2d_is_adaptive(p) || (p->H < MAX_SOLUTIONS && p->W < MAX_SOLUTIONS));
}

template <typename T>
static void launch_gradient(talc_device *device, const talc_pool2d_problem *p,
                            const talc_pool2d_arguments *arguments)
{
    const bool max = talc_pool2d_is_max(p);
    auto launch = max ? launch_gather<true, T, int64_t> : launch_gather<false, T, int64_t>;
    if constexpr (std::is_same_v<T, float>)
        if (is_narrow_backwards(p))
            launch = max ? launch_gather<true, T, int> : launch_gather<false, T, int>;
    launch(device, p, arguments);
}

} // namespace

#endif
