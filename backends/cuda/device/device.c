/// GPUs as devices: finding, opening and closing them, and what becomes of their errors.
#include "backends/cuda/cuda.h"

#include "backends/cuda/device/counter.h"
#include "backends/cuda/device/fault.h"
#include "backends/cuda/device/ranges.h"
#include "backends/cuda/device/users.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "tensor/error.h"
#include "tensor/extent.h"
#include "tensor/pool.h"
#include "tensor/shown.h"
#include "tensor/streams.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const size_t DEFAULT_WORKSPACE = (size_t)512 << 20;

// ---- Errors -------------------------------------------------------------------------------------

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
    case cudaErrorTensorMemoryLeak:
    case cudaErrorMpsClientTerminated:
        return true;
    default:
        return false;
    }
}

static pthread_mutex_t losing = PTHREAD_MUTEX_INITIALIZER;

static cudaError_t lost(const talc_cuda_state *state)
{
    return (cudaError_t)__atomic_load_n(&state->lost, __ATOMIC_ACQUIRE);
}

/* The first fault is the one that is told of from then on. */
static void end(talc_cuda_state *state, const char *who, cudaError_t error)
{
    pthread_mutex_lock(&losing);
    if (state->lost == cudaSuccess) {
        snprintf(state->lost_in, sizeof state->lost_in, "%s", who);
        __atomic_store_n(&state->lost, (int)error, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&losing);
}

void talc_cuda_record_error(talc_device *device, const char *who, cudaError_t error)
{
    if (error == cudaSuccess)
        return;
    (void)cudaGetLastError(); /* one that is not sticky stays pending otherwise */
    if (is_sticky(error))
        end(talc_cuda_state_of(device), who, error);
}

talc_status talc_cuda_status(talc_device *device, const char *who, cudaError_t error)
{
    if (error == cudaSuccess)
        return TALC_OK;
    talc_cuda_record_error(device, who, error);
    if (is_sticky(error))
        return talc_fail(TALC_DEVICE_LOST, "%s: %s is lost: %s", who, device->name,
                         cudaGetErrorString(error));
    if (error == cudaErrorMemoryAllocation)
        return talc_device_out_of_memory(device, who, 0);
    return talc_fail(TALC_UNSUPPORTED, "%s: %s: %s (%s)", who, device->name,
                     cudaGetErrorString(error), cudaGetErrorName(error));
}

bool talc_cuda_relieved(talc_device *device, cudaError_t error)
{
    if (error != cudaErrorMemoryAllocation)
        return false;
    (void)cudaGetLastError();
    return talc_memory_trim(device) > 0;
}

talc_status talc_cuda_not_launched(talc_device *device, const char *who, cudaError_t error)
{
    (void)talc_cuda_relieved(device, error);
    return talc_cuda_status(device, who, error);
}

static talc_status alive(talc_device *device, const char *who)
{
    const talc_cuda_state *state = talc_cuda_state_of(device);
    if (talc_cuda_user_late())
        return talc_fail(TALC_DEVICE_LOST, "%s: %s was lost at the end of the process", who,
                         device->name);
    if (lost(state) != cudaSuccess)
        return talc_fail(TALC_DEVICE_LOST, "%s: %s was lost at %s: %s", who, device->name,
                         state->lost_in, cudaGetErrorString(lost(state)));
    if (device->pool == NULL)
        return talc_fail(TALC_BAD_DEVICE, "%s: %s is closed", who, device->name);
    return TALC_OK;
}

talc_status talc_cuda_enter(talc_device *device, const char *who)
{
    talc_cuda_user_count();
    const talc_status status = alive(device, who);
    return status != TALC_OK
               ? status
               : talc_cuda_status(device, who, cudaSetDevice(talc_cuda_state_of(device)->index));
}

bool talc_cuda_usable(const talc_device *device)
{
    const talc_cuda_state *state = talc_cuda_state_of(device);
    talc_cuda_user_count();
    if (talc_cuda_user_late())
        return false;
    const bool usable = lost(state) == cudaSuccess && cudaSetDevice(state->index) == cudaSuccess;
    (void)cudaGetLastError();
    return usable;
}

// ---- What a device can do -----------------------------------------------------------------------

static void properties(talc_device *device, talc_device_properties *properties)
{
    const talc_cuda_state *state = talc_cuda_state_of(device);
    struct cudaDeviceProp gpu;
    properties->units = state->multiprocessors;
    snprintf(properties->description, sizeof properties->description, "NVIDIA GPU");
    if (!talc_cuda_usable(device))
        return;
    int driver = 0;
    if (cudaGetDeviceProperties(&gpu, state->index) == cudaSuccess &&
        cudaDriverGetVersion(&driver) == cudaSuccess)
        snprintf(properties->description, sizeof properties->description,
                 "%.80s, sm_%d%d, CUDA %d.%d, driver for %d.%d", gpu.name, gpu.major, gpu.minor,
                 CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10, driver / 1000,
                 driver % 1000 / 10);
    if (cudaMemGetInfo(&properties->memory_free, &properties->memory_total) != cudaSuccess)
        properties->memory_free = properties->memory_total = 0;
    (void)cudaGetLastError();
}

static void close_gpu(talc_device *device);

static const talc_device_interface interface = {
    .allocate = talc_cuda_allocate,
    .deallocate = talc_cuda_deallocate,
    .copy = talc_cuda_copy,
    .join = talc_cuda_join,
    .fill = talc_cuda_fill,
    .random = talc_cuda_random,
    .upload = talc_cuda_upload,
    .download = talc_cuda_download,
    .synchronize = talc_cuda_synchronize,
    .synchronize_all = talc_cuda_synchronize_all,
    .timer_start = talc_cuda_timer_start,
    .timer_stop = talc_cuda_timer_stop,
    .properties = properties,
    .recomputed = talc_cuda_take_recomputed,
    .record_begin = talc_cuda_record_begin,
    .record_end = talc_cuda_record_end,
    .replay = talc_cuda_replay,
    .record_free = talc_cuda_record_free,
    .range_begin = talc_cuda_range_begin,
    .range_end = talc_cuda_range_end,
    .alive = alive,
    .pin = talc_cuda_pin,
    .unpin = talc_cuda_unpin,
    .trim = talc_cuda_trim,
    .send = talc_cuda_send,
    .receive = talc_cuda_receive,
    .await = talc_cuda_await,
    .from_peer = talc_cuda_from_peer,
    .order = talc_cuda_order,
    .takes_stream = talc_cuda_takes_stream,
    .stream = talc_cuda_callers_stream,
    .stream_new = talc_cuda_stream_new,
    .stream_free = talc_cuda_stream_free,
    .stream_wait = talc_cuda_stream_wait,
    .stream_idle = talc_cuda_stream_idle,
    .close = close_gpu,
    .add = talc_add,
    .sum = talc_sum,
};

// ---- Finding ------------------------------------------------------------------------------------

static struct {
    talc_device device;
    talc_cuda_state state;
} gpus[TALC_CUDA_GPUS];
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
        return (int)talc_smaller(count, TALC_CUDA_GPUS);
    if (error == cudaErrorInsufficientDriver && !driver_installed())
        talc_fail(TALC_BAD_DEVICE, "device_get: '%s': no NVIDIA driver is installed (libcuda.so.1)",
                  TALC_SHOWN(name));
    else if (error == cudaErrorInsufficientDriver && cudaDriverGetVersion(&driver) == cudaSuccess)
        talc_fail(TALC_BAD_DEVICE,
                  "device_get: '%s': the NVIDIA driver is for CUDA %d.%d, this talc needs %d.%d",
                  TALC_SHOWN(name), driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000,
                  CUDART_VERSION % 1000 / 10);
    else if (error == cudaErrorNoDevice || error == cudaSuccess)
        talc_fail(TALC_BAD_DEVICE, "device_get: '%s': the NVIDIA driver finds no GPU",
                  TALC_SHOWN(name));
    else
        talc_fail(TALC_BAD_DEVICE, "device_get: '%s': the NVIDIA driver does not start: %s (%s)",
                  TALC_SHOWN(name), cudaGetErrorString(error), cudaGetErrorName(error));
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

/* The pool is gone already, and with it all memory but that of tensors which outlive the process's
 * end. */
static void close_gpu(talc_device *device)
{
    talc_cuda_state *state = talc_cuda_state_of(device);
    talc_cuda_blas_close(device);
    talc_cuda_memory_end(device);
    talc_cuda_pinned_end(device);
    if (talc_cuda_usable(device)) {
        talc_cuda_fault_free(device);
        if (state->order != NULL)
            (void)cudaEventDestroy(state->order);
        if (state->stream != NULL)
            (void)cudaStreamDestroy(state->stream);
        talc_cuda_counters_close(device);
        (void)cudaGetLastError();
    }
    state->order = NULL;
    state->stream = NULL;
    state->fault = NULL;
}

static bool open_gpu(int index)
{
    talc_device *device = &gpus[index].device;
    talc_cuda_state *state = &gpus[index].state;
    if (lost(state) != cudaSuccess) {
        (void)alive(device, "device_get");
        return false;
    }
    *state = (talc_cuda_state){ .index = index };
    *device = (talc_device){ .interface = &interface,
                             .backend = &talc_cuda_backend,
                             .workspace_limit = DEFAULT_WORKSPACE,
                             .ranges = talc_cuda_ranges_wanted(),
                             .state = state };
    snprintf(device->name, sizeof device->name, "cuda:%d", index);
    int major = 0, minor = 0;
    cudaError_t error = cudaSetDevice(index);
    if (error == cudaSuccess)
        error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index);
    if (error == cudaSuccess)
        error = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, index);
    state->capability = major * 10 + minor;
    if (error == cudaSuccess)
        error =
            cudaDeviceGetAttribute(&state->multiprocessors, cudaDevAttrMultiProcessorCount, index);
    if (error == cudaSuccess)
        error = cudaDeviceGetAttribute(&state->block_shared,
                                       cudaDevAttrMaxSharedMemoryPerBlockOptin, index);
    if (error == cudaSuccess)
        error = cudaStreamCreateWithFlags(&state->stream, cudaStreamNonBlocking);
    if (error == cudaSuccess)
        error = cudaEventCreateWithFlags(&state->order, cudaEventDisableTiming);
    if (error == cudaSuccess)
        error = talc_cuda_counters_open(device);
    if (talc_cuda_status(device, "device_get", error) == TALC_OK &&
        talc_device_open(device) == TALC_OK)
        return true;
    close_gpu(device);
    return false;
}

/* The CUDA runtime ends before the library's destructors, so this is registered once it runs and
 * comes first. What the program's own exit handlers and the main thread's scopes still hold are
 * handles without memory from here on. A child of fork has none of its parent's GPUs. */
static pid_t opener;

bool talc_cuda_used_by_others(void)
{
    static bool waited;
    if (talc_cuda_users_end() == 0)
        return false;
    for (int i = 0; i < TALC_CUDA_GPUS && opener == getpid() && !waited; i++)
        if (gpus[i].device.pool != NULL && talc_cuda_usable(&gpus[i].device)) {
            end(&gpus[i].state, "the end of the process", cudaErrorCudartUnloading);
            (void)cudaDeviceSynchronize();
        }
    if (!waited && opener == getpid()) {
        talc_cuda_blas_settle();
        talc_cuda_users_await();
    }
    waited = true;
    return true;
}

static void end_at_exit(void)
{
    if (talc_cuda_used_by_others())
        return;
    pthread_mutex_lock(&opening);
    for (int i = 0; i < TALC_CUDA_GPUS && opener == getpid(); i++)
        if (gpus[i].device.pool != NULL) {
            if (talc_cuda_usable(&gpus[i].device))
                (void)cudaDeviceSynchronize();
            close_gpu(&gpus[i].device);
            end(&gpus[i].state, "the end of the process", cudaErrorCudartUnloading);
        }
    pthread_mutex_unlock(&opening);
}

static void register_end(void)
{
    if (opener == 0 && atexit(end_at_exit) == 0)
        opener = getpid();
}

/* Registered before the first call of CUDA: a thread may still be in that when the process ends,
 * which then waits for it, and runs what it has registered meanwhile. */
static pid_t first_user;

static void wait_for_opening(void)
{
    enum { PATIENCE_SECONDS = 10 };
    struct timespec until;
    if (first_user != getpid())
        return;
    (void)talc_cuda_users_end();
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_SECONDS;
    if (pthread_mutex_timedlock(&opening, &until) == 0)
        pthread_mutex_unlock(&opening);
}

/* With the lock; false when the process ends. */
static bool may_open(void)
{
    if (first_user == 0 && atexit(wait_for_opening) == 0)
        first_user = getpid();
    return !talc_cuda_user_late();
}

talc_device *talc_cuda_find(const char *name)
{
    if (opener != 0 && opener != getpid()) {
        talc_fail(TALC_BAD_DEVICE,
                  "device_get: '%s': the parent process opened the GPUs before it forked this one, "
                  "and CUDA does not work in such a child",
                  TALC_SHOWN(name));
        return NULL;
    }
    pthread_mutex_lock(&opening);
    const bool late = !may_open();
    if (late)
        talc_fail(TALC_BAD_DEVICE, "device_get: '%s': the process ends", TALC_SHOWN(name));
    const int count = late ? 0 : count_gpus(name), index = index_of(name);
    talc_device *device = NULL;
    if (count > 0 && (index < 0 || index >= count))
        talc_fail(TALC_BAD_DEVICE,
                  "device_get: there is no device '%s'; the GPUs are cuda:0 to cuda:%d",
                  TALC_SHOWN(name), count - 1);
    else if (count > 0 && (gpus[index].device.pool != NULL || open_gpu(index)))
        device = &gpus[index].device;
    if (device != NULL)
        register_end();
    pthread_mutex_unlock(&opening);
    return device;
}

static bool present;

static void look(void)
{
    int count = 0;
    pthread_mutex_lock(&opening);
    if (may_open()) {
        present = cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
        (void)cudaGetLastError();
    }
    pthread_mutex_unlock(&opening);
}

bool talc_cuda_present(void)
{
    static pthread_once_t looked = PTHREAD_ONCE_INIT;
    pthread_once(&looked, look);
    return present;
}
