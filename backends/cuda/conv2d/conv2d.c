#include "backends/cuda/conv2d/rows.h"
#include "backends/cuda/cuda.h"

#define ROW(name, text, precision)                                                                 \
    { #name,                                                                                       \
      { text, precision, false },                                                                  \
      talc_cuda_conv2d_##name##_plan,                                                              \
      talc_cuda_conv2d_##name##_run },

const talc_algorithm talc_cuda_conv2d[] = { TALC_CUDA_CONV2D_TABLE(ROW){ .name = NULL } };

/* Of an H200: what a multiprocessor makes by FFMA in strict products of large matrices, the rate of a copy, a launch. */
static const double FLOPS_A_MULTIPROCESSOR = 382e9, BYTES_A_SECOND = 4.2e12, LAUNCH = 3e-6;

double talc_cuda_conv2d_seconds(const talc_device *device, const talc_conv2d_problem *problem,
                                double share, double bytes, int launches)
{
    const double rate = FLOPS_A_MULTIPROCESSOR * talc_cuda_state_of(device)->multiprocessors *
                        (problem->dtype == TALC_F64 ? 0.5 : 1) * share;
    const double computing = talc_conv2d_flops(problem) / rate, moving = bytes / BYTES_A_SECOND;
    return (computing > moving ? computing : moving) + launches * LAUNCH;
}
