#include "ops/reduce.h"

#include "ops/backend.h"
#include "ops/choice.h"
#include "ops/compare.h"
#include "ops/gradient.h"
#include "ops/observed.h"
#include "ops/operand.h"
#include "tensor/observe.h"
#include "tensor/run.h"
#include "tensor/tape.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const names[TALC_REDUCE_COUNT] = { "sum", "mean", "max", "argmax" };

// ---- Checks and shapes --------------------------------------------------------------------------------------

/* Which dimensions go. A scalar has, as in PyTorch, one dimension that may be named. */
static bool reduced_dims(const char *op, const talc_tensor *x, talc_dims axes,
                         bool reduced[TALC_MAX_RANK])
{
    int rank = x->rank == 0 ? 1 : x->rank;
    if (axes.rank < 0 || axes.rank > TALC_MAX_RANK) {
        talc_fail(TALC_BAD_ARGUMENT, "%s: axes has rank %d, outside 0..%d", op, axes.rank,
                  TALC_MAX_RANK);
        return false;
    }
    for (int i = 0; i < rank; i++)
        reduced[i] = axes.rank == 0;
    char text[TALC_DIMS_TEXT];
    for (int i = 0; i < axes.rank; i++) {
        int64_t axis = axes.dim[i];
        if (axis < -rank || axis >= rank) {
            talc_fail(TALC_BAD_ARGUMENT, "%s: axis %" PRId64 " is outside %d..%d of x %s", op, axis,
                      -rank, rank - 1, talc_dims_text(talc_dims_of(x), text));
            return false;
        }
        axis += axis < 0 ? rank : 0;
        if (reduced[axis]) {
            talc_fail(TALC_BAD_ARGUMENT, "%s: axes %s name dimension %" PRId64 " twice", op,
                      talc_dims_text(axes, text), axis);
            return false;
        }
        reduced[axis] = true;
    }
    return true;
}

static talc_dims result_dims(const talc_tensor *x, const bool reduced[TALC_MAX_RANK],
                             bool keep_dims)
{
    talc_dims dims = TALC_SCALAR;
    for (int i = 0; i < x->rank; i++)
        if (!reduced[i] || keep_dims)
            dims.dim[dims.rank++] = reduced[i] ? 1 : x->dims[i];
    return dims;
}

static talc_dtype result_dtype(talc_reduce_function function, talc_dtype dtype)
{
    bool integers =
        function == TALC_ARGMAX || (function == TALC_SUM && !talc_dtype_is_float(dtype));
    return integers ? TALC_I64 : dtype;
}

// ---- Problem ------------------------------------------------------------------------------------------------

static talc_reduce_problem problem_of(talc_reduce_function function, const talc_tensor *x,
                                      const bool reduced[TALC_MAX_RANK])
{
    talc_reduce_problem p = { .function = function,
                              .dtype = x->dtype,
                              .y_dtype = result_dtype(function, x->dtype),
                              .outputs = 1,
                              .K = 1 };
    for (int i = 0; i < x->rank; i++) {
        if (reduced[i]) {
            p.reduced_dims[p.reduced_rank] = x->dims[i];
            p.reduced_strides[p.reduced_rank++] = x->strides[i];
            p.K *= x->dims[i];
        } else {
            p.kept_dims[p.kept_rank] = x->dims[i];
            p.kept_strides[p.kept_rank++] = x->strides[i];
            p.outputs *= x->dims[i];
        }
    }
    p.kept_rank =
        talc_shape_coalesce(p.kept_rank, p.kept_dims, (int64_t *const[]){ p.kept_strides }, 1);
    p.reduced_rank = talc_shape_coalesce(p.reduced_rank, p.reduced_dims,
                                         (int64_t *const[]){ p.reduced_strides }, 1);
    return p;
}

// ---- Run ----------------------------------------------------------------------------------------------------

/* What no element sums up to, and averages to. */
static talc_tensor *without_elements(const char *op, talc_reduce_function function,
                                     const talc_tensor *x, talc_dims dims)
{
    char text[TALC_DIMS_TEXT];
    if (function == TALC_MAX || function == TALC_ARGMAX) {
        talc_fail(TALC_BAD_SHAPE, "%s: x %s has 0 elements to reduce, needs at least 1", op,
                  talc_dims_text(talc_dims_of(x), text));
        return NULL;
    }
    talc_tensor *y = talc_tensor_new(op, x->device, result_dtype(function, x->dtype), dims);
    if (y != NULL && !talc_fill(y, function == TALC_MEAN ? NAN : 0))
        return talc_result(y, talc_error_status());
    return y;
}

static void problem_text(const void *problem, char text[TALC_RUN_TEXT])
{
    const talc_reduce_problem *p = problem;
    snprintf(text, TALC_RUN_TEXT, "outputs%" PRId64 "k%" PRId64 "_%s", p->outputs, p->K,
             talc_dtype_name(p->dtype));
}

// ---- Gradient -----------------------------------------------------------------------------------------------

typedef struct reduce_note {
    talc_reduce_function function;
    int64_t K;
    talc_dims kept; /* x's shape with 1 for each dimension that went */
    bool reduced[TALC_MAX_RANK];
} reduce_note;

/* The index that argmax counts, of each element of the dimensions that went; 1 for each that stayed. */
static talc_tensor *indices_of(const reduce_note *note, talc_dims x, talc_device *device)
{
    talc_tensor *index = talc_zeros(device, TALC_I64, TALC_SCALAR);
    int64_t step = 1;
    for (int i = x.rank - 1; i >= 0; i--) {
        if (!note->reduced[i])
            continue;
        talc_dims along = x;
        for (int k = 0; k < x.rank; k++)
            along.dim[k] = k == i ? x.dim[i] : 1;
        const talc_tensor *counted = talc_arange(device, TALC_I64, 0, (double)x.dim[i], 1);
        index = talc_add(index, talc_mul_scalar(talc_reshape(counted, along), (double)step));
        step *= x.dim[i];
    }
    return index;
}

static void reduce_gradient(const talc_node *node, const talc_tensor *dy, talc_tensor *gradients[])
{
    const reduce_note *note = talc_node_problem(node);
    talc_tensor *each = talc_reshape(dy, note->kept);
    if (note->function == TALC_MEAN && each != NULL)
        each = talc_div_scalar(each, (double)note->K);
    const talc_dims x = talc_node_input_dims(node, 0);
    if (note->function == TALC_MAX && each != NULL)
        gradients[0] = talc_keep_where(
            talc_equal(indices_of(note, x, dy->device), talc_node_saved(node, 0)), each, true);
    else
        gradients[0] = each == NULL ? NULL : talc_expand(each, x);
}

static talc_tensor *reduce(talc_reduce_function function, const talc_tensor *x, talc_dims axes,
                           bool keep_dims);

/* Which element max took, in x's shape with 1 for each dimension that went. */
static talc_tensor *indices_of_largest(const talc_tensor *x, const bool reduced[TALC_MAX_RANK])
{
    talc_dims axes = TALC_SCALAR;
    for (int i = 0; i < x->rank; i++)
        if (reduced[i])
            axes.dim[axes.rank++] = i;
    talc_observer *observer = talc_observe_pause();
    talc_tensor *indices = reduce(TALC_ARGMAX, x, axes, true);
    talc_observe_resume(observer);
    return indices;
}

static talc_tensor *recorded(const talc_reduce_problem *p, const bool reduced[TALC_MAX_RANK],
                             const talc_tensor *x, talc_tensor *y)
{
    if (y == NULL || p->function == TALC_ARGMAX || !talc_tape_wants_one(x))
        return y;
    reduce_note note = { p->function, p->K, result_dims(x, reduced, true), { false } };
    memcpy(note.reduced, reduced, sizeof note.reduced);
    talc_tensor *largest = NULL;
    if (p->function == TALC_MAX && (largest = indices_of_largest(x, reduced)) == NULL)
        return talc_result(y, talc_error_status());
    y = talc_tape_record(y, &(talc_note){ .op = names[p->function],
                                          .rule = reduce_gradient,
                                          .inputs = &x,
                                          .input_count = 1,
                                          .saved = { { "argmax", largest } },
                                          .problem = &note,
                                          .problem_bytes = sizeof note });
    talc_release(largest);
    return y;
}

// ---- The op -------------------------------------------------------------------------------------------------

static talc_tensor *reduce(talc_reduce_function function, const talc_tensor *x, talc_dims axes,
                           bool keep_dims)
{
    const char *op = names[function];
    bool reduced[TALC_MAX_RANK] = { 0 };
    if (talc_operand_missing(op, "x", x) ||
        (function == TALC_MEAN && !talc_operand_float(op, "x", x)) ||
        !reduced_dims(op, x, axes, reduced))
        return NULL;
    talc_dims dims = result_dims(x, reduced, keep_dims);

    talc_reduce_problem problem = problem_of(function, x, reduced);
    if (problem.K == 0)
        return recorded(&problem, reduced, x, without_elements(op, function, x, dims));
    talc_choice choice;
    if (!talc_choose(&choice, op, x->device, x->device->backend->reduce, &problem, NULL, 0))
        return NULL;
    talc_tensor *y = talc_tensor_new(op, x->device, problem.y_dtype, dims);
    if (y == NULL || talc_numel(y) == 0)
        return recorded(&problem, reduced, x, y);
    talc_reduce_arguments arguments = { .y = y->data, .x = x->data };
    y = talc_result(y, talc_choice_run(&choice, problem_text, &problem, &problem, &arguments.base));
    talc_reduce_observed observed = { .function = function };
    memcpy(observed.reduced, reduced, sizeof observed.reduced);
    talc_observed(op, talc_chosen(&choice), &observed, &x, 1, y);
    return recorded(&problem, reduced, x, y);
}

talc_tensor *talc_sum(const talc_tensor *x, talc_dims axes, bool keep_dims)
{
    return reduce(TALC_SUM, x, axes, keep_dims);
}

talc_tensor *talc_mean(const talc_tensor *x, talc_dims axes, bool keep_dims)
{
    return reduce(TALC_MEAN, x, axes, keep_dims);
}

talc_tensor *talc_max(const talc_tensor *x, talc_dims axes, bool keep_dims)
{
    return reduce(TALC_MAX, x, axes, keep_dims);
}

talc_tensor *talc_argmax(const talc_tensor *x, talc_dims axes, bool keep_dims)
{
    return reduce(TALC_ARGMAX, x, axes, keep_dims);
}
