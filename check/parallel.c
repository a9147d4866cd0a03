#include "check/parallel.h"

#include "backends/backends.h"

#include <pthread.h>
#include <stdatomic.h>

enum { MOST_THREADS = 64 };

/* Nanoseconds of work that are worth starting one more thread. */
static const double WORTH = 3e5;

typedef struct loop {
    check_piece *piece;
    void *context;
    int64_t count;
    int pieces;
    atomic_int next;
} loop;

static void *work_on(void *context)
{
    loop *self = context;
    for (;;) {
        const int i = atomic_fetch_add(&self->next, 1);
        if (i >= self->pieces)
            return NULL;
        const int64_t whole = self->count / self->pieces, rest = self->count % self->pieces;
        const int64_t first = i * whole + (i < rest ? i : rest);
        self->piece(self->context, i, first, first + whole + (i < rest));
    }
}

void talc_check_parallel(int64_t count, double cost, check_piece *piece, void *context)
{
    if (count <= 0)
        return;
    loop self = { .piece = piece,
                  .context = context,
                  .count = count,
                  .pieces = count < CHECK_PIECES ? (int)count : CHECK_PIECES };
    const double worth = (double)count * cost / WORTH;
    int threads = worth < 2 ? 1 : talc_threads();
    threads = threads > worth ? (int)worth : threads;
    threads = threads > MOST_THREADS ? MOST_THREADS : threads;
    pthread_t others[MOST_THREADS];
    int started = 0;
    while (started + 1 < threads && pthread_create(&others[started], NULL, work_on, &self) == 0)
        started++;
    work_on(&self);
    for (int i = 0; i < started; i++)
        pthread_join(others[i], NULL);
}
