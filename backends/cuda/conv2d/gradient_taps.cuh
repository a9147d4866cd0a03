/// Which outputs and taps an input's gradient is summed over, along one axis. Private to
/// backends/cuda.
///
/// Input i is read by output o through tap k where
///
///     o * stride + k * dilation = i + pad,        0 <= o < O,  0 <= k < K
///
/// From one solution to the next the tap goes up by stride / gcd and the output down by dilation /
/// gcd.
#ifndef TALC_BACKENDS_CUDA_CONV2D_GRADIENT_TAPS_CUH
#define TALC_BACKENDS_CUDA_CONV2D_GRADIENT_TAPS_CUH

#include "backends/cuda/cuda.h"
#include "tensor/extent.h"

namespace talc
{

/// The first solution, of the smallest tap, and how many there are.
template <typename Index> struct gather_taps {
    Index tap, out, count;
};

template <typename Index> struct gather_axis {
    Index stride, dilation, K, O, pad;
    Index tap_step, out_step; ///< from one solution to the next

    void set(int64_t stride_, int64_t dilation_, int64_t K_, int64_t O_, int64_t pad_)
    {
        if (K_ == 1)
            dilation_ = 1; /* which may be anything then */
        const int64_t common = talc_gcd(stride_, dilation_);
        stride = (Index)stride_, dilation = (Index)dilation_;
        K = (Index)K_, O = (Index)O_, pad = (Index)pad_;
        tap_step = (Index)(stride_ / common), out_step = (Index)(dilation_ / common);
    }

    /// Solutions of any input at most.
    __host__ __device__ Index max_count() const
    {
        return (K - 1) / tap_step + 1;
    }

    __device__ gather_taps<Index> taps(Index i) const
    {
        gather_taps<Index> found = { 0, i + pad, 0 };
        if (stride > 1) {
            const Index end = K < tap_step ? K : tap_step;
            while (found.tap < end && found.out % stride != 0)
                found.tap++, found.out -= dilation;
            if (found.tap == end)
                return found;
            found.out /= stride;
        }
        if (found.out < 0)
            return found;
        Index after = K - 1 - found.tap, before = found.out; /* in steps of one */
        if (found.out >= O) {
            const Index skipped = (found.out - O) / out_step + 1;
            if (skipped > after / tap_step || skipped * out_step > found.out)
                return found;
            found.tap += skipped * tap_step, found.out -= skipped * out_step;
            after = K - 1 - found.tap, before = found.out;
        }
        if (tap_step > 1)
            after /= tap_step;
        if (out_step > 1)
            before /= out_step;
        found.count = (after < before ? after : before) + 1;
        return found;
    }
};

} // namespace talc

#endif
