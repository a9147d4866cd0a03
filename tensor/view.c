#include "tensor/extent.h"
#include "tensor/memory.h"
#include "tensor/shape.h"
#include "tensor/storage.h"
#include "tensor/tape.h"

#include <inttypes.h>
#include <string.h>

// ---- Gradients ----------------------------------------------------------------------------------

/* A view, NULL passes, as the result of an op on `tensor`. */
static talc_tensor *recorded(const char *op, talc_gradient_rule *rule, const talc_tensor *tensor,
                             talc_tensor *view, const void *problem, size_t bytes)
{
    if (!talc_tape_wants_one(tensor))
        return view;
    return talc_tape_record(view, &(talc_record){ .op = op,
                                                  .rule = rule,
                                                  .inputs = &tensor,
                                                  .input_count = 1,
                                                  .problem = problem,
                                                  .problem_bytes = bytes });
}

static void reshape_gradient(const talc_node *node, const talc_tensor *dy, talc_tensor *gradients[])
{
    gradients[0] = talc_reshape(dy, talc_node_input_dims(node, 0));
}

/* The problem is the inverse permutation. */
static void permute_gradient(const talc_node *node, const talc_tensor *dy, talc_tensor *gradients[])
{
    gradients[0] = talc_permute(dy, *(const talc_dims *)talc_node_problem(node));
}

static void expand_gradient(const talc_node *node, const talc_tensor *dy, talc_tensor *gradients[])
{
    gradients[0] = talc_tape_sum_to((talc_tensor *)dy, talc_node_input_dims(node, 0));
}

/* Which elements of one dimension a view shows; `dims` is its shape with that dimension kept. */
typedef struct part {
    int dim;
    int64_t start, end, step;
    talc_dims dims;
} part;

static void slice_gradient(const talc_node *node, const talc_tensor *dy, talc_tensor *gradients[])
{
    const part *shown = talc_node_problem(node);
    talc_tensor *dx = talc_zeros(dy->device, dy->dtype, talc_node_input_dims(node, 0));
    talc_tensor *slice =
        dx == NULL ? NULL : talc_slice(dx, shown->dim, shown->start, shown->end, shown->step);
    const talc_tensor *from = slice == NULL ? NULL : talc_reshape(dy, shown->dims);
    if (from != NULL && talc_copy(slice, from))
        gradients[0] = dx;
}

// ---- Shapes -------------------------------------------------------------------------------------

/* Works out a -1 in `dims` so that the shape has the tensor's number of elements, and checks that
 * it does. */
static bool resolve_dims(const char *who, const talc_tensor *tensor, talc_dims *dims)
{
    char from[TALC_DIMS_TEXT], to[TALC_DIMS_TEXT];
    const talc_dims asked = *dims;
    if (dims->rank < 0 || dims->rank > TALC_MAX_RANK) {
        talc_fail(TALC_BAD_SHAPE, "%s: rank %d is outside 0..%d", who, dims->rank, TALC_MAX_RANK);
        return false;
    }
    int open = -1;
    int64_t known = 1;
    for (int i = 0; i < dims->rank; i++) {
        if (dims->dim[i] == -1 && open >= 0) {
            talc_fail(
                TALC_BAD_SHAPE,
                "%s: shape %s has -1 for dimension %d and for %d, where only one can be inferred",
                who, talc_dims_text(asked, to), open, i);
            return false;
        }
        if (dims->dim[i] == -1) {
            open = i;
        } else if (!talc_multiply(known, dims->dim[i], &known)) {
            talc_fail(TALC_BAD_SHAPE, "%s: shape %s does not fit %s", who,
                      talc_dims_text(asked, to), talc_dims_text(talc_dims_of(tensor), from));
            return false;
        }
    }
    int64_t numel = talc_numel(tensor);
    if (open >= 0 && known > 0 && numel % known == 0) {
        dims->dim[open] = numel / known;
        known = numel;
    }
    if (open >= 0 && known == 0) {
        talc_fail(TALC_BAD_SHAPE,
                  "%s: dimension %d of shape %s cannot be inferred: any extent gives 0 elements",
                  who, open, talc_dims_text(asked, to));
        return false;
    }
    if (known != numel || (open >= 0 && dims->dim[open] == -1)) {
        talc_fail(TALC_BAD_SHAPE, "%s: %s has %" PRId64 " element%s, shape %s needs %s%" PRId64,
                  who, talc_dims_text(talc_dims_of(tensor), from), numel, TALC_PLURAL(numel),
                  talc_dims_text(asked, to), open >= 0 ? "a multiple of " : "", known);
        return false;
    }
    /* An empty shape may still have extents whose strides do not fit. */
    return talc_shape_check(who, tensor->dtype, *dims, &numel) == TALC_OK;
}

/* Strides under which the elements of `tensor` read in order make up `dims`; false where there are
 * none. Each run of old dimensions that is contiguous within itself may be cut anew; new dimensions
 * may not straddle two runs. */
static bool view_strides(const talc_tensor *tensor, talc_dims dims, int64_t strides[TALC_MAX_RANK])
{
    if (talc_numel(tensor) == 0) {
        talc_shape_strides(dims, strides);
        return true;
    }
    int64_t extents[TALC_MAX_RANK], old[TALC_MAX_RANK];
    memcpy(extents, tensor->dims, sizeof extents);
    memcpy(old, tensor->strides, sizeof old);
    int rank = talc_shape_coalesce(tensor->rank, extents, (int64_t *const[]){ old }, 1);

    memset(strides, 0, sizeof(int64_t) * TALC_MAX_RANK);
    int run = rank - 1;
    int64_t left =
        rank > 0 ? extents[run] : 1; /* elements of the run that no new dimension covers yet */
    int64_t stride = rank > 0 ? old[run] : 1;
    for (int i = dims.rank - 1; i >= 0; i--) {
        strides[i] = stride;
        if (dims.dim[i] == 1)
            continue;
        if (left == 1 && run > 0) {
            run--;
            left = extents[run];
            strides[i] = stride = old[run];
        }
        if (left % dims.dim[i] != 0)
            return false;
        left /= dims.dim[i];
        stride *= dims.dim[i];
    }
    return true;
}

talc_tensor *talc_view(const talc_tensor *tensor, talc_dims dims)
{
    if (talc_operand_missing("view", "tensor", tensor) || !resolve_dims("view", tensor, &dims))
        return NULL;
    int64_t strides[TALC_MAX_RANK];
    if (!view_strides(tensor, dims, strides)) {
        char from[TALC_DIMS_TEXT], to[TALC_DIMS_TEXT], by[TALC_DIMS_TEXT];
        talc_dims steps = { .rank = tensor->rank };
        memcpy(steps.dim, tensor->strides, sizeof steps.dim);
        talc_fail(
            TALC_BAD_SHAPE,
            "view: %s with strides %s cannot be seen as %s without a copy (talc_reshape copies)",
            talc_dims_text(talc_dims_of(tensor), from), talc_dims_text(steps, by),
            talc_dims_text(dims, to));
        return NULL;
    }
    return recorded("view", reshape_gradient, tensor, talc_tensor_view(tensor, dims, strides, 0),
                    NULL, 0);
}

static talc_tensor *reshape(const char *who, const talc_tensor *tensor, talc_dims dims)
{
    if (!resolve_dims(who, tensor, &dims))
        return NULL;
    int64_t strides[TALC_MAX_RANK];
    if (view_strides(tensor, dims, strides))
        return recorded(who, reshape_gradient, tensor, talc_tensor_view(tensor, dims, strides, 0),
                        NULL, 0);
    talc_tensor *packed = talc_clone_for(who, tensor);
    if (packed == NULL)
        return NULL;
    talc_shape_strides(dims, strides);
    talc_tensor *result = talc_tensor_view(packed, dims, strides, 0);
    talc_release(packed);
    return recorded(who, reshape_gradient, tensor, result, NULL, 0);
}

talc_tensor *talc_reshape(const talc_tensor *tensor, talc_dims dims)
{
    return talc_operand_missing("reshape", "tensor", tensor) ? NULL
                                                             : reshape("reshape", tensor, dims);
}

talc_tensor *talc_flatten(const talc_tensor *tensor, int first_dim, int last_dim)
{
    if (talc_operand_missing("flatten", "tensor", tensor))
        return NULL;
    if (tensor->rank == 0)
        return reshape("flatten", tensor, TALC_DIMS(1));
    int first, last;
    if (talc_shape_dim("flatten", first_dim, tensor->rank, &first) != TALC_OK ||
        talc_shape_dim("flatten", last_dim, tensor->rank, &last) != TALC_OK)
        return NULL;
    if (first > last) {
        talc_fail(TALC_BAD_ARGUMENT, "flatten: the first dimension %d comes after the last %d",
                  first, last);
        return NULL;
    }
    talc_dims dims = { .rank = tensor->rank - (last - first) };
    for (int i = 0; i < dims.rank; i++)
        dims.dim[i] = tensor->dims[i <= first ? i : i + last - first];
    for (int i = first + 1; i <= last; i++)
        dims.dim[first] *= tensor->dims[i];
    return reshape("flatten", tensor, dims);
}

talc_tensor *talc_permute(const talc_tensor *tensor, talc_dims axes)
{
    if (talc_operand_missing("permute", "tensor", tensor))
        return NULL;
    char from[TALC_DIMS_TEXT], by[TALC_DIMS_TEXT];
    talc_dims dims = { .rank = tensor->rank }, inverse = dims;
    int64_t strides[TALC_MAX_RANK] = { 0 };
    unsigned seen = 0;
    bool valid = axes.rank == tensor->rank;
    for (int i = 0; i < tensor->rank && valid; i++) {
        int64_t axis = axes.dim[i] < 0 ? axes.dim[i] + tensor->rank : axes.dim[i];
        valid = axis >= 0 && axis < tensor->rank && (seen & (1U << axis)) == 0;
        if (valid) {
            seen |= 1U << axis;
            dims.dim[i] = tensor->dims[axis];
            strides[i] = tensor->strides[axis];
            inverse.dim[axis] = i;
        }
    }
    if (!valid) {
        talc_fail(
            TALC_BAD_ARGUMENT, "permute: axes %s are not a permutation of the %d dimensions of %s",
            talc_dims_text(axes, by), tensor->rank, talc_dims_text(talc_dims_of(tensor), from));
        return NULL;
    }
    return recorded("permute", permute_gradient, tensor, talc_tensor_view(tensor, dims, strides, 0),
                    &inverse, sizeof inverse);
}

talc_tensor *talc_transpose(const talc_tensor *tensor, int dim_a, int dim_b)
{
    int a, b;
    if (talc_operand_missing("transpose", "tensor", tensor) ||
        talc_shape_dim("transpose", dim_a, tensor->rank, &a) != TALC_OK ||
        talc_shape_dim("transpose", dim_b, tensor->rank, &b) != TALC_OK)
        return NULL;
    talc_dims axes = { .rank = tensor->rank };
    for (int i = 0; i < axes.rank; i++)
        axes.dim[i] = i == a ? b : i == b ? a : i;
    return talc_permute(tensor, axes);
}

talc_tensor *talc_slice(const talc_tensor *tensor, int dim, int64_t start, int64_t end,
                        int64_t step)
{
    int axis;
    if (talc_operand_missing("slice", "tensor", tensor) ||
        talc_shape_dim("slice", dim, tensor->rank, &axis) != TALC_OK)
        return NULL;
    if (step < 1) {
        talc_fail(TALC_BAD_ARGUMENT, "slice: step %" PRId64 " must be at least 1", step);
        return NULL;
    }
    int64_t extent = tensor->dims[axis];
    start = talc_between(start < 0 ? start + extent : start, 0, extent);
    end = talc_between(end < 0 ? end + extent : end, start, extent);

    talc_dims dims = talc_dims_of(tensor);
    int64_t strides[TALC_MAX_RANK];
    memcpy(strides, tensor->strides, sizeof strides);
    int64_t length = end - start;
    dims.dim[axis] = length == 0 ? 0 : (length - 1) / step + 1;
    /* One element needs no stride, and a huge step must not overflow it. */
    if (dims.dim[axis] > 1)
        strides[axis] *= step;
    const part shown = { axis, start, end, step, dims };
    talc_tensor *view = talc_tensor_view(tensor, dims, strides,
                                         dims.dim[axis] == 0 ? 0 : start * tensor->strides[axis]);
    return recorded("slice", slice_gradient, tensor, view, &shown, sizeof shown);
}

/* The tensor's shape without one dimension. */
static void drop_dim(const talc_tensor *tensor, int dim, talc_dims *dims,
                     int64_t strides[TALC_MAX_RANK])
{
    memset(strides, 0, sizeof(int64_t) * TALC_MAX_RANK);
    *dims = (talc_dims){ .rank = tensor->rank - 1 };
    for (int i = 0; i < dims->rank; i++) {
        dims->dim[i] = tensor->dims[i < dim ? i : i + 1];
        strides[i] = tensor->strides[i < dim ? i : i + 1];
    }
}

talc_tensor *talc_select(const talc_tensor *tensor, int dim, int64_t index)
{
    int axis;
    if (talc_operand_missing("select", "tensor", tensor) ||
        talc_shape_dim("select", dim, tensor->rank, &axis) != TALC_OK)
        return NULL;
    int64_t counted = index < 0 ? index + tensor->dims[axis] : index;
    if (counted < 0 || counted >= tensor->dims[axis]) {
        talc_fail(TALC_BAD_ARGUMENT,
                  "select: index %" PRId64 " is outside dimension %d of extent %" PRId64, index,
                  axis, tensor->dims[axis]);
        return NULL;
    }
    talc_dims dims;
    int64_t strides[TALC_MAX_RANK];
    drop_dim(tensor, axis, &dims, strides);
    part shown = { axis, counted, counted + 1, 1, talc_dims_of(tensor) };
    shown.dims.dim[axis] = 1;
    talc_tensor *view = talc_tensor_view(tensor, dims, strides, counted * tensor->strides[axis]);
    return recorded("select", slice_gradient, tensor, view, &shown, sizeof shown);
}

talc_tensor *talc_squeeze(const talc_tensor *tensor, int dim)
{
    int axis;
    if (talc_operand_missing("squeeze", "tensor", tensor) ||
        talc_shape_dim("squeeze", dim, tensor->rank, &axis) != TALC_OK)
        return NULL;
    if (tensor->dims[axis] != 1) {
        char text[TALC_DIMS_TEXT];
        talc_fail(TALC_BAD_SHAPE,
                  "squeeze: dimension %d of %s has extent %" PRId64 ", squeeze needs 1", axis,
                  talc_dims_text(talc_dims_of(tensor), text), tensor->dims[axis]);
        return NULL;
    }
    talc_dims dims;
    int64_t strides[TALC_MAX_RANK];
    drop_dim(tensor, axis, &dims, strides);
    return recorded("squeeze", reshape_gradient, tensor, talc_tensor_view(tensor, dims, strides, 0),
                    NULL, 0);
}

talc_tensor *talc_unsqueeze(const talc_tensor *tensor, int dim)
{
    if (talc_operand_missing("unsqueeze", "tensor", tensor))
        return NULL;
    if (tensor->rank == TALC_MAX_RANK) {
        talc_fail(TALC_BAD_SHAPE, "unsqueeze: the tensor has rank %d already, the most there is",
                  TALC_MAX_RANK);
        return NULL;
    }
    int axis = dim < 0 ? dim + tensor->rank + 1 : dim;
    if (axis < 0 || axis > tensor->rank) {
        talc_fail(TALC_BAD_ARGUMENT, "unsqueeze: dimension %d is outside 0..%d", dim, tensor->rank);
        return NULL;
    }
    talc_dims dims = { .rank = tensor->rank + 1 };
    int64_t strides[TALC_MAX_RANK] = { 0 };
    for (int i = 0; i < dims.rank; i++) {
        int from = i < axis ? i : i - 1;
        dims.dim[i] = i == axis ? 1 : tensor->dims[from];
        strides[i] = i == axis ? 1 : tensor->strides[from];
    }
    return recorded("unsqueeze", reshape_gradient, tensor,
                    talc_tensor_view(tensor, dims, strides, 0), NULL, 0);
}

talc_tensor *talc_expand(const talc_tensor *tensor, talc_dims dims)
{
    if (talc_operand_missing("expand", "tensor", tensor))
        return NULL;
    char from[TALC_DIMS_TEXT], to[TALC_DIMS_TEXT];
    const talc_dims given = talc_dims_of(tensor), asked = dims;
    int shift = dims.rank - tensor->rank;
    if (shift < 0 || dims.rank > TALC_MAX_RANK) {
        talc_fail(TALC_BAD_SHAPE, "expand: %s of rank %d cannot become %s of rank %d",
                  talc_dims_text(given, from), tensor->rank, talc_dims_text(asked, to), dims.rank);
        return NULL;
    }
    for (int i = 0; i < dims.rank; i++) {
        int64_t extent = i < shift ? 1 : tensor->dims[i - shift];
        if (dims.dim[i] == -1 && i >= shift)
            dims.dim[i] = extent;
        if (dims.dim[i] < 0) {
            talc_fail(TALC_BAD_SHAPE,
                      "expand: shape %s has the negative dimension %" PRId64
                      " (-1 keeps an extent of %s)",
                      talc_dims_text(asked, to), dims.dim[i], talc_dims_text(given, from));
            return NULL;
        }
        if (dims.dim[i] != extent && extent != 1) {
            talc_fail(TALC_BAD_SHAPE,
                      "expand: %s does not expand to %s: dimension %d has extent %" PRId64
                      ", not 1",
                      talc_dims_text(given, from), talc_dims_text(asked, to), i, extent);
            return NULL;
        }
    }
    int64_t numel;
    if (talc_shape_check("expand", tensor->dtype, dims, &numel) != TALC_OK)
        return NULL;
    int64_t strides[TALC_MAX_RANK];
    talc_shape_broadcast_strides(tensor, dims, strides);
    return recorded("expand", expand_gradient, tensor, talc_tensor_view(tensor, dims, strides, 0),
                    NULL, 0);
}
