/// The oracle of conv2d's gradients in the cross-check against numbers that do not come from it, by
/// hand and from PyTorch; how their problems read, and what their operands are filled with.
#include "check/conv2d/conv2d.h"
#include "tests/support/conv2d_data.h"
#include "tests/support/problem_data.h"

#include <float.h>
#include <string.h>

static talc_direction direction_of(const problem_data *q)
{
    return ((const talc_conv2d_problem *)(void *)&q->problem)->direction;
}

/* The operands of a gradient in the order in which the oracle takes them, and the result. */
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

/* The first operand, dy or x, is 1, 2, 3 ... and the second, w or dy, the powers of ten, so that
 * the digits of an element tell what it is made of. */
static const struct {
    const char *text;
    int expected[8];
    const char *K;      /* a digit for each */
    const char *border; /* b where a tap is over the padding */
} digits[] = {
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

Test(check_conv2d_gradient, digits_by_hand)
{
    for (size_t row = 0; row < sizeof digits / sizeof *digits; row++)
        for (int doubles = 0; doubles < 2; doubles++) {
            char text[80];
            snprintf(text, sizeof text, "%s%s", digits[row].text, doubles != 0 ? "_f64" : "");
            owned_problem_data q = read_problem(text);
            for (int64_t i = 0; i < operand(&q, 0)->count; i++)
                first_of(&q)[i] = (double)(i + 1);
            for (int64_t i = 0; i < operand(&q, 1)->count; i++)
                second_of(&q)[i] = pow(10, (double)i);
            cr_assert(operand(&q, 2)->count == (int64_t)strlen(digits[row].border),
                      "%s: %d elements", text, (int)operand(&q, 2)->count);
            for (int64_t i = 0; i < operand(&q, 2)->count; i++) {
                const check_expected expected = result_expected(&q, i);
                cr_assert(expected.value == digits[row].expected[i] &&
                              expected.S == digits[row].expected[i],
                          "%s element %d: %g (S %g) instead of %d", text, (int)i,
                          (double)expected.value, expected.S, digits[row].expected[i]);
                cr_assert(expected.K == digits[row].K[i] - '0' && expected.extra == 0 &&
                              !expected.any,
                          "%s element %d: K %g", text, (int)i, expected.K);
                cr_assert(expected.border == (digits[row].border[i] == 'b'),
                          "%s element %d: border", text, (int)i);
            }
        }
}

/* 2^53 + 1 needs more than double; f32 data do not come so far. */
Test(check_conv2d_gradient, sums_of_f64_in_long_double)
{
    static const char *const texts[] = { "n1c1h1w1o3k1x1_f64_dx", "n3c1h1w1o1k1x1_f64_dw" };
    for (int i = 0; i < 2; i++) {
        owned_problem_data q = read_problem(texts[i]);
        memcpy(first_of(&q), (double[]){ 0x1p53, 1, -0x1p53 }, 3 * sizeof(double));
        memcpy(second_of(&q), (double[]){ 1, 1, 1 }, 3 * sizeof(double));
        cr_assert(result_expected(&q, 0).value == (LDBL_MANT_DIG >= 64 ? 1 : 0), "%s", texts[i]);
    }
}

/* In dx there is nothing where there is no output; dw multiplies dy by the zeros of the padding. */
Test(check_conv2d_gradient, what_is_not_finite_over_padding)
{
    static const struct {
        const char *text;
        int64_t infinite;     /* of the second operand */
        const char *expected; /* n: NaN, i: infinity */
    } cases[] = {
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

/* torch.nn.grad.conv2d_input and conv2d_weight in float64 (PyTorch 2.15.0): element i of x is (7 i
 * + 3) % 11 - 5, of w (5 i + 1) % 7 - 3, of dy (5 i + 4) % 13 - 6. K of dw is the same for all. */
// clang-format off
static const struct {
    const char *text;
    int expected[40];
    int S[40];
    int K[40];
} rows[] = {
    { "n1c2h3w4o2k2x3p1x1_dx",
      { 37, 0, 28, -29, -20, 47, -29, 17, 40, 3, 31, -28, -24, 26, -5, 28, -38, -20, 27, -16, -26, 25, -6, 31 },
      { 47, 70, 66, 43, 50, 67, 71, 41, 48, 69, 65, 44, 40, 70, 65, 50, 50, 66, 71, 48, 42, 71, 66, 49 },
      { 8, 12, 12, 8, 8, 12, 12, 8, 8, 12, 12, 8, 8, 12, 12, 8, 8, 12, 12, 8, 8, 12, 12, 8 } },
    { "n1c2h3w4o2k2x3p1x1_dw",
      { -1, 30, -52, -1, -21, 47, 50, -102, 73, -46, 58, -92, -1, 65, -58, -1, -77, 41, 44, -92, 44, -52, 68, -30 },
      { 69, 100, 102, 93, 101, 67, 80, 152, 73, 76, 78, 92, 93, 75, 108, 69, 127, 51, 54, 142, 84, 102, 78, 82 },
      { 16 } },
    { "n1c2h5w3o4k3x2s2x1p1x0g2_dx",
      { 4, -11, -9, 14, -26, 16, -8, 16, 4, 6, 18, -23, -7, -9, 4, -12, 28, -10, 21, -24, 2, -6, 31, -13, -27, 13, -4, 0, -18, 23 },
      { 8, 25, 9, 18, 42, 32, 8, 18, 4, 26, 46, 23, 17, 15, 4, 12, 28, 10, 39, 42, 6, 6, 31, 17, 33, 47, 14, 0, 18, 23 },
      { 2, 4, 2, 4, 8, 4, 2, 4, 2, 4, 8, 4, 2, 4, 2, 2, 4, 2, 4, 8, 4, 2, 4, 2, 4, 8, 4, 2, 4, 2 } },
    { "n1c2h5w3o4k3x2s2x1p1x0g2_dw",
      { -16, -4, 61, -8, 43, -18, 41, -14, -37, -10, -17, -2, -1, 42, 20, -8, 38, -25, -1, -17, -6, -29, -14, 7 },
      { 46, 36, 67, 42, 43, 18, 41, 14, 71, 30, 43, 18, 29, 48, 60, 54, 38, 45, 35, 39, 42, 53, 20, 35 },
      { 6 } },
    { "n1c1h6w6o2k3x2s1x3p2x1d2x2_dx",
      { 0, 23, 3, 0, -24, 0, 0, 20, -3, 0, -27, 0, 0, -18, -3, 0, 34, 0, 0, -44, 3, 0, 34, 0, 0, 5, 5, 0, -26, 0, 0, 21, 5, 0, -23, 0 },
      { 0, 23, 15, 0, 24, 0, 0, 20, 27, 0, 27, 0, 0, 42, 37, 0, 34, 0, 0, 44, 19, 0, 34, 0, 0, 17, 21, 0, 26, 0, 0, 21, 33, 0, 23, 0 },
      { 0, 4, 4, 0, 4, 0, 0, 4, 4, 0, 4, 0, 0, 6, 6, 0, 6, 0, 0, 6, 6, 0, 6, 0, 0, 4, 4, 0, 4, 0, 0, 4, 4, 0, 4, 0 } },
    { "n1c1h6w6o2k3x2s1x3p2x1d2x2_dw",
      { -14, 8, 60, 14, -33, -40, 26, 13, -34, 2, 55, 18 },
      { 26, 62, 60, 100, 33, 74, 30, 51, 44, 126, 55, 64 },
      { 12 } },
    { "n2c2h3w3o2k2x2_dx",
      { 19, -16, 6, 9, -38, 0, -7, 5, 18, 16, -19, 6, 9, 3, -15, -4, 28, -18, 20, -11, 10, 10, -37, 0, -7, 1, 14, 15, -18, 8, 6, 3, -12, -6, 27, -17 },
      { 19, 26, 12, 23, 58, 18, 7, 17, 18, 16, 19, 6, 29, 47, 15, 4, 28, 18, 20, 23, 14, 24, 57, 18, 7, 19, 16, 15, 18, 8, 30, 45, 16, 6, 27, 17 },
      { 2, 4, 2, 4, 8, 4, 2, 4, 2, 2, 4, 2, 4, 8, 4, 2, 4, 2, 2, 4, 2, 4, 8, 4, 2, 4, 2, 2, 4, 2, 4, 8, 4, 2, 4, 2 } },
    { "n2c2h3w3o2k2x2_dw",
      { 17, -33, 21, 15, -26, 23, -33, -17, -19, 3, -19, -19, 3, -19, 3, 14 },
      { 51, 67, 55, 61, 66, 53, 67, 45, 91, 83, 87, 83, 83, 91, 83, 92 },
      { 8 } },
};
// clang-format on

static void fill_pattern(double *values, int64_t count, int step, int first, int modulus,
                         int middle)
{
    for (int64_t i = 0; i < count; i++)
        values[i] = (double)((i * step + first) % modulus - middle);
}

Test(check_conv2d_gradient, agrees_with_pytorch)
{
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        owned_problem_data q = read_problem(rows[row].text);
        const bool input = direction_of(&q) == TALC_GRAD_INPUT;
        const check_values *values = &q.values;
        if (input)
            fill_pattern(values->of[CHECK_W], q.list[CHECK_W].count, 5, 1, 7, 3);
        else
            fill_pattern(values->of[CHECK_X], q.list[CHECK_X].count, 7, 3, 11, 5);
        fill_pattern(values->of[CHECK_DY], q.list[CHECK_DY].count, 5, 4, 13, 6);
        for (int64_t i = 0; i < operand(&q, 2)->count; i++) {
            const check_expected expected = result_expected(&q, i);
            const int K = rows[row].K[input ? i : 0];
            cr_assert(expected.value == rows[row].expected[i] && expected.S == rows[row].S[i] &&
                          expected.K == K,
                      "%s element %d: %g (S %g, K %g) instead of %d (S %d, K %d)", rows[row].text,
                      (int)i, (double)expected.value, expected.S, expected.K, rows[row].expected[i],
                      rows[row].S[i], K);
        }
    }
}

// ---- Texts --------------------------------------------------------------------------------------

/* What a gradient takes no notice of is dropped, and other padding than zeros becomes part of the
 * image. */
Test(check_conv2d_gradient, texts)
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

/* No row makes the gradient by weights that no image reaches. */
Test(check_conv2d_gradient, without_images)
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

Test(check_conv2d_gradient, kinds_of_data)
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
        cr_assert(count_of(first_of(&q), firsts, is_huge) == 1 &&
                  count_of(second_of(&q), seconds, is_huge) == 0);
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
Test(check_conv2d_gradient, what_is_odd_is_read)
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
