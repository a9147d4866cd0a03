#include "tensor/cached.h"

#include "tensor/memory.h"
#include "tensor/storage.h"
#include "tensor/streams.h"

#include <pthread.h>
#include <string.h>

/* Of a storage. */
enum { MAX_CACHED = 4 };

struct talc_cached {
    talc_cached *next; /* newest first */
    uint64_t version;
    talc_tensor *made;
    talc_made on;
    size_t bytes;
    unsigned char key[];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void talc_cached_lock(void)
{
    pthread_mutex_lock(&lock);
}

void talc_cached_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

/* A child of fork finds the lists whole. */
__attribute__((constructor)) static void watch_forks(void)
{
    (void)pthread_atfork(talc_cached_lock, talc_cached_unlock, talc_cached_unlock);
}

static bool is_of(const talc_cached *cached, const void *key, size_t bytes)
{
    return cached->bytes == bytes && memcmp(cached->key, key, bytes) == 0;
}

talc_tensor *talc_cached_find(const talc_tensor *of, const void *key, size_t bytes)
{
    const uint64_t version = talc_version(of);
    talc_tensor *made = NULL;
    talc_cached_lock();
    talc_cached *cached = of->storage->cached;
    while (cached != NULL && !(cached->version == version && is_of(cached, key, bytes)))
        cached = cached->next;
    if (cached != NULL && talc_made_wait(&cached->on, of->device))
        made = talc_retain(cached->made);
    talc_cached_unlock();
    return made;
}

bool talc_cached_add(const talc_tensor *of, uint64_t version, const void *key, size_t bytes,
                     talc_tensor *made)
{
    talc_cached *cached = talc_memory_new(sizeof *cached + bytes, "conv2d: kept weights");
    if (cached == NULL)
        return false;
    *cached = (talc_cached){ .version = version,
                             .made = talc_retain(made),
                             .on = talc_made_here(of->device),
                             .bytes = bytes };
    memcpy(cached->key, key, bytes);
    talc_cached *over = NULL;
    int count = 1;
    talc_cached_lock();
    for (talc_cached **at = &of->storage->cached; *at != NULL;) {
        talc_cached *old = *at;
        if (old->version == cached->version && !is_of(old, key, bytes) && count < MAX_CACHED) {
            at = &old->next;
            count++;
            continue;
        }
        *at = old->next;
        old->next = over;
        over = old;
    }
    cached->next = of->storage->cached;
    of->storage->cached = cached;
    talc_cached_unlock();
    talc_cached_free(over);
    return true;
}

void talc_cached_free(talc_cached *cached)
{
    while (cached != NULL) {
        talc_cached *next = cached->next;
        talc_release(cached->made);
        talc_memory_free(cached);
        cached = next;
    }
}
