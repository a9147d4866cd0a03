/// Pooling windows of any kind out of global memory, an output a thread or a group of threads. Private to backends/cuda.
#ifndef TALC_BACKENDS_CUDA_POOL2D_WINDOWS_CUH
#define TALC_BACKENDS_CUDA_POOL2D_WINDOWS_CUH

#include "backends/cuda/pool2d_axis.cuh"
#include "backends/cuda/pool2d_row.cuh"

namespace
{

using namespace talc;

/* Elements from .. end - 1 of a plane, in the order of a thread's own: what is before the first pack, packs, what is left. */
template <typename State, typename T, typename Index>
static __device__ void add_run(State &state, const T *plane, Index from, Index end, int thread,
                               int threads)
{
    constexpr int V = ACCESS / sizeof(T), IN_FLIGHT = 4;
    const Index first = from + (Index)(-((uintptr_t)(plane + from) / sizeof(T)) % V);
    const Index packs = end > first ? (end - first) / V : 0, rest = first + packs * V;
    for (Index i = from + thread; i < first && i < end; i += threads)
        state.add(plane[i], i);
    Index pack = thread;
    for (; pack + (IN_FLIGHT - 1) * threads < packs; pack += threads * IN_FLIGHT) {
        vec<T, V> some[IN_FLIGHT];
#pragma unroll
        for (int k = 0; k < IN_FLIGHT; k++)
            some[k] = *(const vec<T, V> *)(plane + first + (pack + k * threads) * V);
#pragma unroll
        for (int k = 0; k < IN_FLIGHT; k++)
#pragma unroll
            for (int v = 0; v < V; v++)
                state.add(some[k].of[v], first + (pack + k * threads) * V + v);
    }
    for (; pack < packs; pack += threads) {
        const vec<T, V> some = *(const vec<T, V> *)(plane + first + pack * V);
#pragma unroll
        for (int v = 0; v < V; v++)
            state.add(some.of[v], first + pack * V + v);
    }
    for (Index i = rest + thread; i < end; i += threads)
        state.add(plane[i], i);
}

/* Rows h0, h0 + h_step, ... below h1 of a plane W wide, columns likewise. */
template <typename State, typename T, typename Index>
static __device__ void add_rows(State &state, const T *plane, Index W, Index h0, Index h1,
                                Index h_step, Index w0, Index w1, Index w_step, int thread,
                                int threads)
{
    using Unsigned = typename axis<Index>::Unsigned;
    constexpr int IN_FLIGHT = 8;
    const Unsigned columns = (Unsigned)((w1 - w0 + w_step - 1) / w_step);
    const Unsigned taps = columns * (Unsigned)((h1 - h0 + h_step - 1) / h_step);
    for (Unsigned tap = thread; tap < taps; tap += threads * IN_FLIGHT) {
        T value[IN_FLIGHT];
        Index place[IN_FLIGHT];
#pragma unroll
        for (int k = 0; k < IN_FLIGHT; k++) {
            const Unsigned t = tap + k * threads, row = t / columns;
            place[k] = (h0 + (Index)row * h_step) * W + w0 + (Index)(t - row * columns) * w_step;
            if (t < taps)
                value[k] = plane[place[k]];
        }
#pragma unroll
        for (int k = 0; k < IN_FLIGHT; k++)
            if (tap + k * threads < taps)
                state.add(value[k], place[k]);
    }
}

/* Each output is the work of `threads` neighbouring threads. */
template <typename State, typename T, typename Index>
static __global__ void __launch_bounds__(BLOCK)
    pool_windows(const T *x, T *y, int64_t *indices, typename axis<Index>::Unsigned count,
                 int threads, const window_plan<Index> plan)
{
    using Unsigned = typename axis<Index>::Unsigned;
    __shared__ alignas(ACCESS) char shared[BLOCK / WARP * sizeof(State)];
    const Unsigned groups = BLOCK / threads, group = threadIdx.x / threads;
    const Unsigned thread = threadIdx.x % threads;
    for (Unsigned first = blockIdx.x * groups; first < count; first += gridDim.x * groups) {
        const bool real = first + group < count;
        const Unsigned at = real ? first + group : first;
        const Unsigned rest = plan.w.out.quotient(at), plane = plan.h.out.quotient(rest);
        Index h0, h1, h_padded, w0, w1, w_padded;
        plan.h.window((Index)(rest - plane * plan.h.out.by), h0, h1, h_padded);
        plan.w.window((Index)(at - rest * plan.w.out.by), w0, w1, w_padded);
        const Index h_step = (Index)plan.h.dilation.by, w_step = (Index)plan.w.dilation.by;
        const T *x_plane = x + (int64_t)plane * plan.h.extent * plan.w.extent;
        const bool some = h0 < h1 && w0 < w1;
        State state;
        if (some && threads == 1) {
            for (Index ih = h0; ih < h1; ih += h_step)
                for (Index iw = w0; iw < w1; iw += w_step)
                    state.add(x_plane[ih * plan.w.extent + iw], ih * plan.w.extent + iw);
        } else if (some) {
            /* Whole rows are one run. */
            if (w0 == 0 && w1 == plan.w.extent && w_step == 1 && h_step == 1)
                add_run(state, x_plane, h0 * plan.w.extent, h1 * plan.w.extent, (int)thread,
                        threads);
            else
                add_rows(state, x_plane, plan.w.extent, h0, h1, h_step, w0, w1, w_step, (int)thread,
                         threads);
        }
        if (threads > 1)
            state = join_group(state, threads, (State *)shared);
        if (!real || thread != 0)
            continue;
        store_window(state, plan.average, some ? h1 - h0 : 0, w1 - w0, h_padded, w_padded, y,
                     indices, (int64_t)at);
    }
}

struct windows_row {
    static const char *refuses(const talc_pool2d_problem *)
    {
        return NULL;
    }

    template <template <typename, typename> class State, typename T>
    static bool launch(talc_device *device, const talc_pool2d_problem *p,
                       const talc_pool2d_arguments *arguments)
    {
        return is_narrow(p) ? launch_of<State<T, int>, T, int>(device, p, arguments, p->OH * p->OW)
                            : launch_of<State<T, int64_t>, T, int64_t>(device, p, arguments, 1);
    }

    /* Threads an output: one, where those of neighbouring outputs read neighbours or have little to read. */
    static int threads_an_output(const talc_pool2d_problem *p)
    {
        const bool adaptive = p->kind == TALC_POOL2D_ADAPTIVE_AVG;
        const double rows = (double)(adaptive ? p->H / p->OH + 1 : p->KH);
        const double columns = (double)(adaptive ? p->W / p->OW + 1 : p->KW);
        const int64_t apart = p->OW == 1 ? p->W : adaptive ? p->W / p->OW : p->stride_w;
        const double taps = rows * columns;
        if (taps < 16 || (p->OW > 1 && apart < 8))
            return 1;
        return taps < 256 ? 8 : taps < 16384 ? WARP : BLOCK;
    }

    template <typename State, typename T, typename Index>
    static bool launch_of(talc_device *device, const talc_pool2d_problem *p,
                          const talc_pool2d_arguments *arguments, int64_t a_plane)
    {
        using Unsigned = typename axis<Index>::Unsigned;
        const window_plan<Index> plan(p);
        const int threads = threads_an_output(p);
        return for_slices<T>(p, arguments, a_plane, [&](plane_slice<T> some) {
            const int64_t count = some.planes * p->OH * p->OW;
            pool_windows<State, T, Index><<<blocks_of(device, pieces(count, BLOCK / threads)),
                                            BLOCK, 0, talc_cuda_stream(device)>>>(
                some.x, some.y, some.indices, (Unsigned)count, threads, plan);
            return true;
        });
    }
};

} // namespace

#endif
