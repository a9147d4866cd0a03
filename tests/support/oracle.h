/// The yardstick of the conv2d tests: the oracle and the bounds of the cross-check (check/conv2d.c, check/bound.h), which
/// tests/test_check_conv2d.c and tests/test_check_core.c hold against independent numbers. It counts output positions itself.
///
/// Operands are host arrays of double that hold values of the problem's type.
#ifndef TALC_TESTS_ORACLE_H
#define TALC_TESTS_ORACLE_H

#include "ops/conv2d.h"

struct check_due;

/// What a convolution must give.
typedef struct oracle_conv2d {
    int64_t N, OC, OH, OW;
    int64_t count;         ///< N * OC * OH * OW
    struct check_due *due; ///< [N,OC,OH,OW]
} oracle_conv2d;

/// How many windows of `kernel` taps fit into `size` plus its padding.
int64_t oracle_extent(int64_t size, int64_t kernel, int64_t stride, int64_t dilation,
                      int64_t before, int64_t after);

/// Computes all of it; bias and residual may be NULL. The arrays are freed by oracle_free.
oracle_conv2d oracle_new(const talc_conv2d_problem *problem, const double *x, const double *w,
                         const double *bias, const double *residual);
void oracle_free(oracle_conv2d *oracle);

/// One element of it, worked out on its own.
struct check_due oracle_due(const talc_conv2d_problem *problem, const double *x, const double *w,
                            const double *bias, const double *residual, int64_t index);

/// How far a result may be off, with u = 2^-24 for f32 and 2^-53 for f64. A sigmoid or tanh may add 4 ulp to each.
typedef enum oracle_bound {
    ORACLE_EXACT,        ///< not at all: for small integers, whose sums have no rounding
    ORACLE_RANDOM,       ///< 4 u sqrt(K + 4) S: for random data
    ORACLE_ANY,          ///< (K + 2) u S: for any data
    ORACLE_ONE_ROUNDING, ///< u |y| and the error of a float64 sum: for rows with a wide accumulator
} oracle_bound;

/// The worst element of a result.
typedef struct oracle_report {
    /// Largest share of the bound, 1 is the limit; INFINITY where no difference is allowed.
    double worst;
    int64_t n, c, h, w; ///< where
    double got, due;
    int64_t fed;     ///< outputs with S > 0: their window holds something that is not zero
    int64_t nonzero; ///< those of them that are not zero
} oracle_report;

/// Compares `y`, an array of double that holds values of the problem's type, with the oracle, element by element.
oracle_report oracle_compare(const oracle_conv2d *oracle, const talc_conv2d_problem *problem,
                             const double *y, oracle_bound bound);

/// Whether a pass means anything: at least 30 % of the outputs that are fed are not zero, 15 % after a ReLU. Fewer
/// than 8 fed outputs are too few to say.
bool oracle_trusted(const oracle_report *report, const talc_conv2d_problem *problem);

#endif
