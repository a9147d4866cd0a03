/// Page-locked memory: copies that the host does not wait for, and memory that is held for them.
#include "tests/support/fake_device.h"
#include "tests/support/gpu.h"
#include "tests/support/hooks.h"

#include "tensor/device.h"
#include "tensor/storage.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MANY = 1 << 20, LATE = 50 };

static talc_tensor *pinned_full(talc_device *device, float value)
{
    talc_tensor *x = talc_pinned(device, TALC_F32, TALC_DIMS(MANY));
    cr_assert(x != NULL && x->device == cpu_device(), "%s", talc_error_message());
    float *elements = talc_data(x, TALC_F32);
    for (int i = 0; i < MANY; i++)
        elements[i] = value;
    return x;
}

/* Work that the copies have to wait for, on a device that is not late by nature. */
static void stall(talc_device *device)
{
    gpu_stall(device, talc_stream_current(device), LATE);
}

static void assert_all_are(const talc_tensor *x, float value)
{
    static float elements[MANY];
    cr_assert(talc_to_host(x, elements, sizeof elements), "%s", talc_error_message());
    for (int i = 0; i < MANY; i++)
        cr_assert(elements[i] == value, "element %d is %g instead of %g", i, (double)elements[i],
                  (double)value);
}

Test(pinned, on_the_cpu_it_is_an_ordinary_tensor)
{
    talc_tensor *x = talc_pinned(cpu_device(), TALC_F64, TALC_DIMS(3, 4));
    cr_assert(x != NULL && x->device == cpu_device() && talc_device_memory(cpu_device()).live > 0);
    cr_assert_null(talc_pinned(NULL, TALC_F32, TALC_DIMS(3)));
    assert_failure(TALC_NULL_ARGUMENT, "pinned: device is NULL");
    cr_assert_null(talc_pinned(cpu_device(), TALC_F32, TALC_DIMS(-3)));
    cr_assert(talc_error_status() == TALC_BAD_SHAPE || talc_failed());
    talc_error_clear();
    cr_assert_not_null(talc_pinned(queueing_device(), TALC_F32, TALC_DIMS(0, 3)));
}

/* What is written to the memory right after the call is what arrives, since nothing has been read
 * by then. */
Test(pinned, an_upload_is_only_queued)
{
    talc_device *device = queueing_device();
    talc_tensor *x = pinned_full(device, 3);
    float *elements = talc_data(x, TALC_F32);
    stall(device);
    talc_tensor *y = talc_to(x, device, TALC_F32);
    for (int i = 0; i < MANY; i++)
        elements[i] = 4;
    assert_all_are(y, 4);
}

/* Released at once, and taken again by another tensor: not before it has been read. */
Test(pinned, memory_is_held_until_it_is_read)
{
    talc_device *device = queueing_device();
    for (int round = 0; round < 3; round++) {
        owned_scope *scope = talc_scope_enter();
        talc_tensor *x = pinned_full(device, 3);
        stall(device);
        talc_tensor *y = talc_to(x, device, TALC_F32);
        talc_release(x);
        talc_tensor *other = pinned_full(device, 5);
        assert_all_are(y, 3);
        assert_all_are(talc_to(other, device, TALC_F32), 5);
    }
}

Test(pinned, a_download_is_only_queued_and_talc_data_waits_for_it)
{
    talc_device *device = queueing_device();
    talc_tensor *x = pinned_full(device, 1);
    const float *elements = talc_data(x, TALC_F32);
    talc_tensor *y = talc_full(device, TALC_F32, TALC_DIMS(MANY), 7);
    cr_assert(talc_device_synchronize(device));
    stall(device);
    const uint64_t version = talc_version(x);
    cr_assert(talc_copy(x, y), "%s", talc_error_message());
    cr_assert(elements[0] == 1 && elements[MANY - 1] == 1, "the host waited");
    cr_assert(talc_version(x) == version + 1);
    cr_assert(talc_data(x, TALC_F32) == elements);
    for (int i = 0; i < MANY; i++)
        cr_assert(elements[i] == 7, "element %d is %g", i, (double)elements[i]);
}

/* The block's last copy stands for all of them. */
Test(pinned, copies_on_several_streams_are_all_waited_for)
{
    talc_device *device = queueing_device();
    void *stream = gpu_stream_new(device);
    talc_tensor *x = pinned_full(device, 3), *made[2];
    talc_stream *entered = talc_stream_enter(device, stream);
    gpu_stall(device, stream, 2 * LATE);
    made[0] = talc_to(x, device, TALC_F32);
    talc_stream *own = talc_stream_enter(device, NULL);
    made[1] = talc_to(x, device, TALC_F32);
    talc_release(x);
    talc_tensor *other = pinned_full(device, 9);
    assert_all_are(made[1], 3);
    talc_stream_leave(own);
    assert_all_are(made[0], 3);
    talc_stream_leave(entered);
    assert_all_are(other, 9);
    gpu_stream_free(device, stream);
}

/* Casts, gaps and other devices go the usual way, and are complete. */
Test(pinned, other_copies_are_complete)
{
    talc_device *device = queueing_device();
    talc_tensor *x = pinned_full(device, 3);
    float *elements = talc_data(x, TALC_F32);
    stall(device);
    talc_tensor *cast = talc_to(x, device, TALC_F64);
    talc_tensor *steps = talc_to(talc_slice(x, 0, 0, TALC_END, 2), device, TALC_F32);
    talc_tensor *made = talc_from_host(device, TALC_F32, TALC_DIMS(MANY), elements);
    for (int i = 0; i < MANY; i++)
        elements[i] = 4;
    assert_all_are(talc_cast(cast, TALC_F32), 3);
    cr_assert(talc_item(talc_max(steps, TALC_SCALAR, false)) == 3);
    assert_all_are(made, 3);
    cr_assert(talc_copy(x, talc_full(device, TALC_F64, TALC_DIMS(MANY), 8)));
    cr_assert(elements[0] == 8 && elements[MANY - 1] == 8);
}

// ---- Of several threads -------------------------------------------------------------------------

/* A thread that queues a late download on a stream, and stays there until the test has looked at
 * what came of it. */
typedef struct downloading {
    talc_device *device;
    void *stream;
    talc_tensor *to;
    pthread_t thread;
    pthread_barrier_t both;
    bool queued;
} downloading;

static void *download_late(void *argument)
{
    downloading *self = argument;
    talc_stream *entered = talc_stream_enter(self->device, self->stream);
    talc_scope *scope = talc_scope_enter();
    gpu_stall(self->device, talc_stream_current(self->device), LATE);
    self->queued = talc_copy(self->to, talc_full(self->device, TALC_F32, TALC_DIMS(MANY), 7));
    talc_scope_leave(scope);
    pthread_barrier_wait(&self->both);
    pthread_barrier_wait(&self->both);
    talc_stream_leave(entered);
    return NULL;
}

static void start(downloading *self)
{
    pthread_barrier_init(&self->both, NULL, 2);
    cr_assert(pthread_create(&self->thread, NULL, download_late, self) == 0);
    pthread_barrier_wait(&self->both);
    cr_assert(self->queued);
}

static void finish(downloading *self)
{
    pthread_barrier_wait(&self->both);
    pthread_join(self->thread, NULL);
    pthread_barrier_destroy(&self->both);
}

/* On the device's own stream and on callers', the waiting thread on the same one and on another;
 * read where it lies. */
Test(pinned, synchronizing_waits_for_the_copies_of_all_threads)
{
    talc_device *device = queueing_device();
    void *streams[] = { NULL, gpu_stream_new(device), gpu_stream_new(device) };
    talc_tensor *x = talc_pinned(device, TALC_F32, TALC_DIMS(MANY));
    float *elements = talc_data(x, TALC_F32);
    for (int round = 0; round < 9; round++) {
        elements[0] = elements[MANY - 1] = 1;
        downloading there = { device, streams[round / 3], .to = x };
        talc_stream *entered = talc_stream_enter(device, streams[round % 3]);
        start(&there);
        cr_assert(talc_device_synchronize(device), "%s", talc_error_message());
        cr_assert(elements[0] == 7 && elements[MANY - 1] == 7,
                  "round %d: %g and %g, the copy was not waited for", round, (double)elements[0],
                  (double)elements[MANY - 1]);
        finish(&there);
        talc_stream_leave(entered);
        cr_assert(talc_data(x, TALC_F32) == elements, "%s", talc_error_message());
    }
    gpu_stream_free(device, streams[1]);
    gpu_stream_free(device, streams[2]);
}

/* Of one thread that waits for a copy, while another takes such memory, copies from it and gives it
 * back. */
typedef struct awaiting {
    talc_device *device;
    void *stream;
    talc_tensor *x;
    pthread_barrier_t queued;
    _Atomic bool done;
    bool right;
} awaiting;

static void *await_late(void *argument)
{
    awaiting *self = argument;
    talc_stream *entered = talc_stream_enter(self->device, self->stream);
    gpu_stall(self->device, talc_stream_current(self->device), 20 * LATE);
    talc_copy(self->x, talc_full(self->device, TALC_F32, TALC_DIMS(MANY), 7));
    pthread_barrier_wait(&self->queued);
    const float *elements = talc_data(self->x, TALC_F32);
    self->right = elements != NULL && elements[0] == 7 && elements[MANY - 1] == 7;
    self->done = true;
    talc_stream_leave(entered);
    return NULL;
}

Test(pinned, waiting_for_one_block_holds_up_no_other)
{
    talc_device *device = queueing_device();
    awaiting there = { .device = device,
                       .stream = gpu_stream_new(device),
                       .x = talc_pinned(device, TALC_F32, TALC_DIMS(MANY)) };
    /* Nothing below is new: locking pages and loading kernels may wait for the GPU. */
    talc_tensor *y = talc_to(pinned_full(device, 2), device, TALC_F32);
    cr_assert(talc_data(there.x, TALC_F32) != NULL && talc_device_synchronize(device));
    talc_scope_leave_all();
    there.x = talc_pinned(device, TALC_F32, TALC_DIMS(MANY));
    y = talc_full(device, TALC_F32, TALC_DIMS(MANY), 5);
    cr_assert(talc_device_synchronize(device), "%s", talc_error_message());
    pthread_t thread;
    pthread_barrier_init(&there.queued, NULL, 2);
    cr_assert(pthread_create(&thread, NULL, await_late, &there) == 0);
    pthread_barrier_wait(&there.queued);
    gpu_pause(5);
    talc_tensor *z = talc_pinned(device, TALC_F32, TALC_DIMS(MANY));
    cr_assert(z != NULL && talc_copy(z, y), "%s", talc_error_message());
    const float *elements = talc_data(z, TALC_F32);
    cr_assert(elements != NULL && elements[MANY - 1] == 5, "%s", talc_error_message());
    talc_release(z);
    /* The fake device runs all that waits at once. */
    cr_assert(device == fake_device() || !there.done, "another thread's copy was waited for");
    pthread_join(thread, NULL);
    cr_assert(there.right);
    pthread_barrier_destroy(&there.queued);
    gpu_stream_free(device, there.stream);
}

static void given_back(talc_device *device, void *data)
{
    (void)device;
    (void)data;
    _exit(3);
}

static talc_status awaited(talc_device *device, const void *host)
{
    (void)device;
    (void)host;
    _exit(4);
}

/* Whose other threads may have held a lock at the fork. */
Test(pinned, a_child_of_fork_leaves_the_parents_memory_alone)
{
    talc_device *device = queueing_device();
    talc_tensor *x = pinned_full(device, 3);
    const pid_t child = fork();
    if (child == 0) {
        static talc_device_interface own;
        own = *device->interface;
        own.unpin = given_back;
        own.await = awaited;
        device->interface = &own;
        const bool refused =
            talc_data(x, TALC_F32) == NULL && talc_error_status() == TALC_BAD_DEVICE;
        talc_release(x);
        _exit(refused ? 0 : 2);
    }
    int status = 1;
    cr_assert(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
    cr_assert(WEXITSTATUS(status) == 0, "the child's status is %d", WEXITSTATUS(status));
    assert_all_are(x, 3);
}
