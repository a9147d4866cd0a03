#include "ops/conv2d_gradient.h"

#include "ops/elementwise.h"
#include "ops/gradient.h"
#include "ops/op.h"
#include "ops/operand.h"
#include "ops/reduce.h"
#include "ops/resample.h"
#include "tensor/autograd.h"
#include "tensor/precision.h"

const char *talc_conv2d_name(talc_direction direction)
{
    return direction == TALC_GRAD_INPUT    ? "conv2d.grad_input"
           : direction == TALC_GRAD_WEIGHT ? "conv2d.grad_weight"
                                           : "conv2d";
}

// ---- Padding other than zeros -------------------------------------------------------------------
//
// The image with its padding around it is an image without padding, and its gradient goes to the
// image as talc_pad's does.

static bool is_padded(const talc_conv2d_problem *p)
{
    return p->padding_mode != TALC_PADDING_ZEROS &&
           p->pad_top + p->pad_bottom + p->pad_left + p->pad_right > 0;
}

talc_conv2d_problem talc_conv2d_gradient_problem(const talc_conv2d_problem *forward,
                                                 talc_direction direction)
{
    talc_conv2d_problem p = *forward;
    p.direction = direction;
    p.bias = p.residual = false;
    p.activation = TALC_ACTIVATION_NONE;
    if (is_padded(forward)) {
        p.H += p.pad_top + p.pad_bottom;
        p.W += p.pad_left + p.pad_right;
        p.pad_top = p.pad_bottom = p.pad_left = p.pad_right = 0;
    }
    p.padding_mode = TALC_PADDING_ZEROS;
    return p;
}

static talc_resample_axis axis_of(talc_padding_mode mode, int64_t begin, int64_t in, int64_t end)
{
    return (talc_resample_axis){ .mode = mode, .in = in, .out = begin + in + end, .begin = begin };
}

static const talc_tensor *pad(const talc_conv2d_problem *p, const talc_tensor *x)
{
    const talc_pad_options sides = {
        .padding = { p->pad_left, p->pad_right, p->pad_top, p->pad_bottom },
        .mode = p->padding_mode,
    };
    return is_padded(p) ? talc_pad(x, &sides) : x;
}

static talc_tensor *unpad(const talc_conv2d_problem *p, talc_tensor *padded)
{
    if (padded == NULL || !is_padded(p))
        return padded;
    const talc_resample_problem sides = {
        .dtype = p->dtype,
        .rank = 3,
        .axes = { axis_of(p->padding_mode, 0, p->N * p->C, 0),
                  axis_of(p->padding_mode, p->pad_top, p->H, p->pad_bottom),
                  axis_of(p->padding_mode, p->pad_left, p->W, p->pad_right) },
    };
    return talc_resample_grad_input(&sides, padded, TALC_DIMS(p->N, p->C, p->H, p->W));
}

// ---- The two gradients --------------------------------------------------------------------------

static void problem_text(const void *problem, char text[TALC_RUN_TEXT])
{
    talc_conv2d_problem_text(problem, text);
}

/* dx or dw, of two operands. NULL passes. */
static talc_tensor *run(const talc_conv2d_problem *p, talc_operand first, talc_operand second,
                        talc_operand result, const char *forced, unsigned precision)
{
    return talc_op_run(&(talc_call){ .op = TALC_OP_conv2d,
                                     .name = talc_conv2d_name(p->direction),
                                     .problem = p,
                                     .write = problem_text,
                                     .forced = forced,
                                     .precision = precision,
                                     .inputs = { first, second },
                                     .input_count = 2,
                                     .outputs = { result },
                                     .fills = p->N == 0 });
}

talc_tensor *talc_conv2d_grad_input(const talc_conv2d_problem *forward, const talc_tensor *dy,
                                    const talc_tensor *w, const char *forced, unsigned precision)
{
    const talc_conv2d_problem p = talc_conv2d_gradient_problem(forward, TALC_GRAD_INPUT);
    talc_tensor *dx = dy == NULL || w == NULL
                          ? NULL
                          : talc_tensor_new(talc_conv2d_name(p.direction), dy->device, dy->dtype,
                                            TALC_DIMS(p.N, p.C, p.H, p.W));
    return unpad(forward, run(&p, (talc_operand)TALC_OPERAND(conv2d, dy, dy),
                              (talc_operand)TALC_OPERAND(conv2d, w, w),
                              (talc_operand)TALC_OPERAND(conv2d, dx, dx), forced, precision));
}

talc_tensor *talc_conv2d_grad_weight(const talc_conv2d_problem *forward, const talc_tensor *x,
                                     const talc_tensor *dy, const char *forced, unsigned precision)
{
    const talc_conv2d_problem p = talc_conv2d_gradient_problem(forward, TALC_GRAD_WEIGHT);
    const talc_tensor *padded = x == NULL ? NULL : pad(forward, x);
    talc_tensor *dw = padded == NULL || dy == NULL
                          ? NULL
                          : talc_tensor_new(talc_conv2d_name(p.direction), dy->device, dy->dtype,
                                            TALC_DIMS(p.OC, p.C / p.groups, p.KH, p.KW));
    return run(&p, (talc_operand)TALC_OPERAND(conv2d, x, padded),
               (talc_operand)TALC_OPERAND(conv2d, dy, dy),
               (talc_operand)TALC_OPERAND(conv2d, dw, dw), forced, precision);
}

/* Whether the operands are those of the checked problem. */
static bool operands_fit(const talc_conv2d_problem *p, const talc_tensor *operand,
                         const talc_tensor *dy)
{
    const char *who = talc_conv2d_name(p->direction);
    const bool input = p->direction == TALC_GRAD_INPUT;
    const char *name = input ? "w" : "x";
    if (!talc_operand_float(who, name, operand) || !talc_operand_like(who, name, operand, "dy", dy))
        return false;
    if (operand->dtype != p->dtype) {
        talc_fail(TALC_BAD_DTYPE, "%s: %s is %s, the problem is %s", who, name,
                  talc_dtype_name(operand->dtype), talc_dtype_name(p->dtype));
        return false;
    }
    return talc_operand_shape(who, name, operand,
                              input ? TALC_DIMS(p->OC, p->C / p->groups, p->KH, p->KW)
                                    : TALC_DIMS(p->N, p->C, p->H, p->W)) &&
           talc_operand_shape(who, "dy", dy, TALC_DIMS(p->N, p->OC, p->OH, p->OW));
}

talc_tensor *talc_conv2d_gradient(const talc_conv2d_problem *problem, const talc_tensor *operand,
                                  const talc_tensor *dy, const talc_conv2d_options *options)
{
    if (talc_operand_missing("conv2d_gradient", "problem", problem))
        return NULL;
    talc_conv2d_problem p = *problem;
    if (!talc_conv2d_problem_check(&p) ||
        !talc_operand_precision("conv2d", options == NULL ? 0 : options->precision))
        return NULL;
    if (p.direction != TALC_GRAD_INPUT && p.direction != TALC_GRAD_WEIGHT) {
        talc_fail(TALC_BAD_ARGUMENT, "conv2d_gradient: the problem's direction %d is no gradient",
                  (int)p.direction);
        return NULL;
    }
    if (!operands_fit(&p, operand, dy))
        return NULL;
    const char *forced = options == NULL ? NULL : options->algorithm;
    const unsigned precision = options == NULL ? 0 : options->precision;
    talc_no_grad_enter();
    talc_tensor *result = p.direction == TALC_GRAD_INPUT
                              ? talc_conv2d_grad_input(&p, dy, operand, forced, precision)
                              : talc_conv2d_grad_weight(&p, operand, dy, forced, precision);
    talc_no_grad_leave();
    return result;
}

// ---- The rule -----------------------------------------------------------------------------------

typedef struct conv2d_record {
    talc_conv2d_problem problem;
    unsigned precision;
} conv2d_record;

/* x, w, bias, residual. */
static void conv2d_gradient(const talc_node *node, const talc_tensor *dy, talc_tensor *gradients[])
{
    const conv2d_record *record = talc_node_problem(node);
    const talc_conv2d_problem *p = &record->problem;
    const talc_tensor *x = talc_node_saved(node, 0), *w = talc_node_saved(node, 1);
    talc_tensor *g = talc_activation_gradient(p->activation, dy, talc_node_saved(node, 2));
    if (g == NULL)
        return;
    if (talc_node_wants(node, 0))
        gradients[0] = talc_conv2d_grad_input(p, g, w, NULL, record->precision);
    if (talc_node_wants(node, 1))
        gradients[1] = talc_conv2d_grad_weight(p, x, g, NULL, record->precision);
    if (talc_node_wants(node, 2))
        gradients[2] = talc_sum(g, TALC_DIMS(0, 2, 3), false);
    gradients[3] = g;
}

talc_tensor *talc_conv2d_record(const talc_conv2d_problem *problem, unsigned precision,
                                const talc_tensor *const operands[4], talc_tensor *y)
{
    if (y == NULL || !talc_tape_wants(operands, 4))
        return y;
    const conv2d_record record = { *problem,
                                   precision != 0 ? precision : talc_precision_admitted() };
    const talc_tensor *x = operands[0], *w = operands[1];
    const bool activates = problem->activation != TALC_ACTIVATION_NONE;
    return talc_tape_record(y,
                            &(talc_record){ .op = "conv2d",
                                            .rule = conv2d_gradient,
                                            .inputs = operands,
                                            .input_count = 4,
                                            .saved = { { "x", talc_tape_wants_one(w) ? x : NULL },
                                                       { "w", talc_tape_wants_one(x) ? w : NULL },
                                                       { "y", activates ? y : NULL } },
                                            .problem = &record,
                                            .problem_bytes = sizeof record });
}
