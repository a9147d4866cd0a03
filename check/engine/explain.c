/// Which row an op would run, from the text of a problem alone. Elementwise ops are read here, as
/// those of two operands have no family and that of one operand takes no integers.
#include "check/engine/family.h"
#include "check/engine/layout.h"
#include "ops/backend.h"
#include "ops/choice.h"
#include "ops/elementwise.h"
#include "tensor/error.h"
#include "tensor/fenv.h"
#include "tensor/shape.h"
#include "tensor/shown.h"

#include <string.h>

// ---- Elementwise ops ----------------------------------------------------------------------------

typedef struct elementwise_op {
    const char *name;
    bool binary;
    int function; ///< of the op's table
    bool takes_integers;
} elementwise_op;

static const elementwise_op elementwise_ops[] = {
#define UNARY_OP(constant, name, ...)        { #name, false, constant, constant == TALC_NEG },
#define BINARY_OP(constant, name, kind, ...) { #name, true, constant, kind != TALC_FLOATS },
    TALC_UNARY_TABLE(UNARY_OP) TALC_BINARY_TABLE(BINARY_OP)
#undef UNARY_OP
#undef BINARY_OP
};

/* The op whose name and a colon the text begins with; NULL for another. */
static const elementwise_op *elementwise_named(const char *text)
{
    for (size_t i = 0; i < sizeof elementwise_ops / sizeof *elementwise_ops; i++) {
        const size_t length = strlen(elementwise_ops[i].name);
        if (strncmp(text, elementwise_ops[i].name, length) == 0 && text[length] == ':')
            return &elementwise_ops[i];
    }
    return NULL;
}

/* "8x16x32" or, for a second operand of another shape, "8x16x32,16x1". */
typedef struct elementwise_problem {
    check_layout a, b;
} elementwise_problem;

enum { FLOATS_1 = 1, FLOATS_2 = 2, INTEGERS_1 = 4, INTEGERS_2 = 8 }; /* ops by what they take */

static const check_key keys[] = {
    { "", CHECK_DIMS, .offset = offsetof(elementwise_problem, a) },
    { ",", CHECK_DIMS, .offset = offsetof(elementwise_problem, b), .ops = FLOATS_2 | INTEGERS_2,
      .flags = CHECK_OPTIONAL },
    { "_reversed", CHECK_FLAG, .offset = offsetof(elementwise_problem, a.reversed) },
    CHECK_FLOAT_KEYS(offsetof(elementwise_problem, a.dtype)),
    CHECK_INTEGER_KEYS(offsetof(elementwise_problem, a.dtype), .ops = INTEGERS_1 | INTEGERS_2),
    { .key = NULL },
};

/* Sets the shape that a and b broadcast to; false when they do not. */
static bool broadcast(const check_layout *a, const check_layout *b, check_layout *y)
{
    talc_dims dims_a = { .rank = a->rank }, dims_b = { .rank = b->rank }, dims;
    memcpy(dims_a.dim, a->dims, sizeof dims_a.dim);
    memcpy(dims_b.dim, b->dims, sizeof dims_b.dim);
    if (!talc_shape_broadcast(dims_a, dims_b, &dims))
        return false;
    *y = (check_layout){ .dtype = a->dtype, .rank = dims.rank };
    memcpy(y->dims, dims.dim, sizeof dims.dim);
    return true;
}

static bool read_operands(check_reader *r, const elementwise_op *op, check_layout *a,
                          check_layout *b, check_layout *y)
{
    elementwise_problem own = { .b = { .rank = -1 } };
    const char *start = r->at, *places[CHECK_KEYS];
    if (!talc_check_read_keys(r, keys, 2 * op->takes_integers + op->binary, &own, places))
        return false;
    *a = own.a;
    *b = own.b.rank < 0 ? own.a : own.b;
    b->dtype = a->dtype;
    b->reversed = a->reversed;
    if (!broadcast(a, b, y))
        return talc_check_unexpected_at(r, places[1] + 1, "a shape that broadcasts with the first");
    return (talc_check_lay_out(a) && talc_check_lay_out(b) && talc_check_lay_out(y)) ||
           talc_check_unexpected_at(r, start, "operands and a result below 2^63 bytes");
}

/* What an op sees of such an operand before it runs. */
static talc_tensor header_of(const check_layout *layout)
{
    talc_tensor header = { .dtype = layout->dtype, .rank = layout->rank };
    memcpy(header.dims, layout->dims, sizeof header.dims);
    memcpy(header.strides, layout->strides, sizeof header.strides);
    return header;
}

// ---- All ops ------------------------------------------------------------------------------------

static bool nothing_to_compute(const char *text)
{
    talc_fail(TALC_BAD_ARGUMENT, "explain: problem '%s' has nothing to compute", TALC_SHOWN(text));
    return false;
}

static bool explain_elementwise(talc_device *device, const char *text, const elementwise_op *op,
                                const char *algorithm, talc_explanation *explanation)
{
    check_layout a = { .rank = 0 }, b = { .rank = 0 }, y;
    check_reader reader = { op->name, text, text + strlen(op->name) + 1 };
    if (!read_operands(&reader, op, &a, &b, &y))
        return false;
    if (y.count == 0)
        return nothing_to_compute(text);
    const talc_tensor header_a = header_of(&a), header_b = header_of(&b), header_y = header_of(&y);
    if (op->binary) {
        const talc_binary_problem problem = talc_binary_problem_of(
            (talc_binary_function)op->function, &header_y, &header_a, &header_b, 0);
        talc_choice_explain(op->name, device, device->backend->algorithms[TALC_OP_binary], &problem,
                            algorithm, 0, explanation);
    } else {
        const talc_unary_problem problem =
            talc_unary_problem_of((talc_unary_function)op->function, &header_y, &header_a);
        talc_choice_explain(op->name, device, device->backend->algorithms[TALC_OP_unary], &problem,
                            algorithm, 0, explanation);
    }
    return true;
}

bool talc_explain(talc_device *device, const char *problem, const char *algorithm,
                  talc_explanation *explanation)
{
    TALC_DEFAULT_FENV;
    if (talc_operand_missing("explain", "device", device) ||
        talc_operand_missing("explain", "problem", problem) ||
        talc_operand_missing("explain", "explanation", explanation))
        return false;
    const elementwise_op *elementwise = elementwise_named(problem);
    if (elementwise != NULL && strstr(problem, "_dx") == NULL) /* a gradient is its family's */
        return explain_elementwise(device, problem, elementwise, algorithm, explanation);
    check_problem posed;
    const check_family *family = talc_check_parse(problem, &posed);
    if (family == NULL)
        return false;
    if (talc_check_is_empty(family, &posed))
        return nothing_to_compute(problem);
    talc_choice_explain(talc_check_op(family, &posed), device, talc_check_row_at(family, device, 0),
                        &posed, algorithm, 0, explanation);
    return true;
}
