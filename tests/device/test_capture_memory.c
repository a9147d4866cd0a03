/// Memory that graphs share with other work: handed on only after who reads it, on whatever stream
/// that is.
#include "tests/support/captured.h"
#include "tests/support/faults.h"
#include "tests/support/gpu.h"
#include "tests/support/hooks.h"
#include "tests/support/op_cases.h"

#include "tensor/device.h"
#include "tensor/storage.h"

#include <pthread.h>

enum { MANY = 3000, LATE = 50 };

static talc_tensor *full(talc_device *device, double value)
{
    return talc_full(device, TALC_F32, TALC_DIMS(MANY), value);
}

static talc_tensor *extra; /* an operand of passes that is no parameter */

/* Of a thread on the device's own stream, which takes a block of `full` there and writes another
 * number to it, at once unless the block has to wait. */
static void *take_memory(void *device)
{
    talc_tensor *tensor = full(device, 77);
    void *memory = tensor == NULL ? NULL : tensor->data;
    (void)talc_item(talc_select(tensor, 0, 0)); /* waits for this thread's stream alone */
    talc_scope_leave_all();
    return memory;
}

static const void *taken; /* in that way */

static const void *memory_taken_elsewhere(talc_device *device)
{
    pthread_t thread;
    void *memory;
    cr_assert(pthread_create(&thread, NULL, take_memory, device) == 0);
    pthread_join(thread, &memory);
    return memory;
}

// ---- What a graph holds, when it is recorded anew -----------------------------------------------

typedef struct scaled {
    talc_module base;
    talc_tensor *weight;
} scaled;

static bool scaled_init(talc_module *module, const void *device)
{
    ((scaled *)module)->weight =
        talc_module_parameter(module, "weight", full((talc_device *)device, 3));
    return !talc_failed();
}

static talc_tensor *scaled_forward(talc_module *module, talc_tensor *x)
{
    return talc_add(talc_mul(x, ((scaled *)module)->weight), extra);
}

static const talc_module_class scaled_class = {
    .name = "Scaled", .size = sizeof(scaled), .init = scaled_init, .forward = scaled_forward
};

/* Takes memory just before the device frees a recording, whose replays may run until then. */
static talc_device_interface watched;
static void (*record_free)(talc_device *device, void *noted);

static void watch_record_free(talc_device *device, void *noted)
{
    taken = memory_taken_elsewhere(device);
    record_free(device, noted);
}

Test(capture_memory, what_a_graph_held_outlives_it_when_it_is_recorded_anew)
{
    talc_device *device = queueing_device();
    talc_module *module = talc_module_new(&scaled_class, device);
    talc_module_eval(module);
    void *handle = gpu_stream_new(device);
    talc_tensor *x = full(device, 2);
    extra = full(device, 1);
    talc_graph *graph = captured(module, x);
    const void *held = extra->data;
    talc_release(extra);
    extra = full(device, 10);

    const talc_device_interface *whole = device->interface;
    watched = *whole;
    record_free = whole->record_free;
    watched.record_free = watch_record_free;
    device->interface = &watched;
    talc_stream *stream = talc_stream_enter(device, handle);
    gpu_stall(device, handle, LATE);
    talc_tensor *first = talc_clone(talc_graph_replay(graph, x));
    talc_fill(((scaled *)module)->weight, 4);
    talc_tensor *second = talc_graph_replay(graph, x);
    device->interface = whole;
    assert_same_bits("of before", first, full(device, 2 * 3 + 1));
    assert_same_bits("recorded anew", second, full(device, 2 * 4 + 10));
    cr_assert(taken != NULL && taken != held, "handed on while a replay may read it");
    talc_stream_leave(stream);
    talc_graph_free(graph);
    talc_module_free(module);
    gpu_stream_free(device, handle);
}

// ---- What is left of a graph that is freed ------------------------------------------------------

static talc_tensor *adds_itself(talc_tensor *x)
{
    return talc_add(talc_relu(x), x);
}

/* A view of the output lives on, and is released while the stream of the replay reads it. */
Test(capture_memory, a_graphs_memory_is_handed_on_after_those_that_read_it)
{
    talc_device *device = queueing_device();
    talc_module *module = module_of(adds_itself);
    void *handle = gpu_stream_new(device);
    talc_tensor *x = full(device, 2);
    talc_graph *graph = captured(module, x);
    talc_device_synchronize(device);
    talc_stream *stream = talc_stream_enter(device, handle);
    talc_scope *scope = talc_scope_enter();
    talc_tensor *view = talc_retain(talc_view(talc_graph_replay(graph, x), TALC_DIMS(MANY)));
    talc_scope_leave(scope);
    const void *memory = view->data;
    talc_graph_free(graph);
    gpu_stall(device, handle, LATE);
    talc_tensor *product = talc_mul_scalar(view, 10);
    talc_release(view);
    taken = memory_taken_elsewhere(device);
    cr_assert(taken == memory, "the pool handed on another block, so this test shows nothing");
    assert_same_bits("the product", product, full(device, 40));
    talc_stream_leave(stream);
    talc_module_free(module);
    gpu_stream_free(device, handle);
}

// ---- What a pass writes -------------------------------------------------------------------------

static talc_tensor *zeros; /* that passes only read */

static talc_tensor *copies_to_extra(talc_tensor *x)
{
    talc_copy(talc_slice(extra, 0, 0, MANY / 2, 1), talc_slice(x, 0, 0, MANY / 2, 1));
    talc_copy(talc_slice(extra, 0, MANY / 2, MANY, 1), talc_slice(x, 0, MANY / 2, MANY, 1));
    return talc_sub(zeros, x);
}

static talc_tensor *fills_extra(talc_tensor *x)
{
    talc_fill(extra, 5);
    return talc_sub(zeros, x);
}

static const struct {
    forward_function *forward;
    double expected; /* in `extra`, for x = 3 */
} writers[] = { { copies_to_extra, 3 }, { fills_extra, 5 } };

Test(capture_memory, each_replay_writes_what_the_pass_writes_and_counts_as_a_write)
{
    talc_device *device = tested_device();
    zeros = full(device, 0);
    for (size_t i = 0; i < sizeof writers / sizeof *writers; i++) {
        owned_module *module = module_of(writers[i].forward);
        extra = full(device, 0);
        owned_graph *graph = captured(module, full(device, 2));
        for (int replay = 0; replay < 3; replay++) {
            talc_fill(extra, 0);
            const uint64_t version = talc_version(extra), read = talc_version(zeros);
            assert_same_bits("y", talc_graph_replay(graph, full(device, 3)), full(device, -3));
            cr_assert(talc_version(extra) > version, "a replay's write is not counted");
            cr_assert(talc_version(zeros) == read, "a tensor that is read counts as written");
            assert_same_bits("written", extra, full(device, writers[i].expected));
        }
    }
}

Test(capture_memory, a_graph_holds_what_its_replays_write)
{
    talc_device *device = queueing_device();
    zeros = full(device, 0);
    for (size_t i = 0; i < sizeof writers / sizeof *writers; i++) {
        owned_module *module = module_of(writers[i].forward);
        talc_tensor *x = full(device, 2);
        extra = full(device, 0);
        owned_graph *graph = captured(module, x);
        talc_release(extra);
        extra = NULL;
        talc_tensor *other = full(device, 77);
        assert_same_bits("y", talc_graph_replay(graph, x), full(device, -2));
        assert_same_bits("another tensor", other, full(device, 77));
    }
}

static talc_tensor *mean, *var, *batches;

/* Without a module's running statistics, in which it refuses a capture. */
static talc_tensor *tracks(talc_tensor *x)
{
    talc_tensor *pixels = talc_reshape(x, TALC_DIMS(1, 1, 1, MANY));
    return talc_batch_norm2d(pixels, NULL, NULL, mean, var,
                             &(talc_batch_norm2d_options){ .training = true,
                                                           .momentum = 0.5,
                                                           .num_batches_tracked = batches });
}

/* Of a batch of one number x: mean' = (mean + x) / 2, var' = var / 2. */
Test(capture_memory, running_statistics_that_a_pass_moves_move_with_each_replay)
{
    talc_device *device = queueing_device();
    owned_module *module = module_of(tracks);
    talc_tensor *x = full(device, 2);
    mean = talc_zeros(device, TALC_F32, TALC_DIMS(1));
    var = talc_ones(device, TALC_F32, TALC_DIMS(1));
    batches = talc_zeros(device, TALC_I64, TALC_SCALAR);
    owned_graph *graph = captured(module, x);
    talc_fill(mean, 0);
    talc_fill(var, 1);
    talc_fill(batches, 40);
    const uint64_t mean_version = talc_version(mean), var_version = talc_version(var),
                   batches_version = talc_version(batches);
    talc_graph_replay(graph, x);
    talc_graph_replay(graph, full(device, 7));
    cr_assert(talc_version(mean) == mean_version + 2 && talc_version(var) == var_version + 2);
    cr_assert(talc_item(mean) == (0 + 1 + 7) / 2.0, "%g", talc_item(mean));
    cr_assert(talc_item(var) == 0.25, "%g", talc_item(var));
    cr_assert(talc_version(batches) == batches_version + 2 && talc_item_i64(batches) == 42);
}

static talc_module *other_chain;

static talc_tensor *writes_a_weight(talc_tensor *x)
{
    talc_tensor *weight = talc_module_find(other_chain, "0.weight");
    talc_copy(weight, talc_reshape(talc_slice(x, 0, 0, 1, 1), TALC_DIMS(1, 1, 1, 1)));
    return talc_neg(x);
}

/* Conv2d and BatchNorm2d as one op, by a weight that is worked out of both: y = w x, as the norm is
 * new and its eps 0. */
Test(capture_memory, what_is_worked_out_of_a_weight_is_made_anew_after_a_replay_wrote_it)
{
    talc_device *device = tested_device();
    const talc_conv2d_layer conv = {
        .in_channels = 1, .out_channels = 1, .kernel = { 1, 1 }, .no_bias = true
    };
    const talc_batch_norm2d_layer norm = { .channels = 1, .eps = TALC_ZERO };
    other_chain = TALC_SEQUENTIAL(talc_nn_conv2d(&conv), talc_nn_batch_norm2d(&norm));
    talc_module_to(other_chain, device);
    talc_module_eval(other_chain);
    talc_module *module = module_of(writes_a_weight);
    talc_tensor *image = talc_full(device, TALC_F32, TALC_DIMS(1, 1, 4, 4), 10);
    talc_graph *graph = captured(module, full(device, 2));
    for (int w = 3; w < 6; w++) {
        talc_graph_replay(graph, full(device, w));
        assert_same_bits("by the new weight", talc_forward(other_chain, image),
                         talc_full(device, TALC_F32, TALC_DIMS(1, 1, 4, 4), 10 * w));
    }
    talc_graph_free(graph);
    talc_module_free(module);
    talc_module_free(other_chain);
}

// ---- Passes that go on from what they wrote -----------------------------------------------------

typedef struct counting {
    talc_module base;
    talc_tensor *step, *count; /* what is added each time, and where */
} counting;

static bool pass_fails;

static bool counting_init(talc_module *module, const void *device)
{
    counting *self = (counting *)module;
    self->step = talc_module_parameter(module, "step", full((talc_device *)device, 1));
    self->count = talc_module_buffer(module, "count", full((talc_device *)device, 0));
    return !talc_failed();
}

static talc_tensor *counting_forward(talc_module *module, talc_tensor *x)
{
    counting *self = (counting *)module;
    talc_copy(self->count, talc_add(self->count, self->step));
    talc_copy(x, talc_mul_scalar(x, 2));
    if (pass_fails)
        talc_rand(x->device, TALC_F32, TALC_DIMS(1));
    return talc_add(x, self->count);
}

static const talc_module_class counting_class = {
    .name = "Counting", .size = sizeof(counting), .init = counting_init, .forward = counting_forward
};

/* A pass is run before it is recorded anew, of which nothing may show: y = 2 x + count, and the
 * count is one step on. */
Test(capture_memory, a_replay_that_records_anew_runs_the_pass_once)
{
    talc_device *device = tested_device();
    owned_module *module = talc_module_new(&counting_class, device);
    talc_module_eval(module);
    counting *self = (counting *)module;
    owned_graph *graph = captured(module, full(device, 2));
    for (int round = 0; round < 2; round++) {
        talc_fill(self->count, 100 * round);
        for (int i = 1; i <= 3; i++)
            assert_same_bits("from a count that was set", talc_graph_replay(graph, full(device, 7)),
                             full(device, 14 + 100 * round + i));
    }
    talc_fill(self->step, 10);
    assert_same_bits("with another step", talc_graph_replay(graph, full(device, 8)),
                     full(device, 16 + 103 + 10));
    assert_same_bits("the count", self->count, full(device, 113));
}

Test(capture_memory, a_pass_that_cannot_be_recorded_anew_changes_nothing)
{
    talc_device *device = queueing_device();
    owned_module *module = talc_module_new(&counting_class, device);
    talc_module_eval(module);
    counting *self = (counting *)module;
    owned_graph *graph = captured(module, full(device, 2));
    talc_fill(self->count, 100);
    pass_fails = true;
    cr_assert_null(talc_graph_replay(graph, full(device, 7)));
    cr_assert(talc_error_status() == TALC_UNSUPPORTED, "%s", talc_error_message());
    talc_error_clear();
    assert_same_bits("the count", self->count, full(device, 100));
    pass_fails = false;
    assert_same_bits("y", talc_graph_replay(graph, full(device, 7)), full(device, 115));
}

static void *begin_counting(talc_device *device)
{
    talc_module *module = talc_module_new(&counting_class, device);
    talc_module_eval(module);
    return module;
}

static void run_counting(fault_run *run)
{
    counting *self = run->fixture;
    talc_tensor *x = full(run->device, 7);
    owned_graph *graph = x == NULL ? NULL : talc_capture(&self->base, x);
    if (graph != NULL && talc_fill(self->count, 100)) {
        talc_tensor *y = talc_graph_replay(graph, x);
        if (y != NULL) {
            fault_keep(run, y);
            fault_keep(run, self->count);
        }
    }
}

static void end_counting(void *module)
{
    talc_module_free(module);
}

TEST_SURVIVES(capture_memory, every_allocation_may_fail, 40, "a replay that records anew",
              begin_counting, run_counting, NULL, end_counting)

// ---- Threads that take turns --------------------------------------------------------------------

typedef struct turn {
    talc_device *device;
    void *handle; /* the thread's stream, late */
    talc_module *module;
    talc_graph *graph; /* NULL: to be captured */
    talc_tensor *kept; /* of the output, retained */
    pthread_barrier_t both;
} turn;

/* Captures, or replays on x = 1, and stays in the stream for the other's turn. */
static void *take_turn(void *argument)
{
    turn *t = argument;
    talc_stream *stream = talc_stream_enter(t->device, t->handle);
    talc_tensor *x = full(t->device, 1);
    if (t->graph == NULL) {
        gpu_stall(t->device, t->handle, LATE);
        t->graph = talc_capture(t->module, x);
    } else {
        talc_copy(talc_graph_input(t->graph), x);
        gpu_stall(t->device, t->handle, LATE);
        t->kept = talc_retain(talc_clone(talc_graph_replay(t->graph, talc_graph_input(t->graph))));
    }
    pthread_barrier_wait(&t->both);
    pthread_barrier_wait(&t->both);
    talc_device_synchronize(t->device);
    talc_stream_leave(stream);
    talc_scope_leave_all();
    return NULL;
}

/* The other's, in the caller's stream. */
static void take_turns(turn *t)
{
    pthread_t thread;
    pthread_barrier_init(&t->both, NULL, 2);
    cr_assert(pthread_create(&thread, NULL, take_turn, t) == 0);
    pthread_barrier_wait(&t->both);
    talc_tensor *y = talc_graph_replay(t->graph, full(t->device, 2));
    assert_same_bits("the second turn", y, full(t->device, 4));
    pthread_barrier_wait(&t->both);
    pthread_join(thread, NULL);
    pthread_barrier_destroy(&t->both);
    assert_same_bits("the output, by the last replay", y, full(t->device, 4));
}

Test(capture_memory, threads_take_turns_in_streams_of_their_own)
{
    talc_device *device = queueing_device();
    talc_module *module = module_of(adds_itself);
    void *handle = gpu_stream_new(device);
    turn t = { .device = device, .handle = gpu_stream_new(device), .module = module };
    talc_stream *stream = talc_stream_enter(device, handle);
    take_turns(&t);
    talc_graph_free(t.graph);
    t.graph = captured(module, full(device, 5));
    talc_device_synchronize(device); /* the thread writes to the input itself */
    take_turns(&t);
    assert_same_bits("the first turn", t.kept, full(device, 2));
    talc_release(t.kept);
    talc_stream_leave(stream);
    talc_graph_free(t.graph);
    talc_module_free(module);
    gpu_stream_free(device, handle);
    gpu_stream_free(device, t.handle);
}
