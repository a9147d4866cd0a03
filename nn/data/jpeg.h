/// JPEG files as bytes: what nn/data/image_file.h has for both formats. Private to nn/data.
#ifndef TALC_NN_DATA_JPEG_H
#define TALC_NN_DATA_JPEG_H

#include "nn/data/image_file.h"
#include "tensor/file.h"

/// Of a file that is open, and stays so: the header, without a limit of pixels.
talc_status talc_jpeg_look(const char *who, const talc_file *file, talc_image_file *image);

/// The pixels of baseline and progressive files of 8 bits, grey, YCbCr, RGB, CMYK or YCCK. A
/// progressive one takes 2 bytes more for each sample that it has. Damage that libjpeg would guess
/// pixels for is an error, and so are more than 500 scans, each of which costs a pass over the
/// image.
talc_status talc_jpeg_read(const char *who, const talc_file *file, const talc_image_file *image,
                           int channels, talc_image_row *row, void *context);

#endif
