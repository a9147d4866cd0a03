/// The windows of an image as columns of a matrix, which is the matrix of the im2col convolution,
/// and the way back.
///
///     unfold   y[n, (c * KH + kh) * KW + kw, oh * OW + ow] = x'[n, c, i, j]
///     fold     y[n, c, i, j] = sum of x[n, (c * KH + kh) * KW + kw, oh * OW + ow] over all kh, kw,
///                              oh and ow that read there
///
///     i = oh * stride_h - pad_h + kh * dilation_h,   j = ow * stride_w - pad_w + kw * dilation_w
///
/// x' is x with zeros around it, which fold drops. OH = floor((H + 2 pad_h - dilation_h (KH - 1) -
/// 1) / stride_h) + 1, OW likewise. unfold: x [N,C,H,W] or [C,H,W], y [N, C KH KW, OH OW] or
/// without N; fold: the other way round, with H and W given. f32 and f64, any strides; y is
/// contiguous.
///
/// Gradients: each op's is the other, of dy.
///
/// Accuracy: unfold moves elements; fold adds K = KH KW of them at most, within K u sum |x|. An
/// element that no window covers is 0.
///
/// Errors: NULL x or options, another type, a rank; a kernel, stride or dilation below 1, negative
/// padding, a kernel that does not fit the padded image; fold: rows that are no multiple of KH KW,
/// columns that are not OH OW, H or W below 1; extents past int64, no memory. Source: Chellapilla,
/// Puri and Simard 2006; semantics as torch.nn.functional.unfold and fold.
#ifndef TALC_OPS_UNFOLD_H
#define TALC_OPS_UNFOLD_H

#include "conv2d.h"

TALC_BEGIN_DECLARATIONS

/// Pairs are height, width.
typedef struct talc_unfold_options {
    int64_t kernel[2];
    int64_t stride[2];   ///< 0: 1, of a second one the first
    int64_t padding[2];  ///< on both sides of an axis
    int64_t dilation[2]; ///< 0: 1, of a second one the first
} talc_unfold_options;

TALC_API talc_tensor *talc_unfold(const talc_tensor *x, const talc_unfold_options *options);
TALC_API talc_tensor *talc_fold(const talc_tensor *x, int64_t height, int64_t width,
                                const talc_unfold_options *options);

// ---- What backends implement --------------------------------------------------------------------

/// N, C, H and W are the image's, OH and OW count windows; nothing is empty.
typedef struct talc_unfold_problem {
    bool fold; ///< rather than unfold
    talc_dtype dtype;
    int64_t N, C, H, W;
    int64_t KH, KW;
    int64_t OH, OW;
    int64_t stride_h, stride_w;
    int64_t pad_top, pad_left;
    int64_t dilation_h, dilation_w;
} talc_unfold_problem;

typedef struct talc_unfold_arguments {
    talc_arguments base;
    void *y;
    const void *x;
} talc_unfold_arguments;

/// The convolution whose im2col matrix it is.
talc_conv2d_problem talc_unfold_conv2d(const talc_unfold_problem *problem);

TALC_END_DECLARATIONS

#endif
