/// Problems of convolutions, of every direction, in the sets quick and edges: every feature once,
/// and the edges of every axis.
#include "check/sets/sets.h"

#include <stddef.h>

// clang-format off
const char *const talc_check_conv2d_quick[] = {
    /* Kernels, odd, even and long; images that are not square; batches. */
    "n2c3h9w7o4k3x3{|_dx|_dw}", "n1c2h8w11o5k2x4_bias", "n3c4h5w12o3k1x7p0x3{|_dx}",
    "n1c3h12w5o4k7x1p3x0{|_dw}", "n2c3h5w7o4k5x7{|_dx}", "n1c2h13w12o3k11x11p5x5",
    "n65c1h2w3o2k2x2p1x1_bias{|_dw}",

    /* Padding: one axis, each side its own, more than the kernel, nothing but padding, other modes.
     * */
    "n1c2h6w5o3k3x3p1x2", "n2c3h7w6o4k3x2p1x0x2x3{|_dx|_dw}", "n1c3h7w6o4k4x2p1x0x2x1",
    "n1c2h3w2o3k2x2p4x5_bias{|_dx|_dw}", "n1c1h3w1o2k3x3p1x9{|_dw}", "n2c3h7w9o4k3x3p2x3_reflect",
    "n1c2h6w5o3k5x3p5x1x4x3_replicate", "n2c3h5w6o4k3x4p3x2_bias_circular",

    /* Strides and dilations, one axis apart from the other. */
    "n2c3h11w10o4k3x3s2x2p1x1{|_dx|_dw}", "n1c3h11w13o5k3x3s1x3p1x1{|_dx}",
    "n1c2h13w11o3k2x3s3x1p0x1{|_dw}", "n1c3h13w11o4k2x2s5x4{|_dx}", "n2c3h10w11o4k3x3p2x2d2x2",
    "n1c2h9w14o3k3x2p1x3d1x4{|_dw}", "n1c2h14w9o3k2x3d5x1{|_dx}",
    "n2c3h12w15o4k3x2s2x3p2x1d2x4{|_dx|_dw}",

    /* An input of more than 2^16 elements. */
    "n1c2h190w180o2k2x3s4x3p1x1{|_dx}",

    /* Groups and depthwise. */
    "n2c6h7w9o4k3x3p1x1g2_bias{|_dx|_dw}", "n1c15h6w5o10k2x3s1x2g5",
    "n2c5h7w9o5k3x3p1x1g5{|_dx|_dw}", "n2c4h9w35o8k3x3p1x1g4_bias_relu{|_dx|_dw}",
    "n1c7h11w70o7k3x3s2x2p1x1g7{|_dx|_dw}", "n1c3h13w21o6k5x4s1x2p2x3x1x0d2x1g3_residual{|_dw}",
    "n1c33h5w6o33k3x3p1x1g33{|_dx}", "n1c2h6w521o2k3x3p1x1g2", "n2c6h5w4o6k1x1g6",
    "n2c4h6w17o4k3x3g4",

    /* Pointwise. */
    "n2c17h9w7o19k1x1_bias{|_dx|_dw}", "n1c33h15w9o65k1x1_bias_residual_relu",
    "n2c5h9w7o6k1x1s2x3{|_dx}", "n2c3h4w5o4k1x1p1x2_bias{|_dx}", "n2c6h9w8o10k1x1g2{|_dx|_dw}",

    /* Tails around the multiples of 8, 16, 32 and 64, and several tiles of each extent. */
    "n1c7h9w9o9k3x3p1x1", "n1c15h8w17o17k3x3p1x1_bias", "n1c31h7w9o33k3x3p1x1{|_dx}",
    "n1c63h5w7o65k3x3p1x1_bias_relu{|_dw}", "n1c64h6w8o64k3x3p1x1", "n2c16h33w31o31k3x3p1x1",
    "n1c130h5w6o131k2x2{|_dx|_dw}", "n3c8h19w21o24k3x3s2x2p1x1", "n1c3h6w301o5k3x3p1x1{|_dw}",
    "n1c300h5w7o270k1x1", "n2c288h7w9o70k3x3p1x1g2_bias_residual_sigmoid{|_dx}",
    "n1c600h9w11o20k3x3s2x2p1x1_bias_reflect", "n1c40h24w24o48k5x7", "n1c16h56w58o33k3x3p1x1",
    "n1c160h130w144o160k3x3p1x1g160_relu",

    /* Bias, residual, activations; f64; long sums. */
    "n2c3h7w6o5k3x3p1x1_bias_residual_relu", "n2c3h7w6o5k3x3p1x1_bias_sigmoid",
    "n2c3h7w6o5k3x3p1x1_residual_tanh",
    "n2c4h9w7o6k3x2s2x1p1x2x0x1d1x2g2_f64_bias_residual_relu{|_dx|_dw}",
    "n1c9h10w17o17k3x3p1x1_f64", "n1c9h10w17o17k1x1_f64_bias{|_dw}",
    "n2c5h9w37o5k3x3p1x1g5_f64{|_dx}", "n1c500h5w8o3k5x8", "n1c3h31w30o16k7x7s2x2p3x3{|_dw}",
    NULL,
};

const char *const talc_check_conv2d_edges[] = {
    /* Batch. */
    "n{0|1|2}c3h5w4o2k3x3p1x1", "n3c2h6w5o5k3x2_bias{|_dw}",
    "n0c4h5w4o4k3x3p1x2g2_f64_bias_residual_relu", "n65537c1h1w2o1k1x2",
    "n65537c1h1w1o2k1x1_bias{|_dx}", "n1031c1h2w2o1k2x2p1x1{|_dw}",

    /* Input channels, around the widths of vectors and tiles. */
    "n1c{1|2|3|4|7|8|15|16|17|31|32|33}h6w5o3k3x3p1x1{|_dx}", "n1c{63|64|65}h4w5o5k3x3p1x1{|_dx}",
    "n1c127h4w5o5k2x3{|_dw}",

    /* Output channels. */
    "n2c3h5w6o{1|2|3|4|7|8|15|16|17|31|32|33}k3x3_bias{|_dw}", "n1c33h5w5o33k2x2{|_dx}",
    "n2c17h5w7o17k1x1{|_dw}", "n1c64h6w6o64k3x3p1x1", "n1c127h3w3o5k3x3p1x1{|_dx}",
    "n1c5h3w3o127k1x1_bias{|_dw}", "n1c3h5w6o{63|64|65|127|129}k3x3{|_dx}",

    /* Images that are not square, down to lines and points. */
    "n2c3h1w17o4k1x3p0x1{|_dx}", "n2c3h17w1o4k3x1p1x0{|_dw}", "n2c5h1w1o3k1x1_bias",
    "n2c3h1w1o3k3x3p1x1{|_dx}", "n1c2h33w3o3k3x3{|_dw}", "n1c2h3w33o3k3x3",
    "n1c3h7w8o4k3x3p1x1{|_dx}", "n1c3h8w7o4k3x3p1x1{|_dw}", "n1c3h13w28o4k3x3p1x1",
    "n1c3h28w13o4k3x3p1x1{|_dx}", "n1c2h33w31o2k3x3p1x1{|_dw}",

    /* Widths of the output around those of vectors, at either parity of the kernel. */
    "n1c3h3w{6|9|14|15|16|17|31|32|34|47|48|49|63|64|65|127|128|129}o5k3x3p1x1",
    "n1c2h4w{8|9|10|16|17|18|32|33|34}o3k2x2_bias{|_dx}",

    /* Depthwise, whose rows are as wide as a vector, one more, one less. */
    "n1c2h5w{8|9|10|15|16|17|18|19|31|32|33|34|35}o2k3x3g2{|_dw}",
    "n1c2h5w{7|15|16|17|31|32|33}o2k3x3p1x1g2", "n1c2h5w{16|17|18}o2k3x3p{0x1x0x0|0x0x0x1}g2{|_dx}",
    "n1c2h5w{8|9|10|16|17|18}o2k3x3g2_f64{|_dw}", "n1c2h5w{7|8|9}o2k3x3p1x1g2_f64{|_dx}",

    /* Images of one to three rows or columns, kernels of one to five. */
    "n1c2h1w3o3k2x2p1x1{|_dx}", "n1c2h1w3o3k3x3p2x2{|_dw}", "n1c2h{3|1}w1o3k4x4p2x2",
    "n1c2h{3|1}w1o3k5x5p3x3{|_dx}", "n1c2h1w{2|3}o3k5x5p4x4{|_dw}", "n1c2h2w1o3k5x5p2x2",
    "n1c2h3w3o3k5x5p1x1{|_dx}", "n1c2h2w2o3k4x4p1x1{|_dw}", "n1c2h3w1o3k3x3p2x2",
    "n1c2h1w3o3k1x5p0x2{|_dx}", "n1c2h3w1o3k5x1p2x0{|_dw}", "n1c2h1w3o3k1x4s1x2p0x3",
    "n1c2h3w1o3k4x1s2x1p3x0{|_dx}",

    /* Pointwise, with several tiles and a remainder. */
    "n1c265h4w5o193k1x1{|_dw}", "n1c193h3w4o542k1x1_bias", "n1c542h2w3o265k1x1{|_dx}",
    "n1c33h27w19o31k1x1s12x14{|_dw}", "n1c17h8w9o33k1x1s2x1_bias",

    /* Kernels. */
    "n2c3h9w10o4k{1x1|1x7|7x1|2x2|3x3|4x4|5x5|7x7|2x3|3x2|5x7|7x5|1x2|2x1}{|_dx|_dw}",
    "n1c2h13w12o3k11x11{|p5x5}{|_dw}", "n2c3h5w7o4k5x7_bias", "n2c3h5w9o4k5x3{|_dx}",
    "n2c3h9w5o4k3x5{|_dw}", "n1c2h3w4o3k7x7p2x2",

    /* Strides. */
    "n2c3h11w10o4k3x3s{2x2|3x3|1x2|2x1|3x1|1x3}p1x1{|_dx|_dw}", "n1c3h13w11o4k2x2s5x4{|_dw}",
    "n1c3h6w5o4k3x3s6x5p1x1", "n2c3h6w5o4k3x3s100x99p1x1{|_dx}", "n2c5h9w7o6k1x1s2x3{|_dw}",
    "n7c30h75w77o40k1x1s2x2", "n20c17h35w37o40k3x3s2x2p1x1{|_f64}", "n1c3h26w25o4k1x1s12x14",
    "n1c2h12w13o3k3x3s4x4{|_dx}", "n1c2h4w4o2k2x2s1000000000x1000000007{|_dw}",
    /* An input gradient's phases as one problem, with more and with fewer taps than its window. */
    "n3c8h19w22o24k{3x3|4x4|2x2|5x5|3x1}s2x2p1x1_dx", "n2c10h13w17o32k3x3s{3x2|2x4}p1x1g2_dx",
    "n3c8h27w13o64k1x1s2x2p1x2x0x1_dx", "n4c1h40w35o64k2x2s3x4p1x0_dx",
    "n2c3h2w11o16k5x4s4x5p2x0_dx",

    /* On a GPU with 132 multiprocessors: halo tiles that are packed before, and bands of the rows
     * of a kernel. */
    "n50c17h11w11o2080k3x3s3x3p1x1", "n3c64h15w13o300k3x3s2x2p1x1_dx",
    "n1c5h40w40o16k21x11p10x5_bias_relu",

    /* Depthwise: large kernels, strides, dilation, more outputs than inputs. */
    "n2c3h30w29o3k{9x9|13x5|3x11}p4x2g3{|_dx|_dw}", "n2c2h40w41o2k31x31p15x15g2{|_dx|_dw}",
    "n2c3h30w31o9k5x5s{2x1|3x2}p2x2g3{|_dx|_dw}", "n2c4h28w28o4k7x7p9x9d3x3g4{|_dx|_dw}",
    "n3c5h27w30o5k{3x3|5x5|7x7}s2x2p1x1g5{|_dx|_dw}",

    /* Few input channels, in tiles of several widths, and at strides that have no kernel; large
     * kernels, in bands of their taps. */
    "n1c1h26w37o5k{2x2s11x11|2x3s12x12|2x4s11x11}",
    "n2c3h19w{30|141}o{5|40}k{4x4s2x2|3x3s2x2|7x7s2x2|4x4s4x4}p1x1_bias",
    "n1c{1|4}h14w67o33k{3x3|5x5}p1x2_bias_residual_relu",
    "n1c17h20w22o18k{15x15p7x7|14x13p3x6|31x31p15x15}_bias",
    "n1c17h20w22o18k{15x15p7x7|14x13p3x6|31x31p15x15}_dw",

    /* Rows and columns that no window reads. */
    "n1c2h8w9o3k3x3s2x2", "n1c2h13w11o3k2x2s4x5{|_dx}", "n1c2h10w10o3k1x1s3x3{|_dw}",
    "n1c2h9w9o3k3x3s4x4d4x4", "n2c3h35w77o9k3x3s{3x3|4x4}p1x2{|_reflect|_dw}",

    /* Padding. */
    "n1c2h6w5o3k{1x1|2x2}p{1x1|2x2|3x3}{|_dx}", "n1c2h6w5o3k3x3p{2x2|3x3|5x5|1x0|0x2}{|_dw}",
    "n1c2h6w5o3k5x5p{1x1|2x2|3x3|4x4|5x5|7x7}{|_dx}", "n1c1h3w1o2k3x3p0x100{|_dx}",
    "n1c1h3w3o2k5x5s3x1p50x3{|_dw}", "n1c1h3w4o2k3x3p29x9d2x3",

    /* Windows entirely in the padding. */
    "n1c2h2w2o3k2x2p{4x4|5x4x0x0|0x0x5x4}_bias{|_dx}", "n2c2h3w3o3k1x1s1x2p2x0_bias{|_dw}",
    "n1c2h1w1o3k2x2s3x3p6x6", "n1c3h1w1o2k1x1s6x6p3x3_bias{|_dx}",

    /* Padding of its own on each side: top, left, bottom, right. */
    "n1c2h5w6o3k3x3p{1x0x0x0|0x1x0x0|0x0x1x0|0x0x0x1|1x2x3x4|4x3x2x1|0x0x1x1|1x1x0x0|2x0x0x3}{|_dx|_dw}",
    "n2c3h7w6o4k3x2s2x3p1x0x2x3_bias", "n2c3h7w6o4k3x2p1x0x2x3d2x3{|_dx}",
    "n1c3h7w6o4k4x2p1x0x2x1{|_dw}", "n1c4h5w6o6k3x3p0x1x2x0g2", "n1c1h3w3o2k2x2s2x2p0x0x1x37{|_dx}",

    /* Dilation. */
    "n2c3h10w11o4k3x3p1x2d{2x2|3x3|1x2|2x1|3x1|1x3}{|_dx|_dw}", "n1c2h4w4o3k2x2p3x3d5x5",
    "n1c3h5w4o3k1x1d7x9{|_dx}", "n2c3h12w13o4k3x2s2x3p2x1d2x4{|_dw}", "n1c3h9w9o2k4x4d2x2",
    "n1c1h30w31o2k3x3d13x14{|_dx}", "n1c2h3w3o2k1x1d1000000000x1000000000{|_dw}",
    "n1c2h2w3o3k2x2p5x5d6x7", "n2c3h30w31o25k3x3p{4x4d4x4|8x8d8x8|9x11d9x11}{|_bias_relu|_dx}",
    "n3c2h9w10o3k3x3p8x8d8x8{|_dx}", "n2c3h2w45o5k3x3p8x8d8x8", "n1c1h1w1492o1k1x3p0x497d1x497",
    "n1c2h9w1o3k3x1s1x2p1x1_dx",

    /* The effective kernel is the padded input: one output. */
    "n2c3h5w7o4k5x7{|_dx}", "n1c3h5w4o4k7x8p1x2{|_dw}", "n1c3h7w5o4k4x3d2x2",
    "n1c3h5w3o4k4x3p1x1d2x2{|_dx}", "n1c2h2w2o3k3x4p1x0x0x2_bias{|_dw}", "n1c2h5w5o3k5x5s7x7",
    "n9c2h3w3o3k3x3{|_dx}",

    /* Groups. */
    "n2c4h6w5o6k3x3p1x1g2{|_dw}", "n2c2h6w5o6k3x3g2_bias", "n2c6h6w5o3k3x3g3{|_dx}",
    "n2c8h5w5o12k1x1g4_bias{|_dw}", "n2c6h11w9o4k3x2s2x1p1x1d1x2g2_bias",
    "n1c15h5w4o10k2x3g5{|_dx}", "n1c34h4w4o34k3x3p1x1g2{|_dw}", "n1c32h4w5o16k3x3p1x1g16",
    "n1c6h5w5o6k5x5p2x2g3{|_dx}", "n1c2h12w11o2k11x11p1x0g2{|_dw}",

    /* Depthwise: a group for each channel. */
    "n2c5h7w6o5k3x3p1x1g5", "n2c8h7w6o8k3x3p1x1g8_bias_relu{|_dx}",
    "n2c5h7w6o10k3x3p1x1g5_bias{|_dw}", "n1c4h6w7o12k2x3g4", "n2c7h9w8o7k3x3s2x2p1x1g7{|_dx}",
    "n2c7h17w17o7k3x3p1x0g7{|_dw}", "n1c3h5w31o3k3x5s1x10p1x2g3", "n1c4h9w8o4k3x3p2x3d2x3g4{|_dx}",
    "n1c3h9w11o3k5x7p2x3g3{|_dw}", "n2c6h4w5o6k1x1g6_bias", "n1c3h6w5o3k3x3p2x0x1x3g3{|_dx}",
    "n1c2h3w70o2k3x3p1x1g2{|_dw}", "n1c3h6w5o6k3x3p1x1g3_f64_bias",
    "n1c3h2w2o3k2x2p4x4g3_bias{|_dx}", "n1c16h1w1o16k3x3p1x1g16{|_dw}",
    "n3c40h7w7o40k7x7p3x3g40_bias_relu", "n2c33h14w14o33k5x5p2x2g33{|_dx}",
    "n3c5h28w28o5k5x5s2x2p2x2g5_bias{|_dw}", "n2c3h56w57o3k7x7p3x2x3x4g3_residual",
    "n1c2h150w60o2k3x3p1x1g2_f64_bias_residual_tanh{|_dx}", "n1c3h70w60o3k3x3s2x2p0x1x1x0g3{|_dw}",
    "n2c3h90w30o3k5x5p6x7g3", "n70c2h5w4o2k3x3p1x1g2_bias{|_dx}", "n1c33h5w5o33k3x3p1x1g33{|_dw}",
    "n1c2h12w13o2k11x11p5x5g2", "n1c3h11w13o3k2x2s4x5g3{|_dx}",
    "n37c3h7w7o3k3x3p1x1g3_residual_tanh{|_dw}", "n2c3h56w56o3k7x7p3x3g3_bias",
    "n2c2h100w21o2k5x5p2x2g2_f64_bias_relu{|_dx}", "n3c2h3w14o2k3x3p20x1x5x1g2_bias{|_dw}",
    "n1c2h9w63o2k7x7p0x3g2_f64", "n2c2h50w14o2k5x5p40x2x0x2g2{|_dx}",

    /* Weight gradients in registers: several images at a time, channels and columns around tiles,
     * rows of windows apart. */
    "n20c{3|16|33}h16w16o20k3x3p1x1_dw", "n31c1h28w28o6k5x5p2x2_dw", "n40c6h14w14o16k5x5_dw",
    "n37c20h4w5o33k3x3p1x1_dw", "n9c33h20w21o20k3x3s2x2p1x1_dw",
    "n20c9h40w32o16k3x3s{3x3|7x1}p1x1{|d2x1}_dw", "n8c6h30w41o16k5x5p2x2{|d1x2|d3x1}_dw",
    "n3c3h40w37o16k7x7s2x2p3x3_dw", "n5c20h17w20o16k3x3p0x1x2x0_f64_dw",
    "n30c6h20w20o12k3x3p1x1g3_dw", "n40c16h30w29o20k1x1s2x2_dw",

    /* Pointwise. */
    "n2c7h6w5o9k1x1{|_dw}", "n2c16h7w7o8k1x1_bias_relu", "n2c3h4w5o4k1x1p1x2_bias{|_dx}",
    "n2c3h4w5o4k1x1p{1x0x0x0|0x1x0x0|0x0x1x0|0x0x0x1}{|_dw}", "n2c3h5w4o4k1x1s2x1",
    "n2c3h4w5o4k1x1s1x2{|_dx}", "n3c1h5w6o1k1x1{|_dw}",
    "n2c5h4w3o6k1x1_{bias_residual_relu|f64_bias}", "n2c3h1w257o4k1x1",
    "n2c6h7w5o4k1x1s2x2g2{|_dx}", "n2c16h4w9o5k1x1{|_dx}", "n2c20h5w7o9k1x1_bias_residual_relu",
    "n1c48h7w7o96k1x1{|_dx}", "n3c66h4w6o8k1x1_bias_tanh", "n1c128h3w32o17k1x1{|_dx}",
    "n1c130h9w11o70k1x1{|_dx}", "n3c96h4w4o48k1x1g3_bias_residual_sigmoid",
    "n1c200h6w6o260k1x1g2_relu{|_dx}",
    /* Three K tiles of 16 channels in one block; in `tiny` each has its own scale. */
    "n64c48h28w28o5k1x1", "n64c5h28w28o48k1x1_dx",

    /* Chunks of 32 channels of a tap, with a remainder, shared by a cluster of blocks, some of
     * which have none; phases of a stride. */
    "n1c{33|48|100}h7w7o70k3x3p1x1_bias_residual_relu{|_dx}", "n1c512h7w7o96k3x3p1x1",
    "n1c160h4w4o136k1x1_residual_silu{|_dx}", "n2c80h9w10o72k3x3s2x2p2x2d2x2g2_bias{|_dx}",
    "n9c64h15w14o130k1x1_bias_relu{|_dx}", "n3c20h40w41o48k3x3p1x1_residual_tanh",
    "n1c32h12w12o32k3x3s3x3p1x1_dx", "n3c40h15w13o33k5x3s2x1p2x1_dx",

    /* Rows copied whole, of several images; whole images; padding wider than the rows between them;
     * parts of the channels. */
    "n3c32h14w12o64k3x3p1x1_bias_residual_relu", "n9c32h7w7o128k3x3p1x1_residual",
    "n24c16h5w12o80k5x3p3x1", "n3c48h10w28o96k3x5p2x2g3_bias_silu", "n40c32h3w5o64k3x3p4x1",

    /* Bias, residual and activations. */
    "n2c3h7w6o5k3x3p1x1_{bias|residual|bias_residual|relu|bias_relu|sigmoid|bias_sigmoid}",
    "n2c3h7w6o5k3x3p1x1_{tanh|bias_tanh|residual_relu|relu6|hardsigmoid|hardswish|silu|bias_gelu|residual_leaky_relu}",
    "n2c3h7w6o5k3x3p1x1_{bias_residual_relu|bias_residual_sigmoid|bias_residual_tanh}",
    "n3c1h4w9o7k1x1_bias", "n2c4h9w7o6k3x3s2x2p1x1g2_residual_tanh",
    "n2c9h14w14o9k3x3p1x1g9_{bias_relu6|silu|residual_hardswish|bias_residual_sigmoid|gelu|leaky_relu|f64_silu}",
    "n2c3h10w150o3k3x3{p1x1|s2x2p1x1}g3_{bias_relu6|silu|residual_hardsigmoid|tanh|f64_gelu}",
    "n2c16h9w10o24k1x1_{bias_relu6|bias_residual_silu|hardswish|gelu}",
    "n2c16h9w41o18k3x3p1x1_{relu6|bias_residual_silu|sigmoid|tanh}",

    /* Padding modes. */
    "n2c3h6w5o4k3x3p1x1_{reflect|replicate|circular}",
    "n1c2h6w5o3k5x5p5x4_{bias_reflect|bias_replicate|bias_circular}",
    "n1c2h6w5o3k3x2p1x3x4x0_{reflect|replicate|circular}",
    "n2c2h7w8o3k3x3s2x3p3x4d2x2_{reflect|replicate|circular}",
    "n1c4h5w5o6k3x3p2x2g2_{bias_relu_reflect|bias_relu_replicate|bias_relu_circular}",
    "n1c4h5w6o4k3x3p1x1g4_{reflect|replicate|circular}",
    "n1c2h5w4o3k3x3p2x1_{f64_reflect|f64_replicate|f64_circular}",
    "n1c3h4w4o3k1x1p1x2_{reflect|replicate|circular}",
    "n1c2h5w4o3k3x3_{reflect|replicate|circular}", "n1c2h2w3o3k3x3p5x7_replicate",
    "n1c2h4w3o3k3x3p4x3_circular", "n1c2h4w3o3k3x3p3x2_reflect", "n1c2h1w1o3k3x3p2x2_replicate",
    "n1c2h1w1o3k3x3p1x1_circular", "n0c2h5w4o3k3x3p2x1_reflect",

    /* Float64. */
    "n2c3h7w6o5k3x3p1x1_f64{|_dw}", "n2c4h9w7o6k3x2s2x1p1x2x0x1d1x2g2_f64_bias_residual_relu",
    "n1c33h5w4o17k1x1_f64{|_dx}", "n1c3h5w4o3k3x3_{f64_bias_sigmoid|f64_tanh}",
    "n1c64h5w5o3k5x5_f64{|_dw}", "n1c8h17w19o16k3x3p1x1_f64_bias",

    /* Long sums. */
    "n1c64h6w6o4k5x5{|_dx}", "n1c64h6w9o4k5x7{|_dw}", "n1c4096h1w2o3k1x1", "n1c500h5w8o2k5x8{|_dx}",

    /* Several tiles along every axis. */
    "n1c16h35w37o33k3x3p1x1_bias_relu{|_dw}", "n1c3h5w301o5k3x3p1x1", "n1c3h301w5o5k3x3p1x1{|_dx}",
    "n5c8h19w21o24k3x3s2x2p1x1{|_dw}", "n1c30h37w35o5k3x3p1x1_bias_relu",
    "n1c4h75w71o10k3x3s2x2p1x1g2{|_dx}", "n1c5h9w11o301k3x3p1x1_bias{|_dw}",
    "n131c3h3w3o139k2x2p1x1_bias_relu", "n67c6h5w4o14k3x2g2_residual{|_dx}",
    "n1c30h33w34o11k3x3p1x1_f64_bias{|_dw}", "n2c5h41w50o7k1x1_bias_relu",
    "n1c7h31w37o301k1x1_bias{|_dx}", "n2c6h33w35o14k1x1g2_bias_residual_tanh{|_dw}",
    "n1c9h41w50o131k1x1_f64_bias", "n1c3h131w37o3k3x3p1x1g3_bias_relu{|_dx}",
    "n2c5h61w67o5k3x3s2x2p1x1g5_bias{|_dw}", "n1c4h33w71o8k5x5p2x2g4_bias_residual",
    "n1c2h5w2101o2k3x3p1x1g2_bias_residual{|_dx}", "n1c2h4w3001o4k2x3s1x2p1x1g2_bias{|_dw}",
    "n1c2h9w71o2k3x3p1x17d1x17g2_bias", "n1c2h9w95o2k3x3s1x2p1x19d1x19g2{|_dx}",
    "n2c5h29w37o5k3x3p1x1g5_f64_bias{|_dw}", "n2c40h17w19o70k1x1",
    "n2c19h23w41o19k3x3p1x1g19{|_dx}",

    /* Networks' layers, reduced. */
    "n1c1h28w28o6k5x5p2x2_bias_relu", "n1c6h14w14o16k5x5_bias_relu",
    "n1c3h31w31o8k11x11s4x4p2x2_bias_relu", "n1c3h30w32o8k7x7s2x2p3x3", "n1c16h14w14o32k1x1s2x2",
    "n1c16h8w8o16k3x3p1x1_bias_residual_relu", "n1c32h14w14o32k3x3s2x2p1x1g32_bias_relu",
    "n1c32h7w7o32k3x3p1x1g8", "n1c8h15w15o8k3x3p6x6d6x6", "n1c16h9w9o16k1x7p0x3",
    "n1c16h12w12o16k3x3p1x1_bias_relu", "n1c1h41w20o4k10x5s2x1",

    /* Results larger than the caches. */
    "n2c80h130w140o80k3x3p1x1g80_bias", "n2c80h130w144o80k3x3p1x1g80{|_relu}",
    "n2c80h66w112o80k3x3p1x1g80_f64", "n1c64h112w112o33k3x3p1x1", "n1c16h250w260o40k1x1_bias",

    /* More networks: sound, segmentation, upsampling. */
    "n1c1h79w21o8k41x11s2x2p20x5", "n1c8h12w9o8k21x11s2x1p10x5", "n1c4h17w17o6k3x3p12x12d12x12",
    "n1c3h19w23o5k2x2s2x2", "n1c6h8w8o3k9x9p4x4_tanh",

    /* The two problems that talc began with, reduced. */
    "n2c8h32w24o16k5x7", "n1c64h12w11o16k5x7_bias", "n2c4h16w12o8k5x7_f64",
    "n2c8h16w12o16k5x7g4_bias", "n2c4h20w18o8k5x7s2x3", "n2c4h16w12o8k5x7p2x3", "n2c8h24w24o16k5x9",
    "n2c8h16w17o12k5x9_bias", "n2c8h17w19o12k5x9s2x1p3x4d1x2g2_bias",

    /* Few rows and a transposed B: one to 256 threads a column, columns that do not fill a block,
     * rows that are no multiple of four. */
    "n6c10h1w1o33k1x1_bias_silu",
    NULL,
};
// clang-format on
