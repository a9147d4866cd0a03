/* separable_conv2d: its values against loops in float64, what runs when, texts, and its gradients. */
#include "ops/backend.h"
#include "ops/separable_conv2d_choice.h"
#include "tests/support/activation.h"
#include "tests/support/guard.h"
#include "tests/support/observed_ops.h"
#include "tests/support/op_cases.h"
#include "tests/support/timed_backend.h"

#include <math.h>
#include <stdlib.h>

// ---- Values -------------------------------------------------------------------------------------------------

/* Operands of a problem: x, w1, b1, w2, b2, residual; and its options. */
typedef struct separable_case {
    talc_separable_conv2d_problem p;
    talc_tensor *in[6];
    talc_conv2d_options depthwise, pointwise;
} separable_case;

static separable_case case_new(talc_device *device, const char *text)
{
    separable_case c = { .p = { .depthwise = { .N = 0 } } };
    cr_assert(talc_separable_conv2d_problem_parse(text, &c.p), "%s", talc_error_message());
    const talc_conv2d_problem *p = &c.p.depthwise, *q = &c.p.pointwise;
    const talc_dims dims[] = { TALC_DIMS(p->N, p->C, p->H, p->W),
                               TALC_DIMS(p->C, 1, p->KH, p->KW),
                               TALC_DIMS(p->C),
                               TALC_DIMS(q->OC, q->C, 1, 1),
                               TALC_DIMS(q->OC),
                               TALC_DIMS(q->N, q->OC, q->OH, q->OW) };
    const bool has[] = { true, true, p->bias, true, q->bias, q->residual };
    for (unsigned i = 0; i < 6; i++)
        if (has[i])
            c.in[i] = talc_cast(op_numbers(device, dims[i], i + 1), p->dtype);
    c.depthwise = (talc_conv2d_options){
        .stride = { p->stride_h, p->stride_w },
        .padding = { p->pad_top, p->pad_left },
        .padding_end = { p->pad_bottom == 0 ? TALC_ZERO : p->pad_bottom,
                         p->pad_right == 0 ? TALC_ZERO : p->pad_right },
        .padding_mode = p->padding_mode,
        .dilation = { p->dilation_h, p->dilation_w },
        .activation = p->activation,
    };
    c.pointwise = (talc_conv2d_options){ .activation = q->activation, .residual = c.in[5] };
    assert_no_failure();
    return c;
}

static talc_tensor *call(const separable_case *c, const char *algorithm)
{
    talc_conv2d_options pointwise = c->pointwise;
    pointwise.algorithm = algorithm;
    return talc_separable_conv2d(c->in[0], c->in[1], c->in[2], &c->depthwise, c->in[3], c->in[4],
                                 &pointwise);
}

/* The pixel at i of `extent`, -1 for a zero. */
static int64_t reflected(int64_t i, int64_t extent, bool reflects)
{
    if (i >= 0 && i < extent)
        return i;
    return !reflects ? -1 : i < 0 ? -i : 2 * (extent - 1) - i;
}

/* m[n, c, oh, ow] by its formula. */
static double between(const talc_conv2d_problem *p, double *const host[6], int64_t n, int64_t c,
                      int64_t oh, int64_t ow)
{
    const bool reflects = p->padding_mode == TALC_PADDING_REFLECT;
    double sum = p->bias ? host[2][c] : 0;
    for (int64_t kh = 0; kh < p->KH; kh++)
        for (int64_t kw = 0; kw < p->KW; kw++) {
            const int64_t h =
                reflected(oh * p->stride_h - p->pad_top + kh * p->dilation_h, p->H, reflects);
            const int64_t w =
                reflected(ow * p->stride_w - p->pad_left + kw * p->dilation_w, p->W, reflects);
            if (h >= 0 && w >= 0)
                sum += host[0][((n * p->C + c) * p->H + h) * p->W + w] *
                       host[1][(c * p->KH + kh) * p->KW + kw];
        }
    return activated(p->activation, sum);
}

static void expect_values(const separable_case *c, const talc_tensor *y, const char *what)
{
    const talc_conv2d_problem *q = &c->p.pointwise;
    const double relative = q->dtype == TALC_F32 ? 1e-6 : 1e-14;
    double *host[6] = { NULL }, *got = host_doubles(y);
    for (int i = 0; i < 6; i++)
        host[i] = c->in[i] == NULL ? NULL : host_doubles(c->in[i]);
    cr_assert(talc_numel(y) == q->N * q->OC * q->OH * q->OW && y->dtype == q->dtype, "%s", what);
    for (int64_t i = 0; i < talc_numel(y); i++) {
        const int64_t ow = i % q->OW, oh = i / q->OW % q->OH, oc = i / q->OW / q->OH % q->OC;
        const int64_t n = i / q->OW / q->OH / q->OC;
        double sum = (q->bias ? host[4][oc] : 0) + (q->residual ? host[5][i] : 0);
        for (int64_t ic = 0; ic < q->C; ic++)
            sum += host[3][oc * q->C + ic] * between(&c->p.depthwise, host, n, ic, oh, ow);
        const double due = activated(q->activation, sum);
        cr_assert(fabs(got[i] - due) <= relative * 3 * (double)q->C, "%s: element %d is %g, not %g",
                  what, (int)i, got[i], due);
    }
    for (int i = 0; i < 6; i++)
        free(host[i]);
    free(got);
}

static const char *const texts[] = {
    "n2c5h7w9o5k3x3p1x1g5+o4",
    "n1c3h8w7o3k5x5s2x2p2x2g3_bias_relu+o6_bias_residual_relu",
    "n2c4h9w6o4k3x2s1x2p1x0x2x3d2x1g4_bias_tanh+o3_sigmoid",
    "n1c2h5w6o2k3x3p2x1g2_reflect+o5_residual",
    "n2c3h6w5o3k2x3p1x1g3_f64_bias_sigmoid+o4_bias_residual_tanh",
    "n1c1h4w4o1k1x1g1+o1_bias",
    "n0c4h5w5o4k3x3g4+o2_bias",
};

Test(separable_conv2d, every_way_agrees_with_loops_in_float64)
{
    const talc_algorithm *rows = tested_device()->backend->separable_conv2d;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const separable_case c = case_new(tested_device(), texts[i]);
        talc_tensor *y = call(&c, NULL);
        cr_assert(y != NULL, "%s: %s", texts[i], talc_error_message());
        expect_values(&c, y, texts[i]);
        for (const talc_algorithm *row = rows; row != NULL && row->name != NULL; row++) {
            separable_case named = c;
            named.pointwise.precision = TALC_STRICT | TALC_TF32;
            y = call(&named, row->name);
            if (y == NULL && talc_error_status() == TALC_UNSUPPORTED)
                talc_error_clear();
            else if (row->arithmetic.precision == TALC_STRICT)
                expect_values(&c, y, row->name);
        }
    }
    assert_no_failure();
    assert_all_freed();
}

Test(separable_conv2d, views_are_read_where_they_lie)
{
    for (int named = 0; named < 2; named++) {
        const separable_case c = case_new(cpu_device(), texts[1]);
        separable_case views = c;
        const int transposed[] = { 0, 1, 3, 5 };
        for (int i = 0; i < 4; i++) {
            talc_tensor **in = &views.in[transposed[i]];
            *in = talc_transpose(talc_contiguous(talc_transpose(*in, 0, 3)), 0, 3);
        }
        views.pointwise.residual = views.in[5];
        const char *row = named ? "reference" : NULL;
        assert_same_bits("views", call(&c, row), call(&views, row));
    }
}

// ---- What runs ----------------------------------------------------------------------------------------------

static const char *ran(const separable_case *c, const char *algorithm)
{
    counted.ops[0] = '\0';
    talc_observe(&counted.base);
    const talc_tensor *y = call(c, algorithm);
    talc_observe(NULL);
    cr_assert(y != NULL, "%s", talc_error_message());
    expect_values(c, y, counted.ops);
    const bool fuses = talc_separable_conv2d_fuses(c->in[0], c->in[1], c->in[2], &c->depthwise,
                                                   c->in[3], c->in[4], &c->pointwise);
    cr_assert(algorithm != NULL || fuses == (strcmp(counted.ops, "separable_conv2d ") == 0));
    return counted.ops;
}

static const char *const ONE = "separable_conv2d ", *const TWO = "conv2d conv2d ";

Test(separable_conv2d, one_launch_where_it_is_estimated_to_be_faster)
{
    separable_case c = case_new(cpu_device(), texts[1]);
    cr_assert_str_eq(ran(&c, NULL), TWO); /* of the CPU's rows none estimates */
    cr_assert_str_eq(ran(&c, "reference"), ONE);
    use_timed_backend();
    each_seconds = 1;
    one_seconds = 1.9;
    cr_assert_str_eq(ran(&c, NULL), ONE);
    one_seconds = 2;
    cr_assert_str_eq(ran(&c, NULL), TWO);
    cr_assert_str_eq(ran(&c, "one"), ONE);
    cr_assert(talc_algorithm_force("separable_conv2d", "one"));
    cr_assert_str_eq(ran(&c, NULL), ONE);
    talc_algorithm_force("separable_conv2d", NULL);
    one_seconds = 1.9;
    cr_assert(talc_algorithm_force("conv2d", "each"));
    cr_assert_str_eq(ran(&c, NULL), TWO);
    talc_algorithm_force("conv2d", NULL);
    each_seconds = 2;
    pointwise_unknown = true; /* what is not known is not more */
    cr_assert_str_eq(ran(&c, NULL), TWO);
    pointwise_unknown = false;
    each_seconds = 1;
    one_rows[0].arithmetic.precision = TALC_TF32;
    cr_assert_str_eq(ran(&c, NULL), TWO);
    c.pointwise.precision = TALC_TF32;
    cr_assert_str_eq(ran(&c, NULL), ONE);
    one_seconds = 3;
    each_rows[0].arithmetic.precision = TALC_TF32; /* which both are given */
    cr_assert_str_eq(ran(&c, NULL), TWO);
    one_seconds = 1;
    each_rows[0].arithmetic.precision = TALC_STRICT;
    c = case_new(cpu_device(), texts[6]);
    cr_assert_str_eq(ran(&c, NULL), TWO);
    timed_backend.separable_conv2d = NULL;
    cr_assert_str_eq(ran(&c, NULL), TWO);
    c = case_new(cpu_device(), texts[0]);
    cr_assert_str_eq(ran(&c, NULL), TWO);
}

Test(separable_conv2d, recorded_it_is_two_convolutions)
{
    use_timed_backend();
    each_seconds = one_seconds = 1;
    for (int i = 0; i < 6; i++) {
        const separable_case c = case_new(cpu_device(), texts[1]);
        cr_assert_str_eq(ran(&c, NULL), ONE);
        talc_require_grad(c.in[i], true);
        cr_assert_str_eq(ran(&c, NULL), TWO);
        cr_assert(talc_wants_grad(call(&c, NULL)));
        cr_assert_null(call(&c, "one"));
        assert_failure(TALC_UNSUPPORTED,
                       "separable_conv2d: its rows have no gradient: where one is "
                       "recorded, none can be asked for by name");
        talc_no_grad_enter();
        cr_assert_str_eq(ran(&c, NULL), ONE);
        talc_no_grad_leave();
    }
}

/* What does not fit is no failure of the question, and one of the call. */
Test(separable_conv2d, asking_raises_no_failure)
{
    use_timed_backend();
    each_seconds = one_seconds = 1;
    const separable_case c = case_new(cpu_device(), texts[0]),
                         other = case_new(cpu_device(), texts[1]);
    cr_assert(!talc_separable_conv2d_fuses(c.in[0], other.in[1], NULL, NULL, c.in[3], NULL, NULL));
    cr_assert(!talc_separable_conv2d_fuses(NULL, NULL, NULL, NULL, NULL, NULL, NULL));
    assert_no_failure();
    cr_assert_null(talc_separable_conv2d(c.in[0], c.in[1], NULL, NULL, c.in[3], NULL,
                                         &(talc_conv2d_options){ .algorithm = "no_such" }));
    assert_failure(TALC_NOT_FOUND, "separable_conv2d on cpu: there is no algorithm 'no_such'");
}

static talc_explanation explained(const char *algorithm)
{
    talc_explanation e;
    char text[128];
    snprintf(text, sizeof text, "separable_conv2d:%s", texts[0]);
    cr_assert(talc_explain(cpu_device(), text, algorithm, &e), "%s", talc_error_message());
    return e;
}

Test(separable_conv2d, explain_says_what_runs)
{
    talc_explanation e = explained(NULL);
    cr_assert(e.chosen == -1 && e.candidates[0].refused && e.instead != NULL);
    cr_assert_str_eq(e.candidates[0].reason,
                     "two convolutions run, unless it is asked for by name");
    e = explained("reference");
    cr_assert(e.chosen == 0 && e.instead == NULL);
    use_timed_backend();
    each_seconds = one_seconds = 1;
    e = explained(NULL);
    cr_assert(e.chosen == 0 && e.instead == NULL);
}

// ---- Texts --------------------------------------------------------------------------------------------------

Test(separable_conv2d, texts)
{
    talc_separable_conv2d_problem p;
    char text[TALC_SEPARABLE_CONV2D_TEXT];
    cr_assert(talc_separable_conv2d_problem_parse(texts[4], &p));
    cr_assert_str_eq(talc_separable_conv2d_problem_text(&p, text),
                     "n2c3h6w5o3k2x3s1x1p1x1d1x1g3_f64_bias_sigmoid+o4_bias_residual_tanh");
    cr_assert(p.pointwise.dtype == TALC_F64 && p.pointwise.H == 7 && p.pointwise.OW == 5);
    cr_assert_str_eq(talc_separable_conv2d_problem_text(NULL, text), "NULL");
    static const struct {
        const char *text, *message;
    } mistakes[] = {
        { "n1c2h3w3o2k3x3g2", "problem 'n1c2h3w3o2k3x3g2': expected '+' at position 16" },
        { "n1c2h3w3o2k3x3g2+", "problem 'n1c2h3w3o2k3x3g2+': expected 'o' at position 17" },
        { "n1c2h3w3o2k3x3g2+o",
          "problem 'n1c2h3w3o2k3x3g2+o': expected a number below 2^63 at position 18" },
        { "n1c2h3w3o2k3x3g2+o4k1",
          "problem 'n1c2h3w3o2k3x3g2+o4k1': expected '_' or the end at position 19" },
        { "n1c2h3w3o2k3x3g2+o4_f64", "the pointwise part is not of what the depthwise part gives" },
        { "n1c2h3w3o2k3x3g2+o4_dx", "the problem is a gradient, of which there is none" },
        { "n1c2h3w3o2k3x3g2+o4_reflect",
          "the pointwise part must be 1x1, without stride, padding and groups" },
        { "n1c2h3w3o4k3x3g2+o4", "the depthwise part has 2 channels, 4 output channels and "
                                 "groups=2; it needs as many of each, and no residual" },
        { "n1c2h3w3o2k3x3g2_residual+o4",
          "the depthwise part has 2 channels, 2 output channels and groups=2 and a residual; it "
          "needs as many of each, and no residual" },
        { "n1c2h3w3o2k4x3g2+o4", "conv2d: the padded input has height 3, the kernel needs 4 "
                                 "(extent 4, dilation 1)" },
    };
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        snprintf(text, sizeof text, "separable_conv2d: %s", mistakes[i].message);
        cr_assert(!talc_separable_conv2d_problem_parse(mistakes[i].text, &p));
        assert_failure(i == 9 ? TALC_BAD_SHAPE : TALC_BAD_ARGUMENT, text);
    }
}
