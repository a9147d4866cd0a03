#include "backends/cpu/conv2d_rows.h"
#include "backends/cpu/cpu.h"

#define ROW(name, bytes, text, precision, wide)                                                    \
    { .algorithm = { #name, { text, precision, wide } },                                           \
      .refuses = talc_cpu_conv2d_##name##_refuses,                                                 \
      .workspace = bytes,                                                                          \
      .run = talc_cpu_conv2d_##name##_run },

const talc_conv2d_algorithm talc_cpu_conv2d[] = { TALC_CPU_CONV2D_TABLE(ROW){
    .algorithm = { .name = NULL } } };
