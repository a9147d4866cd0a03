/// Time on a GPU: two events in the order of its work, which the GPU stamps when it gets there.
#include "backends/cuda/cuda.h"

#include "backends/cuda/device/fault.h"

#include "tensor/memory.h"

typedef struct events {
    cudaEvent_t start, stop;
} events;

static void events_free(events *self)
{
    if (self->start != NULL)
        (void)cudaEventDestroy(self->start);
    if (self->stop != NULL)
        (void)cudaEventDestroy(self->stop);
    talc_memory_free(self);
}

talc_status talc_cuda_timer_start(talc_device *device, void **timer)
{
    const talc_status status = talc_cuda_enter(device, "timer_start");
    events *self = status != TALC_OK ? NULL : talc_memory_new(sizeof *self, "timer_start");
    if (self == NULL)
        return talc_error_status();
    cudaError_t error = cudaEventCreate(&self->start);
    if (error == cudaSuccess)
        error = cudaEventCreate(&self->stop);
    if (error == cudaSuccess)
        error = cudaEventRecord(self->start, talc_cuda_stream(device));
    if (error != cudaSuccess)
        events_free(self);
    else
        *timer = self;
    return talc_cuda_status(device, "timer_start", error);
}

talc_status talc_cuda_timer_stop(talc_device *device, void *timer, double *seconds)
{
    events *self = timer;
    float milliseconds = 0;
    talc_status status = talc_cuda_enter(device, "timer_stop");
    if (status == TALC_OK) {
        cudaError_t error = cudaEventRecord(self->stop, talc_cuda_stream(device));
        if (error == cudaSuccess)
            error = cudaEventSynchronize(self->stop);
        if (error == cudaSuccess)
            error = cudaEventElapsedTime(&milliseconds, self->start, self->stop);
        status = talc_cuda_status(device, "timer_stop", error);
    }
    if (status == TALC_OK)
        status = talc_cuda_fault_raise(device);
    *seconds = milliseconds * 1e-3;
    events_free(self);
    return status;
}
