#include "nn/data/slots.h"

#include "tensor/thread.h"

#include <stdatomic.h>
#include <stdio.h>

// ---- Filling ------------------------------------------------------------------------------------

/* Keeps this thread's failure, of the sample at that place of the batch, if it is the first. */
static void keep_failure(talc_slot *slot, int64_t at)
{
    if (slot->status == TALC_OK || at < slot->failed) {
        slot->failed = at;
        slot->status = talc_error_status();
        snprintf(slot->message, sizeof slot->message, "%s", talc_error_message());
    }
    talc_error_clear();
}

/* talc_data waits until the device has read what was in the slot. */
static bool open_slot(const talc_batch_plan *plan, talc_slot *slot)
{
    slot->images = talc_data(slot->buffer.images, plan->options.dtype);
    slot->labels =
        slot->images == NULL ? NULL : talc_data(slot->buffer.labels, slot->buffer.labels->dtype);
    return slot->labels != NULL;
}

/* Samples first .. end - 1 of the batch; returns where it ended. */
static int64_t fill(const talc_batch_plan *plan, talc_slot *slot, int64_t first, int64_t end,
                    talc_scratch *scratch)
{
    const int64_t place = talc_batch_places_of(plan, slot->batch).first;
    int64_t i = first;
    while (i < end && talc_batch_fill(plan, place + i, i, slot->images, slot->labels, scratch))
        i++;
    return i;
}

static int64_t count_of(const talc_slot *slot)
{
    return slot->buffer.images->dims[0];
}

/* All of it, on the calling thread. */
static talc_slot_state fill_whole(talc_slots *slots, talc_slot *slot)
{
    slot->status = TALC_OK;
    const int64_t count = count_of(slot);
    const int64_t end =
        open_slot(slots->plan, slot) ? fill(slots->plan, slot, 0, count, &slots->scratch) : 0;
    if (end == count)
        return TALC_SLOT_READY;
    keep_failure(slot, end);
    return TALC_SLOT_FAILED;
}

static bool has_work(const talc_slot *slot)
{
    return slot->state == TALC_SLOT_WANTED ||
           (slot->state == TALC_SLOT_FILLED && slot->taken < count_of(slot));
}

/* The slot of the earliest batch that has samples for a thread. */
static talc_slot *slot_with_work(talc_slots *slots)
{
    talc_slot *first = NULL;
    for (int i = 0; i < slots->count; i++) {
        talc_slot *slot = &slots->slot[i];
        if (has_work(slot) && (first == NULL || slot->batch < first->batch))
            first = slot;
    }
    return first;
}

/* A thread leaves a slot; the last one says what became of it. */
static void leave(talc_slots *slots, talc_slot *slot)
{
    slot->working--;
    if (slot->working > 0 || slot->taken < count_of(slot))
        return;
    slot->state = slot->status == TALC_OK ? TALC_SLOT_READY : TALC_SLOT_FAILED;
    pthread_cond_signal(&slots->done);
}

/* The first thread in a slot; the others have no work there until it is open. The lock is held
 * before and after. */
static void begin_slot(talc_slots *slots, talc_slot *slot)
{
    const int64_t count = count_of(slot);
    slot->state = TALC_SLOT_FILLED;
    slot->status = TALC_OK;
    slot->taken = count;
    pthread_mutex_unlock(&slots->lock);
    const bool is_open = open_slot(slots->plan, slot);
    pthread_mutex_lock(&slots->lock);
    if (!is_open)
        keep_failure(slot, 0);
    else if (!slot->abandoned)
        slot->taken = 0;
    if (slots->started > 1)
        pthread_cond_broadcast(&slots->wake);
}

/* Some samples of a slot: few at a time, so that several threads end at about the same time, and
 * that a caller who begins another epoch does not wait for all of a batch. */
static void work_in(talc_slots *slots, talc_slot *slot, talc_scratch *scratch)
{
    slot->working++;
    if (slot->state == TALC_SLOT_WANTED)
        begin_slot(slots, slot);
    const int64_t count = count_of(slot), first = slot->taken, left = count - first;
    const int64_t share = (count - 1) / (4 * slots->started) + 1;
    const int64_t end = first + (share < left ? share : left);
    slot->taken = end;
    pthread_mutex_unlock(&slots->lock);
    const int64_t filled = fill(slots->plan, slot, first, end, scratch);
    pthread_mutex_lock(&slots->lock);
    if (filled < end) {
        keep_failure(slot, filled);
        slot->taken = count;
    }
    leave(slots, slot);
}

static void *thread_main(void *argument)
{
    talc_slots *slots = argument;
    talc_scratch scratch = { .who = "loader" };
    pthread_mutex_lock(&slots->lock);
    while (!slots->ending) {
        talc_slot *slot = slot_with_work(slots);
        if (slot == NULL)
            pthread_cond_wait(&slots->wake, &slots->lock);
        else
            work_in(slots, slot, &scratch);
    }
    pthread_mutex_unlock(&slots->lock);
    talc_scratch_free(&scratch);
    return NULL;
}

// ---- The threads, from outside ------------------------------------------------------------------

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

/* Whether there are threads. In a child of fork there are none, whatever they were doing; what they
 * made is made again. */
static bool has_threads(talc_slots *slots)
{
    if (slots->started > 0 && slots->forks != atomic_load(&forks)) {
        slots->started = 0;
        make_locks(slots);
        for (int i = 0; i < slots->count; i++) {
            slots->slot[i].state = TALC_SLOT_IDLE;
            slots->slot[i].working = 0;
            slots->slot[i].abandoned = false;
        }
    }
    return slots->started > 0;
}

void talc_slots_begin(talc_slots *slots, const talc_batch_plan *plan)
{
    slots->plan = plan;
    slots->count = plan->options.no_thread ? 1 : TALC_SLOTS;
    slots->scratch.who = "loader";
    make_locks(slots);
}

/* With the lock held: no thread begins with any more samples, and all that are at some are waited
 * for. What was made of a batch is none of anybody's then. */
static void abandon(talc_slots *slots)
{
    for (int i = 0; i < slots->count; i++) {
        talc_slot *slot = &slots->slot[i];
        if (slot->state == TALC_SLOT_WANTED)
            slot->state = TALC_SLOT_IDLE;
        if (slot->state != TALC_SLOT_FILLED)
            continue;
        slot->abandoned = true;
        slot->taken = count_of(slot);
        if (slot->working == 0)
            slot->state = TALC_SLOT_IDLE;
    }
    for (int i = 0; i < slots->count; i++) {
        while (slots->slot[i].state == TALC_SLOT_FILLED)
            pthread_cond_wait(&slots->done, &slots->lock);
        slots->slot[i].state = TALC_SLOT_IDLE;
        slots->slot[i].abandoned = false;
    }
}

void talc_slots_end(talc_slots *slots)
{
    if (has_threads(slots)) {
        pthread_mutex_lock(&slots->lock);
        slots->ending = true;
        abandon(slots);
        pthread_cond_broadcast(&slots->wake);
        pthread_mutex_unlock(&slots->lock);
        for (int i = 0; i < slots->started; i++)
            pthread_join(slots->thread[i], NULL);
    }
    talc_scratch_free(&slots->scratch);
    pthread_cond_destroy(&slots->wake);
    pthread_cond_destroy(&slots->done);
    pthread_mutex_destroy(&slots->lock);
}

void talc_slots_start(talc_slots *slots)
{
    if (slots->plan->options.no_thread || has_threads(slots))
        return;
    slots->forks = atomic_load(&forks);
    pthread_mutex_lock(&slots->lock);
    while (slots->started < slots->plan->options.threads &&
           talc_thread_start(&slots->thread[slots->started], thread_main, slots))
        slots->started++;
    pthread_mutex_unlock(&slots->lock);
}

void talc_slots_wait(talc_slots *slots)
{
    if (!has_threads(slots))
        return;
    pthread_mutex_lock(&slots->lock);
    abandon(slots);
    pthread_mutex_unlock(&slots->lock);
}

void talc_slots_assign(talc_slots *slots, talc_slot *slot, int64_t batch, bool wanted)
{
    const bool threaded = has_threads(slots);
    pthread_mutex_lock(&slots->lock);
    slot->batch = batch;
    slot->state = wanted && threaded ? TALC_SLOT_WANTED : TALC_SLOT_IDLE;
    pthread_cond_signal(&slots->wake);
    pthread_mutex_unlock(&slots->lock);
}

/* Waits until the threads have made a slot's batch. */
static void wait_for(talc_slots *slots, talc_slot *slot)
{
    pthread_mutex_lock(&slots->lock);
    if (slot->state == TALC_SLOT_IDLE) {
        slot->state = TALC_SLOT_WANTED;
        pthread_cond_signal(&slots->wake);
    }
    while (slot->state == TALC_SLOT_WANTED || slot->state == TALC_SLOT_FILLED)
        pthread_cond_wait(&slots->done, &slots->lock);
    pthread_mutex_unlock(&slots->lock);
}

/* Without threads nobody else looks at a slot, and a callback may take its time. */
bool talc_slots_obtain(talc_slots *slots, talc_slot *slot)
{
    if (has_threads(slots))
        wait_for(slots, slot);
    else if (slot->state == TALC_SLOT_IDLE)
        slot->state = fill_whole(slots, slot);
    if (slot->state == TALC_SLOT_READY)
        return true;
    slot->state = TALC_SLOT_IDLE;
    talc_fail(slot->status, "%s", slot->message);
    return false;
}
