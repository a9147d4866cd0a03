/// Streams that a device does not take: refused by name, before anything is changed.
#include "tests/support/gpu.h"
#include "tests/support/hooks.h"

#include "tensor/streams.h"

#include <stdio.h>

/* While another is entered, to which the thread's work still goes. */
static void assert_refused(talc_device *device, void *stream, talc_status expected,
                           const char *message)
{
    void *before = gpu_stream_new(device);
    talc_stream *outer = talc_stream_enter(device, before);
    cr_assert_null(talc_stream_enter(device, stream));
    assert_failure(expected, message);
    cr_assert(talc_stream_current(device) == before);
    talc_stream_leave(outer);
    talc_device_synchronize(device);
    cr_assert(talc_streams_close(device), "%s", talc_error_message());
    gpu_stream_free(device, before);
}

/* Work on it is right. */
static void assert_taken(talc_device *device, void *stream)
{
    gpu_stall(device, talc_stream_current(device), 50);
    talc_tensor *x = talc_full(device, TALC_F32, TALC_DIMS(1), 1);
    talc_stream *entered = talc_stream_enter(device, stream);
    cr_assert(talc_stream_current(device) == stream, "%s", talc_error_message());
    x = talc_add_scalar(x, 1);
    cr_assert(talc_item(x) == 2, "%s", talc_error_message());
    talc_stream_leave(entered);
}

Test(stream_refused, one_of_another_device)
{
    talc_device *device = queueing_device(), *other = queueing_device_beside(device);
    if (other == NULL)
        cr_skip_test("there is one GPU");
    void *theirs = gpu_stream_new(other);
    char message[128];
    snprintf(message, sizeof message, "stream_enter: the stream is of %s, not of %s",
             talc_device_name(other), talc_device_name(device));
    assert_refused(device, theirs, TALC_BAD_DEVICE, message);
    assert_taken(other, theirs);
    gpu_stream_free(other, theirs);
}

Test(stream_refused, a_name_for_one_of_each_thread_and_not_the_legacy_one)
{
    talc_device *device = queueing_device();
    if (gpu_stream_legacy(device) == NULL)
        cr_skip_test("the fake device's streams have no names");
    char message[160];
    snprintf(message, sizeof message,
             "stream_enter: cudaStreamPerThread is a different stream in each thread, %s needs one "
             "that all threads share",
             talc_device_name(device));
    assert_refused(device, gpu_stream_per_thread(device), TALC_BAD_ARGUMENT, message);
    assert_taken(device, gpu_stream_legacy(device));
}

/* The program's own capture goes on, and while it does, other streams are taken. */
Test(stream_refused, one_that_is_captured)
{
    talc_device *device = queueing_device();
    void *stream = gpu_stream_new(device), *other = gpu_stream_new(device);
    if (!gpu_capture_begin(device, stream))
        cr_skip_test("the fake device's streams are not captured");
    char message[160];
    snprintf(message, sizeof message,
             "stream_enter: the stream is being captured, it cannot wait for what is queued on %s",
             talc_device_name(device));
    assert_refused(device, stream, TALC_BAD_ARGUMENT, message);
    assert_taken(device, other);
    cr_assert(gpu_capture_end(device, stream), "the capture was ended");
    assert_taken(device, stream);
    gpu_stream_free(device, stream);
    gpu_stream_free(device, other);
}
