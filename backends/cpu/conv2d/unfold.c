/// The matrix of the im2col convolution as a result, and images that such matrices are added up to.
///
///     unfold   y[n, (c, kh, kw), (oh, ow)] = x'[n, c, i, j]
///     fold     y[n, c, i, j] = sum of x[n, (c, kh, kw), (oh, ow)] over all that read there
///
/// A task of unfold is some rows of the matrix, of one image or more, which im2col_matrix.c writes;
/// a task of fold is some rows of image planes, each added up tap after tap: no other task writes
/// there, so sums have one order. Arithmetic: the data's own type. Source: Chellapilla, Puri and
/// Simard, "High performance convolutional neural networks for document processing", 2006.
#include "backends/cpu/conv2d/im2col.h"
#include "backends/cpu/cpu.h"
#include "backends/cpu/device/threads.h"
#include "backends/cpu/primitives/element.h"
#include "ops/unfold.h"
#include "ops/window.h"
#include "tensor/extent.h"

#include <string.h>

/* A task writes that many elements, or one row. */
enum { TASK_ELEMENTS = 1 << 15 };

typedef struct unfold_context {
    const talc_unfold_problem *problem;
    const talc_unfold_arguments *arguments;
    talc_conv2d_problem conv2d;
    int64_t rows, per_task;
} unfold_context;

// ---- Unfolding ----------------------------------------------------------------------------------

static void unfold_task(void *context, int64_t task, int worker)
{
    (void)worker;
    const unfold_context *c = context;
    const talc_unfold_problem *p = c->problem;
    const int64_t P = p->OH * p->OW, K = p->C * p->KH * p->KW;
    const talc_cpu_im2col_block block = { &c->conv2d, 0, P, P };
    const int64_t end = talc_smaller(c->rows, (task + 1) * c->per_task);
    for (int64_t row = task * c->per_task, count; row < end; row += count) {
        const int64_t n = row / K, k = row % K;
        count = talc_smaller(K - k, end - row);
        talc_cpu_im2col_fill(
            &block, talc_cpu_at(p->dtype, c->arguments->x, n * p->C * p->H * p->W), k, count,
            (char *)c->arguments->y + (size_t)row * (size_t)P * talc_dtype_size(p->dtype));
    }
}

// ---- Folding ------------------------------------------------------------------------------------

/* A row of an image plane: the rows of windows that reach it, each tap's columns added in turn. */
#define FOLD_ROW(constant, suffix, T, A)                                                           \
    static void fold_row_##suffix(const talc_unfold_problem *p, const T *matrix, int64_t i,        \
                                  T *restrict y)                                                   \
    {                                                                                              \
        const int64_t P = p->OH * p->OW;                                                           \
        memset(y, 0, (size_t)p->W * sizeof *y);                                                    \
        for (int64_t kh = 0; kh < p->KH; kh++) {                                                   \
            const int64_t start = i + p->pad_top - kh * p->dilation_h;                             \
            if (start < 0 || start % p->stride_h != 0 || start / p->stride_h >= p->OH)             \
                continue;                                                                          \
            for (int64_t kw = 0; kw < p->KW; kw++) {                                               \
                const talc_range columns =                                                         \
                    talc_window_outputs(kw, p->stride_w, p->pad_left, p->dilation_w, p->OW, p->W); \
                const T *restrict from =                                                           \
                    matrix + (kh * p->KW + kw) * P + start / p->stride_h * p->OW;                  \
                const int64_t shift = kw * p->dilation_w - p->pad_left;                            \
                for (int64_t ow = columns.lo; ow < columns.hi; ow++)                               \
                    y[ow * p->stride_w + shift] += from[ow];                                       \
            }                                                                                      \
        }                                                                                          \
    }

TALC_CPU_FLOATS(FOLD_ROW)

static void fold_task(void *context, int64_t task, int worker)
{
    (void)worker;
    const unfold_context *c = context;
    const talc_unfold_problem *p = c->problem;
    const int64_t plane = p->KH * p->KW * p->OH * p->OW;
    const int64_t end = talc_smaller(c->rows, (task + 1) * c->per_task);
    for (int64_t row = task * c->per_task; row < end; row++)
        TALC_CPU_CALL(p->dtype, fold_row,
                      (p, talc_cpu_at(p->dtype, c->arguments->x, row / p->H * plane), row % p->H,
                       (void *)((char *)c->arguments->y +
                                (size_t)row * (size_t)p->W * talc_dtype_size(p->dtype))));
}

// ---- The algorithm ------------------------------------------------------------------------------

static const char *unfold_plan(const talc_device *device, const void *problem, size_t limit,
                               talc_plan *plan)
{
    (void)device, (void)limit, (void)plan;
    return talc_cpu_refuses(((const talc_unfold_problem *)problem)->dtype);
}

static talc_status unfold_run(talc_device *device, const void *problem, const talc_plan *planned,
                              const void *arguments)
{
    (void)device, (void)planned;
    const talc_unfold_problem *p = problem;
    unfold_context context = { p, arguments, talc_unfold_conv2d(p), .rows = 0 };
    context.rows = p->fold ? p->N * p->C * p->H : p->N * p->C * p->KH * p->KW;
    const int64_t work = p->fold ? p->W * p->KH * p->KW : p->OH * p->OW;
    context.per_task = talc_larger(1, TASK_ELEMENTS / talc_larger(work, 1));
    return talc_cpu_parallel(talc_ceil_div(context.rows, context.per_task),
                             p->fold ? fold_task : unfold_task, &context);
}

const talc_algorithm talc_cpu_unfold[] = {
    { "reference", NULL, { "the data's own type", TALC_STRICT, false }, unfold_plan, unfold_run },
    { .name = NULL },
};
