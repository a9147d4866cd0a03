/// One axis of the phases of a stride. Compiles as C and as CUDA C++. Private to backends/cuda.
///
/// Of an axis of dx the elements first, first + stride, ..., a phase, read the same taps: those for
/// which first + pad - tap * dilation is a multiple of the stride. So a phase is a convolution of
/// dy at stride 1, in which element q of the phase reads
///
///     dy[q - before + j * dilation / gcd]  through  w[tap + (taps - 1 - j) * apart],
///     0 <= j < taps
#ifndef TALC_BACKENDS_CUDA_CONV2D_PHASES_H
#define TALC_BACKENDS_CUDA_CONV2D_PHASES_H

#include "tensor/api.h"
#include "tensor/extent.h"

TALC_BEGIN_DECLARATIONS

typedef struct talc_phase_axis {
    int64_t count;            ///< elements
    int64_t tap, taps, apart; ///< the first tap, how many there are, and from one to the next
    int64_t dilation, before;
} talc_phase_axis;

static inline talc_phase_axis talc_phase_axis_of(int64_t extent, int64_t K, int64_t stride,
                                                 int64_t dilation, int64_t pad, int64_t first)
{
    const int64_t common = talc_gcd(stride, dilation), remainder = (first + pad) % stride;
    talc_phase_axis a = { 0, 0, 0, stride / common, dilation / common, 0 };
    a.count = first < extent ? (extent - 1 - first) / stride + 1 : 0;
    while (a.tap < a.apart && a.tap < K && a.tap * dilation % stride != remainder)
        a.tap++;
    if (a.tap == a.apart || a.tap >= K || a.count == 0)
        return a;
    a.taps = (K - 1 - a.tap) / a.apart + 1;
    a.before = (a.taps - 1) * a.dilation - (first + pad) / stride -
               (remainder - a.tap * dilation) / stride;
    return a;
}

TALC_END_DECLARATIONS

#endif
