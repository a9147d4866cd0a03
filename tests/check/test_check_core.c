/* The arithmetic of a verdict: bounds by hand, what a share is, and that each kind of data is what
 * it says. */
#include "check/engine/bound.h"
#include "check/engine/data.h"
#include "check/engine/verdict.h"
#include "tests/support/hooks.h"

#include <criterion/criterion.h>
#include <float.h>
#include <math.h>

static const talc_arithmetic strict = { "f32", TALC_STRICT, false };
static const talc_arithmetic wide = { "f64 accumulation", TALC_STRICT, true };
static const talc_arithmetic normwise = { "f32 FFT", TALC_NORMWISE, false };
static const talc_arithmetic tf32 = { "tf32", TALC_TF32, false };

static bool about(double got, double expected)
{
    return fabs(got - expected) <= 1e-12 * fabs(expected);
}

Test(check_core, bounds_are_those_of_the_classes)
{
    /* u = 2^-24, K = 21, S = 8: 4 u sqrt(25) 8 = 160 u, (21 + 2) u 8 = 184 u; 23 smallest
     * subnormals more. */
    const check_expected expected = { .value = 0.5, .K = 21, .S = 8 };
    const double u = 0x1p-24, tiny = 23 * 0x1p-149;
    cr_assert(
        about(talc_check_bound(&strict, TALC_F32, TALC_CHECK_RANDOM, &expected, 100), 160 * u));
    for (talc_check_kind kind = TALC_CHECK_CONSTANT; kind <= TALC_CHECK_INFINITY; kind++)
        cr_assert(about(talc_check_bound(&strict, TALC_F32, kind, &expected, 100), 184 * u));
    cr_assert(
        about(talc_check_bound(&normwise, TALC_F32, TALC_CHECK_RANDOM, &expected, 100), 2000 * u));
    cr_assert(
        about(talc_check_bound(&normwise, TALC_F32, TALC_CHECK_WIDE, &expected, 100), 2300 * u));
    cr_assert(about(talc_check_bound(&tf32, TALC_F32, TALC_CHECK_RANDOM, &expected, 100),
                    160 * u + 8 * 0x1p-9));
    cr_assert(about(talc_check_bound(&wide, TALC_F32, TALC_CHECK_RANDOM, &expected, 100),
                    0.5 * u + 25 * 8 * 0x1p-53));
    cr_assert(about(talc_check_bound(&strict, TALC_F64, TALC_CHECK_RANDOM, &expected, 100),
                    160 * 0x1p-53));
    cr_assert(
        about(talc_check_bound(&wide, TALC_F64, TALC_CHECK_TINY, &expected, 100), 184 * 0x1p-53),
        "a wide accumulator is no wider than f64 data");
    const check_expected small = { .value = 0, .K = 21, .S = 0x1p-149 };
    cr_assert(talc_check_bound(&strict, TALC_F32, TALC_CHECK_RANDOM, &small, 0) >= tiny,
              "underflow may lose the smallest subnormal a term");
    const check_expected rounded = { .value = 2, .extra = 0.25 };
    cr_assert_eq(talc_check_bound(&strict, TALC_F32, TALC_CHECK_RANDOM, &rounded, 0), 0.25);
}

Test(check_core, exact_data_leave_no_tolerance)
{
    const check_expected expected = { .value = 3, .K = 21, .S = 8 };
    cr_assert_eq(talc_check_bound(&strict, TALC_F32, TALC_CHECK_EXACT, &expected, 100), 0);
    cr_assert_eq(talc_check_bound(&wide, TALC_F64, TALC_CHECK_EXACT, &expected, 100), 0);
    cr_assert_eq(talc_check_bound(&tf32, TALC_F32, TALC_CHECK_EXACT, &expected, 100), 0);
    cr_assert_eq(talc_check_bound(&normwise, TALC_F32, TALC_CHECK_EXACT, &expected, 100), 0.5);
    /* 2^12 - 2 terms of up to 8 x 8: (K + 2) u S = 2^12 2^-24 2^18 = 64 is more than a half. */
    const check_expected many = { .value = 3, .K = 4094, .S = 8 };
    cr_assert_eq(talc_check_bound(&normwise, TALC_F32, TALC_CHECK_EXACT, &many, 0x1p18), 64);
    /* Zeros beside sums of 100: as far off as those in norm, and not otherwise. 23 u 100 and 23
     * subnormals. */
    const check_expected zeros = { .value = 0, .K = 21, .S = 0 };
    cr_assert_eq(talc_check_bound(&normwise, TALC_F32, TALC_CHECK_EXACT, &zeros, 100), 0.5);
    cr_assert(
        about(talc_check_bound(&normwise, TALC_F32, TALC_CHECK_NAN, &zeros, 100), 2300 * 0x1p-24));
    cr_assert_eq(talc_check_bound(&strict, TALC_F32, TALC_CHECK_NAN, &zeros, 100), 0);
    cr_assert_eq(talc_check_bound(&strict, TALC_I64, TALC_CHECK_RANDOM, &expected, 100), 0);
}

Test(check_core, formats_are_those_of_the_types)
{
    const check_format f32 = talc_check_format(TALC_F32), f64 = talc_check_format(TALC_F64);
    cr_assert(f32.unit == FLT_EPSILON / 2 && f64.unit == DBL_EPSILON / 2);
    cr_assert(f32.normal == FLT_MIN && f64.normal == DBL_MIN);
    cr_assert(f32.smallest == FLT_TRUE_MIN && f64.smallest == DBL_TRUE_MIN);
    cr_assert((float)f32.integers - 1 == (float)(f32.integers - 1) &&
                  (float)(f32.integers + 1) != f32.integers + 1,
              "2^24 + 1 is the first integer that f32 has not");
    cr_assert(f64.integers + 1 == f64.integers && f64.integers - 1 != f64.integers);
    cr_assert(talc_check_is_narrow(TALC_F32) && !talc_check_is_narrow(TALC_F64));
    for (talc_dtype dtype = TALC_I64; dtype <= TALC_U8; dtype++) {
        const check_format integers = talc_check_format(dtype);
        cr_assert(integers.unit == 0 && integers.smallest == 0 && integers.normal == 0);
        cr_assert(!talc_check_is_narrow(dtype) && talc_check_rounded(dtype, 200) == 200);
    }
    cr_assert(isnan(talc_check_format(TALC_DTYPE_COUNT).unit));
    cr_assert(isnan(talc_check_rounded(TALC_DTYPE_COUNT, 1)), "no result of it is right");
    assert_all_freed();
}

Test(check_core, a_share_is_the_part_of_the_bound_that_is_used)
{
    cr_assert_eq(talc_check_share(1, 1.5, 1), 0.5);
    cr_assert_eq(talc_check_share(1, -1, 1), 2);
    cr_assert_eq(talc_check_share(1, 1, 0), 0);
    cr_assert_eq(talc_check_share(0, -0.0, 0), 0, "values are compared, not signs of zero");
    cr_assert_eq(talc_check_share(1, nextafter(1, 2), 0), INFINITY);
    cr_assert_eq(talc_check_share((long double)NAN, NAN, 1), 0);
    cr_assert_eq(talc_check_share((long double)NAN, 1, 1), INFINITY);
    cr_assert_eq(talc_check_share(1, NAN, 1), INFINITY);
    cr_assert_eq(talc_check_share((long double)INFINITY, INFINITY, 1), 0);
    cr_assert_eq(talc_check_share((long double)INFINITY, -INFINITY, 1), INFINITY);
    cr_assert_eq(talc_check_share(1, INFINITY, 1), INFINITY);
    /* An f64 result next to a due value that only a long double holds. */
    cr_assert_eq(talc_check_share(1 + 0x1p-60L, 1, 0x1p-60), 1);
}

Test(check_core, data_are_of_their_kind)
{
    enum { COUNT = 4096 };
    static double v[COUNT];
    talc_check_fill(v, COUNT, TALC_F32, TALC_CHECK_EXACT, 3, 1, 7);
    int seen[7] = { 0 };
    for (int i = 0; i < COUNT; i++) {
        cr_assert(v[i] == floor(v[i]) && fabs(v[i]) <= 3);
        seen[(int)v[i] + 3]++;
    }
    for (int i = 0; i < 7; i++)
        cr_assert(seen[i] > COUNT / 14, "%d came %d times", i - 3, seen[i]);

    talc_check_fill(v, COUNT, TALC_F32, TALC_CHECK_RANDOM, 3, 2, 7);
    double sum = 0, max = 0;
    for (int i = 0; i < COUNT; i++) {
        cr_assert_eq(v[i], (double)(float)v[i]);
        sum += v[i];
        max = fmax(max, fabs(v[i]));
    }
    cr_assert(fabs(sum) < 4 * 2 / sqrt(3) * sqrt(COUNT) && max > 1.9 && max <= 2);

    talc_check_fill(v, COUNT, TALC_F64, TALC_CHECK_WIDE, 3, 1, 7);
    int smallest = 0, largest = -1000;
    for (int i = 0; i < COUNT; i++) {
        smallest = ilogb(v[i]) < smallest ? ilogb(v[i]) : smallest;
        largest = ilogb(v[i]) > largest ? ilogb(v[i]) : largest;
    }
    cr_assert(largest == -1 && smallest == -20, "%d to %d", smallest, largest);

    talc_check_fill(v, COUNT, TALC_F32, TALC_CHECK_CONSTANT, 3, 1, 7);
    cr_assert(v[0] == (double)(1.0f / 3) && v[COUNT - 1] == v[0]);

    static const talc_check_kind odd[] = { TALC_CHECK_HUGE, TALC_CHECK_NAN, TALC_CHECK_INFINITY };
    for (int k = 0; k < 3; k++) {
        talc_check_fill(v, COUNT, TALC_F32, odd[k], 3, 1, 7);
        int count = 0;
        for (int i = 0; i < COUNT; i++)
            count += !(fabs(v[i]) <= 1);
        cr_assert_eq(count, 1, "%s: %d", talc_check_kind_name(odd[k]), count);
    }
    talc_check_fill(v, COUNT, TALC_F32, TALC_CHECK_TINY, 3, 1, 7);
    for (int i = 0; i < COUNT; i++)
        cr_assert(fabs(v[i]) <= (i % 64 < 32 ? 0x1p-30 : 1));
}

Test(check_core, the_largest_integers_keep_sums_exact)
{
    cr_assert_eq(talc_check_exact_largest(TALC_F32, 27, 8), 8);
    cr_assert_eq(talc_check_exact_largest(TALC_F32, 262143, 100), 8); /* 262143 * 64 = 2^24 - 64 */
    cr_assert_eq(talc_check_exact_largest(TALC_F32, 262144, 100), 7);
    cr_assert_eq(talc_check_exact_largest(TALC_F32, 1e9, 100), 1);
    cr_assert_eq(talc_check_exact_largest(TALC_F64, 1e9, 3000), 3000);
}
