/// The family of softmax and log_softmax. `reversed` in a text: x is stored with its dimensions in
/// the reverse order.
///
/// The bound is what ops/softmax.h declares: relatively (4 + |x_i - m| + min(n + 1, 32 + 2
/// sqrt(n))) u and the smallest subnormal; for the logarithm that much absolutely and u |y|. A row
/// may add 32 exponentials in order: those of equal logits round alike, so that n of them are off
/// by up to (n - 1) u. On random data roundings partly cancel, and 2 sqrt(n) has to do. All of it
/// stands in `extra` and `correlated`. There are no exact data.
#include "ops/softmax.h"

#include "check/engine/data.h"
#include "check/engine/expected.h"
#include "check/engine/exponentials.h"
#include "check/ops/lines.h"
#include "ops/backend.h"
#include "ops/observed.h"

#include <math.h>

CHECK_PROBLEM(check_lines, talc_softmax_arguments)

static const char *const op_names[] = { "softmax", "log_softmax", NULL };

// ---- Problem and text ---------------------------------------------------------------------------

static const check_key keys[] = { CHECK_LINES_KEYS, { .key = NULL } };

static void begin(check_problem *problem, int op)
{
    writable(problem)->p.log = op == 1;
}

static int op_of(const check_problem *problem)
{
    return read_only(problem)->p.log;
}

static bool random_problem(uint64_t *state, talc_direction direction, check_problem *problem)
{
    (void)direction;
    check_lines *self = writable(problem);
    self->p.log = talc_check_draw(state, 0, 1) != 0;
    talc_check_draw_lines(state, self);
    return true;
}

// ---- Operands -----------------------------------------------------------------------------------

enum { X, Y };

static void operands(const check_problem *problem, check_operand list[CHECK_OPERANDS])
{
    const check_lines *self = read_only(problem);
    list[X] = talc_check_stored(&self->x, "x", CHECK_READ);
    list[Y] = talc_check_stored(&self->y, "y", CHECK_WRITTEN);
}

static void fill(const check_problem *problem, talc_check_kind kind, uint64_t seed,
                 const check_values *values)
{
    const check_layout *x = &read_only(problem)->x;
    /* Logits of such a size make shares from nearly 1 to 1e-7. */
    const double scale = 8;
    talc_check_fill(values->of[X], x->count, x->dtype, kind, 8, scale, seed);
}

// ---- Oracle -------------------------------------------------------------------------------------

/* Sets extra and correlated for expected->value at `distance` = |x_i - m|. */
static void allow(const talc_softmax_problem *p, long double distance, check_expected *expected)
{
    const check_format format = talc_check_format(p->dtype);
    const double u = format.unit;
    const double n = (double)p->extent, y = (double)fabsl(expected->value);
    const double roundings = 4 + (double)distance + 2 * sqrt(n);
    expected->extra = p->log ? (roundings + y) * u : roundings * u * y + format.smallest;
    expected->correlated = (fmin(n + 1, 32 + 2 * sqrt(n)) - 2 * sqrt(n)) * u * (p->log ? 1 : y);
}

/* Elements from one index along `dim` to the next in a row-major tensor without gaps. */
static int64_t inner_count(const check_lines *self)
{
    int64_t count = 1;
    for (int i = self->dim + 1; i < self->x.rank; i++)
        count *= self->x.dims[i];
    return count;
}

/* The rows along `dim`. */
static int64_t groups(const check_problem *problem)
{
    const check_lines *self = read_only(problem);
    return self->x.count == 0 ? 0 : self->outer.count;
}

static int64_t group_of(const check_problem *problem, int operand, int64_t index)
{
    (void)operand;
    const check_lines *self = read_only(problem);
    const int64_t inner = inner_count(self);
    return index / inner / self->p.extent * inner + index % inner;
}

enum { MAX, SUM };

static check_common learn(const check_problem *problem, const check_values *values, int64_t group)
{
    const check_lines *self = read_only(problem);
    const check_layout *x = &self->x;
    const check_exponentials row = talc_check_exponentials(
        x->dtype, values->of[X] + talc_check_part_offset(&self->outer, group), self->p.x_stride,
        self->p.extent);
    return (check_common){ .of = { [MAX] = row.max, [SUM] = row.sum } };
}

static check_expected expected_of(const check_problem *problem, const check_values *values,
                                  int operand, int64_t index)
{
    const check_lines *self = read_only(problem);
    const check_layout *x = &self->x;
    const int64_t group = group_of(problem, operand, index);
    const check_common row =
        values->common != NULL ? values->common[group] : learn(problem, values, group);
    const long double from_max = values->of[X][talc_check_layout_offset(x, index)] - row.of[MAX];
    check_expected expected = { 0 };
    expected.value = self->p.log ? from_max - logl(row.of[SUM])
                                 : talc_check_exponential(x->dtype, from_max) / row.of[SUM];
    if (isfinite(from_max) && !isnan(expected.value))
        allow(&self->p, fabsl(from_max), &expected);
    return expected;
}

// ---- In a model ---------------------------------------------------------------------------------

static bool problem_of_run(const check_ran *ran, check_problem *problem)
{
    const talc_softmax_observed *observed = ran->problem;
    writable(problem)->p.log = observed->log;
    return talc_check_pose_lines(ran, observed->dim, problem);
}

// ---- In models ----------------------------------------------------------------------------------

static bool expected_of_run(const check_direction *direction, const check_ran *ran,
                            check_model_expected *expected)
{
    if (!talc_check_elements_of_run(direction, ran, expected->element))
        return false;
    const talc_softmax_observed *of = ran->problem;
    const check_array *x = &ran->inputs[0];
    int64_t step = 1, n = x->dims.rank == 0 ? 1 : x->dims.dim[of->dim];
    for (int i = of->dim + 1; i < x->dims.rank; i++)
        step *= x->dims.dim[i];
    for (int64_t row = 0; row < x->count / n; row++) {
        double sum;
        const int64_t first = row / step * step * n + row % step;
        const double off = talc_check_largest_off(x, first, n, step, &sum);
        for (int64_t i = first; i < first + n * step; i += step)
            expected->spread[i] = off == 0  ? 0
                                  : of->log ? check_off(x, i) + off
                                            : (double)expected->element[i].value * expm1(2 * off);
    }
    return true;
}

// ---- Problems of sets ---------------------------------------------------------------------------

// clang-format off
static const char *const quick[] = {
    "softmax:9x33@1", "softmax:7x129x5@1", "log_softmax:5x1000@1_f64",
    NULL,
};

static const char *const edges[] = {
    /* One element, long rows, many rows, a dimension that is not the last, f64. */
    "softmax:{1|7|1x9|17x4|10007x2}@0",
    "softmax:{5x1|4x17|5x16x9|5x33x1|3x1000|2x30011|10007x3|0x4}@1", "softmax:3x4x5x6@{0|2}",
    "{softmax|log_softmax}:9x65@1_f64", "softmax:65x9@0_f64", "log_softmax:{7|17x4}@0",
    "log_softmax:{5x1|4x17|5x16x9|2x10007}@1",

    /* Lengths for a warp, a block, and more; multiples of 16 bytes and not; contiguous and strided.
     * */
    "softmax:{33x64|5x520|5x521|3x2052|3x4097|9x17x70}@1", "log_softmax:1x16388@1",
    "softmax:{3x2052|1x16390}@1_f64", "log_softmax:3x1030@1_f64",
    "softmax:{140x70|700x35|1100x35}@0", "log_softmax:3000x35@0", "softmax:{10x33|140x35}@0_f64",
    "log_softmax:3000x17@0_f64",

    /* Rows for one thread, unaligned rows, lengths around what a cluster of blocks holds. */
    "softmax:{70x10|40x8|7x1001|3x16387|2x32767|3x32769|2x131075|1x458752|1x458753|3x64x68|2x1000x12}@1",
    "log_softmax:{33x31|5x8191|2x65537|1x458749|2x200x36}@1",
    "softmax:{65x15|3x1001|2x60001|3x7x2x6}@1_f64",

    /* Dimensions stored in reverse. */
    "log_softmax:9x65@0_reversed", "softmax:{9x65|5x16x9}@1_reversed",

    /* Scalars and empty results. */
    "softmax:@0", "log_softmax:@0_f64",
    NULL,
};
// clang-format on

static const check_family family = {
    .texts = "softmax:64x1000@1\n"
             "    log_softmax: likewise\n",
    .quick = quick,
    .edges = edges,
    .keys = keys,
    .begin = begin,
    .complete = talc_check_complete_lines,
    .op = op_of,
    .random = random_problem,
};

const check_direction talc_check_softmax = {
    .family = &family,
    .ops = op_names,
    .problem_of_run = problem_of_run,
    .expected_of_run = expected_of_run,
    .operands = operands,
    .takes = talc_check_takes_inexact,
    .fill = fill,
    .groups = groups,
    .group_of = group_of,
    .learn = learn,
    .expected = expected_of,
    .cost = 40, /* an exponential in the row's sum, and one of its own */
    .list = TALC_OP_softmax,
    .arguments = { offsetof(talc_softmax_arguments, x), offsetof(talc_softmax_arguments, y) },
};
