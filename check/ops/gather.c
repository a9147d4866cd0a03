/// The family of gather and index_select: "gather:5x7@1i5x3", x's dimensions, the one that is
/// indexed and the index's dimensions; "index_select:5x7@1i3"; and their input gradients, with the
/// word dx. reversed: x is stored with its dimensions in the reverse order. one_hot is index_select
/// of the rows of a matrix, to the rows that run it.
///
///     y[i...] = x[i... with the index in place of i_dim],
///     dx[j...] = sum of dy[i...] over the i that picked j
///
/// What is picked is moved, without rounding; a gradient is a sum of K terms.
#include "ops/gather.h"

#include "check/engine/data.h"
#include "check/engine/family.h"
#include "check/engine/layout.h"
#include "ops/backend.h"
#include "ops/observed.h"
#include "tensor/shape.h"

#include <math.h>

typedef struct gather_problem {
    talc_gather_problem p;
    check_layout x, index, y;
    int dim;
} gather_problem;

CHECK_PROBLEM(gather_problem, talc_gather_arguments)

enum { X, INDEX, DY, Y, DX };

// ---- Problem and text ---------------------------------------------------------------------------

static const char *complete(check_problem *problem, const char **key)
{
    (void)key;
    gather_problem *own = writable(problem);
    talc_gather_problem *p = &own->p;
    const bool select = p->function == TALC_INDEX_SELECT;
    p->dtype = own->x.dtype;
    own->index.dtype = TALC_I64;
    own->y = select ? own->x : own->index;
    own->y.dtype = p->dtype;
    own->y.reversed = false;
    if (own->index.rank != (select ? 1 : own->x.rank))
        return select ? "an index of one dimension" : "an index of x's rank";
    if (select)
        own->y.dims[own->dim] = own->index.dims[0];
    for (int i = 0; i < own->x.rank; i++)
        if (i != own->dim && own->y.dims[i] > own->x.dims[i])
            return "an index that is no larger than x in other dimensions";
    if (!talc_check_lay_out(&own->x) || !talc_check_lay_out(&own->index) ||
        !talc_check_lay_out(&own->y))
        return "operands below 2^63 bytes";
    if (p->direction == TALC_GRAD_INPUT && (own->x.reversed || !talc_dtype_is_float(p->dtype)))
        return "a gradient that is not reversed, of f32 or f64";
    p->extent = own->x.dims[own->dim];
    if (p->extent == 0 && own->index.count > 0)
        return "at least one element to pick";
    p->rank = own->y.rank;
    p->x_stride = own->x.strides[own->dim];
    p->index_count = own->index.count;
    p->x_count = own->x.count;
    p->along = own->dim;
    for (int i = 0; i < p->rank; i++) {
        p->dims[i] = own->y.dims[i];
        p->y_strides[i] = own->y.strides[i];
        p->x_strides[i] = i == own->dim ? 0 : own->x.strides[i];
        p->index_strides[i] = !select ? own->index.strides[i] : i == own->dim;
    }
    if (p->direction == TALC_FORWARD && own->y.count > 0)
        p->rank = talc_shape_coalesce(
            p->rank, p->dims, (int64_t *const[]){ p->y_strides, p->x_strides, p->index_strides },
            3);
    return NULL;
}

#define FIELD(name) offsetof(gather_problem, name)

static const check_key keys[] = {
    { "", CHECK_DIMS, .offset = FIELD(x), 1 },
    { "@", CHECK_AXIS, .offset = FIELD(dim) },
    { "i", CHECK_DIMS, .offset = FIELD(index) },
    { "_reversed", CHECK_FLAG, .offset = FIELD(x.reversed) },
    { "_dx", CHECK_CHOICE, .offset = FIELD(p.direction), TALC_GRAD_INPUT },
    CHECK_FLOAT_KEYS(FIELD(x.dtype)),
    CHECK_INTEGER_KEYS(FIELD(x.dtype), .ops = 0),
    { .key = NULL },
};

static void begin(check_problem *problem, int op)
{
    writable(problem)->p.function = (talc_gather_function)op;
}

static int op_of(const check_problem *problem)
{
    return (int)read_only(problem)->p.function;
}

static bool random_problem(uint64_t *state, talc_direction direction, check_problem *problem)
{
    gather_problem *own = writable(problem);
    own->p.direction = direction;
    own->p.function = talc_check_draw(state, 0, 1) != 0 ? TALC_GATHER : TALC_INDEX_SELECT;
    own->x.dtype = talc_check_draw_float(state);
    talc_check_random_dims(state, &own->x);
    if (own->x.rank == 0)
        return false;
    own->dim = (int)talc_check_draw(state, 0, own->x.rank - 1);
    if (direction == TALC_FORWARD && talc_check_draw(state, 0, 3) == 0)
        own->x.dtype = (talc_dtype)CHECK_PICK(state, TALC_I64, TALC_I32, TALC_U8);
    own->x.reversed = direction == TALC_FORWARD && talc_check_draw(state, 0, 2) == 0;
    own->index.rank = own->p.function == TALC_GATHER ? own->x.rank : 1;
    for (int i = 0; i < own->index.rank; i++)
        own->index.dims[i] = own->p.function == TALC_INDEX_SELECT || i == own->dim
                                 ? CHECK_PICK(state, 1, 2, 3, 7, 16, 33, 65)
                             : talc_check_draw(state, 0, 2) != 0
                                 ? own->x.dims[i]
                                 : talc_check_draw(state, 1, own->x.dims[i]);
    return true;
}

// ---- Operands and data --------------------------------------------------------------------------

static void operands(const check_problem *problem, check_operand list[CHECK_OPERANDS])
{
    const gather_problem *own = read_only(problem);
    list[INDEX] = talc_check_stored(&own->index, "index", CHECK_READ);
    if (own->p.direction == TALC_FORWARD) {
        list[X] = talc_check_stored(&own->x, "x", CHECK_READ);
        list[Y] = talc_check_stored(&own->y, "y", CHECK_WRITTEN);
    } else {
        list[DY] = talc_check_stored(&own->y, "dy", CHECK_READ);
        list[DX] = talc_check_stored(&own->x, "dx", CHECK_WRITTEN);
    }
}

/* How many elements of the index may pick one of x. */
static int64_t pickers(const gather_problem *own)
{
    return own->y.dims[own->dim];
}

static const double LARGEST = 64;

static bool takes(const check_problem *problem, talc_check_kind kind)
{
    const gather_problem *own = read_only(problem);
    if (!talc_dtype_is_float(own->p.dtype))
        return kind == TALC_CHECK_EXACT;
    return kind == TALC_CHECK_EXACT
               ? (double)pickers(own) * LARGEST < talc_check_format(own->p.dtype).integers
               : kind <= TALC_CHECK_INFINITY;
}

static void fill(const check_problem *problem, talc_check_kind kind, uint64_t seed,
                 const check_values *values)
{
    const gather_problem *own = read_only(problem);
    const bool forward = own->p.direction == TALC_FORWARD;
    const int64_t count = forward ? own->x.count : own->y.count;
    double *of = values->of[forward ? X : DY];
    talc_check_fill(of, count, own->p.dtype, kind, LARGEST, 1, seed);
    for (int64_t i = 0; i < count && !talc_dtype_is_float(own->p.dtype); i++)
        of[i] += LARGEST; /* also an unsigned one */
    for (int64_t i = 0; i < own->index.count; i++)
        values->of[INDEX][i] = (double)(talc_check_bits(talc_check_bits(seed, 1), (uint64_t)i) %
                                        (uint64_t)own->p.extent);
}

// ---- Oracle -------------------------------------------------------------------------------------

/* The index's element of y's coordinates. */
static int64_t index_at(const gather_problem *own, const check_values *values,
                        const int64_t at[TALC_MAX_RANK])
{
    if (own->p.function == TALC_INDEX_SELECT)
        return (int64_t)values->of[INDEX][at[own->dim]];
    int64_t place = 0;
    for (int i = 0; i < own->index.rank; i++)
        place += at[i] * own->index.strides[i];
    return (int64_t)values->of[INDEX][place];
}

static check_expected expected_of(const check_problem *problem, const check_values *values,
                                  int operand, int64_t index)
{
    const gather_problem *own = read_only(problem);
    const check_layout *result = operand == Y ? &own->y : &own->x;
    int64_t at[TALC_MAX_RANK], place = 0;
    check_expected expected = { .value = 0 };
    talc_check_coordinates(result->rank, result->dims, index, at);
    if (operand == Y) {
        at[own->dim] = index_at(own, values, at);
        for (int i = 0; i < own->x.rank; i++)
            place += at[i] * own->x.strides[i];
        expected.value = values->of[X][place];
        return expected;
    }
    const int64_t picked = at[own->dim];
    for (int i = 0; i < own->y.rank; i++) {
        if (i != own->dim && at[i] >= own->y.dims[i])
            return expected;
        place += i == own->dim ? 0 : at[i] * own->y.strides[i];
    }
    for (int64_t k = 0; k < pickers(own); k++) {
        at[own->dim] = k;
        if (index_at(own, values, at) != picked)
            continue;
        const double dy = values->of[DY][place + k * own->y.strides[own->dim]];
        expected.value += dy;
        expected.S += isfinite(dy) ? fabs(dy) : 0;
        expected.K++;
    }
    if (expected.K <= 1)
        expected.K = expected.S = 0;
    return expected;
}

static double terms(const check_problem *problem)
{
    const gather_problem *own = read_only(problem);
    return own->p.direction == TALC_FORWARD ? 1 : (double)pickers(own);
}

/* Of no dy all of dx is 0, without a row. */
static bool is_empty(const check_problem *problem)
{
    return read_only(problem)->y.count == 0;
}

/* A scalar is a line of one element. */
static bool pose(const check_ran *ran, check_problem *problem)
{
    const talc_gather_observed *observed = ran->problem;
    gather_problem *own = writable(problem);
    own->p.function = observed->function;
    own->dim = observed->dim;
    own->x = talc_check_layout_of(&ran->inputs[X]);
    own->index = talc_check_layout_of(&ran->inputs[INDEX]);
    for (int i = 0; i < 2; i++) {
        check_layout *layout = i == 0 ? &own->x : &own->index;
        layout->dims[0] = layout->rank == 0 ? 1 : layout->dims[0];
        layout->rank += layout->rank == 0;
    }
    return complete(problem, &(const char *){ "" }) == NULL;
}

// ---- The directions -----------------------------------------------------------------------------

static const check_family family = {
    .keys = keys,
    .begin = begin,
    .complete = complete,
    .op = op_of,
    .random = random_problem,
};

#define POINTER(name) offsetof(talc_gather_arguments, name)
#define DIRECTION(direction, names, number)                                                        \
    {                                                                                              \
        .family = &family, .of = direction, .ops = names, .stream = number, .pose = pose,          \
        .operands = operands, .takes = takes, .fill = fill, .expected = expected_of,               \
        .terms = terms, .list = TALC_OP_gather,                                                    \
        .arguments = { POINTER(x), POINTER(index), POINTER(dy), POINTER(y), POINTER(dx) },         \
        .is_empty = is_empty,                                                                      \
    }

static const char *const forward_ops[] = { "gather", "index_select", NULL };
static const char *const gradient_ops[] = { "gather.grad_input", "index_select.grad_input", NULL };

const check_direction talc_check_gather = DIRECTION(TALC_FORWARD, forward_ops, 18);
const check_direction talc_check_gather_gradient = DIRECTION(TALC_GRAD_INPUT, gradient_ops, 19);
