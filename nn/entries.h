/// What a module keeps of its children, parameters and buffers. Private to talc.
#ifndef TALC_NN_ENTRIES_H
#define TALC_NN_ENTRIES_H

#include "nn/module.h"

#include <stdatomic.h>

typedef enum talc_entry_kind {
    TALC_ENTRY_PARAMETER,
    TALC_ENTRY_BUFFER,
    TALC_ENTRY_CHILD
} talc_entry_kind;

typedef struct talc_module_entry {
    char *name;
    talc_entry_kind kind;
    talc_module *child;  ///< owned; NULL for a tensor
    talc_tensor *tensor; ///< retained; NULL for a child
} talc_module_entry;

struct talc_module_entries {
    talc_module *parent; ///< NULL for a root
    const char *name;    ///< there; NULL for a root
    int height;          ///< levels of the tree from this module down, itself counted
    int row;             ///< in the summary that is made of the tree (nn/summary.c)
    int count;
    size_t capacity;
    talc_module_entry *list; ///< in order of registration
    int *buckets;            ///< a hash table of the names: numbers in the list, from 1; 0: free
    size_t bucket_count;
    _Atomic uint64_t passes;        ///< of a root: who is in a pass through its tree (nn/pass.c)
    struct talc_model_info *info;   ///< owned: what it is described by (nn/info.h); NULL: nothing
    struct talc_folded_norm *folds; ///< owned: folded weights (nn/fold.h); NULL: none
};

/// talc_module_add without the end of a child that is refused: it stays the caller's.
bool talc_module_adopt(talc_module *module, const char *name, talc_module *child);

/// The entry of that name, given by its first `length` characters; NULL when there is none.
const talc_module_entry *talc_module_entry_find(const talc_module *module, const char *name,
                                                size_t length);

/// The first entry of a tree, in the order of talc_module_visit, that is this parameter, which
/// layers may share; NULL: none.
const talc_module_entry *talc_module_entry_first(const talc_module *module,
                                                 const talc_tensor *parameter);

/// Adds an entry under a name that is checked here; `who` names the caller in messages. The tensor
/// is retained.
bool talc_module_entry_add(const char *who, talc_module *module, const char *name,
                           talc_module_entry entry);

/// Frees the names and the list, and releases the tensors. Children are the caller's.
void talc_module_entries_free(struct talc_module_entries *entries);

/// A parameter or buffer of a tree and what is to take its place. A change of all of them is made
/// in two steps: first every `fresh` is made, which may fail; then every one replaces its tensor,
/// which cannot.
typedef struct talc_replacement {
    talc_tensor *tensor;
    talc_tensor *fresh; ///< NULL: the tensor stays as it is
} talc_replacement;

/// All parameters and buffers of a tree, in the order of talc_module_visit; freed by
/// talc_memory_free. NULL without memory. There are talc_module_tensor_count of them.
talc_replacement *talc_module_replacements(talc_module *module);
int talc_module_tensor_count(const talc_module *module);

/// Replaces them, while no other thread is in a pass through the module, and gives back what was
/// folded.
void talc_module_replace(talc_module *module, const talc_replacement *replacements);

/// Modules of a tree, its root counted.
int talc_module_tree_count(const talc_module *module);

/// Sets a tree to evaluation mode, and this thread not to record gradients, for a pass of the
/// library's own. Returns the modes that it had, for restore, which takes them over; NULL, with a
/// failure and the tree as it was, without memory.
bool *talc_module_evaluate(const char *who, talc_module *module);
void talc_module_restore_modes(talc_module *module, bool *modes);

/// Says in the message of the failure that stands where it happened, if that does not say so yet:
/// in this module, by its path from the root of its tree.
void talc_module_failed(const talc_module *module);

/// The maximum number of modules that are fused into one op.
enum { TALC_GROUP_MAX = 3 };

/// Where the application of a group of fused modules is.
typedef enum talc_group_phase {
    TALC_GROUP_FOLDS,
    TALC_GROUP_RUNS,
    TALC_GROUP_ENDS
} talc_group_phase;

/// Functions that are called around each talc_forward of this thread while they are set. For
/// talc_module_summary, talc_module_explain and the check of models.
typedef struct talc_forward_hooks {
    /// Wants every module's own output: nothing is fused while the hooks are set. `group` is called
    /// all the same.
    bool apart;
    /// `count` modules, at most TALC_GROUP_MAX, and what follows them in their chain are applied as
    /// one op. FOLDS comes first: ops until RUNS make operands that are kept for later calls.
    /// Unless `apart` is set, enter and leave are not called for the modules of a group, nor for
    /// those that a chain leaves out. NULL: not called.
    void (*group)(struct talc_forward_hooks *hooks, talc_module *const modules[], int count,
                  talc_group_phase phase);
    /// A module is about to be applied. NULL: not called.
    void (*enter)(struct talc_forward_hooks *hooks, const talc_module *module);
    /// It has been; y is NULL when it failed.
    void (*leave)(struct talc_forward_hooks *hooks, const talc_module *module, const talc_tensor *x,
                  const talc_tensor *y);
} talc_forward_hooks;

/// Sets this thread's hooks, NULL for none; returns those before.
talc_forward_hooks *talc_forward_hook(talc_forward_hooks *hooks);

/// Those that are set; NULL: none.
talc_forward_hooks *talc_forward_hooked(void);

#endif
