/// Small square windows that overlap or touch: 2x2 with stride 2, 3x3 and 5x5 with stride 1, 3x3
/// with stride 2. Private to backends/cuda/pool2d.
///
/// A block copies a tile into shared memory, some rows of an image with their halo or some whole
/// images, which are contiguous in device memory. A thread computes some outputs one below the
/// other: it combines the taps of each row once, and keeps the combined rows that the next window
/// has too.
#ifndef TALC_BACKENDS_CUDA_POOL2D_SMALL_WINDOWS_CUH
#define TALC_BACKENDS_CUDA_POOL2D_SMALL_WINDOWS_CUH

#include "backends/cuda/pool2d/state.cuh"

namespace
{

struct tile_plan {
    window_plan<int> window;
    pool_tiling tiling;
    int depth;                      ///< outputs of a thread
    bool in_shared;                 ///< results, in shared memory, for whole stores
    int results, indices_at, bytes; ///< where they and their indices begin; all
    divisor<uint32_t> groups;       ///< threads of a tile's column

    explicit tile_plan(const talc_pool2d_problem *p) : window(p), in_shared(is_in_shared(p))
    {
    }

    /// Results are staged in shared memory where rows are short and end within a 32-byte sector,
    /// since a warp that holds several such rows writes sectors in part. Staging leaves less shared
    /// memory for x, which large windows need more (5x5 maxima on 28x28: 70 % of the rate of a
    /// copy, staged 66; 3x3 on 14x14: 57, staged 83).
    static bool is_in_shared(const talc_pool2d_problem *p)
    {
        return p->OW * (int64_t)talc_dtype_size(p->dtype) % 32 != 0 &&
               p->OW < (p->KH == 5 ? 16 : 32);
    }

    /// Bytes of an output row in shared memory.
    static int64_t shared_row_bytes(const talc_pool2d_problem *p)
    {
        const int64_t index = p->indices ? (int64_t)sizeof(int) : 0;
        return is_in_shared(p) ? p->OW * ((int64_t)talc_dtype_size(p->dtype) + index) : 0;
    }

    static bool fits(const talc_pool2d_problem *p)
    {
        return p->KH * p->W * (int64_t)talc_dtype_size(p->dtype) + shared_row_bytes(p) <=
               TILE_BYTES;
    }

    /// Divides `all` planes of a problem that fits into tiles, at least `smallest` of them where
    /// there are as many planes.
    void cut(const talc_pool2d_problem *p, int64_t all, int64_t smallest)
    {
        const int64_t size = (int64_t)talc_dtype_size(p->dtype), x_row = p->W * size;
        const int64_t y_row = shared_row_bytes(p), plane = p->H * x_row + p->OH * y_row;
        const int64_t halo = (p->KH - p->stride_h) * x_row;
        const int64_t fit = (TILE_BYTES - halo) / (p->stride_h * x_row + y_row);
        tiling.planes = (int)talc_between(TILE_BYTES / plane, 1, talc_ceil_div(all, smallest));
        tiling.rows =
            plane > TILE_BYTES ? (int)talc_ceil_div(p->OH, talc_ceil_div(p->OH, fit)) : (int)p->OH;
        occupy((int)p->KH, (int)p->stride_h, (int)p->OW);
        tiling.set(p->OH, all);
        groups.set(talc_ceil_div(tiling.rows, depth));
        const int64_t x_rows = talc_smaller((tiling.rows - 1) * p->stride_h + p->KH, p->H);
        const int64_t y_bytes = in_shared ? tiling.planes * tiling.rows * p->OW * size : 0;
        results =
            (int)aligned_end(tiling.planes > 1 ? tiling.planes * p->H * x_row : x_rows * x_row);
        indices_at = in_shared ? (int)aligned_end(results + y_bytes) : results;
        bytes = in_shared && p->indices
                    ? (int)aligned_end(indices_at + y_bytes / size * sizeof(int))
                    : indices_at;
    }

    /// The next cache line after `end`, and space for an offset within a cache line.
    static int64_t aligned_end(int64_t end)
    {
        return talc_ceil_div(end, CACHE_LINE) * CACHE_LINE + CACHE_LINE;
    }

    /// Chooses outputs per thread (thread coarsening) and planes per tile: of a few, those with
    /// which a block reads the fewest rows of shared memory per output, idle threads counted.
    void occupy(int K, int S, int OW)
    {
        const int max_planes = tiling.planes, rows = tiling.rows;
        double best = 0;
        for (int high = 10; high >= 4; high -= 2) {
            const int deep = (int)talc_ceil_div(rows, talc_ceil_div(rows, high));
            const int threads = (int)talc_ceil_div(rows, deep) * OW;
            for (int some = max_planes; some > 0 && some > max_planes - 4; some--) {
                const int rounds = (int)talc_ceil_div(some * threads, BLOCK);
                const double gain = (double)(some * rows * OW) / (rounds * (deep * S + K - S));
                if (gain > best) {
                    best = gain;
                    depth = deep;
                    tiling.planes = some;
                }
            }
        }
    }
};

template <typename State, typename T, int K, int S>
static __global__ void __launch_bounds__(BLOCK, State::LOCATES || sizeof(T) == 8 ? 4 : 6)
    pool_tiled(const T *x, T *y, int64_t *indices, const tile_plan p)
{
    extern __shared__ __align__(CACHE_LINE) unsigned char tile_bytes[];
    const axis<int> &along_h = p.window.h, &along_w = p.window.w;
    const int H = along_h.extent, W = along_w.extent;
    const int OH = (int)along_h.out.by, OW = (int)along_w.out.by;
    for (uint32_t number = blockIdx.x; number < p.tiling.count; number += gridDim.x) {
        const tile t(p.tiling, number, along_h);
        const T *shared = t.copy(x, H, W, tile_bytes);
        const int64_t first = ((int64_t)t.plane * OH + t.oh) * OW;
        T *results = (T *)(tile_bytes + p.results) + offset_in_line(y + first);
        int *indices_at = (int *)(tile_bytes + p.indices_at) + offset_in_line(indices + first);
        wait_for_copies();
        const int threads = t.planes * (int)p.groups.by * OW;
        for (int i = (int)threadIdx.x; i < threads; i += BLOCK) {
            const int row = (int)along_w.out.quotient(i), ow = i - row * OW;
            const int plane = (int)p.groups.quotient(row);
            const int skipped = (row - plane * (int)p.groups.by) * p.depth;
            const int count = min(p.depth, t.rows - skipped);
            int ih = (t.oh + skipped) * S - along_h.pad_begin;
            int at = (plane * OH + skipped) * OW + ow;
            const int iw = ow * S - along_w.pad_begin;
            const int wide = along_w.window(ow).size;
            const shared_divisor<T> inner(p.window.divisor > 0 ? (T)p.window.divisor
                                                               : (T)(K * wide));
            bool inside[K];
#pragma unroll
            for (int k = 0; k < K; k++)
                inside[k] = (unsigned)(iw + k) < (unsigned)W;
            const T *x_row = shared + (plane * H + ih - t.top) * W + iw;
            State kept[K]; /* combined rows of the window */
            const auto read = [&](State &state) {
                state = State{};
                if ((unsigned)ih < (unsigned)H)
#pragma unroll
                    for (int k = 0; k < K; k++)
                        if (inside[k])
                            state.add(x_row[k], ih * W + iw + k);
                ih++;
                x_row += W;
            };
#pragma unroll
            for (int k = S; k < K; k++)
                read(kept[k]);
#pragma unroll 4
            for (int o = 0; o < count; o++, at += OW) {
#pragma unroll
                for (int k = 0; k < K - S; k++)
                    kept[k] = kept[k + S];
#pragma unroll
                for (int k = K - S; k < K; k++)
                    read(kept[k]);
                State state = kept[0];
#pragma unroll
                for (int k = 1; k < K; k++)
                    state.join(kept[k]);
                if constexpr (State::AVERAGES) {
                    if (p.window.divisor > 0 || (ih >= K && ih <= H))
                        state.value = inner.divide(state.value);
                    else
                        state.value /= (T)(along_h.window(t.oh + skipped + o).size * wide);
                }
                if (p.in_shared)
                    store(state, results, indices_at, at);
                else
                    store(state, y + first, indices + first, at);
            }
        }
        __syncthreads(); /* the tile is read, and the results are there */
        if (p.in_shared) {
            const int count = t.planes * t.rows * OW;
            store_from_shared(y + first, results, count, [](T value, int) { return value; });
            if constexpr (State::LOCATES)
                store_from_shared(indices + first, indices_at, count,
                                  [](int element, int) { return (int64_t)element; });
        }
    }
}

struct tiled_algorithm {
    static bool is_square(const talc_pool2d_problem *p, int64_t K, int64_t S)
    {
        return p->KH == K && p->KW == K && p->stride_h == S && p->stride_w == S &&
               p->dilation_h == 1 && p->dilation_w == 1;
    }

    static const char *refuses(const talc_pool2d_problem *p)
    {
        if (p->dtype != TALC_F32)
            return "the data is not f32";
        if (!is_square(p, 2, 2) && !is_square(p, 3, 1) && !is_square(p, 3, 2) &&
            !is_square(p, 5, 1))
            return "only 2x2 with stride 2, 3x3 with stride 1 or 2, and 5x5 with stride 1";
        if (!is_narrow(p))
            return "an image has more than 2^29 elements";
        return tile_plan::fits(p) ? NULL : "the rows of a window do not fit shared memory";
    }

    template <template <typename, typename> class State, typename T>
    static void launch(talc_device *device, const talc_pool2d_problem *p,
                       const talc_pool2d_arguments *arguments)
    {
        if constexpr (std::is_same_v<T, float>) {
            using S = State<T, int>;
            const auto kernel = p->KH == 2                       ? pool_tiled<S, T, 2, 2>
                                : p->KH == 5                     ? pool_tiled<S, T, 5, 1>
                                : p->KH == 3 && p->stride_h == 2 ? pool_tiled<S, T, 3, 2>
                                                                 : pool_tiled<S, T, 3, 1>;
            tile_plan plan(p);
            for_plane_chunks<T>(p, arguments, p->OH, [&](plane_chunk<T> some) {
                plan.cut(p, some.planes, talc_cuda_state_of(device)->multiprocessors * 24);
                kernel<<<grid_for_blocks(device, plan.tiling.count), BLOCK, plan.bytes,
                         talc_cuda_stream(device)>>>(some.x, some.y, some.indices, plan);
            });
        }
    }
};

} // namespace

#endif
