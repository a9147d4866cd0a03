/// Whether a depthwise and a pointwise convolution run as one. Private to talc.
#ifndef TALC_OPS_SEPARABLE_CONV2D_CHOICE_H
#define TALC_OPS_SEPARABLE_CONV2D_CHOICE_H

#include "ops/separable_conv2d.h"

/// Whether talc_separable_conv2d with these operands would run a row of its own. Raises no failure: operands that do not fit
/// do not fuse.
bool talc_separable_conv2d_fuses(const talc_tensor *x, const talc_tensor *w1, const talc_tensor *b1,
                                 const talc_conv2d_options *depthwise, const talc_tensor *w2,
                                 const talc_tensor *b2, const talc_conv2d_options *pointwise);

/// The same for a problem of which no gradient is recorded. `forced` and precision are the caller's own; NULL and 0 the thread's.
bool talc_separable_conv2d_is_one(talc_device *device, const talc_separable_conv2d_problem *problem,
                                  const char *forced, unsigned precision);

#endif
