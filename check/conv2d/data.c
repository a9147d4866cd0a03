/// What the operands of conv2d's family are filled with.
#include "check/conv2d/conv2d.h"

#include "check/engine/data.h"

#include <math.h>

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

/* An output along one axis of which some tap is on the image, if a few attempts find one; any other
 * else. */
static int64_t output_on_image(uint64_t *s, int64_t outputs, int64_t stride, int64_t pad,
                               int64_t dilation, int64_t taps, int64_t extent)
{
    for (int i = 0; i < 64; i++) {
        const int64_t o = talc_check_draw(s, 0, outputs - 1);
        const int64_t at = o * stride - pad + talc_check_draw(s, 0, taps - 1) * dilation;
        if (at >= 0 && at < extent)
            return o;
    }
    return talc_check_draw(s, 0, outputs - 1);
}

/* An element of dy that reaches some pixel. */
static int64_t reaching_element(const talc_conv2d_problem *p, uint64_t seed)
{
    uint64_t s = seed;
    const int64_t row = talc_check_draw(&s, 0, p->N * p->OC - 1);
    const int64_t oh =
        output_on_image(&s, p->OH, p->stride_h, p->pad_top, p->dilation_h, p->KH, p->H);
    const int64_t ow =
        output_on_image(&s, p->OW, p->stride_w, p->pad_left, p->dilation_w, p->KW, p->W);
    return (row * p->OH + oh) * p->OW + ow;
}

/* x, or dy of the input's gradient: what is special about the data is in it. */
static void fill_first(const talc_conv2d_problem *p, talc_check_kind kind, double largest,
                       uint64_t seed, double *values, int64_t count)
{
    const bool odd =
        kind == TALC_CHECK_HUGE || kind == TALC_CHECK_NAN || kind == TALC_CHECK_INFINITY;
    talc_check_fill(values, count, p->dtype, odd ? TALC_CHECK_RANDOM : kind, largest, 1, seed);
    if (!odd || count == 0)
        return;
    const uint64_t index = talc_check_bits(seed, UINT64_MAX);
    values[p->direction == TALC_GRAD_INPUT ? reaching_element(p, index) : read_element(p, index)] =
        kind == TALC_CHECK_HUGE  ? 0x1p30
        : kind == TALC_CHECK_NAN ? NAN
                                 : INFINITY;
}

static void make_positive(double *values, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        values[i] = fabs(values[i]);
}

/* Even output channels get sums of positive terms. Of a ReLU's outputs, and of those that all sum
 * the same pixel, nothing but zeros might be left otherwise, which tests nothing. */
static void keep_from_zero(const talc_conv2d_problem *p, double *const arrays[CHECK_OPERANDS])
{
    const int64_t K = p->C / p->groups * p->KH * p->KW, plane = p->OH * p->OW;
    make_positive(arrays[CHECK_X], p->N * p->C * p->H * p->W);
    for (int64_t oc = 0; oc < p->OC; oc += 2) {
        make_positive(arrays[CHECK_W] + oc * K, K);
        if (arrays[CHECK_BIAS] != NULL)
            make_positive(arrays[CHECK_BIAS] + oc, 1);
        for (int64_t n = 0; n < p->N && arrays[CHECK_RESIDUAL] != NULL; n++)
            make_positive(arrays[CHECK_RESIDUAL] + (n * p->OC + oc) * plane, plane);
    }
}

/* Whether results are rounded anew by an activation. */
static bool is_curved(const talc_conv2d_problem *p)
{
    return p->activation == TALC_ACTIVATION_SIGMOID || p->activation == TALC_ACTIVATION_TANH;
}

bool talc_check_conv2d_takes(const check_problem *problem, talc_check_kind kind)
{
    const talc_conv2d_problem *p = read_only(problem);
    const double largest_exact = talc_check_format(p->dtype).integers;
    return kind != TALC_CHECK_EXACT || (!is_curved(p) && talc_check_terms(p) + 2 < largest_exact);
}

/* How large a channel of `count` that are summed is, of one of the two factors: large and small by
 * turns, or in three steps. */
static double apart_size(bool steps, int64_t channel, int64_t count)
{
    return !steps ? (channel % 2 == 0 ? talc_check_apart_large : talc_check_apart_small)
           : channel * 3 < count     ? talc_check_apart_small
           : channel * 3 < 2 * count ? sqrt(talc_check_apart_small * talc_check_apart_large)
                                     : talc_check_apart_large;
}

/* The other factor is zero where it meets larger channels than the small ones: weights of every
 * other output channel, or half of each plane. Of dw each sum has one channel of x. */
static void set_apart(const talc_conv2d_problem *p, uint64_t seed, double *const of[CHECK_OPERANDS],
                      const check_operand *list)
{
    const bool is_dx = p->direction == TALC_GRAD_INPUT, is_dw = p->direction == TALC_GRAD_WEIGHT;
    const bool weights = !is_dw && talc_check_bits(seed, 0) % 2 == 0; /* they are large and small */
    const bool steps = talc_check_bits(seed, 1) % 2 == 0;
    const int first = talc_check_conv2d_read(p->direction, 0),
              second = talc_check_conv2d_read(p->direction, 1);
    const int64_t plane = is_dx ? p->OH * p->OW : p->H * p->W,
                  summed = (is_dx ? p->OC : p->C) / p->groups;
    const int apart = weights ? second : first;
    talc_check_fill(of[first], list[first].count, p->dtype, TALC_CHECK_RANDOM, 0, 1, seed);
    talc_check_leave_zero(of[apart], list[apart].count, p->dtype);
    for (int64_t i = 0; i < list[first].count; i += plane) {
        const double size = apart_size(steps, i / plane % summed, summed);
        talc_check_scale(of[first] + i, plane, p->dtype, weights ? talc_check_apart_second : size);
        if (weights && size > talc_check_apart_small)
            talc_check_scale(of[first] + i + plane / 2, plane - plane / 2, p->dtype, 0);
    }
    const int64_t taps = p->KH * p->KW, IC = p->C / p->groups;
    for (int64_t i = 0; !is_dw && i < list[second].count; i += taps) {
        const int64_t oc = i / taps / IC % (p->OC / p->groups), ic = i / taps % IC;
        const double size = apart_size(steps, is_dx ? oc : ic, summed);
        const bool alone = (is_dx ? ic : oc) % 2 != 0;
        talc_check_scale(of[second] + i, taps, p->dtype,
                         weights                                  ? size
                         : alone && size > talc_check_apart_small ? 0
                                                                  : talc_check_apart_second);
    }
    if (is_dw)
        talc_check_scale(of[second], list[second].count, p->dtype, talc_check_apart_second);
    for (int order = 2; order < 4; order++) {
        const int i = talc_check_conv2d_read(p->direction, order);
        if (list[i].role == CHECK_READ)
            talc_check_scale(of[i], list[i].count, p->dtype, talc_check_apart_added);
    }
}

void talc_check_conv2d_fill(const check_problem *problem, talc_check_kind kind, uint64_t seed,
                            const check_values *values)
{
    const talc_conv2d_problem *p = read_only(problem);
    const double K = talc_check_terms(p);
    const bool curved = is_curved(p);
    /* A sum has a bias and a residual beside its products. */
    const double largest = talc_check_exact_largest(p->dtype, K + 2, curved ? 1 : 8);
    /* What is special about x must not be hidden by a special w. */
    const talc_check_kind other =
        kind == TALC_CHECK_EXACT || kind == TALC_CHECK_CONSTANT ? kind : TALC_CHECK_RANDOM;
    /* Outputs of size 1; constant ones do not cancel, and would saturate a sigmoid. */
    const double scale = kind != TALC_CHECK_CONSTANT ? 3 / sqrt(K) : curved ? 2.1 / K : 2.1;
    const double added = kind == TALC_CHECK_CONSTANT ? 0.3 : 1;
    const int first = talc_check_conv2d_read(p->direction, 0),
              second = talc_check_conv2d_read(p->direction, 1);
    check_operand list[CHECK_OPERANDS];
    talc_check_operands(&talc_check_conv2d, problem, list);
    fill_first(p, kind, largest, talc_check_bits(seed, 1), values->of[first], list[first].count);
    for (int order = 1; order < 4; order++) {
        const int i = talc_check_conv2d_read(p->direction, order);
        if (list[i].role == CHECK_READ)
            talc_check_fill(values->of[i], list[i].count, p->dtype, other, largest,
                            i == second ? scale : added,
                            talc_check_bits(seed, (uint64_t)order + 1));
    }
    /* An algorithm that leaves out zeros of one operand must not leave out a NaN or an infinity of
     * the other with them. */
    if (kind == TALC_CHECK_NAN || kind == TALC_CHECK_INFINITY || kind == TALC_CHECK_HUGE)
        talc_check_put_zeros(values->of[second], list[second].count, talc_check_bits(seed, 5));
    /* Beside a huge value others may lose digits, which counts where it meets a zero. It stands in
     * the second operand of every other problem. */
    const int64_t count = list[second].count;
    if (kind == TALC_CHECK_HUGE && talc_check_bits(seed + (uint64_t)count, 6) % 2 == 0 &&
        count > 0) {
        double *x = values->of[first];
        for (int64_t i = 0; i < list[first].count; i++)
            x[i] = fabs(x[i]) > 1 ? 1 : x[i];
        talc_check_put_zeros(x, list[first].count, talc_check_bits(seed, 7));
        values->of[second][talc_check_bits(seed, 8) % (uint64_t)count] = 0x1p30;
    }
    const check_tiny tiny = kind == TALC_CHECK_TINY
                                ? talc_check_draw_tiny(p->dtype, seed + (uint64_t)count)
                                : CHECK_TINY_FILLED;
    if (tiny == CHECK_TINY_APART)
        set_apart(p, talc_check_bits(seed + (uint64_t)count, 10), values->of, list);
    if (tiny == CHECK_TINY_SMALL)
        for (int order = 0; order < 4; order++) {
            const int i = talc_check_conv2d_read(p->direction, order);
            if (list[i].role == CHECK_READ)
                talc_check_make_small(values->of[i], list[i].count, p->dtype, order < 2 ? 1 : 2);
        }
    if (p->direction != TALC_FORWARD)
        return;
    if (p->activation == TALC_ACTIVATION_RELU ||
        (p->H == 1 && p->W == 1 && p->padding_mode != TALC_PADDING_ZEROS))
        keep_from_zero(p, values->of);
}

/* A place in planes of height times width, by `bits` mostly moved to an end of either axis, where
 * weights lie over padding, and cotangents. */
static int64_t towards_an_end(int64_t at, int64_t height, int64_t width, uint64_t bits)
{
    const int64_t plane = at / height / width, h = at / width % height, w = at % width;
    const int64_t h_to = bits & 3 ? (bits & 1 ? 0 : height - 1) : h,
                  w_to = bits & 12 ? (bits & 4 ? 0 : width - 1) : w;
    return (plane * height + h_to) * width + w_to;
}

bool talc_check_conv2d_inject(const check_problem *problem, talc_check_kind kind, int round,
                              uint64_t seed, const check_values *values)
{
    check_operand list[CHECK_OPERANDS];
    talc_check_operands(&talc_check_conv2d, problem, list);
    const talc_conv2d_problem *p = read_only(problem);
    const talc_direction direction = p->direction;
    const bool is_nan = kind == TALC_CHECK_NAN;
    const int number = is_nan ? round + 1 : round; /* x has had its NaN, but no negative infinity */
    const int first = talc_check_conv2d_read(direction, 0);
    int which = first;
    for (int order = 0, left = number; order < 4; order++) {
        which = talc_check_conv2d_read(direction, order);
        if (list[which].role == CHECK_READ && left-- == 0)
            break;
        which = CHECK_Y;
    }
    if ((!is_nan && kind != TALC_CHECK_INFINITY) || which == CHECK_Y || list[which].count == 0)
        return false;
    double *injected = values->of[which], *x = values->of[first];
    int64_t at = (int64_t)(talc_check_bits(seed, 6) % (uint64_t)list[which].count);
    if (which == CHECK_W || which == CHECK_DY)
        at = towards_an_end(at, which == CHECK_W ? p->KH : p->OH, which == CHECK_W ? p->KW : p->OW,
                            talc_check_bits(seed, 8));
    for (int64_t i = 0; which == first && i < list[first].count; i++)
        if (isinf(x[i]))
            at = i; /* where a window reads it */
    /* The others are those of data without anything odd: with one at a time it shows how far it
     * reaches. */
    for (int64_t i = 0; i < list[first].count; i++)
        if (!isfinite(x[i]))
            x[i] = 1;
    if (which == talc_check_conv2d_read(direction, 1))
        talc_check_put_zeros(x, list[first].count, talc_check_bits(seed, 7));
    injected[at] = is_nan ? (double)NAN : number % 2 == 0 ? -(double)INFINITY : (double)INFINITY;
    return true;
}
