/// The free blocks of a pool, by stream and capacity. Private to tensor/pool.c, which holds its lock.
///
/// However many blocks there are, each call costs the same: a search among the capacities of each stream, which are few since the
/// pool rounds what is asked, and a step in the list of blocks that are alike. A zeroed one is empty.
#ifndef TALC_TENSOR_CACHE_H
#define TALC_TENSOR_CACHE_H

#include "tensor/pool.h"
#include "tensor/streams.h"

typedef struct talc_cache {
    struct cached_block *blocks; ///< 0 is none
    size_t used, room;
    size_t unused; ///< the first of a list of those that hold nothing
    struct cached_stream {
        struct cached_size *sizes; ///< by rising capacity, none of them empty
        size_t count, room;
    } streams[TALC_STREAMS];
    int stream_count; ///< the highest that ever had a block, and 1
    uint64_t turns;   ///< blocks that were ever added
} talc_cache;

/// False without memory, the block then not added.
bool talc_cache_add(talc_cache *cache, talc_block block);

/// The smallest of a stream that has at least `capacity` bytes, of those alike the newest; NULL: none. Until the next change.
const talc_block *talc_cache_fit(const talc_cache *cache, size_t capacity, int stream);

/// The same of all streams.
const talc_block *talc_cache_fit_any(const talc_cache *cache, size_t capacity);

/// The largest of all streams, of those alike the oldest; NULL: none.
const talc_block *talc_cache_largest(const talc_cache *cache);

/// Removes one that was found.
talc_block talc_cache_take(talc_cache *cache, const talc_block *found);

/// Frees what it keeps of blocks; it has none.
void talc_cache_free(talc_cache *cache);

#endif
