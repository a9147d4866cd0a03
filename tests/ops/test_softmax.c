/// softmax and log_softmax as a caller has them: numpy's numbers, equal elements, large results,
/// special values. The values of their algorithms are held by test_algorithms.c.
#include "tests/support/hooks.h"
#include "tests/support/operands.h"
#include "tests/support/oracle.h"

#include <float.h>
#include <math.h>
#include <stdio.h>

static const char *const rows[] = { "rows", "reference" };

static talc_tensor *call(bool log, const char *row, const talc_tensor *x, int dim)
{
    talc_algorithm_force("softmax", row);
    talc_algorithm_force("log_softmax", row);
    talc_tensor *y = log ? talc_log_softmax(x, dim) : talc_softmax(x, dim);
    talc_algorithm_force("softmax", NULL);
    talc_algorithm_force("log_softmax", NULL);
    return y;
}

/* Every element within the bound of ops/softmax.h, and so rows that sum to 1. */
static void check(bool log, const talc_tensor *x, int dim, const talc_tensor *y, const char *name)
{
    char problem[128], text[TALC_DIMS_TEXT];
    snprintf(problem, sizeof problem, "%s:%s@%d_%s", log ? "log_softmax" : "softmax",
             extents_text(talc_dims_of(x), text), dim, talc_dtype_name(x->dtype));
    assert_expected(name, problem, &x, y, false);
}

// ---- Values -------------------------------------------------------------------------------------

/* One element stands out from n - 1 equal ones: their exponentials, added one after the other, are
 * rounded the same way each time. In a row of its own, and side by side with another. */
Test(softmax, equal_elements_keep_the_bound)
{
    const int64_t lengths[] = { 2, 5, 17, 100, 4001, 40000 };
    for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++)
        for (int dim = 0; dim < 2; dim++)
            for (int dtype = TALC_F32; dtype <= TALC_F64; dtype++)
                for (int c = 1; c <= 6; c++) {
                    owned_scope *scope = talc_scope_enter();
                    const talc_dims shape =
                        dim == 0 ? TALC_DIMS(lengths[l], 2) : TALC_DIMS(2, lengths[l]);
                    talc_tensor *x = talc_full(cpu_device(), (talc_dtype)dtype, shape, -0.5 * c);
                    talc_fill(talc_select(x, dim, 0), 0);
                    for (int row = 0; row < 2; row++)
                        for (int log = 0; log < 2; log++) {
                            char name[96];
                            snprintf(name, sizeof name, "%d of %g dim %d row %s log %d",
                                     (int)lengths[l], -0.5 * c, dim, rows[row], log);
                            check(log, x, dim, call(log, rows[row], x, dim), name);
                        }
                }
}

/* From 8 MiB on, results go past the caches, a cache line at a time; those of some rows do not. */
Test(softmax, large_results_have_the_bits_of_their_rows)
{
    static const int64_t lengths[] = { 10, 601, 1000, 5003 };
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (int log = 0; log < 2; log++) {
            const int64_t part = 750000 / lengths[i];
            const talc_tensor *x =
                random_operand(TALC_F32, TALC_DIMS(3 * part, lengths[i]), (uint64_t)i);
            const talc_tensor *y = call(log, "rows", x, 1);
            for (int64_t row = 0; row < 3 * part; row += part)
                cr_assert(same_bits(talc_slice(y, 0, row, row + part, 1),
                                    call(log, "rows", talc_slice(x, 0, row, row + part, 1), 1)),
                          "%d elements, log %d, rows from %d", (int)lengths[i], log, (int)row);
        }
}

/* numpy: x = [1, 2, 3]; exp(x) / sum(exp(x)) and its logarithm, to 17 digits. */
Test(softmax, matches_numpy)
{
    const double x[] = { 1, 2, 3 };
    const double expected[] = { 0.09003057317038046, 0.24472847105479767, 0.6652409557748219 };
    const double expected_log[] = { -2.4076059644443806, -1.4076059644443804, -0.4076059644443804 };
    talc_tensor *t = talc_from_host(cpu_device(), TALC_F64, TALC_DIMS(3), x);
    for (int row = 0; row < 2; row++)
        for (int i = 0; i < 3; i++) {
            cr_assert(fabs(element_at(call(false, rows[row], t, 0), i) - expected[i]) <=
                      4 * DBL_EPSILON);
            cr_assert(fabs(element_at(call(true, rows[row], t, 0), i) - expected_log[i]) <=
                      8 * DBL_EPSILON);
        }
}

// ---- Special values -----------------------------------------------------------------------------

Test(softmax, large_logits_are_safe)
{
    const float x[] = { 1e4F, 1e4F, -1e4F, 3e38F, -3e38F, 3e38F };
    talc_tensor *t = talc_from_host(cpu_device(), TALC_F32, TALC_DIMS(2, 3), x);
    const double expected[] = { 0.5, 0.5, 0, 0.5, 0, 0.5 };
    for (int row = 0; row < 2; row++) {
        talc_tensor *y = call(false, rows[row], t, 1), *log = call(true, rows[row], t, 1);
        assert_no_failure();
        for (int i = 0; i < 6; i++)
            cr_assert(element_at(y, i) == expected[i], "%s: element %d is %g", rows[row], i,
                      element_at(y, i));
        cr_assert(element_at(log, 0) == (double)-0.6931471805599453F &&
                  element_at(log, 2) == (double)-20000.693147F);
    }
}

Test(softmax, infinities_and_nan_are_as_in_pytorch)
{
    const double inf = (double)INFINITY, nan = (double)NAN;
    /* x, softmax, log_softmax; NaN due where NaN stands. */
    const double cases[][3][3] = {
        { { -inf, -inf, -inf }, { nan, nan, nan }, { nan, nan, nan } },
        { { 0, -inf, 0 }, { 0.5, 0, 0.5 }, { -0.6931471805599453, -inf, -0.6931471805599453 } },
        { { 0, inf, 0 }, { nan, nan, nan }, { nan, nan, nan } },
        { { 0, nan, 1 }, { nan, nan, nan }, { nan, nan, nan } },
        { { nan, 0, 1 }, { nan, nan, nan }, { nan, nan, nan } },
        { { 1, 0, nan }, { nan, nan, nan }, { nan, nan, nan } },
        { { -inf, 7, -inf }, { 0, 1, 0 }, { -inf, 0, -inf } },
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (int row = 0; row < 2; row++)
            for (int log = 0; log < 2; log++)
                for (int dim = 0; dim < 2; dim++) {
                    talc_tensor *x =
                        talc_from_host(cpu_device(), TALC_F64,
                                       dim ? TALC_DIMS(1, 3) : TALC_DIMS(3, 1), cases[c][0]);
                    talc_tensor *y = call(log, rows[row], x, dim);
                    assert_no_failure();
                    for (int i = 0; i < 3; i++) {
                        double expected = cases[c][1 + log][i], got = element_at(y, i);
                        cr_assert(isnan(expected) ? isnan(got) : got == expected,
                                  "case %d row %s log %d element %d: %g", (int)c, rows[row], log, i,
                                  got);
                    }
                }
}

Test(softmax, empty_dimensions_and_scalars)
{
    for (int dim = 0; dim < 3; dim++) {
        talc_tensor *y = talc_softmax(talc_empty(cpu_device(), TALC_F32, TALC_DIMS(2, 0, 3)), dim);
        assert_no_failure();
        cr_assert(y->rank == 3 && y->dims[0] == 2 && y->dims[1] == 0 && y->dims[2] == 3);
    }
    talc_tensor *scalar = talc_full(cpu_device(), TALC_F32, TALC_SCALAR, 5);
    cr_assert(talc_item(talc_softmax(scalar, 0)) == 1 &&
              talc_item(talc_log_softmax(scalar, -1)) == 0);
}
