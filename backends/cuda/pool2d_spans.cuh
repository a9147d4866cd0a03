/// Pooling windows that overlap, in small planes, in place in shared memory. Private to backends/cuda.
///
/// Windows of K by K, one apart, as many as a plane has elements. A unit of work is some whole planes, copied as they lie. A
/// thread marches down seven neighbouring columns of a plane: images of networks are 7, 14 and 28 wide, and lanes whose
/// elements stand an odd number of words apart meet in no bank.
///
///     row of x      . a b c d e f g .         K = 3: .ab abc bcd cde def efg fg.
///     states        y[oh - 2]  y[oh - 1]  y[oh]     the first of them is complete
///
/// A row of y takes the place of the row of x that no window needs any longer, so that it is stored as it lies, too.
#ifndef TALC_BACKENDS_CUDA_POOL2D_SPANS_CUH
#define TALC_BACKENDS_CUDA_POOL2D_SPANS_CUH

#include "backends/cuda/pool2d_row.cuh"
#include "backends/cuda/runs.cuh"

namespace
{

using namespace talc;

constexpr int SPAN = 7, SPAN_THREADS = 128;

/* Bytes of a unit at most: four blocks of a multiprocessor have room, and no launch needs to ask for more. */
constexpr int64_t SPAN_BYTES = 48 << 10;

struct span_plan {
    int H, W;
    int across, planes; ///< threads of a plane, planes of a unit
    int bytes;          ///< of x, and then of y, in a unit
    divide average;
    uint32_t count, all_planes;
};

template <typename State, typename T, int K, bool WHOLE>
static __global__ void __launch_bounds__(SPAN_THREADS)
    pool_spans(const T *x, T *y, int64_t *indices, const span_plan p)
{
    constexpr int PAD = K / 2;
    extern __shared__ __align__(16) unsigned char span_bytes[];
    const int lane = (int)threadIdx.x % WARP, abreast = WARP / p.across, above = lane / p.across;
    const int plane = (int)threadIdx.x / WARP * abreast + above;
    const int iw = (lane - above * p.across) * SPAN, size = p.H * p.W;
    const int pad = p.average.exclude_padding ? 0 : PAD;
    bool inside[SPAN + K - 1]; /* columns */
#pragma unroll
    for (int i = 0; i < SPAN + K - 1; i++)
        inside[i] = WHOLE ? (i >= PAD || iw > 0) && (i < SPAN + PAD || iw + SPAN < p.W)
                          : (unsigned)(iw + i - PAD) < (unsigned)p.W;
    for (uint32_t unit = blockIdx.x; unit < p.count; unit += gridDim.x) {
        const int planes = min(p.planes, (int)(p.all_planes - unit * p.planes));
        const int count = planes * size;
        const int64_t at = (int64_t)unit * p.planes * size;
        T *shared = (T *)span_bytes + place_of(y + at);
        int *places = (int *)(span_bytes + p.bytes) + place_of(indices + at);
        copy_run_anywhere<SPAN_THREADS>(shared, x + at, count);
        await_run();
        const bool mine = above < abreast && plane < planes;
        /* Lanes without a plane go through one of their warp's. */
        const int first = (mine ? plane : plane - above) * size + iw;
        T *row = shared + first, *out = row;
        int *place = places + first;
        int high_before = 0; /* of the windows before, for averages */
        shared_divisor<T> sizes[SPAN];
        State states[K][SPAN]; /* nvcc 13.0 gives only the first of them its initial values */
#pragma unroll
        for (int k = 0; k < K; k++)
#pragma unroll
            for (int v = 0; v < SPAN; v++)
                states[k][v] = State{};
#pragma unroll 1
        for (int step = 0; step < p.H + PAD && plane - above < planes; step += K) {
            /* Output row step + u + PAD begins; its states are in place u until K rows later. */
#pragma unroll
            for (int u = 0; u < K; u++) {
                const int ih = step + u, oh = ih - PAD;
                if (ih >= p.H + PAD)
                    break;
                if (ih < p.H) {
                    T window[SPAN + K - 1];
#pragma unroll
                    for (int i = 0; i < SPAN + K - 1; i++)
                        window[i] = inside[i] ? row[i - PAD] : State{}.value;
#pragma unroll
                    for (int v = 0; v < SPAN; v++) {
                        State taps;
#pragma unroll
                        for (int k = 0; k < K; k++)
                            if (!State::LOCATES || inside[v + k])
                                taps.add(window[v + k], ih * p.W + iw + v + k - PAD);
                        states[u][v] = taps;
#pragma unroll
                        for (int j = 1; j < K; j++)
                            states[(u + K - j) % K][v].join_next(taps);
                    }
                    row += p.W;
                }
                __syncwarp(); /* other lanes have read their rows up to this one */
                if (oh < 0)
                    continue;
                State(&done)[SPAN] = states[(u + 1) % K];
                if (State::AVERAGES) {
                    const int high = p.average.by > 0 ? 1 : covered(ih + 1 - K, K, p.H, pad);
                    if (high != high_before) {
                        high_before = high;
#pragma unroll
                        for (int v = 0; v < SPAN; v++)
                            sizes[v].set(p.average.by > 0
                                             ? (T)p.average.by
                                             : (T)(high * covered(iw + v - PAD, K, p.W, pad)));
                    }
                }
#pragma unroll
                for (int v = 0; v < SPAN; v++)
                    if (mine && (WHOLE || iw + v < p.W)) {
                        out[v] = State::AVERAGES ? sizes[v].divide(done[v].value) : done[v].value;
                        if constexpr (State::LOCATES)
                            place[v] = done[v].at;
                    }
                out += p.W, place += p.W;
            }
        }
        __syncthreads();
        store_run<SPAN_THREADS>(y + at, shared, count, [](T value, int) { return value; });
        if constexpr (State::LOCATES)
            store_run<SPAN_THREADS>(indices + at, places, count,
                                    [](int place, int) { return (int64_t)place; });
        __syncthreads();
    }
}

struct spans_row {
    static const char *refuses(const talc_pool2d_problem *p)
    {
        if ((!is_square(p, 3, 1) && !is_square(p, 5, 1)) || p->OH != p->H || p->OW != p->W ||
            p->pad_h != p->KH / 2 || p->pad_w != p->KW / 2)
            return "only 3x3 windows with padding 1 and 5x5 with padding 2, as many as elements";
        /* Lanes of neighbouring planes would meet in a bank. */
        if (p->H * p->W % 8 == 0)
            return "planes lie a multiple of 8 elements apart";
        /* A larger unit's planes keep too few threads busy. */
        const int64_t size = (int64_t)talc_dtype_size(p->dtype);
        const bool light = p->kind == TALC_POOL2D_MAX && !p->indices && p->dtype == TALC_F32;
        span_plan plan;
        if (p->H * p->W * size > (light ? 5000 : 2000) || !cut(p, 1, 1, &plan))
            return "a plane is large";
        return NULL;
    }

    template <template <typename, typename> class State, typename T>
    static bool launch(talc_device *device, const talc_pool2d_problem *p,
                       const talc_pool2d_arguments *arguments)
    {
        return p->KH == 3 ? launch_of<State<T, int>, T, 3>(device, p, arguments)
                          : launch_of<State<T, int>, T, 5>(device, p, arguments);
    }

    template <typename State, typename T, int K>
    static bool launch_of(talc_device *device, const talc_pool2d_problem *p,
                          const talc_pool2d_arguments *arguments)
    {
        span_plan plan;
        return for_slices<T>(p, arguments, 1, [&](plane_slice<T> some) {
            if (!cut(p, some.planes, talc_cuda_state_of(device)->multiprocessors, &plan))
                return false;
            const int places =
                State::LOCATES ? plan.planes * plan.H * plan.W * (int)sizeof(int) + ACCESS : 0;
            const auto kernel =
                p->W % SPAN == 0 ? pool_spans<State, T, K, true> : pool_spans<State, T, K, false>;
            kernel<<<blocks_of(device, plan.count), SPAN_THREADS, plan.bytes + places,
                     talc_cuda_stream(device)>>>(some.x, some.y, some.indices, plan);
            return true;
        });
    }

    /* As many planes as there are threads and room for, but some units for each place where a block can be. */
    static bool cut(const talc_pool2d_problem *p, int64_t planes, int64_t multiprocessors,
                    span_plan *plan)
    {
        const int64_t size = (int64_t)talc_dtype_size(p->dtype), elements = p->H * p->W;
        const int64_t across = pieces(p->W, SPAN);
        const int64_t busy = SPAN_THREADS / WARP * (WARP / across);
        const int64_t room =
            (SPAN_BYTES - 3 * ACCESS) / (elements * (p->indices ? size + 4 : size));
        const int64_t share = pieces(planes, multiprocessors * 32);
        int64_t together = busy < room ? busy : room;
        together = together < share ? together : share;
        if (together == 0)
            return false;
        plan->H = (int)p->H, plan->W = (int)p->W;
        plan->across = (int)across, plan->planes = (int)together;
        plan->bytes = (int)((pieces(together * elements * size, ACCESS) + 1) * ACCESS);
        plan->average = { p->exclude_padding, p->divisor };
        plan->count = (uint32_t)pieces(planes, together);
        plan->all_planes = (uint32_t)planes;
        return true;
    }
};

} // namespace

#endif
