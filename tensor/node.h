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

/// A leaf that asks for a gradient, or the result of a recorded op. Counted: by the tensors that it stands for, by the nodes
/// that use them and by a backward pass under way.
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
    bool queued;           ///< a pass will come to it
    bool spent;            ///< a pass was here
    talc_node *next;       ///< in a list of nodes to be freed
    int input_count, saved_count;
    int ready; ///< see talc_note
    talc_node_input *inputs;
    talc_saved_tensor *saved;
    void *problem;
};

/// Drops what a node keeps for its rule, and its edges.
void talc_node_spend(talc_node *node);

#endif
