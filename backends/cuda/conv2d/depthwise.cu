/// Depthwise convolution: each group has one input channel, so each output plane reads a single
/// input plane.
///
///     y[n, oc, oh, ow] = act( b[oc] + r[n, oc, oh, ow] + sum over kh, kw of
///                             x'[n, oc / M, oh*stride_h - top + kh*dilation_h,
///                                ow*stride_w - left + kw*dilation_w]
///                             * w[oc, 0, kh, kw] ),           x' is x with zeros around it
///
/// M is the channel multiplier, OC / C.
///
/// All forms but polyphase are bound by memory bandwidth:
///
///   register tiles  Square kernels with M = 1 on narrow images whose width is a multiple of 7. A
///                   thread computes a tile of outputs in registers
///                   (depthwise_register_tiles.cuh).
///   warp tiles      Wide images, by 3x3 where rows of y are not aligned, and by 1x3, 3x1 and 3x7,
///                   at stride 1. A warp computes a tile of an output plane, below and in
///                   warp_tiles.cuh.
///   columns         3x3, 5x5 and 7x7 at stride 1 and 2. A thread walks down some columns
///                   (depthwise_columns.cuh).
///   polyphase       Any kernel, stride and dilation. Blocks compute tiles of the dense
///                   convolutions that the problem is made of (depthwise_polyphase.cuh).
///
/// A warp tile is 32 * V columns wide, where V elements are 16 bytes. Each lane computes V adjacent
/// columns and loops down the rows of x. It reads its window of a row, V columns and their halo,
/// once, and adds the products to the sums of every output row that this row of x is under. These
/// sums are in registers:
///
///     lane           0         1              31
///     row of x   [ . . . .][. . . .]  ... [. . . .] . .   a lane reads V + KW - 1 columns, from
///     sums        KH x V    KH x V         KH x V         shared memory
///     row of y   [ . . . .][. . . .]  ... [. . . .]
///
/// Sums are in the data's type and add the taps in a fixed order. By the formula, the forward pass
/// multiplies padding as zeros, and an input gradient, which these kernels compute too, leaves such
/// products out (only_inside). The difference shows only where a weight is NaN or infinite: then
/// elements of an input gradient are computed again by the formula (window_sum.cuh).
#include "backends/cuda/conv2d/depthwise_columns.cuh"
#include "backends/cuda/conv2d/depthwise_polyphase.cuh"
#include "backends/cuda/conv2d/depthwise_register_tiles.cuh"
#include "backends/cuda/conv2d/warp_tiles.cuh"

using namespace talc;

template <typename T> struct depthwise_problem : plane_sizes {
    const T *x, *w;
    T *y;
    epilogue<T> last;
    divisor<uint32_t> channels, multiplier; ///< OC and M
    warp_tiling tiling;
    bool rotated, only_inside; ///< only_inside: sums leave out products with padding (ops/conv2d.h)
};

// ---- Warp tiles ---------------------------------------------------------------------------------

/* SKEW and ALIGNED are row_ring's: the columns in front of lane 0's window in shared memory, and
 * whether rows are copied 16 bytes at a time. */
template <typename T, int KH, int KW, int SKEW, bool ALIGNED>
static __global__ void __launch_bounds__(WARPS_PER_BLOCK *WARP, KH *KW <= 9 ? 6 : 5)
    depthwise_warp_tiles(const depthwise_problem<T> p)
{
    constexpr int V = 16 / sizeof(T);
    constexpr int WINDOW = V - 1 + KW; /* columns of x that a lane reads */
    using ring_of_rows = row_ring<T, WINDOW, SKEW, ALIGNED>;
    __shared__ alignas(VECTOR_BYTES) typename ring_of_rows::storage slots[WARPS_PER_BLOCK];
    const int lane = (int)threadIdx.x % WARP;
    for (uint32_t index = blockIdx.x * WARPS_PER_BLOCK + threadIdx.x / WARP; index < p.tiling.tiles;
         index += gridDim.x * WARPS_PER_BLOCK) {
        const warp_tile tile(p.tiling, index, p.OH, WARP * V);
        const uint32_t plane = tile.plane;
        const int rows = tile.rows, ow = tile.ow + lane * V;
        const int channel = (int)(plane - p.channels.quotient(plane) * p.channels.by);
        ring_of_rows ring;
        ring.begin(slots[threadIdx.x / WARP],
                   p.x + (int64_t)p.multiplier.quotient(plane) * p.H * p.W, p.H, p.W,
                   tile.oh - p.pad_top, rows - 1 + KH, tile.ow - p.pad_left);

        accumulator_of<T> w[KH * KW], sums[KH][V], not_finite = 0;
        /* not_finite is 0, or NaN where a weight is NaN or infinite. */
#pragma unroll
        for (int tap = 0; tap < KH * KW; tap++) {
            w[tap] = p.w[(int64_t)channel * (KH * KW) + (p.rotated ? KH * KW - 1 - tap : tap)];
            not_finite += w[tap] * 0;
        }
        const T bias = p.last.bias == nullptr ? (T)0 : p.last.bias[channel];
        int64_t row_offset = (int64_t)plane * p.OH * p.OW + (int64_t)tile.oh * p.OW;

#pragma unroll 1
        for (int step = 0; step < rows + KH - 1; step += KH) {
            /* Unrolled, so that sums[] stays in registers. Step step + u reads a row of x and
             * begins its output row in sums[u], which is complete KH - 1 steps later. */
#pragma unroll
            for (int u = 0; u < KH; u++) {
                if (step + u >= rows + KH - 1)
                    break;
                T window[WINDOW];
                ring.next(window);
                /* The row meets tap row kh of the output row begun kh steps ago. */
#pragma unroll
                for (int kh = 0; kh < KH; kh++)
#pragma unroll
                    for (int kw = 0; kw < KW; kw++)
#pragma unroll
                        for (int v = 0; v < V; v++) {
                            accumulator_of<T> &sum = sums[(u + KH - kh) % KH][v];
                            const accumulator_of<T> tap = window[v + kw], weight = w[kh * KW + kw];
                            sum = kh == 0 && kw == 0 ? tap * weight : sum + tap * weight;
                        }
                if (step + u < KH - 1)
                    continue;
                T out[V];
#pragma unroll
                for (int v = 0; v < V; v++) {
                    out[v] = sums[(u + 1) % KH][v] + bias;
                    if (p.last.residual != nullptr && ow + v < p.OW)
                        out[v] += p.last.residual[row_offset + ow + v];
                }
                activate_all(p.last.activation, out);
                store_row(p.y + row_offset, out, lane, ow, p.OW);
                row_offset += p.OW;
            }
        }
        if (p.only_inside && not_finite != 0) {
            __syncwarp(); /* store_row lets a lane store columns of its neighbour */
            const T *const x = p.x + (int64_t)p.multiplier.quotient(plane) * p.H * p.W;
            const T *const first_tap =
                p.w + (int64_t)channel * (KH * KW) + (p.rotated ? KH * KW - 1 : 0);
            const int sign = p.rotated ? -1 : 1;
#pragma unroll 1
            for (int i = 0; i < rows * V; i++) {
                const int oh = tile.oh + i / V, column = ow + i % V;
                if (column < p.OW)
                    p.y[((int64_t)plane * p.OH + oh) * p.OW + column] = (T)sum_of_window<T>(
                        { x, first_tap, 1, 0, 0, p.H, p.W, oh - p.pad_top, column - p.pad_left, KH,
                          KW, 1, 1, sign * KW, sign, true });
            }
        }
    }
}

// ---- Launches of warp tiles ---------------------------------------------------------------------

/* The extents that there are kernels for, at stride 1. */
#define WARP_TILES(X) X(3, 3, 1) X(3, 1, 1) X(1, 3, 1) X(3, 7, 1)

/* Launches the kernel for weights of KH x KW. Where rows of x are aligned and the left padding is 0
 * or SAME, which keeps the width, they are copied to shared memory 16 bytes at a time, else one
 * element at a time. */
template <typename T, int KH, int KW>
static void run_warp_tiles_of(const talc_conv2d_problem *p, const depthwise_problem<T> &d,
                              cudaStream_t stream)
{
    constexpr int V = 16 / sizeof(T), SAME = (KW - 1) / 2;
    const bool aligned = p->W % V == 0 && is_aligned(d.x);
    auto kernel = &depthwise_warp_tiles<T, KH, KW, 0, false>;
    if (aligned && p->pad_left == 0)
        kernel = &depthwise_warp_tiles<T, KH, KW, 0, true>;
    else if constexpr (KH != KW) /* else rows of y are aligned too: columns */
        if (aligned && p->pad_left == SAME)
            kernel = &depthwise_warp_tiles<T, KH, KW, (V - SAME % V) % V, true>;
    kernel<<<d.tiling.blocks(), WARPS_PER_BLOCK * WARP, 0, stream>>>(d);
}

/* The columns of y that a warp computes. */
template <typename T> constexpr int64_t TILE_WIDTH = WARP *(16 / (int64_t)sizeof(T));

template <typename T>
static const char *plan_warp_tiles(const talc_device *device, const depthwise_pass *p,
                                   talc_plan *plan)
{
    const int64_t planes = p->N * p->OC, max = INT_MAX / 4;
    if (p->direction != TALC_FORWARD)
        return "the stride of an input gradient is not 1";
    if (!(false WARP_TILES(TALC_OR_IS_KERNEL)) || p->dilation_h != 1 || p->dilation_w != 1)
        return "there is no kernel of these extents, strides and dilations";
    if (p->OW < TILE_WIDTH<T> * 2 / 3)
        return "rows are short: most lanes would idle";
    if (p->KH == p->KW && p->OW % (VECTOR_BYTES / sizeof(T)) == 0)
        return "columns are faster where all rows of y are aligned";
    const int64_t height = p->KH * p->KW <= 9 ? 8 : 16; /* at most */
    warp_tiling tiling;
    if (planes > max || !planes_fit(p, max) ||
        !tiling.cut(device, planes, p->OH, p->OW, TILE_WIDTH<T>, height))
        return "there are more than 2^31 - 1 tiles, or 2^29 elements of a plane";
    talc_plan_store(plan, &tiling, sizeof tiling);
    return NULL;
}

template <typename T>
static void run_warp_tiles(talc_device *device, const depthwise_pass *p, const talc_plan *plan,
                           const talc_conv2d_arguments *a)
{
    depthwise_problem<T> d = { plane_sizes(p),
                               (const T *)a->x,
                               (const T *)a->w,
                               (T *)a->y,
                               epilogue<T>(a->bias, a->residual, p->activation),
                               {},
                               {},
                               own_plan<warp_tiling>(plan),
                               p->rotated,
                               p->only_inside };
    d.channels.set(p->OC);
    d.multiplier.set(p->OC / p->C);
#define RUN(KH, KW, S)                                                                             \
    if (false TALC_OR_IS_KERNEL(KH, KW, S))                                                        \
        run_warp_tiles_of<T, KH, KW>(p, d, talc_cuda_stream(device));
    WARP_TILES(RUN)
}

// ---- The algorithms -----------------------------------------------------------------------------

static const char *refuses(const talc_conv2d_problem *p)
{
    if (p->groups != p->C)
        return "groups is not the number of input channels";
    return p->padding_mode != TALC_PADDING_ZEROS ? "the padding is not zeros" : NULL;
}

template <typename Of> static auto with_pass(const talc_conv2d_problem *p, Of of)
{
    const depthwise_pass pass(p);
    return of(&pass);
}

/* What a form takes on an H200: seconds that it waits whatever the problem, of a tap of the first
 * tile, and of an output and a product of all tiles, which are so many columns wide. */
struct form_cost {
    double waits, tap, output, product;
    int64_t width;
};

constexpr form_cost OF_REGISTER_TILES = { 1.2e-6, 58e-9, 0, 0.08e-12, SIDE },
                    OF_WARP_TILES = { 2e-6, 0, 0, 0.1e-12, 1 },
                    OF_COLUMNS = { 1.6e-6, 0, 1.6e-12, 0.068e-12, 4 };

/* Forms move the same bytes, at 0.9 of the rate of a copy, or 0.76 where rows end within a form's
 * width, unless computing takes longer. */
static const char *plan_form(const talc_device *device, const talc_conv2d_problem *p,
                             const form_cost &cost, const char *refusal, talc_plan *plan)
{
    if (refusal != NULL)
        return refusal;
    const double outputs = (double)p->N * (double)p->OC * (double)p->OH *
                           (double)(talc_ceil_div(p->OW, cost.width) * cost.width),
                 taps = (double)p->KH * (double)p->KW,
                 share = 132. / talc_cuda_state_of(device)->multiprocessors,
                 rate = p->OW % cost.width == 0 ? 0.9 : 0.76,
                 computing = outputs * (cost.output + taps * cost.product) * share;
    plan->seconds =
        fmax(talc_cuda_conv2d_seconds(device, p, INFINITY, talc_conv2d_bytes(p) / rate, 0),
             computing) +
        cost.waits + taps * cost.tap + TALC_CUDA_LAUNCH;
    return NULL;
}

/* `plan_it` stores the tiling in the plan, or returns why there is none. */
#define FORM(form, cost, plan_it)                                                                  \
    TALC_CUDA_FORM_F32(                                                                            \
        depthwise_##form,                                                                          \
        with_pass(p,                                                                               \
                  [&](const depthwise_pass *p) {                                                   \
                      return plan_form(device, p, cost,                                            \
                                       p->refuses() != NULL ? p->refuses() : plan_it, plan);       \
                  }),                                                                              \
        (with_pass(p,                                                                              \
                   [&](const depthwise_pass *pass) {                                               \
                       const talc_conv2d_arguments operands = depthwise_operands(p, a);            \
                       run_##form<T>(device, pass, plan, &operands);                               \
                   }),                                                                             \
         talc_cuda_launched(device, "conv2d")))
FORM(register_tiles, OF_REGISTER_TILES, plan_register_tiles<T>(p, plan))
FORM(warp_tiles, OF_WARP_TILES, plan_warp_tiles<T>(device, p, plan))
FORM(columns, OF_COLUMNS, plan_columns<T>(device, p, plan))
TALC_CUDA_FORM(depthwise_polyphase,
               refuses(p) != NULL ? refuses(p) : plan_polyphase<T>(device, p, plan),
               (run_polyphase<T>(device, p, plan, a), talc_cuda_launched(device, "conv2d")))
