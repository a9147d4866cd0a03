/// Softmaxes that the shared memory of a cluster of blocks holds: read once, written once. Private to backends/cuda.
///
/// A cluster's blocks run at the same time and reach each other's shared memory. Each holds a part of the softmax, every thread
/// its own packs in its own slots, so that slots need no barrier; each block's state goes to all of them. A slot is filled from
/// the next softmax as soon as its result is on its way, so that reading does not wait for writing.
#ifndef TALC_BACKENDS_CUDA_SOFTMAX_CLUSTER_CUH
#define TALC_BACKENDS_CUDA_SOFTMAX_CLUSTER_CUH

#include "backends/cuda/softmax.cuh"

#include <cooperative_groups.h>
#include <cuda/ptx>

namespace talc
{

/// Blocks of the largest cluster that any GPU with clusters runs, and of the largest that some do.
constexpr int PORTABLE_BLOCKS = 8, MOST_BLOCKS = 16;

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

/// Where the blocks of a cluster leave their states for each other.
template <typename State> struct exchange {
    State of[MOST_BLOCKS];
    uint64_t arrived; ///< an mbarrier: one phase an exchange

    /// By one thread, before the blocks of the cluster meet.
    __device__ void begin()
    {
        cuda::ptx::mbarrier_init(&arrived, 1);
        cuda::ptx::fence_mbarrier_init(cuda::ptx::sem_release, cuda::ptx::scope_cluster);
    }
};

/// The joined state of all threads of a cluster, in all of them; `round` counts the calls of an exchange. States travel with the
/// barrier's own bytes, so that nothing waits for what else is on its way to memory. Between two calls of an exchange there is
/// one of another: whoever sends again has heard from all blocks that they have read.
template <typename State>
static __device__ State join_cluster(State state, State *shared, exchange<State> &with,
                                     unsigned round)
{
    namespace ptx = cuda::ptx;
    const auto cluster = cooperative_groups::this_cluster();
    const unsigned count = cluster.num_blocks();
    state = join_all(state, blockDim.x, shared);
    if (threadIdx.x == 0)
        ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared,
                                       &with.arrived, count * (unsigned)sizeof state);
    if (threadIdx.x < count)
        ptx::st_async(&cluster.map_shared_rank(with.of + cluster.block_rank(), threadIdx.x)->value,
                      state.value, cluster.map_shared_rank(&with.arrived, threadIdx.x));
    while (!ptx::mbarrier_try_wait_parity(ptx::sem_acquire, ptx::scope_cluster, &with.arrived,
                                          round % 2)) {
    }
    state = with.of[0];
    for (unsigned i = 1; i < count; i++)
        state.join(with.of[i]);
    return state;
}

/// Where a softmax stands in y and in x. Rows along one dimension need none of a walk's steps.
static __device__ __forceinline__ void offsets_of(int64_t softmax, const softmax_plan &plan,
                                                  int64_t (&at)[2])
{
    if (plan.at.rank == 1) {
        at[0] = softmax * plan.at.strides[0][0];
        at[1] = softmax * plan.at.strides[1][0];
    } else
        plan.at.offsets((uint64_t)softmax, at);
}

/// The larger of two, and the first where the second is NaN: one instruction for f32.
template <typename T> static __device__ T larger(T a, T b)
{
    if constexpr (std::is_same_v<T, float>)
        return fmaxf(a, b);
    else
        return b > a ? b : a;
}

#endif

/// A cluster has a softmax after the other, each of at most `rounds` packs a thread.
template <typename T, int COUNT, bool LOG>
static __global__ void __launch_bounds__(MOST_THREADS)
    softmax_cluster(T *y, const T *x, int rounds, const softmax_plan plan)
{
#if __CUDA_ARCH__ >= 900
    extern __shared__ __align__(ACCESS) char stored[];
    __shared__ largest<T> shared_most[MOST_THREADS / WARP];
    __shared__ summed<T> shared_sum[MOST_THREADS / WARP];
    __shared__ exchange<largest<T>> all_most;
    __shared__ exchange<summed<T>> all_sum;
    using pack = vec<T, COUNT>;
    const auto cluster = cooperative_groups::this_cluster();
    const int blocks = cluster.num_blocks(), threads = blockDim.x * blocks;
    const int thread = cluster.thread_rank();
    const int64_t clusters = gridDim.x / blocks;
    pack *slots = (pack *)stored + threadIdx.x;
    if (threadIdx.x == 0) {
        all_most.begin();
        all_sum.begin();
    }
    cluster.sync(); /* all blocks run */

    int64_t softmax = blockIdx.x / blocks;
    int64_t at[2];
    offsets_of(softmax, plan, at);
    packed_row<T, COUNT> row(y + at[0], x + at[1], plan);
    for (int k = 0; k < rounds; k++)
        row.copy(slots + k * blockDim.x, thread + k * threads);
    __pipeline_commit();
    for (unsigned round = 0; softmax < plan.outer; round++) {
        largest<T> most;
        summed<T> sum;
        __pipeline_wait_prior(0);
#pragma unroll 4
        for (int k = 0; k < rounds; k++) {
            const pack values = slots[k * blockDim.x];
#pragma unroll
            for (int e = 0; e < COUNT; e++)
                most.value = larger(most.value, values.of[e]);
        }
        const T m = join_cluster(most, shared_most, all_most, round).value;
#pragma unroll 4
        for (int k = 0; k < rounds; k++) {
            pack values = slots[k * blockDim.x];
#pragma unroll
            for (int e = 0; e < COUNT; e++) {
                const T power = exp(values.of[e] - m);
                sum.value += power;
                if (!LOG)
                    values.of[e] = power;
            }
            slots[k * blockDim.x] = values;
        }
        const softmax_of<T> by(LOG, m, join_cluster(sum, shared_sum, all_sum, round).value);
        softmax += clusters;
        const bool more = softmax < plan.outer;
        offsets_of(more ? softmax : 0, plan, at);
        const packed_row<T, COUNT> next(y + at[0], x + at[1], plan);
#pragma unroll 2
        for (int k = 0; k < rounds; k++) {
            pack values = slots[k * blockDim.x];
#pragma unroll
            for (int e = 0; e < COUNT; e++)
                values.of[e] = by.of_held(LOG, values.of[e]);
            row.store(thread + k * threads, values, row.is_whole(thread + k * threads));
            if (more)
                next.copy(slots + k * blockDim.x, thread + k * threads);
        }
        __pipeline_commit();
        row = next;
    }
#endif
}

} // namespace talc

#endif
