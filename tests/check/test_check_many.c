#define _DEFAULT_SOURCE /* usleep */

/* Many problems at once on a device that is not the host's: what is found is what is found one
 * after the other. */
#include "backends/cpu/cpu.h"
#include "check/engine/machine.h"
#include "check/engine/parallel.h"
#include "tensor/streams.h"
#include "tests/support/hooks.h"
#include "tests/support/plans.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX = 180 };
static char texts[MAX][TALC_CHECK_TEXT];
static const char *problems[MAX];

static int find_problems(void)
{
    int count = 0;
    for (int64_t i = 0; count < MAX - 1; i++) {
        const char *set = i % 2 == 0 ? "quick" : "random";
        if (talc_check_set_problem(set, i / 2, 3, texts[count]) == NULL)
            break;
        problems[count] = texts[count];
        count++;
    }
    cr_assert(count == MAX - 1);
    return count;
}

// ---- A device whose memory counts as its own, with an algorithm that is wrong at times
// -----------------

PLAN(but_sevens, ((const talc_conv2d_problem *)problem)->OC % 7 == 0 ? "seven" : NULL, )

/* Streams that do nothing: how many there are, and which were in use. */
static atomic_int streams_made, streams_left;
static _Atomic uint32_t streams_used;

static talc_status wrong_at_times(talc_device *device, const void *run_problem,
                                  const talc_plan *plan, const void *given)
{
    const talc_conv2d_problem *problem = run_problem;
    const talc_conv2d_arguments *arguments = given;
    const talc_algorithm *algorithm = talc_cpu_conv2d;
    while (strcmp(algorithm->name, "reference") != 0)
        algorithm++;
    const talc_status status = algorithm->run(device, problem, plan, arguments);
    atomic_fetch_or(&streams_used, UINT32_C(1) << talc_stream_number(device));
    void *result = problem->direction == TALC_GRAD_INPUT    ? arguments->dx
                   : problem->direction == TALC_GRAD_WEIGHT ? arguments->dw
                                                            : arguments->y;
    if (problem->OC == 4 && problem->dtype == TALC_F32)
        ((float *)result)[0] += 1;
    return status;
}

/* The kinds are few, so that the threads meet often. */
static talc_check_options options_of(talc_device *device)
{
    return (talc_check_options){ .device = device,
                                 .kinds = 1u << TALC_CHECK_EXACT | 1u << TALC_CHECK_RANDOM |
                                          1u << TALC_CHECK_BATCH };
}

static talc_status no_order(talc_device *device, int stream, int after)
{
    (void)device, (void)stream, (void)after;
    return TALC_OK;
}

static void *stream_new(talc_device *device)
{
    (void)device;
    streams_made++;
    return malloc(1);
}

static void stream_free(talc_device *device, void *stream)
{
    cr_assert(talc_stream_number(device) == 0, "it is still entered");
    streams_left++;
    free(stream);
}

static talc_device *other_device(void)
{
    static const talc_algorithm algorithms[] = {
        { "wrong", NULL, { "f32", TALC_STRICT, false }, but_sevens, wrong_at_times },
        { .name = NULL },
    };
    static struct talc_backend backend;
    static talc_device_interface interface;
    static talc_device device;
    device = *cpu_device();
    interface = *device.interface;
    interface.order = no_order;
    interface.stream_new = stream_new;
    interface.stream_free = stream_free;
    device.interface = &interface;
    backend = *device.backend;
    backend.algorithms[TALC_OP_conv2d] = algorithms;
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

static void expect_same_found(const talc_check *a, const talc_check *b)
{
    cr_assert_eq(talc_check_summary_count(a), talc_check_summary_count(b));
    for (int i = 0; i < talc_check_summary_count(a); i++) {
        const talc_check_summary *x = talc_check_summary_at(a, i), *y = talc_check_summary_at(b, i);
        cr_assert(strcmp(x->op, y->op) == 0 && strcmp(x->algorithm, y->algorithm) == 0 &&
                      strcmp(x->device, y->device) == 0,
                  "algorithm %d is %s %s, not %s %s", i, y->op, y->algorithm, x->op, x->algorithm);
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
}

static void expect_same(const talc_check *a, const talc_check *b)
{
    expect_same_found(a, b);
    cr_assert_eq(talc_check_passed(a), talc_check_passed(b));
}

Test(check_many, at_once_and_one_after_the_other_find_the_same)
{
    const int count = find_problems();
    talc_device *device = other_device();
    const talc_check_options options = options_of(device);
    talc_check *serial = talc_check_new(&options);
    for (int i = 0; i < count; i++)
        cr_assert(talc_check_problem(serial, problems[i]), "%s", talc_error_message());
    cr_assert(talc_check_failure_count(serial) > 20 && talc_check_untaken(serial) > 0);
    for (int threads = 1; threads <= 5; threads += 4) {
        cr_assert(talc_set_threads(threads));
        talc_check *check = talc_check_new(&options);
        steps = 0;
        streams_used = 0;
        streams_made = streams_left = 0;
        cr_assert(talc_check_problems(check, problems, count, count_steps, problems));
        cr_assert_eq(steps, count);
        expect_same(serial, check);
        talc_check_free(check);
        /* Each of several threads has a stream of its own. */
        cr_assert(streams_made == (threads == 1 ? 0 : threads) && streams_left == streams_made);
        cr_assert((threads == 1) == ((streams_used & 1) != 0), "0x%x", streams_used);
    }
    talc_check_free(serial);
    cr_assert(talc_streams_close(device));
}

/* The failure of a thread is raised in the one that waits; a check that could not be made does not
 * pass. */
Test(check_many, a_problem_that_is_none_is_a_failure)
{
    const int count = find_problems();
    const talc_check_options options = options_of(other_device());
    cr_assert(talc_set_threads(4));
    /* The first in the order of the problems counts, and all before it are checked; those after it
     * and in another part are not looked at, whichever is found first. */
    problems[60] = "n1c2h3w4o5k6y";
    problems[100] = "n1c1000000h1000w1000o1k1x1"; /* taken first, as it is large */
    for (int i = 0; i < 5; i++) {
        owned_check *check = talc_check_new(&options), *before = talc_check_new(&options);
        cr_assert(!talc_check_problems(check, problems, count, NULL, NULL));
        cr_assert(talc_failed() && strstr(talc_error_message(), problems[60]) != NULL, "%s",
                  talc_error_message());
        talc_error_clear();
        cr_assert(!talc_check_passed(check));
        for (int j = 0; j <= 60; j++)
            cr_assert(talc_check_problem(before, problems[j]) == (j < 60));
        talc_error_clear();
        expect_same_found(before, check);
    }

    talc_check *check = talc_check_new(&options);
    cr_assert(talc_check_problems(check, problems, 0, NULL, NULL) && !talc_check_passed(check));
    cr_assert(!talc_check_problems(check, NULL, 1, NULL, NULL));
    assert_failure(TALC_NULL_ARGUMENT, "check: problems is NULL");
    cr_assert(!talc_check_problems(NULL, problems, 1, NULL, NULL));
    assert_failure(TALC_NULL_ARGUMENT, "check: check is NULL");
    talc_check_free(check);
    cr_assert(talc_streams_close(options.device));
}

// ---- Memory and cores ---------------------------------------------------------------------------

static atomic_int inside, max_inside, alone;

/* The machine is shared by small problems, and who needs more than a quarter of it is alone. */
static void *visit(void *context)
{
    const double bytes = *(const double *)context;
    for (int i = 0; i < 20; i++) {
        talc_check_machine_enter(cpu_device(), bytes);
        const int now = ++inside;
        if (now > max_inside)
            max_inside = now;
        usleep(500);
        if (bytes > 1e12)
            alone += inside == 1;
        inside--;
        talc_check_machine_leave(bytes);
    }
    return NULL;
}

Test(check_many, a_problem_that_takes_much_memory_has_the_machine_alone)
{
    static const double bytes[] = { 1, 1e6, 1e15, 2e6, 1e15 };
    enum { VISITORS = sizeof bytes / sizeof *bytes };
    pthread_t threads[VISITORS];
    for (int i = 0; i < VISITORS; i++)
        cr_assert(pthread_create(&threads[i], NULL, visit, (void *)&bytes[i]) == 0);
    for (int i = 0; i < VISITORS; i++)
        pthread_join(threads[i], NULL);
    cr_assert(inside == 0 && alone == 40, "alone %d of 40 times", alone);
    cr_assert(max_inside > 1, "nobody shares");
}

static atomic_int at_work, max_at_work;
static int expected_at_work;

static void busy_chunk(void *context, int index, int64_t first, int64_t end)
{
    atomic_char *done = context;
    (void)index;
    const int now = ++at_work;
    if (now > max_at_work)
        max_at_work = now;
    for (int64_t i = first; i < end; i++)
        done[i]++;
    for (int i = 0; i < 5000 && max_at_work < expected_at_work; i++)
        usleep(1000); /* the others are still starting */
    usleep(1000);     /* one too many has time to come */
    at_work--;
}

/* A loop has `expected` threads while so many are busy elsewhere; every element is done once in any
 * case. */
static void assert_beside(int busy, int expected)
{
    enum { COUNT = 1000 };
    static atomic_char done[COUNT];
    memset(done, 0, sizeof done);
    max_at_work = 0;
    expected_at_work = expected;
    talc_check_busy(busy);
    talc_check_parallel(COUNT, 1e9, busy_chunk, done);
    talc_check_busy(-busy);
    for (int i = 0; i < COUNT; i++)
        cr_assert(done[i] == 1);
    cr_assert(max_at_work == expected, "%d threads beside %d, expected %d", max_at_work, busy,
              expected);
}

Test(check_many, loops_take_the_cores_that_nobody_is_on)
{
    cr_assert(talc_set_threads(6));
    assert_beside(0, 6); /* this one among them */
    assert_beside(1, 6);
    assert_beside(4, 3);
    assert_beside(6, 1);
    assert_beside(9, 1);
    assert_beside(0, 6);
}
