#include "ops/reduce.h"

#include "ops/compare.h"
#include "ops/gather.h"
#include "ops/gradient.h"
#include "ops/observed.h"
#include "ops/op.h"
#include "ops/operand.h"
#include "tensor/fenv.h"
#include "tensor/scope.h"
#include "tensor/within.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const names[TALC_REDUCE_COUNT] = { "sum", "mean",   "max", "argmax",
                                                      "min", "argmin", "var", "logsumexp" };

static bool is_index(talc_reduce_function function)
{
    return function == TALC_ARGMAX || function == TALC_ARGMIN;
}

static bool needs_an_element(talc_reduce_function function)
{
    return is_index(function) || function == TALC_MAX || function == TALC_MIN;
}

static bool needs_floats(talc_reduce_function function)
{
    return function == TALC_MEAN || function == TALC_VAR || function == TALC_LOGSUMEXP;
}

// ---- Checks and shapes --------------------------------------------------------------------------

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
    bool integers = is_index(function) || (function == TALC_SUM && !talc_dtype_is_float(dtype));
    return integers ? TALC_I64 : dtype;
}

// ---- Problem ------------------------------------------------------------------------------------

static talc_reduce_problem problem_of(talc_reduce_function function, const talc_tensor *x,
                                      const bool reduced[TALC_MAX_RANK], double correction)
{
    talc_reduce_problem p = { .function = function,
                              .correction = correction,
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

// ---- Run ----------------------------------------------------------------------------------------

/* What no element sums up to, and averages to. */
static talc_tensor *without_elements(const char *op, talc_reduce_function function,
                                     const talc_tensor *x, talc_dims dims)
{
    char text[TALC_DIMS_TEXT];
    if (needs_an_element(function)) {
        talc_fail(TALC_BAD_SHAPE, "%s: x %s has 0 elements to reduce, needs at least 1", op,
                  talc_dims_text(talc_dims_of(x), text));
        return NULL;
    }
    talc_tensor *y = talc_tensor_new(op, x->device, result_dtype(function, x->dtype), dims);
    const double of_nothing = function == TALC_SUM         ? 0
                              : function == TALC_LOGSUMEXP ? (double)-INFINITY
                                                           : NAN;
    if (y != NULL && !talc_fill(y, of_nothing))
        return talc_result(y, talc_error_status());
    return y;
}

static void problem_text(const void *problem, char text[TALC_RUN_TEXT])
{
    const talc_reduce_problem *p = problem;
    snprintf(text, TALC_RUN_TEXT, "outputs%" PRId64 "k%" PRId64 "_%s", p->outputs, p->K,
             talc_dtype_name(p->dtype));
}

// ---- Gradient -----------------------------------------------------------------------------------

typedef struct reduce_record {
    talc_reduce_function function;
    double divisor;
    talc_dims kept; /* x's shape with 1 for each dimension that went */
    bool reduced[TALC_MAX_RANK];
} reduce_record;

/* The dimensions that went. */
static talc_dims axes_of(const reduce_record *record, talc_dims x)
{
    talc_dims axes = TALC_SCALAR;
    for (int i = 0; i < x.rank; i++)
        if (record->reduced[i])
            axes.dim[axes.rank++] = i;
    return axes;
}

static void reduce_gradient(const talc_node *node, const talc_tensor *dy, talc_tensor *gradients[])
{
    const reduce_record *record = talc_node_problem(node);
    const talc_tensor *saved = talc_node_saved(node, 0), *ties, *deviations;
    talc_tensor *each = talc_reshape(dy, record->kept);
    const talc_dims x = talc_node_input_dims(node, 0);
    if (each == NULL)
        return;
    switch (record->function) {
    case TALC_MAX:
    case TALC_MIN:
        ties = talc_cast(talc_equal(saved, talc_reshape(talc_node_saved(node, 1), record->kept)),
                         dy->dtype);
        gradients[0] = talc_mul(ties, talc_div(each, talc_sum(ties, axes_of(record, x), true)));
        return;
    case TALC_VAR: /* of no elements there is no mean, and nothing that needs one */
        deviations = talc_sub(saved, talc_mean(saved, axes_of(record, x), true));
        /* What the mean lost when it was rounded, which all of them have. */
        deviations = talc_sub(deviations, talc_mean(deviations, axes_of(record, x), true));
        gradients[0] = talc_mul(talc_mul_scalar(each, 2 / record->divisor), deviations);
        return;
    case TALC_LOGSUMEXP:
        gradients[0] = talc_mul(
            each, talc_exp(talc_sub(saved, talc_reshape(talc_node_saved(node, 1), record->kept))));
        return;
    default: /* a sum or a mean */
        gradients[0] =
            talc_expand(record->divisor == 1 ? each : talc_div_scalar(each, record->divisor), x);
    }
}

/* What the rule needs of a call whose result is y. `record` and `inputs` last as long as it. */
static talc_record record_of(const talc_reduce_problem *p, const reduce_record *record,
                             const talc_tensor *const *inputs, const talc_tensor *y)
{
    const bool saves_x = p->function != TALC_SUM && p->function != TALC_MEAN;
    const bool saves_y = needs_an_element(p->function) || p->function == TALC_LOGSUMEXP;
    return (
        talc_record){ .op = names[p->function],
                      .rule = reduce_gradient,
                      .inputs = inputs,
                      .input_count = is_index(p->function) ? 0 : 1,
                      .saved = { { "x", saves_x ? inputs[0] : NULL }, { "y", saves_y ? y : NULL } },
                      .problem = record,
                      .problem_bytes = sizeof *record };
}

// ---- The op -------------------------------------------------------------------------------------

static talc_tensor *reduce(talc_reduce_function function, const talc_tensor *x, talc_dims axes,
                           double correction, bool keep_dims)
{
    const char *op = names[function];
    bool reduced[TALC_MAX_RANK] = { 0 };
    if (talc_operand_missing(op, "x", x) ||
        (needs_floats(function) && !talc_operand_float(op, "x", x)) ||
        !reduced_dims(op, x, axes, reduced))
        return NULL;
    talc_dims dims = result_dims(x, reduced, keep_dims);

    talc_reduce_problem problem = problem_of(function, x, reduced, correction);
    reduce_record kept = {
        function, talc_reduce_divisor(&problem), result_dims(x, reduced, true), { false }
    };
    memcpy(kept.reduced, reduced, sizeof kept.reduced);
    if (problem.K == 0) {
        talc_tensor *y = without_elements(op, function, x, dims);
        const talc_record record = record_of(&problem, &kept, &x, y);
        return y != NULL && talc_tape_wants(&x, record.input_count) ? talc_tape_record(y, &record)
                                                                    : y;
    }
    talc_reduce_observed observed = { .function = function, .correction = correction };
    memcpy(observed.reduced, reduced, sizeof observed.reduced);
    talc_tensor *y = talc_tensor_new(op, x->device, problem.y_dtype, dims);
    const talc_record record = record_of(&problem, &kept, &x, y);
    return talc_op_run(&(talc_call){ .op = TALC_OP_reduce,
                                     .name = op,
                                     .problem = &problem,
                                     .write = problem_text,
                                     .inputs = { TALC_HANDED(reduce, x, x, TALC_STRIDED) },
                                     .input_count = 1,
                                     .outputs = { TALC_OPERAND(reduce, y, y) },
                                     .description = &observed,
                                     .record = &record });
}

#define REDUCTION(name, function)                                                                  \
    talc_tensor *talc_##name(const talc_tensor *x, talc_dims axes, bool keep_dims)                 \
    {                                                                                              \
        return reduce(function, x, axes, 0, keep_dims);                                            \
    }

REDUCTION(sum, TALC_SUM)
REDUCTION(mean, TALC_MEAN)
REDUCTION(max, TALC_MAX)
REDUCTION(argmax, TALC_ARGMAX)
REDUCTION(min, TALC_MIN)
REDUCTION(argmin, TALC_ARGMIN)
REDUCTION(logsumexp, TALC_LOGSUMEXP)

talc_tensor *talc_var(const talc_tensor *x, talc_dims axes, double correction, bool keep_dims)
{
    TALC_DEFAULT_FENV;
    if (!talc_failed() && !(correction >= 0 && isfinite(correction))) {
        talc_fail(TALC_BAD_ARGUMENT, "var: correction %g must be finite and at least 0",
                  correction);
        return NULL;
    }
    return reduce(TALC_VAR, x, axes, correction, keep_dims);
}

// ---- Extremes with their indices ----------------------------------------------------------------

/* What stands where `found` says is gathered: a K-th of x. */
static talc_tensor *with_indices(const char *op, talc_reduce_function found, const talc_tensor *x,
                                 int axis, bool keep_dims, talc_tensor **indices)
{
    if (talc_operand_missing(op, "indices", indices))
        return NULL;
    *indices = NULL;
    if (talc_operand_missing(op, "x", x))
        return NULL;
    const char *around = talc_within(op);
    talc_scope *scope = talc_scope_enter();
    talc_tensor *at = reduce(found, x, TALC_DIMS(axis), 0, true);
    talc_tensor *y = at == NULL ? NULL : talc_gather(x, axis, at);
    if (y != NULL && !keep_dims && x->rank > 0) {
        y = talc_squeeze(y, axis);
        at = talc_squeeze(at, axis);
    }
    if (y != NULL && at != NULL)
        *indices = talc_scope_return(scope, at);
    y = talc_scope_return(scope, at == NULL ? NULL : y);
    talc_scope_leave(scope);
    talc_within(around);
    return y;
}

talc_tensor *talc_max_indices(const talc_tensor *x, int axis, bool keep_dims, talc_tensor **indices)
{
    return with_indices("max", TALC_ARGMAX, x, axis, keep_dims, indices);
}

talc_tensor *talc_min_indices(const talc_tensor *x, int axis, bool keep_dims, talc_tensor **indices)
{
    return with_indices("min", TALC_ARGMIN, x, axis, keep_dims, indices);
}
