/// Every convolution among the edges of `talc check` on every algorithm that takes it, against the oracle.
#include "ops/backend.h"
#include "tests/support/conv2d_data.h"
#include "tests/support/hooks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Compares one result with the oracle and says where it is worst; the test goes on with the next. */
static void expect_result(const oracle_conv2d *oracle, const conv2d_data *data,
                          const talc_tensor *y, oracle_bound bound, const char *text,
                          const char *algorithm)
{
    const int64_t due[] = { oracle->N, oracle->OC, oracle->OH, oracle->OW };
    cr_assert(y != NULL, "%s %s: %s", text, algorithm, talc_error_message());
    cr_assert(y->rank == 4 && memcmp(y->dims, due, sizeof due) == 0, "%s %s: the shape", text,
              algorithm);
    double *values = host_doubles(y);
    const oracle_report report = oracle_compare(oracle, &data->problem, values, bound);
    cr_expect(report.worst <= 1, "%s %s: %g of the bound at (%d,%d,%d,%d): %.9g instead of %.9g",
              text, algorithm, report.worst, (int)report.n, (int)report.c, (int)report.h,
              (int)report.w, report.got, report.due);
    cr_expect(bound == ORACLE_ONE_ROUNDING || oracle_trusted(&report, &data->problem),
              "%s %s: %d of %d outputs are not zero, too few to trust", text, algorithm,
              (int)report.nonzero, (int)report.fed);
    free(values);
}

/* Fills the blocks that the pool would hand out next with NaN, so that a kernel that adds to what it finds, or leaves
 * an element out, shows. */
static void poison(talc_device *device, const oracle_conv2d *oracle, talc_dtype dtype,
                   size_t workspace)
{
    talc_scope *scope = talc_scope_enter();
    talc_full(device, dtype, TALC_DIMS(oracle->count), NAN);
    talc_full(device, TALC_F32, TALC_DIMS((int64_t)(workspace / sizeof(float))), NAN);
    talc_scope_leave(scope);
}

/* One problem with one kind of data, on every algorithm that takes it. */
static void check_problem(talc_conv2d_problem problem, int index, talc_check_kind fill,
                          oracle_bound bound)
{
    char text[TALC_CONV2D_TEXT];
    talc_conv2d_problem_text(&problem, text);
    const talc_conv2d_explanation explanation = conv2d_explanation(tested_device(), &problem);
    conv2d_data data = conv2d_data_new(&problem, fill, (uint64_t)index);
    oracle_conv2d oracle = conv2d_oracle(&data);
    talc_scope *scope = talc_scope_enter();
    conv2d_operands operands = conv2d_operands_new(tested_device(), &data, index % 3);
    cr_assert(explanation.chosen >= 0, "%s: no algorithm", text);
    for (int i = 0; i < explanation.count; i++) {
        const talc_conv2d_candidate *row = &explanation.candidates[i];
        if (row->refused)
            continue;
        poison(tested_device(), &oracle, problem.dtype, row->workspace);
        const talc_tensor *y = conv2d_run(&operands, &problem, row->name);
        expect_result(&oracle, &data, y, bound, text, row->name);
        if (row->arithmetic.wide_accumulator && problem.dtype == TALC_F32)
            expect_result(&oracle, &data, y, ORACLE_ONE_ROUNDING, text, row->name);
        cr_expect(conv2d_operands_intact(&operands), "%s %s: an operand has changed", text,
                  row->name);
    }
    conv2d_operands_free(&operands);
    talc_scope_leave(scope);
    oracle_free(&oracle);
    conv2d_data_free(&data);
}

Test(conv2d, small_integers_are_exact)
{
    for (int i = 0; conv2d_case(i) != NULL; i++)
        check_problem(conv2d_parse(conv2d_case(i)), i, TALC_CHECK_EXACT, ORACLE_EXACT);
    assert_all_freed();
}

/* Combinations that nobody thought of. A failure prints its problem, ready to be pasted among the cases. */
Test(conv2d, random_problems_are_exact)
{
    /* A device apart protects its pages at every call. */
    const int problems = talc_device_is_host(tested_device()) ? 2000 : 1000;
    for (int i = 0; i < problems; i++)
        check_problem(conv2d_random_problem((uint64_t)i), i, TALC_CHECK_EXACT, ORACLE_EXACT);
    assert_all_freed();
}

Test(conv2d, random_data_is_within_the_bound)
{
    for (int i = 0; conv2d_case(i) != NULL; i++)
        check_problem(conv2d_parse(conv2d_case(i)), i, TALC_CHECK_RANDOM, ORACLE_RANDOM);
    assert_all_freed();
}

Test(conv2d, constant_data_is_within_the_guaranteed_bound)
{
    for (int i = 0; conv2d_case(i) != NULL; i++)
        check_problem(conv2d_parse(conv2d_case(i)), i, TALC_CHECK_CONSTANT, ORACLE_ANY);
    assert_all_freed();
}

// ---- Rows, called without the op ----------------------------------------------------------------------------

/* Runs a row on guarded operands, output and workspace: outputs and workspace hold NaN before, and nothing outside
 * them may change. */
static void check_row(const talc_conv2d_algorithm *row, const conv2d_data *data,
                      const oracle_conv2d *oracle, size_t limit, int shift, const char *text)
{
    talc_device *device = tested_device();
    const talc_conv2d_problem *p = &data->problem;
    const char *name = row->algorithm.name;
    talc_scope *scope = talc_scope_enter();
    conv2d_operands in = conv2d_operands_new(device, data, shift);
    guarded y = guard_new(device, p->dtype, TALC_DIMS(p->N, p->OC, p->OH, p->OW), NULL, shift);
    const size_t bytes = row->workspace == NULL ? 0 : row->workspace(device, p, limit);
    guarded workspace = guard_new(device, TALC_F32, TALC_DIMS((int64_t)((bytes + 3) / 4)), NULL, 0);
    const talc_conv2d_arguments arguments = {
        .x = in.x.tensor->data,
        .w = in.w.tensor->data,
        .bias = in.bias.tensor == NULL ? NULL : in.bias.tensor->data,
        .residual = in.residual.tensor == NULL ? NULL : in.residual.tensor->data,
        .y = y.tensor->data,
        .workspace = bytes == 0 ? NULL : workspace.tensor->data,
        .workspace_bytes = bytes,
    };
    cr_assert(row->run(device, p, &arguments) == TALC_OK, "%s %s: %s", text, name,
              talc_error_message());
    expect_result(oracle, data, y.tensor, ORACLE_EXACT, text, name);
    cr_expect(conv2d_operands_intact(&in), "%s %s: wrote to an operand", text, name);
    cr_expect(guard_intact(&y, false), "%s %s: wrote outside y", text, name);
    cr_expect(guard_intact(&workspace, false), "%s %s: wrote outside its %zu bytes of workspace",
              text, name, bytes);
    conv2d_operands_free(&in);
    guard_free(&y);
    guard_free(&workspace);
    talc_scope_leave(scope);
}

Test(conv2d, a_row_touches_its_output_and_workspace_alone)
{
    static const size_t limits[] = { (size_t)32 << 20, 1, (size_t)16 << 10 };
    for (int i = 0; conv2d_case(i) != NULL; i++) {
        const talc_conv2d_problem problem = conv2d_parse(conv2d_case(i));
        if (problem.N == 0)
            continue;
        conv2d_data data = conv2d_data_new(&problem, TALC_CHECK_EXACT, (uint64_t)i);
        oracle_conv2d oracle = conv2d_oracle(&data);
        const talc_conv2d_algorithm *row = tested_device()->backend->conv2d;
        for (; row->algorithm.name != NULL; row++)
            if (row->refuses(&problem) == NULL)
                check_row(row, &data, &oracle, limits[i % 3], i / 3 % 3, conv2d_case(i));
        oracle_free(&oracle);
        conv2d_data_free(&data);
    }
    assert_all_freed();
}

/* Results larger than a cache, which rows may write differently, of planes whose rows are aligned to nothing. */
Test(conv2d, large_results_are_exact)
{
    static const char *const texts[] = { "n1c9h479w487o9k3x3p1x1g9_bias_relu",
                                         "n1c3h479w487o9k1x1_bias", "n1c2h487w479o9k2x3s1x1p0x1" };
    for (int i = 0; i < 3; i++) {
        const talc_conv2d_problem problem = conv2d_parse(texts[i]);
        conv2d_data data = conv2d_data_new(&problem, TALC_CHECK_EXACT, (uint64_t)i);
        oracle_conv2d oracle = conv2d_oracle(&data);
        const talc_conv2d_algorithm *row = tested_device()->backend->conv2d;
        for (; row->algorithm.name != NULL; row++)
            if (row->refuses(&problem) == NULL)
                check_row(row, &data, &oracle, (size_t)32 << 20, 1, texts[i]);
        oracle_free(&oracle);
        conv2d_data_free(&data);
    }
    assert_all_freed();
}

Test(conv2d, every_row_takes_some_cases_and_the_last_takes_all)
{
    int taken[TALC_CONV2D_MAX_CANDIDATES] = { 0 }, cases = 0;
    talc_conv2d_explanation explanation = { .count = 0 };
    for (; conv2d_case(cases) != NULL; cases++) {
        const talc_conv2d_problem problem = conv2d_parse(conv2d_case(cases));
        explanation = conv2d_explanation(tested_device(), &problem);
        cr_assert(explanation.count > 0);
        cr_expect(explanation.chosen >= 0, "%s: no algorithm", conv2d_case(cases));
        for (int j = 0; j < explanation.count; j++)
            taken[j] += !explanation.candidates[j].refused;
    }
    for (int j = 0; j < explanation.count; j++)
        cr_expect(taken[j] >= 12, "%s takes only %d cases", explanation.candidates[j].name,
                  taken[j]);
    if (talc_device_is_host(tested_device()))
        cr_expect(strcmp(explanation.candidates[explanation.count - 1].name, "reference") == 0);
    cr_expect(taken[explanation.count - 1] == cases && cases > 400);
    assert_all_freed();
}

// ---- Operands that are not contiguous -----------------------------------------------------------------------

/* The same elements in another layout: channels last, as a permuted image is; every second element of a larger
 * tensor; one image repeated. */
Test(conv2d, views_give_what_their_copies_give)
{
    talc_device *device = cpu_device();
    const talc_tensor *x = random_tensor(device, TALC_F32, TALC_DIMS(2, 4, 9, 8), 1);
    const talc_tensor *w = random_tensor(device, TALC_F32, TALC_DIMS(6, 2, 3, 3), 2);
    const talc_tensor *bias = random_tensor(device, TALC_F32, TALC_DIMS(12), 3);
    const talc_tensor *residual = random_tensor(device, TALC_F32, TALC_DIMS(6, 2, 9, 8), 4);
    const talc_tensor *views[] = {
        talc_permute(talc_contiguous(talc_permute(x, TALC_DIMS(0, 2, 3, 1))),
                     TALC_DIMS(0, 3, 1, 2)),
        talc_slice(
            talc_slice(random_tensor(device, TALC_F32, TALC_DIMS(2, 4, 20, 24), 5), 2, 1, 19, 2), 3,
            1, 24, 3),
        talc_expand(talc_slice(x, 0, 1, 2, 1), TALC_DIMS(2, 4, 9, 8)),
        talc_transpose(random_tensor(device, TALC_F32, TALC_DIMS(4, 2, 9, 8), 6), 0, 1),
    };
    const talc_tensor *w_view = talc_transpose(talc_contiguous(talc_transpose(w, 2, 3)), 2, 3);
    const talc_tensor *b_view = talc_slice(bias, 0, 0, TALC_END, 2);
    const talc_tensor *r_view = talc_transpose(residual, 0, 1);
    const talc_conv2d_options of_view = { .padding = { 1, 1 }, .groups = 2, .residual = r_view };
    talc_conv2d_options of_copy = of_view;
    of_copy.residual = talc_clone(r_view);
    for (size_t i = 0; i < sizeof views / sizeof *views; i++) {
        const talc_tensor *y = talc_conv2d(views[i], w_view, b_view, &of_view);
        const talc_tensor *due =
            talc_conv2d(talc_clone(views[i]), talc_clone(w_view), talc_clone(b_view), &of_copy);
        assert_no_failure();
        cr_assert(!talc_is_contiguous(views[i]) && talc_is_contiguous(y));
        cr_expect(memcmp(talc_data(y, TALC_F32), talc_data(due, TALC_F32), talc_nbytes(y)) == 0,
                  "view %zu", i);
    }
    assert_all_freed();
}

Test(conv2d, one_tensor_may_be_several_operands)
{
    const float values[] = { 1, 2, 3, 4 };
    const talc_tensor *x = talc_from_host(cpu_device(), TALC_F32, TALC_DIMS(1, 1, 2, 2), values);
    const talc_tensor *y = talc_conv2d(x, x, NULL, NULL);
    cr_assert(talc_item(y) == 1 + 4 + 9 + 16);
    const talc_tensor *one = talc_ones(cpu_device(), TALC_F32, TALC_DIMS(1, 1, 1, 1));
    y = talc_conv2d(x, one, NULL, &(talc_conv2d_options){ .residual = x });
    for (int i = 0; i < 4; i++)
        cr_assert(((float *)talc_data(y, TALC_F32))[i] == 2 * values[i]);
    assert_all_freed();
}

/* Once operands and result are released, while their scope is still open, nothing is left: the op drops what it makes
 * on the way, contiguous copies and handles among it. */
Test(conv2d, a_call_keeps_nothing_but_its_result)
{
    talc_device *device = tested_device();
    for (int transposed = 0; transposed < 2; transposed++) {
        talc_tensor *x = random_tensor(device, TALC_F32, TALC_DIMS(2, 4, 6, 6), 1);
        talc_tensor *w = random_tensor(device, TALC_F32, TALC_DIMS(5, 4, 3, 3), 2);
        talc_tensor *residual = random_tensor(device, TALC_F32, TALC_DIMS(2, 5, 4, 4), 3);
        talc_tensor *bias = random_tensor(device, TALC_F32, TALC_DIMS(5), 4);
        const talc_tensor *views[] = { x, w, residual };
        for (int i = 0; i < 3 && transposed == 1; i++)
            views[i] = talc_transpose(views[i], 2, 3);
        const talc_conv2d_options options = { .residual = views[2] };
        const size_t live = talc_device_memory(device).live;
        talc_tensor *y = talc_conv2d(views[0], views[1], bias, &options);
        assert_no_failure();
        talc_release(y);
        cr_assert(talc_device_memory(device).live == live, "the call keeps a copy");
        for (int i = 0; i < 3 && transposed == 1; i++)
            talc_release((talc_tensor *)views[i]);
        talc_tensor *const operands[] = { x, w, bias, residual };
        for (int i = 0; i < 4; i++) {
            const talc_memory before = talc_device_memory(device);
            talc_release(operands[i]);
            cr_assert(talc_device_memory(device).live < before.live, "the call keeps operand %d",
                      i);
        }
    }
    assert_all_freed();
}
