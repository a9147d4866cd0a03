#include "ops/conv_transpose2d.h"

#include "ops/conv2d_gradient.h"
#include "ops/elementwise.h"
#include "ops/operand.h"
#include "ops/padding.h"
#include "tensor/autograd.h"
#include "tensor/extent.h"
#include "tensor/memory.h"
#include "tensor/precision.h"
#include "tensor/tape.h"
#include "tensor/within.h"

#include <inttypes.h>

static const char OP[] = "conv_transpose2d";

typedef struct transpose_record {
    talc_conv2d_problem problem;
    int64_t more[2]; /* rows and columns of y that the problem does not have */
    bool nothing;    /* no window reaches y at all, and there is no problem */
    unsigned precision;
} transpose_record;

// ---- The convolution whose input gradient this is -----------------------------------------------

/* OH or OW; false with a failure where there is none. `axis` is "height" or "width". */
static bool axis_extent(const char *axis, int64_t size, int64_t padding, int64_t output_padding,
                        int64_t kernel, int64_t dilation, int64_t stride, int64_t *extent)
{
    int64_t steps, window, ends, total;
    if (!talc_multiply(size - 1, stride, &steps) || !talc_multiply(dilation, kernel - 1, &window) ||
        !talc_multiply(2, padding, &ends) || !talc_add_checked(steps, window, &total) ||
        !talc_add_checked(total, output_padding, &total) || !talc_add_checked(total, 1, &total)) {
        talc_fail(TALC_TOO_LARGE,
                  "%s: %s %" PRId64 " with stride %" PRId64 ", padding %" PRId64 ", kernel %" PRId64
                  ", dilation %" PRId64 " and output_padding %" PRId64 " passes 2^63",
                  OP, axis, size, stride, padding, kernel, dilation, output_padding);
        return false;
    }
    if (total <= ends) {
        talc_fail(TALC_BAD_SHAPE,
                  "%s: padding %" PRId64
                  " on both sides leaves nothing of the output's %s %" PRId64,
                  OP, padding, axis, total);
        return false;
    }
    *extent = total - ends;
    return true;
}

static bool output_padding_fits(const talc_conv2d_problem *p, const int64_t output_padding[2])
{
    const int64_t stride[] = { p->stride_h, p->stride_w },
                  dilation[] = { p->dilation_h, p->dilation_w };
    for (int i = 0; i < 2; i++)
        if (output_padding[i] >= stride[i] && output_padding[i] >= dilation[i]) {
            talc_fail(TALC_BAD_ARGUMENT,
                      "%s: output_padding [%" PRId64 ",%" PRId64
                      "] must be less than stride [%" PRId64 ",%" PRId64 "] or dilation [%" PRId64
                      ",%" PRId64 "]",
                      OP, output_padding[0], output_padding[1], stride[0], stride[1], dilation[0],
                      dilation[1]);
            return false;
        }
    return true;
}

/* What x brings is what w and groups need; the output's channels. */
static bool channels_fit(const talc_tensor *x, const talc_tensor *w, int64_t groups, int64_t *OC)
{
    char x_text[TALC_DIMS_TEXT], w_text[TALC_DIMS_TEXT];
    talc_dims_text(talc_dims_of(x), x_text);
    talc_dims_text(talc_dims_of(w), w_text);
    if (groups < 1)
        talc_fail(TALC_BAD_ARGUMENT, "%s: groups %" PRId64 " must be at least 1", OP, groups);
    else if (x->dims[1] != w->dims[0])
        talc_fail(TALC_BAD_SHAPE, "%s: x %s has %" PRId64 " channel%s, w %s needs %" PRId64, OP,
                  x_text, x->dims[1], TALC_PLURAL(x->dims[1]), w_text, w->dims[0]);
    else if (x->dims[1] < 1 || w->dims[1] < 1)
        talc_fail(TALC_BAD_SHAPE, "%s: x %s and w %s must have channels", OP, x_text, w_text);
    else if (x->dims[1] % groups != 0)
        talc_fail(TALC_BAD_SHAPE,
                  "%s: x %s has %" PRId64 " channel%s, which groups=%" PRId64 " does not divide",
                  OP, x_text, x->dims[1], TALC_PLURAL(x->dims[1]), groups);
    else if (!talc_multiply(w->dims[1], groups, OC))
        talc_fail(TALC_TOO_LARGE, "%s: w %s with groups=%" PRId64 " makes more than 2^63 channels",
                  OP, w_text, groups);
    return !talc_failed();
}

static bool operands_fit(const talc_tensor *x, const talc_tensor *w, const talc_tensor *bias)
{
    return talc_operand_float(OP, "x", x) && talc_operand_like(OP, "x", x, "w", w) &&
           (bias == NULL || talc_operand_like(OP, "x", x, "bias", bias)) &&
           talc_operand_rank(OP, "x", x, 4, "[N,C,H,W]") &&
           talc_operand_rank(OP, "w", w, 4, "[C,OC/groups,KH,KW]") &&
           talc_pair_at_least(OP, 1, "image", x->dims[2], x->dims[3]) &&
           talc_pair_at_least(OP, 1, "kernel", w->dims[2], w->dims[3]);
}

/* Where output_padding is a stride or more, y has room for windows of more than `size` elements of
 * x, which there are not. The lines that windows of x reach past the padding then belong to the
 * problem, with less padding behind them; those past these are `*more`. */
static void end_with(int64_t size, int64_t added, int64_t outputs, int64_t *extent,
                     int64_t *pad_end, int64_t *more)
{
    const int64_t reached = talc_smaller(added, *pad_end);
    if (outputs == size)
        return;
    *pad_end -= reached;
    *more = added - reached;
    *extent -= *more;
}

/* Its input is y, without the last `more` rows and columns, which no window reaches, and its output
 * x. */
static bool problem_of(const talc_tensor *x, const talc_tensor *w, const talc_tensor *bias,
                       const talc_conv_transpose2d_options *o, transpose_record *record)
{
    talc_conv2d_problem *p = &record->problem;
    const int64_t *added = o->output_padding;
    int64_t unused;
    memset(p, 0, sizeof *p); /* between its members too: decisions compare bytes */
    p->direction = TALC_FORWARD;
    p->dtype = x->dtype;
    p->N = x->dims[0];
    p->OC = x->dims[1];
    p->KH = w->dims[2];
    p->KW = w->dims[3];
    p->stride_h = talc_first_of(o->stride, 1);
    p->stride_w = talc_second_of(o->stride, 1);
    p->dilation_h = talc_first_of(o->dilation, 1);
    p->dilation_w = talc_second_of(o->dilation, 1);
    p->groups = talc_or_default(o->groups, 1);
    p->pad_top = talc_or_default(o->padding[0], 0);
    p->pad_left = talc_or_default(o->padding[1], 0);
    if (!channels_fit(x, w, p->groups, &p->C) ||
        !talc_pair_at_least(OP, 1, "stride", p->stride_h, p->stride_w) ||
        !talc_pair_at_least(OP, 1, "dilation", p->dilation_h, p->dilation_w) ||
        !talc_pair_at_least(OP, 0, "padding", p->pad_top, p->pad_left) ||
        !talc_pair_at_least(OP, 0, "output_padding", added[0], added[1]) ||
        !output_padding_fits(p, added) ||
        !axis_extent("height", x->dims[2], p->pad_top, added[0], p->KH, p->dilation_h, p->stride_h,
                     &p->H) ||
        !axis_extent("width", x->dims[3], p->pad_left, added[1], p->KW, p->dilation_w, p->stride_w,
                     &p->W) ||
        (bias != NULL && !talc_operand_shape(OP, "bias", bias, TALC_DIMS(p->C))) ||
        talc_shape_check(OP, p->dtype, TALC_DIMS(p->N, p->C, p->H, p->W), &unused) != TALC_OK)
        return false;
    p->pad_bottom = p->pad_top;
    p->pad_right = p->pad_left;
    if (!talc_conv2d_problem_check(p))
        return false;
    end_with(x->dims[2], added[0], p->OH, &p->H, &p->pad_bottom, &record->more[0]);
    end_with(x->dims[3], added[1], p->OW, &p->W, &p->pad_right, &record->more[1]);
    record->nothing = p->H < 1 || p->W < 1;
    return record->nothing || talc_conv2d_problem_check(p);
}

// ---- Running ------------------------------------------------------------------------------------

/* The part of y, or of dy, that windows reach. */
static talc_tensor *reached(const transpose_record *record, const talc_tensor *y)
{
    if (record->more[0] == 0 && record->more[1] == 0)
        return (talc_tensor *)y;
    const talc_tensor *rows = talc_slice(y, 2, 0, record->problem.H, 1);
    return rows == NULL ? NULL : talc_slice(rows, 3, 0, record->problem.W, 1);
}

/* All of y, where nothing else is written zeros. */
static talc_tensor *zeros(const transpose_record *record, const talc_tensor *x)
{
    const talc_conv2d_problem *p = &record->problem;
    return talc_zeros(x->device, p->dtype,
                      TALC_DIMS(p->N, p->C, p->H + record->more[0], p->W + record->more[1]));
}

/* The result before the bias. */
static talc_tensor *result(const transpose_record *record, const talc_tensor *x,
                           const talc_tensor *w, const char *algorithm)
{
    if (record->nothing)
        return zeros(record, x);
    talc_tensor *y = talc_conv2d_grad_input(&record->problem, x, w, algorithm, record->precision);
    if (y == NULL || (record->more[0] == 0 && record->more[1] == 0))
        return y;
    talc_tensor *whole = zeros(record, x), *part = whole == NULL ? NULL : reached(record, whole);
    return part != NULL && talc_copy(part, y) ? whole : NULL;
}

/* The same, in the scope around. */
static talc_tensor *run(const transpose_record *record, const talc_tensor *x, const talc_tensor *w,
                        const char *algorithm)
{
    talc_scope *scope = talc_scope_enter();
    talc_no_grad_enter();
    talc_tensor *y = scope == NULL ? NULL : result(record, x, w, algorithm);
    talc_no_grad_leave();
    talc_scope_return(scope, y);
    talc_scope_leave(scope);
    return y;
}

// ---- Gradient -----------------------------------------------------------------------------------

static talc_tensor *grad_x(const talc_node *node, const talc_tensor *dy)
{
    const transpose_record *record = talc_node_problem(node);
    const talc_conv2d_problem *p = &record->problem;
    const talc_conv2d_options options = {
        .stride = { p->stride_h, p->stride_w },
        .padding = { p->pad_top, p->pad_left },
        .padding_end = { p->pad_bottom == 0 ? TALC_ZERO : p->pad_bottom,
                         p->pad_right == 0 ? TALC_ZERO : p->pad_right },
        .dilation = { p->dilation_h, p->dilation_w },
        .groups = p->groups,
        .precision = record->precision,
    };
    if (record->nothing)
        return talc_zeros(dy->device, dy->dtype, talc_node_input_dims(node, 0));
    const talc_tensor *part = reached(record, dy);
    return part == NULL ? NULL : talc_conv2d(part, talc_node_saved(node, 1), NULL, &options);
}

/* x, w. */
static void transpose_gradient(const talc_node *node, const talc_tensor *dy,
                               talc_tensor *gradients[])
{
    const transpose_record *record = talc_node_problem(node);
    if (talc_node_wants(node, 0))
        gradients[0] = grad_x(node, dy);
    if (talc_failed() || !talc_node_wants(node, 1))
        return;
    if (record->nothing) {
        gradients[1] = talc_zeros(dy->device, dy->dtype, talc_node_input_dims(node, 1));
        return;
    }
    const talc_tensor *part = reached(record, dy);
    if (part != NULL)
        gradients[1] = talc_conv2d_grad_weight(&record->problem, part, talc_node_saved(node, 0),
                                               NULL, record->precision);
}

static talc_tensor *recorded(const transpose_record *record, const talc_tensor *x,
                             const talc_tensor *w, talc_tensor *y)
{
    const talc_tensor *const inputs[] = { x, w };
    if (y == NULL || !talc_tape_wants(inputs, 2))
        return y;
    return talc_tape_record(y,
                            &(talc_record){ .op = OP,
                                            .rule = transpose_gradient,
                                            .inputs = inputs,
                                            .input_count = 2,
                                            .saved = { { "x", talc_tape_wants_one(w) ? x : NULL },
                                                       { "w", talc_tape_wants_one(x) ? w : NULL } },
                                            .problem = record,
                                            .problem_bytes = sizeof *record });
}

// ---- The op -------------------------------------------------------------------------------------

/* The sum in place of y. */
static talc_tensor *plus_bias(talc_tensor *y, const talc_tensor *bias, int64_t channels)
{
    talc_scope *scope = talc_scope_enter();
    const talc_tensor *plane = talc_reshape(bias, TALC_DIMS(channels, 1, 1));
    talc_tensor *sum = plane == NULL ? NULL : talc_scope_return(scope, talc_add(y, plane));
    talc_scope_leave(scope);
    talc_release(y);
    return sum;
}

talc_tensor *talc_conv_transpose2d(const talc_tensor *x, const talc_tensor *w,
                                   const talc_tensor *bias,
                                   const talc_conv_transpose2d_options *options)
{
    static const talc_conv_transpose2d_options defaults = { .groups = 0 };
    const talc_conv_transpose2d_options *o = options != NULL ? options : &defaults;
    transpose_record record = { .precision = 0 };
    if (!operands_fit(x, w, bias) || !talc_operand_precision(OP, o->precision) ||
        !problem_of(x, w, bias, o, &record))
        return NULL;
    record.precision = o->precision != 0 ? o->precision : talc_precision_admitted();

    const char *around = talc_within(OP);
    talc_tensor *y = recorded(&record, x, w, run(&record, x, w, o->algorithm));
    if (y != NULL && bias != NULL)
        y = plus_bias(y, bias, record.problem.C);
    talc_within(around);
    return y;
}
