/// Who computed an output, as the output itself. Compiles as C and as CUDA C++. Private to
/// backends/cuda.
///
/// The kernels that tell who computes what (ops/owner_map.h) call talc::witness before they store.
/// In the library it does nothing. With TALC_WITNESS, which the test `witness` builds them with,
/// it puts their owner in place of each sum.
#ifndef TALC_BACKENDS_CUDA_PRIMITIVES_WITNESS_H
#define TALC_BACKENDS_CUDA_PRIMITIVES_WITNESS_H

#include "backends/cuda/primitives/fragment.h"

#include <stdint.h>

TALC_BEGIN_DECLARATIONS

/// A whole number below 2^18 that stands for an owner, with `sum` its register. f32 holds it, and
/// what 64 splits of an output add up to.
TALC_TILE_MAP uint32_t talc_witness_of(int64_t block, int thread, int sum, int split)
{
    uint64_t mixed = ((uint64_t)block * 1024 + (uint64_t)thread) * 1024 + (uint64_t)sum;
    mixed = (mixed * 64 + (uint64_t)split + 1) * 0x9e3779b97f4a7c15u;
    mixed = (mixed ^ mixed >> 29) * 0xbf58476d1ce4e5b9u;
    return (uint32_t)(mixed >> 46);
}

TALC_END_DECLARATIONS

#ifdef __CUDACC__
namespace talc
{

#ifdef TALC_WITNESS
constexpr bool IS_WITNESS = true;
#else
constexpr bool IS_WITNESS = false;
#endif

/// `sums`: those of a thread, in the order of their registers, from number `first` on.
template <typename T, int N>
static __device__ __forceinline__ void witness(T (&sums)[N], int64_t block, int split,
                                               int first = 0)
{
#pragma unroll
    for (int i = 0; IS_WITNESS && i < N; i++)
        sums[i] = (T)talc_witness_of(block, (int)threadIdx.x, first + i, split);
}

template <typename T, int N, int M>
static __device__ __forceinline__ void witness(T (&sums)[N][M], int64_t block, int split)
{
#pragma unroll
    for (int i = 0; i < N; i++)
        witness(sums[i], block, split, i * M);
}

} // namespace talc
#endif

#endif
