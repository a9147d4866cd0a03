#include "tools/sampled.h"

#include <math.h>

/* Element i of a contiguous host tensor of f32 or f64. */
static double element(const talc_tensor *tensor, int64_t i)
{
    return tensor->dtype == TALC_F64 ? ((const double *)tensor->data)[i]
                                     : (double)((const float *)tensor->data)[i];
}

/* The tensor, contiguous on the host; itself where it is so already. */
static talc_tensor *on_host(const talc_tensor *tensor)
{
    return tensor == NULL ? NULL
                          : talc_contiguous(talc_to(tensor, talc_device_get("cpu"), tensor->dtype));
}

/* The next of a sequence of random 64-bit numbers (splitmix64: Steele, Lea, Flood 2014). */
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* The pixel of 0 .. size-1 that stands at position `i` of the padded axis; -1 for a zero. */
static int64_t pixel(talc_padding_mode mode, int64_t i, int64_t size)
{
    if (i >= 0 && i < size)
        return i;
    switch (mode) {
    case TALC_PADDING_REFLECT:
        return i < 0 ? -i : 2 * (size - 1) - i;
    case TALC_PADDING_REPLICATE:
        return i < 0 ? 0 : size - 1;
    case TALC_PADDING_CIRCULAR:
        return i < 0 ? i + size : i - size;
    default:
        return -1;
    }
}

static double activated(talc_activation activation, double value)
{
    switch (activation) {
    case TALC_ACTIVATION_RELU:
        return value < 0 ? 0 : value;
    case TALC_ACTIVATION_SIGMOID:
        return 1 / (1 + exp(-value));
    case TALC_ACTIVATION_TANH:
        return tanh(value);
    default:
        return value;
    }
}

typedef struct operands {
    const talc_tensor *x, *w, *bias, *residual;
} operands;

static void split_index(const talc_conv2d_problem *p, int64_t index, int64_t where[4])
{
    where[3] = index % p->OW;
    where[2] = index / p->OW % p->OH;
    where[1] = index / p->OW / p->OH % p->OC;
    where[0] = index / p->OW / p->OH / p->OC;
}

/* Output i of the sample: its value and S. */
static void sum_output(sampled *self, int64_t i, const operands *o)
{
    const talc_conv2d_problem *p = &self->problem;
    const int64_t IC = p->C / p->groups;
    int64_t at[4];
    split_index(p, self->index[i], at);
    const int64_t n = at[0], oc = at[1], group = oc / (p->OC / p->groups);

    long double sum = o->bias == NULL ? 0 : (long double)element(o->bias, oc);
    if (o->residual != NULL)
        sum += (long double)element(o->residual, self->index[i]);
    double scale = (o->bias == NULL ? 0 : fabs(element(o->bias, oc))) +
                   (o->residual == NULL ? 0 : fabs(element(o->residual, self->index[i])));
    for (int64_t ic = 0; ic < IC; ic++)
        for (int64_t kh = 0; kh < p->KH; kh++) {
            const int64_t h =
                pixel(p->padding_mode, at[2] * p->stride_h - p->pad_top + kh * p->dilation_h, p->H);
            for (int64_t kw = 0; h >= 0 && kw < p->KW; kw++) {
                const int64_t w = pixel(
                    p->padding_mode, at[3] * p->stride_w - p->pad_left + kw * p->dilation_w, p->W);
                if (w < 0)
                    continue;
                const double pixel_value =
                    element(o->x, ((n * p->C + group * IC + ic) * p->H + h) * p->W + w);
                const double weight = element(o->w, ((oc * IC + ic) * p->KH + kh) * p->KW + kw);
                sum += (long double)pixel_value * (long double)weight;
                scale += fabs(pixel_value * weight);
            }
        }
    self->exact[i] = activated(p->activation, (double)sum);
    self->scale[i] = scale;
}

static double roundoff(talc_dtype dtype)
{
    return dtype == TALC_F64 ? 0x1p-53 : 0x1p-24;
}

bool sampled_prepare(sampled *self, const talc_conv2d_problem *problem, const talc_tensor *x,
                     const talc_tensor *w, const talc_tensor *bias, const talc_tensor *residual,
                     uint64_t seed)
{
    talc_scope *scope = talc_scope_enter();
    const operands o = { on_host(x), on_host(w), on_host(bias), on_host(residual) };
    if (talc_failed() || !talc_device_synchronize(x->device)) {
        talc_scope_leave(scope);
        return false;
    }
    const int64_t total = problem->N * problem->OC * problem->OH * problem->OW;
    const double u = roundoff(problem->dtype);
    const double K = (double)(problem->C / problem->groups * problem->KH * problem->KW);
    const bool rounds_again = problem->activation == TALC_ACTIVATION_SIGMOID ||
                              problem->activation == TALC_ACTIVATION_TANH;
    self->problem = *problem;
    self->count = total < SAMPLED_OUTPUTS ? total : SAMPLED_OUTPUTS;
    for (int64_t i = 0; i < self->count; i++) {
        self->index[i] =
            total <= SAMPLED_OUTPUTS ? i : (int64_t)(next_random(&seed) % (uint64_t)total);
        sum_output(self, i, &o);
        self->bound[i] = 4 * u * sqrt(K + 4) * self->scale[i] +
                         (rounds_again ? 4 * u * fabs(self->exact[i]) : 0);
    }
    talc_scope_leave(scope);
    return true;
}

/* 0 for equal numbers, infinity for a NaN where a number is due. */
static double error_of(double value, double exact)
{
    if (isnan(exact) ? isnan(value) : value == exact)
        return 0;
    double error = fabs(value - exact);
    return isnan(error) ? (double)INFINITY : error;
}

/* error / bound where both may be zero. */
static double share_of(double error, double bound)
{
    return error == 0 ? 0 : error / bound;
}

bool sampled_compare(const sampled *self, const talc_tensor *y, talc_precision precision,
                     sampled_result *result)
{
    talc_scope *scope = talc_scope_enter();
    const talc_tensor *host = on_host(y);
    if (talc_failed() || !talc_device_synchronize(y->device)) {
        talc_scope_leave(scope);
        return false;
    }
    *result = (sampled_result){ .count = self->count };
    double error_squares = 0, bound_squares = 0, largest_share = -1;
    for (int64_t i = 0; i < self->count; i++) {
        const double error = error_of(element(host, self->index[i]), self->exact[i]);
        const double bound =
            self->bound[i] + (precision == TALC_TF32 ? 0x1p-10 * self->scale[i] : 0);
        const double share = share_of(error, bound);
        result->error = fmax(result->error, error);
        error_squares += error * error;
        bound_squares += self->bound[i] * self->bound[i];
        if (share > largest_share) {
            largest_share = share;
            split_index(&self->problem, self->index[i], result->where);
        }
    }
    result->share = fmax(largest_share, 0);
    if (precision == TALC_NORMWISE)
        result->share = share_of(sqrt(error_squares), sqrt(bound_squares));
    talc_scope_leave(scope);
    return true;
}
