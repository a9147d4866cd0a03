/// Reductions over one, several or all dimensions: sum, mean, variance, largest and smallest value
/// and their indices, logarithm of a sum of exponentials.
///
///     sum:    y[k...] = sum over r... of x[k..., r...]        mean: sum / K
///     max:    y[k...] = the largest x[k..., r...]             argmax: where it stands
///     min:    y[k...] = the smallest x[k..., r...]            argmin: where it stands
///     var:    y[k...] = sum over r... of (x[k..., r...] - mean[k...])^2 / (K - correction)
///     logsumexp: y[k...] = log of the sum over r... of exp(x[k..., r...])
///
/// `axes` lists the dimensions that are reduced, in any order, each once; negative ones count from
/// the end. No axes (TALC_SCALAR) means all dimensions. The kept dimensions make the result's
/// shape; with keep_dims the reduced ones stay, with extent 1. K is the number of elements that
/// each result is made from. x may have any strides.
///
/// Types: sum takes every dtype and gives i64 for integers, which wrap around; mean, var and
/// logsumexp take f32 and f64; max and min take every dtype; argmax and argmin take every dtype and
/// give i64.
///
/// argmax over several dimensions counts the reduced elements in row-major order of the reduced
/// dimensions, as x.permute(kept, reduced).flatten(reduced).argmax(-1) would. Of equal elements the
/// first counts. NaN is larger than everything: where there is one, max is NaN and argmax is the
/// first one's index. So it is for min and argmin, to which NaN is smaller than everything.
///
/// var: correction 1 estimates a population's variance from a sample of it, 0 gives that of the
/// elements themselves; where it is K or more, the division is by 0. logsumexp: +infinity among the
/// elements gives +infinity, nothing but -infinity gives that.
///
/// K = 0: sum gives 0, mean and var give NaN, logsumexp gives -infinity; max, min, argmax and
/// argmin are errors.
///
/// Gradients: sum: dx = dy, stretched; mean: dx = dy / K; max: dx = dy / n where x = y, of n
/// elements that are equal, else 0; min: the same; of a NaN both are NaN; var: dx = 2 dy (x - mean)
/// / (K - correction), by 0 as above; logsumexp: dx = dy exp(x - y).
///
/// Accuracy, with S = sum |x|: sum and mean within min(K, 136 + K / 2^28) u S of the exact value
/// for f32, K u S for f64; a mean has one more rounding; max, min and their indices are exact. var,
/// with V = y K / (K - correction) and D = |mean| sqrt(V): within (4 + K / 2^26) u (V + D) for f32,
/// 4 (K + 4) u (V + D) for f64, and exactly 0 for equal elements: squares are taken of the distance
/// from an element or a mean, and means are combined in a tree. A variance that f64 holds is
/// finite, however large the squares that it is the mean of. logsumexp: within min(K + 4, 140 + K /
/// 2^28) u (1 + |y|) for f32, (K + 4) u (1 + |y|) for f64.
///
/// Errors: NULL x, a dtype the op does not take, an axis out of range or named twice, a correction
/// that is negative or not finite, K = 0 for max, min, argmax and argmin, no memory. Source:
/// textbook; variances: Chan, Golub, LeVeque 1983, "Algorithms for computing the sample variance";
/// semantics as torch.sum, torch.mean, torch.amax, torch.argmax, torch.amin, torch.argmin,
/// torch.var, torch.logsumexp.
#ifndef TALC_OPS_REDUCE_H
#define TALC_OPS_REDUCE_H

#include "algorithm.h"

TALC_BEGIN_DECLARATIONS

/// y. With `keep_dims` the reduced dimensions stay, with extent 1.
TALC_API talc_tensor *talc_sum(const talc_tensor *x, talc_dims axes, bool keep_dims);
TALC_API talc_tensor *talc_mean(const talc_tensor *x, talc_dims axes, bool keep_dims);
TALC_API talc_tensor *talc_max(const talc_tensor *x, talc_dims axes, bool keep_dims);
TALC_API talc_tensor *talc_argmax(const talc_tensor *x, talc_dims axes, bool keep_dims);
TALC_API talc_tensor *talc_min(const talc_tensor *x, talc_dims axes, bool keep_dims);
TALC_API talc_tensor *talc_argmin(const talc_tensor *x, talc_dims axes, bool keep_dims);
TALC_API talc_tensor *talc_var(const talc_tensor *x, talc_dims axes, double correction,
                               bool keep_dims);
TALC_API talc_tensor *talc_logsumexp(const talc_tensor *x, talc_dims axes, bool keep_dims);

/// The largest, or the smallest, along one dimension, and in *indices where it stands, an i64
/// tensor of y's shape, in one pass over x. The gradient goes to that element alone: dx = dy where
/// it stands, else 0. *indices is NULL on failure. Semantics as torch.max(x, dim) and
/// torch.min(x, dim); errors as of argmax and argmin, NULL indices.
TALC_API talc_tensor *talc_max_indices(const talc_tensor *x, int axis, bool keep_dims,
                                       talc_tensor **indices);
TALC_API talc_tensor *talc_min_indices(const talc_tensor *x, int axis, bool keep_dims,
                                       talc_tensor **indices);

// ---- What backends implement --------------------------------------------------------------------

typedef enum talc_reduce_function {
    TALC_SUM,
    TALC_MEAN,
    TALC_MAX,
    TALC_ARGMAX,
    TALC_MIN,
    TALC_ARGMIN,
    TALC_VAR,
    TALC_LOGSUMEXP,
    TALC_REDUCE_COUNT
} talc_reduce_function;

/// y is contiguous in the order of the kept dimensions. Dimensions of one kind are merged where one
/// stride serves two; the strides are x's, in elements. No extent is 0.
typedef struct talc_reduce_problem {
    talc_reduce_function function;
    talc_dtype dtype;   ///< of x
    talc_dtype y_dtype; ///< i64 for argmax, argmin and sums of integers, else x's
    int kept_rank;
    int64_t kept_dims[TALC_MAX_RANK];
    int64_t kept_strides[TALC_MAX_RANK];
    int reduced_rank;
    int64_t reduced_dims[TALC_MAX_RANK];
    int64_t reduced_strides[TALC_MAX_RANK];
    int64_t outputs;   ///< product of kept_dims
    int64_t K;         ///< product of reduced_dims
    double correction; ///< of var; 0 for the others
} talc_reduce_problem;

typedef struct talc_reduce_arguments {
    talc_arguments base;
    void *y;
    const void *x;
} talc_reduce_arguments;

/// What sets a sum apart from a mean, a variance or a largest value: what its result is divided by,
/// 0 where the correction leaves nothing.
static inline double talc_reduce_divisor(const talc_reduce_problem *p)
{
    if (p->function != TALC_MEAN && p->function != TALC_VAR)
        return 1;
    const double divisor = (double)p->K - p->correction;
    return divisor > 0 ? divisor : 0;
}

TALC_END_DECLARATIONS

#endif
