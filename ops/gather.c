#include "ops/gather.h"

#include "ops/labels.h"
#include "ops/observed.h"
#include "ops/op.h"
#include "ops/operand.h"
#include "tensor/within.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const names[] = { "gather", "index_select", "one_hot" };
static const char *const gradient_names[] = { "gather.grad_input", "index_select.grad_input" };

talc_status talc_gather_bad_index(talc_gather_function function, int64_t element, int64_t index,
                                  int64_t extent)
{
    return (function == TALC_ONE_HOT ? talc_bad_label : talc_bad_index)(names[function], element,
                                                                        index, extent);
}

// ---- Checks and shapes --------------------------------------------------------------------------

static bool check_index(const char *op, const char *name, const talc_tensor *index)
{
    if (talc_operand_missing(op, name, index))
        return false;
    if (index->dtype != TALC_I64)
        talc_fail(TALC_BAD_DTYPE, "%s: %s is %s, it must be i64", op, name,
                  talc_dtype_name(index->dtype));
    return !talc_failed();
}

static bool check_operands(const char *op, const talc_tensor *x, int *dim, const talc_tensor *index)
{
    if (talc_operand_missing(op, "x", x) || !check_index(op, "index", index))
        return false;
    if (index->device != x->device) {
        talc_fail(TALC_BAD_DEVICE, "%s: x is on %s, index on %s", op, x->device->name,
                  index->device->name);
        return false;
    }
    return talc_shape_dim(op, *dim, x->rank == 0 ? 1 : x->rank, dim) == TALC_OK;
}

/* y's shape, and whether the index fits x. */
static bool result_dims(talc_gather_function function, const talc_tensor *x, int dim,
                        const talc_tensor *index, talc_dims *dims)
{
    char text[TALC_DIMS_TEXT], index_text[TALC_DIMS_TEXT];
    talc_dims_text(talc_dims_of(x), text);
    talc_dims_text(talc_dims_of(index), index_text);
    if (function == TALC_INDEX_SELECT) {
        *dims = talc_dims_of(x);
        if (index->rank > 1)
            talc_fail(TALC_BAD_SHAPE, "%s: index %s has rank %d, it must be [n] or a scalar",
                      names[function], index_text, index->rank);
        else if (x->rank > 0)
            dims->dim[dim] = talc_numel(index);
        else if (talc_numel(index) != 1)
            talc_fail(TALC_BAD_SHAPE, "%s: index %s has %" PRId64 " elements, x [] takes 1",
                      names[function], index_text, talc_numel(index));
        return !talc_failed();
    }
    *dims = talc_dims_of(index);
    if (index->rank != x->rank)
        talc_fail(TALC_BAD_SHAPE, "%s: index %s has rank %d, x %s has rank %d", names[function],
                  index_text, index->rank, text, x->rank);
    for (int i = 0; i < x->rank && !talc_failed(); i++)
        if (i != dim && index->dims[i] > x->dims[i])
            talc_fail(TALC_BAD_SHAPE,
                      "%s: index %s has %" PRId64 " element%s in dimension %d, x %s has %" PRId64,
                      names[function], index_text, index->dims[i], TALC_PLURAL(index->dims[i]), i,
                      text, x->dims[i]);
    return !talc_failed();
}

// ---- Problem ------------------------------------------------------------------------------------

static void merge(talc_gather_problem *p)
{
    p->rank = talc_shape_coalesce(
        p->rank, p->dims, (int64_t *const[]){ p->y_strides, p->x_strides, p->index_strides }, 3);
}

/* Appends dimensions first .. end - 1 of a problem, merged among themselves. */
static void merge_some(const talc_gather_problem *p, int first, int end, talc_gather_problem *into)
{
    talc_gather_problem some = { .rank = end - first };
    const size_t bytes = (size_t)some.rank * sizeof(int64_t);
    memcpy(some.dims, p->dims + first, bytes);
    memcpy(some.y_strides, p->y_strides + first, bytes);
    memcpy(some.x_strides, p->x_strides + first, bytes);
    memcpy(some.index_strides, p->index_strides + first, bytes);
    merge(&some);
    for (int i = 0; i < some.rank; i++, into->rank++) {
        into->dims[into->rank] = some.dims[i];
        into->y_strides[into->rank] = some.y_strides[i];
        into->x_strides[into->rank] = some.x_strides[i];
        into->index_strides[into->rank] = some.index_strides[i];
    }
}

/* Not merged. `y` has y's shape; strides of x are those that it has, or of dx. */
static talc_gather_problem problem_of(talc_gather_function function, talc_direction direction,
                                      const talc_tensor *x, int dim, const talc_tensor *index,
                                      talc_dims y)
{
    talc_gather_problem p = { .function = function,
                              .direction = direction,
                              .dtype = x->dtype,
                              .rank = y.rank,
                              .extent = x->rank == 0 ? 1 : x->dims[dim],
                              .x_stride = x->rank == 0 ? 1 : x->strides[dim],
                              .index_count = talc_numel(index),
                              .x_count = talc_numel(x),
                              .along = dim };
    int64_t y_step = 1, index_step = 1;
    for (int i = y.rank - 1; i >= 0; i--) {
        const bool counted = function == TALC_GATHER || i == dim;
        p.dims[i] = y.dim[i];
        p.y_strides[i] = y_step;
        p.x_strides[i] = i == dim ? 0 : x->strides[i];
        p.index_strides[i] = counted ? index_step : 0;
        y_step *= y.dim[i];
        index_step *= counted ? y.dim[i] : 1;
    }
    return p;
}

static void write_problem(const void *problem, char text[TALC_RUN_TEXT])
{
    const talc_gather_problem *p = problem;
    snprintf(text, TALC_RUN_TEXT, "n%" PRId64 "of%" PRId64 "_%s", p->index_count, p->extent,
             talc_dtype_name(p->dtype));
}

// ---- Gradient -----------------------------------------------------------------------------------

typedef struct gather_record {
    talc_gather_function function;
    int dim;
} gather_record;

static void gather_gradient(const talc_node *node, const talc_tensor *dy, talc_tensor *gradients[])
{
    const gather_record *record = talc_node_problem(node);
    const char *const op = gradient_names[record->function];
    const talc_tensor *index = talc_node_saved(node, 0);
    talc_tensor *dx = talc_tensor_new(op, dy->device, dy->dtype, talc_node_input_dims(node, 0));
    if (dx == NULL)
        return;
    const talc_gather_problem whole =
        problem_of(record->function, TALC_GRAD_INPUT, dx, record->dim, index, talc_dims_of(dy));
    talc_gather_problem p = whole;
    p.rank = 0;
    if (whole.rank > 0 && talc_numel(dy) > 0)
        merge_some(&whole, 0, record->dim, &p);
    p.along = p.rank++;
    p.dims[p.along] = whole.rank == 0 ? 1 : whole.dims[record->dim];
    p.x_strides[p.along] = 0;
    p.y_strides[p.along] = whole.rank == 0 ? 0 : whole.y_strides[record->dim];
    p.index_strides[p.along] = whole.rank == 0 ? 0 : whole.index_strides[record->dim];
    if (whole.rank > 0 && talc_numel(dy) > 0)
        merge_some(&whole, record->dim + 1, whole.rank, &p);
    gradients[0] = talc_op_run(&(talc_call){
        .op = TALC_OP_gather,
        .name = op,
        .problem = &p,
        .write = write_problem,
        .inputs = { TALC_OPERAND(gather, index, index), TALC_OPERAND(gather, dy, dy) },
        .input_count = 2,
        .outputs = { TALC_OPERAND(gather, dx, dx) },
        .fills = talc_numel(dy) == 0 });
}

// ---- The op -------------------------------------------------------------------------------------

/* y, of elements of x that begin at `x_data`. */
static talc_tensor *picked(talc_gather_problem *p, int dim, const talc_tensor *x,
                           const void *x_data, const talc_tensor *index, talc_dims dims)
{
    const char *op = names[p->function];
    talc_tensor *y = talc_tensor_new(op, x->device, x->dtype, dims);
    if (y != NULL && talc_numel(y) > 0)
        merge(p);
    const gather_record record = { p->function, dim };
    return talc_op_run(
        &(talc_call){ .op = TALC_OP_gather,
                      .name = op,
                      .problem = p,
                      .write = write_problem,
                      .further = &(talc_gather_arguments){ .x = x_data }.base,
                      .inputs = { TALC_SET(x), TALC_OPERAND(gather, index, index) },
                      .input_count = 2,
                      .outputs = { TALC_OPERAND(gather, y, y) },
                      .description = &(talc_gather_observed){ p->function, p->along },
                      .record = &(talc_record){ .op = op,
                                                .rule = gather_gradient,
                                                .inputs = &x,
                                                .input_count = 1,
                                                .saved = { { "index", index } },
                                                .problem = &record,
                                                .problem_bytes = sizeof record } });
}

static talc_tensor *gather(talc_gather_function function, const talc_tensor *x, int dim,
                           const talc_tensor *index)
{
    talc_dims dims;
    if (!check_operands(names[function], x, &dim, index) ||
        !result_dims(function, x, dim, index, &dims))
        return NULL;
    talc_gather_problem p = problem_of(function, TALC_FORWARD, x, dim, index, dims);
    return picked(&p, dim, x, x->data, index, dims);
}

talc_tensor *talc_gather(const talc_tensor *x, int dim, const talc_tensor *index)
{
    return gather(TALC_GATHER, x, dim, index);
}

talc_tensor *talc_index_select(const talc_tensor *x, int dim, const talc_tensor *index)
{
    return gather(TALC_INDEX_SELECT, x, dim, index);
}

/* Rows of the identity matrix, which begin one element apart, backwards, in zeros with a single
 * 1. */
talc_tensor *talc_one_hot(const talc_tensor *labels, int64_t classes)
{
    const char *const op = names[TALC_ONE_HOT];
    if (!check_index(op, "labels", labels))
        return NULL;
    if (classes < 1 || classes > INT64_MAX / 2 || labels->rank == TALC_MAX_RANK) {
        if (labels->rank == TALC_MAX_RANK)
            talc_fail(TALC_BAD_SHAPE,
                      "%s: labels has rank %d, with classes at most %d are possible", op,
                      labels->rank, TALC_MAX_RANK);
        else
            talc_fail(TALC_BAD_ARGUMENT, "%s: classes %" PRId64 " is outside 1..%" PRId64, op,
                      classes, INT64_MAX / 2);
        return NULL;
    }
    talc_dims dims = talc_dims_of(labels);
    dims.dim[dims.rank++] = classes;
    talc_tensor *zeros = talc_tensor_new(op, labels->device, TALC_I64, TALC_DIMS(2 * classes - 1));
    talc_tensor *one = zeros == NULL || !talc_fill(zeros, 0)
                           ? NULL
                           : talc_slice(zeros, 0, classes - 1, classes, 1);
    talc_tensor *y = NULL;
    if (one != NULL && talc_fill(one, 1)) {
        talc_gather_problem p = { .function = TALC_ONE_HOT,
                                  .dtype = TALC_I64,
                                  .rank = 2,
                                  .dims = { talc_numel(labels), classes },
                                  .y_strides = { classes, 1 },
                                  .x_strides = { 0, 1 },
                                  .index_strides = { 1, 0 },
                                  .extent = classes,
                                  .x_stride = -1,
                                  .index_count = talc_numel(labels) };
        y = picked(&p, 0, zeros, one->data, labels, dims);
    }
    talc_release(one);
    talc_release(zeros);
    return y;
}
