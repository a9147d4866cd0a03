/// The GPU's conv2d algorithms, one a file: their table, and the functions behind its rows. Private to backends/cuda.
#ifndef TALC_BACKENDS_CUDA_CONV2D_ROWS_H
#define TALC_BACKENDS_CUDA_CONV2D_ROWS_H

#include "ops/conv2d.h"

TALC_BEGIN_DECLARATIONS

/// Most specialised first; the first row that neither refuses nor yields runs. `workspace` is NULL where none is used,
/// `yields` where a row never does.
// clang-format off
//    name       workspace                           yields                          arithmetic                                        precision
#define TALC_CUDA_CONV2D_TABLE(X)                                                                                                                 \
    X(depthwise, NULL,                               NULL,                           "the data's own type, FMA",                       TALC_STRICT) \
    X(split,     NULL,                               NULL,                           "the data's own type, FMA",                       TALC_STRICT) \
    X(pointwise, NULL,                               NULL,                           "products in the data's own type by cuBLAS, FMA", TALC_STRICT) \
    X(direct,    talc_cuda_conv2d_direct_workspace,  talc_cuda_conv2d_direct_yields, "the data's own type, FMA",                       TALC_STRICT) \
    X(im2col,    talc_cuda_conv2d_im2col_workspace,  NULL,                           "products in the data's own type by cuBLAS, FMA", TALC_STRICT)
// clang-format on

/* Those with NULL in the table define no _workspace or no _yields. */
#define TALC_CUDA_CONV2D_FUNCTIONS(name, ...)                                                      \
    const char *talc_cuda_conv2d_##name##_refuses(const talc_conv2d_problem *problem);             \
    size_t talc_cuda_conv2d_##name##_workspace(const talc_device *device,                          \
                                               const talc_conv2d_problem *problem, size_t limit);  \
    talc_status talc_cuda_conv2d_##name##_run(talc_device *device,                                 \
                                              const talc_conv2d_problem *problem,                  \
                                              const talc_conv2d_arguments *arguments);             \
    const char *talc_cuda_conv2d_##name##_yields(                                                  \
        const talc_device *device, const talc_conv2d_problem *problem, size_t limit);
TALC_CUDA_CONV2D_TABLE(TALC_CUDA_CONV2D_FUNCTIONS)
#undef TALC_CUDA_CONV2D_FUNCTIONS

/// How many of cuBLAS's tiles im2col has at once under the limit.
int64_t talc_cuda_conv2d_im2col_tiles(const talc_device *device, const talc_conv2d_problem *problem,
                                      size_t limit);

TALC_END_DECLARATIONS

#endif
