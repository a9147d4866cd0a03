/// What kernels find wrong in their data, for the next call that waits. Private to backends/cuda.
#ifndef TALC_BACKENDS_CUDA_DEVICE_FAULT_H
#define TALC_BACKENDS_CUDA_DEVICE_FAULT_H

#include "backends/cuda/cuda.h"

TALC_BEGIN_DECLARATIONS

/// A label that is no class, or an index beyond its operand. In pinned host memory, which kernels
/// write: the one that sets `claimed` fills the rest in and then sets `complete`; only the first
/// since the last wait is kept.
typedef struct talc_cuda_fault {
    unsigned claimed, complete;
    int64_t element, label, classes;
    const char *op; ///< a string of the host; NULL: cross_entropy
    bool by_index;  ///< of an index
} talc_cuda_fault;

/// The device's record, made when it is first asked for; NULL with a failure. The device is
/// entered.
talc_cuda_fault *talc_cuda_fault_of(talc_device *device, const char *who);

/// Raises what the record holds and empties it. For calls that have waited for the device.
talc_status talc_cuda_fault_raise(talc_device *device);

/// Frees the record.
void talc_cuda_fault_free(talc_device *device);

TALC_END_DECLARATIONS

#endif
