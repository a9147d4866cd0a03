/// What the operands of conv2d's family are filled with.
#include "check/conv2d.h"

#include "check/data.h"

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

/* A row that leaves out zeros of one operand must not leave out a NaN or an infinity of the other with them. */
static void put_zeros(double *values, int64_t count, uint64_t seed)
{
    for (int64_t i = 0; i < count; i++)
        if (talc_check_bits(seed, (uint64_t)i) % 4 == 0)
            values[i] = 0;
}

bool talc_check_conv2d_takes(const check_problem *problem, talc_check_kind kind)
{
    const talc_conv2d_problem *p = read_only(problem);
    const double room = talc_check_format(p->dtype).integers;
    return kind != TALC_CHECK_EXACT ||
           (!talc_check_conv2d_curved(p) && talc_check_terms(p) + 2 < room);
}

void talc_check_conv2d_fill(const check_problem *problem, talc_check_kind kind, uint64_t seed,
                            const check_values *values)
{
    const talc_conv2d_problem *p = read_only(problem);
    const double K = talc_check_terms(p);
    const bool curved = talc_check_conv2d_curved(p);
    /* A sum has a bias and a residual beside its products. */
    const double largest = talc_check_exact_largest(p->dtype, K + 2, curved ? 1 : 8);
    /* What is special about x must not be hidden by a special w. */
    const talc_check_kind other =
        kind == TALC_CHECK_EXACT || kind == TALC_CHECK_CONSTANT ? kind : TALC_CHECK_RANDOM;
    /* Outputs of size 1; constant ones do not cancel, and would saturate a sigmoid. */
    const double scale = kind != TALC_CHECK_CONSTANT ? 3 / sqrt(K) : curved ? 2.1 / K : 2.1;
    const double added = kind == TALC_CHECK_CONSTANT ? 0.3 : 1;
    check_operand list[CHECK_OPERANDS];
    talc_check_operands(&talc_check_conv2d, problem, list);
    fill_x(p, kind, largest, talc_check_bits(seed, 1), values->of[CHECK_X]);
    for (int i = CHECK_W; i <= CHECK_RESIDUAL; i++)
        if (list[i].role != CHECK_ABSENT)
            talc_check_fill(values->of[i], list[i].count, p->dtype, other, largest,
                            i == CHECK_W ? scale : added, talc_check_bits(seed, (uint64_t)i + 1));
    if (kind == TALC_CHECK_NAN || kind == TALC_CHECK_INFINITY)
        put_zeros(values->of[CHECK_W], list[CHECK_W].count, talc_check_bits(seed, 5));
    if (p->activation == TALC_ACTIVATION_RELU ||
        (p->H == 1 && p->W == 1 && p->padding_mode != TALC_PADDING_ZEROS))
        keep_from_zero(p, values->of);
}

bool talc_check_conv2d_spoil(const check_problem *problem, talc_check_kind kind, int round,
                             uint64_t seed, const check_values *values)
{
    check_operand list[CHECK_OPERANDS];
    talc_check_operands(&talc_check_conv2d, problem, list);
    const bool is_nan = kind == TALC_CHECK_NAN;
    const int number = is_nan ? round + 1 : round; /* x has had its NaN, but no negative infinity */
    int which = CHECK_X;
    for (int left = number; which < CHECK_Y; which++)
        if (list[which].role == CHECK_READ && left-- == 0)
            break;
    if ((!is_nan && kind != TALC_CHECK_INFINITY) || which == CHECK_Y || list[which].count == 0)
        return false;
    double *spoilt = values->of[which], *x = values->of[CHECK_X];
    int64_t at = (int64_t)(talc_check_bits(seed, 6) % (uint64_t)list[which].count);
    for (int64_t i = 0; which == CHECK_X && i < list[CHECK_X].count; i++)
        if (isinf(x[i]))
            at = i; /* where a window reads it */
    /* The others are those of data without anything odd: one place at a time tells what it spoils. */
    for (int64_t i = 0; i < list[CHECK_X].count; i++)
        if (!isfinite(x[i]))
            x[i] = 1;
    if (which == CHECK_W)
        put_zeros(x, list[CHECK_X].count, talc_check_bits(seed, 7));
    spoilt[at] = is_nan ? (double)NAN : number % 2 == 0 ? -(double)INFINITY : (double)INFINITY;
    return true;
}
