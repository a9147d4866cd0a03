#include "tests/support/fake_device.h"

#include "tensor/fenv.h"
#include "tensor/memory.h"
#include "tensor/storage.h"
#include "tensor/streams.h"
#include "tests/support/fake_backend.h"
#include "tests/support/fake_copies.h"
#include "tests/support/fake_pages.h"
#include "tests/support/fake_recording.h"
#include "tests/support/gpu.h"
#include "tests/support/hooks.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* A queued call: what to run, the CPU's algorithm where there is one, and copies of problem and
 * arguments. Without anything to run it is a wait for the first `sequence` pieces of stream
 * `after`. */
typedef struct work {
    struct work *next;
    int after;
    size_t sequence;
    fake_work *execute;
    const void *algorithm;
    void *problem, *arguments;
    bool fails;
} work;

/* Streams beside those of threads (stream_new), of which a device has a few. */
enum { BESIDE = 8, QUEUES = TALC_STREAMS + BESIDE };

/* A stream's work. `entered`, `left` and `done` count what went in, came out and is over, waits
 * too. */
typedef struct queue {
    work *first, **last;
    size_t entered, left, done, work; /* the last of work that is not over */
    size_t needs[QUEUES];             /* of each stream: what its waits are for */
    bool taken;                       /* by stream_new */
} queue;

/* What stream_new gives; the device first, as of other streams (gpu.c). */
typedef struct beside {
    const talc_device *device;
    int queue;
} beside;

typedef struct fake_state {
    pthread_mutex_t lock;
    queue queues[QUEUES];
    size_t queued, executed, fail_in;
    fake_pages pages;
    talc_status fault; /* found while work ran, not raised yet */
    char fault_message[1024];
} fake_state;

/* Every stream, as bits. */
static const uint32_t ALL = UINT32_MAX;

/* Set while this thread runs queued work: what that work itself asks of the device happens at
 * once. */
static _Thread_local bool executing;

static fake_state *state_of(const talc_device *device)
{
    return device->state;
}

// ---- Memory -------------------------------------------------------------------------------------

static void *must(void *memory)
{
    if (memory == NULL) {
        fprintf(stderr, "fake device: the test machine has no memory\n");
        abort();
    }
    return memory;
}

static void *allocate(talc_device *device, size_t bytes)
{
    return fake_pages_allocate(&state_of(device)->pages, bytes);
}

static void run_queues(talc_device *device, uint32_t streams);

static void deallocate(talc_device *device, void *data, size_t bytes)
{
    run_queues(device, ALL);
    fake_pages_free(&state_of(device)->pages, data, bytes);
}

// ---- The queue ----------------------------------------------------------------------------------

static void record_fault(fake_state *state, talc_status status, const char *message)
{
    if (state->fault != TALC_OK)
        return;
    state->fault = status;
    snprintf(state->fault_message, sizeof state->fault_message, "%s", message);
}

static void execute(talc_device *device, work *w)
{
    TALC_DEFAULT_FENV; /* a device's own, whoever waits for it */
    fake_state *state = state_of(device);
    if (w->fails)
        record_fault(state, TALC_DEVICE_LOST, "fake: a fault that the test asked for");
    else if (w->execute(device, w->algorithm, w->problem, w->arguments) != TALC_OK)
        record_fault(state, talc_error_status(), talc_error_message());
    talc_error_clear();
    state->executed++;
    free(w->problem);
    free(w->arguments);
    free(w);
}

/* Runs the first `sequence` pieces of a stream, and before each wait what it waits for; no other
 * stream moves. */
static void run_queue(talc_device *device, int stream, size_t sequence)
{
    fake_state *state = state_of(device);
    queue *q = &state->queues[stream];
    while (q->first != NULL && q->left < sequence) {
        work *w = q->first;
        q->first = w->next;
        if (q->first == NULL)
            q->last = &q->first;
        q->left++;
        if (w->execute == NULL) {
            run_queue(device, w->after, w->sequence);
            free(w);
        } else {
            state->queued--;
            execute(device, w);
            __atomic_fetch_sub(&q->work, 1, __ATOMIC_ACQ_REL);
        }
        __atomic_fetch_add(&q->done, 1, __ATOMIC_ACQ_REL);
    }
}

/* Those beside the threads' are among all only. */
static bool among(uint32_t streams, int at)
{
    return at < TALC_STREAMS ? (streams >> at & 1) != 0 : streams == ALL;
}

/* Runs all that waits in some streams, by their bits, and in one more. A failure that stands in the
 * calling thread is none of the device's: it is put aside, since kernels stop at one, and put
 * back. */
static void run_some(talc_device *device, uint32_t streams, int more)
{
    fake_state *state = state_of(device);
    if (executing)
        return;
    pthread_mutex_lock(&state->lock);
    bool waiting = false;
    for (int i = 0; i < QUEUES; i++)
        waiting = waiting || ((i == more || among(streams, i)) && state->queues[i].first != NULL);
    if (waiting) {
        talc_status standing = talc_error_status();
        char message[1024];
        snprintf(message, sizeof message, "%s", talc_error_message());
        talc_error_clear();
        executing = true;
        fake_pages_protect(&state->pages, PROT_READ | PROT_WRITE);
        for (int i = 0; i < QUEUES; i++)
            if (i == more || among(streams, i))
                run_queue(device, i, SIZE_MAX);
        fake_pages_protect(&state->pages, PROT_NONE);
        executing = false;
        if (standing != TALC_OK)
            talc_fail(standing, "%s", message);
    }
    pthread_mutex_unlock(&state->lock);
}

static void run_queues(talc_device *device, uint32_t streams)
{
    run_some(device, streams, -1);
}

static void *copy_of(const void *bytes, size_t count)
{
    void *copy = must(malloc(count == 0 ? 1 : count));
    memcpy(copy, bytes, count);
    return copy;
}

static void append(queue *q, work *w)
{
    *q->last = w;
    q->last = &w->next;
    __atomic_fetch_add(&q->entered, 1, __ATOMIC_ACQ_REL);
}

static talc_status enqueue_at(talc_device *device, int at, fake_work *function,
                              const void *algorithm, const void *problem, size_t problem_bytes,
                              const void *arguments, size_t arguments_bytes)
{
    if (fake_recording_add(device, function, algorithm, problem, problem_bytes, arguments,
                           arguments_bytes))
        return TALC_OK;
    fake_state *state = state_of(device);
    work *w = must(calloc(1, sizeof *w));
    *w = (work){ .execute = function,
                 .algorithm = algorithm,
                 .problem = copy_of(problem, problem_bytes),
                 .arguments = copy_of(arguments, arguments_bytes) };
    pthread_mutex_lock(&state->lock);
    w->fails = state->fail_in != 0 && --state->fail_in == 0;
    __atomic_fetch_add(&state->queues[at].work, 1, __ATOMIC_ACQ_REL);
    append(&state->queues[at], w);
    state->queued++;
    pthread_mutex_unlock(&state->lock);
    return TALC_OK;
}

talc_status fake_device_enqueue(talc_device *device, fake_work *function, const void *algorithm,
                                const void *problem, size_t problem_bytes, const void *arguments,
                                size_t arguments_bytes)
{
    if (executing)
        return function(device, algorithm, problem, arguments);
    return enqueue_at(device, talc_stream_number(device), function, algorithm, problem,
                      problem_bytes, arguments, arguments_bytes);
}

void fake_device_enqueue_beside(talc_device *device, void *stream, fake_work *function,
                                const void *problem, size_t problem_bytes)
{
    enqueue_at(device, ((const beside *)stream)->queue, function, NULL, problem, problem_bytes,
               problem, 0);
}

void fake_device_run_beside(talc_device *device, void *stream)
{
    run_some(device, 0, ((beside *)stream)->queue);
}
static talc_status order(talc_device *device, int stream, int after)
{
    fake_state *state = state_of(device);
    work *w = must(calloc(1, sizeof *w));
    pthread_mutex_lock(&state->lock);
    *w = (work){ .after = after, .sequence = state->queues[after].entered };
    __atomic_store_n(&state->queues[stream].needs[after], w->sequence, __ATOMIC_RELEASE);
    append(&state->queues[stream], w);
    pthread_mutex_unlock(&state->lock);
    return TALC_OK;
}

static void *stream_new(talc_device *device)
{
    beside *stream = must(malloc(sizeof *stream));
    *stream = (beside){ device, TALC_STREAMS };
    while (stream->queue < QUEUES && state_of(device)->queues[stream->queue].taken)
        stream->queue++;
    cr_assert(stream->queue < QUEUES);
    state_of(device)->queues[stream->queue].taken = true;
    return stream;
}

static void stream_free(talc_device *device, void *stream)
{
    state_of(device)->queues[((beside *)stream)->queue].taken = false;
    free(stream);
}

/* What is recorded is repeated in the order of the calls. */
static talc_status stream_wait(talc_device *device, void *stream, bool back)
{
    const int own = talc_stream_number(device), other = ((beside *)stream)->queue;
    return fake_recording_active(device) ? TALC_OK
                                         : order(device, back ? own : other, back ? other : own);
}

/* Without the lock, which is held while work runs: whether nothing is left, or but waits for what
 * is over. */
static bool stream_idle(talc_device *device, void *stream)
{
    const queue *queues = state_of(device)->queues, *q = &queues[((beside *)stream)->queue];
    bool idle = __atomic_load_n(&q->work, __ATOMIC_ACQUIRE) == 0;
    for (int i = 0; i < QUEUES; i++)
        idle = idle && __atomic_load_n(&queues[i].done, __ATOMIC_ACQUIRE) >=
                           __atomic_load_n(&q->needs[i], __ATOMIC_ACQUIRE);
    return idle;
}

static void *stream(talc_device *device)
{
    return talc_stream_of(device, talc_stream_number(device));
}

/* For some streams, by their bits; then raises, once, what showed while work ran. */
static talc_status wait_for(talc_device *device, uint32_t streams)
{
    fake_state *state = state_of(device);
    if (fake_recording_break(device))
        return talc_fail(TALC_UNSUPPORTED, "fake: work that is recorded cannot be waited for");
    run_queues(device, streams);
    pthread_mutex_lock(&state->lock);
    talc_status fault = state->fault;
    state->fault = TALC_OK;
    pthread_mutex_unlock(&state->lock);
    return fault == TALC_OK ? TALC_OK : talc_fail(fault, "%s", state->fault_message);
}

static talc_status synchronize(talc_device *device)
{
    return wait_for(device, UINT32_C(1) << talc_stream_number(device));
}

static void record_stream(void *streams, int stream)
{
    *(uint32_t *)streams |= UINT32_C(1) << stream;
}

static talc_status synchronize_all(talc_device *device)
{
    uint32_t streams = 0;
    talc_streams_each(device, record_stream, &streams);
    return wait_for(device, streams);
}

void fake_device_finish(talc_device *device)
{
    run_queues(device, ALL);
}

// ---- What a device can do apart from ops --------------------------------------------------------

static talc_status await(talc_device *device, const void *host)
{
    (void)host;
    return wait_for(device, ALL);
}

static void *pin(talc_device *device, size_t bytes)
{
    void *memory = talc_allocation_allowed(bytes) ? malloc(bytes) : NULL;
    if (memory == NULL)
        talc_fail(TALC_NO_MEMORY, "pinned: out of memory for %s", device->name);
    return memory;
}

static void unpin(talc_device *device, void *host)
{
    run_queues(device, ALL);
    free(host);
}

void fake_device_peek(talc_device *device, void *host, const void *src, size_t bytes)
{
    fake_state *state = state_of(device);
    pthread_mutex_lock(&state->lock);
    fake_pages_protect(&state->pages, PROT_READ);
    memcpy(host, src, bytes);
    fake_pages_protect(&state->pages, PROT_NONE);
    pthread_mutex_unlock(&state->lock);
}

static talc_status download(talc_device *device, void *host, const void *src, size_t bytes)
{
    talc_status status = synchronize(device);
    if (status == TALC_OK)
        fake_device_peek(device, host, src, bytes);
    return status;
}

/* Its clock counts calls that ran, one a second. */
static talc_status timer_start(talc_device *device, void **timer)
{
    const talc_status status = synchronize(device);
    if (status != TALC_OK)
        return status;
    size_t *start = *timer = must(malloc(sizeof *start));
    *start = state_of(device)->executed;
    return TALC_OK;
}

static talc_status timer_stop(talc_device *device, void *timer, double *seconds)
{
    const talc_status status = synchronize(device);
    *seconds = (double)(state_of(device)->executed - *(const size_t *)timer);
    free(timer);
    return status;
}

static void properties(talc_device *device, talc_device_properties *properties)
{
    const fake_state *state = state_of(device);
    snprintf(properties->description, sizeof properties->description, "the tests' fake device");
    properties->units = 1;
    properties->memory_total = state->pages.limit;
    properties->memory_free = state->pages.limit == 0 ? 0 : state->pages.limit - state->pages.used;
}

/* What was given back stays untouchable until here. */
static void close_fake(talc_device *device)
{
    fake_state *state = state_of(device);
    run_queues(device, ALL);
    fake_pages_close(&state->pages);
    pthread_mutex_destroy(&state->lock);
}

static const talc_device_interface interface = {
    .allocate = allocate,
    .deallocate = deallocate,
    .copy = fake_copy,
    .join = fake_join,
    .fill = fake_fill,
    .random = fake_random,
    .upload = fake_upload,
    .download = download,
    .synchronize = synchronize,
    .synchronize_all = synchronize_all,
    .timer_start = timer_start,
    .timer_stop = timer_stop,
    .properties = properties,
    .record_begin = fake_record_begin,
    .record_end = fake_record_end,
    .replay = fake_replay,
    .record_free = fake_record_free,
    .pin = pin,
    .unpin = unpin,
    .send = fake_move,
    .receive = fake_move,
    .await = await,
    .order = order,
    .takes_stream = fake_takes_stream,
    .stream = stream,
    .stream_new = stream_new,
    .stream_free = stream_free,
    .stream_wait = stream_wait,
    .stream_idle = stream_idle,
    .close = close_fake,
    .add = talc_add,
    .sum = talc_sum,
};

// ---- Devices ------------------------------------------------------------------------------------

static struct {
    talc_device device;
    fake_state state;
} fakes[2];

static talc_device *open_fake(int index, const char *name)
{
    talc_device *device = &fakes[index].device;
    fake_state *state = &fakes[index].state;
    if (device->pool != NULL)
        return device;
    *device = (talc_device){ .interface = &interface,
                             .backend = fake_backend(),
                             .workspace_limit = (size_t)32 << 20,
                             .state = state };
    snprintf(device->name, sizeof device->name, "%s", name);
    *state = (fake_state){ .queued = 0 };
    for (int i = 0; i < QUEUES; i++)
        state->queues[i].last = &state->queues[i].first;
    pthread_mutex_init(&state->lock, NULL);
    fake_pages_open(&state->pages);
    return talc_device_open(device) == TALC_OK ? device : NULL;
}

talc_device *fake_device(void)
{
    return open_fake(0, "fake");
}

talc_device *other_fake_device(void)
{
    return open_fake(1, "fake:1");
}

size_t fake_device_queued(const talc_device *device)
{
    return state_of(device)->queued;
}

size_t fake_device_executed(const talc_device *device)
{
    return state_of(device)->executed;
}

void fake_device_fail_work(talc_device *device, size_t k)
{
    state_of(device)->fail_in = k;
}

void fake_device_limit_memory(talc_device *device, size_t bytes)
{
    state_of(device)->pages.limit = bytes;
}

void assert_fake_devices_freed(void)
{
    talc_scope_leave_all();
    for (size_t i = 0; i < sizeof fakes / sizeof *fakes; i++) {
        talc_device *device = &fakes[i].device;
        if (device->pool == NULL)
            continue;
        run_queues(device, ALL);
        size_t live = talc_device_memory(device).live;
        cr_assert(live == 0, "%zu bytes are still live on %s", live, device->name);
        cr_assert(fakes[i].state.fault == TALC_OK, "nobody saw a fault of %s: %s", device->name,
                  fakes[i].state.fault_message);
        cr_assert(talc_device_close(device), "%s", talc_error_message());
    }
}
