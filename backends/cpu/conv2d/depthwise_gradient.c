/// The gradients of the depthwise convolution: dx by the passes of depthwise.c, one a phase, and
/// dw by products of rows.
#include "backends/cpu/conv2d/algorithms.h"
#include "backends/cpu/conv2d/depthwise.h"
#include "backends/cpu/primitives/short_copy.h"
#include "backends/cpu/primitives/target.h"

#include <string.h>

enum {
    TERMS = 256, /* of dw that a lane sums in the data's type */
    VECTOR = TALC_CPU_DEPTHWISE_VECTOR,
};

// ---- Input --------------------------------------------------------------------------------------

/* A row of dx of `columns` pixels, from rows of its phases that stand `apart`. */
#define JOIN_PHASES(constant, suffix, T, A)                                                        \
    TALC_TARGET_CLONES static void join_phases_##suffix(                                           \
        int64_t phases, int64_t columns, const T *restrict from, int64_t apart, T *restrict dx)    \
    {                                                                                              \
        if (phases == 1)                                                                           \
            memcpy(dx, from, (size_t)columns * sizeof(T));                                         \
        const int64_t pairs = phases == 2 ? columns / 2 : 0;                                       \
        const T *odd = from + apart;                                                               \
        for (int64_t i = 0; i < pairs; i++) {                                                      \
            dx[2 * i] = from[i];                                                                   \
            dx[2 * i + 1] = odd[i];                                                                \
        }                                                                                          \
        for (int64_t b = 0; b < phases && phases > 1; b++)                                         \
            for (int64_t i = pairs; b + i * phases < columns; i++)                                 \
                dx[b + i * phases] = from[b * apart + i];                                          \
    }

TALC_CPU_FLOATS(JOIN_PHASES)

/* Makes what is NaN in `rows` rows of dx again. */
static void mend_rows(const depthwise_context *c, int64_t plane, int64_t row, int64_t rows,
                      int64_t column, int64_t columns)
{
    const talc_conv2d_problem *p = c->problem;
    const int64_t size = (int64_t)talc_dtype_size(p->dtype);
    char *dx = (char *)c->arguments->dx + plane * p->H * p->W * size;
    for (int64_t ih = row; ih < row + rows; ih++)
        for (int64_t iw = column; iw < column + columns; iw++)
            if (isnan(talc_cpu_load(p->dtype, dx, ih * p->W + iw)))
                talc_cpu_store(p->dtype, dx, ih * p->W + iw,
                               talc_cpu_conv2d_grad_pixel(p, c->arguments, plane, ih, iw));
}

/* `plane` is n * C + channel. */
void talc_cpu_depthwise_input_tile(const depthwise_context *c, const depthwise_tile *tile,
                                   int64_t plane, depthwise_copy *copy, char *bands)
{
    const talc_conv2d_problem *p = c->problem;
    const int64_t size = (int64_t)talc_dtype_size(p->dtype), M = p->OC / p->C;
    const int64_t w_phases = phases_of(&c->forward.w), pitch = c->plan.pitch;
    const bool joined = talc_cpu_depthwise_joins(p);
    const void *w = talc_cpu_at(p->dtype, c->arguments->w, (plane % p->C) * M * p->KH * p->KW);
    const int64_t column = tile->column * p->stride_w;
    const int64_t columns = talc_smaller(tile->columns * p->stride_w, p->W - column);
    char *dx = (char *)c->arguments->dx + (plane * p->H * p->W + column) * size;
    for (int64_t a = 0; a < phases_of(&c->forward.h); a++) {
        depthwise_pass pass = { .h = talc_cpu_depthwise_phase(&c->forward.h, a) };
        const int64_t rows = talc_smaller(tile->rows, pass.h.out - tile->row);
        char *to = dx + (tile->row * p->stride_h + a) * p->W * size;
        for (int64_t b = 0; b < w_phases && rows > 0; b++) {
            pass.w = talc_cpu_depthwise_phase(&c->forward.w, b);
            for (int64_t m = 0; m < M; m++) {
                const void *dy =
                    talc_cpu_at(p->dtype, c->arguments->dy, (plane * M + m) * p->OH * p->OW);
                for (int64_t first = 0; first < rows; first += c->plan.band) {
                    char *y = joined ? bands + b * tile->rows * pitch * size
                                     : to + first * p->stride_h * p->W * size;
                    talc_cpu_depthwise_sums sums = {
                        .columns = joined ? talc_round_up(tile->columns, VECTOR) : tile->columns,
                        .y = y,
                        .y_step = joined ? pitch : p->stride_h * p->W,
                        .add = m > 0,
                    };
                    talc_cpu_depthwise_sum_band(
                        c, &pass, tile, first, talc_smaller(c->plan.band, rows - first), dy,
                        talc_cpu_at(p->dtype, w, m * p->KH * p->KW), true, copy, &sums);
                }
            }
        }
        for (int64_t r = 0; r < rows && joined; r++)
            TALC_CPU_CALL(p->dtype, join_phases,
                          (w_phases, columns, (const void *)(bands + r * pitch * size),
                           tile->rows * pitch, (void *)(to + r * p->stride_h * p->W * size)));
    }
    if (!talc_cpu_depthwise_is_finite(p->dtype, w, M * p->KH * p->KW)) {
        const int64_t row = tile->row * p->stride_h;
        mend_rows(c, plane, row, talc_smaller(tile->rows * p->stride_h, p->H - row), column,
                  columns);
    }
}

// ---- Weight -------------------------------------------------------------------------------------

/* Adds one tile's products to the sums of all taps. */
static void weight_tile(const depthwise_context *c, const depthwise_tile *tile, const void *x,
                        const void *dy, char *in, char *band, double *taps)
{
    const talc_conv2d_problem *p = c->problem;
    const depthwise_plan *plan = &c->plan;
    const int64_t size = (int64_t)talc_dtype_size(p->dtype), count = p->KH * p->KW;
    depthwise_copy copy = { .rows = in };
    talc_cpu_depthwise_copy_rows(c, tile, x, input_rows(&c->window.h, tile->rows), &copy);
    in += lead_of(&c->window.w, tile->column) * size;
    for (int64_t r = 0; r < tile->rows; r++)
        talc_cpu_short_copy(band + r * plan->pitch * size,
                            (const char *)dy + ((tile->row + r) * p->OW + tile->column) * size,
                            (size_t)(tile->columns * size));
    talc_cpu_depthwise_products t = { .columns = tile->columns, .dy_step = plan->pitch };
    t.x_step = p->stride_h * plan->slots * plan->width;
    const int64_t fitting = TERMS / talc_ceil_div(tile->columns, c->kernels->lanes);
    const int64_t step = talc_even(tile->rows, fitting);
    const int64_t width = talc_even(count, TALC_CPU_DEPTHWISE_TAPS);
    for (int64_t r = 0; r < tile->rows; r += step) {
        t.rows = talc_smaller(step, tile->rows - r);
        t.x = in + r * t.x_step * size;
        t.dy = band + r * t.dy_step * size;
        for (int64_t tap = 0; tap < count; tap += width) {
            t.offsets = c->offsets + tap;
            t.sums = taps + tap;
            c->kernels->depthwise_products((int)talc_smaller(width, count - tap), &t);
        }
    }
}

void talc_cpu_depthwise_weight_task(void *context, int64_t task, int worker)
{
    const depthwise_context *c = context;
    const talc_conv2d_problem *p = c->problem;
    const depthwise_plan *plan = &c->plan;
    const int64_t M = p->OC / p->C, count = p->KH * p->KW;
    const int64_t oc = task % p->OC, split = task / p->OC;
    const int64_t tiles = plan->row_blocks * plan->column_blocks;
    const talc_range terms = talc_cpu_split_k_terms(&plan->split_k, split);
    double *taps = (double *)(void *)(c->slices + (size_t)worker * plan->slice);
    char *in = (char *)(taps + talc_round_up(count, 8)), *band = in + plan->in_bytes;
    memset(taps, 0, (size_t)count * sizeof *taps);
    for (int64_t term = terms.lo; term < terms.hi; term++) {
        const int64_t n = term / tiles;
        const depthwise_tile tile = tile_of(c, term % tiles);
        weight_tile(c, &tile,
                    talc_cpu_at(p->dtype, c->arguments->x, (n * p->C + oc / M) * p->H * p->W),
                    talc_cpu_at(p->dtype, c->arguments->dy, (n * p->OC + oc) * p->OH * p->OW), in,
                    band, taps);
    }
    void *dw = talc_cpu_split_k_at(&plan->split_k, p, c->arguments, split, oc * count);
    for (int64_t tap = 0; tap < count; tap++)
        talc_cpu_store(p->dtype, dw, tap, taps[tap]);
}
