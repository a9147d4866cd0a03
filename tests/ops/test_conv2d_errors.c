/// Every mistake that a caller of conv2d can make: its status, its exact message, and that nothing else happened.
#include "ops/backend.h"
#include "tests/support/conv2d_data.h"
#include "tests/support/hooks.h"

#include <stdio.h>
#include <string.h>

static talc_tensor *zeros(talc_dims dims)
{
    talc_tensor *tensor = talc_zeros(cpu_device(), TALC_F32, dims);
    assert_no_failure();
    return tensor;
}

/* Calls that fail leave no tensor, no bytes and no change of the operands behind. */
static void expect_failure(const talc_tensor *x, const talc_tensor *w, const talc_tensor *bias,
                           const talc_conv2d_options *options, talc_status status,
                           const char *message)
{
    const size_t live = talc_device_memory(cpu_device()).live;
    const uint64_t x_version = talc_version(x), w_version = talc_version(w);
    talc_conv2d_problem problem = { .N = -77 };
    cr_assert(talc_conv2d(x, w, bias, options) == NULL, "no failure where this one is due: %s",
              message);
    assert_failure(status, message);
    if (status != TALC_NOT_FOUND && status != TALC_UNSUPPORTED) {
        cr_assert(!talc_conv2d_problem_of(x, w, bias, options, &problem));
        assert_failure(status, message);
        cr_assert(problem.N == -77, "%s: the problem was written", message);
    }
    cr_assert(talc_device_memory(cpu_device()).live == live, "%s: live bytes changed", message);
    cr_assert(talc_version(x) == x_version && talc_version(w) == w_version);
}

Test(conv2d_errors, operands)
{
    const talc_tensor *x = zeros(TALC_DIMS(8, 3, 32, 32)), *w = zeros(TALC_DIMS(16, 3, 3, 3));
    expect_failure(NULL, w, NULL, NULL, TALC_NULL_ARGUMENT, "conv2d: x is NULL");
    expect_failure(x, NULL, NULL, NULL, TALC_NULL_ARGUMENT, "conv2d: w is NULL");
    expect_failure(NULL, NULL, NULL, NULL, TALC_NULL_ARGUMENT, "conv2d: x is NULL");
    cr_assert(!talc_conv2d_problem_of(x, w, NULL, NULL, NULL));
    assert_failure(TALC_NULL_ARGUMENT, "conv2d: problem is NULL");

    expect_failure(zeros(TALC_DIMS(3, 32, 32)), w, NULL, NULL, TALC_BAD_SHAPE,
                   "conv2d: x [3,32,32] has rank 3, needs 4: [N,C,H,W]");
    expect_failure(zeros(TALC_DIMS(1, 1, 3, 32, 32)), w, NULL, NULL, TALC_BAD_SHAPE,
                   "conv2d: x [1,1,3,32,32] has rank 5, needs 4: [N,C,H,W]");
    expect_failure(zeros(TALC_SCALAR), w, NULL, NULL, TALC_BAD_SHAPE,
                   "conv2d: x [] has rank 0, needs 4: [N,C,H,W]");
    expect_failure(x, zeros(TALC_DIMS(16, 3)), NULL, NULL, TALC_BAD_SHAPE,
                   "conv2d: w [16,3] has rank 2, needs 4: [OC,C/groups,KH,KW]");
    expect_failure(x, zeros(TALC_DIMS(1, 16, 3, 3, 3)), NULL, NULL, TALC_BAD_SHAPE,
                   "conv2d: w [1,16,3,3,3] has rank 5, needs 4: [OC,C/groups,KH,KW]");

    expect_failure(x, zeros(TALC_DIMS(16, 4, 3, 3)), NULL, NULL, TALC_BAD_SHAPE,
                   "conv2d: x [8,3,32,32] has 3 channels, w [16,4,3,3] with groups=1 needs 4");
    expect_failure(x, w, NULL, &(talc_conv2d_options){ .groups = 3 }, TALC_BAD_SHAPE,
                   "conv2d: x [8,3,32,32] has 3 channels, w [16,3,3,3] with groups=3 needs 9");
    expect_failure(x, zeros(TALC_DIMS(16, 1, 3, 3)), NULL, &(talc_conv2d_options){ .groups = 3 },
                   TALC_BAD_SHAPE,
                   "conv2d: w [16,1,3,3] has 16 output channels, which groups=3 does not divide");
    expect_failure(x, w, zeros(TALC_DIMS(15)), NULL, TALC_BAD_SHAPE,
                   "conv2d: bias [15] must be [16]");
    expect_failure(x, w, zeros(TALC_DIMS(0)), NULL, TALC_BAD_SHAPE,
                   "conv2d: bias [0] must be [16]");
    expect_failure(x, w, zeros(TALC_DIMS(1, 16)), NULL, TALC_BAD_SHAPE,
                   "conv2d: bias [1,16] must be [16]");
    expect_failure(x, w, NULL,
                   &(talc_conv2d_options){ .residual = zeros(TALC_DIMS(8, 16, 32, 32)) },
                   TALC_BAD_SHAPE, "conv2d: residual [8,16,32,32] must be [8,16,30,30]");
    expect_failure(x, w, NULL, &(talc_conv2d_options){ .residual = zeros(TALC_DIMS(16)) },
                   TALC_BAD_SHAPE, "conv2d: residual [16] must be [8,16,30,30]");
    assert_all_freed();
}

Test(conv2d_errors, types_and_devices)
{
    talc_device *cpu = cpu_device();
    const talc_tensor *x = zeros(TALC_DIMS(1, 3, 8, 8)), *w = zeros(TALC_DIMS(4, 3, 3, 3));
    const talc_tensor *wide = talc_zeros(cpu, TALC_F64, TALC_DIMS(4, 3, 3, 3));
    const talc_tensor *bias = talc_zeros(cpu, TALC_F64, TALC_DIMS(4));
    expect_failure(x, wide, NULL, NULL, TALC_BAD_DTYPE, "conv2d: x is f32, w is f64");
    expect_failure(talc_zeros(cpu, TALC_I32, TALC_DIMS(1, 3, 8, 8)), w, NULL, NULL, TALC_BAD_DTYPE,
                   "conv2d: x is i32, it must be f32 or f64");
    expect_failure(x, talc_zeros(cpu, TALC_U8, TALC_DIMS(4, 3, 3, 3)), NULL, NULL, TALC_BAD_DTYPE,
                   "conv2d: x is f32, w is u8");
    expect_failure(x, w, bias, NULL, TALC_BAD_DTYPE, "conv2d: x is f32, bias is f64");
    expect_failure(
        x, w, NULL,
        &(talc_conv2d_options){ .residual = talc_zeros(cpu, TALC_F64, TALC_DIMS(1, 4, 6, 6)) },
        TALC_BAD_DTYPE, "conv2d: x is f32, residual is f64");

    talc_device other = *cpu;
    snprintf(other.name, sizeof other.name, "other");
    talc_tensor elsewhere = *w;
    elsewhere.device = &other;
    expect_failure(x, &elsewhere, NULL, NULL, TALC_BAD_DEVICE, "conv2d: x is on cpu, w on other");
    elsewhere = *x;
    elsewhere.device = &other;
    expect_failure(x, w, &elsewhere, NULL, TALC_BAD_DEVICE, "conv2d: x is on cpu, bias on other");
    expect_failure(x, w, NULL, &(talc_conv2d_options){ .residual = &elsewhere }, TALC_BAD_DEVICE,
                   "conv2d: x is on cpu, residual on other");
    assert_all_freed();
}

Test(conv2d_errors, a_device_without_rows_says_so)
{
    static const struct talc_backend nothing = { .name = "nothing" };
    talc_device bare = *cpu_device();
    bare.backend = &nothing;
    snprintf(bare.name, sizeof bare.name, "bare");
    talc_tensor x = *zeros(TALC_DIMS(1, 3, 8, 8)), w = *zeros(TALC_DIMS(4, 3, 3, 3));
    x.device = w.device = &bare;
    expect_failure(&x, &w, NULL, NULL, TALC_UNSUPPORTED,
                   "conv2d on bare: this device has no algorithm for it");
    const talc_conv2d_problem problem = conv2d_parse("n1c3h8w8o4k3x3");
    talc_conv2d_explanation explanation;
    cr_assert(talc_conv2d_explain(&bare, &problem, NULL, &explanation));
    cr_assert(explanation.decision.count == 0 && explanation.decision.chosen == -1);
    assert_all_freed();
}

Test(conv2d_errors, options)
{
    const int64_t large = (int64_t)1 << 62;
    const talc_tensor *x = zeros(TALC_DIMS(2, 4, 8, 9)), *w = zeros(TALC_DIMS(6, 4, 3, 3));
    const struct {
        talc_conv2d_options options;
        talc_status status;
        const char *message;
    } rows[] = {
        { { .groups = -1 }, TALC_BAD_ARGUMENT, "conv2d: groups -1 must be at least 1" },
        { { .groups = -2 }, TALC_BAD_ARGUMENT, "conv2d: groups -2 must be at least 1" },
        { { .groups = TALC_ZERO }, TALC_BAD_ARGUMENT, "conv2d: groups 0 must be at least 1" },
        { { .groups = INT64_MIN + 1 },
          TALC_BAD_ARGUMENT,
          "conv2d: groups -9223372036854775807 must be at least 1" },
        { { .groups = large },
          TALC_TOO_LARGE,
          "conv2d: w [6,4,3,3] with groups=4611686018427387904 needs more than 2^63 channels" },
        { { .stride = { -1 } }, TALC_BAD_ARGUMENT, "conv2d: stride [-1,1] must be at least 1" },
        { { .stride = { 1, -3 } }, TALC_BAD_ARGUMENT, "conv2d: stride [1,-3] must be at least 1" },
        { { .stride = { TALC_ZERO, 2 } },
          TALC_BAD_ARGUMENT,
          "conv2d: stride [0,2] must be at least 1" },
        { { .dilation = { -1, 1 } },
          TALC_BAD_ARGUMENT,
          "conv2d: dilation [-1,1] must be at least 1" },
        { { .dilation = { 1, TALC_ZERO } },
          TALC_BAD_ARGUMENT,
          "conv2d: dilation [1,0] must be at least 1" },
        { { .dilation = { large, 1 } },
          TALC_TOO_LARGE,
          "conv2d: height 8 with padding 0+0, kernel 3 and dilation 4611686018427387904 passes "
          "2^63" },
        { { .dilation = { 1, INT64_MAX } },
          TALC_TOO_LARGE,
          "conv2d: width 9 with padding 0+0, kernel 3 and dilation 9223372036854775807 passes "
          "2^63" },
        { { .dilation = { 4, 1 } },
          TALC_BAD_SHAPE,
          "conv2d: the padded input has height 8, the kernel needs 9 (extent 3, dilation 4)" },
        { { .dilation = { 1, 6 }, .padding = { 0, 1 } },
          TALC_BAD_SHAPE,
          "conv2d: the padded input has width 11, the kernel needs 13 (extent 3, dilation 6)" },
        { { .padding = { -1, 0 } },
          TALC_BAD_ARGUMENT,
          "conv2d: padding [-1,0] must be at least 0" },
        { { .padding = { 0, INT64_MIN + 1 } },
          TALC_BAD_ARGUMENT,
          "conv2d: padding [0,-9223372036854775807] must be at least 0" },
        { { .padding_end = { 0, -2 } },
          TALC_BAD_ARGUMENT,
          "conv2d: padding_end [0,-2] must be at least 0" },
        { { .padding = { large, 0 } },
          TALC_TOO_LARGE,
          "conv2d: height 8 with padding 4611686018427387904+4611686018427387904, kernel 3 and "
          "dilation 1 passes "
          "2^63" },
        { { .padding = { 0, INT64_MAX }, .padding_end = { 0, 1 } },
          TALC_TOO_LARGE,
          "conv2d: width 9 with padding 9223372036854775807+1, kernel 3 and dilation 1 passes "
          "2^63" },
        { { .padding_same = true, .stride = { 1, 2 } },
          TALC_BAD_ARGUMENT,
          "conv2d: padding_same needs stride 1, stride is [1,2]" },
        { { .padding_same = true, .padding = { 1, 2 } },
          TALC_BAD_ARGUMENT,
          "conv2d: padding_same excludes padding [1,2]" },
        { { .padding_same = true, .dilation = { 1, -5 } },
          TALC_BAD_ARGUMENT,
          "conv2d: dilation [1,-5] must be at least 1" },
        { { .padding_same = true, .dilation = { 1, INT64_MAX } },
          TALC_TOO_LARGE,
          "conv2d: kernel [3,3] with dilation [1,9223372036854775807] passes 2^63" },
        { { .padding = { 8, 0 }, .padding_mode = TALC_PADDING_REFLECT },
          TALC_BAD_SHAPE,
          "conv2d: reflect padding 8 of height 8 is more than 7" },
        { { .padding_end = { 1, 9 }, .padding_mode = TALC_PADDING_REFLECT },
          TALC_BAD_SHAPE,
          "conv2d: reflect padding 9 of width 9 is more than 8" },
        { { .padding = { 9, 0 }, .padding_mode = TALC_PADDING_CIRCULAR },
          TALC_BAD_SHAPE,
          "conv2d: circular padding 9 of height 8 is more than 8" },
        { { .padding_mode = TALC_PADDING_MODE_COUNT },
          TALC_BAD_ARGUMENT,
          "conv2d: padding mode 4 is outside 0..3" },
        { { .activation = (talc_activation)77 },
          TALC_BAD_ARGUMENT,
          "conv2d: activation 77 is outside 0..3" },
        { { .algorithm = "fastest" },
          TALC_NOT_FOUND,
          "conv2d on cpu: there is no algorithm 'fastest'" },
        { { .algorithm = "" }, TALC_NOT_FOUND, "conv2d on cpu: there is no algorithm ''" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        expect_failure(x, w, NULL, &rows[i].options, rows[i].status, rows[i].message);
    assert_all_freed();
}

Test(conv2d_errors, sizes)
{
    const talc_tensor *x = zeros(TALC_DIMS(2, 1, 4, 4)), *w = zeros(TALC_DIMS(1, 1, 1, 1));
    expect_failure(
        x, zeros(TALC_DIMS(1, 1, 10, 3)), NULL, NULL, TALC_BAD_SHAPE,
        "conv2d: the padded input has height 4, the kernel needs 10 (extent 10, dilation 1)");
    expect_failure(
        x, zeros(TALC_DIMS(1, 1, 3, 5)), NULL, NULL, TALC_BAD_SHAPE,
        "conv2d: the padded input has width 4, the kernel needs 5 (extent 5, dilation 1)");
    /* An expanded tensor has extents that no memory could hold. */
    const int64_t huge = (int64_t)1 << 32;
    expect_failure(
        x, talc_expand(w, TALC_DIMS(1, 1, huge, 1)), NULL, NULL, TALC_BAD_SHAPE,
        "conv2d: the padded input has height 4, the kernel needs 4294967296 (extent 4294967296, "
        "dilation 1)");
    expect_failure(zeros(TALC_DIMS(2, 0, 4, 4)), zeros(TALC_DIMS(1, 0, 1, 1)), NULL, NULL,
                   TALC_BAD_ARGUMENT, "conv2d: channels 0 must be at least 1");
    expect_failure(x, zeros(TALC_DIMS(0, 1, 1, 1)), NULL, NULL, TALC_BAD_ARGUMENT,
                   "conv2d: output channels 0 must be at least 1");
    expect_failure(zeros(TALC_DIMS(2, 1, 0, 4)), w, NULL, NULL, TALC_BAD_ARGUMENT,
                   "conv2d: image [0,4] must be at least 1");
    expect_failure(x, zeros(TALC_DIMS(1, 1, 1, 0)), NULL, NULL, TALC_BAD_ARGUMENT,
                   "conv2d: kernel [1,0] must be at least 1");
    expect_failure(x, zeros(TALC_DIMS(1, 1, 0, 1)), NULL,
                   &(talc_conv2d_options){ .padding_same = true }, TALC_BAD_ARGUMENT,
                   "conv2d: kernel [0,1] must be at least 1");

    const int64_t padding = (int64_t)1 << 31;
    expect_failure(x, w, NULL, &(talc_conv2d_options){ .padding = { padding, padding } },
                   TALC_TOO_LARGE,
                   "conv2d: shape [2,1,4294967300,4294967300] of f32 needs more than "
                   "9223372036854775807 bytes");
    assert_all_freed();
}

Test(conv2d_errors, what_only_a_problem_can_have)
{
    const talc_conv2d_problem good = conv2d_parse("n1c4h8w9o6k3x3");
    talc_conv2d_problem p = good;
    p.dtype = TALC_I64;
    cr_assert(!talc_conv2d_problem_check(&p));
    assert_failure(TALC_BAD_DTYPE, "conv2d: the problem is i64, it must be f32 or f64");
    p = good;
    p.N = -1;
    cr_assert(!talc_conv2d_problem_check(&p));
    assert_failure(TALC_BAD_ARGUMENT, "conv2d: batch -1 must not be negative");
    p = good;
    p.groups = 3;
    cr_assert(!talc_conv2d_problem_check(&p));
    assert_failure(TALC_BAD_SHAPE,
                   "conv2d: groups=3 does not divide 4 channels and 6 output channels");
    p = good;
    p.groups = 4;
    cr_assert(!talc_conv2d_problem_check(&p));
    assert_failure(TALC_BAD_SHAPE,
                   "conv2d: groups=4 does not divide 4 channels and 6 output channels");
    cr_assert(!talc_conv2d_problem_check(NULL));
    assert_failure(TALC_NULL_ARGUMENT, "conv2d: problem is NULL");
    assert_all_freed();
}

Test(conv2d_errors, explain)
{
    const talc_conv2d_problem good = conv2d_parse("n1c4h8w9o6k3x3");
    talc_conv2d_problem bad = good;
    bad.stride_w = 0;
    talc_conv2d_explanation e = { .decision.count = -7 };
    cr_assert(!talc_conv2d_explain(NULL, &good, NULL, &e));
    assert_failure(TALC_NULL_ARGUMENT, "conv2d_explain: device is NULL");
    cr_assert(!talc_conv2d_explain(cpu_device(), NULL, NULL, &e));
    assert_failure(TALC_NULL_ARGUMENT, "conv2d_explain: problem is NULL");
    cr_assert(!talc_conv2d_explain(cpu_device(), &good, NULL, NULL));
    assert_failure(TALC_NULL_ARGUMENT, "conv2d_explain: explanation is NULL");
    cr_assert(!talc_conv2d_explain(cpu_device(), &bad, NULL, &e));
    assert_failure(TALC_BAD_ARGUMENT, "conv2d: stride [1,0] must be at least 1");
    cr_assert(e.decision.count == -7, "a failing explain wrote its result");
    talc_conv2d_explanation_print(NULL, &e);
    talc_conv2d_explanation_print(stdout, NULL);
    assert_no_failure();
    assert_all_freed();
}

/* A row that refuses a problem gives its reason when it is forced, by option or for the thread; where nothing is
 * forced its refusal is no failure. */
Test(conv2d_errors, a_forced_row_refuses_with_its_reason)
{
    static const char *const texts[] = { "n1c4h6w6o4k3x3p1x1", "n1c4h6w6o4k3x3p1x1g2",
                                         "n1c4h6w6o4k3x3p1x1g4", "n1c4h6w6o4k1x1",
                                         "n1c4h6w6o4k3x3p1x1d2x2_reflect" };
    int refusals = 0;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const talc_conv2d_problem problem = conv2d_parse(texts[i]);
        const talc_conv2d_explanation e = conv2d_explanation(cpu_device(), &problem);
        talc_scope *scope = talc_scope_enter();
        const talc_tensor *x = zeros(TALC_DIMS(1, 4, 6, 6));
        const talc_tensor *w = zeros(TALC_DIMS(4, 4 / problem.groups, problem.KH, problem.KW));
        for (int j = 0; j < e.decision.count; j++) {
            if (!e.decision.candidates[j].refused)
                continue;
            refusals++;
            cr_assert(strlen(e.decision.candidates[j].reason) > 0);
            char message[256];
            snprintf(message, sizeof message, "conv2d on cpu: %s: %s",
                     e.decision.candidates[j].name, e.decision.candidates[j].reason);
            talc_conv2d_options options =
                conv2d_options(&problem, NULL, e.decision.candidates[j].name);
            expect_failure(x, w, NULL, &options, TALC_UNSUPPORTED, message);
            cr_assert(talc_algorithm_force("conv2d", e.decision.candidates[j].name));
            options.algorithm = NULL;
            expect_failure(x, w, NULL, &options, TALC_UNSUPPORTED, message);
            options.algorithm = "reference";
            cr_assert(talc_conv2d(x, w, NULL, &options) != NULL,
                      "the option does not win over the thread's row");
            cr_assert(talc_algorithm_force("conv2d", NULL));
        }
        talc_scope_leave(scope);
    }
    cr_assert(refusals > 0);
    assert_all_freed();
}

Test(conv2d_errors, a_standing_failure_stops_the_op)
{
    const talc_tensor *x = zeros(TALC_DIMS(1, 1, 4, 4)), *w = zeros(TALC_DIMS(1, 1, 3, 3));
    const talc_conv2d_problem good = conv2d_parse("n1c1h4w4o1k3x3");
    talc_conv2d_problem problem = good;
    talc_conv2d_explanation explanation;
    talc_fail(TALC_IO_ERROR, "stands");
    cr_assert(talc_conv2d(x, w, NULL, NULL) == NULL);
    cr_assert(talc_conv2d(NULL, w, NULL, NULL) == NULL);
    cr_assert(!talc_conv2d_problem_of(x, w, NULL, NULL, &problem));
    cr_assert(!talc_conv2d_problem_check(&problem));
    cr_assert(!talc_conv2d_problem_parse("n1c1h4w4o1k3x3", &problem));
    cr_assert(!talc_conv2d_explain(cpu_device(), &good, NULL, &explanation));
    char text[TALC_CONV2D_TEXT];
    cr_assert(strcmp(talc_conv2d_problem_text(&good, text), "n1c1h4w4o1k3x3s1x1p0x0d1x1g1") == 0);
    cr_assert(talc_conv2d_flops(&good) == 2 * 4 * 9);
    assert_failure(TALC_IO_ERROR, "stands");
    cr_assert(talc_conv2d(x, w, NULL, NULL) != NULL);
    assert_no_failure();
    assert_all_freed();
}

// ---- No memory ----------------------------------------------------------------------------------------------

/* Each allocation of a call is made to fail in turn, until there is none left to fail. Every failure is an error,
 * leaves nothing behind, and the same call succeeds afterwards. */
Test(conv2d_errors, every_allocation_may_fail)
{
    const talc_conv2d_problem problem = conv2d_parse("n2c4h9w8o6k3x3p1x1g2_bias_residual_relu");
    const talc_conv2d_explanation e = conv2d_explanation(cpu_device(), &problem);
    const talc_tensor *x = talc_transpose(zeros(TALC_DIMS(2, 4, 8, 9)), 2, 3),
                      *w = zeros(TALC_DIMS(6, 2, 3, 3));
    const talc_tensor *bias = zeros(TALC_DIMS(6)),
                      *residual = talc_transpose(zeros(TALC_DIMS(6, 2, 9, 8)), 0, 1);
    for (int i = 0; i < e.decision.count; i++) {
        if (e.decision.candidates[i].refused)
            continue;
        const talc_conv2d_options options =
            conv2d_options(&problem, residual, e.decision.candidates[i].name);
        talc_tensor *y = NULL;
        int failures = -1;
        for (; y == NULL && failures < 100; failures++) {
            const size_t live = talc_device_memory(cpu_device()).live;
            talc_memory_trim(cpu_device());
            allow_allocations(failures + 1);
            y = talc_conv2d(x, w, bias, &options);
            allow_all_allocations();
            cr_assert((y == NULL) == talc_failed());
            if (y == NULL) {
                cr_assert(talc_error_status() == TALC_NO_MEMORY, "%s", talc_error_message());
                talc_error_clear();
                cr_assert(talc_device_memory(cpu_device()).live == live,
                          "%s: allocation %d leaves bytes behind", e.decision.candidates[i].name,
                          failures + 1);
            }
        }
        cr_assert(y != NULL && failures >= 3, "%s: %d allocations could fail",
                  e.decision.candidates[i].name, failures);
        talc_release(y);
    }
    assert_all_freed();
}
