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
#include "ops/owner_map.h"

TALC_BEGIN_DECLARATIONS

/// Each estimates; the one of the least estimate runs, of equal ones the first. A form that its
/// name prefers stands before the others and estimates no more than they do. `map`: who computes
/// what, of an algorithm that tells (ops/owner_map.h); NULL.
// clang-format off
//    functions  name, form                                        arithmetic, precision, map
#define TALC_CUDA_CONV2D_TABLE(X)                                                       \
    X(implicit_gemm_wgmma, "implicit_gemm", "wgmma", "f16 high and low parts on tensor cores, f32 sums", TALC_STRICT, talc_cuda_conv2d_implicit_gemm_wgmma_map) \
    X(implicit_gemm_wgmma_tf32, "implicit_gemm", "wgmma", "f16 on tensor cores, f32 sums",  TALC_TF32, talc_cuda_conv2d_implicit_gemm_wgmma_tf32_map) \
    X(implicit_gemm_rows_tf32, "implicit_gemm", "bulk-copied rows", "f16 on tensor cores, f32 sums", TALC_TF32, talc_cuda_conv2d_implicit_gemm_rows_tf32_map) \
    X(implicit_gemm_mma, "implicit_gemm", "mma", "f16 high and low parts on tensor cores, f32 sums", TALC_STRICT, talc_cuda_conv2d_implicit_gemm_mma_map) \
    X(implicit_gemm_mma_tf32, "implicit_gemm", "mma", "f16 on tensor cores, f32 sums",      TALC_TF32, talc_cuda_conv2d_implicit_gemm_mma_tf32_map) \
    X(implicit_gemm_bands, "implicit_gemm", "bands of taps", "f16 high and low parts on tensor cores, f32 sums", TALC_STRICT, NULL) \
    X(pointwise_mma, "pointwise", "mma", "f16 high and low parts on tensor cores, f32 sums", TALC_STRICT, NULL) \
    X(pointwise_mma_tf32, "pointwise", "mma", "f16 on tensor cores, f32 sums",              TALC_TF32, NULL) \
    X(gather_gemm, "gather_gemm", NULL, "TF32 high and low parts on tensor cores, f32 sums", TALC_STRICT, NULL) \
    X(gather_gemm_tf32, "gather_gemm", NULL, "TF32 on tensor cores, f32 sums",              TALC_TF32, NULL) \
    X(depthwise_register_tiles, "depthwise", "register tiles", "the data's own type, FMA", TALC_STRICT, NULL) \
    X(depthwise_warp_tiles, "depthwise", "warp tiles", "the data's own type, FMA", TALC_STRICT, NULL) \
    X(depthwise_columns, "depthwise", "columns", "the data's own type, FMA", TALC_STRICT, NULL) \
    X(depthwise_polyphase, "depthwise", "polyphase", "the data's own type, FMA", TALC_STRICT, NULL) \
    X(split, "split", NULL, "the data's own type, FMA",                       TALC_STRICT, NULL) \
    X(pointwise_cublas, "pointwise", "cublas", "the data's own type, FMA",                     TALC_STRICT, NULL) \
    X(pointwise_cublas_tf32, "pointwise", "cublas", "TF32 by cuBLAS on tensor cores, f32 sums", TALC_TF32, NULL) \
    X(pointwise_dot, "pointwise", "dot", "the data's own type, FMA", TALC_STRICT, NULL) \
    X(pointwise_tiles, "pointwise", "tiles", "the data's own type, FMA", TALC_STRICT, NULL) \
    X(pointwise_small_tiles, "pointwise", "small tiles", "the data's own type, FMA", TALC_STRICT, NULL) \
    X(direct_textbook, "direct", "textbook", "the data's own type, FMA", TALC_STRICT, talc_cuda_conv2d_direct_textbook_map) \
    X(direct_phases, "direct", "phases", "the data's own type, FMA", TALC_STRICT, NULL) \
    X(direct_small, "direct", "small", "the data's own type, FMA", TALC_STRICT, talc_cuda_conv2d_direct_small_map) \
    X(direct_few, "direct", "few channels", "the data's own type, FMA", TALC_STRICT, NULL) \
    X(direct_registers, "direct", "registers", "the data's own type, FMA", TALC_STRICT, NULL) \
    X(direct_one_by_one, "direct", "one by one", "the data's own type, FMA", TALC_STRICT, NULL) \
    X(im2col_tensor_cores, "im2col", "tensor cores", "f16 high and low parts on tensor cores, f32 sums", TALC_STRICT, NULL) \
    X(im2col_cublas, "im2col", "cublas", "the data's own type by cuBLAS, FMA", TALC_STRICT, talc_cuda_conv2d_im2col_cublas_map)
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

/// The functions of an algorithm without these directions.
#define TALC_CUDA_FORM_NONE(name, why)                                                             \
    const char *talc_cuda_conv2d_##name##_plan(const talc_device *device, const void *problem,     \
                                               size_t limit, talc_plan *plan)                      \
    {                                                                                              \
        (void)device, (void)problem, (void)limit, (void)plan;                                      \
        return why;                                                                                \
    }                                                                                              \
    talc_status talc_cuda_conv2d_##name##_run(talc_device *device, const void *problem,            \
                                              const talc_plan *plan, const void *arguments)        \
    {                                                                                              \
        (void)device, (void)problem, (void)plan, (void)arguments;                                  \
        return TALC_UNSUPPORTED; /* no plan leads here */                                          \
    }

talc_map_function talc_cuda_conv2d_implicit_gemm_wgmma_map,
    talc_cuda_conv2d_implicit_gemm_wgmma_tf32_map, talc_cuda_conv2d_implicit_gemm_rows_tf32_map,
    talc_cuda_conv2d_implicit_gemm_mma_map, talc_cuda_conv2d_implicit_gemm_mma_tf32_map,
    talc_cuda_conv2d_direct_textbook_map, talc_cuda_conv2d_direct_small_map,
    talc_cuda_conv2d_im2col_cublas_map;

/// The list with its maps, in builds without CUDA too.
extern const talc_mapped_algorithm talc_cuda_conv2d_mapped[];

/// An estimate: talc_cuda_seconds for the problem's products.
double talc_cuda_conv2d_seconds(const talc_device *device, const talc_conv2d_problem *problem,
                                double share, double bytes, int launches);

/// The time of cuBLAS's products of the slices of a convolution, one group of one image each, in
/// the data's type: rows by columns, of sums of `terms`.
double talc_cuda_conv2d_blas_seconds(const talc_device *device, const talc_conv2d_problem *problem,
                                     double rows, double columns, double terms);

/// The time of a pass over y that adds bias and residual and applies the activation; 0 without any.
double talc_cuda_conv2d_epilogue_seconds(const talc_device *device,
                                         const talc_conv2d_problem *problem);

/// Why a convolution is not a product of its images as they are; NULL when it is.
const char *talc_cuda_conv2d_pointwise_refuses(const talc_conv2d_problem *problem);

/// Why it is not one by cuBLAS with TF32; else NULL and the plan's seconds. Any direction.
const char *talc_cuda_conv2d_pointwise_tf32(const talc_device *device,
                                            const talc_conv2d_problem *problem, talc_plan *plan);

TALC_END_DECLARATIONS

#endif
