/// The textbook: every output by its formula, summed in float64 and rounded once.
///
///     y[n, oc, oh, ow] = act( b[oc] + r[n, oc, oh, ow] + sum over ic, kh, kw of
///                             x'[n, g*C/groups + ic, oh*stride_h - top + kh*dilation_h,
///                                ow*stride_w - left + kw*dilation_w]
///                             * w[oc, ic, kh, kw] ),      g = oc / (OC / groups)
///
/// x [N, C, H, W], w [OC, C/groups, KH, KW], b [OC], r and y [N, OC, OH, OW]. A weight over zeros
/// of the padding is multiplied by them. A task is one row of one output plane. The gradients stand
/// in reference_gradient.c.
#include "backends/cpu/primitives/activation.h"
#include "backends/cpu/conv2d/algorithms.h"
#include "backends/cpu/primitives/element.h"
#include "backends/cpu/device/threads.h"

typedef struct reference_context {
    const talc_conv2d_problem *problem;
    const talc_conv2d_arguments *arguments;
} reference_context;

/* One output without bias and residual: `x` is image n, `w` the filter of output channel oc. */
#define WINDOW_SUM(constant, suffix, type, A)                                                      \
    static double window_sum_##suffix(const talc_conv2d_problem *p, const type *x, const type *w,  \
                                      int64_t oc, int64_t oh, int64_t ow)                          \
    {                                                                                              \
        const int64_t IC = p->C / p->groups, H = p->H, W = p->W, KH = p->KH, KW = p->KW;           \
        const int64_t g = oc / (p->OC / p->groups);                                                \
        double sum = 0;                                                                            \
        for (int64_t ic = 0; ic < IC; ic++)                                                        \
            for (int64_t kh = 0; kh < KH; kh++) {                                                  \
                const int64_t ih = talc_window_source(                                             \
                    p->padding_mode, oh * p->stride_h - p->pad_top + kh * p->dilation_h, H);       \
                for (int64_t kw = 0; kw < KW; kw++) {                                              \
                    const int64_t iw = talc_window_source(                                         \
                        p->padding_mode, ow * p->stride_w - p->pad_left + kw * p->dilation_w, W);  \
                    const bool inside = ih >= 0 && iw >= 0;                                        \
                    const double pixel =                                                           \
                        inside ? (double)x[((g * IC + ic) * H + ih) * W + iw] : 0;                 \
                    sum += pixel * (double)w[((oc * IC + ic) * KH + kh) * KW + kw];                \
                }                                                                                  \
            }                                                                                      \
        return sum;                                                                                \
    }

TALC_CPU_FLOATS(WINDOW_SUM)

/* Row `oh` of output plane (n, oc); `at` is the first element's place in y and in the residual. */
#define OUTPUT_ROW(constant, suffix, type, A)                                                      \
    static void output_row_##suffix(const talc_conv2d_problem *p, const talc_conv2d_arguments *a,  \
                                    int64_t n, int64_t oc, int64_t oh)                             \
    {                                                                                              \
        const int64_t OW = p->OW;                                                                  \
        const int64_t at = ((n * p->OC + oc) * p->OH + oh) * OW;                                   \
        const type *x = (const type *)a->x + n * p->C * p->H * p->W;                               \
        const type *residual = a->residual;                                                        \
        const double bias = p->bias ? (double)((const type *)a->bias)[oc] : 0;                     \
        for (int64_t ow = 0; ow < OW; ow++) {                                                      \
            double sum = window_sum_##suffix(p, x, a->w, oc, oh, ow) + bias;                       \
            if (p->residual)                                                                       \
                sum += (double)residual[at + ow];                                                  \
            ((type *)a->y)[at + ow] = (type)talc_cpu_activation(p->activation, sum);               \
        }                                                                                          \
    }

TALC_CPU_FLOATS(OUTPUT_ROW)

static void reference_task(void *context, int64_t task, int worker)
{
    (void)worker;
    const reference_context *c = context;
    const talc_conv2d_problem *p = c->problem;
    const int64_t oh = task % p->OH, plane = task / p->OH;
    TALC_CPU_CALL(p->dtype, output_row, (p, c->arguments, plane / p->OC, plane % p->OC, oh));
}

const char *talc_cpu_conv2d_reference_plan(const talc_device *device, const void *problem,
                                           size_t limit, talc_plan *plan)
{
    (void)device, (void)limit, (void)plan;
    return talc_cpu_refuses(((const talc_conv2d_problem *)problem)->dtype);
}

talc_status talc_cpu_conv2d_reference_run(talc_device *device, const void *problem,
                                          const talc_plan *plan, const void *arguments)
{
    (void)device, (void)plan;
    const talc_conv2d_problem *p = problem;
    if (p->direction != TALC_FORWARD)
        return talc_cpu_conv2d_reference_gradient(p, arguments);
    reference_context context = { p, arguments };
    return talc_cpu_parallel(p->N * p->OC * p->OH, reference_task, &context);
}
