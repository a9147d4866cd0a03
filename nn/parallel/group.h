/// A group as the averaging of gradients uses it. Private to nn/parallel.
#ifndef TALC_NN_PARALLEL_GROUP_H
#define TALC_NN_PARALLEL_GROUP_H

#include "nn/parallel/transport.h"

struct talc_group {
    talc_device *device;
    talc_member member;
    const talc_transport *transport;
    void *link;         ///< NULL: a group of one, or a broken one
    int64_t calls;      ///< of this member
    bool parted;        ///< the members' generators draw different numbers
    talc_status broken; ///< TALC_OK: it works
    char why[512];      ///< it does not
};

/// talc_group_new; with `alone`, a group of one has its transport too.
talc_group *talc_group_open(talc_device *device, const talc_group_options *options, bool alone);

/// A call under way.
typedef struct talc_group_call {
    talc_collective collective;
    void *request;
} talc_group_call;

/// Begins an all-reduce to the mean of a contiguous tensor, which nobody else touches until the
/// wait. `what` lasts until then. False with a failure.
bool talc_group_mean_start(talc_group *group, talc_tensor *tensor, const char *what,
                           talc_group_call *call);
bool talc_group_wait(talc_group *group, talc_group_call *call);

/// Makes every later call on the group fail with the failure that stands.
void talc_group_break(talc_group *group);

/// Whether all members have the same `count` texts of `bytes` each, NUL-terminated, as
/// talc_group_agree.
bool talc_group_agree_texts(talc_group *group, const char *what, const char *texts, int64_t count,
                            int64_t bytes);

#endif
