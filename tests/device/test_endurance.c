/// Long runs leave a device's memory where it was.
#include "tests/support/hooks.h"

#include "tests/support/networks.h"

#include <stdlib.h>

/* TALC_TEST_PASSES: how many, where 10,000 take too long. */
static int passes(void)
{
    const char *text = getenv("TALC_TEST_PASSES");
    return text != NULL ? atoi(text) : talc_device_is_host(tested_device()) ? 100 : 10000;
}

/* `count` passes of a network, of which it takes what it has allocated; captured: replays. */
static void assert_memory_stays(talc_module *net, talc_dims dims, int count, bool captured)
{
    enum { WARM = 5 };
    talc_device *device = tested_device();
    talc_module_eval(net);
    cr_assert(talc_module_to(net, device), "%s", talc_error_message());
    talc_tensor *x = talc_rand(device, TALC_F32, dims);
    talc_graph *graph = captured ? talc_capture(net, x) : NULL;
    cr_assert(captured == (graph != NULL), "%s", talc_error_message());
    talc_memory before = { 0 };
    for (int pass = 0; pass < count + WARM; pass++) {
        talc_scope *scope = talc_scope_enter();
        talc_tensor *y = captured ? talc_graph_replay(graph, x) : talc_forward(net, x);
        cr_assert(pass % 100 != 0 || (talc_item(talc_sum(y, TALC_SCALAR, false)) != 0),
                  "pass %d: %s", pass, talc_error_message());
        talc_scope_leave(scope);
        if (pass + 1 == WARM) {
            cr_assert(talc_device_synchronize(device), "%s", talc_error_message());
            before = talc_device_memory(device);
        }
    }
    cr_assert(talc_device_synchronize(device), "%s", talc_error_message());
    const talc_memory after = talc_device_memory(device);
    cr_assert(after.live == before.live && after.reserved == before.reserved &&
                  after.peak == before.peak,
              "live %zu, %zu were; reserved %zu, %zu were", after.live, before.live, after.reserved,
              before.reserved);
    cr_assert(talc_device_is_host(device) || after.free == before.free,
              "%zu bytes are free, %zu were", after.free, before.free);
    talc_graph_free(graph);
    talc_module_free(net);
}

Test(endurance, resnet20_forward_passes_leave_the_memory_where_it_was)
{
    assert_memory_stays(resnet20_b(), TALC_DIMS(1, 3, 32, 32), passes(), false);
}

Test(endurance, a_thousand_passes_of_lenet_do_captured_or_not)
{
    for (int captured = 0; captured < 2; captured++)
        assert_memory_stays(lenet_new(), TALC_DIMS(2, 1, 28, 28), 1000, captured == 1);
}
