#include "tools/bench/bench_gradient.h"

#include <math.h>
#include <string.h>

/* Products that all elements together may take. */
static const double MAX_PRODUCTS = 3e8;

/* The operands on the host, in row-major order. */
typedef struct host_operands {
    const talc_conv2d_problem *p;
    const talc_tensor *x, *w, *dy;
} host_operands;

static double element(const talc_tensor *host, int64_t i)
{
    return host->dtype == TALC_F64 ? ((const double *)host->data)[i]
                                   : (double)((const float *)host->data)[i];
}

static const talc_tensor *on_host(const talc_tensor *tensor)
{
    return talc_contiguous(talc_to(tensor, talc_device_host(), tensor->dtype));
}

// ---- Elements -----------------------------------------------------------------------------------

/* The row of x that output row oh reads through tap kh, -1 where that is zero. */
static int64_t row_of(const talc_conv2d_problem *p, int64_t oh, int64_t kh)
{
    return talc_window_source(p->padding_mode, oh * p->stride_h - p->pad_top + kh * p->dilation_h,
                              p->H);
}

static int64_t column_of(const talc_conv2d_problem *p, int64_t ow, int64_t kw)
{
    return talc_window_source(p->padding_mode, ow * p->stride_w - p->pad_left + kw * p->dilation_w,
                              p->W);
}

static void add(bench_gradient_sample *self, int64_t i, double product)
{
    self->value[i] += product;
    self->size[i] += fabs(product);
    self->terms[i]++;
}

/* dx[n, c, h, w]: every output channel of the group, through the taps that read that element. */
static void add_outputs(bench_gradient_sample *self, int64_t i, const host_operands *o, int64_t n,
                        int64_t c, int64_t oh, int64_t ow, int64_t kh, int64_t kw)
{
    const talc_conv2d_problem *p = o->p;
    const int64_t IC = p->C / p->groups, OC = p->OC / p->groups, g = c / IC;
    for (int64_t oc = g * OC; oc < (g + 1) * OC; oc++)
        add(self, i,
            element(o->dy, ((n * p->OC + oc) * p->OH + oh) * p->OW + ow) *
                element(o->w, ((oc * IC + c % IC) * p->KH + kh) * p->KW + kw));
}

static void sum_input(bench_gradient_sample *self, int64_t i, const host_operands *o)
{
    const talc_conv2d_problem *p = o->p;
    const int64_t at = self->index[i], w = at % p->W, h = at / p->W % p->H;
    const int64_t c = at / p->W / p->H % p->C, n = at / p->W / p->H / p->C;
    for (int64_t kh = 0; kh < p->KH; kh++)
        for (int64_t oh = 0; oh < p->OH; oh++)
            if (row_of(p, oh, kh) == h)
                for (int64_t kw = 0; kw < p->KW; kw++)
                    for (int64_t ow = 0; ow < p->OW; ow++)
                        if (column_of(p, ow, kw) == w)
                            add_outputs(self, i, o, n, c, oh, ow, kh, kw);
}

static void sum_weight(bench_gradient_sample *self, int64_t i, const host_operands *o)
{
    const talc_conv2d_problem *p = o->p;
    const int64_t IC = p->C / p->groups, at = self->index[i], kw = at % p->KW;
    const int64_t kh = at / p->KW % p->KH, ic = at / p->KW / p->KH % IC;
    const int64_t oc = at / p->KW / p->KH / IC, c = oc / (p->OC / p->groups) * IC + ic;
    for (int64_t n = 0; n < p->N; n++)
        for (int64_t oh = 0; oh < p->OH; oh++) {
            const int64_t h = row_of(p, oh, kh);
            for (int64_t ow = 0; ow < p->OW && h >= 0; ow++) {
                const int64_t w = column_of(p, ow, kw);
                if (w >= 0)
                    add(self, i,
                        element(o->dy, ((n * p->OC + oc) * p->OH + oh) * p->OW + ow) *
                            element(o->x, ((n * p->C + c) * p->H + h) * p->W + w));
            }
        }
}

/* One of each of `count` stretches, at a place of its own in each, the ends among them. */
static void choose(bench_gradient_sample *self, int64_t total, double products)
{
    const double fit = fmin(fmax(floor(MAX_PRODUCTS / fmax(products, 1)), 16), (double)total);
    self->count = fit < BENCH_GRADIENT_SAMPLES ? (int64_t)fit : BENCH_GRADIENT_SAMPLES;
    for (int64_t i = 0; i < self->count; i++) {
        const int64_t first = (int64_t)((double)total / (double)self->count * (double)i);
        const int64_t next = i + 1 == self->count
                                 ? total
                                 : (int64_t)((double)total / (double)self->count * (double)(i + 1));
        const int64_t length = next > first ? next - first : 1;
        self->index[i] = i + 1 == self->count ? total - 1 : first + i * 7919 % length;
    }
}

static bool make_sample(bench_gradient_sample *self, const bench_operands *operands)
{
    const talc_conv2d_problem *p = &operands->problem;
    const bool input = p->direction == TALC_GRAD_INPUT;
    const int64_t IC = p->C / p->groups, outputs = p->OH * p->OW, taps = p->KH * p->KW;
    memset(self, 0, sizeof *self);
    const int64_t total = input ? p->N * p->C * p->H * p->W : p->OC * IC * taps;
    if (total > 0)
        choose(self, total,
               input ? (double)(p->OC / p->groups * taps) + (double)(p->OH * p->KH)
                     : (double)p->N * (double)outputs);
    talc_scope *scope = talc_scope_enter();
    const host_operands o = { p, on_host(operands->x), on_host(operands->w),
                              on_host(operands->dy) };
    const bool done = !talc_failed() && talc_device_synchronize(operands->x->device);
    for (int64_t i = 0; i < self->count && done; i++)
        (input ? sum_input : sum_weight)(self, i, &o);
    talc_scope_leave(scope);
    return done;
}

// ---- Comparing ----------------------------------------------------------------------------------

/* Sums of random data, which are far below the bound for any data: 4 u sqrt(K + 4) S. */
static double bound_of(const bench_gradient_sample *self, int64_t i, talc_dtype dtype,
                       talc_precision precision)
{
    const double u = precision == TALC_TF32 ? 0x1p-11 : dtype == TALC_F64 ? 0x1p-53 : 0x1p-24;
    return 4 * u * sqrt(self->terms[i] + 4) * self->size[i];
}

static bool compare(const bench_gradient_sample *self, const bench_operands *operands,
                    const talc_tensor *result, talc_precision precision,
                    talc_check_sample_report *report)
{
    talc_scope *scope = talc_scope_enter();
    const talc_tensor *host = on_host(result);
    const bool done = !talc_failed() && talc_device_synchronize(result->device);
    *report = (talc_check_sample_report){ .count = self->count };
    for (int64_t i = 0; i < self->count && done; i++) {
        const double distance = fabs(element(host, self->index[i]) - self->value[i]);
        const double error = isnan(distance) ? (double)INFINITY : distance;
        const double bound = bound_of(self, i, operands->problem.dtype, precision);
        report->error = fmax(report->error, error);
        report->share = fmax(report->share, error > 0 ? error / bound : 0);
    }
    talc_scope_leave(scope);
    return done;
}

// ---- Either -------------------------------------------------------------------------------------

bool bench_expect(bench_expected *self, const bench_operands *operands)
{
    const bench_operands *o = operands;
    self->forward = NULL;
    if (o->problem.direction != TALC_FORWARD)
        return make_sample(&self->gradient, o);
    self->forward = talc_check_sample_new(&o->problem, o->x, o->w, o->bias, o->residual, 1);
    return self->forward != NULL;
}

void bench_expected_free(bench_expected *self)
{
    talc_check_sample_free(self->forward);
}

bool bench_compare(const bench_expected *self, const bench_operands *operands,
                   const talc_tensor *result, talc_precision precision,
                   talc_check_sample_report *report)
{
    return self->forward != NULL
               ? talc_check_sample_compare(self->forward, result, precision, report)
               : compare(&self->gradient, operands, result, precision, report);
}
