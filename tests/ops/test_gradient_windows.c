/// Pooling of numbers near 2^31 and 2^63, in both directions, by every algorithm. The gradients of
/// other numbers are held by test_algorithms.c and test_gradient.c.
#include "tests/support/guard.h"
#include "tests/support/hooks.h"

#include "ops/backend.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

// ---- Huge numbers -------------------------------------------------------------------------------

enum { HUGE_H = 4, HUGE_W = 9, HUGE_MAX = 40 };

/* Wide enough for all sums and products of two numbers of a caller. */
__extension__ typedef __int128 wide;

/* One axis of a problem, by the definition: outputs o >= 0, as many as start inside or before the
 * image, whose taps k read o stride - pad + k dilation where that is inside. */
typedef struct huge_axis {
    int64_t extent, kernel, stride, pad, pad_end, dilation;
    bool ceil_mode;
} huge_axis;

static wide outputs_of(const huge_axis *a)
{
    const wide last_start =
        (wide)a->extent + a->pad + a->pad_end - 1 - (wide)(a->kernel - 1) * a->dilation;
    if (!a->ceil_mode)
        return last_start < 0 ? 0 : last_start / a->stride + 1;
    wide count = last_start > 0 ? (last_start - 1) / a->stride + 2 : last_start > -(wide)a->stride;
    if (count > 1 && (count - 1) * a->stride >= (wide)a->extent + a->pad)
        count--;
    return count;
}

static bool holds(const huge_axis *a, int64_t o, int64_t i)
{
    const wide from = (wide)i - ((wide)o * a->stride - a->pad);
    return from >= 0 && from % a->dilation == 0 && from / a->dilation < a->kernel;
}

/* What an average counts along the axis. */
static double counted(const huge_axis *a, int64_t o, bool inside_only)
{
    const wide start = (wide)o * a->stride - a->pad, all = (wide)a->extent + a->pad_end - start;
    int64_t inside = 0;
    for (int64_t i = 0; i < a->extent; i++)
        inside += holds(a, o, i);
    return inside_only ? (double)inside : (double)(a->kernel < all ? a->kernel : all);
}

typedef struct huge_case {
    huge_axis h, w;
    bool max, inside_only;
} huge_case;

/* Row-major; a value, the index of a maximum, and the gradient for dy = 1, 2, 3 ... */
typedef struct huge_expected {
    double y[HUGE_MAX], dx[HUGE_H * HUGE_W];
    int64_t at[HUGE_MAX];
} huge_expected;

static void work_out(const huge_case *c, const double *x, int64_t OH, int64_t OW,
                     huge_expected *expected)
{
    *expected = (huge_expected){ .y = { 0 } };
    for (int64_t o = 0; o < OH * OW; o++) {
        const int64_t oh = o / OW, ow = o % OW;
        const double size = counted(&c->h, oh, c->inside_only) * counted(&c->w, ow, c->inside_only);
        expected->at[o] = -1;
        for (int64_t i = 0; i < HUGE_H * HUGE_W; i++) {
            if (!holds(&c->h, oh, i / HUGE_W) || !holds(&c->w, ow, i % HUGE_W))
                continue;
            expected->y[o] += x[i] / size;
            expected->dx[i] += c->max ? 0 : (double)(o + 1) / size;
            if (expected->at[o] < 0 || x[i] > x[expected->at[o]])
                expected->at[o] = i;
        }
        if (c->max) {
            expected->y[o] = expected->at[o] < 0 ? -INFINITY : x[expected->at[o]];
            if (expected->at[o] >= 0)
                expected->dx[expected->at[o]] += (double)(o + 1);
        } else if (size == 0) {
            expected->y[o] = NAN; /* 0 / 0 */
        }
    }
}

static void expect_numbers(const huge_case *c, const char *algorithm, const char *what,
                           const talc_tensor *got, const double *expected)
{
    owned_double *values = host_doubles(talc_cast(talc_detach(got), TALC_F64));
    for (int64_t i = 0; i < talc_numel(got); i++)
        cr_assert(values[i] == expected[i] ||
                      fabs(values[i] - expected[i]) <= 1e-6 * (1 + fabs(expected[i])) ||
                      (isnan(expected[i]) && isnan(values[i])),
                  "%s by %s, k %" PRId64 "x%" PRId64 " s %" PRId64 "x%" PRId64 " p %" PRId64
                  "x%" PRId64 "x%" PRId64 "x%" PRId64 " d %" PRId64 "x%" PRId64
                  " ceil %d: %s %" PRId64 " is %g instead of %g",
                  c->max ? "max" : "avg", algorithm, c->h.kernel, c->w.kernel, c->h.stride,
                  c->w.stride, c->h.pad, c->w.pad, c->h.pad_end, c->w.pad_end, c->h.dilation,
                  c->w.dilation, c->h.ceil_mode, what, i, values[i], expected[i]);
}

static int64_t or_zero(int64_t value)
{
    return value == 0 ? TALC_ZERO : value;
}

/* Whether an algorithm takes the problem; its numbers have to be right where it does. */
static bool check_algorithm(const huge_case *c, const char *algorithm)
{
    const talc_pool2d_options o = { .kernel = { c->h.kernel, c->w.kernel },
                                    .stride = { c->h.stride, c->w.stride },
                                    .padding = { or_zero(c->h.pad), or_zero(c->w.pad) },
                                    .padding_end = { or_zero(c->h.pad_end), or_zero(c->w.pad_end) },
                                    .dilation = { c->h.dilation, c->w.dilation },
                                    .ceil_mode = c->h.ceil_mode,
                                    .exclude_padding = c->inside_only,
                                    .algorithm = algorithm };
    double numbers[HUGE_H * HUGE_W];
    for (int i = 0; i < HUGE_H * HUGE_W; i++)
        numbers[i] = i * 7 % 37 - 18;
    talc_tensor *x =
        talc_from_host(tested_device(), TALC_F64, TALC_DIMS(1, 1, HUGE_H, HUGE_W), numbers);
    x = talc_cast(x, TALC_F32);
    talc_require_grad(x, true);
    talc_tensor *indices = NULL;
    talc_tensor *y = c->max ? talc_max_pool2d_indices(x, &o, &indices) : talc_avg_pool2d(x, &o);
    if (y == NULL)
        return false;
    huge_expected expected;
    work_out(c, numbers, y->dims[2], y->dims[3], &expected);
    expect_numbers(c, algorithm, "y", y, expected.y);
    double at[HUGE_MAX];
    for (int i = 0; i < HUGE_MAX; i++)
        at[i] = (double)expected.at[i];
    if (c->max)
        expect_numbers(c, algorithm, "index", indices, at);
    talc_tensor *dy = talc_arange(x->device, TALC_F32, 1, (double)talc_numel(y) + 1, 1);
    cr_assert(talc_backward_from(y, talc_view(dy, talc_dims_of(y))), "%s", talc_error_message());
    expect_numbers(c, algorithm, "dx", talc_grad(x), expected.dx);
    return true;
}

/* Whether it ran: where more than a few outputs are due nothing is asked, and a refusal needs a
 * reason. */
static bool hold_huge(const huge_case *c)
{
    const wide OH = outputs_of(&c->h), OW = outputs_of(&c->w);
    if (OH * OW > HUGE_MAX)
        return false;
    bool ran = false;
    for (const talc_algorithm *algorithm = tested_device()->backend->algorithms[TALC_OP_pool2d];
         algorithm->name != NULL; algorithm++) {
        owned_scope *scope = talc_scope_enter();
        if (!check_algorithm(c, algorithm->name)) {
            const talc_status status = talc_error_status();
            cr_assert(status == TALC_UNSUPPORTED || status == TALC_BAD_ARGUMENT ||
                          status == TALC_BAD_SHAPE,
                      "%s", talc_error_message());
            talc_error_clear();
        } else {
            ran = true;
        }
    }
    return ran;
}

/* Steps and sums of a caller's numbers near 2^31 and 2^63: a window that has one tap inside the
 * image ends there. */
Test(gradient_windows, windows_of_huge_numbers_stay_inside_the_image)
{
    static const int64_t kernels[] = { 1, 2, 3, INT64_MAX };
    static const int64_t dilations[] = {
        1, 3, (1 << 29) - 1, (int64_t)1 << 30, INT32_MAX, (int64_t)1 << 62, INT64_MAX - 3, INT64_MAX
    };
    static const int64_t strides[] = { 1, 4, 8, INT32_MAX, (int64_t)1 << 62, INT64_MAX };
    int ran = 0;
    for (int across = 0; across < 2; across++)
        for (int i = 0; i < 4 * 8 * 6 * 5 * 5; i += 3) {
            const int64_t kernel = kernels[i % 4], dilation = dilations[i / 4 % 8];
            int64_t reach; /* the most padding */
            if (__builtin_mul_overflow(kernel - 1, dilation, &reach))
                reach = INT64_MAX;
            const int64_t pads[] = { 0, reach, reach / 2, reach > 9 ? reach - 9 : 0,
                                     reach < 5 ? reach : 5 };
            const huge_axis far = { across ? HUGE_W : HUGE_H,
                                    kernel,
                                    strides[i / 32 % 6],
                                    pads[i / 160 % 4],
                                    pads[i / 640 % 3],
                                    dilation,
                                    i % 7 < 3 };
            const huge_axis near = { across ? HUGE_H : HUGE_W, 2, 2, 0, 1, 1, i % 7 < 3 };
            huge_case c = { across ? near : far, across ? far : near, true, false };
            ran += hold_huge(&c);
            c.max = false;
            c.inside_only = i % 2 == 1;
            ran += dilation == 1 && hold_huge(&c);
        }
    cr_assert(ran > 400, "%d of the problems ran", ran);
}
