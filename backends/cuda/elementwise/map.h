/// One function over all elements of strided arrays: elementwise ops, copies, casts and fills.
/// Private to backends/cuda.
///
///     y[i...] = f(a[i...], b[i...])
#ifndef TALC_BACKENDS_CUDA_ELEMENTWISE_MAP_H
#define TALC_BACKENDS_CUDA_ELEMENTWISE_MAP_H

#include "backends/cuda/cuda.h"

TALC_BEGIN_DECLARATIONS

/// What is computed: a row of the unary table, by its constant; one of the binary table, by its
/// constant behind the unary ones; a copy of a; a cast of it.
enum {
    TALC_CUDA_BINARY = TALC_UNARY_COUNT,
    TALC_CUDA_COPY = TALC_CUDA_BINARY + TALC_BINARY_COUNT,
    TALC_CUDA_CAST,
};

typedef struct talc_cuda_map {
    int function;
    talc_dtype dtype; ///< of a, b and, but for a cast, y
    talc_dtype to;    ///< of y, for a cast
    int rank;
    int64_t dims[TALC_MAX_RANK];
    int64_t strides[3]
                   [TALC_MAX_RANK]; ///< of y, a and b, in elements; 0 where an operand broadcasts
    void *y;
    const void *a, *b; ///< NULL: each of its elements is the scalar
    double scalar;     ///< truncated and saturated for integers, NaN 0
    double numbers[2]; ///< p and q of the function
} talc_cuda_map;

/// Enters the device and queues `map` with these dimensions, and these strides of y, a and b, of
/// which a map that has no such operand has none (NULL). `who` names the op in failures.
talc_status talc_cuda_map_run(talc_device *device, const char *who, talc_cuda_map map,
                              const int64_t *dims, const int64_t *y_strides,
                              const int64_t *a_strides, const int64_t *b_strides);

TALC_END_DECLARATIONS

#endif
