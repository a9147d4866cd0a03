/// The free blocks of a pool, by stream and capacity. Private to tensor/pool.c, which holds its
/// lock.
///
/// The cost of a call does not grow with the number of blocks: it is a binary search among the
/// capacities of each stream, few since the pool rounds sizes up, and a step in the list of blocks
/// of that capacity. A zeroed cache is empty.
#ifndef TALC_TENSOR_CACHE_H
#define TALC_TENSOR_CACHE_H

#include "tensor/pool.h"
#include "tensor/streams.h"

typedef struct talc_cache {
    struct cached_block *blocks; ///< 0 is none
    size_t used, allocated;
    size_t unused; ///< the first of a list of those that hold nothing
    struct cached_stream {
        struct cached_size *sizes; ///< by rising capacity, none of them empty
        size_t count, allocated;
    } streams[TALC_STREAMS];
    int stream_count; ///< the highest that ever had a block, and 1
    uint64_t turns;   ///< blocks that were ever added
} talc_cache;

/// The block's place, by which talc_cache_at finds it until it is taken; 0 without memory, the
/// block then not added.
size_t talc_cache_add(talc_cache *cache, talc_block block);
const talc_block *talc_cache_at(const talc_cache *cache, size_t place);

/// A stream's smallest block of at least `capacity` bytes, the newest of equal ones; NULL: none.
/// Valid until the next change.
const talc_block *talc_cache_fit(const talc_cache *cache, size_t capacity, int stream);

/// The same among all streams.
const talc_block *talc_cache_fit_any(const talc_cache *cache, size_t capacity);

/// The largest of all streams, the oldest of equal ones; NULL: none.
const talc_block *talc_cache_largest(const talc_cache *cache);

/// Removes one that was found.
talc_block talc_cache_take(talc_cache *cache, const talc_block *found);

/// Frees the cache's own records; it holds no block any more.
void talc_cache_free(talc_cache *cache);

#endif
