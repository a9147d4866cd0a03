/// The tree of modules that a file becomes. Private to onnx/.
#ifndef TALC_ONNX_TREE_H
#define TALC_ONNX_TREE_H

#include "onnx/graph.h"

/// Adds a step's module, whose ownership passes: where its parameters are, where the node's name
/// says, or below the root. False with a failure.
bool talc_onnx_place(talc_module *root, const talc_onnx_graph *graph, talc_onnx_step *step,
                     talc_module *module);

/// Registers all initialisers that steps read and that are no constants, under their names, and
/// reads them. False with a failure.
bool talc_onnx_register(talc_module *root, talc_onnx_graph *graph);

#endif
