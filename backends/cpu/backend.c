#include "backends/cpu/cpu.h"

const struct talc_backend talc_cpu_backend = {
    .name = "cpu",
    .binary = talc_cpu_binary,
    .unary = talc_cpu_unary,
};
