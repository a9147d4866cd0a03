#include "backends/cuda/device/fault.h"

#include "ops/labels.h"

#include <pthread.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

talc_cuda_fault *talc_cuda_fault_of(talc_device *device, const char *who)
{
    talc_cuda_state *state = talc_cuda_state_of(device);
    void *record = NULL;
    pthread_mutex_lock(&lock);
    if (state->fault == NULL) {
        cudaError_t error = cudaHostAlloc(&record, sizeof *state->fault, cudaHostAllocMapped);
        if (talc_cuda_relieved(device, error))
            error = cudaHostAlloc(&record, sizeof *state->fault, cudaHostAllocMapped);
        if (talc_cuda_status(device, who, error) == TALC_OK) {
            memset(record, 0, sizeof *state->fault);
            state->fault = record;
        }
    }
    talc_cuda_fault *fault = state->fault;
    pthread_mutex_unlock(&lock);
    return fault;
}

talc_status talc_cuda_fault_raise(talc_device *device)
{
    talc_cuda_fault found = { 0 };
    pthread_mutex_lock(&lock);
    volatile talc_cuda_fault *fault = talc_cuda_state_of(device)->fault;
    if (fault != NULL && fault->complete != 0) {
        found = (talc_cuda_fault){
            1, 1, fault->element, fault->label, fault->classes, fault->op, fault->by_index
        };
        fault->op = NULL;
        fault->by_index = false;
        fault->complete = 0;
        fault->claimed = 0;
    }
    pthread_mutex_unlock(&lock);
    if (found.complete == 0)
        return TALC_OK;
    if (found.by_index)
        return talc_bad_index(found.op, found.element, found.label, found.classes);
    return talc_bad_label(found.op == NULL ? "cross_entropy" : found.op, found.element, found.label,
                          found.classes);
}

void talc_cuda_fault_free(talc_device *device)
{
    talc_cuda_state *state = talc_cuda_state_of(device);
    if (state == NULL || state->fault == NULL)
        return;
    (void)cudaFreeHost(state->fault);
    (void)cudaGetLastError();
    state->fault = NULL;
}
