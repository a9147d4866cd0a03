/// A tensor that something was worked out of, as it was then: whether that still stands. Private to nn/.
#ifndef TALC_NN_SOURCE_H
#define TALC_NN_SOURCE_H

#include "tensor/tensor.h"

typedef struct talc_source {
    talc_tensor *
        held; ///< an alias, so that no other storage takes its place in memory; NULL: there was no tensor
    uint64_t version;
} talc_source;

/// Notes a tensor, NULL for one that is left out. False, with a failure, without memory.
bool talc_source_hold(talc_source *source, const talc_tensor *tensor);

/// Whether the tensor, or none, is where it was.
bool talc_source_in_place(const talc_source *source, const talc_tensor *tensor);

/// Whether it holds what it held.
bool talc_source_stands(const talc_source *source, const talc_tensor *tensor);

/// Whether nothing else sees the elements any more: what had the tensor is gone, or got other storage.
bool talc_source_is_left(const talc_source *source);

void talc_source_release(talc_source *source);

#endif
