/// Pooling windows that are small, in narrow images, out of shared memory (tiles.cuh). Private to backends/cuda.
///
/// Windows of K by K, S apart. A thread marches down its column: it combines the taps of each row from left to right, once, then
/// the last K rows. Results go through shared memory too, so that whatever the image's width is stores are 16 bytes wide.
#ifndef TALC_BACKENDS_CUDA_POOL2D_TILES_CUH
#define TALC_BACKENDS_CUDA_POOL2D_TILES_CUH

#include "backends/cuda/pool2d_axis.cuh"
#include "backends/cuda/pool2d_planes.cuh"
#include "backends/cuda/tiles.cuh"

namespace
{

using namespace talc;

/* Where threads have but one of the smallest planes in a unit, too few bytes are under way. */
constexpr tile_limits POOL_TILES = { 44 << 10, BLOCK, BLOCK * 3 / 4, 1, 2 };

/* TWICE: a unit has more planes than threads have at a time. */
template <typename State, typename T, int K, int S, bool TWICE>
static __global__ void __launch_bounds__(BLOCK, State::LOCATES || sizeof(T) == 8 ? 4 : 5)
    pool_tiles(const T *x, T *y, int64_t *indices, const tile_plan p, const divide average)
{
    constexpr int KEPT = K - S; /* rows that the next window holds too */
    extern __shared__ __align__(LINE) unsigned char tile_bytes[];
    const int above = (int)threadIdx.x / p.OW, ow = (int)threadIdx.x - above * p.OW;
    const int plane = above / p.groups, first = (above - plane * p.groups) * p.deep;
    const int iw = ow * S - p.pad_w;
    const int pad_h = average.exclude_padding ? 0 : p.pad_h;
    const int wide = covered(iw, K, p.W, average.exclude_padding ? 0 : p.pad_w);
    int part_high = 0; /* rows of the last window that held less than K */
    shared_divisor<T> whole, part;
    whole.set(average.by > 0 ? (T)average.by : (T)(K * wide));
    bool inside[K];
#pragma unroll
    for (int k = 0; k < K; k++)
        inside[k] = (unsigned)(iw + k) < (unsigned)p.W;
    fill_tile(p, (T *)tile_bytes, State{}.value);
    for (uint32_t unit = blockIdx.x; unit < p.count; unit += gridDim.x) {
        const tile t(p, unit);
        const T *shared = copy_tile(p, t, (T *)tile_bytes, x);
        await_run();
        const int64_t at = ((int64_t)t.plane * p.OH + t.oh) * p.OW;
        const int count = t.planes * t.rows * p.OW;
        T *results = (T *)(tile_bytes + p.results) + place_of(y + at);
        int *places = (int *)(tile_bytes + p.bytes) + place_of(indices + at);
        const int mine = plane < p.abreast ? min(p.deep, t.rows - first) : 0;
        for (int its = mine > 0 ? plane : t.planes; its < t.planes; its += p.abreast) {
            int h = (t.oh + first) * S - p.pad_h, result = (its * t.rows + first) * p.OW + ow;
            const T *row = shared + its * p.plane_pitch + (h - t.top) * p.pitch + iw;
            State rows[K];
            const auto read = [&](State &state) {
                state = State{};
                if ((unsigned)h < (unsigned)p.H) {
                    const int place = h * p.W + iw;
#pragma unroll
                    for (int k = 0; k < K; k++)
                        if (!State::LOCATES || inside[k])
                            state.add(row[k], place + k);
                }
                h++, row += p.pitch;
            };
#pragma unroll
            for (int k = 0; k < KEPT; k++)
                read(rows[k + S]);
#pragma unroll 4
            for (int o = 0; o < mine; o++, result += p.OW) {
#pragma unroll
                for (int k = 0; k < KEPT; k++)
                    rows[k] = rows[k + S];
#pragma unroll
                for (int k = KEPT; k < K; k++)
                    read(rows[k]);
                State state = rows[0];
#pragma unroll
                for (int k = 1; k < K; k++)
                    state.join_next(rows[k]);
                if (State::AVERAGES) {
                    const int high = average.by > 0 ? K : covered(h - K, K, p.H, pad_h);
                    if (high != K && high != part_high) {
                        part_high = high;
                        part.set((T)(high * wide));
                    }
                    state.value = high == K ? whole.divide(state.value) : part.divide(state.value);
                }
                results[result] = state.value;
                if constexpr (State::LOCATES)
                    places[result] = state.at;
            }
            if (!TWICE)
                break;
        }
        __syncthreads(); /* x is read, the results are there */
        store_run(y + at, results, count, [](T value, int) { return value; });
        if constexpr (State::LOCATES)
            store_run(indices + at, places, count, [](int place, int) { return (int64_t)place; });
    }
}

struct tiles_row {
    static const char *refuses(const talc_pool2d_problem *p)
    {
        if (!is_square(p, 3, 1) && !is_square(p, 5, 1) && !is_square(p, 2, 2) &&
            !is_square(p, 3, 2))
            return "only 3x3 and 5x5 windows with stride 1, 2x2 and 3x3 with stride 2";
        if (!is_narrow(p))
            return "an image has more than 2^29 elements";
        if (is_square(p, 3, 2) && (p->OW >= 32 || p->dtype == TALC_F64))
            return "columns are faster for 3x3 windows with stride 2, unless f32 images are narrow";
        if (are_for_planes(p))
            return "planes are faster for windows two apart in small planes";
        tile_plan plan = uncut(p);
        return cut(p, 1, true, &plan) ? NULL : "the image is wide";
    }

    template <template <typename, typename> class State, typename T>
    static bool launch(talc_device *device, const talc_pool2d_problem *p,
                       const talc_pool2d_arguments *arguments)
    {
        using S = State<T, int>;
        if (p->KH == 2)
            return launch_of<S, T, 2, 2>(device, p, arguments);
        if (p->stride_h == 2) {
            if constexpr (sizeof(T) == 4)
                return launch_of<S, T, 3, 2>(device, p, arguments);
            return false;
        }
        return p->KH == 3 ? launch_of<S, T, 3, 1>(device, p, arguments)
                          : launch_of<S, T, 5, 1>(device, p, arguments);
    }

    static tile_plan uncut(const talc_pool2d_problem *p)
    {
        return tile_plan(p->H, p->W, p->OH, p->OW, (int)p->KH, (int)p->stride_h, p->pad_h, p->pad_w,
                         p->indices ? COLUMN_TILES : POOL_TILES);
    }

    /* A thread has 64 bytes of outputs; an index beside each takes four more. */
    static bool cut(const talc_pool2d_problem *p, int64_t planes, bool aligned, tile_plan *plan)
    {
        const int64_t size = (int64_t)talc_dtype_size(p->dtype);
        return plan->cut(planes, aligned, 64 / size, size, p->indices ? size + 4 : size, 0);
    }

    template <typename State, typename T, int K, int S>
    static bool launch_of(talc_device *device, const talc_pool2d_problem *p,
                          const talc_pool2d_arguments *arguments)
    {
        tile_plan plan = uncut(p);
        return for_slices<T>(p, arguments, p->OH, [&](plane_slice<T> some) {
            if (!cut(p, some.planes, is_aligned(some.x), &plan))
                return false;
            const int places =
                State::LOCATES ? plan.planes * plan.rows * plan.OW * (int)sizeof(int) + LINE : 0;
            auto kernel = pool_tiles<State, T, K, S, false>;
            if constexpr (!State::LOCATES)
                if (plan.planes > plan.abreast)
                    kernel = pool_tiles<State, T, K, S, true>;
            kernel<<<blocks_of(device, plan.count), BLOCK, plan.bytes + places,
                     talc_cuda_stream(device)>>>(some.x, some.y, some.indices, plan,
                                                 { p->exclude_padding, p->divisor });
            return true;
        });
    }
};

} // namespace

#endif
