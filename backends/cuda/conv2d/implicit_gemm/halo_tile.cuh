/// The halo tiles of implicit_gemm: the parts of x under the output tiles, as f16 in shared memory.
/// Warps that do nothing else load them. Private to backends/cuda.
#ifndef TALC_BACKENDS_CUDA_CONV2D_IMPLICIT_GEMM_HALO_TILE_CUH
#define TALC_BACKENDS_CUDA_CONV2D_IMPLICIT_GEMM_HALO_TILE_CUH

#include "backends/cuda/conv2d/implicit_gemm/problem.cuh"
#include "backends/cuda/gemm/pipeline.cuh"

namespace talc
{

/// What sums have to know of a halo tile.
struct alignas(16) halo_tile_info {
    int exponent;        ///< of its scale
    unsigned underflows; ///< elements that underflow when scaled
};

/// The exponent of no scale.
constexpr int NO_SCALE = 1 << 20;

/// What is read outside of the image.
static __device__ float outside = 0;

/// What a thread loads at a time: STEP channels of a position.
struct halo_item {
    const float *from;
    int64_t step; ///< bytes from one channel to the next
    int position, channel;
    int h, w; ///< its pixel at the first phase, where the problem is folded
    bool inside;
};

/// The element of an item in a folded channel.
static __device__ __forceinline__ float folded_element(const gemm_problem &p, const halo_item &item,
                                                       int channel)
{
    if (channel >= p.in)
        return 0;
    const folded_channel f = p.fold[channel];
    int h = item.h + f.h, w = item.w + f.w;
    if (p.mode != TALC_PADDING_ZEROS) {
        h = (int)talc_window_source(p.mode, h, p.H);
        w = (int)talc_window_source(p.mode, w, p.W);
    }
    const bool inside = (unsigned)h < (unsigned)p.H && (unsigned)w < (unsigned)p.W && item.inside;
    return inside ? __ldg(item.from + (f.plane + h * p.W + w)) : 0;
}

/// CAREFUL writes infinities as NaN and leaves them out of the maximum, and lets channels end
/// within the K tile. PLAIN does not. FOLDED is CAREFUL, and a channel is a channel of x at a phase
/// of the stride.
enum load_kind { PLAIN, CAREFUL, FOLDED };

/// Sets the address of an item: that of its position in the first channel of the K tile.
template <load_kind KIND>
static __device__ __forceinline__ void find_item(const gemm_problem &p, const talc_gemm_tile &a,
                                                 int k_tile, halo_item &item)
{
    const int64_t plane = (int64_t)p.H * p.W;
    const float *x =
        p.x +
        ((int64_t)a.g * p.group_in + (KIND == FOLDED ? 0 : (int64_t)k_tile * p.channels)) * plane;
    int phase = 0, at = item.position;
    if (p.phases > 1) {
        phase = (int)talc_quotient(p.by_positions, (uint32_t)at);
        at -= phase * p.positions;
    }
    const talc_gemm_pixel pixel = talc_gemm_pixel_of(&p, &a, at);
    int h = pixel.row * p.stride_h - p.top, w = pixel.column * p.stride_w - p.left;
    if (p.phases > 1) {
        const int phase_h = phase / p.phases_w;
        h += phase_h * p.phase_h_step;
        w += (phase - phase_h * p.phases_w) * p.phase_w_step;
    }
    bool inside = item.position < p.phases * p.positions && pixel.n < p.N;
    if (KIND == FOLDED) {
        item.h = h, item.w = w;
        item.from = x + pixel.n * (int64_t)p.C * plane;
        item.inside = inside;
        return;
    }
    if (p.mode != TALC_PADDING_ZEROS) {
        h = (int)talc_window_source(p.mode, h, p.H);
        w = (int)talc_window_source(p.mode, w, p.W);
    }
    inside = inside && (unsigned)h < (unsigned)p.H && (unsigned)w < (unsigned)p.W;
    item.from = inside ? x + (pixel.n * (int64_t)p.C * plane + h * p.W + w) : &outside;
    item.step = inside ? plane * 4 : 0;
}

/// The exponent of a scale for a halo tile, from a sample: the first channels of some positions. It
/// has room for a maximum of twice theirs. All threads of a block call it.
template <load_kind KIND>
static __device__ int sampled_exponent(const gemm_problem &p, const talc_gemm_tile &a, int k_tile)
{
    __shared__ unsigned max_bits;
    if (threadIdx.x == 0)
        max_bits = 0;
    halo_item item = {};
    item.position = (int)threadIdx.x;
    find_item<KIND>(p, a, k_tile, item);
    const int first = k_tile * p.channels, channels = min(STEP, p.in - first);
    unsigned largest = 0;
#pragma unroll 4
    for (int i = 0; i < channels; i++) {
        const float v = KIND == FOLDED
                            ? folded_element(p, item, first + i)
                            : __ldg((const float *)((const char *)item.from + i * item.step));
        const unsigned bits = __float_as_uint(v) & 0x7fffffff;
        largest = max(largest, bits < 0x7f800000 ? bits : 0);
    }
    largest = __reduce_max_sync(~0u, largest);
    __syncthreads();
    if (threadIdx.x % WARP == 0)
        atomicMax(&max_bits, largest);
    __syncthreads();
    int e = 0;
    if (max_bits != 0)
        frexpf(__uint_as_float(max_bits), &e), e = min(TOP - 1 - e, 127);
    return e;
}

/// The bit, out of 64, of a channel of a K tile. Of each 32 channels the even ones come first, then
/// the odd ones. So one comparison of a register with two halves sets both bits.
static __device__ __forceinline__ int pair_bit(int channel)
{
    return channel % 2 * 16 + channel % 32 / 2 + channel / 32 * 32;
}

/// Statistics of the elements of a halo tile.
struct halo_stats {
    float largest;       ///< magnitude, before scaling
    unsigned underflows; ///< count, after scaling
};

/// Channels as a mask of pair_bit: those with an element other than zero, and those with one that
/// underflows.
struct channel_bits {
    uint64_t nonzero, underflow;
};

/// Scales the elements of an item and writes them as f16, 16 bytes a channel group. IS_CAREFUL
/// writes infinities as NaN. With NONZERO, the result has the pair_bit of each channel that is not
/// zero, and 8 bits above it that of each that underflows: whose tininess() is below `least`.
template <typename Form, bool IS_CAREFUL, bool NONZERO = false>
static __device__ __forceinline__ unsigned store_halves(float (&v)[STEP], float scale,
                                                        unsigned least, char *to,
                                                        unsigned plane_bytes, unsigned low,
                                                        halo_stats &stats)
{
    unsigned smallest = ~0u, bits = 0;
#pragma unroll
    for (int i = 0; i < STEP; i++) {
        if (IS_CAREFUL && isinf(v[i]))
            v[i] = __int_as_float(0x7fffffff);
        stats.largest = fmaxf(stats.largest, fabsf(v[i]));
        smallest = min(smallest, tininess(v[i]));
    }
    if (smallest < least)
#pragma unroll
        for (int i = 0; i < STEP; i++)
            if (tininess(v[i]) < least)
                stats.underflows++, bits |= 0x101u << pair_bit(i);
#pragma unroll
    for (int i = 0; i < STEP; i++)
        v[i] *= scale;
#pragma unroll
    for (int k = 0; k < STEP; k += PLANE, to += plane_bytes) {
        uint4 high, rest;
        split_eight(v + k, high, rest);
        *(uint4 *)to = high;
        if (NONZERO) {
            const unsigned pairs[] = { high.x, high.y, high.z, high.w };
#pragma unroll
            for (int i = 0; i < PLANE; i += 2)
                bits |= __hneu2_mask(*(const __half2 *)&pairs[i / 2], __half2{}) &
                        0x10001u << pair_bit(k + i);
        }
        if (Form::PRODUCTS == 3)
            *(uint4 *)(to + low) = rest;
    }
    return bits;
}

/// Writes a K tile of a halo tile as scaled f16. `found`, unless NULL, gets the masks of
/// what the thread wrote.
template <typename Form, load_kind KIND>
static __device__ __forceinline__ halo_stats load_halo_tile(const gemm_problem &p,
                                                            const talc_gemm_tile &a, int k_tile,
                                                            char *halo_tile, float scale,
                                                            channel_bits *found = nullptr)
{
    const int count = p.phases * p.positions, channels = p.in - k_tile * p.channels;
    const unsigned plane_bytes = (unsigned)count * 16,
                   low = (unsigned)(p.channels / PLANE) * plane_bytes,
                   least = tininess_before(scale, p.tiny);
    halo_stats stats = {};
    channel_bits all = {};
    /* Loads an item and advances its address by as many channels. */
    auto load = [&](float(&v)[STEP], halo_item &item) {
#pragma unroll
        for (int i = 0; i < STEP; i++) {
            if (KIND == FOLDED) {
                v[i] = folded_element(p, item, k_tile * p.channels + item.channel + i);
                continue;
            }
            v[i] = KIND == PLAIN || item.channel + i < channels ? __ldg(item.from) : 0;
            /* Without this the compiler multiplies for each address. */
            asm volatile("add.s64 %0, %0, %1;" : "+l"(item.from) : "l"(item.step));
        }
    };
    auto advance = [&](halo_item &item) {
        item.channel += STEP;
        if (item.channel >= p.channels) {
            item.channel = 0;
            item.position += Form::LOADERS;
            find_item<KIND>(p, a, k_tile, item);
        }
    };
    auto store = [&](float(&v)[STEP], const halo_item &item) {
        char *to = halo_tile + item.position * 16 + (unsigned)item.channel / PLANE * plane_bytes;
        if (found == nullptr) {
            store_halves<Form, KIND != PLAIN>(v, scale, least, to, plane_bytes, low, stats);
            return;
        }
        const unsigned bits =
            store_halves<Form, KIND != PLAIN, true>(v, scale, least, to, plane_bytes, low, stats);
        const int shift = item.channel % 32 / 2 + item.channel / 32 * 32;
        all.nonzero |= (uint64_t)(bits & 0xff00ff) << shift;
        all.underflow |= (uint64_t)(bits >> 8 & 0xff00ff) << shift;
    };
    halo_item item = {};
    item.position = (int)threadIdx.x - Form::FIRST_LOADER;
    find_item<KIND>(p, a, k_tile, item);
#pragma unroll 1
    while (item.position < count) {
        float v[STEP];
        load(v, item);
        store(v, item);
        advance(item);
    }
    if (found != nullptr)
        *found = all;
    return stats;
}

/// Writes a halo tile by write(scale, careful), which returns a thread's halo_stats, until the
/// scale fits. Then the largest magnitude is below 2^(TOP + 1) and at least 2^(TOP - RANGE), unless
/// the scale is the greatest. The first try takes the exponent of the halo tile before. All threads
/// that load call it.
template <typename Form, int RANGE, typename Write>
static __device__ __forceinline__ halo_tile_info write_scaled(unsigned (&measured)[2], int exponent,
                                                              bool careful, Write write)
{
    const int thread = (int)threadIdx.x - Form::FIRST_LOADER;
    for (;;) {
        if (thread == 0)
            measured[0] = measured[1] = 0;
        const halo_stats stats = write(power_of_two(exponent), careful);
        const unsigned max_bits = __reduce_max_sync(~0u, __float_as_uint(stats.largest)),
                       underflows = __reduce_add_sync(~0u, stats.underflows);
        barrier_sync<1, Form::LOADERS>();
        if (thread % WARP == 0) {
            atomicMax(&measured[0], max_bits);
            atomicAdd(&measured[1], underflows);
        }
        barrier_sync<1, Form::LOADERS>();
        const float largest = __uint_as_float(measured[0]);
        int e;
        frexpf(largest, &e);
        if (largest == 0 || (!isinf(largest) && e + exponent <= TOP + 1 &&
                             (e + exponent > TOP - RANGE || exponent == 127)))
            return { exponent, measured[1] };
        if (isinf(largest))
            careful = true;
        else
            exponent = min(TOP - e, 127);
        barrier_sync<1, Form::LOADERS>();
    }
}

/// Bytes of a packed halo tile, with what sums have to know of it.
static __device__ __forceinline__ int copied_bytes(const gemm_problem &p)
{
    return p.halo_tile_bytes + (int)sizeof(halo_tile_info);
}

/// What the threads that load do in a block: they write the halo tiles of one tile after the other.
template <typename Form>
static __device__ __forceinline__ void load_halo_tiles(const gemm_problem &p, char *halo_tiles,
                                                       halo_tile_info *infos,
                                                       unsigned (*measured)[2], stage_barriers ring)
{
    pipeline_state at = first_to_fill();
    int exponent = 0;
    for (int t = first_tile(p); t < p.tiles; t = next_tile(p, t)) {
        talc_gemm_tile a = tile_of<Form>(p, t);
        const int row = a.row;
        for (int k_tile = a.k_tile; k_tile < a.k_tile + a.k_tiles; k_tile++) {
            const talc_gemm_k_tile k = talc_gemm_k_tile_of(&p, k_tile);
            a.row = row + talc_gemm_rows_before(&p, k.band);
            ring.wait_empty(at);
            char *halo_tile = halo_tiles + at.stage * p.halo_tile_bytes;
            const halo_tile_info info = write_scaled<Form, 3>(
                measured[at.stage], exponent, (k.of_band + 1) * p.channels > p.in,
                [&](float scale, bool careful) {
                    return p.folded
                               ? load_halo_tile<Form, FOLDED>(p, a, k.of_band, halo_tile, scale)
                           : careful
                               ? load_halo_tile<Form, CAREFUL>(p, a, k.of_band, halo_tile, scale)
                               : load_halo_tile<Form, PLAIN>(p, a, k.of_band, halo_tile, scale);
                });
            exponent = info.exponent;
            if (threadIdx.x == Form::FIRST_LOADER)
                infos[at.stage] = info;
            Form::publish();
            barrier_arrive(ring.full(at.stage));
            at.advance(p.buffers);
        }
    }
}

} // namespace talc

#endif
