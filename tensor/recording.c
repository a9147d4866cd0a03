#include "tensor/recording.h"

#include "tensor/generator.h"
#include "tensor/memory.h"
#include "tensor/storage.h"
#include "tensor/streams.h"

#include <pthread.h>
#include <string.h>

typedef struct held_block {
    talc_block block;
    bool taken, held; /* by a tensor or a running op; by noted work that reads it each time */
    bool early;       /* since before work was noted */
} held_block;

/* What noted work reads or writes in memory that is not the recording's. */
typedef struct operand {
    talc_tensor *view; /* retained */
    bool written;
    talc_block saved; /* a copy of the storage; without data: there is none */
} operand;

/* Room for the numbers of noted work. */
enum { NUMBER_CAPACITY = 1 << 16, NUMBER_ALIGNMENT = 16 };

struct talc_recording {
    talc_device *device;
    bool of_step;
    pthread_mutex_t lock; /* of the places and counts: any thread may free a block */
    held_block *blocks;
    size_t count, capacity;
    size_t taken; /* places whose blocks live */
    bool pool;    /* entered with it */
    bool noting;  /* between begin and end */
    bool closed;  /* freed, apart from blocks that live on */
    int stream;   /* of its last use, by number (tensor/streams.h) */
    void *noted;  /* the device's */
    operand *operands;
    size_t operand_count, operand_capacity;
    talc_numbers *numbers;
    size_t number_count, number_list_capacity;
    talc_block number_block;
    unsigned char *number_bytes; /* the host's copy */
    size_t number_end;           /* bytes in use */
};

static _Thread_local talc_recording *entered;

bool talc_recording_possible(const talc_device *device)
{
    return device->interface->record_begin != NULL;
}

talc_recording *talc_recording_new(talc_device *device, bool of_step)
{
    talc_recording *recording = talc_memory_new(sizeof *recording, "capture");
    if (recording == NULL)
        return NULL;
    recording->device = device;
    recording->of_step = of_step;
    recording->stream = talc_stream_number(device);
    pthread_mutex_init(&recording->lock, NULL);
    return recording;
}

/* Once nothing of it lives. */
static void destroy(talc_recording *recording)
{
    pthread_mutex_destroy(&recording->lock);
    talc_memory_free(recording->blocks);
    talc_memory_free(recording);
}

static void give_back(talc_device *device, talc_block block)
{
    block.recording = NULL;
    talc_block_free(device, block);
}

static void release_operands(talc_recording *recording)
{
    for (size_t i = 0; i < recording->operand_count; i++)
        talc_release(recording->operands[i].view);
    talc_memory_free(recording->operands);
    recording->operands = NULL;
    recording->operand_count = 0;
}

static void release_numbers(talc_recording *recording)
{
    for (size_t i = 0; i < recording->number_count; i++)
        talc_memory_free(recording->numbers[i].of);
    talc_memory_free(recording->numbers);
    talc_memory_free(recording->number_bytes);
    talc_block_free(recording->device, recording->number_block);
    recording->numbers = NULL;
    recording->number_bytes = NULL;
    recording->number_block = (talc_block){ 0 };
    recording->number_count = 0;
}

void talc_recording_free(talc_recording *recording)
{
    if (recording == NULL)
        return;
    /* First, since it waits for replays that may still use the rest. */
    if (recording->noted != NULL)
        recording->device->interface->record_free(recording->device, recording->noted);
    recording->noted = NULL;
    release_operands(recording);
    release_numbers(recording);
    pthread_mutex_lock(&recording->lock);
    recording->closed = true;
    const bool lives = recording->taken > 0;
    for (size_t i = 0; i < recording->count; i++)
        if (!recording->blocks[i].taken)
            give_back(recording->device, recording->blocks[i].block);
    pthread_mutex_unlock(&recording->lock);
    if (!lives)
        destroy(recording);
}

// ---- What the thread is in ----------------------------------------------------------------------

bool talc_recording_active(const talc_device *device)
{
    return entered != NULL && entered->device == device;
}

bool talc_recording_refuses(const char *who, const talc_device *device, const char *what)
{
    if (!talc_recording_active(device))
        return false;
    talc_fail(TALC_UNSUPPORTED, "%s: cannot %s while a graph of %s is being recorded", who, what,
              device->name);
    return true;
}

bool talc_recording_refuses_device(const char *who, const talc_device *device)
{
    if (entered == NULL || entered->device == device)
        return false;
    talc_fail(TALC_UNSUPPORTED, "%s: cannot work on %s while a graph of %s is being recorded", who,
              device->name, entered->device->name);
    return true;
}

bool talc_recording_enter(const char *who, talc_recording *recording, bool pool)
{
    if (entered != NULL) {
        talc_recording_refuses(who, entered->device, "hold another graph");
        return false;
    }
    recording->pool = pool;
    entered = recording;
    return true;
}

void talc_recording_leave(void)
{
    entered = NULL;
}

talc_recording *talc_recording_pause(void)
{
    talc_recording *recording = entered;
    if (recording == NULL || recording->noting)
        return NULL;
    entered = NULL;
    return recording;
}

void talc_recording_resume(talc_recording *recording)
{
    if (recording != NULL)
        entered = recording;
}

bool talc_recording_records_step(const talc_device *device)
{
    return talc_recording_of_step(device) && entered->noting;
}

bool talc_recording_of_step(const talc_device *device)
{
    return talc_recording_active(device) && entered->of_step;
}

bool talc_recording_refuses_random(const char *who, const talc_device *device)
{
    return (entered == NULL || !entered->of_step) &&
           talc_recording_refuses(who, device, "draw random numbers");
}

/* What is taken by now stays as earlier work has left it. */
static void record_early(talc_recording *recording)
{
    pthread_mutex_lock(&recording->lock);
    for (size_t i = 0; i < recording->count; i++)
        recording->blocks[i].early = recording->blocks[i].taken;
    pthread_mutex_unlock(&recording->lock);
}

static bool prepare_numbers(talc_recording *recording)
{
    recording->number_bytes = talc_memory_new(NUMBER_CAPACITY, "step");
    return recording->number_bytes != NULL &&
           talc_block_new(recording->device, "step", NUMBER_CAPACITY, &recording->number_block) ==
               TALC_OK;
}

bool talc_recording_begin(talc_recording *recording)
{
    talc_device *device = recording->device;
    record_early(recording);
    if (recording->of_step && !prepare_numbers(recording))
        return false;
    recording->noting = device->interface->record_begin(device) == TALC_OK;
    return recording->noting;
}

bool talc_recording_end(talc_recording *recording)
{
    talc_device *device = recording->device;
    recording->noting = false;
    recording->noted = device->interface->record_end(device);
    return recording->noted != NULL;
}

bool talc_recording_follow(talc_recording *recording)
{
    talc_device *device = recording->device;
    const int stream = talc_stream_number(device);
    return stream == recording->stream ||
           talc_stream_order(device, stream, recording->stream) == TALC_OK;
}

const void *talc_recording_numbers(const talc_numbers *numbers)
{
    talc_recording *recording = entered;
    talc_numbers *grown =
        numbers->of == NULL || talc_failed()
            ? NULL
            : talc_memory_grown(recording->numbers, recording->number_count,
                                &recording->number_list_capacity, sizeof *grown, "step");
    if (grown != NULL)
        recording->numbers = grown;
    if (grown != NULL && recording->number_end + numbers->bytes > NUMBER_CAPACITY) {
        talc_fail(TALC_UNSUPPORTED, "step: more than %d bytes of rates and counters",
                  (int)NUMBER_CAPACITY);
        grown = NULL;
    }
    if (grown == NULL) {
        talc_memory_free(numbers->of);
        return NULL;
    }
    const void *at = (const char *)recording->number_block.data + recording->number_end;
    grown[recording->number_count++] = *numbers;
    recording->number_end +=
        (numbers->bytes + NUMBER_ALIGNMENT - 1) / NUMBER_ALIGNMENT * NUMBER_ALIGNMENT;
    return at;
}

static bool upload_numbers(talc_recording *recording)
{
    talc_device *device = recording->device;
    size_t at = 0;
    for (size_t i = 0; i < recording->number_count; i++) {
        const talc_numbers *n = &recording->numbers[i];
        if (!n->fill(n->of, recording->number_bytes + at))
            return false;
        at += (n->bytes + NUMBER_ALIGNMENT - 1) / NUMBER_ALIGNMENT * NUMBER_ALIGNMENT;
    }
    return at == 0 || device->interface->upload(device, recording->number_block.data,
                                                recording->number_bytes, at) == TALC_OK;
}

bool talc_recording_replay(talc_recording *recording)
{
    talc_device *device = recording->device;
    const talc_generator before = talc_generator_get();
    if (!upload_numbers(recording) ||
        device->interface->replay(device, recording->noted) != TALC_OK) {
        talc_generator_restore(before);
        return false;
    }
    for (size_t i = 0; i < recording->number_count; i++)
        if (recording->numbers[i].done != NULL)
            recording->numbers[i].done(recording->numbers[i].of);
    recording->stream = talc_stream_number(device);
    for (size_t i = 0; i < recording->operand_count; i++)
        if (recording->operands[i].written)
            talc_tensor_written(recording->operands[i].view);
    return true;
}

// ---- Others' tensors ----------------------------------------------------------------------------

bool talc_recording_owns(const talc_recording *recording, const talc_tensor *tensor)
{
    return tensor->storage->block.recording == recording;
}

static operand *operand_of(const talc_recording *recording, const talc_tensor *tensor)
{
    for (size_t i = 0; i < recording->operand_count; i++)
        if (recording->operands[i].view->storage == tensor->storage)
            return &recording->operands[i];
    return NULL;
}

bool talc_recording_writes(const talc_recording *recording, const talc_tensor *tensor)
{
    const operand *found = operand_of(recording, tensor);
    return found != NULL && found->written;
}

/* Views, since the program, or a layer that makes what it keeps anew, may be about to let go of the
 * tensor itself. */
static operand *hold_operand(talc_recording *recording, const talc_tensor *tensor)
{
    operand *grown = talc_memory_grown(recording->operands, recording->operand_count,
                                       &recording->operand_capacity, sizeof *grown, "capture");
    if (grown == NULL)
        return NULL;
    recording->operands = grown;
    talc_tensor *view = talc_retain(talc_tensor_alias(tensor));
    if (view == NULL)
        return NULL;
    operand *held = &grown[recording->operand_count++];
    *held = (operand){ .view = view };
    return held;
}

static bool copy_bytes(talc_device *device, void *to, const void *from, size_t bytes)
{
    const talc_copy_problem problem = { .dst_dtype = TALC_U8,
                                        .src_dtype = TALC_U8,
                                        .rank = 1,
                                        .dims = { (int64_t)bytes },
                                        .dst_strides = { 1 },
                                        .src_strides = { 1 } };
    return device->interface->copy(device, &problem, to, from) == TALC_OK;
}

/* A whole storage, since it may be written through several views. */
static bool save(talc_device *device, operand *of)
{
    const talc_block *from = &of->view->storage->block;
    talc_block to;
    if (!of->written || talc_block_new(device, "capture", from->capacity, &to) != TALC_OK)
        return !of->written;
    talc_tensor_used(of->view);
    if (to.data == NULL || copy_bytes(device, to.data, from->data, from->capacity)) {
        of->saved = to;
        return true;
    }
    talc_block_free(device, to);
    return false;
}

bool talc_recording_save(talc_recording *recording)
{
    bool saved = true;
    for (size_t i = 0; i < recording->operand_count && saved; i++)
        saved = save(recording->device, &recording->operands[i]);
    return saved;
}

bool talc_recording_restore(talc_recording *recording)
{
    bool restored = true;
    for (size_t i = 0; i < recording->operand_count; i++) {
        operand *of = &recording->operands[i];
        const talc_block *to = &of->view->storage->block;
        if (of->saved.data == NULL)
            continue;
        restored =
            copy_bytes(recording->device, to->data, of->saved.data, to->capacity) && restored;
        talc_tensor_written(of->view);
        talc_block_free(recording->device, of->saved);
        of->saved = (talc_block){ 0 };
    }
    return restored;
}

/* Whether a block of the recording's was made by a pass before the one that is noted: replays would
 * find it as they left it. */
static bool is_early(talc_recording *recording, const talc_tensor *tensor)
{
    bool early = false;
    pthread_mutex_lock(&recording->lock);
    for (size_t i = 0; i < recording->count; i++)
        early = early || (recording->blocks[i].early &&
                          recording->blocks[i].block.data == tensor->storage->block.data);
    pthread_mutex_unlock(&recording->lock);
    return early;
}

void talc_recording_uses(const talc_tensor *tensor, bool written)
{
    talc_recording *recording = entered;
    if (recording == NULL || !recording->noting)
        return;
    if (talc_recording_owns(recording, tensor)) {
        if (recording->of_step && is_early(recording, tensor))
            talc_fail(TALC_UNSUPPORTED,
                      "step: it uses a tensor that its last run made, such as a gradient that was "
                      "not cleared; begin with talc_optimizer_zero_grad");
        return;
    }
    operand *held = operand_of(recording, tensor);
    if (held == NULL)
        held = hold_operand(recording, tensor);
    if (held != NULL)
        held->written = held->written || written;
}

// ---- Memory -------------------------------------------------------------------------------------

talc_recording *talc_recording_serving(const talc_device *device)
{
    return talc_recording_active(device) && entered->pool ? entered : NULL;
}

/* Room for another place. */
static bool grow(talc_recording *recording)
{
    held_block *blocks = talc_memory_grown(recording->blocks, recording->count,
                                           &recording->capacity, sizeof *blocks, "capture");
    if (blocks == NULL)
        return false;
    recording->blocks = blocks;
    return true;
}

/* The smallest that serves: the second pass asks for the first one's sizes in the same order, so it
 * finds them. */
bool talc_recording_take(talc_recording *recording, size_t capacity, talc_block *block)
{
    held_block *best = NULL;
    pthread_mutex_lock(&recording->lock);
    for (size_t i = 0; i < recording->count; i++) {
        held_block *at = &recording->blocks[i];
        if (!at->taken && !at->held && at->block.capacity >= capacity &&
            (best == NULL || at->block.capacity < best->block.capacity))
            best = at;
    }
    if (best != NULL) {
        best->taken = true;
        best->early = false;
        recording->taken++;
        *block = best->block;
    }
    pthread_mutex_unlock(&recording->lock);
    return best != NULL;
}

bool talc_recording_own(talc_recording *recording, talc_block *block)
{
    pthread_mutex_lock(&recording->lock);
    const bool has_capacity = grow(recording);
    if (has_capacity) {
        block->recording = recording;
        recording->blocks[recording->count++] = (held_block){ *block, true, false, false };
        recording->taken++;
    }
    pthread_mutex_unlock(&recording->lock);
    return has_capacity;
}

/* Noted work reads a block of the device's pool that is freed meanwhile: it stays until the
 * recording is freed. Without memory to note that, it stays for good. */
static void hold(talc_recording *recording, talc_block block)
{
    pthread_mutex_lock(&recording->lock);
    if (grow(recording))
        recording->blocks[recording->count++] = (held_block){ block, false, true, false };
    pthread_mutex_unlock(&recording->lock);
}

bool talc_recording_keep(talc_device *device, talc_block block)
{
    talc_recording *recording = block.recording;
    if (recording == NULL) {
        const bool noted = talc_recording_active(device) && entered->noting;
        if (noted)
            hold(entered, block);
        return noted;
    }
    pthread_mutex_lock(&recording->lock);
    for (size_t i = 0; i < recording->count; i++)
        if (recording->blocks[i].block.data == block.data)
            recording->blocks[i].taken = false;
    const bool last = --recording->taken == 0, closed = recording->closed;
    pthread_mutex_unlock(&recording->lock);
    if (closed) {
        give_back(device, block);
        if (last)
            destroy(recording);
    }
    return true;
}
