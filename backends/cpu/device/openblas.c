#define _GNU_SOURCE /* sched_setaffinity, MAP_ANONYMOUS */

#include "backends/cpu/device/openblas.h"

#include "backends/cpu/device/threads.h"
#include "backends/cpu/primitives/processor.h"
#include "tensor/environment.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* What OpenBLAS is built with for x86-64, and the library's own size; the margin is for whoever
 * else allocates meanwhile. */
static const size_t BUFFER_BYTES = (size_t)128 << 20;
static const size_t LIBRARY_BYTES = (size_t)48 << 20;
static const size_t MARGIN_BYTES = (size_t)8 << 20;

/* OpenBLAS is built for so many processors, and ends the process where several times as many
 * threads are in it. */
enum { MAX_BUFFERS = 64 };

/* A product in flight is waited for so long at a fork and at the process's end. */
enum { TIMEOUT_SECONDS = 1 };

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    talc_openblas_functions call;
    void *library;    /* NULL until it is open */
    char reason[160]; /* why it cannot be used */
    int buffers;      /* as many threads may be in it; 0 while it cannot be used */
    int busy;         /* threads in it */
    int threads;      /* the program's own setting, while threads are in it */
    int waiting;      /* for one to leave */
    bool interrupted; /* in a child of fork: another thread was in it then */
    bool ending;      /* the process ends: no thread but `last` enters any more */
    pthread_t last;
} blas = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

static _Thread_local bool inside;

// ---- Address space ------------------------------------------------------------------------------

/* Whether so much address space can be had, found out by having it. */
static bool has_capacity(size_t bytes)
{
    void *data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return data != MAP_FAILED && munmap(data, bytes) == 0;
}

/* What is left of the process's address space; SIZE_MAX where it has no limit. */
static size_t address_space_left(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return SIZE_MAX;
    char text[64] = "";
    FILE *file = fopen("/proc/self/statm", "r");
    const bool known = file != NULL && fgets(text, sizeof text, file) != NULL;
    if (file != NULL)
        fclose(file);
    const size_t used = (size_t)strtoull(text, NULL, 10) * (size_t)sysconf(_SC_PAGESIZE);
    return known && used < limit.rlim_cur ? (size_t)limit.rlim_cur - used : 0;
}

// ---- Opening ------------------------------------------------------------------------------------

/* OpenBLAS starts a thread, with a buffer, for each processor that the thread which opens it may
 * use. talc divides the work itself and needs none of them. */
static void *open_on_one_processor(const char *name)
{
    cpu_set_t allowed, one;
    CPU_ZERO(&one);
    const int processor = sched_getcpu();
    const bool narrowed = processor >= 0 && processor < CPU_SETSIZE &&
                          sched_getaffinity(0, sizeof allowed, &allowed) == 0 &&
                          (CPU_SET((unsigned)processor, &one), true) &&
                          sched_setaffinity(0, sizeof one, &one) == 0;
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (narrowed)
        (void)sched_setaffinity(0, sizeof allowed, &allowed);
    return library;
}

/* The same for another processor than OpenBLAS would take. Threads may read the environment
 * meanwhile, which setenv could move: so another array takes its place, for good, even where talc
 * is unloaded. */
static void *open_for_core(const char *name, const char *core)
{
    enum { MAX_VARIABLES = 1000 };
    static char setting[64];
    const size_t bytes = (MAX_VARIABLES + 2) * sizeof(char *);
    char **const with =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char **from;
    size_t count;
    if (with == MAP_FAILED)
        return open_on_one_processor(name);
    snprintf(setting, sizeof setting, "OPENBLAS_CORETYPE=%s", core);
    do {
        from = environ;
        for (count = 0; from != NULL && from[count] != NULL && count < MAX_VARIABLES; count++)
            with[count] = from[count];
        if (count == MAX_VARIABLES) {
            (void)munmap(with, bytes);
            return open_on_one_processor(name);
        }
        with[count] = setting;
        with[count + 1] = NULL;
    } while (from != NULL && memcmp(from, with, count * sizeof *with) != 0);
    environ = with;
    void *library = open_on_one_processor(name);
    (void)unsetenv("OPENBLAS_CORETYPE");
    return library;
}

/* C has no cast from an object pointer to a function pointer; POSIX has the assignment through
 * one. */
#define FUNCTION_LOAD(name)                                                                        \
    if (missing == NULL && (*(void **)&blas.call.name = dlsym(library, #name)) == NULL)            \
        missing = #name;

static const char *load_functions(void *library)
{
    const char *missing = NULL;
    TALC_OPENBLAS_FUNCTIONS(FUNCTION_LOAD)
    return missing;
}

/* Whether the processor has what OpenBLAS's kernels for SkylakeX use. */
static bool has_skylake(void)
{
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
#else
    return false;
#endif
}

const char *talc_openblas_better_core(void)
{
    static const char *const wide[] = { "SkylakeX", "Cooperlake", "Sapphirerapids" },
                             *const narrow[] = { "Haswell", "Zen", "Excavator" };
    const char *vectors = talc_cpu_microkernels_used()->name;
    const char *core = blas.call.openblas_get_corename();
    const bool avx512 = strcmp(vectors, "avx512") == 0 && has_skylake();
    if (!avx512 && strcmp(vectors, "portable") == 0)
        return NULL;
    for (int i = 0; i < 3; i++)
        if (strcasecmp(core, wide[i]) == 0 || (!avx512 && strcasecmp(core, narrow[i]) == 0))
            return NULL;
    return avx512 ? wide[0] : narrow[0];
}

static bool open_library(void)
{
    if (!has_capacity(LIBRARY_BYTES + BUFFER_BYTES + MARGIN_BYTES)) {
        snprintf(blas.reason, sizeof blas.reason,
                 "OpenBLAS needs %zu MiB of address space, more than there is",
                 (LIBRARY_BYTES + BUFFER_BYTES + MARGIN_BYTES) >> 20);
        return false;
    }
    static const char *const names[] = { "libopenblas.so.0", "libopenblas.so" };
    void *library = NULL;
    const char *error = NULL; /* why one that is there does not open */
    int i = 0;
    for (; i < 2 && library == NULL && error == NULL; i++) {
        library = open_on_one_processor(names[i]);
        error = library != NULL ? NULL : dlerror();
        if (error != NULL && strstr(error, "No such file") != NULL)
            error = NULL;
    }
    if (library == NULL && error == NULL)
        snprintf(blas.reason, sizeof blas.reason, "OpenBLAS is not installed (%s)", names[0]);
    else if (library == NULL)
        snprintf(blas.reason, sizeof blas.reason, "OpenBLAS cannot be opened: %s", error);
    if (library == NULL)
        return false;
    const char *missing = load_functions(library);
    const char *core = missing == NULL ? talc_openblas_better_core() : NULL;
    if (core != NULL && !talc_environment()->openblas_core) {
        (void)dlclose(library);
        library = open_for_core(names[i - 1], core);
        library = library != NULL ? library : open_on_one_processor(names[i - 1]);
        if (library == NULL) {
            error = dlerror();
            snprintf(blas.reason, sizeof blas.reason, "OpenBLAS cannot be opened again: %s",
                     error != NULL ? error : names[i - 1]);
            return false;
        }
        missing = load_functions(library);
    }
    if (missing == NULL) {
        blas.library = library;
        return true;
    }
    snprintf(blas.reason, sizeof blas.reason, "the OpenBLAS found has no %s", missing);
    (void)dlclose(library);
    return false;
}

/* How many buffers there may be: one for each processor, of address space that is limited at most
 * half, and one in a library that is built for one thread at a time. */
static int max_buffers(void)
{
    const int processors = talc_cpu_processors();
    const size_t left = address_space_left(), fitting = left / 2 / BUFFER_BYTES;
    const size_t max = processors < MAX_BUFFERS ? (size_t)processors : MAX_BUFFERS;
    if (blas.call.openblas_get_parallel() == OPENBLAS_SEQUENTIAL &&
        strstr(blas.call.openblas_get_config(), "USE_LOCKING") == NULL)
        return 1;
    return (int)(fitting >= max ? max : fitting > 1 ? fitting : 1);
}

/* A product too large for the stack and for the kernels that pack nothing, so that it takes a
 * buffer. */
static void multiply_once(void)
{
    enum { N = 128 };
    static float zeros[N * N], result[N * N];
    blas.call.cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, N, N, N, 1, zeros, N, zeros, N,
                          0, result, N);
}

/* OpenBLAS's own functions for its buffers, which no header of it declares. Without them one buffer
 * is had for sure. */
static int take_buffers(void)
{
    void *(*take)(int) = NULL;
    void (*give)(void *) = NULL;
    *(void **)&take = dlsym(blas.library, "blas_memory_alloc");
    *(void **)&give = dlsym(blas.library, "blas_memory_free");
    const int max = max_buffers();
    void *taken[MAX_BUFFERS];
    int count = 0;
    while (count < max && has_capacity(BUFFER_BYTES + MARGIN_BYTES)) {
        if (take == NULL || give == NULL) {
            multiply_once();
            return address_space_left() == SIZE_MAX ? max : 1;
        }
        taken[count] = take(0);
        if (taken[count] == NULL)
            break;
        count++;
    }
    for (int i = 0; i < count; i++)
        give(taken[i]);
    if (count == 0)
        snprintf(blas.reason, sizeof blas.reason,
                 "OpenBLAS needs %zu MiB of address space for a thread, more than there is",
                 (BUFFER_BYTES + MARGIN_BYTES) >> 20);
    return count;
}

/* Until when a wait that begins now lasts. */
static struct timespec deadline(void)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += TIMEOUT_SECONDS;
    return until;
}

/* With the lock: false when threads are still in it after a while. */
static bool wait_until_idle(void)
{
    const struct timespec until = deadline();
    int error = 0;
    blas.waiting++;
    while (blas.busy > 0 && error == 0)
        error = pthread_cond_timedwait(&blas.changed, &blas.lock, &until);
    blas.waiting--;
    return blas.busy == 0;
}

/* OpenBLAS gives its buffers back when the process ends, whoever is in it. Other threads' products
 * end before, and they begin no more; what this thread still computes, in the program's own exit
 * handlers, it computes alone. */
static void end_at_exit(void)
{
    const struct timespec until = deadline();
    /* Not for ever: exit may be called by a signal handler of a thread that has the lock. */
    if (inside || pthread_mutex_timedlock(&blas.lock, &until) != 0)
        return;
    blas.ending = true;
    blas.last = pthread_self();
    (void)wait_until_idle();
    pthread_mutex_unlock(&blas.lock);
    talc_cpu_stay_alone();
}

const char *talc_openblas_refuses(void)
{
    if (talc_openblas_buffers() > 0)
        return NULL;
    pthread_mutex_lock(&blas.lock);
    const bool first = blas.library == NULL;
    if (blas.buffers == 0 && !blas.interrupted && (!first || open_library())) {
        const int buffers = take_buffers();
        if (first)
            (void)atexit(end_at_exit);
        __atomic_store_n(&blas.buffers, buffers, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&blas.lock);
    return talc_openblas_buffers() > 0 ? NULL : blas.reason;
}

const talc_openblas_functions *talc_openblas(void)
{
    return &blas.call;
}

int talc_openblas_buffers(void)
{
    return __atomic_load_n(&blas.buffers, __ATOMIC_ACQUIRE);
}

// ---- Who is in it -------------------------------------------------------------------------------

static bool may_enter(void)
{
    return blas.busy < blas.buffers &&
           (!blas.ending || pthread_equal(blas.last, pthread_self()) != 0);
}

static void set_threads(int threads)
{
    if (blas.threads != 1)
        blas.call.openblas_set_num_threads(threads);
}

void talc_openblas_enter(void)
{
    pthread_mutex_lock(&blas.lock);
    blas.waiting++;
    while (!may_enter())
        pthread_cond_wait(&blas.changed, &blas.lock);
    blas.waiting--;
    if (blas.busy++ == 0) {
        blas.threads = blas.call.openblas_get_num_threads();
        set_threads(1);
    }
    pthread_mutex_unlock(&blas.lock);
    inside = true;
}

void talc_openblas_leave(void)
{
    inside = false;
    pthread_mutex_lock(&blas.lock);
    if (--blas.busy == 0)
        set_threads(blas.threads);
    if (blas.waiting > 0)
        pthread_cond_broadcast(&blas.changed);
    pthread_mutex_unlock(&blas.lock);
}

// ---- Forks --------------------------------------------------------------------------------------

/* A child has what OpenBLAS holds as the fork found it, so nobody is in it then. */
static void before_fork(void)
{
    pthread_mutex_lock(&blas.lock);
    (void)wait_until_idle();
}

static void after_fork(void)
{
    pthread_mutex_unlock(&blas.lock);
}

static void after_fork_in_child(void)
{
    pthread_mutex_init(&blas.lock, NULL);
    pthread_cond_init(&blas.changed, NULL);
    if (blas.busy > 0) {
        snprintf(blas.reason, sizeof blas.reason,
                 "OpenBLAS was multiplying for another thread when this process was forked");
        blas.interrupted = true;
        blas.buffers = 0;
    }
    blas.busy = 0;
    blas.waiting = 0;
}

__attribute__((constructor)) static void watch_forks(void)
{
    (void)pthread_atfork(before_fork, after_fork, after_fork_in_child);
}
