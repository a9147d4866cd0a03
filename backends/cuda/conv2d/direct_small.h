/// The tiles of the algorithm direct(small). Private to backends/cuda.
#ifndef TALC_BACKENDS_CUDA_CONV2D_DIRECT_SMALL_H
#define TALC_BACKENDS_CUDA_CONV2D_DIRECT_SMALL_H

#include <stddef.h>
#include <stdint.h>

/// How the outputs are divided among blocks. The plan keeps it.
typedef struct talc_cuda_small_tiles {
    int channel_groups, unit_groups, splits; ///< of a block: of output channels, of units, and of
                                             ///< the input channels
    int images, rows;                        ///< of a block
    int halo_tile_rows, pitch, halo_tile; ///< of one channel: rows, elements from row to row, and
                                          ///< elements in all
    int stage_channels;                   ///< input channels in shared memory at a time
    int64_t blocks;
    size_t shared; ///< bytes
} talc_cuda_small_tiles;

#endif
