/// The last step of products by a pass of its own over y (epilogue.cuh).
#include "backends/cuda/primitives/epilogue.cuh"

using namespace talc;

/* y[i] = talc_epilogue(y[i]) with channel (i / inner) % channels, for count / COUNT vectors of
 * COUNT elements. One division a vector; the following elements of the vector are found by
 * counting. In f32 a multiprocessor has all the threads that it can. */
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

template <typename T>
void talc::epilogue_in_place(talc_device *device, const epilogue<T> &e, T *y, int64_t inner,
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

template void talc::epilogue_in_place<float>(talc_device *, const epilogue<float> &, float *,
                                             int64_t, int64_t, int64_t);
template void talc::epilogue_in_place<double>(talc_device *, const epilogue<double> &, double *,
                                              int64_t, int64_t, int64_t);
