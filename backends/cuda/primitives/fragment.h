/// Which elements of the result of a tensor-core product a lane has. Compiles as C and as CUDA C++.
/// Private to backends/cuda.
///
/// Source: PTX ISA 8.5, section 9.7.13, m16n8k16's C and D; a warp of a warpgroup has 16 of the 64
/// rows of a wgmma's D in the same way.
#ifndef TALC_BACKENDS_CUDA_PRIMITIVES_FRAGMENT_H
#define TALC_BACKENDS_CUDA_PRIMITIVES_FRAGMENT_H

#include "tensor/api.h"

TALC_BEGIN_DECLARATIONS

/* TALC_TILE_CONSTANT: a template of CUDA may ask for its result at compile time. */
#ifdef __CUDACC__
#define TALC_TILE_MAP      static __host__ __device__ __forceinline__
#define TALC_TILE_CONSTANT TALC_TILE_MAP constexpr
#else
#define TALC_TILE_MAP      static inline
#define TALC_TILE_CONSTANT static inline
#endif

/// Of a warp's 16 rows and its columns.
typedef struct talc_fragment {
    int row, column;
} talc_fragment;

/// Register i of a lane: pairs of neighbouring columns, in row lane / 4 and 8 rows below, of 8
/// columns after the other.
TALC_TILE_MAP talc_fragment talc_fragment_of(int lane, int i)
{
    const talc_fragment f = { lane / 4 + i / 2 % 2 * 8, i / 4 * 8 + lane % 4 * 2 + i % 2 };
    return f;
}

TALC_END_DECLARATIONS

#endif
