/// Barriers in shared memory, as backends/cuda/primitives/barriers.cuh declares them.
#ifndef TALC_TESTS_EMULATION_BARRIERS_CUH
#define TALC_TESTS_EMULATION_BARRIERS_CUH

#include "tests/emulation/emulation.h"

namespace talc
{

inline uint32_t shared_address(const void *at)
{
    return (uint32_t)((const char *)at - emulation::shared_memory()) + emulation::SHARED_BASE;
}

/* The 8 bytes of a barrier: arrivals that are left of its count, and phases that are complete. */
struct emulated_barrier {
    int16_t left, count;
    int32_t phases;
};

inline emulated_barrier &barrier_at(uint32_t barrier)
{
    return *(emulated_barrier *)(emulation::shared_memory() + barrier - emulation::SHARED_BASE);
}

inline void barrier_init(uint32_t barrier, int count)
{
    barrier_at(barrier) = { (int16_t)count, (int16_t)count, 0 };
}

inline void fence_barrier_init()
{
}

inline void barrier_wait(uint32_t barrier, uint32_t parity)
{
    while ((uint32_t)barrier_at(barrier).phases % 2 == parity)
        emulation::yield();
}

inline void barrier_arrive(uint32_t barrier)
{
    emulated_barrier &b = barrier_at(barrier);
    if (--b.left == 0) {
        b.left = b.count;
        b.phases++;
    }
    emulation::progress();
}

} // namespace talc

#endif
