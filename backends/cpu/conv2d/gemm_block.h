/// What the files of implicit_gemm's product share: its blocks, and where a block's sums stand.
/// Private to backends/cpu.
#ifndef TALC_BACKENDS_CPU_CONV2D_GEMM_BLOCK_H
#define TALC_BACKENDS_CPU_CONV2D_GEMM_BLOCK_H

#include "backends/cpu/conv2d/gemm.h"
#include "backends/cpu/primitives/element.h"
#include "tensor/extent.h"

enum { TALC_CPU_GATHERED_STEP = 8 }; ///< elements, of which rows are gathered

typedef struct gemm_context {
    const talc_cpu_gemm *gemm;
    const talc_cpu_gemm_plan *plan;
    const talc_cpu_term *terms;
    const void *x, *w;
    void *y;
    char *shared, *slices;
    const talc_conv2d_problem *problem;
    const talc_conv2d_arguments *arguments;
} gemm_context;

/* A block of y. */
typedef struct gemm_block {
    int64_t n, images;
    int64_t g;
    int64_t made, made_count; /* first plane of the group, how many */
    int64_t row, rows;
    int64_t column, columns;
} gemm_block;

/* Where the sums of a plane of a block have the outputs of an image, or of a group of its columns,
 * and of a row. */
typedef struct sums_layout {
    int64_t all, image, row; /* sums; from one image or group to the next, from one row */
} sums_layout;

static inline int64_t phases_of(const talc_cpu_gemm *g)
{
    return g->h_phases * g->w_phases;
}

/* Taps of all phases. */
static inline int64_t taps_of(const talc_cpu_gemm *g)
{
    int64_t h = 0, w = 0;
    for (int64_t i = 0; i < g->h_phases; i++)
        h += g->h_phase[i].taps;
    for (int64_t i = 0; i < g->w_phases; i++)
        w += g->w_phase[i].taps;
    return h * w;
}

static inline int64_t block_count(const talc_cpu_gemm *g, const talc_cpu_gemm_plan *plan)
{
    return plan->image_blocks * g->groups * plan->row_blocks * plan->column_blocks;
}

static inline int64_t tasks_of(const talc_cpu_gemm *g, const talc_cpu_gemm_plan *plan)
{
    return block_count(g, plan) * plan->made_blocks;
}

/* Elements of a plane that a block computes, of whole vectors. They are counted through all outputs
 * if the halo tile is gathered, else through the rows of an image's slot of the halo tile, each
 * image's, and each group's of folded columns, from a vector of its own. Rows of a group are whole,
 * even in a block of fewer columns. */
static inline int64_t width_of(const talc_cpu_gemm *g, const talc_cpu_gemm_plan *plan,
                               int64_t images, int64_t rows, int64_t columns)
{
    const int64_t lanes = g->kernels->lanes, row = plan->halo_tile.w.size;
    const int64_t last = plan->folds > 1 ? row : columns; /* row */
    return plan->gathered ? talc_round_up(images * rows * columns, lanes)
                          : images * plan->folds * talc_round_up((rows - 1) * row + last, lanes);
}

static inline gemm_block block_of(const talc_cpu_gemm *gemm, const talc_cpu_gemm_plan *plan,
                                  int64_t block_index, int64_t made_block)
{
    gemm_block b = { .made = made_block * plan->made };
    b.column = block_index % plan->column_blocks * plan->columns;
    block_index /= plan->column_blocks;
    b.row = block_index % plan->row_blocks * plan->rows;
    block_index /= plan->row_blocks;
    b.g = block_index % gemm->groups;
    b.n = block_index / gemm->groups * plan->images;
    b.images = talc_smaller(plan->images, gemm->N - b.n);
    b.made_count = talc_smaller(plan->made, gemm->made - b.made);
    b.rows = talc_smaller(plan->rows, gemm->h.outputs - b.row);
    b.columns = talc_smaller(plan->columns, gemm->w.outputs - b.column);
    return b;
}

/* The first element of row `row` of y that a block writes in plane `made` of the group of an
 * image. */
static inline int64_t element_at(const talc_cpu_gemm *g, const gemm_block *b, int64_t n,
                                 int64_t made, int64_t row)
{
    const int64_t plane = (n * g->groups + b->g) * g->made + made;
    return (plane * g->H + row) * g->W + b->column * g->w_phases;
}

static inline char *y_at(const gemm_context *c, const gemm_block *b, int64_t n, int64_t made,
                         int64_t row)
{
    return (char *)c->y +
           element_at(c->gemm, b, n, made, row) * (int64_t)talc_dtype_size(c->gemm->dtype);
}

/* A block's planes are made in panels of as many as a tile of the microkernel has rows. */
static inline int64_t panels_of(const talc_cpu_gemm *g, int64_t planes)
{
    return talc_ceil_div(planes, g->kernels->rows[TALC_CPU_VECTORS]);
}

static inline talc_range panel_at(const talc_cpu_gemm *g, const gemm_block *b, int64_t panel)
{
    const int64_t panels = panels_of(g, b->made_count);
    return (talc_range){ panel * b->made_count / panels, (panel + 1) * b->made_count / panels };
}

static inline sums_layout layout_of(const talc_cpu_gemm *g, const talc_cpu_gemm_plan *plan,
                                    const gemm_block *b)
{
    const int64_t used = b->rows * b->columns;
    if (plan->direct)
        return (sums_layout){ b->images * used, used, b->columns };
    const int64_t all = width_of(g, plan, b->images, b->rows, b->columns);
    return plan->gathered
               ? (sums_layout){ all, used, b->columns }
               : (sums_layout){ all, all / (b->images * plan->folds), plan->halo_tile.w.size };
}

/* The width of a tile with `rest` elements from its first one on: TALC_CPU_VECTORS vectors or all
 * that is left. Instead of one vector alone at the end, for which w would not come fast enough,
 * there are two times two. */
static inline int64_t tile_width(int64_t rest, int64_t lanes)
{
    return rest == 4 * lanes ? 2 * lanes : talc_smaller(rest, TALC_CPU_VECTORS * lanes);
}

/* Where the tiles from sum `at` on end: of tiles that go to y itself, with its plane, else with a
 * group of columns that has more than one vector. */
static inline int64_t end_at(const talc_cpu_gemm *g, const talc_cpu_gemm_plan *plan,
                             const sums_layout *layout, int64_t at)
{
    return plan->direct || (plan->folds > 1 && layout->image > g->kernels->lanes)
               ? at - at % layout->image + layout->image
               : layout->all;
}

/* The width of the tile at sum `at`. */
static inline int64_t width_at(const talc_cpu_gemm *g, const talc_cpu_gemm_plan *plan,
                               const sums_layout *layout, int64_t at)
{
    return tile_width(end_at(g, plan, layout, at) - at, g->kernels->lanes);
}

/// Fills some channels of the halo tile of a block that has `summed` planes of x from plane `from`
/// on. `one` has room for a channel that is still to be gathered.
void talc_cpu_gemm_fill(const gemm_context *c, const gemm_block *b, int64_t from, int64_t summed,
                        talc_range channels, char *one, char *halo_tile);

/// Writes the outputs of plane i of a panel of `count`, plane `made` of the group, to y.
void talc_cpu_gemm_store(const gemm_context *c, const gemm_block *b, int64_t i, int64_t count,
                         const char *sums, int64_t made);

#endif
