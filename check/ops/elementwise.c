/// The family of the elementwise ops of one operand, from their table: "silu:8x16", and their
/// gradients, with the word dx. `reversed`: x is stored with its dimensions in the reverse order.
/// Ops that take numbers have those of `numbers`, and neg takes integers.
///
/// Bounds follow from the roundings of the formulas in ops/elementwise_table.h and of the functions
/// that these call. Where the header promises units of the last place, 4 or 8, they are these. An
/// argument of an exponential that is rounded costs as many more as it is large. What is subnormal
/// on the way is off by the smallest number, times what it is multiplied by; in silu and mish
/// nothing is. A gradient is dy times a slope, with some roundings of each of the slope's terms. It
/// is that from s, the saved x or y, which is given as an op has rounded it.
///
/// RANDOM reaches beyond where exponentials under- and overflow, WIDE over all exponents. There are
/// no exact data.
#include "check/ops/elementwise.h"

#include "check/engine/activation.h"
#include "check/engine/data.h"
#include "check/engine/family.h"
#include "check/engine/layout.h"
#include "ops/backend.h"
#include "tensor/shape.h"

#include <float.h>
#include <math.h>
#include <string.h>

typedef struct unary_problem {
    union {
        talc_unary_problem p;
        talc_binary_problem gradient; /* of dy and s */
    };
    check_layout x;
    int function;
    bool dx;
} unary_problem;

CHECK_PROBLEM(unary_problem, talc_binary_arguments)

static const double numbers[TALC_UNARY_COUNT][2] = {
    [TALC_LEAKY_RELU] = { 0.375 },
    [TALC_ELU] = { 0.375 },
    [TALC_HARDTANH] = { -0.75, 1.25 },
    [TALC_SOFTPLUS] = { 0.75, 20 },
    [TALC_HARDSIGMOID_RAMP] = { 0.375, 0.625 },
    [TALC_HARDSWISH_RAMP] = { -0.375, 0.625 },
};

static const int saves[] = {
#define TALC_ROW(constant, name, numbers, with, value, saved, gradient) saved,
    TALC_UNARY_TABLE(TALC_ROW)
#undef TALC_ROW
};

// ---- Problem and text ---------------------------------------------------------------------------

static const char *complete(check_problem *problem, const char **key)
{
    (void)key;
    unary_problem *self = writable(problem);
    check_layout y = self->x;
    y.reversed = false;
    if (!talc_check_lay_out(&self->x) || !talc_check_lay_out(&y))
        return "an input below 2^63 bytes";
    if (self->dx && !talc_dtype_is_float(self->x.dtype))
        return "a gradient of f32 or f64";
    if (self->dx) {
        talc_binary_problem *p = &self->gradient;
        p->function = (talc_binary_function)(TALC_BINARY_COUNT - TALC_UNARY_COUNT + self->function);
        p->dtype = y.dtype;
        p->rank = y.rank;
        memcpy(p->numbers, numbers[self->function], sizeof p->numbers);
        memcpy(p->dims, y.dims, sizeof p->dims);
        memcpy(p->y_strides, y.strides, sizeof p->y_strides);
        memcpy(p->a_strides, y.strides, sizeof p->a_strides);
        memcpy(p->b_strides, self->x.strides, sizeof p->b_strides);
        if (y.count > 0)
            p->rank = talc_shape_coalesce(
                p->rank, p->dims, (int64_t *const[]){ p->y_strides, p->a_strides, p->b_strides },
                3);
        return NULL;
    }
    talc_unary_problem *p = &self->p;
    p->function = (talc_unary_function)self->function;
    p->dtype = y.dtype;
    p->rank = y.rank;
    memcpy(p->numbers, numbers[self->function], sizeof p->numbers);
    memcpy(p->dims, y.dims, sizeof p->dims);
    memcpy(p->y_strides, y.strides, sizeof p->y_strides);
    memcpy(p->x_strides, self->x.strides, sizeof p->x_strides);
    if (y.count > 0)
        p->rank = talc_shape_coalesce(p->rank, p->dims,
                                      (int64_t *const[]){ p->y_strides, p->x_strides }, 2);
    return NULL;
}

static const check_key keys[] = {
    { "", CHECK_DIMS, .offset = offsetof(unary_problem, x) },
    { "_reversed", CHECK_FLAG, .offset = offsetof(unary_problem, x.reversed) },
    { "_dx", CHECK_FLAG, .offset = offsetof(unary_problem, dx) },
    CHECK_FLOAT_KEYS(offsetof(unary_problem, x.dtype)),
    CHECK_INTEGER_KEYS(offsetof(unary_problem, x.dtype), .ops = 1u << TALC_NEG),
    { .key = NULL },
};

static void begin(check_problem *problem, int op)
{
    writable(problem)->function = op;
}

static int op_of(const check_problem *problem)
{
    return read_only(problem)->function;
}

static bool random_problem(uint64_t *state, talc_direction direction, check_problem *problem)
{
    const bool dx = direction == TALC_GRAD_INPUT;
    unary_problem *self = writable(problem);
    self->function = (int)talc_check_draw(state, 0, TALC_UNARY_COUNT - 1);
    self->dx = dx;
    self->x.dtype = talc_check_draw_float(state);
    talc_check_random_dims(state, &self->x);
    self->x.reversed = talc_check_draw(state, 0, 2) == 0;
    if (self->function == TALC_NEG && !dx && talc_check_draw(state, 0, 1) == 0)
        self->x.dtype = (talc_dtype)CHECK_PICK(state, TALC_I64, TALC_I32, TALC_U8);
    return true;
}

// ---- Operands and data --------------------------------------------------------------------------

enum { S, DY, Y };

static bool saves_y(int function)
{
    return saves[function] == TALC_SAVES_Y;
}

static void operands(const check_problem *problem, check_operand list[CHECK_OPERANDS])
{
    const unary_problem *self = read_only(problem);
    check_layout y = self->x;
    y.reversed = false;
    list[S] =
        talc_check_stored(&self->x, self->dx && saves_y(self->function) ? "y" : "x", CHECK_READ);
    if (self->dx)
        list[DY] = talc_check_stored(&y, "dy", CHECK_READ);
    list[Y] = talc_check_stored(&y, self->dx ? "dx" : "y", CHECK_WRITTEN);
}

static bool takes(const check_problem *problem, talc_check_kind kind)
{
    if (!talc_dtype_is_float(read_only(problem)->x.dtype))
        return kind == TALC_CHECK_EXACT || kind == TALC_CHECK_HUGE;
    return kind != TALC_CHECK_EXACT && kind <= TALC_CHECK_INFINITY;
}

/* Every other one near 0, the rest to where exponentials are 0 and infinite; over all exponents. */
static double drawn(talc_dtype dtype, talc_check_kind kind, uint64_t seed, int64_t i)
{
    const bool narrow = talc_check_is_narrow(dtype);
    const double part = (double)(talc_check_bits(seed, 2 * (uint64_t)i) >> 11) * 0x1p-53;
    const uint64_t bits = talc_check_bits(seed, 2 * (uint64_t)i + 1);
    if (kind == TALC_CHECK_RANDOM)
        return (i % 2 == 0 ? 8 : narrow ? 110 : 760) * (2 * part - 1);
    const int min = narrow ? -149 : -1074, binades = (narrow ? 127 : 1023) - min + 1;
    const double size = ldexp(1 + part, min + (int)(bits / 2 % (uint64_t)binades));
    return bits % 2 == 0 ? size : -size;
}

static void fill(const check_problem *problem, talc_check_kind kind, uint64_t seed,
                 const check_values *values)
{
    const unary_problem *self = read_only(problem);
    const talc_dtype dtype = self->x.dtype;
    double *x = values->of[S];
    if (!talc_dtype_is_float(dtype)) {
        talc_check_fill_integers(x, self->x.count, dtype, kind, seed);
        return;
    }
    if (kind == TALC_CHECK_RANDOM || kind == TALC_CHECK_WIDE)
        for (int64_t i = 0; i < self->x.count; i++)
            x[i] = talc_check_rounded(dtype, drawn(dtype, kind, seed, i));
    else
        talc_check_fill(x, self->x.count, dtype, kind, 8, 8, seed);
    if (!self->dx)
        return;
    talc_check_fill(values->of[DY], self->x.count, dtype, TALC_CHECK_RANDOM, 2, 2, seed + 1);
    for (int64_t i = 0; i < self->x.count && saves_y(self->function); i++) {
        const talc_unary_function function = (talc_unary_function)self->function;
        const bool defined = x[i] >= 0 || (function != TALC_SQRT && function != TALC_RSQRT);
        x[i] =
            talc_check_rounded(dtype, (double)talc_check_unary_value(function, numbers[function],
                                                                     defined ? x[i] : fabs(x[i])));
    }
}

// ---- Oracle -------------------------------------------------------------------------------------

static long double sigmoid(long double x)
{
    return 1 / (1 + expl(-x));
}

/* Of the approximation of gelu by tanh, which is x sigmoid(2 a): a and its slope. */
static long double gelu_argument(long double x)
{
    return sqrtl(2 / acosl(-1)) * (x + 0.044715L * x * x * x);
}

static long double gelu_slope(long double x)
{
    return sqrtl(2 / acosl(-1)) * (1 + 3 * 0.044715L * x * x);
}

static long double within_unit(long double t)
{
    return t < 0 ? 0 : t > 1 ? 1 : t;
}

static const long double selu_scale = 1.05070098735548049341933498529L,
                         selu_alpha = 1.67326324235437728481704299167L;

long double talc_check_unary_value(talc_unary_function function, const double of[2], long double x)
{
    const double p = of[0], q = of[1];
    switch (function) {
    case TALC_LEAKY_RELU:
        return x > 0 ? x : p * x;
    case TALC_ELU:
        return x > 0 ? x : p * expm1l(x);
    case TALC_HARDTANH:
        return x < p ? p : x > q ? q : x;
    case TALC_GELU_TANH:
        return x * sigmoid(2 * gelu_argument(x));
    case TALC_MISH:
        return x * tanhl(log1pl(expl(x)));
    case TALC_SOFTPLUS:
        return p * x > q ? x : (fmaxl(p * x, 0) + log1pl(expl(-fabsl(p * x)))) / p;
    case TALC_SELU:
        return selu_scale * (x > 0 ? x : selu_alpha * expm1l(x));
    case TALC_SOFTSIGN:
        return x / (1 + fabsl(x));
    case TALC_HARDSIGMOID_RAMP:
        return within_unit(p * x + q);
    case TALC_HARDSWISH_RAMP:
        return x * within_unit(p * x + q);
    case TALC_NEG:
        return -x;
    case TALC_EXP:
        return expl(x);
    case TALC_LOG:
        return logl(x);
    case TALC_SQRT:
        return sqrtl(x);
    case TALC_RSQRT:
        return 1 / sqrtl(x);
    case TALC_ABS:
        return fabsl(x);
    case TALC_FLOOR:
        return floorl(x);
    case TALC_SIGN:
        return x > 0 ? 1 : x < 0 ? -1 : x;
    case TALC_CEIL:
        return ceill(x);
    case TALC_ROUND: /* of two that are as near the even one */
        return x - floorl(x) == 0.5L ? 2 * roundl(x / 2) : roundl(x);
    case TALC_RECIPROCAL:
        return 1 / x;
    case TALC_ERF:
        return erfl(x);
    default: /* those that are activations too */
        return talc_check_activated((talc_activation)(function + 1), x);
    }
}

/* Whether roundings may have put beta x on the other side of softplus's threshold. */
static bool on_threshold(check_format format, const double of[2], long double x)
{
    return fabsl(of[0] * x - of[1]) <= 2 * format.unit * fabsl(of[0] * x);
}

/* How far roundings may put slope x + offset off: 0 where that leaves the result 0 or 1. */
static double ramp_off(check_format format, const double of[2], double x, bool *bends)
{
    const double size = fabs(of[0] * x) + fabs(of[1]), off = 2 * format.unit * size;
    const double t = of[0] * x + of[1];
    *bends = fabs(t) <= off || fabs(t - 1) <= off;
    return t < -off || t > 1 + off || isnan(t) ? 0 : off;
}

/* How many units of the last place f(x) may be off, and by how much more what underflows and what
 * jumps. */
static double units_off(const unary_problem *self, check_format format, double x, double *more)
{
    const double *of = numbers[self->function], size = fmin(fabs(x), 1e4);
    bool bends;
    *more = 0;
    switch (self->function) {
    case TALC_EXP:
    case TALC_LOG:
    case TALC_RSQRT:
        return 2;
    case TALC_SQRT:
    case TALC_LEAKY_RELU:
    case TALC_RECIPROCAL:
        return CHECK_ONE_ROUNDING;
    case TALC_HARDSIGMOID_RAMP:
        *more = ramp_off(format, of, x, &bends);
        return 0;
    case TALC_HARDSWISH_RAMP:
        *more = ramp_off(format, of, x, &bends);
        *more = *more > 0 ? *more * fabs(x) : 0;
        return CHECK_ONE_ROUNDING;
    case TALC_SOFTSIGN:
        return 2;
    case TALC_SELU:
        return 6;
    case TALC_SIGMOID:
        *more = format.normal; /* 0 where the exponential overflows */
        return 4;
    case TALC_TANH:
    case TALC_HARDSIGMOID:
    case TALC_ELU:
    case TALC_ERF:
        return 4;
    case TALC_HARDSWISH:
    case TALC_SILU:
    case TALC_MISH:
        return 8;
    case TALC_GELU:
        *more = 8 * size * format.smallest;
        return 8 + 2 * size * size;
    case TALC_GELU_TANH:
        *more = 8 * size * format.smallest;
        return 6 + 6 * (size + 0.05 * size * size * size);
    case TALC_SOFTPLUS:
        *more = 4 * format.smallest / of[0];
        if (on_threshold(format, of, x))
            *more += log1p(exp(-of[1])) / of[0];
        return 4 + of[0] * size;
    default:
        return 0;
    }
}

/* The slope at s, what its terms add up to without their signs, how many units of roundoff of that
 * it may be off, and how much more. 0 units: it is 0 or 1, or -1. */
typedef struct slope {
    long double of, size;
    double units, more;
} slope;

static slope chosen(bool holds)
{
    return (slope){ .of = holds ? 1 : 0 };
}

static slope of_terms(long double a, long double b, double units, double more)
{
    return (slope){ a + b, fabsl(a) + fabsl(b), units, more };
}

static slope mish_slope(long double s, double lost)
{
    const long double e = expl(-fabsl(s)), divisor = s < 0 ? e * (e + 2) + 2 : 1 + 2 * e * (1 + e);
    const long double value = s < 0 ? e * (e + 2) : 1 + 2 * e, rise = 4 * (1 + e) / divisor;
    return of_terms(value / divisor, (s < 0 ? e : e * e) * s * rise / divisor, 24, lost);
}

/* Near a bend the slope is that of either side. */
static slope hardswish_slope(check_format format, const double of[2], double s)
{
    const double slant = of[0] * s;
    bool bends;
    const double off = ramp_off(format, of, s, &bends), t = of[0] * s + of[1];
    if (t <= 0)
        return of_terms(0, 0, 0, bends ? off + fabs(slant) : 0);
    if (!(t < 1))
        return of_terms(1, 0, 0, bends ? off + fabs(slant) : 0);
    return of_terms(t, slant, 4, off + (bends ? fabs(slant) : 0));
}

static slope slope_of(int function, check_format format, double s)
{
    const double p = numbers[function][0], q = numbers[function][1];
    const double size = fmin(fabs(s), 1e4), lost = 8 * (1 + size) * format.smallest;
    long double a;
    switch (function) {
    case TALC_RELU:
        return chosen(!(s <= 0));
    case TALC_RELU6:
        return chosen(!(s <= 0 || s >= 6));
    case TALC_HARDTANH:
        return chosen(!(s <= p || s >= q));
    case TALC_HARDSIGMOID_RAMP:
        return s > 0 && s < 1 ? of_terms(p, 0, 2, 0) : chosen(false);
    case TALC_HARDSWISH_RAMP:
        return hardswish_slope(format, numbers[function], s);
    case TALC_SELU:
        return s <= 0 ? of_terms(selu_scale * selu_alpha * expl(s), 0, 10, 2 * format.smallest)
                      : of_terms(selu_scale, 0, 4, 0);
    case TALC_SOFTSIGN:
        a = 1 + fabsl((long double)s);
        return of_terms(1 / a / a, 0, 8, 0);
    case TALC_RECIPROCAL:
        return of_terms(-(long double)s * s, 0, 4, 0);
    case TALC_ERF:
        return of_terms(2 / sqrtl(acosl(-1)) * expl(-(long double)s * s), 0, 8 + 4 * size * size,
                        4 * format.smallest);
    case TALC_SIGMOID:
        return of_terms(s * (1 - (long double)s), 0, 4, 2 * format.smallest);
    case TALC_TANH:
        return of_terms(1, -(long double)s * s, 4, 0);
    case TALC_HARDSIGMOID:
        return s > 0 && s < 1 ? of_terms(1 / 6.0L, 0, 2, 0) : chosen(false);
    case TALC_HARDSWISH:
        return s > -3 && s < 3 ? of_terms(s / 3.0L, 0.5, 4, 0) : chosen(!(s <= -3));
    case TALC_SILU:
        return of_terms(sigmoid(s), sigmoid(s) * s * sigmoid(-(long double)s), 16, lost);
    case TALC_GELU:
        return of_terms(erfcl(-s / sqrtl(2)) / 2,
                        s * expl(-(long double)s * s / 2) / sqrtl(2 * acosl(-1)),
                        16 + 4 * size * size, lost);
    case TALC_GELU_TANH:
        a = gelu_argument(s);
        return of_terms(sigmoid(2 * a), 2 * gelu_slope(s) * s * sigmoid(2 * a) * sigmoid(-2 * a),
                        16 + 16 * (double)fminl(fabsl(a), 1e4),
                        fabsl(a) < 800 ? lost * (double)gelu_slope(s) : 0);
    case TALC_MISH:
        return mish_slope(s, lost);
    case TALC_LEAKY_RELU:
        return s > 0 ? chosen(true) : of_terms(p, 0, 2, 0);
    case TALC_ELU:
        return s <= 0 ? of_terms(p * expl(s), 0, 8, 2 * format.smallest) : chosen(true);
    case TALC_SOFTPLUS:
        a = sigmoid(p * (long double)s);
        return p * s > q
                   ? of_terms(1, 0, 0, on_threshold(format, numbers[function], s) ? exp(-q) : 0)
                   : of_terms(a, 0, 8 + 2 * p * size,
                              2 * format.normal +
                                  (on_threshold(format, numbers[function], s) ? exp(-q) : 0));
    case TALC_EXP:
        return of_terms(s, 0, 2, 0);
    case TALC_LOG:
        return of_terms(1 / (long double)s, 0, 2, 0);
    case TALC_SQRT:
        return of_terms(1 / (2 * (long double)s), 0, 2, 0);
    case TALC_RSQRT:
        return of_terms(-0.5L * s * s * s, 0, 8, 0);
    case TALC_NEG:
        return (slope){ .of = -1 };
    case TALC_ABS:
        return s < 0 ? (slope){ .of = -1 } : chosen(s != 0);
    default:
        return chosen(false);
    }
}

/* What passes the type's largest number is infinite, but for roundings. */
static void overflow(check_expected *expected, talc_dtype dtype)
{
    const long double max = talc_check_is_narrow(dtype) ? FLT_MAX : DBL_MAX;
    const long double value = fabsl(expected->value);
    expected->any =
        isfinite(value) && fabsl(value - max) <= expected->extra + max * 2 * DBL_EPSILON;
    if (value > max)
        expected->value = expected->value > 0 ? INFINITY : -INFINITY;
    if (!isfinite(expected->value))
        expected->extra = 0;
}

check_expected talc_check_in_units(talc_dtype dtype, long double value, double units, double more)
{
    const check_format format = talc_check_format(dtype);
    int exponent = 0;
    (void)frexpl(value, &exponent);
    const double last = value == 0 ? 0 : ldexp(format.unit, exponent);
    check_expected expected = { .value = value,
                                .extra = units * fmax(last, format.smallest) + more };
    if (isfinite(value))
        overflow(&expected, dtype);
    else
        expected.extra = 0;
    return expected;
}

static check_expected expected_of(const check_problem *problem, const check_values *values,
                                  int operand, int64_t index)
{
    (void)operand;
    const unary_problem *self = read_only(problem);
    const check_format format = talc_check_format(self->x.dtype);
    const double s = values->of[S][talc_check_layout_offset(&self->x, index)];
    check_expected expected = { 0 };
    if (!talc_dtype_is_float(self->x.dtype)) /* it wraps around */
        return talc_check_binary_expected(TALC_SUB, self->x.dtype, 0, s);
    if (self->dx) {
        const double dy = values->of[DY][index];
        const slope of = slope_of(self->function, format, s);
        expected.value = of.of == 0 && of.units == 0 ? 0 : dy * of.of;
        expected.extra = fabs(dy) * (of.units * format.unit * (double)of.size + of.more) +
                         (of.units > 0 ? 2 * format.smallest : 0);
    } else {
        double more;
        const double units = units_off(self, format, s, &more);
        const long double value =
            talc_check_unary_value((talc_unary_function)self->function, numbers[self->function], s);
        return talc_check_in_units(self->x.dtype, value, units, more);
    }
    if (isfinite(expected.value))
        overflow(&expected, self->x.dtype);
    else
        expected.extra = 0;
    return expected;
}

// ---- Problems of sets ---------------------------------------------------------------------------

// clang-format off
static const char *const quick[] = {
#define QUICK(constant, name, ...) #name ":9x300{_f64|_dx}",
    TALC_UNARY_TABLE(QUICK)
#undef QUICK
    "neg:300_{i32|u8}",
    NULL,
};

static const char *const edges[] = {
#define EDGES(constant, name, ...) #name ":{|1|20001|33x129_reversed|5x3x7x11_f64}{|_dx}",
    TALC_UNARY_TABLE(EDGES)
#undef EDGES
    "{sigmoid|silu|mish|gelu|softplus}:40001_f64{|_dx}",
    "neg:{1|4099|33x129_reversed}_{i64|i32|u8}",
    NULL,
};
// clang-format on

// ---- The directions -----------------------------------------------------------------------------

static const check_family family = {
    .texts = "silu:8x16\n"
             "    every other elementwise op of one operand likewise; those that take numbers\n"
             "    have some; only neg takes _i32 _i64 _u8\n",
    .quick = quick,
    .edges = edges,
    .keys = keys,
    .begin = begin,
    .complete = complete,
    .op = op_of,
    .random = random_problem,
};

#define DIRECTION(direction, names, other, of_list, ...)                                           \
    {                                                                                              \
        .family = &family, .of = direction, .ops = names, .gradient = other, .operands = operands, \
        .takes = takes, .fill = fill, .expected = expected_of, .cost = 60,                         \
        .list = TALC_OP_##of_list, .arguments = {                                                  \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }

static const char *const forward_ops[] = {
#define TALC_NAME(constant, name, ...) #name,
    TALC_UNARY_TABLE(TALC_NAME)
#undef TALC_NAME
        NULL
};
static const char *const gradient_ops[] = {
#define TALC_NAME(constant, name, ...) #name ".grad_input",
    TALC_UNARY_TABLE(TALC_NAME)
#undef TALC_NAME
        NULL
};

static const check_direction gradient =
    DIRECTION(TALC_GRAD_INPUT, gradient_ops, NULL, binary, offsetof(talc_binary_arguments, b),
              offsetof(talc_binary_arguments, a), offsetof(talc_binary_arguments, y));
const check_direction talc_check_unary =
    DIRECTION(TALC_FORWARD, forward_ops, &gradient, unary, offsetof(talc_unary_arguments, x), 0,
              offsetof(talc_unary_arguments, y));
