/// Images and masks after what was drawn for them.
#include "nn/data/augment_planes.h"

#include "nn/data/image_file.h"
#include "nn/data/image_resize.h"
#include "tensor/fenv.h"
#include "tensor/shape.h"
#include "tensor/storage.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

// ---- Moves --------------------------------------------------------------------------------------

static void mirror(uint8_t *bytes, int64_t rows, int64_t width, size_t size)
{
    uint8_t kept[8];
    for (int64_t h = 0; h < rows; h++) {
        uint8_t *left = bytes + (size_t)(h * width) * size, *right = left + (size_t)width * size;
        for (right -= size; left < right; left += size, right -= size) {
            memcpy(kept, left, size);
            memcpy(left, right, size);
            memcpy(right, kept, size);
        }
    }
}

/* Where an element of a result that is rotated comes from. */
typedef struct rotation {
    double cosine, sine, middle_row, middle_column;
} rotation;

static rotation rotation_of(double degrees, talc_image_size size)
{
    const double angle = degrees * (3.14159265358979323846 / 180);
    return (rotation){ cos(angle), sin(angle), ((double)size.height - 1) / 2,
                       ((double)size.width - 1) / 2 };
}

static void rotate_from(const rotation *r, int64_t h, int64_t w, double *row, double *column)
{
    const double down = (double)h - r->middle_row, right = (double)w - r->middle_column;
    *column = r->cosine * right - r->sine * down + r->middle_column;
    *row = r->sine * right + r->cosine * down + r->middle_row;
}

static double pixel(const uint8_t *plane, talc_image_size size, int64_t row, int64_t column)
{
    const bool inside = row >= 0 && row < size.height && column >= 0 && column < size.width;
    return inside ? plane[row * size.width + column] : 0;
}

static void rotate_pixels(const uint8_t *source, uint8_t *target, int64_t planes,
                          talc_image_size size, double degrees)
{
    const rotation r = rotation_of(degrees, size);
    const int64_t plane = size.height * size.width;
    for (int64_t i = 0; i < plane; i++) {
        double row, column;
        rotate_from(&r, i / size.width, i % size.width, &row, &column);
        const int64_t top = (int64_t)floor(row), left = (int64_t)floor(column);
        const double below = row - (double)top, right = column - (double)left;
        for (int64_t p = 0; p < planes; p++) {
            const uint8_t *from = source + p * plane;
            const double upper = (1 - right) * pixel(from, size, top, left) +
                                 right * pixel(from, size, top, left + 1);
            const double lower = (1 - right) * pixel(from, size, top + 1, left) +
                                 right * pixel(from, size, top + 1, left + 1);
            target[p * plane + i] = (uint8_t)((1 - below) * upper + below * lower + 0.5);
        }
    }
}

static void rotate_elements(const uint8_t *source, uint8_t *target, int64_t planes, size_t bytes,
                            talc_image_size size, double degrees)
{
    const rotation r = rotation_of(degrees, size);
    const int64_t plane = size.height * size.width;
    for (int64_t i = 0; i < plane; i++) {
        double row, column;
        rotate_from(&r, i / size.width, i % size.width, &row, &column);
        const int64_t h = (int64_t)rint(row), w = (int64_t)rint(column);
        const bool inside = h >= 0 && h < size.height && w >= 0 && w < size.width;
        for (int64_t p = 0; p < planes; p++) {
            uint8_t *to = target + (size_t)(p * plane + i) * bytes;
            if (inside)
                memcpy(to, source + (size_t)(p * plane + h * size.width + w) * bytes, bytes);
            else
                memset(to, 0, bytes);
        }
    }
}

// ---- Colours ------------------------------------------------------------------------------------

/* Pixels of 1 or 3 planes. */
typedef struct colors {
    uint8_t *plane[3];
    int64_t channels, count;
} colors;

static uint8_t grey(const colors *c, int64_t i)
{
    if (c->channels == 1)
        return c->plane[0][i];
    return (uint8_t)(0.2989F * (float)c->plane[0][i] + 0.587F * (float)c->plane[1][i] +
                     0.114F * (float)c->plane[2][i]);
}

static uint8_t blended(uint8_t value, double factor, float other)
{
    const float sum = (float)factor * (float)value + (float)(1 - factor) * other;
    return (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

static void blend_all(const colors *c, double factor, float other)
{
    for (int64_t p = 0; p < c->channels; p++)
        for (int64_t i = 0; i < c->count; i++)
            c->plane[p][i] = blended(c->plane[p][i], factor, other);
}

static void change_brightness(const colors *c, double factor)
{
    blend_all(c, factor, 0);
}

static void change_contrast(const colors *c, double factor)
{
    int64_t sum = 0;
    for (int64_t i = 0; i < c->count; i++)
        sum += grey(c, i);
    blend_all(c, factor, (float)((double)sum / (double)c->count));
}

static void change_saturation(const colors *c, double factor)
{
    for (int64_t i = 0; i < c->count && c->channels == 3; i++) {
        const float other = grey(c, i);
        for (int p = 0; p < 3; p++)
            c->plane[p][i] = blended(c->plane[p][i], factor, other);
    }
}

static float within_one(float value)
{
    return value < 0 ? 0 : value > 1 ? 1 : value;
}

/* Hue, saturation and value of a pixel, the hue turned, and back. */
static void turn_hue(float rgb[3], double by)
{
    const float r = rgb[0], g = rgb[1], b = rgb[2];
    const float max = fmaxf(r, fmaxf(g, b)), min = fminf(r, fminf(g, b)), range = max - min;
    const float divisor = range == 0 ? 1 : range, s = range / (range == 0 ? 1 : max);
    const float rc = (max - r) / divisor, gc = (max - g) / divisor, bc = (max - b) / divisor;
    const float sixths = max == r ? bc - gc : max == g ? 2 + rc - bc : 4 + gc - rc;
    float h = fmodf(sixths / 6 + 1, 1) + (float)by;
    h -= floorf(h);
    const float place = floorf(h * 6), f = h * 6 - place;
    const float p = within_one(max * (1 - s)), q = within_one(max * (1 - s * f)),
                t = within_one(max * (1 - s * (1 - f)));
    const float of[6][3] = { { max, t, p }, { q, max, p }, { p, max, t },
                             { p, q, max }, { t, p, max }, { max, p, q } };
    memcpy(rgb, of[(int)place % 6], 3 * sizeof *rgb);
}

static void change_hue(const colors *c, double by)
{
    static const float just_below = 255 + 1 - 1e-3F;
    for (int64_t i = 0; i < c->count && c->channels == 3; i++) {
        float rgb[3];
        for (int p = 0; p < 3; p++)
            rgb[p] = (float)c->plane[p][i] / 255;
        turn_hue(rgb, by);
        for (int p = 0; p < 3; p++)
            c->plane[p][i] = (uint8_t)(rgb[p] * just_below);
    }
}

static bool colors_change(const talc_augment_params *p)
{
    return p->brightness != 1 || p->contrast != 1 || p->saturation != 1 || p->hue != 0;
}

static void change_colors(uint8_t *planes, int64_t channels, int64_t plane,
                          const talc_augment_params *p)
{
    colors c = { .channels = channels, .count = plane };
    for (int64_t i = 0; i < channels; i++)
        c.plane[i] = planes + i * plane;
    for (int i = 0; i < 4; i++) {
        if (p->order[i] == 0 && p->brightness != 1)
            change_brightness(&c, p->brightness);
        if (p->order[i] == 1 && p->contrast != 1)
            change_contrast(&c, p->contrast);
        if (p->order[i] == 2 && p->saturation != 1)
            change_saturation(&c, p->saturation);
        if (p->order[i] == 3 && p->hue != 0)
            change_hue(&c, p->hue);
    }
}

// ---- Both ---------------------------------------------------------------------------------------

/* Memory for a result of so many bytes, and where it is rotated a second. */
static bool results_new(talc_scratch *scratch, size_t bytes, const talc_augment_params *p,
                        uint8_t *result[2])
{
    result[0] = talc_scratch_bytes(scratch, TALC_SCRATCH_FIRST, bytes);
    result[1] = result[0];
    if (result[0] != NULL && p->angle != 0)
        result[1] = talc_scratch_bytes(scratch, TALC_SCRATCH_SECOND, bytes);
    return result[1] != NULL;
}

uint8_t *talc_augment_pixels(const uint8_t *source, int64_t channels, talc_image_size from,
                             const talc_augment_params *p, talc_scratch *scratch)
{
    TALC_DEFAULT_FENV;
    const talc_image_size to = p->size;
    const int64_t plane = to.height * to.width;
    talc_image_size checked;
    uint8_t *result[2];
    if (!talc_image_resized_size(scratch->who, p->crop, to, TALC_IMAGE_PIXELS, &checked))
        return NULL;
    if (colors_change(p) && channels != 1 && channels != 3) {
        talc_fail(TALC_BAD_SHAPE,
                  "%s: the image has %" PRId64 " channels, colours change in images of 1 or 3",
                  scratch->who, channels);
        return NULL;
    }
    if (!results_new(scratch, (size_t)(channels * plane), p, result) ||
        talc_image_resample_part(scratch->who, source, channels, from,
                                 (talc_image_part){ p->top, p->left, p->crop }, TALC_IMAGE_BILINEAR,
                                 result[0], to) != TALC_OK)
        return NULL;
    if (p->flip)
        mirror(result[0], channels * to.height, to.width, 1);
    if (p->angle != 0)
        rotate_pixels(result[0], result[1], channels, to, p->angle);
    if (colors_change(p))
        change_colors(result[1], channels, plane, p);
    return result[1];
}

void *talc_augment_elements(const void *source, int64_t planes, size_t bytes, talc_image_size from,
                            const talc_augment_params *p, talc_scratch *scratch)
{
    TALC_DEFAULT_FENV;
    const talc_image_size to = p->size;
    const uint8_t *in = source;
    uint8_t *result[2];
    if (!results_new(scratch, (size_t)(planes * to.height * to.width) * bytes, p, result))
        return NULL;
    uint8_t *out = result[0];
    for (int64_t i = 0; i < planes * to.height; i++) {
        const int64_t h = p->top + (2 * (i % to.height) + 1) * p->crop.height / (2 * to.height);
        const uint8_t *row = in + (size_t)((i / to.height * from.height + h) * from.width) * bytes;
        for (int64_t w = 0; w < to.width; w++, out += bytes)
            memcpy(out,
                   row + (size_t)(p->left + (2 * w + 1) * p->crop.width / (2 * to.width)) * bytes,
                   bytes);
    }
    if (p->flip)
        mirror(result[0], planes * to.height, to.width, bytes);
    if (p->angle != 0)
        rotate_elements(result[0], result[1], planes, bytes, to, p->angle);
    return result[1];
}

// ---- Tensors ------------------------------------------------------------------------------------

static bool factor_fits(double factor)
{
    return factor >= 0 && isfinite(factor);
}

static bool params_fit(const char *who, const talc_augment_params *p, talc_image_size from)
{
    int orders = 0;
    for (int i = 0; i < 4; i++)
        orders |= p->order[i] >= 0 && p->order[i] < 4 ? 1 << p->order[i] : 0;
    if (p->top < 0 || p->left < 0 || p->crop.height < 1 || p->crop.width < 1 ||
        p->crop.height > from.height || p->crop.width > from.width ||
        p->top > from.height - p->crop.height || p->left > from.width - p->crop.width)
        talc_fail(TALC_BAD_ARGUMENT,
                  "%s: the part %" PRId64 "x%" PRId64 " at %" PRId64 ",%" PRId64
                  " is not inside the image %" PRId64 "x%" PRId64,
                  who, p->crop.height, p->crop.width, p->top, p->left, from.height, from.width);
    else if (orders != 15)
        talc_fail(TALC_BAD_ARGUMENT, "%s: order %d, %d, %d, %d must have each of 0..3 once", who,
                  p->order[0], p->order[1], p->order[2], p->order[3]);
    else if (!factor_fits(p->brightness) || !factor_fits(p->contrast) ||
             !factor_fits(p->saturation) || !(fabs(p->hue) <= 0.5) || !isfinite(p->angle))
        talc_fail(TALC_BAD_ARGUMENT,
                  "%s: brightness %g, contrast %g and saturation %g must be finite and at least 0, "
                  "hue %g within -0.5..0.5, angle %g finite",
                  who, p->brightness, p->contrast, p->saturation, p->hue, p->angle);
    else if (p->erase.height < 0 || p->erase.width < 0 || p->erase_top < 0 || p->erase_left < 0 ||
             p->erase.height > p->size.height || p->erase.width > p->size.width ||
             p->erase_top > p->size.height - p->erase.height ||
             p->erase_left > p->size.width - p->erase.width)
        talc_fail(TALC_BAD_ARGUMENT,
                  "%s: what is erased, %" PRId64 "x%" PRId64 " at %" PRId64 ",%" PRId64
                  ", is not inside the result %" PRId64 "x%" PRId64,
                  who, p->erase.height, p->erase.width, p->erase_top, p->erase_left, p->size.height,
                  p->size.width);
    return !talc_failed();
}

/* [...,H,W] that the host holds, and what was drawn for it. */
static bool operands_fit(const char *who, const char *what, const talc_tensor *x, int min_rank,
                         const talc_augment_params *params)
{
    char text[TALC_DIMS_TEXT];
    talc_image_size checked;
    if (talc_operand_missing(who, what, x) || talc_operand_missing(who, "params", params))
        return false;
    if (x->rank < min_rank || talc_numel(x) == 0)
        talc_fail(TALC_BAD_SHAPE, "%s: the %s %s must be [...,%sH,W] with no extent 0", who, what,
                  talc_dims_text(talc_dims_of(x), text), min_rank == 3 ? "C," : "");
    else if (!talc_device_is_host(x->device))
        talc_fail(TALC_BAD_DEVICE, "%s: the %s is on %s, it must be on the CPU", who, what,
                  talc_device_name(x->device));
    return !talc_failed() &&
           params_fit(who, params,
                      (talc_image_size){ x->dims[x->rank - 2], x->dims[x->rank - 1] }) &&
           talc_image_resized_size(who, params->crop, params->size, TALC_IMAGE_PIXELS, &checked);
}

/* x after what was drawn: of an image each [C,H,W], of a mask each [H,W] by itself. */
static talc_tensor *augmented(const char *who, const talc_tensor *x, bool is_image,
                              const talc_augment_params *p)
{
    const size_t bytes = talc_dtype_size(x->dtype);
    const talc_image_size from = { x->dims[x->rank - 2], x->dims[x->rank - 1] };
    const int64_t planes = is_image ? x->dims[x->rank - 3] : 1;
    const size_t in = (size_t)(planes * from.height * from.width) * bytes,
                 out = (size_t)(planes * p->size.height * p->size.width) * bytes;
    talc_dims dims = talc_dims_of(x);
    dims.dim[dims.rank - 2] = p->size.height;
    dims.dim[dims.rank - 1] = p->size.width;
    talc_tensor *packed = talc_contiguous_for(who, x);
    const uint8_t *source = packed == NULL ? NULL : talc_data_read(packed, x->dtype);
    talc_tensor *result = source == NULL ? NULL : talc_tensor_new(who, x->device, x->dtype, dims);
    uint8_t *target = result == NULL ? NULL : talc_data(result, x->dtype);
    talc_scratch scratch = { .who = who };
    for (size_t i = 0; target != NULL && i < talc_nbytes(x) / in; i++, target += out) {
        const void *made =
            is_image ? talc_augment_pixels(source + i * in, planes, from, p, &scratch)
                     : talc_augment_elements(source + i * in, planes, bytes, from, p, &scratch);
        if (made == NULL)
            break;
        memcpy(target, made, out);
        for (int64_t k = 0; is_image && k < planes * p->erase.height; k++)
            memset(target +
                       (k / p->erase.height * p->size.height + p->erase_top + k % p->erase.height) *
                           p->size.width +
                       p->erase_left,
                   0, (size_t)p->erase.width);
    }
    talc_scratch_free(&scratch);
    talc_release(packed);
    if (!talc_failed())
        return result;
    talc_release(result);
    return NULL;
}

talc_tensor *talc_augment_image(const talc_tensor *image, const talc_augment_params *params)
{
    static const char *const who = "augment_image";
    if (!operands_fit(who, "image", image, 3, params))
        return NULL;
    if (image->dtype == TALC_U8)
        return augmented(who, image, true, params);
    talc_fail(TALC_BAD_DTYPE, "%s: the image is %s, it must be u8", who,
              talc_dtype_name(image->dtype));
    return NULL;
}

talc_tensor *talc_augment_mask(const talc_tensor *mask, const talc_augment_params *params)
{
    static const char *const who = "augment_mask";
    return operands_fit(who, "mask", mask, 2, params) ? augmented(who, mask, false, params) : NULL;
}
