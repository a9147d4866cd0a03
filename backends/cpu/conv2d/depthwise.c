/// Depthwise convolution: every group is one input channel, so that every output plane reads one
/// input plane.
///
///     y[n, oc, oh, ow] = act( b[oc] + r[n, oc, oh, ow] + sum over kh, kw of
///                             x'[n, oc / M, oh*stride_h - top + kh*dilation_h,
///                                ow*stride_w - left + kw*dilation_w]
///                             * w[oc, 0, kh, kw] ),   M = OC / C,   x' is x with zeros around it
///     dx[n, c, ih, iw] = sum over m, kh, kw of w[c*M + m, 0, kh, kw] * dy[n, c*M + m, oh, ow]
///     dw[oc, 0, kh, kw] = sum over n, oh, ow of x'[n, oc / M, ih, iw] * dy[n, oc, oh, ow]
///
/// where ih = oh*stride_h - top + kh*dilation_h and iw = ow*stride_w - left + kw*dilation_w.
///
/// A task is a tile of one plane, whose input stays near in the caches. The part of x' that it
/// reads is copied to the worker's slice of the workspace with its columns sorted by their
/// remainder modulo stride_w. Then every tap reads adjacent elements for adjacent outputs, whatever
/// the stride, dilation and padding: tap t of output (oh, ow) stands at oh * row_step + ow +
/// offset[t]. The microkernels (primitives/depthwise_microkernel.h) have the sums of a few rows in
/// registers, of outputs whose rows of x' are the same, dilation_h / gcd(stride_h, dilation_h)
/// apart: each of these is loaded once for all of them. Rows of padding are left out, unless a
/// weight is not finite.
///
/// dx is the same loop over dy: pixels that are stride_h and stride_w apart, a phase, meet the same
/// taps, and are a convolution at stride 1 with these, last first; phases of columns are joined
/// behind it. Columns around dy are multiplied as zeros; pixels that weights that are not finite
/// make NaN of them are summed again, by the formula. dw has a vector of sums for each of up to 12
/// taps, which f64 adds up after TERMS terms a lane at most, and over the tiles and images of a
/// split (depthwise_gradient.c).
///
/// The form "rows" is all this. The form "columns" is for the common problem, a 3x3 kernel of
/// stride 1 without dilation, and for its dx: it reads x itself, down columns of outputs whose sums
/// stay in registers (depthwise_loops.h); a weight over padding is multiplied by zero. Sums of y
/// and dx are in the data's type, taps in order. Tiles follow from the problem alone, so every
/// number of threads gives the same bits.
#include "backends/cpu/primitives/epilogue.h"
#include "backends/cpu/conv2d/algorithms.h"
#include "backends/cpu/conv2d/depthwise.h"
#include "backends/cpu/primitives/short_copy.h"
#include "backends/cpu/primitives/stream.h"
#include "backends/cpu/primitives/target.h"
#include "backends/cpu/device/threads.h"

#include <string.h>

enum {
    PREFETCH_BYTES = 4 << 10,
    CACHE_LINE = TALC_CPU_DEPTHWISE_LINE,
    COPIED_COLUMNS = TALC_CPU_DEPTHWISE_COPIED,
};

// ---- One tile -----------------------------------------------------------------------------------

static depthwise_stores stores_of(const talc_conv2d_problem *p, const void *y)
{
    const int64_t row_bytes = p->OW * (int64_t)talc_dtype_size(p->dtype);
    if (p->N * p->OC * p->OH * row_bytes < TALC_CPU_STREAM_BYTES)
        return IN_PLACE;
    const bool lines = row_bytes % CACHE_LINE == 0 && (uintptr_t)y % CACHE_LINE == 0;
    return lines && !talc_cpu_conv2d_has_epilogue(p) ? STREAM_CACHE_LINES : STREAM_BAND;
}

/* Prefetches the cache line `ahead` bytes after `at`, which may be outside the image and need not
 * be mapped. */
static inline void prefetch(const void *at, int64_t ahead)
{
    __builtin_prefetch((const void *)((uintptr_t)at + (uintptr_t)ahead), 0, 2);
}

enum { NO_BORDER, LEFT_BORDER, RIGHT_BORDER };

#define ALWAYS_INLINE inline __attribute__((always_inline))

#define real          float
#define NAME(x)       x##_f32
#define ZERO_BEFORE(v)                                                                             \
    __builtin_shufflevector(v, (vector){ 0 }, 16, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14)
#define ZERO_AFTER(v)                                                                              \
    __builtin_shufflevector(v, (vector){ 0 }, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16)
#define EVEN(a, b)                                                                                 \
    __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)
#define ODD(a, b)                                                                                  \
    __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31)
#include "backends/cpu/conv2d/depthwise_loops.h"

#define real           double
#define NAME(x)        x##_f64
#define ZERO_BEFORE(v) __builtin_shufflevector(v, (vector){ 0 }, 8, 0, 1, 2, 3, 4, 5, 6)
#define ZERO_AFTER(v)  __builtin_shufflevector(v, (vector){ 0 }, 1, 2, 3, 4, 5, 6, 7, 8)
#define EVEN(a, b)     __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14)
#define ODD(a, b)      __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15)
#include "backends/cpu/conv2d/depthwise_loops.h"

bool talc_cpu_depthwise_is_finite(talc_dtype dtype, const void *w, int64_t count)
{
    double zeros = 0;
    for (int64_t i = 0; i < count; i++)
        zeros += 0 * talc_cpu_load(dtype, w, i);
    return zeros == 0;
}

void talc_cpu_depthwise_copy_rows(const depthwise_context *c, const depthwise_tile *tile,
                                  const void *plane, int64_t rows, depthwise_copy *copy)
{
    if (copy->plane != plane) {
        copy->zeroed = copy->plane != NULL;
        copy->plane = plane;
        copy->copied = 0;
    }
    if (rows > copy->copied) {
        TALC_CPU_CALL(c->problem->dtype, copy_input,
                      (&c->window, &c->plan, tile, copy->copied, rows, plane, copy->zeroed,
                       (void *)copy->rows));
        copy->copied = rows;
    }
}

/* Rows first .. first + rows - 1 of a tile of a pass, from a plane of its input and one filter.
 * Each input row is copied just before it is needed, so that reading from memory and computing
 * overlap. `inside`: rows of padding are left out. */
void talc_cpu_depthwise_sum_band(const depthwise_context *c, const depthwise_pass *pass,
                                 const depthwise_tile *tile, int64_t first, int64_t rows,
                                 const void *plane, const void *w, bool inside,
                                 depthwise_copy *copy, talc_cpu_depthwise_sums *sums)
{
    const talc_conv2d_problem *p = c->problem;
    const depthwise_axis *h = &pass->h;
    const int64_t size = (int64_t)talc_dtype_size(p->dtype);
    const int64_t row = c->plan.slots * c->plan.width;
    const int64_t apart = c->apart;
    const int64_t column = lead_of(&c->window.w, tile->column) + c->window.w.pad - pass->w.pad;
    const char *x = copy->rows + ((c->window.h.pad - h->pad) * row + column) * size;
    char *y = sums->y;
    const int64_t y_step = sums->y_step;
    if (c->plan.by_columns) {
        TALC_CPU_CALL(
            p->dtype, band_3x3,
            (c, pass, tile, first, rows, plane, w, (void *)copy->rows, (void *)y, y_step));
        return;
    }
    sums->shift = c->shift;
    sums->KH = h->taps;
    sums->KW = pass->w.taps;
    sums->offsets = c->offsets;
    sums->w = (const char *)w + (h->w * p->KW + pass->w.w) * size;
    sums->w_row = h->w_step * p->KW;
    sums->w_column = pass->w.w_step;
    sums->w_shift = sums->shift * sums->w_row;
    sums->x_step = h->dilation * row;
    sums->y_step = apart * y_step;
    for (int64_t r = first, end = first + rows, next; r < end; r = next) {
        next = talc_smaller(end, r + c->kernels->depthwise_rows * apart);
        talc_cpu_depthwise_copy_rows(c, tile, plane, input_rows(&c->window.h, next), copy);
        for (int64_t i = r; i < talc_smaller(r + apart, next); i++) {
            sums->outputs = talc_ceil_div(next - i, apart);
            sums->x = x + i * h->stride * row * size;
            sums->y = y + (i - first) * y_step * size;
            sums->rows = (talc_range){ 0, (sums->outputs - 1) * sums->shift + h->taps };
            if (inside)
                sums->rows = talc_window_inside((tile->row + i) * h->stride - h->pad, h->dilation,
                                                sums->rows.hi, h->in);
            c->kernels->depthwise_sums(sums);
        }
    }
}

// ---- Forward ------------------------------------------------------------------------------------

/* Bias, residual and activation of a band that stands at `out`, rows out_step apart. */
static void finish_band(const depthwise_context *c, const depthwise_tile *tile, int64_t first,
                        int64_t rows, int64_t plane, char *out, int64_t out_step)
{
    const talc_conv2d_problem *p = c->problem;
    const int64_t size = (int64_t)talc_dtype_size(p->dtype);
    const bool whole = tile->columns == p->OW;
    const int64_t segments = whole ? 1 : rows, count = whole ? rows * p->OW : tile->columns;
    for (int64_t i = 0; i < segments; i++, out += out_step * size) {
        const int64_t at = (plane * p->OH + tile->row + first + i) * p->OW + tile->column;
        if (talc_cpu_conv2d_has_epilogue(p))
            talc_cpu_conv2d_epilogue(p, plane % p->OC, count, out, c->arguments->bias,
                                     talc_cpu_at(p->dtype, c->arguments->residual, at));
        if (c->stores == STREAM_BAND)
            talc_cpu_stream_copy((char *)c->arguments->y + at * size, out, (size_t)(count * size),
                                 out);
    }
}

/* `plane` is n * OC + oc. */
static void forward_tile(const depthwise_context *c, const depthwise_tile *tile, int64_t plane,
                         depthwise_copy *copy, char *band)
{
    const talc_conv2d_problem *p = c->problem;
    const int64_t oc = plane % p->OC, M = p->OC / p->C;
    const void *x = talc_cpu_at(p->dtype, c->arguments->x, (plane / M) * p->H * p->W);
    const void *w = talc_cpu_at(p->dtype, c->arguments->w, oc * p->KH * p->KW);
    const bool inside =
        !c->plan.by_columns && talc_cpu_depthwise_is_finite(p->dtype, w, p->KH * p->KW);
    const int64_t size = (int64_t)talc_dtype_size(p->dtype);
    for (int64_t first = 0; first < tile->rows; first += c->plan.band) {
        const int64_t rows = talc_smaller(c->plan.band, tile->rows - first);
        const int64_t at = (plane * p->OH + tile->row + first) * p->OW + tile->column;
        const bool in_band = c->stores == STREAM_BAND;
        const int64_t step = in_band ? tile->columns : p->OW;
        char *out = in_band ? band : (char *)c->arguments->y + at * size;
        talc_cpu_depthwise_sums sums = { .columns = tile->columns, .y = out, .y_step = step };
        talc_cpu_depthwise_sum_band(c, &c->forward, tile, first, rows, x, w, inside, copy, &sums);
        finish_band(c, tile, first, rows, plane, out, step);
    }
}

static void tile_task(void *context, int64_t task, int worker)
{
    const depthwise_context *c = context;
    const talc_conv2d_problem *p = c->problem;
    const depthwise_plan *plan = &c->plan;
    const bool forward = p->direction == TALC_FORWARD;
    char *in = c->slices + (size_t)worker * plan->slice, *band = in + plan->in_bytes;
    depthwise_copy copy = { .rows = in };
    const int64_t tiles = plan->row_blocks * plan->column_blocks;
    const depthwise_tile tile = tile_of(c, task % tiles);
    const int64_t first = task / tiles * plan->planes;
    const int64_t end = talc_smaller(first + plan->planes, p->N * (forward ? p->OC : p->C));
    for (int64_t plane = first; plane < end; plane++)
        (forward ? forward_tile : talc_cpu_depthwise_input_tile)(c, &tile, plane, &copy, band);
    if (c->stores != IN_PLACE)
        talc_cpu_stream_end();
}

// ---- The forms ----------------------------------------------------------------------------------

static const char *plan_form(const talc_conv2d_problem *p, bool by_columns, size_t limit,
                             talc_plan *plan)
{
    const char *far = talc_cpu_conv2d_reaches_far(p);
    if (far != NULL)
        return far;
    const depthwise_plan planned = talc_cpu_depthwise_plan_of(p, by_columns, limit);
    plan->workspace = talc_cpu_workspace(planned.tasks, planned.shared, planned.slice, limit);
    talc_plan_store(plan, &planned, sizeof planned);
    return NULL;
}

static const char *refusal_of(const talc_conv2d_problem *p)
{
    if (talc_cpu_refuses(p->dtype) != NULL)
        return talc_cpu_refuses(p->dtype);
    if (p->groups != p->C)
        return "groups is not the number of input channels";
    return p->padding_mode != TALC_PADDING_ZEROS ? "the padding is not zeros" : NULL;
}

static talc_status run(const talc_conv2d_problem *p, const talc_plan *plan,
                       const talc_conv2d_arguments *a)
{
    const depthwise_plan *planned = talc_plan_data(plan);
    const bool to_weight = p->direction == TALC_GRAD_WEIGHT;
    char *workspace = a->base.workspace;
    int64_t *offsets = (int64_t *)(void *)(workspace + talc_cpu_split_k_bytes(&planned->split_k));
    const depthwise_pass forward = talc_cpu_depthwise_forward(p);
    const bool to_input = p->direction == TALC_GRAD_INPUT;
    const depthwise_pass window = { talc_cpu_depthwise_window(&forward.h, to_input),
                                    talc_cpu_depthwise_window(&forward.w, to_input) };
    const int64_t common = talc_gcd(window.h.stride, window.h.dilation);
    depthwise_context context = {
        p,
        a,
        *planned,
        forward,
        window,
        talc_cpu_kernels_of(p->dtype),
        offsets,
        workspace + planned->shared,
        p->direction == TALC_FORWARD ? stores_of(p, a->y) : IN_PLACE,
        window.h.dilation / common,
        window.h.stride / common,
    };
    const depthwise_axis *w = &window.w;
    const int64_t row = window.h.dilation * planned->slots * planned->width, pad = slot_pad(w);
    for (int64_t kh = 0; kh < (to_weight ? p->KH : 1); kh++)
        for (int64_t kw = 0; kw < w->taps; kw++)
            offsets[kh * w->taps + kw] = kh * row + kw % planned->slots * planned->width +
                                         (kw * w->dilation - w->pad + pad * w->stride) / w->stride;
    const int slices = (int)((plan->workspace - planned->shared) / planned->slice);
    const talc_status status = talc_cpu_parallel_limited(
        planned->tasks, slices, to_weight ? talc_cpu_depthwise_weight_task : tile_task, &context);
    return status == TALC_OK && to_weight ? talc_cpu_split_k_sum(&planned->split_k, p, a) : status;
}

const char *talc_cpu_conv2d_depthwise_columns_plan(const talc_device *device, const void *problem,
                                                   size_t limit, talc_plan *plan)
{
    (void)device;
    const talc_conv2d_problem *p = problem;
    if (p->direction == TALC_GRAD_WEIGHT)
        return "it has no weight gradient";
    if (refusal_of(p) != NULL)
        return refusal_of(p);
    if (p->KH != 3 || p->KW != 3)
        return "the kernel is not 3x3";
    if (p->stride_h != 1 || p->stride_w != 1)
        return "the stride is not 1";
    if (p->dilation_h != 1 || p->dilation_w != 1)
        return "the dilation is not 1";
    if (p->direction == TALC_GRAD_INPUT && p->OC > p->C)
        return "an input channel has several filters";
    return plan_form(p, true, limit, plan);
}

talc_status talc_cpu_conv2d_depthwise_columns_run(talc_device *device, const void *problem,
                                                  const talc_plan *plan, const void *arguments)
{
    (void)device;
    return run(problem, plan, arguments);
}

const char *talc_cpu_conv2d_depthwise_rows_plan(const talc_device *device, const void *problem,
                                                size_t limit, talc_plan *plan)
{
    (void)device;
    const char *refusal = refusal_of(problem);
    return refusal != NULL ? refusal : plan_form(problem, false, limit, plan);
}

talc_status talc_cpu_conv2d_depthwise_rows_run(talc_device *device, const void *problem,
                                               const talc_plan *plan, const void *arguments)
{
    (void)device;
    return run(problem, plan, arguments);
}
