/// A depthwise convolution and the pointwise one behind it, as one op: a depthwise separable convolution.
///
///     m[n, c, oh, ow]  = act1( b1[c] + sum over kh, kw of
///                              x'[n, c, oh*stride_h - top + kh*dilation_h, ow*stride_w - left + kw*dilation_w] * w1[c, 0, kh, kw] )
///     y[n, oc, oh, ow] = act2( b2[oc] + r[n, oc, oh, ow] + sum over c of w2[oc, c, 0, 0] * m[n, c, oh, ow] )
///
/// x' is x with its padding, as in conv2d.h, and so are OH and OW.
///
/// Shapes: x [N, C, H, W], w1 [C, 1, KH, KW], b1 [C], w2 [OC, C, 1, 1], b2 [OC], r and y [N, OC, OH, OW]. N may be 0.
/// Types: f32 or f64, all operands alike, on one device.
///
/// What runs: one launch, which keeps m off memory, where a row of the device can do it and its estimate is below the sum of
/// those of the two convolutions that would run otherwise; else two calls of talc_conv2d. Two run as well where an
/// input's gradient is recorded, where an algorithm is forced on "conv2d", where an estimate is missing, and where only
/// `reference` could. A row of this op that is asked for by name, in `pointwise` or by
/// talc_algorithm_force("separable_conv2d", ...), runs or fails with its reason.
///
/// Accuracy: m is rounded as a convolution's result is, within (KH KW + 2) u of the sum of its sizes for strict rows, and y has
/// (C + 2) u of its own. A row of class TF32 has its second sum alone in TF32.
///
/// Gradients: those of the two convolutions, which record themselves.
///
/// Errors: NULL x, w1 or w2, a rank or shape other than these, options of `depthwise` or `pointwise` that do not belong there,
/// a row by name where a gradient is recorded, and those of talc_conv2d. Nothing is changed on failure.
///
/// Source: Sifre, "Rigid-motion scattering for image classification", 2014; Howard et al., "MobileNets", arXiv 1704.04861.
#ifndef TALC_OPS_SEPARABLE_CONV2D_H
#define TALC_OPS_SEPARABLE_CONV2D_H

#include "conv2d.h"

TALC_BEGIN_DECLARATIONS

/// y. Biases and options may be NULL. Of `depthwise` count stride, padding, dilation and activation; its groups are C, or 0 for
/// that. Of `pointwise` count activation, residual, and the algorithm and precision of the whole op.
TALC_API talc_tensor *talc_separable_conv2d(const talc_tensor *x, const talc_tensor *w1,
                                            const talc_tensor *b1,
                                            const talc_conv2d_options *depthwise,
                                            const talc_tensor *w2, const talc_tensor *b2,
                                            const talc_conv2d_options *pointwise);

// ---- The problem: plain data, checked -----------------------------------------------------------------------

/// The two convolutions; the second's input is the first's result.
typedef struct talc_separable_conv2d_problem {
    talc_conv2d_problem depthwise, pointwise;
} talc_separable_conv2d_problem;

/// Checks both, each as talc_conv2d_problem_check does, and that they belong together.
TALC_API bool talc_separable_conv2d_problem_check(talc_separable_conv2d_problem *problem);

/// The problem as text: that of the depthwise convolution, and behind a plus the output channels and words of the other:
/// n16c64h512w512o64k3x3s1x1p1x1d1x1g64_relu+o128_bias_relu. Into the caller's buffer, which it returns.
#define TALC_SEPARABLE_CONV2D_TEXT 320
TALC_API const char *talc_separable_conv2d_problem_text(
    const talc_separable_conv2d_problem *problem, char text[TALC_SEPARABLE_CONV2D_TEXT]);

/// Reads such a text; the first half as talc_conv2d_problem_parse does. The message of an error gives the position.
TALC_API bool talc_separable_conv2d_problem_parse(const char *text,
                                                  talc_separable_conv2d_problem *problem);

// ---- What backends implement --------------------------------------------------------------------------------

/// Device pointers to contiguous operands; NULL for those that the problem does not have.
typedef struct talc_separable_conv2d_arguments {
    talc_arguments base;
    const void *x, *w1, *b1, *w2, *b2, *residual;
    void *y;
} talc_separable_conv2d_arguments;

TALC_END_DECLARATIONS

#endif
