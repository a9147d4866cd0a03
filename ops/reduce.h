/// Reductions: sum, mean, largest value and its index, over one, several or all dimensions.
///
///     sum:    y[k...] = sum over r... of x[k..., r...]        mean: sum / K
///     max:    y[k...] = the largest x[k..., r...]             argmax: where it stands
///
/// `axes` lists the dimensions that are reduced, in any order, each once; negative ones count from the end. No axes
/// (TALC_SCALAR) means all dimensions. The kept dimensions make the result's shape; with keep_dims the reduced ones
/// stay, with extent 1. K is the number of elements that each result is made from. x may have any strides.
///
/// Types: sum takes every dtype and gives i64 for integers, which wrap around; mean takes f32 and f64; max takes every
/// dtype; argmax takes every dtype and gives i64.
///
/// argmax over several dimensions counts the reduced elements in row-major order of the reduced dimensions, as
/// x.permute(kept, reduced).flatten(reduced).argmax(-1) would. Of equal elements the first counts. NaN is larger than
/// everything: where there is one, max is NaN and argmax is the first one's index.
///
/// K = 0: sum gives 0, mean gives NaN, max and argmax are errors.
///
/// Gradients: sum: dx = dy, stretched; mean: dx = dy / K; max: dx = dy where x is the element that argmax names, else 0.
///
/// Accuracy, with S = sum |x|: sum and mean within min(K, 136 + K / 2^28) u S of the exact value for f32, K u S for f64;
/// a mean has one more rounding; max and argmax are exact.
///
/// Errors: NULL x, a dtype the op does not take, an axis out of range or named twice, K = 0 for max and argmax, no
/// memory. Source: textbook; semantics as torch.sum, torch.mean, torch.amax, torch.argmax.
#ifndef TALC_OPS_REDUCE_H
#define TALC_OPS_REDUCE_H

#include "algorithm.h"

TALC_BEGIN_DECLARATIONS

/// y. With `keep_dims` the reduced dimensions stay, with extent 1.
TALC_API talc_tensor *talc_sum(const talc_tensor *x, talc_dims axes, bool keep_dims);
TALC_API talc_tensor *talc_mean(const talc_tensor *x, talc_dims axes, bool keep_dims);
TALC_API talc_tensor *talc_max(const talc_tensor *x, talc_dims axes, bool keep_dims);
TALC_API talc_tensor *talc_argmax(const talc_tensor *x, talc_dims axes, bool keep_dims);

// ---- What backends implement --------------------------------------------------------------------------------

typedef enum talc_reduce_function {
    TALC_SUM,
    TALC_MEAN,
    TALC_MAX,
    TALC_ARGMAX,
    TALC_REDUCE_COUNT
} talc_reduce_function;

/// y is contiguous in the order of the kept dimensions. Dimensions of one kind are merged where one stride serves two; the
/// strides are x's, in elements. No extent is 0.
typedef struct talc_reduce_problem {
    talc_reduce_function function;
    talc_dtype dtype;   ///< of x
    talc_dtype y_dtype; ///< i64 for argmax and for sums of integers, else x's
    int kept_rank;
    int64_t kept_dims[TALC_MAX_RANK];
    int64_t kept_strides[TALC_MAX_RANK];
    int reduced_rank;
    int64_t reduced_dims[TALC_MAX_RANK];
    int64_t reduced_strides[TALC_MAX_RANK];
    int64_t outputs; ///< product of kept_dims
    int64_t K;       ///< product of reduced_dims
} talc_reduce_problem;

typedef struct talc_reduce_arguments {
    talc_arguments base;
    void *y;
    const void *x;
} talc_reduce_arguments;

TALC_END_DECLARATIONS

#endif
