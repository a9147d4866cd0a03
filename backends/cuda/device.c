/// GPUs as devices: finding them, their memory, moving bytes, and what becomes of their errors.
#include "backends/cuda/cuda.h"
#include "backends/cuda/fault.h"

#include "tensor/error.h"
#include "tensor/extent.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_GPUS = 16 };

static const size_t DEFAULT_WORKSPACE = (size_t)512 << 20;

// ---- Errors -------------------------------------------------------------------------------------------------

/* After these the context is gone: every later call on it returns the same error. */
static bool is_sticky(cudaError_t error)
{
    switch (error) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorECCUncorrectable:
    case cudaErrorLaunchTimeout:
    case cudaErrorExternalDevice:
    case cudaErrorContained:
        return true;
    default:
        return false;
    }
}

talc_status talc_cuda_status(talc_device *device, const char *who, cudaError_t error)
{
    if (error == cudaSuccess)
        return TALC_OK;
    (void)cudaGetLastError(); /* one that is not sticky stays pending otherwise */
    talc_cuda_state *state = talc_cuda_state_of(device);
    if (is_sticky(error)) {
        if (state->lost == cudaSuccess) {
            state->lost = error;
            snprintf(state->lost_in, sizeof state->lost_in, "%s", who);
        }
        return talc_fail(TALC_DEVICE_LOST, "%s: %s is lost: %s", who, device->name,
                         cudaGetErrorString(error));
    }
    if (error == cudaErrorMemoryAllocation)
        return talc_fail(TALC_NO_MEMORY, "%s: %s: %s", who, device->name,
                         cudaGetErrorString(error));
    return talc_fail(TALC_UNSUPPORTED, "%s: %s: %s (%s)", who, device->name,
                     cudaGetErrorString(error), cudaGetErrorName(error));
}

talc_status talc_cuda_enter(talc_device *device, const char *who)
{
    const talc_cuda_state *state = talc_cuda_state_of(device);
    if (state->lost != cudaSuccess)
        return talc_fail(TALC_DEVICE_LOST, "%s: %s is lost since %s: %s", who, device->name,
                         state->lost_in, cudaGetErrorString(state->lost));
    return talc_cuda_status(device, who, cudaSetDevice(state->index));
}

// ---- Memory -------------------------------------------------------------------------------------------------

static void *allocate(talc_device *device, size_t bytes)
{
    const talc_cuda_state *state = talc_cuda_state_of(device);
    void *data = NULL;
    if (state->lost != cudaSuccess || cudaSetDevice(state->index) != cudaSuccess ||
        cudaMalloc(&data, bytes) != cudaSuccess) {
        (void)cudaGetLastError();
        return NULL;
    }
    return data;
}

/* Waits for the work that may still use the block. On a lost device, and while the process ends, it is gone already. */
static void deallocate(talc_device *device, void *data, size_t bytes)
{
    (void)bytes;
    const talc_cuda_state *state = talc_cuda_state_of(device);
    if (state->lost == cudaSuccess && cudaSetDevice(state->index) == cudaSuccess)
        (void)cudaFree(data);
    (void)cudaGetLastError();
}

/* From pageable memory: the call returns once the bytes are on their way out of `host`. */
static talc_status upload(talc_device *device, void *dst, const void *host, size_t bytes)
{
    talc_status status = talc_cuda_enter(device, "upload");
    return status != TALC_OK
               ? status
               : talc_cuda_status(device, "upload",
                                  cudaMemcpyAsync(dst, host, bytes, cudaMemcpyHostToDevice,
                                                  talc_cuda_state_of(device)->stream));
}

static talc_status download(talc_device *device, void *host, const void *src, size_t bytes)
{
    const talc_cuda_state *state = talc_cuda_state_of(device);
    talc_status status = talc_cuda_enter(device, "download");
    if (status == TALC_OK)
        status = talc_cuda_status(
            device, "download",
            cudaMemcpyAsync(host, src, bytes, cudaMemcpyDeviceToHost, state->stream));
    if (status == TALC_OK)
        status = talc_cuda_status(device, "download", cudaStreamSynchronize(state->stream));
    return status != TALC_OK ? status : talc_cuda_fault_raise(device);
}

static talc_status synchronize(talc_device *device)
{
    talc_status status = talc_cuda_enter(device, "synchronize");
    if (status == TALC_OK)
        status = talc_cuda_status(device, "synchronize",
                                  cudaStreamSynchronize(talc_cuda_state_of(device)->stream));
    return status != TALC_OK ? status : talc_cuda_fault_raise(device);
}

static void properties(talc_device *device, talc_device_properties *properties)
{
    const talc_cuda_state *state = talc_cuda_state_of(device);
    struct cudaDeviceProp gpu;
    properties->units = state->multiprocessors;
    snprintf(properties->description, sizeof properties->description, "NVIDIA GPU");
    if (state->lost != cudaSuccess || cudaSetDevice(state->index) != cudaSuccess)
        return;
    if (cudaGetDeviceProperties(&gpu, state->index) == cudaSuccess)
        snprintf(properties->description, sizeof properties->description, "%.100s, sm_%d%d",
                 gpu.name, gpu.major, gpu.minor);
    if (cudaMemGetInfo(&properties->memory_free, &properties->memory_total) != cudaSuccess)
        properties->memory_free = properties->memory_total = 0;
    (void)cudaGetLastError();
}

static const talc_device_interface interface = {
    .allocate = allocate,
    .deallocate = deallocate,
    .copy = talc_cuda_copy,
    .fill = talc_cuda_fill,
    .random = talc_cuda_random,
    .upload = upload,
    .download = download,
    .synchronize = synchronize,
    .properties = properties,
};

// ---- Finding ------------------------------------------------------------------------------------------------

static struct {
    talc_device device;
    talc_cuda_state state;
} gpus[MOST_GPUS];
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

static bool driver_installed(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (driver != NULL)
        dlclose(driver);
    return driver != NULL;
}

/* How many GPUs there are; 0 with a failure that says why. */
static int count_gpus(const char *name)
{
    int count = 0, driver = 0;
    const cudaError_t error = cudaGetDeviceCount(&count);
    (void)cudaGetLastError();
    if (error == cudaSuccess && count > 0)
        return (int)talc_smaller(count, MOST_GPUS);
    if (error == cudaErrorInsufficientDriver && !driver_installed())
        talc_fail(TALC_BAD_DEVICE, "device_get: '%s': no NVIDIA driver is installed (libcuda.so.1)",
                  name);
    else if (error == cudaErrorInsufficientDriver && cudaDriverGetVersion(&driver) == cudaSuccess)
        talc_fail(TALC_BAD_DEVICE,
                  "device_get: '%s': the NVIDIA driver is for CUDA %d.%d, this talc needs %d.%d",
                  name, driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000,
                  CUDART_VERSION % 1000 / 10);
    else if (error == cudaErrorNoDevice || error == cudaSuccess)
        talc_fail(TALC_BAD_DEVICE, "device_get: '%s': the NVIDIA driver finds no GPU", name);
    else
        talc_fail(TALC_BAD_DEVICE, "device_get: '%s': %s", name, cudaGetErrorString(error));
    return 0;
}

/* "cuda" and "cuda:0" are the first; -1 for what is no number. */
static int index_of(const char *name)
{
    const char *digits = strchr(name, ':');
    if (digits == NULL)
        return 0;
    char *end;
    const long index = strtol(digits + 1, &end, 10);
    const bool plain = digits[1] >= '0' && digits[1] <= '9' && *end == '\0' && end - digits <= 4;
    return plain ? (int)index : -1;
}

static bool open_gpu(int index)
{
    talc_device *device = &gpus[index].device;
    talc_cuda_state *state = &gpus[index].state;
    *state = (talc_cuda_state){ .index = index };
    *device = (talc_device){ .interface = &interface,
                             .backend = &talc_cuda_backend,
                             .workspace_limit = DEFAULT_WORKSPACE,
                             .state = state };
    snprintf(device->name, sizeof device->name, "cuda:%d", index);
    cudaError_t error = cudaSetDevice(index);
    if (error == cudaSuccess)
        error =
            cudaDeviceGetAttribute(&state->multiprocessors, cudaDevAttrMultiProcessorCount, index);
    if (error == cudaSuccess)
        error = cudaStreamCreateWithFlags(&state->stream, cudaStreamNonBlocking);
    return talc_cuda_status(device, "device_get", error) == TALC_OK &&
           talc_device_open(device) == TALC_OK;
}

talc_device *talc_cuda_find(const char *name)
{
    pthread_mutex_lock(&opening);
    const int count = count_gpus(name), index = index_of(name);
    talc_device *device = NULL;
    if (count > 0 && (index < 0 || index >= count))
        talc_fail(TALC_BAD_DEVICE,
                  "device_get: there is no device '%.40s'; the GPUs are cuda:0 to cuda:%d", name,
                  count - 1);
    else if (count > 0 && (gpus[index].device.pool != NULL || open_gpu(index)))
        device = &gpus[index].device;
    pthread_mutex_unlock(&opening);
    return device;
}

/* After the main thread's scopes, which end in a destructor of default priority. */
__attribute__((destructor(200))) static void close_at_exit(void)
{
    for (int i = 0; i < MOST_GPUS; i++) {
        talc_device_close(&gpus[i].device);
        talc_cuda_fault_free(&gpus[i].device);
    }
}
