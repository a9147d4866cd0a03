#include "ops/batch_norm2d.h"

#include "ops/gradient.h"
#include "ops/op.h"
#include "ops/operand.h"
#include "ops/reduce.h"
#include "tensor/fenv.h"
#include "tensor/observe.h"
#include "tensor/within.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const OP = "batch_norm2d";

typedef struct operands {
    const talc_tensor *x, *weight, *bias;
    talc_tensor *running_mean, *running_var;
    const talc_tensor *residual;
    talc_tensor *num_batches_tracked;
} operands;

// ---- Checks -------------------------------------------------------------------------------------

/* An operand with one value per channel; NULL passes. */
static bool check_channels(const talc_tensor *x, const char *name, const talc_tensor *operand)
{
    if (operand == NULL)
        return true;
    if (!talc_operand_like(OP, "x", x, name, operand))
        return false;
    if (operand->rank == 1 && operand->dims[0] == x->dims[1])
        return true;
    char text[TALC_DIMS_TEXT], x_text[TALC_DIMS_TEXT];
    talc_fail(TALC_BAD_SHAPE, "%s: %s %s must be [%" PRId64 "], one value for each channel of x %s",
              OP, name, talc_dims_text(talc_dims_of(operand), text), x->dims[1],
              talc_dims_text(talc_dims_of(x), x_text));
    return false;
}

static bool check_residual(const operands *o)
{
    return o->residual == NULL ||
           (talc_operand_like(OP, "x", o->x, "residual", o->residual) &&
            talc_operand_shape(OP, "residual", o->residual, talc_dims_of(o->x)));
}

static bool check_count(const operands *o)
{
    const talc_tensor *count = o->num_batches_tracked;
    if (count == NULL)
        return true;
    if (count->device != o->x->device)
        talc_fail(TALC_BAD_DEVICE, "%s: x is on %s, num_batches_tracked on %s", OP,
                  o->x->device->name, count->device->name);
    else if (count->dtype != TALC_I64)
        talc_fail(TALC_BAD_DTYPE, "%s: num_batches_tracked is %s, it must be i64", OP,
                  talc_dtype_name(count->dtype));
    return !talc_failed() && talc_operand_shape(OP, "num_batches_tracked", count, TALC_SCALAR);
}

static bool check_operands(const operands *o)
{
    return talc_operand_float(OP, "x", o->x) && talc_operand_rank(OP, "x", o->x, 4, "[N,C,H,W]") &&
           check_channels(o->x, "weight", o->weight) && check_channels(o->x, "bias", o->bias) &&
           check_channels(o->x, "running_mean", o->running_mean) &&
           check_channels(o->x, "running_var", o->running_var) && check_residual(o) &&
           check_count(o);
}

/* Zero asks for the default, TALC_ZERO for zero. */
static double or_default(double value, double fallback)
{
    return value == 0 ? fallback : value == (double)TALC_ZERO ? 0 : value;
}

static bool read_options(const talc_batch_norm2d_options *options, talc_batch_norm2d_problem *p)
{
    TALC_DEFAULT_FENV;
    p->training = options->training;
    p->momentum = or_default(options->momentum, 0.1);
    p->eps = or_default(options->eps, 1e-5);
    p->residual = options->residual != NULL;
    p->activation = options->activation;
    if (!(p->momentum >= 0 && p->momentum <= 1))
        talc_fail(TALC_BAD_ARGUMENT, "%s: momentum %g must be from 0 to 1", OP, p->momentum);
    else if (!(p->eps >= 0))
        talc_fail(TALC_BAD_ARGUMENT, "%s: eps %g must be at least 0", OP, p->eps);
    return !talc_failed() && talc_operand_activation(OP, p->activation);
}

/* Training writes the running statistics in place, so they have to be contiguous and overlap no
 * operand before them. */
static bool check_written(const operands *o, const char *name, const talc_tensor *running)
{
    const struct {
        const char *name;
        const talc_tensor *tensor;
    } others[] = { { "x", o->x },
                   { "weight", o->weight },
                   { "bias", o->bias },
                   { "residual", o->residual },
                   { "running_mean", o->running_mean },
                   { "running_var", o->running_var },
                   { "num_batches_tracked", o->num_batches_tracked } };
    if (running == NULL)
        return true;
    if (!talc_is_contiguous(running))
        talc_fail(TALC_BAD_ARGUMENT, "%s: %s is not contiguous, as training needs it", OP, name);
    for (size_t i = 0; strcmp(name, others[i].name) != 0; i++)
        if (talc_may_overlap(running, others[i].tensor))
            talc_fail(TALC_BAD_ARGUMENT, "%s: %s and %s share memory, and training writes %s", OP,
                      others[i].name, name, name);
    return !talc_failed();
}

static bool check_statistics(const operands *o, const talc_batch_norm2d_problem *p)
{
    if ((o->running_mean == NULL) != (o->running_var == NULL)) {
        talc_fail(TALC_NULL_ARGUMENT, "%s: %s is NULL, and %s is not", OP,
                  o->running_mean == NULL ? "running_mean" : "running_var",
                  o->running_mean == NULL ? "running_var" : "running_mean");
        return false;
    }
    if (!p->training)
        return !talc_operand_missing(OP, "running_mean", o->running_mean);
    if (p->N * p->H * p->W == 1) {
        char text[TALC_DIMS_TEXT];
        talc_fail(TALC_BAD_SHAPE, "%s: x %s has 1 value per channel, training needs more than 1",
                  OP, talc_dims_text(talc_dims_of(o->x), text));
        return false;
    }
    return check_written(o, "running_mean", o->running_mean) &&
           check_written(o, "running_var", o->running_var) &&
           check_written(o, "num_batches_tracked", o->num_batches_tracked);
}

// ---- Gradient -----------------------------------------------------------------------------------

/* What x was normalised by, [C] of f64 each, for the gradient; NULL without one. */
typedef struct statistics {
    talc_tensor *mean, *rstd;
} statistics;

/* Room for what training works out; else the running statistics as they are now, which training may
 * move later. */
static bool statistics_new(const operands *o, const talc_batch_norm2d_problem *p, statistics *saved)
{
    const talc_dims channels = TALC_DIMS(p->C);
    if (p->training) {
        saved->mean = talc_tensor_new(OP, o->x->device, TALC_F64, channels);
        saved->rstd = talc_tensor_new(OP, o->x->device, TALC_F64, channels);
        return !talc_failed();
    }
    const char *around = talc_within(OP);
    saved->mean = p->dtype == TALC_F64 ? talc_clone_for(OP, o->running_mean)
                                       : talc_cast_for(OP, o->running_mean, TALC_F64);
    talc_tensor *wide = saved->mean == NULL ? NULL : talc_cast_for(OP, o->running_var, TALC_F64);
    talc_tensor *var = wide == NULL ? NULL : talc_add_scalar(wide, p->eps);
    talc_tensor *root = var == NULL ? NULL : talc_sqrt(var);
    talc_tensor *one = root == NULL ? NULL : talc_ones(var->device, TALC_F64, TALC_SCALAR);
    saved->rstd = one == NULL ? NULL : talc_div(one, root);
    talc_release(wide);
    talc_release(var);
    talc_release(root);
    talc_release(one);
    talc_within(around);
    return !talc_failed();
}

static void problem_text(const void *problem, char text[TALC_RUN_TEXT])
{
    const talc_batch_norm2d_problem *p = problem;
    snprintf(text, TALC_RUN_TEXT, "n%" PRId64 "c%" PRId64 "h%" PRId64 "w%" PRId64 "%s", p->N, p->C,
             p->H, p->W, p->training ? "_training" : "");
}

/* x, weight, bias, residual. The algorithm gives all at once; without an activation the residual's
 * is dy. That of the residual alone needs neither x nor its statistics, so that the call need not
 * have saved them. */
static void batch_norm2d_gradient(const talc_node *node, const talc_tensor *dy,
                                  talc_tensor *gradients[])
{
    static const char *const op = "batch_norm2d.grad_input";
    talc_batch_norm2d_problem p = *(const talc_batch_norm2d_problem *)talc_node_problem(node);
    const bool activates = p.activation != TALC_ACTIVATION_NONE;
    const talc_tensor *weight = talc_node_saved(node, 1), *mean = talc_node_saved(node, 2),
                      *rstd = talc_node_saved(node, 3), *y = talc_node_saved(node, 4);
    if (mean == NULL) {
        gradients[3] = talc_activation_gradient(p.activation, dy, y);
        return;
    }
    const talc_tensor *x = talc_node_saved(node, 0);
    p.direction = TALC_GRAD_INPUT;
    p.residual = activates && talc_node_wants(node, 3);
    const talc_dims image = talc_dims_of(x), channels = TALC_DIMS(p.C);
    talc_tensor *dx = talc_tensor_new(op, x->device, p.dtype, image);
    talc_tensor *dweight = talc_tensor_new(op, x->device, p.dtype, channels);
    talc_tensor *dbias = talc_tensor_new(op, x->device, p.dtype, channels);
    talc_tensor *dresidual = p.residual ? talc_tensor_new(op, x->device, p.dtype, image) : NULL;
    gradients[0] = talc_op_run(&(talc_call){
        .op = TALC_OP_batch_norm2d,
        .name = op,
        .problem = &p,
        .write = problem_text,
        .inputs = { TALC_OPERAND(batch_norm2d, x, x), TALC_OPERAND(batch_norm2d, weight, weight),
                    TALC_OPERAND(batch_norm2d, mean, mean), TALC_OPERAND(batch_norm2d, rstd, rstd),
                    TALC_OPERAND(batch_norm2d, dy, dy), TALC_OPERAND(batch_norm2d, y, y) },
        .input_count = 6,
        .outputs = { TALC_OPERAND(batch_norm2d, dx, dx),
                     TALC_OPERAND(batch_norm2d, dweight, dweight),
                     TALC_OPERAND(batch_norm2d, dbias, dbias),
                     TALC_OPERAND(batch_norm2d, dresidual, dresidual) },
        .fills = talc_numel(x) == 0 });
    gradients[1] = dweight;
    gradients[2] = dbias;
    gradients[3] = activates ? dresidual : (talc_tensor *)dy;
}

// ---- Run ----------------------------------------------------------------------------------------

/* Whether each image is contiguous: neighbouring channels of a larger tensor are. */
static bool has_contiguous_images(const talc_tensor *x)
{
    int64_t expected = 1;
    for (int i = 3; i > 0; expected *= x->dims[i--])
        if (x->dims[i] != 1 && x->strides[i] != expected)
            return false;
    return x->strides[0] >= expected;
}

/* The op. `learns`: for the gradients of x, weight or bias. */
static talc_tensor *normalised(const operands *o, const talc_batch_norm2d_problem *p,
                               const char *forced, bool learns)
{
    /* Outside training x may have gaps between its images; in training the running statistics are
     * written in place. */
    const bool gaps = !p->training && has_contiguous_images(o->x);
    const talc_handed running = p->training ? TALC_WRITTEN : TALC_PACKED;
    const talc_tensor *const inputs[] = { o->x, o->weight, o->bias, o->residual };
    talc_batch_norm2d_arguments further = { .x_gap = gaps && p->N > 1
                                                         ? o->x->strides[0] - p->C * p->H * p->W
                                                         : 0 };
    talc_tensor *y = talc_tensor_new(OP, o->x->device, p->dtype, talc_dims_of(o->x));
    talc_observer *observer = talc_observe_pause();
    statistics saved = { 0 };
    if (y != NULL && learns)
        statistics_new(o, p, &saved);
    talc_observe_resume(observer);
    const bool activates = p->activation != TALC_ACTIVATION_NONE;
    y = talc_op_run(&(talc_call){
        .op = TALC_OP_batch_norm2d,
        .name = OP,
        .problem = p,
        .write = problem_text,
        .forced = forced,
        .further = &further.base,
        .inputs = { TALC_HANDED(batch_norm2d, x, o->x, gaps ? TALC_STRIDED : TALC_PACKED),
                    TALC_OPERAND(batch_norm2d, weight, o->weight),
                    TALC_OPERAND(batch_norm2d, bias, o->bias),
                    TALC_HANDED(batch_norm2d, running_mean, o->running_mean, running),
                    TALC_HANDED(batch_norm2d, running_var, o->running_var, running),
                    TALC_OPERAND(batch_norm2d, residual, o->residual),
                    TALC_HANDED(batch_norm2d, num_batches_tracked, o->num_batches_tracked,
                                p->training ? TALC_WRITTEN : TALC_STRIDED) },
        .input_count = 7,
        .outputs = { TALC_OPERAND(batch_norm2d, y, y), TALC_OPERAND(batch_norm2d, mean, saved.mean),
                     TALC_OPERAND(batch_norm2d, rstd, saved.rstd) },
        .record = &(talc_record){ .op = OP,
                                  .rule = batch_norm2d_gradient,
                                  .inputs = inputs,
                                  .input_count = 4,
                                  .saved = { { "x", learns ? o->x : NULL },
                                             { "weight", learns ? o->weight : NULL },
                                             { "mean", saved.mean },
                                             { "rstd", saved.rstd },
                                             { "y", activates ? y : NULL } },
                                  .problem = p,
                                  .problem_bytes = sizeof *p } });
    talc_release(saved.mean);
    talc_release(saved.rstd);
    return y;
}

talc_tensor *talc_batch_norm2d(const talc_tensor *x, const talc_tensor *weight,
                               const talc_tensor *bias, talc_tensor *running_mean,
                               talc_tensor *running_var, const talc_batch_norm2d_options *options)
{
    const talc_batch_norm2d_options defaults = { 0 };
    const talc_batch_norm2d_options *o = options == NULL ? &defaults : options;
    const operands given = {
        x, weight, bias, running_mean, running_var, o->residual, o->num_batches_tracked
    };
    if (!check_operands(&given))
        return NULL;
    talc_batch_norm2d_problem problem = {
        .dtype = x->dtype, .N = x->dims[0], .C = x->dims[1], .H = x->dims[2], .W = x->dims[3]
    };
    if (!read_options(o, &problem) || !check_statistics(&given, &problem))
        return NULL;
    if (!talc_activation_gradient_from_result(o->activation) &&
        talc_tape_wants((const talc_tensor *const[]){ x, weight, bias, o->residual }, 4)) {
        talc_batch_norm2d_options plain = *o;
        plain.activation = TALC_ACTIVATION_NONE;
        return talc_activated(
            o->activation, talc_batch_norm2d(x, weight, bias, running_mean, running_var, &plain));
    }
    return normalised(&given, &problem, o->algorithm,
                      talc_tape_wants((const talc_tensor *const[]){ x, weight, bias }, 3));
}
