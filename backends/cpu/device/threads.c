/* For affinities: a container may grant fewer processors than the machine has. */
#define _GNU_SOURCE

#include "backends/cpu/device/threads.h"

#include "backends/backends.h"
#include "tensor/environment.h"
#include "tensor/extent.h"
#include "tensor/thread.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

/* Waking a sleeping thread takes as long as a small op. So a waiting thread spins this often, some
 * tens of microseconds, before it sleeps: the ops of a network follow each other faster than
 * that. */
enum { MAX_THREADS = 1024, SPINS = 2000, LINE = 64 };

/* One call of talc_cpu_parallel. */
typedef struct parallel_job {
    talc_task_function *task;
    void *context;
    int64_t count;
    int workers; /* that are called for it, the caller included */
    atomic_bool failed;
    talc_status status;
    char message[1024];
} parallel_job;

/* One thread, in cache lines of its own: it spins on them. */
typedef struct pool_worker {
    _Alignas(LINE) _Atomic unsigned called; /* counts the jobs that it is called for */
    atomic_bool asleep;
    pthread_cond_t wake;
    pthread_t thread;
    _Alignas(LINE) _Atomic int64_t next; /* of its share of the tasks */
} pool_worker;

/* Threads enter a job while it is open. The caller closes it when no task is left and waits for
 * those inside, not for a thread that has yet to wake. */
enum { CLOSED = 1, INSIDE = 2 };

static struct {
    pthread_mutex_t busy; /* held by the caller whose job runs */
    pthread_mutex_t lock; /* of those who fall asleep and who wake them, and of `wanted` */
    pthread_cond_t done;
    pool_worker worker[MAX_THREADS]; /* 0: whoever calls */
    int wanted;                      /* threads in all; 0 until first asked */
    int started;                     /* worker threads alive */
    bool spins; /* every thread has a processor to itself, so waiting awake costs nobody */
    atomic_bool stopping;
    _Atomic unsigned state; /* CLOSED or 0, and INSIDE for each worker thread in the job */
    parallel_job job;
} pool = { .busy = PTHREAD_MUTEX_INITIALIZER,
           .lock = PTHREAD_MUTEX_INITIALIZER,
           .done = PTHREAD_COND_INITIALIZER,
           .state = CLOSED };

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

static void wait_for_call(pool_worker *self, unsigned seen)
{
    for (int i = 0; pool.spins && i < SPINS && atomic_load(&self->called) == seen; i++)
        relax();
    if (atomic_load(&self->called) != seen)
        return;
    pthread_mutex_lock(&pool.lock);
    atomic_store(&self->asleep, true); /* before `called` is read, which who calls writes first */
    while (atomic_load(&self->called) == seen)
        pthread_cond_wait(&self->wake, &pool.lock);
    atomic_store(&self->asleep, false);
    pthread_mutex_unlock(&pool.lock);
}

static void call_worker(pool_worker *worker)
{
    atomic_fetch_add(&worker->called, 1);
    if (!atomic_load(&worker->asleep))
        return;
    pthread_mutex_lock(&pool.lock);
    pthread_cond_signal(&worker->wake);
    pthread_mutex_unlock(&pool.lock);
}

static bool enter_job(void)
{
    return (atomic_fetch_add(&pool.state, INSIDE) & CLOSED) == 0;
}

static void leave_job(void)
{
    if (atomic_fetch_sub(&pool.state, INSIDE) != (CLOSED | INSIDE))
        return;
    pthread_mutex_lock(&pool.lock);
    pthread_cond_signal(&pool.done);
    pthread_mutex_unlock(&pool.lock);
}

static void wait_for_end(void)
{
    for (int i = 0; pool.spins && i < SPINS && atomic_load(&pool.state) != CLOSED; i++)
        relax();
    if (atomic_load(&pool.state) == CLOSED)
        return;
    pthread_mutex_lock(&pool.lock);
    while (atomic_load(&pool.state) != CLOSED)
        pthread_cond_wait(&pool.done, &pool.lock);
    pthread_mutex_unlock(&pool.lock);
}

/* The first task of a worker's share: the tasks in equal parts, as they are numbered. */
static int64_t share_of(const parallel_job *job, int worker)
{
    return job->count / job->workers * worker + talc_smaller(job->count % job->workers, worker);
}

/* Static shares with work stealing: a worker does its own, then takes what is left of others'. */
static void work_on(parallel_job *job, int worker)
{
    inside_task = true;
    for (int i = 0; i < job->workers; i++) {
        const int owner = (worker + i) % job->workers;
        const int64_t end = share_of(job, owner + 1);
        for (int64_t task; atomic_load(&pool.worker[owner].next) < end &&
                           (task = atomic_fetch_add(&pool.worker[owner].next, 1)) < end;) {
            job->task(job->context, task, worker);
            if (talc_failed() && !atomic_exchange(&job->failed, true)) {
                job->status = talc_error_status();
                snprintf(job->message, sizeof job->message, "%s", talc_error_message());
            }
            talc_error_clear();
        }
    }
    inside_task = false;
}

static void *worker_main(void *argument)
{
    const int worker = (int)(intptr_t)argument;
    pool_worker *self = &pool.worker[worker];
    unsigned seen = 0;
    for (;;) {
        wait_for_call(self, seen);
        seen = atomic_load(&self->called);
        if (atomic_load(&pool.stopping))
            return NULL;
        /* One that comes late may find the next job, for fewer. */
        if (enter_job() && worker < pool.job.workers)
            work_on(&pool.job, worker);
        leave_job();
    }
}

/* After a fork only the calling thread is left, so the child's pool starts anew. */
static void forget_threads(void)
{
    pthread_mutex_init(&pool.busy, NULL);
    pthread_mutex_init(&pool.lock, NULL);
    pthread_cond_init(&pool.done, NULL);
    pool.started = 0;
    atomic_store(&pool.stopping, false);
    atomic_store(&pool.state, CLOSED);
    inside_task = false;
}

__attribute__((constructor)) static void watch_forks(void)
{
    (void)pthread_atfork(NULL, NULL, forget_threads);
}

/* Called with `busy` held, so no job runs. */
static void stop_threads(void)
{
    atomic_store(&pool.stopping, true);
    for (int i = 1; i <= pool.started; i++)
        call_worker(&pool.worker[i]);
    for (int i = 1; i <= pool.started; i++)
        pthread_join(pool.worker[i].thread, NULL);
    atomic_store(&pool.stopping, false);
    pool.started = 0;
}

/* As TALC_AFFINITY asks: thread i on the i-th of the processors that the process may use, behind
 * those of the host's processes of a group that come before it. The first one is left to the
 * caller, who keeps to none. */
static void keep_to_processor(pthread_t thread, int i)
{
    cpu_set_t allowed, one;
    const talc_environment_values *e = talc_environment();
    if (!e->affinity || sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return;
    const int others = e->local_rank > 0 ? e->local_rank * talc_cpu_threads() : 0;
    int processor = 0, before = (others + i) % CPU_COUNT(&allowed);
    while (!CPU_ISSET(processor, &allowed) || before-- > 0)
        processor++;
    CPU_ZERO(&one);
    CPU_SET(processor, &one);
    (void)pthread_setaffinity_np(thread, sizeof one, &one);
}

static void start_threads(int workers)
{
    if (pool.started == 0) /* no worker reads it yet */
        pool.spins = workers < talc_cpu_processors();
    /* With fewer threads than wanted the work still gets done. */
    while (pool.started < workers) {
        const int i = pool.started + 1;
        pool_worker *worker = &pool.worker[i];
        atomic_store(&worker->called, 0);
        atomic_store(&worker->asleep, false);
        pthread_cond_init(&worker->wake, NULL);
        if (!talc_thread_start(&worker->thread, worker_main, (void *)(intptr_t)i))
            return;
        keep_to_processor(worker->thread, i);
        pool.started = i;
    }
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

static talc_status run_alone(int64_t count, talc_task_function *task, void *context)
{
    /* The caller's own failure record serves: no failure stands when an op runs. */
    bool nested = inside_task;
    inside_task = true;
    for (int64_t i = 0; i < count && !talc_failed(); i++)
        task(context, i, 0);
    inside_task = nested;
    return talc_error_status();
}

talc_status talc_cpu_parallel_limited(int64_t count, int workers, talc_task_function *task,
                                      void *context)
{
    const int threads = talc_cpu_threads();
    const int64_t wanted = talc_smaller(count, talc_smaller(workers, threads));
    if (wanted < 2 || inside_task || pthread_mutex_trylock(&pool.busy) != 0)
        return run_alone(count, task, context);

    start_threads(threads - 1);
    parallel_job *job = &pool.job;
    job->task = task;
    job->context = context;
    job->count = count;
    job->workers = (int)talc_smaller(wanted, pool.started + 1);
    atomic_store(&job->failed, false);
    for (int i = 0; i < job->workers; i++)
        atomic_store(&pool.worker[i].next, share_of(job, i));
    atomic_fetch_and(&pool.state, ~(unsigned)CLOSED);
    for (int i = 1; i < job->workers; i++)
        call_worker(&pool.worker[i]);

    work_on(job, 0);
    atomic_fetch_or(&pool.state, CLOSED);
    wait_for_end();

    const talc_status status =
        atomic_load(&job->failed) ? talc_fail(job->status, "%s", job->message) : TALC_OK;
    pthread_mutex_unlock(&pool.busy);
    return status;
}

talc_status talc_cpu_parallel(int64_t count, talc_task_function *task, void *context)
{
    return talc_cpu_parallel_limited(count, MAX_THREADS, task, context);
}
