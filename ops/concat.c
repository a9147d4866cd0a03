#include "ops/concat.h"

#include "ops/observed.h"
#include "ops/operand.h"
#include "tensor/extent.h"
#include "tensor/memory.h"
#include "tensor/observe.h"
#include "tensor/run.h"
#include "tensor/tape.h"

#include <inttypes.h>
#include <stdio.h>

/* "tensors[3]", as error messages name an operand. */
#define NAME_TEXT 32
static const char *name_of(int index, char text[NAME_TEXT])
{
    snprintf(text, NAME_TEXT, "tensors[%d]", index);
    return text;
}

// ---- Checks -------------------------------------------------------------------------------------

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
    bool fits = next != NULL && next->device == first->device && next->dtype == first->dtype &&
                next->rank == first->rank;
    for (int i = 0; i < first->rank && fits; i++)
        fits = i == dim || next->dims[i] == first->dims[i];
    if (fits) /* before anything is written out */
        return true;
    if (talc_operand_like("concat", "tensors[0]", first, name_of(index, name), next))
        talc_fail(TALC_BAD_SHAPE, "concat: tensors[0] %s and %s %s differ outside dimension %d",
                  talc_dims_text(talc_dims_of(first), text_first), name,
                  talc_dims_text(talc_dims_of(next), text_next), dim);
    return false;
}

static bool result_dims(const talc_tensor *const *tensors, int count, int dim, talc_dims *dims)
{
    *dims = talc_dims_of(tensors[0]);
    for (int i = 1; i < count; i++) {
        if (!check_next(tensors[0], tensors[i], i, dim))
            return false;
        if (!talc_add_checked(dims->dim[dim], tensors[i]->dims[dim], &dims->dim[dim])) {
            talc_fail(TALC_TOO_LARGE, "concat: dimension %d exceeds INT64_MAX at tensors[%d]", dim,
                      i);
            return false;
        }
    }
    return true;
}

// ---- Run ----------------------------------------------------------------------------------------

static bool copy_into_slice(talc_tensor *y, const talc_tensor *tensor, int dim, int64_t start)
{
    talc_tensor *slice = talc_slice(y, dim, start, start + tensor->dims[dim], 1);
    bool copied = slice != NULL && talc_copy_for("concat", slice, tensor);
    talc_release(slice);
    return copied;
}

/* Moves what has been collected, and empties it. */
static talc_status join(talc_join_problem *problem, talc_tensor *y)
{
    const talc_status status =
        problem->count == 0 ? TALC_OK : y->device->interface->join(y->device, problem, y->data);
    problem->count = 0;
    return status;
}

/* Contiguous tensors are rows of bytes, of which the device joins several at once; each other one
 * takes a copy of its own. */
static talc_status fill_in(talc_tensor *y, const talc_tensor *const *tensors, int count, int dim)
{
    size_t inner = talc_dtype_size(y->dtype);
    int64_t rows = 1, start = 0;
    for (int i = 0; i < dim; i++)
        rows *= y->dims[i];
    for (int i = dim + 1; i < y->rank; i++)
        inner *= (size_t)y->dims[i];
    talc_join_problem problem = { .rows = rows, .pitch = (size_t)y->dims[dim] * inner };
    for (int i = 0; i < count; start += tensors[i++]->dims[dim]) {
        const size_t bytes = (size_t)tensors[i]->dims[dim] * inner;
        if (bytes == 0)
            continue;
        if (!talc_is_contiguous(tensors[i])) {
            if (!copy_into_slice(y, tensors[i], dim, start))
                return talc_error_status();
            continue;
        }
        problem.parts[problem.count].from = tensors[i]->data;
        problem.parts[problem.count].start = (size_t)start * inner;
        problem.parts[problem.count++].bytes = bytes;
        if (problem.count == TALC_JOIN_PARTS && join(&problem, y) != TALC_OK)
            return talc_error_status();
    }
    return join(&problem, y);
}

// ---- Gradient -----------------------------------------------------------------------------------

/* The problem is the dimension. */
static void concat_gradient(const talc_node *node, const talc_tensor *dy, talc_tensor *gradients[])
{
    const int dim = *(const int *)talc_node_problem(node);
    const int64_t extent = dy->dims[dim];
    int64_t start = 0;
    for (int i = 0; start < extent; i++) {
        const int64_t end = start + talc_node_input_dims(node, i).dim[dim];
        if (talc_node_wants(node, i))
            gradients[i] = talc_slice(dy, dim, start, end, 1);
        start = end;
    }
}

// ---- The op -------------------------------------------------------------------------------------

talc_tensor *talc_concat(const talc_tensor *const *tensors, int count, int dim)
{
    talc_dims dims;
    if (!check_first(tensors, count) ||
        talc_shape_dim("concat", dim, tensors[0]->rank, &dim) != TALC_OK ||
        !result_dims(tensors, count, dim, &dims))
        return NULL;

    talc_observer *observer = talc_observe_pause();
    talc_tensor *y = talc_tensor_new("concat", tensors[0]->device, tensors[0]->dtype, dims);
    if (y != NULL && talc_numel(y) > 0) {
        const talc_run run = talc_run_begin("concat", y->device, "join", talc_run_dims, y);
        y = talc_result(y, talc_run_end(&run, fill_in(y, tensors, count, dim)));
    }
    talc_observe_resume(observer);
    talc_observed("concat", NULL, &(talc_concat_observed){ dim }, tensors, count, y);
    if (y == NULL || !talc_tape_wants(tensors, count))
        return y;
    return talc_tape_record(y, &(talc_record){ .op = "concat",
                                               .rule = concat_gradient,
                                               .inputs = tensors,
                                               .input_count = count,
                                               .problem = &dim,
                                               .problem_bytes = sizeof dim });
}

// ---- Stack, split, chunk, channel shuffle -------------------------------------------------------

talc_tensor *talc_stack(const talc_tensor *const *tensors, int count, int dim)
{
    if (talc_operand_missing("stack", "tensors", tensors))
        return NULL;
    if (count < 1) {
        talc_fail(TALC_BAD_ARGUMENT, "stack: count is %d, needs at least 1", count);
        return NULL;
    }
    char name[NAME_TEXT], text_first[TALC_DIMS_TEXT], text_next[TALC_DIMS_TEXT];
    for (int i = 0; i < count; i++) {
        if (i == 0 ? talc_operand_missing("stack", name_of(i, name), tensors[i])
                   : !talc_operand_like("stack", "tensors[0]", tensors[0], name_of(i, name),
                                        tensors[i]))
            return NULL;
        if (!talc_shape_equal(talc_dims_of(tensors[0]), talc_dims_of(tensors[i]))) {
            talc_fail(TALC_BAD_SHAPE, "stack: tensors[0] %s and %s %s differ",
                      talc_dims_text(talc_dims_of(tensors[0]), text_first), name,
                      talc_dims_text(talc_dims_of(tensors[i]), text_next));
            return NULL;
        }
    }
    const int rank = tensors[0]->rank;
    if (rank == TALC_MAX_RANK)
        talc_fail(TALC_BAD_SHAPE, "stack: the tensors have rank %d already, the most there is",
                  rank);
    else if (dim < -rank - 1 || dim > rank)
        talc_fail(TALC_BAD_ARGUMENT, "stack: dimension %d is outside 0..%d", dim, rank);
    if (talc_failed())
        return NULL;
    const size_t bytes = (size_t)count * sizeof(talc_tensor *);
    const talc_tensor **raised = talc_memory_new(bytes, "stack");
    bool complete = raised != NULL;
    for (int i = 0; complete && i < count; i++)
        complete = (raised[i] = talc_unsqueeze(tensors[i], dim)) != NULL;
    talc_tensor *y = complete ? talc_concat(raised, count, dim < 0 ? dim + rank + 1 : dim) : NULL;
    for (int i = 0; raised != NULL && i < count; i++)
        talc_release((talc_tensor *)raised[i]);
    talc_memory_free(raised);
    return y;
}

static void release_parts(talc_tensor **parts, int count)
{
    for (int i = 0; i < count; i++) {
        talc_release(parts[i]);
        parts[i] = NULL;
    }
}

/* The checks of split; the parts are NULL. */
static bool check_split(const talc_tensor *x, const int64_t *sizes, int count, int dim, int *axis)
{
    int64_t total = 0;
    if (talc_operand_missing("split", "x", x) || talc_operand_missing("split", "sizes", sizes) ||
        talc_shape_dim("split", dim, x->rank, axis) != TALC_OK)
        return false;
    for (int i = 0; i < count; i++) {
        if (sizes[i] < 0 || !talc_add_checked(total, sizes[i], &total)) {
            talc_fail(TALC_BAD_ARGUMENT,
                      "split: sizes[%d] is %" PRId64 ", dimension %d has extent %" PRId64, i,
                      sizes[i], *axis, x->dims[*axis]);
            return false;
        }
    }
    if (total != x->dims[*axis])
        talc_fail(TALC_BAD_ARGUMENT,
                  "split: the %d sizes add up to %" PRId64 ", dimension %d has extent %" PRId64,
                  count, total, *axis, x->dims[*axis]);
    return !talc_failed();
}

bool talc_split(const talc_tensor *x, const int64_t *sizes, int count, int dim, talc_tensor **parts)
{
    int axis;
    for (int i = 0; parts != NULL && i < count; i++)
        parts[i] = NULL;
    if (talc_operand_missing("split", "parts", parts) || !check_split(x, sizes, count, dim, &axis))
        return false;
    int64_t start = 0;
    for (int i = 0; i < count; start += sizes[i++]) {
        parts[i] = talc_slice(x, axis, start, start + sizes[i], 1);
        if (parts[i] == NULL) {
            release_parts(parts, i);
            return false;
        }
    }
    return true;
}

int talc_chunk(const talc_tensor *x, int chunks, int dim, talc_tensor **parts)
{
    int axis;
    for (int i = 0; parts != NULL && i < chunks; i++)
        parts[i] = NULL;
    if (talc_operand_missing("chunk", "x", x) || talc_operand_missing("chunk", "parts", parts) ||
        talc_shape_dim("chunk", dim, x->rank, &axis) != TALC_OK)
        return 0;
    if (chunks < 1) {
        talc_fail(TALC_BAD_ARGUMENT, "chunk: chunks is %d, needs at least 1", chunks);
        return 0;
    }
    const int64_t extent = x->dims[axis], size = talc_ceil_div(extent, chunks);
    const int count = size == 0 ? chunks : (int)talc_ceil_div(extent, size);
    for (int i = 0; i < count; i++) {
        parts[i] = talc_slice(x, axis, i * size, talc_smaller((i + 1) * size, extent), 1);
        if (parts[i] == NULL) {
            release_parts(parts, i);
            return 0;
        }
    }
    return count;
}

talc_tensor *talc_channel_shuffle(const talc_tensor *x, int64_t groups)
{
    char text[TALC_DIMS_TEXT];
    if (talc_operand_missing("channel_shuffle", "x", x))
        return NULL;
    if (x->rank < 3 || x->rank == TALC_MAX_RANK) {
        talc_fail(TALC_BAD_SHAPE, "channel_shuffle: x %s has rank %d, needs 3 to %d: [N,C,...]",
                  talc_dims_text(talc_dims_of(x), text), x->rank, TALC_MAX_RANK - 1);
        return NULL;
    }
    if (groups < 1 || x->dims[1] % groups != 0) {
        talc_fail(TALC_BAD_ARGUMENT,
                  "channel_shuffle: x %s has %" PRId64
                  " channels, not a multiple of groups %" PRId64,
                  talc_dims_text(talc_dims_of(x), text), x->dims[1], groups);
        return NULL;
    }
    talc_dims grouped = { .rank = x->rank + 1, .dim = { x->dims[0], groups, x->dims[1] / groups } };
    for (int i = 2; i < x->rank; i++)
        grouped.dim[i + 1] = x->dims[i];
    talc_tensor *apart = talc_reshape(x, grouped);
    talc_tensor *transposed = apart == NULL ? NULL : talc_transpose(apart, 1, 2);
    talc_tensor *y = transposed == NULL ? NULL : talc_reshape(transposed, talc_dims_of(x));
    talc_release(apart);
    talc_release(transposed);
    return y;
}
