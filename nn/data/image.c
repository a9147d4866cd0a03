/// One PNG or JPEG file as a tensor.
#include "nn/data/image.h"

#include "nn/data/image_file.h"
#include "nn/data/image_resize.h"
#include "tensor/fenv.h"
#include "tensor/memory.h"
#include "tensor/shape.h"
#include "tensor/shown.h"
#include "tensor/storage.h"

#include <inttypes.h>
#include <math.h>

static const char *const WHO = "image_load";

static bool is_size(talc_image_size size)
{
    return size.height != 0 || size.width != 0;
}

static void check_numbers(const talc_image_options *o)
{
    for (int c = 0; c < 3; c++)
        if (!isfinite(o->mean[c]) || !isfinite(o->deviation[c]) || o->deviation[c] < 0)
            talc_fail(TALC_BAD_ARGUMENT,
                      "%s: mean %g must be finite and deviation %g finite and at least 0", WHO,
                      o->mean[c], o->deviation[c]);
        else if (o->dtype == TALC_U8 && (o->mean[c] != 0 || o->deviation[c] != 0))
            talc_fail(TALC_BAD_ARGUMENT, "%s: mean %g and deviation %g are of f32, u8 has bytes",
                      WHO, o->mean[c], o->deviation[c]);
}

static bool options_fit(const talc_image_options *o)
{
    if (o->dtype != TALC_F32 && o->dtype != TALC_U8)
        talc_fail(TALC_BAD_DTYPE, "%s: images of %s are not made, they must be f32 or u8", WHO,
                  talc_dtype_name(o->dtype));
    else if (o->channels != 0 && o->channels != 1 && o->channels != 3)
        talc_fail(TALC_BAD_ARGUMENT, "%s: channels %" PRId64 " must be 1 or 3", WHO, o->channels);
    else if (o->height < 0 || o->width < 0)
        talc_fail(TALC_BAD_ARGUMENT,
                  "%s: height %" PRId64 " and width %" PRId64 " must be at least 0", WHO, o->height,
                  o->width);
    else if (o->pixels < 0)
        talc_fail(TALC_BAD_ARGUMENT, "%s: pixels %" PRId64 " must be at least 1, or 0 for 2^28",
                  WHO, o->pixels);
    check_numbers(o);
    return talc_image_filter_is_known(WHO, o->filter);
}

/* The sizes that an image goes through. */
typedef struct steps {
    talc_image_size file, resized, cropped;
} steps;

static bool sizes_fit(const char *path, const talc_image_file *file, const talc_image_options *o,
                      int64_t pixels, steps *s)
{
    s->file = s->resized = (talc_image_size){ file->height, file->width };
    if (is_size(o->resize) &&
        !talc_image_resized_size(WHO, s->file, o->resize, pixels, &s->resized))
        return false;
    s->cropped = s->resized;
    if (is_size(o->crop) && !talc_image_cropped_size(WHO, o->crop, pixels, &s->cropped))
        return false;
    const int64_t height = s->cropped.height, width = s->cropped.width;
    if ((o->height != 0 && o->height != height) || (o->width != 0 && o->width != width))
        talc_fail(TALC_BAD_SHAPE,
                  "%s: '%s' is %" PRId64 "x%" PRId64 ", %" PRId64 "x%" PRId64
                  " is asked for (height x width)",
                  WHO, TALC_SHOWN(path), height, width, o->height == 0 ? height : o->height,
                  o->width == 0 ? width : o->width);
    else if (o->channels == 1 && file->color)
        talc_fail(TALC_BAD_SHAPE, "%s: '%s' has 3 channels, colours, 1 is asked for", WHO,
                  TALC_SHOWN(path));
    return !talc_failed();
}

// ---- Bytes as numbers ---------------------------------------------------------------------------

/* Where rows of bytes go, and what each byte of a channel becomes. */
typedef struct normalised {
    float *elements; /* [C,H,W] */
    int64_t plane;
    int channels;
    talc_image_place place;
    float of[3][256];
} normalised;

static void tabulate(const talc_image_options *o, normalised *to)
{
    for (int c = 0; c < 3; c++) {
        const double deviation = o->deviation[c] == 0 ? 1 : o->deviation[c];
        for (int byte = 0; byte < 256; byte++)
            to->of[c][byte] = (float)((byte / 255.0 - o->mean[c]) / deviation);
    }
}

static void take_row(void *context, int64_t h, int64_t first, int64_t step, int64_t count,
                     const uint8_t *pixels)
{
    const normalised *to = context;
    const int64_t right = step * to->place.right;
    for (int c = 0; c < to->channels; c++) {
        float *row = to->elements + c * to->plane + to->place.start + h * to->place.down +
                     first * to->place.right;
        for (int64_t i = 0; i < count; i++)
            row[i * right] = to->of[c][pixels[i * to->channels + c]];
    }
}

// ---- Loading ------------------------------------------------------------------------------------

/* An image that stays as it is goes straight into its tensor. */
static bool read_whole(const char *path, const talc_image_file *file, normalised *to,
                       talc_tensor *image)
{
    if (image->dtype == TALC_U8)
        return talc_image_file_planes(WHO, path, file, to->channels, talc_data(image, TALC_U8)) ==
               TALC_OK;
    to->elements = talc_data(image, TALC_F32);
    to->plane = file->height * file->width;
    to->place = talc_image_file_place(file);
    return talc_image_file_read(WHO, path, file, to->channels, take_row, to) == TALC_OK;
}

/* New planes of that size; NULL with a failure. */
static uint8_t *planes_new(int channels, talc_image_size size)
{
    return talc_memory_new((size_t)channels * (size_t)(size.height * size.width), WHO);
}

/* The resized planes; NULL with a failure. */
static uint8_t *read_resized(const char *path, const talc_image_file *file, const steps *s,
                             talc_image_filter filter, int channels)
{
    uint8_t *planes = planes_new(channels, s->file), *resized = NULL;
    if (planes != NULL && talc_image_file_planes(WHO, path, file, channels, planes) == TALC_OK)
        resized = planes_new(channels, s->resized);
    if (resized != NULL)
        (void)talc_image_resample(WHO, planes, channels, s->file, filter, resized, s->resized);
    talc_memory_free(planes);
    if (!talc_failed())
        return resized;
    talc_memory_free(resized);
    return NULL;
}

static bool read_cut(const char *path, const talc_image_file *file, const steps *s,
                     talc_image_filter filter, normalised *to, talc_tensor *image)
{
    uint8_t *resized = read_resized(path, file, s, filter, to->channels), *planes = NULL;
    const bool bytes = image->dtype == TALC_U8;
    if (resized != NULL)
        planes = bytes ? talc_data(image, TALC_U8) : planes_new(to->channels, s->cropped);
    if (planes != NULL)
        talc_image_cut(resized, to->channels, s->resized, planes, s->cropped);
    if (planes != NULL && !bytes) {
        float *elements = talc_data(image, TALC_F32);
        const int64_t plane = s->cropped.height * s->cropped.width;
        for (int c = 0; c < to->channels; c++)
            for (int64_t i = 0; i < plane; i++)
                elements[c * plane + i] = to->of[c][planes[c * plane + i]];
        talc_memory_free(planes);
    }
    talc_memory_free(resized);
    return !talc_failed();
}

talc_tensor *talc_image_load(const char *path, const talc_image_options *options)
{
    TALC_DEFAULT_FENV;
    const talc_image_options o = options == NULL ? (talc_image_options){ 0 } : *options;
    const int64_t pixels = o.pixels == 0 ? TALC_IMAGE_PIXELS : o.pixels;
    talc_image_file file;
    steps s;
    if (talc_operand_missing(WHO, "path", path) || !options_fit(&o) ||
        talc_image_file_look(WHO, path, pixels, &file) != TALC_OK ||
        !sizes_fit(path, &file, &o, pixels, &s))
        return NULL;
    normalised to = { .channels = o.channels == 0 ? (file.color ? 3 : 1) : (int)o.channels };
    talc_tensor *image =
        talc_tensor_new(WHO, talc_device_host(), o.dtype,
                        TALC_DIMS(1, to.channels, s.cropped.height, s.cropped.width));
    if (image == NULL)
        return NULL;
    tabulate(&o, &to);
    if (is_size(o.resize) || is_size(o.crop) ? read_cut(path, &file, &s, o.filter, &to, image)
                                             : read_whole(path, &file, &to, image))
        return image;
    talc_release(image);
    return NULL;
}
