/// Images and labels for training: where they come from, and how they arrive in batches.
///
///     talc_dataset *train = talc_dataset_digits(8000, 1);   // or talc_dataset_mnist(folder, true)
///     talc_loader *loader = talc_loader_new(
///         train, &(talc_loader_options){ .device = device, .batch = 64, .shuffle = true });
///     talc_batch batch;
///     talc_loader_start(loader, epoch);
///     while (talc_loader_next(loader, &batch))              // false at the end, and on failure
///         ...
///     talc_loader_free(loader);
///     talc_dataset_free(train);
///
/// Datasets and loaders belong to the program, not to scopes. Several threads may read one dataset,
/// each with loaders of its own.
#ifndef TALC_NN_DATA_DATA_H
#define TALC_NN_DATA_DATA_H

#include "../../tensor/device.h"
#include "../info.h"
#include "augment.h"
#include "image.h"

TALC_BEGIN_DECLARATIONS

// ---- Datasets: images of one size with a label each, or what functions of the program make ------
// Errors of all: NULL, no memory; of those that read files: what the system reports, content that
// breaks its format. A header that says more than its file can hold is refused before memory is
// asked for.

typedef struct talc_dataset talc_dataset;

/// Two IDX files, plain or gzip, which zeros may follow: images [N,H,W] or [N,C,H,W] of bytes,
/// labels [N] of bytes. There are as many classes as the largest label says. Errors: another type
/// or number of dimensions, no images, more or fewer labels than images, a file that ends early or
/// goes on.
TALC_API talc_dataset *talc_dataset_idx(const char *images, const char *labels);

/// The files of the MNIST family in a directory, under their usual names:
/// train-images-idx3-ubyte[.gz] and train-labels-idx1-ubyte[.gz], or those of t10k; a dot may stand
/// for the second dash: train-images.idx3-ubyte.
TALC_API talc_dataset *talc_dataset_mnist(const char *directory, bool train);

/// directory/CLASS/*.png, all of one size; classes and files are taken in the order of their names'
/// bytes, hidden ones are passed over. Grey, or RGB where one file has colours; 16 bits are rounded
/// to 8, an alpha channel is dropped. Errors: no class, a class without images, images of two sizes
/// or of more than 2^28 pixels.
TALC_API talc_dataset *talc_dataset_folder(const char *directory);

typedef struct talc_image_folder_options {
    talc_image_size size; ///< of the images in a batch; a width of 0 is the height
    talc_image_size
        resize;       ///< before the middle is cut out, as of talc_image_resize; zero: to size
    int64_t channels; ///< 1 or 3; 0: 3, which a grey image has alike
} talc_image_folder_options;

/// directory/CLASS/*.jpg, *.jpeg and *.png of any sizes, as talc_dataset_folder takes them, but
/// only listed now: a loader's threads decode each image when it is asked for, as talc_image_load
/// does.
/// It comes to the size by `resize` and a cut of its middle, or by a random part where the loader
/// augments with `scale`. Errors: those of talc_dataset_folder for what is listed, options out of
/// range. A file that is broken, too large, or has colours where 1 channel is asked for fails the
/// batch that it is in, and is named.
TALC_API talc_dataset *talc_dataset_image_folder(const char *directory,
                                                 const talc_image_folder_options *options);

/// Samples that a function of the program makes: an image or any other numbers, and a target of any
/// shape and type, such as a mask, a class (rank 0 of TALC_I64) or numbers.
typedef struct talc_callbacks {
    void *context;
    int64_t count;          ///< samples
    talc_dims image;        ///< of one sample
    talc_dtype image_dtype; ///< TALC_F32 (which is zero), taken as they are; or TALC_U8, [C,H,W]
    talc_dims target;       ///< of one sample
    talc_dtype target_dtype;
    int64_t classes; ///< what talc_dataset_classes says
    /// False: `get` is called by the program's thread alone, in talc_loader_next. True: by the
    /// threads of loaders, by several at once where a loader has several.
    bool in_threads;
    /// Writes the elements of sample `index`, which are zero before, one after the other. What it
    /// makes of tensors is freed when it returns. Anything but TALC_OK, or a failure that it
    /// leaves, is the failure of the batch; one without a message gets one that names the sample.
    talc_status (*get)(void *context, int64_t index, void *image, void *target);
    /// Frees the context with the last dataset and loader that has it, on whatever thread that is;
    /// NULL: nothing. Not called where talc_dataset_callbacks fails.
    void (*free)(void *context);
} talc_callbacks;

/// Pixels, labels and the statistics of numbers are not known of such a dataset. Errors: NULL, no
/// samples, shapes with an extent below 1 or of rank 8, types other than those.
TALC_API talc_dataset *talc_dataset_callbacks(const talc_callbacks *callbacks);

/// Copies of images [N,C,H,W], u8 or floats in 0 .. 1, which are rounded to the nearest 255th, and
/// labels [N], i64, 0 .. 65535.
TALC_API talc_dataset *talc_dataset_tensors(const talc_tensor *images, const talc_tensor *labels);

/// Digits that the program draws, 28x28: strokes of each figure, bent and under a random affine
/// map, with random thickness and noise. Image i is a figure i % 10 of ten classes, and follows
/// from seed and i alone, the same on every machine.
TALC_API talc_dataset *talc_dataset_digits(int64_t count, uint64_t seed);

// Parts share the samples of what they are made of; either may be freed first. They keep all its
// classes with their names and numbers. The first part in a process that has no sample of a class
// of the whole is told of on stderr.

/// Samples start .. end - 1 of another, at least one. Folders are sorted by class: see
/// talc_dataset_split.
TALC_API talc_dataset *talc_dataset_part(talc_dataset *dataset, int64_t start, int64_t end);

/// The samples of another at `count` places, in that order; one may come several times. Errors: no
/// place, one that the dataset has not.
TALC_API talc_dataset *talc_dataset_select(talc_dataset *dataset, const int64_t *indices,
                                           int64_t count);

/// Two parts that have each sample once.
typedef struct talc_dataset_parts {
    talc_dataset *first, *rest; ///< both to be freed; both NULL on failure
} talc_dataset_parts;

/// A random part of about share * count samples, and the rest, each in an order of its own that
/// follows from the seed. The split is stratified, which PyTorch's random_split is not: of every
/// class the first part has its share, to within one sample, and of a class of at least two samples
/// both parts have one. Errors: a share that is not between 0 and 1, or that leaves a part empty.
TALC_API talc_dataset_parts talc_dataset_split(talc_dataset *dataset, double share, uint64_t seed);

/// The samples of `count` datasets, one dataset after the other; each may be freed first. Weights
/// NULL: each sample once in an epoch. Otherwise a loader without weights of its own draws as many
/// samples as there are, with replacement, dataset i with the probability weights[i] / sum and each
/// of its samples as likely as the others. Errors: images or targets of different shapes or types,
/// classes of different names, weights that are negative or add up to 0.
TALC_API talc_dataset *talc_dataset_mix(talc_dataset *const datasets[], const double weights[],
                                        int64_t count);

TALC_API void talc_dataset_free(talc_dataset *dataset);            ///< NULL passes
TALC_API int64_t talc_dataset_count(const talc_dataset *dataset);  ///< samples; 0 for NULL
TALC_API talc_dims talc_dataset_dims(const talc_dataset *dataset); ///< [C,H,W]; rank 0 for NULL
TALC_API int64_t talc_dataset_classes(const talc_dataset *dataset);

/// "3", or the folder's name; NULL when there is no such class. Borrowed, as the pixels are.
TALC_API const char *talc_dataset_class(const talc_dataset *dataset, int64_t label);

/// Pixels of sample i, C * H * W bytes, and its label; NULL, -1 when there is none, or when it is
/// not known before the sample is read: pixels of image folders, mixtures and callbacks, labels of
/// callbacks.
TALC_API const uint8_t *talc_dataset_pixels(const talc_dataset *dataset, int64_t sample);
TALC_API int64_t talc_dataset_label(const talc_dataset *dataset, int64_t sample);

/// Mean and standard deviation of each channel's pixels in 0 .. 1, as a loader's options take them,
/// 0 for channels that there are not. Test images are normalised by those of the images that a
/// network was trained on. Errors, which leave both as they were: NULL, more than four channels.
TALC_API bool talc_dataset_statistics(const talc_dataset *dataset, double mean[4],
                                      double deviation[4]);

struct talc_loader_options;

/// What a model of these samples has to be described by (nn/info.h), but for its name: the size of
/// the images, the mean and deviation of the options, none for NULL, and the classes, whose names
/// are borrowed. All zero for NULL.
TALC_API talc_model_info talc_dataset_info(const talc_dataset *dataset,
                                           const struct talc_loader_options *options);

// ---- Loaders ------------------------------------------------------------------------------------

typedef struct talc_loader talc_loader;

/// A batch belongs to its loader until the next call; a tensor that was retained stays as it is,
/// the loader then takes fresh storage.
typedef struct talc_batch {
    talc_tensor *images; ///< [n,C,H,W], normalised; of numbers [n,...]
    talc_tensor *labels; ///< [n], i64; of callbacks the targets, [n,...] of their type
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
    /// Of each channel, of pixels in 0 .. 1; deviation 0: 1. An element is (pixel / 255 - mean) /
    /// deviation, rounded once.
    double mean[4], deviation[4];
    int64_t shift;  ///< each image moved by up to so many pixels each way, pixels of 0 coming in
    bool flip;      ///< each image mirrored left to right, half of the time, before it is moved
    bool no_thread; ///< batches are made when they are asked for; the same numbers
    int threads;    ///< that make batches, 1 .. 64; 0: 1; the same numbers
    /// Random changes of images of bytes. What is erased becomes 0 after normalisation. `flip`
    /// above and augment.flip exclude each other.
    talc_augment augment;
    /// Targets [...,H,W] are masks of their images: `augment`, `flip` and `shift` move them alike.
    bool masks;
    /// [talc_dataset_count], copied: an epoch is `samples` draws (0: as many as the dataset has)
    /// with replacement, each sample with the probability weight / sum, in the order of the draws.
    /// Draw i is number i of the 53-bit ones of call 2 epoch of the generator `seed`. What is
    /// random about a sample is then keyed by i, as one may come several times. NULL: each sample
    /// once.
    const double *weights;
    int64_t samples;
    /// Of processes that train together (nn/parallel.h): the epoch's order is the same in all, a
    /// batch of the group is `batch` samples for each, and this process takes its rank's share of
    /// it, so that n processes see what one sees by batches n times as large. The group's last
    /// batch is shared as evenly as it goes, and passed over where it has less than a sample for
    /// each; rates of members' losses are exact with drop_last. For evaluation, which needs all
    /// samples, each takes a part of the dataset instead. talc_loader_new is a call of the group
    /// then; another seed, order or number of samples in one of them is an error. The group
    /// outlives the loader. NULL: one process.
    struct talc_group *group;
} talc_loader_options;

/// A loader; NULL for options: all defaults. The dataset stays the caller's and may be freed first.
/// Unless no_thread, other threads make the next batches, in page-locked memory where the device
/// has such, from which they are copied while the device computes. Numbers depend neither on it nor
/// on the batch that an epoch begins at. One thread at a time uses a loader. In a child of fork it
/// goes on without the thread, which the next epoch starts anew. Errors: NULL, numbers out of
/// range, no memory.
TALC_API talc_loader *talc_loader_new(talc_dataset *dataset, const talc_loader_options *options);
TALC_API void talc_loader_free(talc_loader *loader); ///< at any moment; NULL passes

/// Begins an epoch, at its first batch or at a later one, for resuming; the one before need not be
/// at its end. Errors: NULL, numbers out of range, no memory: the epoch before goes on then.
TALC_API bool talc_loader_start(talc_loader *loader, int64_t epoch);
TALC_API bool talc_loader_start_at(talc_loader *loader, int64_t epoch, int64_t batch);

/// The next batch; false at the end of the epoch, where the batch's tensors are NULL, and with a
/// failure, which changes nothing: once it is cleared, the same call gives the batch that it would
/// have given. Errors: NULL, no epoch was begun, no memory, what the device reports.
TALC_API bool talc_loader_next(talc_loader *loader, talc_batch *batch);

TALC_API int64_t talc_loader_batches(const talc_loader *loader); ///< of an epoch; 0 for NULL

/// The dataset's sample that stands at place `i` of the epoch that was started; -1 when there is
/// none.
TALC_API int64_t talc_loader_sample(const talc_loader *loader, int64_t i);

TALC_END_DECLARATIONS

#endif
