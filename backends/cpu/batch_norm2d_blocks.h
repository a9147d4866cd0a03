/// How batch normalisation cuts channels into blocks, for both directions. Private to backends/cpu.
#ifndef TALC_BACKENDS_CPU_BATCH_NORM2D_BLOCKS_H
#define TALC_BACKENDS_CPU_BATCH_NORM2D_BLOCKS_H

#include "backends/cpu/norm.h"
#include "backends/cpu/threads.h"
#include "ops/batch_norm2d.h"
#include "tensor/extent.h"

/// The input gradient: by blocks, its workspace, and by the formula in f64 (batch_norm2d_gradient.c).
talc_status talc_cpu_batch_norm2d_gradient(const talc_batch_norm2d_problem *p,
                                           const talc_batch_norm2d_arguments *a);
size_t talc_cpu_batch_norm2d_gradient_workspace(const talc_batch_norm2d_problem *p);
talc_status talc_cpu_batch_norm2d_gradient_reference(const talc_batch_norm2d_problem *p,
                                                     const talc_batch_norm2d_arguments *a);

/* Values of a block. */
enum { BLOCK_VALUES = 16384 };

/* How every channel is cut: blocks of `images` whole planes, or of `length` values of one plane. */
typedef struct talc_cpu_blocks {
    int64_t images, length;
    int64_t segments; /* blocks a plane; 1 with several images */
    int64_t blocks;   /* a channel */
} talc_cpu_blocks;

static inline talc_cpu_blocks talc_cpu_blocks_of(const talc_batch_norm2d_problem *p)
{
    const int64_t plane = p->H * p->W;
    talc_cpu_blocks plan = { .images = plane < BLOCK_VALUES ? BLOCK_VALUES / plane : 1,
                             .length = plane < BLOCK_VALUES ? plane : BLOCK_VALUES };
    plan.segments = talc_ceil_div(plane, plan.length);
    plan.blocks = talc_ceil_div(p->N, plan.images) * plan.segments;
    return plan;
}

/* The stretches of a block are C planes apart. */
static inline talc_cpu_block talc_cpu_block_of(const talc_batch_norm2d_problem *p,
                                               const talc_cpu_blocks *plan, int64_t task)
{
    const int64_t plane = p->H * p->W;
    const int64_t c = task / plan->blocks, in_channel = task % plan->blocks;
    const int64_t n = in_channel / plan->segments * plan->images;
    const int64_t first = in_channel % plan->segments * plan->length;
    return (talc_cpu_block){ .c = c,
                             .offset = (n * p->C + c) * plane + first,
                             .rows = talc_smaller(plan->images, p->N - n),
                             .length = talc_smaller(plan->length, plane - first),
                             .row_stride = p->C * plane };
}

#endif
