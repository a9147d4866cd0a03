/// The layers that can be fused, as nn/fuse.c and nn/fold.c see them. Private to nn/.
#ifndef TALC_NN_FUSABLE_H
#define TALC_NN_FUSABLE_H

#include "nn/fuse.h"
#include "ops/batch_norm2d.h"
#include "ops/conv2d.h"
#include "ops/linear.h"

typedef struct talc_conv2d_module {
    talc_module base;
    talc_tensor *weight; /* [OC, C/groups, KH, KW] */
    talc_tensor *bias;   /* [OC], or NULL */
    talc_conv2d_options options;
} talc_conv2d_module;

typedef struct talc_linear_module {
    talc_module base;
    talc_tensor *weight; /* [out, in] */
    talc_tensor *bias;   /* [out], or NULL */
    talc_linear_options options;
} talc_linear_module;

typedef struct talc_batch_norm2d_module {
    talc_module base;
    talc_tensor *weight, *bias;              /* [C], or NULL without affine */
    talc_tensor *running_mean, *running_var; /* [C], or NULL without tracking */
    talc_tensor *num_batches_tracked;        /* i64 scalar, or NULL without tracking */
    talc_batch_norm2d_options options;
} talc_batch_norm2d_module;

extern const talc_module_class talc_conv2d_class, talc_linear_class, talc_batch_norm2d_class;
extern const talc_module_class talc_relu_class, talc_sigmoid_class, talc_tanh_class;

// ---- Folding ------------------------------------------------------------------------------------------------

/// A convolution's weight and bias with a batch norm folded in. The convolution's entries own it, one for each norm that follows it.
typedef struct talc_fold talc_fold;

/// Whether the norm's statistics and parameters are fixed and fit the convolution. No failure is raised.
bool talc_fold_possible(const talc_conv2d_module *conv, const talc_batch_norm2d_module *norm);

/// The folded operands as they follow from the parameters now, retained for the caller; false with a failure. Several threads may
/// ask at once.
bool talc_fold_get(talc_conv2d_module *conv, const talc_batch_norm2d_module *norm,
                   talc_tensor **weight, talc_tensor **bias);

#endif
