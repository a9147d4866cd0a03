/// Negative log likelihood of class labels, of log-probabilities.
///
///     l[n, ...] = -w[t] x[n, t, ...],    t = labels[n, ...]
///
/// A sample whose label is ignore_index counts as if it were not there: its loss is 0. The result
/// is
///
///     mean    sum of l / sum of the w[t] of the samples that count; NaN when none does
///     sum     sum of l
///     none    l, of the labels' shape
///
/// Shapes: x [N, C, ...] with labels [N, ...], or x [C] with a label []; at least one class; weight
/// [C]. Types: x f32 or f64, weight of x's, labels i64, on one device, any strides.
///
/// Gradients: dx_j = -w[t] dl [j = t], dl being dy, dy / sum of w[t] for the mean, and 0 for an
/// ignored sample. Weights get none: one that asks for a gradient is an error.
///
/// Errors: NULL operands, types, devices and shapes that do not match, no class, an unknown
/// reduction, an algorithm that does not exist or refuses, no memory, and a label that is neither a
/// class nor ignore_index, as in ops/cross_entropy.h: a GPU names one such label, and its loss is
/// NaN until then. Source: textbook; semantics as torch.nn.functional.nll_loss.
#ifndef TALC_OPS_NLL_LOSS_H
#define TALC_OPS_NLL_LOSS_H

#include "cross_entropy.h"

TALC_BEGIN_DECLARATIONS

typedef struct talc_nll_loss_options {
    talc_reduction reduction;
    int64_t ignore_index;      ///< 0: -100; TALC_ZERO: class 0
    const talc_tensor *weight; ///< of the classes; NULL: 1
    const char *algorithm;     ///< as in talc_cross_entropy_options
} talc_nll_loss_options;

/// `options` may be NULL: the mean.
TALC_API talc_tensor *talc_nll_loss(const talc_tensor *x, const talc_tensor *labels,
                                    const talc_nll_loss_options *options);

// ---- What backends implement --------------------------------------------------------------------

/// A checked problem: `samples` of C classes, x_stride elements apart; where a sample begins
/// follows from its index over the outer dimensions, merged where one stride serves two. All but x
/// is contiguous.
typedef struct talc_nll_loss_problem {
    talc_direction direction; ///< forward or input gradient
    talc_dtype dtype;
    int64_t ignore_index;
    int64_t C, x_stride;
    int64_t samples; ///< at least 1: product of outer_dims
    int64_t inner;   ///< samples between two of one place and neighbouring batch index: the product
                     ///< of the dimensions behind the classes
    int outer_rank;
    int64_t outer_dims[TALC_MAX_RANK];
    int64_t x_strides[TALC_MAX_RANK];
} talc_nll_loss_problem;

/// Forward reads x, labels and weight and writes, for each sample, its loss and its weight, 0 where
/// it is ignored; the input gradient reads labels, weight and dy, one element a sample, and writes
/// dx, of x's shape. `weight` and `weights` may be NULL.
typedef struct talc_nll_loss_arguments {
    talc_arguments base;
    void *losses;
    void *weights;
    const void *x;
    const int64_t *labels;
    const void *weight;
    const void *dy;
    void *dx;
} talc_nll_loss_arguments;

TALC_END_DECLARATIONS

#endif
