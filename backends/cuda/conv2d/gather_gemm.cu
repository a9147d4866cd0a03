/// Convolution as a matrix product by Hopper's tensor cores in TF32. The first operand is gathered
/// from x. For each group, with x' = x with zeros around it,
///
///     y[position, oc] = act( b[oc] + r[position, oc]
///                            + sum over taps and ic of x'[position + tap, ic] * w[oc, ic, tap] )
///
/// TF32 has the exponents of f32, so neither operand is scaled. wgmma takes its first operand from
/// registers. So the planes of an image, [channels, positions], need no copy that transposes them.
///
/// Who computes what: a block has 128 or 256 positions of all images and 32 to 128 output channels.
/// Its two warpgroups divide either the positions or the channels. cp.async brings x to a ring in
/// shared memory, by K tiles: 32 channels of a tap. A thread reads four positions of every fourth
/// channel, rounds them, and has rows of the first operand. Those rows may be any positions. The
/// second operand is the weights, which are rounded and packed beforehand. Bulk copies bring them
/// to the ring. cp.async would not do here: wgmma sees what it has written only after a fence, and
/// waiting for that means waiting for the copies of later K tiles as well. Where tiles are few, the
/// blocks of a cluster share the K tiles of a tile. Then each block adds up the sums of some of the
/// channels, from the shared memory of all blocks, in their order.
///
/// Arithmetic: STRICT splits both operands into high and low parts of 11 bits and adds up high *
/// high, high * low and low * high. Tensor cores truncate, so it adds their sums to f32 registers
/// every 32 products. TF32 takes the high parts alone. A sum is recomputed by FFMA where elements
/// at the ends of the range of f32 may have corrupted it, or where it is NaN.
#include "backends/cuda/conv2d/form.cuh"
#include "backends/cuda/device/counter.h"
#include "backends/cuda/device/estimate.h"
#include "backends/cuda/gemm/costs.h"
#include "backends/cuda/gemm/gemm.h"
#include "backends/cuda/gemm/high_low.cuh"
#include "backends/cuda/gemm/pipeline.cuh"
#include "backends/cuda/gemm/positions.cuh"
#include "backends/cuda/primitives/shared_copy.cuh"

#include <cooperative_groups.h>

using namespace talc;

namespace
{

/// Channels of a K tile; positions of a warpgroup; threads of a block; the multiple that output
/// channels are padded to when they are packed.
constexpr int K_TILE = 32, GROUP = TALC_GATHER_POSITIONS, THREADS = 256, PADDED = 128;
constexpr int64_t MAX_GRID = 65535;
constexpr int MAX_BLOCKS = 8; ///< blocks that a cluster may have on any GPU

/// Elements of smaller magnitude may lose bits, since they or their low parts may be below the
/// normal numbers of f32. An H200 was measured to keep such parts: its sums would be right down to
/// 0x1p-113f and 0x1p-126f.
template <int PARTS> constexpr float MIN_EXACT = PARTS == 2 ? 0x1p-100f : 0x1p-113f;

/// Of an output channel: the power of two that takes its sums back to the scale of the data, and
/// MIN_EXACT times the sum of the magnitudes of its weights. That limit is NaN where no power of
/// two keeps all weights in range.
struct channel_scale {
    float inverse, limit;
};

/// A source that reads x through the window of each output.
template <bool VECTORS_> struct window_source {
    enum : bool { VECTORS = VECTORS_ };
    const float *x;
    int C, H, W, KH, KW, stride_h, stride_w, dilation_h, dilation_w, top, left;
    int64_t plane;
    divisor<uint32_t> by_OW;
    bool only_inside;

    /// The row and the column of the first tap of an output.
    __device__ void find(int pixel, int &h, int &w) const
    {
        const int oh = (int)by_OW.quotient((uint32_t)pixel), ow = pixel - oh * (int)by_OW.by;
        h = oh * stride_h - top, w = ow * stride_w - left;
    }
    __device__ bool is_inside(int h, int w) const
    {
        return (unsigned)h < (unsigned)H && (unsigned)w < (unsigned)W;
    }
    __device__ float sum(const float *weights, int n, int pixel, int channel, int count) const
    {
        const float *from = x + ((int64_t)n * C + channel) * plane;
        int h, w;
        find(pixel, h, w);
        float sum = 0;
        for (int tap = 0; tap < KH * KW; tap++) {
            const int row = h + tap / KW * dilation_h, column = w + tap % KW * dilation_w;
            const bool inside = is_inside(row, column);
            if (inside || !only_inside)
#pragma unroll 8
                for (int c = 0; c < count; c++)
                    sum += weights[c * (KH * KW) + tap] *
                           (inside ? from[c * plane + row * W + column] : 0);
        }
        return sum;
    }
};

template <bool VECTORS> struct gather_problem : positions_problem<window_source<VECTORS>> {
    const char *packed;
    const channel_scale *scales;
    int tap_k_tiles, k_tiles; ///< K tiles of a tap, and of all taps
    int split_k_tiles;        ///< K tiles of a block of a cluster
    int padded;               ///< output channels of a group, padded
};

/// The tile and the ring of a block. WIDTH warpgroups divide the positions. 2 / WIDTH warpgroups
/// divide the output channels, N each.
template <int PARTS, int WIDTH_, int N_> struct tile_shape {
    static constexpr int WIDTH = WIDTH_, N = N_, POSITIONS = WIDTH * GROUP,
                         CHANNELS = 2 / WIDTH * N;
    static constexpr int PITCH = POSITIONS + 8; /* so that 8 threads read from all banks */
    static constexpr int X_BYTES = K_TILE * PITCH * 4, W_BYTES = PARTS * K_TILE * CHANNELS * 4,
                         SLOT = X_BYTES + W_BYTES;
    static constexpr int BLOCKS = PARTS == 2 && N == 64 ? 1 : 2; ///< blocks on a multiprocessor
    static constexpr int CAPACITY = (BLOCKS == 2 ? 112 : 200) * 1024 - 2048;
    static constexpr int SLOTS = CAPACITY / SLOT < 4 ? CAPACITY / SLOT : 4;
    static_assert(SLOTS >= 2, "one is filled while another is read");
    static constexpr int SHARED = SLOTS * SLOT + CHANNELS * (int)sizeof(output_channel);
};

// ---- Weights ------------------------------------------------------------------------------------

/// The range for the exponents of scaled weights.
constexpr int SMALLEST = -90, LARGEST = 100;

/// Packs the weights, one block an output channel, as [group][N output channels][K tile][high or
/// low part][4 channels][N][4]. These are core matrices of 8 output channels by 16 bytes.
template <int PARTS>
static __global__ void __launch_bounds__(BLOCK)
    pack_tf32(const float *w, int group_in, int group_out, int padded, int taps, int tap_k_tiles,
              int N, float *packed, channel_scale *scales)
{
    __shared__ float sums[BLOCK / WARP];
    __shared__ unsigned max_bits, min_tininess;
    const int oc = (int)blockIdx.x % padded, g = (int)blockIdx.x / padded, t = (int)threadIdx.x;
    const int count = oc < group_out ? group_in * taps : 0, k_tiles = taps * tap_k_tiles;
    const float *row = w + ((int64_t)g * group_out + oc) * group_in * taps;
    if (t == 0)
        max_bits = 0, min_tininess = ~0u;
    __syncthreads();
    unsigned own_bits = 0, own_tininess = ~0u;
    for (int i = t; i < count; i += BLOCK) {
        own_bits = max(own_bits, __float_as_uint(row[i]) & 0x7fffffff);
        own_tininess = min(own_tininess, tininess(row[i]));
    }
    own_bits = __reduce_max_sync(~0u, own_bits);
    own_tininess = __reduce_min_sync(~0u, own_tininess);
    if (t % WARP == 0) {
        atomicMax(&max_bits, own_bits);
        atomicMin(&min_tininess, own_tininess);
    }
    __syncthreads();
    const int largest = (int)(max_bits >> 23) - 127, smallest = (int)(min_tininess >> 24) - 127;
    /* Weights are never scaled down: their products might underflow. */
    const int e = max(0, SMALLEST - smallest);
    const bool far = min_tininess != ~0u && largest + e > LARGEST;
    const float scale = power_of_two(e);
    float sum = 0;
    for (int i = t; i < k_tiles * K_TILE; i += BLOCK) {
        const int k_tile = i / K_TILE, tap = k_tile / tap_k_tiles, k = i % K_TILE,
                  c = (k_tile - tap * tap_k_tiles) * K_TILE + k;
        const float v = oc < group_out && c < group_in ? row[c * taps + tap] * scale : 0,
                    high = tf32(v);
        sum += fabsf(v);
        const int64_t its = ((int64_t)g * padded + oc) / N * k_tiles + k_tile;
        float *to = packed + (its * PARTS * (K_TILE / 4) + k / 4) * N * 4 + oc % N * 4 + k % 4;
        *to = high;
        if (PARTS == 2)
            to[K_TILE * N] = tf32(v - high);
    }
    sum = sum_of_warp(sum);
    if (t % WARP == 0)
        sums[t / WARP] = sum;
    __syncthreads();
    if (t == 0) {
        for (int i = 1; i < BLOCK / WARP; i++)
            sum += sums[i];
        scales[blockIdx.x] = { power_of_two(-e), far ? NAN : sum * MIN_EXACT<PARTS> };
    }
}

// ---- Products -----------------------------------------------------------------------------------

/// Copies K tiles of x and of the weights to the ring. Of x a thread copies the same positions of
/// each, WIDE at a time.
template <int PARTS, typename TILE, int WIDE> struct k_tile_copies {
    static constexpr int ACROSS = TILE::POSITIONS / WIDE, ROWS = THREADS / ACROSS;
    static constexpr int GROUPS = TILE::CHANNELS / TILE::N, BYTES = TILE::W_BYTES / GROUPS;
    static constexpr bool TAPS = WIDE == 1; ///< a vector has the positions of a 1x1 kernel alone
    const char *from;                       ///< in x: the thread's first row of the next K tile
    const char *weights;                    ///< the weights of the next K tile
    /// bytes from one row of the thread to the next; bytes from the weights of N channels to the
    /// next N
    int64_t step, apart;
    /// channels that are left, from the thread's first row on; K tiles that are left
    int left, k_tiles;
    int to; ///< offset in a slot
    bool inside, leads;
    const char *first; ///< the thread's first row in the image
    /// of the tap: its row and column in x, its index in its kernel row, its K tiles left
    int h, w, tap_w, tap_left;

    template <typename Problem>
    __device__ k_tile_copies(const Problem &p, int g, int first_position, int first_channel,
                             int first_k_tile)
    {
        const int t = (int)threadIdx.x, position = first_position + t % ACROSS * WIDE,
                  row = t / ACROSS;
        inside = position < p.positions;
        leads = t == 0;
        const int at = inside ? position : 0, n = (int)p.by_plane.quotient((uint32_t)at);
        p.source.find(at - n * p.plane, h, w);
        step = ROWS * p.source.plane * 4;
        to = (row * TILE::PITCH + t % ACROSS * WIDE) * 4;
        apart = (int64_t)p.k_tiles * BYTES;
        weights = p.packed + ((int64_t)g * p.padded + first_channel) / TILE::N * apart +
                  (int64_t)first_k_tile * BYTES;
        k_tiles = min(p.split_k_tiles, p.k_tiles - first_k_tile);
        first = (const char *)(p.source.x +
                               ((int64_t)n * p.source.C + g * p.group_in + row) * p.source.plane);
        /* So all taps are outside. */
        if (!inside)
            h = -1 - (p.source.KH - 1) * p.source.dilation_h;
        const int tap = first_k_tile / p.tap_k_tiles, skipped = first_k_tile - tap * p.tap_k_tiles;
        if (TAPS) {
            h += tap / p.source.KW * p.source.dilation_h;
            tap_w = tap % p.source.KW, w += tap_w * p.source.dilation_w;
        }
        begin_tap(p);
        from += skipped * (K_TILE / ROWS) * step;
        left -= skipped * K_TILE, tap_left -= skipped;
    }
    template <typename Problem> __device__ __forceinline__ void begin_tap(const Problem &p)
    {
        inside = p.source.is_inside(h, w);
        from = first + ((int64_t)h * p.source.W + w) * 4;
        left = p.group_in - (int)threadIdx.x / ACROSS;
        tap_left = p.tap_k_tiles;
    }
    /// Starts to copy the next K tile, if there is one, and closes the group of copies. The barrier
    /// `full` counts the bytes of the weights.
    template <typename Problem>
    __device__ __forceinline__ void copy(const Problem &p, uint32_t slot, uint32_t full)
    {
        if (--k_tiles >= 0) {
            if (leads) {
                barrier_arrive_for(full, TILE::W_BYTES);
#pragma unroll
                for (int i = 0; i < GROUPS; i++)
                    bulk_copy(slot + TILE::X_BYTES + i * BYTES, weights + i * apart, BYTES, full);
            }
            weights += BYTES;
            uint32_t at = slot + to;
#pragma unroll
            for (int i = 0; i < K_TILE; i += ROWS, at += ROWS * TILE::PITCH * 4) {
                begin_copy<WIDE * 4>(at, from, inside && i < left ? WIDE * 4 : 0);
                from += step;
            }
            left -= K_TILE;
            if (TAPS && --tap_left == 0) {
                w += p.source.dilation_w;
                if (++tap_w == p.source.KW) {
                    tap_w = 0, w -= p.source.KW * p.source.dilation_w;
                    h += p.source.dilation_h;
                }
                begin_tap(p);
            }
        }
        __pipeline_commit();
    }
};

/// A thread's elements of eight channels: those of channels lane % 4 and lane % 4 + 4 at four
/// positions.
template <int PITCH, bool VECTORS> struct eight_channels {
    float v[2][FOUR];
    __device__ __forceinline__ void read(const float *from)
    {
#pragma unroll
        for (int half = 0; half < 2; half++, from += 4 * PITCH)
            if (VECTORS)
                *(float4 *)v[half] = *(const float4 *)from;
            else
#pragma unroll
                for (int q = 0; q < FOUR; q++)
                    v[half][q] = from[8 * q];
    }
};

template <int PARTS> struct operand_rows {
    uint4 high[2], low[PARTS == 2 ? 2 : 1];

    __device__ __forceinline__ void set(const float (&v)[2][FOUR], unsigned (&min_tininess)[FOUR])
    {
        uint32_t h[2][FOUR], l[2][FOUR];
#pragma unroll
        for (int half = 0; half < 2; half++)
#pragma unroll
            for (int q = 0; q < FOUR; q++)
                split_tf32<PARTS>(v[half][q], h[half][q], l[half][q]);
#pragma unroll
        for (int q = 0; q < FOUR; q++)
            min_tininess[q] = __vimin3_u32(min_tininess[q], tininess(v[0][q]), tininess(v[1][q]));
#pragma unroll
        for (int m = 0; m < 2; m++) {
            high[m] = make_uint4(h[0][2 * m], h[0][2 * m + 1], h[1][2 * m], h[1][2 * m + 1]);
            if (PARTS == 2)
                low[m] = make_uint4(l[0][2 * m], l[0][2 * m + 1], l[1][2 * m], l[1][2 * m + 1]);
        }
    }
};

template <int PARTS, int WIDTH, int N, bool X_VECTORS, bool VECTORS>
static __global__ void __launch_bounds__(THREADS, (tile_shape<PARTS, WIDTH, N>::BLOCKS))
    gather_gemm(const __grid_constant__ gather_problem<VECTORS> p)
{
    using tile = tile_shape<PARTS, WIDTH, N>;
    extern __shared__ __align__(128) char shared[];
    __shared__ unsigned max_limit_bits;
    __shared__ __align__(8) uint64_t barriers[tile::SLOTS];
    const uint32_t full = shared_address(barriers);
    output_channel *outputs = (output_channel *)(shared + tile::SLOTS * tile::SLOT);
    const talc_pointwise_channels own =
        talc_pointwise_channels_of(p.group_out, tile::CHANNELS, p.ranges, (int)blockIdx.y);
    const int g = own.g, first = own.first, channels = own.count;
    const int first_position = (int)blockIdx.x * tile::POSITIONS;
    const int t = (int)threadIdx.x, lane = t % WARP;
    /* The shuffle tells the compiler that it is uniform. */
    const int group = __shfl_sync(~0u, t / GROUP, 0);
    if (t == 0) {
        for (int i = 0; i < tile::SLOTS; i++)
            barrier_init(full + 8 * i, 1);
        fence_barrier_init();
        max_limit_bits = 0;
    }
    const uint32_t ring = shared_address(shared);
    k_tile_copies<PARTS, tile, X_VECTORS ? FOUR : 1> copies(p, g, first_position, first,
                                                            (int)blockIdx.z * p.split_k_tiles);
    __syncthreads();
#pragma unroll 1
    for (int i = 0; i < tile::SLOTS - 1; i++)
        copies.copy(p, ring + i * tile::SLOT, full + 8 * i);
    for (int i = t; i < tile::CHANNELS; i += THREADS) {
        const int oc = g * p.group_out + first + i;
        const channel_scale n = p.scales[g * p.padded + first + i];
        outputs[i] = { n.inverse, i < channels && p.last.bias != nullptr ? p.last.bias[oc] : 0,
                       isnan(n.limit) ? NAN : 0, 0 };
        atomicMax(&max_limit_bits, __float_as_uint(n.limit)); /* NaN counts as the largest */
    }
    const talc_gather_place place = talc_gather_place_of(WIDTH, N, VECTORS, group, t);
    const int at = place.position, channel = place.channel;
    const int first_element = lane % 4 * tile::PITCH + at;
    float sums[2][N / 2] = {};
    unsigned min_tininess[FOUR] = { ~0u, ~0u, ~0u, ~0u };
    pipeline_state here = first_to_empty();
#pragma unroll 1
    for (int left = min(p.split_k_tiles, p.k_tiles - (int)blockIdx.z * p.split_k_tiles); left > 0;
         left--) {
        __pipeline_wait_prior(tile::SLOTS - 2);
        __syncthreads();
        const float *from = (const float *)(shared + here.stage * tile::SLOT) + first_element;
        const shared_matrix w = shared_matrix_of(
            ring + here.stage * tile::SLOT + tile::X_BYTES + channel * (PARTS * K_TILE * 4), N, 8);
        eight_channels<tile::PITCH, VECTORS> x[2];
        operand_rows<PARTS> a[2];
        x[0].read(from);
        const int before = here.stage == 0 ? tile::SLOTS - 1 : here.stage - 1;
        copies.copy(p, ring + before * tile::SLOT, full + 8 * before);
        barrier_wait(full + 8 * here.stage, here.parity);
        here.advance(tile::SLOTS);
        float partial[2][PARTS == 2 ? N / 2 : 1];
#pragma unroll
        for (int s = 0; s < K_TILE / 8; s++) {
            if (s + 1 < K_TILE / 8)
                x[(s + 1) % 2].read(from + (s + 1) * 8 * tile::PITCH);
            a[s % 2].set(x[s % 2].v, min_tininess);
            const shared_matrix high = { w.at + s * 2 * N, w.stride },
                                low = { high.at + K_TILE / 4 * N, w.stride };
            wgmma_fence();
#pragma unroll
            for (int m = 0; m < 2; m++) {
                if constexpr (PARTS == 2) {
                    wgmma_tf32(partial[m], a[s % 2].low[m], high, s > 0);
                    wgmma_tf32(partial[m], a[s % 2].high[m], low, 1);
                    wgmma_tf32(partial[m], a[s % 2].high[m], high, 1);
                } else {
                    wgmma_tf32(sums[m], a[s % 2].high[m], high, 1);
                }
            }
            wgmma_commit();
            if (s > 0 && s < K_TILE / 8 - 1)
                wgmma_wait<1>();
        }
        wgmma_wait<0>();
        if constexpr (PARTS == 2)
#pragma unroll
            for (int m = 0; m < 2; m++)
#pragma unroll
                for (int k = 0; k < N / 2; k++)
                    sums[m][k] += partial[m][k];
    }
    __pipeline_wait_prior(0);
    __syncthreads(); /* the ring is free to hold the sums */
    uint32_t *const mine = (uint32_t *)shared + t;
#pragma unroll
    /* [eight channels][4 of m = 0, 4 of m = 1] */
    for (int k = 0; k < N; k++)
        mine[k * THREADS] = __float_as_uint(sums[k / 4 % 2][k / 8 * 4 + k % 4]);
    /* A bit for each position that has such an element. */
    unsigned underflows = 0;
#pragma unroll
    for (int q = 0; q < FOUR; q++)
        underflows |= min_tininess[q] < tininess(MIN_EXACT<PARTS>) ? 1u << q : 0;
    underflows |= __shfl_xor_sync(~0u, underflows, 1);
    underflows |= __shfl_xor_sync(~0u, underflows, 2);
    mine[N * THREADS] = underflows;
    four_positions<VECTORS> to;
    to.at = first_position + at;
    to.count = p.positions - to.at;
#pragma unroll
    for (int q = 0; q < (VECTORS ? 1 : FOUR); q++) {
        const int position = min(to.at + talc_pointwise_behind(false, q), p.positions - 1);
        const int n = (int)p.by_plane.quotient((uint32_t)position);
        to.y[q] = (int64_t)n * p.OC * p.plane + position - n * p.plane;
    }
    const int blocks = (int)gridDim.z;
    const talc_gather_eights eights = talc_gather_eights_of(N, blocks, (int)blockIdx.z, group);
    const int begin = eights.begin, end = eights.end;
    const int first_channel = g * p.group_out + first;
    float added[2][FOUR] = {};
    if (begin < end)
        load_residual(p, to, first_channel, channel + begin * EIGHT, channels, added);
    cooperative_groups::cluster_group cluster = cooperative_groups::this_cluster();
    if (blocks > 1)
        cluster.sync();
    auto of_block = [&](int i) { return blocks > 1 ? cluster.map_shared_rank(mine, i) : mine; };
    underflows = 0;
#pragma unroll 4
    for (int i = 0; i < blocks; i++)
        underflows |= of_block(i)[N * THREADS];
    const float max_limit = __uint_as_float(max_limit_bits);
    sums_limits limits = {};
#pragma unroll
    for (int q = 0; q < FOUR; q++)
        limits.base[q] = underflows >> q & 1 ? max_limit : 0, limits.factor[q] = 1;
    set_any(limits, isnan(max_limit) ? NAN : 0);
#pragma unroll 1
    for (int j = begin; j < end && channel + j * EIGHT < channels; j++) {
        float eight[2][4] = {}, next[2][FOUR] = {}, finite = 0;
        if (j + 1 < end)
            load_residual(p, to, first_channel, channel + (j + 1) * EIGHT, channels, next);
#pragma unroll 4
        for (int i = 0; i < blocks; i++) {
            const uint32_t *from = of_block(i) + j * EIGHT * THREADS;
#pragma unroll
            for (int k = 0; k < EIGHT; k++)
                eight[k / 4][k % 4] += __uint_as_float(from[k * THREADS]);
        }
#pragma unroll
        for (int k = 0; k < EIGHT; k++)
            finite += eight[k / 4][k % 4] * 0;
        /* NaN where a sum is infinite: a comparison with NaN is false. */
        sums_limits its = limits;
        its.any += finite;
#pragma unroll
        for (int q = 0; q < FOUR; q++)
            its.base[q] += finite;
        store_eight(p, to, first_channel, channel + j * EIGHT, channels, outputs, eight, added,
                    its);
        memcpy(added, next, sizeof added);
    }
    /* No block may end while others read its shared memory. */
    if (blocks > 1)
        asm volatile("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;" ::
                         : "memory");
}

// ---- Plan and launch ----------------------------------------------------------------------------

struct gather_choice {
    int width, n, blocks; ///< blocks of a cluster
};

int64_t padded_of(const talc_conv2d_problem *p)
{
    return talc_ceil_div(p->OC / p->groups, PADDED) * PADDED;
}

int64_t tap_k_tiles_of(const talc_conv2d_problem *p)
{
    return talc_ceil_div(p->C / p->groups, K_TILE);
}

int64_t k_tiles_of(const talc_conv2d_problem *p)
{
    return p->KH * p->KW * tap_k_tiles_of(p);
}

/// Whether four neighbours in x are the elements of four positions. The padding of a phase of an
/// input gradient may be negative.
bool has_vectors(const talc_conv2d_problem *p)
{
    return p->KH * p->KW == 1 && p->stride_h == 1 && p->stride_w == 1 && p->pad_top == 0 &&
           p->pad_left == 0 && p->H == p->OH && p->W == p->OW && p->H * p->W % FOUR == 0;
}

template <int PARTS> size_t packed_bytes(const talc_conv2d_problem *p)
{
    return (size_t)(p->groups * k_tiles_of(p) * padded_of(p)) * K_TILE * PARTS * 4;
}

/* How many times as many sectors 32 positions read as those that follow one another in memory. */
double scatter_of(const talc_conv2d_problem *p)
{
    constexpr int SECTOR = 8;
    const int64_t row = p->stride_h * p->stride_w == 1 ? p->OH * p->OW : p->OW,
                  run = talc_smaller(row, WARP);
    return (double)WARP / (double)run * (double)(SECTOR + (run - 1) * p->stride_w) /
           (SECTOR + WARP - 1);
}

/* Seconds: the longer of memory and the waves of blocks. A K tile takes as long as its products,
 * its bytes from the L2 cache or the wait of a thread, whichever is longest. */
template <int PARTS>
double seconds(const talc_device *device, const talc_conv2d_problem *p, gather_choice c)
{
    const bool vectors = has_vectors(p);
    const double waiting = vectors ? GATHER_WAITING : GATHER_WINDOWS,
                 scatter = vectors ? 1 : scatter_of(p);
    const int products = PARTS == 2 ? 3 : 1, max_resident = PARTS == 2 && c.n == 64 ? 1 : 2;
    const int64_t channels = 2 / c.width * c.n, positions = c.width * GROUP;
    const int64_t tiles = talc_ceil_div(p->N * p->OH * p->OW, positions) * p->groups *
                          talc_ceil_div(p->OC / p->groups, channels) * c.blocks;
    /* With clusters of eight blocks, a few multiprocessors of each GPC stay idle. */
    const int64_t multiprocessors = talc_cuda_state_of(device)->multiprocessors,
                  slots = multiprocessors * max_resident,
                  reached = c.blocks > 4 ? multiprocessors * 7 / 8 : multiprocessors,
                  each = talc_ceil_div(tiles, reached),
                  resident = each < max_resident ? each : max_resident;
    const double multiplying = 8. * c.n * products / GATHER_BUSY,
                 loading = (double)(positions * (vectors ? 1 : GATHER_GATHERS * scatter) +
                                    channels * PARTS) *
                           K_TILE * 4 / GATHER_BYTES,
                 longer = multiplying > loading ? multiplying : loading,
                 rest = vectors ? 0
                                : fmin(1, GATHER_REST * scatter) * (multiplying + loading - longer),
                 busy = (double)resident * (longer + rest),
                 k_tile = busy > waiting ? busy : waiting;
    const double capacity = (double)slots * (c.blocks > 4 ? GATHER_CROWD : 1);
    const double waves = (double)tiles <= capacity ? 1 : (double)tiles / capacity + GATHER_WAVE;
    const double ending = c.blocks > 1 ? GATHER_ENDING / c.blocks + GATHER_ADDING : GATHER_ENDING;
    const double computing =
        waves * ((double)talc_ceil_div(k_tiles_of(p), c.blocks) * k_tile + GATHER_TILE + ending) /
        CLOCK;
    const double moving = talc_conv2d_bytes(p) / GATHER_MEMORY;
    return (computing > moving ? computing : moving) + GATHER_LAUNCHES;
}

template <int PARTS>
const char *plan_of(const talc_device *device, const talc_conv2d_problem *p, size_t,
                    talc_plan *plan)
{
    if (const char *reason =
            talc_gemm_refuses(p->dtype, talc_cuda_state_of(device)->capability, true))
        return reason;
    if (p->padding_mode != TALC_PADDING_ZEROS)
        return "the padding is not zeros";
    if (const char *reason = talc_gemm_refuses_sums(p->C / p->groups))
        return reason;
    if (p->H == 0 || p->W == 0 || talc_conv2d_flops(p) == 0)
        return "it is empty";
    constexpr int64_t MAX_EXTENT = INT_MAX / 64;
    if (p->OC > MAX_EXTENT || p->C > MAX_EXTENT / p->KH / p->KW || p->H > MAX_EXTENT / p->W ||
        p->OH > MAX_EXTENT / p->OW || p->pad_top > MAX_EXTENT || p->pad_left > MAX_EXTENT ||
        p->stride_h > MAX_EXTENT / p->OH || p->stride_w > MAX_EXTENT / p->OW ||
        p->dilation_h > MAX_EXTENT / p->KH || p->dilation_w > MAX_EXTENT / p->KW ||
        p->N > (INT_MAX - 4 * GROUP) / (p->OH * p->OW))
        return "an extent is too large";
    if (p->groups * talc_ceil_div(p->OC / p->groups, 32) > MAX_GRID)
        return "more than 65,535 groups";
    static const gather_choice choices[] = { { 1, 64, 1 }, { 1, 32, 1 }, { 2, 32, 1 } };
    gather_choice best = {};
    for (gather_choice c : choices)
        for (; c.blocks <= MAX_BLOCKS && c.blocks <= 2 * c.n / EIGHT && c.blocks <= k_tiles_of(p);
             c.blocks *= 2) {
            const double its = seconds<PARTS>(device, p, c);
            if (best.n == 0 || its < plan->seconds)
                best = c, plan->seconds = its;
        }
    plan->cached =
        packed_bytes<PARTS>(p) + (size_t)(p->groups * padded_of(p)) * sizeof(channel_scale);
    plan->cached_form = best.n;
    plan->workspace = plan->cached;
    talc_plan_store(plan, &best, sizeof best);
    return NULL;
}

template <int PARTS, int WIDTH, int N, bool X_VECTORS, bool VECTORS>
cudaError_t launch(talc_device *device, const talc_conv2d_problem *p, gather_problem<VECTORS> &g,
                   int blocks)
{
    using tile = tile_shape<PARTS, WIDTH, N>;
    const auto kernel = &gather_gemm<PARTS, WIDTH, N, X_VECTORS, VECTORS>;
    const cudaError_t error = allow_shared(kernel, tile::SHARED);
    if (error != cudaSuccess)
        return error;
    g.ranges = (int)talc_ceil_div(g.group_out, tile::CHANNELS);
    g.split_k_tiles = (int)talc_ceil_div(g.k_tiles, blocks);
    cudaLaunchAttribute cluster = {};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = { 1, 1, (unsigned)blocks };
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)talc_ceil_div(g.positions, tile::POSITIONS),
                          (unsigned)(p->groups * g.ranges), (unsigned)blocks);
    config.blockDim = dim3(THREADS);
    config.dynamicSmemBytes = tile::SHARED;
    config.stream = talc_cuda_stream(device);
    config.attrs = &cluster;
    config.numAttrs = blocks > 1;
    /* A failure is found together with others. */
    (void)cudaLaunchKernelEx(&config, kernel, g);
    return cudaSuccess;
}

template <int PARTS, bool X_VECTORS, bool VECTORS>
talc_status run_of(talc_device *device, const talc_conv2d_problem *p, const talc_plan *plan,
                   const talc_conv2d_arguments *a)
{
    gather_problem<VECTORS> g = {};
    g.plane = (int)(p->OH * p->OW), g.positions = (int)(p->N * p->OH * p->OW);
    g.source = { (const float *)a->x, (int)p->C,
                 (int)p->H,           (int)p->W,
                 (int)p->KH,          (int)p->KW,
                 (int)p->stride_h,    (int)p->stride_w,
                 (int)p->dilation_h,  (int)p->dilation_w,
                 (int)p->pad_top,     (int)p->pad_left,
                 p->H * p->W,         {},
                 p->only_inside };
    g.source.by_OW.set(p->OW);
    g.by_plane.set(g.plane);
    g.w = (const float *)a->w, g.y = (float *)a->y;
    g.recomputed = talc_cuda_recomputed(device);
    g.last = epilogue<float>(a->bias, a->residual, p->activation);
    g.group_in = (int)(p->C / p->groups), g.group_out = (int)(p->OC / p->groups);
    g.OC = (int)p->OC, g.taps = (int)(p->KH * p->KW);
    g.tap_k_tiles = (int)tap_k_tiles_of(p), g.k_tiles = (int)k_tiles_of(p),
    g.padded = (int)padded_of(p);
    char *packed = (char *)(a->base.cached != NULL ? a->base.cached : a->base.workspace);
    channel_scale *scales = (channel_scale *)(packed + packed_bytes<PARTS>(p));
    g.packed = packed, g.scales = scales;
    const gather_choice c = *(const gather_choice *)talc_plan_data(plan);
    if (!a->base.cached_ready)
        pack_tf32<PARTS><<<(unsigned)(p->groups * g.padded), BLOCK, 0, talc_cuda_stream(device)>>>(
            g.w, g.group_in, g.group_out, g.padded, g.taps, g.tap_k_tiles, c.n, (float *)packed,
            scales);
    const cudaError_t error = c.width == 2 ? launch<PARTS, 2, 32, X_VECTORS>(device, p, g, c.blocks)
                              : c.n == 64  ? launch<PARTS, 1, 64, X_VECTORS>(device, p, g, c.blocks)
                                          : launch<PARTS, 1, 32, X_VECTORS>(device, p, g, c.blocks);
    if (error != cudaSuccess)
        return talc_cuda_not_launched(device, "conv2d", error);
    return talc_cuda_launched(device, "conv2d");
}

template <int PARTS>
talc_status run(talc_device *device, const talc_conv2d_problem *p, const talc_plan *plan,
                const talc_conv2d_arguments *a)
{
    const bool vectors = p->OH * p->OW % FOUR == 0 && is_aligned(a->y) && is_aligned(a->residual);
    return !vectors                             ? run_of<PARTS, false, false>(device, p, plan, a)
           : has_vectors(p) && is_aligned(a->x) ? run_of<PARTS, true, true>(device, p, plan, a)
                                                : run_of<PARTS, false, true>(device, p, plan, a);
}

} // namespace

TALC_CUDA_FORM_WITH_PHASES(gather_gemm, 2)
TALC_CUDA_FORM_WITH_PHASES(gather_gemm_tf32, 1)
