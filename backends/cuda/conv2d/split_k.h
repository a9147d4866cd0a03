/// Weight gradients as matrix products whose sums are long and whose results are few. Private to
/// backends/cuda.
///
/// Of group g, with OC and K those of a group and B_n the im2col matrix of image n,
///
///     dw_g [OC, K] = sum over n of dy_n [OC, OH*OW] B_n^T [OH*OW, K]
///
/// The few tiles of dw would leave most of the GPU idle, so the columns are shared out among
/// `slots` sums of their own, which a batched product makes side by side; every further one adds to
/// them. At the end they are added in their order.
#ifndef TALC_BACKENDS_CUDA_CONV2D_SPLIT_K_H
#define TALC_BACKENDS_CUDA_CONV2D_SPLIT_K_H

#include "backends/cuda/conv2d/slice_products.h"

TALC_BEGIN_DECLARATIONS

/// How the sums over `images` images and `columns` columns at a time are shared out.
typedef struct talc_cuda_conv2d_sums_plan {
    int64_t slots;
    int64_t cut;  ///< columns of one product
    size_t bytes; ///< of workspace; 0 with a single slot, which is dw itself
} talc_cuda_conv2d_sums_plan;

/// For `rows` rows of B at a time, in at most `limit` bytes.
talc_cuda_conv2d_sums_plan talc_cuda_conv2d_sums_cut(const talc_device *device,
                                                     const talc_conv2d_problem *problem,
                                                     int64_t rows, int64_t images, int64_t columns,
                                                     size_t limit);

/// Sums under way: rows [row, row + rows) of B, group `group`.
typedef struct talc_cuda_conv2d_sums {
    talc_cuda_conv2d_sums_plan plan;
    void *workspace; ///< plan.bytes
    int64_t group, row, rows;
    int64_t filled; ///< slots that hold something; 0 at first
} talc_cuda_conv2d_sums;

/// Whole images, each with a sum of its own.
talc_cuda_conv2d_sums_plan talc_cuda_conv2d_sums_whole(const talc_conv2d_problem *problem,
                                                       int64_t rows);

/// The time of the products of a chunk of `images` images and `columns` columns, of `rows` rows of
/// B, and of adding the slots.
double talc_cuda_conv2d_sums_seconds(const talc_device *device, const talc_conv2d_problem *problem,
                                     const talc_cuda_conv2d_sums_plan *plan, int64_t rows,
                                     int64_t images, int64_t columns);

/// Adds a chunk, whose slices are images: `chunk->b` is B of the group. No later chunk has more
/// columns than the first.
talc_status talc_cuda_conv2d_sums_add(talc_device *device, const talc_conv2d_problem *problem,
                                      const talc_conv2d_arguments *arguments,
                                      const talc_cuda_conv2d_chunk *chunk,
                                      talc_cuda_conv2d_sums *sums);

/// Writes the group's rows of arguments->dw.
talc_status talc_cuda_conv2d_sums_end(talc_device *device, const talc_conv2d_problem *problem,
                                      const talc_conv2d_arguments *arguments,
                                      const talc_cuda_conv2d_sums *sums);

/// Writes arguments->dw, the sum of `shares` of its size, one after the other in the workspace.
talc_status talc_cuda_conv2d_add_shares(talc_device *device, const talc_conv2d_problem *problem,
                                        const talc_conv2d_arguments *arguments, int64_t shares);

TALC_END_DECLARATIONS

#endif
