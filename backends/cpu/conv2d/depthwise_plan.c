/// Passes of the depthwise convolution, and its plan: tiles, tasks and workspace.
#include "backends/cpu/conv2d/depthwise.h"
#include "backends/cpu/primitives/stream.h"

/* Measured on processors with 32 KiB and 1 MiB of cache a core. */
enum {
    TILE_BYTES = 64 << 10, /* of input */
    BAND_BYTES = 16 << 10, /* of outputs: together with their input in the L1 cache */
    TILE_COLUMNS = 1024,
    TASK_OUTPUTS = 16 << 10, /* small planes share a task */
    TASKS = 16,              /* where there are planes enough */
    VECTOR = TALC_CPU_DEPTHWISE_VECTOR,
    COPIED_COLUMNS = TALC_CPU_DEPTHWISE_COPIED,
};

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

/* Pixels phase, phase + stride, ... of dx: sums over dy at stride 1, last tap first. */
depthwise_axis talc_cpu_depthwise_phase(const depthwise_axis *forward, int64_t phase)
{
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

/* What holds for the input of every pass: of dx the largest extents of all phases. */
depthwise_axis talc_cpu_depthwise_window(const depthwise_axis *forward, bool to_input)
{
    if (!to_input)
        return *forward;
    depthwise_axis axis = talc_cpu_depthwise_phase(forward, 0);
    int64_t low = axis.pad, high = axis.pad;
    bool met = axis.taps > 0;
    for (int64_t phase = 1; phase < phases_of(forward); phase++) {
        const depthwise_axis one = talc_cpu_depthwise_phase(forward, phase);
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

/* How many different remainders kw * dilation_w has modulo stride_w: they repeat with this
 * period. */
static int64_t remainders(const depthwise_axis *w)
{
    return w->stride / talc_gcd(w->stride, w->dilation);
}

/* Whether phases of dx are joined, or filters added up, behind the passes. */
bool talc_cpu_depthwise_joins(const talc_conv2d_problem *p)
{
    return p->direction == TALC_GRAD_INPUT && (p->stride_w > 1 || p->OC > p->C);
}

depthwise_plan talc_cpu_depthwise_plan_of(const talc_conv2d_problem *p, bool by_columns,
                                          size_t limit)
{
    const int64_t size = (int64_t)talc_dtype_size(p->dtype);
    const bool to_input = p->direction == TALC_GRAD_INPUT;
    const depthwise_pass forward = talc_cpu_depthwise_forward(p);
    depthwise_axis h = talc_cpu_depthwise_window(&forward.h, to_input),
                   w = talc_cpu_depthwise_window(&forward.w, to_input);
    const int64_t planes = h.out * w.out == 0 ? 0 : p->N * (to_input ? p->C : p->OC);
    h.out = talc_larger(h.out, 1),
    w.out = talc_larger(w.out, 1); /* where there are none, no task */
    const int64_t bands = talc_cpu_depthwise_joins(p) ? phases_of(&forward.w) : 1;
    depthwise_plan plan = { .by_columns = by_columns,
                            .column_blocks = talc_ceil_div(w.out * bands, TILE_COLUMNS) };
    plan.columns = talc_ceil_div(w.out, plan.column_blocks);
    plan.column_blocks = talc_ceil_div(w.out, plan.columns);
    plan.slots = talc_smaller(w.taps, remainders(&w));
    plan.width = talc_round_up(plan.columns, VECTOR) +
                 talc_round_up((w.taps - 1) * w.dilation / w.stride + w.spread + VECTOR, VECTOR);
    plan.pitch = talc_round_up(plan.columns, VECTOR);

    const int64_t row = talc_larger(h.stride * plan.slots * plan.width, bands * plan.pitch) * size;
    const int64_t halo = (input_rows(&h, 1) - h.stride) * plan.slots * plan.width * size;
    const int64_t fitting = (TILE_BYTES - halo) / row;
    plan.row_blocks = talc_ceil_div(h.out, fitting < 1 ? 1 : fitting);
    plan.rows = talc_ceil_div(h.out, plan.row_blocks);
    plan.row_blocks = talc_ceil_div(h.out, plan.rows);

    plan.ahead =
        (double)(p->N * p->OC * size) * (double)h.in * (double)w.in >= TALC_CPU_STREAM_BYTES;
    const int64_t tiles = plan.row_blocks * plan.column_blocks;
    plan.planes = tiles > 1 ? 1
                            : talc_between(talc_ceil_div(planes, TASKS), 1,
                                           TASK_OUTPUTS / (h.out * w.out) + 1);
    plan.tasks = talc_ceil_div(planes, plan.planes) * tiles;

    plan.in = talc_round_up(input_rows(&h, plan.rows) * plan.slots * plan.width, VECTOR);
    plan.band =
        p->direction == TALC_GRAD_WEIGHT || talc_cpu_depthwise_joins(p)
            ? plan.rows
            : talc_smaller(plan.rows, talc_round_up(BAND_BYTES / (plan.columns * size) + 1, 28));
    if (by_columns)
        plan.in = (plan.band + 3) * COPIED_COLUMNS; /* a row of zeros, copied columns */
    plan.in_bytes = (size_t)(plan.in * size);
    plan.slice = plan.in_bytes + (size_t)(bands * plan.band * plan.pitch * size);
    plan.shared = (size_t)talc_round_up(w.taps, 8) * sizeof(int64_t);
    if (p->direction == TALC_GRAD_WEIGHT) {
        const size_t taps = (size_t)talc_round_up(p->KH * p->KW, 8) * sizeof(double);
        plan.split_k = talc_cpu_split_k_of(p, p->OC, p->N * tiles, limit);
        plan.tasks = plan.split_k.splits * p->OC;
        plan.shared = taps + talc_cpu_split_k_bytes(&plan.split_k);
        plan.slice += taps;
    }
    return plan;
}
