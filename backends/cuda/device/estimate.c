#include "backends/cuda/device/estimate.h"

static const double FLOPS_A_MULTIPROCESSOR = 382e9; /* of f32: strict products of large matrices */

double talc_cuda_flops_a_second(const talc_device *device, talc_dtype dtype)
{
    static const double shares[TALC_DTYPE_COUNT] = { [TALC_F32] = 1, [TALC_F64] = 0.5 };
    return FLOPS_A_MULTIPROCESSOR * talc_cuda_state_of(device)->multiprocessors * shares[dtype];
}

double talc_cuda_blas_share(talc_dtype dtype)
{
    static const double shares[TALC_DTYPE_COUNT] = { [TALC_F32] = 0.9, [TALC_F64] = 2 };
    return shares[dtype];
}

double talc_cuda_bytes_a_second(void)
{
    return 4.2e12;
}

double talc_cuda_seconds(const talc_device *device, talc_dtype dtype, double flops, double share,
                         double bytes, int launches)
{
    const double computing = flops / (talc_cuda_flops_a_second(device, dtype) * share);
    const double moving = bytes / talc_cuda_bytes_a_second();
    return (computing > moving ? computing : moving) + launches * TALC_CUDA_LAUNCH;
}
