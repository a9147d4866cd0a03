/// The gradients of a convolution by their formulas, which need no workspace. With IC and OC the
/// channels of a group,
///
///     dx[n, g*IC + ic, h, w] = sum over oc, kh, kw of
///                              dy[n, g*OC + oc, oh, ow] * w[g*OC + oc, ic, kh, kw],
///                              oh * stride_h + kh * dilation_h = h + top, and across likewise
///     dw[g*OC + oc, ic, kh, kw] = sum over n, oh, ow of dy[n, g*OC + oc, oh, ow]
///                                 * x'[n, g*IC + ic, oh*stride_h - top + kh*dilation_h,
///                                      ow*stride_w - left + kw*dilation_w]
///
/// Small images have a kernel that serves forward and dx (direct_small.cu). At stride 1, where the
/// workspace holds the rotated kernel, dx is a direct convolution with that (input_gradient.h); at
/// the strides of networks a block computes all phases of a tile of it (direct_phases.cuh).
/// Otherwise a thread computes an element of dx, of the taps that read it (gradient_taps.cuh):
/// neighbours read neighbouring outputs and the same weights. Small convolutions' dw is summed in
/// registers, tile by tile (direct_weights.cuh). Otherwise a group of threads computes an element
/// of dw: each takes the outputs a group apart, and a tree adds their sums.
///
/// The last form of either takes every problem, in 64-bit indices and without a workspace, and is
/// what runs where the others have too little. Sums are in the data's type, in an order that
/// follows from the problem, the GPU's size and the workspace alone.
#include "backends/cuda/conv2d/direct_phases.cuh"
#include "backends/cuda/conv2d/direct_weights.cuh"
#include "backends/cuda/conv2d/gradient_taps.cuh"
#include "backends/cuda/conv2d/form.cuh"
#include "backends/cuda/primitives/dtype.cuh"
#include "backends/cuda/primitives/group.cuh"
#include "tensor/extent.h"

#include <cmath>

using namespace talc;

/* Of FFMA's rate, with two loads a product, on a GPU that is full: so many threads a
 * multiprocessor; of that rate, in dw. */
constexpr double SHARE = 0.01, WEIGHTS = 0.3;
constexpr int64_t FULL = 4 * BLOCK;

/* Outputs from which a block computes an element of dw, and no longer a warp. */
constexpr int64_t MANY = 4 * BLOCK;

// ---- The input gradient -------------------------------------------------------------------------

template <typename T> struct input_sums {
    const T *dy, *w;
    T *dx;
    gather_axis<int64_t> down, across;
    divisor<uint64_t> W, H, IC, groups;
    int64_t OC, count;
};

template <typename T>
static __global__ void __launch_bounds__(BLOCK) sum_taps(const input_sums<T> p)
{
    const int64_t plane = p.down.O * p.across.O, taps = p.down.K * p.across.K;
    TALC_GRID_LOOP(int64_t, i, p.count)
    {
        const uint64_t row = p.W.quotient((uint64_t)i), channel = p.H.quotient(row);
        const uint64_t slice = p.IC.quotient(channel), ic = channel - slice * p.IC.by;
        const uint64_t g = slice - p.groups.quotient(slice) * p.groups.by;
        const gather_taps<int64_t> down = p.down.taps((int64_t)(row - channel * p.H.by));
        const gather_taps<int64_t> across = p.across.taps((int64_t)((uint64_t)i - row * p.W.by));
        const T *from = p.dy + (int64_t)slice * p.OC * plane;
        const T *weights = p.w + (int64_t)(g * (uint64_t)p.OC * p.IC.by + ic) * taps;
        accumulator_of<T> sum = 0;
        for (int64_t oc = 0; oc < p.OC; oc++) {
            for (int64_t u = 0; u < down.count; u++) {
                const T *outputs = from + (down.out - u * p.down.out_step) * p.across.O;
                const T *row_weights = weights + (down.tap + u * p.down.tap_step) * p.across.K;
                for (int64_t v = 0; v < across.count; v++)
                    sum += (accumulator_of<T>)outputs[across.out - v * p.across.out_step] *
                           row_weights[across.tap + v * p.across.tap_step];
            }
            from += plane;
            weights += (int64_t)p.IC.by * taps;
        }
        p.dx[i] = (T)sum;
    }
}

template <typename T>
static void grad_input(talc_device *device, const talc_conv2d_problem *p,
                       const talc_conv2d_arguments *a)
{
    input_sums<T> s;
    s.dy = (const T *)a->dy, s.w = (const T *)a->w, s.dx = (T *)a->dx;
    s.down.set(p->stride_h, p->dilation_h, p->KH, p->OH, p->pad_top);
    s.across.set(p->stride_w, p->dilation_w, p->KW, p->OW, p->pad_left);
    s.W.set(p->W), s.H.set(p->H), s.IC.set(p->C / p->groups), s.groups.set(p->groups);
    s.OC = p->OC / p->groups, s.count = p->N * p->C * p->H * p->W;
    sum_taps<T><<<grid_for_threads(device, s.count), BLOCK, 0, talc_cuda_stream(device)>>>(s);
}

// ---- The weight gradient ------------------------------------------------------------------------

template <typename T> struct weight_sums {
    talc_conv2d_problem p;
    const T *x, *dy;
    T *dw;
    divisor<uint64_t> plane, OW;
    int64_t elements, outputs; /* of dw; of a channel, in all images */
    int threads;               /* of an element */
};

template <typename A> struct plain_sum {
    A value;
    __device__ void join(plain_sum other)
    {
        value += other.value;
    }
};

/* The products of one thread of an element's. */
template <typename T>
static __device__ accumulator_of<T> sum_products(const weight_sums<T> &s, int64_t element,
                                                 int64_t thread)
{
    const talc_conv2d_problem &p = s.p;
    const int64_t IC = p.C / p.groups, row = element / p.KW, pair = row / p.KH, oc = pair / IC;
    const int64_t channel = oc / (p.OC / p.groups) * IC + pair % IC;
    const int64_t top = row % p.KH * p.dilation_h - p.pad_top;
    const int64_t left = element % p.KW * p.dilation_w - p.pad_left;
    const T *x = s.x + channel * p.H * p.W, *dy = s.dy + oc * (int64_t)s.plane.by;
    accumulator_of<T> sum = 0;
    for (int64_t e = thread; e < s.outputs; e += s.threads) {
        const uint64_t n = s.plane.quotient((uint64_t)e), at = (uint64_t)e - n * s.plane.by;
        const uint64_t oh = s.OW.quotient(at), ow = at - oh * s.OW.by;
        const int64_t h = (int64_t)oh * p.stride_h + top, w = (int64_t)ow * p.stride_w + left;
        const bool inside = (uint64_t)h < (uint64_t)p.H && (uint64_t)w < (uint64_t)p.W;
        const T value = inside ? x[((int64_t)n * p.C * p.H + h) * p.W + w] : (T)0;
        sum += (accumulator_of<T>)dy[(int64_t)(n * (uint64_t)p.OC * s.plane.by + at)] * value;
    }
    return sum;
}

template <typename T>
static __global__ void __launch_bounds__(BLOCK) sum_outputs(const weight_sums<T> s)
{
    using sum_type = plain_sum<accumulator_of<T>>;
    __shared__ sum_type shared[BLOCK / WARP];
    const int each = BLOCK / s.threads, thread = (int)threadIdx.x % s.threads;
    for (int64_t first = (int64_t)blockIdx.x * each; first < s.elements;
         first += (int64_t)gridDim.x * each) {
        const int64_t element = first + (int)threadIdx.x / s.threads;
        sum_type sum = { 0 };
        if (element < s.elements)
            sum.value = sum_products(s, element, thread);
        sum = join_group(sum, s.threads, shared);
        if (thread == 0 && element < s.elements)
            s.dw[element] = (T)sum.value;
    }
}

static int threads_of(const talc_conv2d_problem *p)
{
    return p->N * p->OH * p->OW < MANY ? WARP : BLOCK;
}

template <typename T>
static void grad_weight(talc_device *device, const talc_conv2d_problem *p,
                        const talc_conv2d_arguments *a)
{
    weight_sums<T> s;
    s.p = *p;
    s.x = (const T *)a->x, s.dy = (const T *)a->dy, s.dw = (T *)a->dw;
    s.plane.set(p->OH * p->OW), s.OW.set(p->OW);
    s.elements = p->OC * (p->C / p->groups) * p->KH * p->KW;
    s.outputs = p->N * p->OH * p->OW;
    s.threads = threads_of(p);
    const int64_t blocks = talc_ceil_div(s.elements, BLOCK / s.threads);
    sum_outputs<T><<<grid_for_blocks(device, blocks), BLOCK, 0, talc_cuda_stream(device)>>>(s);
}

// ---- The algorithms -----------------------------------------------------------------------------

static double one_by_one_seconds(const talc_device *device, const talc_conv2d_problem *p)
{
    const bool input = p->direction == TALC_GRAD_INPUT;
    const double threads = input ? (double)p->N * (double)p->C * (double)p->H * (double)p->W
                                 : (double)p->OC * (double)(p->C / p->groups) *
                                       (double)(p->KH * p->KW) * threads_of(p);
    const double full = (double)(talc_cuda_state_of(device)->multiprocessors * FULL);
    const double share = (input ? 1 : WEIGHTS) * (threads < full ? threads / full : 1);
    return talc_cuda_conv2d_seconds(device, p, SHARE * share, talc_conv2d_bytes(p), 1);
}

/* An element at a time is taken to be no faster than another form that serves. */
static double min_of_others(const talc_device *device, const talc_conv2d_problem *p, size_t limit)
{
    talc_plan other = {};
    if (talc_cuda_conv2d_rotated_plan(talc_cuda_conv2d_direct_textbook_plan, device, p, limit,
                                      &other) == NULL &&
        other.workspace <= limit)
        return other.seconds;
    if (talc_cuda_conv2d_direct_phases_gradient_plan(device, p, limit, &other) == NULL ||
        talc_cuda_conv2d_direct_small_gradient_plan(device, p, limit, &other) == NULL)
        return other.seconds;
    return 0;
}

static const char *plan_one_by_one(const talc_device *device, const talc_conv2d_problem *p,
                                   size_t limit, talc_plan *plan)
{
    plan->seconds = one_by_one_seconds(device, p);
    if (p->direction == TALC_GRAD_INPUT)
        plan->seconds = fmax(plan->seconds, min_of_others(device, p, limit));
    return NULL;
}

template <typename T>
static talc_status run_one_by_one(talc_device *device, const talc_conv2d_problem *p,
                                  const talc_conv2d_arguments *a)
{
    const bool input = p->direction == TALC_GRAD_INPUT;
    if (input)
        grad_input<T>(device, p, a);
    else
        grad_weight<T>(device, p, a);
    return talc_cuda_launched(device, input ? "conv2d" : "conv2d.grad_weight");
}

TALC_CUDA_FORM(direct_textbook_gradient,
               p->direction == TALC_GRAD_WEIGHT
                   ? "it has no weight gradient"
                   : talc_cuda_conv2d_rotated_plan(talc_cuda_conv2d_direct_textbook_plan, device, p,
                                                   limit, plan),
               talc_cuda_conv2d_rotated_run(talc_cuda_conv2d_direct_textbook_run, device, p, plan,
                                            a))
TALC_CUDA_FORM_F32(direct_phases_gradient, plan_phases(device, p, plan),
                   phases_run<T>(device, p, own_plan<phases_plan>(plan), a))
TALC_CUDA_FORM_F32(direct_registers_gradient, plan_weights(device, p, limit, plan),
                   weights_run<T>(device, p, own_plan<weights_plan>(plan), a))
TALC_CUDA_FORM(direct_one_by_one_gradient, plan_one_by_one(device, p, limit, plan),
               run_one_by_one<T>(device, p, a))
