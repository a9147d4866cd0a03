/// The arithmetic of sliding windows along one axis, shared by every convolution and pooling kernel
/// of every backend.
///
/// Output coordinate o and tap k read image coordinate
///
///     i = o * stride - pad_begin + k * dilation,        0 <= o < O,  0 <= k < K
///
/// which is inside the image when 0 <= i < extent, and padding otherwise. All arguments are what an
/// op has checked: stride, dilation and K at least 1, paddings and extents at least 0, everything
/// small enough that nothing overflows. Compiles as C and as CUDA C++.
///
/// Source: Dumoulin and Visin, "A guide to convolution arithmetic for deep learning", arXiv
/// 1603.07285.
#ifndef TALC_OPS_WINDOW_H
#define TALC_OPS_WINDOW_H

#include "../tensor/api.h"

TALC_BEGIN_DECLARATIONS

/// What x is outside the image: zeros, its mirror image without the edge, its edge, or the image
/// repeated.
typedef enum talc_padding_mode {
    TALC_PADDING_ZEROS,
    TALC_PADDING_REFLECT,
    TALC_PADDING_REPLICATE,
    TALC_PADDING_CIRCULAR,
    TALC_PADDING_MODE_COUNT
} talc_padding_mode;

/// The integers lo .. hi - 1; empty when lo == hi.
typedef struct talc_range {
    int64_t lo, hi;
} talc_range;

/// O: how many windows fit into the padded image; 0 when not even one does.
static inline TALC_HOST_DEVICE int64_t talc_window_extent(int64_t extent, int64_t pad_begin,
                                                          int64_t pad_end, int64_t dilation,
                                                          int64_t K, int64_t stride)
{
    const int64_t last_start = extent + pad_begin + pad_end - dilation * (K - 1) - 1;
    return last_start < 0 ? 0 : last_start / stride + 1;
}

/// The j in 0 .. count - 1 for which start + j * step is inside 0 .. extent - 1; step is at least
/// 1.
static inline TALC_HOST_DEVICE talc_range talc_window_inside(int64_t start, int64_t step,
                                                             int64_t count, int64_t extent)
{
    talc_range range;
    /* Divided and rounded up by sums that fit for steps of any length. */
    range.lo = start < 0 ? (-1 - start) / step + 1 : 0;
    range.hi = start < extent ? (extent - 1 - start) / step + 1 : 0;
    if (range.hi > count)
        range.hi = count;
    if (range.lo > range.hi)
        range.lo = range.hi;
    return range;
}

/// The taps of output o that land inside the image.
static inline TALC_HOST_DEVICE talc_range talc_window_taps(int64_t o, int64_t stride,
                                                           int64_t pad_begin, int64_t dilation,
                                                           int64_t K, int64_t extent)
{
    return talc_window_inside(o * stride - pad_begin, dilation, K, extent);
}

/// The outputs for which tap k lands inside the image.
static inline TALC_HOST_DEVICE talc_range talc_window_outputs(int64_t k, int64_t stride,
                                                              int64_t pad_begin, int64_t dilation,
                                                              int64_t O, int64_t extent)
{
    return talc_window_inside(k * dilation - pad_begin, stride, O, extent);
}

/// The image coordinate whose value stands at coordinate i, which may lie outside: -1 where that
/// value is zero. Outside, reflection reaches extent - 1 coordinates far and repetition extent; the
/// image is not empty unless zeros surround it.
static inline TALC_HOST_DEVICE int64_t talc_window_source(talc_padding_mode mode, int64_t i,
                                                          int64_t extent)
{
    if (i >= 0 && i < extent)
        return i;
    switch (mode) {
    case TALC_PADDING_REFLECT:
        return i < 0 ? -i : 2 * (extent - 1) - i;
    case TALC_PADDING_REPLICATE:
        return i < 0 ? 0 : extent - 1;
    case TALC_PADDING_CIRCULAR:
        return i < 0 ? i + extent : i - extent;
    default:
        return -1;
    }
}

TALC_END_DECLARATIONS

#endif
