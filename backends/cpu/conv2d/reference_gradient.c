/// The textbook's gradients: every element by its formula, summed in float64 and rounded once. With
/// g = oc / (OC / groups),
///
///     dx[n, g*C/groups + ic, ih, iw] = sum over oc of group g, kh, kw of
///                                      w[oc, ic, kh, kw] * dy[n, oc, oh, ow]
///     dw[oc, ic, kh, kw] = sum over n, oh, ow of x[n, g*C/groups + ic, ih, iw] * dy[n, oc, oh, ow]
///
/// where ih = oh*stride_h - top + kh*dilation_h and iw = ow*stride_w - left + kw*dilation_w.
/// Padding is zeros, which dw multiplies with dy as the forward pass does with w; dx is a sum over
/// the outputs that there are. A task of work is a row of a plane of dx, or the taps of one input
/// channel in one filter.
#include "backends/cpu/conv2d/algorithms.h"
#include "backends/cpu/primitives/element.h"
#include "backends/cpu/device/threads.h"
#include "tensor/extent.h"

typedef struct reference_context {
    const talc_conv2d_problem *problem;
    const talc_conv2d_arguments *arguments;
} reference_context;

/* The output whose tap at `offset` reads image coordinate i; -1 where there is none. */
static int64_t output_of(int64_t i, int64_t offset, int64_t pad, int64_t stride, int64_t outputs)
{
    const int64_t start = i + pad - offset;
    return start >= 0 && start % stride == 0 && start / stride < outputs ? start / stride : -1;
}

/* One pixel of dx, input channel ic of group g: `dy` and `w` are the first of image n and of the
 * group. It is over with a NaN. */
#define PIXEL_SUM(constant, suffix, T, A)                                                          \
    static double pixel_sum_##suffix(const talc_conv2d_problem *p, const T *dy, const T *w,        \
                                     int64_t ic, int64_t ih, int64_t iw)                           \
    {                                                                                              \
        const int64_t IC = p->C / p->groups, OC = p->OC / p->groups, KH = p->KH, KW = p->KW;       \
        double sum = 0;                                                                            \
        for (int64_t kh = 0; kh < KH; kh++) {                                                      \
            const int64_t oh = output_of(ih, kh * p->dilation_h, p->pad_top, p->stride_h, p->OH);  \
            for (int64_t kw = 0; kw < KW && oh >= 0 && sum == sum; kw++) {                         \
                const int64_t ow =                                                                 \
                    output_of(iw, kw * p->dilation_w, p->pad_left, p->stride_w, p->OW);            \
                for (int64_t oc = 0; oc < OC && ow >= 0; oc++)                                     \
                    sum += (double)w[((oc * IC + ic) * KH + kh) * KW + kw] *                       \
                           (double)dy[(oc * p->OH + oh) * p->OW + ow];                             \
            }                                                                                      \
        }                                                                                          \
        return sum;                                                                                \
    }

TALC_CPU_FLOATS(PIXEL_SUM)

/* What the pixels of plane n * C + channel are summed from. */
static void operands_of(const talc_conv2d_problem *p, const talc_conv2d_arguments *a, int64_t plane,
                        const void **dy, const void **w)
{
    const int64_t IC = p->C / p->groups, OC = p->OC / p->groups;
    const int64_t g = plane / IC % p->groups, n = plane / p->C;
    *dy = talc_cpu_at(p->dtype, a->dy, (n * p->OC + g * OC) * p->OH * p->OW);
    *w = talc_cpu_at(p->dtype, a->w, g * OC * IC * p->KH * p->KW);
}

void talc_cpu_conv2d_recompute_nan(const talc_conv2d_problem *p, const talc_conv2d_arguments *a,
                                   int64_t plane, talc_range rows, talc_range columns)
{
    const int64_t ic = plane % (p->C / p->groups);
    const void *dy, *w;
    operands_of(p, a, plane, &dy, &w);
    for (int64_t ih = rows.lo; ih < rows.hi; ih++)
        for (int64_t iw = columns.lo; iw < columns.hi; iw++) {
            const int64_t at = (plane * p->H + ih) * p->W + iw;
            if (isnan(talc_cpu_load(p->dtype, a->dx, at)))
                talc_cpu_store(p->dtype, a->dx, at,
                               TALC_CPU_VALUE(p->dtype, pixel_sum, (p, dy, w, ic, ih, iw)));
        }
}

static void input_task(void *context, int64_t task, int worker)
{
    (void)worker;
    const reference_context *c = context;
    const talc_conv2d_problem *p = c->problem;
    const talc_conv2d_arguments *a = c->arguments;
    const int64_t IC = p->C / p->groups, ic = task / p->H % IC, ih = task % p->H;
    const void *dy, *w;
    operands_of(p, a, task / p->H, &dy, &w);
    for (int64_t iw = 0; iw < p->W; iw++)
        talc_cpu_store(p->dtype, a->dx, task * p->W + iw,
                       TALC_CPU_VALUE(p->dtype, pixel_sum, (p, dy, w, ic, ih, iw)));
}

/* One tap of a filter over one image, added to `sum`: `dy` is the output channel's plane, `x` the
 * input channel's. */
#define TAP_SUM(constant, suffix, T, A)                                                            \
    static double tap_sum_##suffix(const talc_conv2d_problem *p, const T *dy, const T *x,          \
                                   int64_t kh, int64_t kw, double sum)                             \
    {                                                                                              \
        const talc_range inside =                                                                  \
            talc_window_outputs(kw, p->stride_w, p->pad_left, p->dilation_w, p->OW, p->W);         \
        for (int64_t oh = 0; oh < p->OH; oh++, dy += p->OW) {                                      \
            const int64_t ih = oh * p->stride_h - p->pad_top + kh * p->dilation_h;                 \
            const bool in_image = ih >= 0 && ih < p->H;                                            \
            const int64_t lo = in_image ? inside.lo : p->OW, hi = in_image ? inside.hi : p->OW;    \
            for (int64_t ow = 0; ow < lo; ow++)                                                    \
                sum += (double)dy[ow] * 0;                                                         \
            for (int64_t ow = lo; ow < hi; ow++)                                                   \
                sum += (double)dy[ow] *                                                            \
                       (double)x[ih * p->W + ow * p->stride_w - p->pad_left + kw * p->dilation_w]; \
            for (int64_t ow = hi; ow < p->OW; ow++)                                                \
                sum += (double)dy[ow] * 0;                                                         \
        }                                                                                          \
        return sum;                                                                                \
    }

TALC_CPU_FLOATS(TAP_SUM)

static void weight_task(void *context, int64_t task, int worker)
{
    (void)worker;
    const reference_context *c = context;
    const talc_conv2d_problem *p = c->problem;
    const talc_conv2d_arguments *a = c->arguments;
    const int64_t IC = p->C / p->groups, taps = p->KH * p->KW;
    const int64_t oc = task / IC, channel = oc / (p->OC / p->groups) * IC + task % IC;
    for (int64_t tap = 0; tap < taps; tap++) {
        double sum = 0;
        for (int64_t n = 0; n < p->N; n++) {
            const void *dy = talc_cpu_at(p->dtype, a->dy, (n * p->OC + oc) * p->OH * p->OW);
            const void *x = talc_cpu_at(p->dtype, a->x, (n * p->C + channel) * p->H * p->W);
            sum = TALC_CPU_VALUE(p->dtype, tap_sum, (p, dy, x, tap / p->KW, tap % p->KW, sum));
        }
        talc_cpu_store(p->dtype, a->dw, task * taps + tap, sum);
    }
}

talc_status talc_cpu_conv2d_reference_gradient(const talc_conv2d_problem *problem,
                                               const talc_conv2d_arguments *arguments)
{
    const talc_conv2d_problem *p = problem;
    reference_context context = { p, arguments };
    return p->direction == TALC_GRAD_INPUT
               ? talc_cpu_parallel(p->N * p->C * p->H, input_task, &context)
               : talc_cpu_parallel(p->OC * (p->C / p->groups), weight_task, &context);
}
