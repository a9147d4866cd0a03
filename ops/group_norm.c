#include "ops/group_norm.h"

#include "ops/backend.h"
#include "ops/choice.h"
#include "ops/gradient.h"
#include "ops/operand.h"
#include "ops/reduce.h"
#include "tensor/fenv.h"
#include "tensor/observe.h"

#include <inttypes.h>
#include <stdio.h>

static const char *const OP = "group_norm";

typedef struct operands {
    const talc_tensor *x, *weight, *bias;
} operands;

// ---- Checks -------------------------------------------------------------------------------------

/* Of the affine operands, which may be NULL. */
static bool check_affine(const char *op, const operands *o, talc_dims expected)
{
    const talc_tensor *const affine[] = { o->weight, o->bias };
    static const char *const names[] = { "weight", "bias" };
    for (int i = 0; i < 2; i++)
        if (affine[i] != NULL && (!talc_operand_like(op, "x", o->x, names[i], affine[i]) ||
                                  !talc_operand_shape(op, names[i], affine[i], expected)))
            return false;
    return true;
}

static bool read_options(const char *op, const talc_norm_options *options,
                         talc_group_norm_problem *p)
{
    TALC_DEFAULT_FENV;
    p->eps = options->eps == 0 ? 1e-5 : options->eps == (double)TALC_ZERO ? 0 : options->eps;
    p->activation = options->activation;
    if (!(p->eps >= 0))
        talc_fail(TALC_BAD_ARGUMENT, "%s: eps %g must be at least 0", op, p->eps);
    return !talc_failed() && talc_operand_activation(op, p->activation);
}

/* Of a product that belongs to a tensor with elements, else 0. */
static int64_t product(const talc_tensor *x, int begin, int end)
{
    int64_t count = talc_numel(x) != 0;
    for (int i = begin; i < end; i++)
        count *= talc_numel(x) == 0 ? 0 : x->dims[i];
    return count;
}

// ---- Gradient -----------------------------------------------------------------------------------

static void problem_text(const void *problem, char text[TALC_RUN_TEXT])
{
    const talc_group_norm_problem *p = problem;
    snprintf(text, TALC_RUN_TEXT, "n%" PRId64 "c%" PRId64 "l%" PRId64 "g%" PRId64, p->N, p->C,
             p->plane, p->groups);
}

/* x, weight, bias. The row gives all at once. */
static void group_norm_gradient(const talc_node *node, const talc_tensor *dy,
                                talc_tensor *gradients[])
{
    static const char *const op = "group_norm.grad_input";
    talc_group_norm_problem p = *(const talc_group_norm_problem *)talc_node_problem(node);
    const talc_tensor *mean = talc_node_saved(node, 2), *rstd = talc_node_saved(node, 3);
    const talc_tensor *g = talc_activation_gradient(p.activation, dy, talc_node_saved(node, 4));
    const talc_tensor *x = g == NULL ? NULL : talc_contiguous_for(op, talc_node_saved(node, 0));
    g = x == NULL ? NULL : talc_contiguous_for(op, g);
    const talc_tensor *weight = talc_node_saved(node, 1);
    weight = weight == NULL || g == NULL ? NULL : talc_contiguous_for(op, weight);
    p.direction = TALC_GRAD_INPUT;
    p.activation = TALC_ACTIVATION_NONE;
    talc_choice choice;
    if (talc_failed() ||
        !talc_choose(&choice, op, dy->device, dy->device->backend->group_norm, &p, NULL, 0))
        return;
    const bool affine = talc_node_wants(node, 1) || talc_node_wants(node, 2);
    const talc_dims channels = talc_node_input_dims(node, talc_node_wants(node, 1) ? 1 : 2);
    talc_tensor *dx = talc_tensor_new(op, x->device, p.dtype, talc_dims_of(x));
    talc_tensor *dweight = affine ? talc_tensor_new(op, x->device, p.dtype, channels) : NULL;
    talc_tensor *dbias = affine ? talc_tensor_new(op, x->device, p.dtype, channels) : NULL;
    if (talc_failed())
        return;
    talc_group_norm_arguments arguments = { .x = x->data,
                                            .weight = talc_operand_data(weight),
                                            .mean = mean->data,
                                            .rstd = rstd->data,
                                            .dy = g->data,
                                            .dx = dx->data,
                                            .dweight = talc_operand_data(dweight),
                                            .dbias = talc_operand_data(dbias) };
    if (talc_numel(x) != 0) {
        if (talc_choice_run(&choice, problem_text, &p, &p, &arguments.base) == TALC_OK)
            talc_observed(op, talc_chosen(&choice), &p,
                          (const talc_tensor *const[]){ x, weight, mean, rstd, g }, 5, dx);
    } else if (affine) {
        talc_fill(dweight, 0);
        talc_fill(dbias, 0);
    }
    if (talc_failed())
        return;
    gradients[0] = dx;
    gradients[1] = dweight;
    gradients[2] = dbias;
}

// ---- Run ----------------------------------------------------------------------------------------

static talc_tensor *recorded(const operands *o, const talc_group_norm_problem *p,
                             const talc_tensor *mean, const talc_tensor *rstd, talc_tensor *y)
{
    const bool activates = p->activation != TALC_ACTIVATION_NONE;
    return talc_tape_record(
        y, &(talc_note){ .op = OP,
                         .rule = group_norm_gradient,
                         .inputs = (const talc_tensor *const[]){ o->x, o->weight, o->bias },
                         .input_count = 3,
                         .saved = { { "x", o->x },
                                    { "weight", o->weight },
                                    { "mean", mean },
                                    { "rstd", rstd },
                                    { "y", activates ? y : NULL } },
                         .problem = p,
                         .problem_bytes = sizeof *p });
}

/* Contiguous handles on the operands, all of this call's own. */
static operands operands_pack(const operands *o)
{
    return (operands){ talc_operand_contiguous(OP, o->x), talc_operand_contiguous(OP, o->weight),
                       talc_operand_contiguous(OP, o->bias) };
}

static void operands_release(const operands *packed)
{
    talc_release((talc_tensor *)packed->x);
    talc_release((talc_tensor *)packed->weight);
    talc_release((talc_tensor *)packed->bias);
}

static talc_status run(const talc_choice *choice, const talc_group_norm_problem *p,
                       const operands *packed, const talc_tensor *mean, const talc_tensor *rstd,
                       talc_tensor *y)
{
    talc_group_norm_arguments arguments = { .x = packed->x->data,
                                            .weight = talc_operand_data(packed->weight),
                                            .bias = talc_operand_data(packed->bias),
                                            .y = y->data,
                                            .mean = talc_operand_data(mean),
                                            .rstd = talc_operand_data(rstd) };
    return talc_choice_run(choice, problem_text, p, p, &arguments.base);
}

/* The op behind its three names. The operands are checked, the problem lacks what the options
 * say. */
static talc_tensor *normalised(const char *op, const operands *o, talc_group_norm_problem *p,
                               const talc_norm_options *options)
{
    const talc_norm_options defaults = { 0 };
    options = options == NULL ? &defaults : options;
    const bool empty = talc_numel(o->x) == 0;
    if (empty) /* any number of groups divides no channels, and would be too large a factor */
        p->N = 0;
    talc_choice choice;
    if (!read_options(op, options, p) ||
        !talc_choose(&choice, OP, o->x->device, o->x->device->backend->group_norm, p,
                     options->algorithm, 0))
        return NULL;
    const talc_dims rows = TALC_DIMS(p->N * p->groups);
    talc_tensor *y = talc_tensor_new(OP, o->x->device, p->dtype, talc_dims_of(o->x));
    talc_tensor *mean = NULL, *rstd = NULL;
    talc_observer *observer = talc_observe_pause();
    const bool learns =
        y != NULL && talc_tape_wants((const talc_tensor *const[]){ o->x, o->weight, o->bias }, 3);
    if (learns) {
        mean = talc_tensor_new(OP, o->x->device, TALC_F64, rows);
        rstd = talc_tensor_new(OP, o->x->device, TALC_F64, rows);
    }
    operands packed = { 0 };
    talc_status status = talc_error_status();
    if (status == TALC_OK && !empty) {
        packed = operands_pack(o);
        status = talc_failed() ? talc_error_status() : run(&choice, p, &packed, mean, rstd, y);
    }
    y = talc_result(y, status);
    talc_observe_resume(observer);
    if (!empty)
        talc_observed(OP, talc_chosen(&choice), p,
                      (const talc_tensor *const[]){ o->x, o->weight, o->bias }, 3, y);
    if (learns && y != NULL)
        y = recorded(o, p, mean, rstd, y);
    operands_release(&packed);
    talc_release(mean);
    talc_release(rstd);
    return y;
}

// ---- The three ops ------------------------------------------------------------------------------

talc_tensor *talc_group_norm(const talc_tensor *x, int64_t groups, const talc_tensor *weight,
                             const talc_tensor *bias, const talc_norm_options *options)
{
    const operands o = { x, weight, bias };
    char text[TALC_DIMS_TEXT];
    if (!talc_operand_float(OP, "x", x))
        return NULL;
    if (x->rank < 2)
        talc_fail(TALC_BAD_SHAPE, "%s: x %s has rank %d, it must be [N,C,...], of rank 2 at least",
                  OP, talc_dims_text(talc_dims_of(x), text), x->rank);
    else if (groups < 1)
        talc_fail(TALC_BAD_ARGUMENT, "%s: groups %" PRId64 " must be at least 1", OP, groups);
    else if (x->dims[1] % groups != 0)
        talc_fail(TALC_BAD_SHAPE,
                  "%s: the %" PRId64 " channels of x %s do not divide into %" PRId64 " groups", OP,
                  x->dims[1], talc_dims_text(talc_dims_of(x), text), groups);
    if (talc_failed() || !check_affine(OP, &o, TALC_DIMS(x->dims[1])))
        return NULL;
    talc_group_norm_problem p = { .dtype = x->dtype,
                                  .N = x->dims[0],
                                  .C = x->dims[1],
                                  .plane = product(x, 2, x->rank),
                                  .groups = groups };
    return normalised(OP, &o, &p, options);
}

talc_tensor *talc_instance_norm2d(const talc_tensor *x, const talc_tensor *weight,
                                  const talc_tensor *bias, const talc_norm_options *options)
{
    static const char *const op = "instance_norm2d";
    const operands o = { x, weight, bias };
    if (!talc_operand_float(op, "x", x) || !talc_operand_rank(op, "x", x, 4, "[N,C,H,W]") ||
        !check_affine(op, &o, TALC_DIMS(x->dims[1])))
        return NULL;
    talc_group_norm_problem p = { .dtype = x->dtype,
                                  .N = x->dims[0],
                                  .C = x->dims[1],
                                  .plane = product(x, 2, 4),
                                  .groups = x->dims[1] };
    return normalised(op, &o, &p, options);
}

talc_tensor *talc_layer_norm(const talc_tensor *x, talc_dims normalised_dims,
                             const talc_tensor *weight, const talc_tensor *bias,
                             const talc_norm_options *options)
{
    static const char *const op = "layer_norm";
    const operands o = { x, weight, bias };
    if (!talc_operand_float(op, "x", x))
        return NULL;
    const int outer = x->rank - normalised_dims.rank;
    bool fits = normalised_dims.rank >= 1 && outer >= 0;
    for (int i = 0; fits && i < normalised_dims.rank; i++)
        fits = x->dims[outer + i] == normalised_dims.dim[i];
    if (!fits) {
        char text[TALC_DIMS_TEXT], x_text[TALC_DIMS_TEXT];
        talc_fail(TALC_BAD_SHAPE, "%s: the normalised dimensions %s must be the last of x %s", op,
                  talc_dims_text(normalised_dims, text), talc_dims_text(talc_dims_of(x), x_text));
        return NULL;
    }
    if (!check_affine(op, &o, normalised_dims))
        return NULL;
    talc_group_norm_problem p = { .dtype = x->dtype,
                                  .N = product(x, 0, outer),
                                  .C = product(x, outer, x->rank),
                                  .plane = 1,
                                  .groups = 1 };
    return normalised(op, &o, &p, options);
}
