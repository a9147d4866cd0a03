/// The weight gradient of a depthwise convolution by columns (depthwise_gradient.cu). Private to
/// backends/cuda.
///
/// Each tap of a channel is one long sum over images and outputs. The sum is split (split-K); the
/// number of splits follows from the problem, the GPU and the workspace. Each split writes its sum
/// to sums[(channel * taps + tap) * splits + split], and a last kernel adds these up.
#ifndef TALC_BACKENDS_CUDA_CONV2D_DEPTHWISE_WEIGHT_COLUMNS_CUH
#define TALC_BACKENDS_CUDA_CONV2D_DEPTHWISE_WEIGHT_COLUMNS_CUH

#include "backends/cuda/conv2d/depthwise_columns.cuh"

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

// ---- Columns ------------------------------------------------------------------------------------

/// How dy is divided among threads: V columns and `each` rows for a thread.
struct weight_columns_plan {
    int64_t across, down, each, splits;
};

template <typename T> struct weight_columns_problem : plane_sizes {
    const T *x, *dy;
    T *sums;
    divisor<uint32_t> splits, across, down;
    uint32_t strips; ///< of a channel
    int64_t C, OC;
    int each, multiplier;

    explicit weight_columns_problem(const talc_conv2d_problem *p) : plane_sizes(p)
    {
    }
};

/// A block has a split of a channel. A thread goes down strips of dy, V columns wide, with the rows
/// of dy that a row of x meets in registers, and a sum for each tap. Products that belong to no
/// output are left out. E and SKEW: row_window's, of x.
template <typename T, int KH, int KW, int S, int E, int SKEW, int E_DY>
static __global__ void __launch_bounds__(COLUMNS_THREADS,
                                         columns_occupancy(KH *KW, TALC_GRAD_WEIGHT, S))
    sum_columns(const weight_columns_problem<T> p)
{
    constexpr int V = VECTOR_BYTES / sizeof(T), COUNT = (V - 1) * S + KW;
    constexpr int DELAY = (KH - 1) / S, OPEN = DELAY + 1, WARPS = COLUMNS_THREADS / WARP;
    __shared__ accumulator_of<T> shared[WARPS][KH * KW];
    const int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP;
    const uint32_t channel = p.splits.quotient(blockIdx.x);
    const uint32_t split = blockIdx.x - channel * p.splits.by;
    accumulator_of<T> sums[KH][KW] = {};
#pragma unroll 1
    for (uint32_t strip = split * COLUMNS_THREADS + threadIdx.x; strip < p.strips;
         strip += p.splits.by * COLUMNS_THREADS) {
        const uint32_t band = p.across.quotient(strip), image = p.down.quotient(band);
        const int column = (int)(strip - band * p.across.by) * V;
        const int first = (int)(band - image * p.down.by) * p.each;
        const int rows = min(p.each, p.OH - first);
        row_window<T, 1, V, E_DY, 0> dy;
        row_window<T, S, COUNT, E, SKEW> x;
        dy.begin(p.dy + (image * p.OC + channel) * p.OH * p.OW, first + rows, p.OW, first, column);
        x.begin(p.x + (image * p.C + channel / p.multiplier) * p.H * p.W, p.H, p.W,
                first * S - p.pad_top, column * S - p.pad_left);
        T open[OPEN][1][V];
#pragma unroll 1
        for (int step = 0; step < rows + DELAY; step += OPEN)
#pragma unroll
            for (int u = 0; u < OPEN; u++) {
                if (step + u >= rows + DELAY)
                    break;
                T window[S][COUNT];
                dy.next(open[u]);
                x.next(window);
#pragma unroll
                for (int r = 0; r < S; r++)
#pragma unroll
                    for (int j = 0; j < OPEN; j++) { /* with the row of dy j steps before */
                        const int kh = r + S * j;
                        if (kh >= KH || (unsigned)(step + u - j) >= (unsigned)rows)
                            continue;
#pragma unroll
                        for (int v = 0; v < V; v++)
                            if (column + v < p.OW)
#pragma unroll
                                for (int kw = 0; kw < KW; kw++)
                                    sums[kh < KH ? kh : 0][kw] +=
                                        (accumulator_of<T>)open[(u + OPEN - j) % OPEN][0][v] *
                                        window[r][v * S + kw];
                    }
            }
    }
#pragma unroll
    for (int tap = 0; tap < KH * KW; tap++) {
        const accumulator_of<T> sum = sum_of_warp(sums[tap / KW][tap % KW]);
        if (lane == 0)
            shared[warp][tap] = sum;
    }
    __syncthreads();
    if (threadIdx.x < KH * KW) {
        accumulator_of<T> sum = 0;
#pragma unroll
        for (int v = 0; v < WARPS; v++)
            sum += shared[v][threadIdx.x];
        p.sums[((int64_t)channel * (KH * KW) + threadIdx.x) * p.splits.by + split] = (T)sum;
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

// ---- Plan and launch ----------------------------------------------------------------------------

/* As many splits as keep the GPU busy, at most as many as the workspace holds. Each has the same
 * number of units, but for the last. */
static int64_t splits_for(const talc_conv2d_problem *p, int64_t wanted, int64_t units, size_t limit)
{
    const size_t each = (size_t)(p->OC * p->KH * p->KW) * talc_dtype_size(p->dtype);
    const int64_t fit = (int64_t)(limit / each);
    const int64_t splits =
        talc_larger(talc_smaller(talc_smaller(wanted, talc_larger(units, 1)), fit), 1);
    return talc_larger(talc_ceil_div(units, talc_larger(talc_ceil_div(units, splits), 1)), 1);
}

/* The extents and strides that there are kernels for. */
#define WEIGHT_COLUMNS(X)                                                                          \
    X(3, 3, 1)                                                                                     \
    X(3, 3, 2) X(5, 5, 1) X(5, 5, 2) X(7, 7, 1) X(7, 7, 2) X(1, 3, 1) X(3, 1, 1) X(3, 7, 1)

template <typename T>
static const char *plan_weight_columns(const talc_device *device, const talc_conv2d_problem *p,
                                       size_t limit, talc_plan *plan)
{
    const char *refusal = refuses_columns(p, false WEIGHT_COLUMNS(TALC_OR_IS_KERNEL));
    if (refusal != NULL)
        return refusal;
    const int64_t busy = talc_cuda_state_of(device)->multiprocessors;
    weight_columns_plan own;
    own.across = talc_ceil_div(p->OW, VECTOR_BYTES / (int64_t)sizeof(T));
    own.each = rows_of_thread<T>(device, p, p->N * p->OC * own.across, p->OH);
    own.down = talc_ceil_div(p->OH, own.each);
    /* A second launch, which adds the splits up, takes as long as a thread's next 8 steps. */
    const int64_t strips = talc_ceil_div(p->N * own.across * own.down, COLUMNS_THREADS);
    const int64_t saved = (strips - 1) * (own.each + (p->KH - 1) / p->stride_h);
    own.splits = splits_for(p, saved < 8 ? 1 : talc_ceil_div(busy * 16, p->OC), strips, limit);
    plan->workspace = own.splits > 1 ? (size_t)(own.splits * p->OC * p->KH * p->KW) * sizeof(T) : 0;
    /* What moves or is multiplied, and what blocks wait for, to add their sums. */
    const double columns = (double)(p->N * p->OC * p->OH * own.across * VECTOR_BYTES) / sizeof(T),
                 share = 132. / (double)busy;
    plan->seconds =
        fmax(talc_cuda_conv2d_seconds(device, p, INFINITY, talc_conv2d_bytes(p) / 0.8, 0),
             columns * (double)(p->KH * p->KW) * 0.11e-12 * share) +
        3e-6 + (own.splits > 1 ? 2 : 1) * TALC_CUDA_LAUNCH;
    talc_plan_store(plan, &own, sizeof own);
    return NULL;
}

/* The kernel for weights of KH x KW, with loads of x of at most E elements, and of dy of at most
 * E_DY: those of layers that keep the width, or halve it at stride 2, and of rectangles and 3x3
 * without padding. Others load one element at a time. */
template <typename T, int KH, int KW, int S>
static auto weight_columns_kernel(int64_t E, int64_t E_DY, int64_t left)
    -> void (*)(weight_columns_problem<T>)
{
    constexpr int V = VECTOR_BYTES / sizeof(T), SAME = (KW - 1) / 2, SKEW = (V - SAME % V) % V;
    if (E == V && E_DY == V && left == SAME)
        return &sum_columns<T, KH, KW, S, V, SKEW, V>;
    if constexpr (S == 2)
        if (E == V && E_DY == 2 && left == SAME)
            return &sum_columns<T, KH, KW, S, V, SKEW, 2>;
    if constexpr (KH == KW)
        if (E >= 2 && E_DY >= 3 - S && left % 2 == SAME % 2)
            return &sum_columns<T, KH, KW, S, 2, SAME % 2, 3 - S>;
    if constexpr (KH == 3 && KW == 3 && S == 1)
        if (E >= 2 && E_DY >= 2 && left == 0)
            return &sum_columns<T, KH, KW, S, 2, 0, 2>;
    if constexpr (KH != KW && KW > 1)
        if (E == V && E_DY >= 2 && left == 0)
            return &sum_columns<T, KH, KW, S, V, 0, 2>;
    return &sum_columns<T, KH, KW, S, 1, 0, 1>;
}

template <typename T>
static void run_weight_columns(talc_device *device, const talc_conv2d_problem *p,
                               const talc_plan *plan, const talc_conv2d_arguments *a)
{
    const weight_columns_plan &own = own_plan<weight_columns_plan>(plan);
    weight_columns_problem<T> s(p);
    s.x = (const T *)a->x, s.dy = (const T *)a->dy;
    s.sums = (T *)(own.splits > 1 ? a->base.workspace : a->dw);
    s.strips = (uint32_t)(p->N * own.across * own.down), s.C = p->C, s.OC = p->OC;
    s.each = (int)own.each, s.multiplier = (int)(p->OC / p->C);
    s.splits.set(own.splits), s.across.set(own.across), s.down.set(own.down);
    const int64_t E = elements_of_load<T>(p->W, a->x), E_DY = elements_of_load<T>(p->OW, a->dy);
    void (*kernel)(weight_columns_problem<T>) = NULL;
#define CHOOSE(KH_, KW_, S)                                                                        \
    if (false TALC_OR_IS_KERNEL(KH_, KW_, S))                                                      \
        kernel = weight_columns_kernel<T, KH_, KW_, S>(E, E_DY, p->pad_left);
    WEIGHT_COLUMNS(CHOOSE)
    kernel<<<(unsigned)(p->OC * own.splits), COLUMNS_THREADS, 0, talc_cuda_stream(device)>>>(s);
    if (own.splits > 1)
        end_sums<T>(device, p, a, s.sums, own.splits);
}

} // namespace talc

#endif
