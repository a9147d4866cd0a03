/// Convolution of a small problem in one launch: the sum of an output is split over the threads of
/// a block.
///
///     y[n, oc, oh, ow] = act( b[oc] + r[n, oc, oh, ow] + sum over ic, kh, kw of
///                             x[n, g*C/groups + ic, oh*stride_h - top + kh*dilation_h,
///                               ow*stride_w - left + kw*dilation_w]
///                             * w[oc, ic, kh, kw] ),      g = oc / (OC / groups),   x is 0 outside
///
/// Where there are few outputs, what takes time is not the arithmetic but waiting: for launches,
/// and for loads that nothing hides. So there is one launch, enough blocks for every
/// multiprocessor, and in each as many loads in flight as there can be.
///
/// Who computes what: a block has PIXELS neighbouring output pixels, of one image, and CHANNELS
/// output channels. Threads are PIXELS x splits; split s has kernel rows s, s + splits, ... of all
/// input channels, KW products each, and CHANNELS sums in registers. A thread loads the inputs of
/// its first kernel rows before it helps to copy the weights into shared memory, so that both are
/// in flight at once. At the end the splits of a warp are added by warp shuffles, those of the
/// eight warps through shared memory, in the order of the warps.
///
/// Arithmetic: the data's type, in an order that follows from the problem and the GPU's size.
#include "backends/cuda/primitives/dtype.cuh"
#include "backends/cuda/primitives/epilogue.cuh"
#include "backends/cuda/conv2d/form.cuh"
#include "backends/cuda/conv2d/window_sum.cuh"
#include "backends/cuda/device/estimate.h"

using namespace talc;

constexpr int WARPS = BLOCK / WARP;

/* Problems with more multiplications keep the GPU busy with tiles. */
constexpr double MAX_WORK = (double)(1 << 25);
/* The largest extent, so that 32 bits hold all coordinates, and the largest y and z of a grid. */
constexpr int64_t MAX_EXTENT = 1 << 20, MAX_GRID = 65535;
/* Shared memory that every launch may use without an attribute. */
constexpr int64_t MAX_SHARED = 48 << 10;

/* KW is the kernel's width, or 0 for any: then a kernel row counts as KW rows of a single
 * product. */
template <int KW> constexpr int ROW_TAPS = KW > 0 ? KW : 1;

/* Kernel rows whose inputs are loaded at a time. */
template <int KW> constexpr int ROWS_AHEAD = KW == 0 ? 8 : KW <= 3 ? 6 : 4;

template <typename T> struct split_problem {
    const T *x, *w;
    T *y;
    epilogue<T> last{ nullptr, nullptr, TALC_ACTIVATION_NONE };
    int H, W, KH, KW, OW, IC, OC; /* channels are a group's */
    int stride_h, stride_w, dilation_h, dilation_w, top, left;
    int kernel_rows, K, pixels;
    int groups;
    bool only_inside; ///< sums multiply no padding (ops/conv2d.h)
    divisor<uint32_t> by_OW, by_KH, by_KW;
};

template <typename T, int COUNT>
struct alignas(COUNT * sizeof(T) < 16 ? COUNT * sizeof(T) : 16) vector {
    T of[COUNT];
};

template <typename T, int KW, int PIXELS, int CHANNELS>
static __global__ void __launch_bounds__(BLOCK) split_kernel(const split_problem<T> p)
{
    constexpr int SPLITS = BLOCK / PIXELS, WIDTH = ROW_TAPS<KW>, AHEAD = ROWS_AHEAD<KW>;
    extern __shared__ __align__(16) unsigned char shared[];
    using sum_type = accumulator_of<T>;
    T *weights = (T *)shared; /* [K][CHANNELS] */
    const int t = (int)threadIdx.x, pixel_index = t % PIXELS, split = t / PIXELS;
    const int pixel = (int)blockIdx.x * PIXELS + pixel_index;
    const int first_channel = (int)blockIdx.y * CHANNELS;
    const int image = p.groups == 1 ? (int)blockIdx.z : (int)blockIdx.z / p.groups;
    const int g = (int)blockIdx.z - image * p.groups;
    const int64_t n = image;
    const int oh = (int)p.by_OW.quotient((uint32_t)pixel), ow = pixel - oh * p.OW;
    const bool inside = pixel < p.pixels;
    const int top = oh * p.stride_h - p.top, left = ow * p.stride_w - p.left;
    const int plane = p.H * p.W;
    const T *x = p.x + (n * p.groups + g) * p.IC * (int64_t)plane;

    T values[AHEAD][WIDTH];
    auto load = [&](int from) {
#pragma unroll
        for (int a = 0; a < AHEAD; a++) {
            const int kernel_row = from + a * SPLITS;
            int row = kernel_row, kw = 0;
            if (KW == 0) {
                row = (int)p.by_KW.quotient((uint32_t)kernel_row);
                kw = kernel_row - row * p.KW;
            }
            const int ic = (int)p.by_KH.quotient((uint32_t)row), kh = row - ic * p.KH;
            const int h = top + kh * p.dilation_h, w = left + kw * p.dilation_w;
            const bool live = inside && kernel_row < p.kernel_rows && (unsigned)h < (unsigned)p.H;
            const T *at = x + (int64_t)ic * plane + h * p.W;
#pragma unroll
            for (int i = 0; i < WIDTH; i++) {
                const int column = w + i * p.dilation_w;
                values[a][i] = live && (unsigned)column < (unsigned)p.W ? __ldg(at + column) : (T)0;
            }
        }
    };
    sum_type sums[CHANNELS] = {};
    auto multiply = [&](int from) {
#pragma unroll
        for (int a = 0; a < AHEAD; a++) {
            const int kernel_row = from + a * SPLITS;
            if (kernel_row >= p.kernel_rows)
                break;
#pragma unroll
            for (int i = 0; i < WIDTH; i++) {
                const vector<T, CHANNELS> w =
                    ((const vector<T, CHANNELS> *)weights)[kernel_row * WIDTH + i];
#pragma unroll
                for (int c = 0; c < CHANNELS; c++)
                    sums[c] += (sum_type)values[a][i] * (sum_type)w.of[c];
            }
        }
    };

    load(split);
    const T *w = p.w + ((int64_t)g * p.OC + first_channel) * p.K;
#pragma unroll 4
    for (int i = t; i < p.K * CHANNELS; i += BLOCK) {
        const int c = i % CHANNELS;
        weights[i] = first_channel + c < p.OC ? __ldg(w + (int64_t)c * p.K + i / CHANNELS) : (T)0;
    }
    __syncthreads();
    multiply(split);
    for (int from = split + AHEAD * SPLITS; from < p.kernel_rows; from += AHEAD * SPLITS) {
        load(from);
        multiply(from);
    }

    /* Lanes PIXELS apart are splits of one pixel. */
#pragma unroll
    for (int apart = PIXELS; apart < WARP; apart *= 2)
#pragma unroll
        for (int c = 0; c < CHANNELS; c++)
            sums[c] += __shfl_down_sync(0xffffffff, sums[c], apart);
    __syncthreads();                           /* the weights are done with */
    sum_type *split_sums = (sum_type *)shared; /* [WARPS][CHANNELS][PIXELS] */
    const int lane = t % WARP, warp = t / WARP;
    if (lane < PIXELS)
#pragma unroll
        for (int c = 0; c < CHANNELS; c++)
            split_sums[(warp * CHANNELS + c) * PIXELS + pixel_index] = sums[c];
    __syncthreads();
    for (int i = t; i < CHANNELS * PIXELS; i += BLOCK) {
        sum_type sum = split_sums[i];
#pragma unroll
        for (int v = 1; v < WARPS; v++)
            sum += split_sums[v * CHANNELS * PIXELS + i];
        const int channel = first_channel + i / PIXELS;
        const int out = pixel - pixel_index + i % PIXELS;
        if (channel < p.OC && out < p.pixels) {
            const int64_t oc = (int64_t)g * p.OC + channel;
            const int64_t at = (n * p.groups * p.OC + oc) * p.pixels + out;
            if (p.only_inside && sum != sum) {
                const int oh = (int)p.by_OW.quotient((uint32_t)out), ow = out - oh * p.OW;
                sum = sum_of_window<T>({ x, p.w + oc * p.K, p.IC, plane, (int64_t)p.KH * p.KW, p.H,
                                         p.W, oh * p.stride_h - p.top, ow * p.stride_w - p.left,
                                         p.KH, p.KW, p.dilation_h, p.dilation_w, p.KW, 1, true });
            }
            p.y[at] = talc_epilogue(p.last, sum, oc, at);
        }
    }
}

// ---- Launch -------------------------------------------------------------------------------------

/* Blocks of all images, groups, channels and pixels. */
static int64_t blocks_needed(const talc_conv2d_problem *p, int pixels, int channels)
{
    return p->N * p->groups * talc_ceil_div(p->OC / p->groups, channels) *
           talc_ceil_div(p->OH * p->OW, pixels);
}

template <typename T, int KW, int PIXELS, int CHANNELS>
static void launch(talc_device *device, const talc_conv2d_problem *p,
                   const talc_conv2d_arguments *a)
{
    split_problem<T> s;
    s.x = (const T *)a->x, s.w = (const T *)a->w, s.y = (T *)a->y;
    s.last = epilogue<T>(a->bias, a->residual, p->activation);
    s.H = (int)p->H, s.W = (int)p->W, s.KH = (int)p->KH, s.KW = (int)p->KW, s.OW = (int)p->OW;
    s.IC = (int)(p->C / p->groups), s.OC = (int)(p->OC / p->groups);
    s.stride_h = (int)p->stride_h, s.stride_w = (int)p->stride_w;
    s.dilation_h = (int)p->dilation_h, s.dilation_w = (int)p->dilation_w;
    s.top = (int)p->pad_top, s.left = (int)p->pad_left;
    s.K = s.IC * s.KH * s.KW, s.kernel_rows = s.K / ROW_TAPS<KW>;
    s.pixels = (int)(p->OH * p->OW);
    s.groups = (int)p->groups;
    s.only_inside = p->only_inside;
    s.by_OW.set(p->OW), s.by_KH.set(p->KH), s.by_KW.set(p->KW);
    const size_t weights = (size_t)s.K * CHANNELS * sizeof(T);
    constexpr size_t SUMS = WARPS * CHANNELS * PIXELS * sizeof(accumulator_of<T>);
    const size_t bytes = weights > SUMS ? weights : SUMS;
    const dim3 grid((unsigned)talc_ceil_div(s.pixels, PIXELS),
                    (unsigned)talc_ceil_div(s.OC, CHANNELS), (unsigned)(p->N * p->groups));
    split_kernel<T, KW, PIXELS, CHANNELS><<<grid, BLOCK, bytes, talc_cuda_stream(device)>>>(s);
}

constexpr int FEW = 4; /* channels */

/* As few blocks as give every multiprocessor one: larger ones load their operands for more
 * outputs. */
static int pixels_of(const talc_device *device, const talc_conv2d_problem *p)
{
    const int64_t multiprocessors = talc_cuda_state_of(device)->multiprocessors;
    const int64_t enough = multiprocessors - multiprocessors / 8;
    return blocks_needed(p, 32, FEW) >= enough ? 32 : blocks_needed(p, 16, FEW) >= enough ? 16 : 8;
}

/* Of a block; what the algorithm keeps of its plan. */
struct split_tiles {
    int pixels, channels;
};

/* Channels of a block of many. */
template <typename T> constexpr int MANY = sizeof(T) == 4 ? 8 : 4;

template <typename T>
static split_tiles tiles_of(const talc_device *device, const talc_conv2d_problem *p)
{
    const int64_t K = p->C / p->groups * p->KH * p->KW;
    if (MANY < T >> FEW &&
        blocks_needed(p, 32, MANY<T>) >= 4 * talc_cuda_state_of(device)->multiprocessors &&
        K * MANY<T> * (int64_t)sizeof(T) <= MAX_SHARED)
        return { 32, MANY<T> };
    return { pixels_of(device, p), FEW };
}

template <typename T, int KW>
static void launch_tiles(talc_device *device, const talc_conv2d_problem *p,
                         const split_tiles &tiles, const talc_conv2d_arguments *a)
{
    if (tiles.channels > FEW)
        launch<T, KW, 32, MANY<T>>(device, p, a);
    else if (tiles.pixels == 32)
        launch<T, KW, 32, FEW>(device, p, a);
    else if (tiles.pixels == 16)
        launch<T, KW, 16, FEW>(device, p, a);
    else
        launch<T, KW, 8, FEW>(device, p, a);
}

template <typename T>
static talc_status split(talc_device *device, const talc_conv2d_problem *p,
                         const split_tiles &tiles, const talc_conv2d_arguments *a)
{
    if (p->KW == 3)
        launch_tiles<T, 3>(device, p, tiles, a);
    else if (p->KW == 5)
        launch_tiles<T, 5>(device, p, tiles, a);
    else
        launch_tiles<T, 0>(device, p, tiles, a);
    return talc_cuda_launched(device, "conv2d");
}

/* Whether 32 bits hold every offset, and the grid is large enough. */
static bool is_narrow(const talc_conv2d_problem *p)
{
    const int64_t extents[] = { p->N,
                                p->C,
                                p->H,
                                p->W,
                                p->OC,
                                p->KH,
                                p->KW,
                                p->OH,
                                p->OW,
                                p->stride_h,
                                p->stride_w,
                                p->dilation_h,
                                p->dilation_w,
                                p->pad_top,
                                p->pad_left,
                                p->pad_bottom,
                                p->pad_right,
                                p->H * p->W,
                                p->KH * p->dilation_h,
                                p->KW * p->dilation_w };
    for (int64_t extent : extents)
        if (extent > MAX_EXTENT)
            return false;
    return p->N * p->groups <= MAX_GRID && p->OC / p->groups <= MAX_GRID;
}

static bool is_small(const talc_conv2d_problem *p)
{
    const double outputs = (double)p->N * (double)p->OC * (double)p->OH * (double)p->OW;
    return outputs * (double)(p->C / p->groups) * (double)(p->KH * p->KW) <= MAX_WORK;
}

/* As measured on an H200 over sums of 9 to 320 products: an output takes a time of its own and one
 * for each product, and x is read again for every four channels. Long sums of few outputs, up to
 * 1,152, wait for their loads: the longer the fewer threads share one. */
static double seconds(const talc_device *device, const talc_conv2d_problem *p)
{
    const double fours = (double)((p->OC / p->groups + 3) / 4);
    const double products = (double)(p->C / p->groups * p->KH * p->KW);
    const double outputs = (double)(p->N * p->groups) * (double)p->OH * (double)p->OW * fours * 4;
    const double read = (double)p->N * (double)p->C * (double)p->H * (double)p->W * fours *
                        (double)talc_dtype_size(p->dtype);
    const double work =
        talc_cuda_conv2d_seconds(device, p, INFINITY, read, 1) +
        outputs * (15e-12 + 0.1e-12 * products) * 132 / talc_cuda_state_of(device)->multiprocessors;
    const double rows = p->KW == 3 || p->KW == 5 ? products / (double)p->KW : products;
    const int pixels = pixels_of(device, p);
    const double waves =
        (double)blocks_needed(p, pixels, FEW) / (1.5 * talc_cuda_state_of(device)->multiprocessors);
    const double waits = TALC_CUDA_LAUNCH + rows * pixels * 0.6e-9 * (waves > 1 ? waves : 1);
    return work > waits ? work : waits;
}

template <typename T>
static const char *plan_split(const talc_device *device, const talc_conv2d_problem *p,
                              talc_plan *plan)
{
    if (p->padding_mode != TALC_PADDING_ZEROS)
        return "the padding is not zeros";
    if (!is_small(p))
        return "more than 2^25 multiplications";
    if (!is_narrow(p))
        return "an extent or a plane of x is above 2^20, or N * groups or OC / groups above 65,535";
    if (p->C / p->groups * p->KH * p->KW * 4 * (int64_t)sizeof(T) > MAX_SHARED)
        return "the weights of 4 channels do not fit shared memory";
    const split_tiles own = tiles_of<T>(device, p);
    plan->seconds = seconds(device, p);
    talc_plan_store(plan, &own, sizeof own);
    return NULL;
}

TALC_CUDA_FORM_F32(split, plan_split<T>(device, p, plan),
                   split<T>(device, p, own_plan<split_tiles>(plan), a))
