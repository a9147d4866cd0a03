/* Every op's gradient against central differences in float64, and what the tape promises. */
#include "tests/support/hooks.h"
#include "tests/support/unary_cases.h"
#include "tools/cli/gradient_cases.h"

#include <math.h>

/* An op on up to four inputs; `low` and `high` bound their elements, of which none is nearer than
 * 1e-3 to a kink at 0. */
typedef struct differentiable_case {
    const char *name;
    talc_differentiable *f;
    int count;
    talc_dims dims[4];
    double low, high;
} differentiable_case;

/* Weights of four classes. */
static talc_tensor *classes(const talc_tensor *x)
{
    return talc_arange(x->device, TALC_F64, 1, 5, 1);
}

/* Labels 0, 3, 2, 1, 0, ... of up to four classes. */
static talc_tensor *labels_of(const talc_tensor *x)
{
    int64_t labels[64], count = 1;
    talc_dims dims = { 0 };
    for (int i = 0; i < x->rank; i++)
        if (x->rank > 1 && i != 1)
            count *= dims.dim[dims.rank++] = x->dims[i];
    for (int64_t i = 0; i < count; i++)
        labels[i] = i * 3 % 4;
    return talc_from_host(x->device, TALC_I64, dims, labels);
}

static talc_tensor *nll(const talc_tensor *x, const talc_tensor *weight, talc_reduction reduction,
                        int64_t ignored)
{
    return talc_nll_loss(
        x, labels_of(x),
        &(talc_nll_loss_options){ reduction, .ignore_index = ignored, .weight = weight });
}

static talc_tensor *entropy(const talc_tensor *x, talc_cross_entropy_options options)
{
    return talc_cross_entropy_with(x, labels_of(x), &options);
}

/* Batch norm, outside training by the means 0, 1, 2 and the variances 1, 2, 3 ... */
static talc_tensor *batch_norm(talc_tensor *const x[], bool affine,
                               talc_batch_norm2d_options options)
{
    const double C = (double)x[0]->dims[1];
    const talc_tensor *mean = talc_arange(x[0]->device, TALC_F64, 0, C, 1);
    talc_tensor *weight = affine ? x[1] : NULL, *bias = affine ? x[2] : NULL;
    if (options.training)
        return talc_batch_norm2d(x[0], weight, bias, NULL, NULL, &options);
    return talc_batch_norm2d(x[0], weight, bias, talc_mul_scalar(mean, 1), talc_add_scalar(mean, 1),
                             &options);
}

#define F(name, expression)                                                                        \
    static talc_tensor *name(talc_tensor *const x[], void *context)                                \
    {                                                                                              \
        (void)context;                                                                             \
        return expression;                                                                         \
    }

F(f_tanh, talc_tanh(x[0]))
F(f_abs, talc_abs(x[0]))
F(f_relu6, talc_relu6(x[0]))
F(f_leaky_relu, talc_leaky_relu(x[0], 0.25))
F(f_elu, talc_elu(x[0], 1.5))
F(f_hardtanh, talc_hardtanh(x[0], -1, 2))
F(f_hardsigmoid, talc_hardsigmoid(x[0]))
F(f_hardswish, talc_hardswish(x[0]))
F(f_silu, talc_silu(x[0]))
F(f_gelu, talc_gelu(x[0]))
F(f_gelu_tanh, talc_gelu_tanh(x[0]))
F(f_mish, talc_mish(x[0]))
F(f_sign, talc_sign(x[0]))
F(f_floor, talc_floor(x[0]))
F(f_ceil, talc_ceil(x[0]))
F(f_round, talc_round(x[0]))
F(f_reciprocal, talc_reciprocal(x[0]))
F(f_erf, talc_erf(x[0]))
F(f_selu, talc_selu(x[0]))
F(f_softsign, talc_softsign(x[0]))
F(f_hardsigmoid_ramp, talc_hardsigmoid_ramp(x[0], 0.25, 0.5))
F(f_hardswish_ramp, talc_hardswish_ramp(x[0], 0.25, 0.5))
F(f_rsqrt, talc_rsqrt(x[0]))
F(f_pow, talc_pow(x[0], x[1]))
F(f_prelu, talc_prelu(x[0], talc_slice(x[1], 0, 0, 1, 1)))
/* Inputs of which one is near 0 and the other not, so that neither step crosses the kink. */
F(f_maximum, talc_maximum(x[0], x[1]))
F(f_larger, talc_maximum(x[0], talc_mul_scalar(x[1], 1e-3)))
F(f_minimum, talc_minimum(x[0], x[1]))
F(f_clamp, talc_clamp(x[0], -0.5, 0.75))
F(f_where, talc_where(talc_less(x[2], talc_mul_scalar(x[3], 1e-3)), talc_tanh(x[0]), x[1]))
F(f_mul, talc_mul(x[0], x[1]))
#define POOL(...)                                                                                  \
    &(talc_pool2d_options)                                                                         \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define NORM(...)                                                                                  \
    (talc_batch_norm2d_options)                                                                    \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
F(f_max_pool, talc_max_pool2d(x[0], POOL(.kernel = { 3, 3 }, .stride = { 2, 2 },
                                         .padding = { 1, 1 }, .ceil_mode = true)))
F(f_adaptive, talc_adaptive_avg_pool2d(x[0], 3, 5))
F(f_adaptive_max, talc_adaptive_max_pool2d(x[0], 3, 5))
F(f_norm, batch_norm(x, true, NORM(.training = true)))
F(f_max_ties, talc_max(talc_view(x[0], TALC_DIMS(2, 2)), TALC_SCALAR, false))
static const talc_tensor *some(const talc_tensor *x, talc_dims dims)
{
    const talc_tensor *three = talc_arange(x->device, TALC_I64, 0, 3, 1);
    return talc_expand(talc_reshape(three, TALC_DIMS(1, 3, 1)), dims);
}
F(f_masked_fill, talc_masked_fill(talc_tanh(x[0]), talc_less_scalar(x[1], 0), 0.5))
F(f_min_ties, talc_min(talc_view(x[0], TALC_DIMS(2, 2)), TALC_SCALAR, false))
F(f_var_nothing, talc_var(talc_view(x[0], TALC_DIMS(2, 2)), TALC_DIMS(1), 2, false))
F(f_logsumexp_pairs, talc_logsumexp(talc_view(x[0], TALC_DIMS(2, 2)), TALC_DIMS(1), false))
F(f_mse, talc_mse_loss(x[0], x[1], TALC_REDUCTION_MEAN))
F(f_smooth_l1, talc_smooth_l1_loss(x[0], x[1], 1.2, TALC_REDUCTION_NONE))
F(f_logits, talc_binary_cross_entropy_with_logits(x[0], x[1], NULL))
F(f_nll_none, nll(x[0], classes(x[0]), TALC_REDUCTION_NONE, TALC_ZERO))
#define ENTROPY(...) entropy(x[0], (talc_cross_entropy_options){ __VA_ARGS__ })
F(f_entropy_smooth, ENTROPY(.label_smoothing = 0.3, .ignore_index = 2))
F(f_response,
  talc_local_response_norm(x[0], 3, &(talc_local_response_norm_options){ .alpha = 0.5 }))
F(f_matmul, talc_matmul(x[0], x[1]))
F(f_linear, talc_linear(x[0], x[1], x[2], NULL))

#define CONV(...) talc_conv2d(x[0], x[1], NULL, &(talc_conv2d_options){ __VA_ARGS__ })
#define TRANSPOSE(...)                                                                             \
    talc_conv_transpose2d(x[0], x[1], x[2], &(talc_conv_transpose2d_options){ __VA_ARGS__ })
F(f_conv2d, CONV(.stride = { 1, 1 }))

// clang-format off
/* Function, name, bounds of the inputs' elements, op, shapes of the inputs. */
#define CASES(X) \
    X(f_pow_scalar, "pow_scalar", 0.5, 2, talc_pow_scalar(x[0], -1.5), D(3, 5)) \
    X(f_smaller, "minimum", -2, 2, talc_minimum(talc_mul_scalar(x[0], 1e-3), x[1]), D(4, 5), D(5)) \
    X(f_clamp_above, "clamp from above", -2, 2, talc_clamp(x[0], (double)-INFINITY, -3e-3), D(19)) \
    X(f_clamp_below, "clamp from below", -2, 2, talc_clamp(x[0], 3e-3, (double)INFINITY), D(3, 2, 4)) \
    X(f_add_scalar, "add_scalar", -2, 2, talc_add_scalar(x[0], 3), D(7)) \
    X(f_sub_scalar, "sub_scalar", -2, 2, talc_sub_scalar(x[0], 3), D(7)) \
    X(f_mul_scalar, "mul_scalar", -2, 2, talc_mul_scalar(x[0], 3), D(7)) \
    X(f_div_scalar, "div_scalar", -2, 2, talc_div_scalar(x[0], 3), D(7)) \
    X(f_twice, "a tensor used three times", -2, 2, talc_mul(talc_add(x[0], x[0]), talc_tanh(x[0])), D(7)) \
    X(f_view, "view", -2, 2, talc_mul(talc_view(x[0], TALC_DIMS(-1)), talc_view(x[0], TALC_DIMS(-1))), D(2, 3, 4)) \
    X(f_slice_empty, "slice, empty", -2, 2, talc_concat((const talc_tensor *[]){ talc_slice(x[0], 1, 1, 1, 1), x[0] }, 2, 1), D(2, 6, 3)) \
    X(f_squeeze, "squeeze", -2, 2, talc_tanh(talc_unsqueeze(talc_squeeze(x[0], 1), 0)), D(3, 1, 2)) \
    X(f_flatten, "flatten", -2, 2, talc_tanh(talc_flatten(x[0], 0, 1)), D(3, 4, 2)) \
    X(f_clone, "clone", -2, 2, talc_tanh(talc_clone(talc_contiguous(talc_transpose(x[0], 0, 1)))), D(3, 4, 2)) \
    X(f_softmax_middle, "softmax of the outer dimension", -3, 3, talc_softmax(x[0], 0), D(4, 2, 3)) \
    X(f_group_norm, "group_norm", -2, 2, talc_group_norm(x[0], 2, x[1], x[2], NULL), D(3, 4, 5), D(4), D(4)) \
    X(f_group_norm_tanh, "group_norm, tanh", -1, 1, talc_group_norm(x[0], 3, x[1], x[2], &(talc_norm_options){ .eps = 0.1, .activation = TALC_ACTIVATION_TANH }), D(2, 6, 2, 2), D(6), D(6)) \
    X(f_instance_norm, "instance_norm2d", -2, 2, talc_instance_norm2d(x[0], NULL, NULL, NULL), D(2, 3, 4, 3)) \
    X(f_layer_norm, "layer_norm", -2, 2, talc_layer_norm(talc_transpose(x[0], 0, 1), TALC_DIMS(3, 4), x[1], x[2], NULL), D(3, 2, 4), D(3, 4), D(3, 4)) \
    X(f_layer_norm_weight, "layer_norm without bias", -2, 2, talc_layer_norm(x[0], TALC_DIMS(6), x[1], NULL, NULL), D(5, 6), D(6)) \
    X(f_max_pool_dilated, "max_pool2d, dilated", -2, 2, talc_max_pool2d(x[0], POOL(.kernel = { 3, 2 }, .stride = { 2, 1 }, .padding = { 2, 1 }, .padding_end = { 1, 3 }, .dilation = { 2, 3 })), D(1, 2, 11, 12)) \
    X(f_avg_pool, "avg_pool2d", -2, 2, talc_avg_pool2d(x[0], POOL(.kernel = { 3, 2 }, .stride = { 2, 3 }, .padding = { 1, 1 }, .ceil_mode = true)), D(2, 1, 7, 6)) \
    X(f_avg_pool_inside, "avg_pool2d without padding", -2, 2, talc_avg_pool2d(x[0], POOL(.kernel = { 3, 4 }, .stride = { 1, 2 }, .padding = { 2, 1 }, .padding_end = { 1, 3 }, .exclude_padding = true)), D(2, 1, 7, 6)) \
    X(f_avg_pool_divided, "avg_pool2d by a divisor", -2, 2, talc_avg_pool2d(x[0], POOL(.kernel = { 2, 3 }, .stride = { 1, 4 }, .divisor_override = 5)), D(5, 4, 9)) \
    X(f_norm_tanh, "norm, activated", -2, 2, batch_norm(x, true, NORM(.training = true, .activation = TALC_ACTIVATION_TANH)), D(2, 3, 4, 8), D(3), D(3)) \
    X(f_norm_plain, "norm without weight", -2, 2, batch_norm(x, false, NORM(.training = true, .eps = 0.1)), D(9, 3, 1, 1)) \
    X(f_norm_evaluated, "norm, evaluated", -2, 2, batch_norm(x, true, NORM(0)), D(3, 4, 5, 7), D(4), D(4)) \
    X(f_norm_evaluated_plain, "norm without weight, evaluated", -2, 2, batch_norm(x, false, NORM(0)), D(4, 3, 2, 6)) \
    X(f_norm_added, "norm and residual", -2, 2, batch_norm(x, true, NORM(.training = true, .residual = x[3])), D(3, 4, 5, 7), D(4), D(4), D(3, 4, 5, 7)) \
    X(f_norm_evaluated_sigmoid, "norm and residual, evaluated", -2, 2, batch_norm(x, true, NORM(.activation = TALC_ACTIVATION_SIGMOID, .residual = x[3])), D(2, 5, 4, 4), D(5), D(5), D(2, 5, 4, 4)) \
    X(f_sum_all, "sum of all", -0.1, 0.1, talc_tanh(talc_sum(x[0], TALC_SCALAR, false)), D(2, 3, 4)) \
    X(f_max_outer, "max of several dimensions", -1, 1, talc_tanh(talc_max(x[0], TALC_DIMS(0, -1), true)), D(2, 3, 4)) \
    X(f_max_all, "max of all", -1, 1, talc_tanh(talc_max(talc_transpose(x[0], 0, 2), TALC_SCALAR, false)), D(2, 3, 4)) \
    X(f_cumsum, "cumsum of one row", -1, 1, talc_tanh(talc_cumsum(x[0], 1)), D(1, 9)) \
    X(f_cumsum_last, "cumsum of a view", -1, 1, talc_tanh(talc_cumsum(talc_transpose(x[0], 0, 1), -1)), D(5, 4)) \
    X(f_gather, "gather", -1, 1, talc_tanh(talc_gather(x[0], 2, some(x[0], TALC_DIMS(2, 3, 5)))), D(2, 3, 4)) \
    X(f_gather_middle, "gather in the middle", -1, 1, talc_tanh(talc_gather(talc_transpose(x[0], 0, 2), 1, some(x[0], TALC_DIMS(2, 3, 1)))), D(2, 3, 4)) \
    X(f_index_select, "index_select", -1, 1, talc_tanh(talc_index_select(x[0], 1, talc_reshape(some(x[0], TALC_DIMS(2, 3, 2)), TALC_DIMS(12)))), D(2, 3, 4)) \
    X(f_index_select_last, "index_select of columns", -1, 1, talc_tanh(talc_index_select(x[0], -1, talc_reshape(some(x[0], TALC_DIMS(1, 3, 2)), TALC_DIMS(6)))), D(5, 4)) \
    X(f_min, "min", -1, 1, talc_tanh(talc_min(x[0], TALC_DIMS(0, -1), true)), D(2, 3, 4)) \
    X(f_var_all, "var of all", -1, 1, talc_tanh(talc_var(x[0], TALC_SCALAR, 2.5, true)), D(2, 3, 4)) \
    X(f_var_rows, "var of rows", -1, 1, talc_var(talc_transpose(x[0], 0, 2), TALC_DIMS(-1), 0, false), D(5, 3, 2)) \
    X(f_logsumexp, "logsumexp", -3, 3, talc_tanh(talc_logsumexp(x[0], TALC_DIMS(1), false)), D(2, 6, 4)) \
    X(f_logsumexp_outer, "logsumexp of several dimensions", -1, 1, talc_tanh(talc_logsumexp(x[0], TALC_DIMS(0, -1), true)), D(2, 3, 4)) \
    X(f_logsumexp_all, "logsumexp of all", -1, 1, talc_logsumexp(talc_transpose(x[0], 0, 2), TALC_SCALAR, false), D(2, 3, 4)) \
    X(f_mse_none, "mse_loss of each", -1, 1, talc_mse_loss(x[0], x[1], TALC_REDUCTION_NONE), D(2, 3, 2), D(2, 3, 2)) \
    X(f_l1, "l1_loss", -1, 1, talc_l1_loss(x[0], talc_mul_scalar(x[1], 1e-3), TALC_REDUCTION_SUM), D(4, 5), D(4, 5)) \
    X(f_logits_weighted, "binary cross entropy, weighted", 0.1, 2, talc_binary_cross_entropy_with_logits(x[0], x[1], &(talc_binary_cross_entropy_options){ TALC_REDUCTION_SUM, .weight = x[2], .pos_weight = x[3] }), D(3, 5), D(3, 5), D(3, 1), D(5)) \
    X(f_nll, "nll_loss", -2, 2, nll(x[0], NULL, TALC_REDUCTION_MEAN, 2), D(7, 4)) \
    X(f_nll_sum, "nll_loss of a view", -2, 2, nll(talc_transpose(x[0], 0, 2), classes(x[0]), TALC_REDUCTION_SUM, 0), D(3, 4, 2)) \
    X(f_nll_weighted, "nll_loss, weighted", 0.1, 2, nll(x[0], classes(x[0]), TALC_REDUCTION_MEAN, 3), D(2, 4, 5)) \
    X(f_entropy, "cross_entropy", -2, 2, ENTROPY(.ignore_index = 3), D(7, 4)) \
    X(f_entropy_sum, "cross_entropy, summed", -2, 2, ENTROPY(.reduction = TALC_REDUCTION_SUM), D(9, 4)) \
    X(f_entropy_none, "cross_entropy of each", -2, 2, ENTROPY(.reduction = TALC_REDUCTION_NONE, .ignore_index = TALC_ZERO), D(2, 4, 3, 2)) \
    X(f_entropy_weighted, "cross_entropy, weighted", -2, 2, ENTROPY(.class_weights = classes(x[0]), .label_smoothing = 0.25), D(12, 4)) \
    X(f_entropy_weighted_none, "cross_entropy, weighted of each", -2, 2, ENTROPY(.class_weights = classes(x[0]), .ignore_index = 1, .reduction = TALC_REDUCTION_NONE), D(2, 4, 5)) \
    X(f_entropy_weighted_sum, "cross_entropy, turned", -2, 2, entropy(talc_transpose(x[0], 0, 1), (talc_cross_entropy_options){ .class_weights = classes(x[0]), .label_smoothing = 0.5, .reduction = TALC_REDUCTION_SUM }), D(4, 9)) \
    X(f_dropout, "dropout", -2, 2, (talc_manual_seed(5), talc_dropout(x[0], 0.4, true)), D(4, 6)) \
    X(f_drop_path, "drop_path", -2, 2, (talc_manual_seed(5), talc_drop_path(x[0], 0.4, true)), D(6, 2, 3)) \
    X(f_pad, "pad", -2, 2, talc_pad(x[0], &(talc_pad_options){ .padding = { 1, 2, -1, 2, 3, 0 }, .value = -2.5 }), D(2, 3, 4)) \
    X(f_pad_reflect, "pad, reflect", -2, 2, talc_pad(x[0], &(talc_pad_options){ .padding = { 1, 5, 1, 1, 2, 1 }, .mode = TALC_PADDING_REFLECT }), D(3, 2, 6)) \
    X(f_pad_replicate, "pad, replicate", -2, 2, talc_pad(talc_transpose(x[0], 0, 2), &(talc_pad_options){ .padding = { -2, 3, 1, -1, 2, 2 }, .mode = TALC_PADDING_REPLICATE }), D(5, 3, 2)) \
    X(f_pad_circular, "pad, circular", -2, 2, talc_pad(x[0], &(talc_pad_options){ .padding = { 1, 0, 2, 3, 0, 1 }, .mode = TALC_PADDING_CIRCULAR }), D(2, 3, 4)) \
    X(f_upsample, "upsample2d", -2, 2, talc_upsample2d(x[0], &(talc_upsample2d_options){ .scale = { 1.7, 0.6 } }), D(2, 3, 4)) \
    X(f_upsample_bilinear, "upsample2d, bilinear", -2, 2, talc_upsample2d(talc_transpose(x[0], 0, 2), &(talc_upsample2d_options){ .scale = { 1.3, 1.7 }, .mode = TALC_UPSAMPLE_BILINEAR }), D(3, 5, 2)) \
    X(f_upsample_aligned, "upsample2d, aligned", -2, 2, talc_upsample2d(x[0], &(talc_upsample2d_options){ .size = { 7, 2 }, .mode = TALC_UPSAMPLE_BILINEAR, .align_corners = true }), D(2, 3, 4)) \
    X(f_no_dropout, "dropout in evaluation", -2, 2, talc_dropout(talc_tanh(x[0]), 0.4, false), D(4, 6)) \
    X(f_conv2d_strided, "conv2d, strided", -2, 2, CONV(.stride = { 2, 3 }, .padding = { 2, 1 }, .padding_end = { TALC_ZERO, 3 }, .dilation = { 1, 2 }), D(2, 2, 7, 9), D(3, 2, 3, 3)) \
    X(f_conv2d_same, "conv2d, same", -2, 2, CONV(.padding_same = true), D(1, 2, 5, 4), D(3, 2, 2, 4)) \
    X(f_conv2d_replicate, "conv2d, replicate", -2, 2, CONV(.padding = { 3, 1 }, .padding_end = { 1, 4 }, .padding_mode = TALC_PADDING_REPLICATE, .groups = 2), D(1, 4, 3, 4), D(2, 2, 3, 3)) \
    X(f_conv2d_circular, "conv2d, circular", -2, 2, CONV(.padding = { 4, 2 }, .padding_mode = TALC_PADDING_CIRCULAR, .stride = { 2, 1 }), D(2, 2, 4, 3), D(3, 2, 3, 3)) \
    X(f_conv2d_sigmoid, "conv2d, sigmoid", -0.5, 0.5, talc_conv2d(x[0], x[1], x[2], &(talc_conv2d_options){ .padding = { 1, 1 }, .padding_mode = TALC_PADDING_CIRCULAR, .activation = TALC_ACTIVATION_SIGMOID, .residual = x[3] }), D(2, 2, 4, 3), D(3, 2, 3, 3), D(3), D(2, 3, 4, 3)) \
    X(f_conv2d_relu, "conv2d, relu", 0.1, 1, talc_conv2d(x[0], x[1], x[2], &(talc_conv2d_options){ .activation = TALC_ACTIVATION_RELU }), D(2, 2, 4, 3), D(3, 2, 2, 2), D(3)) \
    X(f_transpose, "conv_transpose2d", -2, 2, talc_conv_transpose2d(x[0], x[1], NULL, NULL), D(2, 3, 3, 4), D(3, 2, 2, 3)) \
    X(f_transpose_reached, "conv_transpose2d, output_padding of the stride", -2, 2, TRANSPOSE(.dilation = { 3, 2 }, .padding = { 1, 2 }, .output_padding = { 2, 1 }), D(1, 2, 3, 2), D(2, 1, 2, 3), D(1)) \
    X(f_transpose_nothing, "conv_transpose2d, nothing reached", -2, 2, TRANSPOSE(.dilation = { 7, 7 }, .padding = { 3, 3 }, .output_padding = { 6, 6 }), D(1, 1, 1, 1), D(1, 1, 1, 1), D(1)) \
    X(f_transpose_strided, "conv_transpose2d, strided", -2, 2, TRANSPOSE(.stride = { 2, 3 }, .padding = { 1, 2 }, .output_padding = { 1, 2 }), D(2, 3, 3, 4), D(3, 2, 3, 4), D(2)) \
    X(f_transpose_groups, "conv_transpose2d, groups", -2, 2, TRANSPOSE(.groups = 2, .stride = { 1, 2 }, .dilation = { 2, 1 }, .output_padding = { 1, 1 }), D(2, 4, 3, 2), D(4, 2, 2, 3), D(4))

#define COUNT(...) (sizeof((const talc_dims[]){ __VA_ARGS__ }) / sizeof(talc_dims))
// clang-format on

#define FUNCTION(name, what, low, high, op, ...) F(name, op)

#define ROW(name, what, low, high, op, ...)                                                        \
    { what, name, COUNT(__VA_ARGS__), { __VA_ARGS__ }, low, high },
CASES(FUNCTION)

static talc_tensor *leaf(talc_device *device, talc_dims dims, double low, double high)
{
    talc_tensor *x = talc_uniform(cpu_device(), TALC_F64, dims, low, high);
    /* Away from 0, where relu and abs have a kink. */
    for (int64_t i = 0; low < 0 && i < talc_numel(x); i++) {
        double *at = (double *)talc_data(x, TALC_F64) + i;
        *at += *at < 0 ? -1e-2 : 1e-2;
    }
    x = talc_to(x, device, TALC_F64);
    talc_require_grad(x, true);
    return x;
}

Test(gradient, every_case_of_the_command_agrees_with_central_differences)
{
    int ops = 0;
    for (const gradient_case *c = gradient_cases; c->name != NULL; c++) {
        talc_gradient_report report;
        if (c->f == NULL)
            continue;
        const bool ok = gradient_case_check(c, tested_device(), 1, &report);
        cr_assert(!talc_failed(), "%s, %s: %s", c->name, c->what, talc_error_message());
        cr_assert(ok && report.count == 4 * c->count,
                  "%s, %s: %d slopes, input %d is off by %g: %.12g instead of %.12g", c->name,
                  c->what, report.count, report.input, report.worst, report.got, report.expected);
        ops++;
    }
    cr_assert(ops > 90, "only %d cases", ops);
}

/* Shapes, views and options beyond those. */
Test(gradient, every_op_agrees_with_central_differences)
{
#define D TALC_DIMS
    // clang-format off
    const differentiable_case cases[] = {
        CASES(ROW)
        { "pow, of one exponent each", f_pow, 2, { D(5), D(3, 1) }, 0.5, 2 },
        { "maximum", f_larger, 2, { D(4, 5), D(4, 5) }, -2, 2 },
        { "maximum, broadcast", f_larger, 2, { D(4, 1), D(2, 1, 5) }, -2, 2 },
        { "where", f_where, 4, { D(4, 5), D(4, 5), D(4, 5), D(5) }, -2, 2 },
        { "where, broadcast", f_where, 4, { D(4, 1), D(5), D(4, 1), D(4, 5) }, -2, 2 },
        { "where, stretched by the condition", f_where, 4, { D(1), D(4, 1), D(3, 1, 1), D(5) }, -2, 2 },
        { "mul", f_mul, 2, { D(3, 5), D(3, 5) }, -2, 2 },
        { "mul by a scalar tensor", f_mul, 2, { D(4, 5), D(1) }, -2, 2 },
        { "max_pool2d", f_max_pool, 1, { D(2, 3, 7, 9) }, -2, 2 },
        { "max_pool2d of an image", f_max_pool, 1, { D(2, 9, 8) }, -2, 2 },
        { "adaptive_avg_pool2d", f_adaptive, 1, { D(2, 3, 5, 8) }, -2, 2 },
        { "adaptive_avg_pool2d, to more", f_adaptive, 1, { D(2, 3, 2, 3) }, -2, 2 },
        { "adaptive_max_pool2d", f_adaptive_max, 1, { D(2, 3, 5, 8) }, -2, 2 },
        { "adaptive_max_pool2d, to more", f_adaptive_max, 1, { D(2, 3, 2, 3) }, -2, 2 },
        { "norm", f_norm, 3, { D(3, 4, 5, 7), D(4), D(4) }, -2, 2 },
        { "norm of many values", f_norm, 3, { D(37, 3, 21, 22), D(3), D(3) }, -2, 2 },
        { "masked_fill", f_masked_fill, 2, { D(4, 5), D(5) }, -1, 1 },
        { "masked_fill, stretched", f_masked_fill, 2, { D(5), D(4, 5) }, -1, 1 },
        { "mse_loss of a vector", f_mse, 2, { D(7), D(7) }, -1, 1 },
        { "binary cross entropy of a vector", f_logits, 2, { D(7), D(7) }, 0.1, 0.9 },
        { "nll_loss of planes", f_nll_none, 1, { D(2, 4, 3, 2) }, -2, 2 },
        { "nll_loss of one sample", f_nll_none, 1, { D(4) }, -2, 2 },
        { "cross_entropy of one sample", f_entropy_smooth, 1, { D(4) }, -2, 2 },
        { "cross_entropy, smoothed", f_entropy_smooth, 1, { D(2, 4, 5) }, -2, 2 },
        { "local_response_norm", f_response, 1, { D(2, 5, 3) }, -2, 2 },
        { "local_response_norm of images", f_response, 1, { D(1, 4, 2, 3) }, -2, 2 },
        { "local_response_norm of two channels", f_response, 1, { D(3, 2, 4) }, -2, 2 },
        { "matmul, batches", f_matmul, 2, { D(2, 3, 5), D(2, 5, 4) }, -2, 2 },
        { "matmul, one b for all", f_matmul, 2, { D(2, 3, 5), D(5, 4) }, -2, 2 },
        { "matmul, one a for all", f_matmul, 2, { D(3, 5), D(2, 5, 4) }, -2, 2 },
        { "matmul, broadcast batches", f_matmul, 2, { D(2, 1, 3, 5), D(4, 5, 2) }, -2, 2 },
        { "matmul, row", f_matmul, 2, { D(5), D(5, 4) }, -2, 2 },
        { "matmul, column", f_matmul, 2, { D(3, 5), D(5) }, -2, 2 },
        { "matmul, column of batches", f_matmul, 2, { D(2, 3, 5), D(5) }, -2, 2 },
        { "matmul, two vectors", f_matmul, 2, { D(5), D(5) }, -2, 2 },
        { "linear of a vector", f_linear, 3, { D(5), D(4, 5), D(4) }, -2, 2 },
        { "linear of rows", f_linear, 3, { D(2, 3, 5), D(4, 5), D(4) }, -2, 2 },
        { "conv2d", f_conv2d, 2, { D(2, 3, 6, 5), D(4, 3, 3, 2) }, -2, 2 },
        { "conv2d, a point", f_conv2d, 2, { D(3, 4, 3, 5), D(2, 4, 1, 1) }, -2, 2 },
        { "conv2d, one channel", f_conv2d, 2, { D(3, 1, 7, 8), D(3, 1, 5, 5) }, -2, 2 },
    };
    // clang-format on
#undef D
    talc_device *device = tested_device();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const differentiable_case *c = &cases[i];
        owned_scope *scope = talc_scope_enter();
        talc_tensor *inputs[4];
        talc_manual_seed(i + 1);
        for (int k = 0; k < c->count; k++)
            inputs[k] = leaf(device, c->dims[k], c->low, c->high);
        talc_gradient_report report;
        const bool ok = talc_check_gradient(c->f, NULL, inputs, c->count, NULL, &report);
        cr_assert(!talc_failed(), "%s: %s", c->name, talc_error_message());
        cr_assert(ok && report.count == 4 * c->count,
                  "%s: %d slopes, input %d is off by %g: %.12g instead of %.12g", c->name,
                  report.count, report.input, report.worst, report.got, report.expected);
    }
}

static talc_tensor *f_unary(talc_tensor *const x[], void *context)
{
    return unary_cases[*(const int *)context].call(x[0]);
}

/* Inputs up to 4 reach every branch; none is as near to a kink as the differences' steps. */
Test(gradient, every_elementwise_op_of_one_operand_agrees_with_central_differences)
{
    const talc_dims shapes[] = { TALC_DIMS(4, 6), TALC_DIMS(3, 1, 5), TALC_DIMS(17) };
    for (int i = 0; i < TALC_UNARY_COUNT; i++)
        for (int s = 0; s < 12; s++) {
            owned_scope *scope = talc_scope_enter();
            talc_manual_seed((uint64_t)(s + 1));
            const double low = unary_cases[i].positive ? 0.5 : -4;
            talc_tensor *x = leaf(tested_device(), shapes[s % 3], low, 4);
            talc_gradient_report report;
            const bool ok = talc_check_gradient(f_unary, &i, &x, 1, NULL, &report);
            cr_assert(!talc_failed(), "%s: %s", unary_cases[i].name, talc_error_message());
            cr_assert(ok && report.count == 4, "%s: off by %g: %.12g instead of %.12g",
                      unary_cases[i].name, report.worst, report.got, report.expected);
        }
}

static talc_tensor *f_conv2d_ended(talc_tensor *const x[], void *context)
{
    return talc_conv2d(x[0], x[1], x[2],
                       &(talc_conv2d_options){ .activation = *(const talc_activation *)context,
                                               .residual = x[3] });
}

static talc_tensor *f_linear_ended(talc_tensor *const x[], void *context)
{
    return talc_linear(x[0], x[1], x[2],
                       &(talc_linear_options){ .activation = *(const talc_activation *)context,
                                               .residual = x[3] });
}

static talc_tensor *f_norm_ended(talc_tensor *const x[], void *context)
{
    return talc_batch_norm2d(
        x[0], x[1], x[2], NULL, NULL,
        &(talc_batch_norm2d_options){
            .training = true, .activation = *(const talc_activation *)context, .residual = x[3] });
}

Test(gradient, every_op_with_a_last_step_has_the_gradient_of_both)
{
    const struct {
        const char *name;
        talc_differentiable *f;
        talc_dims dims[4];
    } ops[] = {
        { "conv2d",
          f_conv2d_ended,
          { TALC_DIMS(2, 3, 5, 4), TALC_DIMS(4, 3, 3, 2), TALC_DIMS(4), TALC_DIMS(2, 4, 3, 3) } },
        { "linear",
          f_linear_ended,
          { TALC_DIMS(5, 7), TALC_DIMS(3, 7), TALC_DIMS(3), TALC_DIMS(5, 3) } },
        { "batch_norm2d",
          f_norm_ended,
          { TALC_DIMS(3, 2, 4, 5), TALC_DIMS(2), TALC_DIMS(2), TALC_DIMS(3, 2, 4, 5) } },
    };
    for (size_t o = 0; o < sizeof ops / sizeof *ops; o++)
        for (int a = TALC_ACTIVATION_NONE; a < TALC_ACTIVATION_COUNT; a++) {
            owned_scope *scope = talc_scope_enter();
            talc_tensor *inputs[4];
            talc_activation activation = (talc_activation)a;
            talc_manual_seed((uint64_t)a + 1);
            for (int k = 0; k < 4; k++)
                inputs[k] = leaf(tested_device(), ops[o].dims[k], -2, 2);
            talc_gradient_report report;
            const bool ok = talc_check_gradient(ops[o].f, &activation, inputs, 4, NULL, &report);
            cr_assert(!talc_failed(), "%s: %s", ops[o].name, talc_error_message());
            cr_assert(ok && report.count == 16, "%s, %s: input %d is off by %g", ops[o].name,
                      talc_activation_name(activation), report.input, report.worst);
        }
}

/* dx and dz of the sum of f(x, z), where it jumps or has no end: PyTorch's choices, and on the
 * bounds of clamp those of its older versions. */
Test(gradient, where_the_derivative_jumps_it_is_that_of_pytorch)
{
    const double nan = (double)NAN, inf = (double)INFINITY;
    const struct {
        const char *name;
        talc_differentiable *f;
        double x[4], z[4], dx[4], dz[4];
        // clang-format off
    } cases[] = {
        { "maximum", f_maximum, { 1, 2, 1, nan }, { 1, 1, 2, 1 }, { 0.5, 1, 0, 1 }, { 0.5, 0, 1, 1 } },
        { "minimum", f_minimum, { 1, 2, 1, inf }, { 1, 1, 2, inf }, { 0.5, 0, 1, 0.5 }, { 0.5, 1, 0, 0.5 } },
        { "pow", f_pow, { 0, 0, 0, 2 }, { 0, 2, 1, 0 }, { 0, 0, 1, 0 }, { 0, 0, 0, log(2) } },
        { "prelu", f_prelu, { 0, -2, 3, nan }, { 0.25 }, { 0.25, 0.25, 1, 0.25 }, { nan, 0, 0, 0 } },
        { "prelu of numbers", f_prelu, { 0, -2, 3, -0.5 }, { 0.25 }, { 0.25, 0.25, 1, 0.25 }, { -2.5, 0, 0, 0 } },
        { "prelu by infinity", f_prelu, { 1, 2, 3, 4 }, { inf }, { 1, 1, 1, 1 }, { 0 } },
        { "pow of no number", f_pow, { nan, 0, -1, 1 }, { 0, -1, 2, inf }, { 0, -inf, -2, inf }, { nan, -inf, nan, 0 } },
        { "clamp", f_clamp, { -0.5, 0.75, -0.6, nan }, { 0 }, { 1, 1, 0, 0 }, { 0 } },
        { "abs", f_abs, { 0, -0.0, -3, 2 }, { 0 }, { 0, 0, -1, 1 }, { 0 } },
        { "relu6", f_relu6, { 0, 6, nan, 1 }, { 0 }, { 0, 0, 1, 1 }, { 0 } },
        { "leaky_relu", f_leaky_relu, { 0, -0.0, nan, 1 }, { 0 }, { 0.25, 0.25, 0.25, 1 }, { 0 } },
        { "elu", f_elu, { 0, -inf, nan, 1 }, { 0 }, { 1.5, 0, 1, 1 }, { 0 } },
        { "hardtanh", f_hardtanh, { -1, 2, nan, 1 }, { 0 }, { 0, 0, 1, 1 }, { 0 } },
        { "hardsigmoid", f_hardsigmoid, { -3, 3, nan, 1 }, { 0 }, { 0, 0, 0, 1.0 / 6 }, { 0 } },
        { "hardswish", f_hardswish, { -3, 3, nan, -inf }, { 0 }, { 0, 1, 1, 0 }, { 0 } },
        { "silu", f_silu, { 0, -1000, inf, 1000 }, { 0 }, { 0.5, 0, nan, 1 }, { 0 } },
        { "gelu", f_gelu, { 0, -1000, inf, 1000 }, { 0 }, { 0.5, 0, nan, 1 }, { 0 } },
        { "gelu_tanh", f_gelu_tanh, { 0, -1000, inf, 1000 }, { 0 }, { 0.5, 0, nan, 1 }, { 0 } },
        { "gelu_tanh of large numbers", f_gelu_tanh, { 1e103, -1e103, 1e308, -2e13 }, { 0 }, { 1, 0, 1, 0 }, { 0 } },
        { "mish", f_mish, { 0, -1000, inf, 1000 }, { 0 }, { 0.6, 0, nan, 1 }, { 0 } },
        { "mish of large numbers", f_mish, { 0, -1e308, 1e308, -1e5 }, { 0 }, { 0.6, 0, 1, 0 }, { 0 } },
        { "sign", f_sign, { 0, -2, nan, 3 }, { 0 }, { 0 }, { 0 } },
        { "floor", f_floor, { 0, -2.5, nan, 3 }, { 0 }, { 0 }, { 0 } },
        { "ceil", f_ceil, { 0, -2.5, nan, 3 }, { 0 }, { 0 }, { 0 } },
        { "round", f_round, { 0, -2.5, nan, 3 }, { 0 }, { 0 }, { 0 } },
        { "reciprocal", f_reciprocal, { 0, -0.0, inf, -3 }, { 0 }, { -inf, -inf, 0, -1.0 / 9 }, { 0 } },
        { "erf", f_erf, { 0, -inf, nan, 3 }, { 0 }, { 1.1283791670955126, 0, nan, 0.00013925305194674786 }, { 0 } },
        { "selu", f_selu, { 0, -inf, nan, -3 }, { 0 }, { 1.7580993408473766, 0, 1.0507009873554805, 0.08753061208026487 }, { 0 } },
        { "softsign", f_softsign, { 0, -0.0, nan, -3 }, { 0 }, { 1, 1, nan, 0.0625 }, { 0 } },
        { "softsign at infinities", f_softsign, { inf, -inf, 1, -1 }, { 0 }, { 0, 0, 0.25, 0.25 }, { 0 } },
        { "hardsigmoid_ramp", f_hardsigmoid_ramp, { -2, 2, nan, 1 }, { 0 }, { 0, 0, 0, 0.25 }, { 0 } },
        { "hardswish_ramp", f_hardswish_ramp, { -2, 2, nan, -inf }, { 0 }, { 0, 1, 1, 0 }, { 0 } },
        { "rsqrt", f_rsqrt, { 0, 4, inf, -1 }, { 0 }, { -inf, -0.0625, 0, nan }, { 0 } },
        { "mse_loss", f_mse, { 1, 2, 3, 4 }, { 1, 1, 1, 1 }, { 0, 0.5, 1, 1.5 }, { 0, -0.5, -1, -1.5 } },
        { "smooth_l1_loss", f_smooth_l1, { 0, 1.2, -2, 0.6 }, { 0 }, { 0, 1, -1, 0.5 }, { 0, -1, 1, -0.5 } },
        { "max", f_max_ties, { 2, 5, 5, 1 }, { 0 }, { 0, 0.5, 0.5, 0 }, { 0 } },
        { "max of equals", f_max_ties, { 3, 3, 3, 3 }, { 0 }, { 0.25, 0.25, 0.25, 0.25 }, { 0 } },
        { "max of NaN", f_max_ties, { 2, nan, 5, nan }, { 0 }, { nan, nan, nan, nan }, { 0 } },
        { "min", f_min_ties, { 5, 2, 2, 7 }, { 0 }, { 0, 0.5, 0.5, 0 }, { 0 } },
        { "var divided by 0", f_var_nothing, { 1, 2, 3, 3 }, { 0 }, { -inf, inf, nan, nan }, { 0 } },
        { "logsumexp of infinities", /* PyTorch's numbers */ f_logsumexp_pairs, { inf, 1, -inf, 1 }, { 0 }, { nan, 0, 0, 1 }, { 0 } },
        { "logsumexp of nothing but -infinity", f_logsumexp_pairs, { -inf, -inf, 0, 0 }, { 0 }, { nan, nan, 0.5, 0.5 }, { 0 } },
        { "binary cross entropy", f_logits, { 0, 0, 200, -200 }, { 0, 1, 0, 0 }, { 0.125, -0.125, 0.25, 0 }, { 0, 0, -50, 50 } },
    };
    // clang-format on
    talc_device *device = tested_device();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        talc_tensor *x[] = { talc_from_host(device, TALC_F64, TALC_DIMS(4), cases[i].x),
                             talc_from_host(device, TALC_F64, TALC_DIMS(4), cases[i].z) };
        talc_require_grad(x[0], true);
        talc_require_grad(x[1], true);
        const talc_tensor *y = cases[i].f(x, NULL);
        const bool ok = talc_backward_from(y, talc_ones(device, TALC_F64, talc_dims_of(y)));
        cr_assert(ok, "%s: %s", cases[i].name, talc_error_message());
        for (int k = 0; k < 2; k++) {
            double got[4] = { 0 };
            cr_assert(talc_grad(x[k]) == NULL || talc_to_host(talc_grad(x[k]), got, sizeof got));
            for (int e = 0; e < 4; e++) {
                const double expected = k == 0 ? cases[i].dx[e] : cases[i].dz[e];
                cr_assert(isnan(expected)   ? isnan(got[e])
                          : isinf(expected) ? got[e] == expected
                                            : fabs(got[e] - expected) < 1e-14,
                          "%s: gradient %d of input %d is %g instead of %g", cases[i].name, e, k,
                          got[e], expected);
            }
        }
    }
}

/* A root that is not taken has slope NaN all the same, 0 times infinity; the second input's
 * gradient is right. */
static talc_tensor *f_trap(talc_tensor *const x[], void *context)
{
    (void)context;
    const talc_tensor *root = talc_sqrt(x[0]);
    return talc_add(talc_where(talc_greater_scalar(x[0], 0), root, x[1]), x[1]);
}

Test(gradient, one_that_is_nan_fails_the_check)
{
    talc_tensor *inputs[] = { leaf(tested_device(), TALC_DIMS(5), -2, -1),
                              leaf(tested_device(), TALC_DIMS(5), 1, 2) };
    talc_gradient_report report;
    cr_assert(!talc_check_gradient(f_trap, NULL, inputs, 2, NULL, &report));
    cr_assert(!talc_failed() && isnan(report.worst) && report.input == 0 && report.count == 8,
              "worst %g of input %d", report.worst, report.input);
}

static talc_tensor *f_mistaken(talc_tensor *const x[], void *context)
{
    (void)context;
    return talc_matmul(x[0], x[0]);
}

Test(gradient, a_check_that_fails_leaves_the_generator)
{
    talc_tensor *x = leaf(tested_device(), TALC_DIMS(2, 3), -1, 1);
    talc_gradient_report report;
    talc_manual_seed(1234);
    cr_assert(!talc_check_gradient(f_mistaken, NULL, &x, 1, NULL, &report));
    assert_failure(TALC_BAD_SHAPE, "matmul: a [2,3] has 3 columns, b [2,3] has 2 rows");
    cr_assert(talc_generator_get().seed == 1234);
}

/* Fewer directions than none would compare nothing, and so find nothing wrong. */
Test(gradient, a_check_with_options_out_of_range_is_refused)
{
    static const struct {
        talc_gradient_options options;
        const char *message;
    } cases[] = {
        { { .directions = -1 }, "directions -1, step 0 and tolerance 0 must not be negative" },
        { { .step = -1e-4 }, "directions 0, step -0.0001 and tolerance 0 must not be negative" },
        { { .tolerance = (double)NAN },
          "directions 0, step 0 and tolerance nan must not be negative" },
    };
    talc_tensor *x = leaf(tested_device(), TALC_DIMS(3), -1, 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        talc_gradient_report report;
        cr_assert(!talc_check_gradient(f_tanh, NULL, &x, 1, &cases[i].options, &report));
        assert_failure_with(TALC_BAD_ARGUMENT, "check_gradient: %s", cases[i].message);
    }
}
