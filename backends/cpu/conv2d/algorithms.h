/// The CPU's conv2d algorithms, a name a file: their table, and the functions behind its lines.
/// Private to backends/cpu.
#ifndef TALC_BACKENDS_CPU_CONV2D_ALGORITHMS_H
#define TALC_BACKENDS_CPU_CONV2D_ALGORITHMS_H

#include "ops/conv2d.h"
#include "ops/owner_map.h"

/// Most specialised first, the most general last; of one name, the form that is faster where it can
/// do a problem. `wide`: sums are kept in f64 (talc_arithmetic).
/// `map`: who computes what, of an algorithm that tells (ops/owner_map.h); NULL.
// clang-format off
//    functions  name, form               arithmetic                                   precision    wide   map
#define TALC_CPU_CONV2D_TABLE(X)                                                 \
    X(depthwise_columns, "depthwise", "columns", "the data's own type",          TALC_STRICT, false, NULL) \
    X(depthwise_planes, "depthwise", "planes", "the data's own type",            TALC_STRICT, false, NULL) \
    X(pointwise, "pointwise", NULL, "the data's own type",                       TALC_STRICT, false, NULL) \
    X(implicit_gemm, "implicit_gemm", NULL, "the data's own type",               TALC_STRICT, false, talc_cpu_conv2d_implicit_gemm_map) \
    X(im2col, "im2col", NULL, "products in the data's own type by OpenBLAS",     TALC_STRICT, false, talc_cpu_conv2d_im2col_map) \
    X(reference, "reference", NULL, "f64 accumulation, one rounding",            TALC_STRICT, true,  NULL)
// clang-format on

#define TALC_CPU_CONV2D_FUNCTIONS(name, ...)                                                       \
    const char *talc_cpu_conv2d_##name##_plan(const talc_device *device, const void *problem,      \
                                              size_t limit, talc_plan *plan);                      \
    talc_status talc_cpu_conv2d_##name##_run(talc_device *device, const void *problem,             \
                                             const talc_plan *plan, const void *arguments);
TALC_CPU_CONV2D_TABLE(TALC_CPU_CONV2D_FUNCTIONS)
#undef TALC_CPU_CONV2D_FUNCTIONS

talc_map_function talc_cpu_conv2d_implicit_gemm_map, talc_cpu_conv2d_im2col_map;

/// The list with its maps.
extern const talc_mapped_algorithm talc_cpu_conv2d_mapped[];

/// Why algorithms that copy the image under a kernel refuse long kernels and strides, with which
/// their sizes could overflow; NULL for others.
static inline const char *talc_cpu_conv2d_reaches_far(const talc_conv2d_problem *p)
{
    const int64_t farthest = 64 << 10;
    return (p->KH - 1) * p->dilation_h >= farthest || (p->KW - 1) * p->dilation_w >= farthest ||
                   p->stride_h > farthest || p->stride_w > farthest
               ? "the dilated kernel or the stride is longer than 65536"
               : NULL;
}

/// Recomputes, in f64, the NaN in some rows and columns of plane n * C + channel of dx. Fast
/// kernels also multiply weights by the zeros around dy, and one that is not finite then leaves a
/// NaN that is not part of the gradient.
void talc_cpu_conv2d_recompute_nan(const talc_conv2d_problem *problem,
                                   const talc_conv2d_arguments *arguments, int64_t plane,
                                   talc_range rows, talc_range columns);

/// The gradients of algorithms that have them in a file of their own.
talc_status talc_cpu_conv2d_reference_gradient(const talc_conv2d_problem *problem,
                                               const talc_conv2d_arguments *arguments);
const char *talc_cpu_implicit_gemm_gradient_plan(const talc_conv2d_problem *problem, size_t limit,
                                                 talc_plan *plan);
talc_status talc_cpu_implicit_gemm_gradient_run(const talc_conv2d_problem *problem,
                                                const talc_plan *plan,
                                                const talc_conv2d_arguments *arguments);

#endif
