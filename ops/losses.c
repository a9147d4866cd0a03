#include "ops/losses.h"

#include "ops/compare.h"
#include "ops/elementwise.h"
#include "ops/operand.h"
#include "ops/reduce.h"
#include "tensor/fenv.h"
#include "tensor/scope.h"
#include "tensor/within.h"

#include <math.h>

// ---- Checks -------------------------------------------------------------------------------------

static bool check_operands(const char *op, const talc_tensor *x, const talc_tensor *target,
                           talc_reduction reduction)
{
    if (!talc_operand_float(op, "x", x) || !talc_operand_like(op, "x", x, "target", target) ||
        !talc_operand_shape(op, "target", target, talc_dims_of(x)))
        return false;
    if ((unsigned)reduction > TALC_REDUCTION_NONE)
        talc_fail(TALC_BAD_ARGUMENT, "%s: there is no reduction %d", op, (int)reduction);
    return !talc_failed();
}

/* A weight that may be left out. */
static bool check_weight(const char *op, const char *name, const talc_tensor *weight,
                         const talc_tensor *x)
{
    if (weight == NULL)
        return true;
    if (!talc_operand_like(op, "x", x, name, weight))
        return false;
    talc_dims both;
    if (talc_shape_broadcast(talc_dims_of(x), talc_dims_of(weight), &both) &&
        talc_shape_equal(both, talc_dims_of(x)))
        return true;
    char text_x[TALC_DIMS_TEXT], text_weight[TALC_DIMS_TEXT];
    talc_fail(TALC_BAD_SHAPE, "%s: %s %s does not stretch to x %s", op, name,
              talc_dims_text(talc_dims_of(weight), text_weight),
              talc_dims_text(talc_dims_of(x), text_x));
    return false;
}

// ---- What the losses share ----------------------------------------------------------------------

/* Of steps that failed there is none, and the next one returns at once. */
static talc_tensor *reduced(talc_tensor *losses, talc_reduction reduction)
{
    return reduction == TALC_REDUCTION_MEAN  ? talc_mean(losses, TALC_SCALAR, false)
           : reduction == TALC_REDUCTION_SUM ? talc_sum(losses, TALC_SCALAR, false)
                                             : losses;
}

/* A loss is being composed: failures name it, and what is made on the way to it is freed. */
typedef struct composed {
    const char *around;
    talc_scope *scope;
} composed;

static composed begun(const char *op)
{
    composed c = { .around = talc_within(op) };
    c.scope = talc_scope_enter();
    return c;
}

static talc_tensor *finished(composed c, talc_tensor *loss)
{
    talc_scope_return(c.scope, loss);
    talc_scope_leave(c.scope);
    talc_within(c.around);
    return loss;
}

// ---- Losses of a difference ---------------------------------------------------------------------

talc_tensor *talc_mse_loss(const talc_tensor *x, const talc_tensor *target,
                           talc_reduction reduction)
{
    if (!check_operands("mse_loss", x, target, reduction))
        return NULL;
    const composed c = begun("mse_loss");
    return finished(c, reduced(talc_squared_difference(x, target), reduction));
}

talc_tensor *talc_l1_loss(const talc_tensor *x, const talc_tensor *target, talc_reduction reduction)
{
    if (!check_operands("l1_loss", x, target, reduction))
        return NULL;
    const composed c = begun("l1_loss");
    return finished(c, reduced(talc_abs(talc_sub(x, target)), reduction));
}

/* With m = min(d, delta): m (d - m / 2), whose derivative by m is 0 where m follows d. */
static talc_tensor *huber(const talc_tensor *x, const talc_tensor *target, double delta)
{
    const talc_tensor *d = talc_abs(talc_sub(x, target));
    const talc_tensor *m = talc_clamp(d, (double)-INFINITY, delta);
    return talc_mul(m, talc_sub(d, talc_mul_scalar(m, 0.5)));
}

talc_tensor *talc_huber_loss(const talc_tensor *x, const talc_tensor *target, double delta,
                             talc_reduction reduction)
{
    TALC_DEFAULT_FENV;
    if (!check_operands("huber_loss", x, target, reduction))
        return NULL;
    if (!(delta > 0 && isfinite(delta))) {
        talc_fail(TALC_BAD_ARGUMENT, "huber_loss: delta %g must be positive and finite", delta);
        return NULL;
    }
    const composed c = begun("huber_loss");
    return finished(c, reduced(huber(x, target, delta), reduction));
}

talc_tensor *talc_smooth_l1_loss(const talc_tensor *x, const talc_tensor *target, double beta,
                                 talc_reduction reduction)
{
    TALC_DEFAULT_FENV;
    if (!check_operands("smooth_l1_loss", x, target, reduction))
        return NULL;
    if (!(beta >= 0 && isfinite(beta))) {
        talc_fail(TALC_BAD_ARGUMENT, "smooth_l1_loss: beta %g must be finite and not negative",
                  beta);
        return NULL;
    }
    const composed c = begun("smooth_l1_loss");
    talc_tensor *losses =
        beta == 0 ? talc_abs(talc_sub(x, target)) : talc_div_scalar(huber(x, target, beta), beta);
    return finished(c, reduced(losses, reduction));
}

// ---- Binary cross entropy -----------------------------------------------------------------------

/* Of any x by the formula. */
static talc_tensor *softplus(const talc_tensor *x)
{
    return talc_softplus(x, 1, (double)INFINITY);
}

static talc_tensor *binary_cross_entropy(const talc_tensor *x, const talc_tensor *target,
                                         const talc_binary_cross_entropy_options *options)
{
    const talc_tensor *present = talc_mul(target, softplus(talc_neg(x)));
    if (options->pos_weight != NULL)
        present = talc_mul(options->pos_weight, present);
    const talc_tensor *rest = talc_neg(talc_sub_scalar(target, 1));
    talc_tensor *losses = talc_add(present, talc_mul(rest, softplus(x)));
    return options->weight == NULL ? losses : talc_mul(options->weight, losses);
}

talc_tensor *talc_binary_cross_entropy_with_logits(const talc_tensor *x, const talc_tensor *target,
                                                   const talc_binary_cross_entropy_options *options)
{
    static const char *const op = "binary_cross_entropy_with_logits";
    const talc_binary_cross_entropy_options defaults = { 0 };
    const talc_binary_cross_entropy_options *o = options == NULL ? &defaults : options;
    if (!check_operands(op, x, target, o->reduction) || !check_weight(op, "weight", o->weight, x) ||
        !check_weight(op, "pos_weight", o->pos_weight, x))
        return NULL;
    const composed c = begun(op);
    return finished(c, reduced(binary_cross_entropy(x, target, o), o->reduction));
}
