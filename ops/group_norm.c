#include "ops/group_norm.h"

#include "ops/gradient.h"
#include "ops/op.h"
#include "ops/operand.h"
#include "ops/reduce.h"
#include "tensor/fenv.h"

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

/* x, weight, bias. The algorithm gives all at once. */
static void group_norm_gradient(const talc_node *node, const talc_tensor *dy,
                                talc_tensor *gradients[])
{
    static const char *const op = "group_norm.grad_input";
    talc_group_norm_problem p = *(const talc_group_norm_problem *)talc_node_problem(node);
    const talc_tensor *mean = talc_node_saved(node, 2), *rstd = talc_node_saved(node, 3);
    const talc_tensor *g = talc_activation_gradient(p.activation, dy, talc_node_saved(node, 4));
    const talc_tensor *x = talc_node_saved(node, 0), *weight = talc_node_saved(node, 1);
    if (g == NULL)
        return;
    p.direction = TALC_GRAD_INPUT;
    p.activation = TALC_ACTIVATION_NONE;
    const bool affine = talc_node_wants(node, 1) || talc_node_wants(node, 2);
    const talc_dims channels = talc_node_input_dims(node, talc_node_wants(node, 1) ? 1 : 2);
    talc_tensor *dx = talc_tensor_new(op, x->device, p.dtype, talc_dims_of(x));
    talc_tensor *dweight = affine ? talc_tensor_new(op, x->device, p.dtype, channels) : NULL;
    talc_tensor *dbias = affine ? talc_tensor_new(op, x->device, p.dtype, channels) : NULL;
    gradients[0] = talc_op_run(&(talc_call){
        .op = TALC_OP_group_norm,
        .name = op,
        .problem = &p,
        .write = problem_text,
        .inputs = { TALC_OPERAND(group_norm, x, x), TALC_OPERAND(group_norm, weight, weight),
                    TALC_OPERAND(group_norm, mean, mean), TALC_OPERAND(group_norm, rstd, rstd),
                    TALC_OPERAND(group_norm, dy, g) },
        .input_count = 5,
        .outputs = { TALC_OPERAND(group_norm, dx, dx), TALC_OPERAND(group_norm, dweight, dweight),
                     TALC_OPERAND(group_norm, dbias, dbias) },
        .fills = talc_numel(x) == 0 });
    gradients[1] = dweight;
    gradients[2] = dbias;
}

// ---- Run ----------------------------------------------------------------------------------------

/* The op behind its three names. The operands are checked, the problem lacks what the options
 * say. */
static talc_tensor *normalised(const char *op, const operands *o, talc_group_norm_problem *p,
                               const talc_norm_options *options)
{
    const talc_norm_options defaults = { 0 };
    options = options == NULL ? &defaults : options;
    if (talc_numel(o->x) ==
        0) /* any number of groups divides no channels, and would be too large a factor */
        p->N = 0;
    if (!read_options(op, options, p))
        return NULL;
    const talc_tensor *const inputs[] = { o->x, o->weight, o->bias };
    const bool learns = talc_tape_wants(inputs, 3);
    const talc_dims rows = TALC_DIMS(p->N * p->groups);
    talc_tensor *y = talc_tensor_new(OP, o->x->device, p->dtype, talc_dims_of(o->x));
    talc_tensor *mean = learns ? talc_tensor_new(OP, o->x->device, TALC_F64, rows) : NULL;
    talc_tensor *rstd = learns ? talc_tensor_new(OP, o->x->device, TALC_F64, rows) : NULL;
    y = talc_op_run(&(talc_call){
        .op = TALC_OP_group_norm,
        .name = OP,
        .problem = p,
        .write = problem_text,
        .forced = options->algorithm,
        .inputs = { TALC_OPERAND(group_norm, x, o->x), TALC_OPERAND(group_norm, weight, o->weight),
                    TALC_OPERAND(group_norm, bias, o->bias) },
        .input_count = 3,
        .outputs = { TALC_OPERAND(group_norm, y, y), TALC_OPERAND(group_norm, mean, mean),
                     TALC_OPERAND(group_norm, rstd, rstd) },
        .record =
            &(talc_record){ .op = OP,
                            .rule = group_norm_gradient,
                            .inputs = inputs,
                            .input_count = 3,
                            .saved = { { "x", o->x },
                                       { "weight", o->weight },
                                       { "mean", mean },
                                       { "rstd", rstd },
                                       { "y", p->activation != TALC_ACTIVATION_NONE ? y : NULL } },
                            .problem = p,
                            .problem_bytes = sizeof *p } });
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
