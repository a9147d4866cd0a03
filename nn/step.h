/// Steps: what a program does over and over on the same tensors, such as forward, loss, backward
/// and update, as one graph.
///
///     static talc_tensor *train(void *context)
///     {
///         trainer *t = context;
///         talc_optimizer_zero_grad(t->optimizer);
///         talc_tensor *loss = talc_cross_entropy(talc_forward(t->net, t->images), t->labels);
///         return talc_backward(loss) && talc_optimizer_step(t->optimizer) ? loss : NULL;
///     }
///     ...
///     talc_step *step = talc_step_new(device, train, &t);
///     while (next_batch(&t) &&                           // copies to t.images and t.labels
///            (loss = talc_step_run(step)) != NULL)
///         ...                                            // talc_item(loss), when it is wanted
///     talc_step_free(step);
///
/// Each run does what a call of the function does, to the bit. The first two call it; where the
/// device can repeat recorded work (a CUDA graph), the third records it, and from then on a run is
/// one small copy and one launch: no checks, no choice of algorithm, no allocation. Elsewhere every
/// run calls it, under the same rules.
///
/// * What the function reads and writes outside of what it makes is the same at each run: fixed
///   tensors that the program holds, such as inputs, parameters, their buffers and an optimizer's
///   state. Between runs the program writes inputs in place (talc_copy, talc_fill), and reads what
///   it likes.
/// * The learning rate of a schedule, the count of steps and the generator's go on from run to run.
///   All else that the function does on the host (a counter in C, a line printed, another batch) it
///   does when it is called; a run need not call it. What it decides by numbers of the host, a
///   module's training mode or a rate that the program works out, stays as it was recorded.
/// * It returns what is to be read, such as the loss: a new tensor. The run's result is one tensor
///   that stays the same, with elements that stay until the next run. Others it copies to fixed
///   tensors (talc_copy).
/// * It begins without gradients (talc_optimizer_zero_grad). What it leaves, gradients too, has its
///   elements until the next run.
/// * It must not wait for the device, move elements to or from the host or another device, or hold
///   a graph: such a call fails and says so, at the first run.
/// * The optimizer outlives the step, and so does what the function uses by `context`. A parameter
///   whose storage was replaced, by talc_module_to or talc_module_load, makes a run fail: make the
///   step anew.
///
/// One thread at a time uses a step; a run comes after all that its thread asked of the device
/// before.
#ifndef TALC_NN_STEP_H
#define TALC_NN_STEP_H

#include "../tensor/device.h"

TALC_BEGIN_DECLARATIONS

typedef struct talc_step talc_step;

/// What a step does; `context` is the program's. NULL with a failure when it cannot.
typedef talc_tensor *talc_step_function(void *context);

/// A step of the device; nothing runs yet. NULL on failure: NULL arguments, no memory.
TALC_API talc_step *talc_step_new(talc_device *device, talc_step_function *function, void *context);

/// Does the step once. Returns its result, which the step owns. NULL on failure: NULL, whatever the
/// function fails with or that it returned NULL, a call in it that cannot be repeated (names it),
/// storage that was replaced, no memory. What ran until then is done: parameters may have been
/// updated, and gradients are not to be used.
TALC_API talc_tensor *talc_step_run(talc_step *step);

/// Frees a step with its result. NULL passes.
TALC_API void talc_step_free(talc_step *step);

TALC_END_DECLARATIONS

#endif
