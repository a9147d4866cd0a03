/// A tensor that something was computed from, and the version it had: whether the result is still
/// up to date. Private to nn/.
#ifndef TALC_NN_SOURCE_H
#define TALC_NN_SOURCE_H

#include "tensor/tensor.h"

typedef struct talc_source {
    talc_tensor *held; ///< an alias, so that no other storage takes its place in memory; NULL:
                       ///< there was no tensor
    uint64_t version;
} talc_source;

/// Remembers a tensor; NULL: none. False, with a failure, without memory.
bool talc_source_hold(talc_source *source, const talc_tensor *tensor);

/// Whether the tensor still has the same storage, or still is none.
bool talc_source_in_place(const talc_source *source, const talc_tensor *tensor);

/// Whether it also still has the same elements.
bool talc_source_stands(const talc_source *source, const talc_tensor *tensor);

/// Whether nothing else uses the storage any more: the tensor is gone, or got other storage.
bool talc_source_is_left(const talc_source *source);

void talc_source_release(talc_source *source);

#endif
