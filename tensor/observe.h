/// Being told of each op that a thread runs. Private to talc.
///
/// An op tells once, after it succeeded, and not of the ops that it is made of: those stand between
/// talc_observe_pause and talc_observe_resume. Views tell nothing, since they make no elements;
/// their storage says where elements come from.
#ifndef TALC_TENSOR_OBSERVE_H
#define TALC_TENSOR_OBSERVE_H

#include "tensor/tensor.h"

typedef struct talc_observation {
    const char *op;                         ///< the name that begins the op's messages
    const struct talc_algorithm *algorithm; ///< what ran; NULL for copies
    const void *problem; ///< of the type that ops/observed.h names; NULL for copies
    const talc_tensor *const
        *inputs; ///< in the order of the op's arguments, NULL where one was left out
    int count;
    const talc_tensor *output;
} talc_observation;

/// Told of each op of this thread while it is set; what it does itself is not observed. A failure
/// that it raises stands when the op returns. The tensors are whoever called the op's, to release
/// when they like: an observer that keeps one keeps a view of its own.
typedef struct talc_observer {
    void (*observe)(struct talc_observer *observer, const talc_observation *observation);
} talc_observer;

/// Sets this thread's observer, NULL for none; returns the one before.
talc_observer *talc_observe(talc_observer *observer);

/// Sets none while an op does its own work; returns what resume takes.
talc_observer *talc_observe_pause(void);
void talc_observe_resume(talc_observer *observer);

/// Tells this thread's observer, if there is one, unless the output is NULL. `inputs` are `count`
/// tensors; that the thread's stream uses them is noted in any case.
void talc_observed(const char *op, const struct talc_algorithm *algorithm, const void *problem,
                   const talc_tensor *const *inputs, int count, const talc_tensor *output);

#endif
