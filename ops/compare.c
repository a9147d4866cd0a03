#include "ops/compare.h"

#include "ops/gradient.h"
#include "tensor/autograd.h"
#include "tensor/fenv.h"
#include "tensor/storage.h"

#include <math.h>

// ---- Comparisons --------------------------------------------------------------------------------

/* A comparison of the elementwise table is 0 or 1 in the data's type. */
static talc_tensor *condition_of(const char *op, talc_tensor *holds)
{
    talc_tensor *condition = talc_cast_for(op, holds, TALC_U8);
    talc_release(holds);
    return condition;
}

/* Of integers with a real number: x < 2.5 and x >= 2.5 ask what x < 3 and x >= 3 do, x <= 2.5 and x
 * > 2.5 what x <= 2 and x > 2. A number that is then none of the type's integers lies beside them
 * all, between two that equality asks about, or is NaN. */
static talc_tensor *compared(talc_binary_function function, const talc_tensor *a, double b)
{
    if (a == NULL || talc_dtype_is_float(a->dtype))
        return talc_binary(function, a, NULL, b);
    TALC_DEFAULT_FENV;
    const bool less = function == TALC_LESS || function == TALC_LESS_EQUAL;
    const bool greater = function == TALC_GREATER || function == TALC_GREATER_EQUAL;
    double low, end;
    talc_dtype_range(a->dtype, &low, &end);
    if (function == TALC_LESS || function == TALC_GREATER_EQUAL)
        b = ceil(b);
    else if (less || greater)
        b = floor(b);
    if (b >= low && b < end && b == floor(b))
        return talc_binary(function, a, NULL, b);
    const bool all = function == TALC_NOT_EQUAL || (less && b >= end) || (greater && b < low);
    return talc_binary(all ? TALC_GREATER_EQUAL : TALC_LESS, a, NULL, low);
}

#define COMPARISON(name, constant)                                                                 \
    talc_tensor *talc_##name(const talc_tensor *a, const talc_tensor *b)                           \
    {                                                                                              \
        return condition_of(#name, talc_binary_tensors(constant, a, b));                           \
    }                                                                                              \
    talc_tensor *talc_##name##_scalar(const talc_tensor *a, double b)                              \
    {                                                                                              \
        return condition_of(#name, compared(constant, a, b));                                      \
    }

COMPARISON(equal, TALC_EQUAL)
COMPARISON(not_equal, TALC_NOT_EQUAL)
COMPARISON(less, TALC_LESS)
COMPARISON(less_equal, TALC_LESS_EQUAL)
COMPARISON(greater, TALC_GREATER)
COMPARISON(greater_equal, TALC_GREATER_EQUAL)

// ---- Clamp --------------------------------------------------------------------------------------

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
    return talc_tape_record(y, &(talc_record){ .op = "clamp",
                                               .rule = clamp_gradient,
                                               .inputs = &x,
                                               .input_count = 1,
                                               .saved = { { "x", x } },
                                               .problem = &within,
                                               .problem_bytes = sizeof within });
}

/* The integers of a type that lie within; an end without integers beyond it is none. */
static bool integer_bounds(talc_dtype dtype, bounds *within)
{
    const double low = ceil(within->low), high = floor(within->high);
    double min, end;
    talc_dtype_range(dtype, &min, &end);
    if (low > high || low >= end || high < min) {
        talc_fail(TALC_BAD_ARGUMENT, "clamp: no %s lies from low %g to high %g",
                  talc_dtype_name(dtype), within->low, within->high);
        return false;
    }
    *within =
        (bounds){ low <= min ? (double)-INFINITY : low, high >= end ? (double)INFINITY : high };
    return true;
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
    TALC_DEFAULT_FENV;
    if (talc_operand_missing("clamp", "x", x))
        return NULL;
    if (!(low <= high)) {
        talc_fail(TALC_BAD_ARGUMENT, "clamp: low %g must be at most high %g", low, high);
        return NULL;
    }
    bounds within = { low, high };
    if (!talc_dtype_is_float(x->dtype) && !integer_bounds(x->dtype, &within))
        return NULL;
    return clamp_recorded(x, within, clamped(x, within));
}
