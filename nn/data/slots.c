#include "nn/data/slots.h"

#include "tensor/thread.h"

#include <stdatomic.h>
#include <stdio.h>

// ---- Filling ------------------------------------------------------------------------------------

/* On either thread. talc_data waits until the device has read what was in the slot. */
static talc_slot_state fill(const talc_batch_plan *plan, talc_slot *slot)
{
    const talc_loader_options *o = &plan->options;
    void *images = talc_data(slot->buffer.images, o->dtype);
    int64_t *labels = images == NULL ? NULL : talc_data(slot->buffer.labels, TALC_I64);
    if (labels == NULL) {
        slot->status = talc_error_status();
        snprintf(slot->message, sizeof slot->message, "%s", talc_error_message());
        talc_error_clear();
        return TALC_SLOT_FAILED;
    }
    talc_batch_fill(plan, slot->batch * o->batch, slot->buffer.images->dims[0], images, labels);
    return TALC_SLOT_READY;
}

/* The wanted slot of the earliest batch. */
static talc_slot *wanted_slot(talc_slots *slots)
{
    talc_slot *first = NULL;
    for (int i = 0; i < slots->count; i++) {
        talc_slot *slot = &slots->slot[i];
        if (slot->state == TALC_SLOT_WANTED && (first == NULL || slot->batch < first->batch))
            first = slot;
    }
    return first;
}

static void *thread_main(void *argument)
{
    talc_slots *slots = argument;
    pthread_mutex_lock(&slots->lock);
    while (!slots->ending) {
        talc_slot *slot = wanted_slot(slots);
        if (slot == NULL) {
            pthread_cond_wait(&slots->wake, &slots->lock);
            continue;
        }
        slot->state = TALC_SLOT_FILLED;
        pthread_mutex_unlock(&slots->lock);
        const talc_slot_state state = fill(slots->plan, slot);
        pthread_mutex_lock(&slots->lock);
        slot->state = state;
        pthread_cond_signal(&slots->done);
    }
    pthread_mutex_unlock(&slots->lock);
    return NULL;
}

// ---- The thread, from outside -------------------------------------------------------------------

static atomic_uint forks;

static void after_fork_in_child(void)
{
    atomic_fetch_add(&forks, 1);
}

__attribute__((constructor)) static void watch_forks(void)
{
    (void)pthread_atfork(NULL, NULL, after_fork_in_child);
}

static void make_locks(talc_slots *slots)
{
    pthread_mutex_init(&slots->lock, NULL);
    pthread_cond_init(&slots->wake, NULL);
    pthread_cond_init(&slots->done, NULL);
}

/* Whether there is a thread. In a child of fork there is none, whatever it was doing; what it made
 * is made again. */
static bool has_thread(talc_slots *slots)
{
    if (slots->started && slots->forks != atomic_load(&forks)) {
        slots->started = false;
        make_locks(slots);
        for (int i = 0; i < slots->count; i++)
            slots->slot[i].state = TALC_SLOT_IDLE;
    }
    return slots->started;
}

void talc_slots_begin(talc_slots *slots, const talc_batch_plan *plan)
{
    slots->plan = plan;
    slots->count = plan->options.no_thread ? 1 : TALC_SLOTS;
    make_locks(slots);
}

void talc_slots_end(talc_slots *slots)
{
    if (has_thread(slots)) {
        pthread_mutex_lock(&slots->lock);
        slots->ending = true;
        pthread_cond_signal(&slots->wake);
        pthread_mutex_unlock(&slots->lock);
        pthread_join(slots->thread, NULL);
    }
    pthread_cond_destroy(&slots->wake);
    pthread_cond_destroy(&slots->done);
    pthread_mutex_destroy(&slots->lock);
}

void talc_slots_start(talc_slots *slots)
{
    if (slots->plan->options.no_thread || has_thread(slots))
        return;
    slots->forks = atomic_load(&forks);
    slots->started = talc_thread_start(&slots->thread, thread_main, slots);
}

void talc_slots_wait(talc_slots *slots)
{
    if (!has_thread(slots))
        return;
    pthread_mutex_lock(&slots->lock);
    for (int i = 0; i < slots->count; i++)
        if (slots->slot[i].state == TALC_SLOT_WANTED)
            slots->slot[i].state = TALC_SLOT_IDLE;
    for (int i = 0; i < slots->count; i++)
        while (slots->slot[i].state == TALC_SLOT_FILLED)
            pthread_cond_wait(&slots->done, &slots->lock);
    pthread_mutex_unlock(&slots->lock);
}

void talc_slots_assign(talc_slots *slots, talc_slot *slot, int64_t batch, bool wanted)
{
    const bool threaded = has_thread(slots);
    pthread_mutex_lock(&slots->lock);
    slot->batch = batch;
    slot->state = wanted && threaded ? TALC_SLOT_WANTED : TALC_SLOT_IDLE;
    pthread_cond_signal(&slots->wake);
    pthread_mutex_unlock(&slots->lock);
}

bool talc_slots_obtain(talc_slots *slots, talc_slot *slot)
{
    const bool threaded = has_thread(slots);
    pthread_mutex_lock(&slots->lock);
    if (threaded && slot->state == TALC_SLOT_IDLE) {
        slot->state = TALC_SLOT_WANTED;
        pthread_cond_signal(&slots->wake);
    }
    while (slot->state == TALC_SLOT_WANTED || slot->state == TALC_SLOT_FILLED)
        pthread_cond_wait(&slots->done, &slots->lock);
    if (slot->state == TALC_SLOT_IDLE)
        slot->state = fill(slots->plan, slot);
    const bool ready = slot->state == TALC_SLOT_READY;
    if (!ready)
        slot->state = TALC_SLOT_IDLE;
    pthread_mutex_unlock(&slots->lock);
    if (!ready)
        talc_fail(slot->status, "%s", slot->message);
    return ready;
}
