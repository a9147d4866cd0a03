/// A batch norm folded into the convolution before it (nn/fuse.h says by which formula). Private to
/// talc.
#ifndef TALC_NN_FOLD_H
#define TALC_NN_FOLD_H

#include "nn/layer.h"

/// A convolution's weight and bias with a batch norm folded in. The convolution's entries own it,
/// one for each norm that follows it.
typedef struct talc_folded_norm talc_folded_norm;

/// Whether the norm's statistics and parameters are fixed and fit the convolution. No failure is
/// raised.
bool talc_fold_possible(const talc_conv2d_module *conv, const talc_batch_norm2d_module *norm);

/// The folded operands as they follow from the parameters now, retained for the caller; false with
/// a failure. Several threads may ask at once.
bool talc_fold_get(talc_conv2d_module *conv, const talc_batch_norm2d_module *norm,
                   talc_tensor **weight, talc_tensor **bias);

/// Gives back what was folded in a tree. Whatever replaces parameters calls it; what writes to them
/// need not.
void talc_module_forget_folds(talc_module *module);

#endif
