/// The implicit matrix product behind `implicit_gemm`, which serves y and dx. Private to
/// backends/cpu.
#ifndef TALC_BACKENDS_CPU_CONV2D_IMPLICIT_GEMM_H
#define TALC_BACKENDS_CPU_CONV2D_IMPLICIT_GEMM_H

#include "backends/cpu/conv2d/halo_tile.h"
#include "backends/cpu/primitives/processor.h"
#include "ops/conv2d.h"
#include "ops/owner_map.h"

/// As many phases as a gradient at a stride may have.
enum { TALC_CPU_PHASES = 64 };

/// The taps of a phase along an axis: of the positions of a window, `first`, first + step, ... Its
/// weights are `weight`, weight + weight_step, ... elements from those of position 0.
typedef struct talc_cpu_phase {
    int64_t taps;
    int64_t first, step;
    int64_t weight, weight_step;
} talc_cpu_phase;

/// For each image n, group g and pair of phases a, b, with x' being x and the padding around it,
///
///     y[n, g, m, i*h_phases + a, j*w_phases + b] =
///         sum over c and the phases' taps of w[g, m, c, tap]
///         * x'[n, g, c, h.start + i*h.stride + position_h*h.dilation,
///              w.start + j*w.stride + position_w*w.dilation]
///
/// where elements of w may stand anywhere.
typedef struct talc_cpu_gemm {
    const talc_cpu_kernels *kernels; ///< of dtype
    int64_t cache_bytes;             ///< of a core's L2 cache
    int64_t threads;                 ///< that the blocks are for
    talc_dtype dtype;
    talc_padding_mode padding_mode;
    int64_t N, groups;
    int64_t out_channels, in_channels; ///< of y and x in a group; x is dy where y is dx
    int64_t H, W;                      ///< extents of y
    talc_cpu_axis h, w; ///< outputs are those of one phase, taps all positions of a window
    int64_t h_phases, w_phases;
    const talc_cpu_phase *h_phase, *w_phase;
    struct {
        int64_t group_stride, out_stride, in_stride; ///< elements from one to the next
    } weight;
} talc_cpu_gemm;

/// The windows of a forward problem along its axes.
static inline talc_cpu_axis talc_cpu_rows_of(const talc_conv2d_problem *p)
{
    return (talc_cpu_axis){ p->H, p->OH, p->KH, p->stride_h, p->dilation_h, -p->pad_top };
}

static inline talc_cpu_axis talc_cpu_columns_of(const talc_conv2d_problem *p)
{
    return (talc_cpu_axis){ p->W, p->OW, p->KW, p->stride_w, p->dilation_w, -p->pad_left };
}

/// The input gradient as such a product: its phases are convolutions of dy.
typedef struct talc_cpu_input_phases {
    talc_cpu_phase h[TALC_CPU_PHASES], w[TALC_CPU_PHASES];
} talc_cpu_input_phases;

talc_cpu_gemm talc_cpu_implicit_gemm_input_of(const talc_conv2d_problem *p,
                                              talc_cpu_input_phases *phases);

/// How it is divided. A task is a block of outputs of one image, or of several small ones, times a
/// block of output channels.
typedef struct talc_cpu_gemm_plan {
    int64_t rows, columns, images, out_channels; ///< of a block
    int64_t row_blocks, column_blocks, image_blocks, out_blocks;
    int64_t in_channels; ///< in a halo tile
    talc_cpu_halo_tile halo_tile;
    int64_t segments;           ///< of a block's columns in a segmented halo tile; 1
    int64_t h_ranges, w_ranges; ///< of taps that a table of terms has, of which tiles take those
                                ///< that reach the image; 1: all
    bool has_ranges; ///< the problem has ranges of taps, though the workspace may lack capacity for
                     ///< their tables: sums end alike then, so bits do not depend on it
    bool gathered;   ///< the microkernel reads copies of the halo tile, one for each tap, without
                     ///< outputs of no use
    bool stores_to_y;         ///< tiles go to y itself, whose rows are whole vectors
    int64_t channel_stride;   ///< elements of a channel of what the microkernel reads
    int64_t phase_elements;   ///< sums of a plane of one phase
    int64_t sums_elements;    ///< sums of a worker, which y gets when they are complete
    int64_t staging_elements; ///< from which a worker gathers a channel; 0: it gathers none
    size_t terms_bytes;       ///< of the table of terms, for all workers
    size_t shared_bytes;      ///< of the halo tiles that all tasks share; 0: each fills its own
    size_t slice;             ///< bytes of workspace for each worker
} talc_cpu_gemm_plan;

/// A plan within the limit, or the one of the smallest halo tile.
void talc_cpu_gemm_plan_of(const talc_cpu_gemm *gemm, size_t limit, talc_cpu_gemm_plan *plan);

/// Workspace for as many workers as there are threads and tasks, and as the limit has space for.
size_t talc_cpu_gemm_workspace(const talc_cpu_gemm *gemm, const talc_cpu_gemm_plan *plan,
                               size_t limit);

/// Who computes which element of y.
void talc_cpu_gemm_map(const talc_cpu_gemm *gemm, const talc_cpu_gemm_plan *plan,
                       talc_owner_map *map);

/// Runs it for a problem. Forward, y has one phase, and gets the problem's bias, residual and
/// activation. An input gradient, dx, is a sum over elements of dy alone: what becomes NaN, maybe
/// by a weight that is not finite times a zero around them, is recomputed.
talc_status talc_cpu_gemm_run(const talc_cpu_gemm *gemm, const talc_cpu_gemm_plan *plan,
                              const void *x, const void *w, void *y, void *workspace,
                              size_t workspace_bytes, const talc_conv2d_problem *problem,
                              const talc_conv2d_arguments *arguments);

#endif
