/// Operands between guard bands. A guarded tensor is the middle of a larger buffer on the device:
/// in front of it and behind it stand 1024 elements of NaN. A kernel that writes outside its
/// operand changes a band; one that reads outside brings NaN into its result. Its first element may
/// be off the allocation's alignment by some elements.
#ifndef TALC_TESTS_GUARD_H
#define TALC_TESTS_GUARD_H

#include "tensor/device.h"

typedef struct guarded {
    talc_tensor *tensor;  ///< contiguous, in the scope of whoever made it
    talc_tensor *buffer;  ///< bands included
    unsigned char *image; ///< the buffer's bytes as they were made
    size_t begin, end;    ///< the tensor's bytes within the buffer
} guarded;

/// A guarded tensor with these values (host doubles, rounded to `dtype`, f32 or f64); NaN
/// everywhere for NULL. `shift` counts elements: 0 leaves the first one 64-byte aligned when the
/// device's memory is.
guarded guard_new(talc_device *device, talc_dtype dtype, talc_dims dims, const double *values,
                  int shift);

/// True when the bands are untouched, and, for `constant` operands, the elements too.
bool guard_intact(const guarded *guard, bool constant);

/// Frees the host copy; the tensors belong to their scope.
void guard_free(guarded *guard);

/// The elements of an f32 or f64 tensor as doubles, in row-major order, for the caller to free.
double *host_doubles(const talc_tensor *tensor);

/// Every element of a result, of any type and on any device, is within tolerance (1 + |due|) of the
/// value that is due, and NaN where that is.
void assert_values(const talc_tensor *y, const double *expected, double tolerance,
                   const char *what);

/// The same where a tensor is due, whose shape the result has.
void assert_near(const talc_tensor *y, const talc_tensor *expected, double tolerance,
                 const char *what);

#endif
