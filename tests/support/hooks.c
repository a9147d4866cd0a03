#include "tests/support/hooks.h"

#include "tensor/memory.h"
#include "tensor/storage.h"
#include "tests/support/fake_device.h"
#include "tests/support/files.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>

/* Running out of memory is among the things tested. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}
#endif

talc_device *cpu_device(void)
{
    return talc_device_get("cpu");
}

talc_device *tested_device(void)
{
    const char *name = getenv("TALC_TEST_DEVICE");
    if (name == NULL)
        return cpu_device();
    talc_device *device = strcmp(name, "fake") == 0 ? fake_device() : talc_device_get(name);
    cr_assert(device != NULL, "TALC_TEST_DEVICE: %s", talc_error_message());
    return device;
}

void assert_failure(talc_status status, const char *message)
{
    cr_assert(talc_failed(), "no failure where this one is expected: %s", message);
    cr_assert(talc_error_status() == status, "status %s instead of %s: %s",
              talc_status_text(talc_error_status()), talc_status_text(status),
              talc_error_message());
    cr_assert(strcmp(talc_error_message(), message) == 0, "\n  message: %s\n  expected: %s",
              talc_error_message(), message);
    talc_error_clear();
}

void assert_failure_with(talc_status status, const char *format, ...)
{
    char message[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    assert_failure(status, message);
}

static int64_t allocations_left;

static bool allow_some(size_t bytes)
{
    (void)bytes;
    return --allocations_left >= 0;
}

void allow_allocations(int64_t count)
{
    allocations_left = count;
    talc_allocation_hook = allow_some;
}

bool allow_all_allocations(void)
{
    talc_allocation_hook = NULL;
    return allocations_left < 0;
}

void assert_all_freed(void)
{
    talc_scope_leave_all();
    talc_device *const devices[] = { cpu_device(), tested_device() };
    for (int i = 0; i < 2; i++) {
        const size_t live = talc_device_memory(devices[i]).live;
        cr_assert(live == 0, "%zu bytes are still live on %s", live, talc_device_name(devices[i]));
    }
    assert_fake_devices_freed();
#if defined(__SANITIZE_ADDRESS__)
    cr_assert(__lsan_do_recoverable_leak_check() == 0, "the leak checker found a leak");
#endif
}

void assert_test_over(void)
{
    assert_no_failure();
    file_remove_all();
    assert_all_freed();
}
