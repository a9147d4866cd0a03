/// Who computes which output of a product on tensor cores: tiles to blocks, and a tile's outputs to
/// threads. Private to backends/cuda.
///
/// The product is [rows, K] times [K, columns]. Its outputs are cut into tiles of TALC_TILE_ROWS
/// rows by 32, 64 or 128 columns, its reduction into K tiles of TALC_TILE_K steps. Where tiles are
/// few, blocks share the K tiles of each (split-K). Plain C, which the kernels include: whatever
/// traces or draws a product by these functions shows what the kernels do.
#ifndef TALC_BACKENDS_CUDA_GEMM_TILE_MAP_H
#define TALC_BACKENDS_CUDA_GEMM_TILE_MAP_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __CUDACC__
#define TALC_TILE_MAP static __host__ __device__ __forceinline__
#else
#define TALC_TILE_MAP static inline
#endif

enum { TALC_TILE_ROWS = 128, TALC_TILE_K = 32 };

/// Of one product of a batch.
typedef struct talc_tile_map {
    int row_tiles, column_tiles, k_tiles, splits;
} talc_tile_map;

/// A work of a block: a tile and those of its K tiles, [k_tile, end), that one split has.
typedef struct talc_tile {
    int product, row, column, split, k_tile, end; ///< row, column: of tiles
} talc_tile;

/* Blocks that run at a time have tiles of TALC_TILES_DOWN rows of tiles, whose operands meet in the
 * L2 cache, and of one split. */
enum { TALC_TILES_DOWN = 16 };

/// Work `i` of product * splits * row_tiles * column_tiles.
TALC_TILE_MAP talc_tile talc_tile_of(const talc_tile_map *m, int i)
{
    const int tiles = m->row_tiles * m->column_tiles, of_split = i / tiles;
    const int tile = i - of_split * tiles, group_tiles = TALC_TILES_DOWN * m->column_tiles,
              group = tile / group_tiles, in_group = tile - group * group_tiles;
    const int left = m->row_tiles - group * TALC_TILES_DOWN,
              down = left < TALC_TILES_DOWN ? left : TALC_TILES_DOWN;
    talc_tile t;
    t.product = of_split / m->splits;
    t.split = of_split - t.product * m->splits;
    t.column = in_group / down;
    t.row = group * TALC_TILES_DOWN + in_group - t.column * down;
    const int of_each = m->k_tiles / m->splits, more = m->k_tiles - of_each * m->splits;
    t.k_tile = t.split * of_each + (t.split < more ? t.split : more);
    t.end = t.k_tile + of_each + (t.split < more ? 1 : 0);
    return t;
}

/// The row, or column, of a tile that stands at `position` in shared memory. Where rows are
/// contiguous in the operand's memory, a thread loads four neighbours and stores them eight
/// positions apart: `interleaved`.
TALC_TILE_MAP int talc_tile_row(bool interleaved, int position)
{
    return interleaved ? position / 32 * 32 + position % 8 * 4 + position % 32 / 8 : position;
}

/// The position of accumulator `i` of a thread among the tile's rows, and among its columns.
/// Source: PTX ISA 8.5, figure of wgmma's accumulators, m64nNk16.
TALC_TILE_MAP int talc_accumulator_row(int thread, int i)
{
    return thread / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8;
}

TALC_TILE_MAP int talc_accumulator_column(int thread, int i)
{
    return i / 4 * 8 + thread % 4 * 2 + i % 2;
}

/// What a loading thread of an operand has of a K tile of `rows` rows: group g of eight steps of k,
/// at one position. There are rows / 32 groups, or four where rows are interleaved, which threads
/// beyond the rows do not have.
TALC_TILE_MAP int talc_loaded_position(bool interleaved, int thread, int g)
{
    return (interleaved ? thread / 32 * 32 + g * 8 : g * 32 + thread / 32 * 8) + thread % 8;
}

/// Its step of k number i, of eight. Those steps of k that are next to each other in shared memory
/// are not in the operand, so that eight threads load 64 bytes of each row at a time.
TALC_TILE_MAP int talc_loaded_k(int thread, int i)
{
    return i / 4 * 16 + thread % 32 / 8 * 4 + i % 4;
}

#endif
