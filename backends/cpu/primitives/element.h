/// Element types as the CPU's kernels see them, in one place: which there are, and their values as
/// f64. Private to backends/cpu.
///
/// A kernel is written for a type's name, T and A, made for each row of TALC_CPU_FLOATS, and called
/// by TALC_CPU_CALL. So a type that one of them lacks does not compile, and a plan refuses, by
/// talc_cpu_refuses, a type without a row.
#ifndef TALC_BACKENDS_CPU_PRIMITIVES_ELEMENT_H
#define TALC_BACKENDS_CPU_PRIMITIVES_ELEMENT_H

#include "tensor/tensor.h"

#include <math.h>

/// Every floating-point type: constant, name, the type it is stored as, and the one it is computed
/// and summed in where that is said to be the data's own.
#define TALC_CPU_FLOATS(X)                                                                         \
    X(TALC_F32, f32, float, float)                                                                 \
    X(TALC_F64, f64, double, double)

/// Every integer type: constant, name, the type it is stored as, and the one whose arithmetic wraps
/// around.
#define TALC_CPU_INTEGERS(X)                                                                       \
    X(TALC_I64, i64, int64_t, uint64_t)                                                            \
    X(TALC_I32, i32, int32_t, uint32_t)                                                            \
    X(TALC_U8, u8, uint8_t, unsigned)

/// Calls name_f32 or name_f64 with the arguments, which stand in parentheses, or a member of these;
/// nothing for a type that plans refuse.
#define TALC_CPU_CALL(dtype, name, arguments)                                                      \
    do {                                                                                           \
        if ((dtype) == TALC_F32)                                                                   \
            name##_f32 arguments;                                                                  \
        else if ((dtype) == TALC_F64)                                                              \
            name##_f64 arguments;                                                                  \
    } while (0)

/// The value of such a call.
#define TALC_CPU_VALUE(dtype, name, arguments)                                                     \
    ((dtype) == TALC_F32 ? name##_f32 arguments : name##_f64 arguments)

#define TALC_CPU_COUNTED(...) +1
_Static_assert(TALC_CPU_FLOATS(TALC_CPU_COUNTED) == 2, "TALC_CPU_CALL has a call for each type");
#undef TALC_CPU_COUNTED

/// NULL for the types of TALC_CPU_FLOATS, else that there is no kernel for it.
static inline const char *talc_cpu_refuses(talc_dtype dtype)
{
    switch (dtype) {
#define TALC_CPU_TAKEN(constant, ...) case constant:
        TALC_CPU_FLOATS(TALC_CPU_TAKEN)
#undef TALC_CPU_TAKEN
        return NULL;
#define TALC_CPU_REFUSED(constant, name, ...)                                                      \
    case constant:                                                                                 \
        return "there is no CPU kernel for " #name;
        TALC_CPU_INTEGERS(TALC_CPU_REFUSED)
#undef TALC_CPU_REFUSED
    default:
        return "there is no CPU kernel for this element type";
    }
}

/// Whether f64 has digits to spare for sums of the type's elements.
static inline bool talc_cpu_is_narrow(talc_dtype dtype)
{
    return talc_dtype_size(dtype) < sizeof(double);
}

/// The address of element `offset`, of any type; NULL stays NULL.
static inline const void *talc_cpu_at(talc_dtype dtype, const void *x, int64_t offset)
{
    return x == NULL ? NULL : (const char *)x + offset * (int64_t)talc_dtype_size(dtype);
}

/// Element i of a floating-point array.
static inline double talc_cpu_load(talc_dtype dtype, const void *x, int64_t i)
{
    switch (dtype) {
#define TALC_CPU_LOAD(constant, name, T, A)                                                        \
    case constant:                                                                                 \
        return (double)((const T *)x)[i];
        TALC_CPU_FLOATS(TALC_CPU_LOAD)
#undef TALC_CPU_LOAD
    default:
        return NAN;
    }
}

/// Rounds to the array's type.
static inline void talc_cpu_store(talc_dtype dtype, void *y, int64_t i, double value)
{
    switch (dtype) {
#define TALC_CPU_STORE(constant, name, T, A)                                                       \
    case constant:                                                                                 \
        ((T *)y)[i] = (T)value;                                                                    \
        break;
        TALC_CPU_FLOATS(TALC_CPU_STORE)
#undef TALC_CPU_STORE
    default:
        break;
    }
}

/// `value` as an element of a floating-point type holds it.
static inline double talc_cpu_rounded(talc_dtype dtype, double value)
{
    switch (dtype) {
#define TALC_CPU_ROUND(constant, name, T, A)                                                       \
    case constant:                                                                                 \
        return (double)(T)value;
        TALC_CPU_FLOATS(TALC_CPU_ROUND)
#undef TALC_CPU_ROUND
    default:
        return NAN;
    }
}

#endif
