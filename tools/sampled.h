/// Checks a convolution's output at randomly chosen elements against sums in at least double precision.
///
/// The sums share no code with the library: windows, padding modes and activations are worked out here anew.
/// With u the unit roundoff of the data (2^-24 or 2^-53), K the number of products of an output and
/// S = sum |x||w| + |bias| + |residual| of that output, an error is judged against the bound of the algorithm's
/// class (tensor/precision.h):
///
///     STRICT    |error| <= 4 u sqrt(K + 4) S
///     TF32      |error| <= 2^-10 S + the strict bound
///     NORMWISE  ||error|| <= 4 u sqrt(K + 4) ||S|| over the sample
///
/// The activations' slopes are at most 1, so the bounds hold for them as well; sigmoid and tanh, which round once
/// more, add 4 u |y|.
#ifndef TALC_TOOLS_SAMPLED_H
#define TALC_TOOLS_SAMPLED_H

#include <talc/talc.h>

enum { SAMPLED_OUTPUTS = 4096 };

/// Where and what the sampled outputs should be. With fewer outputs than SAMPLED_OUTPUTS, all of them.
typedef struct sampled {
    talc_conv2d_problem problem;
    int64_t count;
    int64_t index[SAMPLED_OUTPUTS]; ///< position in y, row-major
    double exact[SAMPLED_OUTPUTS];
    double bound[SAMPLED_OUTPUTS]; ///< the strict bound
    double scale[SAMPLED_OUTPUTS]; ///< S
} sampled;

typedef struct sampled_result {
    int64_t count;    ///< outputs compared
    double error;     ///< largest |error|, infinite when an output that should be finite is not
    int64_t where[4]; ///< n, oc, oh, ow of the output with the largest share
    double share;     ///< largest error over its bound; at most 1 passes
} sampled_result;

/// Fills `self` from operands, which may live on any device; `seed` chooses the outputs. bias and residual are NULL
/// where the problem has none. False with a talc failure.
bool sampled_prepare(sampled *self, const talc_conv2d_problem *problem, const talc_tensor *x,
                     const talc_tensor *w, const talc_tensor *bias, const talc_tensor *residual,
                     uint64_t seed);

/// Compares an output that an algorithm of class `precision` computed; false with a talc failure.
bool sampled_compare(const sampled *self, const talc_tensor *y, talc_precision precision,
                     sampled_result *result);

#endif
