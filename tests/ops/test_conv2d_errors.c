/// conv2d where no algorithm can run, and where memory runs out. What a caller can get wrong stands
/// in test_bad_input_ops.c.
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

Test(conv2d_errors, a_device_without_algorithms_says_so)
{
    static const struct talc_backend nothing = { .name = "nothing" };
    talc_device bare = *cpu_device();
    bare.backend = &nothing;
    snprintf(bare.name, sizeof bare.name, "bare");
    talc_tensor x = *zeros(TALC_DIMS(1, 3, 8, 8)), w = *zeros(TALC_DIMS(4, 3, 3, 3));
    x.device = w.device = &bare;
    cr_assert_null(talc_conv2d(&x, &w, NULL, NULL));
    assert_failure(TALC_UNSUPPORTED, "conv2d on bare: this device has no algorithm for it");
    const talc_conv2d_problem problem = conv2d_parse("n1c3h8w8o4k3x3");
    talc_conv2d_explanation explanation;
    cr_assert(talc_conv2d_explain(&bare, &problem, NULL, &explanation));
    cr_assert(explanation.decision.count == 0 && explanation.decision.chosen == -1);
}

/* An algorithm that refuses a problem gives its reason when it is forced, by option or for the
 * thread; where nothing is forced its refusal is no failure. */
Test(conv2d_errors, a_forced_algorithm_refuses_with_its_reason)
{
    static const char *const texts[] = { "n1c4h6w6o4k3x3p1x1", "n1c4h6w6o4k3x3p1x1g2",
                                         "n1c4h6w6o4k3x3p1x1g4", "n1c4h6w6o4k1x1",
                                         "n1c4h6w6o4k3x3p1x1d2x2_reflect" };
    int refusals = 0;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const talc_conv2d_problem problem = conv2d_parse(texts[i]);
        const talc_conv2d_explanation e = conv2d_explanation(cpu_device(), &problem);
        owned_scope *scope = talc_scope_enter();
        const talc_tensor *x = zeros(TALC_DIMS(1, 4, 6, 6));
        const talc_tensor *w = zeros(TALC_DIMS(4, 4 / problem.groups, problem.KH, problem.KW));
        for (int j = 0; j < e.decision.count; j++) {
            if (!e.decision.candidates[j].refused)
                continue;
            refusals++;
            cr_assert(strlen(e.decision.candidates[j].reason) > 0);
            talc_conv2d_options options =
                conv2d_options(&problem, NULL, e.decision.candidates[j].title);
            cr_assert_null(talc_conv2d(x, w, NULL, &options));
            assert_failure_with(TALC_UNSUPPORTED, "conv2d on cpu: %s: %s",
                                e.decision.candidates[j].title, e.decision.candidates[j].reason);
            cr_assert(talc_algorithm_force("conv2d", e.decision.candidates[j].title));
            options.algorithm = NULL;
            cr_assert_null(talc_conv2d(x, w, NULL, &options));
            assert_failure_with(TALC_UNSUPPORTED, "conv2d on cpu: %s: %s",
                                e.decision.candidates[j].title, e.decision.candidates[j].reason);
            options.algorithm = "reference";
            cr_assert(talc_conv2d(x, w, NULL, &options) != NULL,
                      "the option does not win over the thread's algorithm");
            cr_assert(talc_algorithm_force("conv2d", NULL));
        }
    }
    cr_assert(refusals > 0);
}

// ---- No memory ----------------------------------------------------------------------------------

/* Each allocation of a call is made to fail in turn, until there is none left to fail. Every
 * failure is an error, leaves nothing behind, and the same call succeeds afterwards. */
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
            conv2d_options(&problem, residual, e.decision.candidates[i].title);
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
                          "%s: allocation %d leaves bytes behind", e.decision.candidates[i].title,
                          failures + 1);
            }
        }
        cr_assert(y != NULL && failures >= 3, "%s: %d allocations could fail",
                  e.decision.candidates[i].title, failures);
        talc_release(y);
    }
}

Test(conv2d_errors, a_gradient_by_itself_checks_its_problem_and_operands)
{
    talc_conv2d_problem p;
    cr_assert(talc_conv2d_problem_parse("n2c3h5w6o4k3x3", &p));
    const talc_tensor *x = talc_zeros(cpu_device(), TALC_F32, TALC_DIMS(2, 3, 5, 6));
    const talc_tensor *w = talc_zeros(cpu_device(), TALC_F32, TALC_DIMS(4, 3, 3, 3));
    const talc_tensor *dy = talc_zeros(cpu_device(), TALC_F32, TALC_DIMS(2, 4, 3, 4));
    const talc_tensor *wide = talc_zeros(cpu_device(), TALC_F64, TALC_DIMS(2, 4, 3, 4));
    cr_assert_null(talc_conv2d_gradient(NULL, w, dy, NULL));
    assert_failure(TALC_NULL_ARGUMENT, "conv2d_gradient: problem is NULL");
    cr_assert_null(talc_conv2d_gradient(&p, w, dy, NULL));
    assert_failure(TALC_BAD_ARGUMENT, "conv2d_gradient: the problem's direction 0 is no gradient");
    p.direction = TALC_GRAD_INPUT;
    cr_assert_null(talc_conv2d_gradient(&p, NULL, dy, NULL));
    assert_failure(TALC_NULL_ARGUMENT, "conv2d.grad_input: w is NULL");
    cr_assert_null(talc_conv2d_gradient(&p, x, dy, NULL));
    assert_failure(TALC_BAD_SHAPE, "conv2d.grad_input: w [2,3,5,6] must be [4,3,3,3]");
    cr_assert_null(talc_conv2d_gradient(&p, w, wide, NULL));
    assert_failure(TALC_BAD_DTYPE, "conv2d.grad_input: w is f32, dy is f64");
    p.direction = TALC_GRAD_WEIGHT;
    cr_assert_null(talc_conv2d_gradient(&p, x, x, NULL));
    assert_failure(TALC_BAD_SHAPE, "conv2d.grad_weight: dy [2,3,5,6] must be [2,4,3,4]");
    p.dtype = TALC_F64;
    cr_assert_null(talc_conv2d_gradient(&p, x, dy, NULL));
    assert_failure(TALC_BAD_DTYPE, "conv2d.grad_weight: x is f32, the problem is f64");
}
