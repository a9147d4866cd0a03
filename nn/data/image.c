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
                  "%s: '%s' is %" PRId64 "x%" PRId64 ", %" PRId64 "x%" PRId64 " is asked for", WHO,
                  TALC_SHOWN(path), png->height, png->width,
                  o->height == 0 ? png->height : o->height, o->width == 0 ? png->width : o->width);
    else if (o->channels == 1 && png->color)
        talc_fail(TALC_BAD_SHAPE, "%s: '%s' has 3 channels, colours, 1 is asked for", WHO,
                  TALC_SHOWN(path));
    return !talc_failed();
}

/* From [H,W,C] bytes to [C,H,W]. */
static void normalise(const uint8_t *pixels, int64_t plane, int channels,
                      const talc_image_options *o, float *elements)
{
    for (int c = 0; c < channels; c++) {
        const double deviation = o->deviation[c] == 0 ? 1 : o->deviation[c];
        for (int64_t i = 0; i < plane; i++)
            elements[c * plane + i] =
                (float)((pixels[i * channels + c] / 255.0 - o->mean[c]) / deviation);
    }
}

talc_tensor *talc_image_load(const char *path, const talc_image_options *options)
{
    TALC_DEFAULT_FENV;
    const talc_image_options o = options == NULL ? (talc_image_options){ 0 } : *options;
    talc_png png;
    if (talc_operand_missing(WHO, "path", path) || !options_fit(&o) ||
        talc_png_look(WHO, path, &png) != TALC_OK || !image_fits(path, &png, &o))
        return NULL;
    const int channels = o.channels == 0 ? (png.color ? 3 : 1) : (int)o.channels;
    const int64_t plane = png.height * png.width;
    talc_tensor *image = NULL;
    uint8_t *pixels = talc_memory_new((size_t)(plane * channels), WHO);
    float *elements = talc_memory_new((size_t)(plane * channels) * sizeof *elements, WHO);
    if (pixels != NULL && elements != NULL &&
        talc_png_read(WHO, path, &png, channels, pixels) == TALC_OK) {
        normalise(pixels, plane, channels, &o, elements);
        image = talc_from_host(talc_device_host(), TALC_F32,
                               TALC_DIMS(1, channels, png.height, png.width), elements);
    }
    talc_memory_free(pixels);
    talc_memory_free(elements);
    return image;
}
