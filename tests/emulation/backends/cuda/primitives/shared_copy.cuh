/// Asynchronous copies, as backends/cuda/primitives/shared_copy.cuh declares them.
#ifndef TALC_TESTS_EMULATION_SHARED_COPY_CUH
#define TALC_TESTS_EMULATION_SHARED_COPY_CUH

#include "tests/emulation/emulation.h"

/// Ends a group of a thread's copies.
void __pipeline_commit();

/// Until all but the last `count` groups have come. They come here.
void __pipeline_wait_prior(size_t count);

namespace emulation
{

void begin_copy(uint32_t to, const void *from, int bytes, int real);

} // namespace emulation

namespace talc
{

template <int BYTES> inline void begin_copy(unsigned at, const void *from, int real)
{
    emulation::begin_copy(at, from, BYTES, real);
}

} // namespace talc

#endif
