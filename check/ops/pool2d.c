/// The pooling family: max_pool2d, avg_pool2d and the adaptive ones, forward; pool2d_gradient.c has
/// the other direction.
///
/// An average of K elements has K - 1 additions and one division: no more than the K roundings of a
/// sum, in any order.
#include "check/ops/pool2d.h"

#include "check/engine/data.h"
#include "check/engine/expected.h"
#include "ops/backend.h"
#include "tensor/memory.h"

#include <math.h>

// ---- Operands -----------------------------------------------------------------------------------

enum { X, Y, INDICES };

static void operands(const check_problem *problem, check_operand list[CHECK_OPERANDS])
{
    const talc_pool2d_problem *p = &read_only(problem)->p;
    const talc_dims y = TALC_DIMS(p->N, p->C, p->OH, p->OW);
    list[X] = talc_check_operand("x", CHECK_READ, p->dtype, TALC_DIMS(p->N, p->C, p->H, p->W));
    list[Y] = talc_check_operand("y", CHECK_WRITTEN, p->dtype, y);
    if (p->indices)
        list[INDICES] = talc_check_operand("indices", CHECK_WRITTEN, TALC_I64, y);
}

// ---- Windows ------------------------------------------------------------------------------------

static check_taps adaptive_taps(int64_t o, int64_t extent, int64_t out)
{
    const int64_t first = o * extent / out, count = ((o + 1) * extent + out - 1) / out - first;
    return (check_taps){ .first = first, .count = count, .step = 1, .padded = count };
}

/* Of a window of K taps from `first` on. */
static check_taps window_taps(int64_t first, int64_t K, int64_t step, int64_t extent,
                              int64_t pad_end)
{
    const int64_t before = first >= 0 ? 0 : (-1 - first) / step + 1;
    const int64_t padded = extent + pad_end - first;
    check_taps inside = { .first = first + before * step, .step = step };
    const int64_t last_start = inside.first < extent ? (extent - 1 - inside.first) / step + 1 : 0;
    inside.count = K - before > last_start ? last_start : K > before ? K - before : 0;
    inside.padded = K < padded ? K : padded;
    inside.border = inside.count < K;
    return inside;
}

check_taps talc_check_taps_h(const talc_pool2d_problem *p, int64_t oh)
{
    return talc_pool2d_is_adaptive(p) ? adaptive_taps(oh, p->H, p->OH)
                                      : window_taps(oh * p->stride_h - p->pad_top, p->KH,
                                                    p->dilation_h, p->H, p->pad_bottom);
}

check_taps talc_check_taps_w(const talc_pool2d_problem *p, int64_t ow)
{
    return talc_pool2d_is_adaptive(p) ? adaptive_taps(ow, p->W, p->OW)
                                      : window_taps(ow * p->stride_w - p->pad_left, p->KW,
                                                    p->dilation_w, p->W, p->pad_right);
}

/* What an average counts along a dimension. */
static int64_t counted(const talc_pool2d_problem *p, check_taps of)
{
    return p->exclude_padding ? of.count : of.padded;
}

long double talc_check_pool2d_divisor(const talc_pool2d_problem *p, check_taps h, check_taps w)
{
    return p->divisor > 0 ? (long double)p->divisor : (long double)counted(p, h) * counted(p, w);
}

// ---- Exact averages -----------------------------------------------------------------------------

static int64_t common_divisor(int64_t a, int64_t b)
{
    return b == 0 ? a : common_divisor(b, a % b);
}

/* Makes *multiple a multiple of `number` too, or of its odd part; false when it grows past 2^53. */
static bool join_multiple(int64_t number, bool odd, int64_t *multiple)
{
    while (odd && number > 0 && number % 2 == 0)
        number /= 2;
    if (number > 1 && *multiple % number != 0 &&
        !talc_multiply(*multiple, number / common_divisor(*multiple, number), multiple))
        return false;
    return *multiple <= (int64_t)1 << 53;
}

int64_t talc_check_pool2d_multiple(const talc_pool2d_problem *p, bool odd)
{
    int64_t of_h = 1, of_w = 1, all;
    if (p->divisor > 0)
        return join_multiple(p->divisor, odd, &of_h) ? of_h : 0;
    for (int64_t oh = 0; oh < p->OH; oh++)
        if (!join_multiple(counted(p, talc_check_taps_h(p, oh)), odd, &of_h))
            return 0;
    for (int64_t ow = 0; ow < p->OW; ow++)
        if (!join_multiple(counted(p, talc_check_taps_w(p, ow)), odd, &of_w))
            return 0;
    return talc_multiply(of_h, of_w, &all) ? all : 0;
}

/* Of one window, at most. */
static double max_taps(const talc_pool2d_problem *p)
{
    if (!talc_pool2d_is_adaptive(p))
        return fmin((double)p->KH, (double)p->H) * fmin((double)p->KW, (double)p->W);
    /* An adaptive window has at most ceil(H / OH) + 1 rows. */
    const double OH = p->OH > 0 ? (double)p->OH : 1, OW = p->OW > 0 ? (double)p->OW : 1;
    return (ceil((double)p->H / OH) + 1) * (ceil((double)p->W / OW) + 1);
}

/* Integers -largest .. largest, times `multiple`, sum without rounding; below 1 there are none. */
static double exact_largest(const talc_pool2d_problem *p, int64_t multiple)
{
    const double last_start = talc_check_format(p->dtype).integers;
    return multiple == 0 ? 0 : fmin(16, floor(last_start / max_taps(p) / (double)multiple));
}

static bool takes(const check_problem *problem, talc_check_kind kind)
{
    const talc_pool2d_problem *p = &read_only(problem)->p;
    if (kind == TALC_CHECK_EXACT && !talc_pool2d_is_max(p))
        return exact_largest(p, talc_check_pool2d_multiple(p, true)) >= 1;
    return kind <= TALC_CHECK_INFINITY;
}

static void fill(const check_problem *problem, talc_check_kind kind, uint64_t seed,
                 const check_values *values)
{
    const talc_pool2d_problem *p = &read_only(problem)->p;
    const int64_t count = p->N * p->C * p->H * p->W;
    const bool max = talc_pool2d_is_max(p);
    double *x = values->of[X];
    if (kind == TALC_CHECK_EXACT && !max) {
        const int64_t multiple = talc_check_pool2d_multiple(p, true);
        talc_check_fill(x, count, p->dtype, kind, exact_largest(p, multiple), 1, seed);
        for (int64_t i = 0; i < count; i++)
            x[i] *= (double)multiple;
        return;
    }
    /* Few integers, so that there are equal maxima. */
    talc_check_fill(x, count, p->dtype, kind, 4, 1, seed);
    /* Several NaN within a window, as it matters which of them the indices name. */
    if (kind == TALC_CHECK_NAN && p->indices)
        talc_check_add_nans(x, count, seed);
}

// ---- Oracle -------------------------------------------------------------------------------------

/* The largest element of a window, a NaN before all, and where it stands in its plane; the sum of
 * all. */
typedef struct window {
    double largest;
    int64_t max_at, count;
    long double sum, sizes;
} window;

static window window_of(const talc_pool2d_problem *p, const double *plane, check_taps h,
                        check_taps w)
{
    window all = { .largest = -INFINITY, .max_at = -1, .count = h.count * w.count };
    for (int64_t kh = 0; kh < h.count; kh++)
        for (int64_t kw = 0; kw < w.count; kw++) {
            const int64_t at = (h.first + kh * h.step) * p->W + w.first + kw * w.step;
            const double x = plane[at];
            all.sum += x;
            all.sizes += fabs(x);
            if (all.max_at < 0 || isnan(x) || (!isnan(all.largest) && x > all.largest)) {
                all.largest = x;
                all.max_at = at;
            }
        }
    return all;
}

static check_expected expected_of(const check_problem *problem, const check_values *values,
                                  int operand, int64_t index)
{
    const talc_pool2d_problem *p = &read_only(problem)->p;
    const int64_t ow = index % p->OW, oh = index / p->OW % p->OH;
    const int64_t plane = index / p->OW / p->OH;
    const check_taps h = talc_check_taps_h(p, oh), w = talc_check_taps_w(p, ow);
    const window all = window_of(p, values->of[X] + plane * p->H * p->W, h, w);
    check_expected expected = { .border = h.border || w.border };
    if (talc_pool2d_is_max(p)) {
        expected.value = operand == INDICES ? (long double)all.max_at : (long double)all.largest;
        return expected;
    }
    const long double divisor = talc_check_pool2d_divisor(p, h, w);
    expected.value = all.sum / divisor;
    expected.K = (double)all.count;
    expected.S = isfinite(all.sum) ? (double)(all.sizes / divisor) : 0;
    return expected;
}

static double terms(const check_problem *problem)
{
    return max_taps(&read_only(problem)->p);
}

static bool problem_of_run(const check_ran *ran, check_problem *problem)
{
    talc_pool2d_problem *p = &writable(problem)->p;
    *p = *(const talc_pool2d_problem *)ran->problem;
    p->dtype = ran->inputs[X].dtype;
    p->indices = false;
    return true;
}

static const char *const ops[] = { "max_pool2d", "avg_pool2d", "adaptive_avg_pool2d",
                                   "adaptive_max_pool2d", NULL };

const check_direction talc_check_pool2d = {
    .family = &talc_check_pool2d_family,
    .ops = ops,
    .gradient = &talc_check_pool2d_gradient,
    .problem_of_run = problem_of_run,
    .expected_of_run = talc_check_linear,
    .factors = 1U << X,
    .operands = operands,
    .takes = takes,
    .fill = fill,
    .expected = expected_of,
    .terms = terms,
    .list = TALC_OP_pool2d,
    .arguments = { offsetof(talc_pool2d_arguments, x), offsetof(talc_pool2d_arguments, y),
                   offsetof(talc_pool2d_arguments, indices) },
};
