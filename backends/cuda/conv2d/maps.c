/// Who computes which output of the GPU's convolutions (ops/owner_map.h), by the functions that the
/// kernels find their outputs with. Plain C, and part of builds without CUDA.
#include "backends/cuda/conv2d/algorithms.h"
#include "backends/cuda/conv2d/direct_small.h"
#include "backends/cuda/conv2d/direct_tile_map.h"
#include "backends/cuda/conv2d/im2col.h"
#include "backends/cuda/conv2d/im2col_tile_map.h"
#include "backends/cuda/conv2d/implicit_gemm/plan.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define MAPPED(function, name, form, text, precision, map) { name, form, precision, map },

const talc_mapped_algorithm talc_cuda_conv2d_mapped[] = { TALC_CUDA_CONV2D_TABLE(MAPPED){
    .name = NULL } };

static void keep(talc_owner_map *map, const void *own, size_t bytes)
{
    memcpy(map->data.bytes, own, bytes);
}

#define KEPT(type, map) ((const type *)(map)->data.bytes)

static void add_loop(talc_owner_map *map, const char *name, talc_loop_index index, int64_t step,
                     int64_t extent)
{
    map->loop[map->loops++] = (talc_loop){ name, index, step, extent, TALC_LEVEL_SEQUENCE };
}

/* The loop whose number is the split's. */
static void add_splits(talc_owner_map *map, talc_loop_index index, int64_t step, int64_t splits)
{
    map->loop[map->loops++] = (talc_loop){ "split", index, step, splits, TALC_LEVEL_SPLIT };
}

// ---- implicit_gemm ------------------------------------------------------------------------------

enum { BLOCK, TURN, SPLIT, WARP, LANE, REGISTER, GEMM_LEVELS };

typedef struct gemm_map {
    talc_gemm_layout layout;
    int rows, blocks; /* of the form, of the launch */
} gemm_map;

static int64_t gemm_element(const talc_owner_map *map, const int64_t numbers[])
{
    const gemm_map *m = KEPT(gemm_map, map);
    const talc_gemm_layout *g = &m->layout;
    int t = talc_gemm_first_tile(g, (int)numbers[BLOCK]);
    for (int64_t i = 0; i < numbers[TURN] && t < g->tiles; i++)
        t = talc_gemm_next_tile(g, t, m->blocks);
    if (t >= g->tiles)
        return -1;
    const talc_gemm_tile tile = talc_gemm_dx_tile_of(g, t);
    if (tile.split != numbers[SPLIT])
        return -1;
    const talc_gemm_warp_tile w =
        talc_gemm_warp_tile_of(g, &tile, (int)(numbers[WARP] * 32 + numbers[LANE]));
    const int sums = m->rows * 4, k = (int)numbers[REGISTER];
    const talc_gemm_sum sum = talc_gemm_sum_of(w.lane, k / sums, k % sums);
    const talc_gemm_pixel at =
        talc_gemm_pixel_of(g, &tile, w.first_position + sum.row * g->row_shift + sum.column);
    return sum.channel < w.channels ? talc_gemm_output_of(g, tile.g, w.first + sum.channel, at)
                                    : -1;
}

/* The words of 8 positions of 8 channels are one matrix of ldmatrix, which a warp reads for four
 * sums of each lane and 8 terms: lane l gets word l % 4 of position l / 4. The halo tile is
 * [channel / 8][phase][position][channel % 8] of f16; low parts lie behind in the same order. */
static int64_t gemm_shared(const talc_owner_map *map, const int64_t numbers[], int64_t k)
{
    const gemm_map *m = KEPT(gemm_map, map);
    const talc_gemm_layout *g = &m->layout;
    const int sums = m->rows * 4, of = (int)numbers[REGISTER], lane = (int)numbers[LANE];
    const int taps = g->KH * g->KW, channel = (int)(k / taps) % g->channels,
              tap = (int)(k % taps) % g->taps;
    if (channel % TALC_GEMM_PLANE != 0 || of % 4 != 0)
        return -1;
    const int step = (tap * g->channels + channel) / TALC_GEMM_STEP;
    const talc_gemm_tile first = talc_gemm_tile_of(g, 0);
    const talc_gemm_warp_tile w =
        talc_gemm_warp_tile_of(g, &first, (int)(numbers[WARP] * 32 + numbers[LANE]));
    const int position = w.first_position + of % sums / 4 * g->row_shift + of / sums * 8 + lane / 4;
    const int plane = channel % TALC_GEMM_STEP / TALC_GEMM_PLANE * g->phases * g->positions;
    return (int64_t)(talc_gemm_shift_of(g, step) + plane + position) * 4 + lane % 4;
}

/* The tiles that the first block takes, of all the most. */
static int turns_of(const gemm_map *m)
{
    int turns = 0;
    for (int t = talc_gemm_first_tile(&m->layout, 0); t < m->layout.tiles;
         t = talc_gemm_next_tile(&m->layout, t, m->blocks))
        turns++;
    return turns;
}

static const char *gemm_map_of(const talc_gemm_form *form, const talc_map_target *target,
                               const talc_conv2d_problem *p, size_t limit, talc_owner_map *map)
{
    _Static_assert(sizeof(gemm_map) <= sizeof map->data, "a map keeps it");
    if (p->direction == TALC_GRAD_WEIGHT)
        return TALC_NO_MAP;
    const talc_gemm_gpu gpu = { target->capability, target->multiprocessors, target->block_shared };
    gemm_map m = { .rows = form->rows };
    talc_gemm_choice choice;
    double seconds;
    const char *refusal = talc_gemm_plan(&m.layout, form, p, gpu, limit, &choice, &seconds);
    if (refusal != NULL)
        return refusal;
    const talc_gemm_layout *g = &m.layout;
    m.blocks = talc_gemm_blocks_of(g, gpu.multiprocessors);
    *map = (talc_owner_map){
        .levels = GEMM_LEVELS,
        .level = { [BLOCK] = { "block", TALC_LEVEL_BLOCK, m.blocks },
                   [TURN] = { "tile of the block", TALC_LEVEL_SEQUENCE, turns_of(&m) },
                   [SPLIT] = { "split", TALC_LEVEL_SPLIT, g->splits },
                   [WARP] = { "warp", TALC_LEVEL_WARP, TALC_GEMM_MULTIPLIERS * 4 },
                   [LANE] = { "lane", TALC_LEVEL_LANE, 32 },
                   [REGISTER] = { "sum", TALC_LEVEL_REGISTER,
                                  (int64_t)TALC_GEMM_BLOCKS * m.rows * 4 } },
        .element = gemm_element,
        .shared = form->wgmma || g->folded || p->direction != TALC_FORWARD ? NULL : gemm_shared,
        .pipeline = { g->packs ? 1 : form->loaders / 32, TALC_GEMM_MULTIPLIERS, g->buffers,
                      g->lag },
    };
    if (g->bands > 1) /* its buffers are filled once a band */
        map->pipeline = (talc_pipeline){ .buffers = 0 };
    if (!g->folded && p->direction == TALC_FORWARD) {
        const int k_tiles = g->split_k_tiles / g->bands; /* of a band */
        add_splits(map, TALC_LOOP_CHANNEL, (int64_t)g->channels * k_tiles, g->splits);
        add_loop(map, "K tile", TALC_LOOP_CHANNEL, g->channels, k_tiles);
        if (g->bands > 1)
            add_loop(map, "band of rows of the kernel", TALC_LOOP_TAP, g->taps, g->bands);
        add_loop(map, "tap", TALC_LOOP_TAP, 1, g->taps);
        add_loop(map, "step", TALC_LOOP_CHANNEL, TALC_GEMM_STEP, g->channels / TALC_GEMM_STEP);
        add_loop(map, "channel in one product", TALC_LOOP_CHANNEL, 1, TALC_GEMM_STEP);
    }
    char tile[48];
    if (g->flat)
        snprintf(tile, sizeof tile, "%d positions in a row", g->tile_columns);
    else
        snprintf(tile, sizeof tile, "%d x %d outputs", g->tile_rows, g->tile_columns);
    snprintf(map->text, sizeof map->text,
             "%s: tiles of %s, %d channels; K tiles of %d channels, %d bytes of halo tile%s%s",
             form->wgmma ? "wgmma" : "mma.sync", tile,
             talc_gemm_channel_warpgroups(g) * TALC_GEMM_CHANNELS, g->channels, g->halo_tile_bytes,
             g->folded        ? ", phases of the stride folded"
             : g->interleaves ? ", in all phases of a row"
                              : "",
             g->packs ? ", which a kernel before packs" : "");
    keep(map, &m, sizeof m);
    return NULL;
}

#define GEMM_MAP(function, form)                                                                   \
    const char *talc_cuda_conv2d_##function##_map(                                                 \
        const talc_map_target *target, const void *problem, size_t limit, talc_owner_map *map)     \
    {                                                                                              \
        return gemm_map_of(&form, target, problem, limit, map);                                    \
    }

GEMM_MAP(implicit_gemm_wgmma, TALC_GEMM_WGMMA)
GEMM_MAP(implicit_gemm_wgmma_tf32, TALC_GEMM_WGMMA_TF32)
GEMM_MAP(implicit_gemm_rows_tf32, TALC_GEMM_ROWS_TF32)
GEMM_MAP(implicit_gemm_mma, TALC_GEMM_MMA)
GEMM_MAP(implicit_gemm_mma_tf32, TALC_GEMM_MMA_TF32)

// ---- direct(textbook) ---------------------------------------------------------------------------

enum {
    TEXTBOOK_BLOCK,
    TEXTBOOK_WARP,
    TEXTBOOK_LANE,
    TEXTBOOK_SUM,
    TEXTBOOK_SPLIT,
    TEXTBOOK_LEVELS
};

typedef struct textbook_map {
    talc_conv2d_problem problem;
    talc_textbook_layout layout;
} textbook_map;

static int64_t textbook_element(const talc_owner_map *map, const int64_t numbers[])
{
    const textbook_map *m = KEPT(textbook_map, map);
    const talc_conv2d_problem *p = &m->problem;
    const int thread = (int)(numbers[TEXTBOOK_WARP] * 32 + numbers[TEXTBOOK_LANE]);
    const talc_textbook_thread t =
        talc_textbook_thread_of(p, &m->layout, m->layout.splits, numbers[TEXTBOOK_BLOCK], thread);
    const int64_t oc = t.first + numbers[TEXTBOOK_SUM], OC = p->OC / p->groups;
    return t.split == numbers[TEXTBOOK_SPLIT] && t.pixel < m->layout.pixels && oc < OC
               ? (t.n * p->OC + t.g * OC + oc) * m->layout.pixels + t.pixel
               : -1;
}

/* The weight of a term and a channel. */
static int64_t textbook_shared(const talc_owner_map *map, const int64_t numbers[], int64_t k)
{
    (void)map;
    return k % TALC_TEXTBOOK_K * TALC_TEXTBOOK_CHANNELS + numbers[TEXTBOOK_SUM];
}

const char *talc_cuda_conv2d_direct_textbook_map(const talc_map_target *target, const void *problem,
                                                 size_t limit, talc_owner_map *map)
{
    (void)limit;
    const talc_conv2d_problem *p = problem;
    if (p->direction != TALC_FORWARD)
        return TALC_NO_MAP;
    const textbook_map m = { *p, talc_textbook_layout_of(p, target->multiprocessors) };
    *map = (talc_owner_map){
        .levels = TEXTBOOK_LEVELS,
        .level = { [TEXTBOOK_BLOCK] = { "block", TALC_LEVEL_BLOCK, m.layout.blocks },
                   [TEXTBOOK_WARP] = { "warp", TALC_LEVEL_WARP, TALC_TEXTBOOK_THREADS / 32 },
                   [TEXTBOOK_LANE] = { "lane", TALC_LEVEL_LANE, 32 },
                   [TEXTBOOK_SUM] = { "sum", TALC_LEVEL_REGISTER, TALC_TEXTBOOK_CHANNELS },
                   [TEXTBOOK_SPLIT] = { "split", TALC_LEVEL_SPLIT, m.layout.splits } },
        .element = textbook_element,
        .reads = true,
        .stores = true,
        .shared = textbook_shared,
    };
    const int64_t of_split = TALC_TEXTBOOK_K / m.layout.splits;
    add_loop(map, "K tile", TALC_LOOP_TERM, TALC_TEXTBOOK_K,
             talc_ceil_div(p->C / p->groups * p->KH * p->KW, TALC_TEXTBOOK_K));
    add_splits(map, TALC_LOOP_TERM, of_split, m.layout.splits);
    add_loop(map, "term", TALC_LOOP_TERM, 1, of_split);
    snprintf(map->text, sizeof map->text, "a thread has a pixel of %d channels%s",
             TALC_TEXTBOOK_CHANNELS, m.layout.splits > 1 ? "; 8 threads share its terms" : "");
    keep(map, &m, sizeof m);
    return NULL;
}

// ---- direct(small) ------------------------------------------------------------------------------

enum {
    SMALL_BLOCK,
    SMALL_WARP,
    SMALL_LANE,
    SMALL_CHANNEL,
    SMALL_COLUMN,
    SMALL_SPLIT,
    SMALL_LEVELS
};

static int64_t small_element(const talc_owner_map *map, const int64_t numbers[])
{
    const talc_small_layout *m = KEPT(talc_small_layout, map);
    const talc_small_shape *s = &m->s;
    const talc_small_block b = talc_small_block_of(m, (uint32_t)numbers[SMALL_BLOCK]);
    const talc_small_warp w = talc_small_warp_of(&m->t, (int)numbers[SMALL_WARP]);
    const talc_small_unit u = talc_small_unit_of(m, w.unit + (int)numbers[SMALL_LANE]);
    const int oc = b.channel + w.channel + (int)numbers[SMALL_CHANNEL];
    return w.split == numbers[SMALL_SPLIT] && oc < s->OC &&
                   numbers[SMALL_COLUMN] < talc_small_outputs_of(m, &b, &u)
               ? talc_small_first_of(m, &b, &u, b.group * s->OC + oc) +
                     numbers[SMALL_COLUMN] * s->out_column
               : -1;
}

const char *talc_cuda_conv2d_direct_small_map(const talc_map_target *target, const void *problem,
                                              size_t limit, talc_owner_map *map)
{
    _Static_assert(sizeof(talc_small_layout) <= sizeof map->data, "a map keeps it");
    (void)limit;
    const talc_conv2d_problem *p = problem;
    if (p->direction == TALC_GRAD_WEIGHT)
        return TALC_NO_MAP;
    if (p->dtype != TALC_F32)
        return "the data is not f32";
    talc_small_shape shape;
    talc_small_tiles tiles;
    if (!talc_small_shape_of(p, &shape))
        return "an extent is too large, or there are too many taps or phases";
    if (!(talc_small_choose(&shape, target->multiprocessors, target->block_shared, &tiles) <
          (double)INFINITY))
        return "there is no kernel for so many taps, or no tile fits shared memory";
    const talc_small_layout m = talc_small_layout_of(&shape, &tiles);
    *map = (talc_owner_map){
        .levels = SMALL_LEVELS,
        .level = { [SMALL_BLOCK] = { "block", TALC_LEVEL_BLOCK, tiles.blocks },
                   [SMALL_WARP] = { "warp", TALC_LEVEL_WARP, TALC_SMALL_WARPS },
                   [SMALL_LANE] = { "lane", TALC_LEVEL_LANE, 32 },
                   [SMALL_CHANNEL] = { "channel of the unit", TALC_LEVEL_REGISTER,
                                       TALC_SMALL_CHANNELS },
                   [SMALL_COLUMN] = { "column of the unit", TALC_LEVEL_REGISTER,
                                      TALC_SMALL_COLUMNS },
                   [SMALL_SPLIT] = { "split", TALC_LEVEL_SPLIT, tiles.splits } },
        .element = small_element,
    };
    add_splits(map, TALC_LOOP_CHANNEL, 1, tiles.splits);
    if (p->direction == TALC_FORWARD) {
        add_loop(map, "stage", TALC_LOOP_CHANNEL, tiles.stage_channels,
                 talc_ceil_div(shape.IC, tiles.stage_channels));
        add_loop(map, "tap", TALC_LOOP_TAP, 1, p->KH * p->KW);
    }
    snprintf(
        map->text, sizeof map->text,
        "blocks of %d rows, images: %d; halo tile of %d rows of %d; a thread has 8 channels x %d "
        "columns",
        tiles.rows, tiles.images, tiles.halo_tile_rows, tiles.pitch, TALC_SMALL_COLUMNS);
    keep(map, &m, sizeof m);
    return NULL;
}

// ---- im2col -------------------------------------------------------------------------------------

/* Who writes the columns of B; the rows of the product are the library's or the product core's. */
enum { CHUNK, SLICE, COLUMNS, IM2COL_BLOCK, IM2COL_WARP, IM2COL_LANE, COLUMN, ROW, IM2COL_LEVELS };

typedef struct im2col_map {
    talc_conv2d_problem problem;
    talc_cuda_im2col_plan plan;
    int threads;
} im2col_map;

static int64_t im2col_element(const talc_owner_map *map, const int64_t numbers[])
{
    const im2col_map *m = KEPT(im2col_map, map);
    const talc_conv2d_problem *p = &m->problem;
    const int64_t slice = numbers[CHUNK] * m->plan.slices + numbers[SLICE], P = p->OH * p->OW;
    const int thread = (int)(numbers[IM2COL_WARP] * 32 + numbers[IM2COL_LANE]);
    const int64_t column = numbers[IM2COL_BLOCK] * m->threads * TALC_IM2COL_COLUMNS +
                           talc_im2col_first_column(thread) +
                           talc_im2col_behind((int)numbers[COLUMN]);
    const int64_t j = numbers[COLUMNS] * m->plan.columns + column;
    return slice < p->N * p->groups && thread < m->threads && column < m->plan.columns && j < P
               ? (slice * (p->OC / p->groups) + numbers[ROW]) * P + j
               : -1;
}

const char *talc_cuda_conv2d_im2col_cublas_map(const talc_map_target *target, const void *problem,
                                               size_t limit, talc_owner_map *map)
{
    const talc_conv2d_problem *p = problem;
    if (p->direction != TALC_FORWARD)
        return TALC_NO_MAP;
    im2col_map m = { *p, talc_cuda_im2col_cut(target->multiprocessors, p, limit), 0 };
    const talc_cuda_im2col_plan *plan = &m.plan;
    if (plan->bytes > limit)
        return "B does not fit the workspace";
    const int64_t slices = p->N * p->groups, channels = p->C / p->groups;
    const talc_im2col_grid grid = talc_im2col_grid_of(plan->slices, plan->channels, p->KH * p->KW,
                                                      plan->columns, target->multiprocessors);
    m.threads = grid.threads;
    *map = (talc_owner_map){
        .levels = IM2COL_LEVELS,
        .level = { [CHUNK] = { "chunk", TALC_LEVEL_SEQUENCE, talc_ceil_div(slices, plan->slices) },
                   [SLICE] = { "image and group", TALC_LEVEL_TILE, plan->slices },
                   [COLUMNS] = { "chunk of columns", TALC_LEVEL_SEQUENCE,
                                 talc_ceil_div(p->OH * p->OW, plan->columns) },
                   [IM2COL_BLOCK] = { "block that writes B", TALC_LEVEL_BLOCK, grid.blocks },
                   [IM2COL_WARP] = { "warp", TALC_LEVEL_WARP, grid.threads / 32 },
                   [IM2COL_LANE] = { "lane", TALC_LEVEL_LANE, 32 },
                   [COLUMN] = { "column of the thread", TALC_LEVEL_REGISTER, TALC_IM2COL_COLUMNS },
                   [ROW] = { "row of the product", TALC_LEVEL_TILE, p->OC / p->groups } },
        .element = im2col_element,
        .reads = true,
    };
    add_loop(map, "channels of B", TALC_LOOP_CHANNEL, plan->channels,
             talc_ceil_div(channels, plan->channels));
    snprintf(map->text, sizeof map->text,
             "B of %lld rows x %lld columns is written, %lld bytes; then a matrix product",
             (long long)(plan->channels * p->KH * p->KW), (long long)plan->columns,
             (long long)plan->bytes);
    keep(map, &m, sizeof m);
    return NULL;
}
