/// The tiles of the algorithm direct(small). Private to backends/cuda.
#ifndef TALC_BACKENDS_CUDA_CONV2D_DIRECT_SMALL_H
#define TALC_BACKENDS_CUDA_CONV2D_DIRECT_SMALL_H

#include <stddef.h>
#include <stdint.h>

/// Of a block: groups of output channels, of units and of splits of the input channels; its images
/// and their rows; the halo tile under them, of one channel, and how many channels are in shared
/// memory at a time. The plan keeps them.
typedef struct talc_cuda_small_tiles {
    int channel_groups, unit_groups, splits, images, rows;
    int halo_tile_rows, pitch, halo_tile, stage_channels;
    int64_t blocks;
    size_t shared;
} talc_cuda_small_tiles;

#endif
