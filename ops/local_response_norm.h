/// Local response normalisation over channels.
///
///     y[n, c, p] = x[n, c, p] / (k + alpha / size * sum over j of x[n, j, p]^2)^beta
///
/// j goes from c - size / 2 to c + (size - 1) / 2, rounded down, within the channels. Shapes: x and
/// y [N, C, ...], of rank 3 at least; any extent may be 0; x may have any strides, y is contiguous.
/// Types: f32 or f64. It is composed of other ops, among them avg_pool2d, and so is its gradient;
/// about six passes over x.
///
/// Errors: NULL x, another dtype or rank, size below 1, alpha, beta or k that is negative or not
/// finite, no memory. Source: Krizhevsky et al., "ImageNet Classification with Deep Convolutional
/// Neural Networks", 2012; semantics as torch.nn.functional.local_response_norm.
#ifndef TALC_OPS_LOCAL_RESPONSE_NORM_H
#define TALC_OPS_LOCAL_RESPONSE_NORM_H

#include "../tensor/tensor.h"

TALC_BEGIN_DECLARATIONS

typedef struct talc_local_response_norm_options {
    double alpha; ///< 0: 1e-4; TALC_ZERO: 0; likewise below
    double beta;  ///< 0: 0.75
    double k;     ///< 0: 1
} talc_local_response_norm_options;

/// y. options may be NULL.
TALC_API talc_tensor *talc_local_response_norm(const talc_tensor *x, int64_t size,
                                               const talc_local_response_norm_options *options);

TALC_END_DECLARATIONS

#endif
