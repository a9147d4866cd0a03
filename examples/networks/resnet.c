/* ResNet: He, Zhang, Ren and Sun 2015, "Deep residual learning for image recognition", arXiv
 * 1512.03385, with the stride of a bottleneck in its 3x3 convolution, as torchvision has it. */
#include "families.h"
#include "layers.h"

typedef struct resnet_config {
    int blocks[4]; /* of each stage */
    bool bottleneck;
} resnet_config;

/* One block from `in` channels; `width` is that of its 3x3 convolutions, and a bottleneck has four
 * times as many at its end. */
static talc_module *residual(int64_t in, int64_t width, int64_t stride, bool bottleneck)
{
    const int64_t out = bottleneck ? 4 * width : width;
    talc_module *block = block_new((block_options){ TALC_ACTIVATION_RELU, false });
    block_add(block, "conv1",
              bottleneck ? conv(in, width, 1, 1, 1) : conv(in, width, 3, stride, 1));
    block_add(block, "bn1", norm(width));
    block_add(block, "relu1", talc_nn_relu());
    block_add(block, "conv2", conv(width, width, 3, bottleneck ? stride : 1, 1));
    block_add(block, "bn2", norm(width));
    if (bottleneck) {
        block_add(block, "relu2", talc_nn_relu());
        block_add(block, "conv3", conv(width, out, 1, 1, 1));
        block_add(block, "bn3", norm(out));
    }
    if (stride > 1 || in != out)
        block_shortcut(block, "downsample",
                       TALC_SEQUENTIAL(conv(in, out, 1, stride, 1), norm(out)));
    return block;
}

static talc_module *make(const void *resnet, int64_t channels, int64_t classes)
{
    static const char *const names[] = { "layer1", "layer2", "layer3", "layer4" };
    const resnet_config *config = resnet;
    talc_module *net = talc_nn_sequential();
    talc_module_add(net, "conv1", conv(channels, 64, 7, 2, 1));
    talc_module_add(net, "bn1", norm(64));
    talc_module_add(net, "relu", talc_nn_relu());
    talc_module_add(net, "maxpool", max_pool(3, 2, 1));
    int64_t in = 64;
    for (int stage = 0; stage < 4; stage++) {
        const int64_t width = 64 << stage;
        talc_module *layer = talc_module_add(net, names[stage], talc_nn_sequential());
        for (int i = 0; i < config->blocks[stage]; i++) {
            const int64_t stride = stage > 0 && i == 0 ? 2 : 1;
            talc_nn_sequential_append(layer, residual(in, width, stride, config->bottleneck));
            in = config->bottleneck ? 4 * width : width;
        }
    }
    add_head(net, "fc", in, classes);
    return net;
}

#define RESNET(name, what, bottleneck, ...)                                                        \
    {                                                                                              \
        name, what ": arXiv 1512.03385", { 3, 224, 224 }, 1000, make, &(const resnet_config)       \
        {                                                                                          \
            { __VA_ARGS__ }, bottleneck                                                            \
        }                                                                                          \
    }

const talc_network resnet_networks[] = {
    RESNET("resnet18", "ResNet of basic blocks", false, 2, 2, 2, 2),
    RESNET("resnet34", "ResNet of basic blocks", false, 3, 4, 6, 3),
    RESNET("resnet50", "ResNet of bottlenecks", true, 3, 4, 6, 3),
    RESNET("resnet101", "ResNet of bottlenecks", true, 3, 4, 23, 3),
    { 0 },
};
