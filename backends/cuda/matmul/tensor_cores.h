/// The algorithm `tensor_cores` of matrix products, in two forms. Private to backends/cuda.
#ifndef TALC_BACKENDS_CUDA_MATMUL_TENSOR_CORES_H
#define TALC_BACKENDS_CUDA_MATMUL_TENSOR_CORES_H

#include "backends/cuda/cuda.h"

TALC_BEGIN_DECLARATIONS

const char *talc_cuda_tensor_cores_plan(const talc_device *device,
                                        const talc_matmul_problem *problem, size_t limit,
                                        talc_plan *plan);
talc_status talc_cuda_tensor_cores_run(talc_device *device, const talc_matmul_problem *problem,
                                       const talc_plan *plan,
                                       const talc_matmul_arguments *arguments);

const char *talc_cuda_split_on_load_plan(const talc_device *device,
                                         const talc_matmul_problem *problem, size_t limit,
                                         talc_plan *plan);
talc_status talc_cuda_split_on_load_run(talc_device *device, const talc_matmul_problem *problem,
                                        const talc_plan *plan,
                                        const talc_matmul_arguments *arguments);

TALC_END_DECLARATIONS

#endif
