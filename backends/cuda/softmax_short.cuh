/// Softmaxes so short that a thread holds one, which lie one behind the other in memory. Private to backends/cuda.
///
/// Threads that read their own softmaxes would skip over those of their neighbours, so a warp brings all of its softmaxes into
/// shared memory as they lie, and takes the results back the same way.
#ifndef TALC_BACKENDS_CUDA_SOFTMAX_SHORT_CUH
#define TALC_BACKENDS_CUDA_SOFTMAX_SHORT_CUH

#include "backends/cuda/softmax.cuh"

namespace talc
{

/// Bytes of the longest, of which a thread has HELD elements in registers.
constexpr int SHORT = 128;

/// `copy` of `count` neighbours by the threads of a warp: of packs, from one on, and of the elements that are left over.
template <typename T, typename Copy>
static __device__ void with_packs(T *to, const T *from, int count, Copy copy)
{
    constexpr int COUNT = ACCESS / sizeof(T);
    using pack = vec<T, COUNT>;
    const int lane = threadIdx.x % WARP, whole = count / COUNT;
#pragma unroll 2
    for (int i = lane; i < whole; i += WARP)
        copy((pack *)to + i, (const pack *)from + i);
#pragma unroll 1
    for (int i = whole * COUNT + lane; i < count; i += WARP)
        copy(to + i, from + i);
}

/// `stored` has room for a softmax a thread.
template <typename T, int HELD>
static __global__ void __launch_bounds__(BLOCK, 4)
    softmax_short(T *y, const T *x, const softmax_plan plan)
{
    extern __shared__ __align__(ACCESS) char stored[];
    const int extent = (int)plan.extent, lane = threadIdx.x % WARP;
    T *all = (T *)stored + threadIdx.x / WARP * WARP * extent, *own = all + lane * extent;
    const int64_t hop = (int64_t)gridDim.x * BLOCK;
    for (int64_t first = (int64_t)blockIdx.x * BLOCK + threadIdx.x / WARP * WARP;
         first < plan.outer; first += hop) {
        const int count = (int)(plan.outer - first < WARP ? plan.outer - first : WARP);
        with_packs(all, x + first * extent, count * extent, [](auto *to, const auto *from) {
            __pipeline_memcpy_async(to, from, sizeof *to);
        });
        __pipeline_commit();
        __pipeline_wait_prior(0);
        __syncwarp();
        T held[HELD], m = -(T)INFINITY, sums[4] = {};
#pragma unroll
        for (int k = 0; k < HELD; k++)
            if (k < extent) {
                held[k] = own[k];
                m = held[k] > m ? held[k] : m;
            }
#pragma unroll
        for (int k = 0; k < HELD; k++)
            if (k < extent) {
                const T power = exp(held[k] - m);
                sums[k % 4] += power;
                if (!plan.log)
                    held[k] = power;
            }
        const softmax_of<T> by(plan.log, m, (sums[0] + sums[1]) + (sums[2] + sums[3]));
#pragma unroll
        for (int k = 0; k < HELD; k++)
            if (k < extent)
                own[k] = by.of_held(plan.log, held[k]);
        __syncwarp();
        with_packs(y + first * extent, all, count * extent,
                   [](auto *to, const auto *from) { *to = *from; });
        __syncwarp();
    }
}

} // namespace talc

#endif
