/// Norms of a sample's own values: group, instance and layer normalisation, which are one op.
///
///     y[n, c, p] = act( (x[n, c, p] - mu[n, g]) * rstd[n, g] * weight[c] + bias[c] ),
///     rstd = 1 / sqrt(var + eps)
///
/// mu and var are the mean and the biased variance of group g of sample n: of the values of C /
/// groups neighbouring channels, at all positions p. Instance norm has a group a channel. Layer
/// norm has one group, as many channels as normalised values, and one position: so weight and bias
/// have a number for each value.
///
/// Shapes: group_norm x [N, C, ...] of any rank from 2, weight and bias [C]; instance_norm2d x [N,
/// C, H, W], weight and bias [C]; layer_norm x [..., normalised dimensions], weight and bias of the
/// normalised dimensions. y has x's shape and is contiguous; x may have any strides. Any extent may
/// be 0. A group of one value is 0 before weight and bias. Types: f32 or f64, all operands alike,
/// all on one device.
///
/// Gradients, with x^ = (x - mu) * rstd, g = dy * act' and M values a group: dbias[c] = sum g,
/// dweight[c] = sum g * x^, dx = rstd * (g * weight - (sum g * weight + x^ * sum g * weight * x^) /
/// M), both sums over the group; as accurate as batch_norm2d's.
///
/// Accuracy: the variance is that of deviations from the mean, in f64 for f32 data. With u of the
/// data's type, s = |weight| rstd and A the mean of |x| in the group, f32 results are within 8 u (s
/// |x - mu| + |bias| + s |mu|) of the exact ones, f64 ones within (M + 8) u (s |x - mu| + |bias| +
/// s A); act' and what the mean's error adds to the variance come on top.
///
/// Errors: NULL x, a rank that the op does not take, groups below 1 or that do not divide the
/// channels, normalised dimensions that are not x's last, a weight or bias of another shape,
/// devices or types that differ, negative or NaN eps, no such activation, an algorithm that does
/// not exist or refuses, no memory.
///
/// The algorithms of all three are those of group_norm: talc_algorithm_force and explanations take
/// that name.
///
/// Source: Wu and He, "Group Normalization", arXiv 1803.08494; Ulyanov et al., "Instance
/// Normalization", arXiv 1607.08022; Ba et al., "Layer Normalization", arXiv 1607.06450; semantics
/// as torch.nn.functional's of these names, but that these refuse some groups of one value.
#ifndef TALC_OPS_GROUP_NORM_H
#define TALC_OPS_GROUP_NORM_H

#include "activation.h"
#include "algorithm.h"

TALC_BEGIN_DECLARATIONS

typedef struct talc_norm_options {
    double eps;                 ///< 0: 1e-5; TALC_ZERO: 0
    talc_activation activation; ///< applied last
    /// This one by name or an error; NULL: the thread's, else the library's choice.
    const char *algorithm;
} talc_norm_options;

/// y. weight (NULL: 1), bias (NULL: 0) and options may be NULL.
TALC_API talc_tensor *talc_group_norm(const talc_tensor *x, int64_t groups,
                                      const talc_tensor *weight, const talc_tensor *bias,
                                      const talc_norm_options *options);
TALC_API talc_tensor *talc_instance_norm2d(const talc_tensor *x, const talc_tensor *weight,
                                           const talc_tensor *bias,
                                           const talc_norm_options *options);
/// `normalised`: the last dimensions of x, at least one.
TALC_API talc_tensor *talc_layer_norm(const talc_tensor *x, talc_dims normalised,
                                      const talc_tensor *weight, const talc_tensor *bias,
                                      const talc_norm_options *options);

// ---- What backends implement --------------------------------------------------------------------

/// A checked problem: x [N, C, plane], groups of neighbouring channels. Row r of N * groups is a
/// group of a sample: C / groups * plane values side by side.
typedef struct talc_group_norm_problem {
    talc_direction direction; ///< forward or input gradient
    talc_dtype dtype;
    int64_t N, C, plane, groups;
    double eps;
    talc_activation activation; ///< none in the gradient
} talc_group_norm_problem;

/// Device pointers to contiguous operands. Forward reads x, weight and bias (NULL: 1 and 0) and
/// writes y, and mean and rstd, one a row and in f64 (ops/batch_norm2d.h says why), where they are
/// not NULL. The input gradient reads x, dy, weight, mean and rstd; it writes dx, and dweight and
/// dbias where they are not NULL, which both are or neither is. Others are NULL.
typedef struct talc_group_norm_arguments {
    talc_arguments base;
    const void *x, *weight, *bias;
    void *y;
    double *mean, *rstd;
    const void *dy;
    void *dx, *dweight, *dbias;
} talc_group_norm_arguments;

TALC_END_DECLARATIONS

#endif
