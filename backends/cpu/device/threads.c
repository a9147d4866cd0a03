/* For sched_getaffinity: a container may grant fewer processors than the machine has. */
#define _GNU_SOURCE

#include "backends/cpu/device/threads.h"

#include "backends/backends.h"
#include "tensor/environment.h"
#include "tensor/thread.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

/* Waking a sleeping thread takes as long as a small op. So a waiting thread spins this often, some
 * tens of microseconds, before it sleeps: the ops of a network follow each other faster than
 * that. */
enum { MAX_THREADS = 1024, LOOKS = 2000 };

/* One call of talc_cpu_parallel. */
typedef struct parallel_job {
    talc_task_function *task;
    void *context;
    int64_t count;
    _Atomic int64_t next;
    atomic_bool failed;
    talc_status status;
    char message[1024];
} parallel_job;

static struct {
    pthread_mutex_t busy; /* held by the caller whose job runs */
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t wake, done;
    pthread_t threads[MAX_THREADS];
    int wanted;          /* threads in all, the caller included; 0 until first asked */
    int started;         /* worker threads alive */
    bool looks;          /* every thread has a processor to itself, so waiting awake costs nobody */
    _Atomic int working; /* worker threads that have not finished the current job */
    _Atomic unsigned generation; /* counts jobs, so that a worker takes each once */
    bool stopping;
    parallel_job *current;
} pool = { .busy = PTHREAD_MUTEX_INITIALIZER,
           .lock = PTHREAD_MUTEX_INITIALIZER,
           .wake = PTHREAD_COND_INITIALIZER,
           .done = PTHREAD_COND_INITIALIZER };

static _Thread_local bool inside_task;

int talc_cpu_processors(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return CPU_COUNT(&set);
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (int)online : 1;
}

int talc_cpu_threads(void)
{
    pthread_mutex_lock(&pool.lock);
    if (pool.wanted == 0) {
        int threads = talc_environment()->threads;
        threads = threads > 0 ? threads : talc_cpu_processors();
        pool.wanted = threads < MAX_THREADS ? threads : MAX_THREADS;
    }
    int wanted = pool.wanted;
    pthread_mutex_unlock(&pool.lock);
    return wanted;
}

size_t talc_cpu_workspace(int64_t tasks, size_t shared, size_t slice, size_t limit)
{
    const size_t fitting = limit > shared ? (limit - shared) / slice : 0;
    int64_t workers = talc_cpu_threads();
    workers = tasks < workers ? tasks : workers;
    workers = fitting < (size_t)workers ? (int64_t)fitting : workers;
    return shared + slice * (size_t)(workers > 1 ? workers : 1);
}

int talc_threads(void)
{
    return talc_cpu_threads();
}

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

/* The two things that threads wait for. They are read again under the lock; here only to stay awake
 * for them. */
static void look_for_job(unsigned seen)
{
    for (int i = 0; pool.looks && i < LOOKS && atomic_load(&pool.generation) == seen; i++)
        relax();
}

static void look_for_end(void)
{
    for (int i = 0; pool.looks && i < LOOKS && atomic_load(&pool.working) > 0; i++)
        relax();
}

static void work_on(parallel_job *job, int worker)
{
    inside_task = true;
    for (int64_t i = atomic_fetch_add(&job->next, 1); i < job->count;
         i = atomic_fetch_add(&job->next, 1)) {
        job->task(job->context, i, worker);
        if (talc_failed() && !atomic_exchange(&job->failed, true)) {
            job->status = talc_error_status();
            snprintf(job->message, sizeof job->message, "%s", talc_error_message());
        }
        talc_error_clear();
    }
    inside_task = false;
}

static void *worker_main(void *argument)
{
    int worker = (int)(intptr_t)argument;
    unsigned seen = 0;
    for (;;) {
        look_for_job(seen);
        pthread_mutex_lock(&pool.lock);
        while (!pool.stopping && (pool.current == NULL || pool.generation == seen))
            pthread_cond_wait(&pool.wake, &pool.lock);
        if (pool.stopping)
            break;
        seen = pool.generation;
        parallel_job *job = pool.current;
        pthread_mutex_unlock(&pool.lock);
        work_on(job, worker);
        pthread_mutex_lock(&pool.lock);
        if (--pool.working == 0)
            pthread_cond_signal(&pool.done);
        pthread_mutex_unlock(&pool.lock);
    }
    pthread_mutex_unlock(&pool.lock);
    return NULL;
}

/* After a fork only the calling thread is left, so the child's pool starts anew. */
static void forget_threads(void)
{
    pthread_mutex_init(&pool.busy, NULL);
    pthread_mutex_init(&pool.lock, NULL);
    pthread_cond_init(&pool.wake, NULL);
    pthread_cond_init(&pool.done, NULL);
    pool.started = 0;
    pool.working = 0;
    pool.current = NULL;
    inside_task = false;
}

__attribute__((constructor)) static void watch_forks(void)
{
    (void)pthread_atfork(NULL, NULL, forget_threads);
}

/* Called with `busy` held, so no job runs. */
static void stop_threads(void)
{
    pthread_mutex_lock(&pool.lock);
    pool.stopping = true;
    pthread_cond_broadcast(&pool.wake);
    int started = pool.started;
    pthread_mutex_unlock(&pool.lock);
    for (int i = 0; i < started; i++)
        pthread_join(pool.threads[i], NULL);
    pool.stopping = false;
    pool.started = 0;
}

static void start_threads(int workers)
{
    if (pool.started == 0) /* no worker reads it yet */
        pool.looks = workers < talc_cpu_processors();
    /* With fewer threads than wanted the work still gets done. */
    while (pool.started < workers && talc_thread_start(&pool.threads[pool.started], worker_main,
                                                       (void *)(intptr_t)(pool.started + 1)))
        pool.started++;
}

__attribute__((destructor(300))) static void stop_at_exit(void)
{
    if (pthread_mutex_trylock(&pool.busy) != 0)
        return; /* another thread still computes; the process ends under it */
    stop_threads();
    pthread_mutex_unlock(&pool.busy);
}

bool talc_set_threads(int threads)
{
    if (talc_failed())
        return false;
    if (threads < 1 || threads > MAX_THREADS) {
        talc_fail(TALC_BAD_ARGUMENT, "set_threads: %d threads are outside 1..%d", threads,
                  MAX_THREADS);
        return false;
    }
    pthread_mutex_lock(&pool.busy);
    stop_threads();
    pthread_mutex_lock(&pool.lock);
    pool.wanted = threads;
    pthread_mutex_unlock(&pool.lock);
    pthread_mutex_unlock(&pool.busy);
    return true;
}

void talc_cpu_stay_alone(void)
{
    inside_task = true;
}

static talc_status run_alone(parallel_job *job)
{
    /* The caller's own failure record serves: no failure stands when an op runs. */
    bool nested = inside_task;
    inside_task = true;
    for (int64_t i = 0; i < job->count && !talc_failed(); i++)
        job->task(job->context, i, 0);
    inside_task = nested;
    return talc_error_status();
}

talc_status talc_cpu_parallel(int64_t count, talc_task_function *task, void *context)
{
    parallel_job job = { .task = task, .context = context, .count = count };
    int threads = talc_cpu_threads();
    if (count < 2 || threads < 2 || inside_task || pthread_mutex_trylock(&pool.busy) != 0)
        return run_alone(&job);

    start_threads(threads - 1);
    pthread_mutex_lock(&pool.lock);
    pool.current = &job;
    pool.working = pool.started;
    pool.generation++;
    pthread_cond_broadcast(&pool.wake);
    pthread_mutex_unlock(&pool.lock);

    work_on(&job, 0);
    look_for_end();

    pthread_mutex_lock(&pool.lock);
    while (pool.working > 0)
        pthread_cond_wait(&pool.done, &pool.lock);
    pool.current = NULL;
    pthread_mutex_unlock(&pool.lock);
    pthread_mutex_unlock(&pool.busy);
    return atomic_load(&job.failed) ? talc_fail(job.status, "%s", job.message) : TALC_OK;
}

/* Work whose tasks are themselves workers, each of which takes the next of the caller's tasks until
 * none is left. */
typedef struct limited_job {
    talc_task_function *task;
    void *context;
    int64_t count;
    _Atomic int64_t next;
} limited_job;

static void limited_worker(void *context, int64_t slot, int worker)
{
    (void)worker;
    limited_job *job = context;
    for (int64_t i = atomic_fetch_add(&job->next, 1); i < job->count && !talc_failed();
         i = atomic_fetch_add(&job->next, 1))
        job->task(job->context, i, (int)slot);
}

talc_status talc_cpu_parallel_limited(int64_t count, int workers, talc_task_function *task,
                                      void *context)
{
    limited_job job = { .task = task, .context = context, .count = count };
    return talc_cpu_parallel(count < workers ? count : workers, limited_worker, &job);
}
