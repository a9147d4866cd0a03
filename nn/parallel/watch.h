/// Looks after calls that devices make by themselves, while the host goes on: a thread notices
/// members that are gone, calls that run out of time and groups that others have broken, and ends
/// what is under way. Private to nn/parallel.
#ifndef TALC_NN_PARALLEL_WATCH_H
#define TALC_NN_PARALLEL_WATCH_H

#include "nn/parallel/line.h"
#include "nn/parallel/roll.h"
#include "tensor/device.h"

typedef struct talc_watch talc_watch;

typedef struct talc_watched {
    talc_device *device;
    talc_member member;
    double timeout;
    talc_line *line;
    /// Ends all calls under way, so that the device's work goes on, and the connection. Called
    /// once, perhaps by the watching thread while another is in a call.
    void (*stop)(void *context);
    const char *(*trouble)(void *context); ///< what the library says is wrong; NULL: nothing
    void *context;
} talc_watched;

/// NULL with a failure.
talc_watch *talc_watch_new(const talc_watched *watched);

/// Ends watching. In peace: waits for what is under way first. Else, and where a member is lost,
/// aborts and tells the others the failure that stands. Returns whether nothing was aborted. The
/// line stays.
bool talc_watch_end(talc_watch *watch, bool in_peace);

/// NULL passes. Of a broken group, what replays ask stays.
void talc_watch_free(talc_watch *watch);

/// The stream for the thread's next call: work that is recorded has its own.
void *talc_watch_stream(const talc_watch *watch);

/// Around what gives a call to the library: it may go on from here on what the device does before,
/// and what the device does after `end` waits for it. False with a failure: the group is broken, or
/// this is no recording that can hold it.
bool talc_watch_begin(talc_watch *watch, int64_t number, const char *what);
void talc_watch_begun(talc_watch *watch);
bool talc_watch_wait(talc_watch *watch);

/// False with a failure where the group is broken.
bool talc_watch_works(talc_watch *watch);

#endif
