/* Operators that work element by element. */
#include "onnx/shared.h"
#include "ops/compare.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"

#include <math.h>
#include <string.h>

// ---- Of one operand -----------------------------------------------------------------------------

#define UNARY(format, name)                                                                        \
    static bool run_##name(talc_onnx_call *call)                                                   \
    {                                                                                              \
        return talc_onnx_out(call, 0, talc_##name(talc_onnx_in(call, 0)));                         \
    }

TALC_ONNX_UNARY(UNARY)
UNARY("Mish", mish)
UNARY("SiLU", silu)

#define UNARY_ROW(format, name) { format, run_##name, 1, NULL },

static bool run_gelu(talc_onnx_call *call)
{
    const bool tanh =
        strcmp(talc_onnx_string(call->step->node, "approximate", "none"), "tanh") == 0;
    talc_tensor *x = talc_onnx_in(call, 0);
    return talc_onnx_out(call, 0, tanh ? talc_gelu_tanh(x) : talc_gelu(x));
}

static bool run_softplus(talc_onnx_call *call)
{
    return talc_onnx_out(call, 0, talc_softplus(talc_onnx_in(call, 0), 1, INFINITY));
}

static bool run_leaky_relu(talc_onnx_call *call)
{
    const double slope = talc_onnx_float(call->step->node, "alpha", 0.01);
    return talc_onnx_out(call, 0, talc_leaky_relu(talc_onnx_in(call, 0), slope));
}

static bool run_elu(talc_onnx_call *call)
{
    const double alpha = talc_onnx_float(call->step->node, "alpha", 1);
    return talc_onnx_out(call, 0, talc_elu(talc_onnx_in(call, 0), alpha));
}

/* gamma times elu of alpha: talc's selu has the two numbers of the paper. */
static bool run_selu(talc_onnx_call *call)
{
    const talc_onnx_node *node = call->step->node;
    const double alpha = talc_onnx_float(node, "alpha", 1.67326319217681884765625);
    const double gamma = talc_onnx_float(node, "gamma", 1.05070102214813232421875);
    return talc_onnx_out(call, 0, talc_mul_scalar(talc_elu(talc_onnx_in(call, 0), alpha), gamma));
}

static bool run_hard_sigmoid(talc_onnx_call *call)
{
    const talc_onnx_node *node = call->step->node;
    const double alpha = talc_onnx_float(node, "alpha", 0.2),
                 beta = talc_onnx_float(node, "beta", 0.5);
    talc_tensor *x = talc_onnx_in(call, 0);
    return talc_onnx_out(call, 0,
                         fabs(alpha - 1.0 / 6) < 1e-7 && beta == 0.5
                             ? talc_hardsigmoid(x)
                             : talc_hardsigmoid_ramp(x, alpha, beta));
}

/* slope x below 0: max(x, 0) + slope min(x, 0). */
static bool run_prelu(talc_onnx_call *call)
{
    talc_tensor *x = talc_onnx_in(call, 0), *slope = talc_onnx_in(call, 1);
    if (x == NULL || slope == NULL)
        return false;
    const int64_t count = talc_numel(slope);
    const bool by_channel = x->rank >= 2 && slope->rank == x->rank - 1 && count == x->dims[1] &&
                            slope->dims[0] == count;
    if (count == 1 || by_channel)
        return talc_onnx_out(call, 0, talc_prelu(x, talc_reshape(slope, TALC_DIMS(count))));
    talc_tensor *below = talc_neg(talc_relu(talc_neg(x)));
    return talc_onnx_out(call, 0, talc_add(talc_relu(x), talc_mul(below, slope)));
}

static bool run_clip(talc_onnx_call *call)
{
    const talc_onnx_node *node = call->step->node;
    double low = talc_onnx_float(node, "min", -INFINITY),
           high = talc_onnx_float(node, "max", INFINITY);
    const bool low_known = !talc_onnx_has(call, 1) || talc_onnx_in_number(call, 1, &low);
    const bool high_known = !talc_onnx_has(call, 2) || talc_onnx_in_number(call, 2, &high);
    talc_tensor *y = talc_onnx_in(call, 0);
    /* Integers that a double does not hold are compared as tensors. */
    const bool exact =
        y != NULL && (talc_dtype_is_float(y->dtype) ||
                      ((isinf(low) || fabs(low) < 0x1p53) && (isinf(high) || fabs(high) < 0x1p53)));
    if (low_known && high_known && low <= high && exact)
        return talc_onnx_out(call, 0,
                             low == 0 && high == 6 && y != NULL && talc_dtype_is_float(y->dtype)
                                 ? talc_relu6(y)
                                 : talc_clamp(y, low, high));
    if (y != NULL && talc_onnx_has(call, 1))
        y = talc_maximum(y, talc_onnx_in(call, 1));
    if (y != NULL && talc_onnx_has(call, 2))
        y = talc_minimum(y, talc_onnx_in(call, 2));
    return talc_onnx_out(call, 0, y);
}

static bool run_identity(talc_onnx_call *call)
{
    return talc_onnx_out(call, 0, talc_onnx_in(call, 0));
}

/* One that is no module (onnx/modules.c), since its mask is asked for, or its ratio is an input:
 * as in evaluation. */
static bool run_dropout(talc_onnx_call *call)
{
    talc_tensor *x = talc_onnx_in(call, 0);
    int64_t training = 0;
    if (talc_onnx_in_numbers(call, 2, &training, 1) < 0)
        return false;
    if (training != 0)
        return talc_onnx_fail(call, TALC_UNSUPPORTED, "training_mode is not 0");
    if (call->step->output_count > 1 && call->step->outputs[1] >= 0 && x != NULL &&
        !talc_onnx_out(call, 1, talc_ones(x->device, TALC_U8, talc_dims_of(x))))
        return false;
    return talc_onnx_out(call, 0, x);
}

/* Integers of a narrower type wrap around, as in numpy and onnxruntime, where talc_cast takes the
 * nearest. */
static talc_tensor *cast(talc_tensor *x, talc_dtype dtype)
{
    if (talc_dtype_is_float(x->dtype) || talc_dtype_is_float(dtype) ||
        talc_dtype_size(dtype) >= talc_dtype_size(x->dtype))
        return talc_cast(x, dtype);
    talc_tensor *wide = talc_to(x, talc_device_host(), TALC_I64),
                *narrow = talc_empty(talc_device_host(), dtype, talc_dims_of(x));
    wide = talc_contiguous(wide);
    const int64_t count = wide == NULL ? 0 : talc_numel(wide);
    const int64_t *from = count == 0 ? NULL : talc_data_read(wide, TALC_I64);
    void *to = count == 0 ? NULL : talc_data(narrow, dtype);
    for (int64_t i = 0; i < count && !talc_failed(); i++)
        if (dtype == TALC_I32)
            ((int32_t *)to)[i] = (int32_t)(uint32_t)from[i];
        else
            ((uint8_t *)to)[i] = (uint8_t)from[i];
    return talc_failed() ? NULL : narrow;
}

static bool run_cast(talc_onnx_call *call)
{
    const int type = (int)talc_onnx_int(call->step->node, "to", TALC_ONNX_FLOAT);
    talc_tensor *x = talc_onnx_in(call, 0);
    if (x == NULL)
        return false;
    if (type == TALC_ONNX_BOOL)
        return talc_onnx_out(call, 0, talc_not_equal_scalar(x, 0));
    talc_dtype dtype = talc_onnx_dtype(type);
    if (dtype == call->graph->dtype && !call->folds) /* the module may have been cast */
        dtype = call->plan->dtype;
    return talc_onnx_out(call, 0, cast(x, dtype));
}

/* Whether a value is of booleans, which talc has as u8: its type in the file, or that of the
 * operator that makes it. */
static bool is_bool(const talc_onnx_graph *graph, int value)
{
    static const char *const makers[] = { "And",  "Equal",       "Greater", "GreaterOrEqual",
                                          "Less", "LessOrEqual", "Not",     "Or",
                                          "Xor" };
    for (;;) {
        const talc_onnx_value *at = &graph->values[value];
        if (at->initializer != NULL)
            return at->initializer->type == TALC_ONNX_BOOL;
        for (int i = 0; i < graph->model->input_count; i++)
            if (graph->inputs[i] == value)
                return graph->model->inputs[i].type == TALC_ONNX_BOOL;
        if (at->producer < 0)
            return false;
        const talc_onnx_step *step = &graph->steps[at->producer];
        const char *op = step->node->op;
        const talc_onnx_attribute *constant = talc_onnx_attribute_of(step->node, "value");
        for (size_t i = 0; i < sizeof makers / sizeof *makers; i++)
            if (strcmp(op, makers[i]) == 0)
                return true;
        if (strcmp(op, "Cast") == 0)
            return talc_onnx_int(step->node, "to", TALC_ONNX_FLOAT) == TALC_ONNX_BOOL;
        if (strncmp(op, "Constant", 8) == 0)
            return constant != NULL && constant->t != NULL && constant->t->type == TALC_ONNX_BOOL;
        /* Others give the type of an operand. */
        const int of = strcmp(op, "CastLike") == 0 || strcmp(op, "Where") == 0;
        if (of >= step->input_count || step->inputs[of] < 0)
            return false;
        value = step->inputs[of];
    }
}

static bool run_cast_like(talc_onnx_call *call)
{
    talc_tensor *x = talc_onnx_in(call, 0), *like = talc_onnx_in(call, 1);
    if (x == NULL || like == NULL)
        return false;
    return talc_onnx_out(call, 0,
                         is_bool(call->graph, call->step->inputs[1]) ? talc_not_equal_scalar(x, 0)
                                                                     : cast(x, like->dtype));
}

static const char *refuses_cast(const talc_onnx_node *node, int64_t opset)
{
    (void)opset;
    return talc_onnx_dtype((int)talc_onnx_int(node, "to", TALC_ONNX_FLOAT)) == TALC_DTYPE_COUNT
               ? "casts to a type that talc does not compute with"
               : NULL;
}

// ---- Of two operands ----------------------------------------------------------------------------

typedef talc_tensor *of_tensors(const talc_tensor *a, const talc_tensor *b);
typedef talc_tensor *of_scalar(const talc_tensor *a, double b);

/* A known operand of one element is a number, where the other has at least its rank. */
static bool binary(talc_onnx_call *call, of_tensors *both, of_scalar *scalar, bool commutes)
{
    double number;
    for (int second = 1; second >= (commutes ? 0 : 1) && !call->folds && scalar != NULL; second--) {
        const talc_tensor *a = talc_onnx_in(call, 1 - second);
        if (a == NULL)
            return false;
        if (talc_onnx_in_scalar(call, second, a->rank, &number))
            return talc_onnx_out(call, 0, scalar(a, number));
    }
    const talc_tensor *a = talc_onnx_in(call, 0), *b = talc_onnx_in(call, 1);
    return a != NULL && b != NULL && talc_onnx_out(call, 0, both(a, b));
}

#define BINARY(name, scalar, commutes)                                                             \
    static bool run_##name(talc_onnx_call *call)                                                   \
    {                                                                                              \
        return binary(call, talc_##name, scalar, commutes);                                        \
    }

BINARY(add, talc_add_scalar, true)
BINARY(sub, talc_sub_scalar, false)
BINARY(mul, talc_mul_scalar, true)
BINARY(equal, talc_equal_scalar, true)
BINARY(less, talc_less_scalar, false)
BINARY(less_equal, talc_less_equal_scalar, false)
BINARY(greater, talc_greater_scalar, false)
BINARY(greater_equal, talc_greater_equal_scalar, false)

// ---- Integers, on the CPU -----------------------------------------------------------------------

static int64_t divided(int64_t a, int64_t b)
{
    return b == 0 ? 0 : b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}

/* Of the divisor's sign, as in Python. */
static int64_t modulo(int64_t a, int64_t b)
{
    const int64_t rest = b == 0 || b == -1 ? 0 : a % b;
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

static int64_t remainder_of(int64_t a, int64_t b)
{
    return b == 0 || b == -1 ? 0 : a % b;
}

static int64_t power(int64_t a, int64_t b)
{
    uint64_t result = 1, base = (uint64_t)a;
    for (int64_t left = b; left > 0; left >>= 1, base *= base)
        if (left & 1)
            result *= base;
    return b < 0 ? (a == 1 ? 1 : a == -1 ? (b % 2 == 0 ? 1 : -1) : 0) : (int64_t)result;
}

/* Both operands as contiguous i64 of the shape to which they broadcast. */
static bool integers(talc_onnx_call *call, const int64_t *operands[2], talc_tensor **result)
{
    talc_tensor *in[2] = { talc_onnx_in_host(call, 0), talc_onnx_in_host(call, 1) };
    talc_dims dims;
    if (in[0] == NULL || in[1] == NULL ||
        !talc_onnx_broadcast(call, talc_dims_of(in[0]), talc_dims_of(in[1]), &dims))
        return false;
    for (int i = 0; i < 2; i++) {
        const talc_tensor *wide = talc_contiguous(talc_expand(talc_cast(in[i], TALC_I64), dims));
        if (wide == NULL)
            return false;
        operands[i] = talc_numel(wide) == 0 ? NULL : talc_data_read(wide, TALC_I64);
    }
    *result = talc_empty(talc_device_host(), TALC_I64, dims);
    return *result != NULL;
}

static bool by_integers(talc_onnx_call *call, int64_t (*function)(int64_t, int64_t))
{
    const int64_t *operands[2];
    talc_tensor *result;
    const talc_dtype dtype = talc_onnx_in(call, 0)->dtype;
    if (!integers(call, operands, &result))
        return false;
    const int64_t count = talc_numel(result);
    int64_t *y = count == 0 ? NULL : talc_data(result, TALC_I64);
    if (talc_failed())
        return false;
    for (int64_t i = 0; i < count; i++)
        y[i] = function(operands[0][i], operands[1][i]);
    return talc_onnx_out(call, 0, talc_cast(result, dtype));
}

static bool is_integer(talc_onnx_call *call)
{
    const talc_tensor *a = talc_onnx_in(call, 0), *b = talc_onnx_in(call, 1);
    return a != NULL && b != NULL && !talc_dtype_is_float(a->dtype);
}

static bool run_div(talc_onnx_call *call)
{
    if (is_integer(call))
        return by_integers(call, divided);
    return !talc_failed() && binary(call, talc_div, talc_div_scalar, false);
}

static bool run_pow(talc_onnx_call *call)
{
    double exponent;
    if (is_integer(call)) {
        if (talc_dtype_is_float(talc_onnx_in(call, 1)->dtype))
            return talc_onnx_fail(call, TALC_UNSUPPORTED, "integers to the power of floats");
        return by_integers(call, power);
    }
    if (!call->folds && talc_onnx_in_number(call, 1, &exponent) && exponent == 2) {
        talc_tensor *x = talc_onnx_in(call, 0);
        return talc_onnx_out(call, 0, talc_mul(x, x));
    }
    talc_tensor *a = talc_onnx_in(call, 0), *b = talc_onnx_in(call, 1);
    if (a == NULL || b == NULL)
        return false;
    if (b->dtype != a->dtype) /* an exponent may be of another type */
        b = talc_cast(b, a->dtype);
    return talc_onnx_out(call, 0, talc_pow(a, b));
}

/* a - b floor(a / b). */
static bool run_mod(talc_onnx_call *call)
{
    const bool as_in_c = talc_onnx_int(call->step->node, "fmod", 0) != 0;
    if (is_integer(call))
        return by_integers(call, as_in_c ? remainder_of : modulo);
    if (as_in_c)
        return talc_onnx_fail(call, TALC_UNSUPPORTED, "fmod of floats");
    const talc_tensor *a = talc_onnx_in(call, 0), *b = talc_onnx_in(call, 1);
    return talc_onnx_out(call, 0, talc_sub(a, talc_mul(talc_floor(talc_div(a, b)), b)));
}

// ---- Of any number of operands ------------------------------------------------------------------

static talc_tensor *all(talc_onnx_call *call, of_tensors *both)
{
    talc_tensor *y = talc_onnx_in(call, 0);
    for (int i = 1; i < call->step->input_count; i++)
        y = both(y, talc_onnx_in(call, i));
    return y;
}

static bool run_max(talc_onnx_call *call)
{
    return talc_onnx_out(call, 0, all(call, talc_maximum));
}

static bool run_min(talc_onnx_call *call)
{
    return talc_onnx_out(call, 0, all(call, talc_minimum));
}

static bool run_sum(talc_onnx_call *call)
{
    return talc_onnx_out(call, 0, all(call, talc_add));
}

static bool run_mean(talc_onnx_call *call)
{
    return talc_onnx_out(call, 0, talc_div_scalar(all(call, talc_add), call->step->input_count));
}

// ---- Logic, on u8 of 0 and 1 --------------------------------------------------------------------

static bool run_not(talc_onnx_call *call)
{
    return talc_onnx_out(call, 0, talc_equal_scalar(talc_onnx_in(call, 0), 0));
}

static bool run_and(talc_onnx_call *call)
{
    return binary(call, talc_mul, NULL, true);
}

static bool run_or(talc_onnx_call *call)
{
    return binary(call, talc_maximum, NULL, true);
}

static bool run_xor(talc_onnx_call *call)
{
    return binary(call, talc_not_equal, NULL, true);
}

static bool run_where(talc_onnx_call *call)
{
    const talc_tensor *condition = talc_onnx_in(call, 0), *a = talc_onnx_in(call, 1);
    const talc_tensor *b = talc_onnx_in(call, 2);
    return condition != NULL && a != NULL && b != NULL &&
           talc_onnx_out(call, 0, talc_where(condition, a, b));
}

const talc_onnx_operator talc_onnx_elementwise[] = {
    // clang-format off
    TALC_ONNX_UNARY(UNARY_ROW)
    // clang-format on
    { "Add", run_add, 2, NULL },
    { "And", run_and, 2, NULL },
    { "Cast", run_cast, 1, refuses_cast },
    { "CastLike", run_cast_like, 2, NULL },
    { "Clip", run_clip, 1, NULL },
    { "Div", run_div, 2, NULL },
    { "Dropout", run_dropout, 1, NULL },
    { "Elu", run_elu, 1, NULL },
    { "Equal", run_equal, 2, NULL },
    { "Gelu", run_gelu, 1, NULL },
    { "Greater", run_greater, 2, NULL },
    { "GreaterOrEqual", run_greater_equal, 2, NULL },
    { "HardSigmoid", run_hard_sigmoid, 1, NULL },
    { "Identity", run_identity, 1, NULL },
    { "LeakyRelu", run_leaky_relu, 1, NULL },
    { "Less", run_less, 2, NULL },
    { "LessOrEqual", run_less_equal, 2, NULL },
    { "Max", run_max, -1, NULL },
    { "Mean", run_mean, -1, NULL },
    { "Min", run_min, -1, NULL },
    { "Mish", run_mish, 1, NULL },
    { "Mod", run_mod, 2, NULL },
    { "Mul", run_mul, 2, NULL },
    { "Not", run_not, 1, NULL },
    { "Or", run_or, 2, NULL },
    { "PRelu", run_prelu, 2, NULL },
    { "Pow", run_pow, 2, NULL },
    { "Selu", run_selu, 1, NULL },
    /* No operator of the format: x Sigmoid(x), as it is recognised. */
    { "SiLU", run_silu, 1, NULL },
    { "Softplus", run_softplus, 1, NULL },
    { "Sub", run_sub, 2, NULL },
    { "Sum", run_sum, -1, NULL },
    { "Where", run_where, 3, NULL },
    { "Xor", run_xor, 2, NULL },
    { NULL, NULL, 0, NULL },
};
