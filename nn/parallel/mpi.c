/* MPI, opened at first use: a process of a group of one never sees it. Calls are non-blocking and
 * polled, so that a member that is stopped or elsewhere ends in a failure and not in a hang. */
#define _DEFAULT_SOURCE /* on_exit */

#include "nn/parallel/roll.h"
#include "nn/parallel/transport.h"
#include "tensor/memory.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <limits.h>
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifndef OPEN_MPI
#error "the functions below are opened by Open MPI's binary interface"
#endif

static const char *const WHO = "group";

/* Seconds between two looks whether another member has run out of time. */
static const double LOOK = 0.05;

// ---- The library --------------------------------------------------------------------------------

#define FUNCTIONS(X)                                                                               \
    X(MPI_Get_library_version)                                                                     \
    X(MPI_Initialized)                                                                             \
    X(MPI_Finalized)                                                                               \
    X(MPI_Init_thread)                                                                             \
    X(MPI_Finalize)                                                                                \
    X(MPI_Comm_size)                                                                               \
    X(MPI_Comm_rank)                                                                               \
    X(MPI_Comm_idup)                                                                               \
    X(MPI_Comm_set_errhandler)                                                                     \
    X(MPI_Error_string)                                                                            \
    X(MPI_Ibcast)                                                                                  \
    X(MPI_Iallreduce)                                                                              \
    X(MPI_Iallgather)                                                                              \
    X(MPI_Ibarrier)                                                                                \
    X(MPI_Isend)                                                                                   \
    X(MPI_Irecv)                                                                                   \
    X(MPI_Iprobe)                                                                                  \
    X(MPI_Test)

/* Constants that are objects of the library. */
#define OBJECTS(X)                                                                                 \
    X(ompi_mpi_comm_world)                                                                         \
    X(ompi_mpi_errors_return)                                                                      \
    X(ompi_mpi_op_sum)                                                                             \
    X(ompi_mpi_byte)

#define TYPE_NAME(constant, name, type, safetensors) [constant] = "ompi_mpi_" #type,
static const char *const TYPES[] = { TALC_DTYPE_TABLE(TYPE_NAME) };

#define FUNCTION_FIELD(name) __typeof__(name) *name;
#define OBJECT_FIELD(name)   void *name;

static struct {
    FUNCTIONS(FUNCTION_FIELD)
    OBJECTS(OBJECT_FIELD)
    void *types[TALC_DTYPE_COUNT];
    char missing[192]; /* what keeps it from being used; empty when nothing does */
} mpi;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Calls that are begun and not waited for, and whether a connection ended badly: at the process's
 * end the library waits for the other processes unless there are such, or one did. */
static int under_way;
static bool ended_badly;
static bool over; /* the library has been told to end */

/* A process that is forked from a member is none. */
static void leave(void)
{
    ended_badly = true;
}

/* Also where the program has not freed its groups. One that fails does not wait: its launcher sees
 * its exit code and ends the others. */
static void finalize(int code, void *context)
{
    int done = 0;
    (void)context;
    if (code == 0 && under_way == 0 && !ended_badly && mpi.MPI_Finalized(&done) == MPI_SUCCESS &&
        !done) {
        over = true;
        mpi.MPI_Finalize();
    }
}

static void *symbol(void *library, const char *name)
{
    void *found = dlsym(library, name);
    if (found == NULL)
        snprintf(mpi.missing, sizeof mpi.missing, "the Open MPI found has no %s", name);
    return found;
}

/* C has no cast from an object pointer to a function pointer; POSIX has the assignment through
 * one. */
#define SYMBOL_LOAD(name) *(void **)&mpi.name = symbol(library, #name);

/* Its own parts, which it opens itself, look for its symbols among all. */
static void load(void)
{
    void *library = dlopen("libmpi.so.40", RTLD_NOW | RTLD_GLOBAL);
    if (library == NULL)
        library = dlopen("libmpi.so", RTLD_NOW | RTLD_GLOBAL);
    if (library == NULL) {
        snprintf(mpi.missing, sizeof mpi.missing,
                 "MPI is not installed (openmpi-bin, libopenmpi3): %s", dlerror());
        return;
    }
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length;
    *(void **)&mpi.MPI_Get_library_version = dlsym(library, "MPI_Get_library_version");
    if (mpi.MPI_Get_library_version != NULL)
        mpi.MPI_Get_library_version(version, &length);
    if (strncmp(version, "Open MPI", 8) != 0) {
        snprintf(mpi.missing, sizeof mpi.missing, "talc takes Open MPI, the MPI found is %.60s",
                 version[0] == '\0' ? "another" : version);
        return;
    }
    FUNCTIONS(SYMBOL_LOAD)
    OBJECTS(SYMBOL_LOAD)
    for (int i = 0; i < TALC_DTYPE_COUNT; i++)
        mpi.types[i] = symbol(library, TYPES[i]);
    int ready = 0, given;
    if (mpi.missing[0] != '\0' || mpi.MPI_Initialized(&ready) != MPI_SUCCESS || ready)
        return; /* a program that has begun with MPI ends with it too */
    if (mpi.MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &given) != MPI_SUCCESS ||
        given < MPI_THREAD_SERIALIZED)
        snprintf(mpi.missing, sizeof mpi.missing, "MPI_Init_thread failed");
    else if (mpi.MPI_Comm_set_errhandler(mpi.ompi_mpi_comm_world, mpi.ompi_mpi_errors_return) ==
                 MPI_SUCCESS &&
             pthread_atfork(NULL, NULL, leave) == 0)
        on_exit(finalize, NULL);
}

static bool succeeded(int code, const char *what)
{
    if (code == MPI_SUCCESS)
        return true;
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;
    mpi.MPI_Error_string(code, text, &length);
    talc_fail(TALC_PEER_LOST, "%s: MPI: %s", what, text);
    return false;
}

// ---- Connections --------------------------------------------------------------------------------

typedef struct link {
    talc_member member;
    double timeout;
    /* One of each kind, so that members in calls of different kinds never exchange elements. */
    MPI_Comm calls[TALC_COLLECTIVE_COUNT];
    MPI_Comm places; /* who is where */
    bool joined;     /* all are there, and have both */
    talc_place own;
    talc_place *others; /* [size] */
} link;

/* Longer pauses the longer nothing has come: small sums take microseconds. */
static void pause_between(int looks)
{
    if (looks < 2000)
        return;
    nanosleep(&(struct timespec){ .tv_nsec = looks < 10000 ? 20000 : 500000 }, NULL);
}

/* Tells the others where this member is, hears where they are, and fails by that. */
static void call_roll(link *l, const talc_collective *call)
{
    l->own.number = call->number;
    snprintf(l->own.what, sizeof l->own.what, "%s", call->what);
    bool *answered = talc_memory_new((size_t)l->member.size, WHO);
    if (answered == NULL)
        return;
    answered[l->member.rank] = true;
    MPI_Request sent;
    for (int rank = 0; rank < l->member.size; rank++)
        if (rank != l->member.rank)
            mpi.MPI_Isend(&l->own, sizeof l->own, mpi.ompi_mpi_byte, rank, 0, l->places, &sent);
    int missing = l->member.size - 1;
    for (const double end = talc_roll_now() + TALC_ROLL_PATIENCE;
         missing > 0 && talc_roll_now() < end; pause_between(INT_MAX)) {
        int there = 0;
        MPI_Status from;
        if (mpi.MPI_Iprobe(MPI_ANY_SOURCE, 0, l->places, &there, &from) != MPI_SUCCESS)
            break;
        MPI_Request request;
        talc_place *other = there ? &l->others[from.MPI_SOURCE] : NULL;
        if (there && mpi.MPI_Irecv(other, sizeof *other, mpi.ompi_mpi_byte, from.MPI_SOURCE, 0,
                                   l->places, &request) == MPI_SUCCESS) {
            for (int done = 0;
                 !done && mpi.MPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS;)
                ;
            missing -= !answered[from.MPI_SOURCE];
            answered[from.MPI_SOURCE] = true;
        }
    }
    talc_roll_fail(&l->member, &l->own, l->others, answered, l->timeout);
    talc_memory_free(answered);
}

/* Whether another member has run out of time. */
static bool asked(const link *l)
{
    int there = 0;
    return l->joined &&
           mpi.MPI_Iprobe(MPI_ANY_SOURCE, 0, l->places, &there, MPI_STATUS_IGNORE) == MPI_SUCCESS &&
           there;
}

static bool wait_for(link *l, const talc_collective *call, MPI_Request *request)
{
    const double end = talc_roll_now() + l->timeout;
    double look = talc_roll_now() + LOOK;
    for (int looks = 0;; looks += looks < INT_MAX) {
        int done = 0;
        const int code = mpi.MPI_Test(request, &done, MPI_STATUS_IGNORE);
        if (code == MPI_SUCCESS && done)
            return true;
        if (code != MPI_SUCCESS) { /* as members in different calls may end */
            if (l->joined)
                call_roll(l, call);
            return succeeded(code, call->what);
        }
        pause_between(looks);
        const double time = talc_roll_now();
        if (time < look)
            continue;
        look = time + LOOK;
        if (time < end && !asked(l))
            continue;
        if (!l->joined)
            talc_fail(TALC_PEER_LOST, "%s: the %d processes are not there after %g s", call->what,
                      l->member.size, l->timeout);
        else
            call_roll(l, call);
        return false;
    }
}

static bool duplicate(link *l, MPI_Comm *comm)
{
    MPI_Request request;
    return succeeded(mpi.MPI_Comm_idup(mpi.ompi_mpi_comm_world, comm, &request), WHO) &&
           wait_for(l, &(talc_collective){ .what = WHO }, &request) &&
           succeeded(mpi.MPI_Comm_set_errhandler(*comm, mpi.ompi_mpi_errors_return), WHO);
}

static void *open_link(const talc_member *member, talc_device *device, double timeout)
{
    (void)device;
    if (!talc_member_of_mpi()) {
        talc_fail(TALC_BAD_ARGUMENT,
                  "%s: rank %d of %d by %s, but no launcher of MPI started this process: CPU "
                  "processes are started by mpirun -n %d PROGRAM",
                  WHO, member->rank, member->size, member->said_by, member->size);
        return NULL;
    }
    pthread_once(&once, load);
    if (mpi.missing[0] != '\0' || over) {
        talc_fail(TALC_UNSUPPORTED, "%s: %s", WHO,
                  over ? "the process ends, and MPI has ended" : mpi.missing);
        return NULL;
    }
    int size, rank;
    mpi.MPI_Comm_size(mpi.ompi_mpi_comm_world, &size);
    mpi.MPI_Comm_rank(mpi.ompi_mpi_comm_world, &rank);
    if (size != member->size || rank != member->rank) {
        talc_fail(TALC_BAD_ARGUMENT, "%s: rank %d of %d by %s, but rank %d of %d by MPI", WHO,
                  member->rank, member->size, member->said_by, rank, size);
        return NULL;
    }
    link *l = talc_memory_new(sizeof *l, WHO);
    if (l == NULL)
        return NULL;
    *l = (link){ .member = *member,
                 .timeout = timeout,
                 .others = talc_memory_new((size_t)size * sizeof *l->others, WHO) };
    if (l->others == NULL) {
        ended_badly = true;
        talc_memory_free(l);
        return NULL;
    }
    l->joined = duplicate(l, &l->places);
    for (int kind = 0; l->joined && kind < TALC_COLLECTIVE_COUNT; kind++)
        l->joined = duplicate(l, &l->calls[kind]);
    ended_badly |= !l->joined;
    return l->joined ? l : NULL; /* MPI may still write to it */
}

/* What a failed connection has under way may still come, so its memory stays. */
static void close_link(void *opened, bool failed)
{
    link *l = opened;
    ended_badly |= failed;
    if (failed)
        return;
    talc_memory_free(l->others);
    talc_memory_free(l);
}

// ---- Calls --------------------------------------------------------------------------------------

/* Elements in one call of MPI, whose counts are int. */
static const int64_t MOST = INT64_C(1) << 30;

/* Of the elements from `begin` on. */
static int begin_part(const link *l, const talc_collective *call, int64_t begin, int64_t count,
                      MPI_Request *request)
{
    char *data = (char *)call->data + (size_t)begin * talc_dtype_size(call->dtype);
    const MPI_Datatype type = mpi.types[call->dtype];
    const MPI_Comm comm = l->calls[call->kind];
    switch (call->kind) {
    case TALC_COLLECTIVE_BROADCAST:
        return mpi.MPI_Ibcast(data, (int)count, type, call->root, comm, request);
    case TALC_COLLECTIVE_SUM:
    case TALC_COLLECTIVE_MEAN:
        return mpi.MPI_Iallreduce(MPI_IN_PLACE, data, (int)count, type, mpi.ompi_mpi_op_sum, comm,
                                  request);
    case TALC_COLLECTIVE_GATHER:
        return mpi.MPI_Iallgather(call->from, (int)count, type, data, (int)count, type, comm,
                                  request);
    default:
        return mpi.MPI_Ibarrier(comm, request);
    }
}

/* Parts but the last are waited for. */
static bool start_call(void *opened, const talc_collective *call, void **request)
{
    link *l = opened;
    if (over) {
        talc_fail(TALC_PEER_LOST, "%s: the process ends, and MPI has ended", call->what);
        return false;
    }
    if (call->kind == TALC_COLLECTIVE_GATHER && call->count > MOST) {
        talc_fail(TALC_TOO_LARGE, "%s: %" PRId64 " elements of each process, at most %" PRId64,
                  call->what, call->count, MOST);
        return false;
    }
    for (int64_t begin = 0;; begin += MOST) {
        const int64_t left = call->count - begin;
        MPI_Request part;
        if (!succeeded(begin_part(l, call, begin, left < MOST ? left : MOST, &part), call->what))
            return false;
        if (left <= MOST) {
            *request = part;
            under_way++;
            return true;
        }
        if (!wait_for(l, call, &part))
            return false;
    }
}

#define DIVIDE(type)                                                                               \
    for (int64_t i = 0; i < call->count; i++)                                                      \
        ((type *)call->data)[i] /= (type)size;

static bool wait_call(void *opened, const talc_collective *call, void *request)
{
    link *l = opened;
    const int size = l->member.size;
    MPI_Request last = request;
    if (!wait_for(l, call, &last))
        return false;
    under_way--;
    if (call->kind == TALC_COLLECTIVE_MEAN && call->dtype == TALC_F32)
        DIVIDE(float)
    else if (call->kind == TALC_COLLECTIVE_MEAN)
        DIVIDE(double)
    return true;
}

static const talc_transport transport = { open_link, close_link, start_call, wait_call };
const talc_transport *const talc_transport_mpi = &transport;
