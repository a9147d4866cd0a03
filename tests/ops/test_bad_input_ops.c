/// Every mistake a caller can make with an op: the answer, word for word.
#include "tests/support/fake_device.h"
#include "tests/support/hooks.h"
#include "tests/support/op_cases.h"
#include "tests/support/refused.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Operands of all tables. */
static talc_tensor *image, *weight, *bias, *vector, *matrix, *doubles, *integers, *far_image,
    *far_vector, *empty;

static void make_operands(void)
{
    image = op_numbers(cpu_device(), TALC_DIMS(2, 4, 7, 6), 1);
    weight = op_numbers(cpu_device(), TALC_DIMS(6, 4, 3, 3), 2);
    bias = op_numbers(cpu_device(), TALC_DIMS(6), 3);
    vector = op_numbers(cpu_device(), TALC_DIMS(4), 4);
    matrix = op_numbers(cpu_device(), TALC_DIMS(3, 5), 5);
    doubles = talc_cast(vector, TALC_F64);
    integers = talc_arange(cpu_device(), TALC_I64, 0, 4, 1);
    far_image = op_numbers(fake_device(), TALC_DIMS(2, 4, 7, 6), 6);
    far_vector = op_numbers(fake_device(), TALC_DIMS(4), 7);
    empty = talc_zeros(cpu_device(), TALC_F32, TALC_DIMS(0, 3));
    assert_no_failure();
    talc_tensor *const operands[] = { image,   weight,   bias,      vector,     matrix,
                                      doubles, integers, far_image, far_vector, empty };
    for (size_t i = 0; i < sizeof operands / sizeof *operands; i++)
        refused_watch(operands[i]);
}

// clang-format off

Test(bad_input_ops, elementwise)
{
    make_operands();
    REFUSED(TALC_BAD_ARGUMENT, "leaky_relu: negative_slope nan must be finite", talc_leaky_relu(vector, (double)NAN));
    REFUSED(TALC_BAD_ARGUMENT, "elu: alpha inf must be finite", talc_elu(vector, (double)INFINITY));
    REFUSED(TALC_BAD_ARGUMENT, "hardsigmoid_ramp: slope inf must be finite", talc_hardsigmoid_ramp(vector, (double)INFINITY, 0));
    REFUSED(TALC_BAD_ARGUMENT, "hardswish_ramp: offset inf must be finite", talc_hardswish_ramp(vector, 1, (double)INFINITY));
    REFUSED(TALC_BAD_SHAPE, "prelu: weight [4] must have one element, or one for each channel of x [3,5]", talc_prelu(matrix, vector));
    REFUSED(TALC_BAD_SHAPE, "prelu: weight [4] must have one element, or one for each channel of x [4]", talc_prelu(vector, vector));
    REFUSED(TALC_BAD_SHAPE, "prelu: weight [3,5] must have one element, or one for each channel of x [2,4,7,6]", talc_prelu(image, matrix));
    REFUSED(TALC_BAD_DTYPE, "prelu: x is i64, it must be f32 or f64", talc_prelu(integers, integers));
    REFUSED(TALC_BAD_ARGUMENT, "softplus: beta inf must be finite", talc_softplus(vector, (double)INFINITY, 20));
    REFUSED(TALC_BAD_ARGUMENT, "softplus: threshold nan must be a number", talc_softplus(vector, 1, (double)NAN));
    REFUSED(TALC_BAD_ARGUMENT, "hardtanh: low 1 must be at most high 0.5", talc_hardtanh(vector, 1, 0.5));
    REFUSED(TALC_BAD_ARGUMENT, "hardtanh: low nan must be at most high 1", talc_hardtanh(vector, (double)NAN, 1));
    REFUSED(TALC_BAD_ARGUMENT, "hardtanh: low 0 must be at most high nan", talc_hardtanh(vector, 0, (double)NAN));
    REFUSED(TALC_BAD_DTYPE, "mul: a is f64, b is i64", talc_mul(doubles, integers));
    HARMLESS(talc_algorithm_force("relu", "simd") && talc_algorithm_force("mul", "simd"));
    REFUSED(TALC_NOT_FOUND, "relu on cpu: there is no algorithm 'simd'", talc_relu(vector));
    REFUSED(TALC_NOT_FOUND, "mul on cpu: there is no algorithm 'simd'", talc_mul(vector, vector));
    HARMLESS(talc_algorithm_force("relu", NULL) && talc_algorithm_force("mul", NULL));
    REFUSED(TALC_BAD_SHAPE, "add: a [3,5] and b [4] do not broadcast", talc_add(matrix, vector));
    REFUSED(TALC_BAD_SHAPE, "div: a [4] and b [6] do not broadcast", talc_div(vector, bias));
    REFUSED(TALC_BAD_SHAPE, "mul: a [0,3] and b [4] do not broadcast", talc_mul(empty, vector));
    REFUSED(TALC_BAD_SHAPE, "maximum: a [3,5] and b [4] do not broadcast", talc_maximum(matrix, vector));
    refused_end(16);
}

Test(bad_input_ops, comparisons)
{
    make_operands();
    talc_tensor *condition = talc_ones(cpu_device(), TALC_U8, TALC_DIMS(4));
    REFUSED(TALC_BAD_SHAPE, "greater_equal: a [4] and b [6] do not broadcast", talc_greater_equal(vector, bias));
    REFUSED(TALC_BAD_ARGUMENT, "clamp: low 1 must be at most high 0.5", talc_clamp(vector, 1, 0.5));
    REFUSED(TALC_BAD_ARGUMENT, "clamp: low nan must be at most high 1", talc_clamp(vector, (double)NAN, 1));
    REFUSED(TALC_BAD_ARGUMENT, "clamp: low 0 must be at most high nan", talc_clamp(vector, 0, (double)NAN));
    REFUSED(TALC_BAD_DTYPE, "where: condition is f32, it must be u8", talc_where(vector, vector, vector));
    REFUSED(TALC_BAD_SHAPE, "where: condition [4], a [3,5] and b [5] do not broadcast", talc_where(condition, matrix, talc_select(matrix, 0, 1)));
    REFUSED(TALC_BAD_SHAPE, "where: condition [4], a [6] and b [4] do not broadcast", talc_where(condition, bias, vector));
    HARMLESS(talc_algorithm_force("where", "simd"));
    REFUSED(TALC_NOT_FOUND, "where on cpu: there is no algorithm 'simd'", talc_where(condition, vector, vector));
    HARMLESS(talc_algorithm_force("where", NULL));
    REFUSED(TALC_BAD_ARGUMENT, "dropout: p 1.5 must be from 0 to 1", talc_dropout(vector, 1.5, false));
    REFUSED(TALC_BAD_ARGUMENT, "dropout: p nan must be from 0 to 1", talc_dropout(vector, (double)NAN, true));
    REFUSED(TALC_BAD_ARGUMENT, "drop_path: p -0.5 must be from 0 to 1", talc_drop_path(vector, -0.5, true));
    REFUSED(TALC_BAD_SHAPE, "drop_path: x [] has rank 0, it must be [N,...], of rank 1 at least", talc_drop_path(talc_select(vector, 0, 0), 0.5, true));
    refused_end(14);
}

Test(bad_input_ops, conv_transpose2d)
{
    make_operands();
    const talc_tensor *w = talc_reshape(weight, TALC_DIMS(4, 6, 3, 3)), *cut = talc_slice(image, 2, 3, 3, 1);
#define TRANSPOSE(...) talc_conv_transpose2d(image, w, NULL, &(talc_conv_transpose2d_options){ __VA_ARGS__ })
    REFUSED(TALC_BAD_SHAPE, "conv_transpose2d: x [3,5] has rank 2, needs 4: [N,C,H,W]", talc_conv_transpose2d(matrix, w, NULL, NULL));
    REFUSED(TALC_BAD_SHAPE, "conv_transpose2d: w [3,5] has rank 2, needs 4: [C,OC/groups,KH,KW]", talc_conv_transpose2d(image, matrix, NULL, NULL));
    REFUSED(TALC_BAD_SHAPE, "conv_transpose2d: x [2,4,7,6] has 4 channels, w [6,4,3,3] needs 6", talc_conv_transpose2d(image, weight, NULL, NULL));
    REFUSED(TALC_BAD_SHAPE, "conv_transpose2d: x [2,4,7,6] has 4 channels, which groups=3 does not divide", TRANSPOSE(.groups = 3));
    REFUSED(TALC_BAD_ARGUMENT, "conv_transpose2d: groups -1 must be at least 1", TRANSPOSE(.groups = -1));
    REFUSED(TALC_BAD_ARGUMENT, "conv_transpose2d: stride [-2,1] must be at least 1", TRANSPOSE(.stride = { -2, 1 }));
    REFUSED(TALC_BAD_ARGUMENT, "conv_transpose2d: dilation [1,-1] must be at least 1", TRANSPOSE(.dilation = { 0, -1 }));
    REFUSED(TALC_BAD_ARGUMENT, "conv_transpose2d: padding [-1,0] must be at least 0", TRANSPOSE(.padding = { -1 }));
    REFUSED(TALC_BAD_ARGUMENT, "conv_transpose2d: output_padding [0,-1] must be at least 0", TRANSPOSE(.output_padding = { 0, -1 }));
    REFUSED(TALC_BAD_ARGUMENT, "conv_transpose2d: output_padding [2,1] must be less than stride [2,1] or dilation [1,2]",
            TRANSPOSE(.stride = { 2, 1 }, .dilation = { 1, 2 }, .output_padding = { 2, 1 }));
    REFUSED(TALC_BAD_SHAPE, "conv_transpose2d: padding 5 on both sides leaves nothing of the output's height 9", TRANSPOSE(.padding = { 5 }));
    REFUSED(TALC_BAD_SHAPE, "conv_transpose2d: padding 4 on both sides leaves nothing of the output's width 8", TRANSPOSE(.padding = { 0, 4 }));
    REFUSED(TALC_BAD_ARGUMENT, "conv_transpose2d: image [0,6] must be at least 1", talc_conv_transpose2d(cut, w, NULL, NULL));
    REFUSED(TALC_BAD_ARGUMENT, "conv_transpose2d: kernel [3,0] must be at least 1", talc_conv_transpose2d(image, talc_slice(w, 3, 0, 0, 1), NULL, NULL));
    REFUSED(TALC_BAD_SHAPE, "conv_transpose2d: x [2,4,7,6] and w [4,0,3,3] must have channels", talc_conv_transpose2d(image, talc_slice(w, 1, 0, 0, 1), NULL, NULL));
    REFUSED_LIKE(TALC_BAD_SHAPE, "conv_transpose2d: bias ", talc_conv_transpose2d(image, w, vector, NULL));
    REFUSED(TALC_TOO_LARGE, "conv_transpose2d: height 7 with stride 4611686018427387904, padding 0, kernel 3, dilation 1 and output_padding 0 passes 2^63",
            TRANSPOSE(.stride = { (int64_t)1 << 62, 1 }));
    REFUSED_LIKE(TALC_TOO_LARGE, "conv_transpose2d: shape ", TRANSPOSE(.stride = { (int64_t)1 << 40, (int64_t)1 << 40 }));
    REFUSED_LIKE(TALC_BAD_ARGUMENT, "conv_transpose2d: ", TRANSPOSE(.precision = 1u << 20));
    REFUSED(TALC_NOT_FOUND, "conv_transpose2d: conv2d.grad_input on cpu: there is no algorithm 'fft'", TRANSPOSE(.algorithm = "fft"));
#undef TRANSPOSE
    refused_end(20);
}

Test(bad_input_ops, losses)
{
    make_operands(); /* matrix [3,5] */
    talc_device *cpu = cpu_device();
    talc_tensor *labels = talc_zeros(cpu, TALC_I64, TALC_DIMS(3));
    talc_tensor *nine = talc_full(cpu, TALC_I64, TALC_DIMS(3), 9), *five = talc_select(matrix, 0, 0), *wide = talc_cast(five, TALC_F64);
    talc_tensor *scalar = talc_zeros(cpu, TALC_F32, TALC_SCALAR), *none = talc_zeros(cpu, TALC_F32, TALC_DIMS(3, 0)), *leaf = talc_clone(five);
    HARMLESS(talc_require_grad(leaf, true));
#define LOGITS(...) talc_binary_cross_entropy_with_logits(matrix, matrix, &(talc_binary_cross_entropy_options){ __VA_ARGS__ })
#define NLL(...) talc_nll_loss(matrix, labels, &(talc_nll_loss_options){ __VA_ARGS__ })
    REFUSED(TALC_BAD_SHAPE, "mse_loss: target [5] must be [3,5]", talc_mse_loss(matrix, five, TALC_REDUCTION_MEAN));
    REFUSED(TALC_BAD_ARGUMENT, "mse_loss: there is no reduction 3", talc_mse_loss(matrix, matrix, (talc_reduction)3));
    REFUSED(TALC_BAD_ARGUMENT, "huber_loss: delta 0 must be positive and finite", talc_huber_loss(matrix, matrix, 0, TALC_REDUCTION_MEAN));
    REFUSED(TALC_BAD_ARGUMENT, "huber_loss: delta inf must be positive and finite", talc_huber_loss(matrix, matrix, (double)INFINITY, TALC_REDUCTION_MEAN));
    REFUSED(TALC_BAD_ARGUMENT, "smooth_l1_loss: beta -1 must be finite and not negative", talc_smooth_l1_loss(matrix, matrix, -1, TALC_REDUCTION_MEAN));
    REFUSED(TALC_BAD_ARGUMENT, "smooth_l1_loss: beta nan must be finite and not negative", talc_smooth_l1_loss(matrix, matrix, (double)NAN, TALC_REDUCTION_MEAN));
    REFUSED(TALC_BAD_ARGUMENT, "binary_cross_entropy_with_logits: there is no reduction -1", LOGITS(.reduction = (talc_reduction)-1));
    REFUSED(TALC_BAD_SHAPE, "binary_cross_entropy_with_logits: weight [4] does not stretch to x [3,5]", LOGITS(.weight = vector));
    REFUSED(TALC_BAD_SHAPE, "binary_cross_entropy_with_logits: pos_weight [2,4,7,6] does not stretch to x [3,5]", LOGITS(.pos_weight = image));
    REFUSED(TALC_BAD_DTYPE, "binary_cross_entropy_with_logits: x is f32, weight is f64", LOGITS(.weight = wide));
    REFUSED(TALC_BAD_DTYPE, "nll_loss: labels is f32, it must be i64", talc_nll_loss(matrix, vector, NULL));
    REFUSED(TALC_BAD_SHAPE, "nll_loss: x [] has rank 0, needs at least 1: [N,C,...] or [C]", talc_nll_loss(scalar, labels, NULL));
    REFUSED(TALC_BAD_SHAPE, "nll_loss: x [3,0] has 0 classes, needs at least 1", talc_nll_loss(none, labels, NULL));
    REFUSED(TALC_BAD_SHAPE, "nll_loss: labels [4] must be [3]", talc_nll_loss(matrix, integers, NULL));
    REFUSED(TALC_BAD_SHAPE, "nll_loss: weight [4] must be [5]", NLL(.weight = vector));
    REFUSED(TALC_BAD_DTYPE, "nll_loss: x is f32, weight is f64", NLL(.weight = wide));
    REFUSED(TALC_UNSUPPORTED, "nll_loss: weight asks for a gradient, which goes to x alone", NLL(.weight = leaf));
    REFUSED(TALC_BAD_ARGUMENT, "nll_loss: there is no reduction 3", NLL(.reduction = (talc_reduction)3));
    REFUSED(TALC_NOT_FOUND, "nll_loss on cpu: there is no algorithm 'no_such'", NLL(.algorithm = "no_such"));
    REFUSED(TALC_BAD_ARGUMENT, "nll_loss: element 0 of labels is 9, there are 5 classes", talc_nll_loss(matrix, nine, NULL));
#undef LOGITS
#undef NLL
    refused_end(21);
}

Test(bad_input_ops, gathers)
{
    make_operands();
    talc_device *cpu = cpu_device();
    talc_tensor *index_matrix = talc_zeros(cpu, TALC_I64, TALC_DIMS(3, 5)), *line = talc_zeros(cpu, TALC_I64, TALC_DIMS(3));
    talc_tensor *wide = talc_zeros(cpu, TALC_I64, TALC_DIMS(4, 2));
    talc_tensor *nine = talc_full(cpu, TALC_I64, TALC_DIMS(1, 1), 9);
    talc_tensor *scalar = talc_zeros(cpu, TALC_F32, TALC_SCALAR), *mask = talc_zeros(cpu, TALC_U8, TALC_DIMS(4));
    talc_tensor *deep = talc_zeros(cpu, TALC_I64, (talc_dims){ .rank = 8, .dim = { 1, 1, 1, 1, 1, 1, 1, 1 } });
    REFUSED(TALC_BAD_DTYPE, "gather: index is f32, it must be i64", talc_gather(matrix, 0, matrix));
    REFUSED(TALC_BAD_DTYPE, "one_hot: labels is f32, it must be i64", talc_one_hot(matrix, 3));
    REFUSED(TALC_BAD_DTYPE, "masked_fill: mask is f32, it must be u8", talc_masked_fill(matrix, matrix, 0));
    REFUSED(TALC_BAD_ARGUMENT, "gather: dimension 2 is outside a tensor of rank 2", talc_gather(matrix, 2, index_matrix));
    REFUSED(TALC_BAD_SHAPE, "gather: index [3] has rank 1, x [3,5] has rank 2", talc_gather(matrix, 0, line));
    REFUSED(TALC_BAD_SHAPE, "gather: index [4,2] has 4 elements in dimension 0, x [3,5] has 3", talc_gather(matrix, 1, wide));
    REFUSED(TALC_BAD_SHAPE, "index_select: index [3,5] has rank 2, it must be [n] or a scalar", talc_index_select(matrix, 1, index_matrix));
    REFUSED(TALC_BAD_SHAPE, "index_select: index [3] has 3 elements, x [] takes 1", talc_index_select(scalar, 0, line));
    REFUSED(TALC_BAD_SHAPE, "masked_fill: x [3,5] and mask [4] do not broadcast", talc_masked_fill(matrix, mask, 0));
    REFUSED(TALC_BAD_ARGUMENT, "one_hot: classes 0 is outside 1..4611686018427387903", talc_one_hot(line, 0));
    REFUSED(TALC_TOO_LARGE, "one_hot: shape [9223372036854775805] of i64 needs more than 9223372036854775807 bytes", talc_one_hot(line, INT64_MAX / 2));
    REFUSED(TALC_BAD_SHAPE, "one_hot: labels has rank 8, with classes at most 8 are possible", talc_one_hot(deep, 3));
    REFUSED(TALC_BAD_ARGUMENT, "gather: element 0 of index is 9, x has 5 elements in its dimension", talc_gather(matrix, 1, nine));
    refused_end(13);
}

Test(bad_input_ops, reductions)
{
    make_operands();
    REFUSED(TALC_BAD_ARGUMENT, "sum: axis 2 is outside -2..1 of x [3,5]", talc_sum(matrix, TALC_DIMS(2), false));
    REFUSED(TALC_BAD_ARGUMENT, "sum: axis -3 is outside -2..1 of x [3,5]", talc_sum(matrix, TALC_DIMS(-3), false));
    REFUSED(TALC_BAD_ARGUMENT, "sum: axis -9223372036854775808 is outside -2..1 of x [3,5]", talc_sum(matrix, TALC_DIMS(INT64_MIN), false));
    REFUSED(TALC_BAD_ARGUMENT, "sum: axis 4294967296 is outside -2..1 of x [3,5]", talc_sum(matrix, TALC_DIMS((int64_t)1 << 32), false));
    REFUSED(TALC_BAD_ARGUMENT, "sum: axes [0,-2] name dimension 0 twice", talc_sum(matrix, TALC_DIMS(0, -2), false));
    REFUSED(TALC_BAD_ARGUMENT, "sum: axes [0,1,0] name dimension 0 twice", talc_sum(matrix, TALC_DIMS(0, 1, 0), false));
    REFUSED(TALC_BAD_ARGUMENT, "sum: axes has rank 9, outside 0..8", talc_sum(matrix, (talc_dims){ .rank = 9 }, false));
    REFUSED(TALC_BAD_ARGUMENT, "sum: axes has rank -1, outside 0..8", talc_sum(matrix, (talc_dims){ .rank = -1 }, false));
    REFUSED(TALC_BAD_SHAPE, "max: x [0,3] has 0 elements to reduce, needs at least 1", talc_max(empty, TALC_DIMS(0), false));
    REFUSED(TALC_BAD_SHAPE, "argmax: x [0,3] has 0 elements to reduce, needs at least 1", talc_argmax(empty, TALC_SCALAR, false));
    REFUSED(TALC_BAD_SHAPE, "min: x [0,3] has 0 elements to reduce, needs at least 1", talc_min(empty, TALC_DIMS(0), false));
    REFUSED(TALC_BAD_SHAPE, "argmin: x [0,3] has 0 elements to reduce, needs at least 1", talc_argmin(empty, TALC_SCALAR, false));
    REFUSED(TALC_BAD_ARGUMENT, "var: correction -1 must be finite and at least 0", talc_var(matrix, TALC_SCALAR, -1, false));
    REFUSED(TALC_BAD_ARGUMENT, "var: correction nan must be finite and at least 0", talc_var(matrix, TALC_SCALAR, NAN, false));
    REFUSED(TALC_BAD_ARGUMENT, "var: correction inf must be finite and at least 0", talc_var(matrix, TALC_SCALAR, INFINITY, false));
    HARMLESS(talc_algorithm_force("sum", "blocked") && talc_algorithm_force("softmax", "online"));
    REFUSED(TALC_UNSUPPORTED, "sum on cpu: blocked: x must be f32 or f64", talc_sum(integers, TALC_SCALAR, false));
    REFUSED(TALC_NOT_FOUND, "softmax on cpu: there is no algorithm 'online'", talc_softmax(matrix, 0));
    HARMLESS(talc_algorithm_force("sum", NULL) && talc_algorithm_force("softmax", NULL));
    REFUSED(TALC_BAD_ARGUMENT, "cumsum: dimension 2 is outside a tensor of rank 2", talc_cumsum(matrix, 2));
    REFUSED(TALC_BAD_ARGUMENT, "cumsum: dimension -3 is outside a tensor of rank 2", talc_cumsum(matrix, -3));
    REFUSED(TALC_BAD_ARGUMENT, "cumprod: dimension 2 is outside a tensor of rank 2", talc_cumprod(matrix, 2));
    REFUSED(TALC_BAD_ARGUMENT, "softmax: dimension 2 is outside a tensor of rank 2", talc_softmax(matrix, 2));
    REFUSED(TALC_BAD_ARGUMENT, "log_softmax: dimension -3 is outside a tensor of rank 2", talc_log_softmax(matrix, -3));
    refused_end(24);
}

#define WEIGHED(weights) talc_cross_entropy_with(matrix, labels, &(talc_cross_entropy_options){ .class_weights = weights })

Test(bad_input_ops, cross_entropy)
{
    make_operands(); /* matrix [3,5] */
    talc_device *cpu = cpu_device();
    talc_tensor *labels = talc_zeros(cpu, TALC_I64, TALC_DIMS(3)), *two = talc_zeros(cpu, TALC_I64, TALC_DIMS(2));
    talc_tensor *scalar = talc_zeros(cpu, TALC_F32, TALC_SCALAR), *none = talc_zeros(cpu, TALC_F32, TALC_DIMS(3, 0));
    talc_tensor *row = talc_select(matrix, 0, 0), *nine = talc_full(cpu, TALC_I64, TALC_DIMS(3), 9);
    REFUSED(TALC_BAD_DTYPE, "cross_entropy: labels is f32, it must be i64", talc_cross_entropy(matrix, vector));
    REFUSED(TALC_BAD_SHAPE, "cross_entropy: logits [] has rank 0, needs at least 1: [N,C,...] or [C]", talc_cross_entropy(scalar, labels));
    REFUSED(TALC_BAD_SHAPE, "cross_entropy: logits [3,0] has 0 classes, needs at least 1", talc_cross_entropy(none, labels));
    REFUSED(TALC_BAD_SHAPE, "cross_entropy: labels [2] must be [3], logits [3,5] without its classes", talc_cross_entropy(matrix, two));
    REFUSED(TALC_BAD_SHAPE, "cross_entropy: labels [3] must be [], logits [5] without its classes", talc_cross_entropy(row, labels));
    REFUSED(TALC_BAD_ARGUMENT, "cross_entropy: there is no reduction 3", talc_cross_entropy_with(matrix, labels, &(talc_cross_entropy_options){ .reduction = (talc_reduction)3 }));
    REFUSED(TALC_BAD_ARGUMENT, "cross_entropy: label_smoothing 1.5 must be from 0 to 1", talc_cross_entropy_with(matrix, labels, &(talc_cross_entropy_options){ .label_smoothing = 1.5 }));
    REFUSED(TALC_BAD_ARGUMENT, "cross_entropy: label_smoothing nan must be from 0 to 1", talc_cross_entropy_with(matrix, labels, &(talc_cross_entropy_options){ .label_smoothing = NAN }));
    talc_tensor *wide = talc_cast(row, TALC_F64), *far_row = talc_zeros(fake_device(), TALC_F32, TALC_DIMS(5));
    REFUSED(TALC_BAD_SHAPE, "cross_entropy: class_weights [4] must be [5]", WEIGHED(vector));
    REFUSED(TALC_BAD_SHAPE, "cross_entropy: class_weights [] must be [5]", WEIGHED(scalar));
    REFUSED(TALC_BAD_DTYPE, "cross_entropy: logits is f32, class_weights is f64", WEIGHED(wide));
    REFUSED(TALC_BAD_DEVICE, "cross_entropy: logits is on cpu, class_weights on fake", WEIGHED(far_row));
    talc_tensor *learnt = talc_ones(cpu, TALC_F32, TALC_DIMS(5));
    HARMLESS(talc_require_grad(learnt, true));
    REFUSED(TALC_BAD_ARGUMENT, "cross_entropy: class_weights wants a gradient, and there is none by it", WEIGHED(learnt));
    REFUSED(TALC_BAD_ARGUMENT, "cross_entropy: element 0 of labels is 9, there are 5 classes", talc_cross_entropy(matrix, nine));
    REFUSED(TALC_NOT_FOUND, "cross_entropy on cpu: there is no algorithm 'no_such'", talc_cross_entropy_with(matrix, labels, &(talc_cross_entropy_options){ .algorithm = "no_such" }));
    refused_end(15);
}

Test(bad_input_ops, products)
{
    make_operands();
    talc_tensor *scalar = talc_select(vector, 0, 0);
    REFUSED(TALC_BAD_SHAPE, "matmul: a [] has rank 0, needs at least 1", talc_matmul(scalar, vector));
    REFUSED(TALC_BAD_SHAPE, "matmul: b [] has rank 0, needs at least 1", talc_matmul(vector, scalar));
    REFUSED(TALC_BAD_SHAPE, "matmul: a [3,5] has 5 columns, b [3,5] has 3 rows", talc_matmul(matrix, matrix));
    REFUSED(TALC_BAD_SHAPE, "matmul: a [3,5] has 5 columns, b [4] has 4 rows", talc_matmul(matrix, vector));
    REFUSED(TALC_BAD_SHAPE, "matmul: the batch dimensions of a [2,4,7,6] and b [2,3,6,7] do not broadcast", talc_matmul(image, talc_slice(talc_transpose(image, 2, 3), 1, 0, 3, 1)));
    HARMLESS(talc_algorithm_force("matmul", "strassen"));
    REFUSED(TALC_NOT_FOUND, "matmul on cpu: there is no algorithm 'strassen'", talc_matmul(vector, vector));
    HARMLESS(talc_algorithm_force("matmul", NULL));
    REFUSED(TALC_BAD_SHAPE, "linear: x [4] has 4 features, weight [3,5] needs 5", talc_linear(vector, matrix, NULL, NULL));
    REFUSED(TALC_BAD_SHAPE, "linear: weight [4] has rank 1, needs 2: [out,in]", talc_linear(matrix, vector, NULL, NULL));
    REFUSED(TALC_BAD_SHAPE, "linear: bias [4] must be [3]", talc_linear(matrix, matrix, vector, NULL));
    REFUSED(TALC_BAD_SHAPE, "linear: residual [3,5] must be [3,3]", talc_linear(matrix, matrix, NULL, &(talc_linear_options){ .residual = matrix }));
    REFUSED(TALC_BAD_SHAPE, "linear: x [] has rank 0, needs at least 1", talc_linear(scalar, matrix, NULL, NULL));
    REFUSED(TALC_BAD_ARGUMENT, "linear: activation 10 is outside 0..9", talc_linear(matrix, matrix, NULL, &(talc_linear_options){ .activation = (talc_activation)10 }));
    REFUSED(TALC_BAD_ARGUMENT, "linear: precision 0x40 is not a combination of TALC_STRICT, TALC_NORMWISE and TALC_TF32, at most 0x7", talc_linear(matrix, matrix, NULL, &(talc_linear_options){ .precision = 64 }));
    REFUSED(TALC_NOT_FOUND, "linear on cpu: there is no algorithm 'magic'", talc_linear(matrix, matrix, NULL, &(talc_linear_options){ .algorithm = "magic" }));
    REFUSED(TALC_NULL_ARGUMENT, "concat: tensors is NULL", talc_concat(NULL, 2, 0));
    REFUSED(TALC_BAD_ARGUMENT, "concat: count is 0, needs at least 1", talc_concat((const talc_tensor *[]){ matrix }, 0, 0));
    REFUSED(TALC_BAD_ARGUMENT, "concat: count is -1, needs at least 1", talc_concat((const talc_tensor *[]){ matrix }, -1, 0));
    REFUSED(TALC_NULL_ARGUMENT, "concat: tensors[1] is NULL", talc_concat((const talc_tensor *[]){ matrix, NULL }, 2, 0));
    REFUSED(TALC_NULL_ARGUMENT, "concat: tensors[0] is NULL", talc_concat((const talc_tensor *[]){ NULL, matrix }, 2, 0));
    REFUSED(TALC_BAD_SHAPE, "concat: tensors[0] [3,5] and tensors[2] [3,4] differ outside dimension 0", talc_concat((const talc_tensor *[]){ matrix, matrix, talc_slice(matrix, 1, 0, 4, 1) }, 3, 0));
    talc_tensor *max = talc_expand(talc_ones(cpu_device(), TALC_U8, TALC_DIMS(1)), TALC_DIMS(INT64_MAX));
    REFUSED(TALC_TOO_LARGE, "concat: dimension 0 exceeds INT64_MAX at tensors[1]", talc_concat((const talc_tensor *[]){ max, max }, 2, 0));
    REFUSED(TALC_BAD_ARGUMENT, "concat: dimension 2 is outside a tensor of rank 2", talc_concat((const talc_tensor *[]){ matrix, matrix }, 2, 2));
    REFUSED(TALC_BAD_SHAPE, "concat: tensors[0] [] has rank 0, needs at least 1", talc_concat((const talc_tensor *[]){ scalar, scalar }, 2, 0));
    REFUSED(TALC_BAD_SHAPE, "concat: tensors[0] [3,5] and tensors[1] [4] differ outside dimension 0", talc_concat((const talc_tensor *[]){ matrix, vector }, 2, 0));
    REFUSED(TALC_BAD_SHAPE, "concat: tensors[0] [3,5] and tensors[1] [0,3] differ outside dimension 0", talc_concat((const talc_tensor *[]){ matrix, empty }, 2, 0));
    REFUSED(TALC_BAD_DTYPE, "concat: tensors[0] is f32, tensors[1] is f64", talc_concat((const talc_tensor *[]){ vector, doubles }, 2, 0));
    REFUSED(TALC_BAD_DEVICE, "concat: tensors[0] is on cpu, tensors[1] on fake", talc_concat((const talc_tensor *[]){ vector, far_vector }, 2, 0));
    talc_tensor *endless = talc_expand(talc_slice(vector, 0, 0, 1, 1), TALC_DIMS(INT64_MAX / 8));
    REFUSED(TALC_TOO_LARGE, "concat: shape [5764607523034234875] of f32 needs more than 9223372036854775807 bytes", talc_concat((const talc_tensor *[]){ endless, endless, endless, endless, endless }, 5, 0));
    REFUSED(TALC_TOO_LARGE, "matmul: shape [1152921504606846975,1152921504606846975] of f32 needs more than 9223372036854775807 bytes", talc_matmul(talc_unsqueeze(endless, 1), talc_unsqueeze(endless, 0)));
    refused_end(30);
}

/* talc_conv2d, and talc_conv2d_problem_of, which has to say the same and to leave the problem
 * alone. */
static talc_tensor *conv2d(const talc_tensor *x, const talc_tensor *w, const talc_tensor *b, const talc_conv2d_options *options)
{
    talc_tensor *y = talc_conv2d(x, w, b, options);
    if (y != NULL || talc_error_status() == TALC_NOT_FOUND)
        return y;
    char message[512];
    snprintf(message, sizeof message, "%s", talc_error_message());
    const talc_status status = talc_error_status();
    talc_error_clear();
    talc_conv2d_problem problem = { .N = -77 };
    cr_assert(!talc_conv2d_problem_of(x, w, b, options, &problem) && problem.N == -77, "%s: not of the problem", message);
    cr_assert(talc_error_status() == status && strcmp(talc_error_message(), message) == 0, "%s: %s", message, talc_error_message());
    return NULL;
}

Test(bad_input_ops, conv2d_operands)
{
    make_operands(); /* image [2,4,7,6], weight [6,4,3,3] */
    talc_device *cpu = cpu_device();
    talc_tensor *one = talc_ones(cpu, TALC_F32, TALC_DIMS(1, 1, 1, 1)), *square = talc_ones(cpu, TALC_F32, TALC_DIMS(2, 1, 4, 4));
    talc_tensor *huge = talc_expand(one, TALC_DIMS(1, 1, (int64_t)1 << 32, 1)), *wide = talc_cast(weight, TALC_F64);
    REFUSED(TALC_NULL_ARGUMENT, "conv2d: x is NULL", conv2d(NULL, weight, bias, NULL));
    REFUSED(TALC_NULL_ARGUMENT, "conv2d: w is NULL", conv2d(image, NULL, bias, NULL));
    REFUSED(TALC_NULL_ARGUMENT, "conv2d: x is NULL", conv2d(NULL, NULL, NULL, NULL));
    REFUSED(TALC_BAD_SHAPE, "conv2d: x [4] has rank 1, needs 4: [N,C,H,W]", conv2d(vector, weight, NULL, NULL));
    REFUSED(TALC_BAD_SHAPE, "conv2d: x [1,2,4,7,6] has rank 5, needs 4: [N,C,H,W]", conv2d(talc_unsqueeze(image, 0), weight, NULL, NULL));
    REFUSED(TALC_BAD_SHAPE, "conv2d: w [3,5] has rank 2, needs 4: [OC,C/groups,KH,KW]", conv2d(image, matrix, NULL, NULL));
    REFUSED(TALC_BAD_SHAPE, "conv2d: w [1,6,4,3,3] has rank 5, needs 4: [OC,C/groups,KH,KW]", conv2d(image, talc_unsqueeze(weight, 0), NULL, NULL));
    REFUSED(TALC_BAD_SHAPE, "conv2d: x [2,4,7,6] has 4 channels, w [6,3,3,3] with groups=1 needs 3", conv2d(image, talc_slice(weight, 1, 0, 3, 1), NULL, NULL));
    REFUSED(TALC_BAD_SHAPE, "conv2d: w [6,1,3,3] has 6 output channels, which groups=4 does not divide", conv2d(image, talc_slice(weight, 1, 0, 1, 1), NULL, &(talc_conv2d_options){ .groups = 4 }));
    REFUSED(TALC_BAD_SHAPE, "conv2d: bias [4] must be [6]", conv2d(image, weight, vector, NULL));
    REFUSED(TALC_BAD_SHAPE, "conv2d: bias [0] must be [6]", conv2d(image, weight, talc_slice(vector, 0, 0, 0, 1), NULL));
    REFUSED(TALC_BAD_SHAPE, "conv2d: bias [1,6] must be [6]", conv2d(image, weight, talc_unsqueeze(bias, 0), NULL));
    REFUSED(TALC_BAD_SHAPE, "conv2d: residual [2,4,7,6] must be [2,6,5,4]", conv2d(image, weight, bias, &(talc_conv2d_options){ .residual = image }));
    REFUSED(TALC_BAD_SHAPE, "conv2d: residual [6] must be [2,6,5,4]", conv2d(image, weight, bias, &(talc_conv2d_options){ .residual = bias }));
    REFUSED(TALC_BAD_DEVICE, "conv2d: x is on fake, w on cpu", conv2d(far_image, weight, NULL, NULL));
    REFUSED(TALC_BAD_DEVICE, "conv2d: x is on cpu, bias on fake", conv2d(image, weight, far_vector, NULL));
    REFUSED(TALC_BAD_DEVICE, "conv2d: x is on cpu, residual on fake", conv2d(image, weight, bias, &(talc_conv2d_options){ .residual = far_image }));
    REFUSED(TALC_BAD_DTYPE, "conv2d: x is f32, w is f64", conv2d(image, wide, NULL, NULL));
    REFUSED(TALC_BAD_DTYPE, "conv2d: x is f32, w is i64", conv2d(image, integers, NULL, NULL));
    REFUSED(TALC_BAD_DTYPE, "conv2d: x is f32, bias is f64", conv2d(image, weight, doubles, NULL));
    REFUSED(TALC_BAD_DTYPE, "conv2d: x is f32, residual is f64", conv2d(image, weight, bias, &(talc_conv2d_options){ .residual = doubles }));
    REFUSED(TALC_BAD_DTYPE, "conv2d: x is i64, it must be f32 or f64", conv2d(integers, weight, NULL, NULL));
    REFUSED(TALC_BAD_SHAPE, "conv2d: the padded input has height 4, the kernel needs 5 (extent 5, dilation 1)", conv2d(square, talc_expand(one, TALC_DIMS(1, 1, 5, 3)), NULL, NULL));
    REFUSED(TALC_BAD_SHAPE, "conv2d: the padded input has width 4, the kernel needs 5 (extent 5, dilation 1)", conv2d(square, talc_expand(one, TALC_DIMS(1, 1, 3, 5)), NULL, NULL));
    REFUSED(TALC_BAD_SHAPE, "conv2d: the padded input has height 4, the kernel needs 4294967296 (extent 4294967296, dilation 1)", conv2d(square, huge, NULL, NULL));
    REFUSED(TALC_BAD_ARGUMENT, "conv2d: channels 0 must be at least 1", conv2d(talc_slice(square, 1, 0, 0, 1), talc_slice(one, 1, 0, 0, 1), NULL, NULL));
    REFUSED(TALC_BAD_ARGUMENT, "conv2d: output channels 0 must be at least 1", conv2d(square, talc_slice(one, 0, 0, 0, 1), NULL, NULL));
    REFUSED(TALC_BAD_ARGUMENT, "conv2d: image [0,4] must be at least 1", conv2d(talc_slice(square, 2, 0, 0, 1), one, NULL, NULL));
    REFUSED(TALC_BAD_ARGUMENT, "conv2d: kernel [1,0] must be at least 1", conv2d(square, talc_slice(one, 3, 0, 0, 1), NULL, NULL));
    REFUSED(TALC_BAD_ARGUMENT, "conv2d: kernel [0,1] must be at least 1", conv2d(square, talc_slice(one, 2, 0, 0, 1), NULL, &(talc_conv2d_options){ .padding_same = true }));
    REFUSED(TALC_TOO_LARGE, "conv2d: shape [2,1,4294967300,4294967300] of f32 needs more than 9223372036854775807 bytes", conv2d(square, one, NULL, &(talc_conv2d_options){ .padding = { (int64_t)1 << 31, (int64_t)1 << 31 } }));
    refused_end(31);
}

Test(bad_input_ops, conv2d_options)
{
    make_operands();
#define CONV2D(...) conv2d(image, weight, bias, &(talc_conv2d_options){ __VA_ARGS__ })
    REFUSED(TALC_BAD_ARGUMENT, "conv2d: stride [-1,1] must be at least 1", CONV2D(.stride = { -1, 1 }));
    REFUSED(TALC_BAD_ARGUMENT, "conv2d: stride [1,0] must be at least 1", CONV2D(.stride = { 1, TALC_ZERO }));
    REFUSED(TALC_BAD_ARGUMENT, "conv2d: stride [1,-3] must be at least 1", CONV2D(.stride = { 1, -3 }));
    REFUSED(TALC_BAD_ARGUMENT, "conv2d: dilation [1,0] must be at least 1", CONV2D(.dilation = { 1, TALC_ZERO }));
    REFUSED(TALC_BAD_ARGUMENT, "conv2d: dilation [-1,1] must be at least 1", CONV2D(.dilation = { -1, 1 }));
    REFUSED(TALC_BAD_ARGUMENT, "conv2d: padding [0,-9223372036854775807] must be at least 0", CONV2D(.padding = { 0, INT64_MIN + 1 }));
    REFUSED(TALC_BAD_ARGUMENT, "conv2d: groups -9223372036854775807 must be at least 1", CONV2D(.groups = INT64_MIN + 1));
    REFUSED(TALC_BAD_ARGUMENT, "conv2d: dilation [1,-2] must be at least 1", CONV2D(.dilation = { 0, -2 }));
    REFUSED(TALC_BAD_ARGUMENT, "conv2d: padding [-1,0] must be at least 0", CONV2D(.padding = { -1 }));
    REFUSED(TALC_BAD_ARGUMENT, "conv2d: padding_end [0,-3] must be at least 0", CONV2D(.padding_end = { 0, -3 }));
    REFUSED(TALC_BAD_ARGUMENT, "conv2d: groups -1 must be at least 1", CONV2D(.groups = -1));
    REFUSED(TALC_BAD_ARGUMENT, "conv2d: groups 0 must be at least 1", CONV2D(.groups = TALC_ZERO));
    REFUSED(TALC_BAD_SHAPE, "conv2d: x [2,4,7,6] has 4 channels, w [6,4,3,3] with groups=2 needs 8", CONV2D(.groups = 2));
    REFUSED(TALC_TOO_LARGE, "conv2d: w [6,4,3,3] with groups=9223372036854775807 needs more than 2^63 channels", CONV2D(.groups = INT64_MAX));
    REFUSED(TALC_BAD_SHAPE, "conv2d: the padded input has height 7, the kernel needs 9 (extent 3, dilation 4)", CONV2D(.dilation = { 4, 1 }));
    REFUSED(TALC_BAD_SHAPE, "conv2d: the padded input has width 8, the kernel needs 13 (extent 3, dilation 6)", CONV2D(.dilation = { 1, 6 }, .padding = { 0, 1 }));
    REFUSED(TALC_TOO_LARGE, "conv2d: height 7 with padding 0+0, kernel 3 and dilation 4611686018427387904 exceeds 2^63 - 1", CONV2D(.dilation = { (int64_t)1 << 62, 1 }));
    REFUSED(TALC_TOO_LARGE, "conv2d: width 6 with padding 0+0, kernel 3 and dilation 9223372036854775807 exceeds 2^63 - 1", CONV2D(.dilation = { 1, INT64_MAX }));
    REFUSED(TALC_TOO_LARGE, "conv2d: width 6 with padding 9223372036854775807+1, kernel 3 and dilation 1 exceeds 2^63 - 1", CONV2D(.padding = { 0, INT64_MAX }, .padding_end = { 0, 1 }));
    REFUSED(TALC_TOO_LARGE, "conv2d: height 7 with padding 0+0, kernel 3 and dilation 9223372036854775807 exceeds 2^63 - 1", CONV2D(.dilation = { INT64_MAX, 1 }));
    REFUSED(TALC_TOO_LARGE, "conv2d: height 7 with padding 9223372036854775807+9223372036854775807, kernel 3 and dilation 1 exceeds 2^63 - 1", CONV2D(.padding = { INT64_MAX }));
    REFUSED(TALC_TOO_LARGE, "conv2d: shape [2,6,2199023255557,2199023255556] of f32 needs more than 9223372036854775807 bytes", CONV2D(.padding = { (int64_t)1 << 40, (int64_t)1 << 40 }));
    REFUSED(TALC_BAD_ARGUMENT, "conv2d: padding_same needs stride 1, stride is [2,1]", CONV2D(.padding_same = true, .stride = { 2, 1 }));
    REFUSED(TALC_BAD_ARGUMENT, "conv2d: padding_same excludes padding [1,0]", CONV2D(.padding_same = true, .padding = { 1 }));
    REFUSED(TALC_TOO_LARGE, "conv2d: kernel [3,3] with dilation [9223372036854775807,1] exceeds 2^63 - 1", CONV2D(.padding_same = true, .dilation = { INT64_MAX, 1 }));
    REFUSED(TALC_BAD_SHAPE, "conv2d: reflect padding 7 of height 7 is more than 6", CONV2D(.padding = { 7 }, .padding_mode = TALC_PADDING_REFLECT));
    REFUSED(TALC_BAD_ARGUMENT, "conv2d: dilation [1,-5] must be at least 1", CONV2D(.padding_same = true, .dilation = { 1, -5 }));
    REFUSED(TALC_TOO_LARGE, "conv2d: kernel [3,3] with dilation [1,9223372036854775807] exceeds 2^63 - 1", CONV2D(.padding_same = true, .dilation = { 1, INT64_MAX }));
    REFUSED(TALC_BAD_SHAPE, "conv2d: reflect padding 9 of width 6 is more than 5", CONV2D(.padding_end = { 1, 9 }, .padding_mode = TALC_PADDING_REFLECT));
    REFUSED(TALC_BAD_SHAPE, "conv2d: circular padding 8 of height 7 is more than 7", CONV2D(.padding = { 8 }, .padding_mode = TALC_PADDING_CIRCULAR));
    REFUSED(TALC_BAD_ARGUMENT, "conv2d: padding mode 7 is outside 0..3", CONV2D(.padding_mode = (talc_padding_mode)7));
    REFUSED(TALC_BAD_ARGUMENT, "conv2d: activation -1 is outside 0..9", CONV2D(.activation = (talc_activation)-1));
    REFUSED(TALC_BAD_ARGUMENT, "conv2d: precision 0x9 is not a combination of TALC_STRICT, TALC_NORMWISE and TALC_TF32, at most 0x7", talc_conv2d(image, weight, bias, &(talc_conv2d_options){ .precision = 9 }));
    REFUSED(TALC_NOT_FOUND, "conv2d on cpu: there is no algorithm 'magic'", CONV2D(.algorithm = "magic"));
    REFUSED(TALC_NOT_FOUND, "conv2d on cpu: there is no algorithm ''", CONV2D(.algorithm = ""));
    REFUSED(TALC_BAD_ARGUMENT, "adaptive_max_pool2d: output size [2,-1] must be from 0 to 2147483647", talc_adaptive_max_pool2d(image, 2, -1));
    refused_end(36);
}

Test(bad_input_ops, conv2d_problems)
{
    make_operands();
    talc_conv2d_problem problem = { .N = 77 };
    talc_conv2d_explanation explanation = { .decision.count = 77 };
    REFUSED(TALC_NULL_ARGUMENT, "conv2d: problem is NULL", talc_conv2d_problem_of(image, weight, NULL, NULL, NULL));
    REFUSED(TALC_NULL_ARGUMENT, "conv2d: problem is NULL", talc_conv2d_problem_check(NULL));
    REFUSED(TALC_BAD_ARGUMENT, "conv2d: channels 0 must be at least 1", talc_conv2d_problem_check(&(talc_conv2d_problem){ 0 }));
    REFUSED(TALC_BAD_DTYPE, "conv2d: the problem is u8, it must be f32 or f64", talc_conv2d_problem_check(&(talc_conv2d_problem){ .dtype = TALC_U8 }));
    REFUSED(TALC_NULL_ARGUMENT, "conv2d: problem text is NULL", talc_conv2d_problem_parse(NULL, &problem));
    REFUSED(TALC_NULL_ARGUMENT, "conv2d: problem is NULL", talc_conv2d_problem_parse("n1c1h3w3o1k1x1", NULL));
    REFUSED(TALC_BAD_ARGUMENT, "conv2d: problem '': expected 'n' at position 0", talc_conv2d_problem_parse("", &problem));
    REFUSED(TALC_BAD_ARGUMENT, "conv2d: problem 'n1c1h3w3o1k1x1 ': expected '_' or the end at position 14", talc_conv2d_problem_parse("n1c1h3w3o1k1x1 ", &problem));
    REFUSED(TALC_BAD_ARGUMENT, "conv2d: problem 'n99999999999999999999c1h3w3o1k1x1': expected a number below 2^63 at position 19", talc_conv2d_problem_parse("n99999999999999999999c1h3w3o1k1x1", &problem));
    REFUSED(TALC_BAD_ARGUMENT, "conv2d: problem 'n1c1h3w3o1k1x1_mish': expected f32, f64, bias, residual, relu, sigmoid, tanh, relu6, hardsigmoid, hardswish, silu, gelu, leaky_relu, reflect, replicate, circular, dx or dw at position 15", talc_conv2d_problem_parse("n1c1h3w3o1k1x1_mish", &problem));
    REFUSED(TALC_BAD_ARGUMENT, "conv2d: groups 0 must be at least 1", talc_conv2d_problem_parse("n1c1h3w3o1k1x1g0", &problem));
    REFUSED(TALC_NULL_ARGUMENT, "conv2d_explain: device is NULL", talc_conv2d_explain(NULL, &problem, NULL, &explanation));
    REFUSED(TALC_NULL_ARGUMENT, "conv2d_explain: problem is NULL", talc_conv2d_explain(cpu_device(), NULL, NULL, &explanation));
    REFUSED(TALC_NULL_ARGUMENT, "conv2d_explain: explanation is NULL", talc_conv2d_explain(cpu_device(), &problem, NULL, NULL));
    talc_conv2d_problem small;
    HARMLESS(talc_conv2d_problem_parse("n1c1h3w3o1k3x3", &small));
    talc_conv2d_problem changed = small;
    changed.stride_w = 0;
    REFUSED(TALC_BAD_ARGUMENT, "conv2d: stride [1,0] must be at least 1", talc_conv2d_explain(cpu_device(), &changed, NULL, &explanation));
    changed = small;
    changed.groups = 3;
    REFUSED(TALC_BAD_SHAPE, "conv2d: groups=3 does not divide 1 channel and 1 output channel", talc_conv2d_problem_check(&changed));
    HARMLESS(talc_conv2d_problem_parse("n1c4h8w9o6k3x3", &changed));
    changed.groups = 4;
    REFUSED(TALC_BAD_SHAPE, "conv2d: groups=4 does not divide 4 channels and 6 output channels", talc_conv2d_problem_check(&changed));
    REFUSED(TALC_BAD_ARGUMENT, "conv2d: precision 0x8 is not a combination of TALC_STRICT, TALC_NORMWISE and TALC_TF32, at most 0x7", talc_conv2d_explain(cpu_device(), &small, &(talc_conv2d_options){ .precision = 8 }, &explanation));
    REFUSED(TALC_BAD_ARGUMENT, "conv2d: batch -1 must not be negative", talc_conv2d_explain(cpu_device(), &(talc_conv2d_problem){ .N = -1 }, NULL, &explanation));
    HARMLESS(problem.N == 77 && explanation.decision.count == 77);
    HARMLESS(talc_conv2d_flops(NULL) == 0 && talc_conv2d_bytes(NULL) == 0);
    HARMLESS(talc_conv2d_flops(&(talc_conv2d_problem){ 0 }) == 0 && talc_conv2d_flops(&(talc_conv2d_problem){ .C = INT64_MIN, .groups = -1 }) == 0);
    HARMLESS((talc_conv2d_explanation_print(NULL, &explanation), talc_conv2d_explanation_print(stderr, NULL), true));
    HARMLESS((talc_conv2d_explanation_print(stderr, &(talc_conv2d_explanation){ 0 }), true));
    HARMLESS(strcmp(talc_activation_name((talc_activation)-1), "?") == 0 && strcmp(talc_padding_mode_name((talc_padding_mode)99), "?") == 0);
    HARMLESS(strcmp(talc_conv2d_problem_text(NULL, (char[TALC_CONV2D_TEXT]){ 0 }), "NULL") == 0);
    refused_end(28);
}

Test(bad_input_ops, pooling)
{
    make_operands();
    talc_tensor *indices = vector;
#define MAX(...) talc_max_pool2d(image, &(talc_pool2d_options){ __VA_ARGS__ })
#define AVG(...) talc_avg_pool2d(image, &(talc_pool2d_options){ __VA_ARGS__ })
    REFUSED(TALC_NULL_ARGUMENT, "max_pool2d: x is NULL", talc_max_pool2d(NULL, &(talc_pool2d_options){ .kernel = { 2, 2 } }));
    REFUSED(TALC_NULL_ARGUMENT, "max_pool2d: options is NULL", talc_max_pool2d(image, NULL));
    REFUSED(TALC_NULL_ARGUMENT, "avg_pool2d: options is NULL", talc_avg_pool2d(image, NULL));
    REFUSED(TALC_NULL_ARGUMENT, "max_pool2d: indices is NULL", talc_max_pool2d_indices(image, &(talc_pool2d_options){ .kernel = { 2, 2 } }, NULL));
    REFUSED(TALC_BAD_ARGUMENT, "max_pool2d: kernel [0,0] must be at least 1", talc_max_pool2d_indices(image, &(talc_pool2d_options){ 0 }, &indices));
    HARMLESS(indices == NULL);
    REFUSED(TALC_BAD_SHAPE, "max_pool2d: x [4] has rank 1, needs 4: [N,C,H,W], or 3: [C,H,W]", talc_max_pool2d(vector, &(talc_pool2d_options){ .kernel = { 2, 2 } }));
    REFUSED(TALC_BAD_DTYPE, "max_pool2d: x is i64, it must be f32 or f64", talc_max_pool2d(integers, &(talc_pool2d_options){ .kernel = { 2, 2 } }));
    REFUSED(TALC_BAD_ARGUMENT, "max_pool2d: kernel [0,2] must be at least 1", MAX(.kernel = { 0, 2 }));
    REFUSED(TALC_BAD_ARGUMENT, "max_pool2d: kernel [2,-2] must be at least 1", MAX(.kernel = { 2, -2 }));
    REFUSED(TALC_BAD_ARGUMENT, "max_pool2d: stride [-1,2] must be at least 1", MAX(.kernel = { 2, 2 }, .stride = { -1, 2 }));
    REFUSED(TALC_BAD_ARGUMENT, "max_pool2d: padding [2,0] must be from 0 to [1,1], less than the kernel [2,2] with dilation [1,1]", MAX(.kernel = { 2, 2 }, .padding = { 2 }));
    REFUSED(TALC_BAD_ARGUMENT, "max_pool2d: padding [0,-1] must be from 0 to [1,1], less than the kernel [2,2] with dilation [1,1]", MAX(.kernel = { 2, 2 }, .padding = { 0, -1 }));
    REFUSED(TALC_BAD_ARGUMENT, "max_pool2d: padding [1,5] must be from 0 to [1,4], less than the kernel [2,3] with dilation [1,2]", MAX(.kernel = { 2, 3 }, .padding = { 1, 5 }, .dilation = { 1, 2 }));
    REFUSED(TALC_BAD_ARGUMENT, "avg_pool2d: padding_end [2,0] must be from 0 to [1,2], less than the kernel [2,3] with dilation [1,1]", AVG(.kernel = { 2, 3 }, .padding_end = { 2 }));
    REFUSED(TALC_BAD_ARGUMENT, "avg_pool2d: padding_same needs stride 1, stride is [2,3]", AVG(.kernel = { 2, 3 }, .padding_same = true));
    REFUSED(TALC_BAD_ARGUMENT, "max_pool2d: padding_same excludes padding [0,1]", MAX(.kernel = { 2, 3 }, .padding_same = true, .padding = { 0, 1 }));
    REFUSED(TALC_BAD_ARGUMENT, "max_pool2d: dilation [-1,1] must be at least 1", MAX(.kernel = { 2, 2 }, .dilation = { -1, 1 }));
    REFUSED(TALC_BAD_SHAPE, "max_pool2d: no window of kernel [8,2] with dilation [1,1] fits x [2,4,7,6] with padding [0,0] and [0,0]", MAX(.kernel = { 8, 2 }));
    REFUSED(TALC_BAD_SHAPE, "max_pool2d: no window of kernel [3,2] with dilation [9223372036854775807,1] fits x [2,4,7,6] with padding [0,0] and [0,0]", MAX(.kernel = { 3, 2 }, .dilation = { INT64_MAX, 1 }));
    REFUSED(TALC_BAD_SHAPE, "max_pool2d: no window of kernel [9223372036854775807,3] with dilation [1,1] fits x [2,4,7,6] with padding [4611686018427387903,0] and [4611686018427387903,0]",
            MAX(.kernel = { INT64_MAX, 3 }, .padding = { INT64_MAX / 2, 0 }));
    REFUSED(TALC_BAD_SHAPE, "avg_pool2d: no window of kernel [8,3] with dilation [1,1] fits x [2,4,7,6] with padding [0,0] and [0,0]", AVG(.kernel = { 8, 3 }));
    REFUSED(TALC_BAD_ARGUMENT, "max_pool2d: exclude_padding and divisor_override are options of avg_pool2d", MAX(.kernel = { 2, 2 }, .divisor_override = 3));
    REFUSED(TALC_BAD_ARGUMENT, "max_pool2d: exclude_padding and divisor_override are options of avg_pool2d", MAX(.kernel = { 2, 2 }, .exclude_padding = true));
    REFUSED(TALC_BAD_ARGUMENT, "avg_pool2d: dilation [2,1] is an option of max_pool2d", AVG(.kernel = { 2, 2 }, .dilation = { 2, 1 }));
    REFUSED(TALC_BAD_ARGUMENT, "avg_pool2d: divisor_override -3 must be at least 1, or 0 for none", AVG(.kernel = { 2, 2 }, .divisor_override = -3));
    REFUSED(TALC_NOT_FOUND, "avg_pool2d on cpu: there is no algorithm 'magic'", AVG(.kernel = { 2, 2 }, .algorithm = "magic"));
    talc_tensor *kept = image;
    REFUSED(TALC_NOT_FOUND, "max_pool2d on cpu: there is no algorithm 'no_such'", talc_max_pool2d_indices(image, &(talc_pool2d_options){ .kernel = { 2, 2 }, .algorithm = "no_such" }, &kept));
    HARMLESS(kept == NULL);
    REFUSED(TALC_BAD_SHAPE, "adaptive_avg_pool2d: x [3,5] has rank 2, needs 4: [N,C,H,W], or 3: [C,H,W]", talc_adaptive_avg_pool2d(matrix, 1, 1));
    REFUSED(TALC_BAD_SHAPE, "adaptive_avg_pool2d: x [1,0,3] has an empty dimension other than N", talc_adaptive_avg_pool2d(talc_unsqueeze(empty, 0), 1, 1));
    REFUSED(TALC_BAD_ARGUMENT, "adaptive_avg_pool2d: output size [-1,1] must be from 0 to 2147483647", talc_adaptive_avg_pool2d(image, -1, 1));
    REFUSED(TALC_BAD_ARGUMENT, "adaptive_avg_pool2d: output size [9223372036854775807,9223372036854775807] must be from 0 to 2147483647", talc_adaptive_avg_pool2d(image, INT64_MAX, INT64_MAX));
    refused_end(33);
}

Test(bad_input_ops, batch_norm2d)
{
    make_operands();
    talc_tensor *mean = talc_clone(vector), *variance = talc_clone(vector), *alias = talc_view(variance, TALC_DIMS(4));
#define TRAIN(...) talc_batch_norm2d(image, vector, vector, mean, variance, &(talc_batch_norm2d_options){ .training = true, __VA_ARGS__ })
    REFUSED(TALC_NULL_ARGUMENT, "batch_norm2d: running_mean is NULL", talc_batch_norm2d(image, NULL, NULL, NULL, NULL, NULL));
    REFUSED(TALC_NULL_ARGUMENT, "batch_norm2d: running_var is NULL, and running_mean is not", talc_batch_norm2d(image, NULL, NULL, vector, NULL, NULL));
    REFUSED(TALC_NULL_ARGUMENT, "batch_norm2d: running_mean is NULL, and running_var is not", talc_batch_norm2d(image, NULL, NULL, NULL, vector, &(talc_batch_norm2d_options){ .training = true }));
    REFUSED(TALC_BAD_SHAPE, "batch_norm2d: x [3,5] has rank 2, needs 4: [N,C,H,W]", talc_batch_norm2d(matrix, NULL, NULL, vector, vector, NULL));
    REFUSED(TALC_BAD_SHAPE, "batch_norm2d: bias [4,1] must be [4], one value for each channel of x [2,4,7,6]", talc_batch_norm2d(image, NULL, talc_unsqueeze(vector, 1), vector, vector, NULL));
    REFUSED(TALC_BAD_SHAPE, "batch_norm2d: running_var [] must be [4], one value for each channel of x [2,4,7,6]", talc_batch_norm2d(image, NULL, NULL, vector, talc_select(vector, 0, 0), NULL));
    REFUSED(TALC_BAD_SHAPE, "batch_norm2d: weight [6] must be [4], one value for each channel of x [2,4,7,6]", talc_batch_norm2d(image, bias, NULL, vector, vector, NULL));
    REFUSED(TALC_BAD_SHAPE, "batch_norm2d: running_mean [6] must be [4], one value for each channel of x [2,4,7,6]", talc_batch_norm2d(image, NULL, NULL, bias, vector, NULL));
    REFUSED(TALC_BAD_ARGUMENT, "batch_norm2d: momentum -0.1 must be from 0 to 1", TRAIN(.momentum = -0.1));
    REFUSED(TALC_BAD_ARGUMENT, "batch_norm2d: momentum 1.5 must be from 0 to 1", TRAIN(.momentum = 1.5));
    REFUSED(TALC_BAD_ARGUMENT, "batch_norm2d: momentum nan must be from 0 to 1", TRAIN(.momentum = NAN));
    REFUSED(TALC_BAD_ARGUMENT, "batch_norm2d: eps -1e-05 must be at least 0", TRAIN(.eps = -1e-5));
    REFUSED(TALC_BAD_ARGUMENT, "batch_norm2d: eps nan must be at least 0", TRAIN(.eps = NAN));
    REFUSED(TALC_BAD_ARGUMENT, "batch_norm2d: activation 10 is outside 0..9", TRAIN(.activation = (talc_activation)10));
    REFUSED(TALC_NOT_FOUND, "batch_norm2d on cpu: there is no algorithm 'magic'", TRAIN(.algorithm = "magic"));
    talc_tensor *one = talc_slice(talc_slice(talc_slice(image, 0, 0, 1, 1), 2, 0, 1, 1), 3, 0, 1, 1);
    REFUSED(TALC_BAD_SHAPE, "batch_norm2d: x [1,4,1,1] has 1 value per channel, training needs more than 1", talc_batch_norm2d(one, NULL, NULL, vector, vector, &(talc_batch_norm2d_options){ .training = true }));
    talc_tensor *same = talc_expand(talc_slice(vector, 0, 0, 1, 1), TALC_DIMS(4));
    REFUSED(TALC_BAD_ARGUMENT, "batch_norm2d: running_mean and running_var share memory, and training writes running_var", talc_batch_norm2d(image, NULL, NULL, vector, vector, &(talc_batch_norm2d_options){ .training = true }));
    REFUSED(TALC_BAD_ARGUMENT, "batch_norm2d: weight and running_var share memory, and training writes running_var", talc_batch_norm2d(image, alias, NULL, mean, variance, &(talc_batch_norm2d_options){ .training = true }));
    talc_tensor *gaps = talc_select(talc_ones(cpu_device(), TALC_F32, TALC_DIMS(4, 2)), 1, 0);
    REFUSED(TALC_BAD_ARGUMENT, "batch_norm2d: running_var is not contiguous, as training needs it", talc_batch_norm2d(image, NULL, NULL, vector, gaps, &(talc_batch_norm2d_options){ .training = true }));
    HARMLESS((talc_release(talc_batch_norm2d(image, NULL, NULL, vector, gaps, NULL)), true));
    REFUSED(TALC_BAD_ARGUMENT, "batch_norm2d: running_mean is not contiguous, as training needs it", talc_batch_norm2d(image, NULL, NULL, same, vector, &(talc_batch_norm2d_options){ .training = true }));
    talc_tensor *count = talc_zeros(cpu_device(), TALC_I64, TALC_SCALAR), *far_count = talc_to(count, far_vector->device, TALC_I64);
    talc_tensor *double_image = talc_cast(image, TALC_F64), *inner = talc_slice(talc_view(image, TALC_DIMS(336)), 0, 7, 11, 1), *other = talc_clone(image);
    REFUSED(TALC_BAD_SHAPE, "batch_norm2d: residual [4] must be [2,4,7,6]", TRAIN(.residual = vector));
    REFUSED(TALC_BAD_SHAPE, "batch_norm2d: residual [1,4,7,6] must be [2,4,7,6]", talc_batch_norm2d(image, NULL, NULL, vector, vector, &(talc_batch_norm2d_options){ .residual = talc_slice(image, 0, 0, 1, 1) }));
    REFUSED(TALC_BAD_DTYPE, "batch_norm2d: x is f32, residual is f64", TRAIN(.residual = double_image));
    REFUSED(TALC_BAD_DEVICE, "batch_norm2d: x is on cpu, residual on fake", TRAIN(.residual = far_vector));
    REFUSED(TALC_BAD_DTYPE, "batch_norm2d: num_batches_tracked is f32, it must be i64", TRAIN(.num_batches_tracked = talc_select(vector, 0, 0)));
    REFUSED(TALC_BAD_SHAPE, "batch_norm2d: num_batches_tracked [1] must be []", TRAIN(.num_batches_tracked = talc_reshape(count, TALC_DIMS(1))));
    REFUSED(TALC_BAD_DEVICE, "batch_norm2d: x is on cpu, num_batches_tracked on fake", TRAIN(.num_batches_tracked = far_count));
    double memory[2 * 4 * 7 * 6] = { 0 };
    talc_tensor *wide = talc_wrap(cpu_device(), TALC_F64, TALC_DIMS(2, 4, 7, 6), memory, NULL, NULL), *inside = talc_select(talc_wrap(cpu_device(), TALC_I64, TALC_DIMS(8), memory, NULL, NULL), 0, 3);
    REFUSED(TALC_BAD_ARGUMENT, "batch_norm2d: residual and num_batches_tracked share memory, and training writes num_batches_tracked", talc_batch_norm2d(double_image, NULL, NULL, NULL, NULL, &(talc_batch_norm2d_options){ .training = true, .residual = wide, .num_batches_tracked = inside }));
    REFUSED(TALC_BAD_ARGUMENT, "batch_norm2d: residual and running_mean share memory, and training writes running_mean", talc_batch_norm2d(other, NULL, NULL, inner, variance, &(talc_batch_norm2d_options){ .training = true, .residual = image }));
    cr_assert(talc_item_i64(count) == 0);
    refused_end(30);
}

Test(bad_input_ops, group_norm)
{
    make_operands();
#define GROUPS(groups, ...) talc_group_norm(image, groups, vector, vector, &(talc_norm_options){ __VA_ARGS__ })
#define INSTANCE(x, weight, bias) talc_instance_norm2d(x, weight, bias, NULL)
#define LAYER(x, dims, weight, bias) talc_layer_norm(x, dims, weight, bias, NULL)
    REFUSED(TALC_BAD_SHAPE, "group_norm: x [4] has rank 1, it must be [N,C,...], of rank 2 at least", talc_group_norm(vector, 1, NULL, NULL, NULL));
    REFUSED(TALC_BAD_ARGUMENT, "group_norm: groups 0 must be at least 1", GROUPS(0, 0));
    REFUSED(TALC_BAD_ARGUMENT, "group_norm: groups -2 must be at least 1", GROUPS(-2, 0));
    REFUSED(TALC_BAD_SHAPE, "group_norm: the 4 channels of x [2,4,7,6] do not divide into 3 groups", GROUPS(3, 0));
    REFUSED(TALC_BAD_SHAPE, "group_norm: the 4 channels of x [2,4,7,6] do not divide into 8 groups", GROUPS(8, 0));
    REFUSED(TALC_BAD_SHAPE, "group_norm: weight [6] must be [4]", talc_group_norm(image, 2, bias, NULL, NULL));
    REFUSED(TALC_BAD_SHAPE, "group_norm: bias [4,1] must be [4]", talc_group_norm(image, 2, NULL, talc_unsqueeze(vector, 1), NULL));
    REFUSED(TALC_BAD_ARGUMENT, "group_norm: eps -1e-05 must be at least 0", GROUPS(2, .eps = -1e-5));
    REFUSED(TALC_BAD_ARGUMENT, "group_norm: eps nan must be at least 0", GROUPS(2, .eps = NAN));
    REFUSED(TALC_BAD_ARGUMENT, "group_norm: activation 10 is outside 0..9", GROUPS(2, .activation = (talc_activation)10));
    REFUSED(TALC_NOT_FOUND, "group_norm on cpu: there is no algorithm 'magic'", GROUPS(2, .algorithm = "magic"));
    REFUSED(TALC_NULL_ARGUMENT, "instance_norm2d: x is NULL", INSTANCE(NULL, NULL, NULL));
    REFUSED(TALC_BAD_SHAPE, "instance_norm2d: x [3,5] has rank 2, needs 4: [N,C,H,W]", INSTANCE(matrix, NULL, NULL));
    REFUSED(TALC_BAD_SHAPE, "instance_norm2d: weight [6] must be [4]", INSTANCE(image, bias, NULL));
    REFUSED(TALC_BAD_ARGUMENT, "instance_norm2d: eps -1 must be at least 0", talc_instance_norm2d(image, NULL, NULL, &(talc_norm_options){ .eps = -1 }));
    REFUSED(TALC_NULL_ARGUMENT, "layer_norm: x is NULL", LAYER(NULL, TALC_DIMS(5), NULL, NULL));
    REFUSED(TALC_BAD_SHAPE, "layer_norm: the normalised dimensions [4] must be the last of x [3,5]", LAYER(matrix, TALC_DIMS(4), NULL, NULL));
    REFUSED(TALC_BAD_SHAPE, "layer_norm: the normalised dimensions [2,3,5] must be the last of x [3,5]", LAYER(matrix, TALC_DIMS(2, 3, 5), NULL, NULL));
    REFUSED(TALC_BAD_SHAPE, "layer_norm: the normalised dimensions [] must be the last of x [3,5]", LAYER(matrix, TALC_SCALAR, NULL, NULL));
    REFUSED(TALC_BAD_SHAPE, "layer_norm: weight [4] must be [5]", LAYER(matrix, TALC_DIMS(5), vector, NULL));
    REFUSED(TALC_BAD_SHAPE, "layer_norm: bias [4] must be [3,5]", LAYER(matrix, TALC_DIMS(3, 5), NULL, vector));
#define RESPONSE(size, ...) talc_local_response_norm(image, size, &(talc_local_response_norm_options){ __VA_ARGS__ })
    REFUSED(TALC_BAD_SHAPE, "local_response_norm: x [3,5] has rank 2, it must be [N,C,...], of rank 3 at least", talc_local_response_norm(matrix, 5, NULL));
    REFUSED(TALC_BAD_ARGUMENT, "local_response_norm: size 0 must be at least 1", RESPONSE(0, 0));
    REFUSED(TALC_BAD_ARGUMENT, "local_response_norm: alpha -0.5 must be at least 0 and finite", RESPONSE(5, .alpha = -0.5));
    REFUSED(TALC_BAD_ARGUMENT, "local_response_norm: beta nan must be at least 0 and finite", RESPONSE(5, .beta = NAN));
    REFUSED(TALC_BAD_ARGUMENT, "local_response_norm: k inf must be at least 0 and finite", RESPONSE(5, .k = INFINITY));
    refused_end(26);
}

#define PAD(x, ...) talc_pad(x, &(talc_pad_options){ __VA_ARGS__ })
#define UPSAMPLE(...) talc_upsample2d(image, &(talc_upsample2d_options){ __VA_ARGS__ })
Test(bad_input_ops, resample)
{
    make_operands();
    REFUSED(TALC_NULL_ARGUMENT, "pad: options is NULL", talc_pad(image, NULL));
    REFUSED(TALC_BAD_ARGUMENT, "pad: mode 4 is outside 0..3", PAD(image, .mode = TALC_PADDING_MODE_COUNT));
    REFUSED(TALC_BAD_ARGUMENT, "pad: mode -1 is outside 0..3", PAD(image, .mode = (talc_padding_mode)-1));
    REFUSED(TALC_BAD_ARGUMENT, "pad: padding[2] is 1, x of rank 1 has padding[0] to padding[1]", PAD(vector, .padding = { 0, 0, 1 }));
    REFUSED(TALC_BAD_ARGUMENT, "pad: padding -3 and -2 leaves a negative extent of dimension 0, whose extent is 4", PAD(vector, .padding = { -3, -2 }));
    REFUSED(TALC_BAD_ARGUMENT, "pad: padding -5 and 0 leaves a negative extent of dimension 0, whose extent is 4", PAD(vector, .padding = { -5 }, .mode = TALC_PADDING_CIRCULAR));
    REFUSED(TALC_TOO_LARGE, "pad: padding 9223372036854775807 and 0 of dimension 0, whose extent is 4, exceeds 2^61", PAD(vector, .padding = { INT64_MAX }));
    REFUSED(TALC_BAD_ARGUMENT, "pad: reflect by 4 of dimension 0, whose extent 4 allows at most 3", PAD(vector, .padding = { 0, 4 }, .mode = TALC_PADDING_REFLECT));
    REFUSED(TALC_BAD_ARGUMENT, "pad: circular by 8 of dimension 2, whose extent 7 allows at most 7", PAD(image, .padding = { 0, 0, 8 }, .mode = TALC_PADDING_CIRCULAR));
    REFUSED(TALC_BAD_ARGUMENT, "pad: circular by 4 of dimension 0, whose extent 3 allows at most 3", PAD(vector, .padding = { 4, -1 }, .mode = TALC_PADDING_CIRCULAR));
    REFUSED(TALC_BAD_ARGUMENT, "pad: replicate by 2 of dimension 0, whose extent 0 allows at most 0", PAD(empty, .padding = { 0, 0, 2 }, .mode = TALC_PADDING_REPLICATE));
    REFUSED(TALC_BAD_ARGUMENT, "pad: reflect pads the last 3 dimensions, not dimension 0 of 4", PAD(image, .padding = { 0, 0, 0, 0, 0, 0, 1 }, .mode = TALC_PADDING_REFLECT));
    REFUSED(TALC_NULL_ARGUMENT, "upsample2d: x is NULL", talc_upsample2d(NULL, &(talc_upsample2d_options){ .size = { 1, 1 } }));
    REFUSED(TALC_NULL_ARGUMENT, "upsample2d: options is NULL", talc_upsample2d(image, NULL));
    REFUSED(TALC_BAD_ARGUMENT, "upsample2d: mode 4 is outside 0..3", UPSAMPLE(.size = { 2, 2 }, .mode = TALC_UPSAMPLE_MODE_COUNT));
    REFUSED(TALC_BAD_ARGUMENT, "upsample2d: align_corners is an option of bilinear and bicubic", UPSAMPLE(.size = { 2, 2 }, .align_corners = true));
    REFUSED(TALC_BAD_ARGUMENT, "upsample2d: coordinates 6 is outside 0..5", UPSAMPLE(.size = { 2, 2 }, .coordinates = TALC_COORDINATES_COUNT));
    REFUSED(TALC_BAD_ARGUMENT, "upsample2d: coordinates is no option of nearest_exact", UPSAMPLE(.size = { 2, 2 }, .mode = TALC_UPSAMPLE_NEAREST_EXACT, .coordinates = TALC_COORDINATES_ASYMMETRIC));
    REFUSED(TALC_BAD_ARGUMENT, "upsample2d: both align_corners and coordinates are given", UPSAMPLE(.size = { 2, 2 }, .mode = TALC_UPSAMPLE_BICUBIC, .align_corners = true, .coordinates = TALC_COORDINATES_ALIGN_CORNERS));
    REFUSED(TALC_BAD_ARGUMENT, "upsample2d: rounding -1 is outside 0..3", UPSAMPLE(.size = { 2, 2 }, .rounding = (talc_upsample_rounding)-1));
    REFUSED(TALC_BAD_ARGUMENT, "upsample2d: rounding is an option of nearest", UPSAMPLE(.size = { 2, 2 }, .mode = TALC_UPSAMPLE_BICUBIC, .rounding = TALC_ROUNDING_CEIL));
    REFUSED(TALC_BAD_ARGUMENT, "upsample2d: coefficient is an option of bicubic", UPSAMPLE(.size = { 2, 2 }, .mode = TALC_UPSAMPLE_BILINEAR, .coefficient = -0.5));
    REFUSED(TALC_BAD_ARGUMENT, "upsample2d: exclude_outside is an option of bicubic", UPSAMPLE(.size = { 2, 2 }, .exclude_outside = true));
    REFUSED(TALC_BAD_ARGUMENT, "upsample2d: coefficient nan must be finite", UPSAMPLE(.size = { 2, 2 }, .mode = TALC_UPSAMPLE_BICUBIC, .coefficient = NAN));
    REFUSED(TALC_BAD_SHAPE, "upsample2d: x [4] has rank 1, needs 4: [N,C,H,W], or 3: [C,H,W]", talc_upsample2d(vector, &(talc_upsample2d_options){ .size = { 1, 1 } }));
    REFUSED(TALC_BAD_SHAPE, "upsample2d: x [1,0,3] has an empty image", talc_upsample2d(talc_unsqueeze(empty, 0), &(talc_upsample2d_options){ .size = { 1, 1 } }));
    REFUSED(TALC_BAD_ARGUMENT, "upsample2d: both size [2,3] and scale [0,1.5] are given", UPSAMPLE(.size = { 2, 3 }, .scale = { 0, 1.5 }));
    REFUSED(TALC_BAD_ARGUMENT, "upsample2d: neither size nor scale is given", UPSAMPLE(0));
    REFUSED(TALC_BAD_ARGUMENT, "upsample2d: size [2,0] must be at least 1", UPSAMPLE(.size = { 2 }));
    REFUSED(TALC_BAD_ARGUMENT, "upsample2d: size [-2,3] must be at least 1", UPSAMPLE(.size = { -2, 3 }));
    REFUSED(TALC_BAD_ARGUMENT, "upsample2d: scale [2,0] must be finite and above 0", UPSAMPLE(.scale = { 2 }));
    REFUSED(TALC_BAD_ARGUMENT, "upsample2d: scale [-1,2] must be finite and above 0", UPSAMPLE(.scale = { -1, 2 }));
    REFUSED(TALC_BAD_ARGUMENT, "upsample2d: scale [nan,2] must be finite and above 0", UPSAMPLE(.scale = { NAN, 2 }));
    REFUSED(TALC_BAD_ARGUMENT, "upsample2d: scale [2,inf] must be finite and above 0", UPSAMPLE(.scale = { 2, INFINITY }));
    REFUSED(TALC_TOO_LARGE, "upsample2d: extent 7 times scale 1e+30 exceeds 2^62", UPSAMPLE(.scale = { 1e30, 2 }));
    REFUSED(TALC_BAD_ARGUMENT, "upsample2d: scale [0.1,2] of an image [7,6] leaves an output of [0,12]", UPSAMPLE(.scale = { 0.1, 2 }));
    talc_tensor *whole = talc_ones(cpu_device(), TALC_I64, TALC_DIMS(1, 2, 2));
    REFUSED(TALC_BAD_DTYPE, "upsample2d: x is i64, it must be f32 or f64", talc_upsample2d(whole, &(talc_upsample2d_options){ .size = { 4, 4 }, .mode = TALC_UPSAMPLE_BILINEAR }));
    refused_end(37);
}

Test(bad_input_ops, taking_apart)
{
    make_operands();
    talc_tensor *parts[3] = { matrix, matrix, matrix };
    REFUSED(TALC_NULL_ARGUMENT, "stack: tensors is NULL", talc_stack(NULL, 2, 0));
    REFUSED(TALC_BAD_ARGUMENT, "stack: count is 0, needs at least 1", talc_stack((const talc_tensor *[]){ matrix }, 0, 0));
    REFUSED(TALC_NULL_ARGUMENT, "stack: tensors[1] is NULL", talc_stack((const talc_tensor *[]){ matrix, NULL }, 2, 0));
    REFUSED(TALC_BAD_DTYPE, "stack: tensors[0] is f32, tensors[1] is f64", talc_stack((const talc_tensor *[]){ vector, doubles }, 2, 0));
    REFUSED(TALC_BAD_SHAPE, "stack: tensors[0] [4] and tensors[1] [6] differ", talc_stack((const talc_tensor *[]){ vector, bias }, 2, 0));
    REFUSED(TALC_BAD_ARGUMENT, "stack: dimension 2 is outside 0..1", talc_stack((const talc_tensor *[]){ vector, vector }, 2, 2));
    REFUSED(TALC_BAD_ARGUMENT, "stack: dimension -3 is outside 0..1", talc_stack((const talc_tensor *[]){ vector, vector }, 2, -3));
    REFUSED(TALC_BAD_SHAPE, "stack: the tensors have rank 8 already, the most there is", talc_stack((const talc_tensor *[]){ talc_reshape(vector, TALC_DIMS(1, 1, 1, 1, 1, 1, 1, 4)) }, 1, 0));
    REFUSED(TALC_NULL_ARGUMENT, "split: x is NULL", talc_split(NULL, (const int64_t[]){ 1 }, 1, 0, parts));
    REFUSED(TALC_NULL_ARGUMENT, "split: sizes is NULL", talc_split(matrix, NULL, 1, 0, parts));
    REFUSED(TALC_NULL_ARGUMENT, "split: parts is NULL", talc_split(matrix, (const int64_t[]){ 5 }, 1, 1, NULL));
    REFUSED(TALC_BAD_ARGUMENT, "split: the 2 sizes add up to 4, dimension 1 has extent 5", talc_split(matrix, (const int64_t[]){ 1, 3 }, 2, -1, parts));
    REFUSED(TALC_BAD_ARGUMENT, "split: the 2 sizes add up to 6, dimension 1 has extent 5", talc_split(matrix, (const int64_t[]){ 3, 3 }, 2, 1, parts));
    REFUSED(TALC_BAD_ARGUMENT, "split: sizes[1] is -1, dimension 1 has extent 5", talc_split(matrix, (const int64_t[]){ 6, -1 }, 2, 1, parts));
    REFUSED(TALC_BAD_ARGUMENT, "split: sizes[1] is 9223372036854775807, dimension 1 has extent 5", talc_split(matrix, (const int64_t[]){ 6, INT64_MAX }, 2, 1, parts));
    REFUSED(TALC_BAD_ARGUMENT, "split: dimension 2 is outside a tensor of rank 2", talc_split(matrix, (const int64_t[]){ 3 }, 1, 2, parts));
    HARMLESS(parts[0] == NULL && parts[1] == NULL);
    REFUSED(TALC_NULL_ARGUMENT, "chunk: x is NULL", talc_chunk(NULL, 3, 0, parts) != 0);
    REFUSED(TALC_NULL_ARGUMENT, "chunk: parts is NULL", talc_chunk(matrix, 3, 0, NULL) != 0);
    REFUSED(TALC_BAD_ARGUMENT, "chunk: chunks is 0, needs at least 1", talc_chunk(matrix, 0, 0, parts) != 0);
    HARMLESS(parts[2] == NULL);
    REFUSED(TALC_BAD_SHAPE, "channel_shuffle: x [3,5] has rank 2, needs 3 to 7: [N,C,...]", talc_channel_shuffle(matrix, 1));
    REFUSED(TALC_BAD_ARGUMENT, "channel_shuffle: x [2,4,7,6] has 4 channels, not a multiple of groups 3", talc_channel_shuffle(image, 3));
    REFUSED(TALC_BAD_ARGUMENT, "channel_shuffle: x [2,4,7,6] has 4 channels, not a multiple of groups 0", talc_channel_shuffle(image, 0));
    refused_end(20);
}

static bool explained(const char *problem)
{
    talc_explanation explanation;
    return talc_explain(cpu_device(), problem, NULL, &explanation);
}

Test(bad_input_ops, explain)
{
    talc_explanation explanation = { .count = 77 };
    REFUSED(TALC_NULL_ARGUMENT, "explain: device is NULL", talc_explain(NULL, "relu:3", NULL, &explanation));
    REFUSED(TALC_NULL_ARGUMENT, "explain: problem is NULL", talc_explain(cpu_device(), NULL, NULL, &explanation));
    REFUSED(TALC_NULL_ARGUMENT, "explain: explanation is NULL", talc_explain(cpu_device(), "relu:3", NULL, NULL));
    REFUSED(TALC_NOT_FOUND, "check: problem 'swish:3': there is no op 'swish' at position 0", explained("swish:3"));
    REFUSED(TALC_BAD_ARGUMENT, "relu: problem 'relu:3x': expected a number at position 7", explained("relu:3x"));
    REFUSED(TALC_BAD_ARGUMENT, "relu: problem 'relu:3,3': expected '_' or the end at position 6", explained("relu:3,3"));
    REFUSED(TALC_BAD_ARGUMENT, "relu: problem 'relu:3_i32': expected reversed, dx, f32 or f64 at position 7", explained("relu:3_i32"));
    REFUSED(TALC_BAD_ARGUMENT, "div: problem 'div:3_u8': expected scalar, reversed, f32 or f64 at position 6", explained("div:3_u8"));
    REFUSED(TALC_BAD_ARGUMENT, "add: problem 'add:3_f32_f64': expected scalar or reversed at position 10", explained("add:3_f32_f64"));
    REFUSED(TALC_BAD_ARGUMENT, "add: problem 'add:8x3,4': expected a shape that broadcasts with the first at position 8", explained("add:8x3,4"));
    REFUSED(TALC_BAD_ARGUMENT, "mul: problem 'mul:2147483648x1,1x2147483648': expected operands and a result below 2^63 bytes at position 4", explained("mul:2147483648x1,1x2147483648"));
    REFUSED(TALC_BAD_ARGUMENT, "explain: problem 'relu:3x0' has nothing to compute", explained("relu:3x0"));
    REFUSED(TALC_BAD_ARGUMENT, "explain: problem 'sum:0x3@0' has nothing to compute", explained("sum:0x3@0"));
    HARMLESS(explanation.count == 77);
    HARMLESS((talc_explanation_print(NULL, &explanation), talc_explanation_print(stderr, NULL), true));
    refused_end(13);
}

// clang-format on
