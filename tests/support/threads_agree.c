#include "tests/support/threads_agree.h"

#include "tests/support/guard.h"
#include "tests/support/hooks.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 4 };

typedef struct shared {
    talc_module *module;
    talc_tensor *x;
    pthread_barrier_t start;
} shared;

static void *apply(void *pointer)
{
    shared *with = pointer;
    talc_no_grad_enter();
    pthread_barrier_wait(&with->start);
    talc_tensor *y = talc_forward(with->module, with->x);
    return y == NULL ? NULL : host_doubles(y);
}

void assert_threads_agree(talc_module *module, talc_tensor *x)
{
    shared with = { .module = module, .x = x };
    pthread_t threads[THREADS];
    double *y[THREADS];
    pthread_barrier_init(&with.start, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, apply, &with);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], (void **)&y[i]);
    talc_tensor *expected = talc_forward(module, x);
    owned_double *host_expected = host_doubles(expected);
    for (int i = 0; i < THREADS; i++) {
        cr_assert(y[i] != NULL &&
                  memcmp(y[i], host_expected, (size_t)talc_numel(expected) * sizeof **y) == 0);
        free(y[i]);
    }
    pthread_barrier_destroy(&with.start);
}
