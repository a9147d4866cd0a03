/// Memory that graphs share with other work: handed on only after who reads it, on whatever stream that is.
#include "tests/support/captured.h"
#include "tests/support/gpu.h"
#include "tests/support/hooks.h"
#include "tests/support/op_cases.h"

#include "tensor/device.h"
#include "tensor/storage.h"

#include <pthread.h>
#include <string.h>

enum { MANY = 3000, LATE = 50 };

static talc_tensor *full(talc_device *device, double value)
{
    return talc_full(device, TALC_F32, TALC_DIMS(MANY), value);
}

static talc_tensor *extra; /* an operand of passes that is no parameter */

/* Of a thread on the device's own stream, which takes a block of `full` there and writes another number to it, at once unless
 * the block has to wait. */
static void *take_memory(void *device)
{
    talc_tensor *tensor = full(device, 77);
    void *memory = tensor == NULL ? NULL : tensor->data;
    talc_device_synchronize(device);
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

// ---- What a graph holds, when it is recorded anew -------------------------------------------------------------

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
    assert_device_freed(device);
}

// ---- What is left of a graph that is freed --------------------------------------------------------------------

static talc_tensor *adds_itself(talc_module *module, talc_tensor *x)
{
    (void)module;
    return talc_add(talc_relu(x), x);
}

/* A view of the output lives on, and is released while the stream of the replay reads it. */
Test(capture_memory, a_graphs_memory_is_handed_on_after_those_that_read_it)
{
    talc_device *device = queueing_device();
    talc_module_class kind;
    talc_module *module = module_of(&kind, adds_itself);
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
    assert_device_freed(device);
}
