/// The problem of a convolution: how it follows from operands and options, its checks, and what it
/// costs.
#include "ops/conv2d.h"

#include "ops/operand.h"
#include "ops/padding.h"
#include "tensor/memory.h"

#include <inttypes.h>

// ---- Checks -------------------------------------------------------------------------------------

static bool at_least(int64_t low, const char *what, int64_t h, int64_t w)
{
    return talc_pair_at_least("conv2d", low, what, h, w);
}

static bool positive(const char *what, int64_t value)
{
    if (value < 1)
        talc_fail(TALC_BAD_ARGUMENT, "conv2d: %s %" PRId64 " must be at least 1", what, value);
    return !talc_failed();
}

/* One axis: the output extent of `size` under padding, dilation and stride. `axis` is "height" or
 * "width". */
static bool axis_extent(const talc_conv2d_problem *p, const char *axis, int64_t size, int64_t begin,
                        int64_t end, int64_t kernel, int64_t dilation, int64_t stride,
                        int64_t *extent)
{
    int64_t padded, window;
    if (!talc_add_checked(size, begin, &padded) || !talc_add_checked(padded, end, &padded) ||
        !talc_multiply(dilation, kernel - 1, &window) || !talc_add_checked(window, 1, &window)) {
        talc_fail(TALC_TOO_LARGE,
                  "conv2d: %s %" PRId64 " with padding %" PRId64 "+%" PRId64 ", kernel %" PRId64
                  " and dilation %" PRId64 " exceeds 2^63 - 1",
                  axis, size, begin, end, kernel, dilation);
        return false;
    }
    if (window > padded) {
        talc_fail(TALC_BAD_SHAPE,
                  "conv2d: the padded input has %s %" PRId64 ", the kernel needs %" PRId64
                  " (extent %" PRId64 ", dilation %" PRId64 ")",
                  axis, padded, window, kernel, dilation);
        return false;
    }
    /* Mirrored and wrapped pixels have to exist. */
    int64_t max = p->padding_mode == TALC_PADDING_REFLECT    ? size - 1
                  : p->padding_mode == TALC_PADDING_CIRCULAR ? size
                                                             : INT64_MAX;
    int64_t largest = begin > end ? begin : end;
    if (largest > max) {
        talc_fail(TALC_BAD_SHAPE,
                  "conv2d: %s padding %" PRId64 " of %s %" PRId64 " is more than %" PRId64,
                  talc_padding_mode_name(p->padding_mode), largest, axis, size, max);
        return false;
    }
    *extent = (padded - window) / stride + 1;
    return true;
}

/* Every product of extents that an algorithm forms fits int64, in bytes: operands, and an image's
 * im2col matrix. */
static bool sizes_fit(const talc_conv2d_problem *p)
{
    int64_t unused, K, matrix;
    if (talc_shape_check("conv2d", p->dtype, TALC_DIMS(p->N, p->C, p->H, p->W), &unused) !=
            TALC_OK ||
        talc_shape_check("conv2d", p->dtype, TALC_DIMS(p->OC, p->C / p->groups, p->KH, p->KW),
                         &unused) != TALC_OK ||
        talc_shape_check("conv2d", p->dtype, TALC_DIMS(p->N, p->OC, p->OH, p->OW), &unused) !=
            TALC_OK)
        return false;
    if (!talc_multiply(p->C, p->KH, &K) || !talc_multiply(K, p->KW, &K) ||
        !talc_multiply(K, p->OH, &matrix) || !talc_multiply(matrix, p->OW, &matrix) ||
        !talc_multiply(matrix, (int64_t)talc_dtype_size(p->dtype), &matrix)) {
        talc_fail(TALC_TOO_LARGE,
                  "conv2d: %" PRId64 " channels, kernel %" PRId64 "x%" PRId64 " and output %" PRId64
                  "x%" PRId64 " make an im2col matrix of more than 2^63 bytes",
                  p->C, p->KH, p->KW, p->OH, p->OW);
        return false;
    }
    return true;
}

bool talc_conv2d_problem_check(talc_conv2d_problem *p)
{
    if (talc_operand_missing("conv2d", "problem", p))
        return false;
    if (!talc_dtype_is_float(p->dtype)) {
        talc_fail(TALC_BAD_DTYPE, "conv2d: the problem is %s, it must be f32 or f64",
                  talc_dtype_name(p->dtype));
        return false;
    }
    if (!talc_operand_activation("conv2d", p->activation))
        return false;
    if ((unsigned)p->padding_mode >= TALC_PADDING_MODE_COUNT) {
        talc_fail(TALC_BAD_ARGUMENT, "conv2d: padding mode %d is outside 0..%d",
                  (int)p->padding_mode, TALC_PADDING_MODE_COUNT - 1);
        return false;
    }
    if (p->N < 0) {
        talc_fail(TALC_BAD_ARGUMENT, "conv2d: batch %" PRId64 " must not be negative", p->N);
        return false;
    }
    if (!positive("channels", p->C) || !positive("output channels", p->OC) ||
        !positive("groups", p->groups) || !at_least(1, "image", p->H, p->W) ||
        !at_least(1, "kernel", p->KH, p->KW) || !at_least(1, "stride", p->stride_h, p->stride_w) ||
        !at_least(1, "dilation", p->dilation_h, p->dilation_w) ||
        !at_least(0, "padding", p->pad_top, p->pad_left) ||
        !at_least(0, "padding_end", p->pad_bottom, p->pad_right))
        return false;
    if (p->C % p->groups != 0 || p->OC % p->groups != 0) {
        talc_fail(TALC_BAD_SHAPE,
                  "conv2d: groups=%" PRId64 " does not divide %" PRId64 " channel%s and %" PRId64
                  " output channel%s",
                  p->groups, p->C, TALC_PLURAL(p->C), p->OC, TALC_PLURAL(p->OC));
        return false;
    }
    return axis_extent(p, "height", p->H, p->pad_top, p->pad_bottom, p->KH, p->dilation_h,
                       p->stride_h, &p->OH) &&
           axis_extent(p, "width", p->W, p->pad_left, p->pad_right, p->KW, p->dilation_w,
                       p->stride_w, &p->OW) &&
           sizes_fit(p);
}

// ---- From operands ------------------------------------------------------------------------------

static bool set_padding(const talc_conv2d_options *o, talc_conv2d_problem *p)
{
    talc_padding sides;
    if (!talc_padding_of("conv2d", o->padding, o->padding_end, o->padding_same,
                         (const int64_t[]){ p->KH, p->KW },
                         (const int64_t[]){ p->stride_h, p->stride_w },
                         (const int64_t[]){ p->dilation_h, p->dilation_w }, &sides))
        return false;
    p->pad_top = sides.top;
    p->pad_left = sides.left;
    p->pad_bottom = sides.bottom;
    p->pad_right = sides.right;
    return true;
}

/* The channels that x brings are those that w and groups need. */
static bool channels_fit(const talc_tensor *x, const talc_tensor *w, int64_t groups)
{
    char x_text[TALC_DIMS_TEXT], w_text[TALC_DIMS_TEXT];
    const talc_dims x_dims = talc_dims_of(x), w_dims = talc_dims_of(w);
    int64_t needed;
    if (!positive("groups", groups))
        return false;
    if (!talc_multiply(w->dims[1], groups, &needed))
        talc_fail(TALC_TOO_LARGE,
                  "conv2d: w %s with groups=%" PRId64 " needs more than 2^63 channels",
                  talc_dims_text(w_dims, w_text), groups);
    else if (needed != x->dims[1])
        talc_fail(TALC_BAD_SHAPE,
                  "conv2d: x %s has %" PRId64 " channel%s, w %s with groups=%" PRId64
                  " needs %" PRId64,
                  talc_dims_text(x_dims, x_text), x->dims[1], TALC_PLURAL(x->dims[1]),
                  talc_dims_text(w_dims, w_text), groups, needed);
    else if (w->dims[0] % groups != 0)
        talc_fail(TALC_BAD_SHAPE,
                  "conv2d: w %s has %" PRId64 " output channel%s, which groups=%" PRId64
                  " does not divide",
                  talc_dims_text(w_dims, w_text), w->dims[0], TALC_PLURAL(w->dims[0]), groups);
    return !talc_failed();
}

bool talc_conv2d_problem_of(const talc_tensor *x, const talc_tensor *w, const talc_tensor *bias,
                            const talc_conv2d_options *options, talc_conv2d_problem *problem)
{
    static const talc_conv2d_options defaults = { .groups = 0 };
    const talc_conv2d_options *o = options != NULL ? options : &defaults;
    if (!talc_operand_float("conv2d", "x", x) || !talc_operand_like("conv2d", "x", x, "w", w) ||
        (bias != NULL && !talc_operand_like("conv2d", "x", x, "bias", bias)) ||
        (o->residual != NULL && !talc_operand_like("conv2d", "x", x, "residual", o->residual)) ||
        talc_operand_missing("conv2d", "problem", problem) ||
        !talc_operand_rank("conv2d", "x", x, 4, "[N,C,H,W]") ||
        !talc_operand_rank("conv2d", "w", w, 4, "[OC,C/groups,KH,KW]"))
        return false;

    talc_conv2d_problem p;
    memset(&p, 0, sizeof p); /* between its members too: decisions compare bytes */
    p.direction = TALC_FORWARD;
    p.dtype = x->dtype;
    p.N = x->dims[0];
    p.C = x->dims[1];
    p.H = x->dims[2];
    p.W = x->dims[3];
    p.OC = w->dims[0];
    p.KH = w->dims[2];
    p.KW = w->dims[3];
    p.stride_h = talc_first_of(o->stride, 1);
    p.stride_w = talc_second_of(o->stride, 1);
    p.dilation_h = talc_first_of(o->dilation, 1);
    p.dilation_w = talc_second_of(o->dilation, 1);
    p.groups = talc_or_default(o->groups, 1);
    p.padding_mode = o->padding_mode;
    p.bias = bias != NULL;
    p.residual = o->residual != NULL;
    p.activation = o->activation;
    if (!channels_fit(x, w, p.groups) || !set_padding(o, &p) || !talc_conv2d_problem_check(&p))
        return false;
    if ((bias != NULL && !talc_operand_shape("conv2d", "bias", bias, TALC_DIMS(p.OC))) ||
        (o->residual != NULL &&
         !talc_operand_shape("conv2d", "residual", o->residual, TALC_DIMS(p.N, p.OC, p.OH, p.OW))))
        return false;
    *problem = p;
    return true;
}

// ---- Cost ---------------------------------------------------------------------------------------

/* Any problem may come here, checked or not, so groups may be 0. */
static double channels_per_group(const talc_conv2d_problem *p)
{
    const int64_t IC = p->groups < 1 ? 0 : p->C / p->groups;
    return (double)IC;
}

double talc_conv2d_flops(const talc_conv2d_problem *p)
{
    return p == NULL ? 0
                     : 2.0 * (double)p->N * (double)p->OC * (double)p->OH * (double)p->OW *
                           channels_per_group(p) * (double)p->KH * (double)p->KW;
}

double talc_conv2d_bytes(const talc_conv2d_problem *p)
{
    if (p == NULL)
        return 0;
    double x = (double)p->N * (double)p->C * (double)p->H * (double)p->W;
    double w = (double)p->OC * channels_per_group(p) * (double)p->KH * (double)p->KW;
    double y = (double)p->N * (double)p->OC * (double)p->OH * (double)p->OW;
    double elements = x + w + y * (p->residual ? 2 : 1) + (p->bias ? (double)p->OC : 0);
    return elements * (double)talc_dtype_size(p->dtype);
}
