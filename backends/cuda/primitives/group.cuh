/// Vectors of elements that one load or store moves, and reductions over groups of threads. Private
/// to backends/cuda.
#ifndef TALC_BACKENDS_CUDA_PRIMITIVES_GROUP_CUH
#define TALC_BACKENDS_CUDA_PRIMITIVES_GROUP_CUH

#include "backends/cuda/primitives/index.cuh"

#include <cstring>
#include <type_traits>

namespace talc
{

/// Bytes of the widest load and store, for which addresses have to be aligned.
constexpr int VECTOR_BYTES = 16;

/// Elements of the widest vector that a kernel of several widths is compiled for. Doubles, which
/// networks do not have, have one kernel: neighbouring threads load whole cache lines of them, too.
template <typename T>
constexpr int VECTOR_WIDTH = std::is_same_v<T, double> ? 1 : VECTOR_BYTES / (int)sizeof(T);

/// Bytes of a cache line. Warps whose accesses begin and end with one move no more than they need.
constexpr int CACHE_LINE = 128;

/// Neighbouring elements that one load or store moves.
template <typename T, int COUNT> struct alignas(COUNT * sizeof(T)) vec {
    T of[COUNT];
};

/// The larger of two numbers, NaN when either is: one instruction for f32.
template <typename T> __device__ T larger_or_nan(T a, T b)
{
    if constexpr (std::is_same_v<T, float>) {
        float larger;
        asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(a), "f"(b));
        return larger;
    } else {
        return b > a || b != b ? b : a;
    }
}

/// The smaller one, NaN when either is.
template <typename T> __device__ T smaller_or_nan(T a, T b)
{
    if constexpr (std::is_same_v<T, float>) {
        float smaller;
        asm("min.NaN.f32 %0, %1, %2;" : "=f"(smaller) : "f"(a), "f"(b));
        return smaller;
    } else {
        return b < a || b != b ? b : a;
    }
}

inline bool is_aligned(const void *pointer)
{
    return (uintptr_t)pointer % VECTOR_BYTES == 0;
}

/// A warp shuffle (xor) of a state, which is plain data of whole words.
template <typename State> __device__ State from_lane_xor(State state, int mask)
{
    static_assert(sizeof(State) % sizeof(unsigned) == 0, "whole words");
    constexpr int WORDS = sizeof(State) / sizeof(unsigned);
    unsigned words[WORDS];
    memcpy(words, &state, sizeof state);
#pragma unroll
    for (int i = 0; i < WORDS; i++)
        words[i] = __shfl_xor_sync(~0u, words[i], mask);
    memcpy(&state, words, sizeof state);
    return state;
}

/// Reduces the states of `threads` neighbouring threads, a power of two up to the block's, in a
/// tree of fixed shape. The first thread of the group gets the result. `shared` holds a state a
/// warp; groups of up to a warp need none. All threads of the block take part.
template <typename State> __device__ State join_group(State state, int threads, State *shared)
{
    for (int mask = (threads < WARP ? threads : WARP) / 2; mask > 0; mask /= 2)
        state.join(from_lane_xor(state, mask));
    if (threads <= WARP)
        return state;
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, warps = threads / WARP;
    __syncthreads(); /* what an earlier call left is read */
    if (lane == 0)
        shared[warp] = state;
    __syncthreads();
    if (warp % warps != 0)
        return state;
    state = shared[warp + lane % warps];
    for (int mask = warps / 2; mask > 0; mask /= 2)
        state.join(from_lane_xor(state, mask));
    return state;
}

/// The same, for all threads of the group; `shared` as above.
template <typename State> __device__ State share_group(State state, int threads, State *shared)
{
    state = join_group(state, threads, shared);
    if (threads <= WARP)
        return state;
    __syncwarp(); /* the group's first warp has read what the others left */
    if (threadIdx.x % threads == 0)
        shared[threadIdx.x / WARP] = state;
    __syncthreads();
    return shared[threadIdx.x / threads * (threads / WARP)];
}

/// Joins the states of threads that stand in rows of `width`, column by column, in a tree of fixed
/// shape. Row 0 gets the results, which `shared`, of COUNT states a thread, has too if there are
/// more rows.
template <typename State, int COUNT>
__device__ void join_rows(State (&state)[COUNT], int width, State *shared)
{
    const int rows = BLOCK / width, row = threadIdx.x / width;
    if (rows == 1)
        return;
    __syncthreads(); /* what an earlier call left is read */
#pragma unroll
    for (int e = 0; e < COUNT; e++)
        shared[e * BLOCK + threadIdx.x] = state[e];
    for (int half = rows / 2; half > 0; half /= 2) {
        __syncthreads();
#pragma unroll
        for (int e = 0; e < COUNT && row < half; e++) {
            state[e].join(shared[e * BLOCK + threadIdx.x + half * width]);
            shared[e * BLOCK + threadIdx.x] = state[e];
        }
    }
}

/// Calls visit(load(i), i) for i = first, first + step ... below `count`; IN_FLIGHT loads are
/// issued before the first of them is used.
template <int IN_FLIGHT, typename Index, typename Load, typename Visit>
__device__ __forceinline__ void for_loads(Index first, Index count, Index step, Load load,
                                          Visit visit)
{
    for (Index i = first; i < count; i += step * IN_FLIGHT) {
        decltype(load(i)) loaded[IN_FLIGHT];
#pragma unroll
        for (int k = 0; k < IN_FLIGHT; k++)
            if (i + k * step < count)
                loaded[k] = load(i + k * step);
#pragma unroll
        for (int k = 0; k < IN_FLIGHT; k++)
            if (i + k * step < count)
                visit(loaded[k], i + k * step);
    }
}

/// Counts the block and tells whether it is the last of its launch, which sees all that the others
/// wrote before they were counted. By the thread that wrote for its block; `done` is
/// talc_cuda_counter's. By release and acquire: atomicInc between two fences would also empty the
/// caches of blocks that still run.
inline __device__ bool is_last_block(unsigned *done)
{
    unsigned before;
    asm volatile("atom.release.gpu.global.inc.u32 %0, [%1], %2;"
                 : "=r"(before)
                 : "l"(__cvta_generic_to_global(done)), "r"(gridDim.x - 1)
                 : "memory");
    const bool last = before == gridDim.x - 1;
    if (last)
        __threadfence();
    return last;
}

} // namespace talc

#endif
