/// Comparisons, maximum and minimum, powers and clamp as a caller has them: special values, numbers
/// that the type does not hold. The values of their algorithms, and of where, are held by
/// test_algorithms.c.
#include "tests/support/hooks.h"
#include "tests/support/operands.h"

#include <math.h>
#include <stdio.h>

typedef talc_tensor *binary_function(const talc_tensor *a, const talc_tensor *b);
typedef talc_tensor *scalar_function(const talc_tensor *a, double b);

/* What each says of an a that is below, at or above b, or that has no order with it. */
static const struct {
    const char *name;
    binary_function *call;
    scalar_function *call_scalar;
    bool below, at, above, unordered;
} comparisons[] = {
    { "equal", talc_equal, talc_equal_scalar, false, true, false, false },
    { "not_equal", talc_not_equal, talc_not_equal_scalar, true, false, true, true },
    { "less", talc_less, talc_less_scalar, true, false, false, false },
    { "less_equal", talc_less_equal, talc_less_equal_scalar, true, true, false, false },
    { "greater", talc_greater, talc_greater_scalar, false, false, true, false },
    { "greater_equal", talc_greater_equal, talc_greater_equal_scalar, false, true, true, false },
};

enum { COMPARISONS = sizeof comparisons / sizeof *comparisons };

// ---- Oracle -------------------------------------------------------------------------------------

/* -1, 0 or 1 as an element is below, at or above another, 2 when they have no order. */
static int order_of(const talc_tensor *a, int64_t i, const talc_tensor *b, int64_t j)
{
    if (talc_dtype_is_float(a->dtype)) {
        const double x = element_at(a, i), y = element_at(b, j);
        return isnan(x) || isnan(y) ? 2 : x < y ? -1 : x > y;
    }
    const int64_t x = integer_at(a, i), y = integer_at(b, j);
    return x < y ? -1 : x > y;
}

static bool holds(int op, int order)
{
    return order == 2   ? comparisons[op].unordered
           : order < 0  ? comparisons[op].below
           : order == 0 ? comparisons[op].at
                        : comparisons[op].above;
}

static bool same_element(const talc_tensor *y, int64_t i, const talc_tensor *x, int64_t j)
{
    if (!talc_dtype_is_float(y->dtype))
        return integer_at(y, i) == integer_at(x, j);
    const double got = element_at(y, i), expected = element_at(x, j);
    return isnan(expected) ? isnan(got) : got == expected;
}

/* Seven elements against the same seven. */
static void check_all(const talc_tensor *row, const char *name)
{
    const talc_tensor *column = talc_view(row, TALC_DIMS(7, 1));
    talc_tensor *larger = talc_maximum(row, column), *smaller = talc_minimum(row, column);
    cr_assert(!talc_failed() && larger->dtype == row->dtype && smaller->dtype == row->dtype,
              "%s: %s", name, talc_error_message());
    for (int op = 0; op < COMPARISONS; op++) {
        talc_tensor *y = comparisons[op].call(row, column);
        cr_assert(!talc_failed() && y->dtype == TALC_U8 && talc_is_contiguous(y), "%s %s: %s",
                  comparisons[op].name, name, talc_error_message());
        for (int64_t i = 0; i < 49; i++) {
            const int64_t a = i % 7, b = i / 7;
            const int order = order_of(row, a, row, b);
            const bool takes_nan = order == 2 && isnan(element_at(row, a));
            cr_assert(integer_at(y, i) == holds(op, order), "%s %s: element %d",
                      comparisons[op].name, name, (int)i);
            cr_assert(same_element(larger, i, row, takes_nan || order == 1 ? a : b),
                      "maximum %s: element %d", name, (int)i);
            cr_assert(same_element(smaller, i, row, takes_nan || order == -1 ? a : b),
                      "minimum %s: element %d", name, (int)i);
        }
    }
}

// ---- Comparisons --------------------------------------------------------------------------------

Test(compare, special_values_and_extremes_have_their_order)
{
    const double values[] = { 0.0, -0.0, 1, -3, (double)INFINITY, (double)-INFINITY, (double)NAN };
    talc_tensor *row = talc_from_host(cpu_device(), TALC_F64, TALC_DIMS(7), values);
    check_all(row, "f64");
    row = talc_cast(row, TALC_F32);
    check_all(row, "f32");
    const int64_t integers[] = { INT64_MIN, INT64_MIN + 1, -1, 0, 1, INT64_MAX - 1, INT64_MAX };
    row = talc_from_host(cpu_device(), TALC_I64, TALC_DIMS(7), integers);
    check_all(row, "i64");
    row = talc_cast(row, TALC_I32);
    check_all(row, "i32");
}

Test(compare, a_number_is_rounded_to_the_type)
{
    const double tenth[] = { 0.1, -1, (double)NAN };
    const talc_tensor *x =
        talc_cast(talc_from_host(cpu_device(), TALC_F64, TALC_DIMS(3), tenth), TALC_F32);
    const talc_tensor *b = talc_full(cpu_device(), TALC_F32, TALC_SCALAR, 0.1);
    for (int op = 0; op < COMPARISONS; op++) {
        const talc_tensor *y = comparisons[op].call_scalar(x, 0.1);
        assert_no_failure();
        for (int i = 0; i < 3; i++)
            cr_assert(integer_at(y, i) == holds(op, order_of(x, i, b, 0)), "%s: element %d",
                      comparisons[op].name, i);
    }
}

/* By the order of real numbers, which long double holds as they are, i64 among them. */
Test(compare, integers_are_compared_with_the_number_itself)
{
    const double inf = (double)INFINITY, nan = (double)NAN;
    const double numbers[] = { 0,          0.5,           -0.5,   -1,      127,  127.5,
                               128,        254.5,         255,    255.5,   256,  300,
                               1e300,      inf,           -inf,   nan,     -7,   0x1p31,
                               0x1p31 - 1, -0x1p31 - 0.5, 0x1p63, -0x1p63, -1e30 };
    const int64_t values[] = { INT64_MIN, INT32_MIN, -1,  0,   1,         127,
                               128,       254,       255, 256, INT32_MAX, INT64_MAX };
    const talc_tensor *wide = talc_from_host(cpu_device(), TALC_I64, TALC_DIMS(12), values);
    const talc_dtype dtypes[] = { TALC_I64, TALC_I32, TALC_U8 };
    for (int d = 0; d < 3; d++)
        for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) {
            const talc_tensor *x = talc_cast(wide, dtypes[d]);
            for (int op = 0; op < COMPARISONS; op++) {
                const talc_tensor *y = comparisons[op].call_scalar(x, numbers[k]);
                assert_no_failure();
                for (int i = 0; i < 12; i++) {
                    const long double a = (long double)integer_at(x, i), b = numbers[k];
                    const int order = isnan(b) ? 2 : (a > b) - (a < b);
                    cr_assert(integer_at(y, i) == holds(op, order), "%s %s: %.0Lf and %g",
                              talc_dtype_name(dtypes[d]), comparisons[op].name, a, numbers[k]);
                }
            }
        }
}

// ---- Powers -------------------------------------------------------------------------------------

Test(compare, pow_of_special_values_is_that_of_the_standard)
{
    const double values[] = { 0.0,        -0.0, 1, -2, 0.5, (double)INFINITY, (double)-INFINITY,
                              (double)NAN };
    const talc_tensor *row = talc_from_host(cpu_device(), TALC_F64, TALC_DIMS(8), values);
    const talc_tensor *y = talc_pow(talc_view(row, TALC_DIMS(8, 1)), row);
    for (int i = 0; i < 64; i++) {
        const double expected = pow(values[i / 8], values[i % 8]), got = element_at(y, i);
        cr_assert(isnan(expected) ? isnan(got) : got == expected, "%g to the power %g is %g",
                  values[i / 8], values[i % 8], got);
    }
}

// ---- Clamp --------------------------------------------------------------------------------------

Test(compare, clamp_keeps_what_is_within_and_nan)
{
    const double inf = (double)INFINITY;
    const double x[] = { -inf, -2, -1, 0.25, 1, 2, inf, (double)NAN };
    const struct {
        double low, high, expected[7];
    } cases[] = {
        { -1, 1, { -1, -1, -1, 0.25, 1, 1, 1 } },
        { -1, inf, { -1, -1, -1, 0.25, 1, 2, inf } },
        { -inf, 0.5, { -inf, -2, -1, 0.25, 0.5, 0.5, 0.5 } },
        { -inf, inf, { -inf, -2, -1, 0.25, 1, 2, inf } },
        { 3, 3, { 3, 3, 3, 3, 3, 3, 3 } },
        { inf, inf, { inf, inf, inf, inf, inf, inf, inf } },
    };
    const talc_tensor *wide = talc_from_host(cpu_device(), TALC_F64, TALC_DIMS(8), x);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (int dtype = TALC_F32; dtype <= TALC_F64; dtype++) {
            talc_tensor *operand = talc_cast(wide, (talc_dtype)dtype);
            const uint64_t before = fingerprint(operand);
            const talc_tensor *y = talc_clamp(operand, cases[c].low, cases[c].high);
            assert_no_failure();
            for (int i = 0; i < 7; i++)
                cr_assert(element_at(y, i) == cases[c].expected[i], "case %d: %g becomes %g",
                          (int)c, x[i], element_at(y, i));
            cr_assert(isnan(element_at(y, 7)), "case %d: NaN becomes %g", (int)c, element_at(y, 7));
            cr_assert(fingerprint(operand) == before && y->data != operand->data, "x changed");
        }
    const talc_tensor *bytes = talc_arange(cpu_device(), TALC_U8, 0, 10, 1);
    const talc_tensor *y = talc_clamp(bytes, 2.9, 300);
    cr_assert(integer_at(y, 0) == 3 && integer_at(y, 9) == 9, "u8 from %d to %d",
              (int)integer_at(y, 0), (int)integer_at(y, 9));
    y = talc_clamp(bytes, -1e300, 6.5);
    cr_assert(integer_at(y, 0) == 0 && integer_at(y, 9) == 6, "u8 from %d to %d",
              (int)integer_at(y, 0), (int)integer_at(y, 9));
    cr_assert_null(talc_clamp(bytes, 2.1, 2.9));
    assert_failure(TALC_BAD_ARGUMENT, "clamp: no u8 lies from low 2.1 to high 2.9");
    cr_assert_null(talc_clamp(bytes, 256, inf));
    assert_failure(TALC_BAD_ARGUMENT, "clamp: no u8 lies from low 256 to high inf");
    cr_assert_null(talc_clamp(bytes, -inf, -0.5));
    assert_failure(TALC_BAD_ARGUMENT, "clamp: no u8 lies from low -inf to high -0.5");
}
