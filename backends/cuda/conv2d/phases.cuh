/// One axis of the phases of a stride. Private to backends/cuda.
///
/// Of an axis of dx the elements first, first + stride, ..., a phase, read the same taps: those for
/// which first + pad - tap * dilation is a multiple of the stride. So a phase is a convolution of
/// dy at stride 1, in which element q of the phase reads
///
///     dy[q - before + j * dilation / gcd]  through  w[tap + (taps - 1 - j) * apart],
///     0 <= j < taps
#ifndef TALC_BACKENDS_CUDA_CONV2D_PHASES_CUH
#define TALC_BACKENDS_CUDA_CONV2D_PHASES_CUH

#include "tensor/extent.h"

namespace talc
{

template <typename Index> struct phase_axis_taps {
    Index count;            ///< elements
    Index tap, taps, apart; ///< the first tap, how many there are, and from one to the next
    Index dilation, before;
};

inline phase_axis_taps<int64_t> phase_axis_taps_of(int64_t extent, int64_t K, int64_t stride,
                                                   int64_t dilation, int64_t pad, int64_t first)
{
    const int64_t common = talc_gcd(stride, dilation), remainder = (first + pad) % stride;
    phase_axis_taps<int64_t> a = {};
    a.count = first < extent ? (extent - 1 - first) / stride + 1 : 0;
    a.apart = stride / common;
    a.dilation = dilation / common;
    while (a.tap < a.apart && a.tap < K && a.tap * dilation % stride != remainder)
        a.tap++;
    if (a.tap == a.apart || a.tap >= K || a.count == 0)
        return a;
    a.taps = (K - 1 - a.tap) / a.apart + 1;
    a.before = (a.taps - 1) * a.dilation - (first + pad) / stride -
               (remainder - a.tap * dilation) / stride;
    return a;
}

} // namespace talc

#endif
