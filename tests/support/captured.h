/// Captured forward passes.
#ifndef TALC_TESTS_CAPTURED_H
#define TALC_TESTS_CAPTURED_H

#include "talc.h"

typedef talc_tensor *forward_function(talc_tensor *x);

/// A module in evaluation mode, without parameters, that does this.
talc_module *module_of(forward_function *forward);

/// The graph of a module, or the test fails.
talc_graph *captured(talc_module *module, const talc_tensor *example);

#endif
