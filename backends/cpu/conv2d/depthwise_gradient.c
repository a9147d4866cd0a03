/// The gradients of the depthwise convolution, every group one input channel. With M = OC / C
/// filters of a channel,
///
///     dx[n, c, ih, iw] = sum over m, kh, kw of w[c*M + m, 0, kh, kw] * dy[n, c*M + m, oh, ow]
///     dw[oc, 0, kh, kw] = sum over n, oh, ow of x[n, oc / M, ih, iw] * dy[n, oc, oh, ow]
///
/// where ih = oh*stride_h - top + kh*dilation_h and iw = ow*stride_w - left + kw*dilation_w. Both
/// are loops over rows of dy, which a tap shifts against the rows of an image: dx adds them,
/// scaled, and dw multiplies the two. A task is some planes of dx, or a filter over a split of the
/// images (split_k.h). Sums are in the data's type; a dot product has a vector of them, which f64
/// adds, and sums the rest of a row in f64. Padding is skipped; dw multiplies its zeros where dy is
/// not finite.
#include "backends/cpu/conv2d/split_k.h"
#include "backends/cpu/conv2d/algorithms.h"
#include "backends/cpu/primitives/element.h"
#include "backends/cpu/primitives/target.h"
#include "backends/cpu/device/threads.h"
#include "tensor/extent.h"

#include <string.h>

enum { PIECE_PIXELS = 16 << 10 };

typedef struct gradient_context {
    const talc_conv2d_problem *problem;
    const talc_conv2d_arguments *arguments;
    talc_cpu_split_k split_k;
    int64_t planes; /* of dx in a task */
    bool all_read;  /* each dy by some tap: if one is not finite, a sum is not */
} gradient_context;

/* Where a tap reads an image: outputs columns.lo .. columns.hi - 1 of rows.lo .. rows.hi - 1, from
 * pixel (ih, iw) on. */
typedef struct tap_range {
    talc_range rows, columns;
    int64_t ih, iw;
} tap_range;

static tap_range range_of(const talc_conv2d_problem *p, int64_t kh, int64_t kw)
{
    tap_range t = {
        talc_window_outputs(kh, p->stride_h, p->pad_top, p->dilation_h, p->OH, p->H),
        talc_window_outputs(kw, p->stride_w, p->pad_left, p->dilation_w, p->OW, p->W),
        0,
        0,
    };
    t.ih = t.rows.lo * p->stride_h - p->pad_top + kh * p->dilation_h;
    t.iw = t.columns.lo * p->stride_w - p->pad_left + kw * p->dilation_w;
    return t;
}

// ---- Input --------------------------------------------------------------------------------------

/* Adds one tap of one plane of dy to a plane of dx. */
#define ADD_TAP(suffix, type)                                                                      \
    TALC_TARGET_CLONES static void add_tap_##suffix(const talc_conv2d_problem *p,                  \
                                                    const tap_range *t, type w,                    \
                                                    const type *restrict dy, type *restrict dx)    \
    {                                                                                              \
        const int64_t count = t->columns.hi - t->columns.lo, stride = p->stride_w;                 \
        for (int64_t oh = t->rows.lo; oh < t->rows.hi; oh++) {                                     \
            const type *restrict from = dy + oh * p->OW + t->columns.lo;                           \
            type *restrict to = dx + (t->ih + (oh - t->rows.lo) * p->stride_h) * p->W + t->iw;     \
            if (stride == 1)                                                                       \
                for (int64_t i = 0; i < count; i++)                                                \
                    to[i] += w * from[i];                                                          \
            else                                                                                   \
                for (int64_t i = 0; i < count; i++)                                                \
                    to[i * stride] += w * from[i];                                                 \
        }                                                                                          \
    }

ADD_TAP(f32, float)
ADD_TAP(f64, double)

static void input_plane(const gradient_context *c, int64_t n, int64_t channel)
{
    const talc_conv2d_problem *p = c->problem;
    const int64_t M = p->OC / p->C, taps = p->KH * p->KW, plane = p->H * p->W;
    const size_t size = talc_dtype_size(p->dtype);
    void *dx = (char *)c->arguments->dx + (size_t)((n * p->C + channel) * plane) * size;
    memset(dx, 0, (size_t)plane * size);
    for (int64_t oc = channel * M; oc < (channel + 1) * M; oc++) {
        const void *dy = talc_cpu_at(p->dtype, c->arguments->dy, (n * p->OC + oc) * p->OH * p->OW);
        for (int64_t tap = 0; tap < taps; tap++) {
            const tap_range range = range_of(p, tap / p->KW, tap % p->KW);
            const double w = talc_cpu_load(p->dtype, c->arguments->w, oc * taps + tap);
            if (range.columns.lo == range.columns.hi)
                continue;
            TALC_CPU_CALL(p->dtype, add_tap, (p, &range, w, dy, dx));
        }
    }
}

static void input_task(void *context, int64_t task, int worker)
{
    (void)worker;
    const gradient_context *c = context;
    const int64_t all = c->problem->N * c->problem->C;
    const int64_t end = talc_smaller(all, (task + 1) * c->planes);
    for (int64_t plane = task * c->planes; plane < end; plane++)
        input_plane(c, plane / c->problem->C, plane % c->problem->C);
}

// ---- Weight -------------------------------------------------------------------------------------

/* Vectors of 32 bytes, at any address. */
typedef float vector_f32 __attribute__((vector_size(32), aligned(4), may_alias));
typedef double vector_f64 __attribute__((vector_size(32), aligned(8), may_alias));

/* One plane of dy times what one tap reads of a plane of x. */
#define TAP_SUM(suffix, type)                                                                      \
    TALC_TARGET_CLONES static double tap_sum_##suffix(                                             \
        const talc_conv2d_problem *p, const tap_range *t, const type *dy, const type *x)           \
    {                                                                                              \
        enum { LANES = 32 / sizeof(type) };                                                        \
        const int64_t count = t->columns.hi - t->columns.lo, stride = p->stride_w;                 \
        vector_##suffix sums = { 0 };                                                              \
        double sum = 0;                                                                            \
        for (int64_t oh = t->rows.lo; oh < t->rows.hi; oh++) {                                     \
            const type *a = dy + oh * p->OW + t->columns.lo;                                       \
            const type *b = x + (t->ih + (oh - t->rows.lo) * p->stride_h) * p->W + t->iw;          \
            int64_t i = 0;                                                                         \
            if (stride == 1)                                                                       \
                for (; i + LANES <= count; i += LANES)                                             \
                    sums += *(const vector_##suffix *)(a + i) * *(const vector_##suffix *)(b + i); \
            for (; i < count; i++)                                                                 \
                sum += (double)a[i] * (double)b[i * stride];                                       \
        }                                                                                          \
        for (int64_t s = 0; s < LANES; s++)                                                        \
            sum += (double)sums[s];                                                                \
        return sum;                                                                                \
    }

TAP_SUM(f32, float)
TAP_SUM(f64, double)

/* What the zeros of the padding add to a tap's sum: 0, or NaN for an element of dy over them that
 * is not finite. */
static double outside_sum(const talc_conv2d_problem *p, const tap_range *t, const void *dy)
{
    double sum = 0;
    for (int64_t oh = 0; oh < p->OH; oh++)
        for (int64_t ow = 0; ow < p->OW; ow++)
            if (oh < t->rows.lo || oh >= t->rows.hi || ow < t->columns.lo || ow >= t->columns.hi)
                sum += 0 * talc_cpu_load(p->dtype, dy, oh * p->OW + ow);
    return sum;
}

static bool is_read(int64_t o, int64_t stride, int64_t pad, int64_t dilation, int64_t taps,
                    int64_t extent)
{
    const talc_range inside = talc_window_taps(o, stride, pad, dilation, taps, extent);
    return inside.lo < inside.hi;
}

static bool every_is_read(const talc_conv2d_problem *p)
{
    bool every = true;
    for (int64_t oh = 0; oh < p->OH && every; oh++)
        every = is_read(oh, p->stride_h, p->pad_top, p->dilation_h, p->KH, p->H);
    for (int64_t ow = 0; ow < p->OW && every; ow++)
        every = is_read(ow, p->stride_w, p->pad_left, p->dilation_w, p->KW, p->W);
    return every;
}

static void weight_task(void *context, int64_t task, int worker)
{
    (void)worker;
    const gradient_context *c = context;
    const talc_conv2d_problem *p = c->problem;
    const int64_t M = p->OC / p->C, taps = p->KH * p->KW;
    const int64_t oc = task % p->OC, split = task / p->OC;
    const talc_range images = talc_cpu_split_k_terms(&c->split_k, split);
    void *dw = talc_cpu_split_k_at(&c->split_k, p, c->arguments, split, oc * taps);
    for (int64_t n = images.lo; n < images.hi; n++) {
        const void *dy = talc_cpu_at(p->dtype, c->arguments->dy, (n * p->OC + oc) * p->OH * p->OW);
        const void *x = talc_cpu_at(p->dtype, c->arguments->x, (n * p->C + oc / M) * p->H * p->W);
        double zeros = 0; /* times the sums */
        for (int64_t tap = 0; tap < taps; tap++) {
            const tap_range range = range_of(p, tap / p->KW, tap % p->KW);
            double sum = n == images.lo ? 0 : talc_cpu_load(p->dtype, dw, tap);
            if (range.columns.lo < range.columns.hi)
                sum += TALC_CPU_VALUE(p->dtype, tap_sum, (p, &range, dy, x));
            zeros += 0 * sum;
            talc_cpu_store(p->dtype, dw, tap, sum);
        }
        for (int64_t tap = 0; tap < taps && !(c->all_read && zeros == 0); tap++) {
            const tap_range range = range_of(p, tap / p->KW, tap % p->KW);
            talc_cpu_store(p->dtype, dw, tap,
                           talc_cpu_load(p->dtype, dw, tap) + outside_sum(p, &range, dy));
        }
    }
}

// ---- The algorithm ------------------------------------------------------------------------------

const char *talc_cpu_conv2d_depthwise_gradient_plan(const talc_conv2d_problem *problem,
                                                    size_t limit, talc_plan *plan)
{
    if (problem->direction == TALC_GRAD_WEIGHT) {
        const talc_cpu_split_k split_k =
            talc_cpu_split_k_of(problem, problem->OC, problem->N, limit);
        plan->workspace = talc_cpu_split_k_bytes(&split_k);
        talc_plan_store(plan, &split_k, sizeof split_k);
    }
    return NULL;
}

talc_status talc_cpu_conv2d_depthwise_gradient_run(const talc_conv2d_problem *problem,
                                                   const talc_plan *plan,
                                                   const talc_conv2d_arguments *arguments)
{
    const talc_conv2d_problem *p = problem;
    gradient_context c = { .problem = p, .arguments = arguments };
    if (p->direction == TALC_GRAD_INPUT) {
        c.planes = PIECE_PIXELS / (p->H * p->W) + 1;
        return talc_cpu_parallel(talc_ceil_div(p->N * p->C, c.planes), input_task, &c);
    }
    c.split_k = *(const talc_cpu_split_k *)talc_plan_data(plan);
    c.all_read = every_is_read(p);
    const talc_status status = talc_cpu_parallel(c.split_k.splits * p->OC, weight_task, &c);
    return status != TALC_OK ? status : talc_cpu_split_k_sum(&c.split_k, p, arguments);
}
