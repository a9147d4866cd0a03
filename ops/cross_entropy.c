#include "ops/cross_entropy.h"

#include "ops/labels.h"
#include "ops/lines.h"
#include "ops/op.h"
#include "ops/operand.h"
#include "tensor/fenv.h"
#include "tensor/observe.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const OP = "cross_entropy", *const GRADIENT = "cross_entropy.grad_input";

// ---- Checks -------------------------------------------------------------------------------------

static bool check_operands(const talc_tensor *logits, const talc_tensor *labels)
{
    if (!talc_labels_check(OP, "logits", logits, labels))
        return false;
    const talc_dims expected = talc_labels_dims(logits);
    if (talc_shape_equal(talc_dims_of(labels), expected))
        return true;
    char text[TALC_DIMS_TEXT], expected_text[TALC_DIMS_TEXT], got[TALC_DIMS_TEXT];
    talc_fail(TALC_BAD_SHAPE, "%s: labels %s must be %s, logits %s without its classes", OP,
              talc_dims_text(talc_dims_of(labels), got), talc_dims_text(expected, expected_text),
              talc_dims_text(talc_dims_of(logits), text));
    return false;
}

/* Their values are not looked at: PyTorch takes negative ones too. */
static bool check_weights(const talc_tensor *logits, const talc_tensor *weights)
{
    const talc_dims expected = TALC_DIMS(logits->dims[talc_labels_class_dim(logits)]);
    if (weights == NULL)
        return true;
    if (!talc_operand_like(OP, "logits", logits, "class_weights", weights) ||
        !talc_operand_shape(OP, "class_weights", weights, expected))
        return false;
    if (talc_tape_wants_one(weights))
        talc_fail(TALC_BAD_ARGUMENT, "%s: class_weights wants a gradient, and there is none by it",
                  OP);
    return !talc_failed();
}

static bool check_options(const talc_tensor *logits, const talc_cross_entropy_options *options)
{
    TALC_DEFAULT_FENV;
    const double e = options->label_smoothing;
    if ((unsigned)options->reduction > TALC_REDUCTION_NONE)
        talc_fail(TALC_BAD_ARGUMENT, "%s: there is no reduction %d", OP, (int)options->reduction);
    else if (!(e >= 0 && e <= 1))
        talc_fail(TALC_BAD_ARGUMENT, "%s: label_smoothing %g must be from 0 to 1", OP, e);
    return !talc_failed() && check_weights(logits, options->class_weights);
}

// ---- Problem ------------------------------------------------------------------------------------

static talc_cross_entropy_problem problem_of(const talc_tensor *x,
                                             const talc_cross_entropy_options *options)
{
    const talc_lines_problem lines = talc_lines_of(x, x, talc_labels_class_dim(x));
    talc_cross_entropy_problem p = { .dtype = x->dtype,
                                     .reduction = options->reduction,
                                     .ignore_index = talc_labels_ignored(options->ignore_index),
                                     .label_smoothing = options->label_smoothing,
                                     .weighted = options->class_weights != NULL,
                                     .C = lines.extent,
                                     .x_stride = lines.x_stride,
                                     .samples = lines.outer,
                                     .outer_rank = lines.outer_rank };
    memcpy(p.outer_dims, lines.outer_dims, sizeof p.outer_dims);
    memcpy(p.x_strides, lines.x_strides, sizeof p.x_strides);
    return p;
}

// ---- Run ----------------------------------------------------------------------------------------

/* "n128c10": samples and classes. */
static void write_problem(const void *problem, char text[TALC_RUN_TEXT])
{
    const talc_cross_entropy_problem *p = problem;
    snprintf(text, TALC_RUN_TEXT, "n%" PRId64 "c%" PRId64, p->samples, p->C);
}

// ---- Gradient -----------------------------------------------------------------------------------

static void cross_entropy_gradient(const talc_node *node, const talc_tensor *dy,
                                   talc_tensor *gradients[])
{
    const char *const op = GRADIENT;
    talc_observer *observer = talc_observe_pause();
    const talc_tensor *x = talc_contiguous_for(op, talc_node_saved(node, 0));
    talc_observe_resume(observer);
    if (x == NULL)
        return;
    talc_cross_entropy_options options =
        *(const talc_cross_entropy_options *)talc_node_problem(node);
    options.class_weights = talc_node_saved(node, 2);
    talc_cross_entropy_problem p = problem_of(x, &options);
    p.direction = TALC_GRAD_INPUT;
    talc_tensor *dx = talc_tensor_new(op, x->device, x->dtype, talc_dims_of(x));
    gradients[0] = talc_op_run(
        &(talc_call){ .op = TALC_OP_cross_entropy,
                      .name = op,
                      .problem = &p,
                      .write = write_problem,
                      .inputs = { TALC_OPERAND(cross_entropy, x, x),
                                  TALC_OPERAND(cross_entropy, labels, talc_node_saved(node, 1)),
                                  TALC_OPERAND(cross_entropy, class_weights, options.class_weights),
                                  TALC_OPERAND(cross_entropy, dy, dy) },
                      .input_count = 4,
                      .outputs = { TALC_OPERAND(cross_entropy, dx, dx) } });
}

// ---- The op -------------------------------------------------------------------------------------

/* Most losses are where a backward pass begins, with dy = 1. For another dy the rule moves no more
 * bytes than a product with that gradient would, and rounds once less. An algorithm that is forced
 * on one of the two ops is not the other's. */
static bool is_gradient_expected(const talc_cross_entropy_problem *p, const talc_tensor *logits,
                                 const talc_cross_entropy_options *options)
{
    return p->samples > 0 && p->reduction != TALC_REDUCTION_NONE && talc_tape_wants_one(logits) &&
           talc_is_contiguous(logits) && options->algorithm == NULL &&
           talc_algorithm_forced(OP) == NULL && talc_algorithm_forced(GRADIENT) == NULL;
}

talc_tensor *talc_cross_entropy_with(const talc_tensor *logits, const talc_tensor *labels,
                                     const talc_cross_entropy_options *options)
{
    const talc_cross_entropy_options defaults = { 0 };
    const talc_cross_entropy_options *o = options == NULL ? &defaults : options;
    if (!check_operands(logits, labels) || !check_options(logits, o))
        return NULL;
    talc_cross_entropy_problem problem = problem_of(logits, o);
    problem.gradient = is_gradient_expected(&problem, logits, o);
    const bool whole = problem.reduction == TALC_REDUCTION_NONE;
    const talc_dims dims = whole ? talc_dims_of(labels) : TALC_SCALAR;
    talc_tensor *y = talc_tensor_new(OP, logits->device, logits->dtype, dims);
    talc_tensor *dx = problem.gradient
                          ? talc_tensor_new(OP, logits->device, logits->dtype, talc_dims_of(logits))
                          : NULL;
    /* An algorithm that is forced is the forward pass's alone, and what weighs classes is saved
     * like an operand. */
    talc_cross_entropy_options noted = *o;
    noted.algorithm = NULL;
    noted.class_weights = NULL;
    y = talc_op_run(&(talc_call){
        .op = TALC_OP_cross_entropy,
        .name = OP,
        .problem = &problem,
        .write = write_problem,
        .forced = o->algorithm,
        .inputs = { TALC_HANDED(cross_entropy, x, logits, TALC_STRIDED),
                    TALC_OPERAND(cross_entropy, labels, labels),
                    TALC_OPERAND(cross_entropy, class_weights, o->class_weights) },
        .input_count = 3,
        .outputs = { TALC_OPERAND(cross_entropy, y, y), TALC_OPERAND(cross_entropy, dx, dx) },
        .fills = problem.samples == 0,
        .filling = problem.reduction == TALC_REDUCTION_MEAN ? NAN : 0,
        .record = &(talc_record){ .op = OP,
                                  .rule = cross_entropy_gradient,
                                  .inputs = &logits,
                                  .input_count = 1,
                                  .saved = { { "logits", logits },
                                             { "labels", labels },
                                             { "class_weights", o->class_weights },
                                             { "gradient", dx } },
                                  .problem = &noted,
                                  .problem_bytes = sizeof noted,
                                  .ready = dx == NULL ? 0 : 4 } });
    talc_release(dx);
    return y;
}

talc_tensor *talc_cross_entropy(const talc_tensor *logits, const talc_tensor *labels)
{
    return talc_cross_entropy_with(logits, labels, NULL);
}
