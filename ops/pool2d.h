/// 2-D pooling: the maximum or the average of each window of each channel.
///
///     max:  y[n, c, oh, ow] = max over kh, kw of x[n, c, ih, iw],
///           ih = oh * stride_h - top + kh * dilation_h, iw likewise, over taps inside the image
///     avg:  y[n, c, oh, ow] = 1/D * sum over the same taps of x, with dilation 1
///           D = divisor_override when given; else the window's elements inside the padded image,
///           which what ceil_mode adds is no part of; with exclude_padding those inside the image
///     adaptive: the same over ih = floor(oh * H / OH) .. ceil((oh + 1) * H / OH) - 1, iw likewise
///
/// Shapes: x [N, C, H, W] or [C, H, W], y alike with OH, OW for H, W, where
///     OH = floor((H + top + bottom - dilation_h * (KH - 1) - 1) / stride_h) + 1
/// and ceil_mode rounds up instead, unless the last window would then start past the image, in its
/// bottom padding or beyond. N may be 0, the other extents of x not. Types: f32 or f64.
///
/// The maximum of a window that holds NaN is NaN. Every window reaches into the image, as padding
/// is smaller than a window; with a dilation larger than the image all taps may still lie around
/// it: that maximum is -infinity, as in PyTorch, and its index -1.
///
/// Gradients: max: dx[indices[o]] += dy[o]; avg: every tap of window o inside the image gets dy[o]
/// / D.
///
/// Errors: NULL x, another rank or type, an empty extent other than N, kernel, stride or dilation
/// below 1, padding that is negative or above dilation * (kernel - 1), `same` with a stride, a
/// negative divisor, an option of the other kind of pooling, a kernel larger than the padded input,
/// an algorithm that does not exist or refuses, no memory.
///
/// Source: textbook; semantics as torch.nn.functional.max_pool2d, avg_pool2d and the adaptive ones,
/// which have one padding for both sides, of at most half the kernel.
#ifndef TALC_OPS_POOL2D_H
#define TALC_OPS_POOL2D_H

#include "algorithm.h"

TALC_BEGIN_DECLARATIONS

/// Pairs are height, width. A stride or a dilation of {2} is 2 for both; a padding of {1} is 1
/// above and below alone.
typedef struct talc_pool2d_options {
    int64_t kernel[2];  ///< both are required
    int64_t stride[2];  ///< 0: the kernel, of a second one a first that is given
    int64_t padding[2]; ///< top and left, and bottom and right unless padding_end says otherwise
    int64_t padding_end[2]; ///< bottom and right; 0: as top and left; TALC_ZERO: none
    bool padding_same; ///< OH = H, OW = W at stride 1; an odd total puts the larger half at the end
    int64_t dilation[2];      ///< max only; 0: 1, of a second one the first
    bool ceil_mode;           ///< a last window that is partly outside counts
    bool exclude_padding;     ///< avg only; PyTorch's count_include_pad is the opposite
    int64_t divisor_override; ///< avg only; 0: none
    /// This one by name or an error; NULL: the thread's, else the library's choice.
    const char *algorithm;
} talc_pool2d_options;

/// y. `options` are required: the kernel has no default.
TALC_API talc_tensor *talc_max_pool2d(const talc_tensor *x, const talc_pool2d_options *options);
TALC_API talc_tensor *talc_avg_pool2d(const talc_tensor *x, const talc_pool2d_options *options);

/// y. OH and OW may be 0: it is then empty.
TALC_API talc_tensor *talc_adaptive_avg_pool2d(const talc_tensor *x, int64_t OH, int64_t OW);
TALC_API talc_tensor *talc_adaptive_max_pool2d(const talc_tensor *x, int64_t OH, int64_t OW);

/// talc_max_pool2d, and in *indices an i64 tensor of y's shape: where in its plane of H * W
/// elements each maximum stands. Of equal maxima it is the first; of several NaN the last, as in
/// PyTorch; -1 where the window holds no element.
/// *indices is NULL on failure.
TALC_API talc_tensor *talc_max_pool2d_indices(const talc_tensor *x,
                                              const talc_pool2d_options *options,
                                              talc_tensor **indices);

// ---- What backends implement --------------------------------------------------------------------

typedef enum talc_pool2d_kind {
    TALC_POOL2D_MAX,
    TALC_POOL2D_AVG,
    TALC_POOL2D_ADAPTIVE_AVG,
    TALC_POOL2D_ADAPTIVE_MAX,
    TALC_POOL2D_KIND_COUNT
} talc_pool2d_kind;

/// What max or avg refuses of options whatever x is: false with a failure. For the modules.
bool talc_pool2d_check(talc_pool2d_kind kind, const talc_pool2d_options *options);

/// A checked problem. Its planes are the N * C images of H by W elements, contiguous; the window of
/// an output comes from ops/pool2d_window.h.
typedef struct talc_pool2d_problem {
    talc_pool2d_kind kind;
    talc_direction direction; ///< forward or input gradient
    talc_dtype dtype;
    bool indices; ///< the forward direction of max also gives them
    int64_t N, C, H, W;
    int64_t OH, OW;
    int64_t KH, KW; ///< this and the rest: 0 in adaptive pooling
    int64_t stride_h, stride_w;
    int64_t pad_top, pad_left, pad_bottom, pad_right; ///< ceil_mode shows in OH and OW
    int64_t dilation_h, dilation_w;
    bool exclude_padding;
    int64_t divisor; ///< 0: the window's own
} talc_pool2d_problem;

static inline bool talc_pool2d_is_max(const talc_pool2d_problem *p)
{
    return p->kind == TALC_POOL2D_MAX || p->kind == TALC_POOL2D_ADAPTIVE_MAX;
}

static inline bool talc_pool2d_is_adaptive(const talc_pool2d_problem *p)
{
    return p->kind == TALC_POOL2D_ADAPTIVE_AVG || p->kind == TALC_POOL2D_ADAPTIVE_MAX;
}

/// Device pointers to contiguous operands. Forward reads x and writes y, and indices when the
/// problem says so; the input gradient reads dy, and indices for max, and writes dx. Others are
/// NULL.
typedef struct talc_pool2d_arguments {
    talc_arguments base;
    const void *x;
    void *y;
    int64_t *indices;
    const void *dy;
    void *dx;
} talc_pool2d_arguments;

TALC_END_DECLARATIONS

#endif
