/* Problems of the families, of conv2d their texts alone: texts, mistakes, random ones, and what
 * operands are filled with. The oracles have tests/check/test_check_oracles.c. */
#include "check/engine/case.h"
#include "check/engine/data.h"
#include "check/engine/family.h"
#include "check/ops/pool2d.h"
#include "ops/backend.h"
#include "tests/support/hooks.h"
#include "tests/support/plans.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { SEEDS = 400 };

/* All directions but conv2d's, from *d on; NULL after the last. */
static const check_direction *next(int *d)
{
    const check_direction *direction = talc_check_direction_at((*d)++);
    return direction == &talc_check_conv2d ? next(d) : direction;
}

/* The one whose first op has that name. */
static const check_direction *direction_of(const char *op)
{
    const check_direction *direction;
    for (int d = 0; (direction = next(&d)) != NULL;)
        if (strcmp(direction->ops[0], op) == 0)
            return direction;
    cr_assert(false, "there is no op %s", op);
    return NULL;
}

static const check_direction *parsed(const char *text, check_problem *problem)
{
    const check_direction *direction = talc_check_parse(text, problem);
    cr_assert(direction != NULL, "%s: %s", text, talc_error_message());
    return direction;
}

/* Whether the problem's text is `expected`, and reading that gives the same problem, byte for
 * byte. */
static void assert_prints(const check_direction *direction, const check_problem *problem,
                          const char *expected)
{
    char text[TALC_CHECK_TEXT];
    check_problem again;
    cr_assert(strcmp(talc_check_write(direction, problem, text), expected) == 0, "%s printed as %s",
              expected, text);
    cr_assert(talc_check_parse(text, &again) == direction, "%s: %s", text, talc_error_message());
    cr_assert(memcmp(&again, problem, sizeof again) == 0, "%s is another problem when read", text);
}

Test(check_families, texts_are_read_and_written)
{
    static const char *const texts[][2] = {
        { "conv2d:n2c4h9w9o8k3x3s2x2p1x1g2_bias_f64_relu_reflect",
          "n2c4h9w9o8k3x3s2x2p1x1d1x1g2_f64_bias_relu_reflect" },
        { "conv2d:n0c4h9w9o8k3x3", "n0c4h9w9o8k3x3s1x1p0x0d1x1g1" },
        { "silu:3x5_f64_reversed", "silu:3x5_reversed_f64" },
        { "relu6:7_f64_dx", "relu6:7_dx_f64" },
        { "rmsprop:70_f64_centered", "rmsprop:70_centered_f64" },
        { "var:7@0_large_f64", "var:7_f64_large" },
        { "max_pool2d:n2c3h9w9k3x3", "max_pool2d:n2c3h9w9k3x3s3x3p0x0d1x1" },
        { "max_pool2d:n0c3h9w9k3x2s2x1p1x1d2x3_indices_ceil_f64",
          "max_pool2d:n0c3h9w9k3x2s2x1p1x1d2x3_ceil_indices_f64" },
        { "max_pool2d:n2c3h9w9k3x3p1x2x1x2", "max_pool2d:n2c3h9w9k3x3s3x3p1x2d1x1" },
        { "avg_pool2d:n2c3h9w8k3x2p1x0x2x1", "avg_pool2d:n2c3h9w8k3x2s3x2p1x0x2x1" },
        { "avg_pool2d:n2c3h9w8k3x2p1x1_f32", "avg_pool2d:n2c3h9w8k3x2s3x2p1x1" },
        { "avg_pool2d:n2c3h9w8k3x2s1x1d1x1_divisor5_exclude_ceil",
          "avg_pool2d:n2c3h9w8k3x2s1x1p0x0_ceil_exclude_divisor5" },
        { "adaptive_avg_pool2d:n2c3h9w9o3x4", "adaptive_avg_pool2d:n2c3h9w9o3x4" },
        { "adaptive_avg_pool2d:n1c1h1w1o0x4_f64", "adaptive_avg_pool2d:n1c1h1w1o0x4_f64" },
        { "matmul:m5n6k7", "matmul:b1m5n6k7" },
        { "matmul:b2m5n6k0_relu_residual_bias_tb_ta_gaps_oneb_onea_f64",
          "matmul:b2m5n6k0_ta_tb_onea_oneb_gaps_bias_residual_relu_f64" },
        { "matmul:b0m5n6k7_tanh", "matmul:b0m5n6k7_tanh" },
        { "batch_norm2d:n8c16h7w6_train_relu", "batch_norm2d:n8c16h7w6_train_relu" },
        { "batch_norm2d:n1c1h1w1_f64_sigmoid_plain_eps0_momentum1",
          "batch_norm2d:n1c1h1w1_plain_eps0_momentum1_sigmoid_f64" },
        { "batch_norm2d:n8c16h7w6_dx_relu_residual", "batch_norm2d:n8c16h7w6_residual_relu_dx" },
        { "batch_norm2d:n8c16h7w6_residual_train", "batch_norm2d:n8c16h7w6_train_residual" },
        { "batch_norm2d:n0c2h1w1_untracked_train_momentum0",
          "batch_norm2d:n0c2h1w1_train_untracked_momentum0" },
        { "sum:8x16x32@2,1", "sum:8x16x32@1,2" },
        { "mean:8x16@-2_f64", "mean:8x16@0_f64" },
        { "max:8x16@1,0_i32", "max:8x16_i32" },
        { "argmax:3x1x2x1x2x1x1x2@-1,0_u8_reversed", "argmax:3x1x2x1x2x1x1x2@0,7_reversed_u8" },
        { "sum:", "sum:" },
        { "sum:@0_i64", "sum:_i64" },
        { "mean:3x0@1", "mean:3x0@1" },
        { "softmax:64x1000@1", "softmax:64x1000@1" },
        { "log_softmax:@-1_reversed_f64", "log_softmax:@0_reversed_f64" },
        { "cross_entropy:8x10", "cross_entropy:8x10" },
        { "cross_entropy:2x3x4_ignore_f64_smooth_none_reversed",
          "cross_entropy:2x3x4_reversed_none_smooth_ignore_f64" },
        { "cross_entropy:0x3_sum_f32", "cross_entropy:0x3_sum" },
        { "max_pool2d:n2c3h9w9k3x3_dx_ceil", "max_pool2d:n2c3h9w9k3x3s3x3p0x0d1x1_ceil_dx" },
        { "avg_pool2d:n2c3h9w8k3x2_f64_dx_divisor5",
          "avg_pool2d:n2c3h9w8k3x2s3x2p0x0_divisor5_dx_f64" },
        { "adaptive_avg_pool2d:n2c3h9w9o3x4_dx", "adaptive_avg_pool2d:n2c3h9w9o3x4_dx" },
        { "batch_norm2d:n8c16h7w6_dx_plain_train", "batch_norm2d:n8c16h7w6_train_plain_dx" },
        { "batch_norm2d:n8c16h7w6_given_dx_train", "batch_norm2d:n8c16h7w6_train_given_dx" },
        { "group_norm:n8c16l7g4_f64_dx_plain", "group_norm:n8c16l7g4_plain_dx_f64" },
        { "cross_entropy:2x3x4_dx_ignore_reversed", "cross_entropy:2x3x4_reversed_ignore_dx" },
        { "nll_loss:8x10", "nll_loss:8x10" },
        { "nll_loss:2x3x4_f64_mean_weighted_ignore_reversed",
          "nll_loss:2x3x4_reversed_ignore_weighted_mean_f64" },
        { "nll_loss:2x3x4_dx_weighted", "nll_loss:2x3x4_weighted_dx" },
        { "pad:5x7_value_i32", "pad:5x7_value_i32" },
        { "pad:3x5x7p1x2x0x0c0x0x3x0_f64_replicate", "pad:3x5x7p1x2c0x0x3x0_replicate_f64" },
        { "pad:5x7p2x1c0x3", "pad:5x7p2x0c0x2" },
        { "pad:5x7p6x6x4x4_dx_reflect", "pad:5x7p6x6x4x4_reflect_dx" },
        { "upsample2d:n2c3h5w7o10x14", "upsample2d:n2c3h5w7o10x14" },
        { "upsample2d:n2c3h5w7f7x3_dx_aligned", "upsample2d:n2c3h5w7f7x3_aligned_dx" },
        { "upsample2d:n2c3h5w7o10x14_f64_bilinear", "upsample2d:n2c3h5w7o10x14_bilinear_f64" },
        { "gather:5x7@-1i4x9_u8_reversed", "gather:5x7@1i4x9_reversed_u8" },
        { "gather:5x7@0i4x7_f64_dx", "gather:5x7@0i4x7_dx_f64" },
        { "index_select:5x7@0i4_dx", "index_select:5x7@0i4_dx" },
        { "add:3x5", "add:3x5,3x5" },
        { "less:3x5,5_reversed_u8", "less:3x5,5_reversed_u8" },
        { "pow:,4_f64", "pow:,4_f64" },
        { "mul:7_scalar", "mul:7,7_scalar" },
        { "where:5,3x1", "where:5,3x1,5" },
        { "where:3,,1x1_i32", "where:3,,1x1_i32" },
        { "neg:3_i64", "neg:3_i64" },
        { "cumsum:5x7@-1_dx_reversed", "cumsum:5x7@1_reversed_dx" },
        { "cumprod:5x7@-1_f64_dx", "cumprod:5x7@1_dx_f64" },
        { "cumprod:@0_reversed", "cumprod:@0_reversed" },
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        check_problem problem;
        const check_direction *direction = parsed(texts[i][0], &problem);
        assert_prints(direction, &problem, texts[i][1]);
        const size_t length = strcspn(texts[i][0], ":");
        cr_assert(strncmp(talc_check_op(direction, &problem), texts[i][0], length) == 0);
    }
}

/* Puts hostile numbers in place of some of those of a text. */
static void corrupt_numbers(const char *text, uint64_t seed, char corrupted[TALC_CHECK_TEXT])
{
    static const int64_t hostile[] = { 0,
                                       1,
                                       7,
                                       INT32_MAX,
                                       (int64_t)1 << 31,
                                       3037000500, /* whose square passes 2^63 */
                                       ((int64_t)1 << 53) + 1,
                                       INT64_MAX / 6,
                                       INT64_MAX / 4,
                                       (int64_t)1 << 62,
                                       INT64_MAX - 1,
                                       INT64_MAX };
    enum { HOSTILE = sizeof hostile / sizeof *hostile, DIGITS = 24 };
    size_t used = 0;
    for (uint64_t number = 0; *text != '\0' && used + DIGITS < TALC_CHECK_TEXT; number++) {
        const size_t other = strcspn(text, "0123456789"),
                     digits = strspn(text + other, "0123456789");
        const uint64_t bits = talc_check_bits(seed, number);
        used += (size_t)snprintf(corrupted + used, TALC_CHECK_TEXT - used, "%.*s",
                                 (int)(other + (bits % 4 == 0 ? 0 : digits)), text);
        if (bits % 4 == 0 && digits > 0)
            used += (size_t)snprintf(corrupted + used, TALC_CHECK_TEXT - used, "%" PRId64,
                                     hostile[bits / 4 % HOSTILE]);
        text += other + digits;
    }
}

/* Whether a text is taken, which is then read, written and planned; else it is refused. The sums
 * and products of its numbers are the sanitizers' to judge. */
static bool read_problem(const char *text)
{
    talc_explanation explanation;
    if (!talc_explain(cpu_device(), text, NULL, &explanation)) {
        cr_assert(talc_failed() && talc_error_status() != TALC_NO_MEMORY, "%s: %s", text,
                  talc_error_message());
        talc_error_clear();
        return false;
    }
    check_problem problem;
    check_operand operands[CHECK_OPERANDS];
    char written[TALC_CHECK_TEXT];
    const check_direction *direction = parsed(text, &problem);
    assert_prints(direction, &problem, talc_check_write(direction, &problem, written));
    talc_check_operands(direction, &problem, operands);
    cr_assert(talc_check_cost(direction, &problem) >= 0, "%s", text);
    return true;
}

Test(check_families, hostile_numbers_are_read_or_refused)
{
    enum { SEEDS_A_TEXT = 40 };
    static const char *const sets[] = { "quick", "edges" };
    int taken = 0;
    char text[TALC_CHECK_TEXT], corrupted[TALC_CHECK_TEXT];
    cr_assert(read_problem("upsample2d:n1c2h1w7o3x5"));
    cr_assert(!read_problem("upsample2d:n1c2h1w4611686018427387904o3x5"));
    for (int set = 0; set < 2; set++)
        for (int64_t i = 0; talc_check_set_problem(sets[set], i, 0, text) != NULL; i++)
            for (uint64_t seed = 0; seed < SEEDS_A_TEXT; seed++) {
                corrupt_numbers(text, SEEDS_A_TEXT * (uint64_t)i + seed, corrupted);
                taken += read_problem(corrupted);
            }
    cr_assert(taken > 1000, "%d texts were taken", taken);
}

/* The mistake stands where the second part begins. */
static const struct {
    const char *before, *after, *wanted;
} mistakes[] = {
    { "max_pool2d:", "c3h9w9k3x3", "'n'" },
    { "max_pool2d:n", "", "a number" },
    { "max_pool2d:n2c3h", "-9w9k3x3", "a number" },
    { "max_pool2d:n", "9223372036854775808c3h9w9k3x3", "a number below 2^63" },
    { "max_pool2d:n2c3h9w9k3x", "", "a number" },
    { "max_pool2d:n2c3h9w9", "p1x1", "'k'" },
    { "max_pool2d:n2c3h9w9k3x3", "q1x1", "'_' or the end" },
    { "max_pool2d:n2c3h9w9k3x3_", "ceiling", "ceil, indices, dx, f32 or f64" },
    { "max_pool2d:n2c3h9w9k3x3_ceil_", "ceil", "indices, dx, f32 or f64" },
    { "max_pool2d:n2c3h9w9k3x3_f64_", "f32", "ceil, indices or dx" },
    { "max_pool2d:n2c3h9w9k3x3_", "exclude", "ceil, indices, dx, f32 or f64" },
    { "max_pool2d:n2c3h9w9k3x3_", "divisor5", "ceil, indices, dx, f32 or f64" },
    { "max_pool2d:", "n2c0h9w9k3x3", "sizes of at least 1, but for n," },
    { "max_pool2d:", "n4611686018427387904c1h1w1k1x1", "an input below 2^63 bytes" },
    { "max_pool2d:", "n3037000500c3037000500h1w1k1x1", "an input below 2^63 bytes" },
    { "max_pool2d:n2c3h9w9", "k0x3", "a kernel of at least 1x1" },
    { "max_pool2d:n2c3h9w9k3x3", "s0x1", "a stride of at least 1x1" },
    { "max_pool2d:n2c3h9w9k3x3", "p3x1", "a padding smaller than the kernel with its dilation" },
    { "max_pool2d:n2c3h9w9k3x3s1x1", "p0x2x0x5d1x2",
      "a padding smaller than the kernel with its dilation" },
    { "max_pool2d:n2c3h9w9k3x3", "d1x0", "a dilation of at least 1x1" },
    { "max_pool2d:n2c3h9w9", "k10x3", "a kernel that fits the padded input" },
    { "max_pool2d:n2c3h9w9", "k3x3d5x1", "a kernel that fits the padded input" },
    { "max_pool2d:n2c3h9w9", "k9223372036854775807x1d2x1", "a kernel that fits the padded input" },
    { "avg_pool2d:n2c3h9w9k3x3", "d2x1", "no dilation, which only max_pool2d has" },
    { "avg_pool2d:n2c3h9w9k3x3_", "indices", "ceil, exclude, divisorN, dx, f32 or f64" },
    { "avg_pool2d:n2c3h9w9k3x3_divisor", "0", "a divisor of at least 1" },
    { "avg_pool2d:n2c3h9w9k3x3_divisor", "x", "a number" },
    { "avg_pool2d:n2c3h9w9k3x3_divisor5_", "divisor5", "ceil, exclude, dx, f32 or f64" },
    { "adaptive_avg_pool2d:n2c3h9w9", "k3x3", "'o'" },
    { "adaptive_avg_pool2d:n2c3h9w9", "o2147483648x3",
      "an output of at most 2147483647x2147483647" },
    { "adaptive_avg_pool2d:", "n4c1h9w9o2147483647x2147483647", "an output below 2^63 bytes" },
    { "adaptive_avg_pool2d:n2c3h9w9o3x3_f32_", "ceil", "dx" },
    { "matmul:b2m5n6", "", "'k'" },
    { "matmul:b", "xm5n6k7", "a number" },
    { "matmul:", "m2305843009213693952n1k1", "matrices below 2^63 bytes" },
    { "matmul:", "m0n1k9223372036854775807", "matrices below 2^63 bytes" },
    { "matmul:m1n1k1_relu_", "tanh", "ta, tb, onea, oneb, gaps, bias, residual, f32 or f64" },
    { "batch_norm2d:", "n1c3h1w1_train", "more than one value a channel in training" },
    { "batch_norm2d:", "n2c3h1w1_untracked", "running statistics outside training" },
    { "batch_norm2d:", "n2147483648c1h2147483648w1", "an input below 2^63 bytes" },
    { "batch_norm2d:n2c3h1w1_momentum0_", "momentum1",
      "train, plain, untracked, given, residual, eps0, relu, sigmoid, tanh, relu6, hardsigmoid, "
      "hardswish, silu, gelu, leaky_relu, dx, f32 or f64" },
    { "sum:8x", "", "a number" },
    { "sum:8x16", "y", "'x', '@', '_' or the end" },
    { "sum:8x16@", "2", "one of x's dimensions" },
    { "sum:8x16@", "-3", "one of x's dimensions" },
    { "sum:8x16@", "-0", "one of x's dimensions" },
    { "sum:8x16@1,", "1", "no dimension twice" },
    { "sum:8x16@1,", "-1", "no dimension twice" },
    { "sum:8x16@1,", "", "a number" },
    { "sum:8x16@1", ";", "'_' or the end" },
    { "sum:@", "1", "one of x's dimensions" },
    { "sum:1x1x1x1x1x1x1x1x", "1", "at most 8 dimensions" },
    { "sum:", "3037000500x3037000500", "an input below 2^63 bytes" },
    { "sum:", "4611686018427387904x0x4611686018427387904@0,2", "an input below 2^63 bytes" },
    { "mean:8_", "i32", "reversed, f32 or f64" },
    { "sum:8_f64_", "i32", "reversed" },
    { "max:", "8x0@1", "at least one element to reduce" },
    { "argmax:", "0_u8", "at least one element to reduce" },
    { "softmax:8x16", "", "'x' or '@'" },
    { "softmax:8x16@", "2", "one of x's dimensions" },
    { "softmax:8x16@1", ",0", "'_' or the end" },
    { "log_softmax:8@0_", "i64", "reversed, f32 or f64" },
    { "cross_entropy:", "", "dimensions with at least one class" },
    { "cross_entropy:8x0", "", "dimensions with at least one class" },
    { "cross_entropy:8x3_sum_", "none", "reversed, smooth, ignore, weighted, dx, f32 or f64" },
    { "max_pool2d:n2c3h9w9k3x3", "_indices_dx", "no indices, which a gradient always has" },
    { "max_pool2d:", "c3h9w9k3x3_dx", "'n'" },
    { "max_pool2d:n2c3h9w9k3x3_dx_", "dx", "ceil, indices, f32 or f64" },
    { "batch_norm2d:", "n2c3h9w9_train_momentum1_dx",
      "no words of a gradient but train, given, plain, residual, an activation, f32 and f64" },
    { "batch_norm2d:", "n2c3h9w9_eps0_dx",
      "no words of a gradient but train, given, plain, residual, an activation, f32 and f64" },
    { "batch_norm2d:", "n2c3h9w9_train_residual_dx",
      "an activation, without which the gradient of the residual is dy" },
    { "batch_norm2d:", "n2c3h9w9_given_dx", "given statistics in the gradient of training alone" },
    { "batch_norm2d:", "n2c3h9w9_train_given",
      "given statistics in the gradient of training alone" },
    { "group_norm:", "n2c4l9g2_relu_dx", "no words of a gradient but plain, f32 and f64" },
    { "group_norm:", "n2c4l9g2_eps0_dx", "no words of a gradient but plain, f32 and f64" },
    { "batch_norm2d:", "n1c3h1w1_train_dx", "more than one value a channel in training" },
    { "softmax:8x16@1_", "dx", "reversed, f32 or f64" },
    { "nll_loss:8x10_", "sum", "reversed, ignore, weighted, mean, dx, f32 or f64" },
    { "nll_loss:8x10", "_mean_dx", "a gradient that is not reversed or mean" },
    { "nll_loss:8x10", "_reversed_dx", "a gradient that is not reversed or mean" },
    { "nll_loss:8x0", "", "dimensions with at least one class" },
    { "nll_loss:", "3037000500x3037000500_dx", "an input below 2^63 bytes" },
    { "pad:", "", "at least one dimension" },
    { "pad:5x7", "p1000000000x0", "padding below 10^9" },
    { "pad:5x7p1x2x3", "", "'x'" },
    { "pad:5x7p1x2x3x4", "x1x1", "'_' or the end" },
    { "pad:", "5x7c4x4", "padding that leaves an extent of at least 0" },
    { "pad:", "5x7p7x0_reflect", "padding that the extent allows" },
    { "pad:", "5x7p8x0_circular", "padding that the extent allows" },
    { "pad:", "0x7p0x0x1x0_replicate", "padding that the extent allows" },
    { "pad:", "5x7c1x0_circular", "circular padding that cuts nothing off" },
    { "pad:", "2x3x5x7p0x0x0x0x0x0x1x0_reflect", "a mode that pads the last 3 dimensions" },
    { "pad:", "5x7_dx_i64", "elements of f32 or f64" },
    { "pad:", "3037000500x3037000500", "an input and an output below 2^63 bytes" },
    { "pad:5x7_", "bilinear", "reflect, replicate, circular, value, dx, f32, f64, i64, i32 or u8" },
    { "upsample2d:n2c3h5w7", "", "'o'" },
    { "upsample2d:", "n2c3h5w7o0x4", "an image and an output of at least 1x1" },
    { "upsample2d:", "n2c3h0w7o1x4", "an image and an output of at least 1x1" },
    { "upsample2d:n2c3h5w7", "f0x4", "a factor above 0, an output below 2^62" },
    { "upsample2d:", "n2c3h5w7f1x9", "an image and an output of at least 1x1" },
    { "upsample2d:", "n2c3h5w7o4x4_bilinear_i64", "elements of f32 or f64" },
    { "upsample2d:n2c3h5w7o4x4_bilinear_", "aligned",
      "half, pytorch, symmetric, asymmetric, corners, ceil, prefer_floor, prefer_ceil, keys, "
      "exclude, dx, f32, f64, i64, i32 or u8" },
    { "upsample2d:", "n2c3h5w7o4x4_aligned_half", "aligned and exact without other coordinates" },
    { "upsample2d:", "n2c3h5w7o4x4_bicubic_ceil", "rounding of nearest" },
    { "upsample2d:", "n2c3h5w7o4x4_bilinear_keys", "keys and exclude of bicubic" },
    { "upsample2d:", "n2c3h5w7o4x4_exclude", "keys and exclude of bicubic" },
    { "gather:", "@0i5", "at least one dimension" },
    { "gather:5x7", "", "'x' or '@'" },
    { "gather:5x7@", "2i5x7", "one of x's dimensions" },
    { "gather:5x7@1", "", "'i'" },
    { "gather:", "5x7@1i5", "an index of x's rank" },
    { "gather:", "5x7@1i6x7", "an index that is no larger than x in other dimensions" },
    { "gather:", "5x0@1i5x7", "at least one element to pick" },
    { "gather:", "5x7@1i5x7_reversed_dx", "a gradient that is not reversed, of f32 or f64" },
    { "gather:", "5x7@1i5x7_dx_i32", "a gradient that is not reversed, of f32 or f64" },
    { "index_select:", "5x7@1i5x7", "an index of one dimension" },
    { "var:", "7x5@1_large", "large elements of f64" },
    { "silu:5_", "i32", "reversed, dx, f32 or f64" },
    { "silu:", "3037000500x3037000500", "an input below 2^63 bytes" },
    { "adam:", "1152921504606846976", "fewer than 2^63 bytes" },
    { "adam:7_", "centered", "decay, decoupled, f32 or f64" },
    { "rmsprop:7_", "first", "momentum, centered, decay, f32 or f64" },
    { "sgd:7_", "decoupled", "momentum, nesterov, first, decay, f32 or f64" },
    { "index_select:", "3037000500x1@1i3037000500", "operands below 2^63 bytes" },
    { "add:3x5,", "4", "a shape that broadcasts with the first" },
    { "add:", "3037000500x3037000500", "operands and a result below 2^63 bytes" },
    { "add:", "3037000500x1,3037000500", "operands and a result below 2^63 bytes" },
    { "add:,", ",", "a number" },
    { "pow:3_", "i32", "scalar, reversed, f32 or f64" },
    { "where:3x5,", "4", "shapes that broadcast" },
    { "where:", "3037000500x3037000500", "operands and a result below 2^63 bytes" },
    { "neg:", "3_dx_u8", "a gradient of f32 or f64" },
    { "cumsum:5x7", "", "'x' or '@'" },
    { "cumsum:5x7@1_", "i32", "reversed, dx, f32 or f64" },
    { "cumsum:", "3037000500x3037000500@0", "an input below 2^63 bytes" },
    { "cumprod:5x7@1_", "u8", "reversed, dx, f32 or f64" },
    { "cumprod:", "3037000500x3037000500@0_dx", "an input below 2^63 bytes" },
    { "cumprod:", "5x7@1_reversed_dx", "a gradient that is not reversed" },
};

Test(check_families, one_number_stands_for_both_axes)
{
    static const char *const rows[][2] = {
        { "n1c2h9w9o3k3s2p1d2", "n1c2h9w9o3k3x3s2x2p1x1d2x2g1" },
        { "n1c2h9w9o3k3s2_dx", "n1c2h9w9o3k3x3s2x2p0x0d1x1g1_dx" },
        { "max_pool2d:n1c2h9w9k3s2p1d2", "max_pool2d:n1c2h9w9k3x3s2x2p1x1d2x2" },
        { "max_pool2d:n1c2h9w9k3_dx", "max_pool2d:n1c2h9w9k3x3s3x3p0x0d1x1_dx" },
        { "avg_pool2d:n1c2h9w9k3p1", "avg_pool2d:n1c2h9w9k3x3s3x3p1x1" },
        { "adaptive_avg_pool2d:n1c2h9w9o2", "adaptive_avg_pool2d:n1c2h9w9o2x2" },
        { "upsample2d:n1c2h3w4o5_bilinear", "upsample2d:n1c2h3w4o5x5_bilinear" },
        { "upsample2d:n1c2h3w4f2", "upsample2d:n1c2h3w4f2x1" },
        { "pad:5x7p1_reflect", "pad:5x7p1x1x1x1_reflect" },
        { "pad:3x5x7p2c1x0", "pad:3x5x7p1x2x2x2" },
        { "pad:7p2", "pad:7p2x2" },
    };
    char text[TALC_CHECK_TEXT];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cr_assert(talc_check_problem_text(rows[i][0], text) != NULL, "%s", talc_error_message());
        cr_expect(strcmp(text, rows[i][1]) == 0, "%s: %s", rows[i][0], text);
    }
}

Test(check_families, mistakes_are_shown_with_their_place)
{
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        char text[200], message[400];
        check_problem problem;
        snprintf(text, sizeof text, "%s%s", mistakes[i].before, mistakes[i].after);
        snprintf(message, sizeof message, "%.*s: problem '%s': expected %s at position %zu",
                 (int)strcspn(text, ":"), text, text, mistakes[i].wanted,
                 strlen(mistakes[i].before));
        cr_assert(talc_check_parse(text, &problem) == NULL, "%s was read", text);
        assert_failure(TALC_BAD_ARGUMENT, message);
    }
    check_problem problem;
    cr_assert(talc_check_parse("min_pool2d:n1", &problem) == NULL);
    assert_failure(TALC_NOT_FOUND,
                   "check: problem 'min_pool2d:n1': there is no op 'min_pool2d' at position 0");
}

Test(check_families, long_texts_are_cut_in_messages)
{
    char text[300] = "sum:";
    check_problem problem;
    memset(text + 4, '1', 250);
    cr_assert(talc_check_parse(text, &problem) == NULL);
    char message[300];
    snprintf(message, sizeof message,
             "sum: problem '%.98s...%.98s': expected a number below 2^63 at position 4", text,
             text + 150);
    assert_failure(TALC_BAD_ARGUMENT, message);
}

Test(check_families, the_longest_texts_fit)
{
    static const char *const texts[] = {
        "avg_pool2d:n0c9223372036854775807h1w1k9223372036854775807x9223372036854775807"
        "s9223372036854775807x9223372036854775807p4611686018427387903x4611686018427387903"
        "_ceil_exclude_divisor9223372036854775807_f64",
        "argmax:1x1x1x1x1x1x1x100000000000000000@0,1,2,3,4,5,6_reversed",
        "pad:0x2305843009213693951x2305843009213693951x2305843009213693951x2305843009213693951"
        "x2305843009213693951x2305843009213693951x2305843009213693951p999999999x0x999999999x0"
        "x999999999x0x999999999x0x999999999x0x999999999x0x999999999x0x999999999x0c0x999999999"
        "x0x999999999x0x999999999x0x999999999x0x999999999x0x999999999x0x999999999x0x999999999"
        "_value_f64",
    };
    for (int i = 0; i < 3; i++) {
        check_problem problem;
        assert_prints(parsed(texts[i], &problem), &problem, texts[i]);
    }
}

Test(check_families, random_problems_are_problems_and_the_same_each_time)
{
    const check_direction *direction;
    for (int d = 0; (direction = next(&d)) != NULL;)
        for (uint64_t seed = 0; seed < SEEDS; seed++) {
            check_problem problem, again;
            char text[TALC_CHECK_TEXT];
            talc_check_random(direction, seed, &problem);
            talc_check_random(direction, seed, &again);
            cr_assert(memcmp(&problem, &again, sizeof again) == 0);
            assert_no_failure();
            assert_prints(direction, &problem, talc_check_write(direction, &problem, text));
        }
}

/* Every op and every word turns up. */
Test(check_families, random_problems_are_of_all_sorts)
{
    static const struct {
        const char *op, *words[26];
    } rows[] = {
        { "max_pool2d",
          { "max_pool2d", "avg_pool2d", "adaptive", "_ceil", "_exclude", "_divisor", "_indices",
            "_f64", "d2x", "d3x", "p0x0" } },
        { "matmul",
          { "matmul:b1", "matmul:b5", "_ta", "_tb", "_onea", "_oneb", "_gaps", "_bias", "_residual",
            "_relu", "_sigmoid", "_tanh", "_f64", "k0" } },
        { "batch_norm2d",
          { "_train", "_plain", "_untracked", "_eps0", "_momentum0", "_momentum1", "_relu",
            "_sigmoid", "_tanh", "_f64", "h1w1" } },
        { "sum",
          { "sum:", "mean:", "argmax:", "@0", "@1", "0,1", "_reversed", "_f64", "_i64", "_i32",
            "_u8", "1,3" } },
        { "softmax",
          { "log_softmax:@", "log_softmax:", "@0", "@1", "@2", "@3", "_reversed", "_f64", "1x1" } },
        { "cross_entropy", { "_reversed", "_sum", "_none", "_smooth", "_ignore", "_f64", "x1" } },
        { "nll_loss", { "_reversed", "_ignore", "_weighted", "_mean", "_f64", "x1" } },
        { "max_pool2d.grad_input",
          { "max_pool2d", "avg_pool2d", "adaptive", "_ceil", "_exclude", "_divisor", "_f64", "d2x",
            "p0x0" } },
        { "batch_norm2d.grad_input",
          { "_train", "_given", "_train_dx", "_plain", "_f64", "h1w1" } },
        { "cross_entropy.grad_input",
          { "_reversed", "_sum", "_none", "_smooth", "_ignore", "_weighted", "_f64" } },
        { "nll_loss.grad_input", { "_ignore", "_weighted", "_f64" } },
        { "group_norm",
          { "l1g", "l260", "g1_", "g4", "_plain", "_eps0", "_relu", "_sigmoid", "_tanh", "_f64" } },
        { "pad", { "pad:",          "upsample2d:",  "_reflect",    "_replicate", "_circular",
                   "_value",        "_bilinear",    "_bicubic",    "_aligned",   "_half",
                   "_pytorch",      "_symmetric",   "_asymmetric", "_corners",   "_ceil",
                   "_prefer_floor", "_prefer_ceil", "_keys",       "_exclude",   "f7x",
                   "p1x",           "c1x",          "_f64",        "_i64",       "_u8" } },
        { "pad.grad_input",
          { "pad:", "upsample2d:", "_reflect", "_replicate", "_circular", "_bilinear", "_aligned",
            "_bicubic", "_half", "_symmetric", "_corners", "_prefer_floor", "_exclude", "f7x",
            "p1x", "c1x", "_f64" } },
        { "gather",
          { "index_select:", "gather:", "@0", "@1", "@3", "i65", "_reversed", "_f64", "_i32" } },
        { "gather.grad_input", { "index_select:", "gather:", "@0", "@1", "@3", "i65", "_f64" } },
        { "group_norm.grad_input", { "l1g", "l260", "g1_", "g4", "_plain", "_f64" } },
        { "relu", { "relu:", "silu:", "softplus:", "sign:", "_reversed", "_f64" } },
        { "relu.grad_input",
          { "relu:", "silu:", "softplus:", "sign:", "_reversed_dx", "_dx_f64" } },
        { "sgd",
          { "sgd:", "adam:", "rmsprop:", "_momentum", "_nesterov", "_first", "_centered", "_decay",
            "_decoupled", "_f64" } },
        { "add",
          { "add:", "div:", "greater_equal:", ",1_", "_scalar", "_reversed", "_f64", "_i64",
            "_u8" } },
        { "where", { ",1_", "_reversed", "_f64", "_i32" } },
        { "cumsum", { "@0", "@1", "@3", "_reversed", "_f64" } },
        { "cumsum.grad_input", { "@0", "@1", "@3", "_reversed_dx", "_dx_f64" } },
        { "cumprod", { "@0", "@1", "@3", "_reversed", "_f64" } },
        { "cumprod.grad_input", { "@0", "@1", "@3", "_dx_f64" } },
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        for (int w = 0; w < 26 && rows[r].words[w] != NULL; w++) {
            const check_direction *direction = direction_of(rows[r].op);
            int found = 0;
            for (uint64_t seed = 0; seed < SEEDS; seed++) {
                check_problem problem;
                char text[TALC_CHECK_TEXT];
                talc_check_random(direction, seed, &problem);
                found +=
                    strstr(talc_check_write(direction, &problem, text), rows[r].words[w]) != NULL;
            }
            cr_assert(found > 0 && found < SEEDS, "%s: %s in %d of %d problems", rows[r].op,
                      rows[r].words[w], found, SEEDS);
        }
}

/* No product leaves the numbers of its type on the way: each result is held to its bound. */
Test(check_families, products_stay_in_range)
{
    const check_direction *const both[] = { &talc_check_cumprod, talc_check_cumprod.gradient };
    for (uint64_t seed = 0; seed < 2 * SEEDS; seed++) {
        const check_direction *direction = both[seed % 2];
        check_problem problem;
        check_operand list[CHECK_OPERANDS];
        check_values values;
        talc_check_random(direction, seed, &problem);
        talc_check_operands(direction, &problem, list);
        cr_assert(talc_check_values_new(direction, &problem, &values));
        for (talc_check_kind kind = TALC_CHECK_EXACT; kind <= TALC_CHECK_TINY; kind++) {
            direction->fill(&problem, kind, seed, &values);
            for (int i = 0; i < CHECK_OPERANDS; i++)
                for (int64_t e = 0; list[i].role == CHECK_WRITTEN && e < list[i].count; e++) {
                    const check_expected expected = direction->expected(&problem, &values, i, e);
                    cr_assert(!expected.any && isfinite(expected.value));
                }
        }
        talc_check_values_free(&values);
    }
}

/* The op counts windows by its own formula. */
Test(check_families, pooling_has_as_many_outputs_as_the_op_gives)
{
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        check_problem problem;
        check_operand list[CHECK_OPERANDS];
        char text[TALC_CHECK_TEXT];
        talc_check_random(&talc_check_pool2d, seed, &problem);
        talc_check_operands(&talc_check_pool2d, &problem, list);
        talc_check_write(&talc_check_pool2d, &problem, text);
        const talc_pool2d_problem *p = &read_only(&problem)->p;
        if (talc_pool2d_is_adaptive(p))
            continue;
        const talc_pool2d_options options = {
            .kernel = { p->KH, p->KW },
            .stride = { p->stride_h, p->stride_w },
            .padding = { p->pad_top, p->pad_left },
            .padding_end = { p->pad_bottom == 0 ? TALC_ZERO : p->pad_bottom,
                             p->pad_right == 0 ? TALC_ZERO : p->pad_right },
            .dilation = { p->dilation_h, p->dilation_w },
            .ceil_mode = strstr(text, "_ceil") != NULL
        };
        talc_tensor *x =
            talc_zeros(cpu_device(), TALC_F32, TALC_DIMS(1, 1, list[0].dims[2], list[0].dims[3]));
        talc_tensor *y = talc_max_pool2d(x, &options);
        assert_no_failure();
        cr_assert(talc_dims_of(y).dim[2] == list[1].dims[2] &&
                      talc_dims_of(y).dim[3] == list[1].dims[3],
                  "%s: the op gives another shape", text);
        talc_release(y);
        talc_release(x);
    }
}

// ---- Operands and data --------------------------------------------------------------------------

static void assert_operands(const char *text, const char *expected)
{
    check_problem problem;
    check_operand list[CHECK_OPERANDS];
    const check_direction *direction = parsed(text, &problem);
    char got[400] = "";
    talc_check_operands(direction, &problem, list);
    for (int i = 0; i < CHECK_OPERANDS; i++) {
        int64_t product = 1;
        if (list[i].role == CHECK_ABSENT)
            continue;
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%s%c[", i == 0 ? "" : " ",
                 list[i].name, " rwu"[list[i].role]);
        for (int d = 0; d < list[i].rank; d++) {
            product *= list[i].dims[d];
            snprintf(got + strlen(got), sizeof got - strlen(got), "%s%d", d == 0 ? "" : ",",
                     (int)list[i].dims[d]);
        }
        snprintf(got + strlen(got), sizeof got - strlen(got), "]%s",
                 talc_dtype_name(list[i].dtype));
        cr_assert(product == list[i].count, "%s: %s counts wrong", text, list[i].name);
    }
    cr_assert(strcmp(got, expected) == 0, "%s: %s", text, got);
}

Test(check_families, operands_have_their_shapes)
{
    assert_operands("max_pool2d:n2c3h9w8k3x2_indices_f64",
                    "xr[2,3,9,8]f64 yw[2,3,3,4]f64 indicesw[2,3,3,4]i64");
    assert_operands("adaptive_avg_pool2d:n2c3h9w8o5x6", "xr[2,3,9,8]f32 yw[2,3,5,6]f32");
    assert_operands("matmul:b4m5n6k7_ta_gaps_oneb_bias_residual",
                    "ar[4,7,8]f32 br[1,7,9]f32 biasr[6]f32 residualr[4,5,6]f32 yw[4,5,6]f32");
    assert_operands("matmul:b4m5n6k7_tb_onea_residual",
                    "ar[1,5,7]f32 br[4,6,7]f32 residualr[4,5,6]f32 yw[4,5,6]f32");
    assert_operands("batch_norm2d:n2c3h4w5_train_f64",
                    "xr[2,3,4,5]f64 weightr[3]f64 biasr[3]f64 running_meanu[3]f64 "
                    "running_varu[3]f64 num_batches_trackedu[]i64 yw[2,3,4,5]f64 meanw[3]f64 "
                    "rstdw[3]f64");
    assert_operands("batch_norm2d:n2c3h4w5_plain_residual",
                    "xr[2,3,4,5]f32 running_meanr[3]f32 running_varr[3]f32 residualr[2,3,4,5]f32 "
                    "yw[2,3,4,5]f32");
    assert_operands("batch_norm2d:n2c3h4w5_plain",
                    "xr[2,3,4,5]f32 running_meanr[3]f32 running_varr[3]f32 yw[2,3,4,5]f32");
    assert_operands("batch_norm2d:n2c3h4w5_plain_untracked_train",
                    "xr[2,3,4,5]f32 yw[2,3,4,5]f32 meanw[3]f64 rstdw[3]f64");
    assert_operands("sum:2x3x4@1_u8", "xr[2,3,4]u8 yw[2,4]i64");
    assert_operands("mean:2x3x4@0,-1_reversed_f64", "xr[4,3,2]f64 yw[3]f64");
    assert_operands("max:2x3_i32", "xr[2,3]i32 yw[]i32");
    assert_operands("argmax:2x3@0_f64", "xr[2,3]f64 yw[3]i64");
    assert_operands("softmax:2x3@0_reversed", "xr[3,2]f32 yw[2,3]f32");
    assert_operands("cross_entropy:2x3x4_f64", "xr[2,3,4]f64 labelsr[2,4]i64 yw[]f64");
    assert_operands("cross_entropy:2x3x4_none_reversed", "xr[4,3,2]f32 labelsr[2,4]i64 yw[2,4]f32");
    assert_operands("cross_entropy:2x3_weighted",
                    "xr[2,3]f32 labelsr[2]i64 class_weightsr[3]f32 yw[]f32");
    assert_operands("cross_entropy:5_none", "xr[5]f32 labelsr[]i64 yw[]f32");
    assert_operands("max_pool2d:n2c3h9w8k3x2_dx",
                    "dyr[2,3,3,4]f32 indicesr[2,3,3,4]i64 dxw[2,3,9,8]f32");
    assert_operands("avg_pool2d:n2c3h9w8k3x2_dx_f64", "dyr[2,3,3,4]f64 dxw[2,3,9,8]f64");
    assert_operands("batch_norm2d:n2c3h4w5_dx",
                    "xr[2,3,4,5]f32 weightr[3]f32 meanr[3]f64 rstdr[3]f64 dyr[2,3,4,5]f32 "
                    "dxw[2,3,4,5]f32 dweightw[3]f32 dbiasw[3]f32");
    assert_operands("batch_norm2d:n2c3h4w5_plain_residual_tanh_dx",
                    "xr[2,3,4,5]f32 meanr[3]f64 rstdr[3]f64 dyr[2,3,4,5]f32 yr[2,3,4,5]f32 "
                    "dxw[2,3,4,5]f32 dweightw[3]f32 dbiasw[3]f32 dresidualw[2,3,4,5]f32");
    assert_operands("batch_norm2d:n2c3h4w5_train_plain_dx",
                    "xr[2,3,4,5]f32 meanw[3]f64 rstdw[3]f64 dyr[2,3,4,5]f32 dxw[2,3,4,5]f32 "
                    "dweightw[3]f32 dbiasw[3]f32");
    assert_operands("group_norm:n2c4l5g2_dx",
                    "xr[2,4,5]f32 weightr[4]f32 dyr[2,4,5]f32 dxw[2,4,5]f32 dweightw[4]f32 "
                    "dbiasw[4]f32 meanw[4]f64 rstdw[4]f64");
    assert_operands("cross_entropy:2x3x4_reversed_weighted_dx",
                    "xr[4,3,2]f32 labelsr[2,4]i64 class_weightsr[3]f32 dyr[]f32 dxw[4,3,2]f32");
    assert_operands("cross_entropy:2x3x4_none_dx",
                    "xr[2,3,4]f32 labelsr[2,4]i64 dyr[2,4]f32 dxw[2,3,4]f32");
    assert_operands("nll_loss:2x3x4_reversed_weighted_mean",
                    "xr[4,3,2]f32 labelsr[2,4]i64 weightr[3]f32 lossesw[2,4]f32 weightsw[2,4]f32");
    assert_operands("silu:2x3_reversed", "xr[3,2]f32 yw[2,3]f32");
    assert_operands("silu:2x3_reversed_dx_f64", "xr[3,2]f64 dyr[2,3]f64 dxw[2,3]f64");
    assert_operands("tanh:_dx", "yr[]f32 dyr[]f32 dxw[]f32");
    assert_operands("add:2x3,3_reversed_i32", "ar[3,2]i32 br[3]i32 yw[2,3]i32");
    assert_operands("less:2,3x1_scalar", "ar[2]f32 yw[2]f32");
    assert_operands("where:2x3,3,2x1_f64", "conditionr[2,3]u8 ar[3]f64 br[2,1]f64 yw[2,3]f64");
    assert_operands("cumsum:2x3@0_reversed_dx", "dyr[3,2]f32 dxw[2,3]f32");
    assert_operands("cumprod:2x3@0_reversed", "xr[3,2]f32 yw[2,3]f32");
    assert_operands("cumprod:2x3@0_dx_f64", "xr[2,3]f64 dyr[2,3]f64 dxw[2,3]f64");
    assert_operands("sgd:7", "pu[7]f32 gr[7]f32");
    assert_operands("adam:7_f64", "pu[7]f64 gr[7]f64 stateu[7]f64 second stateu[7]f64");
    assert_operands("nll_loss:2x3x4_dx", " labelsr[2,4]i64 dyr[2,4]f32 dxw[2,3,4]f32");
}

static bool holds(talc_dtype dtype, double value)
{
    return dtype == TALC_F32   ? (double)(float)value == value
           : dtype == TALC_I32 ? value == (double)(int32_t)value
           : dtype == TALC_U8  ? value == (double)(uint8_t)value
                               : true;
}

/* What is read holds elements of its type; exact data have results that the type holds, from sums
 * below 2^24 or 2^53. */
Test(check_families, exact_data_have_exact_results)
{
    /* How many of the seeds have exact data, at least; 0: none has. */
    static const struct {
        const char *op;
        int min;
    } rows[] = {
        { "max_pool2d", SEEDS / 8 + 1 },
        { "max_pool2d.grad_input", SEEDS / 8 + 1 },
        { "matmul", SEEDS / 4 },
        { "batch_norm2d", SEEDS / 16 + 1 },
        { "batch_norm2d.grad_input", SEEDS / 8 + 1 },
        { "sum", SEEDS / 8 + 1 },
        { "softmax", 0 },
        { "cross_entropy", 0 },
        { "cross_entropy.grad_input", 0 },
        { "nll_loss", SEEDS / 4 },
        { "nll_loss.grad_input", SEEDS / 4 },
        { "pad", SEEDS / 8 + 1 },
        { "pad.grad_input", SEEDS / 16 + 1 },
        { "gather", SEEDS / 4 },
        { "gather.grad_input", SEEDS / 4 },
    };
    const check_direction *direction;
    for (int d = 0; (direction = next(&d)) != NULL;) {
        int exact = 0;
        for (uint64_t seed = 0; seed < SEEDS / 4; seed++) {
            check_problem problem;
            check_operand list[CHECK_OPERANDS];
            check_values values;
            char text[TALC_CHECK_TEXT];
            talc_check_random(direction, seed, &problem);
            talc_check_write(direction, &problem, text);
            talc_check_operands(direction, &problem, list);
            const bool curved = strstr(text, "sigmoid") != NULL || strstr(text, "tanh") != NULL ||
                                strstr(text, "hardswish") != NULL || strstr(text, "silu") != NULL ||
                                strstr(text, "gelu") != NULL || strstr(text, "leaky") != NULL;
            cr_assert(talc_check_values_new(direction, &problem, &values));
            for (talc_check_kind kind = TALC_CHECK_EXACT; kind <= TALC_CHECK_TINY; kind++) {
                if (!direction->takes(&problem, kind))
                    continue;
                direction->fill(&problem, kind, seed, &values);
                exact += kind == TALC_CHECK_EXACT;
                for (int i = 0; i < CHECK_OPERANDS; i++)
                    for (int64_t e = 0; e < list[i].count; e++) {
                        if (list[i].role != CHECK_WRITTEN)
                            cr_assert(holds(list[i].dtype, values.of[i][e]), "%s: %s holds %g",
                                      text, list[i].name, values.of[i][e]);
                        if (list[i].role == CHECK_READ || kind != TALC_CHECK_EXACT || curved)
                            continue;
                        const check_expected expected =
                            direction->expected(&problem, &values, i, e);
                        cr_assert(
                            holds(list[i].dtype, (double)expected.value) && expected.extra == 0 &&
                                expected.S * 0x1p8 < (list[i].dtype == TALC_F32 ? 0x1p32 : 0x1p61),
                            "%s: %s is %Lg", text, list[i].name, expected.value);
                    }
            }
            talc_check_values_free(&values);
        }
        for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
            if (strcmp(direction->ops[0], rows[r].op) == 0)
                cr_assert(rows[r].min == 0 ? exact == 0 : exact >= rows[r].min,
                          "%s: %d of %d problems have exact data", rows[r].op, exact, SEEDS / 4);
    }
}

// ---- Algorithms ---------------------------------------------------------------------------------

/* Whether the op ran, or the algorithm; NULL stands for any. */
static bool ran(const talc_check *check, const char *op, const talc_algorithm *algorithm)
{
    for (int i = 0; i < talc_check_summary_count(check); i++) {
        const talc_check_summary *summary = talc_check_summary_at(check, i);
        if (summary->problems > 0 && (op == NULL || strcmp(summary->op, op) == 0) &&
            (algorithm == NULL ||
             (strcmp(summary->name, algorithm->name) == 0 && summary->form == algorithm->form)))
            return true;
    }
    return false;
}

Test(check_families, the_algorithms_of_the_cpu_pass)
{
    owned_check *check = talc_check_new(NULL);
    const check_direction *direction;
    for (int d = 0; (direction = next(&d)) != NULL;) {
        int ops = 0;
        while (direction->ops[ops] != NULL)
            ops++;
        for (int seed = 0; seed < 100 || seed < 20 * ops; seed++) {
            check_problem problem;
            char text[TALC_CHECK_TEXT];
            talc_check_random(direction, (uint64_t)seed, &problem);
            talc_check_write(direction, &problem, text);
            cr_assert(talc_check_problem(check, text), "%s: %s", text, talc_error_message());
        }
    }
    for (int i = 0; i < talc_check_failure_count(check); i++)
        cr_log_error("%s %s: %s", talc_check_failure_at(check, i)->problem,
                     talc_check_failure_at(check, i)->algorithm,
                     talc_check_failure_at(check, i)->reason);
    cr_assert(talc_check_passed(check));
    for (int d = 0; (direction = next(&d)) != NULL;) {
        for (int i = 0; direction->ops[i] != NULL; i++)
            cr_assert(ran(check, direction->ops[i], NULL), "%s did not run", direction->ops[i]);
        const talc_algorithm *algorithm;
        for (int i = 0;
             (algorithm = talc_check_algorithm_at(direction, talc_device_get("cpu"), i)) != NULL;
             i++)
            cr_assert(ran(check, NULL, algorithm), "%s of %s did not run", algorithm->name,
                      direction->ops[0]);
    }
}

PLAN(never, "it never does", )

static talc_status not_run(talc_device *device, const void *problem, const talc_plan *plan,
                           const void *arguments)
{
    (void)device, (void)problem, (void)plan, (void)arguments;
    return TALC_UNSUPPORTED;
}

/* An algorithm beyond those that a problem can be checked with is not left out without a word. */
Test(check_families, too_many_algorithms_are_a_failure)
{
    enum { MAX = 32 };
    talc_algorithm algorithms[MAX + 2] = { { .name = NULL } };
    talc_device device = *cpu_device();
    struct talc_backend backend = *device.backend;
    backend.algorithms[TALC_OP_conv2d] = algorithms;
    device.backend = &backend;
    for (int i = 0; i < MAX + 1; i++) {
        algorithms[i].name = i < 2 ? "first" : "other";
        algorithms[i].plan = never;
        algorithms[i].run = not_run;
    }
    owned_check *check = talc_check_new(&(talc_check_options){ .device = &device });
    cr_assert(!talc_check_problem(check, "n1c1h3w3o1k2x2"));
    cr_assert(talc_error_status() == TALC_UNSUPPORTED);
    cr_assert_str_eq(talc_error_message(),
                     "check: conv2d has more than 32 algorithms to check on cpu");
    talc_error_clear();
    talc_check_free(check);

    check = talc_check_new(&(talc_check_options){ .device = &device, .algorithm = "other" });
    cr_assert(talc_check_problem(check, "n1c1h3w3o1k2x2"));
    cr_assert(talc_check_summary_count(check) == 1);
    cr_assert(talc_check_summary_at(check, 0)->refused == MAX - 1);
    talc_check_free(check);

    algorithms[MAX].name = NULL;
    check = talc_check_new(&(talc_check_options){ .device = &device });
    cr_assert(talc_check_problem(check, "n1c1h3w3o1k2x2"), "%s", talc_error_message());
    cr_assert(talc_check_summary_count(check) == 2);
}

/* The op gives an empty result, or that of no elements, without any algorithm. */
Test(check_families, empty_problems_reach_no_algorithm)
{
    static const char *const texts[] = {
        "max_pool2d:n0c3h9w9k3x3",
        "adaptive_avg_pool2d:n1c1h1w1o0x4",
        "matmul:b0m5n6k7",
        "matmul:b1m0n6k7",
        "matmul:b1m5n0k7",
        "batch_norm2d:n2c0h3w3",
        "batch_norm2d:n0c2h3w3",
        "sum:0x3@1",
        "mean:3x0@1",
        "softmax:3x0@1",
        "log_softmax:0x3@1",
        "cross_entropy:0x3",
        "batch_norm2d:n1c2h3w0",
        "max_pool2d:n0c3h9w9k3x3_dx",
        "adaptive_avg_pool2d:n1c1h1w1o0x4_dx",
        "batch_norm2d:n2c0h3w3_dx",
        "batch_norm2d:n0c2h3w3_dx",
        "cross_entropy:0x3_dx",
        "nll_loss:0x3",
        "nll_loss:0x3_dx",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        check_problem problem;
        const check_direction *direction = parsed(texts[i], &problem);
        const talc_algorithm *algorithm;
        talc_plan plan;
        int algorithms = 0;
        for (; (algorithm = talc_check_algorithm_at(direction, cpu_device(), algorithms)) != NULL;
             algorithms++)
            cr_assert(talc_check_plan(direction, algorithm, cpu_device(), &problem, SIZE_MAX,
                                      &plan) != NULL,
                      "%s: %s takes it", texts[i], algorithm->name);
        const int expected = strstr(texts[i], "nll") != NULL      ? 1
                             : strstr(texts[i], "matmul") != NULL ? 3
                                                                  : 2;
        cr_assert(algorithms == expected &&
                  talc_check_algorithm_at(direction, cpu_device(), algorithms + 5) == NULL);
    }
}
