/// Passes of the depthwise convolution.
#include "backends/cpu/conv2d/depthwise.h"

#include "tensor/extent.h"

/* A single tap has no dilation, which may be of any size. */
static depthwise_axis axis_of(int64_t in, int64_t out, int64_t taps, int64_t stride,
                              int64_t dilation, int64_t pad)
{
    return (depthwise_axis){ in, out, taps, stride, taps == 1 ? 1 : dilation, pad, 0, 1, 0 };
}

depthwise_pass talc_cpu_depthwise_forward(const talc_conv2d_problem *p)
{
    return (depthwise_pass){
        axis_of(p->H, p->OH, p->KH, p->stride_h, p->dilation_h, p->pad_top),
        axis_of(p->W, p->OW, p->KW, p->stride_w, p->dilation_w, p->pad_left),
    };
}

int64_t talc_cpu_depthwise_phases(const depthwise_axis *forward, bool to_input)
{
    return to_input ? talc_smaller(forward->stride, forward->in) : 1;
}

depthwise_axis talc_cpu_depthwise_phase(const depthwise_axis *forward, bool to_input, int64_t phase)
{
    if (!to_input)
        return *forward;
    const int64_t stride = forward->stride, common = talc_gcd(stride, forward->dilation);
    const int64_t period = stride / common, different = talc_smaller(forward->taps, period);
    int64_t k = 0;
    while (k < different && (phase + forward->pad - k * forward->dilation) % stride != 0)
        k++;
    depthwise_axis axis = { .in = forward->out,
                            .out = talc_ceil_div(forward->in - phase, stride),
                            .stride = 1,
                            .dilation = forward->dilation / common,
                            .w_step = -period };
    if (k < different) {
        axis.taps = (forward->taps - 1 - k) / period + 1;
        axis.w = k + (axis.taps - 1) * period;
        axis.pad = (axis.w * forward->dilation - phase - forward->pad) / stride;
    }
    return axis;
}

depthwise_axis talc_cpu_depthwise_window(const depthwise_axis *forward, bool to_input)
{
    depthwise_axis axis = talc_cpu_depthwise_phase(forward, to_input, 0);
    int64_t low = axis.pad, high = axis.pad;
    bool met = axis.taps > 0;
    for (int64_t phase = 1; phase < talc_cpu_depthwise_phases(forward, to_input); phase++) {
        const depthwise_axis one = talc_cpu_depthwise_phase(forward, true, phase);
        if (one.taps == 0)
            continue;
        axis.taps = talc_larger(axis.taps, one.taps);
        low = met ? talc_smaller(low, one.pad) : one.pad;
        high = met ? talc_larger(high, one.pad) : one.pad;
        met = true;
    }
    axis.pad = high;
    axis.spread = high - low;
    return axis;
}
