#include "backends/cuda/device/users.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

/* A thread is counted before it looks whether the process ends, and the one that ends the process
 * says so before it counts: one of both sees the other. A late one that was counted is in no call
 * of CUDA, and counted as told. */
static atomic_int users, told;
static atomic_bool ending;
static _Thread_local bool counted, was_told, ends;

/* What the thread's scopes hold may be freed after this, which counts it again. */
static void user_ends(void *unused)
{
    (void)unused;
    atomic_fetch_sub(&users, 1);
    atomic_fetch_sub(&told, was_told);
    counted = was_told = false;
}

static pthread_key_t user_end;

static void make_user_end(void)
{
    (void)pthread_key_create(&user_end, user_ends);
}

void talc_cuda_user_count(void)
{
    static pthread_once_t made = PTHREAD_ONCE_INIT;
    if (counted)
        return;
    pthread_once(&made, make_user_end);
    if (pthread_setspecific(user_end, &users) != 0)
        return;
    atomic_fetch_add(&users, 1);
    counted = true;
}

bool talc_cuda_user_late(void)
{
    if (ends || !atomic_load(&ending))
        return false;
    atomic_fetch_add(&told, counted && !was_told);
    was_told = counted;
    return true;
}

static int others(void)
{
    return atomic_load(&users) - counted;
}

int talc_cuda_users_end(void)
{
    ends = true;
    atomic_store(&ending, true);
    return others();
}

/* Long enough for a thread that loads its first kernel. */
void talc_cuda_users_await(void)
{
    enum { MILLISECONDS = 200 };
    for (int i = 0; i < MILLISECONDS && atomic_load(&told) < others(); i++)
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
}
