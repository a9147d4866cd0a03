/* The oracles of the families beside conv2d against values by hand: what is due, and how much room
 * it has. */
#include "check/engine/bound.h"
#include "check/engine/verdict.h"
#include "tests/support/problem_data.h"

#include <math.h>

static const double u = 0x1p-24;

// ---- By hand ------------------------------------------------------------------------------------

/* What `operand` must be when those that are read or updated hold `inputs`, one after the other. */
typedef struct by_hand {
    const char *problem;
    double inputs[40];
    int operand;
    double expected[16];
} by_hand;

static problem_data read_problem_with(const char *text, const double *inputs)
{
    problem_data self = read_problem(text);
    for (int i = 0; i < CHECK_OPERANDS; i++)
        for (int64_t e = 0; self.list[i].role != CHECK_WRITTEN && e < self.list[i].count; e++)
            self.values.of[i][e] = *inputs++;
    return self;
}

static const by_hand cases[] = {
    /* Windows of rows -1, 0 to 2, 3; of two equal maxima the first. */
    { "max_pool2d:n1c1h3w4k2x2s1x2p1x0_indices",
      { 1, 5, 2, 0, 3, 5, -1, 4, -7, 2, 8, 8 },
      1,
      { 5, 2, 5, 4, 5, 8, 2, 8 } },
    { "max_pool2d:n1c1h3w4k2x2s1x2p1x0_indices",
      { 1, 5, 2, 0, 3, 5, -1, 4, -7, 2, 8, 8 },
      2,
      { 1, 2, 1, 7, 5, 10, 9, 10 } },
    { "max_pool2d:n1c2h1w2k1x2_indices", { -3, -1, 7, 2 }, 2, { 1, 0 } },
    { "max_pool2d:n1c1h1w6k1x2s1x1d1x3_indices", { 1, 2, 3, 4, 0, 0 }, 2, { 3, 1, 2 } },
    { "max_pool2d:n1c1h6w1k2x1s1x1d3x1_indices", { 1, 2, 3, 4, 0, 0 }, 2, { 3, 1, 2 } },
    { "max_pool2d:n1c1h1w3k1x4s1x1p0x2", { 1, 2, 9 }, 1, { 2, 9, 9, 9 } },
    /* Of several NaN the last; a window between two padded taps holds nothing. */
    { "max_pool2d:n1c1h1w4k1x3s1x1_indices", { NAN, 1, NAN, 2 }, 1, { NAN, NAN } },
    { "max_pool2d:n1c1h1w4k1x3s1x1_indices", { NAN, 1, NAN, 2 }, 2, { 2, 2 } },
    { "max_pool2d:n1c1h1w4k1x2_indices", { NAN, 1, 1, 2 }, 2, { 0, 3 } },
    { "max_pool2d:n1c1h1w1k2x2s1x1p1x1d2x2_indices", { 3 }, 1, { -INFINITY } },
    { "max_pool2d:n1c1h1w1k2x2s1x1p1x1d2x2_indices", { 3 }, 2, { -1 } },
    { "max_pool2d:n1c1h1w2k1x2_indices", { -INFINITY, -INFINITY }, 2, { 0 } },
    { "avg_pool2d:n1c1h2w3k2x2s1x1p1x1",
      { 6, 12, 18, 2, 4, 8 },
      1,
      { 1.5, 4.5, 7.5, 4.5, 2, 6, 10.5, 6.5, 0.5, 1.5, 3, 2 } },
    { "avg_pool2d:n1c1h2w3k2x2s1x1p1x1_exclude",
      { 6, 12, 18, 2, 4, 8 },
      1,
      { 6, 9, 15, 18, 4, 6, 10.5, 13, 2, 3, 6, 8 } },
    { "avg_pool2d:n1c1h2w1k2x1s1x1p0x0x1x0", { 6, 12 }, 1, { 9, 6 } },
    { "avg_pool2d:n1c1h1w2k1x2s1x1p0x0x0x1", { 6, 12 }, 1, { 9, 6 } },
    { "avg_pool2d:n1c1h2w3k2x2_ceil", { 6, 12, 18, 2, 4, 8 }, 1, { 6, 13 } },
    { "avg_pool2d:n1c1h2w3k2x2_ceil_divisor8", { 6, 12, 18, 2, 4, 8 }, 1, { 3, 3.25 } },
    /* The last window reaches one column into the padding and one past it. */
    { "avg_pool2d:n1c1h1w2k1x3s1x2p0x1_ceil", { 6, 12 }, 1, { 6, 6 } },
    { "avg_pool2d:n1c1h1w3k1x3s1x3p0x1_ceil", { 6, 12, 9 }, 1, { 6, 4.5 } },
    /* Most taps of a large kernel are padding; walking them all would take years. */
    { "avg_pool2d:n1c1h1w2k1x4000000000000000001s1x1p0x2000000000000000000_exclude",
      { 6, 12 },
      1,
      { 9, 9 } },
    { "max_pool2d:n1c1h1w2k1x4000000000000000000s1x1p0x2000000000000000000",
      { 6, 12 },
      1,
      { 12, 12, 12 } },
    { "adaptive_avg_pool2d:n1c1h1w5o1x3", { 1, 2, 3, 4, 5 }, 1, { 1.5, 3, 4.5 } },
    { "adaptive_avg_pool2d:n1c1h2w1o3x1", { 4, 8 }, 1, { 4, 6, 8 } },
    { "matmul:m2n2k3", { 1, 2, 3, 4, 5, 6, 1, 0, 0, 1, 1, -1 }, 4, { 4, -1, 10, -1 } },
    { "matmul:m2n2k3_ta_tb", { 1, 4, 2, 5, 3, 6, 1, 0, 1, 0, 1, -1 }, 4, { 4, -1, 10, -1 } },
    { "matmul:m2n2k3_bias_residual_relu",
      { 1, 2, 3, 4, 5, 6, 1, 0, 0, 1, 1, -1, 10, -20, 1, 2, 3, 40 },
      4,
      { 15, 0, 23, 19 } },
    { "matmul:b2m1n1k2_oneb", { 1, 2, 3, 4, 10, 1 }, 4, { 12, 34 } },
    { "matmul:b2m1n1k2_onea", { 1, 2, 3, 4, 10, 1 }, 4, { 11, 12 } },
    { "matmul:m1n2k1_gaps", { 2, 9, 9, 9, 3, 4, 9, 9, 9 }, 4, { 6, 8 } },
    { "matmul:m1n2k0_bias", { 0, 3, 4 }, 4, { 3, 4 } },
    { "matmul:m1n2k1_relu", { INFINITY, -1, 1 }, 4, { 0, INFINITY } },
    { "matmul:m1n2k1_sigmoid", { INFINITY, -1, 1 }, 4, { 0, 1 } },
    { "batch_norm2d:n1c1h1w2", { 3, 5, 2, 1, 1, 1 - 0x1p-17 }, 7, { 5, 9 } },
    { "batch_norm2d:n1c2h1w1_plain_eps0_relu", { 3, 5, 1, 9, 4, 4 }, 7, { 1, 0 } },
    { "batch_norm2d:n1c2h2w1_plain_eps0", { 1, 2, 3, 4, 0, 1, 1, 4 }, 7, { 1, 2, 1, 1.5 } },
    { "batch_norm2d:n2c2h1w1_train_eps0",
      { 1, 5, 3, 9, 1, 10, 0, 100, 0, 0, 1, 1 },
      7,
      { -1, 90, 1, 110 } },
    /* mean 2, variance 1; running ones 10 and 4 before. */
    { "batch_norm2d:n1c1h1w2_train_eps0", { 1, 3, 2, 1, 10, 4 }, 7, { -1, 3 } },
    { "batch_norm2d:n2c1h1w1_train_eps0", { 1, 3, 2, 1, 10, 4 }, 8, { 2 } },
    { "batch_norm2d:n1c1h2w1_train_eps0", { 1, 3, 2, 1, 10, 4 }, 9, { 1 } },
    { "batch_norm2d:n1c1h1w2_train_eps0_momentum1", { 1, 3, 2, 1, 10, 4 }, 3, { 2 } },
    { "batch_norm2d:n1c1h1w2_train_eps0_momentum1", { 1, 3, 2, 1, 10, 4 }, 4, { 2 } },
    { "batch_norm2d:n1c1h1w2_train_eps0_momentum0", { 1, 3, 2, 1, 10, 4 }, 3, { 10 } },
    { "batch_norm2d:n1c1h1w2_train_eps0_momentum0", { 1, 3, 2, 1, 10, 4 }, 4, { 4 } },
    { "batch_norm2d:n2c1h1w1_train_eps0", { 1, 3, 2, 1, 10, 4, 41 }, 6, { 42 } },
    { "batch_norm2d:n1c1h1w2_residual_relu", { 3, 5, 2, 1, 1, 1 - 0x1p-17, -6, 1 }, 7, { 0, 10 } },
    { "batch_norm2d:n1c1h1w2_train_residual_eps0", { 1, 3, 2, 1, 10, 4, 8, -7, 41 }, 7, { 7, -4 } },
    { "sum:2x3@0", { 1, 2, 3, 4, 5, 6 }, 1, { 5, 7, 9 } },
    { "sum:2x3@0_reversed", { 1, 4, 2, 5, 3, 6 }, 1, { 5, 7, 9 } },
    { "mean:2x4@1", { 1, 2, 3, 4, 5, 6, 7, 8 }, 1, { 2.5, 6.5 } },
    { "max:2x2x2@0,2", { 1, 2, 3, 4, 8, 7, 6, 5 }, 1, { 8, 6 } },
    { "argmax:2x2x2@0,2", { 1, 2, 6, 4, 8, 7, 6, 5 }, 1, { 2, 0 } },
    { "argmax:4", { 1, NAN, 9, NAN }, 1, { 1 } },
    { "max:2x2@1", { 1, NAN, 9, INFINITY }, 1, { NAN, INFINITY } },
    { "argmax:3_i32", { -5, -2, -2 }, 1, { 1 } },
    { "sum:3_u8", { 200, 100, 255 }, 1, { 555 } },
    { "sum:3_i64", { 0x1p62, 0x1p62, 0x1p40 }, 1, { -0x1p63 + 0x1p40 } },
    { "sum:2_i64", { -0x1p63, -0x1p62 }, 1, { 0x1p62 } },
    { "sum:3", { INFINITY, 1, 2 }, 1, { INFINITY } },
    { "softmax:4@0", { 1, 1, 1, 1 }, 1, { 0.25, 0.25, 0.25, 0.25 } },
    { "softmax:2x2@0", { 700, 3, -1e30, 3 }, 1, { 1, 0.5, 0, 0.5 } },
    { "softmax:2x2@1_reversed", { 700, 3, -1e30, 3 }, 1, { 1, 0, 0.5, 0.5 } },
    { "softmax:2x2@1", { NAN, 1, 2, 2 }, 1, { NAN, NAN, 0.5, 0.5 } },
    { "softmax:2x2@1", { INFINITY, 1, -INFINITY, -INFINITY }, 1, { NAN, NAN, NAN, NAN } },
    { "log_softmax:2@0", { 5, -INFINITY }, 1, { 0, -INFINITY } },
    { "log_softmax:@0", { 5 }, 1, { 0 } },
    /* Column by column, then row by row; PyTorch's interpolate in float64. */
    { "pad:2x2p1x0x0x1_value", { 1, 2, 3, 4, 9 }, 2, { 9, 1, 2, 9, 3, 4, 9, 9, 9 } },
    { "pad:4p1x0c0x2", { 1, 2, 3, 4 }, 2, { 0, 1, 2 } },
    { "pad:4p3x2_reflect", { 1, 2, 3, 4 }, 2, { 4, 3, 2, 1, 2, 3, 4, 3, 2 } },
    { "pad:3p2x1_replicate", { 1, 2, 3 }, 2, { 1, 1, 1, 2, 3, 3 } },
    { "pad:3p2x1_circular", { 1, 2, 3 }, 2, { 2, 3, 1, 2, 3, 1 } },
    { "pad:3p2x1_replicate_dx", { 1, 2, 3, 4, 5, 6 }, 2, { 6, 4, 11 } },
    { "pad:3p2x1_reflect_dx", { 1, 2, 3, 4, 5, 6 }, 2, { 3, 12, 6 } },
    { "upsample2d:n1c1h2w3o3x4",
      { 1, 2, 4, 8, 16, 32 },
      2,
      { 1, 1, 2, 4, 1, 1, 2, 4, 8, 8, 16, 32 } },
    { "upsample2d:n1c1h2w3o3x5_aligned",
      { 1, 2, 4, 8, 16, 32 },
      2,
      { 1, 1.5, 2, 3, 4, 4.5, 6.75, 9, 13.5, 18, 8, 12, 16, 24, 32 } },
    { "upsample2d:n1c1h1w2f3x2_bilinear", { 0, 8 }, 2, { 0, 4, 8 } },
    { "upsample2d:n1c1h2w3o3x4_dx",
      { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 },
      2,
      { 14, 10, 12, 19, 11, 12 } },
    { "upsample2d:n1c1h1w2o1x4_bilinear_dx", { 1, 2, 3, 4 }, 2, { 3.25, 6.75 } },
    { "upsample2d:n1c1h2w2o1x4_bicubic",
      { 0, 16, 64, 0 },
      2,
      { 34.53125, 26.5625, 13.4375, 5.46875 } },
    { "upsample2d:n1c1h2w3o3x2_bicubic_corners",
      { 1, 2, 4, 8, 16, 32 },
      2,
      { 1, 4, 4.5, 18, 8, 32 } },
    { "upsample2d:n1c1h1w3o1x4_bicubic_dx",
      { 1, 2, 3, 4 },
      2,
      { 1.462890625, 3.388671875, 5.1484375 } },
    { "upsample2d:n1c1h1w6o1x4_exact", { 1, 2, 4, 8, 16, 32 }, 2, { 1, 4, 8, 32 } },
    { "upsample2d:n1c1h1w6o1x3_exact", { 1, 2, 4, 8, 16, 32 }, 2, { 2, 8, 32 } },
    { "upsample2d:n1c1h1w6o1x3_half_prefer_floor", { 1, 2, 4, 8, 16, 32 }, 2, { 1, 4, 16 } },
    { "upsample2d:n1c1h1w3o1x2_asymmetric_ceil", { 1, 2, 4 }, 2, { 1, 4 } },
    { "gather:2x3@1i2x2", { 1, 2, 3, 4, 5, 6, 2, 0, 1, 1 }, 3, { 3, 1, 5, 5 } },
    { "gather:2x3@0i1x3_reversed", { 1, 2, 3, 4, 5, 6, 1, 0, 1 }, 3, { 2, 3, 6 } },
    { "gather:2x3@1i1x2_dx", { 1, 1, 7, 5 }, 4, { 0, 12, 0, 0, 0, 0 } },
    { "index_select:2x3@1i2", { 1, 2, 3, 4, 5, 6, 2, 0 }, 3, { 3, 1, 6, 4 } },
    { "index_select:2x2@0i3_dx", { 1, 1, 1, 1, 2, 3, 4, 5, 6 }, 4, { 0, 0, 9, 12 } },
    { "cross_entropy:2x2_none", { 700, 700, -1e30, 3, 0, 1 }, 3, { 0.6931471805599453, 0 } },
    { "cross_entropy:2x2_none_reversed", { 0, 1e30, 0, 3, 0, 0 }, 3, { 0.6931471805599453, 0 } },
    { "cross_entropy:3x2", { 0, 0, NAN, 1, 5, 5, 1, -100, 0 }, 3, { 0.6931471805599453 } },
    { "cross_entropy:3x2_sum_ignore",
      { 0, 0, NAN, 1, 5, 5, 1, 0, 1 },
      3,
      { 2 * 0.6931471805599453 } },
    { "cross_entropy:2x2_none", { 0, 0, 0, 0, 5, 0 }, 3, { NAN, 0.6931471805599453 } },
    { "cross_entropy:2x1x2_sum", { 3, 4, 5, 6, 0, 0, 0, 0 }, 3, { 0 } },
    { "cross_entropy:1x2_ignore", { 3, 4, 0 }, 3, { NAN } },
    { "cross_entropy:1x2_sum", { -INFINITY, 4, 0 }, 3, { INFINITY } },
    { "cross_entropy:2", { -INFINITY, -INFINITY, 0 }, 3, { NAN } },
    { "cross_entropy:4_smooth", { 0, 0, 0, 0, 2 }, 3, { 2 * 0.6931471805599453 } },
    { "cross_entropy:2x2_none_weighted",
      { 0, 0, 0, 0, 0, 1, 3, 0.5 },
      3,
      { 3 * 0.6931471805599453, 0.5 * 0.6931471805599453 } },
    /* 3 log 2 and 3 log(1 + e), divided by 6. */
    { "cross_entropy:2x2_weighted",
      { 0, 0, 0, 1, 0, 0, 3, 0.5 },
      3,
      { (0.6931471805599453 + 1.3132616875182228) / 2 } },
    /* Windows at -1, 1, 3: columns 0, 1 2, 3; what three windows name adds up. */
    { "max_pool2d:n1c1h1w4k1x2s1x2p0x1_dx", { 5, 7, 9, 0, 2, 3 }, 2, { 5, 0, 7, 9 } },
    { "max_pool2d:n1c1h1w4k1x3s1x1_dx", { 5, 7, 2, 2 }, 2, { 0, 0, 12, 0 } },
    { "max_pool2d:n1c2h2w2k2x2_dx", { 5, 7, 3, 0 }, 2, { 0, 0, 0, 5, 7, 0, 0, 0 } },
    { "max_pool2d:n1c1h1w3k1x2s1x1p0x1d1x3_dx", { NAN, 4, -1, 1 }, 2, { 0, 4, 0 } },
    /* Windows of columns 0, 0 1, 1 2, 2, of which each counts two, or those inside; the last of a
     * ceiling one. */
    { "avg_pool2d:n1c1h1w3k1x2s1x1p0x1_dx", { 2, 4, 6, 8 }, 2, { 3, 5, 7 } },
    { "avg_pool2d:n1c1h1w3k1x2s1x1p0x1_exclude_dx", { 2, 4, 6, 8 }, 2, { 4, 5, 11 } },
    { "avg_pool2d:n1c1h1w3k1x2s1x1p0x1_divisor4_dx", { 2, 4, 6, 8 }, 2, { 1.5, 2.5, 3.5 } },
    { "avg_pool2d:n1c1h1w3k1x2_ceil_dx", { 2, 4 }, 2, { 1, 1, 4 } },
    { "avg_pool2d:n1c1h1w5k1x2s1x3_dx", { 2, 4 }, 2, { 1, 1, 0, 2, 2 } },
    { "avg_pool2d:n1c1h2w2k2x2_dx_f64",
      { INFINITY },
      2,
      { INFINITY, INFINITY, INFINITY, INFINITY } },
    { "adaptive_avg_pool2d:n1c1h1w5o1x3_dx", { 2, 3, 4 }, 2, { 1, 2, 1, 3, 2 } },
    { "adaptive_avg_pool2d:n1c1h2w1o3x1_dx", { 1, 4, 8 }, 2, { 3, 10 } },
    /* x^ of -2 and 4, dy of 1 and 2: dbias 3, dweight 6, and weight rstd (dy - (3 + x^ 6) / 2) = 6
     * (1 + 4.5), 6 (2 - 13.5). */
    { "batch_norm2d:n1c1h1w2_dx", { 1, 4, 3, 2, 2, 1, 2 }, 6, { 6, 12 } },
    { "batch_norm2d:n1c1h1w2_dx", { 1, 4, 3, 2, 2, 1, 2 }, 7, { 6 } },
    { "batch_norm2d:n1c1h1w2_dx", { 1, 4, 3, 2, 2, 1, 2 }, 8, { 3 } },
    { "batch_norm2d:n1c1h1w2_train_given_dx", { 1, 4, 3, 2, 2, 1, 2 }, 6, { 33, -69 } },
    { "batch_norm2d:n2c1h1w1_train_given_plain_dx_f64", { 1, 4, 2, 2, 1, 2 }, 6, { 11, -23 } },
    { "batch_norm2d:n2c2h1w1_dx", { 1, 5, 3, 7, 1, 10, 0, 6, 1, 3, 1, 2, 3, 4 }, 7, { 10, 6 } },
    { "batch_norm2d:n1c1h1w2_dx", { INFINITY, 4, 3, 2, 2, 1, 2 }, 6, { 6, 12 } },
    { "batch_norm2d:n1c1h1w2_dx", { INFINITY, 4, 3, 2, 2, 1, 2 }, 7, { INFINITY } },
    /* The same with g of 0 and 2: dbias 2, dweight 8, and 6 (0 - (2 - 16) / 2), 6 (2 - (2 + 32) /
     * 2). */
    { "batch_norm2d:n1c1h1w2_relu_dx", { 1, 4, 3, 2, 2, 1, 2, 0, 5 }, 6, { 0, 12 } },
    { "batch_norm2d:n1c1h1w2_relu_dx", { 1, 4, 3, 2, 2, 1, 2, 0, 5 }, 7, { 8 } },
    { "batch_norm2d:n1c1h1w2_relu_dx", { 1, 4, 3, 2, 2, 1, 2, 0, 5 }, 8, { 2 } },
    { "batch_norm2d:n1c1h1w2_train_given_relu_dx", { 1, 4, 3, 2, 2, 1, 2, 0, 5 }, 6, { 42, -90 } },
    { "batch_norm2d:n1c1h1w2_relu_residual_dx", { 1, 4, 3, 2, 2, 1, 2, 0, 5 }, 9, { 0, 2 } },
    { "batch_norm2d:n1c1h1w2_relu_residual_dx",
      { 1, 4, 3, 2, 2, INFINITY, 2, 0, NAN },
      9,
      { 0, 2 } },
    { "batch_norm2d:n1c1h1w2_tanh_residual_dx", { 1, 4, 3, 2, 2, 1, 2, 0.5, -2 }, 9, { 0.75, -6 } },
    { "batch_norm2d:n1c1h1w2_sigmoid_residual_dx",
      { 1, 4, 3, 2, 2, 1, 2, 0.25, 2 },
      9,
      { 0.1875, -4 } },
    /* Behind a forward pass, of x, weight and dy: a mean of 3 and a variance of 14 / 3, without
     * eps. */
    { "batch_norm2d:n1c1h1w3_train_dx",
      { 1, 2, 6, 3, 1, 2, 4 },
      6,
      { -0.2645224070079433131, 0.3306484679838320060, -0.0661260609758886929 } },
    { "batch_norm2d:n1c1h1w3_train_dx", { 1, 2, 6, 3, 1, 2, 4 }, 7, { 3.7032773719024293 } },
    { "batch_norm2d:n1c1h1w3_train_dx", { 1, 2, 6, 3, 1, 2, 4 }, 8, { 7 } },
    { "batch_norm2d:n1c1h1w3_train_dx", { 1, 2, 6, 3, 1, 2, 4 }, 2, { 3 } },
    { "group_norm:n1c3l1g1_dx",
      { 1, 2, 6, 3, 1, -2, 1, 2, 4 },
      3,
      { -0.2645163526398138, 0.33065149516789677, -0.06613514252808296 } },
    { "group_norm:n1c3l1g1_dx",
      { 1, 2, 6, 3, 1, -2, 1, 2, 4 },
      4,
      { -0.9258193429756073, -0.9258193429756073, 5.554916057853644 } },
    { "group_norm:n1c3l1g1_dx", { 1, 2, 6, 3, 1, -2, 1, 2, 4 }, 5, { 1, 2, 4 } },
    { "cross_entropy:2x2_none_dx", { 700, 700, 5, 5, 0, 1, 4, -8 }, 4, { -2, 2, -4, 4 } },
    { "cross_entropy:3x2_dx",
      { 7, 7, NAN, 1, 5, 5, 1, -100, 0, 6 },
      4,
      { 1.5, -1.5, 0, 0, -1.5, 1.5 } },
    { "cross_entropy:3x2_sum_ignore_dx",
      { 7, 7, NAN, 1, 5, 5, 1, 0, 1, 6 },
      4,
      { 3, -3, 0, 0, 3, -3 } },
    { "cross_entropy:2x2_dx", { 7, 7, 5, 5, 0, 2, 6 }, 4, { NAN, NAN, NAN, NAN } },
    { "cross_entropy:2x2_none_dx", { 7, 7, NAN, 5, 0, 2, 6, 6 }, 4, { -3, 3, NAN, NAN } },
    { "cross_entropy:2x2_sum_reversed_dx", { 7, 3, 7, 3, 0, 1, 2 }, 4, { -1, 1, 1, -1 } },
    { "cross_entropy:2_dx", { -INFINITY, 3, 0, 2 }, 4, { -2, 2 } },
    { "cross_entropy:1x1_smooth_dx", { 3, 0, 7 }, 4, { 0 } },
    { "cross_entropy:2x2_weighted_dx", { 7, 7, 5, 5, 0, 1, 3, 1, 8 }, 4, { -3, 3, 1, -1 } },
    { "add:2x2,2", { 1, 2, 3, 4, 10, 20 }, 2, { 11, 22, 13, 24 } },
    { "sub:2x2,2x1_reversed", { 1, 3, 2, 4, 10, 20 }, 2, { -9, -8, -17, -16 } },
    { "add:2_i32", { 0x7fffffff, -5, 1, 2 }, 2, { -0x1p31, -3 } },
    { "sub:2_u8", { 1, 9, 3, 4 }, 2, { 254, 5 } },
    { "mul:1_i64", { 0x1p40, 0x1p24 }, 2, { 0 } },
    { "mul:2_scalar", { 4, NAN }, 2, { 3, NAN } },
    { "div:4", { 1, -1, 0, 6, 0, 0, 0, 4 }, 2, { INFINITY, -INFINITY, NAN, 1.5 } },
    { "add:1", { 0x1.fffffep127, 0x1.fffffep127 }, 2, { INFINITY } },
    { "pow:4,4", { 2, -8, 0, NAN, -2, 3, 0, 0 }, 2, { 0.25, -512, 1, 1 } },
    { "squared_difference:3", { 1, -2, 3, 2, 2, 3 }, 2, { 1, 16, 0 } },
    { "maximum:3", { 1, NAN, 3, 2, 2, NAN }, 2, { 2, NAN, NAN } },
    { "minimum:3", { 1, NAN, 3, 2, 2, NAN }, 2, { 1, NAN, NAN } },
    { "less:3", { 1, 2, NAN, 2, 2, 2 }, 2, { 1, 0, 0 } },
    { "less_equal:3", { 1, 2, NAN, 2, 2, 2 }, 2, { 1, 1, 0 } },
    { "greater:3", { 3, 2, NAN, 2, 2, 2 }, 2, { 1, 0, 0 } },
    { "greater_equal:3", { 3, 2, NAN, 2, 2, 2 }, 2, { 1, 1, 0 } },
    { "equal:3", { 3, 2, NAN, 2, 2, NAN }, 2, { 0, 1, 0 } },
    { "not_equal:3", { 3, 2, NAN, 2, 2, NAN }, 2, { 1, 0, 1 } },
    { "neg:2_u8", { 1, 0 }, 2, { 255, 0 } },
    { "where:2x2,2,2x1", { 1, 0, 0, 255, 3, 4, 5, NAN }, 3, { 3, 5, NAN, 4 } },
    { "cumsum:2x3@1", { 1, 2, 3, 4, NAN, 6 }, 1, { 1, 3, 6, 4, NAN, NAN } },
    { "cumsum:2x3@0_reversed", { 1, 4, 2, 5, 3, 6 }, 1, { 1, 2, 3, 5, 7, 9 } },
    { "cumsum:3@0_dx", { 1, 2, 4 }, 1, { 7, 6, 4 } },
    { "cumprod:2x3@1", { 1, 2, 3, 4, NAN, 6 }, 2, { 1, 2, 6, 4, NAN, NAN } },
    { "cumprod:2x3@0_reversed", { 2, 4, 3, 5, 4, 6 }, 2, { 2, 3, 4, 8, 15, 24 } },
    { "cumprod:4@0", { 1e20, -1e20, 0, 1 }, 2, { 1e20, -INFINITY, 0, 0 } },
    /* dx_0 = dy_0 + x_1 (dy_1 + x_2 dy_2), dx_1 = x_0 (dy_1 + x_2 dy_2), dx_2 = x_0 x_1 dy_2. */
    { "cumprod:3@0_dx", { 2, 3, 4, 1, 5, 7 }, 3, { 100, 66, 42 } },
    { "cumprod:3@0_dx", { 2, 0, 4, 1, 5, 7 }, 3, { 1, 66, 0 } },
    { "cumprod:2x2@0_dx", { 2, 3, 4, 5, 1, 1, 1, 1 }, 3, { 5, 6, 2, 3 } },
    { "nll_loss:2x3", { 1, 2, 3, 4, 5, 6, 2, -100 }, 4, { -3, 0 } },
    { "nll_loss:2x3_reversed_ignore_weighted_mean",
      { 1, 4, 2, 5, 3, 6, 2, 0, 7, 8, 9 },
      4,
      { -27, 0 } },
    { "nll_loss:2x3_weighted_mean", { 1, 2, 3, 4, 5, 6, 2, -100, 7, 8, 9 }, 5, { 9, 0 } },
    { "nll_loss:1x2x2_dx", { 1, 0, 5, 7 }, 6, { 0, -7, -5, 0 } },
    { "nll_loss:2x2_weighted_dx", { 1, -100, 3, 4, 5, 7 }, 6, { 0, -20, 0, 0 } },
};

Test(check_oracles, values_by_hand)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        owned_problem_data self = read_problem_with(cases[i].problem, cases[i].inputs);
        const check_operand *operand = &self.list[cases[i].operand];
        cr_assert(operand->role != CHECK_READ && operand->count <= 16);
        for (int64_t e = 0; e < operand->count; e++) {
            const check_expected expected = expected_at(&self, cases[i].operand, e);
            cr_assert(same((double)expected.value, cases[i].expected[e]),
                      "%s: %s %d is %Lg, not %g", cases[i].problem, operand->name, (int)e,
                      expected.value, cases[i].expected[e]);
            cr_assert(isfinite(expected.K) && isfinite(expected.S) && isfinite(expected.extra) &&
                      !expected.any);
        }
    }
}

/* K, S and extra of one element. */
static void assert_tolerance(const char *problem, const double *inputs, int operand, int64_t index,
                             double K, double S, double extra)
{
    owned_problem_data self = read_problem_with(problem, inputs);
    const check_expected expected = expected_at(&self, operand, index);
    cr_assert(expected.K == K && fabs(expected.S - S) <= 1e-14 * S &&
                  fabs(expected.extra - extra) <= 1e-6 * fabs(extra),
              "%s: K %g, S %.17g, extra %.17g", problem, expected.K, expected.S, expected.extra);
}

// ---- What elements have in common ---------------------------------------------------------------

static void assert_alone(const problem_data *self, const check_expected_output *output)
{
    for (int64_t e = 0; e < output->count; e++) {
        const int64_t element_index = output->index == NULL ? e : output->index[e];
        const check_expected *got = &output->expected[e],
                             expected = expected_at(self, output->operand, element_index);
        cr_assert(got->value == expected.value && got->S == expected.S && got->K == expected.K &&
                      got->extra == expected.extra && got->any == expected.any,
                  "operand %d, element %d is %.20Lg, alone %.20Lg", output->operand,
                  (int)element_index, got->value, expected.value);
    }
}

/* Worked out once for all or by each element for itself: the same to the bit, whatever a row or
 * channel is; of large problems for those that a sample meets. */
Test(check_oracles, common_to_a_group_or_by_each_element)
{
    static const struct {
        const char *problem;
        int64_t groups, min; /* and of those that are worked out */
    } common[] = {
        { "softmax:7@0", 1, 1 },
        { "softmax:5x6@0", 6, 6 },
        { "softmax:5x6@1_reversed", 5, 5 },
        { "softmax:3x4x5@1", 15, 15 },
        { "softmax:3x4x5@0_f64", 20, 20 },
        { "softmax:3x4x5x2@2_reversed", 24, 24 },
        { "softmax:@0", 1, 1 },
        { "log_softmax:4x7x3@1", 12, 12 },
        { "log_softmax:2x3@1_f64", 2, 2 },
        { "softmax:1000x900@0", 900, 100 },
        { "softmax:900x1000@1_reversed", 900, 100 },
        { "batch_norm2d:n3c5h2w4_train", 5, 5 },
        { "batch_norm2d:n2c3h1w5_train_relu_f64", 3, 3 },
        { "batch_norm2d:n2c1000h53w50_train", 1000, 1000 },
        { "batch_norm2d:n1c4h3w2", 0, 0 },
        { "batch_norm2d:n3c5h2w4_train_dx", 5, 5 },
        { "batch_norm2d:n3c5h2w4_train_given_dx", 5, 5 },
        { "group_norm:n3c6l5g2_dx", 6, 6 },
        { "group_norm:n2000c3l1g1_plain_dx_f64", 2000, 2000 },
        { "batch_norm2d:n2c1000h53w50_dx", 1000, 1000 },
        { "cross_entropy:5x6_weighted_dx", 6, 6 }, /* one for all of them */
        { "cross_entropy:2x3x4_none_smooth_dx_f64", 9, 9 },
        { "cross_entropy:1000x600_dx", 1001, 100 },
        { "matmul:m2n2k3", 0, 0 },
    };
    for (size_t i = 0; i < sizeof common / sizeof *common; i++) {
        owned_problem_data self = read_problem(common[i].problem);
        self.direction->fill(&self.problem, TALC_CHECK_RANDOM, 5, &self.values);
        check_oracle oracle;
        cr_assert(talc_check_oracle_new(self.direction, &self.problem, 1, false, &oracle));
        talc_check_oracle_update(&oracle, &self.values);
        cr_assert((oracle.common == NULL) == (common[i].groups == 0), "%s", common[i].problem);
        cr_assert(oracle.learnt_count >= common[i].min && oracle.learnt_count <= common[i].groups,
                  "%s: %d groups", common[i].problem, (int)oracle.learnt_count);
        const bool sampled =
            talc_check_oracle_terms(self.direction, &self.problem) > CHECK_FULL_TERMS;
        cr_assert((oracle.learnt != NULL) == (sampled && common[i].groups > 0));
        for (int k = 0; k < oracle.outputs; k++)
            assert_alone(&self, &oracle.output[k]);
        talc_check_oracle_free(&oracle);
    }
}

Test(check_oracles, tolerance_for_rounding_of_gradients_by_hand)
{
    const double dy[] = { 2, -4, 6, 8 };
    assert_tolerance("avg_pool2d:n1c1h1w3k1x2s1x1p0x1_dx", dy, 2, 1, 2, 5, 0);
    assert_tolerance("avg_pool2d:n1c1h1w3k1x2s1x1p0x1_exclude_dx", dy, 2, 0, 2, 4, 0);
    assert_tolerance("avg_pool2d:n1c1h1w5k1x2s1x3_dx", dy, 2, 2, 0, 0, 0);
    assert_tolerance("max_pool2d:n1c1h1w4k1x3s1x1_dx", (double[]){ 5, -7, 2, 2 }, 2, 2, 2, 12, 0);

    /* x^ of -0.5 and 1, M = 2; dbias 3, dweight 1.5, of sizes 3 and 2.5; 10 roundings in f64.
     * Integers have none. */
    const double norm[] = { 1, 4, 3, 2, 0.5, 1, 2 }, f64 = 10 * 0x1p-53;
    assert_tolerance("batch_norm2d:n1c1h1w2_dx", norm, 6, 0, 6, 1.5, 0);
    assert_tolerance("batch_norm2d:n1c1h1w2_train_given_dx", norm, 6, 0, 6,
                     1.5 * (1 + 1.5 + 0.5 * 0.75), 1.5 * (3 + 0.5 * 2.5) / 2 * f64);
    assert_tolerance("batch_norm2d:n1c1h1w2_train_given_dx", norm, 7, 0, 6, 1.5, 2.5 * f64);
    assert_tolerance("batch_norm2d:n1c1h1w2_dx", norm, 8, 0, 6, 3, 3 * f64);
    assert_tolerance("batch_norm2d:n1c1h1w2_dx_f64", norm, 7, 0, 8, 2.5, 0);
    assert_tolerance("batch_norm2d:n1c1h1w2_train_given_dx", (double[]){ 1, 4, 3, 2, 2, 1, 2 }, 6,
                     0, 6, 51, 0);

    /* g of 0.75 and 0 of dy of 1 and 2 and y of 0.5 and -1, of sizes 1.25 and 4; dbias 0.75,
     * dweight -0.375. */
    const double tanh_of[] = { 1, 4, 3, 2, 0.5, 1, 2, 0.5, -1 };
    assert_tolerance("batch_norm2d:n1c1h1w2_tanh_residual_dx", tanh_of, 9, 0, 0, 0, 4 * u * 1.25);
    assert_tolerance("batch_norm2d:n1c1h1w2_tanh_residual_dx", tanh_of, 6, 1, 6, 0,
                     1.5 * 4 * u * 4);
    assert_tolerance("batch_norm2d:n1c1h1w2_tanh_dx", tanh_of, 8, 0, 6, 0.75, 5.25 * (4 * u + f64));
    assert_tolerance("batch_norm2d:n1c1h1w2_tanh_dx", tanh_of, 7, 0, 6, 0.375,
                     (0.5 * 1.25 + 4) * (4 * u + f64));
    assert_tolerance("batch_norm2d:n1c1h1w2_relu_residual_dx", tanh_of, 9, 0, 0, 0, 0);

    /* p of 1 / s and e / s, the mean of d 3 e / s. */
    const double logits[] = { 0, -3, 0, 0, 1, 2 }, e = exp(-3), s = 3 + e, root = 2 * 2;
    assert_tolerance("cross_entropy:1x4_none_dx", logits, 4, 0, 6, 2 / s,
                     2 / s * (4 + 3 * e / s + root) * u);
    assert_tolerance("cross_entropy:1x4_none_dx", logits, 4, 1, 6, 2 * e / s + 2,
                     2 * e / s * (4 + 3 * e / s + root + 3) * u);
    assert_tolerance("cross_entropy:4_smooth_dx_f64", logits, 4, 1, 6, 2 * e / s + 2 * 0.9 + 0.05,
                     2 * e / s * (12 + 3 * e / s + root + 3) * 0x1p-53);
    /* A is 3, and the sum of one weight may be 2 (1 + 1) u off. */
    const double weighted[] = { 0, 0, 1, 5, 3, 2 }, size = 2.0 / 3;
    assert_tolerance("cross_entropy:1x2_weighted_dx", weighted, 4, 0, 6, size * 1.5,
                     (size * 1.5 * (4 + 2 * sqrt(2)) + 4 * size * 1.5) * u);
    assert_tolerance("nll_loss:1x2", (double[]){ 3, -5, 1 }, 4, 0, 0, 5, 0);
    assert_tolerance("nll_loss:1x2_weighted_dx", (double[]){ 1, 3, 0.5, 7 }, 6, 1, 0, 3.5, 0);
    assert_tolerance("nll_loss:1x2_weighted_dx", (double[]){ 1, 3, 0.5, 7 }, 6, 0, 0, 0, 0);
}

Test(check_oracles, tolerance_for_rounding_by_hand)
{
    const double pool[] = { 6, -12, 18, 2, 4, -8 };
    assert_tolerance("max_pool2d:n1c1h2w3k2x2s1x1", pool, 1, 0, 0, 0, 0);
    assert_tolerance("avg_pool2d:n1c1h2w3k2x2s1x1", pool, 1, 0, 4, 6, 0);
    assert_tolerance("avg_pool2d:n1c1h2w3k2x2s1x1p1x1", pool, 1, 3, 1, 4.5, 0);
    assert_tolerance("avg_pool2d:n1c1h2w3k2x2s1x1p1x1_exclude", pool, 1, 3, 1, 18, 0);
    assert_tolerance("adaptive_avg_pool2d:n1c1h2w3o1x2", pool, 1, 1, 4, 10.5, 0);

    const double product[] = { 1, 2, 3, 4, 5, 6, 1, 0, 0, 1, 1, -1, 10, -20, 1, 2, 3, 40 };
    assert_tolerance("matmul:m2n2k3_bias_residual_relu", product, 4, 1, 3, 2 + 3 + 20 + 2, 0);
    const double y = 1 / (1 + exp(1));
    assert_tolerance("matmul:m2n2k3_sigmoid", product, 4, 1, 3, 5, 4 * 0x1p-23 * y + 0x1p-126);
    assert_tolerance("matmul:m2n2k3_tanh_f64", product, 4, 1, 3, 5, 4 * 0x1p-52 * tanh(1));

    assert_tolerance("matmul:m1n1k1_sigmoid", (double[]){ -100, 1 }, 4, 0, 1, 100, 0x1p-126);
    assert_tolerance("matmul:m1n1k1_sigmoid_f64", (double[]){ -800, 1 }, 4, 0, 1, 800, 0x1p-1022);

    /* (x - 1) 2 + 1; then mean 2, variance 1, weight 2, bias 1, M = 2: d = 8 u 2, and 10 roundings
     * in f64. */
    const double norm[] = { 1, 3, 2, 1, 10, 4, 7 }, d = 16 * u;
    assert_tolerance("batch_norm2d:n1c1h1w2", (double[]){ 3, 5, 2, 1, 1, 1 - 0x1p-17 }, 7, 1, 6, 9,
                     0);
    assert_tolerance("batch_norm2d:n1c1h1w2_train_eps0", norm, 7, 0, 6, 2 * 1 + 1 + 2 * 2,
                     2 * (d * d + 10 * 0x1p-53 * (1 + 2)));
    assert_tolerance("batch_norm2d:n1c1h1w2_train_eps0", norm, 8, 0, 6, 2, 10 * 0x1p-53 * 2);
    assert_tolerance("batch_norm2d:n1c1h1w2_train_eps0", norm, 9, 0, 6, 1, d * d + 10 * 0x1p-53);
    assert_tolerance("batch_norm2d:n1c1h1w2_train_eps0", norm, 3, 0, 6, 9.2,
                     0.1 * 10 * 0x1p-53 * 2);
    assert_tolerance("batch_norm2d:n1c1h1w2_train_eps0", norm, 4, 0, 6, 3.8,
                     0.1 * (2 * d * d + 2 * 10 * 0x1p-53));
    assert_tolerance("batch_norm2d:n1c1h1w2_train_eps0_momentum0", norm, 4, 0, 6, 0, 0);
    assert_tolerance("batch_norm2d:n1c1h1w2_train_eps0_f64", norm, 8, 0, 8, 2, 0);
    assert_tolerance("batch_norm2d:n1c1h1w2_train_eps0", norm, 6, 0, 0, 0, 0);
    assert_tolerance("batch_norm2d:n1c1h1w2_residual",
                     (double[]){ 3, 5, 2, 1, 1, 1 - 0x1p-17, 4, -20 }, 7, 1, 6, 29, 0);

    assert_tolerance("sum:2x3@1", pool, 1, 0, 3, 36, 0);
    assert_tolerance("mean:2x3@0", pool, 1, 1, 2, 8, 0);
    assert_tolerance("sum:2x3@1_i32", pool, 1, 0, 0, 0, 0);
    assert_tolerance("max:2x3@1", pool, 1, 0, 0, 0, 0);
    const double logits[] = { 0, -3, 0, 0 };
    const double e = exp(-3), max = 3 + e;
    assert_tolerance("softmax:4@0", logits, 1, 1, 0, 0, (4 + 3 + 4) * u * e / max + 0x1p-149);
    assert_tolerance("log_softmax:4@0", logits, 1, 1, 0, 0, (4 + 3 + 4) * u + u * (3 + log(max)));
    assert_tolerance("softmax:4@0_f64", logits, 1, 0, 0, 0, (4 + 4) * 0x1p-53 / max);
    assert_tolerance("log_softmax:4x1@1_f64", logits, 1, 1, 0, 0, (4 + 2) * 0x1p-53);
    assert_tolerance("log_softmax:4@0_f64", logits, 1, 1, 0, 0,
                     (4 + 3 + 4 + (3 + log(max))) * 0x1p-53);
    const double labelled[] = { 0, -3, 0, 0, 1 }, l = 3 + log(max);
    assert_tolerance("cross_entropy:1x4_none", labelled, 3, 0, 0, 0, (4 + 3 + 4 + l) * u);
    assert_tolerance("cross_entropy:4_f64", labelled, 3, 0, 0, 0,
                     (4 + 3 + 4 + l + 4 * l) * 0x1p-53);
    const double soft = 0.9 * l + 0.1 * (log(max) + 0.75);
    assert_tolerance("cross_entropy:4_none_smooth", labelled, 3, 0, 0, 0,
                     (4 + 0.9 * 3 + 0.1 * 0.75 + 4 + soft) * u);
}

// ---- Roundings that are not random --------------------------------------------------------------

static const talc_arithmetic strict = { "f32", TALC_STRICT, false };
static const talc_arithmetic wide = { "f64 accumulation", TALC_STRICT, true };

static double share_of(const talc_arithmetic *arithmetic, const problem_data *self,
                       talc_check_kind kind, int operand, double got)
{
    const check_expected expected = expected_at(self, operand, 0);
    return talc_check_share(
        expected.value, got,
        talc_check_bound(arithmetic, self->list[operand].dtype, kind, &expected, expected.S));
}

/* exp(-16.64) is 0.995 u: of 1 and those, added in order, 1 is left. A right result, but one that
 * random data do not have. */
Test(check_oracles, equal_terms_of_a_softmax_round_alike)
{
    static const char *const problems[] = { "softmax:17@0", "log_softmax:32@0", "softmax:32@0" };
    for (int i = 0; i < 3; i++) {
        owned_problem_data self = read_problem(problems[i]);
        float sum = 1;
        for (int64_t e = 1; e < self.list[0].count; e++) {
            self.values.of[0][e] = (double)-16.64f;
            sum += (float)exp(self.values.of[0][e]);
        }
        const double y = i == 1 ? -log((double)sum) : 1 / (double)sum;
        cr_assert(share_of(&strict, &self, TALC_CHECK_TINY, 1, y) <= 1, "%s", problems[i]);
        cr_assert(share_of(&strict, &self, TALC_CHECK_RANDOM, 1, y) > 1, "%s", problems[i]);
        cr_assert(share_of(&wide, &self, TALC_CHECK_TINY, 1, y) > 1, "%s", problems[i]);
    }
}

/* Of large logits that are all as far below the label's, label smoothing adds up equal differences,
 * and little else. */
Test(check_oracles, equal_differences_of_a_cross_entropy_round_alike)
{
    enum { CLASSES = 1000 };
    owned_problem_data self = read_problem("cross_entropy:1000_smooth_f64");
    check_values results;
    check_run_report report;
    check_buffers buffers = { .image = NULL };
    double max = 0;
    cr_assert(talc_check_values_new(self.direction, &self.problem, &results));
    for (int try = 0; try < 20; try++) {
        for (int64_t e = 1; e < CLASSES; e++)
            self.values.of[0][e] = -0x1p19 - 26214.3 * try;
        cr_assert(talc_check_run(
            self.direction, talc_check_algorithm_at(self.direction, cpu_device(), 0), cpu_device(),
            &self.problem, &self.values, &(check_run_options){ .workspace_limit = SIZE_MAX },
            &buffers, &results, &report));
        const double y = results.of[3][0];
        cr_assert(share_of(&strict, &self, TALC_CHECK_HUGE, 3, y) <= 1);
        max = fmax(max, share_of(&strict, &self, TALC_CHECK_RANDOM, 3, y));
    }
    cr_assert(max > 1, "at most %g of what random data may be off", max);
    talc_check_buffers_free(&buffers);
    talc_check_values_free(&results);
}

Test(check_oracles, borders_are_windows_that_reach_into_the_padding)
{
    problem_data self = read_problem("max_pool2d:n1c1h5w5k3x3s1x1p1x1");
    for (int64_t i = 0; i < 25; i++)
        cr_assert_eq(expected_at(&self, 1, i).border, i < 5 || i > 19 || i % 5 == 0 || i % 5 == 4);
    talc_check_values_free(&self.values);
    self = read_problem("avg_pool2d:n1c1h3w5k1x2_ceil");
    for (int64_t i = 0; i < 9; i++)
        cr_assert_eq(expected_at(&self, 1, i).border, i % 3 == 2);
    talc_check_values_free(&self.values);
}

/* Where the variance is rounding error alone, and after an infinity, there is nothing to hold an
 * algorithm to. */
Test(check_oracles, results_without_meaning_may_be_any)
{
    const double constant[] = { 3, 3, 2, 1, 10, 4, 0 },
                 infinite[] = { 3, INFINITY, 2, 1, 10, 4, 0 };
    const double tiny[] = { 0x1p-70, -0x1p-70, 2, 1, 10, 4, 0 };
    const double near[] = { 1e4, 1e4 + 0x1p-10, 2, 1, 10, 4, 0 };
    problem_data self = read_problem_with("batch_norm2d:n1c1h1w2_train_eps0", constant);
    cr_assert(expected_at(&self, 7, 0).any && expected_at(&self, 9, 0).any &&
              !expected_at(&self, 8, 0).any);
    cr_assert(!expected_at(&self, 3, 0).any && !expected_at(&self, 4, 0).any);
    talc_check_values_free(&self.values);
    /* The deviations of 5e-4 drown in what the mean may be off, 8 u 1e4. */
    self = read_problem_with("batch_norm2d:n1c1h1w2_train_eps0", near);
    cr_assert(expected_at(&self, 7, 0).any && expected_at(&self, 9, 0).any &&
              !expected_at(&self, 4, 0).any);
    talc_check_values_free(&self.values);
    /* A variance that f32 does not hold. */
    self = read_problem_with("batch_norm2d:n1c1h1w2_train_eps0", tiny);
    cr_assert(expected_at(&self, 7, 0).any && expected_at(&self, 9, 0).any &&
              !expected_at(&self, 8, 0).any);
    talc_check_values_free(&self.values);
    self = read_problem_with("batch_norm2d:n1c1h1w2_train", constant);
    cr_assert(!expected_at(&self, 7, 0).any && expected_at(&self, 7, 0).value == 1);
    talc_check_values_free(&self.values);
    self = read_problem_with("batch_norm2d:n1c1h1w2_train", infinite);
    cr_assert(expected_at(&self, 8, 0).any && expected_at(&self, 3, 0).any);
    for (int operand = 4; operand < 10; operand += operand == 4 ? 3 : operand == 7 ? 2 : 1)
        cr_assert(isnan(expected_at(&self, operand, 0).value) &&
                  !expected_at(&self, operand, 0).any);
    talc_check_values_free(&self.values);
}
