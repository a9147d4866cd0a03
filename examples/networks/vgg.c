/* VGG: Simonyan and Zisserman 2014, "Very deep convolutional networks for large-scale image
 * recognition", arXiv 1409.1556, configurations A, D and E. */
#include "families.h"
#include "layers.h"

/* Convolutions of 3x3 before each of five poolings. */
typedef struct vgg_config {
    int convs[5];
} vgg_config;

static talc_module *features(const vgg_config *config, int64_t channels)
{
    static const int64_t widths[] = { 64, 128, 256, 512, 512 };
    talc_module *chain = talc_nn_sequential();
    for (int stage = 0; stage < 5; stage++) {
        for (int i = 0; i < config->convs[stage]; i++, channels = widths[stage]) {
            talc_nn_sequential_append(chain, conv_bias(channels, widths[stage], 3, 1));
            talc_nn_sequential_append(chain, talc_nn_relu());
        }
        talc_nn_sequential_append(chain, max_pool(2, 2, 0));
    }
    return chain;
}

static talc_module *make(const void *config, int64_t channels, int64_t classes)
{
    talc_module *net = talc_nn_sequential();
    talc_module_add(net, "features", features(config, channels));
    talc_module_add(net, "avgpool", talc_nn_adaptive_avg_pool2d(7, 7));
    talc_module_add(net, "flatten", talc_nn_flatten());
    talc_module_add(net, "classifier",
                    TALC_SEQUENTIAL(linear(512 * 7 * 7, 4096), talc_nn_relu(), talc_nn_dropout(0.5),
                                    linear(4096, 4096), talc_nn_relu(), talc_nn_dropout(0.5),
                                    linear(4096, classes)));
    return net;
}

#define VGG(name, what, ...)                                                                       \
    {                                                                                              \
        name, what ": arXiv 1409.1556", { 3, 224, 224 }, 1000, make, &(const vgg_config)           \
        {                                                                                          \
            {                                                                                      \
                __VA_ARGS__                                                                        \
            }                                                                                      \
        }                                                                                          \
    }

const talc_network vgg_networks[] = {
    VGG("vgg11", "VGG, configuration A", 1, 1, 2, 2, 2),
    VGG("vgg16", "VGG, configuration D", 2, 2, 3, 3, 3),
    VGG("vgg19", "VGG, configuration E", 2, 2, 4, 4, 4),
    { 0 },
};
