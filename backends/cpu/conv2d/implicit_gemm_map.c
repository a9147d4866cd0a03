/// Who computes which output in implicit_gemm's product.
#include "backends/cpu/conv2d/implicit_gemm_block.h"

#include <stdio.h>
#include <string.h>

enum { TASK, PANEL, PLANE, TILE, VECTOR, LANE, PHASE, LEVELS };

typedef struct gemm_map {
    talc_cpu_gemm gemm; /* without its phases */
    talc_cpu_gemm_plan plan;
} gemm_map;

static int64_t map_element(const talc_owner_map *map, const int64_t numbers[])
{
    const gemm_map *m = (const gemm_map *)map->data.bytes;
    const talc_cpu_gemm *g = &m->gemm;
    const int64_t lanes = g->kernels->lanes, out_blocks = m->plan.out_blocks;
    const gemm_block b =
        block_of(g, &m->plan, numbers[TASK] / out_blocks, numbers[TASK] % out_blocks);
    if (numbers[PANEL] >= panels_of(g, b.out_channels))
        return -1;
    const talc_range panel = panel_at(g, &b, numbers[PANEL]);
    const sums_layout layout = layout_of(g, &m->plan, &b);
    int64_t at = 0, width = width_at(g, &m->plan, &layout, 0);
    for (int64_t tile = 0; tile < numbers[TILE] && at < layout.all; tile++) {
        at += width;
        width = at < layout.all ? width_at(g, &m->plan, &layout, at) : 0;
    }
    if (panel.lo + numbers[PLANE] >= panel.hi || numbers[VECTOR] * lanes >= width)
        return -1;
    at += numbers[VECTOR] * lanes + numbers[LANE];
    const int64_t segments = m->plan.segments, part = at / layout.part_stride,
                  image = part / segments;
    const int64_t phase = numbers[PHASE], row = at % layout.part_stride / layout.row_stride;
    const int64_t column =
        part % segments * layout.row_stride + at % layout.part_stride % layout.row_stride;
    const int64_t h = (b.row + row) * g->h_phases + phase / g->w_phases;
    const int64_t w = column * g->w_phases + phase % g->w_phases;
    if (image >= b.images || row >= b.rows || column >= b.columns || h >= g->H ||
        b.column * g->w_phases + w >= g->W)
        return -1;
    return element_at(g, &b, b.n + image, b.out_channel + panel.lo + numbers[PLANE], h) + w;
}

void talc_cpu_gemm_map(const talc_cpu_gemm *gemm, const talc_cpu_gemm_plan *plan,
                       talc_owner_map *map)
{
    _Static_assert(sizeof(gemm_map) <= sizeof map->data, "a map keeps it");
    const talc_cpu_kernels *kernels = gemm->kernels;
    const int64_t all = width_of(gemm, plan, plan->images, plan->rows, plan->columns);
    const int64_t taps = taps_of(gemm),
                  halo_tiles = talc_ceil_div(gemm->in_channels, plan->in_channels);
    const int64_t full = TALC_CPU_VECTORS * kernels->lanes;
    const int64_t parts = plan->images * plan->segments;
    const int64_t tiles = plan->stores_to_y
                              ? plan->images * talc_ceil_div(plan->rows * plan->columns, full)
                          : plan->segments > 1 ? parts * talc_ceil_div(all / parts, full)
                                               : talc_ceil_div(all, full) + 1;
    *map = (talc_owner_map){
        .levels = LEVELS,
        .level = { [TASK] = { "task", TALC_LEVEL_TASK, tasks_of(gemm, plan) },
                   [PANEL] = { "panel", TALC_LEVEL_TILE, panels_of(gemm, plan->out_channels) },
                   [PLANE] = { "row", TALC_LEVEL_REGISTER, kernels->rows[TALC_CPU_VECTORS] },
                   [TILE] = { "tile", TALC_LEVEL_TILE, tiles },
                   [VECTOR] = { "vector", TALC_LEVEL_VECTOR, TALC_CPU_VECTORS },
                   [LANE] = { "lane", TALC_LEVEL_LANE, kernels->lanes },
                   [PHASE] = { "phase", TALC_LEVEL_SEQUENCE, phases_of(gemm) } },
        .loops = 2,
        .loop = { { "halo tile", TALC_LOOP_CHANNEL, plan->in_channels, halo_tiles,
                    TALC_LEVEL_SEQUENCE },
                  { "channel", TALC_LOOP_CHANNEL, 1, plan->in_channels, TALC_LEVEL_SEQUENCE } },
        .element = map_element,
    };
    if (phases_of(gemm) == 1 && gemm->h_phase->weight_step > 0)
        map->loop[map->loops++] = (talc_loop){ "tap", TALC_LOOP_TAP, 1, taps, TALC_LEVEL_SEQUENCE };
    snprintf(map->text, sizeof map->text,
             "blocks of %lld x %lld outputs, images: %lld, channels: %lld; %s of %lld x %lld",
             (long long)plan->rows, (long long)plan->columns, (long long)plan->images,
             (long long)plan->out_channels,
             plan->gathered ? "gathered from a halo tile" : "halo tile",
             (long long)(plan->halo_tile.h.count * plan->halo_tile.h.size),
             (long long)(plan->halo_tile.w.count * plan->halo_tile.w.size));
    gemm_map own = { *gemm, *plan };
    own.gemm.h_phase = own.gemm.w_phase = NULL;
    memcpy(map->data.bytes, &own, sizeof own);
}
