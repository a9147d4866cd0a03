/// One PNG file as a tensor.
#include "nn/data/data.h"

#include "nn/data/png.h"
#include "tensor/fenv.h"
#include "tensor/memory.h"
#include "tensor/shape.h"
#include "tensor/shown.h"
#include "tensor/storage.h"

#include <inttypes.h>
#include <math.h>

static const char *const WHO = "image_load";

static bool options_fit(const talc_image_options *o)
{
    if (o->channels != 0 && o->channels != 1 && o->channels != 3)
        talc_fail(TALC_BAD_ARGUMENT, "%s: channels %" PRId64 " must be 1 or 3", WHO, o->channels);
    else if (o->height < 0 || o->width < 0)
        talc_fail(TALC_BAD_ARGUMENT,
                  "%s: height %" PRId64 " and width %" PRId64 " must be at least 0", WHO, o->height,
                  o->width);
    else if (o->pixels < 0)
        talc_fail(TALC_BAD_ARGUMENT, "%s: pixels %" PRId64 " must be at least 1, or 0 for 2^28",
                  WHO, o->pixels);
    for (int c = 0; c < 3; c++)
        if (!isfinite(o->mean[c]) || !isfinite(o->deviation[c]) || o->deviation[c] < 0)
            talc_fail(TALC_BAD_ARGUMENT,
                      "%s: mean %g must be finite and deviation %g finite and at least 0", WHO,
                      o->mean[c], o->deviation[c]);
    return !talc_failed();
}

static bool image_fits(const char *path, const talc_png *png, const talc_image_options *o)
{
    if ((o->height != 0 && o->height != png->height) || (o->width != 0 && o->width != png->width))
        talc_fail(TALC_BAD_SHAPE,
                  "%s: '%s' is %" PRId64 "x%" PRId64 ", %" PRId64 "x%" PRId64
                  " is asked for (height x width)",
                  WHO, TALC_SHOWN(path), png->height, png->width,
                  o->height == 0 ? png->height : o->height, o->width == 0 ? png->width : o->width);
    else if (o->channels == 1 && png->color)
        talc_fail(TALC_BAD_SHAPE, "%s: '%s' has 3 channels, colours, 1 is asked for", WHO,
                  TALC_SHOWN(path));
    return !talc_failed();
}

/* Where rows of bytes go, and what each byte of a channel becomes. */
typedef struct normalised {
    float *elements; /* [C,H,W] */
    int64_t height, width;
    int channels;
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
    for (int c = 0; c < to->channels; c++) {
        float *row = to->elements + (c * to->height + h) * to->width + first;
        for (int64_t i = 0; i < count; i++)
            row[i * step] = to->of[c][pixels[i * to->channels + c]];
    }
}

talc_tensor *talc_image_load(const char *path, const talc_image_options *options)
{
    TALC_DEFAULT_FENV;
    const talc_image_options o = options == NULL ? (talc_image_options){ 0 } : *options;
    talc_png png;
    if (talc_operand_missing(WHO, "path", path) || !options_fit(&o) ||
        talc_png_look(WHO, path, o.pixels == 0 ? TALC_PNG_PIXELS : o.pixels, &png) != TALC_OK ||
        !image_fits(path, &png, &o))
        return NULL;
    normalised to = { .height = png.height,
                      .width = png.width,
                      .channels = o.channels == 0 ? (png.color ? 3 : 1) : (int)o.channels };
    talc_tensor *image = talc_tensor_new(WHO, talc_device_host(), TALC_F32,
                                         TALC_DIMS(1, to.channels, png.height, png.width));
    if (image == NULL)
        return NULL;
    to.elements = talc_data(image, TALC_F32);
    tabulate(&o, &to);
    if (talc_png_read(WHO, path, &png, to.channels, take_row, &to) == TALC_OK)
        return image;
    talc_release(image);
    return NULL;
}
