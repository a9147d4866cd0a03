/// Who computes which output of implicit_gemm. Compiles as C and as CUDA C++: the kernels find
/// their outputs with these functions, and so does whoever shows or tests what they do.
///
/// A block takes tiles of y, one after the other: talc_gemm_first_tile, then talc_gemm_next_tile.
/// Two warpgroups of a block multiply. Each has 64 output channels and `rows` rows of 32 positions
/// of the tile, a warp 16 of these channels, and a lane the sums that talc_gemm_sum_of tells. The
/// block's other threads load.
#ifndef TALC_BACKENDS_CUDA_CONV2D_IMPLICIT_GEMM_TILE_MAP_H
#define TALC_BACKENDS_CUDA_CONV2D_IMPLICIT_GEMM_TILE_MAP_H

#include "backends/cuda/primitives/divisor.h"
#include "backends/cuda/primitives/fragment.h"
#include "ops/window.h"

TALC_BEGIN_DECLARATIONS

enum {
    TALC_GEMM_CHANNELS = 64,                  ///< output channels of a warpgroup
    TALC_GEMM_COLUMNS = 32,                   ///< positions of a row
    TALC_GEMM_BLOCKS = TALC_GEMM_COLUMNS / 8, ///< products of a row, each 8 positions wide
    TALC_GEMM_MULTIPLIERS = 2                 ///< warpgroups that multiply
};

/// A problem, divided into tiles. plan.h sets it.
typedef struct talc_gemm_layout {
    int N, C, H, W, OC, OH, OW, KH, KW, groups;
    int group_in, group_out; ///< channels of a group
    int stride_h, stride_w, dilation_h, dilation_w, top, left;
    talc_padding_mode mode;
    bool only_inside; ///< sums do not include products with padding (ops/conv2d.h)
    bool absent;      ///< some weights make no product (ops/conv2d.h)

    /// Where channels are few, each pair of a channel of x and a phase of the stride is a channel
    /// of the product.
    bool folded;
    int fold_h, fold_w;       ///< phases along each axis; 1 where not folded
    int in;                   ///< channels of a group, folded
    int taps_h, taps_w, taps; ///< taps, folded
    int channels;             ///< channels of a K tile
    int k_tiles;
    int steps; ///< products of a K tile, a multiple of the form's run

    /// A halo tile has, for each phase of the stride, the positions where the windows of the tile
    /// begin, row by row.
    int phases, phases_w, phase_h_step, phase_w_step;
    int pitch;           ///< positions of a row
    int image_rows;      ///< rows of an image, in a flat tile
    int positions;       ///< positions of a phase
    int row_shift;       ///< positions from one row of the tile to the next
    int warpgroup_shift; ///< positions between the two warpgroups; 0: they differ in channels
    bool flat;           ///< tiles run on over the ends of rows and images
    /// A block takes the tiles of a row one after the other. A sector that crosses the edge between
    /// two tiles is carried over and written with the second tile.
    bool carry;

    int channel_tiles, row_tiles, column_tiles, pixel_tiles, tiles;
    int tile_rows, tile_columns;
    int halo_tile_bytes, buffers;
    int store_bytes;         ///< shared memory of a warp that stores
    int stages, stage_bytes; ///< buffers of rows that halo tiles are made from (staged.cuh)
    int stage_step;          ///< floats from one channel of a stage to the next
    bool stage_rows;         ///< a stage has the rows of a halo tile; else all rows of its images
    /// K tiles that the second warpgroup is behind the first. So one stores its outputs while the
    /// other multiplies.
    int lag;
    /// Split-K: where tiles are too few for the GPU, each split of a tile has so many K tiles. Then
    /// y is [split][shape of y].
    int splits, split_k_tiles;
    int64_t outputs;
    /// The index of a tile is [group][n][row][outer][inner][split]. Inner and outer are channel and
    /// column, with carry column and channel.
    talc_divisor by_inner, by_outer, by_row_tiles, by_N, by_splits;
    talc_divisor by_pitch, by_image_rows, by_positions, by_kernel;
} talc_gemm_layout;

/// A tile, or one split of a tile.
typedef struct talc_gemm_tile {
    int g, channel_tile;
    int n, row, column;  ///< its first pixel; column of a flat tile is its first position
    int split;           ///< which split of the tile it is
    int k_tile, k_tiles; ///< its first K tile, and their count
    bool before, after;  ///< with carry: the row has a tile before this one, or after it
} talc_gemm_tile;

TALC_TILE_MAP talc_gemm_tile talc_gemm_tile_of(const talc_gemm_layout *p, int t)
{
    talc_gemm_tile a = { 0, 0, 0, 0, 0, 0, 0, 0, false, false };
    const int whole = (int)talc_quotient(p->by_splits, (uint32_t)t);
    a.split = t - whole * p->splits;
    a.k_tile = a.split * p->split_k_tiles;
    const int left = p->k_tiles - a.k_tile;
    a.k_tiles = p->split_k_tiles < left ? p->split_k_tiles : left;
    t = whole;
    const int rest = (int)talc_quotient(p->by_inner, (uint32_t)t),
              rows = (int)talc_quotient(p->by_outer, (uint32_t)rest);
    const int inner = t - rest * (int)p->by_inner.by, outer = rest - rows * (int)p->by_outer.by;
    const int column = p->carry ? inner : outer;
    a.channel_tile = p->carry ? outer : inner;
    a.before = p->carry && column > 0, a.after = p->carry && column + 1 < p->column_tiles;
    a.column = column * p->tile_columns;
    if (p->flat) {
        a.g = rows;
        return a;
    }
    const int images = (int)talc_quotient(p->by_row_tiles, (uint32_t)rows);
    a.row = (rows - images * p->row_tiles) * p->tile_rows;
    a.g = (int)talc_quotient(p->by_N, (uint32_t)images);
    a.n = images - a.g * p->N;
    return a;
}

/// Tiles that a block has to take one after the other. Every block of a launch needs a tile, since
/// its warpgroups wait for each other.
TALC_TILE_MAP int talc_gemm_run_of(const talc_gemm_layout *p)
{
    return p->carry ? p->column_tiles : 1;
}

TALC_TILE_MAP int talc_gemm_first_tile(const talc_gemm_layout *p, int block)
{
    return block * talc_gemm_run_of(p);
}

/// The tile that a block of a launch of `blocks` takes after t.
TALC_TILE_MAP int talc_gemm_next_tile(const talc_gemm_layout *p, int t, int blocks)
{
    if (!p->carry)
        return t + blocks;
    t++;
    const bool ends = t == (int)(talc_quotient(p->by_inner, (uint32_t)t) * p->by_inner.by);
    return ends ? t + (blocks - 1) * p->column_tiles : t;
}

/// An output pixel. Rows and columns may lie outside of the image.
typedef struct talc_gemm_pixel {
    int n, row, column;
} talc_gemm_pixel;

/// The pixel at position `at` of a phase of the tile's halo tile.
TALC_TILE_MAP talc_gemm_pixel talc_gemm_pixel_of(const talc_gemm_layout *p, const talc_gemm_tile *a,
                                                 int at)
{
    talc_gemm_pixel pixel;
    if (p->flat)
        at += a->column;
    pixel.row = (int)talc_quotient(p->by_pitch, (uint32_t)at);
    pixel.column = at - pixel.row * p->pitch;
    if (p->flat) {
        pixel.n = (int)talc_quotient(p->by_image_rows, (uint32_t)pixel.row);
        pixel.row -= pixel.n * p->image_rows;
        return pixel;
    }
    pixel.n = a->n, pixel.row += a->row, pixel.column += a->column;
    return pixel;
}

/// Warpgroups of a tile that differ in channels: 1 or 2.
TALC_TILE_MAP int talc_gemm_channel_warpgroups(const talc_gemm_layout *p)
{
    return p->warpgroup_shift == 0 ? TALC_GEMM_MULTIPLIERS : 1;
}

/// The channels of a warp in a tile, and the first position of its warpgroup.
typedef struct talc_gemm_warp_tile {
    int lane;
    int first, channels; ///< channels of the group: the first, and their count, at most 16
    int first_position;  ///< where the warpgroup's positions begin in the halo tile
} talc_gemm_warp_tile;

TALC_TILE_MAP talc_gemm_warp_tile talc_gemm_warp_tile_of(const talc_gemm_layout *p,
                                                         const talc_gemm_tile *a, int thread)
{
    const int warpgroup = thread / 128, both = talc_gemm_channel_warpgroups(p);
    talc_gemm_warp_tile w;
    w.lane = thread % 32;
    w.first = (a->channel_tile * both + (both == 2 ? warpgroup : 0)) * TALC_GEMM_CHANNELS +
              thread / 32 % 4 * 16;
    const int channels = p->group_out - w.first < 16 ? p->group_out - w.first : 16;
    w.channels = channels < 0 ? 0 : channels;
    w.first_position = both == 2 ? 0 : warpgroup * p->warpgroup_shift;
    return w;
}

/// Where a lane's sum stands in its warp's tile: sums[block][k] of a thread.
typedef struct talc_gemm_sum {
    int channel, row, column; ///< of 16, of the form's rows, of 32
} talc_gemm_sum;

TALC_TILE_MAP talc_gemm_sum talc_gemm_sum_of(int lane, int block, int k)
{
    const talc_fragment f = talc_fragment_of(lane, k % 4);
    const talc_gemm_sum sum = { f.row, k / 4, block * 8 + f.column };
    return sum;
}

/// The tile, or its first split, that has a pixel in a channel tile.
TALC_TILE_MAP int talc_gemm_tile_with(const talc_gemm_layout *p, int g, int channel_tile,
                                      talc_gemm_pixel at, talc_divisor by_rows,
                                      talc_divisor by_columns)
{
    int rows = g, column;
    if (p->flat) {
        const int position = (at.n * p->image_rows + at.row) * p->pitch + at.column;
        column = (int)talc_quotient(by_columns, (uint32_t)position);
    } else {
        rows = (g * p->N + at.n) * p->row_tiles + (int)talc_quotient(by_rows, (uint32_t)at.row);
        column = (int)talc_quotient(by_columns, (uint32_t)at.column);
    }
    const int tile = p->carry ? (rows * p->channel_tiles + channel_tile) * p->column_tiles + column
                              : (rows * p->column_tiles + column) * p->channel_tiles + channel_tile;
    return tile * p->splits;
}

TALC_END_DECLARATIONS

#endif
