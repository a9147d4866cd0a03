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
/// `small` (direct_small.cu) takes small images, of any number.
///
/// Sums are in the data's type by FMA in an order that follows from the problem and the GPU's size
/// alone.
#include "backends/cuda/primitives/dtype.cuh"
#include "backends/cuda/conv2d/direct_tile_map.h"
#include "backends/cuda/conv2d/form.cuh"
#include "backends/cuda/device/estimate.h"
#include "backends/cuda/primitives/epilogue.cuh"
#include "backends/cuda/primitives/witness.h"
#include "ops/window.h"

#include <climits>

using namespace talc;

// ---- Every problem ------------------------------------------------------------------------------

/* Output channels of a thread, terms whose weights are in shared memory at a time, loads of a
 * thread at a time. */
constexpr int OUTPUTS = TALC_TEXTBOOK_CHANNELS, TILE_K = TALC_TEXTBOOK_K, AHEAD = 4;
static_assert(BLOCK == TALC_TEXTBOOK_THREADS, "direct_tile_map.h");

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

/* A block has BLOCK / SPLITS pixels. With SPLITS above 1, for problems that have few, the threads
 * of a pixel share each K tile: split s adds up the s-th SPLIT_TERMS of its terms, and the sums of
 * the splits are added in order. */
template <typename T, int SPLITS>
static __global__ void __launch_bounds__(BLOCK)
    textbook(const talc_conv2d_problem p, const talc_textbook_layout plan, const T *x, const T *w,
             T *y, const epilogue<T> last)
{
    constexpr int PIXELS = BLOCK / SPLITS, SPLIT_TERMS = TILE_K / SPLITS;
    using sum_type = accumulator_of<T>;
    __shared__ sum_type weights[TILE_K][OUTPUTS];
    const int64_t IC = p.C / p.groups, OC = p.OC / p.groups, K = IC * p.KH * p.KW;
    for (int64_t block = blockIdx.x; block < plan.blocks; block += gridDim.x) {
        const talc_textbook_thread own =
            talc_textbook_thread_of(&p, &plan, SPLITS, block, (int)threadIdx.x);
        const int64_t n = own.n, g = own.g, first = own.first, pixel = own.pixel;
        const int split = own.split;
        const bool inside = pixel < plan.pixels;
        const int64_t oh = pixel / p.OW, ow = pixel - oh * p.OW;
        window_walk<T> window;
        window.plane = x + (n * p.C + g * IC) * p.H * p.W;
        window.top = oh * p.stride_h - p.pad_top;
        window.left = ow * p.stride_w - p.pad_left;
        sum_type sums[OUTPUTS] = {};
        for (int64_t from = 0; from < K; from += TILE_K) {
            __syncthreads();
            for (int i = (int)threadIdx.x; i < TILE_K * OUTPUTS; i += BLOCK) {
                const int64_t k = from + i % TILE_K, oc = first + i / TILE_K;
                weights[i % TILE_K][i / TILE_K] =
                    k < K && oc < OC ? w[(g * OC + oc) * K + k] : (T)0;
            }
            __syncthreads();
            const int64_t begin = talc_textbook_first_term(from, SPLITS, split);
            const int count = talc_textbook_terms(begin, inside ? K : 0, SPLITS);
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
                        sums[i] += values[u] * weights[split * SPLIT_TERMS + k + u][i];
            }
        }
        witness(sums, block, split);
        if (SPLITS > 1) {
            static_assert(SPLITS == 1 || BLOCK <= TILE_K, "the sums fit where weights were");
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
                    sums[i] += weights[s * PIXELS + (int)threadIdx.x % PIXELS][i];
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
                            const talc_textbook_layout &layout, const talc_conv2d_arguments *a)
{
    const int blocks = (int)(layout.blocks < INT_MAX ? layout.blocks : INT_MAX);
    textbook<T, SPLITS><<<blocks, BLOCK, 0, talc_cuda_stream(device)>>>(
        *p, layout, (const T *)a->x, (const T *)a->w, (T *)a->y,
        epilogue<T>(a->bias, a->residual, p->activation));
}

template <typename T>
static talc_status run_textbook(talc_device *device, const talc_conv2d_problem *p,
                                const talc_textbook_layout &layout, const talc_conv2d_arguments *a)
{
    if (layout.splits > 1)
        launch_textbook<T, TALC_TEXTBOOK_SPLITS>(device, p, layout, a);
    else
        launch_textbook<T, 1>(device, p, layout, a);
    return talc_cuda_launched(device, "conv2d");
}

// ---- The algorithms -----------------------------------------------------------------------------

/* Threads compute OUTPUTS channels. Of few outputs of long sums each product waits for its load. */
static const char *plan_textbook(const talc_device *device, const talc_conv2d_problem *p,
                                 talc_plan *plan)
{
    const int64_t OC = p->OC / p->groups;
    const double share = 0.05 * (double)OC / (double)(talc_ceil_div(OC, OUTPUTS) * OUTPUTS);
    const double waits = TALC_CUDA_LAUNCH + 30e-9 * (double)(p->C / p->groups * p->KH * p->KW);
    /* A thread has eight outputs of a pixel, however short their sums. */
    const double outputs = (double)(p->N * p->groups) * (double)p->OH * (double)p->OW *
                           (double)(talc_ceil_div(OC, OUTPUTS) * OUTPUTS);
    const double work = fmax(talc_cuda_conv2d_seconds(device, p, share, talc_conv2d_bytes(p), 2),
                             outputs * 6.5e-12 * 132 / talc_cuda_state_of(device)->multiprocessors);
    const talc_textbook_layout own =
        talc_textbook_layout_of(p, talc_cuda_state_of(device)->multiprocessors);
    plan->seconds = work > waits ? work : waits;
    talc_plan_store(plan, &own, sizeof own);
    return NULL;
}

TALC_CUDA_FORM(direct_textbook, plan_textbook(device, p, plan),
               run_textbook<T>(device, p, own_plan<talc_textbook_layout>(plan), a))
TALC_CUDA_FORM_NONE(direct_phases, "it has only gradients")
TALC_CUDA_FORM_NONE(direct_registers, "it has only gradients")
TALC_CUDA_FORM_NONE(direct_one_by_one, "it has only gradients")
