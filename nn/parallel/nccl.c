/* NCCL, opened at first use. A communicator that does not block: what its calls begin is asked for
 * until it is done, and a watch (watch.h) ends calls of the GPU that do not end. NCCL is given
 * addresses and streams as the device's interface knows them; nothing here looks behind them. */
#include "nn/parallel/transport.h"
#include "nn/parallel/watch.h"

#include "tensor/memory.h"
#include "tensor/recording.h"
#include "tensor/storage.h"
#include "tensor/thread.h"

#include <assert.h>
#include <dlfcn.h>
#include <nccl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *const WHO = "group";

/* Seconds for a communicator to end; and how often it is asked at once whether it is done,
 * which small calls are in microseconds. */
enum { TO_END = 5, SPINS = 1000 };

/* Communicators that are being aborted. */
static atomic_int aborting;

/* An abort uses the GPU, which the process's end would take away under it. One whose recorded
 * steps the program has not freed does not end. */
static void wait_for_aborts(void)
{
    for (const double end = talc_roll_now() + TO_END; aborting > 0 && talc_roll_now() < end;)
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
}

/* A forked process has no thread that aborts. */
static void forget_aborts(void)
{
    aborting = 0;
}

// ---- The library --------------------------------------------------------------------------------

#define FUNCTIONS(X)                                                                               \
    X(ncclGetErrorString)                                                                          \
    X(ncclGetLastError)                                                                            \
    X(ncclGetUniqueId)                                                                             \
    X(ncclCommInitRankConfig)                                                                      \
    X(ncclCommGetAsyncError)                                                                       \
    X(ncclCommAbort)                                                                               \
    X(ncclCommFinalize)                                                                            \
    X(ncclCommDestroy)                                                                             \
    X(ncclBroadcast)                                                                               \
    X(ncclAllReduce)                                                                               \
    X(ncclAllGather)

#define FUNCTION_FIELD(name) __typeof__(name) *name;

static struct {
    FUNCTIONS(FUNCTION_FIELD)
    char missing[192]; /* what keeps it from being used; empty when nothing does */
} nccl;
static pthread_once_t once = PTHREAD_ONCE_INIT;

#define NCCL_f32                                   ncclFloat32
#define NCCL_f64                                   ncclFloat64
#define NCCL_i64                                   ncclInt64
#define NCCL_i32                                   ncclInt32
#define NCCL_u8                                    ncclUint8
#define TYPE_OF(constant, name, type, safetensors) [constant] = NCCL_##name,
static const ncclDataType_t TYPES[] = { TALC_DTYPE_TABLE(TYPE_OF) };

/* C has no cast from an object pointer to a function pointer; POSIX has the assignment through
 * one. */
#define FUNCTION_LOAD(name)                                                                        \
    if ((*(void **)&nccl.name = dlsym(library, #name)) == NULL)                                    \
        snprintf(nccl.missing, sizeof nccl.missing, "the NCCL found is too old: it has no %s",     \
                 #name);

static void load(void)
{
    void *library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
#if defined(TALC_CUDA_LIBRARIES)
    if (library == NULL)
        library = dlopen(TALC_CUDA_LIBRARIES "/libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
#endif
    if (library == NULL) {
        snprintf(nccl.missing, sizeof nccl.missing, "NCCL is not installed (libnccl.so.2): %s",
                 dlerror());
        return;
    }
    FUNCTIONS(FUNCTION_LOAD)
    talc_member_prepare_nccl();
    atexit(wait_for_aborts);
    pthread_atfork(NULL, NULL, forget_aborts);
}

// ---- Connections --------------------------------------------------------------------------------

typedef struct nccl_link {
    talc_device *device;
    double timeout;
    talc_line *line;
    talc_watch *watch;
    pthread_mutex_t lock; /* of `comm`, and of asking it */
    ncclComm_t comm;      /* NULL once it is aborted */
    talc_tensor *token;   /* an element that barriers add up */
    char trouble[256];
} nccl_link;

/* A result other than success as text; NULL: it is that. With the lock. */
static const char *trouble_of(nccl_link *l, ncclResult_t result)
{
    if (result == ncclSuccess || result == ncclInProgress)
        return NULL;
    const char *more = nccl.ncclGetLastError(l->comm);
    snprintf(l->trouble, sizeof l->trouble, "NCCL: %s%s%.160s", nccl.ncclGetErrorString(result),
             more == NULL || *more == '\0' ? "" : ": ", more == NULL ? "" : more);
    return l->trouble;
}

static const char *trouble(void *context)
{
    nccl_link *l = context;
    ncclResult_t result = ncclSuccess;
    pthread_mutex_lock(&l->lock);
    if (l->comm != NULL)
        nccl.ncclCommGetAsyncError(l->comm, &result);
    const char *text = trouble_of(l, result);
    pthread_mutex_unlock(&l->lock);
    return text;
}

typedef struct aborted {
    talc_device *device;
    ncclComm_t comm;
    atomic_bool taken; /* by the thread: the rest is not looked at any more */
} aborted;

/* NCCL leaves the thread with the GPU that it came with, which a call of the device's makes this
 * one: another would be opened for that. */
static void *abort_it(void *context)
{
    aborted *a = context;
    talc_device *device = a->device;
    ncclComm_t comm = a->comm;
    talc_device_properties unused;
    a->taken = true;
    device->interface->properties(device, &unused);
    nccl.ncclCommAbort(comm);
    aborting--;
    return NULL;
}

/* It ends what is under way at once, but returns only when the recorded steps that hold calls are
 * freed: nobody waits for that. */
static void abort_comm(void *context)
{
    nccl_link *l = context;
    pthread_t thread;
    pthread_mutex_lock(&l->lock);
    aborted a = { l->device, l->comm, false };
    l->comm = NULL;
    pthread_mutex_unlock(&l->lock);
    if (a.comm == NULL)
        return;
    aborting++;
    if (!talc_thread_start(&thread, abort_it, &a)) {
        abort_it(&a);
        return;
    }
    pthread_detach(thread);
    while (!a.taken)
        nanosleep(&(struct timespec){ .tv_nsec = 20000 }, NULL);
}

/* What a call returned that may go on: asks until it is done, or for so many seconds; 0: until the
 * watch ends it. False with a failure. */
static bool settle(nccl_link *l, const char *what, ncclResult_t result, double seconds)
{
    const double end = talc_roll_now() + seconds;
    for (int looks = 0;; looks += looks < SPINS) {
        if (!talc_watch_works(l->watch))
            return false;
        pthread_mutex_lock(&l->lock);
        if (result == ncclInProgress && l->comm != NULL)
            nccl.ncclCommGetAsyncError(l->comm, &result);
        const char *text = trouble_of(l, result);
        if (text != NULL)
            talc_fail(TALC_PEER_LOST, "%s: %s", what, text);
        pthread_mutex_unlock(&l->lock);
        if (text != NULL || result == ncclSuccess)
            return text == NULL;
        if (seconds > 0 && talc_roll_now() > end) {
            talc_fail(TALC_PEER_LOST, "%s: NCCL is not done after %g s", what, seconds);
            return false;
        }
        if (looks == SPINS)
            nanosleep(&(struct timespec){ .tv_nsec = 20000 }, NULL);
    }
}

/* Rank 0's "host:port" by MPI, where that has started the members, and rank 0's socket. */
static bool meet_by_mpi(const talc_member *member, talc_device *device, double timeout,
                        char address[static 256], int *listener)
{
    int port = 0;
    void *mpi = talc_transport_mpi->open(member, device, timeout);
    if (mpi != NULL && member->rank == 0) {
        char host[200] = "";
        gethostname(host, sizeof host - 1);
        *listener = talc_line_listen(&port);
        snprintf(address, 256, "%s:%d", host, port);
    }
    const talc_collective call = { .kind = TALC_COLLECTIVE_BROADCAST,
                                   .dtype = TALC_U8,
                                   .count = 256,
                                   .data = address,
                                   .what = WHO };
    void *request;
    const bool ok = mpi != NULL && !talc_failed() &&
                    talc_transport_mpi->start(mpi, &call, &request) &&
                    talc_transport_mpi->wait(mpi, &call, request);
    if (mpi != NULL)
        talc_transport_mpi->close(mpi, !ok);
    return ok;
}

static bool meet(const talc_member *member, talc_device *device, double timeout,
                 char address[static 256], int *listener)
{
    if (!talc_member_address(member, address))
        return false;
    if (address[0] != '\0' || member->size == 1)
        return true;
    if (talc_member_of_mpi() && talc_transport_mpi != NULL)
        return meet_by_mpi(member, device, timeout, address, listener);
    talc_fail(TALC_BAD_ARGUMENT,
              "%s: rank %d of %d by %s, but MASTER_ADDR and MASTER_PORT do not say where rank 0 "
              "listens",
              WHO, member->rank, member->size, member->said_by);
    return false;
}

static bool connect_all(nccl_link *l, const talc_member *member)
{
    char address[256] = "", text[TALC_NOTICE_TEXT] = "";
    int listener = -1;
    ncclUniqueId id;
    ncclComm_t comm = NULL;
    static_assert(sizeof id <= sizeof text, "an id travels in one notice");
    if (!meet(member, l->device, l->timeout, address, &listener))
        return false;
    if (member->rank == 0 && nccl.ncclGetUniqueId(&id) != ncclSuccess) {
        talc_fail(TALC_UNSUPPORTED, "%s: NCCL gives no id: %s", WHO, nccl.ncclGetLastError(NULL));
        return false;
    }
    memcpy(text, &id, sizeof id);
    l->line = talc_line_open(member, address, listener, l->timeout, text);
    if (l->line == NULL)
        return false;
    memcpy(&id, text, sizeof id);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    /* NCCL takes the thread's current GPU, which a call of the device's makes this one. */
    l->token = talc_retain(talc_zeros(l->device, TALC_U8, TALC_DIMS(1)));
    if (l->token == NULL || l->device->interface->synchronize(l->device) != TALC_OK)
        return false;
    l->watch = talc_watch_new(
        &(talc_watched){ l->device, *member, l->timeout, l->line, abort_comm, trouble, l });
    if (l->watch == NULL || !talc_watch_begin(l->watch, 0, WHO))
        return false;
    const ncclResult_t result =
        nccl.ncclCommInitRankConfig(&comm, member->size, id, member->rank, &config);
    pthread_mutex_lock(&l->lock);
    l->comm = comm;
    pthread_mutex_unlock(&l->lock);
    const bool ok = settle(l, WHO, result, 0);
    talc_watch_begun(l->watch);
    return ok;
}

static void free_link(nccl_link *l)
{
    talc_watch_free(l->watch);
    talc_line_close(l->line);
    talc_release(l->token);
    pthread_mutex_destroy(&l->lock);
    talc_memory_free(l);
}

static void *open_link(const talc_member *member, talc_device *device, double timeout)
{
    pthread_once(&once, load);
    if (nccl.missing[0] != '\0') {
        talc_fail(TALC_UNSUPPORTED, "%s: %s", WHO, nccl.missing);
        return NULL;
    }
    nccl_link *l = talc_memory_new(sizeof *l, WHO);
    if (l == NULL)
        return NULL;
    l->device = device;
    l->timeout = timeout;
    pthread_mutex_init(&l->lock, NULL);
    if (connect_all(l, member))
        return l;
    if (l->watch != NULL)
        talc_watch_end(l->watch, false);
    else if (l->line != NULL)
        talc_line_tell(l->line, TALC_NOTICE_BROKEN, 0, talc_error_message());
    abort_comm(l);
    free_link(l);
    return NULL;
}

/* Gives up where the communicator does not end by itself. */
static void close_link(void *opened, bool failed)
{
    nccl_link *l = opened;
    if (talc_watch_end(l->watch, !failed) &&
        settle(l, WHO, nccl.ncclCommFinalize(l->comm), TO_END)) {
        nccl.ncclCommDestroy(l->comm);
        l->comm = NULL;
    }
    abort_comm(l);
    free_link(l);
}

// ---- Calls --------------------------------------------------------------------------------------

static ncclResult_t begin(const nccl_link *l, ncclComm_t comm, const talc_collective *call)
{
    const ncclDataType_t type = TYPES[call->dtype];
    const size_t count = (size_t)call->count;
    const ncclRedOp_t op = call->kind == TALC_COLLECTIVE_MEAN ? ncclAvg : ncclSum;
    cudaStream_t stream = talc_watch_stream(l->watch);
    switch (call->kind) {
    case TALC_COLLECTIVE_BROADCAST:
        return nccl.ncclBroadcast(call->data, call->data, count, type, call->root, comm, stream);
    case TALC_COLLECTIVE_SUM:
    case TALC_COLLECTIVE_MEAN:
        return nccl.ncclAllReduce(call->data, call->data, count, type, op, comm, stream);
    case TALC_COLLECTIVE_GATHER:
        return nccl.ncclAllGather(call->from, call->data, count, type, comm, stream);
    default:
        return nccl.ncclAllReduce(l->token->data, l->token->data, 1, ncclUint8, ncclSum, comm,
                                  stream);
    }
}

static bool start_call(void *opened, const talc_collective *call, void **request)
{
    nccl_link *l = opened;
    (void)request;
    if (call->kind == TALC_COLLECTIVE_BARRIER &&
        talc_recording_refuses(call->what, l->device, "wait for other processes"))
        return false;
    if (!talc_watch_begin(l->watch, call->number, call->what))
        return false;
    pthread_mutex_lock(&l->lock);
    ncclComm_t comm = l->comm; /* an abort may take it away, and then the call ends */
    pthread_mutex_unlock(&l->lock);
    const bool ok =
        comm == NULL ? talc_watch_works(l->watch) : settle(l, call->what, begin(l, comm, call), 0);
    talc_watch_begun(l->watch);
    return ok;
}

/* The device waits; the host does for a barrier alone. */
static bool wait_call(void *opened, const talc_collective *call, void *request)
{
    nccl_link *l = opened;
    (void)request;
    return talc_watch_wait(l->watch) && (call->kind != TALC_COLLECTIVE_BARRIER ||
                                         (l->device->interface->synchronize(l->device) == TALC_OK &&
                                          talc_watch_works(l->watch)));
}

static const talc_transport transport = { open_link, close_link, start_call, wait_call };
const talc_transport *const talc_transport_nccl = &transport;
