/// The layers of known networks on one image, each distinct one once.
#include "check/sets/sets.h"

#include <stddef.h>

// clang-format off
const char *const talc_check_models[] = {
    /* The two problems that talc began with, one image. */
    "n1c64h512w256o128k5x7", "n1c32h512w512o64k5x9",

    /* LeNet-5. */
    "n1c1h28w28o6k5x5p2x2_bias_relu", "n1c6h14w14o16k5x5_bias_relu", "max_pool2d:n1c6h28w28k2x2",
    "max_pool2d:n1c16h10w10k2x2", "avg_pool2d:n1c6h28w28k2x2", "avg_pool2d:n1c16h10w10k2x2",
    "matmul:m1n120k400_tb_bias_relu", "matmul:m1n84k120_tb_bias_relu", "matmul:m1n10k84_tb_bias",
    "softmax:1x10@1", "log_softmax:1x10@1", "cross_entropy:128x10",

    /* ResNet-20 on CIFAR. */
    "n1c3h32w32o16k3x3p1x1", "n1c16h32w32o16k3x3p1x1", "n1c16h32w32o32k3x3s2x2p1x1", "n1c32h16w16o32k3x3p1x1",
    "n1c32h16w16o64k3x3s2x2p1x1", "n1c64h8w8o64k3x3p1x1", "n1c16h32w32o32k1x1s2x2", "n1c32h16w16o64k1x1s2x2",
    "batch_norm2d:n1c16h32w32_relu", "batch_norm2d:n1c32h16w16_relu", "batch_norm2d:n1c64h8w8_relu",
    "batch_norm2d:n1c16h32w32", "batch_norm2d:n1c32h16w16", "batch_norm2d:n1c64h8w8",
    "adaptive_avg_pool2d:n1c64h8w8o1x1", "matmul:m1n10k64_tb_bias",

    /* ResNet-18 and ResNet-50: the stem, the stages, the head. */
    "n1c3h224w224o64k7x7s2x2p3x3", "max_pool2d:n1c64h112w112k3x3s2x2p1x1", "n1c64h56w56o64k3x3p1x1",
    "n1c64h56w56o128k3x3s2x2p1x1", "n1c128h28w28o128k3x3p1x1", "n1c128h28w28o256k3x3s2x2p1x1",
    "n1c256h14w14o256k3x3p1x1", "n1c256h14w14o512k3x3s2x2p1x1", "n1c512h7w7o512k3x3p1x1",
    "n1c64h56w56o128k1x1s2x2", "n1c128h28w28o256k1x1s2x2", "n1c256h14w14o512k1x1s2x2", "n1c64h56w56o64k1x1",
    "n1c64h56w56o256k1x1", "n1c256h56w56o64k1x1", "n1c256h56w56o128k1x1", "n1c128h56w56o128k3x3s2x2p1x1",
    "n1c128h28w28o512k1x1", "n1c256h56w56o512k1x1s2x2", "n1c512h28w28o128k1x1", "n1c512h28w28o256k1x1",
    "n1c256h28w28o256k3x3s2x2p1x1", "n1c256h14w14o1024k1x1", "n1c512h28w28o1024k1x1s2x2",
    "n1c1024h14w14o256k1x1", "n1c1024h14w14o512k1x1", "n1c512h14w14o512k3x3s2x2p1x1", "n1c512h7w7o2048k1x1",
    "n1c1024h14w14o2048k1x1s2x2", "n1c2048h7w7o512k1x1", "batch_norm2d:n1c64h112w112_relu",
    "batch_norm2d:n1c64h56w56_relu", "batch_norm2d:n1c128h56w56_relu", "batch_norm2d:n1c128h28w28_relu",
    "batch_norm2d:n1c256h28w28_relu", "batch_norm2d:n1c256h14w14_relu", "batch_norm2d:n1c512h14w14_relu",
    "batch_norm2d:n1c512h7w7_relu", "batch_norm2d:n1c64h56w56", "batch_norm2d:n1c128h28w28",
    "batch_norm2d:n1c256h14w14", "batch_norm2d:n1c512h7w7", "batch_norm2d:n1c256h56w56",
    "batch_norm2d:n1c512h28w28", "batch_norm2d:n1c1024h14w14", "batch_norm2d:n1c2048h7w7",
    "adaptive_avg_pool2d:n1c512h7w7o1x1", "adaptive_avg_pool2d:n1c2048h7w7o1x1", "matmul:m1n1000k512_tb_bias",
    "matmul:m1n1000k2048_tb_bias", "softmax:1x1000@1", "log_softmax:1x1000@1", "cross_entropy:64x1000",

    /* VGG-16. */
    "n1c3h224w224o64k3x3p1x1_bias_relu", "n1c64h224w224o64k3x3p1x1_bias_relu",
    "n1c64h112w112o128k3x3p1x1_bias_relu", "n1c128h112w112o128k3x3p1x1_bias_relu",
    "n1c128h56w56o256k3x3p1x1_bias_relu", "n1c256h56w56o256k3x3p1x1_bias_relu",
    "n1c256h28w28o512k3x3p1x1_bias_relu", "n1c512h28w28o512k3x3p1x1_bias_relu",
    "n1c512h14w14o512k3x3p1x1_bias_relu", "max_pool2d:n1c64h224w224k2x2", "max_pool2d:n1c128h112w112k2x2",
    "max_pool2d:n1c256h56w56k2x2", "max_pool2d:n1c512h28w28k2x2", "max_pool2d:n1c512h14w14k2x2",
    "matmul:m1n4096k25088_tb_bias_relu", "matmul:m1n4096k4096_tb_bias_relu", "matmul:m1n1000k4096_tb_bias",

    /* MobileNet-v1. */
    "n1c3h224w224o32k3x3s2x2p1x1", "n1c32h112w112o32k3x3p1x1g32", "n1c32h112w112o64k1x1",
    "n1c64h112w112o64k3x3s2x2p1x1g64", "n1c64h56w56o128k1x1", "n1c128h56w56o128k3x3p1x1g128",
    "n1c128h56w56o128k1x1", "n1c128h56w56o128k3x3s2x2p1x1g128", "n1c128h28w28o256k1x1",
    "n1c256h28w28o256k3x3p1x1g256", "n1c256h28w28o256k1x1", "n1c256h28w28o256k3x3s2x2p1x1g256",
    "n1c256h14w14o512k1x1", "n1c512h14w14o512k3x3p1x1g512", "n1c512h14w14o512k1x1",
    "n1c512h14w14o512k3x3s2x2p1x1g512", "n1c512h7w7o1024k1x1", "n1c1024h7w7o1024k3x3p1x1g1024",
    "n1c1024h7w7o1024k1x1", "batch_norm2d:n1c32h112w112_relu", "batch_norm2d:n1c1024h7w7_relu",
    "adaptive_avg_pool2d:n1c1024h7w7o1x1", "matmul:m1n1000k1024_tb_bias",

    NULL,
};
// clang-format on
