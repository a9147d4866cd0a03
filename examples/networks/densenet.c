/* DenseNet: Huang, Liu, van der Maaten and Weinberger 2016, "Densely connected convolutional networks", arXiv 1608.06993,
 * with bottlenecks of 128 channels, a growth of 32 and transitions that halve the channels (DenseNet-BC). */
#include "families.h"
#include "layers.h"

#include <stdio.h>

enum { GROWTH = 32, BOTTLENECK = 4 * GROWTH };

typedef struct densenet_config {
    int layers[4]; /* of each block */
} densenet_config;

/* Its result is x with GROWTH channels more. */
static talc_module *dense_layer(int64_t in)
{
    talc_module *layer = block_new((block_options){ .concat = true });
    block_add(layer, "norm1", norm(in));
    block_add(layer, "relu1", talc_nn_relu());
    block_add(layer, "conv1", conv(in, BOTTLENECK, 1, 1, 1));
    block_add(layer, "norm2", norm(BOTTLENECK));
    block_add(layer, "relu2", talc_nn_relu());
    block_add(layer, "conv2", conv(BOTTLENECK, GROWTH, 3, 1, 1));
    return layer;
}

static talc_module *transition(int64_t in)
{
    talc_module *chain = talc_nn_sequential();
    talc_module_add(chain, "norm", norm(in));
    talc_module_add(chain, "relu", talc_nn_relu());
    talc_module_add(chain, "conv", conv(in, in / 2, 1, 1, 1));
    talc_module_add(chain, "pool",
                    talc_nn_avg_pool2d(&(talc_pool2d_options){ .kernel = { 2, 2 } }));
    return chain;
}

static talc_module *make(const void *densenet, int64_t channels, int64_t classes)
{
    const densenet_config *config = densenet;
    talc_module *net = talc_nn_sequential();
    talc_module *features = talc_module_add(net, "features", talc_nn_sequential());
    talc_module_add(features, "conv0", conv(channels, 64, 7, 2, 1));
    talc_module_add(features, "norm0", norm(64));
    talc_module_add(features, "relu0", talc_nn_relu());
    talc_module_add(features, "pool0", max_pool(3, 2, 1));
    int64_t in = 64;
    char name[32];
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "denseblock%d", i + 1);
        talc_module *dense = talc_module_add(features, name, talc_nn_sequential());
        for (int j = 0; j < config->layers[i]; j++, in += GROWTH) {
            snprintf(name, sizeof name, "denselayer%d", j + 1);
            talc_module_add(dense, name, dense_layer(in));
        }
        if (i == 3)
            break;
        snprintf(name, sizeof name, "transition%d", i + 1);
        talc_module_add(features, name, transition(in));
        in /= 2;
    }
    talc_module_add(features, "norm5", norm(in));
    talc_module_add(net, "relu", talc_nn_relu());
    add_head(net, "classifier", in, classes);
    return net;
}

#define DENSENET(name, what, ...)                                                                  \
    {                                                                                              \
        name, what ": arXiv 1608.06993", { 3, 224, 224 }, 1000, make, &(const densenet_config)     \
        {                                                                                          \
            {                                                                                      \
                __VA_ARGS__                                                                        \
            }                                                                                      \
        }                                                                                          \
    }

const network densenet_networks[] = {
    DENSENET("densenet121", "DenseNet-121", 6, 12, 24, 16),
    DENSENET("densenet201", "DenseNet-201", 6, 12, 48, 32),
    { 0 },
};
