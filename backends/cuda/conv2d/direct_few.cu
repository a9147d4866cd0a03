/// Direct convolution of few input channels, as those of images: a network's first layer. Its sums
/// are short, so that in tiles of a matrix product most of the work would be padding and packing.
///
///     a thread    CHANNELS output channels at COLUMNS columns beside each other of ROWS rows
///     a warp      `across` threads beside each other, the others below
///     a block     8 warps: groups of channels, times rows below
///
/// All of x that a block reads and the weights of its channels are in shared memory at once. The
/// columns of x stand there by their phase, column % STRIDE, so that what a tap reads for columns
/// of y beside each other are elements beside each other, 16 bytes at a time:
///
///     x                   0 1 2 3 4 5 6 7 8 9
///     in shared memory    0 2 4 6 8 . . .  1 3 5 7 9 . . .        at stride 2
///
/// A sum takes its products by input channel, row, phase and column of the kernel. Products with
/// padding are products with zero, by the formula.
#include "backends/cuda/conv2d/form.cuh"
#include "backends/cuda/conv2d/plane_sizes.cuh"
#include "backends/cuda/device/estimate.h"
#include "backends/cuda/primitives/epilogue.cuh"
#include "backends/cuda/primitives/shared_copy.cuh"
#include "tensor/extent.h"

#include <cmath>

using namespace talc;

constexpr int CHANNELS = 8, COLUMNS = VECTOR_BYTES / sizeof(float), ROWS = 2, WARPS = BLOCK / WARP;
constexpr int64_t MAX_INPUTS = 4, MAX_TAPS = 64, SHARED_BYTES = 110 << 10;

struct few_tiles {
    int across, channel_warps; /* threads of a warp; warps of a block */
    int rows, x_rows;          /* of y and of x, of a block */
    int x_columns, pitch;      /* of x, and elements from phase to phase of a row */
    int64_t channel_tiles, column_tiles, row_tiles, blocks;
    size_t shared;

    bool cut(const talc_conv2d_problem *p)
    {
        across = 4;
        while (across < WARP && across * COLUMNS < p->OW)
            across *= 2;
        /* The channels that do not exist, of the last tile, should be few. */
        channel_warps = WARPS;
        for (int warps = WARPS / 2; warps > 0; warps /= 2)
            if (talc_round_up(p->OC, warps * CHANNELS) <
                talc_round_up(p->OC, channel_warps * CHANNELS))
                channel_warps = warps;
        rows = WARPS / channel_warps * (WARP / across) * ROWS;
        x_rows = (int)((rows - 1) * p->stride_h + p->KH);
        x_columns = (int)((across * COLUMNS - 1) * p->stride_w + p->KW);
        pitch = across * COLUMNS + (int)talc_round_up((p->KW - 1) / p->stride_w, COLUMNS);
        channel_tiles = talc_ceil_div(p->OC, channel_warps * CHANNELS);
        column_tiles = talc_ceil_div(p->OW, across * COLUMNS);
        row_tiles = talc_ceil_div(p->OH, rows);
        blocks = p->N * channel_tiles * column_tiles * row_tiles;
        shared = (size_t)(p->C * (p->KH * p->KW * channel_warps * CHANNELS +
                                  x_rows * p->stride_w * pitch)) *
                 sizeof(float);
        return shared <= SHARED_BYTES && blocks <= INT_MAX;
    }
};

struct few_problem : plane_sizes {
    const float *x, *w;
    float *y;
    epilogue<float> last;
    int C, OC, KH;
    few_tiles t;
    bool vectors; /* rows of y begin at 16 bytes */
    divisor<uint32_t> channel_tiles, column_tiles, row_tiles;
};

template <int KW, int STRIDE>
static __global__ void __launch_bounds__(BLOCK, 2)
    few_channels(const __grid_constant__ few_problem p)
{
    extern __shared__ __align__(VECTOR_BYTES) float few_shared[];
    const few_tiles &t = p.t;
    const int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP;
    const int channels = t.channel_warps * CHANNELS, taps = p.C * p.KH * KW;
    float *const weights = few_shared, *const rows = weights + taps * channels;

    const uint32_t column_tile = p.channel_tiles.quotient(blockIdx.x),
                   row_tile = p.column_tiles.quotient(column_tile),
                   image = p.row_tiles.quotient(row_tile);
    const int channel = (int)(blockIdx.x - column_tile * p.channel_tiles.by) * channels;
    const int ow = (int)(column_tile - row_tile * p.column_tiles.by) * t.across * COLUMNS;
    const int oh = (int)(row_tile - image * p.row_tiles.by) * t.rows;

    for (int i = (int)threadIdx.x; i < taps * channels; i += BLOCK) {
        const int tap = i / channels, oc = channel + i - tap * channels;
        const int real = oc < p.OC ? (int)sizeof(float) : 0;
        begin_copy<sizeof(float)>(weights + i, p.w + (real > 0 ? (int64_t)oc * taps + tap : 0),
                                  real);
    }
    const float *const x = p.x + (int64_t)image * p.C * p.H * p.W;
    for (int line = warp; line < p.C * t.x_rows; line += WARPS) {
        const int c = line / t.x_rows, h = oh * STRIDE - p.pad_top + line - c * t.x_rows;
        const float *const from = x + ((int64_t)c * p.H + h) * p.W;
#pragma unroll 4
        for (int i = lane; i < t.x_columns; i += WARP) {
            const int w = ow * STRIDE - p.pad_left + i;
            const bool inside = (unsigned)h < (unsigned)p.H && (unsigned)w < (unsigned)p.W;
            begin_copy<sizeof(float)>(rows + (line * STRIDE + i % STRIDE) * t.pitch + i / STRIDE,
                                      inside ? from + w : x, inside ? (int)sizeof(float) : 0);
        }
    }
    __pipeline_commit();
    wait_for_copies();

    const int down = lane / t.across, column = (lane - down * t.across) * COLUMNS;
    const int row = (warp / t.channel_warps * (WARP / t.across) + down) * ROWS;
    const int first = warp % t.channel_warps * CHANNELS;
    float sums[ROWS][CHANNELS][COLUMNS] = {};
    const float *w = weights + first;
#pragma unroll 1
    for (int c = 0; c < p.C; c++) {
        const float *from = rows + (c * t.x_rows + row * STRIDE) * STRIDE * t.pitch + column;
#pragma unroll 1
        for (int kh = 0; kh < p.KH; kh++, from += STRIDE * t.pitch, w += KW * channels)
#pragma unroll
            for (int phase = 0; phase < STRIDE && phase < KW; phase++) {
                constexpr int COUNT = (COLUMNS + (KW - 1) / STRIDE + COLUMNS - 1) / COLUMNS;
                float window[ROWS][COUNT * COLUMNS];
#pragma unroll
                for (int r = 0; r < ROWS; r++)
#pragma unroll
                    for (int k = 0; k < COUNT; k++)
                        *(float4 *)&window[r][k * COLUMNS] =
                            *(const float4 *)(from + (r * STRIDE * STRIDE + phase) * t.pitch +
                                              k * COLUMNS);
#pragma unroll
                for (int kw = phase; kw < KW; kw += STRIDE)
#pragma unroll
                    for (int k = 0; k < CHANNELS; k += COLUMNS) {
                        const vec<float, COLUMNS> its =
                            *(const vec<float, COLUMNS> *)(w + kw * channels + k);
#pragma unroll
                        for (int v = 0; v < COLUMNS; v++)
#pragma unroll
                            for (int r = 0; r < ROWS; r++)
#pragma unroll
                                for (int j = 0; j < COLUMNS; j++)
                                    sums[r][k + v][j] += window[r][kw / STRIDE + j] * its.of[v];
                    }
            }
    }

    const int columns = min(p.OW - ow - column, COLUMNS);
#pragma unroll
    for (int k = 0; k < CHANNELS; k++) {
        const int oc = channel + first + k;
        if (oc >= p.OC || columns <= 0)
            return;
        const float bias = p.last.bias == nullptr ? 0 : p.last.bias[oc];
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            if (oh + row + r >= p.OH)
                break;
            const int64_t at =
                (((int64_t)image * p.OC + oc) * p.OH + oh + row + r) * p.OW + ow + column;
#pragma unroll
            for (int j = 0; j < COLUMNS; j++) {
                sums[r][k][j] += bias;
                if (p.last.residual != nullptr && j < columns)
                    sums[r][k][j] += p.last.residual[at + j];
            }
            activate_all(p.last.activation, sums[r][k]);
            if (p.vectors && columns == COLUMNS)
                *(float4 *)(p.y + at) = *(const float4 *)sums[r][k];
            else
#pragma unroll
                for (int j = 0; j < COLUMNS; j++)
                    if (j < columns)
                        p.y[at + j] = sums[r][k][j];
        }
    }
}

// ---- The plan -----------------------------------------------------------------------------------

using few_kernel = void (*)(const few_problem);

/* Those that networks have; NULL: there is none. */
static few_kernel kernel_of(const talc_conv2d_problem *p)
{
    if (p->stride_w > 9)
        return NULL;
    switch (p->KW * 10 + p->stride_w) {
    case 31:
        return few_channels<3, 1>;
    case 32:
        return few_channels<3, 2>;
    case 42:
        return few_channels<4, 2>;
    case 44:
        return few_channels<4, 4>;
    case 51:
        return few_channels<5, 1>;
    case 72:
        return few_channels<7, 2>;
    default:
        return NULL;
    }
}

static const char *refuses(const talc_conv2d_problem *p)
{
    if (p->dtype != TALC_F32)
        return "the data is not f32";
    if (p->groups != 1 || p->C > MAX_INPUTS)
        return "there are groups, or more than 4 input channels";
    if (p->stride_h != p->stride_w || p->KH * p->KW > MAX_TAPS || kernel_of(p) == NULL)
        return "there is no kernel of these extents and strides";
    if (p->dilation_h != 1 || p->dilation_w != 1)
        return "a dilation is not 1";
    if (p->padding_mode != TALC_PADDING_ZEROS || p->only_inside)
        return "padding is no zeros that are multiplied";
    return planes_fit(p, INT_MAX / 8) ? NULL : "a plane passes 2^28";
}

/* Of an H200: a multiprocessor issues 3 warp instructions a clock cycle of a block's copies and
 * products; blocks wait for their copies, the first of them alone. */
static double seconds(const talc_device *device, const talc_conv2d_problem *p, const few_tiles &t)
{
    constexpr double CLOCK = 1.75e9, RATE = 3, WAITS = 2.5e-6, COPY = 10, START = 1300;
    const double multiprocessors = talc_cuda_state_of(device)->multiprocessors;
    const double taps = (double)(p->C * p->KH * p->KW);
    const double copies = taps * t.channel_warps * CHANNELS + (double)p->C * t.x_rows * t.x_columns;
    const double block =
        WARPS * (taps * CHANNELS * COLUMNS * ROWS * 1.1 + START) + copies / WARP * COPY;
    const double computing = ceil((double)t.blocks / multiprocessors) * block / RATE / CLOCK;
    const double moving =
        talc_cuda_conv2d_seconds(device, p, INFINITY, talc_conv2d_bytes(p) / 0.8, 0);
    return fmax(computing, moving) + WAITS + TALC_CUDA_LAUNCH;
}

static const char *plan_few(const talc_device *device, const talc_conv2d_problem *p,
                            talc_plan *plan)
{
    few_tiles tiles;
    if (refuses(p) != NULL)
        return refuses(p);
    if (!tiles.cut(p) || shared_up_to(device, SHARED_BYTES) < (int64_t)tiles.shared)
        return "a tile does not fit shared memory";
    plan->seconds = seconds(device, p, tiles);
    talc_plan_store(plan, &tiles, sizeof tiles);
    return NULL;
}

static talc_status run_few(talc_device *device, const talc_conv2d_problem *p,
                           const few_tiles &tiles, const talc_conv2d_arguments *a)
{
    few_problem f = { plane_sizes(p),
                      (const float *)a->x,
                      (const float *)a->w,
                      (float *)a->y,
                      epilogue<float>(a->bias, a->residual, p->activation),
                      (int)p->C,
                      (int)p->OC,
                      (int)p->KH,
                      tiles,
                      p->OW % COLUMNS == 0 && (uintptr_t)a->y % VECTOR_BYTES == 0,
                      {},
                      {},
                      {} };
    f.channel_tiles.set(tiles.channel_tiles), f.column_tiles.set(tiles.column_tiles);
    f.row_tiles.set(tiles.row_tiles);
    const few_kernel kernel = kernel_of(p);
    const cudaError_t error = allow_shared(kernel, shared_up_to(device, SHARED_BYTES));
    if (error != cudaSuccess)
        return talc_cuda_not_launched(device, "conv2d", error);
    kernel<<<(unsigned)tiles.blocks, BLOCK, tiles.shared, talc_cuda_stream(device)>>>(f);
    return talc_cuda_launched(device, "conv2d");
}

TALC_CUDA_FORM(direct_few, plan_few(device, p, plan),
               run_few(device, p, own_plan<few_tiles>(plan), a))
TALC_CUDA_FORM_NONE(direct_few_gradient, "it has no gradients")
