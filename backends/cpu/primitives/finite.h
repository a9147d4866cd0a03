/// Whether numbers are finite. Private to backends/cpu.
#ifndef TALC_BACKENDS_CPU_PRIMITIVES_FINITE_H
#define TALC_BACKENDS_CPU_PRIMITIVES_FINITE_H

#include "tensor/tensor.h"

/// Whether `count` elements, f32 or f64, are all finite.
bool talc_cpu_all_finite(talc_dtype dtype, const void *x, int64_t count);

/// Whether one of them is NaN.
bool talc_cpu_has_nan(talc_dtype dtype, const void *x, int64_t count);

#endif
