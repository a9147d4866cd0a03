/// Pooling windows of every kind, from global memory, by a thread or a group of threads for each
/// output. Private to backends/cuda/pool2d.
#ifndef TALC_BACKENDS_CUDA_POOL2D_WINDOW_CUH
#define TALC_BACKENDS_CUDA_POOL2D_WINDOW_CUH

#include "backends/cuda/pool2d/state.cuh"

namespace
{

/* Elements from .. end - 1 of an image, those of one thread of `threads`, by 16-byte loads but for
 * the ends, which no thread has more than one element of each of: loaded before the vectors and
 * added after them, so that a thread waits for all at once. */
template <typename State, typename T, typename Index>
static __device__ void add_contiguous(State &state, const T *image, Index from, Index end,
                                      int thread, int threads)
{
    constexpr int V = VECTOR_BYTES / sizeof(T);
    const Index first = from + (Index)(-((uintptr_t)(image + from) / sizeof(T)) % V);
    const Index vectors = end > first ? (end - first) / V : 0, rest = first + vectors * V;
    const Index head = from + thread, tail = rest + thread;
    const bool has_head = head < first && head < end, has_tail = tail < end;
    T ends[2];
    if (has_head)
        ends[0] = image[head];
    if (has_tail)
        ends[1] = image[tail];
    const auto load = [&](Index i) { return *(const vec<T, V> *)(image + first + i * V); };
    const auto add = [&](const vec<T, V> &values, Index i) {
#pragma unroll
        for (int v = 0; v < V; v++)
            state.add(values.of[v], first + i * V + v);
    };
    for_loads<4>((Index)thread, vectors, (Index)threads, load, add);
    State other;
    if (has_head)
        other.add(ends[0], head);
    if (has_tail)
        other.add(ends[1], tail);
    state.join(other);
}

/* The taps of a window that one thread of `threads` has. */
template <typename State, typename T, typename Index>
static __device__ void add_taps(State &state, const T *image, taps<Index> h, taps<Index> w,
                                const window_plan<Index> &plan, int thread, int threads)
{
    using Unsigned = typename axis<Index>::Unsigned;
    constexpr int IN_FLIGHT = 8;
    const Index h_step = plan.h.step, w_step = plan.w.step;
    const Unsigned columns = (Unsigned)((w.end - w.first + w_step - 1) / w_step);
    const Unsigned count = columns * (Unsigned)((h.end - h.first + h_step - 1) / h_step);
    for (Unsigned tap = thread; tap < count; tap += threads * IN_FLIGHT) {
        T value[IN_FLIGHT];
        Index element[IN_FLIGHT];
#pragma unroll
        for (int k = 0; k < IN_FLIGHT; k++) {
            const Unsigned t = tap + k * threads, row = t / columns;
            element[k] = (h.first + (Index)row * h_step) * plan.w.extent + w.first +
                         (Index)(t - row * columns) * w_step;
            if (t < count)
                value[k] = image[element[k]];
        }
#pragma unroll
        for (int k = 0; k < IN_FLIGHT; k++)
            if (tap + k * threads < count)
                state.add(value[k], element[k]);
    }
}

/* Each output is the work of `threads` neighbouring threads. */
template <typename State, typename T, typename Index>
static __global__ void __launch_bounds__(BLOCK)
    pool_window(const T *x, T *y, int64_t *indices, typename axis<Index>::Unsigned count,
                int threads, const window_plan<Index> plan)
{
    using Unsigned = typename axis<Index>::Unsigned;
    __shared__ alignas(VECTOR_BYTES) char shared[BLOCK / WARP * sizeof(State)];
    const Unsigned groups = BLOCK / threads, group = threadIdx.x / threads;
    const int thread = (int)threadIdx.x % threads;
    const Index W = plan.w.extent;
    const Index h_step = plan.h.step, w_step = plan.w.step;
    for (Unsigned first = blockIdx.x * groups; first < count; first += gridDim.x * groups) {
        const bool real = first + group < count; /* the others take part in the barriers */
        const Unsigned at = real ? first + group : first;
        const Unsigned row = plan.w.out.quotient(at), plane = plan.h.out.quotient(row);
        const taps<Index> h = plan.h.window((Index)(row - plane * plan.h.out.by));
        const taps<Index> w = plan.w.window((Index)(at - row * plan.w.out.by));
        const T *image = x + (int64_t)plane * plan.h.extent * W;
        State state;
        if (threads == 1)
            for (Index ih = h.first; ih < h.end; ih += h_step)
#pragma unroll 4
                for (Index iw = w.first; iw < w.end; iw += w_step)
                    state.add(image[ih * W + iw], ih * W + iw);
        else if (w.end - w.first == W && w_step == 1 && h_step == 1)
            add_contiguous(state, image, h.first * W, h.end * W, thread, threads);
        else if (w.first < w.end)
            add_taps(state, image, h, w, plan, thread, threads);
        state = join_group(state, threads, (State *)shared);
        if constexpr (State::AVERAGES)
            state.value /= plan.template size<T>(h, w);
        if (real && thread == 0)
            store(state, y, indices, (int64_t)at);
    }
}

/* Averages or maxima of whole planes that need more threads each to keep a GPU busy, as those of
 * one image's channels. */
static bool are_few_planes(const talc_pool2d_problem *p)
{
    return p->OH == 1 && p->OW == 1 && p->N * p->C <= 4096;
}

/* Threads an output: several where windows are large and far apart, else neighbouring outputs read
 * neighbouring elements. */
static int threads_of(const talc_pool2d_problem *p)
{
    const bool adaptive = talc_pool2d_is_adaptive(p);
    const double size = (double)(adaptive ? p->H / p->OH + 1 : p->KH) *
                        (double)(adaptive ? p->W / p->OW + 1 : p->KW);
    const int64_t apart = p->OW == 1 ? p->W : adaptive ? p->W / p->OW : p->stride_w;
    if (are_few_planes(p) && size >= 16)
        return size < 1024 ? WARP : BLOCK;
    if (p->OH == 1 && p->OW == 1 && size >= 16 && size <= 16 * WARP) {
        int threads = 4; /* of 16 elements, that they wait for once */
        while (threads * 16 < size)
            threads *= 2;
        return threads;
    }
    return size < 16 || apart < 8 ? 1 : size < 256 ? 8 : size < 16384 ? WARP : BLOCK;
}

template <typename State, typename T, typename Index>
static void launch_window(talc_device *device, const talc_pool2d_problem *p,
                          const talc_pool2d_arguments *arguments, int64_t a_plane)
{
    const int threads = threads_of(p);
    const window_plan<Index> plan(p);
    for_plane_chunks<T>(p, arguments, a_plane, [&](plane_chunk<T> some) {
        const int64_t count = some.planes * p->OH * p->OW;
        const unsigned blocks = grid_for_blocks(device, talc_ceil_div(count, BLOCK / threads));
        pool_window<State, T, Index><<<blocks, BLOCK, 0, talc_cuda_stream(device)>>>(
            some.x, some.y, some.indices, (typename axis<Index>::Unsigned)count, threads, plan);
    });
}

struct window_algorithm {
    static const char *refuses(const talc_pool2d_problem *)
    {
        return NULL;
    }

    template <template <typename, typename> class State, typename T>
    static void launch(talc_device *device, const talc_pool2d_problem *p,
                       const talc_pool2d_arguments *arguments)
    {
        /* Doubles, which networks do not pool, have the kernel of wide indices alone. */
        if constexpr (std::is_same_v<T, float>) {
            if (is_narrow(p))
                return launch_window<State<T, int>, T, int>(device, p, arguments, p->OH * p->OW);
        }
        launch_window<State<T, int64_t>, T, int64_t>(device, p, arguments, 1);
    }
};

} // namespace

#endif
