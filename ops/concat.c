#include "ops/concat.h"

#include "ops/observed.h"
#include "ops/operand.h"
#include "tensor/memory.h"
#include "tensor/observe.h"

#include <stdio.h>

/* "tensors[3]", as error messages name an operand. */
#define NAME_TEXT 32
static const char *name_of(int index, char text[NAME_TEXT])
{
    snprintf(text, NAME_TEXT, "tensors[%d]", index);
    return text;
}

// ---- Checks -------------------------------------------------------------------------------------------------

static bool check_first(const talc_tensor *const *tensors, int count)
{
    if (talc_operand_missing("concat", "tensors", tensors))
        return false;
    if (count < 1) {
        talc_fail(TALC_BAD_ARGUMENT, "concat: count is %d, needs at least 1", count);
        return false;
    }
    if (talc_operand_missing("concat", "tensors[0]", tensors[0]))
        return false;
    if (tensors[0]->rank == 0)
        talc_fail(TALC_BAD_SHAPE, "concat: tensors[0] [] has rank 0, needs at least 1");
    return tensors[0]->rank > 0;
}

/* That a tensor continues the first along `dim`. */
static bool check_next(const talc_tensor *first, const talc_tensor *next, int index, int dim)
{
    char name[NAME_TEXT], text_first[TALC_DIMS_TEXT], text_next[TALC_DIMS_TEXT];
    if (!talc_operand_like("concat", "tensors[0]", first, name_of(index, name), next))
        return false;
    bool fits = next->rank == first->rank;
    for (int i = 0; i < first->rank && fits; i++)
        fits = i == dim || next->dims[i] == first->dims[i];
    if (!fits)
        talc_fail(TALC_BAD_SHAPE, "concat: tensors[0] %s and %s %s differ outside dimension %d",
                  talc_dims_text(talc_dims_of(first), text_first), name,
                  talc_dims_text(talc_dims_of(next), text_next), dim);
    return fits;
}

static bool result_dims(const talc_tensor *const *tensors, int count, int dim, talc_dims *dims)
{
    *dims = talc_dims_of(tensors[0]);
    for (int i = 1; i < count; i++) {
        if (!check_next(tensors[0], tensors[i], i, dim))
            return false;
        if (!talc_add_checked(dims->dim[dim], tensors[i]->dims[dim], &dims->dim[dim])) {
            talc_fail(TALC_TOO_LARGE, "concat: dimension %d passes INT64_MAX at tensors[%d]", dim,
                      i);
            return false;
        }
    }
    return true;
}

// ---- The op -------------------------------------------------------------------------------------------------

static bool copy_into_slice(talc_tensor *y, const talc_tensor *tensor, int dim, int64_t start)
{
    talc_tensor *slice = talc_slice(y, dim, start, start + tensor->dims[dim], 1);
    bool copied = slice != NULL && talc_copy(slice, tensor);
    talc_release(slice);
    return copied;
}

talc_tensor *talc_concat(const talc_tensor *const *tensors, int count, int dim)
{
    talc_dims dims;
    if (!check_first(tensors, count) ||
        talc_shape_dim("concat", dim, tensors[0]->rank, &dim) != TALC_OK ||
        !result_dims(tensors, count, dim, &dims))
        return NULL;

    talc_observer *observer = talc_observe_pause();
    talc_tensor *y = talc_tensor_new("concat", tensors[0]->device, tensors[0]->dtype, dims);
    int64_t start = 0;
    for (int i = 0; i < count && y != NULL && !talc_failed(); i++) {
        copy_into_slice(y, tensors[i], dim, start);
        start += tensors[i]->dims[dim];
    }
    talc_observe_resume(observer);
    y = talc_result(y, talc_error_status());
    talc_observed("concat", NULL, &(talc_concat_observed){ dim }, tensors, count, y);
    return y;
}
