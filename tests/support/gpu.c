#define _DEFAULT_SOURCE /* usleep */

#include "tests/support/gpu.h"

#include "tests/support/fake_device.h"
#include "tests/support/hooks.h"

#include "tensor/error.h"
#include "tensor/storage.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(TALC_CUDA)
#include <cuda_runtime_api.h>
#endif

talc_device *queueing_device(void)
{
    talc_device *device = tested_device();
    return talc_device_is_host(device) ? fake_device() : device;
}

static bool is_gpu(const talc_device *device)
{
    return strncmp(talc_device_name(device), "cuda", 4) == 0;
}

#if defined(TALC_CUDA)

static void must(cudaError_t error)
{
    cr_assert(error == cudaSuccess, "%s", cudaGetErrorString(error));
}

static void CUDART_CB sleep_for(void *microseconds)
{
    usleep((useconds_t)(uintptr_t)microseconds);
}

#endif

void *gpu_stream_new(const talc_device *device)
{
#if defined(TALC_CUDA)
    if (is_gpu(device)) {
        cudaStream_t stream;
        const char *index =
            strchr(talc_device_name(device), ':'); /* a thread begins on the first GPU */
        must(cudaSetDevice(index == NULL ? 0 : atoi(index + 1)));
        must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        return stream;
    }
#endif
    const talc_device **named = is_gpu(device) ? NULL : malloc(sizeof *named);
    if (named != NULL)
        *named = device;
    return named;
}

void gpu_stream_free(const talc_device *device, void *stream)
{
#if defined(TALC_CUDA)
    if (is_gpu(device)) {
        must(cudaStreamDestroy(stream));
        return;
    }
#endif
    (void)device;
    free(stream);
}

void gpu_stall(const talc_device *device, void *stream, int milliseconds)
{
#if defined(TALC_CUDA)
    if (is_gpu(device))
        must(cudaLaunchHostFunc(stream, sleep_for, (void *)(uintptr_t)(1000 * milliseconds)));
#endif
    (void)device;
    (void)stream;
    (void)milliseconds;
}

talc_status fake_takes_stream(talc_device *device, void *stream)
{
    const talc_device *of = *(const talc_device **)stream;
    return of == device ? TALC_OK
                        : talc_fail(TALC_BAD_DEVICE, "stream_enter: the stream is of %s, not of %s",
                                    of->name, device->name);
}

void *gpu_stream_per_thread(const talc_device *device)
{
#if defined(TALC_CUDA)
    if (is_gpu(device))
        return cudaStreamPerThread;
#endif
    (void)device;
    return NULL;
}

void *gpu_stream_legacy(const talc_device *device)
{
#if defined(TALC_CUDA)
    if (is_gpu(device))
        return cudaStreamLegacy;
#endif
    (void)device;
    return NULL;
}

void gpu_pause(int milliseconds)
{
    usleep((useconds_t)(1000 * milliseconds));
}

bool gpu_capture_begin(const talc_device *device, void *stream)
{
#if defined(TALC_CUDA)
    if (is_gpu(device)) {
        must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
        return true;
    }
#endif
    (void)device;
    (void)stream;
    return false;
}

bool gpu_capture_end(const talc_device *device, void *stream)
{
#if defined(TALC_CUDA)
    cudaGraph_t graph;
    if (is_gpu(device))
        return cudaStreamEndCapture(stream, &graph) == cudaSuccess &&
               cudaGraphDestroy(graph) == cudaSuccess;
#endif
    (void)device;
    (void)stream;
    return false;
}

talc_device *queueing_device_beside(const talc_device *device)
{
    const char *beside = strcmp(talc_device_name(device), "cuda:1") == 0 ? "cuda:0" : "cuda:1";
    talc_device *other = is_gpu(device) ? talc_device_get(beside) : other_fake_device();
    if (other == NULL)
        talc_error_clear();
    return other;
}

bool gpu_idle(const talc_device *device, void *stream)
{
#if defined(TALC_CUDA)
    if (is_gpu(device))
        return cudaStreamQuery(stream) == cudaSuccess;
#endif
    (void)device;
    (void)stream;
    return false;
}
