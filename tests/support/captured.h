/// Captured forward passes and what they are held against.
#ifndef TALC_TESTS_CAPTURED_H
#define TALC_TESTS_CAPTURED_H

#include "talc.h"

/// The graph of a module, or the test fails.
talc_graph *captured(talc_module *module, const talc_tensor *example);

/// Passes when both are there and have the same shape and bits, on whatever devices. `what` says which they are.
void assert_same(const char *what, const talc_tensor *a, const talc_tensor *b);

#endif
