/// What the forms of `depthwise` share: passes. Private to backends/cpu.
///
/// A pass is a convolution of planes with a stride, a dilation and padding along each axis: the
/// problem itself, whose x dw reads too, or a phase of dx, over dy. depthwise_planes.c says how
/// they are computed.
#ifndef TALC_BACKENDS_CPU_CONV2D_DEPTHWISE_H
#define TALC_BACKENDS_CPU_CONV2D_DEPTHWISE_H

#include "ops/conv2d.h"

/* What one pass reads and writes along one axis: output o sums taps k of position
 * o * stride - pad + k * dilation. */
typedef struct depthwise_axis {
    int64_t in, out; /* extents */
    int64_t taps, stride, dilation, pad;
    int64_t w, w_step; /* the first tap's weight, and how far the next one stands, along the axis */
    int64_t spread;    /* of all phases, how far their paddings differ */
} depthwise_axis;

typedef struct depthwise_pass {
    depthwise_axis h, w;
} depthwise_pass;

/* The pass of the problem itself. */
depthwise_pass talc_cpu_depthwise_forward(const talc_conv2d_problem *problem);

/* How many phases an axis of dx has, of which each has pixels; 1 for others. */
int64_t talc_cpu_depthwise_phases(const depthwise_axis *forward, bool to_input);

/* Pixels phase, phase + stride, ... of dx: sums over dy at stride 1, last tap first; of others the
 * forward pass. */
depthwise_axis talc_cpu_depthwise_phase(const depthwise_axis *forward, bool to_input,
                                        int64_t phase);

/* The axis that covers what every pass reads: of dx with the most taps and the largest padding of
 * all phases. Sizes and positions of the input follow from it. */
depthwise_axis talc_cpu_depthwise_window(const depthwise_axis *forward, bool to_input);

/* What every form refuses. */
const char *talc_cpu_depthwise_refusal(const talc_conv2d_problem *problem);

#endif
