/// implicit_gemm's results: from the sums of warps to y. Private to backends/cuda.
#ifndef TALC_BACKENDS_CUDA_CONV2D_IMPLICIT_GEMM_RESULTS_CUH
#define TALC_BACKENDS_CUDA_CONV2D_IMPLICIT_GEMM_RESULTS_CUH

#include "backends/cuda/conv2d/implicit_gemm/problem.cuh"

namespace talc
{

// ---- One output, by FFMA ------------------------------------------------------------------------------------

/// The sum of one output, by a warp, in the order of its lanes.
static __device__ __forceinline__ float sum_by_warp(const gemm_problem &p, int g, int oc,
                                                    gemm_place place)
{
    const int taps = p.KH * p.KW, K = p.group_in * taps;
    const float *w = p.w + ((int64_t)g * p.group_out + oc) * K;
    const float *x = p.x + ((int64_t)place.n * p.C + (int64_t)g * p.group_in) * p.H * p.W;
    float sum = 0;
    for (int k = (int)threadIdx.x % WARP; k < K; k += WARP) {
        const int c = k / taps, tap = k - c * taps, kh = tap / p.KW, kw = tap - kh * p.KW;
        int64_t h = (int64_t)place.row * p.stride_h - p.top + kh * p.dilation_h;
        int64_t v = (int64_t)place.column * p.stride_w - p.left + kw * p.dilation_w;
        h = talc_window_source(p.mode, h, p.H), v = talc_window_source(p.mode, v, p.W);
        sum += (h < 0 || v < 0 ? 0 : x[((int64_t)c * p.H + h) * p.W + v]) * w[k];
    }
#pragma unroll
    for (int apart = WARP / 2; apart > 0; apart /= 2)
        sum += __shfl_xor_sync(~0u, sum, apart);
    return sum;
}

// ---- Rows of results ----------------------------------------------------------------------------------------

/// The larger one, or NaN.
static __device__ __forceinline__ float at_least(float v, float floor)
{
    float larger;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(v), "f"(floor));
    return larger;
}

/// The smaller magnitude, or NaN.
static __device__ __forceinline__ float smaller_magnitude(float a, float b)
{
    float smaller;
    asm("{\n.reg .f32 x, y;\nabs.f32 x, %1;\nabs.f32 y, %2;\nmin.NaN.f32 %0, x, y;\n}"
        : "=f"(smaller)
        : "f"(a), "f"(b));
    return smaller;
}

static __device__ __forceinline__ void copy_four(float *to, const float *from)
{
    *(float2 *)to = *(const float2 *)from;
    *(float2 *)(to + 2) = *(const float2 *)(from + 2);
}

/// Writes a result of each of `count` channels, the first to y[lane].
static __device__ __forceinline__ void store_elements(float *y, int plane, int count, float floor,
                                                      const float *staging)
{
    y += (int)threadIdx.x % WARP;
#pragma unroll 1
    for (int from = 0; from < count; from += 8) {
        float v[8];
#pragma unroll
        for (int c = 0; c < 8; c++)
            v[c] = at_least(staging[(from + c) * RESULT_PITCH], floor);
#pragma unroll
        for (int c = 0; c < 8; c++, y += plane)
            if (from + c < count)
                *y = v[c];
    }
}

/// Writes columns begin .. end - 1 of a row of results of a warp's channels, whose first belongs at y and stands in shared memory behind
/// CARRIED others, beginning with the column `from` rounded down to a sector of 32 bytes of y: memory takes parts of sectors at a third
/// of its rate. By vectors of 4, 8 threads a channel.
static __device__ __forceinline__ void store_sectors(float *y, int plane, int channels, float floor,
                                                     const float *staging, int lane, int from,
                                                     int begin, int end)
{
    const int misaligned = (int)((uintptr_t)y / 4);
#pragma unroll 1
    for (int c = lane / 8; c < channels; c += 8) {
        float4 v[2];
        int column[2];
#pragma unroll
        for (int k = 0; k < 2; k++) {
            column[k] = from + lane % 8 * 4 - ((misaligned + (c + k * 4) * plane) & (CARRIED - 1));
            const float *at = staging + (c + k * 4) * RESULT_PITCH + CARRIED + column[k];
            v[k] = make_float4(at_least(at[0], floor), at_least(at[1], floor),
                               at_least(at[2], floor), at_least(at[3], floor));
        }
#pragma unroll
        for (int k = 0; k < 2; k++) {
            float *to = y + ((c + k * 4) * plane + column[k]);
            const int before = begin - column[k], behind = end - column[k];
            if (c + k * 4 >= channels)
                continue;
            if (before <= 0 && behind >= 4) {
                *(float4 *)to = v[k];
            } else {
                if (before <= 0 && behind > 0)
                    to[0] = v[k].x;
                if (before <= 1 && behind > 1)
                    to[1] = v[k].y;
                if (before <= 2 && behind > 2)
                    to[2] = v[k].z;
                if (before <= 3 && behind > 3)
                    to[3] = v[k].w;
            }
        }
    }
}

/// What the sums of a tile are scaled by, how many of their elements were too small for f16, each counted as often as it has been scaled
/// up since, and the largest such factor. NaN: the sums are lost.
struct sums_note {
    int exponent;
    float tiny, span;
};

/// Ends a warp's sums and writes them, row by row through shared memory, so that they leave in whole rows of the tile. Those that may
/// have lost the products of tiny elements, and NaN, are computed again. `carried` [ROWS][16][CARRIED] are the ends of rows for the
/// tile behind.
static __device__ __forceinline__ void store_results(const gemm_problem &p, const gemm_tile &a,
                                                     float (&sums)[BLOCKS][ROWS * 4],
                                                     sums_note note, float *staging, float *carried)
{
    /* Asked for anew: what follows from it would else take registers from the sums while they are formed. */
    int thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    const int lane = thread % WARP, warp = thread / WARP % 4, warpgroup = thread / 128;
    staging += thread / WARP * STAGING;
    carried += thread / WARP * CARRY;
    const int both = p.part_shift == 0 ? 2 : 1;
    const int block = a.channel_tile * both + (both == 2 ? warpgroup : 0),
              part = both == 2 ? 0 : warpgroup * p.part_shift;
    const int first = block * CHANNELS + warp * 16; /* channel of the group */
    const int oc0 = a.g * p.group_out + first, plane = p.OH * p.OW;
    const int channels = max(0, min(16, p.group_out - first));
    unsigned *marks = (unsigned *)(staging + 16 * RESULT_PITCH); /* [ROWS][WARP] */
    float back[2], least[2], bias[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int c = lane / 4 + half * 8, at = a.g * p.channel_tiles * both * CHANNELS + first + c;
        const int e = -(note.exponent + p.exponents[at]);
        back[half] = power_of_two(max(-126, min(127, e)));
        const bool lost = e < -126 || e > 127;
        least[half] = lost ? NAN : note.tiny * p.coefficient + p.thresholds[at] * note.span;
        bias[half] = p.last.bias != nullptr && c < channels ? p.last.bias[oc0 + c] : 0;
    }
    const bool simple =
        p.last.activation == TALC_ACTIVATION_NONE || p.last.activation == TALC_ACTIVATION_RELU;
    const float floor = p.last.activation == TALC_ACTIVATION_RELU ? 0 : -INFINITY;
    unsigned rows = 0; /* that have doubtful sums */
#pragma unroll 1
    for (int j = 0; j < ROWS; j++) {
        /* Keeps the compiler from scaling all sums before the loop, for which there are no registers. */
        asm volatile("" : "+f"(back[0]), "+f"(back[1]), "+f"(least[0]), "+f"(least[1]));
        /* With carry a row's results are of one row of y, else each may be anywhere. */
        const int own = p.carry ? 0 : lane;
        const gemm_place at = place_of(p, a, part + j * p.row_shift + own);
        const int64_t first_at =
            ((int64_t)at.n * p.OC + oc0) * plane + at.row * p.OW + at.column - own;
        const int end = at.n < p.N && at.row < p.OH ? p.OW - at.column + own : -CARRIED;
        const bool inside = lane < end;
        const unsigned real = __ballot_sync(~0u, inside); /* columns */
        unsigned doubtful = 0;
        float *to = staging + lane / 4 * RESULT_PITCH + CARRIED + lane % 4 * 2;
#pragma unroll
        for (int k = 0; k < ROWS; k++)
            if (k == j) {
                float smallest[2] = { INFINITY, INFINITY };
#pragma unroll
                for (int half = 0; half < 2; half++)
#pragma unroll
                    for (int b = 0; b < BLOCKS; b++) {
                        const float s0 = sums[b][k * 4 + half * 2],
                                    s1 = sums[b][k * 4 + half * 2 + 1];
                        smallest[half] =
                            smaller_magnitude(smallest[half], smaller_magnitude(s0, s1));
                        *(float2 *)(to + half * 8 * RESULT_PITCH + b * 8) =
                            make_float2(s0 * back[half] + bias[half], s1 * back[half] + bias[half]);
                    }
                if (!(smallest[0] >= least[0] && smallest[1] >= least[1]))
#pragma unroll
                    for (int half = 0; half < 2; half++)
#pragma unroll
                        for (int b = 0; b < BLOCKS; b++) {
                            const float s0 = sums[b][k * 4 + half * 2],
                                        s1 = sums[b][k * 4 + half * 2 + 1];
                            unsigned two = (fabsf(s0) >= least[half] ? 0 : 1) |
                                           (fabsf(s1) >= least[half] ? 0 : 2);
                            two &=
                                lane / 4 + half * 8 < channels ? real >> (b * 8 + lane % 4 * 2) : 0;
                            doubtful |= two << (half * BLOCKS + b) * 2;
                        }
            }
        if (__any_sync(~0u, doubtful != 0)) {
            marks[j * WARP + lane] = doubtful;
            rows |= 1u << j;
        }
        if (a.before) /* two lanes a channel */
            copy_four(staging + lane / 2 * RESULT_PITCH + lane % 2 * 4,
                      carried + j * 16 * CARRIED + lane * 4);
        __syncwarp();
        if (p.last.residual != nullptr && inside) {
            const float *residual = p.last.residual + first_at + lane;
#pragma unroll 1
            for (int from = 0; from < channels; from += 8) {
                float added[8];
#pragma unroll
                for (int c = 0; c < 8; c++)
                    added[c] = from + c < channels ? residual[(from + c) * plane] : 0;
#pragma unroll
                for (int c = 0; c < 8; c++)
                    staging[(from + c) * RESULT_PITCH + CARRIED + lane] += added[c];
            }
        }
        if (!simple) /* takes many instructions */
#pragma unroll 1
            for (int c = 0; c < channels; c++) {
                float &v = staging[c * RESULT_PITCH + CARRIED + lane];
                v = talc_activate(p.last.activation, v);
            }
        if (p.last.residual != nullptr || !simple)
            __syncwarp();
        float *y = p.y + first_at;
        if (!p.carry)
            store_elements(y, plane, inside ? channels : 0, floor, staging + CARRIED + lane);
        else
            for (int from = 0; from < (a.after ? COLUMNS : 2 * COLUMNS); from += COLUMNS)
                store_sectors(y, plane, channels, floor, staging, lane, from,
                              a.before ? -CARRIED : 0, min(end, COLUMNS));
        if (a.after)
            copy_four(carried + j * 16 * CARRIED + lane * 4,
                      staging + lane / 2 * RESULT_PITCH + COLUMNS + lane % 2 * 4);
        __syncwarp();
    }
#pragma unroll 1
    for (; rows != 0; rows &= rows - 1) {
        const int j = __ffs((int)rows) - 1;
        const unsigned doubtful = marks[j * WARP + lane];
#pragma unroll 1
        for (int l = 0; l < WARP; l++)
            for (unsigned rest = __shfl_sync(~0u, doubtful, l); rest != 0; rest &= rest - 1) {
                const int bit = __ffs((int)rest) - 1;
                const int c = bit / (2 * BLOCKS) * 8 + l / 4,
                          column = bit / 2 % BLOCKS * 8 + l % 4 * 2 + bit % 2;
                const gemm_place at = place_of(p, a, part + j * p.row_shift + column);
                const float sum = sum_by_warp(p, a.g, first + c, at);
                const int64_t to =
                    ((int64_t)at.n * p.OC + oc0 + c) * plane + at.row * p.OW + at.column;
                if (lane == 0) {
                    const float y = talc_epilogue(p.last, sum, oc0 + c, to);
                    p.y[to] = y;
                    if (a.after &&
                        column >= COLUMNS - CARRIED) /* which the tile behind writes too */
                        carried[(j * 16 + c) * CARRIED + column - (COLUMNS - CARRIED)] = y;
                }
            }
    }
    __syncwarp();
}

} // namespace talc

#endif
