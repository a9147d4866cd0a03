/// Softmaxes that the shared memory of a thread block cluster holds: read once, written once.
/// Private to backends/cuda/softmax.
///
/// The blocks of a cluster run at the same time and reach each other's shared memory. Each holds a
/// part of the softmax, every thread its own vectors in its own slots, which need no barrier. A
/// slot is filled from the next softmax as soon as its result is being stored, so that reading does
/// not wait for writing. A cluster of one block runs on every GPU.
#ifndef TALC_BACKENDS_CUDA_SOFTMAX_CLUSTER_CUH
#define TALC_BACKENDS_CUDA_SOFTMAX_CLUSTER_CUH

#include "backends/cuda/softmax/softmax.cuh"

#include <cooperative_groups.h>
#include <cuda/ptx>

namespace talc
{

/// Blocks of the largest cluster that any GPU with clusters runs, and of the largest that some do.
constexpr int PORTABLE_BLOCKS = 8, MAX_BLOCKS = 16;

/// Threads of the largest block.
constexpr int MAX_THREADS = 512;

/// Where the warps of a block, and the blocks of a cluster, leave their values for each other.
template <typename T> struct exchange {
    T warps[MAX_THREADS / WARP], blocks[MAX_BLOCKS];
    uint64_t arrived; ///< an mbarrier: one phase an exchange
};

/// A value reduced over all threads of a cluster (all-reduce); `round` counts the calls with an
/// exchange. Values travel with the mbarrier's own byte count: a barrier of the cluster would wait
/// for all stores to global memory too. Between two calls with an exchange there is one with
/// another: whoever sends again has heard from all that they have read.
template <typename T, typename Join>
static __device__ T join_cluster(T value, int blocks, exchange<T> &with, unsigned round, Join join)
{
    const int lane = threadIdx.x % WARP, warps = blockDim.x / WARP;
    value = join_lanes(value, WARP, 1, join);
    if (lane == 0)
        with.warps[threadIdx.x / WARP] = value;
    __syncthreads();
    value = with.warps[0];
    for (int i = 1; i < warps; i++)
        value = join(value, with.warps[i]);
#if __CUDA_ARCH__ >= 900
    namespace ptx = cuda::ptx;
    if (blocks == 1)
        return value;
    const auto cluster = cooperative_groups::this_cluster();
    if (threadIdx.x == 0)
        ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared,
                                       &with.arrived, blocks * (unsigned)sizeof value);
    if ((int)threadIdx.x < blocks)
        ptx::st_async(cluster.map_shared_rank(with.blocks + cluster.block_rank(), threadIdx.x),
                      value, cluster.map_shared_rank(&with.arrived, threadIdx.x));
    while (!ptx::mbarrier_try_wait_parity(ptx::sem_acquire, ptx::scope_cluster, &with.arrived,
                                          round % 2)) {
    }
    value = with.blocks[0];
    for (int i = 1; i < blocks; i++)
        value = join(value, with.blocks[i]);
#endif
    return value;
}

/// A cluster of `blocks` has a softmax after the other, each of `count` vectors.
template <typename T, int COUNT>
static __global__ void __launch_bounds__(MAX_THREADS)
    softmax_cluster(T *y, const T *x, int blocks, int count, const softmax_plan plan)
{
    extern __shared__ __align__(CACHE_LINE) char stored[];
    __shared__ exchange<T> all_m, all_sum;
    using vector = vec<T, COUNT>;
    const int threads = blockDim.x * blocks;
    const int thread = blockIdx.x % blocks * blockDim.x + threadIdx.x;
    const int64_t x_step = COUNT > 1 ? COUNT : plan.x_stride;
    const int64_t y_step = COUNT > 1 ? COUNT : plan.y_stride;
    vector *slots = (vector *)stored + threadIdx.x;
#if __CUDA_ARCH__ >= 900
    if (blocks > 1) {
        namespace ptx = cuda::ptx;
        if (threadIdx.x == 0) {
            ptx::mbarrier_init(&all_m.arrived, 1);
            ptx::mbarrier_init(&all_sum.arrived, 1);
            ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
        }
        cooperative_groups::this_cluster().sync(); /* all blocks run */
    }
#endif
    const int rounds = count <= thread ? 0 : (count - thread + threads - 1) / threads;
    int64_t softmax = blockIdx.x / blocks, at[2];
    plan.at.offsets((uint64_t)softmax, at);
    for (int k = 0; k < rounds; k++)
        __pipeline_memcpy_async(slots + k * blockDim.x, x + at[1] + (thread + k * threads) * x_step,
                                sizeof(vector));
    __pipeline_commit();
    for (unsigned round = 0; softmax < plan.outer; round++) {
        T m = -(T)INFINITY, sums[COUNT] = {};
        __pipeline_wait_prior(0);
#pragma unroll 4
        for (int k = 0; k < rounds; k++) {
            const vector values = slots[k * blockDim.x];
#pragma unroll
            for (int e = 0; e < COUNT; e++)
                m = larger()(m, values.of[e]);
        }
        m = join_cluster(m, blocks, all_m, round, larger());
#pragma unroll 4
        for (int k = 0; k < rounds; k++) {
            vector values = slots[k * blockDim.x];
#pragma unroll
            for (int e = 0; e < COUNT; e++) {
                const T power = exp(values.of[e] - m);
                sums[e] += power;
                if (!plan.log)
                    values.of[e] = power;
            }
            slots[k * blockDim.x] = values;
        }
        const softmax_of<T> by(
            plan.log, m, join_cluster(tree_sum<COUNT>(sums), blocks, all_sum, round, sum_of()));
        T *to = y + at[0];
        softmax += gridDim.x / blocks;
        const bool more = softmax < plan.outer;
        plan.at.offsets((uint64_t)(more ? softmax : 0), at);
#pragma unroll 2
        for (int k = 0; k < rounds; k++) {
            vector values = slots[k * blockDim.x];
#pragma unroll
            for (int e = 0; e < COUNT; e++)
                values.of[e] = by.of_held(values.of[e]);
            store_vector(to + (thread + k * threads) * y_step, values);
            if (more)
                __pipeline_memcpy_async(slots + k * blockDim.x,
                                        x + at[1] + (thread + k * threads) * x_step, sizeof values);
        }
        __pipeline_commit();
    }
}

} // namespace talc

#endif
