/// The family of the elementwise ops of two operands, from their table: "add:3x5,5", of shapes that
/// broadcast, or "add:3x5" of two of that shape. `scalar`: a number in place of the second operand.
/// `reversed`: both are stored with their dimensions in the reverse order.
///
/// Sums, differences, products and quotients are rounded once, to what the type holds of them, and
/// where it holds them as they are not at all; integers wrap around. A power may be 4 units of the
/// last place off. What is only compared or chosen has no rounding. Rows of comparisons give 0 or 1
/// in the operands' type.
#include "check/ops/elementwise.h"

#include "check/engine/data.h"
#include "check/engine/family.h"
#include "check/engine/layout.h"
#include "ops/backend.h"
#include "tensor/shape.h"

#include <math.h>
#include <string.h>

typedef struct binary_problem {
    talc_binary_problem p;
    check_layout a, b, y;
    bool scalar;
} binary_problem;

CHECK_PROBLEM(binary_problem, talc_binary_arguments)

// ---- Problem and text ---------------------------------------------------------------------------

/* Without rows of gradients. */
enum { OPS = TALC_BINARY_COUNT - TALC_UNARY_COUNT, LEFT_OUT = -1 };

static const char *const op_names[] = {
#define TALC_NAME(constant, name, ...) #name,
    TALC_BINARY_TABLE(TALC_NAME)
#undef TALC_NAME
        NULL
};

#define FIELD(name) offsetof(binary_problem, name)

enum { OF_INTEGERS = (1u << OPS) - 1 - (1u << TALC_DIV) - (1u << TALC_PRELU) - (1u << TALC_POW) };

static const check_key keys[] = {
    { "", CHECK_DIMS, .offset = FIELD(a) },
    { ",", CHECK_DIMS, .offset = FIELD(b), .flags = CHECK_OPTIONAL },
    { "_scalar", CHECK_FLAG, .offset = FIELD(scalar) },
    { "_reversed", CHECK_FLAG, .offset = FIELD(a.reversed) },
    CHECK_FLOAT_KEYS(FIELD(a.dtype)),
    CHECK_INTEGER_KEYS(FIELD(a.dtype), .ops = OF_INTEGERS),
    { .key = NULL },
};

static void begin(check_problem *problem, int op)
{
    writable(problem)->p.function = (talc_binary_function)op;
    writable(problem)->b.rank = LEFT_OUT;
}

static const char *complete(check_problem *problem, const char **key)
{
    binary_problem *self = writable(problem);
    talc_binary_problem *p = &self->p;
    if (self->b.rank == LEFT_OUT || self->scalar)
        self->b = self->a;
    self->b.dtype = self->a.dtype;
    self->b.reversed = self->a.reversed;
    if (!talc_check_broadcast(&self->a, &self->b, &self->y)) {
        *key = ",";
        return "a shape that broadcasts with the first";
    }
    if (!talc_check_lay_out(&self->a) || !talc_check_lay_out(&self->b) ||
        !talc_check_lay_out(&self->y))
        return "operands and a result below 2^63 bytes";
    p->dtype = self->a.dtype;
    p->b_is_scalar = self->scalar;
    p->scalar = !self->scalar ? 0 : talc_dtype_is_float(p->dtype) ? 0.75 : 3;
    p->rank = self->y.rank;
    memcpy(p->dims, self->y.dims, sizeof p->dims);
    memcpy(p->y_strides, self->y.strides, sizeof p->y_strides);
    talc_check_stretch(&self->a, &self->y, p->a_strides);
    if (!self->scalar)
        talc_check_stretch(&self->b, &self->y, p->b_strides);
    if (self->y.count > 0)
        p->rank = talc_shape_coalesce(
            p->rank, p->dims, (int64_t *const[]){ p->y_strides, p->a_strides, p->b_strides }, 3);
    return NULL;
}

static int op_of(const check_problem *problem)
{
    return (int)read_only(problem)->p.function;
}

static bool random_problem(uint64_t *state, talc_direction direction, check_problem *problem)
{
    (void)direction;
    binary_problem *self = writable(problem);
    self->p.function = (talc_binary_function)talc_check_draw(state, 0, OPS - 1);
    self->a.dtype = talc_check_draw_float(state);
    if ((OF_INTEGERS >> self->p.function & 1) != 0 && talc_check_draw(state, 0, 3) == 0)
        self->a.dtype = (talc_dtype)CHECK_PICK(state, TALC_I64, TALC_I32, TALC_U8);
    talc_check_random_dims(state, &self->a);
    self->a.reversed = talc_check_draw(state, 0, 2) == 0;
    self->scalar = talc_check_draw(state, 0, 5) == 0;
    if (self->scalar)
        self->b.rank = LEFT_OUT;
    else
        talc_check_draw_stretched(state, &self->a, &self->b);
    return true;
}

// ---- Operands and data --------------------------------------------------------------------------

enum { A, B, Y };

static void operands(const check_problem *problem, check_operand list[CHECK_OPERANDS])
{
    const binary_problem *self = read_only(problem);
    list[A] = talc_check_stored(&self->a, "a", CHECK_READ);
    if (!self->scalar)
        list[B] = talc_check_stored(&self->b, "b", CHECK_READ);
    list[Y] = talc_check_stored(&self->y, "y", CHECK_WRITTEN);
}

static bool takes(const check_problem *problem, talc_check_kind kind)
{
    const talc_binary_problem *p = &read_only(problem)->p;
    if (!talc_dtype_is_float(p->dtype))
        return kind == TALC_CHECK_EXACT || kind == TALC_CHECK_HUGE;
    return kind <= TALC_CHECK_INFINITY &&
           (kind != TALC_CHECK_EXACT || (p->function != TALC_DIV && p->function != TALC_POW));
}

/* Exact data are few numbers, so that some are equal. Bases of powers are mostly positive. */
static void fill(const check_problem *problem, talc_check_kind kind, uint64_t seed,
                 const check_values *values)
{
    const binary_problem *self = read_only(problem);
    const bool odd = kind == TALC_CHECK_NAN || kind == TALC_CHECK_INFINITY;
    for (int i = A; i <= B && values->of[i] != NULL; i++) {
        const check_layout *of = i == A ? &self->a : &self->b;
        if (talc_dtype_is_float(of->dtype))
            talc_check_fill(values->of[i], of->count, of->dtype,
                            odd && i == B ? TALC_CHECK_RANDOM : kind, 4, 4,
                            talc_check_bits(seed, (uint64_t)i));
        else
            talc_check_fill_integers(values->of[i], of->count, of->dtype, kind, seed + (uint64_t)i);
    }
    for (int64_t i = 0; self->p.function == TALC_POW && i < self->a.count; i++)
        values->of[A][i] = i % 8 == 0 ? values->of[A][i] : fabs(values->of[A][i]);
}

/* After the first operand in the second, of the other sign. */
static bool inject(const check_problem *problem, talc_check_kind kind, int round, uint64_t seed,
                   const check_values *values)
{
    const binary_problem *self = read_only(problem);
    const bool is_nan = kind == TALC_CHECK_NAN;
    if (round > 0 || (!is_nan && kind != TALC_CHECK_INFINITY) || values->of[B] == NULL ||
        self->b.count == 0)
        return false;
    for (int64_t i = 0; i < self->a.count; i++)
        if (!isfinite(values->of[A][i]))
            values->of[A][i] = 1;
    values->of[B][talc_check_bits(seed, 9) % (uint64_t)self->b.count] =
        is_nan ? (double)NAN : -(double)INFINITY;
    return true;
}

// ---- Oracle -------------------------------------------------------------------------------------

/* Modulo the range of the type, and as results are read. */
static long double wrapped(talc_dtype dtype, uint64_t bits)
{
    return dtype == TALC_U8    ? (long double)(uint8_t)bits
           : dtype == TALC_I32 ? (long double)(int32_t)(uint32_t)bits
                               : (long double)(double)(int64_t)bits;
}

static long double of_integers(talc_binary_function function, talc_dtype dtype, double a, double b)
{
    const uint64_t x = (uint64_t)(int64_t)a, y = (uint64_t)(int64_t)b;
    return wrapped(dtype, function == TALC_ADD   ? x + y
                          : function == TALC_SUB ? x - y
                          : function == TALC_MUL ? x * y
                                                 : (x - y) * (x - y));
}

static long double of_reals(talc_binary_function function, long double a, long double b)
{
    switch (function) {
    case TALC_ADD:
        return a + b;
    case TALC_SUB:
        return a - b;
    case TALC_MUL:
        return a * b;
    case TALC_SQUARED_DIFFERENCE:
        return (a - b) * (a - b);
    case TALC_DIV:
        return a / b;
    case TALC_PRELU:
        return a > 0 ? a : b * a;
    case TALC_POW:
        return powl(a, b);
    case TALC_MAXIMUM:
        return isnan(a) || isnan(b) ? (long double)NAN : a > b ? a : b;
    case TALC_MINIMUM:
        return isnan(a) || isnan(b) ? (long double)NAN : a < b ? a : b;
    case TALC_EQUAL:
        return a == b;
    case TALC_NOT_EQUAL:
        return a != b;
    case TALC_LESS:
        return a < b;
    case TALC_LESS_EQUAL:
        return a <= b;
    case TALC_GREATER:
        return a > b;
    case TALC_GREATER_EQUAL:
        return a >= b;
    default:
        return NAN;
    }
}

check_expected talc_check_binary_expected(talc_binary_function function, talc_dtype dtype, double a,
                                          double b)
{
    if (!talc_dtype_is_float(dtype) && function <= TALC_SQUARED_DIFFERENCE)
        return (check_expected){ .value = of_integers(function, dtype, a, b) };
    const long double value = of_reals(function, a, b);
    if (function > TALC_POW)
        return (check_expected){ .value = value };
    const bool held = talc_check_rounded(dtype, (double)value) == value;
    const bool squared = function == TALC_SQUARED_DIFFERENCE;
    const bool rounded = squared && talc_check_rounded(dtype, a - b) != (long double)a - b;
    return talc_check_in_units(dtype, value,
                               function == TALC_POW ? 4
                               : rounded            ? 2 + CHECK_ONE_ROUNDING
                               : held               ? 0
                                                    : CHECK_ONE_ROUNDING,
                               0);
}

static check_expected expected_of(const check_problem *problem, const check_values *values,
                                  int operand, int64_t index)
{
    (void)operand;
    const binary_problem *self = read_only(problem);
    const double a = values->of[A][talc_check_broadcast_offset(&self->a, &self->y, index)],
                 b = self->scalar
                         ? self->p.scalar
                         : values->of[B][talc_check_broadcast_offset(&self->b, &self->y, index)];
    return talc_check_binary_expected(self->p.function, self->p.dtype, a, b);
}

static double terms(const check_problem *problem)
{
    return read_only(problem)->p.function == TALC_POW ? 60 : 4;
}

#define POINTER(name) offsetof(talc_binary_arguments, name)

// ---- Problems of sets ---------------------------------------------------------------------------

// clang-format off
static const char *const quick[] = {
#define QUICK(constant, name, ...) #name ":{9x33,33|5x7x9,7x1_f64}",
    TALC_BINARY_TABLE(QUICK)
#undef QUICK
    "{add|sub|mul|maximum|less}:300_{i32|u8}", "{add|pow|equal}:300_scalar",
    "mul:5x70_reversed_i64",
    NULL,
};

static const char *const edges[] = {
#define EDGES(constant, name, ...) #name ":{|1|20001|33x129_reversed|5x3x7x11,7x1_f64|,7|1x40,30x1|300,0x300}",
    TALC_BINARY_TABLE(EDGES)
#undef EDGES
    "{add|sub|mul|maximum|minimum|equal|not_equal|less|less_equal|greater|greater_equal}:{4099|33x129,129_reversed}_{i64|i32|u8}",
    "{add|sub|mul|div|pow|equal|less}:{1|4099|33x129_reversed}_scalar{|_f64}",
    NULL,
};
// clang-format on

static const check_family family = {
    .texts = "add:8x16,16\n"
             "    every other elementwise op of two operands likewise, less: and its kin among\n"
             "    them, of shapes that broadcast; add:8x16 is 8x16,8x16; scalar: a number in\n"
             "    place of the second; _i32 _i64 _u8 as the op takes them\n",
    .quick = quick,
    .edges = edges,
    .keys = keys,
    .begin = begin,
    .complete = complete,
    .op = op_of,
    .random = random_problem,
};

const check_direction talc_check_binary = {
    .family = &family,
    .ops = op_names,
    .operands = operands,
    .takes = takes,
    .fill = fill,
    .inject = inject,
    .expected = expected_of,
    .terms = terms,
    .list = TALC_OP_binary,
    .arguments = { POINTER(a), POINTER(b), POINTER(y) },
};
