/// The family of where: "where:3x5,5,3x1", the shapes of the condition and of both operands, which
/// broadcast; those left out are the condition's. `reversed`: all are stored with their dimensions
/// in the reverse order.
///
///     y = a where the condition is not 0, else b
///
/// What is chosen is moved, without rounding.
#include "ops/compare.h"

#include "check/engine/data.h"
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
    where_problem *own = writable(problem);
    talc_where_problem *p = &own->p;
    check_layout both;
    own->condition.dtype = TALC_U8;
    if (own->a.rank == LEFT_OUT)
        own->a = own->condition;
    if (own->b.rank == LEFT_OUT)
        own->b = own->condition;
    own->a.dtype = own->b.dtype = own->dtype;
    own->a.reversed = own->b.reversed = own->condition.reversed;
    if (!talc_check_broadcast(&own->a, &own->b, &both) ||
        !talc_check_broadcast(&both, &own->condition, &own->y)) {
        *key = ",";
        return "shapes that broadcast";
    }
    if (!talc_check_lay_out(&own->condition) || !talc_check_lay_out(&own->a) ||
        !talc_check_lay_out(&own->b) || !talc_check_lay_out(&own->y))
        return "operands and a result below 2^63 bytes";
    p->dtype = own->dtype;
    p->rank = own->y.rank;
    memcpy(p->dims, own->y.dims, sizeof p->dims);
    memcpy(p->y_strides, own->y.strides, sizeof p->y_strides);
    talc_check_stretch(&own->condition, &own->y, p->condition_strides);
    talc_check_stretch(&own->a, &own->y, p->a_strides);
    talc_check_stretch(&own->b, &own->y, p->b_strides);
    if (own->y.count > 0)
        p->rank = talc_shape_coalesce(
            p->rank, p->dims,
            (int64_t *const[]){ p->y_strides, p->condition_strides, p->a_strides, p->b_strides },
            4);
    return NULL;
}

static bool random_problem(uint64_t *state, talc_direction direction, check_problem *problem)
{
    (void)direction;
    where_problem *own = writable(problem);
    own->dtype = talc_check_draw(state, 0, 2) != 0
                     ? talc_check_draw_float(state)
                     : (talc_dtype)CHECK_PICK(state, TALC_I64, TALC_I32, TALC_U8);
    talc_check_random_dims(state, &own->condition);
    own->condition.reversed = talc_check_draw(state, 0, 2) == 0;
    talc_check_draw_stretched(state, &own->condition, &own->a);
    talc_check_draw_stretched(state, &own->condition, &own->b);
    return true;
}

// ---- Operands and data --------------------------------------------------------------------------

enum { CONDITION, A, B, Y };

static void operands(const check_problem *problem, check_operand list[CHECK_OPERANDS])
{
    const where_problem *own = read_only(problem);
    list[CONDITION] = talc_check_stored(&own->condition, "condition", CHECK_READ);
    list[A] = talc_check_stored(&own->a, "a", CHECK_READ);
    list[B] = talc_check_stored(&own->b, "b", CHECK_READ);
    list[Y] = talc_check_stored(&own->y, "y", CHECK_WRITTEN);
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
    const where_problem *own = read_only(problem);
    for (int64_t i = 0; i < own->condition.count; i++)
        values->of[CONDITION][i] = conditions[talc_check_bits(seed + 3, (uint64_t)i) % 8];
    for (int i = A; i <= B; i++) {
        const check_layout *of = i == A ? &own->a : &own->b;
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
    const where_problem *own = read_only(problem);
    const bool holds =
        values->of[CONDITION][talc_check_broadcast_offset(&own->condition, &own->y, index)] != 0;
    const check_layout *of = holds ? &own->a : &own->b;
    return (check_expected){
        .value = values->of[holds ? A : B][talc_check_broadcast_offset(of, &own->y, index)]
    };
}

#define POINTER(name) offsetof(talc_where_arguments, name)

static bool pose(const check_ran *ran, check_problem *problem)
{
    where_problem *own = writable(problem);
    own->condition = talc_check_layout_of(&ran->inputs[CONDITION]);
    own->a = talc_check_layout_of(&ran->inputs[A]);
    own->b = talc_check_layout_of(&ran->inputs[B]);
    own->dtype = own->a.dtype;
    return complete(problem, &(const char *){ "" }) == NULL;
}

static const check_family family = {
    .keys = keys,
    .begin = begin,
    .complete = complete,
    .random = random_problem,
};

const check_direction talc_check_where = {
    .family = &family,
    .ops = op_names,
    .stream = 29,
    .pose = pose,
    .operands = operands,
    .takes = takes,
    .fill = fill,
    .expected = expected_of,
    .cost = 4,
    .list = TALC_OP_where,
    .arguments = { POINTER(condition), POINTER(a), POINTER(b), POINTER(y) },
};
