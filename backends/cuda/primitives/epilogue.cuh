/// The last step of convolutions and matrix products, by the formulas of ops/elementwise_table.h.
/// Private to backends/cuda.
///
///     y[i] = act( y[i] + bias[channel of i] + residual[i] )
///
/// Kernels that hold their sums in registers call talc_epilogue before they store; products of
/// cuBLAS get it in place, by a pass of its own over y.
#ifndef TALC_BACKENDS_CUDA_PRIMITIVES_EPILOGUE_CUH
#define TALC_BACKENDS_CUDA_PRIMITIVES_EPILOGUE_CUH

#include "backends/cuda/primitives/activation.cuh"
#include "backends/cuda/primitives/dtype.cuh"
#include "backends/cuda/primitives/shared_copy.cuh"

namespace talc
{

/// What there is to do; NULL for what there is not.
template <typename T> struct epilogue {
    const T *bias;     ///< one number a channel
    const T *residual; ///< as y
    talc_activation activation;

    epilogue(const void *bias_, const void *residual_, talc_activation activation_)
        : bias((const T *)bias_), residual((const T *)residual_), activation(activation_)
    {
    }

    __host__ __device__ bool is_empty() const
    {
        return bias == nullptr && residual == nullptr && activation == TALC_ACTIVATION_NONE;
    }
};

/// The output whose sum is `sum`, in channel `channel`, at y[at].
template <typename T>
__device__ T talc_epilogue(const epilogue<T> &e, accumulator_of<T> sum, int64_t channel, int64_t at)
{
    if (e.bias != nullptr)
        sum += e.bias[channel];
    if (e.residual != nullptr)
        sum += e.residual[at];
    return (T)talc_activate(e.activation, sum);
}

/// Stores `count` sums of shared memory that have their bias, and the offset of y + at
/// (shared_copy.cuh), at y[at] and behind it, with the rest of the last step. Called by all THREADS
/// threads of the block.
template <int THREADS = BLOCK, typename T>
__device__ __forceinline__ void store_ended(const epilogue<T> &e, T *y, int64_t at, const T *sums,
                                            int count)
{
    const T *residual = e.residual == nullptr ? nullptr : e.residual + at;
    with_activation<T>(e.activation, [&](auto activate) {
        store_from_shared<THREADS>(y + at, sums, count, [&](T sum, int i) {
            return activate(residual == nullptr ? sum : sum + residual[i]);
        });
    });
}

/// Ends `count` neighbouring outputs in place, the first of them in channel 0: y[i] is of channel
/// (i / inner) % channels. Convolutions pass OH * OW and OC, matrix products 1 and N. Launches
/// nothing when there is nothing to do.
template <typename T>
void epilogue_in_place(talc_device *device, const epilogue<T> &e, T *y, int64_t inner,
                       int64_t channels, int64_t count);

} // namespace talc

#endif
