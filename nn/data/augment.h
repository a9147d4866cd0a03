/// Augmentation: random changes of training images, by torchvision's formulas, and the same moves
/// of their masks.
///
///     talc_loader *loader = talc_loader_new(
///         photos, &(talc_loader_options){ .batch = 64,
///                                         .shuffle = true,
///                                         .augment = { .scale = { 0.08, 1 }, // RandomResizedCrop
///                                                      .flip = 0.5,
///                                                      .rotation = 10,
///                                                      .brightness = 0.4,
///                                                      .erase = 0.25 } });
///
/// A loader draws and applies them by itself. talc_augment_draw and talc_augment_image do it for
/// one image: what is drawn is data, as of torchvision's get_params, and applying it is a function.
#ifndef TALC_NN_DATA_AUGMENT_H
#define TALC_NN_DATA_AUGMENT_H

#include "image.h"

TALC_BEGIN_DECLARATIONS

/// What is random, applied in this order. Zero: not that.
typedef struct talc_augment {
    /// RandomResizedCrop: a part of the image of so much of its area, `scale`, and of such a width
    /// to its height, `ratio` (zeros: 3/4 and 4/3), is resized to the size that is asked for. Ten
    /// parts are drawn, of which the first that fits inside is taken, else the largest one in the
    /// middle that has a ratio within the bounds.
    double scale[2], ratio[2];
    double flip;     ///< RandomHorizontalFlip: the probability of mirroring left to right
    double rotation; ///< RandomRotation: by up to so many degrees each way, 0 .. 180
    /// ColorJitter, of images with 1 or 3 channels: factors of max(0, 1 - x) .. 1 + x, and the hue
    /// turned by up to so much of a circle each way, 0 .. 1/2; in a random order.
    double brightness, contrast, saturation, hue;
    /// RandomErasing: the probability of erasing a rectangle of `erase_scale` of the area (zeros:
    /// 0.02 and 0.33) whose height to its width is `erase_ratio` (zeros: 0.3 and 3.3). Cutout is
    /// one with erase = 1. Ten are drawn, the first that fits inside is erased.
    double erase, erase_scale[2], erase_ratio[2];
} talc_augment;

/// What was drawn for one image.
typedef struct talc_augment_params {
    talc_image_size size;                    ///< of the result
    int64_t top, left;                       ///< where the part begins
    talc_image_size crop;                    ///< its size
    bool flip;                               ///< mirrored
    double angle;                            ///< degrees, counterclockwise
    double brightness, contrast, saturation; ///< factors; 1: as it is
    double hue;                              ///< in -1/2 .. 1/2
    int order[4];                            ///< of 0 brightness, 1 contrast, 2 saturation, 3 hue
    int64_t erase_top, erase_left;
    talc_image_size erase; ///< in the result; zero: nothing
} talc_augment_params;

/// Draws for an image of one size that becomes one of another; without `scale` all of the image is
/// resized to it. Number k is the 53 bits of pair k % 2 of block sample + 2^40 (k / 2 + 1) of call
/// 2 epoch + 1 of the generator `seed`, so it depends on nothing else: 0 .. 39 are area, ratio, top
/// and left of ten parts, 40 the flip, 41 the angle, 42 .. 45 the factors, 46 their order, 47
/// whether something is erased, 48 .. 87 area, ratio, top and left of ten rectangles. False with a
/// failure: NULL, numbers out of range.
TALC_API bool talc_augment_draw(const talc_augment *augment, talc_image_size image,
                                talc_image_size result, uint64_t seed, int64_t epoch,
                                int64_t sample, talc_augment_params *params);

/// An image of bytes [...,C,H,W] on the CPU after what was drawn: resized as talc_image_resize does
/// it, rotated about its middle, bilinear, with 0 around it, as torchvision rotates a tensor;
/// colours by torchvision's formulas for tensors, in f32, grey being 0.2989 R + 0.587 G + 0.114 B
/// rounded down; what is erased is 0. Of a grey image saturation and hue change nothing. Errors:
/// NULL, no bytes, not on the CPU, a part outside the image, an order that is none, factors or
/// sizes out of range, colours of images that have not 1 or 3 channels, no memory.
TALC_API talc_tensor *talc_augment_image(const talc_tensor *image,
                                         const talc_augment_params *params);

/// A mask [...,H,W] of any type on the CPU moved as its image is: the same part, mirrored and
/// rotated, each element being the nearest one, or 0 beyond the border; neither colours nor
/// erasing. Errors: as talc_augment_image.
TALC_API talc_tensor *talc_augment_mask(const talc_tensor *mask, const talc_augment_params *params);

TALC_END_DECLARATIONS

#endif
