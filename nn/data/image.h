/// Single images: PNG and JPEG files as tensors, resized and cropped, and tensors as PNG files.
///
///     talc_tensor *x = talc_image_load(             // what torchvision's networks were trained on
///         "dog.jpg", &(talc_image_options){ .channels = 3,
///                                           .resize = { 256, 0 },
///                                           .crop = { 224, 0 },
///                                           .mean = { 0.485, 0.456, 0.406 },
///                                           .deviation = { 0.229, 0.224, 0.225 } });
///
/// An image of bytes is a tensor of TALC_U8, [...,H,W]: a plane for each channel.
#ifndef TALC_NN_DATA_IMAGE_H
#define TALC_NN_DATA_IMAGE_H

#include "../../tensor/tensor.h"

TALC_BEGIN_DECLARATIONS

/// Pixels. What a width of 0 means is said where a size is taken.
typedef struct talc_image_size {
    int64_t height, width;
} talc_image_size;

/// How a resized image is interpolated, as Pillow and torchvision call it.
typedef enum talc_image_filter {
    TALC_IMAGE_BILINEAR,
    TALC_IMAGE_BICUBIC,
    TALC_IMAGE_FILTER_COUNT
} talc_image_filter;

/// Applied in this order: orientation, resize, crop, check of the size, mean and deviation.
typedef struct talc_image_options {
    int64_t channels;             ///< 1 or 3, which a grey image has alike; 0: the file's
    int64_t height, width;        ///< that the image must have then; 0: any
    double mean[3], deviation[3]; ///< as talc_loader_options has them; none of TALC_U8
    int64_t pixels;           ///< the maximum of the file, and at each step from it; 0: 2^28, as in
                              ///< folders
    talc_image_size resize;   ///< as of talc_image_resize; zero: as it is
    talc_image_size crop;     ///< as of talc_image_crop; zero: as it is
    talc_dtype dtype;         ///< TALC_F32 (which is zero), or TALC_U8: bytes as they are
    talc_image_filter filter; ///< of resize
} talc_image_options;

/// A PNG or JPEG file, which its first bytes tell apart, as [1,C,H,W] on the CPU; NULL for options:
/// all defaults. An f32 element is (byte / 255 - mean) / deviation, rounded once.
///
/// PNG of every kind: 1 to 16 bits, of which 16 are rounded to 8, grey, palette, RGB, interlaced.
/// An alpha channel, and a colour that counts as transparent, is dropped: the colours are those
/// that are stored, composited with nothing. JPEG of 8 bits, baseline and progressive, is decoded
/// as libjpeg does by default; CMYK becomes RGB as (1 - ink) (1 - black), without a profile, and is
/// taken as inverted where the file has the marker of Adobe's programs, which store it so. A grey
/// file has one channel. EXIF's orientation is followed, of PNG where it stands before the pixels;
/// EXIF that is damaged says nothing. Colour profiles and gamma are not applied.
///
/// Memory is that of the tensor; of an image that is resized or cropped, a byte for each of the
/// file's samples and twice that of the resized one more; of a progressive JPEG 2 bytes more for
/// each sample.
///
/// Errors: what the system reports, neither PNG nor JPEG, a file that is damaged or ends early, 12
/// bits or lossless JPEG, more than 500 scans, too many pixels (names both numbers), a header that
/// says more than the file can hold, an image of another size (names both) or with colours where 1
/// channel is asked for, options out of range, no memory.
TALC_API talc_tensor *talc_image_load(const char *path, const talc_image_options *options);

/// An image of bytes in another size, as torchvision.transforms.Resize gives it from a Pillow
/// image: bilinear or bicubic, and antialiased where it shrinks. A width of 0 takes the height as
/// the shorter side's, and the longer one in proportion, rounded down. talc_image_resize is
/// bilinear.
///
/// Columns first, then rows, of bytes in between. With s = max(1, in / out), element i is the mean
/// of those j whose centres are nearer than r s to c = (i + 1/2) in / out, weighted by f(t) with
/// t = |j + 1/2 - c| / s:
///
///     bilinear   r = 1   f(t) = 1 - t
///     bicubic    r = 2   f(t) = 3/2 t^3 - 5/2 t^2 + 1 below 1, else -1/2 t^3 + 5/2 t^2 - 4 t + 2
///
/// Weights are rounded to 2^-22, sums to the nearest byte. The same bits as Pillow's up to version
/// 12; version 13 takes rows first at some sizes, which moves bytes by 1. Sources: Pillow,
/// src/libImaging/Resample.c; Keys 1981, doi 10.1109/TASSP.1981.1163711, a = -1/2.
///
/// Errors: NULL, no bytes, not on the CPU, another filter, sides that are not 1 .. 2^20, more than
/// 4096 to one, more than 2^28 pixels as the result or with the width of the result and the height
/// of the image; no memory.
TALC_API talc_tensor *talc_image_resize(const talc_tensor *image, talc_image_size size);
TALC_API talc_tensor *talc_image_resize_by(const talc_tensor *image, talc_image_size size,
                                           talc_image_filter filter);

/// The middle of an image of bytes, as torchvision.transforms.CenterCrop cuts it out: from
/// (in - out) / 2 on, rounded to the even number; where the image is smaller, zeros are around it,
/// the odd one after it. A width of 0 is the height. Errors: as talc_image_resize.
TALC_API talc_tensor *talc_image_crop(const talc_tensor *image, talc_image_size size);

/// Writes a PNG file of 8 bits, grey or RGB: [H,W], [C,H,W] or [1,C,H,W] with C = 1 or 3, on any
/// device: bytes, or f32 or f64 in 0 .. 1, which are rounded to the nearest 255th. The file is
/// whole, or the old one stays. False with a failure: NULL, another shape or type, no pixels, sides
/// above 1,000,000, a number outside 0 .. 1 (names it), what the system reports, no memory.
TALC_API bool talc_image_save(const char *path, const talc_tensor *image);

TALC_END_DECLARATIONS

#endif
