/// The batches that a loader has on their way, and the threads that make them. Private to nn/data.
///
/// A slot holds one batch: in the CPU's memory, or page-locked memory that the device reaches.
/// Batch k goes through slot k % slots. A batch's memory is taken by the calling thread; the others
/// wait until the device has read a slot, and fill it, each some samples at a time.
#ifndef TALC_NN_DATA_SLOTS_H
#define TALC_NN_DATA_SLOTS_H

#include "nn/data/batch.h"

#include <pthread.h>

enum { TALC_SLOTS = 2, TALC_SLOT_MESSAGE = 1024, TALC_LOADER_THREADS = 64 };

/// Images and labels, owned.
typedef struct talc_pair {
    talc_tensor *images, *labels;
} talc_pair;

/// Idle: nobody is asked to fill it. Wanted and filled: the threads'. Ready and failed: the
/// caller's.
typedef enum talc_slot_state {
    TALC_SLOT_IDLE,
    TALC_SLOT_WANTED,
    TALC_SLOT_FILLED,
    TALC_SLOT_READY,
    TALC_SLOT_FAILED
} talc_slot_state;

typedef struct talc_slot {
    talc_slot_state state;
    int64_t batch;
    talc_pair buffer;
    void *images, *labels; ///< the buffer's elements, while it is filled
    int64_t taken;         ///< samples that a thread has begun with, in their order
    int working;           ///< threads that are at some
    bool abandoned;        ///< by a caller that waits for the threads to leave it
    int64_t failed;        ///< the first sample that failed
    talc_status status;    ///< why it failed
    char message[TALC_SLOT_MESSAGE];
} talc_slot;

typedef struct talc_slots {
    const talc_batch_plan *plan;
    int count;
    talc_slot slot[TALC_SLOTS];
    int started;    ///< threads that there are
    unsigned forks; ///< of this process, when they were started
    bool ending;
    pthread_t thread[TALC_LOADER_THREADS];
    talc_scratch scratch; ///< of the calling thread, where it makes batches
    pthread_mutex_t lock; ///< guards the slots' states and batches, and `ending`
    pthread_cond_t wake, done;
} talc_slots;

/// Zeroed slots become usable, without a thread yet.
void talc_slots_begin(talc_slots *slots, const talc_batch_plan *plan);

/// Ends the threads; the slots' memory is the caller's to release.
void talc_slots_end(talc_slots *slots);

/// Starts the threads, unless there are some or the options want none. Where none is to be had,
/// batches are made when they are asked for.
void talc_slots_start(talc_slots *slots);

/// Waits until no thread is in a slot or wants one, what they have begun with left unfinished; what
/// the plan says may change then.
void talc_slots_wait(talc_slots *slots);

/// Gives a slot that is not the threads' its next batch; `wanted` has them make it.
void talc_slots_assign(talc_slots *slots, talc_slot *slot, int64_t batch, bool wanted);

/// Waits for a slot's batch, or makes it here. False with the failure of whoever made it; the next
/// call tries again.
bool talc_slots_obtain(talc_slots *slots, talc_slot *slot);

#endif
