/// Devices that queue their work, and what tests do with a GPU behind talc's back: streams of their
/// own, work that takes a while, streams of the fake device.
#ifndef TALC_TESTS_GPU_H
#define TALC_TESTS_GPU_H

#include "talc.h"

/// A device with streams and page-locked memory: the one under test, the fake one where that is the
/// CPU.
talc_device *queueing_device(void);

/// Another of its kind; NULL: there is none.
talc_device *queueing_device_beside(const talc_device *device);

/// A stream of the device under test, for talc_stream_enter: made by the CUDA runtime, or a name
/// that the fake device takes.
void *gpu_stream_new(const talc_device *device);
void gpu_stream_free(const talc_device *device, void *stream);

/// Streams that have names: another one in each thread, and the default stream of old. NULL on the
/// fake device, which has none.
void *gpu_stream_per_thread(const talc_device *device);
void *gpu_stream_legacy(const talc_device *device);

/// A program's own capture of a stream; false on the fake device. The end says whether it was still
/// going on.
bool gpu_capture_begin(const talc_device *device, void *stream);
bool gpu_capture_end(const talc_device *device, void *stream);

/// Refuses what gpu_stream_new made for another device.
talc_status fake_takes_stream(talc_device *device, void *stream);

/// Queues work on a GPU's stream that takes this long, so that what is queued after it is late for
/// certain. The fake device is late by nature.
void gpu_stall(const talc_device *device, void *stream, int milliseconds);

/// Lets other threads go on for this long.
void gpu_pause(int milliseconds);

/// Whether all that was queued on the stream is done; of a fake stream nobody knows.
bool gpu_idle(const talc_device *device, void *stream);

#endif
