/// What the numbers of a batch are: which samples, how they are moved and mirrored, and how pixels
/// become values. Private to nn/data.
#ifndef TALC_NN_DATA_BATCH_H
#define TALC_NN_DATA_BATCH_H

#include "nn/data/dataset.h"

/// All that a batch follows from. Nothing here changes while one is made.
typedef struct talc_batch_plan {
    const talc_dataset *dataset;
    talc_loader_options options; ///< complete: no default is left
    bool augments;               ///< something of options.augment is random
    int64_t epoch;
    int64_t count;  ///< samples of an epoch
    int64_t *order; ///< [count], the sample at each place of the epoch; NULL: the dataset's order
    double *cumulative; ///< [samples of the dataset], sums of weights; NULL: there are none
    double *values;     ///< [C,256], what a pixel of each channel becomes; NULL: images are numbers
} talc_batch_plan;

/// Completes and checks the options, and takes memory. False with a failure, and nothing to free.
bool talc_batch_plan_begin(talc_batch_plan *plan, const talc_dataset *dataset,
                           const talc_loader_options *options);
void talc_batch_plan_end(talc_batch_plan *plan);

/// Puts the samples in the order of an epoch: talc_shuffle by call 2 epoch of the generator `seed`,
/// or draws by weight.
void talc_batch_plan_epoch(talc_batch_plan *plan, int64_t epoch);

/// Places of the epoch.
typedef struct talc_batch_places {
    int64_t first, count;
} talc_batch_places;

/// Where the samples of a batch are, this process's share of it in a group.
talc_batch_places talc_batch_places_of(const talc_batch_plan *plan, int64_t batch);

/// Batches of an epoch.
int64_t talc_batch_plan_batches(const talc_batch_plan *plan);

/// The sample at a place of the epoch.
int64_t talc_batch_sample(const talc_batch_plan *plan, int64_t offset);

/// Writes the sample at place `offset` of the epoch as number n of a batch: images [count,...] of
/// the dtype, targets [count,...]. A sample's randomness is block `sample` of call 2 epoch + 1:
/// words 0 and 1 say how far it moves down and right, word 2's highest bit whether it is mirrored;
/// that of the augmentation are blocks from 2^40 on (augment.h). False with a failure.
bool talc_batch_fill(const talc_batch_plan *plan, int64_t offset, int64_t n, void *images,
                     void *targets, talc_scratch *scratch);

#endif
