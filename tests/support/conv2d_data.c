#include "tests/support/conv2d_data.h"

#include "check/engine/bound.h"
#include "check/conv2d/conv2d.h"
#include "check/engine/data.h"
#include "tests/support/hooks.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *conv2d_case(int index)
{
    enum { CAPACITY = 1024 };
    static char cases[CAPACITY][TALC_CHECK_TEXT];
    static int count;
    if (count == 0) {
        char text[TALC_CHECK_TEXT];
        for (int i = 0; talc_check_set_problem("edges", i, 0, text) != NULL; i++)
            if (strchr(text, ':') == NULL && conv2d_parse(text).direction == TALC_FORWARD) {
                cr_assert(count < CAPACITY);
                memcpy(cases[count++], text, strlen(text) + 1);
            }
    }
    return index < count ? cases[index] : NULL;
}

talc_conv2d_problem conv2d_parse(const char *text)
{
    talc_conv2d_problem problem;
    cr_assert(talc_conv2d_problem_parse(text, &problem), "%s: %s", text, talc_error_message());
    return problem;
}

talc_conv2d_problem conv2d_random_problem(uint64_t seed)
{
    check_problem random;
    talc_conv2d_problem problem;
    talc_check_random(&talc_check_conv2d, seed, &random);
    memcpy(&problem, &random, sizeof problem);
    problem.direction = TALC_FORWARD;
    assert_no_failure();
    return problem;
}

// ---- Host operands ------------------------------------------------------------------------------

static double *zeros(int64_t count)
{
    double *values = calloc((size_t)count + 1, sizeof *values);
    cr_assert_not_null(values);
    return values;
}

conv2d_data conv2d_data_zeros(const talc_conv2d_problem *p)
{
    const int64_t OH =
        conv2d_extent(p->H, p->KH, p->stride_h, p->dilation_h, p->pad_top, p->pad_bottom);
    const int64_t OW =
        conv2d_extent(p->W, p->KW, p->stride_w, p->dilation_w, p->pad_left, p->pad_right);
    conv2d_data data = { .problem = *p,
                         .x_count = p->N * p->C * p->H * p->W,
                         .w_count = p->OC * (p->C / p->groups) * p->KH * p->KW,
                         .y_count = p->N * p->OC * OH * OW };
    data.x = zeros(data.x_count);
    data.w = zeros(data.w_count);
    data.bias = p->bias ? zeros(p->OC) : NULL;
    data.residual = p->residual ? zeros(data.y_count) : NULL;
    return data;
}

conv2d_data conv2d_data_new(const talc_conv2d_problem *p, talc_check_kind kind, uint64_t seed)
{
    conv2d_data data = conv2d_data_zeros(p);
    check_problem problem;
    memcpy(&problem, p, sizeof *p);
    const check_values values = { .of = { data.x, data.w, data.bias, data.residual } };
    talc_check_conv2d.fill(&problem, kind, seed, &values);
    return data;
}

void conv2d_data_free(conv2d_data *data)
{
    free(data->x);
    free(data->w);
    free(data->bias);
    free(data->residual);
}

int64_t conv2d_extent(int64_t size, int64_t kernel, int64_t stride, int64_t dilation,
                      int64_t before, int64_t after)
{
    int64_t count = 0;
    for (int64_t first = 0; first + dilation * (kernel - 1) < before + size + after;
         first += stride)
        count++;
    return count;
}

check_expected conv2d_expected(const conv2d_data *data, int64_t index)
{
    check_problem problem;
    const check_values values = { .of = { data->x, data->w, data->bias, data->residual } };
    talc_conv2d_problem forward = data->problem;
    forward.bias = data->bias != NULL;
    forward.residual = data->residual != NULL;
    memcpy(&problem, &forward, sizeof forward);
    return talc_check_conv2d.expected(&problem, &values, CHECK_Y, index);
}

// ---- On a device --------------------------------------------------------------------------------

talc_tensor *random_tensor(talc_device *device, talc_dtype dtype, talc_dims dims, uint64_t seed)
{
    int64_t count = 1;
    for (int i = 0; i < dims.rank; i++)
        count *= dims.dim[i];
    double *values = zeros(count);
    talc_check_fill(values, count, dtype, TALC_CHECK_RANDOM, 1, 1, seed);
    talc_tensor *wide = talc_from_host(device, TALC_F64, dims, values);
    talc_tensor *tensor = talc_cast(wide, dtype);
    talc_release(wide);
    free(values);
    cr_assert(tensor != NULL, "random_tensor: %s", talc_error_message());
    return tensor;
}

static int64_t zero_asked_for(int64_t value)
{
    return value == 0 ? TALC_ZERO : value;
}

talc_conv2d_options conv2d_options(const talc_conv2d_problem *p, const talc_tensor *residual,
                                   const char *algorithm)
{
    return (talc_conv2d_options){
        .stride = { p->stride_h, p->stride_w },
        .padding = { p->pad_top, p->pad_left },
        .padding_end = { zero_asked_for(p->pad_bottom), zero_asked_for(p->pad_right) },
        .padding_mode = p->padding_mode,
        .dilation = { p->dilation_h, p->dilation_w },
        .groups = p->groups,
        .activation = p->activation,
        .residual = residual,
        .algorithm = algorithm,
    };
}

conv2d_operands conv2d_operands_new(talc_device *device, const conv2d_data *data, int shift)
{
    const talc_conv2d_problem *p = &data->problem;
    const int64_t OH =
        conv2d_extent(p->H, p->KH, p->stride_h, p->dilation_h, p->pad_top, p->pad_bottom);
    const int64_t OW =
        conv2d_extent(p->W, p->KW, p->stride_w, p->dilation_w, p->pad_left, p->pad_right);
    conv2d_operands operands = {
        .x = guard_new(device, p->dtype, TALC_DIMS(p->N, p->C, p->H, p->W), data->x, shift),
        .w = guard_new(device, p->dtype, TALC_DIMS(p->OC, p->C / p->groups, p->KH, p->KW), data->w,
                       shift),
    };
    if (p->bias)
        operands.bias = guard_new(device, p->dtype, TALC_DIMS(p->OC), data->bias, shift);
    if (p->residual)
        operands.residual =
            guard_new(device, p->dtype, TALC_DIMS(p->N, p->OC, OH, OW), data->residual, shift);
    return operands;
}

static bool intact(const guarded *guard)
{
    return guard->tensor == NULL || guard_intact(guard, true);
}

bool conv2d_operands_intact(const conv2d_operands *o)
{
    return intact(&o->x) && intact(&o->w) && intact(&o->bias) && intact(&o->residual);
}

void conv2d_operands_free(conv2d_operands *o)
{
    guard_free(&o->x);
    guard_free(&o->w);
    guard_free(&o->bias);
    guard_free(&o->residual);
}

talc_tensor *conv2d_run(const conv2d_operands *o, const talc_conv2d_problem *problem,
                        const char *algorithm)
{
    const talc_conv2d_options options = conv2d_options(problem, o->residual.tensor, algorithm);
    return talc_conv2d(o->x.tensor, o->w.tensor, o->bias.tensor, &options);
}

double *conv2d_values(talc_device *device, const conv2d_data *data, const char *algorithm)
{
    const talc_conv2d_explanation explanation = conv2d_explanation(device, &data->problem);
    for (int i = 0; i < explanation.decision.count && algorithm != NULL; i++)
        if (explanation.decision.candidates[i].refused &&
            strcmp(explanation.decision.candidates[i].title, algorithm) == 0)
            algorithm = NULL;
    owned_scope *scope = talc_scope_enter();
    owned_conv2d_operands operands = conv2d_operands_new(device, data, 0);
    const talc_tensor *y = conv2d_run(&operands, &data->problem, algorithm);
    char text[TALC_CONV2D_TEXT];
    cr_assert(y != NULL, "%s: %s", talc_conv2d_problem_text(&data->problem, text),
              talc_error_message());
    double *values = host_doubles(y);
    return values;
}

/* Fills the blocks that the pool would hand out next with NaN, so that a kernel that adds to what
 * it finds, or leaves an element out, shows. */
static void poison(talc_device *device, talc_dtype dtype, int64_t count, size_t workspace)
{
    owned_scope *scope = talc_scope_enter();
    talc_full(device, dtype, TALC_DIMS(count), NAN);
    talc_full(device, TALC_F32, TALC_DIMS((int64_t)(workspace / sizeof(float))), NAN);
}

static void expect_expected(const conv2d_data *data, const check_expected *expected,
                            const talc_tensor *y, const char *text, const char *algorithm)
{
    const talc_conv2d_problem *p = &data->problem;
    const int64_t dims[] = { p->N, p->OC, p->OH, p->OW };
    int64_t wrong = -1, fed = 0, nonzero = 0;
    cr_assert(y != NULL, "%s %s: %s", text, algorithm, talc_error_message());
    cr_assert(y->rank == 4 && memcmp(y->dims, dims, sizeof dims) == 0, "%s %s: the shape", text,
              algorithm);
    owned_double *got = host_doubles(y);
    for (int64_t i = 0; i < data->y_count; i++) {
        if (!(talc_check_share(expected[i].value, got[i], expected[i].extra) <= 1) && wrong < 0)
            wrong = i;
        fed += expected[i].S > 0;
        nonzero += expected[i].S > 0 && got[i] != 0;
    }
    const int64_t at = wrong < 0 ? 0 : wrong;
    cr_expect(wrong < 0, "%s %s: (%d,%d,%d,%d) is %.9g instead of %.9Lg", text, algorithm,
              (int)(at / p->OW / p->OH / p->OC), (int)(at / p->OW / p->OH % p->OC),
              (int)(at / p->OW % p->OH), (int)(at % p->OW), got[at], expected[at].value);
    cr_expect(fed < 8 || (double)nonzero >=
                             (p->activation == TALC_ACTIVATION_RELU ? 0.15 : 0.30) * (double)fed,
              "%s %s: %d of %d outputs are not zero, too few to trust", text, algorithm,
              (int)nonzero, (int)fed);
}

void conv2d_expect_exact(talc_device *device, const conv2d_data *data, int shift)
{
    char text[TALC_CONV2D_TEXT];
    talc_conv2d_problem_text(&data->problem, text);
    const talc_conv2d_explanation e = conv2d_explanation(device, &data->problem);
    check_expected *expected = calloc((size_t)data->y_count + 1, sizeof *expected);
    cr_assert_not_null(expected);
    for (int64_t i = 0; i < data->y_count; i++)
        expected[i] = conv2d_expected(data, i);
    owned_scope *scope = talc_scope_enter();
    owned_conv2d_operands operands = conv2d_operands_new(device, data, shift);
    cr_assert(e.decision.chosen >= 0, "%s: no algorithm", text);
    for (int i = 0; i < e.decision.count; i++) {
        if (e.decision.candidates[i].refused)
            continue;
        poison(device, data->problem.dtype, data->y_count, e.decision.candidates[i].workspace);
        const talc_tensor *y =
            conv2d_run(&operands, &data->problem, e.decision.candidates[i].title);
        expect_expected(data, expected, y, text, e.decision.candidates[i].title);
        cr_expect(conv2d_operands_intact(&operands), "%s %s: an operand has changed", text,
                  e.decision.candidates[i].title);
    }
    free(expected);
}

talc_conv2d_explanation conv2d_explanation(talc_device *device, const talc_conv2d_problem *problem)
{
    talc_conv2d_explanation explanation;
    cr_assert(talc_conv2d_explain(device, problem, NULL, &explanation), "explain: %s",
              talc_error_message());
    cr_assert(explanation.decision.chosen >= 0, "conv2d: no algorithm takes %s",
              talc_conv2d_problem_text(problem, (char[TALC_CONV2D_TEXT]){ 0 }));
    return explanation;
}
