/// The matrix of the im2col convolution: built, and added back. Private to backends/cpu.
///
/// For one image and group the im2col matrix B has a row for each tap of an input channel and a
/// column for each output of a plane:
///
///     B[(ic * KH + kh) * KW + kw, oh * OW + ow] = x'[ic, oh*stride_h - top + kh*dilation_h,
///                                                    ow*stride_w - left + kw*dilation_w]
#ifndef TALC_BACKENDS_CPU_CONV2D_IM2COL_H
#define TALC_BACKENDS_CPU_CONV2D_IM2COL_H

#include "tensor/extent.h"
#include "backends/cpu/device/threads.h"
#include "ops/conv2d.h"

/// A block of columns of B.
typedef struct talc_cpu_im2col_block {
    const talc_conv2d_problem *problem;
    int64_t first, count; ///< outputs first .. first + count - 1 of a plane
    int64_t ld;           ///< elements from one row of the block to the next
} talc_cpu_im2col_block;

/// Writes rows k .. k + rows - 1 of the block to `dst`; `x` is the first input plane of the image
/// and group.
void talc_cpu_im2col_fill(const talc_cpu_im2col_block *block, const void *x, int64_t k,
                          int64_t rows, void *dst);

/// The other way round: adds each element of these rows, from `src`, to the pixel that it would be
/// read from, in the order of rows and columns. Padding is zeros; what stands there is dropped.
void talc_cpu_im2col_add(const talc_cpu_im2col_block *block, const void *src, int64_t k,
                         int64_t rows, void *dx);

/// Wide blocks start where a cache line does, when planes do.
static inline int64_t talc_cpu_im2col_aligned(int64_t columns)
{
    return columns < 64 ? columns : talc_round_up(columns, 16);
}

#endif
