/// The implicit matrix product behind `implicit_gemm`, which serves y and dx. Private to backends/cpu.
#ifndef TALC_BACKENDS_CPU_CONV2D_GEMM_H
#define TALC_BACKENDS_CPU_CONV2D_GEMM_H

#include "backends/cpu/conv2d_patch.h"
#include "backends/cpu/processor.h"
#include "ops/conv2d.h"

/// For each image n and group g, with x' being x and the padding around it,
///
///     y[n, g, m, i, j] = sum over c, kh, kw of w[g, m, c, kh, kw]
///                        * x'[n, g, c, h.start + i*h.stride + kh*h.dilation, w.start + j*w.stride + kw*w.dilation]
///
/// where elements of w and y may stand anywhere.
typedef struct talc_cpu_gemm {
    talc_dtype dtype;
    talc_padding_mode padding_mode;
    int64_t N, groups;
    int64_t made, summed; ///< planes of y and x in a group
    talc_cpu_axis h, w;
    struct {
        int64_t first, group, made, summed, h, w; ///< elements from one to the next
    } weight;
    int64_t y_first, y_row, y_column, y_plane; ///< likewise
} talc_cpu_gemm;

/// Bytes, rounded up to cache lines.
static inline size_t talc_cpu_aligned(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/// The windows of a forward problem along its axes.
static inline talc_cpu_axis talc_cpu_rows_of(const talc_conv2d_problem *p)
{
    return (talc_cpu_axis){ p->H, p->OH, p->KH, p->stride_h, p->dilation_h, -p->pad_top };
}

static inline talc_cpu_axis talc_cpu_columns_of(const talc_conv2d_problem *p)
{
    return (talc_cpu_axis){ p->W, p->OW, p->KW, p->stride_w, p->dilation_w, -p->pad_left };
}

/// How it is divided. A task is a block of outputs of one image, or of several small ones, times a block of planes made.
typedef struct talc_cpu_gemm_plan {
    int64_t rows, columns, images, made; ///< of a block
    int64_t row_blocks, column_blocks, image_blocks, made_blocks;
    int64_t summed; ///< planes in a patch
    talc_cpu_patch patch;
    bool
        gathered; ///< the microkernel reads copies of the patch, one for each tap, without outputs of no use
    int64_t tap;         ///< then, elements from one such copy to the next
    int64_t channel;     ///< elements from one channel to the next of what the microkernel reads
    int64_t sums;        ///< elements of a worker's sums, which y gets when they are complete
    size_t terms_bytes;  ///< of the table of terms, for all workers
    size_t shared_bytes; ///< of the patches that all tasks share; 0: each fills its own
    size_t slice;        ///< bytes of workspace for each worker
} talc_cpu_gemm_plan;

/// A plan within the limit, or the one of the smallest patch.
void talc_cpu_gemm_plan_of(const talc_cpu_gemm *gemm, size_t limit, talc_cpu_gemm_plan *plan);

/// Workspace for as many workers as there are threads, tasks and room under the limit.
size_t talc_cpu_gemm_workspace(const talc_cpu_gemm *gemm, const talc_cpu_gemm_plan *plan,
                               size_t limit);

/// Runs it. `epilogue`, NULL for none, has the bias, residual and activation of y, whose elements then stand as in NCHW.
talc_status talc_cpu_gemm_run(const talc_cpu_gemm *gemm, const talc_cpu_gemm_plan *plan,
                              const void *x, const void *w, void *y, void *workspace,
                              size_t workspace_bytes, const talc_conv2d_problem *epilogue,
                              const talc_conv2d_arguments *arguments);

#endif
