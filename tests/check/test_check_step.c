/// Which part of a difference between two runs is rounding, and which is not.
#include "tests/support/captured.h"
#include "tests/support/files.h"
#include "tests/support/hooks.h"
#include "tests/support/op_cases.h"

#include "check/model/verdict.h"
#include "check/model/report.h"
#include "ops/elementwise.h"
#include "ops/observed.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

Test(check_step, the_part_that_the_inputs_do_not_explain_over_the_tolerance_for_rounding)
{
    double got[] = { 1, 2, 3, 4 }, spread[] = { 0.5, 0, 0.25, 1 },
           tolerance[] = { 0.25, 0.5, 0.5, 0 };
    check_open open = { 4, TALC_DIMS(2, 2), got, spread, tolerance };
    talc_check_model_layer layer = { .own = 0.125 };
    talc_check_verdict_of_step(&open, (const double[]){ 1.5, 2, 3.5, 3 }, 0.25, &layer);
    talc_check_verdict_at_end(&layer);
    /* Differences 0.5, 0, 0.5, 1, of which 0, 0, 0.25, 0 are left. */
    cr_assert(layer.step == 0.5 && layer.accumulated == 0.5 && layer.difference == 1);
    cr_assert(layer.passed && layer.where.dim[0] == 1 && layer.where.dim[1] == 0);
    cr_assert(layer.got == 3 && layer.expected == 3.5);
    cr_assert(spread[0] == 0.5 && spread[1] == 0 && spread[2] == 0.5 && spread[3] == 1 &&
              tolerance[0] == 0);

    /* What was measured explains itself; the step before stays. */
    layer = (talc_check_model_layer){ .own = NAN };
    talc_check_verdict_of_step(&open, (const double[]){ 1.5, 2, 3.5, 3 }, 1.5, &layer);
    talc_check_verdict_at_end(&layer);
    cr_assert(layer.step == 0 && layer.accumulated == 1.5 && !layer.passed);

    /* Without room any rest is too much; NaN and infinity are to be the same. */
    double odd[] = { NAN, INFINITY, 1, NAN };
    const double same[] = { NAN, INFINITY, 1, NAN };
    memcpy(got, odd, sizeof got);
    memset(spread, 0, sizeof spread);
    talc_check_verdict_of_step(&open, same, 0, &layer);
    cr_assert(layer.step == 0 && layer.difference == 0);
    for (int i = 0; i < 4; i++) {
        double reference[4];
        memcpy(reference, same, sizeof reference);
        reference[i] = i == 2 ? nextafter(1, 2) : 5;
        memset(spread, 0, sizeof spread);
        layer = (talc_check_model_layer){ .own = 0 };
        talc_check_verdict_of_step(&open, reference, 0, &layer);
        talc_check_verdict_at_end(&layer);
        cr_assert(isinf(layer.step) && isinf(layer.accumulated) && !layer.passed);
        cr_assert(layer.where.dim[0] * 2 + layer.where.dim[1] == i);
    }
}

/* One element through an op. */
static check_open open_of(const char *op, const void *problem, const talc_algorithm *algorithm,
                          const talc_arithmetic *reference, double x, double off, double y,
                          talc_check_model_layer *layer)
{
    const talc_dims one = TALC_DIMS(1);
    check_array input = { TALC_F32, one, 1, &x, &off };
    check_ran ran = { op, algorithm, problem, 1, &input, { TALC_F32, one, 1, &y, NULL } };
    check_open open;
    cr_assert(talc_check_verdict_of_layer(&ran, reference, layer, &open), "%s",
              talc_error_message());
    return open;
}

Test(check_step, bounds_of_both_runs)
{
    const double u = 0x1p-24;
    const talc_algorithm strict = { .name = "a", .arithmetic = { "f32", TALC_STRICT, false } },
                         wide = { .name = "b", .arithmetic = { "f64", TALC_STRICT, true } };
    talc_check_model_layer layer = { .own = 0 };

    /* The sum of one element; the reference's element may be off by 2, and so be up to 5. */
    const talc_reduce_observed sum = { TALC_SUM, { true }, 0 };
    check_open open = open_of("sum", &sum, &strict, &strict.arithmetic, 3, 2, 3 + 9 * u, &layer);
    cr_assert(fabs(layer.own - 1) < 1e-6, "%g", layer.own); /* (1 + 2) u 3 */
    cr_assert(open.spread[0] == 2 && fabs(open.tolerance[0] / u - (9 + 3 * 5 + 16)) < 1e-6);
    talc_check_open_free(&open);
    open = open_of("sum", &sum, &wide, &strict.arithmetic, 3, 0, 3, &layer);
    cr_assert(layer.own == 0 && fabs(open.tolerance[0] / u - (3 + 9)) < 1e-6);
    talc_check_open_free(&open);
    /* Zero here is no reason to take the reference for exact. */
    open = open_of("sum", &sum, &strict, &strict.arithmetic, 0, 2, 0, &layer);
    cr_assert(open.tolerance[0] >= 3 * u * 2);
    talc_check_open_free(&open);

    /* A sigmoid is flatter than its argument. */
    const talc_unary_problem sigmoid = { .function = TALC_SIGMOID };
    open = open_of("sigmoid", &sigmoid, &strict, &strict.arithmetic, 0, 2, 0.5, &layer);
    cr_assert(layer.own == 0 && open.spread[0] == 0.5);
    talc_check_open_free(&open);
    const talc_unary_problem tanh_problem = { .function = TALC_TANH };
    open = open_of("tanh", &tanh_problem, &strict, &strict.arithmetic, 0, 2, 0, &layer);
    cr_assert(open.spread[0] == 2);
    talc_check_open_free(&open);
}

/* A model that normalises by its batch and goes on with the statistics, which the op wrote beside
 * its result. */
static talc_tensor *statistics_forward(talc_tensor *x)
{
    talc_tensor *weight = op_numbers(x->device, TALC_DIMS(4, 3, 3, 3), 2);
    talc_tensor *mean = talc_zeros(x->device, TALC_F32, TALC_DIMS(4));
    talc_tensor *var = talc_ones(x->device, TALC_F32, TALC_DIMS(4));
    talc_tensor *y =
        talc_batch_norm2d(talc_conv2d(x, weight, NULL, NULL), NULL, NULL, mean, var,
                          &(talc_batch_norm2d_options){ .training = true, .momentum = 1 });
    talc_relu(y);
    return talc_concat((const talc_tensor *[]){ mean, var }, 2, 0);
}

Test(check_step, statistics_that_an_op_writes)
{
    owned_module *model = module_of(statistics_forward);
    owned_report *report = NULL;
    talc_check_model(model, op_numbers(cpu_device(), TALC_DIMS(2, 3, 5, 4), 1),
                     &(talc_check_model_options){ .algorithm = "conv2d=im2col",
                                                  .reference_algorithm = "conv2d=reference" },
                     &report);
    assert_no_failure();
    cr_assert(talc_check_model_count(report) == 4);
    cr_assert(talc_check_model_at(report, 3)->difference > 0, "the statistics are the same");
    cr_assert(talc_check_model_passed(report));
}

/* The roundings of equal numbers, added up for the mean of a batch, all go one way. */
static talc_tensor *alike_forward(talc_tensor *x)
{
    return talc_batch_norm2d(x, NULL, NULL, NULL, NULL,
                             &(talc_batch_norm2d_options){ .training = true });
}

Test(check_step, a_batch_of_equal_numbers)
{
    for (int i = 0; i < 4; i++) {
        owned_module *model = module_of(alike_forward);
        owned_report *report = NULL;
        talc_tensor *x =
            talc_full(cpu_device(), i < 2 ? TALC_F32 : TALC_F64, TALC_DIMS(4, 1, 50, 50), 1 / 3.0);
        talc_check_model(model, x,
                         &(talc_check_model_options){ .algorithm = i % 2 == 0
                                                                       ? "batch_norm2d=blocks"
                                                                       : "batch_norm2d=reference" },
                         &report);
        assert_no_failure();
        cr_assert(talc_check_model_passed(report), "%d: %g times its bound", i,
                  talc_check_model_at(report, 0)->own);
    }
}

/* The sign of a NaN says nothing. */
Test(check_step, a_nan_is_printed_without_its_sign)
{
    talc_check_model_layer layer = { .op = "relu", .got = -(double)NAN, .expected = 1, .own = 2 };
    talc_check_model_report report = { .layers = &layer, .count = 1 };
    FILE *file = tmpfile();
    talc_check_model_print(file, &report);
    const char *text = file_written(file);
    cr_assert(strstr(text, "is nan instead of 1") != NULL, "%s", text);
}
