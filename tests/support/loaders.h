/// A small dataset, and loaders of it.
#ifndef TALC_TESTS_LOADERS_H
#define TALC_TESTS_LOADERS_H

#include "talc.h"

enum { SAMPLES = 50, CHANNELS = 3, HEIGHT = 5, WIDTH = 6, IMAGE = CHANNELS * HEIGHT * WIDTH };

/// So many samples with random pixels; the label is the number of the sample.
talc_dataset *numbered_dataset(void);

/// A loader in the given epoch.
talc_loader *begun_loader(talc_dataset *dataset, talc_loader_options options, int64_t epoch);

/// Copies all images and labels of the rest of an epoch, batch after batch, and returns the number
/// of bytes.
size_t rest_of_epoch(talc_loader *loader, char *bytes);

#endif
