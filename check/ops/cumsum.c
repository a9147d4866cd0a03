/// The families of cumsum, "cumsum:5x7@1", and of its input gradient, with the word dx. `reversed`:
/// x, or dy, is stored with its dimensions in the reverse order.
///
///     y[..., i, ...] = sum over j <= i of x[..., j, ...],
///     dx[..., j, ...] = sum over i >= j of dy[..., i, ...]
///
/// A sum of K terms, in whatever order.
#include "ops/cumsum.h"

#include "check/engine/data.h"
#include "check/engine/family.h"
#include "check/engine/layout.h"
#include "ops/backend.h"
#include "ops/observed.h"
#include "tensor/shape.h"

#include <math.h>
#include <string.h>

typedef struct cumsum_problem {
    talc_cumsum_problem p;
    check_layout x, y;
    int dim;
} cumsum_problem;

CHECK_PROBLEM(cumsum_problem, talc_cumsum_arguments)

// ---- Problem and text ---------------------------------------------------------------------------

#define FIELD(name) offsetof(cumsum_problem, name)

static const check_key keys[] = {
    { "", CHECK_DIMS, .offset = FIELD(x) },
    { "@", CHECK_AXIS, .offset = FIELD(dim) },
    { "_reversed", CHECK_FLAG, .offset = FIELD(x.reversed) },
    { "_dx", CHECK_CHOICE, .offset = FIELD(p.direction), TALC_GRAD_INPUT },
    CHECK_FLOAT_KEYS(FIELD(x.dtype)),
    { .key = NULL },
};

static const char *complete(check_problem *problem, const char **key)
{
    (void)key;
    cumsum_problem *own = writable(problem);
    talc_cumsum_problem *p = &own->p;
    bool along[TALC_MAX_RANK] = { false };
    check_part x_outer, y_outer;
    own->y = own->x;
    own->y.reversed = false;
    along[own->dim] = true;
    if (!talc_check_lay_out(&own->x) || !talc_check_lay_out(&own->y) ||
        !talc_check_part_of(&own->x, along, false, &x_outer) ||
        !talc_check_part_of(&own->y, along, false, &y_outer))
        return "an input below 2^63 bytes";
    p->dtype = own->x.dtype;
    p->extent = own->x.rank == 0 ? 1 : own->x.dims[own->dim];
    p->x_stride = own->x.strides[own->dim];
    p->y_stride = own->y.strides[own->dim];
    p->outer = x_outer.count;
    p->outer_rank = x_outer.rank;
    memcpy(p->outer_dims, x_outer.dims, sizeof p->outer_dims);
    memcpy(p->x_strides, x_outer.strides, sizeof p->x_strides);
    memcpy(p->y_strides, y_outer.strides, sizeof p->y_strides);
    if (own->x.count > 0)
        p->outer_rank = talc_shape_coalesce(p->outer_rank, p->outer_dims,
                                            (int64_t *const[]){ p->y_strides, p->x_strides }, 2);
    return NULL;
}

static bool draw(uint64_t *state, talc_direction direction, check_problem *problem)
{
    cumsum_problem *own = writable(problem);
    own->p.direction = direction;
    own->x.dtype = talc_check_draw_float(state);
    talc_check_random_dims(state, &own->x);
    own->x.reversed = talc_check_draw(state, 0, 2) == 0;
    own->dim = own->x.rank == 0 ? 0 : (int)talc_check_draw(state, 0, own->x.rank - 1);
    return true;
}

static bool random_forward(uint64_t *state, check_problem *problem)
{
    return draw(state, TALC_FORWARD, problem);
}

static bool random_gradient(uint64_t *state, check_problem *problem)
{
    return draw(state, TALC_GRAD_INPUT, problem);
}

// ---- Operands and data --------------------------------------------------------------------------

enum { X, Y };

static void operands(const check_problem *problem, check_operand list[CHECK_OPERANDS])
{
    const cumsum_problem *own = read_only(problem);
    const bool forward = own->p.direction == TALC_FORWARD;
    list[X] = talc_check_stored(&own->x, forward ? "x" : "dy", CHECK_READ);
    list[Y] = talc_check_stored(&own->y, forward ? "y" : "dx", CHECK_WRITTEN);
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
    const cumsum_problem *own = read_only(problem);
    const bool exact = kind == TALC_CHECK_EXACT;
    talc_check_fill(values->of[X], own->x.count, own->x.dtype, kind,
                    exact ? exact_largest(&own->p) : 1, 1, seed);
}

// ---- Oracle -------------------------------------------------------------------------------------

static check_expected expected_of(const check_problem *problem, const check_values *values,
                                  int operand, int64_t index)
{
    (void)operand;
    const cumsum_problem *own = read_only(problem);
    const int64_t extent = own->p.extent,
                  at = own->x.rank == 0 ? 0 : index / own->y.strides[own->dim] % extent;
    const bool forward = own->p.direction == TALC_FORWARD;
    const int64_t first = forward ? 0 : at, end = forward ? at + 1 : extent;
    const double *line =
        values->of[X] + talc_check_layout_offset(&own->x, index) - at * own->x.strides[own->dim];
    long double sum = 0, sizes = 0;
    for (int64_t i = first; i < end; i++) {
        const double x = line[i * own->x.strides[own->dim]];
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

static bool pose(const check_ran *ran, check_problem *problem)
{
    cumsum_problem *own = writable(problem);
    own->dim = ((const talc_cumsum_observed *)ran->problem)->dim;
    own->x = talc_check_layout_of(&ran->inputs[X]);
    return complete(problem, &(const char *){ "" }) == NULL;
}

// ---- The families -------------------------------------------------------------------------------

#define FAMILY(names, number, draw)                                                                \
    {                                                                                              \
        .ops = names, .stream = number, .keys = keys, .complete = complete, .random = draw,        \
        .pose = pose, .operands = operands, .takes = takes, .fill = fill, .expected = expected_of, \
        .terms = terms, .list = TALC_OP_cumsum,                                                    \
        .arguments = { offsetof(talc_cumsum_arguments, x), offsetof(talc_cumsum_arguments, y) },   \
    }

static const char *const forward_ops[] = { "cumsum", NULL };
static const char *const gradient_ops[] = { "cumsum.grad_input", NULL };

const check_family talc_check_cumsum = FAMILY(forward_ops, 30, random_forward);
const check_family talc_check_cumsum_gradient = FAMILY(gradient_ops, 31, random_gradient);
