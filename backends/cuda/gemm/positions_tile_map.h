/// Who computes which output of pointwise(mma) and gather_gemm. Compiles as C and as CUDA C++: the
/// kernels find their outputs with these functions, and so does whoever shows or tests what they
/// do.
///
/// A position is an output pixel, counted over all images. A warp has 32, a thread four: next
/// to each other where planes allow vectors, else 8 apart. Of each eight output channels a thread
/// has two.
///
/// pointwise(mma): a block (x, y) has a range of output channels of a group, by y. Warps take tiles
/// of 32 positions, one after the other, all channels of the range each.
///
/// gather_gemm: a block (x, y, z) has 128 or 256 positions and some channels of a group. Its two
/// warpgroups divide the positions (a width of 2) or the channels. The blocks z of a cluster share
/// the sum; each adds up all its parts of some of the eights of channels, and stores them.
#ifndef TALC_BACKENDS_CUDA_GEMM_POSITIONS_TILE_MAP_H
#define TALC_BACKENDS_CUDA_GEMM_POSITIONS_TILE_MAP_H

#include "backends/cuda/primitives/fragment.h"

TALC_BEGIN_DECLARATIONS

enum {
    TALC_POINTWISE_POSITIONS = 32, ///< of a warp
    TALC_POINTWISE_FOUR = 4,       ///< positions of a thread
    TALC_POINTWISE_EIGHT = 8,      ///< output channels of a product
    TALC_GATHER_POSITIONS = 128    ///< of a warpgroup
};

/// A thread's first position among those of its warp, and how far behind it the others are.
TALC_TILE_MAP int talc_pointwise_first_position(bool vectors, int lane)
{
    return lane / 4 * (vectors ? TALC_POINTWISE_FOUR : 1);
}

TALC_TILE_MAP int talc_pointwise_behind(bool vectors, int q)
{
    return vectors ? q : 8 * q;
}

/// A thread's first of its two neighbours among eight output channels.
TALC_TILE_MAP int talc_pointwise_first_channel(int lane)
{
    return lane % 4 * 2;
}

/// The output channels of a block: those of its group from `first` on.
typedef struct talc_pointwise_channels {
    int g, first, count;
} talc_pointwise_channels;

/// Of block y, where each of `ranges` blocks has at most `range` of the channels of a group.
TALC_TILE_MAP talc_pointwise_channels talc_pointwise_channels_of(int group_out, int range,
                                                                 int ranges, int y)
{
    talc_pointwise_channels c;
    c.g = y / ranges;
    c.first = (y - c.g * ranges) * range;
    c.count = range < group_out - c.first ? range : group_out - c.first;
    return c;
}

/// The first tile of a warp of block x; it goes on by `blocks` times the warps of a block.
TALC_TILE_MAP int talc_pointwise_first_tile(int x, int warps, int warp)
{
    return x * warps + warp;
}

/// A thread's first position and its warpgroup's first channel, in a block of gather_gemm of
/// `width`, whose warpgroups have n channels.
typedef struct talc_gather_place {
    int position, channel;
} talc_gather_place;

TALC_TILE_MAP talc_gather_place talc_gather_place_of(int width, int n, bool vectors, int warpgroup,
                                                     int thread)
{
    talc_gather_place at;
    at.position = (width == 2 ? warpgroup * TALC_GATHER_POSITIONS : 0) +
                  thread % TALC_GATHER_POSITIONS / 32 * 32 +
                  talc_pointwise_first_position(vectors, thread % 32);
    at.channel = width == 2 ? 0 : warpgroup * n;
    return at;
}

/// The eights of the n channels of a warpgroup that block z of a cluster of `blocks` adds up. Where
/// there are twice as many blocks as eights, a block does so for one warpgroup alone.
typedef struct talc_gather_eights {
    int begin, end;
} talc_gather_eights;

TALC_TILE_MAP talc_gather_eights talc_gather_eights_of(int n, int blocks, int z, int warpgroup)
{
    const int eights = n / TALC_POINTWISE_EIGHT, each = blocks > eights ? 1 : eights / blocks;
    talc_gather_eights e;
    e.begin = blocks > eights ? z / 2 : z * each;
    e.end = blocks > eights && z % 2 != warpgroup ? e.begin : e.begin + each;
    return e;
}

TALC_END_DECLARATIONS

#endif
