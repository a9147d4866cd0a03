#include "backends/cuda/conv2d/rows.h"
#include "backends/cuda/device/estimate.h"

#define ROW(name, text, precision)                                                                 \
    { #name,                                                                                       \
      { text, precision, false },                                                                  \
      talc_cuda_conv2d_##name##_plan,                                                              \
      talc_cuda_conv2d_##name##_run },

const talc_algorithm talc_cuda_conv2d[] = { TALC_CUDA_CONV2D_TABLE(ROW){ .name = NULL } };

double talc_cuda_conv2d_seconds(const talc_device *device, const talc_conv2d_problem *problem,
                                double share, double bytes, int launches)
{
    return talc_cuda_seconds(device, problem->dtype, talc_conv2d_flops(problem), share, bytes,
                             launches);
}
