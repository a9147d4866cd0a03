/// 2-D pooling: maximum, average and adaptive average.
///
///     y[n, c, oh, ow] = max or 1/D * sum over ih, iw in the window of (oh, ow) of x[n, c, ih, iw]
///
/// x [N, C, H, W], y [N, C, OH, OW], contiguous; ops/pool2d_window.h gives the windows. Threads
/// share the N * C * OH output rows in tasks that read about 32768 elements, and in the input
/// gradient the N * C planes.
///
///   rows       combines the rows of a window, then its columns; sums in the data's own type, rows
///              before columns. Where indices are kept it takes one tap after the other. The
///              gradient of an average adds up the columns of an output row's windows, then adds
///              that to each of their rows; that of a maximum goes where its index says.
///   reference  one window after the other; sums in f64. The gradient looks for each element at the
///              windows that hold it.
#include "backends/cpu/cpu.h"
#include "backends/cpu/primitives/element.h"
#include "backends/cpu/device/threads.h"
#include "backends/cpu/primitives/target.h"
#include "ops/pool2d_window.h"
#include "tensor/extent.h"

#include <math.h>
#include <string.h>

/* Input columns that a tile of `rows` covers, with f64 half of an L1 cache, and outputs whose
 * places are looked for at a time. */
enum { TILE = 2048, LOCATED = 256 };

/* A row costs as much as ROW_ELEMENTS more, an adaptive window as WINDOW_ELEMENTS. */
static const int64_t TASK_ELEMENTS = 32768, ROW_ELEMENTS = 64, WINDOW_ELEMENTS = 16;

/* Does output row, or in the gradient plane, number `index`. */
typedef void pool_function(const talc_pool2d_problem *problem,
                           const talc_pool2d_arguments *arguments, int64_t index);

typedef struct pool_context {
    const talc_pool2d_problem *problem;
    const talc_pool2d_arguments *arguments;
    int64_t count, per_task; /* of rows or planes */
    pool_function *function;
} pool_context;

static void pool_task(void *context, int64_t task, int worker)
{
    (void)worker;
    const pool_context *c = context;
    const int64_t begin = task * c->per_task;
    const int64_t end = talc_smaller(begin + c->per_task, c->count);
    for (int64_t index = begin; index < end; index++)
        c->function(c->problem, c->arguments, index);
}

static talc_status run_rows(const talc_pool2d_problem *p, const talc_pool2d_arguments *arguments,
                            pool_function *row)
{
    const talc_pool2d_window middle = talc_pool2d_window_of(talc_pool2d_axis_h(p), p->OH / 2);
    const int64_t taps =
        middle.end > middle.first ? (middle.end - 1 - middle.first) / middle.step + 1 : 1;
    const int64_t windows = p->KW == 0 ? WINDOW_ELEMENTS * p->OW : 0;
    const int64_t elements = p->W + p->OW + ROW_ELEMENTS + windows;
    pool_context context = { p, arguments, p->N * p->C * p->OH, 1 + TASK_ELEMENTS / taps / elements,
                             row };
    return talc_cpu_parallel(talc_ceil_div(context.count, context.per_task), pool_task, &context);
}

static talc_status run_planes(const talc_pool2d_problem *p, const talc_pool2d_arguments *arguments,
                              pool_function *plane)
{
    pool_context context = { p, arguments, p->N * p->C,
                             1 + TASK_ELEMENTS / (p->H * p->W + p->OH * p->OW), plane };
    return talc_cpu_parallel(talc_ceil_div(context.count, context.per_task), pool_task, &context);
}

/* What the sum over a window is divided by. */
static double window_divisor(const talc_pool2d_problem *p, talc_pool2d_window h,
                             talc_pool2d_window w)
{
    if (p->divisor > 0)
        return (double)p->divisor;
    return p->exclude_padding ? (double)(h.end - h.first) * (double)(w.end - w.first)
                              : (double)h.padded * (double)w.padded;
}

// ---- rows ---------------------------------------------------------------------------------------

/* The first column that outputs o, o + 1, ... may touch. */
static int64_t first_column(talc_pool2d_axis axis, int64_t o)
{
    int64_t start =
        axis.kernel == 0 ? talc_pool2d_window_of(axis, o).first : o * axis.stride - axis.pad_begin;
    return start < 0 ? 0 : start;
}

/* One past the last column that outputs o, o - 1, ... may touch, at most the extent; the last taps
 * of a dilated window need not be it. */
static int64_t end_column(talc_pool2d_axis axis, int64_t o)
{
    if (axis.kernel == 0)
        return talc_pool2d_window_of(axis, o).end;
    const int64_t start = o * axis.stride - axis.pad_begin;
    const int64_t reach = (axis.kernel - 1) * axis.dilation;
    return reach < axis.extent - start ? start + reach + 1 : axis.extent;
}

/* The outputs with all taps inside the input; adaptive windows, which are uneven, count as none. */
static talc_range inner_outputs(talc_pool2d_axis axis)
{
    talc_range inner = { 0, 0 };
    if (axis.kernel > 0) {
        const talc_range last = talc_window_outputs(axis.kernel - 1, axis.stride, axis.pad_begin,
                                                    axis.dilation, axis.out, axis.extent);
        inner = talc_window_outputs(0, axis.stride, axis.pad_begin, axis.dilation, axis.out,
                                    axis.extent);
        inner.hi = talc_smaller(inner.hi, last.hi);
    }
    return inner;
}

/* A window without dilation; no division, but for adaptive ones. */
static talc_pool2d_window dense_window(talc_pool2d_axis axis, int64_t o)
{
    if (axis.kernel == 0)
        return talc_pool2d_window_of(axis, o);
    const int64_t start = o * axis.stride - axis.pad_begin, left = axis.extent - start;
    return (talc_pool2d_window){ .first = start < 0 ? 0 : start,
                                 .end = start + talc_smaller(axis.kernel, left),
                                 .step = 1,
                                 .padded = talc_smaller(axis.kernel, left + axis.pad_end) };
}

#define T           float
#define OFFSET      int32_t
#define NAMED(name) name##_f32
#include "backends/cpu/pool2d/pool2d_loops.h"
#undef T
#undef OFFSET
#undef NAMED

#define T           double
#define OFFSET      int64_t
#define NAMED(name) name##_f64
#include "backends/cpu/pool2d/pool2d_loops.h"
#undef T
#undef OFFSET
#undef NAMED

static void rows_row(const talc_pool2d_problem *p, const talc_pool2d_arguments *arguments,
                     int64_t row)
{
    if (p->indices)
        TALC_CPU_CALL(p->dtype, located_row, (p, row, arguments));
    else
        TALC_CPU_CALL(p->dtype, pool_row, (p, row, arguments->x, arguments->y));
}

static void rows_plane(const talc_pool2d_problem *p, const talc_pool2d_arguments *arguments,
                       int64_t plane)
{
    TALC_CPU_CALL(p->dtype, pool_gradient, (p, arguments, plane));
}

static const char *rows_plan(const talc_device *device, const void *problem, size_t limit,
                             talc_plan *plan)
{
    (void)device, (void)limit, (void)plan;
    const talc_pool2d_problem *p = problem;
    if (p->direction != TALC_FORWARD)
        return p->direction == TALC_GRAD_INPUT ? NULL : "pooling has no weights";
    if (p->indices)
        return NULL;
    /* From the first to the last; an adaptive window has at most floor(W / OW) + 2 columns. */
    const int64_t reach =
        p->KW == 0 ? p->OW == 0 ? 0 : p->W / p->OW + 1 : (p->KW - 1) * p->dilation_w;
    if (reach >= TILE && p->W > TILE)
        return "a window spans more than 2048 columns";
    return talc_cpu_refuses(p->dtype);
}

static talc_status rows_run(talc_device *device, const void *problem, const talc_plan *planned,
                            const void *arguments)
{
    (void)device, (void)planned;
    const talc_pool2d_problem *p = problem;
    return p->direction == TALC_FORWARD ? run_rows(p, arguments, rows_row)
                                        : run_planes(p, arguments, rows_plane);
}

// ---- reference ----------------------------------------------------------------------------------

static void reference_algorithm(const talc_pool2d_problem *p,
                                const talc_pool2d_arguments *arguments, int64_t row)
{
    const int64_t H = p->H, W = p->W, OH = p->OH, OW = p->OW;
    const int64_t plane = row / OH, oh = row % OH;
    const talc_pool2d_window h = talc_pool2d_window_of(talc_pool2d_axis_h(p), oh);
    for (int64_t ow = 0; ow < OW; ow++) {
        const talc_pool2d_window w = talc_pool2d_window_of(talc_pool2d_axis_w(p), ow);
        double sum = 0, max = -INFINITY;
        int64_t max_at = -1;
        for (int64_t ih = h.first; ih < h.end; ih += h.step)
            for (int64_t iw = w.first; iw < w.end; iw += w.step) {
                const double value =
                    talc_cpu_load(p->dtype, arguments->x, (plane * H + ih) * W + iw);
                sum += value;
                if (max_at < 0 || value > max || isnan(value)) {
                    max = value;
                    max_at = ih * W + iw;
                }
            }
        const double average = sum / window_divisor(p, h, w);
        talc_cpu_store(p->dtype, arguments->y, row * OW + ow,
                       talc_pool2d_is_max(p) ? max : average);
        if (p->indices)
            arguments->indices[row * OW + ow] = max_at;
    }
}

/* What the windows that hold element [ih, iw] of a plane give it. */
static double gathered(const talc_pool2d_problem *p, const talc_pool2d_arguments *arguments,
                       int64_t plane, int64_t ih, int64_t iw)
{
    const talc_pool2d_axis axis_h = talc_pool2d_axis_h(p), axis_w = talc_pool2d_axis_w(p);
    const talc_range rows = talc_pool2d_outputs_at(axis_h, ih);
    const talc_range columns = talc_pool2d_outputs_at(axis_w, iw);
    double sum = 0;
    for (int64_t oh = rows.lo; oh < rows.hi; oh++)
        for (int64_t ow = columns.lo; ow < columns.hi; ow++) {
            const int64_t at = (plane * p->OH + oh) * p->OW + ow;
            const double dy = talc_cpu_load(p->dtype, arguments->dy, at);
            if (!talc_pool2d_is_max(p))
                sum += dy / window_divisor(p, talc_pool2d_window_of(axis_h, oh),
                                           talc_pool2d_window_of(axis_w, ow));
            else if (arguments->indices[at] == ih * p->W + iw)
                sum += dy;
        }
    return sum;
}

static void reference_plane(const talc_pool2d_problem *p, const talc_pool2d_arguments *arguments,
                            int64_t plane)
{
    for (int64_t ih = 0; ih < p->H; ih++)
        for (int64_t iw = 0; iw < p->W; iw++)
            talc_cpu_store(p->dtype, arguments->dx, (plane * p->H + ih) * p->W + iw,
                           gathered(p, arguments, plane, ih, iw));
}

static const char *reference_plan(const talc_device *device, const void *problem, size_t limit,
                                  talc_plan *plan)
{
    (void)device, (void)limit, (void)plan;
    const talc_pool2d_problem *p = problem;
    return p->direction == TALC_GRAD_WEIGHT ? "pooling has no weights" : talc_cpu_refuses(p->dtype);
}

static talc_status reference_run(talc_device *device, const void *problem, const talc_plan *planned,
                                 const void *arguments)
{
    (void)device, (void)planned;
    const talc_pool2d_problem *p = problem;
    return p->direction == TALC_FORWARD ? run_rows(p, arguments, reference_algorithm)
                                        : run_planes(p, arguments, reference_plane);
}

// clang-format off
const talc_algorithm talc_cpu_pool2d[] = {
    { "rows", NULL, { "the data's own type", TALC_STRICT, false }, rows_plan,      rows_run },
    { "reference", NULL, { "f64 accumulation",    TALC_STRICT, true },  reference_plan, reference_run },
    { .name = NULL },
};
// clang-format on
