/// The input gradient of batch normalisation, with those of weight, bias and residual.
///
///     dbias[c] = sum g,    dweight[c] = sum g x^,    x^ = (x - mean[c]) rstd[c],
///     dresidual = g = dy act'
///     dx = weight[c] rstd[c] (g - (dbias[c] + x^ dweight[c]) / M) in training,
///          weight[c] rstd[c] g otherwise
///
/// dy, x, y, dx, dresidual [N, C, H, W], the rest [C], contiguous; M = N H W; act' is worked out
/// from y. Memory-bound: x and dy, and behind an activation y, are read twice, dx is written once.
/// Where the residual has a gradient, the first pass writes it and the second reads it in place of
/// dy and y.
///
///   parts     A channel is split into parts of about 16384 values, several planes or part of one,
///             and into no more than some thousand. A block gives a part's sums, in f64; then each
///             block adds up those of a channel, in a tree of fixed shape, and does a part of its
///             dx, as ops/norm.h says and from the back, where x and dy are still cached.
///   channels  One block a channel.
#include "backends/cuda/primitives/activation.cuh"
#include "backends/cuda/primitives/dtype.cuh"
#include "backends/cuda/primitives/group.cuh"
#include "backends/cuda/norm/gradient.h"
#include "ops/norm.h"
#include "tensor/extent.h"

using namespace talc;

namespace /* other kernels have types of the same names */
{

/* dx = g * by_g + ((x - mean) * by_x + shift), as ops/norm.h says; outside training g * by_g. */
template <typename T> struct gradient_affine {
    T by_g, mean, by_x, shift;
    talc_norm_gradient exact;
};

template <typename T> struct gradient_plan {
    const T *x, *dy, *y, *weight;
    const double *mean, *rstd;
    T *dx, *dweight, *dbias, *dresidual;
    gradient_sums *parts; /* [C][parts] */
    int64_t N, C, plane, parts_of_channel;
    int64_t images, length, segments; /* a part: planes, values of each, and parts of a plane */
    talc_activation activation;
    bool training;
};

/* Some values of channel c: `rows` runs of whole vectors, C planes apart. */
struct gradient_part {
    int64_t c, offset; /* of the first value */
    uint32_t vectors;  /* of all runs */
};

// ---- Sums and dx of some values -----------------------------------------------------------------

/* Calls visit(x, g, offset) with each COUNT neighbours that a thread of the block has, IN_FLIGHT at
 * a time; `from` is dy, or g itself where it does not follow from dy and y. `length` is that of
 * runs in vectors, and of a single run no less than what it has. */
template <int COUNT, int IN_FLIGHT, bool ACTIVATES, typename T, typename Visit>
static __device__ void for_part(const gradient_plan<T> &p, const gradient_part &part,
                                const divisor<uint32_t> &length, const T *from, Visit visit)
{
    for (uint32_t i = threadIdx.x; i < part.vectors; i += BLOCK * IN_FLIGHT) {
        vec<T, COUNT> x[IN_FLIGHT], g[IN_FLIGHT], y[IN_FLIGHT];
        int64_t at[IN_FLIGHT];
#pragma unroll
        for (int k = 0; k < IN_FLIGHT; k++) {
            const uint32_t vector = i + k * BLOCK;
            if (vector >= part.vectors)
                continue;
            const uint32_t row = length.quotient(vector);
            at[k] = part.offset + (int64_t)row * p.C * p.plane +
                    (int64_t)(vector - row * length.by) * COUNT;
            x[k] = *(const vec<T, COUNT> *)(p.x + at[k]);
            g[k] = *(const vec<T, COUNT> *)(from + at[k]);
            if (ACTIVATES)
                y[k] = *(const vec<T, COUNT> *)(p.y + at[k]);
        }
#pragma unroll
        for (int k = 0; k < IN_FLIGHT; k++) {
            if (i + k * BLOCK >= part.vectors)
                continue;
#pragma unroll
            for (int e = 0; ACTIVATES && e < COUNT; e++)
                g[k].of[e] = talc_activation_gradient(p.activation, g[k].of[e], y[k].of[e]);
            visit(x[k], g[k], at[k]);
        }
    }
}

/* Those of the thread. */
template <int COUNT, int IN_FLIGHT, bool ACTIVATES, typename T>
static __device__ gradient_sums sums_of(const gradient_plan<T> &p, const gradient_part &part,
                                        const divisor<uint32_t> &length)
{
    gradient_sums sums;
    const double mean = p.mean[part.c];
    for_part<COUNT, IN_FLIGHT, ACTIVATES>(
        p, part, length, p.dy, [&](const vec<T, COUNT> &x, const vec<T, COUNT> &g, int64_t at) {
#pragma unroll
            for (int e = 0; e < COUNT; e++) {
                sums.g += (double)g.of[e];
                sums.product += (double)g.of[e] * ((double)x.of[e] - mean);
            }
            if (ACTIVATES && p.dresidual != NULL)
                *(vec<T, COUNT> *)(p.dresidual + at) = g;
        });
    return sums;
}

/* Outside training an infinite x has no part in dx. */
template <int COUNT, int IN_FLIGHT, bool ACTIVATES, typename T>
static __device__ void write_input(const gradient_plan<T> &p, const gradient_part &part,
                                   const divisor<uint32_t> &length, const gradient_affine<T> &by,
                                   const T *from)
{
    const auto write = [&](auto dx_of) {
        return [&p, dx_of](const vec<T, COUNT> &x, const vec<T, COUNT> &g, int64_t at) {
            vec<T, COUNT> dx;
#pragma unroll
            for (int e = 0; e < COUNT; e++)
                dx.of[e] = dx_of(x.of[e], g.of[e]);
            *(vec<T, COUNT> *)(p.dx + at) = dx;
        };
    };
    const bool training = p.training;
    if (by.exact.wide)
        for_part<COUNT, 1, ACTIVATES>(
            p, part, length, from, write([training, &exact = by.exact](T x, T g) {
                double dx = (double)g * exact.by_g;
                if (training)
                    dx += ((double)x - exact.mean) * exact.rstd * exact.slope + exact.shift;
                return (T)dx;
            }));
    else
        for_part<COUNT, IN_FLIGHT, ACTIVATES>(p, part, length, from,
                                              write([&by, training](T x, T g) {
                                                  T dx = g * by.by_g;
                                                  if (training)
                                                      dx += (x - by.mean) * by.by_x + by.shift;
                                                  return dx;
                                              }));
}

template <typename T>
static __device__ gradient_affine<T> affine_of(const gradient_plan<T> &p, int64_t c,
                                               const gradient_sums &all)
{
    const double scale = (p.weight == NULL ? 1 : (double)p.weight[c]) * p.rstd[c];
    const talc_norm_gradient by =
        talc_norm_gradient_of(p.mean[c], (double)(T)p.mean[c], p.rstd[c], scale, all.g, all.product,
                              (double)p.N * (double)p.plane);
    return { (T)scale, (T)by.mean, (T)(by.rstd * by.slope), (T)by.shift, by };
}

// ---- Kernel -------------------------------------------------------------------------------------

/* Blocks that a multiprocessor is to have registers for. */
template <typename T, int COUNT, gradient_pass PASS, bool ACTIVATES>
constexpr int MIN_BLOCKS = PASS != BOTH ? (sizeof(T) > sizeof(float) ? 3 : 4)
                           : ACTIVATES && (COUNT > 1 || sizeof(T) > sizeof(float)) ? 2
                                                                                   : 3;

/* Part `number` of `parts`; blocks side by side take the same images. */
template <int COUNT, gradient_pass PASS, typename T>
static __device__ gradient_part part_of(const gradient_plan<T> &p, const divisor<uint32_t> &length,
                                        int64_t number)
{
    if (PASS == BOTH)
        return { number, number * p.plane, (uint32_t)p.N * length.by };
    const int64_t c = number % p.C, of_channel = number / p.C;
    const int64_t n = of_channel / p.segments * p.images;
    const int64_t first = of_channel % p.segments * p.length;
    const int64_t rows = min(p.images, p.N - n), values = min(p.length, p.plane - first);
    return { c, (n * p.C + c) * p.plane + first, (uint32_t)(rows * (values / COUNT)) };
}

template <typename T, int COUNT, gradient_pass PASS, bool ACTIVATES>
static __global__ void __launch_bounds__(BLOCK, MIN_BLOCKS<T, COUNT, PASS, ACTIVATES>)
    gradient(const gradient_plan<T> p, divisor<uint32_t> length)
{
    constexpr int IN_FLIGHT = (COUNT > 1 ? 2 : 4) * (PASS == BOTH ? 2 : 1);
    __shared__ gradient_sums shared[BLOCK / WARP];
    __shared__ gradient_affine<T> of_channel;
    const int64_t parts = PASS == BOTH ? p.C : p.C * p.parts_of_channel;
    for (int64_t i = blockIdx.x; i < parts; i += gridDim.x) {
        const int64_t number = PASS == SECOND ? parts - 1 - i : i;
        const gradient_part part = part_of<COUNT, PASS>(p, length, number);
        gradient_sums sums;
        if (PASS == SECOND)
#pragma unroll 1
            for (int64_t k = threadIdx.x; k < p.parts_of_channel; k += BLOCK)
                sums.join(p.parts[part.c * p.parts_of_channel + k]);
        else
            sums = sums_of<COUNT, IN_FLIGHT, ACTIVATES>(p, part, length);
        sums = join_group(sums, BLOCK, shared); /* behind which the part before is done */
        if (PASS == FIRST) {
            if (threadIdx.x == 0)
                p.parts[part.c * p.parts_of_channel + number / p.C] = sums;
            continue;
        }
        if (threadIdx.x == 0) {
            of_channel = affine_of(p, part.c, sums);
            if (number < p.C) { /* the channel's first part */
                p.dweight[part.c] = (T)(sums.product * p.rstd[part.c]);
                p.dbias[part.c] = (T)sums.g;
            }
        }
        __syncthreads();
        if (ACTIVATES && (PASS == SECOND || p.dresidual == NULL))
            write_input<COUNT, IN_FLIGHT, true>(p, part, length, of_channel, p.dy);
        else /* a thread reads what it has written itself */
            write_input<COUNT, IN_FLIGHT, false>(p, part, length, of_channel,
                                                 ACTIVATES ? p.dresidual : p.dy);
    }
}

// ---- Launches -----------------------------------------------------------------------------------

template <typename T>
static gradient_plan<T> plan_of(const talc_batch_norm2d_problem *p,
                                const talc_batch_norm2d_arguments *a)
{
    gradient_plan<T> plan = {};
    plan.N = p->N;
    plan.C = p->C;
    plan.plane = p->H * p->W;
    plan.activation = p->activation;
    plan.training = p->training;
    if (plan.plane > 0) {
        const int64_t values = values_of_part(p->N * plan.plane, GRADIENT_PARTS);
        plan.images = talc_larger(values / plan.plane, 1);
        plan.length = talc_smaller(plan.plane, values);
        plan.segments = talc_ceil_div(plan.plane, plan.length);
        plan.parts_of_channel = talc_ceil_div(p->N, plan.images) * plan.segments;
    }
    if (a == NULL)
        return plan;
    plan.x = (const T *)a->x;
    plan.dy = (const T *)a->dy;
    plan.y = (const T *)a->y;
    plan.weight = (const T *)a->weight;
    plan.mean = a->mean;
    plan.rstd = a->rstd;
    plan.dx = (T *)a->dx;
    plan.dweight = (T *)a->dweight;
    plan.dbias = (T *)a->dbias;
    plan.dresidual = (T *)a->dresidual;
    plan.parts = (gradient_sums *)a->base.workspace;
    return plan;
}

template <typename T> static bool is_packed(const gradient_plan<T> &plan)
{
    return plan.plane % VECTOR_WIDTH<T> == 0 && is_aligned(plan.x) && is_aligned(plan.dy) &&
           is_aligned(plan.y) && is_aligned(plan.dx) && is_aligned(plan.dresidual);
}

template <typename T, int COUNT>
static void launch_channels(talc_device *device, const gradient_plan<T> &plan)
{
    divisor<uint32_t> length;
    length.set(plan.plane / COUNT);
    const auto kernel = plan.activation == TALC_ACTIVATION_NONE ? gradient<T, COUNT, BOTH, false>
                                                                : gradient<T, COUNT, BOTH, true>;
    kernel<<<grid_for_blocks(device, plan.C), BLOCK, 0, talc_cuda_stream(device)>>>(plan, length);
}

template <typename T> static void launch_channels(talc_device *device, const gradient_plan<T> &plan)
{
    if (is_packed(plan))
        launch_channels<T, VECTOR_WIDTH<T>>(device, plan);
    else
        launch_channels<T, 1>(device, plan);
}

template <typename T, int COUNT>
static void launch_parts(talc_device *device, gradient_plan<T> plan)
{
    const cudaStream_t stream = talc_cuda_stream(device);
    const unsigned blocks = grid_for_blocks(device, plan.C * plan.parts_of_channel);
    divisor<uint32_t> length;
    length.set(plan.length / COUNT);
    const bool activates = plan.activation != TALC_ACTIVATION_NONE;
    const auto first =
        activates ? gradient<T, COUNT, FIRST, true> : gradient<T, COUNT, FIRST, false>;
    first<<<blocks, BLOCK, 0, stream>>>(plan, length);
    /* The first pass has then written what the activation lets through. */
    const bool stored = activates && plan.dresidual != NULL;
    if (stored)
        plan.dy = plan.dresidual;
    const auto second =
        activates && !stored ? gradient<T, COUNT, SECOND, true> : gradient<T, COUNT, SECOND, false>;
    second<<<blocks, BLOCK, 0, stream>>>(plan, length);
}

template <typename T> static void launch_parts(talc_device *device, const gradient_plan<T> &plan)
{
    if (is_packed(plan))
        launch_parts<T, VECTOR_WIDTH<T>>(device, plan);
    else
        launch_parts<T, 1>(device, plan);
}

} // namespace

talc_status talc_cuda_norm_gradient(talc_device *device, const talc_batch_norm2d_problem *p,
                                    const talc_batch_norm2d_arguments *a, bool in_parts)
{
    return with_float(p->dtype, [&](auto element) {
        const auto plan = plan_of<typename decltype(element)::type>(p, a);
        if (in_parts)
            launch_parts(device, plan);
        else
            launch_channels(device, plan);
        return talc_cuda_launched(device, "batch_norm2d");
    });
}

size_t talc_cuda_norm_gradient_workspace(const talc_batch_norm2d_problem *p)
{
    const int64_t parts = plan_of<double>(p, NULL).parts_of_channel;
    return (size_t)p->C * (size_t)parts * sizeof(gradient_sums);
}
