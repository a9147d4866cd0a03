/// All that a backend supplies to ops: one list of algorithm rows an op (ops/algorithm.h).
///
/// A list may be absent (NULL): the op then fails on that device with TALC_UNSUPPORTED. Nothing
/// falls back to another device.
#ifndef TALC_OPS_BACKEND_H
#define TALC_OPS_BACKEND_H

#include "../tensor/api.h"

struct talc_backend {
    const char *name; ///< "cpu"
    const struct talc_algorithm *batch_norm2d;
    const struct talc_algorithm *binary;
    const struct talc_algorithm *conv2d;
    const struct talc_algorithm *cross_entropy;
    const struct talc_algorithm *cumsum;
    const struct talc_algorithm *gather;
    const struct talc_algorithm *group_norm;
    const struct talc_algorithm *matmul;
    const struct talc_algorithm *nll_loss;
    const struct talc_algorithm *pool2d;
    const struct talc_algorithm *reduce;
    const struct talc_algorithm *resample;
    const struct talc_algorithm *softmax;
    const struct talc_algorithm *unary;
    const struct talc_algorithm *update;
    const struct talc_algorithm *where;
};

#endif
