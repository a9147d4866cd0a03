/* Reductions: every algorithm, dtype, set of axes and kind of view against the oracle of the
 * cross-check. */
#include "tensor/shape.h"
#include "tests/support/hooks.h"
#include "tests/support/operands.h"
#include "tests/support/oracle.h"
#include "tests/support/refused.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef talc_tensor *reduce_function(const talc_tensor *x, talc_dims axes, bool keep_dims);

static talc_tensor *var(const talc_tensor *x, talc_dims axes, bool keep_dims)
{
    return talc_var(x, axes, 1, keep_dims);
}

enum { SUM, MEAN, MAX, ARGMAX, MIN, ARGMIN, VAR, LOGSUMEXP, FUNCTIONS };
static const struct {
    const char *name;
    reduce_function *call;
} functions[FUNCTIONS] = { { "sum", talc_sum }, { "mean", talc_mean },
                           { "max", talc_max }, { "argmax", talc_argmax },
                           { "min", talc_min }, { "argmin", talc_argmin },
                           { "var", var },      { "logsumexp", talc_logsumexp } };

static const char *const rows[] = { "blocked", "reference" };

static void check(const talc_tensor *x, unsigned reduced, int function, const char *row,
                  bool keep_dims, const char *name)
{
    talc_dims axes = TALC_SCALAR;
    for (int i = x->rank - 1; i >= 0; i--) /* backwards, some negative */
        if (reduced >> i & 1)
            axes.dim[axes.rank++] = i % 2 == 0 ? i : i - x->rank;
    talc_algorithm_force(functions[function].name, row);
    talc_tensor *y = functions[function].call(x, axes, keep_dims);
    talc_algorithm_force(functions[function].name, NULL);
    cr_assert(!talc_failed(), "%s: %s", name, talc_error_message());
    reduced = axes.rank == 0 ? ~0u : reduced;

    int at = 0;
    for (int i = 0; i < x->rank; i++)
        if (keep_dims || (reduced >> i & 1) == 0)
            cr_assert(at < y->rank && y->dims[at++] == ((reduced >> i & 1) ? 1 : x->dims[i]),
                      "%s: dims", name);
    cr_assert(y->rank == at && talc_is_contiguous(y), "%s: rank %d instead of %d", name, y->rank,
              at);
    const bool is_index = function == ARGMAX || function == ARGMIN;
    cr_assert(y->dtype == (is_index ? TALC_I64 : x->dtype), "%s: dtype", name);

    char problem[128], text[TALC_DIMS_TEXT], listed[TALC_DIMS_TEXT] = "";
    for (int i = 0; i < axes.rank; i++)
        snprintf(listed + strlen(listed), sizeof listed - strlen(listed), "%c%d",
                 i == 0 ? '@' : ',', (int)axes.dim[i]);
    snprintf(problem, sizeof problem, "%s:%s%s_%s", functions[function].name,
             extents_text(talc_dims_of(x), text), listed, talc_dtype_name(x->dtype));
    assert_expected(name, problem, &x, y, row == rows[1]);
    talc_release(y);
}

// ---- Values -------------------------------------------------------------------------------------

Test(reduce, every_algorithm_axes_view_and_dtype_agrees_with_the_oracle)
{
    const talc_dims shapes[] = { TALC_DIMS(1),           TALC_DIMS(37),
                                 TALC_DIMS(3, 4),        TALC_DIMS(5, 530),
                                 TALC_DIMS(530, 5),      TALC_DIMS(2, 33, 4),
                                 TALC_DIMS(3, 1, 34, 2), TALC_DIMS(2, 3, 2, 3, 2) };
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int view = 0; view < VIEW_COUNT; view++)
            for (int dtype = TALC_F32; dtype <= TALC_F64; dtype++) {
                owned_scope *scope = talc_scope_enter();
                talc_tensor *x = random_view(view, (talc_dtype)dtype, shapes[s], s + 1);
                uint64_t before = fingerprint(x);
                for (unsigned reduced = 0; reduced < 1u << x->rank; reduced++)
                    for (int function = 0; function < FUNCTIONS; function++)
                        for (int row = 0; row < 2; row++) {
                            char name[256], text[TALC_DIMS_TEXT];
                            snprintf(name, sizeof name, "%s %s %s axes %x view %d row %s",
                                     functions[function].name, talc_dims_text(shapes[s], text),
                                     talc_dtype_name((talc_dtype)dtype), reduced, view, rows[row]);
                            check(x, reduced, function, rows[row], (reduced ^ (unsigned)row) & 1,
                                  name);
                        }
                cr_assert(fingerprint(x) == before, "x changed");
            }
}

Test(reduce, expanded_views_count_each_element_as_often_as_they_show_it)
{
    talc_tensor *x =
        talc_expand(talc_view(talc_arange(cpu_device(), TALC_F32, 1, 4, 1), TALC_DIMS(3, 1)),
                    TALC_DIMS(4, 3, 5));
    talc_tensor *y = talc_sum(x, TALC_DIMS(0, 2), false);
    for (int i = 0; i < 3; i++)
        cr_assert(element_at(y, i) == 20 * (i + 1));
    cr_assert(talc_item(talc_mean(x, TALC_SCALAR, false)) == 2);
    cr_assert(talc_item_i64(talc_argmax(x, TALC_SCALAR, false)) == 10);
}

Test(reduce, a_scalar_is_its_own_sum_and_has_dimension_0)
{
    talc_tensor *x = talc_full(cpu_device(), TALC_F64, TALC_SCALAR, 3.5);
    for (int function = 0; function < FUNCTIONS; function++)
        for (int64_t axis = -1; axis <= 1; axis++) {
            talc_tensor *y =
                functions[function].call(x, axis == 1 ? TALC_SCALAR : TALC_DIMS(axis), true);
            assert_no_failure();
            if (function == VAR)
                cr_assert(y->rank == 0 && isnan(talc_item(y)));
            else
                cr_assert(y->rank == 0 &&
                          talc_item(y) == (function == ARGMAX || function == ARGMIN ? 0 : 3.5));
        }
}

// ---- Integers -----------------------------------------------------------------------------------

Test(reduce, integers_are_summed_in_i64)
{
    const talc_dtype dtypes[] = { TALC_I64, TALC_I32, TALC_U8 };
    for (int d = 0; d < 3; d++)
        for (int view = 0; view < VIEW_COUNT; view++) {
            talc_tensor *x = random_view(view, dtypes[d], TALC_DIMS(6, 50), 3);
            talc_tensor *sum = talc_sum(x, TALC_DIMS(1), false),
                        *max = talc_max(x, TALC_DIMS(1), false);
            talc_tensor *argmax = talc_argmax(x, TALC_DIMS(1), false);
            talc_tensor *min = talc_min(x, TALC_DIMS(1), false),
                        *argmin = talc_argmin(x, TALC_DIMS(1), false);
            assert_no_failure();
            cr_assert(sum->dtype == TALC_I64 && max->dtype == dtypes[d] &&
                      argmax->dtype == TALC_I64);
            for (int i = 0; i < 6; i++) {
                uint64_t expected = 0;
                int64_t best = 0, smallest = 0;
                for (int j = 0; j < 50; j++) {
                    expected += (uint64_t)integer_at(x, i * 50 + j);
                    best = integer_at(x, i * 50 + j) > integer_at(x, i * 50 + best) ? j : best;
                    smallest =
                        integer_at(x, i * 50 + j) < integer_at(x, i * 50 + smallest) ? j : smallest;
                }
                cr_assert(integer_at(sum, i) == (int64_t)expected, "dtype %d view %d row %d", d,
                          view, i);
                cr_assert(integer_at(argmax, i) == best &&
                          integer_at(max, i) == integer_at(x, i * 50 + best));
                cr_assert(integer_at(argmin, i) == smallest &&
                          integer_at(min, i) == integer_at(x, i * 50 + smallest));
            }
        }
}

Test(reduce, i64_sums_wrap_around_and_extremes_are_exact)
{
    const int64_t values[] = { INT64_MAX, 1, INT64_MAX - 1, INT64_MIN };
    talc_tensor *x = talc_from_host(cpu_device(), TALC_I64, TALC_DIMS(4), values);
    cr_assert(talc_item_i64(talc_sum(talc_slice(x, 0, 0, 2, 1), TALC_SCALAR, false)) == INT64_MIN);
    cr_assert(talc_item_i64(talc_max(x, TALC_SCALAR, false)) == INT64_MAX);
    cr_assert(talc_item_i64(talc_min(x, TALC_SCALAR, false)) == INT64_MIN);
    cr_assert(talc_item_i64(talc_argmin(x, TALC_SCALAR, false)) == 3);
    cr_assert(talc_item_i64(talc_max(talc_slice(x, 0, 3, TALC_END, 1), TALC_SCALAR, false)) ==
              INT64_MIN);
    cr_assert(talc_item_i64(talc_argmax(talc_slice(x, 0, 1, TALC_END, 1), TALC_SCALAR, false)) ==
              1);
    talc_tensor *bytes = talc_full(cpu_device(), TALC_U8, TALC_DIMS(1000), 255);
    cr_assert(talc_item_i64(talc_sum(bytes, TALC_SCALAR, false)) == 255000);
}

// ---- Special values -----------------------------------------------------------------------------

/* Puts `value` at one or two places of a constant and reduces, along and across. */
static void check_special(const char *row, talc_dtype dtype, int64_t K, int64_t first,
                          int64_t second, double value)
{
    for (int across = 0; across < 2; across++) {
        owned_scope *scope = talc_scope_enter();
        talc_tensor *x =
            talc_full(cpu_device(), dtype, across ? TALC_DIMS(K, 3) : TALC_DIMS(3, K), -2);
        talc_tensor *lane = talc_select(x, across ? 1 : 0, 1);
        talc_fill(talc_select(lane, 0, first), value);
        talc_fill(talc_select(lane, 0, second), value);
        for (int function = 0; function < FUNCTIONS; function++)
            talc_algorithm_force(functions[function].name, row);
        talc_dims axis = TALC_DIMS(across ? 0 : 1);
        talc_tensor *max = talc_max(x, axis, false), *argmax = talc_argmax(x, axis, false);
        talc_tensor *sum = talc_sum(x, axis, false), *mean = talc_mean(x, axis, false);
        const talc_tensor *negated = talc_neg(x);
        talc_tensor *min = talc_min(negated, axis, false),
                    *argmin = talc_argmin(negated, axis, false);
        talc_tensor *variance = talc_var(x, axis, 0, false),
                    *logsumexp = talc_logsumexp(x, axis, false);
        for (int function = 0; function < FUNCTIONS; function++)
            talc_algorithm_force(functions[function].name, NULL);
        assert_no_failure();
        double got = element_at(max, 1);
        cr_assert(isnan(value) ? isnan(got) : got == value, "%s K %d at %d: max %g", row, (int)K,
                  (int)first, got);
        cr_assert(integer_at(argmax, 1) == first, "%s K %d across %d: argmax %d instead of %d", row,
                  (int)K, across, (int)integer_at(argmax, 1), (int)first);
        cr_assert(isnan(value) ? isnan(element_at(min, 1)) : element_at(min, 1) == -value);
        cr_assert(integer_at(argmin, 1) == first, "%s K %d across %d: argmin %d instead of %d", row,
                  (int)K, across, (int)integer_at(argmin, 1), (int)first);
        if (!isfinite(value))
            cr_assert(isnan(element_at(variance, 1)), "%s K %d across %d: var %g", row, (int)K,
                      across, element_at(variance, 1));
        if (isnan(value))
            cr_assert(isnan(element_at(logsumexp, 1)));
        if (isinf(value))
            cr_assert(element_at(logsumexp, 1) == value);
        if (isnan(value))
            cr_assert(isnan(element_at(sum, 1)) && isnan(element_at(mean, 1)));
        if (isinf(value))
            cr_assert(element_at(sum, 1) == value && element_at(mean, 1) == value);
        for (int other = 0; other < 3; other += 2)
            cr_assert(element_at(max, other) == -2 && integer_at(argmax, other) == 0 &&
                          element_at(sum, other) == -2.0 * (double)K &&
                          element_at(mean, other) == -2 && element_at(variance, other) == 0 &&
                          element_at(min, other) == 2 && integer_at(argmin, other) == 0 &&
                          fabs(element_at(logsumexp, other) - (log((double)K) - 2)) < 1e-5,
                      "a special value reached another output");
    }
}

Test(reduce, nan_wins_and_the_first_of_equals_is_named_wherever_they_stand)
{
    const double values[] = { NAN, INFINITY, 5 };
    for (int row = 0; row < 2; row++)
        for (int v = 0; v < 3; v++) {
            for (int64_t K = 1; K < 80; K += 13)
                for (int64_t first = 0; first < K; first += 1 + K / 9)
                    check_special(rows[row], TALC_F32, K, first, first + (K - first) / 2,
                                  values[v]);
            check_special(rows[row], TALC_F64, 41, 40, 40, values[v]);
            /* One in each of two blocks, then in each of two parts. */
            check_special(rows[row], TALC_F32, 9000, 4095, 4097, values[v]);
            check_special(rows[row], TALC_F32, 80000, 41000, 79999, values[v]);
        }
}

Test(reduce, nan_beats_a_larger_number_that_stands_before_or_after)
{
    const double orders[][3] = { { INFINITY, NAN, 1 }, { NAN, INFINITY, 1 }, { 1, INFINITY, NAN } };
    const int64_t expected[] = { 1, 0, 2 };
    for (int row = 0; row < 2; row++)
        for (int i = 0; i < 3; i++) {
            talc_tensor *x = talc_from_host(cpu_device(), TALC_F64, TALC_DIMS(3), orders[i]);
            talc_algorithm_force("max", rows[row]);
            talc_algorithm_force("argmax", rows[row]);
            cr_assert(isnan(talc_item(talc_max(x, TALC_SCALAR, false))));
            cr_assert(talc_item_i64(talc_argmax(x, TALC_SCALAR, false)) == expected[i]);
            talc_tensor *column = talc_view(x, TALC_DIMS(3, 1));
            cr_assert(talc_item_i64(talc_argmax(column, TALC_DIMS(0), false)) == expected[i]);
        }
    talc_tensor *low = talc_full(cpu_device(), TALC_F32, TALC_DIMS(50), -INFINITY);
    cr_assert(talc_item(talc_max(low, TALC_SCALAR, false)) == (double)-INFINITY);
    cr_assert(talc_item_i64(talc_argmax(low, TALC_SCALAR, false)) == 0);
}

Test(reduce, infinities_of_logsumexp_are_those_of_pytorch)
{
    const double rows_of_2[] = { -INFINITY, -INFINITY, INFINITY,  1,
                                 INFINITY,  -INFINITY, -INFINITY, 1 };
    const double expected[] = { -INFINITY, INFINITY, INFINITY, 1 };
    for (int row = 0; row < 2; row++)
        for (int across = 0; across < 2; across++) {
            talc_tensor *x = talc_from_host(cpu_device(), TALC_F64, TALC_DIMS(4, 2), rows_of_2);
            x = across ? talc_contiguous(talc_transpose(x, 0, 1)) : x;
            talc_algorithm_force("logsumexp", rows[row]);
            const talc_tensor *y = talc_logsumexp(x, TALC_DIMS(across ? 0 : 1), false);
            talc_algorithm_force("logsumexp", NULL);
            assert_no_failure();
            for (int i = 0; i < 4; i++)
                cr_assert(element_at(y, i) == expected[i], "%s across %d: %g instead of %g",
                          rows[row], across, element_at(y, i), expected[i]);
        }
    const talc_tensor *large = talc_full(cpu_device(), TALC_F32, TALC_DIMS(3), 1e4);
    cr_assert(fabs(talc_item(talc_logsumexp(large, TALC_SCALAR, false)) - (1e4 + log(3))) < 1e-3);
}

// ---- Variances ----------------------------------------------------------------------------------

Test(reduce, variances_are_those_of_the_distances_from_the_mean)
{
    /* 1e9 + 0, 1, 2 .. 6 over and over: squares of the elements have no digits left for these. */
    const double K = 7 * 1201, expected = 4, corrections[] = { 0, 1, 2.5 };
    for (int row = 0; row < 2; row++)
        for (int across = 0; across < 2; across++)
            for (int c = 0; c < 3; c++) {
                owned_scope *scope = talc_scope_enter();
                talc_tensor *x = talc_empty(cpu_device(), TALC_F64, TALC_DIMS(3, (int64_t)K));
                for (int64_t i = 0; i < talc_numel(x); i++)
                    ((double *)x->data)[i] = 1e9 + (double)(i % 7);
                x = across ? talc_contiguous(talc_transpose(x, 0, 1)) : x;
                talc_algorithm_force("var", rows[row]);
                const talc_tensor *y =
                    talc_var(x, TALC_DIMS(across ? 0 : 1), corrections[c], false);
                talc_algorithm_force("var", NULL);
                assert_no_failure();
                for (int i = 0; i < 3; i++)
                    cr_assert(fabs(element_at(y, i) - expected * K / (K - corrections[c])) < 1e-5,
                              "%s across %d correction %g: %.12g", rows[row], across,
                              corrections[c], element_at(y, i));
            }
}

enum { SPREADS = 7, LARGE_K = 1000 };

/* Element i of LARGE_K: squares whose sum is finite, around values whose own sum has no square; one
 * element, the first, far from the others; squares whose sum is not finite, and whose variance is;
 * distances that are not; both, once; and what has no variance. */
static double large_number(int spread, int64_t i)
{
    const double share = (double)(i * 7 % LARGE_K) / LARGE_K;
    switch (spread) {
    case 0:
        return 4e151 * (1 + share);
    case 1:
        return i == 0 ? 5e153 : 0;
    case 2:
        return 1e153 * (20 * share - 10);
    case 3:
        return i % 2 == 0 ? 1.7e308 : -1.7e308;
    case 4:
        return i == 700 ? 1.7e308 : 1;
    case 5:
        return 1.3e154 * (i % 2 == 0 ? 1 : -1);
    default:
        return i == 700 ? (double)INFINITY : 1e153 * share;
    }
}

Test(reduce, variances_of_large_numbers_are_finite_where_f64_holds_them)
{
    enum { K = LARGE_K };
    for (int spread = 0; spread < SPREADS; spread++)
        for (int row = 0; row < 2; row++)
            for (int across = 0; across < 2; across++) {
                owned_scope *scope = talc_scope_enter();
                talc_tensor *x = talc_empty(cpu_device(), TALC_F64, TALC_DIMS(2, K));
                long double mean = 0, squares = 0;
                for (int64_t i = 0; i < talc_numel(x); i++)
                    ((double *)x->data)[i] = large_number(spread, i % K);
                for (int64_t i = 0; i < K; i++)
                    mean += (long double)element_at(x, i) / K;
                for (int64_t i = 0; i < K; i++)
                    squares += (element_at(x, i) - mean) * (element_at(x, i) - mean);
                const double expected = (double)(squares / (K - 1));
                x = across ? talc_contiguous(talc_transpose(x, 0, 1)) : x;
                talc_algorithm_force("var", rows[row]);
                const talc_tensor *y = talc_var(x, TALC_DIMS(across ? 0 : 1), 1, false);
                talc_algorithm_force("var", NULL);
                assert_no_failure();
                for (int i = 0; i < 2; i++) {
                    const double got = element_at(y, i);
                    cr_assert(isfinite(expected) ? fabs(got / expected - 1) < 1e-12
                              : isnan(expected)  ? isnan(got)
                                                 : got == expected,
                              "%s across %d spread %d: %g instead of %g", rows[row], across, spread,
                              got, expected);
                }
            }
}

/* Of values far from 0, whose mean has digits that f32 does not: in f64, 2 (x - mean) / (K - 1). */
Test(reduce, gradients_of_variances_far_from_zero_are_those_of_the_exact_mean)
{
    enum { K = 1000 };
    const double means[] = { 0, 1e4, 1e6, -1e6 };
    for (size_t m = 0; m < sizeof means / sizeof *means; m++) {
        owned_scope *scope = talc_scope_enter();
        talc_tensor *x = talc_empty(cpu_device(), TALC_F32, TALC_DIMS(K));
        double mean = 0;
        for (int64_t i = 0; i < K; i++) {
            ((float *)x->data)[i] = (float)(means[m] + (double)(i * 37 % K) * 0.003 - 1);
            mean += element_at(x, i) / K;
        }
        cr_assert(talc_require_grad(x, true) && talc_backward(talc_var(x, TALC_SCALAR, 1, false)));
        assert_no_failure();
        for (int64_t i = 0; i < K; i++) {
            const double got = element_at(talc_grad(x), i);
            const double expected = 2 * (element_at(x, i) - mean) / (K - 1);
            cr_assert(fabs(got - expected) < 1e-6 * 2 / K,
                      "mean %g, element %d: %.9g instead of %.9g", means[m], (int)i, got, expected);
        }
    }
}

Test(reduce, a_correction_that_leaves_nothing_divides_by_zero)
{
    const float values[] = { 1, 3 };
    const talc_tensor *x = talc_from_host(cpu_device(), TALC_F32, TALC_DIMS(2), values);
    cr_assert(talc_item(talc_var(x, TALC_SCALAR, 1, false)) == 2);
    cr_assert(talc_item(talc_var(x, TALC_SCALAR, 2, false)) == (double)INFINITY);
    cr_assert(talc_item(talc_var(x, TALC_SCALAR, 3, false)) == (double)INFINITY);
    cr_assert(isnan(talc_item(talc_var(talc_slice(x, 0, 0, 1, 1), TALC_SCALAR, 1, false))));
}

// ---- Extremes with their indices ----------------------------------------------------------------

static void expect_both(talc_tensor *y, const talc_tensor *indices, talc_dims dims,
                        const double *values, const int64_t *at)
{
    assert_no_failure();
    cr_assert(talc_shape_equal(talc_dims_of(y), dims) && talc_same_dims(y, indices) &&
              indices->dtype == TALC_I64);
    for (int64_t i = 0; i < talc_numel(y); i++)
        cr_assert((isnan(values[i]) ? isnan(element_at(y, i)) : element_at(y, i) == values[i]) &&
                      integer_at(indices, i) == at[i],
                  "element %d: %g at %d", (int)i, element_at(y, i), (int)integer_at(indices, i));
}

Test(reduce, extremes_come_with_where_they_stand)
{
    const float elements[] = { 3, 7, 7, -1, NAN, 2 };
    const talc_tensor *x = talc_from_host(cpu_device(), TALC_F32, TALC_DIMS(2, 3), elements);
    talc_tensor *at, *y = talc_max_indices(x, 1, false, &at);
    expect_both(y, at, TALC_DIMS(2), (double[]){ 7, NAN }, (int64_t[]){ 1, 1 });
    y = talc_min_indices(x, -1, true, &at);
    expect_both(y, at, TALC_DIMS(2, 1), (double[]){ 3, NAN }, (int64_t[]){ 0, 1 });
    y = talc_max_indices(x, 0, false, &at);
    expect_both(y, at, TALC_DIMS(3), (double[]){ 3, NAN, 7 }, (int64_t[]){ 0, 1, 0 });
    y = talc_min_indices(talc_transpose(x, 0, 1), 0, false, &at);
    expect_both(y, at, TALC_DIMS(2), (double[]){ 3, NAN }, (int64_t[]){ 0, 1 });
    y = talc_max_indices(talc_cast(talc_slice(x, 0, 0, 1, 1), TALC_U8), 1, true, &at);
    cr_assert(y->dtype == TALC_U8);
    expect_both(y, at, TALC_DIMS(1, 1), (double[]){ 7 }, (int64_t[]){ 1 });
    y = talc_max_indices(talc_full(cpu_device(), TALC_F64, TALC_SCALAR, -2), -1, false, &at);
    expect_both(y, at, TALC_SCALAR, (double[]){ -2 }, (int64_t[]){ 0 });
}

/* The others share a gradient among equal elements. */
Test(reduce, the_gradient_of_an_extreme_with_its_index_goes_to_one_element)
{
    const double elements[] = { 5, 5, 1, 2 };
    for (int smallest = 0; smallest < 2; smallest++) {
        talc_tensor *x = talc_from_host(cpu_device(), TALC_F64, TALC_DIMS(2, 2), elements), *at;
        cr_assert(talc_require_grad(x, true));
        talc_tensor *y = (smallest ? talc_min_indices : talc_max_indices)(x, 1, smallest != 0, &at);
        cr_assert(talc_backward(talc_sum(talc_mul_scalar(y, 3), TALC_SCALAR, false)));
        const double expected[2][4] = { { 3, 0, 0, 3 }, { 3, 0, 3, 0 } };
        for (int64_t i = 0; i < 4; i++)
            cr_assert(element_at(talc_grad(x), i) == expected[smallest][i]);
    }
}

Test(reduce, what_has_no_extreme_with_an_index)
{
    const talc_tensor *x = talc_zeros(cpu_device(), TALC_F32, TALC_DIMS(2, 3));
    talc_tensor *at = NULL;
    REFUSED(TALC_NULL_ARGUMENT, "max: indices is NULL", talc_max_indices(x, 0, false, NULL));
    REFUSED(TALC_NULL_ARGUMENT, "max: x is NULL", talc_max_indices(NULL, 0, false, &at));
    REFUSED(TALC_BAD_ARGUMENT, "min: argmin: axis 2 is outside -2..1 of x [2,3]",
            talc_min_indices(x, 2, false, &at));
    const talc_tensor *empty = talc_zeros(cpu_device(), TALC_F32, TALC_DIMS(2, 0));
    REFUSED(TALC_BAD_SHAPE, "max: argmax: x [2,0] has 0 elements to reduce, needs at least 1",
            talc_max_indices(empty, 1, false, &at));
    cr_assert_null(at);
}

// ---- Nothing to reduce --------------------------------------------------------------------------

Test(reduce, no_elements_sum_to_zero_and_average_to_nan)
{
    talc_tensor *x = talc_empty(cpu_device(), TALC_F32, TALC_DIMS(2, 0, 3));
    talc_tensor *sum = talc_sum(x, TALC_DIMS(1), false), *mean = talc_mean(x, TALC_DIMS(1), true);
    assert_no_failure();
    cr_assert(sum->rank == 2 && mean->rank == 3 && talc_numel(sum) == 6 && talc_numel(mean) == 6);
    for (int i = 0; i < 6; i++)
        cr_assert(element_at(sum, i) == 0 && isnan(element_at(mean, i)));
    cr_assert(talc_item(talc_sum(x, TALC_SCALAR, false)) == 0);
    cr_assert(isnan(talc_item(talc_var(x, TALC_SCALAR, 0, false))));
    cr_assert(talc_item(talc_logsumexp(x, TALC_SCALAR, false)) == (double)-INFINITY);
    talc_tensor *bytes = talc_empty(cpu_device(), TALC_U8, TALC_DIMS(0));
    cr_assert(talc_item_i64(talc_sum(bytes, TALC_SCALAR, false)) == 0);

    /* Outputs without elements are fine for all. */
    for (int function = 0; function < FUNCTIONS; function++)
        cr_assert(talc_numel(functions[function].call(x, TALC_DIMS(0, 2), false)) == 0);
}
