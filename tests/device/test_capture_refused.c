/// What a forward pass does that cannot be repeated: capturing it fails by name, and leaves the device as it was.
#include "tests/support/captured.h"
#include "tests/support/fake_device.h"
#include "tests/support/files.h"
#include "tests/support/hooks.h"
#include "tests/support/op_cases.h"

#include "tensor/storage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static talc_graph *other_graph;
static talc_module *other_module;

static talc_tensor *draws(talc_module *module, talc_tensor *x)
{
    (void)module;
    return talc_add(x, talc_rand(x->device, x->dtype, talc_dims_of(x)));
}

static talc_tensor *fills_randomly(talc_module *module, talc_tensor *x)
{
    (void)module;
    talc_tensor *y = talc_clone(x);
    talc_fill_normal(y, 0, 1);
    return y;
}

static talc_tensor *reads_an_item(talc_module *module, talc_tensor *x)
{
    (void)module;
    return talc_mul_scalar(x, talc_item(talc_sum(x, TALC_SCALAR, false)));
}

static talc_tensor *reads_all(talc_module *module, talc_tensor *x)
{
    (void)module;
    float elements[6];
    talc_to_host(x, elements, sizeof elements);
    return talc_relu(x);
}

static talc_tensor *prints(talc_module *module, talc_tensor *x)
{
    (void)module;
    talc_print(stdout, x);
    return talc_relu(x);
}

static talc_tensor *looks_at(talc_module *module, talc_tensor *x)
{
    (void)module;
    return talc_data(x, TALC_F32) == NULL ? NULL : talc_relu(x);
}

static talc_tensor *waits(talc_module *module, talc_tensor *x)
{
    (void)module;
    talc_device_synchronize(x->device);
    return talc_relu(x);
}

static talc_tensor *uploads(talc_module *module, talc_tensor *x)
{
    (void)module;
    const float elements[6] = { 1, 2, 3, 4, 5, 6 };
    return talc_add(x, talc_from_host(x->device, TALC_F32, talc_dims_of(x), elements));
}

static talc_tensor *moves(talc_module *module, talc_tensor *x)
{
    (void)module;
    talc_device *other = x->device == cpu_device() ? fake_device() : cpu_device();
    return talc_to(x, other, TALC_F32);
}

static talc_tensor *page_locked; /* of the device under test */

static talc_tensor *copies_from_page_locked(talc_module *module, talc_tensor *x)
{
    (void)module;
    talc_tensor *y = talc_empty_like(x);
    talc_copy(y, page_locked);
    return talc_add(x, y);
}

static talc_tensor *copies_to_page_locked(talc_module *module, talc_tensor *x)
{
    (void)module;
    talc_copy(page_locked, x);
    return talc_relu(x);
}

static talc_tensor *times(talc_module *module, talc_tensor *x)
{
    (void)module;
    talc_timer *timer = talc_timer_start(x->device);
    talc_tensor *y = talc_relu(x);
    talc_timer_stop(timer);
    return y;
}

static talc_timer *running; /* since before the recording */

static talc_tensor *ends_a_timer(talc_module *module, talc_tensor *x)
{
    (void)module;
    talc_timer_stop(running);
    running = NULL;
    return talc_relu(x);
}

static talc_tensor *saves(talc_module *module, talc_tensor *x)
{
    (void)module;
    talc_npy_save(file_path("capture.npy"), x);
    return talc_relu(x);
}

static talc_tensor *changes_streams(talc_module *module, talc_tensor *x)
{
    (void)module;
    talc_stream_leave(talc_stream_enter(x->device, NULL));
    return talc_relu(x);
}

static talc_tensor *captures(talc_module *module, talc_tensor *x)
{
    (void)module;
    talc_graph_free(talc_capture(other_module, x));
    return talc_relu(x);
}

static talc_tensor *replays(talc_module *module, talc_tensor *x)
{
    (void)module;
    return talc_graph_replay(other_graph, x);
}

Test(capture_refused, what_cannot_be_repeated_is_refused_by_name)
{
    static const struct {
        forward_function *forward;
        const char *due;
    } cases[] = {
        { draws, "rand: a graph of %s is being recorded, which cannot draw random numbers" },
        { fills_randomly,
          "fill_normal: a graph of %s is being recorded, which cannot draw random numbers" },
        { reads_an_item, "item: a graph of %s is being recorded, which cannot read elements back" },
        { reads_all, "to_host: a graph of %s is being recorded, which cannot read elements back" },
        { prints, "print: a graph of %s is being recorded, which cannot read elements back" },
        { looks_at,
          "data: a graph of %s is being recorded, which cannot show its elements to the host" },
        { waits,
          "device_synchronize: a graph of %s is being recorded, which cannot wait for the device" },
        { uploads,
          "from_host: a graph of %s is being recorded, which cannot read the host's memory" },
        { moves, "to: a graph of %s is being recorded, which cannot copy to another device" },
        { times, "timer_start: a graph of %s is being recorded, which cannot be timed" },
        { ends_a_timer, "timer_stop: a graph of %s is being recorded, which cannot be timed" },
        { saves, "npy_save: a graph of %s is being recorded, which cannot write a file" },
        { changes_streams,
          "stream_enter: a graph of %s is being recorded, which cannot change streams" },
        { captures, "capture: a graph of %s is being recorded, which cannot hold another graph" },
        { replays,
          "graph_replay: a graph of %s is being recorded, which cannot hold another graph" },
    };
    talc_device *device = tested_device();
    talc_manual_seed(3);
    talc_tensor *x = talc_rand(device, TALC_F32, TALC_DIMS(2, 3));
    talc_tensor *due_y = talc_relu(talc_neg(x));
    other_module = talc_nn_relu();
    talc_module_eval(other_module);
    other_graph = captured(other_module, x);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        talc_module_class kind;
        talc_module *module = module_of(&kind, cases[i].forward);
        char due[256];
        running = cases[i].forward == ends_a_timer ? talc_timer_start(device) : NULL;
        snprintf(due, sizeof due, cases[i].due, talc_device_name(device));
        cr_assert_null(talc_capture(module, x), "%s", due);
        assert_failure(TALC_UNSUPPORTED, due);
        assert_same_bits("the device is usable", talc_relu(talc_neg(x)), due_y);
        assert_same_bits("so is a graph of before", talc_graph_replay(other_graph, x),
                         talc_relu(x));
        talc_module_free(module);
    }
    talc_graph_free(other_graph);
    talc_module_free(other_module);
    assert_all_freed();
}

/* On the CPU page-locked memory is its own, so that copying it is an op like others. */
Test(capture_refused, copies_to_and_from_page_locked_memory_are_refused_too)
{
    static const struct {
        forward_function *forward;
        const char *due;
    } cases[] = {
        { copies_from_page_locked,
          "copy: a graph of %s is being recorded, which cannot copy from another device" },
        { copies_to_page_locked,
          "copy: a graph of %s is being recorded, which cannot copy to another device" },
    };
    talc_device *device = tested_device();
    device = talc_device_is_host(device) ? fake_device() : device;
    talc_tensor *x = talc_full(device, TALC_F32, TALC_DIMS(2, 3), -2);
    page_locked = talc_pinned(device, TALC_F32, TALC_DIMS(2, 3));
    cr_assert(talc_fill(page_locked, 3));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        talc_module_class kind;
        talc_module *module = module_of(&kind, cases[i].forward);
        char due[256];
        snprintf(due, sizeof due, cases[i].due, talc_device_name(device));
        cr_assert_null(talc_capture(module, x), "%s", due);
        assert_failure(TALC_UNSUPPORTED, due);
        assert_same_bits("the device is usable", talc_relu(talc_neg(x)),
                         talc_full(device, TALC_F32, TALC_DIMS(2, 3), 2));
        talc_module_free(module);
    }
    talc_scope_leave_all();
    if (device == fake_device())
        assert_fake_devices_freed();
    assert_all_freed();
}

// ---- Work on another device, which no replay would do ---------------------------------------------------------

static talc_tensor *elsewhere; /* on another device than the graph */

static talc_tensor *computes_elsewhere(talc_module *module, talc_tensor *x)
{
    (void)module;
    talc_add(elsewhere, elsewhere);
    return talc_relu(x);
}

static talc_tensor *makes_elsewhere(talc_module *module, talc_tensor *x)
{
    (void)module;
    talc_zeros(elsewhere->device, TALC_F32, TALC_DIMS(2));
    return talc_relu(x);
}

static talc_tensor *fills_elsewhere(talc_module *module, talc_tensor *x)
{
    (void)module;
    talc_fill(elsewhere, 5);
    return talc_relu(x);
}

static talc_tensor *draws_elsewhere(talc_module *module, talc_tensor *x)
{
    (void)module;
    talc_fill_normal(elsewhere, 0, 1);
    return talc_relu(x);
}

static talc_tensor *copies_elsewhere(talc_module *module, talc_tensor *x)
{
    (void)module;
    talc_copy(talc_select(elsewhere, 0, 0), talc_select(elsewhere, 0, 1));
    return talc_relu(x);
}

static talc_tensor *captures_elsewhere(talc_module *module, talc_tensor *x)
{
    (void)module;
    talc_graph_free(talc_capture(other_module, elsewhere));
    return talc_relu(x);
}

static talc_tensor *replays_elsewhere(talc_module *module, talc_tensor *x)
{
    (void)module;
    talc_graph_replay(other_graph, talc_graph_input(other_graph));
    return talc_relu(x);
}

Test(capture_refused, work_on_another_device_is_refused)
{
    static const struct {
        forward_function *forward;
        const char *who;
    } cases[] = {
        { computes_elsewhere, "add" },         { makes_elsewhere, "zeros" },
        { fills_elsewhere, "fill" },           { draws_elsewhere, "fill_normal" },
        { copies_elsewhere, "copy" },          { captures_elsewhere, "capture" },
        { replays_elsewhere, "graph_replay" },
    };
    talc_device *device = tested_device();
    talc_device *other = device == cpu_device() ? fake_device() : cpu_device();
    talc_tensor *x = talc_full(device, TALC_F32, TALC_DIMS(2, 3), -2);
    elsewhere = talc_full(other, TALC_F32, TALC_DIMS(2, 3), 3);
    other_module = talc_nn_relu();
    talc_module_eval(other_module);
    other_graph = captured(other_module, elsewhere);
    const uint64_t version = talc_version(elsewhere);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        talc_module_class kind;
        talc_module *module = module_of(&kind, cases[i].forward);
        char due[256];
        snprintf(due, sizeof due, "%s: a graph of %s is being recorded, which cannot work on %s",
                 cases[i].who, talc_device_name(device), talc_device_name(other));
        cr_assert_null(talc_capture(module, x), "%s", due);
        assert_failure(TALC_UNSUPPORTED, due);
        cr_assert(talc_version(elsewhere) == version, "%s", due);
        talc_module_free(module);
    }
    talc_graph_free(other_graph);
    talc_module_free(other_module);
    talc_scope_leave_all();
    if (device == fake_device() || other == fake_device())
        assert_fake_devices_freed();
    assert_all_freed();
}
