/// All that a backend supplies to ops: a list of algorithms for each of ops/ops.def
/// (ops/algorithm.h).
///
/// A list may be absent (NULL): the op then fails on that device with TALC_UNSUPPORTED. Nothing
/// falls back to another device.
#ifndef TALC_OPS_BACKEND_H
#define TALC_OPS_BACKEND_H

#include "algorithm.h"

/// TALC_OP_softmax and so on.
typedef enum talc_op {
#define TALC_OP(name, names, operands) TALC_OP_##name,
#include "ops.def"
    TALC_OP_COUNT
} talc_op;

typedef struct talc_backend {
    const char *name; ///< "cpu"
    const talc_algorithm *algorithms[TALC_OP_COUNT];
} talc_backend;

TALC_BEGIN_DECLARATIONS

/// A backend's algorithms of an op, own ones that were registered (ops/own_algorithm.h) before the
/// library's, ended by one without a name; NULL where there are none. A list does not change: after
/// another registration there is another.
TALC_API const talc_algorithm *talc_backend_algorithms(const talc_backend *backend, talc_op op);

TALC_END_DECLARATIONS

#endif
