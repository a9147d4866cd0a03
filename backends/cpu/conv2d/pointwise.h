/// What the files of `pointwise` share: how its products are divided. Private to backends/cpu.
#ifndef TALC_BACKENDS_CPU_CONV2D_POINTWISE_H
#define TALC_BACKENDS_CPU_CONV2D_POINTWISE_H

#include "backends/cpu/conv2d/split_k.h"
#include "backends/cpu/primitives/processor.h"
#include "tensor/extent.h"

/// Bytes at the start of a worker's slice: a key, which tells the columns that the slice has
/// packed.
enum { TALC_CPU_POINTWISE_HEADER = 64 };

/* Rows and columns are those of the microkernel's tiles. */
typedef struct pointwise_plan {
    bool swapped, in_place;       /* the columns are not packed */
    int64_t rows, columns, terms; /* of one image and group */
    int64_t k_block;              /* terms at a time: KC of BLIS */
    int64_t panels, last;         /* of columns; the first column of the last one */
    int64_t row_block, row_blocks;
    int64_t panel_block, column_blocks; /* panels of a block */
    talc_cpu_split_k split_k;           /* dw */
    /* bytes of packed weights, of dx's transposed, of the table of terms, and of what each worker
     * has */
    size_t packed, transposed, terms_bytes, slice;
    size_t compact; /* bytes of the pixels of x or dx that a stride meets, of `images` at a time */
    int64_t images;
} pointwise_plan;

static inline bool is_weight(const talc_conv2d_problem *p)
{
    return p->direction == TALC_GRAD_WEIGHT;
}

/* Columns of a panel at most. */
static inline int64_t width_of(talc_dtype dtype)
{
    return TALC_CPU_VECTORS * talc_cpu_kernels_of(dtype)->lanes;
}

/* The first column of a panel, or the end of them. Instead of one vector alone in the last panel,
 * for which rows would not come fast enough, the last two have two vectors each. */
static inline int64_t column_at(const pointwise_plan *plan, int64_t width, int64_t panel)
{
    return panel < plan->panels - 1 ? panel * width
           : panel < plan->panels   ? plan->last
                                    : plan->columns;
}

/* Blocks of terms, at least one. */
static inline int64_t k_blocks_of(const pointwise_plan *plan)
{
    return talc_larger(talc_ceil_div(plan->terms, plan->k_block), 1);
}

pointwise_plan talc_cpu_pointwise_plan_of(const talc_conv2d_problem *problem, size_t limit);

#endif
