/// The family of where: "where:3x5,5,3x1", the shapes of the condition and of both operands, which
/// broadcast; those left out are the condition's. `reversed`: all are stored with their dimensions
/// in the reverse order.
///
///     y = a where the condition is not 0, else b
///
/// What is chosen is moved, without rounding.
#include "ops/compare.h"

#include "check/engine/data.h"
#include "check/engine/expected.h"
#include "check/engine/family.h"
#include "check/engine/layout.h"
#include "ops/backend.h"
#include "tensor/shape.h"

#include <math.h>
#include <string.h>

typedef struct where_problem {
    talc_where_problem p;
    check_layout condition, a, b, y;
    talc_dtype dtype;
} where_problem;

CHECK_PROBLEM(where_problem, talc_where_arguments)

// ---- Problem and text ---------------------------------------------------------------------------

enum { LEFT_OUT = -1 };

static const char *const op_names[] = { "where", NULL };

#define FIELD(name) offsetof(where_problem, name)

static const check_key keys[] = {
    { "", CHECK_DIMS, .offset = FIELD(condition) },
    { ",", CHECK_DIMS, .offset = FIELD(a), .flags = CHECK_OPTIONAL },
    { ",", CHECK_DIMS, .offset = FIELD(b), .flags = CHECK_OPTIONAL },
    { "_reversed", CHECK_FLAG, .offset = FIELD(condition.reversed) },
    CHECK_FLOAT_KEYS(FIELD(dtype)),
    CHECK_INTEGER_KEYS(FIELD(dtype), .ops = 0),
    { .key = NULL },
};

static void begin(check_problem *problem, int op)
{
    (void)op;
    writable(problem)->a.rank = writable(problem)->b.rank = LEFT_OUT;
}

static const char *complete(check_problem *problem, const char **key)
{
    where_problem *self = writable(problem);
    talc_where_problem *p = &self->p;
    check_layout both;
    self->condition.dtype = TALC_U8;
    if (self->a.rank == LEFT_OUT)
        self->a = self->condition;
    if (self->b.rank == LEFT_OUT)
        self->b = self->condition;
    self->a.dtype = self->b.dtype = self->dtype;
    self->a.reversed = self->b.reversed = self->condition.reversed;
    if (!talc_check_broadcast(&self->a, &self->b, &both) ||
        !talc_check_broadcast(&both, &self->condition, &self->y)) {
        *key = ",";
        return "shapes that broadcast";
    }
    if (!talc_check_lay_out(&self->condition) || !talc_check_lay_out(&self->a) ||
        !talc_check_lay_out(&self->b) || !talc_check_lay_out(&self->y))
        return "operands and a result below 2^63 bytes";
    p->dtype = self->dtype;
    p->rank = self->y.rank;
    memcpy(p->dims, self->y.dims, sizeof p->dims);
    memcpy(p->y_strides, self->y.strides, sizeof p->y_strides);
    talc_check_stretch(&self->condition, &self->y, p->condition_strides);
    talc_check_stretch(&self->a, &self->y, p->a_strides);
    talc_check_stretch(&self->b, &self->y, p->b_strides);
    if (self->y.count > 0)
        p->rank = talc_shape_coalesce(
            p->rank, p->dims,
            (int64_t *const[]){ p->y_strides, p->condition_strides, p->a_strides, p->b_strides },
            4);
    return NULL;
}

static bool random_problem(uint64_t *state, talc_direction direction, check_problem *problem)
{
    (void)direction;
    where_problem *self = writable(problem);
    self->dtype = talc_check_draw(state, 0, 2) != 0
                      ? talc_check_draw_float(state)
                      : (talc_dtype)CHECK_PICK(state, TALC_I64, TALC_I32, TALC_U8);
    talc_check_random_dims(state, &self->condition);
    self->condition.reversed = talc_check_draw(state, 0, 2) == 0;
    talc_check_draw_stretched(state, &self->condition, &self->a);
    talc_check_draw_stretched(state, &self->condition, &self->b);
    return true;
}

// ---- Operands and data --------------------------------------------------------------------------

enum { CONDITION, A, B, Y };

static void operands(const check_problem *problem, check_operand list[CHECK_OPERANDS])
{
    const where_problem *self = read_only(problem);
    list[CONDITION] = talc_check_stored(&self->condition, "condition", CHECK_READ);
    list[A] = talc_check_stored(&self->a, "a", CHECK_READ);
    list[B] = talc_check_stored(&self->b, "b", CHECK_READ);
    list[Y] = talc_check_stored(&self->y, "y", CHECK_WRITTEN);
}

static bool takes(const check_problem *problem, talc_check_kind kind)
{
    return talc_dtype_is_float(read_only(problem)->dtype)
               ? kind <= TALC_CHECK_INFINITY
               : kind == TALC_CHECK_EXACT || kind == TALC_CHECK_HUGE;
}

/* Of conditions that are not 0 some are not 1. */
static void fill(const check_problem *problem, talc_check_kind kind, uint64_t seed,
                 const check_values *values)
{
    static const double conditions[] = { 0, 0, 0, 0, 1, 1, 2, 255 };
    const where_problem *self = read_only(problem);
    for (int64_t i = 0; i < self->condition.count; i++)
        values->of[CONDITION][i] = conditions[talc_check_bits(seed + 3, (uint64_t)i) % 8];
    for (int i = A; i <= B; i++) {
        const check_layout *of = i == A ? &self->a : &self->b;
        if (talc_dtype_is_float(of->dtype))
            talc_check_fill(values->of[i], of->count, of->dtype, kind, 64, 1, seed + (uint64_t)i);
        else
            talc_check_fill_integers(values->of[i], of->count, of->dtype, kind, seed + (uint64_t)i);
    }
}

// ---- Oracle -------------------------------------------------------------------------------------

static check_expected expected_of(const check_problem *problem, const check_values *values,
                                  int operand, int64_t index)
{
    (void)operand;
    const where_problem *self = read_only(problem);
    const bool holds =
        values->of[CONDITION][talc_check_broadcast_offset(&self->condition, &self->y, index)] != 0;
    const check_layout *of = holds ? &self->a : &self->b;
    return (check_expected){
        .value = values->of[holds ? A : B][talc_check_broadcast_offset(of, &self->y, index)]
    };
}

#define POINTER(name) offsetof(talc_where_arguments, name)

static bool problem_of_run(const check_ran *ran, check_problem *problem)
{
    where_problem *self = writable(problem);
    self->condition = talc_check_layout_of(&ran->inputs[CONDITION]);
    self->a = talc_check_layout_of(&ran->inputs[A]);
    self->b = talc_check_layout_of(&ran->inputs[B]);
    self->dtype = self->a.dtype;
    return complete(problem, &(const char *){ "" }) == NULL;
}

// ---- In models ----------------------------------------------------------------------------------

static int64_t picking_at(const check_ran *ran, int64_t i)
{
    const check_array *condition = &ran->inputs[CONDITION];
    return talc_check_stretched(condition->dims.rank, condition->dims.dim, ran->output.dims, i);
}

// ---- Problems of sets ---------------------------------------------------------------------------

// clang-format off
static const char *const quick[] = {
    "where:{300|5x70,70,5x1|70,5x1,5x70_u8}",
    NULL,
};

static const char *const edges[] = {
    "where:{|1|20001|33x129,129|129,33x1|3x1x5,4x1,5|,7,3x1|300,0x300}{|_f64|_u8}",
    "where:33x129_reversed{|_i64|_i32}",
    NULL,
};
// clang-format on

static const check_family family = {
    .texts = "where:8x16,16,8x1\n"
             "    the condition, and what is chosen from; those left out are of the condition's\n"
             "    shape\n",
    .quick = quick,
    .edges = edges,
    .keys = keys,
    .begin = begin,
    .complete = complete,
    .random = random_problem,
};

const check_direction talc_check_where = {
    .family = &family,
    .ops = op_names,
    .problem_of_run = problem_of_run,
    .expected_of_run = talc_check_picked,
    .factors = 1U << A,
    .picks = 1U << CONDITION,
    .picking_at = picking_at,
    .operands = operands,
    .takes = takes,
    .fill = fill,
    .expected = expected_of,
    .cost = 4,
    .list = TALC_OP_where,
    .arguments = { POINTER(condition), POINTER(a), POINTER(b), POINTER(y) },
};
