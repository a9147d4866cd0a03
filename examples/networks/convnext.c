/* ConvNeXt: Liu, Mao, Wu, Feichtenhofer, Darrell and Xie 2022, "A ConvNet for the 2020s", arXiv
 * 2201.03545: depthwise 7x7 convolutions, each followed by two linear layers on the channels of a
 * pixel. */
#include "families.h"
#include "layers.h"

static const struct {
    int64_t width, depth;
} tiny[] = { { 96, 3 }, { 192, 3 }, { 384, 9 }, { 768, 3 } };

enum { STAGES = sizeof tiny / sizeof *tiny, BLOCKS = 18 };

#define CHANNELS_LAST  TALC_DIMS(0, 2, 3, 1)
#define CHANNELS_FIRST TALC_DIMS(0, 3, 1, 2)

// ---- Between [N,C,H,W] and [N,H,W,C] ------------------------------------------------------------

typedef struct permutation {
    talc_module base;
    talc_dims axes;
} permutation;

static bool permutation_init(talc_module *module, const void *options)
{
    ((permutation *)module)->axes = *(const talc_dims *)options;
    return true;
}

static talc_tensor *permutation_forward(talc_module *module, talc_tensor *x)
{
    return talc_permute(x, ((permutation *)module)->axes);
}

static const talc_module_class permutation_class = { .name = "Permute",
                                                     .size = sizeof(permutation),
                                                     .init = permutation_init,
                                                     .forward = permutation_forward };

// ---- Layer norm of the channels of a pixel, of [N,C,H,W] ----------------------------------------

static const double EPS = 1e-6;

typedef struct pixel_norm {
    talc_module base;
    talc_tensor *weight, *bias;
} pixel_norm;

static talc_tensor *parameter(talc_module *module, const char *name, talc_dims dims, double value)
{
    return talc_module_parameter(module, name,
                                 talc_full(talc_device_get("cpu"), TALC_F32, dims, value));
}

static bool pixel_norm_init(talc_module *module, const void *options)
{
    const int64_t channels = *(const int64_t *)options;
    pixel_norm *self = (pixel_norm *)module;
    self->weight = parameter(module, "weight", TALC_DIMS(channels), 1);
    self->bias = parameter(module, "bias", TALC_DIMS(channels), 0);
    return !talc_failed();
}

static talc_tensor *pixel_norm_forward(talc_module *module, talc_tensor *x)
{
    const pixel_norm *self = (const pixel_norm *)module;
    talc_tensor *y =
        talc_layer_norm(talc_permute(x, CHANNELS_LAST), TALC_DIMS(self->weight->dims[0]),
                        self->weight, self->bias, &(talc_norm_options){ .eps = EPS });
    return talc_permute(y, CHANNELS_FIRST);
}

static const talc_module_class pixel_norm_class = { .name = "LayerNorm2d",
                                                    .size = sizeof(pixel_norm),
                                                    .init = pixel_norm_init,
                                                    .forward = pixel_norm_forward };

static talc_module *norm_of(int64_t channels)
{
    return talc_module_new(&pixel_norm_class, &channels);
}

// ---- A block: y = x + layer_scale * block(x) ----------------------------------------------------

typedef struct block {
    talc_module base;
    talc_module *block, *stochastic_depth;
    talc_tensor *layer_scale;
} block;

typedef struct block_of {
    int64_t width;
    double drop;
} block_of;

static bool block_init(talc_module *module, const void *options)
{
    const block_of *o = options;
    block *self = (block *)module;
    self->layer_scale = parameter(module, "layer_scale", TALC_DIMS(o->width, 1, 1), 1e-6);
    talc_module *depthwise = talc_nn_conv2d(&(talc_conv2d_layer){ .in_channels = o->width,
                                                                  .out_channels = o->width,
                                                                  .kernel = { 7, 7 },
                                                                  .padding = { 3, 3 },
                                                                  .groups = o->width });
    talc_module *norm = talc_nn_layer_norm(
        &(talc_layer_norm_layer){ .normalised = { 1, { o->width } }, .eps = EPS });
    self->block = talc_module_add(
        module, "block",
        TALC_SEQUENTIAL(depthwise, talc_module_new(&permutation_class, &CHANNELS_LAST), norm,
                        linear(o->width, 4 * o->width), talc_nn_gelu(),
                        linear(4 * o->width, o->width),
                        talc_module_new(&permutation_class, &CHANNELS_FIRST)));
    self->stochastic_depth =
        talc_module_add(module, "stochastic_depth", talc_nn_drop_path(o->drop));
    return !talc_failed();
}

static talc_tensor *block_forward(talc_module *module, talc_tensor *x)
{
    const block *self = (const block *)module;
    talc_tensor *y = talc_mul(talc_forward(self->block, x), self->layer_scale);
    return talc_add(talc_forward(self->stochastic_depth, y), x);
}

static const talc_module_class block_class = {
    .name = "CNBlock", .size = sizeof(block), .init = block_init, .forward = block_forward
};

// ---- The network --------------------------------------------------------------------------------

/* Its kernel is as large as its stride. */
static talc_module *downsampling(int64_t in, int64_t out, int64_t size)
{
    return talc_nn_conv2d(&(talc_conv2d_layer){ .in_channels = in,
                                                .out_channels = out,
                                                .kernel = { size, size },
                                                .stride = { size, size } });
}

static talc_module *make(const void *config, int64_t channels, int64_t classes)
{
    (void)config;
    talc_module *features = talc_nn_sequential(), *net = talc_nn_sequential();
    int made = 0;
    for (int i = 0; i < STAGES; i++) {
        const int64_t width = tiny[i].width;
        talc_nn_sequential_append(
            features, i == 0 ? TALC_SEQUENTIAL(downsampling(channels, width, 4), norm_of(width))
                             : TALC_SEQUENTIAL(norm_of(tiny[i - 1].width),
                                               downsampling(tiny[i - 1].width, width, 2)));
        talc_module *stage = talc_nn_sequential_append(features, talc_nn_sequential());
        for (int64_t k = 0; k < tiny[i].depth; k++)
            talc_nn_sequential_append(
                stage,
                talc_module_new(&block_class, &(block_of){ width, 0.1 * made++ / (BLOCKS - 1) }));
    }
    const int64_t last = tiny[STAGES - 1].width;
    talc_module_add(net, "features", features);
    talc_module_add(net, "avgpool", talc_nn_adaptive_avg_pool2d(1, 1));
    talc_module_add(net, "classifier",
                    TALC_SEQUENTIAL(norm_of(last), talc_nn_flatten(), linear(last, classes)));
    return net;
}

const talc_network convnext_networks[] = {
    { "convnext_tiny", "ConvNeXt-T: arXiv 2201.03545", { 3, 224, 224 }, 1000, make, NULL },
    { 0 },
};
