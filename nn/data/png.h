/// PNG files as bytes. Private to nn/data.
#ifndef TALC_NN_DATA_PNG_H
#define TALC_NN_DATA_PNG_H

#include "tensor/error.h"

typedef struct talc_png {
    int64_t height, width;
    bool color; ///< RGB, or a palette
} talc_png;

/// The maximum number of pixels of an image, unless a caller says another number.
#define TALC_PNG_PIXELS (INT64_C(1) << 28)

/// What the file's header says. Errors: those of talc_file_open, no PNG, a header that breaks the
/// format, an image of more than `max` pixels (names both; a small file can say many), no memory.
talc_status talc_png_look(const char *who, const char *path, int64_t max, talc_png *png);

/// Takes `count` pixels of row h, at columns first, first + step, ...: [count,channels] bytes.
typedef void talc_png_row(void *context, int64_t h, int64_t first, int64_t step, int64_t count,
                          const uint8_t *pixels);

/// Reads an image of that height and width, of 1 or, of any image, 3 channels, and hands each row
/// on as it comes, of an interlaced file in parts: 16 bits are rounded to 8, fewer are widened, an
/// alpha channel is dropped. Errors: those of talc_png_look, an image that is damaged or ends
/// early, or one of another size by now.
talc_status talc_png_read(const char *who, const char *path, const talc_png *png, int channels,
                          talc_png_row *row, void *context);

#endif
