/// How elements travel between processes. Private to nn/parallel.
#ifndef TALC_NN_PARALLEL_TRANSPORT_H
#define TALC_NN_PARALLEL_TRANSPORT_H

#include "nn/parallel/launcher.h"

typedef enum talc_collective_kind {
    TALC_COLLECTIVE_BROADCAST,
    TALC_COLLECTIVE_SUM,
    TALC_COLLECTIVE_MEAN,
    TALC_COLLECTIVE_GATHER,
    TALC_COLLECTIVE_BARRIER,
    TALC_COLLECTIVE_COUNT
} talc_collective_kind;

/// One call of every member. Addresses are of contiguous elements of the transport's devices.
typedef struct talc_collective {
    talc_collective_kind kind;
    talc_dtype dtype;
    int64_t count;    ///< elements of a member
    void *data;       ///< read and written; of a gather the result, size * count elements
    const void *from; ///< of a gather
    int root;         ///< of a broadcast
    int64_t number;   ///< of the group's calls
    const char *what; ///< for messages, "all_reduce of fc1.weight"; until the call is waited for
} talc_collective;

typedef struct talc_transport {
    /// A connection with the members, once all are there. NULL with a failure.
    void *(*open)(const talc_member *member, talc_device *device, double timeout);
    /// Ends a connection; one that has failed ends without the others.
    void (*close)(void *link, bool failed);
    /// Begins a call, whose request goes to *request; its addresses are not touched before the
    /// wait, after which the device's work finds what came. False with a failure.
    bool (*start)(void *link, const talc_collective *call, void **request);
    /// Ends it. False with a failure, after which the link is good for nothing but close.
    bool (*wait)(void *link, const talc_collective *call, void *request);
} talc_transport;

/// Between processes on the CPU, and between GPUs. NULL in a build without the library's header.
extern const talc_transport *const talc_transport_mpi, *const talc_transport_nccl;

#endif
