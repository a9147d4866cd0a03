/* A libnccl.so.2 for tests without GPUs: the calls that talc makes, for members of one host whose
 * device is the tests' fake one. Elements travel through memory that the processes share, when the
 * device's work gets there; a member that does not come keeps the others waiting until
 * ncclCommAbort, and so does one that is in another call, as NCCL has it.
 *
 * STANDIN_EARLY: work beside the device's own runs as soon as it may, instead of as late.
 * STANDIN_ABORT: milliseconds that an abort takes, which then says so.
 * STANDIN_SIGNAL: what comes to the member in place of its communicator. */
#include "tests/support/fake_backend.h"
#include "tests/support/fake_device.h"

#include <fcntl.h>
#include <nccl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { RANKS = 8, PART = 1 << 14 };

/* What a member does, and its elements. */
typedef struct place {
    atomic_long begun, read; /* parts */
    int kind, type, root;
    size_t count;
    char elements[PART];
} place;

typedef struct shared {
    atomic_int present;
    place of[RANKS];
} shared;

struct ncclComm {
    shared *all;
    int size, rank;
    long parts;
    atomic_bool aborted;
    ncclComm_t next; /* that was aborted */
};

typedef struct call {
    ncclComm_t comm;
    int kind, type, op, root;
    const char *from;
    char *to;
    size_t count; /* of one member */
} call;

enum { REDUCE, BROADCAST, GATHER };

static size_t size_of(int type)
{
    return type == ncclUint8 ? 1 : type == ncclFloat32 || type == ncclInt32 ? 4 : 8;
}

static void pause_briefly(void)
{
    nanosleep(&(struct timespec){ .tv_nsec = 20000 }, NULL);
}

static bool wait_for_all(const call *c, bool read, long parts)
{
    for (int rank = 0; rank < c->comm->size;) {
        place *p = &c->comm->all->of[rank];
        const bool there = atomic_load(read ? &p->read : &p->begun) >= parts;
        const bool alike = read || (there && p->kind == c->kind && p->type == c->type &&
                                    p->root == c->root && p->count == c->count);
        rank += there && alike;
        if (atomic_load(&c->comm->aborted))
            return false;
        if (!there || !alike)
            pause_briefly();
    }
    return true;
}

#define ADD(type)                                                                                  \
    for (size_t i = 0; i < count; i++) {                                                           \
        type sum = 0;                                                                              \
        for (int rank = 0; rank < c->comm->size; rank++)                                           \
            sum = (type)(sum + ((const type *)all->of[rank].elements)[i]);                         \
        ((type *)to)[i] = c->op == ncclAvg ? (type)(sum / (type)c->comm->size) : sum;              \
    }

static void take_part(const call *c, size_t begin, size_t count)
{
    shared *all = c->comm->all;
    const size_t bytes = size_of(c->type);
    char *to = c->to + begin * bytes;
    if (c->kind == BROADCAST)
        memcpy(to, all->of[c->root].elements, count * bytes);
    else if (c->kind == GATHER)
        for (int rank = 0; rank < c->comm->size; rank++)
            memcpy(to + (size_t)rank * c->count * bytes, all->of[rank].elements, count * bytes);
    else if (c->type == ncclFloat32)
        ADD(float)
    else if (c->type == ncclFloat64)
        ADD(double)
    else if (c->type == ncclInt64)
        ADD(long)
    else if (c->type == ncclInt32)
        ADD(int)
    else
        ADD(unsigned char)
}

static talc_status run(talc_device *device, const void *algorithm, const void *problem,
                       const void *arguments)
{
    const call *c = problem;
    place *own = &c->comm->all->of[c->comm->rank];
    const size_t bytes = size_of(c->type), most = PART / bytes;
    (void)device;
    (void)algorithm;
    (void)arguments;
    for (size_t begin = 0; begin < c->count && !atomic_load(&c->comm->aborted); begin += most) {
        const size_t count = c->count - begin < most ? c->count - begin : most;
        const long parts = ++c->comm->parts;
        memcpy(own->elements, c->from + begin * bytes, count * bytes);
        own->kind = c->kind;
        own->type = c->type;
        own->root = c->root;
        own->count = c->count;
        atomic_store(&own->begun, parts);
        if (!wait_for_all(c, false, parts))
            break;
        take_part(c, begin, count);
        atomic_store(&own->read, parts);
        if (!wait_for_all(c, true, parts))
            break;
    }
    return TALC_OK;
}

static ncclResult_t queue(cudaStream_t stream, const call *c)
{
    fake_device_enqueue_beside(fake_device(), stream, run, c, sizeof *c);
    if (getenv("STANDIN_EARLY") != NULL)
        fake_device_run_beside(fake_device(), stream);
    return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    return queue(stream, &(call){ comm, REDUCE, type, op, 0, from, to, count });
}

ncclResult_t ncclBroadcast(const void *from, void *to, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream)
{
    return queue(stream, &(call){ comm, BROADCAST, type, 0, root, from, to, count });
}

ncclResult_t ncclAllGather(const void *from, void *to, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream)
{
    return queue(stream, &(call){ comm, GATHER, type, 0, 0, from, to, count });
}

// ---- Communicators ------------------------------------------------------------------------------

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    memset(id, 0, sizeof *id);
    snprintf(id->internal, sizeof id->internal, "/standin-nccl-%d", (int)getpid());
    shm_unlink(id->internal);
    return ncclSuccess;
}

/* Once the last member is there nobody looks for the name any more. */
ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t *config)
{
    const char *signal = getenv("STANDIN_SIGNAL");
    if (signal != NULL)
        raise(atoi(signal));
    const int fd = shm_open(id.internal, O_RDWR | O_CREAT, 0600);
    void *all = MAP_FAILED;
    if (config->blocking != 0 || size > RANKS)
        return ncclInvalidArgument;
    if (fd >= 0 && ftruncate(fd, sizeof(shared)) == 0)
        all = mmap(NULL, sizeof(shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    ncclComm_t made = all == MAP_FAILED ? NULL : calloc(1, sizeof *made);
    if (made == NULL)
        return ncclSystemError;
    made->all = all;
    made->size = size;
    made->rank = rank;
    if (atomic_fetch_add(&made->all->present, 1) == size - 1)
        shm_unlink(id.internal);
    *comm = made;
    return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *result)
{
    *result = atomic_load(&comm->all->present) < comm->size ? ncclInProgress : ncclSuccess;
    return ncclSuccess;
}

/* What the device has queued may still look at it, so that it stays. */
ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    static _Atomic(ncclComm_t) last;
    comm->next = atomic_exchange(&last, comm);
    atomic_store(&comm->aborted, true);
    const char *milliseconds = getenv("STANDIN_ABORT");
    for (int i = milliseconds == NULL ? 0 : atoi(milliseconds) * 50; i > 0; i--)
        pause_briefly();
    if (milliseconds != NULL)
        (void)!write(STDOUT_FILENO, "aborted\n", 8);
    return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    (void)comm;
    return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    munmap(comm->all, sizeof *comm->all);
    free(comm);
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result)
{
    return result == ncclSuccess ? "no error" : "an error of the stand-in";
}

const char *ncclGetLastError(ncclComm_t comm)
{
    (void)comm;
    return "";
}
