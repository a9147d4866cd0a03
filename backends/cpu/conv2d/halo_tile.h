/// A halo tile: the part of some input planes that a block of outputs reads, copied so that each
/// filter tap is a constant distance away. Private to backends/cpu.
///
/// Along an axis, output o and tap t read coordinate start + o * stride + t * dilation. The
/// remainder of t * dilation modulo stride repeats after `slots` taps; so the input is sorted by
/// that remainder into slots, its polyphase components, and tap t of neighbouring outputs stands at
/// neighbouring elements of slot t % slots, t / slots * shift further on. With stride 1 there is
/// one slot, the input as it is. Where a shift is longer than the outputs, each tap has a slot of
/// its own instead, as no output reads what lies between. Columns at stride 1 may be `segmented`
/// instead: slot j has a segment of as many columns as they are dilated by, so that tap t of the
/// outputs of segment j stands in slot j + t, and no columns that no output has lie between rows.
///
///     halo_tile[channel][image][slot_h][slot_w][row][column] =
///         x'[start_h + (row0 + row) * stride_h + slot_h * dilation_h, ...]
///
/// Outputs are counted through the rows of a slot: number row * width + column. Those of the last
/// columns of a row are of no use, as their windows reach into the next row; they are computed
/// where they share a vector with others, and dropped.
#ifndef TALC_BACKENDS_CPU_CONV2D_HALO_TILE_H
#define TALC_BACKENDS_CPU_CONV2D_HALO_TILE_H

#include "ops/window.h"
#include "tensor/tensor.h"

/// The windows along one axis.
typedef struct talc_cpu_axis {
    int64_t extent, outputs, taps;
    int64_t stride, dilation, start;
} talc_cpu_axis;

/// How a halo tile is laid out along one axis.
typedef struct talc_cpu_slots {
    int64_t count, shift; ///< slots, and elements from a tap of a slot to its next one
    int64_t size;         ///< elements of a slot
} talc_cpu_slots;

typedef struct talc_cpu_halo_tile {
    talc_cpu_slots h, w;
    int64_t image_stride, channel_stride; ///< elements from one to the next
    int64_t shared; ///< zeros at the end of a row that are those at the beginning of the next
} talc_cpu_halo_tile;

/// The part of the image that a halo tile is filled from.
typedef struct talc_cpu_halo_tile_source {
    talc_dtype dtype;
    talc_padding_mode padding_mode;
    talc_cpu_axis h, w;
    const void *x;              ///< first plane
    int64_t x_channel, x_image; ///< elements from one plane to the next
    int64_t channels, images;
    int64_t row, column; ///< first output
} talc_cpu_halo_tile_source;

/// The halo tile of blocks of `rows` times `columns` outputs in `images` images, `segmented` or
/// not.
talc_cpu_halo_tile talc_cpu_halo_tile_of(const talc_cpu_axis *h, const talc_cpu_axis *w,
                                         talc_padding_mode mode, int64_t rows, int64_t columns,
                                         int64_t images, bool segmented);

/// The offset of a tap.
static inline int64_t talc_cpu_halo_tile_tap(const talc_cpu_halo_tile *halo_tile, int64_t kh,
                                             int64_t kw)
{
    const int64_t slot = kh % halo_tile->h.count * halo_tile->w.count + kw % halo_tile->w.count;
    const int64_t row = slot * halo_tile->h.size + kh / halo_tile->h.count * halo_tile->h.shift;
    return row * halo_tile->w.size + kw / halo_tile->w.count * halo_tile->w.shift;
}

/// Copies it to `dst`, which has talc_cpu_halo_tile_elements.
void talc_cpu_halo_tile_fill(const talc_cpu_halo_tile *halo_tile,
                             const talc_cpu_halo_tile_source *source, void *dst);

/// Elements of a halo tile of some channels, with what the last vector of `lanes` elements reads
/// behind it.
static inline int64_t talc_cpu_halo_tile_elements(const talc_cpu_halo_tile *halo_tile,
                                                  int64_t channels, int64_t lanes)
{
    return channels * halo_tile->channel_stride + lanes;
}

#endif
