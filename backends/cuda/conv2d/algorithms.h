/// The GPU's conv2d algorithms: their table, and the functions behind its lines. Private to
/// backends/cuda.
///
/// An algorithm's forward direction is in the file of its name, whatever its form, or of name and
/// form. Its gradients, TALC_GRAD_INPUT and TALC_GRAD_WEIGHT, have a plan and a run of their own in
/// NAME_gradient, those of split in input_gradient.cu, those of implicit_gemm and pointwise_mma
/// beside it.
#ifndef TALC_BACKENDS_CUDA_CONV2D_ALGORITHMS_H
#define TALC_BACKENDS_CUDA_CONV2D_ALGORITHMS_H

#include "ops/conv2d.h"

TALC_BEGIN_DECLARATIONS

/// Each estimates; the one of the least estimate runs, of equal ones the first. A form that its
/// name prefers stands before the others and estimates no more than they do.
// clang-format off
//    functions  name, form                                        arithmetic, precision
#define TALC_CUDA_CONV2D_TABLE(X)                                                       \
    X(implicit_gemm_wgmma, "implicit_gemm", "wgmma", "f16 high and low parts on tensor cores, f32 sums", TALC_STRICT) \
    X(implicit_gemm_wgmma_tf32, "implicit_gemm", "wgmma", "f16 on tensor cores, f32 sums",  TALC_TF32) \
    X(implicit_gemm_rows_tf32, "implicit_gemm", "bulk-copied rows", "f16 on tensor cores, f32 sums", TALC_TF32) \
    X(implicit_gemm_mma, "implicit_gemm", "mma", "f16 high and low parts on tensor cores, f32 sums", TALC_STRICT) \
    X(implicit_gemm_mma_tf32, "implicit_gemm", "mma", "f16 on tensor cores, f32 sums",      TALC_TF32) \
    X(pointwise_mma, "pointwise", "mma", "f16 high and low parts on tensor cores, f32 sums", TALC_STRICT) \
    X(pointwise_mma_tf32, "pointwise", "mma", "f16 on tensor cores, f32 sums",              TALC_TF32) \
    X(gather_gemm, "gather_gemm", NULL, "TF32 high and low parts on tensor cores, f32 sums", TALC_STRICT) \
    X(gather_gemm_tf32, "gather_gemm", NULL, "TF32 on tensor cores, f32 sums",              TALC_TF32) \
    X(depthwise_register_tiles, "depthwise", "register tiles", "the data's own type, FMA", TALC_STRICT) \
    X(depthwise_warp_tiles, "depthwise", "warp tiles", "the data's own type, FMA", TALC_STRICT) \
    X(depthwise_plane_tiles, "depthwise", "plane tiles", "the data's own type, FMA", TALC_STRICT) \
    X(depthwise_phases, "depthwise", "phases", "the data's own type, FMA", TALC_STRICT) \
    X(depthwise_polyphase, "depthwise", "polyphase", "the data's own type, FMA", TALC_STRICT) \
    X(depthwise_outputs, "depthwise", "outputs", "the data's own type, FMA", TALC_STRICT) \
    X(split, "split", NULL, "the data's own type, FMA",                       TALC_STRICT) \
    X(pointwise_cublas, "pointwise", "cublas", "the data's own type, FMA",                     TALC_STRICT) \
    X(pointwise_cublas_tf32, "pointwise", "cublas", "TF32 by cuBLAS on tensor cores, f32 sums", TALC_TF32) \
    X(pointwise_dot, "pointwise", "dot", "the data's own type, FMA", TALC_STRICT) \
    X(pointwise_tiles, "pointwise", "tiles", "the data's own type, FMA", TALC_STRICT) \
    X(pointwise_small_tiles, "pointwise", "small tiles", "the data's own type, FMA", TALC_STRICT) \
    X(direct_textbook, "direct", "textbook", "the data's own type, FMA", TALC_STRICT) \
    X(direct_phases, "direct", "phases", "the data's own type, FMA", TALC_STRICT) \
    X(direct_small, "direct", "small", "the data's own type, FMA", TALC_STRICT) \
    X(direct_registers, "direct", "registers", "the data's own type, FMA", TALC_STRICT) \
    X(direct_one_by_one, "direct", "one by one", "the data's own type, FMA", TALC_STRICT) \
    X(im2col_tensor_cores, "im2col", "tensor cores", "f16 high and low parts on tensor cores, f32 sums", TALC_STRICT) \
    X(im2col_cublas, "im2col", "cublas", "the data's own type by cuBLAS, FMA", TALC_STRICT)
// clang-format on

#define TALC_CUDA_CONV2D_FUNCTIONS(name, ...)                                                      \
    const char *talc_cuda_conv2d_##name##_plan(const talc_device *device, const void *problem,     \
                                               size_t limit, talc_plan *plan);                     \
    talc_status talc_cuda_conv2d_##name##_run(talc_device *device, const void *problem,            \
                                              const talc_plan *plan, const void *arguments);       \
    const char *talc_cuda_conv2d_##name##_gradient_plan(                                           \
        const talc_device *device, const void *problem, size_t limit, talc_plan *plan);            \
    talc_status talc_cuda_conv2d_##name##_gradient_run(                                            \
        talc_device *device, const void *problem, const talc_plan *plan, const void *arguments);
TALC_CUDA_CONV2D_TABLE(TALC_CUDA_CONV2D_FUNCTIONS)
#undef TALC_CUDA_CONV2D_FUNCTIONS

/// An estimate: talc_cuda_seconds for the problem's products.
double talc_cuda_conv2d_seconds(const talc_device *device, const talc_conv2d_problem *problem,
                                double share, double bytes, int launches);

/// Why a convolution is not a product of its images as they are; NULL when it is.
const char *talc_cuda_conv2d_pointwise_refuses(const talc_conv2d_problem *problem);

/// Why it is not one by cuBLAS with TF32; else NULL and the plan's seconds. Any direction.
const char *talc_cuda_conv2d_pointwise_tf32(const talc_device *device,
                                            const talc_conv2d_problem *problem, talc_plan *plan);

TALC_END_DECLARATIONS

#endif
