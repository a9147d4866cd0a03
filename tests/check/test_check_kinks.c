/// talc_check_module_gradient at the kinks of ReLU and maxima: right modules pass, gradients that
/// are wrong fail, however little, and the report names the parameter and the element.
#include "tests/support/hooks.h"

#include "tests/support/files.h"
#include "tests/support/layers.h"
#include "tests/support/pattern.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// ---- A convolution whose gradient may be wrong --------------------------------------------------

/* y = scale conv(x, w), of whose gradient by w, or by one element of it, the part `lost` is
 * lost. */
typedef struct lossy_options {
    int64_t in, out;
    double scale, lost;
    int64_t element; /* -1: all */
} lossy_options;

typedef struct lossy {
    talc_module base;
    talc_tensor *weight;
    lossy_options options;
} lossy;

static bool lossy_init(talc_module *module, const void *options)
{
    lossy *self = (lossy *)module;
    self->options = *(const lossy_options *)options;
    self->weight =
        talc_module_parameter(module, "weight",
                              talc_randn(talc_device_get("cpu"), TALC_F64,
                                         TALC_DIMS(self->options.out, self->options.in, 3, 3)));
    return !talc_failed();
}

static talc_tensor *lossy_forward(talc_module *module, talc_tensor *x)
{
    const lossy *self = (const lossy *)module;
    const lossy_options *o = &self->options;
    const talc_tensor *w = self->weight;
    talc_tensor *at = talc_full(w->device, TALC_I64, TALC_DIMS(1), (double)o->element);
    const talc_tensor *hit =
        o->element < 0
            ? talc_full(w->device, TALC_F64, talc_dims_of(w), o->lost)
            : talc_reshape(
                  talc_mul_scalar(talc_cast(talc_one_hot(at, talc_numel(w)), TALC_F64), o->lost),
                  talc_dims_of(w));
    const talc_tensor *kept = talc_sub(w, talc_mul(w, hit)), *lost = talc_mul(talc_detach(w), hit);
    return talc_mul_scalar(
        talc_conv2d(x, talc_add(kept, lost), NULL, &(talc_conv2d_options){ .padding = { 1, 1 } }),
        o->scale);
}

static const talc_module_class lossy_class = {
    .name = "Lossy", .size = sizeof(lossy), .init = lossy_init, .forward = lossy_forward
};

/* Other devices do a part: each loss waits for them. */
static bool on_host(void)
{
    return talc_device_is_host(tested_device());
}

// ---- Modules ------------------------------------------------------------------------------------

static int64_t drawn(int64_t low, int64_t high)
{
    return low + (int64_t)(talc_item(talc_rand(talc_device_get("cpu"), TALC_F64, TALC_DIMS(1))) *
                           (double)(high - low + 1));
}

/* One or two of convolution, batch norm and ReLU, some with a bias, a stride, groups or pooling, in
 * either mode. */
static talc_module *drawn_module(int64_t channels)
{
    talc_module *net = talc_nn_sequential();
    const int64_t blocks = drawn(1, 2);
    for (int64_t i = 0; i < blocks; i++) {
        const int64_t groups = channels % 2 == 0 ? drawn(1, 2) : 1, out = 2 * drawn(1, 4);
        talc_nn_sequential_append(net, CONV2D(.in_channels = channels, .out_channels = out,
                                              .kernel = { drawn(1, 3), drawn(1, 3) },
                                              .stride = { drawn(1, 2), 1 }, .padding = { 1, 1 },
                                              .groups = groups, .no_bias = drawn(0, 1) == 0));
        /* With biases of 0, what is 0 ahead of a norm in evaluation, such as a corner that sees
         * padding alone, is at the kink itself. */
        talc_module *norm = BATCH_NORM2D(.channels = out);
        talc_copy(talc_module_find(norm, "bias"),
                  talc_uniform(talc_device_get("cpu"), TALC_F32, TALC_DIMS(out), -1, 1));
        talc_nn_sequential_append(net, norm);
        talc_nn_sequential_append(net, talc_nn_relu());
        if (drawn(0, 3) == 0)
            talc_nn_sequential_append(net, MAX_POOL2D(.kernel = { 2, 2 }));
        channels = out;
    }
    if (drawn(0, 1) == 0)
        talc_module_eval(net);
    return net;
}

/* At its defaults, 100 modules that are right. A bias ahead of a norm in train mode has a gradient
 * of 0, of which rounding alone is left. */
Test(check_kinks, modules_that_are_right_pass)
{
    int kinks = 0;
    talc_manual_seed(21);
    const int modules = on_host() ? 100 : 4;
    for (int i = 0; i < modules; i++) {
        owned_scope *scope = talc_scope_enter();
        const int64_t channels = drawn(1, 4);
        owned_module *net = drawn_module(channels);
        talc_tensor *x = talc_randn(talc_device_get("cpu"), TALC_F64,
                                    TALC_DIMS(drawn(1, 3), channels, drawn(4, 10), drawn(4, 10)));
        talc_module_to(net, tested_device());
        x = talc_to(x, tested_device(), TALC_F64);
        talc_require_grad(x, true);
        talc_gradient_report report;
        const bool passed = talc_check_module_gradient(net, x, NULL, &report);
        char text[TALC_GRADIENT_TEXT];
        assert_no_failure();
        cr_assert(passed, "module %d: %s", i, talc_gradient_report_text(&report, text));
        cr_assert(report.kink == (report.step < 1e-4) && !report.located);
        cr_assert(!report.kink || strncmp(text, "a kink: passes with step 1e-", 28) == 0 ||
                  talc_gradient_report_text(&report, text) != NULL);
        kinks += report.kink;
    }
    /* Or the test shows nothing. */
    cr_assert(!on_host() || kinks >= 10, "only %d modules met a kink", kinks);
}

// ---- Gradients that are wrong -------------------------------------------------------------------

static char *printed(const talc_gradient_report *report)
{
    FILE *file = tmpfile();
    talc_gradient_report_print(file, report);
    return file_written(file);
}

/* Ahead of ReLUs whose kinks are met, at scales of 1e9, 1 and 1e-9: a gradient that is off by ten
 * times the tolerance, in all of its elements or in one, and by all of it, on 12 inputs each. */
Test(check_kinks, a_gradient_that_is_wrong_fails_with_every_step)
{
    static const lossy_options wrong[] = {
        { 3, 4, 1, 1e-5, -1 },    { 3, 4, 1e-9, 1e-5, -1 }, { 3, 4, 1e9, 1e-5, -1 },
        { 3, 4, 1, 1e-3, 101 },   { 3, 4, 1e-9, 1e-3, 7 },  { 3, 4, 1, 1, 65 },
        { 3, 4, 1e-9, 0.01, 65 },
    };
    int kinks = 0;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        for (uint64_t seed = 0; seed < (on_host() ? 12 : 1); seed++) {
            owned_scope *scope = talc_scope_enter();
            talc_manual_seed(seed);
            lossy_options right = wrong[i];
            right.lost = 0;
            for (int is_wrong = 1; is_wrong >= 0; is_wrong--) {
                talc_module *conv = talc_module_new(&lossy_class, is_wrong ? &wrong[i] : &right);
                owned_module *net = TALC_SEQUENTIAL(conv, talc_nn_relu());
                talc_tensor *x =
                    talc_randn(talc_device_get("cpu"), TALC_F64, TALC_DIMS(2, 3, 12, 11));
                talc_module_to(net, tested_device());
                talc_gradient_report report;
                const bool passed =
                    talc_check_module_gradient(net, talc_to(x, tested_device(), TALC_F64),
                                               &(talc_gradient_options){ .seed = seed }, &report);
                assert_no_failure();
                cr_assert(passed == (is_wrong == 0), "case %zu, seed %d: %s", i, (int)seed,
                          printed(&report));
                if (is_wrong) {
                    cr_assert_str_eq(report.name, "0.weight");
                    cr_assert(report.located && report.where.rank == 4);
                    const int64_t *d = report.where.dim,
                                  at = ((d[0] * 3 + d[1]) * 3 + d[2]) * 3 + d[3];
                    cr_assert(wrong[i].element < 0 || at == wrong[i].element,
                              "case %zu, seed %d: element %d", i, (int)seed, (int)at);
                } else {
                    kinks += report.kink;
                }
            }
        }
    cr_assert(!on_host() || kinks >= 10, "only %d met a kink", kinks);
}

/* A ReLU whose gradient is lost near 0, where a step that is long sees little of that. */
static talc_tensor *f_masked(talc_tensor *const x[], void *context)
{
    const talc_tensor *near =
        talc_cast(talc_less_scalar(talc_abs(x[0]), *(double *)context), TALC_F64);
    return talc_relu(
        talc_add(talc_sub(x[0], talc_mul(x[0], near)), talc_mul(talc_detach(x[0]), near)));
}

/* At 0 the gradient of ReLU is 0, the slope 0 on one side and 1 on the other: nothing can be said,
 * and that is. */
Test(check_kinks, a_point_on_a_kink)
{
    static const double elements[] = { 1, -1, 0, 0.5 };
    talc_tensor *x = talc_from_host(tested_device(), TALC_F64, TALC_DIMS(4), elements);
    talc_require_grad(x, true);
    double near = 0;
    talc_gradient_report report;
    cr_assert(!talc_check_gradient(f_masked, &near, &x, 1, NULL, &report));
    assert_no_failure();
    cr_assert(report.at_kink && report.located && report.where.dim[0] == 2 &&
                  fabs(report.element_expected) > 1e-3 && report.element_got == 0,
              "%s", printed(&report));
    cr_assert(strstr(printed(&report), "; at a kink: ") != NULL, "%s", printed(&report));
}

/* One gradient is lost, and of two inputs it is named; the other's is 0 but for rounding. */
Test(check_kinks, what_is_said)
{
    static const double elements[] = { 1, -1, 0.00002, 0.5, -0.25, 0.125 };
    talc_tensor *x = talc_from_host(tested_device(), TALC_F64, TALC_DIMS(2, 3), elements);
    talc_require_grad(x, true);
    double near = 0;
    talc_gradient_report report;
    cr_assert(talc_check_gradient(f_masked, &near, &x, 1, NULL, &report));
    cr_assert(report.kink && report.step == 1e-5 && report.count == 4);
    char expected[200];
    snprintf(expected, sizeof expected,
             "gradient: 4 slopes, worst %.2g of input 0 (tolerance 1e-06); a kink: passes with "
             "step 1e-5\n",
             report.worst);
    cr_assert_str_eq(printed(&report), expected);

    near = 0.15;
    cr_assert(!talc_check_gradient(f_masked, &near, &x, 1, NULL, &report));
    cr_assert(!report.at_kink && report.located && report.where.rank == 2 &&
              report.where.dim[0] == 1 && report.where.dim[1] == 2);
    cr_assert(fabs(report.element_expected - report.element_got) > 0.01 && report.element_got == 0);
    cr_assert(strstr(printed(&report), "\n  input 0: ") != NULL &&
                  strstr(printed(&report), "(tolerance 1e-06); input 0[1,2]: ") != NULL,
              "%s", printed(&report));
}
