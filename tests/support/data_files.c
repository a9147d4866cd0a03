#include "tests/support/data_files.h"

#include "tests/support/files.h"

#include <criterion/criterion.h>

#include <png.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

void write_gzip(const char *path, const void *bytes, size_t count, const char *mode)
{
    gzFile file = gzopen(path, mode);
    cr_assert(file != NULL && gzwrite(file, bytes, (unsigned)count) == (int)count);
    cr_assert(gzclose(file) == Z_OK);
}

void write_png(const char *path, const written_png *image)
{
    FILE *file = fopen(path, "wb");
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    cr_assert(file != NULL && info != NULL, "cannot write %s", path);
    png_init_io(png, file);
    png_set_IHDR(png, info, (png_uint_32)image->width, (png_uint_32)image->height, image->depth,
                 image->type, image->interlace, PNG_COMPRESSION_TYPE_DEFAULT,
                 PNG_FILTER_TYPE_DEFAULT);
    if (image->type == PNG_COLOR_TYPE_PALETTE)
        png_set_PLTE(png, info, (png_color[]){ { 10, 20, 30 }, { 40, 50, 60 }, { 70, 80, 90 } },
                     image->depth == 1 ? 2 : 3);
    if (image->exif_bytes > 0) {
        uint8_t exif[64]; /* libpng takes no const */
        cr_assert(image->exif_bytes <= (int)sizeof exif);
        memcpy(exif, image->exif, (size_t)image->exif_bytes);
        png_set_eXIf_1(png, info, (png_uint_32)image->exif_bytes, exif);
    }
    png_write_info(png, info);
    for (int pass = png_set_interlace_handling(png); pass > 0; pass--)
        for (int h = 0; h < image->height; h++)
            png_write_row(png, image->rows[image->same_rows ? 0 : h]);
    png_write_end(png, NULL);
    png_destroy_write_struct(&png, &info);
    cr_assert(fclose(file) == 0);
}

enum { MAX = 64, PATH_BYTES = 512 };

static char made[MAX][PATH_BYTES];
static int made_count;

/* Notes a path once. */
static const char *note(const char *path)
{
    for (int i = 0; i < made_count; i++)
        if (strcmp(made[i], path) == 0)
            return made[i];
    cr_assert(made_count < MAX && strlen(path) < PATH_BYTES);
    return strcpy(made[made_count++], path);
}

const char *made_folder(const char *name)
{
    const char *path = note(file_path(name));
    (void)mkdir(path, 0700);
    return path;
}

const char *made_file(const char *folder, const char *class, const char *name)
{
    char path[PATH_BYTES];
    made_folder(folder);
    snprintf(path, sizeof path, "%s%s%s", folder, class == NULL ? "" : "/",
             class == NULL ? "" : class);
    made_folder(path);
    const size_t length = strlen(path);
    snprintf(path + length, sizeof path - length, "/%s", name);
    return note(file_path(path));
}

void remove_made(void)
{
    while (made_count > 0)
        (void)remove(made[--made_count]);
    file_remove_all();
}
