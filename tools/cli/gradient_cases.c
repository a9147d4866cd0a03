#include "tools/cli/gradient_cases.h"

#include "tools/cli/models.h"

#include <string.h>

// ---- Ops ----------------------------------------------------------------------------------------

/* Labels 0, 3, 2, 1, 0, ... of four classes for x [N, 4, ...], on its device. */
static talc_tensor *labels_of(const talc_tensor *x)
{
    int64_t labels[64];
    talc_dims dims = { 0 };
    int64_t count = 1;
    for (int i = 0; i < x->rank; i++)
        if (i != 1)
            count *= dims.dim[dims.rank++] = x->dims[i];
    for (int64_t i = 0; i < count && i < 64; i++)
        labels[i] = i * 3 % 4;
    return talc_from_host(x->device, TALC_I64, dims, labels);
}

/* Weights 1, 2, 3, 4 of classes. */
static talc_tensor *weights_of(const talc_tensor *x)
{
    return talc_arange(x->device, TALC_F64, 1, 5, 1);
}

static talc_tensor *entropy(const talc_tensor *x, talc_cross_entropy_options options, bool weighted)
{
    options.class_weights = weighted ? weights_of(x) : NULL;
    return talc_cross_entropy_with(x, labels_of(x), &options);
}

static talc_tensor *nll(const talc_tensor *x, talc_nll_loss_options options, bool weighted)
{
    options.weight = weighted ? weights_of(x) : NULL;
    return talc_nll_loss(x, labels_of(x), &options);
}

/* Statistics that no check may move: of the batch, or 0 and 2 for each channel. */
static talc_tensor *norm(talc_tensor *const x[], bool training, const talc_tensor *residual)
{
    const talc_dims channels = TALC_DIMS(x[0]->dims[1]);
    const talc_batch_norm2d_options options = { .training = training,
                                                .activation = TALC_ACTIVATION_TANH,
                                                .residual = residual };
    talc_tensor *mean = training ? NULL : talc_zeros(x[0]->device, TALC_F64, channels);
    talc_tensor *var = training ? NULL : talc_full(x[0]->device, TALC_F64, channels, 2);
    return talc_batch_norm2d(x[0], x[1], x[2], mean, var, &options);
}

#define F(name, expression)                                                                        \
    static talc_tensor *name(talc_tensor *const x[], void *context)                                \
    {                                                                                              \
        (void)context;                                                                             \
        return expression;                                                                         \
    }

F(pow_of, talc_pow(x[0], x[1]))
F(pow_scalar, talc_pow_scalar(x[0], 3))
F(maximum, talc_maximum(x[0], x[1]))
F(minimum, talc_minimum(x[0], x[1]))
F(clamp, talc_clamp(x[0], 3e-3, 9))
F(where, talc_where(talc_less_scalar(x[0], 0), talc_tanh(x[1]), x[2]))
F(add, talc_add(x[0], x[1]))
F(sub, talc_sub(x[0], x[1]))
F(mul, talc_mul(x[0], x[1]))
F(div_of, talc_div(x[0], x[1]))
F(scalars, talc_div_scalar(talc_mul_scalar(talc_sub_scalar(talc_add_scalar(x[0], 3), 1), 5), 3))
F(reshape, talc_tanh(talc_reshape(talc_transpose(x[0], 0, 1), TALC_DIMS(-1))))
F(permute, talc_tanh(talc_permute(x[0], TALC_DIMS(2, 0, 1))))
F(slice, talc_tanh(talc_slice(x[0], 1, 1, TALC_END, 2)))
F(select_of, talc_tanh(talc_select(x[0], -1, 1)))
F(expand, talc_tanh(talc_expand(x[0], TALC_DIMS(4, 3, 5))))
F(concat, talc_concat((const talc_tensor *[]){ x[0], x[1], x[0] }, 3, 1))
F(softmax, talc_softmax(x[0], 1))
F(log_softmax, talc_log_softmax(x[0], 1))
F(group_norm,
  talc_group_norm(x[0], 2, x[1], x[2], &(talc_norm_options){ .activation = TALC_ACTIVATION_TANH }))
F(instance_norm, talc_instance_norm2d(x[0], x[1], x[2], NULL))
F(layer_norm, talc_layer_norm(x[0], TALC_DIMS(6), x[1], x[2], NULL))
F(sum, talc_tanh(talc_sum(x[0], TALC_DIMS(0, 2), false)))
F(mean, talc_tanh(talc_mean(x[0], TALC_DIMS(-1), true)))
F(max, talc_tanh(talc_max(x[0], TALC_DIMS(1), false)))
F(cumprod, talc_tanh(talc_cumprod(x[0], 1)))
F(cumsum, talc_tanh(talc_cumsum(x[0], 1)))
static const talc_tensor *rows(const talc_tensor *x, talc_dims dims)
{
    const talc_tensor *few = talc_arange(x->device, TALC_I64, 0, 2, 1);
    return talc_expand(talc_reshape(few, TALC_DIMS(1, 2, 1)), dims);
}
F(gather, talc_tanh(talc_gather(x[0], 2, rows(x[0], TALC_DIMS(2, 2, 9)))))
F(index_select,
  talc_tanh(talc_index_select(x[0], 1, talc_reshape(rows(x[0], TALC_DIMS(2, 2, 2)), TALC_DIMS(8)))))
F(masked_fill, talc_masked_fill(talc_tanh(x[0]), talc_less_scalar(x[0], 0), 0.5))
F(min, talc_tanh(talc_min(x[0], TALC_DIMS(1), false)))
F(var, talc_tanh(talc_var(x[0], TALC_DIMS(0, 2), 1, false)))
F(logsumexp, talc_tanh(talc_logsumexp(x[0], TALC_DIMS(-1), true)))
F(mse, talc_mse_loss(x[0], x[1], TALC_REDUCTION_MEAN))
F(l1, talc_l1_loss(x[0], x[1], TALC_REDUCTION_SUM))
F(huber, talc_huber_loss(x[0], x[1], 0.7, TALC_REDUCTION_MEAN))
F(smooth_l1, talc_smooth_l1_loss(x[0], x[1], 1.2, TALC_REDUCTION_NONE))
F(binary, talc_binary_cross_entropy_with_logits(x[0], x[1], NULL))
F(entropy_mean, talc_cross_entropy(x[0], labels_of(x[0])))
F(entropy_smooth,
  entropy(x[0],
          (talc_cross_entropy_options){ .reduction = TALC_REDUCTION_NONE, .label_smoothing = 0.1 },
          false))
F(entropy_weighted, entropy(x[0], (talc_cross_entropy_options){ .ignore_index = 2 }, true))
F(nll_mean, nll(x[0], (talc_nll_loss_options){ .ignore_index = 2 }, false))
F(nll_weighted, nll(x[0], (talc_nll_loss_options){ .reduction = TALC_REDUCTION_NONE }, true))
F(response,
  talc_local_response_norm(x[0], 3, &(talc_local_response_norm_options){ .alpha = 0.5, .k = 2 }))
F(matmul, talc_matmul(x[0], x[1]))
F(matmul_turned, talc_matmul(talc_transpose(x[0], 0, 1), talc_transpose(x[1], 0, 1)))
F(linear, talc_linear(x[0], x[1], x[2], NULL))
F(linear_fused,
  talc_linear(x[0], x[1], x[2],
              &(talc_linear_options){ .activation = TALC_ACTIVATION_TANH, .residual = x[3] }))
F(norm_batch, norm(x, true, NULL))
F(norm_running, norm(x, false, NULL))
F(norm_fused, norm(x, true, x[3]))

#define CONV(...) talc_conv2d(x[0], x[1], x[2], &(talc_conv2d_options){ __VA_ARGS__ })
F(conv2d, talc_conv2d(x[0], x[1], x[2], NULL))
F(conv2d_strided, CONV(.stride = { 2, 3 }, .padding = { 2, 1 }, .dilation = { 1, 2 }))
F(conv2d_groups, CONV(.groups = 3, .padding = { 1, 1 }, .stride = { 2, 1 }))
F(conv2d_reflect, CONV(.padding = { 2, 1 }, .padding_mode = TALC_PADDING_REFLECT))
F(conv2d_circular, CONV(.padding = { 2, 2 }, .padding_mode = TALC_PADDING_CIRCULAR))
F(conv2d_fused, CONV(.padding = { 1, 1 }, .activation = TALC_ACTIVATION_TANH, .residual = x[3]))
F(transpose, talc_conv_transpose2d(x[0], x[1], x[2], NULL))
F(transpose_strided,
  talc_conv_transpose2d(x[0], x[1], x[2],
                        &(talc_conv_transpose2d_options){
                            .stride = { 2, 3 }, .padding = { 1, 2 }, .output_padding = { 1, 2 } }))

#define POOL(op, ...) talc_##op##_pool2d(x[0], &(talc_pool2d_options){ __VA_ARGS__ })
F(max_pool, POOL(max, .kernel = { 2, 3 }))
F(max_pool_overlap,
  POOL(max, .kernel = { 3, 2 }, .stride = { 1, 2 }, .padding = { 1, 1 }, .dilation = { 2, 1 }))
F(avg_pool, POOL(avg, .kernel = { 2, 3 }))
F(avg_pool_overlap, POOL(avg, .kernel = { 3, 3 }, .stride = { 2, 2 }, .padding = { 1, 1 },
                         .ceil_mode = true, .exclude_padding = true))
F(adaptive_pool, talc_adaptive_avg_pool2d(x[0], 3, 7))
F(adaptive_max_pool, talc_adaptive_max_pool2d(x[0], 3, 7))

#define PAD(...) talc_pad(x[0], &(talc_pad_options){ __VA_ARGS__ })
F(pad, PAD(.padding = { 1, -1, 0, 2 }, .value = 3))
F(pad_reflect, PAD(.padding = { 3, 2, -1, 1 }, .mode = TALC_PADDING_REFLECT))
F(pad_replicate, PAD(.padding = { 3, 2, -1, 1 }, .mode = TALC_PADDING_REPLICATE))
F(pad_circular, PAD(.padding = { 3, 2, -1, 1 }, .mode = TALC_PADDING_CIRCULAR))
#define UPSAMPLE(...) talc_upsample2d(x[0], &(talc_upsample2d_options){ __VA_ARGS__ })
F(upsample_nearest, UPSAMPLE(.scale = { 1.7, 2.3 }))
F(upsample_bilinear, UPSAMPLE(.scale = { 1.7, 0.6 }, .mode = TALC_UPSAMPLE_BILINEAR))
F(upsample_aligned,
  UPSAMPLE(.size = { 7, 5 }, .mode = TALC_UPSAMPLE_BILINEAR, .align_corners = true))
F(stack, talc_tanh(talc_stack((const talc_tensor *[]){ x[0], x[1], x[0] }, 3, 1)))
F(channel_shuffle, talc_channel_shuffle(x[0], 2))

/* One of the parts is used twice, one not at all. */
static talc_tensor *split(talc_tensor *const x[], void *context)
{
    (void)context;
    talc_tensor *parts[3];
    return talc_split(x[0], (const int64_t[]){ 2, 1, 2 }, 3, 1, parts)
               ? talc_mul(talc_tanh(parts[0]), parts[0])
               : NULL;
}

// ---- Cases --------------------------------------------------------------------------------------

static talc_module *lenet(void)
{
    return network_new("lenet", NULL);
}

static talc_module *resnet20(void)
{
    return network_new("resnet20", NULL);
}

static talc_module *resnet20_b(void)
{
    return network_new("resnet20-b", NULL);
}

/* Dimensions that initialise a table, which a compound literal may not. */
#define D1(a)                                                                                      \
    {                                                                                              \
        1,                                                                                         \
        {                                                                                          \
            a                                                                                      \
        }                                                                                          \
    }
#define D2(a, b)                                                                                   \
    {                                                                                              \
        2,                                                                                         \
        {                                                                                          \
            a, b                                                                                   \
        }                                                                                          \
    }
#define D3(a, b, c)                                                                                \
    {                                                                                              \
        3,                                                                                         \
        {                                                                                          \
            a, b, c                                                                                \
        }                                                                                          \
    }
#define D4(a, b, c, d)                                                                             \
    {                                                                                              \
        4,                                                                                         \
        {                                                                                          \
            a, b, c, d                                                                             \
        }                                                                                          \
    }

/* The elementwise ops of one operand, from their table, with numbers that inputs lie on both sides
 * of. */
#define NUMBERS_NONE
#define NUMBERS_ONE(p)    , 0.3
#define NUMBERS_TWO(p, q) , -0.8, 1.1
#define UNARY_FUNCTION(constant, name, numbers, ...)                                               \
    F(name##_of, talc_##name(x[0] NUMBERS_##numbers))
#define UNARY_ROW(constant, name, ...)                                                             \
    { #name,                                                                                       \
      "",                                                                                          \
      name##_of,                                                                                   \
      1,                                                                                           \
      { D2(4, 6) },                                                                                \
      constant == TALC_LOG || constant == TALC_SQRT || constant == TALC_RSQRT ? 0.5 : -3,          \
      3,                                                                                           \
      NULL },
TALC_UNARY_TABLE(UNARY_FUNCTION)

// clang-format off
const gradient_case gradient_cases[] = {
    TALC_UNARY_TABLE(UNARY_ROW)
    { "adaptive_avg_pool2d", "windows that overlap", adaptive_pool, 1, { D4(2, 2, 7, 5) }, -2, 2, NULL },
    { "adaptive_max_pool2d", "windows that overlap", adaptive_max_pool, 1, { D4(2, 2, 7, 5) }, -2, 2, NULL },
    { "add", "broadcast", add, 2, { D2(3, 5), D1(5) }, -2, 2, NULL },
    { "avg_pool2d", "", avg_pool, 1, { D4(2, 2, 4, 6) }, -2, 2, NULL },
    { "avg_pool2d", "windows that overlap, ceil_mode, exclude_padding", avg_pool_overlap, 1, { D4(2, 2, 6, 5) }, -2, 2, NULL },
    { "batch_norm2d", "of the batch, tanh", norm_batch, 3, { D4(3, 2, 4, 3), D1(2), D1(2) }, -2, 2, NULL },
    { "batch_norm2d", "of running statistics, tanh", norm_running, 3, { D4(3, 2, 4, 3), D1(2), D1(2) }, -2, 2, NULL },
    { "batch_norm2d", "of the batch, residual, tanh", norm_fused, 4, { D4(3, 2, 4, 3), D1(2), D1(2), D4(3, 2, 4, 3) }, -1, 1, NULL },
    { "binary_cross_entropy_with_logits", "", binary, 2, { D2(4, 5), D2(4, 5) }, 0.1, 0.9, NULL },
    { "channel_shuffle", "", channel_shuffle, 1, { D4(2, 4, 2, 3) }, -2, 2, NULL },
    { "clamp", "", clamp, 1, { D2(4, 5) }, -2, 2, NULL },
    { "concat", "a tensor twice", concat, 2, { D3(3, 2, 2), D3(3, 5, 2) }, -2, 2, NULL },
    { "conv2d", "bias", conv2d, 3, { D4(2, 3, 6, 5), D4(4, 3, 3, 2), D1(4) }, -2, 2, NULL },
    { "conv2d", "strided, padded, dilated", conv2d_strided, 3, { D4(2, 2, 7, 9), D4(3, 2, 3, 3), D1(3) }, -2, 2, NULL },
    { "conv2d", "groups", conv2d_groups, 3, { D4(2, 6, 5, 4), D4(9, 2, 3, 3), D1(9) }, -2, 2, NULL },
    { "conv2d", "depthwise", conv2d_groups, 3, { D4(2, 3, 6, 5), D4(6, 1, 3, 3), D1(6) }, -2, 2, NULL },
    { "conv2d", "pointwise", conv2d, 3, { D4(3, 4, 3, 5), D4(2, 4, 1, 1), D1(2) }, -2, 2, NULL },
    { "conv2d", "reflect", conv2d_reflect, 3, { D4(2, 2, 4, 3), D4(3, 2, 3, 2), D1(3) }, -2, 2, NULL },
    { "conv2d", "circular", conv2d_circular, 3, { D4(2, 2, 4, 3), D4(3, 2, 3, 3), D1(3) }, -2, 2, NULL },
    { "conv2d", "residual, tanh", conv2d_fused, 4, { D4(2, 2, 4, 3), D4(3, 2, 3, 3), D1(3), D4(2, 3, 4, 3) }, -0.5, 0.5, NULL },
    { "conv_transpose2d", "bias", transpose, 3, { D4(2, 3, 3, 4), D4(3, 2, 2, 3), D1(2) }, -2, 2, NULL },
    { "conv_transpose2d", "strided, padded", transpose_strided, 3, { D4(2, 3, 3, 4), D4(3, 2, 3, 4), D1(2) }, -2, 2, NULL },
    { "cross_entropy", "mean", entropy_mean, 1, { D2(7, 4) }, -2, 2, NULL },
    { "cross_entropy", "none, label_smoothing", entropy_smooth, 1, { D3(3, 4, 5) }, -2, 2, NULL },
    { "cross_entropy", "class_weights, ignore_index", entropy_weighted, 1, { D4(2, 4, 3, 2) }, -2, 2, NULL },
    { "cumprod", "tanh", cumprod, 1, { D3(2, 5, 3) }, -2, 2, NULL },
    { "cumsum", "tanh", cumsum, 1, { D3(2, 5, 3) }, -1, 1, NULL },
    { "div", "broadcast", div_of, 2, { D2(3, 5), D1(5) }, 0.5, 2, NULL },
    { "expand", "tanh", expand, 1, { D2(3, 1) }, -2, 2, NULL },
    { "gather", "tanh", gather, 1, { D3(2, 3, 4) }, -1, 1, NULL },
    { "group_norm", "2 groups, tanh", group_norm, 3, { D4(3, 4, 2, 3), D1(4), D1(4) }, -1, 1, NULL },
    { "huber_loss", "", huber, 2, { D2(4, 5), D2(4, 5) }, -1, 1, NULL },
    { "index_select", "tanh", index_select, 1, { D3(2, 3, 4) }, -1, 1, NULL },
    { "instance_norm2d", "", instance_norm, 3, { D4(2, 3, 4, 3), D1(3), D1(3) }, -2, 2, NULL },
    { "l1_loss", "", l1, 2, { D2(4, 5), D2(4, 5) }, -1, 1, NULL },
    { "layer_norm", "", layer_norm, 3, { D3(2, 5, 6), D1(6), D1(6) }, -2, 2, NULL },
    { "linear", "bias", linear, 3, { D2(3, 5), D2(4, 5), D1(4) }, -2, 2, NULL },
    { "linear", "residual, tanh", linear_fused, 4, { D3(2, 3, 5), D2(4, 5), D1(4), D3(2, 3, 4) }, -1, 1, NULL },
    { "local_response_norm", "", response, 1, { D4(2, 5, 2, 3) }, -2, 2, NULL },
    { "log_softmax", "", log_softmax, 1, { D2(4, 6) }, -3, 3, NULL },
    { "logsumexp", "tanh", logsumexp, 1, { D3(2, 3, 4) }, -3, 3, NULL },
    { "masked_fill", "", masked_fill, 1, { D2(4, 6) }, -1, 1, NULL },
    { "matmul", "", matmul, 2, { D2(3, 5), D2(5, 4) }, -2, 2, NULL },
    { "matmul", "batches, broadcast", matmul, 2, { D4(2, 1, 3, 5), D3(4, 5, 2) }, -2, 2, NULL },
    { "matmul", "transposed views", matmul_turned, 2, { D2(5, 3), D2(4, 5) }, -2, 2, NULL },
    { "max", "tanh", max, 1, { D3(2, 6, 4) }, -1, 1, NULL },
    { "max_pool2d", "", max_pool, 1, { D4(2, 2, 4, 6) }, -2, 2, NULL },
    { "max_pool2d", "windows that overlap, padded, dilated", max_pool_overlap, 1, { D4(2, 2, 6, 5) }, -2, 2, NULL },
    { "maximum", "broadcast", maximum, 2, { D2(4, 1), D3(2, 1, 5) }, -2, 2, NULL },
    { "mean", "tanh", mean, 1, { D3(2, 3, 4) }, -1, 1, NULL },
    { "min", "tanh", min, 1, { D3(2, 6, 4) }, -1, 1, NULL },
    { "minimum", "broadcast", minimum, 2, { D2(4, 5), D1(5) }, -2, 2, NULL },
    { "mse_loss", "", mse, 2, { D2(4, 5), D2(4, 5) }, -1, 1, NULL },
    { "mul", "broadcast", mul, 2, { D3(4, 1, 5), D2(3, 1) }, -2, 2, NULL },
    { "nll_loss", "mean, ignore_index", nll_mean, 1, { D2(7, 4) }, -2, 2, NULL },
    { "nll_loss", "none, weight", nll_weighted, 1, { D4(2, 4, 3, 2) }, -2, 2, NULL },
    { "pad", "a constant", pad, 1, { D3(2, 3, 4) }, -2, 2, NULL },
    { "pad", "circular, cropped", pad_circular, 1, { D3(2, 4, 5) }, -2, 2, NULL },
    { "pad", "reflect, cropped", pad_reflect, 1, { D3(2, 4, 5) }, -2, 2, NULL },
    { "pad", "replicate, cropped", pad_replicate, 1, { D3(2, 4, 5) }, -2, 2, NULL },
    { "permute", "tanh", permute, 1, { D3(2, 3, 4) }, -2, 2, NULL },
    { "pow", "broadcast", pow_of, 2, { D2(4, 5), D2(4, 1) }, 0.5, 2, NULL },
    { "pow_scalar", "", pow_scalar, 1, { D2(3, 5) }, -2, 2, NULL },
    { "reshape", "of a transposed view, tanh", reshape, 1, { D3(2, 3, 4) }, -2, 2, NULL },
    { "scalars", "add, sub, mul, div by a number", scalars, 1, { D1(7) }, -2, 2, NULL },
    { "select", "tanh", select_of, 1, { D3(2, 6, 3) }, -2, 2, NULL },
    { "slice", "tanh", slice, 1, { D3(2, 6, 3) }, -2, 2, NULL },
    { "smooth_l1_loss", "none", smooth_l1, 2, { D2(4, 5), D2(4, 5) }, -2, 2, NULL },
    { "softmax", "", softmax, 1, { D2(4, 6) }, -3, 3, NULL },
    { "split", "", split, 1, { D2(3, 5) }, -2, 2, NULL },
    { "stack", "a tensor twice", stack, 2, { D2(3, 4), D2(3, 4) }, -2, 2, NULL },
    { "sub", "broadcast", sub, 2, { D2(3, 1), D3(2, 1, 5) }, -2, 2, NULL },
    { "sum", "tanh", sum, 1, { D3(2, 3, 4) }, -1, 1, NULL },
    { "upsample2d", "bilinear", upsample_bilinear, 1, { D4(2, 1, 4, 5) }, -2, 2, NULL },
    { "upsample2d", "bilinear, corners aligned", upsample_aligned, 1, { D4(2, 1, 4, 3) }, -2, 2, NULL },
    { "upsample2d", "nearest", upsample_nearest, 1, { D4(2, 1, 4, 3) }, -2, 2, NULL },
    { "var", "tanh", var, 1, { D3(2, 3, 4) }, -1, 1, NULL },
    { "where", "broadcast", where, 3, { D2(4, 5), D2(4, 1), D1(5) }, -2, 2, NULL },
    { "lenet", "1 image of 28x28", NULL, 1, { D4(1, 1, 28, 28) }, -1, 1, lenet },
    { "resnet20", "2 images of 8x8, in train mode", NULL, 1, { D4(2, 3, 8, 8) }, -1, 1, resnet20 },
    { "resnet20-b", "2 images of 8x8, in train mode", NULL, 1, { D4(2, 3, 8, 8) }, -1, 1, resnet20_b },
    { .name = NULL },
};
// clang-format on

bool gradient_case_known(const char *name)
{
    for (const gradient_case *c = gradient_cases; c->name != NULL; c++)
        if (strcmp(c->name, name) == 0)
            return true;
    return false;
}

const char *gradient_case_names(char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (const gradient_case *c = gradient_cases; c->name != NULL && used < size; c++)
        if (c == gradient_cases || strcmp(c->name, c[-1].name) != 0)
            used +=
                (size_t)snprintf(text + used, size - used, "%s%s", used == 0 ? "" : ", ", c->name);
    return text;
}

// ---- Checking -----------------------------------------------------------------------------------

/* Elements of either sign keep away from 0, where relu and abs have a kink. */
static talc_tensor *input_of(const gradient_case *c, int index, talc_device *device)
{
    talc_tensor *x = talc_uniform(device, TALC_F64, c->dims[index], c->low, c->high);
    if (c->low < 0 && x != NULL)
        x = talc_where(talc_less_scalar(x, 0), talc_sub_scalar(x, 0.01), talc_add_scalar(x, 0.01));
    if (x != NULL)
        talc_require_grad(x, true);
    return x;
}

static bool check_made(const gradient_case *c, talc_device *device,
                       const talc_gradient_options *options, talc_gradient_report *report)
{
    talc_tensor *inputs[GRADIENT_INPUTS] = { NULL };
    for (int i = 0; i < c->count; i++)
        inputs[i] = input_of(c, i, device);
    if (talc_failed())
        return false;
    if (c->make == NULL)
        return talc_check_gradient(c->f, NULL, inputs, c->count, options, report);
    talc_module *module = c->make();
    const bool ok = module != NULL && talc_module_to(module, device) &&
                    talc_check_module_gradient(module, inputs[0], options, report);
    talc_module_free(module);
    return ok;
}

bool gradient_case_check(const gradient_case *c, talc_device *device, uint64_t seed,
                         talc_gradient_report *report)
{
    *report = (talc_gradient_report){ .count = 0 };
    talc_scope *scope = talc_scope_enter();
    const talc_gradient_options options = { .directions = c->make == NULL ? 4 : 1, .seed = seed };
    const bool ok =
        scope != NULL && talc_manual_seed(seed) && check_made(c, device, &options, report);
    talc_scope_leave(scope);
    return ok;
}
