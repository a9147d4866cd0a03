/// PNG files as bytes. Private to nn/data.
#ifndef TALC_NN_DATA_PNG_H
#define TALC_NN_DATA_PNG_H

#include "tensor/error.h"

typedef struct talc_png {
    int64_t height, width;
    bool color; ///< RGB, or a palette
} talc_png;

/// What the file's header says. Errors: those of talc_file_open, no PNG, a header that breaks the format, no memory.
talc_status talc_png_look(const char *who, const char *path, talc_png *png);

/// Reads an image of that height and width into [H,W,channels] bytes, 1 or, of any image, 3 channels: 16 bits are rounded to 8, fewer
/// are widened, an alpha channel is dropped. Errors: those of talc_png_look, an image that is damaged or ends early, or one of
/// another size by now.
talc_status talc_png_read(const char *who, const char *path, const talc_png *png, int channels,
                          uint8_t *pixels);

#endif
