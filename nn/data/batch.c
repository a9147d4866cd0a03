#include "nn/data/batch.h"

#include "nn/data/dataset.h"
#include "tensor/extent.h"
#include "tensor/fenv.h"
#include "tensor/memory.h"
#include "tensor/philox.h"
#include "tensor/storage.h"

#include <inttypes.h>
#include <math.h>

static const char *const WHO = "loader";

enum { LEVELS = 256, NORMALISED = 4, BATCH = 64 };

// ---- Options ------------------------------------------------------------------------------------

static bool counts_fit(const talc_loader_options *o, const talc_dataset *dataset)
{
    const talc_dims dims = talc_dataset_dims(dataset);
    const int64_t count = talc_dataset_count(dataset);
    const int64_t min = talc_smaller(dims.dim[1], dims.dim[2]);
    if (!talc_dtype_is_float(o->dtype))
        talc_fail(TALC_BAD_DTYPE, "%s: images of %s are not made, they must be f32 or f64", WHO,
                  talc_dtype_name(o->dtype));
    else if (o->batch < 1)
        talc_fail(TALC_BAD_ARGUMENT, "%s: batch %" PRId64 " must be at least 1", WHO, o->batch);
    else if (o->drop_last && o->batch > count)
        talc_fail(TALC_BAD_ARGUMENT,
                  "%s: batch %" PRId64 " with drop_last leaves nothing of %" PRId64 " sample%s",
                  WHO, o->batch, count, TALC_PLURAL(count));
    else if (o->shift < 0 || o->shift >= min)
        talc_fail(TALC_BAD_ARGUMENT,
                  "%s: shift %" PRId64 " is outside 0..%" PRId64 " for images of %" PRId64
                  "x%" PRId64,
                  WHO, o->shift, min - 1, dims.dim[1], dims.dim[2]);
    return !talc_failed();
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

bool talc_batch_plan_begin(talc_batch_plan *plan, const talc_dataset *dataset,
                           const talc_loader_options *options)
{
    TALC_DEFAULT_FENV;
    const int64_t channels = talc_dataset_dims(dataset).dim[0];
    *plan = (talc_batch_plan){ .dataset = dataset, .epoch = -1 };
    if (options != NULL)
        plan->options = *options;
    talc_loader_options *o = &plan->options;
    if (o->device == NULL)
        o->device = talc_device_host();
    if (o->batch == 0)
        o->batch = BATCH;
    if (!counts_fit(o, dataset) || !normalisation_fits(o, channels))
        return false;
    plan->values = talc_memory_new((size_t)channels * LEVELS * sizeof *plan->values, WHO);
    if (plan->values != NULL && o->shuffle)
        plan->order =
            talc_memory_new((size_t)talc_dataset_count(dataset) * sizeof *plan->order, WHO);
    if (!talc_failed()) {
        tabulate(plan, channels);
        return true;
    }
    talc_batch_plan_end(plan);
    return false;
}

void talc_batch_plan_end(talc_batch_plan *plan)
{
    talc_memory_free(plan->order);
    talc_memory_free(plan->values);
}

// ---- Order --------------------------------------------------------------------------------------

void talc_batch_plan_epoch(talc_batch_plan *plan, int64_t epoch)
{
    plan->epoch = epoch;
    if (plan->order != NULL)
        talc_shuffle(plan->order, talc_dataset_count(plan->dataset), plan->options.seed,
                     2 * (uint64_t)epoch);
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

void talc_batch_fill(const talc_batch_plan *plan, int64_t offset, int64_t count, void *images,
                     int64_t *labels)
{
    TALC_DEFAULT_FENV;
    const talc_dims dims = talc_dataset_dims(plan->dataset);
    const int64_t C = dims.dim[0], H = dims.dim[1], W = dims.dim[2];
    for (int64_t n = 0; n < count; n++) {
        const int64_t sample = talc_batch_sample(plan, offset + n);
        const uint8_t *pixels = talc_dataset_pixels(plan->dataset, sample);
        const change how = draw_change(plan, sample);
        for (int64_t c = 0; c < C; c++)
            put_channel(plan->options.dtype, images, (n * C + c) * H * W, H, W,
                        plan->values + c * LEVELS, pixels + c * H * W, how);
        labels[n] = talc_dataset_label(plan->dataset, sample);
    }
}
