/// The check that `talc bench` and `talc run` make of results: it has to accept right ones and see
/// wrong ones.
#include "tests/support/conv2d_data.h"
#include "tests/support/faults.h"
#include "tests/support/hooks.h"

#include <math.h>

/* Every problem's result in integers, at each of its outputs or at TALC_CHECK_SAMPLES of them. */
static void expect_exact(const talc_conv2d_problem *p, uint64_t seed)
{
    char text[TALC_CONV2D_TEXT];
    talc_conv2d_problem_text(p, text);
    owned_conv2d_data data = conv2d_data_new(p, TALC_CHECK_EXACT, seed);
    talc_scope *scope = talc_scope_enter();
    conv2d_operands o = conv2d_operands_new(cpu_device(), &data, 0);
    const talc_tensor *y = conv2d_run(&o, p, "reference");
    talc_check_sample *sample =
        talc_check_sample_new(p, o.x.tensor, o.w.tensor, o.bias.tensor, o.residual.tensor, seed);
    talc_check_sample_report r;
    cr_assert(talc_check_sample_compare(sample, y, TALC_STRICT, &r), "%s: %s", text,
              talc_error_message());
    cr_assert(r.count == (data.y_count < TALC_CHECK_SAMPLES ? data.y_count : TALC_CHECK_SAMPLES));
    const bool curved =
        p->activation == TALC_ACTIVATION_SIGMOID || p->activation == TALC_ACTIVATION_TANH;
    cr_assert(r.share <= 1 && (r.error == 0 || curved), "%s: off by %g at %d,%d,%d,%d", text,
              r.error, (int)r.where[0], (int)r.where[1], (int)r.where[2], (int)r.where[3]);
    const talc_tensor *other = talc_add(y, talc_full(cpu_device(), p->dtype, TALC_DIMS(1), 64));
    cr_assert(talc_check_sample_compare(sample, other, TALC_STRICT, &r));
    cr_assert(r.error >= 64 && (r.share > 1 || curved), "%s: %g", text, r.error);
    talc_check_sample_free(sample);
    conv2d_operands_free(&o);
    talc_scope_leave(scope);
}

Test(check_sample, integers_are_exact)
{
    static const char *const texts[] = { "n3c4h40w30o6k3x3p1x1g2_bias_residual",
                                         "n5c12h30w31o24k3x2s1x2p1x0x2x1g12_residual",
                                         "n2c3h50w61o3k5x3p2x1_reflect_bias_relu",
                                         "n100c2h9w9o2k2x2_f64_residual",
                                         "n9000c1h1w1o1k1x1_bias" };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const talc_conv2d_problem p = conv2d_parse(texts[i]);
        expect_exact(&p, i);
    }
    for (uint64_t seed = 5000; seed < 5200; seed++) {
        const talc_conv2d_problem p = conv2d_random_problem(seed);
        expect_exact(&p, seed);
    }
}

/* x and w of ones, [1,2,5,5] and [3,2,3,3]: every output is 18 = S, K = 18. */
Test(check_sample, errors_are_shares_of_the_bound)
{
    const talc_conv2d_problem problem = conv2d_parse("n1c2h5w5o3k3x3");
    talc_device *cpu = cpu_device();
    talc_check_sample *expected =
        talc_check_sample_new(&problem, talc_ones(cpu, TALC_F32, TALC_DIMS(1, 2, 5, 5)),
                              talc_ones(cpu, TALC_F32, TALC_DIMS(3, 2, 3, 3)), NULL, NULL, 1);
    talc_tensor *y = talc_full(cpu, TALC_F32, TALC_DIMS(1, 3, 3, 3), 18.0);
    talc_check_sample_report r;
    cr_assert(talc_check_sample_compare(expected, y, TALC_STRICT, &r));
    cr_assert(r.error == 0 && r.share == 0 && r.count == 27);

    /* Relative errors of 2^-20 and 2^-19 lie on both sides of 4 * 2^-24 * sqrt(22). */
    const struct {
        float value;
        talc_precision precision;
        bool passes;
    } cases[] = {
        { 18.0f * (1 + 0x1p-20f), TALC_STRICT, true },
        { 18.0f * (1 + 0x1p-19f), TALC_STRICT, false },
        { 18.0f * (1 - 0x1p-19f), TALC_STRICT, false },
        { 18.0f * (1 + 0x1p-19f), TALC_TF32, true },
        { 18.0f * (1 + 0x1p-9f), TALC_TF32, true },
        { 18.0f * (1 + 0x1p-8f), TALC_TF32, false },
        { 18.0f * (1 + 0x1p-20f), TALC_NORMWISE, true },
        { 18.0f * (1 + 0x1p-19f), TALC_NORMWISE, false },
        { NAN, TALC_STRICT, false },
        { INFINITY, TALC_STRICT, false },
        { NAN, TALC_NORMWISE, false },
        { NAN, TALC_TF32, false },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ((float *)talc_data(y, TALC_F32))[1 * 9 + 2 * 3 + 0] = cases[i].value;
        cr_assert(talc_check_sample_compare(expected, y, cases[i].precision, &r));
        cr_assert((r.share <= 1) == cases[i].passes, "case %zu: share %g", i, r.share);
        cr_assert(r.where[0] == 0 && r.where[1] == 1 && r.where[2] == 2 && r.where[3] == 0);
        const double off = fabs((double)cases[i].value - 18.0);
        cr_assert(r.error == (isfinite(off) ? off : (double)INFINITY), "case %zu: %g", i, r.error);
    }
    ((float *)talc_data(y, TALC_F32))[1 * 9 + 2 * 3 + 0] = 18.0f * (1 + 0x1p-20f);
    cr_assert(talc_check_sample_compare(expected, y, TALC_STRICT, &r));
    cr_assert(fabs(r.share - 0x1p-20 / (4 * 0x1p-24 * sqrt(22.0))) < 1e-9, "%g", r.share);
    talc_check_sample_free(expected);
}

/* x and w of ones again: 18 is due, and either result may be off by 4 * 2^-24 * sqrt(22) of it. */
Test(check_sample, two_results_may_differ_by_both_bounds)
{
    const talc_conv2d_problem problem = conv2d_parse("n1c2h5w5o3k3x3");
    talc_device *cpu = cpu_device();
    talc_check_sample *expected =
        talc_check_sample_new(&problem, talc_ones(cpu, TALC_F32, TALC_DIMS(1, 2, 5, 5)),
                              talc_ones(cpu, TALC_F32, TALC_DIMS(3, 2, 3, 3)), NULL, NULL, 1);
    talc_tensor *a = talc_full(cpu, TALC_F32, TALC_DIMS(1, 3, 3, 3), 18.0);
    talc_tensor *b = talc_clone(a);
    const double bound = 4 * 0x1p-24 * sqrt(22) * 18, off = 18 * 0x1p-20;
    talc_check_sample_report r;
    cr_assert(talc_check_sample_between(expected, a, TALC_STRICT, b, TALC_STRICT, &r));
    cr_assert(r.error == 0 && r.share == 0 && r.count == 27);

    float *at = talc_data(b, TALC_F32);
    at[2 * 9 + 5] = (float)(18 + off);
    cr_assert(talc_check_sample_between(expected, a, TALC_STRICT, b, TALC_STRICT, &r));
    cr_assert(r.error == off && fabs(r.share - off / (2 * bound)) < 1e-6, "%g", r.share);
    cr_assert(r.where[0] == 0 && r.where[1] == 2 && r.where[2] == 1 && r.where[3] == 2);
    ((float *)talc_data(a, TALC_F32))[2 * 9 + 5] = (float)(18 - 2 * off);
    cr_assert(talc_check_sample_between(expected, b, TALC_STRICT, a, TALC_STRICT, &r));
    cr_assert(r.error == 3 * off && fabs(r.share - 3 * off / (2 * bound)) < 1e-6, "%g", r.share);
    cr_assert(r.share > 1, "neither has to be at fault for the two to be too far apart");
    cr_assert(talc_check_sample_between(expected, b, TALC_TF32, a, TALC_STRICT, &r));
    cr_assert(r.share < 0.1);
    at[0] = NAN;
    cr_assert(talc_check_sample_between(expected, b, TALC_TF32, a, TALC_STRICT, &r));
    cr_assert(isinf(r.share) && isinf(r.error));

    cr_assert(!talc_check_sample_between(expected, NULL, TALC_STRICT, b, TALC_STRICT, &r));
    assert_failure(TALC_NULL_ARGUMENT, "check: a is NULL");
    cr_assert(!talc_check_sample_between(expected, a, TALC_STRICT, talc_select(b, 0, 0),
                                         TALC_STRICT, &r));
    assert_failure(TALC_BAD_SHAPE, "check: b [3,3,3] must be [1,3,3,3]");
    talc_check_sample_free(expected);
}

/* One row a, b, c = 1, 2, 3 under the taps 1, 10, 100 with two columns of padding on either
 * side. */
Test(check_sample, padding_modes_and_operands)
{
    static const struct {
        const char *text;
        double y[5];
    } cases[] = {
        { "n1c1h1w3o1k1x3p0x2", { 100, 210, 321, 32, 3 } },
        { "n1c1h1w3o1k1x3p0x2_reflect", { 123, 212, 321, 232, 123 } },
        { "n1c1h1w3o1k1x3p0x2_replicate", { 111, 211, 321, 332, 333 } },
        { "n1c1h1w3o1k1x3p0x2_circular", { 132, 213, 321, 132, 213 } },
        { "n1c1h1w3o1k1x3p0x1x0x3_f64", { 210, 321, 32, 3, 0 } },
        { "n1c1h1w3o1k1x3p0x2_bias", { 95, 205, 316, 27, -2 } },
        { "n1c1h1w3o1k1x3p0x2_bias_relu", { 95, 205, 316, 27, 0 } },
        { "n1c1h1w3o1k1x3p0x2_bias_residual", { 95, 206, 318, 30, 2 } },
        { "n1c1h1w3o1k1x1s1x2p0x2_f64", { 0, 1, 3, 0 } },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const talc_conv2d_problem p = conv2d_parse(cases[i].text);
        talc_device *cpu = cpu_device();
        const double taps[] = { 1, 10, 100 };
        const talc_tensor *x = talc_view(talc_arange(cpu, p.dtype, 1, 4, 1), TALC_DIMS(1, 1, 1, 3));
        const talc_tensor *w =
            talc_cast(talc_from_host(cpu, TALC_F64, TALC_DIMS(1, 1, 1, p.KW), taps), p.dtype);
        const talc_tensor *bias = p.bias ? talc_full(cpu, p.dtype, TALC_DIMS(1), -5) : NULL;
        const talc_tensor *residual =
            p.residual ? talc_view(talc_arange(cpu, p.dtype, 0, 5, 1), TALC_DIMS(1, 1, 1, 5))
                       : NULL;
        assert_no_failure();
        talc_check_sample *expected = talc_check_sample_new(&p, x, w, bias, residual, 1);
        talc_tensor *y =
            talc_cast(talc_from_host(cpu, TALC_F64, TALC_DIMS(1, 1, 1, p.OW), cases[i].y), p.dtype);
        talc_check_sample_report r;
        cr_assert(talc_check_sample_compare(expected, y, TALC_STRICT, &r));
        cr_assert(r.count == p.OW && r.error == 0, "%s: off by %g at %d", cases[i].text, r.error,
                  (int)r.where[3]);
        talc_check_sample_free(expected);
    }
}

/* An algorithm that is accurate in norm may be off everywhere by what its largest output may be. */
Test(check_sample, normwise_follows_the_largest_output)
{
    const talc_conv2d_problem p = conv2d_parse("n1c1h1w2o1k1x1");
    talc_device *cpu = cpu_device();
    const float pixels[] = { 1, 1024 }, got[] = { 1 + 0x1p-15f, 1024 };
    const talc_tensor *x = talc_from_host(cpu, TALC_F32, TALC_DIMS(1, 1, 1, 2), pixels);
    const talc_tensor *y = talc_from_host(cpu, TALC_F32, TALC_DIMS(1, 1, 1, 2), got);
    talc_check_sample *expected = talc_check_sample_new(
        &p, x, talc_ones(cpu, TALC_F32, TALC_DIMS(1, 1, 1, 1)), NULL, NULL, 1);
    talc_check_sample_report r;
    cr_assert(talc_check_sample_compare(expected, y, TALC_STRICT, &r));
    cr_assert(r.share > 1 && r.error == 0x1p-15 && r.where[3] == 0);
    cr_assert(talc_check_sample_compare(expected, y, TALC_NORMWISE, &r) && r.share <= 1);
    talc_check_sample_free(expected);
}

/* One of 8192 outputs is wrong: about every other seed looks at it, the same one always or
 * never. */
Test(check_sample, chooses_by_seed)
{
    const talc_conv2d_problem p = conv2d_parse("n2c1h64w64o1k1x1");
    talc_device *cpu = cpu_device();
    const talc_tensor *x = talc_rand(cpu, TALC_F32, TALC_DIMS(2, 1, 64, 64));
    const talc_tensor *w = talc_ones(cpu, TALC_F32, TALC_DIMS(1, 1, 1, 1));
    talc_tensor *y = talc_clone(x);
    assert_no_failure();
    ((float *)talc_data(y, TALC_F32))[77] += 1;
    int seen = 0;
    for (uint64_t seed = 0; seed < 64; seed++) {
        talc_check_sample_report r[2];
        for (int i = 0; i < 2; i++) {
            talc_check_sample *sample = talc_check_sample_new(&p, x, w, NULL, NULL, seed);
            cr_assert(talc_check_sample_compare(sample, y, TALC_STRICT, &r[i]));
            cr_assert(r[i].count == TALC_CHECK_SAMPLES);
            talc_check_sample_free(sample);
        }
        cr_assert(r[0].error == r[1].error, "seed %d", (int)seed);
        cr_assert(r[0].error == 0 ||
                  (r[0].where[0] == 0 && r[0].where[2] == 1 && r[0].where[3] == 13));
        seen += r[0].error > 0.5;
    }
    cr_assert(seen > 16 && seen < 48, "%d of 64", seen);
}

/* 6000 outputs are no multiple of the sample: the last one is looked at as often as others. */
Test(check_sample, every_output_may_be_chosen)
{
    const talc_conv2d_problem p = conv2d_parse("n1c1h75w80o1k1x1");
    talc_device *cpu = cpu_device();
    const talc_tensor *x = talc_ones(cpu, TALC_F32, TALC_DIMS(1, 1, 75, 80));
    const talc_tensor *w = talc_ones(cpu, TALC_F32, TALC_DIMS(1, 1, 1, 1));
    static const int wrong[] = { 0, 1, 2999, 3000, 5998, 5999 };
    for (int i = 0; i < 6; i++) {
        talc_tensor *y = talc_clone(x);
        assert_no_failure();
        ((float *)talc_data(y, TALC_F32))[wrong[i]] += 1;
        int seen = 0;
        for (uint64_t seed = 0; seed < 32; seed++) {
            talc_check_sample *sample = talc_check_sample_new(&p, x, w, NULL, NULL, seed);
            talc_check_sample_report r;
            cr_assert(talc_check_sample_compare(sample, y, TALC_STRICT, &r));
            seen += r.share > 1;
            talc_check_sample_free(sample);
        }
        cr_assert(seen > 5, "output %d: seen by %d of 32", wrong[i], seen);
    }
}

Test(check_sample, bad_input)
{
    talc_conv2d_problem p = conv2d_parse("n1c2h5w5o3k3x3_bias");
    talc_device *cpu = cpu_device();
    const talc_tensor *x = talc_ones(cpu, TALC_F32, TALC_DIMS(1, 2, 5, 5)),
                      *w = talc_ones(cpu, TALC_F32, TALC_DIMS(3, 2, 3, 3)),
                      *bias = talc_ones(cpu, TALC_F32, TALC_DIMS(3)),
                      *wide = talc_ones(cpu, TALC_F64, TALC_DIMS(3, 2, 3, 3)),
                      *y = talc_zeros(cpu, TALC_F32, TALC_DIMS(1, 3, 3, 3));
    talc_check_sample_report r = { .count = -1 };
    cr_assert_null(talc_check_sample_new(NULL, x, w, bias, NULL, 1));
    assert_failure(TALC_NULL_ARGUMENT, "check: problem is NULL");
    cr_assert_null(talc_check_sample_new(&p, NULL, w, bias, NULL, 1));
    assert_failure(TALC_NULL_ARGUMENT, "check: x is NULL");
    cr_assert_null(talc_check_sample_new(&p, x, w, NULL, NULL, 1));
    assert_failure(TALC_NULL_ARGUMENT, "check: bias is NULL");
    cr_assert_null(talc_check_sample_new(&p, w, x, bias, NULL, 1));
    assert_failure(TALC_BAD_SHAPE, "check: x [3,2,3,3] must be [1,2,5,5]");
    cr_assert_null(talc_check_sample_new(&p, x, wide, bias, NULL, 1));
    assert_failure(TALC_BAD_DTYPE, "check: x is f32, w is f64");
    p.direction = TALC_GRAD_INPUT;
    cr_assert_null(talc_check_sample_new(&p, x, w, bias, NULL, 1));
    assert_failure(TALC_BAD_ARGUMENT, "check: the problem is not a forward convolution of f32");
    p.direction = TALC_FORWARD;
    p.groups = 5;
    cr_assert_null(talc_check_sample_new(&p, x, w, bias, NULL, 1));
    assert_failure(TALC_BAD_SHAPE,
                   "conv2d: groups=5 does not divide 2 channels and 3 output channels");
    p.groups = 1;

    talc_check_sample *sample = talc_check_sample_new(&p, x, w, bias, NULL, 1);
    cr_assert_not_null(sample);
    cr_assert(!talc_check_sample_compare(NULL, y, TALC_STRICT, &r));
    assert_failure(TALC_NULL_ARGUMENT, "check: sample is NULL");
    cr_assert(!talc_check_sample_compare(sample, NULL, TALC_STRICT, &r));
    assert_failure(TALC_NULL_ARGUMENT, "check: y is NULL");
    cr_assert(!talc_check_sample_compare(sample, y, TALC_STRICT, NULL));
    assert_failure(TALC_NULL_ARGUMENT, "check: report is NULL");
    cr_assert(!talc_check_sample_compare(sample, y, (talc_precision)3, &r));
    assert_failure(TALC_BAD_ARGUMENT, "check: 3 is no precision class");
    cr_assert(!talc_check_sample_compare(sample, x, TALC_STRICT, &r));
    assert_failure(TALC_BAD_SHAPE, "check: y [1,2,5,5] must be [1,3,3,3]");
    cr_assert(!talc_check_sample_compare(sample, wide, TALC_STRICT, &r));
    assert_failure(TALC_BAD_DTYPE, "check: y is f64, the problem is f32");
    cr_assert(r.count == -1, "a failing comparison wrote its report");
    talc_check_sample_free(sample);
    talc_check_sample_free(NULL);

    p = conv2d_parse("n0c2h5w5o3k3x3");
    sample = talc_check_sample_new(&p, talc_ones(cpu, TALC_F32, TALC_DIMS(0, 2, 5, 5)), w, NULL,
                                   NULL, 1);
    cr_assert(talc_check_sample_compare(sample, talc_ones(cpu, TALC_F32, TALC_DIMS(0, 3, 3, 3)),
                                        TALC_STRICT, &r));
    cr_assert(r.count == 0 && r.share == 0 && r.error == 0);
    talc_check_sample_free(sample);
}

static void sample_on(fault_run *run)
{
    const talc_conv2d_problem p = conv2d_parse("n2c4h6w7o6k3x3p1x1g2_bias_residual");
    const talc_tensor *x = talc_ones(run->device, TALC_F32, TALC_DIMS(2, 4, 6, 7)),
                      *w = talc_ones(run->device, TALC_F32, TALC_DIMS(6, 2, 3, 3)),
                      *bias = talc_ones(run->device, TALC_F32, TALC_DIMS(6)),
                      *residual = talc_ones(run->device, TALC_F32, TALC_DIMS(2, 6, 6, 7));
    talc_check_sample_report report = { .count = 0 };
    talc_check_sample *sample = talc_check_sample_new(&p, x, w, bias, residual, 1);
    talc_check_sample_compare(sample, residual, TALC_STRICT, &report);
    talc_check_sample_free(sample);
    if (!talc_failed())
        fault_keep_bytes(run, &report, sizeof report);
}

TEST_SURVIVES(check_sample, without_memory, 10, .name = "sample", .run = sample_on)
