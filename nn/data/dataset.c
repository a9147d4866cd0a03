#include "nn/data/dataset.h"

#include "nn/data/image_file.h"
#include "nn/data/image_resize.h"
#include "tensor/fenv.h"
#include "tensor/memory.h"
#include "tensor/scope.h"
#include "tensor/storage.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

// ---- Samples ------------------------------------------------------------------------------------

talc_samples *talc_samples_described(const char *who, int64_t count, talc_dims dims)
{
    int64_t image = 1, bytes, label_bytes;
    bool fits = true;
    for (int i = 0; i < dims.rank; i++)
        fits = fits && talc_multiply(image, dims.dim[i], &image);
    if (!fits || !talc_multiply(image, count, &bytes) ||
        !talc_multiply(count, (int64_t)sizeof(int64_t), &label_bytes)) {
        char text[TALC_DIMS_TEXT];
        talc_fail(TALC_TOO_LARGE, "%s: %" PRId64 " images %s need more than %" PRId64 " bytes", who,
                  count, talc_dims_text(dims, text), INT64_MAX);
        return NULL;
    }
    talc_samples *samples = talc_memory_new(sizeof *samples, who);
    if (samples == NULL)
        return NULL;
    atomic_init(&samples->references, 1);
    samples->count = count;
    samples->dims = dims;
    samples->dtype = TALC_U8;
    samples->image_bytes = image;
    samples->target_dims = TALC_SCALAR;
    samples->target_dtype = TALC_I64;
    samples->target_bytes = sizeof(int64_t);
    return samples;
}

talc_samples *talc_samples_new(const char *who, int64_t count, talc_dims dims)
{
    talc_samples *samples = talc_samples_described(who, count, dims);
    if (samples == NULL)
        return NULL;
    samples->pixels = talc_memory_new((size_t)(count * samples->image_bytes), who);
    if (samples->pixels != NULL)
        samples->labels = talc_numbers_new(who, count);
    if (samples->labels != NULL)
        return samples;
    talc_samples_release(samples);
    return NULL;
}

void talc_samples_release(talc_samples *samples)
{
    if (samples == NULL || atomic_fetch_sub(&samples->references, 1) != 1)
        return;
    talc_memory_free(samples->pixels);
    talc_memory_free(samples->labels);
    talc_memory_free(samples->weights);
    talc_memory_free(samples->names);
    if (samples->source_free != NULL)
        samples->source_free(samples->source);
    talc_memory_free(samples);
}

char *talc_samples_names(const char *who, talc_samples *samples, int64_t classes, size_t bytes)
{
    const size_t pointers = (size_t)classes * sizeof *samples->names;
    samples->names = talc_memory_new(pointers + bytes, who);
    samples->classes = classes;
    return samples->names == NULL ? NULL : (char *)samples->names + pointers;
}

bool talc_samples_number(const char *who, talc_samples *samples, int64_t classes)
{
    enum { NAME_BYTES = 8 };
    char *text = talc_samples_names(who, samples, classes, (size_t)classes * NAME_BYTES);
    for (int64_t i = 0; text != NULL && i < classes; i++) {
        samples->names[i] = text + i * NAME_BYTES;
        snprintf(samples->names[i], NAME_BYTES, "%d", (int)i);
    }
    return text != NULL;
}

/* "0", "1", ... up to the largest label, or as many as there are known to be. */
static bool number_classes(const char *who, talc_samples *samples)
{
    int64_t largest = samples->classes > 0 ? samples->classes - 1 : 0;
    for (int64_t i = 0; i < samples->count; i++)
        largest = samples->labels[i] > largest ? samples->labels[i] : largest;
    if (largest < TALC_CLASSES_MAX)
        return talc_samples_number(who, samples, largest + 1);
    talc_fail(TALC_BAD_ARGUMENT, "%s: label %" PRId64 " is outside 0..%d", who, largest,
              TALC_CLASSES_MAX - 1);
    return false;
}

static bool labels_fit(const char *who, const talc_samples *samples)
{
    const int64_t classes = samples->names == NULL ? TALC_CLASSES_MAX : samples->classes;
    for (int64_t i = 0; i < samples->count; i++)
        if (samples->labels[i] < 0 || samples->labels[i] >= classes) {
            talc_fail(TALC_BAD_ARGUMENT,
                      "%s: label %" PRId64 " of sample %" PRId64 " is outside 0..%" PRId64, who,
                      samples->labels[i], i, classes - 1);
            return false;
        }
    return true;
}

talc_dataset *talc_dataset_of(const char *who, talc_samples *samples, int64_t start, int64_t count)
{
    talc_dataset *dataset = talc_memory_new(sizeof *dataset, who);
    if (dataset == NULL)
        return NULL;
    *dataset = (talc_dataset){ .samples = samples, .start = start, .count = count };
    atomic_fetch_add(&samples->references, 1);
    return dataset;
}

talc_dataset *talc_samples_dataset(const char *who, talc_samples *samples)
{
    talc_dataset *dataset = NULL;
    if (labels_fit(who, samples) && (samples->names != NULL || number_classes(who, samples)))
        dataset = talc_dataset_of(who, samples, 0, samples->count);
    talc_samples_release(samples);
    return dataset;
}

// ---- Reading ------------------------------------------------------------------------------------

bool talc_samples_read(const talc_samples *samples, int64_t i, talc_scratch *scratch,
                       talc_sample *sample)
{
    if (samples->read != NULL)
        return samples->read(samples, i, scratch, sample);
    *sample = (talc_sample){ .image = samples->pixels + i * samples->image_bytes,
                             .target = samples->labels + i,
                             .size = { samples->dims.dim[1], samples->dims.dim[2] } };
    return true;
}

bool talc_dataset_read(const talc_dataset *dataset, int64_t i, talc_scratch *scratch,
                       talc_sample *sample)
{
    return talc_samples_read(dataset->samples, talc_dataset_index(dataset, i), scratch, sample);
}

const uint8_t *talc_sample_fitted(const talc_sample *sample, talc_dims dims, talc_scratch *scratch)
{
    const talc_image_size to = { dims.dim[1], dims.dim[2] };
    const size_t channels = (size_t)dims.dim[0];
    talc_image_size resized;
    if (sample->size.height == to.height && sample->size.width == to.width)
        return sample->image;
    if (!talc_image_resized_size(scratch->who, sample->size, sample->resize, TALC_IMAGE_PIXELS,
                                 &resized))
        return NULL;
    uint8_t *planes = talc_scratch_bytes(scratch, TALC_SCRATCH_FIRST,
                                         channels * (size_t)(resized.height * resized.width));
    uint8_t *fitted = planes == NULL
                          ? NULL
                          : talc_scratch_bytes(scratch, TALC_SCRATCH_SECOND,
                                               channels * (size_t)(to.height * to.width));
    if (fitted == NULL ||
        talc_image_resample(scratch->who, sample->image, dims.dim[0], sample->size,
                            TALC_IMAGE_BILINEAR, planes, resized) != TALC_OK)
        return NULL;
    talc_image_cut(planes, dims.dim[0], resized, fitted, to);
    return fitted;
}

char *talc_path_in(const char *who, const char *directory, const char *name)
{
    const size_t bytes = strlen(directory) + strlen(name) + 2;
    char *path = talc_memory_new(bytes, who);
    if (path != NULL)
        snprintf(path, bytes, "%s/%s", directory, name);
    return path;
}

// ---- What a dataset holds -----------------------------------------------------------------------

void talc_dataset_free(talc_dataset *dataset)
{
    if (dataset == NULL)
        return;
    talc_samples_release(dataset->samples);
    talc_memory_free(dataset->order);
    talc_memory_free(dataset);
}

int64_t talc_dataset_count(const talc_dataset *dataset)
{
    return dataset == NULL ? 0 : dataset->count;
}

talc_dims talc_dataset_dims(const talc_dataset *dataset)
{
    return dataset == NULL ? TALC_SCALAR : dataset->samples->dims;
}

int64_t talc_dataset_classes(const talc_dataset *dataset)
{
    return dataset == NULL ? 0 : dataset->samples->classes;
}

const char *talc_dataset_class(const talc_dataset *dataset, int64_t label)
{
    const bool is = dataset != NULL && label >= 0 && label < dataset->samples->classes;
    return is ? dataset->samples->names[label] : NULL;
}

static bool has_sample(const talc_dataset *dataset, int64_t sample)
{
    return dataset != NULL && sample >= 0 && sample < dataset->count;
}

const uint8_t *talc_dataset_pixels(const talc_dataset *dataset, int64_t sample)
{
    if (!has_sample(dataset, sample))
        return NULL;
    const talc_samples *all = dataset->samples;
    if (all->pixels == NULL)
        return NULL;
    return all->pixels + talc_dataset_index(dataset, sample) * all->image_bytes;
}

int64_t talc_dataset_label(const talc_dataset *dataset, int64_t sample)
{
    return has_sample(dataset, sample) && dataset->samples->labels != NULL
               ? dataset->samples->labels[talc_dataset_index(dataset, sample)]
               : -1;
}

enum { CHANNELS = 4, LEVELS = 256 };

/* By how often a channel has each of 256 values: one of a single value deviates by exactly 0. */
static void channel_statistics(const int64_t counts[LEVELS], double n, double *mean,
                               double *deviation)
{
    double sum = 0, squares = 0;
    for (int level = 0; level < LEVELS; level++)
        sum += (double)counts[level] * level;
    *mean = sum / (255 * n);
    for (int level = 0; level < LEVELS; level++) {
        const double off = level / 255.0 - *mean;
        squares += (double)counts[level] * off * off;
    }
    *deviation = sqrt(squares / n);
}

/* How often each channel has each value, in images of the dataset's size. */
static bool count_levels(const talc_dataset *dataset, talc_scratch *scratch,
                         int64_t counts[CHANNELS][LEVELS])
{
    const talc_dims dims = talc_dataset_dims(dataset);
    const int64_t plane = dims.dim[1] * dims.dim[2];
    for (int64_t i = 0; i < dataset->count; i++) {
        talc_sample sample;
        const uint8_t *pixels = talc_dataset_read(dataset, i, scratch, &sample)
                                    ? talc_sample_fitted(&sample, dims, scratch)
                                    : NULL;
        if (pixels == NULL)
            return false;
        for (int64_t k = 0; k < dims.dim[0] * plane; k++)
            counts[k / plane][pixels[k]]++;
    }
    return true;
}

bool talc_dataset_statistics(const talc_dataset *dataset, double mean[4], double deviation[4])
{
    TALC_DEFAULT_FENV;
    static const char *const who = "dataset_statistics";
    if (talc_operand_missing(who, "dataset", dataset) || talc_operand_missing(who, "mean", mean) ||
        talc_operand_missing(who, "deviation", deviation))
        return false;
    const talc_dims dims = talc_dataset_dims(dataset);
    if (dataset->samples->dtype != TALC_U8)
        talc_fail(TALC_BAD_DTYPE, "%s: the images are %s, the statistics are of bytes", who,
                  talc_dtype_name(dataset->samples->dtype));
    else if (dims.dim[0] > CHANNELS)
        talc_fail(TALC_BAD_SHAPE,
                  "%s: the images have %" PRId64 " channels, the statistics are of %d", who,
                  dims.dim[0], CHANNELS);
    if (talc_failed())
        return false;
    int64_t counts[CHANNELS][LEVELS] = { { 0 } };
    talc_scratch scratch = { .who = who };
    const bool counted = count_levels(dataset, &scratch, counts);
    talc_scratch_free(&scratch);
    for (int64_t c = 0; counted && c < CHANNELS; c++) {
        mean[c] = deviation[c] = 0;
        if (c < dims.dim[0])
            channel_statistics(counts[c], (double)(dataset->count * dims.dim[1] * dims.dim[2]),
                               &mean[c], &deviation[c]);
    }
    return counted;
}

talc_model_info talc_dataset_info(const talc_dataset *dataset,
                                  const struct talc_loader_options *options)
{
    talc_model_info info = { 0 };
    if (dataset == NULL)
        return info;
    const talc_dims dims = talc_dataset_dims(dataset);
    if (dims.rank == 3) {
        info.channels = dims.dim[0];
        info.height = dims.dim[1];
        info.width = dims.dim[2];
    }
    if (options != NULL) {
        memcpy(info.mean, options->mean, sizeof info.mean);
        memcpy(info.deviation, options->deviation, sizeof info.deviation);
    }
    info.classes = talc_dataset_classes(dataset);
    info.class_names = (const char *const *)dataset->samples->names;
    return info;
}

// ---- From tensors -------------------------------------------------------------------------------

static const char *const TENSORS = "dataset_tensors";

static bool tensors_fit(const talc_tensor *images, const talc_tensor *labels)
{
    char text[TALC_DIMS_TEXT];
    const talc_dims dims = talc_dims_of(images);
    if (dims.rank != 4 || talc_numel(images) == 0)
        talc_fail(TALC_BAD_SHAPE, "%s: images %s must be [N,C,H,W] with no extent 0", TENSORS,
                  talc_dims_text(dims, text));
    else if (images->dtype != TALC_U8 && !talc_dtype_is_float(images->dtype))
        talc_fail(TALC_BAD_DTYPE, "%s: images are %s, they must be u8, f32 or f64", TENSORS,
                  talc_dtype_name(images->dtype));
    else if (labels->dtype != TALC_I64)
        talc_fail(TALC_BAD_DTYPE, "%s: labels are %s, they must be i64", TENSORS,
                  talc_dtype_name(labels->dtype));
    else if (labels->rank != 1 || labels->dims[0] != dims.dim[0])
        talc_fail(TALC_BAD_SHAPE, "%s: labels %s must be [%" PRId64 "], one an image", TENSORS,
                  talc_dims_text(talc_dims_of(labels), text), dims.dim[0]);
    return !talc_failed();
}

/* 0 .. 1 as bytes, to the nearest; the tensor is contiguous and the host's. */
static bool round_pixels(const talc_tensor *images, talc_samples *samples)
{
    TALC_DEFAULT_FENV;
    const void *data = talc_data_read(images, images->dtype);
    if (data == NULL)
        return false;
    const bool single = images->dtype == TALC_F32;
    const int64_t numel = talc_numel(images);
    for (int64_t i = 0; i < numel; i++) {
        const double value = single ? (double)((const float *)data)[i] : ((const double *)data)[i];
        if (!(value >= 0 && value <= 1)) { /* NaN too */
            talc_fail(TALC_BAD_ARGUMENT, "%s: image %" PRId64 " holds %g, pixels are 0 .. 1",
                      TENSORS, i / samples->image_bytes, value);
            return false;
        }
        samples->pixels[i] = (uint8_t)floor(255 * value + 0.5);
    }
    return true;
}

static bool copy_pixels(const talc_tensor *images, talc_samples *samples)
{
    if (images->dtype == TALC_U8)
        return talc_to_host(images, samples->pixels, talc_nbytes(images));
    talc_scope *scope = talc_scope_enter();
    const talc_tensor *here =
        scope == NULL ? NULL : talc_to(images, talc_device_host(), images->dtype);
    const talc_tensor *packed = here == NULL ? NULL : talc_contiguous(here);
    const bool ok = packed != NULL && round_pixels(packed, samples);
    talc_scope_leave(scope);
    return ok;
}

talc_dataset *talc_dataset_tensors(const talc_tensor *images, const talc_tensor *labels)
{
    if (talc_operand_missing(TENSORS, "images", images) ||
        talc_operand_missing(TENSORS, "labels", labels) || !tensors_fit(images, labels))
        return NULL;
    const talc_dims dims = TALC_DIMS(images->dims[1], images->dims[2], images->dims[3]);
    talc_samples *samples = talc_samples_new(TENSORS, images->dims[0], dims);
    if (samples == NULL)
        return NULL;
    if (copy_pixels(images, samples) && talc_to_host(labels, samples->labels, talc_nbytes(labels)))
        return talc_samples_dataset(TENSORS, samples);
    talc_samples_release(samples);
    return NULL;
}
