/// Division by a number that is known before the launch, of numbers below 2^31, by a multiplication
/// and a shift. Compiles as C and as CUDA C++. Private to backends/cuda.
///
/// Source: Granlund and Montgomery, Division by invariant integers using multiplication, 1994.
#ifndef TALC_BACKENDS_CUDA_PRIMITIVES_DIVISOR_H
#define TALC_BACKENDS_CUDA_PRIMITIVES_DIVISOR_H

#include "tensor/api.h"

TALC_BEGIN_DECLARATIONS

typedef struct talc_divisor {
    uint32_t by, factor, shift;
} talc_divisor;

/// Of 1 to 2^31.
static inline talc_divisor talc_divisor_of(int64_t by)
{
    talc_divisor d = { (uint32_t)by, 0, 0 };
    while (d.shift < 31 && (1u << d.shift) < d.by)
        d.shift++;
    d.factor = (uint32_t)(((uint64_t)1 << 32) * (((uint64_t)1 << d.shift) - d.by) / d.by + 1);
    return d;
}

TALC_HOST_DEVICE static inline uint32_t talc_quotient(talc_divisor d, uint32_t n)
{
#ifdef __CUDA_ARCH__
    return (__umulhi(n, d.factor) + n) >> d.shift; /* n < 2^31, so the sum does not wrap */
#else
    return n / d.by;
#endif
}

TALC_END_DECLARATIONS

#endif
