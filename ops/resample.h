/// Outputs that each show one element of x, or mix neighbours of it, dimension by dimension:
/// padding and upsampling.
///
///     pad:        y[..., o, ...] = x[..., source(o - begin), ...],
///                 or `value` where the mode has no source
///     upsample2d: along h and then w, with l = p - floor(p),
///                 nearest:  x at floor(p), or at p rounded as `rounding` says
///                 bilinear: the mean of x at floor(p) and floor(p) + 1, weighted by 1 - l and l
///                 bicubic:  the sum of x at floor(p) - 1, ..., floor(p) + 2, weighted by k(1 + l),
///                           k(l), k(1 - l), k(2 - l), where with the coefficient a
///                           k(d) = (a + 2) d^3 - (a + 3) d^2 + 1      for d <= 1,
///                                  a (d^3 - 5 d^2 + 8 d - 4)          for d <= 2
///
/// where the first element stands for those before it and the last for those past it. Output o lies
/// at
///
///     half_pixel            p = s (o + 1/2) - 1/2
///     pytorch_half_pixel    the same, 0 where OH = 1
///     half_pixel_symmetric  s (o + 1/2) - 1/2 + (H - s OH) / 2: the images' middles are one point
///     asymmetric            p = s o
///     align_corners         p = s o
///
/// Where a scale factor f is given, OH = floor(H * f) and s = 1/f; else s = H/OH. Aligned, s = (H -
/// 1)/(OH - 1), 0 for OH = 1, whichever is given. Where `coordinates` is left out, nearest is
/// asymmetric and the others are of half pixels, and, as in PyTorch, nearest and bilinear have s =
/// 1 where OH = H whatever f, nearest s = 1/2 where OH = 2 H. Of nearest s (o + 1/2) and s o are
/// worked out in f32 for every type, as in PyTorch; where `coordinates` is given, a p that is
/// within their rounding, H 2^-23, of one where the choice changes is taken for that one. Else p is
/// worked out in f64: PyTorch's f32 results of `bilinear` and `bicubic` differ by its rounding.
///
/// x and y: pad: any rank and every dtype; upsample2d: [N, C, H, W] or [C, H, W], nearest every
/// dtype, bilinear and bicubic f32 or f64. x may have any strides; y is contiguous. H and W of
/// upsample2d may not be 0, nor OH and OW; other extents may.
///
/// Gradients: dx[i] is the sum of dy over the outputs that show x[i], by their weights, in one
/// order: of pad with a constant, dy without the padding.
///
/// Accuracy: y has the bits of x, and bilinear is within 6 u S, S being the sum of the sizes of
/// what an output mixes, by their weights; bicubic, of a coefficient from -1 to 0, within 28 u S,
/// with exclude_outside 46 u S. dx, with S = sum |weight dy| over the K outputs that show the
/// element: within (1 + (K + k) / 2^29) u S for f32, which is summed in f64, and (K + k) u S for
/// f64, where k is 6, of bicubic 28 or 46.
///
/// Errors: NULL x or options, rank, type, a mode that does not exist; pad: padding of a dimension
/// that x lacks, or that leaves a negative extent, reflection by an extent or more, repetition by
/// more than an extent, replication of an empty extent, modes other than a constant in other than
/// the last 3 dimensions; upsample2d: both size and scale, or neither of one dimension, a size
/// below 0, a scale that is NaN, infinite or not above 0, an empty output, an option of another
/// mode, both align_corners and coordinates, a coefficient that is not finite; extents past int64,
/// no memory.
///
/// Source: textbook; semantics as torch.nn.functional.pad, and interpolate with
/// recompute_scale_factor=None, antialias=False; those of ONNX's Resize where these are named.
/// Bicubic: Keys, "Cubic convolution interpolation for digital image processing", 1981.
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
    TALC_UPSAMPLE_BICUBIC,
    TALC_UPSAMPLE_NEAREST_EXACT, ///< PyTorch's: half_pixel, TALC_ROUNDING_PREFER_CEIL
    TALC_UPSAMPLE_MODE_COUNT
} talc_upsample_mode;

typedef enum talc_upsample_coordinates {
    TALC_COORDINATES_DEFAULT, ///< PyTorch's: half_pixel; of nearest asymmetric
    TALC_COORDINATES_HALF_PIXEL,
    TALC_COORDINATES_PYTORCH_HALF_PIXEL,
    TALC_COORDINATES_HALF_PIXEL_SYMMETRIC,
    TALC_COORDINATES_ASYMMETRIC,
    TALC_COORDINATES_ALIGN_CORNERS,
    TALC_COORDINATES_COUNT
} talc_upsample_coordinates;

typedef enum talc_upsample_rounding {
    TALC_ROUNDING_FLOOR,
    TALC_ROUNDING_CEIL,
    TALC_ROUNDING_PREFER_FLOOR, ///< to the element that is nearest, of two the first
    TALC_ROUNDING_PREFER_CEIL,  ///< of two the second
    TALC_ROUNDING_COUNT
} talc_upsample_rounding;

/// Pairs are height, width. Either size or scale.
typedef struct talc_upsample2d_options {
    int64_t size[2];
    double scale[2];
    talc_upsample_mode mode;
    bool align_corners; ///< of bilinear and bicubic: TALC_COORDINATES_ALIGN_CORNERS
    talc_upsample_coordinates coordinates; ///< not of nearest_exact
    talc_upsample_rounding rounding;       ///< of nearest
    double coefficient;                    ///< a of bicubic. 0: -0.75, PyTorch's; TALC_ZERO: 0
    bool exclude_outside; ///< of bicubic: no element stands for those outside, and the weights of
                          ///< those inside are divided by their sum
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
    TALC_RESAMPLE_CUBIC
} talc_resample_kind;

/// Output o lies at p = scale * (o + shift) + offset.
typedef struct talc_resample_axis {
    talc_resample_kind kind;
    talc_padding_mode mode;
    int64_t in, out;
    int64_t begin; ///< padding before the first element
    double scale;  ///< elements of x from an output to the next
    double shift, offset;
    double coefficient; ///< of a cubic axis
    bool inside;        ///< of a cubic axis: what lies outside has no weight
    bool up;            ///< nearest: the first element not before p, else the last not behind it
} talc_resample_axis;

/// y, of extents `out`, from x, of extents `in`, both contiguous. The input gradient gives dx, as
/// x, from dy, as y. At least one axis. All that are not padded are of one kind, a float's where it
/// mixes, and the last two, or one of them; then all others show what they have.
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
