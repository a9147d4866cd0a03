/// Files of images that tests write: gzip by zlib, PNG by libpng, in folders of the test's
/// directory.
#ifndef TALC_TESTS_DATA_FILES_H
#define TALC_TESTS_DATA_FILES_H

#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>

/// Writes bytes through gzip; mode "wb", or "ab" for another member.
void write_gzip(const char *path, const void *bytes, size_t count, const char *mode);

typedef struct written_png {
    int type, depth, interlace; ///< libpng's constants
    int height, width;
    const uint8_t *rows[16];
    bool same_rows; ///< every row is the first
    const uint8_t *exif;
    int exif_bytes; ///< 0: there is none
} written_png;

/// Writes rows as they are; a palette's entry i is (10, 20, 30) + 30 i.
void write_png(const char *path, const written_png *image);

/// The path of a folder in the test's directory, which is made.
const char *made_folder(const char *name);

/// The path of a file in a folder's class, which are made; a NULL class is the folder itself. The
/// file is removed by remove_made.
const char *made_file(const char *folder, const char *class, const char *name);

/// Removes what these made, and the test's directory.
void remove_made(void);

#endif
