/// Memory of a fake device: pages that no host code may touch while no work runs. Private to the
/// fake device.
#ifndef TALC_TESTS_FAKE_PAGES_H
#define TALC_TESTS_FAKE_PAGES_H

#include <pthread.h>
#include <stddef.h>

typedef struct fake_pages {
    pthread_mutex_t lock;
    struct fake_block *blocks;
    size_t limit, used; ///< bytes; no limit is 0
} fake_pages;

void fake_pages_open(fake_pages *pages);

/// A block filled with 0xFF that ends where its last page ends, before a guard page; NULL beyond
/// the limit.
void *fake_pages_allocate(fake_pages *pages, size_t bytes);

/// The block's pages stay mapped and untouchable, so that using it from now on is a fault.
void fake_pages_free(fake_pages *pages, void *data, size_t bytes);

/// Sets what may be done with the live blocks: PROT_NONE, PROT_READ, ...
void fake_pages_protect(fake_pages *pages, int protection);

/// Unmaps everything. Fails the test when a block was not freed.
void fake_pages_close(fake_pages *pages);

#endif
