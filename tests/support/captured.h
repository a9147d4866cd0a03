/// Captured forward passes.
#ifndef TALC_TESTS_CAPTURED_H
#define TALC_TESTS_CAPTURED_H

#include "talc.h"

/// The graph of a module, or the test fails.
talc_graph *captured(talc_module *module, const talc_tensor *example);

#endif
