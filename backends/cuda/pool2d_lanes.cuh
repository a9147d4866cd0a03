/// Pooling windows that overlap, in the smallest planes, without shared memory. Private to backends/cuda.
///
/// A warp has some whole planes, in registers: a lane has V neighbouring elements of a row, one access. What else its windows
/// hold is a fixed number of lanes away, and lanes hand it over by shuffles: first the neighbours in the row, then, combined, the
/// rows above and below.
///
///     8x8, V = 4       lane       its elements
///                      l - 2       o o o o        of the row above, combined
///                      l - 1             o        of the same row, the nearest
///                      l           o o o o
///                      l + 1       o              of the same row, the nearest
///                      l + 2       o o o o        of the row below, combined
///
/// As planes are alike, a lane has the same windows in all of them, and all that depends on a window's place is found once.
#ifndef TALC_BACKENDS_CUDA_POOL2D_LANES_CUH
#define TALC_BACKENDS_CUDA_POOL2D_LANES_CUH

#include "backends/cuda/pool2d_row.cuh"

namespace
{

using namespace talc;

struct lanes_plan {
    int H, W;
    int across;        ///< lanes of a row
    int lanes, planes; ///< lanes of a plane, and planes of a warp
    bool aligned;      ///< x and y, so that accesses are whole
    uint32_t elements; ///< all
    divide average;
};

template <typename State, typename T, int K>
static __global__ void __launch_bounds__(BLOCK) pool_lanes(const T *x, T *y, const lanes_plan p)
{
    constexpr int V = ACCESS / sizeof(T), PAD = K / 2, COUNT = V - 1 + K, WARPS = BLOCK / WARP;
    constexpr int AT_ONCE = 4; /* units that are loaded before the first is worked on */
    using pack = vec<T, V>;
    const int lane = (int)threadIdx.x % WARP, plane = lane / p.lanes, rest = lane % p.lanes;
    const int h = rest / p.across, w = rest % p.across * V;
    bool inside_h[K], inside_w[COUNT];
#pragma unroll
    for (int k = 0; k < K; k++)
        inside_h[k] = (unsigned)(h + k - PAD) < (unsigned)p.H;
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        inside_w[i] = (i >= PAD && i < PAD + V) || (unsigned)(w + i - PAD) < (unsigned)p.W;
    const int pad = p.average.exclude_padding ? 0 : PAD;
    shared_divisor<T> sizes[V];
#pragma unroll
    for (int v = 0; v < V; v++)
        sizes[v].set(p.average.by > 0
                         ? (T)p.average.by
                         : (T)(covered(h - PAD, K, p.H, pad) * covered(w + v - PAD, K, p.W, pad)));

    const uint32_t size = p.planes * p.H * p.W, apart = gridDim.x * WARPS * size;
    uint32_t warp_at = (blockIdx.x * WARPS + threadIdx.x / WARP) * size;
    for (; warp_at < p.elements; warp_at += AT_ONCE * apart) {
        pack some[AT_ONCE];
        bool any[AT_ONCE];
#pragma unroll
        for (int u = 0; u < AT_ONCE; u++) {
            const uint32_t at = warp_at + u * apart + lane * V;
            some[u] = {};
            any[u] = plane < p.planes && at < p.elements;
            if (!any[u])
                continue;
            if (p.aligned)
                some[u] = *(const pack *)(x + at);
            else
#pragma unroll
                for (int v = 0; v < V; v++)
                    some[u].of[v] = x[at + v];
        }
#pragma unroll
        for (int u = 0; u < AT_ONCE; u++) {
            if (warp_at + u * apart >= p.elements) /* for all lanes */
                break;
            T window[COUNT];
#pragma unroll
            for (int i = 0; i < COUNT; i++) {
                const int c = i - PAD + V * PAD; /* V * PAD: no negative number is divided */
                window[i] = some[u].of[c % V];
                if (c / V != PAD)
                    window[i] = __shfl_sync(~0u, window[i], lane + c / V - PAD);
                if (!inside_w[i])
                    window[i] = State{}.value;
            }
            State row[V];
#pragma unroll
            for (int v = 0; v < V; v++) {
                row[v].value = window[v];
#pragma unroll
                for (int k = 1; k < K; k++)
                    row[v].add(window[v + k], 0);
            }
            pack out;
#pragma unroll
            for (int v = 0; v < V; v++) {
                State state;
#pragma unroll
                for (int k = 0; k < K; k++) {
                    State one = row[v];
                    if (k != PAD)
                        one.value = __shfl_sync(~0u, one.value, lane + (k - PAD) * p.across);
                    if (k == 0)
                        state.value = inside_h[k] ? one.value : State{}.value;
                    else if (inside_h[k])
                        state.join_next(one);
                }
                out.of[v] = State::AVERAGES ? sizes[v].divide(state.value) : state.value;
            }
            const uint32_t at = warp_at + u * apart + lane * V;
            if (!any[u])
                continue;
            if (p.aligned)
                *(pack *)(y + at) = out;
            else
#pragma unroll
                for (int v = 0; v < V; v++)
                    y[at + v] = out.of[v];
        }
    }
}

struct lanes_row {
    static const char *refuses(const talc_pool2d_problem *p)
    {
        if (!is_square(p, 3, 1) && !is_square(p, 5, 1))
            return "only 3x3 and 5x5 windows with stride 1";
        if (p->pad_h != p->KH / 2 || p->pad_w != p->KW / 2)
            return "only with padding of half a window";
        if (p->indices)
            return "only without indices";
        const int64_t V = ACCESS / (int64_t)talc_dtype_size(p->dtype);
        if (p->W % V != 0)
            return "only images as wide as some whole accesses";
        const int64_t across = p->W / V, lanes = p->H * across;
        if (p->H > WARP || across > WARP || lanes > WARP)
            return "a warp has no room for a plane";
        return WARP / lanes * lanes < WARP * 3 / 4 ? "many lanes of a warp would be idle" : NULL;
    }

    template <template <typename, typename> class State, typename T>
    static bool launch(talc_device *device, const talc_pool2d_problem *p,
                       const talc_pool2d_arguments *arguments)
    {
        using S = State<T, int>;
        if constexpr (S::LOCATES)
            return false;
        else
            return for_slices<T>(p, arguments, p->H * p->W, [&](plane_slice<T> some) {
                lanes_plan plan = {};
                plan.H = (int)p->H, plan.W = (int)p->W;
                plan.across = plan.W / (ACCESS / (int)sizeof(T));
                plan.lanes = plan.H * plan.across;
                plan.planes = WARP / plan.lanes;
                plan.aligned = is_aligned(some.x) && is_aligned(some.y);
                plan.elements = (uint32_t)(some.planes * p->H * p->W);
                plan.average = { p->exclude_padding, p->divisor };
                const auto kernel = p->KH == 3 ? pool_lanes<S, T, 3> : pool_lanes<S, T, 5>;
                const int64_t blocks = pieces(some.planes, plan.planes * (BLOCK / WARP));
                kernel<<<blocks_of(device, blocks), BLOCK, 0, talc_cuda_stream(device)>>>(
                    some.x, some.y, plan);
                return true;
            });
    }
};

} // namespace

#endif
