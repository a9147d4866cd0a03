/// Captured forward passes.
#ifndef TALC_TESTS_CAPTURED_H
#define TALC_TESTS_CAPTURED_H

#include "talc.h"

typedef talc_tensor *forward_function(talc_module *module, talc_tensor *x);

/// A module in evaluation mode, without parameters, that does this; `kind` is filled in and outlives it.
talc_module *module_of(talc_module_class *kind, forward_function *forward);

/// The graph of a module, or the test fails.
talc_graph *captured(talc_module *module, const talc_tensor *example);

#endif
