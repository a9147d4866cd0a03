#include "backends/cuda/cuda.h"

const struct talc_backend talc_cuda_backend = {
    .name = "cuda",
    .batch_norm2d = talc_cuda_batch_norm2d,
    .binary = talc_cuda_binary,
    .conv2d = talc_cuda_conv2d,
    .cross_entropy = talc_cuda_cross_entropy,
    .cumsum = talc_cuda_cumsum,
    .gather = talc_cuda_gather,
    .group_norm = talc_cuda_group_norm,
    .matmul = talc_cuda_matmul,
    .nll_loss = talc_cuda_nll_loss,
    .pool2d = talc_cuda_pool2d,
    .reduce = talc_cuda_reduce,
    .resample = talc_cuda_resample,
    .softmax = talc_cuda_softmax,
    .unary = talc_cuda_unary,
    .update = talc_cuda_update,
    .where = talc_cuda_where,
};
