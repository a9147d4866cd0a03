/// Depthwise convolution by columns, and its input gradient (depthwise.cu). Private to
/// backends/cuda.
///
/// A thread has V neighbouring columns of the result, which one store of 16 bytes writes, and goes
/// down some rows with the sums of the rows that have begun in registers. It reads its window of a
/// row once, a step ahead, adds it to all the sums that the row belongs to, and stores the rows
/// that are complete then:
///
///     window of row i     . . . . . .       V + KW - 1 columns at stride 1
///     sums of row i - kh    + + + +         V columns, for each kh
///
/// At stride S a step of the forward pass reads S rows of x and completes one of y. A step of the
/// input gradient reads a row of dy and completes S of dx: with m = h + top, row h of dx reads row
/// (m - kh) / S of dy for the taps that m - kh is a multiple for, and columns likewise. At stride 1
/// the gradient is the forward pass with the rotated kernel.
///
/// What is outside the image is zeros in the window. Where a weight is not finite, elements of an
/// input gradient are computed again without them (window_sum.cuh).
#ifndef TALC_BACKENDS_CUDA_CONV2D_DEPTHWISE_COLUMNS_CUH
#define TALC_BACKENDS_CUDA_CONV2D_DEPTHWISE_COLUMNS_CUH

#include "backends/cuda/conv2d/depthwise_pass.cuh"

#include <cmath>

namespace talc
{

/// How rows of the result are divided. A unit is what a step completes.
struct columns_plan {
    int64_t across, units, each; ///< threads of a row, units of a plane, and those of a thread
};

/// A thread's columns of rows of a plane, which it reads from the top to the bottom, ROWS at a time
/// and one step ahead; up to FAR rows further ahead are on their way to the L2 cache. What is
/// outside the plane is zeros. Loads have E elements, to which rows are aligned, and so is the
/// column SKEW before the window.
template <typename T, int ROWS, int COUNT, int E, int SKEW, int FAR = 0> struct row_window {
    static constexpr int LOADS = (SKEW + COUNT + E - 1) / E;
    const T *x; ///< the first column of the next row
    int row, left, H, W;
    vec<T, E> ahead[ROWS][LOADS];

    __device__ void begin(const T *plane, int H_, int W_, int row_, int left_)
    {
        H = H_, W = W_, row = row_, left = left_ - SKEW;
        x = plane + ((int64_t)row * W + left);
#pragma unroll
        for (int r = ROWS; r < FAR; r++)
            fetch(r);
        load();
    }

    __device__ __forceinline__ void fetch(int far)
    {
        if ((unsigned)(row + far) < (unsigned)H && (unsigned)(left + COUNT / 2) < (unsigned)W)
            asm volatile("prefetch.global.L2 [%0];" ::"l"(x + ((int64_t)far * W + COUNT / 2)));
    }

    __device__ __forceinline__ void load()
    {
#pragma unroll
        for (int r = 0; r < ROWS; r++, row++, x += W) {
            if (FAR > 0)
                fetch(FAR);
#pragma unroll
            for (int i = 0; i < LOADS; i++) {
                ahead[r][i] = {};
                if ((unsigned)row < (unsigned)H && (unsigned)(left + i * E) < (unsigned)W)
                    ahead[r][i] = *(const vec<T, E> *)(x + i * E);
            }
        }
    }

    __device__ __forceinline__ void next(T (&window)[ROWS][COUNT])
    {
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
            for (int j = 0; j < COUNT; j++)
                window[r][j] = ahead[r][(SKEW + j) / E].of[(SKEW + j) % E];
        load();
    }
};

template <typename T> struct columns_problem {
    const T *x, *w;
    T *y;
    epilogue<T> last;
    int H, W, OH, OW, top, left;                          ///< of x, what is read, and y, the result
    divisor<uint32_t> across, down, channels, multiplier; ///< threads of a row, and of a column
    int first, units, each; ///< the first unit of a plane, how many, and those of a thread
    uint32_t threads;
    int width; ///< elements of a store, which divides rows of y
    bool rotated, only_inside;
};

constexpr int COLUMNS_THREADS = 128; ///< of a block

/* Blocks of a multiprocessor that registers allow, for weights or their sums; one more for an input
 * gradient at a stride, whose windows are small. */
__host__ __device__ constexpr int columns_occupancy(int weight_bytes, bool is_gradient)
{
    return weight_bytes <= 100   ? (weight_bytes <= 36 ? 6 : 4) + is_gradient
           : weight_bytes <= 200 ? 3
                                 : 2;
}

/* ODD: of an input gradient at stride S, the left padding modulo S; -1: the forward pass. E: the
 * elements of a load; if more than 1, the left padding keeps the width. */
template <typename T, int K, int S, int ODD, int E>
static __global__ void __launch_bounds__(COLUMNS_THREADS,
                                         columns_occupancy(K *K *(int)sizeof(T), ODD >= 0))
    depthwise_columns(const columns_problem<T> p)
{
    constexpr bool IS_GRADIENT = ODD >= 0;
    constexpr int V = VECTOR_BYTES / sizeof(T), READ = IS_GRADIENT ? 1 : S,
                  MADE = IS_GRADIENT ? S : 1;               /* rows of a step */
    constexpr int DELAY = (K - 1) / S, REACH = (K - 1) / S; /* steps and columns before */
    constexpr int OPEN = IS_GRADIENT ? K : DELAY + 1;       /* rows that are summed */
    constexpr int COUNT = IS_GRADIENT ? REACH + (V - 1 + ODD) / S + 1 : (V - 1) * S + K;
    const uint32_t index = blockIdx.x * COLUMNS_THREADS + threadIdx.x;
    if (index >= p.threads)
        return;
    const uint32_t band = p.across.quotient(index), plane = p.down.quotient(band);
    const int channel = (int)(plane - p.channels.quotient(plane) * p.channels.by);
    const int column = (int)(index - band * p.across.by) * V;
    const int first = p.first + (int)(band - plane * p.down.by) * p.each;
    const int units = min(p.each, p.first + p.units - first);

    accumulator_of<T> w[K * K], not_finite = 0;
#pragma unroll
    for (int tap = 0; tap < K * K; tap++) {
        w[tap] = __ldg(p.w + (int64_t)channel * (K * K) + (p.rotated ? K * K - 1 - tap : tap));
        not_finite += w[tap] * 0;
    }
    const T bias = p.last.bias == nullptr ? (T)0 : p.last.bias[channel];

    const int left = IS_GRADIENT ? (column + p.left) / S - REACH : column * S - p.left;
    const T *const x = p.x + (int64_t)p.multiplier.quotient(plane) * p.H * p.W;
    row_window<T, READ, COUNT, E, (E - (K - 1) / 2 % E) % E, S == 1 ? 4 : 0> rows;
    rows.begin(x, p.H, p.W, IS_GRADIENT ? first - DELAY : first * S - p.top, left);
    int oh = IS_GRADIENT ? first * S - p.top : first; /* the next to store */
    T *const y_plane = p.y + (int64_t)plane * p.OH * p.OW;
    accumulator_of<T> sums[OPEN][V] = {};
#pragma unroll 1
    for (int step = 0; step < units + DELAY; step += OPEN) {
        /* Unrolled, so that sums[] stays in registers: the row that is complete next is sums[u *
         * MADE % OPEN]. */
#pragma unroll
        for (int u = 0; u < OPEN; u++) {
            if (step + u >= units + DELAY)
                break;
            T window[READ][COUNT];
            rows.next(window);
#pragma unroll
            for (int r = 0; r < READ; r++)
#pragma unroll
                for (int i = 0; i < OPEN; i++) {
                    const int kh = IS_GRADIENT ? i : r + S * (OPEN - 1 - i);
#pragma unroll
                    for (int j = 0; j < COUNT; j++)
#pragma unroll
                        for (int v = 0; v < V; v++) {
                            const int kw = IS_GRADIENT ? v + ODD + S * (REACH - j) : j - v * S;
                            if (kh < K && kw >= 0 && kw < K)
                                sums[(u * MADE + i) % OPEN][v] +=
                                    window[r][j] * w[kh < K ? kh * K + kw : 0];
                        }
                }
#pragma unroll
            for (int m = 0; m < MADE; m++) {
                accumulator_of<T>(&its)[V] = sums[(u * MADE + m) % OPEN];
                if (step + u >= DELAY) {
                    if (!IS_GRADIENT || (unsigned)oh < (unsigned)p.OH) {
                        T *const to = y_plane + (int64_t)oh * p.OW + column;
                        vec<T, V> out;
#pragma unroll
                        for (int v = 0; v < V; v++) {
                            out.of[v] = its[v] + (IS_GRADIENT ? 0 : bias);
                            if (!IS_GRADIENT && p.last.residual != nullptr && column + v < p.OW)
                                out.of[v] += p.last.residual[to - p.y + v];
                        }
                        if (!IS_GRADIENT)
                            activate_all(p.last.activation, out.of);
                        if (p.width == V)
                            *(vec<T, V> *)to = out;
                        else if (p.width == 2)
#pragma unroll
                            for (int v = 0; v < V; v += 2) {
                                const vec<T, 2> two = { out.of[v], out.of[v + 1] };
                                if (column + v < p.OW)
                                    *(vec<T, 2> *)(to + v) = two;
                            }
                        else
#pragma unroll
                            for (int v = 0; v < V; v++)
                                if (column + v < p.OW)
                                    to[v] = out.of[v];
                    }
                    oh++;
                }
#pragma unroll
                for (int v = 0; v < V; v++)
                    its[v] = 0;
            }
        }
    }
    if (!p.only_inside || not_finite == 0)
        return;
#pragma unroll 1
    for (int e = 0; e < units * MADE * V; e++) {
        const int ow = column + e % V;
        oh = (IS_GRADIENT ? first * S - p.top : first) + e / V;
        if (oh < 0 || oh >= p.OH || ow >= p.OW)
            continue;
        const int kh = IS_GRADIENT ? (oh + p.top) % S : 0, kw = IS_GRADIENT ? (ow + p.left) % S : 0;
        const int sign = p.rotated ? -1 : 1, step = IS_GRADIENT ? S : 1;
        window_of_output<T> of = {};
        of.x = x, of.w = p.w + (int64_t)channel * (K * K), of.channels = 1;
        of.H = p.H, of.W = p.W;
        of.w += p.rotated ? K * K - 1 : kh * K + kw;
        of.h = IS_GRADIENT ? (oh + p.top) / S : oh * S - p.top;
        of.v = IS_GRADIENT ? (ow + p.left) / S : ow * S - p.left;
        of.KH = (K - kh + step - 1) / step, of.KW = (K - kw + step - 1) / step;
        of.dilation_h = of.dilation_w = IS_GRADIENT ? -1 : 1;
        of.w_row = sign * step * K, of.w_column = sign * step, of.only_inside = true;
        p.y[((int64_t)plane * p.OH + oh) * p.OW + ow] = (T)sum_of_window<T>(of);
    }
}

// ---- Plan and launch ----------------------------------------------------------------------------

/// Why no kernel by columns serves.
static inline const char *refuses_columns(const talc_conv2d_problem *p)
{
    const int64_t S = p->stride_h, max = INT_MAX / 2;
    if (p->KH != p->KW || (p->KH != 3 && p->KH != 5 && p->KH != 7))
        return "the kernel is not 3x3, 5x5 or 7x7";
    if (p->stride_w != S || (S != 1 && S != 2) || p->dilation_h != 1 || p->dilation_w != 1)
        return "the stride is not 1 or 2, or the dilation not 1";
    return planes_fit(p, max) &&
                   (double)p->N * (double)p->OC * (double)p->OH * (double)p->OW <= max &&
                   (double)p->N * (double)p->C * (double)p->H * (double)p->W <= max
               ? NULL
               : "an operand has more than 2^30 elements";
}

/* How many of the `units` steps of a column a thread has, so that `columns` columns take the least
 * time: each reads the rows above it once more, and its weights, and blocks come in waves. */
template <typename T>
static int64_t rows_of_thread(const talc_device *device, const talc_conv2d_problem *p,
                              int64_t columns, int64_t units)
{
    const int64_t multiprocessors = talc_cuda_state_of(device)->multiprocessors, K = p->KH;
    if (p->direction == TALC_GRAD_INPUT) { /* its steps are short, and wait for what they load */
        int64_t each = 4 * K;
        while (each > 2 && columns * talc_ceil_div(units, each) < multiprocessors * 4096)
            each--;
        return talc_ceil_div(units, talc_ceil_div(units, each));
    }
    const double resident =
        (double)multiprocessors * columns_occupancy((int)(K * K * (int64_t)sizeof(T)), false);
    /* Threads that run at the same time had better be near each other in memory. */
    const bool is_walk = p->direction == TALC_FORWARD && p->stride_h == 1;
    const int64_t max_rows = !is_walk ? 8 * K : K == 3 ? 8 : K == 5 ? 24 : 48;
    double least = INFINITY;
    int64_t best = 1;
    for (int64_t bands = talc_ceil_div(units, max_rows); bands <= units; bands++) {
        const int64_t each = talc_ceil_div(units, bands);
        const double threads = (double)columns * (double)talc_ceil_div(units, each),
                     waves = ceil(threads / COLUMNS_THREADS) / resident,
                     steps = (double)each + (double)((K - 1) / p->stride_h) + 4,
                     time = steps * (waves < 4 ? ceil(waves) : waves);
        if (time < least)
            least = time, best = each;
    }
    return best;
}

/// Keeps how the rows of a problem are divided; why the form does not serve.
template <typename T>
static const char *plan_columns(const talc_device *device, const depthwise_pass *p, talc_plan *plan)
{
    const bool is_gradient = p->direction == TALC_GRAD_INPUT;
    const int64_t S = p->stride_h, top = p->pad_top;
    const char *refusal = refuses_columns(p);
    if (refusal != NULL)
        return refusal;
    columns_plan own;
    own.across = talc_ceil_div(is_gradient ? p->W : p->OW, VECTOR_BYTES / (int64_t)sizeof(T));
    own.units = is_gradient ? (p->H - 1 + top) / S - top / S + 1 : p->OH;
    own.each = rows_of_thread<T>(device, p, p->N * p->OC * own.across, own.units);
    talc_plan_store(plan, &own, sizeof own);
    return NULL;
}

/* The elements that loads of rows of W elements may have, of which the first is at `x`. */
template <typename T> static int64_t elements_of_load(int64_t W, const void *x)
{
    constexpr int64_t V = VECTOR_BYTES / sizeof(T);
    return W % V == 0 && is_aligned(x) ? V : W % 2 == 0 && is_aligned(x) ? 2 : 1;
}

/* The kernel for weights of K x K. */
template <typename T, int K>
static auto columns_kernel(const talc_conv2d_problem *p, int64_t E) -> void (*)(columns_problem<T>)
{
    constexpr int V = VECTOR_BYTES / sizeof(T);
    if (p->direction == TALC_GRAD_INPUT && p->stride_h == 2)
        return p->pad_left % 2 != 0 ? &depthwise_columns<T, K, 2, 1, 1>
                                    : &depthwise_columns<T, K, 2, 0, 1>;
    if (p->stride_h == 2)
        return E == V   ? &depthwise_columns<T, K, 2, -1, V>
               : E == 2 ? &depthwise_columns<T, K, 2, -1, 2>
                        : &depthwise_columns<T, K, 2, -1, 1>;
    return E == V   ? &depthwise_columns<T, K, 1, -1, V>
           : E == 2 ? &depthwise_columns<T, K, 1, -1, 2>
                    : &depthwise_columns<T, K, 1, -1, 1>;
}

template <typename T>
static void run_columns(talc_device *device, const depthwise_pass *p, const talc_plan *plan,
                        const talc_conv2d_arguments *a)
{
    const columns_plan &own = own_plan<columns_plan>(plan);
    const bool is_gradient = p->direction == TALC_GRAD_INPUT;
    const int64_t down = talc_ceil_div(own.units, own.each);
    const int64_t threads = p->N * p->OC * own.across * down;
    columns_problem<T> c = { (const T *)a->x,
                             (const T *)a->w,
                             (T *)a->y,
                             epilogue<T>(a->bias, a->residual, p->activation),
                             (int)(is_gradient ? p->OH : p->H),
                             (int)(is_gradient ? p->OW : p->W),
                             (int)(is_gradient ? p->H : p->OH),
                             (int)(is_gradient ? p->W : p->OW),
                             (int)p->pad_top,
                             (int)p->pad_left,
                             {},
                             {},
                             {},
                             {},
                             is_gradient ? (int)(p->pad_top / p->stride_h) : 0,
                             (int)own.units,
                             (int)own.each,
                             (uint32_t)threads,
                             1,
                             p->rotated,
                             p->only_inside };
    c.across.set(own.across), c.down.set(down), c.channels.set(p->OC);
    c.multiplier.set(p->OC / p->C);
    c.width = (int)elements_of_load<T>(c.OW, c.y);
    const int64_t E = c.left == (p->KW - 1) / 2 ? elements_of_load<T>(c.W, c.x) : 1;
    const auto kernel = p->KH == 3   ? columns_kernel<T, 3>(p, E)
                        : p->KH == 5 ? columns_kernel<T, 5>(p, E)
                                     : columns_kernel<T, 7>(p, E);
    kernel<<<(unsigned)talc_ceil_div(threads, COLUMNS_THREADS), COLUMNS_THREADS, 0,
             talc_cuda_stream(device)>>>(c);
}

} // namespace talc

#endif
