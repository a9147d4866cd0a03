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
    constexpr int AT_A_TIME = 8; /* loads under way */
    float sum = 0;
#pragma unroll 1
    for (int from = (int)threadIdx.x % WARP; from < K; from += AT_A_TIME * WARP) {
        float v[AT_A_TIME], u[AT_A_TIME];
#pragma unroll
        for (int i = 0; i < AT_A_TIME; i++) {
            const int k = from + i * WARP;
            const int c = (int)p.by_kernel.quotient((uint32_t)k), tap = k - c * taps,
                      kh = tap / p.KW, kw = tap - kh * p.KW;
            int h = place.row * p.stride_h - p.top + kh * p.dilation_h,
                w_ = place.column * p.stride_w - p.left + kw * p.dilation_w;
            if (p.mode != TALC_PADDING_ZEROS) {
                h = (int)talc_window_source(p.mode, h, p.H);
                w_ = (int)talc_window_source(p.mode, w_, p.W);
            }
            const bool inside =
                k < K && (unsigned)h < (unsigned)p.H && (unsigned)w_ < (unsigned)p.W;
            v[i] = inside ? x[((int64_t)c * p.H + h) * p.W + w_] : 0;
            u[i] = k < K && (inside || !p.only_inside) ? w[k] : 0;
        }
#pragma unroll
        for (int i = 0; i < AT_A_TIME; i++)
            sum += v[i] * u[i];
    }
#pragma unroll
    for (int apart = WARP / 2; apart > 0; apart /= 2)
        sum += __shfl_xor_sync(~0u, sum, apart);
    return sum;
}

// ---- Rows of results ----------------------------------------------------------------------------------------

/// The smaller magnitude, or NaN.
static __device__ __forceinline__ float smaller_magnitude(float a, float b)
{
    float smaller;
    asm volatile("{\n.reg .f32 x, y;\nabs.f32 x, %1;\nabs.f32 y, %2;\nmin.NaN.f32 %0, x, y;\n}"
                 : "=f"(smaller)
                 : "f"(a), "f"(b));
    return smaller;
}

/// What the sums of a tile are scaled by, how many of their elements were too small for f16, each counted as often as it has been scaled
/// up since, and the largest such factor. NaN: the sums are lost.
struct sums_note {
    int exponent;
    float tiny, span;
};

/// Asked for anew each time: what follows from it would else take registers from the sums.
static __device__ __forceinline__ int this_thread()
{
    int thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    return thread;
}

/// A warp's channels of a tile, and the positions of its warpgroup.
struct warp_part {
    int lane;
    int first, channels; ///< of the group: the first, and how many, at most 16
    int part;            ///< position at which the warpgroup's part of the tile begins
};

static __device__ __forceinline__ warp_part part_of(const gemm_problem &p, const gemm_tile &a)
{
    const int thread = this_thread(), warpgroup = thread / 128, both = p.part_shift == 0 ? 2 : 1;
    warp_part w;
    w.lane = thread % WARP;
    w.first =
        (a.channel_tile * both + (both == 2 ? warpgroup : 0)) * CHANNELS + thread / WARP % 4 * 16;
    w.channels = max(0, min(16, p.group_out - w.first));
    w.part = both == 2 ? 0 : warpgroup * p.part_shift;
    return w;
}

/// What a warp has in shared memory: of each channel the scale, the bias and the magnitude below which a sum is doubtful; a row of results,
/// channel by channel; and which of a thread's are doubtful, in bits.
template <int ROWS> struct warp_results {
    float4 scales[16];
    float row[16][RESULT_PITCH];
    unsigned short doubtful[ROWS][WARP];
};
template <int ROWS>
static __device__ __forceinline__ warp_results<ROWS> *warp_results_of(const gemm_problem &p,
                                                                      char *shared)
{
    static_assert(sizeof(warp_results<ROWS>) % sizeof(float4) == 0, "");
    return (warp_results<ROWS> *)(shared + this_thread() / WARP * p.result_bytes);
}

/* Of a row of COLUMNS a thread has the sums of columns b * 8 + lane % 4 * 2 and the next, of channels lane / 4 and lane / 4 + 8. */

/// Scales the sums of row `j`, adds the bias, writes them to shared memory, and notes which are doubtful. `to` and `scale`: of its two
/// channels; `real`: bits of the columns that are.
template <int ROWS>
static __device__ __forceinline__ void take_row(const float (&sums)[BLOCKS][ROWS * 4], int j,
                                                const float4 (&scale)[2], float *const (&to)[2],
                                                int lane, unsigned real, unsigned short *doubtful)
{
    float smallest[2], s[2] = { scale[0].x, scale[1].x };
    /* Nothing of all rows is computed before the loop over them, and what depends on the sums is in the branches: for more there are no
     * registers. */
    asm volatile("" : "+f"(s[0]), "+f"(s[1]));
#pragma unroll
    for (int k = 0; k < ROWS; k++)
        if (k == j)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                smallest[half] = INFINITY;
#pragma unroll
                for (int b = 0; b < BLOCKS; b++) {
                    const float s0 = sums[b][k * 4 + half * 2], s1 = sums[b][k * 4 + half * 2 + 1];
                    smallest[half] = smaller_magnitude(smallest[half], smaller_magnitude(s0, s1));
                    *(float2 *)(to[half] + b * 8) =
                        make_float2(s0 * s[half] + scale[half].y, s1 * s[half] + scale[half].y);
                }
            }
    unsigned bits = 0;
    if (!(smallest[0] >= scale[0].z && smallest[1] >= scale[1].z))
#pragma unroll 1
        for (int k = 0; k < 4 * BLOCKS; k++) {
            /* From the result: that is less exact, so some more are doubtful. */
            const float4 of = k < 2 * BLOCKS ? scale[0] : scale[1];
            const float v = (k < 2 * BLOCKS ? to[0] : to[1])[k / 2 % BLOCKS * 8 + k % 2];
            const float least = (of.z * of.x + fabsf(of.y) * 0x1p-23f) * 1.001f;
            bits |= fabsf(v - of.y) > least
                        ? 0
                        : (real >> (k / 2 % BLOCKS * 8 + k % 2 + lane % 4 * 2) & 1) << k;
        }
    *doubtful = (unsigned short)bits;
}

/// Computes the doubtful results again; those that the tile behind writes too, in `carried`, where channels stand shift(j, c) floats on.
template <int ROWS, typename Shift>
static __device__ __forceinline__ void mend(const gemm_problem &p, const gemm_tile &a,
                                            const warp_results<ROWS> *results, float *carried,
                                            Shift shift)
{
    const warp_part w = part_of(p, a);
    __syncwarp();
#pragma unroll 1
    for (int j = 0; j < ROWS; j++) {
        const unsigned mine = results->doubtful[j][w.lane];
        /* Votes: by other conditions the compiler would not know any more that registers are the same in all of the warp. */
#pragma unroll 1
        for (unsigned rest = __ballot_sync(~0u, mine != 0); rest != 0; rest &= rest - 1) {
            const int l = __ffs((int)rest) - 1;
            unsigned bits = __reduce_or_sync(~0u, results->doubtful[j][l]);
#pragma unroll 1
            for (; __any_sync(~0u, bits != 0); bits &= bits - 1) {
                const int k = __ffs((int)bits) - 1, c = k / (2 * BLOCKS) * 8 + l / 4,
                          column = k / 2 % BLOCKS * 8 + l % 4 * 2 + k % 2;
                const gemm_place at = place_of(p, a, w.part + j * p.row_shift + column);
                if (__any_sync(~0u, c >= w.channels || at.n >= p.N || at.row >= p.OH ||
                                        at.column >= p.OW))
                    continue;
                const int oc = a.g * p.group_out + w.first + c;
                const float sum = sum_by_warp(p, a.g, w.first + c, at);
                const int64_t to = (((int64_t)at.n * p.OC + oc) * p.OH + at.row) * p.OW + at.column;
                const float biased = sum + (p.last.bias != nullptr ? p.last.bias[oc] : 0);
                if (w.lane == 0) {
                    const float added = p.last.residual != nullptr ? p.last.residual[to] : 0;
                    p.y[to] = talc_activate<false>(p.last.activation, biased + added);
                    atomicAdd(p.recomputed, 1);
                }
                const int behind = column + shift(j, c) - COLUMNS;
                if (w.lane == 0 && a.after && behind >= 0)
                    carried[(j * 16 + c) * SECTOR + behind] = biased;
            }
        }
    }
    __syncwarp();
}

/// Adds the residual to a vector of results and activates it.
template <int N>
static __device__ __forceinline__ void finish(const epilogue<float> &last, vec<float, N> &v,
                                              const float *residual)
{
    if (last.residual != nullptr) {
        const vec<float, N> r = *(const vec<float, N> *)residual;
#pragma unroll
        for (int i = 0; i < N; i++)
            v.of[i] += r.of[i];
    }
    activate_all<false>(last.activation, v.of);
}

/// Writes four results, or those from `begin` to `end` - 1, to y[begin] ...
static __device__ __forceinline__ void store_part(const gemm_problem &p, float *y, const float *v,
                                                  int begin, int end)
{
    const int64_t at = y - p.y;
#pragma unroll 1
    for (int e = max(0, begin); e < min(4, end); e++)
        y[e] = talc_activate<false>(
            p.last.activation, v[e] + (p.last.residual != nullptr ? p.last.residual[at + e] : 0));
}

/// Writes rows of a tile, 8 threads a channel, four results each at a time. Memory takes parts of sectors at a third of its rate, and a row
/// of y may begin anywhere in one: in shared memory it stands as many floats on, an even number. With carry the sector that ends in
/// the tile behind is written with it, out of `carried` [ROWS][16][SECTOR].
template <int ROWS>
static __device__ __forceinline__ void store_rows(const gemm_problem &p, int t,
                                                  float (&sums)[BLOCKS][ROWS * 4],
                                                  warp_results<ROWS> *results, float *carried)
{
    using four = vec<float, 4>;
    const gemm_tile a = tile_of(p, t);
    const warp_part w = part_of(p, a);
    const gemm_place at = place_of(p, a, w.part);
    const int plane = p.OH * p.OW, columns = max(0, min(COLUMNS, p.OW - at.column));
    if (columns < COLUMNS) /* the others are not doubtful */
#pragma unroll
        for (int i = 0; i < BLOCKS * ROWS * 4; i++)
            if (i / (ROWS * 4) * 8 + w.lane % 4 * 2 + i % 2 >= columns)
                sums[i / (ROWS * 4)][i % (ROWS * 4)] = INFINITY;
    float *first =
        p.y + a.part * p.outputs +
        (((int64_t)at.n * p.OC + a.g * p.group_out + w.first) * plane + at.row * p.OW + at.column);
    auto shift = [&](int j, int c) {
        return (int)((uintptr_t)(first + (c * plane + j * p.OW)) / 4 % SECTOR) & ~1;
    };
    /* Rows begin with a sector; or they may at least be written by vectors. */
    const bool whole = p.OW % SECTOR == 0 && (uintptr_t)p.y % (SECTOR * 4) == 0;
    const bool vectors =
        ((p.OW | plane) & 1) == 0 && (uintptr_t)p.y % 8 == 0 &&
        (p.last.residual == nullptr || (uintptr_t)p.last.residual % 16 == (uintptr_t)p.y % 16);
    /* All vectors of the first 32 columns in shared memory are written, and no others. */
    const bool inner = whole ? p.OW - at.column >= COLUMNS : a.before && a.after;
    const bool interior =
        __ballot_sync(~0u, !inner || !vectors || w.channels < 16 || at.row + ROWS > p.OH) == 0;
    const float4 scale[2] = { results->scales[w.lane / 4], results->scales[w.lane / 4 + 8] };
    float4 *const kept = (float4 *)carried + w.lane;
    float(*const row)[RESULT_PITCH] = results->row;
#pragma unroll 1
    for (int j = 0; j < ROWS; j++) {
        if (a.before)
            *(float4 *)&row[w.lane / 2][w.lane % 2 * 4] = kept[j * WARP];
        __syncwarp();
        float *const to[2] = { &row[w.lane / 4][w.lane % 4 * 2 + shift(j, w.lane / 4)],
                               &row[w.lane / 4 + 8][w.lane % 4 * 2 + shift(j, w.lane / 4 + 8)] };
        take_row<ROWS>(sums, j, scale, to, w.lane, at.row + j < p.OH ? ~0u : 0,
                       &results->doubtful[j][w.lane]);
        __syncwarp();
        if (a.after)
            kept[j * WARP] = *(const float4 *)&row[w.lane / 2][COLUMNS + w.lane % 2 * 4];
        const int channels = at.row + j < p.OH && columns > 0 ? w.channels : 0;
        if (interior) {
            four v[4];
            float *y[4];
#pragma unroll
            for (int k = 0; k < 4; k++) {
                v[k] = *(const four *)&row[w.lane / 8 + k * 4][w.lane % 8 * 4];
                y[k] = first + ((w.lane / 8 + k * 4) * plane + j * p.OW);
                y[k] = (float *)((uintptr_t)y[k] & ~(uintptr_t)(SECTOR * 4 - 1)) + w.lane % 8 * 4;
            }
#pragma unroll
            for (int k = 0; k < 4; k++) {
                finish(p.last, v[k], p.last.residual + (y[k] - p.y));
                *(four *)y[k] = v[k];
            }
        } else if (vectors) {
            /* Vectors of 4 of a row by 8 threads; those behind the first 32, and vectors of 2 at the row's ends, by two threads a channel. */
            four v[5];
#pragma unroll
            for (int k = 0; k < 5; k++)
                v[k] = *(const four *)&row[k < 4 ? k * 4 + w.lane / 8 : w.lane / 2]
                                          [k < 4 ? w.lane % 8 * 4 : COLUMNS + w.lane % 2 * 4];
#pragma unroll
            for (int k = 0; k < 5; k++) {
                const int c = k < 4 ? k * 4 + w.lane / 8 : w.lane / 2;
                const int from = k < 4 ? w.lane % 8 * 4 : COLUMNS + w.lane % 2 * 4;
                const int begin = shift(j, c), end = a.after ? COLUMNS : begin + columns;
                float *y = first + (c * plane + j * p.OW + from - begin);
                if (from >= (a.before ? 0 : begin) && from + 4 <= end && c < channels) {
                    finish(p.last, v[k], p.last.residual + (y - p.y));
                    *(four *)y = v[k];
                }
            }
            if (!whole) {
                const int c = w.lane / 2, begin = shift(j, c);
                const bool left = w.lane % 2 == 0;
                const int at_end = left ? begin : begin + columns - 2;
                if ((left ? !a.before && at_end % 4 == 2 : !a.after && at_end % 4 == 0) &&
                    at_end >= 0 && c < channels) {
                    vec<float, 2> two = *(const vec<float, 2> *)&row[c][at_end];
                    float *to = first + (c * plane + j * p.OW + at_end - begin);
                    finish(p.last, two, p.last.residual + (to - p.y));
                    *(vec<float, 2> *)to = two;
                }
            }
        } else {
#pragma unroll 1
            for (int k = 0; k < (whole || a.after ? 4 : 5); k++) { /* the fifth: those behind */
                const int c = k < 4 ? k * 4 + w.lane / 8 : w.lane / 2;
                const int from = k < 4 ? w.lane % 8 * 4 : COLUMNS + w.lane % 2 * 4;
                const int begin = shift(j, c) - from;
                float *y = first + (c * plane + j * p.OW - begin);
                if (c < channels)
                    store_part(p, y, &row[c][from], a.before ? 0 : begin, begin + columns);
            }
        }
        __syncwarp();
    }
    if (p.doubts == nullptr)
        mend(p, a, results, carried, shift);
}

/// Writes the results of a flat tile, where each column of a row of the tile may be anywhere: a thread a column.
template <int ROWS>
static __device__ __forceinline__ void store_positions(const gemm_problem &p, int t,
                                                       const float (&sums)[BLOCKS][ROWS * 4],
                                                       warp_results<ROWS> *results)
{
    const gemm_tile a = tile_of(p, t);
    const warp_part w = part_of(p, a);
    const int plane = p.OH * p.OW;
    const float4 scale[2] = { results->scales[w.lane / 4], results->scales[w.lane / 4 + 8] };
    float *const to[2] = { &results->row[w.lane / 4][w.lane % 4 * 2],
                           &results->row[w.lane / 4 + 8][w.lane % 4 * 2] };
#pragma unroll 1
    for (int j = 0; j < ROWS; j++) {
        const gemm_place at = place_of(p, a, w.part + j * p.row_shift + w.lane);
        const bool inside = at.n < p.N && at.row < p.OH && at.column < p.OW;
        if (__ballot_sync(~0u, inside) == 0) {
            results->doubtful[j][w.lane] = 0;
            continue;
        }
        take_row<ROWS>(sums, j, scale, to, w.lane, __ballot_sync(~0u, inside),
                       &results->doubtful[j][w.lane]);
        __syncwarp();
        const int64_t from = a.part * p.outputs +
                             ((int64_t)at.n * p.OC + a.g * p.group_out + w.first) * plane +
                             at.row * p.OW + at.column;
        const int channels = inside ? w.channels : 0;
        const float *residual = p.last.residual;
        float *y = p.y + from;
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float v[8];
#pragma unroll
            for (int c = 0; c < 8; c++) {
                v[c] = results->row[half * 8 + c][w.lane];
                if (residual != nullptr && half * 8 + c < channels)
                    v[c] += residual[from + (half * 8 + c) * plane];
            }
            activate_all<false>(p.last.activation, v);
#pragma unroll
            for (int c = 0; c < 8; c++, y += plane)
                if (half * 8 + c < channels)
                    *y = v[c];
        }
        __syncwarp();
    }
    if (p.doubts == nullptr)
        mend(p, a, results, nullptr, [](int, int) { return 0; });
}

/// The same of a warp with all its channels, which takes more registers: the residual's elements of a row are loaded before the row in front of
/// it is written.
template <int ROWS>
static __device__ __forceinline__ void store_full_positions(const gemm_problem &p, int t,
                                                            const float (&sums)[BLOCKS][ROWS * 4],
                                                            warp_results<ROWS> *results)
{
    constexpr int AT_ONCE = 4;
    const gemm_tile a = tile_of(p, t);
    const warp_part w = part_of(p, a);
    const int64_t plane = (int64_t)p.OH * p.OW;
    const float4 scale[2] = { results->scales[w.lane / 4], results->scales[w.lane / 4 + 8] };
    float *const to[2] = { &results->row[w.lane / 4][w.lane % 4 * 2],
                           &results->row[w.lane / 4 + 8][w.lane % 4 * 2] };
    const float *column = &results->row[0][w.lane];
    /* Where column `lane` of row `j` is, in the warp's first channel; -1: nowhere. */
    auto find = [&](int j) {
        const gemm_place at = place_of(p, a, w.part + j * p.row_shift + w.lane);
        return at.n < p.N && at.row < p.OH && at.column < p.OW
                   ? ((int64_t)at.n * p.OC + a.g * p.group_out + w.first) * plane + at.row * p.OW +
                         at.column
                   : -1;
    };
    float added[16] = {};
    auto load_added = [&](int64_t from) {
        if (p.last.residual == nullptr || from < 0)
            return;
        const float *x = p.last.residual + from;
#pragma unroll
        for (int c = 0; c < 16; c++) {
            added[c] = *x;
            /* Or the compiler keeps the multiples of the plane in registers. */
            asm volatile("add.s64 %0, %0, %1;" : "+l"(x) : "l"(plane * 4));
        }
    };
    int64_t next = find(0);
    load_added(next);
#pragma unroll 1
    for (int j = 0; j < ROWS; j++) {
        const int64_t from = next;
        const unsigned inside = __ballot_sync(~0u, from >= 0);
        next = find(j + 1);
        results->doubtful[j][w.lane] = 0;
        if (inside != 0) {
            take_row<ROWS>(sums, j, scale, to, w.lane, inside, &results->doubtful[j][w.lane]);
            __syncwarp();
            float *y = p.y + a.part * p.outputs + from;
#pragma unroll
            for (int some = 0; some < 16; some += AT_ONCE) {
                float v[AT_ONCE];
#pragma unroll
                for (int c = 0; c < AT_ONCE; c++)
                    v[c] = column[(some + c) * RESULT_PITCH] + added[some + c];
                activate_all<false>(p.last.activation, v);
                if (from >= 0)
#pragma unroll
                    for (int c = 0; c < AT_ONCE; c++) {
                        *y = v[c];
                        asm volatile("add.s64 %0, %0, %1;" : "+l"(y) : "l"(plane * 4));
                    }
            }
        }
        load_added(next);
        __syncwarp();
    }
    if (p.doubts == nullptr)
        mend(p, a, results, nullptr, [](int, int) { return 0; });
}

/// Ends a warp's sums of tile `t` and writes them; those that may have lost the products of tiny elements, and NaN, are computed again.
template <typename Form>
static __device__ __forceinline__ void store_results(const gemm_problem &p, int t,
                                                     float (&sums)[BLOCKS][Form::ROWS * 4],
                                                     sums_note note, char *shared)
{
    constexpr int ROWS = Form::ROWS;
    warp_results<ROWS> *results = warp_results_of<ROWS>(p, shared);
    {
        const gemm_tile a = tile_of(p, t);
        const warp_part w = part_of(p, a);
        const int c = w.lane % 16, both = p.part_shift == 0 ? 2 : 1;
        const int row = a.g * p.channel_tiles * both * CHANNELS + w.first + c;
        const int e = -(note.exponent + p.exponents[row]);
        float least = note.tiny * p.coefficient + p.thresholds[row] * note.span;
        if (c >= w.channels)
            least = 0;
        else if (e < -126 || e > 127)
            least = NAN;
        if (p.doubts !=
            nullptr) { /* judged when the parts are added up, and not near the least f32 */
            if (w.lane < 16)
                p.doubts[((int64_t)t * 2 + w.first / CHANNELS % both) * CHANNELS +
                         w.first % CHANNELS + c] =
                    e < -90 ? NAN : least * power_of_two(min(127, e));
            least = 0;
        }
        results->scales[c] = make_float4(power_of_two(max(-126, min(127, e))),
                                         p.last.bias != nullptr && c < w.channels
                                             ? p.last.bias[a.g * p.group_out + w.first + c]
                                             : 0,
                                         least, 0);
        __syncwarp();
    }
    if (Form::STAGED && __shfl_sync(~0u, part_of(p, tile_of(p, t)).channels, 0) == 16)
        store_full_positions<ROWS>(p, t, sums, results);
    else if (Form::STAGED || p.flat)
        store_positions<ROWS>(p, t, sums, results);
    else
        store_rows<ROWS>(p, t, sums, results, (float *)(results + 1));
}

} // namespace talc

#endif
