/// Batch normalisation of images, channel by channel.
///
///     y[n, c, h, w] = act( (x[n, c, h, w] - mu[c]) / sqrt(var[c] + eps) * weight[c] + bias[c]
///                          + r[n, c, h, w] )
///
/// In training mu and var are the mean and the biased variance of channel c over n, h, w, and the
/// running statistics move:
///     running_mean = (1 - momentum) * running_mean + momentum * mu
///     running_var  = (1 - momentum) * running_var  + momentum * var * M / (M - 1),  M = N * H * W
/// and num_batches_tracked by 1. Otherwise mu and var are the running statistics.
///
/// Shapes: x, r and y [N, C, H, W]; weight, bias, running_mean and running_var [C];
/// num_batches_tracked a scalar. Any extent may be 0; an empty x changes no running statistic and
/// counts for no batch. Types: f32 or f64, all operands alike, but for num_batches_tracked, which
/// is i64; all on one device.
///
/// Gradients, with x^ = (x - mu) * rstd, rstd = 1 / sqrt(var + eps) and g = dy * act': dr = g,
/// dbias = sum g, dweight = sum g * x^, dx = weight * rstd * (g - (dbias + x^ * dweight) / M) in
/// training, weight * rstd * g otherwise. mu and rstd are kept in f64 for them: gradients in f32
/// are right however far x is from 0, and however wide it is spread. They and y are so too where
/// weight * rstd is out of f32's range.
///
/// Errors: NULL x, a rank other than 4, per-channel operands or a residual of another shape,
/// devices or types that differ, one running statistic without the other, none outside training,
/// one value per channel in training, momentum outside 0 .. 1, negative eps, running statistics
/// that are not contiguous or overlap another operand in training, an algorithm that does not exist
/// or refuses, no memory. On failure the running statistics and the number of batches are
/// untouched.
///
/// Source: Ioffe and Szegedy, "Batch Normalization", arXiv 1502.03167; variance by Chan, Golub and
/// LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979;
/// semantics as torch.nn.functional.batch_norm.
#ifndef TALC_OPS_BATCH_NORM2D_H
#define TALC_OPS_BATCH_NORM2D_H

#include "activation.h"
#include "algorithm.h"

TALC_BEGIN_DECLARATIONS

typedef struct talc_batch_norm2d_options {
    bool training;
    double momentum; ///< 0: 0.1; TALC_ZERO: 0, which leaves the running statistics as they are
    double eps;      ///< 0: 1e-5; TALC_ZERO: 0
    talc_activation activation;       ///< applied last
    const talc_tensor *residual;      ///< added before the activation; NULL: none
    talc_tensor *num_batches_tracked; ///< training adds 1 to it; NULL: nothing is counted
    /// This one by name or an error; NULL: the thread's, else the library's choice.
    const char *algorithm;
} talc_batch_norm2d_options;

/// y. weight (NULL: 1), bias (NULL: 0) and options may be NULL; both running statistics may be in
/// training, which otherwise writes them. A view x is copied first, but outside training
/// neighbouring channels of a contiguous tensor are read in place.
TALC_API talc_tensor *talc_batch_norm2d(const talc_tensor *x, const talc_tensor *weight,
                                        const talc_tensor *bias, talc_tensor *running_mean,
                                        talc_tensor *running_var,
                                        const talc_batch_norm2d_options *options);

// ---- What backends implement --------------------------------------------------------------------

/// A checked problem.
typedef struct talc_batch_norm2d_problem {
    talc_direction direction; ///< forward or input gradient
    talc_dtype dtype;
    int64_t N, C, H, W;
    bool training;
    double momentum;
    double eps;
    bool residual; ///< of the gradient: it is written where there is an activation too
    talc_activation activation;
} talc_batch_norm2d_problem;

/// Device pointers to contiguous operands; outside training alone x may be some channels of a
/// larger tensor, with gaps between its images. Forward reads x, weight, bias (NULL: 1 and 0),
/// residual and running_mean, running_var, which training updates once all else is done, as
/// num_batches_tracked (NULL: it does not), and writes y; training also writes mean and rstd, [C],
/// for the gradient, where they are not NULL. They are f64 whatever the problem's type: a mean that
/// is rounded to f32 puts every deviation of data far from 0 off. The input gradient reads x, dy,
/// weight, mean, rstd and, where there is an activation, y; it writes dx, dweight, dbias and, for a
/// residual, dresidual. Others are NULL.
typedef struct talc_batch_norm2d_arguments {
    talc_arguments base;
    const void *x, *weight, *bias;
    int64_t x_gap; ///< elements between an image of x and the next one
    void *running_mean, *running_var;
    const void *residual;
    int64_t *num_batches_tracked;
    void *y;
    double *mean, *rstd;
    const void *dy;
    void *dx, *dweight, *dbias, *dresidual;
} talc_batch_norm2d_arguments;

TALC_END_DECLARATIONS

#endif
