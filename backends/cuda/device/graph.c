/// CUDA graphs: a thread's work on a GPU, captured on a stream of its own and replayed as one
/// launch.
#include "backends/cuda/device/counter.h"

#include "tensor/error.h"
#include "tensor/memory.h"
#include "tensor/pool.h"

typedef struct graph {
    cudaGraphExec_t exec;
    cudaEvent_t done;    /* after the last replay */
    cudaStream_t stream; /* of the last replay; NULL: there was none */
    talc_block counter;  /* talc_cuda_counter's */
} graph;

/* Work of other threads goes where it always goes. */
static _Thread_local struct {
    const talc_device *device;
    cudaStream_t stream;
    talc_block counter;
} recording;

cudaStream_t talc_cuda_recording_stream(const talc_device *device)
{
    return recording.device == device ? recording.stream : NULL;
}

unsigned *talc_cuda_recording_counter(const talc_device *device)
{
    return recording.device == device ? recording.counter.data : NULL;
}

/* Relaxed, so that the pool may ask the system for memory meanwhile, here and in other threads;
 * what waits for the stream fails in any mode. */
static cudaError_t begin(cudaStream_t *stream)
{
    cudaError_t error = cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking);
    if (error != cudaSuccess)
        return error;
    error = cudaStreamBeginCapture(*stream, cudaStreamCaptureModeRelaxed);
    if (error != cudaSuccess)
        (void)cudaStreamDestroy(*stream);
    return error;
}

talc_status talc_cuda_record_begin(talc_device *device)
{
    talc_block counter;
    cudaStream_t stream;
    talc_status status = talc_cuda_enter(device, "capture");
    if (status == TALC_OK)
        status = talc_block_new(device, "capture", sizeof(unsigned), &counter);
    if (status != TALC_OK)
        return status;
    cudaError_t error =
        cudaMemsetAsync(counter.data, 0, sizeof(unsigned), talc_cuda_stream(device));
    if (error == cudaSuccess)
        error = begin(&stream);
    if (error != cudaSuccess) {
        talc_block_free(device, counter);
        return talc_cuda_status(device, "capture", error);
    }
    recording.device = device;
    recording.stream = stream;
    recording.counter = counter;
    return TALC_OK;
}

static void destroy(talc_device *device, graph *g)
{
    talc_block_free(device, g->counter);
    if (g->done != NULL)
        (void)cudaEventDestroy(g->done);
    if (g->exec != NULL)
        (void)cudaGraphExecDestroy(g->exec);
    talc_memory_free(g);
}

void *talc_cuda_record_end(talc_device *device)
{
    const cudaStream_t stream = talc_cuda_recording_stream(device);
    cudaGraph_t captured = NULL;
    cudaError_t error = cudaStreamEndCapture(stream, &captured);
    const talc_block counter = recording.counter;
    recording.device = NULL;
    recording.stream = NULL;
    (void)cudaStreamDestroy(stream);
    graph *g = error != cudaSuccess ? NULL : talc_memory_new(sizeof *g, "capture");
    if (g == NULL) {
        talc_block_free(device, counter);
    } else {
        g->counter = counter;
        error = cudaGraphInstantiate(&g->exec, captured, 0);
        if (talc_cuda_relieved(device, error))
            error = cudaGraphInstantiate(&g->exec, captured, 0);
        if (error == cudaSuccess)
            error = cudaGraphUpload(g->exec, talc_cuda_stream(device));
        if (talc_cuda_relieved(device, error))
            error = cudaGraphUpload(g->exec, talc_cuda_stream(device));
        if (error == cudaSuccess)
            error = cudaEventCreateWithFlags(&g->done, cudaEventDisableTiming);
    }
    if (captured != NULL)
        (void)cudaGraphDestroy(captured);
    if (talc_cuda_status(device, "capture", error) == TALC_OK)
        return g;
    if (g != NULL)
        destroy(device, g);
    return NULL;
}

/* One graph cannot run twice at once, so replays on two streams wait for each other. */
talc_status talc_cuda_replay(talc_device *device, void *noted)
{
    graph *g = noted;
    talc_status status = talc_cuda_enter(device, "graph_replay");
    if (status != TALC_OK)
        return status;
    const cudaStream_t stream = talc_cuda_stream(device);
    cudaError_t error = cudaSuccess;
    if (g->stream != NULL && g->stream != stream)
        error = cudaStreamWaitEvent(stream, g->done, 0);
    if (error == cudaSuccess)
        error = cudaGraphLaunch(g->exec, stream);
    if (error == cudaSuccess)
        error = cudaEventRecord(g->done, stream);
    g->stream = stream;
    return talc_cuda_status(device, "graph_replay", error);
}

void talc_cuda_record_free(talc_device *device, void *noted)
{
    graph *g = noted;
    if (!talc_cuda_usable(device)) {
        talc_block_free(device, g->counter);
        talc_memory_free(g); /* what CUDA held is gone with the context */
        return;
    }
    if (g->stream != NULL)
        (void)cudaEventSynchronize(g->done);
    destroy(device, g);
    (void)cudaGetLastError();
}
