/// Random tensors, the same on every device and for every number of threads.
///
/// Each thread has a generator: a seed and the number of calls made so far. Element i of call j is
/// a function of (seed, j, i) alone, by Philox4x32-10 (tensor/philox.h), so a program with a fixed
/// seed gives the same bits on each run, and a checkpoint needs the two numbers only. PyTorch's
/// numbers are others.
///
///     talc_manual_seed(42);
///     talc_tensor *x = talc_randn(device, TALC_F32, TALC_DIMS(8, 3, 32, 32));
///
/// A call that succeeds counts as one, for an empty tensor too; a call that fails does not count.
/// Where a later op fails, as in a training step that runs out of memory after its dropout, the
/// calls before it stay counted: to repeat the step with the same numbers, set the generator back
/// to what it was.
#ifndef TALC_TENSOR_RANDOM_H
#define TALC_TENSOR_RANDOM_H

#include "tensor.h"

TALC_BEGIN_DECLARATIONS

// ---- The thread's generator ---------------------------------------------------------------------

typedef struct talc_generator {
    uint64_t seed; ///< 0 until set
    uint64_t call; ///< the number of the next call
} talc_generator;

/// This thread's generator: what a checkpoint keeps, and how it is put back.
TALC_API talc_generator talc_generator_get(void);
TALC_API bool talc_generator_set(talc_generator generator);

/// Starts the generator anew from a seed, at call 0.
TALC_API bool talc_manual_seed(uint64_t seed);

// ---- New tensors --------------------------------------------------------------------------------
// Errors: those of talc_empty; a dtype that does not fit; bounds that are not finite, in the wrong
// order, or outside the dtype.

/// Uniform in [0, 1): multiples of 2^-24 for f32, of 2^-53 for f64.
TALC_API talc_tensor *talc_rand(talc_device *device, talc_dtype dtype, talc_dims dims);

/// Normal with mean 0 and standard deviation 1, by Box-Muller. At most 6.7 standard deviations away
/// for f32, 8.6 for f64.
TALC_API talc_tensor *talc_randn(talc_device *device, talc_dtype dtype, talc_dims dims);

/// Uniform in [low, high), below high after rounding too; f32 and f64.
TALC_API talc_tensor *talc_uniform(talc_device *device, talc_dtype dtype, talc_dims dims,
                                   double low, double high);

/// Normal; std may be 0. f32 and f64.
TALC_API talc_tensor *talc_normal(talc_device *device, talc_dtype dtype, talc_dims dims,
                                  double mean, double std);

/// Integers in [low, high), each with probability 1 / (high - low) to within 2^-64; i64, i32 and
/// u8.
TALC_API talc_tensor *talc_randint(talc_device *device, talc_dtype dtype, talc_dims dims,
                                   int64_t low, int64_t high);

// ---- Existing tensors ---------------------------------------------------------------------------

/// Overwrites every element, of a view too; elements count in row-major order.
TALC_API bool talc_fill_uniform(talc_tensor *tensor, double low, double high);
TALC_API bool talc_fill_normal(talc_tensor *tensor, double mean, double std);

TALC_END_DECLARATIONS

#endif
