#include "backends/cuda/cuda.h"

const struct talc_backend talc_cuda_backend = {
    .name = "cuda",
    .algorithms = {
#define TALC_OP(name, names, operands) [TALC_OP_##name] = talc_cuda_##name,
#include "ops/ops.def"
    },
};
