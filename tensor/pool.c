#include "tensor/pool.h"

#include "tensor/memory.h"
#include "tensor/pieces.h"
#include "tensor/recording.h"
#include "tensor/streams.h"
#include "tensor/table.h"

#include <pthread.h>
#include <stdio.h>

/* Small blocks share few sizes so that they fit again; large ones follow pages, then huge pages. */
static const size_t SMALL_STEP = 256;
static const size_t PAGE_STEP = 4096;
static const size_t PAGE_FROM = (size_t)64 << 10;
static const size_t HUGE_STEP = (size_t)2 << 20;
static const size_t HUGE_FROM = (size_t)8 << 20;

/* Cached memory beyond the peak of live memory and a quarter of it: the sizes of a training step
 * change from layer to layer and back, and what the system takes back it clears anew. */
static const size_t CACHE_SLACK = (size_t)64 << 20;

struct talc_pool {
    talc_device *device;
    struct talc_pool *next; /* of all that are open */
    bool forked; /* in a child of fork: of the parent's device, whose memory is not here */
    pthread_mutex_t lock;
    talc_cache cached, pieces; /* whole blocks, pieces of others */
    size_t live, libraries;    /* read without the lock too */
    size_t peak, reserved;
    bool scarce; /* the device has refused what the cache has as much of */
};

static size_t round_up(size_t bytes, size_t step)
{
    return (bytes + step - 1) / step * step;
}

static size_t block_capacity(size_t bytes)
{
    if (bytes >= HUGE_FROM)
        return round_up(bytes, HUGE_STEP);
    return round_up(bytes, bytes >= PAGE_FROM ? PAGE_STEP : SMALL_STEP);
}

/* A cached block serves a request when it wastes at most an eighth, or is large: then a piece of it
 * does. Small blocks stay apart, as tools find accesses past their ends. Where memory is scarce no
 * more blocks are cut, since a whole one can be given back for a request that no piece serves. */
static bool block_serves(const struct talc_pool *pool, const talc_block *block, size_t wanted)
{
    const bool cut = wanted >= HUGE_FROM && (block->piece != NULL || !pool->scarce);
    return block->capacity >= wanted && (cut || block->capacity - wanted <= wanted / 8);
}

/* The cached block for a request, one of this stream before those that the stream would have to
 * wait for. */
static const talc_block *find(const struct talc_pool *pool, size_t capacity, int stream)
{
    const talc_block *whole = talc_cache_fit(&pool->cached, capacity, stream),
                     *piece = capacity >= HUGE_FROM
                                  ? talc_cache_fit(&pool->pieces, capacity, stream)
                                  : NULL,
                     *own = piece == NULL || (whole != NULL && whole->capacity < piece->capacity)
                                ? whole
                                : piece;
    if (own != NULL && block_serves(pool, own, capacity))
        return own;
    const talc_block *any = talc_cache_fit_any(&pool->cached, capacity);
    return any != NULL && block_serves(pool, any, capacity) ? any : NULL;
}

static void give_back(talc_device *device, talc_block block)
{
    device->interface->deallocate(device, block.data, block.capacity);
    device->pool->reserved -= block.capacity;
}

/* Gives back the largest cached blocks until at most `limit` bytes are reserved. */
static void shrink(talc_device *device, size_t limit)
{
    struct talc_pool *pool = device->pool;
    const talc_block *largest;
    while (pool->reserved > limit && (largest = talc_cache_largest(&pool->cached)) != NULL)
        give_back(device, talc_cache_take(&pool->cached, largest));
}

/* What may be reserved once a block of `capacity` is live. */
static size_t max_reserved(const struct talc_pool *pool, size_t capacity)
{
    const size_t max = pool->live + capacity > pool->peak ? pool->live + capacity : pool->peak;
    return max + max / 4 + CACHE_SLACK;
}

/* At the cache's limit a fresh block would evict others that the next iteration asks for again. A
 * cached one of up to twice the size serves instead, where that raises no peak. */
static const talc_block *find_larger(const struct talc_pool *pool, size_t capacity)
{
    const talc_block *larger = pool->reserved + capacity > max_reserved(pool, capacity)
                                   ? talc_cache_fit_any(&pool->cached, capacity)
                                   : NULL;
    return larger != NULL && larger->capacity / 2 <= capacity &&
                   pool->live + larger->capacity <= pool->peak
               ? larger
               : NULL;
}

/* A fresh block, with all cached ones given back where that is what it takes. */
static void *allocate(talc_device *device, size_t capacity)
{
    struct talc_pool *pool = device->pool;
    const size_t limit = max_reserved(pool, capacity);
    shrink(device, limit > capacity ? limit - capacity : 0);
    void *data = device->interface->allocate(device, capacity);
    if (data == NULL) {
        pool->scarce = pool->scarce || capacity <= pool->reserved;
        shrink(device, 0);
        data = device->interface->allocate(device, capacity);
    }
    pool->reserved += data == NULL ? 0 : capacity;
    return data;
}

/* Caches a block. Where no memory is left for that, a whole one is given back, and a piece stays
 * until a neighbour is freed. */
static void keep(talc_device *device, talc_block block)
{
    struct talc_pool *pool = device->pool;
    const size_t place = talc_cache_add(block.piece == NULL ? &pool->cached : &pool->pieces, block);
    if (block.piece != NULL)
        block.piece->free = true, block.piece->cached = place;
    else if (place == 0)
        give_back(device, block);
}

/* A block out of the cache, or what is wanted of it. */
static talc_block take(talc_device *device, const talc_block *found, size_t capacity, int stream)
{
    struct talc_pool *pool = device->pool;
    const bool whole = found->piece == NULL;
    talc_block block = talc_cache_take(whole ? &pool->cached : &pool->pieces, found), rest;
    if (!whole)
        block.piece->free = false, block.piece->cached = 0;
    block.stream = stream;
    if (capacity >= HUGE_FROM && block.capacity > capacity &&
        talc_piece_split(&block, capacity, &rest))
        keep(device, rest);
    return block;
}

/* With the pool's lock. */
static talc_block obtain(talc_device *device, size_t capacity)
{
    struct talc_pool *pool = device->pool;
    const int stream = talc_stream_number(device);
    const talc_block *found = find(pool, capacity, stream);
    if (found == NULL)
        found = find_larger(pool, capacity);
    if (found == NULL)
        return (talc_block){ .data = allocate(device, capacity),
                             .capacity = capacity,
                             .stream = stream };
    if (found->stream != stream && talc_stream_order(device, stream, found->stream) != TALC_OK)
        return (talc_block){ 0 };
    return take(device, found, capacity, stream);
}

talc_status talc_out_of_memory(const char *who, const char *what, size_t asked, size_t held,
                               size_t free_bytes)
{
    char text[TALC_BYTES_TEXT], asked_text[TALC_BYTES_TEXT + 32] = "an unknown size";
    char held_text[TALC_BYTES_TEXT], free_text[TALC_BYTES_TEXT] = "unknown";
    if (asked > 0)
        snprintf(asked_text, sizeof asked_text, "%s (%zu byte%s)",
                 talc_bytes_text((double)asked, text), asked, TALC_PLURAL(asked));
    if (free_bytes > 0)
        talc_bytes_text((double)free_bytes, free_text);
    return talc_fail(TALC_NO_MEMORY, "%s: out of %s: asked %s, held %s, free %s", who, what,
                     asked_text, talc_bytes_text((double)held, held_text), free_text);
}

talc_status talc_device_out_of_memory(talc_device *device, const char *who, size_t asked)
{
    char what[sizeof device->name + 16];
    talc_device_properties properties = { 0 };
    if (device->interface->alive != NULL && device->interface->alive(device, who) != TALC_OK)
        return talc_error_status();
    device->interface->properties(device, &properties);
    snprintf(what, sizeof what, "memory on %s", device->name);
    const struct talc_pool *pool = device->pool;
    const size_t held = pool == NULL ? 0
                                     : __atomic_load_n(&pool->live, __ATOMIC_RELAXED) +
                                           __atomic_load_n(&pool->libraries, __ATOMIC_RELAXED);
    return talc_out_of_memory(who, what, asked, held, properties.memory_free);
}

/* With the lock; `bytes` may be the negative of a count. */
static void add(size_t *count, size_t bytes)
{
    __atomic_store_n(count, *count + bytes, __ATOMIC_RELAXED);
}

bool talc_device_forked(const talc_device *device, const char *who)
{
    if (device->pool == NULL || !device->pool->forked)
        return false;
    talc_fail(TALC_BAD_DEVICE, "%s: %s was opened before this process was forked", who,
              device->name);
    return true;
}

bool talc_device_gone(talc_device *device, const char *who)
{
    if (device->interface->alive != NULL && device->interface->alive(device, who) != TALC_OK)
        return true;
    if (device->pool != NULL)
        return talc_device_forked(device, who);
    talc_fail(TALC_BAD_DEVICE, "%s: %s is closed", who, device->name);
    return true;
}

talc_status talc_block_new(talc_device *device, const char *who, size_t bytes, talc_block *block)
{
    *block = (talc_block){ 0 };
    if (talc_device_gone(device, who))
        return talc_error_status();
    if (bytes == 0)
        return TALC_OK;
    struct talc_pool *pool = device->pool;
    const size_t capacity = bytes <= SIZE_MAX - HUGE_STEP ? block_capacity(bytes) : 0;
    const bool allowed = capacity > 0 && talc_allocation_allowed(bytes);
    talc_recording *recording = talc_recording_serving(device);
    if (recording != NULL && allowed && talc_recording_take(recording, capacity, block))
        return TALC_OK;

    pthread_mutex_lock(&pool->lock);
    if (allowed)
        *block = obtain(device, capacity);
    if (block->data != NULL) {
        add(&pool->live, block->capacity);
        pool->peak = pool->live > pool->peak ? pool->live : pool->peak;
    }
    pthread_mutex_unlock(&pool->lock);
    if (block->data == NULL) {
        *block = (talc_block){ 0 };
        return talc_failed() ? talc_error_status() : talc_device_out_of_memory(device, who, bytes);
    }
    if (recording == NULL || talc_recording_own(recording, block))
        return TALC_OK;
    talc_block_free(device, *block);
    *block = (talc_block){ 0 };
    return talc_error_status();
}

void talc_block_free(talc_device *device, talc_block block)
{
    talc_block_free_after(device, block, 0);
}

void talc_block_free_after(talc_device *device, talc_block block, uint32_t streams)
{
    if (block.data == NULL || device->pool->forked)
        return;
    for (int i = 0; i < TALC_STREAMS && streams != 0; i++)
        if ((streams >> i & 1) != 0)
            (void)talc_stream_order(device, block.stream, i);
    if (talc_recording_keep(device, block)) /* which may give it to the pool, at once or later */
        return;
    struct talc_pool *pool = device->pool;
    pthread_mutex_lock(&pool->lock);
    add(&pool->live, 0 - block.capacity);
    keep(device, block.piece == NULL ? block : talc_piece_join(&pool->pieces, block));
    pthread_mutex_unlock(&pool->lock);
}

void talc_pinned_free(talc_device *device, void *data)
{
    if (device->pool == NULL || !device->pool->forked)
        device->interface->unpin(device, data);
}

void *talc_library_memory_new(talc_device *device, const char *who, size_t bytes)
{
    void *data = NULL;
    for (int round = 0; data == NULL && round < 2; round++)
        if ((round == 0 || talc_memory_trim(device) > 0) && talc_allocation_allowed(bytes))
            data = device->interface->allocate(device, bytes);
    if (data == NULL) {
        talc_device_out_of_memory(device, who, bytes);
        return NULL;
    }
    pthread_mutex_lock(&device->pool->lock);
    add(&device->pool->libraries, bytes);
    pthread_mutex_unlock(&device->pool->lock);
    return data;
}

void talc_library_memory_free(talc_device *device, void *data, size_t bytes)
{
    if (data == NULL || (device->pool != NULL && device->pool->forked))
        return;
    device->interface->deallocate(device, data, bytes);
    if (device->pool == NULL)
        return;
    pthread_mutex_lock(&device->pool->lock);
    add(&device->pool->libraries, 0 - bytes);
    pthread_mutex_unlock(&device->pool->lock);
}

talc_memory talc_device_memory(talc_device *device)
{
    talc_memory memory = { 0 };
    if (device == NULL)
        return memory;
    talc_device_properties properties = { 0 };
    device->interface->properties(device, &properties);
    struct talc_pool *pool = device->pool;
    if (pool == NULL) {
        memory.free = properties.memory_free;
        memory.total = properties.memory_total;
        return memory;
    }
    pthread_mutex_lock(&pool->lock);
    memory = (talc_memory){ .live = pool->live,
                            .peak = pool->peak,
                            .reserved = pool->reserved,
                            .libraries = pool->libraries,
                            .free = properties.memory_free,
                            .total = properties.memory_total };
    pthread_mutex_unlock(&pool->lock);
    return memory;
}

void talc_memory_reset_peak(talc_device *device)
{
    if (device == NULL || device->pool == NULL)
        return;
    pthread_mutex_lock(&device->pool->lock);
    device->pool->peak = device->pool->live;
    shrink(device, max_reserved(device->pool, 0));
    pthread_mutex_unlock(&device->pool->lock);
}

size_t talc_memory_trim(talc_device *device)
{
    if (device == NULL || device->pool == NULL || device->pool->forked)
        return 0;
    const size_t pinned = device->interface->trim == NULL ? 0 : device->interface->trim(device);
    pthread_mutex_lock(&device->pool->lock);
    size_t before = device->pool->reserved;
    shrink(device, 0);
    size_t given = before - device->pool->reserved;
    pthread_mutex_unlock(&device->pool->lock);
    return given + pinned;
}

/* All that are open. A fork waits for the locks, so that a child finds what they guard whole. */
static struct {
    pthread_mutex_t lock;
    struct talc_pool *first;
} pools = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void before_fork(void)
{
    pthread_mutex_lock(&pools.lock);
    for (struct talc_pool *pool = pools.first; pool != NULL; pool = pool->next)
        pthread_mutex_lock(&pool->lock);
}

static void after_fork(void)
{
    for (struct talc_pool *pool = pools.first; pool != NULL; pool = pool->next)
        pthread_mutex_unlock(&pool->lock);
    pthread_mutex_unlock(&pools.lock);
}

static void after_fork_in_child(void)
{
    for (struct talc_pool *pool = pools.first; pool != NULL; pool = pool->next)
        pool->forked = pool->forked || !pool->device->is_host;
    after_fork();
}

__attribute__((constructor)) static void watch_forks(void)
{
    (void)pthread_atfork(before_fork, after_fork, after_fork_in_child);
}

talc_status talc_pool_open(talc_device *device)
{
    struct talc_pool *pool = talc_memory_new(sizeof *pool, "device");
    if (pool == NULL)
        return talc_error_status();
    pool->device = device;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_mutex_lock(&pools.lock);
    pool->next = pools.first;
    pools.first = pool;
    device->pool = pool;
    pthread_mutex_unlock(&pools.lock);
    return TALC_OK;
}

void talc_pool_close(talc_device *device)
{
    struct talc_pool *pool = device->pool;
    if (pool == NULL)
        return;
    pthread_mutex_lock(&pools.lock);
    struct talc_pool **at = &pools.first;
    while (*at != pool)
        at = &(*at)->next;
    *at = pool->next;
    pthread_mutex_unlock(&pools.lock);
    shrink(device, 0);
    pthread_mutex_destroy(&pool->lock);
    talc_cache_free(&pool->cached);
    talc_cache_free(&pool->pieces);
    talc_memory_free(pool);
    device->pool = NULL;
}
