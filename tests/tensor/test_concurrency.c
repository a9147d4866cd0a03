/// Several threads at once: own tensors, shared weights, and what is kept per thread.
#include "tests/support/hooks.h"
#include "tests/support/layers.h"
#include "tests/support/op_cases.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { THREADS = 8, ROUNDS = 20, MAX_CASES = 256 };

/* What the threads share: nothing in it is written while they run. */
typedef struct shared {
    op_inputs inputs;
    talc_tensor *expected[MAX_CASES]; /* each case's result, made by one thread alone */
    atomic_int failures;
    char message[256];
} shared;

typedef struct task {
    shared *all;
    int number;
} task;

static void note(shared *all, int thread, const char *what)
{
    if (atomic_fetch_add(&all->failures, 1) == 0)
        snprintf(all->message, sizeof all->message, "thread %d: %s: %s", thread, what,
                 talc_error_message());
    talc_error_clear();
}

static bool same_bits(const talc_tensor *expected, const talc_tensor *got)
{
    return got != NULL && expected->dtype == got->dtype && talc_same_dims(expected, got) &&
           talc_is_contiguous(got) && memcmp(expected->data, got->data, talc_nbytes(expected)) == 0;
}

/* Criterion's assertions are for the test's own thread, so the others only note what they see. */
static void run_threads(void *(*body)(void *), shared *all)
{
    pthread_t threads[THREADS];
    task tasks[THREADS];
    for (int i = 0; i < THREADS; i++) {
        tasks[i] = (task){ all, i };
        cr_assert(pthread_create(&threads[i], NULL, body, &tasks[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    cr_assert(all->failures == 0, "%d failures; the first: %s", all->failures, all->message);
}

static void make_expected(shared *all)
{
    all->inputs = op_inputs_new(cpu_device());
    for (int i = 0; op_cases[i].name != NULL; i++) {
        cr_assert(i < MAX_CASES);
        all->expected[i] = talc_contiguous(op_cases[i].run(&all->inputs));
        cr_assert_not_null(all->expected[i], "%s: %s", op_cases[i].name, talc_error_message());
    }
}

static void check_all_ops(task *t, const op_inputs *inputs)
{
    for (int i = 0; op_cases[i].name != NULL; i++) {
        owned_scope *scope = talc_scope_enter();
        if (!same_bits(t->all->expected[i], talc_contiguous(op_cases[i].run(inputs))))
            note(t->all, t->number, op_cases[i].name);
    }
}

static void *use_own_tensors(void *argument)
{
    task *t = argument;
    for (int round = 0; round < ROUNDS; round++) {
        owned_scope *scope = talc_scope_enter();
        const op_inputs inputs = op_inputs_new(cpu_device());
        check_all_ops(t, &inputs);
    }
    return NULL;
}

static void *use_shared_tensors(void *argument)
{
    task *t = argument;
    for (int round = 0; round < ROUNDS; round++)
        check_all_ops(t, &t->all->inputs);
    return NULL;
}

Test(concurrency, ops_on_own_tensors_are_exact)
{
    static shared all;
    make_expected(&all);
    run_threads(use_own_tensors, &all);
}

Test(concurrency, ops_on_shared_operands_are_exact)
{
    static shared all;
    make_expected(&all);
    for (int threads = 1; threads <= 3; threads++) {
        cr_assert(talc_set_threads(threads));
        run_threads(use_shared_tensors, &all);
    }
}

// ---- A model shared for reading -----------------------------------------------------------------

static talc_module *net;
static talc_tensor *net_expected;

static void *apply_net(void *argument)
{
    task *t = argument;
    for (int round = 0; round < ROUNDS; round++) {
        owned_scope *scope = talc_scope_enter();
        if (!same_bits(net_expected, talc_forward(net, t->all->inputs.image)))
            note(t->all, t->number, "forward");
    }
    return NULL;
}

Test(concurrency, a_model_in_evaluation_mode_serves_all_threads)
{
    static shared all;
    all.inputs = op_inputs_new(cpu_device());
    net = TALC_SEQUENTIAL(CONV2D(.in_channels = 4, .out_channels = 6, .kernel = { 3, 3 }),
                          BATCH_NORM2D(.channels = 6), talc_nn_relu(), talc_nn_flatten(),
                          LINEAR(120, 10));
    talc_module_eval(net);
    net_expected = talc_forward(net, all.inputs.image);
    assert_no_failure();
    run_threads(apply_net, &all);
    talc_module_free(net);
}

// ---- What each thread has for itself ------------------------------------------------------------

static void *keep_own_state(void *argument)
{
    task *t = argument;
    talc_manual_seed((uint64_t)t->number);
    for (uint64_t round = 0; round < 50; round++) {
        owned_scope *scope = talc_scope_enter();
        talc_generator generator = talc_generator_get();
        if (generator.seed != (uint64_t)t->number || generator.call != round)
            note(t->all, t->number, "another thread moved the generator");
        talc_rand(cpu_device(), TALC_F32, TALC_DIMS(3));

        char message[64];
        snprintf(message, sizeof message, "the failure of thread %d", t->number);
        talc_fail(TALC_IO_ERROR, "%s", message);
        if (talc_neg(t->all->inputs.a) != NULL || strcmp(talc_error_message(), message) != 0)
            note(t->all, t->number, "another thread's failure");
        talc_error_clear();
        if (talc_failed() || talc_neg(t->all->inputs.a) == NULL)
            note(t->all, t->number, "a failure that was cleared");

        char name[32];
        snprintf(name, sizeof name, "row%d", t->number);
        talc_algorithm_force("nothing", name);
        talc_precision_admit(t->number % 2 ? TALC_TF32 : TALC_NORMWISE);
        if (strcmp(talc_algorithm_forced("nothing"), name) != 0 ||
            talc_precision_admitted() !=
                (TALC_STRICT | (t->number % 2 ? TALC_TF32 : TALC_NORMWISE)))
            note(t->all, t->number, "another thread's choices");
    }
    /* The root scope's tensors go with the thread. */
    talc_ones(cpu_device(), TALC_F32, TALC_DIMS(100));
    return NULL;
}

Test(concurrency, failures_scopes_generators_and_choices_are_each_threads_own)
{
    static shared all;
    all.inputs = op_inputs_new(cpu_device());
    size_t live = talc_device_memory(cpu_device()).live;
    run_threads(keep_own_state, &all);
    cr_assert(talc_device_memory(cpu_device()).live == live, "a thread's root scope outlives it");
    cr_assert(talc_algorithm_forced("nothing") == NULL && talc_precision_admitted() == TALC_STRICT);
}

// ---- A tensor handed over -----------------------------------------------------------------------

static void *drop_handed(void *argument)
{
    talc_tensor *tensor = argument;
    for (int i = 0; i < 200; i++)
        talc_release(talc_retain(tensor));
    talc_release(tensor);
    return NULL;
}

Test(concurrency, retained_tensors_live_until_the_last_thread_lets_go)
{
    for (int round = 0; round < 50; round++) {
        talc_scope *scope = talc_scope_enter();
        talc_tensor *tensor = talc_ones(cpu_device(), TALC_F32, TALC_DIMS(10));
        pthread_t threads[THREADS];
        for (int i = 0; i < THREADS; i++)
            cr_assert(pthread_create(&threads[i], NULL, drop_handed, talc_retain(tensor)) == 0);
        talc_scope_leave(scope);
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        cr_assert(talc_device_memory(cpu_device()).live == 0);
    }
}
