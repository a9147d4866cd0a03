#include "backends/cuda/conv2d_rows.h"
#include "backends/cuda/cuda.h"

#define ROW(name, workspace, text, precision)                                                      \
    { { #name, { text, precision, false } },                                                       \
      talc_cuda_conv2d_##name##_refuses,                                                           \
      workspace,                                                                                   \
      talc_cuda_conv2d_##name##_run },

const talc_conv2d_algorithm talc_cuda_conv2d[] = { TALC_CUDA_CONV2D_TABLE(ROW){
    { NULL, { NULL, TALC_STRICT, false } }, NULL, NULL, NULL } };
