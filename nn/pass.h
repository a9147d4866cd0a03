/// Passes through a module, and changes that wait for them. Private to nn/.
///
/// Loading and moving put other storage into the handles of parameters, which a pass reads on its
/// way. So a change waits until no other thread is in a pass through the module's tree, and passes
/// that begin meanwhile wait for the change, which takes no longer than exchanging pointers: a pass
/// sees the old parameters or the new ones. A pass costs two atomic additions, one that is inside
/// another nothing.
#ifndef TALC_NN_PASS_H
#define TALC_NN_PASS_H

#include "nn/module.h"

/// On the stack of who begins it.
typedef struct talc_pass {
    struct talc_pass *outer; ///< of this thread
    struct talc_module_entries *root;
    uint32_t generation;
    bool counted; ///< the outermost through its tree
} talc_pass;

/// Whether this thread is in a pass through the module's tree.
bool talc_pass_through(const talc_module *module);

/// Passes of a thread end in the reverse order of their beginnings.
void talc_pass_begin(talc_pass *pass, const talc_module *module);
void talc_pass_end(const talc_pass *pass);

/// A thread that is in a pass itself may change a module, which is then between two ops of the
/// pass. Its passes, through whatever trees, are paused from begin to end: other threads may change
/// those trees.
void talc_change_begin(const talc_module *module);
void talc_change_end(const talc_module *module);

#endif
