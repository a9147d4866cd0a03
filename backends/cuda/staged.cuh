/// Work that the registers of a block hold, and the next one on its way: every thread copies its own elements of the next
/// into its own slots of shared memory while it works on what it has, so memory never waits for arithmetic, and no barrier is
/// needed. Private to backends/cuda.
#ifndef TALC_BACKENDS_CUDA_STAGED_CUH
#define TALC_BACKENDS_CUDA_STAGED_CUH

#include "backends/cuda/group.cuh"

#include <cuda_pipeline.h>

namespace talc
{

/// Threads of the largest block. Kernels with this bound have 64 registers a thread, and so many threads run side by side.
constexpr int MOST_THREADS = 1024;

template <typename T> struct summed {
    T value = 0;
    __device__ void join(summed other)
    {
        value += other.value;
    }
};

/// The joined state of `threads` neighbours, a power of two, in all of them. Groups larger than a warp are whole blocks and have one barrier;
/// `shared` holds a state a warp, and must not have been in use since the barrier before that.
template <typename State> static __device__ State join_all(State state, int threads, State *shared)
{
    for (int mask = (threads < WARP ? threads : WARP) / 2; mask > 0; mask /= 2)
        state.join(from_lane_xor(state, mask));
    if (threads <= WARP)
        return state;
    const int warps = threads / WARP;
    if (threadIdx.x % WARP == 0)
        shared[threadIdx.x / WARP] = state;
    __syncthreads();
    state = shared[threadIdx.x % WARP % warps];
    for (int mask = warps / 2; mask > 0; mask /= 2)
        state.join(from_lane_xor(state, mask));
    return state;
}

/// A thread's slots: HELD packs of COUNT elements, WARP packs apart, filled with `filler`. `staged` has room for all threads.
template <typename T, int COUNT, int HELD>
static __device__ vec<T, COUNT> *slots_of(char *staged, T filler)
{
    vec<T, COUNT> *slots =
        (vec<T, COUNT> *)staged + threadIdx.x / WARP * WARP * HELD + threadIdx.x % WARP;
    for (int k = 0; k < HELD; k++)
        for (int e = 0; e < COUNT; e++)
            slots[k * WARP].of[e] = filler;
    return slots;
}

/// Launches as many blocks as run side by side, of which each takes one piece of work after the other. `bytes` of shared memory
/// a thread.
template <typename Kernel, typename... Arguments>
void launch_staged(const talc_device *device, Kernel kernel, int block, int bytes, int64_t work,
                   const Arguments &...arguments)
{
    const talc_cuda_state *state = talc_cuda_state_of(device);
    const int64_t most = (int64_t)state->multiprocessors * (MOST_THREADS / block);
    const int shared = block * bytes;
    /* A failure shows at the launch. */
    (void)cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
    kernel<<<(unsigned)(work < most ? work : most), block, shared, talc_cuda_stream(device)>>>(
        arguments...);
}

} // namespace talc

#endif
