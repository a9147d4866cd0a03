#include "ops/nll_loss.h"

#include "ops/elementwise.h"
#include "ops/labels.h"
#include "ops/lines.h"
#include "ops/op.h"
#include "ops/operand.h"
#include "ops/reduce.h"
#include "tensor/observe.h"
#include "tensor/scope.h"
#include "tensor/within.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const OP = "nll_loss";

// ---- Checks -------------------------------------------------------------------------------------

static bool check_operands(const talc_tensor *x, const talc_tensor *labels)
{
    return talc_labels_check(OP, "x", x, labels) &&
           talc_operand_shape(OP, "labels", labels, talc_labels_dims(x));
}

static bool check_options(const talc_tensor *x, const talc_nll_loss_options *options)
{
    const talc_tensor *weight = options->weight;
    if ((unsigned)options->reduction > TALC_REDUCTION_NONE)
        talc_fail(TALC_BAD_ARGUMENT, "%s: there is no reduction %d", OP, (int)options->reduction);
    if (talc_failed() || weight == NULL)
        return !talc_failed();
    if (!talc_operand_like(OP, "x", x, "weight", weight) ||
        !talc_operand_shape(OP, "weight", weight, TALC_DIMS(x->dims[talc_labels_class_dim(x)])))
        return false;
    if (talc_tape_wants_one(weight))
        talc_fail(TALC_UNSUPPORTED, "%s: weight asks for a gradient, which goes to x alone", OP);
    return !talc_failed();
}

// ---- Problem ------------------------------------------------------------------------------------

static talc_nll_loss_problem problem_of(const talc_tensor *x, int64_t ignored)
{
    const int at = talc_labels_class_dim(x);
    const talc_lines_problem lines = talc_lines_of(x, x, at);
    talc_nll_loss_problem p = { .dtype = x->dtype,
                                .ignore_index = talc_labels_ignored(ignored),
                                .C = lines.extent,
                                .x_stride = lines.x_stride,
                                .samples = lines.outer,
                                .outer_rank = lines.outer_rank,
                                .inner = 1 };
    memcpy(p.outer_dims, lines.outer_dims, sizeof p.outer_dims);
    memcpy(p.x_strides, lines.x_strides, sizeof p.x_strides);
    for (int i = at + 1; i < x->rank; i++)
        p.inner *= x->dims[i];
    return p;
}

/* "n128c10": samples and classes. */
static void write_problem(const void *problem, char text[TALC_RUN_TEXT])
{
    const talc_nll_loss_problem *p = problem;
    snprintf(text, TALC_RUN_TEXT, "n%" PRId64 "c%" PRId64, p->samples, p->C);
}

// ---- Gradient -----------------------------------------------------------------------------------

static void nll_loss_gradient(const talc_node *node, const talc_tensor *dy,
                              talc_tensor *gradients[])
{
    static const char *const op = "nll_loss.grad_input";
    const talc_tensor *labels = talc_node_saved(node, 0), *weight = talc_node_saved(node, 1);
    talc_tensor *dx = talc_tensor_new(op, dy->device, dy->dtype, talc_node_input_dims(node, 0));
    if (talc_failed())
        return;
    const int64_t *ignore_index = talc_node_problem(node);
    talc_nll_loss_problem p = problem_of(dx, *ignore_index);
    p.direction = TALC_GRAD_INPUT;
    gradients[0] = talc_op_run(&(talc_call){ .op = TALC_OP_nll_loss,
                                             .name = op,
                                             .problem = &p,
                                             .write = write_problem,
                                             .inputs = { TALC_OPERAND(nll_loss, labels, labels),
                                                         TALC_OPERAND(nll_loss, weight, weight),
                                                         TALC_OPERAND(nll_loss, dy, dy) },
                                             .input_count = 3,
                                             .outputs = { TALC_OPERAND(nll_loss, dx, dx) } });
}

// ---- The op -------------------------------------------------------------------------------------

/* The losses of the samples, recorded; and, where `weights` is given, their weights. In the scope
 * of the caller. */
static talc_tensor *losses_of(const talc_tensor *x, const talc_tensor *labels,
                              const talc_nll_loss_options *options, talc_tensor **weights)
{
    const talc_nll_loss_problem problem = problem_of(x, options->ignore_index);
    const talc_dims dims = talc_dims_of(labels);
    talc_observer *observer = talc_observe_pause();
    const talc_tensor *packed = talc_contiguous_for(OP, labels);
    const talc_tensor *weight =
        options->weight == NULL ? NULL : talc_contiguous_for(OP, options->weight);
    talc_observe_resume(observer);
    if (weights != NULL)
        *weights = talc_tensor_new(OP, x->device, x->dtype, dims);
    talc_tensor *losses = talc_tensor_new(OP, x->device, x->dtype, dims);
    return talc_op_run(&(talc_call){
        .op = TALC_OP_nll_loss,
        .name = OP,
        .problem = &problem,
        .write = write_problem,
        .forced = options->algorithm,
        .further = &(talc_nll_loss_arguments){ .labels = talc_operand_data(packed) }.base,
        .inputs = { TALC_HANDED(nll_loss, x, x, TALC_STRIDED), TALC_SET(labels),
                    TALC_OPERAND(nll_loss, weight, weight) },
        .input_count = 3,
        .outputs = { TALC_OPERAND(nll_loss, losses, losses),
                     TALC_OPERAND(nll_loss, weights, weights == NULL ? NULL : *weights) },
        .record = &(talc_record){ .op = OP,
                                  .rule = nll_loss_gradient,
                                  .inputs = &x,
                                  .input_count = 1,
                                  .saved = { { "labels", packed }, { "weight", weight } },
                                  .problem = &options->ignore_index,
                                  .problem_bytes = sizeof options->ignore_index } });
}

talc_tensor *talc_nll_loss(const talc_tensor *x, const talc_tensor *labels,
                           const talc_nll_loss_options *options)
{
    const talc_nll_loss_options defaults = { 0 };
    const talc_nll_loss_options *o = options == NULL ? &defaults : options;
    if (!check_operands(x, labels) || !check_options(x, o))
        return NULL;
    const char *around = talc_within("nll_loss");
    talc_scope *scope = talc_scope_enter();
    const bool mean = o->reduction == TALC_REDUCTION_MEAN;
    talc_tensor *weights = NULL, *y = NULL;
    if (scope != NULL)
        y = losses_of(x, labels, o, mean ? &weights : NULL);
    if (o->reduction != TALC_REDUCTION_NONE)
        y = talc_sum(y, TALC_SCALAR, false);
    if (mean)
        y = talc_div(y, talc_sum(weights, TALC_SCALAR, false));
    talc_scope_return(scope, y);
    talc_scope_leave(scope);
    talc_within(around);
    return y;
}
