/// Datasets that are parts of another: ranges, selections and random splits.
#include "nn/data/dataset.h"

#include "tensor/environment.h"
#include "tensor/fenv.h"
#include "tensor/memory.h"
#include "tensor/philox.h"
#include "tensor/shown.h"
#include "tensor/storage.h"

#include <inttypes.h>
#include <math.h>

// ---- Order --------------------------------------------------------------------------------------

void talc_shuffle(int64_t *order, int64_t count, uint64_t seed, uint64_t call)
{
    for (int64_t i = 0; i < count; i++)
        order[i] = i;
    for (int64_t i = count - 1; i > 0; i--) {
        const talc_philox_block block = talc_philox(seed, call, (uint64_t)i / 2);
        const int64_t other =
            (int64_t)talc_integer_below(talc_philox_pair(block, i % 2), (uint64_t)i + 1);
        const int64_t kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
}

int64_t *talc_numbers_new(const char *who, int64_t count)
{
    int64_t bytes;
    if (talc_multiply(count, (int64_t)sizeof(int64_t), &bytes))
        return talc_memory_new((size_t)bytes, who);
    talc_fail(TALC_TOO_LARGE, "%s: %" PRId64 " samples need more than %" PRId64 " bytes", who,
              count, INT64_MAX);
    return NULL;
}

/* The dataset of those samples of another; places are none of the caller's any more. NULL for
 * places: without memory. */
static talc_dataset *ordered(const char *who, talc_dataset *of, int64_t *indices, int64_t count)
{
    talc_dataset *dataset = indices == NULL ? NULL : talc_dataset_of(who, of->samples, 0, count);
    if (dataset == NULL) {
        talc_memory_free(indices);
        return NULL;
    }
    for (int64_t i = 0; i < count; i++)
        indices[i] = talc_dataset_index(of, indices[i]);
    dataset->order = indices;
    return dataset;
}

// ---- Classes ------------------------------------------------------------------------------------

/* Of a dataset whose labels are not known all samples are of one class. */
static bool has_labels(const talc_dataset *dataset)
{
    return dataset->samples->labels != NULL;
}

static int64_t classes_of(const talc_dataset *dataset)
{
    return has_labels(dataset) ? talc_dataset_classes(dataset) : 1;
}

static int64_t class_of(const talc_dataset *dataset, int64_t sample)
{
    return has_labels(dataset) ? talc_dataset_label(dataset, sample) : 0;
}

/* How many samples of each class a dataset has; NULL with a failure. */
static int64_t *count_classes(const char *who, const talc_dataset *dataset)
{
    int64_t *counts = talc_numbers_new(who, classes_of(dataset));
    for (int64_t i = 0; counts != NULL && i < talc_dataset_count(dataset); i++)
        counts[class_of(dataset, i)]++;
    return counts;
}

static const char *const SPLITS = "; talc_dataset_split shares out each class";

/* Tells of a part that lacks classes, once in a process, with a hint; takes the part over and
 * returns it. NULL for the part: nothing. */
static talc_dataset *looked_at(const char *who, const talc_dataset *whole, talc_dataset *part,
                               const char *hint)
{
    static atomic_flag told = ATOMIC_FLAG_INIT;
    if (part == NULL || !has_labels(whole))
        return part;
    int64_t *have = count_classes(who, part);
    int64_t *there = have == NULL ? NULL : count_classes(who, whole);
    int64_t all = 0, lacking = 0, first = 0;
    for (int64_t k = 0; there != NULL && k < talc_dataset_classes(whole); k++) {
        all += there[k] > 0;
        if (there[k] > 0 && have[k] == 0 && lacking++ == 0)
            first = k;
    }
    talc_memory_free(have);
    talc_memory_free(there);
    if (there == NULL) {
        talc_dataset_free(part);
        return NULL;
    }
    if (lacking > 0 && !atomic_flag_test_and_set(&told))
        talc_warn("%s: the part of %" PRId64 " sample%s lacks %" PRId64 " of %" PRId64
                  " classes, such as '%s'%s",
                  who, part->count, TALC_PLURAL(part->count), lacking, all,
                  TALC_SHOWN(talc_dataset_class(whole, first)), hint);
    return part;
}

// ---- Parts --------------------------------------------------------------------------------------

static talc_dataset *range_of(const char *who, talc_dataset *dataset, int64_t start, int64_t count)
{
    if (dataset->order == NULL)
        return talc_dataset_of(who, dataset->samples, dataset->start + start, count);
    int64_t *indices = talc_numbers_new(who, count);
    for (int64_t i = 0; indices != NULL && i < count; i++)
        indices[i] = start + i;
    return ordered(who, dataset, indices, count);
}

talc_dataset *talc_dataset_part(talc_dataset *dataset, int64_t start, int64_t end)
{
    static const char *const who = "dataset_part";
    if (talc_operand_missing(who, "dataset", dataset))
        return NULL;
    if (start < 0 || start >= end || end > dataset->count) {
        talc_fail(TALC_BAD_ARGUMENT,
                  "dataset_part: samples %" PRId64 " to %" PRId64
                  " are none of a dataset of %" PRId64,
                  start, end, dataset->count);
        return NULL;
    }
    talc_dataset *part = range_of(who, dataset, start, end - start);
    return end - start == dataset->count ? part : looked_at(who, dataset, part, SPLITS);
}

talc_dataset *talc_dataset_select(talc_dataset *dataset, const int64_t *indices, int64_t count)
{
    static const char *const who = "dataset_select";
    if (talc_operand_missing(who, "dataset", dataset) ||
        talc_operand_missing(who, "indices", indices))
        return NULL;
    if (count < 1)
        talc_fail(TALC_BAD_ARGUMENT, "%s: count %" PRId64 " must be at least 1", who, count);
    int64_t *chosen = talc_failed() ? NULL : talc_numbers_new(who, count);
    for (int64_t i = 0; i < count && !talc_failed(); i++) {
        chosen[i] = indices[i];
        if (indices[i] < 0 || indices[i] >= dataset->count)
            talc_fail(TALC_BAD_ARGUMENT,
                      "%s: sample %" PRId64 " at place %" PRId64 " is outside 0..%" PRId64, who,
                      indices[i], i, dataset->count - 1);
    }
    if (!talc_failed())
        return looked_at(who, dataset, ordered(who, dataset, chosen, count), SPLITS);
    talc_memory_free(chosen);
    return NULL;
}

// ---- Random splits ------------------------------------------------------------------------------

/* From how many of each class there are to how many of them the first part has; returns their sum.
 * What rounding leaves of one class counts for the next, so that the sum is the share of all; what
 * small classes give up to be in both parts does not, so that each is within one of its share. */
static int64_t share_out(int64_t *counts, int64_t classes, double share)
{
    int64_t sum = 0;
    double left = 0;
    for (int64_t k = 0; k < classes; k++) {
        const int64_t n = counts[k], min = n > 1, max = n > 1 ? n - 1 : n;
        const double wanted = share * (double)n + left;
        const int64_t expected = (int64_t)floor(wanted + 0.5);
        left = wanted - (double)expected;
        counts[k] = expected < min ? min : expected > max ? max : expected;
        sum += counts[k];
    }
    return sum;
}

/* The samples of both parts, in the order of a shuffle; counts[class] says how many the first has.
 * */
static talc_dataset_parts deal(const char *who, talc_dataset *dataset, int64_t *counts,
                               int64_t first, uint64_t seed)
{
    const int64_t all = dataset->count;
    int64_t *order = talc_numbers_new(who, all);
    int64_t *indices[] = { order == NULL ? NULL : talc_numbers_new(who, first),
                           order == NULL ? NULL : talc_numbers_new(who, all - first) };
    int64_t dealt[] = { 0, 0 };
    if (!talc_failed())
        talc_shuffle(order, all, seed, UINT64_MAX); /* no epoch has this one */
    for (int64_t i = 0; i < all && !talc_failed(); i++) {
        const int to = counts[class_of(dataset, order[i])]-- <= 0;
        indices[to][dealt[to]++] = order[i];
    }
    talc_memory_free(order);
    talc_dataset_parts parts = {
        .first = looked_at(who, dataset, ordered(who, dataset, indices[0], first), ""),
        .rest = looked_at(who, dataset, ordered(who, dataset, indices[1], all - first), ""),
    };
    if (parts.first != NULL && parts.rest != NULL)
        return parts;
    talc_dataset_free(parts.first);
    talc_dataset_free(parts.rest);
    return (talc_dataset_parts){ 0 };
}

talc_dataset_parts talc_dataset_split(talc_dataset *dataset, double share, uint64_t seed)
{
    TALC_DEFAULT_FENV;
    static const char *const who = "dataset_split";
    talc_dataset_parts parts = { 0 };
    if (talc_operand_missing(who, "dataset", dataset))
        return parts;
    if (!(share > 0 && share < 1)) {
        talc_fail(TALC_BAD_ARGUMENT, "%s: share %g must be between 0 and 1", who, share);
        return parts;
    }
    int64_t *counts = count_classes(who, dataset);
    const int64_t first = counts == NULL ? 0 : share_out(counts, classes_of(dataset), share);
    if (counts != NULL && (first < 1 || first >= dataset->count))
        talc_fail(TALC_BAD_ARGUMENT,
                  "%s: share %g of %" PRId64 " sample%s leaves a part without any", who, share,
                  dataset->count, TALC_PLURAL(dataset->count));
    if (!talc_failed())
        parts = deal(who, dataset, counts, first, seed);
    talc_memory_free(counts);
    return parts;
}
