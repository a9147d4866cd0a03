/// A tensor of a model, of what its file says. Private to onnx/.
#ifndef TALC_ONNX_TENSORS_H
#define TALC_ONNX_TENSORS_H

#include "onnx/build.h"
#include "onnx/onnx.pb.h"

/// Checks a tensor and finds its elements, which stay where they are, or are in `memory` where they
/// are stored as wider numbers. False with a failure that names `label`.
bool talc_onnx_make_tensor(talc_onnx_model *model, talc_onnx_arena *memory, talc_onnx_files *files,
                           const talc_proto_Tensor *from, const char *label,
                           talc_onnx_tensor *tensor);

#endif
