/// An operand of a product on tensor cores, f32 in memory: loaded a K tile at a time, scaled, and
/// split into halves in shared memory, where wgmma reads them. Private to backends/cuda.
///
/// A K tile in shared memory is [high or low part][k / 8][position][k % 8] of f16: groups of eight
/// rows by eight steps of k, wgmma's core matrices, are 128 contiguous bytes. Each row of a K tile
/// has a power of two of its own, which takes its largest element to TOP.
#ifndef TALC_BACKENDS_CUDA_GEMM_OPERAND_CUH
#define TALC_BACKENDS_CUDA_GEMM_OPERAND_CUH

#include "backends/cuda/cuda.h"
#include "backends/cuda/gemm/recompute.cuh"
#include "backends/cuda/gemm/tile_map.h"
#include "backends/cuda/primitives/halves.cuh"
#include "backends/cuda/primitives/launch.cuh"
#include "backends/cuda/primitives/shared_copy.cuh"

namespace talc
{

constexpr int EIGHT = 8; /* steps of k of a core matrix, and its rows */

constexpr float TINY_BELOW = 0.125f; /* TINY<3> */

/// A stage's share of an operand in shared memory.
template <int ROWS> struct stage_of {
    __half halves[2][TALC_TILE_K / EIGHT][ROWS][EIGHT];
    float back[ROWS];       ///< takes a row's products back from its scale
    row_bound bounds[ROWS]; ///< of all K tiles of the work, in its last stage
};

/// A matrix of rows, as a product sees it: rows of op(A), or columns of op(B).
template <bool IS_ALONG_K> struct matrix_operand {
    static constexpr bool ALONG_K = IS_ALONG_K; ///< k is the dimension that is contiguous
    static constexpr bool INTERLEAVED = !ALONG_K;
    const float *from;
    int64_t row_step, k_step, rows, K;
    bool vectors; ///< whether four neighbours are 16 bytes of memory
};

/// What a thread of a loading warpgroup copies of the next K tile to shared memory, where it alone
/// reads it: vectors of four, [vector][thread].
template <bool ALONG_K, int ROWS> struct matrix_cursor {
    static constexpr int GROUPS = ALONG_K ? ROWS / 32 : 4; /* of eight steps of k */
    static constexpr int THREADS = ALONG_K ? 128 : ROWS;   /* that have any */
    static constexpr int VECTORS = GROUPS * EIGHT / 4;
    static constexpr int BYTES = VECTORS * THREADS * 16; ///< of a K tile
    const float *at;
    int64_t k_left; ///< steps of k that exist
    int left;       ///< rows that exist from the thread's first on

    __device__ __forceinline__ void begin(const matrix_operand<ALONG_K> &o, int64_t matrix,
                                          int64_t first_row, int k_tile, int thread)
    {
        const int row = talc_tile_row(!ALONG_K, talc_loaded_position(!ALONG_K, thread, 0));
        const int64_t k = (int64_t)k_tile * TALC_TILE_K, exist = o.rows - first_row - row;
        at = o.from + matrix + (first_row + row) * o.row_step +
             (k + talc_loaded_k(thread, 0)) * o.k_step;
        left = exist < 0 ? 0 : exist < ROWS ? (int)exist : ROWS;
        k_left = o.K - k;
    }

    /// Begins the copies of a K tile to `to` of shared memory. What lies outside the operand
    /// becomes 0.
    __device__ __forceinline__ void copy(const matrix_operand<ALONG_K> &o, int thread, uint32_t to)
    {
        if (!ALONG_K && thread >= ROWS)
            return;
        to += thread * 16;
        if (o.vectors && k_left >= TALC_TILE_K) {
            const float *from = at;
#pragma unroll
            for (int n = 0; n < VECTORS; n++) {
                const int exist = ALONG_K ? (n / 2 * 32 < left ? 4 : 0) : min(left, 4);
                begin_copy<16>(to + n * (THREADS * 16), from, exist * 4);
                from += !ALONG_K     ? (n == 3 ? 13 : 1) * o.k_step
                        : n % 2 == 0 ? 16
                                     : 32 * o.row_step - 16;
            }
        } else {
#pragma unroll 1
            for (int n = 0; n < VECTORS; n++)
#pragma unroll 1
                for (int i = 0; i < 4; i++) {
                    const int row = ALONG_K ? n / 2 * 32 : i, k = ALONG_K ? n % 2 * 4 + i : n;
                    const bool exists = row < left && talc_loaded_k(thread, k) < k_left;
                    const float *from = at + row * o.row_step + (k / 4 * 16 + k % 4) * o.k_step;
                    begin_copy<4>(to + n * (THREADS * 16) + i * 4, exists ? from : o.from,
                                  exists ? 4 : 0);
                }
        }
        at += TALC_TILE_K * o.k_step;
        k_left -= TALC_TILE_K;
    }

    /// Reads them: groups of eight steps of k.
    static __device__ __forceinline__ void read(const float4 *from, int thread,
                                                float (&v)[GROUPS * EIGHT])
    {
        if (!ALONG_K && thread >= ROWS)
            return;
#pragma unroll
        for (int n = 0; n < VECTORS; n++) {
            const float4 four = from[n * THREADS + thread];
            if (ALONG_K)
                v[n * 4] = four.x, v[n * 4 + 1] = four.y, v[n * 4 + 2] = four.z,
                      v[n * 4 + 3] = four.w;
            else
                v[n] = four.x, v[8 + n] = four.y, v[16 + n] = four.z, v[24 + n] = four.w;
        }
    }
};

/// Scales a thread's groups of eight, splits them and stores them in a stage; adds to the bounds of
/// their rows. Each step is taken for all groups, so that none waits for another.
template <bool INTERLEAVED, int ROWS, int GROUPS>
static __device__ __forceinline__ void split_to_stage(float (&v)[GROUPS * EIGHT], int thread,
                                                      stage_of<ROWS> &stage,
                                                      row_bound (&bounds)[GROUPS])
{
    constexpr int COUNT = GROUPS * EIGHT;
    float max[GROUPS] = {}, back[GROUPS];
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        max[i / EIGHT] = fmaxf(max[i / EIGHT], fabsf(v[i]));
    bool finite = true;
#pragma unroll
    for (int g = 0; g < GROUPS; g++)
        finite = finite & (max[g] < INFINITY);
    if (!finite) { /* which are computed again */
#pragma unroll
        for (int g = 0; g < GROUPS; g++)
            max[g] = 0;
#pragma unroll
        for (int i = 0; i < COUNT; i++)
            max[i / EIGHT] = fmaxf(max[i / EIGHT], isinf(v[i]) ? 0 : fabsf(v[i]));
    }
#pragma unroll
    for (int apart = 8; apart <= 16; apart *= 2)
#pragma unroll
        for (int g = 0; g < GROUPS; g++)
            max[g] = fmaxf(max[g], __shfl_xor_sync(~0u, max[g], apart));
    unsigned smallest = ~0u;
#pragma unroll
    for (int g = 0; g < GROUPS; g++) {
        const int e = exponent_for(max[g]);
        back[g] = power_of_two(-e);
        bounds[g].largest = fmaxf(bounds[g].largest, back[g]);
#pragma unroll
        for (int i = 0; i < EIGHT; i++) {
            v[g * EIGHT + i] *= power_of_two(e);
            smallest = min(smallest, tininess(v[g * EIGHT + i]));
        }
    }
    if (smallest < TINY<3>) /* whose elements are counted from v, to keep no more registers */
#pragma unroll
        for (int g = 0; g < GROUPS; g++) {
            int tiny = 0;
#pragma unroll
            for (int i = 0; i < EIGHT; i++)
                tiny += fabsf(v[g * EIGHT + i]) < TINY_BELOW && v[g * EIGHT + i] != 0;
            bounds[g].tiny += (float)tiny * back[g];
        }
    if (INTERLEAVED && thread >= ROWS)
        return;
    const int k8 = thread % 32 / 8;
#pragma unroll
    for (int g = 0; g < GROUPS; g++) {
        const int position = talc_loaded_position(INTERLEAVED, thread, g);
        uint4 high, low;
        split_eight(v + g * EIGHT, high, low);
        *(uint4 *)stage.halves[0][k8][position] = high;
        *(uint4 *)stage.halves[1][k8][position] = low;
        if (k8 == 0)
            stage.back[position] = back[g];
    }
}

/// Stores the bounds of a thread's rows in a stage, and begins new ones.
template <bool INTERLEAVED, int ROWS, int GROUPS>
static __device__ __forceinline__ void bounds_to_stage(row_bound (&bounds)[GROUPS], int thread,
                                                       stage_of<ROWS> &stage)
{
#pragma unroll
    for (int g = 0; g < GROUPS; g++) {
        row_bound of = bounds[g];
        of.tiny += __shfl_xor_sync(~0u, of.tiny, 8);
        of.tiny += __shfl_xor_sync(~0u, of.tiny, 16);
        if (thread % 32 < 8 && !(INTERLEAVED && thread >= ROWS))
            stage.bounds[talc_loaded_position(INTERLEAVED, thread, g)] = of;
        bounds[g] = {};
    }
}

} // namespace talc

#endif
