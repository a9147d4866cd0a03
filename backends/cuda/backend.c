#include "backends/cuda/cuda.h"

const struct talc_backend talc_cuda_backend = {
    .name = "cuda",
    .binary = talc_cuda_binary,
    .conv2d = talc_cuda_conv2d,
    .matmul = talc_cuda_matmul,
    .unary = talc_cuda_unary,
};
