/// Page-locked host memory: what a GPU reads and writes itself while the host goes on.
///
/// Locking pages costs milliseconds, so blocks that are given back are kept for the next tensors;
/// one whose copies are not done waits for them in the meantime, and nobody else does.
#include "backends/cuda/cuda.h"

#include "backends/cuda/device/fault.h"

#include "tensor/error.h"
#include "tensor/memory.h"
#include "tensor/pool.h"

#include <pthread.h>
#include <stdio.h>

/* Bytes kept for reuse, of all devices. */
static const size_t MAX_CACHED = (size_t)256 << 20;

typedef struct block {
    struct block *next;
    talc_device *device;
    char *data;
    size_t bytes;
    bool held;       /* by a tensor */
    bool copying;    /* `copied` is recorded, on `stream`, and was not yet seen to be done */
    bool arriving;   /* one of these copies writes the block */
    uint64_t copies; /* queued so far */
    cudaEvent_t copied;
    cudaStream_t stream;
} block;

static block *blocks;
static size_t kept;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool done(block *b)
{
    if (b->copying && cudaEventQuery(b->copied) == cudaSuccess)
        b->copying = b->arriving = false;
    (void)cudaGetLastError();
    return !b->copying;
}

/* Waits for the copies; on a device that is no longer there they are over. */
static void free_block(block *b)
{
    if (talc_cuda_usable(b->device)) {
        if (b->copying)
            (void)cudaEventSynchronize(b->copied);
        (void)cudaEventDestroy(b->copied);
        (void)cudaFreeHost(b->data);
        (void)cudaGetLastError();
    }
    talc_memory_free(b);
}

/* A kept block serves when it wastes at most an eighth. */
static block *reuse(const talc_device *device, size_t bytes)
{
    for (block *b = blocks; b != NULL; b = b->next)
        if (!b->held && b->device == device && b->bytes >= bytes && b->bytes - bytes <= bytes / 8 &&
            done(b)) {
            kept -= b->bytes;
            return b;
        }
    return NULL;
}

static cudaError_t lock_pages(block *b)
{
    return talc_allocation_allowed(b->bytes)
               ? cudaHostAlloc((void **)&b->data, b->bytes, cudaHostAllocPortable)
               : cudaErrorMemoryAllocation;
}

static talc_status out_of_memory(const talc_device *device, size_t bytes)
{
    char what[sizeof device->name + 32];
    size_t held = 0;
    pthread_mutex_lock(&lock);
    for (const block *b = blocks; b != NULL; b = b->next)
        held += b->device == device ? b->bytes : 0;
    pthread_mutex_unlock(&lock);
    snprintf(what, sizeof what, "page-locked memory for %s", device->name);
    return talc_out_of_memory("pinned", what, bytes, held,
                              talc_device_memory(talc_device_host()).free);
}

/* A fresh block; where there is no memory for it, kept blocks are given back first. */
static block *block_new(talc_device *device, size_t bytes)
{
    block *b = talc_memory_new(sizeof *b, "pinned");
    if (b == NULL)
        return NULL;
    *b = (block){ .device = device, .bytes = bytes, .held = true };
    cudaError_t error = cudaEventCreateWithFlags(&b->copied, cudaEventDisableTiming);
    if (error == cudaSuccess) {
        error = lock_pages(b);
        if (talc_cuda_relieved(device, error))
            error = lock_pages(b);
        if (error != cudaSuccess)
            (void)cudaEventDestroy(b->copied);
    }
    if (error == cudaSuccess)
        return b;
    (void)cudaGetLastError();
    if (error == cudaErrorMemoryAllocation)
        out_of_memory(device, bytes);
    else
        talc_cuda_status(device, "pinned", error);
    talc_memory_free(b);
    return NULL;
}

void *talc_cuda_pin(talc_device *device, size_t bytes)
{
    if (talc_cuda_enter(device, "pinned") != TALC_OK)
        return NULL;
    pthread_mutex_lock(&lock);
    block *b = reuse(device, bytes);
    if (b != NULL)
        b->held = true;
    pthread_mutex_unlock(&lock);
    if (b != NULL)
        return b->data;
    b = block_new(device, bytes);
    if (b == NULL)
        return NULL;
    pthread_mutex_lock(&lock);
    b->next = blocks;
    blocks = b;
    pthread_mutex_unlock(&lock);
    return b->data;
}

/* The block that holds the address. */
static block *find(const void *host)
{
    block *b = blocks;
    while (b != NULL && !((const char *)host >= b->data && (const char *)host < b->data + b->bytes))
        b = b->next;
    return b;
}

/* With the lock: takes blocks that nobody holds out of the list, of one device or of all, until at
 * most so many bytes are kept. */
static block *take_cached(const talc_device *device, size_t max)
{
    block *taken = NULL;
    for (block **at = &blocks; *at != NULL && kept > max;) {
        block *b = *at;
        if (b->held || (device != NULL && b->device != device)) {
            at = &b->next;
            continue;
        }
        *at = b->next;
        kept -= b->bytes;
        b->next = taken;
        taken = b;
    }
    return taken;
}

/* Without the lock, as it may wait for copies; the bytes. */
static size_t free_blocks(block *taken)
{
    size_t bytes = 0;
    while (taken != NULL) {
        block *next = taken->next;
        bytes += taken->bytes;
        free_block(taken);
        taken = next;
    }
    return bytes;
}

void talc_cuda_unpin(talc_device *device, void *data)
{
    (void)device;
    pthread_mutex_lock(&lock);
    block *b = find(data);
    b->held = false;
    kept += b->bytes;
    block *taken = take_cached(NULL, talc_cuda_usable(b->device) ? MAX_CACHED : 0);
    pthread_mutex_unlock(&lock);
    free_blocks(taken);
}

size_t talc_cuda_trim(talc_device *device)
{
    pthread_mutex_lock(&lock);
    block *taken = take_cached(device, 0);
    pthread_mutex_unlock(&lock);
    return free_blocks(taken);
}

void talc_cuda_pinned_end(talc_device *device)
{
    pthread_mutex_lock(&lock);
    if (talc_cuda_usable(device))
        for (block *b = blocks; b != NULL; b = b->next)
            if (b->device == device && b->copying && cudaEventSynchronize(b->copied) == cudaSuccess)
                b->copying = b->arriving = false;
    (void)cudaGetLastError();
    pthread_mutex_unlock(&lock);
    talc_cuda_trim(device);
}

// ---- Copies -------------------------------------------------------------------------------------

/* Queues a copy and notes when the block is free of it and of those before, whatever stream they
 * are on. */
static talc_status copy(talc_device *device, const char *who, void *dst, const void *src,
                        const void *host, size_t bytes, enum cudaMemcpyKind kind)
{
    const talc_status status = talc_cuda_enter(device, who);
    if (status != TALC_OK)
        return status;
    const cudaStream_t stream = talc_cuda_stream(device);
    pthread_mutex_lock(&lock);
    block *b = find(host);
    cudaError_t error = cudaSuccess;
    if (b->copying && b->stream != stream)
        error = cudaStreamWaitEvent(stream, b->copied, 0);
    if (error == cudaSuccess)
        error = cudaMemcpyAsync(dst, src, bytes, kind, stream);
    if (error == cudaSuccess) {
        b->copying = true;
        b->arriving = b->arriving || kind == cudaMemcpyDeviceToHost;
        b->stream = stream;
        b->copies++;
        error = cudaEventRecord(b->copied, stream);
    }
    pthread_mutex_unlock(&lock);
    return talc_cuda_status(device, who, error);
}

talc_status talc_cuda_send(talc_device *device, void *dst, const void *host, size_t bytes)
{
    return copy(device, "upload", dst, host, host, bytes, cudaMemcpyHostToDevice);
}

talc_status talc_cuda_receive(talc_device *device, void *host, const void *src, size_t bytes)
{
    return copy(device, "download", host, src, host, bytes, cudaMemcpyDeviceToHost);
}

/* What the host wrote itself is there on a lost device too; what has not arrived by then never
 * will. The lock is not held for the copies: the caller's tensor holds the block. */
talc_status talc_cuda_await(talc_device *device, const void *host)
{
    pthread_mutex_lock(&lock);
    block *b = find(host);
    const bool waits = b->copying && (b->arriving || talc_cuda_usable(device));
    const uint64_t copies = b->copies;
    pthread_mutex_unlock(&lock);
    if (!waits)
        return TALC_OK;
    talc_status status = talc_cuda_enter(device, "data");
    if (status == TALC_OK)
        status = talc_cuda_status(device, "data", cudaEventSynchronize(b->copied));
    if (status != TALC_OK)
        return status;
    pthread_mutex_lock(&lock);
    if (b->copies == copies) /* none was queued meanwhile */
        b->copying = b->arriving = false;
    pthread_mutex_unlock(&lock);
    return talc_cuda_fault_raise(device);
}
