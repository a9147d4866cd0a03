/* conv2d's gradients by every algorithm of a device, exactly in integers: each element against the
 * sum that defines it, the adjoint identity <conv(x, w), dy> = <x, dx> = <w, dw>, and the same bits
 * for every number of threads. */
#include "check/conv2d/conv2d.h"
#include "check/engine/data.h"
#include "tests/support/conv2d_data.h"
#include "tests/support/hooks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const cases[] = {
    "n2c3h9w7o4k3x3",
    "n1c1h1w1o1k1x1",
    "n2c6h13w11o9k3x4s2x3p2x1d2x1g3",
    "n1c3h12w9o5k5x3p2x1x3x4_f64",
    "n2c4h9w8o6k3x3p2x2_reflect",
    "n2c4h9w8o6k3x5s2x1p4x3x1x2d2x1_replicate",
    "n1c4h6w7o6k3x3s1x2p6x7_circular_f64",
    /* Rows and columns that no output reads: their gradient is zero. */
    "n2c2h8w9o3k2x2s3x4",
    /* Steps that are never taken. */
    "n1c2h4w5o2k3x2s4611686018427387904x4611686018427387905p2x3",
    "n1c2h4w5o2k1x1p2x3d9223372036854775807x9223372036854775806",
    "n1c2h4w5o2k1x1s3x5p2x3d9223372036854775807x9223372036854775806",
    /* im2col: several images, several blocks of columns and rows. */
    "n40c8h4w5o12k3x3p1x1",
    "n9c40h6w6o14k3x3p1x1g2",
    "n2c2h50w70o3k5x5p2x2",
    "n1c70h9w9o4k2x2",
    "n19c1h12w12o6k5x5p2x2_f64",
    /* pointwise */
    "n3c4h5w6o5k1x1",
    "n2c6h11w13o4k1x1g2_f64",
    "n1c30h50w70o140k1x1",
    /* depthwise */
    "n2c5h7w7o5k3x3p1x1g5",
    "n2c3h20w37o6k3x3p1x1g3",
    "n3c4h14w31o4k3x3s2x2p1x1g4",
    "n1c2h17w35o4k4x3s3x4p3x2x1x0d2x3g2_f64",
    "n1c2h5w3o2k3x3s5x7p9x9g2",
    "n6c1h40w50o2k5x5p2x2",
};

enum { CASES = sizeof cases / sizeof *cases, RANDOM = 60 };

// ---- The sums that define dx and dw -------------------------------------------------------------

typedef struct expected_sum {
    double *dx, *dw;
    double product; /* <conv(x, w), dy> */
} expected_sum;

static int64_t x_index(const talc_conv2d_problem *p, int64_t n, int64_t c, int64_t ih, int64_t iw)
{
    const int64_t row = talc_check_source(p->padding_mode, ih, p->H);
    const int64_t column = talc_check_source(p->padding_mode, iw, p->W);
    return row < 0 || column < 0 ? -1 : ((n * p->C + c) * p->H + row) * p->W + column;
}

/* What output (n, oc, oh, ow), whose cotangent is dy, adds to each. */
static void scatter(const conv2d_data *data, int64_t n, int64_t oc, int64_t oh, int64_t ow,
                    double dy, expected_sum *expected)
{
    const talc_conv2d_problem *p = &data->problem;
    const int64_t IC = p->C / p->groups, first = oc / (p->OC / p->groups) * IC;
    for (int64_t ic = 0; ic < IC; ic++)
        for (int64_t kh = 0; kh < p->KH; kh++)
            for (int64_t kw = 0; kw < p->KW; kw++) {
                const int64_t x =
                    x_index(p, n, first + ic, oh * p->stride_h - p->pad_top + kh * p->dilation_h,
                            ow * p->stride_w - p->pad_left + kw * p->dilation_w);
                const int64_t w = ((oc * IC + ic) * p->KH + kh) * p->KW + kw;
                if (x < 0)
                    continue;
                expected->dx[x] += data->w[w] * dy;
                expected->dw[w] += data->x[x] * dy;
                expected->product += data->x[x] * data->w[w] * dy;
            }
}

static int64_t dx_count(const talc_conv2d_problem *p)
{
    return p->N * p->C * p->H * p->W;
}

static int64_t dw_count(const talc_conv2d_problem *p)
{
    return p->OC * (p->C / p->groups) * p->KH * p->KW;
}

static expected_sum expected_of(const conv2d_data *data, const double *dy)
{
    const talc_conv2d_problem *p = &data->problem;
    expected_sum expected = { calloc((size_t)dx_count(p) + 1, sizeof(double)),
                              calloc((size_t)dw_count(p) + 1, sizeof(double)), 0 };
    cr_assert(expected.dx != NULL && expected.dw != NULL);
    for (int64_t n = 0; n < p->N; n++)
        for (int64_t oc = 0; oc < p->OC; oc++)
            for (int64_t oh = 0; oh < p->OH; oh++)
                for (int64_t ow = 0; ow < p->OW; ow++)
                    scatter(data, n, oc, oh, ow, dy[((n * p->OC + oc) * p->OH + oh) * p->OW + ow],
                            &expected);
    return expected;
}

// ---- Running ------------------------------------------------------------------------------------

static talc_tensor *tensor_of(talc_device *device, talc_dtype dtype, talc_dims dims,
                              const double *values)
{
    talc_tensor *wide = talc_from_host(cpu_device(), TALC_F64, dims, values);
    return talc_to(wide, device, dtype);
}

typedef struct operands {
    talc_tensor *x, *w, *dy;
    talc_conv2d_options options;
} operands;

/* The gradient by x or by w, for the caller to free. */
static double *gradient_by(const operands *o, talc_tensor *leaf)
{
    talc_scope *scope = talc_scope_enter();
    talc_require_grad(leaf, true);
    talc_backward_from(talc_conv2d(o->x, o->w, NULL, &o->options), o->dy);
    double *values = talc_failed() ? NULL : host_doubles(talc_grad(leaf));
    talc_require_grad(leaf, false);
    talc_scope_leave(scope);
    return values;
}

static void expect_values(const char *text, const char *algorithm, const char *what,
                          const double *expected, const double *got, int64_t count)
{
    cr_assert(got != NULL, "%s %s by %s: %s", text, what, algorithm, talc_error_message());
    for (int64_t i = 0; i < count; i++)
        cr_assert(got[i] == expected[i], "%s: element %d of %s by %s is %.17g instead of %.17g",
                  text, (int)i, what, algorithm, got[i], expected[i]);
}

static double product(const double *a, const double *b, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

/* Every algorithm that takes the direction; how many there are. */
static int expect_algorithms(const operands *o, const conv2d_data *data, talc_direction direction,
                             const expected_sum *expected)
{
    const bool input = direction == TALC_GRAD_INPUT;
    const char *op = input ? "conv2d.grad_input" : "conv2d.grad_weight";
    char text[TALC_CONV2D_TEXT];
    talc_conv2d_problem problem = data->problem;
    problem.direction = direction;
    talc_conv2d_problem_text(&problem, text);
    const talc_conv2d_explanation e = conv2d_explanation(tested_device(), &problem);
    const int64_t count = input ? dx_count(&problem) : dw_count(&problem);
    int rows = 0;
    for (int i = 0; i < e.decision.count; i++) {
        const char *name = e.decision.candidates[i].title;
        if (e.decision.candidates[i].refused)
            continue;
        cr_assert(talc_algorithm_force(op, name));
        double *got = gradient_by(o, input ? o->x : o->w);
        expect_values(text, name, input ? "dx" : "dw", input ? expected->dx : expected->dw, got,
                      count);
        const double adjoint = product(input ? data->x : data->w, got, count);
        cr_assert(adjoint == expected->product, "%s by %s: %.17g instead of %.17g", text, name,
                  adjoint, expected->product);
        free(got);
        cr_assert(talc_algorithm_force(op, NULL));
        rows++;
    }
    return rows;
}

/* Integers of which every sum is exact. */
static operands operands_of(talc_device *device, conv2d_data *data, double *dy, uint64_t seed)
{
    const talc_conv2d_problem *p = &data->problem;
    talc_check_fill(data->x, dx_count(p), p->dtype, TALC_CHECK_EXACT, 3, 1, 3 * seed);
    talc_check_fill(data->w, dw_count(p), p->dtype, TALC_CHECK_EXACT, 3, 1, 3 * seed + 1);
    talc_check_fill(dy, data->y_count, p->dtype, TALC_CHECK_EXACT, 3, 1, 3 * seed + 2);
    return (operands){
        tensor_of(device, p->dtype, TALC_DIMS(p->N, p->C, p->H, p->W), data->x),
        tensor_of(device, p->dtype, TALC_DIMS(p->OC, p->C / p->groups, p->KH, p->KW), data->w),
        tensor_of(device, p->dtype, TALC_DIMS(p->N, p->OC, p->OH, p->OW), dy),
        conv2d_options(p, NULL, NULL),
    };
}

static int expect_problem(talc_conv2d_problem problem, uint64_t seed)
{
    problem.bias = problem.residual = false;
    problem.activation = TALC_ACTIVATION_NONE;
    talc_scope *scope = talc_scope_enter();
    conv2d_data data = conv2d_data_zeros(&problem);
    double *dy = calloc((size_t)data.y_count + 1, sizeof *dy);
    cr_assert_not_null(dy);
    const operands o = operands_of(tested_device(), &data, dy, seed);
    expected_sum expected = expected_of(&data, dy);
    double *y = host_doubles(talc_conv2d(o.x, o.w, NULL, &o.options));
    char text[TALC_CONV2D_TEXT];
    cr_assert(product(y, dy, data.y_count) == expected.product,
              "%s: the forward result is %.17g instead of %.17g",
              talc_conv2d_problem_text(&problem, text), product(y, dy, data.y_count),
              expected.product);
    const int rows = expect_algorithms(&o, &data, TALC_GRAD_INPUT, &expected) +
                     expect_algorithms(&o, &data, TALC_GRAD_WEIGHT, &expected);
    free(y);
    free(expected.dx);
    free(expected.dw);
    free(dy);
    conv2d_data_free(&data);
    talc_scope_leave(scope);
    return rows;
}

Test(conv2d_gradient, every_algorithm_is_exact_in_integers)
{
    for (int i = 0; i < CASES; i++)
        cr_assert(expect_problem(conv2d_parse(cases[i]), (uint64_t)i) >= 2, "%s", cases[i]);
    for (uint64_t seed = 0; seed < RANDOM; seed++)
        cr_assert(expect_problem(conv2d_random_problem(seed), seed) >= 2);
}

/* Limits down to nothing, under which every device has an algorithm: algorithms work in smaller
 * blocks and fewer splits. */
Test(conv2d_gradient, every_algorithm_is_exact_in_little_workspace)
{
    const size_t before = talc_workspace_limit(tested_device());
    static const size_t limits[] = { 0, 1000, 20000, 300000 };
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        cr_assert(talc_workspace_set_limit(tested_device(), limits[i]));
        for (int k = 0; k < CASES; k++)
            expect_problem(conv2d_parse(cases[k]), (uint64_t)k);
    }
    cr_assert(talc_workspace_set_limit(tested_device(), before));
}

// ---- What is not finite -------------------------------------------------------------------------

/* The sums of a direction over what there is: y and dw multiply the zeros of the padding, dx has no
 * outputs but its own. `first` and `second` are what the direction reads. */
static double *sums_of(const talc_conv2d_problem *p, const double *first, const double *second)
{
    const int64_t IC = p->C / p->groups, OC = p->OC / p->groups;
    double *sums = calloc((size_t)(dx_count(p) + dw_count(p) + p->N * p->OC * p->OH * p->OW), 8);
    cr_assert_not_null(sums);
    for (int64_t y = 0; y < p->N * p->OC * p->OH * p->OW; y++)
        for (int64_t t = 0; t < IC * p->KH * p->KW; t++) {
            const int64_t ow = y % p->OW, oh = y / p->OW % p->OH, oc = y / p->OW / p->OH % p->OC;
            const int64_t n = y / p->OW / p->OH / p->OC, kw = t % p->KW, kh = t / p->KW % p->KH;
            const int64_t x = x_index(p, n, oc / OC * IC + t / p->KW / p->KH,
                                      oh * p->stride_h - p->pad_top + kh * p->dilation_h,
                                      ow * p->stride_w - p->pad_left + kw * p->dilation_w);
            const int64_t w = oc * IC * p->KH * p->KW + t;
            if (p->direction == TALC_FORWARD)
                sums[y] += (x < 0 ? 0 : first[x]) * second[w];
            else if (p->direction == TALC_GRAD_WEIGHT)
                sums[w] += (x < 0 ? 0 : first[x]) * second[y];
            else if (x >= 0)
                sums[x] += second[w] * first[y];
        }
    return sums;
}

/* Numbers that differ in neither NaN nor size. */
static bool same(double got, double expected)
{
    return isnan(expected) ? isnan(got) : got == expected;
}

static void expect_nonfinite_gradients(const talc_conv2d_problem *p, const double *const values[2],
                                       talc_tensor *const read[2])
{
    char text[TALC_CONV2D_TEXT];
    const unsigned classes = TALC_STRICT | TALC_TF32;
    talc_conv2d_options options = conv2d_options(p, NULL, NULL);
    options.precision = classes;
    talc_conv2d_explanation e;
    cr_assert(talc_conv2d_explain(tested_device(), p, &options, &e));
    double *expected = sums_of(p, values[0], values[1]);
    for (int i = 0; i < e.decision.count; i++) {
        options.algorithm = e.decision.candidates[i].title;
        if (e.decision.candidates[i].refused)
            continue;
        const talc_tensor *y =
            p->direction == TALC_FORWARD
                ? talc_conv2d(read[0], read[1], NULL, &options)
                : talc_conv2d_gradient(p, read[p->direction == TALC_GRAD_INPUT],
                                       read[p->direction != TALC_GRAD_INPUT], &options);
        cr_assert(y != NULL, "%s", talc_error_message());
        double *got = host_doubles(y);
        for (int64_t j = 0; j < talc_numel(y); j++)
            cr_assert(same(got[j], expected[j]), "%s by %s: element %d is %g instead of %g",
                      talc_conv2d_problem_text(p, text), options.algorithm, (int)j, got[j],
                      expected[j]);
        free(got);
    }
    free(expected);
}

/* In every place that differs of either operand: at its ends, where the padding is, and in the
 * middle. Other numbers are integers. */
static void expect_nonfinite(talc_conv2d_problem p, talc_direction direction)
{
    static const double odd[] = { INFINITY, NAN, -INFINITY };
    p.direction = direction;
    const talc_dims dims[] = { TALC_DIMS(p.N, p.C, p.H, p.W),
                               TALC_DIMS(p.OC, p.C / p.groups, p.KH, p.KW),
                               TALC_DIMS(p.N, p.OC, p.OH, p.OW) };
    const int reads[2] = { direction == TALC_GRAD_INPUT ? 2 : 0,
                           direction == TALC_GRAD_WEIGHT ? 2 : 1 };
    int64_t count[2] = { 1, 1 };
    double *values[2];
    for (int i = 0; i < 2; i++) {
        for (int d = 0; d < 4; d++)
            count[i] *= dims[reads[i]].dim[d];
        values[i] = calloc((size_t)count[i], sizeof(double));
        talc_check_fill(values[i], count[i], p.dtype, TALC_CHECK_EXACT, 3, 1, (uint64_t)i);
    }
    for (int operand = 0; operand < 2; operand++)
        for (int i = 0; i < 9; i++) {
            talc_scope *scope = talc_scope_enter();
            const int64_t at = i / 3 == 0   ? 0
                               : i / 3 == 1 ? count[operand] - 1
                                            : count[operand] / 2;
            const double was = values[operand][at];
            values[operand][at] = odd[i % 3];
            talc_tensor *read[2];
            for (int k = 0; k < 2; k++)
                read[k] = tensor_of(tested_device(), p.dtype, dims[reads[k]], values[k]);
            expect_nonfinite_gradients(&p, (const double *const *)values, read);
            values[operand][at] = was;
            talc_scope_leave(scope);
        }
    free(values[0]);
    free(values[1]);
}

Test(conv2d_gradient, what_is_not_finite_goes_where_the_sums_say)
{
    static const char *const problems[] = {
        "n1c8h16w16o8k3x3p1x1", "n2c6h13w11o9k3x4s2x3p2x1d2x1g3",
        "n2c4h7w7o4k3x3p1x1g4", "n1c3h9w8o4k3x3s2x1p1x1_f64",
        "n1c2h8w9o3k3x3s2x2",   "n1c2h5w3o2k3x3s5x7p9x9g2",
        "n3c9h5w5o20k4x4p3x3",  "n2c4h6w6o5k1x1s2x2",
        "n2c5h6w6o5k1x1",       "n1c40h9w9o40k3x3p1x1d2x2",
    };
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++)
        for (int direction = TALC_FORWARD; direction <= TALC_GRAD_WEIGHT; direction++)
            expect_nonfinite(conv2d_parse(problems[i]), (talc_direction)direction);
}

/* One infinite weight: in dx where a window has it over the pixel, and there alone. */
Test(conv2d_gradient, an_infinite_weight_makes_no_nan)
{
    talc_tensor *x = talc_ones(tested_device(), TALC_F32, TALC_DIMS(1, 8, 16, 16));
    talc_tensor *w = talc_ones(tested_device(), TALC_F32, TALC_DIMS(8, 8, 3, 3));
    cr_assert(talc_fill(
        talc_slice(talc_slice(talc_select(talc_select(w, 0, 2), 0, 3), 0, 0, 1, 1), 1, 0, 1, 1),
        INFINITY));
    talc_require_grad(x, true);
    const talc_conv2d_options options = { .padding = { 1, 1 } };
    cr_assert(talc_backward_from(talc_conv2d(x, w, NULL, &options),
                                 talc_ones(tested_device(), TALC_F32, TALC_DIMS(1, 8, 16, 16))));
    double *dx = host_doubles(talc_grad(x));
    int infinite = 0;
    for (int i = 0; i < 8 * 256; i++) {
        cr_assert(!isnan(dx[i]), "element %d", i);
        infinite += isinf(dx[i]) != 0;
    }
    cr_assert(infinite == 15 * 15, "%d", infinite);
    free(dx);
}

static operands random_operands(const talc_conv2d_problem *p)
{
    talc_device *device = tested_device();
    return (operands){
        random_tensor(device, p->dtype, TALC_DIMS(p->N, p->C, p->H, p->W), 1),
        random_tensor(device, p->dtype, TALC_DIMS(p->OC, p->C / p->groups, p->KH, p->KW), 2),
        random_tensor(device, p->dtype, TALC_DIMS(p->N, p->OC, p->OH, p->OW), 3),
        conv2d_options(p, NULL, NULL),
    };
}

// ---- Long sums ----------------------------------------------------------------------------------

/* The gradient of absolute values is the measure S of each sum: 4 u sqrt(K + 4) S is what random
 * rounding leaves. */
Test(conv2d_gradient, long_sums_of_f32_stay_accurate)
{
    static const char *const problems[] = { "n64c1h28w28o6k5x5p2x2", "n24c5h32w32o4k3x3p1x1",
                                            "n64c6h30w30o5k1x1" };
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) {
        const talc_conv2d_problem p = conv2d_parse(problems[i]);
        talc_conv2d_problem problem = p;
        problem.direction = TALC_GRAD_WEIGHT;
        const talc_conv2d_explanation e = conv2d_explanation(tested_device(), &problem);
        const double bound = 4 * ldexp(1, -24) * sqrt((double)(p.N * p.OH * p.OW) + 4);
        talc_scope *scope = talc_scope_enter();
        const operands o = random_operands(&p);
        talc_device *cpu = cpu_device(); /* which has a reference */
        const operands exact = { talc_to(o.x, cpu, TALC_F64), talc_to(o.w, cpu, TALC_F64),
                                 talc_to(o.dy, cpu, TALC_F64), o.options };
        const operands sizes = { talc_abs(exact.x), talc_abs(exact.w), talc_abs(exact.dy),
                                 o.options };
        talc_algorithm_force("conv2d.grad_weight", "reference");
        double *expected = gradient_by(&exact, exact.w), *S = gradient_by(&sizes, sizes.w);
        for (int k = 0; k < e.decision.count; k++) {
            if (e.decision.candidates[k].refused)
                continue;
            talc_algorithm_force("conv2d.grad_weight", e.decision.candidates[k].title);
            double *got = gradient_by(&o, o.w);
            cr_assert(expected != NULL && S != NULL && got != NULL, "%s", talc_error_message());
            for (int64_t j = 0; j < dw_count(&p); j++)
                cr_assert(fabs(got[j] - expected[j]) <= bound * S[j],
                          "%s by %s: element %d is off by %g of %g", problems[i],
                          e.decision.candidates[k].title, (int)j, fabs(got[j] - expected[j]),
                          bound * S[j]);
            free(got);
        }
        free(expected);
        free(S);
        talc_algorithm_force("conv2d.grad_weight", NULL);
        talc_scope_leave(scope);
    }
}

// ---- Wide padding -------------------------------------------------------------------------------

/* Padding is one pass, however wide it is: no more allocations than for a narrow one. */
Test(conv2d_gradient, wide_padding_takes_no_line_by_itself)
{
    static const struct {
        talc_padding_mode mode;
        int64_t W, left, right;
    } wide[] = { { TALC_PADDING_REPLICATE, 3, 200000, 100001 },
                 { TALC_PADDING_REFLECT, 3001, 3000, 2999 },
                 { TALC_PADDING_CIRCULAR, 3000, 2999, 3000 } };
    enum { ALLOCATIONS = 60 };
    for (int i = 0; i < 3; i++)
        for (int leaf = 0; leaf < 2; leaf++) {
            talc_scope *scope = talc_scope_enter();
            const int64_t W = wide[i].W, OW = W + wide[i].left + wide[i].right;
            const talc_conv2d_options options = { .padding = { 0, wide[i].left },
                                                  .padding_end = { 0, wide[i].right },
                                                  .padding_mode = wide[i].mode };
            talc_tensor *x = talc_arange(tested_device(), TALC_F64, 0, (double)W, 1);
            x = talc_reshape(x, TALC_DIMS(1, 1, 1, W));
            talc_tensor *w = talc_full(tested_device(), TALC_F64, TALC_DIMS(1, 1, 1, 1), 2);
            talc_require_grad(leaf == 0 ? x : w, true);
            const talc_tensor *y = talc_conv2d(x, w, NULL, &options),
                              *dy = talc_ones(tested_device(), TALC_F64, TALC_DIMS(1, 1, 1, OW));
            allow_allocations(ALLOCATIONS);
            cr_assert(talc_backward_from(y, dy), "%s", talc_error_message());
            allow_all_allocations();
            double *expected = calloc((size_t)W, sizeof *expected), sum = 0;
            for (int64_t o = 0; o < OW; o++) {
                const int64_t from = talc_check_source(wide[i].mode, o - wide[i].left, W);
                expected[from] += 2;
                sum += (double)from;
            }
            double *got = host_doubles(talc_grad(leaf == 0 ? x : w));
            expect_values("padding", talc_padding_mode_name(wide[i].mode), leaf == 0 ? "dx" : "dw",
                          leaf == 0 ? expected : &sum, got, leaf == 0 ? W : 1);
            free(expected);
            free(got);
            talc_scope_leave(scope);
        }
}

// ---- Threads ------------------------------------------------------------------------------------

/* Both gradients of data that round, by the algorithms forced, one after the other. */
static double *both(const talc_conv2d_problem *p, int threads)
{
    const int64_t x_count = dx_count(p), w_count = dw_count(p);
    cr_assert(talc_set_threads(threads));
    talc_scope *scope = talc_scope_enter();
    const operands o = random_operands(p);
    double *all = malloc((size_t)(x_count + w_count) * sizeof *all);
    double *dx = gradient_by(&o, o.x), *dw = gradient_by(&o, o.w);
    cr_assert(all != NULL && dx != NULL && dw != NULL, "%s", talc_error_message());
    memcpy(all, dx, (size_t)x_count * sizeof *all);
    memcpy(all + x_count, dw, (size_t)w_count * sizeof *all);
    free(dx);
    free(dw);
    talc_scope_leave(scope);
    return all;
}

Test(conv2d_gradient, the_same_bits_for_every_number_of_threads)
{
    static const struct {
        const char *text, *algorithm;
    } rows[] = {
        { "n7c3h9w7o4k3x3p1x1", "reference" },
        { "n64c1h28w28o6k5x5p2x2", "im2col" },
        { "n40c8h4w5o12k3x3p1x1g2", "im2col" },
        { "n2c70h30w40o9k3x3", "im2col" },
        { "n9c30h17w19o24k1x1g2", "pointwise" },
        { "n1c30h80w70o140k1x1_f64", "pointwise" },
        { "n6c3h20w37o6k3x3p1x1g3", "depthwise" },
        { "n64c1h28w28o6k5x5p2x2", "implicit_gemm" },
        { "n40c8h4w5o12k3x3p1x1g2", "implicit_gemm" },
        { "n2c70h30w40o9k3x3s2x1_f64", "implicit_gemm" },
    };
    const int before = talc_threads();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        talc_conv2d_problem problem = conv2d_parse(rows[i].text);
        if (talc_device_is_host(tested_device())) {
            const bool input_alone = strcmp(rows[i].algorithm, "im2col") == 0;
            talc_algorithm_force("conv2d.grad_input", rows[i].algorithm);
            talc_algorithm_force("conv2d.grad_weight", input_alone ? NULL : rows[i].algorithm);
        }
        const size_t bytes = (size_t)(dx_count(&problem) + dw_count(&problem)) * sizeof(double);
        double *one = both(&problem, 1);
        for (int threads = 2; threads <= 4; threads += 2) {
            double *more = both(&problem, threads);
            cr_assert(memcmp(one, more, bytes) == 0, "%s by %s: %d threads", rows[i].text,
                      rows[i].algorithm, threads);
            free(more);
        }
        free(one);
        talc_algorithm_force("conv2d.grad_input", NULL);
        talc_algorithm_force("conv2d.grad_weight", NULL);
    }
    cr_assert(talc_set_threads(before));
}
