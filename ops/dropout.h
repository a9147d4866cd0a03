/// Dropout: each element is 0 with probability p, and what is left is scaled so that the mean
/// stays. Drop path, which is also called stochastic depth: the same of whole samples.
///
///     dropout:    y[i] = x[i] m[i],               m[i] = 0 with probability p, else 1 / (1 - p)
///     drop_path:  y[n, ...] = x[n, ...] m[n],     likewise
///
/// The mask m is drawn from the thread's generator (tensor/random.h), where a call counts as one:
/// the same bits on every device and for every number of threads. It is x's dtype; p is rounded to
/// that, and of numbers in [0, 1) those below p drop an element. Without `training`, and for p = 0,
/// y shares x's elements and nothing is drawn; for p = 1 it is all zeros, or NaN where x is not
/// finite.
///
/// Gradient: dx = dy m.
///
/// Errors: NULL x, a dtype other than f32 and f64, a scalar for drop_path, p outside 0 .. 1, no
/// memory, and in training a graph that is being recorded on the device, which cannot draw random
/// numbers. A call that fails does not count. Source: Srivastava et al. 2014, Dropout; Huang et
/// al., "Deep Networks with Stochastic Depth", arXiv 1603.09382; semantics as
/// torch.nn.functional.dropout and torchvision.ops.stochastic_depth of rows, with other numbers.
#ifndef TALC_OPS_DROPOUT_H
#define TALC_OPS_DROPOUT_H

#include "../tensor/tensor.h"

TALC_BEGIN_DECLARATIONS

/// y, of x's shape; contiguous where a mask was drawn.
TALC_API talc_tensor *talc_dropout(const talc_tensor *x, double p, bool training);
TALC_API talc_tensor *talc_drop_path(const talc_tensor *x, double p, bool training);

TALC_END_DECLARATIONS

#endif
