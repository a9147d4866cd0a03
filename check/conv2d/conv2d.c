/// The family of conv2d's algorithms.
///
/// The oracle is the formula of ops/conv2d.h, one output at a time: it finds the window's place,
/// and what stands in the padding, by walking, sums in double for f32 data, whose products double
/// holds exactly, and in long double for f64. That of the gradients is in check/conv2d/gradient.c.
#include "check/conv2d/conv2d.h"

#include "check/engine/activation.h"
#include "check/engine/expected.h"
#include "check/conv2d/trial.h"
#include "check/sets/sets.h"
#include "ops/backend.h"
#include "ops/conv2d_gradient.h"

#include <stddef.h>

_Static_assert(TALC_CONV2D_TEXT <= TALC_CHECK_TEXT, "a text has to fit");

// ---- Problems -----------------------------------------------------------------------------------

/* The op's name is that of a direction: a text behind it need not say it again. A gradient is posed
 * as its algorithms get it. */
static bool parse(check_reader *reader, int op, check_problem *problem)
{
    talc_conv2d_problem *p = writable(problem);
    if (!talc_conv2d_problem_parse(reader->at, p))
        return false;
    if (op != TALC_FORWARD && p->direction != TALC_FORWARD && (int)p->direction != op)
        return talc_check_unexpected(reader, "a problem of that direction");
    if (op != TALC_FORWARD)
        p->direction = (talc_direction)op;
    if (p->direction == TALC_FORWARD)
        return true;
    *p = talc_conv2d_gradient_problem(p, p->direction);
    return talc_conv2d_problem_check(p);
}

static void print(const check_problem *problem, char text[TALC_CHECK_TEXT])
{
    talc_conv2d_problem_text(read_only(problem), text);
}

static int direction(const check_problem *problem)
{
    return (int)read_only(problem)->direction;
}

static double terms(const check_problem *problem)
{
    return talc_check_terms(read_only(problem));
}

// ---- Operands -----------------------------------------------------------------------------------

enum { X = CHECK_X, W = CHECK_W, BIAS = CHECK_BIAS, RESIDUAL = CHECK_RESIDUAL, Y = CHECK_Y };

int talc_check_conv2d_read(talc_direction direction, int order)
{
    static const int of[][4] = { [TALC_FORWARD] = { X, W, BIAS, RESIDUAL },
                                 [TALC_GRAD_INPUT] = { CHECK_DY, W, Y, Y },
                                 [TALC_GRAD_WEIGHT] = { X, CHECK_DY, Y, Y } };
    return order < 4 ? of[direction][order] : Y;
}

int talc_check_conv2d_written(talc_direction direction)
{
    return direction == TALC_GRAD_INPUT ? CHECK_DX : direction == TALC_GRAD_WEIGHT ? CHECK_DW : Y;
}

static void operands(const check_problem *problem, check_operand list[CHECK_OPERANDS])
{
    const talc_conv2d_problem *p = read_only(problem);
    const talc_dtype dtype = p->dtype;
    const bool forward = p->direction == TALC_FORWARD, input = p->direction == TALC_GRAD_INPUT;
    const talc_dims x = TALC_DIMS(p->N, p->C, p->H, p->W);
    const talc_dims w = TALC_DIMS(p->OC, p->C / p->groups, p->KH, p->KW);
    const talc_dims y = TALC_DIMS(p->N, p->OC, p->OH, p->OW);
    if (!input)
        list[X] = talc_check_operand("x", CHECK_READ, dtype, x);
    if (forward || input)
        list[W] = talc_check_operand("w", CHECK_READ, dtype, w);
    if (forward && p->bias)
        list[BIAS] = talc_check_operand("bias", CHECK_READ, dtype, TALC_DIMS(p->OC));
    if (forward && p->residual)
        list[RESIDUAL] = talc_check_operand("residual", CHECK_READ, dtype, y);
    if (forward)
        list[Y] = talc_check_operand("y", CHECK_WRITTEN, dtype, y);
    else
        list[CHECK_DY] = talc_check_operand("dy", CHECK_READ, dtype, y);
    if (input)
        list[CHECK_DX] = talc_check_operand("dx", CHECK_WRITTEN, dtype, x);
    else if (!forward)
        list[CHECK_DW] = talc_check_operand("dw", CHECK_WRITTEN, dtype, w);
}

// ---- The oracle ---------------------------------------------------------------------------------

/* A window along one axis: tap k stands at start + k * step, inside the image for lo <= k < hi. */
typedef struct axis {
    int64_t start, step, taps, size;
    int64_t lo, hi;
} axis;

static axis axis_of(int64_t o, int64_t stride, int64_t before, int64_t step, int64_t taps,
                    int64_t size)
{
    axis a = { o * stride - before, step, taps, size, 0, taps };
    while (a.lo < a.hi && a.start + a.lo * step < 0)
        a.lo++;
    while (a.hi > a.lo && a.start + (a.hi - 1) * step >= size)
        a.hi--;
    return a;
}

int64_t talc_check_source(talc_padding_mode mode, int64_t i, int64_t extent)
{
    while (i < 0 || i >= extent) {
        if (mode == TALC_PADDING_ZEROS)
            return -1;
        if (mode == TALC_PADDING_REPLICATE)
            return i < 0 ? 0 : extent - 1;
        if (mode == TALC_PADDING_CIRCULAR)
            i += i < 0 ? extent : -extent;
        else
            i = i < 0 ? -i : 2 * (extent - 1) - i;
    }
    return i;
}

/* The pixel that tap k reads, -1 for a zero. */
static int64_t pixel(const axis *a, int64_t k, talc_padding_mode mode)
{
    return talc_check_source(mode, a->start + k * a->step, a->size);
}

/* `count` products of pixels `step` apart with weights that lie side by side. */
static void add_row(check_sum *s, const double *x, int64_t step, const double *w, int64_t count)
{
    double value = s->value, size = s->size;
    if (!s->narrow) {
        for (int64_t i = 0; i < count; i++)
            talc_check_sum_add(s, x[i * step], w[i]);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        const double term = x[i * step] * w[i];
        value += term;
        size += fabs(term);
    }
    s->value = value;
    s->size = size;
}

/* A window of one output: `x` is the image's first channel of the group, `w` the output channel's
 * weights. */
typedef struct window {
    const talc_conv2d_problem *p;
    const double *x, *w;
    int64_t channels;
    axis h, w_axis;
} window;

static void add_window(const window *v, check_sum *s)
{
    const talc_conv2d_problem *p = v->p;
    const axis *a = &v->w_axis;
    for (int64_t kh = 0; kh < p->KH; kh++) {
        const int64_t h = pixel(&v->h, kh, p->padding_mode);
        if (h < 0)
            continue;
        for (int64_t ic = 0; ic < v->channels; ic++) {
            const double *x = v->x + (ic * p->H + h) * p->W;
            const double *w = v->w + (ic * p->KH + kh) * p->KW;
            if (a->lo < a->hi)
                add_row(s, x + a->start + a->lo * a->step, a->step, w + a->lo, a->hi - a->lo);
            if (p->padding_mode == TALC_PADDING_ZEROS)
                continue;
            for (int64_t kw = 0; kw < a->lo; kw++)
                talc_check_sum_add(s, x[pixel(a, kw, p->padding_mode)], w[kw]);
            for (int64_t kw = a->hi; kw < a->taps; kw++)
                talc_check_sum_add(s, x[pixel(a, kw, p->padding_mode)], w[kw]);
        }
    }
}

/* Whether a weight over a zero of the padding is not finite: their product is NaN. */
static bool zero_times_infinity(const window *v)
{
    const talc_conv2d_problem *p = v->p;
    for (int64_t i = 0; i < v->channels * p->KH * p->KW; i++) {
        const int64_t kh = i / p->KW % p->KH, kw = i % p->KW;
        if (!isfinite(v->w[i]) &&
            (pixel(&v->h, kh, p->padding_mode) < 0 || pixel(&v->w_axis, kw, p->padding_mode) < 0))
            return true;
    }
    return false;
}

/* y[n, oc, oh, ow], or an element of dx or dw. */
static check_expected expected(const check_problem *problem, const check_values *values,
                               int operand, int64_t index)
{
    const talc_conv2d_problem *p = read_only(problem);
    (void)operand;
    if (p->direction != TALC_FORWARD)
        return talc_check_conv2d_gradient_expected(p, values, index);
    const int64_t ow = index % p->OW, oh = index / p->OW % p->OH;
    const int64_t oc = index / p->OW / p->OH % p->OC, n = index / p->OW / p->OH / p->OC;
    const int64_t channels = p->C / p->groups, first = oc / (p->OC / p->groups) * channels;
    const window v = {
        .p = p,
        .x = values->of[X] + (n * p->C + first) * p->H * p->W,
        .w = values->of[W] + oc * channels * p->KH * p->KW,
        .channels = channels,
        .h = axis_of(oh, p->stride_h, p->pad_top, p->dilation_h, p->KH, p->H),
        .w_axis = axis_of(ow, p->stride_w, p->pad_left, p->dilation_w, p->KW, p->W),
    };
    check_sum s = { .narrow = talc_check_is_narrow(p->dtype) };
    add_window(&v, &s);
    const bool border = v.h.lo > 0 || v.h.hi < p->KH || v.w_axis.lo > 0 || v.w_axis.hi < p->KW;
    if (border && p->padding_mode == TALC_PADDING_ZEROS && zero_times_infinity(&v))
        talc_check_sum_add(&s, 0, INFINITY);
    if (p->bias)
        talc_check_sum_add(&s, values->of[BIAS][oc], 1);
    if (p->residual)
        talc_check_sum_add(&s, values->of[RESIDUAL][index], 1);
    check_expected expected = { .value = talc_check_sum_value(&s),
                                .K = (double)(channels * p->KH * p->KW),
                                .S = s.size };
    talc_check_activate(&expected, p->activation, p->dtype);
    expected.border = border;
    return expected;
}

/* Without images dw is zeros, which no algorithm is asked to write. */
static bool is_empty(const check_problem *problem)
{
    const talc_conv2d_problem *p = read_only(problem);
    return p->direction == TALC_GRAD_WEIGHT && p->N == 0;
}

static bool problem_of_run(const check_ran *ran, check_problem *problem)
{
    talc_conv2d_problem *p = writable(problem);
    *p = *(const talc_conv2d_problem *)ran->problem;
    p->dtype = ran->inputs[CHECK_W].dtype;
    p->activation = TALC_ACTIVATION_NONE;
    return true;
}

static bool expected_of_run(const check_direction *direction, const check_ran *ran,
                            check_model_expected *expected)
{
    const talc_conv2d_problem *p = ran->problem;
    check_array inputs[CHECK_DY + 1] = { [CHECK_W] = ran->inputs[1] };
    check_ran gradient = *ran;
    gradient.inputs = inputs;
    gradient.count = CHECK_DY + 1;
    inputs[CHECK_DY] = ran->inputs[0];
    expected->activation = p->activation;
    return talc_check_linear(direction, p->direction == TALC_FORWARD ? ran : &gradient, expected);
}

#define POINTER(name) offsetof(talc_conv2d_arguments, name)

/* In the order of the directions. */
static const char *const ops[] = { "conv2d", "conv2d.grad_input", "conv2d.grad_weight", NULL };

static const check_family family = {
    .texts = "conv2d:n2c4h9w9o8k3x3s2x2p1x1d1x1g2_bias_relu\n"
             "    as talc_conv2d_problem_parse reads it, and conv2d: may be left out; _dx or _dw\n"
             "    at the end: its gradient, op conv2d.grad_input or conv2d.grad_weight, as its\n"
             "    algorithms get it: without bias, residual, activation, and with padding of\n"
             "    another mode than zeros as part of the image\n",
    .quick = talc_check_conv2d_quick,
    .edges = talc_check_conv2d_edges,
    .parse = parse,
    .print = print,
    .op = direction,
    .random = talc_check_conv2d_random,
};

/* Of all directions. */
const check_direction talc_check_conv2d = {
    .family = &family,
    .ops = ops,
    .problem_of_run = problem_of_run,
    .expected_of_run = expected_of_run,
    .factors = 1U << CHECK_X | 1U << CHECK_W | 1U << CHECK_DY,
    .operands = operands,
    .takes = talc_check_conv2d_takes,
    .fill = talc_check_conv2d_fill,
    .inject = talc_check_conv2d_inject,
    .expected = expected,
    .terms = terms,
    .list = TALC_OP_conv2d,
    .arguments = { POINTER(x), POINTER(w), POINTER(bias), POINTER(residual), POINTER(y),
                   POINTER(dy), POINTER(dx), POINTER(dw) },
    .is_empty = is_empty,
};
