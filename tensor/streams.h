/// The streams in use on a device. Private to talc.
///
/// They have numbers: 0 is the device's own, others are given while a caller's stream is entered,
/// and given again once all threads have left it. That is safe because a stream that is left is
/// waited for by the device's own, for which a stream that is entered waits: whatever has number i
/// now runs after all that had it before.
#ifndef TALC_TENSOR_STREAMS_H
#define TALC_TENSOR_STREAMS_H

#include "tensor/device.h"

enum { TALC_STREAMS = 32 };

/// The number of the stream to which this thread's work on the device goes.
int talc_stream_number(const talc_device *device);

/// The caller's stream of that number; NULL for 0.
void *talc_stream_of(const talc_device *device, int number);

/// Makes what is queued on `stream` from now on wait for what is queued on `after` by now; both are
/// numbers, those of streams that were left too.
talc_status talc_stream_order(talc_device *device, int stream, int after);

/// Where something was made that ops share without the program's knowing, and which streams wait
/// for that: each has to once.
typedef struct talc_made {
    int stream;
    uint32_t waiting;
} talc_made;

/// On this thread's stream.
talc_made talc_made_here(const talc_device *device);

/// Before this thread's stream uses it. False, with a failure, where it cannot wait.
bool talc_made_wait(talc_made *made, talc_device *device);

/// Calls `visit` with the number of each stream that any thread's work may be queued on: 0, and
/// those that are entered, which nobody leaves meanwhile. What went to a stream that all have left,
/// the device's own waits for.
void talc_streams_each(const talc_device *device, void (*visit)(void *context, int stream),
                       void *context);

/// Leaves all streams that this thread has entered.
void talc_stream_leave_all(void);

/// Forgets the streams of a device that closes. False, with a failure, while some are entered.
bool talc_streams_close(talc_device *device);

#endif
