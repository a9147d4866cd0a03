/// That comparing with the oracle finds what is wrong, and that guard bands do. tests/test_check_conv2d.c holds the oracle
/// itself against other numbers.
#include "check/family.h"
#include "tests/support/conv2d_data.h"
#include "tests/support/hooks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

Test(oracle, counts_output_positions)
{
    static const int64_t rows_of_extents[][7] = {
        /* size, kernel, stride, dilation, before, after, positions */
        { 512, 5, 1, 1, 0, 0, 508 }, { 256, 7, 1, 1, 0, 0, 250 }, { 224, 7, 2, 1, 3, 3, 112 },
        { 5, 5, 3, 1, 0, 0, 1 },     { 5, 3, 2, 2, 1, 1, 2 },     { 1, 1, 9, 9, 0, 0, 1 },
        { 7, 3, 2, 1, 0, 1, 3 },     { 10, 3, 3, 1, 1, 0, 3 },    { 2, 3, 1, 1, 0, 0, 0 },
    };
    for (size_t i = 0; i < sizeof rows_of_extents / sizeof *rows_of_extents; i++) {
        const int64_t *r = rows_of_extents[i];
        cr_assert(oracle_extent(r[0], r[1], r[2], r[3], r[4], r[5]) == r[6], "row %zu", i);
    }
    assert_all_freed();
}

/* One element of an otherwise right result is off by one unit, by a rounding too many, or not a number. */
Test(oracle, comparison_finds_one_wrong_element)
{
    const talc_conv2d_problem p = conv2d_parse("n2c3h5w6o4k3x3p1x1_bias");
    conv2d_data data = conv2d_data_new(&p, TALC_CHECK_EXACT, 5);
    oracle_conv2d oracle = conv2d_oracle(&data);
    double *y = malloc((size_t)oracle.count * sizeof *y);
    cr_assert_not_null(y);
    for (int64_t i = 0; i < oracle.count; i++)
        y[i] = (double)oracle.due[i].value;
    oracle_report report = oracle_compare(&oracle, &p, y, ORACLE_EXACT);
    cr_assert(report.worst == 0 && report.fed == oracle.count && oracle_trusted(&report, &p));

    const int64_t at = ((1 * 4 + 2) * 5 + 3) * 6 + 4;
    const double right = y[at];
    y[at] = right + 1;
    report = oracle_compare(&oracle, &p, y, ORACLE_EXACT);
    cr_assert(isinf(report.worst) && report.n == 1 && report.c == 2 && report.h == 3 &&
              report.w == 4);
    cr_assert(report.got == right + 1 && report.due == right);

    const double bound = 4 * 0x1p-24 * sqrt(27.0 + 4) * oracle.due[at].S;
    y[at] = right + 0.99 * bound;
    cr_assert(fabs(oracle_compare(&oracle, &p, y, ORACLE_RANDOM).worst - 0.99) < 1e-6);
    y[at] = right - 1.01 * bound;
    cr_assert(oracle_compare(&oracle, &p, y, ORACLE_RANDOM).worst > 1);
    cr_assert(oracle_compare(&oracle, &p, y, ORACLE_ANY).worst < 1);
    cr_assert(oracle_compare(&oracle, &p, y, ORACLE_ONE_ROUNDING).worst > 1);
    y[at] = NAN;
    cr_assert(isinf(oracle_compare(&oracle, &p, y, ORACLE_ANY).worst));
    y[at] = INFINITY;
    cr_assert(isinf(oracle_compare(&oracle, &p, y, ORACLE_ANY).worst));

    for (int64_t i = 0; i < oracle.count; i++)
        y[i] = i % 5 == 0 ? 1 : 0;
    report = oracle_compare(&oracle, &p, y, ORACLE_ANY);
    cr_assert(!oracle_trusted(&report, &p), "a fifth of the outputs is enough");
    free(y);
    oracle_free(&oracle);
    conv2d_data_free(&data);
    assert_all_freed();
}

Test(oracle, a_guard_notices_a_write_on_either_side)
{
    const double values[] = { 1, 2, 3, 4, 5, 6 };
    for (int shift = 0; shift < 3; shift++)
        for (int at = -1; at <= 6; at++) {
            guarded guard = guard_new(cpu_device(), TALC_F32, TALC_DIMS(2, 3), values, shift);
            float *data = talc_data(guard.tensor, TALC_F32);
            cr_assert(data[0] == 1 && data[5] == 6 && isnan(data[-1]) && isnan(data[6]));
            cr_assert(guard_intact(&guard, true));
            data[at] = 7;
            cr_assert(!guard_intact(&guard, true));
            cr_assert(guard_intact(&guard, false) == (at >= 0 && at < 6));
            guard_free(&guard);
        }
    assert_all_freed();
}
