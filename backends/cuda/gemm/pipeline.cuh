/// The pipeline of a product: a ring of stages in shared memory, which producer warps fill with K
/// tiles and consumer warps multiply. Private to backends/cuda.
///
///     stage        0        1        2        0        1        2        0  ...
///     producer  | load   | load   | load   | wait   | load   | load   | load   |
///                    full ↘       ↘        ↘  empty ↗        ↗
///     consumer            | wgmma  | add    | wgmma  | add    | wgmma  | ...
///
/// A stage has two barriers. Consumers wait for `full`, producers for `empty`. A barrier's phase
/// ends when all who arrive at it have; its parity then changes, and who waits for the parity of a
/// phase goes on. So a side knows where it is by a stage and a parity, which changes each time
/// around.
#ifndef TALC_BACKENDS_CUDA_GEMM_PIPELINE_CUH
#define TALC_BACKENDS_CUDA_GEMM_PIPELINE_CUH

#include "backends/cuda/primitives/barriers.cuh"
#include "backends/cuda/primitives/wgmma.cuh"

namespace talc
{

/// Where a producer or a consumer is in the ring.
struct pipeline_state {
    int stage;
    uint32_t parity;

    __device__ __forceinline__ void advance(int stages)
    {
        if (++stage == stages)
            stage = 0, parity ^= 1;
    }
};

/// Each side begins at stage 0. All stages are empty, so the first wait of a producer is for a
/// phase that is over.
static __device__ __forceinline__ pipeline_state first_to_fill()
{
    return { 0, 1 };
}

static __device__ __forceinline__ pipeline_state first_to_empty()
{
    return { 0, 0 };
}

/// The addresses of a ring's barriers, in shared memory.
struct stage_barriers {
    uint32_t full_at, empty_at;

    __device__ __forceinline__ uint32_t full(int stage) const
    {
        return full_at + 8 * stage;
    }
    __device__ __forceinline__ uint32_t empty(int stage) const
    {
        return empty_at + 8 * stage;
    }
    __device__ __forceinline__ void wait_full(const pipeline_state &at) const
    {
        barrier_wait(full(at.stage), at.parity);
    }
    __device__ __forceinline__ void wait_empty(const pipeline_state &at) const
    {
        barrier_wait(empty(at.stage), at.parity);
    }
};

/// Sets up the barriers of the first `stages` stages. PRODUCERS and CONSUMERS are how many arrive
/// at a stage's `full` and `empty`. Called by all threads of a block.
template <int PRODUCERS, int CONSUMERS, int COUNT>
static __device__ __forceinline__ stage_barriers begin_pipeline(uint64_t (&barriers)[COUNT],
                                                                int stages = COUNT / 2)
{
    const stage_barriers b = { shared_address(barriers), shared_address(barriers) + 4 * COUNT };
    if (threadIdx.x == 0) {
        for (int i = 0; i < stages; i++) {
            barrier_init(b.full(i), PRODUCERS);
            barrier_init(b.empty(i), CONSUMERS);
        }
        fence_barrier_init();
    }
    __syncthreads();
    return b;
}

/// The first CONSUMER_THREADS threads of a block call consume(), the others produce(). Registers
/// move from the producers to the consumers: each kind has as many a thread as the template says,
/// or where it says 0 those that it was launched with, as on GPUs before Hopper.
template <int CONSUMER_THREADS, int CONSUMER_REGISTERS, int PRODUCER_REGISTERS, typename Consume,
          typename Produce>
static __device__ __forceinline__ void run_pipeline(Consume consume, Produce produce)
{
    if (threadIdx.x >= CONSUMER_THREADS) {
        if constexpr (PRODUCER_REGISTERS > 0)
            registers_down<PRODUCER_REGISTERS>();
        produce();
    } else {
        if constexpr (CONSUMER_REGISTERS > 0)
            registers_up<CONSUMER_REGISTERS>();
        consume();
    }
}

} // namespace talc

#endif
