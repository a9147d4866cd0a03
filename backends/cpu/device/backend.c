#include "backends/cpu/cpu.h"

const struct talc_backend talc_cpu_backend = {
    .name = "cpu",
    .algorithms = {
#define TALC_OP(name, names, operands) [TALC_OP_##name] = talc_cpu_##name,
#include "ops/ops.def"
    },
};
