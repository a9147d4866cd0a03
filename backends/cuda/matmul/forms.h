/// The algorithms of matrix products that are not cuBLAS's. Convolutions call some: of kernels
/// that cover the image, and those that im2col makes. Private to backends/cuda.
#ifndef TALC_BACKENDS_CUDA_MATMUL_FORMS_H
#define TALC_BACKENDS_CUDA_MATMUL_FORMS_H

#include "backends/cuda/cuda.h"

TALC_BEGIN_DECLARATIONS

#define TALC_CUDA_MATMUL_FORM(name)                                                                \
    const char *talc_cuda_matmul_##name##_plan(const talc_device *device,                          \
                                               const talc_matmul_problem *problem, size_t limit,   \
                                               talc_plan *plan);                                   \
    talc_status talc_cuda_matmul_##name##_run(                                                     \
        talc_device *device, const talc_matmul_problem *problem, const talc_plan *plan,            \
        const talc_matmul_arguments *arguments);
TALC_CUDA_MATMUL_FORM(dot)
TALC_CUDA_MATMUL_FORM(tiles)
TALC_CUDA_MATMUL_FORM(small_tiles)
TALC_CUDA_MATMUL_FORM(tensor_cores)
TALC_CUDA_MATMUL_FORM(split_on_load)
#undef TALC_CUDA_MATMUL_FORM

TALC_END_DECLARATIONS

#endif
