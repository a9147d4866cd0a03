/// Direct convolution: every output by its formula, many at a time.
///
///     y[n, oc, oh, ow] = act( b[oc] + r[n, oc, oh, ow] + sum over ic, kh, kw of
///                             x'[n, g*C/groups + ic, oh*stride_h - top + kh*dilation_h,
///                                ow*stride_w - left + kw*dilation_w]
///                             * w[oc, ic, kh, kw] ),      g = oc / (OC / groups)
///
/// `textbook` takes every problem: a thread computes one output pixel of OUTPUTS channels, or an
/// eighth of the products of each where there are few outputs.
///
/// `tiled` (direct_tiled.cuh), several times as fast, takes large problems with kernels 1, 3, 5, 7
/// or 9 wide at stride 1, dilated by up to 1,024, and 1, 3 or 7 wide at stride 2 across, undilated.
///
/// `small` (direct_small.cu) takes small images, of any number.
///
/// Sums are in the data's type by FMA in an order that follows from the problem and the GPU's size
/// alone.
#include "backends/cuda/primitives/dtype.cuh"
#include "backends/cuda/conv2d/direct_tiled.cuh"
#include "backends/cuda/conv2d/form.cuh"
#include "backends/cuda/device/estimate.h"

using namespace talc;

// ---- Every problem ------------------------------------------------------------------------------

/* Output channels of a thread, products of weights in shared memory at a time, loads of a thread at
 * a time. */
constexpr int OUTPUTS = 8, CHUNK = 256, AHEAD = 4;

struct textbook_plan {
    int64_t pixels, pixel_blocks, channel_blocks, blocks;
};

/* talc_window_source, the image itself first. */
static __device__ __forceinline__ int64_t source_of(talc_padding_mode mode, int64_t i,
                                                    int64_t extent)
{
    return (uint64_t)i < (uint64_t)extent ? i : talc_window_source(mode, i, extent);
}

/* The next products of one output pixel, in the order of channel, row and column of the kernel. */
template <typename T> struct window_walk {
    const T *plane; ///< of the first input channel
    int64_t top, left;
    int64_t ic, kh, kw, row;
    bool outside; ///< what next() gave last is padding

    __device__ void start(const talc_conv2d_problem &p, int64_t k)
    {
        const int64_t line = k / p.KW;
        kw = k - line * p.KW;
        ic = line / p.KH;
        kh = line - ic * p.KH;
        row = source_of(p.padding_mode, top + kh * p.dilation_h, p.H);
    }

    __device__ T next(const talc_conv2d_problem &p)
    {
        const int64_t column = source_of(p.padding_mode, left + kw * p.dilation_w, p.W);
        outside = row < 0 || column < 0;
        const T value = outside ? (T)0 : plane[(ic * p.H + row) * p.W + column];
        if (++kw == p.KW) {
            kw = 0;
            if (++kh == p.KH) {
                kh = 0;
                ic++;
            }
            row = source_of(p.padding_mode, top + kh * p.dilation_h, p.H);
        }
        return value;
    }
};

/* A block has BLOCK / SPLITS pixels. With SPLITS above 1, for problems that have few, every thread
 * adds up that part of each chunk, and the parts are added in order. */
template <typename T, int SPLITS>
static __global__ void __launch_bounds__(BLOCK)
    textbook(const talc_conv2d_problem p, const textbook_plan plan, const T *x, const T *w, T *y,
             const epilogue<T> last)
{
    constexpr int PIXELS = BLOCK / SPLITS, PART = CHUNK / SPLITS;
    using sum_type = accumulator_of<T>;
    __shared__ sum_type weights[CHUNK][OUTPUTS];
    const int64_t IC = p.C / p.groups, OC = p.OC / p.groups, K = IC * p.KH * p.KW;
    const int split = (int)threadIdx.x / PIXELS, place = (int)threadIdx.x % PIXELS;
    for (int64_t block = blockIdx.x; block < plan.blocks; block += gridDim.x) {
        int64_t rest = block / plan.pixel_blocks;
        const int64_t pixel = (block - rest * plan.pixel_blocks) * PIXELS + place;
        const int64_t first = rest % plan.channel_blocks * OUTPUTS;
        rest /= plan.channel_blocks;
        const int64_t g = rest % p.groups, n = rest / p.groups;
        const bool inside = pixel < plan.pixels;
        const int64_t oh = pixel / p.OW, ow = pixel - oh * p.OW;
        window_walk<T> window;
        window.plane = x + (n * p.C + g * IC) * p.H * p.W;
        window.top = oh * p.stride_h - p.pad_top;
        window.left = ow * p.stride_w - p.pad_left;
        sum_type sums[OUTPUTS] = {};
        for (int64_t from = 0; from < K; from += CHUNK) {
            __syncthreads();
            for (int i = (int)threadIdx.x; i < CHUNK * OUTPUTS; i += BLOCK) {
                const int64_t k = from + i % CHUNK, oc = first + i / CHUNK;
                weights[i % CHUNK][i / CHUNK] = k < K && oc < OC ? w[(g * OC + oc) * K + k] : (T)0;
            }
            __syncthreads();
            const int64_t begin = from + split * PART;
            const int count = !inside || begin >= K ? 0
                              : K - begin < PART    ? (int)(K - begin)
                                                    : PART;
            if (count > 0)
                window.start(p, begin);
            for (int k = 0; k < count; k += AHEAD) {
                sum_type values[AHEAD];
#pragma unroll
                for (int u = 0; u < AHEAD; u++)
                    values[u] = k + u < count ? window.next(p) : (T)0;
#pragma unroll
                for (int u = 0; u < AHEAD; u++)
#pragma unroll
                    for (int i = 0; i < OUTPUTS; i++)
                        sums[i] += values[u] * weights[split * PART + k + u][i];
            }
        }
        if (SPLITS > 1) {
            static_assert(SPLITS == 1 || BLOCK <= CHUNK, "the sums fit where weights were");
            __syncthreads();
#pragma unroll
            for (int i = 0; i < OUTPUTS; i++)
                weights[threadIdx.x][i] = sums[i];
            __syncthreads();
            if (split > 0)
                continue;
#pragma unroll
            for (int s = 1; s < SPLITS; s++)
#pragma unroll
                for (int i = 0; i < OUTPUTS; i++)
                    sums[i] += weights[s * PIXELS + place][i];
        }
        const int64_t channel = g * OC + first;
        const int64_t at = (n * p.OC + channel) * plan.pixels + pixel;
        const T *bias = last.bias == nullptr ? nullptr : last.bias + channel;
#pragma unroll
        for (int i = 0; i < OUTPUTS; i++)
            if (inside && first + i < OC) {
                sums[i] += bias == nullptr ? (T)0 : bias[i];
                if (last.residual != nullptr)
                    sums[i] += last.residual[at + i * plan.pixels];
            }
        activate_all(last.activation, sums);
#pragma unroll
        for (int i = 0; i < OUTPUTS; i++)
            if (inside && first + i < OC)
                y[at + i * plan.pixels] = (T)sums[i];
        if (p.only_inside && inside)
#pragma unroll 1
            for (int i = 0; i < OUTPUTS && first + i < OC; i++) {
                T *const result = y + (at + i * plan.pixels);
                if (*result == *result)
                    continue;
                const T *weights = w + (channel + i) * K;
                sum_type sum = 0;
                window.start(p, 0);
                for (int64_t k = 0; k < K; k++) {
                    const T value = window.next(p);
                    if (!window.outside)
                        sum += (sum_type)value * weights[k];
                }
                *result = (T)sum;
            }
    }
}

template <typename T, int SPLITS>
static void launch_textbook(talc_device *device, const talc_conv2d_problem *p,
                            const textbook_plan &plan, const talc_conv2d_arguments *a)
{
    const int blocks = (int)(plan.blocks < INT_MAX ? plan.blocks : INT_MAX);
    textbook<T, SPLITS><<<blocks, BLOCK, 0, talc_cuda_stream(device)>>>(
        *p, plan, (const T *)a->x, (const T *)a->w, (T *)a->y,
        epilogue<T>(a->bias, a->residual, p->activation));
}

/* What the row keeps of its plan. */
struct textbook_choice {
    textbook_plan blocks;
    bool splits;
};

constexpr int MANY_SPLITS = 8;

static textbook_choice choose_textbook(const talc_device *device, const talc_conv2d_problem *p)
{
    const int64_t pixels = p->OH * p->OW,
                  channel_blocks = talc_ceil_div(p->OC / p->groups, OUTPUTS);
    /* Threads with a pixel each, against those that the GPU runs at once. */
    const int64_t threads = p->N * p->groups * channel_blocks * pixels;
    textbook_choice own = {};
    own.splits = threads < (int64_t)talc_cuda_state_of(device)->multiprocessors * 2 * BLOCK;
    const int64_t pixel_blocks = talc_ceil_div(pixels, BLOCK / (own.splits ? MANY_SPLITS : 1));
    own.blocks = { pixels, pixel_blocks, channel_blocks,
                   pixel_blocks * channel_blocks * p->groups * p->N };
    return own;
}

template <typename T>
static talc_status run_textbook(talc_device *device, const talc_conv2d_problem *p,
                                const textbook_choice &own, const talc_conv2d_arguments *a)
{
    if (own.splits)
        launch_textbook<T, MANY_SPLITS>(device, p, own.blocks, a);
    else
        launch_textbook<T, 1>(device, p, own.blocks, a);
    return talc_cuda_launched(device, "conv2d");
}

// ---- Choice -------------------------------------------------------------------------------------

/* Below so many FMAs the packing of weights is not worth while. */
constexpr int64_t FEW = (int64_t)1 << 24;
/* Nor do tiles on less than this fraction (1/2) of the GPU keep up with `textbook` on all of it. */
constexpr int LEAST_PART = 2;
/* Shared memory that data-centre GPUs of compute capability 8.0 and later have. */
constexpr size_t MOST_SHARED = (size_t)160 << 10;

template <typename T, int KW, int STRIDE, bool WIDE>
static bool plan_tiles(const talc_conv2d_problem *p, tiled_plan &plan)
{
    using Tile = tile<T, KW, STRIDE, WIDE>;
    const int64_t IC = p->C / p->groups, OC = p->OC / p->groups, taps = p->KH * KW;
    const int64_t patch_rows = (ROWS - 1) * p->stride_h + (p->KH - 1) * p->dilation_h + 1;
    const int64_t step = taps >= 9 ? 1 : talc_ceil_div(9, taps);
    const int64_t patch = patch_rows * Tile::PITCH;
    const int64_t bytes =
        2 * step * (taps * Tile::CHANNELS + patch) * (int64_t)sizeof(T) + patch * 4;
    if (bytes > (int64_t)MOST_SHARED)
        return false;
    plan.channels = Tile::CHANNELS;
    plan.width = Tile::WIDTH;
    plan.step = (int)step;
    plan.patch = (int)patch;
    plan.weights = (int)(taps * Tile::CHANNELS);
    plan.steps = talc_ceil_div(IC, step);
    plan.channel_tiles = talc_ceil_div(OC, Tile::CHANNELS);
    plan.row_tiles = talc_ceil_div(p->OH, ROWS);
    plan.column_tiles =
        p->dilation_w * talc_ceil_div(talc_ceil_div(p->OW, p->dilation_w), Tile::WIDTH);
    plan.tiles = p->N * p->groups * plan.channel_tiles * plan.row_tiles * plan.column_tiles;
    plan.shared = (size_t)bytes;
    plan.packed =
        (size_t)(p->groups * plan.channel_tiles * plan.steps * step * plan.weights) * sizeof(T);
    return true;
}

/* What a kernel of tiles is made for, across. */
template <int KW_, int STRIDE_> struct taps_across {
    static constexpr int KW = KW_, STRIDE = STRIDE_;
};

/* Calls `use` with the problem's; false when there is none. */
template <typename Use> static bool with_taps(const talc_conv2d_problem *p, Use use)
{
    if (p->stride_w == 1)
        return p->KW == 1   ? use(taps_across<1, 1>())
               : p->KW == 3 ? use(taps_across<3, 1>())
               : p->KW == 5 ? use(taps_across<5, 1>())
               : p->KW == 7 ? use(taps_across<7, 1>())
               : p->KW == 9 ? use(taps_across<9, 1>())
                            : false;
    return p->stride_w != 2 ? false
           : p->KW == 1     ? use(taps_across<1, 2>())
           : p->KW == 3     ? use(taps_across<3, 2>())
           : p->KW == 7     ? use(taps_across<7, 2>())
                            : false;
}

/* The tiles of a problem; false when there are none. */
template <typename T>
static bool tiles_of(const talc_device *device, const talc_conv2d_problem *p, tiled_plan &plan)
{
    const int64_t least = talc_cuda_state_of(device)->multiprocessors / LEAST_PART;
    const int64_t most = INT_MAX / 4, OC = p->OC / p->groups;
    const double work = (double)p->N * (double)p->OC * (double)p->OH * (double)p->OW *
                        (double)(p->C / p->groups) * (double)(p->KH * p->KW);
    /* Tiles with few channels or columns would be empty for the most part. */
    if (work < (double)FEW || OC < 8 || p->OW < 8 * p->dilation_w || OC > most ||
        !planes_fit(p, most) || p->stride_h > 64 || p->KH > 1024 || p->dilation_h > 1024 ||
        p->dilation_w > 1024 || (p->stride_w > 1 && p->dilation_w > 1))
        return false;
    return with_taps(p, [&](auto taps) {
        using Taps = decltype(taps);
        constexpr int wide = tile<T, Taps::KW, Taps::STRIDE, true>::CHANNELS;
        /* More channels share a patch, unless half of them would stay empty. */
        const bool fits = OC % (2 * wide) == 0 || OC % (2 * wide) > wide || OC > 8 * wide
                              ? plan_tiles<T, Taps::KW, Taps::STRIDE, false>(p, plan)
                              : plan_tiles<T, Taps::KW, Taps::STRIDE, true>(p, plan);
        return fits && plan.tiles >= least;
    });
}

template <typename T>
static void pack(talc_device *device, const talc_conv2d_problem *p, const tiled_plan &plan,
                 T *packed, const T *w)
{
    const int64_t count = (int64_t)(plan.packed / sizeof(T));
    with_index(count, [&](auto zero) {
        using Index = decltype(zero);
        divisor<Index> channels, taps, planes, tiles;
        channels.set(plan.channels);
        taps.set(p->KH * p->KW);
        planes.set(plan.steps * plan.step);
        tiles.set(plan.channel_tiles);
        pack_weights<T, Index>
            <<<grid_for_threads(device, count), BLOCK, 0, talc_cuda_stream(device)>>>(
                packed, w, channels, taps, planes, tiles, p->C / p->groups, p->OC / p->groups,
                (Index)count);
    });
}

template <typename T>
static talc_status run_tiled(talc_device *device, const talc_conv2d_problem *p,
                             const tiled_plan &plan, const talc_conv2d_arguments *a)
{
    cudaError_t error = cudaSuccess;
    with_taps(p, [&](auto taps) {
        using Taps = decltype(taps);
        const bool is_wide = plan.width == tile<T, Taps::KW, Taps::STRIDE, true>::WIDTH;
        const auto kernel = is_wide ? &tiled<T, Taps::KW, Taps::STRIDE, true>
                                    : &tiled<T, Taps::KW, Taps::STRIDE, false>;
        if (plan.shared > 48 << 10)
            error = allow_shared(kernel, shared_up_to(device, MOST_SHARED));
        if (error != cudaSuccess)
            return false;
        T *packed = (T *)(a->base.kept != nullptr ? a->base.kept : a->base.workspace);
        if (!a->base.kept_ready)
            pack(device, p, plan, packed, (const T *)a->w);
        tiled_problem<T> t = { plane_sizes(p),
                               (const T *)a->x,
                               packed,
                               (T *)a->y,
                               epilogue<T>(a->bias, a->residual, p->activation),
                               p->C / p->groups,
                               p->C,
                               p->OC,
                               (int)(p->OC / p->groups),
                               (int)p->KH,
                               (int)p->stride_h,
                               (int)p->dilation_h,
                               (int)p->dilation_w,
                               p->groups,
                               p->padding_mode,
                               plan,
                               p->only_inside ? (const T *)a->w : nullptr };
        const int blocks = (int)(plan.tiles < INT_MAX ? plan.tiles : INT_MAX);
        kernel<<<blocks, THREADS, plan.shared, talc_cuda_stream(device)>>>(t);
        return true;
    });
    return error != cudaSuccess ? talc_cuda_not_launched(device, "conv2d", error)
                                : talc_cuda_launched(device, "conv2d");
}

/* How much of its tiles a problem fills, from the first threads to the last. */
static double filled(const talc_conv2d_problem *p, const tiled_plan &plan)
{
    return (double)(p->OC / p->groups) / (double)(plan.channel_tiles * plan.channels) *
           (double)p->OH / (double)(plan.row_tiles * ROWS) * (double)p->OW /
           (double)(plan.column_tiles * plan.width);
}

/* The share of FFMA's rate that the tiles make: most where a thread slides a long window along a
 * row. The first step of a tile and its results take the time of two more; the last wave of blocks
 * may not fill the GPU. */
template <typename T>
static double tiled_share(const talc_device *device, const talc_conv2d_problem *p,
                          const tiled_plan &plan)
{
    constexpr int64_t LONG = 5;
    const int64_t resident = (int64_t)talc_cuda_state_of(device)->multiprocessors * OCCUPANCY<T>;
    const int64_t waves = talc_ceil_div(plan.tiles, resident);
    const bool slides = p->stride_h == 1 && p->stride_w == 1 && p->KW >= LONG;
    return (slides ? 0.95 : 0.6) * filled(p, plan) * (double)plan.steps / (double)(plan.steps + 2) *
           (double)plan.tiles / (double)(waves * resident);
}

// ---- The rows -----------------------------------------------------------------------------------

template <typename T>
static const char *plan_tiled(const talc_device *device, const talc_conv2d_problem *p, size_t limit,
                              talc_plan *plan)
{
    tiled_plan tiles;
    if (!tiles_of<T>(device, p, tiles))
        return "there are no tiles of these extents, or too few";
    if (tiles.packed > limit)
        return "its weights do not fit the workspace";
    if (tiles.shared > (size_t)shared_up_to(device, MOST_SHARED))
        return "its tiles do not fit the GPU's shared memory";
    plan->workspace = plan->kept = tiles.packed;
    plan->kept_form = (int64_t)tiles.channels << 32 | tiles.step;
    plan->seconds = talc_cuda_conv2d_seconds(device, p, tiled_share<T>(device, p, tiles),
                                             talc_conv2d_bytes(p), 2);
    talc_plan_keep(plan, &tiles, sizeof tiles);
    return NULL;
}

/* Threads compute OUTPUTS channels. Of few outputs of long sums each product waits for its load;
 * where there are tiles they are taken to be no slower. */
template <typename T>
static const char *plan_textbook(const talc_device *device, const talc_conv2d_problem *p,
                                 size_t limit, talc_plan *plan)
{
    const int64_t OC = p->OC / p->groups;
    const double share = 0.05 * (double)OC / (double)(talc_ceil_div(OC, OUTPUTS) * OUTPUTS);
    const double waits = TALC_CUDA_LAUNCH + 30e-9 * (double)(p->C / p->groups * p->KH * p->KW);
    const textbook_choice own = choose_textbook(device, p);
    talc_plan tiled = {};
    const double least = plan_tiled<T>(device, p, limit, &tiled) == NULL ? tiled.seconds : waits;
    plan->seconds = talc_cuda_conv2d_seconds(device, p, share, talc_conv2d_bytes(p), 2);
    if (plan->seconds < least)
        plan->seconds = least;
    talc_plan_keep(plan, &own, sizeof own);
    return NULL;
}

TALC_CUDA_FORM(direct_tiled, plan_tiled<T>(device, p, limit, plan),
               run_tiled<T>(device, p, own_plan<tiled_plan>(plan), a))
TALC_CUDA_FORM(direct_textbook, plan_textbook<T>(device, p, limit, plan),
               run_textbook<T>(device, p, own_plan<textbook_choice>(plan), a))
TALC_CUDA_FORM_NONE(direct_phases, "it has only gradients")
TALC_CUDA_FORM_NONE(direct_registers, "it has only gradients")
TALC_CUDA_FORM_NONE(direct_one_by_one, "it has only gradients")
