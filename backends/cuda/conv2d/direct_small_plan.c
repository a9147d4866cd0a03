#include "backends/cuda/conv2d/direct_small.h"

#include "backends/cuda/conv2d/phases.h"
#include "tensor/extent.h"

#include <limits.h>
#include <math.h>

enum { MAX = 1 << 24, THREADS = TALC_SMALL_WARPS * 32 };

static int larger(int a, int b)
{
    return a > b ? a : b;
}

static void add_phase(talc_small_shape *s, talc_phase_axis h, talc_phase_axis w, int64_t KW,
                      int64_t out, bool rotated)
{
    talc_small_phase *f = &s->phases[s->phase_count++];
    f->count_h = (int)h.count, f->count_w = (int)w.count;
    f->taps_h = (int)h.taps, f->taps_w = (int)w.taps;
    f->before_h = (int)h.before, f->before_w = (int)w.before;
    const int64_t last_h = rotated ? h.taps - 1 : 0, last_w = rotated ? w.taps - 1 : 0;
    const int64_t sign = rotated ? -1 : 1;
    f->tap = (int)((h.tap + last_h * h.apart) * KW + w.tap + last_w * w.apart);
    f->tap_h = (int)(sign * h.apart * KW), f->tap_w = (int)(sign * w.apart);
    f->out = (int)out;
    f->by_taps_h = talc_divisor_of(larger(f->taps_h, 1));
    s->count_h = larger(s->count_h, f->count_h), s->count_w = larger(s->count_w, f->count_w);
    s->taps_h = larger(s->taps_h, f->taps_h), s->taps_w = larger(s->taps_w, f->taps_w);
}

bool talc_small_shape_of(const talc_conv2d_problem *p, talc_small_shape *s)
{
    const bool input = p->direction == TALC_GRAD_INPUT;
    const int64_t extents[] = {
        p->N,        p->C,          p->OC,         p->H * p->W,           p->OH * p->OW,
        p->stride_h, p->stride_w,   p->KH * p->KW, p->KH * p->dilation_h, p->KW * p->dilation_w,
        p->pad_top,  p->pad_bottom, p->pad_left,   p->pad_right
    };
    for (size_t i = 0; i < sizeof extents / sizeof *extents; i++)
        if (extents[i] > MAX)
            return false;
    const int64_t outputs = input ? p->C * p->H * p->W : p->OC * p->OH * p->OW;
    if (p->direction == TALC_GRAD_WEIGHT || outputs > INT_MAX / 256 || p->N * outputs == 0 ||
        (input && p->stride_h * p->stride_w > TALC_SMALL_PHASES))
        return false;
    const int64_t IC = p->C / p->groups, OC = p->OC / p->groups, taps = p->KH * p->KW;
    *s = (talc_small_shape){ .N = (int)p->N,
                             .groups = (int)p->groups,
                             .mode = p->padding_mode,
                             .only_inside = input || p->only_inside };
    if (!input) {
        s->IC = (int)IC, s->OC = (int)OC, s->H = (int)p->H, s->W = (int)p->W;
        s->plane = (int)(p->OH * p->OW), s->out_row = (int)p->OW, s->out_column = 1;
        s->step_h = (int)p->stride_h, s->step_w = (int)p->stride_w;
        s->dilation_h = (int)p->dilation_h, s->dilation_w = (int)p->dilation_w;
        s->w_out = IC * taps, s->w_in = taps;
        add_phase(s, (talc_phase_axis){ p->OH, 0, p->KH, 1, p->dilation_h, p->pad_top },
                  (talc_phase_axis){ p->OW, 0, p->KW, 1, p->dilation_w, p->pad_left }, p->KW, 0,
                  false);
        return true;
    }
    s->IC = (int)OC, s->OC = (int)IC, s->H = (int)p->OH, s->W = (int)p->OW;
    s->plane = (int)(p->H * p->W);
    s->out_row = (int)(p->stride_h * p->W), s->out_column = (int)p->stride_w;
    s->step_h = s->step_w = 1;
    s->w_out = taps, s->w_in = IC * taps;
    for (int64_t i = 0; i < p->stride_h; i++)
        for (int64_t j = 0; j < p->stride_w; j++) {
            const talc_phase_axis h = talc_phase_axis_of(p->H, p->KH, p->stride_h, p->dilation_h,
                                                         p->pad_top, i),
                                  w = talc_phase_axis_of(p->W, p->KW, p->stride_w, p->dilation_w,
                                                         p->pad_left, j);
            s->dilation_h = (int)h.dilation, s->dilation_w = (int)w.dilation;
            if (h.count * w.count > 0)
                add_phase(s, h, w, p->KW, i * p->W + j, true);
        }
    return true;
}

int talc_small_taps(const talc_small_shape *s)
{
    const int taps = s->taps_w;
    if (s->step_w == 1 && taps <= 1)
        return 1;
    if ((s->dilation_w != 1 && taps > 1) || s->step_w > 2)
        return 0;
    if (s->step_w == 2)
        return taps <= 1 ? 1 : taps <= 3 ? 3 : 0;
    return taps <= 3 ? taps : taps <= 5 ? 5 : 0;
}

/* Completes tiles whose groups of channels, groups of units and splits are given. Returns false
 * where they do not fit shared memory. */
static bool complete(const talc_small_shape *s, int64_t max_shared, talc_small_tiles *t)
{
    const int64_t vector = TALC_SMALL_VECTOR, unit = TALC_SMALL_COLUMNS, size = sizeof(float),
                  row_units = talc_ceil_div(s->count_w, unit), max = 32 * t->unit_groups;
    if (row_units > max)
        return false;
    t->rows = (int)talc_even(s->count_h, max / row_units);
    t->images = t->rows < s->count_h ? 1 : (int)talc_even(s->N, max / (t->rows * row_units));
    /* At least one tap, as all phases of an input gradient may be without any. */
    const int64_t taps_h = talc_larger(s->taps_h, 1), taps_w = talc_small_taps(s);
    const int64_t down = (int64_t)(t->rows - 1) * s->step_h + (taps_h - 1) * s->dilation_h + 1;
    const int64_t columns = (row_units * unit - 1) * s->step_w + taps_w;
    const int64_t across =
        columns + (columns - 1) / (unit * s->step_w) * talc_small_hole(s->step_w);
    if (down > MAX || across > MAX || down * across * t->images > MAX)
        return false;
    /* An odd number of vectors from row to row: neighbouring lanes read neighbouring rows, and so
     * have no bank conflicts. */
    const int64_t vectors = talc_ceil_div(across, vector);
    t->halo_tile_rows = (int)down, t->pitch = (int)((vectors + 1 - vectors % 2) * vector);
    t->halo_tile = t->halo_tile_rows * t->pitch * t->images;
    const int64_t channels = (int64_t)t->channel_groups * TALC_SMALL_CHANNELS,
                  sums_bytes = THREADS * TALC_SMALL_CHANNELS * unit * size,
                  weights = taps_h * taps_w * talc_small_weights_pitch((int)channels),
                  channel_bytes = (t->halo_tile + weights) * size;
    int64_t stage_channels = talc_smaller(s->IC, max_shared / channel_bytes);
    if (stage_channels < s->IC) {
        stage_channels = stage_channels / t->splits * t->splits;
        stage_channels =
            stage_channels > 0 ? talc_round_up(talc_even(s->IC, stage_channels), t->splits) : 0;
    }
    t->stage_channels = (int)stage_channels;
    t->shared = (size_t)talc_larger(stage_channels * channel_bytes, sums_bytes);
    t->blocks = s->phase_count * s->groups * talc_ceil_div(s->N, t->images) *
                talc_ceil_div(s->count_h, t->rows) * talc_ceil_div(s->OC, channels);
    return stage_channels >= 1 && t->shared <= (size_t)max_shared && t->blocks <= INT_MAX;
}

/* The constants were measured on an H200. A multiprocessor issues about 3 warp instructions a clock
 * cycle. A block waits for 6000 cycles, and for 1000 more in each stage. 784 layers of networks
 * took MEASURED times as long. */
static double seconds_of(const talc_small_shape *s, int multiprocessors, const talc_small_tiles *t)
{
    static const double CLOCK = 1.7e9, RATE = 3, MEASURED = 1.2;
    const int vector = TALC_SMALL_VECTOR, unit = TALC_SMALL_COLUMNS, taps_w = talc_small_taps(s);
    const double blocks_per_sm = (double)t->blocks / multiprocessors;
    const double waves = ceil(blocks_per_sm / 2);
    /* In a single wave, the blocks of the phase with the most taps end last. */
    double rows = waves > 1 ? 0 : s->taps_h;
    for (int i = 0; i < s->phase_count && waves > 1; i++)
        rows += (double)s->phases[i].taps_h / s->phase_count;
    const double row = (unit * s->step_w + taps_w) / (double)vector + 8 +
                       taps_w * (TALC_SMALL_CHANNELS / vector + 1 + TALC_SMALL_CHANNELS * unit);
    const double halo_tile =
        s->step_w == 2 ? t->halo_tile * 0.8 : t->halo_tile; /* without the holes */
    const double loads =
        s->IC * (halo_tile * 5 + rows * taps_w * t->channel_groups * TALC_SMALL_CHANNELS * 13) /
            THREADS +
        halo_tile / THREADS * 60;
    const double results = 400 + TALC_SMALL_CHANNELS * unit * 1.5;
    const double instructions =
        (double)talc_ceil_div(s->IC, t->splits) * rows * row + loads + results;
    const double stages = (double)talc_ceil_div(s->IC, t->stage_channels);
    const double resident = blocks_per_sm < 1 ? 1 : blocks_per_sm < 2 ? blocks_per_sm : 2;
    return waves * (6000 + 1000 * stages + resident * instructions * TALC_SMALL_WARPS / RATE) /
           CLOCK * MEASURED;
}

double talc_small_choose(const talc_small_shape *s, int multiprocessors, int64_t block_shared,
                         talc_small_tiles *best)
{
    const int64_t max_shared = talc_smaller(TALC_SMALL_SHARED_BYTES, block_shared);
    double smallest = INFINITY;
    if (talc_small_taps(s) == 0)
        return smallest;
    for (int channels = 1; channels <= TALC_SMALL_WARPS; channels *= 2)
        for (int units = 1; units <= TALC_SMALL_WARPS / channels; units *= 2) {
            talc_small_tiles t = { .channel_groups = channels,
                                   .unit_groups = units,
                                   .splits = TALC_SMALL_WARPS / channels / units };
            if ((channels > 1 && channels / 2 * TALC_SMALL_CHANNELS >= s->OC) ||
                !complete(s, max_shared, &t))
                continue;
            const double seconds = seconds_of(s, multiprocessors, &t);
            if (seconds < smallest)
                smallest = seconds, *best = t;
        }
    return smallest;
}

talc_small_layout talc_small_layout_of(const talc_small_shape *s, const talc_small_tiles *t)
{
    talc_small_layout l = { .s = *s, .t = *t };
    l.channel_tiles =
        talc_divisor_of(talc_ceil_div(s->OC, t->channel_groups * TALC_SMALL_CHANNELS));
    l.row_tiles = talc_divisor_of(talc_ceil_div(s->count_h, t->rows));
    l.image_tiles = talc_divisor_of(talc_ceil_div(s->N, t->images));
    l.by_groups = talc_divisor_of(s->groups);
    l.by_row_units = talc_divisor_of(talc_ceil_div(s->count_w, TALC_SMALL_COLUMNS));
    l.by_rows = talc_divisor_of(t->rows);
    l.by_pitch = talc_divisor_of(t->pitch);
    l.by_halo_tile_rows = talc_divisor_of(t->halo_tile_rows);
    return l;
}
