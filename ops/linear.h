/// A linear map of the last dimension.
///
///     y[..., o] = act( bias[o] + residual[..., o] + sum over i of x[..., i] * weight[o, i] )
///
/// Shapes: x [..., in] of rank 1 to 8, weight [out, in], bias [out], residual and y [..., out]. in
/// = 0 gives the bias. Types: f32 or f64, all operands alike, on one device. Views are used as they
/// are where x is rows of one stride.
///
/// Gradients: dx = dy weight, dweight = dy^T x, dbias = dy summed over the leading dimensions,
/// dresidual = dy, with dy taken before the activation.
///
/// Accuracy: the classes of tensor/precision.h; it runs on the algorithms of ops/matmul.h, under
/// the name "linear". Errors: NULL x or weight, ranks or features that do not match, a bias or
/// residual of another shape, dtype or device mismatch, an unknown activation or precision class,
/// sizes past int64, an algorithm that does not exist or refuses, no memory. Source: textbook;
/// semantics as torch.nn.functional.linear.
#ifndef TALC_OPS_LINEAR_H
#define TALC_OPS_LINEAR_H

#include "matmul.h"

TALC_BEGIN_DECLARATIONS

typedef struct talc_linear_options {
    talc_activation activation;  ///< applied last
    const talc_tensor *residual; ///< added before the activation; NULL: none
    /// This one by name or an error; NULL: the thread's, else the library's choice.
    const char *algorithm;
    unsigned precision; ///< admitted classes (tensor/precision.h); 0: the thread's
} talc_linear_options;

/// y. `bias` and `options` may be NULL.
TALC_API talc_tensor *talc_linear(const talc_tensor *x, const talc_tensor *weight,
                                  const talc_tensor *bias, const talc_linear_options *options);

TALC_END_DECLARATIONS

#endif
