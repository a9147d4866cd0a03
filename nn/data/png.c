#include "nn/data/png.h"

#include "nn/data/exif.h"
#include "tensor/memory.h"

#include <inttypes.h>
#include <setjmp.h>

#include <png.h>

/* What libpng's functions share; it stands outside those that a failure leaves, whose own variables
 * are lost then. */
typedef struct reading {
    const char *who;
    const talc_file *file;
    int64_t at;
    png_structp png;
    png_infop info;
    uint8_t *row;
} reading;

// ---- What libpng calls --------------------------------------------------------------------------

static void *allocate(png_structp png, png_alloc_size_t bytes)
{
    const reading *r = png_get_mem_ptr(png);
    return talc_memory_new(bytes, r->who);
}

static void release(png_structp png, void *memory)
{
    (void)png;
    talc_memory_free(memory);
}

/* Out of memory, or a file that could not be read, is raised already, and stays. */
static void on_error(png_structp png, const char *message)
{
    const reading *r = png_get_error_ptr(png);
    talc_fail(TALC_BAD_FORMAT, "%s: '%s': %s", r->who, TALC_SHOWN(r->file->path),
              TALC_SHOWN(message));
    png_longjmp(png, 1);
}

static void on_warning(png_structp png, const char *message)
{
    (void)png;
    (void)message;
}

static void on_read(png_structp png, uint8_t *bytes, size_t count)
{
    reading *r = png_get_io_ptr(png);
    const int64_t left = r->file->size - r->at;
    if ((int64_t)count > left)
        talc_fail(TALC_BAD_FORMAT,
                  "%s: '%s' ends early: after byte %" PRId64 " come %" PRId64 " of %zu", r->who,
                  TALC_SHOWN(r->file->path), r->at, left, count);
    if (talc_failed() || talc_file_read(r->file, r->who, r->at, bytes, count) != TALC_OK)
        png_error(png, "the file cannot be read");
    r->at += (int64_t)count;
}

// ---- Reading ------------------------------------------------------------------------------------

/* What stands before the pixels: an eXIf after them is not looked for. */
static int orientation(const reading *r)
{
    png_bytep exif = NULL;
    png_uint_32 count = 0;
    return png_get_eXIf_1(r->png, r->info, &count, &exif) == 0 ? 1
                                                               : talc_exif_orientation(exif, count);
}

static bool look(reading *r, talc_image_file *image)
{
    if (setjmp(png_jmpbuf(r->png)) != 0)
        return false;
    png_set_read_fn(r->png, r, on_read);
    png_read_info(r->png, r->info);
    talc_image_file_describe(
        image, png_get_image_height(r->png, r->info), png_get_image_width(r->png, r->info),
        (png_get_color_type(r->png, r->info) & PNG_COLOR_MASK_COLOR) != 0, orientation(r));
    return true;
}

/* Whether so few bytes can be such an image: deflate spends at least a bit on 129 bytes. */
static bool check_size(const reading *r)
{
    enum { MAX_RATIO = 1032 };
    const int64_t height = png_get_image_height(r->png, r->info);
    int64_t max;
    if (!talc_multiply(r->file->size, MAX_RATIO, &max))
        return true;
    const int64_t bytes = height * (int64_t)png_get_rowbytes(r->png, r->info);
    if (bytes > max)
        talc_fail(TALC_BAD_FORMAT,
                  "%s: '%s' says %" PRId64 "x%" PRId64 ", which its %" PRId64 " bytes cannot hold",
                  r->who, TALC_SHOWN(r->file->path), height,
                  (int64_t)png_get_image_width(r->png, r->info), r->file->size);
    return bytes <= max;
}

static size_t row_bytes(const reading *r, int channels)
{
    return (size_t)png_get_image_width(r->png, r->info) * (size_t)channels;
}

static bool read_rows(reading *r, int channels, talc_image_row *row, void *context)
{
    if (setjmp(png_jmpbuf(r->png)) != 0)
        return false;
    png_set_expand(r->png);
    png_set_scale_16(r->png);
    png_set_strip_alpha(r->png);
    if (channels == 3)
        png_set_gray_to_rgb(r->png);
    const bool parts = png_get_interlace_type(r->png, r->info) == PNG_INTERLACE_ADAM7;
    png_read_update_info(r->png, r->info);
    if (png_get_rowbytes(r->png, r->info) != row_bytes(r, channels))
        png_error(r->png, "its colours changed while it was read");
    const png_uint_32 H = png_get_image_height(r->png, r->info),
                      W = png_get_image_width(r->png, r->info);
    for (int pass = 0; pass < (parts ? PNG_INTERLACE_ADAM7_PASSES : 1); pass++) {
        const int64_t rows = parts ? PNG_PASS_ROWS(H, pass) : H;
        const int64_t count = parts ? PNG_PASS_COLS(W, pass) : W;
        for (int64_t i = 0; i < rows && count > 0; i++) {
            png_read_row(r->png, r->row, NULL);
            if (parts)
                row(context, PNG_ROW_FROM_PASS_ROW(i, pass), PNG_PASS_START_COL(pass),
                    PNG_PASS_COL_OFFSET(pass), count, r->row);
            else
                row(context, i, 0, 1, count, r->row);
        }
    }
    png_read_end(r->png, NULL);
    return true;
}

static talc_status begin(reading *r, const char *who, const talc_file *file)
{
    *r = (reading){ .who = who, .file = file };
    r->png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, r, on_error, on_warning, r, allocate,
                                      release);
    r->info = r->png == NULL ? NULL : png_create_info_struct(r->png);
    if (r->info != NULL)
        return TALC_OK;
    talc_fail(TALC_UNSUPPORTED, "%s: libpng does not start", who);
    png_destroy_read_struct(&r->png, NULL, NULL);
    return talc_error_status();
}

/* libpng goes on without some of what it found no memory for; this library does not. */
static talc_status end(reading *r)
{
    png_destroy_read_struct(&r->png, &r->info, NULL);
    talc_memory_free(r->row);
    return talc_error_status();
}

talc_status talc_png_look(const char *who, const talc_file *file, talc_image_file *image)
{
    reading r;
    if (begin(&r, who, file) != TALC_OK)
        return talc_error_status();
    if (look(&r, image))
        (void)check_size(&r);
    return end(&r);
}

talc_status talc_png_read(const char *who, const talc_file *file, const talc_image_file *image,
                          int channels, talc_image_row *row, void *context)
{
    reading r;
    if (begin(&r, who, file) != TALC_OK)
        return talc_error_status();
    talc_image_file now = { 0 };
    if (look(&r, &now) && talc_image_file_same(who, file->path, image, &now) == TALC_OK)
        r.row = talc_memory_new(row_bytes(&r, channels), who);
    if (r.row != NULL)
        (void)read_rows(&r, channels, row, context);
    return end(&r);
}
