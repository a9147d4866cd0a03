/// Elementwise ops and copies, and what is due of any op.
#include "check/model_due.h"

#include "check/data.h"
#include "check/layout.h"
#include "ops/elementwise.h"
#include "ops/observed.h"
#include "tensor/memory.h"

#include <math.h>
#include <string.h>

// ---- One operand --------------------------------------------------------------------------------------------

static bool unary(const check_ran *ran, check_model_due *due)
{
    const talc_unary_function function = ((const talc_unary_problem *)ran->problem)->function;
    const check_array *x = &ran->inputs[0];
    for (int64_t i = 0; i < x->count; i++) {
        due->element[i].value = function == TALC_NEG ? -x->of[i] : x->of[i];
        due->spread[i] = check_off(x, i);
    }
    due->activation = function == TALC_RELU      ? TALC_ACTIVATION_RELU
                      : function == TALC_SIGMOID ? TALC_ACTIVATION_SIGMOID
                      : function == TALC_TANH    ? TALC_ACTIVATION_TANH
                                                 : TALC_ACTIVATION_NONE;
    return true;
}

// ---- Two operands -------------------------------------------------------------------------------------------

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

static void binary_element(talc_binary_function function, number a, number b, talc_dtype dtype,
                           int64_t i, check_model_due *due)
{
    const long double x = a.of, y = b.of;
    due->spread[i] = a.off + b.off;
    if (function == TALC_MUL)
        due->spread[i] = fabs(a.of) * b.off + fabs(b.of) * a.off + a.off * b.off;
    if (function == TALC_DIV)
        due->spread[i] = quotient_spread(a, b);
    due->element[i].value = function == TALC_ADD   ? x + y
                            : function == TALC_SUB ? x - y
                            : function == TALC_MUL ? x * y
                                                   : x / y;
    due->element[i].extra =
        talc_check_format(dtype).unit * (double)fabsl(due->element[i].value) +
        (function == TALC_ADD || function == TALC_SUB ? 0 : talc_check_format(dtype).smallest);
}

static bool binary(const check_ran *ran, check_model_due *due)
{
    const talc_binary_problem *p = ran->problem;
    const check_array *a = &ran->inputs[0], *b = &ran->inputs[1];
    const number scalar = { talc_check_rounded(ran->output.dtype, p->scalar), 0 };
    for (int64_t i = 0; i < ran->output.count; i++) {
        const int64_t at = talc_check_stretched(a->dims.rank, a->dims.dim, ran->output.dims, i);
        const int64_t bt =
            p->b_is_scalar ? 0
                           : talc_check_stretched(b->dims.rank, b->dims.dim, ran->output.dims, i);
        binary_element(p->function, (number){ a->of[at], check_off(a, at) },
                       p->b_is_scalar ? scalar : (number){ b->of[bt], check_off(b, bt) },
                       ran->output.dtype, i, due);
    }
    return true;
}

// ---- Copies -------------------------------------------------------------------------------------------------

/* To an integer type a number is truncated, NaN is 0, and what is too large becomes the largest. */
static double cast(talc_dtype from, talc_dtype to, double value)
{
    static const double low[TALC_DTYPE_COUNT] = { [TALC_I64] = -0x1p63, [TALC_I32] = -0x1p31 };
    static const double high[TALC_DTYPE_COUNT] = {
        [TALC_I64] = 0x1p63, [TALC_I32] = 0x1p31 - 1, [TALC_U8] = 255
    };
    if (talc_dtype_is_float(to) || from == to)
        return talc_check_rounded(to, value);
    return isnan(value) ? 0 : fmin(fmax(trunc(value), low[to]), high[to]);
}

static void copy_element(const check_array *x, int64_t from, talc_dtype dtype, int64_t to,
                         check_model_due *due)
{
    const double off = check_off(x, from);
    due->element[to].value = cast(x->dtype, dtype, x->of[from]);
    due->spread[to] = off;
    if (x->dtype == dtype || off == 0)
        return;
    /* Numbers that differ may be rounded or truncated apart. */
    due->spread[to] += talc_dtype_is_float(dtype)
                           ? 2 * talc_check_format(dtype).unit * (fabs(x->of[from]) + off) +
                                 talc_check_format(dtype).smallest
                           : 1;
}

static bool copied(const check_ran *ran, check_model_due *due)
{
    for (int64_t i = 0; i < ran->output.count; i++)
        copy_element(&ran->inputs[0], i, ran->output.dtype, i, due);
    return true;
}

static bool concatenated(const check_ran *ran, check_model_due *due)
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
                         i / run * dims.dim[dim] * inner + start + i % run, due);
        start += run;
    }
    return true;
}

// ---- Any op -------------------------------------------------------------------------------------------------

static const struct {
    const char *op;
    bool (*due)(const check_ran *ran, check_model_due *due);
} ops[] = {
    { "neg", unary },           { "relu", unary },   { "sigmoid", unary },     { "tanh", unary },
    { "add", binary },          { "sub", binary },   { "mul", binary },        { "div", binary },
    { "concat", concatenated }, { "clone", copied }, { "contiguous", copied }, { "cast", copied },
    { "to", copied },           { "copy", copied },
};

bool talc_check_model_due(const check_ran *ran, check_model_due *due)
{
    const size_t count = (size_t)ran->output.count + 1;
    *due = (check_model_due){ 0 };
    due->element = talc_memory_new(count * sizeof *due->element, "check_model");
    due->spread = talc_memory_new(count * sizeof *due->spread, "check_model");
    bool known = false;
    if (!talc_failed())
        talc_check_due_of_family(ran, due, &known);
    for (size_t i = 0; i < sizeof ops / sizeof *ops && !known && !talc_failed(); i++)
        if (strcmp(ops[i].op, ran->op) == 0)
            known = ops[i].due(ran, due);
    if (!known && !talc_failed())
        talc_fail(TALC_UNSUPPORTED, "check_model: there is no check for the op %s", ran->op);
    if (talc_failed())
        talc_check_model_due_free(due);
    return !talc_failed();
}

void talc_check_model_due_free(check_model_due *due)
{
    talc_memory_free(due->element);
    talc_memory_free(due->spread);
    *due = (check_model_due){ 0 };
}
