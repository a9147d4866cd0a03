#include "backends/cpu/conv2d/algorithms.h"
#include "backends/cpu/cpu.h"

#define ROW(functions, name, form, text, precision, wide, map)                                     \
    { name,                                                                                        \
      form,                                                                                        \
      { text, precision, wide },                                                                   \
      talc_cpu_conv2d_##functions##_plan,                                                          \
      talc_cpu_conv2d_##functions##_run },

const talc_algorithm talc_cpu_conv2d[] = { TALC_CPU_CONV2D_TABLE(ROW){ .name = NULL } };

#define MAPPED(functions, name, form, text, precision, wide, map) { name, form, precision, map },

const talc_mapped_algorithm talc_cpu_conv2d_mapped[] = { TALC_CPU_CONV2D_TABLE(MAPPED){
    .name = NULL } };
