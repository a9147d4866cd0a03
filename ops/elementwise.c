#include "ops/elementwise.h"

#include "ops/gradient.h"
#include "ops/op.h"
#include "ops/operand.h"
#include "tensor/fenv.h"

#include <math.h>
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
#define TALC_GRADIENT_NAME(constant, name, ...) #name ".grad_input",
        TALC_UNARY_TABLE(TALC_GRADIENT_NAME)
#undef TALC_GRADIENT_NAME
};

// ---- One operand --------------------------------------------------------------------------------

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

static const struct {
    int saves;
    const char *numbers[2]; /* their names */
} unary_rows[] = {
#define TALC_NAMES_NONE      NULL
#define TALC_NAMES_ONE(p)    #p
#define TALC_NAMES_TWO(p, q) #p, #q
#define TALC_UNARY_ROW(constant, name, numbers, with, value, saved, gradient)                      \
    { saved, { TALC_NAMES_##numbers } },
    TALC_UNARY_TABLE(TALC_UNARY_ROW)
#undef TALC_UNARY_ROW
};

typedef struct unary_record {
    talc_unary_function function;
    double numbers[2];
} unary_record;

static talc_tensor *binary(talc_binary_function function, const talc_tensor *a,
                           const talc_tensor *b, double scalar, const double numbers[2]);

talc_tensor *talc_unary_gradient(talc_unary_function function, const double numbers[2],
                                 const talc_tensor *dy, const talc_tensor *saved)
{
    const talc_binary_function gradient = TALC_BINARY_COUNT - TALC_UNARY_COUNT + (int)function;
    return binary(gradient, dy, saved == NULL ? dy : saved, 0, numbers);
}

static void unary_gradient(const talc_node *node, const talc_tensor *dy, talc_tensor *gradients[])
{
    const unary_record *record = talc_node_problem(node);
    gradients[0] =
        talc_unary_gradient(record->function, record->numbers, dy, talc_node_saved(node, 0));
}

/* The limits of hardtanh are in order, softplus's threshold is a number; all others are finite. */
bool talc_unary_numbers_fit(talc_unary_function function, const double numbers[2])
{
    TALC_DEFAULT_FENV;
    const char *op = unary_names[function], *const *names = unary_rows[function].numbers;
    if (function == TALC_HARDTANH) {
        if (!(numbers[0] <= numbers[1]))
            talc_fail(TALC_BAD_ARGUMENT, "%s: %s %g must be at most %s %g", op, names[0],
                      numbers[0], names[1], numbers[1]);
    } else if (names[0] != NULL && !isfinite(numbers[0])) {
        talc_fail(TALC_BAD_ARGUMENT, "%s: %s %g must be finite", op, names[0], numbers[0]);
    } else if (names[1] != NULL && function != TALC_SOFTPLUS && !isfinite(numbers[1])) {
        talc_fail(TALC_BAD_ARGUMENT, "%s: %s %g must be finite", op, names[1], numbers[1]);
    } else if (names[1] != NULL && isnan(numbers[1])) {
        talc_fail(TALC_BAD_ARGUMENT, "%s: %s %g must be a number", op, names[1], numbers[1]);
    }
    return !talc_failed();
}

talc_tensor *talc_unary(talc_unary_function function, const talc_tensor *x, double p, double q)
{
    const char *op = unary_names[function];
    const unary_record record = { function, { p, q } };
    if (talc_operand_missing(op, "x", x) ||
        (function != TALC_NEG && !talc_operand_float(op, "x", x)) ||
        !talc_unary_numbers_fit(function, record.numbers))
        return NULL;

    talc_tensor *y = talc_tensor_new(op, x->device, x->dtype, talc_dims_of(x));
    if (y == NULL)
        return NULL;
    talc_unary_problem problem = talc_unary_problem_of(function, y, x);
    memcpy(problem.numbers, record.numbers, sizeof problem.numbers);
    const int saves = unary_rows[function].saves;
    const talc_tensor *saved = saves == TALC_SAVES_NOTHING ? NULL : saves == TALC_SAVES_Y ? y : x;
    return talc_op_run(&(talc_call){
        .op = TALC_OP_unary,
        .name = op,
        .problem = &problem,
        .inputs = { TALC_HANDED(unary, x, x, TALC_STRIDED) },
        .input_count = 1,
        .outputs = { TALC_OPERAND(unary, y, y) },
        .record = &(talc_record){ .op = op,
                                  .rule = unary_gradient,
                                  .inputs = &x,
                                  .input_count = 1,
                                  .saved = { { saves == TALC_SAVES_Y ? "y" : "x", saved } },
                                  .problem = &record,
                                  .problem_bytes = sizeof record } });
}

/* The ops, one for each row of the table. */
#define TALC_PARAMETERS_NONE
#define TALC_PARAMETERS_ONE(p)    , double p
#define TALC_PARAMETERS_TWO(p, q) , double p, double q
#define TALC_PASSED_NONE          0, 0
#define TALC_PASSED_ONE(p)        p, 0
#define TALC_PASSED_TWO(p, q)     p, q
#define TALC_UNARY_OP(constant, name, numbers, ...)                                                \
    talc_tensor *talc_##name(const talc_tensor *x TALC_PARAMETERS_##numbers)                       \
    {                                                                                              \
        return talc_unary(constant, x, TALC_PASSED_##numbers);                                     \
    }
TALC_UNARY_TABLE(TALC_UNARY_OP)

// ---- Two operands -------------------------------------------------------------------------------

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

/* What a row of the table does with integers; the gradients of rows of one operand get none. */
static const int binary_kinds[TALC_BINARY_COUNT] = {
#define TALC_BINARY_KIND(constant, name, kind, ...) kind,
    TALC_BINARY_TABLE(TALC_BINARY_KIND)
#undef TALC_BINARY_KIND
};

/* What da and db need; of the gradients of rows of one operand, which are not recorded themselves,
 * nothing. */
static const struct {
    int a, b;
} binary_saves[TALC_BINARY_COUNT] = {
#define TALC_BINARY_SAVES(constant, name, kind, value, saved_a, da, saved_b, db)                   \
    { saved_a, saved_b },
    TALC_BINARY_TABLE(TALC_BINARY_SAVES)
#undef TALC_BINARY_SAVES
};

typedef struct binary_record {
    talc_binary_function function;
    bool b_is_scalar;
    double scalar;
} binary_record;

static void binary_gradient(const talc_node *node, const talc_tensor *dy, talc_tensor *gradients[])
{
    const binary_record *record = talc_node_problem(node);
    const talc_tensor *a = talc_node_saved(node, 0), *b = talc_node_saved(node, 1);
    const talc_tensor *y = talc_node_saved(node, 2);
    const bool wants_a = talc_node_wants(node, 0), wants_b = talc_node_wants(node, 1);
    talc_tensor *da = NULL, *db = NULL;
    if (record->b_is_scalar)
        b = talc_full(dy->device, dy->dtype, TALC_SCALAR, record->scalar);
    switch (record->function) {
#define TALC_BINARY_GRADIENT(constant, name, kind, value, saved_a, da_is, saved_b, db_is)          \
    case constant:                                                                                 \
        da = wants_a ? (talc_tensor *)(da_is) : NULL;                                              \
        db = wants_b ? (talc_tensor *)(db_is) : NULL;                                              \
        break;
        TALC_BINARY_TABLE(TALC_BINARY_GRADIENT)
#undef TALC_BINARY_GRADIENT
    default:
        break;
    }
    gradients[0] = talc_tape_sum_to(da, talc_node_input_dims(node, 0));
    gradients[1] = talc_tape_sum_to(db, talc_node_input_dims(node, 1));
}

static talc_tensor *binary(talc_binary_function function, const talc_tensor *a,
                           const talc_tensor *b, double scalar, const double numbers[2])
{
    const char *op = binary_names[function];
    if (talc_operand_missing(op, "a", a) ||
        (binary_kinds[function] == TALC_FLOATS && !talc_operand_float(op, "a", a)) ||
        (b == NULL && !talc_number_held(op, "b", scalar, a->dtype)) ||
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
    talc_binary_problem problem = talc_binary_problem_of(function, y, a, b, scalar);
    memcpy(problem.numbers, numbers, sizeof problem.numbers);
    const talc_tensor *const inputs[] = { a, b };
    const int saves = (talc_tape_wants_one(a) ? binary_saves[function].a : 0) |
                      (talc_tape_wants_one(b) ? binary_saves[function].b : 0);
    const binary_record record = { function, b == NULL, scalar };
    const bool recorded = binary_saves[function].a != TALC_NO_GRADIENT;
    return talc_op_run(&(talc_call){
        .op = TALC_OP_binary,
        .name = op,
        .problem = &problem,
        .inputs = { TALC_HANDED(binary, a, a, TALC_STRIDED),
                    TALC_HANDED(binary, b, b, TALC_STRIDED) },
        .input_count = 2,
        .outputs = { TALC_OPERAND(binary, y, y) },
        .record = &(talc_record){ .op = op,
                                  .rule = binary_gradient,
                                  .inputs = inputs,
                                  .input_count = recorded ? 2 : 0,
                                  .saved = { { "a", saves & TALC_SAVES_A ? a : NULL },
                                             { "b", saves & TALC_SAVES_B ? b : NULL },
                                             { "y", saves & TALC_SAVES_Y ? y : NULL } },
                                  .problem = &record,
                                  .problem_bytes = sizeof record } });
}

talc_tensor *talc_binary(talc_binary_function function, const talc_tensor *a, const talc_tensor *b,
                         double scalar)
{
    return binary(function, a, b, scalar, (const double[2]){ 0, 0 });
}

/* A NULL b is a mistake here, not a scalar. */
talc_tensor *talc_binary_tensors(talc_binary_function function, const talc_tensor *a,
                                 const talc_tensor *b)
{
    const char *op = binary_names[function];
    if (talc_operand_missing(op, "a", a) || talc_operand_missing(op, "b", b))
        return NULL;
    return talc_binary(function, a, b, 0);
}

talc_tensor *talc_add(const talc_tensor *a, const talc_tensor *b)
{
    return talc_binary_tensors(TALC_ADD, a, b);
}

talc_tensor *talc_sub(const talc_tensor *a, const talc_tensor *b)
{
    return talc_binary_tensors(TALC_SUB, a, b);
}

talc_tensor *talc_mul(const talc_tensor *a, const talc_tensor *b)
{
    return talc_binary_tensors(TALC_MUL, a, b);
}

talc_tensor *talc_squared_difference(const talc_tensor *a, const talc_tensor *b)
{
    return talc_binary_tensors(TALC_SQUARED_DIFFERENCE, a, b);
}

talc_tensor *talc_div(const talc_tensor *a, const talc_tensor *b)
{
    return talc_binary_tensors(TALC_DIV, a, b);
}

talc_tensor *talc_pow(const talc_tensor *a, const talc_tensor *b)
{
    return talc_binary_tensors(TALC_POW, a, b);
}

/* The weights stand along the second dimension, as channels do. */
talc_tensor *talc_prelu(const talc_tensor *x, const talc_tensor *weight)
{
    const char *op = binary_names[TALC_PRELU];
    if (talc_operand_missing(op, "x", x) || talc_operand_missing(op, "weight", weight) ||
        !talc_operand_float(op, "x", x) || !talc_operand_like(op, "x", x, "weight", weight))
        return NULL;
    const int64_t count = talc_numel(weight);
    if (weight->rank > 1 || (count != 1 && (x->rank < 2 || count != x->dims[1]))) {
        char text[TALC_DIMS_TEXT], weight_text[TALC_DIMS_TEXT];
        talc_fail(TALC_BAD_SHAPE,
                  "%s: weight %s must have one element, or one for each channel of x %s", op,
                  talc_dims_text(talc_dims_of(weight), weight_text),
                  talc_dims_text(talc_dims_of(x), text));
        return NULL;
    }
    talc_dims dims = { .rank = x->rank < 2 ? 0 : x->rank - 1 };
    for (int i = 0; i < dims.rank; i++)
        dims.dim[i] = i == 0 ? count : 1;
    talc_tensor *along = talc_reshape(weight, dims);
    talc_tensor *y = along == NULL ? NULL : talc_binary_tensors(TALC_PRELU, x, along);
    talc_release(along);
    return y;
}

talc_tensor *talc_maximum(const talc_tensor *a, const talc_tensor *b)
{
    return talc_binary_tensors(TALC_MAXIMUM, a, b);
}

talc_tensor *talc_minimum(const talc_tensor *a, const talc_tensor *b)
{
    return talc_binary_tensors(TALC_MINIMUM, a, b);
}

talc_tensor *talc_add_scalar(const talc_tensor *a, double b)
{
    return talc_binary(TALC_ADD, a, NULL, b);
}

talc_tensor *talc_sub_scalar(const talc_tensor *a, double b)
{
    return talc_binary(TALC_SUB, a, NULL, b);
}

talc_tensor *talc_mul_scalar(const talc_tensor *a, double b)
{
    return talc_binary(TALC_MUL, a, NULL, b);
}

talc_tensor *talc_div_scalar(const talc_tensor *a, double b)
{
    return talc_binary(TALC_DIV, a, NULL, b);
}

talc_tensor *talc_pow_scalar(const talc_tensor *a, double b)
{
    return talc_binary(TALC_POW, a, NULL, b);
}
