/// The memory of GPUs: taking it, giving it back, and moving bytes in and out.
#include "backends/cuda/cuda.h"

#include "backends/cuda/device/fault.h"

#include "tensor/error.h"
#include "tensor/memory.h"

#include <pthread.h>
#include <stdlib.h>

// ---- Taking and giving back ---------------------------------------------------------------------

/* What is taken from the system: the process gives it back when it ends, whoever still holds it
 * then. Some hundred addresses, looked through only where a call of the driver costs far more. */
static struct taken {
    void **data;
    size_t count, capacity;
} taken[TALC_CUDA_GPUS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool note(struct taken *all, void *data)
{
    if (all->count == all->capacity) {
        const size_t capacity = all->capacity == 0 ? 256 : 2 * all->capacity;
        void **grown = talc_allocation_allowed(capacity * sizeof *grown)
                           ? realloc(all->data, capacity * sizeof *grown)
                           : NULL;
        if (grown == NULL)
            return false;
        all->data = grown;
        all->capacity = capacity;
    }
    all->data[all->count++] = data;
    return true;
}

static void forget(struct taken *all, const void *data)
{
    for (size_t i = all->count; i-- > 0;)
        if (all->data[i] == data) {
            all->data[i] = all->data[--all->count];
            return;
        }
}

void *talc_cuda_allocate(talc_device *device, size_t bytes)
{
    void *data = NULL;
    if (!talc_cuda_usable(device))
        return NULL;
    const cudaError_t error = cudaMalloc(&data, bytes);
    if (error != cudaSuccess) {
        talc_cuda_record_error(device, "allocate", error);
        return NULL;
    }
    pthread_mutex_lock(&lock);
    const bool noted = note(&taken[talc_cuda_state_of(device)->index], data);
    pthread_mutex_unlock(&lock);
    if (noted)
        return data;
    (void)cudaFree(data);
    return NULL;
}

/* Waits for the work that may still use the block. */
void talc_cuda_deallocate(talc_device *device, void *data, size_t bytes)
{
    (void)bytes;
    if (!talc_cuda_usable(device))
        return;
    pthread_mutex_lock(&lock);
    forget(&taken[talc_cuda_state_of(device)->index], data);
    pthread_mutex_unlock(&lock);
    talc_cuda_record_error(device, "deallocate", cudaFree(data));
}

void talc_cuda_memory_end(talc_device *device)
{
    struct taken *all = &taken[talc_cuda_state_of(device)->index];
    pthread_mutex_lock(&lock);
    if (talc_cuda_usable(device))
        for (size_t i = 0; i < all->count; i++)
            (void)cudaFree(all->data[i]);
    (void)cudaGetLastError();
    free(all->data);
    *all = (struct taken){ 0 };
    pthread_mutex_unlock(&lock);
}

// ---- Moving bytes -------------------------------------------------------------------------------

/* Whether a copy from there may still read when the call has returned: from page-locked memory of
 * the caller's own, and from any where the GPU reads pageable memory itself. Otherwise the driver
 * returns once it has the bytes. */
static bool reads_late(const talc_device *device, const void *host)
{
    struct cudaPointerAttributes attributes;
    int itself = 0;
    const bool known = cudaPointerGetAttributes(&attributes, host) == cudaSuccess &&
                       cudaDeviceGetAttribute(&itself, cudaDevAttrPageableMemoryAccess,
                                              talc_cuda_state_of(device)->index) == cudaSuccess;
    if (!known)
        (void)cudaGetLastError();
    return !known || itself != 0 || attributes.type != cudaMemoryTypeUnregistered;
}

talc_status talc_cuda_upload(talc_device *device, void *dst, const void *host, size_t bytes)
{
    talc_status status = talc_cuda_enter(device, "upload");
    if (status != TALC_OK)
        return status;
    const cudaStream_t stream = talc_cuda_stream(device);
    status = talc_cuda_status(device, "upload",
                              cudaMemcpyAsync(dst, host, bytes, cudaMemcpyHostToDevice, stream));
    if (status != TALC_OK || !reads_late(device, host))
        return status;
    status = talc_cuda_status(device, "upload", cudaStreamSynchronize(stream));
    return status != TALC_OK ? status : talc_cuda_fault_raise(device);
}

talc_status talc_cuda_download(talc_device *device, void *host, const void *src, size_t bytes)
{
    talc_status status = talc_cuda_enter(device, "download");
    if (status != TALC_OK)
        return status;
    const cudaStream_t stream = talc_cuda_stream(device);
    status = talc_cuda_status(device, "download",
                              cudaMemcpyAsync(host, src, bytes, cudaMemcpyDeviceToHost, stream));
    if (status == TALC_OK)
        status = talc_cuda_status(device, "download", cudaStreamSynchronize(stream));
    return status != TALC_OK ? status : talc_cuda_fault_raise(device);
}
