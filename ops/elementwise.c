#include "ops/elementwise.h"

#include "ops/backend.h"
#include "ops/choice.h"
#include "ops/operand.h"
#include "tensor/observe.h"
#include "tensor/run.h"

#include <string.h>

static const char *const unary_names[] = {
#define TALC_UNARY_NAME(constant, name, ...) #name,
    TALC_UNARY_TABLE(TALC_UNARY_NAME)
#undef TALC_UNARY_NAME
};

static const char *const binary_names[] = {
#define TALC_BINARY_NAME(constant, name, ...) #name,
    TALC_BINARY_TABLE(TALC_BINARY_NAME)
#undef TALC_BINARY_NAME
};

// ---- One operand --------------------------------------------------------------------------------------------

talc_unary_problem talc_unary_problem_of(talc_unary_function function, const talc_tensor *y,
                                         const talc_tensor *x)
{
    talc_unary_problem problem = { .function = function, .dtype = x->dtype };
    memcpy(problem.dims, y->dims, sizeof problem.dims);
    memcpy(problem.y_strides, y->strides, sizeof problem.y_strides);
    memcpy(problem.x_strides, x->strides, sizeof problem.x_strides);
    problem.rank = talc_shape_coalesce(
        y->rank, problem.dims, (int64_t *const[]){ problem.y_strides, problem.x_strides }, 2);
    return problem;
}

static talc_tensor *unary(talc_unary_function function, const talc_tensor *x)
{
    const char *op = unary_names[function];
    if (talc_operand_missing(op, "x", x) ||
        (function != TALC_NEG && !talc_operand_float(op, "x", x)))
        return NULL;

    talc_tensor *y = talc_tensor_new(op, x->device, x->dtype, talc_dims_of(x));
    if (y == NULL)
        return NULL;
    const talc_unary_problem problem = talc_unary_problem_of(function, y, x);
    talc_choice choice;
    if (!talc_choose(&choice, op, x->device, x->device->backend->unary, &problem, NULL, 0) ||
        talc_numel(y) == 0)
        return talc_result(y, talc_error_status());

    talc_unary_arguments arguments = { .y = y->data, .x = x->data };
    y = talc_result(y, talc_choice_run(&choice, talc_run_dims, y, &problem, &arguments.base));
    talc_observed(op, talc_chosen(&choice), &problem, &x, 1, y);
    return y;
}

talc_tensor *talc_neg(const talc_tensor *x)
{
    return unary(TALC_NEG, x);
}

talc_tensor *talc_relu(const talc_tensor *x)
{
    return unary(TALC_RELU, x);
}

talc_tensor *talc_sigmoid(const talc_tensor *x)
{
    return unary(TALC_SIGMOID, x);
}

talc_tensor *talc_tanh(const talc_tensor *x)
{
    return unary(TALC_TANH, x);
}

// ---- Two operands -------------------------------------------------------------------------------------------

/* b is NULL for a scalar second operand. */
talc_binary_problem talc_binary_problem_of(talc_binary_function function, const talc_tensor *y,
                                           const talc_tensor *a, const talc_tensor *b,
                                           double scalar)
{
    talc_binary_problem problem = {
        .function = function, .dtype = a->dtype, .b_is_scalar = b == NULL, .scalar = scalar
    };
    memcpy(problem.dims, y->dims, sizeof problem.dims);
    memcpy(problem.y_strides, y->strides, sizeof problem.y_strides);
    talc_shape_broadcast_strides(a, talc_dims_of(y), problem.a_strides);
    if (b != NULL)
        talc_shape_broadcast_strides(b, talc_dims_of(y), problem.b_strides);
    problem.rank = talc_shape_coalesce(
        y->rank, problem.dims,
        (int64_t *const[]){ problem.y_strides, problem.a_strides, problem.b_strides },
        b != NULL ? 3 : 2);
    return problem;
}

static talc_tensor *binary(talc_binary_function function, const talc_tensor *a,
                           const talc_tensor *b, double scalar)
{
    const char *op = binary_names[function];
    if (talc_operand_missing(op, "a", a) ||
        (function == TALC_DIV && !talc_operand_float(op, "a", a)) ||
        (b != NULL && !talc_operand_like(op, "a", a, "b", b)))
        return NULL;
    talc_dims dims = talc_dims_of(a);
    if (b != NULL && !talc_shape_broadcast(dims, talc_dims_of(b), &dims)) {
        char text_a[TALC_DIMS_TEXT], text_b[TALC_DIMS_TEXT];
        talc_fail(TALC_BAD_SHAPE, "%s: a %s and b %s do not broadcast", op,
                  talc_dims_text(talc_dims_of(a), text_a), talc_dims_text(talc_dims_of(b), text_b));
        return NULL;
    }

    talc_tensor *y = talc_tensor_new(op, a->device, a->dtype, dims);
    if (y == NULL)
        return NULL;
    const talc_binary_problem problem = talc_binary_problem_of(function, y, a, b, scalar);
    talc_choice choice;
    if (!talc_choose(&choice, op, a->device, a->device->backend->binary, &problem, NULL, 0) ||
        talc_numel(y) == 0)
        return talc_result(y, talc_error_status());

    talc_binary_arguments arguments = { .y = y->data,
                                        .a = a->data,
                                        .b = b == NULL ? NULL : b->data };
    y = talc_result(y, talc_choice_run(&choice, talc_run_dims, y, &problem, &arguments.base));
    talc_observed(op, talc_chosen(&choice), &problem, (const talc_tensor *const[]){ a, b }, 2, y);
    return y;
}

/* A NULL b is a mistake here, not a scalar. */
static talc_tensor *binary_tensors(talc_binary_function function, const talc_tensor *a,
                                   const talc_tensor *b)
{
    const char *op = binary_names[function];
    if (talc_operand_missing(op, "a", a) || talc_operand_missing(op, "b", b))
        return NULL;
    return binary(function, a, b, 0);
}

talc_tensor *talc_add(const talc_tensor *a, const talc_tensor *b)
{
    return binary_tensors(TALC_ADD, a, b);
}

talc_tensor *talc_sub(const talc_tensor *a, const talc_tensor *b)
{
    return binary_tensors(TALC_SUB, a, b);
}

talc_tensor *talc_mul(const talc_tensor *a, const talc_tensor *b)
{
    return binary_tensors(TALC_MUL, a, b);
}

talc_tensor *talc_div(const talc_tensor *a, const talc_tensor *b)
{
    return binary_tensors(TALC_DIV, a, b);
}

talc_tensor *talc_add_scalar(const talc_tensor *a, double b)
{
    return binary(TALC_ADD, a, NULL, b);
}

talc_tensor *talc_sub_scalar(const talc_tensor *a, double b)
{
    return binary(TALC_SUB, a, NULL, b);
}

talc_tensor *talc_mul_scalar(const talc_tensor *a, double b)
{
    return binary(TALC_MUL, a, NULL, b);
}

talc_tensor *talc_div_scalar(const talc_tensor *a, double b)
{
    return binary(TALC_DIV, a, NULL, b);
}
