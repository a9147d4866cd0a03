/// Counted storage, and how tensors are made from it. Private to talc.
#ifndef TALC_TENSOR_STORAGE_H
#define TALC_TENSOR_STORAGE_H

#include "tensor/device.h"
#include "tensor/pool.h"
#include "tensor/scope.h"

#include <stdatomic.h>

/// Memory that one or several tensors see. Freed with its last reference, to the pool or through
/// `release`.
struct talc_storage {
    atomic_size_t references;
    _Atomic uint64_t version; ///< counts writes
    talc_device *device;
    talc_block block; ///< from the pool; or the caller's memory when release or wrapped is set
    _Atomic uint32_t
        streams; ///< those other than the block's that have used it, by number (tensor/streams.h)
    struct talc_cached *cached; ///< what follows from the elements (tensor/cached.h)
    talc_device *pinned;        ///< whose page-locked memory the block is; NULL: it is not
    bool wrapped;
    talc_release_function *release;
    void *context;
};

/// What a public tensor lives in: the count and the place in its scope are nobody else's business.
typedef struct tensor_record {
    talc_tensor tensor; /* first, so that the two pointers are one */
    atomic_size_t references;
    _Atomic(struct scope_record *) scope; /* that holds one of the references; NULL: none does */
    struct tensor_record *previous, *next;
} tensor_record;

/// A new tensor with fresh storage, in the innermost scope; the shape is checked here. `who` names
/// the op.
talc_tensor *talc_tensor_new(const char *who, talc_device *device, talc_dtype dtype,
                             talc_dims dims);

/// A new tensor on the storage of `base`, in the innermost scope. `offset` counts elements from
/// base's first.
talc_tensor *talc_tensor_view(const talc_tensor *base, talc_dims dims,
                              const int64_t strides[TALC_MAX_RANK], int64_t offset);

/// The same for all of `base` as it lies: another handle, which stays where it is when base's
/// storage is replaced.
talc_tensor *talc_tensor_alias(const talc_tensor *base);

/// Makes `tensor` see another storage of the same device-independent shape, keeping the handle.
/// `other` keeps its own reference.
void talc_tensor_replace(talc_tensor *tensor, const talc_tensor *other);

/// Notes a write to the tensor's storage. Every function that changes elements calls it.
void talc_tensor_written(talc_tensor *tensor);

/// Notes that work of this thread's stream uses the tensor's storage. Every op does, for its
/// operands and its result.
void talc_tensor_used(const talc_tensor *tensor);

/// talc_from_host, talc_clone, talc_contiguous, talc_cast and talc_copy as steps of `who`, the
/// function that a program called and that their failures name.
talc_tensor *talc_from_host_for(const char *who, talc_device *device, talc_dtype dtype,
                                talc_dims dims, const void *elements);
talc_tensor *talc_clone_for(const char *who, const talc_tensor *tensor);
talc_tensor *talc_contiguous_for(const char *who, const talc_tensor *tensor);
talc_tensor *talc_cast_for(const char *who, const talc_tensor *tensor, talc_dtype dtype);
bool talc_copy_for(const char *who, talc_tensor *dst, const talc_tensor *src);

/// The integers that an integer type holds: from low on, below end; all numbers of a floating point
/// type.
void talc_dtype_range(talc_dtype dtype, double *low, double *end);

/// False, with a failure raised, when no element of an integer type is `value`, which is to be one.
bool talc_number_held(const char *who, const char *operand, double value, talc_dtype dtype);

/// True, with a failure raised, when a failure stands already or the operand is NULL.
bool talc_operand_missing(const char *who, const char *operand, const void *pointer);

/// False, with a failure raised, when `classes` holds a flag that is no class of
/// tensor/precision.h.
bool talc_operand_precision(const char *who, unsigned classes);

/// Whether the elements of the two, which may be NULL, may share memory: where their first and last
/// addresses say so.
bool talc_may_overlap(const talc_tensor *a, const talc_tensor *b);

/// False, with a failure raised, for an expanded view: elements that share an address cannot be
/// written; and while this thread records a graph of another device (tensor/recording.h).
bool talc_operand_writable(const char *who, const talc_tensor *tensor);

/* Scope lists: tensor.c adds, scope.c drops. */
void talc_scope_add(tensor_record *record);
void talc_tensor_destroy(tensor_record *record);

/// Ends the hold of the innermost scope on a tensor, as leaving it would; a tensor that it does not
/// hold, and NULL, pass. For intermediates that are known to be done with only later than they were
/// made.
void talc_scope_drop(talc_tensor *tensor);

/// Whether a scope that is open on this thread, or one inside it, holds `tensor`, of which the
/// address alone is looked at: it may be gone. False for NULL and for a scope that is not open.
bool talc_scope_holds(const talc_scope *scope, const talc_tensor *tensor);

/// Whether the innermost scope's hold on a tensor is the only one, and the tensor the only one that
/// sees its memory.
bool talc_scope_holds_alone(const talc_tensor *tensor);

/// Makes sure that this thread's end frees what its scopes hold and leaves its streams.
void talc_scope_thread_ends(void);

/// Frees everything that this thread's scopes hold, the root scope's tensors too; the thread may go
/// on.
void talc_scope_leave_all(void);

#endif
