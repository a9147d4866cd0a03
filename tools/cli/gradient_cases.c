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

static const talc_tensor *rows(const talc_tensor *x, talc_dims dims)
{
    const talc_tensor *few = talc_arange(x->device, TALC_I64, 0, 2, 1);
    return talc_expand(talc_reshape(few, TALC_DIMS(1, 2, 1)), dims);
}

/* One of the parts is used twice, one not at all. */
static talc_tensor *split(talc_tensor *const x[])
{
    talc_tensor *parts[3];
    return talc_split(x[0], (const int64_t[]){ 2, 1, 2 }, 3, 1, parts)
               ? talc_mul(talc_tanh(parts[0]), parts[0])
               : NULL;
}

// ---- Cases --------------------------------------------------------------------------------------

static talc_module *lenet(void)
{
    return talc_network_new("lenet", NULL);
}

static talc_module *resnet20(void)
{
    return talc_network_new("resnet20", NULL);
}

static talc_module *resnet20_b(void)
{
    return talc_network_new("resnet20-b", NULL);
}

// clang-format off
/* Dimensions that initialise a table, which a compound literal may not. */
#define D(...) { sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t), { __VA_ARGS__ } }
#define COUNT(...) (sizeof((const talc_dims[]){ __VA_ARGS__ }) / sizeof(talc_dims))
#define CONV(...) talc_conv2d(x[0], x[1], x[2], &(talc_conv2d_options){ __VA_ARGS__ })
#define POOL(op, ...) talc_##op##_pool2d(x[0], &(talc_pool2d_options){ __VA_ARGS__ })
#define PAD(...) talc_pad(x[0], &(talc_pad_options){ __VA_ARGS__ })
#define UPSAMPLE(...) talc_upsample2d(x[0], &(talc_upsample2d_options){ __VA_ARGS__ })

/* Identifier, name, what there is to add, bounds of the inputs' elements, op, shapes of the inputs. */
#define CASES(X) \
    X(adaptive_pool, "adaptive_avg_pool2d", "windows that overlap", -2, 2, talc_adaptive_avg_pool2d(x[0], 3, 7), D(2, 2, 7, 5)) \
    X(adaptive_max_pool, "adaptive_max_pool2d", "windows that overlap", -2, 2, talc_adaptive_max_pool2d(x[0], 3, 7), D(2, 2, 7, 5)) \
    X(add, "add", "broadcast", -2, 2, talc_add(x[0], x[1]), D(3, 5), D(5)) \
    X(avg_pool, "avg_pool2d", "", -2, 2, POOL(avg, .kernel = { 2, 3 }), D(2, 2, 4, 6)) \
    X(avg_pool_overlap, "avg_pool2d", "windows that overlap, ceil_mode, exclude_padding", -2, 2, POOL(avg, .kernel = { 3, 3 }, .stride = { 2, 2 }, .padding = { 1, 1 }, .ceil_mode = true, .exclude_padding = true), D(2, 2, 6, 5)) \
    X(norm_batch, "batch_norm2d", "of the batch, tanh", -2, 2, norm(x, true, NULL), D(3, 2, 4, 3), D(2), D(2)) \
    X(norm_running, "batch_norm2d", "of running statistics, tanh", -2, 2, norm(x, false, NULL), D(3, 2, 4, 3), D(2), D(2)) \
    X(norm_fused, "batch_norm2d", "of the batch, residual, tanh", -1, 1, norm(x, true, x[3]), D(3, 2, 4, 3), D(2), D(2), D(3, 2, 4, 3)) \
    X(binary, "binary_cross_entropy_with_logits", "", 0.1, 0.9, talc_binary_cross_entropy_with_logits(x[0], x[1], NULL), D(4, 5), D(4, 5)) \
    X(channel_shuffle, "channel_shuffle", "", -2, 2, talc_channel_shuffle(x[0], 2), D(2, 4, 2, 3)) \
    X(clamp, "clamp", "", -2, 2, talc_clamp(x[0], 3e-3, 9), D(4, 5)) \
    X(flip, "flip", "of two dimensions", -2, 2, talc_flip(x[0], TALC_DIMS(-1, 0)), D(3, 2, 4)) \
    X(tile, "tile", "", -2, 2, talc_tile(x[0], TALC_DIMS(2, 1, 3)), D(2, 3)) \
    X(tril, "tril", "of a stack", -2, 2, talc_tril(x[0], 1), D(2, 4, 3)) \
    X(triu, "triu", "", -2, 2, talc_triu(x[0], -1), D(5, 4)) \
    X(unfold, "unfold", "strided, padded, dilated", -2, 2, talc_unfold(x[0], &(talc_unfold_options){ .kernel = { 3, 2 }, .stride = { 2, 1 }, .padding = { 1, 2 }, .dilation = { 1, 2 } }), D(2, 2, 5, 4)) \
    X(fold, "fold", "strided and padded", -2, 2, talc_fold(x[0], 5, 4, &(talc_unfold_options){ .kernel = { 3, 2 }, .stride = { 2, 1 }, .padding = { 1, 0 } }), D(2, 12, 9)) \
    X(concat, "concat", "a tensor twice", -2, 2, talc_concat((const talc_tensor *[]){ x[0], x[1], x[0] }, 3, 1), D(3, 2, 2), D(3, 5, 2)) \
    X(conv2d, "conv2d", "bias", -2, 2, talc_conv2d(x[0], x[1], x[2], NULL), D(2, 3, 6, 5), D(4, 3, 3, 2), D(4)) \
    X(conv2d_strided, "conv2d", "strided, padded, dilated", -2, 2, CONV(.stride = { 2, 3 }, .padding = { 2, 1 }, .dilation = { 1, 2 }), D(2, 2, 7, 9), D(3, 2, 3, 3), D(3)) \
    X(conv2d_groups, "conv2d", "groups", -2, 2, CONV(.groups = 3, .padding = { 1, 1 }, .stride = { 2, 1 }), D(2, 6, 5, 4), D(9, 2, 3, 3), D(9)) \
    X(conv2d_depthwise, "conv2d", "depthwise", -2, 2, CONV(.groups = 3, .padding = { 1, 1 }, .stride = { 2, 1 }), D(2, 3, 6, 5), D(6, 1, 3, 3), D(6)) \
    X(conv2d_pointwise, "conv2d", "pointwise", -2, 2, talc_conv2d(x[0], x[1], x[2], NULL), D(3, 4, 3, 5), D(2, 4, 1, 1), D(2)) \
    X(conv2d_reflect, "conv2d", "reflect", -2, 2, CONV(.padding = { 2, 1 }, .padding_mode = TALC_PADDING_REFLECT), D(2, 2, 4, 3), D(3, 2, 3, 2), D(3)) \
    X(conv2d_circular, "conv2d", "circular", -2, 2, CONV(.padding = { 2, 2 }, .padding_mode = TALC_PADDING_CIRCULAR), D(2, 2, 4, 3), D(3, 2, 3, 3), D(3)) \
    X(conv2d_fused, "conv2d", "residual, tanh", -0.5, 0.5, CONV(.padding = { 1, 1 }, .activation = TALC_ACTIVATION_TANH, .residual = x[3]), D(2, 2, 4, 3), D(3, 2, 3, 3), D(3), D(2, 3, 4, 3)) \
    X(transpose, "conv_transpose2d", "bias", -2, 2, talc_conv_transpose2d(x[0], x[1], x[2], NULL), D(2, 3, 3, 4), D(3, 2, 2, 3), D(2)) \
    X(transpose_strided, "conv_transpose2d", "strided, padded", -2, 2, talc_conv_transpose2d(x[0], x[1], x[2], &(talc_conv_transpose2d_options){ .stride = { 2, 3 }, .padding = { 1, 2 }, .output_padding = { 1, 2 } }), D(2, 3, 3, 4), D(3, 2, 3, 4), D(2)) \
    X(entropy_mean, "cross_entropy", "mean", -2, 2, talc_cross_entropy(x[0], labels_of(x[0])), D(7, 4)) \
    X(entropy_smooth, "cross_entropy", "none, label_smoothing", -2, 2, entropy(x[0], (talc_cross_entropy_options){ .reduction = TALC_REDUCTION_NONE, .label_smoothing = 0.1 }, false), D(3, 4, 5)) \
    X(entropy_weighted, "cross_entropy", "class_weights, ignore_index", -2, 2, entropy(x[0], (talc_cross_entropy_options){ .ignore_index = 2 }, true), D(2, 4, 3, 2)) \
    X(cumprod, "cumprod", "tanh", -2, 2, talc_tanh(talc_cumprod(x[0], 1)), D(2, 5, 3)) \
    X(cumsum, "cumsum", "tanh", -1, 1, talc_tanh(talc_cumsum(x[0], 1)), D(2, 5, 3)) \
    X(div_of, "div", "broadcast", 0.5, 2, talc_div(x[0], x[1]), D(3, 5), D(5)) \
    X(expand, "expand", "tanh", -2, 2, talc_tanh(talc_expand(x[0], TALC_DIMS(4, 3, 5))), D(3, 1)) \
    X(gather, "gather", "tanh", -1, 1, talc_tanh(talc_gather(x[0], 2, rows(x[0], TALC_DIMS(2, 2, 9)))), D(2, 3, 4)) \
    X(group_norm, "group_norm", "2 groups, tanh", -1, 1, talc_group_norm(x[0], 2, x[1], x[2], &(talc_norm_options){ .activation = TALC_ACTIVATION_TANH }), D(3, 4, 2, 3), D(4), D(4)) \
    X(huber, "huber_loss", "", -1, 1, talc_huber_loss(x[0], x[1], 0.7, TALC_REDUCTION_MEAN), D(4, 5), D(4, 5)) \
    X(index_select, "index_select", "tanh", -1, 1, talc_tanh(talc_index_select(x[0], 1, talc_reshape(rows(x[0], TALC_DIMS(2, 2, 2)), TALC_DIMS(8)))), D(2, 3, 4)) \
    X(instance_norm, "instance_norm2d", "", -2, 2, talc_instance_norm2d(x[0], x[1], x[2], NULL), D(2, 3, 4, 3), D(3), D(3)) \
    X(l1, "l1_loss", "", -1, 1, talc_l1_loss(x[0], x[1], TALC_REDUCTION_SUM), D(4, 5), D(4, 5)) \
    X(layer_norm, "layer_norm", "", -2, 2, talc_layer_norm(x[0], TALC_DIMS(6), x[1], x[2], NULL), D(2, 5, 6), D(6), D(6)) \
    X(linear, "linear", "bias", -2, 2, talc_linear(x[0], x[1], x[2], NULL), D(3, 5), D(4, 5), D(4)) \
    X(linear_fused, "linear", "residual, tanh", -1, 1, talc_linear(x[0], x[1], x[2], &(talc_linear_options){ .activation = TALC_ACTIVATION_TANH, .residual = x[3] }), D(2, 3, 5), D(4, 5), D(4), D(2, 3, 4)) \
    X(response, "local_response_norm", "", -2, 2, talc_local_response_norm(x[0], 3, &(talc_local_response_norm_options){ .alpha = 0.5, .k = 2 }), D(2, 5, 2, 3)) \
    X(log_softmax, "log_softmax", "", -3, 3, talc_log_softmax(x[0], 1), D(4, 6)) \
    X(logsumexp, "logsumexp", "tanh", -3, 3, talc_tanh(talc_logsumexp(x[0], TALC_DIMS(-1), true)), D(2, 3, 4)) \
    X(masked_fill, "masked_fill", "", -1, 1, talc_masked_fill(talc_tanh(x[0]), talc_less_scalar(x[0], 0), 0.5), D(4, 6)) \
    X(matmul, "matmul", "", -2, 2, talc_matmul(x[0], x[1]), D(3, 5), D(5, 4)) \
    X(matmul_batches, "matmul", "batches, broadcast", -2, 2, talc_matmul(x[0], x[1]), D(2, 1, 3, 5), D(4, 5, 2)) \
    X(matmul_transposed, "matmul", "transposed views", -2, 2, talc_matmul(talc_transpose(x[0], 0, 1), talc_transpose(x[1], 0, 1)), D(5, 3), D(4, 5)) \
    X(max, "max", "tanh", -1, 1, talc_tanh(talc_max(x[0], TALC_DIMS(1), false)), D(2, 6, 4)) \
    X(max_pool, "max_pool2d", "", -2, 2, POOL(max, .kernel = { 2, 3 }), D(2, 2, 4, 6)) \
    X(max_pool_overlap, "max_pool2d", "windows that overlap, padded, dilated", -2, 2, POOL(max, .kernel = { 3, 2 }, .stride = { 1, 2 }, .padding = { 1, 1 }, .dilation = { 2, 1 }), D(2, 2, 6, 5)) \
    X(squared_difference, "squared_difference", "broadcast", -2, 2, talc_squared_difference(x[0], x[1]), D(4, 1), D(2, 1, 5)) \
    X(maximum, "maximum", "broadcast", -2, 2, talc_maximum(x[0], x[1]), D(4, 1), D(2, 1, 5)) \
    X(mean, "mean", "tanh", -1, 1, talc_tanh(talc_mean(x[0], TALC_DIMS(-1), true)), D(2, 3, 4)) \
    X(min, "min", "tanh", -1, 1, talc_tanh(talc_min(x[0], TALC_DIMS(1), false)), D(2, 6, 4)) \
    X(minimum, "minimum", "broadcast", -2, 2, talc_minimum(x[0], x[1]), D(4, 5), D(5)) \
    X(mse, "mse_loss", "", -1, 1, talc_mse_loss(x[0], x[1], TALC_REDUCTION_MEAN), D(4, 5), D(4, 5)) \
    X(mul, "mul", "broadcast", -2, 2, talc_mul(x[0], x[1]), D(4, 1, 5), D(3, 1)) \
    X(nll_mean, "nll_loss", "mean, ignore_index", -2, 2, nll(x[0], (talc_nll_loss_options){ .ignore_index = 2 }, false), D(7, 4)) \
    X(nll_weighted, "nll_loss", "none, weight", -2, 2, nll(x[0], (talc_nll_loss_options){ .reduction = TALC_REDUCTION_NONE }, true), D(2, 4, 3, 2)) \
    X(pad, "pad", "a constant", -2, 2, PAD(.padding = { 1, -1, 0, 2 }, .value = 3), D(2, 3, 4)) \
    X(pad_circular, "pad", "circular, cropped", -2, 2, PAD(.padding = { 3, 2, -1, 1 }, .mode = TALC_PADDING_CIRCULAR), D(2, 4, 5)) \
    X(pad_reflect, "pad", "reflect, cropped", -2, 2, PAD(.padding = { 3, 2, -1, 1 }, .mode = TALC_PADDING_REFLECT), D(2, 4, 5)) \
    X(pad_replicate, "pad", "replicate, cropped", -2, 2, PAD(.padding = { 3, 2, -1, 1 }, .mode = TALC_PADDING_REPLICATE), D(2, 4, 5)) \
    X(permute, "permute", "tanh", -2, 2, talc_tanh(talc_permute(x[0], TALC_DIMS(2, 0, 1))), D(2, 3, 4)) \
    X(prelu, "prelu", "a weight a channel", -2, 2, talc_prelu(x[0], x[1]), D(2, 3, 4), D(3)) \
    X(prelu_one, "prelu", "one weight", -2, 2, talc_prelu(x[0], x[1]), D(7), D(1)) \
    X(pow_of, "pow", "broadcast", 0.5, 2, talc_pow(x[0], x[1]), D(4, 5), D(4, 1)) \
    X(pow_scalar, "pow_scalar", "", -2, 2, talc_pow_scalar(x[0], 3), D(3, 5)) \
    X(reshape, "reshape", "of a transposed view, tanh", -2, 2, talc_tanh(talc_reshape(talc_transpose(x[0], 0, 1), TALC_DIMS(-1))), D(2, 3, 4)) \
    X(scalars, "scalars", "add, sub, mul, div by a number", -2, 2, talc_div_scalar(talc_mul_scalar(talc_sub_scalar(talc_add_scalar(x[0], 3), 1), 5), 3), D(7)) \
    X(select_of, "select", "tanh", -2, 2, talc_tanh(talc_select(x[0], -1, 1)), D(2, 6, 3)) \
    X(slice, "slice", "tanh", -2, 2, talc_tanh(talc_slice(x[0], 1, 1, TALC_END, 2)), D(2, 6, 3)) \
    X(smooth_l1, "smooth_l1_loss", "none", -2, 2, talc_smooth_l1_loss(x[0], x[1], 1.2, TALC_REDUCTION_NONE), D(4, 5), D(4, 5)) \
    X(softmax, "softmax", "", -3, 3, talc_softmax(x[0], 1), D(4, 6)) \
    X(split_in_two, "split", "", -2, 2, split(x), D(3, 5)) \
    X(stack, "stack", "a tensor twice", -2, 2, talc_tanh(talc_stack((const talc_tensor *[]){ x[0], x[1], x[0] }, 3, 1)), D(3, 4), D(3, 4)) \
    X(sub, "sub", "broadcast", -2, 2, talc_sub(x[0], x[1]), D(3, 1), D(2, 1, 5)) \
    X(sum, "sum", "tanh", -1, 1, talc_tanh(talc_sum(x[0], TALC_DIMS(0, 2), false)), D(2, 3, 4)) \
    X(upsample_bilinear, "upsample2d", "bilinear", -2, 2, UPSAMPLE(.scale = { 1.7, 0.6 }, .mode = TALC_UPSAMPLE_BILINEAR), D(2, 1, 4, 5)) \
    X(upsample_aligned, "upsample2d", "bilinear, corners aligned", -2, 2, UPSAMPLE(.size = { 7, 5 }, .mode = TALC_UPSAMPLE_BILINEAR, .align_corners = true), D(2, 1, 4, 3)) \
    X(upsample_bicubic, "upsample2d", "bicubic", -2, 2, UPSAMPLE(.scale = { 1.7, 0.6 }, .mode = TALC_UPSAMPLE_BICUBIC), D(2, 1, 4, 5)) \
    X(upsample_outside, "upsample2d", "bicubic, asymmetric, inside", -2, 2, UPSAMPLE(.size = { 7, 5 }, .mode = TALC_UPSAMPLE_BICUBIC, .coordinates = TALC_COORDINATES_ASYMMETRIC, .exclude_outside = true), D(2, 1, 4, 3)) \
    X(upsample_exact, "upsample2d", "nearest, exact", -2, 2, UPSAMPLE(.scale = { 1.7, 2.3 }, .mode = TALC_UPSAMPLE_NEAREST_EXACT), D(2, 1, 4, 3)) \
    X(upsample_nearest, "upsample2d", "nearest", -2, 2, UPSAMPLE(.scale = { 1.7, 2.3 }), D(2, 1, 4, 3)) \
    X(var, "var", "tanh", -1, 1, talc_tanh(talc_var(x[0], TALC_DIMS(0, 2), 1, false)), D(2, 3, 4)) \
    X(where, "where", "broadcast", -2, 2, talc_where(talc_less_scalar(x[0], 0), talc_tanh(x[1]), x[2]), D(4, 5), D(4, 1), D(5))

#define FUNCTION(identifier, name, what, low, high, op, ...)                                       \
    static talc_tensor *identifier##_of(talc_tensor *const x[], void *context)                     \
    {                                                                                              \
        (void)context;                                                                             \
        return op;                                                                                 \
    }
#define ROW(identifier, name, what, low, high, op, ...)                                            \
    { name, what, identifier##_of, COUNT(__VA_ARGS__), { __VA_ARGS__ }, low, high, NULL },

/* The elementwise ops of one operand, from their table, with numbers that inputs lie on both sides
 * of. */
#define NUMBERS_NONE
#define NUMBERS_ONE(p)    , 0.3
#define NUMBERS_TWO(p, q) , -0.8, 1.1
#define UNARY_FUNCTION(constant, name, numbers, ...)                                               \
    FUNCTION(name, #name, "", 0, 0, talc_##name(x[0] NUMBERS_##numbers), 0)
#define UNARY_ROW(constant, name, ...)                                                             \
    ROW(name, #name, "", TALC_UNARY_IS_POSITIVE(constant) ? 0.5 : -3, 3, 0, D(4, 6))

TALC_UNARY_TABLE(UNARY_FUNCTION)
CASES(FUNCTION)

const gradient_case gradient_cases[] = {
    TALC_UNARY_TABLE(UNARY_ROW)
    CASES(ROW)
    { "lenet", "1 image of 28x28", NULL, 1, { D(1, 1, 28, 28) }, -1, 1, lenet },
    { "resnet20", "2 images of 8x8, in train mode", NULL, 1, { D(2, 3, 8, 8) }, -1, 1, resnet20 },
    { "resnet20-b", "2 images of 8x8, in train mode", NULL, 1, { D(2, 3, 8, 8) }, -1, 1, resnet20_b },
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
