/* Many problems at once on a device that is not the host's: what is found is what is found one after the other. */
#include "backends/cpu/cpu.h"
#include "tests/support/hooks.h"

#include <stdatomic.h>
#include <string.h>

enum { MOST = 120 };
static char texts[MOST][TALC_CHECK_TEXT];
static const char *problems[MOST];

static int find_problems(void)
{
    int count = 0;
    for (int64_t i = 0; count < MOST - 1; i++) {
        const char *set = i % 2 == 0 ? "quick" : "random";
        if (talc_check_set_problem(set, i / 2, 3, texts[count]) == NULL)
            break;
        problems[count] = texts[count];
        count++;
    }
    cr_assert(count == MOST - 1);
    return count;
}

// ---- A device whose memory counts as its own, with a row that is wrong at times -------------------------------

static const char *none(const talc_conv2d_problem *problem)
{
    return problem->OC % 7 == 0 ? "seven" : NULL;
}

static talc_status wrong_at_times(talc_device *device, const talc_conv2d_problem *problem,
                                  const talc_conv2d_arguments *arguments)
{
    const talc_conv2d_algorithm *row = talc_cpu_conv2d;
    while (strcmp(row->algorithm.name, "reference") != 0)
        row++;
    const talc_status status = row->run(device, problem, arguments);
    if (problem->OC == 4 && problem->dtype == TALC_F32)
        ((float *)arguments->y)[problem->OH * problem->OW - 1] += 1;
    return status;
}

/* The kinds are few, so that the threads meet often. */
static talc_check_options options_of(talc_device *device)
{
    return (talc_check_options){ .device = device,
                                 .kinds = 1u << TALC_CHECK_EXACT | 1u << TALC_CHECK_RANDOM |
                                          1u << TALC_CHECK_BATCH };
}

static talc_device *other_device(void)
{
    static talc_conv2d_algorithm rows[] = { { .algorithm = { "wrong",
                                                             { "f32", TALC_STRICT, false } },
                                              .refuses = none,
                                              .run = wrong_at_times },
                                            { .algorithm = { NULL, { 0 } } } };
    static struct talc_backend backend;
    static talc_device device;
    device = *cpu_device();
    backend = *device.backend;
    backend.conv2d = rows;
    device.backend = &backend;
    device.is_host = false;
    memcpy(device.name, "other", sizeof "other");
    return &device;
}

static int steps;
static atomic_int within;

static void count_steps(void *context, const char *problem)
{
    cr_assert(context == problems && problem != NULL);
    cr_assert(atomic_fetch_add(&within, 1) == 0, "two at a time");
    steps++;
    atomic_fetch_sub(&within, 1);
}

static void expect_same(const talc_check *a, const talc_check *b)
{
    cr_assert_eq(talc_check_summary_count(a), talc_check_summary_count(b));
    for (int i = 0; i < talc_check_summary_count(a); i++) {
        const talc_check_summary *x = talc_check_summary_at(a, i), *y = talc_check_summary_at(b, i);
        cr_assert(strcmp(x->op, y->op) == 0 && strcmp(x->algorithm, y->algorithm) == 0 &&
                      strcmp(x->device, y->device) == 0,
                  "row %d is %s %s, not %s %s", i, y->op, y->algorithm, x->op, x->algorithm);
        cr_assert(x->problems == y->problems && x->refused == y->refused &&
                      x->checks == y->checks && x->failed == y->failed,
                  "%s %s", x->op, x->algorithm);
        cr_assert(x->share == y->share && x->worst_kind == y->worst_kind &&
                      strcmp(x->worst, y->worst) == 0,
                  "%s %s: %s, not %s", x->op, x->algorithm, y->worst, x->worst);
    }
    cr_assert_eq(talc_check_failure_count(a), talc_check_failure_count(b));
    for (int i = 0; i < talc_check_failure_count(a); i++) {
        const talc_check_failure *x = talc_check_failure_at(a, i), *y = talc_check_failure_at(b, i);
        cr_assert(x->kind == y->kind && strcmp(x->problem, y->problem) == 0 &&
                      strcmp(x->reason, y->reason) == 0,
                  "failure %d: %s, not %s", i, y->problem, x->problem);
    }
    cr_assert_eq(talc_check_untaken(a), talc_check_untaken(b));
    cr_assert_eq(talc_check_passed(a), talc_check_passed(b));
}

Test(check_many, at_once_and_one_after_the_other_find_the_same)
{
    const int count = find_problems();
    const talc_check_options options = options_of(other_device());
    talc_check *serial = talc_check_new(&options);
    for (int i = 0; i < count; i++)
        cr_assert(talc_check_problem(serial, problems[i]), "%s", talc_error_message());
    cr_assert(talc_check_failure_count(serial) > 20 && talc_check_untaken(serial) > 0);
    for (int threads = 1; threads <= 5; threads += 4) {
        cr_assert(talc_set_threads(threads));
        talc_check *check = talc_check_new(&options);
        steps = 0;
        cr_assert(talc_check_problems(check, problems, count, count_steps, problems));
        cr_assert_eq(steps, count);
        expect_same(serial, check);
        talc_check_free(check);
    }
    talc_check_free(serial);
    assert_all_freed();
}

/* The failure of a thread is raised in the one that waits; a check that could not be made does not pass. */
Test(check_many, a_problem_that_is_none_is_a_failure)
{
    const int count = find_problems();
    const talc_check_options options = options_of(other_device());
    cr_assert(talc_set_threads(4));
    problems[100] = "n1c2h3w4o5k6";
    talc_check *check = talc_check_new(&options);
    cr_assert(!talc_check_problems(check, problems, count, NULL, NULL));
    cr_assert(talc_failed() && strstr(talc_error_message(), "n1c2h3w4o5k6") != NULL, "%s",
              talc_error_message());
    talc_error_clear();
    cr_assert(!talc_check_passed(check));
    talc_check_free(check);

    check = talc_check_new(&options);
    cr_assert(talc_check_problems(check, problems, 0, NULL, NULL) && !talc_check_passed(check));
    cr_assert(!talc_check_problems(check, NULL, 1, NULL, NULL));
    assert_failure(TALC_NULL_ARGUMENT, "check: problems is NULL");
    cr_assert(!talc_check_problems(NULL, problems, 1, NULL, NULL));
    assert_failure(TALC_NULL_ARGUMENT, "check: check is NULL");
    talc_check_free(check);
    assert_all_freed();
}
