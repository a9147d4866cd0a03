/// conv2d's oracle in the cross-check against numbers that do not come from it: by hand and from
/// PyTorch.
#include "check/conv2d/conv2d.h"
#include "tests/support/conv2d_data.h"
#include "tests/support/hooks.h"

#include <float.h>
#include <math.h>
#include <string.h>

static conv2d_data read_problem(const char *text)
{
    const talc_conv2d_problem problem = conv2d_parse(text);
    return conv2d_data_zeros(&problem);
}

// ---- By hand ------------------------------------------------------------------------------------

/* x is 1, 2, 3 ... and w the powers of ten, so that the digits of an output tell what it read. */
static const struct {
    const char *text;
    int y[16];
    const char *border; /* b where the window reaches into the padding */
} digits[] = {
    { "n1c1h1w4o1k1x2", { 21, 32, 43 }, "..." },
    { "n1c1h4w1o1k2x1", { 21, 32, 43 }, "..." },
    { "n1c1h2w2o1k2x2", { 4321 }, "." },
    { "n1c1h1w4o1k1x2p0x1", { 10, 21, 32, 43, 4 }, "b...b" },
    { "n1c1h1w4o1k1x2p0x2x0x0", { 0, 10, 21, 32, 43 }, "bb..." },
    { "n1c1h1w4o1k1x2p0x0x0x1", { 21, 32, 43, 4 }, "...b" },
    { "n1c1h3w1o1k2x1p1x0x2x0", { 10, 21, 32, 3, 0 }, "b..bb" },
    { "n1c1h1w5o1k1x2s1x2", { 21, 43 }, ".." },
    { "n1c1h5w1o1k2x1s3x1", { 21, 54 }, ".." },
    { "n1c1h1w5o1k1x2d1x2", { 31, 42, 53 }, "..." },
    { "n1c1h5w1o1k2x1d3x1", { 41, 52 }, ".." },
    { "n1c1h1w4o1k1x2p0x3d1x2", { 0, 10, 20, 31, 42, 3, 4, 0 }, "bbb..bbb" },
    { "n1c1h1w3o1k1x3p0x2_reflect", { 123, 212, 321, 232, 123 }, "bb.bb" },
    { "n1c1h3w1o1k3x1p1x0_reflect", { 212, 321, 232 }, "b.b" },
    { "n1c1h1w3o1k1x3p0x2_replicate", { 111 + 0, 211, 321, 332, 333 }, "bb.bb" },
    { "n1c1h3w1o1k3x1p1x0x2x0_replicate", { 211, 321, 332, 333 }, "b.bb" },
    { "n1c1h1w3o1k1x3p0x3_circular", { 321, 132, 213, 321, 132, 213, 321 }, "bbb.bbb" },
    { "n1c1h3w1o1k3x1p2x0x1x0_circular", { 132, 213, 321, 132 }, "bb.b" },
    { "n1c2h1w1o1k1x1", { 21 }, "." },
    { "n1c2h1w1o2k1x1g2", { 1, 20 }, ".." },
    { "n1c2h1w1o4k1x1g2", { 1, 10, 200, 2000 }, "...." },
    { "n2c1h1w2o1k1x2", { 21, 43 }, ".." },
    { "n1c1h1w2o1k1x1_bias", { 1 + 1, 2 + 1 }, ".." },
    { "n1c1h1w2o1k1x1_residual", { 1 + 1, 2 + 2 }, ".." },
    { "n1c1h1w2o2k1x1_bias_residual", { 1 + 1 + 1, 2 + 1 + 2, 10 + 2 + 3, 20 + 2 + 4 }, "...." },
};

Test(check_conv2d, digits_by_hand)
{
    for (size_t row = 0; row < sizeof digits / sizeof *digits; row++)
        for (int doubles = 0; doubles < 2; doubles++) {
            char text[80];
            snprintf(text, sizeof text, "%s%s", digits[row].text, doubles != 0 ? "_f64" : "");
            owned_conv2d_data q = read_problem(text);
            const talc_conv2d_problem *p = &q.problem;
            const int64_t K = p->C / p->groups * p->KH * p->KW;
            for (int64_t i = 0; i < p->N * p->C * p->H * p->W; i++)
                q.x[i] = (double)(i + 1);
            for (int64_t i = 0; i < p->OC * K; i++)
                q.w[i] = pow(10, (double)i);
            for (int64_t i = 0; i < p->OC && p->bias; i++)
                q.bias[i] = (double)(i + 1);
            for (int64_t i = 0; i < q.y_count && p->residual; i++)
                q.residual[i] = (double)(i + 1);
            cr_assert(q.y_count == (int64_t)strlen(digits[row].border), "%s: %d outputs", text,
                      (int)q.y_count);
            for (int64_t i = 0; i < q.y_count; i++) {
                const check_expected expected = conv2d_expected(&q, i);
                cr_assert(expected.value == digits[row].y[i], "%s output %d: %g instead of %d",
                          text, (int)i, (double)expected.value, digits[row].y[i]);
                cr_assert(expected.S == digits[row].y[i] && expected.K == (double)K &&
                              expected.extra == 0,
                          "%s output %d: S %g, K %g", text, (int)i, expected.S, expected.K);
                cr_assert(expected.border == (digits[row].border[i] == 'b') && !expected.any,
                          "%s output %d: border", text, (int)i);
            }
            cr_assert(talc_check_terms(&q.problem) == (double)K);
        }
}

/* S adds sizes before the activation: 1*2 - 3*4 + 5 - 6. */
Test(check_conv2d, signs_and_activations)
{
    static const struct {
        const char *text;
        double value, extra_per_u;
    } cases[] = {
        { "n1c2h1w1o1k1x1_bias_residual", -11, 0 },
        { "n1c2h1w1o1k1x1_bias_residual_relu", 0, 0 },
        { "n1c2h1w1o1k1x1_bias_residual_sigmoid", 1.6701421848095181e-5,
          8 * 1.6701421848095181e-5 },
        { "n1c2h1w1o1k1x1_bias_residual_tanh", -0.99999999944210641, 8 * 0.99999999944210641 },
        { "n1c2h1w1o1k1x1_bias_residual_tanh_f64", -0.99999999944210641, 8 * 0.99999999944210641 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        owned_conv2d_data q = read_problem(cases[i].text);
        const double u = q.problem.dtype == TALC_F32 ? 0x1p-24 : 0x1p-53;
        memcpy(q.x, (double[]){ 1, -3 }, 2 * sizeof(double));
        memcpy(q.w, (double[]){ 2, 4 }, 2 * sizeof(double));
        q.bias[0] = 5;
        q.residual[0] = -6;
        const check_expected expected = conv2d_expected(&q, 0);
        cr_assert(fabs((double)expected.value - cases[i].value) <= 1e-15 * fabs(cases[i].value),
                  "%s: %.17g", cases[i].text, (double)expected.value);
        cr_assert(expected.S == 2 + 12 + 5 + 6 && expected.K == 2);
        cr_assert(fabs(expected.extra - cases[i].extra_per_u * u) <= 1e-12 * u, "%s: %g",
                  cases[i].text, expected.extra);
    }
}

/* 2^53 + 1 needs more than double; f32 data do not come so far. */
Test(check_conv2d, sums_of_f64_in_long_double)
{
    owned_conv2d_data q = read_problem("n1c3h1w1o1k1x1_f64");
    memcpy(q.x, (double[]){ 0x1p53, 1, -0x1p53 }, 3 * sizeof(double));
    memcpy(q.w, (double[]){ 1, 1, 1 }, 3 * sizeof(double));
    cr_assert(conv2d_expected(&q, 0).value == 1);
    q.x[0] = 1 + 0x1p-52;
    q.w[0] = 1 - 0x1p-53;
    q.x[1] = -1;
    q.x[2] = 0;
    cr_assert(conv2d_expected(&q, 0).value ==
                  (sizeof(long double) > 8 && LDBL_MANT_DIG >= 64 ? 0x1p-53L : 0) ||
              LDBL_MANT_DIG > 64);
}

// ---- What is not finite -------------------------------------------------------------------------

Test(check_conv2d, infinities)
{
    owned_conv2d_data q = read_problem("n1c1h1w3o1k1x1_relu");
    memcpy(q.x, (double[]){ INFINITY, -INFINITY, NAN }, 3 * sizeof(double));
    q.w[0] = 2;
    check_expected expected = conv2d_expected(&q, 0);
    cr_assert(expected.value == INFINITY && expected.S == 0);
    expected = conv2d_expected(&q, 1);
    cr_assert(expected.value == 0 && expected.S == 0, "a ReLU of -inf is 0 and nothing near it");
    cr_assert(isnan((double)conv2d_expected(&q, 2).value));
}

/* Infinity times a zero of the padding is NaN, as the formula says; other modes have no zeros. */
Test(check_conv2d, weights_over_padding)
{
    static const struct {
        const char *text;
        int64_t infinite;     /* weight */
        const char *expected; /* n: NaN, i: infinity */
    } cases[] = {
        { "n1c1h1w3o1k1x3p0x1", 0, "nii" },
        { "n1c1h1w3o1k1x3p0x1", 1, "iii" },
        { "n1c1h1w3o1k1x3p0x1", 2, "iin" },
        { "n1c1h1w3o1k1x3p0x0x0x1", 0, "ii" },
        { "n1c1h3w1o1k3x1p1x0", 0, "nii" },
        { "n1c2h1w3o1k1x3p0x1", 3, "nii" }, /* of the second channel */
        { "n1c1h1w3o1k1x3p0x1_replicate", 0, "iii" },
        { "n1c2h1w3o2k1x3p0x1g2", 0, "nii..." },
        { "n1c2h1w3o2k1x3p0x1g2", 5, "...iin" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        owned_conv2d_data q = read_problem(cases[i].text);
        for (int64_t j = 0; j < q.x_count; j++)
            q.x[j] = 1;
        for (int64_t j = 0; j < q.w_count; j++)
            q.w[j] = j == cases[i].infinite ? INFINITY : 1;
        for (int64_t j = 0; j < q.y_count; j++) {
            const double value = (double)conv2d_expected(&q, j).value;
            cr_assert((isnan(value)   ? 'n'
                       : isinf(value) ? 'i'
                                      : '.') == cases[i].expected[j],
                      "%s output %d: %g", cases[i].text, (int)j, value);
        }
    }
}

// ---- PyTorch ------------------------------------------------------------------------------------

/* Element i of an operand is (i * step + first) % modulus - middle. */
static void pattern(double *values, int64_t count, int step, int first, int modulus, int middle)
{
    for (int64_t i = 0; i < count; i++)
        values[i] = (double)((i * step + first) % modulus - middle);
}

static void fill_patterns(conv2d_data *q)
{
    const talc_conv2d_problem *p = &q->problem;
    pattern(q->x, p->N * p->C * p->H * p->W, 7, 3, 11, 5);
    pattern(q->w, p->OC * (p->C / p->groups) * p->KH * p->KW, 5, 1, 7, 3);
    if (p->bias)
        pattern(q->bias, p->OC, 3, 2, 5, 2);
    if (p->residual)
        pattern(q->residual, q->y_count, 5, 4, 13, 6);
}

/* torch.nn.functional.conv2d in float64 (PyTorch 1.13.1, padding by torch.nn.functional.pad). */
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

Test(check_conv2d, agrees_with_pytorch)
{
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        owned_conv2d_data q = read_problem(rows[row].text);
        const talc_conv2d_problem *p = &q.problem;
        const int64_t shape[] = { p->N, p->OC, p->OH, p->OW };
        cr_assert(memcmp(shape, rows[row].shape, sizeof shape) == 0, "%s: the shape",
                  rows[row].text);
        fill_patterns(&q);
        for (int64_t i = 0; i < q.y_count; i++) {
            const check_expected expected = conv2d_expected(&q, i);
            cr_assert(expected.value == rows[row].y[i] && expected.S == rows[row].S[i],
                      "%s element %d: %g (S %g) instead of %d (S %d)", rows[row].text, (int)i,
                      (double)expected.value, expected.S, rows[row].y[i], rows[row].S[i]);
        }
    }
}

Test(check_conv2d, sigmoid_and_tanh_agree_with_pytorch)
{
    static const double expected[2][4] = {
        { 0.71223218423894696, 0.44552953503957271, 0.48438008427698442, 0.46101677931231599 },
        { 0.71932750101983356, -0.21532633966578324, -0.062418746747512514, -0.1549907303716235 }
    };
    for (int i = 0; i < 2; i++) {
        owned_conv2d_data q =
            read_problem(i == 0 ? "n1c2h3w3o1k2x2_sigmoid" : "n1c2h3w3o1k2x2_tanh");
        fill_patterns(&q);
        for (int j = 0; j < 18; j++)
            q.x[j] /= 8;
        for (int j = 0; j < 8; j++)
            q.w[j] /= 4;
        for (int j = 0; j < 4; j++)
            cr_assert(fabs((double)conv2d_expected(&q, j).value - expected[i][j]) < 1e-15,
                      "row %d, %d", i, j);
    }
}
