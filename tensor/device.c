#include "tensor/device.h"

#include "tensor/environment.h"
#include "tensor/memory.h"
#include "tensor/pool.h"
#include "tensor/recording.h"
#include "tensor/storage.h"
#include "tensor/streams.h"

const char *talc_device_name(const talc_device *device)
{
    return device == NULL ? "?" : device->name;
}

bool talc_device_is_host(const talc_device *device)
{
    return device != NULL && device->is_host;
}

bool talc_device_synchronize(talc_device *device)
{
    if (talc_operand_missing("device_synchronize", "device", device) ||
        talc_recording_refuses("device_synchronize", device, "wait for the device") ||
        talc_device_gone(device, "device_synchronize"))
        return false;
    const talc_device_interface *interface = device->interface;
    const talc_status status =
        (interface->synchronize_all != NULL ? interface->synchronize_all
                                            : interface->synchronize)(device);
    return talc_device_waited(device, status) == TALC_OK;
}

talc_status talc_device_waited(talc_device *device, talc_status status)
{
    const char *why =
        status != TALC_OK ? NULL : __atomic_exchange_n(&device->spoiled, NULL, __ATOMIC_ACQ_REL);
    return why == NULL ? status : talc_fail(TALC_PEER_LOST, "%s", why);
}

struct talc_timer {
    talc_device *device;
    void *state; /* the backend's */
};

static const char *const TIMED = "be timed";

talc_timer *talc_timer_start(talc_device *device)
{
    if (talc_operand_missing("timer_start", "device", device) ||
        talc_recording_refuses("timer_start", device, TIMED) ||
        talc_device_gone(device, "timer_start"))
        return NULL;
    talc_timer *timer = talc_memory_new(sizeof *timer, "timer_start");
    if (timer == NULL)
        return NULL;
    timer->device = device;
    if (device->interface->timer_start(device, &timer->state) == TALC_OK)
        return timer;
    talc_memory_free(timer);
    return NULL;
}

double talc_timer_stop(talc_timer *timer)
{
    double seconds = -1;
    if (timer == NULL)
        return seconds;
    /* The timer is freed all the same. */
    (void)talc_recording_refuses("timer_stop", timer->device, TIMED);
    talc_device *device = timer->device;
    const talc_status status =
        talc_device_waited(device, device->interface->timer_stop(device, timer->state, &seconds));
    talc_memory_free(timer);
    return status == TALC_OK && !talc_failed() ? seconds : -1;
}

size_t talc_workspace_limit(const talc_device *device)
{
    return device == NULL ? 0 : __atomic_load_n(&device->workspace_limit, __ATOMIC_RELAXED);
}

bool talc_workspace_set_limit(talc_device *device, size_t bytes)
{
    if (talc_operand_missing("workspace_set_limit", "device", device) ||
        talc_device_gone(device, "workspace_set_limit"))
        return false;
    __atomic_store_n(&device->workspace_limit, bytes, __ATOMIC_RELAXED);
    return true;
}

talc_status talc_device_open(talc_device *device)
{
    if (talc_operand_missing("device_open", "device", device))
        return talc_error_status();
    size_t megabytes = talc_environment()->workspace_megabytes;
    if (megabytes > 0)
        device->workspace_limit = megabytes << 20;
    return talc_pool_open(device);
}

uint64_t talc_device_recomputed(talc_device *device)
{
    if (device == NULL || device->pool == NULL || device->interface->recomputed == NULL ||
        talc_recording_active(device) || talc_device_gone(device, "device_recomputed"))
        return 0;
    return device->interface->recomputed(device);
}

bool talc_device_close(talc_device *device)
{
    if (device == NULL || device->pool == NULL)
        return true;
    if (talc_failed() || talc_device_forked(device, "device_close"))
        return false;
    const size_t live = talc_device_memory(device).live;
    if (live > 0) {
        talc_fail(TALC_BAD_ARGUMENT, "device_close: tensors on %s still hold %zu bytes",
                  device->name, live);
        return false;
    }
    if (!talc_streams_close(device))
        return false;
    talc_pool_close(device);
    if (device->interface->close != NULL)
        device->interface->close(device);
    return true;
}
