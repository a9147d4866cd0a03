/// Counters by which the blocks of a launch find out which is the last. Private to backends/cuda.
#ifndef TALC_BACKENDS_CUDA_DEVICE_COUNTER_H
#define TALC_BACKENDS_CUDA_DEVICE_COUNTER_H

#include "backends/cuda/cuda.h"

TALC_BEGIN_DECLARATIONS

/// A number in device memory that is 0 when the next kernel of the calling thread begins, as long
/// as each kernel that changes it leaves 0. No launch that may run beside that one has the same:
/// each stream has one, on which launches follow each other, and so has each graph, which may run
/// on any stream.
unsigned *talc_cuda_counter(const talc_device *device);

/// That of the graph which the thread records; NULL: it records none.
unsigned *talc_cuda_recording_counter(const talc_device *device);

/// Where kernels count the results that they compute a second time; and what it is, from where it
/// begins anew.
unsigned long long *talc_cuda_recomputed(const talc_device *device);
uint64_t talc_cuda_take_recomputed(talc_device *device);

/// Makes the streams' once the device has its own stream, and frees them.
cudaError_t talc_cuda_counters_open(const talc_device *device);
void talc_cuda_counters_close(const talc_device *device);

TALC_END_DECLARATIONS

#endif
