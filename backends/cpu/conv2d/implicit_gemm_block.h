/// What the files of implicit_gemm's product share: its blocks, and where a block's sums stand.
/// Private to backends/cpu.
#ifndef TALC_BACKENDS_CPU_CONV2D_IMPLICIT_GEMM_BLOCK_H
#define TALC_BACKENDS_CPU_CONV2D_IMPLICIT_GEMM_BLOCK_H

#include "backends/cpu/conv2d/implicit_gemm.h"
#include "tensor/extent.h"

/// Elements that gathering copies at a time; it may write as many behind a row.
enum { TALC_CPU_GATHERED_STEP = 8 };

/* What the tasks of a product share. */
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
    int64_t out_channel, out_channels; /* the first one, in the group, and how many */
    int64_t row, rows;
    int64_t column, columns;
} gemm_block;

/* The sums of a plane of a block. Parts are images, or segments of their columns. */
typedef struct sums_layout {
    int64_t all; /* how many */
    int64_t part_stride, row_stride;
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
    return block_count(g, plan) * plan->out_blocks;
}

/* Sums of a plane of a block, in whole vectors. Gathered, there is one for each output; else one
 * for each element between the first and the last output of a slot, unused ones too, and every
 * image and segment begins with a new vector. Segments have whole rows, even in a block of fewer
 * columns. */
static inline int64_t width_of(const talc_cpu_gemm *g, const talc_cpu_gemm_plan *plan,
                               int64_t images, int64_t rows, int64_t columns)
{
    const int64_t lanes = g->kernels->lanes, row = plan->halo_tile.w.size;
    const int64_t last_row = plan->segments > 1 ? row : columns;
    return plan->gathered
               ? talc_round_up(images * rows * columns, lanes)
               : images * plan->segments * talc_round_up((rows - 1) * row + last_row, lanes);
}

static inline gemm_block block_of(const talc_cpu_gemm *gemm, const talc_cpu_gemm_plan *plan,
                                  int64_t block_index, int64_t out_block)
{
    gemm_block b = { .out_channel = out_block * plan->out_channels };
    b.column = block_index % plan->column_blocks * plan->columns;
    block_index /= plan->column_blocks;
    b.row = block_index % plan->row_blocks * plan->rows;
    block_index /= plan->row_blocks;
    b.g = block_index % gemm->groups;
    b.n = block_index / gemm->groups * plan->images;
    b.images = talc_smaller(plan->images, gemm->N - b.n);
    b.out_channels = talc_smaller(plan->out_channels, gemm->out_channels - b.out_channel);
    b.rows = talc_smaller(plan->rows, gemm->h.outputs - b.row);
    b.columns = talc_smaller(plan->columns, gemm->w.outputs - b.column);
    return b;
}

/* The plane of y of an output channel of the block's group. */
static inline int64_t plane_at(const talc_cpu_gemm *g, const gemm_block *b, int64_t n,
                               int64_t out_channel)
{
    return (n * g->groups + b->g) * g->out_channels + out_channel;
}

/* The first element that a block writes of row `row` of that plane. */
static inline int64_t element_at(const talc_cpu_gemm *g, const gemm_block *b, int64_t n,
                                 int64_t out_channel, int64_t row)
{
    return (plane_at(g, b, n, out_channel) * g->H + row) * g->W + b->column * g->w_phases;
}

static inline char *y_at(const gemm_context *c, const gemm_block *b, int64_t n, int64_t out_channel,
                         int64_t row)
{
    return (char *)c->y +
           element_at(c->gemm, b, n, out_channel, row) * (int64_t)talc_dtype_size(c->gemm->dtype);
}

/* A block's output channels are divided into panels of at most as many as a tile of the microkernel
 * has rows. */
static inline int64_t panels_of(const talc_cpu_gemm *g, int64_t planes)
{
    return talc_ceil_div(planes, g->kernels->rows[TALC_CPU_VECTORS]);
}

static inline talc_range panel_at(const talc_cpu_gemm *g, const gemm_block *b, int64_t panel)
{
    const int64_t panels = panels_of(g, b->out_channels);
    return (talc_range){ panel * b->out_channels / panels, (panel + 1) * b->out_channels / panels };
}

static inline sums_layout layout_of(const talc_cpu_gemm *g, const talc_cpu_gemm_plan *plan,
                                    const gemm_block *b)
{
    const int64_t used = b->rows * b->columns;
    if (plan->stores_to_y)
        return (sums_layout){ b->images * used, used, b->columns };
    const int64_t all = width_of(g, plan, b->images, b->rows, b->columns);
    return plan->gathered
               ? (sums_layout){ all, used, b->columns }
               : (sums_layout){ all, all / (b->images * plan->segments), plan->halo_tile.w.size };
}

/* The width of a tile with `rest` elements from its first one on: TALC_CPU_VECTORS vectors or all
 * that is left. Instead of one vector alone at the end, for which w would not come fast enough,
 * there are two times two. */
static inline int64_t tile_width(int64_t rest, int64_t lanes)
{
    return rest == 4 * lanes ? 2 * lanes : talc_smaller(rest, TALC_CPU_VECTORS * lanes);
}

/* Where the tiles from sum `at` on end: of tiles that go to y itself, with its plane, else with a
 * segment of more than one vector. */
static inline int64_t end_at(const talc_cpu_gemm *g, const talc_cpu_gemm_plan *plan,
                             const sums_layout *layout, int64_t at)
{
    return plan->stores_to_y || (plan->segments > 1 && layout->part_stride > g->kernels->lanes)
               ? at - at % layout->part_stride + layout->part_stride
               : layout->all;
}

/* The width of the tile at sum `at`. */
static inline int64_t width_at(const talc_cpu_gemm *g, const talc_cpu_gemm_plan *plan,
                               const sums_layout *layout, int64_t at)
{
    return tile_width(end_at(g, plan, layout, at) - at, g->kernels->lanes);
}

/// Fills some channels of the halo tile of a block that has `in_channels` of x from `from` on.
/// `staging` is for a channel that is yet to be gathered.
void talc_cpu_gemm_fill(const gemm_context *c, const gemm_block *b, int64_t from,
                        int64_t in_channels, talc_range channels, char *staging, char *halo_tile);

/// Writes the outputs of plane i of a panel of `count`, channel `out_channel` of the group, to y.
void talc_cpu_gemm_store(const gemm_context *c, const gemm_block *b, int64_t i, int64_t count,
                         const char *sums, int64_t out_channel);

#endif
