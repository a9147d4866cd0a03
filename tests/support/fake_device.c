#define _DEFAULT_SOURCE /* MAP_ANONYMOUS, madvise */

#include "tests/support/fake_device.h"

#include "backends/cpu/cpu.h"
#include "tensor/storage.h"
#include "tensor/streams.h"
#include "tests/support/fake_backend.h"
#include "tests/support/hooks.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* A queued call: what to run, the CPU's row where there is one, and copies of problem and arguments. Without anything to run
 * it is a wait for the first `sequence` pieces of stream `after`. */
typedef struct work {
    struct work *next;
    int after;
    size_t sequence;
    fake_work *execute;
    const void *row;
    void *problem, *arguments;
    size_t problem_bytes, arguments_bytes;
    bool fails;
} work;

/* What a thread records: a list of work that a replay queues again. */
typedef struct notes {
    const talc_device *device;
    work *first, **last;
    bool spoiled; /* by something that cannot be repeated */
} notes;

static _Thread_local notes *recording;

/* Pages of one allocation; the block ends where the last of the usable pages ends, before a guard page. */
typedef struct block {
    struct block *next;
    char *pages, *data;
    size_t usable, mapped; /* bytes of the pages between the guards, and with them */
    bool live;
} block;

/* A stream's work. `entered` and `left` count what went in and came out, waits too. */
typedef struct queue {
    work *first, **last;
    size_t entered, left;
} queue;

typedef struct fake_state {
    pthread_mutex_t lock;
    queue queues[TALC_STREAMS];
    size_t queued, executed, fail_in;
    block *blocks;
    size_t memory_limit, memory_used;
    talc_status fault; /* found while work ran, not raised yet */
    char fault_message[1024];
} fake_state;

/* Set while this thread runs queued work: what that work itself asks of the device happens at once. */
static _Thread_local bool executing;

static fake_state *state_of(const talc_device *device)
{
    return device->state;
}

// ---- Memory -------------------------------------------------------------------------------------------------

static void *must(void *memory)
{
    if (memory == NULL) {
        fprintf(stderr, "fake device: the test machine has no memory\n");
        abort();
    }
    return memory;
}

static void protect(const fake_state *state, int protection)
{
    for (const block *b = state->blocks; b != NULL; b = b->next)
        if (b->live)
            mprotect(b->pages, b->usable, protection);
}

static void *allocate(talc_device *device, size_t bytes)
{
    fake_state *state = state_of(device);
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (bytes > SIZE_MAX / 2 ||
        (state->memory_limit != 0 && state->memory_used + bytes > state->memory_limit))
        return NULL;
    size_t usable = (bytes + page - 1) / page * page;
    char *mapping = mmap(NULL, usable + 2 * page, PROT_NONE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED)
        return NULL;
    block *b = must(calloc(1, sizeof *b));
    *b = (block){ .pages = mapping + page,
                  .data = mapping + page + usable - (bytes + 63) / 64 * 64,
                  .usable = usable,
                  .mapped = usable + 2 * page,
                  .live = true };
    mprotect(b->pages, usable, PROT_READ | PROT_WRITE);
    memset(b->pages, 0xFF, usable);
    mprotect(b->pages, usable, PROT_NONE);
    pthread_mutex_lock(&state->lock);
    b->next = state->blocks;
    state->blocks = b;
    state->memory_used += bytes;
    pthread_mutex_unlock(&state->lock);
    return b->data;
}

static void run_queues(talc_device *device, int first, int last);

/* The pages stay mapped and untouchable, so that using the block from now on is a fault. */
static void deallocate(talc_device *device, void *data, size_t bytes)
{
    fake_state *state = state_of(device);
    run_queues(device, 0, TALC_STREAMS - 1);
    pthread_mutex_lock(&state->lock);
    for (block *b = state->blocks; b != NULL; b = b->next)
        if (b->live && b->data == data) {
            madvise(b->pages, b->usable, MADV_DONTNEED);
            b->live = false;
            state->memory_used -= bytes;
        }
    pthread_mutex_unlock(&state->lock);
}

// ---- The queue ----------------------------------------------------------------------------------------------

static void note_fault(fake_state *state, talc_status status, const char *message)
{
    if (state->fault != TALC_OK)
        return;
    state->fault = status;
    snprintf(state->fault_message, sizeof state->fault_message, "%s", message);
}

static void execute(talc_device *device, work *w)
{
    fake_state *state = state_of(device);
    if (w->fails)
        note_fault(state, TALC_DEVICE_LOST, "fake: a fault that the test asked for");
    else if (w->execute(device, w->row, w->problem, w->arguments) != TALC_OK)
        note_fault(state, talc_error_status(), talc_error_message());
    talc_error_clear();
    state->executed++;
    free(w->problem);
    free(w->arguments);
    free(w);
}

/* Runs the first `sequence` pieces of a stream, and before each wait what it waits for; no other stream moves. */
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
        }
    }
}

/* Runs all that waits in some streams. A failure that stands in the calling thread is none of the device's: it is put aside,
 * since kernels stop at one, and put back. */
static void run_queues(talc_device *device, int first, int last)
{
    fake_state *state = state_of(device);
    if (executing)
        return;
    pthread_mutex_lock(&state->lock);
    bool waiting = false;
    for (int i = first; i <= last; i++)
        waiting = waiting || state->queues[i].first != NULL;
    if (waiting) {
        talc_status standing = talc_error_status();
        char message[1024];
        snprintf(message, sizeof message, "%s", talc_error_message());
        talc_error_clear();
        executing = true;
        protect(state, PROT_READ | PROT_WRITE);
        for (int i = first; i <= last; i++)
            run_queue(device, i, SIZE_MAX);
        protect(state, PROT_NONE);
        executing = false;
        if (standing != TALC_OK)
            talc_fail(standing, "%s", message);
    }
    pthread_mutex_unlock(&state->lock);
}

static void *copy_of(const void *bytes, size_t count)
{
    void *copy = must(malloc(count == 0 ? 1 : count));
    memcpy(copy, bytes, count);
    return copy;
}

static work *work_new(fake_work *function, const void *row, const void *problem,
                      size_t problem_bytes, const void *arguments, size_t arguments_bytes)
{
    work *w = must(calloc(1, sizeof *w));
    *w = (work){ .execute = function,
                 .row = row,
                 .problem = copy_of(problem, problem_bytes),
                 .arguments = copy_of(arguments, arguments_bytes),
                 .problem_bytes = problem_bytes,
                 .arguments_bytes = arguments_bytes };
    return w;
}

static bool is_recording(const talc_device *device)
{
    return recording != NULL && recording->device == device && !executing;
}

static void append(queue *q, work *w)
{
    *q->last = w;
    q->last = &w->next;
    q->entered++;
}

talc_status fake_device_enqueue(talc_device *device, fake_work *function, const void *row,
                                const void *problem, size_t problem_bytes, const void *arguments,
                                size_t arguments_bytes)
{
    if (executing)
        return function(device, row, problem, arguments);
    fake_state *state = state_of(device);
    work *w = work_new(function, row, problem, problem_bytes, arguments, arguments_bytes);
    if (is_recording(device)) {
        *recording->last = w;
        recording->last = &w->next;
        return TALC_OK;
    }
    pthread_mutex_lock(&state->lock);
    w->fails = state->fail_in != 0 && --state->fail_in == 0;
    append(&state->queues[talc_stream_number(device)], w);
    state->queued++;
    pthread_mutex_unlock(&state->lock);
    return TALC_OK;
}

static talc_status order(talc_device *device, int stream, int after)
{
    fake_state *state = state_of(device);
    work *w = must(calloc(1, sizeof *w));
    pthread_mutex_lock(&state->lock);
    *w = (work){ .after = after, .sequence = state->queues[after].entered };
    append(&state->queues[stream], w);
    pthread_mutex_unlock(&state->lock);
    return TALC_OK;
}

static void *stream(talc_device *device)
{
    return talc_stream_of(device, talc_stream_number(device));
}

static talc_status synchronize(talc_device *device)
{
    fake_state *state = state_of(device);
    if (is_recording(device)) {
        recording->spoiled = true;
        return talc_fail(TALC_UNSUPPORTED, "fake: work that is recorded cannot be waited for");
    }
    const int number = talc_stream_number(device);
    run_queues(device, number, number);
    pthread_mutex_lock(&state->lock);
    talc_status fault = state->fault;
    state->fault = TALC_OK;
    pthread_mutex_unlock(&state->lock);
    return fault == TALC_OK ? TALC_OK : talc_fail(fault, "%s", state->fault_message);
}

// ---- Recording ----------------------------------------------------------------------------------------------

static talc_status record_begin(talc_device *device)
{
    cr_assert(recording == NULL, "fake device: a thread records twice at once");
    recording = must(calloc(1, sizeof *recording));
    *recording = (notes){ .device = device, .last = &recording->first };
    return TALC_OK;
}

static void record_free(talc_device *device, void *noted)
{
    notes *of = noted;
    run_queues(device, 0, TALC_STREAMS - 1);
    for (work *w = of->first, *next; w != NULL; w = next) {
        next = w->next;
        free(w->problem);
        free(w->arguments);
        free(w);
    }
    free(of);
}

static void *record_end(talc_device *device)
{
    notes *ended = recording;
    recording = NULL;
    if (!ended->spoiled)
        return ended;
    record_free(device, ended);
    talc_fail(TALC_UNSUPPORTED, "fake: the recording was spoiled");
    return NULL;
}

static talc_status replay(talc_device *device, void *noted)
{
    cr_assert(!is_recording(device), "fake device: a replay is recorded");
    for (const work *w = ((const notes *)noted)->first; w != NULL; w = w->next)
        fake_device_enqueue(device, w->execute, w->row, w->problem, w->problem_bytes, w->arguments,
                            w->arguments_bytes);
    return TALC_OK;
}

// ---- What a device can do apart from ops --------------------------------------------------------------------

typedef struct operands {
    void *dst;
    const void *src;
    size_t bytes;
} operands;

static talc_status execute_copy(talc_device *device, const void *row, const void *problem,
                                const void *arguments)
{
    (void)row;
    const operands *o = arguments;
    return talc_cpu_copy(device, problem, o->dst, o->src);
}

static talc_status execute_fill(talc_device *device, const void *row, const void *problem,
                                const void *arguments)
{
    (void)row;
    return talc_cpu_fill(device, problem, ((const operands *)arguments)->dst);
}

static talc_status execute_random(talc_device *device, const void *row, const void *problem,
                                  const void *arguments)
{
    (void)row;
    return talc_cpu_random(device, problem, ((const operands *)arguments)->dst);
}

/* The host's bytes stand where other work has its problem. */
static talc_status execute_upload(talc_device *device, const void *row, const void *bytes,
                                  const void *arguments)
{
    (void)device;
    (void)row;
    const operands *o = arguments;
    memcpy(o->dst, bytes, o->bytes);
    return TALC_OK;
}

static talc_status copy(talc_device *device, const talc_copy_problem *problem, void *dst,
                        const void *src)
{
    return fake_device_enqueue(device, execute_copy, NULL, problem, sizeof *problem,
                               &(operands){ dst, src, 0 }, sizeof(operands));
}

static talc_status fill(talc_device *device, const talc_fill_problem *problem, void *dst)
{
    return fake_device_enqueue(device, execute_fill, NULL, problem, sizeof *problem,
                               &(operands){ dst, NULL, 0 }, sizeof(operands));
}

static talc_status random_numbers(talc_device *device, const talc_random_problem *problem,
                                  void *dst)
{
    if (is_recording(device))
        recording->spoiled = true;
    return fake_device_enqueue(device, execute_random, NULL, problem, sizeof *problem,
                               &(operands){ dst, NULL, 0 }, sizeof(operands));
}

static talc_status upload(talc_device *device, void *dst, const void *host, size_t bytes)
{
    if (is_recording(device))
        recording->spoiled = true;
    return fake_device_enqueue(device, execute_upload, NULL, host, bytes,
                               &(operands){ dst, NULL, bytes }, sizeof(operands));
}

void fake_device_peek(talc_device *device, void *host, const void *src, size_t bytes)
{
    fake_state *state = state_of(device);
    pthread_mutex_lock(&state->lock);
    protect(state, PROT_READ);
    memcpy(host, src, bytes);
    protect(state, PROT_NONE);
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
    properties->memory_total = state->memory_limit;
    properties->memory_free =
        state->memory_limit == 0 ? 0 : state->memory_limit - state->memory_used;
}

static const talc_device_interface interface = {
    .allocate = allocate,
    .deallocate = deallocate,
    .copy = copy,
    .fill = fill,
    .random = random_numbers,
    .upload = upload,
    .download = download,
    .synchronize = synchronize,
    .timer_start = timer_start,
    .timer_stop = timer_stop,
    .properties = properties,
    .record_begin = record_begin,
    .record_end = record_end,
    .replay = replay,
    .record_free = record_free,
    .order = order,
    .stream = stream,
};

// ---- Devices ------------------------------------------------------------------------------------------------

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
    for (int i = 0; i < TALC_STREAMS; i++)
        state->queues[i].last = &state->queues[i].first;
    pthread_mutex_init(&state->lock, NULL);
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
    state_of(device)->memory_limit = bytes;
}

void assert_fake_devices_freed(void)
{
    talc_scope_leave_all();
    for (size_t i = 0; i < sizeof fakes / sizeof *fakes; i++) {
        talc_device *device = &fakes[i].device;
        if (device->pool == NULL)
            continue;
        run_queues(device, 0, TALC_STREAMS - 1);
        size_t live = talc_device_memory(device).live;
        cr_assert(live == 0, "%zu bytes are still live on %s", live, device->name);
        cr_assert(fakes[i].state.fault == TALC_OK, "nobody saw a fault of %s: %s", device->name,
                  fakes[i].state.fault_message);
        cr_assert(talc_device_close(device), "%s", talc_error_message());
        for (block *b = fakes[i].state.blocks, *next; b != NULL; b = next) {
            next = b->next;
            cr_assert(!b->live, "a block of %s was not given back", device->name);
            munmap(b->pages - (b->mapped - b->usable) / 2, b->mapped);
            free(b);
        }
        pthread_mutex_destroy(&fakes[i].state.lock);
        fakes[i].state.blocks = NULL;
    }
}
