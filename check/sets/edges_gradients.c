/// More of the set `edges`: input gradients of pooling, norms and losses; and nll_loss, in both
/// directions.
#include "check/sets/sets.h"

#include <stddef.h>

// clang-format off
const char *const talc_check_edges_gradients[] = {
    /* Maxima: kernels, strides with elements that no window holds, windows that overlap. */
    "max_pool2d:n0c3h6w5k2x2_dx", "max_pool2d:n2c3h9w8k{1x1|1x4|4x1}_dx", "max_pool2d:n2c3h9w8k3x3s{1x1|2x2}p1x1_dx{|_f64}",
    "max_pool2d:n1c2h11w10k2x3s3x1_dx", "max_pool2d:n1c2h5w6k3x2s100x99_dx", "max_pool2d:n1c5h1w1k{1x1|2x2s1x1p1x1}_dx",
    "max_pool2d:n1c2h64w300k30x10s3x5_dx",

    /* Maxima with dilation, also larger than the image, so that a window holds nothing. */
    "max_pool2d:n1c2h9w10k3x2s2x1p3x0x4x2d2x3_ceil_dx", "max_pool2d:n1c2h9w10k3x3s2x1p1x1d3x2_dx",
    "max_pool2d:n1c2h12w10k2x4s3x2p1x2d4x2_ceil_dx_f64", "max_pool2d:n1c1h2w2k2x2s1x1p1x1d3x3_dx",

    /* Maxima and averages: padding on each side, the last window, widths, many planes, many
     * channels. */
    "{max_pool2d|avg_pool2d}:n1c2h9w37k5x5s1x1p4x0x0x4_dx", "{max_pool2d|avg_pool2d}:n1c2h8w9k3x3s2x2p1x1_ceil_dx",
    "{max_pool2d|avg_pool2d}:n1c2h13w11k2x2s5x4_dx", "{max_pool2d|avg_pool2d}:n1c2h5w5k2x2s4x4p1x1_ceil_dx",
    "{max_pool2d|avg_pool2d}:n1c2h5w{15|16|17|128}k3x3s1x1p1x1_dx", "{max_pool2d|avg_pool2d}:n1c2h9w513k3x3s1x1p0x1_dx",
    "{max_pool2d|avg_pool2d}:n1c2h90w1000k40x12s11x13_dx", "{max_pool2d|avg_pool2d}:n2c33h15w14k5x5s1x1p2x1_dx",
    "{max_pool2d|avg_pool2d}:n9c50h4w5k3x3s1x1p1x1_dx", "{max_pool2d|avg_pool2d}:n65537c1h2w1k2x1_dx",
    "{max_pool2d|avg_pool2d}:n1c130h3w3k2x2_dx", "{max_pool2d|avg_pool2d}:n9c7h9w20k5x5s1x1p2x2_dx_f64",

    /* Averages: what the divisor counts; a window as large as the image; more columns than a
     * tile. */
    "avg_pool2d:n2c3h9w8k3x3s1x1p1x1_exclude_dx", "avg_pool2d:n1c2h9w10k4x3s3x2p0x2x3x1_ceil{|_exclude}_dx",
    "avg_pool2d:n1c2h9w8k3x3s2x2p1x1_{divisor7|ceil_exclude_divisor5}_dx", "avg_pool2d:n1c2h9w37k3x3s1x1p1x1_exclude_dx_f64",
    "avg_pool2d:n1c5h1w1k3x3s1x1p1x1{|_exclude}_dx", "avg_pool2d:n1c1h150w140k140x130_dx", "avg_pool2d:n1c1h3w5000k2x3s1x2_dx",

    /* Adaptive averages: fewer outputs than inputs, as many, more, none. */
    "adaptive_avg_pool2d:n2c3h7w6o{1x1|7x6|10x13|1x6|7x1|3x4|0x4}_dx", "adaptive_avg_pool2d:n1c3h7w6o{3x4|10x13}_dx_f64",
    "adaptive_avg_pool2d:n1c3h1w1o3x2_dx", "adaptive_avg_pool2d:n1c2h33w35o5x7_dx", "adaptive_avg_pool2d:n2c33h16w16o7x7_dx",
    "adaptive_avg_pool2d:n1c130h3w3o1x1_dx", "adaptive_avg_pool2d:n9001c1h5w6o3x4_dx", "adaptive_avg_pool2d:n1c1h2w40000o1x7_dx",
    "adaptive_avg_pool2d:n1c2h90w1000o2x9_dx_f64", "adaptive_max_pool2d:n2c3h7w6o{1x1|10x13|3x4}_dx", "adaptive_max_pool2d:n1c2h33w35o5x7_dx_f64",

    /* Batch normalisation: one value a channel, many, channels of about as many as a part of
     * them. */
    "batch_norm2d:n0c3h4w5_dx", "batch_norm2d:n1c{1|5}h1w1_dx", "batch_norm2d:n2c3h5w7{|_train|_train_given}{|_plain}_dx{|_f64}",
    "batch_norm2d:n1c33h3w5{|_train|_train_given}_dx", "batch_norm2d:n3c17h1w65{|_train|_train_given}_dx", "batch_norm2d:n2c300h2w3{|_train|_train_given}_dx",
    "batch_norm2d:n2c1h1w1_train{|_given}_dx", "batch_norm2d:n1c5h1w2_train{|_given}_dx", "batch_norm2d:n65c2h1w1_train{|_given}_dx",
    "batch_norm2d:n1c2h128w{128|129}_train{|_given}_dx", "batch_norm2d:n2c2h100w101{|_train|_train_given}_dx", "batch_norm2d:n1c2h300w301_train{|_given}_dx",
    "batch_norm2d:n3c2h100w100_train{|_given}_dx{|_f64}", "batch_norm2d:n400c3h7w7_train{|_given}_dx", "batch_norm2d:n340c22h7w7_train{|_given}_dx",
    "batch_norm2d:n90c5h15w15_train{|_given}_dx", "batch_norm2d:n2000c6h3w3_train{|_given}_dx", "batch_norm2d:n9000c2h1w2_train{|_given}_dx", "batch_norm2d:n2c3h5w7{|_train|_train_given}_{relu|sigmoid|tanh|relu6|hardsigmoid}{|_residual}_dx",
    "batch_norm2d:n3c2h100w{100|101}_train{|_given}_relu{|_residual}_dx", "batch_norm2d:n1c5h1w2_train{|_given}_relu_residual_dx",
    "batch_norm2d:n1c2h300w301_train{|_given}_tanh_residual_dx{|_f64}", "batch_norm2d:n90c5h15w15_train{|_given}_sigmoid{|_residual}_dx_f64",

    /* Group norm: one value a row, many, parts of rows. */
    "group_norm:n0c4l5g2_dx", "group_norm:n2c4l0g2_dx", "group_norm:n{1|300}c{1|3}l1g1_dx",
    "group_norm:n3c6l7g{1|3|6}{|_plain}_dx{|_f64}", "group_norm:n{3|70}c{8|33|257|768}l1g1_dx{|_f64}",
    "group_norm:n2c{4095|9001|16385|70001}l1g1_dx", "group_norm:n2c4l{16|49|3136|20011}g2_dx{|_f64}",
    "group_norm:n1c2l70000g1_dx", "group_norm:n1c131l127g1_dx",

    /* Cross entropy: one class, one sample, many of either; classes for a thread, a warp or a
     * block; labels to add up in parts. */
    "cross_entropy:{1x1|5|7x31|4099x10|2x5x40x41}_dx", "cross_entropy:{1x9|20011x3}_sum_dx",
    "cross_entropy:{9x33|2x30011|3x1023x7|0x4}_none_dx", "cross_entropy:{3x2047|3x2049}_smooth_dx",
    "cross_entropy:3x1025x7_none_smooth_dx", "cross_entropy:2x3x4x5x6_ignore_dx", "cross_entropy:65x100_dx_f64",
    "cross_entropy:3x20000_sum_dx_f64", "cross_entropy:2x21x9x7_smooth_ignore_dx_f64", "cross_entropy:65x33_reversed_dx",
    "cross_entropy:5x16x9_reversed_none_dx", "cross_entropy:20011x5_weighted_dx",
    "cross_entropy:{7x31|4099x10_sum|3x2049_smooth|2x5x40x41_smooth|9x33_none_smooth_ignore}_weighted_dx",
    "cross_entropy:3x2049_smooth_weighted_dx_f64",

    /* Negative log likelihood: one class, one sample, many of either; dimensions behind the
     * classes. */
    "nll_loss:{1x1|5|7x31|4099x10|2x5x40x41|0x4|2x3x4x5x6|3x50000}{|_dx}",
    "nll_loss:{7x31|4099x10|2x5x40x41}_weighted_{mean|dx|mean_f64|dx_f64}", "nll_loss:{65x33|5x16x9}_reversed_mean",
    "nll_loss:9x33_ignore_weighted_{mean|dx}", "nll_loss:70001x3_{mean|dx}",
    NULL,
};
// clang-format on
