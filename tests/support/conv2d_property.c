#include "tests/support/conv2d_property.h"

#include "tests/support/hooks.h"

#include <stdlib.h>

enum { PROBLEMS = 150 };

void for_all_problems(conv2d_property *property, void (*change)(talc_conv2d_problem *))
{
    for (uint64_t seed = 0; seed < PROBLEMS; seed++) {
        talc_conv2d_problem p = conv2d_random_problem(1000 + seed);
        p.bias = p.residual = false;
        p.activation = TALC_ACTIVATION_NONE;
        if (change != NULL)
            change(&p);
        cr_assert(talc_conv2d_problem_check(&p), "%s", talc_error_message());
        const talc_conv2d_explanation e = conv2d_explanation(tested_device(), &p);
        for (int i = 0; i < e.decision.count; i++)
            if (!e.decision.candidates[i].refused)
                property(&p, e.decision.candidates[i].name, seed);
    }
    assert_all_freed();
}

void expect_equal(const double *got, const double *due, int64_t count, const talc_conv2d_problem *p,
                  const char *algorithm)
{
    char text[TALC_CONV2D_TEXT];
    int64_t wrong = -1;
    for (int64_t i = count - 1; i >= 0; i--)
        if (got[i] != due[i])
            wrong = i;
    cr_expect(wrong < 0, "%s %s: element %d is %g, the other side has %g",
              talc_conv2d_problem_text(p, text), algorithm, (int)wrong, got[wrong < 0 ? 0 : wrong],
              due[wrong < 0 ? 0 : wrong]);
}

double *new_values(int64_t count)
{
    double *values = calloc((size_t)count + 1, sizeof *values);
    cr_assert_not_null(values);
    return values;
}

double *values_with(const conv2d_data *data, double *x, double *w, const char *algorithm)
{
    conv2d_data other = *data;
    other.x = x;
    other.w = w;
    return conv2d_values(tested_device(), &other, algorithm);
}
