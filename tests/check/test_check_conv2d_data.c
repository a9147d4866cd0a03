/// The data and the random problems of conv2d in the cross-check.
#include "check/engine/case.h"
#include "check/conv2d/conv2d.h"
#include "tests/support/conv2d_data.h"
#include "tests/support/hooks.h"

#include <math.h>
#include <string.h>

static const check_direction *const family = &talc_check_conv2d;

static bool takes(const talc_conv2d_problem *p, talc_check_kind kind)
{
    check_problem problem;
    memcpy(&problem, p, sizeof *p);
    return talc_check_conv2d.takes(&problem, kind);
}

static conv2d_data read_problem(const char *text)
{
    const talc_conv2d_problem problem = conv2d_parse(text);
    return conv2d_data_zeros(&problem);
}

/* The same problem with other data. */
static void refill(conv2d_data *q, talc_check_kind kind, uint64_t seed)
{
    const talc_conv2d_problem problem = q->problem;
    conv2d_data_free(q);
    *q = conv2d_data_new(&problem, kind, seed);
}

// ---- Data ---------------------------------------------------------------------------------------

static bool all_integers(const double *values, int64_t count, double largest)
{
    bool all = true;
    for (int64_t i = 0; i < count; i++)
        all = all && values[i] == floor(values[i]) && fabs(values[i]) <= largest;
    return all;
}

static bool is_tiny(double value)
{
    return fabs(value) <= 0x1p-30;
}

Test(check_conv2d_data, kinds_of_data)
{
    owned_conv2d_data q = read_problem("n2c8h9w11o6k3x3p1x1g2_bias_residual");
    const int64_t x = 2 * 8 * 9 * 11, w = 6 * 4 * 3 * 3;
    refill(&q, TALC_CHECK_EXACT, 1);
    cr_assert(all_integers(q.x, x, 8) && all_integers(q.w, w, 8) && all_integers(q.bias, 6, 8) &&
              all_integers(q.residual, q.y_count, 8));
    refill(&q, TALC_CHECK_CONSTANT, 1);
    cr_assert(q.x[0] == (double)(1.0F / 3) && q.x[x - 1] == q.x[0] && q.w[0] == (double)0.7F &&
              q.w[w - 1] == q.w[0] && q.bias[5] == (double)0.1F);

    refill(&q, TALC_CHECK_RANDOM, 1);
    double squares = 0, largest = 0;
    for (int64_t i = 0; i < q.y_count; i++)
        squares +=
            (double)powl(conv2d_expected(&q, i).value - q.residual[i], 2) / (double)q.y_count;
    for (int64_t i = 0; i < w; i++)
        largest = fmax(largest, fabs(q.w[i]));
    cr_assert(squares > 0.5 && squares < 2, "outputs of size %g", sqrt(squares));
    cr_assert(largest <= 3 / sqrt(36.0) && q.w[0] == (double)(float)q.w[0]);
    const double first = q.x[0], weight = q.w[5];
    refill(&q, TALC_CHECK_RANDOM, 2);
    cr_assert(q.x[0] != first && q.w[5] != weight, "the seed does not matter");
    refill(&q, TALC_CHECK_RANDOM, 1);
    cr_assert(q.x[0] == first && q.w[5] == weight && q.x[3] != q.residual[3]);

    refill(&q, TALC_CHECK_NAN, 1);
    cr_assert(count_of(q.x, x, is_nan) == 1 && count_of(q.w, w, is_nan) == 0 &&
              count_of(q.residual, q.y_count, is_nan) == 0);
    refill(&q, TALC_CHECK_INFINITY, 1);
    cr_assert(count_of(q.x, x, is_infinite) == 1 && count_of(q.w, w, is_infinite) == 0);
    refill(&q, TALC_CHECK_HUGE, 1);
    cr_assert(count_of(q.x, x, is_huge) + count_of(q.w, w, is_huge) == 1);
    refill(&q, TALC_CHECK_TINY, 1);
    cr_assert(count_of(q.x, x, is_tiny) > x / 3 && count_of(q.w, w, is_tiny) == 0);
    refill(&q, TALC_CHECK_WIDE, 1);
    double smallest = INFINITY, widest = 0;
    for (int64_t i = 0; i < 99; i++) {
        smallest = fmin(smallest, fabs(q.x[i]));
        widest = fmax(widest, fabs(q.x[i]));
    }
    cr_assert(widest / smallest > 0x1p15 && widest <= 1, "%g .. %g", smallest, widest);
}

/* Strides and dilation read one pixel of four: the odd value has to be one of those. */
Test(check_conv2d_data, what_is_odd_is_read)
{
    static const char *const texts[] = { "n2c4h9w11o4k1x1s2x2g2", "n1c2h1w20o2k1x2s1x5d1x2",
                                         "n1c1h8w9o1k2x2s4x3p1x2", "n2c3h7w7o2k1x1s7x7" };
    static const talc_check_kind kinds[] = { TALC_CHECK_NAN, TALC_CHECK_INFINITY };
    for (int i = 0; i < 4; i++)
        for (int kind = 0; kind < 2; kind++)
            for (uint64_t seed = 0; seed < 50; seed++) {
                owned_conv2d_data q = read_problem(texts[i]);
                refill(&q, kinds[kind], seed);
                int64_t nonfinite = 0;
                for (int64_t at = 0; at < q.y_count; at++)
                    nonfinite += !isfinite((double)conv2d_expected(&q, at).value);
                cr_assert(nonfinite > 0 && nonfinite < q.y_count, "%s seed %d: %d of %d", texts[i],
                          (int)seed, (int)nonfinite, (int)q.y_count);
            }
}

/* No random problem whose outputs are mostly zeros though something is added up. */
Test(check_conv2d_data, enough_outputs_are_not_zero)
{
    for (uint64_t seed = 0; seed < 1500; seed++) {
        const talc_conv2d_problem problem = conv2d_random_problem(seed);
        owned_conv2d_data q = conv2d_data_new(&problem, TALC_CHECK_EXACT, seed);
        char text[TALC_CONV2D_TEXT];
        talc_conv2d_problem_text(&problem, text);
        if (talc_check_terms(&problem) * (double)q.y_count < 2e5) {
            int64_t fed = 0, nonzero = 0;
            for (int64_t i = 0; i < q.y_count; i++) {
                const check_expected expected = conv2d_expected(&q, i);
                fed += expected.S > 0;
                nonzero += expected.S > 0 && expected.value != 0;
            }
            const double min = q.problem.activation == TALC_ACTIVATION_RELU ? 0.15 : 0.3;
            cr_assert(fed < 8 || (double)nonzero >= min * (double)fed, "seed %d %s: %d of %d",
                      (int)seed, text, (int)nonzero, (int)fed);
        }
    }
}

Test(check_conv2d_data, exact_data_where_they_are_exact)
{
    static const struct {
        const char *text;
        bool takes;
        double largest; /* of x */
    } cases[] = {
        { "n1c16h4w4o2k3x3_relu", true, 8 },
        { "n1c16h4w4o2k3x3_sigmoid", false, 1 },
        { "n1c16h4w4o2k3x3_tanh", false, 1 },
        { "n1c1000000h1w1o1k1x1", true, 4 }, /* 16 * 1000002 < 2^24 */
        { "n1c1000000h1w1o1k1x1_f64", true, 8 },
        { "n1c17000000h1w1o1k1x1", false, 1 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        owned_conv2d_data q = read_problem(cases[i].text);
        cr_assert(takes(&q.problem, TALC_CHECK_EXACT) == cases[i].takes, "%s", cases[i].text);
        cr_assert(takes(&q.problem, TALC_CHECK_RANDOM) && takes(&q.problem, TALC_CHECK_NAN));
        refill(&q, TALC_CHECK_EXACT, 1);
        double largest = 0;
        for (int64_t j = 0; j < q.problem.C * q.problem.H * q.problem.W; j++)
            largest = fmax(largest, fabs(q.x[j]));
        cr_assert(largest == cases[i].largest, "%s: %g", cases[i].text, largest);
    }
}

// ---- Problems -----------------------------------------------------------------------------------

Test(check_conv2d_data, random_problems)
{
    enum { COUNT = 20000 };
    const talc_device *cpu = cpu_device();
    int accepted[8] = { 0 }, modes[4] = { 0 }, directions[3] = { 0 }, f64 = 0, dear = 0;
    int uneven = 0, skipping = 0, dilated = 0, whole = 0, within = 0, even = 0, line = 0,
        multiplied = 0, grouped = 0, exact_fit = 0;
    for (uint64_t seed = 0; seed < COUNT; seed++) {
        check_problem problem, again;
        talc_plan plan;
        char text[TALC_CHECK_TEXT];
        talc_check_random(family, seed, &problem);
        talc_check_random(family, seed, &again);
        cr_assert(memcmp(&problem, &again, sizeof(talc_conv2d_problem)) == 0, "seed %d", (int)seed);
        const talc_conv2d_problem *p = (const talc_conv2d_problem *)(void *)&problem;
        cr_assert(!talc_failed() &&
                      talc_check_parse(talc_check_write(family, &problem, text), &again) ==
                          family &&
                      memcmp(&problem, &again, sizeof again) == 0 && p->OH > 0 && p->OW > 0,
                  "seed %d: %s: %s", (int)seed, text, talc_error_message());
        for (int i = 0; talc_check_algorithm_at(family, cpu, i) != NULL; i++)
            accepted[i] += talc_check_plan(family, talc_check_algorithm_at(family, cpu, i), cpu,
                                           &problem, SIZE_MAX, &plan) == NULL;
        modes[p->padding_mode]++;
        directions[p->direction]++;
        f64 += p->dtype == TALC_F64;
        dear += talc_conv2d_flops(p) > 2e6;
        uneven += p->pad_top != p->pad_bottom || p->pad_left != p->pad_right;
        skipping += p->stride_h > p->KH || p->stride_w > p->KW;
        dilated += p->dilation_h > 1 && p->KH > 1;
        whole += p->KH == p->H && p->KH > 1;
        exact_fit += p->OH == 1 && p->OW == 1 && p->KH * p->KW > 1;
        within += p->pad_top > p->dilation_h * (p->KH - 1);
        even += p->KH % 2 == 0 || p->KW % 2 == 0;
        line += (p->H == 1) != (p->W == 1);
        multiplied += p->groups == p->C && p->OC > p->C;
        grouped += p->groups > 1 && p->groups < p->C;
    }
    /* 3x3 alone, and forward alone: "columns". */
    static const struct {
        const char *title;
        int accepted;
    } least[] = { { "depthwise(columns)", COUNT / 100 },
                  { "depthwise(planes)", COUNT * 3 / 10 },
                  { "pointwise", COUNT * 3 / 10 } };
    for (int i = 0; talc_check_algorithm_at(family, cpu, i) != NULL; i++)
        for (int j = 0; j < 3; j++) {
            char title[TALC_ALGORITHM_TEXT];
            (void)talc_algorithm_text(talc_check_algorithm_at(family, cpu, i), title);
            if (strcmp(title, least[j].title) == 0)
                cr_assert(accepted[i] > least[j].accepted, "%s takes %d", title, accepted[i]);
        }
    cr_assert(directions[TALC_FORWARD] > COUNT * 2 / 5 && directions[TALC_GRAD_INPUT] > COUNT / 5 &&
              directions[TALC_GRAD_WEIGHT] > COUNT / 5);
    cr_assert(f64 > COUNT / 5 && f64 < COUNT / 3 && dear < COUNT / 100);
    const int counts[] = {
        modes[0], modes[1], modes[2], modes[3], uneven,     skipping, dilated,
        whole,    within,   even,     line,     multiplied, grouped,  exact_fit
    };
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        cr_assert(counts[i] > COUNT / 100, "edge %d: only %d", (int)i, counts[i]);
}
