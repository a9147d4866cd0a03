/// A depthwise and a pointwise convolution as one, by the textbook.
///
///     m[c] = act1( b1[c] + sum over kh, kw of x'[n, c, oh*stride_h - top + kh*dilation_h, ow*stride_w - left + kw*dilation_w] * w1[c, kh, kw] )
///     y[n, oc, oh, ow] = act2( b2[oc] + r[n, oc, oh, ow] + sum over c of w2[oc, c] * m[c] )
///
/// Both sums and m are in float64, and y is rounded once. A task is one row of pixels, of all output channels; BLOCK of these
/// share each m[c]. A weight over zeros of the padding is multiplied by them.
#include "backends/cpu/activation.h"
#include "backends/cpu/cpu.h"
#include "backends/cpu/element.h"
#include "backends/cpu/threads.h"
#include "tensor/extent.h"

enum { BLOCK = 32 };

typedef struct separable_context {
    const talc_separable_conv2d_problem *problem;
    const talc_separable_conv2d_arguments *arguments;
} separable_context;

/* m[n, c, oh, ow]; `plane` is plane (n, c) of x, and w the filter of channel c. */
#define BETWEEN(constant, suffix, type, A)                                                         \
    static double between_##suffix(const talc_conv2d_problem *p, const type *plane, const type *w, \
                                   double bias, int64_t oh, int64_t ow)                            \
    {                                                                                              \
        double sum = bias;                                                                         \
        for (int64_t kh = 0; kh < p->KH; kh++) {                                                   \
            const int64_t ih = talc_window_source(                                                 \
                p->padding_mode, oh * p->stride_h - p->pad_top + kh * p->dilation_h, p->H);        \
            for (int64_t kw = 0; kw < p->KW; kw++) {                                               \
                const int64_t iw = talc_window_source(                                             \
                    p->padding_mode, ow * p->stride_w - p->pad_left + kw * p->dilation_w, p->W);   \
                const double pixel = ih < 0 || iw < 0 ? 0 : (double)plane[ih * p->W + iw];         \
                sum += pixel * (double)w[kh * p->KW + kw];                                         \
            }                                                                                      \
        }                                                                                          \
        return talc_cpu_activation(p->activation, sum);                                            \
    }

TALC_CPU_FLOATS(BETWEEN)

/* Output channels first .. first + count - 1 of pixel (n, oh, ow). */
#define PIXEL(constant, suffix, type, A)                                                           \
    static void pixel_##suffix(const separable_context *context, int64_t n, int64_t oh,            \
                               int64_t ow, int64_t first, int64_t count)                           \
    {                                                                                              \
        const talc_conv2d_problem *p = &context->problem->depthwise,                               \
                                  *q = &context->problem->pointwise;                               \
        const talc_separable_conv2d_arguments *a = context->arguments;                             \
        const type *x = a->x, *w1 = a->w1, *w2 = a->w2;                                            \
        const type *b1 = a->b1, *b2 = a->b2, *residual = a->residual;                              \
        double sums[BLOCK] = { 0 };                                                                \
        for (int64_t c = 0; c < p->C; c++) {                                                       \
            const double m =                                                                       \
                between_##suffix(p, x + (n * p->C + c) * p->H * p->W, w1 + c * p->KH * p->KW,      \
                                 p->bias ? (double)b1[c] : 0, oh, ow);                             \
            for (int64_t i = 0; i < count; i++)                                                    \
                sums[i] += (double)w2[(first + i) * q->C + c] * m;                                 \
        }                                                                                          \
        for (int64_t i = 0; i < count; i++) {                                                      \
            const int64_t oc = first + i, at = ((n * q->OC + oc) * q->OH + oh) * q->OW + ow;       \
            sums[i] += q->bias ? (double)b2[oc] : 0;                                               \
            sums[i] += q->residual ? (double)residual[at] : 0;                                     \
            ((type *)a->y)[at] = (type)talc_cpu_activation(q->activation, sums[i]);                \
        }                                                                                          \
    }

TALC_CPU_FLOATS(PIXEL)

static void reference_task(void *context, int64_t task, int worker)
{
    (void)worker;
    const talc_conv2d_problem *q = &((const separable_context *)context)->problem->pointwise;
    for (int64_t ow = 0; ow < q->OW; ow++)
        for (int64_t first = 0; first < q->OC; first += BLOCK)
            TALC_CPU_CALL(q->dtype, pixel,
                          (context, task / q->OH, task % q->OH, ow, first,
                           talc_smaller(BLOCK, q->OC - first)));
}

static const char *reference_plan(const talc_device *device, const void *problem, size_t limit,
                                  talc_plan *plan)
{
    (void)device, (void)limit, (void)plan;
    return talc_cpu_refuses(((const talc_separable_conv2d_problem *)problem)->depthwise.dtype);
}

static talc_status reference_run(talc_device *device, const void *problem, const talc_plan *plan,
                                 const void *arguments)
{
    (void)device, (void)plan;
    separable_context context = { problem, arguments };
    const talc_conv2d_problem *q = &context.problem->pointwise;
    return talc_cpu_parallel(q->N * q->OH, reference_task, &context);
}

const talc_algorithm talc_cpu_separable_conv2d[] = {
    { "reference",
      { "f64 accumulation, one rounding", TALC_STRICT, true },
      reference_plan,
      reference_run },
    { .name = NULL },
};
