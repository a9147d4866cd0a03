/// A tensor as a PNG file.
#include "nn/data/image.h"

#include "tensor/fenv.h"
#include "tensor/file.h"
#include "tensor/memory.h"
#include "tensor/scope.h"
#include "tensor/shown.h"
#include "tensor/storage.h"

#include <inttypes.h>
#include <math.h>
#include <setjmp.h>

#include <png.h>

static const char *const WHO = "image_save";

enum { MAX_SIDE = 1000000 }; /* libpng's own, which its reader keeps to */

/* [C,H,W] in host memory, contiguous. */
typedef struct picture {
    int64_t channels, height, width;
    talc_dtype dtype;
    const void *elements;
} picture;

/* What libpng's functions share. */
typedef struct writing {
    talc_file_writer file;
    png_structp png;
    png_infop info;
    uint8_t *row;
} writing;

// ---- What libpng calls --------------------------------------------------------------------------

static void *allocate(png_structp png, png_alloc_size_t bytes)
{
    (void)png;
    return talc_memory_new(bytes, WHO);
}

static void release(png_structp png, void *memory)
{
    (void)png;
    talc_memory_free(memory);
}

static void on_error(png_structp png, const char *message)
{
    const writing *w = png_get_error_ptr(png);
    talc_fail(TALC_IO_ERROR, "%s: '%s': %s", WHO, TALC_SHOWN(w->file.path), TALC_SHOWN(message));
    png_longjmp(png, 1);
}

static void on_warning(png_structp png, const char *message)
{
    (void)png;
    (void)message;
}

static void on_write(png_structp png, uint8_t *bytes, size_t count)
{
    writing *w = png_get_io_ptr(png);
    if (talc_failed() || talc_file_write(&w->file, WHO, bytes, count) != TALC_OK)
        png_error(png, "the file cannot be written");
}

static void on_flush(png_structp png)
{
    (void)png;
}

// ---- Writing ------------------------------------------------------------------------------------

static double element(const picture *p, int64_t i)
{
    return p->dtype == TALC_F32 ? (double)((const float *)p->elements)[i]
                                : ((const double *)p->elements)[i];
}

static void take_row(const picture *p, int64_t h, uint8_t *row)
{
    for (int64_t c = 0; c < p->channels; c++)
        for (int64_t w = 0; w < p->width; w++) {
            const int64_t i = (c * p->height + h) * p->width + w;
            row[w * p->channels + c] = p->dtype == TALC_U8
                                           ? ((const uint8_t *)p->elements)[i]
                                           : (uint8_t)floor(255 * element(p, i) + 0.5);
        }
}

static bool write_rows(writing *w, const picture *p)
{
    if (setjmp(png_jmpbuf(w->png)) != 0)
        return false;
    png_set_write_fn(w->png, w, on_write, on_flush);
    png_set_IHDR(w->png, w->info, (png_uint_32)p->width, (png_uint_32)p->height, 8,
                 p->channels == 3 ? PNG_COLOR_TYPE_RGB : PNG_COLOR_TYPE_GRAY, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(w->png, w->info);
    for (int64_t h = 0; h < p->height; h++) {
        take_row(p, h, w->row);
        png_write_row(w->png, w->row);
    }
    png_write_end(w->png, NULL);
    return true;
}

static bool write_file(const char *path, const picture *p)
{
    writing w = { .row = talc_memory_new((size_t)(p->width * p->channels), WHO) };
    if (w.row == NULL || talc_file_create(&w.file, WHO, path) != TALC_OK) {
        talc_memory_free(w.row);
        return false;
    }
    w.png = png_create_write_struct_2(PNG_LIBPNG_VER_STRING, &w, on_error, on_warning, &w, allocate,
                                      release);
    w.info = w.png == NULL ? NULL : png_create_info_struct(w.png);
    if (w.info == NULL)
        talc_fail(TALC_UNSUPPORTED, "%s: libpng does not start", WHO);
    const bool written = w.info != NULL && write_rows(&w, p);
    png_destroy_write_struct(&w.png, &w.info);
    talc_memory_free(w.row);
    if (written && !talc_failed())
        return talc_file_commit(&w.file, WHO) == TALC_OK;
    talc_file_abandon(&w.file);
    return false;
}

// ---- The tensor ---------------------------------------------------------------------------------

static bool shape_fits(const talc_tensor *image, picture *p)
{
    char text[TALC_DIMS_TEXT];
    const int64_t *last = image->dims + image->rank;
    const bool known =
        (image->rank >= 2 && image->rank <= 3) || (image->rank == 4 && image->dims[0] == 1);
    if (known)
        *p = (picture){ image->rank == 2 ? 1 : last[-3], last[-2], last[-1], image->dtype, NULL };
    if (!known || (p->channels != 1 && p->channels != 3) || p->height < 1 || p->width < 1)
        talc_fail(TALC_BAD_SHAPE,
                  "%s: the image %s must be [H,W], [C,H,W] or [1,C,H,W] with 1 or 3 channels", WHO,
                  talc_dims_text(talc_dims_of(image), text));
    else if (p->height > MAX_SIDE || p->width > MAX_SIDE)
        talc_fail(TALC_TOO_LARGE, "%s: the image %s has a side of more than %d pixels", WHO,
                  talc_dims_text(talc_dims_of(image), text), MAX_SIDE);
    else if (image->dtype != TALC_U8 && !talc_dtype_is_float(image->dtype))
        talc_fail(TALC_BAD_DTYPE, "%s: the image is %s, it must be u8, f32 or f64", WHO,
                  talc_dtype_name(image->dtype));
    return !talc_failed();
}

/* Before the file is begun. */
static bool numbers_fit(const picture *p)
{
    const int64_t numel = p->channels * p->height * p->width;
    for (int64_t i = 0; p->dtype != TALC_U8 && i < numel; i++)
        if (!(element(p, i) >= 0 && element(p, i) <= 1)) { /* NaN too */
            talc_fail(TALC_BAD_ARGUMENT,
                      "%s: the image holds %g in channel %" PRId64 ", row %" PRId64
                      ", column %" PRId64 "; pixels are 0 .. 1",
                      WHO, element(p, i), i / (p->height * p->width), i / p->width % p->height,
                      i % p->width);
            return false;
        }
    return true;
}

bool talc_image_save(const char *path, const talc_tensor *image)
{
    TALC_DEFAULT_FENV;
    picture p;
    if (talc_operand_missing(WHO, "path", path) || talc_operand_missing(WHO, "image", image) ||
        !shape_fits(image, &p))
        return false;
    talc_scope *scope = talc_scope_enter();
    const talc_tensor *here =
        scope == NULL ? NULL : talc_to(image, talc_device_host(), image->dtype);
    const talc_tensor *packed = here == NULL ? NULL : talc_contiguous(here);
    p.elements = packed == NULL ? NULL : talc_data_read(packed, image->dtype);
    const bool ok = p.elements != NULL && numbers_fit(&p) && write_file(path, &p);
    talc_scope_leave(scope);
    return ok;
}
