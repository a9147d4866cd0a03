/// What im2col's directions share: how B is cut, and the kernel that writes it (im2col.cu). Private
/// to backends/cuda.
#ifndef TALC_BACKENDS_CUDA_CONV2D_IM2COL_H
#define TALC_BACKENDS_CUDA_CONV2D_IM2COL_H

#include "backends/cuda/conv2d/slice_products.h"

TALC_BEGIN_DECLARATIONS

/// How much of B there is at a time.
typedef struct talc_cuda_im2col_plan {
    int64_t slices, columns, channels; ///< channels are KH * KW rows each
    int64_t ld;                        ///< elements from one row of B to the next
    size_t bytes;                      ///< of B
    size_t packing_at, packing;        ///< for tensor cores, after B; 0 bytes: cuBLAS multiplies
} talc_cuda_im2col_plan;

/// As much of B as `limit` bytes hold, or the least that is worth a launch, for a GPU of so many
/// multiprocessors. Plain C without CUDA (im2col_plan.c).
talc_cuda_im2col_plan talc_cuda_im2col_cut(int multiprocessors, const talc_conv2d_problem *problem,
                                           size_t limit);

/// The same in half of that, with packing for tensor cores: `seconds` is how long all products take
/// there. Why they cannot make them; NULL where they can.
const char *talc_cuda_im2col_cut_packed(const talc_device *device,
                                        const talc_conv2d_problem *problem, size_t limit,
                                        talc_cuda_im2col_plan *plan, double *seconds);

/// Bytes of workspace: B and what follows it.
static inline size_t talc_cuda_im2col_bytes(const talc_cuda_im2col_plan *plan)
{
    return plan->packing > 0 ? plan->packing_at + plan->packing : plan->bytes;
}

/// The first chunk of a plan, B at the start of `workspace`; NULL in a plan. Rows of B are KH * KW
/// = `taps` a channel.
talc_cuda_conv2d_chunk talc_cuda_im2col_chunk(const talc_cuda_im2col_plan *plan, int64_t taps,
                                              void *workspace);

/// Writes chunk->b, of rows that start with a channel, from x.
talc_status talc_cuda_im2col_build(talc_device *device, const talc_conv2d_problem *problem,
                                   const void *x, const talc_cuda_conv2d_chunk *chunk);

/// Writes from chunk->b, of rows that start with a channel, what is read there into dx: the columns
/// before those of the chunk have been added (im2col_gradient.cu).
talc_status talc_cuda_im2col_gather(talc_device *device, const talc_conv2d_problem *problem,
                                    void *dx, const talc_cuda_conv2d_chunk *chunk);

/// Whether 32 bits hold every coordinate of the padded image, and offsets in a plane.
bool talc_cuda_im2col_is_narrow(const talc_conv2d_problem *problem);

TALC_END_DECLARATIONS

#endif
