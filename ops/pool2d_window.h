/// Which elements a pooling window holds, along one dimension; for C and CUDA kernels alike.
#ifndef TALC_OPS_POOL2D_WINDOW_H
#define TALC_OPS_POOL2D_WINDOW_H

#include "pool2d.h"
#include "window.h"

/// One dimension of a pooling problem.
typedef struct talc_pool2d_axis {
    int64_t extent; ///< of the input
    int64_t out;    ///< of the output
    int64_t kernel; ///< 0: adaptive
    int64_t stride, pad_begin, pad_end, dilation;
} talc_pool2d_axis;

/// Input indices first, first + step, ... below end; all inside 0 .. extent - 1. first == end:
/// none.
typedef struct talc_pool2d_window {
    int64_t first, end, step;
    int64_t padded; ///< elements at dilation 1 inside the padded input
} talc_pool2d_window;

TALC_HOST_DEVICE static inline talc_pool2d_axis talc_pool2d_axis_h(const talc_pool2d_problem *p)
{
    talc_pool2d_axis axis = { p->H,       p->OH,         p->KH,        p->stride_h,
                              p->pad_top, p->pad_bottom, p->dilation_h };
    return axis;
}

TALC_HOST_DEVICE static inline talc_pool2d_axis talc_pool2d_axis_w(const talc_pool2d_problem *p)
{
    talc_pool2d_axis axis = { p->W,        p->OW,        p->KW,        p->stride_w,
                              p->pad_left, p->pad_right, p->dilation_w };
    return axis;
}

/// From one tap that is inside to the next. A dilation beyond the extent leaves one tap inside at
/// most, which any step that long ends; so index + step fits, whatever the dilation.
TALC_HOST_DEVICE static inline int64_t talc_pool2d_step(talc_pool2d_axis axis)
{
    return axis.dilation < axis.extent ? axis.dilation : axis.extent;
}

/// The window of output index o.
TALC_HOST_DEVICE static inline talc_pool2d_window talc_pool2d_window_of(talc_pool2d_axis axis,
                                                                        int64_t o)
{
    talc_pool2d_window window;
    window.step = 1;
    if (axis.kernel == 0) {
        /* floor(o * extent / out) without the product, which may not fit. */
        int64_t whole = axis.extent / axis.out, rest = axis.extent % axis.out;
        window.first = o * whole + o * rest / axis.out;
        window.end = (o + 1) * whole + ((o + 1) * rest + axis.out - 1) / axis.out;
        window.padded = window.end - window.first;
        return window;
    }
    talc_range taps =
        talc_window_taps(o, axis.stride, axis.pad_begin, axis.dilation, axis.kernel, axis.extent);
    /* Of the sums only those of extent and padding are known to fit: a kernel may reach far past
     * both. */
    int64_t start = o * axis.stride - axis.pad_begin;
    int64_t left = axis.extent + axis.pad_end - start;
    window.step = talc_pool2d_step(axis);
    window.first = start + taps.lo * axis.dilation;
    window.end = taps.lo < taps.hi ? start + (taps.hi - 1) * axis.dilation + 1 : window.first;
    window.padded = axis.kernel < left ? axis.kernel : left;
    return window;
}

/// The outputs whose windows hold input index i, and with a dilation perhaps some that step over
/// it. Where lo == hi none does, and lo is the first output beyond i.
TALC_HOST_DEVICE static inline talc_range talc_pool2d_outputs_at(talc_pool2d_axis axis, int64_t i)
{
    talc_range outputs;
    if (axis.kernel == 0) {
        /* floor(o * extent / out) <= i < ceil((o + 1) * extent / out), solved for o: the same with
         * the roles changed. */
        talc_pool2d_axis transposed = axis;
        transposed.extent = axis.out;
        transposed.out = axis.extent;
        talc_pool2d_window window = talc_pool2d_window_of(transposed, i);
        outputs.lo = window.first;
        outputs.hi = window.end;
        return outputs;
    }
    int64_t last = i + axis.pad_begin, first = last - (axis.kernel - 1) * axis.dilation;
    outputs.lo = first > 0 ? (first - 1) / axis.stride + 1 : 0;
    outputs.hi = last / axis.stride + 1;
    if (outputs.hi > axis.out)
        outputs.hi = axis.out;
    if (outputs.lo > outputs.hi)
        outputs.lo = outputs.hi;
    return outputs;
}

#endif
