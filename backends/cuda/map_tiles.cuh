/// Maps over strided arrays (map.cuh): how elements are found, and tiles for arrays that are transposed. Private to
/// backends/cuda.
#ifndef TALC_BACKENDS_CUDA_MAP_TILES_CUH
#define TALC_BACKENDS_CUDA_MAP_TILES_CUH

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
constexpr int PACKS_AHEAD = 4, ELEMENTS_AHEAD = 4, TILE_AHEAD = 8;

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

    /// Of one index in one array.
    __device__ __forceinline__ int64_t find_in(int o, uint32_t index) const
    {
        int64_t at = 0;
#pragma unroll 1
        for (int i = rank - 1; i > 0; i--) {
            const uint32_t rest = dims[i].quotient(index);
            at += (index - rest * dims[i].by) * strides[o][i];
            index = rest;
        }
        return at + index * strides[o][0];
    }
};

// ---- Tiles --------------------------------------------------------------------------------------------------

/* Elements of a tile: 16 KB of f32 and f64. */
template <typename A> constexpr int TILE = 16384 / (sizeof(A) < 4 ? 4 : (int)sizeof(A));

template <int ARRAYS> struct tiles_plan {
    walker<ARRAYS> others;                        ///< the dimensions that tiles do not extend along
    int64_t across[ARRAYS + 1], down[ARRAYS + 1]; ///< strides along D and along S
    bool staged[ARRAYS + 1];
    uint32_t S, D, height, width, pitch; ///< of the problem, of a tile, and of its rows in memory
    divisor<uint32_t> by_height, by_width, tiles_down, tiles_across;
    uint32_t tiles;
};

template <typename F, int ARRAYS, typename Y, typename A>
static __global__ void __launch_bounds__(BLOCK, 5)
    map_tiles(Y *y, const A *a, const A *b, A scalar, const tiles_plan<ARRAYS> p)
{
    extern __shared__ __align__(16) unsigned char tile_bytes[];
    A *const shared = (A *)tile_bytes;
    const uint32_t elements = p.height * p.width;
    for (uint32_t tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
        const uint32_t rest = p.tiles_across.quotient(tile);
        const uint32_t d0 = (tile - rest * p.tiles_across.by) * p.width;
        uint32_t other[1] = { p.tiles_down.quotient(rest) };
        const uint32_t s0 = (rest - other[0] * p.tiles_down.by) * p.height;
        const uint32_t high = min(p.S - s0, p.height), wide = min(p.D - d0, p.width);
        places<ARRAYS> at[1];
        p.others.find(other, at);
#pragma unroll
        for (int o = 0; o <= ARRAYS; o++)
            at[0].of[o] += s0 * p.down[o] + d0 * p.across[o];
            /* Neighbouring threads go down. */
#pragma unroll
        for (int o = 1; o <= ARRAYS; o++) {
            if (!p.staged[o])
                continue;
            const A *from = (o == 1 ? a : b) + at[0].of[o];
            A *const to = shared + (o - 1) * p.width * p.pitch;
#pragma unroll 1
            for (uint32_t first = threadIdx.x; first < elements; first += TILE_AHEAD * BLOCK) {
                A values[TILE_AHEAD];
#pragma unroll
                for (int k = 0; k < TILE_AHEAD; k++) {
                    const uint32_t i = first + k * BLOCK, d = p.by_height.quotient(i);
                    const uint32_t s = i - d * p.height;
                    if (s < high && d < wide)
                        values[k] = from[s * p.down[o] + d * p.across[o]];
                }
#pragma unroll
                for (int k = 0; k < TILE_AHEAD; k++) {
                    const uint32_t i = first + k * BLOCK, d = p.by_height.quotient(i);
                    if (i < elements)
                        to[d * p.pitch + (i - d * p.height)] = values[k];
                }
            }
        }
        __syncthreads();
        /* They go across. */
#pragma unroll 4
        for (uint32_t i = threadIdx.x; i < elements; i += BLOCK) {
            const uint32_t s = p.by_width.quotient(i);
            const uint32_t d = i - s * p.width;
            if (s >= high || d >= wide)
                continue;
            A operands[2] = { scalar, scalar };
#pragma unroll
            for (int o = 1; o <= ARRAYS; o++)
                operands[o - 1] =
                    p.staged[o] ? shared[((o - 1) * p.width + d) * p.pitch + s]
                                : (o == 1 ? a : b)[at[0].of[o] + s * p.down[o] + d * p.across[o]];
            y[at[0].of[0] + s * p.down[0] + d * p.across[0]] =
                F::value_at(operands[0], operands[1]);
        }
        __syncthreads();
    }
}

/* The size of equal parts of at most `most`. */
static int64_t even(int64_t total, int64_t most)
{
    return pieces(total, pieces(total, most));
}

template <int ARRAYS>
static bool plan_tiles(const map_problem &p, int64_t tile, tiles_plan<ARRAYS> &plan)
{
    /* The dimension along which the first array that has one other than the last has its neighbours. */
    const int last = p.rank - 1;
    int along = last;
    for (int o = 1; o <= ARRAYS && along == last; o++)
        for (int i = 0; i < last; i++)
            if (p.strides[o][i] > 0 && p.strides[o][i] < p.strides[o][along])
                along = i;
    if (along == last)
        return false;
    /* 64 neighbours are enough; the smaller extent whole where it is below. */
    constexpr int64_t ENOUGH = 64;
    const int64_t S = p.dims[along], D = p.dims[last];
    const int64_t height = S < ENOUGH ? S : even(S, D < ENOUGH ? tile / D : ENOUGH);
    const int64_t width = even(D, tile / height);
    if (height * width < 2 * BLOCK)
        return false;
    map_problem others = {};
    for (int i = 0; i < last; i++)
        if (i != along) {
            others.dims[others.rank] = p.dims[i];
            for (int o = 0; o <= ARRAYS; o++)
                others.strides[o][others.rank] = p.strides[o][i];
            others.rank++;
        }
    if (others.rank == 0)
        others.rank = 1, others.dims[0] = 1;
    for (int o = 0; o <= ARRAYS; o++) {
        plan.across[o] = p.strides[o][last], plan.down[o] = p.strides[o][along];
        plan.staged[o] = o > 0 && plan.down[o] > 0 && plan.down[o] < plan.across[o];
    }
    plan.others.set(others);
    plan.S = (uint32_t)S, plan.D = (uint32_t)D;
    plan.height = (uint32_t)height, plan.width = (uint32_t)width;
    plan.pitch = (uint32_t)height | 1; /* columns of a tile lie in different banks */
    plan.by_height.set(height), plan.by_width.set(width);
    plan.tiles_down.set(pieces(S, height)), plan.tiles_across.set(pieces(D, width));
    plan.tiles =
        (uint32_t)(count_of(others.rank, others.dims) * pieces(S, height) * pieces(D, width));
    return true;
}

} // namespace map_details

} // namespace talc

#endif
