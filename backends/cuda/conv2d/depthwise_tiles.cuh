/// Depthwise convolution of narrow images, out of shared memory (narrow_tiles.cuh). Private to
/// backends/cuda.
///
/// Kernels of K by K, S apart, every output channel with an input channel of its own. A thread
/// computes some outputs of a column (thread coarsening): it reads its window of each row of x once
/// and adds it to the sums of all the output rows that the row belongs to. Sums, like x before
/// them, go through shared memory, so that stores are 16 bytes wide whatever the width is.
#ifndef TALC_BACKENDS_CUDA_CONV2D_DEPTHWISE_TILES_CUH
#define TALC_BACKENDS_CUDA_CONV2D_DEPTHWISE_TILES_CUH

#include "backends/cuda/primitives/epilogue.cuh"
#include "backends/cuda/conv2d/form.cuh"
#include "backends/cuda/conv2d/plane_sizes.cuh"
#include "backends/cuda/conv2d/narrow_tiles.cuh"
#include "backends/cuda/conv2d/window_sum.cuh"

namespace talc
{

template <typename T> struct depthwise_tile_problem {
    const T *x, *w;
    T *y;
    epilogue<T> last;
    divisor<uint32_t> channels;
    tile_plan plan;
    bool only_inside; ///< sums multiply no padding (ops/conv2d.h)
};

/* Blocks per multiprocessor: as many as the registers for weights and sums allow. */
__host__ __device__ constexpr int tile_occupancy(int weight_bytes)
{
    return weight_bytes <= 36 ? 5 : weight_bytes <= 100 ? 4 : weight_bytes <= 200 ? 2 : 1;
}

/* Begins to copy the weights of some planes, the first of them of channel `channel`: contiguous
 * ones, unless the next image's channels begin in between. */
template <typename T, int TAPS>
static __device__ __forceinline__ T *copy_weights(const depthwise_tile_problem<T> &p, T *shared,
                                                  uint32_t channel, int planes)
{
    if (channel + planes <= p.channels.by) {
        const T *from = p.w + (int64_t)channel * TAPS;
        shared += offset_in_line(from);
        copy_to_shared(shared, from, planes * TAPS);
        return shared;
    }
    for (int i = (int)threadIdx.x; i < planes * TAPS; i += BLOCK) {
        const uint32_t its = channel + i / TAPS;
        const uint32_t real = its - p.channels.quotient(its) * p.channels.by;
        shared[i] = p.w[(int64_t)real * TAPS + i % TAPS];
    }
    return shared;
}

template <typename T, int K, int S>
static __global__ void __launch_bounds__(BLOCK, tile_occupancy(K *K *(int)sizeof(T)))
    depthwise_tiles(const depthwise_tile_problem<T> p)
{
    constexpr int OPEN = (K + S - 1) / S;                /* output rows being summed */
    constexpr int END = (K - 1) / S, LAST = (K - 1) % S; /* which of them ends, and when */
    extern __shared__ __align__(CACHE_LINE) unsigned char tile_bytes[];
    const tile_plan &plan = p.plan;
    const int above = (int)threadIdx.x / plan.OW, ow = (int)threadIdx.x - above * plan.OW;
    const int plane = above / plan.groups, first = (above - plane * plan.groups) * plan.depth;
    fill_tile(plan, (T *)tile_bytes, (T)0);
    for (uint32_t number = blockIdx.x; number < plan.count; number += gridDim.x) {
        const tile t(plan, number);
        const T *shared = copy_tile(plan, t, (T *)tile_bytes, p.x);
        const uint32_t channel = t.plane - p.channels.quotient(t.plane) * p.channels.by;
        const T *weights =
            copy_weights<T, K * K>(p, (T *)(tile_bytes + plan.bytes), channel, t.planes);
        wait_for_copies();
        const int64_t at = ((int64_t)t.plane * plan.OH + t.oh) * plan.OW;
        T *results = (T *)(tile_bytes + plan.results) + offset_in_line(p.y + at);
        const int mine = plane < t.planes ? min(plan.depth, t.rows - first) : 0;
        if (mine > 0) {
            accumulator_of<T> w[K * K], sums[OPEN] = {}, not_finite = 0;
#pragma unroll
            for (int tap = 0; tap < K * K; tap++) {
                w[tap] = weights[plane * (K * K) + tap];
                not_finite += w[tap] * 0;
            }
            const uint32_t its = channel + plane;
            const T bias = p.last.bias == nullptr
                               ? (T)0
                               : p.last.bias[its - p.channels.quotient(its) * p.channels.by];
            int h = (t.oh + first) * S - plan.pad_h,
                result = (plane * t.rows + first) * plan.OW + ow;
            const T *row =
                shared + plane * plan.plane_pitch + (h - t.top) * plan.pitch + ow * S - plan.pad_w;
            /* The next row of x is row r of those with which an output row begins. */
            const auto add_row = [&](int r) {
                if ((unsigned)h < (unsigned)t.bottom) {
                    accumulator_of<T> taps[K];
#pragma unroll
                    for (int k = 0; k < K; k++)
                        taps[k] = row[k];
#pragma unroll
                    for (int j = 0; j < OPEN; j++)
#pragma unroll
                        for (int k = 0; k < K; k++)
                            if (r + S * j < K)
                                sums[j] += taps[k] * w[r + S * j < K ? (r + S * j) * K + k : 0];
                }
                h++, row += plan.pitch;
            };
            const auto begin = [&] {
#pragma unroll
                for (int j = OPEN - 1; j > 0; j--)
                    sums[j] = sums[j - 1];
                sums[0] = 0;
            };
#pragma unroll
            for (int step = 0; step < END; step++) {
                begin();
#pragma unroll
                for (int r = 0; r < S; r++)
                    add_row(r);
            }
#pragma unroll OPEN
            for (int o = 0; o < mine; o++, result += plan.OW) {
                begin();
#pragma unroll
                for (int r = 0; r < S; r++) {
                    add_row(r);
                    if (r == LAST)
                        results[result] = sums[END] + bias;
                }
            }
            if (not_finite != 0) {
                const T *const x = p.x + ((int64_t)t.plane + plane) * plan.H * plan.W;
#pragma unroll 1
                for (int o = mine - 1; o >= 0; o--) {
                    result -= plan.OW;
                    results[result] =
                        sum_of_window<T>({ x, weights + plane * (K * K), 1, 0, 0, plan.H, plan.W,
                                           (t.oh + first + o) * S - plan.pad_h, ow * S - plan.pad_w,
                                           K, K, 1, 1, K, 1, p.only_inside }) +
                        bias;
                }
            }
        }
        __syncthreads(); /* x and the weights are read, the results are there */
        store_ended(p.last, p.y, at, results, t.planes * t.rows * plan.OW);
    }
}

/* The tiles of a problem; false where there are none. */
template <typename T>
static bool plane_tiles_of(const talc_conv2d_problem *p, bool aligned, tile_plan &plan)
{
    const int64_t size = sizeof(T), beside = p->KH * p->KW * size;
    return plan.cut(p->N * p->OC, aligned, 64 / size, size, beside);
}

template <typename T, int K, int S>
static void launch_tiles(talc_device *device, const talc_conv2d_problem *p, const tile_plan &plan,
                         const talc_conv2d_arguments *a)
{
    depthwise_tile_problem<T> d = { (const T *)a->x,
                                    (const T *)a->w,
                                    (T *)a->y,
                                    epilogue<T>(a->bias, a->residual, p->activation),
                                    {},
                                    plan,
                                    p->only_inside };
    d.channels.set(p->OC);
    const int bytes = plan.bytes + plan.planes * K * K * (int)sizeof(T) + CACHE_LINE;
    depthwise_tiles<T, K, S>
        <<<grid_for_blocks(device, plan.count), BLOCK, bytes, talc_cuda_stream(device)>>>(d);
}

/// Keeps the tiles of a problem whose x is aligned; why there are none.
template <typename T>
static const char *plan_plane_tiles(const talc_conv2d_problem *p, talc_plan *plan)
{
    const int64_t max = INT_MAX / 8, planes = p->N * p->OC;
    const bool has_kernel =
        p->KH == p->KW && p->stride_h == p->stride_w &&
        (((p->KH == 3 || p->KH == 5) && p->stride_h <= 2) || (p->KH == 7 && p->stride_h == 1));
    if (p->OC != p->C)
        return "an input channel has several output channels";
    if (!has_kernel || p->dilation_h != 1 || p->dilation_w != 1)
        return "there is no kernel of these extents";
    if (p->OW > BLOCK || p->pad_left > BLOCK || p->pad_right > BLOCK)
        return "a row or its padding is longer than 256";
    if (!planes_fit(p, max) || planes > max / p->OH)
        return "a plane, or all rows, pass 2^28";
    tile_plan own(p);
    if (!plane_tiles_of<T>(p, false, own) || !plane_tiles_of<T>(p, true, own))
        return "a row of a tile does not fit shared memory";
    talc_plan_store(plan, &own, sizeof own);
    return NULL;
}

template <typename T>
static void run_plane_tiles(talc_device *device, const talc_conv2d_problem *p,
                            const talc_plan *plan, const talc_conv2d_arguments *a)
{
    tile_plan own = own_plan<tile_plan>(plan);
    if (!is_aligned(a->x)) /* which a problem does not say */
        (void)plane_tiles_of<T>(p, false, own);
    switch (p->KH * 10 + p->stride_h) {
    case 31:
        return launch_tiles<T, 3, 1>(device, p, own, a);
    case 32:
        return launch_tiles<T, 3, 2>(device, p, own, a);
    case 51:
        return launch_tiles<T, 5, 1>(device, p, own, a);
    case 52:
        return launch_tiles<T, 5, 2>(device, p, own, a);
    default:
        return launch_tiles<T, 7, 1>(device, p, own, a);
    }
}

} // namespace talc

#endif
