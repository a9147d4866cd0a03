/// One function over all elements of strided arrays. Private to backends/cuda.
///
///     y[i...] = f(a[i...], b[i...])
///
/// Memory-bound: accesses of a warp have to be neighbours, and many of a thread in flight. Three ways, the first that fits:
///
///   packs     a thread moves 16 bytes at a time. Arrays go on element by element in the last dimension, or stretch over it
///             (stride 0), and its rows begin where packs do; or y is dense, and the elements of an array that is not, one
///             that broadcasts or whose rows are cut short, are looked up one by one.
///   tiles     an array has its neighbours along another dimension than y has, as transposed ones do: a block reads a tile
///             of it in the array's order into shared memory and goes on in y's (map_tiles.cuh); a slab where one of the two
///             dimensions is short (map_slabs.cuh).
///   elements  any strides.
///
///     a [S, D], neighbours down         shared              y [S, D], neighbours across
///          | | | | |                   . . . . .                   - - - - -
///          v v v v v     ------>       . . . . .     ------>       - - - - -
///
/// Before, the dimensions are put into the order that y has in memory, and those that can be walked as one are joined.
#ifndef TALC_BACKENDS_CUDA_MAP_CUH
#define TALC_BACKENDS_CUDA_MAP_CUH

#include "backends/cuda/map_slabs.cuh"
#include "backends/cuda/map_tiles.cuh"

namespace talc
{

namespace map_details
{

// ---- Packs --------------------------------------------------------------------------------------------------

/* What an array gives to a pack: neighbours, one element for all, or elements that are looked up. */
enum class part { NEIGHBOURS, ONE, LOOKED_UP };

template <int ARRAYS> struct packs_plan {
    walker<ARRAYS> walk;     ///< over packs
    walker<ARRAYS> elements; ///< for LOOKED_UP
    part parts[ARRAYS + 1];
    bool once[ARRAYS + 1]; ///< nothing of the array is read again, and of another something is
    uint32_t packs;
};

/* Reads a pack so that it is the first to leave the cache. */
template <typename Pack> __device__ __forceinline__ Pack read_once(const Pack *from)
{
    if constexpr (sizeof(Pack) == sizeof(int4)) {
        const int4 bits = __ldcs((const int4 *)from);
        Pack some;
        memcpy(&some, &bits, sizeof some);
        return some;
    } else {
        return *from;
    }
}

template <typename A, int COUNT, int ARRAYS>
__device__ __forceinline__ vec<A, COUNT> load_part(const packs_plan<ARRAYS> &p, int o, const A *x,
                                                   int64_t at, uint32_t pack)
{
    vec<A, COUNT> some;
    if (p.parts[o] == part::NEIGHBOURS) {
        const vec<A, COUNT> *from = (const vec<A, COUNT> *)(x + at);
        some = p.once[o] ? read_once(from) : *from;
    } else if (p.parts[o] == part::ONE) {
        const A one = x[at];
#pragma unroll
        for (int e = 0; e < COUNT; e++)
            some.of[e] = one;
    } else {
        uint32_t left = 0;
#pragma unroll
        for (int e = 0; e < COUNT; e++, left--) {
            if (left == 0)
                at = p.elements.find_in(o, pack * COUNT + e, left);
            some.of[e] = x[at];
            at += p.elements.step(o);
        }
    }
    return some;
}

template <typename F, int ARRAYS, typename Y, typename A, int COUNT>
static __global__ void __launch_bounds__(BLOCK)
    map_packs(Y *y, const A *a, const A *b, A scalar, const packs_plan<ARRAYS> p)
{
    const uint32_t stride = gridDim.x * BLOCK;
    for (uint32_t i = blockIdx.x * BLOCK + threadIdx.x; i < p.packs; i += stride * PACKS_AHEAD) {
        vec<A, COUNT> left[PACKS_AHEAD], right[PACKS_AHEAD];
        places<ARRAYS> at[PACKS_AHEAD];
        uint32_t index[PACKS_AHEAD];
#pragma unroll
        for (int k = 0; k < PACKS_AHEAD; k++)
            index[k] = i + k * stride;
        p.walk.find(index, at);
#pragma unroll
        for (int k = 0; k < PACKS_AHEAD; k++)
            if (i + k * stride < p.packs) {
                if (ARRAYS > 0)
                    left[k] = load_part<A, COUNT>(p, 1, a, at[k].of[ARRAYS > 0], i + k * stride);
                if (ARRAYS > 1)
                    right[k] = load_part<A, COUNT>(p, ARRAYS, b, at[k].of[ARRAYS], i + k * stride);
            }
#pragma unroll
        for (int k = 0; k < PACKS_AHEAD; k++)
            if (i + k * stride < p.packs) {
                vec<Y, COUNT> out;
#pragma unroll
                for (int e = 0; e < COUNT; e++)
                    out.of[e] = F::value_at(ARRAYS > 0 ? left[k].of[e] : scalar,
                                            ARRAYS > 1 ? right[k].of[e] : scalar);
                vec<Y, COUNT> *to = (vec<Y, COUNT> *)(y + at[k].of[0]);
                if (p.once[0] && sizeof out == sizeof(int4))
                    __stcs((int4 *)to, *(const int4 *)&out);
                else
                    *to = out;
            }
    }
}

/* An array that stretches is read again and again and ought to stay in the cache, which the others would fill. */
template <int ARRAYS> static void mark_once(const map_problem &p, packs_plan<ARRAYS> &plan)
{
    bool stretches[ARRAYS + 1] = {}, any = false;
    for (int o = 1; o <= ARRAYS; o++)
        for (int i = 0; i < p.rank; i++)
            stretches[o] = stretches[o] || p.strides[o][i] == 0;
    for (int o = 1; o <= ARRAYS; o++)
        any = any || stretches[o];
    for (int o = 0; o <= ARRAYS; o++)
        plan.once[o] = any && !stretches[o];
}

/* Packs of `count` elements in the rows of the last dimension; false where an array's rows do not allow them. */
template <int ARRAYS>
static bool plan_rows(const map_problem &p, int64_t count, packs_plan<ARRAYS> &plan)
{
    const int last = p.rank - 1;
    const void *arrays[3] = { p.y, p.a, p.b };
    map_problem packs = p;
    if (p.dims[last] % count != 0 || p.strides[0][last] != 1)
        return false;
    packs.dims[last] /= count;
    for (int o = 0; o <= ARRAYS; o++) {
        plan.parts[o] = p.strides[o][last] == 0 ? part::ONE : part::NEIGHBOURS;
        if (plan.parts[o] == part::ONE)
            continue;
        bool fits = p.strides[o][last] == 1 && is_aligned(arrays[o]);
        for (int i = 0; i < last; i++)
            fits = fits && p.strides[o][i] % count == 0;
        if (!fits)
            return false;
        packs.strides[o][last] = count;
    }
    plan.walk.set(packs);
    plan.packs = (uint32_t)(count_of(p.rank, p.dims) / count);
    mark_once<ARRAYS>(p, plan);
    return true;
}

static bool is_dense_in(const map_problem &p, int o)
{
    int64_t dense = 1;
    for (int i = p.rank - 1; i >= 0; dense *= p.dims[i], i--)
        if (p.strides[o][i] != dense)
            return false;
    return true;
}

/* Packs of a dense y across the ends of rows. Of the others at least one is dense too, or they have neighbours in their rows. */
template <int ARRAYS>
static bool plan_whole(const map_problem &p, int64_t count, packs_plan<ARRAYS> &plan)
{
    const void *arrays[3] = { p.y, p.a, p.b };
    map_problem packs = {};
    const int last = p.rank - 1;
    int dense = 0;
    bool near = true;
    packs.rank = 1, packs.dims[0] = count_of(p.rank, p.dims) / count;
    for (int o = 0; o <= ARRAYS; o++) {
        const bool whole = is_aligned(arrays[o]) && is_dense_in(p, o);
        plan.parts[o] = whole ? part::NEIGHBOURS : part::LOOKED_UP;
        packs.strides[o][0] = count;
        dense += whole;
        near = near && (p.strides[o][last] == 1 || p.strides[o][last] == 0);
    }
    if (plan.parts[0] != part::NEIGHBOURS || (dense < 2 && !near) || packs.dims[0] == 0)
        return false;
    plan.walk.set(packs);
    plan.elements.set(p);
    plan.packs = (uint32_t)packs.dims[0];
    mark_once<ARRAYS>(p, plan);
    return true;
}

// ---- Elements -----------------------------------------------------------------------------------------------

template <typename F, int ARRAYS, typename Y, typename A>
static __global__ void __launch_bounds__(BLOCK)
    map_elements(Y *y, const A *a, const A *b, A scalar, uint32_t first, uint32_t count,
                 const walker<ARRAYS> walk)
{
    const uint32_t stride = gridDim.x * BLOCK;
    for (uint32_t i = first + blockIdx.x * BLOCK + threadIdx.x; i < count;
         i += stride * ELEMENTS_AHEAD) {
        A left[ELEMENTS_AHEAD], right[ELEMENTS_AHEAD];
        places<ARRAYS> at[ELEMENTS_AHEAD];
        uint32_t index[ELEMENTS_AHEAD];
#pragma unroll
        for (int k = 0; k < ELEMENTS_AHEAD; k++)
            index[k] = i + k * stride;
        walk.find(index, at);
#pragma unroll
        for (int k = 0; k < ELEMENTS_AHEAD; k++) {
            left[k] = right[k] = scalar;
            if (i + k * stride < count) {
                if (ARRAYS > 0)
                    left[k] = a[at[k].of[ARRAYS > 0]];
                if (ARRAYS > 1)
                    right[k] = b[at[k].of[ARRAYS]];
            }
        }
#pragma unroll
        for (int k = 0; k < ELEMENTS_AHEAD; k++)
            if (i + k * stride < count)
                y[at[k].of[0]] = F::value_at(left[k], right[k]);
    }
}

// ---- Choice -------------------------------------------------------------------------------------------------

/* y's dimensions from its longest stride to its shortest, joined where all arrays walk them as one. */
template <int ARRAYS> static map_problem in_order(const map_problem &p)
{
    map_problem q = p;
    q.rank = 0;
    int order[TALC_MAX_RANK], count = 0;
    for (int i = 0; i < p.rank; i++) {
        if (p.dims[i] == 1)
            continue;
        int place = count++;
        for (; place > 0 && p.strides[0][order[place - 1]] < p.strides[0][i]; place--)
            order[place] = order[place - 1];
        order[place] = i;
    }
    for (int k = 0; k < count; k++) {
        const int i = order[k];
        bool joins = q.rank > 0;
        for (int o = 0; o <= ARRAYS && joins; o++)
            joins = q.strides[o][q.rank - 1] == p.strides[o][i] * p.dims[i];
        const int to = joins ? q.rank - 1 : q.rank++;
        q.dims[to] = joins ? q.dims[to] * p.dims[i] : p.dims[i];
        for (int o = 0; o <= ARRAYS; o++)
            q.strides[o][to] = p.strides[o][i];
    }
    if (q.rank == 0) {
        q.rank = 1, q.dims[0] = 1;
        for (int o = 0; o <= ARRAYS; o++)
            q.strides[o][0] = 1;
    }
    return q;
}

template <typename F, int ARRAYS, typename Y, typename A>
static void run(talc_device *device, const map_problem &p, A scalar)
{
    constexpr size_t SIZE = ARRAYS > 0 && sizeof(A) > sizeof(Y) ? sizeof(A) : sizeof(Y);
    constexpr int COUNT = ACCESS / (int)SIZE;
    const cudaStream_t stream = talc_cuda_stream(device);
    const int64_t count = count_of(p.rank, p.dims);
    Y *y = (Y *)p.y;
    const A *a = (const A *)p.a, *b = (const A *)p.b;
    if (count > MOST) {
        /* Halves, the first of whole packs. */
        map_problem half = p, rest = p;
        half.dims[0] = p.dims[0] / 2 >= 64 ? p.dims[0] / 2 / 64 * 64 : p.dims[0] / 2;
        rest.dims[0] -= half.dims[0];
        rest.y = y + half.dims[0] * p.strides[0][0];
        rest.a = ARRAYS > 0 ? a + half.dims[0] * p.strides[1][0] : NULL;
        rest.b = ARRAYS > 1 ? b + half.dims[0] * p.strides[2][0] : NULL;
        run<F, ARRAYS, Y, A>(device, in_order<ARRAYS>(half), scalar);
        run<F, ARRAYS, Y, A>(device, in_order<ARRAYS>(rest), scalar);
        return;
    }
    int64_t done = 0;
    packs_plan<ARRAYS> packs;
    const bool in_rows = plan_rows<ARRAYS>(p, COUNT, packs);
    if constexpr (ARRAYS > 0) {
        tiles_plan<ARRAYS> tiles;
        slabs_plan<ARRAYS> slabs;
        if (!in_rows && plan_tiles<ARRAYS, Y, A>(p, tiles)) {
            map_tiles<F, ARRAYS, Y, A>
                <<<tiles.blocks, BLOCK, ARRAYS * tile_of<A, Y>::BYTES, stream>>>(y, a, b, scalar,
                                                                                 tiles);
            return;
        }
        if (!in_rows && plan_slabs<ARRAYS, Y, A>(p, slabs)) {
            map_slabs<F, ARRAYS, Y, A>
                <<<slabs.blocks, BLOCK, ARRAYS * slabs.room * sizeof(A), stream>>>(y, a, b, scalar,
                                                                                   slabs);
            return;
        }
    }
    if (in_rows || plan_whole<ARRAYS>(p, COUNT, packs)) {
        map_packs<F, ARRAYS, Y, A, COUNT>
            <<<blocks_for(device, pieces(packs.packs, PACKS_AHEAD)), BLOCK, 0, stream>>>(
                y, a, b, scalar, packs);
        done = (int64_t)packs.packs * COUNT;
    }
    if (done == count)
        return;
    walker<ARRAYS> walk;
    walk.set(p);
    map_elements<F, ARRAYS, Y, A>
        <<<blocks_for(device, pieces(count - done, ELEMENTS_AHEAD)), BLOCK, 0, stream>>>(
            y, a, b, scalar, (uint32_t)done, (uint32_t)count, walk);
}

} // namespace map_details

/// y[i...] = F::value_at(a[i...], b[i...]) with ARRAYS of a and b; `scalar` stands for the others.
template <typename F, int ARRAYS, typename Y, typename A>
static void map(talc_device *device, const map_problem &problem, A scalar)
{
    if (count_of(problem.rank, problem.dims) > 0)
        map_details::run<F, ARRAYS, Y, A>(device, map_details::in_order<ARRAYS>(problem), scalar);
}

} // namespace talc

#endif
