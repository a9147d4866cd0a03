/// Contiguous softmaxes so short that a thread computes one. Private to backends/cuda/softmax.
///
/// Threads that read their own softmaxes from global memory would not have coalesced accesses, so a
/// warp copies all of its softmaxes into shared memory and the results back. While it computes
/// them, its next ones are being copied.
#ifndef TALC_BACKENDS_CUDA_SOFTMAX_THREAD_CUH
#define TALC_BACKENDS_CUDA_SOFTMAX_THREAD_CUH

#include "backends/cuda/softmax/softmax.cuh"

namespace talc
{

/// Calls `copy` for `count` elements by the threads of a warp: for whole vectors as far as they go,
/// then for single elements. Both arrays are aligned.
template <typename T, typename Copy>
static __device__ void by_vectors(T *to, const T *from, int count, Copy copy)
{
    constexpr int COUNT = VECTOR_BYTES / sizeof(T);
    const int lane = threadIdx.x % WARP, whole = count / COUNT;
#pragma unroll 2
    for (int i = lane; i < whole; i += WARP)
        copy((vec<T, COUNT> *)to + i, (const vec<T, COUNT> *)from + i);
    for (int i = whole * COUNT + lane; i < count; i += WARP)
        copy(to + i, from + i);
}

/// Shared memory has two buffers, each for a softmax of every thread.
template <typename T>
static __global__ void __launch_bounds__(BLOCK)
    softmax_thread(T *y, const T *x, int extent, int64_t outer, bool log)
{
    extern __shared__ __align__(CACHE_LINE) char stored[];
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, capacity = WARP * extent;
    T *const buffers = (T *)stored + warp * 2 * capacity;
    const int64_t grid_stride = (int64_t)gridDim.x * BLOCK;
    const auto count_from = [&](int64_t first) {
        return (int)(outer - first < WARP ? outer - first : WARP) * extent;
    };
    const auto fetch = [&](int64_t first, int buffer) {
        if (first < outer)
            by_vectors(
                buffers + buffer * capacity, x + first * extent, count_from(first),
                [](auto *to, const auto *from) { __pipeline_memcpy_async(to, from, sizeof *to); });
        __pipeline_commit();
    };
    int64_t first = (int64_t)blockIdx.x * BLOCK + warp * WARP;
    fetch(first, 0);
    for (int buffer = 0; first < outer; first += grid_stride, buffer ^= 1) {
        fetch(first + grid_stride, buffer ^ 1);
        __pipeline_wait_prior(1);
        __syncwarp();
        T *const all = buffers + buffer * capacity, *const own = all + lane * extent;
        T m = own[0], sums[4] = {};
#pragma unroll 4
        for (int k = 1; k < extent; k++)
            m = larger()(m, own[k]);
        const auto term = [&](int k) {
            const T power = exp(own[k] - m);
            if (!log)
                own[k] = power;
            return power;
        };
        int k = 0;
        for (; k + 4 <= extent; k += 4)
#pragma unroll
            for (int i = 0; i < 4; i++)
                sums[i] += term(k + i);
        for (; k < extent; k++)
            sums[0] += term(k);
        const softmax_of<T> by(log, m, tree_sum<4>(sums));
        if (log)
#pragma unroll 4
            for (int k = 0; k < extent; k++)
                own[k] = own[k] - m - by.log_sum;
        else
#pragma unroll 4
            for (int k = 0; k < extent; k++)
                own[k] *= by.scale;
        __syncwarp();
        by_vectors(y + first * extent, all, count_from(first),
                   [](auto *to, const auto *from) { *to = *from; });
        __syncwarp();
    }
}

} // namespace talc

#endif
