#include "backends/cpu/cpu.h"

const struct talc_backend talc_cpu_backend = {
    .name = "cpu",
    .batch_norm2d = talc_cpu_batch_norm2d,
    .binary = talc_cpu_binary,
    .conv2d = talc_cpu_conv2d,
    .cross_entropy = talc_cpu_cross_entropy,
    .cumsum = talc_cpu_cumsum,
    .gather = talc_cpu_gather,
    .group_norm = talc_cpu_group_norm,
    .matmul = talc_cpu_matmul,
    .nll_loss = talc_cpu_nll_loss,
    .pool2d = talc_cpu_pool2d,
    .reduce = talc_cpu_reduce,
    .resample = talc_cpu_resample,
    .softmax = talc_cpu_softmax,
    .unary = talc_cpu_unary,
    .update = talc_cpu_update,
    .where = talc_cpu_where,
};
