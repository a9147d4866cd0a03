/// Who computes which output of matmul's tensor_cores, packed and split on load. Compiles as C and
/// as CUDA C++. The kernels find their tiles with it, and so does whoever shows or tests what they
/// do.
///
/// Block b takes tiles b, b + blocks, and so on. Two warpgroups multiply, each 64 rows of a tile, a
/// warp 16 of them. Of a product that is split on load, rows are those of the operand that is
/// streamed, and columns the rows of the one that is packed.
#ifndef TALC_BACKENDS_CUDA_GEMM_TILE_MAP_H
#define TALC_BACKENDS_CUDA_GEMM_TILE_MAP_H

#include "backends/cuda/primitives/divisor.h"
#include "backends/cuda/primitives/fragment.h"
#include "tensor/extent.h"

TALC_BEGIN_DECLARATIONS

enum {
    TALC_PRODUCT_PANEL = 128, ///< rows of a tile, and columns of a panel of `packed`
    /// Rows of tiles that blocks compute at a time. Those tiles share panels in the L2 cache.
    TALC_PRODUCT_TILES_DOWN = 16
};

/// Products of one shape, divided into tiles.
typedef struct talc_product_layout {
    int m_tiles, n_tiles; ///< of a product
    int panels;           ///< of 128 columns in a tile: 1 or 2
    int k_tiles, splits;
    int work; ///< tiles of all products, times splits
    talc_divisor by_splits, by_tiles, by_group;
} talc_product_layout;

/// Of `products` products of m_tiles by n_tiles tiles; without K tiles.
static inline talc_product_layout talc_product_layout_of(int64_t products, int m_tiles, int n_tiles,
                                                         int panels, int splits)
{
    const int64_t tiles = (int64_t)m_tiles * n_tiles;
    const talc_product_layout layout = { m_tiles,
                                         n_tiles,
                                         panels,
                                         0,
                                         splits,
                                         (int)(products * tiles * splits),
                                         talc_divisor_of(splits),
                                         talc_divisor_of(tiles),
                                         talc_divisor_of((int64_t)TALC_PRODUCT_TILES_DOWN *
                                                         n_tiles) };
    return layout;
}

typedef struct talc_product_tile {
    int product, m, n;      ///< m, n: the indices of the tile
    int split, k_tile, end; ///< its first K tile, and the one after its last
} talc_product_tile;

/// Split-K: the K tiles of split w->split, a share of all.
TALC_TILE_MAP void talc_product_set_split(talc_product_tile *w, int k_tiles, int splits)
{
    w->k_tile = (int)((int64_t)k_tiles * w->split / splits);
    w->end = (int)((int64_t)k_tiles * (w->split + 1) / splits);
}

/// The tile and split with index `i`. The tiles of a product are taken TALC_PRODUCT_TILES_DOWN rows
/// of tiles at a time, column by column.
TALC_TILE_MAP talc_product_tile talc_product_tile_of(const talc_product_layout *p, int i)
{
    talc_product_tile w;
    const int tile = (int)talc_quotient(p->by_splits, (uint32_t)i);
    w.split = i - tile * p->splits;
    w.product = (int)talc_quotient(p->by_tiles, (uint32_t)tile);
    const int rest = tile - w.product * (int)p->by_tiles.by,
              group = (int)talc_quotient(p->by_group, (uint32_t)rest);
    const int in_group = rest - group * (int)p->by_group.by,
              below = p->m_tiles - group * TALC_PRODUCT_TILES_DOWN,
              down = below < TALC_PRODUCT_TILES_DOWN ? below : TALC_PRODUCT_TILES_DOWN;
    w.n = in_group / down;
    w.m = group * TALC_PRODUCT_TILES_DOWN + in_group - w.n * down;
    talc_product_set_split(&w, p->k_tiles, p->splits);
    return w;
}

/// The row and the column, in its product, of sum i of a panel of a thread that multiplies.
TALC_TILE_MAP talc_fragment talc_product_sum_of(const talc_product_layout *p,
                                                const talc_product_tile *w, int thread, int panel,
                                                int i)
{
    talc_fragment f = talc_fragment_of(thread % 32, i);
    f.row += w->m * TALC_PRODUCT_PANEL + thread / 32 * 16;
    f.column += (w->n * p->panels + panel) * TALC_PRODUCT_PANEL;
    return f;
}

/// Products of which one operand is split as it is loaded, divided into tiles.
typedef struct talc_stream_layout {
    int k_tiles, splits, row_tiles, column_tiles;
    int work; ///< tiles of all products, times splits
} talc_stream_layout;

static inline talc_stream_layout talc_stream_layout_of(int64_t products, int64_t rows,
                                                       int64_t columns, int tile_columns,
                                                       int k_tiles, int splits)
{
    talc_stream_layout l = { k_tiles, splits, 0, 0, 0 };
    l.row_tiles = (int)talc_ceil_div(rows, TALC_PRODUCT_PANEL);
    l.column_tiles = (int)talc_ceil_div(columns, tile_columns);
    l.work = (int)(products * l.row_tiles * l.column_tiles * splits);
    return l;
}

/// The tile and split with index `i`. Blocks that run at a time share rows of the streamed operand,
/// then their splits.
TALC_TILE_MAP talc_product_tile talc_stream_tile_of(const talc_stream_layout *p, int i)
{
    talc_product_tile w;
    w.n = i % p->column_tiles;
    i /= p->column_tiles;
    w.split = i % p->splits;
    i /= p->splits;
    w.m = i % p->row_tiles;
    w.product = i / p->row_tiles;
    talc_product_set_split(&w, p->k_tiles, p->splits);
    return w;
}

/// Of a thread's two rows, h, in its tile. They are neighbours where those are contiguous, which is
/// so unless the streamed operand is along k.
TALC_TILE_MAP int talc_stream_row_of(bool along_k, int thread, int h)
{
    const int lane = thread % 32;
    return thread / 32 * 16 + (along_k ? lane / 4 + 8 * h : lane / 4 * 2 + h);
}

/// The row and the column, in its product, of sum i of a thread that multiplies.
TALC_TILE_MAP talc_fragment talc_stream_sum_of(const talc_product_tile *w, bool along_k,
                                               int tile_columns, int thread, int i)
{
    const talc_fragment f = { w->m * TALC_PRODUCT_PANEL +
                                  talc_stream_row_of(along_k, thread, i / 2 % 2),
                              w->n * tile_columns + talc_fragment_of(thread % 32, i).column };
    return f;
}

TALC_END_DECLARATIONS

#endif
