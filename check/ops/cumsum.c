/// The family of cumsum, "cumsum:5x7@1", and its input gradient, with the word dx. `reversed`:
/// x, or dy, is stored with its dimensions in the reverse order.
///
///     y[..., i, ...] = sum over j <= i of x[..., j, ...],
///     dx[..., j, ...] = sum over i >= j of dy[..., i, ...]
///
/// A sum of K terms, in whatever order.
#include "ops/cumsum.h"

#include "check/engine/data.h"
#include "check/engine/expected.h"
#include "check/ops/lines.h"
#include "ops/backend.h"
#include "ops/observed.h"

#include <math.h>

CHECK_PROBLEM(check_lines, talc_cumsum_arguments)

// ---- Problem and text ---------------------------------------------------------------------------

static const check_key keys[] = { CHECK_LINES_GRADIENT_KEYS, { .key = NULL } };

static bool random_problem(uint64_t *state, talc_direction direction, check_problem *problem)
{
    writable(problem)->p.direction = direction;
    talc_check_draw_lines(state, writable(problem));
    return true;
}

// ---- Operands and data --------------------------------------------------------------------------

enum { X, Y };

static void operands(const check_problem *problem, check_operand list[CHECK_OPERANDS])
{
    const check_lines *self = read_only(problem);
    const bool forward = self->p.direction == TALC_FORWARD;
    list[X] = talc_check_stored(&self->x, forward ? "x" : "dy", CHECK_READ);
    list[Y] = talc_check_stored(&self->y, forward ? "y" : "dx", CHECK_WRITTEN);
}

static double exact_largest(const talc_cumsum_problem *p)
{
    return fmin(64, floor(talc_check_format(p->dtype).integers / (double)(p->extent + 1)));
}

static bool takes(const check_problem *problem, talc_check_kind kind)
{
    return kind == TALC_CHECK_EXACT ? exact_largest(&read_only(problem)->p) >= 1
                                    : kind <= TALC_CHECK_INFINITY;
}

static void fill(const check_problem *problem, talc_check_kind kind, uint64_t seed,
                 const check_values *values)
{
    const check_lines *self = read_only(problem);
    const bool exact = kind == TALC_CHECK_EXACT;
    talc_check_fill(values->of[X], self->x.count, self->x.dtype, kind,
                    exact ? exact_largest(&self->p) : 1, 1, seed);
}

// ---- Oracle -------------------------------------------------------------------------------------

static check_expected expected_of(const check_problem *problem, const check_values *values,
                                  int operand, int64_t index)
{
    (void)operand;
    const check_lines *self = read_only(problem);
    int64_t at;
    const double *line = values->of[X] + talc_check_line_of(self, index, &at);
    const bool forward = self->p.direction == TALC_FORWARD;
    const int64_t first = forward ? 0 : at, end = forward ? at + 1 : self->p.extent;
    long double sum = 0, sizes = 0;
    for (int64_t i = first; i < end; i++) {
        const double x = line[i * self->x.strides[self->dim]];
        sum += x;
        sizes += fabs(x);
    }
    return (check_expected){ .value = sum,
                             .K = (double)(end - first),
                             .S = isfinite(sum) ? (double)sizes : 0 };
}

static double terms(const check_problem *problem)
{
    return (double)read_only(problem)->p.extent;
}

static bool problem_of_run(const check_ran *ran, check_problem *problem)
{
    return talc_check_pose_lines(ran, ((const talc_cumsum_observed *)ran->problem)->dim, problem);
}

// ---- Problems of sets ---------------------------------------------------------------------------

// clang-format off
static const char *const quick[] = {
    "cumsum:{5x70@1|70x5@0_f64|5x7x9@1_reversed}{|_dx}",
    NULL,
};

static const char *const edges[] = {
    "cumsum:{@0|1@0|20001@0|3x7001@1|7001x3@0|5x33x9@1|2x3x2x3x2x3x2x3@5|0x5@1|5x0@1}{|_f64}{|_dx}",
    "cumsum:33x129@{0|1}_reversed{|_dx|_dx_f64}",
    NULL,
};
// clang-format on

// ---- The directions -----------------------------------------------------------------------------

static const check_family family = {
    .texts = "cumsum:8x16@1\n",
    .quick = quick,
    .edges = edges,
    .keys = keys,
    .complete = talc_check_complete_lines,
    .random = random_problem,
};

#define DIRECTION(direction, names, other)                                                         \
    {                                                                                              \
        .family = &family, .of = direction, .ops = names, .gradient = other,                       \
        .problem_of_run = problem_of_run, .expected_of_run = talc_check_linear,                    \
        .factors = 1U << X, .operands = operands, .takes = takes, .fill = fill,                    \
        .expected = expected_of, .terms = terms, .list = TALC_OP_cumsum,                           \
        .arguments = { offsetof(talc_cumsum_arguments, x), offsetof(talc_cumsum_arguments, y) },   \
    }

static const char *const forward_ops[] = { "cumsum", NULL };
static const char *const gradient_ops[] = { "cumsum.grad_input", NULL };

static const check_direction gradient = DIRECTION(TALC_GRAD_INPUT, gradient_ops, NULL);
const check_direction talc_check_cumsum = DIRECTION(TALC_FORWARD, forward_ops, &gradient);
