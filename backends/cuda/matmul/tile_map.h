/// Who computes which output of matmul's tensor_cores(packed). Compiles as C and as CUDA C++. The
/// kernel finds its tiles with it, and so does whoever shows or tests what it does.
///
/// Block b takes tiles b, b + blocks, and so on. Two warpgroups multiply, each 64 rows of a tile, a
/// warp 16 of them.
#ifndef TALC_BACKENDS_CUDA_MATMUL_TILE_MAP_H
#define TALC_BACKENDS_CUDA_MATMUL_TILE_MAP_H

#include "backends/cuda/primitives/divisor.h"
#include "backends/cuda/primitives/fragment.h"

TALC_BEGIN_DECLARATIONS

enum {
    TALC_PRODUCT_PANEL = 128, ///< rows of a tile, and columns of a panel
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
    w.k_tile = (int)((int64_t)p->k_tiles * w.split / p->splits);
    w.end = (int)((int64_t)p->k_tiles * (w.split + 1) / p->splits);
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

TALC_END_DECLARATIONS

#endif
