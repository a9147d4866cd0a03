/* ResNet-20 for 32x32 colour images (CIFAR-10), [N,3,32,32] -> [N,10], and for others: any channels, sizes and classes.
 *
 * He, Zhang, Ren and Sun 2015, "Deep residual learning for image recognition", arXiv 1512.03385, section 4.2. Where a
 * block halves the image and doubles the channels, its shortcut takes every second pixel and either fills the new
 * channels with zeros (option A, 269,722 parameters) or is a 1x1 convolution (option B, 272,474). */
#ifndef TALC_EXAMPLES_RESNET20_H
#define TALC_EXAMPLES_RESNET20_H

#include <talc/talc.h>

typedef enum { RESNET20_OPTION_A, RESNET20_OPTION_B } resnet20_shortcut;

static inline talc_module *resnet20_conv(int64_t in, int64_t out, int64_t kernel, int64_t stride)
{
    return talc_nn_conv2d(&(talc_conv2d_layer){
        .in_channels = in,
        .out_channels = out,
        .kernel = { kernel, kernel },
        .stride = { stride, stride },
        .padding = { kernel / 2, kernel / 2 },
        .no_bias = true, /* batch norm has one */
    });
}

static inline talc_module *resnet20_bn(int64_t channels)
{
    return talc_nn_batch_norm2d(&(talc_batch_norm2d_layer){ .channels = channels });
}

// ---- Option A's shortcut: a module without parameters -------------------------------------------------------

typedef struct {
    talc_module base;
    int64_t new_channels;
} zero_shortcut;

static bool zero_shortcut_init(talc_module *module, const void *options)
{
    ((zero_shortcut *)module)->new_channels = *(const int64_t *)options;
    return true;
}

static talc_tensor *zero_shortcut_forward(talc_module *module, talc_tensor *x)
{
    /* Averages of one pixel each: one kernel in either direction. */
    talc_tensor *y =
        talc_avg_pool2d(x, &(talc_pool2d_options){ .kernel = { 1, 1 }, .stride = { 2, 2 } });
    talc_dims dims = talc_dims_of(y);
    dims.dim[1] = ((zero_shortcut *)module)->new_channels / 2;
    talc_tensor *zeros = talc_zeros(x->device, x->dtype, dims);
    return talc_concat((const talc_tensor *[]){ zeros, y, zeros }, 3, 1);
}

static const talc_module_class zero_shortcut_class = {
    .name = "ZeroShortcut",
    .size = sizeof(zero_shortcut),
    .init = zero_shortcut_init,
    .forward = zero_shortcut_forward,
};

// ---- A block: y = relu(shortcut(x) + bn2(conv2(relu(bn1(conv1(x)))))) ---------------------------------------

typedef struct {
    int64_t in, out, stride;
    resnet20_shortcut shortcut;
} basic_block_options;

typedef struct {
    talc_module base;
    talc_module *conv1, *bn1, *conv2, *bn2, *shortcut;
} basic_block;

static inline talc_module *basic_block_shortcut(const basic_block_options *options)
{
    if (options->stride == 1 && options->in == options->out)
        return talc_nn_identity();
    if (options->shortcut == RESNET20_OPTION_A)
        return talc_module_new(&zero_shortcut_class, &(int64_t){ options->out - options->in });
    return TALC_SEQUENTIAL(resnet20_conv(options->in, options->out, 1, options->stride),
                           resnet20_bn(options->out));
}

static bool basic_block_init(talc_module *module, const void *block_options)
{
    basic_block *self = (basic_block *)module;
    const basic_block_options *options = block_options;
    self->conv1 = talc_module_add(module, "conv1",
                                  resnet20_conv(options->in, options->out, 3, options->stride));
    self->bn1 = talc_module_add(module, "bn1", resnet20_bn(options->out));
    self->conv2 = talc_module_add(module, "conv2", resnet20_conv(options->out, options->out, 3, 1));
    self->bn2 = talc_module_add(module, "bn2", resnet20_bn(options->out));
    self->shortcut = talc_module_add(module, "shortcut", basic_block_shortcut(options));
    return !talc_failed();
}

/* Two chains: in evaluation mode each is one convolution, batch norm folded in, with ReLU and shortcut as its last steps; in train
 * mode these are the last steps of the batch norm. */
static talc_tensor *basic_block_forward(talc_module *module, talc_tensor *x)
{
    basic_block *self = (basic_block *)module;
    talc_chain_end relu = { .activation = TALC_ACTIVATION_RELU };
    talc_tensor *y = talc_forward_chain(TALC_CHAIN(self->conv1, self->bn1), x, &relu);
    relu.residual = talc_forward(self->shortcut, x);
    return talc_forward_chain(TALC_CHAIN(self->conv2, self->bn2), y, &relu);
}

static const talc_module_class basic_block_class = {
    .name = "BasicBlock",
    .size = sizeof(basic_block),
    .init = basic_block_init,
    .forward = basic_block_forward,
};

// ---- The network --------------------------------------------------------------------------------------------

typedef struct {
    resnet20_shortcut shortcut;
    int64_t channels, classes; /* 0: 3 and 10 */
} resnet20_options;

typedef struct {
    talc_module base;
    talc_module *conv1, *bn1, *layer1, *layer2, *layer3, *pool, *flatten, *linear;
} resnet20;

/* Three blocks, of which the first changes the channels and the size. */
static inline talc_module *resnet20_layer(int64_t in, int64_t out, int64_t stride,
                                          resnet20_shortcut shortcut)
{
    talc_module *layer = talc_nn_sequential();
    for (int i = 0; i < 3; i++) {
        basic_block_options options = { i == 0 ? in : out, out, i == 0 ? stride : 1, shortcut };
        talc_nn_sequential_append(layer, talc_module_new(&basic_block_class, &options));
    }
    return layer;
}

static bool resnet20_init(talc_module *module, const void *resnet_options)
{
    resnet20 *self = (resnet20 *)module;
    const resnet20_options *options = resnet_options;
    resnet20_shortcut shortcut = options->shortcut;
    int64_t channels = options->channels == 0 ? 3 : options->channels;
    int64_t classes = options->classes == 0 ? 10 : options->classes;
    self->conv1 = talc_module_add(module, "conv1", resnet20_conv(channels, 16, 3, 1));
    self->bn1 = talc_module_add(module, "bn1", resnet20_bn(16));
    self->layer1 = talc_module_add(module, "layer1", resnet20_layer(16, 16, 1, shortcut));
    self->layer2 = talc_module_add(module, "layer2", resnet20_layer(16, 32, 2, shortcut));
    self->layer3 = talc_module_add(module, "layer3", resnet20_layer(32, 64, 2, shortcut));
    self->pool = talc_module_add(module, "pool", talc_nn_adaptive_avg_pool2d(1, 1));
    self->flatten = talc_module_add(module, "flatten", talc_nn_flatten());
    self->linear = talc_module_add(
        module, "linear",
        talc_nn_linear(&(talc_linear_layer){ .in_features = 64, .out_features = classes }));
    return !talc_failed();
}

static talc_tensor *resnet20_forward(talc_module *module, talc_tensor *x)
{
    resnet20 *self = (resnet20 *)module;
    x = talc_forward_chain(TALC_CHAIN(self->conv1, self->bn1), x,
                           &(talc_chain_end){ .activation = TALC_ACTIVATION_RELU });
    x = talc_forward(self->layer1, x); /* [N,16,32,32] */
    x = talc_forward(self->layer2, x); /* [N,32,16,16] */
    x = talc_forward(self->layer3, x); /* [N,64,8,8] */
    x = talc_forward(self->flatten, talc_forward(self->pool, x));
    return talc_forward(self->linear, x);
}

static const talc_module_class resnet20_class = {
    .name = "ResNet20",
    .size = sizeof(resnet20),
    .init = resnet20_init,
    .forward = resnet20_forward,
};

static inline talc_module *resnet20_new(resnet20_shortcut shortcut)
{
    return talc_module_new(&resnet20_class, &(resnet20_options){ .shortcut = shortcut });
}

#endif
