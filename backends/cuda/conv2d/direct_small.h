/// The plan of direct(small), and who computes which of its outputs. Plain C without CUDA, and CUDA
/// C++: the kernel finds its outputs with these functions, and so does whoever shows or tests what
/// it does.
///
/// A unit is 8 output channels at neighbouring columns of a row of a phase, the sums of a thread. A
/// warp has 32 units. The 8 warps of a block are groups of channels, times groups of units, times
/// splits of the input channels; the splits add their sums together at the end, each those of some
/// of the 8 channels.
#ifndef TALC_BACKENDS_CUDA_CONV2D_DIRECT_SMALL_H
#define TALC_BACKENDS_CUDA_CONV2D_DIRECT_SMALL_H

#include "backends/cuda/primitives/divisor.h"
#include "backends/cuda/primitives/fragment.h"
#include "ops/conv2d.h"

TALC_BEGIN_DECLARATIONS

enum {
    TALC_SMALL_CHANNELS = 8, ///< of a unit
    TALC_SMALL_COLUMNS = 8,  ///< of a unit
    TALC_SMALL_WARPS = 8,    ///< of a block
    TALC_SMALL_PHASES = 16,
    TALC_SMALL_VECTOR = 4, ///< elements of a load of 16 bytes
    /// Of shared memory, for a block, so that two of them fit a multiprocessor.
    TALC_SMALL_SHARED_BYTES = 110 << 10
};

/// The outputs first + stride * q along each axis, of which there are `count`. Tap j of output q
/// reads the input at q * step - before + j * dilation.
typedef struct talc_small_phase {
    int count_h, count_w, taps_h, taps_w, before_h, before_w;
    int tap, tap_h, tap_w; ///< offset in w of the first tap, and strides of its rows and columns
    int out;               ///< offset of the first output in its plane
    talc_divisor by_taps_h;
} talc_small_phase;

/// A forward problem, or an input gradient, whose inputs are dy and whose outputs are dx.
typedef struct talc_small_shape {
    int N, groups, IC, OC, H, W, plane; ///< plane: elements of a plane of the output
    int step_h, step_w, dilation_h, dilation_w, out_row, out_column;
    int64_t w_out, w_in; ///< elements of w from channel to channel
    talc_padding_mode mode;
    bool only_inside; ///< sums leave out products with padding (ops/conv2d.h)
    int phase_count, count_h, count_w, taps_h, taps_w; ///< the maxima over the phases
    talc_small_phase phases[TALC_SMALL_PHASES];
} talc_small_shape;

/// How the outputs are divided among blocks. The plan keeps it.
typedef struct talc_small_tiles {
    int channel_groups, unit_groups, splits; ///< of a block: of output channels, of units, and of
                                             ///< the input channels
    int images, rows;                        ///< of a block
    int halo_tile_rows, pitch, halo_tile; ///< of one channel: rows, elements from row to row, and
                                          ///< elements in all
    int stage_channels;                   ///< input channels in shared memory at a time
    int64_t blocks;
    size_t shared; ///< bytes
} talc_small_tiles;

typedef struct talc_small_layout {
    talc_small_shape s;
    talc_small_tiles t;
    talc_divisor channel_tiles, row_tiles, image_tiles, by_groups, by_row_units, by_rows, by_pitch,
        by_halo_tile_rows;
} talc_small_layout;

/// Elements that a row of a halo tile leaves out after the columns from one unit to the next. At
/// stride 2 the vectors of neighbouring lanes would be 64 bytes apart without this, and their loads
/// would have bank conflicts.
TALC_TILE_CONSTANT int talc_small_hole(int step_w)
{
    return step_w == 2 ? TALC_SMALL_VECTOR : 0;
}

/// Elements from the weights of one tap to the next in shared memory. A vector of padding avoids
/// bank conflicts when they are written.
TALC_TILE_MAP int talc_small_weights_pitch(int channels)
{
    return channels + TALC_SMALL_VECTOR;
}

/// Returns false where an extent is too large for 32-bit arithmetic, or there are too many taps or
/// phases.
bool talc_small_shape_of(const talc_conv2d_problem *p, talc_small_shape *s);

/// The taps of a row that the kernel for the shape is compiled for, at least as many as it has; 0
/// where there is no kernel.
int talc_small_taps(const talc_small_shape *s);

/// Finds the tiles of the least estimate for a GPU that lends a block so many bytes of shared
/// memory. Returns that estimate without the launch, or INFINITY where there are no tiles.
double talc_small_choose(const talc_small_shape *s, int multiprocessors, int64_t block_shared,
                         talc_small_tiles *best);

/// The layout of a shape in such tiles.
talc_small_layout talc_small_layout_of(const talc_small_shape *s, const talc_small_tiles *t);

/// A block's first output channel, row and image, with its group and phase. Rows are those of the
/// phase.
typedef struct talc_small_block {
    int channel, row, image, group, phase;
} talc_small_block;

TALC_TILE_MAP talc_small_block talc_small_block_of(const talc_small_layout *l, uint32_t block)
{
    const uint32_t row_tile = talc_quotient(l->channel_tiles, block),
                   image_tile = talc_quotient(l->row_tiles, row_tile),
                   group = talc_quotient(l->image_tiles, image_tile),
                   phase = talc_quotient(l->by_groups, group);
    const talc_small_block b = { (int)(block - row_tile * l->channel_tiles.by) *
                                     l->t.channel_groups * TALC_SMALL_CHANNELS,
                                 (int)(row_tile - image_tile * l->row_tiles.by) * l->t.rows,
                                 (int)(image_tile - group * l->image_tiles.by) * l->t.images,
                                 (int)(group - phase * l->by_groups.by), (int)phase };
    return b;
}

/// A warp's split and its number there, and in the block its first output channel and first unit.
typedef struct talc_small_warp {
    int split, number, channel, unit;
} talc_small_warp;

TALC_TILE_MAP talc_small_warp talc_small_warp_of(const talc_small_tiles *t, int warp)
{
    const int groups = t->channel_groups * t->unit_groups, split = warp / groups,
              number = warp - split * groups;
    const talc_small_warp w = { split, number, warp % t->channel_groups * TALC_SMALL_CHANNELS,
                                number / t->channel_groups * 32 };
    return w;
}

/// A unit's position in its block. A thread that has no unit gets an image past the block's last.
typedef struct talc_small_unit {
    int image, row, column;
} talc_small_unit;

TALC_TILE_MAP talc_small_unit talc_small_unit_of(const talc_small_layout *l, int unit)
{
    const int line = (int)talc_quotient(l->by_row_units, (uint32_t)unit),
              image = (int)talc_quotient(l->by_rows, (uint32_t)line);
    const talc_small_unit u = { image, line - image * l->t.rows,
                                (unit - line * (int)l->by_row_units.by) * TALC_SMALL_COLUMNS };
    return u;
}

/// The outputs of a unit beside each other; 0 where it has none.
TALC_TILE_MAP int talc_small_outputs_of(const talc_small_layout *l, const talc_small_block *b,
                                        const talc_small_unit *u)
{
    const talc_small_phase *f = &l->s.phases[b->phase];
    const int left = f->count_w - u->column;
    if (u->image >= l->t.images || b->image + u->image >= l->s.N || b->row + u->row >= f->count_h ||
        left <= 0)
        return 0;
    return left < TALC_SMALL_COLUMNS ? left : TALC_SMALL_COLUMNS;
}

/// The first element of a unit in channel `oc` of the output, whose others are out_column apart.
TALC_TILE_MAP int64_t talc_small_first_of(const talc_small_layout *l, const talc_small_block *b,
                                          const talc_small_unit *u, int oc)
{
    const talc_small_shape *s = &l->s;
    return (b->image + u->image) * (int64_t)s->groups * s->OC * s->plane + s->phases[b->phase].out +
           (b->row + u->row) * s->out_row + u->column * s->out_column + (int64_t)oc * s->plane;
}

/// The channels of its units that a split adds together and stores: so many, from split times so
/// many on.
TALC_TILE_MAP int talc_small_stored_channels(const talc_small_tiles *t)
{
    return TALC_SMALL_CHANNELS / t->splits;
}

TALC_END_DECLARATIONS

#endif
