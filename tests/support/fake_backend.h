/// The algorithm tables of the fake device, and the queue they put work into. Only its own files
/// use this.
#ifndef TALC_TESTS_FAKE_BACKEND_H
#define TALC_TESTS_FAKE_BACKEND_H

#include "ops/backend.h"
#include "tensor/device.h"

/// What the queue runs: `algorithm` is the CPU's algorithm, NULL for work that is no op.
typedef talc_status fake_work(talc_device *device, const void *algorithm, const void *problem,
                              const void *arguments);

/// Queues work with copies of problem and arguments; from within running work it runs at once.
talc_status fake_device_enqueue(talc_device *device, fake_work *function, const void *algorithm,
                                const void *problem, size_t problem_bytes, const void *arguments,
                                size_t arguments_bytes);

/// The same for a stream of the interface's stream_new.
void fake_device_enqueue_beside(talc_device *device, void *stream, fake_work *function,
                                const void *problem, size_t problem_bytes);

/// Runs what is queued there, as early as a device may.
void fake_device_run_beside(talc_device *device, void *stream);

/// Runs all that is queued, on every stream.
void fake_device_finish(talc_device *device);

/// The CPU's tables with each `run` replaced by one that queues.
const struct talc_backend *fake_backend(void);

#endif
