/// The oracle itself, against numbers that torch.nn.functional.conv2d gave in float64 (PyTorch 1.13.1, padding by
/// torch.nn.functional.pad), and that its comparison finds what is wrong.
#include "tests/support/conv2d_data.h"
#include "tests/support/hooks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Element i of an operand is (i * step + first) % modulus - middle. */
static double *pattern(int64_t count, int step, int first, int modulus, int middle)
{
    double *values = malloc((size_t)count * sizeof *values + 1);
    cr_assert_not_null(values);
    for (int64_t i = 0; i < count; i++)
        values[i] = (double)((i * step + first) % modulus - middle);
    return values;
}

// clang-format off
static const struct {
    const char *text;
    int64_t shape[4];
    int y[40];
    int S[40];
} rows[] = {
    { "n1c2h3w4o2k2x3p1x1_bias", { 1, 2, 4, 4 },
      { 8, 2, -22, 1, -8, -8, 22, -20, -8, 24, -34, 16, 8, -21, 33, -20, 7, -14, 10, 16, -2, -14, 14, -1, -11, 10, -6, 2, -2, 11, -18, 18 },
      { 24, 34, 30, 17, 48, 56, 62, 36, 48, 62, 58, 34, 24, 29, 37, 20, 25, 30, 36, 26, 30, 56, 52, 45, 25, 54, 60, 48, 22, 27, 26, 22 } },
    { "n2c4h5w3o2k3x2s2x1p0x1x2x0g2", { 2, 2, 3, 3 },
      { -22, 42, -27, 0, 13, -34, 15, 1, -17, 2, 5, -22, -4, -3, -19, 2, -19, 21, 0, 16, 13, -22, 42, -27, -16, 21, -19, 8, 24, -3, 2, 5, -22, 6, -17, 1 },
      { 34, 62, 61, 32, 63, 58, 15, 21, 17, 30, 55, 52, 28, 51, 57, 2, 19, 21, 32, 58, 63, 34, 62, 61, 16, 21, 19, 24, 58, 51, 30, 55, 52, 6, 17, 21 } },
    { "n1c1h7w6o2k3x2s1x2p1x2d2x3", { 1, 2, 5, 4 },
      { -5, -4, 26, 8, 8, -7, -7, 4, 0, -7, -18, -21, 14, 4, -7, -13, 2, 1, 26, 9, 6, -26, -15, 8, 0, 24, -26, 4, 8, 28, -11, -11, -17, 10, 26, -15, -3, -9, -3, 15 },
      { 5, 22, 28, 8, 22, 25, 27, 20, 20, 35, 26, 21, 14, 40, 27, 13, 8, 15, 28, 9, 6, 26, 25, 8, 20, 26, 26, 4, 22, 28, 29, 11, 17, 26, 26, 15, 7, 9, 17, 15 } },
    { "n1c2h3w3o1k3x3p2x1_reflect", { 1, 1, 5, 3 },
      { 12, 21, 17, 16, 25, 10, 24, 33, 7, 20, 51, 14, 12, 21, 17 },
      { 82, 97, 59, 86, 93, 64, 80, 89, 59, 78, 91, 50, 82, 97, 59 } },
    { "n1c1h2w3o1k3x2p1x3x2x0_replicate", { 1, 1, 3, 5 },
      { 1, 1, 1, 29, -15, 1, 1, 1, 29, -15, 0, 0, 0, 28, -16 },
      { 29, 29, 29, 43, 31, 31, 31, 31, 43, 29, 36, 36, 36, 42, 24 } },
    { "n1c1h3w2o1k2x2s2x1p3x1x0x2_circular", { 1, 1, 3, 4 },
      { -20, 23, -20, 23, 19, -15, 19, -15, 5, -7, 5, -7 },
      { 20, 23, 20, 23, 19, 15, 19, 15, 13, 15, 13, 15 } },
    { "n1c3h2w2o3k2x2p1x1g3_bias_residual_relu", { 1, 3, 3, 3 },
      { 0, 0, 0, 0, 28, 0, 5, 0, 5, 0, 0, 0, 20, 0, 1, 0, 16, 0, 1, 19, 0, 0, 1, 0, 4, 11, 0 },
      { 4, 10, 10, 7, 28, 16, 5, 17, 7, 14, 6, 3, 24, 22, 5, 15, 20, 16, 7, 19, 12, 9, 21, 22, 4, 15, 9 } },
};
// clang-format on

Test(oracle, agrees_with_pytorch)
{
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        const talc_conv2d_problem p = conv2d_parse(rows[row].text);
        conv2d_data data = { .problem = p,
                             .x = pattern(p.N * p.C * p.H * p.W, 7, 3, 11, 5),
                             .w = pattern(p.OC * p.C / p.groups * p.KH * p.KW, 5, 1, 7, 3),
                             .bias = p.bias ? pattern(p.OC, 3, 2, 5, 2) : NULL,
                             .residual = p.residual ? pattern(40, 5, 4, 13, 6) : NULL };
        oracle_conv2d oracle = conv2d_oracle(&data);
        const int64_t shape[] = { oracle.N, oracle.OC, oracle.OH, oracle.OW };
        cr_assert(memcmp(shape, rows[row].shape, sizeof shape) == 0, "%s: the shape",
                  rows[row].text);
        cr_assert(oracle.count <= 40 && oracle.K == p.C / p.groups * p.KH * p.KW);
        for (int64_t i = 0; i < oracle.count; i++)
            cr_assert(oracle.y[i] == rows[row].y[i] && oracle.S[i] == rows[row].S[i],
                      "%s element %d: %g (S %g) instead of %d (S %d)", rows[row].text, (int)i,
                      (double)oracle.y[i], oracle.S[i], rows[row].y[i], rows[row].S[i]);
        oracle_free(&oracle);
        conv2d_data_free(&data);
    }
    assert_all_freed();
}

Test(oracle, sigmoid_and_tanh_agree_with_pytorch)
{
    static const double sigmoid[] = { 0.71223218423894696, 0.44552953503957271, 0.48438008427698442,
                                      0.46101677931231599 };
    static const double tangent[] = { 0.71932750101983356, -0.21532633966578324,
                                      -0.062418746747512514, -0.1549907303716235 };
    double *x = pattern(18, 7, 3, 11, 5), *w = pattern(8, 5, 1, 7, 3);
    for (int i = 0; i < 18; i++)
        x[i] /= 8;
    for (int i = 0; i < 8; i++)
        w[i] /= 4;
    talc_conv2d_problem p = conv2d_parse("n1c2h3w3o1k2x2_sigmoid");
    oracle_conv2d curved = oracle_new(&p, x, w, NULL, NULL);
    p.activation = TALC_ACTIVATION_TANH;
    oracle_conv2d other = oracle_new(&p, x, w, NULL, NULL);
    for (int i = 0; i < 4; i++) {
        cr_assert(fabs((double)curved.y[i] - sigmoid[i]) < 1e-15, "sigmoid %d", i);
        cr_assert(fabs((double)other.y[i] - tangent[i]) < 1e-15, "tanh %d", i);
    }
    oracle_free(&curved);
    oracle_free(&other);
    free(x);
    free(w);
    assert_all_freed();
}

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
    conv2d_data data = conv2d_data_new(&p, FILL_INTEGERS, 5);
    oracle_conv2d oracle = conv2d_oracle(&data);
    double *y = malloc((size_t)oracle.count * sizeof *y);
    cr_assert_not_null(y);
    for (int64_t i = 0; i < oracle.count; i++)
        y[i] = (double)oracle.y[i];
    oracle_report report = oracle_compare(&oracle, &p, y, ORACLE_EXACT);
    cr_assert(report.worst == 0 && report.fed == oracle.count && oracle_trusted(&report, &p));

    const int64_t at = ((1 * 4 + 2) * 5 + 3) * 6 + 4;
    const double right = y[at];
    y[at] = right + 1;
    report = oracle_compare(&oracle, &p, y, ORACLE_EXACT);
    cr_assert(isinf(report.worst) && report.n == 1 && report.c == 2 && report.h == 3 &&
              report.w == 4);
    cr_assert(report.got == right + 1 && report.due == right);

    const double bound = 4 * 0x1p-24 * sqrt(27.0 + 4) * oracle.S[at];
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
