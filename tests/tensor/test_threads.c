#include "tests/support/hooks.h"

#include "backends/cpu/device/threads.h"
#include "tensor/extent.h"
#include "tensor/fenv.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAX = 5000 };

typedef struct tally {
    atomic_int runs[MAX];
    atomic_int out_of_range; /* worker numbers that are not below `workers` */
    int workers;
} tally;

static tally counts;

static void count_piece(void *context, int64_t piece, int worker)
{
    tally *t = context;
    atomic_fetch_add(&t->runs[piece], 1);
    if (worker < 0 || worker >= t->workers)
        atomic_fetch_add(&t->out_of_range, 1);
}

static void start_tally(int workers)
{
    memset(&counts, 0, sizeof counts);
    counts.workers = workers;
}

static void assert_each_once(int64_t count, const char *what)
{
    for (int64_t i = 0; i < MAX; i++)
        cr_assert(atomic_load(&counts.runs[i]) == (i < count), "%s: piece %d of %d ran %d times",
                  what, (int)i, (int)count, atomic_load(&counts.runs[i]));
    cr_assert(atomic_load(&counts.out_of_range) == 0, "%s: a worker number is out of range", what);
}

enum { TOGETHER = 4, ROUNDS = 200 };

typedef struct meeting {
    atomic_int begun;
    atomic_int elsewhere; /* pieces that ran on a thread that is not theirs */
} meeting;

/* Waits for all pieces to begin, so that none is free to take another one's. */
static void meet(void *context, int64_t piece, int worker)
{
    meeting *m = context;
    atomic_fetch_add(&m->begun, 1);
    atomic_fetch_add(&m->elsewhere, worker != piece);
    while (atomic_load(&m->begun) < TOGETHER)
        sched_yield();
}

Test(threads, every_thread_has_the_same_piece_on_every_call)
{
    cr_assert(talc_set_threads(2 * TOGETHER));
    for (int i = 0; i < ROUNDS; i++) {
        meeting m = { 0 };
        cr_assert(talc_cpu_parallel(TOGETHER, meet, &m) == TALC_OK);
        cr_assert(atomic_load(&m.elsewhere) == 0, "call %d: %d of %d pieces ran elsewhere", i,
                  atomic_load(&m.elsewhere), (int)TOGETHER);
    }
}

Test(threads, every_piece_runs_once)
{
    const int64_t sizes[] = { 0, 1, 2, 3, 7, 100, MAX };
    for (int threads = 1; threads <= 5; threads++) {
        cr_assert(talc_set_threads(threads) && talc_threads() == threads &&
                  talc_cpu_threads() == threads);
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            start_tally(threads);
            cr_assert(talc_cpu_parallel(sizes[i], count_piece, &counts) == TALC_OK);
            assert_each_once(sizes[i], "parallel");
            for (int workers = 1; workers <= 7; workers += 3) {
                start_tally(workers);
                cr_assert(talc_cpu_parallel_limited(sizes[i], workers, count_piece, &counts) ==
                          TALC_OK);
                assert_each_once(sizes[i], "limited");
            }
        }
    }
}

/* Two pieces that wait for each other end only when two threads run them. */
static void meet_piece(void *context, int64_t piece, int worker)
{
    (void)piece;
    (void)worker;
    atomic_int *arrived = context;
    atomic_fetch_add(arrived, 1);
    for (int i = 0; i < 20000 && atomic_load(arrived) < 2; i++)
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    if (atomic_load(arrived) < 2)
        talc_fail(TALC_UNSUPPORTED, "alone");
}

Test(threads, pieces_run_at_the_same_time)
{
    atomic_int arrived = 0;
    talc_set_threads(2);
    cr_assert(talc_cpu_parallel(2, meet_piece, &arrived) == TALC_OK);
}

// ---- Nesting ------------------------------------------------------------------------------------

typedef struct nested_work {
    pthread_t thread;
    atomic_int *total;
    bool same_thread;
} nested_work;

static void inner_piece(void *context, int64_t piece, int worker)
{
    (void)piece;
    nested_work *work = context;
    work->same_thread =
        work->same_thread && worker == 0 && pthread_equal(work->thread, pthread_self());
    atomic_fetch_add(work->total, 1);
}

static void outer_piece(void *context, int64_t piece, int worker)
{
    (void)piece;
    (void)worker;
    nested_work work = { pthread_self(), context, true };
    if (talc_cpu_parallel(10, inner_piece, &work) != TALC_OK || !work.same_thread)
        talc_fail(TALC_UNSUPPORTED, "the inner pieces left their thread");
}

Test(threads, work_within_work_stays_in_its_thread)
{
    talc_set_threads(3);
    atomic_int total = 0;
    cr_assert(talc_cpu_parallel(50, outer_piece, &total) == TALC_OK);
    assert_no_failure();
    cr_assert(atomic_load(&total) == 500);
}

// ---- Failures -----------------------------------------------------------------------------------

static void fail_at_seven(void *context, int64_t piece, int worker)
{
    (void)context;
    (void)worker;
    if (piece == 7)
        talc_fail(TALC_BAD_FORMAT, "piece %d", (int)piece);
}

Test(threads, a_failure_in_a_piece_is_the_callers)
{
    for (int threads = 1; threads <= 3; threads++) {
        talc_set_threads(threads);
        for (int round = 0; round < 20; round++) {
            cr_assert(talc_cpu_parallel(20, fail_at_seven, NULL) == TALC_BAD_FORMAT);
            assert_failure(TALC_BAD_FORMAT, "piece 7");
            cr_assert(talc_cpu_parallel_limited(20, 2, fail_at_seven, NULL) == TALC_BAD_FORMAT);
            assert_failure(TALC_BAD_FORMAT, "piece 7");
            /* No thread keeps the failure for its next work. */
            start_tally(threads);
            cr_assert(talc_cpu_parallel(100, count_piece, &counts) == TALC_OK);
            assert_each_once(100, "after a failure");
        }
    }
}

// ---- Several callers ----------------------------------------------------------------------------

typedef struct caller {
    atomic_int ran;
    bool right;
} caller;

static void add_piece(void *context, int64_t piece, int worker)
{
    (void)worker;
    atomic_fetch_add((atomic_int *)context, (int)piece);
}

static void *call_often(void *argument)
{
    caller *c = argument;
    c->right = true;
    for (int i = 0; i < 200; i++) {
        atomic_int sum = 0;
        c->right = c->right && talc_cpu_parallel(64, add_piece, &sum) == TALC_OK &&
                   atomic_load(&sum) == 64 * 63 / 2;
    }
    return NULL;
}

Test(threads, several_threads_call_at_once)
{
    talc_set_threads(3);
    caller callers[6];
    pthread_t threads[6];
    for (int i = 0; i < 6; i++)
        pthread_create(&threads[i], NULL, call_often, &callers[i]);
    for (int i = 0; i < 20; i++) /* changing the number waits for running work */
        cr_assert(talc_set_threads(1 + i % 4));
    for (int i = 0; i < 6; i++) {
        pthread_join(threads[i], NULL);
        cr_assert(callers[i].right, "caller %d", i);
    }
}

// ---- Signals ------------------------------------------------------------------------------------

/* What its own instructions raise reaches a worker, and nothing else; nor does the floating-point
 * environment that the pool was started in. */
static void mask_piece(void *context, int64_t piece, int worker)
{
    static const int own[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL };
    sigset_t mask;
    meet_piece(context, piece, worker);
    (void)pthread_sigmask(SIG_BLOCK, NULL, &mask);
    if (worker > 0 && !talc_fenv_same(talc_fenv_now(), talc_fenv_default()))
        talc_fail(TALC_UNSUPPORTED, "another floating-point environment");
    for (int number = 1; number <= SIGSYS && worker > 0; number++) {
        bool blocked = number != SIGKILL && number != SIGSTOP;
        for (int i = 0; i < 4; i++)
            blocked = blocked && number != own[i];
        if (sigismember(&mask, number) != blocked)
            talc_fail(TALC_UNSUPPORTED, "signal %d", number);
    }
}

/* A signal to the program waits while the program's own thread has it blocked: no thread of the
 * library takes it. */
Test(threads, signals_are_for_the_program)
{
    owned_dataset *dataset = talc_dataset_digits(64, 1);
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        sigset_t all, pending;
        atomic_int arrived = 0;
        talc_batch batch;
        (void)sigfillset(&all);
        (void)sigdelset(&all, SIGALRM);
        alarm(20);
        talc_set_threads(2);
        talc_loader *loader = talc_loader_new(dataset, &(talc_loader_options){ .batch = 8 });
        bool right = talc_loader_start(loader, 0) && talc_loader_next(loader, &batch) &&
                     talc_cpu_parallel(2, mask_piece, &arrived) == TALC_OK;
        talc_fenv_set(talc_fenv_default(), talc_fenv_foreign());
        talc_set_threads(2);
        atomic_store(&arrived, 0);
        right = right && talc_cpu_parallel(2, mask_piece, &arrived) == TALC_OK;
        (void)pthread_sigmask(SIG_SETMASK, &all, NULL);
        (void)kill(getpid(), SIGTERM);
        nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
        right = right && sigpending(&pending) == 0 && sigismember(&pending, SIGTERM);
        _exit(right ? 0 : 1);
    }
    int status = 0;
    cr_assert(child > 0 && waitpid(child, &status, 0) == child);
    cr_assert(status == 0, "signal %d, exit %d", WTERMSIG(status), WEXITSTATUS(status));
}

// ---- The number of threads ----------------------------------------------------------------------

Test(threads, pieces_cover_the_total)
{
    for (int64_t total = 0; total < 50; total++)
        for (int64_t step = 1; step < 12; step++) {
            const int64_t pieces = talc_ceil_div(total, step);
            cr_assert(pieces * step >= total && (pieces - 1) * step < total);
        }
    cr_assert(talc_ceil_div(INT64_MAX, 2) == INT64_MAX / 2 + 1);
}

// ---- Fork ---------------------------------------------------------------------------------------

Test(threads, a_forked_child_computes)
{
    talc_set_threads(3);
    talc_tensor *x =
        talc_full(cpu_device(), TALC_F32, TALC_DIMS(300000), 2); /* starts the threads */
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        alarm(20);
        start_tally(3);
        talc_status status = talc_cpu_parallel(1000, count_piece, &counts);
        bool right = status == TALC_OK && talc_threads() == 3;
        for (int i = 0; i < 1000; i++)
            right = right && atomic_load(&counts.runs[i]) == 1;
        atomic_int arrived = 0;
        right = right && talc_cpu_parallel(2, meet_piece, &arrived) == TALC_OK;
        talc_tensor *y = talc_mul(x, x);
        right = right && talc_item(talc_select(y, 0, 299999)) == 4;
        right =
            right && talc_set_threads(2) && talc_cpu_parallel(100, add_piece, &arrived) == TALC_OK;
        _exit(right ? 0 : 1);
    }
    int status;
    cr_assert(waitpid(child, &status, 0) == child);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child ended with %d", status);
    cr_assert(talc_item(talc_select(talc_mul(x, x), 0, 299999)) == 4);
}
