/// A CPU of which one op goes wrong once.
#ifndef TALC_TESTS_WRONG_DEVICE_H
#define TALC_TESTS_WRONG_DEVICE_H

#include "talc.h"

/// A device that is the CPU but for the `call`-th run (1 is the next) of "conv2d", "batch_norm2d",
/// "unary" or "binary": it adds `error` to element `index` of the f32 output. There is one such
/// device, and asking again changes it.
talc_device *wrong_device(const char *op, int call, int64_t index, double error);

#endif
