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

#include "backends/cuda/map_tiles.cuh"

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

template <int ARRAYS> struct slabs_plan {
    walker<ARRAYS> others;                        ///< the dimensions that slabs do not extend along
    int64_t across[ARRAYS + 1], down[ARRAYS + 1]; ///< strides along D and along S
    bool staged[ARRAYS + 1];
    slab_access access[ARRAYS + 1];
    bool words; ///< y's span is written four bytes at a time
    uint32_t S, D, height, width;
    uint32_t pitch[ARRAYS + 1], room; ///< in shared memory: of a row and of an array, in elements
    divisor<uint32_t> by_height, by_units, by_width, slabs_down, slabs_across;
    uint32_t slabs;

    /* The only array is. */
    __device__ __forceinline__ bool stages(int o) const
    {
        return ARRAYS == 1 || staged[o];
    }
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
    const uint32_t rest = p.slabs_across.quotient(blockIdx.x);
    const uint32_t d0 = (blockIdx.x - rest * p.slabs_across.by) * p.width;
    uint32_t other[1] = { p.slabs_down.quotient(rest) };
    const uint32_t s0 = (rest - other[0] * p.slabs_down.by) * p.height;
    const uint32_t high = min(p.S - s0, p.height), wide = min(p.D - d0, p.width);
    places<ARRAYS> at[1];
    p.others.find(other, at);
#pragma unroll
    for (int o = 0; o <= ARRAYS; o++)
        at[0].of[o] += s0 * p.down[o] + d0 * p.across[o];
#pragma unroll
    for (int o = 1; o <= ARRAYS; o++)
        if (p.stages(o))
            fetch_slab<ARRAYS, A>(shared + (o - 1) * p.room, (o == 1 ? a : b) + at[0].of[o], p, o,
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
                                  : (o == 1 ? a : b)[at[0].of[o] + s * p.down[o] + d * p.across[o]];
        return F::value_at(operands[0], operands[1]);
    };
    Y *const to = y + at[0].of[0];
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

/* Elements of the long dimension: equal parts of the size that is aimed at. */
static int64_t stretch_of(int64_t extent, int64_t aim)
{
    const int64_t most = aim < STEP ? STEP : aim / STEP * STEP;
    if (extent <= most)
        return extent;
    return pieces(pieces(extent, pieces(extent, most)), STEP) * STEP;
}

template <int ARRAYS, typename Y, typename A>
static bool plan_slabs(const map_problem &p, slabs_plan<ARRAYS> &plan)
{
    constexpr int UNIT = ACCESS / (int)sizeof(A), PACK = ACCESS / (int)sizeof(Y);
    const int last = p.rank - 1, along = turned_along<ARRAYS>(p);
    if (along == last)
        return false;
    const map_problem others = others_of<ARRAYS>(p, along);
    const void *arrays[3] = { p.y, p.a, p.b };
    /* Two slabs share what a block may have, odd pitches and all. */
    const int64_t S = p.dims[along], D = p.dims[last], spare = ARRAYS > 1 && S > D ? 8 * D : 0,
                  aim = (S <= D ? SLAB_IN : SLAB_OUT) / (int64_t)sizeof(A) - spare;
    const int64_t height = S <= D ? S : stretch_of(S, aim / D);
    const int64_t width = S <= D ? stretch_of(D, aim / S) : D;
    if (height * width < 2 * BLOCK)
        return false;
    int64_t widest = 0;
    for (int o = 0; o <= ARRAYS; o++) {
        const int64_t across = p.strides[o][last], down = p.strides[o][along];
        plan.across[o] = across, plan.down[o] = down;
        plan.staged[o] = o > 0 && down > 0 && down < across;
        /* Of extents that units divide, rows would lie in the same banks if they were one span. */
        const bool packs =
            goes_in_packs(arrays[o], UNIT, S, down, across, others.rank, others.strides[o]);
        const bool span =
            goes_in_packs(arrays[o], UNIT, UNIT, down, 0, others.rank, others.strides[o]) &&
            height == S && across == S;
        plan.access[o] = packs  ? slab_access::PACKS
                         : span ? slab_access::SPAN
                                : slab_access::ELEMENTS;
        /* An odd number of words: columns lie in different banks. */
        const int64_t odd = sizeof(A) < 4 ? (pieces(height, 4) | 1) * 4 : height | 1;
        plan.pitch[o] = (uint32_t)(plan.access[o] == slab_access::SPAN ? S : odd);
        widest = plan.pitch[o] > widest ? plan.pitch[o] : widest;
    }
    const int64_t across = plan.across[0], down = plan.down[0];
    plan.words = (uintptr_t)p.y % 4 == 0;
    for (int i = 0; i < others.rank; i++)
        plan.words = plan.words && others.strides[0][i] % 4 == 0;
    plan.access[0] = width == D && across == 1 && down == D ? slab_access::SPAN
                     : goes_in_packs(p.y, PACK, D, across, down, others.rank, others.strides[0])
                         ? slab_access::PACKS
                         : slab_access::ELEMENTS;
    plan.others.set(others);
    plan.S = (uint32_t)S, plan.D = (uint32_t)D;
    plan.height = (uint32_t)height, plan.width = (uint32_t)width;
    plan.room = (uint32_t)(pieces(width * widest, UNIT) * UNIT);
    if (ARRAYS * plan.room * sizeof(A) > SHARED)
        return false;
    plan.by_height.set(height), plan.by_units.set(pieces(height, UNIT)), plan.by_width.set(width);
    plan.slabs_down.set(pieces(S, height)), plan.slabs_across.set(pieces(D, width));
    plan.slabs =
        (uint32_t)(count_of(others.rank, others.dims) * pieces(S, height) * pieces(D, width));
    return true;
}

} // namespace map_details

} // namespace talc

#endif
