/// Writing the sums of implicit_gemm's product to y.
#include "backends/cpu/conv2d/implicit_gemm_block.h"
#include "backends/cpu/primitives/element.h"
#include "backends/cpu/primitives/short_copy.h"
#include "backends/cpu/primitives/target.h"

/* The first `count` elements that `ways` rows of sums, phase_stride apart, give in turn. */
#define INTERLEAVE(constant, suffix, T, A)                                                         \
    static void interleave_##suffix(int64_t count, int64_t ways, const T *restrict sums,           \
                                    int64_t phase_stride, T *restrict y)                           \
    {                                                                                              \
        if (ways == 2) {                                                                           \
            for (int64_t i = 0; i < count / 2; i++) {                                              \
                y[2 * i] = sums[i];                                                                \
                y[2 * i + 1] = sums[phase_stride + i];                                             \
            }                                                                                      \
            if (count % 2 > 0)                                                                     \
                y[count - 1] = sums[count / 2];                                                    \
            return;                                                                                \
        }                                                                                          \
        for (int64_t way = 0; way < ways; way++)                                                   \
            for (int64_t i = 0; i * ways + way < count; i++)                                       \
                y[i * ways + way] = sums[way * phase_stride + i];                                  \
    }

TALC_CPU_FLOATS(INTERLEAVE)

/* talc_cpu_gemm_store of columns that are not segmented. */
TALC_TARGET_CLONES
static void store_plane(const gemm_context *c, const gemm_block *b, int64_t i, int64_t count,
                        const char *sums, int64_t out_channel)
{
    const talc_cpu_gemm *g = c->gemm;
    const int64_t size = (int64_t)talc_dtype_size(g->dtype), lanes = g->kernels->lanes;
    const bool gathered = c->plan->gathered;
    const bool adjoining = gathered && phases_of(g) == 1 && g->W == b->columns;
    const int64_t rows = adjoining ? 1 : b->rows, columns = b->columns * (adjoining ? b->rows : 1);
    const int64_t last =
        adjoining ? columns : talc_smaller(columns * g->w_phases, g->W - b->column * g->w_phases);
    const sums_layout layout = layout_of(g, c->plan, b);
    const int64_t phase_stride = c->plan->phase_elements * count;
    int64_t first_tile = 0; /* of the row */
    for (int64_t image = 0; image < b->images; image++) {
        char *to = y_at(c, b, b->n + image, out_channel, b->row * g->h_phases);
        for (int64_t row = 0; row < rows; row++) {
            const int64_t first = image * layout.part_stride + row * layout.row_stride;
            for (int64_t width;
                 first >= first_tile + (width = tile_width(layout.all - first_tile, lanes));)
                first_tile += width;
            const int64_t ways = talc_smaller(g->h_phases, g->H - (b->row + row) * g->h_phases);
            for (int64_t way = 0; way < ways; way++, to += g->W * size) {
                const char *of_row = sums + way * g->w_phases * phase_stride * size;
                for (int64_t column = 0, tile = first_tile; column < columns;) {
                    const int64_t width = tile_width(layout.all - tile, lanes);
                    const int64_t at = first + column - tile;
                    const int64_t adjacent = talc_smaller(width - at, columns - column);
                    const char *from = of_row + (tile * count + i * width + at) * size;
                    if (g->w_phases == 1)
                        talc_cpu_short_copy(to + column * size, from, (size_t)(adjacent * size));
                    else
                        TALC_CPU_CALL(
                            g->dtype, interleave,
                            (talc_smaller(adjacent * g->w_phases, last - column * g->w_phases),
                             g->w_phases, (const void *)from, phase_stride,
                             (void *)(to + column * g->w_phases * size)));
                    column += adjacent;
                    tile += width;
                }
            }
        }
    }
}

/* talc_cpu_gemm_store of segmented columns. */
TALC_TARGET_CLONES
static void store_segmented(const gemm_context *c, const gemm_block *b, int64_t i, int64_t count,
                            const char *sums, int64_t out_channel)
{
    const talc_cpu_gemm *g = c->gemm;
    const int64_t size = (int64_t)talc_dtype_size(g->dtype), lanes = g->kernels->lanes;
    const sums_layout layout = layout_of(g, c->plan, b);
    int64_t tile = 0;
    for (int64_t part = 0; part < b->images * c->plan->segments; part++) {
        const int64_t first_column = part % c->plan->segments * layout.row_stride,
                      first = part * layout.part_stride;
        const int64_t columns = talc_smaller(layout.row_stride, b->columns - first_column);
        const int64_t end = end_at(g, c->plan, &layout, first);
        char *to =
            y_at(c, b, b->n + part / c->plan->segments, out_channel, b->row) + first_column * size;
        if (layout.part_stride > lanes)
            tile = first;
        for (int64_t row = 0, column = 0; row < b->rows;) {
            const int64_t width = tile_width(end - tile, lanes);
            const char *from = sums + (tile * count + i * width) * size;
            for (int64_t at = talc_larger(first - tile, 0), adjacent; at < width && row < b->rows;
                 at += adjacent) {
                adjacent = talc_smaller(width - at, layout.row_stride - column);
                if (column < columns)
                    talc_cpu_short_copy(to + column * size, from + at * size,
                                        (size_t)(talc_smaller(adjacent, columns - column) * size));
                column += adjacent;
                if (column == layout.row_stride) {
                    column = 0;
                    row++;
                    to += g->W * size;
                }
            }
            if (row < b->rows || tile + width == first + layout.part_stride)
                tile += width;
        }
    }
}

void talc_cpu_gemm_store(const gemm_context *c, const gemm_block *b, int64_t i, int64_t count,
                         const char *sums, int64_t out_channel)
{
    if (c->plan->segments > 1)
        store_segmented(c, b, i, count, sums, out_channel);
    else
        store_plane(c, b, i, count, sums, out_channel);
}
