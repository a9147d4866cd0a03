/// The networks of examples/networks as commands use them: by name, with weights of a file, on images.
#ifndef TALC_TOOLS_MODELS_H
#define TALC_TOOLS_MODELS_H

#include "examples/networks/networks.h"
#include "tools/tool.h"

/// The network of that name; NULL, without a failure, when there is none.
const network *model_find(const char *name);

/// The same for an argument: a usage error that lists the names when there is none.
const network *model_argument(struct argp_state *state, const char *name);

/// A network with random weights, or those of a safetensors file; all names that do not fit are listed on stderr. `classes` 0: its own.
talc_module *model_new(const network *self, int64_t classes, const char *weights);

/// Random images for a network, on the CPU.
talc_tensor *model_images(const network *self, int64_t batch);

/// What a pixel of 0 .. 1 becomes: (pixel - mean) / deviation. `given`: they were asked for.
typedef struct model_pixels {
    double mean[3], deviation[3];
    bool given;
} model_pixels;

/// The network's input, on the CPU: "2x3x64x64" for random images of that shape, X.npy, or a PNG file, which must have the network's own
/// size, and whose pixels are normalised by ImageNet's statistics if they have 3 channels and no others are given, `pixels` NULL or not. NULL: `batch`
/// random images.
talc_tensor *model_input(const network *self, const char *text, int64_t batch,
                         const model_pixels *pixels);

/// The reference rows of those ops of a network that have others, "conv2d=reference,linear=reference", for talc_check_model; NULL with a
/// failure. To be freed.
char *model_references(talc_module *model, talc_tensor *x);

#endif
