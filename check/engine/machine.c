#include "check/engine/machine.h"

#include <pthread.h>

/* Where a system does not say what is free. */
static const double MIN_SHARED = 64e6;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static long long tickets, served; /* handed out, let in */
static int inside;
static double taken, shared;

static bool has_capacity(double bytes)
{
    return inside == 0 || taken + bytes <= shared;
}

/* A quarter of what is free. */
static double quarter(talc_device *device)
{
    const double free = (double)talc_device_memory(device).free;
    return free > 0 ? free / 4 : MIN_SHARED;
}

void talc_check_machine_enter(talc_device *device, double bytes)
{
    pthread_mutex_lock(&lock);
    const long long ticket = tickets++;
    while (ticket != served || !has_capacity(bytes))
        pthread_cond_wait(&changed, &lock);
    if (inside == 0) {
        const double here = quarter(talc_device_host());
        const double there = talc_device_is_host(device) ? here : quarter(device);
        shared = here < there ? here : there;
    }
    served++;
    inside++;
    taken += bytes;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

void talc_check_machine_leave(double bytes)
{
    pthread_mutex_lock(&lock);
    inside--;
    taken = inside == 0 ? 0 : taken - bytes;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}
