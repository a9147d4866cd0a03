/// 1x1 convolution of few channels on tensor cores at the rate of memory. For each image n and
/// group g, with j = oh * OW + ow,
///
///     y[n, g, oc, j] = act(b[oc] + r[n, g, oc, j] + sum over ic of w[g, oc, ic] * x[n, g, ic, j])
///
/// It takes as long as its reads and writes. So x goes from memory straight into the registers of
/// the threads that multiply. Outputs go from there to memory, 128 bytes of a channel at a time.
///
/// Who computes what: a warp computes tiles of 32 positions of all images. The first operand of
/// mma.sync is [positions, channels], and its rows may be in any order. So a thread loads 4
/// neighbouring positions of 4 of every 16 channels, 16 bytes at a time. It stores 4 positions of
/// two of every eight output channels, again 16 bytes at a time. The second operand is the weights.
/// Each block packs them as f16 in shared memory, in the order in which threads read them. All
/// channels of x, up to 128, stay in registers while the output channels go by.
///
/// Arithmetic: a power of two scales each position and each output channel into the range of f16.
/// STRICT splits both operands into high and low parts and adds up three products. f32 registers
/// add up the sums of the tensor cores every 64 channels. TF32 takes the high parts alone. A sum is
/// recomputed by FFMA where it is not well above the error that underflows can cause, or is NaN. So
/// each class's bound holds on any data.
#include "backends/cuda/conv2d/form.cuh"
#include "backends/cuda/device/counter.h"
#include "backends/cuda/device/estimate.h"
#include "backends/cuda/gemm/costs.h"
#include "backends/cuda/gemm/gemm.h"
#include "backends/cuda/gemm/high_low.cuh"
#include "backends/cuda/gemm/positions.cuh"
#include "backends/cuda/primitives/mma.cuh"

using namespace talc;

constexpr int64_t MAX_GRID = 65535;
/* Channels of a step; the steps of the longest sum. Of longer ones, whose x does not fit the
 * registers, other algorithms are as fast. */
constexpr int STEP = 16, MAX_STEPS = 8;

/* A source that reads the planes of x. */
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
    /* Loads the thread's channels out of the next `left` ones. */
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
    int steps, range; /* range: output channels of a block, a multiple of EIGHT */
};

template <typename SOURCE> struct pointwise_problem : positions_problem<SOURCE> {
    int range;
    float coefficient; /* error bound of a sum, per underflow */
};

/* Threads of a block. They follow from the registers that each needs. */
static __host__ __device__ constexpr int threads_of(int steps)
{
    return steps == MAX_STEPS ? 256 : steps == 4 ? 384 : 512;
}

/* Bytes of a block's weights: the halves of 32 threads for each product and step, and an
 * output_channel for each. */
static int shared_of(int products, pointwise_choice c)
{
    return c.range / EIGHT * c.steps * WARP * (products == 3 ? 16 : 8) +
           c.range * (int)sizeof(output_channel);
}

/* Shared memory that a block may ask for, beside what the kernel declares. */
static int max_shared(const talc_device *device)
{
    return talc_cuda_state_of(device)->block_shared - 64;
}

// ---- The weights, in the order of threads -------------------------------------------------------

/* Packs the weights of a block, one warp an output channel, as [product][step][lane][four high
 * parts, four low parts]. Sets max_limit_bits to the largest limit of all channels. */
template <int PRODUCTS, int STEPS, typename SOURCE>
static __device__ __forceinline__ void pack_weights(const pointwise_problem<SOURCE> &p, int first,
                                                    int channels, char *packed,
                                                    output_channel *outputs,
                                                    unsigned *max_limit_bits)
{
    const int lane = (int)threadIdx.x % WARP;
    for (int i = (int)threadIdx.x / WARP; i < p.range; i += (int)blockDim.x / WARP) {
        const int oc = first + i;
        const bool real = i < channels;
        const float *w = p.w + (int64_t)oc * p.group_in;
        float v[4];
        for (int k = 0; k < 4; k++)
            v[k] = real && lane * 4 + k < p.group_in ? w[lane * 4 + k] : 0;
        const int e = exponent_for(larger_of_warp(largest_of(v)));
        const unsigned least = tininess_before(power_of_two(e), TINY<PRODUCTS>);
        int underflows = 0;
        for (int k = 0; k < 4; k++) {
            underflows += tininess(v[k]) < least;
            v[k] *= power_of_two(e);
        }
        uint2 high, low;
        split_four(v, high, low);
        const int at = (i / EIGHT * STEPS + lane / 4) * WARP + i % EIGHT * 4 + lane % 4;
        if (lane < STEPS * 4 && PRODUCTS == 3)
            ((uint4 *)packed)[at] = make_uint4(high.x, high.y, low.x, low.y);
        else if (lane < STEPS * 4)
            ((uint2 *)packed)[at] = high;
        underflows = __reduce_add_sync(~0u, underflows);
        const float limit = (float)underflows * p.coefficient;
        if (lane == 0 && underflows > 0)
            atomicMax(max_limit_bits, __float_as_uint(limit));
        if (lane == 0)
            outputs[i] = { power_of_two(-e), real && p.last.bias != nullptr ? p.last.bias[oc] : 0,
                           limit, 0 };
    }
}

// ---- The input, in registers --------------------------------------------------------------------

/* The channels of four positions as the first operand. In step s, lane % 4 = i has channels 4 i to
 * 4 i + 3. Rows lane / 4 and lane / 4 + 8 of the first product are the first two positions. */
template <int PRODUCTS, int STEPS> struct pointwise_operand {
    uint4 high[STEPS][2], rest[PRODUCTS == 3 ? STEPS : 1][2];
    float inverse[FOUR]; /* takes the sums of a position back to the scale of the data */
};

/* Scales each position by a power of two of its own, splits it into high and low parts, and sets
 * the limits by its underflows. v[channel][position]. */
template <int PRODUCTS, int STEPS>
static __device__ __forceinline__ void split_positions(float (&v)[STEPS * 4][FOUR],
                                                       float coefficient,
                                                       pointwise_operand<PRODUCTS, STEPS> &a,
                                                       sums_limits &limits)
{
    float largest[FOUR] = {}, scale[FOUR];
#pragma unroll
    for (int c = 0; c < STEPS * 4; c++)
#pragma unroll
        for (int q = 0; q < FOUR; q++)
            largest[q] = fmaxf(largest[q], fabsf(v[c][q]));
#pragma unroll
    for (int q = 0; q < FOUR; q++) {
        largest[q] = fmaxf(largest[q], __shfl_xor_sync(~0u, largest[q], 1));
        largest[q] = fmaxf(largest[q], __shfl_xor_sync(~0u, largest[q], 2));
        const int e = exponent_for(largest[q]);
        scale[q] = power_of_two(e);
        a.inverse[q] = largest[q] == 0 ? 0 : power_of_two(-e);
    }
    /* `underflows` has 8 bits for each position, whose count is at most STEPS * STEP. */
    unsigned underflows = 0;
#pragma unroll
    for (int q = 0; q < FOUR; q++) {
        const unsigned least = tininess_before(scale[q], TINY<PRODUCTS>);
        unsigned smallest = ~0u;
#pragma unroll
        for (int c = 0; c < STEPS * 4; c++)
            smallest = min(smallest, tininess(v[c][q]));
        if (smallest < least)
#pragma unroll
            for (int c = 0; c < STEPS * 4; c++)
                underflows += tininess(v[c][q]) < least ? 1u << 8 * q : 0;
#pragma unroll
        for (int c = 0; c < STEPS * 4; c++)
            v[c][q] *= scale[q];
    }
    underflows += __shfl_xor_sync(~0u, underflows, 1);
    underflows += __shfl_xor_sync(~0u, underflows, 2);
#pragma unroll
    for (int q = 0; q < FOUR; q++) {
        const bool far = !(largest[q] < 0x1p80f && (largest[q] > 0x1p-80f || largest[q] == 0));
        limits.base[q] =
            far ? NAN : (float)(underflows >> 8 * q & 0xff) * coefficient * a.inverse[q];
        limits.factor[q] = a.inverse[q];
    }
#pragma unroll
    for (int s = 0; s < STEPS; s++)
#pragma unroll
        for (int m = 0; m < 2; m++) {
            uint32_t high[4], rest[4];
#pragma unroll
            for (int r = 0; r < 4; r++) {
                const int c = s * 4 + r / 2 * 2, q = m * 2 + r % 2;
                const __half2 h = __floats2half2_rn(v[c][q], v[c + 1][q]);
                high[r] = bits_of(h);
                rest[r] = bits_of(
                    __floats2half2_rn(v[c][q] - __low2float(h), v[c + 1][q] - __high2float(h)));
            }
            a.high[s][m] = make_uint4(high[0], high[1], high[2], high[3]);
            if (PRODUCTS == 3)
                a.rest[s][m] = make_uint4(rest[0], rest[1], rest[2], rest[3]);
        }
}

/* Adds the products of four positions and eight output channels. sums[m][r] is of position
 * 2 m + r / 2 and channel lane % 4 * 2 + r % 2. */
template <int PRODUCTS, int STEPS>
static __device__ __forceinline__ void multiply(const pointwise_operand<PRODUCTS, STEPS> &a,
                                                const char *weights, float (&sums)[2][4])
{
    constexpr int BYTES = PRODUCTS == 3 ? 16 : 8;
    const char *mine = weights + (int)threadIdx.x % WARP * BYTES;
#pragma unroll
    for (int from = 0; from < STEPS; from += 4) {
        /* Tensor cores truncate sums, f32 registers round them. */
        float partial[2][4] = {};
#pragma unroll
        for (int s = from; s < STEPS && s < from + 4; s++) {
            uint4 b;
            if (PRODUCTS == 3)
                b = *(const uint4 *)(mine + s * WARP * BYTES);
            else
                *(uint2 *)&b = *(const uint2 *)(mine + s * WARP * BYTES);
#pragma unroll
            for (int m = 0; m < 2; m++) {
                if (PRODUCTS == 3) {
                    mma(partial[m], a.rest[s][m], b.x, b.y);
                    mma(partial[m], a.high[s][m], b.z, b.w);
                }
                mma(partial[m], a.high[s][m], b.x, b.y);
            }
        }
#pragma unroll
        for (int m = 0; m < 2; m++)
#pragma unroll
            for (int r = 0; r < 4; r++)
                sums[m][r] += partial[m][r] * a.inverse[m * 2 + r / 2];
    }
}

// ---- The kernel ---------------------------------------------------------------------------------

template <int PRODUCTS, int STEPS, typename SOURCE>
static __global__ void __launch_bounds__(threads_of(STEPS), 1)
    pointwise_mma_kernel(const __grid_constant__ pointwise_problem<SOURCE> p)
{
    constexpr bool VECTORS = SOURCE::VECTORS;
    constexpr int WARPS = threads_of(STEPS) / WARP, BYTES = PRODUCTS == 3 ? 16 : 8;
    extern __shared__ __align__(16) char shared[];
    output_channel *outputs = (output_channel *)shared;
    char *weights = shared + p.range * sizeof(output_channel);
    const talc_pointwise_channels own =
        talc_pointwise_channels_of(p.group_out, p.range, p.ranges, (int)blockIdx.y);
    const int g = own.g, first = g * p.group_out + own.first, channels = own.count;
    const int lane = (int)threadIdx.x % WARP;
    __shared__ unsigned max_limit_bits;
    if (threadIdx.x == 0)
        max_limit_bits = 0;
    __syncthreads();
    pack_weights<PRODUCTS, STEPS>(p, first, channels, weights, outputs, &max_limit_bits);
    __syncthreads();
    const float max_channel_limit = __uint_as_float(max_limit_bits);
    const int tiles = (p.positions + POSITIONS - 1) / POSITIONS;
    const int warp = (int)threadIdx.x / WARP;
    for (int t = talc_pointwise_first_tile((int)blockIdx.x, WARPS, warp); t - warp % 4 < tiles;
         t += (int)gridDim.x * WARPS) {
        four_positions<VECTORS> at;
        at.at = t * POSITIONS + talc_pointwise_first_position(VECTORS, lane);
        at.count = p.positions - at.at;
        typename SOURCE::pointers from;
#pragma unroll
        for (int q = 0; q < (VECTORS ? 1 : FOUR); q++) {
            const int position =
                min(at.at + talc_pointwise_behind(false, q), p.positions - (VECTORS ? FOUR : 1));
            const int n = (int)p.by_plane.quotient((uint32_t)position),
                      pixel = position - n * p.plane;
            at.y[q] = (int64_t)n * p.OC * p.plane + pixel;
            p.source.find(from, q, n, pixel, g * p.group_in + lane % 4 * 4);
        }
        float v[STEPS * 4][FOUR];
        pointwise_operand<PRODUCTS, STEPS> a;
        sums_limits limits;
        p.source.load(v, from, p.group_in - lane % 4 * 4);
        split_positions<PRODUCTS, STEPS>(v, p.coefficient, a, limits);
        set_any(limits, max_channel_limit);
#pragma unroll 1
        for (int i = 0; i < channels; i += EIGHT) {
            /* Four warps that write at the same time write 512 bytes of a channel. Memory takes
             * those at a better rate. */
            asm volatile("bar.sync %0, 128;" ::"r"(1 + warp / 4) : "memory");
            float sums[2][4] = {}, added[2][FOUR] = {};
            load_residual(p, at, first, i, channels, added);
            multiply(a, weights + i / EIGHT * (STEPS * WARP * BYTES), sums);
            store_eight(p, at, first, i, channels, outputs, sums, added, limits);
        }
    }
}

// ---- Plan and launch ----------------------------------------------------------------------------

/* A single step takes the kernel of two, and where four positions are no vector two take that of
 * four: kernels of their own would be less than 1.2 times as fast. */
static pointwise_choice choose(const talc_device *device, const talc_conv2d_problem *p,
                               int products, bool vectors)
{
    const int64_t channels = p->C / p->groups;
    pointwise_choice c = { vectors && channels <= 2 * STEP ? 2
                           : channels <= 4 * STEP          ? 4
                                                           : MAX_STEPS,
                           EIGHT };
    const int64_t all = talc_ceil_div(p->OC / p->groups, EIGHT) * EIGHT,
                  max_range = max_shared(device) / shared_of(products, c) * EIGHT;
    c.range = (int)(all < max_range ? all : max_range);
    const int64_t blocks =
        talc_ceil_div(p->N * p->H * p->W, threads_of(c.steps) / WARP * POSITIONS) * p->groups;
    while (c.range > 32 &&
           blocks * talc_ceil_div(all, c.range) * 2 <= talc_cuda_state_of(device)->multiprocessors)
        c.range = (int)talc_ceil_div(c.range, 2 * EIGHT) * EIGHT;
    return c;
}

/* Blocks that share the positions of a range of output channels. */
static int64_t blocks_of(const talc_device *device, const talc_conv2d_problem *p,
                         pointwise_choice c)
{
    const int64_t max_blocks =
                      talc_ceil_div(p->N * p->H * p->W, threads_of(c.steps) / WARP * POSITIONS),
                  ranges = p->groups * talc_ceil_div(p->OC / p->groups, c.range),
                  share = talc_ceil_div(talc_cuda_state_of(device)->multiprocessors, ranges);
    return max_blocks < share ? max_blocks : share;
}

/* Seconds: the packing of the weights, then the longer of memory and the tiles of a block's
 * warps. */
static double seconds(const talc_device *device, const talc_conv2d_problem *p, int products,
                      pointwise_choice c)
{
    const int64_t warps = threads_of(c.steps) / WARP, blocks = blocks_of(device, p, c),
                  ranges = p->groups * talc_ceil_div(p->OC / p->groups, c.range);
    const double rounds =
        (double)talc_ceil_div(talc_ceil_div(p->N * p->H * p->W, POSITIONS), blocks * warps) *
        (double)talc_ceil_div(blocks * ranges, talc_cuda_state_of(device)->multiprocessors);
    const double loading =
        c.steps * POINTWISE_STEP * (p->H * p->W % FOUR == 0 ? 1 : POINTWISE_UNALIGNED);
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
    if (p->C / p->groups > MAX_STEPS * STEP)
        return "sums of more than 128 products";
    if (p->C > INT_MAX / 64 || p->OC > INT_MAX / 64 || p->H * p->W > INT_MAX / 64 ||
        p->N > (INT_MAX - 4 * POSITIONS) / (p->H * p->W))
        return "an extent is too large";
    const pointwise_choice c = choose(device, p, PRODUCTS, p->H * p->W % FOUR == 0);
    if (p->groups * talc_ceil_div(p->OC / p->groups, c.range) > MAX_GRID)
        return "more than 65,535 groups";
    plan->seconds = seconds(device, p, PRODUCTS, c);
    talc_plan_store(plan, &c, sizeof c);
    return NULL;
}

template <int PRODUCTS, int STEPS, bool VECTORS>
static talc_status launch(talc_device *device, const talc_conv2d_problem *p, pointwise_choice c,
                          const talc_conv2d_arguments *a)
{
    using source = plane_source<VECTORS>;
    pointwise_problem<source> g = {};
    g.plane = (int)(p->H * p->W), g.positions = (int)(p->N * p->H * p->W);
    g.source = { (const float *)a->x, (int)p->C, g.plane };
    g.w = (const float *)a->w, g.y = (float *)a->y;
    g.recomputed = talc_cuda_recomputed(device);
    g.last = epilogue<float>(a->bias, a->residual, p->activation);
    g.group_in = (int)(p->C / p->groups), g.group_out = (int)(p->OC / p->groups);
    g.OC = (int)p->OC;
    g.range = c.range;
    g.ranges = (int)talc_ceil_div(g.group_out, c.range);
    g.coefficient = PRODUCTS == 3 ? 0x1p14f / (float)(g.group_in / 4 + 2) : 4;
    g.by_plane.set(g.plane);
    const auto kernel = &pointwise_mma_kernel<PRODUCTS, STEPS, source>;
    const cudaError_t error = allow_shared(kernel, max_shared(device));
    if (error != cudaSuccess)
        return talc_cuda_not_launched(device, "conv2d", error);
    const dim3 grid((unsigned)blocks_of(device, p, c), (unsigned)(p->groups * g.ranges));
    kernel<<<grid, threads_of(STEPS), shared_of(PRODUCTS, c), talc_cuda_stream(device)>>>(g);
    return talc_cuda_launched(device, "conv2d");
}

template <int PRODUCTS, bool VECTORS>
static talc_status with_steps(talc_device *device, const talc_conv2d_problem *p, pointwise_choice c,
                              const talc_conv2d_arguments *a)
{
    if constexpr (VECTORS)
        if (c.steps == 2)
            return launch<PRODUCTS, 2, VECTORS>(device, p, c, a);
    return c.steps == 4 ? launch<PRODUCTS, 4, VECTORS>(device, p, c, a)
                        : launch<PRODUCTS, MAX_STEPS, VECTORS>(device, p, c, a);
}

template <int PRODUCTS>
static talc_status run(talc_device *device, const talc_conv2d_problem *p, const talc_plan *plan,
                       const talc_conv2d_arguments *a)
{
    if (p->H * p->W % FOUR == 0 && is_aligned(a->x) && is_aligned(a->y) && is_aligned(a->residual))
        return with_steps<PRODUCTS, true>(device, p, own_plan<pointwise_choice>(plan), a);
    return with_steps<PRODUCTS, false>(device, p, choose(device, p, PRODUCTS, false), a);
}

TALC_CUDA_FORM_WITH_PHASES(pointwise_mma, 3)
TALC_CUDA_FORM_WITH_PHASES(pointwise_mma_tf32, 1)
