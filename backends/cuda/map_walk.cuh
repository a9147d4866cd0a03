/// Maps over strided arrays (map.cuh): what they are given, and how elements are found. Private to backends/cuda.
#ifndef TALC_BACKENDS_CUDA_MAP_WALK_CUH
#define TALC_BACKENDS_CUDA_MAP_WALK_CUH

#include "backends/cuda/group.cuh"

namespace talc
{

/// y's dimensions, and the strides of y, a and b. What there are fewer arrays of is left as it is.
struct map_problem {
    int rank;
    int64_t dims[TALC_MAX_RANK];
    int64_t strides[3][TALC_MAX_RANK];
    void *y;
    const void *a, *b;
};

namespace map_details
{

/// Elements of one launch: indices are 32-bit, with room for a grid's stride.
constexpr int64_t MOST = (int64_t)1 << 30;

/// Accesses that a thread has in flight.
constexpr int PACKS_AHEAD = 4, ELEMENTS_AHEAD = 4;

template <int ARRAYS> struct places {
    int64_t of[ARRAYS + 1]; ///< offsets in y, a, b
};

/// Where the elements of an index stand. The outermost dimension takes no division.
template <int ARRAYS> struct walker {
    int rank; ///< at least 1
    divisor<uint32_t> dims[TALC_MAX_RANK];
    int64_t strides[ARRAYS + 1][TALC_MAX_RANK];

    void set(const map_problem &p)
    {
        rank = p.rank;
        for (int i = 0; i < rank; i++) {
            dims[i].set(p.dims[i]);
            for (int o = 0; o <= ARRAYS; o++)
                strides[o][i] = p.strides[o][i];
        }
    }

    /// Of COUNT indices at once.
    template <int COUNT>
    __device__ __forceinline__ void find(uint32_t (&index)[COUNT],
                                         places<ARRAYS> (&at)[COUNT]) const
    {
#pragma unroll
        for (int k = 0; k < COUNT; k++)
#pragma unroll
            for (int o = 0; o <= ARRAYS; o++)
                at[k].of[o] = 0;
#pragma unroll 1
        for (int i = rank - 1; i > 0; i--) {
            const divisor<uint32_t> by = dims[i];
#pragma unroll
            for (int k = 0; k < COUNT; k++) {
                const uint32_t rest = by.quotient(index[k]), digit = index[k] - rest * by.by;
#pragma unroll
                for (int o = 0; o <= ARRAYS; o++)
                    at[k].of[o] += digit * strides[o][i];
                index[k] = rest;
            }
        }
#pragma unroll
        for (int k = 0; k < COUNT; k++)
#pragma unroll
            for (int o = 0; o <= ARRAYS; o++)
                at[k].of[o] += index[k] * strides[o][0];
    }

    /// From an element to the next in its row.
    __device__ __forceinline__ int64_t step(int o) const
    {
        return strides[o][rank - 1];
    }

    /// Of one index in one array; `left`: it and those that follow it in its row.
    __device__ __forceinline__ int64_t find_in(int o, uint32_t index, uint32_t &left) const
    {
        int64_t at = 0;
        left = dims[0].by - index;
#pragma unroll 1
        for (int i = rank - 1; i > 0; i--) {
            const uint32_t rest = dims[i].quotient(index), digit = index - rest * dims[i].by;
            left = i == rank - 1 ? dims[i].by - digit : left;
            at += digit * strides[o][i];
            index = rest;
        }
        return at + index * strides[o][0];
    }
};

/// Whether an array can be read, or written, in packs of COUNT elements along a dimension of `extent` elements and `step` from
/// one to the next, when its other strides are these and `across`.
inline bool goes_in_packs(const void *array, int64_t count, int64_t extent, int64_t step,
                          int64_t across, int rank, const int64_t *strides)
{
    bool fits = is_aligned(array) && step == 1 && extent % count == 0 && across % count == 0;
    for (int i = 0; i < rank; i++)
        fits = fits && strides[i] % count == 0;
    return fits;
}

} // namespace map_details

} // namespace talc

#endif
