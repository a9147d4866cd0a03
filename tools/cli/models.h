/// The networks of examples/networks as commands use them: by name, with weights of a file, on
/// images.
#ifndef TALC_TOOLS_CLI_MODELS_H
#define TALC_TOOLS_CLI_MODELS_H

#include <talc/networks.h>
#include "tools/cli/tool.h"

/// The network of that name, or of that ONNX file; NULL, without a failure unless a file cannot be
/// run, when there is none.
const talc_network *model_find(const char *name);

/// A new module of a network that was found; NULL with a failure.
talc_module *model_make(const talc_network *self, const talc_network_options *options);

/// What becomes of an image from a file. It is resized, then cropped, as is asked for; where
/// neither is, a network for ImageNet whose weights do not say a size takes the middle of its own
/// size from an image whose shorter side is made 256, or its own side where that is more, as
/// torchvision's networks do, and every other network an image of its own size. Images are resized
/// bilinearly, those of EfficientNet bicubically, as torchvision does. A pixel of 0 .. 1 becomes
/// (pixel - mean) / deviation. Numbers that were not given are those of the weights' file, else
/// ImageNet's if there are 3 channels, else 0 and 1.
typedef struct model_pixels {
    talc_image_size resize, crop; ///< zero: not given
    double mean[3], deviation[3];
    int mean_count, deviation_count; ///< how many were given: 0, 1 for all channels, 3
} model_pixels;

/// The arguments that commands for a network share; each begins its own with them.
typedef struct model_arguments {
    tool_options tool;
    const talc_network *network;
    const char *weights; ///< a safetensors file; NULL: random ones
    const char
        *input;    ///< "2x3x64x64" for random images of that shape, X.npy, or a PNG or JPEG file
    int64_t batch; ///< without an input: random images
    bool batch_given;
    int64_t seed;
    int64_t classes; ///< 0: the network's own
    model_pixels pixels;
} model_arguments;

/// The network that the file of weights says it is of; NULL, without a failure, when it does not
/// say one.
const talc_network *model_find_by_weights(const model_arguments *self);

/// Ends the command, as tool_usage does: says what keeps the file of weights from naming a network.
void model_fail_by_weights(const struct argp_state *state, const model_arguments *self);

/// The keys of two of their options; a command lists the ones that it has, with their help.
enum { MODEL_INPUT = 'x', MODEL_BATCH = 'n' };

/// The parser of a tool_syntax for these two and the name of one network.
error_t model_parse(int key, char *argument, struct argp_state *state);

/// The network, on the CPU, with as many classes as its weights say unless the arguments do; all
/// names that do not fit its weights are listed on stderr.
talc_module *model_new(const model_arguments *self);

/// Whether the input is a file of images, and not the shape of random ones.
bool model_input_is_file(const model_arguments *self);

/// Whether its weights are random: of no file.
bool model_is_random(const model_arguments *self);

/// The file of its weights, in the caller's buffer, "its own" of an ONNX file, or "random".
const char *model_weights(const model_arguments *self, char text[TALC_SHOWN_TEXT]);

/// Random images for a network, on the CPU: of an ONNX file as many as it has to have, or what its
/// input is. NULL, with a failure, where the file leaves an extent open that is not of images.
talc_tensor *model_images(const talc_network *self, int64_t batch);

/// The network's input, on the CPU.
talc_tensor *model_input(const model_arguments *self, const talc_module *model);

/// One image for it, of a PNG or JPEG file, on the CPU.
talc_tensor *model_image(const model_arguments *self, const talc_module *model, const char *path);

/// The network and its input on the device that is asked for, made with the seed. False with a
/// failure; the network is to be freed in any case.
bool model_open(const model_arguments *self, talc_module **model, talc_tensor **x);

/// tool_usage_talc after a pass over x, NULL where there was none: a failure of shapes is told with
/// the sizes where x has not the network's own.
int model_usage(const model_arguments *self, const talc_tensor *x);

/// The reference algorithms of those ops of a network that have others,
/// "conv2d=reference,linear=reference", for talc_check_model; NULL with a failure. To be freed.
char *model_references(talc_module *model, talc_tensor *x);

#endif
