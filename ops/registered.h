/// The lists that own algorithms were added to (ops/own_algorithm.h). Private to talc.
#ifndef TALC_OPS_REGISTERED_H
#define TALC_OPS_REGISTERED_H

#include "ops/backend.h"
#include "ops/own_algorithm.h"

/// talc_algorithm_register for a backend. False with a failure.
bool talc_registered_add(const talc_backend *backend, const char *op,
                         const talc_own_algorithm *own);

/// False, with a failure, for what has no version that this library knows, and for NULL.
bool talc_registered_known(const char *op, const talc_own_algorithm *own);

#endif
