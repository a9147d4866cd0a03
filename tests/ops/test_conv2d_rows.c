/* Every row of the CPU's conv2d table against the formula in float64, written out below, and against itself: for every
 * number of threads and, within rounding, for every workspace limit. */
#include "tests/support/hooks.h"

#include "ops/backend.h"
#include "ops/conv2d.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *problem;
    const char *
        rows; /* initials of the rows that do not refuse: depthwise, pointwise, im2col, reference */
} cases[] = {
    { "n2c3h9w7o4k3x3", "ir" },
    { "n1c1h1w1o1k1x1", "dpir" },
    { "n3c4h5w6o5k1x1_bias_relu", "pir" },
    { "n2c6h11w13o4k1x1g2_bias_residual_tanh", "pir" },
    { "n1c300h5w80o270k1x1", "pir" },
    { "n1c3h50w70o5k1x1_bias", "pir" },
    { "n2c6h8w8o4k1x1s2x2", "ir" },
    { "n2c4h8w7o6k1x1p1x2", "ir" },
    { "n2c6h13w11o9k3x4s2x3p2x1d2x1g3_bias", "ir" },
    { "n1c3h12w9o5k5x3p2x1x3x4_residual", "ir" },
    { "n2c4h9w8o6k3x3p2x2_reflect", "ir" },
    { "n2c4h9w8o6k3x5s2x1p4x3x1x2d2x1_replicate_bias", "ir" },
    { "n2c4h6w7o6k3x3s1x2p6x7_circular", "ir" },
    { "n40c8h4w5o12k3x3p1x1_bias_sigmoid", "ir" },
    { "n7c40h6w6o140k3x3p1x1g2", "ir" },
    { "n1c64h40w50o16k3x3p1x1", "ir" },
    { "n1c3h4w3000o2k2x7s1x2p0x3", "ir" },
    { "n2c5h7w7o5k3x3p1x1g5_bias_relu", "dir" },
    { "n2c3h20w37o6k3x3p1x1g3_residual", "dir" },
    { "n3c4h14w31o4k3x3s2x2p1x1g4", "dir" },
    { "n1c2h11w40o2k5x5p2x2g2_bias", "dir" },
    { "n1c2h17w35o2k4x3s3x4p3x2x1x0d2x3g2", "dir" },
    { "n1c1h6w2100o2k3x3p1x1", "dir" },
    { "n1c2h9w9o2k3x3p1x1g2_reflect", "ir" },
    { "n2c8h4w4o8k1x1g8_bias", "dpir" },
    { "n1c2h3w3o2k3x3s5x7p9x9g2", "dir" },
    /* Steps that are never taken. */
    { "n1c2h4w5o2k3x2s9223372036854775807x9223372036854775806p2x3", "ir" },
    { "n1c2h4w5o2k1x1p2x3d9223372036854775807x9223372036854775806g2", "dir" },
    { "n1c2h4w5o2k1x1p2x3d9223372036854775807x9223372036854775806_replicate", "ir" },
    /* Results of more than 8 MiB, which depthwise writes past the caches: by lines or by stretches of rows. */
    { "n2c80h130w140o80k3x3p1x1g80_bias", "di" },
    { "n2c80h130w144o80k3x3p1x1g80", "di" },
    { "n2c80h130w144o80k3x3p1x1g80_relu", "di" },
    { "n2c80h130w140o80k3x3p1x1g80", "di" },
    { "n2c80h66w112o80k3x3p1x1g80_f64", "di" },
};

enum { CASES = sizeof cases / sizeof *cases };

/* x' at image coordinate i of an axis of `extent`: the index to read, -1 for zero. */
static int64_t source(talc_padding_mode mode, int64_t i, int64_t extent)
{
    if (mode == TALC_PADDING_CIRCULAR)
        return (i + extent) % extent;
    if (mode == TALC_PADDING_REPLICATE)
        return i < 0 ? 0 : i > extent - 1 ? extent - 1 : i;
    if (mode == TALC_PADDING_REFLECT)
        return llabs(i) > extent - 1 ? 2 * (extent - 1) - llabs(i) : llabs(i);
    return i < 0 || i >= extent ? -1 : i;
}

static double activation(talc_activation function, double x)
{
    switch (function) {
    case TALC_ACTIVATION_RELU:
        return x > 0 ? x : 0;
    case TALC_ACTIVATION_SIGMOID:
        return 1 / (1 + exp(-x));
    case TALC_ACTIVATION_TANH:
        return tanh(x);
    default:
        return x;
    }
}

/* Operands in float64 with values that f32 holds exactly. */
typedef struct operands {
    talc_conv2d_problem p;
    double *x, *w, *bias, *residual;
} operands;

static double *numbers(int64_t count, unsigned seed)
{
    double *values = malloc((size_t)count * sizeof *values);
    for (int64_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        values[i] = (double)(seed >> 8) / (1 << 24) * 2 - 1;
        values[i] = (double)(float)values[i];
    }
    return values;
}

static operands operands_new(const char *text)
{
    operands o;
    cr_assert(talc_conv2d_problem_parse(text, &o.p), "%s: %s", text, talc_error_message());
    const talc_conv2d_problem *p = &o.p;
    o.x = numbers(p->N * p->C * p->H * p->W, 1);
    o.w = numbers(p->OC * (p->C / p->groups) * p->KH * p->KW, 2);
    o.bias = numbers(p->OC, 3);
    o.residual = numbers(p->N * p->OC * p->OH * p->OW, 4);
    return o;
}

static void operands_free(operands *o)
{
    free(o->x);
    free(o->w);
    free(o->bias);
    free(o->residual);
}

/* Output `at` by the formula; *magnitude is the sum of the absolute values of what it adds. */
static double expected(const operands *o, int64_t at, double *magnitude)
{
    const talc_conv2d_problem *p = &o->p;
    const int64_t ow = at % p->OW, oh = at / p->OW % p->OH, oc = at / p->OW / p->OH % p->OC;
    const int64_t n = at / p->OW / p->OH / p->OC, IC = p->C / p->groups,
                  g = oc / (p->OC / p->groups);
    double sum = (p->bias ? o->bias[oc] : 0) + (p->residual ? o->residual[at] : 0);
    *magnitude = (p->bias ? fabs(o->bias[oc]) : 0) + (p->residual ? fabs(o->residual[at]) : 0);
    for (int64_t ic = 0; ic < IC; ic++)
        for (int64_t kh = 0; kh < p->KH; kh++)
            for (int64_t kw = 0; kw < p->KW; kw++) {
                const int64_t ih = source(p->padding_mode,
                                          oh * p->stride_h - p->pad_top + kh * p->dilation_h, p->H);
                const int64_t iw = source(
                    p->padding_mode, ow * p->stride_w - p->pad_left + kw * p->dilation_w, p->W);
                if (ih < 0 || iw < 0)
                    continue;
                const double product = o->x[((n * p->C + g * IC + ic) * p->H + ih) * p->W + iw] *
                                       o->w[((oc * IC + ic) * p->KH + kh) * p->KW + kw];
                sum += product;
                *magnitude += fabs(product);
            }
    return activation(p->activation, sum);
}

static talc_tensor *tensor_of(const double *values, talc_dtype dtype, talc_dims dims)
{
    return talc_cast(talc_from_host(cpu_device(), TALC_F64, dims, values), dtype);
}

static int64_t end_option(int64_t pad)
{
    return pad == 0 ? TALC_ZERO : pad;
}

static talc_tensor *run(const operands *o, const char *row, talc_dtype dtype)
{
    const talc_conv2d_problem *p = &o->p;
    talc_tensor *x = tensor_of(o->x, dtype, TALC_DIMS(p->N, p->C, p->H, p->W));
    talc_tensor *w = tensor_of(o->w, dtype, TALC_DIMS(p->OC, p->C / p->groups, p->KH, p->KW));
    talc_tensor *bias = p->bias ? tensor_of(o->bias, dtype, TALC_DIMS(p->OC)) : NULL;
    talc_conv2d_options options = {
        .stride = { p->stride_h, p->stride_w },
        .padding = { p->pad_top, p->pad_left },
        .padding_end = { end_option(p->pad_bottom), end_option(p->pad_right) },
        .padding_mode = p->padding_mode,
        .dilation = { p->dilation_h, p->dilation_w },
        .groups = p->groups,
        .activation = p->activation,
        .algorithm = row,
    };
    if (p->residual)
        options.residual = tensor_of(o->residual, dtype, TALC_DIMS(p->N, p->OC, p->OH, p->OW));
    return talc_conv2d(x, w, bias, &options);
}

static double element(const talc_tensor *y, int64_t i)
{
    return y->dtype == TALC_F32 ? (double)((const float *)y->data)[i]
                                : ((const double *)y->data)[i];
}

/* Checks every output, or a sample of a large result, against the bound of a strict row. */
static void check(const operands *o, const char *text, const char *row, const talc_tensor *y)
{
    const talc_conv2d_problem *p = &o->p;
    cr_assert(y != NULL, "%s %s: %s", text, row, talc_error_message());
    const double u = y->dtype == TALC_F32 ? FLT_EPSILON / 2.0 : DBL_EPSILON / 2;
    const int64_t K = p->C / p->groups * p->KH * p->KW, count = talc_numel(y);
    const int64_t step = count * K > 2000000 ? 37 : 1;
    for (int64_t i = 0; i < count; i += step) {
        double magnitude, due = expected(o, i, &magnitude);
        /* A result of float64 sums for float64 data is the yardstick's own rounding away. */
        const double bound = ((double)K + 4) * u * (magnitude + 1) * (y->dtype == TALC_F64 ? 2 : 1);
        const double error = fabs(element(y, i) - due);
        cr_assert(error <= bound, "%s %s %s: output %lld is %.17g instead of %.17g", text, row,
                  talc_dtype_name(y->dtype), (long long)i, element(y, i), due);
    }
}

static const char *row_name(char initial)
{
    static const char *const names[] = { "depthwise", "pointwise", "im2col", "reference" };
    for (int i = 0; i < 4; i++)
        if (names[i][0] == initial)
            return names[i];
    return NULL;
}

static void each_case(void (*test)(const operands *o, const char *text, const char *row,
                                   talc_dtype dtype))
{
    for (int i = 0; i < CASES; i++) {
        operands o = operands_new(cases[i].problem);
        for (const char *initial = cases[i].rows; *initial != '\0'; initial++)
            for (talc_dtype dtype = TALC_F32; dtype <= TALC_F64; dtype++) {
                talc_scope *scope = talc_scope_enter();
                test(&o, cases[i].problem, row_name(*initial), dtype);
                talc_scope_leave(scope);
            }
        operands_free(&o);
    }
    assert_no_failure();
    assert_all_freed();
}

static void test_values(const operands *o, const char *text, const char *row, talc_dtype dtype)
{
    check(o, text, row, run(o, row, dtype));
}

Test(conv2d_rows, every_row_computes_the_formula)
{
    each_case(test_values);
}

static void test_threads(const operands *o, const char *text, const char *row, talc_dtype dtype)
{
    talc_set_threads(1);
    talc_tensor *alone = run(o, row, dtype);
    for (int threads = 2; threads <= 3; threads++) {
        talc_set_threads(threads);
        talc_tensor *y = run(o, row, dtype);
        assert_no_failure();
        cr_assert(memcmp(y->data, alone->data, talc_nbytes(y)) == 0,
                  "%s %s: other bits with %d threads", text, row, threads);
    }
}

Test(conv2d_rows, bits_do_not_depend_on_the_number_of_threads)
{
    each_case(test_threads);
}

static void test_limits(const operands *o, const char *text, const char *row, talc_dtype dtype)
{
    static const size_t limits[] = { 1 << 20, 64 << 10, 1 << 10 };
    if (strcmp(row, "im2col") != 0)
        return;
    for (int i = 0; i < 3; i++) {
        talc_conv2d_explanation explanation;
        talc_workspace_set_limit(cpu_device(), limits[i]);
        cr_assert(talc_conv2d_explain(cpu_device(), &o->p,
                                      &(talc_conv2d_options){ .algorithm = row }, &explanation));
        const talc_conv2d_candidate *chosen = &explanation.candidates[explanation.chosen];
        cr_assert(explanation.chosen >= 0 && chosen->workspace <= limits[i],
                  "%s: workspace %zu of %zu", text, chosen->workspace, limits[i]);
        check(o, text, row, run(o, row, dtype));
    }
}

Test(conv2d_rows, im2col_works_in_any_workspace)
{
    each_case(test_limits);
}

/* A NaN in x reaches the outputs whose window holds it and no others, for every row. */
Test(conv2d_rows, a_nan_touches_only_the_windows_that_hold_it)
{
    static const char *const problems[] = { "n2c1h9w20o1k3x3p1x1", "n2c3h7w9o4k1x1" };
    static const char *const rows[] = { "dir", "pir" };
    for (int i = 0; i < 2; i++)
        for (const char *initial = rows[i]; *initial != '\0'; initial++) {
            operands o = operands_new(problems[i]);
            const talc_conv2d_problem *p = &o.p;
            o.x[4 * p->W + 5] = NAN; /* image 0, channel 0, row 4, column 5 */
            talc_tensor *y = run(&o, row_name(*initial), TALC_F32);
            assert_no_failure();
            for (int64_t at = 0; at < talc_numel(y); at++) {
                const int64_t ow = at % p->OW, oh = at / p->OW % p->OH,
                              n = at / p->OW / p->OH / p->OC;
                const bool due =
                    n == 0 && llabs(oh - 4) <= p->pad_top && llabs(ow - 5) <= p->pad_left;
                cr_assert(isnan(element(y, at)) == due, "%s %s: output %lld", problems[i],
                          row_name(*initial), (long long)at);
            }
            operands_free(&o);
        }
    assert_all_freed();
}

Test(conv2d_rows, rows_say_why_they_refuse)
{
    static const struct {
        const char *problem, *row, *reason;
    } refusals[] = {
        { "n1c4h5w5o4k3x3", "depthwise", "groups are not the input channels" },
        { "n1c4h5w5o4k3x3p1x1g4_reflect", "depthwise", "the padding is not zeros" },
        { "n1c1h5w5o1k1x1s70000x1", "depthwise",
          "the dilated kernel or the stride is longer than 65536" },
        { "n1c4h5w5o4k3x1", "pointwise", "the kernel is not 1x1" },
        { "n1c4h5w5o4k1x1s1x2", "pointwise", "the stride is not 1" },
        { "n1c4h5w5o4k1x1p0x0x0x1", "pointwise", "there is padding" },
    };
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        talc_conv2d_problem problem;
        talc_conv2d_explanation explanation;
        cr_assert(talc_conv2d_problem_parse(refusals[i].problem, &problem), "%s",
                  talc_error_message());
        cr_assert(talc_conv2d_explain(cpu_device(), &problem, NULL, &explanation));
        for (int j = 0; j < explanation.count; j++)
            if (strcmp(explanation.candidates[j].name, refusals[i].row) == 0)
                cr_assert(strcmp(explanation.candidates[j].reason, refusals[i].reason) == 0,
                          "%s: %s", refusals[i].problem, explanation.candidates[j].reason);
    }
    assert_all_freed();
}

/* The rows read a direction that talc_conv2d does not pose. */
Test(conv2d_rows, only_the_forward_direction)
{
    talc_conv2d_problem problem;
    cr_assert(talc_conv2d_problem_parse("n1c1h3w3o1k1x1", &problem));
    problem.direction = TALC_GRAD_INPUT;
    talc_conv2d_explanation explanation;
    cr_assert(talc_conv2d_explain(cpu_device(), &problem, NULL, &explanation));
    cr_assert(explanation.count > 0 && explanation.chosen == -1);
    for (int i = 0; i < explanation.count; i++)
        cr_assert(strcmp(explanation.candidates[i].reason, "only the forward direction") == 0, "%s",
                  explanation.candidates[i].reason);
    assert_all_freed();
}

// ---- Rows that yield ----------------------------------------------------------------------------------------

static const char *takes_all(const talc_conv2d_problem *problem)
{
    (void)problem;
    return NULL;
}

static const char *takes_none(const talc_conv2d_problem *problem)
{
    (void)problem;
    return "takes none";
}

/* To whatever comes after it, where x has one channel. */
static const char *yields(const talc_device *device, const talc_conv2d_problem *problem,
                          size_t limit)
{
    (void)limit;
    return strcmp(talc_device_name(device), "cpu") == 0 && problem->C == 1 ? "one channel" : NULL;
}

static talc_status write_1(talc_device *device, const talc_conv2d_problem *problem,
                           const talc_conv2d_arguments *arguments)
{
    (void)device, (void)problem;
    *(float *)arguments->y = 1;
    return TALC_OK;
}

static talc_status write_2(talc_device *device, const talc_conv2d_problem *problem,
                           const talc_conv2d_arguments *arguments)
{
    (void)device, (void)problem;
    *(float *)arguments->y = 2;
    return TALC_OK;
}

/* The number of the row that a convolution of C channels runs, which explain has to say too. */
static int row_run(talc_device *device, int64_t C, const char *forced)
{
    const talc_conv2d_options options = { .algorithm = forced };
    talc_scope *scope = talc_scope_enter();
    const talc_tensor *x = talc_ones(device, TALC_F32, TALC_DIMS(1, C, 1, 1));
    const talc_tensor *w = talc_ones(device, TALC_F32, TALC_DIMS(1, C, 1, 1));
    const int row = (int)talc_item(talc_conv2d(x, w, NULL, &options));
    cr_assert(!talc_failed(), "%s", talc_error_message());
    talc_conv2d_problem problem;
    talc_conv2d_explanation e;
    cr_assert(talc_conv2d_problem_of(x, w, NULL, &options, &problem));
    cr_assert(talc_conv2d_explain(device, &problem, &options, &e));
    cr_assert(e.chosen == row - 1, "row %d ran, explain says %d", row, e.chosen + 1);
    const bool first_yields = row == 2 && forced == NULL;
    cr_assert(e.candidates[0].yields == first_yields && !e.candidates[1].yields);
    cr_assert(!first_yields || strcmp(e.candidates[0].reason, "one channel") == 0);
    talc_scope_leave(scope);
    return row;
}

Test(conv2d_rows, a_row_yields_to_a_later_one_that_can)
{
    talc_conv2d_algorithm rows[] = {
        { .algorithm = { "first", { "none", TALC_STRICT, false } },
          .refuses = takes_all,
          .run = write_1,
          .yields = yields },
        { .algorithm = { "second", { "none", TALC_STRICT, false } },
          .refuses = takes_all,
          .run = write_2 },
        { .algorithm = { .name = NULL } },
    };
    talc_device device = *cpu_device();
    struct talc_backend backend = *device.backend;
    backend.conv2d = rows;
    device.backend = &backend;
    cr_expect(row_run(&device, 2, NULL) == 1);
    cr_expect(row_run(&device, 1, NULL) == 2);
    cr_expect(row_run(&device, 1, "first") == 1, "a row that is asked for does not yield");
    cr_expect(row_run(&device, 2, "second") == 2);
    rows[1].refuses = takes_none;
    cr_expect(row_run(&device, 1, NULL) == 1, "nobody is left to yield to");
    rows[0].refuses = takes_none;
    const talc_tensor *x = talc_ones(&device, TALC_F32, TALC_DIMS(1, 1, 1, 1));
    cr_assert(talc_conv2d(x, x, NULL, NULL) == NULL);
    cr_assert_str_eq(talc_error_message(), "conv2d on cpu: first: takes none; second: takes none");
    talc_error_clear();
    assert_all_freed();
}
