/// Problems at the edges of every axis, grouped by the axis or the feature that they are about.
#include "check/sets/sets.h"

#include <stddef.h>

// clang-format off
const char *const talc_check_edges[] = {
    /* Batch. */
    "n{0|1|2}c3h5w4o2k3x3p1x1", "n3c2h6w5o5k3x2_bias{|_dw}", "n0c4h5w4o4k3x3p1x2g2_f64_bias_residual_relu",
    "n65537c1h1w2o1k1x2", "n65537c1h1w1o2k1x1_bias{|_dx}", "n1031c1h2w2o1k2x2p1x1{|_dw}",

    /* Input channels, around the widths of vectors and tiles. */
    "n1c{1|2|3|4|7|8|15|16|17|31|32|33}h6w5o3k3x3p1x1{|_dx}", "n1c{63|64|65}h4w5o5k3x3p1x1{|_dx}",
    "n1c127h4w5o5k2x3{|_dw}",

    /* Output channels. */
    "n2c3h5w6o{1|2|3|4|7|8|15|16|17|31|32|33}k3x3_bias{|_dw}", "n1c33h5w5o33k2x2{|_dx}",
    "n2c17h5w7o17k1x1{|_dw}", "n1c64h6w6o64k3x3p1x1", "n1c127h3w3o5k3x3p1x1{|_dx}",
    "n1c5h3w3o127k1x1_bias{|_dw}", "n1c3h5w6o{63|64|65|127|129}k3x3{|_dx}",

    /* Images that are not square, down to lines and points. */
    "n2c3h1w17o4k1x3p0x1{|_dx}", "n2c3h17w1o4k3x1p1x0{|_dw}", "n2c5h1w1o3k1x1_bias", "n2c3h1w1o3k3x3p1x1{|_dx}",
    "n1c2h33w3o3k3x3{|_dw}", "n1c2h3w33o3k3x3", "n1c3h7w8o4k3x3p1x1{|_dx}", "n1c3h8w7o4k3x3p1x1{|_dw}",
    "n1c3h13w28o4k3x3p1x1", "n1c3h28w13o4k3x3p1x1{|_dx}", "n1c2h33w31o2k3x3p1x1{|_dw}",

    /* Widths of the output around those of vectors, at either parity of the kernel. */
    "n1c3h3w{6|9|14|15|16|17|31|32|34|47|48|49|63|64|65|127|128|129}o5k3x3p1x1",
    "n1c2h4w{8|9|10|16|17|18|32|33|34}o3k2x2_bias{|_dx}",

    /* Depthwise, whose rows are as wide as a vector, one more, one less. */
    "n1c2h5w{8|9|10|15|16|17|18|19|31|32|33|34|35}o2k3x3g2{|_dw}", "n1c2h5w{7|15|16|17|31|32|33}o2k3x3p1x1g2",
    "n1c2h5w{16|17|18}o2k3x3p{0x1x0x0|0x0x0x1}g2{|_dx}", "n1c2h5w{8|9|10|16|17|18}o2k3x3g2_f64{|_dw}",
    "n1c2h5w{7|8|9}o2k3x3p1x1g2_f64{|_dx}",

    /* Images of one to three rows or columns, kernels of one to five. */
    "n1c2h1w3o3k2x2p1x1{|_dx}", "n1c2h1w3o3k3x3p2x2{|_dw}", "n1c2h{3|1}w1o3k4x4p2x2",
    "n1c2h{3|1}w1o3k5x5p3x3{|_dx}", "n1c2h1w{2|3}o3k5x5p4x4{|_dw}", "n1c2h2w1o3k5x5p2x2",
    "n1c2h3w3o3k5x5p1x1{|_dx}", "n1c2h2w2o3k4x4p1x1{|_dw}", "n1c2h3w1o3k3x3p2x2", "n1c2h1w3o3k1x5p0x2{|_dx}",
    "n1c2h3w1o3k5x1p2x0{|_dw}", "n1c2h1w3o3k1x4s1x2p0x3", "n1c2h3w1o3k4x1s2x1p3x0{|_dx}",

    /* Pointwise, with several tiles and a remainder. */
    "n1c265h4w5o193k1x1{|_dw}", "n1c193h3w4o542k1x1_bias", "n1c542h2w3o265k1x1{|_dx}",
    "n1c33h27w19o31k1x1s12x14{|_dw}", "n1c17h8w9o33k1x1s2x1_bias",

    /* Kernels. */
    "n2c3h9w10o4k{1x1|1x7|7x1|2x2|3x3|4x4|5x5|7x7|2x3|3x2|5x7|7x5|1x2|2x1}{|_dx|_dw}",
    "n1c2h13w12o3k11x11{|p5x5}{|_dw}", "n2c3h5w7o4k5x7_bias", "n2c3h5w9o4k5x3{|_dx}", "n2c3h9w5o4k3x5{|_dw}",
    "n1c2h3w4o3k7x7p2x2",

    /* Strides. */
    "n2c3h11w10o4k3x3s{2x2|3x3|1x2|2x1|3x1|1x3}p1x1{|_dx|_dw}", "n1c3h13w11o4k2x2s5x4{|_dw}",
    "n1c3h6w5o4k3x3s6x5p1x1", "n2c3h6w5o4k3x3s100x99p1x1{|_dx}", "n2c5h9w7o6k1x1s2x3{|_dw}",
    "n7c30h75w77o40k1x1s2x2", "n20c17h35w37o40k3x3s2x2p1x1{|_f64}",
    "n1c3h26w25o4k1x1s12x14", "n1c2h12w13o3k3x3s4x4{|_dx}", "n1c2h4w4o2k2x2s1000000000x1000000007{|_dw}",

    /* Rows and columns that no window reads. */
    "n1c2h8w9o3k3x3s2x2", "n1c2h13w11o3k2x2s4x5{|_dx}", "n1c2h10w10o3k1x1s3x3{|_dw}", "n1c2h9w9o3k3x3s4x4d4x4",

    /* Padding. */
    "n1c2h6w5o3k{1x1|2x2}p{1x1|2x2|3x3}{|_dx}", "n1c2h6w5o3k3x3p{2x2|3x3|5x5|1x0|0x2}{|_dw}",
    "n1c2h6w5o3k5x5p{1x1|2x2|3x3|4x4|5x5|7x7}{|_dx}", "n1c1h3w1o2k3x3p0x100{|_dx}",
    "n1c1h3w3o2k5x5s3x1p50x3{|_dw}", "n1c1h3w4o2k3x3p29x9d2x3",

    /* Windows entirely in the padding. */
    "n1c2h2w2o3k2x2p{4x4|5x4x0x0|0x0x5x4}_bias{|_dx}", "n2c2h3w3o3k1x1s1x2p2x0_bias{|_dw}",
    "n1c2h1w1o3k2x2s3x3p6x6", "n1c3h1w1o2k1x1s6x6p3x3_bias{|_dx}",

    /* Padding of its own on each side: top, left, bottom, right. */
    "n1c2h5w6o3k3x3p{1x0x0x0|0x1x0x0|0x0x1x0|0x0x0x1|1x2x3x4|4x3x2x1|0x0x1x1|1x1x0x0|2x0x0x3}{|_dx|_dw}",
    "n2c3h7w6o4k3x2s2x3p1x0x2x3_bias", "n2c3h7w6o4k3x2p1x0x2x3d2x3{|_dx}", "n1c3h7w6o4k4x2p1x0x2x1{|_dw}",
    "n1c4h5w6o6k3x3p0x1x2x0g2", "n1c1h3w3o2k2x2s2x2p0x0x1x37{|_dx}",

    /* Dilation. */
    "n2c3h10w11o4k3x3p1x2d{2x2|3x3|1x2|2x1|3x1|1x3}{|_dx|_dw}", "n1c2h4w4o3k2x2p3x3d5x5",
    "n1c3h5w4o3k1x1d7x9{|_dx}", "n2c3h12w13o4k3x2s2x3p2x1d2x4{|_dw}", "n1c3h9w9o2k4x4d2x2",
    "n1c1h30w31o2k3x3d13x14{|_dx}", "n1c2h3w3o2k1x1d1000000000x1000000000{|_dw}", "n1c2h2w3o3k2x2p5x5d6x7",

    /* The effective kernel is the padded input: one output. */
    "n2c3h5w7o4k5x7{|_dx}", "n1c3h5w4o4k7x8p1x2{|_dw}", "n1c3h7w5o4k4x3d2x2", "n1c3h5w3o4k4x3p1x1d2x2{|_dx}",
    "n1c2h2w2o3k3x4p1x0x0x2_bias{|_dw}", "n1c2h5w5o3k5x5s7x7", "n9c2h3w3o3k3x3{|_dx}",

    /* Groups. */
    "n2c4h6w5o6k3x3p1x1g2{|_dw}", "n2c2h6w5o6k3x3g2_bias", "n2c6h6w5o3k3x3g3{|_dx}",
    "n2c8h5w5o12k1x1g4_bias{|_dw}", "n2c6h11w9o4k3x2s2x1p1x1d1x2g2_bias", "n1c15h5w4o10k2x3g5{|_dx}",
    "n1c34h4w4o34k3x3p1x1g2{|_dw}", "n1c32h4w5o16k3x3p1x1g16", "n1c6h5w5o6k5x5p2x2g3{|_dx}",
    "n1c2h12w11o2k11x11p1x0g2{|_dw}",

    /* Depthwise: a group for each channel. */
    "n2c5h7w6o5k3x3p1x1g5", "n2c8h7w6o8k3x3p1x1g8_bias_relu{|_dx}", "n2c5h7w6o10k3x3p1x1g5_bias{|_dw}",
    "n1c4h6w7o12k2x3g4", "n2c7h9w8o7k3x3s2x2p1x1g7{|_dx}", "n2c7h17w17o7k3x3p1x0g7{|_dw}",
    "n1c3h5w31o3k3x5s1x10p1x2g3", "n1c4h9w8o4k3x3p2x3d2x3g4{|_dx}", "n1c3h9w11o3k5x7p2x3g3{|_dw}",
    "n2c6h4w5o6k1x1g6_bias", "n1c3h6w5o3k3x3p2x0x1x3g3{|_dx}", "n1c2h3w70o2k3x3p1x1g2{|_dw}",
    "n1c3h6w5o6k3x3p1x1g3_f64_bias", "n1c3h2w2o3k2x2p4x4g3_bias{|_dx}", "n1c16h1w1o16k3x3p1x1g16{|_dw}",
    "n3c40h7w7o40k7x7p3x3g40_bias_relu", "n2c33h14w14o33k5x5p2x2g33{|_dx}",
    "n3c5h28w28o5k5x5s2x2p2x2g5_bias{|_dw}", "n2c3h56w57o3k7x7p3x2x3x4g3_residual",
    "n1c2h150w60o2k3x3p1x1g2_f64_bias_residual_tanh{|_dx}", "n1c3h70w60o3k3x3s2x2p0x1x1x0g3{|_dw}",
    "n2c3h90w30o3k5x5p6x7g3", "n70c2h5w4o2k3x3p1x1g2_bias{|_dx}", "n1c33h5w5o33k3x3p1x1g33{|_dw}",
    "n1c2h12w13o2k11x11p5x5g2", "n1c3h11w13o3k2x2s4x5g3{|_dx}", "n37c3h7w7o3k3x3p1x1g3_residual_tanh{|_dw}",
    "n2c3h56w56o3k7x7p3x3g3_bias", "n2c2h100w21o2k5x5p2x2g2_f64_bias_relu{|_dx}",
    "n3c2h3w14o2k3x3p20x1x5x1g2_bias{|_dw}", "n1c2h9w63o2k7x7p0x3g2_f64", "n2c2h50w14o2k5x5p40x2x0x2g2{|_dx}",

    /* Weight gradients in registers: several images at a time, channels and columns around tiles,
     * rows of windows apart. */
    "n20c{3|16|33}h16w16o20k3x3p1x1_dw", "n31c1h28w28o6k5x5p2x2_dw", "n40c6h14w14o16k5x5_dw", "n37c20h4w5o33k3x3p1x1_dw",
    "n9c33h20w21o20k3x3s2x2p1x1_dw", "n20c9h40w32o16k3x3s{3x3|7x1}p1x1{|d2x1}_dw", "n8c6h30w41o16k5x5p2x2{|d1x2|d3x1}_dw", "n3c3h40w37o16k7x7s2x2p3x3_dw",
    "n5c20h17w20o16k3x3p0x1x2x0_f64_dw", "n30c6h20w20o12k3x3p1x1g3_dw", "n40c16h30w29o20k1x1s2x2_dw",

    /* Pointwise. */
    "n2c7h6w5o9k1x1{|_dw}", "n2c16h7w7o8k1x1_bias_relu", "n2c3h4w5o4k1x1p1x2_bias{|_dx}",
    "n2c3h4w5o4k1x1p{1x0x0x0|0x1x0x0|0x0x1x0|0x0x0x1}{|_dw}", "n2c3h5w4o4k1x1s2x1", "n2c3h4w5o4k1x1s1x2{|_dx}",
    "n3c1h5w6o1k1x1{|_dw}", "n2c5h4w3o6k1x1_{bias_residual_relu|f64_bias}", "n2c3h1w257o4k1x1",
    "n2c6h7w5o4k1x1s2x2g2{|_dx}",
    "n2c16h4w9o5k1x1{|_dx}", "n2c20h5w7o9k1x1_bias_residual_relu", "n1c48h7w7o96k1x1{|_dx}", "n3c66h4w6o8k1x1_bias_tanh",
    "n1c128h3w32o17k1x1{|_dx}", "n1c130h9w11o70k1x1{|_dx}", "n3c96h4w4o48k1x1g3_bias_residual_sigmoid",
    "n1c200h6w6o260k1x1g2_relu{|_dx}",

    /* Chunks of 32 channels of a tap, with a remainder, shared by a cluster of blocks, some of
     * which have none; phases of a stride. */
    "n1c{33|48|100}h7w7o70k3x3p1x1_bias_residual_relu{|_dx}", "n1c512h7w7o96k3x3p1x1", "n1c160h4w4o136k1x1_residual_silu{|_dx}",
    "n2c80h9w10o72k3x3s2x2p2x2d2x2g2_bias{|_dx}", "n9c64h15w14o130k1x1_bias_relu{|_dx}", "n3c20h40w41o48k3x3p1x1_residual_tanh",
    "n1c32h12w12o32k3x3s3x3p1x1_dx", "n3c40h15w13o33k5x3s2x1p2x1_dx",

    /* Rows copied whole, of several images; whole images; padding wider than the rows between them;
     * parts of the channels. */
    "n3c32h14w12o64k3x3p1x1_bias_residual_relu", "n9c32h7w7o128k3x3p1x1_residual", "n24c16h5w12o80k5x3p3x1",
    "n3c48h10w28o96k3x5p2x2g3_bias_silu", "n40c32h3w5o64k3x3p4x1",

    /* Bias, residual and activations. */
    "n2c3h7w6o5k3x3p1x1_{bias|residual|bias_residual|relu|bias_relu|sigmoid|bias_sigmoid}",
    "n2c3h7w6o5k3x3p1x1_{tanh|bias_tanh|residual_relu|relu6|hardsigmoid|hardswish|silu|bias_gelu|residual_leaky_relu}",
    "n2c3h7w6o5k3x3p1x1_{bias_residual_relu|bias_residual_sigmoid|bias_residual_tanh}", "n3c1h4w9o7k1x1_bias",
    "n2c4h9w7o6k3x3s2x2p1x1g2_residual_tanh",
    "n2c9h14w14o9k3x3p1x1g9_{bias_relu6|silu|residual_hardswish|bias_residual_sigmoid|gelu|leaky_relu|f64_silu}",
    "n2c3h10w150o3k3x3{p1x1|s2x2p1x1}g3_{bias_relu6|silu|residual_hardsigmoid|tanh|f64_gelu}",
    "n2c16h9w10o24k1x1_{bias_relu6|bias_residual_silu|hardswish|gelu}", "n2c16h9w41o18k3x3p1x1_{relu6|bias_residual_silu|sigmoid|tanh}",

    /* Padding modes. */
    "n2c3h6w5o4k3x3p1x1_{reflect|replicate|circular}",
    "n1c2h6w5o3k5x5p5x4_{bias_reflect|bias_replicate|bias_circular}",
    "n1c2h6w5o3k3x2p1x3x4x0_{reflect|replicate|circular}",
    "n2c2h7w8o3k3x3s2x3p3x4d2x2_{reflect|replicate|circular}",
    "n1c4h5w5o6k3x3p2x2g2_{bias_relu_reflect|bias_relu_replicate|bias_relu_circular}",
    "n1c4h5w6o4k3x3p1x1g4_{reflect|replicate|circular}",
    "n1c2h5w4o3k3x3p2x1_{f64_reflect|f64_replicate|f64_circular}",
    "n1c3h4w4o3k1x1p1x2_{reflect|replicate|circular}", "n1c2h5w4o3k3x3_{reflect|replicate|circular}",
    "n1c2h2w3o3k3x3p5x7_replicate", "n1c2h4w3o3k3x3p4x3_circular", "n1c2h4w3o3k3x3p3x2_reflect",
    "n1c2h1w1o3k3x3p2x2_replicate", "n1c2h1w1o3k3x3p1x1_circular", "n0c2h5w4o3k3x3p2x1_reflect",

    /* Float64. */
    "n2c3h7w6o5k3x3p1x1_f64{|_dw}", "n2c4h9w7o6k3x2s2x1p1x2x0x1d1x2g2_f64_bias_residual_relu",
    "n1c33h5w4o17k1x1_f64{|_dx}", "n1c3h5w4o3k3x3_{f64_bias_sigmoid|f64_tanh}", "n1c64h5w5o3k5x5_f64{|_dw}",
    "n1c8h17w19o16k3x3p1x1_f64_bias",

    /* Long sums. */
    "n1c64h6w6o4k5x5{|_dx}", "n1c64h6w9o4k5x7{|_dw}", "n1c4096h1w2o3k1x1", "n1c500h5w8o2k5x8{|_dx}",

    /* Several tiles along every axis. */
    "n1c16h35w37o33k3x3p1x1_bias_relu{|_dw}", "n1c3h5w301o5k3x3p1x1", "n1c3h301w5o5k3x3p1x1{|_dx}",
    "n5c8h19w21o24k3x3s2x2p1x1{|_dw}", "n1c30h37w35o5k3x3p1x1_bias_relu", "n1c4h75w71o10k3x3s2x2p1x1g2{|_dx}",
    "n1c5h9w11o301k3x3p1x1_bias{|_dw}", "n131c3h3w3o139k2x2p1x1_bias_relu", "n67c6h5w4o14k3x2g2_residual{|_dx}",
    "n1c30h33w34o11k3x3p1x1_f64_bias{|_dw}", "n2c5h41w50o7k1x1_bias_relu", "n1c7h31w37o301k1x1_bias{|_dx}",
    "n2c6h33w35o14k1x1g2_bias_residual_tanh{|_dw}", "n1c9h41w50o131k1x1_f64_bias",
    "n1c3h131w37o3k3x3p1x1g3_bias_relu{|_dx}", "n2c5h61w67o5k3x3s2x2p1x1g5_bias{|_dw}",
    "n1c4h33w71o8k5x5p2x2g4_bias_residual", "n1c2h5w2101o2k3x3p1x1g2_bias_residual{|_dx}",
    "n1c2h4w3001o4k2x3s1x2p1x1g2_bias{|_dw}", "n1c2h9w71o2k3x3p1x17d1x17g2_bias",
    "n1c2h9w95o2k3x3s1x2p1x19d1x19g2{|_dx}", "n2c5h29w37o5k3x3p1x1g5_f64_bias{|_dw}", "n2c40h17w19o70k1x1",
    "n2c19h23w41o19k3x3p1x1g19{|_dx}",

    /* Networks' layers, reduced. */
    "n1c1h28w28o6k5x5p2x2_bias_relu", "n1c6h14w14o16k5x5_bias_relu", "n1c3h31w31o8k11x11s4x4p2x2_bias_relu",
    "n1c3h30w32o8k7x7s2x2p3x3", "n1c16h14w14o32k1x1s2x2", "n1c16h8w8o16k3x3p1x1_bias_residual_relu",
    "n1c32h14w14o32k3x3s2x2p1x1g32_bias_relu", "n1c32h7w7o32k3x3p1x1g8", "n1c8h15w15o8k3x3p6x6d6x6",
    "n1c16h9w9o16k1x7p0x3", "n1c16h12w12o16k3x3p1x1_bias_relu", "n1c1h41w20o4k10x5s2x1",

    /* Results larger than the caches. */
    "n2c80h130w140o80k3x3p1x1g80_bias", "n2c80h130w144o80k3x3p1x1g80{|_relu}", "n2c80h66w112o80k3x3p1x1g80_f64",
    "n1c64h112w112o33k3x3p1x1", "n1c16h250w260o40k1x1_bias",

    /* More networks: sound, segmentation, upsampling. */
    "n1c1h79w21o8k41x11s2x2p20x5", "n1c8h12w9o8k21x11s2x1p10x5", "n1c4h17w17o6k3x3p12x12d12x12",
    "n1c3h19w23o5k2x2s2x2", "n1c6h8w8o3k9x9p4x4_tanh",

    /* The two problems that talc began with, reduced. */
    "n2c8h32w24o16k5x7", "n1c64h12w11o16k5x7_bias", "n2c4h16w12o8k5x7_f64", "n2c8h16w12o16k5x7g4_bias",
    "n2c4h20w18o8k5x7s2x3", "n2c4h16w12o8k5x7p2x3", "n2c8h24w24o16k5x9", "n2c8h16w17o12k5x9_bias",
    "n2c8h17w19o12k5x9s2x1p3x4d1x2g2_bias",

    /* Maxima: kernels and strides, different ones for height and width. */
    "max_pool2d:n0c3h6w5k2x2", "max_pool2d:n2c3h9w8k{1x1|2x2|1x4|4x1}", "max_pool2d:n2c3h9w8k3x3s{1x1|2x2}p1x1",
    "max_pool2d:n1c2h11w10k2x3s3x1", "max_pool2d:n1c2h11w10k5x4s1x2p2x2", "max_pool2d:n1c2h7w9k7x9{|p3x4}",
    "max_pool2d:n1c2h13w11k2x2s5x4", "max_pool2d:n1c2h5w6k3x2s100x99", "max_pool2d:n2c1h1w17k1x3p0x1",
    "max_pool2d:n2c1h17w1k3x1p1x0", "max_pool2d:n1c5h1w1k1x1", "max_pool2d:n1c5h1w1k2x2s1x1p1x1",

    /* Maxima: widths around those of vectors; many images and channels. */
    "max_pool2d:n1c2h5w{15|16|17}k3x3s1x1p1x1", "max_pool2d:n1c2h5w{33|65}k2x2",
    "max_pool2d:n1c3h4w301k3x3s2x2p1x1", "max_pool2d:n65537c1h2w1k2x1", "max_pool2d:n33c17h3w4k2x2s1x1",
    "max_pool2d:n9c50h4w5k3x3s1x1p1x1", "max_pool2d:n40c8h7w7k3x3s2x2p1x1",
    "max_pool2d:n1c3h20w21k3x3s1x1p1x1_f64", "max_pool2d:n2c3h34w34k3x3s2x2", "max_pool2d:n1c2h9w132k5x5s1x1",
    "max_pool2d:n1c2h9w132k3x3s1x1p1x1_indices", "max_pool2d:n40c8h6w6k2x2_f64",

    /* Maxima: a last window partly outside, dilation, windows without an element, indices. */
    "max_pool2d:n1c2h8w9k3x3s2x2{|p1x1}_ceil", "max_pool2d:n1c2h9w10k3x3s1x1p2x0x1x2_indices",
    "max_pool2d:n1c2h9w10k2x2s2x2p1x0x0x1_ceil", "max_pool2d:n1c2h9w10k3x2s2x1p3x0x4x2d2x3_ceil_indices",
    "max_pool2d:n1c2h1w1k3x3s1x1p2x2", "max_pool2d:n1c2h9w37k5x5s1x1p4x0x0x4_f64",
    "max_pool2d:n1c2h9w10k3x3s2x2p0x0x1x1", "max_pool2d:n1c2h7w7k2x2s3x3p1x1_ceil",
    "max_pool2d:n1c2h4w4k1x1s3x3_ceil", "max_pool2d:n1c2h5w5k2x2s4x4p1x1_ceil",
    "max_pool2d:n1c2h9w10k3x3s1x1d2x3", "max_pool2d:n1c2h9w10k3x3s2x1p1x1d3x2",
    "max_pool2d:n1c2h12w10k2x4s3x2p1x2d4x2_ceil", "max_pool2d:n1c1h2w2k2x2s1x1p1x1d3x3",
    "max_pool2d:n2c3h9w8k2x2_indices", "max_pool2d:n1c2h8w9k3x3s2x2p1x1_ceil_indices",
    "max_pool2d:n1c2h9w10k3x2s2x1p1x1d2x3_indices", "max_pool2d:n1c2h9w8k3x3s2x2p1x1_f64",
    "max_pool2d:n1c2h9w8k2x2_indices_f64", "max_pool2d:n3c2h14w14k3x3s2x2p1x1_ceil",
    "max_pool2d:n3c2h14w22k3x3s2x2p1x1_ceil_indices",

    /* Averages: kernels, strides, padding that counts and that does not. */
    "avg_pool2d:n0c3h6w5k2x2", "avg_pool2d:n2c3h9w8k{1x1|2x2}", "avg_pool2d:n2c3h9w8k3x3s1x1p1x1{|_exclude}",
    "avg_pool2d:n2c3h9w8k3x3s2x2p1x1", "avg_pool2d:n1c2h9w8k4x1s3x1p2x0",
    "avg_pool2d:n1c2h9w8k1x4s1x3p0x2_exclude", "avg_pool2d:n1c2h7w9k7x9",
    "avg_pool2d:n1c2h7w9k7x9p3x4{|_exclude}", "avg_pool2d:n1c2h13w11k2x2s5x4", "avg_pool2d:n1c5h1w1k1x1",
    "avg_pool2d:n1c5h1w1k3x3s1x1p1x1{|_exclude}", "avg_pool2d:n65537c1h1w2k1x2",
    "avg_pool2d:n1c2h5w17k3x3s1x1p1x1", "avg_pool2d:n1c2h5w65k2x2", "avg_pool2d:n1c1h150w140k140x130",

    /* Averages: a last window partly outside, a divisor, f64. */
    "avg_pool2d:n1c2h8w9k3x3s2x2_ceil",
    "avg_pool2d:n1c2h8w9k3x3s2x2p1x1_{ceil|ceil_exclude|ceil_exclude_divisor5|ceil_exclude_f64}",
    "avg_pool2d:n1c2h9w10k3x3s1x1p2x0x1x2", "avg_pool2d:n1c2h9w10k2x2s2x2p1x0x0x1_ceil",
    "avg_pool2d:n1c2h9w10k4x3s3x2p0x2x3x1_ceil_exclude", "avg_pool2d:n1c2h1w1k3x3s1x1p2x2_exclude",
    "avg_pool2d:n1c2h9w37k5x5s1x1p4x0x0x4_exclude", "avg_pool2d:n1c2h9w10k3x3s2x2p0x0x1x1_f64",
    "avg_pool2d:n1c2h7w7k2x2s3x3p1x1_ceil", "avg_pool2d:n1c2h5w5k2x2s4x4p1x1_ceil_exclude",
    "avg_pool2d:n1c2h9w8k3x3s2x2p1x1_divisor7", "avg_pool2d:n1c2h9w8k3x3_divisor1",
    "avg_pool2d:n1c2h9w8k3x2s2x1p1x1_f64", "avg_pool2d:n9c50h6w6k2x2",
    "avg_pool2d:n9c50h5w4k3x3s1x1p1x1_exclude_f64", "avg_pool2d:n40c8h6w6k2x2_f64",
    "avg_pool2d:n40c8h5w5k5x5s1x1p2x2{|_f64}", "avg_pool2d:n1c2h9w132k5x5s1x1p2x2_f64",
    "avg_pool2d:n1c2h9w132k3x3s1x1", "avg_pool2d:n3c2h14w22k3x3s2x2p1x1_ceil",
    "avg_pool2d:n3c2h22w14k3x3s2x2p1x1_ceil_exclude",

    /* Adaptive averages: one output, as many as inputs, more, windows that overlap. */
    "adaptive_avg_pool2d:n0c2h5w4o2x2", "adaptive_avg_pool2d:n2c3h7w6o{1x1|7x6}",
    "adaptive_avg_pool2d:n1c3h7w6o3x4{|_f64}", "adaptive_avg_pool2d:n1c3h7w6o{10x13|1x6|7x1}",
    "adaptive_avg_pool2d:n1c3h1w1o3x2", "adaptive_avg_pool2d:n1c2h33w35o5x7",
    "adaptive_avg_pool2d:n1c2h64w65o1x1", "adaptive_avg_pool2d:n5c3h14w14o7x7",
    "adaptive_avg_pool2d:n2c3h70w6o35x3_f64", "adaptive_max_pool2d:n2c3h7w6o{1x1|7x6|10x13|0x4}{|_indices}",
    "adaptive_max_pool2d:n1c2h90w1000o2x9{|_indices_f64}", "adaptive_max_pool2d:n5c70h7w7o1x1",

    /* Pooling of wide images: rows longer than a block, aligned and not; tall windows, wide
     * windows. */
    "{max_pool2d|avg_pool2d}:n1c2h5w128k3x3s1x1p1x1", "max_pool2d:n2c3h37w131k3x3s1x1p1x1{|_indices}",
    "{max_pool2d|avg_pool2d}:n1c2h140w130k3x3s1x1", "max_pool2d:n1c2h9w513k3x3s1x1p0x1",
    "{max_pool2d|avg_pool2d}:n1c3h2w270k3x3s1x1p1x0", "max_pool2d:n1c1h1w300k3x3s1x1p1x1",
    "max_pool2d:n1c2h9w400k3x3s1x1p1x1_indices_f64", "max_pool2d:n1c2h9w257k3x3s1x1_f64",
    "max_pool2d:n1c2h9w260k3x3s2x2p1x1", "max_pool2d:n1c2h11w262k2x2", "max_pool2d:n1c2h7w300k5x5s1x1p2x2",
    "max_pool2d:n1c2h40w37k9x9s4x4p4x4_ceil", "max_pool2d:n3c5h40w37k8x8_indices",
    "max_pool2d:n1c2h64w300k30x10s3x5", "{max_pool2d|avg_pool2d}:n1c2h90w1000k40x12s11x13",
    "max_pool2d:n1c2h30w64k9x12s1x1p4x6_indices_f64", "avg_pool2d:n2c3h37w131k3x3s1x1p1x1_exclude",
    "avg_pool2d:n1c2h9w513k3x3s1x1p0x1_divisor7", "avg_pool2d:n1c2h9w257k3x3s1x1p1x1_exclude_f64",
    "avg_pool2d:n1c2h9w262k3x3s2x2p1x1_exclude", "avg_pool2d:n1c2h12w260k4x4",
    "avg_pool2d:n1c2h40w37k9x9s4x4p4x4_ceil_exclude", "avg_pool2d:n3c5h40w37k8x8",
    "avg_pool2d:n1c2h30w64k9x12s1x1p4x6_f64", "adaptive_avg_pool2d:n2c3h64w56o7x7",
    "adaptive_avg_pool2d:n2c33h16w16o7x7", "adaptive_avg_pool2d:n1c3h300w200o7x5",
    "adaptive_avg_pool2d:n1c2h1000w130o1x3", "adaptive_avg_pool2d:n1c2h90w1000o2x9_f64",
    "adaptive_avg_pool2d:n5c70h7w7o1x1",

    /* Pooling of narrow images, of few and of many of them, and with windows of every shape. */
    "max_pool2d:n3c50h7w7k3x3s1x1p1x1", "max_pool2d:n2c33h14w14k5x5s1x1p2x2_indices",
    "max_pool2d:n1c3h200w64k3x3s1x1p1x1", "max_pool2d:n1c3h100w81k5x5s1x1p1x2_indices",
    "max_pool2d:n2c70h13w13k3x3s2x2_ceil_indices", "max_pool2d:n2c70h14w28k2x2_ceil",
    "max_pool2d:n1c3h210w55k3x3s2x2p1x1_ceil_indices_f64", "max_pool2d:n1c2h40w300k5x5s1x1p2x2_indices",
    "max_pool2d:n1c2h40w257k5x5s1x1p1x0_f64", "max_pool2d:n2c40h6w4k5x5s1x1p2x2",
    "max_pool2d:n1c2h600w90k3x60s7x30", "max_pool2d:n1c2h90w40k2x3s9x2",
    "avg_pool2d:n3c50h7w7k3x3s1x1p1x1_exclude", "avg_pool2d:n1c3h200w56k5x5s1x1p2x2_exclude",
    "avg_pool2d:n2c33h15w14k5x5s1x1p2x1", "avg_pool2d:n1c3h100w64k3x3s1x1p1x1_divisor4_f64",
    "avg_pool2d:n2c70h13w13k3x3s2x2p1x0_ceil_exclude", "avg_pool2d:n2c70h14w14k2x2",
    "avg_pool2d:n1c2h40w300k5x5s1x1p2x2_exclude", "avg_pool2d:n1c2h300w300k100x100s90x90p10x10",
    "adaptive_avg_pool2d:n3c50h16w16o7x7_f64", "adaptive_avg_pool2d:n1c70h14w14o7x3",
    "adaptive_avg_pool2d:n1c3h500w500o7x7", "adaptive_avg_pool2d:n2c3h40w50o1x1",

    /* Pooling of more small images than a GPU has blocks at once. */
    "max_pool2d:n9001c1h5w7k3x3s1x1p1x1_indices", "max_pool2d:n9001c1h7w5k5x5s1x1p2x2_f64",
    "avg_pool2d:n9001c1h3w13k3x3s1x1p1x1_exclude", "adaptive_avg_pool2d:n9001c1h5w6o3x4",
    "adaptive_avg_pool2d:n4100c1h{7w7|14w14|28w27}o1x1", "adaptive_avg_pool2d:n4100c1h5w7o1x1_f64", "max_pool2d:n4100c1h7w7k7x7_indices", "max_pool2d:n4100c1h14w9k9x8s9x9_indices",

    /* Pooling: images about as large as a warp. */
    "max_pool2d:n9c7h8w8k3x3s1x1p1x1", "max_pool2d:n9c7h16w4k3x3s1x1p1x1_f64",
    "max_pool2d:n9c7h8w8k5x5s1x1p2x2_f64", "avg_pool2d:n9c7h8w16k3x3s1x1p1x1",
    "avg_pool2d:n9c7h4w8k3x3s1x1p1x1_exclude", "avg_pool2d:n9c7h10w12k5x5s1x1p2x2_exclude",
    "avg_pool2d:n9c7h4w14k5x5s1x1p2x2_exclude_f64",

    /* Pooling: rows of the output of two to nineteen columns. */
    "max_pool2d:n9c7h6w6k3x3s1x1p1x1", "max_pool2d:n9c7h12w12k5x5s1x1p2x2",
    "max_pool2d:n9c7h9w{19|9}k5x5s1x1p2x2", "max_pool2d:n9c7h5w5k5x5s1x1p2x2",
    "max_pool2d:n9c7h11w11k3x3s2x2p1x1", "max_pool2d:n9c7h13w13k3x3s2x2p1x1",
    "avg_pool2d:n9c7h2w6k3x3s1x1p1x1_exclude", "avg_pool2d:n9c7h5w5k3x3s1x1p1x1_exclude",
    "avg_pool2d:n9c7h3w3k5x5s1x1p2x2_exclude", "avg_pool2d:n9c7h9w19k5x5s1x1p2x2_exclude",
    "avg_pool2d:n9c7h6w10k5x5s1x1p2x2_divisor7", "avg_pool2d:n9c7h11w11k5x5s1x1p2x2_exclude",
    "avg_pool2d:n9c7h7w7k3x3s2x2p1x1_exclude", "avg_pool2d:n9c7h11w11k3x3s2x2p1x1_ceil_exclude",
    "avg_pool2d:n9c7h5w3k3x3s1x1p1x1_exclude_f64",

    /* Products: each extent around the widths of vectors and tiles. */
    "matmul:m1n1k{1|300}", "matmul:m1n17k9", "matmul:m17n1k9", "matmul:m2n3k4", "matmul:m3n3k1",
    "matmul:m5n7k{8|5000}", "matmul:m7n8k15", "matmul:m8n9k16", "matmul:m15n16k17", "matmul:m16n17k31",
    "matmul:m17n15k32", "matmul:m31n33k33", "matmul:m32n32k32", "matmul:m33n31k64", "matmul:m63n65k7",
    "matmul:m64n64k64", "matmul:m65n63k65", "matmul:m127n129k5", "matmul:m129n127k3", "matmul:m300n5k7",
    "matmul:m5n300k7", "matmul:m2n2k100001",

    /* Products: transposed operands, batches, epilogues, f64. */
    "matmul:{|b3}m9n11k13_{ta|tb}",
    "matmul:m9n11k13_{ta_tb|bias|residual|relu|sigmoid|bias_tanh|bias_residual_relu|hardswish|bias_silu|gelu_f64|leaky_relu|f64}", "matmul:m1n11k13_ta",
    "matmul:m9n1k13_tb", "matmul:m33n35k31_ta_tb", "matmul:b0m3n4k5", "matmul:b2m9n11k13{|_tb_bias_relu_f64}",
    "matmul:b5m1n1k7_ta_tb", "matmul:b300m2n3k4", "matmul:b2m33n17k9_tb_bias_residual_relu",
    "matmul:m33n31k65_ta_f64", "matmul:m5n7k5000_f64",

    /* Few rows and a transposed B: one to 256 threads a column, columns that do not fill a block,
     * rows that are no multiple of four. */
    "matmul:m1n67k{10|100}_tb_bias", "matmul:m6n67k{1|4|8|24|48|240|1152|4100}_tb_bias", "matmul:b3m7n9k{20|600}_tb_residual_f64",
    "matmul:m128n3k12_tb", "n6c10h1w1o33k1x1_bias_silu",

    /* Batch normalisation: running statistics and those of the batch, one value a channel, many. */
    "group_norm:n0c4l5g2", "group_norm:n2c4l0g2", "group_norm:n{1|300}c{1|3}l1g1", "group_norm:n3c6l7g{1|3|6}{|_f64|_relu|_relu6|_sigmoid|_silu|_tanh|_plain}",
    "group_norm:n{3|70}c{8|33|192|257|768|1027}l1g1{|_f64}", "group_norm:n2c{4095|8192|9001|16384|16388|16385|40000|70001}l1g1",
    "group_norm:n2c4l{16|49|3136|9000|20011}g2{|_f64}", "group_norm:n1c2l70000g1_tanh", "group_norm:n5c6l9g3_eps0", "group_norm:n1c131l127g1",
    "batch_norm2d:n0c3h4w5", "batch_norm2d:n1c{1|5}h1w1",
    "batch_norm2d:n2c3h5w7{|_relu|_sigmoid|_tanh|_relu6|_hardswish|_silu|_gelu_f64|_leaky_relu|_f64|_train|_train_relu|_train_f64}",
    "batch_norm2d:n1c33h3w5_{relu|train}", "batch_norm2d:n3c17h1w65{|_train_tanh}", "batch_norm2d:n1c2h100w101",
    "batch_norm2d:n2c1h1w1_train", "batch_norm2d:n1c5h1w2_train", "batch_norm2d:n65c2h1w1_train",
    "batch_norm2d:n2c2h100w101_train", "batch_norm2d:n1c2h300w301_train_relu",
    "batch_norm2d:n3c2h100w100_train", "batch_norm2d:n2c2h100w100_train_f64", "batch_norm2d:n400c3h7w7_train",
    "batch_norm2d:n200c3h7w7_train_tanh_f64", "batch_norm2d:n340c22h7w7_train",
    "batch_norm2d:n90c5h15w15_train", "batch_norm2d:n2000c6h3w3_train_relu",
    "batch_norm2d:n340c12h7w7_train_f64", "batch_norm2d:n9000c2h1w2_train", "batch_norm2d:n70c3h17w17_train",
    "batch_norm2d:n6c2h71w71_train_f64", "batch_norm2d:n20c3h33w35_train_relu", "batch_norm2d:n1c2h400w40{0|1}_train",
    "batch_norm2d:n2c3h5w7_residual{|_relu|_f64|_train|_train_tanh|_train_plain_untracked_f64}",
    "batch_norm2d:n3c2h100w{100|101}_residual_train_relu", "batch_norm2d:n1c33h3w5_residual_sigmoid",
    "batch_norm2d:n1c2h300w301_residual_train_f64", "batch_norm2d:n90c5h15w15_residual{_relu|_train}",

    /* Reductions: of all dimensions, the first, the last, one between, several, neighbours and
     * not. */
    "sum:{1|7}", "sum:8x16x32{|@0|@2|@0,1|@1,2}", "{sum|mean|max|argmax|min|argmin|var|logsumexp}:8x16x32@{1|0,2}",
    "sum:3x4x5x6x7@{1,3|0,2,4}", "sum:2x3x2x3x2x3x2x3@{0,2,4,6|1,3,5,7}", "sum:5x1x7@1", "sum:1x9@0",
    "{mean|argmax}:17x33",

    /* Reductions: neighbouring outputs in vector loads, lengths below and above the threads of a
     * block. */
    "{sum|max|argmax}:5x33x64@1{|_f64}", "mean:40x8x8@0", "sum:20001x64@0", "argmax:20001x64@0{|_f64}",
    "{sum|argmax}:19x5x7x7@0,2,3", "max:3x5x40x41@0,2,3", "argmax:3x5x40x40@0,2,3", "sum:3x5x4x5x8@0,2,4",

    /* Reductions: rows that are no multiple of a vector load, many short ones, few long ones. */
    "{sum|argmax}:{3001x10|41x1001|203x100x3}@1", "max:{9001x4|700x49|301x127|211x31x9}@1",
    "mean:{2003x8|301x49|57x30x49}@1_f64", "argmax:{1027x32|2x40005|9001x8}@1", "sum:{531x64|3x20003|3001x8}@1",
    "argmax:531x64@1_i64", "argmax:301x63@1_f64", "sum:2001x50@1_u8", "max:41x1001@1_f64", "sum:3x40005@1_f64",
    "{min|argmin}:{3x40005@1|20001x64@0}{|_f64}", "{min|argmin}:531x64@1{|_i64|_i32|_u8}",
    "{var|logsumexp}:{3x40005@1|20001x64@0|531x64@1|9001x4@1|301x49@1|19x5x7x7@0,2,3|203x100x3@1}{|_f64}",
    "var:{1x9|7x5}@0{|_population}", "var:{1000x5@0|5x129@1|70001}{|_reversed}_f64{|_population}_large",
    "argmax:1x40007@1_u8", "argmax:57x12x63@1_i32",

    /* Reductions across rows that are no multiple of 16 bytes: few rows, many rows, several
     * blocks. */
    "argmax:{66x1001|20003x17}@0", "sum:3x701x49@1", "max:5x301x254@1", "argmax:9x501x17@1_f64",
    "argmax:701x5x9@2_reversed",

    /* Reductions of each channel, with images that are no multiple of 16 bytes: many small ones,
     * few large ones. */
    "{sum|argmax}:{60x22x7x7|33x5x17x17}@0,2,3", "max:{200x3x7x7|300x3x19x17}@0,2,3",
    "{mean|argmax}:33x5x15x15@0,2,3", "sum:3000x2x3@0,2", "argmax:500x7x255@0,2",
    "sum:{60x12x7x7|200x2x19x17}@0,2,3_f64", "argmax:61x21x3x3@0,2,3_f64", "max:61x21x1x2@0,3_f64",
    "sum:61x21x7x7@0,2,3_i32", "argmax:5x7x3x19x17@1,3,4", "mean:4x3x135x131@0,2,3",
    "argmax:40x5x19x17@0,2,3_u8",

    /* Reductions: lengths around those of vectors, blocks and pairwise halves. */
    "sum:{3x2|3x15|3x16|3x17|3x31|3x33|3x127|3x128|3x129|3x136|3x137|3x255|3x257|3x1023|3x1025|3x4097}@1",
    "mean:5x129@1", "mean:129x5@0", "max:5x17@1", "max:17x5@0", "argmax:5x33@1", "argmax:33x5@0",

    /* Reductions: rows of more than a million, many short rows, empty results. */
    "{sum|max|argmax}:1200001", "mean:1048577", "sum:2x600001@1", "sum:{600001x2|3x70001|0x5}@0",
    "{sum|max}:{70001x3|0x5}@1", "{mean|argmax}:70001x2@1",

    /* Reductions: every type. */
    "{sum|max}:9x33@1_f64", "{mean|argmax}:9x33@0_f64", "{sum|max|argmax}:9x33@1_i32",
    "{sum|max|argmax}:9x33@0_i64", "sum:300x9@0_u8", "{max|argmax}:9x33@1_u8", "sum:1000003_f64",

    /* Softmax: one element, long rows, many rows, a dimension that is not the last, f64. */
    "softmax:{1|7|1x9|17x4|10007x2}@0", "softmax:{5x1|4x17|5x16x9|5x33x1|3x1000|2x30011|10007x3|0x4}@1",
    "softmax:3x4x5x6@{0|2}", "{softmax|log_softmax}:9x65@1_f64", "softmax:65x9@0_f64", "log_softmax:{7|17x4}@0",
    "log_softmax:{5x1|4x17|5x16x9|2x10007}@1",

    /* Cross entropy: one class, one sample, many of either; classes for a thread, a warp or a
     * block. */
    "cross_entropy:{1x1|5|7x31|4099x10|2x5x40x41}", "cross_entropy:{1x9|100003x3}_sum",
    "cross_entropy:{9x33|2x30011|3x1023x7|0x4}_none", "cross_entropy:{3x2047|3x2049}_smooth",
    "cross_entropy:3x1025x7_none_smooth", "cross_entropy:2x3x4x5x6_ignore", "cross_entropy:65x100_f64",
    "cross_entropy:3x50000_sum_f64", "cross_entropy:2x21x9x7_smooth_ignore_f64", "cross_entropy:65x33_reversed",
    "cross_entropy:5x16x9_reversed_none",
    "cross_entropy:{7x31|4099x10_sum|3x2049_smooth|2x5x40x41_smooth|9x33_none_smooth_ignore}_weighted",
    "cross_entropy:3x2049_smooth_weighted_f64",

    /* Softmax: lengths for a warp, a block, and more; multiples of 16 bytes and not; contiguous and
     * strided. */
    "softmax:{33x64|5x520|5x521|3x2052|3x4097|9x17x70}@1", "log_softmax:1x16388@1",
    "softmax:{3x2052|1x16390}@1_f64", "log_softmax:3x1030@1_f64", "softmax:{140x70|700x35|1100x35}@0",
    "log_softmax:3000x35@0", "softmax:{10x33|140x35}@0_f64", "log_softmax:3000x17@0_f64",

    /* Softmax: rows for one thread, unaligned rows, lengths around what a cluster of blocks
     * holds. */
    "softmax:{70x10|40x8|7x1001|3x16387|2x32767|3x32769|2x131075|1x458752|1x458753|3x64x68|2x1000x12}@1",
    "log_softmax:{33x31|5x8191|2x65537|1x458749|2x200x36}@1", "softmax:{65x15|3x1001|2x60001|3x7x2x6}@1_f64",

    /* Strides: one matrix for the whole batch, gaps between rows, dimensions stored in reverse. */
    "matmul:b3m9n11k13_{onea|oneb|ta_onea_oneb|tb_oneb_gaps_bias}", "matmul:b2m9n11k13_gaps",
    "matmul:m33n17k9_ta_tb_gaps_f64", "matmul:m9n11k0_bias_relu", "sum:8x16x33@{1|0,2}_reversed",
    "mean:17x129@1_reversed", "{max|log_softmax}:9x65@0_reversed", "argmax:9x65@1_reversed",
    "argmax:5x6x7@0,2_reversed_u8", "sum:3x70001@1_reversed_f64", "softmax:{9x65|5x16x9}@1_reversed",

    /* Normalisation without its extras, at the ends of momentum and eps; scalars and empty
     * results. */
    "batch_norm2d:n2c3h5w7_{plain|train_plain|train_untracked_relu|train_plain_untracked}",
    "batch_norm2d:n2c3h5w7_{train_momentum0|train_momentum1|eps0|train_eps0_f64}",
    "adaptive_avg_pool2d:n2c3h7w6o0x4", "{sum|argmax}:", "softmax:@0", "log_softmax:@0_f64",

    /* Channels around the widths of vectors and tiles; transposed products whose sums are longer
     * than a block. */
    "max_pool2d:n1c33h5w6k3x3s2x2p1x1_indices", "{max_pool2d|avg_pool2d}:n2c70h3w5k2x2",
    "{max_pool2d|avg_pool2d}:n1c130h3w3k2x2", "avg_pool2d:n1c33h5w6k3x3s2x2p1x1",
    "adaptive_avg_pool2d:n1c33h5w7o2x3", "adaptive_avg_pool2d:n2c70h3w5o2x2",
    "adaptive_avg_pool2d:n1c130h3w3o1x1", "batch_norm2d:n2c65h3w5{|_train}",
    "batch_norm2d:n1c130h3w5_{relu|train_relu}", "batch_norm2d:n2c300h2w3{|_train}",
    "matmul:m9n11k513_{ta|tb|ta_tb|ta_f64|ta_tb_f64}", "matmul:b2m5n7k2049_ta_tb_bias",

    /* Padding: each side, each mode, all that the mode allows; cut to nothing; an empty image;
     * ranks; wide rows; every type. */
    "pad:5x7p{1x0|0x0x0x1|9x40x3x2}{_value|_replicate}", "pad:5x7p{0x1|0x0x1x0|9x40x3x2}{|_replicate}_dx", "pad:5x7c{3x4|0x0x5x0}",
    "pad:1x5x7p{6x6x4x4_reflect|1x2x3x4_reflect|7x7x5x5_circular|1x2x3x4_circular}{|_dx}", "pad:2x1x1p{3x2x1x4_replicate|1x0x1x1_circular}{|_dx}",
    "pad:5x7p2x0c0x3_{reflect|replicate}{|_dx}", "pad:0x3p1x2x2x1_value", "pad:7p2x3{_value|_reflect_dx}", "pad:2x3x2x3x2x3x2x3p1x0x0x1x1x1x0x0x2x1{|_dx}",
    "pad:3x4x5x6p1x2x3x1x2x0_{reflect_f64|replicate|circular_f64}{|_dx}", "pad:9x{15|16|17|1021}p1x1", "pad:3x10001p5x3_reflect{|_dx}",
    "pad:10001x3p1x1{|_dx}", "pad:5x33p1x2_{value_i64|value_i32|value_u8|reflect_u8|circular_i32|replicate_i64}",

    /* Upsampling: one element, to one, as many, fewer, twice, factors, wide rows, many planes,
     * every type. */
    "upsample2d:n1c2h1w1o3x5{|_bilinear|_aligned}{|_dx}", "upsample2d:n2c3h5w7o{1x1|5x14|4x3|11x29}{|_bilinear|_aligned}{|_dx}",
    "upsample2d:n1c2h9w8f{3x2|2x3}{|_bilinear|_aligned}{|_dx}", "upsample2d:n1c2h3w129o7x300{|_bilinear|_aligned_f64}{|_dx}",
    "upsample2d:n70c33h3w2o6x4{|_bilinear|_aligned_f64}{|_dx}", "upsample2d:n0c2h3w2o6x4{|_bilinear_dx}", "upsample2d:n1c3h5w7o9x16_{i64|i32|u8}",
    "upsample2d:n1c2h2w3o70x65{|_bilinear|_aligned}_dx",

    /* Picking: each dimension, one element, many of few, few of many, an index smaller than x,
     * none, every type. */
    "{relu|sigmoid|tanh|relu6|hardsigmoid|hardswish|silu|gelu|leaky_relu|gelu_tanh|mish|elu|hardtanh|softplus|neg|exp|log|sqrt|rsqrt|abs|floor|sign}:{|1|20001|33x129_reversed|5x3x7x11_f64}{|_dx}", "{sigmoid|silu|mish|gelu|softplus}:40001_f64{|_dx}",
    "{add|sub|mul|div|pow|maximum|minimum|equal|not_equal|less|less_equal|greater|greater_equal}:{|1|20001|33x129_reversed|5x3x7x11,7x1_f64|,7|1x40,30x1|300,0x300}",
    "{add|sub|mul|maximum|minimum|equal|not_equal|less|less_equal|greater|greater_equal}:{4099|33x129,129_reversed}_{i64|i32|u8}",
    "{add|sub|mul|div|pow|equal|less}:{1|4099|33x129_reversed}_scalar{|_f64}", "neg:{1|4099|33x129_reversed}_{i64|i32|u8}",
    "where:{|1|20001|33x129,129|129,33x1|3x1x5,4x1,5|,7,3x1|300,0x300}{|_f64|_u8}", "where:33x129_reversed{|_i64|_i32}",
    "cumsum:{@0|1@0|20001@0|3x7001@1|7001x3@0|5x33x9@1|2x3x2x3x2x3x2x3@5|0x5@1|5x0@1}{|_f64}{|_dx}", "cumsum:33x129@{0|1}_reversed{|_dx|_dx_f64}",
    "cumprod:{@0|1@0|20001@0|3x7001@1|7001x3@0|5x33x9@1|2x3x2x3x2x3x2x3@5|0x5@1|5x0@1}{|_f64}{|_dx}", "cumprod:33x129@{0|1}_reversed{|_f64}",
    "rmsprop:{1|4099}{|_centered}{|_momentum}{|_decay}{|_f64}", "adam:{1|4099}{|_decay}{|_decoupled}{|_f64}", "sgd:{1|4099}{|_momentum|_momentum_nesterov|_momentum_first}{|_decay}{|_f64}",
    "gather:{5x7x3@0i9x7x3|5x7x3@1i5x20x3|5x7x3@2i2x3x4|7@0i9001|70001@0i5}{|_reversed|_dx|_dx_f64}",
    "index_select:{5x7x3@0i9|5x7x3@1i20|5x7x3@2i4|7@0i9001|70001@0i5}{|_reversed|_dx|_dx_f64}",
    "gather:{1@0i1|9x300@0i4x257|300x9@1i300x40|3x2x5x2x3@2i3x2x8x2x3}{|_dx}", "gather:{0x3@1i0x2|5x3@0i0x3}{|_dx}",
    "index_select:{1@0i1|9x300@0i40|3x2x5x2x3@2i8|1001x33@0i700}{|_dx}", "index_select:{0x3@1i2|5x3@0i0}{|_dx}", "{gather:5x7@1i5x9|index_select:5x7@1i9}_{i64|i32|u8}",

    NULL,
};
// clang-format on
