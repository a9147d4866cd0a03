/// The oracle of conv2d's gradients: the sums of backpropagation, one element at a time, with g =
/// oc / (OC / groups),
///
///     dx[n, g*C/groups + ic, ih, iw] = sum over oc of group g, kh, kw of
///                                      w[oc, ic, kh, kw] * dy[n, oc, oh, ow]
///     dw[oc, ic, kh, kw] = sum over n, oh, ow of x[n, g*C/groups + ic, ih, iw] * dy[n, oc, oh, ow]
///
/// of all that meet: oh*stride_h + kh*dilation_h = ih + top, and across likewise. Padding is zeros:
/// dw multiplies them with dy, as the forward pass does with w, and dx is a sum over the outputs
/// that there are. Each axis is walked from end to end in search of what meets.
#include "check/conv2d/conv2d.h"

// ---- The input's gradient -----------------------------------------------------------------------

/* How a tap of the kernel meets a pixel: in an output, in an output that there would be if the
 * image were larger, or in none, as strides step over it. */
typedef enum meeting { MEETS_OUTPUT, MEETS_PADDING, MEETS_NOTHING } meeting;

/* `start` is where a window would begin for its tap to be on the pixel, counted from the first
 * window's beginning. */
static meeting meets(int64_t start, int64_t stride, int64_t outputs)
{
    if (start % stride != 0)
        return MEETS_NOTHING;
    return start >= 0 && start / stride < outputs ? MEETS_OUTPUT : MEETS_PADDING;
}

/* Output channels of a group at one tap: `w` and `dy` are the first one's, `w_step` and `dy_step`
 * lead to the next. */
typedef struct tap {
    const double *w, *dy;
    int64_t w_step, dy_step, channels;
} tap;

static void add_tap(check_sum *s, const tap *t)
{
    for (int64_t oc = 0; oc < t->channels; oc++)
        talc_check_sum_add(s, t->w[oc * t->w_step], t->dy[oc * t->dy_step]);
}

static check_expected input_expected(const talc_conv2d_problem *p, const check_values *values,
                                     int64_t index)
{
    const int64_t iw = index % p->W, ih = index / p->W % p->H;
    const int64_t c = index / p->W / p->H % p->C, n = index / p->W / p->H / p->C;
    const int64_t IC = p->C / p->groups, OC = p->OC / p->groups, first = c / IC * OC;
    check_sum s = { .narrow = talc_check_is_narrow(p->dtype) };
    check_expected expected = { .K = 0 };
    for (int64_t kh = 0; kh < p->KH; kh++) {
        const int64_t down = ih + p->pad_top - kh * p->dilation_h;
        const meeting h = meets(down, p->stride_h, p->OH);
        for (int64_t kw = 0; kw < p->KW && h != MEETS_NOTHING; kw++) {
            const int64_t across = iw + p->pad_left - kw * p->dilation_w;
            const meeting w = meets(across, p->stride_w, p->OW);
            tap t = { .w = values->of[CHECK_W] + ((first * IC + c % IC) * p->KH + kh) * p->KW + kw,
                      .w_step = IC * p->KH * p->KW,
                      .dy_step = p->OH * p->OW,
                      .channels = OC };
            if (h == MEETS_OUTPUT && w == MEETS_OUTPUT) {
                const int64_t oh = down / p->stride_h, ow = across / p->stride_w;
                t.dy = values->of[CHECK_DY] + ((n * p->OC + first) * p->OH + oh) * p->OW + ow;
                add_tap(&s, &t);
                expected.K += (double)OC;
            } else if (w != MEETS_NOTHING) {
                expected.border = true;
            }
        }
    }
    expected.value = talc_check_sum_value(&s);
    expected.S = s.size;
    return expected;
}

// ---- The weights' gradient ----------------------------------------------------------------------

/* One tap over one image and channel: `x` and `dy` are their planes. Returns whether there is
 * padding under it. */
static bool add_plane(check_sum *s, const talc_conv2d_problem *p, const double *x, const double *dy,
                      int64_t kh, int64_t kw)
{
    bool padded = false;
    for (int64_t oh = 0; oh < p->OH; oh++) {
        const int64_t ih = oh * p->stride_h - p->pad_top + kh * p->dilation_h;
        for (int64_t ow = 0; ow < p->OW; ow++) {
            const int64_t iw = ow * p->stride_w - p->pad_left + kw * p->dilation_w;
            const double cotangent = dy[oh * p->OW + ow];
            const bool inside = ih >= 0 && ih < p->H && iw >= 0 && iw < p->W;
            talc_check_sum_add(s, inside ? x[ih * p->W + iw] : 0, cotangent);
            padded = padded || !inside;
        }
    }
    return padded;
}

static check_expected weight_expected(const talc_conv2d_problem *p, const check_values *values,
                                      int64_t index)
{
    const int64_t kw = index % p->KW, kh = index / p->KW % p->KH, IC = p->C / p->groups;
    const int64_t ic = index / p->KW / p->KH % IC, oc = index / p->KW / p->KH / IC;
    const int64_t c = oc / (p->OC / p->groups) * IC + ic;
    check_sum s = { .narrow = talc_check_is_narrow(p->dtype) };
    check_expected expected = { .K = talc_check_terms(p) };
    for (int64_t n = 0; n < p->N; n++)
        if (add_plane(&s, p, values->of[CHECK_X] + (n * p->C + c) * p->H * p->W,
                      values->of[CHECK_DY] + (n * p->OC + oc) * p->OH * p->OW, kh, kw))
            expected.border = true;
    expected.value = talc_check_sum_value(&s);
    expected.S = s.size;
    return expected;
}

check_expected talc_check_conv2d_gradient_expected(const talc_conv2d_problem *problem,
                                                   const check_values *values, int64_t index)
{
    return problem->direction == TALC_GRAD_INPUT ? input_expected(problem, values, index)
                                                 : weight_expected(problem, values, index);
}
