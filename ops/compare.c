#include "ops/compare.h"

#include "ops/gradient.h"
#include "tensor/autograd.h"
#include "tensor/storage.h"

#include <math.h>

// ---- Comparisons --------------------------------------------------------------------------------------------

/* A comparison of the elementwise table is 0 or 1 in the data's type. */
static talc_tensor *condition_of(const char *op, talc_tensor *holds)
{
    talc_tensor *condition = talc_cast_for(op, holds, TALC_U8);
    talc_release(holds);
    return condition;
}

#define COMPARISON(name, constant)                                                                 \
    talc_tensor *talc_##name(const talc_tensor *a, const talc_tensor *b)                           \
    {                                                                                              \
        return condition_of(#name, talc_binary_tensors(constant, a, b));                           \
    }                                                                                              \
    talc_tensor *talc_##name##_scalar(const talc_tensor *a, double b)                              \
    {                                                                                              \
        return condition_of(#name, talc_binary(constant, a, NULL, b));                             \
    }

COMPARISON(equal, TALC_EQUAL)
COMPARISON(not_equal, TALC_NOT_EQUAL)
COMPARISON(less, TALC_LESS)
COMPARISON(less_equal, TALC_LESS_EQUAL)
COMPARISON(greater, TALC_GREATER)
COMPARISON(greater_equal, TALC_GREATER_EQUAL)

// ---- Clamp --------------------------------------------------------------------------------------------------

typedef struct bounds {
    double low, high;
} bounds;

/* With a bound that is infinite too, so that no gradient goes through a NaN. */
static void clamp_gradient(const talc_node *node, const talc_tensor *dy, talc_tensor *gradients[])
{
    const bounds *within = talc_node_problem(node);
    const talc_tensor *x = talc_node_saved(node, 0);
    const talc_tensor *above = talc_greater_equal_scalar(x, within->low);
    const talc_tensor *below = talc_less_equal_scalar(x, within->high);
    gradients[0] = talc_keep_where(talc_mul(above, below), dy, true);
}

static talc_tensor *clamp_recorded(const talc_tensor *x, bounds within, talc_tensor *y)
{
    if (!talc_tape_wants_one(x))
        return y;
    return talc_tape_record(y, &(talc_note){ .op = "clamp",
                                             .rule = clamp_gradient,
                                             .inputs = &x,
                                             .input_count = 1,
                                             .saved = { { "x", x } },
                                             .problem = &within,
                                             .problem_bytes = sizeof within });
}

/* Not recorded as what it is made of: there the gradient of an element on a bound is halved. */
static talc_tensor *clamped(const talc_tensor *x, bounds within)
{
    talc_no_grad_enter();
    talc_tensor *y =
        isinf(within.low) && within.low < 0 ? NULL : talc_binary(TALC_MAXIMUM, x, NULL, within.low);
    if (!talc_failed() && !(isinf(within.high) && within.high > 0)) {
        talc_tensor *larger = y;
        y = talc_binary(TALC_MINIMUM, larger == NULL ? x : larger, NULL, within.high);
        talc_release(larger);
    } else if (y == NULL && !talc_failed()) {
        y = talc_clone_for("clamp", x);
    }
    talc_no_grad_leave();
    return y;
}

talc_tensor *talc_clamp(const talc_tensor *x, double low, double high)
{
    if (talc_operand_missing("clamp", "x", x))
        return NULL;
    if (!(low <= high)) {
        talc_fail(TALC_BAD_ARGUMENT, "clamp: low %g must be at most high %g", low, high);
        return NULL;
    }
    const bounds within = { low, high };
    return clamp_recorded(x, within, clamped(x, within));
}
