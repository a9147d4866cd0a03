/// What an algorithm makes of a tensor alone, kept with its storage until that is written or freed.
/// Private to talc.
///
/// Packed weights, for example: in evaluation they are the same in every call. A few are kept of a
/// tensor, each under a key, plain data without padding. Several threads may ask at once.
#ifndef TALC_TENSOR_CACHED_H
#define TALC_TENSOR_CACHED_H

#include "tensor/tensor.h"

#include <stddef.h>

typedef struct talc_cached talc_cached;

/// What is kept under a key and still stands, retained for the caller, usable on this thread's
/// stream; NULL: nothing. Fails where the stream cannot be made to wait.
talc_tensor *talc_cached_find(const talc_tensor *of, const void *key, size_t bytes);

/// Keeps `made`, which this thread's stream makes, as of `version`, the one that `of` had before it
/// was read. What was made of another version or has the same key goes, and the oldest of many.
/// False, with a failure, without memory.
bool talc_cached_add(const talc_tensor *of, uint64_t version, const void *key, size_t bytes,
                     talc_tensor *made);

/// Held while such lists are looked through, whichever storage's they are, and those of nn/fold.h;
/// a child of fork finds them whole.
void talc_cached_lock(void);
void talc_cached_unlock(void);

/// For a storage that is freed.
void talc_cached_free(talc_cached *cached);

#endif
