/// Checkpoints: all that a training run needs to go on as if it had not stopped, in one safetensors
/// file.
///
/// The file holds the module's parameters and buffers under their paths, as talc_module_save writes
/// them, so that talc_module_load, and PyTorch, read the model alone; the optimizer's state of each
/// parameter as optimizer.PATH.exp_avg and so on, with its steps and group in optimizer.PATH.step;
/// and, as strings, its options and schedule, the generator of the calling thread and how far the
/// run has come.
#ifndef TALC_NN_CHECKPOINT_H
#define TALC_NN_CHECKPOINT_H

#include "optimizer.h"

TALC_BEGIN_DECLARATIONS

/// The next batch of a run.
typedef struct talc_progress {
    int64_t epoch, batch;
} talc_progress;

/// Writes a checkpoint. An old file of that name stays whole until the new one is complete, also on
/// failure. Errors: NULL, progress below 0 or past 2^53, what the system reports, no memory.
TALC_API bool talc_checkpoint_save(const char *path, talc_module *module,
                                   const talc_optimizer *optimizer, const talc_progress *progress);

/// Puts everything back: parameters, buffers, the optimizer's state, options and schedule, this
/// thread's generator, and *progress. Everything is checked and read before anything changes.
/// Errors, naming what differs: a file that is no checkpoint, numbers out of range, parameters of
/// other names, shapes or types, an optimizer of another kind, with other groups or another state,
/// and those of talc_safetensors_open.
TALC_API bool talc_checkpoint_load(const char *path, talc_module *module, talc_optimizer *optimizer,
                                   talc_progress *progress);

TALC_END_DECLARATIONS

#endif
