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
    TALC_GEMM_MULTIPLIERS = 2,                ///< warpgroups that multiply
    TALC_GEMM_ROWS = 16,                      ///< rows of the product, output channels, of a warp
    TALC_GEMM_MAX_STRIDE = TALC_GEMM_ROWS     ///< of an input gradient, along an axis
};

/// An input gradient is computed by a forward problem at stride 1, whose x is dy and whose output
/// channels, the rows of the product, are the channels of dx in all phases: the elements whose
/// coordinates are congruent modulo the stride. Position (h, w) of such a row is element
/// (h * stride_h + phase_h, w * stride_w + phase_w) of dx; talc_gemm_tap_of tells its taps.
///
/// The rows are [channels][phase of h][channels of a run][row of 16], and 16 rows are 16 / stride_w
/// channels in all phases of w. So a warp has all columns of some rows of dx, and leaves out the
/// steps of taps that its phase of h does not have. A run is all channels, and the phases of h with
/// the most taps come first. Where each block has one tile, a run is what a warpgroup has: the two
/// warpgroups of a block have different phases, and all blocks as many taps.
typedef struct talc_gemm_dx {
    int group_channels, H, W;                                          ///< of dx
    int KH, KW, stride_h, stride_w, dilation_h, dilation_w, top, left; ///< of the convolution
    int channels;                                                      ///< of 16 rows
    int sixteens;  ///< rows / 16 of a phase of h
    int run;       ///< of them that are neighbours
    int with_taps; ///< phases of h that have taps
    struct {
        short phase, first, end; ///< which, and the rows of the kernel with its taps
    } phase_h[TALC_GEMM_MAX_STRIDE];
    talc_divisor by_run, by_taps, by_stride_h, by_stride_w;
} talc_gemm_dx;

/// A problem, divided into tiles. plan.h sets it.
typedef struct talc_gemm_layout {
    int N, C, H, W, OC, OH, OW, KH, KW, groups;
    int group_in, group_out; ///< channels of a group
    int stride_h, stride_w, dilation_h, dilation_w, top, left;
    talc_padding_mode mode;
    bool only_inside; ///< sums do not include products with padding (ops/conv2d.h)
    bool gradient;    ///< y is dx, x is dy
    bool interleaves; ///< dx has phases
    talc_gemm_dx dx;

    /// Where channels are few, each pair of a channel of x and a phase of the stride is a channel
    /// of the product.
    bool folded;
    int fold_h, fold_w;       ///< phases along each axis; 1 where not folded
    int in;                   ///< channels of a group, folded
    int taps_h, taps_w, taps; ///< taps of a K tile, folded
    int channels;             ///< channels of a K tile
    int bands;                ///< of taps_h rows of the kernel, of which a K tile has one
    int k_tiles;              ///< [channels][band]
    int steps;                ///< products of a K tile, a multiple of the form's run

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
    int tiles_with_taps; ///< channel tiles; the others are zero
    int tile_rows, tile_columns;
    int halo_tile_bytes, buffers;
    bool packs;              ///< a kernel of its own writes all halo tiles to memory (packed.cuh)
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
    /// The index of a tile is [channels][group][n][row][outer][inner][split]. Inner and outer are
    /// channel and column, with carry column and channel. With phases channels are the outermost.
    talc_divisor by_inner, by_outer, by_row_tiles, by_N, by_groups, by_splits;
    talc_divisor by_pitch, by_image_rows, by_positions, by_kernel, by_bands, by_sixteens;
} talc_gemm_layout;

/// A tile, or one split of a tile.
typedef struct talc_gemm_tile {
    int g, channel_tile;
    int n, row, column;  ///< its first pixel; column of a flat tile is its first position
    int split;           ///< which split of the tile it is
    int k_tile, k_tiles; ///< its first K tile, and their count
    int halo_tile;       ///< which of the halo tiles of all pixels and groups it reads
    bool before, after;  ///< with carry: the row has a tile before this one, or after it
} talc_gemm_tile;

TALC_TILE_MAP talc_gemm_tile talc_gemm_tile_of(const talc_gemm_layout *p, int t)
{
    talc_gemm_tile a = { 0, 0, 0, 0, 0, 0, 0, 0, 0, false, false };
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
    a.halo_tile = rows * p->column_tiles + column;
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

/// The same where dx may have phases. A tile of phases without taps has no K tiles.
TALC_TILE_MAP talc_gemm_tile talc_gemm_dx_tile_of(const talc_gemm_layout *p, int t)
{
    talc_gemm_tile a = talc_gemm_tile_of(p, t);
    if (p->interleaves) {
        const int outermost = (int)talc_quotient(p->by_groups, (uint32_t)a.g);
        a.g -= outermost * p->groups;
        a.channel_tile = outermost;
        a.halo_tile -= outermost * p->groups * p->pixel_tiles;
        if (outermost >= p->tiles_with_taps)
            a.k_tiles = 0;
    }
    return a;
}

/// The first tile that reads a halo tile, without carry.
TALC_TILE_MAP int talc_gemm_first_reader(const talc_gemm_layout *p, int halo_tile)
{
    return halo_tile * (int)p->by_inner.by * p->splits;
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

/// Blocks of a launch.
TALC_TILE_MAP int talc_gemm_blocks_of(const talc_gemm_layout *p, int multiprocessors)
{
    const int runs = p->tiles / talc_gemm_run_of(p);
    return runs < multiprocessors ? runs : multiprocessors;
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

/// A K tile: which of those of its band it is, and its band.
typedef struct talc_gemm_k_tile {
    int of_band, band;
} talc_gemm_k_tile;

TALC_TILE_MAP talc_gemm_k_tile talc_gemm_k_tile_of(const talc_gemm_layout *p, int k_tile)
{
    const int of_band = (int)talc_quotient(p->by_bands, (uint32_t)k_tile);
    const talc_gemm_k_tile k = { of_band, k_tile - of_band * p->bands };
    return k;
}

/// The halo tile of a band is that of the rows further down by those of the bands before it.
TALC_TILE_MAP int talc_gemm_rows_before(const talc_gemm_layout *p, int band)
{
    return band * p->taps_h * p->dilation_h;
}

/// The weight of a tap and a channel of the halo tile: its channel of x in the group and its place
/// in the kernel. Where the problem is folded, that place may lie outside of the kernel.
typedef struct talc_gemm_weight {
    int ic, kh, kw;
} talc_gemm_weight;

TALC_TILE_MAP talc_gemm_weight talc_gemm_weight_of(const talc_gemm_layout *p, int tap, int channel)
{
    talc_gemm_weight w = { channel, tap / p->taps_w, 0 };
    w.kw = tap - w.kh * p->taps_w;
    if (p->folded) {
        const int phase = channel / p->group_in, phase_h = phase / p->fold_w;
        w.ic -= phase * p->group_in;
        w.kh = w.kh * p->stride_h + phase_h;
        w.kw = w.kw * p->stride_w + phase - phase_h * p->fold_w;
    }
    return w;
}

/// Warpgroups of a tile that differ in channels: 1 or 2.
TALC_TILE_MAP int talc_gemm_channel_warpgroups(const talc_gemm_layout *p)
{
    return p->warpgroup_shift == 0 ? TALC_GEMM_MULTIPLIERS : 1;
}

/// Which 64 rows of the product a warpgroup has, of a group.
TALC_TILE_MAP int talc_gemm_block_of(const talc_gemm_layout *p, int channel_tile, int warpgroup)
{
    return talc_gemm_channel_warpgroups(p) == 2 ? channel_tile * 2 + warpgroup : channel_tile;
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
    const int warpgroup = thread / 128;
    talc_gemm_warp_tile w;
    w.lane = thread % 32;
    w.first = talc_gemm_block_of(p, a->channel_tile, warpgroup) * TALC_GEMM_CHANNELS +
              thread / 32 % 4 * TALC_GEMM_ROWS;
    const int left = p->group_out - w.first,
              channels = left < TALC_GEMM_ROWS ? left : TALC_GEMM_ROWS;
    w.channels = channels < 0 ? 0 : channels;
    w.first_position = warpgroup * p->warpgroup_shift;
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

/// 16 rows of the product of an input gradient: the number of their phase of h, and their first
/// channel.
typedef struct talc_gemm_sixteen {
    int phase_h, channel;
} talc_gemm_sixteen;

TALC_TILE_MAP talc_gemm_sixteen talc_gemm_sixteen_of(const talc_gemm_dx *dx, int number)
{
    const int run = (int)talc_quotient(dx->by_run, (uint32_t)number),
              turn = (int)talc_quotient(dx->by_stride_h, (uint32_t)run);
    const talc_gemm_sixteen sixteen = { run - turn * dx->stride_h,
                                        ((turn - run) * dx->run + number) * dx->channels };
    return sixteen;
}

/// A row of that product.
typedef struct talc_gemm_dx_row {
    bool exists;
    int channel, phase_h, phase_w;
} talc_gemm_dx_row;

TALC_TILE_MAP talc_gemm_dx_row talc_gemm_dx_row_of(const talc_gemm_dx *dx, int row)
{
    const talc_gemm_sixteen sixteen = talc_gemm_sixteen_of(dx, row / TALC_GEMM_ROWS);
    const int at = row % TALC_GEMM_ROWS, c = (int)talc_quotient(dx->by_stride_w, (uint32_t)at);
    talc_gemm_dx_row r = { false, sixteen.channel + c, dx->phase_h[sixteen.phase_h].phase,
                           at - c * dx->stride_w };
    r.exists = c < dx->channels && r.channel < dx->group_channels;
    return r;
}

/// The row of that product and the pixel that have element (h, w) of a channel of dx.
TALC_TILE_MAP int talc_gemm_row_with(const talc_gemm_dx *dx, int channel, int h, int w,
                                     talc_gemm_pixel *at)
{
    at->row = (int)talc_quotient(dx->by_stride_h, (uint32_t)h);
    at->column = (int)talc_quotient(dx->by_stride_w, (uint32_t)w);
    int number = 0; /* of the phase of h */
    while (dx->phase_h[number].phase != h - at->row * dx->stride_h)
        number++;
    const int of_phase = channel / dx->channels,
              turn = (int)talc_quotient(dx->by_run, (uint32_t)of_phase);
    const int sixteen = of_phase + (turn * (dx->stride_h - 1) + number) * dx->run;
    return sixteen * TALC_GEMM_ROWS + (channel - of_phase * dx->channels) * dx->stride_w + w -
           at->column * dx->stride_w;
}

/// Along an axis, the element of w by which a phase of dx reads dy `from_dy` elements from its own
/// position on; -1: none.
TALC_TILE_MAP int talc_gemm_tap_of(int phase, int stride, int dilation, int pad, int K, int from_dy)
{
    const int distance = phase + pad - stride * from_dy,
              tap = dilation == 1 ? distance : distance / dilation;
    return distance >= 0 && tap * dilation == distance && tap < K ? tap : -1;
}

/// The steps of a K tile that 64 rows of the product need, a multiple of the run.
typedef struct talc_gemm_steps {
    int first, count;
} talc_gemm_steps;

TALC_TILE_MAP talc_gemm_steps talc_gemm_steps_of(const talc_gemm_layout *p, int block, int run)
{
    talc_gemm_steps steps = { 0, p->steps };
    if (!p->interleaves)
        return steps;
    const int each = TALC_GEMM_CHANNELS / TALC_GEMM_ROWS;
    int first = p->taps_h, end = 0;
    for (int i = block * each; i < (block + 1) * each; i++) {
        const talc_gemm_sixteen sixteen = talc_gemm_sixteen_of(&p->dx, i);
        const int h = sixteen.phase_h;
        if (h < p->dx.with_taps && sixteen.channel < p->dx.group_channels) {
            first = p->dx.phase_h[h].first < first ? p->dx.phase_h[h].first : first;
            end = p->dx.phase_h[h].end > end ? p->dx.phase_h[h].end : end;
        }
    }
    const int row = p->taps_w * (p->channels / 16);
    steps.first = first < end ? first * row : 0;
    steps.count = first < end ? ((end - first) * row + run - 1) / run * run : 0;
    return steps;
}

typedef struct talc_gemm_rows {
    int first, end;
} talc_gemm_rows;

/// The rows of pixels whose rows of dx, those of a row of the product, may read dy.
TALC_TILE_MAP talc_gemm_rows talc_gemm_reading_rows(const talc_gemm_layout *p, int row)
{
    const int h = talc_gemm_sixteen_of(&p->dx, row / TALC_GEMM_ROWS).phase_h,
              first = p->dx.phase_h[h].first, last = p->dx.phase_h[h].end - 1;
    talc_gemm_rows rows = { 0, 0 };
    if (first <= last) {
        rows.first = p->top - last * p->dilation_h;
        rows.end = p->H + p->top - first * p->dilation_h;
    }
    return rows;
}

/// Where y has a row of the product at a pixel; -1: no such output.
TALC_TILE_MAP int64_t talc_gemm_output_of(const talc_gemm_layout *p, int g, int row,
                                          talc_gemm_pixel at)
{
    if (row >= p->group_out || at.n >= p->N || at.row >= p->OH || at.column >= p->OW)
        return -1;
    if (!p->interleaves)
        return (((int64_t)at.n * p->OC + g * p->group_out + row) * p->OH + at.row) * p->OW +
               at.column;
    const talc_gemm_dx_row r = talc_gemm_dx_row_of(&p->dx, row);
    const int h = at.row * p->dx.stride_h + r.phase_h, w = at.column * p->dx.stride_w + r.phase_w;
    return r.exists && h < p->dx.H && w < p->dx.W
               ? (((int64_t)at.n * p->OC + g * p->dx.group_channels + r.channel) * p->dx.H + h) *
                         p->dx.W +
                     w
               : -1;
}

/// The tile, or its first split, that has a pixel in a channel tile.
TALC_TILE_MAP int talc_gemm_tile_with(const talc_gemm_layout *p, int g, int channel_tile,
                                      talc_gemm_pixel at, talc_divisor by_rows,
                                      talc_divisor by_columns)
{
    int channel_tiles = p->channel_tiles, rows = g, column;
    if (p->interleaves)
        rows += channel_tile * p->groups, channel_tile = 0, channel_tiles = 1;
    if (p->flat) {
        const int position = (at.n * p->image_rows + at.row) * p->pitch + at.column;
        column = (int)talc_quotient(by_columns, (uint32_t)position);
    } else {
        rows = (rows * p->N + at.n) * p->row_tiles + (int)talc_quotient(by_rows, (uint32_t)at.row);
        column = (int)talc_quotient(by_columns, (uint32_t)at.column);
    }
    const int tile = p->carry ? (rows * channel_tiles + channel_tile) * p->column_tiles + column
                              : (rows * p->column_tiles + column) * channel_tiles + channel_tile;
    return tile * p->splits;
}

TALC_END_DECLARATIONS

#endif
