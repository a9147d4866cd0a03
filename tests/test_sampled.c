/// The check that `talc bench` and `talc run` make of results: it has to accept right ones and see wrong ones.
#include "tests/support/hooks.h"

#include "tools/sampled.h"

#include <math.h>
#include <string.h>

/* x and w of ones, [1,2,5,5] and [3,2,3,3]: every output is 18 = S, K = 18. */
static void ones(sampled *expected, talc_tensor **y)
{
    talc_conv2d_problem problem;
    talc_device *cpu = cpu_device();
    cr_assert(talc_conv2d_problem_parse("n1c2h5w5o3k3x3", &problem));
    cr_assert(sampled_prepare(expected, &problem, talc_ones(cpu, TALC_F32, TALC_DIMS(1, 2, 5, 5)),
                              talc_ones(cpu, TALC_F32, TALC_DIMS(3, 2, 3, 3)), NULL, NULL, 1));
    *y = talc_full(cpu, TALC_F32, TALC_DIMS(1, 3, 3, 3), 18.0);
    cr_assert(expected->count == 27);
    cr_assert(expected->exact[13] == 18.0 && expected->scale[13] == 18.0);
    cr_assert(fabs(expected->bound[13] / (4 * 0x1p-24 * sqrt(22.0) * 18.0) - 1) < 1e-12);
}

Test(sampled, errors_are_shares_of_the_bound)
{
    static sampled expected;
    talc_tensor *y;
    sampled_result r;
    ones(&expected, &y);
    cr_assert(sampled_compare(&expected, y, TALC_STRICT, &r));
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
        { 18.0f * (1 + 0x1p-9f), TALC_TF32, false },
        { 18.0f * (1 + 0x1p-19f), TALC_NORMWISE, true }, /* one output of 27 */
        { 18.0f * (1 + 0x1p-16f), TALC_NORMWISE, false },
        { NAN, TALC_STRICT, false },
        { INFINITY, TALC_STRICT, false },
        { NAN, TALC_NORMWISE, false },
        { NAN, TALC_TF32, false },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ((float *)talc_data(y, TALC_F32))[1 * 9 + 2 * 3 + 0] = cases[i].value;
        cr_assert(sampled_compare(&expected, y, cases[i].precision, &r));
        cr_assert((r.share <= 1) == cases[i].passes, "case %zu: share %g", i, r.share);
        cr_assert(r.where[0] == 0 && r.where[1] == 1 && r.where[2] == 2 && r.where[3] == 0);
        cr_assert(!(r.error < fabs((double)cases[i].value - 18.0)));
    }
    assert_all_freed();
}

/* One row a, b, c = 1, 2, 3 under the taps 1, 10, 100 with two columns of padding on either side. */
Test(sampled, padding_modes_and_operands)
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
        static sampled expected;
        talc_conv2d_problem p;
        talc_device *cpu = cpu_device();
        cr_assert(talc_conv2d_problem_parse(cases[i].text, &p), "%s", cases[i].text);
        const double taps[] = { 1, 10, 100 };
        const talc_tensor *x = talc_view(talc_arange(cpu, p.dtype, 1, 4, 1), TALC_DIMS(1, 1, 1, 3));
        const talc_tensor *w =
            talc_cast(talc_from_host(cpu, TALC_F64, TALC_DIMS(1, 1, 1, p.KW), taps), p.dtype);
        const talc_tensor *bias = p.bias ? talc_full(cpu, p.dtype, TALC_DIMS(1), -5) : NULL;
        const talc_tensor *residual =
            p.residual ? talc_view(talc_arange(cpu, p.dtype, 0, 5, 1), TALC_DIMS(1, 1, 1, 5))
                       : NULL;
        assert_no_failure();
        cr_assert(sampled_prepare(&expected, &p, x, w, bias, residual, 1));
        cr_assert(expected.count == p.OW, "%s", cases[i].text);
        for (int ow = 0; ow < p.OW; ow++)
            cr_assert(expected.exact[ow] == cases[i].y[ow], "%s at %d: %g", cases[i].text, ow,
                      expected.exact[ow]);
    }
    assert_all_freed();
}

Test(sampled, chooses_by_seed)
{
    static sampled a, b;
    talc_conv2d_problem p;
    cr_assert(talc_conv2d_problem_parse("n2c1h64w64o1k1x1", &p));
    const talc_tensor *x = talc_rand(cpu_device(), TALC_F32, TALC_DIMS(2, 1, 64, 64));
    const talc_tensor *w = talc_ones(cpu_device(), TALC_F32, TALC_DIMS(1, 1, 1, 1));
    sampled_result r;
    cr_assert(sampled_prepare(&a, &p, x, w, NULL, NULL, 1));
    cr_assert(sampled_prepare(&b, &p, x, w, NULL, NULL, 1));
    cr_assert(a.count == SAMPLED_OUTPUTS && memcmp(a.index, b.index, sizeof a.index) == 0);
    cr_assert(sampled_prepare(&b, &p, x, w, NULL, NULL, 2));
    cr_assert(memcmp(a.index, b.index, sizeof a.index) != 0);
    cr_assert(sampled_compare(&a, x, TALC_STRICT, &r) && r.error == 0); /* y is x */
    assert_all_freed();
}
