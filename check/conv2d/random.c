/// Random convolutions: every extent takes the values at which kernels go wrong far more often than
/// chance would.
#include "check/conv2d/conv2d.h"

#include "check/engine/data.h"
#include "ops/conv2d_gradient.h"

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Mostly below 10; else around the widths of registers and tiles. */
static int64_t draw_channels(uint64_t *s)
{
    return talc_check_draw(s, 0, 2) != 0 ? talc_check_draw(s, 1, 9)
                                         : CHECK_PICK(s, 7, 8, 15, 16, 17, 31, 32, 33, 64, 127);
}

static int64_t draw_extent(uint64_t *s)
{
    return talc_check_draw(s, 0, 2) != 0
               ? talc_check_draw(s, 1, 19)
               : CHECK_PICK(s, 1, 2, 3, 7, 8, 13, 15, 16, 17, 28, 31, 33, 65);
}

/* One axis of a problem. */
typedef struct axis {
    int64_t size, kernel, stride, dilation, begin, end;
} axis;

static int64_t span(const axis *a)
{
    return a->dilation * (a->kernel - 1) + 1;
}

static void draw_kernel(uint64_t *s, axis *a)
{
    a->kernel = talc_check_draw(s, 0, 7) == 0 ? smaller(a->size, 13) /* the whole image */
                                              : CHECK_PICK(s, 1, 1, 2, 3, 3, 3, 4, 5, 7, 11);
    a->dilation = talc_check_draw(s, 0, 2) != 0 ? 1 : CHECK_PICK(s, 1, 2, 2, 3, 5);
}

static void draw_padding(uint64_t *s, axis *a)
{
    switch (talc_check_draw(s, 0, 7)) {
    case 0: /* the padded image just holds the kernel */
        a->begin = larger(0, span(a) - a->size) / 2;
        a->end = larger(0, span(a) - a->size) - a->begin;
        return;
    case 1: /* whole windows within the padding */
        a->begin = smaller(span(a), 12) + talc_check_draw(s, 0, 2);
        a->end = talc_check_draw(s, 0, 1) == 0 ? a->begin : 0;
        break;
    case 2:
        a->begin = talc_check_draw(s, 0, 4);
        a->end = talc_check_draw(s, 0, 4);
        break;
    case 3:
        a->begin = a->end = a->kernel - 1;
        break;
    case 4:
    case 5: /* same */
        a->begin = (span(a) - 1) / 2;
        a->end = span(a) - 1 - a->begin;
        break;
    default:
        a->begin = a->end = talc_check_draw(s, 0, 1);
    }
    if (a->begin + a->end + a->size < span(a))
        a->end = span(a) - a->size - a->begin;
}

static int64_t draw_stride(uint64_t *s, const axis *a)
{
    switch (talc_check_draw(s, 0, 11)) {
    case 0:
        return a->kernel + talc_check_draw(s, 1, 2); /* columns that no window reads */
    case 1:
        return a->size;
    case 2:
    case 3:
    case 4:
        return talc_check_draw(s, 2, 4);
    default:
        return 1;
    }
}

static axis draw_axis(uint64_t *s)
{
    axis a = { .size = draw_extent(s) };
    draw_kernel(s, &a);
    draw_padding(s, &a);
    a.stride = draw_stride(s, &a);
    return a;
}

static void use_axes(talc_conv2d_problem *p, const axis *down, const axis *across)
{
    p->H = down->size;
    p->KH = down->kernel;
    p->stride_h = down->stride;
    p->dilation_h = down->dilation;
    p->pad_top = down->begin;
    p->pad_bottom = down->end;
    p->W = across->size;
    p->KW = across->kernel;
    p->stride_w = across->stride;
    p->dilation_w = across->dilation;
    p->pad_left = across->begin;
    p->pad_right = across->end;
}

/* Reflection and repetition reach only so far; zeros and the edge reach everywhere. */
static talc_padding_mode draw_mode(uint64_t *s, const axis *down, const axis *across)
{
    const talc_padding_mode mode =
        talc_check_draw(s, 0, 1) == 0
            ? TALC_PADDING_ZEROS
            : (talc_padding_mode)talc_check_draw(s, 1, TALC_PADDING_MODE_COUNT - 1);
    const int64_t inner_h = down->size - larger(down->begin, down->end);
    const int64_t inner_w = across->size - larger(across->begin, across->end);
    const int64_t needed = mode == TALC_PADDING_REFLECT ? 1 : 0;
    if ((mode == TALC_PADDING_REFLECT || mode == TALC_PADDING_CIRCULAR) &&
        (inner_h < needed || inner_w < needed))
        return TALC_PADDING_REPLICATE;
    return mode;
}

static talc_activation draw_activation(uint64_t *s)
{
    switch (talc_check_draw(s, 0, 31)) {
    case 0:
        return TALC_ACTIVATION_SIGMOID;
    case 1:
        return TALC_ACTIVATION_TANH;
    default:
        return talc_check_draw(s, 0, 3) == 0 ? TALC_ACTIVATION_RELU : TALC_ACTIVATION_NONE;
    }
}

static void draw_any(uint64_t *s, talc_conv2d_problem *p)
{
    const axis down = draw_axis(s), across = draw_axis(s);
    use_axes(p, &down, &across);
    p->padding_mode = draw_mode(s, &down, &across);
    p->groups = talc_check_draw(s, 0, 2) != 0 ? 1 : talc_check_draw(s, 2, 5);
    p->C = p->groups * (talc_check_draw(s, 0, 2) == 0 ? 1 : draw_channels(s));
    p->OC = p->groups * (talc_check_draw(s, 0, 2) == 0 ? 1 : draw_channels(s));
}

static void draw_depthwise(uint64_t *s, talc_conv2d_problem *p)
{
    const axis down = draw_axis(s), across = draw_axis(s);
    use_axes(p, &down, &across);
    if (talc_check_draw(s, 0, 2) == 0) { /* the kernel that most networks use */
        p->KH = p->KW = 3;
        if (talc_check_draw(s, 0, 1) == 0) { /* as they use it, which some kernels take alone */
            p->W = talc_check_draw(s, 16, 80);
            p->stride_h = p->stride_w = talc_check_draw(s, 1, 2);
            p->dilation_h = p->dilation_w = 1;
            p->pad_left = talc_check_draw(s, 0, 1);
            p->pad_right = talc_check_draw(s, 0, 1);
        }
    }
    if (p->pad_top + p->H + p->pad_bottom < p->dilation_h * (p->KH - 1) + 1)
        p->pad_bottom = p->dilation_h * (p->KH - 1) + 1 - p->pad_top - p->H;
    if (p->pad_left + p->W + p->pad_right < p->dilation_w * (p->KW - 1) + 1)
        p->pad_right = p->dilation_w * (p->KW - 1) + 1 - p->pad_left - p->W;
    p->C = p->groups = draw_channels(s);
    p->OC = p->C * (talc_check_draw(s, 0, 2) != 0 ? 1 : talc_check_draw(s, 2, 3));
}

/* 1x1, dense: a matrix product. */
static void draw_pointwise(uint64_t *s, talc_conv2d_problem *p)
{
    const axis down = { draw_extent(s), 1, 1, 1 + talc_check_draw(s, 0, 1), 0, 0 };
    const axis across = { draw_extent(s), 1, 1, 1, 0, 0 };
    use_axes(p, &down, &across);
    p->groups = talc_check_draw(s, 0, 3) != 0 ? 1 : talc_check_draw(s, 2, 5);
    p->C = p->groups * draw_channels(s);
    p->OC = p->groups * draw_channels(s);
}

bool talc_check_conv2d_random(uint64_t *s, talc_direction direction, check_problem *problem)
{
    (void)direction;
    talc_conv2d_problem *p = writable(problem);
    *p = (talc_conv2d_problem){ .dtype = talc_check_draw_float(s) };
    const int64_t shape = talc_check_draw(s, 0, 2);
    if (shape == 0)
        draw_any(s, p);
    else if (shape == 1)
        draw_depthwise(s, p);
    else
        draw_pointwise(s, p);
    p->N = talc_check_draw(s, 1, 3);
    p->bias = talc_check_draw(s, 0, 1) == 0;
    p->residual = talc_check_draw(s, 0, 3) == 0;
    p->activation = draw_activation(s);
    talc_conv2d_problem_check(p);
    if (talc_check_draw(s, 0, 1) == 0) {
        *p = talc_conv2d_gradient_problem(p, talc_check_draw(s, 0, 1) == 0 ? TALC_GRAD_INPUT
                                                                           : TALC_GRAD_WEIGHT);
        talc_conv2d_problem_check(p);
    }
    /* What is left of an expensive problem has the same edges. */
    while (talc_conv2d_flops(p) > 2e6 && (p->N > 1 || p->OC > p->groups || p->C > p->groups)) {
        if (p->N > 1)
            p->N = 1;
        else if (p->OC >= p->C)
            p->OC = larger(1, p->OC / p->groups / 2) * p->groups;
        else
            p->C = larger(1, p->C / p->groups / 2) * p->groups;
    }
    return true;
}
