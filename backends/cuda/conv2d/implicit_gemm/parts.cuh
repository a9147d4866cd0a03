/// implicit_gemm's split reductions: adds up the parts that blocks have computed. Private to backends/cuda.
#ifndef TALC_BACKENDS_CUDA_CONV2D_IMPLICIT_GEMM_PARTS_CUH
#define TALC_BACKENDS_CUDA_CONV2D_IMPLICIT_GEMM_PARTS_CUH

#include "backends/cuda/conv2d/implicit_gemm/results.cuh"

namespace talc
{

struct gemm_parts {
    const float *of; ///< [part][y's shape]
    divisor<uint32_t> by_plane, by_OC, by_OW, by_group, by_columns, by_rows;
};

/// The item of [tile][part] that begins with the tile of an output.
static __device__ __forceinline__ int first_part(const gemm_problem &p, const gemm_parts &parts,
                                                 int g, int channel_tile, gemm_place at)
{
    int tile;
    if (p.flat) {
        const int position = (at.n * p.image_rows + at.row) * p.pitch + at.column;
        tile = g * p.column_tiles + (int)parts.by_columns.quotient((uint32_t)position);
    } else {
        const int row = (int)parts.by_rows.quotient((uint32_t)at.row),
                  column = (int)parts.by_columns.quotient((uint32_t)at.column);
        tile = ((g * p.N + at.n) * p.row_tiles + row) * p.column_tiles + column;
    }
    return (tile * p.channel_tiles + channel_tile) * p.splits;
}

/// A thread an output. Parts are added in their order; doubtful sums, and infinite ones, since a part alone may overflow, are computed
/// again by the warp.
static __global__ void __launch_bounds__(BLOCK)
    add_parts(const __grid_constant__ gemm_problem p, const gemm_parts parts)
{
    const int both = p.part_shift == 0 ? 2 : 1;
    const uint32_t count = (uint32_t)p.outputs, lane = threadIdx.x % WARP;
    for (uint32_t from = blockIdx.x * BLOCK + threadIdx.x - lane; from < count;
         from += gridDim.x * BLOCK) {
        const uint32_t i = min(from + lane, count - 1);
        const int plane = (int)parts.by_plane.quotient(i),
                  pixel = (int)i - plane * (int)parts.by_plane.by;
        gemm_place at;
        at.n = (int)parts.by_OC.quotient((uint32_t)plane);
        at.row = (int)parts.by_OW.quotient((uint32_t)pixel);
        at.column = pixel - at.row * p.OW;
        const int oc = plane - at.n * p.OC, g = (int)parts.by_group.quotient((uint32_t)oc),
                  c = oc - g * p.group_out, channel_tile = c / (both * CHANNELS);
        const float *doubts = p.doubts +
                              (int64_t)first_part(p, parts, g, channel_tile, at) * 2 * CHANNELS +
                              c % (both * CHANNELS);
        float sum = 0, least = 0;
#pragma unroll 4
        for (int part = 0; part < p.splits; part++) {
            sum += parts.of[part * p.outputs + i];
            least += doubts[part * 2 * CHANNELS];
        }
        unsigned doubtful = __ballot_sync(~0u, !(fabsf(sum) >= least && fabsf(sum) < INFINITY));
        if (doubtful != 0 && lane == 0)
            atomicAdd(p.recomputed, __popc(doubtful));
        for (; doubtful != 0; doubtful &= doubtful - 1) {
            const int of = __ffs((int)doubtful) - 1;
            const float again =
                sum_by_warp(p, __shfl_sync(~0u, g, of), __shfl_sync(~0u, c, of),
                            { __shfl_sync(~0u, at.n, of), __shfl_sync(~0u, at.row, of),
                              __shfl_sync(~0u, at.column, of) });
            if ((int)lane == of)
                sum = again;
        }
        if (from + lane < count)
            p.y[i] = talc_epilogue(p.last, sum, oc, i);
    }
}

} // namespace talc

#endif
