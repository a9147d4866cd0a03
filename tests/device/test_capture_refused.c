/// What a forward pass does that cannot be repeated: capturing it fails by name, and leaves the
/// device as it was.
#include "tests/support/captured.h"
#include "tests/support/fake_device.h"
#include "tests/support/files.h"
#include "tests/support/gpu.h"
#include "tests/support/hooks.h"
#include "tests/support/op_cases.h"

#include <stdio.h>

static talc_graph *other_graph;
static talc_module *other_module;

static talc_tensor *page_locked; /* of the device under test */
static talc_tensor *elsewhere;   /* on another device than the graph */
static talc_timer *running;      /* since before the recording */

/* A forward pass that does `work` on its way. */
#define PASS(name, work)                                                                           \
    static talc_tensor *name(talc_tensor *x)                                                       \
    {                                                                                              \
        work;                                                                                      \
        return talc_relu(x);                                                                       \
    }

// clang-format off
PASS(draws, talc_rand(x->device, x->dtype, talc_dims_of(x)))
PASS(fills_randomly, talc_fill_normal(talc_clone(x), 0, 1))
PASS(reads_an_item, talc_item(talc_sum(x, TALC_SCALAR, false)))
PASS(reads_all, float elements[6]; talc_to_host(x, elements, sizeof elements))
PASS(prints, talc_print(stdout, x))
PASS(looks_at, if (talc_data(x, TALC_F32) == NULL) return NULL)
PASS(waits, talc_device_synchronize(x->device))
PASS(uploads, const float elements[6] = { 0 }; talc_from_host(x->device, TALC_F32, talc_dims_of(x), elements))
PASS(moves, talc_to(x, x->device == cpu_device() ? fake_device() : cpu_device(), TALC_F32))
PASS(times, talc_timer_stop(talc_timer_start(x->device)))
PASS(ends_a_timer, talc_timer_stop(running); running = NULL)
PASS(saves, talc_npy_save(file_path("capture.npy"), x))
PASS(changes_streams, talc_stream_leave(talc_stream_enter(x->device, NULL)))
PASS(captures, talc_graph_free(talc_capture(other_module, x)))
PASS(replays, talc_graph_replay(other_graph, x))
PASS(copies_from_page_locked, talc_copy(talc_empty_like(x), page_locked))
PASS(copies_to_page_locked, talc_copy(page_locked, x))
PASS(computes_elsewhere, talc_add(elsewhere, elsewhere))
PASS(makes_elsewhere, talc_zeros(elsewhere->device, TALC_F32, TALC_DIMS(2)))
PASS(fills_elsewhere, talc_fill(elsewhere, 5))
PASS(draws_elsewhere, talc_fill_normal(elsewhere, 0, 1))
PASS(copies_elsewhere, talc_copy(talc_select(elsewhere, 0, 0), talc_select(elsewhere, 0, 1)))
PASS(captures_elsewhere, talc_graph_free(talc_capture(other_module, elsewhere)))
PASS(replays_elsewhere, talc_graph_replay(other_graph, talc_graph_input(other_graph)))
// clang-format on

/* Capturing it on x = -2 fails with "WHO: cannot WHAT while a graph of DEVICE is being recorded";
 * the device goes on. */
static void assert_refused(talc_device *device, forward_function *forward, const char *who,
                           const char *what)
{
    owned_module *module = module_of(forward);
    talc_tensor *x = talc_full(device, TALC_F32, TALC_DIMS(2, 3), -2);
    char expected[256];
    snprintf(expected, sizeof expected, "%s: cannot %s while a graph of %s is being recorded", who,
             what, talc_device_name(device));
    cr_assert_null(talc_capture(module, x), "%s", expected);
    assert_failure(TALC_UNSUPPORTED, expected);
    assert_same_bits("the device is usable", talc_relu(talc_neg(x)),
                     talc_full(device, TALC_F32, TALC_DIMS(2, 3), 2));
}

static void capture_other(const talc_tensor *example)
{
    other_module = talc_nn_relu();
    talc_module_eval(other_module);
    other_graph = captured(other_module, example);
}

static void free_other(void)
{
    talc_graph_free(other_graph);
    talc_module_free(other_module);
}

Test(capture_refused, what_cannot_be_repeated_is_refused_by_name)
{
    static const struct {
        forward_function *forward;
        const char *who, *what;
    } cases[] = {
        { draws, "rand", "draw random numbers" },
        { fills_randomly, "fill_normal", "draw random numbers" },
        { reads_an_item, "item", "read elements back" },
        { reads_all, "to_host", "read elements back" },
        { prints, "print", "read elements back" },
        { looks_at, "data", "show its elements to the host" },
        { waits, "device_synchronize", "wait for the device" },
        { uploads, "from_host", "read the host's memory" },
        { moves, "to", "copy to another device" },
        { times, "timer_start", "be timed" },
        { ends_a_timer, "timer_stop", "be timed" },
        { saves, "npy_save", "write a file" },
        { changes_streams, "stream_enter", "change streams" },
        { captures, "capture", "hold another graph" },
        { replays, "graph_replay", "hold another graph" },
    };
    talc_device *device = tested_device();
    talc_tensor *x = talc_full(device, TALC_F32, TALC_DIMS(2, 3), 3);
    capture_other(x);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        running = cases[i].forward == ends_a_timer ? talc_timer_start(device) : NULL;
        assert_refused(device, cases[i].forward, cases[i].who, cases[i].what);
        assert_same_bits("a graph of before", talc_graph_replay(other_graph, x), x);
    }
    free_other();
}

/* On the CPU page-locked memory is its own, so that copying it is an op like others. */
Test(capture_refused, copies_to_and_from_page_locked_memory_are_refused_too)
{
    talc_device *device = queueing_device();
    page_locked = talc_pinned(device, TALC_F32, TALC_DIMS(2, 3));
    cr_assert(talc_fill(page_locked, 3));
    assert_refused(device, copies_from_page_locked, "copy", "copy from another device");
    assert_refused(device, copies_to_page_locked, "copy", "copy to another device");
}

/* Which no replay would do. */
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
    char what[64];
    snprintf(what, sizeof what, "work on %s", talc_device_name(other));
    elsewhere = talc_full(other, TALC_F32, TALC_DIMS(2, 3), 3);
    capture_other(elsewhere);
    const uint64_t version = talc_version(elsewhere);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_refused(device, cases[i].forward, cases[i].who, what);
        cr_assert(talc_version(elsewhere) == version, "%s", cases[i].who);
    }
    free_other();
}
