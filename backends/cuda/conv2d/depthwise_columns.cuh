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
/// Planes of short rows that are not of whole vectors go through shared memory at stride 2, by 3x3
/// and 5x5: a block copies some of them 16 bytes at a time, and so stores their results.
///
/// What is outside the image is zeros in the window. Where a weight is not finite, elements of an
/// input gradient are computed again without them (window_sum.cuh).
#ifndef TALC_BACKENDS_CUDA_CONV2D_DEPTHWISE_COLUMNS_CUH
#define TALC_BACKENDS_CUDA_CONV2D_DEPTHWISE_COLUMNS_CUH

#include "backends/cuda/conv2d/depthwise_pass.cuh"
#include "backends/cuda/primitives/shared_copy.cuh"

#include <cmath>

namespace talc
{

/// How rows of the result are divided. A unit is what a step completes.
struct columns_plan {
    int64_t across, units, each; ///< threads of a row, units of a plane, and those of a thread
    int64_t planes;              ///< that a block copies to shared memory; 0: none
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
    int first, units, each;          ///< the first unit of a plane, how many, and those of a thread
    uint32_t threads, block;         ///< and those of a block that have any
    int planes, all_planes, results; ///< of a staged block, of all, and where its results begin
    int width;                       ///< elements of a store, which divides rows of y
    bool rotated, only_inside;

    explicit columns_problem(const epilogue<T> &e) : last(e)
    {
    }
};

constexpr int COLUMNS_THREADS = 128;       ///< of a block
constexpr int64_t STAGED_BYTES = 72 << 10; ///< of shared memory, so that three blocks fit

/* Blocks of a multiprocessor that registers allow, for weights or their sums; one more for an input
 * gradient at stride 2, whose windows are small, one less for 3x3 sums, whose windows are not. */
__host__ __device__ constexpr int columns_occupancy(int taps, talc_direction direction, int64_t S)
{
    return (taps <= 9    ? 6
            : taps <= 25 ? 4
                         : 3) +
           (direction == TALC_GRAD_INPUT) - (direction == TALC_GRAD_WEIGHT && S == 2 && taps == 9);
}

/* ODD: of an input gradient at stride S, the left padding modulo S; -1: the forward pass. E: the
 * elements of a load; if more than 1, the left padding keeps the width. STAGED: through shared
 * memory. */
template <typename T, int K, int S, int ODD, int E, bool STAGED>
static __global__ void __launch_bounds__(
    COLUMNS_THREADS, columns_occupancy(K *K, ODD >= 0 ? TALC_GRAD_INPUT : TALC_FORWARD, S))
    depthwise_columns(const columns_problem<T> p)
{
    constexpr bool IS_GRADIENT = ODD >= 0;
    constexpr int V = VECTOR_BYTES / sizeof(T), READ = IS_GRADIENT ? 1 : S,
                  MADE = IS_GRADIENT ? S : 1;               /* rows of a step */
    constexpr int DELAY = (K - 1) / S, REACH = (K - 1) / S; /* steps and columns before */
    constexpr int OPEN = IS_GRADIENT ? K : DELAY + 1;       /* rows that are summed */
    constexpr int COUNT = IS_GRADIENT ? REACH + (V - 1 + ODD) / S + 1 : (V - 1) * S + K;
    /* Rows that the L2 cache is asked for, where that is faster. */
    constexpr int FAR = !STAGED && (S == 1 || (IS_GRADIENT && K > 3)) ? 4 : 0;
    const uint32_t index = blockIdx.x * (STAGED ? p.block : COLUMNS_THREADS) + threadIdx.x;
    const bool busy = index < p.threads && (!STAGED || threadIdx.x < p.block);
    if (!STAGED && !busy)
        return;
    const uint32_t band = p.across.quotient(index), plane = p.down.quotient(band);
    const int channel = (int)(plane - p.channels.quotient(plane) * p.channels.by);
    const int column = (int)(index - band * p.across.by) * V;
    const int first = p.first + (int)(band - plane * p.down.by) * p.each;
    const int units = min(p.each, p.first + p.units - first);
    const T *copied = NULL;
    T *results = NULL;

    extern __shared__ __align__(CACHE_LINE) unsigned char columns_bytes[];
    const int64_t first_plane = (int64_t)blockIdx.x * p.planes; /* of a staged block */
    const int planes = (int)min((int64_t)p.planes, p.all_planes - first_plane);
    if (STAGED) {
        const T *const first_x = p.x + first_plane * p.H * p.W;
        T *const copy = (T *)columns_bytes + offset_in_line(first_x);
        copy_to_shared<COLUMNS_THREADS>(copy, first_x, planes * p.H * p.W);
        results = (T *)columns_bytes + p.results + offset_in_line(p.y + first_plane * p.OH * p.OW);
        copied = copy + (int)(plane - first_plane) * p.H * p.W;
    }

    accumulator_of<T> w[K * K], not_finite = 0;
#pragma unroll
    for (int tap = 0; tap < K * K; tap++) {
        w[tap] = __ldg(p.w + (int64_t)channel * (K * K) + (p.rotated ? K * K - 1 - tap : tap));
        not_finite += w[tap] * 0;
    }
    const T bias = p.last.bias == nullptr ? (T)0 : p.last.bias[channel];

    const int left = IS_GRADIENT ? (column + p.left) / S - REACH : column * S - p.left;
    const T *const x = p.x + (int64_t)p.multiplier.quotient(plane) * p.H * p.W;
    if (STAGED)
        wait_for_copies();
    row_window<T, READ, COUNT, E, (E - (K - 1) / 2 % E) % E, FAR> rows;
    rows.begin(STAGED ? copied : x, busy ? p.H : 0, p.W,
               IS_GRADIENT ? first - DELAY : first * S - p.top, left);
    int oh = IS_GRADIENT ? first * S - p.top : first; /* the next to store */
    T *const y = STAGED ? results + (int)(plane - first_plane) * p.OH * p.OW
                        : p.y + (int64_t)plane * p.OH * p.OW;
    const int steps = busy ? units + DELAY : 0;
    accumulator_of<T> sums[OPEN][V] = {};
#pragma unroll 1
    for (int step = 0; step < steps; step += OPEN) {
        /* Unrolled, so that sums[] stays in registers: the row that is complete next is sums[u *
         * MADE % OPEN]. */
#pragma unroll
        for (int u = 0; u < OPEN; u++) {
            if (step + u >= steps)
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
                        T *const to = y + (int64_t)oh * p.OW + column;
                        vec<T, V> out;
#pragma unroll
                        for (int v = 0; v < V; v++) {
                            out.of[v] = its[v] + (IS_GRADIENT ? 0 : bias);
                            if (!STAGED && !IS_GRADIENT && p.last.residual != nullptr &&
                                column + v < p.OW)
                                out.of[v] += p.last.residual[to - p.y + v];
                        }
                        if (!STAGED && !IS_GRADIENT)
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
    if (!STAGED && (!p.only_inside || not_finite == 0))
        return;
    const bool again = !STAGED || (busy && p.only_inside && not_finite != 0);
#pragma unroll 1
    for (int e = 0; again && e < units * MADE * V; e++) {
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
        /* From the parameters, so that y is in no registers till here. */
        (STAGED ? y + oh * p.OW + ow : p.y + ((int64_t)plane * p.OH + oh) * p.OW + ow)[0] =
            (T)sum_of_window<T>(of);
    }
    if (STAGED) {
        __syncthreads();
        const int64_t at = first_plane * p.OH * p.OW;
        if (IS_GRADIENT)
            store_from_shared<COLUMNS_THREADS>(p.y + at, results, planes * p.OH * p.OW,
                                               [](T sum, int) { return sum; });
        else
            store_ended<COLUMNS_THREADS>(p.last, p.y, at, results, planes * p.OH * p.OW);
    }
}

// ---- Plan and launch ----------------------------------------------------------------------------

/// Why columns do not serve a problem for whose kernel and strides there is a kernel or not.
static inline const char *refuses_columns(const talc_conv2d_problem *p, bool has_kernel)
{
    const int64_t max = INT_MAX / 2, V = VECTOR_BYTES / (int64_t)sizeof(float);
    const auto threads = [](int64_t planes, int64_t rows, int64_t columns) {
        return (double)planes * (double)rows * (double)talc_ceil_div(columns, V);
    };
    if (!has_kernel || p->dilation_h != 1 || p->dilation_w != 1)
        return "there is no kernel of these extents, strides and dilations";
    return planes_fit(p, max) && threads(p->N * p->OC, p->OH, p->OW) <= (double)max &&
                   threads(p->N * p->C, p->H, p->W) <= (double)max
               ? NULL
               : "there are more than 2^30 threads, or elements of a plane";
}

/* How many of the `units` steps of a column a thread has, so that `columns` columns take the least
 * time: each reads the rows above it once more, and its weights, and blocks come in waves. */
template <typename T>
static int64_t rows_of_thread(const talc_device *device, const talc_conv2d_problem *p,
                              int64_t columns, int64_t units)
{
    const int64_t multiprocessors = talc_cuda_state_of(device)->multiprocessors, K = p->KH;
    if (p->direction == TALC_GRAD_INPUT) { /* its steps are short, and wait for what they load */
        int64_t each = K * K / 4 + 1;
        const int64_t enough = multiprocessors * (K == 3 ? 4096 : 2048);
        while (each > 2 && columns * talc_ceil_div(units, each) < enough)
            each--;
        return talc_ceil_div(units, talc_ceil_div(units, each));
    }
    const double resident =
        (double)multiprocessors * columns_occupancy((int)(K * p->KW), p->direction, p->stride_h);
    /* Threads that run at the same time had better be near each other in memory. */
    const int64_t max_rows = p->stride_h == 2                   ? 8 * K
                             : p->direction == TALC_GRAD_WEIGHT ? units
                             : K == 3                           ? (units <= 16 ? 16 : 8)
                             : K == 5                           ? 32
                                                                : 64;
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
    const char *refusal =
        refuses_columns(p, p->KH == p->KW && (p->KH == 3 || p->KH == 5 || p->KH == 7) &&
                               p->stride_w == S && (S == 1 || S == 2));
    if (refusal != NULL)
        return refusal;
    columns_plan own;
    own.across = talc_ceil_div(is_gradient ? p->W : p->OW, VECTOR_BYTES / (int64_t)sizeof(T));
    own.units = is_gradient ? (p->H - 1 + top) / S - top / S + 1 : p->OH;
    own.each = rows_of_thread<T>(device, p, p->N * p->OC * own.across, own.units);
    /* A staged block has all threads of its planes, each with whole columns. */
    constexpr int64_t V = VECTOR_BYTES / sizeof(T);
    const int64_t planes = COLUMNS_THREADS / own.across;
    own.planes = 0;
    if (S == 2 && p->KH < 7 && p->W % V != 0 && p->OC == p->C && planes > 0 &&
        planes * (p->H * p->W + p->OH * p->OW) * (int64_t)sizeof(T) <= STAGED_BYTES - 512 &&
        p->N * p->OC * own.across >= talc_cuda_state_of(device)->multiprocessors * COLUMNS_THREADS)
        own.planes = planes, own.each = own.units;
    talc_plan_store(plan, &own, sizeof own);
    return NULL;
}

/* The elements that loads of rows of W elements may have, of which the first is at `x`. */
template <typename T> static int64_t elements_of_load(int64_t W, const void *x)
{
    constexpr int64_t V = VECTOR_BYTES / sizeof(T);
    return W % V == 0 && is_aligned(x) ? V : W % 2 == 0 && is_aligned(x) ? 2 : 1;
}

/* The kernel for weights of K x K, with loads of at most E elements. */
template <typename T, int K>
static auto columns_kernel(const talc_conv2d_problem *p, int64_t E, bool staged)
    -> void (*)(columns_problem<T>)
{
    constexpr int V = VECTOR_BYTES / sizeof(T);
    const bool odd = p->pad_left % 2 != 0;
    if constexpr (K < 7)
        if (staged)
            return p->direction == TALC_FORWARD ? E >= 2 ? &depthwise_columns<T, K, 2, -1, 2, true>
                                                         : &depthwise_columns<T, K, 2, -1, 1, true>
                   : odd ? &depthwise_columns<T, K, 2, 1, 1, true>
                                                : &depthwise_columns<T, K, 2, 0, 1, true>;
    if (p->direction == TALC_GRAD_INPUT)
        return odd ? &depthwise_columns<T, K, 2, 1, 1, false>
                   : &depthwise_columns<T, K, 2, 0, 1, false>;
    if (p->stride_h == 2)
        return E == V   ? &depthwise_columns<T, K, 2, -1, V, false>
               : E == 2 ? &depthwise_columns<T, K, 2, -1, 2, false>
                        : &depthwise_columns<T, K, 2, -1, 1, false>;
    return E == V   ? &depthwise_columns<T, K, 1, -1, V, false>
           : E == 2 ? &depthwise_columns<T, K, 1, -1, 2, false>
                    : &depthwise_columns<T, K, 1, -1, 1, false>;
}

template <typename T>
static void run_columns(talc_device *device, const depthwise_pass *p, const talc_plan *plan,
                        const talc_conv2d_arguments *a)
{
    const columns_plan &own = own_plan<columns_plan>(plan);
    const bool is_gradient = p->direction == TALC_GRAD_INPUT;
    const int64_t down = talc_ceil_div(own.units, own.each);
    const int64_t threads = p->N * p->OC * own.across * down;
    const bool staged = own.planes > 0;
    columns_problem<T> c(epilogue<T>(a->bias, a->residual, p->activation));
    c.x = (const T *)a->x, c.w = (const T *)a->w, c.y = (T *)a->y;
    c.H = (int)(is_gradient ? p->OH : p->H), c.W = (int)(is_gradient ? p->OW : p->W);
    c.OH = (int)(is_gradient ? p->H : p->OH), c.OW = (int)(is_gradient ? p->W : p->OW);
    c.top = (int)p->pad_top, c.left = (int)p->pad_left;
    c.first = is_gradient ? c.top / (int)p->stride_h : 0;
    c.units = (int)own.units, c.each = (int)own.each, c.threads = (uint32_t)threads;
    c.block = (uint32_t)(staged ? own.planes * own.across : COLUMNS_THREADS);
    c.planes = (int)own.planes, c.all_planes = (int)(p->N * p->OC);
    c.rotated = p->rotated, c.only_inside = p->only_inside;
    c.across.set(own.across), c.down.set(down), c.channels.set(p->OC);
    c.multiplier.set(p->OC / p->C);
    c.width = (int)elements_of_load<T>(c.OW, c.y);
    const int64_t E = c.left == (p->KW - 1) / 2 ? elements_of_load<T>(c.W, c.x) : 1;
    const auto kernel = p->KH == 3   ? columns_kernel<T, 3>(p, E, staged)
                        : p->KH == 5 ? columns_kernel<T, 5>(p, E, staged)
                                     : columns_kernel<T, 7>(p, E, staged);
    /* Both begin anywhere in a line. */
    constexpr int64_t LINE = CACHE_LINE / sizeof(T);
    c.results = (int)(talc_ceil_div(own.planes * c.H * c.W, LINE) + 1) * (int)LINE;
    const size_t bytes = (size_t)(c.results + own.planes * c.OH * c.OW + LINE) * sizeof(T);
    if (staged)
        (void)allow_shared(kernel, shared_up_to(device, STAGED_BYTES));
    kernel<<<(unsigned)talc_ceil_div(threads, c.block), COLUMNS_THREADS, staged ? bytes : 0,
             talc_cuda_stream(device)>>>(c);
}

} // namespace talc

#endif
