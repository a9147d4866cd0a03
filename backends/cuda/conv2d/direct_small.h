/// Convolutions of small images, forward and by the input, in one launch of FFMA. Private to
/// backends/cuda; the row `direct` runs them.
#ifndef TALC_BACKENDS_CUDA_CONV2D_DIRECT_SMALL_H
#define TALC_BACKENDS_CUDA_CONV2D_DIRECT_SMALL_H

#include "backends/cuda/cuda.h"

TALC_BEGIN_DECLARATIONS

/// Of a block: groups of output channels, of units and of splits of the input channels; its images
/// and their rows; the patch under them, of one channel, and how many channels are in shared memory
/// at a time.
typedef struct talc_cuda_small_tiles {
    int channel_groups, unit_groups, splits, images, rows;
    int patch_rows, pitch, patch, chunk;
    int64_t blocks;
    size_t shared;
} talc_cuda_small_tiles;

/// The best tiles and how long they take; INFINITY where there are none.
double talc_cuda_conv2d_small_plan(const talc_device *device, const talc_conv2d_problem *problem,
                                   talc_cuda_small_tiles *tiles);

talc_status talc_cuda_conv2d_small_run(talc_device *device, const talc_conv2d_problem *problem,
                                       const talc_cuda_small_tiles *tiles,
                                       const talc_conv2d_arguments *arguments);

TALC_END_DECLARATIONS

#endif
