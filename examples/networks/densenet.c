/* DenseNet: Huang, Liu, van der Maaten and Weinberger 2016, "Densely connected convolutional
 * networks", arXiv 1608.06993, with bottlenecks of 128 channels, a growth of 32 and transitions
 * that halve the channels (DenseNet-BC). */
#include "families.h"
#include "layers.h"

#include <stdio.h>

enum { GROWTH = 32, BOTTLENECK = 4 * GROWTH, MAX = 48 };

// ---- Dense block: each layer reads the features of all before it and adds GROWTH of its own -----

typedef struct dense_block {
    talc_module base;
    int count;
    talc_module *layers[MAX];
} dense_block;

typedef struct dense_block_options {
    int64_t in;
    int layers;
} dense_block_options;

static talc_module *dense_layer(int64_t in)
{
    talc_module *layer = talc_nn_sequential();
    talc_module_add(layer, "norm1", norm(in));
    talc_module_add(layer, "relu1", talc_nn_relu());
    talc_module_add(layer, "conv1", conv(in, BOTTLENECK, 1, 1, 1));
    talc_module_add(layer, "norm2", norm(BOTTLENECK));
    talc_module_add(layer, "relu2", talc_nn_relu());
    talc_module_add(layer, "conv2", conv(BOTTLENECK, GROWTH, 3, 1, 1));
    return layer;
}

static bool init(talc_module *module, const void *options)
{
    const dense_block_options *o = options;
    dense_block *self = (dense_block *)module;
    char name[32];
    for (self->count = 0; self->count < o->layers; self->count++) {
        snprintf(name, sizeof name, "denselayer%d", self->count + 1);
        self->layers[self->count] =
            talc_module_add(module, name, dense_layer(o->in + self->count * GROWTH));
    }
    return !talc_failed();
}

/* The backward pass needs what each layer read as it was, so every layer gets a tensor of its
 * own. */
static talc_tensor *concatenated(const dense_block *self, talc_tensor *x)
{
    for (int i = 0; i < self->count; i++) {
        talc_tensor *before = x, *y = talc_forward(self->layers[i], x);
        x = talc_concat((const talc_tensor *[]){ before, y }, 2, 1);
        talc_release(y);
        if (i > 0)
            talc_release(before);
    }
    return x;
}

/* Without one, all features have their place in one tensor from the start, of which a layer reads
 * the first channels and writes the next ones, so that none is copied for every layer after it. */
static talc_tensor *in_place(const dense_block *self, talc_tensor *x)
{
    int64_t C = x->dims[1];
    talc_tensor *all =
        talc_empty(x->device, x->dtype,
                   TALC_DIMS(x->dims[0], C + self->count * GROWTH, x->dims[2], x->dims[3]));
    talc_copy(talc_slice(all, 1, 0, C, 1), x);
    for (int i = 0; i < self->count; i++, C += GROWTH) {
        talc_tensor *y = talc_forward(self->layers[i], talc_slice(all, 1, 0, C, 1));
        talc_copy(talc_slice(all, 1, C, C + GROWTH, 1), y);
        talc_release(y);
    }
    return all;
}

static talc_tensor *forward(talc_module *module, talc_tensor *x)
{
    return (talc_grad_enabled() ? concatenated : in_place)((const dense_block *)module, x);
}

static const talc_module_class dense_block_class = {
    .name = "DenseBlock", .size = sizeof(dense_block), .init = init, .forward = forward
};

// ---- The network --------------------------------------------------------------------------------

typedef struct densenet_config {
    int layers[4]; /* of each block */
} densenet_config;

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
        const dense_block_options block = { in, config->layers[i] };
        snprintf(name, sizeof name, "denseblock%d", i + 1);
        talc_module_add(features, name, talc_module_new(&dense_block_class, &block));
        in += block.layers * GROWTH;
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

const talc_network densenet_networks[] = {
    DENSENET("densenet121", "DenseNet-121", 6, 12, 24, 16),
    DENSENET("densenet201", "DenseNet-201", 6, 12, 48, 32),
    { 0 },
};
