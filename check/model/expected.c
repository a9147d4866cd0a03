/// Elementwise ops and copies, and what is due of any op.
#include "check/engine/expected.h"

#include "check/engine/data.h"
#include "check/ops/elementwise.h"
#include "check/engine/layout.h"
#include "ops/elementwise.h"
#include "ops/conv2d.h"
#include "ops/observed.h"
#include "tensor/memory.h"

#include <math.h>
#include <string.h>

// ---- One operand --------------------------------------------------------------------------------

/* The largest slope of a function with such numbers; of those that are activations, which are
 * applied later, 1. */
static double largest_slope(const talc_unary_problem *problem)
{
    switch (problem->function) {
    case TALC_LEAKY_RELU:
    case TALC_ELU:
        return fmax(1, fabs(problem->numbers[0]));
    case TALC_GELU_TANH:
        return 1.2;
    case TALC_MISH:
        return 1.1;
    case TALC_SELU:
        return 1.8;
    case TALC_ERF:
        return 1.2;
    case TALC_HARDSIGMOID_RAMP:
        return fabs(problem->numbers[0]);
    case TALC_HARDSWISH_RAMP: /* 2 t - offset, where t, slope x + offset, is from 0 to 1 */
        return 2 + fabs(problem->numbers[1]);
    default:
        return 1;
    }
}

/* How far the value moves when x moves by `off`. */
static double unary_spread(talc_unary_function function, double x, double off, double value,
                           double slope)
{
    if (off == 0)
        return 0;
    switch (function) {
    case TALC_EXP:
        return value * expm1(off);
    case TALC_LOG:
        return x > off ? -log1p(-off / x) : INFINITY;
    case TALC_SQRT:
        return x > off ? sqrt(x) - sqrt(x - off) : INFINITY;
    case TALC_RSQRT:
        return x > off ? 1 / sqrt(x - off) - 1 / sqrt(x) : INFINITY;
    case TALC_RECIPROCAL:
        return fabs(x) > off ? 1 / (fabs(x) - off) - 1 / fabs(x) : INFINITY;
    case TALC_FLOOR:
        return floor(x + off) - floor(x - off);
    case TALC_CEIL:
        return ceil(x + off) - ceil(x - off);
    case TALC_ROUND:
        return rint(x + off) - rint(x - off);
    case TALC_SIGN:
        return fabs(x) > off ? 0 : 2;
    default:
        return off * slope;
    }
}

static bool unary(const check_ran *ran, check_model_expected *expected)
{
    const talc_unary_problem *problem = ran->problem;
    const talc_unary_function function = problem->function;
    const check_array *x = &ran->inputs[0];
    const check_format format = talc_check_format(x->dtype);
    const bool exact = function == TALC_NEG || function == TALC_ABS || function == TALC_FLOOR ||
                       function == TALC_SIGN || function == TALC_CEIL || function == TALC_ROUND;
    if ((int)function + 1 < TALC_ACTIVATION_COUNT && function != TALC_LEAKY_RELU) /* of any slope */
        expected->activation = (talc_activation)(function + 1);
    for (int64_t i = 0; i < x->count; i++) {
        const long double value =
            expected->activation != TALC_ACTIVATION_NONE
                ? x->of[i]
                : talc_check_unary_value(function, problem->numbers, x->of[i]);
        expected->element[i].value = value;
        if (function == TALC_GELU_TANH) /* x / 2 (1 + tanh ...) cancels below 0 */
            expected->element[i].foreign = fabs(x->of[i]);
        expected->spread[i] = unary_spread(function, x->of[i], check_off(x, i), (double)value,
                                           largest_slope(problem));
        const double p = problem->numbers[0], q = problem->numbers[1], off = check_off(x, i);
        /* At its threshold softplus jumps. */
        if (function == TALC_SOFTPLUS && off > 0 && fabs(p * x->of[i] - q) <= fabs(p) * off)
            expected->spread[i] += log1p(exp(-q)) / fabs(p);
        const double exponent = function == TALC_SOFTPLUS ? p * x->of[i] : x->of[i];
        /* The formulas' roundings, and of the numbers; those of a steep exponential grow with its
         * exponent, up to x^2. */
        if (!exact && expected->activation == TALC_ACTIVATION_NONE)
            expected->element[i].extra =
                (8 + fmin(exponent * exponent, 200)) * format.unit * (double)fabsl(value) +
                4 * format.smallest + fabs(x->of[i]) * format.normal;
        /* A ramp may cancel. */
        if (function == TALC_HARDSIGMOID_RAMP || function == TALC_HARDSWISH_RAMP)
            expected->element[i].extra += 4 * format.unit * (fabs(p * x->of[i]) + fabs(q)) *
                                          (function == TALC_HARDSWISH_RAMP ? fabs(x->of[i]) : 1);
    }
    return true;
}

// ---- Two operands -------------------------------------------------------------------------------

typedef struct number {
    double of, off;
} number;

static double quotient_spread(number a, number b)
{
    if (a.off == 0 && b.off == 0)
        return 0;
    return fabs(b.of) > b.off ? (a.off + fabs(a.of / b.of) * b.off) / (fabs(b.of) - b.off)
                              : INFINITY;
}

/* Of a positive base a power grows or falls with each operand: it is off most at a corner. */
static double power_spread(number a, number b)
{
    if (a.off == 0 && b.off == 0)
        return 0;
    if (!(a.of > a.off))
        return INFINITY;
    const double value = pow(a.of, b.of);
    double max = 0;
    for (int corner = 0; corner < 4; corner++)
        max = fmax(max, fabs(pow(a.of + (corner % 2 == 0 ? a.off : -a.off),
                                 b.of + (corner < 2 ? b.off : -b.off)) -
                             value));
    return max;
}

/* How far the result may move. Operands so close that the reference may have them in another order
 * compare either way. */
static double binary_spread(talc_binary_function function, number a, number b)
{
    switch (function) {
    case TALC_ADD:
    case TALC_SUB:
        return a.off + b.off;
    case TALC_MUL:
        return fabs(a.of) * b.off + fabs(b.of) * a.off + a.off * b.off;
    case TALC_SQUARED_DIFFERENCE:
        return (2 * fabs(a.of - b.of) + a.off + b.off) * (a.off + b.off);
    case TALC_DIV:
        return quotient_spread(a, b);
    case TALC_PRELU:
        return a.off * fmax(1, fabs(b.of) + b.off) + fabs(a.of) * b.off;
    case TALC_POW:
        return power_spread(a, b);
    case TALC_MAXIMUM:
    case TALC_MINIMUM:
        return fmax(a.off, b.off);
    default:
        return a.off + b.off > 0 && !(fabs(a.of - b.of) > a.off + b.off);
    }
}

/* Also where the result has none: that of the reference's operands may have. */
static double binary_roundings(talc_binary_function function, talc_dtype dtype, long double value)
{
    const check_format format = talc_check_format(dtype);
    const bool sum = function == TALC_ADD || function == TALC_SUB;
    return function > TALC_POW || !isfinite(value)
               ? 0
               : (function == TALC_POW                  ? 8
                  : function == TALC_SQUARED_DIFFERENCE ? 4
                                                        : 1) *
                     (format.unit * (double)fabsl(value) + (sum ? 0 : format.smallest));
}

static bool binary(const check_ran *ran, check_model_expected *expected)
{
    const talc_binary_problem *p = ran->problem;
    const check_array *a = &ran->inputs[0], *b = &ran->inputs[1];
    const number scalar = { talc_check_rounded(ran->output.dtype, p->scalar), 0 };
    for (int64_t i = 0; i < ran->output.count; i++) {
        const int64_t at = talc_check_stretched(a->dims.rank, a->dims.dim, ran->output.dims, i);
        const int64_t bt =
            p->b_is_scalar ? 0
                           : talc_check_stretched(b->dims.rank, b->dims.dim, ran->output.dims, i);
        const number of_a = { a->of[at], check_off(a, at) },
                     of_b = p->b_is_scalar ? scalar : (number){ b->of[bt], check_off(b, bt) };
        expected->element[i].value =
            talc_check_binary_expected(p->function, ran->output.dtype, of_a.of, of_b.of).value;
        expected->element[i].extra =
            binary_roundings(p->function, ran->output.dtype, expected->element[i].value);
        expected->spread[i] = binary_spread(p->function, of_a, of_b);
    }
    return true;
}

// ---- Copies -------------------------------------------------------------------------------------

static void copy_element(const check_array *x, int64_t from, talc_dtype dtype, int64_t to,
                         check_model_expected *expected)
{
    const double off = check_off(x, from);
    expected->element[to].value = talc_check_cast(x->dtype, dtype, x->of[from]);
    expected->spread[to] = off;
    if (x->dtype == dtype || off == 0)
        return;
    /* Numbers that differ may be rounded or truncated apart. */
    expected->spread[to] += talc_dtype_is_float(dtype)
                                ? 2 * talc_check_format(dtype).unit * (fabs(x->of[from]) + off) +
                                      talc_check_format(dtype).smallest
                                : 1;
}

static bool copied(const check_ran *ran, check_model_expected *expected)
{
    for (int64_t i = 0; i < ran->output.count; i++)
        copy_element(&ran->inputs[0], i, ran->output.dtype, i, expected);
    return true;
}

/* A label that may be another one may have its 1 anywhere. */
static bool hot(const check_ran *ran, check_model_expected *expected)
{
    const int64_t classes = ran->output.dims.dim[ran->output.dims.rank - 1];
    const check_array *labels = &ran->inputs[1];
    for (int64_t i = 0; i < ran->output.count; i++) {
        expected->element[i].value = (int64_t)labels->of[i / classes] == i % classes;
        expected->spread[i] = check_off(labels, i / classes) > 0 ? 1 : 0;
    }
    return true;
}

static bool concatenated(const check_ran *ran, check_model_expected *expected)
{
    const int dim = ((const talc_concat_observed *)ran->problem)->dim;
    const talc_dims dims = ran->output.dims;
    int64_t inner = 1, start = 0;
    for (int i = dim + 1; i < dims.rank; i++)
        inner *= dims.dim[i];
    for (int t = 0; t < ran->count; t++) {
        const int64_t run = ran->inputs[t].dims.dim[dim] * inner; /* elements that lie together */
        for (int64_t i = 0; i < ran->inputs[t].count; i++)
            copy_element(&ran->inputs[t], i, ran->output.dtype,
                         i / run * dims.dim[dim] * inner + start + i % run, expected);
        start += run;
    }
    return true;
}

// ---- Any op -------------------------------------------------------------------------------------

static const struct {
    const char *op;
    bool (*expected)(const check_ran *ran, check_model_expected *expected);
} ops[] = {
#define UNARY(constant, name, ...)  { #name, unary },
#define BINARY(constant, name, ...) { #name, binary },
    TALC_UNARY_TABLE(UNARY) TALC_BINARY_TABLE(BINARY)
#undef UNARY
#undef BINARY
        { "one_hot", hot },
    { "concat", concatenated },
    { "clone", copied },
    { "contiguous", copied },
    { "cast", copied },
    { "to", copied },
    { "copy", copied },
};

/* The family of an op by the names that its calls have, "linear" or "conv2d.grad_input"; NULL: no
 * check of models asks it. */
static const check_direction *family_of(const char *op)
{
    enum { MAX_NAMES = 9 };
    static const char *const names[TALC_OP_COUNT][MAX_NAMES] = {
#define NAMES(...)                                                                                 \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define TALC_OP(name, names, operands) [TALC_OP_##name] = names,
#include "ops/ops.def"
#undef NAMES
    };
    const size_t length = strcspn(op, ".");
    for (int d = 0; d < TALC_OP_COUNT; d++)
        for (int i = 0; names[d][i] != NULL; i++)
            if (strlen(names[d][i]) == length && strncmp(names[d][i], op, length) == 0)
                return talc_check_direction_at(d)->expected_of_run == NULL
                           ? NULL
                           : talc_check_direction_at(d);
    return NULL;
}

bool talc_check_model_expected(const check_ran *ran, check_model_expected *expected)
{
    const size_t count = (size_t)ran->output.count + 1;
    *expected = (check_model_expected){ 0 };
    expected->element = talc_memory_new(count * sizeof *expected->element, "check_model");
    expected->spread = talc_memory_new(count * sizeof *expected->spread, "check_model");
    bool known = false;
    for (size_t i = 0; i < sizeof ops / sizeof *ops && !known && !talc_failed(); i++)
        if (strcmp(ops[i].op, ran->op) == 0)
            known = ops[i].expected(ran, expected);
    const check_direction *direction = known ? NULL : family_of(ran->op);
    if (direction != NULL && !talc_failed())
        known = direction->expected_of_run(direction, ran, expected);
    if (!known && !talc_failed())
        talc_fail(TALC_UNSUPPORTED, "check_model: there is no check for the op %s", ran->op);
    if (talc_failed())
        talc_check_model_expected_free(expected);
    return !talc_failed();
}

void talc_check_model_expected_free(check_model_expected *expected)
{
    talc_memory_free(expected->element);
    talc_memory_free(expected->spread);
    *expected = (check_model_expected){ 0 };
}
