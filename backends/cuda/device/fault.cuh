/// How kernels tell what they find wrong in their data. Private to backends/cuda.
#ifndef TALC_BACKENDS_CUDA_DEVICE_FAULT_CUH
#define TALC_BACKENDS_CUDA_DEVICE_FAULT_CUH

#include "backends/cuda/device/fault.h"

namespace talc
{

/// Element `element` of labels, or of the index of a gather, is `label`, and `classes` are allowed.
/// `op` is a string of the host.
static __device__ void tell(volatile talc_cuda_fault *fault, const char *op, int64_t element,
                            int64_t label, int64_t classes, bool by_index = false)
{
    if (atomicCAS((unsigned *)&fault->claimed, 0u, 1u) != 0)
        return;
    fault->element = element;
    fault->label = label;
    fault->classes = classes;
    fault->op = op;
    fault->by_index = by_index;
    __threadfence_system();
    fault->complete = 1;
}

} // namespace talc

#endif
