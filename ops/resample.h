/// Outputs that each show one element of x, or mix neighbours of it, dimension by dimension:
/// padding and upsampling.
///
///     pad:        y[..., o, ...] = x[..., source(o - begin), ...],
///                 or `value` where the mode has no source
///     upsample2d: nearest:  y[n, c, oh, ow] = x[n, c, ih, iw],
///                           ih = min(floor(oh * s), H - 1), iw likewise
///                 bilinear: the mean of x at floor(p) and floor(p) + 1, weighted by 1 - l and l
///                           with l = p - floor(p), along h and then w;
///                           p = max(0, s * (oh + 1/2) - 1/2), or s * oh with align_corners; the
///                           last element stands for what is past it
///
/// Where a scale factor f is given, OH = floor(H * f) and s = 1/f; else s = H/OH. Aligned, s = (H -
/// 1)/(OH - 1), 0 for OH = 1, whichever is given. Where OH = H, s is 1 whatever f, and for nearest
/// 1/2 where OH = 2 H. The nearest index is worked out in f32 for every type, p in f64: PyTorch's
/// f32 results of `bilinear` differ by the rounding of p.
///
/// x and y: pad: any rank and every dtype; upsample2d: [N, C, H, W] or [C, H, W], nearest every
/// dtype, bilinear f32 or f64. x may have any strides; y is contiguous. H and W of upsample2d may
/// not be 0, nor OH and OW; other extents may.
///
/// Gradients: dx[i] is the sum of dy over the outputs that show x[i], by their weights, in one
/// order: of pad with a constant, dy without the padding.
///
/// Accuracy: y has the bits of x, and bilinear is within 6 u S, S being the sum of the sizes of
/// what an output mixes, by their weights. dx, with S = sum |weight dy| over the K outputs that
/// show the element: within (1 + (K + 6) / 2^29) u S for f32, which is summed in f64, and (K + 6) u
/// S for f64.
///
/// Errors: NULL x or options, rank, type, a mode that does not exist; pad: padding of a dimension
/// that x lacks, or that leaves a negative extent, reflection by an extent or more, repetition by
/// more than an extent, replication of an empty extent, modes other than a constant in other than
/// the last 3 dimensions; upsample2d: both size and scale, or neither of one dimension, a size
/// below 0, a scale that is NaN, infinite or not above 0, an empty output, align_corners without
/// bilinear; extents past int64, no memory.
///
/// Source: textbook; semantics as torch.nn.functional.pad, and interpolate with
/// recompute_scale_factor=None.
#ifndef TALC_OPS_RESAMPLE_H
#define TALC_OPS_RESAMPLE_H

#include "algorithm.h"
#include "window.h"

TALC_BEGIN_DECLARATIONS

/// Zero everywhere pads nothing.
typedef struct talc_pad_options {
    /// Before and after the last dimension, before and after the one ahead of it, and so on, as in
    /// PyTorch: {left, right, top, bottom}. Negative padding crops, before TALC_PADDING_CIRCULAR
    /// repeats what is left.
    int64_t padding[2 * TALC_MAX_RANK];
    talc_padding_mode mode; ///< TALC_PADDING_ZEROS: `value` rather than 0
    double value;           ///< as talc_full takes it; only where the mode shows it
} talc_pad_options;

/// y.
TALC_API talc_tensor *talc_pad(const talc_tensor *x, const talc_pad_options *options);

typedef enum talc_upsample_mode {
    TALC_UPSAMPLE_NEAREST,
    TALC_UPSAMPLE_BILINEAR,
    TALC_UPSAMPLE_MODE_COUNT
} talc_upsample_mode;

/// Pairs are height, width. Either size or scale.
typedef struct talc_upsample2d_options {
    int64_t size[2];
    double scale[2];
    talc_upsample_mode mode;
    bool align_corners; ///< bilinear only: the corners of x and y are the same points
} talc_upsample2d_options;

/// y, smaller than x where a scale is below 1.
TALC_API talc_tensor *talc_upsample2d(const talc_tensor *x, const talc_upsample2d_options *options);

// ---- What backends implement --------------------------------------------------------------------

/// What upsample2d refuses of options whatever x is: false with a failure. For the module.
bool talc_upsample2d_check(const talc_upsample2d_options *options);

/// Where the outputs of one dimension look for their elements; ops/resample_axis.h says which they
/// are.
typedef enum talc_resample_kind {
    TALC_RESAMPLE_PAD, ///< by `mode`
    TALC_RESAMPLE_NEAREST,
    TALC_RESAMPLE_LINEAR,
    TALC_RESAMPLE_ALIGNED ///< linear, corners aligned
} talc_resample_kind;

typedef struct talc_resample_axis {
    talc_resample_kind kind;
    talc_padding_mode mode;
    int64_t in, out;
    int64_t begin; ///< padding before the first element
    double scale;  ///< elements of x from an output to the next
} talc_resample_axis;

/// y, of extents `out`, from x, of extents `in`, both contiguous. The input gradient gives dx, as
/// x, from dy, as y. Two axes at most are linear, and then all others show what they have; the type
/// is then a float. At least one axis.
typedef struct talc_resample_problem {
    talc_direction direction; ///< forward or input gradient, of a float
    talc_dtype dtype;
    int rank;
    talc_resample_axis axes[TALC_MAX_RANK];
    double value; ///< what arguments->value is, for the check of models
} talc_resample_problem;

typedef struct talc_resample_arguments {
    talc_arguments base;
    const void *x;     ///< of the input gradient dy
    void *y;           ///< of the input gradient dx
    const void *value; ///< the element that stands where there is none in x; NULL: 0
} talc_resample_arguments;

/// dx, of the shape `x`, of a forward problem. Not recorded. For other ops' gradients.
talc_tensor *talc_resample_grad_input(const talc_resample_problem *problem, const talc_tensor *dy,
                                      talc_dims x);

TALC_END_DECLARATIONS

#endif
