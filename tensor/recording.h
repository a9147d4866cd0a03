/// Recording what a thread asks of a device, to repeat it as one. Private to talc; nn/graph.h makes
/// graphs of it.
///
/// From enter to leave, calls of the thread that cannot be repeated, since they wait, move bytes
/// from or to the host, draw random numbers or work on another device, refuse by name. A recording
/// owns the memory that its work uses: blocks that the thread takes on the device come from the
/// recording's pool, when it is entered with that, and go back there, whoever frees them, so that
/// nothing else uses them between two replays. From begin to end, on devices that can, work is
/// noted instead of done.
///
/// Contexts are the thread's own: others go on working on the device, and allocating.
#ifndef TALC_TENSOR_RECORDING_H
#define TALC_TENSOR_RECORDING_H

#include "tensor/pool.h"

typedef struct talc_recording talc_recording;

/// Whether the device repeats recorded work. Where it does not, a recording only refuses.
bool talc_recording_possible(const talc_device *device);

/// An empty recording; NULL without memory. Of a step: work may draw random numbers and train
/// (talc_recording_numbers).
talc_recording *talc_recording_new(talc_device *device, bool of_step);

/// Waits for replays that still run, then gives back its memory, apart from blocks that live on,
/// which are given back when they are freed, and lets go of other tensors that noted work uses.
/// NULL passes.
void talc_recording_free(talc_recording *recording);

/// This thread is in the recording from here to leave, with or without its pool. False, with a
/// failure, when it is in one already.
bool talc_recording_enter(const char *who, talc_recording *recording, bool pool);
void talc_recording_leave(void);

/// What is done once, on the way to work that is repeated: this thread is in no recording from
/// pause to resume, which takes what pause returned. One that notes work goes on.
talc_recording *talc_recording_pause(void);
void talc_recording_resume(talc_recording *recording);

/// Notes this thread's work on the device from here to end. end leaves the device as usable as it
/// was; false, with a failure, when nothing that can be repeated came of it.
bool talc_recording_begin(talc_recording *recording);
bool talc_recording_end(talc_recording *recording);

/// What this thread asks of the device from here on waits for the stream of the last replay, or of
/// the recording before the first: whatever is queued there by now may use the recording's memory.
bool talc_recording_follow(talc_recording *recording);

/// Does the noted work once more, after what the device was asked before. What it writes outside
/// the recording's memory counts as written (talc_version).
bool talc_recording_replay(talc_recording *recording);

/// Numbers that noted work reads and that differ from replay to replay: a learning rate, a
/// generator's counter. Before each replay `fill` writes them, and they are uploaded together;
/// `done` is called behind it. `of` is freed with the recording (talc_memory_free).
typedef struct talc_numbers {
    size_t bytes; ///< 0: none, for the sake of the functions
    /// False, with a failure, when the work can be repeated no more. It may be called for a replay
    /// that fails.
    bool (*fill)(const void *of, void *numbers);
    void (*done)(const void *of); ///< NULL: nothing
    void *of;
} talc_numbers;

/// Where the device will find them, 16-byte aligned. Takes over `of`. NULL with a failure. Only
/// while noting.
const void *talc_recording_numbers(const talc_numbers *numbers);

/// Whether this thread's work on the device is being noted, for a step.
bool talc_recording_records_step(const talc_device *device);

/// Whether this thread is in a recording of a step of the device, or in a run before it: replays
/// may change what it reads.
bool talc_recording_of_step(const talc_device *device);

/// Raises TALC_UNSUPPORTED in a recording of the device that is not of a step: "rand: cannot draw
/// random numbers while ...".
bool talc_recording_refuses_random(const char *who, const talc_device *device);

/// Whether this thread is in a recording of the device.
bool talc_recording_active(const talc_device *device);

/// The same, and raises TALC_UNSUPPORTED: "rand: cannot draw random numbers while a graph of cuda:0
/// is being recorded".
bool talc_recording_refuses(const char *who, const talc_device *device, const char *what);

/// Whether this thread is in a recording of another device, for work that a replay would leave out;
/// raises TALC_UNSUPPORTED: "add: cannot work on cpu while a graph of cuda:0 is being recorded".
bool talc_recording_refuses_device(const char *who, const talc_device *device);

/// Whether a tensor's memory is the recording's.
bool talc_recording_owns(const talc_recording *recording, const talc_tensor *tensor);

/// Whether noted work writes a tensor whose memory is not the recording's.
bool talc_recording_writes(const talc_recording *recording, const talc_tensor *tensor);

/// Copies what noted work writes outside the recording's memory; then puts it back and frees the
/// copies, also while a failure stands and when there are none. For work that is to be run on the
/// way to a recording that replaces this one.
bool talc_recording_save(talc_recording *recording);
bool talc_recording_restore(talc_recording *recording);

// ---- For tensors --------------------------------------------------------------------------------

/// This thread's work reads a tensor, or writes it. A recording that notes that work holds the
/// tensor's memory until it is freed, unless it is its own: whoever made the tensor may release it
/// earlier. A failure stands without memory to note it.
void talc_recording_uses(const talc_tensor *tensor, bool written);

// ---- For the pool -------------------------------------------------------------------------------

/// The recording whose pool serves this thread on the device; NULL: the device's own does.
talc_recording *talc_recording_serving(const talc_device *device);

/// A block of at least `capacity` bytes that the recording has free.
bool talc_recording_take(talc_recording *recording, size_t capacity, talc_block *block);

/// Makes a block of the device's pool the recording's. False, with a failure, without memory to
/// note it.
bool talc_recording_own(talc_recording *recording, talc_block *block);

/// Keeps a freed block when it is a recording's, or when noted work of this thread may use it.
/// False: it is the pool's. The block's stream waits already for others that have used it, for
/// which nobody asks when the recording gives the block back.
bool talc_recording_keep(talc_device *device, talc_block block);

#endif
