/// Callers' streams: order within a thread, overlap between threads, and memory that several
/// streams use.
#include "tests/support/gpu.h"
#include "tests/support/hooks.h"
#include "tests/support/layers.h"
#include "tests/support/op_cases.h"

#include "tensor/storage.h"
#include "tensor/streams.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>

enum { MANY = 1 << 16, LATE = 50 };

static talc_tensor *full(talc_device *device, double value)
{
    return talc_full(device, TALC_F32, TALC_DIMS(MANY), value);
}

/* All elements, which are equal, or the test fails. */
static double value_of(const talc_tensor *x)
{
    static float values[MANY];
    cr_assert(talc_to_host(x, values, sizeof values), "%s", talc_error_message());
    for (int i = 1; i < MANY; i++)
        cr_assert(values[i] == values[0], "element %d is %g, the first %g", i, (double)values[i],
                  (double)values[0]);
    return values[0];
}

Test(stream, a_device_without_streams_says_so)
{
    int any;
    cr_assert_null(talc_stream_enter(cpu_device(), &any));
    assert_failure(TALC_UNSUPPORTED, "stream_enter: cpu has no streams");
    cr_assert_null(talc_stream_enter(NULL, &any));
    assert_failure(TALC_NULL_ARGUMENT, "stream_enter: device is NULL");
    cr_assert_null(talc_stream_current(cpu_device()));
    talc_stream_leave(NULL);
}

/* Each stream is late, so a wait that is missing shows as a wrong number. */
Test(stream, one_threads_work_keeps_its_order_through_streams)
{
    talc_device *device = queueing_device();
    void *a = gpu_stream_new(device), *b = gpu_stream_new(device);
    void *own = talc_stream_current(device);
    gpu_stall(device, own, LATE);
    talc_tensor *x = full(device, 1);
    talc_stream *outer = talc_stream_enter(device, a);
    cr_assert(talc_stream_current(device) == a);
    gpu_stall(device, a, LATE);
    x = talc_add_scalar(x, 1);
    talc_stream *inner = talc_stream_enter(device, b);
    cr_assert(talc_stream_current(device) == b);
    gpu_stall(device, b, LATE);
    x = talc_mul_scalar(x, 10);
    talc_stream_leave(inner);
    cr_assert(talc_stream_current(device) == a);
    x = talc_add_scalar(x, 5);
    cr_assert(value_of(x) == 25, "%g", value_of(x));
    talc_stream_leave(outer);
    cr_assert(talc_stream_current(device) == own);
    x = talc_neg(x);
    cr_assert(value_of(x) == -25, "%g", value_of(x));
    gpu_stream_free(device, a);
    gpu_stream_free(device, b);
}

Test(stream, leaving_an_outer_stream_leaves_the_inner_ones)
{
    talc_device *device = queueing_device();
    void *a = gpu_stream_new(device), *b = gpu_stream_new(device);
    void *own = talc_stream_current(device);
    talc_stream *outer = talc_stream_enter(device, a);
    cr_assert_not_null(talc_stream_enter(device, b));
    cr_assert_not_null(talc_stream_enter(device, NULL));
    cr_assert(talc_stream_current(device) == own);
    talc_stream_leave(outer);
    cr_assert(talc_stream_current(device) == own);
    talc_stream_leave(outer); /* no longer entered: ignored */
    enum { MANY_TIMES = 32 }; /* enough that malloc gives the same memory again */
    talc_stream *left[MANY_TIMES];
    for (int i = 0; i < MANY_TIMES; i++)
        left[i] = talc_stream_enter(device, b);
    talc_stream_leave(left[0]);
    outer = talc_stream_enter(device, a);
    for (int i = 0; i < MANY_TIMES; i++)
        talc_stream_enter(device, a);
    for (int i = 0; i < MANY_TIMES; i++)
        talc_stream_leave(left[i]);
    cr_assert(talc_stream_current(device) == a, "a stream that was left is another");
    talc_stream_leave(outer);
    assert_no_failure();
    gpu_stream_free(device, a);
    gpu_stream_free(device, b);
}

Test(stream, numbers_are_given_again_and_run_out_with_a_message)
{
    talc_device *device = queueing_device();
    void *streams[TALC_STREAMS];
    talc_stream *first = NULL;
    for (int i = 0; i < TALC_STREAMS; i++)
        streams[i] = gpu_stream_new(device);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < TALC_STREAMS - 1; i++) {
            talc_stream *entered = talc_stream_enter(device, streams[i]);
            cr_assert_not_null(entered, "%s", talc_error_message());
            first = i == 0 ? entered : first;
        }
        cr_assert_not_null(talc_stream_enter(device, streams[0]), "one that has a number already");
        cr_assert_null(talc_stream_enter(device, streams[TALC_STREAMS - 1]));
        cr_assert(talc_error_status() == TALC_UNSUPPORTED, "%s", talc_error_message());
        talc_error_clear();
        cr_assert(!talc_device_close(device));
        cr_assert(talc_error_status() == TALC_BAD_ARGUMENT, "%s", talc_error_message());
        talc_error_clear();
        talc_stream_leave(first);
    }
    for (int i = 0; i < TALC_STREAMS; i++)
        gpu_stream_free(device, streams[i]);
}

// ---- Two threads on two streams -----------------------------------------------------------------

/* A thread that enters `stream`, does `body` there, and stays until the test has looked at what
 * that means meanwhile. */
typedef struct task {
    talc_device *device;
    void *stream, *inner;
    talc_tensor *given, *made;
    const void *memory;
    void (*body)(struct task *);
    pthread_t thread;
    pthread_barrier_t both;
    char message[256];
} task;

static void *run_task(void *argument)
{
    task *t = argument;
    talc_stream *entered = talc_stream_enter(t->device, t->stream);
    talc_scope *scope = talc_scope_enter();
    gpu_stall(t->device, t->stream, LATE);
    t->body(t);
    talc_scope_leave(scope);
    pthread_barrier_wait(&t->both);
    pthread_barrier_wait(&t->both);
    talc_stream_leave(entered);
    snprintf(t->message, sizeof t->message, "%s", talc_error_message());
    return NULL;
}

static void start(task *t)
{
    pthread_barrier_init(&t->both, NULL, 2);
    cr_assert(pthread_create(&t->thread, NULL, run_task, t) == 0);
    pthread_barrier_wait(&t->both);
}

static void finish(task *t)
{
    pthread_barrier_wait(&t->both);
    pthread_join(t->thread, NULL);
    pthread_barrier_destroy(&t->both);
    cr_assert(t->message[0] == '\0', "%s", t->message);
}

/* Of the test's stream; used on the thread's, and released. */
static void use_given(task *t)
{
    t->made = talc_retain(talc_mul_scalar(t->given, 3));
    talc_release(t->given);
}

/* Of the thread's stream altogether. */
static void make_and_use(task *t)
{
    talc_tensor *x = full(t->device, 7);
    t->memory = x->data;
    t->made = talc_retain(talc_mul_scalar(x, 3));
}

/* Of a stream that is left, for one that is not. */
static void make_and_use_inside(task *t)
{
    talc_stream *entered = talc_stream_enter(t->device, t->inner);
    gpu_stall(t->device, t->inner, LATE);
    make_and_use(t);
    talc_stream_leave(entered);
}

/* What the task released is handed out on the test's stream, where it is overwritten: after the
 * task's use, though no host waits. */
static void assert_reused_in_order(task *t)
{
    start(t);
    talc_tensor *next = full(t->device, 9);
    cr_assert(next->data == t->memory,
              "the pool did not reuse the block, so this test shows nothing");
    cr_assert(value_of(next) == 9);
    finish(t);
    cr_assert(value_of(t->made) == 21, "the memory was overwritten while it was in use: %g",
              value_of(t->made));
    cr_assert(value_of(next) == 9, "the memory was handed out before its last write: %g",
              value_of(next));
    talc_release(t->made);
}

Test(stream, memory_used_on_another_stream_is_handed_out_after_that_use)
{
    talc_device *device = queueing_device();
    void *stream = gpu_stream_new(device);
    for (int round = 0; round < 3; round++) {
        talc_scope *scope = talc_scope_enter();
        talc_tensor *x = talc_retain(full(device, 7));
        task t = { device, stream, .given = x, .memory = x->data, .body = use_given };
        talc_scope_leave(scope);
        assert_reused_in_order(&t);
        talc_scope_leave_all();
    }
    gpu_stream_free(device, stream);
}

Test(stream, memory_of_another_stream_is_handed_out_after_its_work)
{
    talc_device *device = queueing_device();
    void *stream = gpu_stream_new(device);
    for (int round = 0; round < 3; round++) {
        task t = { device, stream, .body = make_and_use };
        assert_reused_in_order(&t);
        talc_scope_leave_all();
        talc_memory_trim(device);
    }
    gpu_stream_free(device, stream);
}

Test(stream, memory_of_a_stream_that_was_left_is_handed_out_after_its_work)
{
    talc_device *device = queueing_device();
    void *outer = gpu_stream_new(device), *inner = gpu_stream_new(device);
    for (int round = 0; round < 3; round++) {
        task t = { device, outer, .inner = inner, .body = make_and_use_inside };
        assert_reused_in_order(&t);
        talc_scope_leave_all();
        talc_memory_trim(device);
    }
    gpu_stream_free(device, outer);
    gpu_stream_free(device, inner);
}

/* All pieces of a block are of one stream, so that none has to wait when they grow together. */
Test(stream, another_stream_takes_no_piece_of_a_block)
{
    talc_device *device = queueing_device();
    void *stream = gpu_stream_new(device);
    const int64_t mib = 1 << 20;
    talc_stream *entered = talc_stream_enter(device, stream);
    talc_scope *scope = talc_scope_enter();
    cr_assert_not_null(talc_empty(device, TALC_U8, TALC_DIMS(60 * mib)));
    talc_scope_leave(scope);
    scope = talc_scope_enter();
    const talc_tensor *first = talc_empty(device, TALC_U8, TALC_DIMS(24 * mib));
    const size_t reserved = talc_device_memory(device).reserved;
    talc_stream_leave(entered);
    const talc_tensor *other = talc_empty(device, TALC_U8, TALC_DIMS(16 * mib));
    cr_assert(talc_device_memory(device).reserved == reserved + (size_t)(16 * mib));
    entered = talc_stream_enter(device, stream);
    const talc_tensor *second = talc_empty(device, TALC_U8, TALC_DIMS(16 * mib));
    cr_assert(first != NULL && other != NULL && second != NULL, "%s", talc_error_message());
    cr_assert((char *)second->data == (char *)first->data + 24 * mib);
    talc_scope_leave(scope);
    talc_stream_leave(entered);
    talc_memory_trim(device);
    cr_assert(talc_device_memory(device).reserved == 0);
    gpu_stream_free(device, stream);
}

/* The stall is over only after this thread's work, which waits for nothing of the other's. */
Test(stream, two_streams_run_at_once)
{
    talc_device *device = queueing_device();
    void *stream = gpu_stream_new(device);
    /* Loads the kernels, and leaves memory of this stream for both: of the other's it would have to
     * wait. */
    talc_scope *scope = talc_scope_enter();
    talc_tensor *warm = full(device, 0);
    for (int i = 0; i < 6; i++)
        warm = talc_add_scalar(warm, 1);
    cr_assert(value_of(talc_mul_scalar(warm, 2)) == 12);
    talc_scope_leave(scope);
    task t = { device, stream, .body = make_and_use };
    start(&t);
    cr_assert(value_of(talc_add_scalar(full(device, 2), 3)) == 5);
    cr_assert(!gpu_idle(device, stream), "the other stream was waited for");
    finish(&t);
    cr_assert(value_of(t.made) == 21);
    talc_release(t.made);
    gpu_stream_free(device, stream);
}

/* Products share a handle and its workspaces; each thread's numbers come out as one thread alone
 * has them. */
static void multiply_often(task *t)
{
    const talc_tensor *a = t->given;
    float expected = 0, got;
    for (int i = 0; i < 50; i++) {
        talc_scope *scope = talc_scope_enter();
        talc_tensor *y = talc_matmul(a, a);
        got = (float)talc_item(talc_sum(talc_relu(talc_sub_scalar(y, 1)), TALC_SCALAR, false));
        expected = i == 0 ? got : expected;
        talc_scope_leave(scope);
        if (got != expected)
            talc_fail(TALC_BAD_ARGUMENT, "round %d: %.9g is not %.9g", i, (double)got,
                      (double)expected);
    }
    t->made = talc_retain(talc_full(t->device, TALC_F32, TALC_DIMS(1), expected));
}

Test(stream, products_on_several_streams_at_once_are_exact)
{
    enum { THREADS = 4 };
    talc_device *device = queueing_device();
    talc_manual_seed(3);
    talc_tensor *a = talc_randn(device, TALC_F32, TALC_DIMS(200, 200));
    const float expected = (float)talc_item(
        talc_sum(talc_relu(talc_sub_scalar(talc_matmul(a, a), 1)), TALC_SCALAR, false));
    task tasks[THREADS];
    for (int i = 0; i < THREADS; i++) {
        tasks[i] = (task){ device, gpu_stream_new(device), .given = a, .body = multiply_often };
        start(&tasks[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        finish(&tasks[i]);
        cr_assert(talc_item(tasks[i].made) == (double)expected, "thread %d", i);
        talc_release(tasks[i].made);
        gpu_stream_free(device, tasks[i].stream);
    }
}

// ---- Waiting for the device ---------------------------------------------------------------------

/* A capture of the program's own on a stream that talc knows goes on, whoever waits for the device
 * meanwhile. */
Test(stream, synchronizing_passes_over_a_stream_that_is_captured)
{
    talc_device *device = queueing_device();
    void *stream = gpu_stream_new(device);
    task t = { device, stream, .body = make_and_use };
    start(&t);
    cr_assert(talc_device_synchronize(device), "%s", talc_error_message());
    const bool captured = gpu_capture_begin(device, stream);
    cr_assert(talc_device_synchronize(device), "%s", talc_error_message());
    cr_assert(gpu_capture_end(device, stream) == captured, "the capture was ended");
    finish(&t);
    cr_assert(value_of(t.made) == 21);
    talc_release(t.made);
    gpu_stream_free(device, stream);
}

// ---- Every op -----------------------------------------------------------------------------------

/* Operands become what they are only after the stall, so work that goes to another stream finds
 * zeros and NaN. */
Test(stream, every_op_runs_on_its_threads_stream)
{
    talc_device *device = queueing_device();
    void *stream = gpu_stream_new(device);
    const op_inputs inputs = op_inputs_new(device);
    op_inputs late = { 0 };
    talc_tensor *const *from = op_inputs_list(&inputs), **to = (talc_tensor **)&late;
    for (int i = 0; i < OP_INPUTS; i++)
        to[i] = talc_empty_like(from[i]);
    int ran = 0;
    for (const op_case *op = op_cases; op->name != NULL; op++) {
        talc_scope *scope = talc_scope_enter();
        const talc_tensor *expected = op->run(&inputs); /* loads the kernels too */
        if (expected == NULL && talc_error_status() == TALC_UNSUPPORTED) {
            talc_error_clear();
            talc_scope_leave(scope);
            continue;
        }
        cr_assert(expected != NULL, "%s: %s", op->name, talc_error_message());
        for (int i = 0; i < OP_INPUTS; i++)
            talc_fill(to[i], to[i]->dtype == TALC_F32 ? NAN : 0);
        talc_device_synchronize(device);
        talc_stream *entered = talc_stream_enter(device, stream);
        gpu_stall(device, stream, LATE);
        for (int i = 0; i < OP_INPUTS; i++)
            talc_copy(to[i], from[i]);
        const talc_tensor *got = op->run(&late);
        cr_assert(got != NULL, "%s: %s", op->name, talc_error_message());
        assert_same_bits(op->name, expected, got);
        talc_stream_leave(entered);
        talc_scope_leave(scope);
        ran++;
    }
    cr_assert(ran > 0);
    gpu_stream_free(device, stream);
}

// ---- Ends ---------------------------------------------------------------------------------------

static void *enter_and_end(void *argument)
{
    task *t = argument;
    talc_stream_enter(t->device, t->stream);
    full(t->device, 1);
    return NULL;
}

Test(stream, a_threads_end_leaves_its_streams)
{
    talc_device *device = queueing_device();
    task t = { device, gpu_stream_new(device), .body = NULL };
    pthread_t thread;
    cr_assert(pthread_create(&thread, NULL, enter_and_end, &t) == 0);
    pthread_join(thread, NULL);
    cr_assert(talc_device_memory(device).live == 0);
    cr_assert(talc_streams_close(device), "%s", talc_error_message());
    gpu_stream_free(device, t.stream);
}

// ---- What modules keep --------------------------------------------------------------------------

typedef struct sharing {
    talc_device *device;
    talc_module *chain;
    talc_tensor *x;
    pthread_barrier_t folded, used;
} sharing;

/* Folds late, on a stream of its own, and stays there. */
static void *fold_elsewhere(void *pointer)
{
    sharing *with = pointer;
    void *stream = gpu_stream_new(with->device);
    talc_stream *entered = talc_stream_enter(with->device, stream);
    gpu_stall(with->device, stream, LATE);
    const bool ran = entered != NULL && talc_forward(with->chain, with->x) != NULL;
    pthread_barrier_wait(&with->folded);
    pthread_barrier_wait(&with->used);
    talc_stream_leave(entered);
    gpu_stream_free(with->device, stream);
    return ran ? with : NULL;
}

enum { OUTPUTS = 2 * 4 * 8 * 8 };

/* A program that applies a module on two streams knows nothing of weights that one pass keeps for
 * the next. Nothing here takes memory that the other stream gave back, for which it would wait. */
Test(stream, a_fold_is_waited_for_on_other_streams)
{
    sharing with = { .device = queueing_device() };
    talc_manual_seed(3);
    with.chain = TALC_SEQUENTIAL(CONV2D(.in_channels = 3, .out_channels = 4, .kernel = { 1, 1 }),
                                 BATCH_NORM2D(.channels = 4));
    talc_module_eval(with.chain);
    talc_tensor *x = talc_rand(cpu_device(), TALC_F32, TALC_DIMS(2, 3, 8, 8));
    talc_fusion_enable(false);
    float expected[OUTPUTS], got[OUTPUTS];
    cr_assert(talc_to_host(talc_forward(with.chain, x), expected, sizeof expected));
    talc_fusion_enable(true);
    with.x = talc_to(x, with.device, TALC_F32);
    cr_assert(talc_module_to(with.chain, with.device), "%s", talc_error_message());
    for (int round = 0; round < 2; round++) {
        pthread_t thread;
        void *ran;
        pthread_barrier_init(&with.folded, NULL, 2);
        pthread_barrier_init(&with.used, NULL, 2);
        talc_module_train(with.chain);
        talc_module_eval(with.chain);
        pthread_create(&thread, NULL, fold_elsewhere, &with);
        pthread_barrier_wait(&with.folded);
        for (int pass = 0; pass < 2; pass++) {
            cr_assert(talc_to_host(talc_forward(with.chain, with.x), got, sizeof got), "%s",
                      talc_error_message());
            for (int i = 0; i < OUTPUTS; i++)
                cr_assert(fabsf(got[i] - expected[i]) < 1e-5F, "element %d is %g instead of %g", i,
                          (double)got[i], (double)expected[i]);
        }
        pthread_barrier_wait(&with.used);
        pthread_join(thread, &ran);
        cr_assert_not_null(ran);
        pthread_barrier_destroy(&with.folded);
        pthread_barrier_destroy(&with.used);
    }
    talc_module_free(with.chain);
}
