/// The CPU backend's thread pool. Private to backends/cpu.
///
/// Work is divided into numbered tasks. Where bits of a result depend on what a task has, that
/// follows from the problem alone, never from how many threads there are or which of them runs a
/// task: so results are the same to the bit for every thread count. On every call a thread begins
/// with the same part of the tasks, in order: so where ops number their tasks alike, it finds in
/// its own cache what it wrote.
#ifndef TALC_BACKENDS_CPU_DEVICE_THREADS_H
#define TALC_BACKENDS_CPU_DEVICE_THREADS_H

#include "tensor/error.h"

/// One task. `worker`, 0 .. talc_cpu_threads()-1, tells concurrent tasks apart, for scratch space.
typedef void talc_task_function(void *context, int64_t task, int worker);

/// Runs tasks 0 .. count-1, spread over the threads; returns when all are done, and waits for no
/// thread that has none. A failure that a task raises is raised in the calling thread and returned.
/// Called from within a task, or while another thread's work occupies the pool, it runs the tasks
/// in the calling thread.
talc_status talc_cpu_parallel(int64_t count, talc_task_function *task, void *context);

/// The same with at most `workers` tasks at a time, and `worker` below that number: for work whose
/// scratch space is limited.
talc_status talc_cpu_parallel_limited(int64_t count, int workers, talc_task_function *task,
                                      void *context);

/// How many threads work at once, the caller included.
int talc_cpu_threads(void);

/// Workspace of an algorithm whose workers have `slice` bytes each behind `shared` ones: for every
/// worker that has a task and fits the limit, at least for one.
size_t talc_cpu_workspace(int64_t tasks, size_t shared, size_t slice, size_t limit);

/// Bytes, rounded up to cache lines, so that what follows them in a workspace is aligned.
static inline size_t talc_cpu_aligned(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/// How many processors the process may use.
int talc_cpu_processors(void);

/// From here on this thread runs all its tasks itself.
void talc_cpu_stay_alone(void);

#endif
