#include "backends/cuda/conv2d_rows.h"
#include "backends/cuda/cuda.h"

#define ROW(name, bytes, why, text, precision)                                                     \
    { .algorithm = { #name, { text, precision, false } },                                          \
      .refuses = talc_cuda_conv2d_##name##_refuses,                                                \
      .workspace = bytes,                                                                          \
      .run = talc_cuda_conv2d_##name##_run,                                                        \
      .yields = why },

const talc_conv2d_algorithm talc_cuda_conv2d[] = { TALC_CUDA_CONV2D_TABLE(ROW){
    .algorithm = { .name = NULL } } };
