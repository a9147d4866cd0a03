/// What every backend has to do, on the device under test: every op as on the CPU, and memory only
/// through copies.
#include "tests/support/guard.h"
#include "tests/support/hooks.h"
#include "tests/support/op_cases.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Results of some ten roundings of numbers below 20. */
static void assert_agrees(const char *op, const talc_tensor *expected, const talc_tensor *got)
{
    cr_assert(expected->dtype == got->dtype && talc_same_dims(expected, got),
              "%s: another shape or type", op);
    const double relative = expected->dtype == TALC_F32   ? 1e-5
                            : expected->dtype == TALC_F64 ? 1e-13
                                                          : 0;
    assert_near(got, expected, relative, op);
}

/* Of operands without gaps and of views. A backend may lack an op: that is an answer, which names
 * the device, and is shown. */
Test(backend, every_op_that_it_has_agrees_with_the_cpu)
{
    talc_device *device = tested_device();
    const op_inputs here = op_inputs_new(cpu_device());
    int ran = 0;
    for (int view = 0; view <= OP_VIEWS; view++) {
        const op_inputs there =
            view == OP_VIEWS ? op_inputs_new(device) : op_inputs_seen(device, (op_view)view);
        for (const op_case *op = op_cases; op->name != NULL; op++) {
            const talc_tensor *got = op->run(&there);
            if (got == NULL && talc_error_status() == TALC_UNSUPPORTED) {
                cr_log_info("%s", talc_error_message());
                talc_error_clear();
                continue;
            }
            cr_assert(got != NULL, "%s: %s", op->name, talc_error_message());
            cr_assert(got->device == device, "%s: the result is on %s", op->name,
                      talc_device_name(got->device));
            assert_agrees(op->name, op->run(&here), got);
            ran++;
        }
    }
    cr_assert(ran > 0);
}

/* Whoever cuts work into parts divides by something that is 0 here. */
Test(backend, empty_problems_are_planned_like_any_other)
{
    talc_device *device = tested_device();
    talc_tensor *none = talc_zeros(device, TALC_F32, TALC_DIMS(0));
    const talc_tensor *planes = talc_zeros(device, TALC_F32, TALC_DIMS(1, 0, 3, 3));
    cr_assert(talc_numel(talc_batch_norm2d(planes, NULL, NULL, none, none, NULL)) == 0);
    static const int64_t softmaxes[][2] = { { 0, 40000 }, { 0, 458753 }, { 16384, 0 } };
    for (int i = 0; i < 3; i++)
        for (int dim = 0; dim < 2; dim++) {
            const talc_dims dims = TALC_DIMS(softmaxes[i][0], softmaxes[i][1]);
            cr_assert(talc_softmax(talc_zeros(device, TALC_F32, dims), dim) != NULL, "%s",
                      talc_error_message());
        }
    const talc_tensor *x = talc_zeros(device, TALC_F32, TALC_DIMS(2, 3, 3, 3));
    const talc_tensor *sums = talc_sum(talc_slice(x, 1, 0, 0, 1), TALC_DIMS(0, 2, 3), false);
    cr_assert(sums != NULL && talc_numel(sums) == 0, "%s", talc_error_message());
}

/* Of the algorithms that can, the one of the least estimate is chosen, or the first where none has
 * one; `reference` where no other can. */
static int expected_choice(const talc_explanation *e)
{
    int expected = -1;
    for (int i = 0; i < e->count; i++) {
        const talc_candidate *c = &e->candidates[i];
        const bool rivals = expected >= 0 && strcmp(c->title, "reference") != 0;
        if (!c->refused &&
            (expected < 0 || (rivals && c->seconds < e->candidates[expected].seconds)))
            expected = i;
    }
    return expected;
}

static void assert_decided(const char *problem)
{
    talc_explanation e;
    int estimated = 0, others = 0;
    cr_assert(talc_explain(tested_device(), problem, NULL, &e), "%s", talc_error_message());
    for (int i = 0; i < e.count; i++) {
        const talc_candidate *c = &e.candidates[i];
        cr_assert(c->refused == (c->reason[0] != '\0'));
        if (c->refused || strcmp(c->title, "reference") == 0)
            continue;
        others++;
        estimated += c->seconds > 0;
        cr_assert(isfinite(c->seconds), "%s: %s has no time", problem, c->title);
    }
    cr_assert(e.count > 0 && (estimated == 0 || estimated == others),
              "%s: %d of %d algorithms estimate", problem, estimated, others);
    cr_assert(e.chosen == expected_choice(&e), "%s: algorithm %d is chosen", problem, e.chosen);
}

Test(backend, the_choice_follows_from_what_is_explained)
{
    static const char *const elementwise[] = {
        "relu:64x1000",        "neg:7x5x3_reversed_i64",  "add:33x17,17",
        "mul:8x16x9,16x1_f64", "sub:300x200_reversed_u8", "div:"
    };
    char text[TALC_CHECK_TEXT];
    for (int64_t i = 0; talc_check_set_problem("quick", i, 1, text) != NULL; i++)
        assert_decided(text);
    for (size_t i = 0; i < sizeof elementwise / sizeof *elementwise; i++)
        assert_decided(elementwise[i]);
}

Test(backend, elements_survive_the_way_there_and_back)
{
    talc_device *device = tested_device();
    const talc_tensor *x = op_numbers(cpu_device(), TALC_DIMS(5, 7, 3), 1);
    const talc_tensor *there = talc_to(x, device, TALC_F32);
    assert_same_bits("there", x, there);
    assert_same_bits("and back", x, talc_to(there, cpu_device(), TALC_F32));
    const talc_tensor *view = talc_slice(talc_transpose(there, 0, 2), 1, 1, TALC_END, 2);
    assert_same_bits("a view", talc_slice(talc_transpose(x, 0, 2), 1, 1, TALC_END, 2), view);
    for (int dtype = 0; dtype < TALC_DTYPE_COUNT; dtype++)
        assert_same_bits(talc_dtype_name((talc_dtype)dtype),
                         talc_full(cpu_device(), (talc_dtype)dtype, TALC_DIMS(3), 7),
                         talc_full(device, (talc_dtype)dtype, TALC_DIMS(3), 7));
}

/* A device without the host's memory may give its errors late, but gives them. */
Test(backend, it_says_what_it_is)
{
    talc_device *device = tested_device();
    cr_assert(talc_device_synchronize(device), "%s", talc_error_message());
    cr_assert(talc_device_name(device)[0] != '\0');
    talc_tensor *x = talc_zeros(device, TALC_F32, TALC_DIMS(100));
    cr_assert(talc_device_memory(device).live >= 400);
    cr_assert((talc_data(x, TALC_F32) != NULL) == talc_device_is_host(device));
    talc_error_clear();
}

/* Half a gigabyte written takes longer than nothing at all, and no device moves it within a
 * microsecond. */
Test(backend, a_timer_takes_in_the_work_between)
{
    talc_device *device = tested_device();
    talc_tensor *x = talc_full(device, TALC_F32, TALC_DIMS(1 << 22), 3);
    cr_assert_not_null(talc_neg(x));
    talc_timer *nothing = talc_timer_start(device);
    const double min = talc_timer_stop(nothing);
    talc_timer *timer = talc_timer_start(device);
    for (int i = 0; i < 32; i++)
        talc_release(talc_neg(x));
    const double seconds = talc_timer_stop(timer);
    assert_no_failure();
    cr_assert(min >= 0 && seconds > min && seconds > 1e-6 && seconds < 100, "%g s, %g s", min,
              seconds);
    timer = talc_timer_start(device);
    talc_fail(TALC_BAD_ARGUMENT, "a failure that stands");
    cr_assert(talc_timer_stop(timer) < 0 && talc_timer_start(device) == NULL);
    talc_error_clear();
    cr_assert(talc_timer_stop(NULL) < 0 && talc_timer_start(NULL) == NULL);
    assert_failure(TALC_NULL_ARGUMENT, "timer_start: device is NULL");
}
