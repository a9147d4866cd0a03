#include "check/engine/parallel.h"

#include "backends/backends.h"
#include "tensor/thread.h"

#include <pthread.h>
#include <stdatomic.h>

enum { MAX_THREADS = 64 };

/* Nanoseconds of work that are worth starting one more thread. */
static const double WORTH = 3e5;

typedef struct loop {
    check_chunk *chunk;
    void *context;
    int64_t count;
    int chunks;
    atomic_int next;
} loop;

static void *work_on(void *context)
{
    loop *self = context;
    for (;;) {
        const int i = atomic_fetch_add(&self->next, 1);
        if (i >= self->chunks)
            return NULL;
        const int64_t whole = self->count / self->chunks, rest = self->count % self->chunks;
        const int64_t first = i * whole + (i < rest ? i : rest);
        self->chunk(self->context, i, first, first + whole + (i < rest));
    }
}

/* Of the whole process: threads that check problems, and the helpers of their loops. */
static atomic_int busy;

void talc_check_busy(int change)
{
    atomic_fetch_add(&busy, change);
}

/* Takes up to `wanted` of the idle cores; the calling thread is on one of them. */
static int take_cores(int wanted)
{
    const int cores = talc_threads();
    int now = atomic_load(&busy), taken;
    do {
        const int left = cores - (now > 0 ? now : 1);
        taken = wanted < left ? wanted : left;
        if (taken <= 0)
            return 0;
    } while (!atomic_compare_exchange_weak(&busy, &now, now + taken));
    return taken;
}

void talc_check_parallel(int64_t count, double cost, check_chunk *chunk, void *context)
{
    if (count <= 0)
        return;
    loop self = { .chunk = chunk,
                  .context = context,
                  .count = count,
                  .chunks = count < CHECK_CHUNKS ? (int)count : CHECK_CHUNKS };
    const double worth = (double)count * cost / WORTH;
    const int max = worth < MAX_THREADS ? (int)worth : MAX_THREADS;
    const int taken = worth < 2 ? 0 : take_cores(max - 1);
    pthread_t others[MAX_THREADS];
    int started = 0;
    while (started < taken && talc_thread_start(&others[started], work_on, &self))
        started++;
    work_on(&self);
    for (int i = 0; i < started; i++)
        pthread_join(others[i], NULL);
    talc_check_busy(-taken);
}
