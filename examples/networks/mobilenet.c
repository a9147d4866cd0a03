/* MobileNet V1: Howard and others 2017, arXiv 1704.04861: depthwise separable convolutions, a row of the table each. */
#include "families.h"
#include "layers.h"

static talc_module *v1_features(int64_t channels)
{
    static const struct {
        int64_t out, stride;
    } rows[] = { { 64, 1 },  { 128, 2 },  { 128, 1 }, { 256, 2 }, { 256, 1 },
                 { 512, 2 }, { 512, 1 },  { 512, 1 }, { 512, 1 }, { 512, 1 },
                 { 512, 1 }, { 1024, 2 }, { 1024, 1 } };
    talc_module *chain = talc_nn_sequential();
    talc_nn_sequential_append(chain, conv_norm(channels, 32, 3, 2, 1, talc_nn_relu()));
    int64_t in = 32;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; in = rows[i++].out) {
        talc_nn_sequential_append(chain, conv_norm(in, in, 3, rows[i].stride, in, talc_nn_relu()));
        talc_nn_sequential_append(chain, conv_norm(in, rows[i].out, 1, 1, 1, talc_nn_relu()));
    }
    return chain;
}

static talc_module *make_v1(const void *config, int64_t channels, int64_t classes)
{
    (void)config;
    talc_module *net = talc_nn_sequential();
    talc_module_add(net, "features", v1_features(channels));
    add_head(net, "classifier", 1024, classes);
    return net;
}

const network mobilenet_networks[] = {
    { "mobilenet_v1", "MobileNet V1: arXiv 1704.04861", { 3, 224, 224 }, 1000, make_v1, NULL },
    { 0 },
};
