#include "nn/data/batch.h"

#include "nn/data/augment_planes.h"
#include "nn/parallel.h"
#include "tensor/extent.h"
#include "tensor/fenv.h"
#include "tensor/memory.h"
#include "tensor/philox.h"
#include "tensor/storage.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static const char *const WHO = "loader";

enum { LEVELS = 256, NORMALISED = 4, BATCH = 64, MAX_THREADS = 64 };

// ---- Options ------------------------------------------------------------------------------------

static bool counts_fit(const talc_loader_options *o, const talc_dataset *dataset, int64_t count)
{
    const talc_dims dims = talc_dataset_dims(dataset);
    const bool pixels = dataset->samples->dtype == TALC_U8;
    const int64_t min = pixels ? talc_smaller(dims.dim[1], dims.dim[2]) : 1;
    if (!talc_dtype_is_float(o->dtype))
        talc_fail(TALC_BAD_DTYPE, "%s: images of %s are not made, they must be f32 or f64", WHO,
                  talc_dtype_name(o->dtype));
    else if (o->batch < 1)
        talc_fail(TALC_BAD_ARGUMENT, "%s: batch %" PRId64 " must be at least 1", WHO, o->batch);
    else if (o->batch > INT64_MAX / talc_group_size(o->group))
        talc_fail(TALC_TOO_LARGE, "%s: %d batches of %" PRId64 " samples", WHO,
                  talc_group_size(o->group), o->batch);
    else if (count < (o->drop_last ? o->batch : 1) * talc_group_size(o->group))
        talc_fail(TALC_BAD_ARGUMENT,
                  "%s: batch %" PRId64 "%s leaves nothing of %" PRId64 " sample%s%s", WHO, o->batch,
                  o->drop_last ? " with drop_last" : "", count, TALC_PLURAL(count),
                  talc_group_size(o->group) == 1 ? "" : " for each process");
    else if (pixels && (o->shift < 0 || o->shift >= min))
        talc_fail(TALC_BAD_ARGUMENT,
                  "%s: shift %" PRId64 " is outside 0..%" PRId64 " for images of %" PRId64
                  "x%" PRId64,
                  WHO, o->shift, min - 1, dims.dim[1], dims.dim[2]);
    else if (o->threads < 1 || o->threads > MAX_THREADS)
        talc_fail(TALC_BAD_ARGUMENT, "%s: threads %d are outside 1..%d", WHO, o->threads,
                  MAX_THREADS);
    return !talc_failed();
}

/* Whether the targets have an element for each pixel. */
static bool masks_fit(const talc_dataset *dataset)
{
    const talc_dims dims = talc_dataset_dims(dataset), mask = dataset->samples->target_dims;
    char text[TALC_DIMS_TEXT];
    if (mask.rank >= 2 && mask.dim[mask.rank - 2] == dims.dim[1] &&
        mask.dim[mask.rank - 1] == dims.dim[2])
        return true;
    talc_fail(TALC_BAD_SHAPE,
              "%s: targets %s are no masks of images of %" PRId64 "x%" PRId64
              ", they must be [...,H,W]",
              WHO, talc_dims_text(mask, text), dims.dim[1], dims.dim[2]);
    return false;
}

/* What is random about images, and what the dataset has to be for it. */
static bool changes_fit(const talc_batch_plan *plan)
{
    const talc_loader_options *o = &plan->options;
    const talc_samples *samples = plan->dataset->samples;
    const int64_t channels = samples->dims.dim[0];
    const talc_augment *a = &o->augment;
    const bool colors = a->brightness != 0 || a->contrast != 0 || a->saturation != 0 || a->hue != 0;
    if (!talc_augment_fits(WHO, a))
        return false;
    if (samples->dtype != TALC_U8 && (plan->augments || o->flip || o->shift != 0 || o->masks))
        talc_fail(TALC_BAD_DTYPE,
                  "%s: the images are %s, only bytes are augmented, mirrored and moved", WHO,
                  talc_dtype_name(samples->dtype));
    else if (o->flip && a->flip != 0)
        talc_fail(TALC_BAD_ARGUMENT, "%s: flip and augment.flip %g exclude each other", WHO,
                  a->flip);
    else if (colors && channels != 1 && channels != 3)
        talc_fail(TALC_BAD_SHAPE,
                  "%s: the images have %" PRId64 " channels, colours change in images of 1 or 3",
                  WHO, channels);
    return !talc_failed() && (!o->masks || masks_fit(plan->dataset));
}

static bool normalisation_fits(const talc_loader_options *o, int64_t channels)
{
    for (int c = 0; c < NORMALISED; c++) {
        if (!isfinite(o->mean[c]) || !(o->deviation[c] >= 0 && isfinite(o->deviation[c])))
            talc_fail(
                TALC_BAD_ARGUMENT,
                "%s: mean %g and deviation %g of channel %d must be finite, the deviation not "
                "negative",
                WHO, o->mean[c], o->deviation[c], c);
        else if (c >= channels && (o->mean[c] != 0 || o->deviation[c] != 0))
            talc_fail(TALC_BAD_ARGUMENT,
                      "%s: mean %g and deviation %g are of channel %d, the images have %" PRId64,
                      WHO, o->mean[c], o->deviation[c], c, channels);
    }
    const bool any = o->mean[0] != 0 || o->deviation[0] != 0;
    if (channels > NORMALISED && any)
        talc_fail(TALC_BAD_ARGUMENT,
                  "%s: the images have %" PRId64 " channels, mean and deviation are of %d", WHO,
                  channels, NORMALISED);
    return !talc_failed();
}

/* (p / 255 - mean) / deviation, worked out in f64; the loader's dtype rounds it once. */
static void tabulate(talc_batch_plan *plan, int64_t channels)
{
    const talc_loader_options *o = &plan->options;
    for (int64_t c = 0; c < channels; c++) {
        const double mean = c < NORMALISED ? o->mean[c] : 0;
        const double deviation = c < NORMALISED && o->deviation[c] != 0 ? o->deviation[c] : 1;
        for (int p = 0; p < LEVELS; p++)
            plan->values[c * LEVELS + p] = (p / 255.0 - mean) / deviation;
    }
}

/* Sums of the weights up to each sample, of which the last is positive. */
static bool add_up(const talc_dataset *dataset, const double *weights, double *cumulative)
{
    double sum = 0;
    for (int64_t i = 0; i < dataset->count; i++) {
        const double weight = weights == NULL
                                  ? dataset->samples->weights[talc_dataset_index(dataset, i)]
                                  : weights[i];
        if (!(weight >= 0 && isfinite(weight))) {
            talc_fail(TALC_BAD_ARGUMENT,
                      "%s: weight %g of sample %" PRId64 " must be finite and at least 0", WHO,
                      weight, i);
            return false;
        }
        cumulative[i] = sum += weight;
    }
    if (!(sum > 0 && isfinite(sum)))
        talc_fail(TALC_BAD_ARGUMENT, "%s: the weights add up to %g", WHO, sum);
    return !talc_failed();
}

/* The memory of a plan, and what stays the same in it. */
static bool take_memory(talc_batch_plan *plan, bool weighted)
{
    const talc_loader_options *o = &plan->options;
    const talc_samples *samples = plan->dataset->samples;
    const int64_t channels = samples->dims.dim[0];
    if (samples->dtype == TALC_U8)
        plan->values = talc_memory_new((size_t)channels * LEVELS * sizeof *plan->values, WHO);
    if (!talc_failed() && (o->shuffle || weighted))
        plan->order = talc_numbers_new(WHO, plan->count);
    if (!talc_failed() && weighted)
        plan->cumulative =
            talc_memory_new((size_t)plan->dataset->count * sizeof *plan->cumulative, WHO);
    if (talc_failed() || (weighted && !add_up(plan->dataset, o->weights, plan->cumulative)))
        return false;
    if (plan->values != NULL)
        tabulate(plan, channels);
    return true;
}

/* All that the order of an epoch and the shares follow from. */
static bool members_agree(const talc_batch_plan *plan)
{
    const talc_loader_options *o = &plan->options;
    return o->group == NULL || (talc_group_agree(o->group, "the loader's seed", (int64_t)o->seed) &&
                                talc_group_agree(o->group, "the loader's batch", o->batch) &&
                                talc_group_agree(o->group, "the loader's samples", plan->count) &&
                                talc_group_agree(o->group, "shuffle", o->shuffle) &&
                                talc_group_agree(o->group, "drop_last", o->drop_last));
}

bool talc_batch_plan_begin(talc_batch_plan *plan, const talc_dataset *dataset,
                           const talc_loader_options *options)
{
    TALC_DEFAULT_FENV;
    const bool pixels = dataset->samples->dtype == TALC_U8;
    *plan = (talc_batch_plan){ .dataset = dataset, .epoch = -1 };
    if (options != NULL)
        plan->options = *options;
    talc_loader_options *o = &plan->options;
    if (o->device == NULL)
        o->device = talc_device_host();
    if (o->batch == 0)
        o->batch = BATCH;
    if (o->threads == 0)
        o->threads = 1;
    if (dataset->samples->in_caller)
        o->no_thread = true;
    plan->augments = talc_augment_any(&o->augment);
    const bool weighted = o->weights != NULL || dataset->samples->weights != NULL;
    plan->count = weighted && o->samples > 0 ? o->samples : dataset->count;
    if (o->samples < 0 || (o->samples > 0 && !weighted))
        talc_fail(TALC_BAD_ARGUMENT, "%s: samples %" PRId64 " must be %s", WHO, o->samples,
                  weighted ? "at least 1" : "0 where there are no weights");
    if (talc_failed() || !counts_fit(o, dataset, plan->count) ||
        !normalisation_fits(o, pixels ? dataset->samples->dims.dim[0] : 0) || !changes_fit(plan))
        return false;
    if (take_memory(plan, weighted) && members_agree(plan))
        return true;
    talc_batch_plan_end(plan);
    return false;
}

void talc_batch_plan_end(talc_batch_plan *plan)
{
    talc_memory_free(plan->order);
    talc_memory_free(plan->cumulative);
    talc_memory_free(plan->values);
}

talc_batch_places talc_batch_places_of(const talc_batch_plan *plan, int64_t batch)
{
    const int64_t size = talc_group_size(plan->options.group);
    const int64_t rank = talc_group_rank(plan->options.group);
    const int64_t first = batch * plan->options.batch * size;
    const int64_t all = talc_smaller(plan->options.batch * size, plan->count - first);
    const int64_t begin = all * rank / size;
    return (talc_batch_places){ first + begin, all * (rank + 1) / size - begin };
}

int64_t talc_batch_plan_batches(const talc_batch_plan *plan)
{
    const int64_t size = talc_group_size(plan->options.group);
    const int64_t batch = plan->options.batch * size;
    return plan->count / batch + (plan->count % batch >= size && !plan->options.drop_last);
}

// ---- Order --------------------------------------------------------------------------------------

/* The first sample whose sum is above the number; one of weight 0 has the sum of the one before. */
static int64_t drawn_sample(const talc_batch_plan *plan, double share)
{
    int64_t low = 0, high = plan->dataset->count - 1;
    const double sum = plan->cumulative[high];
    const double number = fmin(share * sum, nextafter(sum, 0));
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (plan->cumulative[middle] > number)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

void talc_batch_plan_epoch(talc_batch_plan *plan, int64_t epoch)
{
    TALC_DEFAULT_FENV;
    const uint64_t call = 2 * (uint64_t)epoch;
    plan->epoch = epoch;
    if (plan->cumulative == NULL && plan->order != NULL)
        talc_shuffle(plan->order, plan->count, plan->options.seed, call);
    for (int64_t i = 0; plan->cumulative != NULL && i < plan->count; i++) {
        const talc_philox_block block = talc_philox(plan->options.seed, call, (uint64_t)i / 2);
        plan->order[i] = drawn_sample(plan, talc_uniform53(talc_philox_pair(block, i % 2)));
    }
}

int64_t talc_batch_sample(const talc_batch_plan *plan, int64_t offset)
{
    return plan->order == NULL ? offset : plan->order[offset];
}

// ---- Images -------------------------------------------------------------------------------------

/* How one image is changed: mirrored first, then moved. */
typedef struct change {
    int64_t down, right;
    bool mirrored;
} change;

/* -reach .. reach, each as likely as the others to within 2^-32. */
static int64_t draw_shift(uint32_t word, int64_t reach)
{
    return (int64_t)talc_integer_below((uint64_t)word << 32, 2 * (uint64_t)reach + 1) - reach;
}

static change draw_change(const talc_batch_plan *plan, int64_t sample)
{
    const talc_loader_options *o = &plan->options;
    const talc_philox_block block =
        talc_philox(o->seed, 2 * (uint64_t)plan->epoch + 1, (uint64_t)sample);
    return (change){ .down = draw_shift(block.word[0], o->shift),
                     .right = draw_shift(block.word[1], o->shift),
                     .mirrored = o->flip && block.word[2] >> 31 != 0 };
}

/* out[at .. at + count) = values[pixels[0]], values[pixels[step]], ...; a step of 0 repeats one
 * pixel. */
static void put(talc_dtype dtype, void *out, int64_t at, int64_t count, const double *values,
                const uint8_t *pixels, int64_t step)
{
    if (dtype == TALC_F32)
        for (int64_t i = 0; i < count; i++)
            ((float *)out)[at + i] = (float)values[pixels[i * step]];
    else
        for (int64_t i = 0; i < count; i++)
            ((double *)out)[at + i] = values[pixels[i * step]];
}

/* One channel [H,W], whose first element is number `at` of out. */
static void put_channel(talc_dtype dtype, void *out, int64_t at, int64_t H, int64_t W,
                        const double *values, const uint8_t *pixels, change how)
{
    static const uint8_t zero = 0;
    const int64_t left = talc_larger(how.right, 0), right = talc_larger(-how.right, 0);
    for (int64_t h = 0; h < H; h++, at += W) {
        const int64_t from = h - how.down;
        if (from < 0 || from >= H) {
            put(dtype, out, at, W, values, &zero, 0);
            continue;
        }
        /* Column w shows column w - how.right of the mirrored or plain row. */
        const int64_t first = left - how.right;
        const uint8_t *row = pixels + from * W + (how.mirrored ? W - 1 - first : first);
        put(dtype, out, at, left, values, &zero, 0);
        put(dtype, out, at + left, W - left - right, values, row, how.mirrored ? -1 : 1);
        put(dtype, out, at + W - right, right, values, &zero, 0);
    }
}

// ---- Samples ------------------------------------------------------------------------------------

/* A sample on its way into a batch. */
typedef struct passage {
    const talc_batch_plan *plan;
    talc_scratch *scratch;
    talc_sample sample;
    talc_image_size size; /* of the batch's images */
    talc_augment_params params;
    change how;
} passage;

/* Where nothing is cut out at random the image has its size before anything else. */
static bool fit(passage *p)
{
    if (p->plan->augments && p->plan->options.augment.scale[1] != 0)
        return true;
    p->sample.image =
        talc_sample_fitted(&p->sample, talc_dataset_dims(p->plan->dataset), p->scratch);
    p->sample.size = p->size;
    return p->sample.image != NULL;
}

static void erase(talc_dtype dtype, void *images, int64_t at, talc_image_size size,
                  const talc_augment_params *p)
{
    const size_t bytes = talc_dtype_size(dtype);
    for (int64_t h = 0; h < p->erase.height; h++)
        memset((char *)images +
                   (size_t)(at + (p->erase_top + h) * size.width + p->erase_left) * bytes,
               0, (size_t)p->erase.width * bytes);
}

static bool put_pixels(passage *p, int64_t n, void *images)
{
    const talc_loader_options *o = &p->plan->options;
    const int64_t C = talc_dataset_dims(p->plan->dataset).dim[0], H = p->size.height,
                  W = p->size.width;
    if (!fit(p))
        return false;
    const uint8_t *pixels = p->sample.image;
    if (p->plan->augments)
        pixels = talc_augment_pixels(pixels, C, p->sample.size, &p->params, p->scratch);
    if (pixels == NULL)
        return false;
    for (int64_t c = 0; c < C; c++) {
        const int64_t at = (n * C + c) * H * W;
        put_channel(o->dtype, images, at, H, W, p->plan->values + c * LEVELS, pixels + c * H * W,
                    p->how);
        if (p->plan->augments)
            erase(o->dtype, images, at, p->size, &p->params);
    }
    return true;
}

static void put_numbers(const talc_batch_plan *plan, const float *numbers, int64_t n, void *images)
{
    const int64_t count = plan->dataset->samples->image_bytes;
    if (plan->options.dtype == TALC_F32)
        memcpy((float *)images + n * count, numbers, (size_t)count * sizeof *numbers);
    for (int64_t i = 0; plan->options.dtype == TALC_F64 && i < count; i++)
        ((double *)images)[n * count + i] = (double)numbers[i];
}

/* Mirrored and moved as its image is, by the loader's own options. */
static void put_mask(const passage *p, const uint8_t *mask, size_t bytes, int64_t planes,
                     uint8_t *target)
{
    const int64_t H = p->size.height, W = p->size.width;
    for (int64_t i = 0; i < planes * H * W; i++) {
        const int64_t h = i / W % H - p->how.down, w = i % W - p->how.right;
        const int64_t from = i / (H * W) * H * W + h * W + (p->how.mirrored ? W - 1 - w : w);
        if (h >= 0 && h < H && w >= 0 && w < W)
            memcpy(target + (size_t)i * bytes, mask + (size_t)from * bytes, bytes);
        else
            memset(target + (size_t)i * bytes, 0, bytes);
    }
}

static bool put_target(passage *p, int64_t n, void *targets)
{
    const talc_samples *samples = p->plan->dataset->samples;
    const size_t bytes = talc_dtype_size(samples->target_dtype),
                 all = (size_t)samples->target_bytes;
    const void *target = p->sample.target;
    uint8_t *to = (uint8_t *)targets + (size_t)n * all;
    if (!p->plan->options.masks) {
        memcpy(to, target, all);
        return true;
    }
    const int64_t planes = (int64_t)(all / bytes) / (p->size.height * p->size.width);
    if (p->plan->augments)
        target = talc_augment_elements(target, planes, bytes, p->size, &p->params, p->scratch);
    if (target != NULL)
        put_mask(p, target, bytes, planes, to);
    return target != NULL;
}

bool talc_batch_fill(const talc_batch_plan *plan, int64_t offset, int64_t n, void *images,
                     void *targets, talc_scratch *scratch)
{
    TALC_DEFAULT_FENV;
    const talc_dims dims = talc_dataset_dims(plan->dataset);
    const talc_loader_options *o = &plan->options;
    const int64_t sample = talc_batch_sample(plan, offset);
    const int64_t key = plan->cumulative == NULL ? sample : offset;
    passage p = { .plan = plan, .scratch = scratch, .size = { dims.dim[1], dims.dim[2] } };
    if (!talc_dataset_read(plan->dataset, sample, scratch, &p.sample))
        return false;
    if (plan->values == NULL) {
        put_numbers(plan, p.sample.image, n, images);
        return put_target(&p, n, targets);
    }
    p.how = draw_change(plan, key);
    if (plan->augments)
        talc_augment_drawn(&o->augment, o->augment.scale[1] != 0 ? p.sample.size : p.size, p.size,
                           o->seed, plan->epoch, key, &p.params);
    return put_pixels(&p, n, images) && put_target(&p, n, targets);
}
