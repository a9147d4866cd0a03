/// Networks from ONNX files.
///
///     talc_module *net = talc_onnx_load(talc_device_get("cuda"), "resnet18.onnx", NULL);
///     talc_tensor *y = talc_forward(net, images);
///
/// What comes of a file is a module like any other (nn/module.h), in evaluation mode. Its
/// parameters have their names in the file, which are PyTorch's where PyTorch wrote it: fc.weight
/// is parameter "weight" of module "fc". Convolutions, linear maps, norms, activations and pooling
/// are modules of their own, under the path of their parameters where these tell one; neighbours
/// are fused as nn/fuse.h says.
///
/// Served are opsets 9 to 23 in f32 and f64, weights inside the file or beside it. Shapes that
/// follow from the shape of the input (Shape, Gather, Concat, Reshape ...) are worked out on the
/// host when an input of a new shape comes, and kept for the next of that shape. So any extent may
/// vary that the network lets vary.
#ifndef TALC_ONNX_ONNX_H
#define TALC_ONNX_ONNX_H

#include "../nn/module.h"

TALC_BEGIN_DECLARATIONS

/// Zero, or NULL for it all, is the default.
typedef struct talc_onnx_options {
    bool frozen; ///< parameters ask for no gradients; talc_module_require_grad changes that
} talc_onnx_options;

/// The network of a file, with its weights, on a device; the caller frees it by talc_module_free.
/// NULL on failure: NULL, a file that cannot be read or breaks the format (names path and node or
/// tensor), an opset other than 9 to 23, types other than float, double, int32, int64, uint8 and
/// bool, operators that talc does not run, all of which one message lists before a weight is read,
/// no memory. talc_forward on it fails, beside what ops fail with, where the file asks for more
/// than one input, and in a recording (talc_capture) where no pass of that shape ran before.
TALC_API talc_module *talc_onnx_load(talc_device *device, const char *path,
                                     const talc_onnx_options *options);

/// How many inputs and outputs a network of a file has, and their names, which last as long as it.
/// 0 and NULL for another module and for an index past them.
TALC_API int talc_onnx_input_count(const talc_module *module);
TALC_API int talc_onnx_output_count(const talc_module *module);
TALC_API const char *talc_onnx_input_name(const talc_module *module, int index);
TALC_API const char *talc_onnx_output_name(const talc_module *module, int index);

/// The shape that the file gives an input or output; -1 for an extent that it leaves open. Rank 0
/// for another module, an index past them, and where the file gives none.
TALC_API talc_dims talc_onnx_input_dims(const talc_module *module, int index);
TALC_API talc_dims talc_onnx_output_dims(const talc_module *module, int index);

/// A forward pass with all inputs, in the file's order, to all outputs, which belong to the scope
/// that is open. talc_forward is the same with one input, and gives the first output. False with a
/// failure: NULL, a module that is not of a file, another number of inputs or outputs than the file
/// has, and what ops fail with.
TALC_API bool talc_onnx_run(talc_module *module, talc_tensor *const inputs[], int input_count,
                            talc_tensor *outputs[], int output_count);

/// Writes a module as an ONNX file of opset 17, which other programs run: what one forward pass on
/// `example` runs in evaluation mode, with weights inside the file under their paths. Batch norms
/// are folded into the convolutions before them, as in a pass; then a weight is called constant_1
/// and so on. The first dimension is left open as "batch" where the result has the same, the others
/// are the example's; of an example of one image the pass takes two, which tells the batch from
/// other dimensions of one index. Modes, buffers and parameters stay as they are. The old file
/// stays whole until the new one is complete. Errors: NULL, an example that is not f32 or f64, an
/// op that the format has no operators for or talc writes none (names it), a tensor that several
/// ops wrote other than side by side, a file of 2^31 bytes, what the pass and writing fail with, no
/// memory.
TALC_API bool talc_onnx_save(talc_module *module, const talc_tensor *example, const char *path);

TALC_END_DECLARATIONS

#endif
