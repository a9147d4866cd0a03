#include "tensor/stream.h"

#include "tensor/memory.h"
#include "tensor/recording.h"
#include "tensor/storage.h"
#include "tensor/streams.h"

#include <pthread.h>

typedef struct stream_record {
    struct stream_record *outer;
    void *handle;
    talc_device *device;
    int number;
} stream_record;

struct talc_streams {
    pthread_mutex_t lock;
    void *handles[TALC_STREAMS];
    int users[TALC_STREAMS]; /* threads' entries; the device's own counts none */
};

static _Thread_local stream_record *innermost;
static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;

static struct talc_streams *streams_of(const talc_device *device)
{
    return __atomic_load_n(&device->streams, __ATOMIC_ACQUIRE);
}

int talc_stream_number(const talc_device *device)
{
    const stream_record *stream = innermost;
    while (stream != NULL && stream->device != device)
        stream = stream->outer;
    return stream == NULL ? 0 : stream->number;
}

void *talc_stream_of(const talc_device *device, int number)
{
    return number == 0 ? NULL : streams_of(device)->handles[number];
}

/* With the lock held. What was queued on a stream that all have left, the device's own has waited
 * for. */
static talc_status order(talc_device *device, struct talc_streams *all, int stream, int after)
{
    stream = all->users[stream] == 0 ? 0 : stream;
    after = all->users[after] == 0 ? 0 : after;
    return stream == after ? TALC_OK : device->interface->order(device, stream, after);
}

talc_status talc_stream_order(talc_device *device, int stream, int after)
{
    struct talc_streams *all = streams_of(device);
    if (all == NULL)
        return TALC_OK;
    pthread_mutex_lock(&all->lock);
    const talc_status status = order(device, all, stream, after);
    pthread_mutex_unlock(&all->lock);
    return status;
}

void talc_streams_each(const talc_device *device, void (*visit)(void *context, int stream),
                       void *context)
{
    struct talc_streams *all = streams_of(device);
    if (all != NULL)
        pthread_mutex_lock(&all->lock);
    for (int i = 0; i < TALC_STREAMS; i++)
        if (i == 0 || (all != NULL && all->users[i] > 0))
            visit(context, i);
    if (all != NULL)
        pthread_mutex_unlock(&all->lock);
}

static struct talc_streams *make_streams(talc_device *device)
{
    pthread_mutex_lock(&making);
    struct talc_streams *all = device->streams;
    if (all == NULL && (all = talc_memory_new(sizeof *all, "stream_enter")) != NULL) {
        pthread_mutex_init(&all->lock, NULL);
        __atomic_store_n(&device->streams, all, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&making);
    return all;
}

bool talc_streams_close(talc_device *device)
{
    struct talc_streams *all = device->streams;
    int entered = 0;
    for (int i = 0; all != NULL && i < TALC_STREAMS; i++)
        entered += all->users[i];
    if (entered > 0)
        talc_fail(TALC_BAD_ARGUMENT, "device_close: %d streams are still entered on %s", entered,
                  device->name);
    if (all == NULL || entered > 0)
        return entered == 0;
    __atomic_store_n(&device->streams, NULL, __ATOMIC_RELEASE);
    pthread_mutex_destroy(&all->lock);
    talc_memory_free(all);
    return true;
}

/* The number that the handle has, else a free one; -1 with a failure when there is none. */
static int number_of(const talc_device *device, const struct talc_streams *all, const void *handle)
{
    int found = -1;
    if (handle == NULL)
        return 0;
    for (int i = TALC_STREAMS - 1; i > 0; i--) {
        if (all->users[i] > 0 && all->handles[i] == handle)
            return i;
        if (all->users[i] == 0)
            found = i;
    }
    if (found < 0)
        talc_fail(TALC_UNSUPPORTED,
                  "stream_enter: %d streams are in use on %s, the most there may be",
                  TALC_STREAMS - 1, device->name);
    return found;
}

talc_stream *talc_stream_enter(talc_device *device, void *handle)
{
    if (talc_operand_missing("stream_enter", "device", device) ||
        talc_recording_refuses("stream_enter", device, "change streams") ||
        talc_device_gone(device, "stream_enter"))
        return NULL;
    if (device->interface->order == NULL) {
        talc_fail(TALC_UNSUPPORTED, "stream_enter: %s has no streams", device->name);
        return NULL;
    }
    if (handle != NULL && device->interface->takes_stream != NULL &&
        device->interface->takes_stream(device, handle) != TALC_OK)
        return NULL;
    talc_scope_thread_ends();
    stream_record *stream = talc_memory_new(sizeof *stream, "stream_enter");
    struct talc_streams *all = stream == NULL ? NULL : make_streams(device);
    int number = -1;
    if (all != NULL) {
        const int before = talc_stream_number(device);
        pthread_mutex_lock(&all->lock);
        number = number_of(device, all, handle);
        if (number > 0) {
            all->handles[number] = handle;
            all->users[number]++;
        }
        if (number >= 0 && (order(device, all, number, before) != TALC_OK ||
                            order(device, all, number, 0) != TALC_OK)) {
            all->users[number] -= number > 0;
            number = -1;
        }
        pthread_mutex_unlock(&all->lock);
    }
    if (number < 0) {
        talc_memory_free(stream);
        return NULL;
    }
    *stream = (stream_record){
        .outer = innermost, .handle = talc_handle_new(), .device = device, .number = number
    };
    innermost = stream;
    return stream->handle;
}

static void leave_innermost(void)
{
    stream_record *left = innermost;
    talc_device *device = left->device;
    struct talc_streams *all = streams_of(device);
    innermost = left->outer;
    if (all != NULL) {
        pthread_mutex_lock(&all->lock);
        (void)order(device, all, talc_stream_number(device), left->number);
        if (all->users[left->number] == 1)
            (void)order(device, all, 0, left->number);
        all->users[left->number] -= left->number > 0;
        pthread_mutex_unlock(&all->lock);
    }
    talc_memory_free(left);
}

void talc_stream_leave(talc_stream *stream)
{
    const stream_record *left = stream == NULL ? NULL : innermost;
    while (left != NULL && left->handle != stream)
        left = left->outer;
    for (bool last = left == NULL; !last;) {
        last = innermost == left;
        leave_innermost();
    }
}

void talc_stream_leave_all(void)
{
    while (innermost != NULL)
        leave_innermost();
}

void *talc_stream_current(talc_device *device)
{
    if (talc_operand_missing("stream_current", "device", device) ||
        device->interface->stream == NULL)
        return NULL;
    return device->interface->stream(device);
}

talc_made talc_made_here(const talc_device *device)
{
    return (talc_made){ .stream = talc_stream_number(device) };
}

bool talc_made_wait(talc_made *made, talc_device *device)
{
    const int stream = talc_stream_number(device);
    const uint32_t bit = UINT32_C(1) << stream;
    if (stream == made->stream || (made->waiting & bit) != 0)
        return true;
    if (talc_stream_order(device, stream, made->stream) != TALC_OK)
        return false;
    made->waiting |= bit;
    return true;
}
