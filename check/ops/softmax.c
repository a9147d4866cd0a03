/// The family of softmax and log_softmax. `reversed` in a text: x is stored with its dimensions in
/// the reverse order.
///
/// The bound is what ops/softmax.h declares: relatively (4 + |x_i - m| + min(n + 1, 32 + 2
/// sqrt(n))) u and the smallest subnormal; for the logarithm that much absolutely and u |y|. A row
/// may add 32 exponentials in order: those of equal logits round alike, so that n of them are off
/// by up to (n - 1) u. On random data roundings partly cancel, and 2 sqrt(n) has to do. All of it
/// stands in `extra` and `alike`. There are no exact data.
#include "ops/softmax.h"

#include "check/engine/data.h"
#include "check/engine/exponentials.h"
#include "check/engine/family.h"
#include "check/engine/layout.h"
#include "ops/backend.h"
#include "ops/observed.h"
#include "tensor/memory.h"
#include "tensor/shape.h"

#include <math.h>
#include <string.h>

typedef struct softmax_problem {
    talc_softmax_problem p;
    check_layout x;
    int dim;
    check_part outer; /* x's other dimensions, not merged */
} softmax_problem;

CHECK_PROBLEM(softmax_problem, talc_softmax_arguments)

static const char *const op_names[] = { "softmax", "log_softmax", NULL };

// ---- Problem ------------------------------------------------------------------------------------

static const char *complete(check_problem *problem, const char **key)
{
    (void)key;
    softmax_problem *own = writable(problem);
    talc_softmax_problem *p = &own->p;
    check_layout y = own->x;
    y.reversed = false;
    if (!talc_check_lay_out(&own->x) || !talc_check_lay_out(&y))
        return "an input below 2^63 bytes";
    bool along[TALC_MAX_RANK] = { false };
    along[own->dim] = true;
    check_part y_outer;
    if (!talc_check_part_of(&own->x, along, false, &own->outer) ||
        !talc_check_part_of(&y, along, false, &y_outer))
        return "an input below 2^63 bytes";
    p->dtype = own->x.dtype;
    p->extent = own->x.rank == 0 ? 1 : own->x.dims[own->dim];
    p->x_stride = own->x.strides[own->dim];
    p->y_stride = y.strides[own->dim];
    p->outer = own->outer.count;
    p->outer_rank = own->outer.rank;
    memcpy(p->outer_dims, own->outer.dims, sizeof p->outer_dims);
    memcpy(p->x_strides, own->outer.strides, sizeof p->x_strides);
    memcpy(p->y_strides, y_outer.strides, sizeof p->y_strides);
    if (own->x.count > 0)
        p->outer_rank = talc_shape_coalesce(p->outer_rank, p->outer_dims,
                                            (int64_t *const[]){ p->y_strides, p->x_strides }, 2);
    return NULL;
}

// ---- Text ---------------------------------------------------------------------------------------

static const check_key keys[] = {
    { "", CHECK_DIMS, .offset = offsetof(softmax_problem, x) },
    { "@", CHECK_AXIS, .offset = offsetof(softmax_problem, dim) },
    { "_reversed", CHECK_FLAG, .offset = offsetof(softmax_problem, x.reversed) },
    CHECK_FLOAT_KEYS(offsetof(softmax_problem, x.dtype)),
    { .key = NULL },
};

static void begin(check_problem *problem, int op)
{
    writable(problem)->p.log = op == 1;
}

static int op_of(const check_problem *problem)
{
    return read_only(problem)->p.log;
}

static bool random_problem(uint64_t *state, check_problem *problem)
{
    softmax_problem *own = writable(problem);
    own->p.log = talc_check_draw(state, 0, 1) != 0;
    own->x.dtype = talc_check_draw_float(state);
    talc_check_random_dims(state, &own->x);
    own->x.reversed = talc_check_draw(state, 0, 2) == 0;
    own->dim = own->x.rank == 0 ? 0 : (int)talc_check_draw(state, 0, own->x.rank - 1);
    return true;
}

// ---- Operands -----------------------------------------------------------------------------------

enum { X, Y };

static void operands(const check_problem *problem, check_operand list[CHECK_OPERANDS])
{
    check_layout y = read_only(problem)->x;
    list[X] = talc_check_stored(&y, "x", CHECK_READ);
    y.reversed = false;
    list[Y] = talc_check_stored(&y, "y", CHECK_WRITTEN);
}

static bool takes(const check_problem *problem, talc_check_kind kind)
{
    (void)problem;
    return kind != TALC_CHECK_EXACT && kind <= TALC_CHECK_INFINITY;
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

/* Sets extra and alike for due->value at `distance` = |x_i - m|. */
static void allow(const talc_softmax_problem *p, long double distance, check_expected *expected)
{
    const check_format format = talc_check_format(p->dtype);
    const double u = format.unit;
    const double n = (double)p->extent, y = (double)fabsl(expected->value);
    const double roundings = 4 + (double)distance + 2 * sqrt(n);
    expected->extra = p->log ? (roundings + y) * u : roundings * u * y + format.smallest;
    expected->alike = (fmin(n + 1, 32 + 2 * sqrt(n)) - 2 * sqrt(n)) * u * (p->log ? 1 : y);
}

/* Elements from one index along `dim` to the next in a row-major tensor without gaps. */
static int64_t inner_count(const softmax_problem *own)
{
    int64_t count = 1;
    for (int i = own->dim + 1; i < own->x.rank; i++)
        count *= own->x.dims[i];
    return count;
}

/* The rows along `dim`. */
static int64_t groups(const check_problem *problem)
{
    const softmax_problem *own = read_only(problem);
    return own->x.count == 0 ? 0 : own->outer.count;
}

static int64_t group_of(const check_problem *problem, int operand, int64_t index)
{
    (void)operand;
    const softmax_problem *own = read_only(problem);
    const int64_t inner = inner_count(own);
    return index / inner / own->p.extent * inner + index % inner;
}

enum { MOST, SUM };

static check_common learn(const check_problem *problem, const check_values *values, int64_t group)
{
    const softmax_problem *own = read_only(problem);
    const check_layout *x = &own->x;
    const check_exponentials row = talc_check_exponentials(
        x->dtype, values->of[X] + talc_check_part_offset(&own->outer, group), own->p.x_stride,
        own->p.extent);
    return (check_common){ .of = { [MOST] = row.most, [SUM] = row.sum } };
}

static check_expected expected_of(const check_problem *problem, const check_values *values,
                                  int operand, int64_t index)
{
    const softmax_problem *own = read_only(problem);
    const check_layout *x = &own->x;
    const int64_t group = group_of(problem, operand, index);
    const check_common row =
        values->common != NULL ? values->common[group] : learn(problem, values, group);
    const long double from_most = values->of[X][talc_check_layout_offset(x, index)] - row.of[MOST];
    check_expected expected = { 0 };
    expected.value = own->p.log ? from_most - logl(row.of[SUM])
                                : talc_check_exponential(x->dtype, from_most) / row.of[SUM];
    if (isfinite(from_most) && !isnan(expected.value))
        allow(&own->p, fabsl(from_most), &expected);
    return expected;
}

/* An exponential in the row's sum, and one of its own. */
static double terms(const check_problem *problem)
{
    (void)problem;
    return 40;
}

// ---- In a model ---------------------------------------------------------------------------------

static bool pose(const check_ran *ran, check_problem *problem)
{
    const talc_softmax_observed *observed = ran->problem;
    softmax_problem *own = writable(problem);
    own->p.log = observed->log;
    own->dim = observed->dim;
    own->x = talc_check_layout_of(&ran->inputs[X]);
    return complete(problem, &(const char *){ "" }) == NULL;
}

const check_family talc_check_softmax = {
    .ops = op_names,
    .stream = 6,
    .keys = keys,
    .begin = begin,
    .complete = complete,
    .op = op_of,
    .random = random_problem,
    .pose = pose,
    .operands = operands,
    .takes = takes,
    .fill = fill,
    .groups = groups,
    .group_of = group_of,
    .learn = learn,
    .expected = expected_of,
    .terms = terms,
    .list = TALC_OP_softmax,
    .arguments = { offsetof(talc_softmax_arguments, x), offsetof(talc_softmax_arguments, y) },
};
