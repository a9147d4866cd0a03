/// Datasets one after the other, and their shares in an epoch.
#include "nn/data/dataset.h"

#include "tensor/fenv.h"
#include "tensor/memory.h"
#include "tensor/shape.h"
#include "tensor/shown.h"
#include "tensor/storage.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static const char *const WHO = "dataset_mix";

/* Handles of the mixture's own. */
typedef struct mixture {
    int64_t count;
    struct {
        talc_dataset *dataset;
        int64_t start; /* its first sample among all */
    } part[];
} mixture;

static void mixture_free(void *source)
{
    mixture *m = source;
    for (int64_t i = 0; m != NULL && i < m->count; i++)
        talc_dataset_free(m->part[i].dataset);
    talc_memory_free(m);
}

static bool read_sample(const talc_samples *samples, int64_t i, talc_scratch *scratch,
                        talc_sample *sample)
{
    const mixture *m = samples->source;
    int64_t low = 0, high = m->count - 1;
    while (low < high) {
        const int64_t middle = (low + high + 1) / 2;
        if (m->part[middle].start <= i)
            low = middle;
        else
            high = middle - 1;
    }
    return talc_dataset_read(m->part[low].dataset, i - m->part[low].start, scratch, sample);
}

// ---- Checks -------------------------------------------------------------------------------------

static bool same_kind(const talc_dataset *first, const talc_dataset *other, int64_t i)
{
    char a[TALC_DIMS_TEXT], b[TALC_DIMS_TEXT];
    const talc_samples *p = first->samples, *q = other->samples;
    if (p->dtype != q->dtype || !talc_shape_equal(p->dims, q->dims))
        talc_fail(TALC_BAD_SHAPE, "%s: the images of dataset %" PRId64 " are %s %s, of 0 %s %s",
                  WHO, i, talc_dtype_name(q->dtype), talc_dims_text(q->dims, b),
                  talc_dtype_name(p->dtype), talc_dims_text(p->dims, a));
    else if (p->target_dtype != q->target_dtype ||
             !talc_shape_equal(p->target_dims, q->target_dims))
        talc_fail(TALC_BAD_SHAPE, "%s: the targets of dataset %" PRId64 " are %s %s, of 0 %s %s",
                  WHO, i, talc_dtype_name(q->target_dtype), talc_dims_text(q->target_dims, b),
                  talc_dtype_name(p->target_dtype), talc_dims_text(p->target_dims, a));
    for (int64_t k = 0; !talc_failed() && k < p->classes && k < q->classes; k++)
        if (strcmp(p->names[k], q->names[k]) != 0)
            talc_fail(TALC_BAD_ARGUMENT,
                      "%s: class %" PRId64 " of dataset %" PRId64 " is '%s', of 0 '%s'", WHO, k, i,
                      TALC_SHOWN(q->names[k]), TALC_SHOWN(p->names[k]));
    return !talc_failed();
}

static bool operands_fit(talc_dataset *const *datasets, int64_t count, const double *weights,
                         int64_t *samples)
{
    double sum = 0;
    *samples = 0;
    for (int64_t i = 0; i < count && !talc_failed(); i++) {
        if (talc_operand_missing(WHO, "a dataset", datasets[i]) ||
            !same_kind(datasets[0], datasets[i], i))
            return false;
        if (!talc_add_checked(*samples, datasets[i]->count, samples))
            talc_fail(TALC_TOO_LARGE, "%s: more than %" PRId64 " samples", WHO, INT64_MAX);
        if (weights != NULL && !(weights[i] >= 0 && isfinite(weights[i])))
            talc_fail(TALC_BAD_ARGUMENT,
                      "%s: weight %g of dataset %" PRId64 " must be finite and at least 0", WHO,
                      weights[i], i);
        sum += weights == NULL ? 1 : weights[i];
    }
    if (!talc_failed() && !(sum > 0 && isfinite(sum)))
        talc_fail(TALC_BAD_ARGUMENT, "%s: the weights add up to %g", WHO, sum);
    return !talc_failed();
}

// ---- Mixing -------------------------------------------------------------------------------------

/* The names of the dataset that has the largest number of classes. */
static bool name_classes(talc_dataset *const *datasets, int64_t count, talc_samples *samples)
{
    const talc_samples *all = datasets[0]->samples;
    for (int64_t i = 1; i < count; i++)
        if (datasets[i]->samples->classes > all->classes)
            all = datasets[i]->samples;
    size_t bytes = 0;
    for (int64_t k = 0; k < all->classes; k++)
        bytes += strlen(all->names[k]) + 1;
    if (all->classes == 0)
        return true;
    char *text = talc_samples_names(WHO, samples, all->classes, bytes);
    for (int64_t k = 0; text != NULL && k < all->classes; k++) {
        const size_t length = strlen(all->names[k]) + 1;
        samples->names[k] = memcpy(text, all->names[k], length);
        text += length;
    }
    return text != NULL;
}

/* Labels where all are known, weights where there are any. */
static bool fill(talc_dataset *const *datasets, const double *weights, const mixture *m,
                 talc_samples *samples)
{
    bool known = true;
    for (int64_t i = 0; i < m->count; i++)
        known = known && datasets[i]->samples->labels != NULL;
    if (known)
        samples->labels = talc_numbers_new(WHO, samples->count);
    if (weights != NULL && !talc_failed()) /* a number of 8 bytes, as a label */
        samples->weights = talc_memory_new((size_t)samples->count * sizeof *weights, WHO);
    for (int64_t i = 0; i < m->count && !talc_failed(); i++) {
        const talc_dataset *dataset = datasets[i];
        for (int64_t k = 0; k < dataset->count; k++) {
            if (known)
                samples->labels[m->part[i].start + k] = talc_dataset_label(dataset, k);
            if (weights != NULL)
                samples->weights[m->part[i].start + k] = weights[i] / (double)dataset->count;
        }
    }
    return !talc_failed();
}

static mixture *mixture_of(talc_dataset *const *datasets, int64_t count, talc_samples *samples)
{
    mixture *m = talc_memory_new(sizeof *m + (size_t)count * sizeof *m->part, WHO);
    int64_t start = 0;
    for (int64_t i = 0; m != NULL && i < count; i++) {
        m->part[i].start = start;
        m->part[i].dataset = talc_dataset_part(datasets[i], 0, datasets[i]->count);
        m->count = i + 1;
        start += datasets[i]->count;
        samples->in_caller = samples->in_caller || datasets[i]->samples->in_caller;
    }
    return m;
}

talc_dataset *talc_dataset_mix(talc_dataset *const datasets[], const double weights[],
                               int64_t count)
{
    TALC_DEFAULT_FENV;
    enum { MAX = 65536 };
    int64_t all;
    if (talc_operand_missing(WHO, "datasets", datasets))
        return NULL;
    if (count < 1 || count > MAX) {
        talc_fail(TALC_BAD_ARGUMENT, "%s: count %" PRId64 " is outside 1..%d", WHO, count, MAX);
        return NULL;
    }
    if (!operands_fit(datasets, count, weights, &all))
        return NULL;
    const talc_samples *first = datasets[0]->samples;
    talc_samples *samples = talc_samples_described(WHO, all, first->dims);
    if (samples == NULL)
        return NULL;
    samples->dtype = first->dtype;
    samples->target_dims = first->target_dims;
    samples->target_dtype = first->target_dtype;
    samples->target_bytes = first->target_bytes;
    samples->read = read_sample;
    samples->source_free = mixture_free;
    mixture *m = mixture_of(datasets, count, samples);
    samples->source = m;
    talc_dataset *dataset = NULL;
    if (!talc_failed() && name_classes(datasets, count, samples) &&
        fill(datasets, weights, m, samples))
        dataset = talc_dataset_of(WHO, samples, 0, all);
    talc_samples_release(samples);
    return dataset;
}
