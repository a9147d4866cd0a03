/// 2-D convolution, which is cross-correlation: the kernel is not flipped.
///
///     y[n, oc, oh, ow] = act( b[oc] + r[n, oc, oh, ow] + sum over ic, kh, kw of
///                             x'[n, g*C/groups + ic, oh*stride_h - top + kh*dilation_h,
///                                ow*stride_w - left + kw*dilation_w]
///                             * w[oc, ic, kh, kw] ),      g = oc / (OC / groups)
///
/// x' is x inside the image; outside it is 0, or what the padding mode puts there.
///
/// Shapes: x [N, C, H, W], w [OC, C/groups, KH, KW], b [OC], r and y [N, OC, OH, OW] with
///     OH = floor((H + top + bottom - dilation_h * (KH - 1) - 1) / stride_h) + 1, and OW likewise.
/// N may be 0. Types: f32 or f64, all operands alike, on one device.
///
/// Gradients: dx is the convolution of dy with w, channels exchanged and taps flipped; dw sums x'
/// times dy over n, oh, ow; db sums dy over n, oh, ow.
///
/// Numbers that are not finite go where these sums say, by algorithms of every class but NORMWISE:
/// y and dw multiply the zeros of x', of which 0 * infinity is NaN; dx has no terms for outputs
/// that there are not.
///
/// Errors: NULL x or w, a rank other than 4, channels that do not match, groups that do not divide
/// C or OC, a bias or residual of another shape, stride, dilation or groups below 1, negative
/// padding, a kernel larger than the padded input, `same` with a stride, reflect padding of H or
/// more (circular: more than H), devices or types that differ, sizes past int64, an unknown
/// precision class, an algorithm that does not exist or refuses, no memory. Outputs are untouched
/// on failure.
///
/// Source: Dumoulin and Visin, "A guide to convolution arithmetic for deep learning", arXiv
/// 1603.07285; semantics as torch.nn.functional.conv2d.
#ifndef TALC_OPS_CONV2D_H
#define TALC_OPS_CONV2D_H

#include "activation.h"
#include "algorithm.h"
#include "window.h"

#include <stdio.h>

TALC_BEGIN_DECLARATIONS

/// "zeros", "reflect", "replicate", "circular"; "?" for another number.
TALC_API const char *talc_padding_mode_name(talc_padding_mode mode);

/// Pairs are height, width. A stride or a dilation of {2} is 2 for both; a padding of {1} is 1
/// above and below alone.
typedef struct talc_conv2d_options {
    int64_t stride[2];  ///< 0: 1, of a second one the first
    int64_t padding[2]; ///< top and left, and bottom and right unless padding_end says otherwise
    int64_t padding_end[2]; ///< bottom and right; 0: as top and left; TALC_ZERO: none
    bool padding_same; ///< OH = H, OW = W at stride 1; an odd total puts the larger half at the end
    talc_padding_mode padding_mode;
    int64_t dilation[2];         ///< 0: 1, a dense kernel; of a second one the first
    int64_t groups;              ///< 0: 1
    talc_activation activation;  ///< applied last
    const talc_tensor *residual; ///< added before the activation; NULL: none
    /// This one by name, or by name(form) where several share it, or an error; NULL: the thread's,
    /// else the library's choice.
    const char *algorithm;
    unsigned precision; ///< admitted classes (tensor/precision.h); 0: the thread's
    /// What an algorithm makes of w alone is kept with w for calls to come, until w is written
    /// (talc_version counts that) or freed; at most four times. Of no effect where a gradient is
    /// recorded, and in a recorded step (nn/step.h), which may write w.
    bool cache_weights;
} talc_conv2d_options;

/// y. `bias` and `options` may be NULL.
TALC_API talc_tensor *talc_conv2d(const talc_tensor *x, const talc_tensor *w,
                                  const talc_tensor *bias, const talc_conv2d_options *options);

// ---- The problem: plain data, checked -----------------------------------------------------------

/// All that an algorithm needs to know beside the pointers. Consistent once made by the functions
/// below.
typedef struct talc_conv2d_problem {
    talc_direction direction;
    talc_dtype dtype;
    int64_t N, C, H, W;
    int64_t OC, KH, KW;
    int64_t OH, OW;
    int64_t stride_h, stride_w;
    int64_t pad_top, pad_left, pad_bottom, pad_right;
    int64_t dilation_h, dilation_w;
    int64_t groups;
    talc_padding_mode padding_mode;
    bool bias;
    bool residual;
    talc_activation activation;
    /// Sums run over the elements of x that exist, and multiply no zeros around them, which matters
    /// where a weight is not finite: 0 * inf is NaN. So a backend poses an input gradient to its
    /// forward kernels, dy being x. Never set in a problem of a call.
    bool only_inside;
} talc_conv2d_problem;

/// The problem that a call with these operands poses, after every check of the op.
TALC_API bool talc_conv2d_problem_of(const talc_tensor *x, const talc_tensor *w,
                                     const talc_tensor *bias, const talc_conv2d_options *options,
                                     talc_conv2d_problem *problem);

/// Works out OH and OW and checks everything that needs no tensor.
TALC_API bool talc_conv2d_problem_check(talc_conv2d_problem *problem);

/// The problem as text, n8c64h512w256o128k5x7s1x1p0x0d1x1g1, then _f64, _bias, _residual, _relu
/// ..., _reflect ..., and _dx or _dw for a gradient, as they apply; padding that differs at the end
/// is p1x2x3x4: top, left, bottom, right. Into the caller's buffer, which it returns. The same text
/// serves tests, failures, explain and bench.
#define TALC_CONV2D_TEXT 320
TALC_API const char *talc_conv2d_problem_text(const talc_conv2d_problem *problem,
                                              char text[TALC_CONV2D_TEXT]);

/// Reads such a text; s, p, d and g may be left out, and one number stands for both axes: "k3" is
/// "k3x3". The message of an error gives the position.
TALC_API bool talc_conv2d_problem_parse(const char *text, talc_conv2d_problem *problem);

/// Floating-point operations: 2 * N * OC * OH * OW * C/groups * KH * KW; 0 for NULL.
TALC_API double talc_conv2d_flops(const talc_conv2d_problem *problem);

/// Bytes of all operands, read once, and of the result, written once; 0 for NULL.
TALC_API double talc_conv2d_bytes(const talc_conv2d_problem *problem);

// ---- A gradient by itself -----------------------------------------------------------------------

/// What problem->direction asks for, without a tape: dx [N,C,H,W] from w and dy, or dw
/// [OC,C/groups,KH,KW] from x and dy. `operand` is w or x, dy [N,OC,OH,OW] the gradient before
/// bias, residual and activation, of which no notice is taken. Of the options, which may be NULL,
/// algorithm and precision count. The result is not recorded. Errors: NULL, a forward problem,
/// operands that are not the problem's, and those of a call of talc_conv2d.
TALC_API talc_tensor *talc_conv2d_gradient(const talc_conv2d_problem *problem,
                                           const talc_tensor *operand, const talc_tensor *dy,
                                           const talc_conv2d_options *options);

// ---- Explaining ---------------------------------------------------------------------------------

/// The whole decision, before anything runs.
typedef struct talc_conv2d_explanation {
    talc_conv2d_problem problem;
    double flops, bytes;
    talc_explanation decision;
} talc_conv2d_explanation;

/// Explains what `problem` would run on `device`; of the options, which may be NULL, only algorithm
/// and precision count. That every algorithm refuses is an answer, not a failure. False for NULL
/// arguments or an inconsistent problem.
TALC_API bool talc_conv2d_explain(talc_device *device, const talc_conv2d_problem *problem,
                                  const talc_conv2d_options *options,
                                  talc_conv2d_explanation *explanation);

/// Prints an explanation for people.
TALC_API void talc_conv2d_explanation_print(FILE *file, const talc_conv2d_explanation *explanation);

// ---- What backends implement --------------------------------------------------------------------

/// Device pointers to contiguous operands, [N,C,H,W] and so on. Forward reads x, w, bias, residual
/// and writes y; the input gradient reads dy, w and writes dx; the weight gradient reads x, dy and
/// writes dw. Others are NULL.
typedef struct talc_conv2d_arguments {
    talc_arguments base;
    const void *x, *w, *bias, *residual;
    const void *dy;
    void *y;
    void *dx, *dw;
} talc_conv2d_arguments;

TALC_END_DECLARATIONS

#endif
