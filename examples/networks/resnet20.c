/* ResNet-20 for 32x32 colour images (CIFAR-10), [N,3,32,32] -> [N,10], and for others: any
 * channels, sizes and classes.
 *
 * He, Zhang, Ren and Sun 2015, "Deep residual learning for image recognition", arXiv 1512.03385,
 * section 4.2. Where a block halves the image and doubles the channels, its shortcut takes every
 * second pixel and either fills the new channels with zeros (option A, 269,722 parameters) or is a
 * 1x1 convolution (option B, 272,474). */
#include "families.h"
#include "layers.h"

// ---- Option A's shortcut: a module without parameters -------------------------------------------

typedef struct zero_shortcut {
    talc_module base;
    int64_t new_channels;
} zero_shortcut;

static bool init(talc_module *module, const void *options)
{
    ((zero_shortcut *)module)->new_channels = *(const int64_t *)options;
    return true;
}

static talc_tensor *forward(talc_module *module, talc_tensor *x)
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
    .name = "ZeroShortcut", .size = sizeof(zero_shortcut), .init = init, .forward = forward
};

// ---- The network --------------------------------------------------------------------------------

static talc_module *shortcut(int64_t in, int64_t out, bool option_b)
{
    return option_b ? TALC_SEQUENTIAL(conv(in, out, 1, 2, 1), norm(out))
                    : talc_module_new(&zero_shortcut_class, &(int64_t){ out - in });
}

static talc_module *residual(int64_t in, int64_t out, bool option_b)
{
    talc_module *block = block_new((block_options){ TALC_ACTIVATION_RELU, false });
    block_add(block, "conv1", conv(in, out, 3, in == out ? 1 : 2, 1));
    block_add(block, "bn1", norm(out));
    block_add(block, "relu", talc_nn_relu());
    block_add(block, "conv2", conv(out, out, 3, 1, 1));
    block_add(block, "bn2", norm(out));
    if (in != out)
        block_shortcut(block, "shortcut", shortcut(in, out, option_b));
    return block;
}

static talc_module *make(const void *option_b, int64_t channels, int64_t classes)
{
    static const char *const names[] = { "layer1", "layer2", "layer3" };
    talc_module *net = talc_nn_sequential();
    talc_module_add(net, "conv1", conv(channels, 16, 3, 1, 1));
    talc_module_add(net, "bn1", norm(16));
    talc_module_add(net, "relu", talc_nn_relu());
    int64_t in = 16;
    for (int stage = 0; stage < 3; stage++) {
        talc_module *layer = talc_module_add(net, names[stage], talc_nn_sequential());
        for (int i = 0; i < 3; i++, in = 16 << stage)
            talc_nn_sequential_append(layer, residual(in, 16 << stage, *(const bool *)option_b));
    }
    add_head(net, "linear", in, classes);
    return net;
}

const talc_network resnet20_networks[] = {
    { "resnet20",
      "ResNet-20, option A: arXiv 1512.03385, section 4.2",
      { 3, 32, 32 },
      10,
      make,
      &(const bool){ false } },
    { "resnet20-b", "ResNet-20, option B", { 3, 32, 32 }, 10, make, &(const bool){ true } },
    { 0 },
};
