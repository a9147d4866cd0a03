/// The CPU backend's parts. Private to backends/.
#ifndef TALC_BACKENDS_CPU_CPU_H
#define TALC_BACKENDS_CPU_CPU_H

#include "ops/backend.h"
#include "ops/batch_norm2d.h"
#include "ops/compare.h"
#include "ops/conv2d.h"
#include "ops/cross_entropy.h"
#include "ops/cumsum.h"
#include "ops/elementwise.h"
#include "ops/group_norm.h"
#include "ops/matmul.h"
#include "ops/nll_loss.h"
#include "ops/gather.h"
#include "ops/pool2d.h"
#include "ops/reduce.h"
#include "ops/resample.h"
#include "ops/softmax.h"
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
extern const talc_algorithm talc_cpu_batch_norm2d[];
extern const talc_algorithm talc_cpu_binary[];
extern const talc_algorithm talc_cpu_conv2d[];
extern const talc_algorithm talc_cpu_cross_entropy[];
extern const talc_algorithm talc_cpu_cumsum[];
extern const talc_algorithm talc_cpu_gather[];
extern const talc_algorithm talc_cpu_group_norm[];
extern const talc_algorithm talc_cpu_matmul[];
extern const talc_algorithm talc_cpu_nll_loss[];
extern const talc_algorithm talc_cpu_pool2d[];
extern const talc_algorithm talc_cpu_reduce[];
extern const talc_algorithm talc_cpu_resample[];
extern const talc_algorithm talc_cpu_softmax[];
extern const talc_algorithm talc_cpu_unary[];
extern const talc_algorithm talc_cpu_update[];
extern const talc_algorithm talc_cpu_where[];

#endif
