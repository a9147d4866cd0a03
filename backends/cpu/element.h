/// Elements of arrays whose type is a number: where they stand, and their values as f64. Private to backends/cpu.
#ifndef TALC_BACKENDS_CPU_ELEMENT_H
#define TALC_BACKENDS_CPU_ELEMENT_H

#include "tensor/tensor.h"

/// The address of element `offset`, of any type; NULL stays NULL.
static inline const void *talc_cpu_at(talc_dtype dtype, const void *x, int64_t offset)
{
    return x == NULL ? NULL : (const char *)x + offset * (int64_t)talc_dtype_size(dtype);
}

/// Element i of an f32 or f64 array.
static inline double talc_cpu_load(talc_dtype dtype, const void *x, int64_t i)
{
    return dtype == TALC_F32 ? (double)((const float *)x)[i] : ((const double *)x)[i];
}

/// Rounds to the array's type.
static inline void talc_cpu_store(talc_dtype dtype, void *y, int64_t i, double value)
{
    if (dtype == TALC_F32)
        ((float *)y)[i] = (float)value;
    else
        ((double *)y)[i] = value;
}

#endif
