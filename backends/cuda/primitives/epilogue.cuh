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

/// y[i] = talc_epilogue(y[i]) with channel (i / inner) % channels, for count / COUNT vectors of
/// COUNT elements. One division a vector; the following elements of the vector are found by
/// counting. In f32 a multiprocessor has all the threads that it can.
template <typename T, int COUNT, typename Index>
static __global__ void __launch_bounds__(BLOCK, 32 / sizeof(T))
    epilogue_kernel(T *y, const epilogue<T> e, const divisor<Index> inner,
                    const divisor<Index> channels, Index vectors)
{
    using vector = vec<T, COUNT>;
    TALC_GRID_LOOP(Index, i, vectors)
    {
        const Index first = i * COUNT, row = inner.quotient(first);
        Index offset = first - row * inner.by;
        Index channel = row - channels.quotient(row) * channels.by;
        vector sums = ((const vector *)y)[i], added;
        if (e.residual != nullptr)
            added = ((const vector *)e.residual)[i];
#pragma unroll
        for (int k = 0; k < COUNT; k++) {
            if (e.bias != nullptr)
                sums.of[k] += e.bias[channel];
            if (e.residual != nullptr)
                sums.of[k] += added.of[k];
            if (++offset == inner.by) {
                offset = 0;
                if (++channel == channels.by)
                    channel = 0;
            }
        }
        activate_all(e.activation, sums.of);
        ((vector *)y)[i] = sums;
    }
}

/// Ends `count` neighbouring outputs in place, the first of them in channel 0: y[i] is of channel
/// (i / inner) % channels. Convolutions pass OH * OW and OC, matrix products 1 and N. Launches
/// nothing when there is nothing to do.
template <typename T>
void epilogue_in_place(talc_device *device, const epilogue<T> &e, T *y, int64_t inner,
                       int64_t channels, int64_t count)
{
    if (e.is_empty() || count == 0)
        return;
    constexpr int WIDE = 16 / sizeof(T);
    const bool packed = count % WIDE == 0 && (uintptr_t)y % 16 == 0 &&
                        (e.residual == nullptr || (uintptr_t)e.residual % 16 == 0);
    const cudaStream_t stream = talc_cuda_stream(device);
    with_index(count, [&](auto zero) {
        using Index = decltype(zero);
        divisor<Index> by_inner, by_channels;
        by_inner.set(inner);
        by_channels.set(channels);
        const int64_t vectors = packed ? count / WIDE : count;
        if (packed)
            epilogue_kernel<T, WIDE, Index>
                <<<grid_for_threads(device, vectors), BLOCK, 0, stream>>>(
                    y, e, by_inner, by_channels, (Index)vectors);
        else
            epilogue_kernel<T, 1, Index><<<grid_for_threads(device, vectors), BLOCK, 0, stream>>>(
                y, e, by_inner, by_channels, (Index)vectors);
    });
}

} // namespace talc

#endif
