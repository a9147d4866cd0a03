/// Streams: where a thread's work on a device goes.
///
/// A device has one stream, on which all its work runs in the order of calls. A program that has
/// CUDA streams of its own can have a thread's talc work queued on one of them:
///
///     talc_stream *queued = talc_stream_enter(device, cuda_stream);   // a cudaStream_t, as void *
///     talc_tensor *y = talc_forward(net, x);                          // runs on cuda_stream
///     talc_stream_leave(queued);
///
/// Order: the stream first waits for what was queued before on the stream that the thread leaves
/// for it, and when the thread goes back, that one waits for it; so one thread's work keeps its
/// order, and the host waits for nothing. Two threads on two streams run at the same time; what one
/// makes and the other uses, they order themselves, as with any streams: by events, or by
/// talc_device_synchronize. Memory needs no care: what is released while another stream uses it is
/// handed out again only after that.
#ifndef TALC_TENSOR_STREAM_H
#define TALC_TENSOR_STREAM_H

#include "tensor.h"

TALC_BEGIN_DECLARATIONS

typedef struct talc_stream talc_stream;

/// Sends this thread's work on the device to `stream` until talc_stream_leave. For CUDA that is a
/// cudaStream_t of this very GPU, cudaStreamLegacy too, but not cudaStreamPerThread, one name for
/// as many streams as there are threads, and none that is being captured; NULL is the device's own.
/// The stream must live until it is left. Streams nest. NULL, with a failure, for a device without
/// streams, for a stream that it cannot take, and when 31 streams are in use on the device.
TALC_API talc_stream *talc_stream_enter(talc_device *device, void *stream);

/// Goes back to where the thread's work went before, and leaves the streams entered since. NULL,
/// and a stream that is not entered, are ignored. A thread's end leaves its streams.
TALC_API void talc_stream_leave(talc_stream *stream);

/// The cudaStream_t that this thread's work on the device goes to, so that a program's own kernels
/// can join it. NULL for a device without streams.
TALC_API void *talc_stream_current(talc_device *device);

TALC_END_DECLARATIONS

#endif
