/// What a dataset is made of, for those that make one. Private to nn/data.
#ifndef TALC_NN_DATA_DATASET_H
#define TALC_NN_DATA_DATASET_H

#include "nn/data/data.h"
#include "nn/data/scratch.h"

#include <stdatomic.h>

/// The maximum number of classes of a dataset.
enum { TALC_CLASSES_MAX = 65536 };

/// One sample as it was read. What it points to stays until the scratch memory is used again.
typedef struct talc_sample {
    const void *image, *target;
    talc_image_size size; ///< of planes of bytes, which may be another than the dataset's
    /// How planes of another size come to the dataset's: resized so, then the middle.
    talc_image_size resize;
} talc_sample;

/// Images and their targets, counted: datasets that are parts of another share them.
typedef struct talc_samples talc_samples;

/// Reads sample i; false with a failure.
typedef bool talc_samples_reader(const talc_samples *samples, int64_t i, talc_scratch *scratch,
                                 talc_sample *sample);

struct talc_samples {
    atomic_size_t references;
    int64_t count;
    talc_dims dims;          ///< of an image: [C,H,W] of bytes
    talc_dtype dtype;        ///< TALC_U8, or TALC_F32
    int64_t image_bytes;     ///< of the elements of dims
    talc_dims target_dims;   ///< a scalar for labels
    talc_dtype target_dtype; ///< TALC_I64 for labels
    int64_t target_bytes;
    uint8_t *pixels; ///< [count,C,H,W]; NULL: samples are read when they are asked for
    int64_t *labels; ///< [count]; NULL: not known before a sample is read
    double *weights; ///< [count], of a mixture; NULL: none
    int64_t classes;
    char **names;                      ///< of the classes, in one block with their text
    talc_samples_reader *read;         ///< NULL: they are in memory
    void (*source_free)(void *source); ///< NULL: there is no source
    void *source;
    bool in_caller; ///< to be read by the program's thread alone
};

struct talc_dataset {
    talc_samples *samples;
    int64_t count;
    int64_t *order; ///< which of them, owned; NULL: `count` from `start` on
    int64_t start;
};

/// Memory for `count` images of bytes and labels; NULL with a failure. Extents are at least 1.
talc_samples *talc_samples_new(const char *who, int64_t count, talc_dims dims);

/// The same without any memory: of samples that are read when they are asked for.
talc_samples *talc_samples_described(const char *who, int64_t count, talc_dims dims);
void talc_samples_release(talc_samples *samples); ///< drops a reference; NULL passes

/// Room for the names of `classes` classes, `bytes` of text in all, NULs included; the text begins
/// where it returns. NULL with a failure.
char *talc_samples_names(const char *who, talc_samples *samples, int64_t classes, size_t bytes);

/// The dataset of all samples, with numbers for names where there are none, at least `classes` of
/// them. Takes the samples over, also on failure. Errors: a label below 0 or past the classes.
talc_dataset *talc_samples_dataset(const char *who, talc_samples *samples);

/// Whether there are numbers to name `classes` classes by; they become the samples'.
bool talc_samples_number(const char *who, talc_samples *samples, int64_t classes);

bool talc_samples_read(const talc_samples *samples, int64_t i, talc_scratch *scratch,
                       talc_sample *sample);

/// The same of a dataset's sample i, which it has.
bool talc_dataset_read(const talc_dataset *dataset, int64_t i, talc_scratch *scratch,
                       talc_sample *sample);

/// The planes of a sample's image in the dataset's size: its own, or in scratch memory. NULL with a
/// failure.
const uint8_t *talc_sample_fitted(const talc_sample *sample, talc_dims dims, talc_scratch *scratch);

/// Numbers of samples, `count` of them; NULL with a failure.
int64_t *talc_numbers_new(const char *who, int64_t count);

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
