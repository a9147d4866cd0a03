/* AlexNet, as torchvision has it: the one-column form of Krizhevsky 2014, "One weird trick for
 * parallelizing convolutional neural networks", arXiv 1404.5997, after Krizhevsky, Sutskever and
 * Hinton 2012. */
#include "families.h"
#include "layers.h"

static const struct {
    int64_t out, kernel, stride, padding;
    bool pool;
} convs[] = { { 64, 11, 4, 2, true },
              { 192, 5, 1, 2, true },
              { 384, 3, 1, 1, false },
              { 256, 3, 1, 1, false },
              { 256, 3, 1, 1, true } };

static talc_module *features(int64_t channels)
{
    talc_module *chain = talc_nn_sequential();
    for (size_t i = 0; i < sizeof convs / sizeof *convs; i++) {
        const int64_t k = convs[i].kernel, s = convs[i].stride, p = convs[i].padding;
        const talc_conv2d_layer layer = { .in_channels = i == 0 ? channels : convs[i - 1].out,
                                          .out_channels = convs[i].out,
                                          .kernel = { k, k },
                                          .stride = { s, s },
                                          .padding = { p, p } };
        talc_nn_sequential_append(chain, talc_nn_conv2d(&layer));
        talc_nn_sequential_append(chain, talc_nn_relu());
        if (convs[i].pool)
            talc_nn_sequential_append(chain, max_pool(3, 2, 0));
    }
    return chain;
}

static talc_module *make(const void *config, int64_t channels, int64_t classes)
{
    (void)config;
    talc_module *net = talc_nn_sequential();
    talc_module_add(net, "features", features(channels));
    talc_module_add(net, "avgpool", talc_nn_adaptive_avg_pool2d(6, 6));
    talc_module_add(net, "flatten", talc_nn_flatten());
    talc_module_add(net, "classifier",
                    TALC_SEQUENTIAL(talc_nn_dropout(0.5), linear(256 * 6 * 6, 4096), talc_nn_relu(),
                                    talc_nn_dropout(0.5), linear(4096, 4096), talc_nn_relu(),
                                    linear(4096, classes)));
    return net;
}

const talc_network alexnet_networks[] = {
    { "alexnet", "AlexNet: Krizhevsky 2014, arXiv 1404.5997", { 3, 224, 224 }, 1000, make, NULL },
    { 0 },
};
