/// The life of a device: closing and opening it, its counts, running out of its memory.
#include "tests/support/fake_device.h"
#include "tests/support/gpu.h"
#include "tests/support/hooks.h"

#include "tensor/storage.h"

#include <stdio.h>
#include <string.h>

static const size_t MIB = (size_t)1 << 20;

// ---- Closing ------------------------------------------------------------------------------------

Test(device, a_device_with_live_tensors_is_not_closed)
{
    talc_device *device = tested_device();
    talc_tensor *x = talc_ones(device, TALC_F32, TALC_DIMS(100));
    cr_assert(!talc_device_close(device));
    assert_failure_with(TALC_BAD_ARGUMENT, "device_close: tensors on %s still hold 512 bytes",
                        talc_device_name(device));
    cr_assert(talc_item(talc_sum(x, TALC_SCALAR, false)) == 100);
    talc_fail(TALC_IO_ERROR, "stands");
    cr_assert(!talc_device_close(device),
              "closing changes something, so it waits for a clean slate");
    assert_failure(TALC_IO_ERROR, "stands");
}

Test(device, a_closed_device_refuses_everything_until_it_is_opened_again)
{
    talc_device *device = tested_device();
    talc_release(talc_ones(device, TALC_F32, TALC_DIMS(100)));
    cr_assert(talc_device_memory(device).reserved > 0);
    cr_assert(talc_device_close(device), "%s", talc_error_message());
    cr_assert(talc_device_close(device) && talc_device_close(NULL));
    cr_assert(talc_device_memory(device).reserved == 0 && talc_memory_trim(device) == 0);
    talc_memory_reset_peak(device);
    cr_assert_null(talc_empty(device, TALC_F32, TALC_DIMS(3)));
    assert_failure_with(TALC_BAD_DEVICE, "empty: %s is closed", talc_device_name(device));
    cr_assert(!talc_device_synchronize(device));
    assert_failure_with(TALC_BAD_DEVICE, "device_synchronize: %s is closed",
                        talc_device_name(device));

    int handle;
    float number;
    cr_assert_null(talc_timer_start(device));
    assert_failure_with(TALC_BAD_DEVICE, "timer_start: %s is closed", talc_device_name(device));
    cr_assert_null(talc_pinned(device, TALC_F32, TALC_DIMS(3)));
    assert_failure_with(TALC_BAD_DEVICE, "pinned: %s is closed", talc_device_name(device));
    cr_assert_null(talc_wrap(device, TALC_F32, TALC_DIMS(1), &number, NULL, NULL));
    assert_failure_with(TALC_BAD_DEVICE, "wrap: %s is closed", talc_device_name(device));
    for (int own = 0; own < 2; own++) {
        cr_assert_null(talc_stream_enter(device, own ? NULL : &handle));
        assert_failure_with(TALC_BAD_DEVICE, "stream_enter: %s is closed",
                            talc_device_name(device));
        cr_assert_null(device->streams);
    }
    const size_t limit = talc_workspace_limit(device);
    cr_assert(!talc_workspace_set_limit(device, 1));
    assert_failure_with(TALC_BAD_DEVICE, "workspace_set_limit: %s is closed",
                        talc_device_name(device));
    cr_assert(talc_workspace_limit(device) == limit && talc_stream_current(device) == NULL);

    cr_assert(tested_device() == device);
    cr_assert(talc_item(talc_sum(talc_ones(device, TALC_F32, TALC_DIMS(100)), TALC_SCALAR,
                                 false)) == 100);
}

Test(device, the_default_that_there_is_no_memory_to_open_is_a_failure)
{
    cr_assert(talc_device_close(tested_device()), "%s", talc_error_message());
    cr_assert(talc_device_close(talc_device_host()), "%s", talc_error_message());
    allow_allocations(0);
    const talc_device *device = talc_device_default();
    cr_assert(allow_all_allocations() && device == NULL);
    cr_assert(talc_error_status() == TALC_NO_MEMORY, "%s", talc_error_message());
    talc_error_clear();
    cr_assert_not_null(talc_device_default());
}

/* Memory, streams, a matrix product's handle and workspace. */
static void use(talc_device *device)
{
    owned_scope *scope = talc_scope_enter();
    talc_tensor *a = talc_full(device, TALC_F32, TALC_DIMS(64, 64), 2);
    talc_tensor *x = talc_full(device, TALC_F32, TALC_DIMS(2, 3, 40, 40), 1);
    talc_tensor *w = talc_full(device, TALC_F32, TALC_DIMS(4, 3, 3, 3), 1);
    cr_assert(talc_item(talc_max(talc_matmul(a, a), TALC_SCALAR, false)) == 256, "%s",
              talc_error_message());
    cr_assert(talc_item(talc_max(talc_conv2d(x, w, NULL, NULL), TALC_SCALAR, false)) == 27, "%s",
              talc_error_message());
}

Test(device, opening_and_closing_200_times_leaves_the_memory_where_it_was)
{
    enum { WARM = 3 };
    size_t before = 0, after = 0;
    bool is_host = false;
    for (int cycle = 0; cycle < 200 + WARM; cycle++) {
        talc_device *device = tested_device();
        use(device);
        cr_assert(talc_device_close(device), "%s", talc_error_message());
        const size_t now = talc_device_memory(device).free;
        before = cycle == WARM ? now : before;
        after = now;
        is_host = talc_device_is_host(device);
    }
    /* Of the host's memory every process takes some. */
    cr_assert(is_host || after == before, "%zu bytes are free, %zu were", after, before);
}

// ---- Waiting ------------------------------------------------------------------------------------

/* A loss whose second label is no class. On a device that works on its own nobody knows yet. */
static talc_tensor *wrong_loss(talc_device *device)
{
    const int64_t labels[3] = { 0, 7, 1 };
    const talc_tensor *x = talc_zeros(device, TALC_F32, TALC_DIMS(3, 5));
    return talc_cross_entropy(x, talc_from_host(device, TALC_I64, TALC_DIMS(3), labels));
}

/* What the calls below wait with; made before the loss, as making them may wait. */
typedef struct waiting {
    talc_device *device;
    talc_tensor *pinned;
    float *memory; /* its elements */
    talc_timer *timer;
} waiting;

static bool wait_for_device(waiting *with, const talc_tensor *loss)
{
    (void)loss;
    return talc_device_synchronize(with->device);
}

static bool wait_for_bytes(waiting *with, const talc_tensor *loss)
{
    (void)with;
    float value;
    return talc_to_host(loss, &value, sizeof value);
}

static bool wait_for_tensor(waiting *with, const talc_tensor *loss)
{
    (void)with;
    return talc_to(loss, cpu_device(), TALC_F32) != NULL;
}

static bool wait_for_timer(waiting *with, const talc_tensor *loss)
{
    (void)loss;
    talc_timer *timer = with->timer;
    with->timer = NULL;
    return talc_timer_stop(timer) >= 0;
}

static bool wait_for_pinned(waiting *with, const talc_tensor *loss)
{
    cr_assert(talc_copy(with->pinned, loss), "a copy that is only queued: %s",
              talc_error_message());
    return talc_data(with->pinned, TALC_F32) != NULL;
}

/* From page-locked memory the GPU reads on its own, which from_host waits for. The fake device
 * takes a copy at once. */
static bool wait_for_upload(waiting *with, const talc_tensor *loss)
{
    (void)loss;
    talc_device *device = with->device;
    return talc_from_host(device, TALC_F32, TALC_SCALAR, with->memory) != NULL &&
           (device != fake_device() || talc_device_synchronize(device));
}

static const struct {
    const char *name;
    bool (*wait)(waiting *with, const talc_tensor *loss);
} waits[] = { { "device_synchronize", wait_for_device },
              { "to_host", wait_for_bytes },
              { "to", wait_for_tensor },
              { "timer_stop", wait_for_timer },
              { "data", wait_for_pinned },
              { "from_host", wait_for_upload } };

Test(device, every_call_that_waits_raises_a_wrong_label)
{
    talc_device *device = queueing_device();
    for (size_t i = 0; i < sizeof waits / sizeof *waits; i++) {
        owned_scope *scope = talc_scope_enter();
        waiting with = { device, talc_pinned(device, TALC_F32, TALC_SCALAR), NULL,
                         talc_timer_start(device) };
        with.memory = talc_data(with.pinned, TALC_F32);
        const talc_tensor *loss = wrong_loss(device);
        assert_no_failure();
        cr_assert(!waits[i].wait(&with, loss), "%s tells of nothing", waits[i].name);
        assert_failure(TALC_BAD_ARGUMENT,
                       "cross_entropy: element 1 of labels is 7, there are 5 classes");
        cr_assert(talc_device_synchronize(device), "told twice: %s", talc_error_message());
        talc_timer_stop(with.timer);
    }
}

// ---- Running out --------------------------------------------------------------------------------

/* The host's memory is not filled for a test. */
static talc_device *device_to_fill(void)
{
    talc_device *device = tested_device();
    device = talc_device_is_host(device) ? fake_device() : device;
    if (device == fake_device())
        fake_device_limit_memory(device, 640 * MIB);
    return device;
}

static void assert_out_of_memory(const char *who, const talc_device *device, size_t bytes)
{
    char asked[256];
    snprintf(asked, sizeof asked, "%s: out of memory on %s: asked ", who, talc_device_name(device));
    cr_assert(talc_error_status() == TALC_NO_MEMORY, "%s", talc_error_message());
    cr_assert(strncmp(talc_error_message(), asked, strlen(asked)) == 0, "%s", talc_error_message());
    snprintf(asked, sizeof asked, " (%zu bytes), held ", bytes);
    const char *held = strstr(talc_error_message(), asked);
    cr_assert(held != NULL && strstr(held, ", free ") != NULL, "%s", talc_error_message());
    talc_error_clear();
}

Test(device, asking_for_more_than_there_is_fails_and_the_program_goes_on)
{
    talc_device *device = device_to_fill();
    const talc_memory memory = talc_device_memory(device);
    talc_tensor *x = talc_ones(device, TALC_F32, TALC_DIMS(1000));
    const size_t huge = memory.total + 4096;
    cr_assert_null(talc_empty(device, TALC_U8, TALC_DIMS((int64_t)huge)));
    assert_out_of_memory("empty", device, huge);
    cr_assert(talc_item(talc_sum(talc_add(x, x), TALC_SCALAR, false)) == 2000);
}

Test(device, a_full_device_gives_its_cache_back_and_goes_on)
{
    talc_device *device = device_to_fill();
    talc_tensor *x = talc_ones(device, TALC_F32, TALC_DIMS(1000));
    const int64_t part = (int64_t)(talc_device_memory(device).free / 8);
    for (int round = 0; round < 3; round++) {
        talc_scope *scope = talc_scope_enter();
        int parts = 0;
        while (talc_empty(device, TALC_U8, TALC_DIMS(part)) != NULL)
            parts++;
        cr_assert(parts >= 6 && parts <= 8, "%d eighths", parts);
        assert_out_of_memory("empty", device, (size_t)part);
        cr_assert(talc_item(talc_sum(talc_add(x, x), TALC_SCALAR, false)) == 2000, "%s",
                  talc_error_message());
        talc_scope_leave(scope);
        /* All is in the cache, in pieces that are too small. */
        cr_assert(talc_device_memory(device).reserved >= (size_t)(6 * part));
        talc_tensor *large = talc_empty(device, TALC_U8, TALC_DIMS(5 * part));
        cr_assert_not_null(large, "%s", talc_error_message());
        talc_release(large);
    }
}
