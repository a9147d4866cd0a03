/// Split-K of implicit_gemm: adds up the sums that blocks have computed. Private to backends/cuda.
#ifndef TALC_BACKENDS_CUDA_CONV2D_IMPLICIT_GEMM_SPLIT_K_CUH
#define TALC_BACKENDS_CUDA_CONV2D_IMPLICIT_GEMM_SPLIT_K_CUH

#include "backends/cuda/conv2d/implicit_gemm/store.cuh"

namespace talc
{

struct split_sums {
    const float *of; ///< [split][shape of y]
    /// Of y, which may be dx: its planes, channels, columns and channels of a group.
    talc_divisor by_plane, by_channels, by_width, by_group;
    talc_divisor by_columns, by_rows; ///< of a tile
};

/// One thread an output. It adds the splits in their order. A warp recomputes the sums below their
/// limit, and the infinite ones, since a single split may overflow.
template <bool PHASES>
static __global__ void __launch_bounds__(BLOCK)
    add_splits(const __grid_constant__ gemm_problem p, const split_sums sums)
{
    const int both = p.warpgroup_shift == 0 ? 2 : 1;
    const uint32_t count = (uint32_t)p.outputs, lane = threadIdx.x % WARP;
    for (uint32_t from = blockIdx.x * BLOCK + threadIdx.x - lane; from < count;
         from += gridDim.x * BLOCK) {
        const uint32_t i = min(from + lane, count - 1);
        const int plane = (int)talc_quotient(sums.by_plane, i),
                  pixel = (int)i - plane * (int)sums.by_plane.by;
        talc_gemm_pixel at;
        at.n = (int)talc_quotient(sums.by_channels, (uint32_t)plane);
        at.row = (int)talc_quotient(sums.by_width, (uint32_t)pixel);
        at.column = pixel - at.row * (int)sums.by_width.by;
        const int oc = plane - at.n * (int)sums.by_channels.by,
                  g = (int)talc_quotient(sums.by_group, (uint32_t)oc);
        int c = oc - g * (int)sums.by_group.by;
        if constexpr (PHASES)
            c = talc_gemm_row_with(&p.dx, c, at.row, at.column, &at);
        const int channel_tile = c / (both * CHANNELS);
        const float *recompute_limits =
            p.recompute_limits +
            (int64_t)talc_gemm_tile_with(&p, g, channel_tile, at, sums.by_rows, sums.by_columns) *
                2 * CHANNELS +
            c % (both * CHANNELS);
        float sum = 0, limit = 0;
#pragma unroll 4
        for (int split = 0; split < p.splits; split++) {
            sum += sums.of[split * p.outputs + i];
            limit += recompute_limits[split * 2 * CHANNELS];
        }
        const bool bad = !(fabsf(sum) >= limit && fabsf(sum) < INFINITY);
        sum = recompute_by_warp(bad, sum, p.recomputed, [&](int of) {
            return sum_by_warp<PHASES>(p, __shfl_sync(~0u, g, of), __shfl_sync(~0u, c, of),
                                       { __shfl_sync(~0u, at.n, of), __shfl_sync(~0u, at.row, of),
                                         __shfl_sync(~0u, at.column, of) });
        });
        if (from + lane < count)
            p.y[i] = talc_epilogue(p.last, sum, oc, i);
    }
}

} // namespace talc

#endif
