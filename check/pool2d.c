/// The pooling family: max_pool2d, avg_pool2d, adaptive_avg_pool2d, forward.
///
/// An average of K elements has
/// K - 1 additions and one division: no more than the K roundings of a sum, in any order.
#include "check/pool2d.h"

#include "check/data.h"
#include "ops/backend.h"
#include "tensor/memory.h"

#include <math.h>

// ---- Operands -----------------------------------------------------------------------------------------------

enum { X, Y, INDICES };

static int operands(const check_problem *problem, check_operand list[CHECK_OPERANDS])
{
    const talc_pool2d_problem *p = &talc_check_pool2d_of(problem)->p;
    list[X] = (check_operand){ "x", CHECK_READ, p->dtype, 4, { p->N, p->C, p->H, p->W }, 0 };
    list[Y] = (check_operand){ "y", CHECK_WRITTEN, p->dtype, 4, { p->N, p->C, p->OH, p->OW }, 0 };
    list[INDICES] = list[Y];
    list[INDICES].name = "indices";
    list[INDICES].dtype = TALC_I64;
    for (int i = X; i <= INDICES; i++)
        list[i].count = list[i].dims[0] * list[i].dims[1] * list[i].dims[2] * list[i].dims[3];
    return p->indices ? 3 : 2;
}

/* The taps of one output along one dimension: first, first + step, ..., `count` of them, some outside. */
typedef struct taps {
    int64_t first, count, step;
    int64_t extent; /* of the image */
    int64_t padded; /* one past the padded image */
} taps;

static taps adaptive_taps(int64_t o, int64_t extent, int64_t out)
{
    const int64_t first = o * extent / out, end = ((o + 1) * extent + out - 1) / out;
    return (taps){ first, end - first, 1, extent, extent };
}

static taps taps_h(const talc_pool2d_problem *p, int64_t oh)
{
    if (p->kind == TALC_POOL2D_ADAPTIVE_AVG)
        return adaptive_taps(oh, p->H, p->OH);
    return (taps){ oh * p->stride_h - p->pad_top, p->KH, p->dilation_h, p->H,
                   p->H + p->pad_bottom };
}

static taps taps_w(const talc_pool2d_problem *p, int64_t ow)
{
    if (p->kind == TALC_POOL2D_ADAPTIVE_AVG)
        return adaptive_taps(ow, p->W, p->OW);
    return (taps){ ow * p->stride_w - p->pad_left, p->KW, p->dilation_w, p->W,
                   p->W + p->pad_right };
}

/* Those that lie inside the image. */
static taps within(taps of)
{
    const int64_t before = of.first >= 0 ? 0 : (of.step - 1 - of.first) / of.step;
    of.first += before * of.step;
    of.count -= before;
    const int64_t room = of.first < of.extent ? (of.extent - 1 - of.first) / of.step + 1 : 0;
    of.count = of.count > room ? room : of.count < 0 ? 0 : of.count;
    return of;
}

/* How many taps of an average, whose step is 1, lie inside the image, or inside the padded image. */
static int64_t count_taps(taps of, bool padding_too)
{
    const int64_t room = of.padded - of.first;
    return !padding_too ? within(of).count : of.count < room ? of.count : room;
}

// ---- Exact averages -----------------------------------------------------------------------------------------

static int64_t common_divisor(int64_t a, int64_t b)
{
    return b == 0 ? a : common_divisor(b, a % b);
}

/* Makes *multiple a multiple of the odd part of `number` too; false when it grows past 2^53. */
static bool join_multiple(int64_t number, int64_t *multiple)
{
    while (number > 0 && number % 2 == 0)
        number /= 2;
    if (number > 1 && *multiple % number != 0 &&
        !talc_multiply(*multiple, number / common_divisor(*multiple, number), multiple))
        return false;
    return *multiple <= (int64_t)1 << 53;
}

/* The least odd number that integers must be multiples of for all averages to be exact; 0 when it is too large. */
static int64_t exact_multiple(const talc_pool2d_problem *p)
{
    int64_t of_h = 1, of_w = 1, all;
    const bool padding_too = !p->exclude_padding;
    if (p->divisor > 0)
        return join_multiple(p->divisor, &of_h) ? of_h : 0;
    for (int64_t oh = 0; oh < p->OH; oh++) {
        const taps h = taps_h(p, oh);
        if (!join_multiple(count_taps(h, padding_too), &of_h))
            return 0;
    }
    for (int64_t ow = 0; ow < p->OW; ow++) {
        const taps w = taps_w(p, ow);
        if (!join_multiple(count_taps(w, padding_too), &of_w))
            return 0;
    }
    return talc_multiply(of_h, of_w, &all) ? all : 0;
}

/* Of one window, at most. */
static double most_taps(const talc_pool2d_problem *p)
{
    if (p->kind != TALC_POOL2D_ADAPTIVE_AVG)
        return fmin((double)p->KH, (double)p->H) * fmin((double)p->KW, (double)p->W);
    /* An adaptive window has at most ceil(H / OH) + 1 rows. */
    const double OH = p->OH > 0 ? (double)p->OH : 1, OW = p->OW > 0 ? (double)p->OW : 1;
    return (ceil((double)p->H / OH) + 1) * (ceil((double)p->W / OW) + 1);
}

/* Integers -largest .. largest, times exact_multiple, sum without rounding; below 1 there are none. */
static double exact_largest(const talc_pool2d_problem *p, int64_t multiple)
{
    const double room = p->dtype == TALC_F32 ? 0x1p24 : 0x1p53;
    return multiple == 0 ? 0 : fmin(16, floor(room / most_taps(p) / (double)multiple));
}

static bool takes(const check_problem *problem, talc_check_kind kind)
{
    const talc_pool2d_problem *p = &talc_check_pool2d_of(problem)->p;
    if (kind == TALC_CHECK_EXACT && p->kind != TALC_POOL2D_MAX)
        return exact_largest(p, exact_multiple(p)) >= 1;
    return kind <= TALC_CHECK_INFINITY;
}

static void fill(const check_problem *problem, talc_check_kind kind, uint64_t seed,
                 const check_values *values)
{
    const talc_pool2d_problem *p = &talc_check_pool2d_of(problem)->p;
    const int64_t count = p->N * p->C * p->H * p->W;
    const bool max = p->kind == TALC_POOL2D_MAX;
    double *x = values->of[X];
    if (kind == TALC_CHECK_EXACT && !max) {
        const int64_t multiple = exact_multiple(p);
        talc_check_fill(x, count, p->dtype, kind, exact_largest(p, multiple), 1, seed);
        for (int64_t i = 0; i < count; i++)
            x[i] *= (double)multiple;
        return;
    }
    /* Few integers, so that there are equal maxima. */
    talc_check_fill(x, count, p->dtype, kind, 4, 1, seed);
    /* Several NaN within a window, as it matters which of them the indices name. */
    for (int64_t i = 0; kind == TALC_CHECK_NAN && p->indices && i < count / 16; i++)
        x[talc_check_bits(seed, (uint64_t)(count + i)) % (uint64_t)count] = NAN;
}

// ---- Oracle -------------------------------------------------------------------------------------------------

static check_due max_due(const talc_pool2d_problem *p, const double *plane, taps h, taps w,
                         bool index)
{
    const taps rows = within(h), columns = within(w);
    check_due due = { .border = rows.count < h.count || columns.count < w.count };
    double most = -INFINITY;
    int64_t most_at = -1;
    for (int64_t kh = 0; kh < rows.count; kh++)
        for (int64_t kw = 0; kw < columns.count; kw++) {
            const int64_t ih = rows.first + kh * rows.step, iw = columns.first + kw * columns.step;
            const double x = plane[ih * p->W + iw];
            const bool replaces = isnan(x) || (!isnan(most) && x > most);
            if (most_at < 0 || replaces) {
                most = x;
                most_at = ih * p->W + iw;
            }
        }
    due.value = index ? (long double)most_at : (long double)most;
    return due;
}

static check_due average_due(const talc_pool2d_problem *p, const double *plane, taps h, taps w)
{
    const taps rows = within(h), columns = within(w);
    check_due due = { .border = rows.count < h.count || columns.count < w.count };
    long double sum = 0, sizes = 0;
    int64_t terms = 0;
    for (int64_t kh = 0; kh < rows.count; kh++)
        for (int64_t kw = 0; kw < columns.count; kw++) {
            const int64_t ih = rows.first + kh * rows.step, iw = columns.first + kw * columns.step;
            const double x = plane[ih * p->W + iw];
            sum += x;
            sizes += fabs(x);
            terms++;
        }
    const bool padding_too = !p->exclude_padding;
    const long double divisor =
        p->divisor > 0 ? (long double)p->divisor
                       : (long double)count_taps(h, padding_too) * count_taps(w, padding_too);
    due.value = sum / divisor;
    due.K = (double)terms;
    due.S = isfinite(sum) ? (double)(sizes / divisor) : 0;
    return due;
}

static check_due due_of(const check_problem *problem, const check_values *values, int operand,
                        int64_t index)
{
    const talc_pool2d_problem *p = &talc_check_pool2d_of(problem)->p;
    const int64_t ow = index % p->OW, oh = index / p->OW % p->OH;
    const int64_t plane = index / p->OW / p->OH;
    const double *x = values->of[X] + plane * p->H * p->W;
    const taps h = taps_h(p, oh), w = taps_w(p, ow);
    return p->kind == TALC_POOL2D_MAX ? max_due(p, x, h, w, operand == INDICES)
                                      : average_due(p, x, h, w);
}

static double terms(const check_problem *problem)
{
    return most_taps(&talc_check_pool2d_of(problem)->p);
}

// ---- Rows ---------------------------------------------------------------------------------------------------

static const void *posed(const check_problem *problem)
{
    return &talc_check_pool2d_of(problem)->p;
}

static bool is_empty(const check_problem *problem)
{
    const talc_pool2d_problem *p = &talc_check_pool2d_of(problem)->p;
    return p->N == 0 || p->OH == 0 || p->OW == 0;
}

static talc_status run(const talc_algorithm *row, talc_device *device, const check_problem *problem,
                       void *const pointers[CHECK_OPERANDS], const talc_plan *plan, void *workspace)
{
    const talc_pool2d_problem *p = &talc_check_pool2d_of(problem)->p;
    const talc_pool2d_arguments arguments = { .base = { workspace },
                                              .x = pointers[X],
                                              .y = pointers[Y],
                                              .indices = p->indices ? pointers[INDICES] : NULL };
    return row->run(device, p, plan, &arguments);
}

const check_family talc_check_pool2d = {
    .ops = talc_check_pool2d_ops,
    .parse = talc_check_pool2d_parse,
    .print = talc_check_pool2d_print,
    .op = talc_check_pool2d_op,
    .random = talc_check_pool2d_random,
    .operands = operands,
    .takes = takes,
    .fill = fill,
    .due = due_of,
    .terms = terms,
    .list = offsetof(struct talc_backend, pool2d),
    .posed = posed,
    .is_empty = is_empty,
    .run = run,
};
