/// Depthwise convolution: every group is one input channel, so that every output plane reads one input plane.
///
///     y[n, oc, oh, ow] = act( b[oc] + r[n, oc, oh, ow] + sum over kh, kw of
///                             x'[n, oc / M, oh*stride_h - top + kh*dilation_h, ow*stride_w - left + kw*dilation_w]
///                             * w[oc, 0, kh, kw] ),      M = OC / C,   x' is x with zeros around it
///
/// Memory-bound. A warp computes a strip of one output plane, 32 * V columns wide (V elements are 16 bytes), and marches
/// down it: every lane has V neighbouring columns, reads each row of its window once and adds it to the sums of all the
/// output rows that the row belongs to, which wait in registers:
///
///     lane           0         1              31
///     row of x   [ . . . .][. . . .]  ... [. . . .] . .      a lane reads V + KW - 1 columns; those that its neighbour
///     sums        KH x V    KH x V         KH x V            reads too come from the first-level cache
///     row of y   [ . . . .][. . . .]  ... [. . . .]
///
/// The rows of a whole batch are asked for before the first is used. Rows of y begin at any multiple of an element, so a
/// lane hands its first columns to the lane before it where that makes the stores aligned. Sums are in the data's type,
/// taps in order; a weight over padding is multiplied by zero. Other extents, dilation and narrow images go one output a
/// thread.
#include "backends/cuda/conv2d_epilogue.cuh"
#include "backends/cuda/conv2d_rows.h"

using namespace talc;

constexpr int WARP = 32, WARPS = 4;
constexpr unsigned ALL_LANES = 0xffffffffu;

template <typename T, int COUNT> struct alignas(COUNT * sizeof(T)) pack {
    T of[COUNT];
};

template <typename T> struct depthwise_problem {
    const T *x, *w;
    T *y;
    epilogue<T> last;
    int H, W, OH, OW;
    int pad_top, pad_left;
    int rows; ///< outputs that a strip is high
    divisor<uint32_t> column_strips, row_strips;
    divisor<uint32_t> channels, multiplier; ///< OC and M
    uint32_t strips;
};

// ---- Loads --------------------------------------------------------------------------------------------------

/* Columns I .. COUNT - 1 of a window, as wide as they are aligned; column LEFT is at a multiple of 16 bytes, and so are the
 * ends of the image. The window begins at column `first` of the image, `row` is NULL outside it. */
template <int I, int LEFT, typename T, int COUNT>
static __device__ __forceinline__ void load_aligned(T (&window)[COUNT], const T *row, int first,
                                                    int W)
{
    constexpr int V = 16 / sizeof(T);
    constexpr int past = (I + V - LEFT % V) % V; /* the last such multiple */
    constexpr int left = COUNT - I;
    constexpr int width = past == 0 && left >= V ? V : past % 2 == 0 && left >= 2 && V > 2 ? 2 : 1;
    if constexpr (I < COUNT) {
        pack<T, width> some;
#pragma unroll
        for (int k = 0; k < width; k++)
            some.of[k] = 0;
        if (row != nullptr && (unsigned)(first + I) < (unsigned)W)
            some = *(const pack<T, width> *)(row + (first + I));
#pragma unroll
        for (int k = 0; k < width; k++)
            window[I + k] = some.of[k];
        load_aligned<I + width, LEFT>(window, row, first, W);
    }
}

template <int LEFT, typename T, int COUNT>
static __device__ __forceinline__ void load_window(T (&window)[COUNT], const T *row, int first,
                                                   int W)
{
    if constexpr (LEFT >= 0) {
        load_aligned<0, LEFT>(window, row, first, W);
    } else {
#pragma unroll
        for (int i = 0; i < COUNT; i++)
            window[i] =
                row != nullptr && (unsigned)(first + i) < (unsigned)W ? row[first + i] : (T)0;
    }
}

// ---- Stores -------------------------------------------------------------------------------------------------

/* Stores the V columns of every lane, of which lane's first is `ow`, when the first aligned column of the row is column
 * SHIFT: a lane keeps its columns from SHIFT on and takes SHIFT of the next lane. */
template <int SHIFT, typename T, int V>
static __device__ __forceinline__ void store_shifted(T *row, const T (&sums)[V], int lane, int ow,
                                                     int OW)
{
    pack<T, V> out;
#pragma unroll
    for (int k = 0; k < V; k++)
        out.of[k] = k + SHIFT < V ? sums[(k + SHIFT) % V]
                                  : __shfl_down_sync(ALL_LANES, sums[(k + SHIFT) % V], 1);
    const bool whole = (SHIFT == 0 || lane < WARP - 1) && ow + SHIFT + V <= OW;
    const bool before = SHIFT > 0 && lane > 0 && ow + SHIFT <= OW; /* the lane before is whole */
    if (whole)
        __stcs((int4 *)(row + ow + SHIFT), *(const int4 *)&out);
    if (!whole || (SHIFT > 0 && !before)) {
        /* Ends of the strip or of the row: what is in nobody's pack. */
#pragma unroll
        for (int k = 0; k < V; k++)
            if (!(k < SHIFT ? before : whole) && ow + k < OW)
                row[ow + k] = sums[k];
    }
}

template <typename T, int V>
static __device__ __forceinline__ void store_row(T *row, const T (&sums)[V], int lane, int ow,
                                                 int OW)
{
    const int shift = (int)(-((uintptr_t)row / sizeof(T)) % V); /* the same in all lanes */
    if (shift == 0)
        store_shifted<0>(row, sums, lane, ow, OW);
    else if (V == 2 || shift == 1)
        store_shifted<1>(row, sums, lane, ow, OW);
    else if (shift == 2)
        store_shifted<2 % V>(row, sums, lane, ow, OW);
    else
        store_shifted<3 % V>(row, sums, lane, ow, OW);
}

/* What store_row does not do: the activations that are long, for the whole strip at once. */
template <typename T>
static __device__ void activate_strip(const epilogue<T> &last, T *y, int rows, int lane, int from,
                                      int to, int OW)
{
    __syncwarp();
    for (int row = 0; row < rows; row++)
#pragma unroll 1
        for (int ow = from + lane; ow < to; ow += WARP)
            y[(int64_t)row * OW + ow] = talc_activate(last.activation, y[(int64_t)row * OW + ow]);
}

// ---- Strips -------------------------------------------------------------------------------------------------

/* Output rows whose input a lane asks for at once: some 100 bytes. */
template <typename T>
__host__ __device__ constexpr int batch_of(int KH, int KW, int count, int stride)
{
    const int bytes = KH * KW * (int)sizeof(T) > 96 || KH * KW <= 9 ? 96 : 120;
    const int rows = bytes / (count * stride * (int)sizeof(T));
    return rows < 1 ? 1 : rows > 8 ? 8 : rows;
}

/* Blocks of a multiprocessor, so that loads of other warps are under way while one computes. */
__host__ __device__ constexpr int residents_of(int weight_bytes)
{
    return weight_bytes < 100 ? 5 : weight_bytes <= 200 ? 4 : 2;
}

/* LEFT: pad_left, where x allows aligned loads; -1: any, element by element. */
template <typename T, int KH, int KW, int STRIDE, int LEFT>
static __global__ void __launch_bounds__(WARPS *WARP, residents_of(KH *KW *(int)sizeof(T)))
    depthwise_strips(const depthwise_problem<T> p)
{
    constexpr int V = 16 / sizeof(T);
    constexpr int COUNT = (V - 1) * STRIDE + KW;     /* a lane's columns of x */
    constexpr int OPEN = (KH + STRIDE - 1) / STRIDE; /* output rows under way */
    constexpr int END = (KH - 1) / STRIDE,
                  LAST = (KH - 1) % STRIDE; /* which of them ends, and when */
    constexpr int BATCH = batch_of<T>(KH, KW, COUNT, STRIDE);
    const int lane = (int)threadIdx.x % WARP;
    for (uint32_t strip = blockIdx.x * WARPS + threadIdx.x / WARP; strip < p.strips;
         strip += gridDim.x * WARPS) {
        const uint32_t across = p.column_strips.quotient(strip);
        const uint32_t plane = p.row_strips.quotient(across);
        const int from = (int)(strip - across * p.column_strips.by) * WARP * V;
        const int oh = (int)(across - plane * p.row_strips.by) * p.rows;
        const int rows = p.OH - oh < p.rows ? p.OH - oh : p.rows;
        const int channel = (int)(plane - p.channels.quotient(plane) * p.channels.by);
        const int ow = from + lane * V, column = ow * STRIDE - p.pad_left;
        const T *x = p.x + (int64_t)p.multiplier.quotient(plane) * p.H * p.W;
        const int64_t at = (int64_t)plane * p.OH * p.OW + (int64_t)oh * p.OW;

        T w[KH * KW], sums[OPEN][V];
#pragma unroll
        for (int tap = 0; tap < KH * KW; tap++)
            w[tap] = p.w[(int64_t)channel * (KH * KW) + tap];
        const T bias = p.last.bias == nullptr ? (T)0 : p.last.bias[channel];
#pragma unroll
        for (int j = 0; j < OPEN; j++)
#pragma unroll
            for (int v = 0; v < V; v++)
                sums[j][v] = 0;

        int ih = oh * STRIDE - p.pad_top;
#pragma unroll 1
        for (int step = 0; step < rows + END; step += BATCH) {
            T window[BATCH * STRIDE][COUNT];
#pragma unroll
            for (int r = 0; r < BATCH * STRIDE; r++) {
                const bool wanted = (unsigned)(ih + r) < (unsigned)p.H && r % STRIDE < KH &&
                                    step + r / STRIDE < rows + END;
                load_window<LEFT>(window[r], wanted ? x + (ih + r) * p.W : nullptr, column, p.W);
            }
            ih += BATCH * STRIDE;
#pragma unroll
            for (int r = 0; r < BATCH * STRIDE; r++) {
                /* Row r is tap kh of the output row that began j steps ago. */
#pragma unroll
                for (int j = 0; j < OPEN; j++) {
                    constexpr int none = KH * KW;
                    const int kh = r % STRIDE + STRIDE * j;
#pragma unroll
                    for (int kw = 0; kw < KW; kw++) {
                        const int tap = kh < KH ? kh * KW + kw : none;
#pragma unroll
                        for (int v = 0; v < V; v++)
                            if (tap < none)
                                sums[j][v] += window[r][v * STRIDE + kw] * w[tap % none];
                    }
                }
                const int row = step + r / STRIDE - END;
                if (r % STRIDE == LAST && row >= 0 && row < rows) {
                    const int64_t begin = at + (int64_t)row * p.OW;
                    T out[V];
#pragma unroll
                    for (int v = 0; v < V; v++) {
                        out[v] = sums[END][v] + bias;
                        if (p.last.residual != nullptr && ow + v < p.OW)
                            out[v] += p.last.residual[begin + ow + v];
                        if (p.last.activation == TALC_ACTIVATION_RELU)
                            out[v] = epilogue_relu(out[v]);
                    }
                    store_row(p.y + begin, out, lane, ow, p.OW);
                }
                if (r % STRIDE == STRIDE - 1) {
#pragma unroll
                    for (int v = 0; v < V; v++) {
#pragma unroll
                        for (int j = OPEN - 1; j > 0; j--)
                            sums[j][v] = sums[j - 1][v];
                        sums[0][v] = 0;
                    }
                }
            }
        }
        if (p.last.activation > TALC_ACTIVATION_RELU)
            activate_strip(p.last, p.y + at, rows, lane, from,
                           from + WARP * V < p.OW ? from + WARP * V : p.OW, p.OW);
    }
}

// ---- One output a thread ------------------------------------------------------------------------------------

template <typename Index> struct output_index {
    divisor<Index> OW, OH, channels, multiplier;
};

template <typename T, typename Index>
static __global__ void __launch_bounds__(BLOCK)
    depthwise_outputs(const talc_conv2d_problem p, const T *x, const T *w, T *y,
                      const epilogue<T> last, const output_index<Index> by, Index count)
{
    TALC_GRID_LOOP(Index, i, count)
    {
        const Index row = by.OW.quotient(i), plane = by.OH.quotient(row);
        const int64_t channel = (int64_t)(plane - by.channels.quotient(plane) * by.channels.by);
        const int64_t ow = (int64_t)(i - row * by.OW.by), oh = (int64_t)(row - plane * by.OH.by);
        const talc_range down =
            talc_window_taps(oh, p.stride_h, p.pad_top, p.dilation_h, p.KH, p.H);
        const talc_range across =
            talc_window_taps(ow, p.stride_w, p.pad_left, p.dilation_w, p.KW, p.W);
        const T *from = x + (int64_t)by.multiplier.quotient(plane) * p.H * p.W;
        const T *weights = w + channel * p.KH * p.KW;
        T sum = 0;
        for (int64_t kh = down.lo; kh < down.hi; kh++) {
            const T *tap = from + (oh * p.stride_h - p.pad_top + kh * p.dilation_h) * p.W +
                           ow * p.stride_w - p.pad_left;
            for (int64_t kw = across.lo; kw < across.hi; kw++)
                sum += tap[kw * p.dilation_w] * weights[kh * p.KW + kw];
        }
        y[i] = talc_epilogue(last, sum, channel, (int64_t)i);
    }
}

template <typename T>
static void run_outputs(talc_device *device, const talc_conv2d_problem *p,
                        const talc_conv2d_arguments *a)
{
    const int64_t count = p->N * p->OC * p->OH * p->OW;
    with_index(count, [&](auto zero) {
        using Index = decltype(zero);
        output_index<Index> by;
        by.OW.set(p->OW);
        by.OH.set(p->OH);
        by.channels.set(p->OC);
        by.multiplier.set(p->OC / p->C);
        depthwise_outputs<T, Index>
            <<<blocks_for(device, count), BLOCK, 0, talc_cuda_stream(device)>>>(
                *p, (const T *)a->x, (const T *)a->w, (T *)a->y,
                epilogue<T>(a->bias, a->residual, p->activation), by, (Index)count);
    });
}

// ---- Choice -------------------------------------------------------------------------------------------------

/* Runs the kernel of these extents when the problem has them. Aligned loads are for f32 only, of which there is more. */
template <typename T, int KH, int KW, int STRIDE>
static bool run_strips_of(const talc_conv2d_problem *p, const depthwise_problem<T> &d, int blocks,
                          cudaStream_t stream)
{
    if (p->KH != KH || p->KW != KW || p->stride_h != STRIDE || p->stride_w != STRIDE)
        return false;
    if constexpr (sizeof(T) == 4) {
        constexpr int SAME = (KW - 1) / 2;
        const bool aligned = p->W % 4 == 0 && (uintptr_t)d.x % 16 == 0;
        if (aligned && p->pad_left == 0) {
            depthwise_strips<T, KH, KW, STRIDE, 0><<<blocks, WARPS * WARP, 0, stream>>>(d);
            return true;
        }
        if (aligned && p->pad_left == SAME) {
            depthwise_strips<T, KH, KW, STRIDE, SAME><<<blocks, WARPS * WARP, 0, stream>>>(d);
            return true;
        }
    }
    depthwise_strips<T, KH, KW, STRIDE, -1><<<blocks, WARPS * WARP, 0, stream>>>(d);
    return true;
}

static int64_t pieces(int64_t count, int64_t size)
{
    return (count + size - 1) / size;
}

template <typename T>
static bool run_strips(talc_device *device, const talc_conv2d_problem *p,
                       const talc_conv2d_arguments *a)
{
    const int64_t width = WARP * (16 / (int64_t)sizeof(T)), planes = p->N * p->OC;
    /* Offsets in a plane are 32-bit; narrow images leave most lanes idle. */
    const int64_t most = INT_MAX / 4;
    if (p->dilation_h != 1 || p->dilation_w != 1 || p->OW < width / 3 || planes > most ||
        p->H < 1 || p->W < 1 || p->H > most / p->W || p->OH > most / p->OW || p->pad_top > most ||
        p->pad_left > most || p->pad_bottom > most || p->pad_right > most)
        return false;
    /* High strips read few rows twice, many strips keep the GPU busy to the end. */
    const int64_t columns = pieces(p->OW, width);
    const int64_t enough = (int64_t)talc_cuda_state_of(device)->multiprocessors * 320;
    int64_t rows = 64;
    while (rows > 8 && planes * columns * pieces(p->OH, rows) < (rows > 32 ? enough : enough / 4))
        rows /= 2;
    rows = pieces(p->OH, pieces(p->OH, rows));
    const int64_t strips = planes * columns * pieces(p->OH, rows);
    if (strips > INT_MAX)
        return false;

    depthwise_problem<T> d = { (const T *)a->x,
                               (const T *)a->w,
                               (T *)a->y,
                               epilogue<T>(a->bias, a->residual, p->activation),
                               (int)p->H,
                               (int)p->W,
                               (int)p->OH,
                               (int)p->OW,
                               (int)p->pad_top,
                               (int)p->pad_left,
                               (int)rows,
                               {},
                               {},
                               {},
                               {},
                               (uint32_t)strips };
    d.column_strips.set(columns);
    d.row_strips.set(pieces(p->OH, rows));
    d.channels.set(p->OC);
    d.multiplier.set(p->OC / p->C);
    const int blocks = (int)pieces(strips, WARPS);
    const cudaStream_t stream = talc_cuda_stream(device);
    return run_strips_of<T, 3, 3, 1>(p, d, blocks, stream) ||
           run_strips_of<T, 3, 3, 2>(p, d, blocks, stream) ||
           run_strips_of<T, 5, 5, 1>(p, d, blocks, stream) ||
           run_strips_of<T, 5, 5, 2>(p, d, blocks, stream) ||
           run_strips_of<T, 7, 7, 1>(p, d, blocks, stream) ||
           run_strips_of<T, 3, 1, 1>(p, d, blocks, stream) ||
           run_strips_of<T, 1, 3, 1>(p, d, blocks, stream) ||
           run_strips_of<T, 3, 7, 1>(p, d, blocks, stream);
}

const char *talc_cuda_conv2d_depthwise_refuses(const talc_conv2d_problem *problem)
{
    if (problem->direction != TALC_FORWARD)
        return "only the forward direction";
    if (problem->groups != problem->C)
        return "only groups of one input channel";
    if (problem->padding_mode != TALC_PADDING_ZEROS)
        return "only padding with zeros";
    return NULL;
}

talc_status talc_cuda_conv2d_depthwise_run(talc_device *device, const talc_conv2d_problem *problem,
                                           const talc_conv2d_arguments *arguments)
{
    const talc_status status = talc_cuda_enter(device, "conv2d");
    if (status != TALC_OK)
        return status;
    if (problem->dtype == TALC_F32 ? !run_strips<float>(device, problem, arguments)
                                   : !run_strips<double>(device, problem, arguments)) {
        if (problem->dtype == TALC_F32)
            run_outputs<float>(device, problem, arguments);
        else
            run_outputs<double>(device, problem, arguments);
    }
    return talc_cuda_launched(device, "conv2d");
}
