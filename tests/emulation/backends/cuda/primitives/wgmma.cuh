/// Products of warpgroups, as backends/cuda/primitives/wgmma.cuh declares them: of operands in
/// shared memory, at once.
#ifndef TALC_TESTS_EMULATION_WGMMA_CUH
#define TALC_TESTS_EMULATION_WGMMA_CUH

#include "tests/emulation/emulation.h"

namespace talc
{

inline void fence_async_shared()
{
}
template <int COUNT> inline void registers_up()
{
}
template <int COUNT> inline void registers_down()
{
}
inline void wgmma_fence()
{
}
inline void wgmma_commit()
{
}
template <int PENDING> inline void wgmma_wait()
{
}

struct shared_matrix {
    uint32_t at, stride;
};

inline shared_matrix shared_matrix_of(uint32_t address, int leading, int stride)
{
    return { address % (1 << 18) / 16 | (uint32_t)leading << 16, (uint32_t)stride };
}

/* Element [row, k] of core matrices of 8 rows of 16 bytes. */
inline float element_of(shared_matrix m, int row, int k)
{
    const uint32_t at = m.at % (1 << 14) * 16 + (uint32_t)(k / 8) * (m.at >> 16) * 16 +
                        (uint32_t)(row / 8) * m.stride * 16 + (uint32_t)(row % 8 * 16 + k % 8 * 2);
    return __half2float(
        *(const __half *)(emulation::shared_memory() + at - emulation::SHARED_BASE));
}

/// d += a b, or d = a b where `add` is 0: a [64, 16], b [16, 2 * COUNT].
template <int COUNT> inline void wgmma(float (&d)[COUNT], shared_matrix a, shared_matrix b, int add)
{
    const int thread = (int)threadIdx.x % 128;
    for (int i = 0; i < COUNT; i++) {
        const int row = thread / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8,
                  column = i / 4 * 8 + thread % 4 * 2 + i % 2;
        float sum = add != 0 ? d[i] : 0;
        for (int k = 0; k < 16; k++)
            sum += element_of(a, row, k) * element_of(b, column, k);
        d[i] = sum;
    }
}

} // namespace talc

#endif
