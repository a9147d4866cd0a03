/// Every convolution among the edges of `talc check` on every algorithm that takes it, against the
/// oracle.
#include "check/engine/bound.h"
#include "ops/backend.h"
#include "tests/support/conv2d_data.h"
#include "tests/support/hooks.h"
#include "tests/support/operands.h"

#include <math.h>
#include <string.h>

static void expect_exact(talc_conv2d_problem problem, int index)
{
    owned_conv2d_data data = conv2d_data_new(&problem, TALC_CHECK_EXACT, (uint64_t)index);
    conv2d_expect_exact(tested_device(), &data, index % 3);
}

Test(conv2d, small_integers_are_exact)
{
    for (int i = 0; conv2d_case(i) != NULL; i++)
        expect_exact(conv2d_parse(conv2d_case(i)), i);
}

/* Combinations that nobody thought of. A failure prints its problem, ready to be pasted among the
 * cases. */
Test(conv2d, random_problems_are_exact)
{
    /* A device apart protects its pages at every call. */
    const int problems = talc_device_is_host(tested_device()) ? 2000 : 1000;
    for (int i = 0; i < problems; i++)
        expect_exact(conv2d_random_problem((uint64_t)i), i);
}

static void expect_passed(void *context, const talc_check_outcome *outcome)
{
    ++*(int *)context;
    cr_expect(outcome->passed, "%s %s: %s", outcome->problem, outcome->algorithm, outcome->reason);
}

#define KIND(name) ((uint64_t)1 << TALC_CHECK_##name)

static void expect_algorithms_pass(uint64_t kinds, const char *(*text)(int index))
{
    int outcomes = 0;
    owned_check *check = talc_check_new(&(talc_check_options){ .device = tested_device(),
                                                               .kinds = kinds,
                                                               .observe = expect_passed,
                                                               .context = &outcomes });
    for (int i = 0; text(i) != NULL; i++)
        cr_assert(talc_check_problem(check, text(i)), "%s", talc_error_message());
    cr_assert(talc_check_passed(check) && outcomes > 0);
}

/* Ten of the problems have nine tenths of all products; that these are exact, and the large results
 * below, are tests of their own. */
static const char *cheap_case(int index)
{
    for (int i = 0; conv2d_case(i) != NULL; i++) {
        const talc_conv2d_problem problem = conv2d_parse(conv2d_case(i));
        if (talc_conv2d_flops(&problem) < 2e6 && index-- == 0)
            return conv2d_case(i);
    }
    return NULL;
}

static const char *third_cheap_case(int index)
{
    return cheap_case(3 * index);
}

/* Results depend on the operands alone: not on the number of threads, nor on what ran before. */
Test(conv2d, threads_and_repetition_change_no_bit)
{
    expect_algorithms_pass(KIND(THREADS) | KIND(RERUN), conv2d_case);
}

/* What is not finite, in the image, the weights, the bias or the residual, touches only its
 * windows. */
static const char *nonfinite_case(int index)
{
    static const char *const texts[] = { "n2c4h9w11o6k3x3p1x1",
                                         "n2c4h9w11o6k3x3p1x1g2_bias_relu",
                                         "n2c5h9w35o5k3x3p1x1g5",
                                         "n2c6h7w19o9k1x1_bias",
                                         "n2c3h9w11o4k5x7p2x3_relu",
                                         "n2c3h9w12o4k3x2s2x3p1x0d2x1",
                                         "n2c3h9w11o4k3x3p1x2_f64",
                                         "n2c4h9w11o4k3x3p2x2_reflect_relu",
                                         "n2c4h9w35o8k3x3p1x1g4_bias_relu",
                                         "n2c3h9w11o4k3x3p1x1_tanh",
                                         "n2c3h9w11o4k3x3p1x1_sigmoid",
                                         "n2c20h17w19o20k3x3p1x1",
                                         "n2c3h9w11o4k3x3p2x2_circular",
                                         "n2c4h9w11o6k3x3g2_bias_residual",
                                         "n2c4h9w11o6k1x1_bias_residual_relu",
                                         "n2c5h9w35o5k3x3g5_bias_residual_relu",
                                         "n1c3h9w8o4k2x2_f64_bias_residual",
                                         NULL };
    return texts[index];
}

Test(conv2d, what_is_not_finite_touches_only_its_windows)
{
    expect_algorithms_pass(KIND(NAN) | KIND(INFINITY), nonfinite_case);
}

/* Each result of each algorithm keeps the bound of its own terms, and not only that of the largest
 * ones. */
static void expect_own_bounds(const conv2d_data *data, const char *what, int apart)
{
    const talc_conv2d_explanation e = conv2d_explanation(tested_device(), &data->problem);
    for (int algorithm = 0; algorithm < e.decision.count; algorithm++) {
        const talc_candidate *candidate = &e.decision.candidates[algorithm];
        if (candidate->refused || candidate->arithmetic.precision == TALC_NORMWISE)
            continue;
        owned_double *values = conv2d_values(tested_device(), data, candidate->title);
        for (int64_t i = 0; i < data->y_count; i++) {
            const check_expected expected = conv2d_expected(data, i);
            const double bound =
                talc_check_bound(&candidate->arithmetic, TALC_F32, TALC_CHECK_WIDE, &expected, 0);
            cr_assert(talc_check_share(expected.value, values[i], bound) <= 1,
                      "%s, %s 2^%d apart: element %d is %.9g, not %.9Lg", candidate->title, what,
                      apart, (int)i, values[i], expected.value);
        }
    }
}

/* Half the input channels are 2^40 or 2^120 times as large as the other half, of which half the
 * output channels are the only sums: an algorithm that scales operands has to scale these apart. */
Test(conv2d, channels_of_any_size_keep_their_bound)
{
    talc_conv2d_problem problem = conv2d_parse("n2c160h9w11o6k3x3p1x1");
    cr_assert(talc_precision_admit(TALC_NORMWISE | TALC_TF32));
    for (int apart = 40; apart <= 120; apart += 80)
        for (int large = 0; large < 2; large++) {
            owned_conv2d_data data = conv2d_data_new(&problem, TALC_CHECK_RANDOM, 7);
            const int64_t plane = problem.H * problem.W, taps = problem.KH * problem.KW;
            for (int64_t i = 0; i < data.x_count; i++)
                data.x[i] *= ldexp(1, i / plane % 160 / 80 == large ? apart / 2 : -apart / 2);
            for (int64_t i = 0; i < data.w_count; i++)
                if (i / taps % 160 / 80 == large && i / taps / 160 % 2 == 0)
                    data.w[i] = 0;
            expect_own_bounds(&data, "channels", apart);
        }
}

/* The lower half of each image, and every other output channel's weights, are 2^20 to 2^40 times as
 * small as the rest. Algorithms may split the sums of 320 channels, and have to judge them
 * whole. */
Test(conv2d, rows_and_filters_of_any_size_keep_their_bound)
{
    talc_conv2d_problem problem = conv2d_parse("n1c320h13w12o70k3x3p1x1");
    cr_assert(talc_precision_admit(TALC_NORMWISE | TALC_TF32));
    for (int apart = 20; apart <= 40; apart += 10) {
        owned_conv2d_data data = conv2d_data_new(&problem, TALC_CHECK_RANDOM, 7);
        for (int64_t i = 0; i < data.x_count; i++)
            data.x[i] *= ldexp(1, i / problem.W % problem.H > problem.H / 2 ? -apart : 0);
        const int64_t filter = data.w_count / problem.OC;
        for (int64_t i = 0; i < data.w_count; i++)
            data.w[i] *= ldexp(1, i / filter % 2 == 0 ? -apart : 0);
        expect_own_bounds(&data, "rows", apart);
    }
}

/* An infinity beside an element a hundred times as large as all that an algorithm that scales
 * operands has seen before: only the sums that hold the infinity are not finite. */
Test(conv2d, an_infinity_does_not_hide_a_large_element)
{
    static const char *const texts[] = { "n1c128h24w40o8k3x3p1x1", "n1c128h24w40o8k1x1" };
    cr_assert(talc_precision_admit(TALC_NORMWISE | TALC_TF32));
    for (int t = 0; t < 2; t++) {
        talc_conv2d_problem problem = conv2d_parse(texts[t]);
        const talc_conv2d_explanation e = conv2d_explanation(tested_device(), &problem);
        owned_conv2d_data data = conv2d_data_new(&problem, TALC_CHECK_RANDOM, 7);
        const int64_t plane = problem.H * problem.W, reach = problem.KH / 2;
        data.x[80 * plane + 1 * problem.W + 1] = INFINITY;
        data.x[81 * plane + 6 * problem.W + 30] = 1000;
        for (int algorithm = 0; algorithm < e.decision.count; algorithm++) {
            const talc_candidate *candidate = &e.decision.candidates[algorithm];
            if (candidate->refused || candidate->arithmetic.precision == TALC_NORMWISE)
                continue;
            owned_double *values = conv2d_values(tested_device(), &data, candidate->title);
            for (int64_t i = 0; i < data.y_count; i++) {
                const int64_t h = i / problem.OW % problem.OH, w = i % problem.OW;
                const bool near = llabs(h - 1) <= reach && llabs(w - 1) <= reach;
                cr_assert(near != (isfinite(values[i]) != 0), "%s: %s: element %d is %g", texts[t],
                          candidate->title, (int)i, values[i]);
            }
        }
    }
}

/* Algorithms, called without the op, between guard bands; some off alignment and in small
 * workspaces too. */
Test(conv2d, algorithms_pass_the_cross_check)
{
    expect_algorithms_pass(
        KIND(RANDOM) | KIND(CONSTANT) | KIND(GUARDS) | KIND(INPUTS) | KIND(STATUS), cheap_case);
    expect_algorithms_pass(KIND(MISALIGNED) | KIND(WORKSPACE) | KIND(GUARDS), third_cheap_case);
}

/* Results larger than a cache, which algorithms may write differently, of planes whose rows are
 * aligned to nothing. */
static const char *large_case(int index)
{
    static const char *const texts[] = { "n1c9h479w487o9k3x3p1x1g9_bias_relu",
                                         "n1c3h479w487o9k1x1_bias", "n1c2h487w479o9k2x3s1x1p0x1",
                                         NULL };
    return texts[index];
}

Test(conv2d, large_results_are_exact)
{
    expect_algorithms_pass(KIND(EXACT) | KIND(GUARDS), large_case);
}

Test(conv2d, every_algorithm_takes_some_cases_and_the_last_takes_all)
{
    int taken[TALC_MAX_ALGORITHMS] = { 0 }, cases = 0;
    talc_conv2d_explanation explanation = { .flops = 0 };
    cr_assert(talc_precision_admit(TALC_NORMWISE | TALC_TF32)); /* algorithms of every class */
    for (; conv2d_case(cases) != NULL; cases++) {
        const talc_conv2d_problem problem = conv2d_parse(conv2d_case(cases));
        explanation = conv2d_explanation(tested_device(), &problem);
        cr_assert(explanation.decision.count > 0);
        cr_expect(explanation.decision.chosen >= 0, "%s: no algorithm", conv2d_case(cases));
        for (int j = 0; j < explanation.decision.count; j++)
            taken[j] += !explanation.decision.candidates[j].refused;
    }
    /* Forms of one name share the cases, and some are gradients alone. */
    for (int j = 0; j < explanation.decision.count; j++) {
        const char *name = explanation.decision.candidates[j].name;
        int by_name = 0;
        for (int k = 0; k < explanation.decision.count; k++)
            by_name += strcmp(explanation.decision.candidates[k].name, name) == 0 ? taken[k] : 0;
        cr_expect(by_name >= 12, "%s takes only %d cases", name, by_name);
    }
    if (talc_device_is_host(tested_device()))
        cr_expect(strcmp(explanation.decision.candidates[explanation.decision.count - 1].title,
                         "reference") == 0);
    cr_expect(taken[explanation.decision.count - 1] == cases && cases > 400);
}

// ---- Calls --------------------------------------------------------------------------------------

/* `same` gives outputs of the image's extents, with the larger half of an odd total at the end. */
Test(conv2d, same_padding_is_explicit_padding)
{
    for (int64_t k = 1; k <= 6; k++)
        for (int64_t dilation = 1; dilation <= 3; dilation++) {
            const int64_t total = dilation * (k - 1), wide = dilation * 2;
            const talc_tensor *x =
                random_tensor(cpu_device(), TALC_F32, TALC_DIMS(1, 2, 7, 9), (uint64_t)k);
            const talc_tensor *w =
                random_tensor(cpu_device(), TALC_F32, TALC_DIMS(3, 2, k, 3), (uint64_t)dilation);
            const talc_conv2d_options same = { .padding_same = true,
                                               .dilation = { dilation, dilation } };
            const talc_conv2d_options explicit = {
                .padding = { total / 2, wide / 2 },
                .padding_end = { total == 0 ? TALC_ZERO : total - total / 2, wide - wide / 2 },
                .dilation = { dilation, dilation },
            };
            const talc_tensor *y = talc_conv2d(x, w, NULL, &same),
                              *expected = talc_conv2d(x, w, NULL, &explicit);
            assert_no_failure();
            cr_assert(y->dims[2] == 7 && y->dims[3] == 9, "kernel %d, dilation %d", (int)k,
                      (int)dilation);
            cr_assert(talc_same_dims(y, expected));
            cr_assert(
                memcmp(talc_data(y, TALC_F32), talc_data(expected, TALC_F32), talc_nbytes(y)) == 0);
        }
}

Test(conv2d, one_tensor_may_be_several_operands)
{
    const float values[] = { 1, 2, 3, 4 };
    const talc_tensor *x = talc_from_host(cpu_device(), TALC_F32, TALC_DIMS(1, 1, 2, 2), values);
    const talc_tensor *y = talc_conv2d(x, x, NULL, NULL);
    cr_assert(talc_item(y) == 1 + 4 + 9 + 16);
    const talc_tensor *one = talc_ones(cpu_device(), TALC_F32, TALC_DIMS(1, 1, 1, 1));
    y = talc_conv2d(x, one, NULL, &(talc_conv2d_options){ .residual = x });
    for (int i = 0; i < 4; i++)
        cr_assert(((float *)talc_data(y, TALC_F32))[i] == 2 * values[i]);
}

/* Once operands and result are released, while their scope is still open, nothing is left: the op
 * drops what it makes on the way, contiguous copies and handles among it. */
Test(conv2d, a_call_keeps_nothing_but_its_result)
{
    talc_device *device = tested_device();
    for (int transposed = 0; transposed < 2; transposed++) {
        talc_tensor *x = random_tensor(device, TALC_F32, TALC_DIMS(2, 4, 6, 6), 1);
        talc_tensor *w = random_tensor(device, TALC_F32, TALC_DIMS(5, 4, 3, 3), 2);
        talc_tensor *residual = random_tensor(device, TALC_F32, TALC_DIMS(2, 5, 4, 4), 3);
        talc_tensor *bias = random_tensor(device, TALC_F32, TALC_DIMS(5), 4);
        const talc_tensor *views[] = { x, w, residual };
        for (int i = 0; i < 3 && transposed == 1; i++)
            views[i] = talc_transpose(views[i], 2, 3);
        const talc_conv2d_options options = { .residual = views[2] };
        const size_t live = talc_device_memory(device).live;
        talc_tensor *y = talc_conv2d(views[0], views[1], bias, &options);
        assert_no_failure();
        talc_release(y);
        cr_assert(talc_device_memory(device).live == live, "the call keeps a copy");
        for (int i = 0; i < 3 && transposed == 1; i++)
            talc_release((talc_tensor *)views[i]);
        talc_tensor *const operands[] = { x, w, bias, residual };
        for (int i = 0; i < 4; i++) {
            const talc_memory before = talc_device_memory(device);
            talc_release(operands[i]);
            cr_assert(talc_device_memory(device).live < before.live, "the call keeps operand %d",
                      i);
        }
    }
}

Test(conv2d, a_guard_notices_a_write_on_either_side)
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
}

/* Weights kept of one problem are not taken for another whose algorithm packs them otherwise. */
Test(conv2d, cached_weights_give_the_same_bits_at_every_size)
{
    static const struct {
        int64_t OC, groups;
    } kinds[] = { { 64, 1 }, { 192, 1 }, { 128, 2 } };
    static const int64_t sizes[][2] = { { 1, 56 },  { 32, 56 }, { 1, 56 }, { 1, 28 },
                                        { 32, 28 }, { 1, 28 },  { 3, 9 } };
    talc_device *device = tested_device();
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        const talc_algorithm *algorithm = device->backend->algorithms[TALC_OP_conv2d];
        for (; algorithm->name != NULL; algorithm++) {
            char title[TALC_ALGORITHM_TEXT];
            (void)talc_algorithm_text(algorithm, title);
            owned_scope *scope = talc_scope_enter();
            const talc_tensor *w =
                talc_randn(device, TALC_F32, TALC_DIMS(kinds[k].OC, 64 / kinds[k].groups, 3, 3));
            for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
                const talc_tensor *x = talc_randn(
                    device, TALC_F32, TALC_DIMS(sizes[i][0], 64, sizes[i][1], sizes[i][1]));
                talc_conv2d_options options = { .padding = { 1, 1 },
                                                .groups = kinds[k].groups,
                                                .algorithm = title };
                if (strcmp(algorithm->name, "reference") == 0)
                    continue;
                const talc_tensor *expected =
                    talc_to(talc_conv2d(x, w, NULL, &options), cpu_device(), TALC_F32);
                if (expected == NULL) {
                    talc_error_clear();
                    continue;
                }
                options.cache_weights = true;
                for (int twice = 0; twice < 2; twice++) {
                    const talc_tensor *y =
                        talc_to(talc_conv2d(x, w, NULL, &options), cpu_device(), TALC_F32);
                    cr_assert(same_bits(expected, y), "%s, %lld channels, %lld x %lld: %s", title,
                              (long long)kinds[k].OC, (long long)sizes[i][0],
                              (long long)sizes[i][1], talc_error_message());
                }
            }
        }
    }
}

/* Of sums that are exact, so that what silu makes of them is all that is rounded: where e^x is
 * subnormal and x e^x hardly. Products on tensor cores round, which the exponential multiplies. */
Test(conv2d, a_silu_at_the_end_has_all_digits_in_its_tail)
{
    static const char *const rows[] = { "reference", "direct", "depthwise", "im2col" };
    enum { COUNT = 4001 };
    for (int dtype = TALC_F32; dtype <= TALC_F64; dtype++) {
        const double from = dtype == TALC_F32 ? -80 : -700,
                     step = dtype == TALC_F32 ? 0.00625 : 0.0125;
        double values[COUNT], sums[COUNT], got[COUNT];
        for (int i = 0; i < COUNT; i++)
            values[i] = from - i * step;
        talc_tensor *x =
            talc_cast(talc_from_host(tested_device(), TALC_F64, TALC_DIMS(1, 1, 1, COUNT), values),
                      (talc_dtype)dtype);
        talc_tensor *w = talc_ones(tested_device(), (talc_dtype)dtype, TALC_DIMS(1, 1, 1, 1));
        cr_assert(talc_to_host(talc_cast(x, TALC_F64), sums, sizeof sums));
        int taken = 0;
        for (int k = 0; k < 4; k++) {
            const talc_tensor *y = talc_conv2d(
                x, w, NULL,
                &(talc_conv2d_options){ .activation = TALC_ACTIVATION_SILU, .algorithm = rows[k] });
            if (y == NULL) { /* the device has no such algorithm, or it refuses */
                talc_error_clear();
                continue;
            }
            taken++;
            cr_assert(talc_to_host(talc_cast(y, TALC_F64), got, sizeof got));
            for (int i = 0; i < COUNT; i++) {
                const long double expected = sums[i] / (1 + expl(-(long double)sums[i]));
                cr_assert(ulps((talc_dtype)dtype, got[i], expected) <= 8,
                          "%s: silu(%.17g) is %.17g", rows[k], sums[i], got[i]);
            }
        }
        cr_assert(taken >= 2, "%d rows", taken);
    }
}
