/// The CUDA backend's parts. Private to backends/.
///
/// C files hold what the host does, .cu files a kernel or two with the function that launches them.
/// A GPU is a device with one stream; all its work goes there in order, so memory that the pool
/// hands on needs no waiting.
#ifndef TALC_BACKENDS_CUDA_CUDA_H
#define TALC_BACKENDS_CUDA_CUDA_H

#include "ops/backend.h"
#include "ops/batch_norm2d.h"
#include "ops/conv2d.h"
#include "ops/cross_entropy.h"
#include "ops/elementwise.h"
#include "ops/group_norm.h"
#include "ops/matmul.h"
#include "ops/pool2d.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/update.h"
#include "tensor/device.h"

#include <cuda_runtime_api.h>

TALC_BEGIN_DECLARATIONS

/// The GPU of that name, "cuda" or "cuda:N", opened when first asked for. NULL, with
/// TALC_BAD_DEVICE and what is missing: a driver, a newer driver, a GPU, one of that number.
talc_device *talc_cuda_find(const char *name);

/// Whether there is a GPU that a driver of this machine can use. Raises nothing.
bool talc_cuda_present(void);

/// The algorithm tables of every GPU.
extern const struct talc_backend talc_cuda_backend;

/// GPUs beyond these are not seen.
enum { TALC_CUDA_GPUS = 16 };

/// Bytes up to which a kernel is queued in less time than a copy of the runtime's.
enum { TALC_CUDA_SMALL_COPY = 1 << 18 };

/// What a GPU is, for kernels that size themselves by it, and what has become of it.
typedef struct talc_cuda_state {
    int index;
    int capability; ///< 90: compute capability 9.0
    int multiprocessors;
    int block_shared;    ///< bytes of shared memory that a block may ask for
    cudaStream_t stream; ///< the device's own
    cudaEvent_t order;   ///< of talc_cuda_order, one call at a time
    int lost;            ///< a cudaError_t: nothing more runs; cudaSuccess while all is well
    char lost_in[48];    ///< the op that noticed it
    struct talc_cuda_fault
        *fault; ///< what kernels find wrong in their data (fault.h); NULL until one may
} talc_cuda_state;

static inline talc_cuda_state *talc_cuda_state_of(const talc_device *device)
{
    return (talc_cuda_state *)device->state;
}

/// Where the calling thread's work on the device goes: a graph that it records, the stream it has
/// entered (tensor/stream.h), else the device's own.
cudaStream_t talc_cuda_stream(const talc_device *device);

/// Makes the device the calling thread's current one; TALC_DEVICE_LOST's failure when a fault has
/// ended it, and a failure when it is closed.
talc_status talc_cuda_enter(talc_device *device, const char *who);

/// The same without a failure, for what gives things back: false when there is nothing left to give
/// back to.
bool talc_cuda_usable(const talc_device *device);

/// TALC_OK for cudaSuccess, else the failure raised; a sticky error ends the device. `who` names
/// the op.
talc_status talc_cuda_status(talc_device *device, const char *who, cudaError_t error);

/// Ends the device when the error is a sticky one, and raises nothing.
void talc_cuda_record_error(talc_device *device, const char *who, cudaError_t error);

/// Whether a call that returned `error` is worth another try: it lacked memory, and memory that
/// talc keeps for later has been given back.
bool talc_cuda_relieved(talc_device *device, cudaError_t error);

/// Raises why a launch failed. One that lacked memory, to load the kernel, finds it when it is
/// tried again.
talc_status talc_cuda_not_launched(talc_device *device, const char *who, cudaError_t error);

/// What a launch that went before returned.
static inline talc_status talc_cuda_launched(talc_device *device, const char *who)
{
    const cudaError_t error = cudaGetLastError();
    return error == cudaSuccess ? TALC_OK : talc_cuda_not_launched(device, who, error);
}

/* Parts of the device interface that have files of their own. */
void *talc_cuda_allocate(talc_device *device, size_t bytes);
void talc_cuda_deallocate(talc_device *device, void *data, size_t bytes);
talc_status talc_cuda_upload(talc_device *device, void *dst, const void *host, size_t bytes);
talc_status talc_cuda_download(talc_device *device, void *host, const void *src, size_t bytes);
void *talc_cuda_pin(talc_device *device, size_t bytes);
void talc_cuda_unpin(talc_device *device, void *data);
size_t talc_cuda_trim(talc_device *device);
talc_status talc_cuda_send(talc_device *device, void *dst, const void *host, size_t bytes);
talc_status talc_cuda_receive(talc_device *device, void *host, const void *src, size_t bytes);
talc_status talc_cuda_await(talc_device *device, const void *host);
talc_status talc_cuda_from_peer(talc_device *device, void *dst, talc_device *peer, const void *src,
                                size_t bytes);
talc_status talc_cuda_order(talc_device *device, int stream, int after);
talc_status talc_cuda_takes_stream(talc_device *device, void *stream);
talc_status talc_cuda_synchronize(talc_device *device);
talc_status talc_cuda_synchronize_all(talc_device *device);
void *talc_cuda_callers_stream(talc_device *device);
void *talc_cuda_stream_new(talc_device *device);
void talc_cuda_stream_free(talc_device *device, void *stream);
talc_status talc_cuda_stream_wait(talc_device *device, void *stream, bool back);
bool talc_cuda_stream_idle(talc_device *device, void *stream);
talc_status talc_cuda_copy(talc_device *device, const talc_copy_problem *problem, void *dst,
                           const void *src);
talc_status talc_cuda_fill(talc_device *device, const talc_fill_problem *problem, void *dst);
talc_status talc_cuda_join(talc_device *device, const talc_join_problem *problem, void *dst);
talc_status talc_cuda_random(talc_device *device, const talc_random_problem *problem, void *dst);
talc_status talc_cuda_timer_start(talc_device *device, void **timer);
talc_status talc_cuda_timer_stop(talc_device *device, void *timer, double *seconds);
talc_status talc_cuda_record_begin(talc_device *device);
void *talc_cuda_record_end(talc_device *device);
talc_status talc_cuda_replay(talc_device *device, void *noted);
void talc_cuda_record_free(talc_device *device, void *noted);

/// The stream on which this thread's work is being recorded; NULL: none is.
cudaStream_t talc_cuda_recording_stream(const talc_device *device);

/// Gives back to the system all that talc_cuda_allocate took, the memory of tensors that still live
/// too.
void talc_cuda_memory_end(talc_device *device);

/// The same for page-locked memory, but for what tensors of the host still hold, once its copies
/// are done.
void talc_cuda_pinned_end(talc_device *device);

/// Whether, at the end of the process, other threads may be anywhere in their work on a GPU. All is
/// then left to the driver: from here on what they begin fails, and what they have begun is waited
/// for.
bool talc_cuda_used_by_others(void);

/// Waits until nobody is opening cuBLAS; whoever begins to waits for ever. For the end of the
/// process.
void talc_cuda_blas_settle(void);

/// Gives back the device's cuBLAS handle, if it has one.
void talc_cuda_blas_close(talc_device *device);

/// Bytes up to where the next part of a workspace may begin.
static inline size_t talc_cuda_aligned(size_t bytes)
{
    enum { ALIGNMENT = 256 };
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* The lists of the tables. */
#define TALC_OP(name, names, operands) extern const talc_algorithm talc_cuda_##name[];
#include "ops/ops.def"

TALC_END_DECLARATIONS

#endif
