/// Named ranges for profilers. Private to backends/cuda.
#ifndef TALC_BACKENDS_CUDA_DEVICE_RANGES_H
#define TALC_BACKENDS_CUDA_DEVICE_RANGES_H

#include "tensor/device.h"

/// Whether a tool listens; found out when first asked, so a tool has to be there when the first GPU
/// is opened.
bool talc_cuda_ranges_wanted(void);

/* Of the device interface: ranges of the NVTX domain "talc". */
void talc_cuda_range_begin(talc_device *device, const char *name);
void talc_cuda_range_end(talc_device *device);

#endif
