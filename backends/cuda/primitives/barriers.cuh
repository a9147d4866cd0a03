/// Barriers in shared memory, and the block's own, for a part of its threads. Private to
/// backends/cuda. Source: PTX ISA 8.5, section 9.7.12 (mbarrier).
#ifndef TALC_BACKENDS_CUDA_PRIMITIVES_BARRIERS_CUH
#define TALC_BACKENDS_CUDA_PRIMITIVES_BARRIERS_CUH

#include <cuda_runtime.h>
#include <stdint.h>

namespace talc
{

static __device__ __forceinline__ uint32_t shared_address(const void *at)
{
    return (uint32_t)__cvta_generic_to_shared(at);
}

static __device__ __forceinline__ void barrier_init(uint32_t barrier, int count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count));
}

/* Older GPUs know no clusters, and look at a barrier without waiting for it. */
#if __CUDA_ARCH__ >= 900
#define TALC_BARRIER_FENCE "fence.mbarrier_init.release.cluster;"
#define TALC_BARRIER_LOOK  "try_wait"
#else
#define TALC_BARRIER_FENCE "fence.acq_rel.cta;"
#define TALC_BARRIER_LOOK  "test_wait"
#endif

static __device__ __forceinline__ void fence_barrier_init()
{
    asm volatile(TALC_BARRIER_FENCE ::: "memory");
}

static __device__ __forceinline__ void barrier_wait(uint32_t barrier, uint32_t parity)
{
    asm volatile("{\n.reg .pred done;\nagain:\n"
                 "mbarrier." TALC_BARRIER_LOOK ".parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra.uni again;\n}" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
}

static __device__ __forceinline__ void barrier_arrive(uint32_t barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

/// One arrival, of a thread that goes on to copy `bytes` by bulk_copy.
static __device__ __forceinline__ void barrier_arrive_for(uint32_t barrier, int bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
                 : "memory");
}

/// One arrival, as soon as the asynchronous copies have come that this thread has begun
/// (begin_copy).
static __device__ __forceinline__ void barrier_arrive_after_copies(uint32_t barrier)
{
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

/// Copies contiguous memory, 16 bytes or more times 16 at addresses aligned to that; `barrier`
/// counts the bytes as they come. From compute capability 9.0 on.
static __device__ __forceinline__ void bulk_copy(uint32_t shared, const void *from, int bytes,
                                                 uint32_t barrier)
{
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
            "r"(shared),
        "l"(from), "r"(bytes), "r"(barrier)
        : "memory");
}

#undef TALC_BARRIER_FENCE
#undef TALC_BARRIER_LOOK

/// Waits for THREADS threads at barrier ID.
template <int ID, int THREADS> static __device__ __forceinline__ void barrier_sync()
{
    asm volatile("bar.sync %0, %1;" ::"n"(ID), "n"(THREADS) : "memory");
}

/// Of THREADS threads at barrier ID one that does not wait.
template <int ID, int THREADS> static __device__ __forceinline__ void barrier_arrive_at()
{
    asm volatile("bar.arrive %0, %1;" ::"n"(ID), "n"(THREADS) : "memory");
}

} // namespace talc

#endif
