#include "ops/operand.h"

bool talc_operand_float(const char *op, const char *name, const talc_tensor *tensor)
{
    if (talc_operand_missing(op, name, tensor))
        return false;
    if (!talc_dtype_is_float(tensor->dtype)) {
        talc_fail(TALC_BAD_DTYPE, "%s: %s is %s, it must be f32 or f64", op, name,
                  talc_dtype_name(tensor->dtype));
        return false;
    }
    return true;
}

bool talc_operand_like(const char *op, const char *name_a, const talc_tensor *a, const char *name_b,
                       const talc_tensor *b)
{
    if (talc_operand_missing(op, name_b, b))
        return false;
    if (a->device != b->device)
        talc_fail(TALC_BAD_DEVICE, "%s: %s is on %s, %s on %s", op, name_a, a->device->name, name_b,
                  b->device->name);
    else if (a->dtype != b->dtype)
        talc_fail(TALC_BAD_DTYPE, "%s: %s is %s, %s is %s", op, name_a, talc_dtype_name(a->dtype),
                  name_b, talc_dtype_name(b->dtype));
    return !talc_failed();
}

bool talc_operand_rank(const char *op, const char *name, const talc_tensor *tensor, int rank,
                       const char *form)
{
    if (tensor->rank == rank)
        return true;
    char text[TALC_DIMS_TEXT];
    talc_fail(TALC_BAD_SHAPE, "%s: %s %s has rank %d, needs %d: %s", op, name,
              talc_dims_text(talc_dims_of(tensor), text), tensor->rank, rank, form);
    return false;
}

bool talc_operand_shape(const char *op, const char *name, const talc_tensor *tensor,
                        talc_dims expected)
{
    if (talc_shape_equal(talc_dims_of(tensor), expected))
        return true;
    char text[TALC_DIMS_TEXT], expected_text[TALC_DIMS_TEXT];
    talc_fail(TALC_BAD_SHAPE, "%s: %s %s must be %s", op, name,
              talc_dims_text(talc_dims_of(tensor), text), talc_dims_text(expected, expected_text));
    return false;
}

bool talc_operand_activation(const char *op, talc_activation activation)
{
    if ((unsigned)activation < TALC_ACTIVATION_COUNT)
        return true;
    talc_fail(TALC_BAD_ARGUMENT, "%s: activation %d is outside 0..%d", op, (int)activation,
              TALC_ACTIVATION_COUNT - 1);
    return false;
}

talc_tensor *talc_operand_contiguous(const char *op, const talc_tensor *tensor)
{
    if (tensor == NULL || !talc_is_contiguous(tensor))
        return tensor == NULL ? NULL : talc_contiguous_for(op, tensor);
    return talc_retain((talc_tensor *)tensor);
}

void *talc_operand_data(const talc_tensor *tensor)
{
    return tensor == NULL ? NULL : tensor->data;
}

talc_tensor *talc_result(talc_tensor *result, talc_status status)
{
    if (status == TALC_OK)
        return result;
    talc_release(result);
    return NULL;
}
