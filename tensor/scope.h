/// Scopes: who frees tensors.
///
/// A tensor is reference counted, and a new one belongs to the innermost open scope of its thread.
/// Leaving a scope releases what was made in it, and leaves the scopes that were left open inside
/// it. Each thread has a root scope, freed when the thread ends, so a program that opens none still
/// frees everything.
///
///     talc_scope *step = talc_scope_enter();
///     talc_tensor *y = talc_relu(talc_add(a, b));
///     talc_scope_return(step, y);                   // y lives on in the enclosing scope
///     talc_scope_leave(step);                       // the sum is freed here
///
/// A tensor handed to another thread is retained first, and released by that thread.
#ifndef TALC_TENSOR_SCOPE_H
#define TALC_TENSOR_SCOPE_H

#include "tensor.h"

TALC_BEGIN_DECLARATIONS

typedef struct talc_scope talc_scope;

/// Opens a scope on this thread; NULL on failure.
TALC_API talc_scope *talc_scope_enter(void);

/// Leaves a scope of this thread and those inside it. NULL, and a scope that is not open on this
/// thread, as one that was left before, are ignored.
TALC_API void talc_scope_leave(talc_scope *scope);

/// Hands a tensor that belongs to `scope`, or to a scope inside it, to the scope around `scope`.
/// Returns the tensor; a tensor that belongs further out or to another thread, and NULL, are
/// returned as they are, and so is any for a scope that is not open on this thread.
TALC_API talc_tensor *talc_scope_return(talc_scope *scope, talc_tensor *tensor);

/// Adds a reference, so that the tensor outlives its scope until talc_release. Returns the tensor;
/// NULL passes.
TALC_API talc_tensor *talc_retain(talc_tensor *tensor);

/// Drops a reference. On a tensor that nobody retained, this ends its scope's hold: it is freed at
/// once. NULL passes.
TALC_API void talc_release(talc_tensor *tensor);

TALC_END_DECLARATIONS

#endif
