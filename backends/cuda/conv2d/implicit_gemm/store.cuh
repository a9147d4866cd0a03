/// Stores the outputs of implicit_gemm: from the sums of warps to y. Private to backends/cuda.
#ifndef TALC_BACKENDS_CUDA_CONV2D_IMPLICIT_GEMM_STORE_CUH
#define TALC_BACKENDS_CUDA_CONV2D_IMPLICIT_GEMM_STORE_CUH

#include "backends/cuda/conv2d/implicit_gemm/problem.cuh"
#include "backends/cuda/gemm/recompute.cuh"
#include "backends/cuda/primitives/witness.h"

namespace talc
{

// ---- One output, by FFMA ------------------------------------------------------------------------

/// The sum of one output, computed by a warp and added in the order of its lanes.
template <bool PHASES>
static __device__ __forceinline__ float sum_by_warp(const gemm_problem &p, int g, int oc,
                                                    talc_gemm_pixel pixel)
{
    const int taps = p.KH * p.KW, K = p.group_in * taps;
    const float *w = p.w + ((int64_t)g * p.group_out + oc) * K;
    const dx_weights of_dx(p, g, oc);
    if constexpr (PHASES) {
        w = of_dx.from;
        if (!of_dx.reads(p, pixel)) /* as many elements of dx, whose sums are 0 */
            return 0;
    }
    const float *x = p.x + ((int64_t)pixel.n * p.C + (int64_t)g * p.group_in) * p.H * p.W;
    constexpr int AT_A_TIME = 8; /* loads in flight */
    float sum = 0;
#pragma unroll 1
    for (int from = (int)threadIdx.x % WARP; from < K; from += AT_A_TIME * WARP) {
        float v[AT_A_TIME], u[AT_A_TIME];
#pragma unroll
        for (int i = 0; i < AT_A_TIME; i++) {
            const int k = from + i * WARP;
            const int c = (int)talc_quotient(p.by_kernel, (uint32_t)k), tap = k - c * taps,
                      kh = tap / p.KW, kw = tap - kh * p.KW;
            int h = pixel.row * p.stride_h - p.top + kh * p.dilation_h,
                w_ = pixel.column * p.stride_w - p.left + kw * p.dilation_w;
            if (p.mode != TALC_PADDING_ZEROS) {
                h = (int)talc_window_source(p.mode, h, p.H);
                w_ = (int)talc_window_source(p.mode, w_, p.W);
            }
            const bool inside =
                k < K && (unsigned)h < (unsigned)p.H && (unsigned)w_ < (unsigned)p.W;
            v[i] = inside ? x[((int64_t)c * p.H + h) * p.W + w_] : 0;
            const int at = PHASES ? of_dx.at(p, c, kh, kw) : k;
            u[i] = k < K && at >= 0 && (inside || !p.only_inside) ? w[at] : 0;
            if (PHASES && at < 0)
                v[i] = 0;
        }
#pragma unroll
        for (int i = 0; i < AT_A_TIME; i++)
            sum += v[i] * u[i];
    }
    return sum_of_warp(sum);
}

// ---- Rows of outputs ----------------------------------------------------------------------------

/// About the sums of a tile. `exponent` is that of the scale of the halo tile, `highest` the
/// largest so far, from which sums have been scaled down. `underflows` counts the elements that
/// underflowed, each multiplied by the factor that sums have been scaled up by since. `max_factor`
/// is the largest such factor. NaN: the sums are lost.
struct sums_info {
    int exponent, highest;
    float underflows, max_factor;
};

/// threadIdx.x, read again at each call. Kept in a register, it would take registers from the sums.
static __device__ __forceinline__ int this_thread()
{
    int thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    return thread;
}

static __device__ __forceinline__ talc_gemm_warp_tile warp_tile_of(const gemm_problem &p,
                                                                   const talc_gemm_tile &a)
{
    return talc_gemm_warp_tile_of(&p, &a, this_thread());
}

/// Shared memory of a warp. `scales` has of each channel the scale, the bias and the magnitude
/// below which a sum is recomputed. `row` is a row of outputs, channel by channel. `recompute_bits`
/// has a bit for each output of a thread that is recomputed.
template <int ROWS> struct store_buffer {
    float4 scales[16];
    float row[16][STORE_PITCH];
    unsigned short recompute_bits[ROWS][WARP];
};
template <int ROWS>
static __device__ __forceinline__ store_buffer<ROWS> *store_buffer_of(const gemm_problem &p,
                                                                      char *shared)
{
    static_assert(sizeof(store_buffer<ROWS>) % sizeof(float4) == 0, "");
    return (store_buffer<ROWS> *)(shared + this_thread() / WARP * p.store_bytes);
}

/* Of a row of COLUMNS, a thread has the sums of columns b * 8 + lane % 4 * 2 and the next, in
 * channels lane / 4 and lane / 4 + 8. */

/// Scales the sums of row `j`, adds the bias, writes them to shared memory, and sets the bits of
/// those to recompute. `to` and `scale` are those of the thread's two channels. `real` has a bit
/// for each column that is an output.
template <int ROWS>
static __device__ __forceinline__ void scale_row(const float (&sums)[BLOCKS][ROWS * 4], int j,
                                                 const float4 (&scale)[2], float *const (&to)[2],
                                                 int lane, unsigned real,
                                                 unsigned short *recompute_bits)
{
    float smallest[2], s[2] = { scale[0].x, scale[1].x };
    /* The compiler must not compute anything for all rows before the loop. What depends on the sums
     * is inside the branches. Otherwise registers run out. */
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
            /* The output is less exact than the sum, so a few more outputs are recomputed. */
            const float4 of = k < 2 * BLOCKS ? scale[0] : scale[1];
            const float v = (k < 2 * BLOCKS ? to[0] : to[1])[k / 2 % BLOCKS * 8 + k % 2];
            const float limit = (of.z * of.x + fabsf(of.y) * 0x1p-23f) * 1.001f;
            bits |= fabsf(v - of.y) > limit
                        ? 0
                        : (real >> (k / 2 % BLOCKS * 8 + k % 2 + lane % 4 * 2) & 1) << k;
        }
    *recompute_bits = (unsigned short)bits;
}

/// Recomputes the outputs whose bits are set. Those that the next tile writes too are also set in
/// `carried`. There, channel c of row j begins shift(j, c) floats later.
template <typename Form, typename Shift>
static __device__ __forceinline__ void recompute_outputs(const gemm_problem &p,
                                                         const talc_gemm_tile &a,
                                                         const store_buffer<Form::ROWS> *buffer,
                                                         float *carried, Shift shift)
{
    const talc_gemm_warp_tile w = warp_tile_of(p, a);
    __syncwarp();
#pragma unroll 1
    for (int j = 0; j < Form::ROWS; j++) {
        const unsigned mine = buffer->recompute_bits[j][w.lane];
        /* Votes tell the compiler that a condition is the same in all lanes of the warp. */
#pragma unroll 1
        for (unsigned rest = __ballot_sync(~0u, mine != 0); rest != 0; rest &= rest - 1) {
            const int l = __ffs((int)rest) - 1;
            unsigned bits = __reduce_or_sync(~0u, buffer->recompute_bits[j][l]);
#pragma unroll 1
            for (; __any_sync(~0u, bits != 0); bits &= bits - 1) {
                const int k = __ffs((int)bits) - 1, c = k / (2 * BLOCKS) * 8 + l / 4,
                          column = k / 2 % BLOCKS * 8 + l % 4 * 2 + k % 2;
                const talc_gemm_pixel at =
                    talc_gemm_pixel_of(&p, &a, w.first_position + j * p.row_shift + column);
                if (__any_sync(~0u, c >= w.channels || at.n >= p.N || at.row >= p.OH ||
                                        at.column >= p.OW))
                    continue;
                const int oc = a.g * p.group_out + w.first + c;
                int64_t to = (((int64_t)at.n * p.OC + oc) * p.OH + at.row) * p.OW + at.column;
                if constexpr (Form::PHASES) {
                    to = talc_gemm_output_of(&p, a.g, w.first + c, at);
                    if (__any_sync(~0u, to < 0))
                        continue;
                }
                const float sum = sum_by_warp<Form::PHASES>(p, a.g, w.first + c, at);
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

/// Adds the residual to a vector of outputs and applies the activation.
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

/// Writes y[begin] to y[end - 1], of four outputs at most.
static __device__ __forceinline__ void store_elements(const gemm_problem &p, float *y,
                                                      const float *v, int begin, int end)
{
    const int64_t at = y - p.y;
#pragma unroll 1
    for (int e = max(0, begin); e < min(4, end); e++)
        y[e] = talc_activate<false>(
            p.last.activation, v[e] + (p.last.residual != nullptr ? p.last.residual[at + e] : 0));
}

/// Writes the rows of a tile: 8 threads a channel, four outputs at a time. Memory takes incomplete
/// sectors at a third of its rate, and a row of y may begin anywhere in a sector. So the row in
/// shared memory is shifted by as many floats, an even number. With carry, a sector that ends in
/// the next tile is written together with that tile, from `carried` [ROWS][16][SECTOR].
template <typename Form, int ROWS = Form::ROWS>
static __device__ __forceinline__ void store_rows(const gemm_problem &p, int t,
                                                  float (&sums)[BLOCKS][ROWS * 4],
                                                  store_buffer<ROWS> *buffer, float *carried)
{
    using four = vec<float, 4>;
    const talc_gemm_tile a = tile_of<Form>(p, t);
    const talc_gemm_warp_tile w = warp_tile_of(p, a);
    const talc_gemm_pixel at = talc_gemm_pixel_of(&p, &a, w.first_position);
    const int plane = p.OH * p.OW, columns = max(0, min(COLUMNS, p.OW - at.column));
    /* The others need no recomputation. */
    if (columns < COLUMNS)
#pragma unroll
        for (int i = 0; i < BLOCKS * ROWS * 4; i++)
            if (i / (ROWS * 4) * 8 + w.lane % 4 * 2 + i % 2 >= columns)
                sums[i / (ROWS * 4)][i % (ROWS * 4)] = INFINITY;
    float *first =
        p.y + a.split * p.outputs +
        (((int64_t)at.n * p.OC + a.g * p.group_out + w.first) * plane + at.row * p.OW + at.column);
    auto shift = [&](int j, int c) {
        return (int)((uintptr_t)(first + (c * plane + j * p.OW)) / 4 % SECTOR) & ~1;
    };
    /* `whole`: rows begin with a sector. `vectors`: rows can at least be written in vectors. */
    const bool whole = p.OW % SECTOR == 0 && (uintptr_t)p.y % (SECTOR * 4) == 0;
    const bool vectors =
        ((p.OW | plane) & 1) == 0 && (uintptr_t)p.y % 8 == 0 &&
        (p.last.residual == nullptr || (uintptr_t)p.last.residual % 16 == (uintptr_t)p.y % 16);
    /* `inner`: just the first 32 columns in shared memory are written, as vectors. */
    const bool inner = whole ? p.OW - at.column >= COLUMNS : a.before && a.after;
    const bool interior =
        __ballot_sync(~0u, !inner || !vectors || w.channels < 16 || at.row + ROWS > p.OH) == 0;
    const float4 scale[2] = { buffer->scales[w.lane / 4], buffer->scales[w.lane / 4 + 8] };
    float4 *const carry_over = (float4 *)carried + w.lane;
    float(*const row)[STORE_PITCH] = buffer->row;
#pragma unroll 1
    for (int j = 0; j < ROWS; j++) {
        if (a.before)
            *(float4 *)&row[w.lane / 2][w.lane % 2 * 4] = carry_over[j * WARP];
        __syncwarp();
        float *const to[2] = { &row[w.lane / 4][w.lane % 4 * 2 + shift(j, w.lane / 4)],
                               &row[w.lane / 4 + 8][w.lane % 4 * 2 + shift(j, w.lane / 4 + 8)] };
        scale_row<ROWS>(sums, j, scale, to, w.lane, at.row + j < p.OH ? ~0u : 0,
                        &buffer->recompute_bits[j][w.lane]);
        __syncwarp();
        if (a.after)
            carry_over[j * WARP] = *(const float4 *)&row[w.lane / 2][COLUMNS + w.lane % 2 * 4];
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
            /* 8 threads write vectors of 4. Two threads a channel write the vectors behind the
             * first 32 columns, and the vectors of 2 at the ends of the row. */
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
            /* The fifth is behind the first 32 columns. */
#pragma unroll 1
            for (int k = 0; k < (whole || a.after ? 4 : 5); k++) {
                const int c = k < 4 ? k * 4 + w.lane / 8 : w.lane / 2;
                const int from = k < 4 ? w.lane % 8 * 4 : COLUMNS + w.lane % 2 * 4;
                const int begin = shift(j, c) - from;
                float *y = first + (c * plane + j * p.OW - begin);
                if (c < channels)
                    store_elements(p, y, &row[c][from], a.before ? 0 : begin, begin + columns);
            }
        }
        __syncwarp();
    }
    if (p.recompute_limits == nullptr)
        recompute_outputs<Form>(p, a, buffer, carried, shift);
}

/// Writes 32 positions in all phases of dx. 16 rows of the product have all columns of some rows of
/// dx, and so 32 times as many elements as there are phases of w: a thread writes one of each
/// 32. Of its position, `from` is the offset of the first element in dx, and `columns` how many
/// there are, negative where they are zeros.
template <int ROWS>
static __device__ __forceinline__ void store_phases(const gemm_problem &p, int lane, int channels,
                                                    int64_t from, int columns,
                                                    const store_buffer<ROWS> *buffer)
{
    const int64_t plane = (int64_t)p.dx.H * p.dx.W;
    if (p.pairs) {
        float *y = p.y + from;
        const float *row = &buffer->row[0][lane];
#pragma unroll 4
        for (int c = 0; c < channels; c++, row += 2 * STORE_PITCH) {
            float2 two = make_float2(row[0], row[STORE_PITCH]);
            two = columns > 0 ? two : make_float2(0, 0);
            if (columns != 0)
                *(float2 *)y = two;
            asm volatile("add.s64 %0, %0, %1;" : "+l"(y) : "l"(plane * 4));
        }
        return;
    }
#pragma unroll 1
    for (int k = 0; k < p.dx.stride_w; k++) {
        const int i = k * WARP + lane;
        const int position = (int)talc_quotient(p.dx.by_stride_w, (uint32_t)i),
                  phase = i - position * p.dx.stride_w;
        const int there = __shfl_sync(~0u, columns, position);
        float *y = p.y + __shfl_sync(~0u, from, position) + phase;
        const float *row = &buffer->row[phase][position];
#pragma unroll 4
        for (int c = 0; c < channels; c++, y += plane, row += p.dx.stride_w * STORE_PITCH) {
            const float v = there > 0 ? *row : 0;
            if (phase < abs(there))
                *y = v;
        }
    }
}

/// Writes a column of `channels` outputs, a plane apart, from offset `from` on.
static __device__ __forceinline__ void store_column(const gemm_problem &p, int64_t from,
                                                    bool inside, int channels, const float *column)
{
    constexpr int AT_ONCE = 8;
    const int64_t plane = (int64_t)p.OH * p.OW;
    const float *residual = p.last.residual;
    if (channels < 16) {
#pragma unroll 1
        for (int c = 0; c < channels; c++, from += plane)
            if (inside)
                p.y[from] = talc_activate<false>(p.last.activation,
                                                 column[c * STORE_PITCH] +
                                                     (residual == nullptr ? 0 : residual[from]));
        return;
    }
#pragma unroll 1
    for (int some = 0; some < 16; some += AT_ONCE, column += AT_ONCE * STORE_PITCH) {
        float v[AT_ONCE];
#pragma unroll
        for (int c = 0; c < AT_ONCE; c++)
            v[c] = column[c * STORE_PITCH];
        if (residual != nullptr && inside) {
            const float *x = residual + from;
#pragma unroll
            for (int c = 0; c < AT_ONCE; c++) {
                v[c] += *x;
                /* Without this the compiler keeps multiples of the plane in registers. */
                asm volatile("add.s64 %0, %0, %1;" : "+l"(x) : "l"(plane * 4));
            }
        }
        if (p.last.activation != TALC_ACTIVATION_NONE)
            activate_all<false>(p.last.activation, v);
        if (inside) {
            float *y = p.y + from;
#pragma unroll
            for (int c = 0; c < AT_ONCE; c++) {
                *y = v[c];
                asm volatile("add.s64 %0, %0, %1;" : "+l"(y) : "l"(plane * 4));
            }
        }
        from += AT_ONCE * plane;
    }
}

/// Writes the outputs of a flat tile or of phases, one thread a column. Each column of its rows may
/// be anywhere in y.
template <typename Form, int ROWS = Form::ROWS>
static __device__ __forceinline__ void store_positions(const gemm_problem &p, int t,
                                                       const float (&sums)[BLOCKS][ROWS * 4],
                                                       store_buffer<ROWS> *buffer)
{
    const talc_gemm_tile a = tile_of<Form>(p, t);
    const talc_gemm_warp_tile w = warp_tile_of(p, a);
    const float4 scale[2] = { buffer->scales[w.lane / 4], buffer->scales[w.lane / 4 + 8] };
    float *const to[2] = { &buffer->row[w.lane / 4][w.lane % 4 * 2],
                           &buffer->row[w.lane / 4 + 8][w.lane % 4 * 2] };
    /* What is the same in all rows: the channels, the offset of the first of them, and of dx the
     * phase of h and the rows of pixels that may read dy. */
    int channels = __shfl_sync(~0u, w.channels, 0), phase_h = 0;
    int64_t first = a.split * p.outputs +
                    (int64_t)(a.g * p.group_out + w.first) * ((int64_t)p.OH * p.OW),
            image = (int64_t)p.OC * p.OH * p.OW;
    talc_gemm_rows reading = { 0, p.OH };
    if constexpr (Form::PHASES) {
        const talc_gemm_dx_row r = talc_gemm_dx_row_of(&p.dx, w.first);
        const int64_t plane = (int64_t)p.dx.H * p.dx.W;
        channels = r.exists ? min(p.dx.channels, p.dx.group_channels - r.channel) : 0;
        channels = __shfl_sync(~0u, channels, 0);
        phase_h = r.phase_h;
        first = a.split * p.outputs + (a.g * p.dx.group_channels + r.channel) * plane +
                phase_h * p.dx.W;
        image = p.OC * plane;
        if (!IS_WITNESS)
            reading = talc_gemm_reading_rows(&p, w.first);
    }
#pragma unroll 1
    for (int j = 0; j < ROWS; j++) {
        const talc_gemm_pixel at =
            talc_gemm_pixel_of(&p, &a, w.first_position + j * p.row_shift + w.lane);
        const bool inside = at.n < p.N && at.row < p.OH && at.column < p.OW;
        const bool reads = inside && at.row >= reading.first && at.row < reading.end;
        if (__ballot_sync(~0u, inside) == 0) {
            buffer->recompute_bits[j][w.lane] = 0;
            continue;
        }
        scale_row<ROWS>(sums, j, scale, to, w.lane, __ballot_sync(~0u, reads),
                        &buffer->recompute_bits[j][w.lane]);
        __syncwarp();
        if constexpr (Form::PHASES) {
            const int h = at.row * p.dx.stride_h, column = at.column * p.dx.stride_w;
            const int columns =
                inside && h + phase_h < p.dx.H ? min(p.dx.stride_w, p.dx.W - column) : 0;
            store_phases<ROWS>(p, w.lane, channels,
                               first + at.n * image + ((int64_t)h * p.dx.W + column),
                               reads ? columns : -columns, buffer);
        } else {
            store_column(p, first + at.n * image + (at.row * p.OW + at.column), inside, channels,
                         &buffer->row[0][w.lane]);
        }
        __syncwarp();
    }
    if (p.recompute_limits == nullptr)
        recompute_outputs<Form>(p, a, buffer, nullptr, [](int, int) { return 0; });
}

/// The same for a warp with all 16 channels. It loads the residual of the next row before it writes
/// a row, and takes more registers for that.
template <typename Form, int ROWS = Form::ROWS>
static __device__ __forceinline__ void store_full_positions(const gemm_problem &p, int t,
                                                            const float (&sums)[BLOCKS][ROWS * 4],
                                                            store_buffer<ROWS> *buffer)
{
    constexpr int AT_ONCE = 4;
    const talc_gemm_tile a = tile_of<Form>(p, t);
    const talc_gemm_warp_tile w = warp_tile_of(p, a);
    const int64_t plane = (int64_t)p.OH * p.OW;
    const float4 scale[2] = { buffer->scales[w.lane / 4], buffer->scales[w.lane / 4 + 8] };
    float *const to[2] = { &buffer->row[w.lane / 4][w.lane % 4 * 2],
                           &buffer->row[w.lane / 4 + 8][w.lane % 4 * 2] };
    const float *column = &buffer->row[0][w.lane];
    /* The offset in y of column `lane` of row `j`, in the warp's first channel. -1: none. */
    auto find = [&](int j) {
        const talc_gemm_pixel at =
            talc_gemm_pixel_of(&p, &a, w.first_position + j * p.row_shift + w.lane);
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
            /* Without this the compiler keeps multiples of the plane in registers. */
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
        buffer->recompute_bits[j][w.lane] = 0;
        if (inside != 0) {
            scale_row<ROWS>(sums, j, scale, to, w.lane, inside, &buffer->recompute_bits[j][w.lane]);
            __syncwarp();
            float *y = p.y + a.split * p.outputs + from;
#pragma unroll
            for (int some = 0; some < 16; some += AT_ONCE) {
                float v[AT_ONCE];
#pragma unroll
                for (int c = 0; c < AT_ONCE; c++)
                    v[c] = column[(some + c) * STORE_PITCH] + added[some + c];
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
    if (p.recompute_limits == nullptr)
        recompute_outputs<Form>(p, a, buffer, nullptr, [](int, int) { return 0; });
}

/// Scales the sums of tile `t` and writes them. Those that may have lost products to underflow, and
/// NaN, are recomputed.
template <typename Form>
static __device__ __forceinline__ void store_tile(const gemm_problem &p, int t,
                                                  float (&sums)[BLOCKS][Form::ROWS * 4],
                                                  sums_info info, char *shared)
{
    constexpr int ROWS = Form::ROWS;
    store_buffer<ROWS> *buffer = store_buffer_of<ROWS>(p, shared);
    {
        const talc_gemm_tile a = tile_of<Form>(p, t);
        const talc_gemm_warp_tile w = warp_tile_of(p, a);
        const int c = w.lane % 16, both = p.warpgroup_shift == 0 ? 2 : 1;
        const int row = a.g * p.channel_tiles * both * CHANNELS + w.first + c;
        const int e = IS_WITNESS ? 0 : -(info.exponent + p.exponents[row]);
        float limit = info.underflows * p.coefficient + p.thresholds[row] * info.max_factor;
        if (c >= w.channels)
            limit = 0;
        else if (e < -126 || e > 127)
            limit = NAN;
        /* With split-K, sums are checked when the splits are added up. Where a scale is near the
         * smallest f32, all of them are recomputed. */
        if (p.recompute_limits != nullptr) {
            if (w.lane < 16)
                p.recompute_limits[((int64_t)t * 2 + w.first / CHANNELS % both) * CHANNELS +
                                   w.first % CHANNELS + c] =
                    e < -90 ? NAN : limit * power_of_two(min(127, e));
            limit = 0;
        }
        buffer->scales[c] = make_float4(power_of_two(max(-126, min(127, e))),
                                        p.last.bias != nullptr && c < w.channels
                                            ? p.last.bias[a.g * p.group_out + w.first + c]
                                            : 0,
                                        limit, 0);
        __syncwarp();
    }
    if constexpr (Form::PHASES)
        store_positions<Form>(p, t, sums, buffer);
    else if (Form::STAGED &&
             __shfl_sync(~0u, warp_tile_of(p, tile_of<Form>(p, t)).channels, 0) == 16)
        store_full_positions<Form>(p, t, sums, buffer);
    else if (Form::STAGED || p.flat)
        store_positions<Form>(p, t, sums, buffer);
    else
        store_rows<Form>(p, t, sums, buffer, (float *)(buffer + 1));
}

} // namespace talc

#endif
