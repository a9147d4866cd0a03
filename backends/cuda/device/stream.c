/// Streams of GPUs: which one a thread's work goes to, and how one waits for another.
#include "backends/cuda/cuda.h"

#include "backends/cuda/device/fault.h"

#include "tensor/error.h"
#include "tensor/streams.h"

#include <pthread.h>

/* One event a device orders any two streams: a wait is for what the event held when the wait was
 * queued, so it can be recorded anew at once. */
static pthread_mutex_t ordering = PTHREAD_MUTEX_INITIALIZER;

static cudaStream_t stream_of(const talc_device *device, int number)
{
    void *callers = talc_stream_of(device, number);
    return callers == NULL ? talc_cuda_state_of(device)->stream : (cudaStream_t)callers;
}

cudaStream_t talc_cuda_stream(const talc_device *device)
{
    const cudaStream_t recording = talc_cuda_recording_stream(device);
    return recording != NULL ? recording : stream_of(device, talc_stream_number(device));
}

/* No call here invalidates a capture. The legacy stream belongs to the current GPU; CUDA before
 * 12.8 does not tell to which GPU other streams belong. */
talc_status talc_cuda_takes_stream(talc_device *device, void *stream)
{
    static const char *const who = "stream_enter";
    const int own = talc_cuda_state_of(device)->index;
    int index = own;
    enum cudaStreamCaptureStatus captured = cudaStreamCaptureStatusNone;
    if (stream == cudaStreamPerThread)
        return talc_fail(TALC_BAD_ARGUMENT,
                         "%s: cudaStreamPerThread is a different stream in each thread, %s needs "
                         "one that all threads share",
                         who, device->name);
    talc_status status = talc_cuda_enter(device, who);
    if (status == TALC_OK)
        status = talc_cuda_status(device, who, cudaStreamIsCapturing(stream, &captured));
    if (status == TALC_OK && captured != cudaStreamCaptureStatusNone)
        return talc_fail(
            TALC_BAD_ARGUMENT,
            "%s: the stream is being captured, it cannot wait for what is queued on %s", who,
            device->name);
#if CUDART_VERSION >= 12080
    if (status == TALC_OK && stream != cudaStreamLegacy)
        status = talc_cuda_status(device, who, cudaStreamGetDevice(stream, &index));
#endif
    return status != TALC_OK || index == own
               ? status
               : talc_fail(TALC_BAD_DEVICE, "%s: the stream is of cuda:%d, not of %s", who, index,
                           device->name);
}

void *talc_cuda_callers_stream(talc_device *device)
{
    return talc_cuda_stream(device);
}

void *talc_cuda_stream_new(talc_device *device)
{
    cudaStream_t stream = NULL;
    if (talc_cuda_enter(device, "stream") != TALC_OK)
        return NULL;
    const cudaError_t error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    return talc_cuda_status(device, "stream", error) == TALC_OK ? stream : NULL;
}

void talc_cuda_stream_free(talc_device *device, void *stream)
{
    if (talc_cuda_usable(device))
        (void)cudaStreamDestroy((cudaStream_t)stream);
    (void)cudaGetLastError();
}

/* With `ordering` held: `device`'s stream waits for the other's, by an event of the other. Each is
 * spoken of while its device is the current one: what a default stream is goes by that, and so does
 * whose error it is. */
static talc_status wait_for(const char *who, talc_device *device, cudaStream_t stream,
                            talc_device *other, cudaStream_t after)
{
    const cudaEvent_t event = talc_cuda_state_of(other)->order;
    talc_status status = talc_cuda_enter(other, who);
    if (status == TALC_OK)
        status = talc_cuda_status(other, who, cudaEventRecord(event, after));
    if (status == TALC_OK)
        status = talc_cuda_enter(device, who);
    return status != TALC_OK ? status
                             : talc_cuda_status(device, who, cudaStreamWaitEvent(stream, event, 0));
}

talc_status talc_cuda_order(talc_device *device, int stream, int after)
{
    pthread_mutex_lock(&ordering);
    const talc_status status =
        wait_for("stream", device, stream_of(device, stream), device, stream_of(device, after));
    pthread_mutex_unlock(&ordering);
    return status;
}

/* On a stream that is being captured the event is a place in the graph. */
talc_status talc_cuda_stream_wait(talc_device *device, void *stream, bool back)
{
    const cudaStream_t own = talc_cuda_stream(device), other = (cudaStream_t)stream;
    pthread_mutex_lock(&ordering);
    const talc_status status =
        wait_for("stream", device, back ? own : other, device, back ? other : own);
    pthread_mutex_unlock(&ordering);
    return status;
}

bool talc_cuda_stream_idle(talc_device *device, void *stream)
{
    if (!talc_cuda_usable(device))
        return true;
    const cudaError_t error = cudaStreamQuery((cudaStream_t)stream);
    (void)cudaGetLastError();
    return error != cudaErrorNotReady;
}

// ---- Waiting ------------------------------------------------------------------------------------

talc_status talc_cuda_synchronize(talc_device *device)
{
    talc_status status = talc_cuda_enter(device, "synchronize");
    if (status == TALC_OK)
        status = talc_cuda_status(device, "synchronize",
                                  cudaStreamSynchronize(talc_cuda_stream(device)));
    return status != TALC_OK ? status : talc_cuda_fault_raise(device);
}

typedef struct marks {
    const talc_device *device;
    cudaStream_t except;
    cudaEvent_t events[TALC_STREAMS];
    int count;
    cudaError_t error;
} marks;

/* Nothing can be waited for on a stream that is being captured, and asking for it ends the
 * capture. */
static void mark(void *context, int number)
{
    marks *all = context;
    const cudaStream_t stream = stream_of(all->device, number);
    enum cudaStreamCaptureStatus captured;
    if (stream == all->except || all->error != cudaSuccess)
        return;
    if (cudaStreamIsCapturing(stream, &captured) != cudaSuccess ||
        captured != cudaStreamCaptureStatusNone) {
        (void)cudaGetLastError();
        return;
    }
    cudaEvent_t *event = &all->events[all->count];
    all->error = cudaEventCreateWithFlags(event, cudaEventDisableTiming);
    if (all->error != cudaSuccess)
        return;
    all->count++;
    all->error = cudaEventRecord(*event, stream);
}

/* By an event in each of the other streams: a thread may leave and destroy its stream while this
 * one waits. */
talc_status talc_cuda_synchronize_all(talc_device *device)
{
    const talc_status status = talc_cuda_enter(device, "synchronize");
    if (status != TALC_OK)
        return status;
    marks all = { .device = device, .except = talc_cuda_stream(device) };
    talc_streams_each(device, mark, &all);
    for (int i = 0; i < all.count; i++) {
        if (all.error == cudaSuccess)
            all.error = cudaEventSynchronize(all.events[i]);
        (void)cudaEventDestroy(all.events[i]);
    }
    const talc_status others = talc_cuda_status(device, "synchronize", all.error);
    return others != TALC_OK ? others : talc_cuda_synchronize(device);
}

// ---- Between GPUs -------------------------------------------------------------------------------

/* Direct where the hardware can, asked for once a pair; the driver goes through the host
 * otherwise. */
static void open_way(const talc_device *device, const talc_device *peer)
{
    static bool asked[TALC_CUDA_GPUS][TALC_CUDA_GPUS];
    const int to = talc_cuda_state_of(device)->index, from = talc_cuda_state_of(peer)->index;
    int possible = 0;
    if (asked[to][from])
        return;
    asked[to][from] = true;
    if (cudaDeviceCanAccessPeer(&possible, to, from) == cudaSuccess && possible)
        (void)cudaDeviceEnablePeerAccess(from, 0);
    (void)cudaGetLastError();
}

/* Runs on this device's stream, after the peer's work, which goes on only once the bytes are
 * read. */
talc_status talc_cuda_from_peer(talc_device *device, void *dst, talc_device *peer, const void *src,
                                size_t bytes)
{
    talc_status status = talc_cuda_enter(peer, "to");
    if (status == TALC_OK)
        status = talc_cuda_enter(device, "to");
    if (status != TALC_OK)
        return status;
    const cudaStream_t here = talc_cuda_stream(device), there = talc_cuda_stream(peer);
    pthread_mutex_lock(&ordering);
    open_way(device, peer);
    status = wait_for("to", device, here, peer, there);
    if (status == TALC_OK)
        status =
            talc_cuda_status(device, "to",
                             cudaMemcpyPeerAsync(dst, talc_cuda_state_of(device)->index, src,
                                                 talc_cuda_state_of(peer)->index, bytes, here));
    if (status == TALC_OK)
        status = wait_for("to", peer, there, device, here);
    pthread_mutex_unlock(&ordering);
    return status;
}
