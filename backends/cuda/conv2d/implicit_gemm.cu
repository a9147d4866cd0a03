/// Convolution as a matrix product on Hopper's tensor cores, without the matrix of im2col. For each group
///
///     y[oc, position] = sum over steps of w[oc, step] * patch[step, position],      a step is a tap and 16 channels
///
/// Who computes what: a block keeps to its multiprocessor and takes one tile of y after the other. Warps that load copy the part of x
/// under the tile, the patch, into shared memory as [channels of 8][position][8], so that a tap is an offset and one patch serves all
/// taps; two warpgroups multiply. Each has 64 output channels of 256 positions: 8 rows of 32, or 256 that run on over the ends of
/// rows and images, where those are short. At a stride the patch is divided into the phases that taps reach. Where channels are few,
/// each phase counts as channels instead.
/// Weights go straight from memory to the threads that hold them as the first operand, through a ring in shared memory.
///
/// Arithmetic: operands are scaled by powers of two, patch by patch and channel by channel, into the range of f16. STRICT splits them
/// into high and low parts, adds up high * high, high * low and low * high, and moves sums from the tensor cores, which truncate, to f32
/// registers every 48 products. TF32 takes the high parts alone. Elements too small after scaling are counted as they are loaded; a sum
/// that is not well above the error that they can cause, and any NaN, is computed again by FFMA. So each class's bound holds on any data.
///
/// Source: Ootomo and Yokota, Recovering single precision accuracy from Tensor Cores while surpassing the FP32 theoretical peak
/// performance, 2022.
#include "backends/cuda/conv2d/implicit_gemm/kernel.cuh"
#include "backends/cuda/conv2d/implicit_gemm/plan.cuh"
#include "backends/cuda/conv2d/rows.h"
#include "backends/cuda/conv2d/turned.h"

using namespace talc;

/* Sums of fewer products, at the borders too, use up the strict bound by the splitting alone. */
constexpr int64_t LEAST_PRODUCTS = 16;

static bool is_hopper(const talc_device *device)
{
    int major = 0, minor = 0;
    const int index = talc_cuda_state_of(device)->index;
    if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index) != cudaSuccess ||
        cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, index) != cudaSuccess)
        (void)cudaGetLastError();
    return major == 9 && minor == 0;
}

/* Taps of one axis inside the image, where they are fewest, but at least one. */
static int64_t fewest_taps(int64_t extent, int64_t O, int64_t K, int64_t stride, int64_t dilation,
                           int64_t pad)
{
    int64_t fewest = K;
    for (int64_t o = 0; o < O; o++) {
        const int64_t begin = o * stride - pad, end = begin + (K - 1) * dilation;
        if (begin >= 0 && end < extent) {
            o = (extent - 1 - (end - begin) + pad) / stride; /* the last of which it is true */
            continue;
        }
        const int64_t outside = begin < 0 ? talc_ceil_div(-begin, dilation) : 0;
        const int64_t taps = begin >= extent ? 0 : (extent - 1 - begin) / dilation + 1;
        const int64_t inside = (taps < K ? taps : K) - outside;
        if (inside > 0 && inside < fewest)
            fewest = inside;
    }
    return fewest;
}

/* Of the sums that are not empty. */
static int64_t fewest_products(const talc_conv2d_problem *p)
{
    const int64_t channels = p->C / p->groups;
    if (p->padding_mode != TALC_PADDING_ZEROS)
        return channels * p->KH * p->KW;
    return channels * fewest_taps(p->H, p->OH, p->KH, p->stride_h, p->dilation_h, p->pad_top) *
           fewest_taps(p->W, p->OW, p->KW, p->stride_w, p->dilation_w, p->pad_left);
}

/* Of each channel row: the exponent of its weights' scale and the threshold of its sums. */
static size_t scales_bytes(const gemm_problem &g)
{
    return (size_t)gemm_channel_rows(g) * (sizeof(int) + sizeof(float));
}

template <int PRODUCTS>
static const char *plan_of(const talc_device *device, const talc_conv2d_problem *p, talc_plan *plan)
{
    if (p->dtype != TALC_F32)
        return "the data is not f32";
    if (!is_hopper(device))
        return "the GPU is not of compute capability 9.0";
    gemm_problem g = {};
    if (!gemm_problem_of<PRODUCTS>(p, g))
        return "it is empty, or an extent is too large";
    if (PRODUCTS == 3 && fewest_products(p) < LEAST_PRODUCTS)
        return "sums of fewer than 16 products";
    gemm_choice choice;
    if (!gemm_choose<PRODUCTS>(p, talc_cuda_state_of(device)->multiprocessors, g, choice,
                               plan->seconds))
        return "the patch under a tile does not fit shared memory";
    plan->workspace = gemm_packed_bytes<PRODUCTS>(g) + scales_bytes(g);
    talc_plan_keep(plan, &choice, sizeof choice);
    return NULL;
}

template <int PRODUCTS>
static talc_status run(talc_device *device, const talc_conv2d_problem *p, const talc_plan *plan,
                       const talc_conv2d_arguments *a)
{
    const talc_status status = talc_cuda_enter(device, "conv2d");
    if (status != TALC_OK)
        return status;
    const gemm_choice *choice = (const gemm_choice *)talc_plan_own(plan);
    gemm_problem g = {};
    (void)gemm_problem_of<PRODUCTS>(p, g);
    (void)gemm_shape<PRODUCTS>(g, p, *choice);
    gemm_fill_shifts(g);
    __half *packed = (__half *)a->base.workspace;
    int *exponents = (int *)((char *)packed + gemm_packed_bytes<PRODUCTS>(g));
    const int64_t rows = gemm_channel_rows(g);
    float *thresholds = (float *)(exponents + rows);
    g.x = (const float *)a->x, g.w = (const float *)a->w, g.y = (float *)a->y;
    g.packed = packed, g.exponents = exponents, g.thresholds = thresholds;
    g.last = epilogue<float>(a->bias, a->residual, p->activation);
    const size_t shared = gemm_shared_bytes<PRODUCTS>(g);
    const cudaStream_t stream = talc_cuda_stream(device);
    const auto pack = &pack_halves<PRODUCTS>;
    const auto kernel = &implicit_gemm<PRODUCTS>;
    const cudaError_t error = allow_shared(kernel, GEMM_SHARED);
    if (error != cudaSuccess)
        return talc_cuda_not_launched(device, "conv2d", error);
    pack<<<(unsigned)rows, BLOCK, 0, stream>>>(g, packed, exponents, thresholds);
    const int most = talc_cuda_state_of(device)->multiprocessors;
    const int runs = g.tiles / tiles_of_run(g), blocks = runs < most ? runs : most;
    kernel<<<blocks, GEMM_THREADS, shared, stream>>>(g);
    return talc_cuda_launched(device, "conv2d");
}

// ---- The rows -----------------------------------------------------------------------------------------------

/* Input gradients at stride 1 are convolutions too. */
#define TALC_IMPLICIT_GEMM_ROW(name, products)                                                     \
    const char *talc_cuda_conv2d_##name##_plan(const talc_device *device, const void *problem,     \
                                               size_t, talc_plan *plan)                            \
    {                                                                                              \
        return plan_of<products>(device, (const talc_conv2d_problem *)problem, plan);              \
    }                                                                                              \
    talc_status talc_cuda_conv2d_##name##_run(talc_device *device, const void *problem,            \
                                              const talc_plan *plan, const void *arguments)        \
    {                                                                                              \
        return run<products>(device, (const talc_conv2d_problem *)problem, plan,                   \
                             (const talc_conv2d_arguments *)arguments);                            \
    }                                                                                              \
    const char *talc_cuda_conv2d_##name##_gradient_plan(                                           \
        const talc_device *device, const void *problem, size_t limit, talc_plan *plan)             \
    {                                                                                              \
        const talc_conv2d_problem *p = (const talc_conv2d_problem *)problem;                       \
        if (p->direction == TALC_GRAD_WEIGHT)                                                      \
            return "it has no weight gradient";                                                    \
        return talc_cuda_conv2d_turned_plan(talc_cuda_conv2d_##name##_plan, device, p, limit,      \
                                            plan);                                                 \
    }                                                                                              \
    talc_status talc_cuda_conv2d_##name##_gradient_run(                                            \
        talc_device *device, const void *problem, const talc_plan *plan, const void *arguments)    \
    {                                                                                              \
        return talc_cuda_conv2d_turned_run(talc_cuda_conv2d_##name##_run, device,                  \
                                           (const talc_conv2d_problem *)problem, plan,             \
                                           (const talc_conv2d_arguments *)arguments);              \
    }
TALC_IMPLICIT_GEMM_ROW(implicit_gemm, 3)
TALC_IMPLICIT_GEMM_ROW(implicit_gemm_tf32, 1)
