#include "backends/cuda/device/counter.h"

#include "tensor/streams.h"

static unsigned *of_streams[TALC_CUDA_GPUS]; /* by the stream's number */

cudaError_t talc_cuda_counters_open(const talc_device *device)
{
    const talc_cuda_state *state = talc_cuda_state_of(device);
    unsigned **all = &of_streams[state->index];
    const size_t bytes = TALC_STREAMS * sizeof **all + sizeof(unsigned long long);
    const cudaError_t error = cudaMalloc((void **)all, bytes);
    return error != cudaSuccess ? error : cudaMemsetAsync(*all, 0, bytes, state->stream);
}

void talc_cuda_counters_close(const talc_device *device)
{
    unsigned **all = &of_streams[talc_cuda_state_of(device)->index];
    if (*all != NULL)
        (void)cudaFree(*all);
    *all = NULL;
}

unsigned *talc_cuda_counter(const talc_device *device)
{
    unsigned *recording = talc_cuda_recording_counter(device);
    return recording != NULL
               ? recording
               : &of_streams[talc_cuda_state_of(device)->index][talc_stream_number(device)];
}

/* Behind those of the streams. */
unsigned long long *talc_cuda_recomputed(const talc_device *device)
{
    return (unsigned long long *)(of_streams[talc_cuda_state_of(device)->index] + TALC_STREAMS);
}

uint64_t talc_cuda_take_recomputed(talc_device *device)
{
    unsigned long long count = 0;
    unsigned long long *at = talc_cuda_recomputed(device);
    if (talc_cuda_download(device, &count, at, sizeof count) != TALC_OK ||
        talc_cuda_status(device, "device_recomputed",
                         cudaMemsetAsync(at, 0, sizeof count, talc_cuda_stream(device))) != TALC_OK)
        return 0;
    return count;
}
