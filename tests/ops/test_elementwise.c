/* The elementwise ops: every op, dtype, broadcast and kind of view, special values, accuracy, and
 * every message. */
#include "check/ops/elementwise.h"
#include "tests/support/hooks.h"
#include "tests/support/operands.h"
#include "tests/support/unary_cases.h"

#include <math.h>
#include <stdio.h>

typedef talc_tensor *binary_function(const talc_tensor *a, const talc_tensor *b);
typedef talc_tensor *scalar_function(const talc_tensor *a, double b);

static const struct {
    char sign;
    binary_function *call;
    scalar_function *call_scalar;
    bool integers;
} binaries[] = {
    { '+', talc_add, talc_add_scalar, true },
    { '-', talc_sub, talc_sub_scalar, true },
    { '*', talc_mul, talc_mul_scalar, true },
    { '/', talc_div, talc_div_scalar, false },
};

enum { BINARIES = sizeof binaries / sizeof *binaries };

// ---- Oracle -------------------------------------------------------------------------------------

static long double softplus(long double x)
{
    return x > 0 ? x + log1pl(expl(-x)) : log1pl(expl(x));
}

/* By the formulas of the cross-check, of the numbers that the cases give. */
static long double unary_expected(int op, long double x)
{
    static const double numbers[TALC_UNARY_COUNT][2] = { [TALC_LEAKY_RELU] = { 0.375 },
                                                         [TALC_ELU] = { 0.375 },
                                                         [TALC_HARDTANH] = { -0.75, 1.25 },
                                                         [TALC_SOFTPLUS] = { -0.75, 1.25 },
                                                         [TALC_HARDSIGMOID_RAMP] = { -0.75, 1.25 },
                                                         [TALC_HARDSWISH_RAMP] = { -0.75, 1.25 } };
    return talc_check_unary_value((talc_unary_function)op, numbers[op], x);
}

/* Units of the last place: of the function, and of the numbers of which it is made. A tail of gelu
 * has the roundings of its exponent. */
static double unary_bound(int op, double x)
{
    switch (op) {
    case TALC_EXP:
    case TALC_LOG:
        return 1;
    case TALC_SQRT:
    case TALC_LEAKY_RELU:
    case TALC_RECIPROCAL:
        return 0.5;
    case TALC_SOFTSIGN:
    case TALC_ERF:
        return 2;
    case TALC_HARDSIGMOID_RAMP: /* of 0.75 |x| + 1.25, where the result is at least 2^-n of it */
    case TALC_HARDSWISH_RAMP:
        return 4 + 2 * (0.75 * fabs(x) + 1.25) / fmax(1.25 - 0.75 * x, 1e-6);
    case TALC_RSQRT:
        return 1.5;
    case TALC_SIGMOID:
    case TALC_TANH:
    case TALC_HARDSIGMOID:
    case TALC_HARDSWISH:
    case TALC_ELU:
    case TALC_SELU:
        return 4;
    case TALC_SILU:
    case TALC_MISH:
        return 6;
    case TALC_SOFTPLUS: /* a tail has the rounding of its exponent */
        return 4 + 0.75 * fabs(x);
    case TALC_GELU:
        return 6 + x * x;
    case TALC_GELU_TANH:
        return 6 + 6 * (fabs(x) + 0.05 * fabs(x * x * x));
    default:
        return 0;
    }
}

/* One operation on doubles and one more rounding to f32 give the f32 result: a double has more than
 * twice its bits. */
static double float_expected(char sign, talc_dtype dtype, double a, double b)
{
    double expected = sign == '+' ? a + b : sign == '-' ? a - b : sign == '*' ? a * b : a / b;
    return dtype == TALC_F32 ? (double)(float)expected : expected;
}

/* Modulo 2^64, then to the dtype. */
static int64_t integer_expected(char sign, talc_dtype dtype, int64_t a, int64_t b)
{
    const uint64_t x = (uint64_t)a, y = (uint64_t)b;
    const uint64_t expected = sign == '+' ? x + y : sign == '-' ? x - y : x * y;
    return dtype == TALC_U8    ? (int64_t)(expected & 255)
           : dtype == TALC_I32 ? (int64_t)(int32_t)(uint32_t)expected
                               : (int64_t)expected;
}

static bool same_number(double a, double b)
{
    return isnan(a) ? isnan(b) : a == b && signbit(a) == signbit(b);
}

// ---- One operand --------------------------------------------------------------------------------

/* Those of f64 are held to differences elsewhere. */
Test(elementwise, gradients_of_f32_are_those_of_f64)
{
    const float far[] = { 2e13F, -2e13F, 1e30F, -1e30F };
    const talc_tensor *parts[] = {
        talc_mul_scalar(random_operand(TALC_F32, TALC_DIMS(4001), 7), 12),
        talc_from_host(cpu_device(), TALC_F32, TALC_DIMS(4), far),
    };
    talc_tensor *x[2] = { talc_concat(parts, 2, 0) };
    x[1] = talc_cast(x[0], TALC_F64);
    for (int op = 0; op < TALC_UNARY_COUNT; op++) {
        talc_tensor *dx[2];
        for (int i = 0; i < 2; i++) {
            talc_tensor *leaf = talc_clone(x[i]);
            talc_require_grad(leaf, true);
            talc_tensor *y = unary_cases[op].call(leaf);
            cr_assert(talc_backward_from(y, talc_ones(y->device, y->dtype, talc_dims_of(y))), "%s",
                      talc_error_message());
            dx[i] = talc_grad(leaf);
        }
        for (int64_t i = 0; i < talc_numel(x[0]); i++) {
            const double expected = element_at(dx[1], i), got = element_at(dx[0], i);
            cr_assert((isnan(expected) && isnan(got)) || got == expected ||
                          fabs(got - expected) <= 4e-6 * (1 + fabs(expected)),
                      "%s: slope at %g is %g, expected %g", unary_cases[op].name,
                      element_at(x[0], i), got, expected);
        }
    }
}

Test(elementwise, neg_of_integers_wraps_around)
{
    const int64_t values[] = { 0, 1, -5, INT64_MAX, INT64_MIN };
    const int64_t expected[] = { 0, -1, 5, -INT64_MAX, INT64_MIN };
    talc_tensor *y = talc_neg(talc_from_host(cpu_device(), TALC_I64, TALC_DIMS(5), values));
    for (int i = 0; i < 5; i++)
        cr_assert(integer_at(y, i) == expected[i], "element %d", i);
    const int32_t narrow[] = { INT32_MIN, 7 };
    y = talc_neg(talc_from_host(cpu_device(), TALC_I32, TALC_DIMS(2), narrow));
    cr_assert(integer_at(y, 0) == INT32_MIN && integer_at(y, 1) == -7);
    const uint8_t bytes[] = { 0, 1, 255, 128 };
    y = talc_neg(talc_from_host(cpu_device(), TALC_U8, TALC_DIMS(4), bytes));
    cr_assert(integer_at(y, 0) == 0 && integer_at(y, 1) == 255 && integer_at(y, 2) == 1 &&
              integer_at(y, 3) == 128);
}

/* From the smallest subnormals through the whole range in which the functions change, both
 * signs. */
static double probe(talc_dtype dtype, int i, int count)
{
    const double low = dtype == TALC_F32 ? -149 : -1074, high = 7; /* powers of two */
    double x = exp2(low + (high - low) * ((i / 2) + 0.37) / (count / 2));
    x = dtype == TALC_F32 ? (double)(float)x : x;
    return i % 2 == 0 ? x : -x;
}

/* Of numbers from -1 to 1 and of that whole range. */
Test(elementwise, unary_ops_are_accurate_over_their_whole_range)
{
    enum { COUNT = 20000 };
    for (int dtype = TALC_F32; dtype <= TALC_F64; dtype++) {
        talc_tensor *whole = talc_empty(cpu_device(), TALC_F64, TALC_DIMS(COUNT));
        for (int i = 0; i < COUNT; i++)
            ((double *)talc_data(whole, TALC_F64))[i] = probe((talc_dtype)dtype, i, COUNT);
        const talc_tensor *parts[] = { talc_cast(whole, (talc_dtype)dtype),
                                       random_operand((talc_dtype)dtype, TALC_DIMS(1000), 1) };
        const talc_tensor *x = talc_concat(parts, 2, 0);
        for (int op = 0; op < TALC_UNARY_COUNT; op++) {
            talc_tensor *y = unary_cases[op].call(x);
            assert_no_failure();
            for (int64_t i = 0; i < talc_numel(x); i++) {
                const long double expected = unary_expected(op, element_at(x, i));
                /* What a subnormal exponential is multiplied by is at most 128; a subnormal result
                 * may be 0. */
                if (fabsl(expected) < (dtype == TALC_F32 ? 0x1p-119L : 0x1p-1015L) &&
                    op != TALC_TANH && op != TALC_SILU && op != TALC_MISH)
                    continue;
                const double got = element_at(y, i),
                             held = dtype == TALC_F32 ? (double)(float)expected : (double)expected;
                const bool same = isinf(held) ? got == held : isnan(held) && isnan(got);
                const double off = same ? 0 : ulps((talc_dtype)dtype, got, expected);
                cr_assert(off <= unary_bound(op, element_at(x, i)),
                          "%s(%.17g) is %.17g, off by %g ulp", unary_cases[op].name,
                          element_at(x, i), got, off);
            }
        }
    }
}

/* Where e^x is subnormal and x e^x is not, or hardly; the oracle is of long double. */
Test(elementwise, tails_of_silu_and_mish_have_all_their_digits)
{
    for (int dtype = TALC_F32; dtype <= TALC_F64; dtype++) {
        const double from = dtype == TALC_F32 ? -86 : -706, to = dtype == TALC_F32 ? -104 : -746;
        enum { COUNT = 20001 };
        talc_tensor *x = talc_add_scalar(
            talc_mul_scalar(talc_arange(cpu_device(), (talc_dtype)dtype, 0, COUNT, 1),
                            (to - from) / COUNT),
            from);
        for (int op = TALC_SILU; op <= TALC_MISH; op += TALC_MISH - TALC_SILU) {
            talc_tensor *y = unary_cases[op].call(x);
            assert_no_failure();
            for (int i = 0; i < COUNT; i++) {
                const long double expected = unary_expected(op, element_at(x, i));
                const double off = ulps((talc_dtype)dtype, element_at(y, i), expected);
                cr_assert(off <= unary_bound(op, element_at(x, i)), "%s(%.17g) is off by %g ulp",
                          unary_cases[op].name, element_at(x, i), off);
            }
        }
    }
}

/* PyTorch's default threshold hides the last places of f64; an infinite one leaves the formula
 * alone. */
Test(elementwise, softplus_is_x_above_its_threshold_alone)
{
    const double x[] = { -800, -700, -30, -1e-9, 0, 1, 9.99, 10, 10.01, 19.99, 20, 20.01, 800 };
    enum { COUNT = sizeof x / sizeof *x };
    const struct {
        double beta, threshold;
    } options[] = { { 1, 20 }, { 2, 20 }, { 1, (double)INFINITY }, { 0.5, 5 }, { 1, -1 } };
    talc_tensor *wide = talc_from_host(cpu_device(), TALC_F64, TALC_DIMS(COUNT), x);
    for (int o = 0; o < 5; o++) {
        const double beta = options[o].beta, threshold = options[o].threshold;
        talc_tensor *y = talc_softplus(wide, beta, threshold);
        assert_no_failure();
        for (int i = 0; i < COUNT; i++) {
            const bool above = beta * x[i] > threshold;
            const long double expected = above ? x[i] : softplus(beta * x[i]) / beta;
            const double off = ulps(TALC_F64, element_at(y, i), expected);
            cr_assert(above ? element_at(y, i) == x[i] : off <= 4 || fabsl(expected) < 0x1p-1015L,
                      "softplus(%g) by %g, %g is %.17g", x[i], beta, threshold, element_at(y, i));
        }
    }
}

Test(elementwise, unary_ops_of_special_values)
{
    const double inf = (double)INFINITY, nan = (double)NAN;
    const double x[] = { 0.0, -0.0, inf, -inf, nan, 0x1p-148, -1000 };
    const double expected[TALC_UNARY_COUNT][7] = {
        [TALC_NEG] = { -0.0, 0.0, -inf, inf, nan, -0x1p-148, 1000 },
        [TALC_RELU] = { 0.0, -0.0, inf, 0.0, nan, 0x1p-148, 0.0 },
        [TALC_SIGMOID] = { 0.5, 0.5, 1, 0, nan, 0.5, 0 },
        [TALC_TANH] = { 0.0, -0.0, 1, -1, nan, 0x1p-148, -1 },
        [TALC_RELU6] = { 0.0, -0.0, 6, 0.0, nan, 0x1p-148, 0.0 },
        [TALC_LEAKY_RELU] = { 0.0, -0.0, inf, -inf, nan, 0x1p-148, -375 },
        [TALC_ELU] = { 0.0, -0.0, inf, -0.375, nan, 0x1p-148, -0.375 },
        [TALC_HARDTANH] = { 0.0, -0.0, 1.25, -0.75, nan, 0x1p-148, -0.75 },
        [TALC_HARDSIGMOID] = { 0.5, 0.5, 1, 0.0, nan, 0.5, 0.0 },
        [TALC_HARDSWISH] = { 0.0, -0.0, inf, nan, nan, 0x1p-149, -0.0 },
        [TALC_SILU] = { 0.0, -0.0, inf, nan, nan, 0x1p-149, -0.0 },
        [TALC_GELU] = { 0.0, -0.0, inf, nan, nan, 0x1p-149, -0.0 },
        [TALC_GELU_TANH] = { 0.0, -0.0, inf, nan, nan, 0x1p-149, -0.0 },
        [TALC_MISH] = { 0.0, -0.0, inf, nan, nan, 0.6 * 0x1p-148, -0.0 },
        [TALC_EXP] = { 1, 1, inf, 0.0, nan, 1, 0.0 },
        [TALC_LOG] = { -inf, -inf, inf, nan, nan, log(0x1p-148), nan },
        [TALC_SQRT] = { 0.0, -0.0, inf, nan, nan, 0x1p-74, nan },
        [TALC_RSQRT] = { inf, -inf, 0.0, nan, nan, 0x1p74, nan },
        [TALC_ABS] = { 0.0, 0.0, inf, inf, nan, 0x1p-148, 1000 },
        [TALC_FLOOR] = { 0.0, -0.0, inf, -inf, nan, 0.0, -1000 },
        [TALC_SIGN] = { 0.0, 0.0, 1, -1, nan, 1, -1 },
        [TALC_SELU] = { 0.0, -0.0, inf, -1.7580993408473768, nan, 1.0507009873554805 * 0x1p-148,
                        -1.7580993408473768 },
        [TALC_SOFTSIGN] = { 0.0, -0.0, nan, nan, nan, 0x1p-148, -1000.0 / 1001 },
        [TALC_HARDSIGMOID_RAMP] = { 1, 1, 0.0, 1, nan, 1, 1 },
        [TALC_HARDSWISH_RAMP] = { 0.0, -0.0, nan, -inf, nan, 0x1p-148, -1000 },
        [TALC_CEIL] = { 0.0, -0.0, inf, -inf, nan, 1, -1000 },
        [TALC_ROUND] = { 0.0, -0.0, inf, -inf, nan, 0.0, -1000 },
        [TALC_RECIPROCAL] = { inf, -inf, 0.0, -0.0, nan, 0x1p148, -0.001 },
        [TALC_ERF] = { 0.0, -0.0, 1, -1, nan, 1.1283791670955126 * 0x1p-148, -1 },
        [TALC_SOFTPLUS] = { log(2) / -0.75, log(2) / -0.75, -0.0, -inf, nan, log(2) / -0.75,
                            -1000 },
    };
    talc_tensor *wide = talc_from_host(cpu_device(), TALC_F64, TALC_DIMS(7), x);
    for (int op = 0; op < TALC_UNARY_COUNT; op++)
        for (int dtype = TALC_F32; dtype <= TALC_F64; dtype++) {
            talc_tensor *y = unary_cases[op].call(talc_cast(wide, (talc_dtype)dtype));
            assert_no_failure();
            for (int i = 0; i < 7; i++)
                cr_assert(same_number(element_at(y, i), dtype == TALC_F32
                                                            ? (double)(float)expected[op][i]
                                                            : expected[op][i]),
                          "%s(%g) is %g", unary_cases[op].name, x[i], element_at(y, i));
        }
}

/* By hand: halves go to the even neighbour, also the largest one that is no integer, and what is
 * below a half by one unit does not reach 1. */
Test(elementwise, round_takes_halves_to_the_even_neighbour)
{
    const double x[] = { -2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.5, 0.49999997, 8388607.5, 8388606.5 };
    const double expected[] = { -2, -2, -0.0, 0, 2, 2, 4, 0, 8388608, 8388606 };
    enum { COUNT = sizeof x / sizeof *x };
    for (int dtype = TALC_F32; dtype <= TALC_F64; dtype++) {
        const talc_tensor *wide = talc_from_host(cpu_device(), TALC_F64, TALC_DIMS(COUNT), x);
        const talc_tensor *y = talc_round(talc_cast(wide, (talc_dtype)dtype));
        for (int i = 0; i < COUNT; i++)
            cr_assert(same_number(element_at(y, i), expected[i]), "round(%.9g) is %g", x[i],
                      element_at(y, i));
    }
}

/* PyTorch's numbers, torch.erf, F.selu, F.softsign and F.hardswish of f64. */
Test(elementwise, values_of_pytorch)
{
    const double x[] = { -2.5, -0.75, 0.25, 3 };
    const talc_tensor *wide = talc_from_host(cpu_device(), TALC_F64, TALC_DIMS(4), x);
    const struct {
        const char *name;
        talc_tensor *y;
        double expected[4];
        // clang-format off
    } cases[] = {
        { "erf", talc_erf(wide), { -0.999593047982555, -0.7111556336535151, 0.27632639016823696, 0.9999779095030014 } },
        { "selu", talc_selu(wide), { -1.6137857588732425, -0.9276320158350512, 0.2626752468388701, 3.1521029620664414 } },
        { "softsign", talc_softsign(wide), { -0.7142857142857143, -0.42857142857142855, 0.2, 0.75 } },
        { "hardsigmoid", talc_hardsigmoid_ramp(wide, 1.0 / 6, 0.5), { 0.08333333333333333, 0.375, 0.5416666666666666, 1 } },
        { "hardswish", talc_hardswish_ramp(wide, 1.0 / 6, 0.5), { -0.20833333333333334, -0.28125, 0.13541666666666666, 3 } },
    };
    // clang-format on
    assert_no_failure();
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        for (int i = 0; i < 4; i++)
            cr_assert(fabs(element_at(cases[k].y, i) - cases[k].expected[i]) < 1e-15,
                      "%s(%g) is %.17g", cases[k].name, x[i], element_at(cases[k].y, i));
}

// ---- Two operands -------------------------------------------------------------------------------

/* By hand: the second dimension has the channels, and a weight of one element serves them all. */
Test(elementwise, prelu_has_a_weight_for_each_channel)
{
    const float x[] = { -1, 2, -3, 4, -5, -0.0F, (float)-INFINITY, -8 }, weight[] = { 0.5F, -2 };
    const double by_channel[] = { -0.5, 2, 6, 4, -2.5, -0.0, (double)INFINITY, 16 };
    const double by_one[] = { -0.5, 2, -1.5, 4, -2.5, -0.0, -(double)INFINITY, -4 };
    const talc_tensor *wide = talc_from_host(cpu_device(), TALC_F32, TALC_DIMS(2, 2, 2), x);
    const talc_tensor *two = talc_from_host(cpu_device(), TALC_F32, TALC_DIMS(2), weight);
    const talc_tensor *ys[] = { talc_prelu(wide, two),
                                talc_prelu(wide, talc_slice(two, 0, 0, 1, 1)),
                                talc_prelu(wide, talc_select(two, 0, 0)) };
    for (int i = 0; i < 8; i++)
        for (int k = 0; k < 3; k++)
            cr_assert(same_number(element_at(ys[k], i), k == 0 ? by_channel[i] : by_one[i]),
                      "element %d of case %d is %g", i, k, element_at(ys[k], i));
}

/* Element number of a broadcast operand for element `i` of y. */
static int64_t broadcast_element(const talc_tensor *operand, const talc_tensor *y, int64_t i)
{
    int64_t number = 0, scale = 1;
    for (int d = 1; d <= operand->rank; d++) {
        const int64_t extent = operand->dims[operand->rank - d];
        number += (extent == 1 ? 0 : i % y->dims[y->rank - d]) * scale;
        scale *= extent;
        i /= y->dims[y->rank - d];
    }
    return number;
}

static void check_binary(int op, const talc_tensor *a, const talc_tensor *b, const char *name)
{
    talc_tensor *y = binaries[op].call(a, b);
    cr_assert(!talc_failed(), "%s: %s", name, talc_error_message());
    cr_assert(y->dtype == a->dtype && talc_is_contiguous(y), "%s", name);
    for (int64_t i = 0; i < talc_numel(y); i++) {
        const int64_t in_a = broadcast_element(a, y, i), in_b = broadcast_element(b, y, i);
        if (talc_dtype_is_float(a->dtype))
            cr_assert(same_number(element_at(y, i),
                                  float_expected(binaries[op].sign, a->dtype, element_at(a, in_a),
                                                 element_at(b, in_b))),
                      "%s: element %d is %.17g", name, (int)i, element_at(y, i));
        else
            cr_assert(integer_at(y, i) == integer_expected(binaries[op].sign, a->dtype,
                                                           integer_at(a, in_a),
                                                           integer_at(b, in_b)),
                      "%s: element %d is %d", name, (int)i, (int)integer_at(y, i));
    }
}

static const struct {
    talc_dims a, b, y;
} broadcasts[] = {
    { { 0, { 0 } }, { 0, { 0 } }, { 0, { 0 } } },
    { { 1, { 17 } }, { 1, { 17 } }, { 1, { 17 } } },
    { { 1, { 17 } }, { 0, { 0 } }, { 1, { 17 } } },
    { { 0, { 0 } }, { 2, { 3, 5 } }, { 2, { 3, 5 } } },
    { { 2, { 3, 5 } }, { 1, { 5 } }, { 2, { 3, 5 } } },
    { { 2, { 3, 1 } }, { 1, { 5 } }, { 2, { 3, 5 } } },
    { { 1, { 5 } }, { 3, { 2, 3, 1 } }, { 3, { 2, 3, 5 } } },
    { { 4, { 2, 3, 4, 5 } }, { 4, { 1, 3, 1, 1 } }, { 4, { 2, 3, 4, 5 } } },
    { { 4, { 2, 1, 4, 1 } }, { 4, { 1, 3, 1, 5 } }, { 4, { 2, 3, 4, 5 } } },
    { { 8, { 2, 1, 2, 1, 2, 1, 2, 1 } },
      { 8, { 1, 2, 1, 2, 1, 2, 1, 2 } },
      { 8, { 2, 2, 2, 2, 2, 2, 2, 2 } } },
    { { 2, { 1, 4 } }, { 2, { 0, 4 } }, { 2, { 0, 4 } } },
    { { 3, { 2, 0, 3 } }, { 1, { 1 } }, { 3, { 2, 0, 3 } } },
};

Test(elementwise, binary_ops_agree_with_the_oracle_for_every_broadcast_view_and_dtype)
{
    for (size_t s = 0; s < sizeof broadcasts / sizeof *broadcasts; s++)
        for (int views = 0; views < VIEW_COUNT * VIEW_COUNT; views++)
            for (int dtype = 0; dtype < TALC_DTYPE_COUNT; dtype++) {
                owned_scope *scope = talc_scope_enter();
                talc_tensor *a =
                    random_view(views % VIEW_COUNT, (talc_dtype)dtype, broadcasts[s].a, s);
                talc_tensor *b =
                    random_view(views / VIEW_COUNT, (talc_dtype)dtype, broadcasts[s].b, s + 40);
                uint64_t before = fingerprint(a) + fingerprint(b);
                for (int op = 0; op < BINARIES; op++) {
                    if (!talc_dtype_is_float((talc_dtype)dtype) && !binaries[op].integers)
                        continue;
                    char name[64];
                    snprintf(name, sizeof name, "broadcast %d views %d dtype %d op %c", (int)s,
                             views, dtype, binaries[op].sign);
                    talc_dims dims = talc_dims_of(binaries[op].call(a, b));
                    bool same = dims.rank == broadcasts[s].y.rank;
                    for (int i = 0; i < dims.rank && same; i++)
                        same = dims.dim[i] == broadcasts[s].y.dim[i];
                    cr_assert(same, "%s: shape", name);
                    check_binary(op, a, b, name);
                }
                cr_assert(fingerprint(a) + fingerprint(b) == before, "an operand changed");
            }
}

Test(elementwise, binary_ops_of_special_values)
{
    const double values[] = { 0.0, -0.0, 1, -3, (double)INFINITY, (double)-INFINITY, (double)NAN };
    talc_tensor *row = talc_from_host(cpu_device(), TALC_F64, TALC_DIMS(7), values);
    talc_tensor *column = talc_view(row, TALC_DIMS(7, 1));
    for (int op = 0; op < BINARIES; op++) {
        check_binary(op, row, column, "special f64");
        check_binary(op, talc_cast(row, TALC_F32), talc_cast(column, TALC_F32), "special f32");
    }
}

Test(elementwise, an_operand_may_be_both_operands)
{
    talc_tensor *x = random_operand(TALC_F32, TALC_DIMS(3, 4), 1);
    check_binary(1, x, x, "x - x");
    check_binary(2, x, talc_slice(x, 0, 1, 2, 1), "x * its second row");
}

// ---- A number as the second operand -------------------------------------------------------------

Test(elementwise, scalars_are_rounded_to_the_type)
{
    const double numbers[] = { 0.1, -2.75, 1e300, 0.0, (double)NAN };
    for (int dtype = TALC_F32; dtype <= TALC_F64; dtype++)
        for (int view = 0; view < VIEW_COUNT; view++) {
            talc_tensor *a = random_view(view, (talc_dtype)dtype, TALC_DIMS(4, 9), 2);
            for (int op = 0; op < BINARIES; op++)
                for (int i = 0; i < 5; i++) {
                    talc_tensor *y = binaries[op].call_scalar(a, numbers[i]);
                    assert_no_failure();
                    const double b = dtype == TALC_F32 ? (double)(float)numbers[i] : numbers[i];
                    for (int64_t e = 0; e < talc_numel(a); e++)
                        cr_assert(same_number(element_at(y, e),
                                              float_expected(binaries[op].sign, a->dtype,
                                                             element_at(a, e), b)),
                                  "%c %g: element %d is %.17g", binaries[op].sign, numbers[i],
                                  (int)e, element_at(y, e));
                }
        }
}

Test(elementwise, scalars_for_integers_are_integers_of_the_type)
{
    const struct {
        talc_dtype dtype;
        double number;
        int64_t expected; /* what 1 + number gives */
    } held[] = {
        { TALC_I64, 2, 3 },
        { TALC_I64, -0x1p63, INT64_MIN + 1 },
        { TALC_I64, 0x1p63 - 1024, INT64_MAX - 1022 },
        { TALC_I32, INT32_MAX, INT32_MIN },
        { TALC_I32, -0.0, 1 },
        { TALC_U8, 255, 0 },
    };
    for (size_t i = 0; i < sizeof held / sizeof *held; i++) {
        talc_tensor *y =
            talc_add_scalar(talc_ones(cpu_device(), held[i].dtype, TALC_DIMS(3)), held[i].number);
        assert_no_failure();
        cr_assert(y->dtype == held[i].dtype && integer_at(y, 2) == held[i].expected,
                  "case %d gives %lld", (int)i, (long long)integer_at(y, 2));
    }
    const struct {
        talc_dtype dtype;
        double number;
        const char *expected;
    } refused[] = {
        { TALC_I64, 2.9, "2.9 is no number that i64 holds" },
        { TALC_I64, 0x1p63, "9.22337203685478e+18 is no number that i64 holds" },
        { TALC_I32, 0x1p31, "2147483648 is no number that i32 holds" },
        { TALC_U8, 256, "256 is no number that u8 holds" },
        { TALC_U8, -1, "-1 is no number that u8 holds" },
        { TALC_U8, 1 / 255.0, "0.00392156862745098 is no number that u8 holds" },
        { TALC_I64, (double)INFINITY, "inf is no number that i64 holds" },
    };
    static const char *const ops[] = { "add", "sub", "mul" };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        talc_tensor *x = talc_ones(cpu_device(), refused[i].dtype, TALC_DIMS(3));
        for (int op = 0; op < 3; op++) {
            cr_assert_null(binaries[op].call_scalar(x, refused[i].number));
            assert_failure_with(TALC_BAD_ARGUMENT, "%s: b %s", ops[op], refused[i].expected);
        }
        cr_assert_null(talc_full(cpu_device(), refused[i].dtype, TALC_DIMS(3), refused[i].number));
        assert_failure_with(TALC_BAD_ARGUMENT, "full: value %s", refused[i].expected);
        cr_assert(!talc_fill(x, refused[i].number));
        assert_failure_with(TALC_BAD_ARGUMENT, "fill: value %s", refused[i].expected);
        cr_assert(integer_at(x, 1) == 1, "x was written");
        cr_assert_null(
            talc_masked_fill(x, talc_ones(cpu_device(), TALC_U8, TALC_SCALAR), refused[i].number));
        assert_failure_with(TALC_BAD_ARGUMENT, "masked_fill: value %s", refused[i].expected);
        cr_assert_null(
            talc_pad(x, &(talc_pad_options){ .padding = { 1, 1 }, .value = refused[i].number }));
        assert_failure_with(TALC_BAD_ARGUMENT, "pad: value %s", refused[i].expected);
    }
}

// ---- Sizes and threads --------------------------------------------------------------------------

/* From 8 MiB on results go past the caches, in pieces that end on cache lines; one row is not
 * written so. */
Test(elementwise, large_results_have_the_bits_of_their_rows)
{
    const talc_tensor *b = random_view(VIEW_PACKED, TALC_F32, TALC_DIMS(4, 700003), 2);
    for (int view = VIEW_PACKED; view < VIEW_COUNT; view++) {
        const talc_tensor *x = random_view(view, TALC_F32, TALC_DIMS(4, 700003), 1);
        const talc_tensor *tanh = talc_tanh(x), *sum = talc_add(x, b);
        for (int row = 0; row < 4; row++) {
            const talc_tensor *x_row = talc_slice(x, 0, row, row + 1, 1),
                              *b_row = talc_slice(b, 0, row, row + 1, 1);
            cr_assert(same_bits(talc_slice(tanh, 0, row, row + 1, 1), talc_tanh(x_row)));
            cr_assert(same_bits(talc_slice(sum, 0, row, row + 1, 1), talc_add(x_row, b_row)));
        }
        assert_no_failure();
    }
}

/* Vector code handles the last elements apart from the others. */
Test(elementwise, a_value_gives_the_same_bits_wherever_it_stands)
{
    enum { COUNT = 67 };
    for (int dtype = TALC_F32; dtype <= TALC_F64; dtype++) {
        const talc_tensor *x =
            talc_mul_scalar(random_view(VIEW_PACKED, (talc_dtype)dtype, TALC_DIMS(COUNT), 3), 4);
        const talc_tensor *dy = random_view(VIEW_PACKED, (talc_dtype)dtype, TALC_DIMS(COUNT), 4);
        for (int op = 0; op < TALC_UNARY_COUNT; op++) {
            talc_tensor *all[2] = { NULL, NULL };
            for (int first = 0; first < COUNT; first++) {
                talc_tensor *part = talc_clone(talc_slice(x, 0, first, COUNT, 1));
                talc_require_grad(part, true);
                talc_tensor *y = unary_cases[op].call(part);
                talc_backward_from(y, talc_clone(talc_slice(dy, 0, first, COUNT, 1)));
                talc_tensor *got[2] = { talc_detach(y), talc_grad(part) };
                assert_no_failure();
                for (int i = 0; i < 2 && got[i] != NULL; i++) {
                    all[i] = first == 0 ? got[i] : all[i];
                    cr_assert(same_bits(talc_clone(talc_slice(all[i], 0, first, COUNT, 1)), got[i]),
                              "%s%s from element %d", unary_cases[op].name,
                              i == 0 ? "" : "'s gradient", first);
                }
            }
        }
    }
}

Test(elementwise, empty_operands_give_empty_results)
{
    for (int dtype = 0; dtype < TALC_DTYPE_COUNT; dtype++) {
        talc_tensor *x = talc_empty(cpu_device(), (talc_dtype)dtype, TALC_DIMS(2, 0));
        cr_assert(talc_same_dims(talc_neg(x), x) && talc_same_dims(talc_mul_scalar(x, 2), x));
        assert_no_failure();
    }
}
