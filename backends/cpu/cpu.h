/// The CPU backend's parts. Private to backends/.
#ifndef TALC_BACKENDS_CPU_CPU_H
#define TALC_BACKENDS_CPU_CPU_H

#include "ops/backend.h"
#include "ops/ops.h"
#include "ops/update.h"
#include "tensor/device.h"

/// The CPU as a device, named "cpu"; another name raises TALC_BAD_DEVICE. Opened when first asked
/// for.
talc_device *talc_cpu_find(const char *name);

/// The algorithm tables of the CPU; the tests' fake device runs them too.
extern const struct talc_backend talc_cpu_backend;

/* Parts of the device interface that have files of their own. */
talc_status talc_cpu_copy(talc_device *device, const talc_copy_problem *problem, void *dst,
                          const void *src);
talc_status talc_cpu_fill(talc_device *device, const talc_fill_problem *problem, void *dst);
talc_status talc_cpu_join(talc_device *device, const talc_join_problem *problem, void *dst);
talc_status talc_cpu_random(talc_device *device, const talc_random_problem *problem, void *dst);

/* The lists of the tables; unary and binary share a file, each other one has its own. */
#define TALC_OP(name, names, operands) extern const talc_algorithm talc_cpu_##name[];
#include "ops/ops.def"

#endif
