/// The steps from a file's messages to a talc_onnx_model. Private to onnx/.
#ifndef TALC_ONNX_BUILD_H
#define TALC_ONNX_BUILD_H

#include "onnx/arena.h"
#include "onnx/files.h"
#include "onnx/model.h"

/// A failure that names the model.
#define TALC_ONNX_FAIL(status, model, format, ...)                                                 \
    talc_fail(status, "onnx_load: '%s': " format, TALC_SHOWN((model)->path), __VA_ARGS__)

/// A node in a message: "node '/conv1/Conv' (Conv)", "node 12 (Conv)" where it has no name.
#define TALC_ONNX_LABEL (2 * TALC_SHOWN_TEXT + 16)
const char *talc_onnx_node_label(const talc_onnx_model *model, int node,
                                 char text[TALC_ONNX_LABEL]);

/// What a file says of a tensor.
struct _talc_proto_Tensor;
bool talc_onnx_make_tensor(talc_onnx_model *model, talc_onnx_arena *memory, talc_onnx_files *files,
                           const struct _talc_proto_Tensor *from, const char *label,
                           talc_onnx_tensor *tensor);

/// Checks that names are unique and that every value is made; leaves out inputs that are
/// initialisers, and sorts nodes that come before what they use. What it works with is in
/// `temporary`.
bool talc_onnx_check_graph(talc_onnx_model *model, talc_onnx_arena *temporary);

#endif
