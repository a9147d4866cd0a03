/// Maps over strided arrays (map.cuh): tiles, for arrays whose neighbours lie along another long dimension than y's. Private to
/// backends/cuda.
///
///     a [D, S]: rows of units of 16 bytes       shared: the same rows           y [S, D]: patches, written as
///          d0    | 0 1 2 3 4 5 6 7               | 0 1 2 3 4 5 6 7               packs across
///          d0+1  | 0 1 2 3 4 5 6 7     ------>   | 1 0 3 2 5 4 7 6     ------>      s0   | - - - -
///          ...                                   | 2 3 0 1 6 7 4 5                  s0+1 | - - - -
///
/// A thread reads a patch of a few columns and as many rows as a pack of y has elements, turns it in registers, and writes the
/// packs. Units of a row are exchanged by the row's number, so that the patches of eight threads lie in different banks. What
/// keeps memory busy is not the depth of the tile but that little is computed: an element costs less than one instruction.
#ifndef TALC_BACKENDS_CUDA_MAP_TILES_CUH
#define TALC_BACKENDS_CUDA_MAP_TILES_CUH

#include "backends/cuda/map_turned.cuh"

#include <cuda_pipeline.h>

namespace talc
{

/// Whether a function gives what it is given, to the bit.
template <typename F> constexpr bool moves_only = false;

namespace map_details
{

/// Elements of T along an edge of a tile: 256 bytes; of bytes 128, as many elements as a block has patches for.
template <typename T> constexpr int EDGE = sizeof(T) == 1 ? 128 : 256 / (int)sizeof(T);

/// Blocks that run side by side, as measured: elements of 4 bytes, fetched one by one, need more registers.
template <int ARRAYS, typename A> constexpr int TILES = ARRAYS == 2 ? 4 : sizeof(A) == 4 ? 5 : 6;

template <int ARRAYS> struct tiles_plan : turned_plan<ARRAYS> {
    bool packs[ARRAYS + 1]; ///< it is accessed in packs: one that is staged down, others across
};

/* Sizes that follow from the types. */
template <typename A, typename Y> struct tile_of {
    static constexpr int UNIT = ACCESS / (int)sizeof(A); ///< elements
    static constexpr int PACK = ACCESS / (int)sizeof(Y);
    static constexpr int HEIGHT = EDGE<A>, WIDTH = EDGE<Y>;
    static constexpr int ROW = HEIGHT * (int)sizeof(A), BYTES = WIDTH * ROW;
    /* A patch's columns: its elements fill 16 registers at most. */
    static constexpr int FIT = 64 / (PACK * (int)sizeof(A)), MOST = UNIT < 4 ? UNIT : 4;
    static constexpr int COLUMNS = FIT < 1 ? 1 : FIT < MOST ? FIT : MOST;

    /* The byte at which element (s, d) stands. Where y is not written in packs, neighbouring threads read neighbouring rows,
     * and `exchange` is 7; else 0. */
    static __device__ __forceinline__ uint32_t at(uint32_t s, uint32_t d, uint32_t exchange)
    {
        const uint32_t unit = s / UNIT ^ ((d / PACK ^ (d & exchange)) & 7);
        return d * ROW + unit * ACCESS + s % UNIT * sizeof(A);
    }
};

/* Turns PACK rows of COLUMNS elements. */
template <typename A, int PACK, int COLUMNS>
__device__ __forceinline__ void turn(const vec<A, COLUMNS> (&rows)[PACK],
                                     vec<A, PACK> (&columns)[COLUMNS])
{
    if constexpr (sizeof(A) == 1 && COLUMNS == 4 && PACK % 4 == 0) {
#pragma unroll
        for (int e = 0; e < PACK; e += 4) {
            uint32_t in[4], out[4];
#pragma unroll
            for (int k = 0; k < 4; k++)
                memcpy(&in[k], &rows[e + k], sizeof in[k]);
            const uint32_t low_first = __byte_perm(in[0], in[1], 0x5140);
            const uint32_t low_last = __byte_perm(in[2], in[3], 0x5140);
            const uint32_t high_first = __byte_perm(in[0], in[1], 0x7362);
            const uint32_t high_last = __byte_perm(in[2], in[3], 0x7362);
            out[0] = __byte_perm(low_first, low_last, 0x5410);
            out[1] = __byte_perm(low_first, low_last, 0x7632);
            out[2] = __byte_perm(high_first, high_last, 0x5410);
            out[3] = __byte_perm(high_first, high_last, 0x7632);
#pragma unroll
            for (int k = 0; k < 4; k++)
                memcpy(&columns[k].of[e], &out[k], sizeof out[k]);
        }
    } else {
#pragma unroll
        for (int k = 0; k < COLUMNS; k++)
#pragma unroll
            for (int e = 0; e < PACK; e++)
                columns[k].of[e] = rows[e].of[k];
    }
}

/* Fetches a tile of an array, of which `high` by `wide` elements are there. */
template <typename A, typename Y>
__device__ __forceinline__ void fetch_tile(unsigned char *to, const A *from, int64_t down,
                                           int64_t across, bool packs, uint32_t high, uint32_t wide,
                                           uint32_t exchange)
{
    using tile = tile_of<A, Y>;
    if (packs) {
        constexpr int UNITS = tile::HEIGHT / tile::UNIT;
        static_assert(UNITS * tile::WIDTH % BLOCK == 0, "all threads fetch alike");
#pragma unroll
        for (int k = 0; k < UNITS * tile::WIDTH / BLOCK; k++) {
            const uint32_t i = threadIdx.x + k * BLOCK, s = i % UNITS * tile::UNIT, d = i / UNITS;
            if (s < high && d < wide)
                __pipeline_memcpy_async(to + tile::at(s, d, exchange), from + d * across + s,
                                        ACCESS);
        }
        return;
    }
    constexpr int ROWS = BLOCK / tile::HEIGHT, TURNS = tile::WIDTH / ROWS,
                  AHEAD = TURNS < 8 ? TURNS : 8;
    const uint32_t s = threadIdx.x % tile::HEIGHT;
#pragma unroll 1
    for (uint32_t first = threadIdx.x / tile::HEIGHT; first < tile::WIDTH; first += ROWS * AHEAD) {
        A values[AHEAD];
#pragma unroll
        for (int k = 0; k < AHEAD; k++)
            if (s < high && first + k * ROWS < wide)
                values[k] = from[s * down + (first + k * ROWS) * across];
#pragma unroll
        for (int k = 0; k < AHEAD; k++)
            if (first + k * ROWS < tile::WIDTH)
                *(A *)(to + tile::at(s, first + k * ROWS, exchange)) = values[k];
    }
}

template <typename F, int ARRAYS, typename Y, typename A>
static __global__ void __launch_bounds__(BLOCK, TILES<ARRAYS, A>)
    map_tiles(Y *y, const A *a, const A *b, A scalar, const tiles_plan<ARRAYS> p)
{
    using tile = tile_of<A, Y>;
    extern __shared__ __align__(16) unsigned char tile_bytes[];
    uint32_t s0, d0;
    const places<ARRAYS> at = p.find(blockIdx.x, tile::HEIGHT, tile::WIDTH, s0, d0);
    const uint32_t high = p.S - s0, wide = p.D - d0; /* or more than a tile */
#pragma unroll
    for (int o = 1; o <= ARRAYS; o++)
        if (p.stages(o))
            fetch_tile<A, Y>(tile_bytes + (o - 1) * tile::BYTES, (o == 1 ? a : b) + at.of[o],
                             p.down[o], p.across[o], p.packs[o], high, wide, p.packs[0] ? 0 : 7);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();

    Y *const to = y + at.of[0];
    if (!p.packs[0]) {
        constexpr int ROWS = BLOCK / tile::WIDTH;
        const uint32_t d = threadIdx.x % tile::WIDTH;
#pragma unroll 4
        for (uint32_t s = threadIdx.x / tile::WIDTH; s < tile::HEIGHT; s += ROWS) {
            if (s >= high || d >= wide)
                continue;
            A operands[2] = { scalar, scalar };
#pragma unroll
            for (int o = 1; o <= ARRAYS; o++)
                operands[o - 1] =
                    p.stages(o)
                        ? *(const A *)(tile_bytes + (o - 1) * tile::BYTES + tile::at(s, d, 7))
                        : (o == 1 ? a : b)[at.of[o] + s * p.down[o] + d * p.across[o]];
            to[s * p.down[0] + d * p.across[0]] = F::value_at(operands[0], operands[1]);
        }
        return;
    }
    /* Eight threads write 128 bytes of a row. */
    constexpr int DOWN = tile::HEIGHT / tile::COLUMNS, PATCHES = DOWN * tile::WIDTH / tile::PACK;
    static_assert(PATCHES % BLOCK == 0 && tile::WIDTH / tile::PACK % 8 == 0, "all write alike");
#pragma unroll
    for (int k = 0; k < PATCHES / BLOCK; k++) {
        const uint32_t i = threadIdx.x + k * BLOCK;
        const uint32_t s = i / 8 % DOWN * tile::COLUMNS;
        const uint32_t d = (i % 8 + i / 8 / DOWN * 8) * tile::PACK;
        vec<A, tile::PACK> operands[2][tile::COLUMNS];
        if (d >= wide)
            continue;
#pragma unroll
        for (int o = 1; o <= ARRAYS; o++) {
            if (p.stages(o)) {
                vec<A, tile::COLUMNS> rows[tile::PACK];
#pragma unroll
                for (int e = 0; e < tile::PACK; e++)
                    rows[e] = *(const vec<A, tile::COLUMNS> *)(tile_bytes + (o - 1) * tile::BYTES +
                                                               tile::at(s, d + e, 0));
                turn(rows, operands[o - 1]);
                continue;
            }
            const A *from = (o == 1 ? a : b) + at.of[o] + d * p.across[o];
#pragma unroll
            for (int c = 0; c < tile::COLUMNS; c++) {
                if (s + c >= high)
                    continue;
                if (p.packs[o]) {
                    operands[o - 1][c] = *(const vec<A, tile::PACK> *)(from + (s + c) * p.down[o]);
                    continue;
                }
#pragma unroll
                for (int e = 0; e < tile::PACK; e++)
                    operands[o - 1][c].of[e] = from[(s + c) * p.down[o] + e * p.across[o]];
            }
        }
#pragma unroll
        for (int c = 0; c < tile::COLUMNS; c++) {
            vec<Y, tile::PACK> out;
            if constexpr (moves_only<F>)
                memcpy(&out, &operands[0][c], sizeof out);
            else
#pragma unroll
                for (int e = 0; e < tile::PACK; e++)
                    out.of[e] = F::value_at(operands[0][c].of[e],
                                            ARRAYS > 1 ? operands[1][c].of[e] : scalar);
            if (s + c < high)
                *(vec<Y, tile::PACK> *)(to + (s + c) * p.down[0] + d) = out;
        }
    }
}

/* Whether an edge is worth its tile: bytes that are fetched one by one have to fill it. */
static bool fills(int64_t extent, int64_t edge, bool packs)
{
    return extent >= (packs ? edge / 2 : edge);
}

template <int ARRAYS, typename Y, typename A>
static bool plan_tiles(const map_problem &p, tiles_plan<ARRAYS> &plan)
{
    using tile = tile_of<A, Y>;
    const int last = p.rank - 1, along = turned_along<ARRAYS>(p);
    if (along == last)
        return false;
    const map_problem others = others_of<ARRAYS>(p, along);
    const void *arrays[3] = { p.y, p.a, p.b };
    plan.set(p, along, others);
    for (int o = 0; o <= ARRAYS; o++) {
        plan.packs[o] = plan.staged[o]
                            ? goes_in_packs(arrays[o], tile::UNIT, plan.S, plan.down[o],
                                            plan.across[o], others.rank, others.strides[o])
                            : goes_in_packs(arrays[o], tile::PACK, plan.D, plan.across[o],
                                            plan.down[o], others.rank, others.strides[o]);
        if (plan.staged[o] && !fills(plan.S, tile::HEIGHT, plan.packs[o]))
            return false;
    }
    if (!fills(plan.D, tile::WIDTH, plan.packs[0]))
        return false;
    plan.cut(count_of(others.rank, others.dims), tile::HEIGHT, tile::WIDTH);
    return true;
}

} // namespace map_details

} // namespace talc

#endif
