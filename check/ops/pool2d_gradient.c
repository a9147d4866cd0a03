/// The input gradient of pooling: "max_pool2d:n2c3h9w9k3x3s2x2p1x1_dx".
///
///     max:  dx[i] = sum of dy[o] over the windows o whose index is i
///     avg:  dx[i] = sum of dy[o] / D[o] over the windows o that hold i
///
/// A sum of K terms, each of which is divided once: no more than the K roundings of a sum of K
/// products, in any order. The indices are those of the largest of random numbers, of which several
/// windows hold one; where a window holds nothing it is -1.
#include "check/ops/pool2d.h"

#include "check/engine/data.h"
#include "ops/backend.h"
#include "tensor/memory.h"

#include <math.h>

enum { DY, INDICES, DX };

static void operands(const check_problem *problem, check_operand list[CHECK_OPERANDS])
{
    const talc_pool2d_problem *p = &read_only(problem)->p;
    const talc_dims y = TALC_DIMS(p->N, p->C, p->OH, p->OW);
    list[DY] = talc_check_operand("dy", CHECK_READ, p->dtype, y);
    if (talc_pool2d_is_max(p))
        list[INDICES] = talc_check_operand("indices", CHECK_READ, TALC_I64, y);
    list[DX] = talc_check_operand("dx", CHECK_WRITTEN, p->dtype, TALC_DIMS(p->N, p->C, p->H, p->W));
}

// ---- Windows that hold an element ---------------------------------------------------------------

/* One dimension. Windows begin and end in the order of their outputs. */
typedef struct axis {
    bool adaptive;
    int64_t extent, out, K, stride, pad, dilation;
} axis;

static axis axis_h(const talc_pool2d_problem *p)
{
    return (axis){
        talc_pool2d_is_adaptive(p), p->H, p->OH, p->KH, p->stride_h, p->pad_top, p->dilation_h
    };
}

static axis axis_w(const talc_pool2d_problem *p)
{
    return (axis){
        talc_pool2d_is_adaptive(p), p->W, p->OW, p->KW, p->stride_w, p->pad_left, p->dilation_w
    };
}

/* The first and the last tap of a window, inside the image or not. */
static int64_t first_tap(const axis *a, int64_t o)
{
    return a->adaptive ? o * a->extent / a->out : o * a->stride - a->pad;
}

static int64_t last_tap(const axis *a, int64_t o)
{
    int64_t last;
    if (a->adaptive)
        return ((o + 1) * a->extent + a->out - 1) / a->out - 1;
    return talc_add_checked(o * a->stride - a->pad, (a->K - 1) * a->dilation, &last) ? last
                                                                                     : INT64_MAX;
}

/* The first output whose window does not end before element i. */
static int64_t first_reaching(const axis *a, int64_t i)
{
    int64_t low = 0, high = a->out;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (last_tap(a, middle) < i)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool holds(check_taps taps, int64_t i)
{
    return i >= taps.first && (i - taps.first) % taps.step == 0 &&
           (i - taps.first) / taps.step < taps.count;
}

/* Windows that hold one element, at most. */
static double max_holding(const axis *a)
{
    if (a->adaptive)
        return ceil((double)a->out / (double)a->extent) + 1;
    const double reach = (double)(a->K - 1) * (double)a->dilation / (double)a->stride;
    return fmin(fmin((double)a->K, floor(reach) + 1), (double)a->out);
}

static double terms(const check_problem *problem)
{
    const axis h = axis_h(&read_only(problem)->p), w = axis_w(&read_only(problem)->p);
    return max_holding(&h) * max_holding(&w);
}

// ---- Data ---------------------------------------------------------------------------------------

/* Numbers -largest .. largest, times `multiple`, have shares that are integers and sum without
 * rounding. */
static double exact_largest(const check_problem *problem, int64_t *multiple)
{
    const talc_pool2d_problem *p = &read_only(problem)->p;
    const double last_start = talc_check_format(p->dtype).integers;
    *multiple = talc_pool2d_is_max(p) ? 1 : talc_check_pool2d_multiple(p, false);
    return *multiple == 0 ? 0 : fmin(16, floor(last_start / terms(problem) / (double)*multiple));
}

static bool takes(const check_problem *problem, talc_check_kind kind)
{
    int64_t multiple;
    return kind == TALC_CHECK_EXACT ? exact_largest(problem, &multiple) >= 1
                                    : kind <= TALC_CHECK_INFINITY;
}

/* Where in its plane the largest of the random numbers of a window stands. */
static int64_t drawn_index(const talc_pool2d_problem *p, int64_t output, uint64_t seed)
{
    const int64_t plane = output / p->OW / p->OH;
    const check_taps h = talc_check_taps_h(p, output / p->OW % p->OH),
                     w = talc_check_taps_w(p, output % p->OW);
    uint64_t max = 0;
    int64_t max_at = -1;
    for (int64_t kh = 0; kh < h.count; kh++)
        for (int64_t kw = 0; kw < w.count; kw++) {
            const int64_t at = (h.first + kh * h.step) * p->W + w.first + kw * w.step;
            const uint64_t bits = talc_check_bits(seed, (uint64_t)(plane * p->H * p->W + at));
            if (max_at < 0 || bits > max) {
                max = bits;
                max_at = at;
            }
        }
    return max_at;
}

static void fill(const check_problem *problem, talc_check_kind kind, uint64_t seed,
                 const check_values *values)
{
    const talc_pool2d_problem *p = &read_only(problem)->p;
    const int64_t count = p->N * p->C * p->OH * p->OW;
    int64_t multiple = 1;
    const double largest = kind == TALC_CHECK_EXACT ? exact_largest(problem, &multiple) : 1;
    talc_check_fill(values->of[DY], count, p->dtype, kind, largest, 1, seed);
    for (int64_t i = 0; kind == TALC_CHECK_EXACT && i < count; i++)
        values->of[DY][i] *= (double)multiple;
    for (int64_t i = 0; talc_pool2d_is_max(p) && i < count; i++)
        values->of[INDICES][i] = (double)drawn_index(p, i, talc_check_bits(seed, 1));
}

// ---- Oracle -------------------------------------------------------------------------------------

static check_expected expected_of(const check_problem *problem, const check_values *values,
                                  int operand, int64_t index)
{
    (void)operand;
    const talc_pool2d_problem *p = &read_only(problem)->p;
    const axis h = axis_h(p), w = axis_w(p);
    const int64_t iw = index % p->W, ih = index / p->W % p->H, plane = index / p->W / p->H;
    const int64_t first_ow = first_reaching(&w, iw);
    long double sum = 0, sizes = 0;
    check_expected expected = { .value = 0 };
    for (int64_t oh = first_reaching(&h, ih); oh < p->OH && first_tap(&h, oh) <= ih; oh++) {
        const check_taps taps_h = talc_check_taps_h(p, oh);
        for (int64_t ow = first_ow; ow < p->OW && first_tap(&w, ow) <= iw; ow++) {
            const int64_t o = (plane * p->OH + oh) * p->OW + ow;
            const check_taps taps_w = talc_check_taps_w(p, ow);
            const bool takes_part = talc_pool2d_is_max(p)
                                        ? values->of[INDICES][o] == (double)(ih * p->W + iw)
                                        : holds(taps_h, ih) && holds(taps_w, iw);
            if (!takes_part)
                continue;
            const long double divisor =
                talc_pool2d_is_max(p) ? 1 : talc_check_pool2d_divisor(p, taps_h, taps_w);
            const long double term = values->of[DY][o] / divisor;
            sum += term;
            sizes += fabsl(term);
            expected.K++;
            expected.border |= taps_h.border || taps_w.border;
        }
    }
    expected.value = sum;
    expected.S = isfinite(sum) ? (double)sizes : 0;
    return expected;
}

// ---- The direction ------------------------------------------------------------------------------

/* Without outputs dx is 0, which no algorithm computes. */
static bool is_empty(const check_problem *problem)
{
    return read_only(problem)->p.OH == 0 || read_only(problem)->p.OW == 0;
}

static const char *const ops[] = { "max_pool2d.grad_input", "avg_pool2d.grad_input",
                                   "adaptive_avg_pool2d.grad_input",
                                   "adaptive_max_pool2d.grad_input", NULL };

const check_direction talc_check_pool2d_gradient = {
    .family = &talc_check_pool2d_family,
    .of = TALC_GRAD_INPUT,
    .ops = ops,
    .operands = operands,
    .takes = takes,
    .fill = fill,
    .expected = expected_of,
    .terms = terms,
    .list = TALC_OP_pool2d,
    .arguments = { offsetof(talc_pool2d_arguments, dy), offsetof(talc_pool2d_arguments, indices),
                   offsetof(talc_pool2d_arguments, dx) },
    .is_empty = is_empty,
};
