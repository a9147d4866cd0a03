/// What the numbers of a batch are: which samples, how they are moved and mirrored, and how pixels
/// become values. Private to nn/data.
#ifndef TALC_NN_DATA_BATCH_H
#define TALC_NN_DATA_BATCH_H

#include "nn/data/data.h"

/// All that a batch follows from. Nothing here changes while one is made.
typedef struct talc_batch_plan {
    const talc_dataset *dataset;
    talc_loader_options options; ///< complete: no default is left
    int64_t epoch;
    int64_t *order; ///< [count], the sample at each place of the epoch; NULL: the dataset's order
    double *values; ///< [C,256], what a pixel of each channel becomes
} talc_batch_plan;

/// Completes and checks the options, and takes memory. False with a failure, and nothing to free.
bool talc_batch_plan_begin(talc_batch_plan *plan, const talc_dataset *dataset,
                           const talc_loader_options *options);
void talc_batch_plan_end(talc_batch_plan *plan);

/// Puts the samples in the order of an epoch: talc_shuffle by call 2 epoch of the generator `seed`.
void talc_batch_plan_epoch(talc_batch_plan *plan, int64_t epoch);

/// The sample at a place of the epoch.
int64_t talc_batch_sample(const talc_batch_plan *plan, int64_t offset);

/// Writes `count` samples from a place on: images [count,C,H,W] of the dtype, labels [count]. A
/// sample's randomness is block `sample` of call 2 epoch + 1: words 0 and 1 say how far it moves
/// down and right, word 2's highest bit whether it is mirrored.
void talc_batch_fill(const talc_batch_plan *plan, int64_t offset, int64_t count, void *images,
                     int64_t *labels);

#endif
