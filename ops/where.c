#include "ops/compare.h"
#include "ops/gradient.h"
#include "ops/op.h"
#include "ops/operand.h"

#include <string.h>

static const char *const OP = "where";

// ---- Checks and shapes --------------------------------------------------------------------------

/* A condition, by its name, and what it chooses from. */
static bool check_condition(const char *op, const char *name, const talc_tensor *condition,
                            const char *name_of, const talc_tensor *of)
{
    if (talc_operand_missing(op, name, condition))
        return false;
    if (condition->dtype != TALC_U8)
        talc_fail(TALC_BAD_DTYPE, "%s: %s is %s, it must be u8", op, name,
                  talc_dtype_name(condition->dtype));
    else if (condition->device != of->device)
        talc_fail(TALC_BAD_DEVICE, "%s: %s is on %s, %s on %s", op, name, condition->device->name,
                  name_of, of->device->name);
    return !talc_failed();
}

static bool check_operands(const talc_tensor *condition, const talc_tensor *a, const talc_tensor *b)
{
    return !talc_operand_missing(OP, "condition", condition) && !talc_operand_missing(OP, "a", a) &&
           talc_operand_like(OP, "a", a, "b", b) &&
           check_condition(OP, "condition", condition, "a", a);
}

static bool result_dims(const talc_tensor *condition, const talc_tensor *a, const talc_tensor *b,
                        talc_dims *dims)
{
    if (talc_shape_broadcast(talc_dims_of(a), talc_dims_of(b), dims) &&
        talc_shape_broadcast(*dims, talc_dims_of(condition), dims))
        return true;
    char text[TALC_DIMS_TEXT], text_a[TALC_DIMS_TEXT], text_b[TALC_DIMS_TEXT];
    talc_fail(TALC_BAD_SHAPE, "%s: condition %s, a %s and b %s do not broadcast", OP,
              talc_dims_text(talc_dims_of(condition), text),
              talc_dims_text(talc_dims_of(a), text_a), talc_dims_text(talc_dims_of(b), text_b));
    return false;
}

// ---- Problem ------------------------------------------------------------------------------------

static talc_where_problem problem_of(const talc_tensor *y, const talc_tensor *condition,
                                     const talc_tensor *a, const talc_tensor *b)
{
    talc_where_problem p = { .dtype = y->dtype };
    memcpy(p.dims, y->dims, sizeof p.dims);
    memcpy(p.y_strides, y->strides, sizeof p.y_strides);
    talc_shape_broadcast_strides(condition, talc_dims_of(y), p.condition_strides);
    talc_shape_broadcast_strides(a, talc_dims_of(y), p.a_strides);
    talc_shape_broadcast_strides(b, talc_dims_of(y), p.b_strides);
    p.rank = talc_shape_coalesce(
        y->rank, p.dims,
        (int64_t *const[]){ p.y_strides, p.condition_strides, p.a_strides, p.b_strides }, 4);
    return p;
}

// ---- Gradient -----------------------------------------------------------------------------------

talc_tensor *talc_keep_where(const talc_tensor *condition, const talc_tensor *dy, bool holds)
{
    if (talc_failed())
        return NULL;
    const talc_tensor *zero = talc_zeros(dy->device, dy->dtype, TALC_SCALAR);
    return holds ? talc_where(condition, dy, zero) : talc_where(condition, zero, dy);
}

static void where_gradient(const talc_node *node, const talc_tensor *dy, talc_tensor *gradients[])
{
    const talc_tensor *condition = talc_node_saved(node, 0);
    for (int i = 0; i < 2; i++)
        if (talc_node_wants(node, i))
            gradients[i] = talc_tape_sum_to(talc_keep_where(condition, dy, i == 0),
                                            talc_node_input_dims(node, i));
}

// ---- The op -------------------------------------------------------------------------------------

talc_tensor *talc_where(const talc_tensor *condition, const talc_tensor *a, const talc_tensor *b)
{
    talc_dims dims;
    if (!check_operands(condition, a, b) || !result_dims(condition, a, b, &dims))
        return NULL;
    talc_tensor *y = talc_tensor_new(OP, a->device, a->dtype, dims);
    if (y == NULL)
        return NULL;
    const talc_where_problem problem = problem_of(y, condition, a, b);
    const talc_tensor *const chosen_from[] = { a, b };
    return talc_op_run(
        &(talc_call){ .op = TALC_OP_where,
                      .name = OP,
                      .problem = &problem,
                      .inputs = { TALC_HANDED(where, condition, condition, TALC_STRIDED),
                                  TALC_HANDED(where, a, a, TALC_STRIDED),
                                  TALC_HANDED(where, b, b, TALC_STRIDED) },
                      .input_count = 3,
                      .outputs = { TALC_OPERAND(where, y, y) },
                      .record = &(talc_record){ .op = OP,
                                                .rule = where_gradient,
                                                .inputs = chosen_from,
                                                .input_count = 2,
                                                .saved = { { "condition", condition } } } });
}

talc_tensor *talc_masked_fill(const talc_tensor *x, const talc_tensor *mask, double value)
{
    const char *const op = "masked_fill";
    talc_dims dims;
    if (talc_operand_missing(op, "x", x) || !check_condition(op, "mask", mask, "x", x))
        return NULL;
    if (!talc_shape_broadcast(talc_dims_of(x), talc_dims_of(mask), &dims)) {
        char text[TALC_DIMS_TEXT], mask_text[TALC_DIMS_TEXT];
        talc_fail(TALC_BAD_SHAPE, "%s: x %s and mask %s do not broadcast", op,
                  talc_dims_text(talc_dims_of(x), text),
                  talc_dims_text(talc_dims_of(mask), mask_text));
        return NULL;
    }
    talc_tensor *filling = talc_number_held(op, "value", value, x->dtype)
                               ? talc_full(x->device, x->dtype, TALC_SCALAR, value)
                               : NULL;
    talc_tensor *y = filling == NULL ? NULL : talc_where(mask, filling, x);
    talc_release(filling);
    return y;
}
