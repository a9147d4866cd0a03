/// What a dataset is made of, for those that make one. Private to nn/data.
#ifndef TALC_NN_DATA_DATASET_H
#define TALC_NN_DATA_DATASET_H

#include "nn/data/data.h"

#include <stdatomic.h>

/// The maximum number of classes of a dataset.
enum { TALC_CLASSES_MAX = 65536 };

/// Images and labels, counted: datasets that are parts of another share them.
typedef struct talc_samples {
    atomic_size_t references;
    int64_t count;
    talc_dims dims;      ///< [C,H,W] of an image
    int64_t image_bytes; ///< C * H * W
    uint8_t *pixels;     ///< [count,C,H,W]
    int64_t *labels;     ///< [count]
    int64_t classes;
    char **names; ///< of the classes, in one block with their text
} talc_samples;

struct talc_dataset {
    talc_samples *samples;
    int64_t count;
    int64_t *order; ///< which of them, owned; NULL: `count` from `start` on
    int64_t start;
};

/// Room for `count` images; NULL with a failure. Extents are at least 1.
talc_samples *talc_samples_new(const char *who, int64_t count, talc_dims dims);
void talc_samples_release(talc_samples *samples); ///< drops a reference; NULL passes

/// Room for the names of `classes` classes, `bytes` of text in all, NULs included; the text begins
/// where it returns. NULL with a failure.
char *talc_samples_names(const char *who, talc_samples *samples, int64_t classes, size_t bytes);

/// The dataset of all samples, with numbers for names where there are none, at least `classes` of
/// them. Takes the samples over, also on failure. Errors: a label below 0 or past the classes.
talc_dataset *talc_samples_dataset(const char *who, talc_samples *samples);

/// A dataset of samples start .. start + count - 1, with a reference of its own; NULL with a
/// failure.
talc_dataset *talc_dataset_of(const char *who, talc_samples *samples, int64_t start, int64_t count);

/// Where a dataset's sample i is among the samples.
static inline int64_t talc_dataset_index(const talc_dataset *dataset, int64_t i)
{
    return dataset->order == NULL ? dataset->start + i : dataset->order[i];
}

/// Fills in 0 .. count - 1 in an order that is as likely as every other: Fisher and Yates' shuffle
/// from the last place down, place i changing with one of 0 .. i, drawn as element i of this call
/// of the generator `seed` (tensor/philox.h, integers).
void talc_shuffle(int64_t *order, int64_t count, uint64_t seed, uint64_t call);

/// "directory/name", freed by talc_memory_free; NULL with a failure.
char *talc_path_in(const char *who, const char *directory, const char *name);

#endif
