/// The weight gradient on tensor cores: by mma.sync from compute capability 8.0 on, by wgmma on
/// 9.0. For each group
///
///     dw[oc, ic, tap] = sum over positions of dy[oc, position] * x[ic, position + tap]
///
/// The sum goes over all positions of all images, in tiles of 128 positions. A tile is 8 rows of
/// 16, or 128 that run on over the ends of rows and images (implicit_gemm/problem.cuh).
///
/// Three kernels. The first packs: it writes each tile of dy, and the halo tile of x under it, to
/// the workspace as [channels of 8][position][8] in scaled f16. So each element is converted once.
/// Where channels are few, they are folded with the phases of the stride, as in implicit_gemm.
/// The second multiplies: a block has 64 output channels, a block of input channels and some taps,
/// and takes a share of the tiles. A tap is an offset in the halo tile. mma.sync (this file) loads
/// both operands from shared memory by ldmatrix, transposed, since the sum runs along positions.
/// wgmma (weight_gradient_wgmma.cu) reads them from there. f32 registers add up the sums of the
/// tensor cores every 16 products, by wgmma every 64 or 128. The third kernel adds up the sums of
/// all shares, in their order. Where the workspace does not hold all tiles, this is done in rounds,
/// and the sums of a round begin with those of the round before.
///
/// Arithmetic: as in implicit_gemm. The error that underflows can cause is added up tile by tile. A
/// sum is recomputed by FFMA where the magnitudes of its products are not well above that error, or
/// where it is not finite. Gradients spread over many decades, and those of dead channels are 0.
/// Sums that are small or 0 for that reason are not recomputed.
#include "backends/cuda/conv2d/input_gradient.h"
#include "backends/cuda/conv2d/weight_gradient.cuh"
#include "backends/cuda/device/counter.h"
#include "backends/cuda/gemm/costs.h"
#include "backends/cuda/gemm/recompute.cuh"
#include "backends/cuda/primitives/mma.cuh"

#include <cuda_pipeline_primitives.h>

using namespace talc;

/* The shape of tiles and halo tiles, and the threads that pack them. */
template <int COUNT> struct packing_form {
    static constexpr talc_gemm_form VALUES = { false, COUNT, TILE / STEP, STEP,  256,
                                               0,     1,     false,       false, 0 };
    static constexpr int PRODUCTS = COUNT, LOADERS = VALUES.loaders, FIRST_LOADER = 0;
};

constexpr int THREADS = TALC_WEIGHT_THREADS, WARPS = THREADS / WARP;
constexpr int COLUMN_WARPS = TALC_WEIGHT_COLUMN_WARPS;
constexpr int AT_ONCE = 3;             /* columns whose products do not depend on each other */
constexpr int ROUND_BYTES = 256 << 20; /* of packed tiles, unless the workspace is smaller */

// ---- Packing ------------------------------------------------------------------------------------

/* Packs tiles: one block a tile, block of channels and group. */
template <typename Form>
static __global__ void __launch_bounds__(THREADS)
    pack_tiles(const __grid_constant__ gemm_problem p, char *to, packed_tile_info *infos, int first)
{
    __shared__ unsigned measured[2][WARPS][6];
    const int channel_block = (int)blockIdx.y, g = (int)blockIdx.z;
    const talc_gemm_tile a = talc_gemm_tile_of(&p, g * p.pixel_tiles + first + (int)blockIdx.x);
    const int64_t at = ((int64_t)blockIdx.x * gridDim.z + g) * gridDim.y + channel_block;
    int exponent = p.folded ? sampled_exponent<FOLDED>(p, a, channel_block)
                            : sampled_exponent<CAREFUL>(p, a, channel_block);
    bool careful = (channel_block + 1) * p.channels > p.in;
    for (int round = 0;; round++) {
        channel_bits found = {};
        const float scale = ldexpf(1, exponent);
        char *tile = to + at * p.halo_tile_bytes;
        const halo_stats stats =
            p.folded  ? load_halo_tile<Form, FOLDED>(p, a, channel_block, tile, scale, &found)
            : careful ? load_halo_tile<Form, CAREFUL>(p, a, channel_block, tile, scale, &found)
                      : load_halo_tile<Form, PLAIN>(p, a, channel_block, tile, scale, &found);
        unsigned max_bits = __reduce_max_sync(~0u, __float_as_uint(stats.largest)),
                 underflows = __reduce_add_sync(~0u, stats.underflows);
        const uint64_t masks[] = { found.nonzero, found.underflow };
        unsigned(*of)[6] = measured[round % 2], *own = of[threadIdx.x / WARP];
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const unsigned low = __reduce_or_sync(~0u, (unsigned)masks[i]),
                           high = __reduce_or_sync(~0u, (unsigned)(masks[i] >> 32));
            if (threadIdx.x % WARP == 0)
                own[2 + 2 * i] = low, own[3 + 2 * i] = high;
        }
        if (threadIdx.x % WARP == 0)
            own[0] = max_bits, own[1] = underflows;
        __syncthreads();
        max_bits = underflows = 0, found = {};
        for (int i = 0; i < WARPS; i++) {
            max_bits = max(max_bits, of[i][0]), underflows += of[i][1];
            found.nonzero |= (uint64_t)of[i][3] << 32 | of[i][2];
            found.underflow |= (uint64_t)of[i][5] << 32 | of[i][4];
        }
        const float largest = __uint_as_float(max_bits);
        int e;
        frexpf(largest, &e);
        if (largest == 0 || (!isinf(largest) && e + exponent <= TOP + 1 &&
                             (e + exponent > TOP - 3 || exponent == 127))) {
            if (threadIdx.x == 0)
                infos[at] = { { exponent, underflows }, found };
            return;
        }
        if (isinf(largest))
            careful = true;
        else
            exponent = min(TOP - e, 127);
    }
}

// ---- Multiplying --------------------------------------------------------------------------------

template <int PRODUCTS, int NB>
static __global__ void __launch_bounds__(THREADS, 1)
    multiply_packed(const __grid_constant__ weight_problem p)
{
    extern __shared__ __align__(128) char shared[];
    static_assert(NB % AT_ONCE == 0, "");
    __shared__ int offsets[COLUMN_WARPS * NB];
    const int t = (int)threadIdx.x, lane = t % WARP, warp = t / WARP;
    const talc_weight_share w = talc_weight_share_of(&p, (int)blockIdx.x, (int)blockIdx.y);
    const int first_column = warp % COLUMN_WARPS * p.columns,
              count = max(0, min(p.columns, p.planes * w.taps - first_column));
    for (int i = t; i < COLUMN_WARPS * NB; i += THREADS) {
        const int column = i / NB * p.columns + i % NB, tap = column / p.planes;
        offsets[i] = i % NB < p.columns && tap < w.taps
                         ? (column - tap * p.planes) * p.plane + p.shifts[w.first_tap + tap]
                         : 0;
    }
    float *const split_sums =
        p.split_sums + w.own * (2 * NB * THREADS * 4) + talc_weight_sum_at(THREADS, t, 0, 0);
    auto four_sums = [&](int i) {
        return (float4 *)(split_sums + talc_weight_sum_at(THREADS, 0, i, 0));
    };
    float sums[2][NB][4];
    weight_limit limit = p.resumes ? p.limits[w.own] : weight_limit{};
#pragma unroll
    for (int i = 0; i < 2 * NB; i++) {
        float *to = sums[i / NB][i % NB];
        const float4 v = p.resumes ? *four_sums(i) : float4{};
        to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
    }
    const int bytes = p.x_bytes + p.dy_bytes;
    auto fetch = [&](int tile) {
        if (tile < w.last) {
            char *to = shared + (tile - w.first) % 2 * bytes;
            const char *x = p.x + x_tile(p, w, tile) * p.x_bytes,
                       *dy = p.dy + dy_tile(p, w, tile) * p.dy_bytes;
            for (int i = t * 16; i < p.x_bytes; i += THREADS * 16)
                __pipeline_memcpy_async(to + i, x + i, 16);
            for (int i = t * 16; i < p.dy_bytes; i += THREADS * 16)
                __pipeline_memcpy_async(to + p.x_bytes + i, dy + i, 16);
        }
        __pipeline_commit();
    };
    fetch(w.first);
    /* The rows of the matrices are positions. Of dy, matrices 0 and 1 are its channels, and 2 and 3
     * are the next 8 positions. Of x, matrices 0 and 1 are positions, and 2 and 3 are their low
     * parts. */
    const uint32_t base = shared_address(shared);
    const uint32_t dy_lane =
        base + (uint32_t)(p.x_bytes + ((warp / COLUMN_WARPS * 4 + lane / 8 % 2) * TILE + lane % 8 +
                                       lane / 16 * 8) *
                                          16);
    const uint32_t x_lane = base + (uint32_t)((lane % 8 + lane / 8 % 2 * 8) * 16 +
                                              (PRODUCTS == 3 ? lane / 16 * p.low : 0));
    for (int tile = w.first; tile < w.last; tile++) {
        fetch(tile + 1);
        __pipeline_wait_prior(1);
        __syncthreads();
        const float scale =
            scale_back(p.x_infos[x_tile(p, w, tile)], p.dy_infos[dy_tile(p, w, tile)], limit);
        const uint32_t buffer = (uint32_t)((tile - w.first) % 2 * bytes);
#pragma unroll 1
        for (int s = 0; s < TILE / STEP; s++) {
            uint4 a[2][PRODUCTS == 3 ? 2 : 1];
#pragma unroll
            for (int m = 0; m < 2; m++)
#pragma unroll
                for (int part = 0; part < (PRODUCTS == 3 ? 2 : 1); part++)
                    a[m][part] = four_matrices<true>(
                        dy_lane + buffer +
                        (uint32_t)((m * 2 * TILE + s * STEP) * 16 + part * OC_TILE * TILE * 2));
            const uint32_t from = x_lane + buffer + (uint32_t)p.steps[s] * 16;
#pragma unroll
            for (int b = 0; b < NB; b += AT_ONCE) {
                if (b >= count)
                    break;
                uint4 v[AT_ONCE];
                float partial[AT_ONCE][2][4] = {};
#pragma unroll
                for (int i = 0; i < AT_ONCE; i++)
                    v[i] = four_matrices<true>(
                        from + (uint32_t)offsets[warp % COLUMN_WARPS * NB + b + i] * 16);
                if constexpr (PRODUCTS == 3) {
#pragma unroll
                    for (int i = 0; i < 2 * AT_ONCE; i++)
                        mma(partial[i / 2][i % 2], a[i % 2][1], v[i / 2].x, v[i / 2].y);
#pragma unroll
                    for (int i = 0; i < 2 * AT_ONCE; i++)
                        mma(partial[i / 2][i % 2], a[i % 2][0], v[i / 2].z, v[i / 2].w);
                }
#pragma unroll
                for (int i = 0; i < 2 * AT_ONCE; i++)
                    mma(partial[i / 2][i % 2], a[i % 2][0], v[i / 2].x, v[i / 2].y);
#pragma unroll
                for (int i = 0; i < 8 * AT_ONCE; i++)
                    sums[i / 4 % 2][b + i / 8][i % 4] += partial[i / 8][i / 4 % 2][i % 4] * scale;
            }
        }
        __syncthreads();
    }
    __pipeline_wait_prior(0);
#pragma unroll
    for (int i = 0; i < 2 * NB; i++) {
        const float *from = sums[i / NB][i % NB];
        *four_sums(i) = make_float4(from[0], from[1], from[2], from[3]);
    }
    if (t == 0)
        p.limits[w.own] = limit;
}

// ---- Adding -------------------------------------------------------------------------------------

/* A warp adds up the sums of 32 elements of dw, four output channels of 8 input channels, and of as
 * many of several taps or of several fours of output channels. 2^ways_shift warps share the splits
 * of the same elements. */
struct weight_sums : talc_weight_layout {
    const float *split_sums, *x, *dy;
    const weight_limit *limits;
    float *dw;
    float coefficient;
    int block_sums;
    /// Of a block: planes of 8 input channels, a power of two, taps, and the elements of an output
    /// channel.
    int block_planes, block_taps, ways_shift;
    talc_divisor by_block_taps, by_run;
};

static __device__ float weight_by_block(const gemm_problem &p, const weight_sums &s,
                                        talc_weight_element to, float *partial)
{
    const int kh = to.tap / p.KW * p.dilation_h, kw = to.tap % p.KW * p.dilation_w;
    const int threads = (int)blockDim.x, plane = p.OH * p.OW, images = threads / plane,
              rest = threads - images * plane;
    const float *from = s.x + ((int64_t)to.g * p.group_in + to.ic) * p.H * p.W;
    const float *by = s.dy + ((int64_t)to.g * p.group_out + to.oc) * plane;
    int n = (int)threadIdx.x / plane, i = (int)threadIdx.x - n * plane;
    float sum = 0;
#pragma unroll 4
    while (n < p.N) {
        const int oh = i / p.OW, ow = i - oh * p.OW;
        int h = oh * p.stride_h - p.top + kh, w = ow * p.stride_w - p.left + kw;
        if (p.mode != TALC_PADDING_ZEROS) {
            h = (int)talc_window_source(p.mode, h, p.H);
            w = (int)talc_window_source(p.mode, w, p.W);
        }
        const bool inside = (unsigned)h < (unsigned)p.H && (unsigned)w < (unsigned)p.W;
        /* Outside of the image the product would be 0 times infinity. */
        const float x = inside ? __ldg(&from[(int64_t)n * p.C * p.H * p.W + h * p.W + w]) : 0;
        sum += x * __ldg(&by[(int64_t)n * p.OC * plane + i]);
        n += images, i += rest;
        if (i >= plane)
            i -= plane, n++;
    }
    sum = sum_of_warp(sum);
    __syncthreads();
    if (threadIdx.x % WARP == 0)
        partial[threadIdx.x / WARP] = sum;
    __syncthreads();
    sum = 0;
    for (int k = 0; k < threads / WARP; k++)
        sum += partial[k];
    return sum;
}

/* Taps of a thread, few of them where blocks are few, or fours. */
constexpr int ADDED_TAPS = 9, FEW_TAPS = 3, ADDED_QUADS = 4;
/* Blocks of a multiprocessor, at least. */
constexpr int BLOCKS_THAT_ADD = 4;

/* Floats of shared memory: the elements in the order of dw, then, where several warps share splits,
 * the sums and magnitudes of all. */
static int adders_floats(int units, int planes, int ways_shift)
{
    const int elements = units * planes * WARP;
    return (ways_shift == 0 ? 1 : 1 + (2 << ways_shift)) * elements;
}

/* A block writes its elements in the order of dw. The limit is compared with the sum of the
 * magnitudes of the splits, which is at most that of the products. It is not compared with the sum
 * itself, which may be 0 without an error. */
template <bool TAPS, int UNITS>
static __global__ void __launch_bounds__(THREADS, UNITS == FEW_TAPS ? 5 : 4)
    add_weight_splits(const __grid_constant__ gemm_problem p, const __grid_constant__ weight_sums s)
{
    constexpr int LIMITS = TAPS ? 1 : UNITS; /* taps share theirs */
    constexpr int QUADS = TAPS ? TALC_WEIGHT_QUADS : TALC_WEIGHT_QUADS / UNITS;
    extern __shared__ float values[];
    __shared__ float limits[WARPS][LIMITS][WARP], partial[WARPS];
    __shared__ unsigned recompute_bits[WARPS];
    const int t = (int)threadIdx.x, lane = t % WARP, warp = __shfl_sync(~0u, t / WARP, 0),
              block = (int)blockIdx.x;
    const int ways = 1 << s.ways_shift, way = warp & (ways - 1);
    const int first_quad = (int)blockIdx.y % QUADS * (TAPS ? 1 : UNITS),
              first_plane = (int)blockIdx.y / QUADS * s.block_planes,
              first_tap = (int)blockIdx.z * s.block_taps;
    const talc_weight_element first = talc_weight_first_of(&s, block);
    /* The last taps of all may be fewer: the others have no sums. */
    const int left = min(s.group_taps, s.taps - first.tap) - first_tap,
              units = TAPS ? min(s.block_taps, left) : UNITS;
    const talc_fragment fragment = talc_fragment_of(lane / 4, lane % 4);
    auto row_of = [&](int unit, int of_lane) {
        return talc_weight_quad_row(first_quad + (TAPS ? 0 : unit), of_lane);
    };
    /* The element of dw that belongs to one of a folded channel and tap. */
    auto unfolded = [&](talc_weight_element e) {
        if (p.folded && e.tap >= 0) {
            const talc_gemm_weight w = talc_gemm_weight_of(&p, e.tap, e.ic);
            e.ic = w.ic;
            e.tap = w.kh < p.KH && w.kw < p.KW ? w.kh * p.KW + w.kw : -1;
        }
        return e;
    };
    auto element = [&](int of_warp, int unit, int of_lane) {
        const int ic = (first_plane + (of_warp >> s.ways_shift)) * PLANE +
                       talc_fragment_of(of_lane / 4, of_lane % 4).column;
        return unfolded(talc_weight_element_at(&s, block, row_of(unit, of_lane), ic,
                                               TAPS ? first_tap + unit : 0));
    };
    int at[UNITS];
    const int plane = first_plane + (warp >> s.ways_shift);
    talc_weight_place place = talc_weight_place_of(&s, plane, first_tap, first_quad);
#pragma unroll
    for (int u = 0; u < UNITS; u++) {
        at[u] = u < units ? place.at + lane : -1;
        if (TAPS)
            talc_weight_next_tap(&s, &place);
        else
            place = talc_weight_place_of(&s, plane, 0, first_quad + u + 1);
    }
    float sum[UNITS] = {}, magnitude[UNITS] = {}, limit[LIMITS] = {};
#pragma unroll(UNITS == ADDED_TAPS ? 2 : 4)
    for (int k = way; k < s.splits; k += ways) {
        const int64_t own = (int64_t)block * s.splits + k;
        const float *from = s.split_sums + own * s.block_sums;
        const weight_limit &its = s.limits[own];
#pragma unroll
        for (int u = 0; u < UNITS; u++) {
            const float split_sum = at[u] >= 0 ? from[at[u]] : 0;
            sum[u] += split_sum, magnitude[u] += fabsf(split_sum);
        }
        if (its.underflows != 0) /* NaN too */
#pragma unroll
            for (int u = 0; u < LIMITS; u++)
                if (underflow_counts(its, plane * PLANE + fragment.column, row_of(u, lane)))
                    limit[u] += its.underflows;
    }
    const int run = s.block_planes * PLANE * s.block_taps; /* elements of an output channel */
    float *const sums = values + UNITS * s.block_planes * WARP + lane;
    float *const magnitudes = sums + UNITS * s.block_planes * WARP * ways;
    if (way > 0) {
#pragma unroll
        for (int u = 0; u < UNITS; u++)
            sums[(warp * UNITS + u) * WARP] = sum[u];
#pragma unroll
        for (int u = 0; u < UNITS; u++)
            magnitudes[(warp * UNITS + u) * WARP] = magnitude[u];
#pragma unroll
        for (int u = 0; u < LIMITS; u++)
            limits[warp][u][lane] = limit[u];
    }
    __syncthreads();
    auto value_at = [&](int of_warp, int unit, int of_lane) {
        const talc_fragment f = talc_fragment_of(of_lane / 4, of_lane % 4);
        return values + ((TAPS ? 0 : unit * 4) + f.row % 8 + f.row / 8 * 2) * run +
               ((of_warp >> s.ways_shift) * PLANE + f.column) * s.block_taps + (TAPS ? unit : 0);
    };
    unsigned again = 0; /* a bit for each sum of a thread */
    if (way == 0) {
#pragma unroll
        for (int u = 0; u < LIMITS; u++)
            for (int k = 1; k < ways; k++)
                limit[u] += limits[warp + k][u][lane];
#pragma unroll
        for (int u = 0; u < UNITS; u++) {
            if (u >= units)
                break;
            for (int k = 1; k < ways; k++) {
                const int with = ((warp + k) * UNITS + u) * WARP;
                sum[u] += sums[with], magnitude[u] += magnitudes[with];
            }
            *value_at(warp, u, lane) = sum[u];
            if (!(magnitude[u] >= limit[TAPS ? 0 : u] * s.coefficient && fabsf(sum[u]) < INFINITY))
                again |= 1u << u;
        }
    }
    if (__syncthreads_or(again != 0))
#pragma unroll 1
        for (int u = 0; u < units; u++) {
            const unsigned mine =
                __ballot_sync(~0u, (again >> u & 1) && element(warp, u, lane).tap >= 0);
            if (lane == 0) {
                recompute_bits[warp] = mine;
                if (mine != 0)
                    atomicAdd(p.recomputed, __popc(mine));
            }
            __syncthreads();
            for (int i = 0; i < (int)blockDim.x / WARP; i += ways)
                for (unsigned bits = recompute_bits[i]; bits != 0; bits &= bits - 1) {
                    const int of = __ffs((int)bits) - 1;
                    const float exact = weight_by_block(p, s, element(i, u, of), partial);
                    if (t == 0)
                        *value_at(i, u, of) = exact;
                }
            __syncthreads();
        }
    /* A quad has rows 0, 1, 8 and 9 behind its first (talc_weight_quad_row), which element 0, 16, 2
     * and 18 of a warp are in. */
    for (int i = t; i < (TAPS ? 4 : 4 * UNITS) * run; i += (int)blockDim.x) {
        const int oc = (int)talc_quotient(s.by_run, (uint32_t)i), rest = i - oc * run,
                  ic = (int)talc_quotient(s.by_block_taps, (uint32_t)rest),
                  tap = rest - ic * s.block_taps;
        talc_weight_element to = first;
        to.oc += talc_weight_quad_row(first_quad + oc / 4, oc % 2 * 16 + oc / 2 % 2 * 2);
        to.ic += first_plane * PLANE + ic;
        to.tap += first_tap + tap;
        if (tap >= (TAPS ? units : 1) || to.oc >= s.group_out || to.ic >= s.group_in)
            continue;
        to = unfolded(to);
        if (to.tap >= 0)
            s.dw[((to.g * p.group_out + to.oc) * p.group_in + to.ic) * (p.KH * p.KW) + to.tap] =
                values[i];
    }
}

// ---- The plan -----------------------------------------------------------------------------------

struct weight_plan {
    bool by_wgmma, folded;
    int arrangement, channels, nb, round, splits; /* round: tiles of a round */
};

/* The packing of x and of dy, as two problems with the same tiles. A K tile of these problems is a
 * block of channels. */
template <typename Form>
static bool packing_problems(const talc_conv2d_problem *p, const talc_cuda_state &gpu, bool folded,
                             int arrangement, int channels, gemm_problem &x, gemm_problem &dy)
{
    if (!gemm_problem_of<Form>(p, x) || (folded && !talc_gemm_folds(&x, p)) ||
        !talc_gemm_set_tiles(&x, &Form::VALUES, p, gemm_gpu_of(gpu),
                             { arrangement, channels, 0, folded, false, 1 }))
        return false;
    gemm_fill_shifts(x);
    x.channel_tiles = 1, x.splits = 1, x.split_k_tiles = x.k_tiles;
    x.by_inner = x.by_splits = talc_divisor_of(1), x.by_outer = talc_divisor_of(x.column_tiles);
    dy = x;
    dy.folded = false;
    dy.C = x.OC, dy.H = x.OH, dy.W = x.OW, dy.group_in = dy.in = x.group_out;
    dy.stride_h = dy.stride_w = 1, dy.top = dy.left = 0;
    dy.mode = TALC_PADDING_ZEROS;
    dy.phases = dy.phases_w = 1;
    dy.positions = TILE;
    if (!dy.flat)
        dy.pitch = STEP;
    dy.by_pitch = talc_divisor_of(dy.pitch), dy.by_positions = talc_divisor_of(TILE);
    dy.channels = OC_TILE;
    dy.k_tiles = dy.split_k_tiles = (int)talc_ceil_div(dy.in, OC_TILE);
    dy.halo_tile_bytes = PARTS<Form> * OC_TILE * 2 * TILE;
    return true;
}

/* For an axis: how many outputs a tap meets inside the image, for the tap that meets fewest but at
 * least one. */
static int64_t fewest_positions(int64_t extent, int64_t O, int64_t K, int64_t stride,
                                int64_t dilation, int64_t pad)
{
    int64_t fewest = O;
    for (int64_t k = 0; k < K; k++) {
        const int64_t begin = pad - k * dilation, end = extent - 1 + begin;
        const int64_t low = begin > 0 ? talc_ceil_div(begin, stride) : 0;
        const int64_t high = end < 0 ? -1 : end / stride < O - 1 ? end / stride : O - 1;
        if (high >= low && high - low + 1 < fewest)
            fewest = high - low + 1;
    }
    return fewest;
}

static int64_t fewest_products(const talc_conv2d_problem *p)
{
    if (p->padding_mode != TALC_PADDING_ZEROS)
        return p->N * p->OH * p->OW;
    return p->N * fewest_positions(p->H, p->OH, p->KH, p->stride_h, p->dilation_h, p->pad_top) *
           fewest_positions(p->W, p->OW, p->KW, p->stride_w, p->dilation_w, p->pad_left);
}

/* The layout of the workspace, which follows from a plan. */
struct weight_layout {
    talc_weight_layout of;
    /* tiles: those of all channels, at the same positions */
    int64_t blocks, x_tiles, dy_tiles;
    size_t x, dy, infos, limits, split_sums; /* bytes, in this order */
};

static weight_layout layout_of(const gemm_problem &x, const gemm_problem &dy, const weight_plan &w)
{
    weight_layout l = {};
    l.of.by_wgmma = w.by_wgmma;
    l.of.groups = x.groups, l.of.group_in = x.in, l.of.group_out = x.group_out;
    l.of.taps = x.taps, l.of.tiles = x.pixel_tiles, l.of.splits = w.splits;
    l.of.channels = x.channels, l.of.x_blocks = x.k_tiles, l.of.dy_blocks = dy.k_tiles;
    l.of.nb = w.nb;
    talc_weight_set_columns(&l.of);
    l.x_tiles = (int64_t)x.groups * x.k_tiles, l.dy_tiles = (int64_t)x.groups * dy.k_tiles;
    l.blocks = l.dy_tiles * x.k_tiles * l.of.tap_groups;
    l.x = talc_cuda_aligned((size_t)(w.round * l.x_tiles * x.halo_tile_bytes));
    l.dy = talc_cuda_aligned((size_t)(w.round * l.dy_tiles * dy.halo_tile_bytes));
    l.infos = talc_cuda_aligned(
        (size_t)(w.round * (l.x_tiles + l.dy_tiles) * (int64_t)sizeof(packed_tile_info)));
    l.limits = talc_cuda_aligned((size_t)(l.blocks * w.splits * (int64_t)sizeof(weight_limit)));
    l.split_sums =
        (size_t)(l.blocks * w.splits * talc_weight_block_sums(&l.of) * (int64_t)sizeof(float));
    return l;
}

static size_t bytes_of(const weight_layout &l)
{
    return l.x + l.dy + l.infos + l.limits + l.split_sums;
}

/* Clock cycles of the products of a tile. For wgmma it is the longest of three: the products of all
 * warpgroups, those of one warpgroup with its waits, and the copies to shared memory. */
static double tile_cycles(const gemm_problem &x, const gemm_problem &dy, const weight_plan &w,
                          const weight_layout &l, int products)
{
    constexpr int STEPS = TILE / STEP;
    if (!w.by_wgmma)
        return WARPS * STEPS * 2. * l.of.columns * products * 2048 / WEIGHT_RATE_MMA +
               WEIGHT_TILE_MMA;
    const double tap = STEPS * products * (w.channels == 64 ? WEIGHT_STEP_64 : WEIGHT_STEP_32);
    const double all = l.of.group_taps * tap * WEIGHT_BUSY,
                 one = l.of.columns * PLANE / w.channels * (tap + WEIGHT_WAIT),
                 copies = (x.halo_tile_bytes + dy.halo_tile_bytes) / WEIGHT_BYTES;
    return (all > one && all > copies ? all : one > copies ? one : copies) + WEIGHT_TILE;
}

/* Seconds. Packing reads f32 and writes halves at the rate of memory. A round takes as long as its
 * waves of blocks. */
static double seconds_of(const talc_cuda_state &gpu, const gemm_problem &x, const gemm_problem &dy,
                         const weight_plan &w, const weight_layout &l, int products)
{
    const double rounds = (double)talc_ceil_div(x.pixel_tiles, w.round);
    const double packed = (double)x.pixel_tiles * ((double)l.x_tiles * x.halo_tile_bytes +
                                                   (double)l.dy_tiles * dy.halo_tile_bytes);
    const double tile = tile_cycles(x, dy, w, l, products);
    const double waves = (double)talc_ceil_div(l.blocks * w.splits, gpu.multiprocessors);
    const double passes = (w.by_wgmma ? WEIGHT_PACK : WEIGHT_PACK_MMA) * (products == 3 ? 2 : 3);
    return packed * passes / WEIGHT_MEMORY +
           rounds *
               (waves * (double)talc_ceil_div(w.round, w.splits) * tile / CLOCK + WEIGHT_ROUND) +
           (double)l.split_sums * (rounds * 2 + 1) / WEIGHT_MEMORY + WEIGHT_LAUNCHES;
}

template <typename Form>
static const char *plan_of(bool by_wgmma, const talc_device *device, const talc_conv2d_problem *p,
                           size_t limit, talc_plan *plan)
{
    const talc_cuda_state &gpu = *talc_cuda_state_of(device);
    if (const char *reason = talc_gemm_refuses(p->dtype, gpu.capability, by_wgmma))
        return reason;
    if (p->OC * (p->C / p->groups) * p->KH * p->KW > INT_MAX ||
        p->KH * p->KW > TALC_GEMM_MAX_STEPS || p->groups > 65535)
        return "an extent is too large";
    if (const char *reason =
            Form::PRODUCTS == 3 ? talc_gemm_refuses_sums(fewest_products(p)) : NULL)
        return reason;
    const int min_channels = by_wgmma ? 2 * STEP : STEP;
    weight_plan best = {};
    plan->seconds = INFINITY;
    struct {
        bool folded;
        int arrangement;
    } const ways[] = { { false, TALC_GEMM_SAME },
                       { false, TALC_GEMM_FLAT_SAME },
                       { true, TALC_GEMM_SAME },
                       { true, TALC_GEMM_FLAT_SAME } };
    for (auto way : ways)
        for (int channels = 64; channels >= min_channels; channels /= 2) {
            gemm_problem x = {}, dy = {};
            if (!packing_problems<Form>(p, gpu, way.folded, way.arrangement, channels, x, dy) ||
                (channels > min_channels && channels / 2 >= x.in) ||
                2 * (x.halo_tile_bytes + dy.halo_tile_bytes) >
                    talc_gemm_max_shared(gemm_gpu_of(gpu)) ||
                x.k_tiles > 65535 || dy.k_tiles > 65535)
                continue;
            weight_plan w = {
                by_wgmma, way.folded, way.arrangement, channels, by_wgmma ? WARPGROUP_COLUMNS : 18,
                0,        1
            };
            const int columns = layout_of(x, dy, w).of.columns;
            w.nb = by_wgmma ? columns : columns <= 6 ? 6 : columns <= 9 ? 9 : 18;
            const int64_t a_tile = layout_of(x, dy, w).x_tiles * x.halo_tile_bytes +
                                   layout_of(x, dy, w).dy_tiles * dy.halo_tile_bytes + 64;
            const int64_t capacity =
                limit < 2 * (size_t)ROUND_BYTES ? (int64_t)(limit / 2) : ROUND_BYTES;
            const int64_t max_round = capacity / a_tile;
            w.round = (int)talc_between(max_round, 1, x.pixel_tiles);
            /* Rounds of equal size. */
            w.round = (int)talc_ceil_div(x.pixel_tiles, talc_ceil_div(x.pixel_tiles, w.round));
            const int64_t blocks = layout_of(x, dy, w).blocks;
            for (int waves = 1; waves <= 4; waves++) {
                const int64_t splits = gpu.multiprocessors * waves / blocks;
                w.splits = (int)(splits < 1 ? 1 : splits < w.round ? splits : w.round);
                while (w.splits > 1 && bytes_of(layout_of(x, dy, w)) > limit)
                    w.splits--;
                const weight_layout l = layout_of(x, dy, w);
                if (bytes_of(l) > limit || l.blocks > INT_MAX)
                    break;
                const double seconds = seconds_of(gpu, x, dy, w, l, Form::PRODUCTS);
                if (seconds < plan->seconds) {
                    plan->seconds = seconds;
                    plan->workspace = bytes_of(l);
                    best = w;
                }
            }
        }
    if (plan->seconds == INFINITY)
        return "it is empty, or its patches do not fit shared memory or the workspace";
    talc_plan_store(plan, &best, sizeof best);
    return NULL;
}

template <int PRODUCTS, int NB>
static cudaError_t multiply_launch(const weight_problem &p, dim3 grid, int64_t max_shared,
                                   int shared, cudaStream_t stream)
{
    const auto kernel = &multiply_packed<PRODUCTS, NB>;
    const cudaError_t error = allow_shared(kernel, max_shared);
    if (error == cudaSuccess)
        kernel<<<grid, THREADS, shared, stream>>>(p);
    return error;
}

/* What all rounds share. `at` is the workspace. */
static weight_problem weight_problem_of(const gemm_problem &x, const gemm_problem &dy,
                                        const weight_plan &w, const weight_layout &l, char *at)
{
    weight_problem m = {};
    (talc_weight_layout &)m = l.of;
    m.x = at, m.dy = at + l.x;
    at += l.x + l.dy;
    m.x_infos = (packed_tile_info *)at, m.dy_infos = m.x_infos + w.round * l.x_tiles;
    at += l.infos;
    m.limits = (weight_limit *)at, m.split_sums = (float *)(at + l.limits);
    m.x_bytes = x.halo_tile_bytes, m.dy_bytes = dy.halo_tile_bytes;
    m.planes = x.channels / PLANE, m.plane = x.phases * x.positions;
    m.low = m.planes * m.plane * 16;
    for (int s = 0; s < TILE / STEP; s++)
        m.steps[s] = s * (x.flat ? STEP : x.pitch);
    for (int tap = 0; tap < x.taps; tap++)
        m.shifts[tap] = x.shifts[tap * (x.channels / STEP)];
    return m;
}

static weight_sums weight_sums_of(const weight_problem &m, int64_t blocks, int multiprocessors)
{
    weight_sums s = {};
    (talc_weight_layout &)s = m;
    s.split_sums = m.split_sums, s.limits = m.limits;
    s.block_sums = talc_weight_block_sums(&m);
    while (1 << s.ways_shift < WARPS && 8 << s.ways_shift <= m.splits)
        s.ways_shift++;
    s.block_planes = 1;
    while (m.planes % (2 * s.block_planes) == 0 && 2 * s.block_planes << s.ways_shift <= WARPS)
        s.block_planes *= 2;
    /* All taps of a channel, unless blocks are few. */
    int64_t parts = talc_ceil_div(m.group_taps, ADDED_TAPS);
    while (blocks * TALC_WEIGHT_QUADS * (m.planes / s.block_planes) * parts <
               BLOCKS_THAT_ADD * multiprocessors &&
           parts < m.group_taps)
        parts++;
    s.block_taps = (int)talc_ceil_div(m.group_taps, parts);
    s.by_block_taps = talc_divisor_of(s.block_taps);
    s.by_run = talc_divisor_of(s.block_planes * PLANE * s.block_taps);
    return s;
}

template <typename Form>
static talc_status run(talc_device *device, const talc_conv2d_problem *p, const talc_plan *plan,
                       const talc_conv2d_arguments *a)
{
    const talc_cuda_state &gpu = *talc_cuda_state_of(device);
    const weight_plan &w = *(const weight_plan *)talc_plan_data(plan);
    gemm_problem x = {}, dy = {};
    (void)packing_problems<Form>(p, gpu, w.folded, w.arrangement, w.channels, x, dy);
    x.recomputed = talc_cuda_recomputed(device);
    const double products = (double)fewest_products(p);
    if (Form::PRODUCTS == 3)
        x.tiny = dy.tiny = min_of_sum(products);
    x.x = (const float *)a->x, dy.x = (const float *)a->dy;
    const weight_layout l = layout_of(x, dy, w);
    char *at = (char *)a->base.workspace;
    weight_problem m = weight_problem_of(x, dy, w, l, at);
    const cudaStream_t stream = talc_cuda_stream(device);
    const auto pack = &pack_tiles<Form>;
    const int64_t max_shared = talc_gemm_max_shared(gemm_gpu_of(gpu));
    const int shared = 2 * (m.x_bytes + m.dy_bytes);
    auto of = [](const packed_tile_info *infos) { return const_cast<packed_tile_info *>(infos); };
    cudaError_t error = cudaSuccess;
    for (int first = 0; first < x.pixel_tiles && error == cudaSuccess; first += w.round) {
        m.tiles = x.pixel_tiles - first < w.round ? x.pixel_tiles - first : w.round;
        m.resumes = first > 0;
        const unsigned tiles = (unsigned)m.tiles, groups = (unsigned)x.groups;
        pack<<<dim3(tiles, (unsigned)x.k_tiles, groups), THREADS, 0, stream>>>(
            x, const_cast<char *>(m.x), of(m.x_infos), first);
        pack<<<dim3(tiles, (unsigned)dy.k_tiles, groups), THREADS, 0, stream>>>(
            dy, const_cast<char *>(m.dy), of(m.dy_infos), first);
        const dim3 grid((unsigned)l.blocks, (unsigned)w.splits);
        error =
            w.by_wgmma  ? multiply_by_wgmma(Form::PRODUCTS, m, grid, max_shared, stream)
            : w.nb == 6 ? multiply_launch<Form::PRODUCTS, 6>(m, grid, max_shared, shared, stream)
            : w.nb == 9 ? multiply_launch<Form::PRODUCTS, 9>(m, grid, max_shared, shared, stream)
                        : multiply_launch<Form::PRODUCTS, 18>(m, grid, max_shared, shared, stream);
    }
    if (error != cudaSuccess)
        return talc_cuda_not_launched(device, "conv2d.grad_weight", error);
    weight_sums s = weight_sums_of(m, l.blocks, gpu.multiprocessors);
    s.x = x.x, s.dy = dy.x, s.dw = (float *)a->dw;
    s.coefficient = Form::PRODUCTS == 3 ? (float)(0x1p17 / products) : 8;
    const int adders = s.block_planes << s.ways_shift, planes = m.planes / s.block_planes;
    const bool taps = s.group_taps > 1;
    const int units = !taps ? ADDED_QUADS : s.block_taps <= FEW_TAPS ? FEW_TAPS : ADDED_TAPS;
    const auto add = !taps               ? &add_weight_splits<false, ADDED_QUADS>
                     : units == FEW_TAPS ? &add_weight_splits<true, FEW_TAPS>
                                         : &add_weight_splits<true, ADDED_TAPS>;
    const dim3 of_channels((unsigned)l.blocks,
                           (unsigned)(planes * TALC_WEIGHT_QUADS / (taps ? 1 : ADDED_QUADS)),
                           (unsigned)talc_ceil_div(s.group_taps, s.block_taps));
    const int floats = adders_floats(units, s.block_planes, s.ways_shift);
    add<<<of_channels, adders * WARP, floats * sizeof(float), stream>>>(x, s);
    return talc_cuda_launched(device, "conv2d.grad_weight");
}

const char *talc_cuda_conv2d_weight_plan(int products, const talc_device *device,
                                         const talc_conv2d_problem *p, size_t limit,
                                         talc_plan *plan)
{
    const bool by_wgmma = products > TALC_BY_WGMMA;
    return products == 0       ? "it has no weight gradient"
           : products % 4 == 3 ? plan_of<packing_form<3>>(by_wgmma, device, p, limit, plan)
                               : plan_of<packing_form<1>>(by_wgmma, device, p, limit, plan);
}

talc_status talc_cuda_conv2d_weight_run(int products, talc_device *device,
                                        const talc_conv2d_problem *p, const talc_plan *plan,
                                        const talc_conv2d_arguments *a)
{
    return products % 4 == 3 ? run<packing_form<3>>(device, p, plan, a)
                             : run<packing_form<1>>(device, p, plan, a);
}
