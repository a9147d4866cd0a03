/// Tensor cores through mma.sync, which GPUs of compute capability 8.0 and later have. Private to
/// backends/cuda. Source: PTX ISA 8.5, section 9.7.13 (warp level matrix multiply-accumulate).
#ifndef TALC_BACKENDS_CUDA_PRIMITIVES_MMA_CUH
#define TALC_BACKENDS_CUDA_PRIMITIVES_MMA_CUH

#include <cuda_runtime.h>
#include <stdint.h>

namespace talc
{

/// d += a b: a [16, 16], b [16, 8], f16 with f32 sums. With row = lane / 4 and pair = lane % 4 * 2
/// a thread has of a elements [row, pair], [row + 8, pair], [row, pair + 8], [row + 8, pair + 8]
/// and the next of each, of b [pair, row] and [pair + 8, row] and the next below, of d [row, pair]
/// and [row + 8, pair] and the next of each.
static __device__ __forceinline__ void mma(float *d, const uint4 &a, uint32_t b0, uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}

/// Four matrices of 8 rows of 16 bytes: threads of lanes 8 i to 8 i + 7 have the addresses of the
/// rows of matrix i, and each gets of a matrix two neighbours of row lane / 4. TRANSPOSED: of
/// column lane / 4.
template <bool TRANSPOSED> static __device__ __forceinline__ uint4 four_matrices(uint32_t row)
{
    uint4 m;
    if (TRANSPOSED)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(m.x), "=r"(m.y), "=r"(m.z), "=r"(m.w)
                     : "r"(row));
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(m.x), "=r"(m.y), "=r"(m.z), "=r"(m.w)
                     : "r"(row));
    return m;
}

} // namespace talc

#endif
