/// The weight gradient of a depthwise convolution (depthwise_gradient.cu). Private to
/// backends/cuda.
///
/// Each tap of a channel is one long sum over images and outputs. The sum is split (split-K); the
/// number of splits follows from the problem, the GPU and the workspace. Each split writes its sum
/// to sums[(channel * taps + tap) * splits + split], and a last kernel adds these up.
#ifndef TALC_BACKENDS_CUDA_CONV2D_DEPTHWISE_WEIGHT_GRADIENT_CUH
#define TALC_BACKENDS_CUDA_CONV2D_DEPTHWISE_WEIGHT_GRADIENT_CUH

#include "backends/cuda/conv2d/plane_sizes.cuh"
#include "backends/cuda/conv2d/warp_tiles.cuh"
#include "backends/cuda/primitives/dtype.cuh"

namespace talc
{

/* The sum over a warp, in all lanes; a tree. */
template <typename T> static __device__ __forceinline__ T sum_of_warp(T sum)
{
#pragma unroll
    for (int mask = WARP / 2; mask > 0; mask /= 2)
        sum += __shfl_xor_sync(~0u, sum, mask);
    return sum;
}

// ---- Wide images --------------------------------------------------------------------------------

/// The maximum of rows of a tile.
constexpr int64_t HIGH = 32;

template <typename T> struct warp_tile_sums : plane_sizes {
    const T *x, *dy;
    T *sums;
    divisor<uint32_t> splits, across, down, multiplier;
    uint32_t channels, tiles; ///< OC; tiles of all images of a channel
    uint32_t C;
    int height;
};

/// A warp has a split of a channel: every splits-th tile of its planes. It reads a tile from top to
/// bottom, as the forward kernel does (depthwise.cu), but holds rows of dy in the place of active
/// sums. Each lane has V neighbouring columns of dy, and a sum for each tap. Products that belong
/// to no output are left out; those with padding are products with zero.
template <typename T, int KH, int KW>
static __global__ void __launch_bounds__(WARPS_PER_BLOCK *WARP, KH *KW * sizeof(T) <= 96 ? 5 : 3)
    sum_warp_tiles(const warp_tile_sums<T> p)
{
    constexpr int V = VECTOR_BYTES / sizeof(T), COUNT = V - 1 + KW;
    using x_ring = row_ring<T, 1, COUNT, 0, false>;
    using dy_ring = row_ring<T, 1, V, 0, false>;
    __shared__ alignas(VECTOR_BYTES) typename x_ring::storage x_slots[WARPS_PER_BLOCK];
    __shared__ alignas(VECTOR_BYTES) typename dy_ring::storage dy_slots[WARPS_PER_BLOCK];
    const int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP;
    const uint32_t unit = blockIdx.x * WARPS_PER_BLOCK + warp;
    const uint32_t channel = p.splits.quotient(unit), split = unit - channel * p.splits.by;
    if (channel >= p.channels)
        return;
    accumulator_of<T> sums[KH][KW] = {};
    for (uint32_t index = split; index < p.tiles; index += p.splits.by) {
        const uint32_t band = p.across.quotient(index), image = p.down.quotient(band);
        const int first = (int)(index - band * p.across.by) * WARP * V, ow = first + lane * V;
        const int oh = (int)(band - image * p.down.by) * p.height;
        const int rows = min(p.OH - oh, p.height);
        const int64_t x_plane = (int64_t)image * p.C + p.multiplier.quotient(channel);
        const int64_t dy_plane = (int64_t)image * p.channels + channel;
        dy_ring dy;
        x_ring x;
        dy.begin(dy_slots[warp], p.dy + dy_plane * p.OH * p.OW, p.OH, p.OW, oh, rows, first);
        x.begin(x_slots[warp], p.x + x_plane * p.H * p.W, p.H, p.W, oh - p.pad_top, rows + KH - 1,
                first - p.pad_left);
        T open[KH][V];
#pragma unroll 1
        for (int step = 0; step < rows + KH - 1; step += KH)
#pragma unroll
            for (int u = 0; u < KH; u++) {
                const int row = step + u; /* of x; and of dy, in place u until KH rows later */
                if (row >= rows + KH - 1)
                    break;
                if (row < rows)
                    dy.next(open[u]);
                T window[COUNT];
                x.next(window);
#pragma unroll
                for (int kh = 0; kh < KH; kh++) {
                    if (row < kh || row - kh >= rows)
                        continue;
#pragma unroll
                    for (int v = 0; v < V; v++)
                        if (ow + v < p.OW)
#pragma unroll
                            for (int kw = 0; kw < KW; kw++)
                                sums[kh][kw] +=
                                    (accumulator_of<T>)open[(u + KH - kh) % KH][v] * window[v + kw];
                }
            }
    }
#pragma unroll
    for (int kh = 0; kh < KH; kh++)
#pragma unroll
        for (int kw = 0; kw < KW; kw++) {
            const accumulator_of<T> sum = sum_of_warp(sums[kh][kw]);
            const int64_t tap = (int64_t)channel * (KH * KW) + kh * KW + kw;
            if (lane == 0)
                p.sums[tap * p.splits.by + split] = (T)sum;
        }
}

// ---- Any problem --------------------------------------------------------------------------------

template <typename T> struct window_sums {
    const T *x, *dy;
    T *sums;
    divisor<uint32_t> plane, OW;
    int H, W, KH, KW, stride_h, stride_w, dilation_h, dilation_w, top, left;
    int count, each; ///< outputs of a channel, and of a part
    int64_t C, OC, multiplier, splits;
    int tiles; ///< tiles of taps beside each other
};

/// A block has a split of a channel's outputs, and TAPS by TAPS taps. A thread takes every BLOCK-th
/// output and reads its window.
template <typename T, int TAPS>
static __global__ void __launch_bounds__(BLOCK) sum_windows(const window_sums<T> p)
{
    __shared__ accumulator_of<T> shared[BLOCK / WARP][TAPS * TAPS];
    const int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP;
    const int kh0 = (int)(blockIdx.z / p.tiles * TAPS), kw0 = (int)(blockIdx.z % p.tiles * TAPS);
    const int begin = (int)blockIdx.x * p.each;
    const int end = p.count - begin < p.each ? p.count : begin + p.each;
    for (int64_t channel = blockIdx.y; channel < p.OC; channel += gridDim.y) {
        accumulator_of<T> sums[TAPS][TAPS] = {};
        for (int e = begin + (int)threadIdx.x; e < end; e += BLOCK) {
            const uint32_t image = p.plane.quotient((uint32_t)e),
                           at = (uint32_t)e - image * p.plane.by;
            const uint32_t oh = p.OW.quotient(at), ow = at - oh * p.OW.by;
            const accumulator_of<T> g =
                p.dy[((int64_t)image * p.OC + channel) * (int64_t)p.plane.by + (int64_t)at];
            const T *x = p.x + ((int64_t)image * p.C + channel / p.multiplier) * p.H * p.W;
            const int top = (int)oh * p.stride_h - p.top;
            const int left = (int)ow * p.stride_w - p.left;
#pragma unroll
            for (int i = 0; i < TAPS; i++)
#pragma unroll
                for (int j = 0; j < TAPS; j++) {
                    const int h = top + (kh0 + i) * p.dilation_h;
                    const int w = left + (kw0 + j) * p.dilation_w;
                    if (kh0 + i < p.KH && kw0 + j < p.KW && (uint32_t)h < (uint32_t)p.H &&
                        (uint32_t)w < (uint32_t)p.W)
                        sums[i][j] += g * __ldg(x + (h * p.W + w));
                }
            if (g * 0 != 0) /* a product with padding is not zero either */
#pragma unroll
                for (int i = 0; i < TAPS; i++)
#pragma unroll
                    for (int j = 0; j < TAPS; j++)
                        if ((uint32_t)(top + (kh0 + i) * p.dilation_h) >= (uint32_t)p.H ||
                            (uint32_t)(left + (kw0 + j) * p.dilation_w) >= (uint32_t)p.W)
                            sums[i][j] += g * 0;
        }
#pragma unroll
        for (int i = 0; i < TAPS; i++)
#pragma unroll
            for (int j = 0; j < TAPS; j++) {
                const accumulator_of<T> sum = sum_of_warp(sums[i][j]);
                if (lane == 0)
                    shared[warp][i * TAPS + j] = sum;
            }
        __syncthreads();
        const int kh = kh0 + (int)threadIdx.x / TAPS, kw = kw0 + (int)threadIdx.x % TAPS;
        if (threadIdx.x < TAPS * TAPS && kh < p.KH && kw < p.KW) {
            accumulator_of<T> sum = 0;
            for (int v = 0; v < BLOCK / WARP; v++)
                sum += shared[v][threadIdx.x];
            p.sums[((channel * p.KH + kh) * p.KW + kw) * p.splits + blockIdx.x] = (T)sum;
        }
        __syncthreads(); /* the sums are read */
    }
}

// ---- The last sums ------------------------------------------------------------------------------

/// dw[i] is the sum over its splits, by the formula where that is NaN, as tiles also sum products
/// that there are not. A warp computes it.
template <typename T>
static __global__ void __launch_bounds__(BLOCK)
    end_weights(T *dw, const T *sums, int64_t splits, const T *x, const T *dy,
                const __grid_constant__ talc_conv2d_problem p)
{
    const int lane = (int)threadIdx.x % WARP;
    const int64_t step = (int64_t)gridDim.x * (BLOCK / WARP);
    for (int64_t i = (int64_t)blockIdx.x * (BLOCK / WARP) + threadIdx.x / WARP;
         i < p.OC * p.KH * p.KW; i += step) {
        accumulator_of<T> sum = 0;
#pragma unroll 4
        for (int64_t split = lane; split < splits; split += WARP)
            sum += sums[i * splits + split];
        sum = sum_of_warp(sum);
        if (sum != sum) {
            const int64_t oc = i / (p.KH * p.KW), c = oc / (p.OC / p.C);
            const int64_t h = i / p.KW % p.KH * p.dilation_h - p.pad_top;
            const int64_t w = i % p.KW * p.dilation_w - p.pad_left;
            sum = 0;
#pragma unroll 1
            for (int64_t e = lane; e < p.N * p.OH * p.OW; e += WARP) {
                const int64_t row = e / p.OW, n = row / p.OH, oh = row - n * p.OH;
                const int64_t ih = h + oh * p.stride_h, iw = w + (e - row * p.OW) * p.stride_w;
                const bool inside = ih >= 0 && ih < p.H && iw >= 0 && iw < p.W;
                sum += dy[((n * p.OC + oc) * p.OH + oh) * p.OW + (e - row * p.OW)] *
                       (inside ? x[((n * p.C + c) * p.H + ih) * p.W + iw] : (T)0);
            }
            sum = sum_of_warp(sum);
        }
        if (lane == 0)
            dw[i] = (T)sum;
    }
}

template <typename T>
static void end_sums(talc_device *device, const talc_conv2d_problem *p,
                     const talc_conv2d_arguments *a, const T *sums, int64_t splits)
{
    const int64_t blocks = talc_ceil_div(p->OC * p->KH * p->KW, BLOCK / WARP);
    end_weights<T><<<grid_for_blocks(device, blocks), BLOCK, 0, talc_cuda_stream(device)>>>(
        (T *)a->dw, sums, splits, (const T *)a->x, (const T *)a->dy, *p);
}

} // namespace talc

#endif
