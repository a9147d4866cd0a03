/// Gradients: which tensors want one, and how they get it.
///
/// A leaf asks for its gradient; a module's parameters do from the start. While this thread
/// records, every op with such an input notes how its result came to be, and talc_backward goes
/// back over these notes by the chain rule:
///
///     talc_require_grad(w, true);
///     talc_tensor *loss = talc_mean(talc_mul(w, x), TALC_SCALAR, false);
///     talc_backward(loss);
///     talc_print(stdout, talc_grad(w));                    // d loss / d w
///
/// A note holds what its op's rule needs, so memory grows with the forward pass and shrinks with
/// the backward pass, which frees each note as it is done: a second backward pass over the same
/// notes is an error. So is one after a tensor that a rule needs was written: storage counts its
/// writes (talc_version). Notes that no tensor leads to any more are freed.
///
/// Gradients are tensors of their leaf's shape, dtype and device. They belong to the leaf, not to a
/// scope. Several passes add up until talc_grad_clear. First derivatives only: the passes
/// themselves are not recorded. Where a tensor is used several times its gradients are added in the
/// reverse order of these uses, so sums have one order and every run the same bits.
///
/// Threads: each records what it does itself, and may go back over it while others go back over
/// theirs. A leaf that they share, such as a parameter, gets its gradient from one pass at a time:
/// from where a pass comes to it until that pass ends, another thread's pass, talc_grad_clear,
/// clipping or optimizer step that comes to it fails, changes no gradient and names the leaf, a
/// parameter by its path. So is a result that two threads' losses were made from. Threads that
/// train one module take turns, with a lock of the program's own, or have a module each.
/// talc_grad's tensor is read while no other thread is at it.
///
/// Source: Griewank and Walther, "Evaluating Derivatives", 2008, chapter 3 (reverse mode).
#ifndef TALC_TENSOR_AUTOGRAD_H
#define TALC_TENSOR_AUTOGRAD_H

#include "tensor.h"

TALC_BEGIN_DECLARATIONS

/// Makes a tensor a leaf that gets a gradient, or takes that back together with the gradient it
/// has. Ops that ran before do not know of it. Errors: NULL, a dtype other than f32 and f64, the
/// result of a recorded op.
TALC_API bool talc_require_grad(talc_tensor *tensor, bool required);

/// Whether a gradient goes through or to the tensor: it is a leaf that asks for one or the result
/// of a recorded op. Works while a failure stands; false for NULL.
TALC_API bool talc_wants_grad(const talc_tensor *tensor);

/// A leaf's gradient, borrowed from it: the handle stays the same until talc_grad_clear. NULL
/// before the first backward pass that reached the leaf, for any other tensor and for NULL. Works
/// while a failure stands.
TALC_API talc_tensor *talc_grad(const talc_tensor *tensor);

/// Drops a leaf's gradient; any other tensor and NULL pass. Errors: another thread is at it (names
/// it).
TALC_API void talc_grad_clear(talc_tensor *tensor);

/// Adds d loss / d leaf to the gradient of every leaf that `loss`, a tensor of one element, was
/// made from. On failure no gradient has changed, but notes that the pass went over are spent.
/// Errors: NULL, more or fewer than one element, a loss that no leaf asking for a gradient went
/// into, notes that an earlier pass has spent, a tensor that a rule needs and that was written
/// since (names it, its op and both versions), a leaf or a result that another thread's pass is at
/// (names it), no memory.
TALC_API bool talc_backward(const talc_tensor *loss);

/// The same for sum over i of cotangent[i] * y[i]. `cotangent` is of y's shape, dtype and device.
TALC_API bool talc_backward_from(const talc_tensor *y, const talc_tensor *cotangent);

/// Another handle on the same elements through which no gradient goes.
TALC_API talc_tensor *talc_detach(const talc_tensor *tensor);

/// From enter to leave this thread's ops are not recorded, for inference and for writing to
/// parameters. Calls nest; a leave too many is ignored.
TALC_API void talc_no_grad_enter(void);
TALC_API void talc_no_grad_leave(void);

/// Whether this thread records.
TALC_API bool talc_grad_enabled(void);

TALC_END_DECLARATIONS

#endif
