/// 1x1 convolution on tensor cores at the rate of memory. For each image n and group g, with j =
/// oh * OW + ow,
///
///     y[n, g, oc, j] = act(b[oc] + r[n, g, oc, j] + sum over ic of w[g, oc, ic] * x[n, g, ic, j])
///
/// A 1x1 convolution of few channels takes as long as its reads and writes. So x goes from memory
/// straight into the registers of the threads that multiply. Outputs go from there to memory, 128
/// bytes of a channel at a time.
///
/// Who computes what: a warp computes tiles of 32 positions of all images. The first operand of
/// mma.sync is [positions, channels], and its rows may be in any order. So a thread loads 4
/// neighbouring positions of 4 of every 16 channels, 16 bytes at a time. It stores 4 positions of
/// two of every eight output channels, again 16 bytes at a time. The second operand is the weights.
/// Each block packs them as f16 in shared memory, in the order in which threads read them. Up to
/// 128 channels of x stay in registers for all output channels, up to 64 where four positions are
/// no vector. Longer sums go over K tiles of 64 channels for every 64 output channels, and x comes
/// from the caches after the first time.
///
/// Arithmetic: a power of two scales each position and each output channel into the range of f16.
/// STRICT splits both operands into high and low parts and adds up three products. f32 registers
/// add up the sums of the tensor cores every 64 channels. TF32 takes the high parts alone. A sum is
/// recomputed by FFMA where it is not well above the error that underflows can cause, or is NaN. So
/// each class's bound holds on any data.
#include "backends/cuda/conv2d/pointwise_mma.cuh"
#include "backends/cuda/conv2d/algorithms.h"
#include "backends/cuda/conv2d/input_gradient.h"
#include "backends/cuda/device/counter.h"
#include "backends/cuda/device/estimate.h"
#include "backends/cuda/gemm/costs.h"

using namespace talc;

constexpr int64_t MAX_GRID = 65535;

/// A source that reads the planes of x.
template <bool VECTORS_> struct plane_source {
    static constexpr bool VECTORS = VECTORS_;
    const float *x;
    int C, plane;

    struct pointers {
        const float *at[VECTORS ? 1 : FOUR];
    };
    __device__ void find(pointers &from, int q, int n, int pixel, int channel) const
    {
        from.at[q] = x + ((int64_t)n * C + channel) * plane + pixel;
    }
    /// Loads the thread's channels out of the next `left` ones, and advances the pointers to the
    /// next K tile.
    template <int COUNT>
    __device__ __forceinline__ void load(float (&v)[COUNT][FOUR], pointers &from, int left) const
    {
        const int64_t next = (int64_t)plane * 4, behind = next * (STEP - 4);
#pragma unroll
        for (int c = 0; c < COUNT; c++) {
            const bool inside = c / 4 * STEP + c % 4 < left;
            if (VECTORS) {
                const float4 four = inside ? __ldg((const float4 *)from.at[0]) : float4{};
                v[c][0] = four.x, v[c][1] = four.y, v[c][2] = four.z, v[c][3] = four.w;
            } else {
#pragma unroll
                for (int q = 0; q < FOUR; q++)
                    v[c][q] = inside ? __ldg(from.at[VECTORS ? 0 : q]) : 0;
            }
#pragma unroll
            for (int q = 0; q < (VECTORS ? 1 : FOUR); q++) {
                /* Without this the compiler multiplies for each address. */
                asm volatile("add.s64 %0, %0, %1;" : "+l"(from.at[q]) : "l"(next));
                if (c % 4 == 3)
                    asm volatile("add.s64 %0, %0, %1;" : "+l"(from.at[q]) : "l"(behind));
            }
        }
    }
    __device__ float sum(const float *w, int n, int pixel, int channel, int count) const
    {
        const float *from = x + ((int64_t)n * C + channel) * plane + pixel;
        float sum = 0;
#pragma unroll 8
        for (int c = 0; c < count; c++)
            sum += w[c] * from[(int64_t)c * plane];
        return sum;
    }
};

struct pointwise_choice {
    int steps, range;
    bool is_long;
};

static int warps_of(pointwise_choice c)
{
    return (c.is_long || c.steps > 4 ? 256 : c.steps == 4 ? 384 : 512) / WARP;
}

/* A single step takes the kernel of two, and where four positions are no vector, sums of more than
 * four steps are long ones: kernels of their own would be less than 1.2 times as fast. */
static pointwise_choice choose(const talc_device *device, const talc_conv2d_problem *p,
                               int products, bool vectors)
{
    const int64_t steps = talc_ceil_div(p->C / p->groups, STEP);
    pointwise_choice c = {};
    c.is_long = steps > (vectors ? 8 : 4);
    c.steps = c.is_long   ? (int)talc_ceil_div(steps, LONG_STEPS) * LONG_STEPS
              : steps > 4 ? 8
              : steps > 2 ? 4
                          : 2;
    const int64_t all = talc_ceil_div(p->OC / p->groups, EIGHT) * EIGHT;
    const int64_t bytes =
        products == 3 ? pointwise_bytes<3>(EIGHT, c.steps) : pointwise_bytes<1>(EIGHT, c.steps);
    const int64_t max_range = max_shared(device) / bytes * EIGHT;
    c.range = (int)(all < max_range ? all : max_range);
    const int64_t blocks = talc_ceil_div(p->N * p->H * p->W, POSITIONS * warps_of(c)) * p->groups;
    while (c.range > 32 &&
           blocks * talc_ceil_div(all, c.range) * 2 <= talc_cuda_state_of(device)->multiprocessors)
        c.range = (int)talc_ceil_div(c.range, 2 * EIGHT) * EIGHT;
    return c;
}

/* Blocks that share the positions of a range of output channels. */
static int64_t blocks_of(const talc_device *device, const talc_conv2d_problem *p,
                         pointwise_choice c)
{
    const int64_t max_blocks = talc_ceil_div(p->N * p->H * p->W, POSITIONS * warps_of(c)),
                  ranges = p->groups * talc_ceil_div(p->OC / p->groups, c.range),
                  share = talc_ceil_div(talc_cuda_state_of(device)->multiprocessors, ranges);
    return max_blocks < share ? max_blocks : share;
}

/* Seconds: the packing of the weights, then the longer of memory and the tiles of a block's
 * warps. */
static double seconds(const talc_device *device, const talc_conv2d_problem *p, int products,
                      pointwise_choice c)
{
    const int64_t warps = warps_of(c), blocks = blocks_of(device, p, c),
                  ranges = p->groups * talc_ceil_div(p->OC / p->groups, c.range);
    const double passes = c.is_long ? (double)talc_ceil_div(c.range, LONG_BLOCKS * EIGHT) : 1;
    const double rounds =
        (double)talc_ceil_div(talc_ceil_div(p->N * p->H * p->W, POSITIONS), blocks * warps) *
        (double)talc_ceil_div(blocks * ranges, talc_cuda_state_of(device)->multiprocessors);
    const double loading = passes * c.steps * (c.is_long ? POINTWISE_STEP_LONG : POINTWISE_STEP) *
                           (p->H * p->W % FOUR == 0 ? 1 : POINTWISE_UNALIGNED);
    const double cycles =
        (double)warps *
        (loading + c.range / EIGHT * (c.steps * products * POINTWISE_PRODUCT + POINTWISE_EIGHT));
    const double packing = c.range / (double)warps * c.steps * POINTWISE_PACK / CLOCK;
    const double computing = rounds * cycles / CLOCK,
                 moving = talc_conv2d_bytes(p) / POINTWISE_MEMORY;
    return (computing > moving ? computing : moving) + packing + POINTWISE_LAUNCHES;
}

template <int PRODUCTS>
static const char *plan_of(const talc_device *device, const talc_conv2d_problem *p, size_t,
                           talc_plan *plan)
{
    if (const char *reason =
            talc_gemm_refuses(p->dtype, talc_cuda_state_of(device)->capability, false))
        return reason;
    if (const char *reason = talc_cuda_conv2d_pointwise_refuses(p))
        return reason;
    if (const char *reason = PRODUCTS == 3 ? talc_gemm_refuses_sums(p->C / p->groups) : NULL)
        return reason;
    if (p->N * p->C * p->OC * p->H * p->W == 0)
        return "it is empty";
    if (p->C > INT_MAX / 64 || p->OC > INT_MAX / 64 || p->H * p->W > INT_MAX / 64 ||
        p->N > (INT_MAX - 4 * POSITIONS) / (p->H * p->W))
        return "an extent is too large";
    const pointwise_choice c = choose(device, p, PRODUCTS, p->H * p->W % FOUR == 0);
    if (c.range < EIGHT)
        return "the weights of 8 channels do not fit shared memory";
    if (p->groups * talc_ceil_div(p->OC / p->groups, c.range) > MAX_GRID)
        return "more than 65,535 groups";
    plan->seconds = seconds(device, p, PRODUCTS, c);
    talc_plan_store(plan, &c, sizeof c);
    return NULL;
}

template <int PRODUCTS, int STEPS, bool LONG, bool VECTORS>
static talc_status launch(talc_device *device, const talc_conv2d_problem *p, pointwise_choice c,
                          const talc_conv2d_arguments *a)
{
    using source = plane_source<VECTORS>;
    constexpr int THREADS = POINTWISE_THREADS<STEPS, LONG>;
    pointwise_problem<source> g = {};
    g.plane = (int)(p->H * p->W), g.positions = (int)(p->N * p->H * p->W);
    g.source = { (const float *)a->x, (int)p->C, g.plane };
    g.w = (const float *)a->w, g.y = (float *)a->y;
    g.recomputed = talc_cuda_recomputed(device);
    g.last = epilogue<float>(a->bias, a->residual, p->activation);
    g.group_in = (int)(p->C / p->groups), g.group_out = (int)(p->OC / p->groups);
    g.OC = (int)p->OC;
    g.steps = c.steps, g.range = c.range;
    g.ranges = (int)talc_ceil_div(g.group_out, c.range);
    g.coefficient = PRODUCTS == 3 ? 0x1p14f / (float)(g.group_in / 4 + 2) : 4;
    g.by_plane.set(g.plane);
    const auto kernel = &pointwise_mma_kernel<PRODUCTS, STEPS, LONG, source>;
    const cudaError_t error = allow_shared(kernel, max_shared(device));
    if (error != cudaSuccess)
        return talc_cuda_not_launched(device, "conv2d", error);
    const dim3 grid((unsigned)blocks_of(device, p, c), (unsigned)(p->groups * g.ranges));
    kernel<<<grid, THREADS, pointwise_bytes<PRODUCTS>(c.range, c.steps),
             talc_cuda_stream(device)>>>(g);
    return talc_cuda_launched(device, "conv2d");
}

template <int PRODUCTS, bool VECTORS>
static talc_status with_steps(talc_device *device, const talc_conv2d_problem *p, pointwise_choice c,
                              const talc_conv2d_arguments *a)
{
    if (c.is_long)
        return launch<PRODUCTS, LONG_STEPS, true, VECTORS>(device, p, c, a);
    if (c.steps == 2)
        return launch<PRODUCTS, 2, false, VECTORS>(device, p, c, a);
    if constexpr (VECTORS)
        if (c.steps == 8)
            return launch<PRODUCTS, 8, false, VECTORS>(device, p, c, a);
    return launch<PRODUCTS, 4, false, VECTORS>(device, p, c, a);
}

template <int PRODUCTS>
static talc_status run(talc_device *device, const talc_conv2d_problem *p, const talc_plan *plan,
                       const talc_conv2d_arguments *a)
{
    const talc_status status = talc_cuda_enter(device, "conv2d");
    if (status != TALC_OK)
        return status;
    if (p->H * p->W % FOUR == 0 && is_aligned(a->x) && is_aligned(a->y) && is_aligned(a->residual))
        return with_steps<PRODUCTS, true>(device, p,
                                          *(const pointwise_choice *)talc_plan_data(plan), a);
    return with_steps<PRODUCTS, false>(device, p, choose(device, p, PRODUCTS, false), a);
}

TALC_CUDA_FORM_WITH_GRADIENTS(pointwise_mma, 3, 0)
TALC_CUDA_FORM_WITH_GRADIENTS(pointwise_mma_tf32, 1, 0)
