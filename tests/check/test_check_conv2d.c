/// The oracle of conv2d and of its gradients in the cross-check against numbers that do not come
/// from it, by hand and from PyTorch; how problems of gradients read, and what their operands are
/// filled with.
#include "check/conv2d/conv2d.h"
#include "tests/support/conv2d_data.h"
#include "tests/support/problem_data.h"

#include <float.h>
#include <string.h>

static const talc_conv2d_problem *problem_of(const problem_data *q)
{
    return (const talc_conv2d_problem *)(const void *)&q->problem;
}

static talc_direction direction_of(const problem_data *q)
{
    return problem_of(q)->direction;
}

/* The operands in the order in which the oracle takes them, and the result. */
static double *first_of(const problem_data *q)
{
    return q->values.of[talc_check_conv2d_read(direction_of(q), 0)];
}

static double *second_of(const problem_data *q)
{
    return q->values.of[talc_check_conv2d_read(direction_of(q), 1)];
}

static const check_operand *operand(const problem_data *q, int order)
{
    return &q->list[order < 2 ? talc_check_conv2d_read(direction_of(q), order)
                              : talc_check_conv2d_written(direction_of(q))];
}

static check_expected result_expected(const problem_data *q, int64_t index)
{
    return expected_at(q, talc_check_conv2d_written(direction_of(q)), index);
}

// ---- By hand ------------------------------------------------------------------------------------

/* The first operand, x or dy, is 1, 2, 3 ..., as bias and residual are, and the second, w or dy,
 * the powers of ten, so that the digits of an element tell what it is made of. */
static const struct {
    const char *text;
    int expected[16];
    const char *K;      /* a digit for each, or one for all */
    const char *border; /* b where the window reaches into the padding */
} digits[] = {
    { "n1c1h1w4o1k1x2", { 21, 32, 43 }, "2", "..." },
    { "n1c1h4w1o1k2x1", { 21, 32, 43 }, "2", "..." },
    { "n1c1h2w2o1k2x2", { 4321 }, "4", "." },
    { "n1c1h1w4o1k1x2p0x1", { 10, 21, 32, 43, 4 }, "2", "b...b" },
    { "n1c1h1w4o1k1x2p0x2x0x0", { 0, 10, 21, 32, 43 }, "2", "bb..." },
    { "n1c1h1w4o1k1x2p0x0x0x1", { 21, 32, 43, 4 }, "2", "...b" },
    { "n1c1h3w1o1k2x1p1x0x2x0", { 10, 21, 32, 3, 0 }, "2", "b..bb" },
    { "n1c1h1w5o1k1x2s1x2", { 21, 43 }, "2", ".." },
    { "n1c1h5w1o1k2x1s3x1", { 21, 54 }, "2", ".." },
    { "n1c1h1w5o1k1x2d1x2", { 31, 42, 53 }, "2", "..." },
    { "n1c1h5w1o1k2x1d3x1", { 41, 52 }, "2", ".." },
    { "n1c1h1w4o1k1x2p0x3d1x2", { 0, 10, 20, 31, 42, 3, 4, 0 }, "2", "bbb..bbb" },
    { "n1c1h1w3o1k1x3p0x2_reflect", { 123, 212, 321, 232, 123 }, "3", "bb.bb" },
    { "n1c1h3w1o1k3x1p1x0_reflect", { 212, 321, 232 }, "3", "b.b" },
    { "n1c1h1w3o1k1x3p0x2_replicate", { 111 + 0, 211, 321, 332, 333 }, "3", "bb.bb" },
    { "n1c1h3w1o1k3x1p1x0x2x0_replicate", { 211, 321, 332, 333 }, "3", "b.bb" },
    { "n1c1h1w3o1k1x3p0x3_circular", { 321, 132, 213, 321, 132, 213, 321 }, "3", "bbb.bbb" },
    { "n1c1h3w1o1k3x1p2x0x1x0_circular", { 132, 213, 321, 132 }, "3", "bb.b" },
    { "n1c2h1w1o1k1x1", { 21 }, "2", "." },
    { "n1c2h1w1o2k1x1g2", { 1, 20 }, "1", ".." },
    { "n1c2h1w1o4k1x1g2", { 1, 10, 200, 2000 }, "1", "...." },
    { "n2c1h1w2o1k1x2", { 21, 43 }, "2", ".." },
    { "n1c1h1w2o1k1x1_bias", { 1 + 1, 2 + 1 }, "1", ".." },
    { "n1c1h1w2o1k1x1_residual", { 1 + 1, 2 + 2 }, "1", ".." },
    { "n1c1h1w2o2k1x1_bias_residual",
      { 1 + 1 + 1, 2 + 1 + 2, 10 + 2 + 3, 20 + 2 + 4 },
      "1",
      "...." },
    /* Gradients. */
    { "n1c1h1w4o1k1x2_dx", { 1, 12, 23, 30 }, "1221", "b..b" },
    { "n1c1h4w1o1k2x1_dx", { 1, 12, 23, 30 }, "1221", "b..b" },
    { "n1c1h1w5o1k1x2s1x2_dx", { 1, 10, 2, 20, 0 }, "11110", "....b" },
    { "n1c1h4w1o1k2x1s3x1_dx", { 1, 10, 0, 0 }, "1100", "...b" },
    { "n1c1h1w4o1k1x2d1x2_dx", { 1, 2, 10, 20 }, "1111", "bbbb" },
    { "n1c1h1w3o1k1x3p0x1_dx", { 12, 123, 230 }, "232", "b.b" },
    { "n1c1h3w1o1k3x1p1x0_dx", { 12, 123, 230 }, "232", "b.b" },
    { "n1c1h1w1o2k1x1_dx", { 21 }, "2", "." },
    { "n1c2h1w1o2k1x1_dx", { 201, 2010 }, "22", ".." },
    { "n1c2h1w1o4k1x1g2_dx", { 21, 4300 }, "22", ".." },
    { "n2c1h1w1o1k1x1_dx", { 1, 2 }, "11", ".." },
    { "n1c1h1w4o1k1x2_dw", { 321, 432 }, "33", ".." },
    { "n1c1h4w1o1k2x1_dw", { 321, 432 }, "33", ".." },
    { "n1c1h1w5o1k1x2s1x2_dw", { 31, 42 }, "22", ".." },
    { "n1c1h5w1o1k2x1s3x1_dw", { 41, 52 }, "22", ".." },
    { "n1c1h1w4o1k1x2d1x2_dw", { 21, 43 }, "22", ".." },
    { "n1c1h1w3o1k1x3p0x1_dw", { 210, 321, 32 }, "333", "b.b" },
    { "n1c1h4w1o1k2x1p1x0x0x0_dw", { 3210, 4321 }, "44", "b." },
    { "n1c2h1w1o2k1x1_dw", { 1, 2, 10, 20 }, "1111", "...." },
    { "n1c2h1w1o4k1x1g2_dw", { 1, 10, 200, 2000 }, "1111", "...." },
    { "n2c1h1w1o1k1x1_dw", { 21 }, "2", "." },
    { "n1c1h1w3o1k1x3p0x1_circular_dx", { 1, 12, 123, 230, 300 }, "12321", "bb.bb" },
};

Test(check_conv2d, digits_by_hand)
{
    for (size_t row = 0; row < sizeof digits / sizeof *digits; row++)
        for (int doubles = 0; doubles < 2; doubles++) {
            char text[80];
            snprintf(text, sizeof text, "%s%s", digits[row].text, doubles != 0 ? "_f64" : "");
            owned_problem_data q = read_problem(text);
            for (int order = 0; order < 4; order++) {
                const int of = talc_check_conv2d_read(direction_of(&q), order);
                for (int64_t i = 0; q.list[of].role == CHECK_READ && i < q.list[of].count; i++)
                    q.values.of[of][i] = order == 1 ? pow(10, (double)i) : (double)(i + 1);
            }
            cr_assert(operand(&q, 2)->count == (int64_t)strlen(digits[row].border),
                      "%s: %d elements", text, (int)operand(&q, 2)->count);
            for (int64_t i = 0; i < operand(&q, 2)->count; i++) {
                const check_expected expected = result_expected(&q, i);
                const int K = digits[row].K[strlen(digits[row].K) > 1 ? i : 0] - '0';
                cr_assert(expected.value == digits[row].expected[i] &&
                              expected.S == digits[row].expected[i],
                          "%s element %d: %g (S %g) instead of %d", text, (int)i,
                          (double)expected.value, expected.S, digits[row].expected[i]);
                cr_assert(expected.K == K && expected.extra == 0 && !expected.any,
                          "%s element %d: K %g", text, (int)i, expected.K);
                cr_assert(expected.border == (digits[row].border[i] == 'b'),
                          "%s element %d: border", text, (int)i);
                cr_assert(direction_of(&q) != TALC_FORWARD ||
                          talc_check_terms(problem_of(&q)) == K);
            }
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
        owned_problem_data q = read_problem(cases[i].text);
        const double u = problem_of(&q)->dtype == TALC_F32 ? 0x1p-24 : 0x1p-53;
        memcpy(first_of(&q), (double[]){ 1, -3 }, 2 * sizeof(double));
        memcpy(second_of(&q), (double[]){ 2, 4 }, 2 * sizeof(double));
        q.values.of[CHECK_BIAS][0] = 5;
        q.values.of[CHECK_RESIDUAL][0] = -6;
        const check_expected expected = result_expected(&q, 0);
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
    static const char *const texts[] = { "n1c1h1w1o3k1x1_f64_dx", "n3c1h1w1o1k1x1_f64_dw",
                                         "n1c3h1w1o1k1x1_f64" };
    for (int i = 0; i < 3; i++) {
        owned_problem_data q = read_problem(texts[i]);
        memcpy(first_of(&q), (double[]){ 0x1p53, 1, -0x1p53 }, 3 * sizeof(double));
        memcpy(second_of(&q), (double[]){ 1, 1, 1 }, 3 * sizeof(double));
        cr_assert(result_expected(&q, 0).value == (LDBL_MANT_DIG >= 64 ? 1 : 0), "%s", texts[i]);
    }
    owned_problem_data q = read_problem("n1c3h1w1o1k1x1_f64");
    memcpy(first_of(&q), (double[]){ 1 + 0x1p-52, -1, 0 }, 3 * sizeof(double));
    memcpy(second_of(&q), (double[]){ 1 - 0x1p-53, 1, 1 }, 3 * sizeof(double));
    cr_assert(result_expected(&q, 0).value ==
                  (sizeof(long double) > 8 && LDBL_MANT_DIG >= 64 ? 0x1p-53L : 0) ||
              LDBL_MANT_DIG > 64);
}

// ---- What is not finite -------------------------------------------------------------------------

Test(check_conv2d, infinities)
{
    owned_problem_data q = read_problem("n1c1h1w3o1k1x1_relu");
    memcpy(first_of(&q), (double[]){ INFINITY, -INFINITY, NAN }, 3 * sizeof(double));
    second_of(&q)[0] = 2;
    check_expected expected = result_expected(&q, 0);
    cr_assert(expected.value == INFINITY && expected.S == 0);
    expected = result_expected(&q, 1);
    cr_assert(expected.value == 0 && expected.S == 0, "a ReLU of -inf is 0 and nothing near it");
    cr_assert(isnan((double)result_expected(&q, 2).value));
}

/* Infinity times a zero of the padding is NaN, in y and dw, as the formulas say; other modes have
 * no zeros. In dx there is nothing where there is no output. */
Test(check_conv2d, what_is_not_finite_over_padding)
{
    static const struct {
        const char *text;
        int64_t infinite;     /* of the second operand */
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
        { "n1c1h1w3o1k1x3p0x1_dx", 0, "ii." },
        { "n1c1h1w3o1k1x3p0x1_dx", 1, "iii" },
        { "n1c1h1w3o1k1x3p0x1_dx", 2, ".ii" },
        { "n1c1h3w1o1k3x1p1x0_dx", 0, "ii." },
        { "n1c1h1w5o1k1x2s1x2_dx", 0, "i.i.." },
        { "n1c1h1w5o1k1x2s1x2_dx", 1, ".i.i." },
        { "n1c2h1w3o2k1x3p0x1g2_dx", 0, "ii...." },
        { "n1c2h1w3o2k1x3p0x1g2_dx", 5, "....ii" },
        { "n1c2h1w3o1k1x3p0x1_dx", 3, "...ii." }, /* of the second channel */
        { "n1c1h1w3o1k1x3p0x1_dw", 0, "nii" },
        { "n1c1h1w3o1k1x3p0x1_dw", 1, "iii" },
        { "n1c1h1w3o1k1x3p0x1_dw", 2, "iin" },
        { "n1c1h3w1o1k3x1p1x0_dw", 0, "nii" },
        { "n1c2h1w3o2k1x3p0x1g2_dw", 3, "...nii" },
        { "n2c1h1w3o1k1x3p0x1_dw", 5, "iin" }, /* of the second image */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        owned_problem_data q = read_problem(cases[i].text);
        for (int64_t j = 0; j < operand(&q, 0)->count; j++)
            first_of(&q)[j] = 1;
        for (int64_t j = 0; j < operand(&q, 1)->count; j++)
            second_of(&q)[j] = j == cases[i].infinite ? INFINITY : 1;
        for (int64_t j = 0; j < operand(&q, 2)->count; j++) {
            const double value = (double)result_expected(&q, j).value;
            cr_assert((isnan(value)   ? 'n'
                       : isinf(value) ? 'i'
                                      : '.') == cases[i].expected[j],
                      "%s with %d, element %d: %g", cases[i].text, (int)cases[i].infinite, (int)j,
                      value);
        }
    }
}

// ---- PyTorch ------------------------------------------------------------------------------------

/* Element i of x is (7 i + 3) % 11 - 5, of w (5 i + 1) % 7 - 3, of bias (3 i + 2) % 5 - 2, of
 * residual and dy (5 i + 4) % 13 - 6. */
static void fill_patterns(const problem_data *q)
{
    static const int of[][4] = { [CHECK_X] = { 7, 3, 11, 5 },
                                 [CHECK_W] = { 5, 1, 7, 3 },
                                 [CHECK_BIAS] = { 3, 2, 5, 2 },
                                 [CHECK_RESIDUAL] = { 5, 4, 13, 6 },
                                 [CHECK_DY] = { 5, 4, 13, 6 } };
    for (int k = 0; k <= CHECK_DY; k++)
        for (int64_t i = 0; q->list[k].role == CHECK_READ && i < q->list[k].count; i++)
            q->values.of[k][i] = (double)((i * of[k][0] + of[k][1]) % of[k][2] - of[k][3]);
}

/* torch.nn.functional.conv2d in float64 (PyTorch 1.13.1, padding by torch.nn.functional.pad), and
 * torch.nn.grad.conv2d_input and conv2d_weight (PyTorch 2.15.0). */
// clang-format off
static const struct {
    const char *text;
    int64_t shape[4]; /* of y */
    int expected[40];
    int S[40];
    int K[40]; /* of dx; of the others the first, for all */
} rows[] = {
    { "n1c2h3w4o2k2x3p1x1_bias", { 1, 2, 4, 4 },
      { 8, 2, -22, 1, -8, -8, 22, -20, -8, 24, -34, 16, 8, -21, 33, -20, 7, -14, 10, 16, -2, -14, 14, -1, -11, 10, -6, 2, -2, 11, -18, 18 },
      { 24, 34, 30, 17, 48, 56, 62, 36, 48, 62, 58, 34, 24, 29, 37, 20, 25, 30, 36, 26, 30, 56, 52, 45, 25, 54, 60, 48, 22, 27, 26, 22 }, { 12 } },
    { "n2c4h5w3o2k3x2s2x1p0x1x2x0g2", { 2, 2, 3, 3 },
      { -22, 42, -27, 0, 13, -34, 15, 1, -17, 2, 5, -22, -4, -3, -19, 2, -19, 21, 0, 16, 13, -22, 42, -27, -16, 21, -19, 8, 24, -3, 2, 5, -22, 6, -17, 1 },
      { 34, 62, 61, 32, 63, 58, 15, 21, 17, 30, 55, 52, 28, 51, 57, 2, 19, 21, 32, 58, 63, 34, 62, 61, 16, 21, 19, 24, 58, 51, 30, 55, 52, 6, 17, 21 }, { 12 } },
    { "n1c1h7w6o2k3x2s1x2p1x2d2x3", { 1, 2, 5, 4 },
      { -5, -4, 26, 8, 8, -7, -7, 4, 0, -7, -18, -21, 14, 4, -7, -13, 2, 1, 26, 9, 6, -26, -15, 8, 0, 24, -26, 4, 8, 28, -11, -11, -17, 10, 26, -15, -3, -9, -3, 15 },
      { 5, 22, 28, 8, 22, 25, 27, 20, 20, 35, 26, 21, 14, 40, 27, 13, 8, 15, 28, 9, 6, 26, 25, 8, 20, 26, 26, 4, 22, 28, 29, 11, 17, 26, 26, 15, 7, 9, 17, 15 }, { 6 } },
    { "n1c2h3w3o1k3x3p2x1_reflect", { 1, 1, 5, 3 },
      { 12, 21, 17, 16, 25, 10, 24, 33, 7, 20, 51, 14, 12, 21, 17 },
      { 82, 97, 59, 86, 93, 64, 80, 89, 59, 78, 91, 50, 82, 97, 59 }, { 18 } },
    { "n1c1h2w3o1k3x2p1x3x2x0_replicate", { 1, 1, 3, 5 },
      { 1, 1, 1, 29, -15, 1, 1, 1, 29, -15, 0, 0, 0, 28, -16 },
      { 29, 29, 29, 43, 31, 31, 31, 31, 43, 29, 36, 36, 36, 42, 24 }, { 6 } },
    { "n1c1h3w2o1k2x2s2x1p3x1x0x2_circular", { 1, 1, 3, 4 },
      { -20, 23, -20, 23, 19, -15, 19, -15, 5, -7, 5, -7 },
      { 20, 23, 20, 23, 19, 15, 19, 15, 13, 15, 13, 15 }, { 4 } },
    { "n1c3h2w2o3k2x2p1x1g3_bias_residual_relu", { 1, 3, 3, 3 },
      { 0, 0, 0, 0, 28, 0, 5, 0, 5, 0, 0, 0, 20, 0, 1, 0, 16, 0, 1, 19, 0, 0, 1, 0, 4, 11, 0 },
      { 4, 10, 10, 7, 28, 16, 5, 17, 7, 14, 6, 3, 24, 22, 5, 15, 20, 16, 7, 19, 12, 9, 21, 22, 4, 15, 9 }, { 4 } },
    { "n1c2h3w4o2k2x3p1x1_dx", { 0 },
      { 37, 0, 28, -29, -20, 47, -29, 17, 40, 3, 31, -28, -24, 26, -5, 28, -38, -20, 27, -16, -26, 25, -6, 31 },
      { 47, 70, 66, 43, 50, 67, 71, 41, 48, 69, 65, 44, 40, 70, 65, 50, 50, 66, 71, 48, 42, 71, 66, 49 },
      { 8, 12, 12, 8, 8, 12, 12, 8, 8, 12, 12, 8, 8, 12, 12, 8, 8, 12, 12, 8, 8, 12, 12, 8 } },
    { "n1c2h3w4o2k2x3p1x1_dw", { 0 },
      { -1, 30, -52, -1, -21, 47, 50, -102, 73, -46, 58, -92, -1, 65, -58, -1, -77, 41, 44, -92, 44, -52, 68, -30 },
      { 69, 100, 102, 93, 101, 67, 80, 152, 73, 76, 78, 92, 93, 75, 108, 69, 127, 51, 54, 142, 84, 102, 78, 82 },
      { 16 } },
    { "n1c2h5w3o4k3x2s2x1p1x0g2_dx", { 0 },
      { 4, -11, -9, 14, -26, 16, -8, 16, 4, 6, 18, -23, -7, -9, 4, -12, 28, -10, 21, -24, 2, -6, 31, -13, -27, 13, -4, 0, -18, 23 },
      { 8, 25, 9, 18, 42, 32, 8, 18, 4, 26, 46, 23, 17, 15, 4, 12, 28, 10, 39, 42, 6, 6, 31, 17, 33, 47, 14, 0, 18, 23 },
      { 2, 4, 2, 4, 8, 4, 2, 4, 2, 4, 8, 4, 2, 4, 2, 2, 4, 2, 4, 8, 4, 2, 4, 2, 4, 8, 4, 2, 4, 2 } },
    { "n1c2h5w3o4k3x2s2x1p1x0g2_dw", { 0 },
      { -16, -4, 61, -8, 43, -18, 41, -14, -37, -10, -17, -2, -1, 42, 20, -8, 38, -25, -1, -17, -6, -29, -14, 7 },
      { 46, 36, 67, 42, 43, 18, 41, 14, 71, 30, 43, 18, 29, 48, 60, 54, 38, 45, 35, 39, 42, 53, 20, 35 },
      { 6 } },
    { "n1c1h6w6o2k3x2s1x3p2x1d2x2_dx", { 0 },
      { 0, 23, 3, 0, -24, 0, 0, 20, -3, 0, -27, 0, 0, -18, -3, 0, 34, 0, 0, -44, 3, 0, 34, 0, 0, 5, 5, 0, -26, 0, 0, 21, 5, 0, -23, 0 },
      { 0, 23, 15, 0, 24, 0, 0, 20, 27, 0, 27, 0, 0, 42, 37, 0, 34, 0, 0, 44, 19, 0, 34, 0, 0, 17, 21, 0, 26, 0, 0, 21, 33, 0, 23, 0 },
      { 0, 4, 4, 0, 4, 0, 0, 4, 4, 0, 4, 0, 0, 6, 6, 0, 6, 0, 0, 6, 6, 0, 6, 0, 0, 4, 4, 0, 4, 0, 0, 4, 4, 0, 4, 0 } },
    { "n1c1h6w6o2k3x2s1x3p2x1d2x2_dw", { 0 },
      { -14, 8, 60, 14, -33, -40, 26, 13, -34, 2, 55, 18 },
      { 26, 62, 60, 100, 33, 74, 30, 51, 44, 126, 55, 64 },
      { 12 } },
    { "n2c2h3w3o2k2x2_dx", { 0 },
      { 19, -16, 6, 9, -38, 0, -7, 5, 18, 16, -19, 6, 9, 3, -15, -4, 28, -18, 20, -11, 10, 10, -37, 0, -7, 1, 14, 15, -18, 8, 6, 3, -12, -6, 27, -17 },
      { 19, 26, 12, 23, 58, 18, 7, 17, 18, 16, 19, 6, 29, 47, 15, 4, 28, 18, 20, 23, 14, 24, 57, 18, 7, 19, 16, 15, 18, 8, 30, 45, 16, 6, 27, 17 },
      { 2, 4, 2, 4, 8, 4, 2, 4, 2, 2, 4, 2, 4, 8, 4, 2, 4, 2, 2, 4, 2, 4, 8, 4, 2, 4, 2, 2, 4, 2, 4, 8, 4, 2, 4, 2 } },
    { "n2c2h3w3o2k2x2_dw", { 0 },
      { 17, -33, 21, 15, -26, 23, -33, -17, -19, 3, -19, -19, 3, -19, 3, 14 },
      { 51, 67, 55, 61, 66, 53, 67, 45, 91, 83, 87, 83, 83, 91, 83, 92 },
      { 8 } },
};
// clang-format on

Test(check_conv2d, agrees_with_pytorch)
{
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        owned_problem_data q = read_problem(rows[row].text);
        const talc_direction direction = direction_of(&q);
        cr_assert(direction != TALC_FORWARD ||
                      memcmp(operand(&q, 2)->dims, rows[row].shape, sizeof rows[row].shape) == 0,
                  "%s: the shape", rows[row].text);
        fill_patterns(&q);
        for (int64_t i = 0; i < operand(&q, 2)->count; i++) {
            const check_expected expected = result_expected(&q, i);
            const int K = rows[row].K[direction == TALC_GRAD_INPUT ? i : 0];
            cr_assert(expected.value == rows[row].expected[i] && expected.S == rows[row].S[i] &&
                          expected.K == K,
                      "%s element %d: %g (S %g, K %g) instead of %d (S %d, K %d)", rows[row].text,
                      (int)i, (double)expected.value, expected.S, expected.K, rows[row].expected[i],
                      rows[row].S[i], K);
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
        owned_problem_data q =
            read_problem(i == 0 ? "n1c2h3w3o1k2x2_sigmoid" : "n1c2h3w3o1k2x2_tanh");
        fill_patterns(&q);
        for (int j = 0; j < 18; j++)
            first_of(&q)[j] /= 8;
        for (int j = 0; j < 8; j++)
            second_of(&q)[j] /= 4;
        for (int j = 0; j < 4; j++)
            cr_assert(fabs((double)result_expected(&q, j).value - expected[i][j]) < 1e-15,
                      "row %d, %d", i, j);
    }
}

// ---- Texts --------------------------------------------------------------------------------------

/* What a gradient takes no notice of is dropped, and other padding than zeros becomes part of the
 * image. */
Test(check_conv2d, texts_of_gradients)
{
    static const struct {
        const char *text, *full, *op;
    } cases[] = {
        { "n1c2h5w4o2k3x3_dx", "n1c2h5w4o2k3x3s1x1p0x0d1x1g1_dx", "conv2d.grad_input" },
        { "conv2d:n1c2h5w4o2k3x3_dw", "n1c2h5w4o2k3x3s1x1p0x0d1x1g1_dw", "conv2d.grad_weight" },
        { "conv2d.grad_input:n1c2h5w4o2k3x3", "n1c2h5w4o2k3x3s1x1p0x0d1x1g1_dx",
          "conv2d.grad_input" },
        { "conv2d.grad_weight:n1c2h5w4o2k3x3_dw", "n1c2h5w4o2k3x3s1x1p0x0d1x1g1_dw",
          "conv2d.grad_weight" },
        { "n1c2h5w4o2k3x3p1x2_f64_bias_residual_relu_dx", "n1c2h5w4o2k3x3s1x1p1x2d1x1g1_f64_dx",
          "conv2d.grad_input" },
        { "n1c2h5w4o2k3x3p1x2_reflect_dx", "n1c2h7w8o2k3x3s1x1p0x0d1x1g1_dx", "conv2d.grad_input" },
        { "n1c2h5w4o2k3x3p1x0x2x3_replicate_dw", "n1c2h8w7o2k3x3s1x1p0x0d1x1g1_dw",
          "conv2d.grad_weight" },
        { "n1c2h5w4o2k3x3_relu", "n1c2h5w4o2k3x3s1x1p0x0d1x1g1_relu", "conv2d" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        check_problem problem;
        char text[TALC_CHECK_TEXT];
        const check_direction *family = talc_check_parse(cases[i].text, &problem);
        cr_assert(family == &talc_check_conv2d, "%s: %s", cases[i].text, talc_error_message());
        cr_assert(strcmp(talc_check_write(family, &problem, text), cases[i].full) == 0, "%s", text);
        cr_assert(strcmp(talc_check_op(family, &problem), cases[i].op) == 0, "%s",
                  talc_check_op(family, &problem));
    }
    char text[TALC_CHECK_TEXT];
    cr_assert(talc_check_problem_text("conv2d.grad_input:n1c2h5w4o2k3x3_dw", text) == NULL);
    assert_failure(TALC_BAD_ARGUMENT,
                   "conv2d.grad_input: problem 'conv2d.grad_input:n1c2h5w4o2k3x3_dw': expected a "
                   "problem of that direction at position 18");
    cr_assert(talc_check_problem_text("n1c2h5w4o2k3x3_dx_dw", text) == NULL);
    talc_error_clear();
    /* The padded image is too large for memory, which the result of a stride is not. */
    static const char huge[] =
        "n1c8h3w3o1k1x1s1000000000x1000000000p1000000000x1000000000x1000000000"
        "x1000000000_replicate";
    char gradient[120];
    cr_assert(talc_check_problem_text(huge, text) == text, "%s", talc_error_message());
    snprintf(gradient, sizeof gradient, "%s_dx", huge);
    cr_assert(talc_check_problem_text(gradient, text) == NULL);
    cr_assert(talc_error_status() == TALC_TOO_LARGE, "%s", talc_error_message());
    talc_error_clear();
}

/* No algorithm makes the gradient by weights that no image reaches. */
Test(check_conv2d, without_images)
{
    static const char *const texts[] = { "n0c2h4w4o2k3x3_dx", "n0c2h4w4o2k3x3_dw" };
    owned_check *check = talc_check_new(&(talc_check_options){ .device = cpu_device() });
    for (int i = 0; i < 2; i++) {
        cr_assert(talc_check_problem(check, texts[i]), "%s", talc_error_message());
        cr_assert_eq(talc_check_untaken(check), i + 1);
        talc_explanation explanation;
        cr_assert(!talc_explain(cpu_device(), texts[i], NULL, &explanation));
        cr_assert(strstr(talc_error_message(), "has nothing to compute") != NULL);
        talc_error_clear();
    }
}

// ---- Data ---------------------------------------------------------------------------------------

static const char *const posers[] = { "n2c4h9w11o6k3x3p1x1g2_dx", "n2c4h9w11o6k3x3p1x1g2_dw" };

Test(check_conv2d, kinds_of_data_of_gradients)
{
    for (int i = 0; i < 2; i++) {
        owned_problem_data q = read_problem(posers[i]);
        const int64_t firsts = operand(&q, 0)->count, seconds = operand(&q, 1)->count,
                      results = operand(&q, 2)->count;
        q.direction->fill(&q.problem, TALC_CHECK_EXACT, 1, &q.values);
        double max = 0;
        for (int64_t j = 0; j < firsts; j++)
            max = fmax(max, fabs(first_of(&q)[j]));
        cr_assert(max == 8, "%s: %g", posers[i], max);
        q.direction->fill(&q.problem, TALC_CHECK_RANDOM, 1, &q.values);
        double squares = 0;
        for (int64_t j = 0; j < results; j++)
            squares += (double)powl(result_expected(&q, j).value, 2) / (double)results;
        cr_assert(squares > 0.3 && squares < 2, "%s: results of size %g", posers[i], sqrt(squares));
        q.direction->fill(&q.problem, TALC_CHECK_HUGE, 1, &q.values);
        cr_assert(count_of(first_of(&q), firsts, is_huge) +
                      count_of(second_of(&q), seconds, is_huge) ==
                  1);
        /* One place at a time, in each operand and with either sign. */
        static const talc_check_kind kinds[] = { TALC_CHECK_NAN, TALC_CHECK_INFINITY };
        for (int k = 0; k < 2; k++) {
            bool (*const is)(double) = k == 0 ? is_nan : is_infinite;
            int rounds = 0, in_second = 0;
            q.direction->fill(&q.problem, kinds[k], 1, &q.values);
            cr_assert(count_of(first_of(&q), firsts, is) == 1);
            for (;; rounds++) {
                q.direction->fill(&q.problem, kinds[k], 1, &q.values);
                if (!q.direction->inject(&q.problem, kinds[k], rounds, 1, &q.values))
                    break;
                in_second += (int)count_of(second_of(&q), seconds, is);
                cr_assert(
                    count_of(first_of(&q), firsts, is) + count_of(second_of(&q), seconds, is) == 1);
            }
            cr_assert(rounds == 1 + k && in_second == 1, "%s: %d rounds, %d", posers[i], rounds,
                      in_second);
        }
    }
}

/* Of what strides and padding leave, the odd value is one that reaches a result. */
Test(check_conv2d, what_is_odd_is_read)
{
    static const char *const texts[] = {
        "n2c4h9w11o4k1x1s2x2g2_dx", "n1c1h8w9o1k2x2s4x3p1x2_dx", "n2c3h3w3o2k1x1p4x4_dx",
        "n2c4h9w11o4k1x1s2x2g2_dw", "n1c1h8w9o1k2x2s4x3p1x2_dw", "n2c3h7w7o2k1x1s7x7_dw",
    };
    for (int i = 0; i < 6; i++) {
        owned_problem_data q = read_problem(texts[i]);
        for (uint64_t seed = 0; seed < 50; seed++) {
            q.direction->fill(&q.problem, TALC_CHECK_NAN, seed, &q.values);
            int64_t nonfinite = 0;
            for (int64_t at = 0; at < operand(&q, 2)->count; at++)
                nonfinite += isnan((double)result_expected(&q, at).value);
            cr_assert(nonfinite > 0 && nonfinite < operand(&q, 2)->count, "%s seed %d: %d of %d",
                      texts[i], (int)seed, (int)nonfinite, (int)operand(&q, 2)->count);
        }
    }
}
