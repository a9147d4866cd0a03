/* Every op's gradient against central differences in float64, and what the tape promises. */
#include "tests/support/hooks.h"
#include "tests/support/unary_cases.h"

#include <math.h>

/* An op on up to four inputs; `low` and `high` bound their elements, of which none is nearer than
 * 1e-3 to a kink at 0. */
typedef struct gradient_case {
    const char *name;
    talc_differentiable *f;
    int count;
    talc_dims dims[4];
    double low, high;
} gradient_case;

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
F(f_rsqrt, talc_rsqrt(x[0]))
F(f_pow, talc_pow(x[0], x[1]))
F(f_pow_scalar, talc_pow_scalar(x[0], -1.5))
F(f_cube, talc_pow_scalar(x[0], 3))
/* Inputs of which one is near 0 and the other not, so that neither step crosses the kink. */
F(f_maximum, talc_maximum(x[0], x[1]))
F(f_larger, talc_maximum(x[0], talc_mul_scalar(x[1], 1e-3)))
F(f_minimum, talc_minimum(x[0], x[1]))
F(f_smaller, talc_minimum(talc_mul_scalar(x[0], 1e-3), x[1]))
F(f_clamp, talc_clamp(x[0], -0.5, 0.75))
F(f_clamp_within, talc_clamp(x[0], 3e-3, 9))
F(f_clamp_below, talc_clamp(x[0], 3e-3, (double)INFINITY))
F(f_clamp_above, talc_clamp(x[0], (double)-INFINITY, -3e-3))
F(f_where, talc_where(talc_less(x[2], talc_mul_scalar(x[3], 1e-3)), talc_tanh(x[0]), x[1]))
F(f_add, talc_add(x[0], x[1]))
F(f_sub, talc_sub(x[0], x[1]))
F(f_mul, talc_mul(x[0], x[1]))
F(f_div, talc_div(x[0], x[1]))
F(f_add_scalar, talc_add_scalar(x[0], 3))
F(f_sub_scalar, talc_sub_scalar(x[0], 3))
F(f_mul_scalar, talc_mul_scalar(x[0], 3))
F(f_div_scalar, talc_div_scalar(x[0], 3))
F(f_twice, talc_mul(talc_add(x[0], x[0]), talc_tanh(x[0])))
F(f_view, talc_mul(talc_view(x[0], TALC_DIMS(-1)), talc_view(x[0], TALC_DIMS(-1))))
F(f_reshape, talc_tanh(talc_reshape(talc_transpose(x[0], 0, 1), TALC_DIMS(-1))))
F(f_permute, talc_tanh(talc_permute(x[0], TALC_DIMS(2, 0, 1))))
F(f_slice, talc_tanh(talc_slice(x[0], 1, 1, TALC_END, 2)))
F(f_slice_empty, talc_concat((const talc_tensor *[]){ talc_slice(x[0], 1, 1, 1, 1), x[0] }, 2, 1))
F(f_select, talc_tanh(talc_select(x[0], -1, 1)))
F(f_expand, talc_tanh(talc_expand(x[0], TALC_DIMS(4, 3, 5))))
F(f_squeeze, talc_tanh(talc_unsqueeze(talc_squeeze(x[0], 1), 0)))
F(f_flatten, talc_tanh(talc_flatten(x[0], 0, 1)))
F(f_clone, talc_tanh(talc_clone(talc_contiguous(talc_transpose(x[0], 0, 1)))))
F(f_concat, talc_concat((const talc_tensor *[]){ x[0], x[1], x[0] }, 3, 1))
F(f_softmax, talc_softmax(x[0], 1))
F(f_log_softmax, talc_log_softmax(x[0], -1))
F(f_softmax_middle, talc_softmax(x[0], 0))
F(f_group_norm, talc_group_norm(x[0], 2, x[1], x[2], NULL))
F(f_group_norm_tanh,
  talc_group_norm(x[0], 3, x[1], x[2],
                  &(talc_norm_options){ .eps = 0.1, .activation = TALC_ACTIVATION_TANH }))
F(f_instance_norm, talc_instance_norm2d(x[0], NULL, NULL, NULL))
F(f_layer_norm, talc_layer_norm(talc_transpose(x[0], 0, 1), TALC_DIMS(3, 4), x[1], x[2], NULL))
F(f_layer_norm_weight, talc_layer_norm(x[0], TALC_DIMS(6), x[1], NULL, NULL))
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
F(f_max_pool_dilated,
  talc_max_pool2d(x[0], POOL(.kernel = { 3, 2 }, .stride = { 2, 1 }, .padding = { 2, 1 },
                             .padding_end = { 1, 3 }, .dilation = { 2, 3 })))
F(f_avg_pool, talc_avg_pool2d(x[0], POOL(.kernel = { 3, 2 }, .stride = { 2, 3 },
                                         .padding = { 1, 1 }, .ceil_mode = true)))
F(f_avg_pool_inside,
  talc_avg_pool2d(x[0], POOL(.kernel = { 3, 4 }, .stride = { 1, 2 }, .padding = { 2, 1 },
                             .padding_end = { 1, 3 }, .exclude_padding = true)))
F(f_avg_pool_divided,
  talc_avg_pool2d(x[0], POOL(.kernel = { 2, 3 }, .stride = { 1, 4 }, .divisor_override = 5)))
F(f_adaptive, talc_adaptive_avg_pool2d(x[0], 3, 5))
F(f_adaptive_max, talc_adaptive_max_pool2d(x[0], 3, 5))
F(f_norm, batch_norm(x, true, NORM(.training = true)))
F(f_norm_tanh, batch_norm(x, true, NORM(.training = true, .activation = TALC_ACTIVATION_TANH)))
F(f_norm_plain, batch_norm(x, false, NORM(.training = true, .eps = 0.1)))
F(f_norm_evaluated, batch_norm(x, true, NORM(0)))
F(f_norm_evaluated_plain, batch_norm(x, false, NORM(0)))
F(f_norm_evaluated_sigmoid,
  batch_norm(x, true, NORM(.activation = TALC_ACTIVATION_SIGMOID, .residual = x[3])))
F(f_norm_added, batch_norm(x, true, NORM(.training = true, .residual = x[3])))
F(f_sum, talc_tanh(talc_sum(x[0], TALC_DIMS(0, 2), false)))
F(f_sum_all, talc_tanh(talc_sum(x[0], TALC_SCALAR, false)))
F(f_mean, talc_tanh(talc_mean(x[0], TALC_DIMS(-1), true)))
F(f_max, talc_tanh(talc_max(x[0], TALC_DIMS(1), false)))
F(f_max_outer, talc_tanh(talc_max(x[0], TALC_DIMS(0, -1), true)))
F(f_max_all, talc_tanh(talc_max(talc_transpose(x[0], 0, 2), TALC_SCALAR, false)))
F(f_max_ties, talc_max(talc_view(x[0], TALC_DIMS(2, 2)), TALC_SCALAR, false))
F(f_cumsum, talc_tanh(talc_cumsum(x[0], 1)))
F(f_cumprod, talc_tanh(talc_cumprod(x[0], 1)))
F(f_cumprod_last, talc_tanh(talc_cumprod(talc_transpose(x[0], 0, 1), -1)))
F(f_cumsum_last, talc_tanh(talc_cumsum(talc_transpose(x[0], 0, 1), -1)))
static const talc_tensor *some(const talc_tensor *x, talc_dims dims)
{
    const talc_tensor *three = talc_arange(x->device, TALC_I64, 0, 3, 1);
    return talc_expand(talc_reshape(three, TALC_DIMS(1, 3, 1)), dims);
}
F(f_gather, talc_tanh(talc_gather(x[0], 2, some(x[0], TALC_DIMS(2, 3, 5)))))
F(f_gather_middle,
  talc_tanh(talc_gather(talc_transpose(x[0], 0, 2), 1, some(x[0], TALC_DIMS(2, 3, 1)))))
F(f_index_select,
  talc_tanh(talc_index_select(x[0], 1,
                              talc_reshape(some(x[0], TALC_DIMS(2, 3, 2)), TALC_DIMS(12)))))
F(f_index_select_last,
  talc_tanh(talc_index_select(x[0], -1,
                              talc_reshape(some(x[0], TALC_DIMS(1, 3, 2)), TALC_DIMS(6)))))
F(f_masked_fill, talc_masked_fill(talc_tanh(x[0]), talc_less_scalar(x[1], 0), 0.5))
F(f_min, talc_tanh(talc_min(x[0], TALC_DIMS(0, -1), true)))
F(f_min_ties, talc_min(talc_view(x[0], TALC_DIMS(2, 2)), TALC_SCALAR, false))
F(f_var, talc_tanh(talc_var(x[0], TALC_DIMS(0, 2), 1, false)))
F(f_var_all, talc_tanh(talc_var(x[0], TALC_SCALAR, 2.5, true)))
F(f_var_rows, talc_var(talc_transpose(x[0], 0, 2), TALC_DIMS(-1), 0, false))
F(f_var_nothing, talc_var(talc_view(x[0], TALC_DIMS(2, 2)), TALC_DIMS(1), 2, false))
F(f_logsumexp, talc_tanh(talc_logsumexp(x[0], TALC_DIMS(1), false)))
F(f_logsumexp_outer, talc_tanh(talc_logsumexp(x[0], TALC_DIMS(0, -1), true)))
F(f_logsumexp_all, talc_logsumexp(talc_transpose(x[0], 0, 2), TALC_SCALAR, false))
F(f_logsumexp_pairs, talc_logsumexp(talc_view(x[0], TALC_DIMS(2, 2)), TALC_DIMS(1), false))
F(f_mse, talc_mse_loss(x[0], x[1], TALC_REDUCTION_MEAN))
F(f_mse_none, talc_mse_loss(x[0], x[1], TALC_REDUCTION_NONE))
F(f_l1, talc_l1_loss(x[0], talc_mul_scalar(x[1], 1e-3), TALC_REDUCTION_SUM))
F(f_huber, talc_huber_loss(x[0], x[1], 0.7, TALC_REDUCTION_MEAN))
F(f_smooth_l1, talc_smooth_l1_loss(x[0], x[1], 1.2, TALC_REDUCTION_NONE))
F(f_logits, talc_binary_cross_entropy_with_logits(x[0], x[1], NULL))
F(f_logits_weighted, talc_binary_cross_entropy_with_logits(x[0], x[1],
                                                           &(talc_binary_cross_entropy_options){
                                                               TALC_REDUCTION_SUM, .weight = x[2],
                                                               .pos_weight = x[3] }))
F(f_nll, nll(x[0], NULL, TALC_REDUCTION_MEAN, 2))
F(f_nll_none, nll(x[0], classes(x[0]), TALC_REDUCTION_NONE, TALC_ZERO))
F(f_nll_sum, nll(talc_transpose(x[0], 0, 2), classes(x[0]), TALC_REDUCTION_SUM, 0))
F(f_nll_weighted, nll(x[0], classes(x[0]), TALC_REDUCTION_MEAN, 3))
#define ENTROPY(...) entropy(x[0], (talc_cross_entropy_options){ __VA_ARGS__ })
F(f_entropy, ENTROPY(.ignore_index = 3))
F(f_entropy_sum, ENTROPY(.reduction = TALC_REDUCTION_SUM))
F(f_entropy_none, ENTROPY(.reduction = TALC_REDUCTION_NONE, .ignore_index = TALC_ZERO))
F(f_entropy_smooth, ENTROPY(.label_smoothing = 0.3, .ignore_index = 2))
F(f_entropy_weighted, ENTROPY(.class_weights = classes(x[0]), .label_smoothing = 0.25))
F(f_entropy_weighted_none,
  ENTROPY(.class_weights = classes(x[0]), .ignore_index = 1, .reduction = TALC_REDUCTION_NONE))
F(f_entropy_weighted_sum, entropy(talc_transpose(x[0], 0, 1),
                                  (talc_cross_entropy_options){ .class_weights = classes(x[0]),
                                                                .label_smoothing = 0.5,
                                                                .reduction = TALC_REDUCTION_SUM }))
F(f_dropout, (talc_manual_seed(5), talc_dropout(x[0], 0.4, true)))
F(f_drop_path, (talc_manual_seed(5), talc_drop_path(x[0], 0.4, true)))
F(f_response,
  talc_local_response_norm(x[0], 3, &(talc_local_response_norm_options){ .alpha = 0.5 }))
F(f_pad, talc_pad(x[0], &(talc_pad_options){ .padding = { 1, 2, -1, 2, 3, 0 }, .value = -2.5 }))
F(f_pad_reflect, talc_pad(x[0], &(talc_pad_options){ .padding = { 1, 5, 1, 1, 2, 1 },
                                                     .mode = TALC_PADDING_REFLECT }))
F(f_pad_replicate,
  talc_pad(talc_transpose(x[0], 0, 2), &(talc_pad_options){ .padding = { -2, 3, 1, -1, 2, 2 },
                                                            .mode = TALC_PADDING_REPLICATE }))
F(f_pad_circular, talc_pad(x[0], &(talc_pad_options){ .padding = { 1, 0, 2, 3, 0, 1 },
                                                      .mode = TALC_PADDING_CIRCULAR }))
F(f_upsample, talc_upsample2d(x[0], &(talc_upsample2d_options){ .scale = { 1.7, 0.6 } }))
F(f_upsample_bilinear, talc_upsample2d(talc_transpose(x[0], 0, 2),
                                       &(talc_upsample2d_options){
                                           .scale = { 1.3, 1.7 }, .mode = TALC_UPSAMPLE_BILINEAR }))
F(f_upsample_aligned,
  talc_upsample2d(x[0], &(talc_upsample2d_options){ .size = { 7, 2 },
                                                    .mode = TALC_UPSAMPLE_BILINEAR,
                                                    .align_corners = true }))
F(f_no_dropout, talc_dropout(talc_tanh(x[0]), 0.4, false))
F(f_matmul, talc_matmul(x[0], x[1]))
F(f_matmul_turned, talc_matmul(talc_transpose(x[0], 0, 1), talc_transpose(x[1], 0, 1)))
F(f_linear, talc_linear(x[0], x[1], x[2], NULL))
F(f_linear_fused,
  talc_linear(x[0], x[1], x[2],
              &(talc_linear_options){ .activation = TALC_ACTIVATION_TANH, .residual = x[3] }))

#define CONV(...) talc_conv2d(x[0], x[1], NULL, &(talc_conv2d_options){ __VA_ARGS__ })
#define TRANSPOSE(...)                                                                             \
    talc_conv_transpose2d(x[0], x[1], x[2], &(talc_conv_transpose2d_options){ __VA_ARGS__ })
F(f_conv2d, CONV(.stride = { 1, 1 }))
F(f_conv2d_strided, CONV(.stride = { 2, 3 }, .padding = { 2, 1 }, .padding_end = { TALC_ZERO, 3 },
                         .dilation = { 1, 2 }))
F(f_conv2d_groups, CONV(.groups = 3, .padding = { 1, 1 }, .stride = { 2, 1 }))
F(f_conv2d_same, CONV(.padding_same = true))
F(f_conv2d_reflect, CONV(.padding = { 2, 1 }, .padding_mode = TALC_PADDING_REFLECT))
F(f_conv2d_replicate, CONV(.padding = { 3, 1 }, .padding_end = { 1, 4 },
                           .padding_mode = TALC_PADDING_REPLICATE, .groups = 2))
F(f_conv2d_circular,
  CONV(.padding = { 4, 2 }, .padding_mode = TALC_PADDING_CIRCULAR, .stride = { 2, 1 }))
F(f_conv2d_bias, talc_conv2d(x[0], x[1], x[2], NULL))
F(f_conv2d_tanh,
  talc_conv2d(x[0], x[1], x[2],
              &(talc_conv2d_options){
                  .padding = { 1, 1 }, .activation = TALC_ACTIVATION_TANH, .residual = x[3] }))
F(f_conv2d_sigmoid, talc_conv2d(x[0], x[1], x[2],
                                &(talc_conv2d_options){ .padding = { 1, 1 },
                                                        .padding_mode = TALC_PADDING_CIRCULAR,
                                                        .activation = TALC_ACTIVATION_SIGMOID,
                                                        .residual = x[3] }))
F(f_conv2d_relu,
  talc_conv2d(x[0], x[1], x[2], &(talc_conv2d_options){ .activation = TALC_ACTIVATION_RELU }))
F(f_transpose, talc_conv_transpose2d(x[0], x[1], NULL, NULL))
F(f_transpose_reached,
  TRANSPOSE(.dilation = { 3, 2 }, .padding = { 1, 2 }, .output_padding = { 2, 1 }))
F(f_transpose_nothing,
  TRANSPOSE(.dilation = { 7, 7 }, .padding = { 3, 3 }, .output_padding = { 6, 6 }))
F(f_transpose_strided,
  TRANSPOSE(.stride = { 2, 3 }, .padding = { 1, 2 }, .output_padding = { 1, 2 }))
F(f_transpose_groups,
  TRANSPOSE(.groups = 2, .stride = { 1, 2 }, .dilation = { 2, 1 }, .output_padding = { 1, 1 }))

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

Test(gradient, every_op_agrees_with_central_differences)
{
#define D TALC_DIMS
    // clang-format off
    const gradient_case cases[] = {
        { "pow", f_pow, 2, { D(4, 5), D(4, 1) }, 0.5, 2 },
        { "pow, of one exponent each", f_pow, 2, { D(5), D(3, 1) }, 0.5, 2 },
        { "pow_scalar", f_pow_scalar, 1, { D(3, 5) }, 0.5, 2 },
        { "pow_scalar of negative numbers", f_cube, 1, { D(3, 5) }, -2, 2 },
        { "maximum", f_larger, 2, { D(4, 5), D(4, 5) }, -2, 2 },
        { "maximum, broadcast", f_larger, 2, { D(4, 1), D(2, 1, 5) }, -2, 2 },
        { "minimum", f_smaller, 2, { D(4, 5), D(5) }, -2, 2 },
        { "clamp", f_clamp_within, 1, { D(4, 5) }, -2, 2 },
        { "clamp from above", f_clamp_above, 1, { D(19) }, -2, 2 },
        { "clamp from below", f_clamp_below, 1, { D(3, 2, 4) }, -2, 2 },
        { "where", f_where, 4, { D(4, 5), D(4, 5), D(4, 5), D(5) }, -2, 2 },
        { "where, broadcast", f_where, 4, { D(4, 1), D(5), D(4, 1), D(4, 5) }, -2, 2 },
        { "where, stretched by the condition", f_where, 4, { D(1), D(4, 1), D(3, 1, 1), D(5) }, -2, 2 },
        { "add", f_add, 2, { D(3, 5), D(5) }, -2, 2 },
        { "sub", f_sub, 2, { D(3, 1), D(2, 1, 5) }, -2, 2 },
        { "mul", f_mul, 2, { D(3, 5), D(3, 5) }, -2, 2 },
        { "mul, broadcast", f_mul, 2, { D(4, 1, 5), D(3, 1) }, -2, 2 },
        { "mul by a scalar tensor", f_mul, 2, { D(4, 5), D(1) }, -2, 2 },
        { "div", f_div, 2, { D(3, 5), D(5) }, 0.5, 2 },
        { "add_scalar", f_add_scalar, 1, { D(7) }, -2, 2 },
        { "sub_scalar", f_sub_scalar, 1, { D(7) }, -2, 2 },
        { "mul_scalar", f_mul_scalar, 1, { D(7) }, -2, 2 },
        { "div_scalar", f_div_scalar, 1, { D(7) }, -2, 2 },
        { "a tensor used three times", f_twice, 1, { D(7) }, -2, 2 },
        { "view", f_view, 1, { D(2, 3, 4) }, -2, 2 },
        { "reshape by a copy", f_reshape, 1, { D(2, 3, 4) }, -2, 2 },
        { "permute", f_permute, 1, { D(2, 3, 4) }, -2, 2 },
        { "slice", f_slice, 1, { D(2, 6, 3) }, -2, 2 },
        { "slice, empty", f_slice_empty, 1, { D(2, 6, 3) }, -2, 2 },
        { "select", f_select, 1, { D(2, 6, 3) }, -2, 2 },
        { "expand", f_expand, 1, { D(3, 1) }, -2, 2 },
        { "squeeze", f_squeeze, 1, { D(3, 1, 2) }, -2, 2 },
        { "flatten", f_flatten, 1, { D(3, 4, 2) }, -2, 2 },
        { "clone", f_clone, 1, { D(3, 4, 2) }, -2, 2 },
        { "concat", f_concat, 2, { D(3, 2, 2), D(3, 5, 2) }, -2, 2 },
        { "softmax", f_softmax, 1, { D(4, 6) }, -3, 3 },
        { "softmax of the outer dimension", f_softmax_middle, 1, { D(4, 2, 3) }, -3, 3 },
        { "log_softmax", f_log_softmax, 1, { D(4, 6) }, -3, 3 },
        { "group_norm", f_group_norm, 3, { D(3, 4, 5), D(4), D(4) }, -2, 2 },
        { "group_norm, tanh", f_group_norm_tanh, 3, { D(2, 6, 2, 2), D(6), D(6) }, -1, 1 },
        { "instance_norm2d", f_instance_norm, 1, { D(2, 3, 4, 3) }, -2, 2 },
        { "layer_norm", f_layer_norm, 3, { D(3, 2, 4), D(3, 4), D(3, 4) }, -2, 2 },
        { "layer_norm without bias", f_layer_norm_weight, 2, { D(5, 6), D(6) }, -2, 2 },
        { "max_pool2d", f_max_pool, 1, { D(2, 3, 7, 9) }, -2, 2 },
        { "max_pool2d of an image", f_max_pool, 1, { D(2, 9, 8) }, -2, 2 },
        { "max_pool2d, dilated", f_max_pool_dilated, 1, { D(1, 2, 11, 12) }, -2, 2 },
        { "avg_pool2d", f_avg_pool, 1, { D(2, 1, 7, 6) }, -2, 2 },
        { "avg_pool2d without padding", f_avg_pool_inside, 1, { D(2, 1, 7, 6) }, -2, 2 },
        { "avg_pool2d by a divisor", f_avg_pool_divided, 1, { D(5, 4, 9) }, -2, 2 },
        { "adaptive_avg_pool2d", f_adaptive, 1, { D(2, 3, 5, 8) }, -2, 2 },
        { "adaptive_avg_pool2d, to more", f_adaptive, 1, { D(2, 3, 2, 3) }, -2, 2 },
        { "adaptive_max_pool2d", f_adaptive_max, 1, { D(2, 3, 5, 8) }, -2, 2 },
        { "adaptive_max_pool2d, to more", f_adaptive_max, 1, { D(2, 3, 2, 3) }, -2, 2 },
        { "norm", f_norm, 3, { D(3, 4, 5, 7), D(4), D(4) }, -2, 2 },
        { "norm of many values", f_norm, 3, { D(37, 3, 21, 22), D(3), D(3) }, -2, 2 },
        { "norm, activated", f_norm_tanh, 3, { D(2, 3, 4, 8), D(3), D(3) }, -2, 2 },
        { "norm without weight", f_norm_plain, 1, { D(9, 3, 1, 1) }, -2, 2 },
        { "norm, evaluated", f_norm_evaluated, 3, { D(3, 4, 5, 7), D(4), D(4) }, -2, 2 },
        { "norm without weight, evaluated", f_norm_evaluated_plain, 1, { D(4, 3, 2, 6) }, -2, 2 },
        { "norm and residual", f_norm_added, 4, { D(3, 4, 5, 7), D(4), D(4), D(3, 4, 5, 7) }, -2, 2 },
        { "norm and residual, evaluated", f_norm_evaluated_sigmoid, 4, { D(2, 5, 4, 4), D(5), D(5), D(2, 5, 4, 4) }, -2, 2 },
        { "sum", f_sum, 1, { D(2, 3, 4) }, -1, 1 },
        { "sum of all", f_sum_all, 1, { D(2, 3, 4) }, -0.1, 0.1 },
        { "mean", f_mean, 1, { D(2, 3, 4) }, -1, 1 },
        { "max", f_max, 1, { D(2, 6, 4) }, -1, 1 },
        { "max of several dimensions", f_max_outer, 1, { D(2, 3, 4) }, -1, 1 },
        { "max of all", f_max_all, 1, { D(2, 3, 4) }, -1, 1 },
        { "cumsum", f_cumsum, 1, { D(2, 6, 4) }, -1, 1 },
        { "cumsum of one row", f_cumsum, 1, { D(1, 9) }, -1, 1 },
        { "cumsum of a view", f_cumsum_last, 1, { D(5, 4) }, -1, 1 },
        { "cumprod", f_cumprod, 1, { D(2, 6, 4) }, -2, 2 },
        { "cumprod of one row", f_cumprod, 1, { D(1, 9) }, -2, 2 },
        { "cumprod of a view", f_cumprod_last, 1, { D(5, 4) }, -2, 2 },
        { "gather", f_gather, 1, { D(2, 3, 4) }, -1, 1 },
        { "gather in the middle", f_gather_middle, 1, { D(2, 3, 4) }, -1, 1 },
        { "index_select", f_index_select, 1, { D(2, 3, 4) }, -1, 1 },
        { "index_select of columns", f_index_select_last, 1, { D(5, 4) }, -1, 1 },
        { "masked_fill", f_masked_fill, 2, { D(4, 5), D(5) }, -1, 1 },
        { "masked_fill, stretched", f_masked_fill, 2, { D(5), D(4, 5) }, -1, 1 },
        { "min", f_min, 1, { D(2, 3, 4) }, -1, 1 },
        { "var", f_var, 1, { D(2, 3, 4) }, -1, 1 },
        { "var of all", f_var_all, 1, { D(2, 3, 4) }, -1, 1 },
        { "var of rows", f_var_rows, 1, { D(5, 3, 2) }, -1, 1 },
        { "logsumexp", f_logsumexp, 1, { D(2, 6, 4) }, -3, 3 },
        { "logsumexp of several dimensions", f_logsumexp_outer, 1, { D(2, 3, 4) }, -1, 1 },
        { "logsumexp of all", f_logsumexp_all, 1, { D(2, 3, 4) }, -1, 1 },
        { "mse_loss", f_mse, 2, { D(4, 5), D(4, 5) }, -1, 1 },
        { "mse_loss of each", f_mse_none, 2, { D(2, 3, 2), D(2, 3, 2) }, -1, 1 },
        { "mse_loss of a vector", f_mse, 2, { D(7), D(7) }, -1, 1 },
        { "l1_loss", f_l1, 2, { D(4, 5), D(4, 5) }, -1, 1 },
        { "huber_loss", f_huber, 2, { D(4, 5), D(4, 5) }, -1, 1 },
        { "smooth_l1_loss", f_smooth_l1, 2, { D(4, 5), D(4, 5) }, -2, 2 },
        { "binary cross entropy", f_logits, 2, { D(4, 5), D(4, 5) }, 0.1, 0.9 },
        { "binary cross entropy of a vector", f_logits, 2, { D(7), D(7) }, 0.1, 0.9 },
        { "binary cross entropy, weighted", f_logits_weighted, 4, { D(3, 5), D(3, 5), D(3, 1), D(5) }, 0.1, 2 },
        { "nll_loss", f_nll, 1, { D(7, 4) }, -2, 2 },
        { "nll_loss of planes", f_nll_none, 1, { D(2, 4, 3, 2) }, -2, 2 },
        { "nll_loss of a view", f_nll_sum, 1, { D(3, 4, 2) }, -2, 2 },
        { "nll_loss of one sample", f_nll_none, 1, { D(4) }, -2, 2 },
        { "nll_loss, weighted", f_nll_weighted, 1, { D(2, 4, 5) }, 0.1, 2 },
        { "cross_entropy", f_entropy, 1, { D(7, 4) }, -2, 2 },
        { "cross_entropy of one sample", f_entropy_smooth, 1, { D(4) }, -2, 2 },
        { "cross_entropy, summed", f_entropy_sum, 1, { D(9, 4) }, -2, 2 },
        { "cross_entropy of each", f_entropy_none, 1, { D(2, 4, 3, 2) }, -2, 2 },
        { "cross_entropy, smoothed", f_entropy_smooth, 1, { D(2, 4, 5) }, -2, 2 },
        { "cross_entropy, weighted", f_entropy_weighted, 1, { D(12, 4) }, -2, 2 },
        { "cross_entropy, weighted of each", f_entropy_weighted_none, 1, { D(2, 4, 5) }, -2, 2 },
        { "cross_entropy, turned", f_entropy_weighted_sum, 1, { D(4, 9) }, -2, 2 },
        { "dropout", f_dropout, 1, { D(4, 6) }, -2, 2 },
        { "drop_path", f_drop_path, 1, { D(6, 2, 3) }, -2, 2 },
        { "local_response_norm", f_response, 1, { D(2, 5, 3) }, -2, 2 },
        { "local_response_norm of images", f_response, 1, { D(1, 4, 2, 3) }, -2, 2 },
        { "local_response_norm of two channels", f_response, 1, { D(3, 2, 4) }, -2, 2 },
        { "pad", f_pad, 1, { D(2, 3, 4) }, -2, 2 },
        { "pad, reflect", f_pad_reflect, 1, { D(3, 2, 6) }, -2, 2 },
        { "pad, replicate", f_pad_replicate, 1, { D(5, 3, 2) }, -2, 2 },
        { "pad, circular", f_pad_circular, 1, { D(2, 3, 4) }, -2, 2 },
        { "upsample2d", f_upsample, 1, { D(2, 3, 4) }, -2, 2 },
        { "upsample2d, bilinear", f_upsample_bilinear, 1, { D(3, 5, 2) }, -2, 2 },
        { "upsample2d, aligned", f_upsample_aligned, 1, { D(2, 3, 4) }, -2, 2 },
        { "dropout in evaluation", f_no_dropout, 1, { D(4, 6) }, -2, 2 },
        { "matmul", f_matmul, 2, { D(3, 5), D(5, 4) }, -2, 2 },
        { "matmul, turned", f_matmul_turned, 2, { D(5, 3), D(4, 5) }, -2, 2 },
        { "matmul, batches", f_matmul, 2, { D(2, 3, 5), D(2, 5, 4) }, -2, 2 },
        { "matmul, one b for all", f_matmul, 2, { D(2, 3, 5), D(5, 4) }, -2, 2 },
        { "matmul, one a for all", f_matmul, 2, { D(3, 5), D(2, 5, 4) }, -2, 2 },
        { "matmul, broadcast batches", f_matmul, 2, { D(2, 1, 3, 5), D(4, 5, 2) }, -2, 2 },
        { "matmul, row", f_matmul, 2, { D(5), D(5, 4) }, -2, 2 },
        { "matmul, column", f_matmul, 2, { D(3, 5), D(5) }, -2, 2 },
        { "matmul, column of batches", f_matmul, 2, { D(2, 3, 5), D(5) }, -2, 2 },
        { "matmul, two vectors", f_matmul, 2, { D(5), D(5) }, -2, 2 },
        { "linear", f_linear, 3, { D(3, 5), D(4, 5), D(4) }, -2, 2 },
        { "linear of a vector", f_linear, 3, { D(5), D(4, 5), D(4) }, -2, 2 },
        { "linear of rows", f_linear, 3, { D(2, 3, 5), D(4, 5), D(4) }, -2, 2 },
        { "conv2d", f_conv2d, 2, { D(2, 3, 6, 5), D(4, 3, 3, 2) }, -2, 2 },
        { "conv2d, a point", f_conv2d, 2, { D(3, 4, 3, 5), D(2, 4, 1, 1) }, -2, 2 },
        { "conv2d, one channel", f_conv2d, 2, { D(3, 1, 7, 8), D(3, 1, 5, 5) }, -2, 2 },
        { "conv2d, strided", f_conv2d_strided, 2, { D(2, 2, 7, 9), D(3, 2, 3, 3) }, -2, 2 },
        { "conv2d, depthwise", f_conv2d_groups, 2, { D(2, 3, 6, 5), D(6, 1, 3, 3) }, -2, 2 },
        { "conv2d, groups", f_conv2d_groups, 2, { D(2, 6, 5, 4), D(9, 2, 3, 3) }, -2, 2 },
        { "conv2d, same", f_conv2d_same, 2, { D(1, 2, 5, 4), D(3, 2, 2, 4) }, -2, 2 },
        { "conv2d, reflect", f_conv2d_reflect, 2, { D(2, 2, 4, 3), D(3, 2, 3, 2) }, -2, 2 },
        { "conv2d, replicate", f_conv2d_replicate, 2, { D(1, 4, 3, 4), D(2, 2, 3, 3) }, -2, 2 },
        { "conv2d, circular", f_conv2d_circular, 2, { D(2, 2, 4, 3), D(3, 2, 3, 3) }, -2, 2 },
        { "conv2d, bias", f_conv2d_bias, 3, { D(2, 2, 5, 4), D(3, 2, 3, 2), D(3) }, -2, 2 },
        { "conv2d, tanh", f_conv2d_tanh, 4, { D(2, 2, 4, 3), D(3, 2, 3, 3), D(3), D(2, 3, 4, 3) }, -0.5, 0.5 },
        { "conv2d, sigmoid", f_conv2d_sigmoid, 4, { D(2, 2, 4, 3), D(3, 2, 3, 3), D(3), D(2, 3, 4, 3) }, -0.5, 0.5 },
        { "conv2d, relu", f_conv2d_relu, 3, { D(2, 2, 4, 3), D(3, 2, 2, 2), D(3) }, 0.1, 1 },
        { "conv_transpose2d", f_transpose, 2, { D(2, 3, 3, 4), D(3, 2, 2, 3) }, -2, 2 },
        { "conv_transpose2d, output_padding of the stride", f_transpose_reached, 3, { D(1, 2, 3, 2), D(2, 1, 2, 3), D(1) }, -2, 2 },
        { "conv_transpose2d, nothing reached", f_transpose_nothing, 3, { D(1, 1, 1, 1), D(1, 1, 1, 1), D(1) }, -2, 2 },
        { "conv_transpose2d, strided", f_transpose_strided, 3, { D(2, 3, 3, 4), D(3, 2, 3, 4), D(2) }, -2, 2 },
        { "conv_transpose2d, groups", f_transpose_groups, 3, { D(2, 4, 3, 2), D(4, 2, 2, 3), D(4) }, -2, 2 },
        { "linear, fused", f_linear_fused, 4, { D(2, 3, 5), D(4, 5), D(4), D(2, 3, 4) }, -1, 1 },
    };
    // clang-format on
#undef D
    talc_device *device = tested_device();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const gradient_case *c = &cases[i];
        talc_scope *scope = talc_scope_enter();
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
        talc_scope_leave(scope);
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
            talc_scope *scope = talc_scope_enter();
            talc_manual_seed((uint64_t)(s + 1));
            const double low = unary_cases[i].positive ? 0.5 : -4;
            talc_tensor *x = leaf(tested_device(), shapes[s % 3], low, 4);
            talc_gradient_report report;
            const bool ok = talc_check_gradient(f_unary, &i, &x, 1, NULL, &report);
            cr_assert(!talc_failed(), "%s: %s", unary_cases[i].name, talc_error_message());
            cr_assert(ok && report.count == 4, "%s: off by %g: %.12g instead of %.12g",
                      unary_cases[i].name, report.worst, report.got, report.expected);
            talc_scope_leave(scope);
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
            talc_scope *scope = talc_scope_enter();
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
            talc_scope_leave(scope);
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
