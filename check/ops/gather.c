/// The family of gather and index_select: "gather:5x7@1i5x3", x's dimensions, the one that is
/// indexed and the index's dimensions; "index_select:5x7@1i3"; and their input gradients, with the
/// word dx. reversed: x is stored with its dimensions in the reverse order. one_hot is index_select
/// of the rows of a matrix, to the algorithms that run it.
///
///     y[i...] = x[i... with the index in place of i_dim],
///     dx[j...] = sum of dy[i...] over the i that picked j
///
/// What is picked is moved, without rounding; a gradient is a sum of K terms.
#include "ops/gather.h"

#include "check/engine/data.h"
#include "check/engine/expected.h"
#include "check/engine/family.h"
#include "check/engine/layout.h"
#include "ops/backend.h"
#include "ops/observed.h"
#include "tensor/shape.h"

#include <math.h>
#include <string.h>

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
    gather_problem *self = writable(problem);
    talc_gather_problem *p = &self->p;
    const bool select = p->function == TALC_INDEX_SELECT;
    p->dtype = self->x.dtype;
    self->index.dtype = TALC_I64;
    self->y = select ? self->x : self->index;
    self->y.dtype = p->dtype;
    self->y.reversed = false;
    if (self->index.rank != (select ? 1 : self->x.rank))
        return select ? "an index of one dimension" : "an index of x's rank";
    if (select)
        self->y.dims[self->dim] = self->index.dims[0];
    for (int i = 0; i < self->x.rank; i++)
        if (i != self->dim && self->y.dims[i] > self->x.dims[i])
            return "an index that is no larger than x in other dimensions";
    if (!talc_check_lay_out(&self->x) || !talc_check_lay_out(&self->index) ||
        !talc_check_lay_out(&self->y))
        return "operands below 2^63 bytes";
    if (p->direction == TALC_GRAD_INPUT && (self->x.reversed || !talc_dtype_is_float(p->dtype)))
        return "a gradient that is not reversed, of f32 or f64";
    p->extent = self->x.dims[self->dim];
    if (p->extent == 0 && self->index.count > 0)
        return "at least one element to pick";
    p->rank = self->y.rank;
    p->x_stride = self->x.strides[self->dim];
    p->index_count = self->index.count;
    p->x_count = self->x.count;
    p->along = self->dim;
    for (int i = 0; i < p->rank; i++) {
        p->dims[i] = self->y.dims[i];
        p->y_strides[i] = self->y.strides[i];
        p->x_strides[i] = i == self->dim ? 0 : self->x.strides[i];
        p->index_strides[i] = !select ? self->index.strides[i] : i == self->dim;
    }
    if (p->direction == TALC_FORWARD && self->y.count > 0)
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
    gather_problem *self = writable(problem);
    self->p.direction = direction;
    self->p.function = talc_check_draw(state, 0, 1) != 0 ? TALC_GATHER : TALC_INDEX_SELECT;
    self->x.dtype = talc_check_draw_float(state);
    talc_check_random_dims(state, &self->x);
    if (self->x.rank == 0)
        return false;
    self->dim = (int)talc_check_draw(state, 0, self->x.rank - 1);
    if (direction == TALC_FORWARD && talc_check_draw(state, 0, 3) == 0)
        self->x.dtype = (talc_dtype)CHECK_PICK(state, TALC_I64, TALC_I32, TALC_U8);
    self->x.reversed = direction == TALC_FORWARD && talc_check_draw(state, 0, 2) == 0;
    self->index.rank = self->p.function == TALC_GATHER ? self->x.rank : 1;
    for (int i = 0; i < self->index.rank; i++)
        self->index.dims[i] = self->p.function == TALC_INDEX_SELECT || i == self->dim
                                  ? CHECK_PICK(state, 1, 2, 3, 7, 16, 33, 65)
                              : talc_check_draw(state, 0, 2) != 0
                                  ? self->x.dims[i]
                                  : talc_check_draw(state, 1, self->x.dims[i]);
    return true;
}

// ---- Operands and data --------------------------------------------------------------------------

static void operands(const check_problem *problem, check_operand list[CHECK_OPERANDS])
{
    const gather_problem *self = read_only(problem);
    list[INDEX] = talc_check_stored(&self->index, "index", CHECK_READ);
    if (self->p.direction == TALC_FORWARD) {
        list[X] = talc_check_stored(&self->x, "x", CHECK_READ);
        list[Y] = talc_check_stored(&self->y, "y", CHECK_WRITTEN);
    } else {
        list[DY] = talc_check_stored(&self->y, "dy", CHECK_READ);
        list[DX] = talc_check_stored(&self->x, "dx", CHECK_WRITTEN);
    }
}

/* How many elements of the index may pick one of x. */
static int64_t pickers(const gather_problem *self)
{
    return self->y.dims[self->dim];
}

static const double LARGEST = 64;

static bool takes(const check_problem *problem, talc_check_kind kind)
{
    const gather_problem *self = read_only(problem);
    if (!talc_dtype_is_float(self->p.dtype))
        return kind == TALC_CHECK_EXACT;
    return kind == TALC_CHECK_EXACT
               ? (double)pickers(self) * LARGEST < talc_check_format(self->p.dtype).integers
               : kind <= TALC_CHECK_INFINITY;
}

static void fill(const check_problem *problem, talc_check_kind kind, uint64_t seed,
                 const check_values *values)
{
    const gather_problem *self = read_only(problem);
    const bool forward = self->p.direction == TALC_FORWARD;
    const int64_t count = forward ? self->x.count : self->y.count;
    double *of = values->of[forward ? X : DY];
    talc_check_fill(of, count, self->p.dtype, kind, LARGEST, 1, seed);
    for (int64_t i = 0; i < count && !talc_dtype_is_float(self->p.dtype); i++)
        of[i] += LARGEST; /* also an unsigned one */
    for (int64_t i = 0; i < self->index.count; i++)
        values->of[INDEX][i] = (double)(talc_check_bits(talc_check_bits(seed, 1), (uint64_t)i) %
                                        (uint64_t)self->p.extent);
}

// ---- Oracle -------------------------------------------------------------------------------------

/* The index's element of y's coordinates. */
static int64_t index_at(const gather_problem *self, const check_values *values,
                        const int64_t at[TALC_MAX_RANK])
{
    if (self->p.function == TALC_INDEX_SELECT)
        return (int64_t)values->of[INDEX][at[self->dim]];
    int64_t position = 0;
    for (int i = 0; i < self->index.rank; i++)
        position += at[i] * self->index.strides[i];
    return (int64_t)values->of[INDEX][position];
}

static check_expected expected_of(const check_problem *problem, const check_values *values,
                                  int operand, int64_t index)
{
    const gather_problem *self = read_only(problem);
    const check_layout *result = operand == Y ? &self->y : &self->x;
    int64_t at[TALC_MAX_RANK], position = 0;
    check_expected expected = { .value = 0 };
    talc_check_coordinates(result->rank, result->dims, index, at);
    if (operand == Y) {
        at[self->dim] = index_at(self, values, at);
        for (int i = 0; i < self->x.rank; i++)
            position += at[i] * self->x.strides[i];
        expected.value = values->of[X][position];
        return expected;
    }
    const int64_t picked = at[self->dim];
    for (int i = 0; i < self->y.rank; i++) {
        if (i != self->dim && at[i] >= self->y.dims[i])
            return expected;
        position += i == self->dim ? 0 : at[i] * self->y.strides[i];
    }
    for (int64_t k = 0; k < pickers(self); k++) {
        at[self->dim] = k;
        if (index_at(self, values, at) != picked)
            continue;
        const double dy = values->of[DY][position + k * self->y.strides[self->dim]];
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
    const gather_problem *self = read_only(problem);
    return self->p.direction == TALC_FORWARD ? 1 : (double)pickers(self);
}

/* Of no dy all of dx is 0, without an algorithm. */
static bool is_empty(const check_problem *problem)
{
    return read_only(problem)->y.count == 0;
}

/* A scalar is a line of one element. */
static bool problem_of_run(const check_ran *ran, check_problem *problem)
{
    const talc_gather_observed *observed = ran->problem;
    gather_problem *self = writable(problem);
    self->p.function = observed->function;
    self->dim = observed->dim;
    self->x = talc_check_layout_of(&ran->inputs[X]);
    self->index = talc_check_layout_of(&ran->inputs[INDEX]);
    for (int i = 0; i < 2; i++) {
        check_layout *layout = i == 0 ? &self->x : &self->index;
        layout->dims[0] = layout->rank == 0 ? 1 : layout->dims[0];
        layout->rank += layout->rank == 0;
    }
    return complete(problem, &(const char *){ "" }) == NULL;
}

// ---- In models ----------------------------------------------------------------------------------

/* The element of the index that output i reads. */
static int64_t picking_at(const check_ran *ran, int64_t i)
{
    if (strcmp(ran->op, "index_select") != 0)
        return i;
    const talc_dims *dims = &ran->output.dims;
    const int dim = ((const talc_gather_observed *)ran->problem)->dim;
    for (int d = dims->rank - 1; d > dim; d--)
        i /= dims->dim[d];
    return i % ran->inputs[INDEX].count;
}

// ---- Problems of sets ---------------------------------------------------------------------------

// clang-format off
static const char *const quick[] = {
    "gather:5x7x3@1i4x9x3", "gather:70x33@0i130x17_f64", "index_select:5x70x9@1i33_reversed",
    "index_select:9x5@0i40_i32",
    "{gather:5x7x3@1i4x9x3|gather:70x33@0i130x17_f64|index_select:5x70x9@1i33|index_select:9x5@0i40}_dx",
    NULL,
};

static const char *const edges[] = {
    /* Each dimension, one element, many of few, few of many, an index smaller than x, none, every
     * type. */
    "gather:{5x7x3@0i9x7x3|5x7x3@1i5x20x3|5x7x3@2i2x3x4|7@0i9001|70001@0i5}{|_reversed|_dx|_dx_f64}",
    "index_select:{5x7x3@0i9|5x7x3@1i20|5x7x3@2i4|7@0i9001|70001@0i5}{|_reversed|_dx|_dx_f64}",
    "gather:{1@0i1|9x300@0i4x257|300x9@1i300x40|3x2x5x2x3@2i3x2x8x2x3}{|_dx}",
    "gather:{0x3@1i0x2|5x3@0i0x3}{|_dx}",
    "index_select:{1@0i1|9x300@0i40|3x2x5x2x3@2i8|1001x33@0i700}{|_dx}",
    "index_select:{0x3@1i2|5x3@0i0}{|_dx}", "{gather:5x7@1i5x9|index_select:5x7@1i9}_{i64|i32|u8}",
    NULL,
};
// clang-format on

// ---- The directions -----------------------------------------------------------------------------

static const check_family family = {
    .texts = "gather:5x7@1i5x9\n"
             "    behind i the index's dimensions\n"
             "index_select:5x7@1i9\n",
    .quick = quick,
    .edges = edges,
    .keys = keys,
    .begin = begin,
    .complete = complete,
    .op = op_of,
    .random = random_problem,
};

#define POINTER(name) offsetof(talc_gather_arguments, name)
#define DIRECTION(direction, names, other)                                                         \
    {                                                                                              \
        .family = &family, .of = direction, .ops = names, .gradient = other,                       \
        .problem_of_run = problem_of_run, .expected_of_run = talc_check_picked,                    \
        .factors = 1U << X, .picks = 1U << INDEX, .picking_at = picking_at, .operands = operands,  \
        .takes = takes, .fill = fill, .expected = expected_of, .terms = terms,                     \
        .list = TALC_OP_gather,                                                                    \
        .arguments = { POINTER(x), POINTER(index), POINTER(dy), POINTER(y), POINTER(dx) },         \
        .is_empty = is_empty,                                                                      \
    }

static const char *const forward_ops[] = { "gather", "index_select", NULL };
static const char *const gradient_ops[] = { "gather.grad_input", "index_select.grad_input", NULL };

static const check_direction gradient = DIRECTION(TALC_GRAD_INPUT, gradient_ops, NULL);
const check_direction talc_check_gather = DIRECTION(TALC_FORWARD, forward_ops, &gradient);
