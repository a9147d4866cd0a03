/// Maps over strided arrays (map.cuh): slabs, for arrays whose neighbours lie along another dimension than y's when one of the
/// two is short, as the 49 pixels of a plane or the 3 channels of a picture are. Private to backends/cuda.
///
///     a [D, S], S short: one span of memory                   y [S, D]: rows
///          | 0 1 2 | 3 4 5 | 6 7 8 | 9 ...       ------>         0 3 6 9 ...
///                                                                1 4 7 ...
///
/// A block takes the short dimension whole and a stretch of the long one. Where the short dimension is the inner one of an array
/// without gaps, the slab is one span of memory, which is moved without regard to where its rows end.
#ifndef TALC_BACKENDS_CUDA_MAP_SLABS_CUH
#define TALC_BACKENDS_CUDA_MAP_SLABS_CUH

#include "backends/cuda/map_turned.cuh"

#include <cuda_pipeline.h>

namespace talc
{

namespace map_details
{

/// Bytes of an array that a slab aims at, fewer where they are one span of it anyway; and what a stretch of the long dimension
/// is a multiple of, so that slabs begin where packs do.
constexpr int SLAB_IN = 12288, SLAB_OUT = 24576, STEP = 32;

/// Bytes of shared memory that a block has without being asked for more.
constexpr size_t SHARED = 48 << 10;

/// Blocks that run side by side: bytes need registers for what they are packed from.
template <typename Y, typename A> constexpr int SLABS = sizeof(Y) == 1 || sizeof(A) == 1 ? 4 : 8;

enum class slab_access { SPAN, PACKS, ELEMENTS };

template <int ARRAYS> struct slabs_plan : turned_plan<ARRAYS> {
    slab_access access[ARRAYS + 1];
    bool words;                       ///< y's span is written four bytes at a time
    uint32_t height, width;           ///< of a slab: one of them is S or D
    uint32_t pitch[ARRAYS + 1], room; ///< in shared memory: of a row and of an array, in elements
    divisor<uint32_t> by_height, by_units, by_width;
};

template <int ARRAYS, typename A>
__device__ __forceinline__ void fetch_slab(A *to, const A *from, const slabs_plan<ARRAYS> &p, int o,
                                           uint32_t high, uint32_t wide)
{
    constexpr int UNIT = ACCESS / (int)sizeof(A);
    if (p.access[o] == slab_access::SPAN) {
        const uint32_t count = wide * p.S, whole = count / UNIT * UNIT;
        for (uint32_t i = threadIdx.x * UNIT; i < whole; i += BLOCK * UNIT)
            __pipeline_memcpy_async(to + i, from + i, ACCESS);
        for (uint32_t i = whole + threadIdx.x; i < count; i += BLOCK)
            to[i] = from[i];
        return;
    }
    if (p.access[o] == slab_access::PACKS) {
        constexpr int AHEAD = 4, CHUNK = sizeof(A) < 4 ? 4 / (int)sizeof(A) : 1;
        using chunks = vec<vec<A, CHUNK>, UNIT / CHUNK>;
        const uint32_t units = p.by_units.by, count = units * wide;
#pragma unroll 1
        for (uint32_t first = threadIdx.x; first < count; first += AHEAD * BLOCK) {
            chunks held[AHEAD];
#pragma unroll
            for (int k = 0; k < AHEAD; k++) {
                const uint32_t i = first + k * BLOCK, d = p.by_units.quotient(i);
                const uint32_t s = (i - d * units) * UNIT;
                if (i < count && s < high)
                    held[k] = *(const chunks *)(from + d * p.across[o] + s);
            }
#pragma unroll
            for (int k = 0; k < AHEAD; k++) {
                const uint32_t i = first + k * BLOCK, d = p.by_units.quotient(i);
                A *const row = to + d * p.pitch[o] + (i - d * units) * UNIT;
#pragma unroll
                for (int c = 0; c < UNIT / CHUNK; c++)
                    if (i < count)
                        *(vec<A, CHUNK> *)(row + c * CHUNK) = held[k].of[c];
            }
        }
        return;
    }
    constexpr int AHEAD = 4;
    const uint32_t count = p.height * wide;
#pragma unroll 1
    for (uint32_t first = threadIdx.x; first < count; first += AHEAD * BLOCK) {
        A held[AHEAD];
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            const uint32_t i = first + k * BLOCK, d = p.by_height.quotient(i);
            const uint32_t s = i - d * p.height;
            if (i < count && s < high)
                held[k] = from[s * p.down[o] + d * p.across[o]];
        }
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            const uint32_t i = first + k * BLOCK, d = p.by_height.quotient(i);
            if (i < count)
                to[d * p.pitch[o] + (i - d * p.height)] = held[k];
        }
    }
}

template <typename F, int ARRAYS, typename Y, typename A>
static __global__ void __launch_bounds__(BLOCK, SLABS<Y, A>)
    map_slabs(Y *y, const A *a, const A *b, A scalar, const slabs_plan<ARRAYS> p)
{
    extern __shared__ __align__(16) unsigned char slab_bytes[];
    A *const shared = (A *)slab_bytes;
    uint32_t s0, d0;
    const places<ARRAYS> at = p.find(blockIdx.x, p.height, p.width, s0, d0);
    const uint32_t high = min(p.S - s0, p.height), wide = min(p.D - d0, p.width);
#pragma unroll
    for (int o = 1; o <= ARRAYS; o++)
        if (p.stages(o))
            fetch_slab<ARRAYS, A>(shared + (o - 1) * p.room, (o == 1 ? a : b) + at.of[o], p, o,
                                  high, wide);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();

    const auto value_at = [&](uint32_t s, uint32_t d) {
        A operands[2] = { scalar, scalar };
#pragma unroll
        for (int o = 1; o <= ARRAYS; o++)
            operands[o - 1] = p.stages(o)
                                  ? shared[(o - 1) * p.room + d * p.pitch[o] + s]
                                  : (o == 1 ? a : b)[at.of[o] + s * p.down[o] + d * p.across[o]];
        return F::value_at(operands[0], operands[1]);
    };
    Y *const to = y + at.of[0];
    if (p.access[0] == slab_access::SPAN) {
        constexpr int WORD = sizeof(Y) < 4 ? 4 / (int)sizeof(Y) : 1;
        const uint32_t count = high * p.D, whole = p.words ? count / WORD : 0;
        for (uint32_t i = threadIdx.x; i < whole; i += BLOCK) {
            vec<Y, WORD> out;
            uint32_t s = p.by_width.quotient(i * WORD), d = i * WORD - s * p.D;
#pragma unroll
            for (int e = 0; e < WORD; e++) {
                out.of[e] = value_at(s, d);
                if (++d == p.D)
                    d = 0, s++;
            }
            *((vec<Y, WORD> *)to + i) = out;
        }
#pragma unroll 4
        for (uint32_t i = whole * WORD + threadIdx.x; i < count; i += BLOCK) {
            const uint32_t s = p.by_width.quotient(i);
            to[i] = value_at(s, i - s * p.D);
        }
    } else if (p.access[0] == slab_access::PACKS) {
        /* Eight threads write 128 bytes of a row, those beside them the rows below. */
        constexpr int PACK = ACCESS / (int)sizeof(Y);
        const uint32_t groups = (wide + 8 * PACK - 1) / (8 * PACK);
        for (uint32_t i = threadIdx.x; i < groups * 8 * p.height; i += BLOCK) {
            const uint32_t group = p.by_height.quotient(i / 8), s = i / 8 - group * p.height;
            const uint32_t d = (group * 8 + i % 8) * PACK;
            if (s >= high || d >= wide)
                continue;
            vec<Y, PACK> out;
#pragma unroll
            for (int e = 0; e < PACK; e++)
                out.of[e] = value_at(s, d + e);
            *(vec<Y, PACK> *)(to + s * p.down[0] + d) = out;
        }
    } else {
#pragma unroll 4
        for (uint32_t i = threadIdx.x; i < p.height * p.width; i += BLOCK) {
            const uint32_t s = p.by_width.quotient(i), d = i - s * p.width;
            if (s < high && d < wide)
                to[s * p.down[0] + d * p.across[0]] = value_at(s, d);
        }
    }
}

// ---- Plan ---------------------------------------------------------------------------------------------------

/* Elements of the long dimension: equal parts of the size that is aimed at. */
static int64_t stretch_of(int64_t extent, int64_t aim)
{
    const int64_t most = aim < STEP ? STEP : aim / STEP * STEP;
    if (extent <= most)
        return extent;
    return pieces(pieces(extent, pieces(extent, most)), STEP) * STEP;
}

/* Elements from row to row of a slab in shared memory, rows being along S: an odd number of words, so that columns lie in
 * different banks; a span lies there as it does in memory. */
template <typename A> static int64_t pitch_of(slab_access access, int64_t S, int64_t height)
{
    if (access == slab_access::SPAN)
        return S;
    return sizeof(A) < 4 ? (pieces(height, 4) | 1) * 4 : height | 1;
}

/* What pitch_of adds to a row at most. */
constexpr int64_t MOST_GAP = 7;

/* One dimension whole, a stretch of the other. Two slabs of SLAB_OUT fill a block's shared memory, so where there are two the
 * gaps between their rows come off; two of SLAB_IN leave room for them. */
template <int ARRAYS, typename A> static void choose_extents(slabs_plan<ARRAYS> &plan)
{
    const int64_t S = plan.S, D = plan.D, size = sizeof(A);
    const bool is_short = S <= D;
    const int64_t gaps = ARRAYS > 1 ? MOST_GAP : 0;
    plan.height = (uint32_t)(is_short ? S : stretch_of(S, SLAB_OUT / size / D - gaps));
    plan.width = (uint32_t)(is_short ? stretch_of(D, SLAB_IN / size / S) : D);
}

/* How operand o is fetched. Extents that packs divide are no span: without gaps their rows would lie in the same banks. */
template <int ARRAYS, typename A>
static slab_access access_of(const slabs_plan<ARRAYS> &plan, int o, const void *array,
                             const map_problem &others)
{
    constexpr int UNIT = ACCESS / (int)sizeof(A);
    const int64_t *strides = others.strides[o];
    const int64_t down = plan.down[o], across = plan.across[o];
    if (goes_in_packs(array, UNIT, plan.S, down, across, others.rank, strides))
        return slab_access::PACKS;
    const bool is_span = plan.height == plan.S && across == plan.S;
    if (is_span && goes_in_packs(array, UNIT, UNIT, down, 0, others.rank, strides))
        return slab_access::SPAN;
    return slab_access::ELEMENTS;
}

/* How y is written. */
template <int ARRAYS, typename Y>
static slab_access result_access_of(const slabs_plan<ARRAYS> &plan, const void *y,
                                    const map_problem &others)
{
    constexpr int PACK = ACCESS / (int)sizeof(Y);
    const int64_t down = plan.down[0], across = plan.across[0];
    if (plan.width == plan.D && across == 1 && down == plan.D)
        return slab_access::SPAN;
    return goes_in_packs(y, PACK, plan.D, across, down, others.rank, others.strides[0])
               ? slab_access::PACKS
               : slab_access::ELEMENTS;
}

template <int ARRAYS, typename Y, typename A>
static bool plan_slabs(const map_problem &p, slabs_plan<ARRAYS> &plan)
{
    constexpr int UNIT = ACCESS / (int)sizeof(A);
    const int last = p.rank - 1, along = turned_along<ARRAYS>(p);
    if (along == last)
        return false;
    const map_problem others = others_of<ARRAYS>(p, along);
    plan.set(p, along, others);
    choose_extents<ARRAYS, A>(plan);
    const int64_t height = plan.height, width = plan.width;
    if (height * width < 2 * BLOCK)
        return false;

    const void *arrays[3] = { p.y, p.a, p.b };
    int64_t widest = 0;
    for (int o = 1; o <= ARRAYS; o++) {
        plan.access[o] = access_of<ARRAYS, A>(plan, o, arrays[o], others);
        plan.pitch[o] = (uint32_t)pitch_of<A>(plan.access[o], plan.S, height);
        widest = plan.pitch[o] > widest ? plan.pitch[o] : widest;
    }
    plan.room = (uint32_t)(pieces(width * widest, UNIT) * UNIT);
    /* The least stretch of a dimension that is not short at all may be too much. */
    if (ARRAYS * plan.room * sizeof(A) > SHARED)
        return false;

    plan.access[0] = result_access_of<ARRAYS, Y>(plan, p.y, others);
    plan.words = (uintptr_t)p.y % 4 == 0;
    for (int i = 0; i < others.rank; i++)
        plan.words = plan.words && others.strides[0][i] % 4 == 0;
    plan.by_height.set(height), plan.by_units.set(pieces(height, UNIT)), plan.by_width.set(width);
    plan.cut(count_of(others.rank, others.dims), height, width);
    return true;
}

} // namespace map_details

} // namespace talc

#endif
