/// Softmaxes that fit in the registers of a warp. x is read once, y written once. Private to
/// backends/cuda/softmax.
///
/// 1 to 32 lanes share a softmax.
#ifndef TALC_BACKENDS_CUDA_SOFTMAX_WARP_CUH
#define TALC_BACKENDS_CUDA_SOFTMAX_WARP_CUH

#include "backends/cuda/softmax/softmax.cuh"

namespace talc
{

/// How the lanes of a warp stand. ALONG: lanes that share a softmax are neighbours. STRIDED: lanes
/// of different softmaxes are neighbours, since their elements are neighbours in memory.
enum softmax_layout { ALONG, STRIDED };

/// A softmax has `count` vectors and is shared by 1 << shift lanes. Each lane holds at most HELD
/// vectors.
template <typename T, int COUNT, int HELD, softmax_layout LAYOUT>
static __global__ void __launch_bounds__(BLOCK, 3)
    softmax_warp(T *y, const T *x, int shift, int count, const softmax_plan plan)
{
    using vector = vec<T, COUNT>;
    constexpr int SUMS = 4;
    const int lanes = 1 << shift, rows = WARP >> shift;
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const int row = LAYOUT == STRIDED ? lane & (rows - 1) : lane >> shift;
    const int lane_in_row = LAYOUT == STRIDED ? lane >> (5 - shift) : lane & (lanes - 1);
    const int step = LAYOUT == STRIDED ? rows : 1;
    const int rounds = (count + lanes - 1) >> shift;
    const int own = (count - lane_in_row + lanes - 1) >> shift; /* vectors of this lane */
    const int64_t x_stride = COUNT > 1 ? COUNT : plan.x_stride;
    const int64_t y_stride = COUNT > 1 ? COUNT : plan.y_stride;
    const int64_t grid_stride = (int64_t)gridDim.x * (BLOCK / WARP) * rows;
    for (int64_t first = ((int64_t)blockIdx.x * (BLOCK / WARP) + warp) * rows; first < plan.outer;
         first += grid_stride) {
        const int real = (int)(plan.outer - first < rows ? plan.outer - first : rows);
        int64_t at[2];
        plan.at.offsets((uint64_t)(first + (row < real ? row : 0)), at);
        const T *from = x + at[1] + lane_in_row * x_stride;
        T *to = y + at[0] + lane_in_row * y_stride;
        vector held[HELD];
        T m = -(T)INFINITY, sums[SUMS] = {};
#pragma unroll
        for (int k = 0; k < HELD; k++, from += x_stride * lanes)
            if (k < own)
                held[k] = *(const vector *)from;
            else
#pragma unroll
                for (int e = 0; e < COUNT; e++)
                    held[k].of[e] = -(T)INFINITY;
#pragma unroll
        for (int k = 0; k < HELD; k++)
            if (k < rounds)
#pragma unroll
                for (int e = 0; e < COUNT; e++)
                    m = larger()(m, held[k].of[e]);
        m = join_lanes(m, lanes, step, larger());
#pragma unroll
        for (int k = 0; k < HELD; k++)
            if (k < rounds)
#pragma unroll
                for (int e = 0; e < COUNT; e++) {
                    const T power = exp(held[k].of[e] - m);
                    sums[(k * COUNT + e) % SUMS] += power;
                    if (!plan.log)
                        held[k].of[e] = power;
                }
        const softmax_of<T> by(plan.log, m,
                               join_lanes(tree_sum<SUMS>(sums), lanes, step, sum_of()));
#pragma unroll
        for (int k = 0; k < HELD; k++, to += y_stride * lanes)
            if (k < own && row < real) {
#pragma unroll
                for (int e = 0; e < COUNT; e++)
                    held[k].of[e] = by.of_held(held[k].of[e]);
                store_vector(to, held[k]);
            }
    }
}

} // namespace talc

#endif
