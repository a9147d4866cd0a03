#include "tensor/cache.h"

#include "tensor/memory.h"

#include <stdlib.h>
#include <string.h>

typedef struct cached_block {
    talc_block block; /* first, so that the two pointers are one */
    uint64_t turn;    /* in which it was added */
    size_t newer, older;
} cached_block;

/* The blocks of one stream and capacity. */
typedef struct cached_size {
    size_t capacity;
    size_t newest, oldest;
} cached_size;

/* Room for one more of `count`: the list or a longer one; NULL without memory, which is no failure
 * here. */
static void *grown(void *list, size_t count, size_t *allocated, size_t size)
{
    if (count < *allocated)
        return list;
    const size_t more = *allocated == 0 ? 64 : 2 * *allocated;
    void *longer = talc_allocation_allowed(more * size) ? realloc(list, more * size) : NULL;
    *allocated = longer == NULL ? *allocated : more;
    return longer;
}

/* The first size of at least `capacity` bytes. */
static size_t lower_bound(const struct cached_stream *stream, size_t capacity)
{
    size_t low = 0, high = stream->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (stream->sizes[middle].capacity < capacity)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The size of that capacity, made empty where there is none; NULL without memory. */
static cached_size *size_of(struct cached_stream *stream, size_t capacity)
{
    const size_t at = lower_bound(stream, capacity);
    if (at < stream->count && stream->sizes[at].capacity == capacity)
        return &stream->sizes[at];
    cached_size *sizes = grown(stream->sizes, stream->count, &stream->allocated, sizeof *sizes);
    if (sizes == NULL)
        return NULL;
    stream->sizes = sizes;
    memmove(sizes + at + 1, sizes + at, (stream->count++ - at) * sizeof *sizes);
    sizes[at] = (cached_size){ .capacity = capacity };
    return &sizes[at];
}

size_t talc_cache_add(talc_cache *cache, talc_block block)
{
    struct cached_stream *stream = &cache->streams[block.stream];
    if (cache->unused == 0) {
        cached_block *blocks =
            grown(cache->blocks, cache->used + 1, &cache->allocated, sizeof *cache->blocks);
        if (blocks == NULL)
            return 0;
        cache->blocks = blocks;
        cache->unused = ++cache->used;
        blocks[cache->unused].older = 0;
    }
    cached_size *size = size_of(stream, block.capacity);
    if (size == NULL)
        return 0;
    const size_t index = cache->unused;
    cached_block *added = &cache->blocks[index];
    cache->unused = added->older;
    *added = (cached_block){ .block = block, .turn = cache->turns++, .older = size->newest };
    *(size->newest == 0 ? &size->oldest : &cache->blocks[size->newest].newer) = index;
    size->newest = index;
    if (cache->stream_count <= block.stream)
        cache->stream_count = block.stream + 1;
    return index;
}

const talc_block *talc_cache_at(const talc_cache *cache, size_t place)
{
    return &cache->blocks[place].block;
}

const talc_block *talc_cache_fit(const talc_cache *cache, size_t capacity, int stream)
{
    const struct cached_stream *of = &cache->streams[stream];
    const size_t at = lower_bound(of, capacity);
    return at == of->count ? NULL : &cache->blocks[of->sizes[at].newest].block;
}

const talc_block *talc_cache_fit_any(const talc_cache *cache, size_t capacity)
{
    const cached_block *best = NULL;
    for (int i = 0; i < cache->stream_count; i++) {
        const cached_block *fit = (const cached_block *)talc_cache_fit(cache, capacity, i);
        if (fit != NULL &&
            (best == NULL || fit->block.capacity < best->block.capacity ||
             (fit->block.capacity == best->block.capacity && fit->turn > best->turn)))
            best = fit;
    }
    return (const talc_block *)best;
}

const talc_block *talc_cache_largest(const talc_cache *cache)
{
    const cached_block *best = NULL;
    for (int i = 0; i < cache->stream_count; i++) {
        const struct cached_stream *stream = &cache->streams[i];
        if (stream->count == 0)
            continue;
        const cached_block *last = &cache->blocks[stream->sizes[stream->count - 1].oldest];
        if (best == NULL || last->block.capacity > best->block.capacity ||
            (last->block.capacity == best->block.capacity && last->turn < best->turn))
            best = last;
    }
    return (const talc_block *)best;
}

talc_block talc_cache_take(talc_cache *cache, const talc_block *found)
{
    const talc_block block = *found;
    struct cached_stream *stream = &cache->streams[block.stream];
    const size_t at = lower_bound(stream, block.capacity);
    cached_size *size = &stream->sizes[at];
    const size_t index = (size_t)((const cached_block *)found - cache->blocks);
    cached_block *taken = &cache->blocks[index];
    *(taken->newer == 0 ? &size->newest : &cache->blocks[taken->newer].older) = taken->older;
    *(taken->older == 0 ? &size->oldest : &cache->blocks[taken->older].newer) = taken->newer;
    if (size->newest == 0)
        memmove(size, size + 1, (--stream->count - at) * sizeof *size);
    taken->older = cache->unused;
    cache->unused = index;
    return block;
}

void talc_cache_free(talc_cache *cache)
{
    free(cache->blocks);
    for (int i = 0; i < TALC_STREAMS; i++)
        free(cache->streams[i].sizes);
    *cache = (talc_cache){ 0 };
}
