#include "tensor/kept.h"

#include "tensor/memory.h"
#include "tensor/storage.h"
#include "tensor/streams.h"

#include <pthread.h>
#include <string.h>

/* Of a storage. */
enum { MOST_KEPT = 4 };

struct talc_kept {
    talc_kept *next; /* newest first */
    uint64_t version;
    talc_tensor *made;
    talc_made on;
    size_t bytes;
    unsigned char key[];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void talc_kept_lock(void)
{
    pthread_mutex_lock(&lock);
}

void talc_kept_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

/* A child of fork finds the lists whole. */
__attribute__((constructor)) static void watch_forks(void)
{
    (void)pthread_atfork(talc_kept_lock, talc_kept_unlock, talc_kept_unlock);
}

static bool is_of(const talc_kept *kept, const void *key, size_t bytes)
{
    return kept->bytes == bytes && memcmp(kept->key, key, bytes) == 0;
}

talc_tensor *talc_kept_find(const talc_tensor *of, const void *key, size_t bytes)
{
    const uint64_t version = talc_version(of);
    talc_tensor *made = NULL;
    talc_kept_lock();
    talc_kept *kept = of->storage->kept;
    while (kept != NULL && !(kept->version == version && is_of(kept, key, bytes)))
        kept = kept->next;
    if (kept != NULL && talc_made_wait(&kept->on, of->device))
        made = talc_retain(kept->made);
    talc_kept_unlock();
    return made;
}

bool talc_kept_add(const talc_tensor *of, uint64_t version, const void *key, size_t bytes,
                   talc_tensor *made)
{
    talc_kept *kept = talc_memory_new(sizeof *kept + bytes, "conv2d: kept weights");
    if (kept == NULL)
        return false;
    *kept = (talc_kept){ .version = version,
                         .made = talc_retain(made),
                         .on = talc_made_here(of->device),
                         .bytes = bytes };
    memcpy(kept->key, key, bytes);
    talc_kept *over = NULL;
    int count = 1;
    talc_kept_lock();
    for (talc_kept **at = &of->storage->kept; *at != NULL;) {
        talc_kept *old = *at;
        if (old->version == kept->version && !is_of(old, key, bytes) && count < MOST_KEPT) {
            at = &old->next;
            count++;
            continue;
        }
        *at = old->next;
        old->next = over;
        over = old;
    }
    kept->next = of->storage->kept;
    of->storage->kept = kept;
    talc_kept_unlock();
    talc_kept_free(over);
    return true;
}

void talc_kept_free(talc_kept *kept)
{
    while (kept != NULL) {
        talc_kept *next = kept->next;
        talc_release(kept->made);
        talc_memory_free(kept);
        kept = next;
    }
}
