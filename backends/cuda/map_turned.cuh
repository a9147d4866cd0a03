/// Maps over strided arrays (map.cuh): what tiles and slabs share. Both are for arrays that are turned against y: their neighbours
/// lie along a dimension S, y's along D, the last. Private to backends/cuda.
///
/// A block has a piece of the plane that S and D span, `height` along S by `width` along D, at one place of the other dimensions.
/// It fetches the turned arrays in their own order into shared memory and writes y in y's.
#ifndef TALC_BACKENDS_CUDA_MAP_TURNED_CUH
#define TALC_BACKENDS_CUDA_MAP_TURNED_CUH

#include "backends/cuda/map_walk.cuh"

namespace talc
{

namespace map_details
{

template <int ARRAYS> struct turned_plan {
    walker<ARRAYS> others; ///< the dimensions that pieces do not extend along
    int64_t across[ARRAYS + 1], down[ARRAYS + 1]; ///< strides along D and along S
    bool staged[ARRAYS + 1];                      ///< the array goes through shared memory
    uint32_t S, D;
    divisor<uint32_t> pieces_down, pieces_across; ///< of S and of D
    uint32_t blocks;                              ///< a piece each

    /* The only array is. */
    __device__ __forceinline__ bool stages(int o) const
    {
        return ARRAYS == 1 || staged[o];
    }

    /// The piece of a block, of height by width elements at most: its first row and column, and where that element
    /// stands in each array.
    __device__ __forceinline__ places<ARRAYS> find(uint32_t block, uint32_t height, uint32_t width,
                                                   uint32_t &s0, uint32_t &d0) const
    {
        const uint32_t rest = pieces_across.quotient(block);
        d0 = (block - rest * pieces_across.by) * width;
        uint32_t other[1] = { pieces_down.quotient(rest) };
        s0 = (rest - other[0] * pieces_down.by) * height;
        places<ARRAYS> at[1];
        others.find(other, at);
#pragma unroll
        for (int o = 0; o <= ARRAYS; o++)
            at[0].of[o] += s0 * down[o] + d0 * across[o];
        return at[0];
    }

    /// What follows from the problem alone, with S its dimension `along` and `rest` its other dimensions.
    void set(const map_problem &p, int along, const map_problem &rest)
    {
        const int last = p.rank - 1;
        others.set(rest);
        S = (uint32_t)p.dims[along], D = (uint32_t)p.dims[last];
        for (int o = 0; o <= ARRAYS; o++) {
            across[o] = p.strides[o][last], down[o] = p.strides[o][along];
            staged[o] = o > 0 && down[o] > 0 && down[o] < across[o];
        }
    }

    /// Pieces of height by width in each of `planes` places.
    void cut(int64_t planes, int64_t height, int64_t width)
    {
        pieces_down.set(pieces(S, height)), pieces_across.set(pieces(D, width));
        blocks = (uint32_t)(planes * pieces_down.by * pieces_across.by);
    }
};

/// The dimension along which the first array that has one other than the last has its neighbours; the last when none has.
template <int ARRAYS> static int turned_along(const map_problem &p)
{
    const int last = p.rank - 1;
    int along = last;
    for (int o = 1; o <= ARRAYS && along == last; o++)
        for (int i = 0; i < last; i++)
            if (p.strides[o][i] > 0 && p.strides[o][i] < p.strides[o][along])
                along = i;
    return along;
}

/// The problem without the last dimension and `along`; at least one is left.
template <int ARRAYS> static map_problem others_of(const map_problem &p, int along)
{
    map_problem others = {};
    for (int i = 0; i < p.rank - 1; i++)
        if (i != along) {
            others.dims[others.rank] = p.dims[i];
            for (int o = 0; o <= ARRAYS; o++)
                others.strides[o][others.rank] = p.strides[o][i];
            others.rank++;
        }
    if (others.rank == 0)
        others.rank = 1, others.dims[0] = 1;
    return others;
}

} // namespace map_details

} // namespace talc

#endif
