/// Modules on a device whose memory the host cannot touch: moving, applying, saving and loading.
#include "tests/support/fake_device.h"
#include "tests/support/hooks.h"

#include "examples/lenet.h"
#include "examples/resnet20.h"
#include "tensor/storage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    talc_device *device;
    int tensors;
} place;

static bool is_in_place(const char *path, talc_tensor *tensor, bool is_buffer, void *context)
{
    place *due = context;
    (void)is_buffer;
    due->tensors++;
    cr_assert(tensor->device == due->device, "%s is on %s", path, tensor->device->name);
    return true;
}

/* Every tensor of the module is on the device; returns how many there are. */
static int assert_on(talc_module *module, talc_device *device)
{
    place due = { device, 0 };
    cr_assert(talc_module_visit(module, is_in_place, &due));
    return due.tensors;
}

static void assert_same_bits(const char *what, const talc_tensor *a, const talc_tensor *b)
{
    static float left[4096], right[4096];
    assert_no_failure();
    talc_to_host(a, left, talc_nbytes(a));
    talc_to_host(b, right, talc_nbytes(b));
    assert_no_failure();
    cr_assert(talc_same_dims(a, b) && memcmp(left, right, talc_nbytes(a)) == 0, "%s", what);
}

Test(module_device, a_moved_network_gives_the_same_bits)
{
    talc_tensor *x = talc_rand(cpu_device(), TALC_F32, TALC_DIMS(2, 3, 32, 32));
    talc_tensor *there = talc_to(x, fake_device(), TALC_F32);
    talc_module *net = resnet20_new(RESNET20_OPTION_B);
    talc_tensor *handle = talc_module_find(net, "layer1.0.conv1.weight");
    talc_module_eval(net);
    talc_tensor *y = talc_forward(net, x);
    cr_assert(talc_module_to(net, fake_device()), "%s", talc_error_message());
    cr_assert(assert_on(net, fake_device()) == 128);
    cr_assert(talc_module_find(net, "layer1.0.conv1.weight") == handle, "handles stay");
    assert_same_bits("eval", y, talc_forward(net, there));

    talc_module_train(net);
    talc_tensor *trained = talc_forward(net, there);
    talc_tensor *mean = talc_clone(talc_module_find(net, "bn1.running_mean"));
    talc_module_free(net);
    cr_assert(trained != NULL && mean->device == fake_device());
    assert_all_freed();
}

Test(module_device, all_tensors_move_or_none)
{
    talc_module *net = lenet_new();
    /* Room for the convolutions but not for fc1. */
    fake_device_limit_memory(fake_device(), 100000);
    cr_assert(!talc_module_to(net, fake_device()));
    cr_assert(talc_error_status() == TALC_NO_MEMORY, "%s", talc_error_message());
    talc_error_clear();
    cr_assert(assert_on(net, cpu_device()) == 10);
    cr_assert(talc_device_memory(fake_device()).live == 0);
    fake_device_limit_memory(fake_device(), 0);
    cr_assert(talc_module_to(net, fake_device()));
    assert_on(net, fake_device());
    cr_assert(talc_module_to(net, cpu_device()));
    assert_on(net, cpu_device());
    talc_module_free(net);
    assert_all_freed();
}

Test(module_device, state_is_saved_from_and_loaded_to_the_device)
{
    char path[] = "/tmp/talc_device_XXXXXX";
    int file = mkstemp(path);
    close(file);
    talc_module *ours = lenet_new(), *theirs = lenet_new();
    talc_module_to(ours, fake_device());
    talc_module_to(theirs, fake_device());
    cr_assert(talc_module_save(ours, path), "%s", talc_error_message());

    float before[10], after[10];
    talc_tensor *bias = talc_module_find(theirs, "fc3.bias");
    talc_to_host(bias, before, sizeof before);
    fake_device_limit_memory(fake_device(), talc_device_memory(fake_device()).live + 100000);
    talc_memory_trim(fake_device());
    cr_assert(!talc_module_load(theirs, path, true), "fc1 finds no room");
    cr_assert(talc_error_status() == TALC_NO_MEMORY, "%s", talc_error_message());
    talc_error_clear();
    talc_to_host(bias, after, sizeof after);
    cr_assert(memcmp(before, after, sizeof before) == 0);
    fake_device_limit_memory(fake_device(), 0);

    cr_assert(talc_module_load(theirs, path, true), "%s", talc_error_message());
    assert_on(theirs, fake_device());
    talc_tensor *x = talc_to(talc_rand(cpu_device(), TALC_F32, TALC_DIMS(2, 1, 28, 28)),
                             fake_device(), TALC_F32);
    assert_same_bits("loaded", talc_forward(ours, x), talc_forward(theirs, x));
    remove(path);
    talc_module_free(ours);
    talc_module_free(theirs);
    assert_all_freed();
}

Test(module_device, an_input_on_another_device_is_an_error)
{
    talc_module *net = lenet_new();
    talc_tensor *x = talc_zeros(fake_device(), TALC_F32, TALC_DIMS(1, 1, 28, 28));
    cr_assert_null(talc_forward(net, x));
    assert_failure(TALC_BAD_DEVICE, "conv2d: x is on fake, w on cpu");
    talc_module_free(net);
    assert_all_freed();
}
