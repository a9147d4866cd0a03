/// The gradients of a depthwise convolution, M = OC / C outputs to an input:
///
///     dx[n, c, h, w] = sum over m, kh, kw of dy[n, c*M + m, oh, ow] * w[c*M + m, 0, kh, kw],
///                      oh * stride_h + kh * dilation_h = h + top, and across likewise
///     dw[oc, 0, kh, kw] = sum over n, oh, ow of dy[n, oc, oh, ow]
///                         * x'[n, oc / M, oh*stride_h - top + kh*dilation_h,
///                              ow*stride_w - left + kw*dilation_w]
///
/// At stride 1 and with M = 1, dx is a depthwise convolution of dy with the rotated kernel
/// (input_gradient.h); at stride 2 square kernels have a form of their own (depthwise_phases.cuh).
/// Any other dx is made of dense convolutions (depthwise_polyphase.cuh), and so is dw
/// (depthwise_weight_tiles.cuh) but for two forms (depthwise_weight_gradient.cuh): warps go down
/// tiles of wide images, and small images at a stride are read through the cache.
///
/// Sums are in the data's type, in a fixed order.
#include "backends/cuda/conv2d/depthwise_phases.cuh"
#include "backends/cuda/conv2d/depthwise_weight_tiles.cuh"
#include "backends/cuda/conv2d/im2col.h"

using namespace talc;

struct depthwise_plan {
    int64_t splits; /* of the outputs of a channel */
};

/* Whether 32-bit integers can count the elements of x and y, and hold every coordinate of the
 * padded image. */
static bool fits_32_bits(const talc_conv2d_problem *p)
{
    const double x = (double)p->N * (double)p->C * (double)p->H * (double)p->W;
    const double y = (double)p->N * (double)p->OC * (double)p->OH * (double)p->OW;
    return talc_cuda_im2col_is_narrow(p) && x < INT_MAX / 2 && y < INT_MAX / 2 &&
           (double)p->KH * (double)p->KW < INT_MAX / 2;
}

// ---- The weight gradient ------------------------------------------------------------------------

/* Values of TAPS for sum_windows: kernels up to FEW by FEW get tiles of FEW by FEW taps. */
constexpr int64_t FEW = 3, MANY = 5;

static int64_t taps_of(const talc_conv2d_problem *p)
{
    return p->KH <= FEW && p->KW <= FEW ? FEW : MANY;
}

template <typename T> static int64_t tiles_across(const talc_conv2d_problem *p)
{
    return talc_ceil_div(p->OW, WARP * (int64_t)(VECTOR_BYTES / sizeof(T)));
}

static bool has_kernel(const talc_conv2d_problem *p, int64_t KH, int64_t KW)
{
    return p->KH == KH && p->KW == KW;
}

/* Whether the kernel of warp tiles is used: not for narrow images, where most lanes would idle. */
template <typename T> static bool takes_warp_tiles(const talc_conv2d_problem *p)
{
    const int64_t max = INT_MAX / 4, width = WARP * (int64_t)(VECTOR_BYTES / sizeof(T));
    if (!has_kernel(p, 3, 3) && !has_kernel(p, 3, 1) && !has_kernel(p, 3, 7) &&
        !has_kernel(p, 5, 5))
        return false;
    return p->stride_h == 1 && p->stride_w == 1 && p->dilation_h == 1 && p->dilation_w == 1 &&
           p->OW >= width * 2 / 3 && planes_fit(p, max) && p->OC <= max / 512 &&
           (double)p->N * (double)tiles_across<T>(p) * (double)talc_ceil_div(p->OH, HIGH) <=
               (double)max;
}

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

template <typename T>
static void plan_weight(const talc_device *device, const talc_conv2d_problem *p, bool warp_tiles,
                        size_t limit, talc_plan *plan)
{
    const int64_t busy = talc_cuda_state_of(device)->multiprocessors;
    depthwise_plan planned = {};
    if (warp_tiles) {
        const int64_t tiles = p->N * tiles_across<T>(p) * talc_ceil_div(p->OH, HIGH);
        planned.splits = splits_for(p, busy * 96 / p->OC, tiles, limit);
    } else {
        const int64_t tiles = talc_ceil_div(p->KH, taps_of(p)) * talc_ceil_div(p->KW, taps_of(p));
        const int64_t batches = talc_ceil_div(p->N * p->OH * p->OW, 4 * BLOCK);
        planned.splits =
            splits_for(p, busy * 32 / (p->OC < busy ? p->OC * tiles : p->OC), batches, limit);
    }
    plan->workspace =
        planned.splits > 1 ? (size_t)(planned.splits * p->OC * p->KH * p->KW) * sizeof(T) : 0;
    talc_plan_store(plan, &planned, sizeof planned);
}

template <typename T, int KH, int KW>
static bool run_warp_tiles_of(const talc_conv2d_problem *p, const warp_tile_sums<T> &s,
                              cudaStream_t stream)
{
    if (!has_kernel(p, KH, KW))
        return false;
    const unsigned blocks = (unsigned)talc_ceil_div(p->OC * (int64_t)s.splits.by, WARPS_PER_BLOCK);
    sum_warp_tiles<T, KH, KW><<<blocks, WARPS_PER_BLOCK * WARP, 0, stream>>>(s);
    return true;
}

template <typename T>
static void run_warp_tiles(talc_device *device, const talc_conv2d_problem *p,
                           const talc_conv2d_arguments *a, T *sums, int64_t splits)
{
    const int64_t across = tiles_across<T>(p), down = talc_ceil_div(p->OH, HIGH);
    warp_tile_sums<T> s = { plane_sizes(p),
                            (const T *)a->x,
                            (const T *)a->dy,
                            sums,
                            {},
                            {},
                            {},
                            {},
                            (uint32_t)p->OC,
                            (uint32_t)(p->N * across * down),
                            (uint32_t)p->C,
                            (int)talc_ceil_div(p->OH, down) };
    s.splits.set(splits);
    s.across.set(across);
    s.down.set(down);
    s.multiplier.set(p->OC / p->C);
    const cudaStream_t stream = talc_cuda_stream(device);
    (void)(run_warp_tiles_of<T, 3, 3>(p, s, stream) || run_warp_tiles_of<T, 3, 1>(p, s, stream) ||
           run_warp_tiles_of<T, 3, 7>(p, s, stream) || run_warp_tiles_of<T, 5, 5>(p, s, stream));
}

template <typename T>
static void run_windows(talc_device *device, const talc_conv2d_problem *p,
                        const talc_conv2d_arguments *a, T *sums, int64_t splits)
{
    const int64_t taps = taps_of(p), count = p->N * p->OH * p->OW;
    window_sums<T> s;
    s.x = (const T *)a->x, s.dy = (const T *)a->dy, s.sums = sums;
    s.plane.set(p->OH * p->OW), s.OW.set(p->OW);
    s.H = (int)p->H, s.W = (int)p->W, s.KH = (int)p->KH, s.KW = (int)p->KW;
    s.stride_h = (int)p->stride_h, s.stride_w = (int)p->stride_w;
    s.dilation_h = (int)p->dilation_h, s.dilation_w = (int)p->dilation_w;
    s.top = (int)p->pad_top, s.left = (int)p->pad_left;
    s.count = (int)count, s.each = (int)talc_ceil_div(count, splits);
    s.C = p->C, s.OC = p->OC, s.multiplier = p->OC / p->C, s.splits = splits;
    s.tiles = (int)talc_ceil_div(p->KW, taps);
    const dim3 grid((unsigned)splits, (unsigned)talc_smaller(p->OC, 65535),
                    (unsigned)(talc_ceil_div(p->KH, taps) * s.tiles));
    const cudaStream_t stream = talc_cuda_stream(device);
    if (taps == FEW)
        sum_windows<T, (int)FEW><<<grid, BLOCK, 0, stream>>>(s);
    else
        sum_windows<T, (int)MANY><<<grid, BLOCK, 0, stream>>>(s);
}

template <typename T>
static void grad_weight(talc_device *device, const talc_conv2d_problem *p,
                        const talc_conv2d_arguments *a, bool warp_tiles, int64_t splits)
{
    T *dw = (T *)a->dw, *sums = splits > 1 ? (T *)a->base.workspace : dw;
    if (!warp_tiles)
        run_windows<T>(device, p, a, sums, splits);
    else if constexpr (std::is_same_v<T, float>) /* what plan_sums takes */
        run_warp_tiles<T>(device, p, a, sums, splits);
    if (splits > 1)
        end_sums<T>(device, p, a, sums, splits);
}

// ---- The algorithms -----------------------------------------------------------------------------

static const char *refuses(const talc_conv2d_problem *p)
{
    if (p->groups != p->C)
        return "groups are not the input channels";
    if (talc_ceil_div(p->KH, taps_of(p)) * talc_ceil_div(p->KW, taps_of(p)) > 65535)
        return "the kernel has more than 65,535 tiles of taps";
    return NULL;
}

/* Of FMA's rate: a tile of taps takes as long as all of its taps. */
static double share_of(const talc_conv2d_problem *p, bool warp_tiles)
{
    const int64_t side = taps_of(p),
                  tiles = talc_ceil_div(p->KH, side) * talc_ceil_div(p->KW, side);
    const double of_tile = tiles == 1 ? 0.043 : 0.061;
    return warp_tiles ? 0.3 : of_tile * (double)(p->KH * p->KW) / (double)(tiles * side * side);
}

template <bool WARP_TILES>
static const char *plan_sums(const talc_device *device, const talc_conv2d_problem *p, size_t limit,
                             talc_plan *plan)
{
    return with_float(p->dtype, [&](auto element) -> const char * {
        using T = typename decltype(element)::type;
        if (WARP_TILES && std::is_same_v<T, double>)
            return no_kernel<const char *>(p->dtype);
        if (WARP_TILES && !takes_warp_tiles<T>(p))
            return "there is no kernel of these extents, or rows are short";
        if (!WARP_TILES && !fits_32_bits(p))
            return "there are more than 2^30 elements, or coordinates of a padded plane";
        plan_weight<T>(device, p, WARP_TILES, limit, plan);
        /* What moves, and what a block's threads wait for, to add their sums. */
        constexpr double SUMS = WARP_TILES ? 3e-6 : 1.5e-6;
        plan->seconds =
            talc_cuda_conv2d_seconds(device, p, share_of(p, WARP_TILES), talc_conv2d_bytes(p) / 0.8,
                                     plan->workspace > 0 ? 2 : 1) +
            SUMS * (plan->workspace > 0 ? 2 : 1);
        return NULL;
    });
}

template <bool WARP_TILES>
static talc_status run_sums(talc_device *device, const talc_conv2d_problem *p,
                            const talc_plan *plan, const talc_conv2d_arguments *a)
{
    const talc_status status = talc_cuda_enter(device, "conv2d");
    if (status != TALC_OK)
        return status;
    return with_float(p->dtype, [&](auto element) {
        grad_weight<typename decltype(element)::type>(device, p, a, WARP_TILES,
                                                      own_plan<depthwise_plan>(plan).splits);
        return talc_cuda_launched(device, "conv2d");
    });
}

/* Of dx by a form of the forward direction. */
static const char *refuses_rotated(const talc_conv2d_problem *p)
{
    if (refuses(p) != NULL)
        return refuses(p);
    return p->direction == TALC_GRAD_INPUT && p->OC != p->C
               ? "an input channel has several output channels"
               : NULL;
}

TALC_CUDA_FORM_ROTATED(depthwise_register_tiles, refuses_rotated(p), plan_no_weights,
                       run_no_weights)
TALC_CUDA_FORM_ROTATED(depthwise_warp_tiles, refuses_rotated(p), plan_sums<true>, run_sums<true>)
TALC_CUDA_FORM_ROTATED(depthwise_plane_tiles, refuses_rotated(p), plan_no_weights, run_no_weights)
TALC_CUDA_FORM_ROTATED(depthwise_outputs, refuses_rotated(p), plan_sums<false>, run_sums<false>)
TALC_CUDA_FORM_F32(depthwise_polyphase_gradient,
                   p->direction == TALC_GRAD_INPUT
                       ? talc_cuda_conv2d_depthwise_polyphase_plan(device, p, limit, plan)
                   : refuses(p) != NULL ? refuses(p)
                                        : plan_weight_tiles<T>(device, p, limit, plan),
                   p->direction == TALC_GRAD_INPUT
                       ? talc_cuda_conv2d_depthwise_polyphase_run(device, p, plan, a)
                       : (run_weight_tiles<T>(device, p, own_plan<weight_tiling>(plan), a),
                          talc_cuda_launched(device, "conv2d")))
TALC_CUDA_FORM_F32(depthwise_phases_gradient,
                   refuses(p) != NULL ? refuses(p) : plan_phases<T>(device, p, plan),
                   (run_phases<T>(device, p, plan, a), talc_cuda_launched(device, "conv2d")))
