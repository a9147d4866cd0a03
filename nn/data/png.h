/// PNG files as bytes: what nn/data/image_file.h has for both formats. Private to nn/data.
#ifndef TALC_NN_DATA_PNG_H
#define TALC_NN_DATA_PNG_H

#include "nn/data/image_file.h"
#include "tensor/file.h"

/// Of a file that is open, and stays so: the header, without a limit of pixels.
talc_status talc_png_look(const char *who, const talc_file *file, talc_image_file *image);

/// The pixels; libpng's own memory is talc's too.
talc_status talc_png_read(const char *who, const talc_file *file, const talc_image_file *image,
                          int channels, talc_image_row *row, void *context);

#endif
