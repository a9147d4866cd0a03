/// The family of cumprod, "cumprod:5x7@1", and its input gradient, with the word dx.
/// `reversed`: x is stored with its dimensions in the reverse order.
///
///     y_i = product over j <= i of x_j
///     dx_j = y_(j-1) s_j,    s_j = dy_j + x_(j+1) s_(j+1)
///
/// y_i is bounded as a sum of i + 1 terms whose sizes add up to |y_i|: it has a rounding fewer than
/// factors. So is dx_j, of 3 n terms, with S the sizes of its terms: y_(j-1) has at most j
/// roundings, s_j at most 2 (n - j) on the way to a dy_i, and their product one more. Both hold
/// while nothing on the way leaves the normal numbers of f64; behind that any result is right.
///
/// What the products are to be is drawn, and x is the ratio of neighbours: products of a thousand
/// numbers would be 0 or infinite else.
#include "ops/cumprod.h"

#include "check/engine/data.h"
#include "check/engine/expected.h"
#include "check/ops/lines.h"
#include "ops/backend.h"
#include "ops/observed.h"

#include <float.h>
#include <math.h>

CHECK_PROBLEM(check_lines, talc_cumprod_arguments)

// ---- Problem and text ---------------------------------------------------------------------------

static const check_key keys[] = { CHECK_LINES_GRADIENT_KEYS, { .key = NULL } };

static const char *complete(check_problem *problem, const char **key)
{
    const check_lines *self = read_only(problem);
    if (self->p.direction == TALC_GRAD_INPUT && self->x.reversed)
        return "a gradient that is not reversed";
    return talc_check_complete_lines(problem, key);
}

static bool random_problem(uint64_t *state, talc_direction direction, check_problem *problem)
{
    check_lines *self = writable(problem);
    self->p.direction = direction;
    talc_check_draw_lines(state, self);
    self->x.reversed &= direction == TALC_FORWARD;
    return true;
}

// ---- Operands and data --------------------------------------------------------------------------

enum { X, DY, Y, DX };

static void operands(const check_problem *problem, check_operand list[CHECK_OPERANDS])
{
    const check_lines *self = read_only(problem);
    const bool forward = self->p.direction == TALC_FORWARD;
    list[X] = talc_check_stored(&self->x, "x", CHECK_READ);
    if (!forward)
        list[DY] = talc_check_stored(&self->y, "dy", CHECK_READ);
    list[forward ? Y : DX] = talc_check_stored(&self->y, forward ? "y" : "dx", CHECK_WRITTEN);
}

static const double LARGEST = 8; /* of dy */

/* Exact x are 0 and powers of two, whose products are 1/4 to 4, so that the terms of s are
 * multiples of 1/4 up to 4 LARGEST, and so are those of dx but for another factor of 1/4 to 4. */
static bool takes(const check_problem *problem, talc_check_kind kind)
{
    const talc_lines_problem *p = &read_only(problem)->p;
    return kind == TALC_CHECK_EXACT
               ? 64 * LARGEST * (double)p->extent < talc_check_format(p->dtype).integers
               : kind <= TALC_CHECK_INFINITY;
}

/* The factor that makes a product of size |wanted| of *product, which becomes that. It is at most
 * 2^100 and at least 2^-100. */
static double factor(const check_lines *self, double wanted, double *product)
{
    /* f32 has subnormal results. Those of f64 would have lost digits on the way. */
    const bool subnormal = talc_check_is_narrow(self->p.dtype) && self->p.direction == TALC_FORWARD;
    const double min = talc_check_format(self->p.dtype).normal * (subnormal ? 0x1p-20 : 0x1p20);
    const double ratio = fmin(fmax(fmax(fabs(wanted), min) / *product, 0x1p-100), 0x1p100);
    const double rounded = talc_check_rounded(self->p.dtype, signbit(wanted) != 0 ? -ratio : ratio);
    *product *= fabs(rounded);
    return rounded;
}

/* Turns the products of a line that were drawn into its elements. */
static void divide_line(const check_lines *self, talc_check_kind kind, uint64_t bits, double *line)
{
    const int64_t n = self->p.extent, step = self->p.x_stride;
    double product = 1;
    for (int64_t i = 0; i < n; i++) {
        double *x = line + i * step;
        /* Constant data grow to the third root of e. */
        *x = kind == TALC_CHECK_CONSTANT
                 ? talc_check_rounded(self->p.dtype, 1 + *x / (double)n)
                 : factor(self,
                          kind == TALC_CHECK_EXACT ? ldexp(*x < 0 ? -1 : 1, (int)fabs(*x) % 3) : *x,
                          &product);
    }
    /* A line of three has a zero, one of nine another or the same. */
    for (int zero = 0; zero < 2 && kind == TALC_CHECK_EXACT && bits % 3 == 0; zero++, bits /= 3)
        line[(int64_t)(talc_check_bits(bits, 1) % (uint64_t)n) * step] = 0;
}

static void fill(const check_problem *problem, talc_check_kind kind, uint64_t seed,
                 const check_values *values)
{
    const check_lines *self = read_only(problem);
    const bool special = kind == TALC_CHECK_NAN || kind == TALC_CHECK_INFINITY;
    const talc_check_kind finite = special ? TALC_CHECK_RANDOM : kind;
    talc_check_fill(values->of[X], self->x.count, self->x.dtype, finite, LARGEST, 1, seed);
    for (int64_t i = 0; i < self->outer.count && self->x.count > 0; i++)
        divide_line(self, kind, talc_check_bits(seed, (uint64_t)i),
                    values->of[X] + talc_check_part_offset(&self->outer, i));
    if (special && self->x.count > 0)
        values->of[X][talc_check_bits(seed, UINT64_MAX) % (uint64_t)self->x.count] =
            kind == TALC_CHECK_NAN ? (double)NAN : (double)INFINITY;
    if (values->of[DY] != NULL) /* subnormal ones would have lost digits in s */
        talc_check_fill(values->of[DY], self->y.count, self->y.dtype,
                        finite == TALC_CHECK_TINY ? TALC_CHECK_RANDOM : finite, LARGEST, 1,
                        talc_check_bits(seed, 2));
}

/* That of dy, for that of x. */
static bool inject(const check_problem *problem, talc_check_kind kind, int round, uint64_t seed,
                   const check_values *values)
{
    const check_lines *self = read_only(problem);
    const bool is_nan = kind == TALC_CHECK_NAN;
    if (round > 0 || (!is_nan && kind != TALC_CHECK_INFINITY) || values->of[DY] == NULL ||
        self->y.count == 0)
        return false;
    for (int64_t i = 0; i < self->x.count; i++)
        if (!isfinite(values->of[X][i]))
            values->of[X][i] = 1;
    values->of[DY][talc_check_bits(seed, 9) % (uint64_t)self->y.count] =
        is_nan ? (double)NAN : -(double)INFINITY;
    return true;
}

// ---- Oracle -------------------------------------------------------------------------------------

/* Whether a finite number has lost digits in f64, or overflows there. */
static bool leaves_normals(long double value)
{
    const long double size = fabsl(value);
    return isfinite(value) && value != 0 && (size < DBL_MIN || size > DBL_MAX);
}

/* A product of the first `count` elements; *left becomes true where one on the way leaves the
 * normal numbers. */
static long double product_of(const double *line, int64_t step, int64_t count, bool *left)
{
    long double product = 1;
    for (int64_t i = 0; i < count; i++) {
        product *= line[i * step];
        *left = *left || leaves_normals(product);
    }
    return product;
}

/* What of `value` overflows in its type, near whose largest number it may or may not. */
static void limit(talc_dtype dtype, check_expected *expected)
{
    const long double max = talc_check_is_narrow(dtype) ? FLT_MAX : DBL_MAX;
    const long double size = fabsl(expected->value),
                      off = talc_check_format(dtype).unit + expected->K * 0x1p-53;
    expected->any = expected->any || (isfinite(size) && fabsl(size - max) <= off * expected->S);
    if (size > max)
        expected->value = expected->value > 0 ? INFINITY : -INFINITY;
    if (!isfinite(expected->value))
        expected->S = 0;
}

static check_expected expected_of(const check_problem *problem, const check_values *values,
                                  int operand, int64_t index)
{
    const check_lines *self = read_only(problem);
    const int64_t n = self->p.extent, step = self->x.strides[self->dim];
    int64_t at;
    const int64_t first = talc_check_line_of(self, index, &at);
    const double *line = values->of[X] + first;
    check_expected expected = { .K = (double)at + 1 };
    if (operand == Y) {
        expected.value = product_of(line, step, at + 1, &expected.any);
        expected.S = (double)fabsl(expected.value);
    } else {
        const double *dy = values->of[DY] + first;
        const long double before = product_of(line, step, at, &expected.any);
        long double s = 0, size = 0;
        for (int64_t i = n - 1; i >= at; i--) {
            const double x = i == n - 1 ? 0 : line[(i + 1) * step];
            s = dy[i * step] + (i == n - 1 ? 0 : x * s);
            size = fabs(dy[i * step]) + (i == n - 1 ? 0 : fabs(x) * size);
            expected.any = expected.any || leaves_normals(size);
        }
        expected.value = before * s;
        expected.K = 3 * (double)n;
        expected.S = (double)(fabsl(before) * size);
    }
    limit(self->p.dtype, &expected);
    return expected;
}

static double terms(const check_problem *problem)
{
    const talc_lines_problem *p = &read_only(problem)->p;
    return (p->direction == TALC_FORWARD ? 1 : 3) * (double)p->extent;
}

static bool problem_of_run(const check_ran *ran, check_problem *problem)
{
    return talc_check_pose_lines(ran, ((const talc_cumsum_observed *)ran->problem)->dim, problem);
}

// ---- In models ----------------------------------------------------------------------------------

/* Elements move a product the most where they all grow. */
static bool expected_of_run(const check_direction *direction, const check_ran *ran,
                            check_model_expected *expected)
{
    if (!talc_check_elements_of_run(direction, ran, expected->element))
        return false;
    if (!talc_check_moves(&ran->inputs[0]))
        return true;
    if (!talc_check_add_spread(direction, ran, CHECK_BOTH, CHECK_NOTHING, CHECK_NOTHING, expected))
        return false;
    for (int64_t i = 0; i < ran->output.count; i++) {
        const double size = (double)fabsl(expected->element[i].value);
        expected->spread[i] = isfinite(size) ? fmax(expected->spread[i] - size, 0) : 0;
    }
    return true;
}

// ---- Problems of sets ---------------------------------------------------------------------------

// clang-format off
static const char *const quick[] = {
    "cumprod:{5x70@1|70x5@0_f64|5x7x9@1}{|_dx}", "cumprod:5x7x9@1_reversed",
    NULL,
};

static const char *const edges[] = {
    "cumprod:{@0|1@0|20001@0|3x7001@1|7001x3@0|5x33x9@1|2x3x2x3x2x3x2x3@5|0x5@1|5x0@1}{|_f64}{|_dx}",
    "cumprod:33x129@{0|1}_reversed{|_f64}",
    NULL,
};
// clang-format on

// ---- The directions -----------------------------------------------------------------------------

static const check_family family = {
    .texts = "cumprod:8x16@1\n"
             "    the gradient is not reversed\n",
    .quick = quick,
    .edges = edges,
    .keys = keys,
    .complete = complete,
    .random = random_problem,
};

#define POINTER(name) offsetof(talc_cumprod_arguments, name)
#define DIRECTION(direction, names, other)                                                         \
    {                                                                                              \
        .family = &family, .of = direction, .ops = names, .gradient = other,                       \
        .problem_of_run = problem_of_run, .expected_of_run = expected_of_run, .factors = 1U << X,  \
        .operands = operands, .takes = takes, .fill = fill, .inject = inject,                      \
        .expected = expected_of, .terms = terms, .list = TALC_OP_cumprod,                          \
        .arguments = { POINTER(x), POINTER(dy), POINTER(y), POINTER(dx) },                         \
    }

static const char *const forward_ops[] = { "cumprod", NULL };
static const char *const gradient_ops[] = { "cumprod.grad_input", NULL };

static const check_direction gradient = DIRECTION(TALC_GRAD_INPUT, gradient_ops, NULL);
const check_direction talc_check_cumprod = DIRECTION(TALC_FORWARD, forward_ops, &gradient);
