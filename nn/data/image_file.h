/// Files of images, PNG or JPEG, as bytes. Private to nn/data.
///
/// Which of the two a file is follows from its first bytes, not from its name. An image is seen
/// upright: a file whose EXIF says that it is turned gives the height and width that it is to be
/// shown with, and its pixels are put where they are shown.
#ifndef TALC_NN_DATA_IMAGE_FILE_H
#define TALC_NN_DATA_IMAGE_FILE_H

#include "tensor/error.h"

typedef struct talc_image_file {
    int64_t height, width; ///< upright
    bool color;            ///< RGB, a palette, CMYK
    bool jpeg;
    int orientation; ///< EXIF's, 1 .. 8; from 5 on the file has height and width exchanged
} talc_image_file;

/// The maximum number of pixels of an image, unless a caller says another number.
#define TALC_IMAGE_PIXELS (INT64_C(1) << 28)

/// What the file's header says. Errors: those of talc_file_open, neither PNG nor JPEG, a header
/// that breaks the format or says more than the file can hold, an image of more than `max` pixels
/// (names both; a small file can say many), no memory.
talc_status talc_image_file_look(const char *who, const char *path, int64_t max,
                                 talc_image_file *file);

/// Takes `count` pixels of row h, as the file has them, at columns first, first + step, ...:
/// [count,channels] bytes.
typedef void talc_image_row(void *context, int64_t h, int64_t first, int64_t step, int64_t count,
                            const uint8_t *pixels);

/// Reads an image that was looked at, of 1 or, of any image, 3 channels, and hands each row on as
/// it comes, of an interlaced PNG in parts: 16 bits are rounded to 8, fewer are widened, an alpha
/// channel is dropped, CMYK becomes RGB without a profile. Errors: those of talc_image_file_look,
/// an image that is damaged or ends early, or one that is another by now.
talc_status talc_image_file_read(const char *who, const char *path, const talc_image_file *file,
                                 int channels, talc_image_row *row, void *context);

/// Where the pixel in row h and column w of the file stands in an upright plane [height,width]: at
/// start + h * down + w * right.
typedef struct talc_image_place {
    int64_t start, down, right;
} talc_image_place;

talc_image_place talc_image_file_place(const talc_image_file *file);

/// What the readers of both formats say of a header: height and width are the file's, which an
/// image that is turned exchanges.
void talc_image_file_describe(talc_image_file *file, int64_t height, int64_t width, bool color,
                              int orientation);

/// TALC_BAD_FORMAT where a file is not what it was when it was looked at.
talc_status talc_image_file_same(const char *who, const char *path, const talc_image_file *file,
                                 const talc_image_file *now);

/// Reads an image as planes, upright: [channels,height,width] bytes.
talc_status talc_image_file_planes(const char *who, const char *path, const talc_image_file *file,
                                   int channels, uint8_t *planes);

#endif
