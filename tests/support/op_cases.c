#include "tests/support/op_cases.h"

#include "tests/support/unary_cases.h"

#include "tests/support/hooks.h"

#include <math.h>
#include <stdlib.h>

talc_tensor *op_numbers(talc_device *device, talc_dims dims, unsigned seed)
{
    static _Thread_local float values[65536];
    int64_t count = 1;
    for (int i = 0; i < dims.rank; i++)
        count *= dims.dim[i];
    cr_assert(count <= 65536);
    for (int64_t i = 0; i < count; i++) {
        seed = seed * 1664525U + 1013904223U;
        values[i] = (float)(seed >> 8) / 8388608.0F - 1.0F;
    }
    return talc_from_host(device, TALC_F32, dims, values);
}

op_inputs op_inputs_new(talc_device *device)
{
    int64_t labels[2 * 7 * 6];
    for (int i = 0; i < 2 * 7 * 6; i++)
        labels[i] = i % 9 == 5 ? -100 : i * 5 % 4;
    talc_tensor *deviation = op_numbers(device, TALC_DIMS(4), 8);
    op_inputs inputs = {
        .image = op_numbers(device, TALC_DIMS(2, 4, 7, 6), 1),
        .weight = op_numbers(device, TALC_DIMS(6, 2, 3, 2), 2),
        .bias = op_numbers(device, TALC_DIMS(6), 3),
        .a = op_numbers(device, TALC_DIMS(3, 5), 4),
        .row = op_numbers(device, TALC_DIMS(5), 5),
        .b = op_numbers(device, TALC_DIMS(5, 4), 6),
        .mean = op_numbers(device, TALC_DIMS(4), 7),
        .variance = talc_add_scalar(talc_mul(deviation, deviation), 0.25),
        .labels = talc_from_host(device, TALC_I64, TALC_DIMS(2, 7, 6), labels),
    };
    assert_no_failure();
    return inputs;
}

static talc_tensor *seen(const talc_tensor *x, op_view view)
{
    talc_dims reversed = talc_dims_of(x), larger = reversed;
    for (int i = 0; i < x->rank; i++) {
        reversed.dim[i] = x->rank - 1 - i;
        larger.dim[i] = view == OP_STEPPED ? 2 * x->dims[i] : x->dims[i] + 2;
    }
    if (view == OP_REVERSED)
        return talc_permute(talc_contiguous(talc_permute(x, reversed)), reversed);
    talc_tensor *y = talc_full(x->device, x->dtype, larger,
                               talc_dtype_is_float(x->dtype) ? (double)NAN : 1 << 20);
    for (int i = 0; i < x->rank; i++)
        y = view == OP_STEPPED ? talc_slice(y, i, 1, TALC_END, 2)
                               : talc_slice(y, i, 1, 1 + x->dims[i], 1);
    talc_copy(y, x);
    return y;
}

op_inputs op_inputs_seen(talc_device *device, op_view view)
{
    op_inputs inputs = op_inputs_new(device);
    talc_tensor **list = (talc_tensor **)&inputs;
    for (int i = 0; i < OP_INPUTS; i++)
        list[i] = seen(list[i], view);
    assert_no_failure();
    return inputs;
}

talc_tensor *const *op_inputs_list(const op_inputs *inputs)
{
    return (talc_tensor *const *)inputs;
}

void assert_same_bits(const char *what, const talc_tensor *expected, const talc_tensor *got)
{
    cr_assert(expected != NULL && got != NULL, "%s: %s", what, talc_error_message());
    cr_assert(expected->dtype == got->dtype && talc_same_dims(expected, got),
              "%s: another shape or type", what);
    size_t bytes = talc_nbytes(expected);
    owned_char *a = malloc(bytes + 1), *b = malloc(bytes + 1);
    cr_assert(talc_to_host(expected, a, bytes) && talc_to_host(got, b, bytes), "%s: %s", what,
              talc_error_message());
    size_t at = 0;
    while (at < bytes && a[at] == b[at])
        at++;
    cr_assert(at == bytes, "%s: %s and %s differ from byte %zu of %zu", what,
              talc_device_name(expected->device), talc_device_name(got->device), at, bytes);
}

// ---- Cases --------------------------------------------------------------------------------------

/* Second results: where the maxima stand, the running statistics and the number of batches. */
static talc_tensor *max_indices(const op_inputs *in)
{
    talc_tensor *indices = NULL;
    talc_max_pool2d_indices(in->image, &(talc_pool2d_options){ .kernel = { 2, 2 } }, &indices);
    return indices;
}

static talc_tensor *batch_norm2d_training(const op_inputs *in)
{
    talc_tensor *mean = talc_clone(in->mean), *variance = talc_clone(in->variance);
    const talc_batch_norm2d_options options = { .training = true,
                                                .activation = TALC_ACTIVATION_RELU,
                                                .residual = in->image };
    talc_tensor *y = talc_batch_norm2d(in->image, NULL, NULL, mean, variance, &options);
    return talc_concat((const talc_tensor *[]){ talc_reshape(y, TALC_DIMS(-1)), mean, variance }, 3,
                       0);
}

static talc_tensor *batch_norm2d_count(const op_inputs *in)
{
    talc_tensor *count = talc_ones(in->image->device, TALC_I64, TALC_SCALAR);
    const talc_batch_norm2d_options options = { .training = true, .num_batches_tracked = count };
    return talc_batch_norm2d(in->image, NULL, NULL, NULL, NULL, &options) == NULL ? NULL : count;
}

static talc_tensor *uploaded(const op_inputs *in)
{
    static const float elements[] = { 1, 2, 3 };
    return talc_from_host(in->a->device, TALC_F32, TALC_DIMS(3), elements);
}

/* Some that have no gaps, of several widths, and views, more than one launch takes. */
static talc_tensor *concat_many(const op_inputs *in, talc_dtype dtype, int dim)
{
    const talc_tensor *a = talc_cast(talc_mul_scalar(talc_add_scalar(in->a, 1), 100), dtype);
    const talc_tensor *b = talc_cast(talc_mul_scalar(talc_add_scalar(in->b, 1), 100), dtype);
    const talc_tensor *wide = dim == 0 ? a : talc_transpose(a, 0, 1);
    const talc_tensor *packed = talc_contiguous(dim == 0 ? talc_transpose(b, 0, 1) : b);
    const talc_tensor *list[] = { packed, packed, wide, packed, packed, packed,
                                  packed, packed, wide, packed, packed, packed };
    return talc_concat(list, sizeof list / sizeof *list, dim);
}

/* The rows of a, then a part of them again. */
static talc_tensor *split_parts(const op_inputs *in)
{
    talc_tensor *parts[3], *chunks[2];
    if (!talc_split(in->a, (const int64_t[]){ 1, 0, 4 }, 3, 1, parts) ||
        talc_chunk(parts[2], 2, -1, chunks) != 2)
        return NULL;
    return talc_concat((const talc_tensor *[]){ chunks[1], parts[0], parts[1] }, 3, 1);
}

#define CASE(name, expression)                                                                     \
    static talc_tensor *run_##name(const op_inputs *in)                                            \
    {                                                                                              \
        return expression;                                                                         \
    }

// clang-format off
#define CASES(X)                                                                                                       \
    X(clone,            talc_clone(talc_transpose(in->a, 0, 1)))                                                       \
    X(contiguous,       talc_contiguous(talc_transpose(in->a, 0, 1)))                                                  \
    X(cast,             talc_cast(in->a, TALC_I32))                                                                    \
    X(reshape,          talc_reshape(talc_transpose(in->a, 0, 1), TALC_DIMS(15)))                                      \
    X(flatten,          talc_flatten(talc_transpose(in->image, 1, 3), 1, 3))                                           \
    X(expand,           talc_clone(talc_expand(in->row, TALC_DIMS(3, 5))))                                             \
    X(slice,            talc_slice(in->image, 2, 1, TALC_END, 2))                                                      \
    X(full,             talc_full(in->a->device, TALC_F64, TALC_DIMS(3, 2), -2.5))                                     \
    X(from_host,        uploaded(in))                                                                                  \
    X(arange,           talc_arange(in->a->device, TALC_F32, 1, 9, 0.5))                                               \
    X(rand,             (talc_manual_seed(1), talc_rand(in->a->device, TALC_F32, TALC_DIMS(7, 3))))                                       \
    X(randn,            (talc_manual_seed(2), talc_randn(in->a->device, TALC_F64, TALC_DIMS(7, 3))))                                      \
    X(randint,          (talc_manual_seed(3), talc_randint(in->a->device, TALC_I64, TALC_DIMS(7, 3), -5, 90)))                                \
    X(eye,              talc_eye(in->a->device, TALC_F32, 4))                                                          \
    X(add,              talc_add(in->a, in->row))                                                                      \
    X(sub,              talc_sub(in->row, in->a))                                                                      \
    X(mul,              talc_mul(in->a, in->a))                                                                        \
    X(div,              talc_div(in->a, in->row))                                                                      \
    X(add_scalar,       talc_add_scalar(in->a, 0.7))                                                                   \
    X(sub_scalar,       talc_sub_scalar(in->a, 0.7))                                                                   \
    X(mul_scalar,       talc_mul_scalar(in->a, 0.7))                                                                   \
    X(div_scalar,       talc_div_scalar(in->a, 0.7))                                                                   \
    X(pow,              talc_pow(talc_abs(in->a), in->row))                                                            \
    X(pow_scalar,       talc_pow_scalar(in->a, 2))                                                                     \
    X(prelu,            talc_prelu(in->a, in->row))                                                                  \
    X(squared_difference, talc_squared_difference(in->a, in->row))                                   \
    X(maximum,          talc_maximum(in->a, in->row))                                                                  \
    X(minimum,          talc_minimum(in->a, in->row))                                                                  \
    X(equal,            talc_equal(in->labels, talc_slice(in->labels, 0, 0, 1, 1)))                                       \
    X(not_equal,        talc_not_equal_scalar(in->labels, 2))                                                          \
    X(less,             talc_less(in->a, in->row))                                                                     \
    X(less_equal,       talc_less_equal_scalar(in->image, 0.25))                                                       \
    X(greater,          talc_greater(in->row, in->a))                                                                  \
    X(greater_equal,    talc_greater_equal_scalar(in->a, 0))                                                           \
    X(clamp,            talc_clamp(in->image, -0.5, 0.25))                                                             \
    X(clamp_none,       talc_clamp(in->a, (double)-INFINITY, (double)INFINITY))                                        \
    X(where,            talc_where(talc_less(in->a, in->row), talc_transpose(talc_slice(in->b, 1, 0, 3, 1), 0, 1), in->row)) \
    X(where_bytes,      talc_where(talc_less_scalar(in->row, 0), talc_cast(in->a, TALC_U8), talc_full(in->a->device, TALC_U8, TALC_SCALAR, 7))) \
    X(dropout,          (talc_manual_seed(4), talc_dropout(in->image, 0.3, true)))                                     \
    X(mse_loss,         talc_mse_loss(in->a, talc_transpose(talc_slice(in->b, 1, 0, 3, 1), 0, 1), TALC_REDUCTION_MEAN)) \
    X(l1_loss,          talc_l1_loss(in->row, talc_select(in->a, 0, 1), TALC_REDUCTION_NONE))                          \
    X(huber_loss,       talc_huber_loss(in->row, talc_select(in->a, 0, 1), 0.3, TALC_REDUCTION_SUM))                   \
    X(smooth_l1_loss,   talc_smooth_l1_loss(in->row, talc_select(in->a, 0, 1), 0.3, TALC_REDUCTION_MEAN))              \
    X(binary_cross_entropy_with_logits, talc_binary_cross_entropy_with_logits(in->a, talc_abs(in->a), &(talc_binary_cross_entropy_options){ .weight = in->row, .pos_weight = in->row })) \
    X(nll_loss,         talc_nll_loss(talc_select(in->image, 2, 0), talc_select(in->labels, 1, 0), NULL)) \
    X(nll_loss_weighted, talc_nll_loss(talc_transpose(talc_slice(in->image, 2, 2, 4, 1), 2, 3), talc_transpose(talc_slice(in->labels, 1, 2, 4, 1), 1, 2), &(talc_nll_loss_options){ .weight = in->mean })) \
    X(nll_loss_none,    talc_nll_loss(in->image, in->labels, &(talc_nll_loss_options){ TALC_REDUCTION_NONE, .weight = talc_select(in->b, 0, 1) })) \
    X(conv2d,          talc_conv2d(in->image, in->weight, in->bias, &(talc_conv2d_options){ .groups = 2, .padding = { 1, 1 } }))\
    X(conv2d_residual, talc_conv2d(in->image, in->weight, in->bias, &(talc_conv2d_options){ .groups = 2, .residual = talc_slice(talc_concat((const talc_tensor *[]){ in->image, in->image }, 2, 1), 1, 0, 6, 1), .padding = { 1, 1 }, .padding_end = { 1, TALC_ZERO } }))\
    X(conv2d_transposed, talc_conv2d(talc_transpose(in->image, 2, 3), in->weight, NULL, &(talc_conv2d_options){ .groups = 2 }))\
    X(conv2d_reflect,  talc_conv2d(in->image, in->weight, in->bias, &(talc_conv2d_options){ .groups = 2, .padding = { 2 }, .padding_mode = TALC_PADDING_REFLECT, .activation = TALC_ACTIVATION_SIGMOID }))\
    X(conv_transpose2d, talc_conv_transpose2d(in->image, talc_reshape(in->weight, TALC_DIMS(4, 3, 3, 2)), in->bias, &(talc_conv_transpose2d_options){ .groups = 2, .stride = { 2, 1 }, .padding = { 1 } }))\
    X(sum,              talc_sum(in->image, TALC_DIMS(0, 2, 3), false))                                                \
    X(mean,             talc_mean(talc_transpose(in->image, 0, 3), TALC_DIMS(1), true))                                \
    X(max,              talc_max(in->image, TALC_SCALAR, false))                                                       \
    X(argmax,          talc_argmax(in->a, TALC_DIMS(1), false))                                                        \
    X(min,             talc_min(in->image, TALC_DIMS(1, 3), true))                                                     \
    X(argmin,          talc_argmin(in->a, TALC_SCALAR, false))                                                         \
    X(var,             talc_var(in->image, TALC_DIMS(0, 2, 3), 1, false))                                              \
    X(var_of_large,    talc_var(talc_mul_scalar(talc_cast(in->image, TALC_F64), 1e154), TALC_SCALAR, 1, false))         \
    X(logsumexp,       talc_logsumexp(talc_transpose(in->image, 0, 3), TALC_DIMS(1), true))                            \
    X(gather,          talc_gather(in->image, 1, talc_reshape(talc_clamp(in->labels, 0, 3), TALC_DIMS(in->labels->dims[0], 1, in->labels->dims[1], in->labels->dims[2])))) \
    X(index_select,    talc_index_select(talc_transpose(in->image, 0, 3), 2, talc_select(talc_select(talc_clamp(in->labels, 0, 3), 0, 0), 0, 0))) \
    X(one_hot,         talc_one_hot(talc_clamp(in->labels, 0, 3), 9))                                                                    \
    X(masked_fill,     talc_masked_fill(in->a, talc_less_scalar(in->row, 0), 7))                                       \
    X(matmul,          talc_matmul(in->a, in->b))                                                                      \
    X(matmul_views,    talc_matmul(talc_transpose(in->b, 0, 1), talc_transpose(in->a, 0, 1)))                          \
    X(linear,          talc_linear(in->a, talc_transpose(in->b, 0, 1), in->mean, &(talc_linear_options){ .activation = TALC_ACTIVATION_TANH }))\
    X(softmax,         talc_softmax(in->image, 1))                                                                     \
    X(log_softmax,     talc_log_softmax(in->a, -1))                                                                    \
    X(cumsum,          talc_cumsum(talc_transpose(in->image, 0, 3), -2))                                               \
    X(cumprod,         talc_cumprod(talc_transpose(in->image, 0, 3), -2))                                              \
    X(cross_entropy,   talc_cross_entropy(in->image, in->labels))                                                      \
    X(cross_entropy_none, talc_cross_entropy_with(talc_transpose(in->image, 2, 3), talc_transpose(in->labels, 1, 2), &(talc_cross_entropy_options){ .reduction = TALC_REDUCTION_NONE, .label_smoothing = 0.2 }))\
    X(cross_entropy_weighted, talc_cross_entropy_with(in->image, in->labels, &(talc_cross_entropy_options){ .label_smoothing = 0.2, .class_weights = in->variance }))\
    X(concat,          talc_concat((const talc_tensor *[]){ in->a, talc_transpose(in->b, 0, 1) }, 2, 0))               \
    X(concat_rows,     concat_many(in, TALC_F32, 0))                                                                   \
    X(concat_columns,  concat_many(in, TALC_F64, 1))                                                                   \
    X(concat_bytes,    concat_many(in, TALC_U8, 1))                                                                    \
    X(stack,           talc_stack((const talc_tensor *[]){ in->a, in->a, talc_transpose(talc_slice(in->b, 1, 0, 3, 1), 0, 1) }, 3, -2)) \
    X(split,           split_parts(in))                                                                                \
    X(unfold,          talc_unfold(in->image, &(talc_unfold_options){ .kernel = { 3, 2 }, .stride = { 2 }, .padding = { 1, 1 } })) \
    X(fold,            talc_fold(talc_reshape(in->image, TALC_DIMS(2, 28, 6)), 4, 3, &(talc_unfold_options){ .kernel = { 2, 2 } })) \
    X(flip,            talc_flip(in->image, TALC_DIMS(0, -1)))                                                         \
    X(tile,            talc_tile(in->a, TALC_DIMS(2, 1, 3)))                                                           \
    X(tril,            talc_tril(in->image, -1))                                                                       \
    X(triu,            talc_triu(in->a, 1))                                                                            \
    X(channel_shuffle, talc_channel_shuffle(in->image, 2))                                                             \
    X(pad,             talc_pad(in->image, &(talc_pad_options){ .padding = { 1, -2, 0, 0, 3, 1 }, .value = 7 }))       \
    X(pad_bytes,       talc_pad(talc_cast(in->a, TALC_U8), &(talc_pad_options){ .padding = { 2, 1 }, .value = 7 }))    \
    X(pad_reflect,     talc_pad(talc_transpose(in->a, 0, 1), &(talc_pad_options){ .padding = { 2, 1, 0, 4 }, .mode = TALC_PADDING_REFLECT })) \
    X(pad_circular,    talc_pad(in->image, &(talc_pad_options){ .padding = { 3, -1, 7, 2 }, .mode = TALC_PADDING_CIRCULAR })) \
    X(upsample_nearest, talc_upsample2d(talc_cast(in->image, TALC_F64), &(talc_upsample2d_options){ .scale = { 1.7, 0.6 } })) \
    X(upsample_bicubic, talc_upsample2d(in->image, &(talc_upsample2d_options){ .size = { 5, 13 }, .mode = TALC_UPSAMPLE_BICUBIC })) \
    X(upsample_bilinear, talc_upsample2d(in->image, &(talc_upsample2d_options){ .size = { 5, 13 }, .mode = TALC_UPSAMPLE_BILINEAR })) \
    X(max_pool2d,      talc_max_pool2d(in->image, &(talc_pool2d_options){ .kernel = { 3, 2 }, .padding = { 1 } }))     \
    X(max_pool2d_indices, max_indices(in))                                                                             \
    X(avg_pool2d,      talc_avg_pool2d(in->image, &(talc_pool2d_options){ .kernel = { 2, 3 }, .ceil_mode = true }))    \
    X(adaptive_avg_pool2d, talc_adaptive_avg_pool2d(in->image, 3, 4))                                                  \
    X(adaptive_max_pool2d, talc_adaptive_max_pool2d(in->image, 3, 4))                                                  \
    X(batch_norm2d,    talc_batch_norm2d(in->image, in->mean, in->variance, in->mean, in->variance, NULL))             \
    X(batch_norm2d_training, batch_norm2d_training(in))                                                                \
    X(batch_norm2d_count, batch_norm2d_count(in))                                                                      \
    X(group_norm,      talc_group_norm(in->image, 2, in->mean, in->variance, &(talc_norm_options){ .activation = TALC_ACTIVATION_SIGMOID }))\
    X(instance_norm2d, talc_instance_norm2d(talc_transpose(in->image, 2, 3), NULL, in->mean, NULL))                    \
    X(local_response_norm, talc_local_response_norm(in->image, 3, NULL))                                               \
    X(drop_path,       (talc_manual_seed(4), talc_drop_path(in->image, 0.5, true)))                                    \
    X(layer_norm,      talc_layer_norm(in->a, TALC_DIMS(5), in->row, in->row, NULL))
// clang-format on

CASES(CASE)

#define UNARY_ON_INPUT(constant, name, ...)                                                        \
    static talc_tensor *run_##name(const op_inputs *in)                                            \
    {                                                                                              \
        return unary_cases[constant].call(unary_cases[constant].positive                           \
                                              ? in->variance                                       \
                                              : talc_mul_scalar(talc_transpose(in->a, 0, 1), 5));  \
    }
TALC_UNARY_TABLE(UNARY_ON_INPUT)

#define CASE_ROW(name, expression)     { #name, run_##name },

#define UNARY_ROW(constant, name, ...) { #name, run_##name },

const op_case op_cases[] = { CASES(CASE_ROW) TALC_UNARY_TABLE(UNARY_ROW){ NULL, NULL } };
