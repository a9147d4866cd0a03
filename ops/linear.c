#include "ops/linear.h"

#include "ops/gradient.h"
#include "ops/matmul_run.h"
#include "ops/op.h"
#include "ops/operand.h"
#include "ops/reduce.h"
#include "tensor/observe.h"

#include <inttypes.h>
#include <string.h>

// ---- Checks -------------------------------------------------------------------------------------

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
        talc_fail(TALC_BAD_SHAPE,
                  "linear: x %s has %" PRId64 " feature%s, weight %s needs %" PRId64,
                  talc_dims_text(talc_dims_of(x), text_x), features, TALC_PLURAL(features),
                  talc_dims_text(talc_dims_of(weight), text_weight), weight->dims[1]);
    return features == weight->dims[1];
}

/* An operand that is added: of x's type and place, and of exactly this shape. */
static bool check_addend(const talc_tensor *x, const char *name, const talc_tensor *addend,
                         talc_dims expected)
{
    if (addend == NULL)
        return true;
    return talc_operand_like("linear", "x", x, name, addend) &&
           talc_operand_shape("linear", name, addend, expected);
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

// ---- Problem ------------------------------------------------------------------------------------

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

// ---- Gradient -----------------------------------------------------------------------------------

typedef struct linear_record {
    unsigned precision;
    talc_activation activation;
} linear_record;

/* x, weight, bias, residual. The leading dimensions are one, so that dweight is one product. */
static void linear_gradient(const talc_node *node, const talc_tensor *dy, talc_tensor *gradients[])
{
    const linear_record *record = talc_node_problem(node);
    const talc_tensor *x = talc_node_saved(node, 0), *weight = talc_node_saved(node, 1);
    talc_tensor *g = talc_activation_gradient(record->activation, dy, talc_node_saved(node, 2));
    const talc_dims x_dims = talc_node_input_dims(node, 0);
    const int64_t out = dy->dims[dy->rank - 1], in = x_dims.dim[x_dims.rank - 1];
    talc_dims leading = x_dims;
    leading.rank--;
    const int64_t rows = talc_shape_numel(leading);
    talc_tensor *flat = g == NULL ? NULL : talc_reshape(g, TALC_DIMS(rows, out));
    if (flat == NULL)
        return;
    if (talc_node_wants(node, 0)) {
        talc_tensor *dx = talc_matmul_for("linear.grad_input", flat, weight, record->precision);
        gradients[0] = dx == NULL ? NULL : talc_reshape(dx, x_dims);
    }
    if (talc_node_wants(node, 1)) {
        const talc_tensor *x_rows = talc_reshape(x, TALC_DIMS(rows, in));
        const talc_tensor *flat_transposed = x_rows == NULL ? NULL : talc_transpose(flat, 0, 1);
        gradients[1] =
            flat_transposed == NULL
                ? NULL
                : talc_matmul_for("linear.grad_weight", flat_transposed, x_rows, record->precision);
    }
    if (talc_node_wants(node, 2))
        gradients[2] = talc_sum(flat, TALC_DIMS(0), false);
    gradients[3] = g;
}

// ---- The op -------------------------------------------------------------------------------------

talc_tensor *talc_linear(const talc_tensor *x, const talc_tensor *weight, const talc_tensor *bias,
                         const talc_linear_options *options)
{
    const talc_linear_options defaults = { 0 };
    options = options == NULL ? &defaults : options;
    talc_dims dims;
    if (!check_operands(x, weight, bias, options, &dims) ||
        !talc_operand_precision("linear", options->precision))
        return NULL;

    const talc_tensor *const inputs[] = { x, weight, bias, options->residual };
    if (!talc_activation_gradient_from_result(options->activation) && talc_tape_wants(inputs, 4)) {
        talc_linear_options plain = *options;
        plain.activation = TALC_ACTIVATION_NONE;
        return talc_activated(options->activation, talc_linear(x, weight, bias, &plain));
    }

    talc_tensor *y = talc_tensor_new("linear", x->device, x->dtype, dims);
    talc_observer *observer = talc_observe_pause();
    talc_tensor *x_used = y == NULL ? NULL : multipliable(x);
    talc_tensor *weight_used = x_used == NULL ? NULL : multipliable(weight);
    talc_observe_resume(observer);
    talc_matmul_problem problem = { 0 };
    if (weight_used != NULL)
        problem = problem_of(x_used, weight_used, bias != NULL, options);
    talc_matmul_arguments arguments = { .a = talc_operand_data(x_used),
                                        .b = talc_operand_data(weight_used) };
    const linear_record noted = { options->precision != 0 ? options->precision
                                                          : talc_precision_admitted(),
                                  options->activation };
    const bool activates = options->activation != TALC_ACTIVATION_NONE;
    y = talc_op_run(&(talc_call){
        .op = TALC_OP_matmul,
        .name = "linear",
        .problem = &problem,
        .write = talc_matmul_text,
        .forced = options->algorithm,
        .precision = options->precision,
        .further = &arguments.base,
        .inputs = { TALC_SET(x), TALC_SET(weight), TALC_OPERAND(matmul, bias, bias),
                    TALC_OPERAND(matmul, residual, options->residual) },
        .input_count = 4,
        .outputs = { TALC_OPERAND(matmul, y, y) },
        .record = &(talc_record){ .op = "linear",
                                  .rule = linear_gradient,
                                  .inputs = inputs,
                                  .input_count = 4,
                                  .saved = { { "x", talc_tape_wants_one(weight) ? x : NULL },
                                             { "weight", talc_tape_wants_one(x) ? weight : NULL },
                                             { "y", activates ? y : NULL } },
                                  .problem = &noted,
                                  .problem_bytes = sizeof noted } });
    talc_release(x_used);
    talc_release(weight_used);
    return y;
}
