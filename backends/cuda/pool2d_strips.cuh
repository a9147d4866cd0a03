/// Pooling windows that overlap, in wide images, by strips (strips.cuh). Private to backends/cuda.
///
/// Windows of K by K, one apart. Of each row of x a lane combines the taps of its V windows from left to right, once, and
/// the result joins the states of the K rows of y to which the row belongs:
///
///     row of x      a b c d e f       K = 3, V = 4: abc bcd cde def
///     states        y[oh - 2]  y[oh - 1]  y[oh]     the first of them is complete
#ifndef TALC_BACKENDS_CUDA_POOL2D_STRIPS_CUH
#define TALC_BACKENDS_CUDA_POOL2D_STRIPS_CUH

#include "backends/cuda/pool2d_row.cuh"
#include "backends/cuda/strips.cuh"

namespace
{

using namespace talc;

struct strip_plan : image_plan {
    strip_cut cut;

    using image_plan::image_plan;
};

/* A lane's columns of a row of positions, 64-bit ones, neighbouring lanes side by side: through shared memory. */
template <int V>
static __device__ void store_positions(int64_t *row, int (&shared)[WARP * V], const int (&at)[V],
                                       int ow, int OW)
{
    const int lane = (int)threadIdx.x % WARP;
    __syncwarp(); /* the row before is read */
#pragma unroll
    for (int v = 0; v < V; v++)
        shared[lane * V + v] = at[v];
    __syncwarp();
#pragma unroll
    for (int v = 0; v < V; v++)
        if (ow + v * WARP + lane < OW)
            row[ow + v * WARP + lane] = shared[v * WARP + lane];
}

/* EVEN: rows of y begin at 16 bytes. */
template <typename State, typename T, int K, int SKEW, bool ALIGNED, bool EVEN>
static __global__ void __launch_bounds__(STRIP_WARPS *WARP, K > 3 && !EVEN ? 4 : 5)
    pool_strips(const T *x, T *y, int64_t *indices, const strip_plan p)
{
    constexpr int V = ACCESS / sizeof(T), COUNT = V - 1 + K;
    using ring_of_rows = row_ring<T, 1, COUNT, SKEW, ALIGNED>;
    __shared__ alignas(ACCESS) typename ring_of_rows::storage slots[STRIP_WARPS];
    __shared__ int places[STRIP_WARPS][State::LOCATES ? WARP * V : 1];
    const int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP;
    shared_divisor<T> size; /* of windows that are whole */
    size.set(p.average.by > 0 ? (T)p.average.by : (T)(K * K));
    for (uint32_t index = blockIdx.x * STRIP_WARPS + warp; index < p.cut.strips;
         index += gridDim.x * STRIP_WARPS) {
        const strip s(p.cut, index, p.OH, WARP * V);
        const int ow = s.ow + lane * V, iw = ow - p.pad_w;
        int ih = s.oh - p.pad_h;
        int64_t at = ((int64_t)s.plane * p.OH + s.oh) * p.OW;
        ring_of_rows ring;
        ring.begin(slots[warp], x + (int64_t)s.plane * p.H * p.W, p.H, p.W, ih, s.rows + K - 1,
                   s.ow - p.pad_w);

        /* Outside the image there are zeros. */
        const bool edge = s.ow < p.pad_w || s.ow + WARP * V + K - 1 - p.pad_w > p.W;
        State states[K][V];
#pragma unroll 1
        for (int step = 0; step < s.rows + K - 1; step += K) {
            /* Output row step + u begins; its states are in place u until K rows later. */
#pragma unroll
            for (int u = 0; u < K; u++, ih++) {
                if (step + u >= s.rows + K - 1)
                    break;
                T window[COUNT];
                ring.next(window);
                const bool inside = (unsigned)ih < (unsigned)p.H, partly = edge || !inside;
                if (partly && !State::AVERAGES && !State::LOCATES)
#pragma unroll
                    for (int i = 0; i < COUNT; i++)
                        if (!inside || (unsigned)(iw + i) >= (unsigned)p.W)
                            window[i] = State{}.value;
#pragma unroll
                for (int v = 0; v < V; v++) {
                    State row;
#pragma unroll
                    for (int k = 0; k < K; k++)
                        if (!State::LOCATES || !partly ||
                            (inside && (unsigned)(iw + v + k) < (unsigned)p.W))
                            row.add(window[v + k], ih * p.W + iw + v + k);
                    states[u][v] = row;
#pragma unroll
                    for (int j = 1; j < K; j++)
                        states[(u + K - j) % K][v].join(row);
                }
                if (step + u < K - 1)
                    continue;
                State(&done)[V] = states[(u + 1) % K];
                T out[V];
                if (State::AVERAGES) {
                    const int top = ih - (K - 1);
                    const int rows = covered(top, K, p.H, p.average.exclude_padding ? 0 : p.pad_h);
#pragma unroll
                    for (int v = 0; v < V; v++) {
                        const int columns =
                            edge ? covered(iw + v, K, p.W, p.average.exclude_padding ? 0 : p.pad_w)
                                 : K;
                        out[v] = p.average.by > 0 || rows * columns == K * K
                                     ? size.divide(done[v].value)
                                     : done[v].value / (T)max(rows * columns, 1);
                    }
                } else {
#pragma unroll
                    for (int v = 0; v < V; v++)
                        out[v] = done[v].value;
                }
                if constexpr (EVEN)
                    store_even_row(y + at, out, ow, p.OW);
                else
                    store_row(y + at, out, lane, ow, p.OW);
                if constexpr (State::LOCATES) {
                    int positions[V];
#pragma unroll
                    for (int v = 0; v < V; v++)
                        positions[v] = done[v].at;
                    store_positions(indices + at, places[warp], positions, s.ow, p.OW);
                }
                at += p.OW;
            }
        }
    }
}

struct strips_row {
    static const char *refuses(const talc_pool2d_problem *p)
    {
        if (!is_square(p, 3, 1) && !is_square(p, 5, 1))
            return "only 3x3 and 5x5 windows with stride 1";
        /* Lanes past the end of a row have nothing to do. */
        if (p->OW < (p->dtype == TALC_F32 ? 86 : 60))
            return "the image is narrow";
        if (p->kind == TALC_POOL2D_MAX && !p->indices && p->dtype == TALC_F64 && p->KH == 3)
            return "f64 maxima alone are faster by columns";
        return p->H > NARROW / p->W ? "an image has more than 2^29 elements" : NULL;
    }

    template <template <typename, typename> class State, typename T>
    static bool launch(talc_device *device, const talc_pool2d_problem *p,
                       const talc_pool2d_arguments *arguments)
    {
        using S = State<T, int>;
        if (p->KH == 5)
            return launch_of<S, T, 5>(device, p, arguments);
        if constexpr (S::AVERAGES || S::LOCATES || sizeof(T) == 4)
            return launch_of<S, T, 3>(device, p, arguments);
        return false;
    }

    template <typename State, typename T, int K>
    static bool launch_of(talc_device *device, const talc_pool2d_problem *p,
                          const talc_pool2d_arguments *arguments)
    {
        constexpr int V = ACCESS / sizeof(T), SAME = K / 2, HIGH = K == 3 ? 12 : 16;
        strip_plan plan(p);
        const int64_t a_plane = p->OH * pieces(p->OW, WARP * V);
        return for_slices<T>(p, arguments, a_plane, [&](plane_slice<T> some) {
            if (!plan.cut.cut(device, some.planes, p->OH, p->OW, WARP * V, HIGH))
                return false;
            auto kernel = pool_strips<State, T, K, 0, false, false>;
            if (p->W % V == 0 && is_aligned(some.x) && p->pad_w == 0)
                kernel = pool_strips<State, T, K, 0, true, false>;
            else if (p->W % V == 0 && is_aligned(some.x) && is_aligned(some.y) && p->pad_w == SAME)
                kernel = pool_strips<State, T, K, (V - SAME % V) % V, true, true>;
            kernel<<<plan.cut.blocks(), STRIP_WARPS * WARP, 0, talc_cuda_stream(device)>>>(
                some.x, some.y, some.indices, plan);
            return true;
        });
    }
};

} // namespace

#endif
