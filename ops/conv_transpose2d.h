/// 2-D transposed convolution: the input gradient of a convolution as an op of its own. Every input
/// pixel adds its value times the kernel to the output.
///
///     y[n, g*OC/groups + oc, oh, ow] = b[g*OC/groups + oc]
///                                      + sum over c of group g and h, w, kh, kw with
///                                        oh = h*stride_h - padding_h + kh*dilation_h,
///                                        ow = w*stride_w - padding_w + kw*dilation_w
///                                        of x[n, c, h, w] * w[c, oc, kh, kw]
///
/// Shapes: x [N, C, H, W], w [C, OC/groups, KH, KW], b [OC], y [N, OC, OH, OW] with
///     OH = (H - 1) * stride_h - 2 * padding_h + dilation_h * (KH - 1) + output_padding_h + 1,
/// and OW likewise.
/// A convolution with these options takes several heights to one; output_padding says which of them
/// OH is. N may be 0. Types: f32 or f64, all operands alike, on one device.
///
/// The sum is over the elements of x that there are: a weight that is not finite reaches no other
/// output, also in the lines that output_padding adds.
///
/// It runs the algorithms of conv2d's input gradient: talc_algorithm_force("conv2d.grad_input",
/// ...) names one.
///
/// Gradients: dx is the convolution of dy with w; dw is that convolution's weight gradient; db sums
/// dy over n, oh, ow.
///
/// Errors: NULL x or w, a rank other than 4, channels of w that are not those of x, groups that do
/// not divide C, a bias of another shape, an empty image or kernel, stride, dilation or groups
/// below 1, negative padding or output_padding, output_padding that is neither below the stride nor
/// below the dilation, an output without rows or columns, devices or types that differ, sizes past
/// int64, an unknown precision class, an algorithm that does not exist or refuses, no memory.
///
/// Source: Dumoulin and Visin, "A guide to convolution arithmetic for deep learning", arXiv
/// 1603.07285, chapter 4; semantics as torch.nn.functional.conv_transpose2d.
#ifndef TALC_OPS_CONV_TRANSPOSE2D_H
#define TALC_OPS_CONV_TRANSPOSE2D_H

#include "../tensor/tensor.h"

TALC_BEGIN_DECLARATIONS

/// Pairs are height, width. A stride or a dilation of {2} is 2 for both; a padding of {1} is 1
/// above and below alone.
typedef struct talc_conv_transpose2d_options {
    int64_t stride[2];         ///< 0: 1, of a second one the first
    int64_t padding[2];        ///< rows and columns that are cut off on each side
    int64_t output_padding[2]; ///< rows and columns that are added at the end
    int64_t dilation[2];       ///< 0: 1, a dense kernel; of a second one the first
    int64_t groups;            ///< 0: 1
    /// An algorithm of conv2d's input gradient by name, or an error; NULL: the thread's, else the
    /// library's choice.
    const char *algorithm;
    unsigned precision; ///< admitted classes (tensor/precision.h); 0: the thread's
} talc_conv_transpose2d_options;

/// y. `bias` and `options` may be NULL.
TALC_API talc_tensor *talc_conv_transpose2d(const talc_tensor *x, const talc_tensor *w,
                                            const talc_tensor *bias,
                                            const talc_conv_transpose2d_options *options);

TALC_END_DECLARATIONS

#endif
