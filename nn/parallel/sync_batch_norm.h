/// Batch norm whose batch is that of all members of a group. Private to nn.
#ifndef TALC_NN_PARALLEL_SYNC_BATCH_NORM_H
#define TALC_NN_PARALLEL_SYNC_BATCH_NORM_H

#include "nn/layer.h"
#include "nn/parallel.h"

/// What talc_batch_norm2d computes in training (ops/batch_norm2d.h), with the mean and the variance
/// over the images of all members, which may have different numbers of them; without activation and
/// residual. A call of the group, and so is its backward pass.
talc_tensor *talc_sync_batch_norm2d(talc_batch_norm2d_module *module, const talc_tensor *x);

/// Makes the batch norms of a tree those of a group; NULL: each one's own again.
void talc_sync_batch_norms(talc_module *module, talc_group *group);

#endif
