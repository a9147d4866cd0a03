/// What a note on the tape is. Private to tensor/tape.c and tensor/autograd.c.
#ifndef TALC_TENSOR_NODE_H
#define TALC_TENSOR_NODE_H

#include "tensor/tape.h"

#include <stdatomic.h>

typedef struct talc_saved_tensor {
    const char *name;
    talc_tensor *tensor; ///< a handle of the node's own, outside all scopes; NULL: none
    uint64_t version;    ///< that its storage had
} talc_saved_tensor;

typedef struct talc_node_input {
    talc_node *node; ///< retained; NULL: wants no gradient
    talc_dims dims;
} talc_node_input;

/// A leaf that asks for a gradient, or the result of a recorded op. Counted: by the tensors that it
/// stands for, by the nodes that use them and by a backward pass under way.
struct talc_autograd {
    atomic_size_t references;
    uint64_t order; ///< of its making, over all threads
    const char *op; ///< NULL: a leaf
    talc_gradient_rule *rule;
    talc_dims dims; ///< of the tensor that it stands for, and so on
    talc_dtype dtype;
    talc_device *device;
    talc_tensor *gradient; ///< a leaf's; NULL: none yet
    talc_tensor *pending;  ///< what a pass has added up so far; NULL: nothing
    /// Who alone may use `pending`, `gradient`, `spent`, `saved` and `inputs` now: a pass that will
    /// come to the node, or a change of a leaf's gradient; NULL: nobody.
    _Atomic(const void *) holder;
    talc_leaf_name *name; ///< a leaf's, when it is called; NULL: it has none
    const void *named;    ///< what `name` takes
    bool spent;           ///< a pass was here
    talc_tape_hook *hook; ///< a leaf's; NULL: none
    int hooked;           ///< what the hook calls the leaf
    bool settled;         ///< `pending` is the gradient to be, a leaf's alone
    atomic_int uses;      ///< by nodes that are not spent, of a leaf
    talc_node *next;      ///< in a list of nodes to be freed
    int input_count, saved_count;
    int ready; ///< see talc_record
    talc_node_input *inputs;
    talc_saved_tensor *saved;
    void *problem;
    void (*drop)(void *problem); ///< see talc_record
};

/// Makes `holder` the node's, and false where another is: what it does is not ordered with this.
bool talc_node_hold(talc_node *node, const void *holder);

/// Raises that another thread holds the node: a parameter by its name.
void talc_node_fail_held(const char *who, const talc_node *node);

/// Drops what a node keeps for its rule, and its edges.
void talc_node_spend(talc_node *node);

#endif
