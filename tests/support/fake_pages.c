#define _DEFAULT_SOURCE /* MAP_ANONYMOUS, madvise */

#include "tests/support/fake_pages.h"

#include "tests/support/hooks.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct fake_block {
    struct fake_block *next;
    char *pages, *data;
    size_t usable, mapped; /* bytes of the pages between the guards, and with them */
    bool live;
} fake_block;

void fake_pages_open(fake_pages *pages)
{
    *pages = (fake_pages){ .used = 0 };
    pthread_mutex_init(&pages->lock, NULL);
}

void *fake_pages_allocate(fake_pages *pages, size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (bytes > SIZE_MAX / 2 || (pages->limit != 0 && pages->used + bytes > pages->limit))
        return NULL;
    size_t usable = (bytes + page - 1) / page * page;
    char *mapping = mmap(NULL, usable + 2 * page, PROT_NONE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    fake_block *b = mapping == MAP_FAILED ? NULL : calloc(1, sizeof *b);
    if (b == NULL)
        return NULL;
    *b = (fake_block){ .pages = mapping + page,
                       .data = mapping + page + usable - (bytes + 63) / 64 * 64,
                       .usable = usable,
                       .mapped = usable + 2 * page,
                       .live = true };
    mprotect(b->pages, usable, PROT_READ | PROT_WRITE);
    memset(b->pages, 0xFF, usable);
    mprotect(b->pages, usable, PROT_NONE);
    pthread_mutex_lock(&pages->lock);
    b->next = pages->blocks;
    pages->blocks = b;
    pages->used += bytes;
    pthread_mutex_unlock(&pages->lock);
    return b->data;
}

void fake_pages_free(fake_pages *pages, void *data, size_t bytes)
{
    pthread_mutex_lock(&pages->lock);
    for (fake_block *b = pages->blocks; b != NULL; b = b->next)
        if (b->live && b->data == data) {
            madvise(b->pages, b->usable, MADV_DONTNEED);
            b->live = false;
            pages->used -= bytes;
        }
    pthread_mutex_unlock(&pages->lock);
}

void fake_pages_protect(fake_pages *pages, int protection)
{
    pthread_mutex_lock(&pages->lock);
    for (const fake_block *b = pages->blocks; b != NULL; b = b->next)
        if (b->live)
            mprotect(b->pages, b->usable, protection);
    pthread_mutex_unlock(&pages->lock);
}

void fake_pages_close(fake_pages *pages)
{
    for (fake_block *b = pages->blocks, *next; b != NULL; b = next) {
        next = b->next;
        cr_assert(!b->live, "a block of a fake device was not given back");
        munmap(b->pages - (b->mapped - b->usable) / 2, b->mapped);
        free(b);
    }
    pthread_mutex_destroy(&pages->lock);
    pages->blocks = NULL;
}
