/// Images of bytes resized and cropped, in the arithmetic of Pillow.
#include "nn/data/image_resize.h"

#include "nn/data/image_file.h"
#include "tensor/fenv.h"
#include "tensor/memory.h"
#include "tensor/shape.h"
#include "tensor/storage.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* With more bytes to one, the rounding of their weights would be seen. */
enum { MAX_SIDE = 1 << 20, MAX_SHRINK = 4096 };

// ---- Sizes --------------------------------------------------------------------------------------

static bool has_sides(const char *who, const char *what, talc_image_size size)
{
    if (size.height < 1 || size.width < 1)
        talc_fail(TALC_BAD_ARGUMENT, "%s: %s %" PRId64 "x%" PRId64 " must be at least 1x1", who,
                  what, size.height, size.width);
    else if (size.height > MAX_SIDE || size.width > MAX_SIDE)
        talc_fail(TALC_TOO_LARGE,
                  "%s: %s %" PRId64 "x%" PRId64 " has a side of more than %d pixels", who, what,
                  size.height, size.width, MAX_SIDE);
    return !talc_failed();
}

static bool has_pixels(const char *who, const char *what, int64_t height, int64_t width,
                       int64_t max)
{
    if (height * width > max)
        talc_fail(TALC_TOO_LARGE,
                  "%s: %s %" PRId64 "x%" PRId64 ", %" PRId64 " pixels, at most %" PRId64
                  " are allowed",
                  who, what, height, width, height * width, max);
    return !talc_failed();
}

bool talc_image_resized_size(const char *who, talc_image_size from, talc_image_size asked,
                             int64_t max, talc_image_size *size)
{
    const bool upright = from.width <= from.height;
    if (!has_sides(who, "the image", from) ||
        !has_sides(who, "resize", asked.width == 0 ? (talc_image_size){ asked.height, 1 } : asked))
        return false;
    *size = asked;
    if (asked.width == 0) {
        const int64_t shorter = upright ? from.width : from.height,
                      longer = upright ? from.height : from.width,
                      proportion = asked.height * longer / shorter;
        *size = upright ? (talc_image_size){ proportion, asked.height }
                        : (talc_image_size){ asked.height, proportion };
    }
    if (has_sides(who, "resize to", *size) &&
        (from.height > MAX_SHRINK * size->height || from.width > MAX_SHRINK * size->width))
        talc_fail(TALC_BAD_SHAPE,
                  "%s: resize from %" PRId64 "x%" PRId64 " to %" PRId64 "x%" PRId64
                  " is more than %d to one",
                  who, from.height, from.width, size->height, size->width, MAX_SHRINK);
    return !talc_failed() && has_pixels(who, "resize to", size->height, size->width, max) &&
           has_pixels(who, "resize takes", from.height, size->width, max);
}

bool talc_image_cropped_size(const char *who, talc_image_size asked, int64_t max,
                             talc_image_size *size)
{
    *size = (talc_image_size){ asked.height, asked.width == 0 ? asked.height : asked.width };
    return has_sides(who, "crop", *size) && has_pixels(who, "crop", size->height, size->width, max);
}

// ---- Resizing -----------------------------------------------------------------------------------

enum { WEIGHT_BITS = 22 };

static const int32_t HALF = 1 << (WEIGHT_BITS - 1);

/* How far from an element's centre those are that it is made of, at most, before it is stretched
 * where the image shrinks. */
static double radius_of(talc_image_filter filter)
{
    return filter == TALC_IMAGE_BICUBIC ? 2 : 1;
}

/* In the order of Pillow's operations. */
static double filtered(talc_image_filter filter, double distance)
{
    const double t = fabs(distance), a = -0.5;
    if (filter == TALC_IMAGE_BILINEAR)
        return t < 1 ? 1 - t : 0;
    if (t < 1)
        return ((a + 2) * t - (a + 3)) * t * t + 1;
    return t < 2 ? (((t - 5) * t + 8) * t - 4) * a : 0;
}

/* Element i of a side is the sum of `count` weights, at i * taps, times what it is made of from
 * `first` on. */
typedef struct span {
    int64_t first, count;
} span;

typedef struct weights {
    int64_t taps;
    int32_t *weight;
    span *spans;
} weights;

static void weights_free(weights *w)
{
    talc_memory_free(w->weight);
    talc_memory_free(w->spans);
}

static void weigh(int64_t in, int64_t out, int64_t i, talc_image_filter filter, double *share,
                  weights *w)
{
    const double scale = (double)in / (double)out, stretch = fmax(scale, 1),
                 support = radius_of(filter) * stretch, center = ((double)i + 0.5) * scale,
                 nearer = 1 / stretch;
    const int64_t low = (int64_t)(center - support + 0.5), high = (int64_t)(center + support + 0.5);
    const int64_t first = low < 0 ? 0 : low, end = high > in ? in : high;
    double sum = 0;
    for (int64_t j = first; j < end; j++) {
        share[j - first] = filtered(filter, ((double)j - center + 0.5) * nearer);
        sum += share[j - first];
    }
    w->spans[i] = (span){ first, end - first };
    for (int64_t j = 0; j < end - first; j++) {
        const double weight = share[j] / sum * (1 << WEIGHT_BITS);
        w->weight[i * w->taps + j] = (int32_t)(weight + (weight < 0 ? -0.5 : 0.5));
    }
}

static bool weights_new(const char *who, int64_t in, int64_t out, talc_image_filter filter,
                        weights *w)
{
    const int64_t stretch = in <= out ? 1 : (in + out - 1) / out;
    *w = (weights){ .taps = 2 * (int64_t)radius_of(filter) * stretch + 1 };
    double *share = talc_memory_new((size_t)w->taps * sizeof *share, who);
    w->spans = share == NULL ? NULL : talc_memory_new((size_t)out * sizeof *w->spans, who);
    if (w->spans != NULL)
        w->weight = talc_memory_new((size_t)(out * w->taps) * sizeof *w->weight, who);
    for (int64_t i = 0; w->weight != NULL && i < out; i++)
        weigh(in, out, i, filter, share, w);
    talc_memory_free(share);
    return w->weight != NULL;
}

/* Weights add up to 2^22, off by half for each of at most 16385. Those that are not negative,
 * bilinear ones, never give less than 0 or more than 255. The magnitudes of bicubic ones add up to
 * less than 2^23, so no sum of bytes passes 2^31. */
static uint8_t rounded(int32_t sum)
{
    const int32_t byte = sum >> WEIGHT_BITS;
    return (uint8_t)(byte < 0 ? 0 : byte > 255 ? 255 : byte);
}

static void resize_row(const uint8_t *source, const weights *w, uint8_t *target, int64_t out)
{
    for (int64_t i = 0; i < out; i++) {
        const uint8_t *from = source + w->spans[i].first;
        const int32_t *weight = w->weight + i * w->taps;
        int32_t sum = HALF;
        for (int64_t j = 0; j < w->spans[i].count; j++)
            sum += weight[j] * from[j];
        target[i] = rounded(sum);
    }
}

/* One row of rows below each other, each `stride` after the one before. */
static void mix_rows(const uint8_t *source, int64_t stride, const weights *w, int64_t i,
                     uint8_t *target, int64_t width)
{
    enum { BLOCK = 1024 };
    const int32_t *weight = w->weight + i * w->taps;
    int32_t sums[BLOCK];
    for (int64_t start = 0; start < width; start += BLOCK) {
        const int64_t count = width - start < BLOCK ? width - start : BLOCK;
        for (int64_t k = 0; k < count; k++)
            sums[k] = HALF;
        for (int64_t j = 0; j < w->spans[i].count; j++) {
            const uint8_t *row = source + (w->spans[i].first + j) * stride + start;
            for (int64_t k = 0; k < count; k++)
                sums[k] += weight[j] * row[k];
        }
        for (int64_t k = 0; k < count; k++)
            target[start + k] = rounded(sums[k]);
    }
}

static void resize_plane(const uint8_t *source, int64_t stride, talc_image_size from,
                         const weights *columns, const weights *rows, uint8_t *between,
                         uint8_t *target, talc_image_size to)
{
    if (columns->weight != NULL) {
        for (int64_t h = 0; h < from.height; h++)
            resize_row(source + h * stride, columns, between + h * to.width, to.width);
        source = between;
        stride = to.width;
    }
    if (rows->weight != NULL)
        for (int64_t h = 0; h < to.height; h++)
            mix_rows(source, stride, rows, h, target + h * to.width, to.width);
}

/* A side that stays as it is has no pass; where the rows have none, the columns' is the result. */
talc_status talc_image_resample_part(const char *who, const uint8_t *source, int64_t planes,
                                     talc_image_size whole, talc_image_part part,
                                     talc_image_filter filter, uint8_t *target, talc_image_size to)
{
    TALC_DEFAULT_FENV;
    const talc_image_size from = part.size;
    const bool wide = from.width != to.width, high = from.height != to.height;
    const size_t plane = (size_t)(whole.height * whole.width),
                 result = (size_t)(to.height * to.width);
    weights columns = { 0 }, rows = { 0 };
    uint8_t *between = NULL;
    source += part.top * whole.width + part.left;
    if (!wide && !high)
        for (int64_t i = 0; i < planes * to.height; i++)
            memcpy(target + i * to.width,
                   source + (size_t)(i / to.height) * plane + (i % to.height) * whole.width,
                   (size_t)to.width);
    if (wide && high)
        between = talc_memory_new((size_t)(from.height * to.width), who);
    if (!talc_failed() && (!wide || weights_new(who, from.width, to.width, filter, &columns)) &&
        (!high || weights_new(who, from.height, to.height, filter, &rows)) && (wide || high))
        for (int64_t p = 0; p < planes; p++)
            resize_plane(source + (size_t)p * plane, whole.width, from, &columns, &rows,
                         high ? between : target + (size_t)p * result, target + (size_t)p * result,
                         to);
    weights_free(&columns);
    weights_free(&rows);
    talc_memory_free(between);
    return talc_error_status();
}

talc_status talc_image_resample(const char *who, const uint8_t *source, int64_t planes,
                                talc_image_size from, talc_image_filter filter, uint8_t *target,
                                talc_image_size to)
{
    return talc_image_resample_part(who, source, planes, from, (talc_image_part){ 0, 0, from },
                                    filter, target, to);
}

// ---- Cropping -----------------------------------------------------------------------------------

/* Where what is cut out begins; below 0, by how much zeros go before. The half of an odd number is
 * rounded to the even one, as Python's round does; of zeros, the smaller half goes before. */
static int64_t crop_start(int64_t in, int64_t out)
{
    const int64_t over = in - out;
    if (over < 0)
        return -(-over / 2);
    return over % 4 == 3 ? over / 2 + 1 : over / 2;
}

void talc_image_cut(const uint8_t *source, int64_t planes, talc_image_size from, uint8_t *target,
                    talc_image_size to)
{
    const int64_t top = crop_start(from.height, to.height), left = crop_start(from.width, to.width);
    const int64_t first = left < 0 ? -left : 0, begin = left < 0 ? 0 : left,
                  count = from.width < to.width ? from.width : to.width;
    for (int64_t p = 0; p < planes; p++)
        for (int64_t h = 0; h < to.height; h++) {
            uint8_t *row = target + (p * to.height + h) * to.width;
            const int64_t at = h + top;
            memset(row, 0, (size_t)to.width);
            if (at >= 0 && at < from.height)
                memcpy(row + first, source + (p * from.height + at) * from.width + begin,
                       (size_t)count);
        }
}

// ---- Tensors ------------------------------------------------------------------------------------

/* [...,H,W] of bytes that the host holds: its size and the number of its planes. */
static bool image_of(const char *who, const talc_tensor *image, talc_image_size *size,
                     int64_t *planes)
{
    char text[TALC_DIMS_TEXT];
    if (talc_operand_missing(who, "image", image))
        return false;
    if (image->dtype != TALC_U8)
        talc_fail(TALC_BAD_DTYPE, "%s: the image is %s, it must be u8", who,
                  talc_dtype_name(image->dtype));
    else if (image->rank < 2 || talc_numel(image) == 0)
        talc_fail(TALC_BAD_SHAPE, "%s: the image %s must be [...,H,W] with no extent 0", who,
                  talc_dims_text(talc_dims_of(image), text));
    else if (!talc_device_is_host(image->device))
        talc_fail(TALC_BAD_DEVICE, "%s: the image is on %s, it must be on the CPU", who,
                  talc_device_name(image->device));
    if (talc_failed())
        return false;
    *size = (talc_image_size){ image->dims[image->rank - 2], image->dims[image->rank - 1] };
    *planes = talc_numel(image) / (size->height * size->width);
    return true;
}

/* A new image of that size; *source are the elements of `image`, contiguous, in `*packed`, which is
 * to be released. */
static talc_tensor *result_of(const char *who, const talc_tensor *image, talc_image_size size,
                              talc_tensor **packed, const uint8_t **source)
{
    talc_dims dims = talc_dims_of(image);
    dims.dim[dims.rank - 2] = size.height;
    dims.dim[dims.rank - 1] = size.width;
    *packed = talc_contiguous_for(who, image);
    *source = *packed == NULL ? NULL : talc_data_read(*packed, TALC_U8);
    return *source == NULL ? NULL : talc_tensor_new(who, image->device, TALC_U8, dims);
}

bool talc_image_filter_is_known(const char *who, talc_image_filter filter)
{
    const int number = (int)filter;
    if (number < 0 || number >= (int)TALC_IMAGE_FILTER_COUNT)
        talc_fail(TALC_BAD_ARGUMENT, "%s: filter %d is outside 0..%d", who, number,
                  (int)TALC_IMAGE_FILTER_COUNT - 1);
    return !talc_failed();
}

talc_tensor *talc_image_resize_by(const talc_tensor *image, talc_image_size size,
                                  talc_image_filter filter)
{
    static const char *const who = "image_resize";
    talc_image_size from, to;
    int64_t planes;
    if (!image_of(who, image, &from, &planes) || !talc_image_filter_is_known(who, filter) ||
        !talc_image_resized_size(who, from, size, TALC_IMAGE_PIXELS, &to))
        return NULL;
    const uint8_t *source;
    talc_tensor *packed, *result = result_of(who, image, to, &packed, &source);
    if (result != NULL && talc_image_resample(who, source, planes, from, filter,
                                              talc_data(result, TALC_U8), to) != TALC_OK) {
        talc_release(result);
        result = NULL;
    }
    talc_release(packed);
    return result;
}

talc_tensor *talc_image_resize(const talc_tensor *image, talc_image_size size)
{
    return talc_image_resize_by(image, size, TALC_IMAGE_BILINEAR);
}

talc_tensor *talc_image_crop(const talc_tensor *image, talc_image_size size)
{
    static const char *const who = "image_crop";
    talc_image_size from, to;
    int64_t planes;
    if (!image_of(who, image, &from, &planes) ||
        !talc_image_cropped_size(who, size, TALC_IMAGE_PIXELS, &to))
        return NULL;
    const uint8_t *source;
    talc_tensor *packed, *result = result_of(who, image, to, &packed, &source);
    if (result != NULL)
        talc_image_cut(source, planes, from, talc_data(result, TALC_U8), to);
    talc_release(packed);
    return result;
}
