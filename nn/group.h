/// Applying the first of a list of modules, together with those that can be fused with it. Private to nn/.
#ifndef TALC_NN_GROUP_H
#define TALC_NN_GROUP_H

#include "nn/fuse.h"

/// The most modules that become one op.
enum { TALC_GROUP_MAX = 3 };

typedef struct talc_group_result {
    int count;  ///< modules that were applied
    bool ended; ///< and the chain's end with them
} talc_group_result;

/// Applies at least one of `count` modules, of which the first TALC_GROUP_MAX count; `end` follows the last one, and may be NULL.
talc_tensor *talc_group_forward(talc_module *const modules[], int count, talc_tensor *x,
                                const talc_chain_end *end, talc_group_result *result);

#endif
