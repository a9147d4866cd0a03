/// Who computes which element of dw by tensor cores, by mma.sync and by wgmma. Compiles as C and as
/// CUDA C++: the kernels find their tiles and elements with these functions, and so does whoever
/// shows or tests what they do.
///
/// A block has a block of 64 output channels, a block of input channels and a group of taps, and of
/// the tiles of positions the share of a split. A column is 8 input channels of a tap: each warp,
/// or warpgroup, has some of them. A thread has four sums of each of its columns and, by mma.sync,
/// of each of two blocks of 16 output channels. They are in memory as [block][split][such four of a
/// thread][thread][4].
#ifndef TALC_BACKENDS_CUDA_CONV2D_WEIGHT_GRADIENT_TILE_MAP_H
#define TALC_BACKENDS_CUDA_CONV2D_WEIGHT_GRADIENT_TILE_MAP_H

#include "backends/cuda/primitives/divisor.h"
#include "backends/cuda/primitives/fragment.h"
#include "tensor/extent.h"

TALC_BEGIN_DECLARATIONS

enum {
    TALC_WEIGHT_OC = 64,        ///< output channels of a block
    TALC_WEIGHT_QUADS = 16,     ///< sets of four of them
    TALC_WEIGHT_PLANE = 8,      ///< input channels of a column
    TALC_WEIGHT_WARPGROUPS = 3, ///< that multiply by wgmma
    /// By mma.sync, warp w of a block has 32 output channels, chosen by w / COLUMN_WARPS, and a
    /// share of the columns, chosen by w % COLUMN_WARPS.
    TALC_WEIGHT_THREADS = 256,
    TALC_WEIGHT_COLUMN_WARPS = 4
};

typedef struct talc_weight_layout {
    bool by_wgmma;
    int groups, group_in, group_out; ///< channels of a group
    int taps, tiles, splits;
    int channels; ///< input channels of a block
    int x_blocks, dy_blocks;
    int group_taps, tap_groups;
    int columns; ///< of a warp or a warpgroup
    int nb;      ///< columns that it has registers for
    /// Every sum finds its element by these.
    talc_divisor by_tap_groups, by_x_blocks, by_dy_blocks, by_planes, by_nb, by_four;
} talc_weight_layout;

TALC_TILE_MAP int talc_weight_threads(const talc_weight_layout *l);

/// Sets the taps of a block, the columns and the divisors. The rest is given.
static inline void talc_weight_set_columns(talc_weight_layout *l)
{
    const int planes = l->channels / TALC_WEIGHT_PLANE,
              warps = l->by_wgmma ? TALC_WEIGHT_WARPGROUPS : TALC_WEIGHT_COLUMN_WARPS,
              max_taps = warps * l->nb / planes;
    l->tap_groups = (int)talc_ceil_div(l->taps, max_taps);
    l->group_taps = (int)talc_ceil_div(l->taps, l->tap_groups);
    l->tap_groups = (int)talc_ceil_div(l->taps, l->group_taps);
    /* A warpgroup has whole taps. */
    l->columns = l->by_wgmma ? (int)talc_ceil_div(l->group_taps, warps) * planes
                             : (int)talc_ceil_div(planes * l->group_taps, warps);
    l->by_tap_groups = talc_divisor_of(l->tap_groups);
    l->by_x_blocks = talc_divisor_of(l->x_blocks), l->by_dy_blocks = talc_divisor_of(l->dy_blocks);
    l->by_planes = talc_divisor_of(planes), l->by_nb = talc_divisor_of(l->nb);
    l->by_four = talc_divisor_of(4 * talc_weight_threads(l));
}

/// The threads of a block that multiply, the fours of sums of each, and the sums of a block.
TALC_TILE_MAP int talc_weight_threads(const talc_weight_layout *l)
{
    return l->by_wgmma ? TALC_WEIGHT_WARPGROUPS * 128 : TALC_WEIGHT_THREADS;
}

TALC_TILE_MAP int talc_weight_fours(const talc_weight_layout *l)
{
    return l->by_wgmma ? l->nb : 2 * l->nb;
}

static inline int talc_weight_block_sums(const talc_weight_layout *l)
{
    return talc_weight_fours(l) * talc_weight_threads(l) * 4;
}

/// A block's share of the work: its channels and taps, and its tiles.
typedef struct talc_weight_share {
    int64_t own;   ///< its index among all shares
    int g, ic, oc; ///< ic, oc: blocks of channels, oc counted over all groups
    int first_tap, taps;
    int first, last; ///< tiles, without the last one
} talc_weight_share;

TALC_TILE_MAP talc_weight_share talc_weight_share_of(const talc_weight_layout *l, int block,
                                                     int split)
{
    talc_weight_share w;
    const int tap_group = block % l->tap_groups, rest = block / l->tap_groups;
    w.ic = rest % l->x_blocks, w.oc = rest / l->x_blocks;
    w.g = w.oc / l->dy_blocks;
    w.first_tap = tap_group * l->group_taps;
    const int left = l->taps - w.first_tap;
    w.taps = l->group_taps < left ? l->group_taps : left;
    w.own = (int64_t)block * l->splits + split;
    w.first = (int)((int64_t)l->tiles * split / l->splits);
    w.last = (int)((int64_t)l->tiles * (split + 1) / l->splits);
    return w;
}

/// Where sum k of four number `four` of a thread is, among those of a block of so many threads that
/// multiply.
TALC_TILE_MAP int talc_weight_sum_at(int threads, int thread, int four, int k)
{
    return (four * threads + thread) * 4 + k;
}

/// Where 32 sums that follow one another begin: of a plane of input channels and a tap of the
/// block, and one of TALC_WEIGHT_QUADS sets of four output channels.
typedef struct talc_weight_place {
    int at;
    int own; ///< the column among those of its warp
} talc_weight_place;

TALC_TILE_MAP void talc_weight_skip_columns(const talc_weight_layout *l, talc_weight_place *place,
                                            int columns)
{
    const int four = 4 * talc_weight_threads(l), warp = 4 * 32 * (l->by_wgmma ? 4 : 1);
    place->own += columns, place->at += columns * four;
    for (; place->own >= l->columns; place->own -= l->columns)
        place->at += warp - l->columns * four;
}

TALC_TILE_MAP talc_weight_place talc_weight_place_of(const talc_weight_layout *l, int plane,
                                                     int tap, int quad)
{
    const int of_warp = quad / 4, lanes = quad % 4 * 8;
    const int warp = l->by_wgmma ? of_warp : of_warp / 2 * TALC_WEIGHT_COLUMN_WARPS,
              four = l->by_wgmma ? 0 : of_warp % 2 * l->nb;
    talc_weight_place place = {
        talc_weight_sum_at(talc_weight_threads(l), warp * 32 + lanes, four, 0), 0
    };
    talc_weight_skip_columns(l, &place, tap * (l->channels / TALC_WEIGHT_PLANE) + plane);
    return place;
}

/// Goes on to the next tap.
TALC_TILE_MAP void talc_weight_next_tap(const talc_weight_layout *l, talc_weight_place *place)
{
    talc_weight_skip_columns(l, place, l->channels / TALC_WEIGHT_PLANE);
}

/// An element of dw, with channels of its group. tap is -1 where there is none.
typedef struct talc_weight_element {
    int g, oc, ic, tap;
} talc_weight_element;

/// The first element of a block: its channels and its tap.
TALC_TILE_MAP talc_weight_element talc_weight_first_of(const talc_weight_layout *l, int block)
{
    const int rest = (int)talc_quotient(l->by_tap_groups, (uint32_t)block),
              oc_block = (int)talc_quotient(l->by_x_blocks, (uint32_t)rest);
    talc_weight_element e;
    e.g = (int)talc_quotient(l->by_dy_blocks, (uint32_t)oc_block);
    e.oc = (oc_block - e.g * l->dy_blocks) * TALC_WEIGHT_OC;
    e.ic = (rest - oc_block * l->x_blocks) * l->channels;
    e.tap = (block - rest * l->tap_groups) * l->group_taps;
    return e;
}

/// The element that is a row of its 64 output channels, one of its input channels and of its taps.
TALC_TILE_MAP talc_weight_element talc_weight_element_at(const talc_weight_layout *l, int block,
                                                         int row, int channel, int tap)
{
    talc_weight_element e = talc_weight_first_of(l, block);
    e.oc += row, e.ic += channel, e.tap += tap;
    if (tap >= l->group_taps || e.tap >= l->taps || e.ic >= l->group_in || e.oc >= l->group_out)
        e.tap = -1;
    return e;
}

/// The element that the sum at `at` of a block belongs to.
TALC_TILE_MAP talc_weight_element talc_weight_element_of(const talc_weight_layout *l, int block,
                                                         int at)
{
    const int four = (int)talc_quotient(l->by_four, (uint32_t)at),
              thread = (at - four * (int)l->by_four.by) / 4;
    const int warp = thread / 32;
    const int below = l->by_wgmma ? 0 : (int)talc_quotient(l->by_nb, (uint32_t)four);
    const int column_warp = l->by_wgmma ? warp / 4 : warp % TALC_WEIGHT_COLUMN_WARPS,
              own = four - below * l->nb;
    const talc_fragment f = talc_fragment_of(thread % 32, at % 4);
    const int row =
        (l->by_wgmma ? warp % 4 * 16 : warp / TALC_WEIGHT_COLUMN_WARPS * 32 + below * 16) + f.row;
    const int planes = l->channels / TALC_WEIGHT_PLANE, column = column_warp * l->columns + own,
              tap = (int)talc_quotient(l->by_planes, (uint32_t)column);
    talc_weight_element e = talc_weight_element_at(
        l, block, row, (column - tap * planes) * TALC_WEIGHT_PLANE + f.column, tap);
    if (own >= l->columns)
        e.tap = -1;
    return e;
}

/// The row of a block's output channels of which 32 sums of a set of four have the i-th.
TALC_TILE_MAP int talc_weight_quad_row(int quad, int i)
{
    return quad / 4 * 16 + quad % 4 * 2 + talc_fragment_of(i / 4, i % 4).row;
}

TALC_END_DECLARATIONS

#endif
