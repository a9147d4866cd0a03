/// The CPU's conv2d algorithms, one a file: their table, and the functions behind its rows. Private to backends/cpu.
#ifndef TALC_BACKENDS_CPU_CONV2D_ROWS_H
#define TALC_BACKENDS_CPU_CONV2D_ROWS_H

#include "ops/conv2d.h"

/// Most specialised first; the first row that does not refuse runs. `workspace` is NULL where none is used; `wide`:
/// sums are kept in f64 (talc_arithmetic).
// clang-format off
//    name       workspace                            arithmetic                                   precision    wide
#define TALC_CPU_CONV2D_TABLE(X)                                                                                      \
    X(depthwise, talc_cpu_conv2d_depthwise_workspace, "the data's own type",                       TALC_STRICT, false) \
    X(pointwise, NULL,                                "products in the data's own type by OpenBLAS", TALC_STRICT, false) \
    X(im2col,    talc_cpu_conv2d_im2col_workspace,    "products in the data's own type by OpenBLAS", TALC_STRICT, false) \
    X(reference, NULL,                                "f64 accumulation, one rounding",            TALC_STRICT, true)
// clang-format on

/* Those with NULL in the table define no _workspace. */
#define TALC_CPU_CONV2D_FUNCTIONS(name, ...)                                                       \
    const char *talc_cpu_conv2d_##name##_refuses(const talc_conv2d_problem *problem);              \
    size_t talc_cpu_conv2d_##name##_workspace(const talc_device *device,                           \
                                              const talc_conv2d_problem *problem, size_t limit);   \
    talc_status talc_cpu_conv2d_##name##_run(talc_device *device,                                  \
                                             const talc_conv2d_problem *problem,                   \
                                             const talc_conv2d_arguments *arguments);
TALC_CPU_CONV2D_TABLE(TALC_CPU_CONV2D_FUNCTIONS)
#undef TALC_CPU_CONV2D_FUNCTIONS

#endif
