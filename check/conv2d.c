/// The family of conv2d's rows.
///
/// The oracle is the formula of ops/conv2d.h, one output at a time: it finds the window's place, and what stands in the
/// padding, by walking, sums in double for f32 data, whose products double holds exactly, and in long double for f64.
#include "check/conv2d.h"

#include "check/activation.h"
#include "check/data.h"
#include "check/model_due.h"
#include "check/trial.h"
#include "ops/backend.h"
#include "ops/conv2d.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

_Static_assert(sizeof(talc_conv2d_problem) <= CHECK_PROBLEM_BYTES, "a problem fits its place");
_Static_assert(TALC_CONV2D_TEXT <= TALC_CHECK_TEXT, "so does its text");

static const talc_conv2d_problem *conv2d_of(const check_problem *problem)
{
    return (const talc_conv2d_problem *)(const void *)problem;
}

// ---- Problems -----------------------------------------------------------------------------------------------

static bool parse(const char *op, const char *text, check_problem *problem)
{
    (void)op;
    return talc_conv2d_problem_parse(text, (talc_conv2d_problem *)(void *)problem);
}

static const char *print(const check_problem *problem, char text[TALC_CHECK_TEXT])
{
    return talc_conv2d_problem_text(conv2d_of(problem), text);
}

static const char *op_name(const check_problem *problem)
{
    (void)problem;
    return "conv2d";
}

static double terms(const check_problem *problem)
{
    return talc_check_terms(conv2d_of(problem));
}

static bool curved(const talc_conv2d_problem *p)
{
    return p->activation == TALC_ACTIVATION_SIGMOID || p->activation == TALC_ACTIVATION_TANH;
}

// ---- Operands -----------------------------------------------------------------------------------------------

typedef enum slot { SLOT_X, SLOT_W, SLOT_BIAS, SLOT_RESIDUAL, SLOT_Y, SLOT_COUNT } slot;

/* Which operands a problem has, in order; returns how many. A gradient has a list of its own here. */
static int slots_of(const talc_conv2d_problem *p, slot slots[CHECK_OPERANDS])
{
    int count = 0;
    if (p->direction != TALC_FORWARD)
        return 0;
    slots[count++] = SLOT_X;
    slots[count++] = SLOT_W;
    if (p->bias)
        slots[count++] = SLOT_BIAS;
    if (p->residual)
        slots[count++] = SLOT_RESIDUAL;
    slots[count++] = SLOT_Y;
    return count;
}

static check_operand described(const talc_conv2d_problem *p, slot which)
{
    const check_operand all[SLOT_COUNT] = {
        [SLOT_X] = { "x", CHECK_READ, .rank = 4, .dims = { p->N, p->C, p->H, p->W } },
        [SLOT_W] = { "w", CHECK_READ, .rank = 4,
                     .dims = { p->OC, p->C / p->groups, p->KH, p->KW } },
        [SLOT_BIAS] = { "bias", CHECK_READ, .rank = 1, .dims = { p->OC } },
        [SLOT_RESIDUAL] = { "residual", CHECK_READ, .rank = 4,
                            .dims = { p->N, p->OC, p->OH, p->OW } },
        [SLOT_Y] = { "y", CHECK_WRITTEN, .rank = 4, .dims = { p->N, p->OC, p->OH, p->OW } },
    };
    check_operand operand = all[which];
    operand.dtype = p->dtype;
    operand.count = 1;
    for (int i = 0; i < operand.rank; i++)
        operand.count *= operand.dims[i];
    return operand;
}

static int operands(const check_problem *problem, check_operand list[CHECK_OPERANDS])
{
    const talc_conv2d_problem *p = conv2d_of(problem);
    slot slots[CHECK_OPERANDS];
    const int count = slots_of(p, slots);
    for (int i = 0; i < count; i++)
        list[i] = described(p, slots[i]);
    return count;
}

/* Host arrays by what they are; NULL where the problem has none. */
static void host_arrays(const talc_conv2d_problem *p, const check_values *values,
                        double *arrays[SLOT_COUNT])
{
    slot slots[CHECK_OPERANDS];
    const int count = slots_of(p, slots);
    for (int i = 0; i < SLOT_COUNT; i++)
        arrays[i] = NULL;
    for (int i = 0; i < count; i++)
        arrays[slots[i]] = values->of[i];
}

// ---- Data ---------------------------------------------------------------------------------------------------

static bool takes(const check_problem *problem, talc_check_kind kind)
{
    const talc_conv2d_problem *p = conv2d_of(problem);
    const double room = p->dtype == TALC_F32 ? 0x1p24 : 0x1p53;
    return kind != TALC_CHECK_EXACT || (!curved(p) && terms(problem) + 2 < room);
}

/* An element of x that some window reads, if a few attempts find one; any other else. */
static int64_t read_element(const talc_conv2d_problem *p, uint64_t seed)
{
    uint64_t s = seed;
    const int64_t n = talc_check_draw(&s, 0, p->N - 1), c = talc_check_draw(&s, 0, p->C - 1);
    int64_t h = -1, w = -1;
    for (int i = 0; i < 64 && (h < 0 || h >= p->H); i++)
        h = talc_check_draw(&s, 0, p->OH - 1) * p->stride_h - p->pad_top +
            talc_check_draw(&s, 0, p->KH - 1) * p->dilation_h;
    for (int i = 0; i < 64 && (w < 0 || w >= p->W); i++)
        w = talc_check_draw(&s, 0, p->OW - 1) * p->stride_w - p->pad_left +
            talc_check_draw(&s, 0, p->KW - 1) * p->dilation_w;
    h = h < 0 || h >= p->H ? talc_check_draw(&s, 0, p->H - 1) : h;
    w = w < 0 || w >= p->W ? talc_check_draw(&s, 0, p->W - 1) : w;
    return ((n * p->C + c) * p->H + h) * p->W + w;
}

static void fill_x(const talc_conv2d_problem *p, talc_check_kind kind, double largest,
                   uint64_t seed, double *x)
{
    const int64_t count = p->N * p->C * p->H * p->W;
    const bool odd =
        kind == TALC_CHECK_HUGE || kind == TALC_CHECK_NAN || kind == TALC_CHECK_INFINITY;
    talc_check_fill(x, count, p->dtype, odd ? TALC_CHECK_RANDOM : kind, largest, 1, seed);
    if (odd && count > 0)
        x[read_element(p, talc_check_bits(seed, UINT64_MAX))] = kind == TALC_CHECK_HUGE  ? 0x1p30
                                                                : kind == TALC_CHECK_NAN ? NAN
                                                                                         : INFINITY;
}

static void make_positive(double *values, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        values[i] = fabs(values[i]);
}

/* Even output channels get sums of positive terms. Of a ReLU's outputs, and of those that all sum the same pixel, nothing
 * but zeros might be left otherwise, which tests nothing. */
static void keep_from_zero(const talc_conv2d_problem *p, double *arrays[SLOT_COUNT])
{
    const int64_t K = p->C / p->groups * p->KH * p->KW, plane = p->OH * p->OW;
    make_positive(arrays[SLOT_X], p->N * p->C * p->H * p->W);
    for (int64_t oc = 0; oc < p->OC; oc += 2) {
        make_positive(arrays[SLOT_W] + oc * K, K);
        if (arrays[SLOT_BIAS] != NULL)
            make_positive(arrays[SLOT_BIAS] + oc, 1);
        for (int64_t n = 0; n < p->N && arrays[SLOT_RESIDUAL] != NULL; n++)
            make_positive(arrays[SLOT_RESIDUAL] + (n * p->OC + oc) * plane, plane);
    }
}

/* A row that leaves out weights of zero must not leave out a NaN or an infinity with them. */
static void put_zeros(double *w, int64_t count, uint64_t seed)
{
    for (int64_t i = 0; i < count; i++)
        if (talc_check_bits(seed, (uint64_t)i) % 4 == 0)
            w[i] = 0;
}

static void fill(const check_problem *problem, talc_check_kind kind, uint64_t seed,
                 const check_values *values)
{
    const talc_conv2d_problem *p = conv2d_of(problem);
    const double K = terms(problem);
    /* A sum has a bias and a residual beside its products. */
    const double largest = talc_check_exact_largest(p->dtype, K + 2, curved(p) ? 1 : 8);
    /* What is special about x must not be hidden by a special w. */
    const talc_check_kind other =
        kind == TALC_CHECK_EXACT || kind == TALC_CHECK_CONSTANT ? kind : TALC_CHECK_RANDOM;
    /* Outputs of size 1; constant ones do not cancel, and would saturate a sigmoid. */
    const double scale = kind != TALC_CHECK_CONSTANT ? 3 / sqrt(K) : curved(p) ? 2.1 / K : 2.1;
    const double added = kind == TALC_CHECK_CONSTANT ? 0.3 : 1;
    double *arrays[SLOT_COUNT];
    host_arrays(p, values, arrays);
    fill_x(p, kind, largest, talc_check_bits(seed, 1), arrays[SLOT_X]);
    talc_check_fill(arrays[SLOT_W], p->OC * (p->C / p->groups) * p->KH * p->KW, p->dtype, other,
                    largest, scale, talc_check_bits(seed, 2));
    if (kind == TALC_CHECK_NAN || kind == TALC_CHECK_INFINITY)
        put_zeros(arrays[SLOT_W], p->OC * (p->C / p->groups) * p->KH * p->KW,
                  talc_check_bits(seed, 5));
    if (p->bias)
        talc_check_fill(arrays[SLOT_BIAS], p->OC, p->dtype, other, largest, added,
                        talc_check_bits(seed, 3));
    if (p->residual)
        talc_check_fill(arrays[SLOT_RESIDUAL], p->N * p->OC * p->OH * p->OW, p->dtype, other,
                        largest, added, talc_check_bits(seed, 4));
    if (p->activation == TALC_ACTIVATION_RELU ||
        (p->H == 1 && p->W == 1 && p->padding_mode != TALC_PADDING_ZEROS))
        keep_from_zero(p, arrays);
}

// ---- The oracle ---------------------------------------------------------------------------------------------

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

/* The pixel that tap k reads, -1 for a zero. */
static int64_t pixel(const axis *a, int64_t k, talc_padding_mode mode)
{
    int64_t i = a->start + k * a->step;
    while (i < 0 || i >= a->size) {
        if (mode == TALC_PADDING_ZEROS)
            return -1;
        if (mode == TALC_PADDING_REPLICATE)
            return i < 0 ? 0 : a->size - 1;
        if (mode == TALC_PADDING_CIRCULAR)
            i += i < 0 ? a->size : -a->size;
        else
            i = i < 0 ? -i : 2 * (a->size - 1) - i;
    }
    return i;
}

typedef struct sum {
    bool narrow; /* f32 data */
    double value, size;
    long double long_value;
} sum;

static void add_term(sum *s, double x, double w)
{
    if (s->narrow)
        s->value += x * w;
    else
        s->long_value += (long double)x * w;
    s->size += fabs(x * w);
}

/* `count` products of pixels `step` apart with weights that lie side by side. */
static void add_row(sum *s, const double *x, int64_t step, const double *w, int64_t count)
{
    double value = s->value, size = s->size;
    if (!s->narrow) {
        for (int64_t i = 0; i < count; i++)
            add_term(s, x[i * step], w[i]);
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

/* A window of one output: `x` is the image's first channel of the group, `w` the output channel's weights. */
typedef struct window {
    const talc_conv2d_problem *p;
    const double *x, *w;
    int64_t channels;
    axis h, w_axis;
} window;

static void add_window(const window *v, sum *s)
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
                add_term(s, x[pixel(a, kw, p->padding_mode)], w[kw]);
            for (int64_t kw = a->hi; kw < a->taps; kw++)
                add_term(s, x[pixel(a, kw, p->padding_mode)], w[kw]);
        }
    }
}

/* Whether a weight over a zero of the padding is not finite: a row may multiply the two or leave them out. */
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

static check_due finished(const talc_conv2d_problem *p, const sum *s, double K)
{
    const double u = p->dtype == TALC_F32 ? 0x1p-24 : 0x1p-53;
    const long double value = s->narrow ? (long double)s->value : s->long_value;
    check_due due = { .value = talc_check_activated(p->activation, value), .K = K, .S = s->size };
    /* No rounding brings an infinity back, nor what an activation makes of it. */
    if (!isfinite((double)value))
        due.S = 0;
    /* No activation is steeper than 1, so none enlarges an error; these round anew. */
    if (curved(p))
        due.extra = 8 * u * fabs((double)due.value);
    return due;
}

/* y[n, oc, oh, ow]. */
static check_due output(const talc_conv2d_problem *p, double *const arrays[SLOT_COUNT],
                        int64_t index)
{
    const int64_t ow = index % p->OW, oh = index / p->OW % p->OH;
    const int64_t oc = index / p->OW / p->OH % p->OC, n = index / p->OW / p->OH / p->OC;
    const int64_t channels = p->C / p->groups, first = oc / (p->OC / p->groups) * channels;
    const window v = {
        .p = p,
        .x = arrays[SLOT_X] + (n * p->C + first) * p->H * p->W,
        .w = arrays[SLOT_W] + oc * channels * p->KH * p->KW,
        .channels = channels,
        .h = axis_of(oh, p->stride_h, p->pad_top, p->dilation_h, p->KH, p->H),
        .w_axis = axis_of(ow, p->stride_w, p->pad_left, p->dilation_w, p->KW, p->W),
    };
    sum s = { .narrow = p->dtype == TALC_F32 };
    add_window(&v, &s);
    if (p->bias)
        add_term(&s, arrays[SLOT_BIAS][oc], 1);
    if (p->residual)
        add_term(&s, arrays[SLOT_RESIDUAL][index], 1);
    check_due due = finished(p, &s, (double)(channels * p->KH * p->KW));
    due.border = v.h.lo > 0 || v.h.hi < p->KH || v.w_axis.lo > 0 || v.w_axis.hi < p->KW;
    due.any = due.border && p->padding_mode == TALC_PADDING_ZEROS && zero_times_infinity(&v);
    return due;
}

static check_due due(const check_problem *problem, const check_values *values, int operand,
                     int64_t index)
{
    const talc_conv2d_problem *p = conv2d_of(problem);
    double *arrays[SLOT_COUNT];
    (void)operand; /* y is the only one */
    host_arrays(p, values, arrays);
    return output(p, arrays, index);
}

bool talc_check_conv2d_pose(const check_ran *ran, check_problem *problem)
{
    talc_conv2d_problem *p = (talc_conv2d_problem *)(void *)problem;
    memset(problem, 0, sizeof *problem);
    *p = *(const talc_conv2d_problem *)ran->problem;
    p->dtype = ran->inputs[0].dtype;
    p->activation = TALC_ACTIVATION_NONE;
    return true;
}

// ---- Rows ---------------------------------------------------------------------------------------------------

static const void *posed(const check_problem *problem)
{
    return conv2d_of(problem);
}

static bool is_empty(const check_problem *problem)
{
    return conv2d_of(problem)->N == 0;
}

static talc_status run(const talc_algorithm *row, talc_device *device, const check_problem *problem,
                       void *const pointers[CHECK_OPERANDS], const talc_plan *plan, void *workspace)
{
    const talc_conv2d_problem *p = conv2d_of(problem);
    slot slots[CHECK_OPERANDS];
    void *of[SLOT_COUNT] = { NULL };
    const int count = slots_of(p, slots);
    for (int i = 0; i < count; i++)
        of[slots[i]] = pointers[i];
    const talc_conv2d_arguments arguments = { .base = { workspace },
                                              .x = of[SLOT_X],
                                              .w = of[SLOT_W],
                                              .bias = of[SLOT_BIAS],
                                              .residual = of[SLOT_RESIDUAL],
                                              .y = of[SLOT_Y] };
    return row->run(device, p, plan, &arguments);
}

static const char *const ops[] = { "conv2d", NULL };

const check_family talc_check_conv2d = {
    .ops = ops,
    .parse = parse,
    .print = print,
    .op = op_name,
    .random = talc_check_conv2d_random,
    .operands = operands,
    .takes = takes,
    .fill = fill,
    .spoil = talc_check_conv2d_spoil,
    .due = due,
    .terms = terms,
    .list = offsetof(struct talc_backend, conv2d),
    .posed = posed,
    .is_empty = is_empty,
    .run = run,
};
