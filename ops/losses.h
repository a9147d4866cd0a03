/// Losses of predictions x against targets t of the same shape.
///
///     mse        (x - t)^2
///     l1         |x - t|
///     huber      d^2 / 2 where d = |x - t| <= delta, else delta (d - delta / 2)
///     smooth_l1  huber / delta, with beta for delta; l1 for beta 0
///     binary_cross_entropy_with_logits
///                w (p t log(1 + exp(-x)) + (1 - t) log(1 + exp(x)))
///
/// reduced to the mean (NaN of no element), the sum, or not at all. Every term of the last is at
/// least 0 for t in [0, 1], so it is accurate for x of any size; it is max(x, 0) - x t + log(1 +
/// exp(-|x|)) for p = 1. Targets outside [0, 1] are not refused. Types: f32 and f64, of one dtype
/// and on one device, any strides. Shapes are equal: operands of a loss do not stretch, but its
/// weights do.
///
/// Gradients: to x, to t, and to weights, by the rules of the elementwise ops they are made of; at
/// d = 0 that of l1 and its kin is 0.
///
/// Errors: NULL operands, types, devices and shapes that do not match, an unknown reduction, delta
/// that is not positive and finite, beta that is negative or not finite, no memory. Source:
/// textbook; semantics as torch.nn.functional.mse_loss, l1_loss, huber_loss, smooth_l1_loss and
/// binary_cross_entropy_with_logits.
#ifndef TALC_OPS_LOSSES_H
#define TALC_OPS_LOSSES_H

#include "cross_entropy.h"

TALC_BEGIN_DECLARATIONS

TALC_API talc_tensor *talc_mse_loss(const talc_tensor *x, const talc_tensor *target,
                                    talc_reduction reduction);
TALC_API talc_tensor *talc_l1_loss(const talc_tensor *x, const talc_tensor *target,
                                   talc_reduction reduction);
TALC_API talc_tensor *talc_huber_loss(const talc_tensor *x, const talc_tensor *target, double delta,
                                      talc_reduction reduction);
TALC_API talc_tensor *talc_smooth_l1_loss(const talc_tensor *x, const talc_tensor *target,
                                          double beta, talc_reduction reduction);

typedef struct talc_binary_cross_entropy_options {
    talc_reduction reduction;
    const talc_tensor *weight;     ///< w, stretched to x's shape; NULL: 1
    const talc_tensor *pos_weight; ///< p, stretched to x's shape; NULL: 1
} talc_binary_cross_entropy_options;

/// `options` may be NULL.
TALC_API talc_tensor *talc_binary_cross_entropy_with_logits(
    const talc_tensor *x, const talc_tensor *target,
    const talc_binary_cross_entropy_options *options);

TALC_END_DECLARATIONS

#endif
