/// The GPU's conv2d algorithms, one a file: their table, and the functions behind its rows. Private to backends/cuda.
#ifndef TALC_BACKENDS_CUDA_CONV2D_ROWS_H
#define TALC_BACKENDS_CUDA_CONV2D_ROWS_H

#include "ops/conv2d.h"

TALC_BEGIN_DECLARATIONS

/// Most specialised first; the first row that does not refuse runs. `workspace` is NULL where none is used.
// clang-format off
//    name       workspace                          arithmetic                                       precision
#define TALC_CUDA_CONV2D_TABLE(X)                                                                               \
    X(depthwise, NULL,                              "the data's own type, FMA",                      TALC_STRICT) \
    X(split,     NULL,                              "the data's own type, FMA",                      TALC_STRICT) \
    X(pointwise, NULL,                              "products in the data's own type by cuBLAS, FMA", TALC_STRICT) \
    X(im2col,    talc_cuda_conv2d_im2col_workspace, "products in the data's own type by cuBLAS, FMA", TALC_STRICT) \
    X(direct,    talc_cuda_conv2d_direct_workspace, "the data's own type, FMA",                      TALC_STRICT)
// clang-format on

/* Those with NULL in the table define no _workspace. */
#define TALC_CUDA_CONV2D_FUNCTIONS(name, ...)                                                      \
    const char *talc_cuda_conv2d_##name##_refuses(const talc_conv2d_problem *problem);             \
    size_t talc_cuda_conv2d_##name##_workspace(const talc_device *device,                          \
                                               const talc_conv2d_problem *problem, size_t limit);  \
    talc_status talc_cuda_conv2d_##name##_run(talc_device *device,                                 \
                                              const talc_conv2d_problem *problem,                  \
                                              const talc_conv2d_arguments *arguments);
TALC_CUDA_CONV2D_TABLE(TALC_CUDA_CONV2D_FUNCTIONS)
#undef TALC_CUDA_CONV2D_FUNCTIONS

TALC_END_DECLARATIONS

#endif
