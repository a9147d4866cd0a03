/// Filling the halo tiles of implicit_gemm's product, and gathering them where that leaves out
/// outputs of no use.
#include "backends/cpu/conv2d/implicit_gemm_block.h"
#include "backends/cpu/primitives/element.h"
#include "backends/cpu/primitives/target.h"

#include <string.h>

enum { GATHERED_VECTORS = 96 }; /* of which runs are found */

/* The planes of x from `from` on, of which the block reads a part. */
static talc_cpu_halo_tile_source source_of(const gemm_context *c, const gemm_block *b, int64_t from,
                                           int64_t in_channels)
{
    const talc_cpu_gemm *g = c->gemm;
    const int64_t plane = g->h.extent * g->w.extent;
    return (talc_cpu_halo_tile_source){
        .dtype = g->dtype,
        .padding_mode = g->padding_mode,
        .h = g->h,
        .w = g->w,
        .x = talc_cpu_at(g->dtype, c->x,
                         ((b->n * g->groups + b->g) * g->in_channels + from) * plane),
        .x_channel = plane,
        .x_image = g->groups * g->in_channels * plane,
        .channels = in_channels,
        .images = b->images,
        .row = b->row,
        .column = b->column,
    };
}

/* Where the outputs of a block stand in the halo tile, from its first one on, as runs for the
 * microkernels' gather. Returns how many tiles they fill; 0 where a vector has too many runs. */
static int64_t find_runs(const talc_cpu_gemm *g, const talc_cpu_gemm_plan *plan,
                         const gemm_block *b, talc_cpu_runs runs[GATHERED_VECTORS])
{
    const int64_t lanes = g->kernels->lanes, count = b->images * b->rows * b->columns;
    const int64_t tiles = talc_ceil_div(count, TALC_CPU_VECTORS * lanes);
    if (g->kernels->gather == NULL || tiles * TALC_CPU_VECTORS > GATHERED_VECTORS ||
        (lanes - 2) / b->columns + 2 > TALC_CPU_RUNS)
        return 0;
    memset(runs, 0, (size_t)(tiles * TALC_CPU_VECTORS) * sizeof *runs);
    for (int64_t first = 0, row = 0; first < count; first += b->columns, row++) {
        const int64_t at = row / b->rows * plan->halo_tile.image_stride +
                           row % b->rows * plan->halo_tile.w.size - first;
        const int64_t end = first + b->columns;
        for (int64_t vector = first / lanes; vector * lanes < end; vector++) {
            const int64_t lo = talc_larger(first - vector * lanes, 0);
            const int64_t hi = talc_smaller(end - vector * lanes, lanes);
            int i = 0;
            while (runs[vector].lanes[i] != 0)
                i++;
            runs[vector].at[i] = (int32_t)(at + vector * lanes);
            runs[vector].lanes[i] = (uint16_t)((1 << hi) - (1 << lo));
        }
    }
    return tiles;
}

/* Copies the outputs' elements under each tap of a channel of the halo tile, side by side, in steps
 * that may run over the end of a row: the next one follows, or room. They go to
 * [tile][channel][tap][element of the tile], which the microkernel reads from one end to the other;
 * tiles are `tile_stride` apart. */
#define GATHER(constant, suffix, T, A)                                                             \
    TALC_TARGET_CLONES                                                                             \
    static void gather_##suffix(const talc_cpu_gemm *g, const talc_cpu_gemm_plan *plan,            \
                                const gemm_block *b, const T *halo_tile, T *row, T *to,            \
                                int64_t full, int64_t tile_stride)                                 \
    {                                                                                              \
        const int64_t count = b->images * b->rows * b->columns,                                    \
                      step = count + TALC_CPU_GATHERED_STEP;                                       \
        T *row_to = row;                                                                           \
        for (int64_t kh = 0; kh < g->h.taps; kh++)                                                 \
            for (int64_t kw = 0; kw < g->w.taps; kw++, row_to += TALC_CPU_GATHERED_STEP) {         \
                const T *from = halo_tile + talc_cpu_halo_tile_tap(&plan->halo_tile, kh, kw);      \
                for (int64_t image = 0; image < b->images; image++)                                \
                    for (int64_t i = 0; i < b->rows; i++, row_to += b->columns) {                  \
                        const T *row_from = from + image * plan->halo_tile.image_stride +          \
                                            i * plan->halo_tile.w.size;                            \
                        for (int64_t j = 0; j < b->columns; j += TALC_CPU_GATHERED_STEP)           \
                            memcpy(row_to + j, row_from + j, TALC_CPU_GATHERED_STEP * sizeof(T));  \
                    }                                                                              \
            }                                                                                      \
        for (int64_t first = 0; first < count; first += full)                                      \
            for (int64_t tap = 0; tap < g->h.taps * g->w.taps; tap++)                              \
                for (int64_t i = 0; i < full; i++)                                                 \
                    to[first / full * tile_stride + tap * full + i] = row[first + tap * step + i]; \
    }

TALC_CPU_FLOATS(GATHER)

void talc_cpu_gemm_fill(const gemm_context *c, const gemm_block *b, int64_t from,
                        int64_t in_channels, talc_range channels, char *staging, char *halo_tile)
{
    const talc_cpu_gemm *g = c->gemm;
    const talc_cpu_gemm_plan *plan = c->plan;
    const int64_t size = (int64_t)talc_dtype_size(g->dtype);
    if (!plan->gathered) {
        const talc_cpu_halo_tile_source source =
            source_of(c, b, from + channels.lo, channels.hi - channels.lo);
        talc_cpu_halo_tile_fill(&plan->halo_tile, &source,
                                halo_tile + channels.lo * plan->channel_stride * size);
        return;
    }
    const int64_t full = TALC_CPU_VECTORS * c->gemm->kernels->lanes;
    const int64_t taps = g->h.taps * g->w.taps * full;
    talc_cpu_runs runs[GATHERED_VECTORS];
    const int64_t tiles = find_runs(g, plan, b, runs);
    char *row = staging + (plan->halo_tile.channel_stride + TALC_CPU_GATHERED_STEP) * size;
    for (int64_t channel = channels.lo; channel < channels.hi; channel++) {
        const talc_cpu_halo_tile_source source = source_of(c, b, from + channel, 1);
        talc_cpu_halo_tile_fill(&plan->halo_tile, &source, staging);
        char *to = halo_tile + channel * taps * size;
        for (int64_t tap = 0; tiles > 0 && tap < g->h.taps * g->w.taps; tap++) {
            const int64_t at =
                talc_cpu_halo_tile_tap(&plan->halo_tile, tap / g->w.taps, tap % g->w.taps);
            g->kernels->gather(runs, tiles, staging + at * size, to + tap * full * size,
                               in_channels * taps);
        }
        if (tiles == 0)
            TALC_CPU_CALL(g->dtype, gather,
                          (g, plan, b, (const void *)staging, (void *)row, (void *)to, full,
                           in_channels * taps));
    }
}
