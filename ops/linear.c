#include "ops/linear.h"

#include "ops/matmul_run.h"
#include "ops/operand.h"
#include "tensor/observe.h"

#include <inttypes.h>
#include <string.h>

// ---- Checks -------------------------------------------------------------------------------------------------

static bool check_features(const talc_tensor *x, const talc_tensor *weight)
{
    char text_x[TALC_DIMS_TEXT], text_weight[TALC_DIMS_TEXT];
    if (x->rank == 0) {
        talc_fail(TALC_BAD_SHAPE, "linear: x [] has rank 0, needs at least 1");
        return false;
    }
    if (!talc_operand_rank("linear", "weight", weight, 2, "[out,in]"))
        return false;
    int64_t features = x->dims[x->rank - 1];
    if (features != weight->dims[1])
        talc_fail(TALC_BAD_SHAPE, "linear: x %s has %" PRId64 " features, weight %s needs %" PRId64,
                  talc_dims_text(talc_dims_of(x), text_x), features,
                  talc_dims_text(talc_dims_of(weight), text_weight), weight->dims[1]);
    return features == weight->dims[1];
}

/* An operand that is added: of x's type and place, and of exactly this shape. */
static bool check_addend(const talc_tensor *x, const char *name, const talc_tensor *addend,
                         talc_dims due)
{
    if (addend == NULL)
        return true;
    return talc_operand_like("linear", "x", x, name, addend) &&
           talc_operand_shape("linear", name, addend, due);
}

static bool check_operands(const talc_tensor *x, const talc_tensor *weight, const talc_tensor *bias,
                           const talc_linear_options *options, talc_dims *dims)
{
    if (!talc_operand_float("linear", "x", x) ||
        !talc_operand_like("linear", "x", x, "weight", weight) || !check_features(x, weight))
        return false;
    *dims = talc_dims_of(x);
    dims->dim[dims->rank - 1] = weight->dims[0];
    return check_addend(x, "bias", bias, TALC_DIMS(weight->dims[0])) &&
           check_addend(x, "residual", options->residual, *dims) &&
           talc_operand_activation("linear", options->activation);
}

// ---- Problem ------------------------------------------------------------------------------------------------

/* The leading dimensions of x as the rows of a matrix, if one stride serves them all. */
static bool rows_layout(const talc_tensor *x, bool *transposed, int64_t *ld)
{
    int last = x->rank - 1;
    int64_t dims[TALC_MAX_RANK], strides[TALC_MAX_RANK];
    memcpy(dims, x->dims, sizeof dims);
    memcpy(strides, x->strides, sizeof strides);
    int rank = talc_shape_coalesce(last, dims, (int64_t *const[]){ strides }, 1);
    return rank <= 1 &&
           talc_matmul_layout(rank == 0 ? 1 : dims[0], x->dims[last], rank == 0 ? 1 : strides[0],
                              x->strides[last], transposed, ld);
}

/* The operand itself where a product can read it so, else a contiguous copy. */
static talc_tensor *multipliable(const talc_tensor *tensor)
{
    bool transposed;
    int64_t ld;
    return rows_layout(tensor, &transposed, &ld) ? talc_retain((talc_tensor *)tensor)
                                                 : talc_contiguous_for("linear", tensor);
}

static talc_matmul_problem problem_of(const talc_tensor *x, const talc_tensor *weight, bool bias,
                                      const talc_linear_options *options)
{
    talc_matmul_problem p = { .dtype = x->dtype,
                              .M = 1,
                              .N = weight->dims[0],
                              .K = weight->dims[1],
                              .batch = 1,
                              .bias = bias,
                              .residual = options->residual != NULL,
                              .activation = options->activation };
    for (int i = 0; i < x->rank - 1; i++)
        p.M *= x->dims[i];
    bool weight_transposed;
    rows_layout(x, &p.transpose_a, &p.lda);
    rows_layout(weight, &weight_transposed, &p.ldb);
    p.transpose_b = !weight_transposed; /* weight is [N, K] */
    return p;
}

// ---- The op -------------------------------------------------------------------------------------------------

talc_tensor *talc_linear(const talc_tensor *x, const talc_tensor *weight, const talc_tensor *bias,
                         const talc_linear_options *options)
{
    const talc_linear_options defaults = { 0 };
    options = options == NULL ? &defaults : options;
    talc_dims dims;
    if (!check_operands(x, weight, bias, options, &dims) ||
        !talc_operand_precision("linear", options->precision))
        return NULL;

    talc_observer *observer = talc_observe_pause();
    talc_tensor *y = talc_tensor_new("linear", x->device, x->dtype, dims);
    talc_tensor *x_used = y == NULL ? NULL : multipliable(x);
    talc_tensor *weight_used = x_used == NULL ? NULL : multipliable(weight);
    talc_tensor *bias_used =
        talc_operand_contiguous("linear", bias); /* nothing is made while a failure stands */
    talc_tensor *residual_used = talc_operand_contiguous("linear", options->residual);
    talc_matmul_problem problem = { 0 };
    const talc_algorithm *row = NULL;
    talc_status status = talc_error_status();
    if (status == TALC_OK) {
        problem = problem_of(x_used, weight_used, bias != NULL, options);
        talc_matmul_arguments arguments = { .y = y->data,
                                            .a = x_used->data,
                                            .b = weight_used->data,
                                            .bias = talc_operand_data(bias_used),
                                            .residual = talc_operand_data(residual_used) };
        status = talc_matmul_run("linear", x->device, options->algorithm, options->precision,
                                 &problem, &arguments, &row);
    }
    talc_release(x_used);
    talc_release(weight_used);
    talc_release(bias_used);
    talc_release(residual_used);
    talc_observe_resume(observer);
    y = talc_result(y, status);
    talc_observed("linear", row, &problem,
                  (const talc_tensor *const[]){ x, weight, bias, options->residual }, 4, y);
    return y;
}
