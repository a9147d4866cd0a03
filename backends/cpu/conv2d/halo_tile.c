#include "backends/cpu/conv2d/halo_tile.h"

#include "backends/cpu/primitives/element.h"
#include "backends/cpu/primitives/processor.h"
#include "backends/cpu/primitives/short_copy.h"
#include "backends/cpu/primitives/target.h"
#include "tensor/extent.h"

/* Elements of a cache line of f32. */
enum { LINE = 16 };

// ---- Layout -------------------------------------------------------------------------------------

static talc_cpu_slots slots_of(const talc_cpu_axis *axis, int64_t outputs)
{
    const int64_t common = talc_gcd(axis->stride, axis->dilation);
    talc_cpu_slots slots = { .count = talc_smaller(axis->stride / common, axis->taps),
                             .shift = axis->dilation / common };
    if (slots.shift > outputs)
        slots.count = axis->taps;
    slots.size = outputs + (axis->taps - 1) / slots.count * slots.shift;
    return slots;
}

talc_cpu_halo_tile talc_cpu_halo_tile_of(const talc_cpu_axis *h, const talc_cpu_axis *w,
                                         talc_padding_mode mode, int64_t rows, int64_t columns,
                                         int64_t images, bool segmented)
{
    talc_cpu_halo_tile halo_tile = { .h = slots_of(h, rows), .w = slots_of(w, columns) };
    if (segmented)
        halo_tile.w =
            (talc_cpu_slots){ talc_ceil_div(columns, w->dilation) + w->taps - 1, 0, w->dilation };
    /* The zeros to the right of a row of the image can be those to the left of the next one, as
     * long as each output has a column of its own. */
    const int64_t left = -w->start, right = halo_tile.w.size - left - w->extent;
    if (mode == TALC_PADDING_ZEROS && w->stride == 1 && columns == w->outputs && left > 0 &&
        right > 0 && !segmented) {
        halo_tile.shared = talc_smaller(talc_smaller(left, right), halo_tile.w.size - columns);
        halo_tile.w.size -= halo_tile.shared;
    }
    halo_tile.image_stride =
        halo_tile.h.count * halo_tile.w.count * halo_tile.h.size * halo_tile.w.size;
    /* An odd number of cache lines, so that the channels do not meet in the same sets of the
     * cache. */
    halo_tile.channel_stride =
        (talc_ceil_div(images * halo_tile.image_stride + halo_tile.shared, LINE) | 1) * LINE;
    return halo_tile;
}

// ---- Filling ------------------------------------------------------------------------------------

/* A row of the image at stride 1: columns start, start + 1, ..., of which those of `inside` are in
 * the image. */
typedef struct slot_row {
    int64_t start, count;
    talc_range inside;
    int64_t size; /* bytes of an element */
} slot_row;

/* Columns lo .. hi - 1, outside the image. A column that no window reads may be too far outside to
 * have a source. */
TALC_ALWAYS_INLINE void fill_outside(const talc_cpu_halo_tile_source *s, const slot_row *slot,
                                     int64_t lo, int64_t hi, const char *row, char *dst)
{
    const int64_t size = slot->size;
    talc_cpu_short_zero(dst + lo * size, (size_t)((hi - lo) * size));
    if (s->padding_mode == TALC_PADDING_ZEROS)
        return;
    for (int64_t i = lo; i < hi; i++) {
        const int64_t from = talc_window_source(s->padding_mode, slot->start + i, s->w.extent);
        if (from >= 0 && from < s->w.extent)
            memcpy(dst + i * size, row + from * size, (size_t)size);
    }
}

TALC_ALWAYS_INLINE void fill_row(const talc_cpu_halo_tile_source *s, const slot_row *slot,
                                 const char *row, char *dst)
{
    const int64_t size = slot->size;
    const int64_t lo = slot->inside.lo, count = slot->inside.hi - lo;
    if (lo > 0)
        fill_outside(s, slot, 0, lo, row, dst);
    talc_cpu_short_copy(dst + lo * size, count > 0 ? row + (slot->start + lo) * size : row,
                        (size_t)(count * size));
    if (slot->inside.hi < slot->count)
        fill_outside(s, slot, slot->inside.hi, slot->count, row, dst);
}

/* The rows of one slot of one plane. `first`: the coordinate of row 0. */
TALC_TARGET_CLONES
static void fill_rows(const talc_cpu_halo_tile_source *s, const slot_row *slot, int64_t first,
                      int64_t rows, const char *plane, char *dst)
{
    const int64_t size = slot->size;
    const bool whole = slot->start == 0 && slot->count == s->w.extent;
    talc_range next = { 0 };
    if (slot->inside.lo < slot->inside.hi)
        next = (talc_range){ (s->x_channel + slot->start + slot->inside.lo) * size,
                             (s->x_channel + slot->start + slot->inside.hi) * size };
    for (int64_t row = 0; row < rows; row++, dst += slot->count * size) {
        const int64_t ih = first + row * s->h.stride;
        const int64_t from = talc_window_source(s->padding_mode, ih, s->h.extent);
        if (from < 0 || from >= s->h.extent) {
            talc_cpu_short_zero(dst, (size_t)(slot->count * size));
            continue;
        }
        const char *src = plane + from * s->w.extent * size;
        /* The same columns of the next channel, which is too far for the processor to guess. */
        for (int64_t i = next.lo; i < next.hi; i += 64)
            __builtin_prefetch(src + i);
        if (whole && from == ih && s->h.stride == 1) {
            const int64_t adjacent = talc_smaller(rows - row, s->h.extent - from);
            memcpy(dst, src, (size_t)(adjacent * slot->count * size));
            row += adjacent - 1;
            dst += (adjacent - 1) * slot->count * size;
        } else {
            fill_row(s, slot, src, dst);
        }
    }
}

/* Slots of a plane at a stride, or segmented ones, `ways` of them that are neighbours in the image.
 * `row` and `column`: coordinates of the first element, of which those of `rows` and `columns` are
 * inside in all of the slots. */
typedef struct strided_slots {
    int64_t ways, row, column;
    talc_range rows, columns;
} strided_slots;

#define FILL_STRIDED(constant, suffix, T, A)                                                       \
    static void fill_strided_##suffix(const talc_cpu_halo_tile *halo_tile,                         \
                                      const talc_cpu_halo_tile_source *s, const strided_slots *in, \
                                      const T *plane, T *dst)                                      \
    {                                                                                              \
        const int64_t width = halo_tile->w.size, slot = halo_tile->h.size * width;                 \
        /* Of one row there is none behind it, however far. */                                     \
        const int64_t from_row = in->rows.hi - in->rows.lo > 1 ? s->h.stride * s->w.extent : 0;    \
        const int64_t lo = in->columns.lo, hi = in->columns.hi;                                    \
        if (lo >= hi && in->ways == 1 && s->padding_mode == TALC_PADDING_ZEROS) {                  \
            memset(dst, 0, (size_t)slot * sizeof(T));                                              \
            return;                                                                                \
        }                                                                                          \
        for (int64_t row = 0, rows; row < halo_tile->h.size; row += rows, dst += rows * width) {   \
            const int64_t ih =                                                                     \
                talc_window_source(s->padding_mode, in->row + row * s->h.stride, s->h.extent);     \
            rows = row == in->rows.lo && row < in->rows.hi ? in->rows.hi - row : 1;                \
            if (ih < 0 || ih >= s->h.extent) {                                                     \
                for (int64_t way = 0; way < in->ways; way++)                                       \
                    talc_cpu_short_zero((char *)(dst + way * slot), (size_t)width * sizeof(T));    \
                continue;                                                                          \
            }                                                                                      \
            const T *from = plane + ih * s->w.extent;                                              \
            if (lo < hi)                                                                           \
                talc_cpu_kernels_of(s->dtype)->strided(                                            \
                    rows, hi - lo, in->ways, from + in->column + lo * s->w.stride, from_row,       \
                    s->w.stride, dst + lo, width, slot, s->x_channel);                             \
            for (int64_t way = 0; way < in->ways; way++)                                           \
                for (int64_t i = lo > 0 ? 0 : hi; i < width; i = i + 1 == lo ? hi : i + 1) {       \
                    const int64_t iw = talc_window_source(                                         \
                        s->padding_mode, in->column + way + i * s->w.stride, s->w.extent);         \
                    for (int64_t r = 0; r < rows; r++)                                             \
                        dst[way * slot + r * width + i] =                                          \
                            iw >= 0 && iw < s->w.extent ? from[r * from_row + iw] : 0;             \
                }                                                                                  \
        }                                                                                          \
    }

TALC_CPU_FLOATS(FILL_STRIDED)

void talc_cpu_halo_tile_fill(const talc_cpu_halo_tile *halo_tile,
                             const talc_cpu_halo_tile_source *source, void *dst)
{
    const talc_cpu_halo_tile_source *s = source;
    const int64_t size = (int64_t)talc_dtype_size(s->dtype), width = halo_tile->w.size;
    const bool segmented = halo_tile->w.count > 1 && halo_tile->w.shift == 0;
    int64_t ways;
    for (int64_t slot = 0; slot < halo_tile->h.count * halo_tile->w.count; slot += ways) {
        const int64_t slot_h = slot / halo_tile->w.count, slot_w = slot % halo_tile->w.count;
        const int64_t row = s->h.start + s->row * s->h.stride + slot_h * s->h.dilation;
        const int64_t column = s->w.start + s->column * s->w.stride + slot_w * s->w.dilation;
        talc_range inside = talc_window_inside(column, s->w.stride, width, s->w.extent);
        const slot_row columns = { column, width, inside, size };
        ways = 1;
        if (segmented && inside.hi - inside.lo == width)
            ways = talc_smaller(halo_tile->w.count - slot_w, (s->w.extent - column) / width);
        if (s->w.stride > 1 && s->w.dilation == 1) {
            ways = halo_tile->w.count;
            inside.hi = talc_larger(
                inside.lo,
                talc_window_inside(column + ways - 1, s->w.stride, width, s->w.extent).hi);
        }
        const strided_slots strided = {
            ways, row, column, talc_window_inside(row, s->h.stride, halo_tile->h.size, s->h.extent),
            inside
        };
        for (int64_t channel = 0; channel < s->channels; channel++)
            for (int64_t image = 0; image < s->images; image++) {
                const char *plane =
                    talc_cpu_at(s->dtype, s->x, channel * s->x_channel + image * s->x_image);
                char *to = (char *)dst +
                           (channel * halo_tile->channel_stride + image * halo_tile->image_stride +
                            slot * halo_tile->h.size * halo_tile->w.size) *
                               size;
                if (s->w.stride == 1 && halo_tile->w.count == 1)
                    fill_rows(s, &columns, row, halo_tile->h.size, plane, to);
                else
                    TALC_CPU_CALL(s->dtype, fill_strided,
                                  (halo_tile, s, &strided, (const void *)plane, (void *)to));
            }
    }
    for (int64_t channel = 0; channel < s->channels && halo_tile->shared > 0; channel++)
        talc_cpu_short_zero(
            (char *)dst +
                (channel * halo_tile->channel_stride + s->images * halo_tile->image_stride) * size,
            (size_t)(halo_tile->shared * size));
}
