/// Who writes which element of im2col's matrix B (im2col.h). Compiles as C and as CUDA C++: the
/// kernel finds its columns with these functions, and so does whoever shows or tests what it does.
///
/// Block (x, y, z) of a grid writes, of slices z, z + slices, ..., channels y, y + rows, ..., all
/// taps of the columns of its threads.
#ifndef TALC_BACKENDS_CUDA_CONV2D_IM2COL_TILE_MAP_H
#define TALC_BACKENDS_CUDA_CONV2D_IM2COL_TILE_MAP_H

#include "backends/cuda/primitives/fragment.h"
#include "tensor/extent.h"

TALC_BEGIN_DECLARATIONS

enum {
    TALC_IM2COL_THREADS = 256, ///< of a block, at most
    /// Columns that a thread has in flight. They are a warp apart, so that accesses are coalesced.
    TALC_IM2COL_COLUMNS = 4,
    /// Rows of B that a thread writes at least, so that its divisions by OW cost little.
    TALC_IM2COL_WRITES = 16
};

typedef struct talc_im2col_grid {
    int threads;
    int64_t blocks, rows, slices; ///< along x, y, z
} talc_im2col_grid;

/// For so many slices, channels of `taps` rows and columns, on a GPU of so many multiprocessors.
static inline talc_im2col_grid talc_im2col_grid_of(int64_t slices, int64_t channels, int64_t taps,
                                                   int64_t columns, int multiprocessors)
{
    talc_im2col_grid g;
    g.threads = (int)talc_between(talc_ceil_div(columns, TALC_IM2COL_COLUMNS * 32) * 32, 32,
                                  TALC_IM2COL_THREADS);
    g.blocks = talc_ceil_div(columns, g.threads * TALC_IM2COL_COLUMNS);
    g.rows = talc_smaller(channels, 65535), g.slices = talc_smaller(slices, 65535);
    const int64_t full_rows = talc_ceil_div(g.rows * taps, TALC_IM2COL_WRITES);
    if (taps < TALC_IM2COL_WRITES &&
        g.blocks * g.slices * full_rows >= multiprocessors * (int64_t)16)
        g.rows = full_rows;
    return g;
}

/// The first column of a thread, of those of its block: threads times TALC_IM2COL_COLUMNS.
TALC_TILE_MAP int talc_im2col_first_column(int thread)
{
    return thread / 32 * 32 * TALC_IM2COL_COLUMNS + thread % 32;
}

/// How many columns behind its first a thread's c-th is.
TALC_TILE_MAP int talc_im2col_behind(int c)
{
    return c * 32;
}

TALC_END_DECLARATIONS

#endif
