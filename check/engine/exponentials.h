/// What softmax and cross entropy make of a row of logits. Private to check/.
#ifndef TALC_CHECK_ENGINE_EXPONENTIALS_H
#define TALC_CHECK_ENGINE_EXPONENTIALS_H

#include "check/engine/data.h"

#include <math.h>

typedef struct check_exponentials {
    long double max; ///< the largest logit
    long double sum; ///< of exp(x - most): a NaN, which is no maximum, gets into it, and so does an
                     ///< infinite maximum
    long double differences; ///< sum of x - most
} check_exponentials;

/// exp in the precision that the oracle of a type needs; for narrower types than f64 the float64
/// one, which is several times faster.
static inline long double talc_check_exponential(talc_dtype dtype, long double x)
{
    return talc_check_is_narrow(dtype) ? (long double)exp((double)x) : expl(x);
}

static inline check_exponentials talc_check_exponentials(talc_dtype dtype, const double *x,
                                                         int64_t step, int64_t count)
{
    check_exponentials row = { .max = x[0] };
    for (int64_t j = 1; j < count; j++)
        row.max = x[j * step] > row.max ? x[j * step] : row.max;
    for (int64_t j = 0; j < count; j++) {
        row.sum += talc_check_exponential(dtype, x[j * step] - row.max);
        row.differences += x[j * step] - row.max;
    }
    return row;
}

#endif
