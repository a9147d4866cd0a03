/// Index arithmetic: division by invariants, and offsets of elements in strided arrays. Private to
/// backends/cuda.
#ifndef TALC_BACKENDS_CUDA_PRIMITIVES_INDEX_CUH
#define TALC_BACKENDS_CUDA_PRIMITIVES_INDEX_CUH

#include "backends/cuda/primitives/divisor.h"
#include "backends/cuda/primitives/launch.cuh"

namespace talc
{

/// Division by a number that is known before the launch, of numbers below 2^31 (divisor.h) or, the
/// same way, 2^63.
template <typename Index> struct divisor;

template <> struct divisor<uint32_t> : talc_divisor {
    void set(int64_t d)
    {
        (talc_divisor &)*this = talc_divisor_of(d);
    }
    __device__ uint32_t quotient(uint32_t n) const
    {
        return talc_quotient(*this, n);
    }
};

template <> struct divisor<uint64_t> {
    uint64_t by, factor;
    uint32_t shift;
    void set(int64_t d)
    {
        by = (uint64_t)d;
        shift = 0;
        while (shift < 63 && ((uint64_t)1 << shift) < by)
            shift++;
        const unsigned __int128 excess = ((uint64_t)1 << shift) - by;
        factor = (uint64_t)((excess << 64) / by + 1);
    }
    __device__ uint64_t quotient(uint64_t n) const
    {
        return (__umul64hi(n, factor) + n) >> shift;
    }
};

/// The offsets of element `index`, in row-major order of `dims`, in each of OPERANDS strided
/// arrays. Offsets are 64-bit: strides may be long.
template <int OPERANDS, typename Index> struct strided_index {
    int rank;
    divisor<Index> dims[TALC_MAX_RANK];
    int64_t strides[OPERANDS][TALC_MAX_RANK];

    strided_index(int rank_, const int64_t *dims_, const int64_t *const (&strides_)[OPERANDS])
        : rank(rank_)
    {
        for (int i = 0; i < rank; i++) {
            dims[i].set(dims_[i]);
            for (int o = 0; o < OPERANDS; o++)
                strides[o][i] = strides_[o][i];
        }
    }

    __device__ void offsets(Index index, int64_t (&at)[OPERANDS]) const
    {
#pragma unroll
        for (int o = 0; o < OPERANDS; o++)
            at[o] = 0;
#pragma unroll
        for (int i = TALC_MAX_RANK - 1; i >= 0; i--) {
            if (i >= rank)
                continue;
            const Index rest = i == 0 ? 0 : dims[i].quotient(index);
            const int64_t digit = (int64_t)(index - rest * dims[i].by);
#pragma unroll
            for (int o = 0; o < OPERANDS; o++)
                at[o] += digit * strides[o][i];
            index = rest;
        }
    }
};

inline int64_t count_of(int rank, const int64_t *dims)
{
    int64_t count = 1;
    for (int i = 0; i < rank; i++)
        count *= dims[i];
    return count;
}

/// One dimension of stride 1, as merged dimensions of contiguous arrays are; a single element too.
inline bool is_dense(int rank, const int64_t *strides)
{
    return rank == 0 || (rank == 1 && strides[0] == 1);
}

} // namespace talc

#endif
