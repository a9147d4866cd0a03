/// Launch sizes: blocks, grids and index types. Private to backends/cuda.
#ifndef TALC_BACKENDS_CUDA_PRIMITIVES_LAUNCH_CUH
#define TALC_BACKENDS_CUDA_PRIMITIVES_LAUNCH_CUH

#include "backends/cuda/cuda.h"
#include "tensor/extent.h"

#include <climits>

namespace talc
{

/// Threads of a warp, and of a block unless a kernel says otherwise.
constexpr int WARP = 32, BLOCK = 256;

/// Grid size for `threads` threads in blocks of BLOCK; kernels loop (TALC_GRID_LOOP) when that is
/// more than a few waves of blocks.
inline unsigned grid_for_threads(const talc_device *device, int64_t threads)
{
    const int64_t blocks = talc_ceil_div(threads, BLOCK);
    const int64_t max = (int64_t)talc_cuda_state_of(device)->multiprocessors * 32;
    return (unsigned)(blocks < max ? blocks : max);
}

/// Grid size for kernels whose blocks each loop over tiles, `tiles` in all: enough waves of blocks
/// that the last one, which may not fill the GPU, is a small share.
inline unsigned grid_for_blocks(const talc_device *device, int64_t tiles)
{
    const int64_t max = (int64_t)talc_cuda_state_of(device)->multiprocessors * 64;
    return (unsigned)(tiles < max ? tiles : max);
}

/// A loop over 0 .. count - 1 that all threads of a grid share.
#define TALC_GRID_LOOP(Index, i, count)                                                            \
    for (Index i = (Index)blockIdx.x * blockDim.x + threadIdx.x; i < (count);                      \
         i += (Index)gridDim.x * blockDim.x)

/// `max` bytes of shared memory, or what the GPU lends a block, if that is less: those of compute
/// capability 8.6 and 8.9 lend 99 KB.
inline int64_t shared_up_to(const talc_device *device, int64_t max)
{
    return talc_smaller(max, talc_cuda_state_of(device)->block_shared);
}

/// Lets a kernel have `max` bytes of dynamic shared memory: the same in every call, since other
/// threads' launches of it see it too.
template <typename Kernel> cudaError_t allow_shared(Kernel kernel, int64_t max)
{
    const cudaError_t error =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)max);
    if (error != cudaSuccess)
        (void)cudaGetLastError();
    return error;
}

/// Runs `launch` with a zero of the narrowest index type that holds `count`.
template <typename Launch> void with_index(int64_t count, Launch launch)
{
    if (count <= INT_MAX)
        launch(uint32_t{});
    else
        launch(uint64_t{});
}

} // namespace talc

#endif
