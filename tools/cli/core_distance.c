/* For affinities of threads. */
#define _GNU_SOURCE

#include "tools/cli/core_distance.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

/* Trips are timed some at a time, and the least time counts, as other programs interrupt some. */
enum { TRIPS = 100, ROUNDS = 20, OTHERS = 16 };

typedef struct ping {
    _Alignas(128) atomic_int turn; /* odd: the answering thread's */
    _Alignas(128) atomic_bool pinned;
    cpu_set_t core;
} ping;

static void *answer(void *context)
{
    ping *self = context;
    atomic_store(&self->pinned,
                 pthread_setaffinity_np(pthread_self(), sizeof self->core, &self->core) == 0);
    for (int i = 0; i < TRIPS * ROUNDS; i++) {
        while (atomic_load(&self->turn) != 2 * i + 1)
            ;
        atomic_store(&self->turn, 2 * i + 2);
    }
    return NULL;
}

/* Seconds from the core that this thread keeps to, to another one and back; INFINITY where the
 * other is not to be had. */
static double distance_to(int core)
{
    static ping self;
    atomic_store(&self.turn, 0);
    CPU_ZERO(&self.core);
    CPU_SET(core, &self.core);
    pthread_t thread;
    if (pthread_create(&thread, NULL, answer, &self) != 0)
        return INFINITY;
    double least = INFINITY;
    for (int round = 0; round < ROUNDS; round++) {
        struct timespec start, end;
        clock_gettime(CLOCK_MONOTONIC, &start);
        for (int i = round * TRIPS; i < (round + 1) * TRIPS; i++) {
            atomic_store(&self.turn, 2 * i + 1);
            while (atomic_load(&self.turn) != 2 * i + 2)
                ;
        }
        clock_gettime(CLOCK_MONOTONIC, &end);
        least = fmin(least, (double)(end.tv_sec - start.tv_sec) +
                                1e-9 * (double)(end.tv_nsec - start.tv_nsec));
    }
    pthread_join(thread, NULL);
    return atomic_load(&self.pinned) ? least / TRIPS : INFINITY;
}

core_distance core_distance_measure(void)
{
    core_distance found = { 0, 0 };
    cpu_set_t allowed, one;
    int first = 0, others = 0;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return found;
    while (first < CPU_SETSIZE && !CPU_ISSET(first, &allowed))
        first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    if (first == CPU_SETSIZE || sched_setaffinity(0, sizeof one, &one) != 0)
        return found;
    for (int core = first + 1; core < CPU_SETSIZE && others < OTHERS; core++) {
        const double seconds = CPU_ISSET(core, &allowed) ? distance_to(core) : INFINITY;
        if (isinf(seconds))
            continue;
        found.least = others == 0 ? seconds : fmin(found.least, seconds);
        found.most = fmax(found.most, seconds);
        others++;
    }
    (void)sched_setaffinity(0, sizeof allowed, &allowed);
    return found;
}
