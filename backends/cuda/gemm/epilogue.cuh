/// The epilogue of products on tensor cores, whose sums leave no registers for calls. Private to
/// backends/cuda.
#ifndef TALC_BACKENDS_CUDA_GEMM_EPILOGUE_CUH
#define TALC_BACKENDS_CUDA_GEMM_EPILOGUE_CUH

#include "backends/cuda/primitives/epilogue.cuh"

namespace talc
{

/// The activation that a kernel applies itself. A call would cost it registers, and a tenth of its
/// speed. So end_called applies those that is_called to its outputs, by a pass over them.
inline talc_activation without_calls(talc_activation activation)
{
    return is_called(activation) ? TALC_ACTIVATION_NONE : activation;
}

template <typename T>
void end_called(talc_device *device, talc_activation activation, T *y, int64_t count)
{
    if (is_called(activation))
        epilogue_in_place<T>(device, { NULL, NULL, activation }, y, 1, 1, count);
}

} // namespace talc

#endif
