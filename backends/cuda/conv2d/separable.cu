/// A depthwise convolution and the 1x1 convolution of its result in one launch.
///
///     m[n, c, h, w]  = act1( b1[c] + sum over kh, kw of x[n, c, h - top + kh, w - K/2 + kw] * w1[c, kh, kw] ),    x is 0 outside
///     y[n, oc, h, w] = act2( b2[oc] + r[n, oc, h, w] + sum over c of w2[oc, c] * m[n, c, h, w] )
///
/// Apart, the two write m to memory and read it again, which is most of what they do. Here m goes from the registers that compute
/// it to the tensor cores that multiply it.
///
/// Who computes what: pointwise_mma's kernel, whose threads have 4 neighbouring positions of a channel. Instead of loading them a thread
/// computes them by FMA, from KH rows of four elements of x each, which it loads, and their neighbours, which the threads of its warp beside
/// it have. A block walks down a strip of an image, so that the first-level cache keeps the rows that are read again.
///
/// Arithmetic: f32 FMA for m; as pointwise_mma for y.
#include "backends/cuda/conv2d/pointwise_mma.cuh"
#include "backends/cuda/conv2d/rows.h"
#include "backends/cuda/device/counter.h"
#include "backends/cuda/device/estimate.h"
#include "ops/separable_conv2d.h"

using namespace talc;

/* Channels whose sums stay in registers. */
constexpr int64_t MOST_CHANNELS = 128;
/* Columns of a strip: three of its rows, of 64 channels, stay in the first-level cache. */
constexpr int64_t STRIP = 128;

/// K x K kernels that keep the width, at stride 1.
template <int K> struct depthwise_source {
    static constexpr bool VECTORS = true, COMPUTES = true;
    static constexpr int TAPS =
        (K * K + 4) / 4 *
        4; ///< floats of a channel in shared memory: its weights and its bias, whole vectors
    const float *x, *w1, *b1;
    int C, H, W, OH, top;
    bool aligned; ///< x's rows
    talc_activation activation;
    int strip;
    divisor<uint32_t> by_strip, by_strip_plane;

    struct place {
        const float
            *at; ///< the first channel's element of the first row and the first of the columns
        int row, column;
    };
    /// Pixels are numbered strip by strip.
    __device__ int pixel_of(int number) const
    {
        const int s = (int)by_strip_plane.quotient((uint32_t)number),
                  rest = number - s * strip * OH;
        const int row = (int)by_strip.quotient((uint32_t)rest);
        return row * W + s * strip + rest - row * strip;
    }
    __device__ const float *keep(char *to) const
    {
        float *own = (float *)to;
        for (int i = (int)threadIdx.x; i < C * TAPS; i += (int)blockDim.x) {
            const int c = i / TAPS, tap = i % TAPS;
            own[i] = tap < K * K                     ? w1[c * (K * K) + tap]
                     : tap == K * K && b1 != nullptr ? b1[c]
                                                     : 0;
        }
        return own;
    }
    __device__ void find(place &from, int, int n, int pixel, int channel) const
    {
        const int oh = pixel / W;
        from.row = oh - top, from.column = pixel - oh * W;
        from.at = x + (((int64_t)n * C + channel) * H + from.row) * W + from.column;
    }
    /// A row of a channel: four elements, and of the first and last thread of four the K / 2 before or behind them.
    struct part {
        float four[FOUR], beside[K / 2];
    };
    /// Those of a few neighbouring channels, all under way at a time.
    template <bool ALIGNED, int CHANNELS>
    __device__ __forceinline__ void load_rows(part (&rows)[CHANNELS][K], const place &from,
                                              int channel, int left) const
    {
        const int lane = (int)threadIdx.x % WARP;
        const bool has_beside = lane < 4     ? from.column > 0
                                : lane >= 28 ? from.column + FOUR < W
                                             : false;
        const float *at = from.at + (int64_t)channel * H * W;
#pragma unroll
        for (int i = 0; i < CHANNELS; i++, at += (int64_t)H * W)
#pragma unroll
            for (int kh = 0; kh < K; kh++) {
                const bool inside = channel + i < left && (unsigned)(from.row + kh) < (unsigned)H;
                const float *row = at + kh * W;
                part &v = rows[i][kh];
                if (ALIGNED) {
                    const float4 four = inside ? __ldg((const float4 *)row) : float4{};
                    v.four[0] = four.x, v.four[1] = four.y, v.four[2] = four.z, v.four[3] = four.w;
                } else {
#pragma unroll
                    for (int q = 0; q < FOUR; q++)
                        v.four[q] = inside ? __ldg(row + q) : 0;
                }
                row += lane < 4 ? -(K / 2) : FOUR;
#pragma unroll
                for (int k = 0; k < K / 2; k++)
                    v.beside[k] = inside && has_beside ? __ldg(row + k) : 0;
            }
    }
    /// The sums of four positions, of rows in the order of kh.
    __device__ __forceinline__ void add_rows(const part (&rows)[K], const float (&w)[TAPS],
                                             int column, float (&sums)[FOUR]) const
    {
        constexpr int SIDE = K / 2;
        const int g = (int)threadIdx.x % WARP / 4;
#pragma unroll
        for (int kh = 0; kh < K; kh++) {
            const part &r = rows[kh];
            float v[FOUR + K - 1];
#pragma unroll
            for (int q = 0; q < FOUR; q++)
                v[SIDE + q] = r.four[q];
#pragma unroll
            for (int i = 0; i < SIDE; i++) {
                const float left = __shfl_up_sync(~0u, r.four[FOUR - SIDE + i], 4),
                            right = __shfl_down_sync(~0u, r.four[i], 4);
                v[i] = g == 0 ? r.beside[i] : column == 0 ? 0 : left;
                v[SIDE + FOUR + i] = g == 7 ? r.beside[i] : column + FOUR == W ? 0 : right;
            }
#pragma unroll
            for (int q = 0; q < FOUR; q++)
#pragma unroll
                for (int kw = 0; kw < K; kw++)
                    sums[q] += v[q + kw] * w[kh * K + kw];
        }
    }
    template <int CHANNELS>
    __device__ __forceinline__ void load_some(part (&rows)[CHANNELS][K], const place &from,
                                              int channel, int left) const
    {
        if (aligned)
            load_rows<true>(rows, from, channel, left);
        else
            load_rows<false>(rows, from, channel, left);
    }
    /// Rows of several channels are under way while those before are multiplied.
    template <int COUNT>
    __device__ __forceinline__ void load(float (&v)[COUNT][FOUR], place &from, int left,
                                         const float *own) const
    {
        constexpr int AT_A_TIME = K == 3 ? 2 : 1;
        const float *w = own + (int)threadIdx.x % 4 * 4 * TAPS;
        part next[AT_A_TIME][K];
        load_some(next, from, 0, left);
#pragma unroll
        for (int first = 0; first < COUNT; first += AT_A_TIME) {
            part rows[AT_A_TIME][K];
#pragma unroll
            for (int i = 0; i < AT_A_TIME * K; i++)
                rows[i / K][i % K] = next[i / K][i % K];
            const int then = first + AT_A_TIME;
            if (then < COUNT)
                load_some(next, from, then / 4 * STEP + then % 4, left);
#pragma unroll
            for (int i = 0; i < AT_A_TIME; i++) {
                const int channel = (first + i) / 4 * STEP + (first + i) % 4;
                float weights[TAPS];
#pragma unroll
                for (int k = 0; k < TAPS; k += 4) {
                    const float4 four =
                        channel < left ? *(const float4 *)(w + channel * TAPS + k) : float4{};
                    weights[k] = four.x, weights[k + 1] = four.y, weights[k + 2] = four.z,
                    weights[k + 3] = four.w;
                }
                float(&sums)[FOUR] = v[first + i];
#pragma unroll
                for (int q = 0; q < FOUR; q++)
                    sums[q] = weights[K * K];
                add_rows(rows[i], weights, from.column, sums);
            }
        }
        with_activation<float>(activation, [&](auto activate) {
#pragma unroll
            for (int i = 0; i < COUNT * FOUR; i++)
                v[i / FOUR][i % FOUR] = activate(v[i / FOUR][i % FOUR]);
        });
        if (!is_clamp(activation)) /* of those that are not there, 0 */
#pragma unroll
            for (int i = 0; i < COUNT * FOUR; i++)
                if (i / FOUR / 4 * STEP + i / FOUR % 4 >= left)
                    v[i / FOUR][i % FOUR] = 0;
    }
    __device__ float sum(const float *w, int n, int pixel, int, int count) const
    {
        const int oh = pixel / W, ow = pixel - oh * W;
        float sum = 0;
        for (int c = 0; c < count; c++) {
            float m = 0;
            for (int kh = 0; kh < K; kh++)
                for (int kw = 0; kw < K; kw++) {
                    const int h = oh - top + kh, column = ow - K / 2 + kw;
                    const bool inside = (unsigned)h < (unsigned)H && (unsigned)column < (unsigned)W;
                    m += (inside ? x[(((int64_t)n * C + c) * H + h) * W + column] : 0) *
                         w1[(c * K + kh) * K + kw];
                }
            m += b1 != nullptr ? b1[c] : 0;
            sum += w[c] * talc_activate(activation, m);
        }
        return sum;
    }
};

// ---- The rows -------------------------------------------------------------------------------------------------

static int steps_of(const talc_conv2d_problem *p)
{
    const int64_t steps = talc_ceil_div(p->C, STEP);
    return steps > 4 ? 8 : steps > 2 ? 4 : 2;
}

template <int PRODUCTS>
static size_t shared_bytes(const talc_conv2d_problem *first, const talc_conv2d_problem *second)
{
    const int range = (int)(talc_ceil_div(second->OC, EIGHT) * EIGHT), K = (int)first->KH;
    return (size_t)pointwise_bytes<PRODUCTS>(range, steps_of(second)) +
           (size_t)(first->C * ((K * K + 4) / 4 * 4)) * 4;
}

/* Memory, or the instructions of a warp's tile, as measured on an H200. */
static double seconds(const talc_device *device, const talc_conv2d_problem *first,
                      const talc_conv2d_problem *second, int products)
{
    constexpr double CLOCK = 1.7e9;
    const double steps = steps_of(second), K = (double)first->KH;
    const double tiles = (double)second->N * (double)(second->H * second->W) / POSITIONS;
    const double cycles =
        steps * 61 * K * K + (double)second->OC / EIGHT * (steps * products * 3.2 + 35);
    const double computing = tiles * cycles / (CLOCK * talc_cuda_state_of(device)->multiprocessors);
    const double moving = (talc_conv2d_bytes(second) +
                           4. * (double)(first->N * first->C) * (double)(first->H * first->W) -
                           4. * (double)(second->N * second->C) * (double)(second->H * second->W)) /
                          (0.8 * talc_cuda_bytes_a_second());
    return (computing > moving ? computing : moving) + 5e-6 + TALC_CUDA_LAUNCH;
}

template <int PRODUCTS>
static const char *plan_of(const talc_device *device, const void *problem, size_t, talc_plan *plan)
{
    const talc_separable_conv2d_problem *both = (const talc_separable_conv2d_problem *)problem;
    const talc_conv2d_problem *p = &both->depthwise, *second = &both->pointwise;
    if (p->dtype != TALC_F32)
        return "the data is not f32";
    if (talc_cuda_state_of(device)->capability < 80)
        return "the GPU is older than compute capability 8.0";
    if (p->KH != p->KW || (p->KH != 3 && p->KH != 5))
        return "the kernel is neither 3x3 nor 5x5";
    if (p->stride_h != 1 || p->stride_w != 1)
        return "the stride is not 1";
    if (p->dilation_h != 1 || p->dilation_w != 1)
        return "the dilation is not 1";
    if (p->padding_mode != TALC_PADDING_ZEROS)
        return "the padding is not zeros";
    if (p->pad_left != p->KW / 2 || p->pad_right != p->KW / 2)
        return "the padding does not keep columns in place";
    if (p->W % FOUR != 0)
        return "the width is not a multiple of 4";
    if (PRODUCTS == 3 && p->C < LEAST_PRODUCTS)
        return "sums of fewer than 16 products";
    if (p->C > MOST_CHANNELS)
        return "more than 128 channels";
    if (p->N * p->C * second->OC * p->H * p->W == 0)
        return "it is empty";
    if (second->OC > INT_MAX / 64 || p->H * p->W > INT_MAX / 64 || p->OH * p->W > INT_MAX / 64 ||
        p->pad_top > INT_MAX / 64 || p->N > (INT_MAX - 4 * POSITIONS) / (p->OH * p->W))
        return "an extent is too large";
    if (shared_bytes<PRODUCTS>(p, second) > (size_t)most_shared(device))
        return "the weights do not fit shared memory";
    plan->seconds = seconds(device, p, second, PRODUCTS);
    return NULL;
}

template <int PRODUCTS, int STEPS, int K>
static talc_status launch(talc_device *device, const talc_separable_conv2d_problem *both,
                          const talc_separable_conv2d_arguments *a)
{
    using source = depthwise_source<K>;
    constexpr int THREADS = POINTWISE_THREADS<source, STEPS, false>, WARPS = THREADS / WARP;
    const talc_conv2d_problem *p = &both->depthwise, *second = &both->pointwise;
    const int64_t plane = p->OH * p->W;
    int64_t strip = p->W;
    for (int64_t s = STRIP; strip > STRIP && s >= POSITIONS; s /= 2)
        if (p->W % s == 0)
            strip = s;
    pointwise_problem<source> g = {};
    g.source.x = (const float *)a->x, g.source.w1 = (const float *)a->w1,
    g.source.b1 = (const float *)a->b1;
    g.source.C = (int)p->C, g.source.H = (int)p->H, g.source.W = (int)p->W;
    g.source.OH = (int)p->OH, g.source.top = (int)p->pad_top, g.source.strip = (int)strip;
    g.source.aligned = is_aligned(a->x), g.source.activation = p->activation;
    g.source.by_strip.set(strip), g.source.by_strip_plane.set(strip * p->OH);
    g.w = (const float *)a->w2, g.y = (float *)a->y;
    g.recomputed = talc_cuda_recomputed(device);
    g.last = epilogue<float>(a->b2, a->residual, second->activation);
    g.group_in = (int)p->C, g.group_out = g.OC = (int)second->OC;
    g.plane = (int)plane, g.positions = (int)(p->N * plane);
    g.aligned = is_aligned(a->y) && is_aligned(a->residual);
    g.steps = STEPS, g.range = (int)(talc_ceil_div(second->OC, EIGHT) * EIGHT), g.ranges = 1;
    g.coefficient = PRODUCTS == 3 ? 0x1p14f / (float)(g.group_in / 4 + 2) : 4;
    g.by_plane.set(plane);
    const int64_t tiles = talc_ceil_div(g.positions, POSITIONS);
    const int64_t share = talc_ceil_div(tiles, talc_cuda_state_of(device)->multiprocessors);
    g.apart = (int)(talc_ceil_div(share, WARPS) * WARPS), g.stride = WARPS;
    const auto kernel = &pointwise_mma_kernel<PRODUCTS, STEPS, false, source>;
    const cudaError_t error = allow_shared(kernel, most_shared(device));
    if (error != cudaSuccess)
        return talc_cuda_not_launched(device, "separable_conv2d", error);
    kernel<<<(unsigned)talc_ceil_div(tiles, g.apart), THREADS, shared_bytes<PRODUCTS>(p, second),
             talc_cuda_stream(device)>>>(g);
    return talc_cuda_launched(device, "separable_conv2d");
}

template <int PRODUCTS, int K>
static talc_status with_steps(talc_device *device, const talc_separable_conv2d_problem *both,
                              const talc_separable_conv2d_arguments *a)
{
    switch (steps_of(&both->pointwise)) {
    case 2:
        return launch<PRODUCTS, 2, K>(device, both, a);
    case 4:
        return launch<PRODUCTS, 4, K>(device, both, a);
    default:
        return launch<PRODUCTS, 8, K>(device, both, a);
    }
}

template <int PRODUCTS>
static talc_status run(talc_device *device, const void *problem, const talc_plan *,
                       const void *arguments)
{
    const talc_status status = talc_cuda_enter(device, "separable_conv2d");
    if (status != TALC_OK)
        return status;
    const talc_separable_conv2d_problem *both = (const talc_separable_conv2d_problem *)problem;
    const talc_separable_conv2d_arguments *a = (const talc_separable_conv2d_arguments *)arguments;
    return both->depthwise.KH == 3 ? with_steps<PRODUCTS, 3>(device, both, a)
                                   : with_steps<PRODUCTS, 5>(device, both, a);
}

const talc_algorithm talc_cuda_separable_conv2d[] = {
    { "pointwise_mma",
      { "f32 FMA, then f16 high and low parts on tensor cores, f32 sums", TALC_STRICT, false },
      plan_of<3>,
      run<3> },
    { "pointwise_tf32_mma",
      { "f32 FMA, then f16 on tensor cores, f32 sums", TALC_TF32, false },
      plan_of<1>,
      run<1> },
    {},
};
