#define _DEFAULT_SOURCE /* madvise */

#include "backends/cpu/cpu.h"

#include "backends/cpu/device/threads.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "tensor/memory.h"
#include "tensor/pool.h"
#include "tensor/shown.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* A cache line, and the widest vector register. */
static const size_t ALIGNMENT = 64;

/* Blocks that hold a huge page start on one, and ask for them: one fault then maps 2 MiB instead of
 * 4 KiB. */
static const size_t HUGE_PAGE = (size_t)2 << 20;
static const size_t HUGE_FROM = (size_t)2 << 20;

static const size_t DEFAULT_WORKSPACE = (size_t)32 << 20;

static void *allocate(talc_device *device, size_t bytes)
{
    (void)device;
    void *data = NULL;
    if (posix_memalign(&data, bytes >= HUGE_FROM ? HUGE_PAGE : ALIGNMENT, bytes) != 0)
        return NULL;
    /* Advice: without huge pages it only runs slower. */
    if (bytes >= HUGE_FROM)
        (void)madvise(data, bytes, MADV_HUGEPAGE);
    return data;
}

static void deallocate(talc_device *device, void *data, size_t bytes)
{
    (void)device;
    (void)bytes;
    free(data);
}

static talc_status move(talc_device *device, void *dst, const void *src, size_t bytes)
{
    (void)device;
    memcpy(dst, src, bytes);
    return TALC_OK;
}

static talc_status synchronize(talc_device *device)
{
    (void)device;
    return TALC_OK;
}

/* Work is done when its call returns, so that the clock at both ends is the time between. */
static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static talc_status timer_start(talc_device *device, void **timer)
{
    (void)device;
    double *start = *timer = talc_memory_new(sizeof *start, "timer_start");
    if (start == NULL)
        return talc_error_status();
    *start = now();
    return TALC_OK;
}

static talc_status timer_stop(talc_device *device, void *timer, double *seconds)
{
    (void)device;
    *seconds = now() - *(const double *)timer;
    talc_memory_free(timer);
    return TALC_OK;
}

/* The value after "model name : " in /proc/cpuinfo. */
static void processor_name(char *text, size_t size)
{
    snprintf(text, size, "CPU");
    /* It stands in the first processor's lines. A FILE would take memory. */
    char lines[1024];
    const int descriptor = open("/proc/cpuinfo", O_RDONLY | O_CLOEXEC);
    const ssize_t got = descriptor < 0 ? -1 : read(descriptor, lines, sizeof lines - 1);
    if (descriptor >= 0)
        (void)close(descriptor);
    lines[got < 0 ? 0 : got] = '\0';
    char *line = strstr(lines, "model name"), *colon = line == NULL ? NULL : strchr(line, ':');
    if (colon == NULL)
        return;
    colon[strcspn(colon, "\n")] = '\0';
    snprintf(text, size, "%s", colon + 1 + strspn(colon + 1, " "));
}

static void properties(talc_device *device, talc_device_properties *properties)
{
    (void)device;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    processor_name(properties->description, sizeof properties->description);
    properties->units = talc_cpu_threads();
    properties->memory_total = (size_t)sysconf(_SC_PHYS_PAGES) * page;
    properties->memory_free = (size_t)sysconf(_SC_AVPHYS_PAGES) * page;
}

static const talc_device_interface interface = {
    .allocate = allocate,
    .deallocate = deallocate,
    .copy = talc_cpu_copy,
    .join = talc_cpu_join,
    .fill = talc_cpu_fill,
    .random = talc_cpu_random,
    .upload = move,
    .download = move,
    .synchronize = synchronize,
    .timer_start = timer_start,
    .timer_stop = timer_stop,
    .properties = properties,
    .add = talc_add,
    .sum = talc_sum,
};

static talc_device cpu = { .name = "cpu",
                           .is_host = true,
                           .interface = &interface,
                           .backend = &talc_cpu_backend,
                           .workspace_limit = DEFAULT_WORKSPACE };
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

talc_device *talc_cpu_find(const char *name)
{
    if (strcmp(name, "cpu") != 0 && strcmp(name, "cpu:0") != 0) {
        talc_fail(TALC_BAD_DEVICE,
                  "device_get: there is no device '%s'; the CPU is one device, cpu",
                  TALC_SHOWN(name));
        return NULL;
    }
    pthread_mutex_lock(&opening);
    if (cpu.pool == NULL)
        talc_device_open(&cpu); /* fails only without memory for the pool's record */
    pthread_mutex_unlock(&opening);
    return cpu.pool == NULL ? NULL : &cpu;
}

/* After the main thread's scopes, which end in a destructor of default priority. Other threads may
 * still compute, so the device stays open. */
__attribute__((destructor(200))) static void trim_at_exit(void)
{
    (void)talc_memory_trim(&cpu);
}

/* Another thread may have been opening the device. */
static void after_fork_in_child(void)
{
    pthread_mutex_init(&opening, NULL);
}

__attribute__((constructor)) static void watch_forks(void)
{
    (void)pthread_atfork(NULL, NULL, after_fork_in_child);
}
