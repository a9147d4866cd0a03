/// The input gradient of a depthwise convolution of K by K at stride 2 (depthwise_gradient.cu).
/// Private to backends/cuda.
///
/// With m = h + top, row h of dx reads through the taps of m's parity:
///
///     m = 2u:      dy[u], dy[u - 1] ...  through  w[0], w[2] ...
///     m = 2u + 1:  dy[u], dy[u - 1] ...  through  w[1], w[3] ...
///
/// and columns likewise. So rows 2u and 2u + 1 of the padded dx need the same REACH = (K + 1) / 2
/// rows of dy, and use each tap for one of the two. A thread has COLUMNS neighbouring columns of
/// dx, which one store writes, and goes down some pairs of rows with its window of dy in registers,
/// so that it reads each element of dy once. Outputs that there are not are zeros in this window;
/// where a weight is not finite, elements are computed again without them (window_sum.cuh).
#ifndef TALC_BACKENDS_CUDA_CONV2D_DEPTHWISE_PHASES_CUH
#define TALC_BACKENDS_CUDA_CONV2D_DEPTHWISE_PHASES_CUH

#include "backends/cuda/conv2d/form.cuh"
#include "backends/cuda/conv2d/plane_sizes.cuh"
#include "backends/cuda/conv2d/window_sum.cuh"
#include "backends/cuda/primitives/group.cuh"

namespace talc
{

template <typename T> struct depthwise_phases_problem : plane_sizes {
    const T *dy, *w;
    T *dx;
    divisor<uint32_t> across, down, channels; ///< threads along a row, and down a plane
    int pairs;                                ///< of rows, of a thread
    uint32_t count;
    int width; ///< elements of a store, which divides rows of dx
};

/* ODD: the left padding is. */
template <typename T, int K, int ODD>
static __global__ void __launch_bounds__(BLOCK, K *K * sizeof(T) <= 72     ? 4
                                                : K * K * sizeof(T) <= 100 ? 3
                                                : K * K * sizeof(T) <= 200 ? 2
                                                                           : 1)
    depthwise_phases(const depthwise_phases_problem<T> p)
{
    constexpr int COLUMNS = VECTOR_BYTES / sizeof(T), REACH = (K + 1) / 2;
    constexpr int COUNT = REACH + (COLUMNS - 1 + ODD) / 2; /* columns of dy */
    const uint32_t index = blockIdx.x * BLOCK + threadIdx.x;
    if (index >= p.count)
        return;
    const uint32_t band = p.across.quotient(index), plane = p.down.quotient(band);
    const uint32_t channel = plane - p.channels.quotient(plane) * p.channels.by;
    const int column = (int)(index - band * p.across.by) * COLUMNS;
    const int first = (int)(band - plane * p.down.by) * p.pairs + p.pad_top / 2;
    const int end = min(first + p.pairs, (p.H - 1 + p.pad_top) / 2 + 1);
    accumulator_of<T> w[K][K], not_finite = 0, window[REACH][COUNT];
#pragma unroll
    for (int tap = 0; tap < K * K; tap++) {
        w[tap / K][tap % K] = __ldg(p.w + (int64_t)channel * (K * K) + tap);
        not_finite += w[tap / K][tap % K] * 0;
    }
    /* window[i][j] is dy[u - i][left + j]. */
    const int left = (column + p.pad_left) / 2 - (REACH - 1);
    const T *const dy = p.dy + (int64_t)plane * p.OH * p.OW + left;
    T ahead[COUNT]; /* row u, while the one before it is summed */
    const auto load = [&](int u) {
#pragma unroll
        for (int j = 0; j < COUNT; j++)
            ahead[j] = (unsigned)u < (unsigned)p.OH && (unsigned)(left + j) < (unsigned)p.OW
                           ? __ldg(dy + (u * p.OW + j))
                           : (T)0;
    };
    const auto push = [&] {
#pragma unroll
        for (int i = REACH - 1; i > 0; i--)
#pragma unroll
            for (int j = 0; j < COUNT; j++)
                window[i][j] = window[i - 1][j];
#pragma unroll
        for (int j = 0; j < COUNT; j++)
            window[0][j] = ahead[j];
    };
#pragma unroll
    for (int i = REACH - 1; i > 0; i--)
        load(first - i), push();
    load(first);
    T *row = p.dx + ((int64_t)plane * p.H + 2 * first - p.pad_top) * p.W + column;
#pragma unroll 2
    for (int u = first; u < end; u++) {
        push();
        load(u + 1);
#pragma unroll
        for (int parity = 0; parity < 2; parity++, row += p.W) {
            vec<T, COLUMNS> out;
#pragma unroll
            for (int c = 0; c < COLUMNS; c++) {
                accumulator_of<T> sum = 0;
#pragma unroll
                for (int i = 0; 2 * i + parity < K; i++)
#pragma unroll
                    for (int j = 0; 2 * j + (c + ODD) % 2 < K; j++)
                        sum += window[i][REACH - 1 + (c + ODD) / 2 - j] *
                               w[2 * i + parity][2 * j + (c + ODD) % 2];
                out.of[c] = (T)sum;
            }
            const int h = 2 * u + parity - p.pad_top;
            if (h < 0 || h >= p.H)
                continue;
            if (p.width == COLUMNS)
                *(vec<T, COLUMNS> *)row = out;
            else
#pragma unroll
                for (int c = 0; c < COLUMNS; c += 2) {
                    const vec<T, 2> two = { out.of[c], out.of[c + 1] };
                    if (p.width == 2 && column + c < p.W)
                        *(vec<T, 2> *)(row + c) = two;
                    if (p.width == 1 && column + c < p.W)
                        row[c] = two.of[0];
                    if (p.width == 1 && column + c + 1 < p.W)
                        row[c + 1] = two.of[1];
                }
        }
    }
    if (not_finite == 0)
        return;
#pragma unroll 1
    for (int e = 0; e < (end - first) * 2 * COLUMNS; e++) {
        const int m = 2 * first + e / COLUMNS, h = m - p.pad_top, kh = m % 2;
        const int v = column + e % COLUMNS, kw = (v + p.pad_left) % 2;
        if (h >= 0 && h < p.H && v < p.W)
            p.dx[((int64_t)plane * p.H + h) * p.W + v] =
                (T)sum_of_window<T>({ p.dy + (int64_t)plane * p.OH * p.OW,
                                      p.w + (int64_t)channel * (K * K) + kh * K + kw, 1, 0, 0, p.OH,
                                      p.OW, m / 2, (v + p.pad_left) / 2, (K - kh + 1) / 2,
                                      (K - kw + 1) / 2, -1, -1, 2 * K, 2, true });
    }
}

/// Keeps the pairs of rows of a thread; why the form does not serve.
template <typename T>
static const char *plan_phases(const talc_device *device, const talc_conv2d_problem *p,
                               talc_plan *plan)
{
    const int64_t across = talc_ceil_div(p->W, VECTOR_BYTES / (int64_t)sizeof(T));
    if (p->direction == TALC_GRAD_WEIGHT)
        return "it has no weight gradient";
    if (p->OC != p->C)
        return "an input channel has several output channels";
    if (p->KH != p->KW || (p->KH != 3 && p->KH != 5 && p->KH != 7))
        return "the kernel is not 3x3, 5x5 or 7x7";
    if (p->stride_h != 2 || p->stride_w != 2 || p->dilation_h != 1 || p->dilation_w != 1)
        return "the stride is not 2, or the dilation not 1";
    /* As few bands as keep the GPU busy: each reads the rows of dy above it once more. */
    const int64_t rows = (p->H - 1 + p->pad_top) / 2 - p->pad_top / 2 + 1;
    const int64_t enough = (int64_t)talc_cuda_state_of(device)->multiprocessors * 2048 * 2;
    int64_t pairs = p->KH * 4;
    while (pairs > 2 && p->N * p->C * across * talc_ceil_div(rows, pairs) < enough)
        pairs--;
    pairs = talc_ceil_div(rows, talc_ceil_div(rows, pairs));
    if (!planes_fit(p, INT_MAX / 8) ||
        (double)p->N * (double)p->C * (double)across * (double)talc_ceil_div(rows, pairs) > INT_MAX)
        return "a plane passes 2^28, or there are more than 2^31 - 1 threads";
    plan->seconds = talc_cuda_conv2d_seconds(device, p, 0.3, talc_conv2d_bytes(p) / 0.85, 1);
    talc_plan_store(plan, &pairs, sizeof pairs);
    return NULL;
}

template <typename T>
static void run_phases(talc_device *device, const talc_conv2d_problem *p, const talc_plan *plan,
                       const talc_conv2d_arguments *a)
{
    constexpr int64_t COLUMNS = VECTOR_BYTES / sizeof(T);
    const int64_t pairs = own_plan<int64_t>(plan);
    const int64_t rows = (p->H - 1 + p->pad_top) / 2 - p->pad_top / 2 + 1;
    const int64_t across = talc_ceil_div(p->W, COLUMNS), down = talc_ceil_div(rows, pairs);
    const int64_t count = p->N * p->C * across * down;
    depthwise_phases_problem<T> d = { plane_sizes(p),
                                      (const T *)a->dy,
                                      (const T *)a->w,
                                      (T *)a->dx,
                                      {},
                                      {},
                                      {},
                                      (int)pairs,
                                      (uint32_t)count,
                                      p->W % COLUMNS == 0 && is_aligned(a->dx) ? (int)COLUMNS
                                      : p->W % 2 == 0 && (uintptr_t)a->dx % (2 * sizeof(T)) == 0
                                          ? 2
                                          : 1 };
    d.across.set(across), d.down.set(down), d.channels.set(p->C);
    const bool odd = p->pad_left % 2 != 0;
    const auto three = odd ? &depthwise_phases<T, 3, 1> : &depthwise_phases<T, 3, 0>;
    const auto five = odd ? &depthwise_phases<T, 5, 1> : &depthwise_phases<T, 5, 0>;
    const auto seven = odd ? &depthwise_phases<T, 7, 1> : &depthwise_phases<T, 7, 0>;
    const auto kernel = p->KH == 3 ? three : p->KH == 5 ? five : seven;
    kernel<<<(unsigned)talc_ceil_div(count, BLOCK), BLOCK, 0, talc_cuda_stream(device)>>>(d);
}

} // namespace talc

#endif
