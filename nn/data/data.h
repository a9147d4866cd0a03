/// Images and labels for training: where they come from, and how they arrive in batches.
///
///     talc_dataset *train = talc_dataset_digits(8000, 1);                         // or talc_dataset_mnist(directory, true)
///     talc_loader *loader = talc_loader_new(train, &(talc_loader_options){ .device = device, .batch = 64, .shuffle = true });
///     talc_batch batch;
///     talc_loader_start(loader, epoch);
///     while (talc_loader_next(loader, &batch))                                    // false at the end, and on failure
///         ...
///     talc_loader_free(loader);
///     talc_dataset_free(train);
#ifndef TALC_NN_DATA_DATA_H
#define TALC_NN_DATA_DATA_H

#include "../../tensor/device.h"

TALC_BEGIN_DECLARATIONS

// ---- Datasets: images of one size with a label each, in host memory -------------------------------------------

typedef struct talc_dataset talc_dataset;

/// Two IDX files, plain or gzip: images [N,H,W] or [N,C,H,W] of bytes, labels [N] of bytes.
TALC_API talc_dataset *talc_dataset_idx(const char *images, const char *labels);

/// The files of the MNIST family in a directory, under their usual names: train-images-idx3-ubyte[.gz] and so on, or t10k-...
TALC_API talc_dataset *talc_dataset_mnist(const char *directory, bool train);

/// directory/CLASS/*.png, all of one size; classes and files are taken in the order of their names. Grey, or RGB where one file is.
TALC_API talc_dataset *talc_dataset_folder(const char *directory);

/// Copies of images [N,C,H,W], u8 or floats in 0 .. 1, and labels [N], i64.
TALC_API talc_dataset *talc_dataset_tensors(const talc_tensor *images, const talc_tensor *labels);

/// Digits that the program draws, 28x28: strokes of each figure under a random affine map, with random thickness and noise. The
/// same count and seed give the same images; image i does not depend on count.
TALC_API talc_dataset *talc_dataset_digits(int64_t count, uint64_t seed);

/// Samples start .. end - 1 of another, which it shares; either may be freed first.
TALC_API talc_dataset *talc_dataset_part(talc_dataset *dataset, int64_t start, int64_t end);

TALC_API void talc_dataset_free(talc_dataset *dataset);            ///< NULL passes
TALC_API int64_t talc_dataset_count(const talc_dataset *dataset);  ///< samples; 0 for NULL
TALC_API talc_dims talc_dataset_dims(const talc_dataset *dataset); ///< [C,H,W] of an image
TALC_API int64_t talc_dataset_classes(const talc_dataset *dataset);

/// "3", or the folder's name; NULL when there is no such class.
TALC_API const char *talc_dataset_class(const talc_dataset *dataset, int64_t label);

/// Pixels of sample i, C * H * W bytes, and its label; NULL, -1 when there is none.
TALC_API const uint8_t *talc_dataset_pixels(const talc_dataset *dataset, int64_t sample);
TALC_API int64_t talc_dataset_label(const talc_dataset *dataset, int64_t sample);

// ---- Loaders --------------------------------------------------------------------------------------------------

typedef struct talc_loader talc_loader;

/// A batch belongs to its loader until the next call; a tensor that was retained stays as it is, the loader then takes fresh storage.
typedef struct talc_batch {
    talc_tensor *images; ///< [n,C,H,W], normalised
    talc_tensor *labels; ///< [n], i64
    int64_t index;       ///< of the batch in its epoch
    int64_t count;       ///< n
} talc_batch;

typedef struct talc_loader_options {
    talc_device *device; ///< NULL: the CPU
    talc_dtype dtype;    ///< of the images: TALC_F32 (which is zero) or TALC_F64
    int64_t batch;       ///< samples of a batch; 0: 64
    bool shuffle;        ///< in an order that follows from seed and epoch
    bool drop_last;      ///< no batch smaller than the others
    uint64_t seed;       ///< of all that is random, keyed by (seed, epoch, sample)
    double mean[4], deviation[4]; ///< of each channel, of pixels in 0 .. 1; deviation 0: 1
    int64_t shift;       ///< each image moved by up to so many pixels each way, zeros coming in
    bool flip;           ///< each image mirrored left to right, half of the time
    bool no_thread;      ///< batches are made when they are asked for; the same numbers
} talc_loader_options;

/// A loader. The dataset stays the caller's and may be freed first. Unless no_thread, a second thread makes the next batch
/// in page-locked memory, and it is copied while the device computes.
TALC_API talc_loader *talc_loader_new(talc_dataset *dataset, const talc_loader_options *options);
TALC_API void talc_loader_free(talc_loader *loader); ///< NULL passes

/// Begins an epoch, at its first batch or at a later one, for resuming.
TALC_API bool talc_loader_start(talc_loader *loader, int64_t epoch);
TALC_API bool talc_loader_start_at(talc_loader *loader, int64_t epoch, int64_t batch);

/// The next batch; false at the end of the epoch, and with a failure.
TALC_API bool talc_loader_next(talc_loader *loader, talc_batch *batch);

TALC_API int64_t talc_loader_batches(const talc_loader *loader); ///< of an epoch; 0 for NULL

/// The dataset's sample that stands at place `i` of the epoch that was started; -1 when there is none.
TALC_API int64_t talc_loader_sample(const talc_loader *loader, int64_t i);

TALC_END_DECLARATIONS

#endif
