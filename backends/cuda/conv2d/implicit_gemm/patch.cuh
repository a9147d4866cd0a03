/// implicit_gemm's patches: parts of x in halves, in shared memory, which warps of their own load. Private to backends/cuda.
#ifndef TALC_BACKENDS_CUDA_CONV2D_IMPLICIT_GEMM_PATCH_CUH
#define TALC_BACKENDS_CUDA_CONV2D_IMPLICIT_GEMM_PATCH_CUH

#include "backends/cuda/conv2d/implicit_gemm/problem.cuh"
#include "backends/cuda/primitives/barriers.cuh"

namespace talc
{

struct patch_note {
    int exponent;
    unsigned tiny;
};

/// What stands outside of the image.
static __device__ float outside = 0;

struct patch_item {
    const float *from;
    int64_t step; ///< bytes from one channel to the next
    int position, channel;
    int h, w; ///< of the first phase, where phases are channels
    bool inside;
};

/// The element of such a channel.
static __device__ __forceinline__ float folded_element(const gemm_problem &p,
                                                       const patch_item &item, int channel)
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

/// PLAIN, or with CAREFUL infinities are written as NaN and do not count, and channels may end inside the chunk. FOLDED is careful,
/// and channels are those of x for each phase of the stride.
enum patch_kind { PLAIN, CAREFUL, FOLDED };

/// Where the elements of an item's position stand, from its chunk's first channel on.
template <patch_kind KIND>
static __device__ __forceinline__ void find_item(const gemm_problem &p, const gemm_tile &a,
                                                 int chunk, patch_item &item)
{
    const int64_t plane = (int64_t)p.H * p.W;
    const float *x =
        p.x +
        ((int64_t)a.g * p.group_in + (KIND == FOLDED ? 0 : (int64_t)chunk * p.channels)) * plane;
    int phase = 0, at = item.position;
    if (p.phases > 1) {
        phase = (int)p.by_positions.quotient((uint32_t)at);
        at -= phase * p.positions;
    }
    const gemm_place place = place_of(p, a, at);
    int h = place.row * p.stride_h - p.top, w = place.column * p.stride_w - p.left;
    if (p.phases > 1) {
        const int phase_h = phase / p.phases_w;
        h += phase_h * p.phase_h_step;
        w += (phase - phase_h * p.phases_w) * p.phase_w_step;
    }
    bool inside = item.position < p.phases * p.positions && place.n < p.N;
    if (KIND == FOLDED) {
        item.h = h, item.w = w;
        item.from = x + place.n * (int64_t)p.C * plane;
        item.inside = inside;
        return;
    }
    if (p.mode != TALC_PADDING_ZEROS) {
        h = (int)talc_window_source(p.mode, h, p.H);
        w = (int)talc_window_source(p.mode, w, p.W);
    }
    inside = inside && (unsigned)h < (unsigned)p.H && (unsigned)w < (unsigned)p.W;
    item.from = inside ? x + (place.n * (int64_t)p.C * plane + h * p.W + w) : &outside;
    item.step = inside ? plane * 4 : 0;
}

/// Among 64 bits, that of a channel of a chunk: of 32 channels each the even ones, then the odd ones, so that the two halves of a register
/// are compared at once.
static __device__ __forceinline__ int pair_bit(int channel)
{
    return channel % 2 * 16 + channel % 32 / 2 + channel / 32 * 32;
}

/// What the elements of a patch are like.
struct patch_measure {
    float largest; ///< magnitude, before scaling
    unsigned tiny; ///< how many are too small after it
};

/// Scales an item and writes it in halves, at 16 bytes a channel group; infinities are written as NaN where it is CAREFUL. Of the channels that are
/// tiny, and with NONZERO of those that are not zero, the result has the pair_bit.
template <typename Form, bool IS_CAREFUL, bool NONZERO = false>
static __device__ __forceinline__ unsigned put_item(const gemm_problem &p, float (&v)[STEP],
                                                    float scale, char *to, unsigned plane_bytes,
                                                    unsigned low, patch_measure &measure)
{
    unsigned smallest = ~0u, bits = 0;
#pragma unroll
    for (int i = 0; i < STEP; i++) {
        if (IS_CAREFUL && isinf(v[i]))
            v[i] = __int_as_float(0x7fffffff);
        measure.largest = fmaxf(measure.largest, fabsf(v[i]));
        v[i] *= scale;
        smallest = min(smallest, tininess(v[i]));
    }
    if (smallest < p.least)
#pragma unroll
        for (int i = 0; i < STEP; i++)
            if (tininess(v[i]) < p.least)
                measure.tiny++, bits |= 1u << pair_bit(i);
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

/// Writes one chunk of a patch in halves, scaled; `nonzero`, unless NULL, has a pair_bit for each channel that the thread found not to be
/// zero.
template <typename Form, patch_kind KIND>
static __device__ __forceinline__ patch_measure load_patch(const gemm_problem &p,
                                                           const gemm_tile &a, int chunk,
                                                           char *patch, float scale,
                                                           uint64_t *nonzero = nullptr)
{
    const int count = p.phases * p.positions, channels = p.in - chunk * p.channels;
    const unsigned plane_bytes = (unsigned)count * 16,
                   low = (unsigned)(p.channels / PLANE) * plane_bytes;
    patch_measure measure = {};
    uint64_t other = 0;
    /* Goes on to the channels after those that are loaded. */
    auto load = [&](float(&v)[STEP], patch_item &item) {
#pragma unroll
        for (int i = 0; i < STEP; i++) {
            if (KIND == FOLDED) {
                v[i] = folded_element(p, item, chunk * p.channels + item.channel + i);
                continue;
            }
            v[i] = KIND == PLAIN || item.channel + i < channels ? __ldg(item.from) : 0;
            /* Or the compiler multiplies for each of the addresses. */
            asm volatile("add.s64 %0, %0, %1;" : "+l"(item.from) : "l"(item.step));
        }
    };
    auto go_on = [&](patch_item &item) {
        item.channel += STEP;
        if (item.channel >= p.channels) {
            item.channel = 0;
            item.position += Form::LOADERS;
            find_item<KIND>(p, a, chunk, item);
        }
    };
    auto store = [&](float(&v)[STEP], const patch_item &item) {
        char *to = patch + item.position * 16 + (unsigned)item.channel / PLANE * plane_bytes;
        const unsigned bits =
            nonzero == nullptr
                ? put_item<Form, KIND != PLAIN>(p, v, scale, to, plane_bytes, low, measure)
                : put_item<Form, KIND != PLAIN, true>(p, v, scale, to, plane_bytes, low, measure);
        if (nonzero != nullptr)
            other |= (uint64_t)bits << item.channel % 32 / 2 << item.channel / 32 * 32;
    };
    patch_item item = {};
    item.position = (int)threadIdx.x - Form::FIRST_LOADER;
    find_item<KIND>(p, a, chunk, item);
#pragma unroll 1
    while (item.position < count) {
        float v[STEP];
        load(v, item);
        store(v, item);
        go_on(item);
    }
    if (nonzero != nullptr)
        *nonzero = other;
    return measure;
}

/// Writes a patch by write(scale, careful), which returns a thread's patch_measure, until the scale serves: the largest magnitude is below
/// 2^(TOP + 1) and, unless the scale is the greatest, at least 2^(TOP - RANGE). Begins with the exponent of the patch before. Called by all
/// loading threads.
template <typename Form, int RANGE, typename Write>
static __device__ __forceinline__ patch_note write_scaled(unsigned (&measured)[2], int exponent,
                                                          bool careful, Write write)
{
    const int thread = (int)threadIdx.x - Form::FIRST_LOADER;
    for (;;) {
        if (thread == 0)
            measured[0] = measured[1] = 0;
        const patch_measure measure = write(power_of_two(exponent), careful);
        const unsigned most = __reduce_max_sync(~0u, __float_as_uint(measure.largest)),
                       tiny = __reduce_add_sync(~0u, measure.tiny);
        barrier_sync<1, Form::LOADERS>();
        if (thread % WARP == 0) {
            atomicMax(&measured[0], most);
            atomicAdd(&measured[1], tiny);
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

template <typename Form>
static __device__ __forceinline__ void load_patches(const gemm_problem &p, char *patches,
                                                    patch_note *notes, unsigned (*measured)[2],
                                                    uint32_t full, uint32_t empty)
{
    int buffer = 0, exponent = 0;
    uint32_t parity = 1;
    for (int t = first_tile(p); t < p.tiles; t = next_tile(p, t)) {
        const gemm_tile a = tile_of(p, t);
        for (int chunk = a.chunk; chunk < a.chunk + a.chunks; chunk++) {
            barrier_wait(empty + 8 * buffer, parity);
            char *patch = patches + buffer * p.patch_bytes;
            const patch_note note = write_scaled<Form, 3>(
                measured[buffer], exponent, (chunk + 1) * p.channels > p.in,
                [&](float scale, bool careful) {
                    return p.folded  ? load_patch<Form, FOLDED>(p, a, chunk, patch, scale)
                           : careful ? load_patch<Form, CAREFUL>(p, a, chunk, patch, scale)
                                     : load_patch<Form, PLAIN>(p, a, chunk, patch, scale);
                });
            exponent = note.exponent;
            if (threadIdx.x == Form::FIRST_LOADER)
                notes[buffer] = note;
            Form::publish();
            barrier_arrive(full + 8 * buffer);
            if (++buffer == p.buffers)
                buffer = 0, parity ^= 1;
        }
    }
}

} // namespace talc

#endif
