/// Augmentation of planes, for loaders too. Private to nn/data.
#ifndef TALC_NN_DATA_AUGMENT_PLANES_H
#define TALC_NN_DATA_AUGMENT_PLANES_H

#include "nn/data/augment.h"
#include "nn/data/scratch.h"

/// Whether anything is random.
bool talc_augment_any(const talc_augment *augment);

/// False with a failure where a number is out of range.
bool talc_augment_fits(const char *who, const talc_augment *augment);

/// talc_augment_draw, of options that were checked.
void talc_augment_drawn(const talc_augment *augment, talc_image_size image, talc_image_size result,
                        uint64_t seed, int64_t epoch, int64_t sample, talc_augment_params *params);

/// An image [channels,from] after what was drawn, but for erasing, in scratch memory; NULL with a
/// failure.
uint8_t *talc_augment_pixels(const uint8_t *source, int64_t channels, talc_image_size from,
                             const talc_augment_params *params, talc_scratch *scratch);

/// The same of a mask [planes,from] of elements of so many bytes.
void *talc_augment_elements(const void *source, int64_t planes, size_t bytes, talc_image_size from,
                            const talc_augment_params *params, talc_scratch *scratch);

#endif
